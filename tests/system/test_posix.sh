# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# The checks of posix_checks.py hold on the kernel's ext4, and so they do here.
here=$(dirname "${BASH_SOURCE[0]}")
mkimage "$T/img" 512M -I 256
kernel_mount "$T/img" "$T/k"
python3 "$here/posix_checks.py" "$T/k" || fail "the kernel itself fails a check"
umount "$T/k"
for bs in 4096 1024; do
	mkimage "$T/img" 512M -I 256 -b $bs -N 20000
	start "$T/img"
	python3 "$here/posix_checks.py" "$MNT" || fail "block size $bs"
	stop
	check "$T/img"
done
