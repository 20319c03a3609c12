#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""mktree.py FOLDER SEED FILES [small]: a tree with everything a file system has to carry: small and larger files, holes, hard and symbolic
links, long names, deep folders, fifos and devices, xattrs, ACLs, odd times, removed and renamed files."""
import errno
import os
import random
import stat
import struct
import sys

ACL_HEAD = struct.pack("<I", 2)


def acl(user_perm, named):
    entries = [(1, user_perm, 0xFFFFFFFF)] + [(2, p, uid) for uid, p in named]
    entries += [(4, 5, 0xFFFFFFFF), (16, 7, 0xFFFFFFFF), (32, 4, 0xFFFFFFFF)]
    return ACL_HEAD + b"".join(struct.pack("<HHI", *e) for e in entries)


def setxattr(path, name, value):
    """A block of less than 4 KiB may be too small for all of them."""
    try:
        os.setxattr(path, name, value)
    except OSError as e:
        if e.errno != errno.ENOSPC or os.statvfs(path).f_bsize >= 4096:
            raise


def main():
    root, seed, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    small_inodes = len(sys.argv) > 4  # 128 bytes: whole seconds up to 2038
    late, nanos = (2**31, 0) if small_inodes else (2**33, 123456789)
    rnd = random.Random(seed)
    os.makedirs(root, exist_ok=True)
    folders, files = [root], []
    for i in range(count):
        folder = rnd.choice(folders if rnd.random() < 0.4 else folders[-8:])
        name = "%06d" % i + rnd.choice(["", "", "-" + "n" * rnd.randrange(1, 60), "é" * rnd.randrange(1, 100)])
        path = os.path.join(folder, name[:120])
        dice = rnd.random()
        if dice < 0.06:
            os.mkdir(path)
            folders.append(path)
        elif dice < 0.70:
            with open(path, "wb") as f:
                size = rnd.choice([0, 1, 59, 60, 100, 1000, 4095, 4096, 4097, 9000, 20000])
                f.write(rnd.randbytes(size) if size < 9000 else bytes([i & 255]) * size)
            files.append(path)
        elif dice < 0.72:
            with open(path, "wb") as f:
                span = rnd.choice([100000, 300000, 300000, 3000000])  # reading holes is what takes the time
                for _ in range(rnd.randrange(1, 8)):
                    f.seek(rnd.randrange(0, span))
                    f.write(rnd.randbytes(rnd.randrange(1, 9000)))
                if rnd.random() < 0.5:
                    f.truncate(rnd.randrange(0, span + span // 3))
            files.append(path)
        elif dice < 0.77 and files:
            os.link(rnd.choice(files), path)
        elif dice < 0.85:
            os.symlink("t" * rnd.choice([1, 20, 59, 60, 61, 300, 900]), path)
        elif dice < 0.87:
            os.mknod(path, rnd.choice([stat.S_IFIFO, stat.S_IFSOCK]) | 0o600)
        elif dice < 0.88:
            os.mknod(path, rnd.choice([stat.S_IFBLK, stat.S_IFCHR]) | 0o600,
                     os.makedev(rnd.randrange(300), rnd.randrange(100000)))
        elif dice < 0.93 and files:
            path = rnd.choice(files)
            for k in range(rnd.randrange(1, 5)):
                setxattr(path, "user.name%d" % rnd.randrange(9), rnd.randbytes(rnd.choice([0, 1, 20, 100, 300])))
            if rnd.random() < 0.3:
                setxattr(path, "trusted.t", rnd.randbytes(40))
        elif dice < 0.95 and files:
            setxattr(rnd.choice(files), "system.posix_acl_access",
                     acl(6, [(uid, rnd.randrange(8)) for uid in sorted(rnd.sample(range(1000, 2000), 3))]))
        elif dice < 0.96 and len(folders) > 3:
            setxattr(rnd.choice(folders[1:]), "system.posix_acl_default", acl(7, [(1234, 5)]))
        elif dice < 0.98 and files:
            path = files.pop(rnd.randrange(len(files)))
            if rnd.random() < 0.5:
                os.unlink(path)
            else:
                target = os.path.join(rnd.choice(folders), "moved%06d" % i)
                os.rename(path, target)
                files.append(target)
        elif files:
            path = rnd.choice(files)
            os.chown(path, rnd.randrange(70000), rnd.randrange(70000))
            os.chmod(path, rnd.choice([0o4755, 0o2755, 0o600, 0o1777]))
            os.utime(path, ns=(rnd.randrange(0, 2**31) * 10**9, rnd.randrange(-2**31, late) * 10**9 + nanos))


main()
