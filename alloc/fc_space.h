/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef ALLOC_FC_SPACE_H
#define ALLOC_FC_SPACE_H
/*
 * Space while fast commits are replayed: block maps and inode numbers become what the records say, not what the allocator would
 * choose. Commits are held (jbd2_journal_hold_commits()) and one thread does it; no data is in the page cache. Each call opens its own
 * handles. Beside the errors named: -EIO, -ENOMEM, -ENOSPC, -EFSCORRUPTED (reported).
 */

#include "alloc/block_set.h"

struct ext4_fc_space {
	struct super_block *fc_sb;
	struct block_set fc_spare; /* marked used, mapped by nobody now */
	struct block_set fc_twice; /* mapped once more than they may be */
};

/* A run of a record. */
struct ext4_fc_range {
	ext4_lblk_t fr_lblk;
	uint32_t fr_blocks; /* fr_lblk + fr_blocks <= EXT4_MAX_BLOCKS */
	ext4_fsblk_t fr_pblk;
	bool fr_unwritten;
};

void ext4_fc_space_init(struct super_block *sb, struct ext4_fc_space *fc);
void ext4_fc_space_destroy(struct ext4_fc_space *fc);
/* Blocks that will be mapped: those that are free are marked used, so that nothing else is put there. For all records, before the first change. */
int ext4_fc_claim_blocks(struct ext4_fc_space *fc, ext4_fsblk_t pblk, uint32_t blocks);
/* Map the range as told, whatever is mapped there. The inode is written. -EOPNOTSUPP: not by extents. */
int ext4_fc_map(struct ext4_fc_space *fc, struct inode *inode, const struct ext4_fc_range *range);
/* Unmap it. */
int ext4_fc_unmap(struct ext4_fc_space *fc, struct inode *inode, const struct ext4_fc_range *range);
/* Free what nobody mapped in the end. -EFSCORRUPTED if two files have the same block. */
int ext4_fc_space_settle(struct ext4_fc_space *fc);
/* Mark an inode number used. -EFSCORRUPTED if it is. */
int ext4_fc_claim_inode(struct super_block *sb, uint32_t ino, bool dir);

#endif
