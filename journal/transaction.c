/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * transaction.c - handles: joining the running transaction, credits, reservations, restart.
 *
 * A handle joins by adding 1 to j_gate. While GATE_CLOSED is not set that alone pins the running
 * transaction, because a commit first closes the gate and then waits for the count to fall to 0:
 * the usual start and stop are a few atomic operations and no lock. With the gate closed the
 * handle takes the slow way, under j_state_lock: no transaction yet, one that is locked down, one
 * that is full, a log that is full, updates locked out.
 *
 * Space is promised before anything is changed: the credits of all handles of a transaction, of
 * all reservations, and the transaction's own overhead never exceed j_max_transaction, and a
 * handle joins only while the log has that many blocks free. So a commit never waits for space.
 * Reservations are counted in every new transaction; a reserved handle may therefore join one
 * that is being locked down, and need not look at the log's space.
 *
 * Invariants: (1) t_outstanding_credits <= j_max_transaction, but for a moment in try_join().
 * (2) The running transaction is switched only under j_state_lock with the gate closed and its
 * count 0; while the gate is closed the count grows for good only under j_state_lock. (3) j_reserved_credits <=
 * j_max_transaction / 2. (4) A thread has at most one open handle.
 * Locking: j_state_lock for the slow way. The pseudo rank HANDLE is held from start to stop.
 */
#include <stdlib.h>
#include <unistd.h>

#include "journal/journal_int.h"
#include "util/assert.h"
#include "util/err.h"
#include "util/time.h"

/* Blocks that are never promised, as in the kernel. */
#define LOG_SPACE_SLACK 32

static __thread handle_t *current_handle; /* [owner thread] */

/* Why a handle could not join. */
enum join { JOIN_OK, JOIN_FULL, JOIN_NO_SPACE, JOIN_RESERVED, JOIN_MEMORY };

/* What is asked for. */
struct demand {
	int d_credits;	 /* log blocks for the handle */
	int d_reserve;	 /* log blocks set aside */
	bool d_relieved; /* memory was freed once for this request: do not insist */
};

/* ---- The gate ---- */

unsigned jbd2_gate_count(const journal_t *j)
{
	return atomic_load_explicit(&j->j_gate, memory_order_acquire) & ~GATE_CLOSED;
}

void jbd2_gate_update_locked(journal_t *j)
{
	transaction_t *t = j->j_running_transaction;

	mutex_assert_held(&j->j_state_lock);
	if (t != NULL && t->t_state == T_RUNNING && j->j_barrier_waiters == 0 &&
	    !jbd2_is_aborted(j))
		atomic_fetch_and_explicit(&j->j_gate, ~GATE_CLOSED, memory_order_acq_rel);
	else
		atomic_fetch_or_explicit(&j->j_gate, GATE_CLOSED, memory_order_acq_rel);
}

/*
 * Drop one count; true if somebody may wait for it to be 0. Pairs with the acquire in
 * jbd2_gate_count(): the commit sees what the handle did.
 */
static bool gate_drop(journal_t *j)
{
	uint32_t old = atomic_fetch_sub_explicit(&j->j_gate, 1, memory_order_acq_rel);

	ASSERT_CMP(old & ~GATE_CLOSED, >, 0u);
	return old == (GATE_CLOSED | 1);
}

static void gate_leave(journal_t *j)
{
	if (!gate_drop(j))
		return;
	mutex_lock(&j->j_state_lock);
	cond_broadcast(&j->j_wait_updates);
	mutex_unlock(&j->j_state_lock);
}

/* True if the running transaction is pinned. */
static bool gate_enter(journal_t *j)
{
	uint32_t old = atomic_fetch_add_explicit(&j->j_gate, 1, memory_order_acq_rel);

	if ((old & GATE_CLOSED) == 0)
		return true;
	gate_leave(j);
	return false;
}

/* ---- Transactions ---- */

transaction_t *jbd2_transaction_new(journal_t *j)
{
	transaction_t *t = calloc(1, sizeof(*t));

	mutex_assert_held(&j->j_state_lock);
	if (t == NULL)
		return NULL;
	t->t_journal = j;
	t->t_tid = j->j_transaction_sequence++;
	t->t_state = T_RUNNING;
	t->t_start_ns = now_ns();
	t->t_expires_ns = t->t_start_ns + j->j_commit_interval_ms * NSEC_PER_MSEC;
	atomic_init(&t->t_outstanding_credits, j->j_overhead + atomic_load(&j->j_reserved_credits));
	for (unsigned i = 0; i < JH_LISTS; i++)
		TAILQ_INIT(&t->t_lists[i]);
	TAILQ_INIT(&t->t_checkpoint_list);
	TAILQ_INIT(&t->t_inode_list);
	STAILQ_INIT(&t->t_callbacks);
	jbd2_revoke_init(&t->t_revoke);
	return t;
}

void jbd2_transaction_free(transaction_t *t)
{
	for (unsigned i = 0; i < JH_LISTS; i++)
		ASSERT(TAILQ_EMPTY(&t->t_lists[i]));
	ASSERT(TAILQ_EMPTY(&t->t_checkpoint_list));
	ASSERT(TAILQ_EMPTY(&t->t_inode_list));
	ASSERT(STAILQ_EMPTY(&t->t_callbacks));
	jbd2_revoke_clear(&t->t_revoke);
	free(t);
}

/* ---- Joining ---- */

int jbd2_space_left(const journal_t *j)
{
	return atomic_load_explicit(&j->j_free, memory_order_acquire) - LOG_SPACE_SLACK;
}

bool jbd2_over_held_limit(const journal_t *j)
{
	return atomic_load_explicit(&j->j_held_blocks, memory_order_relaxed) > j->j_held_limit;
}

static void wake_reserved_waiters(journal_t *j)
{
	/* Sequentially consistent, as the waiter's increment: one of the two sees the other. */
	if (atomic_load(&j->j_waiters_reserved) == 0)
		return;
	mutex_lock(&j->j_state_lock);
	cond_broadcast(&j->j_wait_reserved);
	cond_broadcast(&j->j_wait_updates);
	mutex_unlock(&j->j_state_lock);
}

static bool reservation_too_big(const journal_t *j, const struct demand *d)
{
	int reserved = atomic_load(&j->j_reserved_credits);

	if (d->d_reserve > 0 && reserved + d->d_reserve > j->j_max_transaction / 2)
		return true;
	return reserved + d->d_credits + d->d_reserve + j->j_overhead > j->j_max_transaction;
}

/* Take the credits from t, which is pinned. */
static enum join try_join(journal_t *j, transaction_t *t, const struct demand *d)
{
	int total = d->d_credits + d->d_reserve;
	int needed = atomic_fetch_add(&t->t_outstanding_credits, total) + total;
	enum join result = JOIN_OK;

	if (reservation_too_big(j, d))
		result = JOIN_RESERVED;
	else if (needed > j->j_max_transaction)
		result = JOIN_FULL;
	else if (jbd2_has_log(j) && jbd2_space_left(j) < j->j_max_transaction)
		result = JOIN_NO_SPACE;
	else if (!d->d_relieved && jbd2_over_held_limit(j))
		result = JOIN_MEMORY;
	if (result == JOIN_OK && d->d_reserve > 0) {
		int reserved = atomic_fetch_add(&j->j_reserved_credits, d->d_reserve);

		if (reserved + d->d_reserve > j->j_max_transaction / 2) {
			atomic_fetch_sub(&j->j_reserved_credits, d->d_reserve);
			result = JOIN_RESERVED;
		}
	}
	if (result != JOIN_OK)
		atomic_fetch_sub(&t->t_outstanding_credits, total);
	return result;
}

/* ---- Waiting to join, under j_state_lock ---- */

static void wait_switched_locked(journal_t *j, tid_t tid)
{
	uint64_t start_ns = stat_ns();

	while (j->j_running_transaction != NULL && j->j_running_transaction->t_tid == tid &&
	       !jbd2_is_aborted(j))
		cond_wait(&j->j_wait_transaction, &j->j_state_lock);
	hist_add(&j->j_stats.js_wait_locked_ns, stat_ns() - start_ns);
}

/* t is full: have it committed and wait until a new one can be begun. */
static void wait_full_locked(journal_t *j, transaction_t *t)
{
	jbd2_start_commit_locked(j, t->t_tid);
	if (j->j_params.jp_manual_commit)
		jbd2_commit_transaction_locked(j);
	else
		wait_switched_locked(j, t->t_tid);
}

static int wait_reserved_locked(journal_t *j, const struct demand *d)
{
	if (j->j_params.jp_manual_commit)
		return -EAGAIN;
	atomic_fetch_add(&j->j_waiters_reserved, 1);
	if (reservation_too_big(j, d) && !jbd2_is_aborted(j))
		cond_wait(&j->j_wait_reserved, &j->j_state_lock);
	atomic_fetch_sub(&j->j_waiters_reserved, 1);
	return 0;
}

/* Buffers that the journal pins are over their limit: commit and write home once, then go on. */
static void relieve_memory_locked(journal_t *j)
{
	transaction_t *t = j->j_running_transaction;
	tid_t tid = t->t_tid;

	counter_inc(&j->j_stats.js_forced_by_space);
	if (j->j_params.jp_manual_commit) {
		jbd2_commit_transaction_locked(j);
	} else {
		jbd2_start_commit_locked(j, tid);
		while (!tid_geq(j->j_done_sequence, tid) && !jbd2_is_aborted(j))
			cond_wait(&j->j_wait_done, &j->j_state_lock);
	}
	if (jbd2_has_log(j) && !jbd2_is_aborted(j)) {
		mutex_unlock(&j->j_state_lock);
		jbd2_checkpoint_all(j);
		mutex_lock(&j->j_state_lock);
	}
}

static int wait_to_join_locked(journal_t *j, struct demand *d, enum join why)
{
	counter_inc(&j->j_stats.js_start_waits);
	/* Memory is then bounded by the log. */
	if (j->j_hold && why == JOIN_MEMORY) {
		d->d_relieved = true;
		return 0;
	}
	if (j->j_hold && why != JOIN_RESERVED)
		return -ENOSPC;
	switch (why) {
	case JOIN_FULL:
		wait_full_locked(j, j->j_running_transaction);
		return 0;
	case JOIN_NO_SPACE:
		counter_inc(&j->j_stats.js_forced_by_space);
		jbd2_make_space_locked(j, j->j_max_transaction + LOG_SPACE_SLACK);
		return 0;
	case JOIN_MEMORY:
		relieve_memory_locked(j);
		d->d_relieved = true;
		return 0;
	default:
		return wait_reserved_locked(j, d);
	}
}

/*
 * Updates are being locked out in two steps: first no new reservation is made and the old ones are
 * used up, while plain handles, which their owners may need before, still start; then none does.
 */
static bool barred_locked(const journal_t *j, const struct demand *d)
{
	if (j->j_barrier_waiters == 0)
		return false;
	if (d->d_reserve > 0 || j->j_barrier_count > 0)
		return true;
	return atomic_load(&j->j_reserved_credits) == 0;
}

/* There is none that runs: a new one. */
static int begin_locked(journal_t *j)
{
	transaction_t *t = jbd2_transaction_new(j);

	if (t == NULL)
		return -ENOMEM;
	j->j_running_transaction = t;
	jbd2_gate_update_locked(j);
	jbd2_tell_commit_thread_locked(j);
	return 0;
}

/* A transaction that runs, made if there is none; *t NULL after waiting: look again. */
static int running_locked(journal_t *j, const struct demand *d, transaction_t **t)
{
	*t = NULL;
	if (jbd2_is_aborted(j))
		return -EROFS;
	if (barred_locked(j, d)) {
		ASSERT(!j->j_params.jp_manual_commit);
		cond_wait(&j->j_wait_transaction, &j->j_state_lock);
		return 0;
	}
	if (j->j_running_transaction == NULL) {
		int err = begin_locked(j);

		if (err != 0)
			return err;
	}
	if (j->j_running_transaction->t_state != T_RUNNING) {
		counter_inc(&j->j_stats.js_start_waits);
		wait_switched_locked(j, j->j_running_transaction->t_tid);
		return 0;
	}
	*t = j->j_running_transaction;
	return 0;
}

/* On success the transaction is pinned and its credits are taken. */
static int join_slowly(journal_t *j, struct demand *d, transaction_t **result)
{
	uint64_t since_ns = stat_ns();
	int err = 0;

	lock_assert_none_from(LOCK_RANK_PAGE);
	mutex_lock(&j->j_state_lock);
	while (err == 0) {
		enum join why;
		transaction_t *t;

		err = running_locked(j, d, &t);
		if (t == NULL)
			continue;
		atomic_fetch_add_explicit(&j->j_gate, 1, memory_order_acq_rel);
		why = try_join(j, t, d);
		if (why == JOIN_OK) {
			jbd2_run_waited_locked(t, since_ns);
			*result = t;
			break;
		}
		if (gate_drop(j))
			cond_broadcast(&j->j_wait_updates);
		err = wait_to_join_locked(j, d, why);
	}
	mutex_unlock(&j->j_state_lock);
	return err;
}

static int join_transaction(journal_t *j, struct demand *d, transaction_t **result)
{
	if (gate_enter(j)) {
		*result = j->j_running_transaction;
		if (try_join(j, *result, d) == JOIN_OK)
			return 0;
		gate_leave(j);
	}
	return join_slowly(j, d, result);
}

/* ---- Handles ---- */

static int revoke_room(const journal_t *j, unsigned revokes)
{
	return jbd2_has_log(j) ? (int)jbd2_revoke_blocks(j, revokes) : 0;
}

static void handle_set_credits(handle_t *h, unsigned credits, unsigned revokes)
{
	h->h_credits = (int)credits;
	h->h_requested = (int)credits;
	h->h_extra_credits = revoke_room(h->h_journal, revokes);
	h->h_revoke_credits = (int)revokes;
	h->h_revoke_used = 0;
}

static handle_t *handle_new(journal_t *j, enum jbd2_handle_type type)
{
	handle_t *h = calloc(1, sizeof(*h));

	if (h == NULL)
		return NULL;
	h->h_journal = j;
	h->h_type = type;
	h->h_ref = 1;
	return h;
}

static void handle_opened(handle_t *h, transaction_t *t)
{
	h->h_transaction = t;
	h->h_start_ns = stat_ns();
	atomic_fetch_add_explicit(&t->t_handle_count, 1, memory_order_relaxed);
	counter_inc(&h->h_journal->j_stats.js_handles[h->h_type]);
	current_handle = h;
}

/* Give back what was not used and unpin the transaction. */
static void handle_leave(handle_t *h)
{
	journal_t *j = h->h_journal;
	transaction_t *t = h->h_transaction;
	int back = h->h_credits + h->h_extra_credits;

	if (h->h_revoke_used > 0) {
		/* Records of all handles share blocks: pay only for the blocks that these begin. */
		unsigned after =
			(unsigned)(atomic_fetch_add(&t->t_outstanding_revokes, h->h_revoke_used) +
				   h->h_revoke_used);
		unsigned before = after - (unsigned)h->h_revoke_used;

		back -= revoke_room(j, after) - revoke_room(j, before);
	}
	atomic_fetch_sub(&t->t_outstanding_credits, back);
	hist_add(&j->j_stats.js_handle_open_ns, stat_ns() - h->h_start_ns);
	h->h_transaction = NULL;
	gate_leave(j);
}

static int start_check(journal_t *j, int blocks)
{
	if (jbd2_is_aborted(j) || j->j_params.jp_read_only)
		return -EROFS;
	ASSERT(j->j_loaded);
	return blocks > (int)jbd2_max_credits(j) ? -ENOSPC : 0;
}

static int handle_join(handle_t *h)
{
	struct demand d = {.d_credits = h->h_credits + h->h_extra_credits};
	transaction_t *t;
	int err = start_check(h->h_journal, d.d_credits);

	if (err == 0)
		err = join_transaction(h->h_journal, &d, &t);
	if (err == 0)
		handle_opened(h, t);
	return err;
}

handle_t *jbd2_journal_start(journal_t *j, enum jbd2_handle_type type, unsigned credits,
			     unsigned revokes)
{
	handle_t *h = current_handle;
	int err;

	if (h != NULL) {
		ASSERT(h->h_journal == j);
		h->h_ref++;
		return h;
	}
	h = handle_new(j, type);
	if (h == NULL)
		return ERR_PTR(-ENOMEM);
	handle_set_credits(h, credits, revokes);
	err = handle_join(h);
	if (err != 0) {
		free(h);
		return ERR_PTR(err);
	}
	lock_rank_enter(LOCK_RANK_HANDLE);
	return h;
}

/* ---- Reservations ---- */

/* With a handle open the transaction is pinned already, and nothing may be waited for. */
static int reserve_nested(journal_t *j, const struct demand *d)
{
	uint32_t gate = atomic_load_explicit(&j->j_gate, memory_order_acquire);

	if ((gate & GATE_CLOSED) != 0 || current_handle->h_transaction == NULL)
		return -EAGAIN;
	return try_join(j, current_handle->h_transaction, d) == JOIN_OK ? 0 : -EAGAIN;
}

handle_t *jbd2_journal_reserve(journal_t *j, unsigned credits)
{
	struct demand d = {.d_reserve = (int)credits};
	handle_t *h = handle_new(j, HT_MISC);
	transaction_t *t;
	int err = start_check(j, (int)credits);

	if (h == NULL)
		return ERR_PTR(-ENOMEM);
	if (err == 0 && d.d_reserve > j->j_max_transaction / 2 - j->j_overhead)
		err = -ENOSPC;
	if (err == 0 && current_handle != NULL) {
		err = reserve_nested(j, &d);
	} else if (err == 0) {
		err = join_transaction(j, &d, &t);
		/* Only the reservation stays; it is counted in each new transaction. */
		if (err == 0)
			gate_leave(j);
	}
	if (err != 0) {
		free(h);
		return ERR_PTR(err);
	}
	h->h_credits = (int)credits;
	h->h_requested = (int)credits;
	h->h_reserved = true;
	return h;
}

void jbd2_journal_free_reserved(handle_t *rsv)
{
	journal_t *j = rsv->h_journal;

	ASSERT(rsv->h_reserved);
	mutex_lock(&j->j_state_lock);
	if (j->j_running_transaction != NULL)
		atomic_fetch_sub(&j->j_running_transaction->t_outstanding_credits, rsv->h_credits);
	atomic_fetch_sub(&j->j_reserved_credits, rsv->h_credits);
	mutex_unlock(&j->j_state_lock);
	wake_reserved_waiters(j);
	free(rsv);
}

/* A transaction, running or being locked down, pinned; made if there is none. */
static int join_reserved_slowly(journal_t *j, transaction_t **result)
{
	int err = 0;

	mutex_lock(&j->j_state_lock);
	if (jbd2_is_aborted(j))
		err = -EROFS;
	else if (j->j_running_transaction == NULL)
		err = begin_locked(j);
	if (err == 0) {
		*result = j->j_running_transaction;
		atomic_fetch_add_explicit(&j->j_gate, 1, memory_order_acq_rel);
	}
	mutex_unlock(&j->j_state_lock);
	return err;
}

int jbd2_journal_start_reserved(handle_t *rsv, enum jbd2_handle_type type)
{
	journal_t *j = rsv->h_journal;
	transaction_t *t;
	int err = 0;

	ASSERT(rsv->h_reserved);
	ASSERT(current_handle == NULL);
	if (gate_enter(j))
		t = j->j_running_transaction;
	else
		err = join_reserved_slowly(j, &t);
	if (err != 0) {
		jbd2_journal_free_reserved(rsv);
		return err;
	}
	/* t counts these credits since it began. */
	atomic_fetch_sub(&j->j_reserved_credits, rsv->h_credits);
	rsv->h_reserved = false;
	rsv->h_type = type;
	handle_opened(rsv, t);
	lock_rank_enter(LOCK_RANK_HANDLE);
	wake_reserved_waiters(j);
	return 0;
}

/* ---- Extend, restart, stop ---- */

int jbd2_journal_extend(handle_t *h, unsigned credits, unsigned revokes)
{
	journal_t *j = h->h_journal;
	transaction_t *t = h->h_transaction;
	unsigned all_revokes = (unsigned)h->h_revoke_credits + revokes;
	int extra, needed;

	if (jbd2_handle_aborted(h))
		return -EROFS;
	ASSERT(t != NULL);
	if ((atomic_load_explicit(&j->j_gate, memory_order_acquire) & GATE_CLOSED) != 0)
		return 1;
	extra = revoke_room(j, (unsigned)h->h_revoke_used + all_revokes) - h->h_extra_credits;
	if (extra < 0)
		extra = 0;
	needed = (int)credits + extra;
	if (atomic_fetch_add(&t->t_outstanding_credits, needed) + needed > j->j_max_transaction) {
		atomic_fetch_sub(&t->t_outstanding_credits, needed);
		return 1;
	}
	h->h_credits += (int)credits;
	h->h_requested += (int)credits;
	h->h_extra_credits += extra;
	h->h_revoke_credits = (int)all_revokes;
	return 0;
}

int jbd2_journal_restart(handle_t *h, unsigned credits, unsigned revokes)
{
	journal_t *j = h->h_journal;
	int err;

	ASSERT_CMP(h->h_ref, ==, 1u);
	ASSERT(current_handle == h);
	if (jbd2_handle_aborted(h))
		return -EROFS;
	if (h->h_transaction != NULL) {
		tid_t tid = h->h_transaction->t_tid;

		handle_leave(h);
		mutex_lock(&j->j_state_lock);
		jbd2_start_commit_locked(j, tid);
		mutex_unlock(&j->j_state_lock);
	}
	handle_set_credits(h, credits, revokes);
	/* In manual mode the commit runs in here, and must not find a handle. */
	current_handle = NULL;
	lock_rank_leave(LOCK_RANK_HANDLE);
	if (j->j_params.jp_manual_commit) {
		mutex_lock(&j->j_state_lock);
		if (!j->j_hold)
			jbd2_commit_transaction_locked(j);
		mutex_unlock(&j->j_state_lock);
	}
	err = handle_join(h);
	lock_rank_enter(LOCK_RANK_HANDLE);
	current_handle = h;
	return err;
}

/* Others may want to share the commit: wait as long as one usually takes, within the limits. */
static void batch_sync_handles(journal_t *j)
{
	uint64_t wait_ns, max_ns;

	if (j->j_params.jp_manual_commit)
		return;
	mutex_lock(&j->j_state_lock);
	wait_ns = j->j_average_commit_ns;
	if (wait_ns < j->j_min_batch_us * UINT64_C(1000))
		wait_ns = j->j_min_batch_us * UINT64_C(1000);
	max_ns = j->j_max_batch_us * UINT64_C(1000);
	if (wait_ns > max_ns)
		wait_ns = max_ns;
	mutex_unlock(&j->j_state_lock);
	if (wait_ns < 1000)
		return;
	thread_block_begin();
	usleep((useconds_t)(wait_ns / 1000));
	thread_block_end();
}

int jbd2_journal_stop(handle_t *h)
{
	journal_t *j = h->h_journal;
	bool sync = h->h_sync;
	bool open = h->h_transaction != NULL;
	tid_t tid = 0;
	int err = 0;

	ASSERT(current_handle == h);
	if (--h->h_ref > 0)
		return jbd2_handle_aborted(h) ? -EROFS : 0;
	if (open) {
		tid = h->h_transaction->t_tid;
		jbd2_trace_handle(h);
		handle_leave(h);
	}
	current_handle = NULL;
	lock_rank_leave(LOCK_RANK_HANDLE);
	free(h);
	if (jbd2_is_aborted(j))
		return -EROFS;
	if (sync && open) {
		batch_sync_handles(j);
		err = jbd2_complete_transaction(j, tid);
	}
	return err;
}

/* ---- Questions ---- */

handle_t *jbd2_current_handle(void)
{
	return current_handle;
}

unsigned jbd2_handle_credits(const handle_t *h)
{
	return h->h_credits > 0 ? (unsigned)h->h_credits : 0;
}

tid_t jbd2_handle_tid(const handle_t *h)
{
	ASSERT(h->h_transaction != NULL);
	return h->h_transaction->t_tid;
}

void jbd2_handle_set_sync(handle_t *h)
{
	h->h_sync = true;
}

bool jbd2_handle_aborted(const handle_t *h)
{
	return jbd2_is_aborted(h->h_journal);
}

journal_t *jbd2_handle_journal(const handle_t *h)
{
	return h->h_journal;
}

/* ---- Locking updates out ---- */

void jbd2_journal_lock_updates(journal_t *j)
{
	ASSERT(current_handle == NULL);
	mutex_lock(&j->j_state_lock);
	j->j_barrier_waiters++;
	jbd2_gate_update_locked(j);
	atomic_fetch_add(&j->j_waiters_reserved, 1);
	while (j->j_barrier_count > 0 || atomic_load(&j->j_reserved_credits) > 0 ||
	       jbd2_gate_count(j) > 0) {
		ASSERT(!j->j_params.jp_manual_commit);
		cond_wait(&j->j_wait_updates, &j->j_state_lock);
	}
	atomic_fetch_sub(&j->j_waiters_reserved, 1);
	j->j_barrier_count++;
	mutex_unlock(&j->j_state_lock);
}

void jbd2_journal_unlock_updates(journal_t *j)
{
	mutex_lock(&j->j_state_lock);
	ASSERT_CMP(j->j_barrier_count, ==, 1u);
	j->j_barrier_count = 0;
	j->j_barrier_waiters--;
	jbd2_gate_update_locked(j);
	cond_broadcast(&j->j_wait_transaction);
	cond_broadcast(&j->j_wait_updates);
	mutex_unlock(&j->j_state_lock);
}
