/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * test_buffer.c - the buffer cache: identity, reads, writes in flight, forgetting, the limit.
 * Locking: what is tested; helper threads end before the test does.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "block/buffer.h"
#include "tests/lib/pattern.h"
#include "tests/lib/prng.h"
#include "tests/lib/slowdev.h"
#include "tests/lib/suite.h"
#include "util/err.h"

#define BLOCKS 4096u
#define BS 1024u

static struct blkdev *mem;
static struct blkdev *dev;
static struct bh_cache *cache;
static uint8_t *disk;

static void setup(uint64_t limit_bytes)
{
	mem = mem_open((uint64_t)BLOCKS * BS, 512, NULL);
	dev = slowdev_open(mem);
	cache = bh_cache_create(dev, BS, limit_bytes);
	disk = mem_data(mem);
	for (uint64_t b = 0; b < BLOCKS; b++)
		pattern_fill(disk + b * BS, BS, b, 0);
}

static void teardown(void)
{
	bh_cache_destroy(cache);
	blk_close(dev);
}

START_TEST(a_block_has_one_buffer)
{
	struct buffer_head *a, *b;

	setup(BLOCKS * BS);
	a = bh_get(cache, 5);
	b = bh_get(cache, 5);
	ck_assert_ptr_eq(a, b);
	ck_assert(!bh_test(a, BH_UPTODATE));
	ck_assert_ptr_eq(bh_find(cache, 5), a);
	ck_assert_ptr_null(bh_find(cache, 6));
	ck_assert_int_eq(atomic_load(&a->b_count), 3);
	ck_assert_int_eq(PTR_ERR(bh_get(cache, BLOCKS)), -EFSCORRUPTED);
	ck_assert_int_eq(PTR_ERR(bh_read(cache, UINT64_MAX)), -EFSCORRUPTED);
	bh_put(a);
	bh_put(a);
	bh_put(a);
	bh_put(NULL);
	bh_put(ERR_PTR(-EIO));
	teardown();
}
END_TEST

START_TEST(read_takes_the_disk_once_and_errors_are_not_cached)
{
	struct buffer_head *bh;

	setup(BLOCKS * BS);
	bh = bh_read(cache, 7);
	pattern_check(bh->b_data, BS, 7, 0);
	bh_put(bh);
	memset(disk + 7 * BS, 0, BS);
	bh = bh_read(cache, 7);
	pattern_check(bh->b_data, BS, 7, 0);
	bh_put(bh);
	ck_assert_uint_eq(counter_read(&dev->bd_stats.s_requests[REQ_OP_READ]), 1);
	dev->bd_size_bytes = 8 * BS;
	ck_assert_int_eq(PTR_ERR(bh_read(cache, 9)), -EIO);
	dev->bd_size_bytes = BLOCKS * BS;
	bh = bh_read(cache, 9);
	ck_assert(!IS_ERR(bh));
	pattern_check(bh->b_data, BS, 9, 0);
	bh_put(bh);
	teardown();
}
END_TEST

static void *reader(void *arg)
{
	uint64_t blocknr = *(uint64_t *)arg;
	struct buffer_head *bh = bh_read(cache, blocknr);

	pattern_check(bh->b_data, BS, blocknr, 0);
	bh_put(bh);
	return NULL;
}

START_TEST(concurrent_readers_share_one_read)
{
	uint64_t blocknr = 11;
	pthread_t threads[4];

	setup(BLOCKS * BS);
	slowdev_hold(dev, REQ_OP_READ, true);
	for (int i = 0; i < 4; i++)
		pthread_create(&threads[i], NULL, reader, &blocknr);
	slowdev_wait_held(dev, 1);
	usleep(20000);
	ck_assert_uint_eq(slowdev_held(dev), 1);
	slowdev_release_all(dev);
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	teardown();
}
END_TEST

static void *read_late(void *arg)
{
	struct buffer_head *bh = bh_read(cache, 12);

	(void)arg;
	ck_assert_int_eq(bytes_mismatch(bh->b_data, BS, 0xaa), -1);
	bh_put(bh);
	return NULL;
}

START_TEST(a_read_never_overwrites_what_was_filled_in)
{
	struct buffer_head *bh;
	pthread_t thread;

	setup(BLOCKS * BS);
	bh = bh_get(cache, 12);
	slowdev_hold(dev, REQ_OP_READ, true);
	pthread_create(&thread, NULL, read_late, NULL);
	slowdev_wait_held(dev, 1);
	lock_buffer(bh);
	memset(bh->b_data, 0xaa, BS);
	bh_set(bh, BH_UPTODATE);
	unlock_buffer(bh);
	slowdev_release_all(dev);
	pthread_join(thread, NULL);
	ck_assert_int_eq(bytes_mismatch(bh->b_data, BS, 0xaa), -1);
	bh_put(bh);
	teardown();
}
END_TEST

START_TEST(readahead_reads_neighbours_in_one_request_and_skips_known_blocks)
{
	struct buffer_head *known;

	setup(BLOCKS * BS);
	known = bh_get(cache, 25);
	bh_readahead(cache, 20, 10);
	ck_assert_uint_eq(counter_read(&dev->bd_stats.s_requests[REQ_OP_READ]), 2);
	ck_assert_uint_eq(counter_read(&dev->bd_stats.s_bytes[REQ_OP_READ]), 9 * BS);
	for (uint64_t b = 20; b < 30; b++) {
		struct buffer_head *bh = bh_read(cache, b);

		pattern_check(bh->b_data, BS, b, 0);
		bh_put(bh);
	}
	ck_assert_uint_eq(counter_read(&dev->bd_stats.s_requests[REQ_OP_READ]), 3);
	bh_readahead(cache, BLOCKS - 2, 100);
	bh_readahead(cache, UINT64_MAX, 100);
	bh_put(known);
	teardown();
}
END_TEST

START_TEST(find_and_get_beside_a_readahead)
{
	uint64_t blocknr = 40;
	pthread_t thread;

	setup(BLOCKS * BS);
	slowdev_hold(dev, REQ_OP_READ, true);
	bh_readahead(cache, 40, 1);
	ck_assert_ptr_null(bh_find(cache, 40));
	pthread_create(&thread, NULL, reader, &blocknr);
	usleep(10000);
	slowdev_fail(dev, 0, -EIO);
	slowdev_wait_held(dev, 1);
	slowdev_release_all(dev);
	pthread_join(thread, NULL);
	teardown();
}
END_TEST

struct write_job {
	struct buffer_head *wj_bh;
	uint8_t wj_data[BS];
	int wj_err;
};

static void *write_copy(void *arg)
{
	struct write_job *wj = arg;

	wj->wj_err = bh_write_copy(wj->wj_bh, wj->wj_data, 0);
	return NULL;
}

START_TEST(one_write_of_a_block_at_a_time)
{
	static struct write_job first, second;
	pthread_t threads[2];

	setup(BLOCKS * BS);
	first.wj_bh = second.wj_bh = bh_get(cache, 50);
	memset(first.wj_data, 1, BS);
	memset(second.wj_data, 2, BS);
	slowdev_hold(dev, REQ_OP_WRITE, true);
	pthread_create(&threads[0], NULL, write_copy, &first);
	slowdev_wait_held(dev, 1);
	pthread_create(&threads[1], NULL, write_copy, &second);
	usleep(20000);
	ck_assert_uint_eq(slowdev_held(dev), 1);
	ck_assert(bh_test(first.wj_bh, BH_WRITING));
	ck_assert(bh_writes_in_flight(cache, 50, 1));
	ck_assert(bh_writes_in_flight(cache, 0, BLOCKS));
	ck_assert(!bh_writes_in_flight(cache, 51, 100));
	ck_assert(!bh_writes_in_flight(cache, 0, 50));
	slowdev_release(dev, 0);
	slowdev_wait_held(dev, 1);
	slowdev_release_all(dev);
	pthread_join(threads[0], NULL);
	pthread_join(threads[1], NULL);
	ck_assert_int_eq(first.wj_err, 0);
	ck_assert_int_eq(bytes_mismatch(disk + 50 * BS, BS, 2), -1);
	ck_assert(!bh_writes_in_flight(cache, 0, BLOCKS));
	bh_put(first.wj_bh);
	teardown();
}
END_TEST

static _Atomic int waited;

static void *wait_for_block(void *arg)
{
	bh_wait_writes(cache, *(uint64_t *)arg, 10);
	atomic_store(&waited, 1);
	return NULL;
}

START_TEST(a_forgotten_buffer_is_still_in_flight)
{
	static struct write_job job;
	uint64_t from = 55;
	pthread_t writer, waiter;
	struct buffer_head *again;

	setup(BLOCKS * BS);
	job.wj_bh = bh_read(cache, 60);
	memset(job.wj_data, 3, BS);
	slowdev_hold(dev, REQ_OP_WRITE, true);
	pthread_create(&writer, NULL, write_copy, &job);
	slowdev_wait_held(dev, 1);
	bh_forget_range(cache, 60, 1);
	ck_assert_ptr_null(bh_find(cache, 60));
	ck_assert(bh_writes_in_flight(cache, 60, 1));
	pthread_create(&waiter, NULL, wait_for_block, &from);
	usleep(20000);
	ck_assert_int_eq(atomic_load(&waited), 0);
	slowdev_release_all(dev);
	pthread_join(waiter, NULL);
	pthread_join(writer, NULL);
	again = bh_read(cache, 60);
	ck_assert_ptr_ne(again, job.wj_bh);
	ck_assert_int_eq(bytes_mismatch(again->b_data, BS, 3), -1);
	bh_put(again);
	bh_put(job.wj_bh);
	teardown();
}
END_TEST

START_TEST(write_many_merges_neighbours_and_skips_duplicates)
{
	struct buffer_head *bhs[602];

	setup(BLOCKS * BS);
	for (unsigned i = 0; i < 600; i++) {
		uint64_t b = 100 + (i * 7) % 600;

		bhs[i] = bh_get(cache, b);
		pattern_fill(bhs[i]->b_data, BS, 9000 + b, 0);
		bh_set(bhs[i], BH_UPTODATE | BH_DIRTY);
	}
	bhs[600] = bhs[3];
	bhs[601] = bhs[3];
	ck_assert_int_eq(bh_write_many(bhs, 602, 0), 0);
	for (uint64_t b = 100; b < 700; b++)
		pattern_check(disk + b * BS, BS, 9000 + b, 0);
	pattern_check(disk + 99 * BS, BS, 99, 0);
	pattern_check(disk + 700 * BS, BS, 700, 0);
	ck_assert_uint_eq(counter_read(&dev->bd_stats.s_requests[REQ_OP_WRITE]), 3);
	for (unsigned i = 0; i < 600; i++) {
		ck_assert(!bh_test(bhs[i], BH_DIRTY | BH_WRITING | BH_IO_ERROR));
		bh_put(bhs[i]);
	}
	teardown();
}
END_TEST

struct many_job {
	struct buffer_head *mj_bhs[4];
	int mj_err;
};

static void *write_four(void *arg)
{
	struct many_job *mj = arg;

	mj->mj_err = bh_write_many(mj->mj_bhs, 4, 0);
	return NULL;
}

START_TEST(write_many_is_stable_and_reports_each_failure)
{
	static struct many_job job;
	pthread_t thread;

	setup(BLOCKS * BS);
	for (unsigned i = 0; i < 4; i++) {
		job.mj_bhs[i] = bh_read(cache, 200 + 2 * i);
		bh_set(job.mj_bhs[i], BH_DIRTY);
	}
	slowdev_hold(dev, REQ_OP_WRITE, true);
	pthread_create(&thread, NULL, write_four, &job);
	slowdev_wait_held(dev, 4);
	for (unsigned i = 0; i < 4; i++) {
		lock_buffer(job.mj_bhs[i]);
		memset(job.mj_bhs[i]->b_data, 0xee, BS);
		unlock_buffer(job.mj_bhs[i]);
	}
	slowdev_fail(dev, 1, -EIO);
	memset(disk + 200 * BS, 0, 8 * BS);
	slowdev_release_all(dev);
	pthread_join(thread, NULL);
	ck_assert_int_eq(job.mj_err, -EIO);
	for (unsigned i = 0; i < 4; i++) {
		struct buffer_head *bh = job.mj_bhs[i];

		ck_assert(bh_test(bh, BH_IO_ERROR) == (i == 1));
		ck_assert(bh_test(bh, BH_DIRTY) == (i == 1));
		if (i != 1)
			pattern_check(disk + bh->b_blocknr * BS, BS, bh->b_blocknr, 0);
		bh_put(bh);
	}
	ck_assert_int_eq(bytes_mismatch(disk + 202 * BS, BS, 0), -1);
	teardown();
}
END_TEST

START_TEST(each_block_of_a_merged_write_is_in_flight)
{
	static struct many_job job;
	pthread_t thread;

	setup(BLOCKS * BS);
	for (unsigned i = 0; i < 4; i++)
		job.mj_bhs[i] = bh_read(cache, 200 + i);
	slowdev_hold(dev, REQ_OP_WRITE, true);
	pthread_create(&thread, NULL, write_four, &job);
	slowdev_wait_held(dev, 1);
	ck_assert_uint_eq(slowdev_held(dev), 1);
	for (uint64_t b = 198; b < 206; b++)
		ck_assert(bh_writes_in_flight(cache, b, 1) == (b >= 200 && b < 204));
	ck_assert(bh_writes_in_flight(cache, 203, 100));
	ck_assert(!bh_writes_in_flight(cache, 204, 100));
	ck_assert(!bh_writes_in_flight(cache, 0, 200));
	slowdev_release_all(dev);
	pthread_join(thread, NULL);
	ck_assert(!bh_writes_in_flight(cache, 0, BLOCKS));
	for (unsigned i = 0; i < 4; i++)
		bh_put(job.mj_bhs[i]);
	teardown();
}
END_TEST

START_TEST(write_copies_leaves_the_buffers_alone)
{
	static uint8_t content[300][BS];
	const uint8_t *data[300];
	struct buffer_head *bhs[300];

	setup(BLOCKS * BS);
	for (unsigned i = 0; i < 300; i++) {
		bhs[i] = bh_read(cache, 400 + i);
		bh_set(bhs[i], BH_DIRTY);
		pattern_fill(content[i], BS, 7000 + i, 0);
		data[i] = content[i];
	}
	ck_assert_int_eq(bh_write_copies(bhs, data, 300, 0), 0);
	ck_assert_uint_eq(counter_read(&dev->bd_stats.s_requests[REQ_OP_WRITE]), 2);
	for (unsigned i = 0; i < 300; i++) {
		pattern_check(disk + (400 + i) * BS, BS, 7000 + i, 0);
		pattern_check(bhs[i]->b_data, BS, 400 + i, 0);
		ck_assert(bh_test(bhs[i], BH_DIRTY));
		bh_put(bhs[i]);
	}
	teardown();
}
END_TEST

START_TEST(forget_drops_dirty_but_not_what_the_journal_holds)
{
	struct buffer_head *journaled, *bh;

	setup(BLOCKS * BS);
	journaled = bh_read(cache, 300);
	journaled->b_journal_head = journaled;
	bh = bh_read(cache, 301);
	memset(bh->b_data, 1, BS);
	bh_set(bh, BH_DIRTY);
	bh_put(bh);
	bh_forget_range(cache, 0, UINT64_MAX);
	ck_assert_ptr_eq(bh_find(cache, 300), journaled);
	ck_assert_ptr_null(bh_find(cache, 301));
	bh = bh_read(cache, 301);
	pattern_check(bh->b_data, BS, 301, 0);
	bh_put(bh);
	journaled->b_journal_head = NULL;
	bh_put(journaled);
	bh_put(journaled);
	teardown();
}
END_TEST

START_TEST(limit_evicts_clean_in_lru_order_and_keeps_the_rest)
{
	struct buffer_head *held, *dirty;

	setup(256 * BS);
	held = bh_read(cache, 1);
	dirty = bh_read(cache, 2);
	memset(dirty->b_data, 0x77, BS);
	bh_set(dirty, BH_DIRTY);
	bh_put(dirty);
	for (uint64_t b = 0; b < BLOCKS; b++)
		bh_put(bh_read(cache, b));
	ck_assert_uint_le(bh_cache_bytes(cache), 260 * BS);
	ck_assert_uint_ge(bh_cache_bytes(cache), 200 * BS);
	ck_assert_ptr_eq(bh_find(cache, 1), held);
	bh_put(held);
	dirty = bh_find(cache, 2);
	ck_assert_ptr_nonnull(dirty);
	ck_assert_int_eq(bytes_mismatch(dirty->b_data, BS, 0x77), -1);
	bh_put(dirty);
	bh_cache_charge(cache, 200 * BS);
	for (uint64_t b = 1000; b < 2000; b++)
		bh_put(bh_read(cache, b));
	ck_assert_uint_le(bh_cache_bytes(cache), 260 * BS);
	bh_cache_charge(cache, -200 * (int64_t)BS);
	bh_put(held);
	teardown();
}
END_TEST

static void *hammer(void *arg)
{
	struct prng p;

	prng_seed(&p, *(uint64_t *)arg);
	for (unsigned i = 0; i < 5000; i++) {
		uint64_t b = prng_below(&p, 600);
		struct buffer_head *bh;

		if (prng_chance(&p, 1, 20)) {
			bh_readahead(cache, b, 8);
			continue;
		}
		if (prng_chance(&p, 1, 20)) {
			bh_forget_range(cache, b, 4);
			continue;
		}
		bh = bh_read(cache, b);
		ck_assert_int_eq(pattern_mismatch(bh->b_data, BS, b, 0), -1);
		if (prng_chance(&p, 1, 20))
			ck_assert_int_eq(bh_write_many(&bh, 1, 0), 0);
		bh_put(bh);
	}
	return NULL;
}

START_TEST(many_threads)
{
	uint64_t seeds[4] = {1, 2, 3, 4};
	pthread_t threads[4];

	setup(100 * BS);
	for (int i = 0; i < 4; i++)
		pthread_create(&threads[i], NULL, hammer, &seeds[i]);
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	bh_forget_range(cache, 0, BLOCKS);
	ck_assert_uint_eq(bh_cache_bytes(cache), 0);
	for (uint64_t b = 0; b < BLOCKS; b++)
		pattern_check(disk + b * BS, BS, b, 0);
	teardown();
}
END_TEST

int main(void)
{
	return RUN_TESTS(
		"block/buffer", a_block_has_one_buffer,
		read_takes_the_disk_once_and_errors_are_not_cached,
		concurrent_readers_share_one_read, a_read_never_overwrites_what_was_filled_in,
		readahead_reads_neighbours_in_one_request_and_skips_known_blocks,
		find_and_get_beside_a_readahead, one_write_of_a_block_at_a_time,
		a_forgotten_buffer_is_still_in_flight,
		write_many_merges_neighbours_and_skips_duplicates,
		write_many_is_stable_and_reports_each_failure,
		each_block_of_a_merged_write_is_in_flight, write_copies_leaves_the_buffers_alone,
		forget_drops_dirty_but_not_what_the_journal_holds,
		limit_evicts_clean_in_lru_order_and_keeps_the_rest, many_threads);
}
