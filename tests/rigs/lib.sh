# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash disable=SC2034
# Sourced by the scripts of tests/rigs. Guests are made of Debian packages that are unpacked, never installed, under $RIG.
set -euo pipefail
RIGS=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
TOP=$(cd "$RIGS/../.." && pwd)
RIG=${EXT4D_RIGS:-$TOP/build/rigs}
mkdir -p "$RIG"
RIG=$(cd "$RIG" && pwd)
HOSTLIB=usr/lib/$(uname -m)-linux-gnu

skip() {
	echo "skipped: $*"
	exit 77
}

fail() {
	echo "FAIL: $*" >&2
	exit 1
}

# rig_setup PART...: what setup.sh makes, or a skip where it cannot be had
rig_setup() {
	local part
	for part in "$@"; do
		[ -e "$RIG/$part.ready" ] || "$RIGS/setup.sh" "$part" >"$RIG/setup-$part.log" 2>&1 || {
			tail -n 5 "$RIG/setup-$part.log"
			skip "the packages for '$part' guests cannot be had"
		}
	done
}

# triplet ARCH
triplet() {
	case $1 in
	amd64) echo x86_64-linux-gnu ;;
	arm64) echo aarch64-linux-gnu ;;
	armhf) echo arm-linux-gnueabihf ;;
	*) fail "architecture $1: amd64, arm64 or armhf" ;;
	esac
}

# guest_wait WORK PID NAME: the guest's exit status; 124 after a time-out, 125 if it died
guest_wait() {
	local q=0
	wait "$2" || q=$?
	if [ -s "$1/rc" ]; then
		q=$(cat "$1/rc")
	else
		echo "$3: the guest gave no status (exit $q)" >&2
		tail -n 20 "$1/console" >&2
		[ "$q" -eq 124 ] || q=125
	fi
	return "$q"
}
