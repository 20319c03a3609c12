# SPDX-License-Identifier: GPL-2.0-or-later
# Sourced by every system test. $T: scratch folder. $EXT4D_BUILD: build folder.
set -euo pipefail
EXT4D=$EXT4D_BUILD/ext4d
SYS=$EXT4D_BUILD/tests/system
MNT=$T/mnt
mkdir -p "$MNT"

# Whatever happened: nothing stays mounted, no loop device and no daemon stay.
cleanup() {
	local rc=$? i dev
	set +e
	cd /
	for i in 1 2 3; do
		grep -q " $T" /proc/self/mounts || break
		awk -v t="$T" 'index($2, t) == 1 { print $2 }' /proc/self/mounts | sort -r | while read -r m; do
			umount "$m" 2>/dev/null || umount -l "$m"
		done
	done
	pkill -KILL -f "ext4d.*$T" 2>/dev/null
	losetup -n -O NAME,BACK-FILE -l | awk -v t="$T" 'index($2, t) == 1 { print $1 }' | while read -r dev; do
		losetup -d "$dev"
	done
	exit "$rc"
}

fail() {
	echo "FAIL: $*" >&2
	exit 1
}

# within SECONDS COMMAND...: true as soon as the command is; a busy machine may need long
within() {
	local end=$((SECONDS + $1))
	shift
	until "$@"; do
		[ "$SECONDS" -lt "$end" ] || return 1
		sleep 0.05
	done
}

# mkimage FILE SIZE [mkfs.ext4 options]
mkimage() {
	local file=$1 size=$2
	shift 2
	rm -f "$file"
	truncate -s "$size" "$file"
	mkfs.ext4 -q -F "$@" "$file" >"$T/mkfs.out" 2>&1 || { cat "$T/mkfs.out"; fail "mkfs.ext4 $*"; }
}

# start FILE-OR-DEVICE [ext4d options]: mount it on $MNT
start() {
	local dev=$1
	shift
	"$EXT4D" "$dev" "$MNT" "$@" || fail "ext4d $dev $*"
	mountpoint -q "$MNT" || fail "ext4d returned before the mount was usable"
}

# stop: unmount and wait for the daemon
stop() {
	"$EXT4D" -u "$MNT" || fail "ext4d -u"
}

# check FILE: e2fsck finds nothing to say
check() {
	e2fsck -fn "$1" >"$T/fsck.out" 2>&1 || { cat "$T/fsck.out"; fail "e2fsck -fn $1: not clean"; }
}

# kernel_mount FILE DIR [options]
kernel_mount() {
	mkdir -p "$2"
	mount -o "loop,${3:-rw}" -t ext4 "$1" "$2" || fail "the kernel does not mount $1"
}

# tree_sum DIR [no-folder-times]: one checksum over names, types, modes, owners, sizes, link counts, link targets, times, contents, xattrs and ACLs
tree_sum() {
	python3 "$(dirname "${BASH_SOURCE[0]}")/tree_sum.py" "$@"
}
