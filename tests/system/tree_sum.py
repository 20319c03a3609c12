#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Prints one line for each file below a folder (and a checksum of all lines): what two readers of the same tree must agree on."""
import hashlib
import os
import stat
import sys


def describe(path):
    st = os.lstat(path)
    parts = [oct(st.st_mode), str(st.st_uid), str(st.st_gid), str(st.st_nlink), str(st.st_mtime_ns)]
    if stat.S_ISREG(st.st_mode):
        digest = hashlib.sha256()
        with open(path, "rb", buffering=0) as f:
            while True:
                block = f.read(1 << 20)
                if not block:
                    break
                digest.update(block)
        parts += [str(st.st_size), digest.hexdigest()]
    elif stat.S_ISLNK(st.st_mode):
        parts.append(os.fsdecode(os.readlink(path)))
    elif stat.S_ISBLK(st.st_mode) or stat.S_ISCHR(st.st_mode):
        parts.append(hex(st.st_rdev))
    for name in sorted(os.listxattr(path, follow_symlinks=False)):
        value = os.getxattr(path, name, follow_symlinks=False)
        parts.append(name + "=" + value.hex())
    return " ".join(parts)


def main():
    root = os.fsencode(sys.argv[1])
    verbose = len(sys.argv) > 2
    lines = []
    for folder, dirs, files in os.walk(root):
        dirs.sort()
        if folder == root and b"lost+found" in dirs:
            dirs.remove(b"lost+found")
        for name in sorted(dirs + files):
            path = os.path.join(folder, name)
            lines.append("%r %s" % (os.path.relpath(path, root), describe(path)))
    lines.sort()
    if verbose:
        print("\n".join(lines))
    print(len(lines), hashlib.sha256("\n".join(lines).encode()).hexdigest())


main()
