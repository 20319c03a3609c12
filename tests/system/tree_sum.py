#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""tree_sum.py FOLDER [verbose] [no-folder-times]: one line for each file below a folder (if verbose) and a checksum of all lines: what two readers of the same tree must agree on.
The times of folders can be left out: fast commits do not have them."""
import hashlib
import os
import stat
import sys


def describe(path):
    st = os.lstat(path)
    parts = [oct(st.st_mode), str(st.st_uid), str(st.st_gid), str(st.st_nlink)]
    if not stat.S_ISDIR(st.st_mode) or "no-folder-times" not in sys.argv:
        parts.append(str(st.st_mtime_ns))
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
    verbose = "verbose" in sys.argv
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
