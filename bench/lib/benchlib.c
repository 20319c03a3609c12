/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * benchlib.c - what the programs of bench/ share.
 *
 * They are single-threaded processes that die with a message on the first error: a number that was
 * measured over a failed call is worse than none.
 *
 * Invariants: (1) nothing here allocates or prints while something is being timed, except the clock itself.
 * Locking: none.
 */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "bench/lib/benchlib.h"
#include "util/splitmix.h"

#define MAX_OPTIONS 16u

uint64_t bench_now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

double bench_since(uint64_t start_ns)
{
	return (double)(bench_now_ns() - start_ns) / 1e9;
}

void bench_sleep_us(uint32_t us)
{
	struct timespec ts = {.tv_sec = us / 1000000, .tv_nsec = (long)(us % 1000000) * 1000};

	while (clock_nanosleep(CLOCK_MONOTONIC, 0, &ts, &ts) == EINTR)
		;
}

void bench_die(int err, const char *format, ...)
{
	va_list ap;

	fprintf(stderr, "%s: ", program_invocation_short_name);
	va_start(ap, format);
	vfprintf(stderr, format, ap);
	va_end(ap);
	if (err)
		fprintf(stderr, ": %s", strerror(err));
	fputc('\n', stderr);
	exit(1);
}

uint64_t bench_random_below(uint64_t *state, uint64_t bound)
{
	return splitmix64(state) % bound;
}

void bench_random_fill(uint64_t *state, void *buf, size_t len)
{
	for (size_t i = 0; i < len; i += sizeof(uint64_t)) {
		uint64_t v = splitmix64(state);

		memcpy((char *)buf + i, &v, len - i < sizeof(v) ? len - i : sizeof(v));
	}
}

static int compare_doubles(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

void bench_stats_of(const double *values, size_t count, struct bench_stats *out)
{
	double sum = 0, squares = 0;
	double *sorted;

	memset(out, 0, sizeof(*out));
	out->count = count;
	if (!count)
		return;
	sorted = malloc(count * sizeof(*sorted));
	if (!sorted)
		bench_die(ENOMEM, "statistics of %zu values", count);
	memcpy(sorted, values, count * sizeof(*sorted));
	qsort(sorted, count, sizeof(*sorted), compare_doubles);
	for (size_t i = 0; i < count; i++)
		sum += values[i];
	out->mean = sum / (double)count;
	for (size_t i = 0; i < count; i++)
		squares += (values[i] - out->mean) * (values[i] - out->mean);
	out->sd = count > 1 ? sqrt(squares / (double)(count - 1)) : 0;
	out->max = sorted[count - 1];
	out->p50 = sorted[count / 2];
	out->p99 = sorted[(count - 1) - (count - 1) / 100];
	for (size_t i = 0; i < BENCH_TOP && i < count; i++)
		out->top[i] = sorted[count - 1 - i];
	free(sorted);
}

void bench_stats_json(FILE *f, const struct bench_stats *st)
{
	fprintf(f, "\"count\": %zu, \"mean_s\": %.6f, \"sd_s\": %.6f, \"max_s\": %.6f, ", st->count,
		st->mean, st->sd, st->max);
	fprintf(f, "\"p50_s\": %.6f, \"p99_s\": %.6f, \"top5_s\": [", st->p50, st->p99);
	for (size_t i = 0; i < BENCH_TOP && i < st->count; i++)
		fprintf(f, "%s%.6f", i ? ", " : "", st->top[i]);
	fputs("]", f);
}

uint64_t bench_parse_size(const char *text, const char *what)
{
	static const char units[] = "KMGT";
	char *end;
	uint64_t v;
	const char *u;

	errno = 0;
	v = strtoull(text, &end, 0);
	if (errno || end == text || text[0] == '-')
		bench_die(0, "%s: '%s' is not a number", what, text);
	if (!*end)
		return v;
	u = strchr(units, toupper((unsigned char)*end));
	if (!u || end[1] || v > UINT64_MAX >> (10 * (u - units + 1)))
		bench_die(0, "%s: '%s' is not a size (K, M, G, T are known)", what, text);
	return v << (10 * (u - units + 1));
}

/* ---- Command line ---- */

void bench_usage(const char *usage)
{
	fprintf(stderr, "usage: %s\n", usage);
	exit(2);
}

static void set_option(const struct bench_option *o, const char *text)
{
	uint64_t v;

	switch (o->kind) {
	case BENCH_FLAG:
		*(bool *)o->to = true;
		break;
	case BENCH_TEXT:
		*(const char **)o->to = text;
		break;
	case BENCH_SIZE:
		*(uint64_t *)o->to = bench_parse_size(text, o->name);
		break;
	case BENCH_COUNT:
		v = bench_parse_size(text, o->name);
		if (v > UINT32_MAX)
			bench_die(0, "%s: %s is too large", o->name, text);
		*(uint32_t *)o->to = (uint32_t)v;
		break;
	case BENCH_REAL:
		*(double *)o->to = strtod(text, NULL);
		break;
	}
}

int bench_options(int argc, char **argv, const struct bench_option *options, const char *usage)
{
	struct option longs[MAX_OPTIONS + 1] = {{.name = NULL}};
	int index;
	int c;

	for (unsigned i = 0; options[i].name; i++) {
		if (i == MAX_OPTIONS)
			bench_die(0, "too many options");
		longs[i].name = options[i].name;
		longs[i].has_arg = options[i].kind == BENCH_FLAG ? no_argument : required_argument;
	}
	while ((c = getopt_long(argc, argv, "", longs, &index)) != -1) {
		if (c != 0)
			bench_usage(usage);
		set_option(&options[index], optarg);
	}
	return optind;
}

/* ---- JSON ---- */

void bench_json_string(FILE *f, const char *s)
{
	fputc('"', f);
	for (; *s; s++) {
		unsigned char c = (unsigned char)*s;

		if (c == '"' || c == '\\')
			fprintf(f, "\\%c", c);
		else if (c < 0x20)
			fprintf(f, "\\u%04x", c);
		else
			fputc(c, f);
	}
	fputc('"', f);
}

FILE *bench_json_open(const char *path)
{
	char tmp[4096];
	FILE *f;

	if (!strcmp(path, "-"))
		return stdout;
	if ((size_t)snprintf(tmp, sizeof(tmp), "%s.tmp", path) >= sizeof(tmp))
		bench_die(ENAMETOOLONG, "%s", path);
	f = fopen(tmp, "w");
	if (!f)
		bench_die(errno, "%s", tmp);
	return f;
}

void bench_json_close(FILE *f, const char *path)
{
	char tmp[4096];

	if (f == stdout) {
		if (fflush(f))
			bench_die(errno, "stdout");
		return;
	}
	snprintf(tmp, sizeof(tmp), "%s.tmp", path);
	if (fclose(f) || rename(tmp, path))
		bench_die(errno, "%s", path);
}

bool bench_drop_caches(void)
{
	int fd = open("/proc/sys/vm/drop_caches", O_WRONLY | O_CLOEXEC);
	bool done;

	if (fd < 0)
		return false;
	done = write(fd, "3\n", 2) == 2;
	close(fd);
	return done;
}
