/* SPDX-License-Identifier: GPL-2.0-or-later */
/* test_icache.c - inodes in memory: one object for a number, recycling, eviction, many threads. */

#include <pthread.h>
#include <sched.h>

#include "tests/lib/suite.h"
#include "tests/lib/prng.h"
#include "tests/unit/ext4/fixture.h"

#define FILES 64u

/* FILES empty files with the numbers 12 .. */
static void make_files(struct test_fs *t, const char *args)
{
	char commands[FILES * 32];
	size_t n = 0;

	for (unsigned i = 0; i < FILES; i++)
		n += (size_t)snprintf(commands + n, sizeof(commands) - n, "mknod n%u p\n", i);
	fx_make(t, args, 24 * MIB, commands);
}

static struct inode *get(struct test_fs *t, uint32_t ino)
{
	struct inode *inode = ext4_iget(t->t_sb, ino, EXT4_IGET_NORMAL);

	ck_assert(!IS_ERR(inode));
	ck_assert_uint_eq(inode->i_ino, ino);
	return inode;
}

static atomic_uint inits, destroys;

static int count_init(struct inode *inode)
{
	(void)inode;
	atomic_fetch_add(&inits, 1);
	return 0;
}

static void count_destroy(struct inode *inode)
{
	(void)inode;
	atomic_fetch_add(&destroys, 1);
}

START_TEST(one_object_for_a_number)
{
	struct test_fs t;
	struct inode *a, *b;

	make_files(&t, "-t ext4");
	t.t_upper.alloc_inode_init = count_init;
	t.t_upper.alloc_inode_destroy = count_destroy;
	atomic_store(&inits, 0);
	atomic_store(&destroys, 0);
	ck_assert_int_eq(fx_mount(&t), 0);
	ck_assert_ptr_null(ext4_ilookup(t.t_sb, 12));
	a = get(&t, 12);
	b = get(&t, 12);
	ck_assert_ptr_eq(a, b);
	ck_assert_ptr_eq(ext4_ilookup(t.t_sb, 12), a);
	ck_assert_int_eq(atomic_load(&a->i_count), 3);
	ihold(a);
	for (unsigned i = 0; i < 4; i++)
		iput(a);
	/* Unused, and still there. */
	ck_assert_ptr_eq(get(&t, 12), a);
	iput(a);
	iput(NULL);
	ck_assert_uint_eq(counter_read(&t.t_sb->s_stats.st_inodes_read), 1);
	fx_umount(&t);
	ck_assert_uint_eq(atomic_load(&inits), 1);
	ck_assert_uint_eq(atomic_load(&destroys), 1);
	fx_free(&t);
}
END_TEST

static int fail_init(struct inode *inode)
{
	(void)inode;
	return -ENOMEM;
}

START_TEST(failed_init_leaves_nothing)
{
	struct test_fs t;

	make_files(&t, "-t ext4");
	t.t_upper.alloc_inode_init = fail_init;
	ck_assert_int_eq(fx_mount(&t), 0);
	ck_assert_int_eq(PTR_ERR(ext4_iget(t.t_sb, 12, 0)), -ENOMEM);
	ck_assert_ptr_null(ext4_ilookup(t.t_sb, 12));
	fx_umount(&t);
	fx_free(&t);
}
END_TEST

START_TEST(dirty_inodes_are_not_recycled)
{
	struct test_fs t;
	struct inode *inode;

	make_files(&t, "-t ext4");
	t.t_opts.o_manual_commit = true;
	ck_assert_int_eq(fx_mount(&t), 0);
	ext4_icache_set_limit(t.t_sb, 16);
	inode = get(&t, 12);
	ext4_inode_set_dirty(inode, I_DIRTY_SYNC);
	iput(inode);
	for (unsigned i = 1; i < FILES; i++)
		iput(get(&t, 12 + i));
	ck_assert_ptr_eq(ext4_ilookup(t.t_sb, 12), inode);
	iput(inode);
	/* Of the others at most 16 are left. */
	for (unsigned i = 1, left = 0; i < FILES; i++) {
		inode = ext4_ilookup(t.t_sb, 12 + i);
		left += inode != NULL ? 1 : 0;
		iput(inode);
		ck_assert_uint_le(left, 16);
	}
	fx_umount(&t);
	fx_free(&t);
}
END_TEST

static unsigned hook_calls;
static uint32_t hook_bits;

static void dirty_hook(struct inode *inode, uint32_t bits)
{
	(void)inode;
	hook_calls++;
	hook_bits = bits;
}

START_TEST(dirty_bits_reach_the_hook_once)
{
	struct test_fs t;
	struct inode *inode;
	handle_t *h;

	make_files(&t, "-t ext4");
	ck_assert_int_eq(fx_mount(&t), 0);
	ext4_set_dirty_hook(t.t_sb, dirty_hook);
	hook_calls = 0;
	inode = get(&t, 12);
	ext4_inode_set_dirty(inode, I_DIRTY_SYNC);
	ext4_inode_set_dirty(inode, I_DIRTY_SYNC);
	ck_assert_uint_eq(hook_calls, 1);
	ext4_inode_set_dirty(inode, I_DIRTY_SYNC | I_DIRTY_PAGES);
	ck_assert_uint_eq(hook_calls, 2);
	h = ext4_journal_start(inode, HT_INODE, 1);
	ck_assert_int_eq(ext4_mark_inode_dirty(h, inode), 0);
	ck_assert_int_eq(ext4_journal_stop(h, 0), 0);
	ck_assert_uint_eq(atomic_load(&inode->i_state) & I_DIRTY_ALL, I_DIRTY_PAGES);
	/* Lazy times become dirty when nobody uses the inode any more. */
	ext4_inode_set_dirty(inode, I_DIRTY_TIME);
	iput(inode);
	ck_assert_uint_eq(hook_calls, 4);
	ck_assert_uint_eq(hook_bits, I_DIRTY_SYNC | I_DIRTY_TIME);
	ck_assert_uint_ne(atomic_load(&inode->i_state) & I_DIRTY_SYNC, 0);
	ck_assert_uint_eq(atomic_load(&inode->i_state) & I_DIRTY_TIME, 0);
	fx_umount(&t);
	fx_free(&t);
}
END_TEST

static int count_inode(struct inode *inode, void *arg)
{
	unsigned *n = arg;

	ck_assert_int_gt(atomic_load(&inode->i_count), 0);
	return ++*n == 40 ? -EINTR : 0;
}

START_TEST(for_each_stops_when_told)
{
	struct test_fs t;
	unsigned n = 0;

	make_files(&t, "-t ext4");
	ck_assert_int_eq(fx_mount(&t), 0);
	for (unsigned i = 0; i < 30; i++)
		iput(get(&t, 12 + i));
	ck_assert_int_eq(ext4_icache_for_each(t.t_sb, count_inode, &n), 0);
	ck_assert_uint_eq(n, 30);
	for (unsigned i = 30; i < FILES; i++)
		iput(get(&t, 12 + i));
	n = 0;
	ck_assert_int_eq(ext4_icache_for_each(t.t_sb, count_inode, &n), -EINTR);
	ck_assert_uint_eq(n, 40);
	fx_umount(&t);
	fx_free(&t);
}
END_TEST

/* ---- New and deleted ---- */

static void unlink_inode(struct inode *inode)
{
	handle_t *h = ext4_journal_start(inode, HT_DIR, 4);

	ck_assert(!IS_ERR(h));
	atomic_store(&inode->i_nlink, 0);
	ck_assert_int_eq(ext4_orphan_add(h, inode), 0);
	ck_assert_int_eq(ext4_mark_inode_dirty(h, inode), 0);
	ck_assert_int_eq(ext4_journal_stop(h, 0), 0);
}

START_TEST(last_reference_of_a_deleted_inode_evicts)
{
	struct test_fs t;
	struct inode *inode;

	make_files(&t, "-t ext4");
	t.t_opts.o_manual_commit = _i == 1;
	ck_assert_int_eq(fx_mount(&t), 0);
	inode = get(&t, 12);
	ihold(inode);
	unlink_inode(inode);
	iput(inode);
	ext4_drain_evictions(t.t_sb);
	ck_assert_uint_eq(fx_evictions, 0);
	iput(inode);
	ext4_drain_evictions(t.t_sb);
	ck_assert_uint_eq(fx_evictions, 1);
	ck_assert_ptr_null(ext4_ilookup(t.t_sb, 12));
	ck_assert_int_eq(PTR_ERR(ext4_iget(t.t_sb, 12, EXT4_IGET_HANDLE)), -ESTALE);
	fx_umount(&t);
	fx_free(&t);
}
END_TEST

/* A guess, as in a file handle, finds only what has a name: not what has lost it, and not what is just being made. */
START_TEST(a_guess_finds_what_has_a_name)
{
	struct test_fs t;
	struct inode *inode, *guess;

	make_files(&t, "-t ext4");
	ck_assert_int_eq(fx_mount(&t), 0);
	guess = ext4_iget(t.t_sb, 12, EXT4_IGET_HANDLE);
	inode = get(&t, 12);
	ck_assert_ptr_eq(guess, inode);
	unlink_inode(inode);
	ck_assert_int_eq(PTR_ERR(ext4_iget(t.t_sb, 12, EXT4_IGET_HANDLE)), -ESTALE);
	ck_assert_int_eq(atomic_load(&inode->i_count), 2);
	iput(guess);
	iput(inode);
	inode = ext4_inode_new(t.t_sb, 12 + FILES);
	ck_assert(!IS_ERR(inode));
	atomic_store(&inode->i_nlink, 1);
	ck_assert_int_eq(PTR_ERR(ext4_iget(t.t_sb, 12 + FILES, EXT4_IGET_HANDLE)), -ESTALE);
	ck_assert_int_eq(atomic_load(&inode->i_count), 1);
	iput(inode);
	ck_assert_int_eq(fx_umount(&t), 0);
	fx_free(&t);
}
END_TEST

/* What the table holds does not count where the bitmap says that the number is free. */
START_TEST(a_guess_believes_the_bitmap)
{
	struct ext4_group_info *gi;
	struct buffer_head *bh;
	struct test_fs t;

	make_files(&t, "-t ext4 -O ^metadata_csum,^uninit_bg");
	t.t_opts.o_read_only = true;
	ck_assert_int_eq(fx_mount(&t), 0);
	gi = ext4_get_group_info(t.t_sb, 0);
	bh = ext4_read_inode_bitmap(t.t_sb, gi);
	lock_buffer(bh);
	bh->b_data[12 / 8] &= (uint8_t) ~(1u << (12 % 8));
	unlock_buffer(bh);
	bh_put(bh);
	ck_assert_int_eq(PTR_ERR(ext4_iget(t.t_sb, 13, EXT4_IGET_HANDLE)), -ESTALE);
	ck_assert_ptr_null(ext4_ilookup(t.t_sb, 13));
	iput(get(&t, 14));
	ck_assert_int_eq(fx_umount(&t), 0);
	fx_free(&t);
}
END_TEST

START_TEST(simulations_evict_after_the_handle)
{
	struct test_fs t;
	struct inode *inode;
	handle_t *h;

	make_files(&t, "-t ext4");
	t.t_opts.o_manual_commit = true;
	ck_assert_int_eq(fx_mount(&t), 0);
	inode = get(&t, 12);
	unlink_inode(inode);
	h = ext4_journal_start_sb(t.t_sb, HT_MISC, 1, 0);
	iput(inode);
	ck_assert_uint_eq(fx_evictions, 0);
	ck_assert_int_eq(ext4_journal_stop(h, 0), 0);
	ext4_drain_evictions(t.t_sb);
	ck_assert_uint_eq(fx_evictions, 1);
	fx_umount(&t);
	fx_free(&t);
}
END_TEST

/* The whole life of a number: new, written, read back, deleted, new again. */
START_TEST(new_inode_starts_from_zeros)
{
	struct test_fs t;
	struct inode *inode;
	handle_t *h;
	uint32_t ino;

	make_files(&t, "-t ext4");
	ck_assert_int_eq(fx_mount(&t), 0);
	/* Right behind the used ones, in a block that is in use, and in one that is not. */
	for (unsigned i = 0; i < 2; i++) {
		struct ext4_group_info *gi = ext4_get_group_info(t.t_sb, 0);
		struct ext4_group_change gc = {.gc_itable_unused = 0};
		struct buffer_head *bh;
		unsigned offset;

		bh_put(ext4_read_inode_bitmap(t.t_sb, gi));
		ino = i == 0 ? 12 + FILES : 600;
		inode = ext4_inode_new(t.t_sb, ino);
		ck_assert(!IS_ERR(inode));
		ck_assert_int_eq(PTR_ERR(ext4_inode_new(t.t_sb, ino)), -EFSCORRUPTED);
		inode->i_mode = S_IFIFO | 0600;
		atomic_store(&inode->i_nlink, 1);
		inode->i_extra_isize = 32;
		ext4_inode_set_generation(inode, 4711);
		h = ext4_journal_start(inode, HT_INODE, 3);
		ck_assert_int_eq(ext4_journal_get_write_access(h, gi->bg_desc_bh), 0);
		mutex_lock(&gi->bg_lock);
		ext4_group_change(t.t_sb, gi, &gc);
		mutex_unlock(&gi->bg_lock);
		ck_assert_int_eq(ext4_handle_dirty_metadata(h, NULL, gi->bg_desc_bh), 0);
		ck_assert_int_eq(ext4_mark_inode_dirty(h, inode), 0);
		ck_assert_int_eq(ext4_journal_stop(h, 0), 0);
		ck_assert_uint_eq(atomic_load(&inode->i_state) & I_NEW, 0);
		ck_assert_int_eq(ext4_get_inode_loc(inode, &bh, &offset), 0);
		for (unsigned k = 160; k < 256; k++)
			ck_assert_uint_eq(bh->b_data[offset + k], 0);
		bh_put(bh);
		iput(inode);
		ck_assert_uint_eq(ext4_icache_shrink_all(t.t_sb), 0);
		inode = get(&t, ino);
		ck_assert_uint_eq(inode->i_generation, 4711);
		ck_assert(S_ISFIFO(inode->i_mode));
		iput(inode);
	}
	fx_umount(&t);
	fx_free(&t);
}
END_TEST

/* ---- Threads ---- */

struct worker {
	pthread_t w_thread;
	struct test_fs *w_t;
	uint64_t w_seed;
	unsigned w_gets;
};

/* Takes and drops inodes; some die on the way, and whoever asks then waits and is told. */
static void *churn(void *arg)
{
	struct worker *w = arg;
	struct prng rng;

	prng_seed(&rng, w->w_seed);
	for (unsigned i = 0; i < 3000; i++) {
		uint32_t ino = 12 + (uint32_t)prng_below(&rng, FILES);
		struct inode *inode = ext4_iget(w->w_t->t_sb, ino, EXT4_IGET_HANDLE);

		if (IS_ERR(inode)) {
			ck_assert_int_eq(PTR_ERR(inode), -ESTALE);
			continue;
		}
		w->w_gets++;
		ck_assert_uint_eq(inode->i_ino, ino);
		if (prng_chance(&rng, 1, 4))
			sched_yield();
		if (prng_chance(&rng, 1, 8)) {
			handle_t *h = ext4_journal_start(inode, HT_INODE, 1);

			ck_assert(!IS_ERR(h));
			mutex_lock(&inode->i_lock);
			inode->i_mtime.tv_sec = (time_t)i;
			mutex_unlock(&inode->i_lock);
			ck_assert_int_eq(ext4_mark_inode_dirty(h, inode), 0);
			ck_assert_int_eq(ext4_journal_stop(h, 0), 0);
		}
		/* The first half of the files dies during the run. */
		if (ino < 12 + FILES / 2 && prng_chance(&rng, 1, 200)) {
			uint32_t one = 1;

			if (atomic_compare_exchange_strong(&inode->i_nlink, &one, 0)) {
				handle_t *h = ext4_journal_start(inode, HT_DIR, 4);

				ck_assert_int_eq(ext4_orphan_add(h, inode), 0);
				ck_assert_int_eq(ext4_mark_inode_dirty(h, inode), 0);
				ck_assert_int_eq(ext4_journal_stop(h, 0), 0);
			}
		}
		iput(inode);
	}
	return NULL;
}

static pthread_mutex_t evict_lock = PTHREAD_MUTEX_INITIALIZER;

static void evict_one(struct inode *inode)
{
	/* The test's counters are not made for two workers. */
	pthread_mutex_lock(&evict_lock);
	fx_evict(inode);
	pthread_mutex_unlock(&evict_lock);
}

START_TEST(threads_share_the_cache)
{
	struct worker w[4];
	struct test_fs t;
	unsigned alive = 0;

	make_files(&t, "-t ext4");
	t.t_upper.evict_inode = evict_one;
	ck_assert_int_eq(fx_mount(&t), 0);
	ext4_icache_set_limit(t.t_sb, 8);
	for (unsigned i = 0; i < 4; i++) {
		w[i] = (struct worker){.w_t = &t, .w_seed = 31 + i};
		pthread_create(&w[i].w_thread, NULL, churn, &w[i]);
	}
	for (unsigned i = 0; i < 4; i++) {
		pthread_join(w[i].w_thread, NULL);
		ck_assert_uint_gt(w[i].w_gets, 1000);
	}
	ext4_drain_evictions(t.t_sb);
	for (unsigned i = 0; i < FILES; i++) {
		struct inode *inode = ext4_iget(t.t_sb, 12 + i, EXT4_IGET_HANDLE);

		if (IS_ERR(inode))
			continue;
		alive++;
		iput(inode);
	}
	ck_assert_uint_ge(alive, FILES / 2);
	ck_assert_uint_eq(alive + fx_evictions, FILES);
	ck_assert_uint_gt(fx_evictions, 10);
	ck_assert_int_eq(fx_umount(&t), 0);
	/* Directory entries of dead inodes are left by this test, and free counters; nothing else. */
	fx_free(&t);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("ext4/icache");
	TCase *tc = testlib_case("all");

	tcase_add_test(tc, one_object_for_a_number);
	tcase_add_test(tc, failed_init_leaves_nothing);
	tcase_add_test(tc, dirty_inodes_are_not_recycled);
	tcase_add_test(tc, dirty_bits_reach_the_hook_once);
	tcase_add_test(tc, for_each_stops_when_told);
	tcase_add_loop_test(tc, last_reference_of_a_deleted_inode_evicts, 0, 2);
	tcase_add_test(tc, a_guess_finds_what_has_a_name);
	tcase_add_test(tc, a_guess_believes_the_bitmap);
	tcase_add_test(tc, simulations_evict_after_the_handle);
	tcase_add_test(tc, new_inode_starts_from_zeros);
	tcase_add_test(tc, threads_share_the_cache);
	suite_add_tcase(s, tc);
	return testlib_run_suite(s);
}
