#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
# guest_arm.sh EXT4D: in an ARM guest, /dev/vda is mounted, written, read back with cold caches, and checked.
set -euo pipefail
ext4d=$1
modprobe -a fuse loop
mkdir -p /mnt/m
uname -rm
"$ext4d" /dev/vda /mnt/m
grep ' /mnt/m ' /proc/self/mounts
head -c 40M /dev/urandom >/tmp/data
want=$(sha256sum </tmp/data)
dd if=/tmp/data of=/mnt/m/data bs=1M conv=fsync
for i in $(seq 200); do echo "$i" >"/mnt/m/small$i"; done
mv /mnt/m/small7 /mnt/m/seven
rm /mnt/m/small8
truncate -s 10G /mnt/m/sparse
printf 'over 4 GiB' | dd of=/mnt/m/sparse bs=1 seek=5000000000 conv=notrunc status=none
chattr +A /mnt/m/seven
grep -q A < <(lsattr /mnt/m/seven)
"$ext4d" -u /mnt/m
e2fsck -fn /dev/vda

"$ext4d" /dev/vda /mnt/m
chmod 600 /mnt/m/late
[ "$(sha256sum </mnt/m/data)" = "$want" ]
[ "$(cat /mnt/m/seven)" = 7 ]
[ ! -e /mnt/m/small8 ]
[ "$(dd if=/mnt/m/sparse bs=1 skip=5000000000 count=10 status=none)" = "over 4 GiB" ]
[ "$(stat -c %s /mnt/m/sparse)" = 10737418240 ]
"$ext4d" -u /mnt/m

# The other back end
"$ext4d" /dev/vda /mnt/m -o backend=psync
[ "$(sha256sum </mnt/m/data)" = "$want" ]
cp /mnt/m/data /mnt/m/again
"$ext4d" -u /mnt/m
e2fsck -fn /dev/vda >/dev/null
echo "all as expected"
