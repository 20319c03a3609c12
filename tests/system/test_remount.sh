# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# remount,ro leaves a clean device behind, remount,rw works at once; options of the superblock are in force; root has its reserve; memory stays near cache=.
img=$T/img

features() { dumpe2fs -h "$img" 2>/dev/null | grep -E '^(Filesystem features|Filesystem state|Journal start)'; }
# wait_clean: the daemon has seen the remount
wait_clean() {
	local i
	for ((i = 0; i < 150; i++)); do
		if ! grep -q needs_recovery < <(features); then return 0; fi
		sleep 0.1
	done
	fail "not clean after remount,ro: $(features)"
}

mkimage "$img" 128M
start "$img"
echo one >"$MNT/a"
for n in 1 2 3; do
	mount -i -o remount,ro "$MNT"
	wait_clean
	check "$img"
	[ "$(debugfs -R "cat a" "$img" 2>/dev/null | head -n 1)" = one ] || fail "the file is not on the device"
	if (echo two >"$MNT/a") 2>/dev/null; then fail "written although read-only"; fi
	mount -i -o remount,rw "$MNT"
	echo "round $n" >"$MNT/b$n" || fail "not writable after remount,rw"
	sync -f "$MNT/b$n"
	grep -q needs_recovery < <(features) || fail "not marked as mounted after remount,rw"
done
# an unlinked file that is open is an orphan: only the log is emptied, and nothing is lost
exec 7<"$MNT/a"
rm "$MNT/a"
if mount -i -o remount,ro "$MNT" 2>/dev/null; then
	sleep 0.5
	mount -i -o remount,rw "$MNT"
fi
[ "$(cat <&7)" = one ] || fail "an open file is gone"
exec 7<&-
echo more >"$MNT/c"
stop
check "$img"
start "$img" -r
[ "$(cat "$MNT/b1" "$MNT/b2" "$MNT/b3" "$MNT/c" | tr '\n' ' ')" = "round 1 round 2 round 3 more " ] || fail "files after a remount"
stop

# options of the superblock
tune2fs -o nobarrier,nodelalloc,journal_data_writeback -E mount_opts=commit=9 "$img" >"$T/out" 2>&1 || { cat "$T/out"; fail tune2fs; }
start "$img" -o delalloc,dirty_bytes=16M
for want in nobarrier delalloc data=writeback commit=9; do
	grep -qx "$want" "$MNT/.ext4d/options" || fail "no $want in the options: $(cat "$MNT/.ext4d/options")"
done
grep -qx 16777216 "$MNT/.ext4d/tunables/dirty_bytes" || fail "dirty_bytes"
stop
tune2fs -o journal_data "$img" >/dev/null
if "$EXT4D" "$img" "$MNT" 2>"$T/out"; then fail "data=journal mounted"; fi
grep -q "data=journal" "$T/out" || fail "no clear text: $(cat "$T/out")"
start "$img" -o data=ordered
stop

# the reserve is root's, for names and attributes too
mkimage "$img" 32M -b 4096 -m 20 -N 4096
start "$img"
chmod 777 "$MNT"
as_user() { setpriv --reuid 1000 --regid 1000 --clear-groups "$@"; }
as_user dd if=/dev/zero of="$MNT/full" bs=64k 2>/dev/null && fail "no end of space"
sync -f "$MNT"
# shellcheck disable=SC2016
as_user bash -c 'for ((i = 0; i < 2000; i++)); do mkdir "$0/user$i" 2>/dev/null || exit 0; done; exit 1' "$MNT" || fail "a user's directories reach into the reserve"
for ((i = 0; i < 50; i++)); do mkdir "$MNT/root$i" || fail "root has no reserve"; done
setfattr -n user.x -v "$(head -c 3000 /dev/zero | tr '\0' x)" "$MNT/root1" || fail "no reserve for attributes"
fallocate -l 1M "$MNT/root.file" || fail "no reserve for fallocate"
dd if=/dev/zero of="$MNT/root.direct" bs=1M count=1 oflag=direct 2>/dev/null || fail "no reserve for O_DIRECT"
stop
check "$img"

# memory: 16 times the cache written and read
mkimage "$img" 1G
start "$img" -o cache=32M
dd if=/dev/zero of="$MNT/f" bs=64k count=8192 conv=fsync 2>/dev/null
cat "$MNT/f" >/dev/null
for pid in $(pgrep -f "ext4d.*$T"); do
	peak=$(awk '/^VmHWM/ { print $2 }' "/proc/$pid/status")
	[ "$peak" -lt $(((32 + 64) << 10)) ] || fail "$peak KiB of memory with cache=32M"
done
stop
