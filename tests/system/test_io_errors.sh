# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# EIO at the Nth request of a mount's life: clear errors, nothing hangs, what was synced is there. Errors of data are told once to each descriptor; errors= is obeyed.
here=$(dirname "${BASH_SOURCE[0]}")
img=$T/img
programs() { timeout 60 python3 "$here/io_errors.py" "$@"; }

mkimage "$T/base" 64M -b 1024 -I 256
start "$T/base"
mkdir "$MNT/old"
for i in 0 1 2 3 4 5; do
	head -c 300000 /dev/urandom >"$MNT/old/f$i"
	head -c 3000 /dev/urandom >"$MNT/old/g$i"
	head -c 90000 /dev/urandom >"$MNT/old/cut$i"
done
head -c 50000 /dev/zero | tr '\0' k >"$MNT/keep"
head -c 65536 /dev/zero | tr '\0' b >"$MNT/bad"
for i in $(seq 12); do mkdir "$MNT/spread$i"; done
mkdir "$MNT/far"
stop
check "$T/base"

# one request fails: the Nth of all
for n in ${EXT4D_IO_ERRORS:-2 25 70 140}; do
	cp --sparse=always "$T/base" "$img"
	if "$EXT4D" "$img" "$MNT" -o "blk=fault:error:once:nth=$n" 2>"$T/log"; then
		programs work "$MNT" >"$T/promised" || fail "request $n: an error that is not clear, or a hang"
		timeout 60 "$EXT4D" -u "$MNT" || [ $? -ne 124 ] || fail "request $n: unmounting hangs"
	else
		grep -q "cannot be mounted: Input/output error" "$T/log" || fail "request $n: the mount does not say why: $(cat "$T/log")"
		: >"$T/promised"
	fi
	rc=0
	e2fsck -fy "$img" >"$T/fsck.out" 2>&1 || rc=$?
	[ "$rc" -le 1 ] || { cat "$T/fsck.out"; fail "request $n: e2fsck: $rc"; }
	check "$img"
	kernel_mount "$img" "$T/k" ro
	[ "$(tr -d k <"$T/k/keep" | wc -c) $(wc -c <"$T/k/keep")" = "0 50000" ] || fail "request $n: a file of before is damaged"
	while read -r name letter bytes; do
		[ "$(tr -d "$letter" <"$T/k/$name" | wc -c) $(wc -c <"$T/k/$name")" = "0 $bytes" ] || fail "request $n: $name was synced and is gone"
	done <"$T/promised"
	umount "$T/k"
done

# data: the blocks of one file cannot be written
cp --sparse=always "$T/base" "$img"
first=$(debugfs -R "blocks bad" "$img" 2>/dev/null | awk '{ print $1 }')
last=$(debugfs -R "blocks bad" "$img" 2>/dev/null | awk '{ print $NF }')
[ $((last - first)) -eq 63 ] || fail "the file is not in one piece: $first-$last"
start "$img" -o "blk=fault:error:forever:op=write:from=$((first * 1024)):to=$(((last + 1) * 1024))"
programs once "$MNT" || fail "errors of data"
for call in "--sync" "-u"; do
	head -c 4096 /dev/zero | dd of="$MNT/bad" bs=4096 conv=notrunc 2>/dev/null
	rc=0
	"$EXT4D" "$call" "$MNT" 2>"$T/log" || rc=$?
	[ "$rc" -ne 0 ] || fail "ext4d $call does not say that data was lost"
	grep -q "Input/output error" "$T/log" || fail "ext4d $call: $(cat "$T/log")"
	[ "$call" = -u ] || "$EXT4D" --sync "$MNT" || fail "ext4d --sync: told twice"
done
check "$img"
start "$img" -o "data_err=abort,blk=fault:error:forever:op=write:from=$((first * 1024)):to=$(((last + 1) * 1024))"
grep -qx data_err=abort "$MNT/.ext4d/options" || fail "data_err is not shown"
programs abort "$MNT" || fail "data_err=abort"
"$EXT4D" -u "$MNT" || true
grep -qE '^FS Error count: +[1-9]' < <(dumpe2fs -h "$img" 2>/dev/null) || fail "data_err=abort: not recorded"
e2fsck -fy "$img" >/dev/null 2>&1 || [ $? -le 1 ] || fail "data_err=abort: e2fsck"
check "$img"

# metadata: an inode table block cannot be read, with each answer
block=$(debugfs -R "imap far" "$img" 2>/dev/null | sed -nE 's/.*located at block ([0-9]+).*/\1/p')
fault=blk=fault:error:op=read:from=$((block * 1024)):to=$(((block + 1) * 1024))
start "$img" -o "errors=remount-ro,$fault:forever"
programs read-only "$MNT" || fail "errors=remount-ro"
"$EXT4D" -u "$MNT" || true
grep -qE '^Filesystem state: +clean with errors' < <(dumpe2fs -h "$img" 2>/dev/null) || fail "the error is not recorded"
grep -qE '^FS Error count: +[1-9]' < <(dumpe2fs -h "$img" 2>/dev/null) || fail "no error count"
e2fsck -fy "$img" >/dev/null 2>&1 || true
start "$img" -o "errors=continue,$fault:once"
stat "$MNT/far" >/dev/null 2>&1 && fail "no error"
stat "$MNT/far" >/dev/null || fail "errors=continue: the second try"
echo x >"$MNT/more" || fail "errors=continue: not writable"
stop
grep -qE '^FS Error count: +[1-9]' < <(dumpe2fs -h "$img" 2>/dev/null) || fail "errors=continue: not recorded"
e2fsck -fy "$img" >/dev/null 2>&1 || true
start "$img" -o "errors=panic,$fault:forever"
stat "$MNT/far" >/dev/null 2>&1 && fail "no error"
stat "$MNT/keep" >/dev/null 2>&1 && fail "errors=panic: the daemon goes on"
umount "$MNT"
e2fsck -fy "$img" >"$T/fsck.out" 2>&1 || [ $? -le 1 ] || fail "errors=panic: e2fsck"
check "$img"

# in the background: what went wrong is in the system's log, which the sandbox lets through
cp --sparse=always "$T/base" "$img"
loop=$(losetup -f --show "$img")
mkdir "$T/dev"
mount -t tmpfs -o mode=755,dev tmpfs "$T/dev"
cp -a /dev/null /dev/zero /dev/random /dev/urandom /dev/fuse "$loop" "$T/dev/"
mount --bind "$T/dev" /dev
python3 -c '
import os, socket, sys
s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
s.bind("/dev/log")
s.settimeout(60)
with open(sys.argv[1], "wb", buffering=0) as f:
    while True:
        f.write(s.recv(4096) + b"\n")
' "$T/syslog" >"$T/listener" 2>&1 &
listener=$!
listens() { [ -S /dev/log ] && [ -e "$T/syslog" ]; }
within 20 listens || fail "no log to write to"
start "$loop" -o "$fault:once"
stat "$MNT/far" >/dev/null 2>&1 && fail "no error"
said() { grep -aq "ext4d.*inode #[0-9]*: block $block: Input/output error" "$T/syslog"; }
within 20 said || { cat "$T/syslog"; fail "the system's log does not say what went wrong"; }
"$EXT4D" -u "$MNT" || true
kill "$listener"
wait "$listener" 2>/dev/null || true
umount -l /dev
losetup -d "$loop"
