/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "tests/unit/writeback/wb_fixture.h"

/* Down into the middle of a block, and up again: zeros, in memory, after a remount, and on the disk while the size is still small. */
static void down_and_up(const char *mkfs, bool sync_first)
{
	struct wf f;
	struct inode *inode;

	wf_open(&f, mkfs, 32 * MIB, 1);
	inode = wf_file(&f, 0);
	wf_fill(inode, 1, 0, 40000, 8192);
	if (sync_first)
		wf_sync(&f);
	ck_assert_int_eq(ext4_truncate_to(inode, 10000), 0);
	ck_assert_uint_eq(i_size_read(inode), 10000);
	if (sync_first) {
		struct ext4_map_blocks map = {.m_lblk = 10000u >> f.sb->s_blocksize_bits,
					      .m_len = 1};
		uint64_t in_block = 10000 % f.sb->s_blocksize;

		ck_assert_int_eq(ext4_map_blocks(NULL, inode, &map, 0), 1);
		ck_assert_int_eq(bytes_mismatch((uint8_t *)mem_data(f.image) +
							(map.m_pblk << f.sb->s_blocksize_bits) +
							in_block,
						f.sb->s_blocksize - in_block, 0),
				 -1);
	}
	ck_assert_int_eq(ext4_truncate_to(inode, 30000), 0);
	wf_check(inode, 1, 0, 10000);
	wf_check_value(inode, 0, 10000, 20000);
	iput(inode);
	wf_umount(&f);
	wf_mount(&f);
	inode = wf_file(&f, 0);
	ck_assert_uint_eq(i_size_read(inode), 30000);
	wf_check(inode, 1, 0, 10000);
	wf_check_value(inode, 0, 10000, 20000);
	iput(inode);
	wf_close(&f);
}

START_TEST(truncate_down_and_up_gives_zeros)
{
	down_and_up("-t ext4 -b 4096", true);
	down_and_up("-t ext4 -b 4096", false);
	down_and_up("-t ext4 -b 1024", true);
	down_and_up("-t ext4 -b 1024 -O ^extent,^64bit", true);
}
END_TEST

START_TEST(truncate_gives_reservations_and_blocks_back)
{
	struct wf f;
	struct inode *inode;
	struct ext4_space before, after;

	wf_open(&f, "-t ext4 -b 1024", 32 * MIB, 1);
	inode = wf_file(&f, 0);
	ext4_space(f.sb, &before);
	wf_fill(inode, 1, 0, 100 * 1024, 1024);
	ck_assert_uint_eq(ext4_inode_reserved_blocks(inode), 100);
	ck_assert_int_eq(ext4_truncate_to(inode, 50 * 1024 + 1), 0);
	/* What is kept was written, for i_disksize must not pass it by; the rest is not reserved any more. */
	ck_assert_uint_eq(ext4_inode_reserved_blocks(inode), 0);
	wf_sync(&f);
	ck_assert_uint_eq(atomic_load(&inode->i_blocks), 51 * 2);
	ck_assert_int_eq(ext4_truncate_to(inode, 0), 0);
	ck_assert_uint_eq(atomic_load(&inode->i_blocks), 0);
	wf_sync(&f);
	ext4_space(f.sb, &after);
	ck_assert_uint_eq(after.sp_free, before.sp_free);
	iput(inode);
	wf_close(&f);
}
END_TEST

START_TEST(truncate_to_the_same_size_drops_blocks_past_the_end)
{
	struct wf f;
	struct inode *inode;

	wf_open(&f, "-t ext4 -b 4096", 32 * MIB, 1);
	inode = wf_file(&f, 0);
	wf_fill(inode, 1, 0, 5000, 5000);
	ck_assert_int_eq(ext4_fallocate(inode, FALLOC_FL_KEEP_SIZE, 0, MIB, &wf_root), 0);
	ck_assert_uint_eq(atomic_load(&inode->i_blocks), MIB / 512);
	ck_assert_int_eq(ext4_truncate_to(inode, 5000), 0);
	ck_assert_uint_eq(atomic_load(&inode->i_blocks), 2 * 8);
	wf_check(inode, 1, 0, 5000);
	iput(inode);
	wf_close(&f);
}
END_TEST

/* The file is 10 pages in memory, none on the disk; cut inside a hole that only i_size knows. */
START_TEST(size_in_a_hole_reaches_the_disk)
{
	struct wf f;
	struct inode *inode;

	wf_open(&f, "-t ext4 -b 4096", 32 * MIB, 1);
	inode = wf_file(&f, 0);
	wf_fill(inode, 1, 0, 100, 100);
	wf_fill(inode, 1, MIB, PAGE, PAGE);
	ck_assert_int_eq(ext4_truncate_to(inode, MIB / 2 + 77), 0);
	iput(inode);
	wf_umount(&f);
	wf_mount(&f);
	inode = wf_file(&f, 0);
	ck_assert_uint_eq(i_size_read(inode), MIB / 2 + 77);
	wf_check(inode, 1, 0, 100);
	wf_check_value(inode, 0, 100, MIB / 2 - 23);
	iput(inode);
	wf_close(&f);
}
END_TEST

START_TEST(size_beyond_the_format_is_refused)
{
	struct wf f;
	struct inode *inode;

	wf_open(&f, "-t ext4 -b 1024 -O ^extent,^64bit", 32 * MIB, 1);
	inode = wf_file(&f, 0);
	ck_assert_int_eq(ext4_truncate_to(inode, ext4_max_size(inode) + 1), -EFBIG);
	ck_assert_int_eq(ext4_truncate_to(inode, ext4_max_size(inode)), 0);
	ck_assert_int_eq(ext4_truncate_to(inode, 0), 0);
	iput(inode);
	wf_close(&f);
}
END_TEST

/* How a file gets longer. */
static void grow_to_9000(struct inode *inode, int how)
{
	if (how == 0)
		ck_assert_int_eq(ext4_truncate_to(inode, 9000), 0);
	else if (how == 1)
		wf_fill(inode, 2, 8900, 100, 100);
	else
		ck_assert_int_eq(ext4_fallocate(inode, 0, 4096, 4904, &wf_root), 0);
}

/* Garbage behind the end of a file that somebody else left on the disk does not appear when the file grows. */
static void garbage_behind_the_end(int how)
{
	struct wf f;
	struct inode *inode;
	struct ext4_map_blocks map = {.m_lblk = 0, .m_len = 1};

	wf_open(&f, "-t ext4 -b 4096", 32 * MIB, 1);
	inode = wf_file(&f, 0);
	wf_fill(inode, 1, 0, 1000, 1000);
	wf_sync(&f);
	ck_assert_int_eq(ext4_map_blocks(NULL, inode, &map, 0), 1);
	iput(inode);
	wf_umount(&f);
	memset((uint8_t *)mem_data(f.image) + map.m_pblk * 4096 + 1000, 'G', 3096);
	wf_mount(&f);
	inode = wf_file(&f, 0);
	if (how < 3)
		grow_to_9000(inode, how);
	else
		wf_fill(inode, 2, 1000, 8000, 10);
	ck_assert_uint_eq(i_size_read(inode), 9000);
	if (how != 3)
		wf_check_value(inode, 0, 1000, 7900);
	iput(inode);
	wf_umount(&f);
	wf_mount(&f);
	inode = wf_file(&f, 0);
	wf_check(inode, 1, 0, 1000);
	if (how != 3)
		wf_check_value(inode, 0, 1000, 7900);
	else
		wf_check(inode, 2, 1000, 8000);
	iput(inode);
	wf_close(&f);
}

START_TEST(old_bytes_behind_the_end_never_appear)
{
	for (int how = 0; how < 4; how++)
		garbage_behind_the_end(how);
}
END_TEST

/* No commit is due yet: whenever one comes, the size in it is one whose bytes are on the device. */
START_TEST(tail_is_zero_on_the_disk_before_the_size_passes_it)
{
	for (int how = 0; how < 3; how++) {
		struct ext4_map_blocks map = {.m_lblk = 0, .m_len = 1};
		struct inode *inode;
		uint8_t *block;
		struct wf f;

		wf_open(&f, "-t ext4 -b 4096", 32 * MIB, 1);
		inode = wf_file(&f, 0);
		wf_fill(inode, 1, 0, 1000, 1000);
		wf_sync(&f);
		ck_assert_int_eq(ext4_map_blocks(NULL, inode, &map, 0), 1);
		iput(inode);
		wf_umount(&f);
		block = (uint8_t *)mem_data(f.image) + map.m_pblk * 4096;
		memset(block + 1000, 'G', 3096);
		wf_mount(&f);
		inode = wf_file(&f, 0);
		grow_to_9000(inode, how);
		if (how == 1) {
			ck_assert_uint_eq(atomic_load(&inode->i_disksize), 1000);
			ck_assert_int_eq(filemap_write_and_wait_range(inode, 0, 9000), 0);
		}
		ck_assert_uint_eq(atomic_load(&inode->i_disksize), 9000);
		ck_assert_int_eq(bytes_mismatch(block + 1000, 3096, 0), -1);
		iput(inode);
		wf_close(&f);
	}
}
END_TEST

START_TEST(empty_file_is_cut_without_a_transaction)
{
	struct wf f;
	struct inode *inode;
	uint64_t handles;

	wf_open(&f, "-t ext4 -b 4096", 32 * MIB, 1);
	inode = wf_file(&f, 0);
	handles = counter_read(&jbd2_stats(f.sb->s_journal)->js_handles[HT_INODE]);
	ck_assert_int_eq(ext4_truncate_to(inode, 0), 0);
	ck_assert_uint_eq(counter_read(&jbd2_stats(f.sb->s_journal)->js_handles[HT_INODE]),
			  handles);
	iput(inode);
	wf_close(&f);
}
END_TEST

/* Truncate waits for the pages that it drops; their blocks are not free before. */
static void *truncate_thread(void *arg)
{
	ck_assert_int_eq(ext4_truncate_to(arg, 0), 0);
	return NULL;
}

START_TEST(truncate_waits_for_io_in_flight)
{
	struct wf f;
	struct inode *inode;
	pthread_t t;
	bool done;

	wf_make(&f, "-t ext4 -b 4096", 32 * MIB, 1);
	f.threads = true;
	f.want_slow = true;
	wf_mount(&f);
	inode = wf_file(&f, 0);
	wf_fill(inode, 1, 0, 16 * PAGE, PAGE);
	slowdev_hold(f.dev, REQ_OP_WRITE, true);
	ck_assert_int_eq(filemap_fdatawrite(inode), 0);
	slowdev_wait_held(f.dev, 1);
	pthread_create(&t, NULL, truncate_thread, inode);
	while (i_size_read(inode) != 0)
		usleep(1000);
	usleep(50000);
	/* i_size is already 0, the blocks are still there. */
	ck_assert_uint_eq(atomic_load(&inode->i_blocks), 16 * 8);
	done = pthread_tryjoin_np(t, NULL) == 0;
	ck_assert(!done);
	slowdev_release_all(f.dev);
	pthread_join(t, NULL);
	ck_assert_uint_eq(atomic_load(&inode->i_blocks), 0);
	iput(inode);
	wf_close(&f);
}
END_TEST

/* ---- A cut between the size and the blocks ---- */

static void *cut_thread(void *arg)
{
	ck_assert_int_eq(ext4_truncate_to(arg, 100), 0);
	return NULL;
}

/*
 * The size goes down in one transaction, the blocks go in later ones: it commits while the last block is being read, to zero its tail. What
 * is on the device then is what a cut leaves.
 */
START_TEST(truncate_that_is_cut_is_finished_by_the_next_mount)
{
	struct inode *inode;
	struct blkdev *after;
	struct wf f;
	pthread_t t;

	wf_make(&f, "-t ext4 -b 1024", 32 * MIB, 1);
	f.threads = true;
	f.want_slow = true;
	wf_mount(&f);
	inode = wf_file(&f, 0);
	wf_fill(inode, 1, 0, 300000, 50000);
	iput(inode);
	wf_umount(&f);
	wf_mount(&f);
	inode = wf_file(&f, 0);
	slowdev_hold(f.dev, REQ_OP_READ, true);
	pthread_create(&t, NULL, cut_thread, inode);
	slowdev_wait_held(f.dev, 1);
	while (i_size_read(inode) != 100)
		usleep(1000);
	ck_assert_int_eq(jbd2_journal_force_commit(f.sb->s_journal), 0);
	after = testlib_clone(f.image);
	slowdev_release_all(f.dev);
	pthread_join(t, NULL);
	iput(inode);
	wf_close(&f);

	f.image = after;
	f.threads = false;
	f.want_slow = false;
	wf_mount(&f);
	inode = wf_file(&f, 0);
	ck_assert_uint_eq(i_size_read(inode), 100);
	ck_assert_uint_eq(atomic_load(&inode->i_blocks), 2);
	wf_check(inode, 1, 0, 100);
	iput(inode);
	wf_close(&f);
}
END_TEST

int main(void)
{
	return RUN_TESTS("writeback/truncate", truncate_down_and_up_gives_zeros,
			 truncate_gives_reservations_and_blocks_back,
			 truncate_to_the_same_size_drops_blocks_past_the_end,
			 size_in_a_hole_reaches_the_disk, size_beyond_the_format_is_refused,
			 old_bytes_behind_the_end_never_appear,
			 tail_is_zero_on_the_disk_before_the_size_passes_it,
			 empty_file_is_cut_without_a_transaction, truncate_waits_for_io_in_flight,
			 truncate_that_is_cut_is_finished_by_the_next_mount);
}
