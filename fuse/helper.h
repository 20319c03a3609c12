/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef FUSE_HELPER_H
#define FUSE_HELPER_H
/*
 * A small process that mounts and unmounts for the daemon: the daemon itself drops its privileges before its
 * first thread starts, and never forks after that.
 */

#include <stdbool.h>

struct helper;

/* Fork it. NULL with errno set. */
struct helper *helper_start(void);
/* The daemon is in the background: the helper lets go of the terminal and the working directory too. */
void helper_detach(struct helper *h);
/* It ends when the daemon lets go; waits for it. */
void helper_stop(struct helper *h);

/* What mount(2) is called with; "fd=N," is put before ma_data, N being the FUSE descriptor. */
struct mount_args {
	int ma_fuse_fd;
	const char *ma_source;
	const char *ma_target;
	const char *ma_type;
	unsigned long ma_flags;
	const char *ma_data;
};
/* 0 or a negative errno. */
int helper_mount(struct helper *h, const struct mount_args *ma);
/* fusermount3: mounts at target with the comma-separated options, returns the FUSE descriptor or a negative errno. */
int helper_open_channel(struct helper *h, const char *target, const char *options);
/* umount2(2), or fusermount3 -u where that is not allowed. lazy: detach although it is busy. */
int helper_umount(struct helper *h, const char *target, bool lazy);

#endif
