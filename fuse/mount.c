/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * mount.c - which kind of mount, and with which options.
 *
 * Root and a block device: fuseblk. Then sync(2) reaches the daemon, umount(8) waits for it, and the
 * kernel has no small limit for dirty pages of maps. What refuses fuseblk though nobody holds the device (a
 * container, a kernel that forbids mounting a device that is open for writing) gets plain fuse,
 * and the log says what that means. Without root fusermount3 mounts, always as plain fuse.
 *
 * The kernel checks permissions (default_permissions) on every mount; root's mounts are for everybody
 * (allow_other), as a mount of the kernel's ext4 is.
 *
 * Invariants: (1) a block device that the kernel does not hold is held by the daemon.
 * Locking: none, one thread.
 */
#include "fuse/mount.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "util/log.h"

#define READAHEAD_KB 1024u
#define OPTION_BYTES 8192u

/* Room for everything in the options, and ',' and '\' escaped as fusermount3 wants it. */
static void escape(const char *from, char *to, size_t size)
{
	size_t n = 0;

	for (; *from != '\0' && n + 3 < size; from++) {
		if (*from == ',' || *from == '\\')
			to[n++] = '\\';
		to[n++] = *from;
	}
	to[n] = '\0';
}

static unsigned long mount_flags(const struct front *f)
{
	unsigned long flags = f->f_opts->mo_ms_flags;

	if (sb_rdonly(f->f_sb))
		flags |= MS_RDONLY;
	return flags;
}

static bool allow_other(const struct front *f)
{
	if (f->f_opts->mo_allow_other_set)
		return f->f_opts->mo_allow_other;
	return geteuid() == 0;
}

static int mount_type(struct front *f, struct helper *h, int fuse_fd, const char *type,
		      uint32_t blksize)
{
	char data[256];
	struct mount_args ma = {
		.ma_fuse_fd = fuse_fd,
		.ma_source = f->f_device->dv_path,
		.ma_target = f->f_mountpoint,
		.ma_type = type,
		.ma_flags = mount_flags(f),
		.ma_data = data,
	};
	int n = snprintf(data, sizeof(data),
			 "rootmode=40000,user_id=%u,group_id=%u,default_permissions%s", getuid(),
			 getgid(), allow_other(f) ? ",allow_other" : "");

	if (blksize != 0)
		snprintf(data + n, sizeof(data) - (size_t)n, ",blksize=%u", blksize);
	return helper_mount(h, &ma);
}

/* fuseblk was refused: is it the device, or this kind of mount? */
static bool may_fall_back(const struct front *f, int err)
{
	if (err == -EBUSY)
		return !device_is_held(f->f_device->dv_path);
	return err == -ENODEV || err == -EPERM || err == -EINVAL;
}

static int mount_as_root(struct front *f, struct helper *h, int fuse_fd)
{
	int err = -ENODEV;

	if (f->f_device->dv_block) {
		err = mount_type(f, h, fuse_fd, "fuseblk.ext4d", f->f_sb->s_blocksize);
		if (err == 0) {
			f->f_fuseblk = true;
			return 0;
		}
		if (!may_fall_back(f, err))
			return err;
		log_warn("%s: mounting as fuseblk failed (%s): plain fuse", f->f_device->dv_path,
			 strerror(-err));
		err = device_hold_exclusive(f->f_device);
		if (err != 0)
			return err;
	}
	return mount_type(f, h, fuse_fd, "fuse.ext4d", 0);
}

static int root_channel(struct front *f, struct helper *h)
{
	int fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);
	int err;

	if (fd < 0) {
		err = -errno;
		log_err("/dev/fuse: %s", strerror(errno));
		return err;
	}
	err = mount_as_root(f, h, fd);
	if (err == 0)
		return fd;
	log_err("%s: cannot mount: %s", f->f_mountpoint, strerror(-err));
	close(fd);
	return err;
}

static int user_channel(struct front *f, struct helper *h)
{
	static const struct {
		unsigned long flag;
		const char *name;
	} names[] = {
		{MS_RDONLY, ",ro"},	  {MS_NOEXEC, ",noexec"},   {MS_SYNCHRONOUS, ",sync"},
		{MS_NOATIME, ",noatime"}, {MS_DIRSYNC, ",dirsync"},
	};
	unsigned long flags = mount_flags(f);
	char source[4096];
	char options[OPTION_BYTES];
	int err = device_hold_exclusive(f->f_device);
	int n;

	if (err != 0) {
		log_err("%s: %s", f->f_device->dv_path, strerror(-err));
		return err;
	}
	escape(f->f_device->dv_path, source, sizeof(source));
	n = snprintf(options, sizeof(options), "fsname=%s,subtype=ext4d,default_permissions%s",
		     source, allow_other(f) ? ",allow_other" : "");
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if ((flags & names[i].flag) != 0)
			n += snprintf(options + n, sizeof(options) - (size_t)n, "%s",
				      names[i].name);
	/* The reason is printed by fusermount3 itself. */
	return helper_open_channel(h, f->f_mountpoint, options);
}

int front_mount(struct front *f, struct helper *h)
{
	return geteuid() == 0 ? root_channel(f, h) : user_channel(f, h);
}

void front_set_readahead(const struct front *f)
{
	char path[128];
	struct statx stx;
	FILE *file;

	/* Nobody answers requests yet: the attributes must not be asked for. */
	if (statx(AT_FDCWD, f->f_mountpoint, AT_STATX_DONT_SYNC, 0, &stx) != 0)
		return;
	snprintf(path, sizeof(path), "/sys/class/bdi/%u:%u%s/read_ahead_kb", stx.stx_dev_major,
		 stx.stx_dev_minor, f->f_fuseblk ? "-fuseblk" : "");
	file = fopen(path, "we");
	if (file == NULL) {
		log_debug("%s: %s", path, strerror(errno));
		return;
	}
	fprintf(file, "%u\n", READAHEAD_KB);
	if (fclose(file) != 0)
		log_debug("%s: %s", path, strerror(errno));
}
