# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# A tree written by ext4d is the same tree to the kernel, and the other way round, for many formats; e2fsck is content with both.
here=$(dirname "${BASH_SOURCE[0]}")
files=${EXT4D_CROSS_FILES:-1500}

one() { # one SECTOR-SIZE mkfs-options...
	local sector=$1 dev=$T/img a b
	shift
	echo "-- mkfs.ext4 $* (sectors of $sector)"
	mkimage "$T/img" 512M -N 40000 "$@"
	if [ "$sector" != 512 ]; then
		dev=$(losetup -f --show --sector-size "$sector" "$T/img")
	fi
	# written by ext4d
	start "$dev"
	python3 "$here/mktree.py" "$MNT/a" 7 "$files" ${small128:+small}
	a=$(tree_sum "$MNT")
	stop
	check "$T/img"
	# read and written by the kernel
	mkdir -p "$T/k"
	mount -t ext4 ${dev:+$([ "$dev" = "$T/img" ] && echo -o loop)} "$dev" "$T/k"
	b=$(tree_sum "$T/k")
	[ "$a" = "$b" ] || fail "the kernel reads another tree: $a, $b"
	python3 "$here/mktree.py" "$T/k/b" 8 "$files" ${small128:+small}
	a=$(tree_sum "$T/k")
	umount "$T/k"
	# read by ext4d, then again in a fresh mount after it removed a part
	start "$dev"
	b=$(tree_sum "$MNT")
	[ "$a" = "$b" ] || fail "ext4d reads another tree than the kernel wrote: $a, $b"
	rm -rf "$MNT/a"
	a=$(tree_sum "$MNT")
	stop
	check "$T/img"
	start "$dev" -r
	b=$(tree_sum "$MNT")
	[ "$a" = "$b" ] || fail "another tree after a remount"
	stop
	[ "$dev" = "$T/img" ] || losetup -d "$dev"
}

one 512 -b 4096
small128=1 one 512 -b 1024
small128=1 one 512 -b 2048 -I 128
small128=1 one 512 -b 1024 -O ^extent,^64bit,^flex_bg
one 512 -b 4096 -O ^metadata_csum,uninit_bg
one 512 -b 4096 -O ^has_journal,sparse_super2
one 512 -b 4096 -O meta_bg,^resize_inode
one 512 -b 4096 -O metadata_csum_seed,orphan_file
one 512 -b 4096 -O ^dir_index,^metadata_csum
one 4096 -b 4096
