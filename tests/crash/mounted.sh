# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# Power cuts of real mounts: workloads on ext4d (fuseblk) over an image whose free blocks hold a pattern, its writes recorded by blk=log:. Each
# disk that a cut can leave is recovered and judged as in cuts.sh; so is, at each answered fsync, O_DSYNC write and sync(2), what was durable then.
CUT=$EXT4D_BUILD/tests/crash/crash_cut
seed=${EXT4D_SEED:-7}
rounds=2 cuts=50 want_disks=1800 want_acks=220
workloads=(append save reuse truncate fallocate dsync sync directory)
if [ "${EXT4D_TEST_FULL:-0}" != 0 ]; then
	rounds=4 cuts=200 want_disks=15000 want_acks=1500
	mapfile -t workloads < <("$CUT" -L | cut -d ' ' -f 1 | grep -v -e busy -e stream)
fi

# make_image NAME: the image of a workload, and a copy
make_image() {
	local kib mkfs
	read -r kib mkfs < <("$CUT" -L | sed -n "s/^$1 //p")
	head -c "$((kib * 1024))" /dev/zero | tr '\000' '\245' >"$T/img"
	# shellcheck disable=SC2086
	mke2fs -F -q -E nodiscard,lazy_itable_init=0,lazy_journal_init=0 $mkfs "$T/img" >"$T/mkfs.out" 2>&1 ||
		{ cat "$T/mkfs.out"; fail "mke2fs $mkfs"; }
	cp "$T/img" "$T/base"
}

run() { # run NAME
	make_image "$1"
	start "$T/img" -o "blk=log:$T/log,commit=1,noatime,dirty_writeback_centisecs=1,dirty_expire_centisecs=2"
	sync -f "$MNT"
	if ! grep -qx 'syncfs_seen 1' "$MNT/.ext4d/fuse"; then
		echo "skipped: on this kernel sync does not reach the file system"
		exit 77
	fi
	"$CUT" -s "$seed" -n "$cuts" -m "$MNT" -l "$T/log" -b "$T/base" "$1" >"$T/out" 2>"$T/err" || {
		grep -v replayed "$T/err" || true
		cat "$T/out"
		cp "$T/log" "$T/base" "${EXT4D_KEEP:-/nonexistent}" 2>/dev/null || true
		fail "$1, seed $seed"
	}
	head -n 1 "$T/out"
	disks=$((disks + $(sed -nE 's/^cut: ([0-9]+) disks.*/\1/p' "$T/out")))
	acks=$((acks + $(sed -nE 's/^.* ([0-9]+) acknowledged$/\1/p' "$T/out")))
	stop
	check "$T/img"
}

disks=0 acks=0
for ((r = 0; r < rounds; r++, seed++)); do
	for w in "${workloads[@]}"; do run "$w"; done
done
echo "$disks disks, $acks acknowledgements cut at"
[ "$disks" -ge "$want_disks" ] || fail "fewer than $want_disks disks"
[ "$acks" -ge "$want_acks" ] || fail "fewer than $want_acks acknowledgements"
