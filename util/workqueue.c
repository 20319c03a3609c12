/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * workqueue.c - threads that run work items in the order they were queued.
 *
 * One list, one lock. Items are numbered as they are queued and, the list being first in first
 * out, as they are taken; a worker publishes the number it is running. Everything up to a number
 * has finished when that number has been taken and no worker runs it or a smaller one, which is
 * what workqueue_drain() waits for. An item that queues itself again gets a new number and does
 * not hold up a drain.
 *
 * Invariants: (1) w_queued is true from queue_work() until a worker has taken the item. (2) After
 * the call of w_fn the worker never touches the item: the function may have freed it.
 * Locking: wq_lock has no rank: it is innermost, work may be queued while anything is held. It is
 * never held over w_fn.
 */
#include "util/workqueue.h"

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "util/assert.h"
#include "util/err.h"
#include "util/lock.h"

#define THREAD_NAME_BYTES 16

struct worker {
	struct workqueue *wk_queue; /* [const after init] */
	pthread_t wk_thread;	    /* [const after init] */
	uint64_t wk_running;	    /* [wq_lock] number of the item it runs, 0: none */
};

struct workqueue {
	struct mutex wq_lock;
	struct cond wq_more;			    /* the list is not empty, or wq_stop */
	struct cond wq_done;			    /* an item has finished */
	STAILQ_HEAD(work_list, work_item) wq_items; /* [wq_lock] */
	uint64_t wq_queued;			    /* [wq_lock] number of the last item queued */
	uint64_t wq_taken;			    /* [wq_lock] number of the last item taken */
	bool wq_stop;				    /* [wq_lock] */
	unsigned wq_waiters;			    /* [wq_lock] threads in workqueue_drain() */
	unsigned wq_threads;			    /* [const after init] */
	char wq_name[THREAD_NAME_BYTES];	    /* [const after init] */
	struct worker wq_worker[];		    /* wq_threads of them */
};

static struct work_item *take_locked(struct workqueue *wq, struct worker *wk)
{
	struct work_item *w;

	while (STAILQ_EMPTY(&wq->wq_items) && !wq->wq_stop)
		cond_wait(&wq->wq_more, &wq->wq_lock);
	w = STAILQ_FIRST(&wq->wq_items);
	if (w == NULL)
		return NULL;
	STAILQ_REMOVE_HEAD(&wq->wq_items, w_link);
	w->w_queued = false;
	wk->wk_running = ++wq->wq_taken;
	return w;
}

static void *worker_main(void *arg)
{
	struct worker *wk = arg;
	struct workqueue *wq = wk->wk_queue;
	struct work_item *w;

	pthread_setname_np(pthread_self(), wq->wq_name);
	mutex_lock(&wq->wq_lock);
	while ((w = take_locked(wq, wk)) != NULL) {
		mutex_unlock(&wq->wq_lock);
		w->w_fn(w);
		mutex_lock(&wq->wq_lock);
		wk->wk_running = 0;
		if (wq->wq_waiters > 0)
			cond_broadcast(&wq->wq_done);
	}
	mutex_unlock(&wq->wq_lock);
	return NULL;
}

static bool finished_locked(const struct workqueue *wq, uint64_t number)
{
	if (wq->wq_taken < number)
		return false;
	for (unsigned i = 0; i < wq->wq_threads; i++) {
		uint64_t running = wq->wq_worker[i].wk_running;

		if (running != 0 && running <= number)
			return false;
	}
	return true;
}

static void stop_threads(struct workqueue *wq, unsigned n)
{
	mutex_lock(&wq->wq_lock);
	wq->wq_stop = true;
	cond_broadcast(&wq->wq_more);
	mutex_unlock(&wq->wq_lock);
	for (unsigned i = 0; i < n; i++)
		pthread_join(wq->wq_worker[i].wk_thread, NULL);
}

static void free_queue(struct workqueue *wq)
{
	cond_destroy(&wq->wq_done);
	cond_destroy(&wq->wq_more);
	mutex_destroy(&wq->wq_lock);
	free(wq);
}

struct workqueue *workqueue_create(const char *name, unsigned max_threads)
{
	struct workqueue *wq;
	int err;

	ASSERT(max_threads > 0);
	wq = calloc(1, sizeof(*wq) + max_threads * sizeof(wq->wq_worker[0]));
	if (wq == NULL)
		return ERR_PTR(-ENOMEM);
	mutex_init(&wq->wq_lock, LOCK_RANK_NONE);
	cond_init(&wq->wq_more);
	cond_init(&wq->wq_done);
	STAILQ_INIT(&wq->wq_items);
	snprintf(wq->wq_name, sizeof(wq->wq_name), "%s", name);
	wq->wq_threads = max_threads;
	for (unsigned i = 0; i < max_threads; i++) {
		struct worker *wk = &wq->wq_worker[i];

		wk->wk_queue = wq;
		err = pthread_create(&wk->wk_thread, NULL, worker_main, wk);
		if (err != 0) {
			stop_threads(wq, i);
			free_queue(wq);
			return ERR_PTR(-err);
		}
	}
	return wq;
}

bool queue_work(struct workqueue *wq, struct work_item *w)
{
	bool queued = false;

	mutex_lock(&wq->wq_lock);
	if (!w->w_queued) {
		queued = true;
		w->w_queued = true;
		wq->wq_queued++;
		STAILQ_INSERT_TAIL(&wq->wq_items, w, w_link);
		cond_signal(&wq->wq_more);
	}
	mutex_unlock(&wq->wq_lock);
	return queued;
}

void workqueue_drain(struct workqueue *wq)
{
	uint64_t number;

	mutex_lock(&wq->wq_lock);
	number = wq->wq_queued;
	wq->wq_waiters++;
	while (!finished_locked(wq, number))
		cond_wait(&wq->wq_done, &wq->wq_lock);
	wq->wq_waiters--;
	mutex_unlock(&wq->wq_lock);
}

void workqueue_destroy(struct workqueue *wq)
{
	if (wq == NULL || IS_ERR(wq))
		return;
	workqueue_drain(wq);
	stop_threads(wq, wq->wq_threads);
	ASSERT(STAILQ_EMPTY(&wq->wq_items));
	free_queue(wq);
}
