# SPDX-License-Identifier: GPL-2.0-or-later
"""Other programs: run with a time limit, in process groups of their own that never outlive the run.

Output goes to a file and not to a pipe: a daemon that stays in the background would keep a pipe open.
"""
import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import time


class Refused(Exception):
    """Nothing was done; the text says why and what would help."""


class StepFailed(Exception):
    """One run failed; the others go on."""


class Stopped(Exception):
    """The time limit of a run was over."""


running = set()


ALL_CPUS = os.sched_getaffinity(0)


@contextlib.contextmanager
def on_cpus(cpus):
    """What is started meanwhile, by this thread or by threads that it starts, runs on these CPUs; None changes nothing."""
    before = os.sched_getaffinity(0)
    if cpus:
        os.sched_setaffinity(0, cpus)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def members(session):
    """The processes of a session: those that went into a group of their own too, but no daemon, which has its own."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        fields = read_text(f"/proc/{name}/stat").rpartition(")")[2].split()
        if len(fields) > 3 and fields[3] == str(session) and fields[0] != "Z":
            found.append(int(name))
    return found


def kill_group(process):
    """The process and all that it started."""
    for _ in range(10):
        left = members(process.pid)
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        if not left:
            break
        time.sleep(0.01)
    process.wait()
    running.discard(process)


def kill_all():
    for process in list(running):
        kill_group(process)


def start(cmd, log=None, cwd=None, env=None):
    """A child in the background; its output goes to the file `log`, or nowhere."""
    with open(log or os.devnull, "ab") as out:
        process = subprocess.Popen(cmd, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT,
                                   cwd=cwd, env=env, start_new_session=True)
    running.add(process)
    return process


def wait(process, limit=None):
    """Its exit code; Stopped (and it is killed) after `limit` seconds."""
    try:
        code = process.wait(limit)
    except subprocess.TimeoutExpired:
        kill_group(process)
        raise Stopped() from None
    running.discard(process)
    return code


def tail(text, lines=6):
    return "\n".join(text.strip().splitlines()[-lines:])


def run(cmd, limit=None, cwd=None, env=None, ok=(0,), stdout=None):
    """(output, seconds). StepFailed if the exit code is not in `ok`; Stopped after `limit` seconds."""
    with tempfile.TemporaryFile() as out:
        begin = time.monotonic()
        try:
            process = subprocess.Popen(cmd, stdin=subprocess.DEVNULL, stdout=stdout or out, stderr=out,
                                       cwd=cwd, env=env, start_new_session=True)
        except OSError as error:
            raise StepFailed(f"{cmd[0]}: {error.strerror}") from None
        running.add(process)
        code = wait(process, limit)
        seconds = time.monotonic() - begin
        out.seek(0)
        text = out.read().decode(errors="replace")
    if ok is not None and code not in ok:
        raise StepFailed(f"{' '.join(cmd)}: exit code {code}: {tail(text)}")
    return text, seconds


def output(cmd):
    """What a short command prints, or "" if it fails or is not there."""
    try:
        return run(cmd, limit=20)[0].strip()
    except (StepFailed, Stopped):
        return ""


def have(program):
    return shutil.which(program, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin") is not None


def read_text(path, default=""):
    try:
        with open(path, encoding="utf-8", errors="replace") as f:
            return f.read().strip()
    except OSError:
        return default


def write_text(path, text):
    """For files of /sys and of .ext4d, where an error comes with the write."""
    fd = os.open(path, os.O_WRONLY)
    try:
        os.write(fd, text.encode())
    finally:
        os.close(fd)


def drop_caches():
    if os.geteuid() == 0:
        try:
            write_text("/proc/sys/vm/drop_caches", "3")
        except OSError:
            pass
