/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * interval.c - the columns of ext4dstat from two samples.
 *
 * Rates are over the time that the daemon itself measured between the samples. The longest commit is known as the highest
 * bucket of the histogram that grew: the bound of that bucket, or the maximum since the mount if that is less.
 *
 * Invariants: (1) nothing is divided by zero: a rate over no time is 0.
 * Locking: none.
 */
#include "fuse/stat/interval.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define PAGE_BYTES 4096u
#define MB 1e6
#define MIB (1024.0 * 1024.0)
#define BUCKET "jbd2_commit_ns_le_"

static double ratio(double a, double b)
{
	return b > 0 ? a / b : 0;
}

static double longest_commit_ms(const struct sample *before, const struct sample *now)
{
	uint64_t max = sample_get(now, "jbd2_commit_ns_max"), longest = 0;

	for (size_t i = 0; i < now->sm_nr; i++) {
		const char *name = now->sm_values[i].sv_name;
		uint64_t bound;

		if (strncmp(name, BUCKET, sizeof(BUCKET) - 1) != 0 ||
		    sample_delta(before, now, name) == 0)
			continue;
		bound = strtoull(name + sizeof(BUCKET) - 1, NULL, 10);
		longest = bound > longest ? bound : longest;
	}
	return (double)(longest < max ? longest : max) / 1e6;
}

static void rates(struct interval *iv, const struct sample *a, const struct sample *b)
{
	double s = iv->iv_seconds;
	double requests = (double)(sample_delta(a, b, "device.read.requests") +
				   sample_delta(a, b, "device.write.requests"));
	double bytes = (double)(sample_delta(a, b, "device.read.bytes") +
				sample_delta(a, b, "device.write.bytes"));
	double full = (double)sample_delta(a, b, "wb.stripe_full");
	double stripes = full + (double)sample_delta(a, b, "wb.stripe_partial");

	iv->iv_in_rate = ratio((double)sample_delta(a, b, "wb.written_bytes"), s);
	iv->iv_device_rate = ratio((double)sample_delta(a, b, "device.write.bytes"), s);
	iv->iv_requests = ratio(requests, s);
	iv->iv_request_bytes = ratio(bytes, requests);
	iv->iv_fsyncs = ratio((double)sample_delta(a, b, "wb.fsyncs"), s);
	iv->iv_commits = ratio((double)sample_delta(a, b, "jbd2_commits"), s);
	iv->iv_commit_mean_ms = ratio((double)sample_delta(a, b, "jbd2_commit_ns_sum"),
				      (double)sample_delta(a, b, "jbd2_commit_ns_count")) /
				1e6;
	iv->iv_commit_max_ms = longest_commit_ms(a, b);
	iv->iv_striped = stripes > 0;
	iv->iv_full_percent = ratio(full * 100, stripes);
}

void interval_make(struct interval *iv, const struct sample *before, const struct sample *now)
{
	const struct sample none = {NULL, 0};
	uint64_t up = sample_get(now, "uptime_ms");

	if (before == NULL || sample_get(before, "uptime_ms") > up)
		before = &none;
	memset(iv, 0, sizeof(*iv));
	iv->iv_seconds = (double)(up - sample_get(before, "uptime_ms")) / 1e3;
	iv->iv_dirty_bytes = sample_get(now, "wb.nr_dirty") * PAGE_BYTES;
	iv->iv_writeback_bytes = sample_get(now, "wb.nr_writeback") * PAGE_BYTES;
	iv->iv_reserved_bytes =
		sample_get(now, "delayed_allocation_blocks") * sample_get(now, "block_bytes");
	iv->iv_cache_bytes = sample_get(now, "wb.cache_used_pages") * PAGE_BYTES;
	iv->iv_parked = sample_get(now, "fuse_parked");
	rates(iv, before, now);
}

void interval_print_header(FILE *out)
{
	fputs("-------------- MiB -------------- ------ MB/s ------ -- requests -- "
	      "-- each s --- - commit ms -- writers full\n"
	      "   dirty writeback reserved  cache       in   device      /s    KiB "
	      " fsync commit   mean     max  parked    %\n",
	      out);
}

void interval_print(const struct interval *iv, FILE *out)
{
	fprintf(out, "%8.1f %9.1f %8.1f %6.0f %8.1f %8.1f %7.0f %6.1f %6.1f %6.1f %6.1f %7.1f ",
		(double)iv->iv_dirty_bytes / MIB, (double)iv->iv_writeback_bytes / MIB,
		(double)iv->iv_reserved_bytes / MIB, (double)iv->iv_cache_bytes / MIB,
		iv->iv_in_rate / MB, iv->iv_device_rate / MB, iv->iv_requests,
		iv->iv_request_bytes / 1024, iv->iv_fsyncs, iv->iv_commits, iv->iv_commit_mean_ms,
		iv->iv_commit_max_ms);
	fprintf(out, "%7" PRIu64, iv->iv_parked);
	if (iv->iv_striped)
		fprintf(out, " %4.0f\n", iv->iv_full_percent);
	else
		fputs("    -\n", out);
}

void interval_print_json(const struct interval *iv, double time, FILE *out)
{
	fprintf(out, "{\"time\": %.3f, \"seconds\": %.3f, ", time, iv->iv_seconds);
	fprintf(out,
		"\"dirty_bytes\": %" PRIu64 ", \"writeback_bytes\": %" PRIu64
		", \"reserved_bytes\": %" PRIu64 ", \"cache_used_bytes\": %" PRIu64 ", ",
		iv->iv_dirty_bytes, iv->iv_writeback_bytes, iv->iv_reserved_bytes,
		iv->iv_cache_bytes);
	fprintf(out,
		"\"in_bytes_per_s\": %.0f, \"device_bytes_per_s\": %.0f, \"requests_per_s\": %.1f, "
		"\"request_mean_bytes\": %.0f, \"fsyncs_per_s\": %.1f, \"commits_per_s\": %.2f, ",
		iv->iv_in_rate, iv->iv_device_rate, iv->iv_requests, iv->iv_request_bytes,
		iv->iv_fsyncs, iv->iv_commits);
	fprintf(out, "\"commit_mean_ms\": %.3f, \"commit_max_ms\": %.3f, \"parked\": %" PRIu64 ", ",
		iv->iv_commit_mean_ms, iv->iv_commit_max_ms, iv->iv_parked);
	if (iv->iv_striped)
		fprintf(out, "\"full_stripe_percent\": %.1f}\n", iv->iv_full_percent);
	else
		fputs("\"full_stripe_percent\": null}\n", out);
}
