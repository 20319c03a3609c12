#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
# raid.sh LEVEL DISKS CHUNK_K SIZE_MB FS...: dd of SIZE_MB onto an md array in a guest, with what the members of the array saw of it.
# FS: ext4, fuse2fs, ext4d, each with mount options if wanted (ext4d:write_bump=contig). One JSON line for each; progress goes to
# stderr. EXT4D_BUILD: the build folder, default build/release. Needs root.
. "$(dirname "$0")/lib.sh"
[ $# -ge 5 ] || { sed -n '3,5p' "$0"; exit 2; }
level=$1 disks=$2 size=$4
rig_setup uml
build=$(cd "${EXT4D_BUILD:-$TOP/build/release}" && pwd)
parity=1
[ "$level" != 6 ] || parity=2
work=$(mktemp -d "${TMPDIR:-/tmp}/ext4d-raid.XXXXXX")
trap 'rm -rf "$work"' EXIT
args=()
for ((i = 0; i < disks; i++)); do
	truncate -s $(((size * 3 / 2 + 512) / (disks - parity)))M "$work/disk$i"
	args+=(-d "$work/disk$i")
done
"$RIGS/uml.sh" -m "${EXT4D_GUEST_MB:-2048}" -t "${EXT4D_GUEST_SECONDS:-900}" "${args[@]}" -- \
	"EXT4D=$build/ext4d bash $RIGS/raid_guest.sh $*" |
	awk '/^\{/ { print; fflush(); next } { print >"/dev/stderr" }'
