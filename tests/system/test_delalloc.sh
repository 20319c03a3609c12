# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# Delayed allocation is real: long extents, no interleaving, nothing written for files that die young, ENOSPC in write(2) only.

extents() { # extents IMAGE FILE: number of extents
	debugfs -R "dump_extents -l $2" "$1" 2>/dev/null | awk '/^ *[0-9]+\/ *[0-9]+ / { n++ } END { print n + 0 }'
}
written() { # bytes written to the device so far
	awk '/write/ && /bytes/ { s += $2 } END { printf "%d", s }' "$MNT/.ext4d/stats"
}
delayed() { cat "$MNT/.ext4d/delayed_allocation_blocks"; }

mkimage "$T/img" 1536M
start "$T/img"
dd if=/dev/zero of="$MNT/big" bs=8K count=65536 status=none
# two writers at once
dd if=/dev/zero of="$MNT/w1" bs=8K count=8192 status=none &
dd if=/dev/zero of="$MNT/w2" bs=8K count=8192 status=none
wait $!
sync -f "$MNT"
[ "$(delayed)" = 0 ] || fail "blocks delayed after sync: $(delayed)"
stop
check "$T/img"
n=$(extents "$T/img" /big)
[ "$n" -ge 1 ] && [ "$n" -le 16 ] || fail "512 MiB in $n extents"
for f in w1 w2; do
	n=$(extents "$T/img" /$f)
	[ "$n" -ge 1 ] && [ "$n" -le 16 ] || fail "64 MiB of one of two writers in $n extents"
done

# a file that dies before writeback writes no data
start "$T/img"
sync -f "$MNT"
before=$(written)
dd if=/dev/zero of="$MNT/young" bs=1M count=20 status=none
[ "$(delayed)" -gt 0 ] || fail "20 MiB written and nothing delayed"
rm "$MNT/young"
nothing_delayed() { [ "$(delayed)" = 0 ]; }
within 20 nothing_delayed || fail "reservation of a removed file stays: $(delayed)"
sync -f "$MNT"
after=$(written)
[ $((after - before)) -lt $((4 << 20)) ] || fail "$((after - before)) bytes written for a file that was removed"
stop

# full: ENOSPC in write(2), and what was accepted is there
for bs in 4096 1024; do
	mkimage "$T/full" 100M -b $bs
	start "$T/full"
	mkdir "$MNT/d"
	dd if=/dev/urandom of="$MNT/fill" bs=64K status=none 2>"$T/dd" && fail "the disk never filled"
	grep -q 'No space left' "$T/dd" || { cat "$T/dd"; fail "another error than ENOSPC"; }
	a=$(sha256sum <"$MNT/fill")
	sync -f "$MNT" || fail "sync after ENOSPC"
	rm "$MNT/fill"
	# at once: no false ENOSPC
	dd if=/dev/zero of="$MNT/again" bs=1M count=60 status=none || fail "false ENOSPC after rm"
	rm "$MNT/again"
	dd if=/dev/urandom of="$MNT/fill" bs=64K status=none 2>/dev/null || true
	a=$(sha256sum <"$MNT/fill")
	stop
	check "$T/full"
	start "$T/full"
	[ "$a" = "$(sha256sum <"$MNT/fill")" ] || fail "accepted data is not there after ENOSPC"
	[ "$(delayed)" = 0 ] || fail "reservations left"
	stop
done

# an overwrite by rename, or by O_TRUNC and close, starts the write of the delayed blocks
mkimage "$T/img" 256M -b 4096
start "$T/img" -o commit=300
dd if=/dev/zero of="$MNT/old" bs=4K count=16 status=none
sync -f "$MNT"
dd if=/dev/zero of="$MNT/new" bs=4K count=16 status=none
[ "$(delayed)" = 16 ] || fail "16 delayed blocks expected, $(delayed)"
mv "$MNT/new" "$MNT/other"
[ "$(delayed)" = 16 ] || fail "rename to a new name allocates"
mv "$MNT/other" "$MNT/old"
[ "$(delayed)" = 0 ] || fail "rename over a file leaves $(delayed) blocks delayed"
dd if=/dev/zero of="$MNT/old" bs=4K count=16 status=none
within 20 nothing_delayed || fail "close after O_TRUNC leaves $(delayed) blocks delayed"
stop
start "$T/img" -o noauto_da_alloc,commit=300
dd if=/dev/zero of="$MNT/new" bs=4K count=16 status=none
mv "$MNT/new" "$MNT/old"
[ "$(delayed)" = 16 ] || fail "noauto_da_alloc: $(delayed) blocks delayed, not 16"
stop
check "$T/img"
