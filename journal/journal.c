/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * journal.c - the life of a journal: made, loaded, aborted, emptied, taken down.
 *
 * jbd2_journal_init() only reads. Between it and jbd2_journal_load() the caller replays the log if
 * it has to; load chooses the features for the empty log and starts the threads: one commits, one
 * checkpoints in the background. Nothing is written until the first commit.
 *
 * Invariants: (1) j_error is set once and never cleared; from then on nothing is written to the log
 * or home but the error itself. (2) Threads exist between load and destroy only.
 * Locking: init, recover, load and destroy have the journal for themselves.
 */
#include <inttypes.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "journal/journal_int.h"
#include "util/assert.h"
#include "util/err.h"
#include "util/log.h"
#include "util/time.h"

#define SB(field) offsetof(struct jbd2_superblock_disk, field)

#define DEFAULT_COMMIT_MS 5000u
/* However small the cache is, a transaction of this many blocks must be possible. */
#define TRANSACTION_BLOCKS_MIN 1024
/* Rounds of commit and checkpoint that jbd2_journal_flush() tries while others go on writing. */
#define FLUSH_ROUNDS 16

/* ---- Making ---- */

static void init_locks(journal_t *j)
{
	mutex_init(&j->j_state_lock, LOCK_RANK_J_STATE);
	mutex_init(&j->j_list_lock, LOCK_RANK_J_LIST);
	cond_init(&j->j_wait_updates);
	cond_init(&j->j_wait_transaction);
	cond_init(&j->j_wait_commit);
	cond_init(&j->j_wait_done);
	cond_init(&j->j_wait_durable[0]);
	cond_init(&j->j_wait_durable[1]);
	cond_init(&j->j_wait_reserved);
	cond_init(&j->j_wait_checkpoint);
	cond_init(&j->j_wait_sb);
	cond_init(&j->j_wait_list);
}

static void free_journal(journal_t *j)
{
	mutex_destroy(&j->j_state_lock);
	mutex_destroy(&j->j_list_lock);
	cond_destroy(&j->j_wait_updates);
	cond_destroy(&j->j_wait_transaction);
	cond_destroy(&j->j_wait_commit);
	cond_destroy(&j->j_wait_done);
	cond_destroy(&j->j_wait_durable[0]);
	cond_destroy(&j->j_wait_durable[1]);
	cond_destroy(&j->j_wait_reserved);
	cond_destroy(&j->j_wait_sb);
	cond_destroy(&j->j_wait_checkpoint);
	cond_destroy(&j->j_wait_list);
	free(j->j_fc.fs_recs);
	free(j->j_fc_area);
	free(j->j_log_buffer);
	free(j->j_extents);
	free(j->j_sb);
	free(j);
}

static void set_sequences(journal_t *j, tid_t next)
{
	j->j_transaction_sequence = next;
	j->j_tail_sequence = next;
	j->j_commit_sequence = next - 1;
	j->j_done_sequence = next - 1;
	j->j_commit_request = next - 1;
}

static int init_log(journal_t *j)
{
	size_t bytes = j->j_params.jp_nr_extents * sizeof(j->j_extents[0]);
	void *sb;

	j->j_extents = malloc(bytes > 0 ? bytes : 1);
	if (j->j_extents == NULL)
		return -ENOMEM;
	memcpy(j->j_extents, j->j_params.jp_extents, bytes);
	j->j_nr_extents = j->j_params.jp_nr_extents;
	if (posix_memalign(&sb, 4096, j->j_block_bytes) != 0)
		return -ENOMEM;
	j->j_sb = sb;
	return jbd2_sb_read(j);
}

journal_t *jbd2_journal_init(const struct jbd2_params *params)
{
	journal_t *j = calloc(1, sizeof(*j));
	int err = 0;

	if (j == NULL)
		return ERR_PTR(-ENOMEM);
	j->j_params = *params;
	j->j_params.jp_extents = NULL;
	j->j_cache = params->jp_cache;
	j->j_fs_dev = params->jp_fs_dev;
	j->j_log_dev = params->jp_log_dev;
	j->j_ops = params->jp_ops;
	j->j_block_bytes = params->jp_block_bytes;
	j->j_fs_blocks = j->j_fs_dev->bd_size_bytes / j->j_block_bytes;
	init_locks(j);
	TAILQ_INIT(&j->j_checkpoint_transactions);
	atomic_init(&j->j_gate, GATE_CLOSED);
	jbd2_set_times(j, DEFAULT_COMMIT_MS, 0, 0);
	jbd2_set_times(j, params->jp_commit_interval_ms, params->jp_min_batch_us,
		       params->jp_max_batch_us);
	set_sequences(j, 1);
	jbd2_set_layout(j);
	if (j->j_log_dev != NULL) {
		j->j_params.jp_extents = params->jp_extents;
		err = init_log(j);
		j->j_params.jp_extents = j->j_extents;
	}
	if (err != 0) {
		free_journal(j);
		return ERR_PTR(err);
	}
	return j;
}

bool jbd2_has_log(const journal_t *j)
{
	return j->j_log_dev != NULL;
}

/* ---- Loading ---- */

/* A quarter of the log, and a quarter of what may be held in memory. */
static void set_limits(journal_t *j)
{
	uint64_t cache_blocks = bh_cache_limit(j->j_cache) / j->j_block_bytes;
	int64_t most = INT32_MAX / 8;

	if (cache_blocks < (uint64_t)most)
		most = (int64_t)cache_blocks;
	j->j_held_limit = most / 4 * 3;
	if (j->j_held_limit < TRANSACTION_BLOCKS_MIN * 4)
		j->j_held_limit = TRANSACTION_BLOCKS_MIN * 4;
	j->j_max_transaction = (int)(j->j_held_limit / 4);
	j->j_overhead = 0;
	if (!jbd2_has_log(j))
		return;
	if (j->j_max_transaction > (int)((j->j_last - j->j_first) / 4))
		j->j_max_transaction = (int)((j->j_last - j->j_first) / 4);
	/* The commit block, the descriptors, and one more that revoke blocks may leave partly used. */
	j->j_overhead = 2 + (j->j_max_transaction + (int)j->j_tags_per_block - 1) /
				    (int)j->j_tags_per_block;
}

/* One transaction may fill the log. */
static void set_hold_limits(journal_t *j)
{
	ASSERT_CMP(atomic_load(&j->j_free), ==, (int)(j->j_last - j->j_first));
	j->j_max_transaction = jbd2_space_left(j);
	j->j_overhead = 2 + (j->j_max_transaction + (int)j->j_tags_per_block - 1) /
				    (int)j->j_tags_per_block;
}

static int start_threads(journal_t *j)
{
	int err;

	if (j->j_params.jp_manual_commit || j->j_params.jp_read_only)
		return 0;
	err = pthread_create(&j->j_commit_thread, NULL, jbd2_commit_thread, j);
	if (err != 0)
		return -err;
	pthread_setname_np(j->j_commit_thread, "jbd2");
	err = pthread_create(&j->j_checkpoint_thread, NULL, jbd2_checkpoint_thread, j);
	if (err != 0) {
		mutex_lock(&j->j_state_lock);
		j->j_stop = true;
		cond_broadcast(&j->j_wait_commit);
		mutex_unlock(&j->j_state_lock);
		pthread_join(j->j_commit_thread, NULL);
		j->j_stop = false;
		return -err;
	}
	pthread_setname_np(j->j_checkpoint_thread, "jbd2-checkpoint");
	j->j_threads = true;
	return 0;
}

static void stop_threads(journal_t *j)
{
	if (!j->j_threads)
		return;
	mutex_lock(&j->j_state_lock);
	j->j_stop = true;
	cond_broadcast(&j->j_wait_commit);
	cond_broadcast(&j->j_wait_checkpoint);
	mutex_unlock(&j->j_state_lock);
	pthread_join(j->j_commit_thread, NULL);
	pthread_join(j->j_checkpoint_thread, NULL);
	j->j_threads = false;
}

/* The log is empty: how it goes on. */
static int open_log(journal_t *j)
{
	const tid_t sequence = get_be32(j->j_sb + SB(s_sequence));

	if (j->j_fc.fs_nr > 0) {
		/* On the disk the log begins here, so that the transaction that follows is found. */
		set_sequences(j, sequence);
		j->j_head = get_be32(j->j_sb + SB(s_start));
		j->j_flushed = false;
	} else if (jbd2_journal_needs_recovery(j)) {
		log_err("journal: the log has to be replayed first");
		return -EINVAL;
	} else {
		jbd2_sb_choose_features(j);
		/* Blocks of the past have older numbers than everything written from now on. */
		set_sequences(j, sequence + 1);
		j->j_head = j->j_first;
		j->j_flushed = true;
	}
	j->j_tail = j->j_head;
	atomic_store(&j->j_free, (int)(j->j_last - j->j_first));
	return 0;
}

int jbd2_journal_load(journal_t *j)
{
	int err = 0;

	ASSERT(!j->j_loaded);
	if (jbd2_has_log(j) && !j->j_params.jp_read_only)
		err = open_log(j);
	if (err != 0)
		return err;
	set_limits(j);
	err = start_threads(j);
	if (err != 0)
		return err;
	j->j_loaded = true;
	return 0;
}

/* ---- Taking down ---- */

/* After an abort a transaction may be left over: end it without writing. */
static void drop_running(journal_t *j)
{
	mutex_lock(&j->j_state_lock);
	while (j->j_committing_transaction != NULL)
		cond_wait(&j->j_wait_done, &j->j_state_lock);
	if (j->j_running_transaction != NULL)
		jbd2_commit_transaction_locked(j);
	mutex_unlock(&j->j_state_lock);
}

static int destroy_loaded(journal_t *j)
{
	int err = 0;

	if (!jbd2_is_aborted(j))
		err = jbd2_journal_force_commit(j);
	stop_threads(j);
	/* From here on commits, if any are left, happen in this thread. */
	j->j_params.jp_manual_commit = true;
	drop_running(j);
	if (err == 0 && jbd2_has_log(j) && !jbd2_is_aborted(j)) {
		err = jbd2_checkpoint_all(j);
		if (err == 0)
			err = jbd2_mark_empty(j);
		if (err != 0)
			jbd2_journal_abort(j, err);
	}
	jbd2_checkpoint_drop(j);
	return err;
}

int jbd2_journal_destroy(journal_t *j)
{
	int expected = 0;
	int err = 0, first;

	ASSERT(jbd2_current_handle() == NULL);
	ASSERT_CMP(jbd2_gate_count(j), ==, 0u);
	/* Fast commits that nobody has applied stay where they are. */
	if (j->j_fc.fs_nr > 0)
		atomic_compare_exchange_strong(&j->j_error, &expected, -ESHUTDOWN);
	if (j->j_loaded && !j->j_params.jp_read_only)
		err = destroy_loaded(j);
	ASSERT_CMP(atomic_load(&j->j_held_blocks), ==, 0);
	first = atomic_load(&j->j_error);
	free_journal(j);
	return first != 0 ? first : err;
}

/* ---- Fast commits ---- */

static void forget_fc(journal_t *j)
{
	free(j->j_fc.fs_recs);
	free(j->j_fc_area);
	j->j_fc = (struct fc_scan){.fs_nr = 0};
	j->j_fc_area = NULL;
}

const struct jbd2_fc_record *jbd2_fc_records(const journal_t *j, unsigned *n)
{
	*n = j->j_fc.fs_nr;
	return j->j_fc.fs_recs;
}

void jbd2_journal_hold_commits(journal_t *j)
{
	ASSERT(j->j_loaded);
	mutex_lock(&j->j_state_lock);
	ASSERT(j->j_running_transaction == NULL);
	ASSERT(j->j_committing_transaction == NULL);
	j->j_hold = true;
	set_hold_limits(j);
	mutex_unlock(&j->j_state_lock);
}

int jbd2_journal_release_commits(journal_t *j)
{
	int err;

	mutex_lock(&j->j_state_lock);
	ASSERT(j->j_hold);
	j->j_hold = false;
	if (j->j_running_transaction != NULL)
		jbd2_commit_and_wait_locked(j, j->j_running_transaction->t_tid);
	ASSERT(j->j_running_transaction == NULL || jbd2_is_aborted(j));
	set_limits(j);
	mutex_unlock(&j->j_state_lock);
	err = atomic_load(&j->j_error);
	if (err == 0)
		forget_fc(j);
	return err;
}

int jbd2_journal_flush(journal_t *j)
{
	int err = -EAGAIN;

	for (int round = 0; round < FLUSH_ROUNDS && err == -EAGAIN; round++) {
		err = jbd2_journal_force_commit(j);
		if (err != 0 || !jbd2_has_log(j))
			break;
		err = jbd2_checkpoint_all(j);
		if (err == 0)
			err = jbd2_mark_empty(j);
	}
	if (err != 0 && err != -EAGAIN && err != -ENOMEM)
		jbd2_journal_abort(j, err);
	return err;
}

/* ---- Abort ---- */

bool jbd2_is_aborted(const journal_t *j)
{
	return atomic_load_explicit(&j->j_error, memory_order_acquire) != 0;
}

void jbd2_state_lock_anywhere(journal_t *j)
{
	/* A try-lock has no place in the lock order. */
	while (!mutex_trylock(&j->j_state_lock))
		sched_yield();
}

void jbd2_journal_abort(journal_t *j, int error)
{
	int expected = 0;

	ASSERT_CMP(error, <, 0);
	if (!atomic_compare_exchange_strong(&j->j_error, &expected, error))
		return;
	log_err("journal aborted: error %d", -error);
	jbd2_state_lock_anywhere(j);
	jbd2_gate_update_locked(j);
	cond_broadcast(&j->j_wait_updates);
	cond_broadcast(&j->j_wait_transaction);
	cond_broadcast(&j->j_wait_commit);
	cond_broadcast(&j->j_wait_done);
	cond_broadcast(&j->j_wait_durable[0]);
	cond_broadcast(&j->j_wait_durable[1]);
	cond_broadcast(&j->j_wait_reserved);
	cond_broadcast(&j->j_wait_checkpoint);
	mutex_unlock(&j->j_state_lock);
	/* A shutdown is no error of the file system. The write may fail as the one before it did. */
	if (jbd2_has_log(j) && error != -ESHUTDOWN && !j->j_params.jp_read_only &&
	    jbd2_sb_set_errno(j, error) != 0)
		log_warn("journal: the error could not be recorded");
	if (j->j_ops != NULL && j->j_ops->aborted != NULL)
		j->j_ops->aborted(j->j_params.jp_fs, error);
}

/* ---- Settings and questions ---- */

void jbd2_set_times(journal_t *j, unsigned commit_ms, unsigned min_batch_us, unsigned max_batch_us)
{
	mutex_lock(&j->j_state_lock);
	if (commit_ms != 0) {
		transaction_t *t = j->j_running_transaction;

		j->j_commit_interval_ms = commit_ms;
		if (t != NULL)
			t->t_expires_ns = t->t_start_ns + commit_ms * NSEC_PER_MSEC;
		cond_signal(&j->j_wait_commit);
	}
	if (min_batch_us != 0)
		j->j_min_batch_us = min_batch_us;
	if (max_batch_us != 0)
		j->j_max_batch_us = max_batch_us;
	mutex_unlock(&j->j_state_lock);
}

unsigned jbd2_max_credits(const journal_t *j)
{
	return (unsigned)(j->j_max_transaction - j->j_overhead);
}
