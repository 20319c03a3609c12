/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "tests/unit/writeback/wb_fixture.h"

static ssize_t direct_write(struct inode *inode, const void *buf, size_t len, uint64_t pos)
{
	return wf_write_flags(inode, buf, len, pos, WB_WRITE_DIRECT);
}

static ssize_t direct_read(struct inode *inode, void *buf, size_t len, uint64_t pos)
{
	struct iovec iov[2] = {{buf, len / 3}, {(uint8_t *)buf + len / 3, len - len / 3}};

	return file_read_direct(inode, pos, iov, 2, 0);
}

START_TEST(direct_write_bypasses_the_cache)
{
	struct wf f;
	struct inode *inode;
	uint8_t *buf = malloc(MIB);

	pattern_fill(buf, MIB, 1, 0);
	wf_open(&f, "-t ext4 -b 4096", 32 * MIB, 1);
	inode = wf_file(&f, 0);
	ck_assert_int_eq(direct_write(inode, buf, MIB, 0), (ssize_t)MIB);
	ck_assert_uint_eq(inode->i_mapping->as_nrpages, 0);
	ck_assert_uint_eq(i_size_read(inode), MIB);
	ck_assert_uint_eq(atomic_load(&inode->i_disksize), MIB);
	memset(buf, 0, MIB);
	ck_assert_int_eq(direct_read(inode, buf, MIB, 0), (ssize_t)MIB);
	pattern_check(buf, MIB, 1, 0);
	ck_assert_uint_eq(inode->i_mapping->as_nrpages, 0);
	iput(inode);
	wf_close(&f);
	free(buf);
}
END_TEST

START_TEST(direct_and_cached_access_see_each_other)
{
	struct wf f;
	struct inode *inode;
	uint8_t buf[8 * PAGE_SIZE];

	wf_open(&f, "-t ext4 -b 4096", 32 * MIB, 1);
	inode = wf_file(&f, 0);
	wf_fill(inode, 1, 0, 8 * PAGE, PAGE);
	/* Dirty pages reach the direct reader. */
	ck_assert_int_eq(direct_read(inode, buf, 8 * PAGE, 0), (ssize_t)(8 * PAGE));
	pattern_check(buf, 8 * PAGE, 1, 0);
	/* A direct write over dirty and clean pages is what everybody reads. */
	wf_fill(inode, 2, 2 * PAGE, PAGE, PAGE);
	pattern_fill(buf, 3 * PAGE, 3, PAGE);
	ck_assert_int_eq(direct_write(inode, buf, 3 * PAGE, PAGE), (ssize_t)(3 * PAGE));
	wf_check(inode, 1, 0, PAGE);
	wf_check(inode, 3, PAGE, 3 * PAGE);
	wf_check(inode, 1, 4 * PAGE, 4 * PAGE);
	iput(inode);
	wf_close(&f);
}
END_TEST

START_TEST(unaligned_ends_go_through_the_cache_and_to_the_disk)
{
	struct wf f;
	struct inode *inode;
	uint8_t *buf = malloc(100000);

	wf_open(&f, "-t ext4 -b 4096", 32 * MIB, 1);
	inode = wf_file(&f, 0);
	pattern_fill(buf, 100000, 1, 777);
	ck_assert_int_eq(direct_write(inode, buf, 100000, 777), 100000);
	ck_assert_int_eq(atomic_load(&f.wb->wb_nr_dirty), 0);
	wb_drop_clean(inode);
	wf_check_value(inode, 0, 0, 777);
	wf_check(inode, 1, 777, 100000);
	memset(buf, 0, 100000);
	ck_assert_int_eq(direct_read(inode, buf, 50000, 1234), 50000);
	pattern_check(buf, 50000, 1, 1234);
	/* To the end and no further. */
	ck_assert_int_eq(direct_read(inode, buf, 100000, 99000), 1777);
	pattern_check(buf, 1777, 1, 99000);
	iput(inode);
	wf_close(&f);
	free(buf);
}
END_TEST

START_TEST(holes_and_unwritten_extents_read_as_zeros)
{
	struct wf f;
	struct inode *inode;
	uint8_t buf[12 * PAGE_SIZE];

	wf_open(&f, "-t ext4 -b 4096", 32 * MIB, 1);
	inode = wf_file(&f, 0);
	ck_assert_int_eq(ext4_fallocate(inode, 0, 0, 4 * PAGE, &wf_root), 0);
	wf_fill(inode, 1, 6 * PAGE, 2 * PAGE, PAGE);
	ck_assert_int_eq(ext4_truncate_to(inode, 12 * PAGE), 0);
	memset(buf, 'x', sizeof(buf));
	ck_assert_int_eq(direct_read(inode, buf, sizeof(buf), 0), (ssize_t)sizeof(buf));
	ck_assert_int_eq(bytes_mismatch(buf, 6 * PAGE, 0), -1);
	pattern_check(buf + 6 * PAGE, 2 * PAGE, 1, 6 * PAGE);
	ck_assert_int_eq(bytes_mismatch(buf + 8 * PAGE, 4 * PAGE, 0), -1);
	iput(inode);
	wf_close(&f);
}
END_TEST

START_TEST(file_without_extents_is_written_right)
{
	struct wf f;
	struct inode *inode;
	uint8_t *buf = malloc(MIB);

	pattern_fill(buf, MIB, 1, 0);
	wf_open(&f, "-t ext4 -b 1024 -O ^extent,^64bit", 32 * MIB, 1);
	inode = wf_file(&f, 0);
	ck_assert_int_eq(direct_write(inode, buf, MIB, 0), (ssize_t)MIB);
	pattern_fill(buf, MIB, 2, 0);
	ck_assert_int_eq(direct_write(inode, buf, MIB / 2, 0), (ssize_t)(MIB / 2));
	wf_check(inode, 2, 0, MIB / 2);
	wf_check(inode, 1, MIB / 2, MIB / 2);
	iput(inode);
	wf_close(&f);
	free(buf);
}
END_TEST

/* What failed is not converted: it reads as zeros, and i_size does not cover it. */
START_TEST(failed_direct_write_leaves_zeros)
{
	struct wf f;
	struct inode *inode;
	uint8_t buf[4 * PAGE_SIZE];

	memset(buf, 'd', sizeof(buf));
	wf_make(&f, "-t ext4 -b 4096", 32 * MIB, 1);
	f.want_faults = true;
	wf_mount(&f);
	inode = wf_file(&f, 0);
	ck_assert_int_eq(ext4_fallocate(inode, FALLOC_FL_KEEP_SIZE, 0, 4 * PAGE, &wf_root), 0);
	wf_fail_blocks(&f, inode, REQ_OP_WRITE, 0, 4);
	ck_assert_int_eq(direct_write(inode, buf, 4 * PAGE, 0), -EIO);
	ck_assert_uint_eq(i_size_read(inode), 0);
	fault_disarm_all(f.faults);
	ck_assert_int_eq(ext4_truncate_to(inode, 4 * PAGE), 0);
	wf_check_value(inode, 0, 0, 4 * PAGE);
	iput(inode);
	wf_close(&f);
}
END_TEST

static uint64_t inv_pos, inv_len;

static void invalidated(struct inode *inode, uint64_t offset, uint64_t len)
{
	(void)inode;
	inv_pos = offset;
	inv_len = len;
}

START_TEST(kernel_is_told_what_changed_behind_its_back)
{
	static const struct wb_notify_ops ops = {.invalidate = invalidated};
	struct wf f;
	struct inode *inode;
	uint8_t buf[2 * PAGE_SIZE] = {1};

	wf_open(&f, "-t ext4 -b 4096", 32 * MIB, 1);
	wb_set_notify(f.sb, &ops);
	inode = wf_file(&f, 0);
	ck_assert_int_eq(direct_write(inode, buf, 2 * PAGE, PAGE), (ssize_t)(2 * PAGE));
	ck_assert_uint_eq(inv_pos, PAGE);
	ck_assert_uint_eq(inv_len, 2 * PAGE);
	wb_set_notify(f.sb, NULL);
	iput(inode);
	wf_close(&f);
}
END_TEST

int main(void)
{
	return RUN_TESTS("writeback/direct_io", direct_write_bypasses_the_cache,
			 direct_and_cached_access_see_each_other,
			 unaligned_ends_go_through_the_cache_and_to_the_disk,
			 holes_and_unwritten_extents_read_as_zeros,
			 file_without_extents_is_written_right, failed_direct_write_leaves_zeros,
			 kernel_is_told_what_changed_behind_its_back);
}
