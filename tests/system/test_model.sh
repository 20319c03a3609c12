# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# Random operations on a mounted image agree with a model in memory, over remounts, on several formats.
ops=${EXT4D_MODEL_OPS:-100000}
remount="'$EXT4D' -u '$MNT' && e2fsck -fn '$T/img' >'$T/fsck.out' 2>&1 && '$EXT4D' '$T/img' '$MNT'"

one() { # one SEED mkfs-options...
	local seed=$1
	shift
	mkimage "$T/img" 256M "$@"
	start "$T/img"
	"$SYS/sys_model" "$MNT" "$seed" "$ops" "$remount" || fail "model, seed $seed, mkfs $*"
	stop
	check "$T/img"
}
one 1 -b 4096
one 2 -b 1024
one 3 -b 4096 -O ^metadata_csum,^64bit
one 4 -b 2048 -O ^extent,^64bit
one 5 -b 4096 -I 128
