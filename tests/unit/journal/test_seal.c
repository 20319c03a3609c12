/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * test_seal.c - what a block says of itself is set when its content is copied: once for a transaction, in each copy.
 */
#include "tests/lib/suite.h"
#include "tests/lib/testlib.h"
#include "tests/unit/journal/fixture.h"
#include "util/crc32c.h"

#define SEED 0x5ea1u

static const struct fx_shape shape_1k = {.fs_block_bytes = 1024};
static const struct fx_shape shape_no_log = {.fs_block_bytes = 1024, .fs_no_log = true};
static unsigned nr_seals;

/* The last four bytes: a checksum of the others. */
static uint32_t csum_of(const uint8_t *data, uint32_t bytes)
{
	return crc32c(SEED, data, bytes - sizeof(uint32_t));
}

static void seal(struct buffer_head *bh)
{
	ck_assert_uint_eq(bh->b_seal_seed, SEED);
	ck_assert_uint_eq(bh->b_seal_at, 77);
	put_be32(bh->b_data + bh->b_size - 4, csum_of(bh->b_data, bh->b_size));
	nr_seals++;
}

/* The block becomes pattern `tag` but for its last four bytes, which are due. */
static void change(struct fixture *f, handle_t *h, uint64_t blocknr, uint64_t tag)
{
	struct buffer_head *bh = bh_read(f->f_cache, blocknr);

	ck_assert(!IS_ERR(bh));
	ck_assert_int_eq(jbd2_journal_get_write_access(h, bh), 0);
	lock_buffer(bh);
	pattern_fill(bh->b_data, bh->b_size - 4, tag, 0);
	put_be32(bh->b_data + bh->b_size - 4, 0);
	bh_seal_later(bh, seal, SEED, 77);
	unlock_buffer(bh);
	ck_assert_int_eq(jbd2_journal_dirty_metadata(h, bh), 0);
	bh_put(bh);
}

static void change_one(struct fixture *f, uint64_t blocknr, uint64_t tag)
{
	handle_t *h = fx_start(f, 1);

	change(f, h, blocknr, tag);
	ck_assert_int_eq(jbd2_journal_stop(h), 0);
}

/* What is on the disk is pattern `tag` and sealed. */
static void check_disk(struct fixture *f, uint64_t blocknr, uint64_t tag)
{
	uint8_t buf[1024];

	fx_read_raw(f->f_dev, sizeof(buf), blocknr, buf);
	ck_assert_int_eq(pattern_mismatch(buf, sizeof(buf) - 4, tag, 0), -1);
	ck_assert_uint_eq(get_be32(buf + sizeof(buf) - 4), csum_of(buf, sizeof(buf)));
}

/* The same of what the log has for the block. */
static void check_log(struct blkdev *crashed, const struct fixture *f, uint64_t blocknr,
		      uint64_t tag)
{
	struct fixture after = *f;

	fx_use(&after, crashed);
	ck_assert_int_eq(fx_recover(&after), 0);
	check_disk(&after, blocknr, tag);
	fx_close(&after);
}

START_TEST(many_changes_of_a_transaction_are_sealed_once)
{
	struct fixture f;

	fx_open(&f, &shape_1k);
	nr_seals = 0;
	for (unsigned i = 1; i <= 5; i++)
		change_one(&f, FX_META, i);
	ck_assert_uint_eq(nr_seals, 0);
	ck_assert_int_eq(jbd2_journal_force_commit(f.f_j), 0);
	ck_assert_uint_eq(nr_seals, 1);
	check_log(testlib_clone(f.f_dev), &f, FX_META, 5);
	/* Home goes what was sealed for the log. */
	ck_assert_int_eq(jbd2_journal_flush(f.f_j), 0);
	ck_assert_uint_eq(nr_seals, 1);
	check_disk(&f, FX_META, 5);
	change_one(&f, FX_META, 6);
	ck_assert_int_eq(fx_unload(&f), 0);
	ck_assert_uint_eq(nr_seals, 2);
	check_disk(&f, FX_META, 6);
	fx_close(&f);
}
END_TEST

static int change_in_the_middle(void *owner, uint64_t start_bytes, uint64_t end_bytes)
{
	struct fixture *f = owner;

	(void)start_bytes;
	(void)end_bytes;
	change_one(f, FX_META, 2);
	return 0;
}

START_TEST(a_frozen_copy_is_sealed_and_so_is_what_follows_it)
{
	struct jbd2_inode ji;
	struct fixture f;
	handle_t *h;

	fx_format(&f, &shape_1k);
	f.f_ops.write_ordered_data = change_in_the_middle;
	fx_load(&f);
	nr_seals = 0;
	jbd2_inode_init(&ji, &f);
	h = fx_start(&f, 1);
	change(&f, h, FX_META, 1);
	ck_assert_int_eq(jbd2_journal_inode_ranged_write(h, &ji, 0, 10), 0);
	ck_assert_int_eq(jbd2_journal_stop(h), 0);
	ck_assert_int_eq(jbd2_complete_transaction(f.f_j, jbd2_newest_tid(f.f_j)), 0);
	ck_assert_uint_eq(counter_read(&jbd2_stats(f.f_j)->js_copies), 1);
	ck_assert_uint_eq(nr_seals, 1);
	check_log(testlib_clone(f.f_dev), &f, FX_META, 1);
	ck_assert_int_eq(jbd2_journal_force_commit(f.f_j), 0);
	ck_assert_uint_eq(nr_seals, 2);
	check_log(testlib_clone(f.f_dev), &f, FX_META, 2);
	ck_assert_int_eq(fx_unload(&f), 0);
	check_disk(&f, FX_META, 2);
	fx_close(&f);
}
END_TEST

START_TEST(without_a_log_it_is_sealed_on_its_way_home)
{
	struct fixture f;

	fx_open(&f, &shape_no_log);
	nr_seals = 0;
	change_one(&f, FX_META, 1);
	change_one(&f, FX_META, 2);
	ck_assert_int_eq(jbd2_journal_force_commit(f.f_j), 0);
	ck_assert_uint_eq(nr_seals, 1);
	check_disk(&f, FX_META, 2);
	ck_assert_int_eq(fx_unload(&f), 0);
	fx_close(&f);
}
END_TEST

START_TEST(a_block_that_is_taken_anew_has_no_seal_of_its_former_use)
{
	struct buffer_head *bh;
	struct fixture f;
	handle_t *h;

	fx_open(&f, &shape_1k);
	nr_seals = 0;
	h = fx_start(&f, 2);
	change(&f, h, FX_META, 1);
	bh = bh_read(f.f_cache, FX_META);
	ck_assert(!IS_ERR(bh));
	bh_hold(bh);
	ck_assert_int_eq(jbd2_journal_forget(h, bh), 0);
	ck_assert_int_eq(jbd2_journal_get_create_access(h, bh), 0);
	lock_buffer(bh);
	pattern_fill(bh->b_data, bh->b_size, 9, 0);
	unlock_buffer(bh);
	ck_assert_int_eq(jbd2_journal_dirty_metadata(h, bh), 0);
	bh_put(bh);
	ck_assert_int_eq(jbd2_journal_stop(h), 0);
	ck_assert_int_eq(fx_unload(&f), 0);
	ck_assert_uint_eq(nr_seals, 0);
	ck_assert(fx_disk_is(&f, FX_META, 9));
	fx_close(&f);
}
END_TEST

START_TEST(a_buffer_written_from_its_live_content_is_sealed)
{
	struct buffer_head *bh;
	struct fixture f;

	fx_open(&f, &shape_1k);
	nr_seals = 0;
	bh = bh_read(f.f_cache, FX_META);
	ck_assert(!IS_ERR(bh));
	lock_buffer(bh);
	pattern_fill(bh->b_data, bh->b_size - 4, 3, 0);
	bh_seal_later(bh, seal, SEED, 77);
	bh_set(bh, BH_DIRTY);
	unlock_buffer(bh);
	ck_assert_int_eq(bh_write_many(&bh, 1, 0), 0);
	check_disk(&f, FX_META, 3);
	bh_put(bh);
	ck_assert_int_eq(fx_unload(&f), 0);
	fx_close(&f);
}
END_TEST

int main(void)
{
	return RUN_TESTS("journal/seal", many_changes_of_a_transaction_are_sealed_once,
			 a_frozen_copy_is_sealed_and_so_is_what_follows_it,
			 without_a_log_it_is_sealed_on_its_way_home,
			 a_block_that_is_taken_anew_has_no_seal_of_its_former_use,
			 a_buffer_written_from_its_live_content_is_sealed);
}
