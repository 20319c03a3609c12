/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef FUSE_IOCTL_H
#define FUSE_IOCTL_H
/* ioctls of our own, on any file or directory of the mount. */

#include <sys/ioctl.h>

/* Write everything to the device, as sync(2) does where it reaches the daemon. Root, or who mounted. */
#define EXT4D_IOC_SYNC _IO('f', 0xe4)

#endif
