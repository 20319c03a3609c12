/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * test_prealloc.c - preallocated blocks: who gets them, and that every one comes back.
 *
 * Invariants: (1) after everything was given back the buddies say free for exactly what the bitmaps
 * have clear.
 * Locking: none.
 */
#include "tests/unit/alloc/alloc_fixture.h"

#define MIB (UINT64_C(1) << 20)

/* Blocks that the bitmaps have free and the buddies in memory have used. */
static int64_t kept_aside(struct fix *f)
{
	int64_t blocks = 0;

	for (ext4_group_t group = 0; group < f->sb->s_groups_count; group++) {
		struct mb_group *g = ext4_mb_group_lock(f->sb, group);

		ck_assert(!IS_ERR(g));
		ext4_buddy_check(g->g_buddy);
		blocks += atomic_load(&g->g_info->bg_free_blocks);
		blocks -= g->g_buddy->b_free;
		ext4_mb_group_unlock(g);
	}
	return blocks;
}

static ext4_fsblk_t where(struct inode *inode, ext4_lblk_t lblk)
{
	struct ext4_map_blocks map = {.m_lblk = lblk, .m_len = 1};

	ck_assert_int_eq(ext4_map_blocks(NULL, inode, &map, 0), 1);
	return map.m_pblk;
}

START_TEST(small_files_lie_side_by_side)
{
	ext4_fsblk_t first = 0;
	struct fix f;

	fix_open(&f, "-t ext4 -b 4096", 64 * MIB, 100);
	fix_mount(&f);
	for (unsigned i = 0; i < 100; i++) {
		struct inode *inode = fix_file(&f, i);

		ck_assert_int_eq(fix_write(&f, inode, 0, 2, 0), 0);
		if (i == 0)
			first = where(inode, 0);
		ck_assert_uint_eq(where(inode, 0), first + 2 * i);
		iput(inode);
	}
	ext4_discard_all_preallocations(f.sb);
	ck_assert_int_eq(kept_aside(&f), 0);
	fix_close(&f);
}
END_TEST

START_TEST(a_growing_file_keeps_a_window_and_gives_it_back_at_close)
{
	struct inode *inode;
	struct fix f;

	fix_open(&f, "-t ext4 -b 4096", 64 * MIB, 1);
	fix_mount(&f);
	inode = fix_file(&f, 0);
	ck_assert_int_eq(fix_write(&f, inode, 0, 40, 0), 0);
	/* 160 KiB: a window of 256 KiB. */
	ck_assert_int_eq(kept_aside(&f), 64 - 40);
	ck_assert_int_eq(fix_write(&f, inode, 40, 10, 0), 0);
	ck_assert_int_eq(kept_aside(&f), 64 - 50);
	ck_assert_uint_eq(where(inode, 49), where(inode, 0) + 49);
	ext4_discard_preallocations(inode);
	ck_assert_int_eq(kept_aside(&f), 0);
	iput(inode);
	fix_close(&f);
}
END_TEST

START_TEST(a_window_is_used_in_any_order_and_in_pieces)
{
	static const ext4_lblk_t order[] = {20, 3, 40, 19, 21, 63, 0, 41};
	struct inode *inode;
	ext4_fsblk_t base;
	struct fix f;

	fix_open(&f, "-t ext4 -b 4096", 64 * MIB, 1);
	fix_mount(&f);
	inode = fix_file(&f, 0);
	i_size_write(inode, 64 * 4096);
	ck_assert_int_eq(fix_write(&f, inode, 30, 1, 0), 0);
	base = where(inode, 30) - 30;
	ck_assert_int_eq(kept_aside(&f), 63);
	for (unsigned i = 0; i < sizeof(order) / sizeof(order[0]); i++) {
		ck_assert_int_eq(fix_write(&f, inode, order[i], 1, 0), 0);
		ck_assert_uint_eq(where(inode, order[i]), base + order[i]);
		ck_assert_int_eq(kept_aside(&f), 62 - (int)i);
	}
	ext4_discard_preallocations(inode);
	ck_assert_int_eq(kept_aside(&f), 0);
	iput(inode);
	fix_close(&f);
}
END_TEST

START_TEST(a_window_begins_after_what_is_mapped)
{
	struct inode *inode;
	struct fix f;

	fix_open(&f, "-t ext4 -b 4096", 64 * MIB, 1);
	fix_mount(&f);
	inode = fix_file(&f, 0);
	i_size_write(inode, 64 * 4096);
	ck_assert_int_eq(fix_write(&f, inode, 0, 10, EXT4_GET_BLOCKS_NO_NORMALIZE), 0);
	ck_assert_int_eq(fix_write(&f, inode, 20, 1, 0), 0);
	ck_assert_int_eq(kept_aside(&f), 64 - 11);
	ck_assert_uint_eq(where(inode, 20), where(inode, 0) + 20);
	ck_assert_int_eq(fix_write(&f, inode, 10, 10, 0), 0);
	ck_assert_int_eq(fix_write(&f, inode, 21, 43, 0), 0);
	ck_assert_uint_eq(fix_count_runs(inode, 64), 1);
	ck_assert_int_eq(kept_aside(&f), 0);
	iput(inode);
	fix_close(&f);
}
END_TEST

START_TEST(the_last_inode_reference_gives_everything_back)
{
	struct inode *inode;
	struct fix f;

	fix_open(&f, "-t ext4 -b 4096", 64 * MIB, 1);
	fix_mount(&f);
	inode = fix_file(&f, 0);
	ck_assert_int_eq(fix_write(&f, inode, 0, 40, 0), 0);
	iput(inode);
	fix_commit(&f);
	ck_assert_uint_eq(ext4_icache_shrink_all(f.sb), 0);
	ck_assert_int_eq(kept_aside(&f), 0);
	fix_close(&f);
}
END_TEST

START_TEST(preallocation_never_causes_enospc)
{
	const uint64_t bits = 12;
	struct inode *a, *b;
	uint64_t blocks = 0;
	struct fix f;
	int err = 0;

	fix_open(&f, "-t ext4 -b 4096 -m 0", 24 * MIB, 2);
	fix_mount(&f);
	a = fix_file(&f, 0);
	b = fix_file(&f, 1);
	/* b keeps windows while a takes all there is. */
	for (ext4_lblk_t lblk = 0; lblk < 2000; lblk += 100)
		ck_assert_int_eq(fix_write(&f, b, lblk, 20, 0), 0);
	ck_assert_int_gt(kept_aside(&f), 0);
	while (err == 0) {
		struct ext4_map_blocks map = {.m_lblk = (ext4_lblk_t)blocks, .m_len = 50};
		handle_t *handle = fix_start(&f);
		int n = ext4_map_blocks(handle, a, &map, EXT4_GET_BLOCKS_CREATE);

		if (n > 0) {
			blocks += (unsigned)n;
			i_size_write(a, blocks << bits);
			atomic_store(&a->i_disksize, blocks << bits);
			ck_assert_int_eq(ext4_mark_inode_dirty(handle, a), 0);
		}
		err = n < 0 ? n : 0;
		fix_stop(handle);
	}
	ck_assert_int_eq(err, -ENOSPC);
	ck_assert_int_le(atomic_load(&ext4_mb(f.sb)->mb_free), (int64_t)ext4_mb(f.sb)->mb_pool + 4);
	fix_check_accounts(&f);
	iput(a);
	iput(b);
	fix_close(&f);
}
END_TEST

START_TEST(the_number_of_preallocations_is_bounded)
{
	struct inode *inode;
	struct fix f;

	fix_open(&f, "-t ext4 -b 4096", 256 * MIB, 1);
	fix_mount(&f);
	inode = fix_file(&f, 0);
	i_size_write(inode, UINT64_C(64) << 30);
	for (ext4_lblk_t i = 0; i < 60; i++)
		ck_assert_int_eq(fix_write(&f, inode, i * 2048 + 100, 1, 0), 0);
	ck_assert_uint_le(atomic_load(&inode->i_alloc->ia_nr_pas), 17);
	ext4_discard_preallocations(inode);
	ck_assert_int_eq(kept_aside(&f), 0);
	iput(inode);
	f.threads = false;
	fix_umount(&f);
	/* The size was only in memory. */
	ck_assert_int_eq(testlib_fsck(f.image), 0);
	blk_close(f.image);
}
END_TEST

START_TEST(a_file_without_writers_takes_no_more_than_it_needs)
{
	struct inode *inode;
	struct fix f;

	fix_open(&f, "-t ext4 -b 4096", 64 * MIB, 1);
	fix_mount(&f);
	inode = fix_file(&f, 0);
	ck_assert_int_eq(ext4_da_reserve_range(inode, 0, 40, &fix_user), 0);
	ext4_discard_preallocations(inode);
	ck_assert_int_eq(fix_write(&f, inode, 0, 40, EXT4_GET_BLOCKS_DELALLOC_RESERVE), 0);
	ck_assert_int_eq(kept_aside(&f), 0);
	/* A new write means a new writer. */
	ck_assert_int_eq(ext4_da_reserve_range(inode, 40, 40, &fix_user), 0);
	ck_assert_int_eq(fix_write(&f, inode, 40, 40, EXT4_GET_BLOCKS_DELALLOC_RESERVE), 0);
	ck_assert_int_gt(kept_aside(&f), 0);
	iput(inode);
	fix_close(&f);
}
END_TEST

int main(void)
{
	return RUN_TESTS("alloc/prealloc", small_files_lie_side_by_side,
			 a_growing_file_keeps_a_window_and_gives_it_back_at_close,
			 a_window_is_used_in_any_order_and_in_pieces,
			 a_window_begins_after_what_is_mapped,
			 the_last_inode_reference_gives_everything_back,
			 preallocation_never_causes_enospc, the_number_of_preallocations_is_bounded,
			 a_file_without_writers_takes_no_more_than_it_needs);
}
