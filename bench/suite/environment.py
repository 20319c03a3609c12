# SPDX-License-Identifier: GPL-2.0-or-later
"""What it ran on."""
import os
import re

from suite import shell

VERSIONS = {
    "e2fsprogs": (["mke2fs", "-V"], r"mke2fs ([\d.]+)"),
    "fio": (["fio", "--version"], r"fio-([\d.]+)"),
    "bonnie++": (["dpkg-query", "-W", "-f", "${Version}", "bonnie++"], r"(\S+)"),
    "fuse2fs": (["dpkg-query", "-W", "-f", "${Version}", "fuse2fs"], r"(\S+)"),
    "dbench": (["dpkg-query", "-W", "-f", "${Version}", "dbench"], r"(\S+)"),
    "postmark": (["dpkg-query", "-W", "-f", "${Version}", "postmark"], r"(\S+)"),
    "sqlite3": (["sqlite3", "--version"], r"([\d.]+)"),
}


def cpu_name():
    text = shell.read_text("/proc/cpuinfo")
    for key in ("model name", "Model", "Hardware", "cpu model"):
        match = re.search(rf"^{key}\s*: (.+)$", text, re.M)
        if match:
            return match.group(1)
    return os.uname().machine


def memory_bytes():
    match = re.search(r"^MemTotal: +(\d+)", shell.read_text("/proc/meminfo"), re.M)
    return int(match.group(1)) * 1024 if match else None


def versions():
    found = {}
    for name, (cmd, pattern) in VERSIONS.items():
        if not shell.have(cmd[0]):
            continue
        try:
            match = re.search(pattern, shell.run(cmd, limit=20, ok=None)[0])
        except (shell.StepFailed, shell.Stopped):
            continue
        if match and "no packages" not in match.string:
            found[name] = match.group(1)
    return found


def describe(top, device, args, mkfs):
    emulation = args.emulate
    return {
        "commit": shell.output(["git", "-C", top, "rev-parse", "--short", "HEAD"]) or None,
        "kernel": os.uname().release, "machine": os.uname().machine, "cpu": cpu_name(), "cpus": os.cpu_count(),
        "load": os.getloadavg()[0], "memory_bytes": memory_bytes(), "mkfs": " ".join(["mkfs.ext4", *mkfs]),
        "device": {"name": device.name, "model": device.model, "size_bytes": device.size, "emulation": emulation,
                   "limit": "none", "text": device.model},
        "one_cpu": args.cpu, "mounts": {}, "versions": versions(),
    }
