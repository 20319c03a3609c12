/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * time.c - the clocks.
 *
 * Invariants: (1) now_ns() never goes back. (2) Under a hook both wall clocks are the hook's.
 * Locking: none; the hook is atomic.
 */
#include "util/time.h"

#include <stdatomic.h>
#include <stddef.h>

typedef struct timespec (*real_hook_t)(void);

static _Atomic(real_hook_t) real_hook; /* [atomic] */

static struct timespec read_clock(clockid_t id)
{
	struct timespec ts = {0, 0};

	clock_gettime(id, &ts);
	return ts;
}

uint64_t now_ns(void)
{
	struct timespec ts = read_clock(CLOCK_MONOTONIC);

	return (uint64_t)ts.tv_sec * NSEC_PER_SEC + (uint64_t)ts.tv_nsec;
}

struct timespec now_real(void)
{
	real_hook_t hook = atomic_load_explicit(&real_hook, memory_order_acquire);

	return hook != NULL ? hook() : read_clock(CLOCK_REALTIME);
}

struct timespec now_coarse(void)
{
	real_hook_t hook = atomic_load_explicit(&real_hook, memory_order_acquire);

	return hook != NULL ? hook() : read_clock(CLOCK_REALTIME_COARSE);
}

void time_set_real_hook(struct timespec (*hook)(void))
{
	atomic_store_explicit(&real_hook, hook, memory_order_release);
}
