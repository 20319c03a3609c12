/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef BLOCK_FILTER_RAID5_H
#define BLOCK_FILTER_RAID5_H
/* The filter that counts what writes would cost a RAID 5, and charges it to a model below. */

#include "block/blkdev.h"

struct raid5_counts {
	uint64_t rc_full;	   /* stripes written whole */
	uint64_t rc_partial;	   /* the others: rmw + reconstruct */
	uint64_t rc_rmw;	   /* old data and parity are read */
	uint64_t rc_reconstruct;   /* the rest of the stripe is read */
	uint64_t rc_aligned_start; /* writes that begin on a stripe */
	uint64_t rc_aligned_end;   /* writes that end with a stripe */
	uint64_t rc_writes;	   /* writes, neighbours of one submission joined */
	uint64_t rc_member_reads;  /* that these writes need */
	uint64_t rc_member_writes;
};

/*
 * disks members (3 .. 32), one of them parity, chunk_bytes (a power of two, 4 KiB or more) on each.
 * A model directly below gets the members' I/O instead of the requests themselves.
 */
struct blkdev *raid5_open(struct blkdev *lower, unsigned disks, uint64_t chunk_bytes);
void raid5_read_counts(struct blkdev *bd, struct raid5_counts *counts);

#endif
