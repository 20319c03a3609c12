/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * indirect_change.c - allocate and remove blocks of files without extents.
 *
 * Allocation: the free slots of one array that follow the block are filled with one run of mballoc; indirect blocks that are missing on the way are allocated before it, next to each
 * other. The new indirect blocks are filled bottom up while nothing points at them, and one store into the array that existed
 * makes all of it part of the file. Everything that can fail comes before that store.
 * Removal: a step clears slots of one last array from the range's upper end downwards, as far as the credits go. An indirect block that
 * becomes empty leaves its parent, and so on upwards; its siblings and the rest of the range are the next step's.
 *
 * Invariants: (1) an indirect block in the map has at least one pointer (blocks of other writers may have none); (2) an array is changed under its buffer lock, i_block
 * under i_lock; (3) each removal step lowers *end or is the last.
 * Locking: i_data_sem for write. At most one buffer lock is held.
 */
#include <string.h>

#include "alloc/free_runs.h"
#include "alloc/indirect.h"
#include "ext4/group.h"
#include "ext4/inode.h"
#include "ext4/jbd2_glue.h"
#include "ext4/super.h"

#define IND_NODES 3	 /* indirect blocks on a way */
#define REMOVE_GROUPS 6u /* groups that a step can touch at least */
/* Arrays, indirect blocks freed with bitmap and descriptor, inode, blocks of revoke records. */
#define FIXED_CREDITS (13u + EXT4_FREE_REVOKE_CREDITS)

static uint32_t array_slots(const struct inode *inode, int level)
{
	return level == 0 ? EXT2_N_BLOCKS : inode->i_sb->s_blocksize / (uint32_t)sizeof(uint32_t);
}

static void array_lock(struct inode *inode, struct ext4_ind_chain *c, int level)
{
	if (level > 0)
		lock_buffer(c->c_bh[level]);
	else
		mutex_lock(&inode->i_lock);
}

static void array_unlock(struct inode *inode, struct ext4_ind_chain *c, int level)
{
	if (level > 0)
		unlock_buffer(c->c_bh[level]);
	else
		mutex_unlock(&inode->i_lock);
}

static int array_access(handle_t *handle, struct ext4_ind_chain *c, int level)
{
	return level > 0 ? ext4_journal_get_write_access(handle, c->c_bh[level]) : 0;
}

/* i_block is written by the caller's ext4_mark_inode_dirty. */
static int array_dirty(handle_t *handle, struct inode *inode, struct ext4_ind_chain *c, int level)
{
	return level > 0 ? ext4_handle_dirty_metadata(handle, inode, c->c_bh[level]) : 0;
}

/* ---- Allocation ---- */

/* Near what the array has before the slot, else near the array itself. */
static ext4_fsblk_t find_goal(struct inode *inode, struct ext4_ind_chain *c)
{
	const uint32_t *array = ext4_ind_array(inode, c, c->c_found);
	uint32_t slot = c->c_offset[c->c_found];

	for (uint32_t i = slot; i > 0; i--)
		if (array[i - 1] != 0)
			return (ext4_fsblk_t)le32_to_cpu(array[i - 1]) + (slot - (i - 1));
	if (c->c_found > 0)
		return c->c_bh[c->c_found]->b_blocknr + 1;
	return 0;
}

/* Slots that one run can fill. */
static uint32_t free_slots(struct inode *inode, struct ext4_ind_chain *c, uint32_t wanted)
{
	int last = c->c_depth - 1;
	uint32_t slot = c->c_offset[last], n = 1;
	uint32_t end = last == 0 ? EXT4_IND_NDIR : array_slots(inode, last);
	const uint32_t *array;

	if (wanted > end - slot)
		wanted = end - slot;
	if (c->c_found < last)
		return wanted;
	array = ext4_ind_array(inode, c, last);
	while (n < wanted && array[slot + n] == 0)
		n++;
	return n;
}

/* The indirect block of `level`, not linked to anything, with create access. */
static int new_array(handle_t *handle, struct inode *inode, struct ext4_ind_chain *c, int level,
		     ext4_fsblk_t goal, unsigned mb_flags)
{
	struct buffer_head *bh;
	int err = 0;
	ext4_fsblk_t pblk = ext4_new_meta_block(handle, inode, goal, mb_flags, &err);

	if (pblk == 0)
		return err;
	bh = bh_get(inode->i_sb->s_bcache, pblk);
	err = IS_ERR(bh) ? PTR_ERR(bh) : 0;
	if (err == 0 && pblk > UINT32_MAX)
		err = -ENOSPC;
	if (err == 0)
		err = ext4_journal_get_create_access(handle, bh);
	if (err < 0) {
		if (!IS_ERR(bh))
			bh_put(bh);
		ext4_free_unused_blocks(handle, inode, pblk, 1);
		return err;
	}
	c->c_bh[level] = bh;
	return 0;
}

/* Undo new_array() for the levels above `have`. */
static void drop_arrays(handle_t *handle, struct inode *inode, struct ext4_ind_chain *c, int have)
{
	for (int i = have + 1; i < c->c_depth; i++) {
		struct buffer_head *bh = c->c_bh[i];
		ext4_fsblk_t pblk;

		if (bh == NULL)
			continue;
		pblk = bh->b_blocknr;
		c->c_bh[i] = NULL;
		ext4_forget(handle, false, inode, bh, pblk);
		ext4_free_unused_blocks(handle, inode, pblk, 1);
	}
}

/* Everything that can fail: indirect blocks, data, access. */
static int allocate_branch(handle_t *handle, struct inode *inode, struct ext4_ind_chain *c,
			   struct ext4_allocation_request *ar, const struct ext4_map_alloc *how,
			   ext4_fsblk_t *pblk)
{
	int err = array_access(handle, c, c->c_found);

	for (int i = c->c_found + 1; i < c->c_depth && err == 0; i++) {
		err = new_array(handle, inode, c, i, ar->ar_goal, how->ma_meta_flags);
		if (err == 0)
			ar->ar_goal = c->c_bh[i]->b_blocknr + 1;
	}
	if (err < 0)
		return err;
	*pblk = ext4_mb_new_blocks(handle, ar, &err);
	if (*pblk == 0)
		return err;
	ASSERT_CMP(ar->ar_len, >, 0u);
	if (*pblk + ar->ar_len - 1 > UINT32_MAX) {
		ext4_free_unused_blocks(handle, inode, *pblk, ar->ar_len);
		return -ENOSPC;
	}
	return 0;
}

static void store_pointers(struct inode *inode, struct ext4_ind_chain *c, int level,
			   ext4_fsblk_t pblk, uint32_t n)
{
	uint32_t *array = ext4_ind_array(inode, c, level) + c->c_offset[level];

	array_lock(inode, c, level);
	for (uint32_t i = 0; i < n; i++)
		array[i] = cpu_to_le32((uint32_t)(pblk + i));
	array_unlock(inode, c, level);
}

/* Make the branch part of the map. */
static int splice_branch(handle_t *handle, struct inode *inode, struct ext4_ind_chain *c,
			 ext4_fsblk_t pblk, uint32_t len)
{
	int last = c->c_depth - 1, err = 0;

	for (int i = last; i > c->c_found; i--) {
		struct buffer_head *bh = c->c_bh[i];

		lock_buffer(bh);
		memset(bh->b_data, 0, bh->b_size);
		bh_clear(bh, BH_VERIFIED);
		bh_set(bh, BH_UPTODATE);
		unlock_buffer(bh);
		store_pointers(inode, c, i, i == last ? pblk : c->c_bh[i + 1]->b_blocknr,
			       i == last ? len : 1);
	}
	store_pointers(inode, c, c->c_found,
		       c->c_found == last ? pblk : c->c_bh[c->c_found + 1]->b_blocknr,
		       c->c_found == last ? len : 1);
	for (int i = c->c_found; i <= last; i++) {
		int one = array_dirty(handle, inode, c, i);

		if (err == 0)
			err = one;
	}
	return err;
}

int ext4_ind_allocate(handle_t *handle, struct inode *inode, struct ext4_map_blocks *map,
		      const struct ext4_map_alloc *how)
{
	struct ext4_allocation_request ar = {
		.ar_inode = inode,
		.ar_logical = map->m_lblk,
		.ar_flags = how->ma_data_flags,
	};
	struct ext4_ind_chain c;
	ext4_fsblk_t pblk = 0;
	int err;

	if (map->m_lblk >= ext4_ind_max_blocks(inode->i_sb))
		return -EFBIG;
	err = ext4_ind_find(inode, map->m_lblk, &c);
	if (err < 0)
		return err;
	if (c.c_found == c.c_depth) {
		ext4_ind_put_chain(&c);
		return ext4_error(inode->i_sb, inode->i_ino,
				  "block %u is mapped and was thought to be a hole", map->m_lblk);
	}
	ar.ar_len = free_slots(inode, &c, map->m_len);
	ar.ar_goal = find_goal(inode, &c);
	err = allocate_branch(handle, inode, &c, &ar, how, &pblk);
	if (err < 0) {
		drop_arrays(handle, inode, &c, c.c_found);
	} else {
		err = splice_branch(handle, inode, &c, pblk, ar.ar_len);
		map->m_pblk = pblk;
		map->m_len = ar.ar_len;
	}
	ext4_ind_put_chain(&c);
	return err;
}

/* ---- Removal ---- */

unsigned ext4_ind_remove_credits(void)
{
	return FIXED_CREDITS + REMOVE_GROUPS * 2;
}

/* True if no slot of the array outside [lo, hi] is set. */
static bool empty_without(struct inode *inode, struct ext4_ind_chain *c, int level, uint32_t lo,
			  uint32_t hi)
{
	const uint32_t *array = ext4_ind_array(inode, c, level);

	for (uint32_t i = 0; i < array_slots(inode, level); i++)
		if (array[i] != 0 && (i < lo || i > hi))
			return false;
	return true;
}

/* Choose slots [*lo, hi] of the last array, downwards from hi, not below `bound`. */
static int choose_slots(struct inode *inode, struct ext4_ind_chain *c, uint32_t bound, uint32_t *lo,
			struct ext4_free_runs *runs)
{
	int last = c->c_depth - 1;
	const uint32_t *array = ext4_ind_array(inode, c, last);
	uint32_t hi = c->c_offset[last], i;

	for (i = hi + 1; i > bound; i--) {
		ext4_fsblk_t pblk = le32_to_cpu(array[i - 1]);

		if (pblk == 0)
			continue;
		if (!ext4_data_block_valid(inode->i_sb, pblk, 1))
			return ext4_error_block(inode->i_sb, inode->i_ino, pblk,
						"invalid block in the indirect map");
		if (ext4_free_runs_add(inode->i_sb, runs, pblk, 1) == 0)
			break;
	}
	*lo = i;
	return 0;
}

static int clear_slots(handle_t *handle, struct inode *inode, struct ext4_ind_chain *c, int level,
		       uint32_t lo, uint32_t hi)
{
	uint32_t *array = ext4_ind_array(inode, c, level);

	array_lock(inode, c, level);
	memset(array + lo, 0, (hi - lo + 1) * sizeof(*array));
	array_unlock(inode, c, level);
	return array_dirty(handle, inode, c, level);
}

static int free_arrays(handle_t *handle, struct inode *inode, struct ext4_ind_chain *c, int from,
		       int to)
{
	ext4_fsblk_t pblk[IND_NODES];
	int n = 0, err = 0;

	for (int i = from; i <= to; i++)
		pblk[n++] = c->c_bh[i]->b_blocknr;
	ext4_ind_put_chain(c);
	for (int i = 0; i < n && err == 0; i++)
		err = ext4_free_blocks(handle, inode, pblk[i], 1, EXT4_FREE_BLOCKS_METADATA);
	return err;
}

/* Slots [lo, hi] of the array at `bottom` go, and each array that this empties. The chain is put. */
static int clear_upwards(handle_t *handle, struct inode *inode, struct ext4_ind_chain *c,
			 int bottom, uint32_t lo, uint32_t hi)
{
	int level = bottom, err;

	while (level > 0 &&
	       empty_without(inode, c, level, level == bottom ? lo : c->c_offset[level],
			     level == bottom ? hi : c->c_offset[level]))
		level--;
	err = array_access(handle, c, level);
	for (int i = level + 1; i <= bottom && err == 0; i++)
		err = ext4_free_blocks_prepare(handle, inode, c->c_bh[i]->b_blocknr, 1);
	if (err == 0 && level == bottom)
		err = clear_slots(handle, inode, c, level, lo, hi);
	else if (err == 0)
		err = clear_slots(handle, inode, c, level, c->c_offset[level], c->c_offset[level]);
	if (err < 0 || level == bottom) {
		ext4_ind_put_chain(c);
		return err;
	}
	return free_arrays(handle, inode, c, level + 1, bottom);
}

/* The chain leads to *end. It is put. */
static int remove_slots(handle_t *handle, struct inode *inode, struct ext4_ind_chain *c,
			ext4_lblk_t start, ext4_lblk_t *end, bool *done)
{
	int last = c->c_depth - 1, err, err2;
	uint32_t hi = c->c_offset[last], bound = 0, lo = 0;
	struct ext4_free_runs runs;
	ext4_lblk_t low_lblk = *end;

	if (*end - start < hi)
		bound = hi - (*end - start);
	ext4_free_runs_init(handle, inode, FIXED_CREDITS, &runs);
	err = choose_slots(inode, c, bound, &lo, &runs);
	if (err == 0)
		err = ext4_free_runs_prepare(handle, inode, &runs);
	if (err == 0) {
		low_lblk = *end - (hi - lo);
		err = ext4_es_remove(inode, low_lblk, *end - low_lblk + 1);
	}
	if (err < 0) {
		ext4_ind_put_chain(c);
		return err;
	}
	err = clear_upwards(handle, inode, c, last, lo, hi);
	err2 = err < 0 ? err : ext4_free_runs_free(handle, inode, &runs);
	*done = low_lblk <= start;
	if (!*done)
		*end = low_lblk - 1;
	return err2;
}

int ext4_ind_remove_step(handle_t *handle, struct inode *inode, ext4_lblk_t start, ext4_lblk_t *end,
			 bool *done)
{
	uint64_t max = ext4_ind_max_blocks(inode->i_sb), next;
	struct ext4_ind_chain c;
	int err, dirty_err;

	*done = start >= max;
	if (*done)
		return 0;
	if (*end >= max)
		*end = (ext4_lblk_t)(max - 1);
	err = ext4_ind_find(inode, *end, &c);
	if (err < 0)
		return err;
	if (c.c_found < c.c_depth - 1) {
		next = ext4_ind_hole_start(inode->i_sb, &c, *end);
		ext4_ind_put_chain(&c);
		*done = next <= start;
		if (!*done)
			*end = (ext4_lblk_t)(next - 1);
		return 0;
	}
	err = remove_slots(handle, inode, &c, start, end, done);
	dirty_err = ext4_mark_inode_dirty(handle, inode);
	return err < 0 ? err : dirty_err;
}
