# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# An image on a full host file system: an error once for each open file, read-only from then on, and e2fsck repairs what is left.
mkdir "$T/host"
mount -t tmpfs -o size=24M tmpfs "$T/host"
mkimage "$T/host/img" 128M
"$EXT4D" "$T/host/img" "$MNT" -o commit=300 >"$T/out" 2>&1 || { cat "$T/out"; fail "mount"; }
echo kept >"$MNT/kept"
sync -f "$MNT"
python3 - "$MNT" <<'PY'
import errno, os, sys
mnt = sys.argv[1]
fds = [os.open(mnt + "/big", os.O_RDWR | os.O_CREAT, 0o644) for _ in range(2)]
try:
    for _ in range(40):
        os.write(fds[0], b"x" * (1 << 20))
except OSError as e:
    assert e.errno in (errno.EIO, errno.EROFS, errno.ENOSPC), e
def sync(fd):
    try:
        os.fsync(fd)
        return 0
    except OSError as e:
        return e.errno
first = [sync(fd) for fd in fds]
# the loop device may say why, and the first may have made it read-only
assert first[0] in (errno.EIO, errno.ENOSPC) and first[1] in (errno.EIO, errno.ENOSPC, errno.EROFS), first
try:
    for i in range(200):
        os.mkdir(mnt + "/d%d" % i)
        sync(fds[0])
    raise SystemExit("changes go on although nothing can be written")
except OSError as e:
    assert e.errno in (errno.EROFS, errno.EIO), e
assert open(mnt + "/kept").read() == "kept\n"
for fd in fds:
    os.close(fd)
PY
"$EXT4D" -u "$MNT" || true
umount "$MNT" 2>/dev/null || true
cp --sparse=always "$T/host/img" "$T/copy"
e2fsck -fy "$T/copy" >"$T/out" 2>&1 || [ $? -le 2 ] || { cat "$T/out"; fail "e2fsck does not repair it"; }
check "$T/copy"
kernel_mount "$T/copy" "$T/k"
[ "$(cat "$T/k/kept")" = kept ] || fail "what was synced is gone"
umount "$T/k"
