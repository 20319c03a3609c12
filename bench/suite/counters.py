# SPDX-License-Identifier: GPL-2.0-or-later
"""The counters of a mount: .ext4d/stats.json, and the histograms of the text files beside it."""
import json
import os
import re
import time

from suite.shell import StepFailed, read_text

GAUGE = re.compile(r"(_min|_max|_mean|_p50|_p99|_mean_ns|_p99_ns|_max_ns|_mean_bytes|uptime_ms|nr_dirty|nr_writeback|nr_parked|"
                   r"threshold|cache_.*|in_flight|_threads.*|bandwidth_pages|depth|direct)$")
HIST_FILES = ("writeback", "device", "jbd2_info", "throttle", "stripes")
HEAD = re.compile(r"^(\w+) count (\d+) mean (\d+) max (\d+)$")
BUCKET = re.compile(r"^ +<= (\d+) (\d+)$")
LONGEST = re.compile(r"^ +longest commit \d+: (\d+)us")


def read_stats(mnt):
    """All plain counters. A few tries: a reader may meet the file while the daemon is at its limit."""
    for _ in range(5):
        try:
            return json.loads(read_text(os.path.join(mnt, ".ext4d/stats.json")))
        except ValueError:
            time.sleep(0.05)
    raise StepFailed(f"{mnt}/.ext4d/stats.json cannot be read")


def read_text_file(text, values, hists):
    name = None
    for line in text.splitlines():
        head, bucket = HEAD.match(line), BUCKET.match(line)
        if head:
            name = head.group(1)
            hists[name] = {}
        elif bucket and name:
            hists[name][int(bucket.group(1))] = int(bucket.group(2))
        else:
            fields = line.split()
            if len(fields) == 2 and re.fullmatch(r"-?\d+", fields[1]):
                values[fields[0]] = int(fields[1])


class Snapshot:
    """values: {name: number}; hists: {name: {upper bound: count}}; longest: the longest commits in seconds."""

    def __init__(self, mnt):
        self.values = dict(read_stats(mnt))
        self.hists = {}
        for name in HIST_FILES:
            text = read_text(os.path.join(mnt, ".ext4d", name))
            read_text_file(text, self.values, self.hists)
            if name == "jbd2_info":
                self.longest = [int(m.group(1)) / 1e6 for m in map(LONGEST.match, text.splitlines()) if m]

    def since(self, before):
        """(delta, hist): what was gained; gauges as they are now. Only what is not 0."""
        delta = {}
        for name, value in self.values.items():
            if not isinstance(value, (int, float)):
                continue
            if GAUGE.search(name) or name.startswith("nr_to_write"):
                delta[name] = value
            elif value != before.values.get(name, 0):
                delta[name] = value - before.values.get(name, 0)
        hist = {}
        for name, buckets in self.hists.items():
            old = before.hists.get(name, {})
            gained = {bound: n - old.get(bound, 0) for bound, n in buckets.items() if n != old.get(bound, 0)}
            if gained:
                hist[name] = gained
        return delta, hist
