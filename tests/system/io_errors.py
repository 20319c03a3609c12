#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""io_errors.py work|once|abort|read-only FOLDER: what programs see of a device that fails. Each mode checks and ends with an error if that is not what it should be."""
import errno
import os
import sys

CLEAR = (errno.EIO, errno.EROFS, errno.ENOSPC, errno.ENOENT, errno.ENOTCONN)


def tried(what, *args):
    """The result, or None after an error that is a clear one."""
    try:
        return what(*args)
    except OSError as e:
        if e.errno not in CLEAR:
            raise
        return None


def save(path, data):
    """True if fsync and close say that it is safe."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        os.pwrite(fd, data, 0)
        os.fsync(fd)
    finally:
        os.close(fd)
    return True


def work(root):
    """Changes of all kinds; prints the names of files that are promised."""
    for i in range(6):
        data = bytes([65 + i]) * (20000 + 9000 * i)
        if tried(save, f"{root}/new{i}", data):
            print(f"new{i} {chr(65 + i)} {len(data)}")
        tried(os.unlink, f"{root}/old/f{i}")
        tried(os.mkdir, f"{root}/dir{i}")
        tried(os.rename, f"{root}/old/g{i}", f"{root}/dir{i}/g")
        tried(os.truncate, f"{root}/old/cut{i}", 5000)
        tried(os.listdir, f"{root}/old")
        tried(os.sync)


def fsync_error(fd):
    try:
        os.fsync(fd)
        return 0
    except OSError as e:
        return e.errno


def once(root):
    """The blocks of `bad` cannot be written: each descriptor is told once, others not at all."""
    a, b = (os.open(f"{root}/bad", os.O_RDWR) for _ in range(2))
    os.pwrite(a, b"x" * 65536, 0)
    assert fsync_error(a) == errno.EIO
    assert fsync_error(a) == 0
    c = os.open(f"{root}/bad", os.O_RDONLY)
    assert fsync_error(b) == errno.EIO
    assert [fsync_error(fd) for fd in (b, c, a)] == [0, 0, 0]
    os.pwrite(b, b"y" * 4096, 0)
    assert [fsync_error(fd) for fd in (b, a, c, c)] == [errno.EIO, errno.EIO, errno.EIO, 0]
    assert save(f"{root}/good", b"z" * 100000)
    assert open(f"{root}/good", "rb").read() == b"z" * 100000


def takes_no_changes(root):
    """It reads as before, and a new file is refused."""
    try:
        save(f"{root}/late", b"x")
        raise AssertionError("written")
    except OSError as e:
        assert e.errno == errno.EROFS, e
    assert open(f"{root}/keep", "rb").read() == b"k" * 50000


def abort(root):
    """The blocks of `bad` cannot be written, and that ends all changes."""
    with open(f"{root}/bad", "r+b", buffering=0) as f:
        f.write(b"x" * 4096)
        assert fsync_error(f.fileno()) == errno.EIO
    takes_no_changes(root)


def read_only(root):
    """Metadata could not be read: an error now, and no more changes."""
    try:
        os.stat(f"{root}/far")
        raise AssertionError("no error")
    except OSError as e:
        assert e.errno == errno.EIO, e
    takes_no_changes(root)
    assert int(open(f"{root}/.ext4d/errors_count").read()) > 0


if __name__ == "__main__":
    {"work": work, "once": once, "abort": abort, "read-only": read_only}[sys.argv[1]](sys.argv[2])
