# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# Wrong use and wrong images: a non-zero exit code, one clear line, nothing mounted, nothing left running.

refused() { # refused TEXT ext4d-arguments...
	local text=$1 rc=0
	shift
	timeout 20 "$EXT4D" "$@" >"$T/out" 2>&1 || rc=$?
	[ "$rc" -ne 0 ] || fail "accepted: $*"
	[ "$rc" -ne 124 ] || fail "hung: $*"
	[ "$rc" -lt 126 ] || { cat "$T/out"; fail "crashed ($rc): $*"; }
	grep -qiE "$text" "$T/out" || { cat "$T/out"; fail "no '$text' in the reason: $*"; }
	! mountpoint -q "$MNT" || fail "mounted all the same: $*"
}

mkimage "$T/good" 64M
truncate -s 64M "$T/zeros"
refused 'ext4' "$T/zeros" "$MNT"
echo text >"$T/short"
refused '.' "$T/short" "$MNT"
refused 'No such file' "$T/nothing" "$MNT"
refused 'No such file|mount point' "$T/good" "$T/no-such-folder"
refused 'director' "$T/good" "$T/zeros"
refused 'option|nonsense' "$T/good" "$MNT" -o nonsense
refused 'commit' "$T/good" "$MNT" -o commit=x
refused 'data=journal|journal' "$T/good" "$MNT" -o data=journal
refused 'usage|missing' "$T/good"
head -c 30M "$T/good" >"$T/cut"
refused 'block' "$T/cut" "$MNT"

# a feature that is not supported is named
mkimage "$T/inline" 64M -O inline_data
refused 'inline_data' "$T/inline" "$MNT"
mkimage "$T/mmp" 64M -O mmp
refused 'mmp' "$T/mmp" "$MNT"
mkimage "$T/casefold" 64M -O casefold
refused 'casefold' "$T/casefold" "$MNT"
mkimage "$T/encrypt" 64M -O encrypt
refused 'encrypt' "$T/encrypt" "$MNT"
mkimage "$T/ea" 64M -O ea_inode
refused 'ea_inode' "$T/ea" "$MNT"

# read-only features mount read-only and say why
mkimage "$T/quota" 64M -O quota
"$EXT4D" "$T/quota" "$MNT" >"$T/out" 2>&1 || { cat "$T/out"; fail "quota image refused"; }
! touch "$MNT/x" 2>/dev/null || fail "wrote to a read-only feature"
stop

# the device is busy: the second daemon fails, the first lives on
start "$T/good"
echo one >"$MNT/one"
mkdir -p "$T/mnt2"
rc=0
timeout 20 "$EXT4D" "$T/good" "$T/mnt2" >"$T/out" 2>&1 || rc=$?
[ "$rc" -ne 0 ] && [ "$rc" -ne 124 ] || fail "a second daemon on the same image"
[ "$(cat "$MNT/one")" = one ] || fail "the first daemon is hurt"
stop
check "$T/good"

# a read-only image file can be read
start "$T/good" -r
[ "$(cat "$MNT/one")" = one ] || fail "read-only mount"
! touch "$MNT/two" 2>/dev/null || fail "wrote to a read-only mount"
stop
check "$T/good"

# an image that can be read and not written: read-only, and not at all if its log has to be replayed first
mkdir "$T/host" "$T/ro"
cp --sparse=always "$T/good" "$T/host/clean"
start "$T/good"
echo three >"$MNT/three"
sync "$MNT/three"
cp --sparse=always "$T/good" "$T/host/dirty"
stop
mount --bind "$T/host" "$T/ro"
mount -o remount,bind,ro "$T/ro"
start "$T/ro/clean" -o ro
[ "$(cat "$MNT/one")" = one ] || fail "an image that cannot be written"
! touch "$MNT/two" 2>/dev/null || fail "wrote to an image that cannot be written"
stop
refused 'recovery' "$T/ro/dirty" "$MNT" -o ro
start "$T/ro/dirty" -o ro,norecovery
[ "$(cat "$MNT/one")" = one ] || fail "norecovery"
stop
