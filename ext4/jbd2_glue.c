/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * jbd2_glue.c - handles for the file system, and how many blocks each kind of change may touch.
 *
 * Credits are upper bounds: the journal asserts them. A bound counts the blocks of the change
 * itself and, for each block it may allocate or free, a bitmap and a descriptor, but never more of
 * these than there are.
 *
 * Invariants: (1) no bound exceeds a quarter of the smallest log (1024 blocks), so that every
 * handle fits into any journal.
 * Locking: none of its own.
 */
#include "ext4/jbd2_glue.h"

#include <ext2fs/ext2fs.h>
#include <ext2fs/ext3_extents.h>
#include <string.h>

#include "ext4/ext4_int.h"
#include "util/assert.h"

#define DX_MAX_LEVELS 3u /* with large_dir; root included */
#define SUPER_CREDITS 1u
#define TRUNCATE_DATA_CREDITS 64u

/* ---- Handles ---- */

handle_t *ext4_journal_start_sb(struct super_block *sb, enum jbd2_handle_type type,
				unsigned credits, unsigned revokes)
{
	int err = ext4_check_writable(sb);

	if (err != 0)
		return ERR_PTR(err);
	ASSERT(sb->s_journal_loaded);
	return jbd2_journal_start(sb->s_journal, type, credits, revokes);
}

int ext4_journal_stop(handle_t *handle, int err)
{
	int stop_err = jbd2_journal_stop(handle);

	return err != 0 ? err : stop_err;
}

int ext4_journal_get_write_access(handle_t *handle, struct buffer_head *bh)
{
	return jbd2_journal_get_write_access(handle, bh);
}

int ext4_journal_get_create_access(handle_t *handle, struct buffer_head *bh)
{
	return jbd2_journal_get_create_access(handle, bh);
}

int ext4_handle_dirty_metadata(handle_t *handle, struct inode *inode, struct buffer_head *bh)
{
	if (inode != NULL)
		ext4_update_inode_fsync_trans(handle, inode, true);
	return jbd2_journal_dirty_metadata(handle, bh);
}

int ext4_forget(handle_t *handle, bool metadata, struct inode *inode, struct buffer_head *bh,
		ext4_fsblk_t blocknr)
{
	(void)inode;
	if (metadata)
		return jbd2_journal_revoke(handle, blocknr, bh);
	return bh != NULL ? jbd2_journal_forget(handle, bh) : 0;
}

int ext4_journal_ensure_credits(handle_t *handle, unsigned credits, unsigned revokes)
{
	unsigned have = jbd2_handle_credits(handle);
	int err;

	/* Revokes beyond those reserved cost one credit for a block full of them. */
	if (revokes > 0)
		credits++;
	if (have >= credits)
		return 0;
	err = jbd2_journal_extend(handle, credits - have, revokes);
	if (err <= 0)
		return err;
	err = jbd2_journal_restart(handle, credits, revokes);
	return err != 0 ? err : 1;
}

void ext4_update_inode_fsync_trans(handle_t *handle, struct inode *inode, bool datasync)
{
	tid_t tid = jbd2_handle_tid(handle);

	atomic_store_explicit(&inode->i_sync_tid, tid, memory_order_release);
	if (datasync)
		atomic_store_explicit(&inode->i_datasync_tid, tid, memory_order_release);
}

/* ---- Credits ---- */

static unsigned at_most(unsigned n, uint64_t limit)
{
	return n < limit ? n : (unsigned)limit;
}

/* Bitmaps and descriptors for n blocks that may all come from different groups. */
static unsigned group_blocks(const struct super_block *sb, unsigned n)
{
	return at_most(n, sb->s_groups_count) + at_most(n, sb->s_gdb_count);
}

/*
 * Levels below the root in i_block, and one that another thread may add before the map is changed: it may be adding it right now, so the
 * bytes are read without its lock, and one by one, as memcpy() would be a call that the sanitizer looks into.
 */
__attribute__((no_sanitize("thread"), noinline)) static unsigned
tree_depth(const struct inode *inode)
{
	const uint8_t *at = inode->i_block + offsetof(struct ext3_extent_header, eh_depth);
	unsigned depth = at[0] + ((unsigned)at[1] << 8) + 1;

	return depth < EXT4_MAX_EXTENT_DEPTH ? depth : EXT4_MAX_EXTENT_DEPTH;
}

unsigned ext4_index_trans_blocks(struct inode *inode, unsigned extents)
{
	unsigned depth, old_blocks, new_blocks;

	if (!ext4_is_extents(inode))
		/* The three levels of the triple indirect path, and neighbours of a second run. */
		return 3 + (extents > 1 ? 3 : 0) + group_blocks(inode->i_sb, 6);
	depth = tree_depth(inode);
	/* A split at each level and a new root level; a second insertion splits the leaf again. */
	old_blocks = depth;
	new_blocks = depth + 1 + (extents > 1 ? depth : 0);
	return old_blocks + new_blocks + group_blocks(inode->i_sb, new_blocks);
}

unsigned ext4_chunk_trans_blocks(struct inode *inode)
{
	/* Splitting an unwritten extent in the middle makes two more. */
	return ext4_index_trans_blocks(inode, 2) + group_blocks(inode->i_sb, 1) +
	       EXT4_INODE_CREDITS + SUPER_CREDITS;
}

unsigned ext4_writepage_trans_blocks(struct inode *inode)
{
	const unsigned per_frame = EXT4_FRAME_SIZE / inode->i_sb->s_blocksize;

	/* Each block of the frame may need its own run. */
	return ext4_chunk_trans_blocks(inode) + group_blocks(inode->i_sb, per_frame) +
	       (per_frame > 1 ? 2 * per_frame : 0);
}

unsigned ext4_dir_trans_blocks(struct super_block *sb)
{
	/* The path to the leaf; a new block at each level and one leaf more. */
	const unsigned path = DX_MAX_LEVELS + 1;
	const unsigned new_blocks = DX_MAX_LEVELS + 1;
	/* Appending them to the directory's own map: one path, split once. */
	const unsigned map = 3 + 2;

	return path + new_blocks + map + group_blocks(sb, new_blocks + 2) + EXT4_INODE_CREDITS +
	       SUPER_CREDITS;
}

unsigned ext4_xattr_trans_blocks(struct super_block *sb)
{
	/* The old block, the new one, the inode. */
	return 2 + EXT4_INODE_CREDITS + group_blocks(sb, 2) + SUPER_CREDITS;
}

unsigned ext4_truncate_trans_blocks(struct inode *inode)
{
	return ext4_index_trans_blocks(inode, 1) +
	       at_most(TRUNCATE_DATA_CREDITS, 2ull * inode->i_sb->s_groups_count) +
	       EXT4_INODE_CREDITS + SUPER_CREDITS;
}
