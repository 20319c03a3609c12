# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# Data, extent blocks and directories above block 2^32: written, read back, read by the kernel. The device is a sparse file of 24 TiB in memory.
mkdir "$T/ram" "$T/k"
mount -t tmpfs -o size=2G tmpfs "$T/ram"
img=$T/ram/img
mkimage "$img" 24T -b 4096 -O 64bit -J size=16 -i 1048576 -E lazy_itable_init=1,lazy_journal_init=1,nodiscard
start "$img"
# 128 inodes and 32768 blocks make a group: a folder whose inode is in such a group keeps its files there
made=0
for i in $(seq 200); do
	mkdir "$MNT/d$i"
	if [ "$(stat -c %i "$MNT/d$i")" -le $((131072 * 128)) ]; then
		rmdir "$MNT/d$i"
		continue
	fi
	made=$((made + 1))
	mv "$MNT/d$i" "$MNT/far$made"
	[ "$made" -lt 2 ] || break
done
[ "$made" -eq 2 ] || fail "no folder is in the upper third of the device"
for d in "$MNT/far1" "$MNT/far2"; do
	python3 - "$d" <<'PY'
import os, sys
os.chdir(sys.argv[1])
open("whole", "wb").write(os.urandom(300000))
with open("pieces", "wb") as f:
    for i in range(100):
        f.seek(i * 12288)
        f.write(os.urandom(4096))
for i in range(150):
    open("a-name-that-takes-some-room-in-its-block-%d" % i, "w").close()
PY
done
sum=$(tree_sum "$MNT")
stop
printf 'blocks /far%s/%s\n' 1 whole 1 pieces 1 . 2 whole 2 pieces 2 . >"$T/commands"
debugfs -f "$T/commands" "$img" 2>/dev/null | grep -v '^debugfs' >"$T/blocks"
[ "$(wc -w <"$T/blocks")" -ge 350 ] || fail "files without blocks: $(cat "$T/blocks")"
tr ' ' '\n' <"$T/blocks" | awk '$1 != "" && $1 < 4294967296 { n++ } END { exit n > 0 }' || fail "blocks below 2^32"
start "$img"
[ "$(tree_sum "$MNT")" = "$sum" ] || fail "read back by ext4d: another tree"
rm -r "$MNT/far2"
truncate -s 5000 "$MNT/far1/whole" "$MNT/far1/pieces"
sum=$(tree_sum "$MNT")
stop
check "$img"
kernel_mount "$img" "$T/k" ro
[ "$(tree_sum "$T/k")" = "$sum" ] || fail "read by the kernel: another tree"
umount "$T/k"
