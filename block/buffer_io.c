/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * buffer_io.c - reading and writing metadata blocks.
 *
 * Reads go straight into b_data while the reader's reference is the only one (BH_READING); where
 * others refer to a buffer that is not uptodate, the read goes to memory of its own and is copied
 * under b_lock only if nobody has filled the buffer meanwhile.
 *
 * Writes always go out from memory that nobody changes: the caller's copy, or one made under
 * b_lock. What is in flight is kept as block ranges in a tree, not in the buffers, since a buffer
 * may be forgotten while its write is still on the way and the block must not be reused before.
 *
 * Invariants: (1) no two writes of a block are in flight at once. (2) A range is in the tree from
 * before its submission until after its completion. (3) A thread that waits for a range to leave
 * the tree has no write of its own that is not submitted yet.
 * Locking: c_io_lock (leaf) for the tree and the end of reads; b_lock for one buffer at a time.
 */
#include <stdlib.h>
#include <string.h>

#include "block/buffer.h"
#include "block/buffer_impl.h"
#include "util/assert.h"
#include "util/err.h"
#include "util/order.h"

#define READAHEAD_RUN 64u
#define READAHEAD_MAX 1024u
#define WINDOW_BUFFERS 256u

_Static_assert(WINDOW_BUFFERS <= BH_RUN_MAX, "a run is part of a window");

struct readahead {
	struct bio ra_bio;
	struct bh_cache *ra_cache;
	unsigned ra_n;
	struct iovec ra_iov[READAHEAD_RUN];
	struct buffer_head *ra_bh[READAHEAD_RUN];
};

struct write_window;

/* One write of neighbouring blocks. */
struct write_run {
	struct bio wr_bio;
	struct iovec wr_iov;
	struct bh_inflight wr_range;
	struct write_window *wr_window;
	struct buffer_head **wr_bhs; /* wr_range.if_n of them, in block order */
};

/* Up to WINDOW_BUFFERS buffers that are written together and then waited for. */
struct write_window {
	struct bh_cache *ww_cache;
	unsigned ww_flags;
	uint8_t *ww_copy; /* block bytes for each buffer */
	const uint8_t *const
		*ww_data; /* the caller's content of each buffer; NULL: the live content */
	unsigned ww_nbios;
	unsigned ww_pending; /* [c_io_lock] submitted and not complete */
	unsigned ww_nruns;
	struct write_run ww_run[WINDOW_BUFFERS];
	struct bio *ww_bio[WINDOW_BUFFERS];
};

/* ---- Writes in flight ---- */

static int compare_ranges(const struct bh_inflight *a, const struct bh_inflight *b)
{
	return order_u64(a->if_blocknr, b->if_blocknr);
}

RB_PROTOTYPE_INTERNAL(bh_inflight_tree, bh_inflight, if_link, compare_ranges,
		      static __attribute__((unused)))
RB_GENERATE_INTERNAL(bh_inflight_tree, bh_inflight, if_link, compare_ranges,
		     static __attribute__((unused)))

static bool overlaps_locked(struct bh_cache *c, uint64_t blocknr, uint64_t n)
{
	struct bh_inflight key = {.if_blocknr = 0};
	struct bh_inflight *r;

	mutex_assert_held(&c->c_io_lock);
	if (blocknr >= BH_RUN_MAX)
		key.if_blocknr = blocknr - (BH_RUN_MAX - 1);
	r = RB_NFIND(bh_inflight_tree, &c->c_inflight, &key);
	for (; r != NULL; r = RB_NEXT(bh_inflight_tree, &c->c_inflight, r)) {
		if (r->if_blocknr >= blocknr && r->if_blocknr - blocknr >= n)
			return false;
		if (r->if_blocknr + r->if_n > blocknr)
			return true;
	}
	return false;
}

static void insert_range_locked(struct bh_cache *c, struct bh_inflight *r)
{
	ASSERT(r->if_n >= 1 && r->if_n <= BH_RUN_MAX);
	RB_INSERT(bh_inflight_tree, &c->c_inflight, r);
	/* Pairs with the load in bh_writes_in_flight(). */
	atomic_fetch_add_explicit(&c->c_inflight_n, 1, memory_order_release);
}

static bool try_begin_write(struct bh_cache *c, struct bh_inflight *r)
{
	bool begun = false;

	mutex_lock(&c->c_io_lock);
	if (!overlaps_locked(c, r->if_blocknr, r->if_n)) {
		insert_range_locked(c, r);
		begun = true;
	}
	mutex_unlock(&c->c_io_lock);
	return begun;
}

static void begin_write(struct bh_cache *c, struct bh_inflight *r)
{
	mutex_lock(&c->c_io_lock);
	while (overlaps_locked(c, r->if_blocknr, r->if_n))
		cond_wait(&c->c_io_cond, &c->c_io_lock);
	insert_range_locked(c, r);
	mutex_unlock(&c->c_io_lock);
}

static void end_write_locked(struct bh_cache *c, struct bh_inflight *r)
{
	mutex_assert_held(&c->c_io_lock);
	RB_REMOVE(bh_inflight_tree, &c->c_inflight, r);
	atomic_fetch_sub_explicit(&c->c_inflight_n, 1, memory_order_release);
	cond_broadcast(&c->c_io_cond);
}

void bh_wait_writes(struct bh_cache *c, uint64_t blocknr, uint64_t n)
{
	if (atomic_load_explicit(&c->c_inflight_n, memory_order_acquire) == 0)
		return;
	mutex_lock(&c->c_io_lock);
	while (overlaps_locked(c, blocknr, n))
		cond_wait(&c->c_io_cond, &c->c_io_lock);
	mutex_unlock(&c->c_io_lock);
}

bool bh_writes_in_flight(struct bh_cache *c, uint64_t blocknr, uint64_t n)
{
	bool found;

	if (atomic_load_explicit(&c->c_inflight_n, memory_order_acquire) == 0)
		return false;
	mutex_lock(&c->c_io_lock);
	found = overlaps_locked(c, blocknr, n);
	mutex_unlock(&c->c_io_lock);
	return found;
}

/* ---- Reading ---- */

void bh_wait_reading(struct buffer_head *bh)
{
	struct bh_cache *c = bh->b_cache;

	mutex_lock(&c->c_io_lock);
	while (bh_test(bh, BH_READING))
		cond_wait(&c->c_io_cond, &c->c_io_lock);
	mutex_unlock(&c->c_io_lock);
}

/* Read into the buffer that this thread has claimed. */
static int read_claimed(struct buffer_head *bh)
{
	struct bh_cache *c = bh->b_cache;
	int err = blk_read(c->c_dev, bh->b_blocknr * bh->b_size, bh->b_data, bh->b_size, REQ_META);

	if (err == 0)
		bh_set(bh, BH_UPTODATE);
	mutex_lock(&c->c_io_lock);
	bh_clear(bh, BH_READING);
	cond_broadcast(&c->c_io_cond);
	mutex_unlock(&c->c_io_lock);
	return err;
}

/* Others refer to the buffer and may be filling it. */
static int read_shared(struct buffer_head *bh)
{
	struct bh_cache *c = bh->b_cache;
	void *copy;
	int err;

	if (posix_memalign(&copy, bh->b_size, bh->b_size) != 0)
		return -ENOMEM;
	err = blk_read(c->c_dev, bh->b_blocknr * bh->b_size, copy, bh->b_size, REQ_META);
	if (err == 0) {
		lock_buffer(bh);
		if (!bh_test(bh, BH_UPTODATE)) {
			memcpy(bh->b_data, copy, bh->b_size);
			bh_set(bh, BH_UPTODATE);
		}
		unlock_buffer(bh);
	}
	free(copy);
	return err;
}

struct buffer_head *bh_read(struct bh_cache *c, uint64_t blocknr)
{
	bool claimed;
	struct buffer_head *bh = bh_get_to_read(c, blocknr, &claimed);
	int err = 0;

	if (IS_ERR(bh))
		return bh;
	if (claimed)
		err = read_claimed(bh);
	else if (!bh_test(bh, BH_UPTODATE))
		err = read_shared(bh);
	if (err == 0)
		return bh;
	bh_put(bh);
	return ERR_PTR(err);
}

static void readahead_end_io(struct bio *bio)
{
	struct readahead *ra = bio->bi_private;
	struct bh_cache *c = ra->ra_cache;

	mutex_lock(&c->c_io_lock);
	for (unsigned i = 0; i < ra->ra_n; i++) {
		if (bio->bi_status == 0)
			bh_set(ra->ra_bh[i], BH_UPTODATE);
		bh_clear(ra->ra_bh[i], BH_READING);
	}
	cond_broadcast(&c->c_io_cond);
	mutex_unlock(&c->c_io_lock);
	for (unsigned i = 0; i < ra->ra_n; i++)
		bh_put(ra->ra_bh[i]);
	free(ra);
	mutex_lock(&c->c_io_lock);
	c->c_readaheads--;
	cond_broadcast(&c->c_io_cond);
	mutex_unlock(&c->c_io_lock);
}

static void readahead_submit(struct readahead *ra)
{
	struct bh_cache *c = ra->ra_cache;
	struct bio *bio = &ra->ra_bio;

	mutex_lock(&c->c_io_lock);
	c->c_readaheads++;
	mutex_unlock(&c->c_io_lock);
	bio->bi_op = REQ_OP_READ;
	bio->bi_flags = REQ_META;
	bio->bi_offset_bytes = ra->ra_bh[0]->b_blocknr * c->c_block_bytes;
	bio->bi_len_bytes = (uint64_t)ra->ra_n * c->c_block_bytes;
	bio->bi_iov = ra->ra_iov;
	bio->bi_iovcnt = (int)ra->ra_n;
	bio->bi_end_io = readahead_end_io;
	bio->bi_private = ra;
	blk_submit_one(c->c_dev, bio);
}

/* Collect buffers from *blocknr on that have to be read and are neighbours. */
static void readahead_collect(struct readahead *ra, uint64_t *blocknr, uint64_t end)
{
	struct bh_cache *c = ra->ra_cache;
	unsigned max = c->c_dev->bd_max_bytes / c->c_block_bytes;

	if (max > READAHEAD_RUN)
		max = READAHEAD_RUN;
	while (*blocknr < end && ra->ra_n < max) {
		struct buffer_head *bh = bh_get_to_readahead(c, *blocknr);

		if (bh == NULL && ra->ra_n > 0)
			return;
		(*blocknr)++;
		if (bh == NULL)
			continue;
		ra->ra_iov[ra->ra_n].iov_base = bh->b_data;
		ra->ra_iov[ra->ra_n].iov_len = bh->b_size;
		ra->ra_bh[ra->ra_n++] = bh;
	}
}

void bh_readahead(struct bh_cache *c, uint64_t blocknr, unsigned n)
{
	uint64_t end;

	if (blocknr >= c->c_blocks)
		return;
	if (n > READAHEAD_MAX)
		n = READAHEAD_MAX;
	end = n < c->c_blocks - blocknr ? blocknr + n : c->c_blocks;
	blk_start_plug(c->c_dev);
	while (blocknr < end) {
		/* A hint: without memory there is no readahead. */
		struct readahead *ra = calloc(1, sizeof(*ra));

		if (ra == NULL)
			break;
		ra->ra_cache = c;
		readahead_collect(ra, &blocknr, end);
		if (ra->ra_n > 0)
			readahead_submit(ra);
		else
			free(ra);
	}
	blk_finish_plug(c->c_dev);
}

/* ---- Writing ---- */

int bh_write_copy(struct buffer_head *bh, const void *data, unsigned flags)
{
	struct bh_cache *c = bh->b_cache;
	struct bh_inflight range = {.if_blocknr = bh->b_blocknr, .if_n = 1};
	int err;

	begin_write(c, &range);
	bh_set(bh, BH_WRITING);
	err = blk_write(c->c_dev, bh->b_blocknr * bh->b_size, data, bh->b_size, flags | REQ_META);
	if (err != 0)
		bh_set(bh, BH_IO_ERROR);
	else
		bh_clear(bh, BH_IO_ERROR);
	bh_clear(bh, BH_WRITING);
	mutex_lock(&c->c_io_lock);
	end_write_locked(c, &range);
	mutex_unlock(&c->c_io_lock);
	return err;
}

static void run_end_io(struct bio *bio)
{
	struct write_run *wr = bio->bi_private;
	struct write_window *ww = wr->wr_window;
	struct bh_cache *c = ww->ww_cache;

	for (unsigned i = 0; i < wr->wr_range.if_n; i++) {
		struct buffer_head *bh = wr->wr_bhs[i];

		if (bio->bi_status == 0)
			bh_clear(bh, BH_IO_ERROR);
		else
			bh_set(bh, ww->ww_data == NULL ? BH_IO_ERROR | BH_DIRTY : BH_IO_ERROR);
		bh_clear(bh, BH_WRITING);
	}
	mutex_lock(&c->c_io_lock);
	end_write_locked(c, &wr->wr_range);
	ww->ww_pending--;
	mutex_unlock(&c->c_io_lock);
}

static void window_submit(struct write_window *ww)
{
	struct bh_cache *c = ww->ww_cache;
	unsigned n = ww->ww_nbios;

	if (n == 0)
		return;
	mutex_lock(&c->c_io_lock);
	ww->ww_pending += n;
	mutex_unlock(&c->c_io_lock);
	ww->ww_nbios = 0;
	blk_submit(c->c_dev, ww->ww_bio, n);
}

static void window_wait(struct write_window *ww)
{
	struct bh_cache *c = ww->ww_cache;

	mutex_lock(&c->c_io_lock);
	while (ww->ww_pending > 0)
		cond_wait(&c->c_io_cond, &c->c_io_lock);
	mutex_unlock(&c->c_io_lock);
}

/* What goes to disk for bhs[0], number `at` of the window. */
static void window_copy(struct write_window *ww, struct buffer_head *bh, unsigned at)
{
	uint32_t block_bytes = ww->ww_cache->c_block_bytes;
	uint8_t *copy = ww->ww_copy + (size_t)at * block_bytes;

	if (ww->ww_data != NULL) {
		memcpy(copy, ww->ww_data[at], block_bytes);
		return;
	}
	lock_buffer(bh);
	bh_clear(bh, BH_DIRTY);
	bh_seal(bh);
	memcpy(copy, bh->b_data, block_bytes);
	unlock_buffer(bh);
}

/* Copy n neighbours, of which the first is number `at` of the window, and get their write ready. */
static void window_add_run(struct write_window *ww, struct buffer_head **bhs, unsigned n,
			   unsigned at)
{
	struct bh_cache *c = ww->ww_cache;
	struct write_run *wr = &ww->ww_run[ww->ww_nruns++];

	wr->wr_window = ww;
	wr->wr_bhs = bhs;
	wr->wr_range.if_blocknr = bhs[0]->b_blocknr;
	wr->wr_range.if_n = n;
	if (!try_begin_write(c, &wr->wr_range)) {
		window_submit(ww);
		window_wait(ww);
		begin_write(c, &wr->wr_range);
	}
	for (unsigned i = 0; i < n; i++) {
		bh_set(bhs[i], BH_WRITING);
		window_copy(ww, bhs[i], at + i);
	}
	wr->wr_iov.iov_base = ww->ww_copy + (size_t)at * c->c_block_bytes;
	wr->wr_iov.iov_len = (size_t)n * c->c_block_bytes;
	wr->wr_bio = (struct bio){
		.bi_op = REQ_OP_WRITE,
		.bi_flags = ww->ww_flags,
		.bi_offset_bytes = bhs[0]->b_blocknr * c->c_block_bytes,
		.bi_len_bytes = wr->wr_iov.iov_len,
		.bi_iov = &wr->wr_iov,
		.bi_iovcnt = 1,
		.bi_end_io = run_end_io,
		.bi_private = wr,
	};
	ww->ww_bio[ww->ww_nbios++] = &wr->wr_bio;
}

/* Write n buffers in ascending order and wait. First error. */
static int write_window(struct write_window *ww, struct buffer_head **bhs, unsigned n)
{
	unsigned max = ww->ww_cache->c_dev->bd_max_bytes / ww->ww_cache->c_block_bytes;
	int err = 0;

	ww->ww_nruns = 0;
	for (unsigned i = 0; i < n;) {
		unsigned run = 1;

		while (i + run < n && run < max &&
		       bhs[i + run]->b_blocknr == bhs[i]->b_blocknr + run)
			run++;
		window_add_run(ww, bhs + i, run, i);
		i += run;
	}
	window_submit(ww);
	window_wait(ww);
	for (unsigned i = 0; i < ww->ww_nruns && err == 0; i++)
		err = ww->ww_run[i].wr_bio.bi_status;
	return err;
}

static int compare_buffers(const void *a, const void *b)
{
	const struct buffer_head *x = *(struct buffer_head *const *)a;
	const struct buffer_head *y = *(struct buffer_head *const *)b;

	if (x->b_blocknr != y->b_blocknr)
		return order_u64(x->b_blocknr, y->b_blocknr);
	return order_u64((uintptr_t)x, (uintptr_t)y);
}

static unsigned sort_unique(struct buffer_head **bhs, unsigned n)
{
	unsigned kept = 1;

	qsort(bhs, n, sizeof(struct buffer_head *), compare_buffers);
	for (unsigned i = 1; i < n; i++)
		if (bhs[i] != bhs[kept - 1])
			bhs[kept++] = bhs[i];
	return kept;
}

/* A window for up to `width` buffers at a time. NULL without memory. */
static struct write_window *window_new(struct bh_cache *c, unsigned width, unsigned flags)
{
	struct write_window *ww = malloc(sizeof(*ww));
	void *copy;

	if (ww == NULL)
		return NULL;
	if (posix_memalign(&copy, 4096, (size_t)width * c->c_block_bytes) != 0) {
		free(ww);
		return NULL;
	}
	ww->ww_cache = c;
	ww->ww_flags = flags | REQ_META;
	ww->ww_copy = copy;
	ww->ww_data = NULL;
	ww->ww_nbios = 0;
	ww->ww_pending = 0;
	return ww;
}

static void window_free(struct write_window *ww)
{
	free(ww->ww_copy);
	free(ww);
}

int bh_write_many(struct buffer_head **bhs, unsigned n, unsigned flags)
{
	struct write_window *ww;
	struct buffer_head **sorted;
	unsigned width = n < WINDOW_BUFFERS ? n : WINDOW_BUFFERS;
	int first = 0;

	if (n == 0)
		return 0;
	sorted = malloc(n * sizeof(struct buffer_head *));
	if (sorted == NULL)
		return -ENOMEM;
	ww = window_new(bhs[0]->b_cache, width, flags);
	if (ww == NULL) {
		free(sorted);
		return -ENOMEM;
	}
	memcpy(sorted, bhs, n * sizeof(struct buffer_head *));
	n = sort_unique(sorted, n);
	for (unsigned i = 0; i < n; i += width) {
		int err = write_window(ww, sorted + i, n - i < width ? n - i : width);

		if (first == 0)
			first = err;
	}
	window_free(ww);
	free(sorted);
	return first;
}

int bh_write_copies(struct buffer_head **bhs, const uint8_t *const *data, unsigned n,
		    unsigned flags)
{
	struct write_window *ww;
	unsigned width = n < WINDOW_BUFFERS ? n : WINDOW_BUFFERS;
	int first = 0;

	if (n == 0)
		return 0;
	for (unsigned i = 1; i < n; i++)
		ASSERT_CMP(bhs[i - 1]->b_blocknr, <, bhs[i]->b_blocknr);
	ww = window_new(bhs[0]->b_cache, width, flags);
	if (ww == NULL)
		return -ENOMEM;
	for (unsigned i = 0; i < n; i += width) {
		int err;

		ww->ww_data = data + i;
		err = write_window(ww, bhs + i, n - i < width ? n - i : width);
		if (first == 0)
			first = err;
	}
	window_free(ww);
	return first;
}
