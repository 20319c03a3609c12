/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * readahead.c - filling pages from the device: what is asked for, and what will be asked for next.
 *
 * A page that is missing is made only if some block of it has content on the disk: holes and unwritten extents cost no memory, a reader is
 * given zeros for them. Missing pages of one run get adjacent frames and become as few requests as the extents allow. The page is locked while
 * it is filled and unlocked by the completion.
 *
 * The policy is per file: a read that starts where the last one ended doubles the window, up to read_ahead_kb; the window is refilled when less than half of
 * it is left. Any other read resets it.
 *
 * Invariants: (1) a page under read is locked, has p_io > 0, and is in the index. (2) A page becomes uptodate only if all its requests succeeded;
 * PG_ERROR says that one did not, and the next reader tries again.
 * Locking: the caller holds as_invalidate_lock for read or i_rwsem, so that no block goes away between the look-up and the read.
 */
#include <stdlib.h>
#include <string.h>

#include "writeback/internal.h"

#define RA_MIN_PAGES 32u
#define RA_CACHE_FRACTION 8u

/* What the map says from cu_lblk on. */
struct map_cursor {
	ext4_lblk_t cu_lblk;
	uint32_t cu_len; /* 0: nothing known */
	ext4_fsblk_t cu_pblk;
	bool cu_written;
};

struct read_bio {
	struct bio rb_bio;
	struct address_space *rb_mapping;
	unsigned rb_nr_pages, rb_nr_iov;
	struct page *rb_pages[WB_BIO_PAGES];
	struct iovec rb_iov[WB_BIO_PAGES * 4];
};

struct reader {
	struct address_space *rd_mapping;
	struct map_cursor rd_cursor;
	struct read_bio *rd_bio; /* being filled */
};

/* ---- Where the content is ---- */

/* Position the cursor at lblk; want: how much is interesting. 0 or negative errno. */
static int cursor_seek(struct inode *inode, struct map_cursor *cu, ext4_lblk_t lblk, uint32_t want)
{
	struct ext4_map_blocks map = {.m_lblk = lblk, .m_len = want};
	int ret;

	if (cu->cu_len > 0 && lblk >= cu->cu_lblk && lblk - cu->cu_lblk < cu->cu_len) {
		uint32_t skip = lblk - cu->cu_lblk;

		cu->cu_lblk += skip;
		cu->cu_pblk += skip;
		cu->cu_len -= skip;
		return 0;
	}
	ret = ext4_map_blocks(NULL, inode, &map, 0);
	if (ret < 0)
		return ret;
	cu->cu_lblk = lblk;
	cu->cu_len = map.m_len;
	cu->cu_pblk = map.m_pblk;
	cu->cu_written = (map.m_flags & EXT4_MAP_MAPPED) != 0;
	return 0;
}

/* 1: some block of the page has content on the disk, 0: none, or negative errno. */
static int page_has_content(struct reader *rd, uint32_t index, uint32_t pages_left)
{
	struct address_space *as = rd->rd_mapping;
	ext4_lblk_t lblk = page_first_block(as, index);
	unsigned n = blocks_per_page(as);

	for (unsigned i = 0; i < n;) {
		int err = cursor_seek(as->as_host, &rd->rd_cursor, lblk + i, n * pages_left - i);

		if (err != 0)
			return err;
		if (rd->rd_cursor.cu_written)
			return 1;
		i += rd->rd_cursor.cu_len < n ? rd->rd_cursor.cu_len : n;
	}
	return 0;
}

/* ---- Requests ---- */

/* One request less for the page; the last one decides. */
static void read_page_done(struct address_space *as, struct page *page)
{
	if (atomic_fetch_sub_explicit(&page->p_io, 1, memory_order_acq_rel) != 1)
		return;
	if (!page_test(page, PG_ERROR)) {
		page->p_uptodate = as->as_full_mask;
		page_set(page, PG_UPTODATE);
	}
	page_lru_add(as->as_wb, &page, 1);
	unlock_page_io(page);
}

static void read_end_io(struct bio *bio)
{
	struct read_bio *rb = bio->bi_private;

	for (unsigned i = 0; i < rb->rb_nr_pages; i++) {
		if (bio->bi_status != 0)
			page_set(rb->rb_pages[i], PG_ERROR);
		read_page_done(rb->rb_mapping, rb->rb_pages[i]);
	}
	free(rb);
}

static void submit_read(struct reader *rd)
{
	struct read_bio *rb = rd->rd_bio;

	if (rb == NULL)
		return;
	rd->rd_bio = NULL;
	rb->rb_bio.bi_iov = rb->rb_iov;
	rb->rb_bio.bi_iovcnt = (int)rb->rb_nr_iov;
	rb->rb_bio.bi_op = REQ_OP_READ;
	rb->rb_bio.bi_end_io = read_end_io;
	rb->rb_bio.bi_private = rb;
	blk_submit_one(rd->rd_mapping->as_host->i_sb->s_dev, &rb->rb_bio);
}

static bool can_append(const struct read_bio *rb, uint64_t offset, uint32_t max_bytes, size_t len)
{
	return rb != NULL && rb->rb_bio.bi_offset_bytes + rb->rb_bio.bi_len_bytes == offset &&
	       rb->rb_bio.bi_len_bytes + len <= max_bytes && rb->rb_nr_pages < WB_BIO_PAGES;
}

static void append_iov(struct read_bio *rb, uint8_t *data, size_t len)
{
	struct iovec *last = rb->rb_nr_iov > 0 ? &rb->rb_iov[rb->rb_nr_iov - 1] : NULL;

	if (last != NULL && (uint8_t *)last->iov_base + last->iov_len == data) {
		last->iov_len += len;
	} else {
		rb->rb_iov[rb->rb_nr_iov].iov_base = data;
		rb->rb_iov[rb->rb_nr_iov++].iov_len = len;
	}
	rb->rb_bio.bi_len_bytes += len;
}

/* The arrays are large and stay as they are: only the rest is set. */
static struct read_bio *new_read_bio(struct address_space *as, uint64_t dev_offset)
{
	struct read_bio *rb = malloc(sizeof(*rb));

	if (rb == NULL)
		return NULL;
	memset(&rb->rb_bio, 0, sizeof(rb->rb_bio));
	rb->rb_bio.bi_offset_bytes = dev_offset;
	rb->rb_mapping = as;
	rb->rb_nr_pages = 0;
	rb->rb_nr_iov = 0;
	return rb;
}

/* Read len bytes of the device into the page. */
static void add_segment(struct reader *rd, struct page *page, unsigned offset_in_page,
			uint64_t dev_offset, size_t len)
{
	uint32_t max = rd->rd_mapping->as_host->i_sb->s_dev->bd_max_bytes;
	struct read_bio *rb;

	if (!can_append(rd->rd_bio, dev_offset, max, len))
		submit_read(rd);
	if (rd->rd_bio == NULL) {
		rd->rd_bio = new_read_bio(rd->rd_mapping, dev_offset);
		if (rd->rd_bio == NULL) {
			page_set(page, PG_ERROR);
			return;
		}
	}
	rb = rd->rd_bio;
	if (rb->rb_nr_pages == 0 || rb->rb_pages[rb->rb_nr_pages - 1] != page) {
		rb->rb_pages[rb->rb_nr_pages++] = page;
		atomic_fetch_add_explicit(&page->p_io, 1, memory_order_relaxed);
	}
	append_iov(rb, page->p_data + offset_in_page, len);
}

/* Queue the reads of one new locked page, and zero what has no content. */
static void fill_page(struct reader *rd, struct page *page)
{
	struct address_space *as = rd->rd_mapping;
	ext4_lblk_t lblk = page_first_block(as, page->p_index);
	unsigned n = blocks_per_page(as);

	atomic_store_explicit(&page->p_io, 1, memory_order_relaxed);
	for (unsigned i = 0; i < n;) {
		struct map_cursor *cu = &rd->rd_cursor;
		unsigned len = n - i;
		size_t bytes;

		if (cursor_seek(as->as_host, cu, lblk + i, n - i) != 0) {
			page_set(page, PG_ERROR);
			break;
		}
		if (cu->cu_len < len)
			len = cu->cu_len;
		bytes = (size_t)len << as->as_blkbits;
		if (cu->cu_written)
			add_segment(rd, page, i << as->as_blkbits, cu->cu_pblk << as->as_blkbits,
				    bytes);
		else
			memset(page->p_data + ((size_t)i << as->as_blkbits), 0, bytes);
		i += len;
	}
	read_page_done(as, page);
}

/* ---- Runs of missing pages ---- */

/* Bits of the pages in [start, start + n) that are in the cache. */
static void find_present(struct address_space *as, uint32_t start, unsigned n, bool *present)
{
	struct page *pages[WB_BIO_PAGES];
	unsigned got;

	memset(present, 0, n * sizeof(*present));
	mutex_lock(&as->as_lock);
	got = page_index_gang(&as->as_index, start, start + n - 1, PAGE_TAG_ANY, pages, n);
	for (unsigned i = 0; i < got; i++)
		present[pages[i]->p_index - start] = true;
	mutex_unlock(&as->as_lock);
}

/* Make and read a run of missing pages that all have content. */
static int read_run(struct reader *rd, uint32_t start, unsigned n)
{
	struct blkdev *bd = rd->rd_mapping->as_host->i_sb->s_dev;
	struct page *frames[WB_BIO_PAGES];

	while (n > 0) {
		unsigned got = alloc_frames(rd->rd_mapping->as_wb, NULL, n, frames);

		if (got == 0)
			return -ENOMEM;
		for (unsigned i = 0; i < got; i++) {
			if (add_to_page_cache_locked(rd->rd_mapping, frames[i], start + i) != 0)
				page_put(rd->rd_mapping->as_wb, frames[i]);
			else
				fill_page(rd, frames[i]);
		}
		start += got;
		n -= got;
		if (n == 0)
			break;
		/* The next frames may be waited for: what has been made must not wait with us. */
		submit_read(rd);
		blk_finish_plug(bd);
		blk_start_plug(bd);
	}
	return 0;
}

static int read_batch(struct reader *rd, uint32_t start, unsigned n)
{
	bool present[WB_BIO_PAGES];
	unsigned run = 0;

	find_present(rd->rd_mapping, start, n, present);
	for (unsigned i = 0; i <= n; i++) {
		int ret = 0;

		if (i < n && !present[i])
			ret = page_has_content(rd, start + i, n - i);
		if (ret < 0)
			return ret;
		if (ret == 1) {
			run++;
			continue;
		}
		if (run > 0)
			ret = read_run(rd, start + i - run, run);
		if (ret < 0)
			return ret;
		run = 0;
	}
	return 0;
}

int read_pages_start(struct address_space *as, uint32_t start, unsigned n)
{
	struct reader rd = {.rd_mapping = as};
	struct blkdev *bd = as->as_host->i_sb->s_dev;
	int err = 0;

	blk_start_plug(bd);
	while (n > 0 && err == 0) {
		unsigned batch = n < WB_BIO_PAGES ? n : WB_BIO_PAGES;

		err = read_batch(&rd, start, batch);
		start += batch;
		n -= batch;
	}
	submit_read(&rd);
	blk_finish_plug(bd);
	return err;
}

/* ---- Policy ---- */

static uint32_t load(_Atomic uint32_t *v)
{
	return atomic_load_explicit(v, memory_order_relaxed);
}

static void store(_Atomic uint32_t *v, uint32_t value)
{
	atomic_store_explicit(v, value, memory_order_relaxed);
}

/* Pages of the file from index on. */
static uint32_t pages_left(struct address_space *as, uint32_t index)
{
	uint64_t pages = (i_size_read(as->as_host) + PAGE_SIZE - 1) >> PAGE_SHIFT;

	return pages > index ? (uint32_t)(pages - index) : 0;
}

void page_readahead(struct address_space *as, uint32_t start, unsigned n)
{
	uint32_t max = (uint32_t)(wb_tun(as->as_wb, TUN_READ_AHEAD_KB) << 10 >> PAGE_SHIFT);
	uint32_t next = load(&as->as_ra_next), window = load(&as->as_ra_pages);
	uint32_t end = start + n, ra_end = load(&as->as_ra_end), want;
	uint32_t fits = arena_total_frames(as->as_wb->wb_arena) / RA_CACHE_FRACTION;

	/* In a small cache reading far ahead would only evict what was read. */
	if (max > fits)
		max = fits;
	store(&as->as_ra_next, end);
	if (start > next || end < next || max == 0) {
		store(&as->as_ra_pages, 0);
		store(&as->as_ra_end, end);
		return;
	}
	if (ra_end < end || ra_end - end > max)
		ra_end = end;
	if (ra_end - end > window / 2)
		return;
	window = window == 0 ? (n * 2 > RA_MIN_PAGES ? n * 2 : RA_MIN_PAGES) : window * 2;
	if (window > max)
		window = max;
	want = window - (ra_end - end);
	if (want > pages_left(as, ra_end))
		want = pages_left(as, ra_end);
	store(&as->as_ra_pages, window);
	store(&as->as_ra_end, ra_end + want);
	/* A hint: what fails now is read, and fails visibly, when it is asked for. */
	if (want > 0 && read_pages_start(as, ra_end, want) == 0)
		counter_add(&as->as_wb->wb_stats.ws_readahead_pages, want);
}

/* ---- Reading in place ---- */

/* Blocks [first, first + n) of the locked page. */
static int read_blocks(struct page *page, struct map_cursor *cu, unsigned first, unsigned n)
{
	struct address_space *as = page->p_mapping;
	ext4_lblk_t lblk = page_first_block(as, page->p_index) + first;

	while (n > 0) {
		uint8_t *data = page->p_data + ((size_t)first << as->as_blkbits);
		int err = cursor_seek(as->as_host, cu, lblk, n);
		unsigned len = cu->cu_len < n ? cu->cu_len : n;

		if (err != 0)
			return err;
		if (!cu->cu_written)
			memset(data, 0, (size_t)len << as->as_blkbits);
		else
			err = blk_read(as->as_host->i_sb->s_dev, cu->cu_pblk << as->as_blkbits,
				       data, (size_t)len << as->as_blkbits, 0);
		if (err != 0)
			return err;
		first += len;
		lblk += len;
		n -= len;
	}
	return 0;
}

int read_page_blocks(struct page *page, uint8_t mask)
{
	struct address_space *as = page->p_mapping;
	struct map_cursor cu = {.cu_len = 0};

	ASSERT(page_test(page, PG_LOCKED));
	for (unsigned i = 0; i < blocks_per_page(as); i++) {
		unsigned bit = 1u << i;
		int err;

		if ((mask & bit) == 0 || (page->p_uptodate & bit) != 0)
			continue;
		err = read_blocks(page, &cu, i, 1);
		if (err != 0)
			return err;
		page->p_uptodate |= (uint8_t)bit;
	}
	if (page->p_uptodate == as->as_full_mask) {
		page_clear(page, PG_ERROR);
		page_set(page, PG_UPTODATE);
	}
	return 0;
}
