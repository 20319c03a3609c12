# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# Files that are open write-only for long beside cached readers: what a returned write has written is what every reader sees,
# whichever way the kernel's cache is used.
mkimage "$T/img" 256M
for cache in auto through writeback; do
	start "$T/img" -o "kernel_cache=$cache"
	"$SYS/sys_stale" "$MNT" "$([ $cache = auto ] && echo 3 || echo 1)" || fail "stale reads with kernel_cache=$cache"
	stop
	check "$T/img"
done
