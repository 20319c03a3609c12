#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Ctrl-C during bench/run.sh and bench/board.sh: nothing stays mounted, attached, running or lying about, and what was measured is kept. Root."""
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
BENCH = os.path.join(HERE, "..", "..", "bench")
ARGS = ["--no-install", "--smoke", "--emulate", "ram", "--only", "000,dd", "--peers", "ext4,fuse2fs"]
RUN = [os.path.join(BENCH, "run.sh"), "--rounds", "9", *ARGS]
BOARD = [os.path.join(BENCH, "board.sh"), *ARGS]


def processes_with(text):
    """Command lines that name a path below `text`."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/cmdline", "rb") as f:
                line = f.read().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if text in line:
            found.append(line)
    return found


def backing_of(loop):
    """The file behind a loop device, "" if there is none."""
    try:
        with open(f"/sys/class/block/{os.path.basename(loop)}/loop/backing_file", encoding="utf-8") as f:
            return f.read().strip()
    except OSError:
        return ""


class Interrupted(unittest.TestCase):
    def interrupt(self, step, signals, command=tuple(RUN)):
        """Runs until a line begins with `step`, then sends the signals as a terminal does, to the whole group. (output, record)"""
        with tempfile.TemporaryDirectory(prefix="ext4d-test.") as folder:
            tmp, out = os.path.join(folder, "tmp"), os.path.join(folder, "out")
            os.mkdir(tmp)
            process = subprocess.Popen([*command, "--out", out], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                       env={**os.environ, "TMPDIR": tmp}, start_new_session=True)
            lines, loop = [], None
            for line in process.stdout:
                lines.append(line)
                if line.startswith("device: /dev/loop"):
                    loop = line.split()[1].rstrip(",")
                if line.startswith(step):
                    break
            backing = backing_of(loop)
            time.sleep(0.2)
            for s in signals:
                os.killpg(process.pid, s)
                time.sleep(0.05)
            with process.stdout:
                lines.append(process.stdout.read())
            text = "".join(lines)
            self.assertEqual(process.wait(60), 130, text)
            self.assertIn("interrupted: cleaning up", text)
            self.assertEqual(os.listdir(tmp), [], text)
            self.gone(lambda: processes_with(tmp))
            self.assertTrue(backing.endswith("/image"), text)
            # Of a file system that is no longer mounted, the name is all that is left.
            self.gone(lambda: [b for b in (backing_of(loop),) if b in (backing, "/image")])
            with open(os.path.join(out, "results.json"), encoding="utf-8") as f:
                return text, json.load(f)

    def gone(self, left):
        """A daemon ends a moment after its unmount has returned."""
        end = time.monotonic() + 20
        while left() and time.monotonic() < end:
            time.sleep(0.05)
        self.assertEqual(left(), [])

    def test_ext4d_is_mounted(self):
        _, record = self.interrupt("[5/", [signal.SIGINT])
        self.assertFalse(record["complete"])
        self.assertEqual([x["name"] for x in record["experiments"]], ["000"])
        self.assertTrue(record["experiments"][0]["metrics"])

    def test_a_board(self):
        """Which waits for what it has started, however long that takes to clean up."""
        self.interrupt("[2/", [signal.SIGINT], BOARD)

    def test_somebody_is_impatient(self):
        self.interrupt("[2/", [signal.SIGINT] * 3)

    def test_a_peer_is_mounted_and_the_terminal_goes_away(self):
        self.interrupt("[4/", [signal.SIGHUP])


if __name__ == "__main__":
    if os.geteuid() != 0 or not os.path.exists("/dev/fuse"):
        print("skipped: needs root and /dev/fuse")
        sys.exit(77)
    unittest.main()
