/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * bread.c - the blocks of directories and slow symlinks, by logical number.
 *
 * The hot path is a block that is mapped and cached: one look-up in the extent status tree, one in the buffer cache. A block that
 * is created is zeroed in memory under create access, so that nothing of its former content is ever read; the caller fills it and declares it dirty.
 *
 * Invariants: (1) a metadata block of a file is never unwritten; (2) a created buffer is uptodate, zeroed and not BH_VERIFIED.
 * Locking: as ext4_map_blocks(); the buffer is locked only while it is zeroed.
 */
#include <string.h>

#include "alloc/alloc_internal.h"
#include "ext4/jbd2_glue.h"
#include "ext4/super.h"
#include "util/assert.h"

static struct buffer_head *get_new_block(handle_t *handle, struct inode *inode, ext4_fsblk_t pblk,
					 int *err)
{
	struct buffer_head *bh = bh_get(inode->i_sb->s_bcache, pblk);

	if (IS_ERR(bh)) {
		*err = PTR_ERR(bh);
		return NULL;
	}
	*err = ext4_journal_get_create_access(handle, bh);
	if (*err < 0) {
		bh_put(bh);
		return NULL;
	}
	lock_buffer(bh);
	memset(bh->b_data, 0, bh->b_size);
	bh_clear(bh, BH_VERIFIED);
	bh_set(bh, BH_UPTODATE);
	unlock_buffer(bh);
	return bh;
}

struct buffer_head *ext4_bread(handle_t *handle, struct inode *inode, ext4_lblk_t lblk, bool create,
			       int *err)
{
	struct ext4_map_blocks map = {.m_lblk = lblk, .m_len = 1};
	struct buffer_head *bh;
	int ret;

	ASSERT(handle != NULL || !create);
	ret = ext4_map_blocks(handle, inode, &map, create ? EXT4_GET_BLOCKS_CREATE : 0);
	*err = ret < 0 ? ret : 0;
	if (ret < 0 || (map.m_flags & (EXT4_MAP_MAPPED | EXT4_MAP_UNWRITTEN)) == 0)
		return NULL;
	if (map.m_flags & EXT4_MAP_UNWRITTEN) {
		*err = ext4_error_block(inode->i_sb, inode->i_ino, map.m_pblk,
					"unwritten block %u in a directory or symlink", lblk);
		return NULL;
	}
	if (map.m_flags & EXT4_MAP_NEW)
		return get_new_block(handle, inode, map.m_pblk, err);
	bh = bh_read(inode->i_sb->s_bcache, map.m_pblk);
	if (IS_ERR(bh)) {
		*err = ext4_read_failed(inode->i_sb, inode->i_ino, map.m_pblk, PTR_ERR(bh));
		return NULL;
	}
	return bh;
}
