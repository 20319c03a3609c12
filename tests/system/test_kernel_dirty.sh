# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# Logs that one implementation leaves and another replays: the kernel's by ext4d and by e2fsck, ext4d's by the kernel and by e2fsck. Equal blocks where that can be asked, equal trees, and
# nothing for e2fsck to say.
here=$(dirname "${BASH_SOURCE[0]}")
JDEV= # external journal, or empty

# 0x8004587d: EXT4_IOC_SHUTDOWN
shutdown_fs() {
	python3 - "$1" "$2" <<'PY'
import fcntl, os, struct, sys
fd = os.open(sys.argv[1], os.O_RDONLY)
fcntl.ioctl(fd, 0x8004587d, struct.pack("I", int(sys.argv[2])))
PY
}

must_be_dirty() {
	grep -q needs_recovery < <(dumpe2fs -h "$1" 2>/dev/null) || fail "the image is not dirty"
}

# same_tree FOLDER WHAT [no-folder-times]: the same tree as $a
same_tree() {
	[ "$a" = "$(tree_sum "$1" "${@:3}")" ] || fail "other tree: $2"
}

# Changes that leave something of everything in the log: $1 is the root. Descriptor 9 is open on a deleted file afterwards.
change() {
	python3 "$here/mktree.py" "$1/a" 11 120 ${SMALL:+small}
	sync -f "$1"
	python3 "$here/mktree.py" "$1/b" 12 120 ${SMALL:+small}
	rm -rf "$1/a"
	exec 9>"$1/orphan"
	head -c 300000 /dev/urandom >&9
	rm "$1/orphan"
}

replay_by_e2fsck() {
	e2fsck -fy ${JDEV:+-j "$JDEV"} "$@" >"$T/out" 2>&1 || [ $? -le 1 ] || { cat "$T/out"; fail "e2fsck $*"; }
}

# The log of $T/img, replayed by our journal layer and by e2fsprogs' (jr: e2fsck would deal with the orphans too).
same_blocks() {
	cp --sparse=always "$T/img" "$T/by-jr"
	debugfs -w -R jr "$T/by-jr" >"$T/out" 2>&1 || { cat "$T/out"; fail "debugfs jr"; }
	"$SYS/sys_replay" "$T/img" "$T/by-jr" >"$T/out" 2>&1 || { cat "$T/out"; fail "other blocks than e2fsprogs' replay writes: $1"; }
}

keep_journal() { [ -z "$JDEV" ] || dd if="$JDEV" of="$T/journal.dirty" bs=1M status=none; }
journal_again() { [ -z "$JDEV" ] || dd if="$T/journal.dirty" of="$JDEV" bs=1M conv=fsync status=none; }

# kernel_made MOUNT-OPTIONS [mkfs options]: made dirty by the kernel
kernel_made() {
	local options=$1
	shift
	mkimage "$T/img" 64M "$@"
	kernel_mount "$T/img" "$T/k" "rw,commit=300,$options"
	change "$T/k"
	shutdown_fs "$T/k" 1
	exec 9>&-
	umount "$T/k"
	must_be_dirty "$T/img"
	cp --sparse=always "$T/img" "$T/by-e2fsck"
	keep_journal
	[ -n "$JDEV" ] || same_blocks "$options $*"
	replay_by_e2fsck "$T/by-e2fsck"
	journal_again
	start "$T/img" ${JDEV:+-o "journal_path=$JDEV"}
	a=$(tree_sum "$MNT")
	stop
	check "$T/img"
	kernel_mount "$T/by-e2fsck" "$T/k"
	same_tree "$T/k" "after e2fsck's replay: $options $*"
	umount "$T/k"
	check "$T/by-e2fsck"
}

# ours MOUNT-OPTIONS [mkfs options]: made dirty by ext4d
ours() {
	local options=$1
	shift
	mkimage "$T/img" 64M "$@"
	start "$T/img" -o "commit=300,$options${JDEV:+,journal_path=$JDEV}"
	change "$MNT"
	"$EXT4D" --sync "$MNT"
	rm -rf "$MNT/b/00001"*
	mkdir "$MNT/late"
	echo late >"$MNT/late/file"
	python3 -c 'import os,sys; fd = os.open(sys.argv[1], os.O_RDONLY); os.fsync(fd)' "$MNT/late/file"
	a=$(tree_sum "$MNT")
	echo 1 >"$MNT/.ext4d/shutdown"
	exec 9>&-
	stop
	must_be_dirty "$T/img"
	cp --sparse=always "$T/img" "$T/by-e2fsck"
	cp --sparse=always "$T/img" "$T/by-kernel"
	keep_journal
	replay_by_e2fsck "$T/by-e2fsck"
	kernel_mount "$T/by-e2fsck" "$T/k" ro
	same_tree "$T/k" "e2fsck's replay of ours: $options $*"
	umount "$T/k"
	journal_again
	kernel_mount "$T/by-kernel" "$T/k"
	same_tree "$T/k" "the kernel's replay of ours: $options $*"
	umount "$T/k"
	check "$T/by-kernel"
	journal_again
	start "$T/img" ${JDEV:+-o "journal_path=$JDEV"}
	same_tree "$MNT" "our replay of ours: $options $*"
	stop
	check "$T/img"
}

# make_fast_commits all|some|few [mkfs options]: an image of the kernel's with fast commits in its log; the tree is $a.
make_fast_commits() {
	local pid what=$1
	shift
	mkimage "$T/img" 64M -J size=8,fast_commit_size=1024 "$@"
	kernel_mount "$T/img" "$T/k" rw,commit=300
	python3 "$here/fc_ops.py" "$T/k" prepare
	sync -f "$T/k"
	# The first transaction has to be a full one.
	touch "$T/k/full"
	sync -f "$T/k"
	coproc OPS { python3 "$here/fc_ops.py" "$T/k" "$what"; }
	pid=$OPS_PID
	read -r _ <&"${OPS[0]}" || fail "fc_ops.py"
	a=$(tree_sum "$T/k" no-folder-times)
	shutdown_fs "$T/k" 2
	eval "exec ${OPS[1]}>&-"
	wait "$pid" || fail "fc_ops.py"
	umount "$T/k"
	must_be_dirty "$T/img"
}

# fast_commits all|some|few RECORDS [mkfs options]: the kernel's fast commits, replayed by ext4d, give the tree that was there; replayed by the kernel and e2fsck too, where they can: Linux 6.18 fails at
# files that were deleted while open and loses those made by O_TMPFILE; e2fsck 1.47.0 fails at ranges of more than 2^31 blocks, as truncate leaves them, brings unlinked files back, and spoils the
# superblock's checksum when Linux 6.1 made them.
fast_commits() {
	local what=$1 want=$2 try records=0 rc=0
	shift 2
	# Anybody's sync(2) makes a full commit of it: then there is less to replay, and it is tried again.
	for try in 1 2 3 4 5; do
		make_fast_commits "$what" "$@"
		cp --sparse=always "$T/img" "$T/by-kernel"
		start "$T/img" -o ro 2>"$T/out"
		same_tree "$MNT" "fast commits: $*" no-folder-times
		stop
		check "$T/img"
		records=$(sed -n 's/.*: \([0-9]*\) records of fast commits replayed/\1/p' "$T/out")
		[ "${records:-0}" -lt "$want" ] || break
		[ "$try" -lt 5 ] || { cat "$T/out"; fail "only ${records:-0} records of fast commits: $*"; }
	done
	[ "$what" != all ] || return 0
	cp --sparse=always "$T/by-kernel" "$T/by-e2fsck"
	kernel_mount "$T/by-kernel" "$T/k"
	same_tree "$T/k" "the kernel's replay of its fast commits: $*" no-folder-times
	umount "$T/k"
	[ "$what" = few ] || return 0
	e2fsck -fy "$T/by-e2fsck" >"$T/out" 2>&1 || rc=$?
	if grep -q 'checksum does not match superblock while trying to re-open' "$T/out"; then
		echo "e2fsck spoils the superblock's checksum when it replays this kernel's fast commits: not compared"
		return 0
	fi
	[ "$rc" -le 1 ] || { cat "$T/out"; fail "e2fsck's replay of fast commits: $*"; }
	kernel_mount "$T/by-e2fsck" "$T/k" ro
	same_tree "$T/k" "e2fsck's replay of fast commits: $*" no-folder-times
	umount "$T/k"
}

kernel_made defaults -b 4096 -O large_dir
kernel_made defaults -b 1024 -O ^metadata_csum,sparse_super2
kernel_made defaults -b 4096 -O ^64bit,^metadata_csum,meta_bg,^resize_inode
kernel_made defaults -b 4096 -O orphan_file,metadata_csum_seed
kernel_made defaults -b 2048 -O ^extent,^64bit
SMALL=1 kernel_made journal_checksum -b 1024 -O ^metadata_csum,uninit_bg,^flex_bg -I 128
kernel_made journal_async_commit,data=writeback -b 4096
ours defaults -b 4096 -O orphan_file
ours defaults -b 1024 -O ^metadata_csum,^64bit
ours journal_async_commit,data=writeback -b 4096
ours journal_async_commit,data=writeback -b 4096 -O ^metadata_csum
if "$EXT4D" "$T/img" "$MNT" -o journal_async_commit 2>"$T/out"; then
	stop
	fail "journal_async_commit with data=ordered"
fi
grep -q 'data=writeback' "$T/out" || fail "no reason given"

truncate -s 8M "$T/journal"
JDEV=$(losetup -f --show "$T/journal")
for kind in kernel_made ours; do
	mkfs.ext4 -q -F -b 4096 -O journal_dev "$JDEV" >"$T/out" 2>&1 || { cat "$T/out"; fail "mkfs.ext4 -O journal_dev"; }
	$kind defaults -b 4096 -J "device=$JDEV"
done
losetup -d "$JDEV"
JDEV=

if [ -e /sys/fs/ext4/features/fast_commit ]; then
	fast_commits few 25 -b 4096 -O fast_commit
	fast_commits some 60 -b 4096 -O fast_commit
	fast_commits all 60 -b 1024 -O fast_commit,^metadata_csum,orphan_file
else
	echo "the kernel has no fast commits: not tested"
fi
