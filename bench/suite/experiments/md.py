# SPDX-License-Identifier: GPL-2.0-or-later
"""md: a sequential dd on real md arrays in a guest (tests/rigs), with what the members saw of it."""
import json

from suite import guest, shell
from suite.core import Experiment, Skip, Variant
from suite.record import axis
from suite.shell import StepFailed

# level, disks, chunk in KiB
ARRAYS = ((5, 4, 64), (5, 8, 16), (6, 6, 64))
SETTINGS = ("x8", "contig", "x16", "x1")


class Md(Experiment):
    name, title = "md", "md RAID in a guest"
    about = ("The same dd on md arrays of a user-mode-linux guest: reads of members during a write are read-modify-writes of stripes that were not written whole. "
             "The guest has one CPU and its disks are files: speeds compare with each other only.")
    guess = {"smoke": 60, "quick": 90, "default": 120, "full": 200}
    MIBS = {"smoke": 128, "quick": 256, "default": 1024, "full": 1024}

    def setup(self):
        args = self.suite.args
        asked = "md" in args.only.split(",") or (args.emulate == "raid5" and args.peers_given)
        if self.suite.mode in ("smoke", "quick") and not asked:
            raise Skip("takes minutes and downloads a guest kernel: --only md, or --emulate raid5 --peers ext4,fuse2fs")
        why = guest.missing(self.suite, "raid.sh", "uml")
        if why:
            raise Skip(why)
        self.mib = self.size(self.MIBS)
        self.record.head["workload"] = f"dd if=/dev/zero bs=1M count={self.mib} conv=fsync in the guest"
        self.record.head["settings"] = {s: {"write_bump": s} for s in SETTINGS}

    def variants(self):
        return [Variant("ext4d", "all")]

    def systems(self):
        return [f"ext4d:write_bump={s},writeback_chunk=1024" for s in SETTINGS] + list(self.suite.peers)

    def run_step(self, variant, round_):
        for level, disks, chunk in ARRAYS:
            cmd = [guest.rig(self.suite, "raid.sh"), str(level), str(disks), str(chunk), str(self.mib), *self.systems()]
            text = shell.run(cmd, limit=1800, env=guest.environment(self.suite), ok=(0, 77))[0]
            if text.startswith("skipped:"):
                self.record.skip(text.strip())
                return
            rows = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
            if not rows:
                raise StepFailed("the guest gave no result: " + shell.tail(text))
            for row in rows:
                self.add(f"raid{level}_{disks}", f"RAID {level} of {disks}, {chunk} KiB", row, round_)

    def add(self, name, label, row, round_):
        system, m = row["fs"], self.record.metric
        setting = row["options"].split("write_bump=")[1].split(",")[0] if "write_bump=" in row["options"] else None
        m(f"{name}_speed", f"{label}: dd", "MB/s").add(system, setting, row["mb_s"])
        m(f"{name}_reads", f"{label}: read / written", "%", "lower").add(system, setting, row["read_percent"])
        m(f"{name}_read_kib", f"{label}: members read", "KiB", "lower").add(system, setting, row["read_kib"])
        m(f"{name}_written_kib", f"{label}: members written", "KiB", "lower").add(system, setting, row["written_kib"])
        m(f"{name}_count", f"{label}: member reads", "", "lower").add(system, setting, row["member_reads"])
        self.record.check("e2fsck", system, setting, round_, row["fsck"] == 0, f"exit code {row['fsck']}")
        if row["own"]:
            self.record.counters.append({"system": system, "setting": setting, "round": round_, "case": name, "delta": row["own"], "hist": {}})

    def finish(self):
        if self.record.head["status"] == "skipped":
            return
        names = [f"raid{level}_{disks}" for level, disks, _ in ARRAYS]
        worst = {n: self.record.metric(f"{n}_reads", "", "%").median("ext4d", "x8") for n in names}
        if None not in worst.values():
            self.claim("ext4d's members read less than 1 % of what they write", max(worst.values()) < 1,
                       ", ".join(f"{n} {worst[n]:.2f} %" for n in names))
        who = [("ext4d", s) for s in SETTINGS] + [(p, None) for p in self.suite.peers]
        series = [{"label": n, "system": "ext4d", "setting": None,
                   "points": [[i, self.record.metric(f"{n}_reads", "", "%").median(*w) or 0] for i, w in enumerate(who)]} for n in names]
        self.record.plot("reads", "Member reads in per cent of what was written", "bars",
                         axis("system", categories=[s if p == "ext4d" else p for p, s in who]), axis("read", "%"), series,
                         "Less is better: reads of members during a write are read-modify-writes.")
