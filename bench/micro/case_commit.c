/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * case_commit.c - the journal: n blocks dirtied, committed and checkpointed.
 */
#include "bench/lib/benchlib.h"
#include "bench/micro/micro.h"
#include "ext4/jbd2_glue.h"

#define HANDLE_BLOCKS 32u

struct commit {
	struct micro_fs fs;
	uint64_t n, first;
};

static void change_block(struct commit *c, handle_t *handle, uint64_t block)
{
	struct buffer_head *bh = bh_get(c->fs.mf_sb->s_bcache, block);

	if (IS_ERR(bh))
		bench_die(-PTR_ERR(bh), "buffer");
	micro_must(jbd2_journal_get_create_access(handle, bh), "access");
	bh->b_data[block % 4096] ^= 1;
	micro_must(jbd2_journal_dirty_metadata(handle, bh), "dirty");
	bh_put(bh);
}

static void dirty_all(void *arg)
{
	struct commit *c = arg;

	for (uint64_t i = 0; i < c->n; i += HANDLE_BLOCKS) {
		handle_t *handle = ext4_journal_start_sb(c->fs.mf_sb, HT_MISC, HANDLE_BLOCKS, 0);

		if (IS_ERR(handle))
			bench_die(-PTR_ERR(handle), "handle");
		for (uint64_t k = i; k < i + HANDLE_BLOCKS && k < c->n; k++)
			change_block(c, handle, c->first + k);
		micro_fs_stop(handle);
	}
}

static void commit_all(void *arg)
{
	struct commit *c = arg;

	micro_must(jbd2_journal_force_commit(c->fs.mf_sb->s_journal), "commit");
}

static void checkpoint_all(void *arg)
{
	struct commit *c = arg;

	micro_must(jbd2_journal_flush(c->fs.mf_sb->s_journal), "checkpoint");
}

static void run_commit(struct micro *m)
{
	struct commit c = {.n = m->m_n};

	micro_fs_open(&c.fs, (c.n + 262144) * 4096, UINT64_C(64) << 20);
	/* Free blocks at the end of the device: to the journal a block is a block. */
	c.first = c.fs.mf_sb->s_blocks_count - c.n - 1;
	micro_section(m, "dirty", c.n, dirty_all, &c);
	micro_section(m, "commit", c.n, commit_all, &c);
	micro_section(m, "checkpoint", c.n, checkpoint_all, &c);
	micro_section(m, "dirty_again", c.n, dirty_all, &c);
}

const struct micro_case micro_commit = {
	.mc_name = "commit",
	.mc_about =
		"n blocks dirtied by handles of 32, committed, checkpointed (several commits where the log is too small for one)",
	.mc_default_max = 100000,
	.mc_max = 200000,
	.mc_run = run_commit,
};
