/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef FUSE_SUPER_OPTIONS_H
#define FUSE_SUPER_OPTIONS_H
/* Mount options that the file system itself carries: tune2fs -o, and tune2fs -E mount_opts=. */

#include "fuse/options.h"

/*
 * Apply s_default_mount_opts and then s_mount_opts. What has no place there, or a bad value, is left out with a warning, as in the kernel; data=journal is
 * noted in mo_super_journal, for mount_options_check(). `mo` is fresh: the user's options come after it.
 */
void super_options_apply(struct mount_options *mo, const struct ext2_super_block *es);
/* The same for the file system on a device; one that is none changes nothing, the mount will say why. */
void super_options_read(struct mount_options *mo, const char *path);

#endif
