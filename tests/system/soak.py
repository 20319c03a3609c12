#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""soak.py EXT4D IMAGE MOUNTPOINT SECONDS SEED: random files, fsync, renames and removals; kill -9 of the daemon at a random moment; mount again (replay);
every file that was fsynced has its content, every removal that was followed by an fsync of the folder stays removed. Then again, until the time is over."""
import os
import random
import signal
import subprocess
import sys
import time

EXT4D, IMAGE, MNT = sys.argv[1:4]
SECONDS, SEED = int(sys.argv[4]), int(sys.argv[5])
rnd = random.Random(SEED)
durable = {}   # name -> content that must be there
gone = set()   # names that must not be there


def mount():
    for attempt in range(50):
        p = subprocess.run([EXT4D, IMAGE, MNT], capture_output=True, text=True)
        if p.returncode == 0:
            break
        time.sleep(0.1)
    else:
        sys.exit("mount: %s (seed %d)" % (p.stderr, SEED))
    out = subprocess.run(["pgrep", "-f", "^%s %s" % (EXT4D, IMAGE)], capture_output=True, text=True).stdout.split()
    if not out:
        sys.exit("no daemon found")
    return out


def unmount_lazily():
    subprocess.run(["umount", "-l", MNT], capture_output=True)


def check():
    for name, content in durable.items():
        try:
            with open(os.path.join(MNT, name), "rb") as f:
                got = f.read()
        except OSError as e:
            sys.exit("seed %d: fsynced file %s: %s" % (SEED, name, e))
        if got != content:
            sys.exit("seed %d: fsynced file %s has other content (%d bytes, %d expected)" % (SEED, name, len(got), len(content)))
    for name in gone:
        if os.path.exists(os.path.join(MNT, name)):
            sys.exit("seed %d: removed file %s is back" % (SEED, name))


def sync_folder():
    fd = os.open(MNT, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def one_operation(n):
    """Raises OSError when the daemon is killed in the middle; then the object's state is unknown."""
    name = "f%d" % rnd.randrange(60)
    path = os.path.join(MNT, name)
    dice = rnd.random()
    if dice < 0.6:
        content = rnd.randbytes(rnd.randrange(1, 60000))
        durable.pop(name, None)
        gone.discard(name)
        temp = path + ".tmp" if dice < 0.3 else path
        fd = os.open(temp, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o644)
        try:
            os.write(fd, content)
            os.fsync(fd)
        finally:
            os.close(fd)
        if temp != path:
            os.rename(temp, path)
            sync_folder()
        durable[name] = content
    elif dice < 0.75:
        durable.pop(name, None)
        gone.discard(name)
        if os.path.exists(path):
            os.unlink(path)
        sync_folder()
        gone.add(name)
    else:
        noise = os.path.join(MNT, "noise%d" % rnd.randrange(20))
        with open(noise, "ab") as f:
            f.write(rnd.randbytes(rnd.randrange(1, 200000)))
        if rnd.random() < 0.3:
            os.truncate(noise, rnd.randrange(0, 100000))
        if rnd.random() < 0.2:
            os.unlink(noise)
    return n


def main():
    deadline = time.time() + SECONDS
    rounds = operations = 0
    while time.time() < deadline:
        pids = mount()
        check()
        killed_at = time.time() + rnd.random() * 1.5
        killer = subprocess.Popen(["sh", "-c", "sleep %.3f; kill -9 %s 2>/dev/null" % (killed_at - time.time(), " ".join(pids))])
        try:
            while True:
                operations += 1
                one_operation(operations)
        except OSError:
            pass
        killer.wait()
        unmount_lazily()
        rounds += 1
    mount()
    check()
    subprocess.run([EXT4D, "-u", MNT], check=True)
    print("soak: %d kills, %d operations, %d durable files" % (rounds, operations, len(durable)))
    sys.exit(0 if rounds else 1)


# A killed daemon must not kill this: writes give an error.
signal.signal(signal.SIGPIPE, signal.SIG_IGN)
main()
