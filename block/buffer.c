/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * buffer.c - the cache of metadata blocks: finding, keeping and forgetting buffers.
 *
 * Buffers live in slabs and are found through a hash that is cut into shards, each with its lock
 * and its list for eviction. The list is a clock: a buffer found again gets BH_REFERENCED, and the
 * hand gives such a buffer a second round; bh_put() is one atomic subtraction and takes no lock,
 * so it may be called anywhere. A new buffer over the limit pays for it by looking at a bounded
 * number of old ones.
 *
 * A forgotten buffer leaves the hash at once and its memory with the last reference: BH_FORGOTTEN
 * is added to b_count, so that one atomic operation tells bh_put() both things. A counting filter
 * over regions of blocks makes forgetting a long range of file data cheap when, as usual, none of
 * it is cached.
 *
 * Invariants: (1) a block has at most one hashed buffer. (2) b_count of a hashed buffer grows from
 * 0 only under its shard's lock, so with the lock held and b_count 0 nobody refers to it.
 * (3) BH_READING is set only while one reference exists, and whoever comes later waits for its
 * end, so a read never overwrites what somebody else has put in. (4) c_bytes is block size times
 * buffers outside the free list, plus charges.
 * Locking: bs_lock (rank BH_CACHE), then c_pool_lock or c_io_lock (leaf).
 */
#include "block/buffer.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "block/buffer_impl.h"
#include "util/assert.h"
#include "util/err.h"

#define BH_FORGOTTEN (1 << 30)
#define HEADROOM_PART 64u
#define EVICT_LOOKS 64u
#define BLOCK_BYTES_MIN 512u
#define BLOCK_BYTES_MAX 65536u
#define HASH_BITS_MIN 6u
#define HASH_BITS_MAX 16u
#define HASH_MULTIPLIER UINT64_C(0x9e3779b97f4a7c15)

/* ---- Hash and list of a shard ---- */

static uint64_t hash_of(uint64_t blocknr)
{
	return blocknr * HASH_MULTIPLIER;
}

static struct bh_shard *shard_of(struct bh_cache *c, uint64_t blocknr)
{
	return &c->c_shard[hash_of(blocknr) >> (64 - BH_SHARD_BITS)];
}

static struct buffer_head **bucket_of(struct bh_cache *c, struct bh_shard *bs, uint64_t blocknr)
{
	uint64_t bits = hash_of(blocknr) << BH_SHARD_BITS;

	return &bs->bs_hash[bits >> (64 - c->c_hash_bits)];
}

static _Atomic uint32_t *region_of(struct bh_cache *c, uint64_t blocknr)
{
	return &c->c_region[hash_of(blocknr >> BH_REGION_SHIFT) >> (64 - BH_REGION_BITS)];
}

static void lru_append(struct bh_shard *bs, struct buffer_head *bh)
{
	bh->b_lru_prev = bs->bs_lru_last;
	bh->b_lru_next = NULL;
	if (bs->bs_lru_last != NULL)
		bs->bs_lru_last->b_lru_next = bh;
	else
		bs->bs_lru_first = bh;
	bs->bs_lru_last = bh;
}

static void lru_remove(struct bh_shard *bs, struct buffer_head *bh)
{
	if (bh->b_lru_prev != NULL)
		bh->b_lru_prev->b_lru_next = bh->b_lru_next;
	else
		bs->bs_lru_first = bh->b_lru_next;
	if (bh->b_lru_next != NULL)
		bh->b_lru_next->b_lru_prev = bh->b_lru_prev;
	else
		bs->bs_lru_last = bh->b_lru_prev;
}

static struct buffer_head *lookup_locked(struct bh_cache *c, struct bh_shard *bs, uint64_t blocknr)
{
	struct buffer_head *bh = *bucket_of(c, bs, blocknr);

	mutex_assert_held(&bs->bs_lock);
	while (bh != NULL && bh->b_blocknr != blocknr)
		bh = bh->b_hash_next;
	return bh;
}

static void insert_locked(struct bh_shard *bs, struct buffer_head *bh)
{
	struct bh_cache *c = bh->b_cache;
	struct buffer_head **bucket = bucket_of(c, bs, bh->b_blocknr);

	mutex_assert_held(&bs->bs_lock);
	bh->b_hash_next = *bucket;
	*bucket = bh;
	lru_append(bs, bh);
	atomic_fetch_add_explicit(region_of(c, bh->b_blocknr), 1, memory_order_relaxed);
}

static void remove_locked(struct bh_shard *bs, struct buffer_head *bh)
{
	struct bh_cache *c = bh->b_cache;
	struct buffer_head **link = bucket_of(c, bs, bh->b_blocknr);

	mutex_assert_held(&bs->bs_lock);
	while (*link != bh) {
		ASSERT(*link != NULL);
		link = &(*link)->b_hash_next;
	}
	*link = bh->b_hash_next;
	bh->b_hash_next = NULL;
	lru_remove(bs, bh);
	atomic_fetch_sub_explicit(region_of(c, bh->b_blocknr), 1, memory_order_relaxed);
}

/* ---- Memory ---- */

static int grow_pool_locked(struct bh_cache *c)
{
	struct bh_slab *sl = calloc(1, sizeof(*sl));
	size_t align = c->c_block_bytes < 4096 ? 4096 : c->c_block_bytes;
	void *memory;

	if (sl == NULL)
		return -ENOMEM;
	if (posix_memalign(&memory, align, (size_t)c->c_block_bytes * BH_SLAB_BUFFERS) != 0) {
		free(sl);
		return -ENOMEM;
	}
	sl->sl_memory = memory;
	for (unsigned i = 0; i < BH_SLAB_BUFFERS; i++) {
		struct buffer_head *bh = &sl->sl_bh[i];

		bh->b_cache = c;
		bh->b_size = c->c_block_bytes;
		bh->b_data = sl->sl_memory + (size_t)i * c->c_block_bytes;
		mutex_init(&bh->b_lock, LOCK_RANK_BUFFER);
		bh->b_hash_next = c->c_free;
		c->c_free = bh;
	}
	SLIST_INSERT_HEAD(&c->c_slabs, sl, sl_link);
	return 0;
}

static struct buffer_head *alloc_buffer(struct bh_cache *c, uint64_t blocknr)
{
	struct buffer_head *bh;
	int err = 0;

	mutex_lock(&c->c_pool_lock);
	if (c->c_free == NULL)
		err = grow_pool_locked(c);
	bh = c->c_free;
	if (err == 0)
		c->c_free = bh->b_hash_next;
	mutex_unlock(&c->c_pool_lock);
	if (err != 0)
		return ERR_PTR(err);
	bh->b_blocknr = blocknr;
	bh->b_hash_next = NULL;
	bh->b_journal_head = NULL;
	bh->b_seal = NULL;
	atomic_store_explicit(&bh->b_state, 0, memory_order_relaxed);
	atomic_store_explicit(&bh->b_count, 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&c->c_bytes, bh->b_size, memory_order_relaxed);
	return bh;
}

static void free_buffer(struct buffer_head *bh)
{
	struct bh_cache *c = bh->b_cache;

	ASSERT(bh->b_journal_head == NULL);
	atomic_fetch_sub_explicit(&c->c_bytes, bh->b_size, memory_order_relaxed);
	mutex_lock(&c->c_pool_lock);
	bh->b_hash_next = c->c_free;
	c->c_free = bh;
	mutex_unlock(&c->c_pool_lock);
}

/* ---- Eviction ---- */

/* Room is kept for what comes between two looks: a new buffer of each thread, and copies of the journal. */
static bool over_limit(struct bh_cache *c)
{
	return bh_cache_bytes(c) > c->c_limit_bytes - c->c_limit_bytes / HEADROOM_PART;
}

static bool evictable_locked(struct buffer_head *bh)
{
	/* Pairs with the release in bh_put(): the last user's changes are seen. */
	if (atomic_load_explicit(&bh->b_count, memory_order_acquire) != 0)
		return false;
	return !bh_test(bh, BH_DIRTY | BH_WRITING | BH_READING) && bh->b_journal_head == NULL;
}

/* Look at one buffer; true if it was freed. */
static bool evict_one_locked(struct bh_shard *bs)
{
	struct buffer_head *bh = bs->bs_lru_first;

	if (bh == NULL)
		return false;
	if (!bh_test(bh, BH_REFERENCED) && evictable_locked(bh)) {
		remove_locked(bs, bh);
		free_buffer(bh);
		return true;
	}
	bh_clear(bh, BH_REFERENCED);
	lru_remove(bs, bh);
	lru_append(bs, bh);
	return false;
}

static void evict_some(struct bh_cache *c)
{
	const unsigned looks_each = EVICT_LOOKS / BH_SHARDS;

	for (unsigned i = 0; i < BH_SHARDS && over_limit(c); i++) {
		unsigned hand = atomic_fetch_add_explicit(&c->c_hand, 1, memory_order_relaxed);
		struct bh_shard *bs = &c->c_shard[hand % BH_SHARDS];

		mutex_lock(&bs->bs_lock);
		for (unsigned look = 0; look < looks_each && over_limit(c); look++)
			evict_one_locked(bs);
		mutex_unlock(&bs->bs_lock);
	}
}

/* ---- Getting ---- */

static void take_locked(struct buffer_head *bh)
{
	int old = atomic_fetch_add_explicit(&bh->b_count, 1, memory_order_acquire);

	ASSERT_CMP(old, >=, 0);
	ASSERT_CMP(old, <, BH_FORGOTTEN);
	if (!bh_test(bh, BH_REFERENCED))
		bh_set(bh, BH_REFERENCED);
}

/* Mark the buffer as being read if this thread's reference is the only one. */
static bool claim_locked(struct buffer_head *bh)
{
	if (bh_test(bh, BH_UPTODATE | BH_READING))
		return false;
	if (atomic_load_explicit(&bh->b_count, memory_order_acquire) != 1)
		return false;
	bh_set(bh, BH_READING);
	return true;
}

/* Find or make; *claimed, if asked for, as in bh_get_to_read(). Does not wait for reads. */
static struct buffer_head *find_or_make(struct bh_cache *c, uint64_t blocknr, bool *claimed)
{
	struct bh_shard *bs = shard_of(c, blocknr);
	struct buffer_head *fresh = NULL;
	struct buffer_head *bh;

	mutex_lock(&bs->bs_lock);
	bh = lookup_locked(c, bs, blocknr);
	if (bh == NULL) {
		mutex_unlock(&bs->bs_lock);
		fresh = alloc_buffer(c, blocknr);
		if (IS_ERR(fresh))
			return fresh;
		mutex_lock(&bs->bs_lock);
		bh = lookup_locked(c, bs, blocknr);
	}
	if (bh != NULL) {
		take_locked(bh);
	} else {
		bh = fresh;
		fresh = NULL;
		insert_locked(bs, bh);
	}
	if (claimed != NULL)
		*claimed = claim_locked(bh);
	mutex_unlock(&bs->bs_lock);
	if (fresh != NULL)
		free_buffer(fresh);
	if (over_limit(c))
		evict_some(c);
	return bh;
}

struct buffer_head *bh_get_to_read(struct bh_cache *c, uint64_t blocknr, bool *claimed)
{
	struct bh_shard *bs = shard_of(c, blocknr);
	struct buffer_head *bh;

	*claimed = false;
	if (blocknr >= c->c_blocks)
		return ERR_PTR(-EFSCORRUPTED);
	bh = find_or_make(c, blocknr, claimed);
	if (IS_ERR(bh) || *claimed || !bh_test(bh, BH_READING))
		return bh;
	/* Somebody reads it; if that fails it is this thread's turn. */
	bh_wait_reading(bh);
	mutex_lock(&bs->bs_lock);
	*claimed = claim_locked(bh);
	mutex_unlock(&bs->bs_lock);
	return bh;
}

struct buffer_head *bh_get_to_readahead(struct bh_cache *c, uint64_t blocknr)
{
	struct buffer_head *bh;
	bool claimed;

	bh = bh_find(c, blocknr);
	if (bh != NULL) {
		bh_put(bh);
		return NULL;
	}
	bh = find_or_make(c, blocknr, &claimed);
	if (IS_ERR(bh))
		return NULL;
	if (claimed)
		return bh;
	bh_put(bh);
	return NULL;
}

struct buffer_head *bh_get(struct bh_cache *c, uint64_t blocknr)
{
	struct buffer_head *bh;

	if (blocknr >= c->c_blocks)
		return ERR_PTR(-EFSCORRUPTED);
	bh = find_or_make(c, blocknr, NULL);
	if (!IS_ERR(bh) && bh_test(bh, BH_READING))
		bh_wait_reading(bh);
	return bh;
}

struct buffer_head *bh_find(struct bh_cache *c, uint64_t blocknr)
{
	struct bh_shard *bs = shard_of(c, blocknr);
	struct buffer_head *bh;

	mutex_lock(&bs->bs_lock);
	bh = lookup_locked(c, bs, blocknr);
	if (bh != NULL && bh_test(bh, BH_READING))
		bh = NULL;
	if (bh != NULL)
		take_locked(bh);
	mutex_unlock(&bs->bs_lock);
	return bh;
}

void bh_hold(struct buffer_head *bh)
{
	int old = atomic_fetch_add_explicit(&bh->b_count, 1, memory_order_relaxed);

	ASSERT_CMP(old & (BH_FORGOTTEN - 1), >, 0);
}

void bh_put(struct buffer_head *bh)
{
	int old;

	if (bh == NULL || IS_ERR(bh))
		return;
	/* Pairs with the acquire loads of b_count under the shard's lock. */
	old = atomic_fetch_sub_explicit(&bh->b_count, 1, memory_order_acq_rel);
	ASSERT_CMP(old & (BH_FORGOTTEN - 1), >, 0);
	if (old == BH_FORGOTTEN + 1)
		free_buffer(bh);
}

/* ---- Forgetting ---- */

static void forget_block(struct bh_cache *c, uint64_t blocknr)
{
	struct bh_shard *bs = shard_of(c, blocknr);
	struct buffer_head *bh;
	int old = 1;

	mutex_lock(&bs->bs_lock);
	bh = lookup_locked(c, bs, blocknr);
	if (bh != NULL && bh->b_journal_head == NULL) {
		remove_locked(bs, bh);
		bh_clear(bh, BH_DIRTY);
		old = atomic_fetch_add_explicit(&bh->b_count, BH_FORGOTTEN, memory_order_acq_rel);
	}
	mutex_unlock(&bs->bs_lock);
	if (old == 0)
		free_buffer(bh);
}

void bh_forget_range(struct bh_cache *c, uint64_t blocknr, uint64_t n)
{
	uint64_t end = n < c->c_blocks && blocknr < c->c_blocks - n ? blocknr + n : c->c_blocks;

	while (blocknr < end) {
		uint64_t next = ((blocknr >> BH_REGION_SHIFT) + 1) << BH_REGION_SHIFT;

		if (next > end)
			next = end;
		if (atomic_load_explicit(region_of(c, blocknr), memory_order_relaxed) != 0)
			for (uint64_t b = blocknr; b < next; b++)
				forget_block(c, b);
		blocknr = next;
	}
}

/* ---- The cache ---- */

static unsigned choose_hash_bits(uint64_t limit_bytes, uint32_t block_bytes)
{
	uint64_t per_shard = limit_bytes / block_bytes / BH_SHARDS;
	unsigned bits = HASH_BITS_MIN;

	while (bits < HASH_BITS_MAX && (UINT64_C(1) << bits) < per_shard)
		bits++;
	return bits;
}

static void free_cache(struct bh_cache *c)
{
	struct bh_slab *sl;

	while ((sl = SLIST_FIRST(&c->c_slabs)) != NULL) {
		SLIST_REMOVE_HEAD(&c->c_slabs, sl_link);
		for (unsigned i = 0; i < BH_SLAB_BUFFERS; i++)
			mutex_destroy(&sl->sl_bh[i].b_lock);
		free(sl->sl_memory);
		free(sl);
	}
	for (unsigned i = 0; i < BH_SHARDS; i++) {
		free(c->c_shard[i].bs_hash);
		mutex_destroy(&c->c_shard[i].bs_lock);
	}
	cond_destroy(&c->c_io_cond);
	mutex_destroy(&c->c_io_lock);
	mutex_destroy(&c->c_pool_lock);
	free(c->c_region);
	free(c);
}

struct bh_cache *bh_cache_create(struct blkdev *bd, uint32_t block_bytes, uint64_t limit_bytes)
{
	struct bh_cache *c;
	bool complete;

	ASSERT(block_bytes >= BLOCK_BYTES_MIN && block_bytes <= BLOCK_BYTES_MAX);
	ASSERT((block_bytes & (block_bytes - 1)) == 0);
	c = calloc(1, sizeof(*c));
	if (c == NULL)
		return ERR_PTR(-ENOMEM);
	c->c_dev = bd;
	c->c_block_bytes = block_bytes;
	c->c_blocks = bd->bd_size_bytes / block_bytes;
	c->c_limit_bytes = limit_bytes;
	c->c_hash_bits = choose_hash_bits(limit_bytes, block_bytes);
	mutex_init(&c->c_pool_lock, LOCK_RANK_LEAF);
	mutex_init(&c->c_io_lock, LOCK_RANK_LEAF);
	cond_init(&c->c_io_cond);
	c->c_region = calloc((size_t)1 << BH_REGION_BITS, sizeof(*c->c_region));
	complete = c->c_region != NULL;
	for (unsigned i = 0; i < BH_SHARDS; i++) {
		struct bh_shard *bs = &c->c_shard[i];

		mutex_init(&bs->bs_lock, LOCK_RANK_BH_CACHE);
		bs->bs_hash = calloc((size_t)1 << c->c_hash_bits, sizeof(struct buffer_head *));
		complete = complete && bs->bs_hash != NULL;
	}
	if (!complete) {
		free_cache(c);
		return ERR_PTR(-ENOMEM);
	}
	return c;
}

void bh_cache_destroy(struct bh_cache *c)
{
	mutex_lock(&c->c_io_lock);
	while (c->c_readaheads > 0)
		cond_wait(&c->c_io_cond, &c->c_io_lock);
	mutex_unlock(&c->c_io_lock);
	ASSERT(RB_EMPTY(&c->c_inflight));
	for (unsigned i = 0; i < BH_SHARDS; i++) {
		struct buffer_head *bh = c->c_shard[i].bs_lru_first;

		for (; bh != NULL; bh = bh->b_lru_next)
			ASSERT_CMP(atomic_load(&bh->b_count), ==, 0);
	}
	free_cache(c);
}

struct blkdev *bh_cache_dev(struct bh_cache *c)
{
	return c->c_dev;
}

void bh_cache_charge(struct bh_cache *c, int64_t bytes)
{
	atomic_fetch_add_explicit(&c->c_bytes, bytes, memory_order_relaxed);
}

uint64_t bh_cache_bytes(struct bh_cache *c)
{
	int64_t bytes = atomic_load_explicit(&c->c_bytes, memory_order_relaxed);

	return bytes > 0 ? (uint64_t)bytes : 0;
}

uint64_t bh_cache_limit(struct bh_cache *c)
{
	return c->c_limit_bytes;
}
