# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# The files of .ext4d, and ext4dstat on top of them.
CTL=$MNT/.ext4d
STAT=$EXT4D_BUILD/ext4dstat

mkimage "$T/img" 64M -E stride=16,stripe_width=64
start "$T/img"
for file in options stats stats.json delayed_allocation_blocks session_write_kbytes lifetime_write_kbytes \
	reserved_clusters errors_count {first,last}_error_{time,ino,block,func,line,errcode} mb_groups mb_stats \
	es_shrinker_info jbd2_info bdi writeback throttle stripes device fuse freeze trace \
	tunables/{trace_events,device_writes,writepages_budget,dirty_bytes}; do
	timeout 10 cat "$CTL/$file" >/dev/null || fail "$file cannot be read"
done
for file in first_error_line last_error_errcode errors_count; do
	[ "$(cat "$CTL/$file")" = 0 ] || fail "$file of a clean file system"
done
# Both forms of the statistics have the same names (but for buckets that a commit in between makes), each once.
cut -d' ' -f1 "$CTL/stats" | grep -v _le_ >"$T/names"
python3 -c 'import json, sys; print("\n".join(json.load(open(sys.argv[1]))))' "$CTL/stats.json" | grep -v _le_ >"$T/names.json"
grep -v '^fuse_' "$T/names" | diff - <(grep -v '^fuse_' "$T/names.json") || fail "stats and stats.json differ"
[ -z "$(sort "$T/names" | uniq -d)" ] || fail "a name comes twice: $(sort "$T/names" | uniq -d)"

# Two megabytes in one interval, made durable, on full stripes of 256 KiB.
"$STAT" -j "$MNT" 1 1000 >"$T/json" &
watcher=$!
# json_lines N: so many are there
json_lines() { [ "$(wc -l <"$T/json")" -ge "$1" ]; }
within 60 json_lines 1 || fail "ext4dstat -j is silent"
dd if=/dev/zero of="$MNT/f" bs=1M count=2 conv=fsync status=none
within 60 json_lines $(($(wc -l <"$T/json") + 2)) || fail "ext4dstat -j stops"
kill "$watcher"
wait "$watcher" 2>/dev/null || true
python3 - "$T/json" <<'PY' || fail "ext4dstat -j: $(cat "$T/json")"
import json, sys
lines = [json.loads(l) for l in open(sys.argv[1])]
assert len(lines) >= 3
total = lambda name: sum(l[name] * l["seconds"] for l in lines[1:])
near = lambda have, want: abs(have - want) <= want * 0.01 + 1
assert near(total("in_bytes_per_s"), 2 << 20), total("in_bytes_per_s")
assert total("device_bytes_per_s") >= 2 << 20
assert round(total("fsyncs_per_s")) == 1
assert round(total("commits_per_s")) >= 1
assert max(l["commit_max_ms"] for l in lines[1:]) > 0
assert any(l["full_stripe_percent"] == 100 for l in lines[1:])
assert all(l["parked"] == 0 and l["time"] > 1e9 for l in lines)
PY
"$STAT" "$MNT" 0.1 2 >"$T/text"
[ "$(wc -l <"$T/text")" = 4 ] || fail "two lines and their header: $(cat "$T/text")"
[ "$(awk 'NR > 2 { print NF }' "$T/text" | sort -u)" = 14 ] || fail "14 columns: $(cat "$T/text")"

# refused TEXT ARGUMENTS...: an error that says so
refused() {
	local text=$1
	shift
	! "$STAT" "$@" 2>"$T/err" || fail "ext4dstat $*: no error"
	grep -q -- "$text" "$T/err" || fail "ext4dstat $*: $(cat "$T/err")"
}
refused "not where an ext4d file system is mounted" "$T"
refused "not where an ext4d file system is mounted" "$T/img"
refused "No such file" "$T/none"
refused "usage:"
refused "INTERVAL must" "$MNT" 0
refused "INTERVAL must" "$MNT" 1x
refused "COUNT must" "$MNT" 1 0
refused "too many" "$MNT" 1 1 1

# It keeps the mount busy only while it takes a sample, and ends with it.
"$STAT" "$MNT" 0.5 >"$T/text" 2>"$T/err" &
watcher=$!
until [ -s "$T/text" ]; do sleep 0.05; done
for _ in $(seq 50); do
	"$EXT4D" -u "$MNT" 2>/dev/null && break
	sleep 0.1
done
! wait "$watcher" || fail "ext4dstat of what is unmounted"
grep -q "not mounted any more" "$T/err" || fail "ext4dstat after the unmount: $(cat "$T/err")"
check "$T/img"
