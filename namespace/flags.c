/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * flags.c - what lsattr shows and chattr changes.
 *
 * Invariants: (1) flags that describe the layout (extents, index, huge file) never change here. (2) While an inode is
 * immutable nothing changes but that flag.
 * Locking: i_rwsem for write around changes.
 */
#include "alloc/alloc.h"
#include "namespace/ns.h"

/* data=journal for one file; the same mount mode is refused. */
#define JOURNAL_DATA_FL EXT3_JOURNAL_DATA_FL
#define DIR_ONLY_FL (EXT2_DIRSYNC_FL | EXT2_TOPDIR_FL)
#define OTHER_FL (EXT2_NODUMP_FL | EXT2_NOATIME_FL)

/* Flags that a file of this type may have. ext4: fs/ext4/ext4.h ext4_mask_flags() */
static uint32_t mask_flags(uint16_t mode, uint32_t flags)
{
	if (S_ISDIR(mode))
		return flags;
	if (S_ISREG(mode))
		return flags & ~(uint32_t)DIR_ONLY_FL;
	return flags & OTHER_FL;
}

uint32_t ext4_get_flags(struct inode *inode)
{
	uint32_t flags;

	down_read(&inode->i_rwsem);
	flags = inode->i_flags & EXT2_FL_USER_VISIBLE;
	up_read(&inode->i_rwsem);
	return flags;
}

/* The new i_flags, or a negative errno. */
static int compute(const struct inode *inode, uint32_t flags, const struct ns_cred *cred,
		   uint32_t *out)
{
	uint32_t settable = EXT2_FL_USER_MODIFIABLE & ~(uint32_t)EXT4_EXTENTS_FL;
	uint32_t old = inode->i_flags;
	uint32_t changed;

	if ((flags & ~(uint32_t)EXT2_FL_USER_VISIBLE) != 0)
		return -EOPNOTSUPP;
	if (((old ^ flags) & (JOURNAL_DATA_FL | EXT4_EXTENTS_FL | EXT4_CASEFOLD_FL)) != 0)
		return -EOPNOTSUPP;
	if (mask_flags(inode->i_mode, flags & settable) != (flags & settable))
		return -EOPNOTSUPP;
	*out = (old & ~settable) | (flags & settable);
	changed = old ^ *out;
	if ((changed & (EXT2_IMMUTABLE_FL | EXT2_APPEND_FL)) != 0 && !cred->nc_privileged)
		return -EPERM;
	if ((old & *out & EXT2_IMMUTABLE_FL) != 0 && changed != 0)
		return -EPERM;
	return 0;
}

static int store(struct inode *inode, uint32_t flags)
{
	handle_t *handle = ext4_journal_start(inode, HT_INODE, EXT4_INODE_CREDITS);
	int err;

	if (IS_ERR(handle))
		return PTR_ERR(handle);
	inode->i_flags = flags;
	ns_touch(inode, NS_TOUCH_CTIME);
	err = ext4_mark_inode_dirty(handle, inode);
	ns_sync_handle(handle, inode);
	return ext4_journal_stop(handle, err);
}

int ext4_set_flags(struct inode *inode, uint32_t flags, const struct ns_cred *cred)
{
	uint32_t new_flags;
	int err = ext4_check_writable(inode->i_sb);

	if (err != 0)
		return err;
	down_write(&inode->i_rwsem);
	err = compute(inode, flags, cred, &new_flags);
	if (err == 0 && new_flags != inode->i_flags)
		err = store(inode, new_flags);
	up_write(&inode->i_rwsem);
	return err;
}

int ext4_set_generation(struct inode *inode, uint32_t generation)
{
	handle_t *handle;
	int err = ext4_check_writable(inode->i_sb);

	if (err != 0)
		return err;
	/* The generation is in the seed of all its checksums. ext4: fs/ext4/ioctl.c EXT4_IOC_SETVERSION */
	if (ext4_has_metadata_csum(inode->i_sb))
		return -ENOTTY;
	down_write(&inode->i_rwsem);
	handle = ext4_journal_start(inode, HT_INODE, EXT4_INODE_CREDITS);
	if (IS_ERR(handle)) {
		err = PTR_ERR(handle);
	} else {
		inode->i_generation = generation;
		ns_touch(inode, NS_TOUCH_CTIME);
		err = ext4_journal_stop(handle, ext4_mark_inode_dirty(handle, inode));
	}
	up_write(&inode->i_rwsem);
	return err;
}
