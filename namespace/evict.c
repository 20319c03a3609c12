/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * evict.c - the end of an inode that has neither name nor holder.
 *
 * Its data goes first, in as many handles as that takes: the inode is an orphan, so a crash in between is finished at
 * the next mount. One last handle lets go of the attribute block, takes the inode off the orphan list and frees its
 * number.
 *
 * An I/O error ends an attempt before the handle has changed anything that belongs together; the inode stays an orphan and
 * is tried again at the next sync or at the unmount (ext4_orphan_not_done()).
 *
 * Invariants: (1) the number is freed in the handle that takes the inode off the orphan list, and in none if anything
 * before failed. (2) The inode leaves the cache in any case.
 * Locking: nothing is held; nobody else can find the inode.
 */
#include "alloc/alloc.h"
#include "namespace/ns.h"
#include "namespace/xattr.h"
#include "util/time.h"
#include "writeback/writeback.h"

/* The inode has a block map. */
static bool has_blocks(const struct inode *inode)
{
	if (S_ISLNK(inode->i_mode))
		return !ns_fast_symlink(inode);
	return S_ISREG(inode->i_mode) || S_ISDIR(inode->i_mode);
}

static int free_in_handle(handle_t *handle, struct inode *inode)
{
	int err = ext4_prepare_inode_write(handle, inode);

	if (err == 0)
		err = ext4_free_inode_prepare(handle, inode);
	if (err == 0 && inode->i_file_acl != 0) {
		down_write(&inode->i_xattr_sem);
		err = ext4_xattr_block_drop(handle, inode);
		up_write(&inode->i_xattr_sem);
	}
	if (err == 0)
		err = ext4_orphan_del(handle, inode);
	if (err != 0)
		return err;
	inode->i_dtime = (uint32_t)now_coarse().tv_sec;
	err = ext4_mark_inode_dirty(handle, inode);
	return err != 0 ? err : ext4_free_inode(handle, inode);
}

static int evict(struct inode *inode)
{
	struct super_block *sb = inode->i_sb;
	handle_t *handle;
	int err = 0;

	if ((atomic_load(&inode->i_state) & I_BAD) != 0)
		return -EFSCORRUPTED;
	if (has_blocks(inode))
		err = ext4_evict_data(inode);
	if (err != 0)
		return err;
	handle = ext4_journal_start_sb(
		sb, HT_TRUNCATE,
		EXT4_NEW_INODE_CREDITS + EXT4_ORPHAN_CREDITS + ext4_xattr_credits(sb), 1);
	if (IS_ERR(handle))
		return PTR_ERR(handle);
	return ext4_journal_stop(handle, free_in_handle(handle, inode));
}

void ns_evict_inode(struct inode *inode)
{
	int err = evict(inode);

	if (err != 0) {
		if (err != -EROFS && err != -EIO)
			ext4_warning(inode->i_sb, "inode #%u could not be freed (%d)", inode->i_ino,
				     err);
		/* It stays an orphan; what was in the way of it may pass. */
		if (err == -EIO || err == -ENOMEM)
			ext4_orphan_not_done(inode);
	}
	ext4_inode_unhash(inode);
}
