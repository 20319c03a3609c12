#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
# cuts.sh PROGRAM: all workloads on all cores. Too few disks or states is a failure, not a shorter test.
set -euo pipefail
program=$1
rounds=4 cuts=450 want_disks=20000 want_states=2000
if [ "${EXT4D_TEST_FULL:-0}" != 0 ]; then rounds=30 want_disks=200000; fi
T=$(mktemp -d "${TMPDIR:-/tmp}/ext4d-cuts.XXXXXX")
trap 'rm -rf "$T"' EXIT
seed=${EXT4D_SEED:-1000}
n=$(nproc) rc=0 pids=()
for ((i = 0; i < n; i++)); do
	"$program" -s "$seed" -n "$cuts" -r "$rounds" -j "$i/$n" >"$T/$i" 2>&1 &
	pids+=($!)
done
for p in "${pids[@]}"; do wait "$p" || rc=1; done
cat "$T"/*
disks=$(sed -nE 's/^cut: ([0-9]+) disks.*/\1/p' "$T"/* | paste -sd+ | bc)
states=$(sed -nE 's/^cut: .* ([0-9]+) different states.*/\1/p' "$T"/* | paste -sd+ | bc)
echo "$disks disks, $states different states"
[ "$rc" -eq 0 ] || exit 1
[ "${disks:-0}" -ge "$want_disks" ] || { echo "fewer than $want_disks disks"; exit 1; }
[ "${states:-0}" -ge "$want_states" ] || { echo "fewer than $want_states states"; exit 1; }
