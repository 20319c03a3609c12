/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * writepages.c - how much of one file is written by a call, and in which pieces. Follows ext4_writepages() of fs/ext4/inode.c.
 *
 *   pass 0   without a handle: dirty pages whose blocks are allocated and written are submitted until one needs mapping
 *   loop     reserve the credits of the completion, start a handle, collect() the next run of contiguous dirty pages that need mapping, map it with one allocation, stop the handle,
 *            submit; again (with a pass without a handle in front) until a collect returns nothing to map
 *   wrap     once, for range_cyclic
 *
 * premap_pass=off has no pass 0: mapped pages that collect() meets are submitted while the handle is open, and the handle is stopped just before the last request of an extent.
 * writepages_budget chooses where collect() looks at the budget: before a page is taken (then nr_to_write never goes below 0) or after (then each further collect takes one page more).
 * The budget of a call is raised by write_bump; the caller's nr_to_write only goes down by the pages written.
 *
 *  what collect() meets                      handle open    result
 *  page clean, other mapping, past EOF       any            skipped
 *  allocated and written                     no             submitted
 *  needs mapping                             no             stop: NEED_MAP
 *  needs mapping, continues the run          yes            taken, stays locked
 *  allocated, or does not continue the run   yes            stop: EXTENT (with premap_pass=off and nothing taken: submitted)
 *  page lock is taken                        yes            stop: EXTENT, or LOCKED if nothing was taken: waited for without handle
 *
 * New blocks of extent files are mapped unwritten and converted by the io_end. New blocks of indirect-block files are put on the transaction's ordered list, and i_disksize moves in the mapping handle.
 * A pass that would start beyond i_disksize starts at i_disksize: what makes the file grow is submitted in file order.
 *
 * What was learnt of the map is used for the pages that follow. A written run may only be trusted while nobody has taken blocks away: as_map_seq, read under the page lock.
 *
 * Invariants: (1) with writepages_budget=before_add a WB_SYNC_NONE call writes at most its budget. (2) With premap_pass=on blk_submit() is never called with a handle open.
 * (3) With a handle open pages are only try-locked. (4) Every page that was taken is submitted, given up, or unlocked dirty before the call goes on.
 * Locking: as_writepages_lock -> handle -> page locks (ascending) -> i_data_sem.
 */
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "util/log.h"
#include "util/time.h"
#include "writeback/internal.h"

#define GANG 16u
#define TOWRITE_BATCH 4096u
#define RUNS_MAX 8u

enum stop { STOP_RANGE_END, STOP_BUDGET, STOP_NEED_MAP, STOP_EXTENT, STOP_LOCKED };

/* Blocks of one state; what ext4_map_blocks() says. */
struct map_run {
	ext4_lblk_t r_lblk;
	uint32_t r_len; /* 0: nothing */
	ext4_fsblk_t r_pblk;
	unsigned r_flags; /* EXT4_MAP_* */
};

struct mpage_da_data {
	struct address_space *mp_mapping;
	struct writeback_control *mp_wbc;
	enum page_tag mp_tag;
	uint32_t mp_first, mp_last; /* pages still to look at, inclusive */
	uint32_t mp_next;	    /* the page that would continue the run */
	long mp_budget;		    /* effective nr_to_write left */
	long mp_written;
	bool mp_do_map;	     /* a handle is open */
	bool mp_premap;	     /* premap_pass */
	bool mp_after;	     /* writepages_budget=after_add */
	bool mp_only_mapped; /* pages that need mapping are left alone */
	bool mp_past_end;    /* mp_first went past the last index */
	enum stop mp_stop;
	struct map_run mp_known; /* the state of blocks, see mp_known_seq */
	uint32_t mp_known_seq;
	/* the run that was taken: locked pages with references */
	unsigned mp_nr;
	ext4_lblk_t mp_lblk; /* first and number of its blocks */
	uint32_t mp_len;
	unsigned mp_flags; /* EXT4_MAP_* that all have */
	bool mp_gaps;	   /* one page, whose dirty blocks are not contiguous */
	unsigned mp_nr_runs;
	struct map_run mp_runs[RUNS_MAX]; /* where the taken blocks lie */
	struct io_end *mp_plain;	  /* pass 0: pages inside i_disksize */
	struct io_end *mp_beyond;	  /* pass 0: pages past it */
	handle_t *mp_rsv;		  /* for mp_beyond */
	struct io_submit mp_io;
	struct page *mp_pages[MAX_WRITEPAGES_EXTENT_PAGES];
};

static struct inode *host(const struct mpage_da_data *mpd)
{
	return mpd->mp_mapping->as_host;
}

static struct wb_stats *stats(const struct mpage_da_data *mpd)
{
	return &mpd->mp_mapping->as_wb->wb_stats;
}

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
		int ret = ext4_map_blocks(NULL, host(mpd), &map, 0);

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

/* ---- Pages ---- */

/* The page's dirty blocks that lie inside i_size. */
static uint8_t blocks_to_write(const struct mpage_da_data *mpd, const struct page *page)
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
static void zero_tail(struct mpage_da_data *mpd, struct page *page)
{
	uint64_t size = i_size_read(host(mpd));
	uint64_t start = (uint64_t)page->p_index << PAGE_SHIFT;

	if (size > start && size - start < PAGE_SIZE)
		memset(page->p_data + (size - start), 0, PAGE_SIZE - (size_t)(size - start));
}

static uint64_t page_end_bytes(const struct mpage_da_data *mpd, const struct page *page)
{
	uint64_t end = ((uint64_t)page->p_index + 1) << PAGE_SHIFT;
	uint64_t size = i_size_read(host(mpd));

	return end < size ? end : size;
}

static void count_written(struct mpage_da_data *mpd, long n)
{
	mpd->mp_budget -= n;
	mpd->mp_written += n;
}

/* ---- Pass 0: pages that are mapped ---- */

static struct io_end *premap_io_end(struct mpage_da_data *mpd, struct page *page)
{
	uint64_t end = page_end_bytes(mpd, page);
	bool beyond = end > atomic_load(&host(mpd)->i_disksize);
	struct io_end **slot = beyond ? &mpd->mp_beyond : &mpd->mp_plain;
	struct io_end *ie = *slot;

	if (ie == NULL) {
		ie = io_end_alloc(mpd->mp_mapping, beyond ? mpd->mp_rsv : NULL);
		if (beyond)
			mpd->mp_rsv = NULL;
		if (ie == NULL)
			return NULL;
		ie->ie_work = beyond;
		ie->ie_defer = beyond && ext4_is_extents(host(mpd));
		ie->ie_start_bytes = (uint64_t)page->p_index << PAGE_SHIFT;
		ie->ie_end_bytes = end;
		io_end_start(ie);
		*slot = ie;
	}
	if (end > ie->ie_end_bytes)
		ie->ie_end_bytes = end;
	return ie;
}

static void put_premap_ends(struct mpage_da_data *mpd)
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
	zero_tail(mpd, page);
	page->p_dirty = 0;
	set_pages_writeback(mpd->mp_mapping, &page, 1);
	mpd->mp_io.is_in_handle = mpd->mp_do_map;
	io_add_page(&mpd->mp_io, page, mask, known_pblk, mpd);
	unlock_page(page);
	count_written(mpd, 1);
	if (!mpd->mp_do_map)
		counter_inc(&stats(mpd)->ws_pages_premap);
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

/* DONE: submitted or added to the run; FULL: added, and no more fits; STOP: not taken, mp_stop tells why. */
enum take { TAKE_SKIP, TAKE_DONE, TAKE_FULL, TAKE_STOP };

/* What to do with a locked dirty page. It is unlocked unless it was added to the run. */
static int take_locked_page(struct mpage_da_data *mpd, struct page *page)
{
	uint8_t mask = blocks_to_write(mpd, page);
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
		unlock_page(page);
		return TAKE_SKIP;
	}
	if (need == 1 && mpd->mp_do_map && add_page_to_extent(mpd, page, mask, flags)) {
		page_get(page);
		return mpd->mp_nr == MAX_WRITEPAGES_EXTENT_PAGES ? TAKE_FULL : TAKE_DONE;
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

static bool budget_spent_after(const struct mpage_da_data *mpd)
{
	long pages = mpd->mp_nr > 0 ? (long)mpd->mp_nr : 1;

	return mpd->mp_wbc->sync_mode == WB_SYNC_NONE && mpd->mp_after && pages >= mpd->mp_budget;
}

static void set_first(struct mpage_da_data *mpd, uint64_t index)
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

	set_first(mpd, index);
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
	set_first(mpd, (uint64_t)index + 1);
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
static int collect(struct mpage_da_data *mpd)
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

/* ---- The run that was taken ---- */

/* Unlock pages [from, mp_nr) of the run; they stay dirty, and the next collect begins with them. */
static void release_taken(struct mpage_da_data *mpd, unsigned from)
{
	if (from < mpd->mp_nr)
		set_first(mpd, mpd->mp_pages[from]->p_index);
	for (unsigned i = from; i < mpd->mp_nr; i++) {
		unlock_page(mpd->mp_pages[i]);
		page_put(mpd->mp_mapping->as_wb, mpd->mp_pages[i]);
	}
	mpd->mp_nr = from;
}

static int map_run(handle_t *handle, struct mpage_da_data *mpd, ext4_lblk_t lblk, uint32_t len)
{
	struct ext4_map_blocks map = {.m_lblk = lblk, .m_len = len};
	unsigned flags = EXT4_GET_BLOCKS_CREATE | EXT4_GET_BLOCKS_METADATA_NOFAIL;
	struct map_run *run = &mpd->mp_runs[mpd->mp_nr_runs];
	int ret;

	ASSERT_CMP(mpd->mp_nr_runs, <, RUNS_MAX);
	if (ext4_is_extents(host(mpd)))
		flags |= EXT4_GET_BLOCKS_UNWRIT_EXT;
	if (mpd->mp_flags & EXT4_MAP_DELAYED)
		flags |= EXT4_GET_BLOCKS_DELALLOC_RESERVE;
	ret = ext4_map_blocks(handle, host(mpd), &map, flags);
	if (ret < 0)
		return ret;
	ASSERT_CMP(ret, >, 0);
	ASSERT_CMP(map.m_len, <=, len);
	hist_add(&stats(mpd)->ws_extent_blocks, map.m_len);
	run->r_lblk = lblk;
	run->r_len = map.m_len;
	run->r_pblk = map.m_pblk;
	run->r_flags = map.m_flags;
	mpd->mp_nr_runs++;
	/* Metadata that lived there may be cached. */
	if (map.m_flags & EXT4_MAP_NEW)
		bh_forget_range(host(mpd)->i_sb->s_bcache, map.m_pblk, map.m_len);
	return 0;
}

/* Map every dirty block of one page that is not mapped yet. */
static int map_rest_of_page(handle_t *handle, struct mpage_da_data *mpd, struct page *page,
			    ext4_lblk_t from)
{
	ext4_lblk_t lblk = page_first_block(mpd->mp_mapping, page->p_index);
	uint8_t mask = blocks_to_write(mpd, page);

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
	struct inode *inode = host(mpd);
	const struct page *first = mpd->mp_pages[0], *last = mpd->mp_pages[pages - 1];
	uint64_t start = (uint64_t)first->p_index << PAGE_SHIFT;
	uint64_t end = page_end_bytes(mpd, last), disk = atomic_load(&inode->i_disksize);
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
static int map_taken(handle_t *handle, struct mpage_da_data *mpd, unsigned *pages)
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
	if (*pages > 0 && !ext4_is_extents(host(mpd))) {
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
	ie->ie_end_bytes = page_end_bytes(mpd, last);
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
		ie->ie_nr_ranges > 0 || ie->ie_end_bytes > atomic_load(&host(mpd)->i_disksize);
	ie->ie_defer = ie->ie_work && ext4_is_extents(host(mpd));
	if (!ie->ie_work && ie->ie_rsv != NULL) {
		jbd2_journal_free_reserved(ie->ie_rsv);
		ie->ie_rsv = NULL;
	}
	io_end_start(ie);
	return ie;
}

/* Queue the first `pages` pages of the run for writing and unlock them. */
static int submit_taken(struct mpage_da_data *mpd, unsigned pages, handle_t *rsv)
{
	struct address_space *as = mpd->mp_mapping;
	struct io_end *ie = extent_io_end(mpd, pages, rsv);

	if (ie == NULL)
		return -ENOMEM;
	for (unsigned i = 0; i < mpd->mp_nr_runs; i++)
		if (mpd->mp_runs[i].r_flags & EXT4_MAP_NEW)
			bh_wait_writes(host(mpd)->i_sb->s_bcache, mpd->mp_runs[i].r_pblk,
				       mpd->mp_runs[i].r_len);
	io_submit_set_end(&mpd->mp_io, ie);
	mpd->mp_io.is_in_handle = mpd->mp_do_map;
	set_pages_writeback(as, mpd->mp_pages, pages);
	for (unsigned i = 0; i < pages; i++) {
		struct page *page = mpd->mp_pages[i];
		uint8_t mask = blocks_to_write(mpd, page);

		zero_tail(mpd, page);
		page->p_dirty = 0;
		io_add_page(&mpd->mp_io, page, mask, mapped_pblk, mpd);
		unlock_page(page);
		page_put(as->as_wb, page);
	}
	memmove(mpd->mp_pages, mpd->mp_pages + pages, (mpd->mp_nr - pages) * sizeof(void *));
	mpd->mp_nr -= pages;
	count_written(mpd, pages);
	counter_add(&stats(mpd)->ws_pages_mapped, pages);
	return 0;
}

/* ---- Failure ---- */

/* The data of a locked page is lost: it is clean now, and its reservation is given back. */
static void give_up_page(struct mpage_da_data *mpd, struct page *page)
{
	struct address_space *as = mpd->mp_mapping;

	clear_page_dirty(page);
	(void)ext4_da_release_range(as->as_host, page_first_block(as, page->p_index),
				    blocks_per_page(as));
	page_lru_add(as->as_wb, &page, 1);
}

/* Nothing of the range can be written any more (the journal is aborted, or the device is full against all accounting): the error is told by fsync. */
static void give_up_range(struct mpage_da_data *mpd, int err)
{
	struct address_space *as = mpd->mp_mapping;
	struct page *pages[GANG];
	uint64_t index = mpd->mp_first;
	bool lost = false;
	unsigned n;

	while (index <= mpd->mp_last && (n = find_get_pages(as, (uint32_t)index, mpd->mp_last,
							    PAGE_TAG_DIRTY, pages, GANG)) > 0) {
		index = (uint64_t)pages[n - 1]->p_index + 1;
		for (unsigned i = 0; i < n; i++) {
			lock_page(pages[i]);
			if (pages[i]->p_mapping == as && page_test(pages[i], PG_DIRTY)) {
				give_up_page(mpd, pages[i]);
				lost = true;
			}
			unlock_page(pages[i]);
			page_put(as->as_wb, pages[i]);
		}
	}
	if (lost) {
		mapping_set_error(as, err);
		log_err("%s: inode %u: delayed data lost, error %d", host(mpd)->i_sb->s_name,
			host(mpd)->i_ino, -err);
	}
	throttle_progress(as->as_wb);
}

/* Space that is only waiting for a commit. 0: try again. No handle. */
static int make_space(struct mpage_da_data *mpd, unsigned *retries)
{
	counter_inc(&stats(mpd)->ws_enospc_retries);
	return ext4_should_retry_alloc(host(mpd)->i_sb, retries) ? 0 : -ENOSPC;
}

/* ---- The loop ---- */

/* Credits for a completion. In a simulation those held by completions that nobody ran yet are set free first. */
static handle_t *reserve_conversion(struct mpage_da_data *mpd, unsigned ranges)
{
	struct inode *inode = host(mpd);
	struct wb_domain *wb = mpd->mp_mapping->as_wb;
	unsigned credits = conversion_credits(inode, ranges);
	handle_t *rsv = jbd2_journal_reserve(inode->i_sb->s_journal, credits);

	/* Their requests may be with a device that answers later. */
	while (wb->wb_manual && IS_ERR(rsv) && PTR_ERR(rsv) == -EAGAIN &&
	       atomic_load(&wb->wb_nr_writeback) > 0) {
		run_completions_nested(wb);
		sched_yield();
		rsv = jbd2_journal_reserve(inode->i_sb->s_journal, credits);
	}
	return rsv;
}

struct round {
	handle_t *ro_handle;
	handle_t *ro_rsv;
	uint64_t ro_start_ns;
};

static int start_round(struct mpage_da_data *mpd, struct round *ro)
{
	struct inode *inode = host(mpd);
	unsigned bpp = blocks_per_page(mpd->mp_mapping);

	ro->ro_rsv = NULL;
	if (ext4_is_extents(inode)) {
		ro->ro_rsv = reserve_conversion(mpd, bpp);
		if (IS_ERR(ro->ro_rsv))
			return PTR_ERR(ro->ro_rsv);
	}
	ro->ro_handle =
		ext4_journal_start(inode, HT_WRITE_PAGE, ext4_writepage_trans_blocks(inode));
	if (IS_ERR(ro->ro_handle)) {
		if (ro->ro_rsv != NULL)
			jbd2_journal_free_reserved(ro->ro_rsv);
		return PTR_ERR(ro->ro_handle);
	}
	counter_inc(&stats(mpd)->ws_handles);
	ro->ro_start_ns = now_ns();
	mpd->mp_do_map = true;
	return 0;
}

static int stop_handle(struct mpage_da_data *mpd, struct round *ro, int err)
{
	uint64_t ns = now_ns() - ro->ro_start_ns;

	mpd->mp_do_map = false;
	counter_add(&stats(mpd)->ws_handle_open_ns, ns);
	hist_add(&stats(mpd)->ws_handle_ns, ns);
	return ext4_journal_stop(ro->ro_handle, err);
}

/*
 * One handle: collect, map, submit. *nothing: the collect returned nothing to map. The pages of the run that could not be mapped are dirty and unlocked.
 */
static int write_one_extent(struct mpage_da_data *mpd, bool *nothing)
{
	struct round ro = {0};
	unsigned pages = 0;
	int err = start_round(mpd, &ro), ret;

	*nothing = true;
	if (err != 0)
		return err;
	err = collect(mpd);
	if (err == 0 && mpd->mp_nr > 0) {
		*nothing = false;
		err = map_taken(ro.ro_handle, mpd, &pages);
	}
	/* Old behaviour: full requests leave while the handle is open, only the last one waits. */
	if (pages > 0 && !mpd->mp_premap) {
		ret = submit_taken(mpd, pages, ro.ro_rsv);
		ro.ro_rsv = NULL;
		pages = 0;
		err = err != 0 ? err : ret;
	}
	err = stop_handle(mpd, &ro, err);
	if (pages > 0) {
		ret = submit_taken(mpd, pages, ro.ro_rsv);
		ro.ro_rsv = NULL;
		err = err != 0 ? err : ret;
	}
	release_taken(mpd, 0);
	if (ro.ro_rsv != NULL)
		jbd2_journal_free_reserved(ro.ro_rsv);
	mpd->mp_io.is_in_handle = false;
	io_submit_flush(&mpd->mp_io);
	if (mpd->mp_io.is_end != NULL && mpd->mp_io.is_end != mpd->mp_plain &&
	    mpd->mp_io.is_end != mpd->mp_beyond)
		io_end_put(mpd->mp_io.is_end);
	put_premap_ends(mpd);
	return err;
}

/* The page that stopped the collect with a handle open: wait for it without. */
static void wait_for_locked_page(struct mpage_da_data *mpd)
{
	struct page *page = find_get_page(mpd->mp_mapping, mpd->mp_first);

	counter_inc(&stats(mpd)->ws_lock_retries);
	if (page == NULL)
		return;
	wait_on_page_locked(page);
	page_put(mpd->mp_mapping->as_wb, page);
}

/* Pages that need no handle. */
static int premap_pass(struct mpage_da_data *mpd)
{
	struct inode *inode = host(mpd);
	int err;

	if (ext4_is_extents(inode) && i_size_read(inode) > atomic_load(&inode->i_disksize)) {
		mpd->mp_rsv = reserve_conversion(mpd, 0);
		if (IS_ERR(mpd->mp_rsv)) {
			err = PTR_ERR(mpd->mp_rsv);
			mpd->mp_rsv = NULL;
			return err;
		}
	}
	mpd->mp_do_map = false;
	err = collect(mpd);
	put_premap_ends(mpd);
	return err;
}

static int write_range(struct mpage_da_data *mpd)
{
	unsigned retries = 0;
	bool nothing = false;
	int err = 0;

	while (err == 0) {
		long before = mpd->mp_written;

		if (mpd->mp_premap) {
			err = premap_pass(mpd);
			if (err != 0 || mpd->mp_stop != STOP_NEED_MAP)
				break;
		}
		err = write_one_extent(mpd, &nothing);
		if (mpd->mp_written > before)
			retries = 0;
		if (err == -ENOSPC)
			err = make_space(mpd, &retries);
		else if (err == 0 && nothing && mpd->mp_stop == STOP_LOCKED)
			wait_for_locked_page(mpd);
		else if (err == 0 && nothing && mpd->mp_stop != STOP_EXTENT)
			break;
	}
	if (err != 0)
		give_up_range(mpd, err);
	return err;
}

/* ---- The call ---- */

static long bump_cap(const struct wb_domain *wb)
{
	return (long)(wb_tun(wb, TUN_MAX_WRITEBACK_MB_BUMP) << (20 - PAGE_SHIFT));
}

/* The run of dirty pages at the start of the range: ext4_num_dirty_pages(). */
static long contiguous_dirty(struct mpage_da_data *mpd, long cap)
{
	struct address_space *as = mpd->mp_mapping;
	struct page *first;
	long n = 0;

	counter_inc(&stats(mpd)->ws_bump_scans);
	mutex_lock(&as->as_lock);
	if (page_index_gang(&as->as_index, mpd->mp_first, mpd->mp_last, PAGE_TAG_DIRTY, &first, 1))
		n = page_index_dirty_run(&as->as_index, first->p_index, (uint32_t)cap);
	mutex_unlock(&as->as_lock);
	return n;
}

static long effective_budget(struct mpage_da_data *mpd)
{
	const struct wb_domain *wb = mpd->mp_mapping->as_wb;
	long nr = mpd->mp_wbc->nr_to_write, cap = bump_cap(wb), want = nr;

	if (mpd->mp_wbc->sync_mode == WB_SYNC_ALL)
		return LONG_MAX;
	if (nr <= 0 || nr >= cap)
		return nr;
	switch (wb_tun(wb, TUN_WRITE_BUMP)) {
	case BUMP_X8:
		want = nr * 8;
		break;
	case BUMP_X16:
		want = nr * 16;
		break;
	case BUMP_CONTIG:
		want = contiguous_dirty(mpd, cap);
		break;
	default:
		break;
	}
	if (want > cap)
		want = cap;
	return want > nr ? want : nr;
}

/* Livelock avoidance: only what is dirty now. */
static void tag_pages_for_writeback(struct mpage_da_data *mpd)
{
	struct address_space *as = mpd->mp_mapping;
	uint32_t next = mpd->mp_first;
	bool more = true;

	while (more) {
		mutex_lock(&as->as_lock);
		more = page_index_tag_towrite(&as->as_index, next, mpd->mp_last, TOWRITE_BATCH,
					      &next);
		mutex_unlock(&as->as_lock);
	}
}

static void count_call(struct mpage_da_data *mpd)
{
	struct wb_stats *st = stats(mpd);
	int64_t left = mpd->mp_budget;
	int64_t min = atomic_load(&st->ws_nr_to_write_min);

	hist_add(&st->ws_pages_per_call, (uint64_t)mpd->mp_written);
	if (mpd->mp_wbc->sync_mode != WB_SYNC_NONE)
		return;
	hist_add(&st->ws_nr_to_write_exit, left > 0 ? (uint64_t)left : 0);
	if (left <= 0)
		counter_inc(&st->ws_budget_exits);
	if (left < 0)
		counter_inc(&st->ws_negative_exits);
	while (left < min && !atomic_compare_exchange_weak(&st->ws_nr_to_write_min, &min, left))
		;
}

/* Where the pass begins; *wrap: it did not begin at the start of the file. */
static void set_range(struct mpage_da_data *mpd, bool *wrap)
{
	struct writeback_control *wbc = mpd->mp_wbc;
	uint64_t disk_page = atomic_load(&host(mpd)->i_disksize) >> PAGE_SHIFT;
	uint64_t first = wbc->range_start >> PAGE_SHIFT, last = wbc->range_end >> PAGE_SHIFT;

	*wrap = false;
	if (wbc->range_cyclic) {
		first = mpd->mp_mapping->as_writeback_index;
		last = PAGE_INDEX_MAX;
		*wrap = first > 0;
	}
	if (first > disk_page)
		first = disk_page;
	mpd->mp_first = (uint32_t)first;
	mpd->mp_last = last > PAGE_INDEX_MAX ? PAGE_INDEX_MAX : (uint32_t)last;
	mpd->mp_past_end = false;
}

static int write_passes(struct mpage_da_data *mpd)
{
	struct writeback_control *wbc = mpd->mp_wbc;
	bool wrap;
	uint32_t begin;
	int err;

	set_range(mpd, &wrap);
	begin = mpd->mp_first;
	mpd->mp_budget = effective_budget(mpd);
	mpd->mp_tag = PAGE_TAG_DIRTY;
	if (wbc->sync_mode == WB_SYNC_ALL || wbc->tagged_writepages) {
		mpd->mp_tag = PAGE_TAG_TOWRITE;
		tag_pages_for_writeback(mpd);
	}
	err = write_range(mpd);
	if (err == 0 && wrap && begin > 0 && mpd->mp_budget > 0 && mpd->mp_past_end) {
		mpd->mp_first = 0;
		mpd->mp_last = begin - 1;
		mpd->mp_past_end = false;
		if (mpd->mp_tag == PAGE_TAG_TOWRITE)
			tag_pages_for_writeback(mpd);
		err = write_range(mpd);
	}
	if (wbc->range_cyclic)
		mpd->mp_mapping->as_writeback_index = mpd->mp_past_end ? 0 : mpd->mp_first;
	return err;
}

static struct mpage_da_data *mpd_alloc(struct address_space *as, struct writeback_control *wbc)
{
	struct mpage_da_data *mpd = malloc(sizeof(*mpd));

	if (mpd == NULL)
		return NULL;
	/* The arrays at the end need no clearing. */
	memset(mpd, 0, offsetof(struct mpage_da_data, mp_io));
	io_submit_init(&mpd->mp_io, as, wbc->sync_mode == WB_SYNC_ALL);
	mpd->mp_mapping = as;
	mpd->mp_wbc = wbc;
	mpd->mp_premap = wb_tun(as->as_wb, TUN_PREMAP_PASS) != 0;
	mpd->mp_after = wb_tun(as->as_wb, TUN_WRITEPAGES_BUDGET) == BUDGET_AFTER_ADD;
	return mpd;
}

int do_writepages(struct address_space *as, struct writeback_control *wbc)
{
	struct mpage_da_data *mpd;
	int err;

	lock_assert_none_from(LOCK_RANK_HANDLE);
	if (atomic_load(&as->as_nr_dirty) == 0)
		return 0;
	mpd = mpd_alloc(as, wbc);
	if (mpd == NULL)
		return -ENOMEM;
	counter_inc(&stats(mpd)->ws_writepages);
	down_write_nested(&as->as_writepages_lock);
	err = write_passes(mpd);
	up_write(&as->as_writepages_lock);
	count_call(mpd);
	wbc->nr_to_write -= mpd->mp_written;
	free(mpd);
	return err;
}

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
	wait_io_ends(as, seq);
}

int filemap_write_and_wait_range(struct inode *inode, uint64_t start, uint64_t end_inclusive)
{
	struct address_space *as = inode->i_mapping;
	int err;

	if (as == NULL)
		return 0;
	err = filemap_fdatawrite_range(as, start, end_inclusive, WB_SYNC_ALL);
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

/* Pages of the range that are mapped go out; their submitter may be between its handle and the submission: the page lock waits for it. */
static int write_mapped_range(struct address_space *as, uint64_t start_bytes, uint64_t end_bytes)
{
	struct writeback_control wbc = {.sync_mode = WB_SYNC_ALL, .nr_to_write = LONG_MAX};
	struct mpage_da_data *mpd = mpd_alloc(as, &wbc);
	int err;

	if (mpd == NULL)
		return -ENOMEM;
	mpd->mp_premap = true;
	mpd->mp_only_mapped = true;
	mpd->mp_tag = PAGE_TAG_DIRTY;
	mpd->mp_budget = LONG_MAX;
	mpd->mp_first = (uint32_t)(start_bytes >> PAGE_SHIFT);
	mpd->mp_last = (uint32_t)((end_bytes - 1) >> PAGE_SHIFT);
	err = collect(mpd);
	put_premap_ends(mpd);
	free(mpd);
	return err;
}

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

int wb_write_ordered_data(struct inode *inode, uint64_t start_bytes, uint64_t end_bytes)
{
	struct address_space *as = inode->i_mapping;
	uint32_t before;
	int err;

	if (as == NULL || start_bytes >= end_bytes)
		return 0;
	/* Not found: it is being evicted, and its data is on the way out. Otherwise the I/O needs the reference. */
	if (ext4_ilookup(inode->i_sb, inode->i_ino) != inode)
		return 0;
	before = atomic_load(&as->as_wb_err);
	err = write_mapped_range(as, start_bytes, end_bytes);
	wait_data_range(as, start_bytes, end_bytes);
	/* The error stays unseen: it is also told to those who have the file open. */
	if (err == 0 && atomic_load(&as->as_wb_err) != before)
		err = -EIO;
	iput(inode);
	return err;
}
