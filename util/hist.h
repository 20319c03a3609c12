/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef UTIL_HIST_H
#define UTIL_HIST_H
/*
 * Log2 histograms and counters that any thread may update at any time (relaxed atomics). They are for whoever looks at them.
 * A build with EXT4D_NO_STATS has none, only to measure what they cost.
 */

#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>

#include "util/time.h"

#define HIST_BUCKETS 48

/* Bucket 0 counts 0, bucket i counts values in [2^(i-1), 2^i). */
struct hist {
	_Atomic uint64_t h_bucket[HIST_BUCKETS]; /* [atomic] */
	_Atomic uint64_t h_sum;			 /* [atomic] */
	_Atomic uint64_t h_max;			 /* [atomic] */
};

uint64_t hist_count(const struct hist *h);
uint64_t hist_mean(const struct hist *h);
/* The upper bound of the bucket in which the given per cent of all values is reached. */
uint64_t hist_percentile(const struct hist *h, unsigned percent);
/* "name count N mean M max X" and one "  <= bound count" line for each non-empty bucket. */
void hist_print(const struct hist *h, const char *name, FILE *out);
/* NAME_count, _sum, _mean, _p50, _p99 and _max, for lists of statistics. */
void hist_emit(const struct hist *h, const char *name,
	       void (*emit)(void *arg, const char *name, uint64_t value), void *arg);
/* NAME_le_BOUND for each bucket that is not empty: what came in between two looks can be told. */
void hist_emit_buckets(const struct hist *h, const char *name,
		       void (*emit)(void *arg, const char *name, uint64_t value), void *arg);
void hist_reset(struct hist *h);

typedef _Atomic uint64_t counter_t;

#ifndef EXT4D_NO_STATS
void hist_add(struct hist *h, uint64_t value);

static inline void counter_add(counter_t *c, uint64_t n)
{
	atomic_fetch_add_explicit(c, n, memory_order_relaxed);
}

/* Raise c to n if that is more. */
static inline void counter_max(counter_t *c, uint64_t n)
{
	uint64_t max = atomic_load_explicit(c, memory_order_relaxed);

	while (n > max && !atomic_compare_exchange_weak_explicit(c, &max, n, memory_order_relaxed,
								 memory_order_relaxed))
		;
}

/* now_ns(), where only statistics need it. */
static inline uint64_t stat_ns(void)
{
	return now_ns();
}
#else
static inline void hist_add(struct hist *h, uint64_t value)
{
	(void)h;
	(void)value;
}

static inline void counter_add(counter_t *c, uint64_t n)
{
	(void)c;
	(void)n;
}

static inline void counter_max(counter_t *c, uint64_t n)
{
	(void)c;
	(void)n;
}

static inline uint64_t stat_ns(void)
{
	return 0;
}
#endif

static inline void counter_inc(counter_t *c)
{
	counter_add(c, 1);
}

static inline uint64_t counter_read(const counter_t *c)
{
	return atomic_load_explicit(c, memory_order_relaxed);
}

#endif
