#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
# in_namespace.sh SCRIPT: run it in a private mount namespace with a scratch folder that goes away with it.
set -euo pipefail
if [ "$(id -u)" -ne 0 ] || [ ! -c /dev/fuse ]; then
	echo "skipped: needs root and /dev/fuse"
	exit 77
fi
# The name has our pid: what a run that was killed has left is removed by the next one.
for old in "${TMPDIR:-/tmp}"/ext4d-test.*.??????; do
	pid=${old%.*} pid=${pid##*.}
	if [ ! -d "$old" ] || [ -d "/proc/$pid" ]; then continue; fi
	losetup -n -O NAME,BACK-FILE -l | awk -v t="$old/" 'index($2, t) == 1 { print $1 }' |
		while read -r dev; do losetup -d "$dev" || true; done
	rm -rf --one-file-system "$old"
done
T=$(mktemp -d "${TMPDIR:-/tmp}/ext4d-test.$$.XXXXXX")
trap 'rm -rf "$T"' EXIT
chmod 755 "$T" # checks as other users walk through it
export T
rc=0
# shellcheck disable=SC2016
unshare -m --propagation private bash -c '
	. "$0/lib.sh"
	trap cleanup EXIT
	. "$1"
' "$(cd "$(dirname "$0")" && pwd)" "$1" || rc=$?
exit $rc
