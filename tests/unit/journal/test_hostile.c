/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * test_hostile.c - logs that are wrong on purpose: refused, or replayed up to the last good transaction.
 *
 * A good dirty log of three transactions is made once for each shape; each case changes a copy of it,
 * mends the checksums that it does not mean to break, and says what recovery must do.
 *
 *	transaction 1	blocks 0 1 2 of the metadata become tags 1 2 3
 *	transaction 2	block 3 becomes tag 4, block 1 is revoked
 *	transaction 3	block 2 becomes tag 5
 */
#include "tests/lib/prng.h"
#include "tests/lib/suite.h"
#include "tests/lib/testlib.h"
#include "tests/unit/journal/fixture.h"

#define FIRST_TID 2u

/* Log blocks of the good log, from s_start on. */
enum {
	AT_DESC1,
	AT_DATA1,
	AT_COMMIT1 = 4,
	AT_REVOKE2,
	AT_DESC2,
	AT_COMMIT2 = 8,
	AT_DESC3,
	AT_END = 12
};

static struct fixture f;
static uint32_t log_start; /* s_start of the good log */

static void make_log(const struct fx_shape *shape)
{
	struct blkdev *dirty;
	handle_t *h;

	fx_format(&f, shape);
	fx_load(&f);
	h = fx_start(&f, 3);
	for (unsigned i = 0; i < 3; i++)
		fx_write(&f, h, FX_META + i, i + 1);
	ck_assert_int_eq(jbd2_journal_stop(h), 0);
	ck_assert_int_eq(jbd2_journal_force_commit(f.f_j), 0);
	h = jbd2_journal_start(f.f_j, HT_MISC, 1, 1);
	fx_write(&f, h, FX_META + 3, 4);
	ck_assert_int_eq(jbd2_journal_revoke(h, FX_META + 1, bh_find(f.f_cache, FX_META + 1)), 0);
	ck_assert_int_eq(jbd2_journal_stop(h), 0);
	ck_assert_int_eq(jbd2_journal_force_commit(f.f_j), 0);
	fx_write_one(&f, FX_META + 2, 5);
	ck_assert_int_eq(jbd2_journal_force_commit(f.f_j), 0);
	dirty = testlib_clone(f.f_dev);
	ck_assert_int_eq(fx_unload(&f), 0);
	blk_close(f.f_dev);
	fx_use(&f, dirty);
	log_start = fx_sb_field(&f, FX_SB(s_start));
}

static uint8_t *log_block(uint32_t lblk)
{
	return (uint8_t *)mem_data(f.f_dev) + fx_pblk(&f, lblk) * f.f_shape.fs_block_bytes;
}

/* n-th block after s_start. */
static uint8_t *at(unsigned n)
{
	return log_block(log_start + n);
}

static bool has_csum(void)
{
	return (f.f_shape.fs_incompat &
		(JBD2_FEATURE_INCOMPAT_CSUM_V2 | JBD2_FEATURE_INCOMPAT_CSUM_V3)) != 0;
}

/* A journal that only serves to compute checksums. */
static void mend_tail(uint8_t *block)
{
	ck_assert_int_eq(fx_init(&f), 0);
	jbd2_tail_csum_set(f.f_j, block);
	ck_assert_int_eq(fx_unload(&f), 0);
}

static void mend_sb(void)
{
	if (has_csum())
		put_be32(log_block(0) + FX_SB(s_checksum), jbd2_sb_csum(log_block(0)));
}

/* Blocks 0 .. 3 hold the tags that `transactions` replayed transactions give, or nothing. */
static bool replayed(unsigned transactions)
{
	static const uint64_t want[4][4] = {{0, 0, 0, 0}, {1, 2, 3, 0}, {1, 0, 3, 4}, {1, 0, 5, 4}};

	for (unsigned i = 0; i < 4; i++)
		if (!fx_disk_is(&f, FX_META + i, want[transactions][i]))
			return false;
	return true;
}

static void finish(void)
{
	fx_close(&f);
}

START_TEST(the_good_log_is_replayed)
{
	make_log(&fx_shapes[_i]);
	ck_assert_int_eq(fx_recover(&f), 0);
	ck_assert(replayed(3));
	ck_assert_uint_eq(fx_sb_field(&f, FX_SB(s_start)), 0);
	ck_assert_uint_eq(fx_sb_field(&f, FX_SB(s_sequence)), FIRST_TID + 4);
	finish();
}
END_TEST

START_TEST(a_descriptor_without_a_last_tag_ends_the_log)
{
	const uint8_t same_uuid = JBD2_FLAG_SAME_UUID;
	uint8_t *desc;

	make_log(&fx_shapes[_i]);
	desc = at(AT_DESC2);
	ck_assert_int_eq(fx_init(&f), 0);
	for (unsigned p = 12 + f.f_j->j_tag_bytes + 16; p + 8 < f.f_shape.fs_block_bytes;
	     p += f.f_j->j_tag_bytes)
		desc[p + 7] = same_uuid;
	desc[12 + 7] = 0;
	ck_assert_int_eq(fx_unload(&f), 0);
	mend_tail(desc);
	ck_assert_int_eq(fx_recover(&f), 0);
	ck_assert(replayed(1));
	finish();
}
END_TEST

START_TEST(a_tag_outside_the_device_is_refused_and_nothing_written)
{
	static const uint32_t targets[] = {0x7fffffff, FX_LOG + 3, FX_LOG + 1024 + FX_GAP - 1};

	for (unsigned i = 0; i < 3; i++) {
		make_log(&fx_shapes[_i]);
		put_be32(at(AT_DESC3) + 12, targets[i]);
		mend_tail(at(AT_DESC3));
		/* The compat checksum counts as unused when all its fields are zero. */
		if (f.f_shape.fs_compat != 0)
			memset(at(AT_DESC3 + 2) + 12, 0, 8);
		ck_assert_int_eq(fx_recover(&f), -EFSCORRUPTED);
		ck_assert(replayed(0));
		finish();
	}
}
END_TEST

START_TEST(a_revoke_count_beyond_the_block_is_refused)
{
	make_log(&fx_shapes[_i]);
	put_be32(at(AT_REVOKE2) + 12, f.f_shape.fs_block_bytes + 1);
	mend_tail(at(AT_REVOKE2));
	ck_assert_int_eq(fx_recover(&f), -EFSCORRUPTED);
	ck_assert(replayed(0));
	finish();
	make_log(&fx_shapes[_i]);
	put_be32(at(AT_REVOKE2) + 12, 3);
	mend_tail(at(AT_REVOKE2));
	ck_assert_int_eq(fx_recover(&f), 0);
	ck_assert(fx_disk_is(&f, FX_META + 1, 2));
	finish();
}
END_TEST

START_TEST(a_wrong_sequence_ends_the_log)
{
	make_log(&fx_shapes[_i]);
	put_be32(at(AT_DESC3) + 8, 77);
	mend_tail(at(AT_DESC3));
	ck_assert_int_eq(fx_recover(&f), 0);
	ck_assert(replayed(2));
	finish();
}
END_TEST

START_TEST(bad_checksums_of_each_kind)
{
	make_log(&fx_shapes[_i]);
	if (has_csum()) {
		at(AT_DESC2)[500] ^= 1;
		ck_assert_int_eq(fx_recover(&f), -EFSBADCRC);
		ck_assert(replayed(0));
		at(AT_DESC2)[500] ^= 1;
		at(AT_REVOKE2)[500] ^= 1;
		ck_assert_int_eq(fx_recover(&f), -EFSBADCRC);
		ck_assert(replayed(0));
		at(AT_REVOKE2)[500] ^= 1;
		log_block(0)[500] ^= 1;
		ck_assert_int_eq(fx_recover(&f), -EFSBADCRC);
		log_block(0)[500] ^= 1;
		/* Of a logged block: the rest is replayed, the error said, the log kept. */
		at(AT_DATA1)[500] ^= 1;
		ck_assert_int_eq(fx_recover(&f), -EFSBADCRC);
		ck_assert(fx_disk_is(&f, FX_META, 0));
		ck_assert(fx_disk_is(&f, FX_META + 2, 5));
		ck_assert_uint_ne(fx_sb_field(&f, FX_SB(s_start)), 0);
	}
	finish();
}
END_TEST

START_TEST(a_bad_commit_block_ends_the_log_and_is_recorded)
{
	make_log(&fx_shapes[_i]);
	if (!has_csum() && f.f_shape.fs_compat == 0) {
		finish();
		return;
	}
	at(AT_COMMIT2)[16] ^= 1;
	ck_assert_int_eq(fx_recover(&f), 0);
	ck_assert(replayed(1));
	ck_assert_int_eq((int32_t)fx_sb_field(&f, FX_SB(s_errno)), -EINVAL);
	finish();
}
END_TEST

START_TEST(a_log_that_bites_its_tail_comes_to_an_end)
{
	make_log(&fx_shapes[_i]);
	for (uint32_t lblk = 1; lblk < 1024; lblk++)
		memcpy(log_block(lblk), at(AT_DESC1), f.f_shape.fs_block_bytes);
	ck_assert_int_eq(fx_recover(&f), 0);
	ck_assert(replayed(0));
	finish();
}
END_TEST

static int init_error(size_t field, uint32_t value)
{
	int err;

	make_log(&fx_shapes[4]);
	put_be32(log_block(0) + field, value);
	mend_sb();
	err = fx_init(&f);
	if (err == 0)
		fx_unload(&f);
	finish();
	return err;
}

START_TEST(superblock_fields_are_checked)
{
	ck_assert_int_eq(init_error(FX_SB(s_start), 1024), -EFSCORRUPTED);
	ck_assert_int_eq(init_error(FX_SB(s_start), UINT32_MAX), -EFSCORRUPTED);
	ck_assert_int_eq(init_error(FX_SB(s_start), 5), 0);
	ck_assert_int_eq(init_error(FX_SB(s_maxlen), 0), -EFSCORRUPTED);
	ck_assert_int_eq(init_error(FX_SB(s_maxlen), 1025), -EFSCORRUPTED);
	ck_assert_int_eq(init_error(FX_SB(s_maxlen), 1000), -EFSCORRUPTED);
	ck_assert_int_eq(init_error(FX_SB(s_first), 0), -EFSCORRUPTED);
	ck_assert_int_eq(init_error(FX_SB(s_first), 1024), -EFSCORRUPTED);
	ck_assert_int_eq(init_error(FX_SB(s_first), 500), -EFSCORRUPTED);
	ck_assert_int_eq(init_error(FX_SB(s_blocksize), 1024), -EFSCORRUPTED);
	ck_assert_int_eq(init_error(FX_SB(s_blocksize), 0), -EFSCORRUPTED);
	ck_assert_int_eq(init_error(FX_SB(s_feature_incompat), 0x40 | 0x12), -EOPNOTSUPP);
	ck_assert_int_eq(init_error(FX_SB(s_feature_incompat), 0x1a), -EFSCORRUPTED);
	ck_assert_int_eq(init_error(FX_SB(s_feature_compat), 1), -EFSCORRUPTED);
	ck_assert_int_eq(init_error(FX_SB(s_feature_ro_compat), 1), -EOPNOTSUPP);
	ck_assert_int_eq(init_error(FX_SB(s_header.h_magic), 1), -EFSCORRUPTED);
	ck_assert_int_eq(init_error(FX_SB(s_header.h_blocktype), 2), -EFSCORRUPTED);
	ck_assert_int_eq(init_error(FX_SB(s_checksum_type), 0x01000000), -EFSCORRUPTED);
}
END_TEST

START_TEST(the_place_of_the_log_is_checked)
{
	make_log(&fx_shapes[4]);
	f.f_extents[1].le_lblk++;
	ck_assert_int_eq(fx_init(&f), -EFSCORRUPTED);
	f.f_extents[1].le_lblk--;
	f.f_extents[1].le_pblk = fx_dev_bytes(&f.f_shape) / 4096 - 5;
	ck_assert_int_eq(fx_init(&f), -EFSCORRUPTED);
	f.f_extents[1].le_pblk = UINT64_MAX - 3;
	ck_assert_int_eq(fx_init(&f), -EFSCORRUPTED);
	f.f_params.jp_nr_extents = 0;
	ck_assert_int_eq(fx_init(&f), -EFSCORRUPTED);
	finish();
}
END_TEST

/* What an external log with this field is good for. */
static int external_error(size_t field, uint32_t value)
{
	static const struct fx_shape shape = {
		.fs_block_bytes = 4096, .fs_log_blocks = 2000, .fs_external = true};
	uint8_t *sb;
	int err;

	fx_format(&f, &shape);
	sb = (uint8_t *)mem_data(f.f_log_dev) + 4096;
	put_be32(sb + field, value);
	err = fx_init(&f);
	if (err == 0)
		fx_unload(&f);
	fx_close(&f);
	return err;
}

START_TEST(fields_of_an_external_log_are_checked)
{
	ck_assert_int_eq(external_error(FX_SB(s_nr_users), 1), 0);
	ck_assert_int_eq(external_error(FX_SB(s_nr_users), 0), -EINVAL);
	ck_assert_int_eq(external_error(FX_SB(s_nr_users), 2), -EINVAL);
	ck_assert_int_eq(external_error(FX_SB(s_nr_users), UINT32_MAX), -EINVAL);
	ck_assert_int_eq(external_error(FX_SB(s_users), 0x77777778), -EINVAL);
	/* The circle begins behind the superblock, which is not at 0 there. */
	ck_assert_int_eq(external_error(FX_SB(s_first), 1), -EFSCORRUPTED);
	ck_assert_int_eq(external_error(FX_SB(s_maxlen), 2001), -EFSCORRUPTED);
	ck_assert_int_eq(external_error(FX_SB(s_header.h_magic), 0), -EFSCORRUPTED);
}
END_TEST

/* The log of 1300 blocks has this many for fast commits, as it says, and begins there: the result, and the end of its circle. */
static int fc_error(uint32_t fc_blocks, uint32_t start, uint32_t *last)
{
	static const struct fx_shape shape = {.fs_block_bytes = 1024,
					      .fs_log_blocks = 1300,
					      .fs_incompat = JBD2_FEATURE_INCOMPAT_CSUM_V3};
	const uint32_t incompat = JBD2_FEATURE_INCOMPAT_CSUM_V3 |
				  JBD2_FEATURE_INCOMPAT_FAST_COMMIT | JBD2_FEATURE_INCOMPAT_REVOKE;
	int err;

	make_log(&shape);
	put_be32(log_block(0) + FX_SB(s_feature_incompat), incompat);
	put_be32(log_block(0) + FX_SB(s_num_fc_blks), fc_blocks);
	if (start != 0)
		put_be32(log_block(0) + FX_SB(s_start), start);
	mend_sb();
	err = fx_init(&f);
	if (err == 0) {
		*last = f.f_j->j_last;
		err = jbd2_journal_recover(f.f_j);
		fx_unload(&f);
	}
	finish();
	return err;
}

START_TEST(the_fast_commit_area_is_checked)
{
	uint32_t last = 0;

	ck_assert_int_eq(fc_error(200, 0, &last), 0);
	ck_assert_uint_eq(last, 1100);
	ck_assert_int_eq(fc_error(0, 0, &last), 0);
	ck_assert_uint_eq(last, 1300 - JBD2_DEFAULT_FC_BLOCKS);
	/* It would leave too little, or less than nothing: there is none. */
	ck_assert_int_eq(fc_error(277, 0, &last), 0);
	ck_assert_uint_eq(last, 1300);
	ck_assert_int_eq(fc_error(1300, 0, &last), 0);
	ck_assert_uint_eq(last, 1300);
	ck_assert_int_eq(fc_error(UINT32_MAX, 0, &last), 0);
	ck_assert_uint_eq(last, 1300);
	/* The log cannot begin in it. */
	ck_assert_int_eq(fc_error(200, 1100, &last), -EFSCORRUPTED);
	ck_assert_int_eq(fc_error(200, 1099, &last), 0);
}
END_TEST

START_TEST(block_numbers_of_64_bits_are_taken_whole)
{
	const struct fx_shape *shape = &fx_shapes[4];
	const unsigned high = 12 + 8; /* of the first tag, v3 */

	make_log(shape);
	put_be32(at(AT_DESC3) + high, 1);
	mend_tail(at(AT_DESC3));
	ck_assert_int_eq(fx_recover(&f), -EFSCORRUPTED);
	ck_assert(replayed(0));
	/* A revoked block that no device has does nothing. */
	finish();
	make_log(shape);
	put_be32(at(AT_REVOKE2) + 16, UINT32_MAX);
	mend_tail(at(AT_REVOKE2));
	ck_assert_int_eq(fx_recover(&f), 0);
	ck_assert(fx_disk_is(&f, FX_META + 1, 2));
	finish();
}
END_TEST

START_TEST(random_damage_never_does_harm)
{
	struct blkdev *good;
	struct prng p;

	prng_seed(&p, prng_seed_from_env(4711 + (uint64_t)_i));
	make_log(&fx_shapes[_i]);
	good = testlib_clone(f.f_dev);
	for (unsigned round = 0; round < 150; round++) {
		int err;

		memcpy(mem_data(f.f_dev), mem_data(good), good->bd_size_bytes);
		for (unsigned n = 1 + (unsigned)prng_below(&p, 6); n > 0; n--) {
			uint8_t *block = prng_chance(&p, 1, 5)
						 ? log_block(0)
						 : at((unsigned)prng_below(&p, AT_END));
			size_t byte = prng_chance(&p, 4, 5)
					      ? prng_below(&p, 100)
					      : prng_below(&p, f.f_shape.fs_block_bytes);

			block[byte] = (uint8_t)prng_next(&p);
		}
		if (prng_chance(&p, 1, 2))
			mend_sb();
		err = fx_recover(&f);
		if (err != 0 && err != -EFSCORRUPTED && err != -EFSBADCRC && err != -EOPNOTSUPP)
			ck_abort_msg("round %u: error %d", round, err);
	}
	blk_close(good);
	finish();
}
END_TEST

int main(void)
{
	Suite *s = suite_create("journal/hostile");
	TCase *tc = testlib_case("hostile");

	tcase_add_loop_test(tc, the_good_log_is_replayed, 0, FX_SHAPES);
	tcase_add_loop_test(tc, a_descriptor_without_a_last_tag_ends_the_log, 0, FX_SHAPES);
	tcase_add_loop_test(tc, a_tag_outside_the_device_is_refused_and_nothing_written, 0,
			    FX_SHAPES);
	tcase_add_loop_test(tc, a_revoke_count_beyond_the_block_is_refused, 0, FX_SHAPES);
	tcase_add_loop_test(tc, a_wrong_sequence_ends_the_log, 0, FX_SHAPES);
	tcase_add_loop_test(tc, bad_checksums_of_each_kind, 0, FX_SHAPES);
	tcase_add_loop_test(tc, a_bad_commit_block_ends_the_log_and_is_recorded, 0, FX_SHAPES);
	tcase_add_loop_test(tc, a_log_that_bites_its_tail_comes_to_an_end, 0, FX_SHAPES);
	tcase_add_test(tc, superblock_fields_are_checked);
	tcase_add_test(tc, the_place_of_the_log_is_checked);
	tcase_add_test(tc, fields_of_an_external_log_are_checked);
	tcase_add_test(tc, the_fast_commit_area_is_checked);
	tcase_add_test(tc, block_numbers_of_64_bits_are_taken_whole);
	tcase_add_loop_test(tc, random_damage_never_does_harm, 0, FX_SHAPES);
	suite_add_tcase(s, tc);
	return testlib_run_suite(s);
}
