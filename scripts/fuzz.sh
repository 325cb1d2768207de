#!/usr/bin/env bash
# Runs every fuzz target of the module, each for as long as FUZZTIME says.
set -euo pipefail
cd "$(dirname "$0")/.."
time=${FUZZTIME:-5m}
grep -rlE '^func Fuzz' --include='*_test.go' . | sort | while read -r file; do
	package=$(dirname "$file")
	sed -nE 's/^func (Fuzz[A-Za-z0-9_]*)\(.*/\1/p' "$file" | while read -r target; do
		echo "fuzz: $package $target, $time"
		go test "$package" -run '^$' -fuzz "^$target\$" -fuzztime "$time" </dev/null
	done
done
