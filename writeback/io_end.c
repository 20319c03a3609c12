/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * io_end.c - what follows a write: unwritten extents become written, and i_disksize moves, in file order.
 *
 *   alloc -> started (on as_ends) -> all requests complete (ie_done) -> its turn -> handle: convert, i_disksize -> pages end writeback -> freed
 *            io_end_start()          io_end_put()                       next_ready()   finish()
 *
 * The last completion only marks the io_end and queues the mapping's work; a worker does the rest, with the credits that were reserved when
 * the io_end was made. Whoever waits for io_ends of the mapping (fsync) is woken instead and does it itself, which saves a change of threads; what is left when its own are done goes to a
 * worker. One thread at a time serves a mapping. An io_end whose end lies past i_disksize waits for those that were submitted before it and begin
 * before it: a growing file is a prefix at every moment. Those inside i_disksize go in any order.
 *
 * As long as a mapping has io_ends, or its work is queued, it holds a reference of the inode, which a worker drops, or a waiter, who has one of its own: a completion never runs an eviction.
 * In simulations there are no workers: mappings with work are on a list that wb_run_completions(), and every wait, works off.
 *
 * With data_err=abort an io_end that fails is given to a worker or waiter too, whatever it was for: it aborts the journal, which a completion must not.
 *
 * Invariants: (1) an io_end that failed converts nothing and moves no i_disksize: its blocks stay unwritten and read as zeros. (2) Pages of a deferred io_end are under
 * writeback until its conversion is durable in a handle. (3) as_ends is in order of submission.
 * Locking: as_end_lock (LEAF) for lists and flags; handles, conversion and iput() without it.
 */
#include <stdlib.h>
#include <string.h>

#include "ext4/super.h"
#include "writeback/internal.h"

/* ---- Life ---- */

struct io_end *io_end_alloc(struct address_space *as, handle_t *rsv)
{
	struct io_end *ie = calloc(1, sizeof(*ie));

	if (ie == NULL) {
		if (rsv != NULL)
			jbd2_journal_free_reserved(rsv);
		return NULL;
	}
	ie->ie_mapping = as;
	ie->ie_rsv = rsv;
	atomic_store_explicit(&ie->ie_count, 1, memory_order_relaxed);
	return ie;
}

static void free_io_end(struct io_end *ie)
{
	if (ie->ie_rsv != NULL)
		jbd2_journal_free_reserved(ie->ie_rsv);
	free(ie);
}

void io_end_discard(struct io_end *ie)
{
	if (ie != NULL)
		free_io_end(ie);
}

void io_end_start(struct io_end *ie)
{
	struct address_space *as = ie->ie_mapping;
	bool hold;

	ASSERT(!ie->ie_defer || ie->ie_work);
	mutex_lock(&as->as_end_lock);
	hold = !as->as_io_ref;
	as->as_io_ref = true;
	as->as_nr_ends++;
	if (ie->ie_work) {
		ie->ie_seq = ++as->as_end_seq;
		TAILQ_INSERT_TAIL(&as->as_ends, ie, ie_link);
	}
	mutex_unlock(&as->as_end_lock);
	/* The worker cannot drop it before: this io_end is counted. */
	if (hold)
		ihold(as->as_host);
}

void io_end_get(struct io_end *ie)
{
	atomic_fetch_add_explicit(&ie->ie_count, 1, memory_order_relaxed);
}

/* It has had no place in the order, and needs none: it is ready when it is complete, and nothing waits for its turn. */
static void want_abort(struct io_end *ie)
{
	struct address_space *as = ie->ie_mapping;

	mutex_lock(&as->as_end_lock);
	as->as_data_lost = true;
	if (!ie->ie_work) {
		ie->ie_work = true;
		ie->ie_late = true;
		ie->ie_start_bytes = UINT64_MAX;
		ie->ie_seq = ++as->as_end_seq;
		TAILQ_INSERT_TAIL(&as->as_ends, ie, ie_link);
	}
	mutex_unlock(&as->as_end_lock);
}

void io_end_fail(struct io_end *ie, int err)
{
	struct address_space *as = ie->ie_mapping;
	int none = 0;

	atomic_compare_exchange_strong(&ie->ie_error, &none, err);
	mapping_set_error(as, err);
	if (as->as_host->i_sb->s_opts.o_data_err_abort)
		want_abort(ie);
}

void io_end_add_range(struct io_end *ie, ext4_lblk_t lblk, ext4_lblk_t len)
{
	ASSERT_CMP(ie->ie_nr_ranges, <, IO_END_RANGES);
	ie->ie_range[ie->ie_nr_ranges].lblk = lblk;
	ie->ie_range[ie->ie_nr_ranges++].len = len;
}

static void queue_manual(struct address_space *as, struct manual_list *list)
{
	struct wb_domain *wb = as->as_wb;

	mutex_lock(&wb->wb_manual_lock);
	if (!as->as_manual_queued) {
		as->as_manual_queued = true;
		STAILQ_INSERT_TAIL(list, as, as_manual_link);
	}
	mutex_unlock(&wb->wb_manual_lock);
}

static void queue_conversions(struct address_space *as)
{
	if (as->as_wb->wb_wq != NULL)
		queue_work(as->as_wb->wb_wq, &as->as_work);
	else
		queue_manual(as, &as->as_wb->wb_manual_work);
}

void io_end_put(struct io_end *ie)
{
	struct address_space *as = ie->ie_mapping;
	bool work, queue;

	if (atomic_fetch_sub_explicit(&ie->ie_count, 1, memory_order_acq_rel) != 1)
		return;
	mutex_lock(&as->as_end_lock);
	ie->ie_done = true;
	work = ie->ie_work;
	if (ie->ie_late)
		ie->ie_end_bytes = 0;
	if (!work)
		as->as_nr_ends--;
	queue = (work || as->as_nr_ends == 0) && !as->as_work_pending;
	if (queue && as->as_end_waiters > 0) {
		cond_broadcast(&as->as_end_cond);
		queue = false;
	}
	if (queue)
		as->as_work_pending = true;
	mutex_unlock(&as->as_end_lock);
	if (!work)
		free_io_end(ie);
	if (queue)
		queue_conversions(as);
}

/* ---- Conversion ---- */

bool ext4_update_disksize(struct inode *inode, uint64_t end_bytes)
{
	bool moved = false;
	uint64_t size;

	down_write(&inode->i_data_sem);
	size = i_size_read(inode);
	if (end_bytes > size)
		end_bytes = size;
	if (end_bytes > atomic_load(&inode->i_disksize)) {
		atomic_store(&inode->i_disksize, end_bytes);
		moved = true;
	}
	up_write(&inode->i_data_sem);
	return moved;
}

unsigned conversion_credits(struct inode *inode, unsigned ranges)
{
	return ext4_chunk_trans_blocks(inode) * (ranges > 0 ? ranges : 1) + EXT4_INODE_CREDITS;
}

/* The io_end's own handle, from its reservation if it has one. */
static handle_t *start_handle(struct io_end *ie)
{
	struct inode *inode = ie->ie_mapping->as_host;
	handle_t *handle = ie->ie_rsv;
	int err;

	if (handle == NULL)
		return ext4_journal_start(inode, HT_EXT_CONVERT,
					  conversion_credits(inode, ie->ie_nr_ranges));
	ie->ie_rsv = NULL;
	err = jbd2_journal_start_reserved(handle, HT_EXT_CONVERT);
	return err != 0 ? ERR_PTR(err) : handle;
}

static int convert(struct io_end *ie)
{
	struct inode *inode = ie->ie_mapping->as_host;
	struct wb_stats *st = &ie->ie_mapping->as_wb->wb_stats;
	handle_t *handle;
	int err = 0;

	if (ie->ie_nr_ranges == 0 && ie->ie_end_bytes <= atomic_load(&inode->i_disksize))
		return 0;
	handle = start_handle(ie);
	if (IS_ERR(handle))
		return PTR_ERR(handle);
	for (unsigned i = 0; i < ie->ie_nr_ranges && err == 0; i++)
		err = ext4_convert_unwritten_extents(handle, inode, ie->ie_range[i].lblk,
						     ie->ie_range[i].len);
	if (err == 0 && ext4_update_disksize(inode, ie->ie_end_bytes)) {
		counter_inc(&st->ws_disksize_updates);
		err = ext4_mark_inode_dirty(handle, inode);
	}
	if (err == 0)
		ext4_update_inode_fsync_trans(handle, inode, true);
	counter_add(&st->ws_conversions, ie->ie_nr_ranges);
	return ext4_journal_stop(handle, err);
}

/* ext4: fs/ext4/page-io.c ext4_end_io_end(). In any data mode, as there. */
static void abort_for_data(struct inode *inode, int err)
{
	struct super_block *sb = inode->i_sb;

	if (!sb->s_opts.o_data_err_abort || jbd2_is_aborted(sb->s_journal))
		return;
	ext4_warning(sb, "inode #%u: data was not written (%d): data_err=abort", inode->i_ino, err);
	jbd2_journal_abort(sb->s_journal, err);
}

static void finish(struct io_end *ie)
{
	struct address_space *as = ie->ie_mapping;
	struct wb_bio *w, *next;
	int err = atomic_load(&ie->ie_error);

	if (err == 0) {
		err = convert(ie);
		if (err != 0)
			mapping_set_error(as, err);
	} else {
		abort_for_data(as->as_host, err);
	}
	for (w = atomic_exchange(&ie->ie_bios, NULL); w != NULL; w = next) {
		next = w->w_next;
		finish_wb_bio(as, w);
	}
	if (ie->ie_rsv != NULL)
		jbd2_journal_free_reserved(ie->ie_rsv);
	ie->ie_rsv = NULL;
}

/* The first io_end that is complete and need not wait for an earlier one. */
static struct io_end *next_ready_locked(struct address_space *as)
{
	uint64_t disksize = atomic_load(&as->as_host->i_disksize);
	uint64_t lowest = UINT64_MAX;
	bool waiting = false;
	struct io_end *ie;

	TAILQ_FOREACH (ie, &as->as_ends, ie_link) {
		/* Before that the end is still its submitter's. */
		if (ie->ie_done) {
			if (ie->ie_end_bytes <= disksize || ie->ie_start_bytes < lowest)
				return ie;
			waiting = true;
		}
		if (ie->ie_start_bytes < lowest)
			lowest = ie->ie_start_bytes;
	}
	if (waiting)
		counter_inc(&as->as_wb->wb_stats.ws_conversion_waits);
	return NULL;
}

/* as_converting is set; as_end_lock dropped meanwhile. */
static void finish_one_locked(struct address_space *as, struct io_end *ie)
{
	mutex_unlock(&as->as_end_lock);
	finish(ie);
	mutex_lock(&as->as_end_lock);
	TAILQ_REMOVE(&as->as_ends, ie, ie_link);
	as->as_nr_ends--;
	free(ie);
	cond_broadcast(&as->as_end_cond);
}

static void finish_ready_locked(struct address_space *as)
{
	struct io_end *ie;

	while ((ie = next_ready_locked(as)) != NULL)
		finish_one_locked(as, ie);
}

/* True: the I/O is over, and its reference of the inode is the caller's to drop. */
static bool take_io_ref_locked(struct address_space *as)
{
	if (!as->as_io_ref || as->as_nr_ends > 0 || as->as_work_pending || as->as_converting)
		return false;
	as->as_io_ref = false;
	return true;
}

/* True: the inode's reference is the caller's to drop. */
static bool run_conversions(struct address_space *as, bool may_drop)
{
	bool drop = false;

	mutex_lock(&as->as_end_lock);
	as->as_work_pending = false;
	if (as->as_converting) {
		as->as_convert_again = true;
		mutex_unlock(&as->as_end_lock);
		return false;
	}
	as->as_converting = true;
	do {
		as->as_convert_again = false;
		finish_ready_locked(as);
	} while (as->as_convert_again);
	as->as_converting = false;
	drop = take_io_ref_locked(as);
	if (drop && !may_drop) {
		as->as_io_ref = true;
		as->as_work_pending = true; /* the caller queues it */
		drop = false;
	}
	mutex_unlock(&as->as_end_lock);
	return drop;
}

void conversion_work(struct work_item *w)
{
	struct address_space *as =
		(struct address_space *)(void *)((uint8_t *)w -
						 offsetof(struct address_space, as_work));
	struct inode *inode = as->as_host;

	if (run_conversions(as, true))
		iput(inode);
}

/* ---- Simulation ---- */

static struct address_space *pop_manual(struct wb_domain *wb)
{
	struct address_space *as;

	mutex_lock(&wb->wb_manual_lock);
	as = STAILQ_FIRST(&wb->wb_manual_work);
	if (as != NULL) {
		STAILQ_REMOVE_HEAD(&wb->wb_manual_work, as_manual_link);
		as->as_manual_queued = false;
	}
	mutex_unlock(&wb->wb_manual_lock);
	return as;
}

void wb_run_completions(struct super_block *sb)
{
	struct address_space *as;

	if (!sb->s_wb->wb_manual)
		return;
	while ((as = pop_manual(sb->s_wb)) != NULL)
		conversion_work(&as->as_work);
}

/* Still queued, but out of the loop's way; one that a completion has queued meanwhile stays where it is. */
static void keep_for_later(struct address_space *as)
{
	bool pending;

	mutex_lock(&as->as_end_lock);
	pending = as->as_work_pending;
	mutex_unlock(&as->as_end_lock);
	if (pending)
		queue_manual(as, &as->as_wb->wb_manual_later);
}

void run_completions_nested(struct wb_domain *wb)
{
	struct address_space *as;

	lock_assert_none_from(LOCK_RANK_HANDLE);
	while ((as = pop_manual(wb)) != NULL) {
		(void)run_conversions(as, false);
		keep_for_later(as);
	}
	mutex_lock(&wb->wb_manual_lock);
	STAILQ_CONCAT(&wb->wb_manual_work, &wb->wb_manual_later);
	mutex_unlock(&wb->wb_manual_lock);
}

/* ---- Waiting ---- */

uint64_t last_io_end(struct address_space *as)
{
	uint64_t seq;

	mutex_lock(&as->as_end_lock);
	seq = as->as_end_seq;
	mutex_unlock(&as->as_end_lock);
	return seq;
}

static bool pending_up_to(struct address_space *as, uint64_t seq)
{
	const struct io_end *first = TAILQ_FIRST(&as->as_ends);

	return first != NULL && first->ie_seq <= seq;
}

static bool ends_pending(struct address_space *as, uint64_t seq)
{
	bool pending;

	mutex_lock(&as->as_end_lock);
	pending = pending_up_to(as, seq);
	mutex_unlock(&as->as_end_lock);
	return pending;
}

static void wait_manual_ends(struct address_space *as, uint64_t seq)
{
	bool pending = ends_pending(as, seq);

	while (pending) {
		run_completions_nested(as->as_wb);
		pending = ends_pending(as, seq);
		if (pending)
			nap_manual();
	}
}

/* Do what is ready, or wait until something is. */
static void wait_or_convert_locked(struct address_space *as)
{
	struct io_end *ie = as->as_converting ? NULL : next_ready_locked(as);

	if (ie == NULL) {
		as->as_end_waiters++;
		cond_wait(&as->as_end_cond, &as->as_end_lock);
		as->as_end_waiters--;
		return;
	}
	as->as_converting = true;
	counter_inc(&as->as_wb->wb_stats.ws_waiter_ends);
	finish_one_locked(as, ie);
	as->as_converting = false;
}

/* A waiter goes: what is left is for the other waiters, who are awake since the last one was finished, or for a worker. Drops as_end_lock. */
static void leave_unlock(struct address_space *as)
{
	bool drop = take_io_ref_locked(as);
	bool queue = as->as_end_waiters == 0 && !as->as_work_pending && !as->as_converting &&
		     next_ready_locked(as) != NULL;

	as->as_work_pending = as->as_work_pending || queue;
	mutex_unlock(&as->as_end_lock);
	if (queue)
		queue_conversions(as);
	/* Not the last one: the caller has its own. */
	if (drop)
		iput(as->as_host);
}

void wait_io_ends(struct address_space *as, uint64_t seq)
{
	lock_assert_none_from(LOCK_RANK_HANDLE);
	if (as->as_wb->wb_manual) {
		wait_manual_ends(as, seq);
		return;
	}
	mutex_lock(&as->as_end_lock);
	if (!pending_up_to(as, seq)) {
		mutex_unlock(&as->as_end_lock);
		return;
	}
	while (pending_up_to(as, seq))
		wait_or_convert_locked(as);
	leave_unlock(as);
}

void expect_io_ends(struct address_space *as)
{
	mutex_lock(&as->as_end_lock);
	as->as_end_waiters++;
	mutex_unlock(&as->as_end_lock);
}

void unexpect_io_ends(struct address_space *as)
{
	mutex_lock(&as->as_end_lock);
	as->as_end_waiters--;
	leave_unlock(as);
}
