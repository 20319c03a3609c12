/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * loop.c - images as block devices.
 *
 * As mount(8) does, an image gets a loop device, so that the kernel can mount it as fuseblk. The
 * device is configured in one step with LOOP_CONFIGURE: older kernels, which lack it, get the image
 * file itself as plain fuse. Autoclear makes the kernel detach the device when
 * the mount and the daemon are gone, however they end.
 *
 * Direct I/O needs a loop block size that the image's own file system can do. The size stays 512
 * wherever that works, because a larger one would refuse file systems with small blocks.
 *
 * Invariants: (1) a device returned by loop_attach() has autoclear set. (2) nothing is
 * ever detached by hand.
 * Locking: none, one thread.
 */
#include "fuse/loop.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/loop.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "util/log.h"

#define LOOP_MAJOR_NR 7
#define ATTACH_TRIES 16

/* The smallest offset alignment that O_DIRECT on the file can do; 512 where it is not told. */
static uint32_t dio_align(int fd)
{
#ifdef STATX_DIOALIGN
	struct statx stx;

	if (statx(fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &stx) == 0 &&
	    (stx.stx_mask & STATX_DIOALIGN) != 0 && stx.stx_dio_offset_align > 512)
		return stx.stx_dio_offset_align;
#else
	(void)fd;
#endif
	return 512;
}

static int free_loop(char *path, size_t size)
{
	int control = open("/dev/loop-control", O_RDWR | O_CLOEXEC);
	int nr;
	int fd;

	if (control < 0)
		return -errno;
	nr = ioctl(control, LOOP_CTL_GET_FREE);
	fd = nr < 0 ? -errno : 0;
	close(control);
	if (fd < 0)
		return fd;
	snprintf(path, size, "/dev/loop%d", nr);
	fd = open(path, O_RDWR | O_CLOEXEC);
	return fd >= 0 ? fd : -errno;
}

static int configure(int loop_fd, int image_fd, const char *image_path, bool read_only,
		     uint32_t block_bytes)
{
	struct loop_config lc = {.fd = (uint32_t)image_fd, .block_size = block_bytes};

	lc.info.lo_flags = LO_FLAGS_AUTOCLEAR | LO_FLAGS_DIRECT_IO;
	if (read_only)
		lc.info.lo_flags |= LO_FLAGS_READ_ONLY;
	snprintf((char *)lc.info.lo_file_name, sizeof(lc.info.lo_file_name), "%s", image_path);
	return ioctl(loop_fd, LOOP_CONFIGURE, &lc) == 0 ? 0 : -errno;
}

/*
 * Some file systems promise direct I/O and then refuse it (overlayfs above one that has none, before
 * Linux 6.6). The first block tells.
 */
static void without_direct_io_if_refused(int loop_fd, const char *image_path)
{
	uint8_t block[512];

	if (pread(loop_fd, block, sizeof(block), 0) >= 0 || errno != EIO)
		return;
	if (ioctl(loop_fd, LOOP_SET_DIRECT_IO, 0UL) == 0)
		log_info("%s: no direct I/O", image_path);
}

/* log2 of the file system's block size minus 10, as the superblock says; 0 if it cannot be read. */
static uint32_t fs_block_bytes(int image_fd)
{
	uint8_t le[4];
	uint32_t shift;

	if (pread(image_fd, le, sizeof(le), 1024 + 24) != (ssize_t)sizeof(le))
		return 1024;
	shift = le[0] | (uint32_t)le[1] << 8 | (uint32_t)le[2] << 16 | (uint32_t)le[3] << 24;
	return shift <= 6 ? UINT32_C(1024) << shift : 1024;
}

int loop_attach(int image_fd, const char *image_path, bool read_only, char *path, size_t size)
{
	uint32_t block = dio_align(image_fd);

	if (block > 4096 || block > fs_block_bytes(image_fd))
		block = 512; /* the kernel falls back to buffered I/O */
	for (int i = 0; i < ATTACH_TRIES; i++) {
		int fd = free_loop(path, size);
		int err;

		if (fd < 0)
			return fd;
		err = configure(fd, image_fd, image_path, read_only, block);
		if (err == 0) {
			without_direct_io_if_refused(fd, image_path);
			return fd;
		}
		close(fd);
		if (err != -EBUSY)
			return err;
	}
	return -EBUSY;
}

static bool attached_to(const char *path, dev_t dev, ino_t ino)
{
	struct loop_info64 info;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	bool same = false;

	if (fd < 0)
		return false;
	/* lo_device is in the kernel's huge encoding of a device number, as st_dev is. */
	if (ioctl(fd, LOOP_GET_STATUS64, &info) == 0)
		same = info.lo_inode == ino && info.lo_device == dev;
	close(fd);
	return same;
}

static bool held(const char *path)
{
	int fd = open(path, O_RDONLY | O_EXCL | O_CLOEXEC);

	if (fd < 0)
		return errno == EBUSY;
	close(fd);
	return false;
}

static bool is_loop_name(const char *name)
{
	char *end;

	if (strncmp(name, "loop", 4) != 0 || name[4] < '0' || name[4] > '9')
		return false;
	strtoul(name + 4, &end, 10);
	return *end == '\0';
}

bool loop_user_of(dev_t dev, ino_t ino, dev_t except, char *path, size_t size)
{
	DIR *dir = opendir("/sys/block");
	struct dirent *de;
	bool found = false;

	if (dir == NULL)
		return false;
	while (!found && (de = readdir(dir)) != NULL) {
		struct stat st;

		if (!is_loop_name(de->d_name))
			continue;
		snprintf(path, size, "/dev/%s", de->d_name);
		if (stat(path, &st) != 0 || !S_ISBLK(st.st_mode) || st.st_rdev == except)
			continue;
		found = attached_to(path, dev, ino) && held(path);
	}
	closedir(dir);
	return found;
}

int loop_open_backing(int fd, dev_t rdev)
{
	struct loop_info64 info;
	char link[64];
	char file[4096];
	struct stat st;
	FILE *f;
	int backing;

	if (major(rdev) != LOOP_MAJOR_NR || ioctl(fd, LOOP_GET_STATUS64, &info) != 0)
		return -ENXIO;
	snprintf(link, sizeof(link), "/sys/dev/block/%u:%u/loop/backing_file", major(rdev),
		 minor(rdev));
	f = fopen(link, "re");
	if (f == NULL)
		return -errno;
	if (fgets(file, sizeof(file), f) == NULL)
		file[0] = '\0';
	fclose(f);
	file[strcspn(file, "\n")] = '\0';
	backing = open(file, O_RDONLY | O_CLOEXEC);
	if (backing < 0)
		return -errno;
	if (fstat(backing, &st) == 0 && st.st_ino == info.lo_inode && st.st_dev == info.lo_device)
		return backing;
	close(backing);
	return -ENOENT;
}
