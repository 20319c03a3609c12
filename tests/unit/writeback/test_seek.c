/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "tests/unit/writeback/wb_fixture.h"

/* Data at pages 4..5 and 9, a hole up to page 16. The answer is the same at each stage of a block's life. */
static void check_layout(struct inode *inode)
{
	ck_assert_int_eq(ext4_seek(inode, 0, SEEK_DATA), 4 * (int64_t)PAGE);
	ck_assert_int_eq(ext4_seek(inode, 0, SEEK_HOLE), 0);
	ck_assert_int_eq(ext4_seek(inode, 4 * PAGE + 7, SEEK_DATA), 4 * (int64_t)PAGE + 7);
	ck_assert_int_eq(ext4_seek(inode, 4 * PAGE + 7, SEEK_HOLE), 6 * (int64_t)PAGE);
	ck_assert_int_eq(ext4_seek(inode, 6 * PAGE, SEEK_DATA), 9 * (int64_t)PAGE);
	ck_assert_int_eq(ext4_seek(inode, 9 * PAGE, SEEK_HOLE), 10 * (int64_t)PAGE);
	ck_assert_int_eq(ext4_seek(inode, 10 * PAGE, SEEK_DATA), -ENXIO);
	ck_assert_int_eq(ext4_seek(inode, 12 * PAGE, SEEK_HOLE), 12 * (int64_t)PAGE);
	ck_assert_int_eq(ext4_seek(inode, 16 * PAGE, SEEK_HOLE), -ENXIO);
	ck_assert_int_eq(ext4_seek(inode, 16 * PAGE, SEEK_DATA), -ENXIO);
	ck_assert_int_eq(ext4_seek(inode, -1, SEEK_DATA), -ENXIO);
}

static void all_stages(bool preallocate)
{
	struct wf f;
	struct inode *inode;

	wf_open(&f, "-t ext4 -b 4096", 32 * MIB, 1);
	inode = wf_file(&f, 0);
	if (preallocate)
		ck_assert_int_eq(ext4_fallocate(inode, 0, 0, 16 * PAGE, &wf_root), 0);
	else
		ck_assert_int_eq(ext4_truncate_to(inode, 16 * PAGE), 0);
	wf_fill(inode, 1, 4 * PAGE, 2 * PAGE, PAGE);
	wf_fill(inode, 1, 9 * PAGE, PAGE, PAGE);
	check_layout(inode);
	/* Written, and not yet converted. */
	ck_assert_int_eq(filemap_fdatawrite(inode), 0);
	ck_assert_uint_eq(atomic_load(&inode->i_mapping->as_nr_writeback), 3);
	check_layout(inode);
	wb_run_completions(f.sb);
	check_layout(inode);
	wb_drop_clean(inode);
	check_layout(inode);
	iput(inode);
	wf_close(&f);
}

START_TEST(data_is_found_at_every_stage)
{
	all_stages(false);
	all_stages(true);
}
END_TEST

START_TEST(a_block_is_told_when_it_is_on_the_device)
{
	static uint8_t expected[PAGE_SIZE];
	struct wf f;
	struct inode *inode;
	int64_t block;

	wf_open(&f, "-t ext4 -b 4096", 32 * MIB, 1);
	inode = wf_file(&f, 0);
	ck_assert_int_eq(ext4_bmap(inode, 0), 0);
	ck_assert_int_eq(ext4_fallocate(inode, 0, 0, 4 * PAGE, &wf_root), 0);
	wf_fill(inode, 1, PAGE, PAGE, PAGE);
	ck_assert_int_eq(ext4_bmap(inode, 0), 0);
	block = ext4_bmap(inode, 1);
	ck_assert_int_gt(block, 0);
	ck_assert_int_eq(wf_read(inode, expected, PAGE, PAGE), (ssize_t)PAGE);
	ck_assert_mem_eq((uint8_t *)mem_data(f.image) + (size_t)block * PAGE, expected, PAGE);
	ck_assert_int_eq(ext4_bmap(inode, 4), 0);
	ck_assert_int_eq(ext4_bmap(inode, UINT64_MAX), 0);
	iput(inode);
	wf_close(&f);
}
END_TEST

START_TEST(empty_file_has_neither)
{
	struct wf f;
	struct inode *inode;

	wf_open(&f, "-t ext4 -b 4096", 32 * MIB, 1);
	inode = wf_file(&f, 0);
	ck_assert_int_eq(ext4_seek(inode, 0, SEEK_DATA), -ENXIO);
	ck_assert_int_eq(ext4_seek(inode, 0, SEEK_HOLE), -ENXIO);
	ck_assert_int_eq(ext4_seek(inode, 0, SEEK_END), -EINVAL);
	iput(inode);
	wf_close(&f);
}
END_TEST

int main(void)
{
	return RUN_TESTS("writeback/seek", data_is_found_at_every_stage,
			 a_block_is_told_when_it_is_on_the_device, empty_file_has_neither);
}
