/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * buffered_write.c - write(2) into the cache.
 *
 * With delayed allocation: one call reserves the blocks of a batch of pages, the pages are found or made (adjacent frames for a sequential writer), locked in
 * ascending order, filled, tagged dirty under one hold of as_lock, and unlocked after i_size covers them. No handle is opened; times and size change in memory, and the flusher
 * or the conversion of the extent writes them. A block that is changed in part is read first, unless it lies past i_size.
 *
 * Without it (nodelalloc, or a nearly full file system): a handle maps one run of blocks, unwritten in extent files, and what that run covers is
 * written. Pages are only try-locked in there. In indirect-block files the copy happens inside the handle, so that the ordered list of its transaction finds the data dirty.
 *
 * Invariants: (1) whatever is dirty is reserved or mapped. (2) i_size covers a dirty page before its lock is released. (3) A page under writeback is waited for before it is changed.
 * (4) Nothing between the old i_size and the write reads as anything but zeros.
 * Locking: i_rwsem for write throughout; page locks of one batch, ascending.
 */
#include <string.h>

#include "ext4/super.h"
#include "util/time.h"
#include "writeback/internal.h"

#define WRITE_BATCH 64u	    /* pages */
#define CACHE_PER_BATCH 64u /* a batch is at most this part of the cache */

/* One batch: consecutive pages. */
struct batch {
	struct inode *b_inode;
	struct address_space *b_mapping;
	struct iov_iter *b_it;
	uint64_t b_pos;
	size_t b_len;
	uint32_t b_first; /* page index */
	unsigned b_nr;
	struct page *b_pages[WRITE_BATCH];
};

/* ---- Vectors ---- */

void iov_advance(struct iov_iter *it, size_t len)
{
	it->ii_off += len;
	while (it->ii_cnt > 0 && it->ii_off >= it->ii_iov->iov_len) {
		it->ii_off -= it->ii_iov->iov_len;
		it->ii_iov++;
		it->ii_cnt--;
	}
}

static size_t iov_piece(const struct iov_iter *it, size_t len)
{
	size_t left = it->ii_iov->iov_len - it->ii_off;

	return len < left ? len : left;
}

void iov_copy_from(struct iov_iter *it, void *dst, size_t len)
{
	while (len > 0) {
		size_t n = iov_piece(it, len);

		memcpy(dst, (const uint8_t *)it->ii_iov->iov_base + it->ii_off, n);
		dst = (uint8_t *)dst + n;
		len -= n;
		iov_advance(it, n);
	}
}

void iov_copy_to(struct iov_iter *it, const void *src, size_t len)
{
	while (len > 0) {
		size_t n = iov_piece(it, len);

		memcpy((uint8_t *)it->ii_iov->iov_base + it->ii_off, src, n);
		src = (const uint8_t *)src + n;
		len -= n;
		iov_advance(it, n);
	}
}

/* ---- Pages of a batch ---- */

/* The part of the batch that lies in page i. */
static void page_part(const struct batch *b, unsigned i, unsigned *off, unsigned *len)
{
	uint64_t start = (uint64_t)(b->b_first + i) << PAGE_SHIFT;
	uint64_t from = b->b_pos > start ? b->b_pos : start;
	uint64_t to = b->b_pos + b->b_len;

	if (to > start + PAGE_SIZE)
		to = start + PAGE_SIZE;
	*off = (unsigned)(from - start);
	*len = (unsigned)(to - from);
}

static uint8_t block_mask(const struct address_space *as, unsigned off, unsigned len)
{
	unsigned first = off >> as->as_blkbits;
	unsigned last = (off + len - 1) >> as->as_blkbits;

	return (uint8_t)(((2u << last) - 1) & ~((1u << first) - 1));
}

/*
 * Block `block` of the locked page is overwritten in [off, off + len) only: the rest must be right.
 */
static int prepare_block(struct page *page, unsigned block, unsigned off, unsigned len)
{
	struct address_space *as = page->p_mapping;
	unsigned size = 1u << as->as_blkbits, start = block << as->as_blkbits;
	uint64_t file_pos = ((uint64_t)page->p_index << PAGE_SHIFT) + start;
	uint64_t i_size = i_size_read(as->as_host);
	int err;

	if ((off <= start && off + len >= start + size) || (page->p_uptodate >> block & 1))
		return 0;
	if (file_pos >= i_size) {
		memset(page->p_data + start, 0, size);
		page->p_uptodate |= (uint8_t)(1u << block);
		return 0;
	}
	counter_inc(&as->as_wb->wb_stats.ws_rmw_reads);
	err = read_page_blocks(page, (uint8_t)(1u << block));
	if (err == 0 && i_size - file_pos < size)
		memset(page->p_data + start + (i_size - file_pos), 0,
		       size - (size_t)(i_size - file_pos));
	return err;
}

/* Only the first and the last block can be written in part. */
static int prepare_page(struct batch *b, unsigned i)
{
	struct page *page = b->b_pages[i];
	unsigned off, len, first, last;
	int err;

	if (page_test(page, PG_UPTODATE))
		return 0;
	page_part(b, i, &off, &len);
	first = off >> b->b_mapping->as_blkbits;
	last = (off + len - 1) >> b->b_mapping->as_blkbits;
	err = prepare_block(page, first, off, len);
	if (err == 0 && last != first)
		err = prepare_block(page, last, off, len);
	return err;
}

static void copy_page(struct batch *b, unsigned i)
{
	struct page *page = b->b_pages[i];
	unsigned off, len;
	uint8_t mask;

	page_part(b, i, &off, &len);
	iov_copy_from(b->b_it, page->p_data + off, len);
	mask = block_mask(b->b_mapping, off, len);
	page->p_uptodate |= mask;
	page->p_dirty |= mask;
	if (page->p_uptodate == b->b_mapping->as_full_mask && !page_test(page, PG_UPTODATE))
		page_set(page, PG_UPTODATE);
}

static void unlock_batch(struct batch *b, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		struct page *page = b->b_pages[i];

		/* Nobody else would make it a candidate for eviction. */
		if (!page_test(page, PG_DIRTY | PG_LRU))
			page_lru_add(b->b_mapping->as_wb, &page, 1);
		unlock_page(page);
	}
}

static void put_batch(struct batch *b)
{
	for (unsigned i = 0; i < b->b_nr; i++)
		page_put(b->b_mapping->as_wb, b->b_pages[i]);
}

/* Find or make the pages; the batch may become shorter than wanted. */
static int grab_batch(struct batch *b)
{
	b->b_first = (uint32_t)(b->b_pos >> PAGE_SHIFT);
	b->b_nr = (unsigned)(((b->b_pos + b->b_len - 1) >> PAGE_SHIFT) - b->b_first) + 1;
	return grab_pages(b->b_mapping, b->b_first, b->b_nr, true, b->b_pages);
}

static void wait_batch(struct batch *b)
{
	for (unsigned i = 0; i < b->b_nr; i++)
		wait_on_page_writeback(b->b_mapping, b->b_pages[i]);
}

/* Lock all pages, none under writeback, and make the rest of partly written blocks right. On error none is locked. */
static int lock_and_prepare(struct batch *b)
{
	wait_batch(b);
	for (unsigned i = 0; i < b->b_nr; i++) {
		int err;

		lock_page(b->b_pages[i]);
		/* We hold a reference and i_rwsem: nobody takes it out of the mapping. */
		ASSERT(b->b_pages[i]->p_mapping == b->b_mapping);
		wait_on_page_writeback(b->b_mapping, b->b_pages[i]);
		err = prepare_page(b, i);
		if (err != 0) {
			unlock_batch(b, i + 1);
			return err;
		}
	}
	return 0;
}

static void extend_size(struct batch *b)
{
	if (b->b_pos + b->b_len > i_size_read(b->b_inode))
		i_size_write(b->b_inode, b->b_pos + b->b_len);
}

/* Copy into the locked pages, let i_size cover them, tag them. They stay locked. */
static void fill_batch(struct batch *b)
{
	for (unsigned i = 0; i < b->b_nr; i++)
		copy_page(b, i);
	extend_size(b);
	set_pages_dirty(b->b_mapping, b->b_pages, b->b_nr);
}

/* ---- Delayed allocation ---- */

static int reserve_batch(struct batch *b, const struct ext4_cred *cred)
{
	unsigned bits = b->b_mapping->as_blkbits;
	ext4_lblk_t first = (ext4_lblk_t)(b->b_pos >> bits);
	ext4_lblk_t last = (ext4_lblk_t)((b->b_pos + b->b_len - 1) >> bits);

	return ext4_da_reserve_range(b->b_inode, first, last - first + 1, cred);
}

/* The blocks of the batch that did not become dirty were reserved for nothing. */
static void unreserve_batch(struct batch *b, bool have_pages)
{
	struct address_space *as = b->b_mapping;
	unsigned bits = as->as_blkbits;
	ext4_lblk_t last = (ext4_lblk_t)((b->b_pos + b->b_len - 1) >> bits);

	for (ext4_lblk_t lblk = (ext4_lblk_t)(b->b_pos >> bits); lblk <= last; lblk++) {
		uint32_t index = lblk >> (PAGE_SHIFT - bits);
		struct page *page =
			have_pages ? b->b_pages[index - b->b_first] : find_get_page(as, index);
		uint8_t bit = (uint8_t)(1u << (lblk & (blocks_per_page(as) - 1)));
		bool dirty = false;

		if (page != NULL) {
			lock_page(page);
			dirty = (page->p_dirty & bit) != 0 || page_test(page, PG_WRITEBACK);
			unlock_page(page);
		}
		if (page != NULL && !have_pages)
			page_put(as->as_wb, page);
		if (!dirty)
			(void)ext4_da_release_range(b->b_inode, lblk, 1);
	}
}

static int write_batch_delayed(struct batch *b, const struct ext4_cred *cred)
{
	int err = reserve_batch(b, cred);

	if (err != 0)
		return err;
	err = grab_batch(b);
	if (err != 0) {
		unreserve_batch(b, false);
		return err;
	}
	err = lock_and_prepare(b);
	if (err == 0) {
		fill_batch(b);
		unlock_batch(b, b->b_nr);
	} else {
		unreserve_batch(b, true);
	}
	put_batch(b);
	return err;
}

/* ---- Allocation at once ---- */

/* Everything is prepared; with the handle open nothing is waited for. */
static bool trylock_batch(struct batch *b)
{
	for (unsigned i = 0; i < b->b_nr; i++) {
		bool locked = trylock_page(b->b_pages[i]);

		if (locked && !page_test(b->b_pages[i], PG_WRITEBACK))
			continue;
		unlock_batch(b, locked ? i + 1 : i);
		return false;
	}
	return true;
}

/* Cut the batch down to what the run [lblk, lblk + len) covers. */
static void shorten_batch(struct batch *b, ext4_lblk_t lblk, uint32_t len)
{
	uint64_t end = ((uint64_t)lblk + len) << b->b_mapping->as_blkbits;
	unsigned nr;

	if (b->b_pos + b->b_len <= end)
		return;
	b->b_len = (size_t)(end - b->b_pos);
	nr = (unsigned)(((b->b_pos + b->b_len - 1) >> PAGE_SHIFT) - b->b_first) + 1;
	for (unsigned i = nr; i < b->b_nr; i++)
		page_put(b->b_mapping->as_wb, b->b_pages[i]);
	b->b_nr = nr;
}

/* Map the first run of the batch; blocks that are delayed stay so. */
static int map_batch(handle_t *handle, struct batch *b, bool *new_blocks)
{
	unsigned bits = b->b_mapping->as_blkbits;
	struct ext4_map_blocks map = {
		.m_lblk = (ext4_lblk_t)(b->b_pos >> bits),
	};
	unsigned flags = EXT4_GET_BLOCKS_CREATE;
	int ret;

	map.m_len = (uint32_t)(((b->b_pos + b->b_len - 1) >> bits) - map.m_lblk) + 1;
	if (ext4_is_extents(b->b_inode))
		flags |= EXT4_GET_BLOCKS_UNWRIT_EXT;
	ret = ext4_map_blocks(NULL, b->b_inode, &map, 0);
	if (ret == 0 && (map.m_flags & EXT4_MAP_DELAYED) == 0)
		ret = ext4_map_blocks(handle, b->b_inode, &map, flags);
	if (ret < 0)
		return ret;
	if (map.m_flags & EXT4_MAP_NEW)
		*new_blocks = true;
	shorten_batch(b, map.m_lblk, map.m_len);
	return 0;
}

/*
 * In a file without extents the transaction that allocates takes the data along, and i_disksize moves with it: over what was
 * written into the old last block, too, which therefore is ordered as well.
 */
static int order_batch(handle_t *handle, struct batch *b, bool new_blocks)
{
	struct inode *inode = b->b_inode;
	uint64_t start = atomic_load(&inode->i_disksize);
	int err = 0;

	if (ext4_is_extents(inode) || !new_blocks)
		return 0;
	if (start > b->b_pos)
		start = b->b_pos;
	if (inode->i_sb->s_opts.o_data == DATA_ORDERED)
		err = jbd2_journal_inode_ranged_write(handle, &inode->i_jinode, start,
						      b->b_pos + b->b_len - start);
	if (err == 0 && ext4_update_disksize(inode, b->b_pos + b->b_len))
		err = ext4_mark_inode_dirty(handle, inode);
	return err;
}

/* 1: done, 0: a page was busy, again. */
static int write_batch_in_handle(struct batch *b, bool *new_blocks)
{
	handle_t *handle = ext4_journal_start(b->b_inode, HT_WRITE_PAGE,
					      ext4_writepage_trans_blocks(b->b_inode));
	int err, done = 0;

	if (IS_ERR(handle))
		return PTR_ERR(handle);
	err = map_batch(handle, b, new_blocks);
	if (err == 0 && trylock_batch(b)) {
		fill_batch(b);
		unlock_batch(b, b->b_nr);
		err = order_batch(handle, b, *new_blocks);
		done = 1;
	}
	err = ext4_journal_stop(handle, err);
	return err != 0 ? err : done;
}

static int write_batch_now(struct batch *b)
{
	bool new_blocks = false;
	unsigned retries = 0;
	int ret = grab_batch(b);

	if (ret != 0)
		return ret;
	do {
		ret = lock_and_prepare(b);
		if (ret != 0)
			break;
		unlock_batch(b, b->b_nr);
		ret = write_batch_in_handle(b, &new_blocks);
		if (ret == -ENOSPC && ext4_should_retry_alloc(b->b_inode->i_sb, &retries))
			ret = 0;
	} while (ret == 0);
	put_batch(b);
	return ret < 0 ? ret : 0;
}

/* ---- write(2) ---- */

static bool use_delalloc(struct inode *inode)
{
	bool start_writeback = false;
	bool nonda;

	if (!inode->i_sb->s_opts.o_delalloc)
		return false;
	nonda = ext4_nonda_switch(inode->i_sb, &start_writeback);
	if (start_writeback)
		wb_start_writeback(inode->i_sb->s_wb, LONG_MAX, WB_REASON_FREE_SPACE);
	return !nonda;
}

/* A full file system takes what still fits: page by page, then block by block. */
static bool shorten_for_space(struct batch *b, size_t *limit)
{
	size_t in_page = PAGE_SIZE - (b->b_pos & (PAGE_SIZE - 1));
	size_t block = (size_t)1 << b->b_mapping->as_blkbits;
	size_t in_block = block - (b->b_pos & (block - 1));

	if (b->b_len > in_page)
		*limit = in_page;
	else if (b->b_len > in_block)
		*limit = in_block;
	else
		return false;
	return true;
}

/* In a small cache many writers at once must not hold all frames while they wait for more. */
static size_t batch_len(struct wb_domain *wb, uint64_t pos, size_t len)
{
	size_t pages = arena_total_frames(wb->wb_arena) / CACHE_PER_BATCH;
	size_t max =
		(pages < WRITE_BATCH ? pages : WRITE_BATCH) * PAGE_SIZE - (pos & (PAGE_SIZE - 1));

	return len < max ? len : max;
}

ssize_t buffered_write_locked(struct inode *inode, struct iov_iter *it, size_t len, uint64_t pos,
			      const struct ext4_cred *cred)
{
	bool delalloc = use_delalloc(inode);
	size_t done = 0, limit = SIZE_MAX;
	int err = 0;

	if (pos > i_size_read(inode))
		err = zero_eof_tail(inode);
	/* order_batch() moves i_disksize: no delayed block may lie before that. */
	if (err == 0 && !delalloc && !ext4_is_extents(inode) &&
	    ext4_inode_reserved_blocks(inode) > 0)
		err = write_and_wait_checked(inode, 0, UINT64_MAX);
	while (done < len && err >= 0) {
		struct batch b = {.b_inode = inode, .b_mapping = inode->i_mapping, .b_it = it};

		b.b_pos = pos + done;
		b.b_len = batch_len(inode->i_sb->s_wb, b.b_pos, len - done);
		if (b.b_len > limit)
			b.b_len = limit;
		err = delalloc ? write_batch_delayed(&b, cred) : write_batch_now(&b);
		if (err == 0)
			done += b.b_len;
		else if (err == -ENOSPC && shorten_for_space(&b, &limit))
			err = 0;
	}
	return done > 0 ? (ssize_t)done : err;
}

static int64_t time_diff(struct timespec a, struct timespec b)
{
	return a.tv_sec != b.tv_sec ? a.tv_sec - b.tv_sec : a.tv_nsec - b.tv_nsec;
}

void file_update_time(struct inode *inode)
{
	struct timespec now = ext4_clamp_time(inode, now_coarse());
	bool changed;

	mutex_lock(&inode->i_lock);
	changed = time_diff(inode->i_mtime, now) != 0 || time_diff(inode->i_ctime, now) != 0;
	inode->i_mtime = now;
	inode->i_ctime = now;
	mutex_unlock(&inode->i_lock);
	if (changed)
		ext4_inode_set_dirty(inode,
				     inode->i_sb->s_opts.o_lazytime ? I_DIRTY_TIME : I_DIRTY_SYNC);
}

/* How much may be written, w_pos settled; 0: nothing to do. */
static ssize_t write_limit(struct inode *inode, struct wb_write *w)
{
	uint64_t size = i_size_read(inode), max = ext4_max_size(inode);

	if (w->w_flags & WB_WRITE_APPEND)
		w->w_pos = size;
	if (w->w_flags & WB_WRITE_CACHE)
		max = size < max ? size : max;
	else if (inode->i_flags & EXT2_IMMUTABLE_FL)
		return -EPERM;
	if (w->w_len == 0)
		return 0;
	if (w->w_pos >= max)
		return w->w_flags & WB_WRITE_CACHE ? 0 : -EFBIG;
	return w->w_len < max - w->w_pos ? (ssize_t)w->w_len : (ssize_t)(max - w->w_pos);
}

static int prepare_inode(struct inode *inode, struct wb_write *w)
{
	const struct ext4_upper_ops *upper = inode->i_sb->s_upper;
	int err = 0;

	if (upper != NULL && upper->file_remove_privs != NULL)
		err = upper->file_remove_privs(
			inode, (w->w_flags & WB_WRITE_KILL_SUIDGID) != 0 ? EXT4_KILL_SUIDGID : 0,
			&w->w_has_privs_to_drop);
	if (err == 0)
		file_update_time(inode);
	return err;
}

static ssize_t write_locked(struct inode *inode, struct wb_write *w)
{
	struct iov_iter it = {.ii_iov = w->w_iov, .ii_cnt = w->w_iovcnt};
	ssize_t len = write_limit(inode, w);
	int err;

	if (len <= 0)
		return len;
	err = prepare_inode(inode, w);
	if (err != 0)
		return err;
	if (w->w_flags & WB_WRITE_DIRECT)
		return direct_write_locked(inode, w, (size_t)len);
	return buffered_write_locked(inode, &it, (size_t)len, w->w_pos, &w->w_cred);
}

ssize_t file_write(struct inode *inode, struct wb_write *w)
{
	ssize_t ret = ext4_check_writable(inode->i_sb);

	w->w_has_privs_to_drop = false;
	if (ret == 0 && inode->i_mapping == NULL)
		ret = -EINVAL;
	if (ret != 0)
		return ret;
	if ((w->w_flags & WB_WRITE_DIRECT) == 0 || !direct_overwrite(inode, w, &ret)) {
		down_write(&inode->i_rwsem);
		ret = write_locked(inode, w);
		up_write(&inode->i_rwsem);
	}
	if (ret > 0) {
		counter_add(&inode->i_sb->s_wb->wb_stats.ws_written_bytes, (uint64_t)ret);
		if (w->w_flags & WB_WRITE_DIRECT)
			notify_invalidate(inode, w->w_pos, (uint64_t)ret);
		if (w->w_flags & (WB_WRITE_SYNC | WB_WRITE_DSYNC)) {
			int err = finish_sync_write(inode, w->w_pos, (size_t)ret, w->w_flags);

			ret = err != 0 ? err : ret;
		}
	}
	/* The kernel's page reaches past our end of file: that part needs no place. */
	if (ret >= 0 && (w->w_flags & WB_WRITE_CACHE))
		ret = (ssize_t)w->w_len;
	return ret;
}
