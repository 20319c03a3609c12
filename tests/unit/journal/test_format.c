/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * test_format.c - tags, checksums, revoke tables, fast-commit records: the parts of the format.
 */
#include "tests/lib/crash.h"
#include "tests/lib/prng.h"
#include "tests/lib/suite.h"
#include "tests/lib/testlib.h"
#include "tests/unit/journal/fc_area.h"
#include "tests/unit/journal/fixture.h"
#include "util/crc32c.h"

#define FC_TID 7u

START_TEST(crc32_is_the_one_with_the_high_bit_first)
{
	/* The check value of CRC-32/MPEG-2. */
	ck_assert_uint_eq(jbd2_crc32_be(~UINT32_C(0), "123456789", 9), 0x0376e6e7);
	ck_assert_uint_eq(jbd2_crc32_be(jbd2_crc32_be(~UINT32_C(0), "1234", 4), "56789", 5),
			  0x0376e6e7);
}
END_TEST

START_TEST(numbers_are_big_endian_wherever_they_lie)
{
	uint8_t b[12] = {0};

	put_be64(b + 1, UINT64_C(0x0102030405060708));
	ck_assert_uint_eq(b[1], 1);
	ck_assert_uint_eq(b[8], 8);
	ck_assert_uint_eq(get_be64(b + 1), UINT64_C(0x0102030405060708));
	ck_assert_uint_eq(get_be32(b + 3), 0x03040506);
	ck_assert_uint_eq(get_be16(b + 7), 0x0708);
	ck_assert_uint_eq(get_le32(b + 3), 0x06050403);
	ck_assert_uint_eq(get_le16(b + 7), 0x0807);
}
END_TEST

/* Bytes of a tag and tags of a 1 KiB block, from the format. */
static const struct {
	uint32_t incompat;
	unsigned tag_bytes, tags, revokes;
} layouts[] = {
	{0, 8, 124, 252},
	{JBD2_FEATURE_INCOMPAT_64BIT, 12, 83, 126},
	{JBD2_FEATURE_INCOMPAT_CSUM_V2, 10, 99, 251},
	{JBD2_FEATURE_INCOMPAT_CSUM_V2 | JBD2_FEATURE_INCOMPAT_64BIT, 14, 70, 125},
	{JBD2_FEATURE_INCOMPAT_CSUM_V3, 16, 62, 251},
	{JBD2_FEATURE_INCOMPAT_CSUM_V3 | JBD2_FEATURE_INCOMPAT_64BIT, 16, 62, 125},
};
#define LAYOUTS ((int)(sizeof(layouts) / sizeof(layouts[0])))

START_TEST(tags_have_the_size_of_their_features_and_come_back)
{
	journal_t *j = calloc(1, sizeof(*j));
	bool wide = (layouts[_i].incompat & JBD2_FEATURE_INCOMPAT_64BIT) != 0;
	bool v3 = (layouts[_i].incompat & JBD2_FEATURE_INCOMPAT_CSUM_V3) != 0;
	struct jbd2_tag in = {
		.tg_blocknr = wide ? UINT64_C(0x123456789a) : 0x89abcdef,
		.tg_flags = JBD2_FLAG_ESCAPE | JBD2_FLAG_LAST_TAG,
		.tg_csum = v3 ? 0xdeadbeef : 0xbeef,
	};
	struct jbd2_tag out;
	uint8_t p[20];

	j->j_block_bytes = 1024;
	j->j_feature_incompat = layouts[_i].incompat;
	jbd2_set_layout(j);
	ck_assert_uint_eq(j->j_tag_bytes, layouts[_i].tag_bytes);
	ck_assert_uint_eq(j->j_tags_per_block, layouts[_i].tags);
	ck_assert_uint_eq(j->j_revokes_per_block, layouts[_i].revokes);
	memset(p, 0xee, sizeof(p));
	jbd2_tag_write(j, p, &in);
	ck_assert_uint_eq(p[j->j_tag_bytes], 0xee);
	/* The low half of the flags lies at the same place in all kinds. */
	ck_assert_uint_eq(get_be16(p + 6), in.tg_flags);
	jbd2_tag_read(j, p, &out);
	ck_assert_uint_eq(out.tg_blocknr, in.tg_blocknr);
	ck_assert_uint_eq(out.tg_flags, in.tg_flags);
	ck_assert_uint_eq(out.tg_csum, in.tg_csum);
	free(j);
}
END_TEST

START_TEST(a_revoke_counts_for_its_sequence_and_older_ones)
{
	struct revoke_table rt;

	jbd2_revoke_init(&rt);
	ck_assert_int_eq(jbd2_revoke_insert(&rt, 5, UINT32_MAX), 1);
	ck_assert_int_eq(jbd2_revoke_insert(&rt, 5, 2), 0);
	ck_assert_int_eq(jbd2_revoke_insert(&rt, 5, 1), 0);
	ck_assert(jbd2_revoke_test(&rt, 5, 2));
	ck_assert(jbd2_revoke_test(&rt, 5, UINT32_MAX - 7));
	ck_assert(!jbd2_revoke_test(&rt, 5, 3));
	ck_assert(!jbd2_revoke_test(&rt, 6, 1));
	ck_assert(jbd2_revoke_cancel(&rt, 5));
	ck_assert(!jbd2_revoke_cancel(&rt, 5));
	ck_assert(!jbd2_revoke_test(&rt, 5, 1));
	ck_assert_uint_eq(atomic_load(&rt.rt_count), 0);
}
END_TEST

/* ---- Fast commits ---- */

/* A name of odd length, so that what follows is not aligned. */
static void fc_link(struct fc_area *fa, unsigned inode)
{
	uint8_t value[11];

	fca_put_le32(value, 2);
	fca_put_le32(value + 4, inode);
	memset(value + 8, 'a', 3);
	fca_add(fa, JBD2_FC_TAG_LINK, value, 11);
}

/* Two fast commits, the first over two blocks: 3 records and 1. */
static void fc_good(struct fc_area *fa)
{
	fca_init(fa, 1024);
	fca_head(fa, 0, FC_TID);
	fc_link(fa, 12);
	fc_link(fa, 13);
	fca_pad(fa);
	fc_link(fa, 14);
	fca_tail(fa, FC_TID);
	fc_link(fa, 15);
	fca_tail(fa, FC_TID);
}

static unsigned fc_records(const struct fc_area *fa, int *err)
{
	struct fc_scan fs = {.fs_tid = FC_TID};
	unsigned n;

	*err = jbd2_fc_scan(&fs, fa->fa_data, 4, 1024);
	n = fs.fs_nr;
	for (unsigned i = 0, k = 0; i < n; i++) {
		if (fs.fs_recs[i].fr_tag != JBD2_FC_TAG_LINK)
			continue;
		ck_assert_uint_eq(fs.fs_recs[i].fr_len_bytes, 11);
		ck_assert_uint_eq(get_le32(fs.fs_recs[i].fr_value + 4), 12 + k++);
	}
	free(fs.fs_recs);
	return n;
}

START_TEST(fast_commits_count_up_to_the_last_good_tail)
{
	struct fc_area fa;
	int err;

	fc_good(&fa);
	ck_assert_uint_eq(fc_records(&fa, &err), 4);
	ck_assert_int_eq(err, 0);
	/* The second is torn. */
	fa.fa_data[2048 + 6] ^= 1;
	ck_assert_uint_eq(fc_records(&fa, &err), 3);
	ck_assert_int_eq(err, 0);
	/* The first is: nothing is left. */
	fc_good(&fa);
	fa.fa_data[20] ^= 1;
	ck_assert_uint_eq(fc_records(&fa, &err), 0);
	ck_assert_int_eq(err, 0);
	/* Of another transaction. */
	fca_init(&fa, 1024);
	fca_head(&fa, 0, FC_TID - 1);
	fc_link(&fa, 12);
	fca_tail(&fa, FC_TID - 1);
	ck_assert_uint_eq(fc_records(&fa, &err), 0);
	ck_assert_int_eq(err, 0);
	/* A feature that is not known. */
	fca_init(&fa, 1024);
	fca_head(&fa, 1, FC_TID);
	fca_tail(&fa, FC_TID);
	ck_assert_uint_eq(fc_records(&fa, &err), 0);
	ck_assert_int_eq(err, -EOPNOTSUPP);
	/* Nothing at all. */
	fca_init(&fa, 1024);
	ck_assert_uint_eq(fc_records(&fa, &err), 0);
	ck_assert_int_eq(err, 0);
}
END_TEST

START_TEST(random_fast_commits_end_and_do_no_harm)
{
	struct fc_area fa;
	struct prng p;
	int err;

	prng_seed(&p, prng_seed_from_env(21));
	for (unsigned round = 0; round < 20000; round++) {
		/* In memory of its own, so that reading past the end is seen. */
		struct fc_scan fs = {.fs_tid = FC_TID};
		uint8_t *copy = malloc(sizeof(fa.fa_data));

		fc_good(&fa);
		for (unsigned n = 1 + (unsigned)prng_below(&p, 4); n > 0; n--)
			fa.fa_data[prng_below(&p, 2100)] = (uint8_t)prng_next(&p);
		memcpy(copy, fa.fa_data, sizeof(fa.fa_data));
		err = jbd2_fc_scan(&fs, copy, 4, 1024);
		ck_assert(err == 0 || err == -EOPNOTSUPP);
		ck_assert_uint_le(fs.fs_nr, fs.fs_seen);
		free(fs.fs_recs);
		free(copy);
	}
}
END_TEST

/* ---- Fast commits through recovery ---- */

/* A dirty log with a fast-commit area behind it. */
static void make_fc_log(struct fixture *f)
{
	const struct fx_shape shape = {.fs_block_bytes = 1024, .fs_log_blocks = 1300};
	struct fc_area fa;
	struct blkdev *dirty;
	uint8_t *sb, *data;
	tid_t tid;

	fx_open(f, &shape);
	tid = fx_write_one(f, FX_META, 1);
	ck_assert_int_eq(jbd2_journal_force_commit(f->f_j), 0);
	dirty = testlib_clone(f->f_dev);
	ck_assert_int_eq(fx_unload(f), 0);
	fx_close(f);
	fx_use(f, dirty);
	data = mem_data(dirty);
	sb = data + fx_pblk(f, 0) * 1024;
	put_be32(sb + FX_SB(s_feature_incompat),
		 get_be32(sb + FX_SB(s_feature_incompat)) | JBD2_FEATURE_INCOMPAT_FAST_COMMIT);
	put_be32(sb + FX_SB(s_num_fc_blks), 200);
	fca_init(&fa, 1024);
	fca_head(&fa, 0, tid + 1);
	fc_link(&fa, 12);
	fca_tail(&fa, tid + 1);
	memcpy(data + fx_pblk(f, 1300 - 200 + 1) * 1024, fa.fa_data, 1024);
}

/* What a recovery finds: the number of records; the journal is left for more. */
static unsigned found_records(struct fixture *f)
{
	unsigned n;

	ck_assert_int_eq(fx_init(f), 0);
	ck_assert_int_eq(jbd2_journal_recover(f->f_j), 0);
	(void)jbd2_fc_records(f->f_j, &n);
	return n;
}

/* The owner's part, as far as the release. */
static void change_held(struct fixture *f)
{
	ck_assert_int_eq(jbd2_journal_load(f->f_j), 0);
	jbd2_journal_hold_commits(f->f_j);
	/* More than a transaction has room for otherwise. */
	for (unsigned i = 0; i < 400; i++)
		fx_write_one(f, FX_META + i, 2);
	ck_assert_int_eq(jbd2_journal_force_commit(f->f_j), 0);
	ck_assert_int_eq(jbd2_complete_transaction(f->f_j, jbd2_newest_tid(f->f_j)), 0);
	ck_assert(fx_disk_is(f, FX_META, 1));
}

START_TEST(fast_commits_wait_for_their_owner)
{
	struct fixture f;
	unsigned n;

	make_fc_log(&f);
	/* Nobody to replay them: nothing is written. */
	ck_assert_int_eq(fx_recover(&f), -EOPNOTSUPP);
	ck_assert(fx_disk_is(&f, FX_META, 0));
	ck_assert_uint_ne(fx_sb_field(&f, FX_SB(s_start)), 0);
	f.f_params.jp_takes_fc = true;
	for (unsigned i = 0; i < 2; i++) {
		/* The owner gives up: they stay, and the log's own blocks are home. */
		ck_assert_uint_eq(found_records(&f), 1);
		ck_assert_uint_eq(jbd2_fc_records(f.f_j, &n)[0].fr_tag, JBD2_FC_TAG_LINK);
		ck_assert(fx_disk_is(&f, FX_META, 1));
		if (i == 1)
			ck_assert_int_eq(jbd2_journal_load(f.f_j), 0);
		ck_assert_int_eq(fx_unload(&f), -ESHUTDOWN);
		ck_assert_uint_ne(fx_sb_field(&f, FX_SB(s_start)), 0);
	}
	ck_assert_uint_eq(found_records(&f), 1);
	change_held(&f);
	ck_assert_int_eq(jbd2_journal_release_commits(f.f_j), 0);
	(void)jbd2_fc_records(f.f_j, &n);
	ck_assert_uint_eq(n, 0);
	ck_assert_int_eq(fx_unload(&f), 0);
	ck_assert(fx_disk_is(&f, FX_META + 399, 2));
	ck_assert_uint_eq(fx_sb_field(&f, FX_SB(s_start)), 0);
	/* The next life of the log has no such area. */
	fx_load(&f);
	ck_assert_uint_eq(f.f_j->j_last, 1300);
	fx_write_one(&f, FX_META, 3);
	ck_assert_int_eq(fx_unload(&f), 0);
	ck_assert_uint_eq(
		fx_sb_field(&f, FX_SB(s_feature_incompat)) & JBD2_FEATURE_INCOMPAT_FAST_COMMIT, 0);
	fx_close(&f);
}
END_TEST

START_TEST(more_than_the_log_holds_is_refused_while_commits_are_held)
{
	struct fixture f;
	handle_t *h;

	make_fc_log(&f);
	f.f_params.jp_takes_fc = true;
	ck_assert_uint_eq(found_records(&f), 1);
	change_held(&f);
	h = jbd2_journal_start(f.f_j, HT_MISC, 800, 0);
	ck_assert(IS_ERR(h));
	ck_assert_int_eq(PTR_ERR(h), -ENOSPC);
	h = fx_start(&f, 1);
	ck_assert_int_eq(jbd2_journal_extend(h, 800, 0), 1);
	ck_assert_int_eq(jbd2_journal_restart(h, 800, 0), -ENOSPC);
	ck_assert_int_eq(jbd2_journal_stop(h), 0);
	/* Giving up drops all of it. */
	jbd2_journal_abort(f.f_j, -ESHUTDOWN);
	ck_assert_int_eq(fx_unload(&f), -ESHUTDOWN);
	ck_assert_uint_eq(found_records(&f), 1);
	ck_assert(fx_disk_is(&f, FX_META, 1));
	ck_assert_int_eq(fx_unload(&f), -ESHUTDOWN);
	fx_close(&f);
}
END_TEST

START_TEST(a_cut_finds_the_fast_commits_or_what_the_owner_made_of_them)
{
	struct prng p;
	struct fixture f, g;
	struct blkdev *base, *image;
	unsigned seen[2] = {0, 0};

	prng_seed(&p, 77);
	make_fc_log(&f);
	base = testlib_clone(f.f_dev);
	fx_use(&f, log_open_memory(f.f_dev));
	f.f_params.jp_takes_fc = true;
	ck_assert_uint_eq(found_records(&f), 1);
	change_held(&f);
	ck_assert_int_eq(jbd2_journal_release_commits(f.f_j), 0);
	ck_assert_int_eq(fx_unload(&f), 0);
	image = testlib_clone(base);
	for (size_t n = 0; n <= log_entry_count(f.f_dev); n++) {
		unsigned found;

		memcpy(mem_data(image), mem_data(base), base->bd_size_bytes);
		crash_apply(f.f_dev, n, CRASH_RANDOM, &p, image);
		g = f;
		fx_use(&g, image);
		found = found_records(&g);
		ck_assert(fx_disk_is(&g, FX_META, found == 1 ? 1 : 2));
		ck_assert(fx_disk_is(&g, FX_META + 399, found == 1 ? 0 : 2));
		ck_assert_int_eq(fx_unload(&g), found == 1 ? -ESHUTDOWN : 0);
		seen[found]++;
	}
	ck_assert_uint_gt(seen[0], 0);
	ck_assert_uint_gt(seen[1], 0);
	blk_close(image);
	blk_close(base);
	fx_close(&f);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("journal/format");
	TCase *tc = testlib_case("format");

	tcase_add_test(tc, crc32_is_the_one_with_the_high_bit_first);
	tcase_add_test(tc, numbers_are_big_endian_wherever_they_lie);
	tcase_add_loop_test(tc, tags_have_the_size_of_their_features_and_come_back, 0, LAYOUTS);
	tcase_add_test(tc, a_revoke_counts_for_its_sequence_and_older_ones);
	tcase_add_test(tc, fast_commits_count_up_to_the_last_good_tail);
	tcase_add_test(tc, random_fast_commits_end_and_do_no_harm);
	tcase_add_test(tc, fast_commits_wait_for_their_owner);
	tcase_add_test(tc, more_than_the_log_holds_is_refused_while_commits_are_held);
	tcase_add_test(tc, a_cut_finds_the_fast_commits_or_what_the_owner_made_of_them);
	suite_add_tcase(s, tc);
	return testlib_run_suite(s);
}
