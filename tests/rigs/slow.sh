#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
# slow.sh sata3|sdcard SIZE_MB FS...: dd of SIZE_MB onto a throttled disk in a qemu guest, for comparisons with the kernel where
# the host cannot throttle its own. FS and output are as for raid.sh. The guest is emulated: its CPU time is some 20 times what it
# would be, so only what the disk limits can be compared. Needs root.
. "$(dirname "$0")/lib.sh"
[ $# -ge 3 ] || { sed -n '3,5p' "$0"; exit 2; }
size=$2
case $1 in
sata3) limits=throttling.bps-write=200000000,throttling.bps-read=400000000,throttling.iops-total=8000 ;;
sdcard) limits=throttling.bps-write=20000000,throttling.bps-read=40000000,throttling.iops-write=300,throttling.iops-read=1500 ;;
*) fail "no disk '$1'" ;;
esac
shift 2
rig_setup vm
build=$(cd "${EXT4D_BUILD:-$TOP/build/release}" && pwd)
work=$(mktemp -d "${TMPDIR:-/tmp}/ext4d-slow.XXXXXX")
trap 'rm -rf "$work"' EXIT
truncate -s $((size * 3 / 2 + 512))M "$work/disk"
"$RIGS/qemu.sh" -m "${EXT4D_GUEST_MB:-1024}" -t "${EXT4D_GUEST_SECONDS:-1200}" \
	-d "$work/disk,cache=none,aio=threads,$limits" -- \
	"EXT4D=$build/ext4d bash $RIGS/raid_guest.sh 0 1 0 $size $*" |
	awk '/^\{/ { print; fflush(); next } { print >"/dev/stderr" }'
