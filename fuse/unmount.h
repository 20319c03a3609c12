/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef FUSE_UNMOUNT_H
#define FUSE_UNMOUNT_H
/* `ext4d -u` and `ext4d --sync`: what umount(8) and sync(1) are for mounts that those do not reach. */

/* Write everything, unmount, and wait until the daemon has ended. Returns an exit code; reasons are logged. */
int unmount_and_wait(const char *mountpoint);
/* Write everything to the device. Returns an exit code. */
int sync_mount(const char *mountpoint);

#endif
