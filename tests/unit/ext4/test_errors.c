/* SPDX-License-Identifier: GPL-2.0-or-later */
/* test_errors.c - errors=, what the superblock remembers of errors, aborts, read and write failures. */

#include <sched.h>
#include <stdatomic.h>

#include "tests/lib/suite.h"
#include "tests/unit/ext4/fixture.h"

static const char plain[] = "-t ext4 -b 1024";
static atomic_uint panics;

static void panic(struct super_block *sb)
{
	(void)sb;
	atomic_fetch_add(&panics, 1);
}

static void mount_errors(struct test_fs *t, enum ext4_errors errors, bool manual)
{
	fx_make(t, plain, 24 * MIB, NULL);
	t->t_opts.o_errors = errors;
	t->t_opts.o_manual_commit = manual;
	fx_log_reset();
	ck_assert_int_eq(fx_mount(t), 0);
	t->t_sb->s_panic = panic;
}

static void check_record(struct test_fs *t, unsigned count)
{
	const struct ext2_super_block *es = fx_super(t);

	ck_assert(ext4_superblock_csum_ok(es));
	ck_assert(le16_to_cpu(es->s_state) & EXT2_ERROR_FS);
	ck_assert_uint_eq(le32_to_cpu(es->s_error_count), count);
	ck_assert_uint_eq(le32_to_cpu(es->s_first_error_ino), 17);
	ck_assert_uint_eq(le64_to_cpu(es->s_first_error_block), 99);
	ck_assert_uint_eq(es->s_first_error_errcode, EXT4_ERR_EFSCORRUPTED);
	ck_assert_uint_ne(es->s_first_error_time, 0);
	ck_assert_str_eq((const char *)es->s_first_error_func, "some_function");
}

START_TEST(continue_records_and_goes_on)
{
	struct test_fs t;
	handle_t *h;

	mount_errors(&t, ERRORS_CONTINUE, _i == 1);
	ck_assert_int_eq(
		ext4_error_at(t.t_sb, "some_function", -EFSCORRUPTED, 17, 99, "told %d", 5),
		-EFSCORRUPTED);
	ck_assert_int_eq(ext4_error_at(t.t_sb, "another_with_a_name_of_more_than_32_bytes",
				       -EFSCORRUPTED, 18, 0, "again"),
			 -EFSCORRUPTED);
	ck_assert_ptr_nonnull(strstr(fx_log, "some_function: inode #17: block 99: told 5"));
	ck_assert(!sb_rdonly(t.t_sb));
	h = ext4_journal_start_sb(t.t_sb, HT_MISC, 1, 0);
	ck_assert(!IS_ERR(h));
	ck_assert_int_eq(ext4_commit_super(h, t.t_sb), 0);
	ck_assert_int_eq(ext4_journal_stop(h, 0), 0);
	ck_assert_int_eq(fx_umount(&t), -EFSCORRUPTED);
	check_record(&t, 2);
	ck_assert_uint_eq(le32_to_cpu(fx_super(&t)->s_last_error_ino), 18);
	ck_assert_int_eq(
		memcmp(fx_super(&t)->s_last_error_func, "another_with_a_name_of_more_than", 32), 0);
	/* Clean otherwise: the log is empty. */
	ck_assert(!(le32_to_cpu(fx_super(&t)->s_feature_incompat) & EXT3_FEATURE_INCOMPAT_RECOVER));
	fx_free(&t);
}
END_TEST

START_TEST(remount_ro_stops_and_records)
{
	struct test_fs t;
	struct inode *root;
	handle_t *h;

	mount_errors(&t, ERRORS_RO, _i == 1);
	root = ext4_iget(t.t_sb, EXT4_ROOT_INO, 0);
	h = ext4_journal_start(root, HT_INODE, 1);
	ck_assert(!IS_ERR(h));
	root->i_mode = S_IFDIR | 0700;
	ck_assert_int_eq(ext4_mark_inode_dirty(h, root), 0);
	/* With a handle open. */
	ck_assert_int_eq(ext4_error_at(t.t_sb, "some_function", -EFSCORRUPTED, 17, 99, "told"),
			 -EFSCORRUPTED);
	ck_assert_int_eq(ext4_journal_stop(h, 0), -EROFS);
	ck_assert(sb_rdonly(t.t_sb));
	ck_assert_int_eq(ext4_check_writable(t.t_sb), -EROFS);
	ck_assert_int_eq(PTR_ERR(ext4_journal_start(root, HT_INODE, 1)), -EROFS);
	ck_assert_int_eq(ext4_remount_rw(t.t_sb), -EROFS);
	/* Later errors are counted, not acted on. */
	ext4_error_at(t.t_sb, "later", -EFSCORRUPTED, 1, 1, "later");
	iput(root);
	ck_assert_int_eq(fx_umount(&t), -EFSCORRUPTED);
	check_record(&t, 2);
	/* The change never reached the disk; the log is still to be replayed. */
	ck_assert(le32_to_cpu(fx_super(&t)->s_feature_incompat) & EXT3_FEATURE_INCOMPAT_RECOVER);
	ck_assert_int_le(testlib_fsck_args(t.t_disk, "-fy"), 1);
	ck_assert(fx_debugfs_says(&t, "stat <2>", "Mode:  0755"));
	ck_assert_int_eq(testlib_fsck(t.t_disk), 0);
	fx_free(&t);
}
END_TEST

START_TEST(panic_writes_and_calls)
{
	struct test_fs t;

	atomic_store(&panics, 0);
	mount_errors(&t, ERRORS_PANIC, false);
	ext4_error_at(t.t_sb, "some_function", -EFSCORRUPTED, 17, 99, "told");
	ck_assert_uint_eq(atomic_load(&panics), 1);
	check_record(&t, 1);
	ext4_error_at(t.t_sb, "some_function", -EFSCORRUPTED, 17, 99, "told");
	ck_assert_uint_eq(atomic_load(&panics), 1);
	fx_umount(&t);
	fx_free(&t);
}
END_TEST

START_TEST(default_comes_from_the_superblock)
{
	static const uint16_t on_disk[] = {EXT2_ERRORS_CONTINUE, EXT2_ERRORS_RO, EXT2_ERRORS_PANIC,
					   0};
	static const enum ext4_errors want[] = {ERRORS_CONTINUE, ERRORS_RO, ERRORS_PANIC,
						ERRORS_CONTINUE};
	struct test_fs t;

	fx_make(&t, plain, 24 * MIB, NULL);
	fx_super(&t)->s_errors = cpu_to_le16(on_disk[_i]);
	fx_super_changed(&t);
	ck_assert_int_eq(fx_mount(&t), 0);
	ck_assert_int_eq(atomic_load(&t.t_sb->s_errors), want[_i]);
	fx_umount(&t);
	fx_free(&t);
}
END_TEST

START_TEST(old_errors_stay_the_first)
{
	struct test_fs t;

	mount_errors(&t, ERRORS_CONTINUE, false);
	ext4_error_at(t.t_sb, "some_function", -EFSCORRUPTED, 17, 99, "told");
	ck_assert_int_eq(fx_umount(&t), -EFSCORRUPTED);
	ck_assert_int_eq(fx_mount(&t), 0);
	ck_assert_ptr_nonnull(strstr(fx_log, "has errors"));
	ck_assert(!t.t_sb->s_clean_at_mount);
	ck_assert_int_eq(ext4_std_error(t.t_sb, "reader", 21, 77, -EIO), -EIO);
	ck_assert_int_eq(fx_umount(&t), -EIO);
	check_record(&t, 2);
	ck_assert_uint_eq(fx_super(&t)->s_last_error_errcode, EXT4_ERR_EIO);
	ck_assert_str_eq((const char *)fx_super(&t)->s_last_error_func, "reader");
	ck_assert_uint_eq(le32_to_cpu(fx_super(&t)->s_last_error_ino), 21);
	ck_assert_uint_eq(le64_to_cpu(fx_super(&t)->s_last_error_block), 77);
	ck_assert_int_le(testlib_fsck_args(t.t_disk, "-fy"), 1);
	ck_assert_int_eq(testlib_fsck(t.t_disk), 0);
	fx_free(&t);
}
END_TEST

START_TEST(a_burst_is_cut)
{
	struct test_fs t;
	unsigned lines = 0;

	mount_errors(&t, ERRORS_CONTINUE, true);
	fx_log[0] = '\0';
	for (unsigned i = 0; i < 1000; i++)
		ext4_error(t.t_sb, 5, "the same again");
	for (char *p = fx_log; (p = strstr(p, "the same again")) != NULL; p++)
		lines++;
	ck_assert_uint_ge(lines, 1);
	ck_assert_uint_le(lines, 20);
	ck_assert_uint_eq(counter_read(&t.t_sb->s_stats.st_errors), 1000);
	fx_umount(&t);
	ck_assert_uint_eq(le32_to_cpu(fx_super(&t)->s_error_count), 1000);
	fx_free(&t);
}
END_TEST

/* Writes fail: the journal aborts, the file system is read-only; nothing hangs and the record is tried. */
START_TEST(failing_writes_abort)
{
	struct test_fs t;
	struct inode *root;
	handle_t *h;

	mount_errors(&t, ERRORS_CONTINUE, _i == 1);
	root = ext4_iget(t.t_sb, EXT4_ROOT_INO, 0);
	h = ext4_journal_start(root, HT_INODE, 1);
	root->i_mode = S_IFDIR | 0700;
	ck_assert_int_eq(ext4_mark_inode_dirty(h, root), 0);
	ck_assert_int_eq(ext4_journal_stop(h, 0), 0);
	blk_set_write_mode(t.t_sb->s_dev, BLK_WRITES_FAIL);
	ck_assert_int_lt(jbd2_journal_force_commit(t.t_sb->s_journal), 0);
	ck_assert_int_eq(ext4_check_writable(t.t_sb), -EROFS);
	/* The callback of the abort may still be on its way; the test's time limit ends the wait. */
	while (!sb_rdonly(t.t_sb))
		sched_yield();
	ck_assert(atomic_load(&t.t_sb->s_aborted));
	ck_assert_int_eq(PTR_ERR(ext4_journal_start(root, HT_INODE, 1)), -EROFS);
	iput(root);
	ck_assert_int_lt(fx_umount(&t), 0);
	/* Recoverable, with the change or without. */
	ck_assert_int_eq(fx_mount(&t), 0);
	ck_assert_int_eq(fx_umount(&t), 0);
	ck_assert_int_eq(testlib_fsck(t.t_disk), 0);
	fx_free(&t);
}
END_TEST

/* The device comes back after the abort: the record and the journal's error number are there. */
START_TEST(journal_error_number_becomes_the_error_state)
{
	struct test_fs t;

	mount_errors(&t, ERRORS_RO, false);
	jbd2_journal_abort(t.t_sb->s_journal, -EIO);
	ck_assert(sb_rdonly(t.t_sb));
	ck_assert_int_eq(fx_umount(&t), -EIO);
	/* Even if the superblock had not been written. */
	fx_super(&t)->s_state = cpu_to_le16(EXT2_VALID_FS);
	fx_super(&t)->s_error_count = 0;
	fx_super_changed(&t);
	ck_assert_int_eq(fx_mount(&t), 0);
	ck_assert(t.t_sb->s_mount_state & EXT2_ERROR_FS);
	ck_assert_int_eq(jbd2_journal_errno(t.t_sb->s_journal), 0);
	ck_assert_int_eq(fx_umount(&t), 0);
	ck_assert(le16_to_cpu(fx_super(&t)->s_state) & EXT2_ERROR_FS);
	fx_free(&t);
}
END_TEST

START_TEST(read_only_mounts_only_tell)
{
	struct test_fs t;
	struct blkdev *before;

	fx_make(&t, plain, 24 * MIB, NULL);
	before = testlib_clone(t.t_disk);
	t.t_opts.o_read_only = true;
	t.t_opts.o_errors = ERRORS_PANIC;
	fx_log_reset();
	ck_assert_int_eq(fx_mount(&t), 0);
	t.t_sb->s_panic = panic;
	atomic_store(&panics, 0);
	ext4_error_at(t.t_sb, "some_function", -EFSCORRUPTED, 17, 99, "told");
	ck_assert_uint_eq(atomic_load(&panics), 0);
	ck_assert_int_eq(fx_umount(&t), -EFSCORRUPTED);
	ck_assert_int_eq(memcmp(mem_data(before), mem_data(t.t_disk), 24 * MIB), 0);
	blk_close(before);
	fx_free(&t);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("ext4/errors");
	TCase *tc = testlib_case("all");

	tcase_add_loop_test(tc, continue_records_and_goes_on, 0, 2);
	tcase_add_loop_test(tc, remount_ro_stops_and_records, 0, 2);
	tcase_add_test(tc, panic_writes_and_calls);
	tcase_add_loop_test(tc, default_comes_from_the_superblock, 0, 4);
	tcase_add_test(tc, old_errors_stay_the_first);
	tcase_add_test(tc, a_burst_is_cut);
	tcase_add_loop_test(tc, failing_writes_abort, 0, 2);
	tcase_add_test(tc, journal_error_number_becomes_the_error_state);
	tcase_add_test(tc, read_only_mounts_only_tell);
	suite_add_tcase(s, tc);
	return testlib_run_suite(s);
}
