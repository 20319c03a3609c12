# SPDX-License-Identifier: GPL-2.0-or-later
"""The frame of all experiments: variants are run in turn, each on a fresh file system, and everything is recorded.

A step is one variant in one round: mkfs, mount, switches, work, counters, unmount, e2fsck. A step that fails is recorded and the others go on.
A peer that takes ten times as long as ext4d at one case is stopped there, and not asked again.
"""
import contextlib
import dataclasses
import os
import statistics
import threading
import time

from suite import device as devices
from suite import guest
from suite import record as records
from suite import shell, systems
from suite.counters import Snapshot
from suite.shell import StepFailed, Stopped

PEER_FACTOR = 10
PEER_LEAST_S = 3.0
# In memory; on a slow machine there are fewer rounds. Modelled and real devices take what they need.
BUDGET_S = {"smoke": 100, "quick": 560}


class Skip(Exception):
    """The experiment cannot be done here; the text says why."""


@dataclasses.dataclass
class Variant:
    """What runs: a system, and for ext4d the switches; `limit` is how the device is slowed down: filter, throttle, guest or
    none. The system `guest` is all that is compared in a guest, in all rounds, as one step."""
    system: str
    setting: str = None
    tunables: dict = dataclasses.field(default_factory=dict)
    options: str = ""
    limit: str = "none"

    def label(self):
        return self.system if self.setting is None else f"{self.system} {self.setting}"


class Sampler(threading.Thread):
    """Bytes on their way to the device over time: `points` of (seconds, MB/s)."""

    def __init__(self, read, interval=0.25):
        super().__init__(daemon=True)
        self.read, self.interval = read, interval
        self.points, self.over = [], threading.Event()

    def run(self):
        begin = last = time.monotonic()
        bytes_then = self.read()
        while not self.over.wait(self.interval) and bytes_then is not None:
            now, value = time.monotonic(), self.read()
            if value is None:
                return
            self.points.append([round(now - begin, 3), (value - bytes_then) / (now - last) / 1e6])
            last, bytes_then = now, value

    def stop(self):
        self.over.set()
        self.join(5)
        return self.points


class Run:
    """One variant in one round, mounted."""

    def __init__(self, experiment, variant, round_):
        self.experiment, self.variant, self.round = experiment, variant, round_
        self.suite, self.record = experiment.suite, experiment.record
        self.mnt = self.suite.mnt
        self.system = systems.CLASSES[variant.system](self.suite)
        self.before = None

    @property
    def own(self):
        return self.variant.system == "ext4d"

    def target(self, name):
        """Where a file of that name is; the device itself for raw."""
        return self.suite.device.path if self.variant.system == "raw" else os.path.join(self.mnt, name)

    def snapshot(self):
        return Snapshot(self.mnt) if self.own else None

    def counters(self, before, case=None):
        """What was gained since `before` goes into the record; returned too."""
        after = self.snapshot()
        if after is None:
            return {}, {}
        delta, hist = after.since(before)
        self.record.counters.append({"system": "ext4d", "setting": self.variant.setting, "round": self.round, "case": case,
                                     "delta": delta, "hist": hist})
        return delta, hist

    def limit(self, case):
        took = self.experiment.own_seconds.get(case)
        if self.own or not took:
            return self.experiment.step_limit
        return max(PEER_LEAST_S, PEER_FACTOR * statistics.median(took))

    def seconds(self, case, cmd, **more):
        """Wall time of a command, None if it was stopped (the case is not asked of this variant again)."""
        key = (case, self.variant.system, self.variant.setting)
        if key in self.experiment.stopped:
            return None
        limit = self.limit(case)
        try:
            seconds = shell.run(cmd, limit=limit, **more)[1]
        except Stopped:
            self.experiment.stopped[key] = limit
            return None
        if self.own:
            self.experiment.own_seconds.setdefault(case, []).append(seconds)
        return seconds

    def rate(self, metric, cmd, amount, **more):
        """Amount per second into the metric; a stopped run is shown as such."""
        seconds = self.seconds(metric.name, cmd, **more)
        if seconds is not None:
            metric.add(self.variant.system, self.variant.setting, amount / seconds)
        else:
            self.stopped(metric, amount)
        return seconds

    def stopped(self, metric, amount=None):
        """The metric's value is at most (a rate) or at least (a time) what the limit allows."""
        limit = self.experiment.stopped.get((metric.name, self.variant.system, self.variant.setting), 0)
        why = f"stopped after {limit:.1f} s" + ("" if self.own else f": {PEER_FACTOR} times what ext4d took")
        bound = amount / limit if amount and limit else limit
        metric.end(self.variant.system, self.variant.setting, "stopped", why, bound)

    def sampler(self):
        if self.own:
            def read():
                try:
                    return systems_written(self.mnt)
                except (StepFailed, KeyError):
                    return None
        elif self.variant.system == "null":
            def read():
                return None  # it has no device
        else:
            read = self.suite.device.written_bytes
        return Sampler(read)


def systems_written(mnt):
    from suite.counters import read_stats
    return read_stats(mnt)["device.write.bytes"]


class Experiment:
    """name, title, about, seed: for the record. fits: the emulation that suits it. sizes: {mode: anything}."""
    name = title = about = ""
    seed = None
    fits = "ram"
    step_limit = 900
    guess = {"smoke": 2, "quick": 8, "default": 20, "full": 60}

    def __init__(self, suite):
        self.suite = suite
        self.record = records.ExperimentRecord(self.name, self.title, self.about, self.seed)
        self.own_seconds, self.stopped, self.samples, self.guest_plots = {}, {}, {}, {}
        self.emulation = suite.args.inside or (suite.args.emulate if suite.args.emulate != "fit" else self.fits)

    # What an experiment gives.

    def setup(self):
        """Sets workload and scale; Skip if it cannot run."""

    def variants(self):
        raise NotImplementedError

    def step(self, run):
        """The work, mounted."""
        raise NotImplementedError

    def finish(self):
        """Plots and claims."""

    # What it gets.

    def size(self, table):
        return table[self.suite.mode]

    def own(self, setting, tunables, options="", **common):
        """A variant of ext4d on the modelled device."""
        filtered = self.emulation and devices.EMULATED[self.emulation]["filter"]
        blk = f"blk={filtered}" if filtered else ""
        self.record.head["settings"][setting] = dict(tunables)
        return Variant("ext4d", setting, {**tunables, **common}, ",".join(filter(None, [blk, options])),
                       "filter" if filtered else "none")

    def peers(self, extra=(), options=""):
        """The others on the same device, ext4d among them if the device had to be slowed down in another way."""
        found = []
        slow = self.emulation is not None and self.emulation != "ram"
        names = [p for p in self.suite.peers + list(extra) if p in ("null",) or self.suite.can_compare]
        if slow and any(n != "null" for n in names):
            if "write_bps" not in devices.EMULATED[self.emulation]:
                names = [n for n in names if n == "null"]
                self.suite.note(f"--emulate {self.emulation} is a filter of ext4d, which runs alone on it; --only md compares on md arrays in a guest")
            elif not self.suite.device.can_throttle():
                names = [n for n in names if n == "null"]
                found += self.in_guest()
        for name in names:
            found.append(Variant(name, limit="throttle" if slow and name != "null" else "none"))
        if slow and any(v.limit == "throttle" for v in found):
            found.insert(0, Variant("ext4d", "throttled", {}, options, "throttle"))
        return found

    def in_guest(self):
        """The comparison that this kernel cannot slow a device down for; a note if there can be none."""
        where = "no cgroup v1 blkio controller (or no loop device): this kernel cannot be slowed down"
        why = guest.missing(self.suite)
        if why is None and self.suite.args.peers_given and self.suite.peers:
            self.suite.note(f"{where}; peers are measured in a qemu guest whose disk has limits, which takes minutes")
            return [Variant("guest", limit="guest")]
        others = "--emulate ram compares at full speed, --device on a real one"
        if why is None:
            others += ", and --peers ext4,fuse2fs with limits, in a qemu guest that is slow"
        self.suite.note(f"{where}, so ext4d runs alone where the device is modelled{'; no guest either: ' + why if why else ''}; {others}")
        return []

    def mkfs(self):
        emulated = devices.EMULATED.get(self.emulation or "", {})
        if "stride" in emulated:
            return ["-E", f"nodiscard,lazy_itable_init=0,lazy_journal_init=0,stride={emulated['stride']},stripe_width={emulated['width']}"]
        return []

    def order(self, variants, round_):
        """ext4d's variants first, another one in front in each round; then the peers, which are measured by it."""
        own = [v for v in variants if v.system == "ext4d"]
        shift = (round_ - 1) % len(own) if own else 0
        return own[shift:] + own[:shift] + [v for v in variants if v.system != "ext4d"]

    @contextlib.contextmanager
    def mounted(self, run):
        """Fresh file system, mounted and tuned; afterwards unmounted and checked."""
        suite, variant = self.suite, run.variant
        run.system.fresh(suite.device, self.mkfs())
        if variant.limit == "throttle":
            suite.device.throttle(self.emulation)
        try:
            shell.drop_caches()
            run.system.mount(suite.device, variant.options)
            suite.saw_mount(run)
            if run.own:
                run.system.tune(variant.tunables)
            yield run
            run.system.umount()
        except BaseException:
            run.system.kill()
            raise
        finally:
            if variant.limit == "throttle":
                suite.device.throttle(None)
        ok, text = run.system.check(suite.device)
        if run.system.has_image:
            self.record.check("e2fsck", variant.system, variant.setting, run.round, ok, text)

    def run_step(self, variant, round_):
        run = Run(self, variant, round_)
        with self.mounted(run):
            self.work(run)

    def work(self, run):
        """The step, with its clients where they belong."""
        with shell.on_cpus(self.suite.client_cpus()):
            self.step(run)

    def claim(self, text, shown, evidence):
        """What a device without limits does not show is not disproved by it."""
        if shown is False and self.emulation == "ram":
            shown, evidence = None, evidence + " (this device sets no limit: --emulate fit)"
        self.record.claim(text, shown, evidence)

    def failed(self, variant, round_, why):
        """One step failed. Ours fails the experiment; a peer's is a line in the table."""
        self.record.check("run", variant.system, variant.setting, round_, False, why)
        metrics = list(self.record.metrics.values())
        touched = [m for m in metrics if (variant.system, variant.setting) in m.results]
        for metric in touched or metrics[:1]:
            metric.end(variant.system, variant.setting, "failed", why.splitlines()[0][:120])


class Suite:
    """What all experiments share."""

    def __init__(self, args, work, top, build):
        self.args, self.work, self.top, self.build = args, work, top, build
        self.mode, self.rounds, self.cpu = args.mode, args.rounds, args.cpu
        self.mnt = os.path.join(work, "mnt")
        self.log = os.path.join(work, "log")
        self.ext4d = os.path.join(build, "ext4d")
        self.mkfs = ["-q", "-F", "-E", "nodiscard,lazy_itable_init=0,lazy_journal_init=0"]
        self.peers = list(args.peers)
        self.patience = guest.PATIENCE if args.inside else 1  # what limits of time are multiplied by
        self.can_compare = False
        self.device = self.record = self.progress = None
        self.notes = []
        os.makedirs(self.mnt, exist_ok=True)

    def client_cpus(self):
        return None if self.cpu is None else {self.cpu}

    def program(self, name):
        return os.path.join(self.build, "bench", "bench_" + name)

    def note(self, text):
        if text not in self.notes:
            self.notes.append(text)
            if self.progress:
                self.progress.clear()
            print("note: " + text)

    def saw_mount(self, run):
        for line in shell.read_text("/proc/self/mounts").splitlines():
            fields = line.split()
            if fields[1] == self.mnt:
                options = run.system.options(run.variant.options) or "defaults"
                self.record.head["environment"]["mounts"].setdefault(run.variant.system, {"type": fields[2], "options": options})

    def has_mib(self, mib):
        return self.device.size >= mib << 20

    # ---- Running ----

    def plan(self, experiments):
        """[(experiment, [(variant, round)])] of those that can run."""
        planned = []
        for experiment in experiments:
            try:
                experiment.setup()
                variants = experiment.variants()
            except (Skip, StepFailed) as why:
                experiment.record.skip(str(why))
                planned.append((experiment, []))
                continue
            if self.args.inside:
                variants = [v for v in variants if v.limit == "throttle"]
            steps = [(v, r) for r in range(1, self.rounds + 1) for v in experiment.order(variants, r)
                     if v.system != "guest" or r == self.rounds]
            for variant, _ in steps:
                guess = experiment.guess[self.mode]
                if variant.system == "guest":
                    guess = guest.BOOT_S + guess * guest.SLOWER * self.rounds * (1 + len(self.peers))
                self.progress.plan((experiment.name, variant.label()), guess)
            planned.append((experiment, steps))
        return planned

    def within_budget(self, experiment, steps):
        """Fewer rounds if time gets short; what users run is left out if there is none left."""
        budget = BUDGET_S.get(self.mode) if self.args.emulate == "ram" else None
        elapsed, left = self.progress.elapsed(), self.progress.left()
        # The first guesses are only guesses.
        if not budget or not steps or self.args.rounds_given or elapsed < budget / 4:
            return steps
        remaining = budget - elapsed
        rounds = self.rounds if left <= remaining else max(int(self.rounds * remaining / left), 1)
        if remaining <= 0 and not experiment.seed:
            rounds = 0
            experiment.record.skip(f"no time left: --{self.mode} ends after {budget} s")
        keep = [s for s in steps if s[1] <= rounds]
        self.progress.drop(len(keep), len(steps) - len(keep))
        if rounds < self.rounds:
            self.note(f"the machine is slow: fewer rounds than {self.rounds} in some experiments, to keep to {budget} s")
        return keep

    def run(self, experiments, on_end):
        for experiment, steps in self.plan(experiments):
            self.record.experiments.append(experiment.record)
            begin = time.monotonic()
            steps = self.within_budget(experiment, steps)
            try:
                for variant, round_ in steps:
                    self.one_step(experiment, variant, round_)
                if steps:
                    experiment.finish()
                    guest.add_plots(experiment)
            finally:
                experiment.record.head["seconds"] = time.monotonic() - begin
                self.save(False)
            self.progress.clear()
            on_end(experiment.record)
        self.save(True)

    def one_step(self, experiment, variant, round_):
        kind = (experiment.name, variant.label())
        self.progress.step(f"{experiment.name} {experiment.title}: round {round_} of {self.rounds}, {variant.label()}")
        begin = time.monotonic()
        try:
            if variant.system == "guest":
                guest.run(experiment)
            else:
                experiment.run_step(variant, round_)
        except Stopped:
            self.step_failed(experiment, variant, round_, "took too long and was stopped")
        except (StepFailed, OSError, ValueError, KeyError, ZeroDivisionError) as why:
            self.step_failed(experiment, variant, round_, f"{type(why).__name__}: {why}" if not isinstance(why, StepFailed) else str(why))
        self.progress.end(kind, time.monotonic() - begin)

    def step_failed(self, experiment, variant, round_, why):
        self.progress.clear()
        print(f"{experiment.name}, round {round_}, {variant.label()} failed: {why}")
        experiment.failed(variant, round_, why)

    def save(self, complete):
        self.record.head["notes"] = list(self.notes)
        self.record.save(self.progress.elapsed(), complete)
