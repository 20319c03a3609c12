# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# remount,ro after a sync and a second of quiet leaves an empty log: nothing is replayed on a copy of the device taken then.
log_start() { dumpe2fs -h "$1" 2>/dev/null | awk '/^Journal start:/ { print $3 }'; }

mkimage "$T/img" 64M
start "$T/img" -o commit=300
mkdir "$MNT/d"
for i in $(seq 50); do echo "content $i" >"$MNT/d/f$i"; done
sync -f "$MNT"
[ "$(log_start "$T/img")" != 0 ] || fail "the log is empty at once"
for i in $(seq 100); do
	[ "$(log_start "$T/img")" != 0 ] || break
	sleep 0.1
done
[ "$(log_start "$T/img")" = 0 ] || fail "the log is not emptied"
mount -o remount,ro "$MNT" || fail "remount,ro"
cp --sparse=always "$T/img" "$T/copy"
[ "$(log_start "$T/copy")" = 0 ] || fail "remount,ro fills the log"
stop
check "$T/img"
kernel_mount "$T/copy" "$T/k"
for i in $(seq 50); do [ "$(cat "$T/k/d/f$i")" = "content $i" ] || fail "f$i in the copy"; done
umount "$T/k"
check "$T/copy"
