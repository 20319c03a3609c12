# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# A writer at the dirty limit of a device of 20 MB/s waits alone. Times are judged with room for a busy machine (100 ms where 5 ms is meant, 1 s where 100 ms is meant);
# the figures are printed.
value() { awk -v n="$2" '$1 == n { print $2 }' "$MNT/.ext4d/$1"; }
parked() { value throttle parked; }
wait_parked() {
	for _ in $(seq 200); do
		[ "$(parked)" -gt 0 ] && return
		sleep 0.05
	done
	fail "dd was never parked"
}

mkimage "$T/img" 600M
start "$T/img" -o "blk=model:bw=20m:qd=1,cache=64M"
dd if=/dev/urandom of="$MNT/cached" bs=256K count=1 status=none
dd if=/dev/urandom of="$MNT/cold" bs=1M count=4 conv=fsync status=none
sync -f "$MNT"
stop
start "$T/img" -o "blk=model:bw=20m:qd=1,cache=64M"
echo 8000000 >"$MNT/.ext4d/tunables/dirty_bytes"
echo 4000000 >"$MNT/.ext4d/tunables/dirty_background_bytes"
cat "$MNT/cached" >/dev/null
dd if=/dev/zero of="$MNT/stream" bs=1M count=400 status=none &
writer=$!
wait_parked

# others
out=$("$SYS/sys_latency" "$MNT" "$MNT/cached" 2) || fail "latency: $out"
echo "while dd is parked: $out"
read -r _ rounds _ lookup _ reading <<<"$out"
[ "$rounds" -gt 10 ] || fail "only $rounds rounds in 2 s"
[ "$lookup" -lt 100000 ] || fail "lookup p99 is $lookup us"
[ "$reading" -lt 100000 ] || fail "cached read p99 is $reading us"

# a cold read finds two requests of 1 MiB before it: 105 ms at 20 MB/s, and its own
t0=$(date +%s%N)
dd if="$MNT/cold" of=/dev/null bs=4K count=1 skip=700 status=none
ms=$((($(date +%s%N) - t0) / 1000000))
echo "cold read: $ms ms"
[ "$ms" -lt 1000 ] || fail "a cold read took $ms ms"

# never more than the limit and one request
dirty=$(value throttle dirty_pages)
[ "$dirty" -le $((8000000 / 4096 + 257)) ] || fail "$dirty pages dirty"

# write-out of mapped pages is never parked, however much is dirty
pauses=$(value throttle pauses)
calls=$(value throttle calls)
kill -STOP "$writer"
sleep 0.3
calls=$(value throttle calls)
python3 - "$MNT/mapped" <<'PY'
import mmap, os, sys
fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
os.ftruncate(fd, 4 << 20)
m = mmap.mmap(fd, 4 << 20)
for i in range(0, 4 << 20, 4096):
    m[i] = 65
m.flush()
PY
[ "$(value throttle calls)" = "$calls" ] || fail "write-out of mapped pages asked the throttle"
kill -CONT "$writer"

# kill -9 of a parked dd
wait_parked
t0=$(date +%s%N)
kill -KILL "$writer"
wait "$writer" 2>/dev/null || true
ms=$((($(date +%s%N) - t0) / 1000000))
echo "kill -9: $ms ms, $pauses pauses until then"
[ "$ms" -lt 1000 ] || fail "dd died $ms ms after kill -9"
[ "$(parked)" = 0 ] || { sleep 1; [ "$(parked)" = 0 ] || fail "an answer is still parked"; }

# unmount while a writer is parked: it is answered
dd if=/dev/zero of="$MNT/again" bs=1M count=400 status=none 2>/dev/null &
writer=$!
wait_parked
kill "$writer"
wait "$writer" 2>/dev/null || true
rm "$MNT/stream" "$MNT/again"
stop
check "$T/img"
