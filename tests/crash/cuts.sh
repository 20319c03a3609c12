#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
# cuts.sh PROGRAM: all workloads on all cores. Too few disks, states, or samples that the kernel mounts, or a workload that is missing, is a failure, not a
# shorter test. The kernel mounts where it may: as root, with ext4 and loop devices.
set -euo pipefail
program=$1
rounds=4 cuts=450 want_disks=20000 want_states=2000 want_kernel=60
if [ "${EXT4D_TEST_FULL:-0}" != 0 ]; then rounds=30 want_disks=200000 want_kernel=500; fi
T=$(mktemp -d "${TMPDIR:-/tmp}/ext4d-cuts.XXXXXX")
trap 'rm -rf "$T"' EXIT
seed=${EXT4D_SEED:-1000}
n=$(nproc) rc=0 pids=()

# can_mount: may this user mount an ext4 image in a mount namespace of its own
can_mount() {
	[ "$(id -u)" -eq 0 ] || return 1
	truncate -s 1M "$T/probe"
	mke2fs -q -F -t ext4 "$T/probe" >/dev/null 2>&1 || return 1
	unshare -m --propagation private mount -o loop "$T/probe" /mnt 2>/dev/null
}
prefix=() where=()
if can_mount; then
	prefix=(unshare -m --propagation private)
else
	echo "the kernel mounts nothing: not root, or no ext4 or loop devices"
	want_kernel=0
fi
for ((i = 0; i < n; i++)); do
	if [ ${#prefix[@]} -gt 0 ]; then
		mkdir "$T/mnt$i"
		where=(-k "$T/mnt$i")
	fi
	"${prefix[@]}" "$program" -s "$seed" -n "$cuts" -r "$rounds" -j "$i/$n" "${where[@]}" >"$T/$i" 2>&1 &
	pids+=($!)
done
for p in "${pids[@]}"; do wait "$p" || rc=1; done
for ((i = 0; i < n; i++)); do cat "$T/$i"; done >"$T/all"
grep -v ' blocks replayed up to ' "$T/all" || true

# sum WORDS: of the numbers before these words in the last lines
sum() { awk -v words="$1" '/^cut: / { if (match($0, "[0-9]+ " words)) s += substr($0, RSTART) } END { print s + 0 }' "$T/all"; }
disks=$(sum disks) states=$(sum "different states") kernel=$(sum "mounted by the kernel")
runs=$(grep -cE ' [1-9][0-9]* commits +[1-9][0-9]* acknowledged$' "$T/all" || true)
want_runs=$(($("$program" -L | wc -l) * rounds))
echo "$disks disks, $states different states, $kernel mounted by the kernel, $runs runs"
[ "$rc" -eq 0 ] || exit 1
[ "$runs" -eq "$want_runs" ] || { echo "$want_runs runs were due"; exit 1; }
[ "${kernel:-0}" -ge "$want_kernel" ] || { echo "fewer than $want_kernel mounted by the kernel"; exit 1; }
[ "${disks:-0}" -ge "$want_disks" ] || { echo "fewer than $want_disks disks"; exit 1; }
[ "${states:-0}" -ge "$want_states" ] || { echo "fewer than $want_states states"; exit 1; }
