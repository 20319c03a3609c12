# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# remount,ro after a sync and a second of quiet leaves an empty log: nothing is replayed on a copy of the device taken then.
log_start() { dumpe2fs -h "$1" 2>/dev/null | awk '/^Journal start:/ { print $3 }'; }

mkimage "$T/img" 64M
start "$T/img" -o commit=300
mkdir "$MNT/d"
for i in $(seq 50); do echo "content $i" >"$MNT/d/f$i"; done
t0=$(date +%s%N)
sync -f "$MNT"
at_once=$(log_start "$T/img")
# On a busy machine the second may be over already.
[ "$at_once" != 0 ] || [ $(($(date +%s%N) - t0)) -gt 900000000 ] || fail "the log is empty at once"
log_is_empty() { [ "$(log_start "$T/img")" = 0 ]; }
within 30 log_is_empty || fail "the log is not emptied"
mount -o remount,ro "$MNT" || fail "remount,ro"
cp --sparse=always "$T/img" "$T/copy"
[ "$(log_start "$T/copy")" = 0 ] || fail "remount,ro fills the log"
stop
check "$T/img"
kernel_mount "$T/copy" "$T/k"
for i in $(seq 50); do [ "$(cat "$T/k/d/f$i")" = "content $i" ] || fail "f$i in the copy"; done
umount "$T/k"
check "$T/copy"
