/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef FUSE_POOL_H
#define FUSE_POOL_H
/* The threads that read and serve requests. */

#include <sched.h>
#include <stdbool.h>

#include "fuse/request.h"
#include "fuse/transport.h"
#include "util/hist.h"

struct pool;

struct pool_params {
	struct transport *pp_transport;
	unsigned pp_active; /* threads at work (reading or serving) at one time */
	unsigned pp_max;    /* with those that are blocked; at most t_channels - 1 */
	bool pp_pin;	    /* thread i runs on one CPU, the i-th of pp_cpus, round again */
	cpu_set_t pp_cpus;  /* threads run on these only; empty: where the caller may */
	/* Serve one request; rq is the thread's, refilled for each. */
	void (*pp_serve)(void *arg, struct request *rq);
	/* The connection has ended and every thread is idle or gone. */
	void (*pp_ended)(void *arg);
	void *pp_arg;
};

struct pool_stats {
	unsigned ps_threads, ps_active, ps_standby;
	uint64_t ps_handovers; /* a blocked thread woke or started another one */
};

/* No thread yet. NULL: no memory. */
struct pool *pool_create(const struct pool_params *params);
/* Start pp_active threads; channel 0 is left to the caller. 0, or -EAGAIN if none could be started: then the pool is freed. */
int pool_start(struct pool *p);
/* Threads that wait for requests are stopped after the connection has ended; joins all. */
void pool_join(struct pool *p);
/* Change the number of threads at work. */
void pool_set_active(struct pool *p, unsigned active);
unsigned pool_active(const struct pool *p);
void pool_get_stats(struct pool *p, struct pool_stats *out);

#endif
