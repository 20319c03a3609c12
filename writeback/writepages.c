/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * writepages.c - how much of one file is written by a call, and in which pieces. Follows ext4_writepages() of fs/ext4/inode.c.
 *
 *   pass 0   without a handle: dirty pages whose blocks are allocated and written are submitted until one needs mapping
 *   loop     reserve the credits of the completion, start a handle, collect the next run of contiguous dirty pages that need mapping, map it with one allocation, stop the handle,
 *            submit; again (with a pass without a handle in front) until a collect returns nothing to map
 *   wrap     once, for range_cyclic
 *
 * premap_pass=off has no pass 0: mapped pages that a collect meets are submitted while the handle is open, and the handle is stopped just before the last request of an extent.
 * The budget of a call is raised by write_bump; the caller's nr_to_write only goes down by the pages written. A pass that would start beyond i_disksize starts at i_disksize: what
 * makes the file grow is submitted in file order.
 *
 * Invariants: (1) with premap_pass=on blk_submit() is never called with a handle open. (2) Every page that was taken is submitted, given up, or unlocked dirty before the call goes on.
 * (3) One call at a time works on a file.
 * Locking: as_writepages_lock -> handle -> page locks (ascending) -> i_data_sem.
 */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/log.h"
#include "util/time.h"
#include "util/trace.h"
#include "writeback/mpage.h"

#define GANG 16u
#define TOWRITE_BATCH 4096u

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
		log_err("%s: inode %u: delayed data lost, error %d", mpd_host(mpd)->i_sb->s_name,
			mpd_host(mpd)->i_ino, -err);
	}
	throttle_progress(as->as_wb);
}

/* Space that is only waiting for a commit. 0: try again. No handle. */
static int make_space(struct mpage_da_data *mpd, unsigned *retries)
{
	counter_inc(&mpd_stats(mpd)->ws_enospc_retries);
	return ext4_should_retry_alloc(mpd_host(mpd)->i_sb, retries) ? 0 : -ENOSPC;
}

/* ---- Marks ---- */

/*
 * With writepages_marks=on the device's log shows where a call and its handles begin and end, so that a test can see which
 * requests were made in between without trusting our counters.
 */
static void mark(struct mpage_da_data *mpd, const char *what, long n)
{
	struct blkdev *bd = mpd_host(mpd)->i_sb->s_dev;
	char text[64];

	if (wb_tun(mpd->mp_mapping->as_wb, TUN_WRITEPAGES_MARKS) == 0 || !blk_wants_marks(bd))
		return;
	(void)snprintf(text, sizeof(text), "writepages %s ino %u n %ld", what, mpd_host(mpd)->i_ino,
		       n);
	(void)blk_mark(bd, text);
}

/* ---- The loop ---- */

/* Credits for a completion. In a simulation those held by completions that nobody ran yet are set free first. */
static handle_t *reserve_conversion(struct mpage_da_data *mpd, unsigned ranges)
{
	struct inode *inode = mpd_host(mpd);
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
	struct inode *inode = mpd_host(mpd);
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
	counter_inc(&mpd_stats(mpd)->ws_handles);
	ro->ro_start_ns = stat_ns();
	mpd->mp_do_map = true;
	mark(mpd, "handle-start", 0);
	return 0;
}

static int stop_handle(struct mpage_da_data *mpd, struct round *ro, int err)
{
	uint64_t ns = stat_ns() - ro->ro_start_ns;

	mpd->mp_do_map = false;
	counter_add(&mpd_stats(mpd)->ws_handle_open_ns, ns);
	hist_add(&mpd_stats(mpd)->ws_handle_ns, ns);
	mark(mpd, "handle-stop", 0);
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
	TRACE(ext4_da_write_pages, .dev = wb_dev(mpd->mp_mapping), .ino = mpd_host(mpd)->i_ino,
	      .first_page = mpd->mp_first, .nr_to_write = mpd->mp_budget,
	      .sync_mode = mpd->mp_wbc->sync_mode);
	err = mpage_collect(mpd);
	if (err == 0 && mpd->mp_nr > 0) {
		*nothing = false;
		err = mpage_map_taken(ro.ro_handle, mpd, &pages);
	}
	/* Old behaviour: full requests leave while the handle is open, only the last one waits. */
	if (pages > 0 && !mpd->mp_premap) {
		ret = mpage_submit_taken(mpd, pages, ro.ro_rsv);
		ro.ro_rsv = NULL;
		pages = 0;
		err = err != 0 ? err : ret;
	}
	err = stop_handle(mpd, &ro, err);
	if (pages > 0) {
		ret = mpage_submit_taken(mpd, pages, ro.ro_rsv);
		ro.ro_rsv = NULL;
		err = err != 0 ? err : ret;
	}
	mpage_release_taken(mpd);
	if (ro.ro_rsv != NULL)
		jbd2_journal_free_reserved(ro.ro_rsv);
	mpd->mp_io.is_in_handle = false;
	io_submit_flush(&mpd->mp_io);
	if (mpd->mp_io.is_end != NULL && mpd->mp_io.is_end != mpd->mp_plain &&
	    mpd->mp_io.is_end != mpd->mp_beyond)
		io_end_put(mpd->mp_io.is_end);
	mpage_put_premap_ends(mpd);
	return err;
}

/* The page that stopped the collect with a handle open: wait for it without. */
static void wait_for_locked_page(struct mpage_da_data *mpd)
{
	struct page *page = find_get_page(mpd->mp_mapping, mpd->mp_first);

	counter_inc(&mpd_stats(mpd)->ws_lock_retries);
	if (page == NULL)
		return;
	wait_on_page_locked(page);
	page_put(mpd->mp_mapping->as_wb, page);
}

/* Pages that need no handle. */
static int premap_pass(struct mpage_da_data *mpd)
{
	struct inode *inode = mpd_host(mpd);
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
	err = mpage_collect(mpd);
	mpage_put_premap_ends(mpd);
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

/* How many of the n pages from `index` on have only blocks without a place: a hint, no page is locked. */
static long unallocated_run(struct address_space *as, uint32_t index, long n)
{
	uint64_t first = page_first_block(as, index);
	uint64_t lblk = first, end = first + (uint64_t)n * blocks_per_page(as);

	while (lblk < end) {
		struct ext4_map_blocks map = {
			.m_lblk = (ext4_lblk_t)lblk,
			.m_len = (uint32_t)(end - lblk),
		};

		if (ext4_map_blocks(NULL, as->as_host, &map, 0) < 0 ||
		    (map.m_flags & (EXT4_MAP_DELAYED | EXT4_MAP_UNWRITTEN)) == 0)
			break;
		lblk += map.m_len;
	}
	return (long)((lblk - first) / blocks_per_page(as));
}

/* ext4_num_dirty_pages(): the run of dirty pages, delayed or unwritten, that begins just where the call does. */
static long contiguous_dirty(struct mpage_da_data *mpd, long cap)
{
	struct address_space *as = mpd->mp_mapping;
	long n;

	counter_inc(&mpd_stats(mpd)->ws_bump_scans);
	mutex_lock(&as->as_lock);
	n = page_index_dirty_run(&as->as_index, mpd->mp_asked, (uint32_t)cap);
	mutex_unlock(&as->as_lock);
	return unallocated_run(as, mpd->mp_asked, n);
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
	struct wb_stats *st = mpd_stats(mpd);
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
	uint64_t disk_page = atomic_load(&mpd_host(mpd)->i_disksize) >> PAGE_SHIFT;
	uint64_t first = wbc->range_start >> PAGE_SHIFT, last = wbc->range_end >> PAGE_SHIFT;

	*wrap = false;
	if (wbc->range_cyclic) {
		first = mpd->mp_mapping->as_writeback_index;
		last = PAGE_INDEX_MAX;
		*wrap = first > 0;
	}
	mpd->mp_asked = (uint32_t)first;
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
	mark(mpd, "enter", mpd->mp_budget);
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
		mpd->mp_mapping->as_writeback_index = mpd->mp_first;
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
	if ((wbc->for_background || wbc->for_kupdate) && !as->as_wb->wb_manual)
		io_submit_set_window(&mpd->mp_io);
	mpd->mp_mapping = as;
	mpd->mp_wbc = wbc;
	mpd->mp_premap = wb_tun(as->as_wb, TUN_PREMAP_PASS) != 0;
	mpd->mp_after = wb_tun(as->as_wb, TUN_WRITEPAGES_BUDGET) == BUDGET_AFTER_ADD;
	return mpd;
}

/* As the kernel has it, whose offsets are signed. */
static int64_t loff(uint64_t offset)
{
	return offset > INT64_MAX ? INT64_MAX : (int64_t)offset;
}

static void trace_call(const struct address_space *as, const struct writeback_control *wbc)
{
	TRACE(ext4_writepages, .dev = wb_dev(as), .ino = as->as_host->i_ino,
	      .nr_to_write = wbc->nr_to_write, .pages_skipped = wbc->pages_skipped,
	      .range_start = loff(wbc->range_start), .range_end = loff(wbc->range_end),
	      .sync_mode = wbc->sync_mode, .for_kupdate = wbc->for_kupdate,
	      .range_cyclic = wbc->range_cyclic, .writeback_index = as->as_writeback_index);
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
	counter_inc(&mpd_stats(mpd)->ws_writepages);
	down_write_nested(&as->as_writepages_lock);
	trace_call(as, wbc);
	err = write_passes(mpd);
	mark(mpd, "exit", mpd->mp_written);
	TRACE(ext4_writepages_result, .dev = wb_dev(as), .ino = as->as_host->i_ino, .ret = err,
	      .pages_written = mpd->mp_written, .pages_skipped = wbc->pages_skipped,
	      .sync_mode = wbc->sync_mode, .writeback_index = as->as_writeback_index);
	up_write(&as->as_writepages_lock);
	count_call(mpd);
	wbc->nr_to_write -= mpd->mp_written;
	free(mpd);
	return err;
}

/* Pages of the range that are mapped go out; their submitter may be between its handle and the submission: the page lock waits for it. */
int write_mapped_range(struct address_space *as, uint64_t start_bytes, uint64_t end_bytes)
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
	err = mpage_collect(mpd);
	mpage_put_premap_ends(mpd);
	free(mpd);
	return err;
}
