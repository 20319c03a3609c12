/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * synctest.c - how long sync takes after creating, reading and removing files (the workload of seed 002).
 *
 *   synctest --dir DIR --min 512 --max 262144 [--sync-command CMD] [--json FILE]
 *
 * Everything happens in one flat directory that is made for it. One sync first; then for n = min, 2 min, ...
 * max: create n files of 16 KiB, all with the same random content, and time sync; open each, read one byte,
 * close it, and time sync; unlink all, and time sync. With relatime the reads make the atime of each file
 * dirty once. CMD, run by /bin/sh, takes the place of sync(2) where sync(2) does not reach the file system;
 * its start is part of the time, so the time of `true` run the same way is reported as `command_s`.
 *
 * Invariants: (1) the JSON file is complete after each n, so that a run that is stopped leaves what it has;
 * (2) sizes that cannot fit in the file system are not begun, and are named in the result.
 * Locking: none.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/lib/benchlib.h"

enum { FILE_BYTES = 16384, MAX_ROWS = 40 };

struct options {
	const char *dir;
	const char *json;
	const char *sync_command;
	uint64_t min, max;
};

struct row {
	uint64_t files;
	double create_s, sync_create_s, read_s, sync_read_s, unlink_s, sync_unlink_s;
};

struct run {
	struct options opt;
	char dir[4096];
	int dirfd;
	double command_s, first_sync_s;
	uint64_t skipped_from; /* 0: none */
	size_t nrows;
	struct row row[MAX_ROWS];
	char buf[FILE_BYTES];
};

/* ---- Steps ---- */

static double timed_command(const char *command)
{
	uint64_t start = bench_now_ns();
	int rc = system(command);

	if (rc)
		bench_die(0, "'%s' failed (status 0x%x)", command, (unsigned)rc);
	return bench_since(start);
}

static double timed_sync(const struct run *r)
{
	uint64_t start = bench_now_ns();

	if (r->opt.sync_command)
		return timed_command(r->opt.sync_command);
	sync();
	return bench_since(start);
}

static void file_name(char *name, size_t size, uint64_t i)
{
	snprintf(name, size, "f%08" PRIu64, i);
}

static void create_one(const struct run *r, uint64_t i)
{
	char name[32];
	ssize_t n;
	int fd;

	file_name(name, sizeof(name), i);
	fd = openat(r->dirfd, name, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
	if (fd < 0)
		bench_die(errno, "%s/%s", r->dir, name);
	n = write(fd, r->buf, FILE_BYTES);
	if (n != FILE_BYTES)
		bench_die(n < 0 ? errno : ENOSPC, "%s/%s: write", r->dir, name);
	if (close(fd))
		bench_die(errno, "%s/%s: close", r->dir, name);
}

static void read_one(const struct run *r, uint64_t i)
{
	char name[32], byte;
	int fd;

	file_name(name, sizeof(name), i);
	fd = openat(r->dirfd, name, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || read(fd, &byte, 1) != 1)
		bench_die(errno, "%s/%s: read", r->dir, name);
	if (byte != r->buf[0])
		bench_die(0, "%s/%s: read back another byte than was written", r->dir, name);
	close(fd);
}

static void unlink_one(const struct run *r, uint64_t i)
{
	char name[32];

	file_name(name, sizeof(name), i);
	if (unlinkat(r->dirfd, name, 0))
		bench_die(errno, "%s/%s: unlink", r->dir, name);
}

static double timed_files(const struct run *r, uint64_t files,
			  void (*one)(const struct run *, uint64_t))
{
	uint64_t start = bench_now_ns();

	for (uint64_t i = 0; i < files; i++)
		one(r, i);
	return bench_since(start);
}

static void one_size(struct run *r, uint64_t files)
{
	struct row *row = &r->row[r->nrows++];

	row->files = files;
	row->create_s = timed_files(r, files, create_one);
	row->sync_create_s = timed_sync(r);
	row->read_s = timed_files(r, files, read_one);
	row->sync_read_s = timed_sync(r);
	row->unlink_s = timed_files(r, files, unlink_one);
	row->sync_unlink_s = timed_sync(r);
}

/* Whether `files` files have room, with an eighth more for directory blocks and the like. */
static bool fits(const struct run *r, uint64_t files)
{
	struct statvfs sv;
	uint64_t bytes = files * FILE_BYTES + files * FILE_BYTES / 8;

	if (fstatvfs(r->dirfd, &sv))
		bench_die(errno, "%s: statvfs", r->dir);
	return bytes <= (uint64_t)sv.f_bavail * sv.f_frsize && (!sv.f_files || files < sv.f_favail);
}

/* ---- Results ---- */

static void write_json(const struct run *r)
{
	FILE *f;

	if (!r->opt.json)
		return;
	f = bench_json_open(r->opt.json);
	fputs("{\"program\": \"synctest\", \"dir\": ", f);
	bench_json_string(f, r->opt.dir);
	fputs(", \"sync_command\": ", f);
	if (r->opt.sync_command)
		bench_json_string(f, r->opt.sync_command);
	else
		fputs("null", f);
	fprintf(f,
		", \"command_s\": %.6f, \"file_bytes\": %d, \"first_sync_s\": %.6f, "
		"\"skipped_from\": %" PRIu64 ",\n \"rows\": [",
		r->command_s, FILE_BYTES, r->first_sync_s, r->skipped_from);
	for (size_t i = 0; i < r->nrows; i++) {
		const struct row *w = &r->row[i];

		fprintf(f,
			"%s\n  {\"files\": %" PRIu64
			", \"create_s\": %.6f, \"sync_create_s\": %.6f, "
			"\"read_s\": %.6f, \"sync_read_s\": %.6f, \"unlink_s\": %.6f, "
			"\"sync_unlink_s\": %.6f}",
			i ? "," : "", w->files, w->create_s, w->sync_create_s, w->read_s,
			w->sync_read_s, w->unlink_s, w->sync_unlink_s);
	}
	fputs("]}\n", f);
	bench_json_close(f, r->opt.json);
}

static void run_sizes(struct run *r, FILE *text)
{
	fprintf(text, "%8s %12s %12s %12s %12s %12s %12s\n", "files", "create", "sync", "read",
		"sync", "unlink", "sync");
	for (uint64_t n = r->opt.min; n <= r->opt.max && r->nrows < MAX_ROWS; n *= 2) {
		const struct row *w = &r->row[r->nrows];

		if (!fits(r, n)) {
			r->skipped_from = n;
			fprintf(text, "no room for %" PRIu64 " files of 16 KiB: ends here\n", n);
			break;
		}
		one_size(r, n);
		fprintf(text, "%8" PRIu64 " %12.6f %12.6f %12.6f %12.6f %12.6f %12.6f\n", w->files,
			w->create_s, w->sync_create_s, w->read_s, w->sync_read_s, w->unlink_s,
			w->sync_unlink_s);
		fflush(text);
		write_json(r);
	}
}

/* ---- Command line ---- */

static const char usage[] = "synctest --dir DIR [--min 512] [--max 262144] "
			    "[--sync-command CMD] [--json FILE]";

static void parse(int argc, char **argv, struct options *o)
{
	const struct bench_option options[] = {
		{"dir", BENCH_TEXT, &o->dir},	{"min", BENCH_SIZE, &o->min},
		{"max", BENCH_SIZE, &o->max},	{"sync-command", BENCH_TEXT, &o->sync_command},
		{"json", BENCH_TEXT, &o->json}, {NULL, BENCH_FLAG, NULL},
	};

	*o = (struct options){.min = 512, .max = 262144};
	if (bench_options(argc, argv, options, usage) != argc)
		bench_usage(usage);
	if (!o->dir || !o->min || o->min > o->max || o->max > 100000000)
		bench_usage(usage);
}

int main(int argc, char **argv)
{
	struct run *r = calloc(1, sizeof(*r));
	uint64_t seed = 1;

	if (!r)
		bench_die(ENOMEM, "start");
	parse(argc, argv, &r->opt);
	bench_random_fill(&seed, r->buf, sizeof(r->buf));
	snprintf(r->dir, sizeof(r->dir), "%s/synctest", r->opt.dir);
	if (mkdir(r->dir, 0700))
		bench_die(errno, "%s", r->dir);
	r->dirfd = open(r->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (r->dirfd < 0)
		bench_die(errno, "%s", r->dir);
	if (r->opt.sync_command)
		r->command_s = timed_command("true");
	r->first_sync_s = timed_sync(r);
	run_sizes(r, r->opt.json && !strcmp(r->opt.json, "-") ? stderr : stdout);
	write_json(r);
	close(r->dirfd);
	if (rmdir(r->dir))
		bench_die(errno, "%s", r->dir);
	free(r);
	return 0;
}
