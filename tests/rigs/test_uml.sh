#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Linux 6.1 (user-mode-linux): mounts, stale reads and sync where the kernel offers less of FUSE than today's.
. "$(dirname "$0")/lib.sh"
[ "$(id -u)" -eq 0 ] || skip "needs root"
rig_setup uml
build=$(cd "${EXT4D_BUILD:-$TOP/build/release}" && pwd)
work=$(mktemp -d "${TMPDIR:-/tmp}/ext4d-test.XXXXXX")
trap 'rm -rf "$work"' EXIT
truncate -s 64M "$work/disk"
scripts=("$RIGS/guest_sync.sh")
for name in posix stale kernel_dirty handles; do scripts+=("$TOP/tests/system/test_$name.sh"); done
"$RIGS/uml.sh" -t 900 -d "$work/disk" -- "
	modprobe -a loop fuse ext4
	export EXT4D_BUILD=$build DEV=/dev/ubda
	bad=0
	for script in ${scripts[*]}; do
		echo \"== \$script\"
		$TOP/tests/system/in_namespace.sh \$script || bad=1
	done
	exit \$bad"
