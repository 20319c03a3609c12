/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef UTIL_LOCK_H
#define UTIL_LOCK_H
/*
 * Locks that know their place in the one lock order (docs/LOCKING.md). Debug builds check at each
 * acquire that the thread holds nothing of the same or a later rank; elsewhere they are plain
 * pthread locks. Waiting for a lock that may be held over I/O is announced with
 * thread_block_begin(), so that a thread that serves requests can be replaced meanwhile.
 */

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/*
 * The order: a lock may be taken only while every lock held has a smaller rank. Locks of rank
 * LOCK_RANK_NONE are not checked. Equal ranks are allowed only through the _nested calls (two
 * inodes in the order the caller defines: parent before child, then smaller address first).
 */
enum lock_rank {
	LOCK_RANK_NONE = 0,
	LOCK_RANK_MOUNT,	/* mount state, remount, freeze */
	LOCK_RANK_RENAME,	/* s_vfs_rename_mutex */
	LOCK_RANK_I_RWSEM,	/* inode: i_rwsem */
	LOCK_RANK_INVALIDATE,	/* mapping: invalidate_lock */
	LOCK_RANK_HANDLE,	/* pseudo lock: a handle is open in this thread */
	LOCK_RANK_PAGE,		/* page lock (a bit; pseudo rank) */
	LOCK_RANK_XATTR,	/* inode: xattr_sem */
	LOCK_RANK_I_DATA_SEM,	/* inode: i_data_sem */
	LOCK_RANK_ICACHE,	/* inode hash */
	LOCK_RANK_BUFFER,	/* buffer_head content lock */
	LOCK_RANK_BH_CACHE,	/* buffer cache hash and LRU */
	LOCK_RANK_J_CHECKPOINT, /* j_checkpoint_mutex */
	LOCK_RANK_J_STATE,	/* j_state_lock */
	LOCK_RANK_J_BSTATE,	/* b_state_lock of a journal_head */
	LOCK_RANK_J_LIST,	/* j_list_lock, t_handle_lock, revoke lock */
	LOCK_RANK_GROUP,	/* block group: bitmaps, buddy, descriptor */
	LOCK_RANK_PA,		/* preallocation lists and descriptors */
	LOCK_RANK_ES,		/* inode: i_es_lock */
	LOCK_RANK_MAPPING,	/* mapping: page index and tags */
	LOCK_RANK_WB,		/* wb_lock: dirty lists, throttle counters */
	LOCK_RANK_ARENA,	/* frame allocator */
	LOCK_RANK_LEAF,		/* anything that calls nothing while held */
	LOCK_RANK_MAX
};

/* A lock that is held for a short time and never over I/O. */
struct mutex {
	pthread_mutex_t m_lock;
	enum lock_rank m_rank;
};

/* A reader/writer lock that may be held over I/O; writers are not starved. */
struct rwsem {
	pthread_rwlock_t rw_lock;
	enum lock_rank rw_rank;
};

void mutex_init(struct mutex *m, enum lock_rank rank);
void mutex_destroy(struct mutex *m);
void mutex_lock(struct mutex *m);
bool mutex_trylock(struct mutex *m);
void mutex_unlock(struct mutex *m);
/* As mutex_lock(), where a lock of the same rank is already held in the documented order. */
void mutex_lock_nested(struct mutex *m);
/* As mutex_lock(), where m is taken as the innermost lock whatever its rank: no holder of it ever waits for another lock. */
void mutex_lock_innermost(struct mutex *m);
/* Fails an ASSERT in debug builds if this thread does not hold m. */
void mutex_assert_held(const struct mutex *m);

void rwsem_init(struct rwsem *s, enum lock_rank rank);
void rwsem_destroy(struct rwsem *s);
void down_read(struct rwsem *s);
bool down_read_trylock(struct rwsem *s);
void up_read(struct rwsem *s);
void down_write(struct rwsem *s);
bool down_write_trylock(struct rwsem *s);
void down_write_nested(struct rwsem *s);
void up_write(struct rwsem *s);

/* A condition variable for struct mutex. cond_wait() announces that the thread blocks. */
struct cond {
	pthread_cond_t c_cond;
};
void cond_init(struct cond *c); /* CLOCK_MONOTONIC */
void cond_destroy(struct cond *c);
void cond_wait(struct cond *c, struct mutex *m);
/* Wait until the absolute CLOCK_MONOTONIC time in ns. Returns 0 or -ETIMEDOUT. */
int cond_timedwait(struct cond *c, struct mutex *m, uint64_t deadline_ns);
void cond_signal(struct cond *c);
void cond_broadcast(struct cond *c);

/* Rank bookkeeping for things that are no lock but have a place in the order (handles, page locks). */
void lock_rank_enter(enum lock_rank rank);
void lock_rank_leave(enum lock_rank rank);
/* Debug: fail if this thread holds any lock of `rank` or later ("nothing that ranks after X is held"). */
void lock_assert_none_from(enum lock_rank rank);

/*
 * ---- Blocking ----
 * Each wait that can last (I/O, a commit, a contended rwsem) is between these. Without a hook they
 * do nothing. The hooks belong to the thread that sets them. Calls nest; only the outermost pair
 * reaches the hooks. Locks may be held around the hooks, so these take only locks without rank.
 */
struct block_hooks {
	void (*bh_begin)(void *arg);
	void (*bh_end)(void *arg);
	void *bh_arg;
};
void thread_set_block_hooks(const struct block_hooks *hooks);
void thread_block_begin(void);
void thread_block_end(void);
/*
 * Before this thread blocks next, and each time until it is cleared with NULL, fn(arg) is called:
 * what the thread holds back (plugged requests) must go out, since it may wait for just that. fn
 * may be called with locks held and must not block.
 */
void thread_set_flush_hook(void (*fn)(void *arg), void *arg);

#endif
