# SPDX-License-Identifier: GPL-2.0-or-later
"""001: premap_pass, with pgioperf."""
import json
import os

from suite import shell
from suite.core import Experiment, Run, Skip
from suite.experiments import plots
from suite.record import axis

MIB = 1 << 20


class Premap(Experiment):
    name, title = "001", "premap_pass"
    about = ("Pages whose blocks were allocated long ago were submitted with a transaction handle open, the whole file with one handle if nothing needed "
             "mapping. On a congested device the transaction could not commit meanwhile, and everybody who waited for a commit stood still.")
    seed = {"text": "pgioperf on a disk, commits",
            "rows": [{"label": "mean", "unit": "s", "old": 18, "new": 0.1}, {"label": "standard deviation", "unit": "s", "old": 41, "new": 0.15},
                     {"label": "longest", "unit": "s", "old": 274.466639, "new": 0.563792},
                     {"label": "second", "unit": "s", "old": 126.467347, "new": 0.51998},
                     {"label": "third", "unit": "s", "old": 86.992429, "new": 0.509841}]}
    fits = "usb3"
    guess = {"smoke": 3, "quick": 6, "default": 50, "full": 150}
    MEMORY_MIB = {"smoke": 24, "quick": 192, "default": 256, "full": 512}
    SECONDS = {"smoke": 2, "quick": 40, "default": 60, "full": 300}
    FAST_SECONDS = {"smoke": 2, "quick": 3, "default": 20, "full": 120}  # a device on which nothing is slow

    def setup(self):
        if not os.access(self.suite.program("pgioperf"), os.X_OK):
            raise Skip("bench_pgioperf is not built")
        room = self.suite.device.size // MIB
        memory = 96 if self.emulation == "ram" and self.suite.mode == "quick" else self.size(self.MEMORY_MIB)
        self.memory_mib = min(memory, (room * 8 // 10 - 64) // 2)
        if self.memory_mib < 16:
            raise Skip("needs a device of 160 MiB")
        self.seconds = self.size(self.FAST_SECONDS if self.emulation == "ram" else self.SECONDS)
        self.record.head["workload"] = (f"pgioperf --memory {self.memory_mib * MIB} --seconds {self.seconds}: 16 readers, a checkpointer, "
                                        "a WAL writer with fdatasync at every 5th write")
        self.record.head["scale"] = (f"a page cache of {self.memory_mib} MiB in place of the memory, a file of {2 * self.memory_mib} MiB, a commit each second; "
                                      "kernel_cache=none, or the kernel's cache would hold the whole file")
        self.commits = {}

    def variants(self):
        # As pages of a memory of that size: a fifth may be dirty, a tenth starts the flusher.
        limits = {"dirty_bytes": self.memory_mib * MIB // 5, "dirty_background_bytes": self.memory_mib * MIB // 10}
        options = f"cache={self.memory_mib}m,kernel_cache=none,commit=1"
        return [self.own("new", {"premap_pass": "on"}, options, **limits), self.own("old", {"premap_pass": "off"}, options, **limits),
                *self.peers()]

    def command(self, *more):
        return [self.suite.program("pgioperf"), "--dir", self.mnt, "--memory", str(self.memory_mib * MIB),
                "--seconds", str(self.seconds), *more]

    @property
    def mnt(self):
        return self.suite.mnt

    def run_step(self, variant, round_):
        """The files are written by a mount that is as fast as the device; the second mount begins with nothing cached."""
        run = Run(self, variant, round_)
        system, device = run.system, self.suite.device
        system.fresh(device, self.mkfs())
        try:
            system.mount(device)
            shell.run(self.command("--prepare-only"), limit=self.step_limit)
            system.umount()
            if variant.limit == "throttle":
                device.throttle(self.emulation)
            shell.drop_caches()
            system.mount(device, variant.options)
            self.suite.saw_mount(run)
            if run.own:
                system.tune(variant.tunables)
            self.work(run)
            system.umount()
        except BaseException:
            system.kill()
            raise
        finally:
            if variant.limit == "throttle":
                device.throttle(None)
        ok, text = system.check(device)
        self.record.check("e2fsck", variant.system, variant.setting, round_, ok, text)

    def step(self, run):
        before = run.snapshot()
        result = os.path.join(self.suite.work, "pgioperf.json")
        shell.run(self.command("--prepared", "--json", result), limit=self.step_limit)
        with open(result, encoding="utf-8") as f:
            got = json.load(f)
        v, m, commits = run.variant, self.record.metric, got["commits"]
        for name, label in (("mean", "commit (WAL), mean"), ("sd", "standard deviation"), ("max", "longest")):
            m(name, label, "ms", "lower").add(v.system, v.setting, commits[name + "_s"] * 1000)
        for i, value in enumerate(commits["top5_s"][1:]):
            m(f"top{i + 2}", f"{i + 2}. longest", "ms", "lower").add(v.system, v.setting, value * 1000)
        m("commits", "commits of the WAL", "/s").add(v.system, v.setting, commits["count"] / got["elapsed_s"])
        self.commits[v.label()] = (v, got["series"])
        if not run.own:
            return
        delta, _ = run.counters(before)
        longest = run.snapshot().longest
        if delta.get("jbd2_commit_ns_mean"):
            m("jbd2_mean", "transaction commit, mean", "ms", "lower").add(v.system, v.setting, delta["jbd2_commit_ns_mean"] / 1e6)
        if longest:
            m("jbd2_max", "transaction commit, longest", "ms", "lower").add(v.system, v.setting, longest[0] * 1000)

    def finish(self):
        r = self.record
        for name, text in (("jbd2_mean", "mean time of a transaction commit at least 10 times lower"),
                           ("max", "the longest commit of the WAL at least 10 times shorter")):
            metric = r.metrics.get(name)
            new, old = metric and metric.median("ext4d", "new"), metric and metric.median("ext4d", "old")
            self.claim(text, old >= 10 * new if new and old else None,
                    f"{new:.2f} ms against {old:.2f} ms: {old / new:.1f} times" if new and old else "not measured")
        in_handle, premap = plots.sums(r, "new", "pages_in_handle", "pages_premap")
        old_in_handle, old_premap = plots.sums(r, "old", "pages_in_handle", "pages_premap")
        self.claim("nothing is submitted under a handle with premap_pass=on", in_handle == 0 if r.counters else None,
                f"pages in handles {in_handle} against {old_in_handle}, without {premap} against {old_premap}")
        labels = {"new": "premap_pass=on (new)", "old": "premap_pass=off (old)"}
        series = [{"label": labels.get(v.setting, v.label()), "system": v.system, "setting": v.setting,
                   "points": [[t, s * 1000] for t, s in commits]} for v, commits in self.commits.values() if commits]
        r.plot("commits", "Commits of the WAL writer (last round)", "lines", axis("time", "s"), axis("write + fdatasync", "ms", log=True), series,
               "Each commit by the time when it began.")
