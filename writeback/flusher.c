/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * flusher.c - which inodes are written, when, and in what order. Follows fs/fs-writeback.c.
 *
 *   b_dirty   dirty, in order of first dirtying
 *   b_io      being worked off: everything old enough moves here when it is empty
 *   b_more_io had its turn and its budget, and still has dirty pages: comes back when b_io is empty
 *   b_dirty_time  times changed lazily (lazytime), in order of the first such change; beside the other three
 *
 *   clean --dirty hook--> b_dirty --queue_io(old enough)--> b_io --taken--> (written) --+--> clean: off all lists
 *                            ^                               ^                           +--> budget spent: b_more_io -> b_io
 *                            +---- dirtied again, or skipped pages ----------------------+
 *
 * One thread per file system: works that others wait for (sync, frames, free space) first, then background writeback while over its threshold, then, every dirty_writeback_centisecs, what is older
 * than dirty_expire_centisecs. Background and periodic work stop when somebody queues a work.
 *
 * Lazy times are written with the inode when anything else of it is, by fsync and sync, when the inode leaves the cache (at once, into the running transaction), and after
 * dirtytime_expire_seconds. An inode whose times went in another way stays on b_dirty_time until then: its place is forgotten when it comes up.
 *
 * Lists hold no references. An inode is taken off its list under wb_lock and looked up by number; if it is being freed nothing is found, and whoever frees it has detached it. Other kinds of
 * inodes than regular files have no mapping: their place is a small object found by number.
 *
 * Invariants: (1) an inode with dirty pages or dirty fields is on a list, or somebody is writing it and will look again. (2) b_dirty is in order of wi_dirtied_when_ns. (3) A work never
 * writes an inode that was dirtied after it began.
 * Locking: wb_lock for lists and works; nothing else is held while an inode is written.
 */
#include <stdlib.h>
#include <string.h>

#include "util/time.h"
#include "util/trace.h"
#include "writeback/internal.h"

#define HASH_BUCKETS 256u
#define MIN_WRITEBACK_PAGES 1024
#define SLICE_NS (100 * NS_PER_MS) /* then limits are looked at again */

void wb_inode_init(struct wb_inode *wi, struct inode *inode)
{
	memset(wi, 0, sizeof(*wi));
	wi->wi_ino = inode->i_ino;
	wi->wi_embedded = true;
}

/* ---- Lists ---- */

static struct wb_inode_head *list_head(struct wb_domain *wb, enum wb_list list, uint32_t **count)
{
	switch (list) {
	case WB_B_DIRTY:
		*count = &wb->wb_nr_b_dirty;
		return &wb->wb_b_dirty;
	case WB_B_IO:
		*count = &wb->wb_nr_b_io;
		return &wb->wb_b_io;
	default:
		*count = &wb->wb_nr_b_more_io;
		return &wb->wb_b_more_io;
	}
}

static void list_del_locked(struct wb_domain *wb, struct wb_inode *wi)
{
	struct wb_inode_head *head;
	uint32_t *count;

	if (wi->wi_list == WB_LIST_NONE)
		return;
	head = list_head(wb, wi->wi_list, &count);
	TAILQ_REMOVE(head, wi, wi_link);
	(*count)--;
	wi->wi_list = WB_LIST_NONE;
}

static void list_add_locked(struct wb_domain *wb, struct wb_inode *wi, enum wb_list list)
{
	struct wb_inode_head *head;
	uint32_t *count;

	list_del_locked(wb, wi);
	head = list_head(wb, list, &count);
	TAILQ_INSERT_TAIL(head, wi, wi_link);
	(*count)++;
	wi->wi_list = list;
}

/* To the end of b_dirty; its age starts again if it would break the order. */
static void redirty_tail_locked(struct wb_domain *wb, struct wb_inode *wi)
{
	const struct wb_inode *last = TAILQ_LAST(&wb->wb_b_dirty, wb_inode_head);

	if (last != NULL && last != wi && wi->wi_dirtied_when_ns < last->wi_dirtied_when_ns)
		wi->wi_dirtied_when_ns = now_ns();
	list_add_locked(wb, wi, WB_B_DIRTY);
}

/* ---- Inodes without a mapping ---- */

static struct wb_inode **hash_slot(struct wb_domain *wb, uint32_t ino)
{
	struct wb_inode **slot = &wb->wb_hash[ino % HASH_BUCKETS];

	while (*slot != NULL && (*slot)->wi_ino != ino)
		slot = &(*slot)->wi_hash_next;
	return slot;
}

/* The list entry of an inode; made if `make`. NULL: none, or no memory. */
static struct wb_inode *wi_of_locked(struct wb_domain *wb, struct inode *inode, bool make)
{
	struct wb_inode **slot;

	if (inode->i_mapping != NULL)
		return &inode->i_mapping->as_wi;
	slot = hash_slot(wb, inode->i_ino);
	if (*slot == NULL && make) {
		*slot = calloc(1, sizeof(**slot));
		if (*slot != NULL)
			(*slot)->wi_ino = inode->i_ino;
	}
	return *slot;
}

static void times_del_locked(struct wb_domain *wb, struct wb_inode *wi)
{
	if (!wi->wi_on_times)
		return;
	TAILQ_REMOVE(&wb->wb_b_dirty_time, wi, wi_times_link);
	wb->wb_nr_b_dirty_time--;
	wi->wi_on_times = false;
}

/* Off its list; a separate object is freed, unless its times wait. */
static void wi_drop_locked(struct wb_domain *wb, struct wb_inode *wi)
{
	struct wb_inode **slot;

	list_del_locked(wb, wi);
	wi->wi_write_times = false;
	if (wi->wi_embedded || wi->wi_on_times)
		return;
	slot = hash_slot(wb, wi->wi_ino);
	ASSERT(*slot == wi);
	*slot = wi->wi_hash_next;
	free(wi);
}

void wb_inode_detach(struct inode *inode)
{
	struct wb_domain *wb = inode->i_sb->s_wb;
	struct wb_inode *wi;

	if (wb == NULL)
		return;
	mutex_lock(&wb->wb_lock);
	wi = wi_of_locked(wb, inode, false);
	if (wi != NULL) {
		times_del_locked(wb, wi);
		wi_drop_locked(wb, wi);
	}
	mutex_unlock(&wb->wb_lock);
}

/* Lazy times wait for another reason, or for their own time. */
static void note_times_locked(struct wb_domain *wb, struct wb_inode *wi)
{
	if (wi->wi_on_times)
		return;
	wi->wi_times_since_ns = now_ns();
	TAILQ_INSERT_TAIL(&wb->wb_b_dirty_time, wi, wi_times_link);
	wb->wb_nr_b_dirty_time++;
	wi->wi_on_times = true;
}

/* The inode leaves the cache: its times have no other reason to come. */
static void times_due_locked(struct wb_domain *wb, struct wb_inode *wi)
{
	times_del_locked(wb, wi);
	if (wi->wi_list != WB_B_IO)
		list_add_locked(wb, wi, WB_B_IO);
	wb->wb_times_due = true;
	cond_signal(&wb->wb_cond);
}

void wb_dirty_hook(struct inode *inode, uint32_t bits)
{
	struct wb_domain *wb = inode->i_sb->s_wb;
	struct wb_inode *wi;

	if (wb == NULL || (bits & (I_DIRTY_ALL | I_DIRTY_TIME)) == 0)
		return;
	mutex_lock(&wb->wb_lock);
	wi = wi_of_locked(wb, inode, true);
	if (wi != NULL && (bits & I_DIRTY_ALL) == 0) {
		note_times_locked(wb, wi);
	} else if (wi != NULL && (bits & I_DIRTY_TIME) != 0) {
		times_due_locked(wb, wi);
	} else if (wi != NULL && wi->wi_list == WB_LIST_NONE) {
		wi->wi_dirtied_when_ns = now_ns();
		list_add_locked(wb, wi, WB_B_DIRTY);
	}
	mutex_unlock(&wb->wb_lock);
}

void wb_mark_mapping_dirty(struct address_space *as)
{
	/* Pairs with the second look in clear_dirty_pages(): as_nr_dirty was raised before. */
	if ((atomic_load(&as->as_host->i_state) & I_DIRTY_PAGES) == 0)
		ext4_inode_set_dirty(as->as_host, I_DIRTY_PAGES);
}

/* ---- One inode ---- */

int write_inode(struct inode *inode)
{
	handle_t *handle = ext4_journal_start(inode, HT_INODE, EXT4_INODE_CREDITS);
	int err;

	if (IS_ERR(handle)) {
		/* Nothing will ever write it: it must not keep the flusher busy. */
		atomic_fetch_and(&inode->i_state,
				 ~(I_DIRTY_SYNC | I_DIRTY_DATASYNC | I_DIRTY_TIME));
		return PTR_ERR(handle);
	}
	err = ext4_mark_inode_dirty(handle, inode);
	return ext4_journal_stop(handle, err);
}

static void clear_dirty_pages(struct inode *inode)
{
	atomic_fetch_and(&inode->i_state, ~I_DIRTY_PAGES);
	if (inode->i_mapping != NULL && atomic_load(&inode->i_mapping->as_nr_dirty) > 0)
		atomic_fetch_or(&inode->i_state, I_DIRTY_PAGES);
}

/* WB_SYNC_ALL of an inode that is still dirty, as the kernel of the time did it: a commit for each. */
static int commit_for_inode(struct wb_domain *wb)
{
	counter_inc(&wb->wb_stats.ws_sync_inode_commits);
	return jbd2_journal_force_commit(wb->wb_sb->s_journal);
}

/* The bits of i_state that are dirty, as the kernel writes them. */
static uint64_t state_text(const struct inode *inode)
{
	static const char *const text[8] = {
		"",
		"I_DIRTY_SYNC",
		"I_DIRTY_DATASYNC",
		"I_DIRTY_SYNC|I_DIRTY_DATASYNC",
		"I_DIRTY_PAGES",
		"I_DIRTY_SYNC|I_DIRTY_PAGES",
		"I_DIRTY_DATASYNC|I_DIRTY_PAGES",
		"I_DIRTY_SYNC|I_DIRTY_DATASYNC|I_DIRTY_PAGES",
	};
	uint32_t state = atomic_load(&inode->i_state);

	return trace_string(
		text[(state & I_DIRTY_SYNC ? 1u : 0) | (state & I_DIRTY_DATASYNC ? 2u : 0) |
		     (state & I_DIRTY_PAGES ? 4u : 0)]);
}

/* The inode has had its turn, with `before` pages to write. */
static void trace_single_inode_locked(struct inode *inode, const struct writeback_control *wbc,
				      long before)
{
	const struct address_space *as = inode->i_mapping;
	uint64_t when = as != NULL ? as->as_wi.wi_dirtied_when_ns : 0;

	mutex_assert_held(&inode->i_sb->s_wb->wb_lock);
	TRACE(writeback_single_inode, .bdi = inode->i_sb->s_dev->bd_dev, .ino = inode->i_ino,
	      .state = state_text(inode), .dirtied_when = when / NS_PER_SEC,
	      .age = when != 0 ? (now_ns() - when) / NS_PER_SEC : 0,
	      .writeback_index = as != NULL ? as->as_writeback_index : 0, .nr_to_write = before,
	      .wrote = (uint64_t)(before - wbc->nr_to_write));
}

int writeback_single_inode(struct inode *inode, struct writeback_control *wbc)
{
	struct address_space *as = inode->i_mapping;
	struct wb_domain *wb = inode->i_sb->s_wb;
	int err = 0, ret;

	if (as != NULL)
		err = do_writepages(as, wbc);
	if (as != NULL && wbc->sync_mode == WB_SYNC_ALL && !wbc->for_sync)
		filemap_fdatawait_range(as, 0, UINT64_MAX);
	clear_dirty_pages(inode);
	if ((atomic_load(&inode->i_state) & (I_DIRTY_SYNC | I_DIRTY_DATASYNC)) == 0)
		return err;
	ret = write_inode(inode);
	if (ret == 0 && wbc->sync_mode == WB_SYNC_ALL && !wbc->for_sync)
		ret = commit_for_inode(wb);
	return err != 0 ? err : ret;
}

/* ---- Many inodes ---- */

static long writeback_chunk_size(struct wb_domain *wb, const struct wb_work *work)
{
	struct dirty_limits dl;
	long pages;

	if (work->wk_sync_mode == WB_SYNC_ALL || work->wk_tagged)
		return LONG_MAX;
	if (wb_tun(wb, TUN_WRITEBACK_CHUNK) == CHUNK_1024)
		pages = MIN_WRITEBACK_PAGES;
	else {
		get_dirty_limits(wb, &dl);
		pages = (long)(wb_avg_bandwidth(wb) / 2);
		if (pages > (long)(dl.dl_dirty / 8))
			pages = (long)(dl.dl_dirty / 8);
		pages = (pages + MIN_WRITEBACK_PAGES) / MIN_WRITEBACK_PAGES * MIN_WRITEBACK_PAGES;
	}
	return pages < work->wk_nr_pages ? pages : work->wk_nr_pages;
}

/* Where an inode goes that had its turn. */
static void requeue_inode_locked(struct wb_domain *wb, struct inode *inode,
				 const struct writeback_control *wbc)
{
	bool dirty = (atomic_load(&inode->i_state) & I_DIRTY_ALL) != 0;
	struct wb_inode *wi = wi_of_locked(wb, inode, dirty);

	if (wi == NULL || wi->wi_list != WB_LIST_NONE)
		return; /* dirtied meanwhile: the hook was faster */
	if (!dirty) {
		wi_drop_locked(wb, wi);
		return;
	}
	counter_inc(&wb->wb_stats.ws_requeued);
	if (inode->i_mapping != NULL && atomic_load(&inode->i_mapping->as_nr_dirty) > 0 &&
	    wbc->nr_to_write <= 0) {
		list_add_locked(wb, wi, WB_B_MORE_IO);
		return;
	}
	wi->wi_dirtied_when_ns = now_ns();
	redirty_tail_locked(wb, wi);
}

/* The next inode of b_io with a reference; it is on no list. NULL: b_io is empty. */
static struct inode *take_inode(struct wb_domain *wb)
{
	struct inode *inode = NULL;
	bool times = false;

	while (inode == NULL) {
		struct wb_inode *wi;
		uint32_t ino;

		mutex_lock(&wb->wb_lock);
		wi = TAILQ_FIRST(&wb->wb_b_io);
		if (wi != NULL) {
			ino = wi->wi_ino;
			times = wi->wi_write_times;
			wi_drop_locked(wb, wi);
		}
		mutex_unlock(&wb->wb_lock);
		if (wi == NULL)
			return NULL;
		inode = ext4_ilookup(wb->wb_sb, ino);
	}
	if (times && (atomic_load(&inode->i_state) & I_DIRTY_TIME) != 0)
		atomic_fetch_or(&inode->i_state, I_DIRTY_SYNC);
	return inode;
}

static void set_wbc(struct wb_domain *wb, const struct wb_work *work, struct writeback_control *wbc)
{
	memset(wbc, 0, sizeof(*wbc));
	wbc->sync_mode = work->wk_sync_mode;
	wbc->for_kupdate = work->wk_for_kupdate;
	wbc->for_background = work->wk_for_background;
	wbc->for_reclaim = work->wk_reason == WB_REASON_VMSCAN;
	wbc->for_sync = work->wk_for_sync;
	wbc->tagged_writepages = work->wk_tagged;
	wbc->range_cyclic = work->wk_sync_mode == WB_SYNC_NONE && !work->wk_tagged;
	wbc->range_end = UINT64_MAX;
	wbc->nr_to_write = writeback_chunk_size(wb, work);
}

/* Work off b_io. Returns how much was done: pages, and inodes that are clean now. */
static long writeback_sb_inodes(struct wb_domain *wb, struct wb_work *work)
{
	uint64_t start = now_ns();
	struct inode *inode;
	long wrote = 0;

	while (work->wk_nr_pages > 0 && (inode = take_inode(wb)) != NULL) {
		struct writeback_control wbc;
		long chunk, pages;

		set_wbc(wb, work, &wbc);
		chunk = wbc.nr_to_write;
		/* The error is kept in the mapping, for fsync. */
		(void)writeback_single_inode(inode, &wbc);
		pages = chunk - wbc.nr_to_write;
		work->wk_nr_pages -= pages;
		wrote += pages;
		if ((atomic_load(&inode->i_state) & I_DIRTY_ALL) == 0)
			wrote++;
		counter_inc(&wb->wb_stats.ws_flusher_inodes);
		if (work->wk_reason == WB_REASON_SYNC)
			counter_inc(&wb->wb_stats.ws_sync_inodes[work->wk_sync_mode]);
		mutex_lock(&wb->wb_lock);
		trace_single_inode_locked(inode, &wbc, chunk);
		requeue_inode_locked(wb, inode, &wbc);
		mutex_unlock(&wb->wb_lock);
		iput(inode);
		wb_update_bandwidth(wb, now_ns());
		/* A simulation does not depend on the host. */
		if (!wb->wb_manual && now_ns() - start > SLICE_NS &&
		    work->wk_sync_mode == WB_SYNC_NONE)
			break;
	}
	return wrote;
}

/* b_more_io, and what was dirtied up to `before`, to b_io. */
static void queue_io_locked(struct wb_domain *wb, uint64_t before)
{
	struct wb_inode *wi;

	while ((wi = TAILQ_FIRST(&wb->wb_b_more_io)) != NULL)
		list_add_locked(wb, wi, WB_B_IO);
	while ((wi = TAILQ_FIRST(&wb->wb_b_dirty)) != NULL && wi->wi_dirtied_when_ns <= before)
		list_add_locked(wb, wi, WB_B_IO);
}

/* Times that waited long enough, to b_io. */
static void queue_times_locked(struct wb_domain *wb)
{
	const uint64_t expire = wb_tun(wb, TUN_DIRTYTIME_EXPIRE_SECONDS) * NS_PER_SEC;
	const uint64_t now = now_ns();
	struct wb_inode *wi;

	while ((wi = TAILQ_FIRST(&wb->wb_b_dirty_time)) != NULL &&
	       now >= wi->wi_times_since_ns + expire) {
		times_del_locked(wb, wi);
		wi->wi_write_times = true;
		if (wi->wi_list != WB_B_IO)
			list_add_locked(wb, wi, WB_B_IO);
	}
}

static uint64_t dirtied_before(struct wb_domain *wb, const struct wb_work *work)
{
	uint64_t expire = wb_tun(wb, TUN_DIRTY_EXPIRE_CENTISECS) * 10 * NS_PER_MS, now = now_ns();

	if (work->wk_for_kupdate)
		return now > expire ? now - expire : 0;
	return work->wk_start_ns != 0 ? work->wk_start_ns : now;
}

/* True: somebody waits for something more urgent, or the goal is reached. */
static bool should_stop(struct wb_domain *wb, const struct wb_work *work)
{
	bool others;

	if (work->wk_nr_pages <= 0)
		return true;
	if (!work->wk_for_background && !work->wk_for_kupdate)
		return false;
	mutex_lock(&wb->wb_lock);
	others = !STAILQ_EMPTY(&wb->wb_works) || wb->wb_stop;
	mutex_unlock(&wb->wb_lock);
	return others || (work->wk_for_background && !over_bground_thresh(wb));
}

/* Before and after a turn over the inodes that are due. */
static void trace_work(const struct wb_domain *wb, const struct wb_work *work, bool start)
{
	uint32_t dev = wb->wb_sb->s_dev->bd_dev;
	bool cyclic = work->wk_sync_mode == WB_SYNC_NONE && !work->wk_tagged;
	uint64_t reason = trace_string(wb_reason_name(work->wk_reason));

	if (start)
		TRACE(writeback_start, .bdi = dev, .sb_dev = dev, .nr_pages = work->wk_nr_pages,
		      .sync_mode = work->wk_sync_mode, .for_kupdate = work->wk_for_kupdate,
		      .range_cyclic = cyclic, .for_background = work->wk_for_background,
		      .reason = reason);
	else
		TRACE(writeback_written, .bdi = dev, .sb_dev = dev, .nr_pages = work->wk_nr_pages,
		      .sync_mode = work->wk_sync_mode, .for_kupdate = work->wk_for_kupdate,
		      .range_cyclic = cyclic, .for_background = work->wk_for_background,
		      .reason = reason);
}

static void wb_writeback(struct wb_domain *wb, struct wb_work *work)
{
	/* What others wait for begins with all that is old enough, whatever was left over. */
	bool queue = !work->wk_for_background && !work->wk_for_kupdate;
	bool more;

	counter_inc(&wb->wb_stats.ws_flusher_runs[work->wk_reason]);
	do {
		long progress;

		if (should_stop(wb, work))
			break;
		mutex_lock(&wb->wb_lock);
		if (work->wk_for_kupdate)
			queue_times_locked(wb);
		if (queue || TAILQ_EMPTY(&wb->wb_b_io))
			queue_io_locked(wb, dirtied_before(wb, work));
		mutex_unlock(&wb->wb_lock);
		queue = false;
		trace_work(wb, work, true);
		progress = writeback_sb_inodes(wb, work);
		trace_work(wb, work, false);
		mutex_lock(&wb->wb_lock);
		more = progress > 0 || !TAILQ_EMPTY(&wb->wb_b_io);
		mutex_unlock(&wb->wb_lock);
	} while (more);
}

long writeback_inodes_wbc(struct wb_domain *wb, struct writeback_control *wbc)
{
	struct wb_work work = {.wk_nr_pages = wbc->nr_to_write, .wk_reason = WB_REASON_THROTTLE};

	mutex_lock(&wb->wb_lock);
	if (TAILQ_EMPTY(&wb->wb_b_io))
		queue_io_locked(wb, now_ns());
	mutex_unlock(&wb->wb_lock);
	(void)writeback_sb_inodes(wb, &work);
	return wbc->nr_to_write - work.wk_nr_pages;
}

/* ---- Works ---- */

void wb_start_background(struct wb_domain *wb)
{
	if (wb->wb_manual)
		return;
	mutex_lock(&wb->wb_lock);
	if (!wb->wb_background) {
		counter_inc(&wb->wb_stats.ws_background_kicks);
		wb->wb_background = true;
		cond_signal(&wb->wb_cond);
	}
	mutex_unlock(&wb->wb_lock);
}

static bool already_queued_locked(const struct wb_domain *wb, enum wb_reason reason)
{
	const struct wb_work *w;

	STAILQ_FOREACH (w, &wb->wb_works, wk_link)
		if (w->wk_heap && w->wk_reason == reason)
			return true;
	return false;
}

void wb_start_writeback(struct wb_domain *wb, long nr_pages, enum wb_reason reason)
{
	struct wb_work *work;

	if (wb->wb_manual)
		return;
	work = calloc(1, sizeof(*work));
	if (work == NULL)
		return; /* the periodic round does it later */
	work->wk_nr_pages = nr_pages;
	work->wk_reason = reason;
	work->wk_heap = true;
	mutex_lock(&wb->wb_lock);
	if (already_queued_locked(wb, reason) || wb->wb_stop) {
		free(work);
	} else {
		work->wk_start_ns = now_ns();
		STAILQ_INSERT_TAIL(&wb->wb_works, work, wk_link);
		cond_signal(&wb->wb_cond);
	}
	mutex_unlock(&wb->wb_lock);
}

void wb_do_work(struct wb_domain *wb, struct wb_work *work)
{
	if (!wb->wb_threads) {
		wb_writeback(wb, work);
		return;
	}
	work->wk_done = false;
	mutex_lock(&wb->wb_lock);
	STAILQ_INSERT_TAIL(&wb->wb_works, work, wk_link);
	cond_signal(&wb->wb_cond);
	while (!work->wk_done)
		cond_wait(&wb->wb_done_cond, &wb->wb_lock);
	mutex_unlock(&wb->wb_lock);
}

static void run_work(struct wb_domain *wb, struct wb_work *work)
{
	bool heap = work->wk_heap;

	wb_writeback(wb, work);
	if (heap) {
		free(work);
		return;
	}
	mutex_lock(&wb->wb_lock);
	work->wk_done = true;
	cond_broadcast(&wb->wb_done_cond);
	mutex_unlock(&wb->wb_lock);
}

static void run_background(struct wb_domain *wb)
{
	struct wb_work work = {
		.wk_nr_pages = LONG_MAX,
		.wk_for_background = true,
		.wk_reason = WB_REASON_BACKGROUND,
	};

	if (over_bground_thresh(wb))
		wb_writeback(wb, &work);
}

static void run_kupdate(struct wb_domain *wb)
{
	struct wb_work work = {
		.wk_nr_pages = LONG_MAX,
		.wk_for_kupdate = true,
		.wk_reason = WB_REASON_PERIODIC,
	};

	wb_writeback(wb, &work);
	/* A simulation does not depend on the host. */
	if (!wb->wb_manual)
		pressure_check(wb);
}

/* ---- The thread ---- */

static uint64_t kupdate_due(struct wb_domain *wb)
{
	uint64_t interval = wb_tun(wb, TUN_DIRTY_WRITEBACK_CENTISECS) * 10 * NS_PER_MS;

	/* 0 turns periodic writeback off. */
	return interval == 0 ? now_ns() + 5 * NS_PER_SEC : wb->wb_last_kupdate_ns + interval;
}

/* One thing to do, the most urgent first. False: nothing. Called and returns with wb_lock held. */
static bool do_something_locked(struct wb_domain *wb)
{
	struct wb_work *work = STAILQ_FIRST(&wb->wb_works);
	bool background = wb->wb_background;
	bool periodic = wb->wb_times_due || now_ns() >= kupdate_due(wb);

	if (work != NULL)
		STAILQ_REMOVE_HEAD(&wb->wb_works, wk_link);
	else if (background)
		wb->wb_background = false;
	else if (!periodic)
		return false;
	else if (!wb->wb_times_due)
		wb->wb_last_kupdate_ns = now_ns();
	wb->wb_times_due = false;
	wb->wb_running = true;
	mutex_unlock(&wb->wb_lock);
	if (work != NULL)
		run_work(wb, work);
	else if (background)
		run_background(wb);
	else
		run_kupdate(wb);
	mutex_lock(&wb->wb_lock);
	wb->wb_running = false;
	return true;
}

static void *flusher_main(void *arg)
{
	struct wb_domain *wb = arg;

	pthread_setname_np(pthread_self(), "ext4d-flush");
	mutex_lock(&wb->wb_lock);
	while (!wb->wb_stop || !STAILQ_EMPTY(&wb->wb_works))
		if (!do_something_locked(wb))
			(void)cond_timedwait(&wb->wb_cond, &wb->wb_lock, kupdate_due(wb));
	mutex_unlock(&wb->wb_lock);
	return NULL;
}

int flusher_start(struct wb_domain *wb)
{
	int err;

	wb->wb_last_kupdate_ns = now_ns();
	err = pthread_create(&wb->wb_flusher, NULL, flusher_main, wb);
	wb->wb_threads = err == 0;
	return -err;
}

void flusher_stop(struct wb_domain *wb)
{
	if (!wb->wb_threads)
		return;
	mutex_lock(&wb->wb_lock);
	wb->wb_stop = true;
	cond_signal(&wb->wb_cond);
	mutex_unlock(&wb->wb_lock);
	pthread_join(wb->wb_flusher, NULL);
	wb->wb_threads = false;
}

void flusher_interval_changed(struct wb_domain *wb)
{
	if (!wb->wb_threads)
		return;
	mutex_lock(&wb->wb_lock);
	cond_signal(&wb->wb_cond);
	mutex_unlock(&wb->wb_lock);
}

/* ---- Simulation ---- */

void wb_run_flusher(struct super_block *sb)
{
	struct wb_domain *wb = sb->s_wb;

	if (!wb->wb_manual || sb_rdonly(sb))
		return;
	run_background(wb);
	run_kupdate(wb);
}
