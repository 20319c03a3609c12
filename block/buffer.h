/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef BLOCK_BUFFER_H
#define BLOCK_BUFFER_H
/*
 * The buffer cache: metadata blocks by number. A buffer_head is found or made by bh_get(), is
 * kept while b_count > 0 or it is dirty or the journal holds it (b_journal_head), and is recycled
 * in LRU order when the cache is over its limit. The cache never writes a dirty buffer by itself:
 * the journal does (checkpoint, or commit without a journal).
 */

#include <stdbool.h>
#include <stdint.h>

#include "block/blkdev.h"
#include "util/lock.h"

struct bh_cache;

/* b_state bits [atomic] */
#define BH_UPTODATE (1u << 0)	 /* b_data holds the block's content */
#define BH_DIRTY (1u << 1)	 /* content newer than the disk's, not under the journal's care */
#define BH_VERIFIED (1u << 2)	 /* checksum and structure were checked since it was read */
#define BH_WRITING (1u << 3)	 /* a write of this buffer is in flight */
#define BH_NEW (1u << 4)	 /* bitmaps: initialised in memory from an UNINIT group */
#define BH_IO_ERROR (1u << 5)	 /* the last write failed */
#define BH_READING (1u << 16)	 /* cache internal: b_data is the target of a read in flight */
#define BH_REFERENCED (1u << 17) /* cache internal: found since the eviction hand passed */

struct buffer_head {
	struct bh_cache *b_cache; /* [const after init] */
	uint64_t b_blocknr;	  /* [const while b_count > 0] file-system block */
	uint8_t *b_data;	  /* [b_lock] b_size bytes, page aligned when b_size >= 4096 */
	uint32_t b_size;	  /* bytes */
	_Atomic uint32_t b_state; /* [atomic] */
	_Atomic int b_count;	  /* [atomic] references */
	struct mutex
		b_lock; /* content lock: readers that need a stable picture, and every modifier; never held over I/O */
	void *b_journal_head; /* [journal] owned by journal/ */
	/* [b_lock] What the content says of itself, its checksum, is still to be set. NULL: it is right. As the kernel's frozen triggers of jbd2. */
	void (*b_seal)(struct buffer_head *bh);
	uint32_t b_seal_seed, b_seal_at; /* [b_lock] for b_seal */
	/* cache internals */
	struct buffer_head *b_hash_next;	     /* [bh cache] */
	struct buffer_head *b_lru_prev, *b_lru_next; /* [bh cache] */
};

/* limit_bytes bounds clean buffers plus the journal's copies (see bh_cache_charge). ERR_PTR on failure. */
struct bh_cache *bh_cache_create(struct blkdev *bd, uint32_t block_bytes, uint64_t limit_bytes);
/* Every buffer must be unreferenced. Dirty ones are dropped. */
void bh_cache_destroy(struct bh_cache *c);
struct blkdev *bh_cache_dev(struct bh_cache *c);

/* Find or make the buffer; not read. Takes a reference. ERR_PTR(-ENOMEM), or -EFSCORRUPTED if blocknr is past the device. */
struct buffer_head *bh_get(struct bh_cache *c, uint64_t blocknr);
/* As bh_get, NULL if it is not in memory. Never blocks. */
struct buffer_head *bh_find(struct bh_cache *c, uint64_t blocknr);
/*
 * A buffer that bh_get() returned without BH_UPTODATE belongs to whoever fills it: b_lock, content,
 * BH_UPTODATE. No read that was started before or later overwrites it after that.
 * bh_get() waits for a readahead of the block, bh_find() does not find it until it has ended.
 */
/* bh_get and read if not uptodate. Blocks for I/O. ERR_PTR(-EIO) on a read error. */
struct buffer_head *bh_read(struct bh_cache *c, uint64_t blocknr);
/* Start reads of n blocks from blocknr without waiting. */
void bh_readahead(struct bh_cache *c, uint64_t blocknr, unsigned n);
void bh_hold(struct buffer_head *bh);
/* NULL and ERR_PTR are allowed. */
void bh_put(struct buffer_head *bh);

static inline bool bh_test(const struct buffer_head *bh, uint32_t bit)
{
	return (atomic_load_explicit(&bh->b_state, memory_order_acquire) & bit) != 0;
}
static inline void bh_set(struct buffer_head *bh, uint32_t bit)
{
	atomic_fetch_or_explicit(&bh->b_state, bit, memory_order_acq_rel);
}
static inline void bh_clear(struct buffer_head *bh, uint32_t bit)
{
	atomic_fetch_and_explicit(&bh->b_state, ~bit, memory_order_acq_rel);
}

static inline void lock_buffer(struct buffer_head *bh)
{
	mutex_lock(&bh->b_lock);
}
static inline void unlock_buffer(struct buffer_head *bh)
{
	mutex_unlock(&bh->b_lock);
}

/*
 * The content was changed: seal() sets its checksum, for which it finds its arguments in the buffer, before the content is copied the next
 * time. Any number of changes costs one checksum so. lock_buffer held.
 */
static inline void bh_seal_later(struct buffer_head *bh, void (*seal)(struct buffer_head *bh),
				 uint32_t seed, uint32_t at)
{
	mutex_assert_held(&bh->b_lock);
	bh->b_seal = seal;
	bh->b_seal_seed = seed;
	bh->b_seal_at = at;
}
/* Whoever copies the content for the device calls this first. lock_buffer held. */
static inline void bh_seal(struct buffer_head *bh)
{
	void (*seal)(struct buffer_head *) = bh->b_seal;

	mutex_assert_held(&bh->b_lock);
	if (seal == NULL)
		return;
	bh->b_seal = NULL;
	seal(bh);
}

/*
 * Write a copy of `data` (b_size bytes, the caller's, stable until this returns) home and wait.
 * At most one write of a buffer is in flight: a second one waits for the first.
 */
int bh_write_copy(struct buffer_head *bh, const void *data, unsigned flags);
/*
 * Write many buffers home from their live content, batched, and wait for all: each is copied
 * under b_lock when it is submitted, so it may be modified meanwhile. BH_DIRTY is cleared with the copy. First error returned, all
 * are tried; failed ones get BH_IO_ERROR and are dirty again. The caller holds a reference to each and no b_lock.
 */
int bh_write_many(struct buffer_head **bhs, unsigned n, unsigned flags);
/*
 * The same for content of the caller's, data[i] for bhs[i], stable until this returns: what is live in the buffers is not looked at and
 * BH_DIRTY not touched. The blocks are distinct and in ascending order.
 */
int bh_write_copies(struct buffer_head **bhs, const uint8_t *const *data, unsigned n,
		    unsigned flags);
/* Wait until no write of block blocknr .. +n is in flight (before the blocks are given to another use). */
void bh_wait_writes(struct bh_cache *c, uint64_t blocknr, uint64_t n);
/* True if a write of any of these blocks is in flight. Never blocks. */
bool bh_writes_in_flight(struct bh_cache *c, uint64_t blocknr, uint64_t n);
/*
 * The blocks now belong to file data or are free: forget cached buffers of them (dirty or not, but not
 * those that the journal holds), so that a later bh_read sees the disk. As clean_bdev_aliases().
 */
void bh_forget_range(struct bh_cache *c, uint64_t blocknr, uint64_t n);
/* Account memory (journal copies) against the limit. */
void bh_cache_charge(struct bh_cache *c, int64_t bytes);
/* bytes in use (buffers and charges), and the limit. */
uint64_t bh_cache_bytes(struct bh_cache *c);
uint64_t bh_cache_limit(struct bh_cache *c);

#endif
