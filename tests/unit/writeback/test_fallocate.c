/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "tests/unit/writeback/wb_fixture.h"

#define PUNCH (FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE)

START_TEST(preallocation_reads_as_zeros_and_is_used_by_writes)
{
	struct wf f;
	struct inode *inode;
	uint64_t blocks;

	wf_open(&f, "-t ext4 -b 4096", 32 * MIB, 1);
	inode = wf_file(&f, 0);
	ck_assert_int_eq(ext4_fallocate(inode, 0, 1000, 10 * PAGE, &wf_root), 0);
	ck_assert_uint_eq(i_size_read(inode), 1000 + 10 * PAGE);
	blocks = atomic_load(&inode->i_blocks);
	ck_assert_uint_eq(blocks, 11 * 8);
	wf_check_value(inode, 0, 0, 1000 + 10 * PAGE);
	wf_fill(inode, 1, 2 * PAGE, 3 * PAGE, PAGE);
	ck_assert_uint_eq(ext4_inode_reserved_blocks(inode), 0);
	wf_sync(&f);
	ck_assert_uint_eq(atomic_load(&inode->i_blocks), blocks);
	wb_drop_clean(inode);
	wf_check_value(inode, 0, 0, 2 * PAGE);
	wf_check(inode, 1, 2 * PAGE, 3 * PAGE);
	wf_check_value(inode, 0, 5 * PAGE, 5 * PAGE + 1000);
	iput(inode);
	wf_close(&f);
}
END_TEST

/* On a full disk a write into preallocated space is never refused. */
START_TEST(preallocated_space_meets_no_enospc)
{
	struct wf f;
	struct inode *a, *b;
	uint8_t *buf = calloc(1, MIB);
	uint64_t pos = 0;
	ssize_t n;

	wf_open(&f, "-t ext4 -b 1024", 16 * MIB, 2);
	a = wf_file(&f, 0);
	b = wf_file(&f, 1);
	ck_assert_int_eq(ext4_fallocate(a, 0, 0, 2 * MIB, &wf_root), 0);
	while ((n = wf_write(b, buf, MIB, pos)) > 0)
		pos += (uint64_t)n;
	ck_assert_int_eq(n, -ENOSPC);
	/* In pieces with gaps: extents are split. */
	for (uint64_t p = 0; p < 2 * MIB; p += 3 * 1024) {
		wf_fill(a, 7, p, 1024, 1024);
		if (p % (96 * 1024) == 0)
			ck_assert_int_eq(ext4_sync_file(a, false), 0);
	}
	wf_sync(&f);
	ck_assert_int_eq(wb_err_sample(a), 0);
	for (uint64_t p = 0; p < 2 * MIB; p += 3 * 1024)
		wf_check(a, 7, p, 1024);
	iput(a);
	iput(b);
	wf_close(&f);
	free(buf);
}
END_TEST

START_TEST(hole_over_delayed_blocks_gives_the_reservation_back)
{
	struct wf f;
	struct inode *inode;

	wf_open(&f, "-t ext4 -b 1024", 32 * MIB, 1);
	inode = wf_file(&f, 0);
	wf_fill(inode, 1, 0, 64 * 1024, 1024);
	ck_assert_int_eq(ext4_sync_file(inode, true), 0);
	wf_fill(inode, 1, 64 * 1024, 64 * 1024, 1024);
	ck_assert_uint_eq(ext4_inode_reserved_blocks(inode), 64);
	ck_assert_int_eq(ext4_fallocate(inode, PUNCH, 0, 128 * 1024, &wf_root), 0);
	wf_assert_nothing_reserved(&f);
	ck_assert_uint_eq(atomic_load(&inode->i_blocks), 0);
	ck_assert_uint_eq(i_size_read(inode), 128 * 1024);
	wf_check_value(inode, 0, 0, 128 * 1024);
	iput(inode);
	wf_umount(&f);
	wf_mount(&f);
	inode = wf_file(&f, 0);
	ck_assert_uint_eq(i_size_read(inode), 128 * 1024);
	iput(inode);
	wf_close(&f);
}
END_TEST

START_TEST(zero_range_over_delayed_blocks_keeps_accounts_exact)
{
	struct wf f;
	struct inode *inode;
	struct ext4_space before, after;

	wf_open(&f, "-t ext4 -b 1024", 32 * MIB, 1);
	inode = wf_file(&f, 0);
	ext4_space(f.sb, &before);
	wf_fill(inode, 1, 0, 32 * 1024, 1024);
	ck_assert_int_eq(ext4_fallocate(inode, FALLOC_FL_ZERO_RANGE, 3000, 20000, &wf_root), 0);
	wf_check(inode, 1, 0, 3000);
	wf_check_value(inode, 0, 3000, 20000);
	wf_check(inode, 1, 23000, 32 * 1024 - 23000);
	wf_sync(&f);
	wf_assert_nothing_reserved(&f);
	ext4_space(f.sb, &after);
	ck_assert_uint_eq(before.sp_free - after.sp_free, 32);
	ck_assert_uint_eq(atomic_load(&inode->i_blocks), 64);
	iput(inode);
	wf_close(&f);
}
END_TEST

START_TEST(edges_inside_one_block_are_zeroed_and_nothing_else)
{
	struct wf f;
	struct inode *inode;

	wf_open(&f, "-t ext4 -b 4096", 32 * MIB, 1);
	inode = wf_file(&f, 0);
	wf_fill(inode, 1, 0, 4 * PAGE, PAGE);
	wf_sync(&f);
	ck_assert_int_eq(ext4_fallocate(inode, PUNCH, PAGE + 10, 100, &wf_root), 0);
	ck_assert_int_eq(ext4_fallocate(inode, FALLOC_FL_ZERO_RANGE, 2 * PAGE + 5, 1, &wf_root), 0);
	wf_sync(&f);
	wb_drop_clean(inode);
	wf_check(inode, 1, 0, PAGE + 10);
	wf_check_value(inode, 0, PAGE + 10, 100);
	wf_check(inode, 1, PAGE + 110, PAGE - 105);
	wf_check_value(inode, 0, 2 * PAGE + 5, 1);
	wf_check(inode, 1, 2 * PAGE + 6, 2 * PAGE - 6);
	ck_assert_uint_eq(atomic_load(&inode->i_blocks), 4 * 8);
	iput(inode);
	wf_close(&f);
}
END_TEST

START_TEST(what_is_not_supported_or_makes_no_sense_is_refused)
{
	struct wf f;
	struct inode *inode, *root;

	wf_open(&f, "-t ext4 -b 4096", 32 * MIB, 1);
	inode = wf_file(&f, 0);
	root = ext4_iget(f.sb, EXT4_ROOT_INO, EXT4_IGET_SPECIAL);
	ck_assert_int_eq(ext4_fallocate(inode, FALLOC_FL_COLLAPSE_RANGE, 0, 4096, &wf_root),
			 -EOPNOTSUPP);
	ck_assert_int_eq(ext4_fallocate(inode, FALLOC_FL_INSERT_RANGE, 0, 4096, &wf_root),
			 -EOPNOTSUPP);
	ck_assert_int_eq(ext4_fallocate(inode, FALLOC_FL_PUNCH_HOLE, 0, 4096, &wf_root),
			 -EOPNOTSUPP);
	ck_assert_int_eq(ext4_fallocate(inode, 0, 0, 0, &wf_root), -EINVAL);
	ck_assert_int_eq(ext4_fallocate(inode, 0, ext4_max_size(inode), 1, &wf_root), -EFBIG);
	ck_assert_int_eq(ext4_fallocate(inode, 0, 100, UINT64_MAX - 50, &wf_root), -EFBIG);
	ck_assert_int_eq(ext4_fallocate(root, 0, 0, 4096, &wf_root), -EISDIR);
	inode->i_flags |= EXT2_IMMUTABLE_FL;
	ck_assert_int_eq(ext4_fallocate(inode, 0, 0, 4096, &wf_root), -EPERM);
	inode->i_flags &= ~(uint32_t)EXT2_IMMUTABLE_FL;
	ck_assert_uint_eq(atomic_load(&inode->i_blocks), 0);
	iput(root);
	iput(inode);
	wf_close(&f);
}
END_TEST

START_TEST(files_without_extents_refuse)
{
	static const int modes[] = {0, FALLOC_FL_KEEP_SIZE,
				    FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
				    FALLOC_FL_ZERO_RANGE};
	struct wf f;
	struct inode *inode;

	wf_open(&f, "-t ext4 -b 1024 -O ^extent,^64bit", 32 * MIB, 1);
	inode = wf_file(&f, 0);
	wf_fill(inode, 1, 0, 4 * PAGE, PAGE);
	for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++)
		ck_assert_int_eq(ext4_fallocate(inode, modes[i], 0, PAGE, &wf_root), -EOPNOTSUPP);
	wf_check(inode, 1, 0, 4 * PAGE);
	iput(inode);
	wf_close(&f);
}
END_TEST

#define RACE_PAGES 32u
#define RACE_ROUNDS 3000u

/* As the kernel writes out the pages of a map that a program stores to. */
static void *store_to_map(void *arg)
{
	uint8_t buf[PAGE_SIZE];
	struct prng p;

	memset(buf, 'm', sizeof(buf));
	prng_seed(&p, 7);
	for (unsigned i = 0; i < RACE_ROUNDS; i++) {
		uint64_t pos = prng_below(&p, RACE_PAGES) * PAGE;

		ck_assert_int_eq(wf_write_flags(arg, buf, PAGE, pos, WB_WRITE_CACHE),
				 (ssize_t)PAGE);
	}
	return NULL;
}

START_TEST(fallocate_beside_stores_to_a_map_leaks_no_reservation)
{
	static const int modes[] = {0, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
				    FALLOC_FL_ZERO_RANGE};
	struct wf f;
	struct inode *inode;
	pthread_t thread;
	struct prng p;

	wf_make(&f, "-t ext4 -b 1024", 32 * MIB, 1);
	f.threads = true;
	wf_mount(&f);
	inode = wf_file(&f, 0);
	ck_assert_int_eq(ext4_truncate_to(inode, RACE_PAGES * PAGE), 0);
	prng_seed(&p, 8);
	ck_assert_int_eq(pthread_create(&thread, NULL, store_to_map, inode), 0);
	for (unsigned i = 0; i < RACE_ROUNDS; i++) {
		uint64_t pos = prng_below(&p, RACE_PAGES) * PAGE + prng_below(&p, 2) * 1024;

		ck_assert_int_eq(ext4_fallocate(inode, modes[i % 3], pos, 3000, &wf_root), 0);
		if (i % 64 == 0)
			ck_assert_int_eq(filemap_fdatawrite(inode), 0);
	}
	pthread_join(thread, NULL);
	wf_sync(&f);
	wf_assert_nothing_reserved(&f);
	ck_assert_uint_eq(ext4_inode_reserved_blocks(inode), 0);
	iput(inode);
	wf_close(&f);
}
END_TEST

START_TEST(disk_too_small_for_the_request_is_enospc)
{
	struct wf f;
	struct inode *inode;

	wf_open(&f, "-t ext4 -b 4096", 16 * MIB, 1);
	inode = wf_file(&f, 0);
	ck_assert_int_eq(ext4_fallocate(inode, FALLOC_FL_KEEP_SIZE, 0, 64 * MIB, &wf_root),
			 -ENOSPC);
	ck_assert_int_eq(ext4_truncate_to(inode, 0), 0);
	ck_assert_uint_eq(atomic_load(&inode->i_blocks), 0);
	iput(inode);
	wf_close(&f);
}
END_TEST

int main(void)
{
	return RUN_TESTS("writeback/fallocate", preallocation_reads_as_zeros_and_is_used_by_writes,
			 preallocated_space_meets_no_enospc,
			 hole_over_delayed_blocks_gives_the_reservation_back,
			 zero_range_over_delayed_blocks_keeps_accounts_exact,
			 edges_inside_one_block_are_zeroed_and_nothing_else,
			 what_is_not_supported_or_makes_no_sense_is_refused,
			 files_without_extents_refuse,
			 fallocate_beside_stores_to_a_map_leaks_no_reservation,
			 disk_too_small_for_the_request_is_enospc);
}
