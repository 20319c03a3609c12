/* SPDX-License-Identifier: GPL-2.0-or-later */
/* test_features.c - docs/FORMAT.md against the code, and one image for each feature. */

#include "tests/lib/suite.h"
#include "tests/unit/ext4/fixture.h"

/* ---- The document ---- */

struct row {
	char r_name[64];
	char r_set[16];
	uint32_t r_mask;
	char r_policy[16];
};

/* A line "| name | set | mask | policy | ...". */
static bool parse_row(const char *line, struct row *r)
{
	unsigned mask;

	if (sscanf(line, "| %63[^ |] | %15[a-z_] | 0x%x | %15[a-z-] |", r->r_name, r->r_set, &mask,
		   r->r_policy) != 4)
		return false;
	r->r_mask = mask;
	return true;
}

static void set_bit_of(struct ext2_super_block *es, const char *set, uint32_t mask)
{
	memset(es, 0, sizeof(*es));
	if (strcmp(set, "compat") == 0)
		es->s_feature_compat = cpu_to_le32(mask);
	else if (strcmp(set, "incompat") == 0)
		es->s_feature_incompat = cpu_to_le32(mask);
	else if (strcmp(set, "ro_compat") == 0)
		es->s_feature_ro_compat = cpu_to_le32(mask);
	else
		ck_abort_msg("set %s", set);
}

static const char *policy_of(const struct ext4_feature_verdict *v)
{
	if (v->v_error != 0) {
		ck_assert_int_eq(v->v_error, -EOPNOTSUPP);
		return "refused";
	}
	return v->v_read_only ? "read-only" : "read-write";
}

static FILE *open_document(void)
{
	FILE *f = fopen(FORMAT_MANUAL, "r");

	ck_assert_msg(f != NULL, "%s", FORMAT_MANUAL);
	return f;
}

START_TEST(document_and_code_agree)
{
	uint32_t seen[3] = {0, 0, 0};
	struct ext4_feature_verdict v;
	struct ext2_super_block es;
	unsigned rows = 0;
	char line[1024];
	FILE *f = open_document();

	while (fgets(line, sizeof(line), f) != NULL) {
		struct row r;

		if (!parse_row(line, &r))
			continue;
		rows++;
		set_bit_of(&es, r.r_set, r.r_mask);
		seen[0] |= le32_to_cpu(es.s_feature_compat);
		seen[1] |= le32_to_cpu(es.s_feature_incompat);
		seen[2] |= le32_to_cpu(es.s_feature_ro_compat);
		ext4_check_features(&es, &v);
		ck_assert_msg(strcmp(policy_of(&v), r.r_policy) == 0, "%s is %s", r.r_name,
			      policy_of(&v));
		if (strcmp(r.r_policy, "read-write") != 0)
			ck_assert_str_eq(v.v_text, r.r_name);
	}
	fclose(f);
	ck_assert_uint_eq(rows, 42);
	/* What the document does not name the code does not know. */
	for (unsigned bit = 0; bit < 32; bit++) {
		uint32_t mask = 1u << bit;

		set_bit_of(&es, "incompat", mask);
		ext4_check_features(&es, &v);
		if ((seen[1] & mask) == 0) {
			ck_assert_int_eq(v.v_error, -EOPNOTSUPP);
			ck_assert_ptr_nonnull(strstr(v.v_text, "unknown incompat"));
		}
		set_bit_of(&es, "ro_compat", mask);
		ext4_check_features(&es, &v);
		ck_assert_int_eq(v.v_error, 0);
		if ((seen[2] & mask) == 0) {
			ck_assert(v.v_read_only);
			ck_assert_ptr_nonnull(strstr(v.v_text, "unknown ro_compat"));
		}
		set_bit_of(&es, "compat", mask);
		ext4_check_features(&es, &v);
		ck_assert_int_eq(v.v_error, 0);
		ck_assert(!v.v_read_only);
	}
}
END_TEST

START_TEST(refusal_wins_and_names_all)
{
	struct ext4_feature_verdict v;
	struct ext2_super_block es;

	memset(&es, 0, sizeof(es));
	es.s_feature_ro_compat = cpu_to_le32(EXT4_FEATURE_RO_COMPAT_QUOTA);
	es.s_feature_incompat = cpu_to_le32(EXT4_FEATURE_INCOMPAT_MMP |
					    EXT4_FEATURE_INCOMPAT_ENCRYPT | 0x80000000u);
	ext4_check_features(&es, &v);
	ck_assert_int_eq(v.v_error, -EOPNOTSUPP);
	ck_assert_str_eq(v.v_text, "mmp, encrypt, unknown incompat 0x80000000");
	es.s_feature_incompat = 0;
	es.s_feature_ro_compat |= cpu_to_le32(EXT4_FEATURE_RO_COMPAT_BIGALLOC | 0x40000000u);
	ext4_check_features(&es, &v);
	ck_assert_int_eq(v.v_error, 0);
	ck_assert(v.v_read_only);
	ck_assert_str_eq(v.v_text, "quota, bigalloc, unknown ro_compat 0x40000000");
}
END_TEST

START_TEST(text_is_cut_when_everything_is_set)
{
	struct ext4_feature_verdict v;
	struct ext2_super_block es;

	memset(&es, 0xff, sizeof(es));
	ext4_check_features(&es, &v);
	ck_assert_int_eq(v.v_error, -EOPNOTSUPP);
	ck_assert_uint_lt(strlen(v.v_text), sizeof(v.v_text));
}
END_TEST

/* ---- Images ---- */

struct image {
	const char *im_args;
	const char *im_commands;
	int im_error;
	bool im_read_only;
	const char *im_named; /* in the log */
};

static const struct image images[] = {
	{"-t ext4 -O inline_data", NULL, -EOPNOTSUPP, false, "inline_data"},
	{"-t ext4 -O ea_inode", NULL, -EOPNOTSUPP, false, "ea_inode"},
	{"-t ext4 -O encrypt", NULL, -EOPNOTSUPP, false, "encrypt"},
	{"-t ext4 -O casefold -E encoding=utf8", NULL, -EOPNOTSUPP, false, "casefold"},
	{"-t ext4 -O mmp", NULL, -EOPNOTSUPP, false, "mmp"},
	{"-O journal_dev -b 4096", NULL, -EOPNOTSUPP, false, "journal_dev"},
	{"-t ext4", "feature FEATURE_I19", -EOPNOTSUPP, false, "unknown incompat 0x80000"},
	{"-t ext4", "feature FEATURE_I12", -EOPNOTSUPP, false, "dirdata"},
	{"-t ext4", "feature FEATURE_R20", 0, true, "unknown ro_compat 0x100000"},
	{"-t ext4", "feature FEATURE_C20", 0, false, NULL},
	{"-t ext4 -O bigalloc", NULL, 0, true, "bigalloc"},
	{"-t ext4 -O bigalloc -b 1024 -C 4096", NULL, 0, true, "bigalloc"},
	{"-t ext4 -O quota", NULL, 0, true, "quota"},
	{"-t ext4 -O project -I 256", NULL, 0, true, "project"},
	{"-t ext4 -O verity", NULL, 0, true, "verity"},
	{"-t ext4 -O stable_inodes", NULL, 0, false, NULL},
	{"-t ext4", "feature read-only", 0, true, "read-only"},
	{"-t ext4", "feature shared_blocks", 0, true, "shared_blocks"},
	{"-t ext4 -O fast_commit", NULL, 0, false, NULL},
	{"-t ext4 -o Hurd -O ^64bit,^metadata_csum,^huge_file,^has_journal", NULL, 0, true, "Hurd"},
};

START_TEST(one_image_for_each_feature)
{
	const struct image *im = &images[_i];
	struct test_fs t;
	int err;

	fx_make(&t, im->im_args, 24 * MIB, im->im_commands);
	fx_log_reset();
	err = fx_mount(&t);
	ck_assert_msg(err == im->im_error, "%s: %d\n%s", im->im_args, err, fx_log);
	if (im->im_named != NULL)
		ck_assert_msg(strstr(fx_log, im->im_named) != NULL, "%s:\n%s", im->im_args, fx_log);
	if (err == 0) {
		struct inode *root = ext4_iget(t.t_sb, EXT4_ROOT_INO, EXT4_IGET_NORMAL);

		ck_assert_msg(!IS_ERR(root), "%s:\n%s", im->im_args, fx_log);
		iput(root);
		ck_assert_int_eq(sb_rdonly(t.t_sb), im->im_read_only);
		if (im->im_read_only)
			ck_assert_int_eq(ext4_remount_rw(t.t_sb), -EROFS);
		ck_assert_int_eq(fx_umount(&t), 0);
	}
	fx_free(&t);
}
END_TEST

START_TEST(large_blocks_are_refused_with_both_numbers)
{
	struct test_fs t;

	fx_make(&t, "-t ext4 -b 16384 -N 64", 64 * MIB, NULL);
	fx_log_reset();
	ck_assert_int_eq(fx_mount(&t), -EOPNOTSUPP);
	ck_assert_ptr_nonnull(strstr(fx_log, "16384"));
	ck_assert_ptr_nonnull(strstr(fx_log, "4096"));
	fx_free(&t);
}
END_TEST

START_TEST(blocks_smaller_than_sectors_are_refused_with_both_numbers)
{
	struct test_fs t;
	struct blkdev *view;
	struct super_block *sb;

	fx_make(&t, "-t ext4 -b 1024", 24 * MIB, NULL);
	fx_log_reset();
	view = mem_open(24 * MIB, 4096, mem_data(t.t_disk));
	ck_assert_int_eq(ext4_fill_super(view, &t.t_opts, NULL, &sb), -EOPNOTSUPP);
	ck_assert_ptr_nonnull(strstr(fx_log, "1024"));
	ck_assert_ptr_nonnull(strstr(fx_log, "4096"));
	blk_close(view);
	fx_free(&t);
}
END_TEST

START_TEST(sectors_of_4096_bytes_work)
{
	struct test_fs t;
	struct blkdev *view;

	fx_make(&t, "-t ext4 -b 4096", 24 * MIB, NULL);
	view = mem_open(24 * MIB, 4096, mem_data(t.t_disk));
	ck_assert_int_eq(ext4_fill_super(view, &t.t_opts, NULL, &t.t_sb), 0);
	ck_assert_int_eq(fx_umount(&t), 0);
	ck_assert_int_eq(testlib_fsck(t.t_disk), 0);
	fx_free(&t);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("ext4/features");
	TCase *tc = testlib_case("all");

	tcase_add_test(tc, document_and_code_agree);
	tcase_add_test(tc, refusal_wins_and_names_all);
	tcase_add_test(tc, text_is_cut_when_everything_is_set);
	tcase_add_loop_test(tc, one_image_for_each_feature, 0,
			    (int)(sizeof(images) / sizeof(images[0])));
	tcase_add_test(tc, large_blocks_are_refused_with_both_numbers);
	tcase_add_test(tc, blocks_smaller_than_sectors_are_refused_with_both_numbers);
	tcase_add_test(tc, sectors_of_4096_bytes_work);
	suite_add_tcase(s, tc);
	return testlib_run_suite(s);
}
