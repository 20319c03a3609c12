/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * open.c - what opening and closing a file means beyond a reference.
 *
 * Invariants: (1) an append-only file is opened for writing only with O_APPEND and never truncated, an immutable one
 * never for writing.
 * Locking: i_rwsem for write around O_TRUNC.
 */
#include <fcntl.h>

#include "namespace/ns.h"
#include "writeback/writeback.h"

static bool wants_write(int o_flags)
{
	return (o_flags & O_ACCMODE) != O_RDONLY;
}

static int truncate_at_open(struct inode *inode, bool kill_suidgid)
{
	struct ns_attr attr = {.na_valid = NS_SET_SIZE};

	if (kill_suidgid)
		attr.na_valid |= NS_KILL_SUIDGID;
	return ext4_setattr(inode, &attr, NULL);
}

int ext4_file_open(struct inode *inode, int o_flags, bool kill_suidgid)
{
	bool write = wants_write(o_flags);
	bool trunc = (o_flags & O_TRUNC) != 0;

	if ((write || trunc) && (inode->i_flags & EXT2_IMMUTABLE_FL) != 0)
		return -EPERM;
	if ((inode->i_flags & EXT2_APPEND_FL) != 0 &&
	    (trunc || (write && (o_flags & O_APPEND) == 0)))
		return -EPERM;
	if (write && S_ISDIR(inode->i_mode))
		return -EISDIR;
	if (write && sb_rdonly(inode->i_sb))
		return -EROFS;
	if (!trunc || !S_ISREG(inode->i_mode))
		return 0;
	return truncate_at_open(inode, kill_suidgid);
}

void ext4_file_release(struct inode *inode, int o_flags)
{
	if (S_ISREG(inode->i_mode))
		ext4_release_file(inode, wants_write(o_flags));
}
