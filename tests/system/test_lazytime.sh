# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# lazytime: times that were put off are there after a shutdown that flushes the log only, once there was a reason to write them. (That they are put off is for unit tests:
# anybody's sync(2) writes them.)
mtime() { stat -c %.9Y "$1"; }

# Change the mtime of $MNT/$1 and nothing else of it.
touch_data() { printf x | dd of="$MNT/$1" conv=notrunc status=none; }

mkimage "$T/img" 64M
start "$T/img" -o lazytime,dirty_expire_centisecs=360000
for f in chmod fsync left expired; do echo 0123456789 >"$MNT/$f"; done
"$EXT4D" --sync "$MNT"
old=$(mtime "$MNT/expired")
sleep 0.02
for f in chmod fsync left; do touch_data $f; done
chmod 600 "$MNT/chmod"
python3 -c 'import os,sys; fd = os.open(sys.argv[1], os.O_RDONLY); os.fsync(fd)' "$MNT/fsync"
declare -A want
for f in chmod fsync left; do want[$f]=$(mtime "$MNT/$f"); done
# The kernel lets go of inodes that nobody has open, and the daemon writes their times.
echo 2 >/proc/sys/vm/drop_caches
exec 9<"$MNT/expired"
touch_data expired
want[expired]=$(mtime "$MNT/expired")
[ "${want[expired]}" != "$old" ] || fail "the time does not move"
echo 0 >"$MNT/.ext4d/tunables/dirtytime_expire_seconds"
echo 5 >"$MNT/.ext4d/tunables/dirty_writeback_centisecs"
within 30 grep -q '^b_dirty_time: *0$' "$MNT/.ext4d/bdi" || fail "the times stay on their list"
sleep 1
echo 1 >"$MNT/.ext4d/shutdown"
exec 9<&-
stop
start "$T/img"
for f in chmod fsync left expired; do
	[ "$(mtime "$MNT/$f")" = "${want[$f]}" ] || fail "lost time: $f"
done
stop
check "$T/img"
