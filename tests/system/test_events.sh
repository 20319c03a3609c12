# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# Events: each appears with the right fields, their numbers agree with the counters, readers wait and end as they should.
# Nothing is written by the clock: whatever happens is this script's doing.
CTL=$MNT/.ext4d
events() { echo "$1" >"$CTL/tunables/trace_events"; }
stat_of() { awk -v n="$1" '$1 == n { print $2 }' "$2"; }
delta() { echo $(($(stat_of "$1" "$T/after") - $(stat_of "$1" "$T/before"))); }
number() { grep -c ": $1: " "$T/events" || true; }
# field EVENT NAME: that field of each such event, one a line
field() { grep ": $1: " "$T/events" | sed -nE "s/.*[ :]$2[ =]([^ ]+).*/\\1/p"; }
sum() { awk '{ s += $1 } END { print s + 0 }'; }
agree() { [ "$2" = "$3" ] || { tail -40 "$T/events"; fail "$1: events say $2, counters $3"; }; }

grep -oE '^	(EVENT|LONG)\([a-z0-9_]+' "$(dirname "${BASH_SOURCE[0]}")/../../util/trace_events.h" |
	cut -d'(' -f2 | sort >"$T/names"
[ "$(wc -l <"$T/names")" -gt 20 ] || fail "the table of events was not found"
mkimage "$T/img" 128M -b 1024
start "$T/img" -o "commit=300,dirty_writeback_centisecs=0,dirty_bytes=1048576,dirty_background_bytes=524288,stats=$T/final"
dev=$(awk '$1 == "device" { print $2 }' "$CTL/device")
dev=$((0x$(stat -c %t "$dev"))),$((0x$(stat -c %T "$dev")))

# Off from the start: an empty file that ends at once.
[ "$(cat "$CTL/tunables/trace_events")" = none ] || fail "events are on from the start"
[ -z "$(timeout 10 cat "$CTL/trace")" ] || fail "events without any being on"
! events ext4_sync_fs,ext4_no_such_event 2>/dev/null || fail "an event that does not exist was accepted"
[ "$(cat "$CTL/tunables/trace_events")" = none ] || fail "a bad list changed something"

echo old >"$MNT/over"
"$EXT4D" --sync "$MNT"
echo 1 >"$CTL/freeze" # nothing is left to do for the second of quiet
echo 0 >"$CTL/freeze"
cat "$CTL/stats" >"$T/before"
events all
dd if=/dev/zero of="$MNT/a" bs=64k count=256 conv=fsync status=none # over the limit again and again
for i in 1 2 3; do echo "$i" >"$MNT/small$i"; done
sync "$MNT/small1" "$MNT/small2" "$MNT/small3" # preallocated blocks
dd if=/dev/zero of="$MNT/gone" bs=4k count=10 status=none
truncate -s 0 "$MNT/gone" # delayed blocks that never get a place
echo new >"$MNT/tmp"
mv "$MNT/tmp" "$MNT/over"
rm "$MNT/a"
"$EXT4D" --sync "$MNT"
echo 1 >"$CTL/freeze" # everything goes home
echo 0 >"$CTL/freeze"
events none
cat "$CTL/stats" >"$T/after"
timeout 20 cat "$CTL/trace" >"$T/events" || fail "the file does not end when all events are off"
! grep -q LOST "$T/events" || fail "$(grep LOST "$T/events")"

while read -r name; do
	[ "$(number "$name")" -gt 0 ] || fail "no event $name"
done <"$T/names"
line='^ *[^ ].*-[0-9]+ +\[[0-9]{3}\] +[0-9]+\.[0-9]{6}: [a-z0-9_]+: '
! grep -vE "$line" "$T/events" || fail "lines of another form"
[ "$(field ext4_writepages dev | sort -u)" = "$dev" ] || fail "the device is not $dev"
ino=$(stat -c %i "$MNT/over")
[ "$(field ext4_alloc_da_blocks ino | grep -cx "$ino")" -gt 0 ] || fail "rename over a file: no ext4_alloc_da_blocks of $ino"

agree writepages "$(number ext4_writepages)" "$(delta wb.writepages)"
agree "results of writepages" "$(number ext4_writepages_result)" "$(delta wb.writepages)"
agree "pages written" "$(field ext4_writepages_result pages_written | sum)" \
	"$(($(delta wb.pages_premap) + $(delta wb.pages_mapped)))"
agree fsyncs "$(number ext4_sync_file_exit)" "$(delta wb.fsyncs)"
agree syncs "$(number ext4_sync_fs)" "$(delta wb.sync_calls)"
agree commits "$(number jbd2_end_commit)" "$(delta jbd2_commits)"
agree checkpoints "$(number jbd2_checkpoint_stats)" "$(delta jbd2_checkpoints)"
agree "checkpointed blocks" "$(field jbd2_checkpoint_stats written | sum)" "$(delta jbd2_checkpoint_blocks)"
agree allocations "$(($(number ext4_mballoc_alloc) + $(number ext4_mballoc_prealloc)))" "$(delta mb_success)"
agree "freed blocks" "$(field ext4_free_blocks count | sum)" "$(delta mb_freed_blocks)"
agree "looks at the limits" "$(number global_dirty_state)" "$(delta wb.balance_full)"
agree "turns of inodes" "$(number writeback_single_inode)" "$(delta wb.flusher_inodes)"
for op in read write flush; do
	letter=$(echo "${op:0:1}" | tr rwf RWF)
	agree "$op requests" "$(grep -cE ": block_rq_issue: $dev $letter" "$T/events" || true)" "$(delta "device.$op.requests")"
	agree "$op completions" "$(grep -cE ": block_rq_complete: $dev $letter.* \[0\]$" "$T/events" || true)" \
		"$(delta "device.$op.requests")"
done
agree "bytes written" "$(sed -nE "s/.*: block_rq_issue: $dev W[A-Z]* ([0-9]+) .*/\\1/p" "$T/events" | sum)" "$(delta device.write.bytes)"
# 16 MiB, three small files, 40 KiB that were given up, and a file of one block; blocks of 1 KiB.
agree "reserved blocks" "$(field ext4_da_reserve_space reserve_blocks | sum)" $((16384 + 3 + 40 + 1))
agree "released blocks" "$(field ext4_da_release_space freed_blocks | sum)" 40

# A reader waits for events and can be killed meanwhile; a second one is turned away.
events ext4_sync_fs
cat "$CTL/trace" >"$T/pipe" &
reader=$!
for _ in $(seq 100); do
	"$EXT4D" --sync "$MNT"
	grep -q "ext4_sync_fs: dev $dev wait 1" "$T/pipe" && break
	sleep 0.1
done
grep -q "ext4_sync_fs: dev $dev wait 1" "$T/pipe" || fail "a reader that waits sees no event"
! head -c 1 "$CTL/trace" 2>/dev/null || fail "two readers"
kill "$reader"
wait "$reader" 2>/dev/null && fail "the reader was not killed"
events none

# USDT: the same names in the program's notes.
readelf -n "$EXT4D" >"$T/notes"
if grep -q stapsdt "$T/notes"; then
	awk '/Provider:/ { p = $2 } /Name:/ && p == "ext4d" { print $2 }' "$T/notes" | sort >"$T/probes"
	diff "$T/names" "$T/probes" || fail "the probes are others"
else
	echo "no USDT probes in this build"
fi

stop
check "$T/img"
python3 - "$T/final" <<'PY' || fail "the final statistics"
import json, sys
s = json.load(open(sys.argv[1]))
assert s["wb.writepages"] > 0 and s["wb.nr_dirty"] == 0 and s["delayed_allocation_blocks"] == 0, s
PY
[ "$(stat -c %a "$T/final")" = 644 ] || fail "the statistics can be changed by others"
