# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# In a guest with a kernel whose sync(2) does not reach a FUSE file system, by tests/system/in_namespace.sh. $DEV: a disk of
# 64 MiB. Dirty data is young at most, the mount says so once, and `ext4d --sync` puts everything on the device.
. "$(dirname "${BASH_SOURCE[0]}")/../system/lib.sh"

dirty_pages() {
	awk '$1 == "wb.nr_dirty" { print $2 }' "$MNT/.ext4d/stats"
}

# A copy of the disk as it was at one moment: until two of them are equal, for the log is emptied a second after a sync
copy_disk() {
	local i
	for ((i = 0; i < 20; i++)); do
		dd if="$DEV" of="$T/copy" bs=1M iflag=direct status=none
		dd if="$DEV" bs=1M iflag=direct status=none | cmp -s - "$T/copy" && return
	done
	fail "the disk keeps changing"
}

# What a power cut now would leave of FILE: its checksum after replay of the log, from a copy of the disk
sum_after_cut() { # sum_after_cut FILE
	copy_disk
	e2fsck -fy -E journal_only "$T/copy" >"$T/out" 2>&1 || [ $? -le 1 ] || fail "replay of the copy"
	e2fsck -fn "$T/copy" >"$T/out" 2>&1 || { cat "$T/out"; fail "the copy is not clean"; }
	debugfs -R "cat $1" "$T/copy" 2>/dev/null | sha256sum
}

mkfs.ext4 -q -F "$DEV"
"$EXT4D" "$DEV" "$MNT" -o commit=600 2>"$T/log"
[ "$(grep -c 'sync(2) cannot reach this mount' "$T/log")" -eq 1 ] || { cat "$T/log"; fail "the mount says once what sync(2) does"; }
[ "$(cat "$MNT/.ext4d/tunables/dirty_expire_centisecs")" -eq 500 ] || fail "dirty data does not expire after 5 s"

head -c 3M /dev/urandom >"$T/data"
want=$(sha256sum <"$T/data")
cat "$T/data" >"$MNT/left"
start=$SECONDS
[ "$(dirty_pages)" -gt 0 ] || fail "nothing is dirty after a write"
for ((i = 0; i < 600; i++)); do
	[ "$(dirty_pages)" -gt 0 ] || break
	sleep 0.1
done
[ "$(dirty_pages)" -eq 0 ] || fail "still dirty after a minute"
echo "written without a sync after about $((SECONDS - start)) s"

# From here on nothing is written unless somebody asks for it.
echo 60000 >"$MNT/.ext4d/tunables/dirty_expire_centisecs"
cat "$T/data" >"$MNT/synced"
sync
[ "$(dirty_pages)" -gt 0 ] || fail "sync(2) has reached the mount"
"$EXT4D" --sync "$MNT"
[ "$(dirty_pages)" -eq 0 ] || fail "dirty after ext4d --sync"
[ "$(sum_after_cut /synced)" = "$want" ] || fail "ext4d --sync did not put the file on the device"

cat "$T/data" >"$MNT/fsynced"
python3 -c 'import os, sys; os.fsync(os.open(sys.argv[1], os.O_RDONLY))' "$MNT/fsynced"
[ "$(sum_after_cut /fsynced)" = "$want" ] || fail "fsync did not put the file on the device"

cat "$T/data" >"$MNT/last"
stop
e2fsck -fn "$DEV" >"$T/out" 2>&1 || { cat "$T/out"; fail "e2fsck"; }
mkdir "$T/k"
mount -t ext4 "$DEV" "$T/k"
for f in left synced fsynced last; do
	[ "$(sha256sum <"$T/k/$f")" = "$want" ] || fail "the kernel reads another $f"
done
umount "$T/k"
