#!/bin/sh
# Makes .venv beside this file, with the packages of requirements.txt and no
# others. Does nothing when it is up to date. PYTHON chooses the interpreter.
set -eu
cd "$(dirname "$0")"

fail() {
	echo "interop/python/setup.sh: $*" >&2
	exit 1
}

# The test compares this stamp, so that packages older than their pins are noticed.
want=$(sha256sum requirements.txt) || fail "sha256sum is missing: install coreutils"
want=${want%% *}
if [ -x .venv/bin/python ] && [ "$(cat .venv/stamp 2>/dev/null)" = "$want" ] && .venv/bin/python -I -c '' 2>/dev/null; then
	exit 0
fi

python=${PYTHON:-python3}
usable() {
	"$python" -I -c 'import ensurepip, venv' 2>/dev/null
}
if ! usable; then
	help="install Python 3.11 or newer with its venv module; on Debian: apt-get install python3-venv"
	[ -z "${PYTHON:-}" ] || fail "$PYTHON cannot make a virtual environment: $help"
	if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
		fail "python3 cannot make a virtual environment: $help"
	fi
	log=$(mktemp)
	{ apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends python3-venv; } >"$log" 2>&1 || {
		cat "$log" >&2
		fail "apt-get could not install python3-venv"
	}
	rm -f "$log"
	hash -r
	usable || fail "python3 cannot make a virtual environment though python3-venv is installed: set PYTHON to another"
fi
"$python" -I -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
	fail "$("$python" --version 2>&1) is too old: the pins need Python 3.11 or newer; set PYTHON to one"

rm -rf .venv
"$python" -m venv .venv || fail "cannot make the virtual environment"
.venv/bin/python -m pip install --quiet --disable-pip-version-check --no-input --no-deps --require-hashes -r requirements.txt ||
	fail "pip could not install the pinned packages; it needs the network once"
.venv/bin/python -m pip --disable-pip-version-check check >/dev/null || fail "the pinned packages do not fit together"
echo "$want" >.venv/stamp
