/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * page_io.c - from pages to requests.
 *
 * Pages are added in file order; as long as they continue each other on the device they grow one request, whose vector merges frames that are adjacent in memory. A request
 * goes out when it is full, when the next block lies elsewhere, or when the caller flushes. On a striped device a request that is cut for its size is cut at a
 * stripe boundary, so that the next one starts on one.
 *
 * p_io of a page counts the requests it is part of, and the submitter while it adds blocks; the last one ends writeback. If something must follow the I/O (ie_defer)
 * requests wait in the io_end and are finished by the worker.
 *
 * Background and periodic writes keep no more than a window in flight, so that a read finds a short queue: 2 MiB, or what the device writes in 5 ms. Whoever has somebody waiting
 * for it (sync, frames, a writer of throttle=2009) does not stop there.
 *
 * Invariants: (1) a page has PG_WRITEBACK from before its first block is added until p_io is 0. (2) The end of a request takes no page lock and starts no handle.
 * (3) as_written_seq is raised before writeback of the page ends: whoever waited for the page knows that a flush is due.
 * Locking: io_submit belongs to the caller. Completions take as_lock, wb_lru_lock and as_end_lock, one after the other.
 */
#include <stdlib.h>
#include <string.h>

#include "writeback/internal.h"

#define END_BATCH 64u
#define WINDOW_BYTES_MIN (UINT64_C(2) << 20)
#define WINDOW_DIVISOR 200u /* of a second: 5 ms */

void io_submit_init(struct io_submit *io, struct address_space *as, bool sync)
{
	io->is_mapping = as;
	io->is_end = NULL;
	io->is_sync = sync;
	io->is_window_bytes = 0;
	io->is_in_handle = false;
	io->is_nr_pages = 0;
	io->is_nr_iov = 0;
	io->is_len = 0;
}

void io_submit_set_end(struct io_submit *io, struct io_end *ie)
{
	if (io->is_end != ie)
		io_submit_flush(io);
	io->is_end = ie;
}

/* ---- The window ---- */

void io_submit_set_window(struct io_submit *io)
{
	struct wb_domain *wb = io->is_mapping->as_wb;
	uint64_t bytes = (wb_avg_bandwidth(wb) << PAGE_SHIFT) / WINDOW_DIVISOR;

	io->is_window_bytes = bytes > WINDOW_BYTES_MIN ? bytes : WINDOW_BYTES_MIN;
}

static void window_enter(struct wb_domain *wb, struct wb_bio *w, uint64_t window)
{
	uint64_t len = w->w_bio.bi_len_bytes;

	mutex_lock(&wb->wb_window_lock);
	if (wb->wb_window_bytes + len > window)
		counter_inc(&wb->wb_stats.ws_window_waits);
	while (wb->wb_window_bytes > 0 && wb->wb_window_bytes + len > window)
		cond_wait(&wb->wb_window_cond, &wb->wb_window_lock);
	wb->wb_window_bytes += len;
	mutex_unlock(&wb->wb_window_lock);
	w->w_in_window = true;
}

static void window_leave(struct wb_domain *wb, const struct wb_bio *w)
{
	mutex_lock(&wb->wb_window_lock);
	wb->wb_window_bytes -= w->w_bio.bi_len_bytes;
	cond_signal(&wb->wb_window_cond);
	mutex_unlock(&wb->wb_window_lock);
}

/* ---- Completion ---- */

void finish_wb_bio(struct address_space *as, struct wb_bio *w)
{
	struct page *done[END_BATCH];
	unsigned n = 0;

	for (unsigned i = 0; i < w->w_nr_pages; i++) {
		struct page *page = w->w_pages[i];

		if (atomic_fetch_sub_explicit(&page->p_io, 1, memory_order_acq_rel) != 1)
			continue;
		done[n++] = page;
		if (n == END_BATCH) {
			end_pages_writeback(as, done, n);
			n = 0;
		}
	}
	if (n > 0)
		end_pages_writeback(as, done, n);
	free(w);
}

void mapping_note_written(struct address_space *as)
{
	uint64_t seq = atomic_fetch_add(&as->as_wb->wb_write_seq, 1) + 1;
	uint64_t old = atomic_load(&as->as_written_seq);

	while (old < seq && !atomic_compare_exchange_weak(&as->as_written_seq, &old, seq))
		;
}

static void write_end_io(struct bio *bio)
{
	struct wb_bio *w = bio->bi_private;
	struct io_end *ie = w->w_end;
	struct address_space *as = ie->ie_mapping;

	mapping_note_written(as);
	if (w->w_in_window)
		window_leave(as->as_wb, w);
	if (bio->bi_status != 0) {
		counter_inc(&as->as_wb->wb_stats.ws_io_errors);
		io_end_fail(ie, bio->bi_status);
	}
	if (ie->ie_defer) {
		w->w_next = atomic_load(&ie->ie_bios);
		while (!atomic_compare_exchange_weak(&ie->ie_bios, &w->w_next, w))
			;
	} else {
		finish_wb_bio(as, w);
	}
	io_end_put(ie);
}

/* ---- Statistics ---- */

static void count_stripes(struct io_submit *io)
{
	struct super_block *sb = io->is_mapping->as_host->i_sb;
	struct wb_stats *st = &io->is_mapping->as_wb->wb_stats;
	uint64_t stripe = (uint64_t)sb->s_stripe << sb->s_blocksize_bits;
	uint64_t end = io->is_offset + io->is_len, first, last;
	bool start_ok, end_ok;

	if (stripe == 0)
		return;
	start_ok = io->is_offset % stripe == 0;
	end_ok = end % stripe == 0;
	first = (io->is_offset + stripe - 1) / stripe;
	last = end / stripe;
	if (last > first)
		counter_add(&st->ws_stripe_full, last - first);
	if (start_ok)
		counter_inc(&st->ws_stripe_start);
	if (end_ok)
		counter_inc(&st->ws_stripe_end);
	if (last < first) { /* inside one stripe */
		counter_inc(&st->ws_stripe_partial);
		counter_inc(&st->ws_stripe_rmw);
		return;
	}
	counter_add(&st->ws_stripe_partial, (uint64_t)!start_ok + !end_ok);
	counter_add(&st->ws_stripe_rmw, (uint64_t)!start_ok + !end_ok);
}

static void count_request(struct io_submit *io)
{
	struct wb_stats *st = &io->is_mapping->as_wb->wb_stats;

	hist_add(&st->ws_request_bytes, io->is_len);
	if (io->is_in_handle)
		counter_add(&st->ws_pages_in_handle, io->is_nr_pages);
	count_stripes(io);
}

/* ---- Submission ---- */

static struct wb_bio *make_bio(struct io_submit *io)
{
	size_t iov_bytes = io->is_nr_iov * sizeof(struct iovec);
	struct wb_bio *w = malloc(sizeof(*w) + iov_bytes + io->is_nr_pages * sizeof(void *));

	if (w == NULL)
		return NULL;
	memset(&w->w_bio, 0, sizeof(w->w_bio));
	memcpy(w->w_iov, io->is_iov, iov_bytes);
	w->w_pages = (struct page **)(void *)((uint8_t *)w->w_iov + iov_bytes);
	memcpy(w->w_pages, io->is_pages, io->is_nr_pages * sizeof(void *));
	w->w_nr_pages = io->is_nr_pages;
	w->w_end = io->is_end;
	w->w_in_window = false;
	w->w_bio.bi_op = REQ_OP_WRITE;
	w->w_bio.bi_flags = io->is_sync ? REQ_SYNC : 0;
	w->w_bio.bi_offset_bytes = io->is_offset;
	w->w_bio.bi_len_bytes = io->is_len;
	w->w_bio.bi_iov = w->w_iov;
	w->w_bio.bi_iovcnt = (int)io->is_nr_iov;
	w->w_bio.bi_end_io = write_end_io;
	w->w_bio.bi_private = w;
	return w;
}

/* No memory for a request: its pages end with an error, which the next fsync tells. */
static void fail_pages(struct io_submit *io)
{
	struct address_space *as = io->is_mapping;

	io_end_fail(io->is_end, -ENOMEM);
	for (unsigned i = 0; i < io->is_nr_pages; i++)
		if (atomic_fetch_sub_explicit(&io->is_pages[i]->p_io, 1, memory_order_acq_rel) == 1)
			end_pages_writeback(as, &io->is_pages[i], 1);
}

void io_submit_flush(struct io_submit *io)
{
	struct wb_bio *w;

	if (io->is_len == 0)
		return;
	count_request(io);
	w = make_bio(io);
	if (w == NULL) {
		fail_pages(io);
	} else {
		io_end_get(io->is_end);
		if (io->is_window_bytes > 0)
			window_enter(io->is_mapping->as_wb, w, io->is_window_bytes);
		blk_submit_one(io->is_mapping->as_host->i_sb->s_dev, &w->w_bio);
	}
	io->is_nr_pages = 0;
	io->is_nr_iov = 0;
	io->is_len = 0;
}

/* The farthest end of a request that starts at offset. */
static uint64_t request_limit(const struct super_block *sb, uint64_t offset)
{
	uint64_t stripe = (uint64_t)sb->s_stripe << sb->s_blocksize_bits;
	uint64_t end = offset + sb->s_dev->bd_max_bytes;

	if (stripe > 0 && end / stripe * stripe > offset)
		end = end / stripe * stripe;
	return end;
}

static void add_iov(struct io_submit *io, uint8_t *data, size_t len)
{
	struct iovec *last = io->is_nr_iov > 0 ? &io->is_iov[io->is_nr_iov - 1] : NULL;

	if (last != NULL && (uint8_t *)last->iov_base + last->iov_len == data) {
		last->iov_len += len;
		return;
	}
	io->is_iov[io->is_nr_iov].iov_base = data;
	io->is_iov[io->is_nr_iov++].iov_len = len;
}

static void add_block(struct io_submit *io, struct page *page, unsigned block, ext4_fsblk_t pblk)
{
	unsigned bits = io->is_mapping->as_blkbits;
	uint64_t offset = pblk << bits;
	uint64_t len = UINT64_C(1) << bits;
	bool new_page = io->is_nr_pages == 0 || io->is_pages[io->is_nr_pages - 1] != page;

	if (io->is_len > 0 &&
	    (io->is_offset + io->is_len != offset || offset + len > io->is_limit ||
	     (new_page && io->is_nr_pages == WB_BIO_PAGES))) {
		io_submit_flush(io);
		new_page = true;
	}
	if (io->is_len == 0) {
		io->is_offset = offset;
		io->is_limit = request_limit(io->is_mapping->as_host->i_sb, offset);
	}
	if (new_page) {
		atomic_fetch_add_explicit(&page->p_io, 1, memory_order_relaxed);
		io->is_pages[io->is_nr_pages++] = page;
	}
	add_iov(io, page->p_data + ((size_t)block << bits), (size_t)len);
	io->is_len += len;
}

void io_add_page(struct io_submit *io, struct page *page, uint8_t mask, pblk_of_fn pblk_of,
		 void *arg)
{
	struct address_space *as = io->is_mapping;
	ext4_lblk_t lblk = page_first_block(as, page->p_index);

	atomic_store_explicit(&page->p_io, 1, memory_order_relaxed);
	for (unsigned i = 0; i < blocks_per_page(as); i++)
		if (mask >> i & 1)
			add_block(io, page, i, pblk_of(arg, lblk + i));
	if (atomic_fetch_sub_explicit(&page->p_io, 1, memory_order_acq_rel) == 1)
		end_pages_writeback(as, &page, 1);
}
