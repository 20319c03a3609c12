/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * case_es.c - the extent status tree: delayed runs, which stay, and clean ones, which a shrinker may drop.
 */
#include "alloc/alloc_internal.h"
#include "alloc/extent_status.h"
#include "bench/lib/benchlib.h"
#include "bench/micro/micro.h"

#define CLEAN_RUNS 512u
#define SHRINKS 100u

struct es {
	struct micro_fs fs;
	struct inode *inode;
	uint64_t n, seed, found;
};

static void es_open(struct es *e, struct micro *m)
{
	*e = (struct es){.n = m->m_n, .seed = m->m_seed};
	micro_fs_open(&e->fs, UINT64_C(1) << 30, UINT64_C(64) << 20);
	e->inode = micro_fs_file(&e->fs, 0);
}

/* ---- Delayed ---- */

/* Every other block: no two runs can be merged. */
static void insert_delayed(void *arg)
{
	struct es *e = arg;

	down_write(&e->inode->i_data_sem);
	for (uint64_t i = 0; i < e->n; i++)
		micro_must(ext4_es_insert_delayed(e->inode, (ext4_lblk_t)i * 2, 1), "insert");
	up_write(&e->inode->i_data_sem);
}

static void lookup_random(void *arg)
{
	struct es *e = arg;
	struct extent_status es;

	for (uint64_t i = 0; i < e->n; i++)
		e->found += ext4_es_lookup(
			e->inode, (ext4_lblk_t)bench_random_below(&e->seed, e->n) * 2, &es);
}

static void lookup_sequential(void *arg)
{
	struct es *e = arg;
	struct extent_status es;

	for (uint64_t i = 0; i < e->n; i++)
		e->found += ext4_es_lookup(e->inode, (ext4_lblk_t)i * 2, &es);
}

static void find_delayed(void *arg)
{
	struct es *e = arg;
	struct extent_status es;

	for (uint64_t i = 0; i < e->n; i++) {
		ext4_lblk_t at = (ext4_lblk_t)bench_random_below(&e->seed, e->n) * 2;

		e->found += ext4_es_find_delayed(e->inode, at, EXT4_MAX_BLOCKS - 1, &es);
	}
}

/* Clean runs behind all the delayed ones. */
static void add_clean(struct es *e)
{
	down_write(&e->inode->i_data_sem);
	for (uint32_t i = 0; i < CLEAN_RUNS; i++)
		micro_must(ext4_es_insert(e->inode, (ext4_lblk_t)(e->n + i) * 2, 1, 1000 + 2 * i,
					  ES_WRITTEN),
			   "insert");
	up_write(&e->inode->i_data_sem);
}

static void shrink_few(void *arg)
{
	struct es *e = arg;

	for (unsigned i = 0; i < SHRINKS; i++)
		e->found += ext4_es_shrink(e->fs.mf_sb, 1);
}

static void remove_all(void *arg)
{
	struct es *e = arg;

	down_write(&e->inode->i_data_sem);
	for (uint64_t i = 0; i < e->n; i++)
		micro_must(ext4_es_remove(e->inode, (ext4_lblk_t)i * 2, 1), "remove");
	up_write(&e->inode->i_data_sem);
}

static void run_es(struct micro *m)
{
	struct es e;

	es_open(&e, m);
	micro_section(m, "insert_delayed", e.n, insert_delayed, &e);
	micro_section(m, "lookup_random", e.n, lookup_random, &e);
	micro_section(m, "lookup_sequential", e.n, lookup_sequential, &e);
	micro_section(m, "find_delayed", e.n, find_delayed, &e);
	if (e.found != 3 * e.n)
		bench_die(0, "es: a look-up went wrong");
	add_clean(&e);
	micro_section(m, "shrink_among_delayed", SHRINKS, shrink_few, &e);
	micro_section(m, "remove", e.n, remove_all, &e);
}

const struct micro_case micro_es = {
	.mc_name = "es",
	.mc_about =
		"n delayed runs of one file, and the shrinker looking for clean ones among them",
	.mc_default_max = 1000000,
	.mc_max = 100000000,
	.mc_run = run_es,
};

/* ---- Clean ---- */

static void insert_clean(void *arg)
{
	struct es *e = arg;

	for (uint64_t i = 0; i < e->n; i++) {
		down_write(&e->inode->i_data_sem);
		micro_must(
			ext4_es_insert(e->inode, (ext4_lblk_t)i * 2, 1, 1000 + 2 * i, ES_WRITTEN),
			"insert");
		up_write(&e->inode->i_data_sem);
	}
}

/* The owner holds i_data_sem all the while, so that nothing of this file can be dropped at the limit. */
static void insert_held(void *arg)
{
	struct es *e = arg;

	down_write(&e->inode->i_data_sem);
	for (uint64_t i = 0; i < e->n; i++)
		micro_must(
			ext4_es_insert(e->inode, (ext4_lblk_t)i * 2, 1, 1000 + 2 * i, ES_WRITTEN),
			"insert");
	up_write(&e->inode->i_data_sem);
}

static void shrink_all(void *arg)
{
	struct es *e = arg;

	while (ext4_es_shrink(e->fs.mf_sb, 128) > 0)
		;
}

static void run_es_clean(struct micro *m)
{
	struct es e;

	es_open(&e, m);
	micro_section(m, "insert", e.n, insert_clean, &e);
	micro_section(m, "shrink", e.n, shrink_all, &e);
	micro_section(m, "insert_held", e.n, insert_held, &e);
}

const struct micro_case micro_es_clean = {
	.mc_name = "es_clean",
	.mc_about = "n written runs of one file put in, the shrinker at work beyond its limit",
	.mc_default_max = 1000000,
	.mc_max = 100000000,
	.mc_run = run_es_clean,
};
