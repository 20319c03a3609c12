/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef FUSE_STAT_INTERVAL_H
#define FUSE_STAT_INTERVAL_H
/* What happened between two samples, and how things are at the second. */

#include <stdbool.h>
#include <stdio.h>

#include "fuse/stat/sample.h"

struct interval {
	double iv_seconds;
	/* now */
	uint64_t iv_dirty_bytes, iv_writeback_bytes, iv_reserved_bytes, iv_cache_bytes;
	uint64_t iv_parked;
	/* in between */
	double iv_in_rate;     /* bytes/s that applications wrote */
	double iv_device_rate; /* bytes/s written to the device */
	double iv_requests;    /* of the device, each second */
	double iv_request_bytes;
	double iv_fsyncs, iv_commits; /* each second */
	double iv_commit_mean_ms, iv_commit_max_ms;
	bool iv_striped;	/* data was written to a striped device */
	double iv_full_percent; /* full stripes */
};

/* before NULL, or of an earlier mount: since `now` was mounted. */
void interval_make(struct interval *iv, const struct sample *before, const struct sample *now);
void interval_print_header(FILE *out);
void interval_print(const struct interval *iv, FILE *out);
/* One line of JSON; time: seconds since the epoch. */
void interval_print_json(const struct interval *iv, double time, FILE *out);

#endif
