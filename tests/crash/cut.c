/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * cut.c - every power cut of a recorded workload.
 *
 * cut [-s SEED] [-n CUTS] [-r ROUNDS] [-j I/N] [WORKLOAD...]
 * A round runs a workload on a file system in memory whose free blocks are filled with a pattern, records the writes, and
 * then builds the disks that a cut could leave at each point of the record: all that was
 * written, only what a flush covered, all but one, random subsets, the last ones torn at sectors. Each is mounted (recovery), read, compared with the oracle; its final
 * state, if not seen before, is judged by e2fsck; samples are recovered by e2fsck too, and cut again during recovery.
 * At most CUTS disks a workload are tried, spread over the record, but both sides of each commit record are always among them.
 *
 * Invariants: (1) c_stable holds the writes that are durable at c_pos for certain; (2) a disk is c_stable plus a subset of the rest.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "block/filter_log.h"
#include "ext4/inode.h"
#include "tests/crash/lagdev.h"
#include "tests/crash/sim.h"
#include "tests/crash/verify.h"
#include "tests/lib/testlib.h"
#include "util/assert.h"
#include "util/crc32c.h"
#include "util/log.h"
#include "util/time.h"

#define MAX_IMAGE (12u << 20)
#define SECTOR 512u
#define FOREIGN 0xa5 /* what free blocks hold: no file may show it */
#define MAX_VOLATILE 4096

struct seen {
	uint64_t *s_hash;
	unsigned s_nr;
};

struct run {
	const struct workload *c_workload;
	struct sim c_sim;
	uint64_t c_size;    /* of the image */
	uint8_t *c_base;    /* the image at mount */
	uint8_t *c_stable;  /* see invariant 1 */
	uint8_t *c_disk;    /* the disk under test */
	uint64_t c_total;   /* entries of the record; the threads of a busy workload may add more */
	uint64_t c_covered; /* entries below are in c_stable */
	uint32_t c_op, c_mark; /* begun and acknowledged at the cut */
	struct prng c_prng;
	uint64_t c_subset_seed;
};

static struct seen seen_trees, seen_images;
static uint64_t nr_cuts, nr_fsck, nr_failed, nr_second, nr_commits_cut, nr_replays;
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

static void record(struct run *c, uint64_t seed)
{
	struct sim *m = &c->c_sim;
	struct blkdev *mem = make_device(c->c_workload, c->c_size), *dev = mem;
	struct ext4_options opts;
	int err;

	memcpy(c->c_base, mem_data(mem), c->c_size);
	if (c->c_workload->w_how != ON_MEMORY)
		dev = lagdev_open(mem, seed);
	m->m_dev = log_open_memory(dev);
	ASSERT(!IS_ERR(m->m_dev));
	m->m_seed = seed;
	/* each workload its own course: the same seed must not give several of them the same states */
	prng_seed(&m->m_prng,
		  seed ^ (uint64_t)crc32c(1, c->c_workload->w_name, strlen(c->c_workload->w_name))
				  << 32);
	m->m_oracle = oracle_new(strstr(c->c_workload->w_mkfs, "-b 4096") ? 4096 : 1024);
	ext4_options_init(&opts);
	m->m_busy = c->c_workload->w_how == BUSY;
	opts.o_manual_commit = !m->m_busy;
	opts.o_commit_ms = 10;
	opts.o_max_batch_us = 1;
	opts.o_cache_bytes = 16 << 20;
	opts.o_atime = ATIME_NOATIME;
	if (c->c_workload->w_options)
		c->c_workload->w_options(&opts);
	m->m_no_fallocate = strstr(c->c_workload->w_mkfs, "^extent") != NULL;
	err = ext4_mount(m->m_dev, &opts, &m->m_sb);
	if (err) {
		fprintf(stderr, "%s: mount: %s\n", c->c_workload->w_name, strerror(-err));
		exit(1);
	}
	m->m_inodes[ORACLE_ROOT] = ext4_iget(m->m_sb, EXT4_ROOT_INO, 0);
	ASSERT(!IS_ERR(m->m_inodes[ORACLE_ROOT]));
	c->c_workload->w_run(m);
	c->c_total = log_entry_count(m->m_dev);
}

/* Unmount, after the cuts were made: the record must not be disturbed by it. */
static void end_workload(struct run *c)
{
	struct sim *m = &c->c_sim;

	for (unsigned i = 0; i < SIM_MAX_OBJECTS; i++) {
		if (m->m_inodes[i])
			iput(m->m_inodes[i]);
		m->m_inodes[i] = NULL;
	}
	if (ext4_umount(m->m_sb)) {
		fprintf(stderr, "%s: unmount failed\n", c->c_workload->w_name);
		nr_failed++;
	}
	oracle_free(m->m_oracle);
}

/* ---- Building a disk ---- */

static void apply(uint8_t *disk, const struct log_entry *e, uint64_t sectors)
{
	uint64_t pos = e->le_sector * SECTOR, len = sectors * SECTOR;

	ASSERT_CMP(pos + len, <=, (uint64_t)MAX_IMAGE);
	if (e->le_data)
		memcpy(disk + pos, e->le_data, len);
	else if (!(e->le_flags & LOG_DISCARD_FLAG))
		memset(disk + pos, 0, len);
	/* a discard leaves what it likes: here the old content stays */
}

static bool is_write(const struct log_entry *e)
{
	return e->le_nr_sectors && !(e->le_flags & LOG_MARK_FLAG);
}

/* The commit record: a block of the log whose header says so (big-endian magic, type 2). */
static bool is_commit_record(const struct log_entry *e)
{
	static const uint8_t head[8] = {0xc0, 0x3b, 0x39, 0x98, 0, 0, 0, 2};

	return is_write(e) && e->le_data && !memcmp((const uint8_t *)e->le_data, head, 8);
}

enum variant { ALL, NONE, DROP_ONE, SUBSET, TORN, VARIANTS };

/* Is volatile entry i of n on the disk, and how much of it? */
static uint64_t chosen(struct run *c, enum variant v, unsigned i, unsigned n, unsigned dropped,
		       const struct log_entry *e)
{
	switch (v) {
	case ALL:
		return e->le_nr_sectors;
	case NONE:
		return 0;
	case DROP_ONE:
		return i == dropped ? 0 : e->le_nr_sectors;
	case SUBSET:
		return prng_chance(&c->c_prng, 1, 2) ? e->le_nr_sectors : 0;
	default:
		if (i + 3 >= n)
			return prng_below(&c->c_prng, e->le_nr_sectors + 1);
		return prng_chance(&c->c_prng, 7, 8) ? e->le_nr_sectors : 0;
	}
}

/* The disk after a cut between entries pos - 1 and pos. */
static void build_disk(struct run *c, uint64_t pos, enum variant v)
{
	static uint64_t loose[MAX_VOLATILE];
	unsigned n = 0, dropped;
	struct log_entry e;
	uint64_t total = c->c_total;

	memcpy(c->c_disk, c->c_stable, c->c_size);
	for (uint64_t i = c->c_covered; i < pos; i++) {
		e = log_entry_get(c->c_sim.m_dev, i);
		if (!is_write(&e))
			continue;
		ASSERT_CMP(n, <, (unsigned)MAX_VOLATILE);
		loose[n++] = i;
	}
	/* In flight at the cut: submitted before it, complete only later. */
	for (uint64_t i = pos; i < total && i < pos + 64 && v >= SUBSET; i++) {
		e = log_entry_get(c->c_sim.m_dev, i);
		if (is_write(&e) && e.le_submitted < pos && n < MAX_VOLATILE)
			loose[n++] = i;
	}
	dropped = n ? (unsigned)prng_below(&c->c_prng, n) : 0;
	for (unsigned k = 0; k < n; k++) {
		e = log_entry_get(c->c_sim.m_dev, loose[k]);
		if ((e.le_flags & LOG_FUA_FLAG) && loose[k] < pos)
			apply(c->c_disk, &e, e.le_nr_sectors);
		else
			apply(c->c_disk, &e, chosen(c, v, k, n, dropped, &e));
	}
}

/* Everything before a flush is durable: move it into c_stable. */
static void pass_flush(struct run *c, const struct log_entry *flush)
{
	for (uint64_t i = c->c_covered; i < flush->le_covers; i++) {
		struct log_entry e = log_entry_get(c->c_sim.m_dev, i);

		if (is_write(&e))
			apply(c->c_stable, &e, e.le_nr_sectors);
	}
	if (flush->le_covers > c->c_covered)
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
		struct log_entry e = log_entry_get(c->c_sim.m_dev, i);

		fprintf(f, "%" PRIu64 ": after %" PRIu64 " ", i, e.le_submitted);
		if (e.le_flags & LOG_MARK_FLAG)
			fprintf(f, "%.*s\n", 30, (const char *)e.le_data);
		else if (is_write(&e))
			fprintf(f, "write %" PRIu64 "+%" PRIu64 "%s%s\n", e.le_sector,
				e.le_nr_sectors, e.le_flags & LOG_FUA_FLAG ? " fua" : "",
				is_commit_record(&e) ? " commit" : "");
		else
			fprintf(f, "flush of what is before %" PRIu64 "\n", e.le_covers);
	}
	fclose(f);
}

static void failed(struct run *c, uint64_t pos, enum variant v, const char *what)
{
	fflush(reason);
	nr_failed++;
	fprintf(stderr,
		"FAILED %s, seed %" PRIu64 ", cut at entry %" PRIu64
		", variant %d, after operation %u, mark %u: %s\n%s\n",
		c->c_workload->w_name, c->c_sim.m_seed, pos, (int)v, c->c_op, c->c_mark, what,
		reason_text ? reason_text : "");
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

/* The first `stop` entries of recovery's record: those that a flush covers, those durable by themselves, and any of the others. */
static void apply_recovery(struct run *c, struct blkdev *log, size_t stop, uint8_t *target)
{
	uint64_t covered = 0;

	for (size_t i = 0; i < stop; i++) {
		struct log_entry e = log_entry_get(log, i);

		if (!(e.le_flags & LOG_MARK_FLAG) && !e.le_nr_sectors && e.le_covers > covered)
			covered = e.le_covers;
	}
	for (size_t i = 0; i < stop; i++) {
		struct log_entry e = log_entry_get(log, i);

		if (is_write(&e) &&
		    (i < covered || (e.le_flags & LOG_FUA_FLAG) || prng_chance(&c->c_prng, 1, 2)))
			apply(target, &e, e.le_nr_sectors);
	}
}

/* A second cut, during recovery: whatever part of recovery's writes arrived, the next recovery gives the same tree. */
static bool second_cut(struct run *c, const uint8_t *disk, uint64_t want_hash)
{
	static uint8_t again[MAX_IMAGE], target[MAX_IMAGE];
	struct blkdev *mem, *log;
	struct ext4_options opts;
	struct super_block *sb;
	struct tree t;
	size_t n, stop;
	bool same;

	memcpy(again, disk, c->c_size);
	memcpy(target, disk, c->c_size);
	mem = mem_open(c->c_size, SECTOR, again);
	log = log_open_memory(mem);
	ext4_options_init(&opts);
	opts.o_manual_commit = true;
	opts.o_cache_bytes = 8 << 20;
	if (ext4_mount(log, &opts, &sb))
		return false;
	n = log_entry_count(log);
	stop = n ? prng_below(&c->c_prng, n) : 0;
	apply_recovery(c, log, stop, target);
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

/* e2fsck's replay leads to the same tree. */
static bool replay_by_e2fsck(const struct run *c, const uint8_t *disk, uint64_t want_hash)
{
	static uint8_t copy[MAX_IMAGE];
	struct tree t;
	bool same;

	memcpy(copy, disk, c->c_size);
	nr_replays++;
	if (verify_fsck(copy, c->c_size, "-fy -E journal_only", 1, true, reason) > 1)
		return false;
	same = !verify_mount(copy, c->c_size, &t, reason) && t.t_hash == want_hash;
	tree_free(&t);
	if (!same)
		fprintf(reason, "another tree after the replay of e2fsck\n");
	return same;
}

/* What is wrong with the file system that was found, and with other ways to recover it; NULL: nothing. */
static const char *judge_recovered(struct run *c, const struct tree *t, const uint8_t *before,
				   bool twice, bool by_e2fsck)
{
	bool fsck = !seen_before(&seen_trees, t->t_hash);

	/* the same tree may have been recovered in another way */
	if (!fsck && prng_chance(&c->c_prng, 1, 16))
		fsck = !seen_before(&seen_images, crc32c(1, c->c_disk, c->c_size));
	nr_fsck += fsck;
	if (fsck && verify_fsck(c->c_disk, c->c_size, "-fn", 0, false, reason))
		return "e2fsck is not content";
	if (twice && !second_cut(c, before, t->t_hash))
		return "recovery that is cut";
	if (by_e2fsck && !replay_by_e2fsck(c, before, t->t_hash))
		return "recovery by e2fsck";
	return NULL;
}

static bool judge(struct run *c, uint64_t pos, enum variant v)
{
	static uint8_t before[MAX_IMAGE];
	bool twice = prng_chance(&c->c_prng, 1, 64);
	bool by_e2fsck = prng_chance(&c->c_prng, 1, 256);
	const char *what;
	struct tree t;

	rewind(reason);
	if (twice || by_e2fsck)
		memcpy(before, c->c_disk, c->c_size);
	nr_cuts++;
	if (verify_mount(c->c_disk, c->c_size, &t, reason))
		what = "not mountable or not readable";
	else if (!oracle_allows(c->c_sim.m_oracle, c->c_op, c->c_mark, t.t_found, t.t_nr, reason))
		what = "not an allowed state";
	else
		what = judge_recovered(c, &t, before, twice, by_e2fsck);
	tree_free(&t);
	fputc(0, reason);
	if (what)
		failed(c, pos, v, what);
	return !what;
}

static void try_cut(struct run *c, uint64_t pos, enum variant v)
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

static void cut_everywhere(struct run *c, uint64_t max_cuts)
{
	uint64_t total = c->c_total, failed_before = nr_failed;
	uint64_t writes = 0;

	for (uint64_t i = 0; i < total; i++) {
		struct log_entry e = log_entry_get(c->c_sim.m_dev, i);

		writes += is_write(&e) || (e.le_flags & LOG_MARK_FLAG);
	}
	memcpy(c->c_stable, c->c_base, c->c_size);
	c->c_covered = 0;
	c->c_op = c->c_mark = 0;
	for (uint64_t pos = 1; pos <= total && nr_failed < failed_before + 3; pos++) {
		struct log_entry e = log_entry_get(c->c_sim.m_dev, pos - 1);
		bool commit = is_commit_record(&e);
		bool durable = is_write(&e) && (e.le_flags & LOG_FUA_FLAG);

		if (e.le_flags & LOG_MARK_FLAG) {
			note_mark(c, &e);
			if (strncmp(e.le_data, "ack", 3))
				continue;
		} else if (!is_write(&e)) {
			pass_flush(c, &e);
			continue;
		}
		/* spread the tries over what is left */
		if (!commit && !durable &&
		    !prng_chance(&c->c_prng, (uint32_t)(max_cuts + 1),
				 (uint32_t)(writes * 2 + 1)) &&
		    max_cuts < writes * VARIANTS)
			continue;
		if (commit) {
			nr_commits_cut++;
			try_cut(c, pos - 1, ALL);
		}
		/* What is durable by itself must not rest on anything that is not. */
		if (durable)
			try_cut(c, pos, NONE);
		try_cut(c, pos, ALL);
		try_cut(c, pos, (enum variant)(1 + prng_below(&c->c_prng, VARIANTS - 1)));
	}
}

static void run_workload(const struct workload *w, uint64_t seed, uint64_t max_cuts)
{
	static uint8_t base[MAX_IMAGE], stable[MAX_IMAGE], disk[MAX_IMAGE];
	struct run *c = calloc(1, sizeof(*c));
	uint64_t cuts = nr_cuts;
	unsigned trees = seen_trees.s_nr;

	ASSERT(c);
	c->c_workload = w;
	/* a log of 4 MiB needs room: no log may be over half of a device */
	c->c_size = strstr(w->w_mkfs, "-b 4096") ? MAX_IMAGE : 8u << 20;
	c->c_base = base;
	c->c_stable = stable;
	c->c_disk = disk;
	prng_seed(&c->c_prng, seed ^ 0x5bd1e995);
	alarm(600);
	record(c, seed);
	cut_everywhere(c, max_cuts);
	printf("%-18s seed %-6" PRIu64 " %6" PRIu64 " entries %6" PRIu64 " disks %5u new states\n",
	       w->w_name, seed, c->c_total, nr_cuts - cuts, seen_trees.s_nr - trees);
	fflush(stdout);
	end_workload(c);
	free(c);
}

int main(int argc, char **argv)
{
	uint64_t seed = 1, cuts = 200, rounds = 1;
	unsigned part = 0, parts = 1, i;
	int opt;

	while ((opt = getopt(argc, argv, "s:n:r:j:")) != -1) {
		if (opt == 's')
			seed = strtoull(optarg, NULL, 0);
		else if (opt == 'n')
			cuts = strtoull(optarg, NULL, 0);
		else if (opt == 'r')
			rounds = strtoull(optarg, NULL, 0);
		else if (opt != 'j' || sscanf(optarg, "%u/%u", &part, &parts) != 2)
			return 2;
	}
	time_set_real_hook(fixed_time);
	reason = open_memstream(&reason_text, &reason_size);
	ASSERT(reason);
	log_set_sink(quiet, NULL);
	for (uint64_t r = 0; r < rounds; r++) {
		for (i = 0; i < nr_workloads; i++) {
			bool named = optind == argc && i % parts == part;

			for (int k = optind; k < argc; k++)
				named |= !strcmp(argv[k], workloads[i].w_name);
			if (named)
				run_workload(&workloads[i], seed + r, cuts);
		}
	}
	printf("cut: %" PRIu64 " disks, %u different states, %" PRIu64
	       " commit records cut on both sides, %" PRIu64 " judged by e2fsck, %" PRIu64
	       " cut twice, %" PRIu64 " replayed by e2fsck, %" PRIu64 " failed\n",
	       nr_cuts, seen_trees.s_nr, nr_commits_cut, nr_fsck, nr_second, nr_replays, nr_failed);
	return nr_failed ? 1 : 0;
}
