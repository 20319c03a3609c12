# SPDX-License-Identifier: GPL-2.0-or-later
"""Comparisons with the kernel where the host cannot slow a device down for it: run.sh once more, in a qemu guest (tests/rigs).

The guest's disk is the host's device, or image, behind limits of qemu's for bandwidth and IOPS. `--inside NAME` makes run.sh in there take
/dev/vda for the emulated device NAME and run only what is compared: ext4d, peers, the raw device. Its results come out as one line of
JSON and are put beside the host's: ext4d with the setting `guest`, the others as they are. The guest's CPUs are emulated, some 20 times
slower than the host's, so only what the disk limits can be compared.
"""
import json
import os
import shlex
import time

from suite import device as devices
from suite import shell
from suite.shell import StepFailed

SECONDS = {"smoke": 900, "quick": 3600, "default": 14400, "full": 43200}
LIMITS = {"write_bps": "bps-write", "read_bps": "bps-read", "write_iops": "iops-write", "read_iops": "iops-read"}
BOOT_S = 30
SLOWER = 3  # than the host, in most steps: what they do is wait for the disk
PATIENCE = 10  # with a step that is all CPU
MARK = '{"schema"'


def rig(suite, name):
    return os.path.join(suite.top, "tests", "rigs", name)


def is_ready(suite, part):
    """Whether the packages of these guests are unpacked already."""
    return os.path.exists(os.path.join(os.environ.get("EXT4D_RIGS") or os.path.join(suite.top, "build", "rigs"), part + ".ready"))


def missing(suite, script="qemu.sh", part="vm"):
    """Why there can be no guest here; None if there can be one."""
    if os.geteuid() != 0:
        return "guests need root here: their root is the host's"
    if not os.access(rig(suite, script), os.X_OK):
        return f"tests/rigs/{script} is not there"
    if is_ready(suite, part):
        return None
    if suite.args.no_install:
        return f"the packages of a guest are not there, and --no-install forbids to download them (tests/rigs/setup.sh {part} does)"
    if os.uname().machine != "x86_64" or not shell.have("apt-get"):
        return "guests are made of Debian's packages for x86-64, by apt-get"
    return None


def environment(suite):
    """For the scripts of tests/rigs: what they leave when they are killed lies where it is removed."""
    return {**os.environ, "EXT4D_BUILD": suite.build, "TMPDIR": suite.work}


def limits_of(emulation):
    return ",".join(f"throttling.{option}={devices.EMULATED[emulation][key]}" for key, option in LIMITS.items())


def script(experiment):
    """What the guest runs: the comparison, its record on one line. Without the pipe run.sh would see a terminal, and rewrite one line."""
    suite = experiment.suite
    args = ["bash", "/run/top/bench/run.sh", "--no-install", "--device", "/dev/vda", "--yes", "--inside", experiment.emulation, "--only",
            experiment.name, "--peers", ",".join(suite.peers), "--rounds", str(suite.rounds), "--out", "/run/bench/out"]
    if suite.mode != "default":
        args.append("--" + suite.mode)
    dump = "import json, sys; json.dump(json.load(open('/run/bench/out/results.json')), sys.stdout)"
    return (f"modprobe -a ext4 fuse && mkdir /run/bench && export TMPDIR=/run/bench EXT4D_BUILD={shlex.quote(suite.build)}; "
            f"{shlex.join(args)} 2>&1 | cat; python3 -c {shlex.quote(dump)}; echo")


def run(experiment):
    """The comparison of one experiment. StepFailed if the guest gave no record."""
    suite = experiment.suite
    if not is_ready(suite, "vm"):
        suite.note("downloading the packages of a guest (tests/rigs/setup.sh vm)")
        shell.run([rig(suite, "setup.sh"), "vm"], limit=1800, env=environment(suite))
    disk = f"{suite.device.path},cache=writeback,{limits_of(experiment.emulation)}"
    seconds = os.environ.get("EXT4D_GUEST_SECONDS") or str(SECONDS[suite.mode])
    memory = os.environ.get("EXT4D_GUEST_MB") or ("2048" if devices.available_bytes() > 5 << 30 else "1024")
    cmd = [rig(suite, "qemu.sh"), "-m", memory, "-c", "2", "-t", seconds, "-d", disk, "--", script(experiment)]
    text = follow(suite, cmd, int(seconds) + 600)
    lines = [line for line in text.splitlines() if line.startswith(MARK)]
    if not lines:
        raise StepFailed("the guest gave no record: " + shell.tail(text))
    merge(experiment, json.loads(lines[-1]))


def follow(suite, cmd, limit):
    """What a guest prints; the steps that it reports are shown as they come."""
    path, shown, end = os.path.join(suite.work, "guest.log"), 0, time.monotonic() + limit
    open(path, "w", encoding="utf-8").close()
    process = shell.start(cmd, path, env=environment(suite))
    while process.poll() is None and time.monotonic() < end:
        time.sleep(0.5)
        steps = [line for line in shell.read_text(path).splitlines() if line.startswith("[")]
        for line in steps[shown:]:
            suite.progress.detail("guest " + line)
        shown = len(steps)
    shell.wait(process, max(end - time.monotonic(), 0))
    return shell.read_text(path)


def setting_of(system):
    return "guest" if system == "ext4d" else None


def merge(experiment, data):
    """The guest's record goes into the experiment's."""
    suite, record = experiment.suite, experiment.record
    found = next((x for x in data["experiments"] if x["name"] == experiment.name), None)
    if found is None or found["status"] == "skipped":
        raise StepFailed("in the guest: " + (found["reason"] if found else "the experiment did not run"))
    env = data["environment"]
    suite.note(f"peers were measured in a guest: Linux {env['kernel']}, {env['cpus']} CPUs in software, {env['memory_bytes'] >> 20} MiB, a disk with limits; CPU time is some 20 times what it would be. "
               "Only what the disk limits can be compared, and only with ext4d in the guest")
    for system, mount in env["mounts"].items():
        suite.record.head["environment"]["mounts"].setdefault(system, mount)
    for m in found["metrics"]:
        metric = record.metric(m["name"], m["label"], m["unit"], m["better"])
        for result in m["results"]:
            setting = setting_of(result["system"])
            metric.results[(result["system"], setting)] = {**result, "setting": setting, "ratio": None}
    for check in found["checks"]:
        record.check(check["name"], check["system"], setting_of(check["system"]), check["round"], check["ok"], check["text"])
    experiment.guest_plots = {p["name"]: p for p in found["plots"]}


def end_of(plot):
    return max((p[0] for s in plot["series"] for p in s["points"]), default=1)


def add_plots(experiment):
    """Curves of the guest into the pictures of the same name; bars by category have nothing in common, and the same work takes the guest so
    long that beside it the host's curve over time would be a dot."""
    for plot in experiment.record.plots:
        other = experiment.guest_plots.get(plot["name"])
        if other is None or "categories" in plot["x"] or end_of(other) > 3 * end_of(plot):
            continue
        for series in other["series"]:
            setting = setting_of(series["system"])
            plot["series"].append({**series, "setting": setting, "label": f"{series['system']}, guest"})
