# SPDX-License-Identifier: GPL-2.0-or-later
"""002: sync_passes, with synctest: the time of sync after creating, reading and removing many files."""
import json
import os

from suite import shell
from suite.core import Experiment, Skip
from suite.experiments import plots
from suite.record import axis

PHASES = ("create", "read", "unlink")
COLUMNS = {"create": "sync_create_s", "read": "sync_read_s", "unlink": "sync_unlink_s"}


class SyncPasses(Experiment):
    name, title = "002", "sync_passes"
    about = ("sync went straight to the waiting pass over all inodes. What the asynchronous pass would have cleaned was dirty when it was waited for, and "
             "each such inode, even with nothing but a new access time, forced a commit of its own.")
    seed = {"text": "sync after reading one byte of each file: 10 times slower before, not in every run",
            "rows": [{"label": "sync after the reads", "unit": "times", "old": 10, "new": 1}]}
    fits = "sata3"
    guess = {"smoke": 1.5, "quick": 4, "default": 60, "full": 300}
    MAX = {"smoke": 1024, "quick": 16384, "default": 65536, "full": 262144}
    LIMIT = {"smoke": 20, "quick": 150, "default": 300, "full": 1200}
    INODE = 16384 + 4096  # bytes a file may take

    def setup(self):
        if not os.access(self.suite.program("synctest"), os.X_OK):
            raise Skip("bench_synctest is not built")
        self.max = self.size(self.MAX) if self.emulation != "ram" or self.suite.mode != "quick" else 4096
        while self.max > 512 and self.max * self.INODE > self.suite.device.size * 8 // 10:
            self.max //= 2
        if self.max * self.INODE > self.suite.device.size * 8 // 10:
            raise Skip("the device has no room for 512 files")
        step = 2 if self.suite.mode == "quick" else 1
        self.counts = sorted({512 << i for i in range(0, 10, step) if 512 << i <= self.max} | {self.max})
        self.command = f"{self.suite.ext4d} --sync {self.suite.mnt}" if os.geteuid() != 0 or kernel() < (6, 18) else None
        if self.command:
            self.suite.note("sync(2) does not reach a FUSE file system here (it does for root from Linux 6.18 on): 002 uses ext4d --sync")
        self.record.head["workload"] = "synctest: n files of 16 KiB made, read (one byte each) and removed, sync after each"
        self.record.head["scale"] = f"512 to {self.max} files" if self.max < 262144 else None
        self.curves = {}

    def mkfs(self):
        return [*super().mkfs(), "-N", str(max(2048, self.max + 1024))]

    def variants(self):
        return [self.own("new", {"sync_passes": "async_then_wait", "sync_inode_commit": "each"}),
                self.own("old", {"sync_passes": "wait_only", "sync_inode_commit": "each"}),
                self.own("new, end", {"sync_passes": "async_then_wait", "sync_inode_commit": "end"}),
                self.own("old, end", {"sync_passes": "wait_only", "sync_inode_commit": "end"}), *self.peers()]

    def step(self, run):
        for n in self.counts:
            before = run.snapshot()
            row = self.one_count(run, n)
            if row is None:
                break
            run.counters(before, str(n))
            self.add(run, n, row)

    def one_count(self, run, n):
        """One row of synctest; None if this variant takes too long for so many files."""
        result = os.path.join(self.suite.work, "synctest.json")
        cmd = [self.suite.program("synctest"), "--dir", self.suite.mnt, "--min", str(n), "--max", str(n), "--json", result]
        if self.command and run.own:
            cmd += ["--sync-command", self.command]
        elif self.command:
            cmd += ["--sync-command", f"sync -f {self.suite.mnt}"]
        if os.path.exists(result):
            os.unlink(result)
        if run.seconds(f"sync_{n}", cmd) is None:
            # The limit is for making, reading and removing together: it says little about one sync.
            limit = self.stopped[(f"sync_{n}", run.variant.system, run.variant.setting)]
            self.metric(n).end(run.variant.system, run.variant.setting, "stopped", f"all of it stopped after {limit:.0f} s")
            return None
        with open(result, encoding="utf-8") as f:
            rows = json.load(f)["rows"]
        return rows[0] if rows else None

    @property
    def step_limit(self):
        return self.size(self.LIMIT) * self.suite.patience

    def metric(self, n):
        return self.record.metric(f"read_{n}", f"sync after reading {n}", "ms", "lower")

    def add(self, run, n, row):
        v = run.variant
        self.metric(n).add(v.system, v.setting, row[COLUMNS["read"]] * 1000)
        for phase in PHASES:
            curve = self.curves.setdefault((phase, v.label()), (v, {}))
            curve[1].setdefault(n, []).append(row[COLUMNS[phase]])

    def finish(self):
        r = self.record
        for n in [n for n in self.counts if n >= 16384] or self.counts[-1:]:
            self.claim_factor(n)
        commits, old_commits = (plots.sums(r, s, "sync_inode_commits")[0] for s in ("new", "old"))
        self.claim("the inodes force fewer commits", commits < old_commits if r.counters else None, f"{commits} against {old_commits}")
        labels = {"new": "async_then_wait, each (new)", "old": "wait_only, each (old)", "new, end": "async_then_wait, end",
                  "old, end": "wait_only, end"}
        for phase in PHASES:
            series = [self.series(labels.get(v.setting, v.label()), v, rows) for (p, _), (v, rows) in self.curves.items() if p == phase]
            r.plot(f"sync_{phase}", f"sync after {phase}", "lines", axis("files", log=True), axis("sync", "s", log=True), series,
                   f"Time of sync after the {phase} of n files, both axes logarithmic.")

    def claim_factor(self, n):
        new, old = self.metric(n).median("ext4d", "new"), self.metric(n).median("ext4d", "old")
        text = f"with sync_inode_commit=each the sync after the reads is at least 5 times faster ({n} files)"
        self.claim(text, old >= 5 * new if new and old else None,
                   f"{new:.1f} ms against {old:.1f} ms: {old / new:.1f} times" if new and old else "stopped: it took too long")

    @staticmethod
    def series(label, v, rows):
        counts = sorted(rows)
        middle = [sorted(rows[n])[len(rows[n]) // 2] for n in counts]
        return {"label": label, "system": v.system, "setting": v.setting, "points": [list(p) for p in zip(counts, middle)],
                "low": [min(rows[n]) for n in counts], "high": [max(rows[n]) for n in counts]}


def kernel():
    release = os.uname().release.split(".")
    try:
        return int(release[0]), int(release[1].split("-")[0])
    except (ValueError, IndexError):
        return 0, 0
