#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Counting 4 MiB regions (bench/lib/regions.py): both sources of writes, and the windows of 64 MiB."""
import os
import struct
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "bench", "lib"))

import regions  # noqa: E402
from results import Problem  # noqa: E402

MIB = 1 << 20


def record(entries, count=None):
    """A log of (offset, length, flags) as the log filter writes it."""
    out = struct.pack("<QQQI", regions.MAGIC, 1, len(entries) if count is None else count, 512).ljust(512, b"\0")
    for offset, length, flags in entries:
        mark = flags & regions.MARK
        out += struct.pack("<QQQQ", offset // 512, length // 512, flags, 4 if mark else 0).ljust(512, b"\0")
        if not flags & (regions.DISCARD | regions.MARK):
            out += bytes(length)
    return out


class Regions(unittest.TestCase):
    def writes(self, data):
        with tempfile.NamedTemporaryFile() as f:
            f.write(data)
            f.flush()
            return list(regions.writes_of_log(f.name))

    def test_a_record_gives_its_writes_only(self):
        log = record([(4096, 8192, 0), (0, 0, regions.FLUSH), (1 << 20, 4096, regions.DISCARD), (0, 0, regions.MARK),
                      (65536, 512, regions.FUA)])
        self.assertEqual(self.writes(log), [(4096, 8192), (65536, 512)])

    def test_what_is_no_record_or_ends_too_early_is_refused(self):
        for data in (b"", bytes(4096), record([(0, 512, 0)], count=3)):
            with self.assertRaises(Problem):
                self.writes(data)

    def test_trace_lines_count_for_their_device_and_partition_only(self):
        lines = ["# entries-in-buffer/entries-written: 4/4   #P:2\n",
                 " dd-1 [000] d..2. 1.0: block_rq_issue: 8,0 WS 4096 () 2048 + 8 [dd]\n",
                 " dd-1 [000] d..2. 1.0: block_rq_issue: 8,0 R 4096 () 2048 + 8 [dd]\n",
                 " dd-1 [000] d..2. 1.0: block_rq_issue: 8,16 W 4096 () 2048 + 8 [dd]\n",
                 " kworker [000] d..2. 1.0: block_rq_issue: 8,0 FF 0 () 0 + 0 [kworker]\n",
                 " kworker [000] d..2. 1.0: block_rq_issue: 8,0 W 1048576 () 1000000 + 2048 none,0,0 [kworker]\n"]
        self.assertEqual(list(regions.writes_of_trace(lines, (8, 0), 2048 * 512, 1 << 40)),
                         [(0, 4096), ((1000000 - 2048) * 512, MIB)])
        self.assertEqual(list(regions.writes_of_trace(lines, (8, 0), 2048 * 512, MIB)), [(0, 4096)])

    def test_a_sequential_writer_touches_sixteen_regions_a_scattered_one_many(self):
        self.assertEqual(regions.windows((i * MIB, MIB) for i in range(128)), [(64, 16), (64, 16)])
        self.assertEqual(regions.windows((i * 8 * MIB, MIB) for i in range(64)), [(64, 64)])

    def test_a_write_over_a_border_belongs_to_both_sides(self):
        self.assertEqual(regions.windows([(4 * MIB - 512, 1024)]), [(0.0, 2)])
        self.assertEqual(regions.windows([(0, 63 * MIB), (80 * MIB, 2 * MIB)]), [(64, 17), (1.0, 1)])

    def test_only_full_windows_are_compared(self):
        self.assertEqual(regions.whole([(64, 20), (64, 18), (12.5, 3)]), [20, 18])


if __name__ == "__main__":
    unittest.main()
