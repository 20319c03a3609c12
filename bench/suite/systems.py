# SPDX-License-Identifier: GPL-2.0-or-later
"""The file systems that are measured, behind one interface: mount, unmount, check."""
import time

from suite import shell
from suite.shell import StepFailed, Stopped

MOUNT_LIMIT = 60
UMOUNT_LIMIT = 300


class System:
    """One file system on one mount point. `fresh` makes it, `mount` and `umount` come in pairs."""
    name = ""
    has_image = True

    def __init__(self, suite):
        self.suite = suite
        self.mounted = False
        self.child = None

    def fresh(self, device, mkfs=()):
        shell.run(["mkfs.ext4", *self.suite.mkfs, *mkfs, device.path], limit=300)

    def mount(self, device, options=""):
        raise NotImplementedError

    def options(self, options):
        """What it is really mounted with."""
        return options

    def umount(self):
        if not self.mounted:
            return
        self.mounted = False
        shell.run(["umount", self.suite.mnt], limit=UMOUNT_LIMIT)

    def check(self, device):
        """(ok, text) of e2fsck."""
        try:
            shell.run(["e2fsck", "-fn", device.path], limit=600)
            return True, "clean"
        except StepFailed as failure:
            return False, str(failure)

    def kill(self):
        """After a failure: nothing stays mounted, whatever it takes."""
        mnt = self.suite.mnt
        self.mounted = False
        for cmd in (["umount", mnt], ["umount", "-l", mnt]):
            if is_mounted(mnt):
                try:
                    shell.run(cmd, ok=None, limit=30)
                except Stopped:
                    pass
        if self.child:
            shell.kill_group(self.child)
            self.child = None


def is_mounted(mnt):
    return any(line.split()[4] == mnt for line in shell.read_text("/proc/self/mountinfo").splitlines())


def wait_mounted(system, child, what):
    end = time.monotonic() + MOUNT_LIMIT
    while not is_mounted(system.suite.mnt):
        if child.poll() is not None:
            shell.running.discard(child)
            raise StepFailed(f"{what} ended with {child.returncode}: {shell.tail(shell.read_text(system.suite.log))}")
        if time.monotonic() > end:
            shell.kill_group(child)
            raise StepFailed(f"{what} did not mount within {MOUNT_LIMIT} s")
        time.sleep(0.01)


class Ext4d(System):
    name = "ext4d"

    def mount(self, device, options=""):
        options = self.options(options)
        cmd = [self.suite.ext4d] + (["-o", options] if options else []) + [device.path, self.suite.mnt]
        # Its threads that answer requests go where the option says, the others where they like.
        with shell.on_cpus(shell.ALL_CPUS):
            shell.run(cmd, limit=MOUNT_LIMIT)
        self.mounted = True

    def options(self, options):
        cpu = self.suite.cpu
        return ",".join(filter(None, [options, f"server_cpus={cpu}" if cpu is not None else ""]))

    def tune(self, tunables):
        for name, value in tunables.items():
            try:
                shell.write_text(f"{self.suite.mnt}/.ext4d/tunables/{name}", str(value))
            except OSError as error:
                raise StepFailed(f"tunable {name}={value}: {error.strerror}") from None

    def umount(self):
        if not self.mounted:
            return
        self.mounted = False
        shell.run([self.suite.ext4d, "-u", self.suite.mnt], limit=UMOUNT_LIMIT)

    def kill(self):
        if is_mounted(self.suite.mnt):
            try:
                shell.run([self.suite.ext4d, "-u", self.suite.mnt], ok=None, limit=60)
            except Stopped:
                pass
        super().kill()


class Ext4(System):
    name = "ext4"

    def mount(self, device, options=""):
        shell.run(["mount", "-t", "ext4", *(["-o", options] if options else []), device.path, self.suite.mnt], limit=MOUNT_LIMIT)
        self.mounted = True


class Child(System):
    """A server that stays in the foreground as a child of ours."""

    def serve(self, cmd, what):
        with shell.on_cpus(self.suite.client_cpus()):
            self.child = shell.start(cmd, self.suite.log)
        wait_mounted(self, self.child, what)
        self.mounted = True

    def umount(self):
        super().umount()
        if self.child:
            try:
                shell.wait(self.child, UMOUNT_LIMIT)
            finally:
                self.child = None


class Fuse2fs(Child):
    name = "fuse2fs"

    def mount(self, device, options=""):
        opts = "rw,allow_other,default_permissions" + ("," + options if options else "")
        self.serve(["fuse2fs", "-f", "-o", opts, device.path, self.suite.mnt], "fuse2fs")


class Null(Child):
    """The limit that FUSE sets: a server that does nothing."""
    name = "null"
    has_image = False

    def fresh(self, device, mkfs=()):
        pass

    def mount(self, device, options=""):
        self.serve([self.suite.program("nullfs"), self.suite.mnt], "nullfs")

    def check(self, device):
        return True, "has no disk"


class Raw(System):
    """The limit that the device sets."""
    name = "raw"
    has_image = False

    def fresh(self, device, mkfs=()):
        pass

    def mount(self, device, options=""):
        pass

    def umount(self):
        pass

    def check(self, device):
        return True, "has no file system"


CLASSES = {c.name: c for c in (Ext4d, Ext4, Fuse2fs, Null, Raw)}
