/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * freezer.c - FIFREEZE for a file system that the kernel cannot freeze.
 *
 * The kernel never sends a freeze to a FUSE server; it is asked for through .ext4d/freeze. While frozen,
 * a request that would change something is not served: it is copied and put aside, and the thread goes
 * on. So however many writers wait, the thaw (a request too) is always read. The thread that thaws
 * serves what was put aside after its own request.
 *
 * Invariants: (1) fz_writers counts changing requests that are being served. (2) with fz_frozen set and
 * fz_writers at 0 the file system does not change.
 * Locking: fz_lock, a leaf, not held while anything is written.
 */
#include "fuse/freezer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ext4/super.h"
#include "util/log.h"

struct deferred {
	struct request d_request; /* first */
	STAILQ_ENTRY(deferred) d_link;
};

struct freezer {
	struct front *fz_front;
	pthread_mutex_t fz_lock;
	pthread_cond_t fz_quiet; /* with fz_lock: fz_writers is 0 */
	_Atomic unsigned fz_writers;
	_Atomic bool fz_frozen;		  /* [fz_lock for changes] */
	STAILQ_HEAD(, deferred) fz_queue; /* [fz_lock] */
	_Atomic unsigned fz_nr;		  /* [fz_lock for changes] in fz_queue */
	pthread_mutex_t fz_switch;	  /* one freeze or thaw at a time */
};

static bool put_aside(struct freezer *fz, const struct request *rq)
{
	struct deferred *d = malloc(sizeof(*d));
	void *buf;

	if (d == NULL || posix_memalign(&buf, 4096, REQUEST_BUF_BYTES) != 0) {
		free(d);
		return false;
	}
	d->d_request = *rq;
	d->d_request.rq_buf = buf;
	memcpy(d->d_request.rq_buf + REQUEST_OFFSET, rq->rq_buf + REQUEST_OFFSET, rq->rq_bytes);
	pthread_mutex_lock(&fz->fz_lock);
	STAILQ_INSERT_TAIL(&fz->fz_queue, d, d_link);
	fz->fz_nr++;
	pthread_mutex_unlock(&fz->fz_lock);
	return true;
}

void freezer_leave(struct freezer *fz, bool changes)
{
	if (!changes || atomic_fetch_sub(&fz->fz_writers, 1) != 1 || !fz->fz_frozen)
		return;
	pthread_mutex_lock(&fz->fz_lock);
	pthread_cond_broadcast(&fz->fz_quiet);
	pthread_mutex_unlock(&fz->fz_lock);
}

bool freezer_enter(struct freezer *fz, struct request *rq, bool changes)
{
	if (!changes)
		return true;
	/* Pairs with freezer_freeze(): it sets fz_frozen and then reads fz_writers. */
	atomic_fetch_add(&fz->fz_writers, 1);
	if (!atomic_load(&fz->fz_frozen))
		return true;
	freezer_leave(fz, true);
	if (put_aside(fz, rq))
		return false;
	log_err("out of memory: a request is served although the file system is frozen");
	atomic_fetch_add(&fz->fz_writers, 1);
	return true;
}

static void wait_until_quiet(struct freezer *fz)
{
	thread_block_begin();
	pthread_mutex_lock(&fz->fz_lock);
	while (atomic_load(&fz->fz_writers) != 0)
		pthread_cond_wait(&fz->fz_quiet, &fz->fz_lock);
	pthread_mutex_unlock(&fz->fz_lock);
	thread_block_end();
}

static int freeze_now(struct freezer *fz)
{
	struct super_block *sb = fz->fz_front->f_sb;
	int err;

	atomic_store(&fz->fz_frozen, true);
	wait_until_quiet(fz);
	err = wb_sync_fs(sb, true);
	if (err == 0)
		err = ext4_freeze(sb);
	if (err != 0)
		atomic_store(&fz->fz_frozen, false);
	return err;
}

int freezer_freeze(struct freezer *fz)
{
	int err = -EBUSY;

	if (pthread_mutex_trylock(&fz->fz_switch) != 0)
		return -EBUSY;
	if (!fz->fz_frozen)
		err = freeze_now(fz);
	pthread_mutex_unlock(&fz->fz_switch);
	return err;
}

int freezer_thaw(struct freezer *fz)
{
	int err = -EINVAL;

	if (pthread_mutex_trylock(&fz->fz_switch) != 0)
		return -EBUSY;
	if (fz->fz_frozen) {
		err = ext4_thaw(fz->fz_front->f_sb);
		atomic_store(&fz->fz_frozen, false);
	}
	pthread_mutex_unlock(&fz->fz_switch);
	return err;
}

struct request *freezer_next(struct freezer *fz)
{
	struct deferred *d;

	if (atomic_load_explicit(&fz->fz_nr, memory_order_relaxed) == 0 || fz->fz_frozen)
		return NULL;
	pthread_mutex_lock(&fz->fz_lock);
	d = STAILQ_FIRST(&fz->fz_queue);
	if (d != NULL) {
		STAILQ_REMOVE_HEAD(&fz->fz_queue, d_link);
		fz->fz_nr--;
	}
	pthread_mutex_unlock(&fz->fz_lock);
	return d != NULL ? &d->d_request : NULL;
}

void freezer_free(struct request *rq)
{
	free(rq->rq_buf);
	free(rq);
}

bool freezer_frozen(const struct freezer *fz)
{
	return fz->fz_frozen;
}

struct freezer *freezer_create(struct front *f)
{
	struct freezer *fz = calloc(1, sizeof(*fz));

	if (fz == NULL)
		return NULL;
	fz->fz_front = f;
	STAILQ_INIT(&fz->fz_queue);
	pthread_mutex_init(&fz->fz_lock, NULL);
	pthread_mutex_init(&fz->fz_switch, NULL);
	pthread_cond_init(&fz->fz_quiet, NULL);
	return fz;
}

void freezer_destroy(struct freezer *fz)
{
	struct deferred *d;

	while ((d = STAILQ_FIRST(&fz->fz_queue)) != NULL) {
		STAILQ_REMOVE_HEAD(&fz->fz_queue, d_link);
		freezer_free(&d->d_request);
	}
	pthread_mutex_destroy(&fz->fz_lock);
	pthread_mutex_destroy(&fz->fz_switch);
	pthread_cond_destroy(&fz->fz_quiet);
	free(fz);
}
