/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * test_pool.c - a blocked thread is replaced, threads are reused, the end reaches everybody.
 * ext4d-threaded
 * Locking: q_lock of the fake transport.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fuse/pool.h"
#include "tests/lib/suite.h"
#include "util/lock.h"

#define CHANNELS 9u
#define MAX_THREADS 8u

enum command { SERVE, BLOCK, BLOCK_AGAIN };

/* A transport that hands out commands from a queue. */
struct queue {
	struct transport q_transport;
	pthread_mutex_t q_lock;
	pthread_cond_t q_more;	/* a command, or the end */
	pthread_cond_t q_event; /* something was served, or the gate has opened */
	enum command q_commands[256];
	unsigned q_head, q_tail;
	bool q_end;
	bool q_gate;	    /* blocked requests may go on */
	unsigned q_blocked; /* now */
	unsigned q_served;
	unsigned q_reading; /* threads in receive */
	unsigned q_ended;   /* calls of pp_ended */
};

static struct queue q;

static ssize_t receive(struct transport *t, unsigned channel, void *buf, size_t size)
{
	ssize_t n = -ENODEV;

	(void)t;
	(void)size;
	ck_assert_uint_lt(channel, CHANNELS);
	ck_assert_uint_gt(channel, 0);
	pthread_mutex_lock(&q.q_lock);
	q.q_reading++;
	pthread_cond_broadcast(&q.q_event);
	while (q.q_head == q.q_tail && !q.q_end)
		pthread_cond_wait(&q.q_more, &q.q_lock);
	if (q.q_head != q.q_tail) {
		memcpy(buf, &q.q_commands[q.q_head++], sizeof(enum command));
		n = sizeof(enum command);
	}
	q.q_reading--;
	pthread_mutex_unlock(&q.q_lock);
	return n;
}

static const struct transport_ops queue_ops = {.to_name = "queue", .receive = receive};

static void block_until_gate(void)
{
	thread_block_begin();
	pthread_mutex_lock(&q.q_lock);
	q.q_blocked++;
	pthread_cond_broadcast(&q.q_event);
	while (!q.q_gate)
		pthread_cond_wait(&q.q_event, &q.q_lock);
	q.q_blocked--;
	pthread_mutex_unlock(&q.q_lock);
	thread_block_end();
}

static void serve(void *arg, struct request *rq)
{
	enum command c;

	(void)arg;
	ck_assert_uint_eq(rq->rq_bytes, sizeof(c));
	memcpy(&c, rq->rq_buf + REQUEST_OFFSET, sizeof(c));
	if (c != SERVE)
		block_until_gate();
	for (unsigned i = 0; c == BLOCK_AGAIN && i < 3; i++) {
		thread_block_begin();
		thread_block_end();
	}
	pthread_mutex_lock(&q.q_lock);
	q.q_served++;
	pthread_cond_broadcast(&q.q_event);
	pthread_mutex_unlock(&q.q_lock);
}

static void ended(void *arg)
{
	(void)arg;
	pthread_mutex_lock(&q.q_lock);
	q.q_ended++;
	pthread_mutex_unlock(&q.q_lock);
}

static void push(enum command c)
{
	pthread_mutex_lock(&q.q_lock);
	q.q_commands[q.q_tail++] = c;
	pthread_cond_signal(&q.q_more);
	pthread_mutex_unlock(&q.q_lock);
}

static void wait_for(const unsigned *what, unsigned value)
{
	pthread_mutex_lock(&q.q_lock);
	while (*what != value)
		pthread_cond_wait(&q.q_event, &q.q_lock);
	pthread_mutex_unlock(&q.q_lock);
}

static struct pool *start(unsigned active)
{
	struct pool_params pp = {
		.pp_transport = &q.q_transport,
		.pp_active = active,
		.pp_max = MAX_THREADS,
		.pp_serve = serve,
		.pp_ended = ended,
	};
	struct pool *p;

	memset(&q, 0, sizeof(q));
	q.q_transport.t_ops = &queue_ops;
	q.q_transport.t_channels = CHANNELS;
	pthread_mutex_init(&q.q_lock, NULL);
	pthread_cond_init(&q.q_more, NULL);
	pthread_cond_init(&q.q_event, NULL);
	p = pool_create(&pp);
	ck_assert_ptr_nonnull(p);
	ck_assert_int_eq(pool_start(p), 0);
	return p;
}

static void set_gate(bool open)
{
	pthread_mutex_lock(&q.q_lock);
	q.q_gate = open;
	pthread_cond_broadcast(&q.q_event);
	pthread_mutex_unlock(&q.q_lock);
}

static void end(struct pool *p)
{
	pthread_mutex_lock(&q.q_lock);
	q.q_end = true;
	pthread_cond_broadcast(&q.q_more);
	pthread_mutex_unlock(&q.q_lock);
	pool_join(p);
	ck_assert_uint_eq(q.q_ended, 1);
}

/* The threads' own idea of who is idle settles a moment after the last answer. */
static struct pool_stats settled(struct pool *p, unsigned active)
{
	struct pool_stats ps;

	for (int i = 0; i < 60000; i++) {
		pool_get_stats(p, &ps);
		if (ps.ps_active == active && active + ps.ps_standby == ps.ps_threads)
			return ps;
		usleep(1000);
	}
	ck_abort_msg("%u threads at work, not %u", ps.ps_active, active);
}

START_TEST(one_thread_serves_what_does_not_block)
{
	struct pool *p = start(1);
	struct pool_stats ps;

	for (int i = 0; i < 50; i++)
		push(SERVE);
	wait_for(&q.q_served, 50);
	pool_get_stats(p, &ps);
	ck_assert_uint_eq(ps.ps_threads, 1);
	ck_assert_uint_eq(ps.ps_handovers, 0);
	end(p);
}
END_TEST

START_TEST(a_blocked_thread_is_replaced)
{
	struct pool *p = start(1);

	for (unsigned i = 1; i < MAX_THREADS; i++) {
		push(BLOCK);
		wait_for(&q.q_blocked, i);
		push(SERVE);
		wait_for(&q.q_served, i);
	}
	set_gate(true);
	wait_for(&q.q_served, 2 * (MAX_THREADS - 1));
	ck_assert_uint_eq(settled(p, 1).ps_standby, MAX_THREADS - 1);
	end(p);
}
END_TEST

/* So many times: one thread blocks by this command, another one serves, the first goes on. */
static void block_and_replace(enum command c, unsigned times)
{
	struct pool *p = start(1);
	struct pool_stats ps;

	for (unsigned i = 1; i <= times; i++) {
		set_gate(false);
		push(c);
		wait_for(&q.q_blocked, 1);
		push(SERVE);
		wait_for(&q.q_served, 2 * i - 1);
		set_gate(true);
		wait_for(&q.q_served, 2 * i);
		settled(p, 1);
	}
	pool_get_stats(p, &ps);
	ck_assert_uint_eq(ps.ps_threads, 2);
	ck_assert_uint_eq(ps.ps_handovers, times);
	end(p);
}

START_TEST(standby_threads_are_reused)
{
	block_and_replace(BLOCK, 20);
}
END_TEST

START_TEST(a_request_that_blocks_again_and_again_costs_one_thread)
{
	block_and_replace(BLOCK_AGAIN, 10);
}
END_TEST

START_TEST(no_more_threads_than_allowed)
{
	struct pool *p = start(2);
	struct pool_stats ps;

	for (unsigned i = 0; i < MAX_THREADS + 4; i++)
		push(BLOCK);
	wait_for(&q.q_blocked, MAX_THREADS);
	pool_get_stats(p, &ps);
	ck_assert_uint_eq(ps.ps_threads, MAX_THREADS);
	ck_assert_uint_eq(ps.ps_active, 0);
	set_gate(true);
	wait_for(&q.q_served, MAX_THREADS + 4);
	settled(p, 2);
	end(p);
}
END_TEST

START_TEST(the_number_at_work_can_change)
{
	struct pool *p = start(1);

	pool_set_active(p, 3);
	wait_for(&q.q_reading, 3);
	ck_assert_uint_eq(pool_active(p), 3);
	pool_set_active(p, 1);
	for (int i = 0; i < 10; i++)
		push(SERVE);
	wait_for(&q.q_served, 10);
	end(p);
}
END_TEST

START_TEST(the_end_comes_while_threads_block)
{
	struct pool *p = start(1);

	push(BLOCK);
	wait_for(&q.q_blocked, 1);
	push(BLOCK);
	wait_for(&q.q_blocked, 2);
	pthread_mutex_lock(&q.q_lock);
	q.q_end = true;
	pthread_cond_broadcast(&q.q_more);
	pthread_mutex_unlock(&q.q_lock);
	ck_assert_uint_eq(q.q_ended, 0);
	set_gate(true);
	end(p);
	ck_assert_uint_eq(q.q_served, 2);
}
END_TEST

int main(void)
{
	return RUN_TESTS("fuse/pool", one_thread_serves_what_does_not_block,
			 a_blocked_thread_is_replaced, standby_threads_are_reused,
			 no_more_threads_than_allowed,
			 a_request_that_blocks_again_and_again_costs_one_thread,
			 the_number_at_work_can_change, the_end_comes_while_threads_block);
}
