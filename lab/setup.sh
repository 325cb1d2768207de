#!/bin/sh
# Installs what the page is checked with into node_modules beside this file: the
# TypeScript compiler, which reads the types in its comments, and axe-core, which looks
# for barriers. Does nothing when it is up to date. The page itself uses neither.
set -eu
cd "$(dirname "$0")"

fail() {
	echo "lab/setup.sh: $*" >&2
	exit 1
}

want=$(cat package.json package-lock.json | sha256sum) || fail "sha256sum is missing: install coreutils"
want=${want%% *}
if [ "$(cat node_modules/.foil-stamp 2>/dev/null)" = "$want" ]; then
	exit 0
fi
command -v npm >/dev/null || fail "npm is missing: install Node with npm; on Debian: apt-get install nodejs npm"

log=$(mktemp)
# No package's own scripts are run; .npmrc says so.
npm ci --no-audit --no-fund >"$log" 2>&1 || {
	cat "$log" >&2
	rm -f "$log"
	fail "npm could not install the pinned packages; it needs the network once"
}
rm -f "$log"
node node_modules/typescript/bin/tsc --version >/dev/null || fail "the TypeScript compiler does not start"
echo "$want" >node_modules/.foil-stamp
