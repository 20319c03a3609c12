# SPDX-License-Identifier: GPL-2.0-or-later
"""
bench/board.sh: one command for a small board with a spare disk or card, one JSON to share.

The experiments are those of bench/run.sh, which asks before it destroys a disk. Then a tree of small files is
unpacked on the same device, and the regions that this writes to are counted (regions.py). All along the
temperature and the clock of the processors are read where the kernel tells them.
"""
import argparse
import json
import os
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time

sys.dont_write_bytecode = True

import regions  # noqa: E402
from results import SYSTEMS, Problem, load  # noqa: E402

BENCH = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TOP = os.path.dirname(BENCH)
EXT4D = os.path.join(os.environ.get("EXT4D_BUILD") or os.path.join(TOP, "build", "release"), "ext4d")
TREE_MIB = {"smoke": 72, "quick": 136, "full": 520}
IMAGE_MIB = 1024  # of the tree without a device


def text_of(path):
    try:
        with open(path, encoding="utf-8", errors="replace") as f:
            return f.read().strip("\0\n ")
    except OSError:
        return None


# ---- Temperature and clock ----


class Sampler(threading.Thread):
    """Once a second: the hottest zone, and the slowest and fastest clock."""

    def __init__(self):
        super().__init__(daemon=True)
        self.end, self.start_s = threading.Event(), time.monotonic()
        self.zones = self._paths("/sys/class/thermal", "thermal_zone", "temp")
        self.clocks = self._paths("/sys/devices/system/cpu", "cpu", "cpufreq/scaling_cur_freq")
        self.temperature, self.clock = [], []

    @staticmethod
    def _paths(folder, prefix, name):
        try:
            found = [os.path.join(folder, d, name) for d in sorted(os.listdir(folder)) if d.startswith(prefix)]
        except OSError:
            return []
        return [p for p in found if text_of(p)]

    @staticmethod
    def _values(paths):
        return [int(t) / 1000 for t in map(text_of, paths) if t and t.lstrip("-").isdigit()]

    def run(self):
        while not self.end.wait(1):
            at = round(time.monotonic() - self.start_s, 1)
            degrees, mhz = self._values(self.zones), self._values(self.clocks)
            if degrees:
                self.temperature.append([at, max(degrees)])
            if mhz:
                self.clock.append([at, min(mhz), max(mhz)])

    def finish(self):
        self.end.set()
        self.join()
        out = {"temperature_c": None, "frequency_mhz": None}
        if self.temperature:
            values = [v for _, v in self.temperature]
            out["temperature_c"] = {"first": values[0], "max": max(values), "samples": self.temperature}
        if self.clock:
            out["frequency_mhz"] = {"min": min(c[1] for c in self.clock), "max": max(c[2] for c in self.clock),
                                    "samples": self.clock}
        return out


# ---- Regions ----


def run(*command, quiet=True):
    r = subprocess.run(command, capture_output=quiet, text=True, check=False)
    if r.returncode:
        raise Problem(f"{' '.join(command)}: {(r.stderr or r.stdout or '').strip() or r.returncode}")
    return r.stdout


def unpack(folder, mib):
    """Small files in many folders, 1 to 60 KiB each, the same in every run; synced at the end."""
    rng = random.Random(1)
    left, block, number = mib << 20, rng.randbytes(64 << 10), 0
    while left > 0:
        where = os.path.join(folder, f"d{number // 64:04d}")
        if number % 64 == 0:
            os.mkdir(where)
        size = rng.randint(1 << 10, 60 << 10)
        with open(os.path.join(where, f"f{number:06d}"), "wb") as f:
            f.write(block[:size])
        left, number = left - size, number + 1
    return number


def fresh(device):
    run("mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0", device)


def by_ext4d(device, work, mib):
    mnt, log = os.path.join(work, "mnt"), os.path.join(work, "writes.log")
    need = (mib << 20) * 3 // 2
    if shutil.disk_usage(work).free < need:
        raise Problem(f"{work}: the record of the writes needs {need >> 20} MiB")
    fresh(device)
    run(EXT4D, "-o", f"blk=log:{log}", device, mnt)
    try:
        unpack(mnt, mib)
    finally:
        run(EXT4D, "-u", mnt)
    return list(regions.writes_of_log(log))


def by_kernel(device, work, mib):
    mnt = os.path.join(work, "mnt")
    loop = None
    if not device.startswith("/dev/"):
        loop = device = run("losetup", "-f", "--show", device).strip()
    trace = None
    try:
        trace = regions.Trace(device)
        fresh(device)
        run("mount", "-t", "ext4", device, mnt)
        try:
            trace.start()
            unpack(mnt, mib)
        finally:
            run("umount", mnt)
        writes, trace = trace.stop(), None
        return writes
    finally:
        if trace:
            trace.close()
        if loop:
            run("losetup", "-d", loop)


def count_regions(device, out, mib):
    """An experiment as in results.json, so that the report shows it."""
    x = {"name": "regions", "title": "4 MiB regions for each 64 MiB written", "status": "ok", "reason": None, "seconds": 0,
         "about": "Flash cards erase large units: the fewer of them a tree of small files touches, the less a card has to move.",
         "workload": f"{mib} MiB of files of 1 to 60 KiB, then unmount", "scale": None, "settings": {}, "seed": None,
         "counters": [], "checks": [], "claims": [], "metrics": [], "plots": []}
    m = {"name": "regions", "label": "regions for 64 MiB", "unit": None, "better": "lower", "results": []}
    series, start = [], time.monotonic()
    with tempfile.TemporaryDirectory(prefix="ext4d-board.", dir=out) as work:
        os.mkdir(os.path.join(work, "mnt"))
        for system, measure in (("ext4d", by_ext4d), ("ext4", by_kernel)):
            r = {"system": system, "setting": None, "values": [], "median": None, "min": None, "max": None,
                 "status": "ok", "reason": None, "ratio": None}
            try:
                found = regions.windows(measure(device, work, mib))
                r["values"] = regions.whole(found)
                if not r["values"]:
                    raise Problem(f"only {sum(w for w, _ in found)} MiB were written")
                r.update(median=statistics.median(r["values"]), min=min(r["values"]), max=max(r["values"]))
                series.append({"label": SYSTEMS[system], "system": system, "setting": None,
                               "points": [[i, n] for i, n in enumerate(r["values"])]})
            except Problem as e:
                r.update(status="failed", reason=str(e))
            m["results"].append(r)
    own = m["results"][0]
    for r in m["results"]:
        r["ratio"] = own["median"] / r["median"] if own["median"] and r["median"] else None
    if own["status"] != "ok":
        x.update(status="failed", reason=own["reason"])
    most = max((len(s["points"]) for s in series), default=0)
    if most:
        x["plots"].append({"name": "windows", "title": "Regions of each 64 MiB", "kind": "bars", "lines": [], "alt": "",
                           "x": {"label": "written before", "unit": "MiB", "log": False, "categories": [str(64 * i) for i in range(most)]},
                           "y": {"label": "regions", "unit": None, "log": False}, "series": series})
    x["metrics"].append(m)
    x["seconds"] = round(time.monotonic() - start, 1)
    return x


def climate(board):
    """Plots of the temperature and the clock, if there were any to read."""
    plots = []
    for key, title, label, unit in (("temperature_c", "Temperature", "hottest zone", "°C"), ("frequency_mhz", "Clock", "fastest core", "MHz")):
        if board.get(key):
            points = [[s[0], s[-1]] for s in board[key]["samples"]]
            plots.append({"name": key, "title": title, "kind": "lines", "lines": [], "alt": "", "x": {"label": "time", "unit": "s", "log": False},
                          "y": {"label": label, "unit": unit, "log": False},
                          "series": [{"label": label, "system": None, "setting": None, "points": points}]})
    return plots


# ---- The whole ----


def device_of_the_tree(args, out):
    """The device that run.sh asked about, or an image of our own that goes with the object returned."""
    if args.device:
        return args.device, None
    keep = tempfile.TemporaryDirectory(prefix="ext4d-board.", dir=out)
    path = os.path.join(keep.name, "image")
    with open(path, "wb") as f:
        f.truncate(IMAGE_MIB << 20)
    return path, keep


def run_to_its_end(command):
    """The exit code of run.sh. It cleans up when it is interrupted: a terminal tells it as well, and a signal to us alone is passed on."""
    with subprocess.Popen(command) as child:
        before = {s: signal.signal(s, lambda number, _: number == signal.SIGINT or child.send_signal(number))
                  for s in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
        try:
            return child.wait()
        finally:
            for s, handler in before.items():
                signal.signal(s, handler)


def run_experiments(args, out):
    command = [os.path.join(BENCH, "run.sh"), "--" + args.mode, "--out", out]
    command += ["--device", args.device] if args.device else ["--emulate", args.emulate]
    for name in ("yes", "over_partitions", "no_install"):
        if getattr(args, name):
            command.append("--" + name.replace("_", "-"))
    for name in ("only", "peers"):
        if getattr(args, name) is not None:
            command += ["--" + name, getattr(args, name)]
    path = os.path.join(out, "results.json")
    if os.path.exists(path):
        os.unlink(path)
    code = run_to_its_end(command)
    # 2: refused, nothing was touched; 130: interrupted. A failed experiment (1) leaves a record all the same.
    if code not in (0, 1) or not os.path.exists(path):
        sys.exit(code or 1)
    return load(path)


def parse():
    p = argparse.ArgumentParser(prog="board.sh", description="The quick set on a board's spare disk or card, and one JSON to share.")
    where = p.add_mutually_exclusive_group(required=True)
    where.add_argument("--device", help="a spare disk or card; everything on it is DESTROYED, after you confirmed")
    where.add_argument("--emulate", help="no disk: an emulated one, to try the command")
    mode = p.add_mutually_exclusive_group()
    for name in ("smoke", "quick", "full"):
        mode.add_argument("--" + name, dest="mode", action="store_const", const=name)
    p.add_argument("--out", help="default build/board")
    p.add_argument("--only", help="of run.sh: these experiments")
    p.add_argument("--peers", help="of run.sh: ext4,fuse2fs")
    p.add_argument("--yes", action="store_true", help="destroy the device without asking")
    p.add_argument("--over-partitions", action="store_true", help="destroy a device that has a partition table")
    p.add_argument("--no-install", action="store_true", help="install and build nothing")
    args = p.parse_args()
    args.mode = args.mode or "quick"
    return args


def main():
    args = parse()
    if os.geteuid() != 0:
        sys.exit("board.sh: needs root: it makes and mounts file systems")
    out = os.path.abspath(args.out or os.path.join(TOP, "build", "board"))
    os.makedirs(out, exist_ok=True)
    sampler = Sampler()
    sampler.start()
    for s in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(s, signal.default_int_handler)
    try:
        data = run_experiments(args, out)
        print("counting the regions that a tree of small files touches ...")
        device, keep = device_of_the_tree(args, out)
        try:
            x = count_regions(device, out, TREE_MIB[args.mode])
        finally:
            if keep:
                keep.cleanup()
    except Problem as e:
        sys.exit(f"board.sh: {e}")
    except KeyboardInterrupt:
        sys.exit(130)
    board = {"model": text_of("/proc/device-tree/model") or text_of("/sys/class/dmi/id/product_name"),
             "machine": os.uname().machine, **sampler.finish()}
    x["plots"] += climate(board)
    data["experiments"].append(x)
    data["board"] = board
    path = os.path.join(out, "board.json")
    with open(path, "w", encoding="utf-8") as f:
        json.dump(data, f, indent=1)
        f.write("\n")
    for r in x["metrics"][0]["results"]:
        print(f"{SYSTEMS[r['system']]}: " + (f"{r['median']:g} regions of 4 MiB for 64 MiB written" if r["median"] else r["reason"]))
    have = [k for k in ("temperature_c", "frequency_mhz") if board[k]]
    print("read along: " + (", ".join(have) or "neither temperature nor clock can be read here"))
    subprocess.run([os.path.join(BENCH, "report"), path, "--out", os.path.join(out, "board.html")]
                   + ([] if shutil.which("gnuplot") else ["--no-plots"]), check=False)
    print(f"to share: {path}")


main()
