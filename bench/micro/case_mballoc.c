/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * case_mballoc.c - block allocation: n extents of 8 blocks, every second one freed, and requests that no hole fits.
 */
#include <stdlib.h>

#include "alloc/mballoc_internal.h"
#include "bench/lib/benchlib.h"
#include "bench/micro/micro.h"
#include "ext4/jbd2_glue.h"

#define PIECE 8u
#define LARGE 64u

struct mb {
	struct micro_fs fs;
	struct inode *inode;
	uint64_t n;
	ext4_fsblk_t *block;
	uint64_t got;
};

static ext4_fsblk_t allocate(struct mb *b, uint32_t *len)
{
	struct ext4_allocation_request ar = {.ar_inode = b->inode,
					     .ar_len = *len,
					     .ar_flags = EXT4_MB_HINT_NOPREALLOC |
							 EXT4_MB_HINT_NORMALIZE_OFF};
	handle_t *handle = micro_fs_start(&b->fs);
	int err = 0;
	ext4_fsblk_t block = ext4_mb_new_blocks(handle, &ar, &err);

	micro_must(err, "allocate");
	micro_fs_stop(handle);
	*len = ar.ar_len;
	return block;
}

static void alloc_pieces(void *arg)
{
	struct mb *b = arg;

	for (uint64_t i = 0; i < b->n; i++) {
		uint32_t len = PIECE;

		b->block[i] = allocate(b, &len);
		b->got += len;
	}
}

static void free_every_second(void *arg)
{
	struct mb *b = arg;

	for (uint64_t i = 0; i < b->n; i += 2) {
		handle_t *handle = micro_fs_start(&b->fs);

		micro_must(ext4_free_blocks(handle, b->inode, b->block[i], PIECE, 0), "free");
		micro_fs_stop(handle);
	}
}

/* Nothing of that length is free near the goal: the search must end within its bounds. */
static void alloc_large(void *arg)
{
	struct mb *b = arg;

	for (unsigned i = 0; i < 1000; i++) {
		uint32_t len = LARGE;

		if (!allocate(b, &len))
			bench_die(0, "mballoc: nothing free");
	}
}

static void run_mballoc(struct micro *m)
{
	struct mb b = {.n = m->m_n};

	b.block = calloc(b.n, sizeof(*b.block));
	if (!b.block)
		bench_die(ENOMEM, "mballoc");
	/* The pieces fill the device but for what a thousand large requests need. */
	micro_fs_open(&b.fs, (b.n * PIECE + 1000 * LARGE) * 4096 * 21 / 20 + (UINT64_C(640) << 20),
		      UINT64_C(64) << 20);
	b.inode = micro_fs_file(&b.fs, 0);
	micro_section(m, "alloc", b.n, alloc_pieces, &b);
	micro_section(m, "free", (b.n + 1) / 2, free_every_second, &b);
	micro_must(jbd2_journal_force_commit(b.fs.mf_sb->s_journal), "commit");
	micro_section(m, "alloc_fragmented", 1000, alloc_large, &b);
	free(b.block);
}

const struct micro_case micro_mballoc = {
	.mc_name = "mballoc",
	.mc_about = "n extents of 8 blocks; half of them freed; then 1000 requests of 64 blocks",
	.mc_default_max = 100000,
	.mc_max = 10000000,
	.mc_run = run_mballoc,
};
