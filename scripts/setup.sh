#!/usr/bin/env bash
# Installs what the tests use beside Go, and says what is missing and how to get
# it. On a fresh Debian machine, as root, it installs Debian's packages itself.
set -euo pipefail
cd "$(dirname "$0")/.."

have() { command -v "$1" >/dev/null 2>&1; }

# install PACKAGE… from Debian, where that is possible.
install() {
	if [ "$(id -u)" = 0 ] && have apt-get; then
		echo "setup: installing $*"
		local log
		log=$(mktemp)
		if ! { apt-get install -y --no-install-recommends "$@" || { apt-get update && apt-get install -y --no-install-recommends "$@"; }; } >"$log" 2>&1; then
			cat "$log" >&2
			rm -f "$log"
			return 1
		fi
		rm -f "$log"
	else
		return 1
	fi
}

missing() {
	echo "setup: $1 is missing, so $2; get it with: $3"
	if [ "${CI:-}" = true ]; then
		echo "setup: CI needs it" >&2
		exit 1
	fi
}

have go || { echo "setup: Go 1.26 is missing; see https://go.dev/dl" >&2; exit 1; }
have gcc || install gcc libc6-dev || missing "a C compiler" "'make race' cannot run" "apt-get install gcc libc6-dev"
have redis-server || install redis-server || missing "redis-server" "store/redis is not tested" "apt-get install redis-server"
postgres() { have initdb || compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null; }
postgres || install postgresql || missing "PostgreSQL" "store/postgres is not tested" "apt-get install postgresql"
have python3 || install python3 python3-venv || true
if ! have python3; then
	missing "python3" "nothing is compared with the Python SDK" "apt-get install python3 python3-venv"
elif ! interop/python/setup.sh; then
	missing "the Python SDK" "nothing is compared with it" "interop/python/setup.sh, with a way to the package index"
fi
have npm || install nodejs npm || true
if ! interop/conformance/setup.sh; then
	missing "the MCP conformance suite" "mcpsdk is not run under it" "interop/conformance/setup.sh, with npm and a way to the package registry"
fi
have chromium || have chromium-browser || have google-chrome || have google-chrome-stable || install chromium || missing "Chromium" "the page of foil lab is not tested" "apt-get install chromium"
if ! lab/setup.sh; then
	missing "TypeScript and axe-core" "the types and the accessibility of the page of foil lab are not checked" "lab/setup.sh, with npm and a way to the package registry"
fi
