/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "tests/unit/writeback/wb_fixture.h"

START_TEST(write_returns_and_reads_back_before_anything_is_on_the_device)
{
	struct wf f;
	struct inode *inode;
	uint64_t writes;

	wf_open(&f, "-t ext4 -b 4096", 32 * MIB, 1);
	inode = wf_file(&f, 0);
	writes = wf_requests(&f, REQ_OP_WRITE);
	wf_fill(inode, 1, 1000, 300000, 777);
	ck_assert_uint_eq(wf_requests(&f, REQ_OP_WRITE), writes);
	ck_assert_uint_eq(i_size_read(inode), 301000);
	ck_assert_uint_eq(atomic_load(&inode->i_disksize), 0);
	wf_check_value(inode, 0, 0, 1000);
	wf_check(inode, 1, 1000, 300000);
	iput(inode);
	wf_close(&f);
}
END_TEST

START_TEST(vector_is_written_in_order)
{
	struct wf f;
	struct inode *inode;
	uint8_t all[20000], got[20000];
	struct iovec iov[4] = {{all, 1}, {all + 1, 8191}, {all + 8192, 0}, {all + 8192, 11808}};
	struct wb_write w = {
		.w_iov = iov, .w_iovcnt = 4, .w_len = 20000, .w_pos = 5000, .w_cred = wf_root};

	pattern_fill(all, sizeof(all), 5, 0);
	wf_open(&f, "-t ext4 -b 4096", 32 * MIB, 1);
	inode = wf_file(&f, 0);
	ck_assert_int_eq(file_write(inode, &w), 20000);
	ck_assert_int_eq(wf_read(inode, got, 20000, 5000), 20000);
	pattern_check(got, 20000, 5, 0);
	iput(inode);
	wf_close(&f);
}
END_TEST

START_TEST(append_goes_to_the_end_and_says_where)
{
	struct wf f;
	struct inode *inode;
	uint8_t buf[100];
	struct iovec iov = {buf, sizeof(buf)};
	struct wb_write w = {.w_iov = &iov,
			     .w_iovcnt = 1,
			     .w_len = sizeof(buf),
			     .w_pos = 7,
			     .w_flags = WB_WRITE_APPEND,
			     .w_cred = wf_root};

	wf_open(&f, "-t ext4 -b 4096", 32 * MIB, 1);
	inode = wf_file(&f, 0);
	for (unsigned i = 0; i < 50; i++) {
		pattern_fill(buf, sizeof(buf), 2, i * sizeof(buf));
		ck_assert_int_eq(file_write(inode, &w), 100);
		ck_assert_uint_eq(w.w_pos, i * 100);
		if (i % 7 == 0)
			wf_sync(&f);
	}
	wb_drop_clean(inode);
	wf_check(inode, 2, 0, 5000);
	iput(inode);
	wf_close(&f);
}
END_TEST

/* What the kernel writes out of a mapping never makes a file longer. */
START_TEST(mapped_page_writeout_does_not_extend)
{
	struct wf f;
	struct inode *inode;
	uint8_t page[PAGE_SIZE];

	memset(page, 'm', sizeof(page));
	wf_open(&f, "-t ext4 -b 4096", 32 * MIB, 1);
	inode = wf_file(&f, 0);
	wf_fill(inode, 1, 0, 1000, 1000);
	ck_assert_int_eq(wf_write_flags(inode, page, PAGE, 0, WB_WRITE_CACHE), (ssize_t)PAGE);
	ck_assert_uint_eq(i_size_read(inode), 1000);
	ck_assert_int_eq(wf_write_flags(inode, page, PAGE, PAGE, WB_WRITE_CACHE), (ssize_t)PAGE);
	ck_assert_uint_eq(i_size_read(inode), 1000);
	wf_check_value(inode, 'm', 0, 1000);
	/* What lay behind the end in the page must not appear. */
	ck_assert_int_eq(ext4_truncate_to(inode, 3000), 0);
	wf_check_value(inode, 0, 1000, 2000);
	iput(inode);
	wf_close(&f);
}
END_TEST

START_TEST(part_of_a_block_is_read_before_it_is_changed)
{
	struct wf f;
	struct inode *inode;
	uint64_t reads;

	wf_open(&f, "-t ext4 -b 4096", 32 * MIB, 1);
	inode = wf_file(&f, 0);
	wf_fill(inode, 1, 0, 10 * PAGE, 10 * PAGE);
	wf_sync(&f);
	wb_drop_clean(inode);
	reads = counter_read(&f.wb->wb_stats.ws_rmw_reads);
	wf_fill(inode, 2, 5 * PAGE + 10, 100, 100);
	ck_assert_uint_eq(counter_read(&f.wb->wb_stats.ws_rmw_reads), reads + 1);
	/* Whole blocks and what lies past the end are not read. */
	wf_fill(inode, 3, 7 * PAGE, PAGE, PAGE);
	wf_fill(inode, 3, 12 * PAGE + 100, 50, 50);
	ck_assert_uint_eq(counter_read(&f.wb->wb_stats.ws_rmw_reads), reads + 1);
	wf_sync(&f);
	wb_drop_clean(inode);
	wf_check(inode, 1, 0, 5 * PAGE + 10);
	wf_check(inode, 2, 5 * PAGE + 10, 100);
	wf_check(inode, 1, 5 * PAGE + 110, 2 * PAGE - 110);
	wf_check(inode, 3, 7 * PAGE, PAGE);
	wf_check(inode, 1, 8 * PAGE, 2 * PAGE);
	wf_check_value(inode, 0, 10 * PAGE, 2 * PAGE + 100);
	wf_check(inode, 3, 12 * PAGE + 100, 50);
	iput(inode);
	wf_close(&f);
}
END_TEST

START_TEST(errors_change_nothing)
{
	struct wf f;
	struct inode *inode;
	uint8_t buf[PAGE_SIZE] = {1};

	wf_open(&f, "-t ext4 -b 4096", 32 * MIB, 2);
	inode = wf_file(&f, 0);
	ck_assert_int_eq(wf_write(inode, buf, 10, ext4_max_size(inode)), -EFBIG);
	/* Up to the limit, and no further. */
	ck_assert_int_eq(wf_write(inode, buf, PAGE, ext4_max_size(inode) - 100), 100);
	ck_assert_int_eq(ext4_truncate_to(inode, 0), 0);
	inode->i_flags |= EXT2_IMMUTABLE_FL;
	ck_assert_int_eq(wf_write(inode, buf, 10, 0), -EPERM);
	inode->i_flags &= ~(uint32_t)EXT2_IMMUTABLE_FL;
	ck_assert_uint_eq(i_size_read(inode), 0);
	wf_assert_nothing_reserved(&f);
	atomic_store(&f.sb->s_shutdown, true);
	ck_assert_int_eq(wf_write(inode, buf, 10, 0), -EIO);
	atomic_store(&f.sb->s_shutdown, false);
	iput(inode);
	wf_close(&f);
}
END_TEST

START_TEST(times_move_with_a_write)
{
	struct wf f;
	struct inode *inode;
	uint8_t b = 1;

	wf_open(&f, "-t ext4 -b 4096", 32 * MIB, 1);
	inode = wf_file(&f, 0);
	inode->i_mtime.tv_sec = inode->i_ctime.tv_sec = 1000;
	ck_assert_int_eq(wf_write(inode, &b, 1, 0), 1);
	ck_assert_int_gt(inode->i_mtime.tv_sec, 1000);
	ck_assert_int_gt(inode->i_ctime.tv_sec, 1000);
	ck_assert_uint_ne(atomic_load(&inode->i_state) & I_DIRTY_SYNC, 0);
	iput(inode);
	wf_close(&f);
}
END_TEST

/* A read of a part that fails gives the reservation back. */
START_TEST(failed_write_reserves_nothing)
{
	struct wf f;
	struct inode *inode;
	uint8_t b[10] = {1};
	int id;

	wf_make(&f, "-t ext4 -b 1024", 32 * MIB, 1);
	f.want_faults = true;
	wf_mount(&f);
	inode = wf_file(&f, 0);
	wf_fill(inode, 1, 0, 8 * 1024, 1024);
	wf_sync(&f);
	wb_drop_clean(inode);
	id = wf_fail_blocks(&f, inode, REQ_OP_READ, 3, 1);
	ck_assert_int_eq(wf_write(inode, b, 10, 3 * 1024 + 5), -EIO);
	/* Into the bad block from a hole that was reserved for it. */
	ck_assert_int_eq(ext4_fallocate(inode, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
					3 * 1024, &wf_root),
			 0);
	{
		uint8_t big[3 * 1024];

		memset(big, 2, sizeof(big));
		ck_assert_int_eq(wf_write(inode, big, sizeof(big), 100), -EIO);
	}
	wf_assert_nothing_reserved(&f);
	fault_disarm(f.faults, id);
	wf_check(inode, 1, 3 * 1024, 5 * 1024);
	iput(inode);
	wf_close(&f);
}
END_TEST

START_TEST(without_delayed_allocation_blocks_come_at_once_and_lie_together)
{
	struct wf f;
	struct inode *inode;

	wf_make(&f, "-t ext4 -b 4096", 64 * MIB, 1);
	f.opts.o_delalloc = false;
	wf_mount(&f);
	inode = wf_file(&f, 0);
	wf_fill(inode, 1, 0, 8 * MIB, 8192);
	ck_assert_uint_eq(ext4_sb_dirty_blocks(f.sb), 0);
	ck_assert_uint_le(wf_extents(inode, 8 * MIB / 4096), 4);
	wf_sync(&f);
	wb_drop_clean(inode);
	wf_check(inode, 1, 0, 8 * MIB);
	iput(inode);
	wf_close(&f);
}
END_TEST

/* Aligned and not, in pieces of whole pages and of less, well past the length from which it is taken for a stream. */
START_TEST(a_long_stream_is_what_was_written)
{
	static const size_t pieces[] = {8192, 4096, 12345, 65536};
	struct wf f;
	struct inode *inode;

	wf_open(&f, "-t ext4 -b 4096", 64 * MIB, 1);
	inode = wf_file(&f, 0);
	for (unsigned i = 0; i < sizeof(pieces) / sizeof(pieces[0]); i++)
		wf_fill(inode, 1 + i, i * 5 * MIB + i * 4096, 5 * MIB, pieces[i]);
	for (unsigned round = 0; round < 2; round++) {
		for (unsigned i = 0; i < sizeof(pieces) / sizeof(pieces[0]); i++)
			wf_check(inode, 1 + i, i * 5 * MIB + i * 4096, 5 * MIB);
		wf_sync(&f);
		wb_drop_clean(inode);
	}
	iput(inode);
	wf_close(&f);
}
END_TEST

int main(void)
{
	return RUN_TESTS("writeback/buffered_write",
			 write_returns_and_reads_back_before_anything_is_on_the_device,
			 vector_is_written_in_order, append_goes_to_the_end_and_says_where,
			 mapped_page_writeout_does_not_extend,
			 part_of_a_block_is_read_before_it_is_changed, errors_change_nothing,
			 times_move_with_a_write, failed_write_reserves_nothing,
			 without_delayed_allocation_blocks_come_at_once_and_lie_together,
			 a_long_stream_is_what_was_written);
}
