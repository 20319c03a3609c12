/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * test_reserve.c - delayed blocks are counted exactly, and nobody is promised what is not there.
 *
 * Invariants: (1) unclaimed = free - delayed - their metadata whenever nothing is on its way. (2)
 * Everything ends at 0.
 * Locking: the threaded test gives each thread an inode of its own.
 */
#include "tests/unit/alloc/alloc_fixture.h"

#include <pthread.h>

#define MIB (UINT64_C(1) << 20)

static void check_zero(struct fix *f)
{
	ck_assert_uint_eq(ext4_sb_dirty_blocks(f->sb), 0);
	ck_assert_int_eq(atomic_load(&ext4_mb(f->sb)->mb_dirty_meta), 0);
	fix_check_accounts(f);
}

START_TEST(each_block_is_reserved_once)
{
	struct inode *inode;
	struct fix f;

	fix_open(&f, "-t ext4 -b 4096", 64 * MIB, 1);
	fix_mount(&f);
	inode = fix_file(&f, 0);
	ck_assert_int_eq(ext4_da_reserve_range(inode, 10, 6, &fix_user), 0);
	ck_assert_uint_eq(ext4_inode_reserved_blocks(inode), 6);
	ck_assert_int_eq(ext4_da_reserve_range(inode, 8, 6, &fix_user), 0);
	ck_assert_uint_eq(ext4_inode_reserved_blocks(inode), 8);
	ck_assert_int_eq(ext4_da_reserve_range(inode, 8, 8, &fix_user), 0);
	ck_assert_uint_eq(ext4_sb_dirty_blocks(f.sb), 8);
	fix_check_accounts(&f);
	ck_assert_uint_eq(ext4_da_release_range(inode, 0, 9), 1);
	ck_assert_uint_eq(ext4_da_release_range(inode, 11, 2), 2);
	ck_assert_uint_eq(ext4_inode_reserved_blocks(inode), 5);
	ck_assert_uint_eq(ext4_da_release_range(inode, 0, EXT4_MAX_BLOCKS), 5);
	ck_assert_uint_eq(ext4_da_release_range(inode, 0, EXT4_MAX_BLOCKS), 0);
	check_zero(&f);
	iput(inode);
	fix_close(&f);
}
END_TEST

static void reserve_and_map(const char *args)
{
	struct inode *inode;
	struct prng p;
	struct fix f;

	prng_seed(&p, prng_seed_from_env(4));
	fix_open(&f, args, 64 * MIB, 1);
	fix_mount(&f);
	inode = fix_file(&f, 0);
	for (unsigned i = 0; i < 300; i++) {
		ext4_lblk_t lblk = (ext4_lblk_t)prng_below(&p, 3000);
		uint32_t len = (uint32_t)prng_range(&p, 1, 60);

		if (prng_chance(&p, 1, 2))
			ck_assert_int_eq(ext4_da_reserve_range(inode, lblk, len, &fix_user), 0);
		else if (prng_chance(&p, 1, 3))
			ext4_da_release_range(inode, lblk, len);
		else
			ck_assert_int_eq(
				fix_write(&f, inode, lblk, len, EXT4_GET_BLOCKS_DELALLOC_RESERVE),
				0);
		ck_assert_uint_eq(ext4_inode_reserved_blocks(inode),
				  ext4_es_delayed_blocks(inode, 0, EXT4_MAX_BLOCKS));
		fix_check_accounts(&f);
	}
	ext4_da_release_range(inode, 0, EXT4_MAX_BLOCKS);
	check_zero(&f);
	iput(inode);
	fix_close(&f);
}

START_TEST(reservations_follow_the_status_tree_extents)
{
	reserve_and_map("-t ext4 -b 4096");
}
END_TEST

START_TEST(reservations_follow_the_status_tree_indirect)
{
	reserve_and_map("-t ext4 -b 1024 -O ^extents,^64bit,^metadata_csum,^flex_bg");
}
END_TEST

START_TEST(metadata_is_reserved_with_the_data_and_ends_with_it)
{
	struct ext4_mballoc *mb;
	struct inode *inode;
	struct fix f;

	fix_open(&f, "-t ext4 -b 1024", 64 * MIB, 1);
	fix_mount(&f);
	mb = ext4_mb(f.sb);
	inode = fix_file(&f, 0);
	/* Four extents fit into the inode. */
	ck_assert_int_eq(ext4_da_reserve_range(inode, 0, 4, &fix_user), 0);
	ck_assert_int_eq(atomic_load(&mb->mb_dirty_meta), 0);
	for (ext4_lblk_t lblk = 0; lblk < 4000; lblk += 10)
		ck_assert_int_eq(ext4_da_reserve_range(inode, lblk, 1, &fix_user), 0);
	/* 400 extents, 84 in a block, leaves half full: 10; and the level above. */
	ck_assert_int_ge(atomic_load(&mb->mb_dirty_meta), 10);
	ck_assert_int_le(atomic_load(&mb->mb_dirty_meta), 450);
	ck_assert_uint_eq(ext4_da_release_range(inode, 0, EXT4_MAX_BLOCKS), 403);
	check_zero(&f);
	iput(inode);
	fix_close(&f);
}
END_TEST

/*
 * Reserve until there is nothing left, map all of it: no allocation may fail. Single blocks far
 * apart need the most metadata.
 */
static void fill_delayed(const char *args, ext4_lblk_t step, uint64_t bytes)
{
	ext4_lblk_t n = 0;
	struct inode *inode;
	struct fix f;
	int err;

	fix_open(&f, args, bytes, 1);
	fix_mount(&f);
	inode = fix_file(&f, 0);
	while ((err = ext4_da_reserve_range(inode, n * step, 1, &fix_user)) == 0)
		n++;
	ck_assert_int_eq(err, -ENOSPC);
	ck_assert_uint_eq(ext4_inode_reserved_blocks(inode), n);
	for (ext4_lblk_t i = 0; i < n; i++)
		ck_assert_int_eq(
			fix_write(&f, inode, i * step, 1, EXT4_GET_BLOCKS_DELALLOC_RESERVE), 0);
	check_zero(&f);
	iput(inode);
	fix_close(&f);
}

START_TEST(what_was_reserved_can_be_allocated)
{
	fill_delayed("-t ext4 -b 1024", 1, 8 * MIB);
}
END_TEST

START_TEST(what_was_reserved_in_single_blocks_can_be_allocated)
{
	fill_delayed("-t ext4 -b 1024", 3, 8 * MIB);
}
END_TEST

START_TEST(what_was_reserved_in_an_indirect_file_can_be_allocated)
{
	fill_delayed("-t ext4 -b 1024 -O ^extents,^64bit,^metadata_csum", 1, 8 * MIB);
}
END_TEST

START_TEST(what_was_reserved_far_apart_in_an_indirect_file_can_be_allocated)
{
	fill_delayed("-t ext4 -b 1024 -O ^extents,^64bit,^metadata_csum", 300, 8 * MIB);
}
END_TEST

START_TEST(root_gets_the_reserve_and_users_do_not)
{
	struct inode *inode;
	ext4_lblk_t user = 0;
	ext4_lblk_t all;
	struct fix f;

	fix_open(&f, "-t ext4 -b 4096 -m 10", 32 * MIB, 1);
	fix_mount(&f);
	inode = fix_file(&f, 0);
	while (ext4_da_reserve_range(inode, user, 1, &fix_user) == 0)
		user++;
	all = user;
	while (ext4_da_reserve_range(inode, all, 1, &fix_root) == 0)
		all++;
	ck_assert_uint_ge(all - user, f.sb->s_r_blocks - 4);
	ck_assert_uint_le(all - user, f.sb->s_r_blocks);
	ck_assert_int_ge(atomic_load(&ext4_mb(f.sb)->mb_unclaimed),
			 (int64_t)ext4_mb(f.sb)->mb_pool);
	ext4_da_release_range(inode, 0, EXT4_MAX_BLOCKS);
	check_zero(&f);
	iput(inode);
	fix_close(&f);
}
END_TEST

/* One block without a reservation: 0 or the error. It is given back at once. */
static int try_block(struct fix *f, struct inode *inode)
{
	uint32_t len = 1;
	int err = 0;
	ext4_fsblk_t block = fix_alloc(f, inode, &len, 0, &err);

	if (err != 0)
		return err;
	ck_assert_int_eq(fix_free(f, inode, block, len), 0);
	fix_commit(f);
	return 0;
}

START_TEST(allocations_without_a_reservation_reach_into_the_reserve_for_whom_it_is)
{
	static const struct ext4_cred owner = {0, 55, false}, uid = {77, 1, false},
				      gid = {1000, 88, false};
	struct inode *inode;
	ext4_lblk_t user = 0;
	struct fix f;

	fix_open(&f, "-t ext4 -b 4096 -m 10", 32 * MIB, 1);
	fix_mount(&f);
	f.sb->s_resuid = 77;
	f.sb->s_resgid = 88;
	inode = fix_file(&f, 0);
	ck_assert_int_eq(try_block(&f, inode), 0);
	while (ext4_da_reserve_range(inode, user, 1, &fix_user) == 0)
		user++;
	ck_assert_int_eq(try_block(&f, inode), -ENOSPC);
	ext4_allocate_for(f.sb, &fix_root);
	ck_assert_int_eq(try_block(&f, inode), 0);
	ext4_allocate_for(f.sb, &fix_user);
	ck_assert_int_eq(try_block(&f, inode), -ENOSPC);
	ext4_allocate_for(f.sb, &uid);
	ck_assert_int_eq(try_block(&f, inode), 0);
	ext4_allocate_for(f.sb, &owner);
	ck_assert_int_eq(try_block(&f, inode), -ENOSPC);
	ext4_allocate_for(f.sb, &gid);
	ck_assert_int_eq(try_block(&f, inode), 0);
	ext4_allocate_for(f.sb, NULL);
	ck_assert_int_eq(try_block(&f, inode), -ENOSPC);
	ext4_da_release_range(inode, 0, EXT4_MAX_BLOCKS);
	check_zero(&f);
	iput(inode);
	fix_close(&f);
}
END_TEST

START_TEST(a_refused_reservation_changes_nothing)
{
	struct inode *inode;
	struct fix f;

	fix_open(&f, "-t ext4 -b 4096", 16 * MIB, 1);
	fix_mount(&f);
	inode = fix_file(&f, 0);
	ck_assert_int_eq(ext4_da_reserve_range(inode, 5, 3, &fix_user), 0);
	ck_assert_int_eq(ext4_da_reserve_range(inode, 0, 1000000, &fix_user), -ENOSPC);
	ck_assert_uint_eq(ext4_inode_reserved_blocks(inode), 3);
	ck_assert_uint_eq(ext4_es_delayed_blocks(inode, 0, EXT4_MAX_BLOCKS), 3);
	fix_check_accounts(&f);
	ck_assert_int_eq(ext4_da_reserve_range(inode, EXT4_MAX_BLOCKS - 2, 5, &fix_user), -EFBIG);
	ext4_da_release_range(inode, 0, EXT4_MAX_BLOCKS);
	check_zero(&f);
	iput(inode);
	fix_close(&f);
}
END_TEST

START_TEST(blocks_freed_and_not_committed_can_be_reserved)
{
	struct ext4_map_blocks map = {.m_lblk = 0, .m_len = 500};
	struct inode *a, *b;
	ext4_lblk_t n = 0;
	handle_t *handle;
	unsigned retries = 0;
	struct fix f;
	int err;

	fix_open(&f, "-t ext4 -b 4096", 16 * MIB, 2);
	fix_mount(&f);
	a = fix_file(&f, 0);
	b = fix_file(&f, 1);
	while (fix_write(&f, a, n, 1, 0) == 0)
		n++;
	fix_commit(&f);
	i_size_write(a, 0);
	atomic_store(&a->i_disksize, 0);
	handle = fix_start(&f);
	ck_assert_int_eq(ext4_remove_space(handle, a, 0, EXT4_MAX_BLOCKS - 1), 0);
	ck_assert_int_eq(ext4_mark_inode_dirty(handle, a), 0);
	fix_stop(handle);
	ck_assert_int_ge(atomic_load(&ext4_mb(f.sb)->mb_pending), n);
	ck_assert_int_eq(ext4_da_reserve_range(b, 0, 500, &fix_user), 0);
	/* Nothing can be allocated yet: the caller commits and tries again. */
	handle = fix_start(&f);
	err = ext4_map_blocks(handle, b, &map,
			      EXT4_GET_BLOCKS_CREATE | EXT4_GET_BLOCKS_DELALLOC_RESERVE);
	fix_stop(handle);
	ck_assert(err > 0 || err == -ENOSPC);
	ck_assert(ext4_should_retry_alloc(f.sb, &retries));
	ck_assert_int_eq(ext4_inode_reserved_blocks(b), err > 0 ? 500 - err : 500);
	ck_assert_int_eq(fix_write(&f, b, 0, 500, EXT4_GET_BLOCKS_DELALLOC_RESERVE), 0);
	check_zero(&f);
	iput(a);
	iput(b);
	fix_close(&f);
}
END_TEST

START_TEST(near_full_delayed_allocation_turns_itself_off)
{
	struct inode *inode;
	ext4_lblk_t n = 0;
	bool start = true;
	struct fix f;

	fix_open(&f, "-t ext4 -b 4096", 32 * MIB, 1);
	fix_mount(&f);
	inode = fix_file(&f, 0);
	ck_assert(!ext4_nonda_switch(f.sb, &start));
	ck_assert(!start);
	while (!ext4_nonda_switch(f.sb, &start) &&
	       ext4_da_reserve_range(inode, n, 1, &fix_user) == 0)
		n++;
	ck_assert(start);
	ck_assert(ext4_nonda_switch(f.sb, &start));
	ext4_da_release_range(inode, 0, EXT4_MAX_BLOCKS);
	check_zero(&f);
	iput(inode);
	fix_close(&f);
}
END_TEST

#define THREADS 4

struct worker {
	struct inode *inode;
	uint64_t refused;
};

static void *reserve_main(void *arg)
{
	struct worker *w = arg;

	for (unsigned round = 0; round < 20; round++) {
		ext4_lblk_t n = 0;

		while (n < 3000 && ext4_da_reserve_range(w->inode, n, 3, &fix_user) == 0)
			n += 3;
		w->refused += n < 3000;
		ck_assert_uint_eq(ext4_inode_reserved_blocks(w->inode), n);
		ck_assert_uint_eq(ext4_da_release_range(w->inode, 0, EXT4_MAX_BLOCKS), n);
	}
	return NULL;
}

START_TEST(threads_never_reserve_more_than_there_is)
{
	struct worker workers[THREADS] = {0};
	pthread_t threads[THREADS];
	struct fix f;

	fix_open(&f, "-t ext4 -b 4096", 24 * MIB, THREADS);
	f.threads = true;
	fix_mount(&f);
	for (unsigned i = 0; i < THREADS; i++) {
		workers[i].inode = fix_file(&f, i);
		ck_assert_int_eq(pthread_create(&threads[i], NULL, reserve_main, &workers[i]), 0);
	}
	for (unsigned i = 0; i < THREADS; i++) {
		pthread_join(threads[i], NULL);
		iput(workers[i].inode);
	}
	check_zero(&f);
	fix_close(&f);
}
END_TEST

int main(void)
{
	return RUN_TESTS("alloc/reserve", each_block_is_reserved_once,
			 reservations_follow_the_status_tree_extents,
			 reservations_follow_the_status_tree_indirect,
			 metadata_is_reserved_with_the_data_and_ends_with_it,
			 what_was_reserved_can_be_allocated,
			 what_was_reserved_in_single_blocks_can_be_allocated,
			 what_was_reserved_in_an_indirect_file_can_be_allocated,
			 what_was_reserved_far_apart_in_an_indirect_file_can_be_allocated,
			 root_gets_the_reserve_and_users_do_not,
			 allocations_without_a_reservation_reach_into_the_reserve_for_whom_it_is,
			 a_refused_reservation_changes_nothing,
			 blocks_freed_and_not_committed_can_be_reserved,
			 near_full_delayed_allocation_turns_itself_off,
			 threads_never_reserve_more_than_there_is);
}
