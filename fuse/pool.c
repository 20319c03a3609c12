/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * pool.c - the threads that serve: a request never waits behind a blocked one.
 *
 * One client is served fastest by one thread that reads a request, answers it in place and reads
 * the next. So a small number of threads, pp_active, is at work; each does everything itself. When a
 * request has to wait (I/O, a commit, a contended lock) the layer that waits says so through the block
 * hooks of util/lock.h: the thread no longer counts as being at work, and another one takes its place.
 * It counts again when its request is served, and steps back if there are now too many. (An fsync waits four times; to
 * count again each time it goes on would be four threads woken.)
 *
 *      +---------+  a thread blocks   +---------+  block hook   +----------+
 *      | STANDBY | -----------------> | ACTIVE  | ------------> | REPLACED |
 *      |         | <----------------- |         | <------------ |          |
 *      +---------+  too many at work  +---------+  served       +----------+
 *
 * Standby threads are reused last in, first out: their caches and buffers are warm. The
 * buffers of those that are rarely needed are given back to the system while they stand by.
 *
 * Invariants: (1) p_nr_active is the number of threads in state ACTIVE. (2) while a thread of the pool may be
 * started or stands by, p_nr_active >= p_want unless p_ended. (3) a thread sleeps in receive only in state ACTIVE.
 * Locking: p_lock, a leaf; taken inside the hooks under any other lock, hence a plain pthread mutex without rank.
 */
#include "fuse/pool.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/queue.h>
#include <unistd.h>

#include "fuse/cpus.h"
#include "util/assert.h"
#include "util/lock.h"
#include "util/log.h"
#include "util/time.h"

#define WORKER_STACK_BYTES (1u << 20)
/* Threads with a number below this keep their buffers while they stand by. */
#define WARM_WORKERS 4u

enum worker_state { WORKER_STANDBY, WORKER_ACTIVE, WORKER_REPLACED, WORKER_GONE };

struct worker {
	struct pool *w_pool; /* [const after init] */
	unsigned w_index;    /* [const after init] */
	pthread_t w_thread;  /* [const after init] */
	/* [p_lock] while the thread serves only it changes this, and reads it without the lock */
	enum worker_state w_state;
	pthread_cond_t w_cond;	    /* with p_lock */
	TAILQ_ENTRY(worker) w_link; /* [p_lock] in p_standby */
	struct block_hooks w_hooks; /* [const after init] */
	struct request w_request;   /* [owner thread] */
};

struct pool {
	struct pool_params p_params; /* [const after init] */
	pthread_mutex_t p_lock;
	TAILQ_HEAD(worker_list, worker) p_standby; /* [p_lock] */
	unsigned p_nr;				   /* [p_lock] threads started */
	_Atomic unsigned p_nr_active;		   /* [p_lock for changes] */
	_Atomic unsigned p_want;		   /* [atomic] */
	unsigned p_nr_live;			   /* [p_lock] not GONE */
	_Atomic bool p_ended;			   /* [p_lock for changes] */
	uint64_t p_handovers;			   /* [p_lock] */
	bool p_bind;				   /* [const after init] */
	cpu_set_t p_cpus;			   /* [const after init] set if p_bind */
	struct worker *p_workers;		   /* [const after init] pp_max of them */
};

static void *worker_main(void *arg);

/* ---- Starting and stopping ---- */

static int worker_start_locked(struct pool *p)
{
	struct worker *w = &p->p_workers[p->p_nr];
	pthread_attr_t attr;
	int err;

	w->w_state = WORKER_ACTIVE;
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, WORKER_STACK_BYTES);
	err = pthread_create(&w->w_thread, &attr, worker_main, w);
	pthread_attr_destroy(&attr);
	if (err != 0)
		return -err;
	p->p_nr++;
	p->p_nr_live++;
	p->p_nr_active++;
	return 0;
}

/* One more thread at work, if there is one to have. */
static void activate_one_locked(struct pool *p)
{
	struct worker *w = TAILQ_FIRST(&p->p_standby);

	if (w != NULL) {
		TAILQ_REMOVE(&p->p_standby, w, w_link);
		w->w_state = WORKER_ACTIVE;
		p->p_nr_active++;
		pthread_cond_signal(&w->w_cond);
	} else if (p->p_nr < p->p_params.pp_max) {
		worker_start_locked(p);
	}
}

static void fill_up_locked(struct pool *p)
{
	unsigned before;

	do {
		before = p->p_nr_active;
		if (before >= p->p_want || p->p_ended)
			return;
		activate_one_locked(p);
	} while (p->p_nr_active > before);
}

/* ---- The block hooks ---- */

static void hook_begin(void *arg)
{
	struct worker *w = arg;
	struct pool *p = w->w_pool;

	if (w->w_state == WORKER_REPLACED)
		return;
	pthread_mutex_lock(&p->p_lock);
	ASSERT(w->w_state == WORKER_ACTIVE);
	w->w_state = WORKER_REPLACED;
	p->p_nr_active--;
	p->p_handovers++;
	fill_up_locked(p);
	pthread_mutex_unlock(&p->p_lock);
}

/* It may wait again before the request is served. */
static void hook_end(void *arg)
{
	(void)arg;
}

/* The request is served. */
static void back_at_work(struct worker *w)
{
	struct pool *p = w->w_pool;

	if (w->w_state != WORKER_REPLACED)
		return;
	pthread_mutex_lock(&p->p_lock);
	w->w_state = WORKER_ACTIVE;
	p->p_nr_active++;
	pthread_mutex_unlock(&p->p_lock);
}

/* ---- A thread ---- */

static void give_buffer_back(struct worker *w)
{
	if (w->w_index >= WARM_WORKERS)
		madvise(request_scratch(&w->w_request), PROTO_MAX_PAYLOAD, MADV_DONTNEED);
}

/* True: go on reading. False: the end. */
static bool wait_for_turn(struct worker *w)
{
	struct pool *p = w->w_pool;

	if (atomic_load_explicit(&p->p_nr_active, memory_order_relaxed) <=
		    atomic_load_explicit(&p->p_want, memory_order_relaxed) &&
	    !atomic_load_explicit(&p->p_ended, memory_order_relaxed))
		return true;
	pthread_mutex_lock(&p->p_lock);
	if (p->p_nr_active > p->p_want && !p->p_ended) {
		w->w_state = WORKER_STANDBY;
		p->p_nr_active--;
		TAILQ_INSERT_HEAD(&p->p_standby, w, w_link);
		give_buffer_back(w);
		while (w->w_state == WORKER_STANDBY)
			pthread_cond_wait(&w->w_cond, &p->p_lock);
	}
	pthread_mutex_unlock(&p->p_lock);
	return !p->p_ended;
}

/* The connection has ended: everybody stops. */
static void worker_gone(struct worker *w)
{
	struct pool *p = w->w_pool;
	struct worker *other;
	bool last;

	pthread_mutex_lock(&p->p_lock);
	p->p_ended = true;
	while ((other = TAILQ_FIRST(&p->p_standby)) != NULL) {
		TAILQ_REMOVE(&p->p_standby, other, w_link);
		other->w_state = WORKER_ACTIVE;
		p->p_nr_active++;
		pthread_cond_signal(&other->w_cond);
	}
	w->w_state = WORKER_GONE;
	p->p_nr_active--;
	last = --p->p_nr_live == 0;
	pthread_mutex_unlock(&p->p_lock);
	if (last)
		p->p_params.pp_ended(p->p_params.pp_arg);
}

/* That it is allowed has been seen at mount: if that has changed, the thread serves where it may. */
static void bind_to_cpus(const struct worker *w)
{
	const struct pool_params *pp = &w->w_pool->p_params;
	cpu_set_t set = w->w_pool->p_cpus;

	if (pp->pp_pin) {
		unsigned cpu = cpus_nth(&set, w->w_index);

		CPU_ZERO(&set);
		CPU_SET(cpu, &set);
	}
	if (sched_setaffinity(0, sizeof(set), &set) != 0)
		log_warn("server thread %u cannot be bound to its CPUs: %s", w->w_index,
			 strerror(errno));
}

static bool worker_init(struct worker *w)
{
	struct request *rq = &w->w_request;
	char name[16];

	snprintf(name, sizeof(name), "fuse/%u", w->w_index);
	pthread_setname_np(pthread_self(), name);
	if (w->w_pool->p_bind)
		bind_to_cpus(w);
	rq->rq_buf = mmap(NULL, REQUEST_BUF_BYTES, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (rq->rq_buf == MAP_FAILED)
		return false;
	/*
	 * The payload's first page must be there: a name that ends close before it is compared by masked loads that
	 * reach into it, and on x86 each such load of an absent page is an assist of the processor, half a microsecond.
	 */
	rq->rq_buf[REQUEST_PAYLOAD] = 0;
	rq->rq_channel = w->w_index + 1;
	w->w_hooks = (struct block_hooks){hook_begin, hook_end, w};
	thread_set_block_hooks(&w->w_hooks);
	return true;
}

static void *worker_main(void *arg)
{
	struct worker *w = arg;
	const struct pool_params *pp = &w->w_pool->p_params;
	struct request *rq = &w->w_request;

	if (!worker_init(w)) {
		log_err("no memory for a server thread");
		worker_gone(w);
		return NULL;
	}
	while (wait_for_turn(w)) {
		ssize_t n = pp->pp_transport->t_ops->receive(pp->pp_transport, rq->rq_channel,
							     rq->rq_buf + REQUEST_OFFSET,
							     REQUEST_BUF_BYTES - REQUEST_OFFSET);

		if (n == -EINTR)
			continue;
		if (n < 0) {
			if (n != -ENODEV)
				log_err("reading requests: %s", strerror((int)-n));
			break;
		}
		rq->rq_start_ns = stat_ns();
		rq->rq_bytes = (size_t)n;
		pp->pp_serve(pp->pp_arg, rq);
		back_at_work(w);
	}
	thread_set_block_hooks(NULL);
	munmap(rq->rq_buf, REQUEST_BUF_BYTES);
	worker_gone(w);
	return NULL;
}

/* ---- The pool ---- */

static void choose_cpus(struct pool *p)
{
	const struct pool_params *pp = &p->p_params;

	p->p_cpus = pp->pp_cpus;
	p->p_bind = CPU_COUNT(&pp->pp_cpus) > 0;
	if (p->p_bind || !pp->pp_pin)
		return;
	p->p_bind = sched_getaffinity(0, sizeof(p->p_cpus), &p->p_cpus) == 0;
	if (!p->p_bind)
		log_warn("server threads are not bound to CPUs: %s", strerror(errno));
}

struct pool *pool_create(const struct pool_params *params)
{
	struct pool *p = calloc(1, sizeof(*p));

	ASSERT_CMP(params->pp_max, <, params->pp_transport->t_channels);
	if (p == NULL)
		return NULL;
	p->p_workers = calloc(params->pp_max, sizeof(*p->p_workers));
	if (p->p_workers == NULL) {
		free(p);
		return NULL;
	}
	p->p_params = *params;
	p->p_want = params->pp_active;
	choose_cpus(p);
	TAILQ_INIT(&p->p_standby);
	pthread_mutex_init(&p->p_lock, NULL);
	for (unsigned i = 0; i < params->pp_max; i++) {
		p->p_workers[i].w_pool = p;
		p->p_workers[i].w_index = i;
		pthread_cond_init(&p->p_workers[i].w_cond, NULL);
	}
	return p;
}

static void pool_free(struct pool *p)
{
	for (unsigned i = 0; i < p->p_params.pp_max; i++)
		pthread_cond_destroy(&p->p_workers[i].w_cond);
	pthread_mutex_destroy(&p->p_lock);
	free(p->p_workers);
	free(p);
}

int pool_start(struct pool *p)
{
	bool started;

	pthread_mutex_lock(&p->p_lock);
	fill_up_locked(p);
	started = p->p_nr > 0;
	pthread_mutex_unlock(&p->p_lock);
	if (started)
		return 0;
	pool_free(p);
	return -EAGAIN;
}

void pool_join(struct pool *p)
{
	for (unsigned i = 0; i < p->p_nr; i++)
		pthread_join(p->p_workers[i].w_thread, NULL);
	pool_free(p);
}

void pool_set_active(struct pool *p, unsigned active)
{
	pthread_mutex_lock(&p->p_lock);
	p->p_want = active;
	fill_up_locked(p);
	pthread_mutex_unlock(&p->p_lock);
}

unsigned pool_active(const struct pool *p)
{
	return p->p_want;
}

void pool_get_stats(struct pool *p, struct pool_stats *out)
{
	struct worker *w;

	pthread_mutex_lock(&p->p_lock);
	*out = (struct pool_stats){
		.ps_threads = p->p_nr_live,
		.ps_active = p->p_nr_active,
		.ps_handovers = p->p_handovers,
	};
	TAILQ_FOREACH (w, &p->p_standby, w_link)
		out->ps_standby++;
	pthread_mutex_unlock(&p->p_lock);
}
