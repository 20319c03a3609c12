/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * free_runs.c - which blocks one step of a removal frees.
 *
 * A removal goes from the upper end of a range downwards. Each group that it touches costs two credits, a bitmap and a descriptor,
 * and each block of a directory or symlink a revoke record; a step ends where the handle's credits do. Blocks that lie next to each other are freed in one call.
 *
 * Invariants: (1) the first addition to an empty list takes at least one block; (2) the groups of all runs cost no more credits than the handle had.
 * Locking: the list belongs to the calling thread.
 */
#include "alloc/free_runs.h"

#include <string.h>

#include "ext4/group.h"
#include "util/assert.h"

#define GROUP_CREDITS 2u /* bitmap and descriptor */

static bool needs_revoke(const struct inode *inode)
{
	return !S_ISREG(inode->i_mode);
}

void ext4_free_runs_init(handle_t *handle, struct inode *inode, unsigned fixed,
			 struct ext4_free_runs *fr)
{
	unsigned credits = jbd2_handle_credits(handle);

	memset(fr, 0, sizeof(*fr));
	fr->fr_groups = 1;
	if (credits > fixed + GROUP_CREDITS)
		fr->fr_groups = (credits - fixed) / GROUP_CREDITS;
	fr->fr_blocks = needs_revoke(inode) ? EXT4_FREE_META_BLOCKS : UINT64_MAX;
}

/* Groups that [pblk, last] adds to those of the list. */
static unsigned new_groups(struct super_block *sb, const struct ext4_free_runs *fr,
			   ext4_fsblk_t pblk, ext4_fsblk_t last)
{
	ext4_group_t g_last = ext4_group_of_block(sb, last);
	bool known =
		fr->fr_n > 0 && ext4_group_of_block(sb, fr->fr_run[fr->fr_n - 1].pblk) == g_last;

	return g_last - ext4_group_of_block(sb, pblk) + (known ? 0 : 1);
}

uint64_t ext4_free_runs_add(struct super_block *sb, struct ext4_free_runs *fr, ext4_fsblk_t pblk,
			    uint64_t len)
{
	ext4_fsblk_t last = pblk + len - 1;
	int n = fr->fr_n;

	ASSERT_CMP(len, >, 0u);
	if (len > fr->fr_blocks)
		pblk = last - fr->fr_blocks + 1;
	if (fr->fr_blocks == 0)
		return 0;
	while (new_groups(sb, fr, pblk, last) > fr->fr_groups) {
		ext4_group_t next = ext4_group_of_block(sb, pblk) + 1;

		if (ext4_group_of_block(sb, last) < next)
			return 0;
		pblk = ext4_group_first_block(sb, next);
	}
	if (n > 0 && last + 1 == fr->fr_run[n - 1].pblk)
		n--;
	else if (n == EXT4_FREE_RUNS)
		return 0;
	else
		fr->fr_run[n].len = 0;
	fr->fr_groups -= new_groups(sb, fr, pblk, last);
	fr->fr_blocks -= last - pblk + 1;
	fr->fr_run[n].pblk = pblk;
	fr->fr_run[n].len += last - pblk + 1;
	fr->fr_n = n + 1;
	return last - pblk + 1;
}

int ext4_free_runs_prepare(handle_t *handle, struct inode *inode, const struct ext4_free_runs *fr)
{
	int err = 0;

	for (int i = 0; i < fr->fr_n && err == 0; i++)
		err = ext4_free_blocks_prepare(handle, inode, fr->fr_run[i].pblk,
					       fr->fr_run[i].len);
	return err;
}

int ext4_free_runs_free(handle_t *handle, struct inode *inode, const struct ext4_free_runs *fr)
{
	unsigned flags = 0;
	int err = 0;

	if (needs_revoke(inode))
		flags = EXT4_FREE_BLOCKS_METADATA | EXT4_FREE_BLOCKS_FORGET;
	for (int i = 0; i < fr->fr_n && err == 0; i++)
		err = ext4_free_blocks(handle, inode, fr->fr_run[i].pblk, fr->fr_run[i].len, flags);
	return err;
}

unsigned ext4_free_runs_revokes(const struct inode *inode, unsigned nodes)
{
	return nodes + (needs_revoke(inode) ? EXT4_FREE_META_BLOCKS : 0);
}
