/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fc_space.c - block maps as fast commits left them.
 *
 * A fast commit names blocks that the allocator gave out before the crash, while the bitmaps on the disk are those of the last full
 * commit. So the blocks of all records are claimed first; then nothing that the replay itself allocates (nodes of extent trees,
 * directory blocks) can get into their way. From then on each block is owned once: what is mapped must come from the spare ones,
 * and what is unmapped becomes spare. Files may trade blocks in an order that has two owners for a moment; that is a debt,
 * which must be paid before the end. What is spare then is freed: nothing is freed before, as it could not be mapped again.
 *
 * Invariants: (1) fc_spare and fc_twice are disjoint; a block in either is marked used. (2) The extent status tree forgets a block before the map
 * changes. (3) i_blocks follows each change.
 * Locking: i_data_sem for write over each step of a map.
 */
#include "alloc/fc_space.h"

#include <string.h>

#include "alloc/extents.h"
#include "alloc/mballoc_internal.h"
#include "ext4/inode.h"
#include "ext4/jbd2_glue.h"
#include "util/assert.h"

#define NODES_FREED EXT4_EXT_MAX_DEPTH /* by one step */
#define GROUP_CREDITS 2u

void ext4_fc_space_init(struct super_block *sb, struct ext4_fc_space *fc)
{
	fc->fc_sb = sb;
	block_set_init(&fc->fc_spare);
	block_set_init(&fc->fc_twice);
}

void ext4_fc_space_destroy(struct ext4_fc_space *fc)
{
	block_set_clear(&fc->fc_spare);
	block_set_clear(&fc->fc_twice);
}

/* ---- Claims ---- */

/* The next run of free blocks at or after *start, marked used; its length, 0: none. The locks of the edit are held. */
static uint32_t take_run(struct super_block *sb, struct mb_group *g, struct mb_edit *e,
			 uint32_t *start, uint32_t end)
{
	struct ext4_group_change gc = {.gc_itable_unused = -1};
	uint8_t *map = e->e_bitmap->b_data;
	uint32_t len = 0;

	*start = ext4_bitmap_next_zero(map, *start, end);
	while (*start + len < end && ext4_bitmap_all(map, *start + len, 1, false))
		len++;
	if (len == 0)
		return 0;
	ext4_bitmap_fill(map, *start, len, true);
	gc.gc_free_blocks = -(int32_t)len;
	gc.gc_clear_flags = EXT2_BG_BLOCK_UNINIT;
	gc.gc_block_bitmap = map;
	ext4_group_change(sb, e->e_info, &gc);
	if (g->g_buddy != NULL) {
		ext4_buddy_mark_used(g->g_buddy, *start, len);
		ext4_mb_group_publish(ext4_mb(sb), g);
	}
	return len;
}

static int claim_in_group(handle_t *handle, struct ext4_fc_space *fc, struct mb_group *g,
			  uint32_t start, uint32_t end)
{
	struct ext4_mballoc *mb = ext4_mb(fc->fc_sb);
	bool dirty = false;
	struct mb_edit e;
	uint32_t len;
	int end_err;
	int err = ext4_mb_edit_begin(handle, fc->fc_sb, g->g_info, false, &e);

	if (err != 0)
		return err;
	ext4_mb_edit_lock(&e);
	while (err == 0 && start < end && (len = take_run(fc->fc_sb, g, &e, &start, end)) > 0) {
		atomic_fetch_sub(&mb->mb_free, (int64_t)len);
		atomic_fetch_sub(&mb->mb_unclaimed, (int64_t)len);
		err = block_set_add(&fc->fc_spare, ext4_mb_block(fc->fc_sb, g, start), len);
		start += len;
		dirty = true;
	}
	ext4_mb_edit_unlock(&e);
	end_err = ext4_mb_edit_end(handle, &e, dirty);
	return err != 0 ? err : end_err;
}

int ext4_fc_claim_blocks(struct ext4_fc_space *fc, ext4_fsblk_t pblk, uint32_t blocks)
{
	struct super_block *sb = fc->fc_sb;
	int err = 0;

	while (blocks > 0 && err == 0) {
		struct mb_group *g = ext4_mb_group_get(sb, ext4_group_of_block(sb, pblk));
		uint32_t start = ext4_offset_in_group(sb, pblk);
		uint32_t n;
		handle_t *handle;

		if (IS_ERR(g))
			return PTR_ERR(g);
		n = ext4_blocks_in_group(sb, g->g_info->bg_group) - start;
		if (n > blocks)
			n = blocks;
		handle = ext4_journal_start_sb(sb, HT_MISC, GROUP_CREDITS, 0);
		if (IS_ERR(handle))
			return PTR_ERR(handle);
		err = ext4_journal_stop(handle, claim_in_group(handle, fc, g, start, start + n));
		pblk += n;
		blocks -= n;
	}
	return err;
}

/* ---- Maps ---- */

/* A block became mapped twice, or was unmapped twice: no order of the records can be right. */
static int bad_account(struct inode *inode, int err, ext4_fsblk_t pblk)
{
	if (err != -EEXIST)
		return err;
	return ext4_error_block(inode->i_sb, inode->i_ino, pblk,
				"fast commit gives one block to several files");
}

/* [lblk, end) of the extent at the path's position is unmapped; the blocks become spare. The path is put. */
static int unmap_piece(handle_t *handle, struct ext4_fc_space *fc, struct inode *inode,
		       struct ext4_ext_path *path, const struct ext4_fc_range *piece)
{
	struct ext4_ext_node *leaf = ext4_ext_leaf(path);
	const uint64_t end = (uint64_t)piece->fr_lblk + piece->fr_blocks;
	struct ext4_ext_splice sp = {.s_pos = leaf->n_pos, .s_old = 1};
	struct ext4_ext_rec rec, part;
	ext4_fsblk_t pblk;
	int err;

	ext4_ext_get_rec(leaf->n_hdr, leaf->n_pos, &rec);
	pblk = rec.er_pblk + (piece->fr_lblk - rec.er_lblk);
	if (rec.er_lblk < piece->fr_lblk) {
		part = rec;
		part.er_len = piece->fr_lblk - rec.er_lblk;
		sp.s_rec[sp.s_new++] = part;
	}
	if (ext4_rec_end(&rec) > end) {
		part = rec;
		part.er_lblk = (ext4_lblk_t)end;
		part.er_len = (uint32_t)(ext4_rec_end(&rec) - end);
		part.er_pblk += end - rec.er_lblk;
		sp.s_rec[sp.s_new++] = part;
	}
	err = ext4_es_remove(inode, piece->fr_lblk, piece->fr_blocks);
	if (err != 0) {
		ext4_ext_put_path(path);
		return err;
	}
	err = ext4_ext_leaf_update(handle, inode, path, &sp, EXT4_MB_USE_RESERVED);
	if (err != 0)
		return err;
	ext4_inode_add_blocks(inode, -(int64_t)piece->fr_blocks);
	err = block_set_settle(&fc->fc_twice, &fc->fc_spare, pblk, piece->fr_blocks);
	return bad_account(inode, err, pblk);
}

/* Into the hole that the path leads to, as much of it as fits; *done blocks. The path is put. */
static int map_hole(handle_t *handle, struct ext4_fc_space *fc, struct inode *inode,
		    struct ext4_ext_path *path, const struct ext4_fc_range *range, uint32_t *done)
{
	struct ext4_ext_node *leaf = ext4_ext_leaf(path);
	struct ext4_ext_rec rec = {.er_lblk = range->fr_lblk,
				   .er_len = range->fr_blocks,
				   .er_pblk = range->fr_pblk,
				   .er_unwritten = range->fr_unwritten};
	uint64_t limit = leaf->n_end;
	struct ext4_ext_rec next;
	int err;

	if (leaf->n_pos + 1 < (int)ext4_ext_entries(leaf->n_hdr)) {
		ext4_ext_get_rec(leaf->n_hdr, leaf->n_pos + 1, &next);
		limit = next.er_lblk;
	}
	ASSERT_CMP(limit, >, range->fr_lblk);
	if (rec.er_len > limit - rec.er_lblk)
		rec.er_len = (uint32_t)(limit - rec.er_lblk);
	if (rec.er_unwritten && rec.er_len > EXT_UNINIT_MAX_LEN)
		rec.er_len = (uint32_t)EXT_UNINIT_MAX_LEN;
	*done = rec.er_len;
	err = ext4_es_remove(inode, rec.er_lblk, rec.er_len);
	if (err != 0) {
		ext4_ext_put_path(path);
		return err;
	}
	err = ext4_ext_insert_rec(handle, inode, path, &rec, EXT4_MB_USE_RESERVED);
	if (err != 0)
		return err;
	ext4_inode_add_blocks(inode, (int64_t)rec.er_len);
	err = block_set_settle(&fc->fc_spare, &fc->fc_twice, rec.er_pblk, rec.er_len);
	return bad_account(inode, err, rec.er_pblk);
}

/* The extent of the path covers lblk. */
static bool covers(struct ext4_ext_path *path, ext4_lblk_t lblk, struct ext4_ext_rec *rec)
{
	struct ext4_ext_node *leaf = ext4_ext_leaf(path);

	if (leaf->n_pos < 0)
		return false;
	ext4_ext_get_rec(leaf->n_hdr, leaf->n_pos, rec);
	return ext4_rec_end(rec) > lblk;
}

/* The beginning of the range: *done blocks of it are as they should be now (0: what was there is gone). */
static int map_step(handle_t *handle, struct ext4_fc_space *fc, struct inode *inode,
		    const struct ext4_fc_range *range, uint32_t *done)
{
	struct ext4_fc_range piece = *range;
	struct ext4_ext_path path;
	struct ext4_ext_rec rec;
	ext4_fsblk_t pblk;
	int err = ext4_ext_find(inode, range->fr_lblk, &path);

	*done = 0;
	if (err != 0)
		return err;
	if (!covers(&path, range->fr_lblk, &rec))
		return map_hole(handle, fc, inode, &path, range, done);
	pblk = rec.er_pblk + (range->fr_lblk - rec.er_lblk);
	if (ext4_rec_end(&rec) < (uint64_t)range->fr_lblk + range->fr_blocks)
		piece.fr_blocks = (uint32_t)(ext4_rec_end(&rec) - range->fr_lblk);
	if (pblk != range->fr_pblk)
		return unmap_piece(handle, fc, inode, &path, &piece);
	ext4_ext_put_path(&path);
	*done = piece.fr_blocks;
	return ext4_ext_convert(handle, inode, range->fr_lblk, done, range->fr_unwritten);
}

/* The same for unmapping: *done blocks are holes now. */
static int unmap_step(handle_t *handle, struct ext4_fc_space *fc, struct inode *inode,
		      const struct ext4_fc_range *range, uint32_t *done)
{
	const uint64_t end = (uint64_t)range->fr_lblk + range->fr_blocks;
	struct ext4_fc_range piece = *range;
	struct ext4_ext_node *leaf;
	struct ext4_ext_path path;
	struct ext4_ext_rec rec;
	uint64_t next;
	int err = ext4_ext_find(inode, range->fr_lblk, &path);

	*done = 0;
	if (err != 0)
		return err;
	if (covers(&path, range->fr_lblk, &rec)) {
		if (ext4_rec_end(&rec) < end)
			piece.fr_blocks = (uint32_t)(ext4_rec_end(&rec) - range->fr_lblk);
		*done = piece.fr_blocks;
		err = unmap_piece(handle, fc, inode, &path, &piece);
		return err != 0 ? err : ext4_ext_collapse(handle, inode, false);
	}
	leaf = ext4_ext_leaf(&path);
	next = leaf->n_end;
	if (leaf->n_pos + 1 < (int)ext4_ext_entries(leaf->n_hdr)) {
		ext4_ext_get_rec(leaf->n_hdr, leaf->n_pos + 1, &rec);
		next = rec.er_lblk;
	}
	ext4_ext_put_path(&path);
	ASSERT_CMP(next, >, range->fr_lblk);
	*done = (uint32_t)((next < end ? next : end) - range->fr_lblk);
	return 0;
}

typedef int step_fn(handle_t *handle, struct ext4_fc_space *fc, struct inode *inode,
		    const struct ext4_fc_range *range, uint32_t *done);

/* One step in its handle. */
static int in_handle(struct ext4_fc_space *fc, struct inode *inode,
		     const struct ext4_fc_range *range, uint32_t *done, step_fn *step)
{
	handle_t *handle = ext4_journal_start_sb(
		fc->fc_sb, HT_MAP_BLOCKS,
		ext4_chunk_trans_blocks(inode) + EXT4_EXT_COLLAPSE_CREDITS, NODES_FREED);
	int err;
	int dirty_err;

	if (IS_ERR(handle))
		return PTR_ERR(handle);
	down_write(&inode->i_data_sem);
	err = step(handle, fc, inode, range, done);
	up_write(&inode->i_data_sem);
	dirty_err = ext4_mark_inode_dirty(handle, inode);
	return ext4_journal_stop(handle, err != 0 ? err : dirty_err);
}

static int each_step(struct ext4_fc_space *fc, struct inode *inode,
		     const struct ext4_fc_range *range, step_fn *step)
{
	struct ext4_fc_range left = *range;
	int err = 0;

	ASSERT_CMP((uint64_t)left.fr_lblk + left.fr_blocks, <=, EXT4_MAX_BLOCKS);
	if (!ext4_is_extents(inode))
		return -EOPNOTSUPP;
	while (left.fr_blocks > 0 && err == 0) {
		uint32_t done = 0;

		err = in_handle(fc, inode, &left, &done, step);
		left.fr_lblk += done;
		left.fr_pblk += done;
		left.fr_blocks -= done;
	}
	return err;
}

int ext4_fc_map(struct ext4_fc_space *fc, struct inode *inode, const struct ext4_fc_range *range)
{
	return each_step(fc, inode, range, map_step);
}

int ext4_fc_unmap(struct ext4_fc_space *fc, struct inode *inode, const struct ext4_fc_range *range)
{
	return each_step(fc, inode, range, unmap_step);
}

/* ---- The end ---- */

/* The part of the range that lies in one group. */
static int free_part(struct ext4_fc_space *fc, struct inode *root, ext4_fsblk_t start,
		     uint64_t *len)
{
	struct super_block *sb = fc->fc_sb;
	const uint32_t left = ext4_blocks_in_group(sb, ext4_group_of_block(sb, start)) -
			      ext4_offset_in_group(sb, start);
	handle_t *handle;
	int err;

	if (*len > left)
		*len = left;
	handle = ext4_journal_start_sb(sb, HT_MISC, GROUP_CREDITS, 0);
	if (IS_ERR(handle))
		return PTR_ERR(handle);
	err = ext4_free_blocks(handle, root, start, *len, EXT4_FREE_BLOCKS_NO_QUOT);
	return ext4_journal_stop(handle, err);
}

static int free_range(struct ext4_fc_space *fc, struct inode *root, const struct block_range *r)
{
	uint64_t done = 0;
	int err = 0;

	while (done < r->br_len && err == 0) {
		uint64_t len = r->br_len - done;

		err = free_part(fc, root, r->br_start + done, &len);
		done += len;
	}
	return err;
}

int ext4_fc_space_settle(struct ext4_fc_space *fc)
{
	struct block_range *r = block_set_first(&fc->fc_twice);
	struct inode *root;
	int err = 0;

	if (r != NULL)
		return ext4_error_block(fc->fc_sb, 0, r->br_start,
					"fast commit maps a block that is in use");
	if (block_set_first(&fc->fc_spare) == NULL)
		return 0;
	root = ext4_iget(fc->fc_sb, EXT4_ROOT_INO, EXT4_IGET_NORMAL);
	if (IS_ERR(root))
		return PTR_ERR(root);
	while (err == 0 && (r = block_set_first(&fc->fc_spare)) != NULL) {
		err = free_range(fc, root, r);
		block_set_drop(&fc->fc_spare, r);
	}
	iput(root);
	return err;
}
