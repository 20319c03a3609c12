#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
# ext4d beside kernel ext4, fuse2fs and the raw device in one interleaved run on a loop device over a fully written file. Root.
#   ratios.sh [--rounds N] [--mib N] [--peers ext4,fuse2fs,raw] [--creates "N ..."] [--only dd,creates,fsync,journal] [--awake] [--one-cpu]
# Prints a table of medians and ratios; the null FUSE server (bench/nullfs.c) is measured for creates and dd of 8 KiB blocks.
# --awake: a loop of the lowest priority on each CPU keeps an idle virtual CPU from being halted, for all systems alike: waking a halted one
# can cost 100 us, and a FUSE request needs two wake-ups.
# --one-cpu: clients, and the threads that answer their requests, stay on one CPU, so that a request wakes no other: ext4d by server_cpus=,
# fuse2fs and the null server whole; what else ext4d and the kernel have to do goes on where it likes.
# fsync: appends of 8 KiB, each fsynced, by 1 and 4 threads. journal: changes of names with the journal and without it.
. "$(dirname "$0")/lib.sh"
rounds=5 mib=1024 peers=ext4,fuse2fs,raw creates="20000 262144" only=dd,creates,fsync,journal
awake=0 client=() options=() seconds_of_fsync=5 files=20000 mkfs_extra=()
while [ $# -gt 0 ]; do
	case $1 in
	--rounds) rounds=$2; shift ;;
	--mib) mib=$2; shift ;;
	--peers) peers=$2; shift ;;
	--creates) creates=$2; shift ;;
	--only) only=$2; shift ;;
	--awake) awake=1 ;;
	--one-cpu) one_cpu ;;
	*) sed -n '3,11p' "$0"; exit 2 ;;
	esac
	shift
done
[ "$(id -u)" -eq 0 ] || { echo "ratios.sh needs root: loop devices and mounts"; exit 1; }
setup
cmake --build "$BUILD" --target bench_creates bench_nullfs bench_fsyncs >/dev/null
scratch
img=$WORK/disk.img mnt=$WORK/mnt
mkdir "$mnt"
echo "writing the device's backing file ($((mib * 2 + 1024)) MiB) ..."
dd if=/dev/zero of="$img" bs=1M count=$((mib * 2 + 1024)) conv=fsync status=none
loop=$(losetup -f --show --direct-io=on "$img")
: >"$WORK/results"
if [ "$awake" = 1 ]; then
	for ((cpu = 0; cpu < $(nproc); cpu++)); do
		taskset -c "$cpu" chrt --idle 0 timeout 3600 sh -c 'while :; do :; done' &
	done
fi

seconds() { # seconds COMMAND...: wall seconds
	local a b
	a=$(date +%s%N)
	"${client[@]}" "$@" >/dev/null 2>&1
	b=$(date +%s%N)
	echo $(((b - a) / 1000)) | awk '{ printf "%.6f", $1 / 1e6 }'
}
record() { echo "$1 $2 $3" >>"$WORK/results"; } # TEST PEER VALUE (higher is better)
wanted() { [[ ,$only, == *,$1,* ]]; }
drop() { sync; echo 3 >/proc/sys/vm/drop_caches; }

umount_peer() {
	case $1 in
	ext4d) "$EXT4D" -u "$mnt" ;;
	*) umount "$mnt"; while pgrep -x fuse2fs >/dev/null; do sleep 0.1; done ;;
	esac
	e2fsck -fn "$loop" >"$WORK/fsck.out" 2>&1 || { [ "$1" = fuse2fs ] || { cat "$WORK/fsck.out"; exit 1; }; }
}
mbs() { awk -v m="$mib" -v s="$1" 'BEGIN { printf "%.1f", m / s }'; }

# mount_again PEER: after an unmount, without mkfs
mount_again() {
	case $1 in
	ext4) mount -t ext4 "$loop" "$mnt" ;;
	fuse2fs) "${client[@]}" fuse2fs -o rw,allow_other,default_permissions "$loop" "$mnt" >/dev/null 2>&1 ;;
	ext4d) "$EXT4D" "${options[@]}" "$loop" "$mnt" ;;
	esac
}
mount_peer() {
	mkfs.ext4 -q -F -E lazy_itable_init=0,lazy_journal_init=0 "${mkfs_extra[@]}" "$loop" >"$WORK/mkfs.out" 2>&1 || { cat "$WORK/mkfs.out"; exit 1; }
	mount_again "$1"
}

run_raw() {
	wanted dd || return 0
	record dd_1m raw "$(mbs "$(seconds dd if=/dev/zero of="$loop" bs=1M count="$mib" oflag=direct conv=fsync)")"
	record read_cold raw "$(mbs "$(seconds dd if="$loop" of=/dev/null bs=1M count="$mib" iflag=direct)")"
}
run_dd() { # run_dd PEER
	mount_peer "$1"
	record dd_8k "$1" "$(mbs "$(seconds dd if=/dev/zero of="$mnt/a" bs=8K count=$((mib * 128)) conv=fsync)")"
	record dd_1m "$1" "$(mbs "$(seconds dd if=/dev/zero of="$mnt/b" bs=1M count="$mib" conv=fsync)")"
	umount_peer "$1"
	drop
	mount_again "$1"
	record read_cold "$1" "$(mbs "$(seconds dd if="$mnt/a" of=/dev/null bs=1M)")"
	umount_peer "$1"
}
run_creates() { # run_creates PEER
	local n
	for n in $creates; do
		[ "$1" = fuse2fs ] && [ "$n" -gt 20000 ] && continue
		mkfs_extra=()
		[ "$n" -le 100000 ] || mkfs_extra=(-N $((n + n / 8)))
		mount_peer "$1"
		mkdir "$mnt/d"
		record "create_$n" "$1" "$("${client[@]}" "$BUILD/bench/bench_creates" "$mnt/d" "$n")"
		umount_peer "$1"
	done
	mkfs_extra=()
}
run_fsync() { # run_fsync PEER
	local n
	for n in 1 4; do
		mount_peer "$1"
		record "fsync_8k_${n}_threads" "$1" "$("${client[@]}" "$BUILD/bench/bench_fsyncs" --dir "$mnt" --threads "$n" --seconds "$seconds_of_fsync" | awk '{ print $2 }')"
		umount_peer "$1"
	done
}
run_journal() { # run_journal PEER: its name ends in _nojournal without one
	local name line
	for name in "$1" "$1_nojournal"; do
		mkfs_extra=()
		[ "$name" = "$1" ] || mkfs_extra=(-O ^has_journal)
		mount_peer "$1"
		line=$("${client[@]}" "$BUILD/bench/bench_fsyncs" --dir "$mnt" --metadata "$files")
		umount_peer "$1"
		record names_create "$name" "$(echo "$line" | awk '{ print $2 }')"
		record names_rename "$name" "$(echo "$line" | awk '{ print $4 }')"
		record names_unlink "$name" "$(echo "$line" | awk '{ print $6 }')"
	done
	mkfs_extra=()
}
run_peer() {
	if [ "$1" = raw ]; then run_raw; return; fi
	! wanted dd || run_dd "$1"
	! wanted creates || run_creates "$1"
	[ "$1" = fuse2fs ] && return # it has no journal to compare
	! wanted fsync || run_fsync "$1"
	! wanted journal || run_journal "$1"
}
start_null() {
	"${client[@]}" "$BUILD/bench/bench_nullfs" "$mnt" >/dev/null 2>&1 &
	server=$!
	while ! mountpoint -q "$mnt"; do sleep 0.05; done
}
stop_null() { umount "$mnt"; wait "$server"; }
run_null() {
	local n server
	if wanted dd; then
		start_null
		record dd_8k null "$(mbs "$(seconds dd if=/dev/zero of="$mnt/a" bs=8K count=$((mib * 128)) conv=fsync)")"
		stop_null
	fi
	wanted creates || return 0
	for n in $creates; do
		start_null
		record "create_$n" null "$("${client[@]}" "$BUILD/bench/bench_creates" "$mnt" "$n")"
		stop_null
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
print("%-20s %-15s %12s %10s %s" % ("test", "system", "median", "ext4d/it", "spread"))
for test, peers in rows.items():
    own = statistics.median(peers["ext4d"]) if "ext4d" in peers else 0
    for peer, values in peers.items():
        m = statistics.median(values)
        print("%-20s %-15s %12.1f %10.2f %.1f..%.1f" % (test, peer, m, own / m if m else 0, min(values), max(values)))
PY
