/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef ALLOC_BLOCK_SET_H
#define ALLOC_BLOCK_SET_H
/* Sets of blocks as disjoint ranges in a tree. One thread owns a set. */

#include <bsd/sys/tree.h>

#include "ext4/ext4.h"

struct block_range {
	RB_ENTRY(block_range) br_rb;
	ext4_fsblk_t br_start;
	uint64_t br_len;
};
RB_HEAD(block_set, block_range);

void block_set_init(struct block_set *set);
void block_set_clear(struct block_set *set);
/* -EEXIST if a block of the range is in it (nothing is added), -ENOMEM. len > 0. */
int block_set_add(struct block_set *set, ext4_fsblk_t start, uint64_t len);
/*
 * Blocks of the range that are in `from` leave it; the others come into `to`. -EEXIST if one of those is there already, -ENOMEM: the sets are
 * good for nothing but block_set_clear() then.
 */
int block_set_settle(struct block_set *from, struct block_set *to, ext4_fsblk_t start,
		     uint64_t len);
/* NULL: it is empty. */
struct block_range *block_set_first(struct block_set *set);
/* The range leaves the set and is freed. */
void block_set_drop(struct block_set *set, struct block_range *r);

#endif
