/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * extent_remove.c - a part of a range of an extent-mapped file is unmapped and its blocks are freed.
 *
 * A step works in the one leaf that holds the range's upper end and goes downwards through its entries, for as long as the handle's credits
 * cover the groups whose bitmaps it will change. What sticks out of the range at either edge stays as a shorter extent; a hole in the middle of one extent makes two
 * of it. The leaf is changed by one splice (an empty leaf leaves the tree), then the blocks are freed. Between two steps
 * the tree is whole and the inode written, so the handle may be restarted there: a crash then finds the upper part of the range gone and the rest
 * in place, and the orphan record finishes a truncate.
 *
 * Invariants: (1) the status tree forgets a block before the extent tree does; (2) a block is freed after the splice that unmapped it, in
 * the same handle, and all that its freeing needs is had before; (3) each step lowers *end or is the last.
 * Locking: i_data_sem for write in a step, not held between steps.
 */
#include <string.h>

#include "alloc/extents.h"
#include "alloc/free_runs.h"
#include "ext4/group.h"
#include "ext4/inode.h"
#include "ext4/jbd2_glue.h"
#include "ext4/super.h"

#define REMOVE_GROUPS 6u /* groups that a step can touch at least: one extent at 1 KiB blocks */

/* Credits of a step besides those of the groups: the way to the leaf, index nodes freed, a split at each level, the inode, blocks of revoke records. */
static unsigned fixed_credits(unsigned depth)
{
	return depth * 4 + (depth + 1) * 3 + 1 + EXT4_FREE_REVOKE_CREDITS;
}

/* What one step takes out. */
struct removal {
	struct ext4_ext_splice rm_splice;
	uint64_t rm_start; /* logical blocks from here to the end of the range go */
	struct ext4_free_runs rm_runs;
};

/* What is left of the range's first and last extent. */
static void keep_edges(struct removal *rm, const struct ext4_ext_rec *low,
		       const struct ext4_ext_rec *high, uint64_t end)
{
	struct ext4_ext_splice *sp = &rm->rm_splice;
	struct ext4_ext_rec left = *low, right = *high;

	if (left.er_lblk < rm->rm_start) {
		left.er_len = (uint32_t)(rm->rm_start - left.er_lblk);
		sp->s_rec[sp->s_new++] = left;
	}
	if (ext4_rec_end(&right) > end) {
		right.er_len = (uint32_t)(ext4_rec_end(&right) - end);
		right.er_pblk += end - right.er_lblk;
		right.er_lblk = (ext4_lblk_t)end;
		sp->s_rec[sp->s_new++] = right;
	}
}

/* Choose what goes. The entry at n_pos reaches into [start, end). */
static int plan_removal(struct inode *inode, struct ext4_ext_node *leaf, uint64_t start,
			uint64_t end, struct removal *rm)
{
	struct ext4_ext_rec rec, low, high;
	int first = leaf->n_pos + 1;

	ext4_ext_get_rec(leaf->n_hdr, leaf->n_pos, &high);
	low = high;
	rm->rm_start = end;
	memset(&rm->rm_splice, 0, sizeof(rm->rm_splice));
	for (int i = leaf->n_pos; i >= 0; i--) {
		uint64_t from, upper, taken;

		ext4_ext_get_rec(leaf->n_hdr, i, &rec);
		if (rec.er_len == 0 || (i < leaf->n_pos && ext4_rec_end(&rec) > low.er_lblk))
			return ext4_error(inode->i_sb, inode->i_ino,
					  "overlapping or unordered extents at block %u",
					  rec.er_lblk);
		from = rec.er_lblk > start ? rec.er_lblk : start;
		upper = ext4_rec_end(&rec) < end ? ext4_rec_end(&rec) : end;
		if (upper <= start)
			break;
		taken = ext4_free_runs_add(inode->i_sb, &rm->rm_runs,
					   rec.er_pblk + (from - rec.er_lblk), upper - from);
		if (taken == 0)
			break;
		first = i;
		low = rec;
		rm->rm_start = upper - taken;
		if (rm->rm_start > rec.er_lblk)
			break;
	}
	rm->rm_splice.s_pos = first;
	rm->rm_splice.s_old = leaf->n_pos - first + 1;
	ASSERT_CMP(rm->rm_splice.s_old, >, 0);
	keep_edges(rm, &low, &high, end);
	return 0;
}

/* An empty leaf is no error of ours, but older writers left some: take it out and look again. */
static int drop_empty_leaf(handle_t *handle, struct inode *inode, struct ext4_ext_path *path)
{
	struct ext4_ext_splice none = {0};

	return ext4_ext_leaf_update(handle, inode, path, &none, EXT4_MB_USE_RESERVED);
}

/* The path leads to the last entry at or before *end. It is put. */
static int remove_at(handle_t *handle, struct inode *inode, struct ext4_ext_path *path,
		     ext4_lblk_t start, ext4_lblk_t *end, bool *done)
{
	struct ext4_ext_node *leaf = ext4_ext_leaf(path);
	struct removal rm;
	struct ext4_ext_rec rec;
	ext4_lblk_t len;
	int err;

	if (path->p_depth > 0 && ext4_ext_entries(leaf->n_hdr) == 0)
		return drop_empty_leaf(handle, inode, path);
	if (leaf->n_pos >= 0)
		ext4_ext_get_rec(leaf->n_hdr, leaf->n_pos, &rec);
	if (leaf->n_pos < 0 || ext4_rec_end(&rec) <= start) {
		ext4_ext_put_path(path);
		*done = true;
		return 0;
	}
	ext4_free_runs_init(handle, inode, fixed_credits((unsigned)path->p_depth), &rm.rm_runs);
	err = plan_removal(inode, leaf, start, (uint64_t)*end + 1, &rm);
	if (err == 0)
		err = ext4_free_runs_prepare(handle, inode, &rm.rm_runs);
	if (err == 0) {
		len = (ext4_lblk_t)((uint64_t)*end + 1 - rm.rm_start);
		ASSERT_CMP(ext4_es_delayed_blocks(inode, (ext4_lblk_t)rm.rm_start, len), ==, 0u);
		err = ext4_es_remove(inode, (ext4_lblk_t)rm.rm_start, len);
	}
	if (err < 0) {
		ext4_ext_put_path(path);
		return err;
	}
	err = ext4_ext_leaf_update(handle, inode, path, &rm.rm_splice, EXT4_MB_USE_RESERVED);
	if (err < 0)
		return err;
	*done = rm.rm_start <= start;
	if (!*done)
		*end = (ext4_lblk_t)(rm.rm_start - 1);
	return ext4_free_runs_free(handle, inode, &rm.rm_runs);
}

unsigned ext4_ext_remove_credits(struct inode *inode)
{
	unsigned depth = ext4_ext_depth(ext4_ext_root(inode));

	if (depth > EXT4_EXT_MAX_DEPTH)
		depth = EXT4_EXT_MAX_DEPTH;
	return fixed_credits(depth) + REMOVE_GROUPS * 2;
}

int ext4_ext_remove_step(handle_t *handle, struct inode *inode, ext4_lblk_t start, ext4_lblk_t *end,
			 bool *done)
{
	struct ext4_ext_path path;
	int err = ext4_ext_find(inode, *end, &path), dirty_err;

	*done = false;
	if (err < 0)
		return err;
	err = remove_at(handle, inode, &path, start, end, done);
	dirty_err = ext4_mark_inode_dirty(handle, inode);
	return err < 0 ? err : dirty_err;
}
