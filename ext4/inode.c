/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * inode.c - changing inodes: from memory into the table block within a handle.
 *
 * ext4_mark_inode_dirty() is the only writer of inodes while mounted. It is called for every
 * change and so does little: find the block (a hash look-up), write access, encode under the
 * buffer's lock, dirty. The dirty bits are cleared before encoding, so a change made meanwhile
 * sets them again. The block of a new inode whose neighbours are all free is not read.
 *
 * Invariants: (1) I_NEW is set until the first encode, which starts from a zeroed inode. (2)
 * i_extra_isize grows only while nothing is stored behind it.
 * Locking: see the functions; i_lock is taken inside.
 */
#include "ext4/inode.h"

#include <string.h>

#include "ext4/ext4_int.h"
#include "ext4/inode_raw.h"
#include "ext4/jbd2_glue.h"
#include "util/assert.h"

/* ---- The inode's buffer ---- */

/* Nothing in the table block is in use but the inode itself: what the disk holds there does not matter. */
static bool alone_in_block(struct super_block *sb, uint32_t ino)
{
	const uint32_t index = (ino - 1) % sb->s_inodes_per_group;
	const uint32_t first = index - index % sb->s_inodes_per_block;
	struct ext4_group_info *gi = ext4_group_info_cached(sb, (ino - 1) / sb->s_inodes_per_group);
	struct buffer_head *bh;
	bool alone = true;

	if (gi == NULL)
		return false;
	bh = bh_find(sb->s_bcache, gi->bg_inode_bitmap);
	if (bh == NULL)
		return false;
	lock_buffer(bh);
	if (!bh_test(bh, BH_VERIFIED))
		alone = false;
	for (uint32_t i = first; alone && i < first + sb->s_inodes_per_block; i++)
		if (i < sb->s_inodes_per_group && i != index &&
		    (bh->b_data[i / 8] >> (i % 8) & 1) != 0)
			alone = false;
	unlock_buffer(bh);
	bh_put(bh);
	return alone;
}

static struct buffer_head *get_new_block(struct super_block *sb, uint32_t ino, ext4_fsblk_t block)
{
	struct buffer_head *bh;

	if (!alone_in_block(sb, ino))
		return bh_read(sb->s_bcache, block);
	bh = bh_get(sb->s_bcache, block);
	if (IS_ERR(bh))
		return bh;
	lock_buffer(bh);
	if (!bh_test(bh, BH_UPTODATE)) {
		memset(bh->b_data, 0, bh->b_size);
		bh_set(bh, BH_UPTODATE);
	}
	unlock_buffer(bh);
	return bh;
}

int ext4_get_inode_loc(struct inode *inode, struct buffer_head **bh_out, unsigned *offset_out)
{
	struct super_block *sb = inode->i_sb;
	struct buffer_head *bh;
	ext4_fsblk_t block;
	int err;

	*bh_out = NULL;
	err = ext4_inode_table_pos(sb, inode->i_ino, &block, offset_out);
	if (err != 0)
		return err;
	if ((atomic_load(&inode->i_state) & I_NEW) != 0)
		bh = get_new_block(sb, inode->i_ino, block);
	else
		bh = bh_read(sb->s_bcache, block);
	if (IS_ERR(bh))
		return ext4_io_error(sb, inode->i_ino, block, PTR_ERR(bh));
	*bh_out = bh;
	return 0;
}

struct ext2_inode_large *ext4_raw_inode(struct super_block *sb, struct buffer_head *bh,
					unsigned offset)
{
	ASSERT(bh != NULL);
	ASSERT_CMP(offset + sb->s_inode_size, <=, bh->b_size);
	return (struct ext2_inode_large *)(void *)(bh->b_data + offset);
}

static int clear_in_handle(handle_t *handle, struct super_block *sb, struct buffer_head *bh,
			   unsigned offset, unsigned len)
{
	int err = ext4_journal_get_write_access(handle, bh);

	if (err != 0)
		return err;
	lock_buffer(bh);
	memset(bh->b_data + offset, 0, len);
	unlock_buffer(bh);
	counter_inc(&sb->s_stats.st_inodes_written);
	return ext4_handle_dirty_metadata(handle, NULL, bh);
}

int ext4_clear_inode_slots(struct super_block *sb, uint32_t ino, uint32_t end)
{
	int err = 0;

	while (ino < end && err == 0) {
		uint32_t n = sb->s_inodes_per_block - (ino - 1) % sb->s_inodes_per_block;
		struct buffer_head *bh;
		ext4_fsblk_t block;
		unsigned offset;
		handle_t *handle;

		if (n > end - ino)
			n = end - ino;
		err = ext4_inode_table_pos(sb, ino, &block, &offset);
		if (err != 0)
			return err;
		handle = ext4_journal_start_sb(sb, HT_INODE, EXT4_INODE_CREDITS, 0);
		if (IS_ERR(handle))
			return PTR_ERR(handle);
		bh = bh_read(sb->s_bcache, block);
		err = IS_ERR(bh) ? PTR_ERR(bh)
				 : clear_in_handle(handle, sb, bh, offset, n * sb->s_inode_size);
		if (!IS_ERR(bh))
			bh_put(bh);
		err = ext4_journal_stop(handle, err);
		ino += n;
	}
	return err;
}

/* ---- Dirty inodes ---- */

/* Room for the fields known here, if nothing is in the way. lock_buffer held. */
static void try_expand_locked(struct inode *inode, const struct ext2_inode_large *raw)
{
	const uint32_t want = inode->i_sb->s_want_extra_isize;

	if (inode->i_extra_isize >= want ||
	    (atomic_load_explicit(&inode->i_state, memory_order_relaxed) & I_NO_EXPAND) != 0)
		return;
	if (ext4_raw_has_xattrs(inode, raw)) {
		atomic_fetch_or(&inode->i_state, I_NO_EXPAND);
		return;
	}
	/* Busy: attributes are being read or written. Another time. */
	if (!down_write_trylock(&inode->i_xattr_sem))
		return;
	inode->i_extra_isize = (uint16_t)want;
	up_write(&inode->i_xattr_sem);
}

static int encode_into(struct inode *inode, struct buffer_head *bh, unsigned offset,
		       bool *data_changed)
{
	struct ext2_inode_large *raw = ext4_raw_inode(inode->i_sb, bh, offset);
	uint32_t state;
	int err;

	lock_buffer(bh);
	state = atomic_fetch_and(&inode->i_state,
				 ~(I_DIRTY_SYNC | I_DIRTY_DATASYNC | I_DIRTY_TIME | I_NEW));
	if ((state & I_NEW) != 0)
		memset(raw, 0, inode->i_sb->s_inode_size);
	else
		try_expand_locked(inode, raw);
	err = ext4_inode_encode(inode, raw, data_changed);
	unlock_buffer(bh);
	if ((state & (I_DIRTY_DATASYNC | I_NEW)) != 0)
		*data_changed = true;
	return err;
}

int ext4_prepare_inode_write(handle_t *handle, struct inode *inode)
{
	struct buffer_head *bh;
	unsigned offset;
	int err = ext4_get_inode_loc(inode, &bh, &offset);

	if (err != 0)
		return err;
	err = ext4_journal_get_write_access(handle, bh);
	bh_put(bh);
	return err;
}

int ext4_mark_inode_dirty(handle_t *handle, struct inode *inode)
{
	struct super_block *sb = inode->i_sb;
	struct buffer_head *bh;
	bool data_changed;
	unsigned offset;
	int err;

	ASSERT(handle != NULL);
	if ((atomic_load_explicit(&inode->i_state, memory_order_relaxed) & I_NEW) != 0) {
		err = ext4_inode_init_mapping(inode);
		if (err != 0)
			return err;
	}
	err = ext4_get_inode_loc(inode, &bh, &offset);
	if (err != 0)
		return err;
	err = ext4_journal_get_write_access(handle, bh);
	if (err == 0) {
		int encode_err = encode_into(inode, bh, offset, &data_changed);

		err = ext4_handle_dirty_metadata(handle, NULL, bh);
		if (err == 0)
			err = encode_err;
		ext4_update_inode_fsync_trans(handle, inode, data_changed);
		counter_inc(&sb->s_stats.st_inodes_written);
	}
	bh_put(bh);
	return err;
}

void ext4_inode_set_dirty(struct inode *inode, uint32_t i_dirty_bits)
{
	struct super_block *sb = inode->i_sb;
	/* Pairs with the clearing in encode_into(): the change made before is seen by it, or the bit survives it. */
	uint32_t old = atomic_fetch_or(&inode->i_state, i_dirty_bits);

	if ((old & i_dirty_bits) != i_dirty_bits && sb->s_dirty_hook != NULL)
		sb->s_dirty_hook(inode, i_dirty_bits);
}

void ext4_set_dirty_hook(struct super_block *sb, void (*hook)(struct inode *inode, uint32_t bits))
{
	sb->s_dirty_hook = hook;
}

/* ---- Fields ---- */

void ext4_inode_add_blocks(struct inode *inode, int64_t fs_blocks)
{
	const int64_t sectors = fs_blocks * (1 << (inode->i_sb->s_blocksize_bits - 9));
	uint64_t blocks;

	mutex_lock(&inode->i_lock);
	blocks = atomic_load(&inode->i_blocks);
	/* A damaged inode may count less than it has. */
	if (sectors < 0 && blocks < (uint64_t)-sectors)
		blocks = 0;
	else
		blocks += (uint64_t)sectors;
	atomic_store(&inode->i_blocks, blocks);
	mutex_unlock(&inode->i_lock);
}

uint64_t ext4_max_size(const struct inode *inode)
{
	return ext4_is_extents(inode) ? inode->i_sb->s_max_bytes : inode->i_sb->s_max_bitmap_bytes;
}

void ext4_inode_getattr(struct inode *inode, struct stat *st)
{
	memset(st, 0, sizeof(*st));
	st->st_ino = inode->i_ino;
	st->st_mode = inode->i_mode;
	st->st_nlink = atomic_load(&inode->i_nlink);
	st->st_uid = inode->i_uid;
	st->st_gid = inode->i_gid;
	st->st_rdev = inode->i_rdev;
	st->st_size = (off_t)i_size_read(inode);
	st->st_blksize = (blksize_t)inode->i_sb->s_blocksize;
	mutex_lock(&inode->i_lock);
	st->st_blocks = (blkcnt_t)atomic_load(&inode->i_blocks);
	st->st_atim = inode->i_atime;
	st->st_mtim = inode->i_mtime;
	st->st_ctim = inode->i_ctime;
	mutex_unlock(&inode->i_lock);
}
