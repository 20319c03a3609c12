# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# Mounting reads a handful of blocks whatever the size of the device, and memory stays within the cache's limit.
requests() { awk '$1 ~ /read/ && $1 ~ /requests$/ { s += $2 } END { print s + 0 }' "$MNT/.ext4d/stats"; }

mkimage "$T/small" 64M
start "$T/small"
small=$(requests)
stop
mkimage "$T/large" 1T -E lazy_itable_init=1,lazy_journal_init=1
start "$T/large"
large=$(requests)
[ "$small" -gt 0 ] || fail "no reads counted"
[ "$large" -le $((small + 40)) ] || fail "mount of 1 TiB needs $large reads, of 64 MiB $small"
echo x >"$MNT/x"
stop

mkimage "$T/img" 1G
start "$T/img" -o cache=64M
dd if=/dev/zero of="$MNT/a" bs=1M count=800 conv=fsync status=none
pid=$(pgrep -f "ext4d.*$T/img" | head -n1)
rss=$(awk '/^VmRSS/ { print $2 }' "/proc/$pid/status")
[ "$rss" -le $(((64 + 64) * 1024)) ] || fail "resident memory is $rss KiB with cache=64M"
stop
check "$T/img"

# unmounting writes what is dirty and little else, whatever was read and written before
log_bytes() { # log_bytes LOG MARK: bytes written in all, and after the mark
	python3 - "$1" "$2" <<'PY'
import struct, sys
f = open(sys.argv[1], "rb")
n = struct.unpack("<QQQ", f.read(24))[2]
pos, total, after, seen = 512, 0, 0, False
for _ in range(n):
    f.seek(pos)
    sector, nr, flags, length = struct.unpack("<QQQQ", f.read(32))
    pos += 512
    if flags & 8:
        seen |= f.read(length).decode() == sys.argv[2]
    elif not flags & 4:
        pos += nr * 512
        total += nr * 512
        after += nr * 512 * seen
print(total, after)
PY
}
mkimage "$T/img" 256M
for dirty in 0 8; do
	start "$T/img" -o "blk=log:$T/log,cache=128M,commit=300,dirty_writeback_centisecs=0"
	dd if=/dev/zero of="$MNT/a" bs=1M count=60 status=none
	sync -f "$MNT"
	cat "$MNT/a" >/dev/null
	dd if=/dev/zero of="$MNT/late$dirty" bs=1M count="$dirty" status=none
	echo unmounting >"$MNT/.ext4d/mark"
	stop
	read -r total after < <(log_bytes "$T/log" unmounting)
	[ "$total" -ge $((60 << 20)) ] || fail "the log shows only $total bytes"
	[ "$after" -le $(((dirty + 2) << 20)) ] || fail "$dirty MiB dirty, $after bytes written by the unmount"
	check "$T/img"
done
