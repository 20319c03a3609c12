/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef FUSE_DAEMON_H
#define FUSE_DAEMON_H
/* The life of the daemon, from the checked device to the end. */

#include "fuse/device.h"
#include "fuse/options.h"

struct daemon_args {
	struct mount_options *da_opts;
	struct device *da_device;
	char *da_mountpoint; /* absolute */
	bool da_debug;
	int da_status_fd; /* of daemon_fork(), -1 in the foreground */
};

/* Mount, serve until the end, unmount. Returns the exit code; when the mount failed it has been told to the waiting parent. */
int daemon_run(const struct daemon_args *da);

#endif
