/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef ALLOC_FREE_RUNS_H
#define ALLOC_FREE_RUNS_H
/* The blocks that one step of a removal frees, no more than its handle has credits for. Private to alloc/. */

#include "alloc/alloc_internal.h"

#define EXT4_FREE_RUNS 64	  /* runs of one step */
#define EXT4_FREE_META_BLOCKS 256 /* blocks of one step where each needs a revoke record */

/* Blocks that hold the revoke records of a step, at 1 KiB and 8 bytes each. */
#define EXT4_FREE_REVOKE_CREDITS 3u

struct ext4_free_runs {
	unsigned fr_groups; /* groups that may still be touched */
	uint64_t fr_blocks; /* blocks that may still be freed */
	int fr_n;
	struct {
		ext4_fsblk_t pblk;
		uint64_t len;
	} fr_run[EXT4_FREE_RUNS];
};

/* Nothing chosen yet; `fixed` credits of the handle are for something else. At least one group is allowed. */
void ext4_free_runs_init(handle_t *handle, struct inode *inode, unsigned fixed,
			 struct ext4_free_runs *fr);
/* Choose blocks of [pblk, pblk + len), the upper ones first; returns how many fit. */
uint64_t ext4_free_runs_add(struct super_block *sb, struct ext4_free_runs *fr, ext4_fsblk_t pblk,
			    uint64_t len);
/* Before the map forgets them: ext4_free_blocks_prepare() for all that was chosen. */
int ext4_free_runs_prepare(handle_t *handle, struct inode *inode, const struct ext4_free_runs *fr);
/* Free what was chosen. */
int ext4_free_runs_free(handle_t *handle, struct inode *inode, const struct ext4_free_runs *fr);
/* Revoke records that a step may need, `nodes` blocks of the map included. */
unsigned ext4_free_runs_revokes(const struct inode *inode, unsigned nodes);

#endif
