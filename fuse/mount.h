/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef FUSE_MOUNT_H
#define FUSE_MOUNT_H
/* Attaching the file system to the tree. */

#include "fuse/front.h"
#include "fuse/helper.h"

/*
 * Mount f at its mount point: as fuseblk where that is possible, else as fuse; sets f_fuseblk. Returns
 * the FUSE descriptor, on which INIT waits, or a negative errno with one line in the log.
 */
int front_mount(struct front *f, struct helper *h);
/* Larger readahead than the kernel's default for FUSE, where sysfs lets us: after INIT, before the filter of system calls. */
void front_set_readahead(const struct front *f);

#endif
