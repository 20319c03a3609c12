/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * device.c - one daemon for a device.
 *
 * Two writers on one file system destroy it, so everything that could be another user is asked before
 * anything is read: a block device must open with O_EXCL (the kernel's mounts and md, dm and
 * swap hold it so); the node and, for loop devices and images, the image's inode are locked with flock for
 * the daemon's life, which catches a second daemon under any name; an image that a loop device in
 * use has attached is refused.
 *
 * The exclusive open is only a question and is closed again: mounting as fuseblk makes the kernel
 * itself claim the device. Where the kernel does not (plain fuse) device_hold_exclusive() does.
 *
 * Invariants: (1) after device_open() dv_path is locked and was not held by anybody. (2) flocks are inherited
 * by the daemon over fork and end with it; the unmount program waits for them.
 * Locking: none, one thread.
 */
#include "fuse/device.h"

#include <blkid/blkid.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "ext4/super.h"
#include "fuse/loop.h"
#include "util/log.h"

/* The last user's claim can outlive its umount by some 100 ms. */
#define HELD_RETRIES 10
#define HELD_PAUSE_MS 50

char *device_resolve(const char *spec)
{
	static const char *const tags[] = {"UUID=", "LABEL=", "PARTUUID=", "PARTLABEL="};
	char *path;

	for (size_t i = 0; i < sizeof(tags) / sizeof(tags[0]); i++) {
		if (strncmp(spec, tags[i], strlen(tags[i])) != 0)
			continue;
		path = blkid_evaluate_spec(spec, NULL);
		if (path == NULL)
			log_err("%s: no such device", spec);
		return path;
	}
	path = realpath(spec, NULL);
	if (path == NULL)
		log_err("%s: %s", spec, strerror(errno));
	return path;
}

static void sleep_ms(long ms)
{
	struct timespec ts = {.tv_nsec = ms * 1000000};

	nanosleep(&ts, NULL);
}

bool device_is_held(const char *path)
{
	int fd = open(path, O_RDONLY | O_EXCL | O_CLOEXEC);

	if (fd < 0)
		return errno == EBUSY;
	close(fd);
	return false;
}

static bool stays_held(const char *path)
{
	for (int i = 0; i < HELD_RETRIES; i++) {
		if (!device_is_held(path))
			return false;
		sleep_ms(HELD_PAUSE_MS);
	}
	return true;
}

/* Open path, read-write if it can be and is wanted. */
static int open_node(struct device *dv, const char *path)
{
	int flags = O_CLOEXEC | O_NONBLOCK;
	int fd = -1;
	int ro = 0;

	if (!dv->dv_read_only) {
		fd = open(path, O_RDWR | flags);
		if (fd < 0 && errno != EROFS && errno != EACCES && errno != EPERM)
			return -errno;
	}
	if (fd >= 0 && ioctl(fd, BLKROGET, &ro) == 0 && ro != 0) {
		close(fd);
		fd = -1;
	}
	if (fd >= 0)
		return fd;
	fd = open(path, O_RDONLY | flags);
	if (fd < 0)
		return -errno;
	if (!dv->dv_read_only)
		log_warn("%s: write-protected, mounting read-only", path);
	dv->dv_read_only = true;
	return fd;
}

static int lock_fd(int fd, const char *path)
{
	for (int i = 0; i < HELD_RETRIES; i++) {
		if (flock(fd, LOCK_EX | LOCK_NB) == 0)
			return 0;
		if (errno != EWOULDBLOCK)
			return -errno;
		sleep_ms(HELD_PAUSE_MS);
	}
	log_err("%s: in use: another ext4d or a locking program has it", path);
	return -EBUSY;
}

/* A block device was named: not held, and the image behind it, if any, is nobody else's. */
static int claim_block(struct device *dv, const char *path, const struct stat *st)
{
	char other[64];
	struct stat image;

	if (stays_held(path)) {
		log_err("%s: in use: mounted, or held by another program", path);
		return -EBUSY;
	}
	dv->dv_image_fd = loop_open_backing(dv->dv_node_fd, st->st_rdev);
	if (dv->dv_image_fd < 0)
		return 0; /* no loop device, or its image cannot be seen from here */
	if (lock_fd(dv->dv_image_fd, path) != 0)
		return -EBUSY;
	if (fstat(dv->dv_image_fd, &image) == 0 &&
	    loop_user_of(image.st_dev, image.st_ino, st->st_rdev, other, sizeof(other))) {
		log_err("%s: its image is in use through %s", path, other);
		return -EBUSY;
	}
	return 0;
}

/*
 * The image, opened once more: a lock lives as long as the open file that it was taken on, and a
 * loop device may keep its file for a while after the daemon. Negative errno.
 */
static int open_unlocked(const struct device *dv, const char *path)
{
	int fd = open(path, (dv->dv_read_only ? O_RDONLY : O_RDWR) | O_CLOEXEC);
	struct stat locked, st;

	if (fd < 0)
		return -errno;
	if (fstat(dv->dv_node_fd, &locked) == 0 && fstat(fd, &st) == 0 &&
	    st.st_dev == locked.st_dev && st.st_ino == locked.st_ino)
		return fd;
	close(fd);
	return -ESTALE;
}

/* An image was named: dv_node_fd, locked, becomes dv_image_fd, and a loop device takes its place. */
static int attach_image(struct device *dv, const char *image)
{
	char path[64];
	struct stat st;
	int node, unlocked;

	unlocked = open_unlocked(dv, image);
	if (unlocked < 0)
		return unlocked;
	dv->dv_loop_fd = loop_attach(unlocked, image, dv->dv_read_only, path, sizeof(path));
	close(unlocked);
	if (dv->dv_loop_fd < 0) {
		log_warn("%s: no loop device (%s): plain fuse", image, strerror(-dv->dv_loop_fd));
		dv->dv_loop_fd = -1;
		return 0;
	}
	node = open(path, O_RDONLY | O_CLOEXEC);
	if (node < 0 || fstat(node, &st) != 0)
		return -errno;
	dv->dv_image_fd = dv->dv_node_fd;
	dv->dv_node_fd = node;
	dv->dv_block = true;
	free(dv->dv_path);
	dv->dv_path = strdup(path);
	if (dv->dv_path == NULL)
		return -ENOMEM;
	return lock_fd(node, path);
}

static int claim_image(struct device *dv, const char *path, const struct stat *st, bool use_loop)
{
	char other[64];

	if (loop_user_of(st->st_dev, st->st_ino, 0, other, sizeof(other))) {
		log_err("%s: in use through %s", path, other);
		return -EBUSY;
	}
	return use_loop ? attach_image(dv, path) : 0;
}

static int open_and_claim(struct device *dv, bool use_loop)
{
	const char *path = dv->dv_path;
	struct stat st;
	int err;

	dv->dv_node_fd = open_node(dv, path);
	if (dv->dv_node_fd < 0 || fstat(dv->dv_node_fd, &st) != 0) {
		err = dv->dv_node_fd < 0 ? dv->dv_node_fd : -errno;
		log_err("%s: %s", path, strerror(-err));
		return err;
	}
	if (!S_ISBLK(st.st_mode) && !S_ISREG(st.st_mode)) {
		log_err("%s: neither a block device nor an image file", path);
		return -ENOTBLK;
	}
	dv->dv_block = S_ISBLK(st.st_mode);
	err = lock_fd(dv->dv_node_fd, path);
	if (err != 0)
		return err;
	return dv->dv_block ? claim_block(dv, path, &st) : claim_image(dv, path, &st, use_loop);
}

/* Errors are left to those who open the device next. */
static bool log_waits(const char *path)
{
	unsigned char raw[1024];
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	bool waits;

	if (fd < 0)
		return false;
	waits = pread(fd, raw, sizeof(raw), 1024) == (ssize_t)sizeof(raw) &&
		ext4_raw_needs_recovery(raw);
	close(fd);
	return waits;
}

int device_open(struct device *dv, const char *spec, enum device_access access, bool use_loop)
{
	int err;

	*dv = (struct device){
		.dv_read_only = access != DEVICE_READ_WRITE,
		.dv_node_fd = -1,
		.dv_image_fd = -1,
		.dv_loop_fd = -1,
		.dv_excl_fd = -1,
	};
	dv->dv_path = device_resolve(spec);
	if (dv->dv_path == NULL)
		return -ENOENT;
	if (access == DEVICE_READ_ONLY_BUT_REPLAY && log_waits(dv->dv_path))
		dv->dv_read_only = false;
	err = open_and_claim(dv, use_loop);
	if (err != 0)
		device_close(dv);
	return err;
}

int device_hold_exclusive(struct device *dv)
{
	if (!dv->dv_block)
		return 0;
	dv->dv_excl_fd = open(dv->dv_path, O_RDONLY | O_EXCL | O_CLOEXEC);
	return dv->dv_excl_fd >= 0 ? 0 : -errno;
}

static void close_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

/* The node's lock is what the unmount program waits for: it is given up last. */
void device_close(struct device *dv)
{
	close_fd(&dv->dv_excl_fd);
	close_fd(&dv->dv_loop_fd);
	close_fd(&dv->dv_image_fd);
	close_fd(&dv->dv_node_fd);
	free(dv->dv_path);
	dv->dv_path = NULL;
}
