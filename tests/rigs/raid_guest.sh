#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
# The part of raid.sh and slow.sh that runs in the guest. One disk is used as it is.
set -euo pipefail
level=$1 disks=$2 chunk=$3 size=$4
shift 4
modprobe -a ext4 fuse
members=()
for d in /dev/ubd[a-p] /dev/vd[a-p]; do
	[ ! -b "$d" ] || [ ${#members[@]} -ge "$disks" ] || members+=("$d")
done
dev=${members[0]}
if [ "$disks" -gt 1 ]; then
	dev=/dev/md0
	modprobe -a md-mod raid456 raid0
	mdadm --create "$dev" --run --quiet --assume-clean --level="$level" --raid-devices="$disks" --chunk="$chunk" \
		--metadata=1.2 --bitmap=none "${members[@]}" </dev/null
fi
mkdir -p /media

# reads, KiB read, writes, KiB written, flushes of all members together
member_counts() {
	awk -v list="${members[*]##*/}" 'BEGIN { n = split(list, a, " "); for (i = 1; i <= n; i++) member[a[i]] = 1 }
		$3 in member { r += $4; rs += $6; w += $8; ws += $10; f += $19 }
		END { print r + 0, rs / 2, w + 0, ws / 2, f + 0 }' /proc/diskstats
}

mount_fs() { # mount_fs FS OPTIONS
	case $1 in
	ext4) mount -t ext4 -o "noinit_itable${2:+,$2}" "$dev" /media ;;
	fuse2fs) fuse2fs -o "fakeroot,allow_other${2:+,$2}" "$dev" /media >/dev/null ;;
	ext4d) "$EXT4D" "$dev" /media ${2:+-o "$2"} >&2 ;;
	esac
}

umount_fs() {
	case $1 in
	ext4d) "$EXT4D" -u /media >&2 ;;
	*)
		umount /media
		while pgrep -x fuse2fs >/dev/null; do sleep 0.1; done
		;;
	esac
}

# What ext4d says of itself: a JSON object
own_counters() {
	awk '/^(wb\.)?(writepages_calls|nr_to_write_min|stripe_full|stripe_partial|stripe_rmw|mb_stripe_hits) / {
		sub(/^wb\./, "")
		printf "%s\"%s\":%s", n++ ? "," : "", $1, $2
	}' /media/.ext4d/stats /media/.ext4d/writeback
}

one() { # one FS[:OPTIONS]
	local fs=${1%%:*} options='' start end before after gone own='' fsck=0 extents
	[[ $1 != *:* ]] || options=${1#*:}
	mkfs.ext4 -q -F -E lazy_itable_init=0,lazy_journal_init=0 "$dev"
	mount_fs "$fs" "$options"
	sleep 1
	before=$(member_counts)
	start=$(date +%s%N)
	dd if=/dev/zero of=/media/f bs=1M count="$size" conv=fsync status=none
	end=$(date +%s%N)
	after=$(member_counts)
	[ "$fs" != ext4d ] || own=$(own_counters)
	umount_fs "$fs"
	gone=$(member_counts)
	e2fsck -fn "$dev" >/tmp/fsck.out 2>&1 || { fsck=$?; cat /tmp/fsck.out >&2; }
	extents=$(debugfs -R 'dump_extents -l /f' "$dev" 2>/dev/null | awk '/^ *[0-9]+\// { n++ } END { print n + 0 }')
	echo "$before $after $gone" | awk -v level="$level" -v disks="$disks" -v chunk="$chunk" -v mb="$size" -v fs="$fs" \
		-v options="$options" -v ns=$((end - start)) -v fsck="$fsck" -v extents="$extents" -v own="$own" '{
		printf "{\"level\":%d,\"disks\":%d,\"chunk_k\":%d,\"size_mb\":%d,\"fs\":\"%s\",\"options\":\"%s\",", level, disks, chunk, mb, fs, options
		printf "\"seconds\":%.3f,\"mb_s\":%.1f,", ns / 1e9, mb * 1.048576 * 1e9 / ns
		printf "\"member_reads\":%d,\"read_kib\":%d,\"member_writes\":%d,\"written_kib\":%d,\"flushes\":%d,",
			$6 - $1, $7 - $2, $8 - $3, $9 - $4, $10 - $5
		printf "\"read_percent\":%.3f,\"unmount_read_kib\":%d,\"unmount_written_kib\":%d,",
			100 * ($7 - $2) / ($9 - $4), $12 - $7, $14 - $9
		printf "\"extents\":%d,\"fsck\":%d,\"own\":{%s}}\n", extents, fsck, own }'
}

for fs in "$@"; do
	one "$fs"
done
[ "$disks" -eq 1 ] || mdadm --stop --quiet "$dev"
