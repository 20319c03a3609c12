# SPDX-License-Identifier: GPL-2.0-or-later
"""What users run, beside the peers and the two limits."""
import json
import os
import re
import statistics
import tarfile
import threading
import time

from suite import shell
from suite.core import Experiment, Skip, Variant
from suite.record import axis
from suite.shell import StepFailed

MIB = 1 << 20


class Users(Experiment):
    """One variant of ext4d, as it is by default, and the peers."""
    fits = "ram"
    guess = {"smoke": 1.5, "quick": 3.5, "default": 15, "full": 60}
    tool = None
    limits = ()

    def setup(self):
        if self.tool and not shell.have(self.tool):
            raise Skip(f"{self.tool} is not installed (apt-get install {self.tool})")
        self.prepare()

    def prepare(self):
        pass

    def mib(self, table, share=0.3):
        """MiB of the mode, at most a share of the device."""
        return max(4, min(self.size(table), int(self.suite.device.size / MIB * share)))

    def variants(self):
        return [self.own("new", {}), *self.peers(self.limits)]

    def dd(self, *operands):
        return ["dd", "status=none", *operands]


class Dd(Users):
    name, title = "dd", "dd"
    about = "Sequential writes and reads with dd in the ways that people try first."
    limits = ("raw", "null")
    MIBS = {"smoke": 16, "quick": 96, "default": 512, "full": 2048}

    def prepare(self):
        self.mib_ = self.mib(self.MIBS, 0.15)
        self.record.head["workload"] = f"dd of {self.mib_} MiB: bs 4K to 1M with conv=fsync, oflag=direct, oflag=dsync, over an old file, reads cold and warm"

    def step(self, run):
        mib, m, target = self.mib_, self.record.metric, run.target("a")
        mb = mib * MIB / 1e6
        if run.variant.system == "raw":
            run.rate(m("direct", "write 1M oflag=direct", "MB/s"), self.dd("if=/dev/zero", f"of={target}", "bs=1M", f"count={mib}", "oflag=direct"), mb)
            run.rate(m("cold", "read 1M cold", "MB/s"), self.dd(f"if={target}", "of=/dev/null", "bs=1M", f"count={mib}", "iflag=direct"), mb)
            return
        for bs, kib in (("4K", 4), ("8K", 8), ("128K", 128), ("1M", 1024)):
            run.rate(m(f"write_{bs}", f"write {bs} conv=fsync", "MB/s"),
                     self.dd("if=/dev/zero", f"of={target}", f"bs={bs}", f"count={mib * 1024 // kib}", "conv=fsync"), mb)
        run.rate(m("notrunc", "write 1M over the old file", "MB/s"),
                 self.dd("if=/dev/zero", f"of={target}", "bs=1M", f"count={mib}", "conv=fsync,notrunc"), mb)
        if run.variant.system == "null":
            return
        run.rate(m("direct", "write 1M oflag=direct", "MB/s"),
                 self.dd("if=/dev/zero", f"of={run.target('b')}", "bs=1M", f"count={mib}", "oflag=direct"), mb)
        count = max(16, mib // 4)
        run.rate(m("dsync", "write 8K oflag=dsync", "/s"), self.dd("if=/dev/zero", f"of={run.target('c')}", "bs=8K", f"count={count}", "oflag=dsync"), count)
        run.system.umount()
        shell.drop_caches()
        run.system.mount(self.suite.device, run.variant.options)
        for name, label in (("cold", "read 1M cold"), ("warm", "read 1M warm")):
            run.rate(m(name, label, "MB/s"), self.dd(f"if={target}", "of=/dev/null", "bs=1M"), mb)


class Fio(Users):
    name, title = "fio", "fio"
    about = "Random and mixed loads, buffered, mapped and direct."
    tool = "fio"
    SECONDS = {"smoke": 1, "quick": 1, "default": 8, "full": 30}
    MIBS = {"smoke": 16, "quick": 64, "default": 256, "full": 1024}
    JOBS = (
        ("randwrite_4k", "randwrite 4k, buffered", ["--rw=randwrite", "--bs=4k", "--ioengine=psync", "--end_fsync=1"]),
        ("mmap_4k", "randwrite 4k, mmap", ["--rw=randwrite", "--bs=4k", "--ioengine=mmap"]),
        ("direct_4k", "randwrite 4k, io_uring direct", ["--rw=randwrite", "--bs=4k", "--ioengine=io_uring", "--direct=1", "--iodepth=16"]),
        ("fsync_16k", "randwrite 16k, fsync, 8 jobs", ["--rw=randwrite", "--bs=16k", "--ioengine=psync", "--fsync=1", "--numjobs=8", "--group_reporting"]),
        ("mixed_4k", "randrw 70/30 4k, buffered", ["--rw=randrw", "--rwmixread=70", "--bs=4k", "--ioengine=psync"]),
    )

    def prepare(self):
        self.mib_ = self.mib(self.MIBS, 0.2)
        self.record.head["workload"] = f"fio, {self.mib_} MiB in all, {self.size(self.SECONDS)} s each"

    def step(self, run):
        result = os.path.join(self.suite.work, "fio.json")
        for name, label, args in self.JOBS:
            jobs = 8 if name == "fsync_16k" else 1
            cmd = ["fio", f"--name={name}", f"--directory={self.suite.mnt}", f"--size={self.mib_ // jobs}m", f"--runtime={self.size(self.SECONDS)}",
                   "--time_based", "--output-format=json", f"--output={result}", "--randseed=1", *args]
            took = run.seconds(name, cmd, cwd=self.suite.work)
            metric = self.record.metric(name, label, "IOPS")
            if took is None:
                metric.end(run.variant.system, run.variant.setting, "stopped", "took too long")
                continue
            with open(result, encoding="utf-8") as f:
                job = json.load(f)["jobs"][0]
            metric.add(run.variant.system, run.variant.setting, job["write"]["iops"] + job["read"]["iops"])
            for entry in os.listdir(self.suite.mnt):
                if entry.startswith(name):
                    os.unlink(os.path.join(self.suite.mnt, entry))


class Tree(Users):
    name, title = "tar", "small files"
    about = "A tree of small files: unpacked, copied by git, walked, removed; and empty files made in one directory."
    limits = ("null",)
    FILES = {"smoke": 300, "quick": 1200, "default": 10000, "full": 40000}

    def prepare(self):
        n = self.size(self.FILES)
        while n > 100 and n * 16384 > self.suite.device.size // 4:
            n //= 2
        self.files = n
        self.tar = os.path.join(self.suite.work, "tree.tar")
        make_tree(self.tar, n)
        self.record.head["workload"] = f"tar -x of {n} files of 200 bytes to 60 KB in {n // 50 + 1} directories, git add and status, find, rm -r; {n} creates"

    def step(self, run):
        m, mnt, n = self.record.metric, self.suite.mnt, self.files
        # The server that does nothing has one directory only.
        folder = mnt if run.variant.system == "null" else os.path.join(mnt, "c")
        os.makedirs(folder, exist_ok=True)
        run.rate(m("create", "create in one directory", "files/s"), [self.suite.program("creates"), folder, str(n)], n)
        if run.variant.system == "null":
            return
        run.rate(m("untar", "tar -x and sync", "files/s"), ["sh", "-c", f"tar -xf {self.tar} -C {mnt} && sync -f {mnt}"], n)
        if shell.have("git"):
            git = f"cd {mnt}/t && git -c init.defaultBranch=m init -q && git -c core.fsync=none add -A"
            run.rate(m("git_add", "git add", "files/s"), ["sh", "-c", git], n)
            run.rate(m("git_status", "git status", "files/s"), ["git", "-C", f"{mnt}/t", "status", "--short"], n, stdout=open(os.devnull, "wb"))
        run.rate(m("find", "find", "files/s"), ["sh", "-c", f"find {mnt}/t -type f -size +0 >/dev/null"], n)
        run.rate(m("rm", "rm -r and sync", "files/s"), ["sh", "-c", f"rm -rf {mnt}/t && sync -f {mnt}"], n)


def make_tree(path, n):
    """Always the same tree; sizes as in a source tree."""
    if os.path.exists(path):
        os.unlink(path)
    state = 12345
    text = bytes(range(32, 96)) * 1024
    with tarfile.open(path, "w") as tar:
        for i in range(n):
            state = (state * 1103515245 + 12345) & 0x7FFFFFFF
            size = 200 + state % 6000 + (state % 17 == 0) * (state // 7 % 54000)
            info = tarfile.TarInfo(f"t/d{i // 50}/f{i}.c")
            info.size = size
            tar.addfile(info, Bytes(text, size))


class Bytes:
    """A file of `size` bytes of the text."""

    def __init__(self, text, size):
        self.text, self.left = text, size

    def read(self, n=-1):
        n = min(self.left, len(self.text)) if n < 0 else min(n, self.left, len(self.text))
        self.left -= n
        return self.text[:n]


class Sqlite(Users):
    name, title = "sqlite", "sqlite"
    about = "Insertions with synchronous=FULL, each its own transaction, in the journal modes DELETE and WAL; then one large transaction."
    tool = "sqlite3"
    ROWS = {"smoke": 60, "quick": 500, "default": 2000, "full": 10000}

    def prepare(self):
        self.record.head["workload"] = f"sqlite3: {self.size(self.ROWS)} transactions with synchronous=FULL"

    def step(self, run):
        n, m = self.size(self.ROWS), self.record.metric
        for mode in ("delete", "wal"):
            cmd = self.script(mode, f"pragma journal_mode={mode};\n", "", n)
            run.rate(m(mode, f"transactions, {mode.upper()}", "/s"), cmd, n)
        run.rate(m("bulk", "rows in one transaction", "/s"), self.script("bulk", "", "begin;\n", n * 20, "commit;\n"), n * 20)
        for mode in ("delete", "wal"):
            text = shell.run(["sqlite3", f"{self.suite.mnt}/{mode}.db", "pragma integrity_check; select count(*) from t;"], limit=60)[0].split()
            self.record.check("content", run.variant.system, run.variant.setting, run.round, text == ["ok", str(n)], " ".join(text))

    def script(self, name, pragma, begin, rows, end=""):
        """The command that makes a data base of `rows` insertions."""
        path = os.path.join(self.suite.work, f"{name}.sql")
        with open(path, "w", encoding="utf-8") as f:
            f.write(f"{pragma}pragma synchronous=FULL;\ncreate table t(id integer primary key, a, b);\n{begin}")
            f.writelines(f"insert into t(a,b) values({i},'{i} abcdefghijklmnopqrstuvwxyz');\n" for i in range(rows))
            f.write(end)
        return ["sh", "-c", f"sqlite3 {self.suite.mnt}/{name}.db <{path}"]


class Dbench(Users):
    name, title = "dbench", "dbench"
    about = "The file server load of dbench."
    tool = "dbench"
    SECONDS = {"smoke": 1, "quick": 2, "default": 15, "full": 60}

    def prepare(self):
        self.record.head["workload"] = f"dbench -t {self.size(self.SECONDS)}, up to 4 clients"

    def step(self, run):
        for clients in (4,) if self.suite.mode == "quick" else (1, 4):
            cmd = ["dbench", "-D", self.suite.mnt, "-t", str(self.size(self.SECONDS)), str(clients)]
            text = shell.run(cmd, limit=self.step_limit, cwd=self.suite.work)[0]
            match = re.search(r"^Throughput ([\d.]+) MB/sec", text, re.M)
            if not match:
                raise StepFailed("dbench: " + shell.tail(text))
            self.record.metric(f"clients_{clients}", f"{clients} client(s)", "MB/s").add(run.variant.system, run.variant.setting, float(match.group(1)))


class Postmark(Users):
    name, title = "postmark", "postmark"
    about = "The mail server load of postmark."
    tool = "postmark"
    FILES = {"smoke": 200, "quick": 1500, "default": 5000, "full": 20000}

    def prepare(self):
        n = self.size(self.FILES)
        self.script = os.path.join(self.suite.work, "postmark.cfg")
        with open(self.script, "w", encoding="utf-8") as f:
            f.write(f"set location {self.suite.mnt}\nset number {n}\nset transactions {n * 2}\nset size 500 10000\nset seed 42\nrun\nquit\n")
        self.count = n * 2
        self.record.head["workload"] = f"postmark: {n} files, {n * 2} transactions"

    def step(self, run):
        run.rate(self.record.metric("transactions", "files made, transactions, removal", "/s"), ["postmark", self.script], self.count)


class Parallel(Users):
    name, title = "parallel", "parallel dd"
    about = "Several sequential writers at once."
    MIBS = {"smoke": 16, "quick": 64, "default": 256, "full": 1024}

    def prepare(self):
        self.mib_ = self.mib(self.MIBS, 0.15)
        self.record.head["workload"] = f"2 and 4 dd at once, bs=128K, {self.mib_} MiB each, conv=fsync"

    def step(self, run):
        for n in (2, 4):
            writers = " ".join(f"dd if=/dev/zero of={self.suite.mnt}/p{i} bs=128K count={self.mib_ * 8} conv=fsync status=none &" for i in range(n))
            run.rate(self.record.metric(f"dd_{n}", f"{n} at once", "MB/s"), ["sh", "-c", writers + " wait"], n * self.mib_ * MIB / 1e6)


class FsyncBeside(Users):
    name, title = "fsync", "fsync beside a stream"
    about = "One process writes 4 KiB and calls fsync again and again while another one streams: how long do the fsyncs take?"
    fits = "sata3"
    SECONDS = {"smoke": 1, "quick": 3, "default": 15, "full": 60}

    def prepare(self):
        self.curves = {}
        self.record.head["workload"] = f"write 4 KiB + fsync each 10 ms for {self.size(self.SECONDS)} s beside dd bs=1M"

    def step(self, run):
        mib = int(self.suite.device.size / MIB * 0.4)
        loop = f"while :; do dd if=/dev/zero of={self.suite.mnt}/stream bs=1M count={mib} conv=notrunc status=none; done"
        stream = shell.start(["sh", "-c", loop], self.suite.log)
        try:
            times = self.fsyncs(run)
        finally:
            shell.kill_group(stream)
        v, m = run.variant, self.record.metric
        waits = sorted(s for _, s in times)
        m("median", "fsync, median", "ms", "lower").add(v.system, v.setting, statistics.median(waits) * 1000)
        m("p99", "fsync, 99 %", "ms", "lower").add(v.system, v.setting, waits[len(waits) * 99 // 100] * 1000)
        m("max", "fsync, longest", "ms", "lower").add(v.system, v.setting, waits[-1] * 1000)
        self.curves[v.label()] = (v, times)

    def fsyncs(self, run):
        fd = os.open(os.path.join(self.suite.mnt, "log"), os.O_CREAT | os.O_WRONLY, 0o644)
        begin, times = time.monotonic(), []
        overdue = threading.Timer(self.size(self.SECONDS) * 10 + 60, run.system.kill)
        overdue.start()
        try:
            while not times or time.monotonic() - begin < self.size(self.SECONDS):
                time.sleep(0.01)
                start = time.monotonic()
                os.write(fd, bytes(4096))
                os.fsync(fd)
                times.append((start - begin, time.monotonic() - start))
        finally:
            overdue.cancel()
            os.close(fd)
        return times

    def finish(self):
        series = [{"label": v.label(), "system": v.system, "setting": v.setting, "points": [[t, s * 1000] for t, s in times]}
                  for v, times in self.curves.values()]
        self.record.plot("fsyncs", "fsync beside a streaming writer (last round)", "lines", axis("time", "s"), axis("fsync", "ms", log=True), series,
                         "How long each fsync took.")


class Bonnie(Users):
    name, title = "bonnie++", "bonnie++"
    about = "Block write, rewrite, read and seeks; creation and removal of files."
    tool = "bonnie++"
    guess = {"smoke": 6, "quick": 4, "default": 40, "full": 180}
    MIBS = {"smoke": 32, "quick": 96, "default": 512, "full": 4096}
    # Fields of the last line (format 2.00): what, unit, index.
    FIELDS = (("block_write", "block write", "MB/s", 11), ("rewrite", "rewrite", "MB/s", 13), ("block_read", "block read", "MB/s", 17),
              ("seeks", "seeks", "/s", 19))

    def prepare(self):
        self.mib_ = self.mib(self.MIBS, 0.4)
        files = {"smoke": 1, "quick": 2}.get(self.suite.mode, 16)
        self.cmd = ["bonnie++", "-d", self.suite.mnt, "-s", f"{self.mib_}m:8k", "-r", str(self.mib_ // 2), "-n", str(files), "-f", "-u", "root", "-q"]
        self.record.head["workload"] = " ".join(self.cmd[3:])

    def step(self, run):
        text = shell.run(self.cmd, limit=run.limit("bonnie"), cwd=self.suite.work)[0]
        lines = [line for line in text.splitlines() if line.count(",") > 20]
        if not lines:
            raise StepFailed("bonnie++: " + shell.tail(text))
        fields = lines[-1].split(",")
        for name, label, unit, index in self.FIELDS:
            if re.fullmatch(r"[\d.]+", fields[index]):
                scale = 1024 / 1e6 if unit == "MB/s" else 1
                self.record.metric(name, label, unit).add(run.variant.system, run.variant.setting, float(fields[index]) * scale)


USERS = [Dd, Fio, Tree, Sqlite, Dbench, Postmark, Parallel, FsyncBeside, Bonnie]
