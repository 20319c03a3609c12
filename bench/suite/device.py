# SPDX-License-Identifier: GPL-2.0-or-later
"""The device that is measured: a real one, or an image in memory, as fast as it is or slowed down.

An image is slowed down in one of two ways. A filter of ext4d (-o blk=model:...) models bandwidth, IOPS, seeks and flushes, for ext4d
alone. For a comparison with the kernel the loop device is throttled for everybody by the root group of cgroup v1's blkio
controller, which knows bandwidth and IOPS only.
"""
import os
import stat

from suite import shell
from suite.shell import Refused

MIB = 1 << 20
CGROUP = "/sys/fs/cgroup/blkio/"
THROTTLES = ("write_bps", "read_bps", "write_iops", "read_iops")

# filter: for -o blk=. The four limits: what a throttle can do of the same.
EMULATED = {
    "ram": {"filter": None, "text": "an image in memory, as fast as it is"},
    "sata3": {"filter": "model:sata3", "write_bps": 500000000, "read_bps": 540000000, "write_iops": 85000,
              "read_iops": 95000, "text": "a SATA III SSD: 500 MB/s, 85000 write IOPS, flush 0.6 ms"},
    "sata2": {"filter": "model:write_bw=180000000:read_bw=250000000:write_iops=20000:read_iops=30000:"
                        "latency_us=80:flush_us=1000:qd=1",
              "write_bps": 180000000, "read_bps": 250000000, "write_iops": 20000, "read_iops": 30000,
              "text": "an SSD of 2013 at 3 Gb/s without command queue: 180 MB/s, 80 us a request, flush 1 ms"},
    "usb3": {"filter": "model:read_bw=200000000:write_bw=60000000:read_iops=12000:write_iops=500:latency_us=150:"
                       "flush_us=3000:qd=32:nr_requests=32",
             "write_bps": 60000000, "read_bps": 200000000, "write_iops": 500, "read_iops": 12000,
             "text": "a USB 3 flash drive: 60 MB/s, 500 write and 12000 read IOPS, flush 3 ms, a queue of 32"},
    "sdcard": {"filter": "model:sdcard", "write_bps": 25000000, "read_bps": 80000000, "write_iops": 600,
               "read_iops": 2500, "text": "an SD card: 25 MB/s, 600 write IOPS, flush 6 ms"},
    "usb2": {"filter": "model:usb2", "write_bps": 28000000, "read_bps": 34000000, "write_iops": 1200,
             "read_iops": 2000, "text": "a USB 2 stick: 28 MB/s, 1200 write IOPS, flush 3 ms"},
    "hdd": {"filter": "model:hdd", "write_bps": 150000000, "read_bps": 160000000, "write_iops": 180,
            "read_iops": 180, "text": "a disk: 150 MB/s, 8 ms a seek, flush 10 ms"},
    "raid5": {"filter": "raid5:disks=8:chunk=16k+model:hdd", "stride": 4, "width": 28,
              "text": "a RAID 5 of 8 disks with 16 KiB chunks"},
}


class Device:
    """path: what is mounted. image: the file behind it, or None. throttle: `7:N` if it can be throttled."""

    def __init__(self, path, size, image=None, name=None, model=None):
        self.path, self.size, self.image = path, size, image
        self.name, self.model = name or path, model
        self.number = None
        self.loop = None
        self.limited = False  # slow already, by somebody else's doing: in a guest

    def close(self):
        self.throttle(None)
        if self.loop:
            shell.run(["losetup", "-d", self.loop], ok=None, limit=20)
            self.loop = None

    def can_throttle(self):
        return self.limited or self.loop is not None and os.access(CGROUP + "blkio.throttle.write_bps_device", os.W_OK)

    def throttle(self, emulation):
        """As slow as `emulation` for everybody; None: as fast as it is."""
        if self.number is None:
            return
        limits = EMULATED[emulation] if emulation else {}
        for name in THROTTLES:
            shell.write_text(f"{CGROUP}blkio.throttle.{name}_device", f"{self.number} {limits.get(name, 0)}")

    def written_bytes(self):
        """Bytes that have reached the block device; None without one."""
        fields = shell.read_text(f"/sys/class/block/{os.path.basename(self.path)}/stat").split()
        return int(fields[6]) * 512 if len(fields) > 6 else None


# ---- Images ----

def available_bytes():
    for line in shell.read_text("/proc/meminfo").splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return 0


def fill(path, size):
    """Every page of the image is there: what is measured later is not the first touch of memory."""
    block = bytes(MIB)
    with open(path, "wb") as f:
        for _ in range(size // MIB):
            f.write(block)


def open_image(folder, size, notes, plan_only=False):
    """An image of `size` bytes in memory (a tmpfs of our own if we may), behind a loop device if we may."""
    free = available_bytes()
    if size > free // 2:
        smaller = free // 2 // MIB * MIB
        if smaller < 192 * MIB:
            raise Refused(f"an image in memory needs 192 MiB twice over, and {free // MIB} MiB are available: use --device")
        notes.append(f"the image is {smaller // MIB} MiB instead of {size // MIB} MiB: half of the memory available")
        size = smaller
    root = os.geteuid() == 0
    if root:
        shell.run(["mount", "-t", "tmpfs", "-o", f"size={size + 64 * MIB},mode=700", "ext4d-bench", folder], limit=20)
    image = os.path.join(folder, "image")
    try:
        if plan_only:
            with open(image, "wb") as f:
                f.truncate(size)
        else:
            fill(image, size)
    except OSError as error:
        raise Refused(f"{image}: {error.strerror}: the image of {size // MIB} MiB does not fit") from None
    device = Device(image, size, image, "image", "an image in memory")
    if root:
        attach(device, notes)
    return device


def attach(device, notes):
    loop, error = "", ""
    for direct in ("on", "off"):
        try:
            loop = shell.run(["losetup", "-f", "--show", f"--direct-io={direct}", device.image], limit=20)[0].strip()
            break
        except (shell.StepFailed, shell.Stopped) as failure:
            error = str(failure)
    if not loop:
        notes.append(f"no loop device ({error}): ext4d uses the image itself, and nothing else can be measured")
        return
    device.path = device.loop = device.name = loop
    info = os.stat(loop)
    if os.access(CGROUP + "blkio.throttle.write_bps_device", os.W_OK):
        device.number = f"{os.major(info.st_rdev)}:{os.minor(info.st_rdev)}"


# ---- Real devices ----

def mounted_parts(path):
    """What keeps the device in use: mount points, swap, and devices on top of it."""
    base = os.path.basename(os.path.realpath(path))
    names = {base}
    for folder, _, _ in os.walk(f"/sys/class/block/{base}/"):
        if os.path.exists(os.path.join(folder, "partition")):
            names.add(os.path.basename(folder))
    names.update(n for n in os.listdir("/sys/class/block") if os.path.exists(f"/sys/class/block/{base}/{n}"))
    numbers = {shell.read_text(f"/sys/class/block/{n}/dev") for n in names}
    uses = []
    for line in shell.read_text("/proc/self/mountinfo").splitlines():
        fields = line.split()
        if fields[2] in numbers or (len(fields) > 9 and os.path.basename(fields[fields.index("-") + 2]) in names):
            uses.append(f"mounted on {fields[4]}")
    uses += ["used as swap" for line in shell.read_text("/proc/swaps").splitlines() if os.path.basename(line.split()[0]) in names]
    for name in names:
        holders = f"/sys/class/block/{name}/holders"
        uses += [f"part of {h}" for h in (os.listdir(holders) if os.path.isdir(holders) else [])]
    return uses


def device_size(path):
    fd = os.open(path, os.O_RDONLY)
    try:
        return os.lseek(fd, 0, os.SEEK_END)
    finally:
        os.close(fd)


def describe(path):
    """What a person needs to see before it is destroyed."""
    name = os.path.basename(os.path.realpath(path))
    model = shell.read_text(f"/sys/class/block/{name}/device/model") or shell.read_text(f"/sys/class/block/{name}/device/name")
    if not model and os.path.exists(f"/sys/class/block/{name}/loop/backing_file"):
        model = "loop device over " + shell.read_text(f"/sys/class/block/{name}/loop/backing_file")
    content = shell.output(["blkid", "-p", "-o", "export", path])
    keep = [line for line in content.splitlines() if line.split("=")[0] in ("TYPE", "LABEL", "PTTYPE", "UUID", "VERSION")]
    return model or "unknown", ", ".join(keep) or "nothing that blkid knows"


def open_device(path, yes, over_partitions):
    if not os.path.exists(path):
        raise Refused(f"{path}: there is no such device")
    if not stat.S_ISBLK(os.stat(path).st_mode):
        raise Refused(f"{path} is not a block device; for an image use --emulate")
    if os.geteuid() != 0:
        raise Refused(f"{path}: a real device needs root; without root use --emulate")
    uses = mounted_parts(path)
    if uses:
        raise Refused(f"{path} is in use ({', '.join(uses)}): nothing was touched")
    try:
        os.close(os.open(path, os.O_RDWR | os.O_EXCL))
    except OSError as error:
        raise Refused(f"{path}: {error.strerror}: nothing was touched") from None
    size = device_size(path)
    model, content = describe(path)
    print(f"device   {path}\nmodel    {model}\nsize     {size / 1e9:.1f} GB\ncontent  {content}")
    if "PTTYPE" in content and not over_partitions:
        raise Refused(f"{path} has a partition table: give a partition, or --over-partitions to destroy it")
    if size < 192 * MIB:
        raise Refused(f"{path} is too small: {size // MIB} MiB, 192 are needed")
    if not yes:
        try:
            answer = input(f"EVERYTHING on {path} will be destroyed. Type its name to go on: ")
        except EOFError:
            answer = ""
        if answer.strip() != path:
            raise Refused("not confirmed: nothing was touched (--yes confirms for scripts)")
    return Device(path, size, None, path, model)
