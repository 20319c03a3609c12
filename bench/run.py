# SPDX-License-Identifier: GPL-2.0-or-later
"""The experiments: bench/run.sh prepares the machine and starts this in a mount namespace of its own."""
import argparse
import datetime
import errno
import os
import shutil
import signal
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from suite import device as devices  # noqa: E402
from suite import environment, record, shell, systems, table  # noqa: E402
from suite.core import Suite  # noqa: E402
from suite.experiments import ALL  # noqa: E402
from suite.progress import Progress, clock  # noqa: E402
from suite.shell import Refused, StepFailed, Stopped  # noqa: E402

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
ROUNDS = {"smoke": 1, "quick": 3, "default": 5, "full": 5}
IMAGE_MIB = {"smoke": 320, "quick": 1024, "default": 2048, "full": 8192}
PEERS = ("ext4", "fuse2fs")
NEEDS = {"ext4": "mkfs.ext4", "fuse2fs": "fuse2fs"}


def parse(argv):
    p = argparse.ArgumentParser(prog="bench/run.sh", description="The experiments of the engine's switches, old beside new, then what users run, beside other file systems.")
    where = p.add_mutually_exclusive_group()
    where.add_argument("--device", help="a real block device; everything on it is DESTROYED, after you confirmed")
    where.add_argument("--emulate", choices=["fit", *devices.EMULATED], help="an image in memory, slowed down; fit (default): as suits each experiment")
    p.add_argument("--only", default="", help="names, with commas: " + ",".join(e.name for e in ALL))
    mode = p.add_mutually_exclusive_group()
    for name in ("smoke", "quick", "full"):
        mode.add_argument("--" + name, dest="mode", action="store_const", const=name)
    p.add_argument("--peers", default=None, help="with commas, of: ext4,fuse2fs; default both, none with --smoke")
    p.add_argument("--one-cpu", action="store_true", help="clients and the threads that answer them on one CPU, for all systems alike")
    p.add_argument("--rounds", type=int, help="rounds of each experiment")
    p.add_argument("--out", help="where results.json goes; default build/bench")
    p.add_argument("--no-install", action="store_true", help="install, download and build nothing")
    p.add_argument("--inside", help=argparse.SUPPRESS, choices=list(devices.EMULATED))  # in a guest: what its disk stands for
    p.add_argument("--plan", action="store_true", help="say what would be run and what is missing, and run nothing")
    p.add_argument("--yes", action="store_true", help="destroy the device without asking")
    p.add_argument("--over-partitions", action="store_true", help="destroy a device that has a partition table")
    args = p.parse_args(argv)
    args.mode = args.mode or "default"
    args.cpu = int(os.environ.get("EXT4D_BENCH_CPU") or min(os.sched_getaffinity(0))) if args.one_cpu else None
    args.rounds_given = args.rounds is not None
    args.rounds = args.rounds or ROUNDS[args.mode]
    if not args.device and not args.emulate:
        args.emulate = "fit"
    names = [n for n in args.only.split(",") if n]
    unknown = [n for n in names if n not in [e.name for e in ALL]]
    if unknown:
        raise Refused(f"--only: there is no {', '.join(unknown)}; there are {', '.join(e.name for e in ALL)}")
    args.names = names or [e.name for e in ALL]
    args.peers_given = args.peers is not None
    args.peers = [] if args.mode == "smoke" and args.peers is None else list(PEERS) if args.peers is None else [x for x in args.peers.split(",") if x]
    if args.emulate == "raid5" and args.peers_given and args.peers and "004" in args.names and "md" not in args.names:
        args.names.append("md")
    unknown = [x for x in args.peers if x not in PEERS]
    if unknown:
        raise Refused(f"--peers: there is no {', '.join(unknown)}; there are {', '.join(PEERS)}")
    return args


def check_machine(suite):
    """Clear words about what is missing here."""
    if not os.path.exists("/dev/fuse"):
        raise Refused("there is no /dev/fuse: FUSE is not available here (modprobe fuse; in a container it must be passed in)")
    release = os.uname().release
    if tuple(int(x) for x in release.split("-")[0].split(".")[:2] if x.isdigit()) < (6, 1):
        suite.note(f"kernel {release} is older than 6.1, the oldest that ext4d was tried on")
    if os.geteuid() != 0:
        suite.note("not root: ext4d runs alone, mounted by fusermount3; no loop device, no peers, kernel caches are not dropped")
        suite.peers = []
    for peer in list(suite.peers):
        if not shell.have(NEEDS[peer]):
            suite.note(f"{peer} is left out: {NEEDS[peer]} is not installed")
            suite.peers.remove(peer)
    if "ext4" in suite.peers and "ext4" not in shell.read_text("/proc/filesystems").split():
        if not any("ext4" in line for line in shell.output(["modprobe", "-n", "-v", "ext4"]).splitlines()):
            suite.note("ext4 is left out: this kernel has no ext4")
            suite.peers.remove("ext4")
    if suite.cpu is not None:
        suite.note(f"clients and the threads that answer their requests are on CPU {suite.cpu}")
    if os.getloadavg()[0] > os.cpu_count():
        suite.note(f"the machine is busy (load {os.getloadavg()[0]:.1f} on {os.cpu_count()} CPUs): times are worth little, counters count")


def open_target(suite, args):
    if args.device:
        suite.device = devices.open_device(args.device, args.yes, args.over_partitions)
        suite.device.limited = args.inside is not None
    else:
        suite.device = devices.open_image(os.path.join(suite.work, "ram"), IMAGE_MIB[args.mode] * devices.MIB, suite.notes, args.plan)
    suite.can_compare = os.geteuid() == 0 and (args.device is not None or suite.device.loop is not None)


def check_room(out):
    free = shutil.disk_usage(out).free
    if free < 16 * devices.MIB:
        raise Refused(f"{out}: only {free >> 20} MiB are free, results need 16: give another folder with --out")


def make_record(suite, args, out):
    head = {"schema": 1, "started": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"), "seconds": 0.0,
            "command": "bench/run.sh " + " ".join(sys.argv[1:]), "mode": args.mode, "rounds": args.rounds, "complete": False,
            "environment": environment.describe(TOP, suite.device, args, suite.mkfs), "notes": suite.notes}
    if args.emulate in devices.EMULATED:
        head["environment"]["device"]["text"] = devices.EMULATED[args.emulate]["text"]
        head["environment"]["device"]["limit"] = "filter" if devices.EMULATED[args.emulate]["filter"] else "none"
    elif args.emulate:
        head["environment"]["device"]["text"] = "an image in memory, slowed down as each experiment says"
        head["environment"]["device"]["limit"] = "filter"
    return record.Record(os.path.join(out, "results.json"), head)


def report(out):
    """The page with the pictures."""
    try:
        shell.run([sys.executable, os.path.join(TOP, "bench", "report"), os.path.join(out, "results.json"), "--out",
                   os.path.join(out, "report.html"), *([] if shell.have("gnuplot") else ["--no-plots"])], limit=120)
        print(f"report: {out}/report.html")
    except (StepFailed, Stopped) as why:
        print(f"no report: {why}")


def summary(suite):
    experiments = suite.record.experiments
    count = {s: sum(e.head["status"] == s for e in experiments) for s in ("ok", "failed", "skipped")}
    checks = [c for e in experiments for c in e.checks]
    print(f"\n{count['ok']} experiments ok, {count['failed']} failed, {count['skipped']} skipped; "
          f"{sum(c['ok'] for c in checks)} checks passed, {sum(not c['ok'] for c in checks)} failed; {clock(suite.progress.elapsed())}")
    for note in suite.notes:
        print("note: " + note)
    return 1 if count["failed"] else 0


def show_plan(suite, experiments):
    for experiment, steps in suite.plan(experiments):
        head = experiment.record.head
        if head["status"] == "skipped":
            print(f"{head['name']} {head['title']}: left out: {head['reason']}")
        else:
            print(f"{head['name']} {head['title']}: {head['workload']}; {', '.join(v.label() for v, r in steps if r == 1)}")
    print(f"about {clock(suite.progress.left())}; nothing was run")
    return 0


def main(argv):
    args = parse(argv)
    out = os.path.abspath(args.out or os.path.join(TOP, "build", "bench"))
    try:
        os.makedirs(out, exist_ok=True)
        if not os.access(out, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), out)
        check_room(out)
        work = tempfile.mkdtemp(prefix="ext4d-bench.", dir=os.environ.get("TMPDIR"))
        os.mkdir(os.path.join(work, "ram"))
    except OSError as error:
        raise Refused(f"{error.filename}: {error.strerror}: give another folder with --out, or TMPDIR for what is there meanwhile") from None
    suite = Suite(args, work, TOP, os.environ.get("EXT4D_BUILD") or os.path.join(TOP, "build", "release"))
    try:
        check_machine(suite)
        open_target(suite, args)
        suite.progress = Progress()
        suite.record = make_record(suite, args, out)
        print(f"device: {suite.device.name}, {suite.device.size >> 20} MiB; rounds: {args.rounds}; peers: {', '.join(suite.peers) or 'none'}")
        experiments = [e(suite) for e in ALL if e.name in args.names]
        if args.plan:
            return show_plan(suite, experiments)
        suite.run(experiments, table.print_experiment)
        code = summary(suite)
        print(f"record: {out}/results.json")
        report(out)
        return code
    except KeyboardInterrupt:
        if suite.progress:
            suite.progress.clear()
        print("\ninterrupted: cleaning up")
        return 130
    finally:
        tidy_up(suite)


def tidy_up(suite):
    """Nothing stays: processes, mounts, the loop device, the image."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if suite.record and suite.progress and not suite.args.plan:
        suite.save(suite.record.head["complete"])
    shell.kill_all()
    if systems.is_mounted(suite.mnt):  # the first clean-up was interrupted as well
        systems.Ext4d(suite).kill()
    if suite.device:
        suite.device.close()
    ram = os.path.join(suite.work, "ram")
    if os.path.ismount(ram):
        shell.run(["umount", "-l", ram], ok=None, limit=30)
    shutil.rmtree(suite.work, ignore_errors=True)


def interrupted(_signal, _frame):
    raise KeyboardInterrupt


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, interrupted)
    signal.signal(signal.SIGHUP, interrupted)
    try:
        sys.exit(main(sys.argv[1:]))
    except Refused as why:
        print(f"run.sh: {why}", file=sys.stderr)
        sys.exit(2)
