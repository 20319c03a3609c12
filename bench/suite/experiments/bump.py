# SPDX-License-Identifier: GPL-2.0-or-later
"""004: write_bump, with a sequential dd on a RAID 5."""
from suite import shell
from suite.core import Experiment, Skip
from suite.experiments import plots
from suite.record import axis

MIB = 1 << 20
SETTINGS = ("contig", "x8", "x16", "x1")


class Bump(Experiment):
    name, title = "004", "write_bump"
    about = ("How much one call of writepages may write: contig looks for the dirty pages that follow each other, x8 and x16 take a multiple of what was asked for. "
             "Reports went both ways: twice as fast on two RAID 5 of 8 disks, slower on a RAID 6 of 12.")
    seed = {"text": "2 hardware RAID 5 of 8 disks; md RAID 6 of 12 disks, 64 KiB chunks; 32 GB dd; old: contig, new: x8",
            "rows": [{"label": "2 x RAID 5", "unit": "MB/s", "old": 650, "new": 1300}, {"label": "RAID 6", "unit": "MB/s", "old": 420, "new": 350}]}
    fits = "raid5"
    guess = {"smoke": 2, "quick": 3.5, "default": 15, "full": 60}
    MIBS = {"smoke": 96, "quick": 320, "default": 1024, "full": 8192}

    def setup(self):
        if self.emulation not in (None, "raid5"):
            self.suite.note(f"004 needs stripes: it uses --emulate raid5, not {self.emulation}")
            self.emulation = "raid5"
        self.mib = min(self.size(self.MIBS), self.suite.device.size // MIB * 7 // 10)
        if self.mib < 32:
            raise Skip("needs a device of 64 MiB")
        self.record.head["workload"] = f"dd if=/dev/zero of=z.img bs=1M count={self.mib}, writeback_chunk=1024"
        # Little may be dirty, so that the flusher does the work and not the fsync at the end.
        self.limits = {"dirty_bytes": 32 * MIB, "dirty_background_bytes": 16 * MIB}
        self.record.head["scale"] = f"{self.mib} MiB instead of 32 GB, 32 MiB may be dirty (as much as x8 makes of a call), background writeback from 16 MiB on"

    def variants(self):
        return [self.own(s, {"write_bump": s}, writeback_chunk="1024", **self.limits) for s in SETTINGS] + (self.peers() if self.emulation is None else [])

    def step(self, run):
        before = run.snapshot()
        target = run.target("z.img")
        run.rate(self.record.metric("dd_1m", "dd 1 MiB and fsync", "MB/s"),
                 ["dd", "if=/dev/zero", f"of={target}", "bs=1M", f"count={self.mib}", "conv=fsync"], self.mib * MIB / 1e6)
        delta, _ = run.counters(before)
        if not run.own:
            return
        v, m = run.variant, self.record.metric
        for name, label, key in (("calls", "calls of writepages", "wb.writepages"), ("full", "full stripes", "raid5.full"),
                                 ("partial", "partial stripes", "raid5.partial"), ("reads", "member reads", "raid5.member_reads")):
            if key in delta or key.startswith("wb.") or self.emulation == "raid5":
                m(name, label, "", "lower" if name != "full" else "higher").add(v.system, v.setting, delta.get(key, 0))
        text = shell.run(["cmp", "-n", str(self.mib * MIB), target, "/dev/zero"], limit=self.step_limit, ok=None)[0]
        self.record.check("content", "ext4d", v.setting, run.round, not text, text or "as written")

    def value(self, name, setting):
        metric = self.record.metrics.get(name)
        return metric.median("ext4d", setting) if metric else None

    def finish(self):
        r = self.record
        calls = {s: self.value("calls", s) for s in SETTINGS}
        partial = {s: self.value("partial", s) for s in SETTINGS}
        if None not in calls.values():
            self.claim("x8 makes the fewest calls of contig, x8 and x1", calls["x8"] <= min(calls["contig"], calls["x1"]),
                    ", ".join(f"{s} {calls[s]:g}" for s in SETTINGS))
        if None not in partial.values():
            self.claim("x8 leaves no more partial stripes than contig and x1", partial["x8"] <= min(partial["contig"], partial["x1"]),
                    ", ".join(f"{s} {partial[s]:g}" for s in SETTINGS))
        speeds = {s: self.value("dd_1m", s) for s in SETTINGS}
        if speeds["x8"] and speeds["contig"]:
            self.claim("throughput of x8 against contig, whichever way it goes", True,
                    plots.percent(speeds["x8"], speeds["contig"]) + " (" + ", ".join(f"{s} {speeds[s] or 0:.0f}" for s in SETTINGS) + " MB/s)")
        series = [{"label": label, "system": "ext4d", "setting": None,
                   "points": [[i, self.value(name, s) or 0] for i, s in enumerate(SETTINGS)]}
                  for name, label in (("full", "full"), ("partial", "partial"), ("reads", "member reads"))]
        if any(y for s in series for _, y in s["points"]):  # a device that says nothing of its stripes has no picture of them
            r.plot("stripes", "Stripes", "bars", axis("write_bump", categories=list(SETTINGS)), axis("number", log=True), series,
                   "Full and partial stripes, and reads of members, for each setting.")
        r.plot("calls", "Calls of writepages", "bars", axis("write_bump", categories=list(SETTINGS)), axis("calls"),
               [{"label": "calls", "system": "ext4d", "setting": None, "points": [[i, calls[s] or 0] for i, s in enumerate(SETTINGS)]}],
               "Calls of writepages for each setting.")
