/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * access.c - buffers join and leave transactions.
 *
 * A buffer that the journal holds has a journal_head, which says to which transactions it belongs
 * (the table is in journal_int.h). The first write access of a handle files it in the handle's
 * transaction. If an older transaction is just being committed and has not yet copied the content
 * into the log, a copy is made then, and only then: lock-down itself costs nothing for a buffer.
 *
 * Invariants: (1) a buffer that belongs to the running transaction is never written home from its
 * live content. (2) b_frozen_data exists only while b_transaction is committing and not b_logged,
 * and then b_next_transaction is set. (3) b_modified says whether the newest transaction of the buffer has
 * paid a credit for it. (4) A journal_head without a transaction does not exist outside the locks. (5) Every copy of a
 * buffer's content is taken with its seal set (bh_seal), frozen ones too: a frozen copy goes to the log as it is.
 * Locking: b_state_lock is one of a fixed array of mutexes, chosen by the buffer's address: it
 * protects b_journal_head and what hangs on it. j_list_lock, taken inside, protects the lists.
 */
#include <stdlib.h>
#include <string.h>

#include "journal/journal_int.h"
#include "util/assert.h"
#include "util/err.h"

#define BSTATE_LOCKS 256u

static struct mutex bstate_locks[BSTATE_LOCKS];

__attribute__((constructor)) static void init_bstate_locks(void)
{
	for (unsigned i = 0; i < BSTATE_LOCKS; i++)
		mutex_init(&bstate_locks[i], LOCK_RANK_J_BSTATE);
}

/* ---- journal_heads ---- */

struct mutex *jbd2_bstate(const struct buffer_head *bh)
{
	uintptr_t x = (uintptr_t)bh / sizeof(*bh);

	return &bstate_locks[(x ^ x >> 8) % BSTATE_LOCKS];
}

struct journal_head *jbd2_jh_locked(const struct buffer_head *bh)
{
	mutex_assert_held(jbd2_bstate(bh));
	return bh->b_journal_head;
}

static struct journal_head *attach_locked(journal_t *j, struct buffer_head *bh)
{
	struct journal_head *jh = jbd2_jh_locked(bh);

	if (jh != NULL) {
		ASSERT(jh->b_journal == j);
		return jh;
	}
	jh = calloc(1, sizeof(*jh));
	if (jh == NULL)
		return NULL;
	jh->b_bh = bh;
	jh->b_journal = j;
	bh_hold(bh);
	bh->b_journal_head = jh;
	atomic_fetch_add_explicit(&j->j_held_blocks, 1, memory_order_relaxed);
	return jh;
}

bool jbd2_detach_locked(struct journal_head *jh)
{
	struct buffer_head *bh = jh->b_bh;

	ASSERT(jbd2_jh_locked(bh) == jh);
	if (jh->b_transaction != NULL || jh->b_cp_transaction != NULL)
		return false;
	ASSERT(jh->b_next_transaction == NULL);
	ASSERT(jh->b_frozen_data == NULL);
	atomic_fetch_sub_explicit(&jh->b_journal->j_held_blocks, 1, memory_order_relaxed);
	bh->b_journal_head = NULL;
	free(jh);
	return true;
}

uint8_t *jbd2_copy_alloc(journal_t *j)
{
	uint8_t *copy = malloc(j->j_block_bytes);

	if (copy == NULL)
		return NULL;
	bh_cache_charge(j->j_cache, j->j_block_bytes);
	atomic_fetch_add_explicit(&j->j_held_blocks, 1, memory_order_relaxed);
	return copy;
}

void jbd2_copy_free(journal_t *j, uint8_t *copy)
{
	if (copy == NULL)
		return;
	free(copy);
	bh_cache_charge(j->j_cache, -(int64_t)j->j_block_bytes);
	atomic_fetch_sub_explicit(&j->j_held_blocks, 1, memory_order_relaxed);
}

/* ---- Lists ---- */

void jbd2_file_locked(struct journal_head *jh, transaction_t *t, enum jh_list list)
{
	mutex_assert_held(&t->t_journal->j_list_lock);
	ASSERT(jh->b_jlist == JH_NONE);
	ASSERT(list != JH_NONE);
	TAILQ_INSERT_TAIL(&t->t_lists[list], jh, b_tnext);
	if (list == JH_METADATA)
		t->t_nr_buffers++;
	jh->b_transaction = t;
	jh->b_jlist = list;
}

void jbd2_unfile_locked(struct journal_head *jh)
{
	transaction_t *t = jh->b_transaction;

	mutex_assert_held(&t->t_journal->j_list_lock);
	ASSERT(jh->b_jlist != JH_NONE);
	TAILQ_REMOVE(&t->t_lists[jh->b_jlist], jh, b_tnext);
	if (jh->b_jlist == JH_METADATA)
		t->t_nr_buffers--;
	jh->b_transaction = NULL;
	jh->b_jlist = JH_NONE;
}

bool jbd2_uncheckpoint_locked(struct journal_head *jh)
{
	transaction_t *t = jh->b_cp_transaction;

	mutex_assert_held(&t->t_journal->j_list_lock);
	TAILQ_REMOVE(&t->t_checkpoint_list, jh, b_cpnext);
	jh->b_cp_transaction = NULL;
	return TAILQ_EMPTY(&t->t_checkpoint_list);
}

static void refile(struct journal_head *jh, transaction_t *t, enum jh_list list)
{
	mutex_lock(&t->t_journal->j_list_lock);
	if (jh->b_transaction != NULL)
		jbd2_unfile_locked(jh);
	jbd2_file_locked(jh, t, list);
	mutex_unlock(&t->t_journal->j_list_lock);
}

/* ---- Write access ---- */

static bool belongs_to(const struct journal_head *jh, const transaction_t *t)
{
	return jh->b_transaction == t || jh->b_next_transaction == t;
}

/* The committing transaction still needs the content that is about to change. */
static bool must_freeze(const struct journal_head *jh)
{
	return jh->b_jlist == JH_METADATA && !jh->b_logged && jh->b_frozen_data == NULL;
}

/* The buffer is in t already; if t freed it, it is in use again. */
static void rejoin(struct journal_head *jh, transaction_t *t)
{
	if (jh->b_transaction == t && jh->b_jlist == JH_FORGET)
		refile(jh, t, JH_RESERVED);
	else if (jh->b_next_transaction == t && jh->b_next_jlist == JH_FORGET)
		jh->b_next_jlist = JH_RESERVED;
}

static void cancel_revoke(journal_t *j, transaction_t *t, uint64_t blocknr)
{
	if (atomic_load_explicit(&t->t_revoke.rt_count, memory_order_acquire) == 0)
		return;
	mutex_lock(&j->j_list_lock);
	jbd2_revoke_cancel(&t->t_revoke, blocknr);
	mutex_unlock(&j->j_list_lock);
}

/* Take the copy that must_freeze() asked for out of *copy. */
static void freeze_locked(struct journal_head *jh, uint8_t **copy)
{
	bh_seal(jh->b_bh);
	memcpy(*copy, jh->b_bh->b_data, jh->b_bh->b_size);
	jh->b_frozen_data = *copy;
	*copy = NULL;
	counter_inc(&jh->b_journal->j_stats.js_copies);
}

/* -EAGAIN: a copy is needed and *copy is NULL. */
static int join_transaction(handle_t *h, struct buffer_head *bh, uint8_t **copy)
{
	transaction_t *t = h->h_transaction;
	struct mutex *lock = jbd2_bstate(bh);
	struct journal_head *jh;
	int err = 0;

	mutex_lock(lock);
	jh = attach_locked(h->h_journal, bh);
	if (jh == NULL) {
		err = -ENOMEM;
	} else if (belongs_to(jh, t)) {
		rejoin(jh, t);
	} else if (jh->b_transaction == NULL) {
		jh->b_modified = false;
		refile(jh, t, JH_RESERVED);
	} else if (must_freeze(jh) && *copy == NULL) {
		err = -EAGAIN;
	} else {
		if (must_freeze(jh))
			freeze_locked(jh, copy);
		ASSERT(jh->b_next_transaction == NULL);
		jh->b_next_transaction = t;
		jh->b_next_jlist = JH_RESERVED;
		jh->b_modified = false;
	}
	if (err == 0)
		cancel_revoke(h->h_journal, t, bh->b_blocknr);
	mutex_unlock(lock);
	return err;
}

static int get_access(handle_t *h, struct buffer_head *bh)
{
	uint8_t *copy = NULL;
	int err;

	ASSERT(h->h_transaction != NULL);
	if (jbd2_handle_aborted(h))
		return -EROFS;
	err = join_transaction(h, bh, &copy);
	if (err != -EAGAIN)
		return err;
	copy = jbd2_copy_alloc(h->h_journal);
	if (copy == NULL)
		return -ENOMEM;
	lock_buffer(bh);
	err = join_transaction(h, bh, &copy);
	unlock_buffer(bh);
	jbd2_copy_free(h->h_journal, copy);
	return err;
}

int jbd2_journal_get_write_access(handle_t *h, struct buffer_head *bh)
{
	ASSERT(bh_test(bh, BH_UPTODATE));
	return get_access(h, bh);
}

int jbd2_journal_get_create_access(handle_t *h, struct buffer_head *bh)
{
	int err = get_access(h, bh);

	if (err != 0)
		return err;
	/* What the block was before does not matter any more: no seal of that kind may be put on its new content. */
	lock_buffer(bh);
	bh->b_seal = NULL;
	unlock_buffer(bh);
	return 0;
}

int jbd2_journal_dirty_metadata(handle_t *h, struct buffer_head *bh)
{
	transaction_t *t = h->h_transaction;
	struct mutex *lock = jbd2_bstate(bh);
	struct journal_head *jh;

	if (jbd2_handle_aborted(h))
		return -EROFS;
	ASSERT(t != NULL);
	mutex_lock(lock);
	jh = jbd2_jh_locked(bh);
	ASSERT(jh != NULL);
	ASSERT(belongs_to(jh, t));
	if (!jh->b_modified) {
		ASSERT_CMP(h->h_credits, >, 0);
		h->h_credits--;
		jh->b_modified = true;
	}
	if (jh->b_transaction == t) {
		ASSERT(jh->b_jlist != JH_FORGET);
		if (jh->b_jlist != JH_METADATA)
			refile(jh, t, JH_METADATA);
	} else {
		ASSERT(jh->b_next_jlist != JH_FORGET);
		jh->b_next_jlist = JH_METADATA;
	}
	mutex_unlock(lock);
	/* From here on the journal sees to it that the block is written. */
	bh_clear(bh, BH_DIRTY);
	return 0;
}

/* ---- Freed blocks ---- */

/* Returns true if the buffer has left the journal. */
static bool forget_locked(handle_t *h, struct journal_head *jh)
{
	transaction_t *t = h->h_transaction;

	if (belongs_to(jh, t) && jh->b_modified)
		h->h_credits++;
	jh->b_modified = false;
	if (jh->b_transaction != NULL && jh->b_transaction != t) {
		jh->b_next_transaction = t;
		jh->b_next_jlist = JH_FORGET;
		return false;
	}
	if (jh->b_cp_transaction != NULL) {
		/* Replay may need the old content until t has committed: it stays checkpointable. */
		if (jh->b_jlist != JH_FORGET)
			refile(jh, t, JH_FORGET);
		return false;
	}
	mutex_lock(&h->h_journal->j_list_lock);
	if (jh->b_transaction != NULL)
		jbd2_unfile_locked(jh);
	mutex_unlock(&h->h_journal->j_list_lock);
	return jbd2_detach_locked(jh);
}

int jbd2_journal_forget(handle_t *h, struct buffer_head *bh)
{
	struct mutex *lock = jbd2_bstate(bh);
	struct journal_head *jh;
	bool detached = false;

	if (jbd2_handle_aborted(h)) {
		bh_put(bh);
		return -EROFS;
	}
	ASSERT(h->h_transaction != NULL);
	mutex_lock(lock);
	jh = jbd2_jh_locked(bh);
	if (jh != NULL)
		detached = forget_locked(h, jh);
	mutex_unlock(lock);
	bh_clear(bh, BH_DIRTY);
	if (detached)
		bh_put(bh);
	bh_put(bh);
	return 0;
}

/* One more record: from the handle's own, or a whole block of them for one credit. */
static void charge_revoke(handle_t *h)
{
	if (h->h_revoke_credits == 0) {
		ASSERT_CMP(h->h_credits, >, 0);
		h->h_credits--;
		h->h_extra_credits++;
		h->h_revoke_credits += (int)h->h_journal->j_revokes_per_block;
	}
	h->h_revoke_credits--;
	h->h_revoke_used++;
}

int jbd2_journal_revoke(handle_t *h, uint64_t blocknr, struct buffer_head *bh)
{
	journal_t *j = h->h_journal;
	int added;

	if (bh == NULL)
		bh = bh_find(j->j_cache, blocknr);
	if (bh != NULL)
		ASSERT(bh->b_blocknr == blocknr);
	if (jbd2_handle_aborted(h)) {
		bh_put(bh);
		return -EROFS;
	}
	ASSERT(h->h_transaction != NULL);
	if (jbd2_has_log(j)) {
		mutex_lock(&j->j_list_lock);
		added = jbd2_revoke_insert(&h->h_transaction->t_revoke, blocknr,
					   h->h_transaction->t_tid);
		mutex_unlock(&j->j_list_lock);
		if (added < 0) {
			bh_put(bh);
			return added;
		}
		if (added > 0)
			charge_revoke(h);
	}
	return bh == NULL ? 0 : jbd2_journal_forget(h, bh);
}

bool jbd2_buffer_in_journal(struct buffer_head *bh)
{
	struct mutex *lock = jbd2_bstate(bh);
	bool held;

	mutex_lock(lock);
	held = jbd2_jh_locked(bh) != NULL;
	mutex_unlock(lock);
	return held;
}

/* ---- Ordered data and callbacks ---- */

void jbd2_inode_init(struct jbd2_inode *ji, void *owner)
{
	*ji = (struct jbd2_inode){.ji_owner = owner};
}

int jbd2_journal_inode_ranged_write(handle_t *h, struct jbd2_inode *ji, uint64_t start_bytes,
				    uint64_t len_bytes)
{
	journal_t *j = h->h_journal;
	transaction_t *t = h->h_transaction;
	uint64_t end_bytes = start_bytes + len_bytes;

	if (jbd2_handle_aborted(h))
		return -EROFS;
	if (len_bytes == 0)
		return 0;
	mutex_lock(&j->j_list_lock);
	if (ji->ji_dirty_end_bytes == 0 || start_bytes < ji->ji_dirty_start_bytes)
		ji->ji_dirty_start_bytes = start_bytes;
	if (end_bytes > ji->ji_dirty_end_bytes)
		ji->ji_dirty_end_bytes = end_bytes;
	if (ji->ji_transaction == NULL) {
		ji->ji_transaction = t;
		TAILQ_INSERT_TAIL(&t->t_inode_list, ji, ji_link);
	} else if (ji->ji_transaction != t) {
		ji->ji_next_transaction = t;
	}
	mutex_unlock(&j->j_list_lock);
	return 0;
}

bool jbd2_journal_inode_ordered(journal_t *j, struct jbd2_inode *ji)
{
	bool ordered;

	mutex_lock(&j->j_list_lock);
	ordered = ji->ji_transaction != NULL;
	mutex_unlock(&j->j_list_lock);
	return ordered;
}

static void leave_lists_locked(journal_t *j, struct jbd2_inode *ji)
{
	while (ji->ji_committing)
		cond_wait(&j->j_wait_list, &j->j_list_lock);
	if (ji->ji_transaction == NULL)
		return;
	TAILQ_REMOVE(&ji->ji_transaction->t_inode_list, ji, ji_link);
	ji->ji_transaction = NULL;
	ji->ji_next_transaction = NULL;
	ji->ji_dirty_start_bytes = 0;
	ji->ji_dirty_end_bytes = 0;
}

/* With j_list_lock held; false after a wait: look again. */
static bool lock_if_settled(journal_t *j, struct jbd2_inode *ji)
{
	bool settled;

	mutex_lock(&j->j_state_lock);
	mutex_lock(&j->j_list_lock);
	settled = ji->ji_transaction == NULL || ji->ji_transaction == j->j_running_transaction ||
		  j->j_params.jp_manual_commit;
	mutex_unlock(&j->j_state_lock);
	if (settled)
		return true;
	cond_wait(&j->j_wait_list, &j->j_list_lock);
	mutex_unlock(&j->j_list_lock);
	return false;
}

void jbd2_journal_settle_jbd_inode(journal_t *j, struct jbd2_inode *ji)
{
	if (!jbd2_journal_inode_ordered(j, ji))
		return;
	while (!lock_if_settled(j, ji))
		;
	leave_lists_locked(j, ji);
	mutex_unlock(&j->j_list_lock);
}

void jbd2_journal_release_jbd_inode(journal_t *j, struct jbd2_inode *ji)
{
	mutex_lock(&j->j_list_lock);
	leave_lists_locked(j, ji);
	mutex_unlock(&j->j_list_lock);
}

void jbd2_journal_callback_add(handle_t *h, struct jbd2_commit_cb *cb)
{
	ASSERT(h->h_transaction != NULL);
	mutex_lock(&h->h_journal->j_list_lock);
	STAILQ_INSERT_TAIL(&h->h_transaction->t_callbacks, cb, cb_link);
	mutex_unlock(&h->h_journal->j_list_lock);
}
