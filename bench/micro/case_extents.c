/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * case_extents.c - ext4_map_blocks(): a file of n extents built in order and out of order, looked up, removed.
 */
#include <inttypes.h>

#include "alloc/alloc_internal.h"
#include "bench/lib/benchlib.h"
#include "bench/micro/micro.h"
#include "ext4/inode.h"
#include "ext4/jbd2_glue.h"

struct extents {
	struct micro_fs fs;
	struct inode *inode, *other;
	uint64_t n, seed, found;
	unsigned bits; /* 1 << bits >= n */
};

static void map_one(struct extents *x, struct inode *inode, uint64_t i, unsigned flags)
{
	struct ext4_map_blocks map = {.m_lblk = (ext4_lblk_t)i * 2, .m_len = 1};
	uint64_t end = (i * 2 + 1) << x->fs.mf_sb->s_blocksize_bits;
	handle_t *handle = micro_fs_start(&x->fs);
	int got;

	if (end > i_size_read(inode)) {
		i_size_write(inode, end);
		atomic_store(&inode->i_disksize, end);
	}
	got = ext4_map_blocks(handle, inode, &map, EXT4_GET_BLOCKS_CREATE | flags);
	micro_must(got, "allocate");
	x->found += got == 1;
	micro_fs_stop(handle);
}

static void insert_ascending(void *arg)
{
	struct extents *x = arg;

	for (uint64_t i = 0; i < x->n; i++)
		map_one(x, x->inode, i, EXT4_GET_BLOCKS_UNWRIT_EXT);
}

/* Reversed bits: each insertion halves a gap somewhere else. */
static uint64_t scattered(uint64_t i, unsigned bits)
{
	uint64_t r = 0;

	for (unsigned b = 0; b < bits; b++)
		r |= (i >> b & 1) << (bits - 1 - b);
	return r;
}

static void insert_scattered(void *arg)
{
	struct extents *x = arg;

	for (uint64_t i = 0; i < UINT64_C(1) << x->bits; i++) {
		uint64_t at = scattered(i, x->bits);

		if (at < x->n)
			map_one(x, x->other, at, 0);
	}
}

static void lookup(struct extents *x)
{
	for (uint64_t i = 0; i < x->n; i++) {
		uint64_t at = bench_random_below(&x->seed, x->n);
		struct ext4_map_blocks map = {.m_lblk = (ext4_lblk_t)at * 2, .m_len = 1};

		x->found += ext4_map_blocks(NULL, x->inode, &map, 0) == 1;
	}
}

static void lookup_known(void *arg)
{
	lookup(arg);
}

/* Nothing is known of the file when it begins. */
static void lookup_tree(void *arg)
{
	lookup(arg);
}

static void convert_all(void *arg)
{
	struct extents *x = arg;

	for (uint64_t i = 0; i < x->n; i++) {
		handle_t *handle = micro_fs_start(&x->fs);

		micro_must(ext4_convert_unwritten_extents(handle, x->inode, (ext4_lblk_t)i * 2, 1),
			   "convert");
		micro_fs_stop(handle);
	}
}

static void remove_all(void *arg)
{
	struct extents *x = arg;
	handle_t *handle = micro_fs_start(&x->fs);

	micro_must(ext4_remove_space(handle, x->inode, 0, EXT4_MAX_BLOCKS - 1), "remove");
	micro_fs_stop(handle);
}

static void run_extents(struct micro *m)
{
	struct extents x = {.n = m->m_n, .seed = m->m_seed};

	while (UINT64_C(1) << x.bits < x.n)
		x.bits++;
	micro_fs_open(&x.fs, x.n * 4096 * 5 / 2 + (UINT64_C(1) << 30), UINT64_C(64) << 20);
	x.inode = micro_fs_file(&x.fs, 0);
	x.other = micro_fs_file(&x.fs, 1);
	micro_section(m, "insert_ascending", x.n, insert_ascending, &x);
	micro_section(m, "insert_scattered", x.n, insert_scattered, &x);
	micro_section(m, "lookup_known", x.n, lookup_known, &x);
	while (ext4_es_shrink(x.fs.mf_sb, 4096) > 0)
		;
	micro_section(m, "lookup_tree", x.n, lookup_tree, &x);
	micro_section(m, "convert", x.n, convert_all, &x);
	micro_section(m, "remove", x.n, remove_all, &x);
	if (x.found != 4 * x.n)
		bench_die(0, "extents: %" PRIu64 " of %" PRIu64 " were right", x.found, 4 * x.n);
}

const struct micro_case micro_extents = {
	.mc_name = "extents",
	.mc_about = "a file of n extents (every other block) through ext4_map_blocks()",
	.mc_default_max = 100000,
	.mc_max = 10000000,
	.mc_run = run_extents,
};
