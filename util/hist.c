/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * hist.c - log2 histograms that cost a few relaxed atomic additions.
 *
 * The number of values is the sum of the buckets: whoever looks pays for it, not whoever adds.
 *
 * Invariants: (1) A reader beside writers sees a picture that was never exact, but each field is one that existed.
 * Locking: none.
 */
#include "util/hist.h"

#include <inttypes.h>

/* The largest value that bucket i counts; the last bucket is open. */
static uint64_t bucket_bound(const struct hist *h, unsigned i)
{
	if (i == HIST_BUCKETS - 1)
		return counter_read(&h->h_max);
	return (UINT64_C(1) << i) - 1;
}

#ifndef EXT4D_NO_STATS
static unsigned bucket_of(uint64_t value)
{
	unsigned i = value == 0 ? 0 : 64u - (unsigned)__builtin_clzll(value);

	return i < HIST_BUCKETS ? i : HIST_BUCKETS - 1;
}

void hist_add(struct hist *h, uint64_t value)
{
	counter_inc(&h->h_bucket[bucket_of(value)]);
	counter_add(&h->h_sum, value);
	counter_max(&h->h_max, value);
}
#endif

uint64_t hist_count(const struct hist *h)
{
	uint64_t n = 0;

	for (unsigned i = 0; i < HIST_BUCKETS; i++)
		n += counter_read(&h->h_bucket[i]);
	return n;
}

uint64_t hist_mean(const struct hist *h)
{
	uint64_t count = hist_count(h);

	return count == 0 ? 0 : counter_read(&h->h_sum) / count;
}

uint64_t hist_percentile(const struct hist *h, unsigned percent)
{
	uint64_t count = hist_count(h);
	uint64_t want = (count * percent + 99) / 100;
	uint64_t seen = 0;

	if (count == 0)
		return 0;
	for (unsigned i = 0; i < HIST_BUCKETS; i++) {
		seen += counter_read(&h->h_bucket[i]);
		if (seen >= want && seen > 0)
			return bucket_bound(h, i);
	}
	return counter_read(&h->h_max);
}

void hist_print(const struct hist *h, const char *name, FILE *out)
{
	fprintf(out, "%s count %" PRIu64 " mean %" PRIu64 " max %" PRIu64 "\n", name, hist_count(h),
		hist_mean(h), counter_read(&h->h_max));
	for (unsigned i = 0; i < HIST_BUCKETS; i++) {
		uint64_t n = counter_read(&h->h_bucket[i]);

		if (n != 0)
			fprintf(out, "  <= %" PRIu64 " %" PRIu64 "\n", bucket_bound(h, i), n);
	}
}

void hist_emit(const struct hist *h, const char *name,
	       void (*emit)(void *arg, const char *name, uint64_t value), void *arg)
{
	const struct {
		const char *suffix;
		uint64_t value;
	} lines[] = {
		{"count", hist_count(h)},	 {"sum", counter_read(&h->h_sum)},
		{"mean", hist_mean(h)},		 {"p50", hist_percentile(h, 50)},
		{"p99", hist_percentile(h, 99)}, {"max", counter_read(&h->h_max)},
	};
	char full[96];

	for (unsigned i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		(void)snprintf(full, sizeof(full), "%s_%s", name, lines[i].suffix);
		emit(arg, full, lines[i].value);
	}
}

void hist_emit_buckets(const struct hist *h, const char *name,
		       void (*emit)(void *arg, const char *name, uint64_t value), void *arg)
{
	char full[96];

	for (unsigned i = 0; i < HIST_BUCKETS; i++) {
		uint64_t n = counter_read(&h->h_bucket[i]);

		if (n == 0)
			continue;
		(void)snprintf(full, sizeof(full), "%s_le_%" PRIu64, name, bucket_bound(h, i));
		emit(arg, full, n);
	}
}

void hist_reset(struct hist *h)
{
	for (unsigned i = 0; i < HIST_BUCKETS; i++)
		atomic_store_explicit(&h->h_bucket[i], 0, memory_order_relaxed);
	atomic_store_explicit(&h->h_sum, 0, memory_order_relaxed);
	atomic_store_explicit(&h->h_max, 0, memory_order_relaxed);
}
