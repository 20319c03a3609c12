#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
# What cannot be measured is refused or left out with clear words, and nothing of it stays behind. Root.
. "$(dirname "$0")/lib.sh"
if [ "$(id -u)" -ne 0 ] || [ ! -c /dev/fuse ]; then
	echo "skipped: needs root and /dev/fuse"
	exit 77
fi
scratch
export TMPDIR=$WORK
loops=() rc=0
trap 'rc=$?; [ ${#loops[@]} -eq 0 ] || losetup -d "${loops[@]}"; (exit $rc); tidy_up' EXIT
run() { "$TOP/bench/run.sh" --no-install --plan --smoke --out "$WORK/out" "$@" </dev/null; }
says() { # says TEXT EXIT-CODE COMMAND...
	local want=$1 code=$2 rc=0 got
	shift 2
	got=$("$@" 2>&1) || rc=$?
	if [[ $got != *"$want"* ]] || [ "$rc" -ne "$code" ]; then
		printf 'expected "%s" and exit code %s, got %s:\n%s\n' "$want" "$code" "$rc" "$got"
		exit 1
	fi
	echo "ok: $want"
}
loop_of() { # loop_of FILE: sets $loop
	loop=$(losetup -f --show "$1")
	loops+=("$loop")
}

says "there is no such device" 2 run --device "$WORK/none"
truncate -s 256M "$WORK/disk"
says "is not a block device" 2 run --device "$WORK/disk"

loop_of "$WORK/disk"
says "not confirmed" 2 run --device "$loop"
says "model    loop device over" 0 run --device "$loop" --yes --only 000
mkfs.ext4 -q -F "$WORK/disk"
says "TYPE=ext4" 2 run --device "$loop"
mkdir "$WORK/mnt"
mount -t ext4 "$loop" "$WORK/mnt"
says "is in use" 2 run --device "$loop" --yes
umount "$WORK/mnt"

truncate -s 256M "$WORK/parts"
# A boot sector with one partition.
printf '\x00\x00\x01\x00\x83\xfe\xff\xff\x00\x08\x00\x00\x00\xf8\x07\x00' | dd of="$WORK/parts" bs=1 seek=446 conv=notrunc status=none
printf '\x55\xaa' | dd of="$WORK/parts" bs=1 seek=510 conv=notrunc status=none
loop_of "$WORK/parts"
says "has a partition table" 2 run --device "$loop" --yes
says "nothing was run" 0 run --device "$loop" --yes --over-partitions --only 000
truncate -s 16M "$WORK/small"
loop_of "$WORK/small"
says "is too small" 2 run --device "$loop" --yes

mkdir "$WORK/full"
mount -t tmpfs -o size=1m none "$WORK/full"
says "are free" 2 run --emulate ram --out "$WORK/full"
umount "$WORK/full"
says "there is no nonsense" 2 run --emulate ram --only nonsense
says "there is no xfs" 2 run --emulate ram --peers xfs

mkdir "$WORK/bin"
cp -rs /usr/bin/. "$WORK/bin"
rm -f "$WORK/bin/fuse2fs" "$WORK/bin/fio"
says "fuse2fs is left out" 0 env PATH="$WORK/bin:/usr/sbin" "$TOP/bench/run.sh" --no-install --plan --smoke --emulate ram --peers fuse2fs --out "$WORK/out"
says "fio is not installed" 0 env PATH="$WORK/bin:/usr/sbin" "$TOP/bench/run.sh" --no-install --plan --smoke --emulate ram --only fio --out "$WORK/out"
mkdir -m 777 "$WORK/user"
chmod 755 "$WORK"
says "Permission denied: give another folder" 2 setpriv --reuid 65534 --regid 65534 --clear-groups \
	"$TOP/bench/run.sh" --no-install --plan --smoke --emulate ram --out "$WORK/out"
says "a real device needs root" 2 env TMPDIR="$WORK/user" setpriv --reuid 65534 --regid 65534 --clear-groups \
	"$TOP/bench/run.sh" --no-install --plan --smoke --device "$loop" --out "$WORK/user/out"
says "not root: ext4d runs alone" 0 env TMPDIR="$WORK/user" setpriv --reuid 65534 --regid 65534 --clear-groups \
	"$TOP/bench/run.sh" --no-install --plan --smoke --emulate ram --peers ext4 --out "$WORK/user/out"
says "is older than 6.1" 0 setarch "$(uname -m)" --uname-2.6 "$TOP/bench/run.sh" --no-install --plan --smoke --emulate ram --only 000 --out "$WORK/out"
# shellcheck disable=SC2016
no_cgroup() { unshare -m --propagation private bash -c 'mount -t tmpfs none /sys/fs/cgroup && exec "$@"' _ "$@"; }
says "no cgroup v1 blkio controller" 0 no_cgroup "$TOP/bench/run.sh" --no-install --plan --smoke --emulate sata3 --only 000 --peers ext4 --out "$WORK/out"
says "so ext4d runs alone where the device is modelled; no guest either: the packages" 0 no_cgroup env EXT4D_RIGS="$WORK/none" \
	"$TOP/bench/run.sh" --no-install --plan --smoke --emulate hdd --only 000 --peers ext4 --out "$WORK/out"
mkdir "$WORK/rigs"
touch "$WORK/rigs/vm.ready"
says "000 writepages_budget: dd if=/dev/zero of=z.img bs=8K count=6144; ext4d new, ext4d old, guest, null" 0 no_cgroup env EXT4D_RIGS="$WORK/rigs" \
	"$TOP/bench/run.sh" --no-install --plan --smoke --emulate hdd --only 000 --peers ext4 --out "$WORK/out"
says "compares on md arrays in a guest" 0 run --emulate raid5 --only 000,dd --peers ext4
says "on CPU" 0 run --emulate ram --only 000 --one-cpu

for left in "$WORK"/ext4d-bench.*; do
	[ ! -e "$left" ] || { echo "$left stayed behind"; exit 1; }
done
echo "all messages are there"
