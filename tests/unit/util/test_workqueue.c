/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * test_workqueue.c - order, requeueing, drain.
 * Locking: results of several workers are atomic.
 */
#include <stdatomic.h>
#include <unistd.h>

#include "tests/lib/suite.h"
#include "util/err.h"
#include "util/workqueue.h"

#define ITEMS 200

struct numbered {
	struct work_item n_work;
	int n_number;
};

static int order[ITEMS];
static _Atomic int ran;
static _Atomic int rounds;
static _Atomic bool gate_open;
static struct workqueue *wq;

static void note_order(struct work_item *w)
{
	struct numbered *n = (struct numbered *)w;

	order[atomic_fetch_add(&ran, 1)] = n->n_number;
}

static void wait_for_gate(struct work_item *w)
{
	(void)w;
	while (!atomic_load(&gate_open))
		usleep(1000);
	atomic_fetch_add(&ran, 1);
}

static void again(struct work_item *w)
{
	atomic_fetch_add(&ran, 1);
	if (atomic_fetch_add(&rounds, 1) < 999)
		ck_assert(queue_work(wq, w));
}

START_TEST(one_thread_keeps_the_order)
{
	static struct numbered items[ITEMS];

	wq = workqueue_create("order", 1);
	ck_assert(!IS_ERR(wq));
	for (int i = 0; i < ITEMS; i++) {
		items[i].n_work.w_fn = note_order;
		items[i].n_number = i;
		ck_assert(queue_work(wq, &items[i].n_work));
	}
	workqueue_drain(wq);
	ck_assert_int_eq(atomic_load(&ran), ITEMS);
	for (int i = 0; i < ITEMS; i++)
		ck_assert_int_eq(order[i], i);
	workqueue_destroy(wq);
}
END_TEST

START_TEST(queueing_twice_runs_once)
{
	struct work_item block = {.w_fn = wait_for_gate};
	struct work_item item = {.w_fn = wait_for_gate};

	wq = workqueue_create("twice", 1);
	ck_assert(queue_work(wq, &block));
	ck_assert(queue_work(wq, &item));
	ck_assert(!queue_work(wq, &item));
	atomic_store(&gate_open, true);
	workqueue_destroy(wq);
	ck_assert_int_eq(atomic_load(&ran), 2);
}
END_TEST

START_TEST(an_item_may_queue_itself_and_destroy_runs_all)
{
	struct work_item item = {.w_fn = again};

	wq = workqueue_create("again", 4);
	ck_assert(queue_work(wq, &item));
	workqueue_drain(wq);
	while (atomic_load(&rounds) < 1000)
		usleep(1000);
	workqueue_destroy(wq);
	ck_assert_int_eq(atomic_load(&ran), 1000);
}
END_TEST

START_TEST(drain_waits_for_slow_items_of_all_threads)
{
	static struct work_item items[8];

	wq = workqueue_create("drain", 4);
	for (int i = 0; i < 8; i++) {
		items[i].w_fn = wait_for_gate;
		ck_assert(queue_work(wq, &items[i]));
	}
	usleep(20000);
	ck_assert_int_eq(atomic_load(&ran), 0);
	atomic_store(&gate_open, true);
	workqueue_drain(wq);
	ck_assert_int_eq(atomic_load(&ran), 8);
	workqueue_destroy(wq);
}
END_TEST

int main(void)
{
	return RUN_TESTS("util/workqueue", one_thread_keeps_the_order, queueing_twice_runs_once,
			 an_item_may_queue_itself_and_destroy_runs_all,
			 drain_waits_for_slow_items_of_all_threads);
}
