/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * checkpoint.c - committed blocks go home, and the tail of the log follows.
 *
 * Buffers of the oldest transactions are collected into batches, copied, sorted and written. Only
 * a buffer that no running or committing transaction holds is copied: then its live content is the
 * newest committed one. A buffer that is held blocks its transaction until that commit moves it to
 * a newer checkpoint list or, if its block was freed, off all of them; whoever needs the space forces
 * that commit, the background thread just goes on later.
 *
 * After a sync the checkpoint thread waits for a quiet second, and then empties the log.
 *
 * The tail moves after a flush of the file system's device, and the superblock that says so is
 * durable before the blocks behind it are written again.
 *
 * Invariants: (1) content that is not committed is never written home. (2) j_tail in memory never
 * runs ahead of s_start on disk. (3) One checkpoint at a time (j_checkpointing); it waits for
 * commits only while it holds no copies. (4) A copy is known by b_cp_writing from before it is taken until
 * its write is complete.
 * Locking: j_checkpointing is claimed under j_state_lock and held over I/O.
 */
#include <stdlib.h>
#include <string.h>

#include "journal/journal_int.h"
#include "util/assert.h"
#include "util/err.h"
#include "util/log.h"
#include "util/order.h"
#include "util/time.h"

#define CP_BATCH 256u

/* One buffer on its way home. */
struct cp_copy {
	struct buffer_head *cc_bh; /* holds a reference */
	uint8_t *cc_data;
	tid_t cc_tid; /* the transaction whose copy it is */
};

struct cp_batch {
	unsigned cb_n;
	struct cp_copy cb_copy[CP_BATCH];
	uint8_t *cb_memory;
	bool cb_busy;	   /* a transaction up to the limit has a buffer that is held */
	tid_t cb_busy_tid; /* the holder */
};

/* How far to go. */
struct cp_goal {
	int g_free; /* stop when so many log blocks are, or would be, free; INT32_MAX: go to the end */
	bool g_force; /* commit what blocks the way */
	tid_t g_limit; /* the newest transaction that was there at the start: others may follow without end */
};

/* ---- The tail ---- */

static int used_between(const journal_t *j, uint32_t tail, uint32_t head)
{
	if (head >= tail)
		return (int)(head - tail);
	return (int)(j->j_last - tail + (head - j->j_first));
}

static int log_size(const journal_t *j)
{
	return (int)(j->j_last - j->j_first);
}

static tid_t next_tid_locked(const journal_t *j)
{
	if (j->j_running_transaction != NULL)
		return j->j_running_transaction->t_tid;
	return j->j_transaction_sequence;
}

void jbd2_log_tail_locked(journal_t *j, tid_t *tid, uint32_t *block)
{
	transaction_t *t;

	mutex_assert_held(&j->j_state_lock);
	mutex_lock(&j->j_list_lock);
	t = TAILQ_FIRST(&j->j_checkpoint_transactions);
	if (t == NULL)
		t = j->j_committing_transaction;
	if (t != NULL) {
		*tid = t->t_tid;
		*block = t->t_log_start;
	} else {
		*tid = next_tid_locked(j);
		*block = j->j_head;
	}
	mutex_unlock(&j->j_list_lock);
}

static void set_tail_locked(journal_t *j, tid_t tid, uint32_t block)
{
	mutex_assert_held(&j->j_state_lock);
	atomic_fetch_add(&j->j_free, used_between(j, j->j_tail, block));
	ASSERT_CMP(atomic_load(&j->j_free), <=, log_size(j));
	j->j_tail = block;
	j->j_tail_sequence = tid;
	cond_broadcast(&j->j_wait_transaction);
	cond_broadcast(&j->j_wait_checkpoint);
}

/* Flush what was written home and let go of the log before it. */
static int update_tail(journal_t *j)
{
	bool moved;
	uint32_t block;
	tid_t tid;
	int err;

	mutex_lock(&j->j_state_lock);
	/* What is home now was written before this point; only that much of the tail may go. */
	jbd2_log_tail_locked(j, &tid, &block);
	mutex_unlock(&j->j_state_lock);
	err = jbd2_flush_fs_dev(j);
	if (err != 0)
		return err;
	mutex_lock(&j->j_state_lock);
	jbd2_sb_claim_locked(j);
	moved = !j->j_flushed && tid != j->j_tail_sequence && tid_geq(tid, j->j_tail_sequence);
	mutex_unlock(&j->j_state_lock);
	if (moved)
		err = jbd2_sb_write_claimed(j, tid, block, true);
	if (moved && err == 0) {
		mutex_lock(&j->j_state_lock);
		set_tail_locked(j, tid, block);
		mutex_unlock(&j->j_state_lock);
	}
	jbd2_sb_release(j);
	return err;
}

int jbd2_mark_empty(journal_t *j)
{
	uint32_t block = 0;
	tid_t tid = 0;
	int err = 0;
	bool write = false;

	mutex_lock(&j->j_state_lock);
	jbd2_sb_claim_locked(j);
	mutex_lock(&j->j_list_lock);
	if (j->j_committing_transaction != NULL || !TAILQ_EMPTY(&j->j_checkpoint_transactions))
		err = -EAGAIN;
	else
		write = !j->j_flushed;
	tid = next_tid_locked(j);
	block = j->j_head;
	mutex_unlock(&j->j_list_lock);
	mutex_unlock(&j->j_state_lock);
	if (write)
		err = jbd2_flush_fs_dev(j);
	if (write && err == 0)
		err = jbd2_sb_write_claimed(j, tid, 0, true);
	if (write && err == 0) {
		mutex_lock(&j->j_state_lock);
		j->j_flushed = true;
		set_tail_locked(j, tid, block);
		mutex_unlock(&j->j_state_lock);
	}
	jbd2_sb_release(j);
	return err;
}

/* ---- Collecting ---- */

/* Drop transactions whose checkpoint lists are empty. */
static void reap_checkpointed(journal_t *j)
{
	transaction_t *t, *next;

	mutex_lock(&j->j_list_lock);
	for (t = TAILQ_FIRST(&j->j_checkpoint_transactions); t != NULL; t = next) {
		next = TAILQ_NEXT(t, t_cpnext);
		if (!TAILQ_EMPTY(&t->t_checkpoint_list))
			continue;
		TAILQ_REMOVE(&j->j_checkpoint_transactions, t, t_cpnext);
		jbd2_trace_checkpoint(j, t);
		jbd2_transaction_free(t);
		counter_inc(&j->j_stats.js_checkpoints);
	}
	mutex_unlock(&j->j_list_lock);
}

/* Add what t has that nobody holds. */
static void collect_locked(struct cp_batch *cb, transaction_t *t)
{
	struct journal_head *jh;

	if (t->t_cp_start_ns == 0)
		t->t_cp_start_ns = stat_ns();
	TAILQ_FOREACH (jh, &t->t_checkpoint_list, b_cpnext) {
		if (cb->cb_n == CP_BATCH)
			return;
		if (jh->b_transaction != NULL) {
			/* The newest holder is the one that has to commit. */
			if (!cb->cb_busy || tid_geq(jh->b_transaction->t_tid, cb->cb_busy_tid))
				cb->cb_busy_tid = jh->b_transaction->t_tid;
			cb->cb_busy = true;
			continue;
		}
		bh_hold(jh->b_bh);
		cb->cb_copy[cb->cb_n++].cc_bh = jh->b_bh;
	}
}

/* Collect from the oldest transactions, as far as the goal needs; false if it is reached already. */
static bool collect(journal_t *j, struct cp_batch *cb, const struct cp_goal *goal)
{
	transaction_t *t;
	int space;
	bool more = false;

	cb->cb_n = 0;
	cb->cb_busy = false;
	mutex_lock(&j->j_state_lock);
	mutex_lock(&j->j_list_lock);
	/* Free now, plus what lies between the tail and the oldest that is left. */
	t = TAILQ_FIRST(&j->j_checkpoint_transactions);
	space = atomic_load(&j->j_free);
	if (t != NULL)
		space += used_between(j, j->j_tail, t->t_log_start);
	while (t != NULL && tid_geq(goal->g_limit, t->t_tid) && space < goal->g_free &&
	       cb->cb_n < CP_BATCH) {
		more = true;
		collect_locked(cb, t);
		space += (int)t->t_log_blocks;
		t = TAILQ_NEXT(t, t_cpnext);
	}
	mutex_unlock(&j->j_list_lock);
	mutex_unlock(&j->j_state_lock);
	return more;
}

/* ---- Writing home ---- */

static int compare_copies(const void *a, const void *b)
{
	uint64_t x = ((const struct cp_copy *)a)->cc_bh->b_blocknr;
	uint64_t y = ((const struct cp_copy *)b)->cc_bh->b_blocknr;

	return order_u64(x, y);
}

/* Copy the newest committed content; false if a transaction took the buffer meanwhile. */
static bool take_copy(journal_t *j, struct cp_copy *cc)
{
	struct buffer_head *bh = cc->cc_bh;
	struct mutex *lock = jbd2_bstate(bh);
	struct journal_head *jh;
	bool taken = false;

	lock_buffer(bh);
	mutex_lock(lock);
	jh = jbd2_jh_locked(bh);
	if (jh != NULL && jh->b_transaction == NULL && jh->b_cp_transaction != NULL) {
		mutex_lock(&j->j_list_lock);
		cc->cc_tid = jh->b_cp_transaction->t_tid;
		jh->b_cp_writing = true;
		mutex_unlock(&j->j_list_lock);
		bh_seal(bh);
		memcpy(cc->cc_data, bh->b_data, bh->b_size);
		taken = true;
	}
	mutex_unlock(lock);
	unlock_buffer(bh);
	return taken;
}

/* The write is complete: off the list, unless a newer transaction has put it on its own. */
static void copy_written(journal_t *j, struct cp_copy *cc, bool ok)
{
	struct buffer_head *bh = cc->cc_bh;
	struct mutex *lock = jbd2_bstate(bh);
	struct journal_head *jh;
	bool detached = false;

	mutex_lock(lock);
	mutex_lock(&j->j_list_lock);
	jh = jbd2_jh_locked(bh);
	ASSERT(jh != NULL);
	jh->b_cp_writing = false;
	if (ok && jh->b_cp_transaction != NULL && jh->b_cp_transaction->t_tid == cc->cc_tid) {
		jh->b_cp_transaction->t_cp_written++;
		jbd2_uncheckpoint_locked(jh);
		detached = jbd2_detach_locked(jh);
	}
	cond_broadcast(&j->j_wait_list);
	mutex_unlock(&j->j_list_lock);
	mutex_unlock(lock);
	if (detached)
		bh_put(bh);
	bh_put(bh);
}

int jbd2_write_home(journal_t *j, struct buffer_head **bhs, const uint8_t *const *data, unsigned n)
{
	if (jbd2_is_aborted(j))
		return -EROFS;
	return bh_write_copies(bhs, data, n, REQ_META | REQ_SYNC);
}

static int write_batch(journal_t *j, struct cp_batch *cb)
{
	struct buffer_head *bhs[CP_BATCH];
	const uint8_t *data[CP_BATCH];
	unsigned n = 0;
	int err;

	qsort(cb->cb_copy, cb->cb_n, sizeof(cb->cb_copy[0]), compare_copies);
	for (unsigned i = 0; i < cb->cb_n; i++) {
		struct cp_copy *cc = &cb->cb_copy[i];

		cc->cc_data = cb->cb_memory + (size_t)n * j->j_block_bytes;
		if (!take_copy(j, cc)) {
			bh_put(cc->cc_bh);
			continue;
		}
		bhs[n] = cc->cc_bh;
		data[n] = cc->cc_data;
		cb->cb_copy[n++] = *cc;
	}
	err = n > 0 ? jbd2_write_home(j, bhs, data, n) : 0;
	for (unsigned i = 0; i < n; i++)
		copy_written(j, &cb->cb_copy[i], err == 0);
	counter_add(&j->j_stats.js_checkpoint_blocks, n);
	return err;
}

/* ---- Running a checkpoint ---- */

static void claim_locked(journal_t *j)
{
	while (j->j_checkpointing)
		cond_wait(&j->j_wait_checkpoint, &j->j_state_lock);
	j->j_checkpointing = true;
}

static void release_locked(journal_t *j)
{
	ASSERT(j->j_checkpointing);
	j->j_checkpointing = false;
	cond_broadcast(&j->j_wait_checkpoint);
}

/* Only held buffers are left on the way: commit their holder. */
static int force_holder(journal_t *j, tid_t tid)
{
	transaction_t *oldest;
	int err;

	counter_inc(&j->j_stats.js_forced_by_space);
	mutex_lock(&j->j_list_lock);
	oldest = TAILQ_FIRST(&j->j_checkpoint_transactions);
	if (oldest != NULL)
		oldest->t_cp_forced++;
	mutex_unlock(&j->j_list_lock);
	err = jbd2_log_wait_commit(j, tid);
	if (err != 0)
		return err;
	/* Durable is not enough: the lists are put right a moment later. */
	mutex_lock(&j->j_state_lock);
	while (!tid_geq(j->j_done_sequence, tid) && !jbd2_is_aborted(j))
		cond_wait(&j->j_wait_done, &j->j_state_lock);
	mutex_unlock(&j->j_state_lock);
	return 0;
}

static int checkpoint_to(journal_t *j, struct cp_batch *cb, const struct cp_goal *goal)
{
	int err = 0;

	while (err == 0 && !jbd2_is_aborted(j)) {
		reap_checkpointed(j);
		if (!collect(j, cb, goal))
			break;
		if (cb->cb_n > 0)
			err = write_batch(j, cb);
		else if (cb->cb_busy && goal->g_force)
			err = force_holder(j, cb->cb_busy_tid);
		else if (cb->cb_busy)
			break;
	}
	return err;
}

/* j_checkpointing is claimed. */
static int run_checkpoint(journal_t *j, struct cp_goal *goal)
{
	struct cp_batch *cb = malloc(sizeof(*cb));
	int err = -ENOMEM;

	if (cb == NULL)
		return err;
	mutex_lock(&j->j_state_lock);
	goal->g_limit = j->j_done_sequence;
	mutex_unlock(&j->j_state_lock);
	cb->cb_memory = malloc((size_t)CP_BATCH * j->j_block_bytes);
	if (cb->cb_memory != NULL)
		err = checkpoint_to(j, cb, goal);
	free(cb->cb_memory);
	free(cb);
	if (err == 0 && !jbd2_is_aborted(j))
		err = update_tail(j);
	if (err != 0 && err != -ENOMEM)
		jbd2_journal_abort(j, err);
	return err;
}

static int claim_and_run(journal_t *j, struct cp_goal *goal)
{
	int err;

	mutex_lock(&j->j_state_lock);
	claim_locked(j);
	mutex_unlock(&j->j_state_lock);
	err = run_checkpoint(j, goal);
	mutex_lock(&j->j_state_lock);
	release_locked(j);
	mutex_unlock(&j->j_state_lock);
	return err;
}

int jbd2_checkpoint_all(journal_t *j)
{
	struct cp_goal goal = {.g_free = INT32_MAX, .g_force = true};

	if (!jbd2_has_log(j))
		return 0;
	return claim_and_run(j, &goal);
}

void jbd2_make_space_locked(journal_t *j, int want)
{
	/* A little more than needed: the flush and the superblock are the dear part. */
	struct cp_goal goal = {.g_free = want + log_size(j) / 8, .g_force = true};
	int err;

	mutex_assert_held(&j->j_state_lock);
	if (j->j_checkpointing) {
		cond_wait(&j->j_wait_checkpoint, &j->j_state_lock);
		return;
	}
	j->j_checkpointing = true;
	mutex_unlock(&j->j_state_lock);
	err = run_checkpoint(j, &goal);
	mutex_lock(&j->j_state_lock);
	release_locked(j);
	if (err != 0 || atomic_load(&j->j_free) >= want)
		return;
	/* All that is left in the log belongs to the commit under way. */
	if (j->j_committing_transaction != NULL)
		cond_wait(&j->j_wait_done, &j->j_state_lock);
}

/* ---- In the background ---- */

static bool memory_is_short(const journal_t *j)
{
	return atomic_load_explicit(&j->j_held_blocks, memory_order_relaxed) > j->j_held_limit / 2;
}

bool jbd2_wants_checkpoint(const journal_t *j)
{
	return atomic_load(&j->j_free) < log_size(j) / 2 || memory_is_short(j);
}

void jbd2_kick_checkpoint_locked(journal_t *j)
{
	mutex_assert_held(&j->j_state_lock);
	if (!jbd2_has_log(j) || j->j_params.jp_manual_commit || !jbd2_wants_checkpoint(j))
		return;
	j->j_checkpoint_wanted = true;
	cond_broadcast(&j->j_wait_checkpoint);
}

static void checkpoint_in_background(journal_t *j)
{
	struct cp_goal goal = {.g_free = log_size(j) / 4 * 3};

	if (memory_is_short(j))
		goal.g_free = INT32_MAX;
	claim_and_run(j, &goal);
}

void jbd2_checkpoint_inline(journal_t *j)
{
	/* Not when this commit was forced by a checkpoint of this very thread. */
	if (jbd2_has_log(j) && !j->j_checkpointing && !jbd2_is_aborted(j) &&
	    jbd2_wants_checkpoint(j))
		checkpoint_in_background(j);
}

static void set_quiet_time_locked(journal_t *j)
{
	j->j_clean_ns = now_ns() + JBD2_QUIET_MS * NSEC_PER_MSEC;
	j->j_clean_tid = j->j_done_sequence;
}

void jbd2_journal_clean_when_quiet(journal_t *j)
{
	if (!jbd2_has_log(j) || j->j_params.jp_manual_commit || !j->j_loaded)
		return;
	mutex_lock(&j->j_state_lock);
	set_quiet_time_locked(j);
	cond_broadcast(&j->j_wait_checkpoint);
	mutex_unlock(&j->j_state_lock);
}

static bool is_quiet_locked(journal_t *j)
{
	transaction_t *t = j->j_running_transaction;

	return !j->j_hold && j->j_committing_transaction == NULL &&
	       j->j_done_sequence == j->j_clean_tid && (t == NULL || jbd2_is_idle(j, t));
}

/* The time has come. */
static void empty_log_locked(journal_t *j)
{
	struct cp_goal goal = {.g_free = INT32_MAX};
	int err;

	if (j->j_flushed || !is_quiet_locked(j)) {
		j->j_clean_ns = 0;
		if (!j->j_flushed)
			set_quiet_time_locked(j);
		return;
	}
	j->j_clean_ns = 0;
	mutex_unlock(&j->j_state_lock);
	err = claim_and_run(j, &goal);
	if (err == 0 && !jbd2_is_aborted(j))
		err = jbd2_mark_empty(j);
	/* -EAGAIN: others came. */
	if (err != 0 && err != -EAGAIN && err != -ENOMEM)
		jbd2_journal_abort(j, err);
	mutex_lock(&j->j_state_lock);
}

void *jbd2_checkpoint_thread(void *arg)
{
	journal_t *j = arg;

	mutex_lock(&j->j_state_lock);
	while (!j->j_stop) {
		if (!j->j_checkpoint_wanted && j->j_clean_ns == 0) {
			cond_wait(&j->j_wait_checkpoint, &j->j_state_lock);
			continue;
		}
		if (!j->j_checkpoint_wanted) {
			if (now_ns() < j->j_clean_ns)
				cond_timedwait(&j->j_wait_checkpoint, &j->j_state_lock,
					       j->j_clean_ns);
			else if (jbd2_is_aborted(j))
				j->j_clean_ns = 0;
			else
				empty_log_locked(j);
			continue;
		}
		j->j_checkpoint_wanted = false;
		if (jbd2_is_aborted(j))
			continue;
		mutex_unlock(&j->j_state_lock);
		checkpoint_in_background(j);
		mutex_lock(&j->j_state_lock);
	}
	mutex_unlock(&j->j_state_lock);
	return NULL;
}

/* ---- After an abort ---- */

/* Buffers stay held by bh_hold() until the lists let go of them. */
static struct buffer_head *first_checkpointed(journal_t *j)
{
	struct buffer_head *bh = NULL;
	transaction_t *t;

	reap_checkpointed(j);
	mutex_lock(&j->j_list_lock);
	t = TAILQ_FIRST(&j->j_checkpoint_transactions);
	if (t != NULL) {
		bh = TAILQ_FIRST(&t->t_checkpoint_list)->b_bh;
		bh_hold(bh);
	}
	mutex_unlock(&j->j_list_lock);
	return bh;
}

void jbd2_checkpoint_drop(journal_t *j)
{
	struct buffer_head *bh;

	while ((bh = first_checkpointed(j)) != NULL) {
		struct mutex *lock = jbd2_bstate(bh);
		struct journal_head *jh;
		bool detached;

		mutex_lock(lock);
		mutex_lock(&j->j_list_lock);
		jh = jbd2_jh_locked(bh);
		jbd2_uncheckpoint_locked(jh);
		detached = jbd2_detach_locked(jh);
		mutex_unlock(&j->j_list_lock);
		mutex_unlock(lock);
		ASSERT(detached);
		bh_put(bh);
		bh_put(bh);
	}
}
