/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * workloads.c - what is going on when the power fails: one function for each kind of use.
 */
#include <linux/falloc.h>
#include <stdio.h>

#include "namespace/namespace.h"
#include "tests/crash/sim.h"

static uint64_t below(struct sim *m, uint64_t n)
{
	return prng_below(&m->m_prng, n);
}

static bool one_in(struct sim *m, unsigned n)
{
	return below(m, n) == 0;
}

static void name_of(char *buf, const char *prefix, unsigned i)
{
	snprintf(buf, 48, "%s%u", prefix, i);
}

static void make_files(struct sim *m, const char *prefix, uint32_t *ids, unsigned n)
{
	char name[48];

	for (unsigned i = 0; i < n; i++) {
		name_of(name, prefix, i);
		ids[i] = sim_create(m, ORACLE_ROOT, name, OK_FILE);
	}
}

/* The name goes, and the file with it. */
static void remove_file(struct sim *m, uint32_t dir, const char *name, uint32_t *id)
{
	sim_unlink(m, dir, name);
	sim_close(m, *id);
	*id = 0;
}

/* What may come after any change of a file: an fsync of either kind, and time. */
static void maybe_sync(struct sim *m, uint32_t id, unsigned fsync_one_in, unsigned tick_one_in)
{
	if (one_in(m, fsync_one_in))
		sim_fsync(m, id, one_in(m, 2));
	if (one_in(m, tick_one_in))
		sim_tick(m);
}

/* Files are made and grow by odd pieces, with fsync now and then. */
static void run_append(struct sim *m)
{
	uint32_t ids[4];

	make_files(m, "f", ids, 4);
	for (unsigned i = 0; i < 60; i++) {
		uint32_t id = ids[below(m, 4)];
		uint64_t size;

		oracle_content(m->m_oracle, id, &size);
		if (size < ORACLE_MAX_FILE - 40000)
			sim_append(m, id, 1 + below(m, one_in(m, 4) ? 30000 : 3000), 0);
		maybe_sync(m, id, 5, 6);
	}
	for (unsigned i = 0; i < 4; i++)
		sim_check(m, ids[i]);
}

/* The editor's way: write a new file, fsync it, rename it over the old one. */
static void save_file(struct sim *m, unsigned round, bool with_fsync)
{
	char name[48];
	uint32_t id;

	name_of(name, "tmp", round);
	id = sim_create(m, ORACLE_ROOT, name, OK_FILE);
	sim_write(m, id, 0, 1 + below(m, 20000), 0);
	if (with_fsync)
		sim_fsync(m, id, false);
	sim_rename(m, ORACLE_ROOT, name, ORACLE_ROOT, round & 1 ? "a" : "b", false);
	if (one_in(m, 4))
		sim_fsync(m, ORACLE_ROOT, false);
	if (one_in(m, 3))
		sim_tick(m);
	if (one_in(m, 2))
		sim_close(m, id);
}

static void run_save(struct sim *m)
{
	for (unsigned i = 0; i < 25; i++)
		save_file(m, i, true);
}

static void run_rename_over(struct sim *m)
{
	for (unsigned i = 0; i < 25; i++)
		save_file(m, i, false);
}

/* Blocks go from file to file. */
static void run_reuse(struct sim *m)
{
	uint32_t ids[6] = {0};
	char name[48];

	for (unsigned i = 0; i < 50; i++) {
		unsigned slot = (unsigned)below(m, 6);

		name_of(name, "r", slot);
		if (ids[slot]) {
			sim_unlink(m, ORACLE_ROOT, name);
			if (one_in(m, 2))
				sim_tick(m);
			sim_close(m, ids[slot]);
			ids[slot] = 0;
		} else {
			ids[slot] = sim_create(m, ORACLE_ROOT, name, OK_FILE);
			sim_write(m, ids[slot], 0, 4096 + below(m, 60000), 0);
			if (one_in(m, 3))
				sim_fsync(m, ids[slot], false);
		}
		if (one_in(m, 8))
			sim_sync(m);
	}
}

static void run_truncate(struct sim *m)
{
	uint32_t id = sim_create(m, ORACLE_ROOT, "t", OK_FILE);

	for (unsigned i = 0; i < 50; i++) {
		uint64_t size;

		oracle_content(m->m_oracle, id, &size);
		if (one_in(m, 3))
			sim_truncate(m, id, below(m, size + 1));
		else if (one_in(m, 3))
			sim_truncate(m, id,
				     size + below(m, 20000) < ORACLE_MAX_FILE - 40000
					     ? size + below(m, 20000)
					     : size / 2);
		else
			sim_write(m, id, below(m, size + 1) % (ORACLE_MAX_FILE - 40000),
				  1 + below(m, 12000), 0);
		maybe_sync(m, id, 4, 4);
	}
	sim_check(m, id);
}

static void run_fallocate(struct sim *m)
{
	static const int modes[] = {0, FALLOC_FL_KEEP_SIZE,
				    FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
				    FALLOC_FL_ZERO_RANGE};
	uint32_t id = sim_create(m, ORACLE_ROOT, "p", OK_FILE);

	for (unsigned i = 0; i < 50; i++) {
		uint64_t pos = below(m, 200000), len = 1 + below(m, 30000);

		if (one_in(m, 2))
			sim_fallocate(m, id, modes[below(m, 4)], pos, len);
		else
			sim_write(m, id, pos, len, 0);
		maybe_sync(m, id, 4, 4);
	}
	sim_check(m, id);
}

/* A folder grows into an index and shrinks again. */
static void run_directory(struct sim *m)
{
	uint32_t dir = sim_create(m, ORACLE_ROOT, "dir", OK_DIR), id;
	char name[48];

	for (unsigned i = 0; i < 120; i++) {
		name_of(name, "a-name-of-some-length-in-a-folder-", i);
		id = sim_create(m, dir, name, OK_FILE);
		sim_close(m, id);
		if (one_in(m, 15))
			sim_fsync(m, dir, false);
		if (one_in(m, 20))
			sim_tick(m);
	}
	for (unsigned i = 0; i < 120; i++) {
		name_of(name, "a-name-of-some-length-in-a-folder-", i);
		if (i % 3 == 0)
			continue;
		/* unlink needs the object: look it up by opening it again */
		id = oracle_lookup(m->m_oracle, dir, name);
		sim_open(m, id, dir, name);
		sim_unlink(m, dir, name);
		sim_close(m, id);
		if (one_in(m, 20))
			sim_tick(m);
	}
	sim_sync(m);
}

static void run_xattr(struct sim *m)
{
	uint32_t ids[3];
	char name[48];
	bool set[3] = {false};

	for (unsigned i = 0; i < 3; i++) {
		name_of(name, "x", i);
		ids[i] = sim_create(m, ORACLE_ROOT, name, i ? OK_FILE : OK_DIR);
	}
	for (unsigned i = 0; i < 50; i++) {
		unsigned k = (unsigned)below(m, 3);

		if (set[k] && one_in(m, 4)) {
			sim_xattr(m, ids[k], 0);
			set[k] = false;
		} else {
			sim_xattr(m, ids[k], 1 + (uint32_t)below(m, 1000));
			set[k] = true;
		}
		if (one_in(m, 5))
			sim_fsync(m, ids[k], false);
		if (one_in(m, 6))
			sim_tick(m);
	}
}

static void run_links(struct sim *m)
{
	uint32_t id = sim_create(m, ORACLE_ROOT, "l0", OK_FILE);
	unsigned next = 1, last = 0;
	char name[48];

	sim_write(m, id, 0, 5000, 0);
	for (unsigned i = 0; i < 50; i++) {
		if (next - last < 2 || one_in(m, 2)) {
			name_of(name, "l", next++);
			sim_link(m, id, ORACLE_ROOT, name);
		} else {
			name_of(name, "l", last++);
			sim_unlink(m, ORACLE_ROOT, name);
		}
		if (one_in(m, 6))
			sim_fsync(m, id, false);
		if (one_in(m, 5))
			sim_tick(m);
	}
}

static void run_deep(struct sim *m)
{
	uint32_t path[12] = {ORACLE_ROOT};
	unsigned depth = 0;
	char name[48];

	for (unsigned i = 0; i < 70; i++) {
		if (depth == 0 || (depth < 10 && !one_in(m, 3))) {
			name_of(name, "d", depth);
			path[depth + 1] = sim_create(m, path[depth], name, OK_DIR);
			depth++;
			if (one_in(m, 3))
				sim_create(m, path[depth], "link", OK_SYMLINK);
		} else {
			if (oracle_lookup(m->m_oracle, path[depth], "link") != UINT32_MAX)
				sim_unlink(m, path[depth], "link");
			name_of(name, "d", --depth);
			sim_unlink(m, path[depth], name);
		}
		if (one_in(m, 8))
			sim_fsync(m, path[depth], false);
		if (one_in(m, 8))
			sim_tick(m);
	}
}

/* Many files in one transaction. */
static void run_many(struct sim *m)
{
	char name[48];
	uint32_t id;

	for (unsigned i = 0; i < 150; i++) {
		name_of(name, "m", i);
		id = sim_create(m, ORACLE_ROOT, name, OK_FILE);
		sim_write(m, id, 0, 1 + below(m, 3000), 0);
		sim_close(m, id);
	}
	sim_sync(m);
	for (unsigned i = 0; i < 30; i++) {
		name_of(name, "n", i);
		id = sim_create(m, ORACLE_ROOT, name, OK_FILE);
		sim_fsync(m, id, false);
	}
}

/* The log wraps. */
static void run_wrap(struct sim *m)
{
	char name[48];
	uint32_t id = sim_create(m, ORACLE_ROOT, "w", OK_FILE);

	for (unsigned i = 0; i < 250; i++) {
		sim_write(m, id, below(m, 100000), 1 + below(m, 3000), 0);
		name_of(name, "w", i);
		sim_create(m, ORACLE_ROOT, name, OK_FILE);
		sim_fsync(m, id, false);
		sim_unlink(m, ORACLE_ROOT, name);
	}
}

/* Writes that are durable when they return. */
static void run_dsync(struct sim *m)
{
	uint32_t id = sim_create(m, ORACLE_ROOT, "s", OK_FILE);

	sim_fsync(m, id, false);
	for (unsigned i = 0; i < 40; i++) {
		unsigned direct = one_in(m, 3) ? SIM_DIRECT : 0;
		uint64_t pos = below(m, 100000), len = 1 + below(m, 9000);

		if (direct) {
			pos &= ~(uint64_t)4095;
			len = (len + 4095) & ~(uint64_t)4095;
		}
		sim_write(m, id, pos, len, direct | (one_in(m, 3) ? 0 : SIM_DSYNC));
	}
	sim_check(m, id);
}

/* Nothing but sync makes anything durable, and that makes all of it. */
static void run_sync(struct sim *m)
{
	uint32_t dir = sim_create(m, ORACLE_ROOT, "y", OK_DIR), ids[6] = {0};
	char name[48];

	for (unsigned i = 0; i < 70; i++) {
		unsigned slot = (unsigned)below(m, 6);
		uint64_t size;

		name_of(name, "y", slot);
		if (!ids[slot]) {
			ids[slot] = sim_create(m, dir, name, OK_FILE);
		} else if (one_in(m, 8)) {
			remove_file(m, dir, name, &ids[slot]);
		} else {
			oracle_content(m->m_oracle, ids[slot], &size);
			sim_write(m, ids[slot], below(m, size % 300000 + 1), 1 + below(m, 9000), 0);
		}
		if (one_in(m, 4))
			sim_sync(m);
	}
	sim_sync(m);
}

static void run_full(struct sim *m)
{
	uint32_t ids[8] = {0};
	char name[48];

	m->m_full = true;
	for (unsigned i = 0; i < 160; i++) {
		unsigned slot = (unsigned)below(m, 8);
		uint64_t size = 0;

		name_of(name, "e", slot);
		if (!ids[slot]) {
			ids[slot] = sim_create(m, ORACLE_ROOT, name, OK_FILE);
			if (ids[slot] == UINT32_MAX)
				ids[slot] = 0;
			continue;
		}
		oracle_content(m->m_oracle, ids[slot], &size);
		if (size > ORACLE_MAX_FILE - 140000 || one_in(m, 9)) {
			remove_file(m, ORACLE_ROOT, name, &ids[slot]);
			continue;
		}
		sim_append(m, ids[slot], 1 + below(m, 130000), 0);
		if (one_in(m, 10))
			sim_fsync(m, ids[slot], false);
	}
}

/*
 * Blocks are metadata, then data, then metadata again: the disk is nearly full, so that what one gives back the next one takes, while the log still
 * has copies of it.
 */
static void run_recycle(struct sim *m)
{
	char name[64];

	m->m_full = true;
	for (unsigned i = 0; i < 13; i++) {
		uint32_t id;

		name_of(name, "fill", i);
		id = sim_create(m, ORACLE_ROOT, name, OK_FILE);
		if (id == UINT32_MAX || sim_append(m, id, 480000, 0))
			break;
		sim_close(m, id);
	}
	sim_sync(m);
	for (unsigned round = 0; round < 12; round++) {
		uint32_t dir = sim_create(m, ORACLE_ROOT, "dir", OK_DIR), file;
		unsigned made = 0;

		while (dir != UINT32_MAX && made < 60) {
			name_of(name, "a-name-long-enough-to-fill-a-folder-soon-", made);
			if (sim_create(m, dir, name, OK_SYMLINK) == UINT32_MAX)
				break;
			made++;
		}
		sim_sync(m);
		while (made > 0) {
			name_of(name, "a-name-long-enough-to-fill-a-folder-soon-", --made);
			sim_unlink(m, dir, name);
			sim_close(m, dir + 1 + made);
		}
		if (dir != UINT32_MAX) {
			sim_unlink(m, ORACLE_ROOT, "dir");
			sim_close(m, dir);
		}
		sim_sync(m);
		file = sim_create(m, ORACLE_ROOT, "file", OK_FILE);
		while (file != UINT32_MAX && !sim_append(m, file, 30000, 0)) {
			uint64_t size;

			oracle_content(m->m_oracle, file, &size);
			if (size > ORACLE_MAX_FILE - 60000)
				break;
		}
		if (file == UINT32_MAX)
			continue;
		sim_fsync(m, file, false);
		sim_unlink(m, ORACLE_ROOT, "file");
		sim_close(m, file);
		sim_sync(m);
	}
}

static void run_exchange(struct sim *m)
{
	uint32_t a = sim_create(m, ORACLE_ROOT, "da", OK_DIR);
	uint32_t b = sim_create(m, ORACLE_ROOT, "db", OK_DIR);
	uint32_t file = sim_create(m, b, "y", OK_FILE);

	sim_create(m, a, "x", OK_DIR);
	sim_write(m, file, 0, 3000, 0);
	for (unsigned i = 0; i < 40; i++) {
		sim_rename(m, a, "x", b, "y", true);
		if (one_in(m, 3))
			sim_append(m, file, 1 + below(m, 5000), 0);
		if (one_in(m, 5))
			sim_fsync(m, file, one_in(m, 2));
		if (one_in(m, 4))
			sim_fsync(m, one_in(m, 2) ? a : b, false);
		if (one_in(m, 3))
			sim_tick(m);
	}
}

/* ---- All threads at work ---- */

#define BUSY_SLOTS 10
struct busy {
	uint32_t b_dir[2];
	uint32_t b_id[BUSY_SLOTS]; /* 0: no such file */
};

static void busy_make(struct sim *m, struct busy *b, unsigned slot)
{
	char name[48], over[48];
	unsigned other = (slot + 2) % BUSY_SLOTS; /* in the same folder */
	uint32_t dir = b->b_dir[slot % 2];

	name_of(name, "b", slot);
	b->b_id[slot] = sim_create(m, dir, name, OK_FILE);
	sim_append(m, b->b_id[slot], 1 + below(m, 9000), 0);
	if (!b->b_id[other] || !one_in(m, 3))
		return;
	name_of(over, "b", other);
	sim_rename(m, dir, name, dir, over, false);
	sim_close(m, b->b_id[other]);
	b->b_id[other] = b->b_id[slot];
	b->b_id[slot] = 0;
}

static void busy_change(struct sim *m, struct busy *b, unsigned slot)
{
	uint32_t id = b->b_id[slot];
	char name[48];
	uint64_t size;

	oracle_content(m->m_oracle, id, &size);
	name_of(name, "b", slot);
	switch (below(m, 8)) {
	case 0:
		remove_file(m, b->b_dir[slot % 2], name, &b->b_id[slot]);
		break;
	case 1:
		sim_truncate(m, id, below(m, size + 5000));
		break;
	case 2:
		sim_xattr(m, id, 1 + (uint32_t)below(m, 1000));
		break;
	case 3:
		sim_write(m, id, below(m, size + 1), 1 + below(m, 6000), 0);
		break;
	case 4:
		sim_fallocate(m, id, (int)below(m, 2), below(m, size + 1), 1 + below(m, 9000));
		break;
	default:
		sim_append(m, id, 1 + below(m, 6000), 0);
		break;
	}
}

static void run_busy(struct sim *m)
{
	struct busy b = {.b_id = {0}};

	b.b_dir[0] = sim_create(m, ORACLE_ROOT, "one", OK_DIR);
	b.b_dir[1] = sim_create(m, ORACLE_ROOT, "two", OK_DIR);
	for (unsigned i = 0; i < 300; i++) {
		unsigned slot = (unsigned)below(m, BUSY_SLOTS);
		uint64_t size = 0;

		if (b.b_id[slot])
			oracle_content(m->m_oracle, b.b_id[slot], &size);
		if (size > ORACLE_MAX_FILE / 2)
			sim_truncate(m, b.b_id[slot], 0);
		else if (b.b_id[slot])
			busy_change(m, &b, slot);
		else
			busy_make(m, &b, slot);
		if (b.b_id[slot] && one_in(m, 3))
			sim_fsync(m, one_in(m, 6) ? b.b_dir[slot % 2] : b.b_id[slot], false);
		if (one_in(m, 10))
			sim_tick(m);
	}
	sim_finish(m);
}

/* Growing files whose pieces are in flight together. */
static void run_stream(struct sim *m)
{
	uint32_t ids[3];

	make_files(m, "s", ids, 3);
	for (unsigned i = 0; i < 240; i++) {
		uint32_t id = ids[below(m, 3)];
		uint64_t size;

		oracle_content(m->m_oracle, id, &size);
		if (size > ORACLE_MAX_FILE - 40000)
			sim_truncate(m, id, below(m, 5000));
		sim_append(m, id, 1 + below(m, 12000), 0);
		if (one_in(m, 2))
			sim_write_out(m, id);
		if (one_in(m, 4))
			sim_start_commit(m);
	}
	sim_fsync(m, ids[0], false);
	sim_finish(m);
}

static void opts_indirect(struct ext4_options *opts)
{
	opts->o_delalloc = false;
}

#define JOURNAL "-J size=1 "
#define BASE "-t ext4 -N 400 -O ^resize_inode "

const struct workload workloads[] = {
	{"append", BASE "-b 1024 " JOURNAL, NULL, run_append, ON_MEMORY},
	{"append-4k", BASE "-b 4096 -J size=4", NULL, run_append, ON_MEMORY},
	{"append-lagging", BASE "-b 1024 " JOURNAL, NULL, run_append, ON_LAGGING},
	{"save", BASE "-b 1024 " JOURNAL, NULL, run_save, ON_MEMORY},
	{"rename-over", BASE "-b 1024 " JOURNAL, NULL, run_rename_over, ON_MEMORY},
	{"rename-lagging", BASE "-b 1024 " JOURNAL, NULL, run_rename_over, ON_LAGGING},
	{"reuse", BASE "-b 1024 " JOURNAL, NULL, run_reuse, ON_MEMORY},
	{"reuse-lagging", BASE "-b 1024 " JOURNAL, NULL, run_reuse, ON_LAGGING},
	{"truncate", BASE "-b 1024 " JOURNAL, NULL, run_truncate, ON_MEMORY},
	{"fallocate", BASE "-b 1024 " JOURNAL, NULL, run_fallocate, ON_MEMORY},
	{"fallocate-4k", BASE "-b 4096 -J size=4 -O ^metadata_csum", NULL, run_fallocate,
	 ON_LAGGING},
	{"directory", BASE "-b 1024 " JOURNAL, NULL, run_directory, ON_MEMORY},
	{"xattr", BASE "-b 1024 -I 128 " JOURNAL, NULL, run_xattr, ON_MEMORY},
	{"links", BASE "-b 1024 -O ^64bit " JOURNAL, NULL, run_links, ON_MEMORY},
	{"deep", BASE "-b 1024 -O ^metadata_csum " JOURNAL, NULL, run_deep, ON_MEMORY},
	{"many", BASE "-b 1024 " JOURNAL, NULL, run_many, ON_MEMORY},
	{"wrap", BASE "-b 1024 " JOURNAL, NULL, run_wrap, ON_MEMORY},
	{"dsync", BASE "-b 1024 " JOURNAL, NULL, run_dsync, ON_MEMORY},
	{"dsync-lagging", BASE "-b 4096 -J size=4", NULL, run_dsync, ON_LAGGING},
	{"sync", BASE "-b 1024 " JOURNAL, NULL, run_sync, ON_MEMORY},
	{"full", BASE "-b 1024 " JOURNAL, NULL, run_full, ON_MEMORY},
	{"exchange", BASE "-b 1024 " JOURNAL, NULL, run_exchange, ON_MEMORY},
	{"indirect", BASE "-b 1024 -O ^extent,^64bit " JOURNAL, opts_indirect, run_append,
	 ON_MEMORY},
	{"indirect-truncate", BASE "-b 1024 -O ^extent,^64bit " JOURNAL, NULL, run_truncate,
	 ON_MEMORY},
	{"orphan-file", BASE "-b 1024 -O orphan_file " JOURNAL, NULL, run_reuse, ON_MEMORY},
	{"recycle", BASE "-b 1024 -m 0 " JOURNAL, NULL, run_recycle, ON_MEMORY},
	{"recycle-indirect", BASE "-b 1024 -m 0 -O ^extent,^64bit " JOURNAL, NULL, run_recycle,
	 ON_MEMORY},
	{"stream", BASE "-b 1024 " JOURNAL, NULL, run_stream, BUSY},
	{"busy", BASE "-b 1024 " JOURNAL, NULL, run_busy, BUSY},
	{"busy-4k", BASE "-b 4096 -J size=4", NULL, run_busy, BUSY},
	{"busy-indirect", BASE "-b 1024 -O ^extent,^64bit " JOURNAL, opts_indirect, run_busy, BUSY},
};
const unsigned nr_workloads = sizeof(workloads) / sizeof(workloads[0]);
