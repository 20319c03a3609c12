/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * mpage_collect.c - which pages a call of writepages takes. Follows mpage_prepare_extent_to_map() of fs/ext4/inode.c.
 *
 *  what is met                               handle open    result
 *  page clean, other mapping, past EOF       any            skipped
 *  allocated and written                     no             submitted
 *  needs mapping                             no             stop: NEED_MAP
 *  needs mapping, continues the run          yes            taken, stays locked
 *  allocated, or does not continue the run   yes            stop: EXTENT (with premap_pass=off and nothing taken: submitted)
 *  page lock is taken                        yes            stop: EXTENT, or LOCKED if nothing was taken: waited for without handle
 *
 * writepages_budget chooses where the budget is looked at: before a page is taken (then nr_to_write never goes below 0) or after (then each further collect takes one
 * page more).
 *
 * What was learnt of the map is used for the pages that follow. A written run may only be trusted while nobody has taken blocks away: as_map_seq, read under the page lock.
 *
 * Invariants: (1) with writepages_budget=before_add a WB_SYNC_NONE call takes at most its budget. (2) With a handle open pages are only try-locked. (3) Pages submitted here
 * past i_disksize have an io_end of their own, which moves it.
 * Locking: page locks, ascending; i_data_sem inside ext4_map_blocks().
 */
#include <string.h>

#include "writeback/mpage.h"

#define GANG 16u

/* ---- Where blocks are ---- */

/* The state of the blocks at lblk; page locked. */
static int block_run(struct mpage_da_data *mpd, ext4_lblk_t lblk, struct map_run *out)
{
	uint32_t seq = atomic_load(&mpd->mp_mapping->as_map_seq);
	struct map_run *known = &mpd->mp_known;
	uint32_t off;

	if (known->r_len == 0 || mpd->mp_known_seq != seq || lblk < known->r_lblk ||
	    lblk - known->r_lblk >= known->r_len) {
		struct ext4_map_blocks map = {
			.m_lblk = lblk,
			.m_len = MAX_WRITEPAGES_EXTENT_PAGES * blocks_per_page(mpd->mp_mapping),
		};
		int ret = ext4_map_blocks(NULL, mpd_host(mpd), &map, 0);

		if (ret < 0)
			return ret;
		known->r_lblk = lblk;
		known->r_len = map.m_len;
		known->r_pblk = map.m_pblk;
		known->r_flags = map.m_flags;
		mpd->mp_known_seq = seq;
	}
	off = lblk - known->r_lblk;
	out->r_lblk = lblk;
	out->r_len = known->r_len - off;
	out->r_pblk = known->r_pblk + off;
	out->r_flags = known->r_flags & (EXT4_MAP_MAPPED | EXT4_MAP_UNWRITTEN | EXT4_MAP_DELAYED);
	return 0;
}

static ext4_fsblk_t known_pblk(void *arg, ext4_lblk_t lblk)
{
	struct map_run run;
	int err = block_run(arg, lblk, &run);

	/* The page was classified under this page lock: the answer is there. */
	ASSERT(err == 0);
	ASSERT(run.r_flags & EXT4_MAP_MAPPED);
	return run.r_pblk;
}

/* ---- Pages ---- */

/* The page's dirty blocks that lie inside i_size. */
uint8_t mpage_blocks_to_write(const struct mpage_da_data *mpd, const struct page *page)
{
	const struct address_space *as = mpd->mp_mapping;
	uint64_t size = i_size_read(as->as_host);
	uint64_t start = (uint64_t)page->p_index << PAGE_SHIFT;
	unsigned n;

	if (start >= size)
		return 0;
	n = (unsigned)((size - start + (1u << as->as_blkbits) - 1) >> as->as_blkbits);
	if (n >= blocks_per_page(as))
		return page->p_dirty;
	return page->p_dirty & (uint8_t)((1u << n) - 1);
}

/* 1: some block must be mapped (*flags: the state of the first such), 0: none, or negative errno. */
static int page_needs_map(struct mpage_da_data *mpd, struct page *page, uint8_t mask,
			  unsigned *flags)
{
	ext4_lblk_t lblk = page_first_block(mpd->mp_mapping, page->p_index);

	for (unsigned i = 0; i < blocks_per_page(mpd->mp_mapping); i++) {
		struct map_run run;
		int err;

		if ((mask >> i & 1) == 0)
			continue;
		err = block_run(mpd, lblk + i, &run);
		if (err != 0)
			return err;
		*flags = run.r_flags;
		if ((run.r_flags & EXT4_MAP_MAPPED) == 0)
			return 1;
	}
	return 0;
}

/* What lies past i_size in the page goes to the disk as zeros. */
void mpage_zero_tail(struct mpage_da_data *mpd, struct page *page)
{
	uint64_t size = i_size_read(mpd_host(mpd));
	uint64_t start = (uint64_t)page->p_index << PAGE_SHIFT;

	if (size > start && size - start < PAGE_SIZE)
		memset(page->p_data + (size - start), 0, PAGE_SIZE - (size_t)(size - start));
}

uint64_t mpage_end_bytes(const struct mpage_da_data *mpd, const struct page *page)
{
	uint64_t end = ((uint64_t)page->p_index + 1) << PAGE_SHIFT;
	uint64_t size = i_size_read(mpd_host(mpd));

	return end < size ? end : size;
}

void mpage_count_written(struct mpage_da_data *mpd, long n)
{
	mpd->mp_budget -= n;
	mpd->mp_written += n;
}

/* ---- Pass 0: pages that are mapped ---- */

static struct io_end *premap_io_end(struct mpage_da_data *mpd, struct page *page)
{
	uint64_t end = mpage_end_bytes(mpd, page);
	bool beyond = end > atomic_load(&mpd_host(mpd)->i_disksize);
	struct io_end **slot = beyond ? &mpd->mp_beyond : &mpd->mp_plain;
	struct io_end *ie = *slot;

	if (ie == NULL) {
		ie = io_end_alloc(mpd->mp_mapping, beyond ? mpd->mp_rsv : NULL);
		if (beyond)
			mpd->mp_rsv = NULL;
		if (ie == NULL)
			return NULL;
		ie->ie_work = beyond;
		ie->ie_defer = beyond && ext4_is_extents(mpd_host(mpd));
		ie->ie_start_bytes = (uint64_t)page->p_index << PAGE_SHIFT;
		ie->ie_end_bytes = end;
		io_end_start(ie);
		*slot = ie;
	}
	if (end > ie->ie_end_bytes)
		ie->ie_end_bytes = end;
	return ie;
}

void mpage_put_premap_ends(struct mpage_da_data *mpd)
{
	io_submit_flush(&mpd->mp_io);
	io_submit_set_end(&mpd->mp_io, NULL);
	if (mpd->mp_plain != NULL)
		io_end_put(mpd->mp_plain);
	if (mpd->mp_beyond != NULL)
		io_end_put(mpd->mp_beyond);
	if (mpd->mp_rsv != NULL)
		jbd2_journal_free_reserved(mpd->mp_rsv);
	mpd->mp_plain = NULL;
	mpd->mp_beyond = NULL;
	mpd->mp_rsv = NULL;
}

/* Write a locked page all of whose blocks are known to be written extents; unlocks it. */
static int submit_mapped_page(struct mpage_da_data *mpd, struct page *page, uint8_t mask)
{
	struct io_end *ie = premap_io_end(mpd, page);

	if (ie == NULL) {
		unlock_page(page);
		return -ENOMEM;
	}
	io_submit_set_end(&mpd->mp_io, ie);
	mpage_zero_tail(mpd, page);
	page->p_dirty = 0;
	set_pages_writeback(mpd->mp_mapping, &page, 1);
	mpd->mp_io.is_in_handle = mpd->mp_do_map;
	io_add_page(&mpd->mp_io, page, mask, known_pblk, mpd);
	unlock_page(page);
	mpage_count_written(mpd, 1);
	if (!mpd->mp_do_map)
		counter_inc(&mpd_stats(mpd)->ws_pages_premap);
	return 0;
}

/* ---- Collecting ---- */

/* Contiguous bits only? */
static bool mask_contiguous(uint8_t mask)
{
	unsigned m = (unsigned)mask >> __builtin_ctz(mask);

	return (m & (m + 1)) == 0;
}

/* Add a locked page that needs mapping to the run; false if it does not continue it. */
static bool add_page_to_extent(struct mpage_da_data *mpd, struct page *page, uint8_t mask,
			       unsigned flags)
{
	ext4_lblk_t lblk = page_first_block(mpd->mp_mapping, page->p_index);
	unsigned first = (unsigned)__builtin_ctz(mask);
	unsigned n = (unsigned)__builtin_popcount(mask);
	bool gaps = !mask_contiguous(mask);

	if (mpd->mp_nr == 0) {
		mpd->mp_lblk = lblk + first;
		mpd->mp_len = n;
		mpd->mp_gaps = gaps;
		mpd->mp_flags = flags;
	} else {
		if (gaps || mpd->mp_gaps || flags != mpd->mp_flags ||
		    mpd->mp_lblk + mpd->mp_len != lblk + first)
			return false;
		mpd->mp_len += n;
	}
	mpd->mp_pages[mpd->mp_nr++] = page;
	return true;
}

/* No more fits; on a striped device an extent in the making ends where a stripe does, as file and device are aligned alike. */
static bool extent_is_full(const struct mpage_da_data *mpd)
{
	uint32_t stripe = mpd_host(mpd)->i_sb->s_stripe;
	unsigned bpp = blocks_per_page(mpd->mp_mapping);

	if (mpd->mp_nr == MAX_WRITEPAGES_EXTENT_PAGES)
		return true;
	return stripe > 0 && (mpd->mp_lblk + mpd->mp_len) % stripe == 0 &&
	       mpd->mp_nr + (stripe + bpp - 1) / bpp > MAX_WRITEPAGES_EXTENT_PAGES;
}

/* DONE: submitted or added to the run; FULL: added, and no more fits; STOP: not taken, mp_stop tells why. */
enum take { TAKE_SKIP, TAKE_DONE, TAKE_FULL, TAKE_STOP };

/* What to do with a locked dirty page. It is unlocked unless it was added to the run. */
static int take_locked_page(struct mpage_da_data *mpd, struct page *page)
{
	uint8_t mask = mpage_blocks_to_write(mpd, page);
	unsigned flags = 0;
	int need;

	if (mask == 0) {
		unlock_page(page);
		return TAKE_SKIP;
	}
	need = page_needs_map(mpd, page, mask, &flags);
	if (need < 0) {
		unlock_page(page);
		return need;
	}
	if (need == 0 && mpd->mp_nr == 0 && !(mpd->mp_do_map && mpd->mp_premap)) {
		need = submit_mapped_page(mpd, page, mask);
		return need < 0 ? need : TAKE_DONE;
	}
	if (need == 1 && mpd->mp_only_mapped) {
		/* Mapped blocks beside delayed ones: the commit waits for those. */
		need = write_mapped_blocks(mpd->mp_mapping, page);
		unlock_page(page);
		return need < 0 ? need : TAKE_SKIP;
	}
	if (need == 1 && mpd->mp_do_map && add_page_to_extent(mpd, page, mask, flags)) {
		page_get(page);
		return extent_is_full(mpd) ? TAKE_FULL : TAKE_DONE;
	}
	unlock_page(page);
	mpd->mp_stop = mpd->mp_do_map ? STOP_EXTENT : STOP_NEED_MAP;
	return TAKE_STOP;
}

static int take_page(struct mpage_da_data *mpd, struct page *page)
{
	if (!mpd->mp_do_map) {
		lock_page(page);
	} else if (!trylock_page(page)) {
		mpd->mp_stop = mpd->mp_nr > 0 ? STOP_EXTENT : STOP_LOCKED;
		return TAKE_STOP;
	}
	if (page->p_mapping != mpd->mp_mapping || !page_test(page, PG_DIRTY)) {
		unlock_page(page);
		return TAKE_SKIP;
	}
	return take_locked_page(mpd, page);
}

/* The budget as each variant sees it. left: pages that this collect may still take. */
static bool budget_spent_before(const struct mpage_da_data *mpd, long left)
{
	return mpd->mp_wbc->sync_mode == WB_SYNC_NONE && !mpd->mp_after && left <= 0;
}

/* mp_nr: the pages of the run; those submitted already have left the budget. */
static bool budget_spent_after(const struct mpage_da_data *mpd)
{
	return mpd->mp_wbc->sync_mode == WB_SYNC_NONE && mpd->mp_after &&
	       (long)mpd->mp_nr >= mpd->mp_budget;
}

void mpage_set_first(struct mpage_da_data *mpd, uint64_t index)
{
	mpd->mp_past_end = index > mpd->mp_last;
	if (!mpd->mp_past_end)
		mpd->mp_first = (uint32_t)index;
}

/* One page of a gang. TAKE_STOP: mp_stop tells why; mp_first is where to go on. */
static int collect_one(struct mpage_da_data *mpd, struct page *page, long *left)
{
	uint32_t index = page->p_index;
	int ret;

	mpage_set_first(mpd, index);
	if (budget_spent_before(mpd, *left)) {
		mpd->mp_stop = STOP_BUDGET;
		return TAKE_STOP;
	}
	if (mpd->mp_nr > 0 && index != mpd->mp_next) {
		mpd->mp_stop = STOP_EXTENT;
		return TAKE_STOP;
	}
	ret = take_page(mpd, page);
	if (ret < 0 || ret == TAKE_STOP)
		return ret;
	mpage_set_first(mpd, (uint64_t)index + 1);
	if (ret == TAKE_SKIP)
		return ret;
	mpd->mp_next = index + 1;
	(*left)--;
	mpd->mp_stop = STOP_EXTENT;
	if (budget_spent_after(mpd)) {
		mpd->mp_stop = STOP_BUDGET;
		return TAKE_STOP;
	}
	return ret == TAKE_FULL ? TAKE_STOP : ret;
}

/*
 * Take pages from mp_first on until something stops it. Without a handle mapped pages are submitted; with one the next run that needs mapping is taken.
 */
int mpage_collect(struct mpage_da_data *mpd)
{
	long left = mpd->mp_budget;
	int ret = TAKE_DONE;

	mpd->mp_nr = 0;
	mpd->mp_len = 0;
	mpd->mp_nr_runs = 0;
	while (!mpd->mp_past_end) {
		struct page *pages[GANG];
		unsigned n = find_get_pages(mpd->mp_mapping, mpd->mp_first, mpd->mp_last,
					    mpd->mp_tag, pages, GANG);

		if (n == 0)
			break;
		for (unsigned i = 0; i < n; i++) {
			if (ret == TAKE_DONE || ret == TAKE_SKIP)
				ret = collect_one(mpd, pages[i], &left);
			page_put(mpd->mp_mapping->as_wb, pages[i]);
		}
		if (ret < 0)
			return ret;
		if (ret == TAKE_STOP)
			return 0;
	}
	mpd->mp_stop = STOP_RANGE_END;
	mpd->mp_past_end = true;
	return 0;
}
