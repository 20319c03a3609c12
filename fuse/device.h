/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef FUSE_DEVICE_H
#define FUSE_DEVICE_H
/* The block device or image that is mounted: found, checked, and held so that nobody else uses it. */

#include <stdbool.h>
#include <stdint.h>

enum device_access {
	DEVICE_READ_WRITE,
	DEVICE_READ_ONLY,
	DEVICE_READ_ONLY_BUT_REPLAY, /* written only if a log waits for its replay */
};

struct device {
	char *dv_path;	   /* what is read and written, and shown as the source of the mount */
	bool dv_block;	   /* dv_path is a block device: fuseblk is possible */
	bool dv_read_only; /* asked for, or the device cannot be written */
	int dv_node_fd;	   /* flock on dv_path, for the daemon's life */
	int dv_image_fd;   /* flock on the image behind a loop device, or -1 */
	int dv_loop_fd;	   /* keeps a loop device that was attached here, or -1 */
	int dv_excl_fd; /* the block device open with O_EXCL, where the kernel does not hold it */
};

/* UUID=, LABEL=, PARTUUID=, PARTLABEL= and paths. A string to free; NULL with the reason logged. */
char *device_resolve(const char *spec);
/*
 * Open and lock what spec names; an image is attached to a loop device when use_loop is set and the
 * system has one to give. A device that cannot be written makes dv_read_only true. 0, or a
 * negative errno with one line in the log.
 */
int device_open(struct device *dv, const char *spec, enum device_access access, bool use_loop);
/* The kernel will not hold the device (plain fuse): keep it open exclusively. 0 or -EBUSY, -EIO. */
int device_hold_exclusive(struct device *dv);
/* True if somebody has the block device open with O_EXCL. */
bool device_is_held(const char *path);
void device_close(struct device *dv);

#endif
