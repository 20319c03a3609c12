/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * lock.c - locks that check their place in the lock order, and the announcement of long waits.
 *
 * With EXT4D_DEBUG each thread keeps what it holds: a list of the locks, for
 * mutex_assert_held() and for messages, and for each rank a count with a bit mask of the ranks
 * that are not zero, so that the check at an acquire is one shift. Without EXT4D_DEBUG the same
 * functions are empty. A try-lock cannot deadlock and is not checked, but what it got counts as
 * held. Pseudo locks (handles, page locks) only have counts, may be entered several times and are
 * checked against later ranks.
 *
 * Invariants: (1) after an acquire by mutex_lock(), down_read() or down_write() no rank from the
 * lock's own upwards was held; with _nested none above it. (2) Hooks see balanced calls: begin
 * only for the outermost thread_block_begin().
 * Locking: everything here belongs to the calling thread.
 */
#include "util/lock.h"

#include <string.h>
#include <time.h>

#include "util/assert.h"
#include "util/err.h"
#include "util/time.h"

static __thread const struct block_hooks *block_hooks; /* [owner thread] */
static __thread unsigned block_depth;		       /* [owner thread] */
static __thread void (*flush_fn)(void *arg);	       /* [owner thread] */
static __thread void *flush_arg;		       /* [owner thread] */

/* ---- Rank checks ---- */

#ifdef EXT4D_DEBUG
#define HELD_MAX 128

_Static_assert(LOCK_RANK_MAX <= 32, "ranks fit into the mask");

struct held_locks {
	unsigned hl_n;
	const void *hl_lock[HELD_MAX];
	uint32_t hl_mask; /* bit r: hl_count[r] > 0; rank NONE has no bit */
	unsigned hl_count[LOCK_RANK_MAX];
};

static __thread struct held_locks held; /* [owner thread] */

static void rank_add(enum lock_rank rank)
{
	held.hl_count[rank]++;
	if (rank != LOCK_RANK_NONE)
		held.hl_mask |= UINT32_C(1) << rank;
}

static void rank_remove(enum lock_rank rank)
{
	ASSERT_CMP(held.hl_count[rank], >, 0u);
	held.hl_count[rank]--;
	if (held.hl_count[rank] == 0)
		held.hl_mask &= ~(UINT32_C(1) << rank);
}

/* The highest rank held, LOCK_RANK_NONE if none is. */
static enum lock_rank highest_held(void)
{
	if (held.hl_mask == 0)
		return LOCK_RANK_NONE;
	return (enum lock_rank)(31 - __builtin_clz(held.hl_mask));
}

static bool is_held(const void *lock)
{
	for (unsigned i = held.hl_n; i > 0; i--)
		if (held.hl_lock[i - 1] == lock)
			return true;
	return false;
}

static void check_order(const void *lock, enum lock_rank rank, bool nested)
{
	ASSERT(!is_held(lock));
	if (rank == LOCK_RANK_NONE)
		return;
	if (nested)
		ASSERT_CMP((int)highest_held(), <=, (int)rank);
	else
		ASSERT_CMP((int)highest_held(), <, (int)rank);
}

static void note_acquired(const void *lock, enum lock_rank rank)
{
	ASSERT_CMP(held.hl_n, <, (unsigned)HELD_MAX);
	held.hl_lock[held.hl_n++] = lock;
	rank_add(rank);
}

static void note_released(const void *lock, enum lock_rank rank)
{
	unsigned i = held.hl_n;

	while (i > 0 && held.hl_lock[i - 1] != lock)
		i--;
	ASSERT_CMP(i, >, 0u);
	held.hl_n--;
	memmove(&held.hl_lock[i - 1], &held.hl_lock[i],
		(held.hl_n - (i - 1)) * sizeof(held.hl_lock[0]));
	rank_remove(rank);
}

void mutex_assert_held(const struct mutex *m)
{
	ASSERT(is_held(m));
}

void lock_rank_enter(enum lock_rank rank)
{
	ASSERT_CMP((int)highest_held(), <=, (int)rank);
	rank_add(rank);
}

void lock_rank_leave(enum lock_rank rank)
{
	rank_remove(rank);
}

void lock_assert_none_from(enum lock_rank rank)
{
	ASSERT_CMP((int)highest_held(), <, (int)rank);
}
#else
static void check_order(const void *lock, enum lock_rank rank, bool nested)
{
	(void)lock;
	(void)rank;
	(void)nested;
}

static void note_acquired(const void *lock, enum lock_rank rank)
{
	(void)lock;
	(void)rank;
}

static void note_released(const void *lock, enum lock_rank rank)
{
	(void)lock;
	(void)rank;
}

void mutex_assert_held(const struct mutex *m)
{
	(void)m;
}

void lock_rank_enter(enum lock_rank rank)
{
	(void)rank;
}

void lock_rank_leave(enum lock_rank rank)
{
	(void)rank;
}

void lock_assert_none_from(enum lock_rank rank)
{
	(void)rank;
}
#endif

/* pthread calls on valid objects fail only when the program is wrong. */
static void must(int err)
{
	ASSERT_CMP(err, ==, 0);
}

/* ---- Mutexes ---- */

void mutex_init(struct mutex *m, enum lock_rank rank)
{
	ASSERT((int)rank >= 0 && rank < LOCK_RANK_MAX);
	must(pthread_mutex_init(&m->m_lock, NULL));
	m->m_rank = rank;
}

void mutex_destroy(struct mutex *m)
{
	must(pthread_mutex_destroy(&m->m_lock));
}

void mutex_lock(struct mutex *m)
{
	check_order(m, m->m_rank, false);
	must(pthread_mutex_lock(&m->m_lock));
	note_acquired(m, m->m_rank);
}

bool mutex_trylock(struct mutex *m)
{
	int err = pthread_mutex_trylock(&m->m_lock);

	if (err == EBUSY)
		return false;
	must(err);
	note_acquired(m, m->m_rank);
	return true;
}

void mutex_unlock(struct mutex *m)
{
	note_released(m, m->m_rank);
	must(pthread_mutex_unlock(&m->m_lock));
}

void mutex_lock_nested(struct mutex *m)
{
	check_order(m, m->m_rank, true);
	must(pthread_mutex_lock(&m->m_lock));
	note_acquired(m, m->m_rank);
}

void mutex_lock_innermost(struct mutex *m)
{
	must(pthread_mutex_lock(&m->m_lock));
	note_acquired(m, m->m_rank);
}

/* ---- Reader/writer locks ---- */

void rwsem_init(struct rwsem *s, enum lock_rank rank)
{
	pthread_rwlockattr_t attr;

	ASSERT((int)rank >= 0 && rank < LOCK_RANK_MAX);
	must(pthread_rwlockattr_init(&attr));
	must(pthread_rwlockattr_setkind_np(&attr, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP));
	must(pthread_rwlock_init(&s->rw_lock, &attr));
	must(pthread_rwlockattr_destroy(&attr));
	s->rw_rank = rank;
}

void rwsem_destroy(struct rwsem *s)
{
	must(pthread_rwlock_destroy(&s->rw_lock));
}

static bool try_read(struct rwsem *s)
{
	int err = pthread_rwlock_tryrdlock(&s->rw_lock);

	if (err == EBUSY || err == EAGAIN)
		return false;
	must(err);
	return true;
}

static bool try_write(struct rwsem *s)
{
	int err = pthread_rwlock_trywrlock(&s->rw_lock);

	if (err == EBUSY)
		return false;
	must(err);
	return true;
}

void down_read(struct rwsem *s)
{
	check_order(s, s->rw_rank, false);
	if (!try_read(s)) {
		thread_block_begin();
		must(pthread_rwlock_rdlock(&s->rw_lock));
		thread_block_end();
	}
	note_acquired(s, s->rw_rank);
}

bool down_read_trylock(struct rwsem *s)
{
	if (!try_read(s))
		return false;
	note_acquired(s, s->rw_rank);
	return true;
}

void up_read(struct rwsem *s)
{
	note_released(s, s->rw_rank);
	must(pthread_rwlock_unlock(&s->rw_lock));
}

static void write_lock(struct rwsem *s, bool nested)
{
	check_order(s, s->rw_rank, nested);
	if (!try_write(s)) {
		thread_block_begin();
		must(pthread_rwlock_wrlock(&s->rw_lock));
		thread_block_end();
	}
	note_acquired(s, s->rw_rank);
}

void down_write(struct rwsem *s)
{
	write_lock(s, false);
}

bool down_write_trylock(struct rwsem *s)
{
	if (!try_write(s))
		return false;
	note_acquired(s, s->rw_rank);
	return true;
}

void down_write_nested(struct rwsem *s)
{
	write_lock(s, true);
}

void up_write(struct rwsem *s)
{
	note_released(s, s->rw_rank);
	must(pthread_rwlock_unlock(&s->rw_lock));
}

/* ---- Condition variables ---- */

void cond_init(struct cond *c)
{
	pthread_condattr_t attr;

	must(pthread_condattr_init(&attr));
	must(pthread_condattr_setclock(&attr, CLOCK_MONOTONIC));
	must(pthread_cond_init(&c->c_cond, &attr));
	must(pthread_condattr_destroy(&attr));
}

void cond_destroy(struct cond *c)
{
	must(pthread_cond_destroy(&c->c_cond));
}

void cond_wait(struct cond *c, struct mutex *m)
{
	mutex_assert_held(m);
	thread_block_begin();
	must(pthread_cond_wait(&c->c_cond, &m->m_lock));
	thread_block_end();
}

int cond_timedwait(struct cond *c, struct mutex *m, uint64_t deadline_ns)
{
	struct timespec ts = {
		.tv_sec = (time_t)(deadline_ns / NSEC_PER_SEC),
		.tv_nsec = (long)(deadline_ns % NSEC_PER_SEC),
	};
	int err;

	mutex_assert_held(m);
	thread_block_begin();
	err = pthread_cond_timedwait(&c->c_cond, &m->m_lock, &ts);
	thread_block_end();
	if (err == ETIMEDOUT)
		return -ETIMEDOUT;
	must(err);
	return 0;
}

void cond_signal(struct cond *c)
{
	must(pthread_cond_signal(&c->c_cond));
}

void cond_broadcast(struct cond *c)
{
	must(pthread_cond_broadcast(&c->c_cond));
}

/* ---- Blocking ---- */

void thread_set_block_hooks(const struct block_hooks *hooks)
{
	ASSERT_CMP(block_depth, ==, 0u);
	block_hooks = hooks;
}

void thread_set_flush_hook(void (*fn)(void *arg), void *arg)
{
	flush_fn = fn;
	flush_arg = arg;
}

void thread_block_begin(void)
{
	if (flush_fn != NULL)
		flush_fn(flush_arg);
	if (block_depth++ == 0 && block_hooks != NULL)
		block_hooks->bh_begin(block_hooks->bh_arg);
}

void thread_block_end(void)
{
	ASSERT_CMP(block_depth, >, 0u);
	if (--block_depth == 0 && block_hooks != NULL)
		block_hooks->bh_end(block_hooks->bh_arg);
}
