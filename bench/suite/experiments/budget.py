# SPDX-License-Identifier: GPL-2.0-or-later
"""000: writepages_budget, with the block write of bonnie++ (dd with 8 KiB blocks) beside the peers."""
from suite import shell
from suite.core import Experiment, Skip
from suite.experiments import plots
from suite.record import axis, beyond_noise

MIB = 1 << 20


class Budget(Experiment):
    name, title = "000", "writepages_budget"
    about = ("A page was added to the extent before the budget of the call was looked at: once it was spent, each further collect still took one "
             "page, nr_to_write went below 0, and small requests trickled out when writeback caught up with the writer.")
    seed = {"text": "board with two A15 cores, 2 GB, SATA SSD; dd of 4 GiB in 8 KiB blocks",
            "rows": [{"label": "dd 8 KiB", "unit": "MB/s", "old": 157, "new": 174}]}
    fits = "sata2"
    guess = {"smoke": 2, "quick": 3.5, "default": 14, "full": 60}
    MIBS = {"smoke": 48, "quick": 256, "default": 1024, "full": 4096}

    def setup(self):
        mib = self.size(self.MIBS)
        room = self.suite.device.size // MIB * 6 // 10
        self.mib = min(mib, room)
        if self.mib < 32:
            raise Skip("needs a device of 64 MiB")
        # A tenth and a twentieth of the file, as 2 GB of memory are to 4 GiB.
        self.limits = {"dirty_bytes": self.mib * MIB // 10, "dirty_background_bytes": self.mib * MIB // 20}
        self.record.head["workload"] = f"dd if=/dev/zero of=z.img bs=8K count={self.mib * 128}"
        self.record.head["scale"] = (f"{self.mib} MiB instead of 4096, dirty_bytes={self.limits['dirty_bytes']} (a tenth, as 20 % of 2 GB were); "
                                     "write_bump=x1 in both: the kernel of the seed had none")

    def variants(self):
        common = {"write_bump": "x1", **self.limits}
        return [self.own("new", {"writepages_budget": "before_add"}, **common),
                self.own("old", {"writepages_budget": "after_add"}, **common), *self.peers(["raw", "null"])]

    def step(self, run):
        m = self.record.metric
        sampler, before = run.sampler(), run.snapshot()
        sampler.start()
        if run.variant.system == "raw":
            cmd = ["dd", "if=/dev/zero", f"of={run.target('')}", "bs=1M", f"count={self.mib}", "oflag=direct"]
            run.rate(m("durable", "dd and fsync", "MB/s"), cmd + ["conv=fsync"], self.mib * MIB / 1e6)
            sampler.stop()
            return
        target = run.target("z.img")
        took = run.rate(m("dd_8k", "dd 8 KiB", "MB/s"), ["dd", "if=/dev/zero", f"of={target}", "bs=8K", f"count={self.mib * 128}"],
                        self.mib * MIB / 1e6)
        if took is not None:
            sync_s = shell.run(["sync", target], limit=self.step_limit)[1]
            m("durable", "dd and fsync", "MB/s").add(run.variant.system, run.variant.setting, self.mib * MIB / 1e6 / (took + sync_s))
        self.samples[run.variant.label()] = (run.variant, sampler.stop())
        run.counters(before)
        if run.own:
            self.check_content(run, target)

    def check_content(self, run, target):
        shell.drop_caches()
        text = shell.run(["cmp", "-n", str(self.mib * MIB), target, "/dev/zero"], limit=self.step_limit, ok=None)[0]
        self.record.check("content", "ext4d", run.variant.setting, run.round, not text, text or "as written")

    def finish(self):
        r = self.record
        low, negative, requests = plots.sums(r, "new", "nr_to_write_min", "negative_exits", "wb.request_bytes_count")
        old_low, old_negative, old_requests = plots.sums(r, "old", "nr_to_write_min", "negative_exits", "wb.request_bytes_count")
        self.claim("the budget is never overdrawn with before_add", low >= 0 and negative == 0 if r.counters else None,
                f"lowest nr_to_write {low} against {old_low}, calls below 0: {negative} against {old_negative}")
        for name in ("dd_8k", "durable"):
            metric = r.metric(name, "", "MB/s")
            text = plots.percent(metric.median("ext4d", "new"), metric.median("ext4d", "old"))
            trickle = "" if old_negative else "; no call spent its budget: writeback was not behind, or the file is too small"
            self.claim(f"more MB/s, {metric.label}", beyond_noise(metric, "new", "old") if old_negative else None,
                       f"{text}; requests {requests} against {old_requests}{trickle}")
        labels = {"new": "before_add (new)", "old": "after_add (old)"}
        categories, series = plots.hist_bars(r, "request_bytes", ("new", "old"), labels)
        small = {s: sum(n for b, n in plots.merge_hists(r, "request_bytes", s).items() if b < 16384) for s in ("new", "old")}
        r.plot("request_bytes", "Sizes of the requests", "bars", axis("request", categories=categories), axis("requests", log=True), series,
               f"Requests below 16 KiB: {small['new']} with before_add, {small['old']} with after_add.")
        series = [{"label": labels.get(v.setting, v.label()), "system": v.system, "setting": v.setting, "points": p}
                  for v, p in self.samples.values() if p]
        if series:
            r.plot("throughput", "Throughput over time (last round)", "lines", axis("time", "s"), axis("to the device", "MB/s"), series,
                   "Bytes that reached the device, each quarter of a second.")
