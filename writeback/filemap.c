/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * filemap.c - writing and waiting for ranges of a file, and the ordered data of a commit.
 *
 * A wait covers the requests that were submitted before it: each page under writeback is visited once, and io_ends up to the number that was the
 * last at the start. A commit has a way of its own: it writes only what is mapped, opens no handle, takes no lock that is held over one, and waits for requests only.
 *
 * Invariants: (1) after filemap_fdatawait_range() extents of the range that were submitted before are converted. (2) wb_write_ordered_data() never waits for
 * a handle, whoever holds it.
 * Locking: page locks one at a time; no handle.
 */
#include "writeback/internal.h"

#define GANG 16u
#define PLUG_PAGES 256u

/* ---- Ranges ---- */

int filemap_fdatawrite_range(struct address_space *as, uint64_t start, uint64_t end,
			     enum writeback_sync_modes mode)
{
	struct writeback_control wbc = {
		.nr_to_write = LONG_MAX,
		.range_start = start,
		.range_end = end,
		.sync_mode = mode,
	};

	return do_writepages(as, &wbc);
}

void filemap_fdatawait_range(struct address_space *as, uint64_t start, uint64_t end)
{
	uint64_t seq = last_io_end(as);
	uint64_t index = start >> PAGE_SHIFT, last = end >> PAGE_SHIFT;
	struct page *pages[GANG];

	/* First: what has to be converted is converted here. Then there are those that only had to be written. */
	wait_io_ends(as, seq);
	if (last > PAGE_INDEX_MAX)
		last = PAGE_INDEX_MAX;
	while (index <= last) {
		unsigned n = find_get_pages(as, (uint32_t)index, (uint32_t)last, PAGE_TAG_WRITEBACK,
					    pages, GANG);

		if (n == 0)
			break;
		index = (uint64_t)pages[n - 1]->p_index + 1;
		for (unsigned i = 0; i < n; i++) {
			wait_on_page_writeback(as, pages[i]);
			page_put(as->as_wb, pages[i]);
		}
	}
	/* Whose request failed meanwhile: the caller must find the journal aborted. */
	if (as->as_host->i_sb->s_opts.o_data_err_abort)
		wait_io_ends(as, last_io_end(as));
}

int filemap_write_and_wait_range(struct inode *inode, uint64_t start, uint64_t end_inclusive)
{
	struct address_space *as = inode->i_mapping;
	struct blkdev *bd = inode->i_sb->s_dev;
	int err;

	if (as == NULL)
		return 0;
	if (as->as_wb->wb_manual || atomic_load(&as->as_nr_dirty) > PLUG_PAGES) {
		err = filemap_fdatawrite_range(as, start, end_inclusive, WB_SYNC_ALL);
		filemap_fdatawait_range(as, start, end_inclusive);
		return err;
	}
	/* Little: it may be a single request, which goes out and is converted without any other thread. */
	blk_start_plug(bd);
	err = filemap_fdatawrite_range(as, start, end_inclusive, WB_SYNC_ALL);
	expect_io_ends(as);
	blk_finish_plug_wait(bd);
	wait_io_ends(as, last_io_end(as));
	/* Before pages are waited for: they may hang on a later io_end, which nobody converts while we are expected to. */
	unexpect_io_ends(as);
	filemap_fdatawait_range(as, start, end_inclusive);
	return err;
}

int filemap_fdatawrite(struct inode *inode)
{
	if (inode->i_mapping == NULL)
		return 0;
	return filemap_fdatawrite_range(inode->i_mapping, 0, UINT64_MAX, WB_SYNC_NONE);
}

/* ---- Ordered data ---- */

static void wait_data_range(struct address_space *as, uint64_t start_bytes, uint64_t end_bytes)
{
	uint64_t index = start_bytes >> PAGE_SHIFT, last = (end_bytes - 1) >> PAGE_SHIFT;
	struct page *pages[GANG];
	unsigned n;

	while (index <= last && (n = find_get_pages(as, (uint32_t)index, (uint32_t)last,
						    PAGE_TAG_WRITEBACK, pages, GANG)) > 0) {
		index = (uint64_t)pages[n - 1]->p_index + 1;
		for (unsigned i = 0; i < n; i++) {
			wait_on_page_data(pages[i]);
			page_put(as->as_wb, pages[i]);
		}
	}
}

int write_mapped_blocks(struct address_space *as, const struct page *page)
{
	struct super_block *sb = as->as_host->i_sb;
	uint64_t pos = (uint64_t)page->p_index << PAGE_SHIFT, size = i_size_read(as->as_host);
	unsigned bits = as->as_blkbits;
	int err = 0;

	for (unsigned i = 0; i < blocks_per_page(as) && err >= 0; i++, pos += UINT64_C(1) << bits) {
		struct ext4_map_blocks map = {.m_lblk = (ext4_lblk_t)(pos >> bits), .m_len = 1};

		if ((page->p_dirty >> i & 1) == 0 || pos >= size)
			continue;
		err = ext4_map_blocks(NULL, as->as_host, &map, 0);
		if (err > 0 && (map.m_flags & EXT4_MAP_MAPPED) != 0)
			err = blk_write(sb->s_dev, map.m_pblk << bits,
					page->p_data + ((size_t)i << bits), (size_t)1 << bits, 0);
	}
	return err < 0 ? err : 0;
}

/*
 * The inode has no names and no holders any more, but the transaction that commits does not know that yet: without its data the new blocks would show
 * what others had in them. Requests of the usual kind would need a reference. ext4_evict_data() waits until this is done before it drops the pages.
 */
static int write_evicted(struct address_space *as, uint64_t start_bytes, uint64_t end_bytes)
{
	uint64_t index = start_bytes >> PAGE_SHIFT, last = (end_bytes - 1) >> PAGE_SHIFT;
	struct page *pages[GANG];
	unsigned n;
	int err = 0;

	while (index <= last && (n = find_get_pages(as, (uint32_t)index, (uint32_t)last,
						    PAGE_TAG_DIRTY, pages, GANG)) > 0) {
		index = (uint64_t)pages[n - 1]->p_index + 1;
		for (unsigned i = 0; i < n; i++) {
			int ret = 0;

			lock_page(pages[i]);
			if (pages[i]->p_mapping == as && page_test(pages[i], PG_DIRTY))
				ret = write_mapped_blocks(as, pages[i]);
			unlock_page(pages[i]);
			page_put(as->as_wb, pages[i]);
			err = err != 0 ? err : ret;
		}
	}
	return err;
}

/* With data_err=abort: an earlier request failed, and the abort may be on its way. */
static bool data_lost(struct address_space *as)
{
	bool lost;

	mutex_lock(&as->as_end_lock);
	lost = as->as_data_lost;
	mutex_unlock(&as->as_end_lock);
	return lost;
}

int wb_write_ordered_data(struct inode *inode, uint64_t start_bytes, uint64_t end_bytes)
{
	struct address_space *as = inode->i_mapping;
	uint32_t before;
	int err;

	if (as == NULL || start_bytes >= end_bytes)
		return 0;
	/* Not found: it is being evicted. Otherwise the I/O needs the reference. */
	if (ext4_ilookup(inode->i_sb, inode->i_ino) != inode)
		return write_evicted(as, start_bytes, end_bytes);
	before = atomic_load(&as->as_wb_err);
	err = write_mapped_range(as, start_bytes, end_bytes);
	wait_data_range(as, start_bytes, end_bytes);
	/* The error stays unseen: it is also told to those who have the file open. */
	if (err == 0 && (atomic_load(&as->as_wb_err) != before || data_lost(as)))
		err = -EIO;
	iput(inode);
	return err;
}
