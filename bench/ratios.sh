#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
# ext4d beside kernel ext4, fuse2fs and the raw device in one interleaved run on a loop device over a fully written file. Root.
#   ratios.sh [--rounds N] [--mib N] [--peers ext4,fuse2fs,raw] [--creates "N ..."]
# Prints a table of medians and ratios; the null FUSE server (bench/nullfs.c) is measured for the creates.
. "$(dirname "$0")/lib.sh"
rounds=5 mib=1024 peers=ext4,fuse2fs,raw creates="20000 262144"
while [ $# -gt 0 ]; do
	case $1 in
	--rounds) rounds=$2; shift ;;
	--mib) mib=$2; shift ;;
	--peers) peers=$2; shift ;;
	--creates) creates=$2; shift ;;
	*) sed -n '3,6p' "$0"; exit 2 ;;
	esac
	shift
done
[ "$(id -u)" -eq 0 ] || { echo "ratios.sh needs root: loop devices and mounts"; exit 1; }
setup
cmake --build "$BUILD" --target bench_creates bench_nullfs >/dev/null
scratch
img=$WORK/disk.img mnt=$WORK/mnt
mkdir "$mnt"
echo "writing the device's backing file ($((mib * 2 + 1024)) MiB) ..."
dd if=/dev/zero of="$img" bs=1M count=$((mib * 2 + 1024)) conv=fsync status=none
loop=$(losetup -f --show --direct-io=on "$img")
: >"$WORK/results"

seconds() { # seconds COMMAND...: wall seconds
	local a b
	a=$(date +%s%N)
	"$@" >/dev/null 2>&1
	b=$(date +%s%N)
	echo $(((b - a) / 1000)) | awk '{ printf "%.6f", $1 / 1e6 }'
}
record() { echo "$1 $2 $3" >>"$WORK/results"; } # TEST PEER VALUE (higher is better)
drop() { sync; echo 3 >/proc/sys/vm/drop_caches; }

mount_peer() {
	mkfs.ext4 -q -F -E lazy_itable_init=0,lazy_journal_init=0 "$loop" 2>/dev/null
	case $1 in
	ext4) mount -t ext4 "$loop" "$mnt" ;;
	fuse2fs) fuse2fs -o rw,allow_other,default_permissions "$loop" "$mnt" >/dev/null 2>&1 ;;
	ext4d) "$EXT4D" "$loop" "$mnt" ;;
	esac
}
umount_peer() {
	case $1 in
	ext4d) "$EXT4D" -u "$mnt" ;;
	*) umount "$mnt"; while pgrep -x fuse2fs >/dev/null; do sleep 0.1; done ;;
	esac
	e2fsck -fn "$loop" >"$WORK/fsck.out" 2>&1 || { [ "$1" = fuse2fs ] || { cat "$WORK/fsck.out"; exit 1; }; }
}
mbs() { awk -v m="$mib" -v s="$1" 'BEGIN { printf "%.1f", m / s }'; }

run_peer() {
	local p=$1 n
	if [ "$p" = raw ]; then
		record dd_1m raw "$(mbs "$(seconds dd if=/dev/zero of="$loop" bs=1M count="$mib" oflag=direct conv=fsync)")"
		record read_cold raw "$(mbs "$(seconds dd if="$loop" of=/dev/null bs=1M count="$mib" iflag=direct)")"
		return
	fi
	mount_peer "$p"
	record dd_8k "$p" "$(mbs "$(seconds dd if=/dev/zero of="$mnt/a" bs=8K count=$((mib * 128)) conv=fsync)")"
	record dd_1m "$p" "$(mbs "$(seconds dd if=/dev/zero of="$mnt/b" bs=1M count="$mib" conv=fsync)")"
	umount_peer "$p"
	drop
	case $p in
	ext4) mount -t ext4 "$loop" "$mnt" ;;
	fuse2fs) fuse2fs -o rw,allow_other,default_permissions "$loop" "$mnt" >/dev/null 2>&1 ;;
	ext4d) "$EXT4D" "$loop" "$mnt" ;;
	esac
	record read_cold "$p" "$(mbs "$(seconds dd if="$mnt/a" of=/dev/null bs=1M)")"
	umount_peer "$p"
	for n in $creates; do
		[ "$p" = fuse2fs ] && [ "$n" -gt 20000 ] && continue
		mount_peer "$p"
		mkdir "$mnt/d"
		record "create_$n" "$p" "$("$BUILD/bench/bench_creates" "$mnt/d" "$n")"
		umount_peer "$p"
	done
}
run_null() {
	local n
	for n in $creates; do
		"$BUILD/bench/bench_nullfs" "$mnt" >/dev/null 2>&1 &
		while ! mountpoint -q "$mnt"; do sleep 0.05; done
		record "create_$n" null "$("$BUILD/bench/bench_creates" "$mnt" "$n")"
		umount "$mnt"
		wait
	done
}

for ((r = 1; r <= rounds; r++)); do
	for p in ext4d ${peers//,/ }; do
		echo "round $r of $rounds: $p"
		run_peer "$p"
	done
	run_null
done
losetup -d "$loop"
python3 - "$WORK/results" <<'PY'
import statistics
import sys
rows = {}
for line in open(sys.argv[1]):
    test, peer, value = line.split()
    rows.setdefault(test, {}).setdefault(peer, []).append(float(value))
print("%-14s %-9s %12s %10s %s" % ("test", "system", "median", "ext4d/it", "spread"))
for test, peers in rows.items():
    own = statistics.median(peers["ext4d"]) if "ext4d" in peers else 0
    for peer, values in peers.items():
        m = statistics.median(values)
        print("%-14s %-9s %12.1f %10.2f %.1f..%.1f" % (test, peer, m, own / m if m else 0, min(values), max(values)))
PY
