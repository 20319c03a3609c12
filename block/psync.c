/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * psync.c - the back end for systems without io_uring: threads that call preadv and pwritev.
 *
 * Requests wait in one list and are taken by whichever thread is free. A synchronous call does not
 * go through the list: its own thread makes the system call. A plugged thread keeps one request back,
 * which may turn out to be such a call.
 *
 * Invariants: (1) at close the list is empty and no thread is inside a request.
 * Locking: ps_lock (no rank), never held over I/O or a completion.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "block/backend.h"
#include "block/blkdev.h"
#include "util/assert.h"
#include "util/err.h"
#include "util/lock.h"
#include "util/log.h"

#define PSYNC_THREADS_DEFAULT 8u
#define PSYNC_THREADS_MAX 32u

struct psync {
	struct blkdev ps_bd;
	struct devfile ps_file;
	struct mutex ps_lock;
	struct cond ps_more;
	struct bio *ps_first; /* [ps_lock] chained by bi_driver */
	struct bio *ps_last;  /* [ps_lock] */
	bool ps_stop;	      /* [ps_lock] */
	unsigned ps_nthreads;
	pthread_t ps_thread[PSYNC_THREADS_MAX];
};

/* What this thread holds back. */
static __thread struct psync *plugged;	 /* [owner thread] NULL: not plugged */
static __thread struct bio *plugged_bio; /* [owner thread] */

static struct psync *psync_of(struct blkdev *bd)
{
	return bd->bd_priv;
}

static struct bio *take_locked(struct psync *ps)
{
	struct bio *bio;

	while (ps->ps_first == NULL && !ps->ps_stop)
		cond_wait(&ps->ps_more, &ps->ps_lock);
	bio = ps->ps_first;
	if (bio == NULL)
		return NULL;
	ps->ps_first = bio->bi_driver;
	if (ps->ps_first == NULL)
		ps->ps_last = NULL;
	return bio;
}

static void *psync_thread(void *arg)
{
	struct psync *ps = arg;
	struct bio *bio;

	pthread_setname_np(pthread_self(), "ext4d-psync");
	mutex_lock(&ps->ps_lock);
	while ((bio = take_locked(ps)) != NULL) {
		mutex_unlock(&ps->ps_lock);
		bio_endio(bio, devfile_do(&ps->ps_file, bio));
		mutex_lock(&ps->ps_lock);
	}
	mutex_unlock(&ps->ps_lock);
	return NULL;
}

static void enqueue(struct psync *ps, struct bio **bios, unsigned n)
{
	mutex_lock(&ps->ps_lock);
	for (unsigned i = 0; i < n; i++) {
		bios[i]->bi_driver = NULL;
		if (ps->ps_last != NULL)
			ps->ps_last->bi_driver = bios[i];
		else
			ps->ps_first = bios[i];
		ps->ps_last = bios[i];
	}
	if (n == 1)
		cond_signal(&ps->ps_more);
	else
		cond_broadcast(&ps->ps_more);
	mutex_unlock(&ps->ps_lock);
}

static void psync_flush_plug(struct blkdev *bd)
{
	struct bio *bio = plugged_bio;

	ASSERT(plugged == psync_of(bd));
	plugged_bio = NULL;
	if (bio != NULL)
		enqueue(plugged, &bio, 1);
}

static void psync_submit(struct blkdev *bd, struct bio **bios, unsigned n)
{
	struct psync *ps = psync_of(bd);

	if (plugged != ps) {
		enqueue(ps, bios, n);
		return;
	}
	psync_flush_plug(bd);
	if (n > 1)
		enqueue(ps, bios, n - 1);
	plugged_bio = bios[n - 1];
}

static void psync_start_plug(struct blkdev *bd)
{
	plugged = psync_of(bd);
}

/* The last request is this thread's own, be it alone or not: the others are with the threads. */
static void psync_finish_plug(struct blkdev *bd, bool wait)
{
	struct bio *mine = wait ? plugged_bio : NULL;

	if (mine != NULL)
		plugged_bio = NULL;
	psync_flush_plug(bd);
	plugged = NULL;
	if (mine != NULL)
		devfile_do_and_end(&psync_of(bd)->ps_file, mine);
}

static int psync_sync_io(struct blkdev *bd, struct bio *bio)
{
	return devfile_do(&psync_of(bd)->ps_file, bio);
}

static void psync_close(struct blkdev *bd)
{
	struct psync *ps = psync_of(bd);

	mutex_lock(&ps->ps_lock);
	ps->ps_stop = true;
	cond_broadcast(&ps->ps_more);
	mutex_unlock(&ps->ps_lock);
	for (unsigned i = 0; i < ps->ps_nthreads; i++)
		pthread_join(ps->ps_thread[i], NULL);
	ASSERT(ps->ps_first == NULL);
	devfile_close(&ps->ps_file);
	cond_destroy(&ps->ps_more);
	mutex_destroy(&ps->ps_lock);
	free(ps);
}

static void psync_stats(struct blkdev *bd,
			void (*emit)(void *arg, const char *name, uint64_t value), void *arg)
{
	struct psync *ps = psync_of(bd);

	emit(arg, "threads", ps->ps_nthreads);
	emit(arg, "direct", ps->ps_file.df_direct);
	emit(arg, "bounces", counter_read(&ps->ps_file.df_bounces));
}

static const struct blkdev_ops psync_ops = {
	.submit = psync_submit,
	.close = psync_close,
	.stats = psync_stats,
	.sync_io = psync_sync_io,
	.start_plug = psync_start_plug,
	.finish_plug = psync_finish_plug,
	.flush_plug = psync_flush_plug,
};

static unsigned choose_threads(const struct blk_open_args *args)
{
	if (args->ba_queue_depth == 0)
		return PSYNC_THREADS_DEFAULT;
	return args->ba_queue_depth < PSYNC_THREADS_MAX ? args->ba_queue_depth : PSYNC_THREADS_MAX;
}

struct blkdev *psync_open(const struct blk_open_args *args)
{
	struct psync *ps = calloc(1, sizeof(*ps));
	unsigned threads = choose_threads(args);
	int err;

	if (ps == NULL)
		return ERR_PTR(-ENOMEM);
	err = devfile_open(&ps->ps_file, args);
	if (err != 0) {
		free(ps);
		return ERR_PTR(err);
	}
	ps->ps_bd.bd_ops = &psync_ops;
	ps->ps_bd.bd_name = "psync";
	ps->ps_bd.bd_priv = ps;
	devfile_describe(&ps->ps_file, &ps->ps_bd);
	mutex_init(&ps->ps_lock, LOCK_RANK_NONE);
	cond_init(&ps->ps_more);
	for (unsigned i = 0; i < threads; i++) {
		err = pthread_create(&ps->ps_thread[i], NULL, psync_thread, ps);
		if (err != 0) {
			log_err("psync: no thread: %s", strerror(err));
			psync_close(&ps->ps_bd);
			return ERR_PTR(-err);
		}
		ps->ps_nthreads++;
	}
	return &ps->ps_bd;
}
