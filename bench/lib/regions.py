# SPDX-License-Identifier: GPL-2.0-or-later
"""
How scattered the writes of a file system are: distinct 4 MiB regions of the device for each 64 MiB written.

Flash cards erase in units of about that size; the fewer of them are touched, the less a card has to move.
Two sources give the same list of writes: the record of ext4d's log filter (-o blk=log:FILE, dm-log-writes
format), and the kernel's block_rq_issue events for whatever else writes to a device.
"""
import os
import re
import struct
import subprocess

from results import Problem

REGION = 4 << 20
WINDOW = 64 << 20
SECTOR = 512
MAGIC = 0x6A736677736872
FLUSH, FUA, DISCARD, MARK = 1, 2, 4, 8
TRACING = ("/sys/kernel/tracing", "/sys/kernel/debug/tracing")
EVENT = re.compile(r"block_rq_issue: (\d+),(\d+) ([A-Z]+) \d+ \([^)]*\) (\d+) \+ (\d+)")


def writes_of_log(path):
    """(offset, length) in bytes of each write in a record of the log filter, in order."""
    with open(path, "rb") as f:
        head = f.read(28)
        if len(head) < 28:
            raise Problem(f"{path}: no record of writes")
        magic, _, entries, sector = struct.unpack("<QQQI", head)
        if magic != MAGIC or not 512 <= sector <= 65536:
            raise Problem(f"{path}: no record of writes")
        at = sector
        for _ in range(entries):
            f.seek(at)
            entry = f.read(32)
            if len(entry) < 32:
                raise Problem(f"{path}: ends before its last entry")
            start, count, flags, length = struct.unpack("<QQQQ", entry)
            at += sector
            if flags & MARK:
                continue
            if not flags & DISCARD:
                at += count * sector
                if count:
                    yield start * sector, count * sector


def writes_of_trace(lines, number, first_byte, size):
    """The same of trace lines, for the device `number` (major, minor) from first_byte on (a partition of it)."""
    for line in lines:
        m = EVENT.search(line)
        if not m or (int(m.group(1)), int(m.group(2))) != number or "W" not in m.group(3):
            continue
        offset, length = int(m.group(4)) * SECTOR - first_byte, int(m.group(5)) * SECTOR
        if length and 0 <= offset < size:
            yield offset, length


def windows(writes):
    """[(MiB written, distinct regions)] for each 64 MiB written, the rest at the end as well."""
    out, seen, done = [], set(), 0
    for offset, length in writes:
        while length > 0:
            part = min(length, WINDOW - done)
            seen.update(range(offset // REGION, (offset + part - 1) // REGION + 1))
            done, offset, length = done + part, offset + part, length - part
            if done == WINDOW:
                out.append((WINDOW >> 20, len(seen)))
                seen, done = set(), 0
    if done:
        out.append((round(done / (1 << 20), 2), len(seen)))
    return out


def whole(found):
    """Regions of each full window."""
    return [n for mib, n in found if mib == WINDOW >> 20]


def find_tracing():
    """Where tracefs is; mounted if it is not yet (the caller has a mount namespace of its own)."""
    for attempt in (False, True):
        if attempt:
            subprocess.run(["mount", "-t", "tracefs", "none", TRACING[0]], capture_output=True, check=False)
        root = next((t for t in TRACING if os.path.isdir(os.path.join(t, "events", "block"))), None)
        if root:
            return root
    raise Problem("this kernel offers no tracefs: the writes of kernel ext4 cannot be seen")


class Trace:
    """The kernel's write events between start() and stop(), in an instance of our own."""

    def __init__(self, device):
        self.device = device
        root = find_tracing()
        self.folder = os.path.join(root, "instances", f"ext4d-board-{os.getpid()}")
        name = os.path.basename(os.path.realpath(device))
        self.sys = f"/sys/class/block/{name}"
        self.first = 0
        whole_disk = self.sys
        if os.path.exists(f"{self.sys}/partition"):
            self.first = int(self._read(f"{self.sys}/start")) * SECTOR
            whole_disk = os.path.join(os.path.realpath(self.sys), "..")
        self.number = tuple(int(n) for n in self._read(f"{whole_disk}/dev").split(":"))
        self.size = int(self._read(f"{self.sys}/size")) * SECTOR

    @staticmethod
    def _read(path):
        with open(path, encoding="ascii") as f:
            return f.read().strip()

    def _write(self, name, text):
        with open(os.path.join(self.folder, name), "w", encoding="ascii") as f:
            f.write(text)

    def start(self):
        try:
            os.mkdir(self.folder)
            self._write("buffer_size_kb", "16384")
            self._write("events/block/block_rq_issue/enable", "1")
        except OSError as e:
            raise Problem(f"tracefs: {e.strerror}") from e

    def stop(self):
        """The writes. Problem when events were lost."""
        try:
            self._write("events/block/block_rq_issue/enable", "0")
            with open(os.path.join(self.folder, "trace"), encoding="utf-8", errors="replace") as f:
                lines = f.readlines()
        finally:
            self.close()
        written, held = next(((int(a), int(b)) for b, a in (re.search(r"(\d+)/(\d+)", line).groups()
                              for line in lines if line.startswith("# entries-in-buffer"))), (0, 0))
        if written > held:
            raise Problem(f"{written - held} of {written} trace events were lost")
        return list(writes_of_trace(lines, self.number, self.first, self.size))

    def close(self):
        try:
            os.rmdir(self.folder)
        except OSError:
            pass
