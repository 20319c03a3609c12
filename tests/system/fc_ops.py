#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""fc_ops.py FOLDER prepare: files for the second call. fc_ops.py FOLDER all: changes with fsync that the kernel's ext4 writes as fast commits; a file deleted while open among
them. fc_ops.py FOLDER some: without it, and without an unnamed file that gets a name. fc_ops.py FOLDER few: only new files, longer ones, attributes, links and renames. It
ends with its standard input."""
import ctypes
import os
import sys

libc = ctypes.CDLL(None, use_errno=True)
KEEP_SIZE, PUNCH_HOLE = 1, 2


def fsync(path):
    fd = os.open(path, os.O_RDONLY)
    os.fsync(fd)
    os.close(fd)


def write(path, pos, data):
    fd = os.open(path, os.O_CREAT | os.O_RDWR, 0o640)
    os.pwrite(fd, data, pos)
    os.fsync(fd)
    os.close(fd)


def fallocate(fd, mode, pos, length):
    if libc.fallocate64(fd, mode, ctypes.c_longlong(pos), ctypes.c_longlong(length)) != 0:
        raise OSError(ctypes.get_errno(), "fallocate")
    os.fsync(fd)


def prepare(root):
    os.mkdir(root + "/dir")
    for i in range(10):
        with open("%s/old%d" % (root, i), "wb") as f:
            f.write(bytes([48 + i]) * (40000 + i * 1000))


def files(root):
    for i in range(5):
        write("%s/new%d" % (root, i), 0, bytes([65 + i]) * 5000 * (i + 1))
    write(root + "/old0", 100000, b"x" * 70000)
    os.chmod(root + "/old6", 0o4755)
    os.chown(root + "/old6", 5, 6)
    fsync(root + "/old6")


def maps(root):
    os.truncate(root + "/old1", 5000)
    fsync(root + "/old1")
    fd = os.open(root + "/old5", os.O_RDWR)
    fallocate(fd, KEEP_SIZE | PUNCH_HOLE, 8192, 16384)
    os.close(fd)
    fd = os.open(root + "/allocated", os.O_RDWR | os.O_CREAT)
    fallocate(fd, 0, 0, 1 << 20)
    os.pwrite(fd, b"q" * 10000, 300000)
    os.fsync(fd)
    os.close(fd)
    fd = os.open(root + "/sparse", os.O_CREAT | os.O_RDWR)
    for i in range(200):
        os.pwrite(fd, bytes([i]) * 100, i * 8192)
    os.fsync(fd)
    fallocate(fd, KEEP_SIZE | PUNCH_HOLE, 50 * 8192, 20 * 8192)
    os.ftruncate(fd, 100 * 8192 + 50)
    os.fsync(fd)
    os.pwrite(fd, b"end", 2000000)
    os.fsync(fd)
    os.close(fd)


def links(root):
    os.rename(root + "/old2", root + "/renamed")
    fsync(root + "/renamed")
    os.link(root + "/old3", root + "/linked")
    fsync(root + "/linked")


def names(root):
    os.unlink(root + "/old4")
    fsync(root + "/old3")
    for i in range(24):
        write("%s/dir/f%d" % (root, i), 0, b"d" * 3000)
    os.rename(root + "/dir/f0", root + "/old7")
    fsync(root + "/old7")
    for i in range(1, 24, 3):
        os.unlink("%s/dir/f%d" % (root, i))


def unnamed(root):
    fd = os.open(root, os.O_TMPFILE | os.O_RDWR)
    os.write(fd, b"unnamed" * 1000)
    path = ("/proc/self/fd/%d" % fd).encode()
    if libc.linkat(-100, path, -100, (root + "/named").encode(), 0x400) != 0:
        raise OSError(ctypes.get_errno(), "linkat")
    os.fsync(fd)
    os.close(fd)


def deleted(root):
    fd = os.open(root + "/deleted", os.O_CREAT | os.O_RDWR)
    os.write(fd, b"z" * 9000)
    os.fsync(fd)
    os.unlink(root + "/deleted")
    os.fsync(fd)


def main():
    root = sys.argv[1]
    if sys.argv[2] == "prepare":
        prepare(root)
        return
    files(root)
    links(root)
    if sys.argv[2] != "few":
        maps(root)
        names(root)
    if sys.argv[2] == "all":
        unnamed(root)
        deleted(root)
    write(root + "/last", 0, b"last")
    print("done", flush=True)
    sys.stdin.read()


main()
