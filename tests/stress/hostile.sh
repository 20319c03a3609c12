#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
# hostile.sh PROGRAM: builds small images full of structure without mounting anything, and lets PROGRAM damage and walk them.
set -euo pipefail
program=$1
# One seed is one image and one damage, today and later.
uuid=6c3e2a53-4f0e-4c51-9b3e-2f5c6f6f1a01
export E2FSPROGS_FAKE_TIME=1700000000
rounds=150
[ "${EXT4D_TEST_FULL:-0}" = 0 ] || rounds=5000
T=$(mktemp -d "${TMPDIR:-/tmp}/ext4d-hostile.XXXXXX")
trap 'rm -rf "$T"' EXIT
mkdir -p "$T/tree/dir/deep/deeper" "$T/tree/many" "$T/tree/long"
head -c 300000 /dev/zero | tr '\0' '\332' >"$T/tree/data"
head -c 100 "$T/tree/data" >"$T/tree/dir/small"
for i in $(seq 300); do : >"$T/tree/many/file-with-some-name-$i"; done
for i in $(seq 40); do : >"$T/tree/long/$(printf 'n%.0s' $(seq 150))$i"; done
for i in 1 2 3 4 5 6 7 8; do
	truncate -s $((i * 9))M "$T/tree/dir/sparse"
	head -c 4096 "$T/tree/data" >>"$T/tree/dir/sparse"
done
ln -s "$(printf 't%.0s' $(seq 300))" "$T/tree/slow-link"
ln -s short "$T/tree/fast-link"
ln "$T/tree/data" "$T/tree/hard-link"

for features in '-b 1024 -O ^metadata_csum,^resize_inode' '-b 1024 -O ^extent,^metadata_csum,^64bit,^resize_inode' \
	'-b 4096 -O ^metadata_csum,^resize_inode,^has_journal' '-b 1024'; do
	# shellcheck disable=SC2086
	mke2fs -q -F -t ext4 $features -U $uuid -E hash_seed=$uuid -N 512 -J size=1 -d "$T/tree" "$T/img" 8M 2>"$T/err" ||
		mke2fs -q -F -t ext4 $features -U $uuid -E hash_seed=$uuid -N 512 -d "$T/tree" "$T/img" 12M
	e2fsck -fyD "$T/img" >/dev/null 2>&1 || true # builds the htree of the large folder
	for i in $(seq 12); do echo "ea_set /data user.name$i value-$i"; done | debugfs -w -f - "$T/img" >/dev/null 2>&1
	echo "ea_set /dir user.big $(printf 'v%.0s' $(seq 600))" | debugfs -w -f - "$T/img" >/dev/null 2>&1
	e2fsck -fn "$T/img" >/dev/null || { echo "the image is not clean before the damage: $features"; exit 1; }
	"$program" "$T/img" 1 1 walk || { echo "the undamaged image gives errors: $features"; exit 1; }
	"$program" "$T/img" "${EXT4D_SEED:-42}" "$rounds" >"$T/out" 2>&1 ||
		{ tail -n 60 "$T/out"; echo "mkfs $features: failed at the seed above"; exit 1; }
	tail -n 1 "$T/out"
done
