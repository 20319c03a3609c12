#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
# The main job in one command: an ext4 image, mounted through ext4d, written with the block write of bonnie++
# (dd with 8 KiB blocks), looked at, unmounted and checked.
#   demo.sh [MiB to write, default 1024]
. "$(dirname "$0")/lib.sh"
mib=${1:-1024}
setup
scratch
img=$WORK/disk.img mnt=$WORK/mnt
mkdir "$mnt"
truncate -s $((mib * 3 / 2 + 512))M "$img"
mkfs.ext4 -q -F "$img"
echo "mounting a fresh ext4 image of $((mib * 3 / 2 + 512)) MiB (sparse) through ext4d"
"$EXT4D" "$img" "$mnt"

echo "writing $mib MiB in 8 KiB blocks: dd if=/dev/zero of=z.img bs=8K count=$((mib * 128)) conv=fsync"
dd if=/dev/zero of="$mnt/z.img" bs=8K count=$((mib * 128)) conv=fsync status=progress
sum=$(sha256sum <"$mnt/z.img")
want=$(head -c "${mib}M" /dev/zero | sha256sum)
[ "$sum" = "$want" ] || { echo "read back other data than was written"; exit 1; }

echo
echo "what went to the device:"
grep -E '^(write|flush) requests|^write_size_bytes' "$mnt/.ext4d/device" | sed 's/^/  /'
echo "what delayed allocation and the writeback engine did:"
grep -E '^(writepages_calls|nr_to_write_min|pages_premap|pages_mapped|handles|handle_open_ns) ' "$mnt/.ext4d/writeback" | sed 's/^/  /'
echo "  blocks still delayed: $(cat "$mnt/.ext4d/delayed_allocation_blocks")"
"$EXT4D" -u "$mnt"
extents=$(debugfs -R 'dump_extents -l /z.img' "$img" 2>/dev/null | awk '/^ *[0-9]+\// { n++ } END { print n + 0 }')
echo "  z.img ended in $extents extents"
e2fsck -fn "$img" >"$WORK/fsck.out" 2>&1 || { cat "$WORK/fsck.out"; echo "e2fsck is not content"; exit 1; }
echo "all went well: $mib MiB written, read back the same, and e2fsck -fn finds a clean file system"
