/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * commit.c - the running transaction becomes durable.
 *
 * Lock-down closes the gate and waits for the open handles, takes the log blocks that the commit
 * needs (their number is exact by then) and makes the transaction the committing one; new handles
 * start at once in a new transaction. Then, without any lock: ordered data, the blocks into the
 * log, a flush of both devices, the commit block, durable by itself. What was logged moves to the
 * checkpoint list, what was freed leaves every list, and only then the callbacks run that give
 * freed blocks back. Without a log the same happens, but the copies go straight home.
 *
 * An abort at any point makes the rest of the commit a dry run: nothing more is written, the lists
 * are emptied, the callbacks hear of the error.
 *
 * Invariants: (1) the commit block is submitted only after everything before it in the transaction
 * is complete and flushed (journal_async_commit: one flush after all of it, and a checksum tells
 * whether it is whole). (2) j_commit_sequence moves only when the transaction is durable.
 * (3) A transaction without content takes no block when the log is empty on disk, else just a commit
 * block: the numbers in the log have no gaps.
 * Locking: one commit at a time, by whoever waits for it in jbd2_log_wait_commit(), or by the commit thread when nobody does. The committing
 * transaction's lists are changed by this thread only, and are walked without a lock.
 */
#include <stdlib.h>
#include <string.h>

#include "journal/journal_int.h"
#include "util/assert.h"
#include "util/err.h"
#include "util/log.h"
#include "util/order.h"
#include "util/time.h"

#define HOME_BATCH 256u
#define BUSY_WAIT_NS (UINT64_C(10) * NSEC_PER_MSEC)

/* ---- Lock-down ---- */

static unsigned descriptor_blocks(const journal_t *j, unsigned tags)
{
	return (tags + j->j_tags_per_block - 1) / j->j_tags_per_block;
}

static void lock_down_locked(journal_t *j, transaction_t *t)
{
	t->t_state = T_LOCKED;
	jbd2_gate_update_locked(j);
	while (jbd2_gate_count(j) > 0) {
		ASSERT(!j->j_params.jp_manual_commit);
		cond_wait(&j->j_wait_updates, &j->j_state_lock);
	}
}

/* Set the log blocks of t aside. */
static void take_log_blocks_locked(journal_t *j, transaction_t *t)
{
	unsigned revokes = atomic_load(&t->t_revoke.rt_count);
	unsigned n = 1 + t->t_nr_buffers + descriptor_blocks(j, t->t_nr_buffers) +
		     jbd2_revoke_blocks(j, revokes);

	t->t_log_start = j->j_head;
	if (!jbd2_has_log(j) || jbd2_is_aborted(j))
		return;
	if (t->t_nr_buffers == 0 && revokes == 0 && j->j_flushed)
		return;
	ASSERT_CMP((int)n, <=, j->j_max_transaction);
	ASSERT_CMP((int)n, <=, atomic_load(&j->j_free));
	t->t_log_blocks = n;
	atomic_fetch_sub(&j->j_free, (int)n);
	if (n >= j->j_last - j->j_head) {
		counter_inc(&j->j_stats.js_log_wraps);
		j->j_head = j->j_first + (n - (j->j_last - j->j_head));
	} else {
		j->j_head += n;
	}
}

static void switch_running_locked(journal_t *j, transaction_t *t)
{
	mutex_lock(&j->j_list_lock);
	take_log_blocks_locked(j, t);
	mutex_unlock(&j->j_list_lock);
	t->t_state = T_FLUSH;
	j->j_committing_transaction = t;
	j->j_running_transaction = NULL;
	cond_broadcast(&j->j_wait_transaction);
}

static void set_state(journal_t *j, transaction_t *t, enum t_state state)
{
	mutex_lock(&j->j_state_lock);
	t->t_state = state;
	mutex_unlock(&j->j_state_lock);
}

/* ---- Ordered data ---- */

static struct jbd2_inode *next_inode_locked(transaction_t *t)
{
	struct jbd2_inode *ji = TAILQ_FIRST(&t->t_inode_list);

	mutex_assert_held(&t->t_journal->j_list_lock);
	if (ji != NULL)
		ji->ji_committing = true;
	return ji;
}

static void inode_done_locked(transaction_t *t, struct jbd2_inode *ji)
{
	TAILQ_REMOVE(&t->t_inode_list, ji, ji_link);
	ji->ji_committing = false;
	ji->ji_transaction = ji->ji_next_transaction;
	ji->ji_next_transaction = NULL;
	if (ji->ji_transaction != NULL) {
		TAILQ_INSERT_TAIL(&ji->ji_transaction->t_inode_list, ji, ji_link);
	} else {
		ji->ji_dirty_start_bytes = 0;
		ji->ji_dirty_end_bytes = 0;
	}
	cond_broadcast(&t->t_journal->j_wait_list);
}

static void write_ordered_data(journal_t *j, transaction_t *t)
{
	struct jbd2_inode *ji;

	mutex_lock(&j->j_list_lock);
	while ((ji = next_inode_locked(t)) != NULL) {
		uint64_t start_bytes = ji->ji_dirty_start_bytes;
		uint64_t end_bytes = ji->ji_dirty_end_bytes;
		int err = 0;

		mutex_unlock(&j->j_list_lock);
		if (!jbd2_is_aborted(j))
			err = j->j_ops->write_ordered_data(ji->ji_owner, start_bytes, end_bytes);
		/* The owner reports it to whoever has the file open; the metadata is committed all the same. */
		if (err != 0)
			log_err("ordered data of a transaction was not written: error %d", -err);
		mutex_lock(&j->j_list_lock);
		inode_done_locked(t, ji);
	}
	mutex_unlock(&j->j_list_lock);
}

/* ---- The log ---- */

/* Copy what the transaction has for this buffer, and let later handles change it. */
static void copy_buffer(journal_t *j, struct journal_head *jh, uint8_t *to)
{
	struct buffer_head *bh = jh->b_bh;
	struct mutex *lock = jbd2_bstate(bh);
	uint8_t *frozen;

	lock_buffer(bh);
	mutex_lock(lock);
	frozen = jh->b_frozen_data;
	if (frozen == NULL)
		bh_seal(bh);
	memcpy(to, frozen != NULL ? frozen : bh->b_data, j->j_block_bytes);
	jh->b_frozen_data = NULL;
	jh->b_logged = true;
	mutex_unlock(lock);
	unlock_buffer(bh);
	jbd2_copy_free(j, frozen);
}

/* Copy into the log and describe it. A block that looks like one of the log's own is changed. */
static void log_buffer(journal_t *j, transaction_t *t, struct journal_head *jh, uint8_t *to,
		       struct jbd2_tag *tag)
{
	copy_buffer(j, jh, to);
	tag->tg_blocknr = jh->b_bh->b_blocknr;
	tag->tg_flags = 0;
	if (get_be32(to) == JBD2_MAGIC_NUMBER) {
		put_be32(to, 0);
		tag->tg_flags |= JBD2_FLAG_ESCAPE;
	}
	tag->tg_csum = jbd2_data_csum(j, t->t_tid, to);
}

/* One descriptor and its n blocks, from *jh on. *crc32 is chained over all of it where the log wants that. */
static void log_group(struct log_writer *lw, transaction_t *t, struct journal_head **jh, unsigned n,
		      uint32_t *crc32)
{
	journal_t *j = t->t_journal;
	uint8_t *descriptor = jbd2_log_next(lw, n + 1);
	uint8_t *to = descriptor;
	uint8_t *tagp = descriptor + sizeof(struct jbd2_header_disk);

	memset(descriptor, 0, j->j_block_bytes);
	jbd2_header_write(descriptor, JBD2_DESCRIPTOR_BLOCK, t->t_tid);
	for (unsigned i = 0; i < n; i++) {
		struct jbd2_tag tag;

		to += j->j_block_bytes;
		log_buffer(j, t, *jh, to, &tag);
		if (i > 0)
			tag.tg_flags |= JBD2_FLAG_SAME_UUID;
		if (i == n - 1)
			tag.tg_flags |= JBD2_FLAG_LAST_TAG;
		jbd2_tag_write(j, tagp, &tag);
		tagp += j->j_tag_bytes;
		if (i == 0) {
			memcpy(tagp, j->j_uuid, JBD2_UUID_BYTES);
			tagp += JBD2_UUID_BYTES;
		}
		*jh = TAILQ_NEXT(*jh, b_tnext);
	}
	jbd2_tail_csum_set(j, descriptor);
	if (jbd2_has_compat_csum(j))
		*crc32 = jbd2_crc32_be(*crc32, descriptor, (size_t)(n + 1) * j->j_block_bytes);
}

static void fill_commit_block(journal_t *j, transaction_t *t, uint8_t *block, uint32_t crc32)
{
	struct timespec now = now_real();
	uint64_t sec = (uint64_t)now.tv_sec;

	memset(block, 0, j->j_block_bytes);
	jbd2_header_write(block, JBD2_COMMIT_BLOCK, t->t_tid);
	put_be64(block + offsetof(struct jbd2_commit_disk, h_commit_sec_hi), sec);
	put_be32(block + offsetof(struct jbd2_commit_disk, h_commit_nsec), (uint32_t)now.tv_nsec);
	if (jbd2_has_compat_csum(j)) {
		block[offsetof(struct jbd2_commit_disk, h_chksum_type)] = JBD2_CRC32_CHKSUM;
		block[offsetof(struct jbd2_commit_disk, h_chksum_size)] = JBD2_CRC32_CHKSUM_SIZE;
		put_be32(block + offsetof(struct jbd2_commit_disk, h_chksum), crc32);
	}
	jbd2_commit_csum_set(j, block);
}

/*
 * The superblock says where the log begins, durably, before the first block is there: else a cut
 * could leave blocks of a transaction whose number the next life of the log uses again.
 */
static int open_log(journal_t *j, transaction_t *t)
{
	bool write;
	int err = 0;

	mutex_lock(&j->j_state_lock);
	jbd2_sb_claim_locked(j);
	write = j->j_flushed;
	mutex_unlock(&j->j_state_lock);
	if (write)
		err = jbd2_sb_write_claimed(j, t->t_tid, t->t_log_start, true);
	mutex_lock(&j->j_state_lock);
	if (write && err == 0) {
		j->j_flushed = false;
		j->j_tail = t->t_log_start;
		j->j_tail_sequence = t->t_tid;
	}
	mutex_unlock(&j->j_state_lock);
	jbd2_sb_release(j);
	return err;
}

static int flush_devices(journal_t *j, transaction_t *t)
{
	int err = 0;

	/* From here on jbd2_trans_will_send_data_barrier() says no. */
	set_state(j, t, T_COMMIT_FLUSH);
	if (j->j_log_dev != j->j_fs_dev || t->t_log_blocks == 0)
		err = jbd2_flush_fs_dev(j);
	if (err == 0 && t->t_log_blocks > 0)
		err = jbd2_flush_log_dev(j);
	return err;
}

static int write_commit_block(journal_t *j, transaction_t *t, uint32_t crc32)
{
	uint32_t at = t->t_log_blocks - 1;
	uint8_t *block = j->j_log_buffer;

	if (at >= j->j_last - t->t_log_start)
		at = j->j_first + (at - (j->j_last - t->t_log_start));
	else
		at += t->t_log_start;
	fill_commit_block(j, t, block, crc32);
	return jbd2_log_write_block(j, at, block, REQ_META | REQ_JOURNAL | REQ_SYNC | REQ_FUA);
}

static int write_log(journal_t *j, transaction_t *t)
{
	bool async = j->j_params.jp_async_commit;
	struct journal_head *jh = TAILQ_FIRST(&t->t_lists[JH_METADATA]);
	uint32_t crc32 = ~UINT32_C(0);
	uint64_t start_ns = stat_ns();
	struct log_writer *lw;
	int err;

	err = open_log(j, t);
	if (err != 0)
		return err;
	lw = jbd2_log_writer_new(j, t->t_log_start, t->t_log_blocks);
	if (lw == NULL)
		return -ENOMEM;
	set_state(j, t, T_COMMIT);
	jbd2_revoke_write(j, t, lw);
	for (unsigned left = t->t_nr_buffers; left > 0;) {
		unsigned n = left < j->j_tags_per_block ? left : j->j_tags_per_block;

		log_group(lw, t, &jh, n, &crc32);
		left -= n;
	}
	if (async)
		fill_commit_block(j, t, jbd2_log_next(lw, 1), crc32);
	err = jbd2_log_finish(lw);
	if (err == 0)
		err = flush_devices(j, t);
	if (err == 0 && !async)
		err = write_commit_block(j, t, crc32);
	counter_add(&j->j_stats.js_blocks_logged, t->t_nr_buffers);
	hist_add(&j->j_stats.js_log_ns, stat_ns() - start_ns);
	return err;
}

/* ---- Without a log: straight home ---- */

struct home_copy {
	struct buffer_head *hc_bh;
	uint8_t *hc_data;
};

static int compare_home(const void *a, const void *b)
{
	uint64_t x = ((const struct home_copy *)a)->hc_bh->b_blocknr;
	uint64_t y = ((const struct home_copy *)b)->hc_bh->b_blocknr;

	return order_u64(x, y);
}

static int write_home_batch(journal_t *j, struct home_copy *hc, unsigned n)
{
	struct buffer_head *bhs[HOME_BATCH];
	const uint8_t *data[HOME_BATCH];

	qsort(hc, n, sizeof(hc[0]), compare_home);
	for (unsigned i = 0; i < n; i++) {
		bhs[i] = hc[i].hc_bh;
		data[i] = hc[i].hc_data;
	}
	return jbd2_write_home(j, bhs, data, n);
}

static int write_all_home(journal_t *j, transaction_t *t)
{
	struct home_copy hc[HOME_BATCH];
	struct journal_head *jh = TAILQ_FIRST(&t->t_lists[JH_METADATA]);
	uint8_t *copies = malloc((size_t)HOME_BATCH * j->j_block_bytes);
	int err = 0;

	if (copies == NULL)
		return -ENOMEM;
	set_state(j, t, T_COMMIT);
	while (jh != NULL && err == 0) {
		unsigned n = 0;

		for (; jh != NULL && n < HOME_BATCH; jh = TAILQ_NEXT(jh, b_tnext)) {
			hc[n].hc_bh = jh->b_bh;
			hc[n].hc_data = copies + (size_t)n * j->j_block_bytes;
			copy_buffer(j, jh, hc[n].hc_data);
			n++;
		}
		err = write_home_batch(j, hc, n);
	}
	free(copies);
	return err == 0 ? flush_devices(j, t) : err;
}

/* ---- After the commit block ---- */

/*
 * A freed block may get a new owner when the callbacks have run: no checkpoint may hold a copy of
 * it then that is still to be written.
 */
static void wait_checkpoint_write(journal_t *j, const struct journal_head *jh)
{
	mutex_lock(&j->j_list_lock);
	while (jh->b_cp_writing)
		cond_wait(&j->j_wait_list, &j->j_list_lock);
	mutex_unlock(&j->j_list_lock);
}

/* The buffer's time in t is over: to the checkpoint list if it was logged, to the next transaction if that took it. */
static void settle(transaction_t *t, struct journal_head *jh, bool logged)
{
	journal_t *j = t->t_journal;
	struct buffer_head *bh = jh->b_bh;
	struct mutex *lock = jbd2_bstate(bh);
	transaction_t *next;
	uint8_t *frozen;
	bool reserved = jh->b_jlist == JH_RESERVED;
	bool detached;

	if (!reserved && !logged)
		wait_checkpoint_write(j, jh);
	mutex_lock(lock);
	mutex_lock(&j->j_list_lock);
	frozen = jh->b_frozen_data;
	next = jh->b_next_transaction;
	jh->b_frozen_data = NULL;
	jh->b_next_transaction = NULL;
	jh->b_logged = false;
	jbd2_unfile_locked(jh);
	/* An older committed copy is superseded, or its block was freed. */
	if (!reserved && jh->b_cp_transaction != NULL) {
		jh->b_cp_transaction->t_cp_dropped++;
		jbd2_uncheckpoint_locked(jh);
	}
	if (logged) {
		jh->b_cp_transaction = t;
		TAILQ_INSERT_TAIL(&t->t_checkpoint_list, jh, b_cpnext);
	}
	if (next != NULL)
		jbd2_file_locked(jh, next, jh->b_next_jlist);
	detached = jbd2_detach_locked(jh);
	mutex_unlock(&j->j_list_lock);
	mutex_unlock(lock);
	jbd2_copy_free(j, frozen);
	if (detached)
		bh_put(bh);
}

static void settle_list(transaction_t *t, enum jh_list list, bool logged)
{
	struct journal_head *jh;

	while ((jh = TAILQ_FIRST(&t->t_lists[list])) != NULL)
		settle(t, jh, logged);
}

static void run_callbacks(transaction_t *t, int error)
{
	struct jbd2_commit_cb *cb;

	while ((cb = STAILQ_FIRST(&t->t_callbacks)) != NULL) {
		STAILQ_REMOVE_HEAD(&t->t_callbacks, cb_link);
		cb->cb_fn(cb, error);
	}
}

/* ---- One commit ---- */

static int make_durable(journal_t *j, transaction_t *t)
{
	int err = atomic_load(&j->j_error);

	if (err != 0)
		return err;
	if (t->t_log_blocks > 0)
		return write_log(j, t);
	if (!jbd2_has_log(j))
		return write_all_home(j, t);
	return flush_devices(j, t);
}

static struct cond *durable_cond(journal_t *j, tid_t tid)
{
	return &j->j_wait_durable[tid % 2];
}

static void note_durable(journal_t *j, transaction_t *t, uint64_t commit_ns)
{
	mutex_lock(&j->j_state_lock);
	t->t_state = T_CALLBACK;
	j->j_commit_sequence = t->t_tid;
	if (j->j_average_commit_ns == 0)
		j->j_average_commit_ns = commit_ns;
	else
		j->j_average_commit_ns = (commit_ns + j->j_average_commit_ns * 3) / 4;
	cond_broadcast(durable_cond(j, t->t_tid));
	mutex_unlock(&j->j_state_lock);
	jbd2_note_commit(j, t->t_tid, commit_ns);
}

/* t has ended; it lives on while its checkpoint list is not empty. */
static void finish_locked(journal_t *j, transaction_t *t)
{
	bool keep;

	mutex_assert_held(&j->j_state_lock);
	t->t_state = T_FINISHED;
	jbd2_trace_end_locked(j, t);
	j->j_committing_transaction = NULL;
	j->j_done_sequence = t->t_tid;
	mutex_lock(&j->j_list_lock);
	keep = !TAILQ_EMPTY(&t->t_checkpoint_list);
	if (keep) {
		/* Once it is on the list and the lock is free, a checkpoint may write the last buffer and free it. */
		jbd2_revoke_clear(&t->t_revoke);
		TAILQ_INSERT_TAIL(&j->j_checkpoint_transactions, t, t_cpnext);
	}
	mutex_unlock(&j->j_list_lock);
	if (!keep)
		jbd2_transaction_free(t);
	cond_broadcast(&j->j_wait_done);
	cond_signal(durable_cond(j, j->j_done_sequence + 1));
	cond_broadcast(&j->j_wait_transaction);
	jbd2_kick_checkpoint_locked(j);
}

static bool commit_runs_locked(const journal_t *j)
{
	const transaction_t *t = j->j_running_transaction;

	return j->j_committing_transaction != NULL || (t != NULL && t->t_state == T_LOCKED);
}

void jbd2_commit_transaction_locked(journal_t *j)
{
	transaction_t *t = j->j_running_transaction;
	uint64_t start_ns = now_ns();
	bool logged;
	int err;

	mutex_assert_held(&j->j_state_lock);
	ASSERT(!commit_runs_locked(j));
	if (t == NULL)
		return;
	jbd2_run_begin_locked(j, t);
	lock_down_locked(j, t);
	switch_running_locked(j, t);
	mutex_unlock(&j->j_state_lock);
	jbd2_run_flushing(j, t);

	settle_list(t, JH_RESERVED, false);
	write_ordered_data(j, t);
	jbd2_run_logging(j, t);
	err = make_durable(j, t);
	if (err == 0)
		note_durable(j, t, now_ns() - start_ns);
	else
		jbd2_journal_abort(j, err);
	jbd2_run_end(j, t);
	logged = err == 0 && jbd2_has_log(j);
	settle_list(t, JH_METADATA, logged);
	settle_list(t, JH_FORGET, false);
	run_callbacks(t, err);

	mutex_lock(&j->j_state_lock);
	finish_locked(j, t);
	if (!j->j_params.jp_manual_commit)
		return;
	mutex_unlock(&j->j_state_lock);
	jbd2_checkpoint_inline(j);
	mutex_lock(&j->j_state_lock);
}

/* ---- The commit thread ---- */

bool jbd2_is_idle(journal_t *j, transaction_t *t)
{
	bool idle;

	if (jbd2_gate_count(j) > 0)
		return false;
	mutex_lock(&j->j_list_lock);
	idle = t->t_nr_buffers == 0 && STAILQ_EMPTY(&t->t_callbacks) &&
	       TAILQ_EMPTY(&t->t_inode_list) && atomic_load(&t->t_revoke.rt_count) == 0;
	mutex_unlock(&j->j_list_lock);
	return idle;
}

/* True if the running transaction is due; a transaction without content only gets more time. */
static bool commit_is_due_locked(journal_t *j)
{
	transaction_t *t = j->j_running_transaction;

	if (t == NULL || j->j_hold || commit_runs_locked(j))
		return false;
	if (tid_geq(j->j_commit_request, t->t_tid))
		return true;
	if (now_ns() < t->t_expires_ns)
		return false;
	if (!jbd2_is_idle(j, t))
		return true;
	t->t_expires_ns = now_ns() + j->j_commit_interval_ms * NSEC_PER_MSEC;
	return false;
}

/* Sleep until the running transaction is due by its age; a request for a commit wakes the thread before. */
static void wait_until_due_locked(journal_t *j)
{
	transaction_t *t = j->j_running_transaction;
	uint64_t due_ns = UINT64_MAX;

	if (t != NULL && !j->j_hold)
		due_ns = t->t_expires_ns;
	/* Due, but somebody else's commit has not ended, which tells us when it has. */
	if (commit_runs_locked(j) && due_ns <= now_ns())
		due_ns = now_ns() + BUSY_WAIT_NS;
	j->j_thread_wakes_ns = due_ns;
	if (due_ns == UINT64_MAX)
		cond_wait(&j->j_wait_commit, &j->j_state_lock);
	else
		cond_timedwait(&j->j_wait_commit, &j->j_state_lock, due_ns);
	j->j_thread_wakes_ns = 0;
}

void *jbd2_commit_thread(void *arg)
{
	journal_t *j = arg;

	mutex_lock(&j->j_state_lock);
	while (!j->j_stop) {
		if (commit_is_due_locked(j))
			jbd2_commit_transaction_locked(j);
		else
			wait_until_due_locked(j);
	}
	mutex_unlock(&j->j_state_lock);
	return NULL;
}

void jbd2_tell_commit_thread_locked(journal_t *j)
{
	if (j->j_thread_wakes_ns > j->j_running_transaction->t_expires_ns)
		cond_signal(&j->j_wait_commit);
}

/* ---- Asking for commits ---- */

int jbd2_start_commit_locked(journal_t *j, tid_t tid)
{
	transaction_t *running = j->j_running_transaction;
	transaction_t *committing = j->j_committing_transaction;

	mutex_assert_held(&j->j_state_lock);
	if (j->j_hold)
		return 0;
	if (running != NULL && running->t_tid == tid) {
		if (!tid_geq(j->j_commit_request, tid)) {
			j->j_commit_request = tid;
			running->t_requested_ns = stat_ns();
			cond_signal(&j->j_wait_commit);
		}
		return 1;
	}
	return committing != NULL && committing->t_tid == tid ? 1 : 0;
}

int jbd2_log_start_commit(journal_t *j, tid_t tid)
{
	int started;

	mutex_lock(&j->j_state_lock);
	started = jbd2_start_commit_locked(j, tid);
	mutex_unlock(&j->j_state_lock);
	return started;
}

static bool may_commit_here_locked(const journal_t *j, tid_t tid)
{
	const transaction_t *t = j->j_running_transaction;

	return !j->j_hold && !commit_runs_locked(j) && t != NULL && t->t_tid == tid;
}

/* As jbd2_commit_transaction_locked(), in a thread that waits for it: the commit thread hears of what became due meanwhile. */
static void commit_here_locked(journal_t *j)
{
	if (j->j_running_transaction->t_requested_ns == 0)
		j->j_running_transaction->t_requested_ns = stat_ns();
	jbd2_commit_transaction_locked(j);
	if (commit_is_due_locked(j))
		cond_signal(&j->j_wait_commit);
}

void jbd2_commit_and_wait_locked(journal_t *j, tid_t tid)
{
	if (j->j_params.jp_manual_commit && may_commit_here_locked(j, tid))
		jbd2_commit_transaction_locked(j);
	jbd2_start_commit_locked(j, tid);
	while (!j->j_hold && !tid_geq(j->j_done_sequence, tid) && !jbd2_is_aborted(j))
		cond_wait(&j->j_wait_done, &j->j_state_lock);
}

/* Running, or committing and not durable yet. */
static bool pending_locked(const journal_t *j, tid_t tid)
{
	const transaction_t *running = j->j_running_transaction;
	const transaction_t *committing = j->j_committing_transaction;

	return (running != NULL && running->t_tid == tid) ||
	       (committing != NULL && committing->t_tid == tid &&
		!tid_geq(j->j_commit_sequence, tid));
}

/*
 * Whoever waits commits itself, unless somebody is at it: then all who came meanwhile wait for that to end, and one of them is
 * woken and commits for all.
 */
int jbd2_log_wait_commit(journal_t *j, tid_t tid)
{
	int err = 0;

	ASSERT(jbd2_current_handle() == NULL);
	mutex_lock(&j->j_state_lock);
	while (pending_locked(j, tid) && !j->j_hold && !jbd2_is_aborted(j)) {
		if (may_commit_here_locked(j, tid))
			commit_here_locked(j);
		else
			cond_wait(durable_cond(j, tid), &j->j_state_lock);
	}
	if (!tid_geq(j->j_commit_sequence, tid)) {
		err = atomic_load(&j->j_error);
		/* After an abort what is left is still taken apart. */
		jbd2_start_commit_locked(j, tid);
	}
	mutex_unlock(&j->j_state_lock);
	return err;
}

bool jbd2_transaction_pending(journal_t *j, tid_t tid)
{
	bool pending;

	mutex_lock(&j->j_state_lock);
	pending = pending_locked(j, tid);
	mutex_unlock(&j->j_state_lock);
	return pending;
}

int jbd2_complete_transaction(journal_t *j, tid_t tid)
{
	if (jbd2_transaction_pending(j, tid))
		return jbd2_log_wait_commit(j, tid);
	/* Done long ago, or lost by an abort. */
	return jbd2_is_aborted(j) ? jbd2_log_wait_commit(j, tid) : 0;
}

tid_t jbd2_newest_tid(journal_t *j)
{
	transaction_t *t;
	tid_t tid;

	mutex_lock(&j->j_state_lock);
	t = j->j_running_transaction;
	if (t != NULL && atomic_load_explicit(&t->t_handle_count, memory_order_relaxed) > 0)
		tid = t->t_tid;
	else if (j->j_committing_transaction != NULL)
		tid = j->j_committing_transaction->t_tid;
	else
		tid = j->j_commit_sequence;
	mutex_unlock(&j->j_state_lock);
	return tid;
}

int jbd2_journal_force_commit(journal_t *j)
{
	transaction_t *t;
	tid_t tid;
	int err = 0;

	ASSERT(jbd2_current_handle() == NULL);
	mutex_lock(&j->j_state_lock);
	t = j->j_running_transaction;
	if (t != NULL && !jbd2_is_idle(j, t))
		tid = t->t_tid;
	else
		tid = j->j_committing_transaction != NULL ? j->j_committing_transaction->t_tid
							  : j->j_done_sequence;
	jbd2_commit_and_wait_locked(j, tid);
	if (!tid_geq(j->j_commit_sequence, tid))
		err = atomic_load(&j->j_error);
	mutex_unlock(&j->j_state_lock);
	return err;
}

bool jbd2_trans_will_send_data_barrier(journal_t *j, tid_t tid)
{
	transaction_t *t;
	bool will = false;

	if (!j->j_params.jp_barrier)
		return false;
	mutex_lock(&j->j_state_lock);
	t = j->j_committing_transaction;
	if (j->j_running_transaction != NULL && j->j_running_transaction->t_tid == tid)
		will = true;
	else if (t != NULL && t->t_tid == tid)
		will = t->t_state < T_COMMIT_FLUSH;
	mutex_unlock(&j->j_state_lock);
	return will;
}
