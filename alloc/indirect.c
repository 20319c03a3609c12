/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * indirect.c - the block map of files without extents: 12 direct pointers and one, two and three levels of indirect blocks.
 *
 * A logical block is turned into up to four offsets: the slot in i_block, then the slot in each indirect block. A look-up follows them until a pointer is 0 (the hole is
 * everything below that pointer) or the data block is reached, and then takes in the neighbouring slots of the same array that continue the run.
 * There is no unwritten state.
 *
 * Invariants: (1) a chain has as many links as its class of blocks (direct 1 ... triple 4), so a map that leads back into itself cannot
 * make a walk longer; (2) every block number is checked against the device and its metadata before it is used.
 * Locking: i_data_sem (read).
 */
#include <string.h>

#include "alloc/indirect.h"
#include "ext4/group.h"
#include "ext4/super.h"

/* ---- Geometry ---- */

static uint64_t ptrs_per_block(const struct super_block *sb)
{
	return sb->s_blocksize / sizeof(uint32_t);
}

uint64_t ext4_ind_max_blocks(const struct super_block *sb)
{
	uint64_t p = ptrs_per_block(sb);
	uint64_t max = EXT4_IND_NDIR + p + p * p + p * p * p;

	return max < EXT4_MAX_BLOCKS ? max : EXT4_MAX_BLOCKS;
}

/* Data blocks below one pointer whose chain has `levels` more links after it. */
static uint64_t span_blocks(const struct super_block *sb, int levels)
{
	uint64_t span = 1;

	while (levels-- > 0)
		span *= ptrs_per_block(sb);
	return span;
}

int ext4_ind_offsets(const struct super_block *sb, ext4_lblk_t lblk,
		     uint32_t offsets[EXT4_IND_LEVELS])
{
	uint64_t p = ptrs_per_block(sb), rest = lblk;
	int levels;

	if (rest < EXT4_IND_NDIR) {
		offsets[0] = (uint32_t)rest;
		return 1;
	}
	rest -= EXT4_IND_NDIR;
	for (levels = 1; levels < EXT4_IND_LEVELS && rest >= span_blocks(sb, levels); levels++)
		rest -= span_blocks(sb, levels);
	if (levels == EXT4_IND_LEVELS)
		return 0;
	offsets[0] = (uint32_t)(EXT4_IND_NDIR + levels - 1);
	for (int i = levels; i > 0; i--) {
		offsets[i] = (uint32_t)(rest % p);
		rest /= p;
	}
	return levels + 1;
}

/* ---- Chains ---- */

void ext4_ind_put_chain(struct ext4_ind_chain *c)
{
	for (int i = 1; i < EXT4_IND_LEVELS; i++) {
		bh_put(c->c_bh[i]);
		c->c_bh[i] = NULL;
	}
}

uint32_t *ext4_ind_array(struct inode *inode, const struct ext4_ind_chain *c, int level)
{
	if (level == 0)
		return (uint32_t *)(void *)inode->i_block;
	ASSERT(c->c_bh[level] != NULL);
	return (uint32_t *)(void *)c->c_bh[level]->b_data;
}

ext4_fsblk_t ext4_ind_pointer(struct inode *inode, const struct ext4_ind_chain *c, int level)
{
	return le32_to_cpu(ext4_ind_array(inode, c, level)[c->c_offset[level]]);
}

int ext4_ind_find(struct inode *inode, ext4_lblk_t lblk, struct ext4_ind_chain *c)
{
	struct super_block *sb = inode->i_sb;

	memset(c, 0, sizeof(*c));
	c->c_depth = ext4_ind_offsets(sb, lblk, c->c_offset);
	if (c->c_depth == 0)
		return -EFBIG;
	for (c->c_found = 0; c->c_found < c->c_depth; c->c_found++) {
		ext4_fsblk_t pblk = ext4_ind_pointer(inode, c, c->c_found);
		int next = c->c_found + 1;
		int err;

		if (pblk == 0)
			break;
		if (!ext4_data_block_valid(sb, pblk, 1)) {
			ext4_ind_put_chain(c);
			return ext4_error_block(sb, inode->i_ino, pblk,
						"invalid block in the indirect map");
		}
		if (next == c->c_depth)
			continue;
		c->c_bh[next] = bh_read(sb->s_bcache, pblk);
		if (IS_ERR(c->c_bh[next])) {
			err = ext4_read_failed(sb, inode->i_ino, pblk, PTR_ERR(c->c_bh[next]));
			c->c_bh[next] = NULL;
			ext4_ind_put_chain(c);
			return err;
		}
	}
	return 0;
}

/* ---- Look-up ---- */

/* Slots of the last array from `slot` on, up to `end`, that continue what the first one begins. */
static uint32_t run_length(const uint32_t *array, uint32_t slot, uint32_t end)
{
	uint32_t first = le32_to_cpu(array[slot]), n = 1;

	while (slot + n < end && le32_to_cpu(array[slot + n]) == (first == 0 ? 0 : first + n))
		n++;
	return n;
}

ext4_lblk_t ext4_ind_hole_start(const struct super_block *sb, const struct ext4_ind_chain *c,
				ext4_lblk_t lblk)
{
	int last = c->c_depth - 1;
	uint64_t base = 0;

	for (int i = c->c_found + 1; i <= last; i++)
		base += c->c_offset[i] * span_blocks(sb, last - i);
	return (ext4_lblk_t)(lblk - base);
}

/* The hole goes on over the slots after the empty one that are empty too. */
static void hole_run(struct inode *inode, ext4_lblk_t lblk, const struct ext4_ind_chain *c,
		     struct extent_status *run)
{
	struct super_block *sb = inode->i_sb;
	uint64_t max = ext4_ind_max_blocks(sb), end;
	uint32_t slots = 1;

	if (c->c_found > 0)
		slots = run_length(ext4_ind_array(inode, c, c->c_found), c->c_offset[c->c_found],
				   (uint32_t)ptrs_per_block(sb));
	run->es_lblk = ext4_ind_hole_start(sb, c, lblk);
	end = run->es_lblk + slots * span_blocks(sb, c->c_depth - 1 - c->c_found);
	run->es_len = (ext4_lblk_t)((end < max ? end : max) - run->es_lblk);
}

int ext4_ind_lookup_run(struct inode *inode, ext4_lblk_t lblk, struct extent_status *run)
{
	struct super_block *sb = inode->i_sb;
	struct ext4_ind_chain c;
	const uint32_t *array;
	int err, last;

	run->es_pblk = 0;
	run->es_state = ES_HOLE;
	if (lblk >= ext4_ind_max_blocks(sb)) {
		run->es_lblk = (ext4_lblk_t)ext4_ind_max_blocks(sb);
		run->es_len = EXT4_MAX_BLOCKS - run->es_lblk;
		return 0;
	}
	err = ext4_ind_find(inode, lblk, &c);
	if (err < 0)
		return err;
	last = c.c_depth - 1;
	run->es_lblk = lblk;
	if (c.c_found < last) {
		hole_run(inode, lblk, &c, run);
		goto out;
	}
	array = ext4_ind_array(inode, &c, last);
	run->es_len = run_length(array, c.c_offset[last],
				 last == 0 ? EXT4_IND_NDIR : (uint32_t)ptrs_per_block(sb));
	if (c.c_found == c.c_depth) {
		run->es_pblk = ext4_ind_pointer(inode, &c, last);
		run->es_state = ES_WRITTEN;
		if (!ext4_data_block_valid(sb, run->es_pblk, run->es_len))
			err = ext4_error_block(sb, inode->i_ino, run->es_pblk,
					       "invalid blocks in the indirect map");
	}
out:
	ext4_ind_put_chain(&c);
	return err;
}

/* ---- Check ---- */

const char *ext4_ind_check_root(struct inode *inode)
{
	const uint32_t *array = (const uint32_t *)(const void *)inode->i_block;

	for (int i = 0; i < EXT2_N_BLOCKS; i++) {
		ext4_fsblk_t pblk = le32_to_cpu(array[i]);

		if (pblk != 0 && !ext4_data_block_valid(inode->i_sb, pblk, 1))
			return "block pointer outside the device or over metadata";
	}
	return NULL;
}
