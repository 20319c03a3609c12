#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
# in_namespace.sh SCRIPT: run it in a private mount namespace with a scratch folder that goes away with it.
set -euo pipefail
if [ "$(id -u)" -ne 0 ] || [ ! -c /dev/fuse ]; then
	echo "skipped: needs root and /dev/fuse"
	exit 77
fi
T=$(mktemp -d "${TMPDIR:-/tmp}/ext4d-test.XXXXXX")
chmod 755 "$T" # checks as other users walk through it
export T
rc=0
# shellcheck disable=SC2016
unshare -m --propagation private bash -c '
	. "$0/lib.sh"
	trap cleanup EXIT
	. "$1"
' "$(cd "$(dirname "$0")" && pwd)" "$1" || rc=$?
rm -rf "$T"
exit $rc
