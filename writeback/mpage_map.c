/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * mpage_map.c - the run of pages that was taken: mapped by one allocation, submitted, or released. Follows mpage_map_and_submit_extent() of fs/ext4/inode.c.
 *
 * One call of ext4_map_blocks() maps what it can of the run; pages that it covers are submitted, the others are released and taken again. A page with small blocks of which it covers a part is
 * completed by further calls. New blocks of extent files are mapped unwritten and converted by the io_end. New blocks of indirect-block files are put on the transaction's ordered list, and
 * i_disksize moves in the mapping handle.
 *
 * Invariants: (1) only blocks that were dirty are converted: clean neighbours in a page stay unwritten. (2) A page is submitted only if all its dirty blocks are mapped.
 * Locking: the pages of the run are locked; a handle is open while mapping.
 */
#include <string.h>

#include "util/trace.h"
#include "writeback/mpage.h"

/* ---- The run that was taken ---- */

void mpage_release_taken(struct mpage_da_data *mpd)
{
	if (mpd->mp_nr > 0)
		mpage_set_first(mpd, mpd->mp_pages[0]->p_index);
	for (unsigned i = 0; i < mpd->mp_nr; i++) {
		unlock_page(mpd->mp_pages[i]);
		page_put(mpd->mp_mapping->as_wb, mpd->mp_pages[i]);
	}
	mpd->mp_nr = 0;
}

static ext4_fsblk_t mapped_pblk(void *arg, ext4_lblk_t lblk)
{
	const struct mpage_da_data *mpd = arg;

	for (unsigned i = 0; i < mpd->mp_nr_runs; i++) {
		const struct map_run *r = &mpd->mp_runs[i];

		if (lblk >= r->r_lblk && lblk - r->r_lblk < r->r_len)
			return r->r_pblk + (lblk - r->r_lblk);
	}
	ASSERT(false);
	return 0;
}

/* Letters as in the kernel's trace points, and D for delayed. */
static uint64_t map_flags_text(unsigned flags)
{
	static const char *const text[8] = {"", "M", "U", "MU", "D", "MD", "UD", "MUD"};
	unsigned i = (flags & EXT4_MAP_MAPPED ? 1u : 0) | (flags & EXT4_MAP_UNWRITTEN ? 2u : 0) |
		     (flags & EXT4_MAP_DELAYED ? 4u : 0);

	return trace_string(text[i]);
}

static int map_run(handle_t *handle, struct mpage_da_data *mpd, ext4_lblk_t lblk, uint32_t len)
{
	struct ext4_map_blocks map = {.m_lblk = lblk, .m_len = len};
	unsigned flags = EXT4_GET_BLOCKS_CREATE | EXT4_GET_BLOCKS_METADATA_NOFAIL;
	struct map_run *run = &mpd->mp_runs[mpd->mp_nr_runs];
	int ret;

	ASSERT_CMP(mpd->mp_nr_runs, <, MPAGE_RUNS_MAX);
	if (ext4_is_extents(mpd_host(mpd)))
		flags |= EXT4_GET_BLOCKS_UNWRIT_EXT;
	if (mpd->mp_flags & EXT4_MAP_DELAYED)
		flags |= EXT4_GET_BLOCKS_DELALLOC_RESERVE;
	TRACE(ext4_da_write_pages_extent, .dev = wb_dev(mpd->mp_mapping),
	      .ino = mpd_host(mpd)->i_ino, .lblk = lblk, .len = len,
	      .flags = map_flags_text(mpd->mp_flags));
	ret = ext4_map_blocks(handle, mpd_host(mpd), &map, flags);
	if (ret < 0)
		return ret;
	ASSERT_CMP(ret, >, 0);
	ASSERT_CMP(map.m_len, <=, len);
	hist_add(&mpd_stats(mpd)->ws_extent_blocks, map.m_len);
	run->r_lblk = lblk;
	run->r_len = map.m_len;
	run->r_pblk = map.m_pblk;
	run->r_flags = map.m_flags;
	mpd->mp_nr_runs++;
	/* Metadata that lived there may be cached. */
	if (map.m_flags & EXT4_MAP_NEW)
		bh_forget_range(mpd_host(mpd)->i_sb->s_bcache, map.m_pblk, map.m_len);
	return 0;
}

/* Map every dirty block of one page that is not mapped yet. */
static int map_rest_of_page(handle_t *handle, struct mpage_da_data *mpd, struct page *page,
			    ext4_lblk_t from)
{
	ext4_lblk_t lblk = page_first_block(mpd->mp_mapping, page->p_index);
	uint8_t mask = mpage_blocks_to_write(mpd, page);

	for (unsigned i = 0; i < blocks_per_page(mpd->mp_mapping); i++) {
		unsigned n = 0;
		int err;

		if (lblk + i < from)
			continue;
		while (i + n < blocks_per_page(mpd->mp_mapping) && (mask >> (i + n) & 1))
			n++;
		if (n == 0)
			continue;
		err = map_run(handle, mpd, lblk + i, n);
		if (err != 0)
			return err;
		i += mpd->mp_runs[mpd->mp_nr_runs - 1].r_len - 1;
	}
	return 0;
}

/* New blocks of a file without extents: the data, and what i_disksize passes before it, reaches the disk before the commit. */
static int map_indirect_done(handle_t *handle, struct mpage_da_data *mpd, unsigned pages)
{
	struct inode *inode = mpd_host(mpd);
	const struct page *first = mpd->mp_pages[0], *last = mpd->mp_pages[pages - 1];
	uint64_t start = (uint64_t)first->p_index << PAGE_SHIFT;
	uint64_t end = mpage_end_bytes(mpd, last), disk = atomic_load(&inode->i_disksize);
	int err = 0;

	if (disk < start)
		start = disk;
	if (inode->i_sb->s_opts.o_data == DATA_ORDERED)
		err = jbd2_journal_inode_ranged_write(handle, &inode->i_jinode, start, end - start);
	if (err == 0 && ext4_update_disksize(inode, end))
		err = ext4_mark_inode_dirty(handle, inode);
	if (err == 0)
		ext4_update_inode_fsync_trans(handle, inode, true);
	return err;
}

/* Map the run (or the front part of it that one extent holds); *pages: how many pages are mapped completely. */
int mpage_map_taken(handle_t *handle, struct mpage_da_data *mpd, unsigned *pages)
{
	struct address_space *as = mpd->mp_mapping;
	ext4_lblk_t end;
	int err;

	*pages = 0;
	if (mpd->mp_gaps) {
		err = map_rest_of_page(handle, mpd, mpd->mp_pages[0], 0);
		*pages = err == 0 ? 1 : 0;
	} else {
		err = map_run(handle, mpd, mpd->mp_lblk, mpd->mp_len);
		if (err != 0)
			return err;
		end = mpd->mp_lblk + mpd->mp_runs[0].r_len;
		while (*pages < mpd->mp_nr &&
		       page_first_block(as, mpd->mp_pages[*pages]->p_index + 1) <= end)
			(*pages)++;
		/* The extent ends inside a page, or with the dirty blocks of the last one. */
		if (*pages < mpd->mp_nr &&
		    page_first_block(as, mpd->mp_pages[*pages]->p_index) < end) {
			err = map_rest_of_page(handle, mpd, mpd->mp_pages[*pages], end);
			*pages += err == 0 ? 1 : 0;
		}
	}
	if (*pages > 0 && !ext4_is_extents(mpd_host(mpd))) {
		int ret = map_indirect_done(handle, mpd, *pages);

		err = err != 0 ? err : ret;
	}
	return err;
}

/* The io_end of the first `pages` pages of the run: what is to be converted, and how far i_disksize may go. */
static struct io_end *extent_io_end(struct mpage_da_data *mpd, unsigned pages, handle_t *rsv)
{
	const struct page *last = mpd->mp_pages[pages - 1];
	struct io_end *ie = io_end_alloc(mpd->mp_mapping, rsv);
	ext4_lblk_t end = page_first_block(mpd->mp_mapping, last->p_index + 1);

	if (ie == NULL)
		return NULL;
	ie->ie_start_bytes = (uint64_t)mpd->mp_pages[0]->p_index << PAGE_SHIFT;
	ie->ie_end_bytes = mpage_end_bytes(mpd, last);
	for (unsigned i = 0; i < mpd->mp_nr_runs; i++) {
		const struct map_run *r = &mpd->mp_runs[i];
		uint32_t len = r->r_len;

		/* Blocks of pages that are not part of this round stay unwritten. */
		if (end != 0 && r->r_lblk >= end)
			continue;
		if (end != 0 && len > end - r->r_lblk)
			len = end - r->r_lblk;
		if (r->r_flags & EXT4_MAP_UNWRITTEN)
			io_end_add_range(ie, r->r_lblk, len);
	}
	ie->ie_work =
		ie->ie_nr_ranges > 0 || ie->ie_end_bytes > atomic_load(&mpd_host(mpd)->i_disksize);
	ie->ie_defer = ie->ie_work && ext4_is_extents(mpd_host(mpd));
	if (!ie->ie_work && ie->ie_rsv != NULL) {
		jbd2_journal_free_reserved(ie->ie_rsv);
		ie->ie_rsv = NULL;
	}
	io_end_start(ie);
	return ie;
}

/* Queue the first `pages` pages of the run for writing and unlock them. */
int mpage_submit_taken(struct mpage_da_data *mpd, unsigned pages, handle_t *rsv)
{
	struct address_space *as = mpd->mp_mapping;
	struct io_end *ie = extent_io_end(mpd, pages, rsv);

	if (ie == NULL)
		return -ENOMEM;
	for (unsigned i = 0; i < mpd->mp_nr_runs; i++)
		if (mpd->mp_runs[i].r_flags & EXT4_MAP_NEW)
			bh_wait_writes(mpd_host(mpd)->i_sb->s_bcache, mpd->mp_runs[i].r_pblk,
				       mpd->mp_runs[i].r_len);
	io_submit_set_end(&mpd->mp_io, ie);
	mpd->mp_io.is_in_handle = mpd->mp_do_map;
	set_pages_writeback(as, mpd->mp_pages, pages);
	for (unsigned i = 0; i < pages; i++) {
		struct page *page = mpd->mp_pages[i];
		uint8_t mask = mpage_blocks_to_write(mpd, page);

		mpage_zero_tail(mpd, page);
		page->p_dirty = 0;
		io_add_page(&mpd->mp_io, page, mask, mapped_pblk, mpd);
		unlock_page(page);
		page_put(as->as_wb, page);
	}
	memmove(mpd->mp_pages, mpd->mp_pages + pages, (mpd->mp_nr - pages) * sizeof(void *));
	mpd->mp_nr -= pages;
	mpage_count_written(mpd, pages);
	counter_add(&mpd_stats(mpd)->ws_pages_mapped, pages);
	return 0;
}
