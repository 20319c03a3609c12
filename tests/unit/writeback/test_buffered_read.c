/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "tests/unit/writeback/wb_fixture.h"

START_TEST(hole_costs_no_memory_and_no_read)
{
	struct wf f;
	struct inode *inode;
	uint64_t reads;

	wf_open(&f, "-t ext4 -b 4096", 32 * MIB, 1);
	inode = wf_file(&f, 0);
	ck_assert_int_eq(ext4_truncate_to(inode, 8 * MIB), 0);
	ck_assert_int_eq(ext4_fallocate(inode, FALLOC_FL_KEEP_SIZE, MIB, MIB, &wf_root), 0);
	reads = wf_requests(&f, REQ_OP_READ);
	wf_check_value(inode, 0, 0, 8 * MIB);
	ck_assert_uint_eq(wf_requests(&f, REQ_OP_READ), reads);
	ck_assert_uint_eq(inode->i_mapping->as_nrpages, 0);
	iput(inode);
	wf_close(&f);
}
END_TEST

START_TEST(cold_sequential_read_makes_large_requests_ahead_of_the_reader)
{
	struct wf f;
	struct inode *inode;
	uint64_t reads;

	wf_open(&f, "-t ext4 -b 4096", 64 * MIB, 1);
	inode = wf_file(&f, 0);
	wf_fill(inode, 1, 0, 8 * MIB, MIB);
	wf_sync(&f);
	wb_drop_clean(inode);
	ck_assert_uint_eq(inode->i_mapping->as_nrpages, 0);
	reads = wf_requests(&f, REQ_OP_READ);
	for (uint64_t pos = 0; pos < 8 * MIB; pos += 32768)
		wf_check(inode, 1, pos, 32768);
	reads = wf_requests(&f, REQ_OP_READ) - reads;
	ck_assert_uint_le(reads, 24);
	ck_assert_uint_gt(counter_read(&f.wb->wb_stats.ws_readahead_pages), 1500);
	iput(inode);
	wf_close(&f);
}
END_TEST

START_TEST(random_reads_read_only_what_is_asked_for)
{
	struct wf f;
	struct inode *inode;

	wf_open(&f, "-t ext4 -b 4096", 64 * MIB, 1);
	inode = wf_file(&f, 0);
	wf_fill(inode, 1, 0, 8 * MIB, MIB);
	wf_sync(&f);
	wb_drop_clean(inode);
	wf_check(inode, 1, 5 * MIB + 17, 4000);
	wf_check(inode, 1, 2 * MIB, 4096);
	wf_check(inode, 1, 7 * MIB, 100);
	ck_assert_uint_le(inode->i_mapping->as_nrpages, 4);
	iput(inode);
	wf_close(&f);
}
END_TEST

START_TEST(frames_of_a_reply_outlive_the_file_content)
{
	struct wf f;
	struct inode *inode;
	struct wb_read *r = malloc(sizeof(*r));

	wf_open(&f, "-t ext4 -b 4096", 32 * MIB, 1);
	inode = wf_file(&f, 0);
	wf_fill(inode, 1, 0, 16 * PAGE, PAGE);
	ck_assert_int_eq(file_read(inode, 100, 10 * PAGE, 0, r), 0);
	ck_assert_uint_eq(r->r_bytes, 10 * PAGE);
	ck_assert_int_eq(ext4_truncate_to(inode, 0), 0);
	while (shrink_page_cache(f.wb, 64) > 0)
		;
	for (size_t i = 0, pos = 100; i < (size_t)r->r_iovcnt; pos += r->r_iov[i++].iov_len)
		pattern_check(r->r_iov[i].iov_base, r->r_iov[i].iov_len, 1, pos);
	wb_read_done(r);
	arena_check(f.wb->wb_arena);
	iput(inode);
	wf_close(&f);
	free(r);
}
END_TEST

START_TEST(read_ends_at_the_end_of_the_file)
{
	struct wf f;
	struct inode *inode;
	uint8_t buf[3 * PAGE_SIZE];

	wf_open(&f, "-t ext4 -b 1024", 32 * MIB, 1);
	inode = wf_file(&f, 0);
	wf_fill(inode, 1, 0, 5000, 5000);
	ck_assert_int_eq(wf_read(inode, buf, sizeof(buf), 4990), 10);
	ck_assert_int_eq(wf_read(inode, buf, sizeof(buf), 5000), 0);
	ck_assert_int_eq(wf_read(inode, buf, sizeof(buf), UINT64_C(1) << 40), 0);
	iput(inode);
	wf_close(&f);
}
END_TEST

START_TEST(read_error_is_eio_and_the_next_read_tries_again)
{
	struct wf f;
	struct inode *inode;
	uint8_t buf[8 * PAGE_SIZE];
	int id;

	wf_make(&f, "-t ext4 -b 4096", 32 * MIB, 1);
	f.want_faults = true;
	wf_mount(&f);
	inode = wf_file(&f, 0);
	wf_fill(inode, 1, 0, 8 * PAGE, PAGE);
	wf_sync(&f);
	wb_drop_clean(inode);
	id = wf_fail_blocks(&f, inode, REQ_OP_READ, 4, 1);
	/* What lies before the bad page is the answer; the error comes with the next read. */
	ck_assert_int_eq(wf_read(inode, buf, sizeof(buf), 0), (ssize_t)(4 * PAGE));
	pattern_check(buf, 4 * PAGE, 1, 0);
	ck_assert_int_eq(wf_read(inode, buf, PAGE, 4 * PAGE), -EIO);
	ck_assert_int_eq(wf_read(inode, buf, PAGE, 4 * PAGE), -EIO);
	ck_assert_int_eq(wf_read(inode, buf, PAGE, 5 * PAGE), (ssize_t)PAGE);
	fault_disarm(f.faults, id);
	wf_check(inode, 1, 0, 8 * PAGE);
	iput(inode);
	wf_close(&f);
}
END_TEST

static struct timespec fake = {.tv_sec = 2000000000};

static struct timespec fake_time(void)
{
	return fake;
}

START_TEST(atime_follows_the_rule_of_the_mount)
{
	struct wf f;
	struct inode *inode;

	wf_open(&f, "-t ext4 -b 4096", 32 * MIB, 1);
	inode = wf_file(&f, 0);
	wf_fill(inode, 1, 0, 100, 100);
	time_set_real_hook(fake_time);
	inode->i_mtime.tv_sec = inode->i_ctime.tv_sec = fake.tv_sec - 100;
	inode->i_atime.tv_sec = fake.tv_sec - 50;
	/* relatime: newer than both changes, and not a day old. */
	wf_check(inode, 1, 0, 100);
	ck_assert_int_eq(inode->i_atime.tv_sec, fake.tv_sec - 50);
	inode->i_atime.tv_sec = fake.tv_sec - 200;
	wf_check(inode, 1, 0, 100);
	ck_assert_int_eq(inode->i_atime.tv_sec, fake.tv_sec);
	inode->i_atime.tv_sec = inode->i_mtime.tv_sec = inode->i_ctime.tv_sec =
		fake.tv_sec - 200000;
	inode->i_atime.tv_sec += 100000;
	wf_check(inode, 1, 0, 100);
	ck_assert_int_eq(inode->i_atime.tv_sec, fake.tv_sec);
	f.sb->s_opts.o_atime = ATIME_NOATIME;
	inode->i_atime.tv_sec = 5;
	wf_check(inode, 1, 0, 100);
	ck_assert_int_eq(inode->i_atime.tv_sec, 5);
	f.sb->s_opts.o_atime = ATIME_STRICT;
	wf_check(inode, 1, 0, 100);
	ck_assert_int_eq(inode->i_atime.tv_sec, fake.tv_sec);
	time_set_real_hook(NULL);
	iput(inode);
	wf_close(&f);
}
END_TEST

/* What a reply points to is nobody else's until it is sent, whatever happens to the file. */
START_TEST(frames_of_a_reply_are_not_given_to_other_files)
{
	static struct wb_read held;
	struct inode *inode, *other;
	uint64_t pos = 0;
	struct wf f;

	wf_make(&f, "-t ext4 -b 4096", 64 * MIB, 2);
	f.opts.o_cache_bytes = 4 * MIB;
	wf_mount(&f);
	inode = wf_file(&f, 0);
	other = wf_file(&f, 1);
	wf_fill(inode, 1, 0, 64 * PAGE, PAGE);
	wf_sync(&f);
	ck_assert_int_eq(file_read(inode, 0, 64 * PAGE, 0, &held), 0);
	ck_assert_uint_eq(held.r_bytes, 64 * PAGE);
	/* Dropped, cut off, its blocks free: and then everything that the cache can hold is filled with something else, twice over. */
	wb_drop_clean(inode);
	ck_assert_int_eq(ext4_truncate_to(inode, 0), 0);
	wf_sync(&f);
	for (unsigned i = 0; i < 8; i++) {
		wf_fill(other, 2, i * MIB, MIB, MIB);
		wf_sync(&f);
		wf_check(other, 2, i * MIB, MIB);
	}
	for (int i = 0; i < held.r_iovcnt; i++) {
		pattern_check(held.r_iov[i].iov_base, held.r_iov[i].iov_len, 1, pos);
		pos += held.r_iov[i].iov_len;
	}
	ck_assert_uint_eq(pos, 64 * PAGE);
	wb_read_done(&held);
	/* Given back: the whole cache can be used again. */
	wf_fill(other, 3, 0, 3 * MIB, MIB);
	wf_sync(&f);
	wf_check(other, 3, 0, 3 * MIB);
	iput(inode);
	iput(other);
	wf_close(&f);
}
END_TEST

int main(void)
{
	return RUN_TESTS("writeback/buffered_read", hole_costs_no_memory_and_no_read,
			 cold_sequential_read_makes_large_requests_ahead_of_the_reader,
			 random_reads_read_only_what_is_asked_for,
			 frames_of_a_reply_outlive_the_file_content,
			 read_ends_at_the_end_of_the_file,
			 read_error_is_eio_and_the_next_read_tries_again,
			 atime_follows_the_rule_of_the_mount,
			 frames_of_a_reply_are_not_given_to_other_files);
}
