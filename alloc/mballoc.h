/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef ALLOC_MBALLOC_H
#define ALLOC_MBALLOC_H
/*
 * Block allocation: buddy, goal, normalisation, preallocation, bounded search. Follows
 * fs/ext4/mballoc.c.
 */

#include <stdio.h>

#include "ext4/ext4.h"
#include "util/hist.h"

#define EXT4_MB_HINT_DATA (1u << 0) /* file data: normalise, preallocate */
#define EXT4_MB_HINT_NOPREALLOC (1u << 1)
#define EXT4_MB_HINT_NORMALIZE_OFF (1u << 2)
#define EXT4_MB_DELALLOC_RESERVED                                                                  \
	(1u << 3) /* covered by a reservation: does not claim free blocks again */
#define EXT4_MB_USE_RESERVED (1u << 4) /* may use the reserved pool (splits, conversions) */
#define EXT4_MB_USE_ROOT_BLOCKS (1u << 5)
#define EXT4_MB_STREAM_ALLOC (1u << 6) /* large file: continue where the stream allocated last */

struct ext4_allocation_request {
	struct inode *ar_inode;
	uint32_t ar_len; /* blocks wanted; on return blocks got (>= 1) */
	ext4_lblk_t ar_logical;
	ext4_lblk_t ar_lleft,
		ar_lright; /* nearest mapped neighbours, with their pblk; 0 pblk: none */
	ext4_fsblk_t ar_pleft, ar_pright;
	ext4_fsblk_t ar_goal; /* 0: chosen by ext4_inode_goal */
	unsigned ar_flags;
};

/*
 * Allocate up to ar_len contiguous blocks; the bitmap and descriptor are changed within the handle.
 * May block to read bitmaps. i_data_sem held for write (or the inode is new). Returns the first
 * block, or 0 with *err: -ENOSPC (nothing at all is free for this request: the caller stops its
 * handle, forces a commit, retries), -EIO, -EFSCORRUPTED.
 */
ext4_fsblk_t ext4_mb_new_blocks(handle_t *handle, struct ext4_allocation_request *ar, int *err);
/* One metadata block (extent index, directory, xattr) near goal. */
ext4_fsblk_t ext4_new_meta_block(handle_t *handle, struct inode *inode, ext4_fsblk_t goal,
				 unsigned ar_flags, int *err);

#define EXT4_FREE_BLOCKS_METADATA (1u << 0) /* revoke, forget buffers */
#define EXT4_FREE_BLOCKS_FORGET (1u << 1)   /* blocks may be in the buffer cache */
#define EXT4_FREE_BLOCKS_NO_QUOT (1u << 2)  /* i_blocks is not touched */

/*
 * Free blocks within the handle. They stay unallocatable until the transaction has committed (and
 * are discarded then with -o discard); statfs counts them as free at once. Validates the range:
 * -EFSCORRUPTED if it covers metadata or leaves the device, or is free already. Credits: bitmap and
 * descriptor for each group touched.
 */
int ext4_free_blocks(handle_t *handle, struct inode *inode, ext4_fsblk_t block, uint64_t count,
		     unsigned flags);
/*
 * Before the map is changed: get all that freeing the range can fail to get, but memory. The blocks are checked, the bitmaps are read and
 * write access to them is had, so that no I/O error leaves blocks that nobody has. The same credits as ext4_free_blocks().
 */
int ext4_free_blocks_prepare(handle_t *handle, struct inode *inode, ext4_fsblk_t block,
			     uint64_t count);
/*
 * Undo of an allocation that was never used in any transaction content (error paths): allocatable
 * at once is allowed.
 */
int ext4_free_unused_blocks(handle_t *handle, struct inode *inode, ext4_fsblk_t block,
			    uint64_t count);
/*
 * Give the inode's preallocations back (close of the last writer, truncate, ENOSPC). No i_data_sem
 * needed.
 */
void ext4_discard_preallocations(struct inode *inode);
/* Where an inode's first block should go. */
ext4_fsblk_t ext4_inode_goal(struct inode *inode);

struct ext4_mb_stats {
	counter_t mb_reqs, mb_success, mb_goal_hits, mb_2order_hits, mb_stripe_hits;
	counter_t mb_groups_scanned, mb_extents_scanned, mb_pa_used, mb_pa_created, mb_pa_discarded;
	counter_t mb_buddies_built, mb_breaks, mb_lost_chunks;
	counter_t mb_allocated_blocks, mb_freed_blocks;
	struct hist mb_latency_ns;
	struct hist mb_len_blocks; /* of the extents returned */
};
struct ext4_mb_stats *ext4_mb_stats(struct super_block *sb);
/* As /proc/fs/ext4/DEV/mb_groups (loaded groups only) and mb_stats. */
void ext4_mb_print_groups(struct super_block *sb, FILE *out);
void ext4_mb_print_stats(struct super_block *sb, FILE *out);

#endif
