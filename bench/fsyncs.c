/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fsyncs.c - what the journal costs: the rate of small appends that are fsynced, and of changes of names.
 *
 *   fsyncs --dir DIR [--threads N] [--seconds N] [--bytes 8192] [--json FILE]
 *     each thread appends to a file of its own and calls fsync, over and over; the rate is that of all.
 *   fsyncs --dir DIR --metadata FILES [--json FILE]
 *     creates that many empty files in 16 directories, renames each into the next directory, removes them.
 *     An fsync of the directories ends each step and is part of its time: work that was put off counts.
 *
 * The text output is one line, `name value` pairs, for scripts.
 *
 * Invariants: (1) every thread does at least one fsync; (2) a failed call ends the program without a result.
 * Locking: none; a thread writes its own `struct worker` only, and it is read after the join.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bench/lib/benchlib.h"

enum { MAX_THREADS = 64, MAX_FSYNCS = 1 << 20, FOLDERS = 16, MAX_APPEND = 1 << 20 };

struct options {
	const char *dir;
	const char *json;
	uint64_t files; /* 0: the fsync test */
	uint64_t bytes;
	uint32_t threads, seconds;
};

struct worker {
	const struct options *w_opt;
	pthread_t w_thread;
	uint32_t w_number;
	uint64_t w_end_ns;
	double *w_time; /* of each fsync, with its write */
	size_t w_count;
};

/* ---- fsync ---- */

static void one_append(int fd, const char *buf, size_t len)
{
	ssize_t n = write(fd, buf, len);

	if (n != (ssize_t)len)
		bench_die(n < 0 ? errno : ENOSPC, "write");
	if (fsync(fd))
		bench_die(errno, "fsync");
}

static void *append_thread(void *arg)
{
	struct worker *w = arg;
	uint64_t seed = w->w_number + 1;
	char *buf = malloc(w->w_opt->bytes);
	char path[4096];
	int fd;

	if (!buf)
		bench_die(ENOMEM, "buffer");
	bench_random_fill(&seed, buf, w->w_opt->bytes);
	snprintf(path, sizeof(path), "%s/append%u", w->w_opt->dir, w->w_number);
	fd = open(path, O_CREAT | O_TRUNC | O_WRONLY | O_APPEND | O_CLOEXEC, 0600);
	if (fd < 0)
		bench_die(errno, "%s", path);
	do {
		uint64_t start = bench_now_ns();

		one_append(fd, buf, w->w_opt->bytes);
		w->w_time[w->w_count++] = bench_since(start);
	} while (bench_now_ns() < w->w_end_ns && w->w_count < MAX_FSYNCS);
	if (close(fd) || unlink(path))
		bench_die(errno, "%s", path);
	free(buf);
	return NULL;
}

static void run_threads(struct worker *w, const struct options *o)
{
	uint64_t end_ns = bench_now_ns() + o->seconds * UINT64_C(1000000000);
	int err;

	for (uint32_t i = 0; i < o->threads; i++) {
		w[i] = (struct worker){.w_opt = o, .w_number = i, .w_end_ns = end_ns};
		w[i].w_time = malloc(MAX_FSYNCS * sizeof(double));
		if (!w[i].w_time)
			bench_die(ENOMEM, "results");
	}
	for (uint32_t i = 0; i < o->threads; i++) {
		err = pthread_create(&w[i].w_thread, NULL, append_thread, &w[i]);
		if (err)
			bench_die(err, "pthread_create");
	}
	for (uint32_t i = 0; i < o->threads; i++)
		pthread_join(w[i].w_thread, NULL);
}

static void fsync_test(const struct options *o)
{
	struct worker *w = calloc(o->threads, sizeof(*w));
	uint64_t start = bench_now_ns();
	struct bench_stats st;
	size_t count = 0;
	double elapsed, *all;

	if (!w)
		bench_die(ENOMEM, "threads");
	run_threads(w, o);
	elapsed = bench_since(start);
	all = malloc((size_t)o->threads * MAX_FSYNCS * sizeof(*all));
	if (!all)
		bench_die(ENOMEM, "results");
	for (uint32_t i = 0; i < o->threads; i++) {
		memcpy(all + count, w[i].w_time, w[i].w_count * sizeof(*all));
		count += w[i].w_count;
		free(w[i].w_time);
	}
	bench_stats_of(all, count, &st);
	printf("fsyncs_per_s %.1f mean_s %.6f p99_s %.6f max_s %.6f\n", (double)count / elapsed,
	       st.mean, st.p99, st.max);
	if (o->json) {
		FILE *f = bench_json_open(o->json);

		fprintf(f,
			"{\"program\": \"fsyncs\", \"threads\": %u, \"bytes\": %" PRIu64
			", \"fsyncs_per_s\": %.3f, \"fsync\": {",
			o->threads, o->bytes, (double)count / elapsed);
		bench_stats_json(f, &st);
		fputs("}}\n", f);
		bench_json_close(f, o->json);
	}
	free(all);
	free(w);
}

/* ---- Metadata ---- */

static int folder_fd[FOLDERS];

static void open_folders(const char *dir)
{
	char path[4096];

	for (int i = 0; i < FOLDERS; i++) {
		snprintf(path, sizeof(path), "%s/meta%02d", dir, i);
		if (mkdir(path, 0700))
			bench_die(errno, "%s", path);
		folder_fd[i] = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (folder_fd[i] < 0)
			bench_die(errno, "%s", path);
	}
}

static void remove_folders(const char *dir)
{
	char path[4096];

	for (int i = 0; i < FOLDERS; i++) {
		close(folder_fd[i]);
		snprintf(path, sizeof(path), "%s/meta%02d", dir, i);
		if (rmdir(path))
			bench_die(errno, "%s", path);
	}
}

static int step_create(uint64_t i, const char *name)
{
	int fd =
		openat(folder_fd[i % FOLDERS], name, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);

	return fd < 0 ? -1 : close(fd);
}

static int step_rename(uint64_t i, const char *name)
{
	return renameat(folder_fd[i % FOLDERS], name, folder_fd[(i + 1) % FOLDERS], name);
}

static int step_unlink(uint64_t i, const char *name)
{
	return unlinkat(folder_fd[(i + 1) % FOLDERS], name, 0);
}

/* Files per second. */
static double metadata_step(uint64_t files, const char *what, int (*step)(uint64_t, const char *))
{
	uint64_t start = bench_now_ns();
	char name[32];

	for (uint64_t i = 0; i < files; i++) {
		snprintf(name, sizeof(name), "file%08" PRIu64, i);
		if (step(i, name))
			bench_die(errno, "%s %s", what, name);
	}
	for (int i = 0; i < FOLDERS; i++)
		if (fsync(folder_fd[i]))
			bench_die(errno, "fsync of a directory");
	return (double)files / bench_since(start);
}

static void metadata_test(const struct options *o)
{
	double create, change, del;

	open_folders(o->dir);
	create = metadata_step(o->files, "create", step_create);
	change = metadata_step(o->files, "rename", step_rename);
	del = metadata_step(o->files, "unlink", step_unlink);
	remove_folders(o->dir);
	printf("create_per_s %.1f rename_per_s %.1f unlink_per_s %.1f\n", create, change, del);
	if (!o->json)
		return;
	FILE *f = bench_json_open(o->json);

	fprintf(f,
		"{\"program\": \"fsyncs\", \"files\": %" PRIu64
		", \"create_per_s\": %.3f, \"rename_per_s\": %.3f, \"unlink_per_s\": %.3f}\n",
		o->files, create, change, del);
	bench_json_close(f, o->json);
}

/* ---- Command line ---- */

static const char usage[] = "fsyncs --dir DIR [--threads 1] [--seconds 5] [--bytes 8192] "
			    "[--metadata FILES] [--json FILE]";

static void parse(int argc, char **argv, struct options *o)
{
	const struct bench_option options[] = {
		{"dir", BENCH_TEXT, &o->dir},
		{"threads", BENCH_COUNT, &o->threads},
		{"seconds", BENCH_COUNT, &o->seconds},
		{"bytes", BENCH_SIZE, &o->bytes},
		{"json", BENCH_TEXT, &o->json},
		{"metadata", BENCH_SIZE, &o->files},
		{NULL, BENCH_FLAG, NULL},
	};

	*o = (struct options){.threads = 1, .seconds = 5, .bytes = 8192};
	if (bench_options(argc, argv, options, usage) != argc)
		bench_usage(usage);
	if (!o->dir || !o->threads || o->threads > MAX_THREADS || !o->bytes)
		bench_usage(usage);
	if (o->bytes > MAX_APPEND)
		bench_die(0, "--bytes: at most %d", MAX_APPEND);
}

int main(int argc, char **argv)
{
	struct options o;

	parse(argc, argv, &o);
	if (o.files)
		metadata_test(&o);
	else
		fsync_test(&o);
	return 0;
}
