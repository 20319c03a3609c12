# SPDX-License-Identifier: GPL-2.0-or-later
"""003: balance_order, with fio near the dirty limit: write(2) against our limits, and a shared mapping."""
import json
import os
import statistics

from suite import shell
from suite.core import Experiment, Skip
from suite.experiments import plots
from suite.record import axis, beyond_noise

MIB = 1 << 20
# Sizes of the seed, and the limit at which its knee was: 20 % of 3 GB.
SIZES = (400, 500, 600, 700, 800, 900)
LIMIT = 600


class Balance(Experiment):
    name, title = "003", "balance_order"
    about = ("A writer that looked at the limits read counters that all processors share five times, where two are enough below the threshold, and the mark "
             "that makes all writers look more often stayed set longer than needed. It matters to who writes about as much as may be dirty.")
    seed = {"text": "fio mmap write on x86_64 with 3 GB, dirty limit about 600m",
            "rows": [{"label": f"{s}m", "unit": "MiB/s", "old": o, "new": n} for s, o, n in
                     ((400, 374.75, 382.575), (500, 363.625, 378.375), (600, 308.875, 374.25), (700, 188, 209), (800, 140.375, 154.5),
                      (900, 124.875, 125.5))]}
    fits = "usb2"
    guess = {"smoke": 3, "quick": 4, "default": 30, "full": 120}
    THROTTLES = ("2009", "ioless")
    LIMIT_MIB = {"smoke": 12, "quick": 30, "default": 60, "full": 600}

    def setup(self):
        if not shell.have("fio"):
            raise Skip("fio is not installed (apt-get install fio)")
        limit = self.size(self.LIMIT_MIB)
        room = self.suite.device.size // MIB
        while limit > 8 and limit * 2 > room * 8 // 10:
            limit //= 2
        self.limit_mib = limit
        self.sizes = [s * limit // LIMIT for s in (SIZES if self.suite.mode != "smoke" else SIZES[1:5:3])]
        self.record.head["workload"] = f"fio rw=write bs=4k, ioengine=psync and mmap, {self.sizes[0]} to {self.sizes[-1]} MiB"
        self.record.head["scale"] = f"dirty limit {limit} MiB instead of {LIMIT}: sizes of the seed times {limit / LIMIT:g}"
        self.curves = {}

    def variants(self):
        # The limit in bytes, half of it in the background, and a cache in which it is 40 %.
        common = {"dirty_bytes": self.limit_mib * MIB, "dirty_background_bytes": self.limit_mib * MIB // 2}
        options = f"cache={max(self.limit_mib * 5 // 2, 32)}m"
        made = [self.own(f"{name}, {throttle}", {"balance_order": order, "throttle": throttle}, options, **common)
                for throttle in self.THROTTLES[:1 if self.suite.mode == "smoke" else 2] for name, order in (("new", "bdi_first"), ("old", "global_first"))]
        peers = self.peers(options=options)
        # At a twentieth of the others' speed fuse2fs would take most of the ten minutes.
        return made + [p for p in peers if p.system != "fuse2fs" or self.suite.mode != "quick"]

    def step(self, run):
        for engine in ("psync", "mmap"):
            # What a mapping does is the kernel's affair: every other size will do when time is short.
            for size in self.sizes[::2 if engine == "mmap" and self.suite.mode == "quick" else 1]:
                before = run.snapshot()
                rate = self.one_size(run, engine, size)
                if rate is None:
                    break
                run.counters(before, f"{engine} {size}")
                v = run.variant
                self.metric(engine, size).add(v.system, v.setting, rate)
                self.curves.setdefault((engine, v.label()), (v, {}))[1].setdefault(size, []).append(rate)

    def metric(self, engine, size):
        name = {"psync": "write(2)", "mmap": "mmap"}[engine]
        return self.record.metric(f"{engine}_{size}", f"{name} {size} MiB ({size / self.limit_mib:.2f})", "MiB/s")

    def one_size(self, run, engine, size):
        """MiB/s of fio's own clock, which stops at the last write; then everything is written out and the file removed."""
        target = os.path.join(self.suite.mnt, "f")
        result = os.path.join(self.suite.work, "fio.json")
        cmd = ["fio", "--name=w", f"--filename={target}", "--rw=write", "--bs=4k", f"--size={size}m", f"--ioengine={engine}",
               "--output-format=json", f"--output={result}", "--fallocate=none"]
        took = run.seconds(f"{engine}_{size}", cmd, cwd=self.suite.work)
        if took is None:
            run.stopped(self.metric(engine, size), size)
            return None
        with open(result, encoding="utf-8") as f:
            rate = json.load(f)["jobs"][0]["write"]["bw_bytes"] / MIB
        shell.run(["sync", target], limit=self.step_limit)
        os.unlink(target)
        return rate

    def finish(self):
        r = self.record
        for throttle in self.THROTTLES:
            new, old = f"new, {throttle}", f"old, {throttle}"
            calls, reads, flips = plots.sums(r, new, "wb.balance_full", "wb.global_reads", "wb.dirty_exceeded_set")
            old_calls, old_reads, old_flips = plots.sums(r, old, "wb.balance_full", "wb.global_reads", "wb.dirty_exceeded_set")
            self.claim(f"throttle={throttle}: fewer reads of shared counters for each look",
                    reads / calls < old_reads / old_calls if calls and old_calls else None,
                    f"{reads / max(calls, 1):.2f} against {old_reads / max(old_calls, 1):.2f} ({calls} and {old_calls} looks in all rounds: "
                    f"too few for the reads to show in time), dirty_exceeded set {flips} against {old_flips} times")
        self.claim_near_limit()
        for engine, label in (("psync", "write(2)"), ("mmap", "mmap")):
            for throttle in self.THROTTLES:
                series = [self.series(v, rows) for (e, _), (v, rows) in self.curves.items()
                          if e == engine and (v.setting is None or v.setting.endswith(throttle))]
                r.plot(f"curve_{engine}_{throttle}", f"{label}, throttle={throttle}", "lines", axis("size", "MiB"), axis("throughput", "MiB/s"),
                       series, f"Throughput of {label} against size; the dirty limit is at {self.limit_mib} MiB.",
                       [{"axis": "x", "value": self.limit_mib, "label": "dirty limit"}])

    def claim_near_limit(self):
        """Better at the limit or above it, worse nowhere, each beyond the spread of the rounds."""
        better, worse, texts = 0, 0, []
        for size in self.sizes:
            metric = self.metric("psync", size)
            a, b = (metric.results.get(("ext4d", f"{s}, 2009")) for s in ("new", "old"))
            if not a or not b or not a["values"] or not b["values"]:
                continue
            texts.append(f"{size} MiB {(a['median'] / b['median'] - 1) * 100:+.1f} %")
            verdict = beyond_noise(metric, "new, 2009", "old, 2009")
            worse += verdict is False
            better += verdict is True and size >= self.limit_mib
        if not better and not worse:
            texts.append("all within the spread; the switch changes how often shared counters are read, and dirty_exceeded flips as often")
        shown = True if better and not worse else False if worse else None
        self.claim("throttle=2009: higher throughput near the limit, none lower beyond noise (write(2))", shown, ", ".join(texts) or "not measured")

    @staticmethod
    def series(v, rows):
        sizes = sorted(rows)
        return {"label": v.setting or v.system, "system": v.system, "setting": v.setting,
                "points": [[s, statistics.median(rows[s])] for s in sizes],
                "low": [min(rows[s]) for s in sizes], "high": [max(rows[s]) for s in sizes]}
