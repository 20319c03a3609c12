# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# kill -9 of the daemon: what was synced is there after replay by ext4d and by the kernel, and e2fsck is content.
for round in 1 2 3; do
	mkimage "$T/img" 256M
	start "$T/img"
	mkdir "$MNT/d"
	for i in $(seq 200); do echo "content $i" >"$MNT/d/f$i"; done
	dd if=/dev/urandom of="$MNT/data" bs=8K count=2000 conv=fsync status=none
	sum=$(sha256sum <"$MNT/data")
	sync -f "$MNT/d/f1"
	python3 -c 'import os,sys; fd = os.open(sys.argv[1], os.O_RDONLY); os.fsync(fd)' "$MNT/d"
	for i in $(seq 300); do echo "late $i" >"$MNT/d/late$i"; done
	rm -f "$MNT"/d/f1*
	pkill -KILL -f "ext4d.*$T/img" || fail "no daemon to kill"
	is_gone() { ! pgrep -f "ext4d.*$T/img" >/dev/null; }
	within 60 is_gone || fail "the daemon does not die"
	umount -l "$MNT" 2>/dev/null || fusermount3 -uz "$MNT" || true
	cp --sparse=always "$T/img" "$T/img.kernel"
	# our replay
	for try in $(seq 50); do
		"$EXT4D" "$T/img" "$MNT" >"$T/out" 2>&1 && break
		[ "$try" -lt 50 ] || { cat "$T/out"; fail "mount after kill -9"; }
		sleep 0.3
	done
	[ "$sum" = "$(sha256sum <"$MNT/data")" ] || fail "fsynced data lost (round $round)"
	[ "$(cat "$MNT/d/f2" 2>/dev/null || cat "$MNT/d/f20")" ] || fail "synced file lost"
	for i in 3 50 99; do [ "$(cat "$MNT/d/f$i")" = "content $i" ] || fail "synced file f$i"; done
	stop
	check "$T/img"
	# the kernel's
	kernel_mount "$T/img.kernel" "$T/k"
	[ "$sum" = "$(sha256sum <"$T/k/data")" ] || fail "fsynced data lost in the kernel's replay"
	for i in 3 50 99; do [ "$(cat "$T/k/d/f$i")" = "content $i" ] || fail "synced file f$i in the kernel's replay"; done
	umount "$T/k"
	check "$T/img.kernel"
done
