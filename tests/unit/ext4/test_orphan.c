/* SPDX-License-Identifier: GPL-2.0-or-later */
/* test_orphan.c - the orphan list and the orphan file: adding, taking off, crash and cleanup. */

#include "tests/lib/suite.h"
#include "tests/unit/ext4/fixture.h"

#define FILES 6u

static const char *const kinds[] = {"-t ext4 -b 1024", "-t ext4 -b 1024 -O orphan_file",
				    "-t ext4 -b 4096 -O orphan_file,^metadata_csum"};

/* Empty files: no blocks to be freed. */
static const char six_files[] = "write /dev/null a\nwrite /dev/null b\nwrite /dev/null c\n"
				"write /dev/null d\nwrite /dev/null e\nwrite /dev/null f";

/* The first file; the orphan file itself comes before it. */
static uint32_t first_ino(const struct test_fs *t)
{
	return ext4_has_compat(t->t_sb, EXT4_FEATURE_COMPAT_ORPHAN_FILE) ? 13 : 12;
}

static struct inode *get(struct test_fs *t, uint32_t ino)
{
	struct inode *inode = ext4_iget(t->t_sb, ino, EXT4_IGET_NORMAL);

	ck_assert_msg(!IS_ERR(inode), "inode %u", ino);
	return inode;
}

static void add(struct inode *inode)
{
	handle_t *h = ext4_journal_start(inode, HT_TRUNCATE, EXT4_ORPHAN_CREDITS + 1);

	ck_assert(!IS_ERR(h));
	ck_assert_int_eq(ext4_orphan_add(h, inode), 0);
	ck_assert(inode->i_on_orphan);
	/* A second time changes nothing. */
	ck_assert_int_eq(ext4_orphan_add(h, inode), 0);
	ck_assert_int_eq(ext4_journal_stop(h, 0), 0);
}

static void del(struct inode *inode)
{
	handle_t *h = ext4_journal_start(inode, HT_TRUNCATE, EXT4_ORPHAN_CREDITS);

	ck_assert(!IS_ERR(h));
	ck_assert_int_eq(ext4_orphan_del(h, inode), 0);
	ck_assert(!inode->i_on_orphan);
	ck_assert_int_eq(ext4_orphan_del(h, inode), 0);
	ck_assert_int_eq(ext4_journal_stop(h, 0), 0);
}

/* Commit, lose everything in memory, and mount again. */
static void crash(struct test_fs *t)
{
	ck_assert_int_eq(jbd2_journal_force_commit(t->t_sb->s_journal), 0);
	ext4_shutdown(t->t_sb, 2);
	fx_umount(t);
	ck_assert_int_eq(fx_mount(t), 0);
	ck_assert(!t->t_sb->s_clean_at_mount);
}

START_TEST(any_order_of_taking_off_keeps_the_list)
{
	/* Orders of six entries: as added, backwards, from the middle. */
	static const unsigned orders[3][FILES] = {
		{0, 1, 2, 3, 4, 5}, {5, 4, 3, 2, 1, 0}, {2, 4, 0, 5, 1, 3}};
	struct inode *inode[FILES];
	struct test_fs t;

	fx_make(&t, kinds[_i / 3], 24 * MIB, six_files);
	ck_assert_int_eq(fx_mount(&t), 0);
	for (unsigned i = 0; i < FILES; i++) {
		inode[i] = get(&t, first_ino(&t) + i);
		add(inode[i]);
	}
	for (unsigned i = 0; i < FILES; i++) {
		struct inode *left;
		uint32_t ino;

		del(inode[orders[_i % 3][i]]);
		/* The list on disk is the list in memory. */
		ino = le32_to_cpu(t.t_sb->s_es->s_last_orphan);
		TAILQ_FOREACH (left, &t.t_sb->s_orphans, i_orphan) {
			ck_assert_uint_eq(left->i_ino, ino);
			ino = left->i_dtime;
		}
		ck_assert_uint_eq(ino, 0);
	}
	ck_assert(ext4_orphan_file_empty(t.t_sb));
	for (unsigned i = 0; i < FILES; i++)
		iput(inode[i]);
	ck_assert_int_eq(fx_umount(&t), 0);
	ck_assert_int_eq(testlib_fsck(t.t_disk), 0);
	fx_free(&t);
}
END_TEST

/* Three inodes cut, three unlinked, one of each taken off again; then the power goes. */
START_TEST(cleanup_after_a_crash)
{
	struct inode *inode[FILES];
	struct test_fs t;

	fx_make(&t, kinds[_i / 2], 24 * MIB, six_files);
	t.t_opts.o_manual_commit = _i % 2 == 1;
	ck_assert_int_eq(fx_mount(&t), 0);
	for (unsigned i = 0; i < FILES; i++) {
		inode[i] = get(&t, first_ino(&t) + i);
		add(inode[i]);
	}
	del(inode[0]);
	del(inode[4]);
	for (unsigned i = 0; i < FILES; i++)
		iput(inode[i]);
	crash(&t);
	fx_truncations = 0;
	ck_assert_int_eq(ext4_orphan_cleanup(t.t_sb), 0);
	ck_assert_uint_eq(fx_truncations, 4);
	ck_assert_uint_eq(fx_evictions, 0);
	ck_assert_uint_eq(le32_to_cpu(t.t_sb->s_es->s_last_orphan), 0);
	ck_assert(ext4_orphan_file_empty(t.t_sb));
	ck_assert_int_eq(fx_umount(&t), 0);
	ck_assert_int_eq(testlib_fsck(t.t_disk), 0);
	fx_free(&t);
}
END_TEST

START_TEST(unlinked_inodes_are_deleted_at_mount)
{
	struct test_fs t;

	fx_make(&t, kinds[0], 24 * MIB,
		"write /dev/null a\nwrite /dev/null b\nunlink a\nunlink b\nsif <12> links_count 0\n"
		"sif <13> links_count 0\nsif <12> dtime 13\nsif <13> dtime 0\nssv last_orphan 12");
	t.t_opts.o_manual_commit = _i == 1;
	ck_assert_int_eq(fx_mount(&t), 0);
	ck_assert_int_eq(ext4_orphan_cleanup(t.t_sb), 0);
	ck_assert_uint_eq(fx_evictions, 2);
	ck_assert_uint_eq(le32_to_cpu(t.t_sb->s_es->s_last_orphan), 0);
	ck_assert_int_eq(PTR_ERR(ext4_iget(t.t_sb, 12, EXT4_IGET_HANDLE)), -ESTALE);
	ck_assert_int_eq(fx_umount(&t), 0);
	/* The counters of the superblock are alloc/'s and missing here: repaired, nothing else found. */
	ck_assert_int_le(testlib_fsck_args(t.t_disk, "-fy"), 1);
	ck_assert(fx_debugfs_says(&t, "testi <12>", "is not in use"));
	ck_assert_int_eq(testlib_fsck(t.t_disk), 0);
	fx_free(&t);
}
END_TEST

START_TEST(read_only_mount_leaves_orphans)
{
	struct test_fs t;

	fx_make(&t, kinds[0], 24 * MIB,
		"write /dev/null a\nunlink a\nsif <12> links_count 0\nsif <12> dtime 0\n"
		"ssv last_orphan 12");
	t.t_opts.o_read_only = true;
	ck_assert_int_eq(fx_mount(&t), 0);
	ck_assert_int_eq(ext4_orphan_cleanup(t.t_sb), 0);
	ck_assert_uint_eq(fx_evictions, 0);
	ck_assert_uint_eq(le32_to_cpu(t.t_sb->s_es->s_last_orphan), 12);
	/* Becoming writable deals with them. */
	ck_assert_int_eq(ext4_remount_rw(t.t_sb), 0);
	ck_assert_uint_eq(fx_evictions, 1);
	ck_assert_uint_eq(le32_to_cpu(t.t_sb->s_es->s_last_orphan), 0);
	fx_umount(&t);
	fx_free(&t);
}
END_TEST

START_TEST(damaged_lists_end)
{
	static const char *const commands[] = {
		"ssv last_orphan 8",
		"ssv last_orphan 0x7fffffff",
		"ssv last_orphan 1000",
		/* A file that points to itself, and two to each other. */
		"write /dev/null a\nsif <12> dtime 12\nssv last_orphan 12",
		"write /dev/null a\nwrite /dev/null b\nsif <12> dtime 13\nsif <13> dtime 12\n"
		"ssv last_orphan 12",
		/* Neither a file that can be cut nor unlinked. */
		"mknod p p\nsif <12> dtime 0\nssv last_orphan 12",
		"write /dev/null a\nsif <12> dtime 0xfffffff0\nssv last_orphan 12",
	};
	struct test_fs t;

	fx_make(&t, kinds[0], 24 * MIB, commands[_i]);
	t.t_opts.o_errors = ERRORS_CONTINUE;
	fx_log_reset();
	ck_assert_int_eq(fx_mount(&t), 0);
	ck_assert_int_eq(ext4_orphan_cleanup(t.t_sb), 0);
	ck_assert_uint_eq(le32_to_cpu(t.t_sb->s_es->s_last_orphan), 0);
	fx_umount(&t);
	fx_free(&t);
}
END_TEST

START_TEST(damaged_list_with_errors_ro)
{
	struct test_fs t;

	fx_make(&t, kinds[0], 24 * MIB, "ssv last_orphan 8");
	t.t_opts.o_errors = ERRORS_RO;
	fx_log_reset();
	ck_assert_int_eq(fx_mount(&t), 0);
	ext4_orphan_cleanup(t.t_sb);
	ck_assert(sb_rdonly(t.t_sb));
	ck_assert_int_eq(fx_umount(&t), -EFSCORRUPTED);
	fx_free(&t);
}
END_TEST

/* ---- The file ---- */

/* Where the first block of the orphan file is on the disk. */
static uint8_t *orphan_block(struct test_fs *t, uint32_t size)
{
	char command[64], *out, *p;
	uint64_t block;

	snprintf(command, sizeof(command), "bmap <%u> 0",
		 le32_to_cpu(fx_super(t)->s_orphan_file_inum));
	out = testlib_debugfs(t->t_disk, command);
	p = strchr(out, '\n');
	block = strtoull(p, NULL, 10);
	ck_assert_uint_ne(block, 0);
	free(out);
	return (uint8_t *)mem_data(t->t_disk) + block * size;
}

START_TEST(bad_magic_or_checksum_is_an_error)
{
	struct test_fs t;
	uint8_t *block;

	fx_make(&t, kinds[_i == 2 ? 2 : 1], 24 * MIB, NULL);
	block = orphan_block(&t, _i == 2 ? 4096 : 1024);
	if (_i == 0)
		block[1016] ^= 1;
	else if (_i == 1)
		block[1020] ^= 1;
	else
		block[4096 - 8] ^= 1;
	fx_log_reset();
	ck_assert_int_eq(fx_mount(&t), _i == 1 ? -EFSBADCRC : -EFSCORRUPTED);
	ck_assert_ptr_nonnull(strstr(fx_log, "orphan file"));
	/* To be read it need not be sound. */
	t.t_opts.o_read_only = true;
	ck_assert_int_eq(fx_mount(&t), 0);
	fx_umount(&t);
	fx_free(&t);
}
END_TEST

START_TEST(files_up_to_512_blocks)
{
	struct test_fs t;

	fx_make(&t,
		_i == 0 ? "-t ext4 -b 1024 -O orphan_file -E orphan_file_size=512k"
			: "-t ext4 -b 1024 -O orphan_file -E orphan_file_size=513k",
		24 * MIB, NULL);
	fx_log_reset();
	/* mke2fs may know better than to make the larger one. */
	if (fx_mount(&t) != 0)
		ck_assert_int_eq(_i, 1);
	fx_free(&t);
}
END_TEST

/* When the file is full the list takes over. */
START_TEST(full_file_falls_back_to_the_list)
{
	struct test_fs t;
	struct inode *inode;

	fx_make(&t, kinds[1], 24 * MIB, six_files);
	/* All slots of all blocks taken in the name of an inode that is no orphan. */
	ck_assert_int_eq(fx_mount(&t), 0);
	for (unsigned i = 0;; i++) {
		handle_t *h = ext4_journal_start_sb(t.t_sb, HT_MISC, 2, 0);
		uint32_t idx;
		int err;

		ck_assert(!IS_ERR(h));
		err = ext4_orphan_file_add(h, t.t_sb, 14, &idx);
		ck_assert_int_eq(ext4_journal_stop(h, 0), 0);
		if (err == -ENOSPC)
			break;
		ck_assert_int_eq(err, 0);
		ck_assert_uint_lt(i, 512 * 254);
	}
	inode = get(&t, 13);
	add(inode);
	ck_assert_uint_eq(inode->i_orphan_idx, UINT32_MAX);
	ck_assert_uint_eq(le32_to_cpu(t.t_sb->s_es->s_last_orphan), 13);
	del(inode);
	iput(inode);
	fx_umount(&t);
	fx_free(&t);
}
END_TEST

START_TEST(bad_entries_in_the_file_are_dropped)
{
	struct test_fs t;
	struct inode *inode;

	fx_make(&t, kinds[1], 24 * MIB, six_files);
	t.t_opts.o_errors = ERRORS_CONTINUE;
	fx_log_reset();
	ck_assert_int_eq(fx_mount(&t), 0);
	inode = get(&t, 13);
	add(inode);
	for (unsigned i = 0; i < 3; i++) {
		static const uint32_t bad[] = {8, 0xffffffff, 13};
		handle_t *h = ext4_journal_start_sb(t.t_sb, HT_MISC, 2, 0);
		uint32_t idx;

		ck_assert_int_eq(ext4_orphan_file_add(h, t.t_sb, bad[i], &idx), 0);
		ck_assert_int_eq(ext4_journal_stop(h, 0), 0);
	}
	iput(inode);
	crash(&t);
	fx_truncations = 0;
	ck_assert_int_eq(ext4_orphan_cleanup(t.t_sb), 0);
	ck_assert_uint_ge(fx_truncations, 1);
	ck_assert(ext4_orphan_file_empty(t.t_sb));
	fx_umount(&t);
	fx_free(&t);
}
END_TEST

START_TEST(without_a_log_nothing_is_recorded)
{
	struct test_fs t;
	struct inode *inode;
	handle_t *h;

	fx_make(&t, "-t ext4 -O ^has_journal", 24 * MIB, six_files);
	ck_assert_int_eq(fx_mount(&t), 0);
	inode = get(&t, 12);
	h = ext4_journal_start(inode, HT_TRUNCATE, 4);
	ck_assert_int_eq(ext4_orphan_add(h, inode), 0);
	ck_assert(!inode->i_on_orphan);
	ck_assert_int_eq(ext4_journal_stop(h, 0), 0);
	iput(inode);
	ck_assert_int_eq(fx_umount(&t), 0);
	ck_assert_int_eq(testlib_fsck(t.t_disk), 0);
	fx_free(&t);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("ext4/orphan");
	TCase *tc = testlib_case("all");

	tcase_add_loop_test(tc, any_order_of_taking_off_keeps_the_list, 0, 9);
	tcase_add_loop_test(tc, cleanup_after_a_crash, 0, 6);
	tcase_add_loop_test(tc, unlinked_inodes_are_deleted_at_mount, 0, 2);
	tcase_add_test(tc, read_only_mount_leaves_orphans);
	tcase_add_loop_test(tc, damaged_lists_end, 0, 7);
	tcase_add_test(tc, damaged_list_with_errors_ro);
	tcase_add_loop_test(tc, bad_magic_or_checksum_is_an_error, 0, 3);
	tcase_add_loop_test(tc, files_up_to_512_blocks, 0, 2);
	tcase_add_test(tc, full_file_falls_back_to_the_list);
	tcase_add_test(tc, bad_entries_in_the_file_are_dropped);
	tcase_add_test(tc, without_a_log_nothing_is_recorded);
	suite_add_tcase(s, tc);
	return testlib_run_suite(s);
}
