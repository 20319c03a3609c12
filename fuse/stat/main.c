/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * main.c - ext4dstat: what an ext4d mount is doing, one line for each interval, as vmstat shows a machine.
 *
 * The first line is about all the time since the mount, each further one about the interval before it.
 *
 * Invariants: none. Locking: none.
 */
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "fuse/stat/interval.h"

#define SCREEN_LINES 24u
#define INTERVAL_MAX_S 86400.0

static const char usage_text[] =
	"usage: ext4dstat [-j] MOUNTPOINT [INTERVAL [COUNT]]\n"
	"\n"
	"  -j        one line of JSON for each sample\n"
	"  -h        this text\n"
	"  INTERVAL  seconds between samples; without it: one sample, since the mount\n"
	"  COUNT     samples; without it: until interrupted\n";

struct command {
	bool c_json;
	const char *c_dir;
	double c_interval; /* seconds; 0: one sample */
	unsigned long c_count;
};

static int usage_error(const char *why)
{
	fprintf(stderr, "ext4dstat: %s\n%s", why, usage_text);
	return EXIT_FAILURE;
}

static bool parse_interval(const char *text, double *out)
{
	char *end;

	*out = strtod(text, &end);
	return end != text && *end == '\0' && isfinite(*out) && *out > 0 && *out <= INTERVAL_MAX_S;
}

static bool parse_count(const char *text, unsigned long *out)
{
	char *end;

	errno = 0;
	*out = strtoul(text, &end, 10);
	return *text >= '0' && *text <= '9' && *end == '\0' && errno == 0 && *out > 0;
}

static int parse_operands(struct command *c, int argc, char **argv)
{
	if (argc < 1)
		return usage_error("MOUNTPOINT is needed");
	if (argc > 3)
		return usage_error("too many arguments");
	c->c_dir = argv[0];
	c->c_count = 1;
	if (argc > 1 && !parse_interval(argv[1], &c->c_interval))
		return usage_error("INTERVAL must be a number of seconds above 0");
	if (argc > 1)
		c->c_count = ULONG_MAX;
	if (argc > 2 && !parse_count(argv[2], &c->c_count))
		return usage_error("COUNT must be a number above 0");
	return EXIT_SUCCESS;
}

static int parse_args(struct command *c, int argc, char **argv)
{
	int opt;

	while ((opt = getopt(argc, argv, "jh")) != -1) {
		switch (opt) {
		case 'j':
			c->c_json = true;
			break;
		case 'h':
			fputs(usage_text, stdout);
			exit(EXIT_SUCCESS);
		default:
			fputs(usage_text, stderr);
			return EXIT_FAILURE;
		}
	}
	return parse_operands(c, argc - optind, argv + optind);
}

/* Why there are no statistics. */
static void explain(const char *dir, int err, bool first)
{
	struct stat st;

	if (!first && (err == -ENOENT || err == -ENOTCONN || err == -ENODEV))
		fprintf(stderr, "ext4dstat: %s is not mounted any more\n", dir);
	else if (stat(dir, &st) != 0)
		fprintf(stderr, "ext4dstat: %s: %s\n", dir, strerror(errno));
	else if (err == -ENOENT || err == -ENOTDIR)
		fprintf(stderr, "ext4dstat: %s is not where an ext4d file system is mounted%s\n",
			dir, err == -ENOENT ? " (or it has nocontrol)" : "");
	else
		fprintf(stderr, "ext4dstat: %s/.ext4d/stats: %s\n", dir, strerror(-err));
}

static unsigned screen_lines(void)
{
	struct winsize ws;

	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &ws) == 0 && ws.ws_row > 4)
		return ws.ws_row;
	return SCREEN_LINES;
}

static void show(const struct command *c, const struct interval *iv, unsigned long line)
{
	struct timespec now;

	if (c->c_json) {
		clock_gettime(CLOCK_REALTIME, &now);
		interval_print_json(iv, (double)now.tv_sec + (double)now.tv_nsec / 1e9, stdout);
	} else {
		/* The header has two lines, and the next prompt one. */
		if (line % (screen_lines() - 3) == 0)
			interval_print_header(stdout);
		interval_print(iv, stdout);
	}
	fflush(stdout);
}

static void wait_until(struct timespec *next, double interval)
{
	double whole = floor(interval);

	next->tv_sec += (time_t)whole;
	next->tv_nsec += (long)((interval - whole) * 1e9);
	if (next->tv_nsec >= 1000000000) {
		next->tv_nsec -= 1000000000;
		next->tv_sec++;
	}
	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, next, NULL) == EINTR)
		;
}

static int watch(const struct command *c)
{
	struct sample before = {NULL, 0}, now;
	struct interval iv;
	struct timespec next;
	int code = EXIT_SUCCESS;

	clock_gettime(CLOCK_MONOTONIC, &next);
	for (unsigned long i = 0; i < c->c_count && code == EXIT_SUCCESS; i++) {
		int err;

		if (i > 0)
			wait_until(&next, c->c_interval);
		err = sample_read(&now, c->c_dir);
		if (err != 0) {
			explain(c->c_dir, err, i == 0);
			code = EXIT_FAILURE;
			break;
		}
		interval_make(&iv, i > 0 ? &before : NULL, &now);
		show(c, &iv, i);
		sample_free(&before);
		before = now;
		if (ferror(stdout))
			code = EXIT_FAILURE;
	}
	sample_free(&before);
	return code;
}

int main(int argc, char **argv)
{
	struct command c = {.c_json = false};
	int code = parse_args(&c, argc, argv);

	return code == EXIT_SUCCESS ? watch(&c) : code;
}
