#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""What bench/run.py does with its options, without root and without running anything."""
import os
import subprocess
import sys
import types
import unittest

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
BENCH = os.path.join(HERE, "..", "..", "bench")
sys.path.insert(0, BENCH)

import run  # noqa: E402
from suite import shell, systems  # noqa: E402
from suite.shell import Refused  # noqa: E402

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


class Names(unittest.TestCase):
    def test_unknown_ones_are_refused_with_those_that_there_are(self):
        for argv, text in ((["--only", "nonsense"], "there is no nonsense"), (["--peers", "xfs"], "there is no xfs")):
            with self.assertRaisesRegex(Refused, text):
                run.parse(argv)


if __name__ == "__main__":
    unittest.main()
