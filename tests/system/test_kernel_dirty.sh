# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# A file system that the kernel left dirty (copied while mounted and synced to the log) is replayed by ext4d as e2fsck does it.
here=$(dirname "${BASH_SOURCE[0]}")

# 0x8004587d: EXT4_IOC_SHUTDOWN
shutdown_fs() {
	python3 - "$1" "$2" <<'PY'
import fcntl, os, struct, sys
fd = os.open(sys.argv[1], os.O_RDONLY)
fcntl.ioctl(fd, 0x8004587d, struct.pack("I", int(sys.argv[2])))
PY
}

one() {
	mkimage "$T/img" 128M "$@"
	kernel_mount "$T/img" "$T/k" rw,commit=300
	python3 "$here/mktree.py" "$T/k/a" 11 600
	sync -f "$T/k"
	python3 "$here/mktree.py" "$T/k/b" 12 400
	rm -rf "$T/k/a"
	exec 9>"$T/k/orphan"
	head -c 300000 /dev/urandom >&9
	rm "$T/k/orphan"
	shutdown_fs "$T/k" 1
	exec 9>&-
	umount "$T/k"
	debugfs -R 'show_super_stats -h' "$T/img" 2>/dev/null | grep -q needs_recovery || fail "the image is not dirty"
	cp --sparse=always "$T/img" "$T/by-e2fsck"
	e2fsck -fy -E journal_only "$T/by-e2fsck" >"$T/out" 2>&1 || [ $? -le 1 ] || { cat "$T/out"; fail "e2fsck journal_only"; }
	start "$T/img"
	a=$(tree_sum "$MNT")
	stop
	check "$T/img"
	kernel_mount "$T/by-e2fsck" "$T/k"
	b=$(tree_sum "$T/k")
	umount "$T/k"
	[ "$a" = "$b" ] || fail "other tree than after e2fsck's replay: $*"
	check "$T/by-e2fsck"
}
one -b 4096
one -b 1024 -O ^metadata_csum
one -b 4096 -O ^64bit,^metadata_csum
one -b 4096 -O orphan_file,metadata_csum_seed
one -b 2048 -O ^extent,^64bit
