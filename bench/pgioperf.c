/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * pgioperf.c - how long a commit takes while a data base reads and checkpoints (the workload of seed 001).
 *
 *   pgioperf --dir DIR --memory BYTES --seconds N [--readers 16] [--seed N] [--keep]
 *            [--prepare-only | --prepared] [--json FILE]
 *
 * Two files, written in sequence by 8 KiB and fsynced, `data` first: `data` is twice BYTES, `wal` is a 48th
 * of it and at least 64 MiB. The kernel's caches are dropped then; a file system with a cache of its own is
 * mounted anew between --prepare-only and --prepared instead. Then processes of their own, started together:
 *   readers       8 KiB at a random byte offset of `data`, not aligned, for ever;
 *   checkpointer  8 KiB to a random byte offset of `data`, sleep 200 us, an fsync at every 100,000th write;
 *   WAL writer    8 KiB in sequence to `wal`, wrapping, then 1 ms of sleep; at every 5th write an fdatasync
 *                 follows, and that write and its fdatasync, timed as one, are a commit.
 * After N seconds the WAL writer ends its current commit, however long that takes, with the others still at
 * work, and then these end too. The commits are what is reported.
 *
 * Invariants: (1) a commit that began before the end is counted in full; (2) a process that fails stops the
 * run, and there is no result; (3) no process outlives the first one (PR_SET_PDEATHSIG).
 * Locking: none; `struct shared` has one writer for each field.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/lib/benchlib.h"

enum {
	IO_BYTES = 8192,
	CHECKPOINT_SLEEP_US = 200,
	CHECKPOINT_FSYNC_EVERY = 100000,
	WAL_SLEEP_US = 1000,
	WAL_COMMIT_EVERY = 5,
	MAX_READERS = 256,
	/* A commit has five sleeps of 1 ms before it, so there cannot be more of them in a second. */
	MAX_COMMITS_PER_SECOND = 1000000 / (WAL_COMMIT_EVERY * WAL_SLEEP_US),
};

struct options {
	const char *dir;
	const char *json;
	uint64_t memory_bytes;
	uint64_t seed;
	uint32_t seconds;
	uint32_t readers;
	bool keep;
	bool prepare_only; /* write the files and end */
	bool prepared;	   /* the files are there */
};

struct commit {
	double c_start; /* seconds since the start of all */
	double c_duration;
};

/* Shared by all processes. */
struct shared {
	uint64_t s_start_ns;		   /* [const after the start] */
	_Atomic int s_go;		   /* [parent] the gate that all wait at */
	_Atomic int s_stop;		   /* [parent] no further commit */
	uint64_t s_reads[MAX_READERS];	   /* [its reader] */
	uint64_t s_checkpoint_writes;	   /* [checkpointer] */
	uint64_t s_checkpoint_fsyncs;	   /* [checkpointer] */
	double s_checkpoint_fsync_max;	   /* [checkpointer] seconds */
	uint64_t s_wal_writes;		   /* [WAL writer] */
	uint64_t s_commits, s_max_commits; /* [WAL writer] */
	struct commit s_commit[];	   /* [WAL writer] */
};

struct run {
	struct options opt;
	char data[4096], wal[4096];
	uint64_t data_bytes, wal_bytes;
	double prepare_s, elapsed_s;
	bool dropped;
	struct shared *shared;
};

/* ---- Files ---- */

static int open_file(const char *path, int flags)
{
	int fd = open(path, flags | O_CLOEXEC, 0600);

	if (fd < 0)
		bench_die(errno, "%s", path);
	return fd;
}

static void write_at(int fd, const void *buf, uint64_t offset, const char *what)
{
	ssize_t n = pwrite(fd, buf, IO_BYTES, (off_t)offset);

	if (n != IO_BYTES)
		bench_die(n < 0 ? errno : ENOSPC, "%s: write at %" PRIu64, what, offset);
}

static void prepare_file(const char *path, uint64_t bytes, uint64_t seed)
{
	int fd = open_file(path, O_CREAT | O_WRONLY | O_TRUNC);
	char buf[IO_BYTES];

	bench_random_fill(&seed, buf, sizeof(buf));
	for (uint64_t done = 0; done < bytes; done += IO_BYTES) {
		memcpy(buf, &done, sizeof(done));
		write_at(fd, buf, done, path);
	}
	if (fsync(fd))
		bench_die(errno, "%s: fsync", path);
	posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
	if (close(fd))
		bench_die(errno, "%s: close", path);
}

static void check_file(const char *path, uint64_t bytes)
{
	struct stat st;

	if (stat(path, &st))
		bench_die(errno, "%s", path);
	if ((uint64_t)st.st_size != bytes)
		bench_die(0, "%s has another size than --memory asks for", path);
}

/* ---- The processes ---- */

static void wait_for_start(const struct shared *sh)
{
	while (!sh->s_go)
		bench_sleep_us(500);
}

static void reader(const struct run *r, uint32_t number)
{
	uint64_t seed = r->opt.seed + 100 + number;
	int fd = open_file(r->data, O_RDONLY);
	char buf[IO_BYTES];

	wait_for_start(r->shared);
	for (;;) {
		uint64_t at = bench_random_below(&seed, r->data_bytes - IO_BYTES + 1);

		if (pread(fd, buf, IO_BYTES, (off_t)at) != IO_BYTES)
			bench_die(errno, "%s: read at %" PRIu64, r->data, at);
		r->shared->s_reads[number]++;
	}
}

static void checkpointer(const struct run *r)
{
	struct shared *sh = r->shared;
	uint64_t seed = r->opt.seed + 1;
	int fd = open_file(r->data, O_WRONLY);
	char buf[IO_BYTES];

	bench_random_fill(&seed, buf, sizeof(buf));
	wait_for_start(sh);
	for (;;) {
		write_at(fd, buf, bench_random_below(&seed, r->data_bytes - IO_BYTES + 1), r->data);
		bench_sleep_us(CHECKPOINT_SLEEP_US);
		if (++sh->s_checkpoint_writes % CHECKPOINT_FSYNC_EVERY)
			continue;
		uint64_t start = bench_now_ns();

		if (fsync(fd))
			bench_die(errno, "%s: fsync", r->data);
		double s = bench_since(start);

		sh->s_checkpoint_fsyncs++;
		if (s > sh->s_checkpoint_fsync_max)
			sh->s_checkpoint_fsync_max = s;
	}
}

static void wal_commit(const struct run *r, int fd, const void *buf, uint64_t offset)
{
	struct shared *sh = r->shared;
	uint64_t start = bench_now_ns();

	write_at(fd, buf, offset, r->wal);
	if (fdatasync(fd))
		bench_die(errno, "%s: fdatasync", r->wal);
	if (sh->s_commits >= sh->s_max_commits)
		bench_die(0, "more commits than the time allows");
	sh->s_commit[sh->s_commits].c_start = (double)(start - sh->s_start_ns) / 1e9;
	sh->s_commit[sh->s_commits].c_duration = bench_since(start);
	sh->s_commits++;
}

static void wal_writer(const struct run *r)
{
	struct shared *sh = r->shared;
	uint64_t seed = r->opt.seed + 2, offset = 0;
	int fd = open_file(r->wal, O_WRONLY);
	char buf[IO_BYTES];

	bench_random_fill(&seed, buf, sizeof(buf));
	wait_for_start(sh);
	while (!sh->s_stop) {
		if (++sh->s_wal_writes % WAL_COMMIT_EVERY)
			write_at(fd, buf, offset, r->wal);
		else
			wal_commit(r, fd, buf, offset);
		offset = offset + 2 * IO_BYTES <= r->wal_bytes ? offset + IO_BYTES : 0;
		bench_sleep_us(WAL_SLEEP_US);
	}
}

/* ---- Running them ---- */

enum { KID_WAL, KID_CHECKPOINTER, KID_READER };

static pid_t start_kid(const struct run *r, uint32_t number)
{
	pid_t parent = getpid();
	pid_t pid = fork();

	if (pid < 0)
		bench_die(errno, "fork");
	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1);
	if (number == KID_WAL)
		wal_writer(r);
	else if (number == KID_CHECKPOINTER)
		checkpointer(r);
	else
		reader(r, number - KID_READER);
	_exit(0);
}

/* Waits for any child, at most until `deadline_ns` (0: for ever). Returns its pid, or 0 at the deadline. */
static pid_t wait_kid(uint64_t deadline_ns, int *status)
{
	for (;;) {
		pid_t pid = waitpid(-1, status, deadline_ns ? WNOHANG : 0);

		if (pid > 0)
			return pid;
		if (pid < 0 && errno != EINTR)
			bench_die(errno, "waitpid");
		if (deadline_ns && bench_now_ns() >= deadline_ns)
			return 0;
		if (deadline_ns)
			bench_sleep_us(20000);
	}
}

static void run_kids(struct run *r)
{
	uint32_t kids = r->opt.readers + KID_READER;
	struct shared *sh = r->shared;
	pid_t pid[MAX_READERS + KID_READER] = {0};
	pid_t ended;
	int status;

	for (uint32_t i = 0; i < kids; i++)
		pid[i] = start_kid(r, i);
	bench_sleep_us(100000);
	sh->s_start_ns = bench_now_ns();
	sh->s_go = 1;
	ended = wait_kid(sh->s_start_ns + r->opt.seconds * UINT64_C(1000000000), &status);
	if (!ended) {
		sh->s_stop = 1;
		ended = wait_kid(0, &status);
	}
	r->elapsed_s = bench_since(sh->s_start_ns);
	for (uint32_t i = 0; i < kids; i++)
		if (pid[i] != ended)
			kill(pid[i], SIGKILL);
	while (waitpid(-1, NULL, 0) > 0)
		;
	if (ended != pid[KID_WAL] || !WIFEXITED(status) || WEXITSTATUS(status))
		bench_die(0, "a process failed (status 0x%x); no result", (unsigned)status);
}

static struct shared *map_shared(uint32_t seconds)
{
	/* Two seconds more, for the last commit and a late stop. */
	uint64_t commits = (uint64_t)(seconds + 2) * MAX_COMMITS_PER_SECOND;
	size_t size = sizeof(struct shared) + commits * sizeof(struct commit);
	struct shared *sh;

	sh = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (sh == MAP_FAILED)
		bench_die(errno, "mmap of %zu bytes", size);
	sh->s_max_commits = commits;
	return sh;
}

/* ---- Results ---- */

static uint64_t total_reads(const struct run *r)
{
	uint64_t n = 0;

	for (uint32_t i = 0; i < r->opt.readers; i++)
		n += r->shared->s_reads[i];
	return n;
}

static void write_json(const struct run *r, const struct bench_stats *st)
{
	const struct shared *sh = r->shared;
	FILE *f = bench_json_open(r->opt.json);

	fputs("{\"program\": \"pgioperf\", \"dir\": ", f);
	bench_json_string(f, r->opt.dir);
	fprintf(f,
		", \"memory_bytes\": %" PRIu64 ", \"data_bytes\": %" PRIu64
		", \"wal_bytes\": %" PRIu64 ", \"readers\": %u, \"seconds\": %u, \"seed\": %" PRIu64
		",\n",
		r->opt.memory_bytes, r->data_bytes, r->wal_bytes, r->opt.readers, r->opt.seconds,
		r->opt.seed);
	fprintf(f, " \"caches_dropped\": %s, \"prepare_s\": %.3f, \"elapsed_s\": %.3f,\n",
		r->dropped ? "true" : "false", r->prepare_s, r->elapsed_s);
	fprintf(f, " \"reads\": %" PRIu64 ", \"reads_per_s\": %.1f,\n", total_reads(r),
		(double)total_reads(r) / r->elapsed_s);
	fprintf(f,
		" \"checkpointer_writes\": %" PRIu64 ", \"checkpointer_fsyncs\": %" PRIu64
		", \"checkpointer_fsync_max_s\": %.6f, \"wal_writes\": %" PRIu64 ",\n",
		sh->s_checkpoint_writes, sh->s_checkpoint_fsyncs, sh->s_checkpoint_fsync_max,
		sh->s_wal_writes);
	fputs(" \"commits\": {", f);
	bench_stats_json(f, st);
	fputs("},\n \"series\": [", f);
	for (uint64_t i = 0; i < sh->s_commits; i++)
		fprintf(f, "%s[%.4f, %.6f]", i ? ", " : "", sh->s_commit[i].c_start,
			sh->s_commit[i].c_duration);
	fputs("]}\n", f);
	bench_json_close(f, r->opt.json);
}

static void print_text(FILE *f, const struct run *r, const struct bench_stats *st)
{
	const struct shared *sh = r->shared;

	fprintf(f, "commits %zu in %.1f s: mean %.6f s, sd %.6f s, max %.6f s, p99 %.6f s\n",
		st->count, r->elapsed_s, st->mean, st->sd, st->max, st->p99);
	fputs("longest:", f);
	for (size_t i = 0; i < BENCH_TOP && i < st->count; i++)
		fprintf(f, " %.6f", st->top[i]);
	fprintf(f,
		" s\nreads %" PRIu64 " (%.0f/s), checkpointer writes %" PRIu64
		", its fsyncs %" PRIu64 "\n",
		total_reads(r), (double)total_reads(r) / r->elapsed_s, sh->s_checkpoint_writes,
		sh->s_checkpoint_fsyncs);
}

static void report(const struct run *r)
{
	const struct shared *sh = r->shared;
	double *values = calloc(sh->s_commits + 1, sizeof(*values));
	struct bench_stats st;

	if (!values)
		bench_die(ENOMEM, "results");
	for (uint64_t i = 0; i < sh->s_commits; i++)
		values[i] = sh->s_commit[i].c_duration;
	bench_stats_of(values, sh->s_commits, &st);
	free(values);
	if (r->opt.json)
		write_json(r, &st);
	print_text(r->opt.json && !strcmp(r->opt.json, "-") ? stderr : stdout, r, &st);
}

/* ---- Command line ---- */

static const char usage[] =
	"pgioperf --dir DIR --memory BYTES --seconds N [--readers 16] [--seed N] "
	"[--keep] [--prepare-only | --prepared] [--json FILE]";

static void parse(int argc, char **argv, struct options *o)
{
	const struct bench_option options[] = {
		{"dir", BENCH_TEXT, &o->dir},
		{"memory", BENCH_SIZE, &o->memory_bytes},
		{"seconds", BENCH_COUNT, &o->seconds},
		{"readers", BENCH_COUNT, &o->readers},
		{"seed", BENCH_SIZE, &o->seed},
		{"json", BENCH_TEXT, &o->json},
		{"keep", BENCH_FLAG, &o->keep},
		{"prepare-only", BENCH_FLAG, &o->prepare_only},
		{"prepared", BENCH_FLAG, &o->prepared},
		{NULL, BENCH_FLAG, NULL},
	};

	*o = (struct options){.readers = 16, .seed = 1};
	if (bench_options(argc, argv, options, usage) != argc)
		bench_usage(usage);
	if (!o->dir || !o->memory_bytes || (o->prepare_only && o->prepared))
		bench_usage(usage);
	if (!o->seconds && !o->prepare_only)
		bench_usage(usage);
	if (o->readers > MAX_READERS || o->seconds > 7 * 24 * 3600)
		bench_die(0, "at most %d readers, at most a week", MAX_READERS);
}

static void run(struct run *r)
{
	uint64_t start;

	r->data_bytes = 2 * r->opt.memory_bytes / IO_BYTES * IO_BYTES;
	if (r->data_bytes < IO_BYTES)
		bench_die(0, "--memory must be at least %d", IO_BYTES);
	r->wal_bytes = r->data_bytes / 48 / IO_BYTES * IO_BYTES;
	if (r->wal_bytes < 64u << 20)
		r->wal_bytes = 64u << 20;
	snprintf(r->data, sizeof(r->data), "%s/data", r->opt.dir);
	snprintf(r->wal, sizeof(r->wal), "%s/wal", r->opt.dir);
	start = bench_now_ns();
	if (!r->opt.prepared) {
		prepare_file(r->data, r->data_bytes, r->opt.seed);
		prepare_file(r->wal, r->wal_bytes, r->opt.seed);
	}
	if (r->opt.prepare_only)
		return;
	check_file(r->data, r->data_bytes);
	check_file(r->wal, r->wal_bytes);
	r->dropped = bench_drop_caches();
	r->prepare_s = bench_since(start);
	r->shared = map_shared(r->opt.seconds);
	run_kids(r);
	if (!r->opt.keep && (unlink(r->data) || unlink(r->wal)))
		bench_die(errno, "unlink in %s", r->opt.dir);
	report(r);
}

int main(int argc, char **argv)
{
	struct run *r = calloc(1, sizeof(*r));

	if (!r)
		bench_die(ENOMEM, "start");
	parse(argc, argv, &r->opt);
	run(r);
	free(r);
	return 0;
}
