/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef UTIL_WORKQUEUE_H
#define UTIL_WORKQUEUE_H
/* Threads that run work items in the order they were queued; an item may be queued again from its own function. */

#include <stdbool.h>
#include <sys/queue.h>

struct work_item {
	void (*w_fn)(struct work_item *w); /* [const after init] */
	STAILQ_ENTRY(work_item) w_link;	   /* [queue lock] */
	bool w_queued;			   /* [queue lock] */
};

struct workqueue;

/* Start max_threads threads named `name`. Returns ERR_PTR(-EAGAIN) if the system refuses. */
struct workqueue *workqueue_create(const char *name, unsigned max_threads);
/* Queue w unless it is queued already (then false). The caller keeps w alive until w_fn has been entered. */
bool queue_work(struct workqueue *wq, struct work_item *w);
/* Wait until everything queued before the call has finished. Not from a worker. */
void workqueue_drain(struct workqueue *wq);
/* Drain, stop the threads, free. */
void workqueue_destroy(struct workqueue *wq);

#endif
