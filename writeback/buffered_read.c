/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * buffered_read.c - reading through the cache: pinned frames for the reply, no copy.
 *
 * The pages of the range that have content on the disk are made and read in one go, readahead follows, and then each page is waited for. What is missing
 * after that has no content: the reply points at a page of zeros. The references keep frames alive until the reply was sent, whatever happens to the file.
 *
 * Invariants: (1) bytes past i_size are never handed out. (2) A missing page is taken for zeros only after the map has said so.
 * Locking: as_invalidate_lock for read, so that blocks and pages agree; page locks one at a time.
 */
#include <fcntl.h>
#include <string.h>

#include "util/time.h"
#include "writeback/internal.h"

#define ATIME_MAX_AGE_S (24 * 3600)

static uint8_t zero_page[PAGE_SIZE] __attribute__((aligned(4096)));

/* ---- atime ---- */

static int64_t cmp_time(struct timespec a, struct timespec b)
{
	if (a.tv_sec != b.tv_sec)
		return a.tv_sec < b.tv_sec ? -1 : 1;
	return a.tv_nsec - b.tv_nsec;
}

static bool atime_is_due(const struct inode *inode, struct timespec now)
{
	if (inode->i_sb->s_opts.o_atime == ATIME_STRICT)
		return cmp_time(inode->i_atime, now) != 0;
	return cmp_time(inode->i_atime, inode->i_mtime) <= 0 ||
	       cmp_time(inode->i_atime, inode->i_ctime) <= 0 ||
	       now.tv_sec - inode->i_atime.tv_sec >= ATIME_MAX_AGE_S;
}

void touch_atime(struct inode *inode, unsigned o_flags)
{
	struct super_block *sb = inode->i_sb;
	struct timespec now;
	bool due;

	if ((o_flags & O_NOATIME) || sb->s_opts.o_atime == ATIME_NOATIME || sb_rdonly(sb) ||
	    (inode->i_flags & EXT2_NOATIME_FL))
		return;
	now = ext4_clamp_time(inode, now_coarse());
	mutex_lock(&inode->i_lock);
	due = atime_is_due(inode, now);
	if (due)
		inode->i_atime = now;
	mutex_unlock(&inode->i_lock);
	if (due)
		ext4_inode_set_dirty(inode, sb->s_opts.o_lazytime ? I_DIRTY_TIME : I_DIRTY_SYNC);
}

/* ---- Pages ---- */

/* The page's content is in memory. as_invalidate_lock held: it cannot leave the mapping, for we have a reference. */
static int wait_uptodate(struct address_space *as, struct page *page)
{
	int err = 0;

	if (page_test(page, PG_UPTODATE))
		return 0;
	wait_on_page_locked(page);
	if (page_test(page, PG_UPTODATE))
		return 0;
	lock_page(page);
	if (!page_test(page, PG_UPTODATE))
		err = read_page_blocks(page, as->as_full_mask);
	if (!page_test(page, PG_DIRTY | PG_WRITEBACK))
		page_lru_add(as->as_wb, &page, 1);
	unlock_page(page);
	return err;
}

/* True if the map has content for the page, which was not in the cache a moment ago. */
static int page_is_hole(struct address_space *as, uint32_t index)
{
	struct ext4_map_blocks map = {.m_lblk = page_first_block(as, index)};
	unsigned left = blocks_per_page(as);

	while (left > 0) {
		int ret;

		map.m_len = left;
		ret = ext4_map_blocks(NULL, as->as_host, &map, 0);
		if (ret < 0)
			return ret;
		if (map.m_flags & EXT4_MAP_MAPPED)
			return 0;
		left -= map.m_len;
		map.m_lblk += map.m_len;
	}
	return 1;
}

/* A page that was missing: NULL for a hole, else made (it was evicted at once, or a writer has just made it). */
static int resolve_missing(struct address_space *as, uint32_t index, struct page **out)
{
	int ret;

	*out = find_get_page(as, index);
	if (*out != NULL)
		return 0;
	ret = page_is_hole(as, index);
	if (ret != 0)
		return ret < 0 ? ret : 0;
	return grab_pages(as, index, 1, false, out);
}

static void add_iov(struct wb_read *out, uint8_t *data, size_t len)
{
	struct iovec *last = out->r_iovcnt > 0 ? &out->r_iov[out->r_iovcnt - 1] : NULL;

	if (last != NULL && (uint8_t *)last->iov_base + last->iov_len == data) {
		last->iov_len += len;
	} else {
		out->r_iov[out->r_iovcnt].iov_base = data;
		out->r_iov[out->r_iovcnt++].iov_len = len;
	}
	out->r_bytes += len;
}

/* Start what is missing; returns how many pages of the range are in the cache with their references, in order. */
static int start_reads(struct address_space *as, uint32_t first, unsigned n, struct page **pages)
{
	struct wb_stats *st = &as->as_wb->wb_stats;
	unsigned got = find_get_pages(as, first, first + n - 1, PAGE_TAG_ANY, pages, n);
	int err = 0;

	counter_add(&st->ws_read_pages, n);
	counter_add(&st->ws_read_hits, got);
	if (got < n) {
		for (unsigned i = 0; i < got; i++)
			page_put(as->as_wb, pages[i]);
		err = read_pages_start(as, first, n);
		if (err != 0)
			return err;
		got = 0;
	}
	page_readahead(as, first, n);
	if (got == 0)
		got = find_get_pages(as, first, first + n - 1, PAGE_TAG_ANY, pages, n);
	return (int)got;
}

/* Take over the references in pages[0..got), filling in what is not there, as far as it goes. */
static int collect_pages(struct address_space *as, uint64_t pos, size_t len, struct page **pages,
			 int got, struct wb_read *out)
{
	uint64_t end = pos + len;
	int next = 0, err = 0;

	while (pos < end) {
		uint32_t index = (uint32_t)(pos >> PAGE_SHIFT);
		size_t off = pos & (PAGE_SIZE - 1);
		size_t bytes = PAGE_SIZE - off < end - pos ? PAGE_SIZE - off : (size_t)(end - pos);
		struct page *page = NULL;

		if (next < got && pages[next]->p_index == index)
			page = pages[next++];
		else
			err = resolve_missing(as, index, &page);
		if (page != NULL)
			out->r_page_store[out->r_nr_pages++] = page;
		if (page != NULL && err == 0)
			err = wait_uptodate(as, page);
		if (err != 0)
			break;
		if (page != NULL)
			page_set(page, PG_REFERENCED);
		add_iov(out, page != NULL ? page->p_data + off : zero_page + off, bytes);
		pos += bytes;
	}
	for (; next < got; next++)
		page_put(as->as_wb, pages[next]);
	return err;
}

int file_read(struct inode *inode, uint64_t pos, size_t len, unsigned o_flags, struct wb_read *out)
{
	struct address_space *as = inode->i_mapping;
	struct page *pages[WB_BIO_PAGES + 1];
	uint64_t size;
	int ret = 0;

	out->r_iovcnt = 0;
	out->r_bytes = 0;
	out->r_nr_pages = 0;
	out->r_pages = NULL;
	if (as == NULL)
		return -EINVAL;
	out->r_pages = as->as_wb;
	if (atomic_load(&inode->i_sb->s_shutdown))
		return -EIO;
	if (len > WB_BIO_PAGES * PAGE_SIZE)
		len = WB_BIO_PAGES * PAGE_SIZE;
	down_read(&as->as_invalidate_lock);
	size = i_size_read(inode);
	if (pos < size && len > 0) {
		uint32_t first = (uint32_t)(pos >> PAGE_SHIFT);

		if (len > size - pos)
			len = (size_t)(size - pos);
		ret = start_reads(as, first,
				  (unsigned)(((pos + len - 1) >> PAGE_SHIFT) - first) + 1, pages);
		if (ret >= 0)
			ret = collect_pages(as, pos, len, pages, ret, out);
	}
	up_read(&as->as_invalidate_lock);
	/* What was read before the error is the answer; the error comes with the next read. */
	if (ret < 0 && out->r_bytes == 0) {
		wb_read_done(out);
		return ret;
	}
	counter_add(&as->as_wb->wb_stats.ws_read_bytes, out->r_bytes);
	touch_atime(inode, o_flags);
	return 0;
}

void wb_read_done(struct wb_read *r)
{
	for (unsigned i = 0; i < r->r_nr_pages; i++)
		page_put(r->r_pages, r->r_page_store[i]);
	r->r_nr_pages = 0;
}
