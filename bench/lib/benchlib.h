/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef BENCH_LIB_BENCHLIB_H
#define BENCH_LIB_BENCHLIB_H
/* What the programs of bench/ share: a clock, random numbers, statistics, complaints, JSON output. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum { BENCH_TOP = 5 };

struct bench_stats {
	size_t count;
	double mean;
	double sd; /* of a sample: divided by count - 1 */
	double max;
	double p50;
	double p99;
	double top[BENCH_TOP]; /* the longest first; unused ones are 0 */
};

/* CLOCK_MONOTONIC in nanoseconds. */
uint64_t bench_now_ns(void);
/* Seconds since `start_ns`. */
double bench_since(uint64_t start_ns);
/* Sleeps at least that long, whatever signals arrive. */
void bench_sleep_us(uint32_t us);

/* Prints "PROGRAM: text: reason of err" (err a positive errno, 0 for none) to stderr and exits with 1. */
void bench_die(int err, const char *format, ...) __attribute__((format(printf, 2, 3), noreturn));

/* A number below `bound` (> 0); `state` is any seed at first. */
uint64_t bench_random_below(uint64_t *state, uint64_t bound);
void bench_random_fill(uint64_t *state, void *buf, size_t len);

/* Statistics of `count` values; all 0 for none. Does not change `values`. */
void bench_stats_of(const double *values, size_t count, struct bench_stats *out);
/* The members "count": ... to "top5_s": [...] of a JSON object, without braces. Values in seconds. */
void bench_stats_json(FILE *f, const struct bench_stats *st);

/* Parses "512", "64K", "3M", "2G"; dies if it is none. `what` names it in the complaint. */
uint64_t bench_parse_size(const char *text, const char *what);

/* An option of the command line: --NAME, and where its value goes. */
struct bench_option {
	const char *name; /* NULL ends the list */
	enum { BENCH_FLAG, BENCH_TEXT, BENCH_SIZE, BENCH_COUNT, BENCH_REAL } kind;
	void *to; /* bool, const char *, uint64_t, uint32_t, double */
};
/* Sets what the command line gives, and dies with `usage` on anything else. The index of the first argument that is no option. */
int bench_options(int argc, char **argv, const struct bench_option *options, const char *usage);
/* Prints `usage` to stderr and exits with 2. */
void bench_usage(const char *usage) __attribute__((noreturn));
/* Writes s with quotes and escapes. */
void bench_json_string(FILE *f, const char *s);
/*
 * Opens PATH.tmp for writing, and after bench_json_close() the file is at PATH: a reader never sees half of
 * one. PATH "-" is stdout. Dies on errors.
 */
FILE *bench_json_open(const char *path);
void bench_json_close(FILE *f, const char *path);

/* Empties the page cache of the kernel (root). False when not permitted. */
bool bench_drop_caches(void);

#endif
