/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * cut.c - every power cut of a recorded workload.
 *
 * cut [-s SEED] [-n CUTS] [-r ROUNDS] [-j I/N] [-k DIR] [WORKLOAD...]
 * A round runs a workload on a file system in memory whose free blocks are filled with a pattern, records the writes, and
 * then builds the disks that a cut could leave at each point of the record: all that was
 * written, only what a flush covered, all but one, random subsets, the last ones torn at sectors. Each is mounted (recovery), read, compared with the oracle; its final
 * state, if not seen before, is judged by e2fsck; samples are recovered by e2fsck too, cut again during recovery, and with -k mounted by the kernel on DIR.
 * At most CUTS disks a workload are tried, spread over the record, but both sides of each commit record are always among them, and what is durable at
 * each acknowledgement of a mounted run.
 *
 * cut -m MNT -l LOG -b BASE WORKLOAD
 * The same with a workload on a mount of ext4d that records into LOG and whose image was BASE before it was mounted.
 *
 * cut -L: the workloads, one a line: name, size of the image in KiB, arguments of mke2fs.
 *
 * Invariants: (1) c_stable holds the writes that are durable at the cut for certain; (2) a disk is c_stable plus a subset of the rest.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ext4/inode.h"
#include "namespace/namespace.h"
#include "tests/crash/lagdev.h"
#include "tests/crash/sim.h"
#include "tests/crash/verify.h"
#include "tests/lib/crash.h"
#include "tests/lib/testlib.h"
#include "util/assert.h"
#include "util/crc32c.h"
#include "util/log.h"
#include "util/time.h"

#define MAX_IMAGE (12u << 20)
#define SECTOR 512u
#define FOREIGN 0xa5 /* what free blocks hold: no file may show it */
/* One disk in so many is recovered in another way too. */
#define CUT_TWICE_ONE_IN 64
#define E2FSCK_ONE_IN 256
#define KERNEL_ONE_IN 250

/* What is tried beside the plain ones. */
static const enum crash_mode other_modes[] = {CRASH_DURABLE_ONLY, CRASH_DROP_ONE, CRASH_SUBSET,
					      CRASH_TORN_END};
#define NR_OTHER_MODES (sizeof(other_modes) / sizeof(other_modes[0]))

struct seen {
	uint64_t *s_hash;
	unsigned s_nr;
};

struct run {
	const struct workload *c_workload;
	struct sim c_sim;
	struct blkdev *c_log;
	bool c_mounted;	    /* the record is one of a mount */
	uint64_t c_size;    /* of the image */
	uint8_t *c_base;    /* the image at mount */
	uint8_t *c_stable;  /* see invariant 1 */
	uint8_t *c_disk;    /* the disk under test */
	uint64_t c_total;   /* entries of the record; the threads of a busy workload may add more */
	uint64_t c_covered; /* entries below are in c_stable */
	uint32_t c_op, c_mark; /* begun and acknowledged at the cut */
	uint64_t c_commits;
	struct prng c_prng;
	uint64_t c_subset_seed;
};

static struct seen seen_trees, seen_images;
static uint64_t nr_cuts, nr_fsck, nr_failed, nr_second, nr_commits_cut, nr_replays, nr_kernel;
static const char *kernel_dir; /* NULL: the kernel mounts nothing */
static FILE *reason;
static char *reason_text;
static size_t reason_size;

static bool seen_before(struct seen *s, uint64_t hash)
{
	uint64_t i = (hash * 0x9e3779b97f4a7c15u) >> 43;

	if (!s->s_hash) {
		s->s_hash = calloc(1u << 21, sizeof(*s->s_hash));
		ASSERT(s->s_hash);
	}
	hash |= 1;
	while (s->s_hash[i] && s->s_hash[i] != hash)
		i = (i + 1) & ((1u << 21) - 1);
	if (s->s_hash[i])
		return true;
	ASSERT_CMP(s->s_nr, <, 1u << 20);
	s->s_hash[i] = hash;
	s->s_nr++;
	return false;
}

static struct timespec fixed_time(void)
{
	struct timespec ts = {1700000000, 0};

	return ts;
}

static void quiet(enum log_level level, const char *line, void *arg)
{
	(void)level;
	(void)arg;
	if (reason && level <= LOG_LEVEL_WARN)
		fprintf(reason, "  log: %s\n", line);
}

/* ---- The workload ---- */

/* Free blocks hold the foreign byte: mke2fs writes its metadata onto a device that is full of it. */
static struct blkdev *make_device(const struct workload *w, uint64_t size)
{
	char *path = testlib_tempfile(), *text;
	char command[512];
	struct blkdev *bd;

	snprintf(
		command, sizeof(command),
		"head -c %" PRIu64
		" /dev/zero | tr '\\000' '\\245' >%s && mke2fs -F -q -E nodiscard,lazy_itable_init=0,lazy_journal_init=0 %s %s",
		size, path, w->w_mkfs, path);
	if (testlib_run(command, &text)) {
		fprintf(stderr, "mke2fs %s: %s\n", w->w_mkfs, text);
		exit(2);
	}
	free(text);
	bd = mem_open(size, SECTOR, NULL);
	ASSERT(!IS_ERR(bd));
	ASSERT(!testlib_load(bd, path));
	unlink(path);
	free(path);
	return bd;
}

/* What a workload needs, wherever it runs. */
static void prepare(struct run *c, uint64_t seed)
{
	struct sim *m = &c->c_sim;
	const char *name = c->c_workload->w_name, *mkfs = c->c_workload->w_mkfs;

	m->m_seed = seed;
	/* each workload its own course: the same seed must not give several of them the same states */
	prng_seed(&m->m_prng, seed ^ (uint64_t)crc32c(1, name, strlen(name)) << 32);
	m->m_oracle = oracle_new(strstr(mkfs, "-b 4096") ? 4096 : 1024);
	m->m_no_fallocate = strstr(mkfs, "^extent") != NULL;
}

static void record(struct run *c, uint64_t seed)
{
	struct sim *m = &c->c_sim;
	struct blkdev *mem = make_device(c->c_workload, c->c_size), *dev = mem;
	struct ext4_options opts;
	int err;

	memcpy(c->c_base, mem_data(mem), c->c_size);
	if (c->c_workload->w_how != ON_MEMORY)
		dev = lagdev_open(mem, seed);
	c->c_log = log_open_memory(dev);
	ASSERT(!IS_ERR(c->c_log));
	prepare(c, seed);
	ext4_options_init(&opts);
	m->m_busy = c->c_workload->w_how == BUSY;
	opts.o_manual_commit = !m->m_busy;
	opts.o_commit_ms = 10;
	opts.o_max_batch_us = 1;
	opts.o_cache_bytes = 16 << 20;
	opts.o_atime = ATIME_NOATIME;
	if (c->c_workload->w_options)
		c->c_workload->w_options(&opts);
	err = sim_memory_begin(m, c->c_log, &opts);
	if (err) {
		fprintf(stderr, "%s: mount: %s\n", c->c_workload->w_name, strerror(-err));
		exit(1);
	}
	c->c_workload->w_run(m);
	c->c_total = log_entry_count(c->c_log);
}

static void record_mounted(struct run *c, uint64_t seed, const char *mnt, const char *log_path)
{
	struct sim *m = &c->c_sim;
	int err;

	c->c_mounted = true;
	prepare(c, seed);
	err = sim_mount_begin(m, mnt);
	if (err) {
		fprintf(stderr, "%s: %s\n", mnt, strerror(-err));
		exit(1);
	}
	c->c_workload->w_run(m);
	c->c_log = sim_mount_log(m, log_path, c->c_size);
	if (!c->c_log)
		exit(1);
	c->c_total = log_entry_count(c->c_log);
}

/* Unmount, after the cuts were made: the record must not be disturbed by it. */
static void end_workload(struct run *c)
{
	if (c->c_mounted) {
		sim_mount_end(&c->c_sim);
		blk_close(c->c_log);
	} else if (sim_memory_end(&c->c_sim)) {
		fprintf(stderr, "%s: unmount failed\n", c->c_workload->w_name);
		nr_failed++;
	}
	oracle_free(c->c_sim.m_oracle);
}

/* ---- Building a disk ---- */

/* The commit record: a block of the log whose header says so (big-endian magic, type 2). */
static bool is_commit_record(const struct log_entry *e)
{
	static const uint8_t head[8] = {0xc0, 0x3b, 0x39, 0x98, 0, 0, 0, 2};

	return crash_is_write(e) && e->le_data && !memcmp((const uint8_t *)e->le_data, head, 8);
}

/* A device on memory of ours. */
static struct blkdev *device_on(uint8_t *memory, uint64_t size)
{
	struct blkdev *bd = mem_open(size, SECTOR, memory);

	ASSERT(!IS_ERR(bd));
	return bd;
}

/* The disk after a cut between entries pos - 1 and pos. */
static void build_disk(struct run *c, uint64_t pos, enum crash_mode v)
{
	struct blkdev *disk = device_on(c->c_disk, c->c_size);

	memcpy(c->c_disk, c->c_stable, c->c_size);
	crash_apply_from(c->c_log, c->c_covered, pos, v, &c->c_prng, disk);
	blk_close(disk);
}

/* Everything before a flush is durable: move it into c_stable. */
static void pass_flush(struct run *c, const struct log_entry *flush)
{
	struct blkdev *stable;

	if (flush->le_covers <= c->c_covered)
		return;
	stable = device_on(c->c_stable, c->c_size);
	crash_replay(c->c_log, c->c_covered, flush->le_covers, stable);
	blk_close(stable);
	c->c_covered = flush->le_covers;
}

/* ---- Judging a disk ---- */

/* The record as text, beside the disk that EXT4D_KEEP_DISK keeps: FILE.log. */
static void list_record(struct run *c, const char *disk_path)
{
	char path[4096];
	FILE *f;

	snprintf(path, sizeof(path), "%s.log", disk_path);
	f = fopen(path, "w");
	if (!f)
		return;
	for (uint64_t i = 0; i < c->c_total; i++) {
		struct log_entry e = log_entry_get(c->c_log, i);

		fprintf(f, "%" PRIu64 ": after %" PRIu64 " ", i, e.le_submitted);
		if (e.le_flags & LOG_MARK_FLAG)
			fprintf(f, "%.*s\n", 30, (const char *)e.le_data);
		else if (crash_is_write(&e))
			fprintf(f, "write %" PRIu64 "+%" PRIu64 "%s%s\n", e.le_sector,
				e.le_nr_sectors, e.le_flags & LOG_FUA_FLAG ? " fua" : "",
				is_commit_record(&e) ? " commit" : "");
		else
			fprintf(f, "flush of what is before %" PRIu64 "\n", e.le_covers);
	}
	fclose(f);
}

static void failed(struct run *c, uint64_t pos, enum crash_mode v, const char *what)
{
	fflush(reason);
	nr_failed++;
	fprintf(stderr,
		"FAILED %s, seed %" PRIu64 ", cut at entry %" PRIu64
		", %s, after operation %u, mark %u: %s\n%s\n",
		c->c_workload->w_name, c->c_sim.m_seed, pos, crash_mode_name(v), c->c_op, c->c_mark,
		what, reason_text ? reason_text : "");
	if (getenv("EXT4D_KEEP_DISK")) {
		FILE *f = fopen(getenv("EXT4D_KEEP_DISK"), "wb");

		memcpy(c->c_disk, c->c_stable, c->c_size);
		if (f) {
			prng_seed(&c->c_prng, c->c_subset_seed);
			build_disk(c, pos, v);
			fwrite(c->c_disk, 1, c->c_size, f);
			fclose(f);
		}
		list_record(c, getenv("EXT4D_KEEP_DISK"));
		exit(1);
	}
}

/* A second cut, during recovery: whatever part of recovery's writes arrived, the next recovery gives the same tree. */
static bool second_cut(struct run *c, const uint8_t *disk, uint64_t want_hash)
{
	static uint8_t again[MAX_IMAGE], target[MAX_IMAGE];
	struct blkdev *log, *to = device_on(target, c->c_size);
	struct ext4_options opts;
	struct super_block *sb;
	struct tree t;
	size_t n, stop;
	bool same;

	memcpy(again, disk, c->c_size);
	memcpy(target, disk, c->c_size);
	log = log_open_memory(device_on(again, c->c_size));
	ext4_options_init(&opts);
	opts.o_manual_commit = true;
	opts.o_cache_bytes = 8 << 20;
	if (ext4_mount(log, &opts, &sb))
		return false;
	n = log_entry_count(log);
	stop = n ? prng_below(&c->c_prng, n) : 0;
	crash_apply(log, stop, CRASH_SUBSET, &c->c_prng, to);
	blk_close(to);
	if (ext4_umount(sb))
		return false;
	nr_second++;
	same = !verify_mount(target, c->c_size, &t, reason) && t.t_hash == want_hash;
	tree_free(&t);
	if (!same)
		fprintf(reason, "another tree after a second cut at write %zu of %zu of recovery\n",
			stop, n);
	return same;
}

/*
 * The replay of e2fsprogs leads to the same tree: that of debugfs, and that of e2fsck, which goes on to orphans, and frees the attribute block of
 * a file whose truncation it completes.
 */
static bool replay_by_e2fsprogs(const struct run *c, const uint8_t *disk, const struct tree *want)
{
	static const char *const commands[] = {"debugfs -w -R jr", "e2fsck -fy -E journal_only"};
	static uint8_t copy[MAX_IMAGE];

	nr_replays++;
	for (unsigned i = 0; i < 2; i++) {
		struct tree t;
		bool same;

		memcpy(copy, disk, c->c_size);
		if (verify_command(copy, c->c_size, commands[i], 1, true, reason) > 1)
			return false;
		same = !verify_mount(copy, c->c_size, &t, reason) &&
		       (i == 0 ? t.t_hash == want->t_hash
			       : t.t_hash_no_xattr == want->t_hash_no_xattr);
		tree_free(&t);
		if (!same) {
			fprintf(reason, "another tree after %s\n", commands[i]);
			return false;
		}
	}
	return true;
}

/* The kernel mounts it, and finds the same tree. */
static bool mount_by_kernel(const struct run *c, const uint8_t *disk, uint64_t want_hash)
{
	static uint8_t copy[MAX_IMAGE];
	struct tree t;
	bool same;

	memcpy(copy, disk, c->c_size);
	nr_kernel++;
	same = !verify_kernel(copy, c->c_size, kernel_dir, &t, reason) && t.t_hash == want_hash;
	tree_free(&t);
	if (!same)
		fprintf(reason, "another tree after a mount by the kernel\n");
	return same && !verify_command(copy, c->c_size, "e2fsck -fn", 0, false, reason);
}

/* The other ways to recover a disk that are tried. */
struct others {
	bool o_twice, o_by_e2fsck, o_by_kernel;
};

/* What is wrong with the file system that was found, and with other ways to recover it; NULL: nothing. */
static const char *judge_recovered(struct run *c, const struct tree *t, const uint8_t *before,
				   const struct others *o)
{
	bool fsck = !seen_before(&seen_trees, t->t_hash);

	/* the same tree may have been recovered in another way */
	if (!fsck && prng_chance(&c->c_prng, 1, 16))
		fsck = !seen_before(&seen_images, crc32c(1, c->c_disk, c->c_size));
	nr_fsck += fsck;
	if (fsck && verify_command(c->c_disk, c->c_size, "e2fsck -fn", 0, false, reason))
		return "e2fsck is not content";
	if (o->o_twice && !second_cut(c, before, t->t_hash))
		return "recovery that is cut";
	if (o->o_by_e2fsck && !replay_by_e2fsprogs(c, before, t))
		return "recovery by e2fsck";
	if (o->o_by_kernel && !mount_by_kernel(c, before, t->t_hash))
		return "recovery by the kernel";
	return NULL;
}

static bool judge(struct run *c, uint64_t pos, enum crash_mode v)
{
	static uint8_t before[MAX_IMAGE];
	struct others o = {
		.o_twice = prng_chance(&c->c_prng, 1, CUT_TWICE_ONE_IN),
		.o_by_e2fsck = prng_chance(&c->c_prng, 1, E2FSCK_ONE_IN),
		.o_by_kernel = prng_chance(&c->c_prng, 1, KERNEL_ONE_IN) && kernel_dir != NULL,
	};
	const char *what;
	struct tree t;

	rewind(reason);
	if (o.o_twice || o.o_by_e2fsck || o.o_by_kernel)
		memcpy(before, c->c_disk, c->c_size);
	nr_cuts++;
	if (verify_mount(c->c_disk, c->c_size, &t, reason))
		what = "not mountable or not readable";
	else if (!oracle_allows(c->c_sim.m_oracle, c->c_op, c->c_mark, t.t_found, t.t_nr, reason))
		what = "not an allowed state";
	else
		what = judge_recovered(c, &t, before, &o);
	tree_free(&t);
	fputc(0, reason);
	if (what)
		failed(c, pos, v, what);
	return !what;
}

static void try_cut(struct run *c, uint64_t pos, enum crash_mode v)
{
	c->c_subset_seed = prng_next(&c->c_prng);
	prng_seed(&c->c_prng, c->c_subset_seed);
	build_disk(c, pos, v);
	judge(c, pos, v);
}

static void note_mark(struct run *c, const struct log_entry *e)
{
	unsigned number;

	if (sscanf(e->le_data, "op %u", &number) == 1)
		c->c_op = number;
	else if (sscanf(e->le_data, "ack %u", &number) == 1)
		c->c_mark = number;
}

/* The cuts at one point of the record. */
static void cut_at(struct run *c, uint64_t pos, const struct log_entry *e)
{
	bool is_ack = (e->le_flags & LOG_MARK_FLAG) != 0;

	if (is_commit_record(e)) {
		nr_commits_cut++;
		c->c_commits++;
		try_cut(c, pos - 1, CRASH_KEEP_COMPLETED);
	}
	/* What is durable by itself must not rest on anything that is not; what is acknowledged is durable. */
	if (is_ack || (e->le_flags & LOG_FUA_FLAG))
		try_cut(c, pos, CRASH_DURABLE_ONLY);
	if (!is_ack)
		try_cut(c, pos, CRASH_KEEP_COMPLETED);
	try_cut(c, pos, other_modes[prng_below(&c->c_prng, NR_OTHER_MODES)]);
}

/* Writes and marks: where cuts are possible. */
static uint64_t count_places(struct run *c)
{
	uint64_t n = 0;

	for (uint64_t i = 0; i < c->c_total; i++) {
		struct log_entry e = log_entry_get(c->c_log, i);

		n += crash_is_write(&e) || (e.le_flags & LOG_MARK_FLAG);
	}
	return n;
}

static void cut_everywhere(struct run *c, uint64_t max_cuts)
{
	uint64_t total = c->c_total, failed_before = nr_failed, places = count_places(c);

	memcpy(c->c_stable, c->c_base, c->c_size);
	c->c_covered = 0;
	c->c_op = c->c_mark = 0;
	for (uint64_t pos = 1; pos <= total && nr_failed < failed_before + 3; pos++) {
		struct log_entry e = log_entry_get(c->c_log, pos - 1);
		bool always = is_commit_record(&e) || (e.le_flags & LOG_FUA_FLAG);

		if (e.le_flags & LOG_MARK_FLAG) {
			note_mark(c, &e);
			if (strncmp(e.le_data, "ack", 3))
				continue;
			always = c->c_mounted;
		} else if (!crash_is_write(&e)) {
			pass_flush(c, &e);
			continue;
		}
		/* spread the tries over what is left */
		if (always || max_cuts >= places * CRASH_MODES ||
		    prng_chance(&c->c_prng, (uint32_t)(max_cuts + 1), (uint32_t)(places * 2 + 1)))
			cut_at(c, pos, &e);
	}
}

/* Where the record of a mounted run comes from. */
struct source {
	const char *s_mnt, *s_log, *s_base;
};

static uint64_t image_size(const struct workload *w)
{
	/* a log of 4 MiB needs room: no log may be over half of a device */
	return strstr(w->w_mkfs, "-b 4096") ? MAX_IMAGE : 8u << 20;
}

static void read_base(struct run *c, const char *path)
{
	FILE *f = fopen(path, "rb");

	if (!f || fread(c->c_base, 1, c->c_size, f) != c->c_size) {
		fprintf(stderr, "%s: cannot be read\n", path);
		exit(1);
	}
	fclose(f);
}

static void run_workload(const struct workload *w, uint64_t seed, uint64_t max_cuts,
			 const struct source *from)
{
	static uint8_t base[MAX_IMAGE], stable[MAX_IMAGE], disk[MAX_IMAGE];
	struct run *c = calloc(1, sizeof(*c));
	uint64_t cuts = nr_cuts;
	unsigned trees = seen_trees.s_nr;

	ASSERT(c);
	c->c_workload = w;
	c->c_size = image_size(w);
	c->c_base = base;
	c->c_stable = stable;
	c->c_disk = disk;
	prng_seed(&c->c_prng, seed ^ 0x5bd1e995);
	alarm(600);
	if (from->s_mnt) {
		read_base(c, from->s_base);
		record_mounted(c, seed, from->s_mnt, from->s_log);
	} else {
		record(c, seed);
	}
	cut_everywhere(c, max_cuts);
	printf("%-18s seed %-6" PRIu64 " %6" PRIu64 " entries %6" PRIu64
	       " disks %5u new states %4" PRIu64 " commits %4" PRIu32 " acknowledged\n",
	       w->w_name, seed, c->c_total, nr_cuts - cuts, seen_trees.s_nr - trees, c->c_commits,
	       c->c_mark);
	if (c->c_commits == 0 || c->c_mark == 0) {
		fprintf(stderr, "FAILED %s: the record has no commit or no acknowledgement\n",
			w->w_name);
		nr_failed++;
	}
	fflush(stdout);
	end_workload(c);
	free(c);
}

static void list_workloads(void)
{
	for (unsigned i = 0; i < nr_workloads; i++)
		printf("%s %" PRIu64 " %s\n", workloads[i].w_name, image_size(&workloads[i]) >> 10,
		       workloads[i].w_mkfs);
}

struct settings {
	uint64_t s_seed, s_cuts, s_rounds;
	unsigned s_part, s_parts;
	struct source s_source;
};

static bool parse(int argc, char **argv, struct settings *s)
{
	int opt;

	while ((opt = getopt(argc, argv, "s:n:r:j:k:m:l:b:L")) != -1) {
		if (opt == 's')
			s->s_seed = strtoull(optarg, NULL, 0);
		else if (opt == 'n')
			s->s_cuts = strtoull(optarg, NULL, 0);
		else if (opt == 'r')
			s->s_rounds = strtoull(optarg, NULL, 0);
		else if (opt == 'k')
			kernel_dir = optarg;
		else if (opt == 'm')
			s->s_source.s_mnt = optarg;
		else if (opt == 'l')
			s->s_source.s_log = optarg;
		else if (opt == 'b')
			s->s_source.s_base = optarg;
		else if (opt == 'L')
			s->s_rounds = 0;
		else if (opt != 'j' || sscanf(optarg, "%u/%u", &s->s_part, &s->s_parts) != 2)
			return false;
	}
	return !s->s_source.s_mnt || (s->s_source.s_log && s->s_source.s_base && optind < argc);
}

static void run_round(const struct settings *s, uint64_t seed, char **names, int nr_names)
{
	for (unsigned i = 0; i < nr_workloads; i++) {
		bool named = nr_names == 0 && i % s->s_parts == s->s_part;

		for (int k = 0; k < nr_names; k++)
			named |= !strcmp(names[k], workloads[i].w_name);
		if (named)
			run_workload(&workloads[i], seed, s->s_cuts, &s->s_source);
	}
}

int main(int argc, char **argv)
{
	struct settings s = {.s_seed = 1, .s_cuts = 200, .s_rounds = 1, .s_parts = 1};

	if (!parse(argc, argv, &s))
		return 2;
	if (s.s_rounds == 0) {
		list_workloads();
		return 0;
	}
	if (!s.s_source.s_mnt)
		time_set_real_hook(fixed_time);
	reason = open_memstream(&reason_text, &reason_size);
	ASSERT(reason);
	log_set_sink(quiet, NULL);
	for (uint64_t r = 0; r < s.s_rounds; r++)
		run_round(&s, s.s_seed + r, argv + optind, argc - optind);
	printf("cut: %" PRIu64 " disks, %u different states, %" PRIu64
	       " commit records cut on both sides, %" PRIu64 " judged by e2fsck, %" PRIu64
	       " cut twice, %" PRIu64 " replayed by e2fsck, %" PRIu64
	       " mounted by the kernel, %" PRIu64 " failed\n",
	       nr_cuts, seen_trees.s_nr, nr_commits_cut, nr_fsck, nr_second, nr_replays, nr_kernel,
	       nr_failed);
	return nr_failed ? 1 : 0;
}
