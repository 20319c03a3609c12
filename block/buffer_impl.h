/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef BLOCK_BUFFER_IMPL_H
#define BLOCK_BUFFER_IMPL_H
/* The inside of the buffer cache, shared by buffer.c and buffer_io.c only. */

#include <bsd/sys/tree.h>
#include <sys/queue.h>

#include "block/buffer.h"

#define BH_SHARD_BITS 4
#define BH_SHARDS (1u << BH_SHARD_BITS)
#define BH_SLAB_BUFFERS 64u
#define BH_REGION_SHIFT 6 /* blocks of a region of the presence filter */
#define BH_REGION_BITS 15
#define BH_RUN_MAX 256u /* blocks of one write */

/* A write in flight of blocks [if_blocknr, + if_n). The ranges in the tree never overlap. */
struct bh_inflight {
	RB_ENTRY(bh_inflight) if_link; /* [c_io_lock] */
	uint64_t if_blocknr;
	unsigned if_n; /* 1 .. BH_RUN_MAX */
};

RB_HEAD(bh_inflight_tree, bh_inflight);

struct bh_shard {
	struct mutex bs_lock;
	struct buffer_head **bs_hash;	  /* [bs_lock] chains by b_hash_next */
	struct buffer_head *bs_lru_first; /* [bs_lock] the next to be looked at for eviction */
	struct buffer_head *bs_lru_last;  /* [bs_lock] */
};

struct bh_slab {
	SLIST_ENTRY(bh_slab) sl_link;
	uint8_t *sl_memory;
	struct buffer_head sl_bh[BH_SLAB_BUFFERS];
};

struct bh_cache {
	struct blkdev *c_dev;	 /* [const after init] */
	uint32_t c_block_bytes;	 /* [const after init] */
	uint64_t c_blocks;	 /* [const after init] whole blocks of the device */
	uint64_t c_limit_bytes;	 /* [const after init] */
	unsigned c_hash_bits;	 /* [const after init] buckets of a shard */
	_Atomic int64_t c_bytes; /* [atomic] */
	_Atomic unsigned c_hand; /* [atomic] shard where the next eviction starts */
	struct bh_shard c_shard[BH_SHARDS];
	_Atomic uint32_t *c_region; /* [atomic] buffers whose region hashes here */

	struct mutex c_pool_lock;
	struct buffer_head *c_free;    /* [c_pool_lock] chained by b_hash_next */
	SLIST_HEAD(, bh_slab) c_slabs; /* [c_pool_lock] */

	struct mutex c_io_lock;
	struct cond c_io_cond;		    /* a write left the tree, a read ended */
	struct bh_inflight_tree c_inflight; /* [c_io_lock] */
	_Atomic unsigned c_inflight_n;	    /* [atomic], changed under c_io_lock */
	unsigned c_readaheads;		    /* [c_io_lock] */
};

/* As bh_get(), but a buffer that nobody else refers to and that is not uptodate comes with BH_READING set (*claimed). */
struct buffer_head *bh_get_to_read(struct bh_cache *c, uint64_t blocknr, bool *claimed);
/* The buffer with BH_READING set, or NULL if it is in use, uptodate or cannot be had. */
struct buffer_head *bh_get_to_readahead(struct bh_cache *c, uint64_t blocknr);
void bh_wait_reading(struct buffer_head *bh);

#endif
