#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""posix_checks.py FOLDER: what users expect of a mounted ext4, one check a function. The kernel's ext4 passes the same checks."""
import ctypes
import errno
import fcntl
import mmap
import os
import stat
import struct
import sys
import threading
import time

ROOT = sys.argv[1]
LIBC = ctypes.CDLL(None, use_errno=True)
FS_IOC_GETFLAGS, FS_IOC_SETFLAGS = 0x80086601, 0x40086602
FS_IMMUTABLE_FL, FS_APPEND_FL = 0x10, 0x20


def path(name):
    return os.path.join(ROOT, name)


def raises(number, fn, *args, **kw):
    try:
        fn(*args, **kw)
    except OSError as e:
        assert e.errno == number, "errno %s instead of %s" % (errno.errorcode[e.errno], errno.errorcode[number])
        return
    raise AssertionError("no error, %s expected" % errno.errorcode[number])


def put(name, data=b""):
    with open(path(name), "wb") as f:
        f.write(data)
    return path(name)


def renameat2(a, b, flags):
    if LIBC.renameat2(-100, os.fsencode(a), -100, os.fsencode(b), flags):
        raise OSError(ctypes.get_errno(), "renameat2")


def fallocate(fd, mode, pos, length):
    if LIBC.fallocate(fd, mode, ctypes.c_long(pos), ctypes.c_long(length)):
        raise OSError(ctypes.get_errno(), "fallocate")


def set_flags(p, flags):
    fd = os.open(p, os.O_RDONLY)
    try:
        old = struct.unpack("i", fcntl.ioctl(fd, FS_IOC_GETFLAGS, struct.pack("i", 0)))[0]
        fcntl.ioctl(fd, FS_IOC_SETFLAGS, struct.pack("i", (old & ~0x30) | flags))
    finally:
        os.close(fd)


def as_user(uid, gid, groups, fn):
    """Runs fn in a child with other credentials; its exception text comes back."""
    r, w = os.pipe()
    pid = os.fork()
    if pid == 0:
        text = b""
        try:
            os.setgroups(groups)
            os.setgid(gid)
            os.setuid(uid)
            fn()
        except BaseException as e:
            text = repr(e).encode()
        os.write(w, text or b"ok")
        os._exit(0)
    os.close(w)
    text = os.read(r, 4000).decode()
    os.close(r)
    os.waitpid(pid, 0)
    assert text == "ok", text


def check_names():
    long = "n" * 255
    put(long)
    os.unlink(path(long))
    raises(errno.ENAMETOOLONG, open, path("n" * 256), "w")
    raises(errno.ENAMETOOLONG, os.mkdir, path("n" * 256))
    raises(errno.ENOENT, os.stat, path("nothing"))
    raises(errno.ENOTDIR, os.stat, os.path.join(put("file"), "x"))


def check_rename_flags():
    a, b = put("ra", b"a"), put("rb", b"b")
    raises(errno.EEXIST, renameat2, a, b, 1)
    renameat2(a, b, 2)
    assert open(a).read() == "b" and open(b).read() == "a"
    raises(errno.EINVAL, renameat2, a, b, 3)
    raises(errno.EINVAL, renameat2, a, b, 0x80)
    os.mkdir(path("rd"))
    os.mkdir(path("rd/sub"))
    raises(errno.EINVAL, os.rename, path("rd"), path("rd/sub/x"))
    raises(errno.ENOTEMPTY, os.rmdir, path("rd"))
    raises(errno.EISDIR, os.rename, a, path("rd"))
    raises(errno.ENOTDIR, os.rename, path("rd"), a)
    os.mkdir(path("re"))
    os.rename(path("re"), path("rd/sub"))
    raises(errno.ENOENT, os.stat, path("re"))


def check_link_counts():
    d = path("lc")
    os.mkdir(d)
    assert os.stat(d).st_nlink == 2
    os.mkdir(d + "/a")
    os.mkdir(d + "/b")
    assert os.stat(d).st_nlink == 4
    os.rename(d + "/a", path("lc-a"))
    assert os.stat(d).st_nlink == 3
    f = put("lc/f", b"x")
    os.link(f, d + "/g")
    assert os.stat(f).st_nlink == 2
    os.unlink(f)
    assert os.stat(d + "/g").st_nlink == 1


def check_open_unlinked():
    p = put("ou", b"content")
    fd = os.open(p, os.O_RDWR)
    os.unlink(p)
    assert os.fstat(fd).st_nlink == 0
    os.pwrite(fd, b"more" * 5000, 100000)
    assert os.pread(fd, 7, 0) == b"content" and os.pread(fd, 4, 100000) == b"more"
    put("ou", b"another")
    assert os.pread(fd, 7, 0) == b"content"
    os.close(fd)


def check_tmpfile():
    fd = os.open(ROOT, os.O_TMPFILE | os.O_RDWR, 0o640)
    os.write(fd, b"tmp")
    assert os.fstat(fd).st_nlink == 0
    if LIBC.linkat(-100, b"/proc/self/fd/%d" % fd, -100, os.fsencode(path("from-tmp")), 0x400):
        raise OSError(ctypes.get_errno(), "linkat")
    os.close(fd)
    assert open(path("from-tmp")).read() == "tmp" and os.stat(path("from-tmp")).st_nlink == 1


def check_append_and_trunc():
    p = put("at", b"0123456789")
    fd = os.open(p, os.O_WRONLY | os.O_APPEND)
    os.write(fd, b"abc")
    os.close(fd)
    assert open(p).read() == "0123456789abc"
    os.close(os.open(p, os.O_WRONLY | os.O_TRUNC))
    assert os.stat(p).st_size == 0
    with open(p, "wb") as f:
        f.write(b"x" * 5000)
    os.truncate(p, 100)
    os.truncate(p, 9000)
    data = open(p, "rb").read()
    assert data == b"x" * 100 + bytes(8900)
    raises(errno.EINVAL, os.truncate, p, -1)
    raises(errno.EISDIR, os.truncate, ROOT, 0)


def check_flags():
    p = put("im", b"x")
    set_flags(p, FS_IMMUTABLE_FL)
    raises(errno.EPERM, open, p, "r+")
    raises(errno.EPERM, os.unlink, p)
    raises(errno.EPERM, os.rename, p, path("im2"))
    raises(errno.EPERM, os.link, p, path("im3"))
    raises(errno.EPERM, os.chmod, p, 0o600)
    set_flags(p, FS_APPEND_FL)
    raises(errno.EPERM, os.open, p, os.O_WRONLY)
    raises(errno.EPERM, os.open, p, os.O_WRONLY | os.O_APPEND | os.O_TRUNC)
    fd = os.open(p, os.O_WRONLY | os.O_APPEND)
    os.write(fd, b"y")
    os.close(fd)
    raises(errno.EPERM, os.truncate, p, 0)
    set_flags(p, 0)
    os.unlink(p)


def check_xattrs():
    p = put("xa")
    raises(errno.ENODATA, os.getxattr, p, "user.none")
    raises(errno.ENODATA, os.setxattr, p, "user.a", b"1", os.XATTR_REPLACE)
    os.setxattr(p, "user.a", b"1", os.XATTR_CREATE)
    raises(errno.EEXIST, os.setxattr, p, "user.a", b"2", os.XATTR_CREATE)
    os.setxattr(p, "user.a", b"3" * 200, os.XATTR_REPLACE)
    os.setxattr(p, "trusted.b", b"")
    os.setxattr(p, "security.c", b"sec")
    assert sorted(os.listxattr(p)) == ["security.c", "trusted.b", "user.a"]
    assert os.getxattr(p, "user.a") == b"3" * 200 and os.getxattr(p, "trusted.b") == b""
    raises(errno.ENODATA, os.removexattr, p, "user.none")
    raises(errno.EOPNOTSUPP, os.setxattr, p, "nonsense.a", b"1")
    os.symlink("x", path("xa-link"))
    raises(errno.EPERM, os.setxattr, path("xa-link"), "user.a", b"1", follow_symlinks=False)
    raises(errno.ENOSPC, os.setxattr, p, "user.big", b"b" * 30000)
    os.removexattr(p, "user.a")
    assert "user.a" not in os.listxattr(p)


def check_times():
    p = put("ti")
    for seconds in (-2**31 + 1, -1, 0, 2**31 - 1, 2**31, 2**33 + 5):
        os.utime(p, ns=(seconds * 10**9 + 987654321, seconds * 10**9 + 123456789))
        st = os.stat(p)
        assert st.st_mtime_ns == seconds * 10**9 + 123456789, (seconds, st.st_mtime_ns)
        assert st.st_atime_ns == seconds * 10**9 + 987654321
    before = time.time() - 1
    os.utime(p)
    assert before <= os.stat(p).st_mtime <= time.time() + 1
    st = os.stat(p)
    time.sleep(0.02)
    os.chmod(p, 0o600)
    assert os.stat(p).st_ctime_ns > st.st_ctime_ns and os.stat(p).st_mtime_ns == st.st_mtime_ns


def check_relatime():
    p = put("re-at", b"x")
    os.utime(p, ns=(10**18, 10**18 + 500))
    time.sleep(0.02)
    fd = os.open(p, os.O_RDONLY)
    os.read(fd, 1)
    os.close(fd)
    first = os.stat(p).st_atime_ns
    assert first > 10**18, first
    fd = os.open(p, os.O_RDONLY)
    os.read(fd, 1)
    os.close(fd)
    assert os.stat(p).st_atime_ns == first


def check_setgid_and_groups():
    d = path("sg")
    os.mkdir(d)
    os.chown(d, 1000, 2000)
    os.chmod(d, 0o2775)
    as_user(1000, 1000, [1000, 2000], lambda: os.mkdir(d + "/sub"))
    st = os.stat(d + "/sub")
    assert st.st_gid == 2000 and st.st_mode & stat.S_ISGID
    as_user(1001, 1001, [1001, 2000], lambda: open(d + "/by-group", "w").close())
    assert os.stat(d + "/by-group").st_gid == 2000
    raises_text = []

    def outsider():
        raises(errno.EACCES, open, d + "/by-other", "w")
    as_user(1002, 1002, [1002], outsider)
    assert not raises_text
    os.chmod(d, 0o1777)

    def sticky():
        raises(errno.EPERM, os.unlink, d + "/by-group")
    as_user(1002, 1002, [1002], sticky)


def check_suid_dropped():
    p = put("su", b"x")
    os.chown(p, 1000, 1000)
    os.chmod(p, 0o6777)

    def write():
        with open(p, "r+b") as f:
            f.write(b"y")
    as_user(1001, 1001, [1001], write)
    assert os.stat(p).st_mode & 0o6000 == 0, oct(os.stat(p).st_mode)
    os.chmod(p, 0o6755)
    os.chown(p, 1002, 1002)
    assert os.stat(p).st_mode & 0o6000 == 0
    os.chmod(p, 0o4755)
    os.setxattr(p, "security.capability", struct.pack("<IIIII", 0x02000001, 1, 0, 0, 0))
    with open(p, "r+b") as f:
        f.write(b"z")
    raises(errno.ENODATA, os.getxattr, p, "security.capability")
    assert os.stat(p).st_mode & stat.S_ISUID, "root's write keeps suid"


def mode_only(p):
    """The mode as statx(2) gives it to one who asks for nothing else."""
    buf = ctypes.create_string_buffer(256)
    if LIBC.statx(-100, os.fsencode(p), 0, 2, buf):
        raise OSError(ctypes.get_errno(), "statx")
    return stat.S_IMODE(struct.unpack_from("H", buf, 28)[0])


def check_suid_dropped_is_seen_at_once():
    p = put("so", b"x")
    os.chown(p, 1000, 1000)

    def again(fn):
        def repeat():
            fd = os.open(p, os.O_RDWR)
            for i in range(100):
                os.chmod(p, 0o6777)
                assert mode_only(p) == 0o6777
                fn(fd, i)
                assert mode_only(p) == 0o777, "%s: %o" % (fn.__name__, mode_only(p))
            os.close(fd)
        as_user(1000, 1000, [1000], repeat)

    def write(fd, i):
        os.pwrite(fd, b"y", i)

    def falloc(fd, i):
        fallocate(fd, 0, 0, 4096 * (i + 1))

    def punch(fd, i):
        fallocate(fd, 3, 4096 * i, 4096)

    def truncate(fd, i):
        os.ftruncate(fd, i)

    def open_trunc(fd, i):
        os.close(os.open(p, os.O_WRONLY | os.O_TRUNC))
    for fn in (write, falloc, punch, truncate, open_trunc):
        again(fn)


def acl(*entries):
    return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", t, p, i & 0xffffffff) for t, p, i in entries)


def check_acls():
    d = path("acl")
    os.mkdir(d, 0o755)
    p = put("acl/f", b"secret")
    os.chmod(p, 0o600)
    os.setxattr(p, "system.posix_acl_access", acl((1, 6, -1), (2, 4, 1000), (4, 0, -1), (16, 4, -1), (32, 0, -1)))
    assert stat.S_IMODE(os.stat(p).st_mode) == 0o640, oct(os.stat(p).st_mode)
    as_user(1000, 1000, [1000], lambda: open(p).read())

    def other():
        raises(errno.EACCES, open, p)
    as_user(1001, 1001, [1001], other)
    os.chmod(p, 0o600)  # the mask goes to 0

    def masked():
        raises(errno.EACCES, open, p)
    as_user(1000, 1000, [1000], masked)
    os.setxattr(d, "system.posix_acl_default", acl((1, 7, -1), (2, 7, 1000), (4, 5, -1), (16, 7, -1), (32, 0, -1)))
    old = os.umask(0o077)
    try:
        put("acl/child")
        os.mkdir(d + "/sub")
    finally:
        os.umask(old)
    assert stat.S_IMODE(os.stat(d + "/child").st_mode) == 0o660, oct(os.stat(d + "/child").st_mode)
    assert os.getxattr(d + "/sub", "system.posix_acl_default") == os.getxattr(d, "system.posix_acl_default")
    as_user(1000, 1000, [1000], lambda: open(d + "/child", "r+").close())


def check_acl_takes_setgid():
    entries = acl((1, 7, -1), (4, 7, -1), (32, 7, -1))
    for p in (put("as-file"), path("as-dir")):
        if not os.path.exists(p):
            os.mkdir(p)
        os.chown(p, 1000, 1000)
        os.chmod(p, 0o2755)
        as_user(1000, 1000, [1000], lambda: os.setxattr(p, "system.posix_acl_access", entries))
        assert mode_only(p) == 0o2777, "in the group: %o" % mode_only(p)
        os.chmod(p, 0o2755)
        as_user(1000, 1001, [1001], lambda: os.setxattr(p, "system.posix_acl_access", entries))
        assert mode_only(p) == 0o777, "not in the group: %o" % mode_only(p)


def check_symlinks():
    # A target must fit into a block.
    for n in (1, 59, 60, 61, 1000, min(4095, os.statvfs(path(".")).f_bsize - 1)):
        p = path("sl%d" % n)
        os.symlink("t" * n, p)
        assert os.readlink(p) == "t" * n and os.lstat(p).st_size == n
    raises(errno.ENAMETOOLONG, os.symlink, "t" * 4096, path("sl-long"))


def check_holes():
    p = put("ho")
    fd = os.open(p, os.O_RDWR)
    os.pwrite(fd, b"x", 10 << 20)
    assert os.lseek(fd, 0, os.SEEK_DATA) in range(10 << 20, (10 << 20) + 1) or os.lseek(fd, 0, os.SEEK_DATA) == 10 << 20
    assert os.lseek(fd, 0, os.SEEK_HOLE) == 0
    assert os.fstat(fd).st_blocks <= 16
    fallocate(fd, 0, 0, 1 << 20)
    assert os.fstat(fd).st_blocks >= 2048
    assert os.pread(fd, 1 << 20, 0) == bytes(1 << 20)
    fallocate(fd, 3, 0, 1 << 20)
    assert os.fstat(fd).st_blocks < 2048
    fallocate(fd, 1, 20 << 20, 1 << 20)
    assert os.fstat(fd).st_size == (10 << 20) + 1
    raises(errno.ENXIO, os.lseek, fd, 30 << 20, os.SEEK_DATA)
    # truncate to the same size drops what lies beyond it
    os.ftruncate(fd, (10 << 20) + 1)
    assert os.fstat(fd).st_blocks < 2048
    os.close(fd)


def check_maps_and_descriptors():
    p = put("mp", b"a" * 20000)
    r = os.open(p, os.O_RDWR)
    w = os.open(p, os.O_WRONLY)
    m = mmap.mmap(r, 20000)
    os.pwrite(w, b"b" * 5000, 3000)
    assert m[2999:8001] == b"a" + b"b" * 5000 + b"a"
    m[100:200] = b"c" * 100
    assert os.pread(r, 102, 99) == b"a" + b"c" * 100 + b"a"
    m.flush()
    m.close()
    os.close(r)
    os.close(w)


def check_direct_io():
    p = put("dio", b"q" * 10000)
    fd = os.open(p, os.O_RDWR | os.O_DIRECT)
    buf = mmap.mmap(-1, 8192)
    buf[:] = b"D" * 8192
    assert os.pwritev(fd, [buf], 4096) == 8192
    os.close(fd)
    assert open(p, "rb").read() == b"q" * 4096 + b"D" * 8192


def check_fibmap():
    """Blocks as FIBMAP gives them; a block that was never written is 0. Its unit is the mount's, which can be too large for a file's."""
    fd = os.open(path("fb"), os.O_RDWR | os.O_CREAT)
    os.pwrite(fd, b"b" * 65536, 0)
    os.pwrite(fd, b"b", 1 << 20)
    if struct.unpack("i", fcntl.ioctl(fd, 2, struct.pack("i", 0)))[0] != os.statvfs(ROOT).f_bsize:
        os.close(fd)
        return

    def block(n):
        return struct.unpack("i", fcntl.ioctl(fd, 1, struct.pack("i", n)))[0]
    bs = struct.unpack("i", fcntl.ioctl(fd, 2, struct.pack("i", 0)))[0]
    found = [block(n) for n in range(65536 // bs)]
    assert 0 not in found and len(set(found)) == len(found), found
    assert block(131072 // bs) == 0 and block((1 << 20) // bs) > 0
    os.close(fd)


def birth_time(p):
    buf = ctypes.create_string_buffer(256)
    if LIBC.statx(-100, os.fsencode(p), 0, 0x800, buf):
        raise OSError(ctypes.get_errno(), "statx")
    assert struct.unpack_from("I", buf, 0)[0] & 0x800, "no time of birth"
    sec, nsec = struct.unpack_from("qI", buf, 80)
    return sec + nsec / 1e9


def tells_birth_time():
    """A FUSE mount does from Linux 6.6 on."""
    release = tuple(int(n) for n in os.uname().release.split("-")[0].split(".")[:2])
    return release >= (6, 6) or not os.path.exists(path(".ext4d"))


def check_birth_time():
    if not tells_birth_time():
        return
    before = time.time() - 0.1
    p = put("bt", b"x")
    born = birth_time(p)
    assert before <= born <= time.time(), (before, born)
    time.sleep(0.02)
    put("bt", b"xy")
    os.utime(p, (1, 1))
    assert birth_time(p) == born and os.stat(p).st_mtime == 1 and os.stat(p).st_size == 2
    assert birth_time(ROOT) <= born


def check_large_offsets():
    p = put("lo")
    fd = os.open(p, os.O_RDWR)
    pos = (1 << 32) + 12345
    os.pwrite(fd, b"far", pos)
    assert os.fstat(fd).st_size == pos + 3 and os.pread(fd, 5, pos - 2) == b"\0\0far"
    raises(errno.EFBIG, os.ftruncate, fd, 1 << 60)
    os.close(fd)
    os.unlink(p)


def check_readdir_during_changes():
    d = path("rdc")
    os.mkdir(d)
    for i in range(2000):
        put("rdc/%s%04d" % ("k" * 60, i))
    seen = []
    with os.scandir(d) as it:
        for n, e in enumerate(it):
            seen.append(e.name)
            if n < 600:
                put("rdc/new%s%04d" % ("z" * 70, n))
            if n == 300:
                os.unlink(os.path.join(d, "%s%04d" % ("k" * 60, 1999)))
    old = [s for s in seen if s.startswith("k")]
    assert len(old) == len(set(old)), "an entry twice"
    assert len(set(old)) >= 1999, "an entry is missing: %d" % len(set(old))


def check_many_subdirectories():
    d = path("many")
    os.mkdir(d)
    for i in range(3000):
        os.mkdir(d + "/s%d" % i)
    assert os.stat(d).st_nlink == 3002
    for i in range(3000):
        os.rmdir(d + "/s%d" % i)
    assert os.stat(d).st_nlink == 2 and os.listdir(d) == []


def check_fsync_kinds():
    p = put("fs", b"x")
    for flags in (os.O_RDONLY, os.O_WRONLY, os.O_RDWR):
        fd = os.open(p, flags)
        os.fsync(fd)
        os.fdatasync(fd)
        os.close(fd)
    fd = os.open(ROOT, os.O_RDONLY)
    os.fsync(fd)
    os.close(fd)


def check_concurrent_appends():
    p = put("ca")
    def work(k):
        fd = os.open(p, os.O_WRONLY | os.O_APPEND)
        for i in range(300):
            os.write(fd, b"%d:%03d\n" % (k, i))
        os.close(fd)
    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    lines = open(p).read().splitlines()
    assert len(lines) == 1200 and len(set(lines)) == 1200


def check_fault_in_the_middle():
    p = put("fm", b"")
    fd = os.open(p, os.O_RDWR)

    class Iovec(ctypes.Structure):
        _fields_ = [("base", ctypes.c_void_p), ("len", ctypes.c_size_t)]
    good = ctypes.create_string_buffer(b"g" * 100, 100)
    vec = (Iovec * 2)(Iovec(ctypes.cast(good, ctypes.c_void_p), 100), Iovec(ctypes.c_void_p(8), 100))
    n = LIBC.writev(fd, vec, 2)
    assert os.fstat(fd).st_size == max(n, 0), (n, os.fstat(fd).st_size)
    os.close(fd)


def check_statfs():
    before = os.statvfs(ROOT)
    p = put("sf", b"z" * (4 << 20))
    during = os.statvfs(ROOT)
    assert before.f_bfree - during.f_bfree >= (4 << 20) // before.f_bsize - 8
    os.unlink(p)
    fd = os.open(ROOT, os.O_RDONLY)
    os.fsync(fd)
    os.close(fd)
    for _ in range(50):
        after = os.statvfs(ROOT)
        if abs(after.f_bfree - before.f_bfree) <= 16:
            break
        time.sleep(0.1)
    assert abs(after.f_bfree - before.f_bfree) <= 16, (before.f_bfree, after.f_bfree)
    assert before.f_namemax == 255


def main():
    bad = 0
    only = sys.argv[2:]
    for name, fn in sorted(globals().items()):
        if not name.startswith("check_") or (only and name not in only):
            continue
        try:
            fn()
        except (AssertionError, OSError) as e:
            bad += 1
            print("%s: %s: %s (line %d)" % (name, type(e).__name__, e, e.__traceback__.tb_next.tb_lineno
                                            if e.__traceback__.tb_next else 0))
    print("%d checks failed" % bad if bad else "all checks passed")
    sys.exit(1 if bad else 0)


main()
