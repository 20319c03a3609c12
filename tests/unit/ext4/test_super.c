/* SPDX-License-Identifier: GPL-2.0-or-later */
/* test_super.c - mount, change the root inode, unmount, e2fsck: on every kind of file system; the superblock's marks. */

#include "tests/lib/suite.h"
#include "tests/unit/ext4/fixture.h"

static const char *const variants[] = {
	"-t ext4 -b 1024",
	"-t ext4 -b 2048",
	"-t ext4 -b 4096",
	"-t ext4 -b 4096 -O ^extent,^64bit",
	"-t ext4 -b 1024 -O ^extent,^64bit",
	"-t ext4 -b 4096 -O ^metadata_csum",
	"-t ext4 -b 1024 -O ^metadata_csum,uninit_bg",
	"-t ext4 -b 4096 -O ^metadata_csum,uninit_bg,^64bit",
	"-t ext4 -b 4096 -O ^64bit",
	"-t ext4 -b 1024 -O ^flex_bg",
	"-t ext4 -b 4096 -I 128",
	"-t ext4 -b 1024 -I 128 -O ^metadata_csum",
	"-t ext4 -b 4096 -I 512",
	"-t ext4 -b 1024 -O sparse_super2,^resize_inode",
	"-t ext4 -b 1024 -O meta_bg,^resize_inode",
	"-t ext4 -b 4096 -O metadata_csum,metadata_csum_seed",
	"-t ext4 -b 4096 -O orphan_file",
	"-t ext4 -b 1024 -O orphan_file",
	"-t ext4 -b 4096 -O ^has_journal",
	"-t ext4 -b 1024 -O ^sparse_super,^resize_inode",
	"-t ext4 -b 4096 -O large_dir",
	"-t ext3 -b 1024",
	"-t ext2 -b 4096",
	"-t ext2 -b 1024 -r 0",
};

#define NR_VARIANTS ((int)(sizeof(variants) / sizeof(variants[0])))

static void set_root_mode(struct super_block *sb, uint16_t perm)
{
	struct inode *root = ext4_iget(sb, EXT4_ROOT_INO, EXT4_IGET_NORMAL);
	handle_t *handle;

	ck_assert_msg(!IS_ERR(root), "iget: %d", IS_ERR(root) ? PTR_ERR(root) : 0);
	ck_assert(S_ISDIR(root->i_mode));
	ck_assert_uint_eq(atomic_load(&root->i_nlink), 3);
	handle = ext4_journal_start(root, HT_INODE, EXT4_INODE_CREDITS);
	ck_assert(!IS_ERR(handle));
	root->i_mode = (uint16_t)(S_IFDIR | perm);
	root->i_mtime.tv_sec = 1500000000;
	ck_assert_int_eq(ext4_mark_inode_dirty(handle, root), 0);
	ck_assert_int_eq(ext4_journal_stop(handle, 0), 0);
	iput(root);
}

START_TEST(every_kind_mounts_changes_and_is_clean)
{
	struct test_fs t;

	fx_make(&t, variants[_i], 24 * MIB, NULL);
	ck_assert_msg(fx_mount(&t) == 0, "%s", variants[_i]);
	ck_assert(!sb_rdonly(t.t_sb));
	set_root_mode(t.t_sb, 01711);
	ck_assert_int_eq(fx_umount(&t), 0);
	ck_assert_msg(testlib_fsck(t.t_disk) == 0, "%s", variants[_i]);
	ck_assert(fx_debugfs_says(&t, "stat <2>", "Mode:  01711"));
	ck_assert(fx_debugfs_says(&t, "stat <2>", "mtime: 0x59682f00"));
	ck_assert(fx_debugfs_says(&t, "stats", "Filesystem state:         clean"));
	/* And once more: what was written is accepted. */
	ck_assert_int_eq(fx_mount(&t), 0);
	set_root_mode(t.t_sb, 0755);
	ck_assert_int_eq(fx_umount(&t), 0);
	ck_assert_int_eq(testlib_fsck(t.t_disk), 0);
	fx_free(&t);
}
END_TEST

START_TEST(read_only_mount_writes_nothing)
{
	struct test_fs t;
	struct blkdev *before;

	fx_make(&t, variants[_i], 24 * MIB, NULL);
	before = testlib_clone(t.t_disk);
	t.t_opts.o_read_only = true;
	ck_assert_int_eq(fx_mount(&t), 0);
	ck_assert(sb_rdonly(t.t_sb));
	iput(ext4_iget(t.t_sb, EXT4_ROOT_INO, EXT4_IGET_NORMAL));
	ck_assert_int_eq(PTR_ERR(ext4_journal_start_sb(t.t_sb, HT_MISC, 1, 0)), -EROFS);
	ck_assert_int_eq(fx_umount(&t), 0);
	ck_assert_int_eq(memcmp(mem_data(before), mem_data(t.t_disk), 24 * MIB), 0);
	blk_close(before);
	fx_free(&t);
}
END_TEST

START_TEST(superblock_is_marked_while_mounted)
{
	struct test_fs t;
	const struct ext2_super_block *es;
	uint16_t mounts;

	fx_make(&t, "-t ext4 -O orphan_file", 24 * MIB, NULL);
	es = fx_super(&t);
	mounts = le16_to_cpu(es->s_mnt_count);
	t.t_opts.o_mount_point = "/where/it/is";
	ck_assert_int_eq(fx_mount(&t), 0);
	ck_assert(le32_to_cpu(es->s_feature_incompat) & EXT3_FEATURE_INCOMPAT_RECOVER);
	ck_assert(le32_to_cpu(es->s_feature_ro_compat) & EXT4_FEATURE_RO_COMPAT_ORPHAN_PRESENT);
	ck_assert_uint_eq(le16_to_cpu(es->s_mnt_count), mounts + 1u);
	ck_assert_uint_ne(es->s_mtime, 0);
	ck_assert_str_eq((const char *)es->s_last_mounted, "/where/it/is");
	ck_assert(ext4_superblock_csum_ok(es));
	ck_assert_int_eq(fx_umount(&t), 0);
	ck_assert(!(le32_to_cpu(es->s_feature_incompat) & EXT3_FEATURE_INCOMPAT_RECOVER));
	ck_assert(!(le32_to_cpu(es->s_feature_ro_compat) & EXT4_FEATURE_RO_COMPAT_ORPHAN_PRESENT));
	ck_assert_uint_eq(le16_to_cpu(es->s_state), EXT2_VALID_FS);
	ck_assert_uint_ne(es->s_kbytes_written, 0);
	fx_free(&t);
}
END_TEST

START_TEST(without_a_log_the_state_is_not_valid_while_mounted)
{
	struct test_fs t;
	const struct ext2_super_block *es;

	fx_make(&t, "-t ext4 -O ^has_journal", 24 * MIB, NULL);
	es = fx_super(&t);
	ck_assert_int_eq(fx_mount(&t), 0);
	ck_assert(!jbd2_has_log(t.t_sb->s_journal));
	ck_assert_uint_eq(le16_to_cpu(es->s_state) & EXT2_VALID_FS, 0);
	ck_assert_int_eq(fx_umount(&t), 0);
	ck_assert_uint_eq(le16_to_cpu(es->s_state), EXT2_VALID_FS);
	fx_free(&t);
}
END_TEST

static void test_counts(struct super_block *sb, uint64_t *free_blocks, uint64_t *free_inodes)
{
	*free_blocks = ext4_sb_free_blocks_at_mount(sb) - 7;
	*free_inodes = ext4_sb_free_inodes_at_mount(sb) - 3;
}

START_TEST(counters_come_from_the_hook)
{
	struct test_fs t;
	const struct ext2_super_block *es;
	uint32_t blocks, inodes;
	handle_t *handle;

	fx_make(&t, "-t ext4", 24 * MIB, NULL);
	es = fx_super(&t);
	blocks = le32_to_cpu(es->s_free_blocks_count);
	inodes = le32_to_cpu(es->s_free_inodes_count);
	ck_assert_int_eq(fx_mount(&t), 0);
	ck_assert(t.t_sb->s_clean_at_mount);
	ck_assert_uint_eq(ext4_sb_free_blocks_at_mount(t.t_sb), blocks);
	ext4_set_counts_hook(t.t_sb, test_counts);
	handle = ext4_journal_start_sb(t.t_sb, HT_MISC, 1, 0);
	ck_assert(!IS_ERR(handle));
	ck_assert_int_eq(ext4_commit_super(handle, t.t_sb), 0);
	ck_assert_int_eq(ext4_journal_stop(handle, 0), 0);
	ck_assert_uint_eq(le32_to_cpu(t.t_sb->s_es->s_free_blocks_count), blocks - 7);
	ck_assert_int_eq(fx_umount(&t), 0);
	ck_assert_uint_eq(le32_to_cpu(es->s_free_blocks_count), blocks - 7);
	ck_assert_uint_eq(le32_to_cpu(es->s_free_inodes_count), inodes - 3);
	fx_free(&t);
}
END_TEST

START_TEST(remount_cleans_and_marks_again)
{
	struct test_fs t;
	const struct ext2_super_block *es;

	fx_make(&t, "-t ext4", 24 * MIB, NULL);
	es = fx_super(&t);
	ck_assert_int_eq(fx_mount(&t), 0);
	set_root_mode(t.t_sb, 0700);
	ck_assert_int_eq(ext4_remount_ro(t.t_sb), 0);
	ck_assert(sb_rdonly(t.t_sb));
	ck_assert(!(le32_to_cpu(es->s_feature_incompat) & EXT3_FEATURE_INCOMPAT_RECOVER));
	ck_assert_int_eq(testlib_fsck(t.t_disk), 0);
	ck_assert(fx_debugfs_says(&t, "stat <2>", "Mode:  0700"));
	ck_assert_int_eq(ext4_remount_rw(t.t_sb), 0);
	ck_assert(le32_to_cpu(es->s_feature_incompat) & EXT3_FEATURE_INCOMPAT_RECOVER);
	set_root_mode(t.t_sb, 0711);
	ck_assert_int_eq(fx_umount(&t), 0);
	ck_assert_int_eq(testlib_fsck(t.t_disk), 0);
	ck_assert(fx_debugfs_says(&t, "stat <2>", "Mode:  0711"));
	fx_free(&t);
}
END_TEST

START_TEST(read_only_mount_can_become_writable)
{
	struct test_fs t;

	fx_make(&t, _i == 0 ? "-t ext4" : "-t ext4 -O orphan_file", 24 * MIB, NULL);
	t.t_opts.o_read_only = true;
	ck_assert_int_eq(fx_mount(&t), 0);
	ck_assert_int_eq(ext4_remount_rw(t.t_sb), 0);
	set_root_mode(t.t_sb, 0711);
	ck_assert_int_eq(fx_umount(&t), 0);
	ck_assert_int_eq(testlib_fsck(t.t_disk), 0);
	ck_assert(fx_debugfs_says(&t, "stat <2>", "Mode:  0711"));
	fx_free(&t);
}
END_TEST

START_TEST(freeze_leaves_a_clean_disk)
{
	struct test_fs t;

	fx_make(&t, "-t ext4", 24 * MIB, NULL);
	ck_assert_int_eq(fx_mount(&t), 0);
	set_root_mode(t.t_sb, 0700);
	ck_assert_int_eq(ext4_freeze(t.t_sb), 0);
	ck_assert_int_eq(ext4_freeze(t.t_sb), -EBUSY);
	ck_assert_int_eq(testlib_fsck(t.t_disk), 0);
	ck_assert(fx_debugfs_says(&t, "stat <2>", "Mode:  0700"));
	ck_assert_int_eq(ext4_thaw(t.t_sb), 0);
	set_root_mode(t.t_sb, 0711);
	ck_assert_int_eq(fx_umount(&t), 0);
	ck_assert_uint_eq(le16_to_cpu(fx_super(&t)->s_mnt_count), 1);
	ck_assert_int_eq(testlib_fsck(t.t_disk), 0);
	fx_free(&t);
}
END_TEST

/* Mode 2 loses the running transaction, 0 and 1 keep it; all of them are recoverable. */
START_TEST(shutdown_stops_everything)
{
	struct test_fs t;
	struct inode *root;

	fx_make(&t, "-t ext4", 24 * MIB, NULL);
	ck_assert_int_eq(fx_mount(&t), 0);
	set_root_mode(t.t_sb, 0700);
	ck_assert_int_eq(ext4_shutdown(t.t_sb, (unsigned)_i), 0);
	ck_assert_int_eq(PTR_ERR(ext4_journal_start_sb(t.t_sb, HT_MISC, 1, 0)), -EIO);
	fx_umount(&t);
	ck_assert_int_eq(fx_mount(&t), 0);
	ck_assert_uint_eq(t.t_sb->s_mount_state, EXT2_VALID_FS);
	root = ext4_iget(t.t_sb, EXT4_ROOT_INO, EXT4_IGET_NORMAL);
	ck_assert_uint_eq(root->i_mode & 0777, _i == 2 ? 0755 : 0700);
	iput(root);
	ck_assert_int_eq(fx_umount(&t), 0);
	ck_assert_int_eq(testlib_fsck(t.t_disk), 0);
	fx_free(&t);
}
END_TEST

START_TEST(simulations_have_no_threads)
{
	struct test_fs t;

	fx_make(&t, "-t ext4", 24 * MIB, NULL);
	t.t_opts.o_manual_commit = true;
	ck_assert_int_eq(fx_mount(&t), 0);
	ck_assert_ptr_null(t.t_sb->s_wq);
	set_root_mode(t.t_sb, 0711);
	ck_assert_int_eq(fx_umount(&t), 0);
	ck_assert_int_eq(testlib_fsck(t.t_disk), 0);
	fx_free(&t);
}
END_TEST

START_TEST(another_superblock_serves_to_read)
{
	struct test_fs t;

	fx_make(&t, "-t ext4 -b 1024", 24 * MIB, NULL);
	memset(fx_super(&t), 0xee, 1024);
	fx_log_reset();
	ck_assert_int_eq(fx_mount(&t), -EINVAL);
	t.t_opts.o_sb_block = 8193;
	ck_assert_int_eq(fx_mount(&t), 0);
	ck_assert(sb_rdonly(t.t_sb));
	iput(ext4_iget(t.t_sb, EXT4_ROOT_INO, EXT4_IGET_NORMAL));
	ck_assert_int_eq(ext4_remount_rw(t.t_sb), -EROFS);
	ck_assert_int_eq(fx_umount(&t), 0);
	fx_free(&t);
}
END_TEST

START_TEST(async_commit_needs_writeback_data)
{
	struct test_fs t;

	fx_make(&t, "-t ext4", 24 * MIB, NULL);
	fx_log_reset();
	t.t_opts.o_async_commit = true;
	ck_assert_int_eq(fx_mount(&t), -EINVAL);
	t.t_opts.o_data = DATA_WRITEBACK;
	ck_assert_int_eq(fx_mount(&t), 0);
	ck_assert_int_eq(fx_umount(&t), 0);
	fx_free(&t);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("ext4/super");
	TCase *tc = testlib_case("all");

	tcase_add_loop_test(tc, every_kind_mounts_changes_and_is_clean, 0, NR_VARIANTS);
	tcase_add_loop_test(tc, read_only_mount_writes_nothing, 0, NR_VARIANTS);
	tcase_add_test(tc, superblock_is_marked_while_mounted);
	tcase_add_test(tc, without_a_log_the_state_is_not_valid_while_mounted);
	tcase_add_test(tc, counters_come_from_the_hook);
	tcase_add_test(tc, remount_cleans_and_marks_again);
	tcase_add_loop_test(tc, read_only_mount_can_become_writable, 0, 2);
	tcase_add_test(tc, freeze_leaves_a_clean_disk);
	tcase_add_loop_test(tc, shutdown_stops_everything, 0, 3);
	tcase_add_test(tc, simulations_have_no_threads);
	tcase_add_test(tc, another_superblock_serves_to_read);
	tcase_add_test(tc, async_commit_needs_writeback_data);
	suite_add_tcase(s, tc);
	return testlib_run_suite(s);
}
