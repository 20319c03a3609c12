/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef FUSE_REMOUNT_H
#define FUSE_REMOUNT_H
/* mount -o remount,ro and rw: the kernel tells a FUSE server nothing of them, the table of mounts does. */

#include "fuse/front.h"

struct remount;

/* Before the system call filter: opens the table. NULL: it cannot be watched (said in the log), and remounts are not seen. */
struct remount *remount_watch(struct front *f);
/* A request that changes something has come although the file system was made read-only: look at the table now. Blocks; no request is in hand. */
void remount_look(struct remount *rm);
/* True between a remount to read-only and the next look that finds it writable. One atomic load; rm may be NULL. */
bool remount_is_read_only(const struct remount *rm);
/* The watching ends; the state stays as it is. NULL is allowed. */
void remount_stop(struct remount *rm);

/* The super block's "ro" or "rw" in a table like /proc/self/mountinfo, of the mount that lies on top at that place. False: there is none. Changes text. */
bool remount_parse(char *text, const char *mountpoint, bool *read_only);

#endif
