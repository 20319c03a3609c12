/* SPDX-License-Identifier: GPL-2.0-or-later */
/* test_mount_journal.c - finding the log, replaying it, and refusing what cannot be replayed. */

#include "tests/lib/suite.h"
#include "tests/unit/ext4/fixture.h"

#define ROOT_MODE_CHANGED 0701

static uint16_t root_mode(struct test_fs *t)
{
	struct inode *root = ext4_iget(t->t_sb, EXT4_ROOT_INO, EXT4_IGET_NORMAL);
	uint16_t mode;

	ck_assert(!IS_ERR(root));
	mode = root->i_mode & 07777;
	iput(root);
	return mode;
}

static void change_root(struct test_fs *t)
{
	struct inode *root = ext4_iget(t->t_sb, EXT4_ROOT_INO, EXT4_IGET_NORMAL);
	handle_t *h = ext4_journal_start(root, HT_INODE, 1);

	ck_assert(!IS_ERR(h));
	root->i_mode = S_IFDIR | ROOT_MODE_CHANGED;
	ck_assert_int_eq(ext4_mark_inode_dirty(h, root), 0);
	ck_assert_int_eq(ext4_journal_stop(h, 0), 0);
	iput(root);
}

/* A committed transaction in the log, and nothing at home. */
static void leave_dirty(struct test_fs *t)
{
	ck_assert_int_eq(fx_mount(t), 0);
	change_root(t);
	ck_assert_int_eq(ext4_shutdown(t->t_sb, 1), 0);
	fx_umount(t);
	ck_assert(le32_to_cpu(fx_super(t)->s_feature_incompat) & EXT3_FEATURE_INCOMPAT_RECOVER);
}

static const char *const kinds[] = {
	"-t ext4 -b 1024",
	"-t ext4 -b 4096",
	"-t ext4 -b 1024 -J size=1",
	"-t ext4 -b 1024 -O ^64bit",
	"-t ext4 -b 1024 -O ^metadata_csum",
	"-t ext3 -b 1024",
	"-t ext3 -b 4096 -I 128",
	"-t ext4 -b 1024 -O fast_commit",
};
#define NR_KINDS ((int)(sizeof(kinds) / sizeof(kinds[0])))

START_TEST(dirty_log_is_replayed)
{
	struct test_fs t;

	fx_make(&t, kinds[_i], 24 * MIB, NULL);
	fx_log_reset();
	leave_dirty(&t);
	ck_assert_int_eq(fx_mount(&t), 0);
	ck_assert_ptr_nonnull(strstr(fx_log, "recovering"));
	ck_assert(!t.t_sb->s_clean_at_mount);
	ck_assert_uint_eq(root_mode(&t), ROOT_MODE_CHANGED);
	ck_assert_int_eq(fx_umount(&t), 0);
	ck_assert_int_eq(testlib_fsck(t.t_disk), 0);
	fx_free(&t);
}
END_TEST

START_TEST(e2fsck_replays_the_same)
{
	struct test_fs t;

	fx_make(&t, kinds[_i], 24 * MIB, NULL);
	fx_log_reset();
	leave_dirty(&t);
	ck_assert_int_le(testlib_fsck_args(t.t_disk, "-fy -E journal_only"), 1);
	ck_assert(fx_debugfs_says(&t, "stat <2>", "Mode:  0701"));
	ck_assert_int_eq(testlib_fsck(t.t_disk), 0);
	fx_free(&t);
}
END_TEST

START_TEST(read_only_mount_replays_and_says_so)
{
	struct test_fs t;

	fx_make(&t, kinds[_i], 24 * MIB, NULL);
	fx_log_reset();
	leave_dirty(&t);
	t.t_opts.o_read_only = true;
	ck_assert_int_eq(fx_mount(&t), 0);
	ck_assert_uint_eq(root_mode(&t), ROOT_MODE_CHANGED);
	ck_assert(!(le32_to_cpu(fx_super(&t)->s_feature_incompat) & EXT3_FEATURE_INCOMPAT_RECOVER));
	ck_assert_int_eq(fx_umount(&t), 0);
	ck_assert_int_eq(testlib_fsck(t.t_disk), 0);
	fx_free(&t);
}
END_TEST

static int mount_read_only_device(struct test_fs *t)
{
	struct blkdev *view = mem_open(t->t_disk->bd_size_bytes, 512, mem_data(t->t_disk));
	int err;

	view->bd_read_only = true;
	err = ext4_fill_super(view, &t->t_opts, &t->t_upper, &t->t_sb);
	if (err != 0)
		blk_close(view);
	return err;
}

START_TEST(read_only_device)
{
	struct test_fs t;

	fx_make(&t, kinds[0], 24 * MIB, NULL);
	fx_log_reset();
	/* Clean: no matter. */
	ck_assert_int_eq(mount_read_only_device(&t), 0);
	ck_assert(sb_rdonly(t.t_sb));
	ck_assert_int_eq(ext4_remount_rw(t.t_sb), -EROFS);
	ck_assert_int_eq(fx_umount(&t), 0);
	leave_dirty(&t);
	ck_assert_int_eq(mount_read_only_device(&t), -EROFS);
	ck_assert_ptr_nonnull(strstr(fx_log, "norecovery"));
	t.t_opts.o_noload = true;
	ck_assert_int_eq(mount_read_only_device(&t), 0);
	ck_assert_uint_eq(root_mode(&t), 0755);
	ck_assert_int_eq(fx_umount(&t), 0);
	fx_free(&t);
}
END_TEST

START_TEST(norecovery_is_for_reading)
{
	struct test_fs t;
	struct blkdev *before;

	fx_make(&t, kinds[0], 24 * MIB, NULL);
	fx_log_reset();
	leave_dirty(&t);
	before = testlib_clone(t.t_disk);
	t.t_opts.o_noload = true;
	ck_assert_int_eq(fx_mount(&t), -EINVAL);
	t.t_opts.o_read_only = true;
	ck_assert_int_eq(fx_mount(&t), 0);
	ck_assert_uint_eq(root_mode(&t), 0755);
	ck_assert_int_eq(ext4_remount_rw(t.t_sb), -EINVAL);
	ck_assert_int_eq(fx_umount(&t), 0);
	ck_assert_int_eq(memcmp(mem_data(before), mem_data(t.t_disk), 24 * MIB), 0);
	blk_close(before);
	/* On a clean file system it means: without the log. */
	t.t_opts.o_read_only = false;
	ck_assert_int_le(testlib_fsck_args(t.t_disk, "-fy"), 1);
	ck_assert_int_eq(fx_mount(&t), 0);
	ck_assert(!jbd2_has_log(t.t_sb->s_journal));
	change_root(&t);
	ck_assert_int_eq(fx_umount(&t), 0);
	ck_assert_int_eq(testlib_fsck(t.t_disk), 0);
	fx_free(&t);
}
END_TEST

START_TEST(log_in_use_without_the_flag_is_replayed)
{
	struct test_fs t;

	fx_make(&t, kinds[0], 24 * MIB, NULL);
	fx_log_reset();
	leave_dirty(&t);
	fx_super(&t)->s_feature_incompat &= cpu_to_le32(~(uint32_t)EXT3_FEATURE_INCOMPAT_RECOVER);
	fx_super_changed(&t);
	ck_assert_int_eq(fx_mount(&t), 0);
	ck_assert_uint_eq(root_mode(&t), ROOT_MODE_CHANGED);
	ck_assert_int_eq(fx_umount(&t), 0);
	ck_assert_int_eq(testlib_fsck(t.t_disk), 0);
	fx_free(&t);
}
END_TEST

/* The log carries a superblock: what it says counts, but for the errors met since. */
START_TEST(superblock_in_the_log)
{
	struct test_fs t;
	handle_t *h;

	fx_make(&t, kinds[0], 24 * MIB, NULL);
	fx_log_reset();
	ck_assert_int_eq(fx_mount(&t), 0);
	/* A superblock with a feature that is refused goes into the log. */
	h = ext4_journal_start_sb(t.t_sb, HT_MISC, 1, 0);
	ck_assert_int_eq(ext4_journal_get_write_access(h, t.t_sb->s_sbh), 0);
	lock_buffer(t.t_sb->s_sbh);
	if (_i == 0)
		t.t_sb->s_es->s_feature_incompat |= cpu_to_le32(EXT4_FEATURE_INCOMPAT_MMP);
	else if (_i == 1)
		t.t_sb->s_es->s_inodes_per_group = 0;
	else
		memset(t.t_sb->s_es->s_volume_name, 'x', 8);
	ext4_superblock_csum_set(t.t_sb->s_es);
	unlock_buffer(t.t_sb->s_sbh);
	ck_assert_int_eq(ext4_handle_dirty_metadata(h, NULL, t.t_sb->s_sbh), 0);
	ck_assert_int_eq(ext4_journal_stop(h, 0), 0);
	ck_assert_int_eq(ext4_shutdown(t.t_sb, 1), 0);
	fx_umount(&t);
	fx_super(&t)->s_error_count = cpu_to_le32(3);
	fx_super(&t)->s_first_error_time = cpu_to_le32(77);
	fx_super_changed(&t);
	if (_i == 2) {
		ck_assert_int_eq(fx_mount(&t), 0);
		ck_assert_int_eq(fx_umount(&t), 0);
		ck_assert_int_eq(memcmp(fx_super(&t)->s_volume_name, "xxxxxxxx", 8), 0);
		ck_assert_uint_eq(le32_to_cpu(fx_super(&t)->s_error_count), 3);
		ck_assert_uint_eq(le32_to_cpu(fx_super(&t)->s_first_error_time), 77);
	} else {
		ck_assert_int_eq(fx_mount(&t), _i == 0 ? -EOPNOTSUPP : -EFSCORRUPTED);
	}
	fx_free(&t);
}
END_TEST

/* A journal superblock that looks clean and is not. */
START_TEST(damaged_journal_superblock)
{
	struct test_fs t;
	uint64_t block;

	fx_make(&t, kinds[0], 24 * MIB, NULL);
	t.t_opts.o_read_only = true;
	ck_assert_int_eq(fx_mount(&t), 0);
	block = t.t_sb->s_journal_map[0].le_pblk;
	fx_umount(&t);
	t.t_opts.o_read_only = false;
	/* Magic, block size, length, first block, features. */
	((uint8_t *)mem_data(t.t_disk))[block * 1024 + (size_t[]){0, 14, 16, 22, 40}[_i]] ^= 0x41;
	fx_log_reset();
	ck_assert_int_lt(fx_mount(&t), 0);
	ck_assert_str_ne(fx_log, "");
	/* It can still be read. */
	t.t_opts.o_read_only = true;
	t.t_opts.o_noload = true;
	ck_assert_int_eq(fx_mount(&t), 0);
	ck_assert_int_eq(fx_umount(&t), 0);
	fx_free(&t);
}
END_TEST

/* ---- The map of the journal inode ---- */

START_TEST(map_covers_the_log)
{
	struct test_fs t;
	uint64_t next = 0;

	fx_make(&t, kinds[_i], 24 * MIB, NULL);
	ck_assert_int_eq(fx_mount(&t), 0);
	for (unsigned i = 0; i < t.t_sb->s_nr_journal_map; i++) {
		const struct jbd2_log_extent *le = &t.t_sb->s_journal_map[i];

		ck_assert_uint_eq(le->le_lblk, next);
		next += le->le_len;
		ck_assert(!ext4_data_block_valid(t.t_sb, le->le_pblk + le->le_len - 1, 1));
	}
	ck_assert_uint_ge(next, 1024);
	fx_umount(&t);
	fx_free(&t);
}
END_TEST

START_TEST(damaged_journal_inode)
{
	static const char *const commands[] = {
		"sif <8> mode 040644",
		"sif <8> links_count 0",
		"sif <8> size 0",
		"sif <8> size 1025",
		"sif <8> size 0xfffffc00",
		"sif <8> block[0] 0x0001f30b",
		"sif <8> block[0] 0x0009f30a",
		"sif <8> block[1] 0x00060004",
		"sif <8> block[5] 0x7fffffff",
		"sif <8> flags 0x10000000",
		"sif <8> block[5] 1",
	};
	struct test_fs t;

	fx_make(&t, kinds[0], 24 * MIB, commands[_i]);
	fx_log_reset();
	ck_assert_msg(fx_mount(&t) == -EFSCORRUPTED, "%s\n%s", commands[_i], fx_log);
	fx_free(&t);
}
END_TEST

START_TEST(damaged_indirect_journal)
{
	static const char *const commands[] = {
		"sif <8> block[0] 0",	"sif <8> block[3] 0xffffffff",
		"sif <8> block[IND] 0", "sif <8> block[IND] 0x7ffffff",
		"sif <8> block[IND] 1", "sif <8> block[DIND] 0",
	};
	struct test_fs t;

	fx_make(&t, "-t ext3 -b 1024", 24 * MIB, commands[_i]);
	fx_log_reset();
	ck_assert_msg(fx_mount(&t) == -EFSCORRUPTED, "%s\n%s", commands[_i], fx_log);
	fx_free(&t);
}
END_TEST

/* ---- External ---- */

struct external {
	struct test_fs x_fs;
	struct blkdev *x_log;
};

/* mke2fs wants both devices at once: made in files and read back. */
static void make_external(struct external *x, unsigned block)
{
	char *log = testlib_tempfile(), *fs = testlib_tempfile();
	char command[1024];

	memset(x, 0, sizeof(*x));
	snprintf(command, sizeof(command),
		 "truncate -s 8M '%s' && truncate -s 24M '%s' &&"
		 "mke2fs -F -q -b %u -O journal_dev '%s' && mke2fs -F -q -t ext4 -b %u '%s' &&"
		 "debugfs -w -R 'feature has_journal' '%s'",
		 log, fs, block, log, block, fs, fs);
	ck_assert_int_eq(testlib_run(command, NULL), 0);
	x->x_log = mem_open(8 * MIB, 512, NULL);
	x->x_fs.t_disk = mem_open(24 * MIB, 512, NULL);
	ck_assert_int_eq(testlib_load(x->x_log, log), 0);
	ck_assert_int_eq(testlib_load(x->x_fs.t_disk, fs), 0);
	testlib_run((snprintf(command, sizeof(command), "rm -f '%s' '%s'", log, fs), command),
		    NULL);
	free(log);
	free(fs);
	ext4_options_init(&x->x_fs.t_opts);
	x->x_fs.t_opts.o_name = "test";
}

/* Tie them by hand: the file system names the log's UUID, the log the file system's. */
static void tie(struct external *x, unsigned block)
{
	struct ext2_super_block *es = fx_super(&x->x_fs);
	uint8_t *log = mem_data(x->x_log);
	uint8_t *jsb = log + (block == 1024 ? 2 : 1) * block;

	es->s_journal_inum = 0;
	es->s_journal_dev = cpu_to_le32(0x801);
	memcpy(es->s_journal_uuid, log + 1024 + offsetof(struct ext2_super_block, s_uuid), 16);
	fx_super_changed(&x->x_fs);
	/* s_nr_users and s_users[0] of the journal superblock. */
	jsb[0x43] = 1;
	memcpy(jsb + 0x100, es->s_uuid, 16);
}

START_TEST(external_journal)
{
	static const unsigned blocks[] = {1024, 4096};
	struct external x;
	struct blkdev *view;

	make_external(&x, blocks[_i]);
	tie(&x, blocks[_i]);
	for (unsigned round = 0; round < 2; round++) {
		view = mem_open(8 * MIB, 512, mem_data(x.x_log));
		x.x_fs.t_opts.o_journal_bdev = view;
		ck_assert_int_eq(fx_mount(&x.x_fs), 0);
		ck_assert(jbd2_has_log(x.x_fs.t_sb->s_journal));
		ck_assert_uint_eq(root_mode(&x.x_fs), round == 0 ? 0755 : ROOT_MODE_CHANGED);
		change_root(&x.x_fs);
		if (round == 0)
			ck_assert_int_eq(ext4_shutdown(x.x_fs.t_sb, 1), 0);
		fx_umount(&x.x_fs);
	}
	ck_assert(!(le32_to_cpu(fx_super(&x.x_fs)->s_feature_incompat) &
		    EXT3_FEATURE_INCOMPAT_RECOVER));
	fx_free(&x.x_fs);
	blk_close(x.x_log);
}
END_TEST

START_TEST(wrong_external_journal)
{
	struct external x;
	uint8_t *log;

	make_external(&x, 4096);
	tie(&x, 4096);
	log = mem_data(x.x_log);
	if (_i == 0)
		fx_super(&x.x_fs)->s_journal_uuid[3] ^= 1;
	else if (_i == 1)
		log[1024 + offsetof(struct ext2_super_block, s_feature_incompat)] ^= 8;
	else if (_i == 2)
		log[4096 + 0x100] ^= 1;
	else
		log[1024 + offsetof(struct ext2_super_block, s_log_block_size)] = 0;
	fx_super_changed(&x.x_fs);
	fx_log_reset();
	x.x_fs.t_opts.o_journal_bdev = x.x_log;
	ck_assert_int_lt(fx_mount(&x.x_fs), 0);
	ck_assert_str_ne(fx_log, "");
	/* Given back on failure. */
	fx_free(&x.x_fs);
	blk_close(x.x_log);
}
END_TEST

START_TEST(credits_fit_into_the_smallest_log)
{
	static const char *const args[] = {"-t ext4 -b 1024 -J size=1", "-t ext3 -b 1024 -J size=1",
					   "-t ext4 -b 1024 -J size=1 -O ^flex_bg -g 256"};
	struct test_fs t;
	struct inode *root;
	unsigned max;

	fx_make(&t, args[_i], 24 * MIB, NULL);
	ck_assert_int_eq(fx_mount(&t), 0);
	root = ext4_iget(t.t_sb, EXT4_ROOT_INO, 0);
	max = jbd2_max_credits(t.t_sb->s_journal);
	ck_assert_uint_le(ext4_chunk_trans_blocks(root), max);
	ck_assert_uint_le(ext4_writepage_trans_blocks(root), max);
	ck_assert_uint_le(ext4_truncate_trans_blocks(root), max);
	ck_assert_uint_le(3 * ext4_dir_trans_blocks(t.t_sb) + EXT4_NEW_INODE_CREDITS, max);
	ck_assert_uint_le(ext4_xattr_trans_blocks(t.t_sb), max);
	ck_assert_uint_ge(ext4_index_trans_blocks(root, 2), ext4_index_trans_blocks(root, 1));
	iput(root);
	fx_umount(&t);
	fx_free(&t);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("ext4/mount_journal");
	TCase *tc = testlib_case("all");

	tcase_add_loop_test(tc, dirty_log_is_replayed, 0, NR_KINDS);
	tcase_add_loop_test(tc, e2fsck_replays_the_same, 0, NR_KINDS);
	tcase_add_loop_test(tc, read_only_mount_replays_and_says_so, 0, NR_KINDS);
	tcase_add_test(tc, read_only_device);
	tcase_add_test(tc, norecovery_is_for_reading);
	tcase_add_test(tc, log_in_use_without_the_flag_is_replayed);
	tcase_add_loop_test(tc, superblock_in_the_log, 0, 3);
	tcase_add_loop_test(tc, damaged_journal_superblock, 0, 5);
	tcase_add_loop_test(tc, map_covers_the_log, 0, NR_KINDS);
	tcase_add_loop_test(tc, damaged_journal_inode, 0, 11);
	tcase_add_loop_test(tc, damaged_indirect_journal, 0, 6);
	tcase_add_loop_test(tc, external_journal, 0, 2);
	tcase_add_loop_test(tc, wrong_external_journal, 0, 4);
	tcase_add_loop_test(tc, credits_fit_into_the_smallest_log, 0, 3);
	suite_add_tcase(s, tc);
	return testlib_run_suite(s);
}
