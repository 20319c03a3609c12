/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef FUSE_LOOP_H
#define FUSE_LOOP_H
/* Loop devices. */

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/*
 * Attach the image to a free loop device, with direct I/O where the image's file system can, detached by
 * the kernel when its last user is gone. Returns the loop device's fd and its path, or a
 * negative errno.
 */
int loop_attach(int image_fd, const char *image_path, bool read_only, char *path, size_t size);
/*
 * A loop device other than `except` (0: none) that has this file attached and is in use by somebody
 * (open with O_EXCL). True with its path.
 */
bool loop_user_of(dev_t dev, ino_t ino, dev_t except, char *path, size_t size);
/* The file behind the loop device node fd: open it read-only. -ENXIO if fd is no attached loop device, else the fd or a negative errno. */
int loop_open_backing(int fd, dev_t rdev);

#endif
