/* SPDX-License-Identifier: GPL-2.0-or-later */
/* test_inode.c - inodes in both directions: what debugfs wrote is read, what is written debugfs reads. */

#include <sys/sysmacros.h>

#include "ext4/inode_raw.h"
#include "tests/lib/suite.h"
#include "tests/unit/ext4/fixture.h"

#define FILE_INO 12u

static struct inode *get(struct test_fs *t, uint32_t ino)
{
	struct inode *inode = ext4_iget(t->t_sb, ino, EXT4_IGET_NORMAL);

	ck_assert_msg(!IS_ERR(inode), "inode %u: %d", ino, IS_ERR(inode) ? PTR_ERR(inode) : 0);
	return inode;
}

static void dirty(struct inode *inode)
{
	handle_t *handle = ext4_journal_start(inode, HT_INODE, EXT4_INODE_CREDITS);

	ck_assert(!IS_ERR(handle));
	ck_assert_int_eq(ext4_mark_inode_dirty(handle, inode), 0);
	ck_assert_int_eq(ext4_journal_stop(handle, 0), 0);
}

/* Out of memory and read again. */
static struct inode *reread(struct test_fs *t, struct inode *inode)
{
	uint32_t ino = inode->i_ino;

	iput(inode);
	ck_assert_uint_eq(ext4_icache_shrink_all(t->t_sb), 0);
	ck_assert_ptr_null(ext4_ilookup(t->t_sb, ino));
	return get(t, ino);
}

/* ---- Times ---- */

struct time_case {
	int64_t tc_sec;
	long tc_nsec;
	int64_t tc_256; /* what a large inode keeps */
	int64_t tc_128; /* what a small one keeps */
	bool tc_edge;	/* at an end of the range: no fraction */
};

#define MIN_SEC (-2147483648ll)
#define MAX_128 2147483647ll
#define MAX_256 15032385535ll /* 2446-05-10 22:38:55 */

static const struct time_case times[] = {
	{0, 1, 0, 0, false},
	{-1, 999999999, -1, -1, false},
	{MIN_SEC, 5, MIN_SEC, MIN_SEC, true},	  /* 1901-12-13 */
	{MIN_SEC - 1, 5, MIN_SEC, MIN_SEC, true}, /* before it */
	{-3000000000ll, 5, MIN_SEC, MIN_SEC, true},
	{MAX_128, 7, MAX_128, MAX_128, false}, /* 2038-01-19 */
	{MAX_128 + 1, 7, MAX_128 + 1, MAX_128, false},
	{4294967295ll, 123456789, 4294967295ll, MAX_128, false},
	{4294967296ll, 123456789, 4294967296ll, MAX_128, false},
	{6442450943ll, 3, 6442450943ll, MAX_128, false},
	{6442450944ll, 3, 6442450944ll, MAX_128, false},
	{10737418240ll, 3, 10737418240ll, MAX_128, false},
	{MAX_256 - 1, 11, MAX_256 - 1, MAX_128, false},
	{MAX_256, 11, MAX_256, MAX_128, true},
	{MAX_256 + 1, 11, MAX_256, MAX_128, true},
	{INT64_MAX / 2, 11, MAX_256, MAX_128, true},
};

static void check_times(struct test_fs *t, bool large)
{
	for (unsigned i = 0; i < sizeof(times) / sizeof(times[0]); i++) {
		const struct time_case *tc = &times[i];
		struct inode *inode = get(t, FILE_INO);
		struct timespec ts = {.tv_sec = (time_t)tc->tc_sec, .tv_nsec = tc->tc_nsec};
		int64_t sec = large ? tc->tc_256 : tc->tc_128;
		long nsec = large && !tc->tc_edge ? tc->tc_nsec : 0;

		ts = ext4_clamp_time(inode, ts);
		ck_assert_int_eq(ts.tv_sec, sec);
		ck_assert_int_eq(ts.tv_nsec, nsec);
		inode->i_atime = ts;
		inode->i_mtime = ts;
		inode->i_ctime = ts;
		dirty(inode);
		inode = reread(t, inode);
		ck_assert_int_eq(inode->i_atime.tv_sec, sec);
		ck_assert_int_eq(inode->i_mtime.tv_sec, sec);
		ck_assert_int_eq(inode->i_ctime.tv_sec, sec);
		ck_assert_int_eq(inode->i_mtime.tv_nsec, nsec);
		iput(inode);
	}
}

START_TEST(times_round_trip_and_clamp)
{
	struct test_fs t;

	fx_make(&t, _i == 0 ? "-t ext4 -I 256" : "-t ext4 -I 128", 24 * MIB, "write /etc/passwd f");
	ck_assert_int_eq(fx_mount(&t), 0);
	check_times(&t, _i == 0);
	ck_assert_int_eq(fx_umount(&t), 0);
	ck_assert_int_eq(testlib_fsck(t.t_disk), 0);
	fx_free(&t);
}
END_TEST

START_TEST(times_are_those_of_debugfs)
{
	struct test_fs t;
	struct inode *inode;

	fx_make(&t, "-t ext4", 24 * MIB,
		"write /etc/passwd f\nsif f mtime 23001201000000\nsif f mtime_extra 0x2\n"
		"sif f atime @0x80000000\nsif f atime_extra 0x1d6f3454\n"
		"sif f crtime @1\nsif f crtime_extra 8");
	ck_assert_int_eq(fx_mount(&t), 0);
	inode = get(&t, FILE_INO);
	/* -2147483648 + epoch 0, 123456789 ns */
	ck_assert_int_eq(inode->i_atime.tv_sec, MIN_SEC);
	ck_assert_int_eq(inode->i_atime.tv_nsec, 0x1d6f3454 >> 2);
	ck_assert_int_eq(inode->i_crtime.tv_sec, 1);
	ck_assert_int_eq(inode->i_crtime.tv_nsec, 2);
	inode->i_mtime.tv_sec = 4102444800; /* 2100-01-01 */
	inode->i_mtime.tv_nsec = 5;
	dirty(inode);
	iput(inode);
	ck_assert_int_eq(fx_umount(&t), 0);
	ck_assert(fx_debugfs_says(&t, "stat f", "mtime: 0xf4865700:00000015"));
	ck_assert_int_eq(testlib_fsck(t.t_disk), 0);
	fx_free(&t);
}
END_TEST

/* ---- Fields ---- */

START_TEST(every_field_goes_both_ways)
{
	struct test_fs t;
	struct inode *inode;

	fx_make(&t, _i == 0 ? "-t ext4" : "-t ext4 -I 128 -O ^metadata_csum", 24 * MIB,
		"write /etc/passwd f");
	ck_assert_int_eq(fx_mount(&t), 0);
	inode = get(&t, FILE_INO);
	ck_assert(ext4_is_extents(inode));
	inode->i_mode = S_IFREG | 06751;
	inode->i_uid = 0x12345678;
	inode->i_gid = 0x1abcdef0;
	inode->i_flags |= EXT2_NOATIME_FL;
	inode->i_version = 0x1122334455667788;
	dirty(inode);
	inode = reread(&t, inode);
	ck_assert_uint_eq(inode->i_mode, S_IFREG | 06751);
	ck_assert_uint_eq(inode->i_uid, 0x12345678);
	ck_assert_uint_eq(inode->i_gid, 0x1abcdef0);
	ck_assert_uint_eq(inode->i_flags, EXT4_EXTENTS_FL | EXT2_NOATIME_FL);
	ck_assert_uint_eq(inode->i_version, _i == 0 ? 0x1122334455667788 : 0x55667788);
	iput(inode);
	ck_assert_int_eq(fx_umount(&t), 0);
	ck_assert(fx_debugfs_says(&t, "stat f", "Mode:  06751"));
	ck_assert(fx_debugfs_says(&t, "stat f", "User: 305419896   Group: 448585456"));
	ck_assert_int_eq(testlib_fsck(t.t_disk), 0);
	fx_free(&t);
}
END_TEST

START_TEST(stat_shows_the_inode)
{
	struct test_fs t;
	struct inode *inode;
	struct stat st;

	fx_make(&t, "-t ext4 -b 1024", 24 * MIB, "write /etc/passwd f\nsif f uid 70000");
	ck_assert_int_eq(fx_mount(&t), 0);
	inode = get(&t, FILE_INO);
	ext4_inode_getattr(inode, &st);
	ck_assert_uint_eq(st.st_ino, FILE_INO);
	ck_assert_uint_eq(st.st_uid, 70000);
	ck_assert(S_ISREG(st.st_mode));
	ck_assert_int_gt(st.st_size, 0);
	ck_assert_int_eq(st.st_blocks, (st.st_size + 1023) / 1024 * 2);
	ck_assert_int_eq(st.st_blksize, 1024);
	iput(inode);
	fx_umount(&t);
	fx_free(&t);
}
END_TEST

START_TEST(device_numbers_in_both_encodings)
{
	static const struct {
		unsigned d_major, d_minor;
	} devices[] = {{5, 1}, {255, 255}, {8, 256}, {256, 0}, {4095, 1048575}, {0, 300}};
	struct test_fs t;
	struct inode *inode;

	fx_make(&t, "-t ext4", 24 * MIB, "mknod dev c 4 64");
	ck_assert_int_eq(fx_mount(&t), 0);
	inode = get(&t, FILE_INO);
	ck_assert_uint_eq(inode->i_rdev, makedev(4, 64));
	for (unsigned i = 0; i < sizeof(devices) / sizeof(devices[0]); i++) {
		inode->i_rdev = (uint32_t)makedev(devices[i].d_major, devices[i].d_minor);
		dirty(inode);
		inode = reread(&t, inode);
		ck_assert_uint_eq(major(inode->i_rdev), devices[i].d_major);
		ck_assert_uint_eq(minor(inode->i_rdev), devices[i].d_minor);
	}
	inode->i_rdev = (uint32_t)makedev(259, 7);
	dirty(inode);
	iput(inode);
	ck_assert_int_eq(fx_umount(&t), 0);
	ck_assert(fx_debugfs_says(&t, "stat dev", "(New-style) Device major/minor number: 259:07"));
	ck_assert_int_eq(testlib_fsck(t.t_disk), 0);
	fx_free(&t);
}
END_TEST

START_TEST(block_counts_in_all_units)
{
	/* Up to 32 bits, 48 bits, and block units. */
	static const uint64_t counts[] = {8,
					  0xffffffffull,
					  0x100000000ull,
					  0xffffffffffffull,
					  0x1000000000000ull,
					  0x7fffffffffff8ull};
	struct test_fs t;
	struct inode *inode;
	handle_t *handle;

	fx_make(&t, "-t ext4 -b 4096", 24 * MIB, "write /etc/passwd f");
	ck_assert_int_eq(fx_mount(&t), 0);
	inode = get(&t, FILE_INO);
	for (unsigned i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
		atomic_store(&inode->i_blocks, counts[i]);
		dirty(inode);
		inode = reread(&t, inode);
		ck_assert_uint_eq(atomic_load(&inode->i_blocks), counts[i]);
		ck_assert_int_eq((inode->i_flags & EXT4_HUGE_FILE_FL) != 0, counts[i] >> 48 != 0);
	}
	atomic_store(&inode->i_blocks, 8);
	ext4_inode_add_blocks(inode, 2);
	ck_assert_uint_eq(atomic_load(&inode->i_blocks), 24);
	ext4_inode_add_blocks(inode, -3);
	ck_assert_uint_eq(atomic_load(&inode->i_blocks), 0);
	ext4_inode_add_blocks(inode, -1);
	ck_assert_uint_eq(atomic_load(&inode->i_blocks), 0);
	iput(inode);
	fx_umount(&t);
	fx_free(&t);
	/* Without huge_file more than 32 bits have no place. */
	fx_make(&t, "-t ext4 -b 4096 -O ^huge_file", 24 * MIB, "write /etc/passwd f");
	ck_assert_int_eq(fx_mount(&t), 0);
	inode = get(&t, FILE_INO);
	atomic_store(&inode->i_blocks, 0x100000000ull);
	handle = ext4_journal_start(inode, HT_INODE, 1);
	ck_assert_int_eq(ext4_mark_inode_dirty(handle, inode), -EFBIG);
	ext4_journal_stop(handle, 0);
	atomic_store(&inode->i_blocks, 8);
	dirty(inode);
	iput(inode);
	fx_umount(&t);
	fx_free(&t);
}
END_TEST

START_TEST(sizes_and_limits)
{
	struct test_fs t;
	struct inode *inode;
	handle_t *handle;
	tid_t before;

	fx_make(&t, "-t ext4 -b 4096", 24 * MIB, "write /etc/passwd f\nmkdir d");
	ck_assert_int_eq(fx_mount(&t), 0);
	inode = get(&t, FILE_INO);
	ck_assert_uint_eq(ext4_max_size(inode), 0xffffffffull << 12);
	/* A size over 32 bits, and that fdatasync must know. */
	handle = ext4_journal_start(inode, HT_INODE, 1);
	atomic_store(&inode->i_disksize, 0x12345678900ull);
	before = atomic_load(&inode->i_datasync_tid);
	ck_assert_int_eq(ext4_mark_inode_dirty(handle, inode), 0);
	ck_assert_uint_ne(atomic_load(&inode->i_datasync_tid), before);
	ck_assert_uint_eq(atomic_load(&inode->i_datasync_tid), jbd2_handle_tid(handle));
	ck_assert_int_eq(ext4_journal_stop(handle, 0), 0);
	ck_assert_int_eq(jbd2_journal_force_commit(t.t_sb->s_journal), 0);
	/* Times alone are not its concern. */
	handle = ext4_journal_start(inode, HT_INODE, 1);
	inode->i_mtime.tv_sec++;
	before = atomic_load(&inode->i_datasync_tid);
	ck_assert_int_eq(ext4_mark_inode_dirty(handle, inode), 0);
	ck_assert_uint_eq(atomic_load(&inode->i_datasync_tid), before);
	ck_assert_uint_eq(atomic_load(&inode->i_sync_tid), jbd2_handle_tid(handle));
	ck_assert_int_eq(ext4_journal_stop(handle, 0), 0);
	inode = reread(&t, inode);
	ck_assert_uint_eq(i_size_read(inode), 0x12345678900ull);
	iput(inode);
	fx_umount(&t);
	fx_free(&t);
	fx_make(&t, "-t ext4 -b 1024 -O ^extent,^64bit", 24 * MIB, "write /etc/passwd f");
	ck_assert_int_eq(fx_mount(&t), 0);
	inode = get(&t, FILE_INO);
	ck_assert_uint_eq(ext4_max_size(inode), (12 + 256 + 65536 + 16777216ull) << 10);
	iput(inode);
	fx_umount(&t);
	fx_free(&t);
}
END_TEST

START_TEST(size_high_of_a_directory_needs_large_dir)
{
	static const char *const args[] = {"-t ext4", "-t ext4 -O large_dir"};
	struct test_fs t;
	struct inode *inode;

	fx_make(&t, args[_i], 24 * MIB, "mkdir d\nsif d size_hi 1");
	ck_assert_int_eq(fx_mount(&t), 0);
	inode = get(&t, FILE_INO);
	ck_assert_uint_eq(i_size_read(inode), _i == 0 ? 1024 : 0x100000400ull);
	iput(inode);
	fx_umount(&t);
	fx_free(&t);
}
END_TEST

START_TEST(extra_isize_grows_where_nothing_is_in_the_way)
{
	struct test_fs t;
	struct inode *plain, *with_xattr;

	fx_make(&t, "-t ext4 -I 256", 24 * MIB,
		"write /etc/passwd f\nwrite /etc/passwd g\nsif f extra_isize 4\n"
		"ea_set g user.name value\n");
	ck_assert_int_eq(fx_mount(&t), 0);
	plain = get(&t, FILE_INO);
	ck_assert_uint_eq(plain->i_extra_isize, 4);
	/* Nothing to read beyond what is there. */
	ck_assert_int_eq(plain->i_mtime.tv_nsec, 0);
	plain->i_mtime.tv_nsec = 77;
	dirty(plain);
	ck_assert_uint_eq(plain->i_extra_isize, 32);
	plain = reread(&t, plain);
	ck_assert_uint_eq(plain->i_extra_isize, 32);
	ck_assert_int_eq(plain->i_mtime.tv_nsec, 77);
	ck_assert_int_eq(plain->i_crtime.tv_sec, 0);
	iput(plain);
	with_xattr = get(&t, FILE_INO + 1);
	with_xattr->i_version = 5;
	dirty(with_xattr);
	iput(with_xattr);
	ck_assert_int_eq(fx_umount(&t), 0);
	ck_assert(fx_debugfs_says(&t, "ea_get g user.name", "value"));
	ck_assert_int_eq(testlib_fsck(t.t_disk), 0);
	fx_free(&t);
}
END_TEST

START_TEST(symlinks_are_checked)
{
	struct test_fs t;
	struct inode *inode;

	fx_make(&t, "-t ext4", 24 * MIB, "symlink s /some/where\nsymlink z short\nsif z size 9");
	t.t_opts.o_errors = ERRORS_CONTINUE;
	fx_log_reset();
	ck_assert_int_eq(fx_mount(&t), 0);
	inode = get(&t, FILE_INO);
	ck_assert_uint_eq(i_size_read(inode), 11);
	ck_assert_int_eq(memcmp(inode->i_block, "/some/where", 11), 0);
	iput(inode);
	ck_assert_int_eq(PTR_ERR(ext4_iget(t.t_sb, FILE_INO + 1, 0)), -EFSCORRUPTED);
	fx_umount(&t);
	fx_free(&t);
}
END_TEST

/* The block number is above 32 bits only by its high half; -1 in the low half must not sign-extend. */
START_TEST(attribute_block_numbers_have_48_bits)
{
	struct test_fs t;
	struct inode *inode;

	fx_make(&t, "-t ext4", 24 * MIB, "write /etc/passwd f");
	t.t_opts.o_errors = ERRORS_CONTINUE;
	fx_log_reset();
	ck_assert_int_eq(fx_mount(&t), 0);
	inode = get(&t, FILE_INO);
	inode->i_file_acl = 0x123480000001ull;
	dirty(inode);
	iput(inode);
	ck_assert_int_eq(jbd2_journal_flush(t.t_sb->s_journal), 0);
	ck_assert(fx_debugfs_says(&t, "stat f", "File ACL: 20016695083009"));
	fx_umount(&t);
	fx_free(&t);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("ext4/inode");
	TCase *tc = testlib_case("all");

	tcase_add_loop_test(tc, times_round_trip_and_clamp, 0, 2);
	tcase_add_test(tc, times_are_those_of_debugfs);
	tcase_add_loop_test(tc, every_field_goes_both_ways, 0, 2);
	tcase_add_test(tc, stat_shows_the_inode);
	tcase_add_test(tc, device_numbers_in_both_encodings);
	tcase_add_test(tc, block_counts_in_all_units);
	tcase_add_test(tc, sizes_and_limits);
	tcase_add_loop_test(tc, size_high_of_a_directory_needs_large_dir, 0, 2);
	tcase_add_test(tc, extra_isize_grows_where_nothing_is_in_the_way);
	tcase_add_test(tc, symlinks_are_checked);
	tcase_add_test(tc, attribute_block_numbers_have_48_bits);
	suite_add_tcase(s, tc);
	return testlib_run_suite(s);
}
