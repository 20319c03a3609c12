#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""What bench/run.py does with its options, without root and without running anything."""
import contextlib
import errno
import io
import os
import subprocess
import sys
import tempfile
import time
import types
import unittest
from unittest import mock

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
BENCH = os.path.join(HERE, "..", "..", "bench")
sys.path.insert(0, BENCH)

import run  # noqa: E402
from suite import core, guest, record, shell, systems  # noqa: E402
from suite import device as devices  # noqa: E402
from suite.shell import Refused, StepFailed  # noqa: E402

USABLE = sorted(os.sched_getaffinity(0))


def cpus_of_a_child():
    return subprocess.run(["sh", "-c", "grep Cpus_allowed_list /proc/self/status"], capture_output=True, text=True, check=True).stdout.split()[1]


class OneCpu(unittest.TestCase):
    def test_it_is_off_unless_asked_for(self):
        self.assertIsNone(run.parse([]).cpu)

    def test_it_takes_the_first_cpu_that_may_be_used(self):
        self.assertEqual(run.parse(["--one-cpu"]).cpu, USABLE[0])

    def test_the_script_decides_which(self):
        os.environ["EXT4D_BENCH_CPU"] = "5"
        self.addCleanup(os.environ.pop, "EXT4D_BENCH_CPU")
        self.assertEqual(run.parse(["--one-cpu"]).cpu, 5)
        self.assertIsNone(run.parse([]).cpu)

    def test_the_scripts_share_the_choice(self):
        text = subprocess.run(["bash", "-c", '. "$0/lib.sh"; one_cpu; echo "$EXT4D_BENCH_CPU ${client[*]} ${options[*]}"', BENCH],
                              capture_output=True, text=True, check=True).stdout.strip()
        self.assertEqual(text, f"{USABLE[0]} taskset -c {USABLE[0]} -o server_cpus={USABLE[0]}")

    def test_clients_stay_on_it_and_what_follows_does_not(self):
        with shell.on_cpus({USABLE[-1]}):
            self.assertEqual(cpus_of_a_child(), str(USABLE[-1]))
            with shell.on_cpus(shell.ALL_CPUS):
                self.assertEqual(os.sched_getaffinity(0), set(USABLE))
            self.assertEqual(os.sched_getaffinity(0), {USABLE[-1]})
        self.assertEqual(os.sched_getaffinity(0), set(USABLE))

    def test_ext4d_is_told_and_the_kernel_is_not(self):
        suite = types.SimpleNamespace(cpu=3)
        self.assertEqual(systems.Ext4d(suite).options("commit=1"), "commit=1,server_cpus=3")
        self.assertEqual(systems.Ext4d(suite).options(""), "server_cpus=3")
        self.assertEqual(systems.Ext4(suite).options("commit=1"), "commit=1")
        self.assertEqual(systems.Ext4d(types.SimpleNamespace(cpu=None)).options(""), "")


def suite_of(argv, folder="/nonexistent"):
    """A suite on an image that cannot be throttled, as root would have it; what it prints is kept."""
    with mock.patch.object(os, "makedirs"):
        suite = core.Suite(run.parse(argv), folder, os.path.dirname(os.path.abspath(BENCH)), "/build")
    suite.device = devices.Device("/dev/loop9", 1 << 30, "/image")
    suite.can_compare = True
    suite.record = types.SimpleNamespace(head={"environment": {"mounts": {}}})
    return suite


def quietly(call, *args):
    with contextlib.redirect_stdout(io.StringIO()):
        return call(*args)


class Slow(core.Experiment):
    name, title, fits = "000", "a test", "sdcard"


class Guest(unittest.TestCase):
    """What is compared, and where, when the kernel cannot be slowed down."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        for patch in (mock.patch.object(os, "geteuid", return_value=0), mock.patch.dict(os.environ, {"EXT4D_RIGS": self.folder}),
                      mock.patch.object(devices.Device, "can_throttle", lambda d: d.limited)):
            patch.start()
            self.addCleanup(patch.stop)

    def peers(self, *argv, ready=True):
        """(labels of the variants, notes)"""
        if ready:
            open(os.path.join(self.folder, "vm.ready"), "w").close()
        suite = suite_of(["--smoke", *argv], self.folder)
        found = quietly(Slow(suite).peers, ["raw", "null"])
        return [v.label() for v in found], " ".join(suite.notes)

    def test_the_comparison_goes_there_if_it_was_asked_for(self):
        labels, notes = self.peers("--emulate", "sata3", "--peers", "ext4")
        self.assertEqual(labels, ["guest", "null"])
        self.assertIn("measured in a qemu guest", notes)

    def test_nobody_waits_for_a_guest_who_did_not_ask(self):
        suite = suite_of(["--quick", "--emulate", "sata3"], self.folder)
        open(os.path.join(self.folder, "vm.ready"), "w").close()
        self.assertEqual(quietly(Slow(suite).peers, []), [])
        self.assertIn("--peers ext4,fuse2fs with limits", suite.notes[0])

    def test_ext4d_alone_and_a_reason_where_there_is_no_guest(self):
        labels, notes = self.peers("--emulate", "hdd", "--peers", "ext4", "--no-install", ready=False)
        self.assertEqual(labels, ["null"])
        self.assertIn("ext4d runs alone", notes)
        self.assertIn("--no-install forbids to download", notes)

    def test_reasons(self):
        suite = suite_of(["--emulate", "hdd"], self.folder)
        with mock.patch.object(shell, "have", return_value=False):
            self.assertIn("apt-get", guest.missing(suite))
        with mock.patch.object(os, "geteuid", return_value=1):
            self.assertIn("need root", guest.missing(suite))
        self.assertIn("is not there", guest.missing(suite, "nothing.sh"))

    def test_a_raid_is_never_compared_without_limits(self):
        labels, notes = self.peers("--emulate", "raid5", "--peers", "ext4")
        self.assertEqual(labels, ["null"])
        self.assertIn("md arrays", notes)
        self.assertIn("md", run.parse(["--emulate", "raid5", "--only", "004", "--peers", "ext4"]).names)
        self.assertNotIn("md", run.parse(["--emulate", "raid5", "--only", "004"]).names)

    def test_inside_the_disk_is_slow_already(self):
        suite = suite_of(["--smoke", "--device", "/dev/vda", "--inside", "sdcard", "--peers", "ext4"], self.folder)
        suite.device.limited = True
        variants = quietly(Slow(suite).peers, ["raw", "null"])
        self.assertEqual([(v.label(), v.limit) for v in variants],
                         [("ext4d throttled", "throttle"), ("ext4", "throttle"), ("raw", "throttle"), ("null", "none")])

    def test_the_disk_gets_the_limits_of_the_emulation(self):
        text = guest.limits_of("sdcard")
        for part in ("bps-write=25000000", "bps-read=80000000", "iops-write=600", "iops-read=2500"):
            self.assertIn("throttling." + part, text)

    def inner(self, **more):
        result = {"system": "ext4d", "setting": "throttled", "values": [8.0], "median": 8.0, "min": 8.0, "max": 8.0, "status": "ok",
                  "reason": None, "ratio": 1.0}
        x = {"name": "000", "status": "ok", "reason": None, "plots": [{"name": "p", "series": [{"label": "ext4", "system": "ext4", "points": [[1, 2]]}]}],
             "checks": [{"name": "e2fsck", "system": "ext4d", "setting": "throttled", "round": 1, "ok": True, "text": "clean"}],
             "metrics": [{"name": "m", "label": "m", "unit": "MB/s", "better": "higher", "results": [
                 result, {**result, "system": "ext4", "setting": None, "values": [16.0], "median": 16.0, "ratio": 0.5}]}]}
        env = {"kernel": "6.1", "cpus": 2, "memory_bytes": 1 << 30, "mounts": {"ext4": {"type": "ext4", "options": "defaults"}}}
        return {"environment": env, "experiments": [{**x, **more}]}

    def test_results_are_put_beside_those_of_the_host(self):
        experiment = Slow(suite_of(["--smoke"], self.folder))
        metric = experiment.record.metric("m", "m", "MB/s")
        metric.add("ext4d", "new", 100.0)
        quietly(guest.merge, experiment, self.inner())
        ratios = {(r["system"], r["setting"]): r["ratio"] for r in metric.as_json()["results"]}
        self.assertEqual(ratios, {("ext4d", "new"): 1, ("ext4d", "guest"): 1, ("ext4", None): 0.5})
        self.assertEqual(experiment.record.checks[0]["setting"], "guest")
        self.assertIn("ext4", experiment.suite.record.head["environment"]["mounts"])
        experiment.record.plot("p", "p", "lines", record.axis("x"), record.axis("y"), [], "text")
        guest.add_plots(experiment)
        self.assertEqual(experiment.record.plots[0]["series"][0]["label"], "ext4, guest")

    def test_a_failed_check_in_there_fails_the_experiment(self):
        experiment = Slow(suite_of(["--smoke"], self.folder))
        check = {"name": "e2fsck", "system": "ext4d", "setting": "throttled", "round": 1, "ok": False, "text": "broken"}
        quietly(guest.merge, experiment, self.inner(checks=[check]))
        self.assertEqual(experiment.record.head["status"], "failed")

    def test_a_guest_without_results_is_a_failed_step(self):
        experiment = Slow(suite_of(["--smoke"], self.folder))
        with self.assertRaisesRegex(StepFailed, "no room"):
            guest.merge(experiment, self.inner(status="skipped", reason="no room"))


class Machine(unittest.TestCase):
    """What cannot be had is said."""

    def test_no_fuse(self):
        with mock.patch.object(os.path, "exists", lambda path: path != "/dev/fuse"), self.assertRaisesRegex(Refused, "no /dev/fuse"):
            run.check_machine(suite_of(["--smoke"]))

    def test_a_kernel_without_ext4(self):
        suite = suite_of(["--smoke", "--peers", "ext4"])
        with mock.patch.object(os, "geteuid", return_value=0), mock.patch.object(shell, "have", return_value=True), \
                mock.patch.object(shell, "read_text", return_value="nodev tmpfs"), mock.patch.object(shell, "output", return_value=""), \
                mock.patch.object(os.path, "exists", return_value=True):
            quietly(run.check_machine, suite)
        self.assertEqual(suite.peers, [])
        self.assertTrue(any("this kernel has no ext4" in n for n in suite.notes))

    def test_too_little_memory_for_an_image(self):
        with mock.patch.object(devices, "available_bytes", return_value=200 << 20), self.assertRaisesRegex(Refused, "200 MiB are available: use --device"):
            devices.open_image("/nonexistent", 1 << 30, [])
        notes = []
        with mock.patch.object(devices, "available_bytes", return_value=1 << 30), mock.patch.object(os, "geteuid", return_value=1), \
                mock.patch.object(devices, "fill", side_effect=OSError(errno.ENOSPC, "No space left on device")), \
                self.assertRaisesRegex(Refused, "No space left on device: the image of 512 MiB does not fit"):
            devices.open_image("/nonexistent", 4 << 30, notes)
        self.assertIn("half of the memory", notes[0])

    def test_no_loop_device(self):
        device, notes = devices.Device("/image", 1 << 30, "/image"), []
        with mock.patch.object(shell, "run", side_effect=StepFailed("losetup: cannot find an unused loop device")):
            devices.attach(device, notes)
        self.assertEqual((device.path, device.loop), ("/image", None))
        self.assertIn("cannot find an unused loop device", notes[0])


class Processes(unittest.TestCase):
    def test_nothing_outlives_its_command(self):
        """Not even what went into a process group of its own, as timeout(1) does."""
        process = shell.start(["sh", "-c", "timeout 100 sleep 99 & wait"])
        end = time.monotonic() + 20
        while len(shell.members(process.pid)) < 3 and time.monotonic() < end:
            time.sleep(0.01)
        self.assertGreaterEqual(len(shell.members(process.pid)), 3)
        shell.kill_group(process)
        self.assertEqual(shell.members(process.pid), [])


class Names(unittest.TestCase):
    def test_unknown_ones_are_refused_with_those_that_there_are(self):
        for argv, text in ((["--only", "nonsense"], "there is no nonsense"), (["--peers", "xfs"], "there is no xfs")):
            with self.assertRaisesRegex(Refused, text):
                run.parse(argv)


if __name__ == "__main__":
    unittest.main()
