/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * test_free_blocks.c - what may be freed, and when it may be used again.
 *
 * Invariants: (1) a wrong free changes nothing on the disk.
 * Locking: none.
 */
#include "tests/unit/alloc/alloc_fixture.h"

#include <pthread.h>

#define MIB (UINT64_C(1) << 20)

static unsigned records(struct mb_group *g)
{
	struct ext4_buddy *b = ext4_buddy_new(g->g_buddy->b_blocks);
	unsigned hidden;

	/* All free; what the group hides makes holes. */
	uint8_t *none = calloc(1, b->b_blocks / 8 + 1);

	ext4_buddy_load(b, none);
	ext4_mb_hide_pending(g, b);
	hidden = b->b_blocks - b->b_free;
	free(none);
	ext4_buddy_free(b);
	return hidden;
}

START_TEST(frees_of_one_transaction_are_merged_and_end_at_its_commit)
{
	struct ext4_mballoc *mb;
	struct inode *inode;
	ext4_fsblk_t block;
	struct mb_group *g;
	uint32_t len = 100;
	struct mb_tx *tx;
	struct fix f;
	unsigned n = 0;
	struct mb_free_rec *rec;
	int err;

	fix_open(&f, "-t ext4 -b 4096", 64 * MIB, 1);
	fix_mount(&f);
	mb = ext4_mb(f.sb);
	inode = fix_file(&f, 0);
	block = fix_alloc(&f, inode, &len, 0, &err);
	ck_assert_int_eq(err, 0);
	ck_assert_uint_eq(len, 100);
	fix_commit(&f);
	/* Even ones, then odd ones: in the end one range. */
	for (uint32_t i = 0; i < len; i += 2)
		ck_assert_int_eq(fix_free(&f, inode, block + i, 1), 0);
	for (uint32_t i = 1; i < len; i += 2)
		ck_assert_int_eq(fix_free(&f, inode, block + i, 1), 0);
	tx = LIST_FIRST(&mb->mb_txs);
	ck_assert_ptr_nonnull(tx);
	TAILQ_FOREACH (rec, &tx->tx_recs, fr_link)
		n++;
	ck_assert_uint_eq(n, 1);
	ck_assert_int_eq(atomic_load(&mb->mb_pending), 100);
	g = ext4_mb_group_lock(f.sb, ext4_group_of_block(f.sb, block));
	ck_assert_uint_eq(records(g), 100);
	ck_assert(ext4_buddy_all_used(g->g_buddy, ext4_offset_in_group(f.sb, block), 100));
	ext4_mb_group_unlock(g);
	fix_commit(&f);
	ck_assert(LIST_EMPTY(&mb->mb_txs));
	ck_assert_int_eq(atomic_load(&mb->mb_pending), 0);
	g = ext4_mb_group_lock(f.sb, ext4_group_of_block(f.sb, block));
	ck_assert(ext4_buddy_all_free(g->g_buddy, ext4_offset_in_group(f.sb, block), 100));
	ext4_mb_group_unlock(g);
	iput(inode);
	fix_close(&f);
}
END_TEST

/* A free that must be refused as damage; the file system is then discarded. */
static void expect_refused(ext4_fsblk_t (*which)(struct fix *f), uint64_t count)
{
	struct inode *inode;
	handle_t *handle;
	int64_t before;
	struct fix f;

	fix_open(&f, "-t ext4 -b 4096 -e continue", 64 * MIB, 1);
	fix_mount(&f);
	inode = fix_file(&f, 0);
	before = atomic_load(&ext4_mb(f.sb)->mb_free);
	handle = fix_start(&f);
	ck_assert_int_eq(ext4_free_blocks(handle, inode, which(&f), count, 0), -EFSCORRUPTED);
	(void)ext4_journal_stop(handle, 0);
	ck_assert_int_eq(atomic_load(&ext4_mb(f.sb)->mb_free), before);
	ck_assert_uint_gt(counter_read(&f.sb->s_stats.st_errors), 0);
	iput(inode);
	fix_close_broken(&f);
}

static ext4_fsblk_t a_bitmap(struct fix *f)
{
	return ext4_block_bitmap(f->sb, ext4_get_group_info(f->sb, 0));
}

static ext4_fsblk_t the_last_block(struct fix *f)
{
	return f->sb->s_blocks_count - 1;
}

static ext4_fsblk_t a_free_block(struct fix *f)
{
	struct mb_group *g = ext4_mb_group_lock(f->sb, 0);
	struct ext4_free_run run = ext4_buddy_next_run(g->g_buddy, 0, g->g_buddy->b_blocks);

	ext4_mb_group_unlock(g);
	ck_assert_uint_gt(run.fr_len, 0);
	return ext4_mb_block(f->sb, g, run.fr_start);
}

START_TEST(freeing_metadata_is_refused)
{
	expect_refused(a_bitmap, 1);
}
END_TEST

START_TEST(freeing_past_the_device_is_refused)
{
	expect_refused(the_last_block, 2);
}
END_TEST

START_TEST(freeing_twice_is_refused)
{
	expect_refused(a_free_block, 1);
}
END_TEST

START_TEST(after_an_abort_nothing_pending_is_given_out_and_exit_does_not_wait)
{
	struct inode *inode;
	ext4_fsblk_t block;
	struct mb_group *g;
	uint32_t len = 10;
	struct fix f;
	int err;

	for (unsigned threads = 0; threads < 2; threads++) {
		fix_open(&f, "-t ext4 -b 4096 -e continue", 64 * MIB, 1);
		f.threads = threads != 0;
		fix_mount(&f);
		inode = fix_file(&f, 0);
		len = 10;
		block = fix_alloc(&f, inode, &len, 0, &err);
		ck_assert_int_eq(err, 0);
		fix_commit(&f);
		ck_assert_int_eq(fix_free(&f, inode, block, len), 0);
		jbd2_journal_abort(f.sb->s_journal, -EIO);
		(void)jbd2_journal_force_commit(f.sb->s_journal);
		g = ext4_mb_group_get(f.sb, ext4_group_of_block(f.sb, block));
		mutex_lock(&g->g_info->bg_lock);
		ck_assert(ext4_buddy_all_used(g->g_buddy, ext4_offset_in_group(f.sb, block), len));
		mutex_unlock(&g->g_info->bg_lock);
		iput(inode);
		fix_close_broken(&f);
	}
}
END_TEST

/* ---- Writes in flight ---- */

#define SLOW_NS UINT64_C(200000000)

static void *slow_writer(void *arg)
{
	struct buffer_head *bh = arg;

	ck_assert_int_eq(bh_write_copy(bh, bh->b_data, 0), 0);
	return NULL;
}

START_TEST(a_block_is_not_given_out_while_a_write_of_it_is_in_flight)
{
	struct fault_rule rule = {
		.fr_kind = FAULT_DELAY, .fr_ops = FAULT_OP(REQ_OP_WRITE), .fr_delay_ns = SLOW_NS};
	struct buffer_head *bh;
	struct inode *inode;
	struct mb_group *g;
	ext4_fsblk_t block;
	pthread_t thread;
	uint32_t len = 1;
	struct fix f;
	int err;

	fix_open(&f, "-t ext4 -b 4096", 64 * MIB, 1);
	f.threads = true;
	f.want_faults = true;
	fix_mount(&f);
	inode = fix_file(&f, 0);
	block = fix_alloc(&f, inode, &len, 0, &err);
	ck_assert_int_eq(err, 0);
	fix_commit(&f);
	bh = bh_read(f.sb->s_bcache, block);
	ck_assert(!IS_ERR(bh));
	rule.fr_from_bytes = block * 4096;
	rule.fr_to_bytes = block * 4096 + 4096;
	ck_assert_int_ge(fault_arm(f.faults, &rule), 0);
	ck_assert_int_eq(pthread_create(&thread, NULL, slow_writer, bh), 0);
	while (!bh_writes_in_flight(f.sb->s_bcache, block, 1))
		sched_yield();
	ck_assert_int_eq(fix_free(&f, inode, block, 1), 0);
	fix_commit(&f);
	/* It may be given out now, so nothing can still arrive. */
	g = ext4_mb_group_lock(f.sb, ext4_group_of_block(f.sb, block));
	ck_assert(ext4_buddy_all_free(g->g_buddy, ext4_offset_in_group(f.sb, block), 1));
	ext4_mb_group_unlock(g);
	ck_assert(!bh_writes_in_flight(f.sb->s_bcache, block, 1));
	pthread_join(thread, NULL);
	bh_put(bh);
	iput(inode);
	fix_close(&f);
}
END_TEST

START_TEST(blocks_of_several_groups_are_freed_in_one_call)
{
	struct ext4_allocation_request ar = {.ar_len = 6000};
	struct inode *inode;
	struct fix f;
	int64_t before;
	ext4_fsblk_t first;
	handle_t *handle;
	uint32_t got = 0;
	int err;

	fix_open(&f, "-t ext4 -b 1024 -O ^resize_inode -G 4 -g 4096 -N 64", 64 * MIB, 1);
	fix_mount(&f);
	inode = fix_file(&f, 0);
	before = atomic_load(&ext4_mb(f.sb)->mb_free);
	/* Groups 13 and 14 have no metadata with flex_bg. */
	first = ext4_group_first_block(f.sb, 13) + 2000;
	while (got < 6000) {
		ar.ar_inode = inode;
		ar.ar_len = 6000 - got;
		ar.ar_goal = first + got;
		ar.ar_flags = EXT4_MB_HINT_DATA | EXT4_MB_HINT_NORMALIZE_OFF;
		handle = fix_start(&f);
		ck_assert_uint_eq(ext4_mb_new_blocks(handle, &ar, &err), first + got);
		fix_stop(handle);
		got += ar.ar_len;
	}
	ck_assert_int_eq(atomic_load(&ext4_mb(f.sb)->mb_free), before - 6000);
	ck_assert_uint_eq(atomic_load(&inode->i_blocks), 6000 * 2);
	ck_assert_int_eq(fix_free(&f, inode, first, 6000), 0);
	ck_assert_uint_eq(atomic_load(&inode->i_blocks), 0);
	fix_commit(&f);
	ck_assert_int_eq(atomic_load(&ext4_mb(f.sb)->mb_free), before);
	fix_check_accounts(&f);
	iput(inode);
	fix_close(&f);
}
END_TEST

int main(void)
{
	return RUN_TESTS("alloc/free_blocks",
			 frees_of_one_transaction_are_merged_and_end_at_its_commit,
			 freeing_metadata_is_refused, freeing_past_the_device_is_refused,
			 freeing_twice_is_refused,
			 after_an_abort_nothing_pending_is_given_out_and_exit_does_not_wait,
			 a_block_is_not_given_out_while_a_write_of_it_is_in_flight,
			 blocks_of_several_groups_are_freed_in_one_call);
}
