/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * delayq.c - a heap of deadlines and a thread that meets them.
 *
 * Invariants: (1) the heap's first item has the earliest deadline; equal deadlines keep the order
 * in which they came. (2) A virtual clock never goes back: an item whose deadline has passed is
 * due now.
 * Locking: dq_lock (no rank), never held over di_fn.
 */
#include "block/delayq.h"

#include <pthread.h>
#include <stdlib.h>

#include "util/assert.h"
#include "util/err.h"
#include "util/lock.h"
#include "util/time.h"

#define ROOM_MIN 64u

struct delayq {
	struct mutex dq_lock;
	struct cond dq_cond;
	struct delay_item **dq_heap; /* [dq_lock] */
	unsigned dq_n;		     /* [dq_lock] */
	unsigned dq_room;	     /* [dq_lock] */
	uint64_t dq_order;	     /* [dq_lock] */
	uint64_t dq_virtual_ns;	     /* [dq_lock] */
	bool dq_virtual;	     /* [const after init] */
	bool dq_stop;		     /* [dq_lock] */
	pthread_t dq_thread;
};

static bool before(const struct delay_item *a, const struct delay_item *b)
{
	if (a->di_deadline_ns != b->di_deadline_ns)
		return a->di_deadline_ns < b->di_deadline_ns;
	return a->di_order < b->di_order;
}

static void swap_items(struct delay_item **a, struct delay_item **b)
{
	struct delay_item *item = *a;

	*a = *b;
	*b = item;
}

static void sift_up_locked(struct delayq *q, unsigned i)
{
	while (i > 0 && before(q->dq_heap[i], q->dq_heap[(i - 1) / 2])) {
		swap_items(&q->dq_heap[i], &q->dq_heap[(i - 1) / 2]);
		i = (i - 1) / 2;
	}
}

static void sift_down_locked(struct delayq *q, unsigned i)
{
	while (2 * i + 1 < q->dq_n) {
		unsigned child = 2 * i + 1;

		if (child + 1 < q->dq_n && before(q->dq_heap[child + 1], q->dq_heap[child]))
			child++;
		if (!before(q->dq_heap[child], q->dq_heap[i]))
			return;
		swap_items(&q->dq_heap[child], &q->dq_heap[i]);
		i = child;
	}
}

static struct delay_item *pop_locked(struct delayq *q)
{
	struct delay_item *item = q->dq_heap[0];

	q->dq_heap[0] = q->dq_heap[--q->dq_n];
	sift_down_locked(q, 0);
	return item;
}

/* Wait for the next item that is due; NULL: stop. */
static struct delay_item *wait_due_locked(struct delayq *q)
{
	while (!q->dq_stop) {
		uint64_t deadline;

		if (q->dq_n == 0) {
			cond_wait(&q->dq_cond, &q->dq_lock);
			continue;
		}
		deadline = q->dq_heap[0]->di_deadline_ns;
		if (q->dq_virtual) {
			if (deadline > q->dq_virtual_ns)
				q->dq_virtual_ns = deadline;
			return pop_locked(q);
		}
		if (deadline <= now_ns())
			return pop_locked(q);
		cond_timedwait(&q->dq_cond, &q->dq_lock, deadline);
	}
	return NULL;
}

static void *delayq_thread(void *arg)
{
	struct delayq *q = arg;
	struct delay_item *item;

	pthread_setname_np(pthread_self(), "ext4d-delay");
	mutex_lock(&q->dq_lock);
	while ((item = wait_due_locked(q)) != NULL) {
		mutex_unlock(&q->dq_lock);
		item->di_fn(item);
		mutex_lock(&q->dq_lock);
	}
	mutex_unlock(&q->dq_lock);
	return NULL;
}

struct delayq *delayq_create(bool clock_virtual)
{
	struct delayq *q = calloc(1, sizeof(*q));
	int err;

	if (q == NULL)
		return ERR_PTR(-ENOMEM);
	q->dq_virtual = clock_virtual;
	mutex_init(&q->dq_lock, LOCK_RANK_NONE);
	cond_init(&q->dq_cond);
	err = pthread_create(&q->dq_thread, NULL, delayq_thread, q);
	if (err != 0) {
		cond_destroy(&q->dq_cond);
		mutex_destroy(&q->dq_lock);
		free(q);
		return ERR_PTR(-err);
	}
	return q;
}

uint64_t delayq_now(struct delayq *q)
{
	uint64_t now;

	if (!q->dq_virtual)
		return now_ns();
	mutex_lock(&q->dq_lock);
	now = q->dq_virtual_ns;
	mutex_unlock(&q->dq_lock);
	return now;
}

static int make_room_locked(struct delayq *q)
{
	unsigned room = q->dq_room == 0 ? ROOM_MIN : q->dq_room * 2;
	struct delay_item **grown;

	if (q->dq_n < q->dq_room)
		return 0;
	grown = realloc(q->dq_heap, room * sizeof(struct delay_item *));
	if (grown == NULL)
		return -ENOMEM;
	q->dq_heap = grown;
	q->dq_room = room;
	return 0;
}

int delayq_add(struct delayq *q, struct delay_item *item)
{
	int err;

	mutex_lock(&q->dq_lock);
	err = make_room_locked(q);
	if (err == 0) {
		item->di_order = q->dq_order++;
		q->dq_heap[q->dq_n++] = item;
		sift_up_locked(q, q->dq_n - 1);
		if (q->dq_heap[0] == item)
			cond_signal(&q->dq_cond);
	}
	mutex_unlock(&q->dq_lock);
	return err;
}

void delayq_destroy(struct delayq *q)
{
	mutex_lock(&q->dq_lock);
	ASSERT_CMP(q->dq_n, ==, 0u);
	q->dq_stop = true;
	cond_signal(&q->dq_cond);
	mutex_unlock(&q->dq_lock);
	pthread_join(q->dq_thread, NULL);
	cond_destroy(&q->dq_cond);
	mutex_destroy(&q->dq_lock);
	free(q->dq_heap);
	free(q);
}
