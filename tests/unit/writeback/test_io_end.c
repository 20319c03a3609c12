/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What follows a request: conversion and i_disksize, in which order, and what an error does. */
#include <sched.h>

#include "tests/unit/writeback/wb_fixture.h"

static void writepages(struct inode *inode, long nr)
{
	struct writeback_control wbc = {.nr_to_write = nr, .range_end = UINT64_MAX};

	ck_assert_int_eq(do_writepages(inode->i_mapping, &wbc), 0);
	ck_assert_int_eq(wbc.nr_to_write, 0);
}

static unsigned state_of(struct inode *inode, ext4_lblk_t lblk)
{
	struct ext4_map_blocks map = {.m_lblk = lblk, .m_len = 1};

	ck_assert_int_ge(ext4_map_blocks(NULL, inode, &map, 0), 0);
	return map.m_flags & (EXT4_MAP_MAPPED | EXT4_MAP_UNWRITTEN);
}

/* 32 pages of a new file in two requests, both held by the device. */
static struct inode *two_held_requests(struct wf *f)
{
	struct inode *inode;

	wf_make(f, "-t ext4 -b 4096", 32 * MIB, 1);
	f->want_slow = true;
	wf_mount(f);
	wf_tune(f, "write_bump", "x1");
	inode = wf_file(f, 0);
	wf_fill(inode, 1, 0, 32 * PAGE, PAGE);
	slowdev_hold(f->dev, REQ_OP_WRITE, true);
	writepages(inode, 16);
	writepages(inode, 16);
	ck_assert_uint_eq(slowdev_held(f->dev), 2);
	ck_assert_uint_eq(state_of(inode, 0), EXT4_MAP_UNWRITTEN);
	ck_assert_uint_eq(state_of(inode, 31), EXT4_MAP_UNWRITTEN);
	return inode;
}

START_TEST(growing_file_is_converted_in_file_order)
{
	struct wf f;
	struct inode *inode = two_held_requests(&f);

	slowdev_release(f.dev, 1);
	wb_run_completions(f.sb);
	ck_assert_uint_eq(atomic_load(&inode->i_disksize), 0);
	ck_assert_uint_eq(state_of(inode, 16), EXT4_MAP_UNWRITTEN);
	ck_assert_uint_gt(counter_read(&f.wb->wb_stats.ws_conversion_waits), 0);
	ck_assert_uint_eq(atomic_load(&inode->i_mapping->as_nr_writeback), 32);
	slowdev_hold(f.dev, REQ_OP_WRITE, false);
	slowdev_release(f.dev, 0);
	wb_run_completions(f.sb);
	ck_assert_uint_eq(atomic_load(&inode->i_disksize), 32 * PAGE);
	ck_assert_uint_eq(state_of(inode, 0), EXT4_MAP_MAPPED);
	ck_assert_uint_eq(state_of(inode, 31), EXT4_MAP_MAPPED);
	ck_assert_uint_eq(atomic_load(&inode->i_mapping->as_nr_writeback), 0);
	iput(inode);
	wf_close(&f);
}
END_TEST

START_TEST(inside_i_disksize_order_does_not_matter)
{
	struct wf f;
	struct inode *inode;

	wf_make(&f, "-t ext4 -b 4096", 32 * MIB, 1);
	f.want_slow = true;
	wf_mount(&f);
	wf_tune(&f, "write_bump", "x1");
	inode = wf_file(&f, 0);
	ck_assert_int_eq(ext4_truncate_to(inode, 64 * PAGE), 0);
	wf_fill(inode, 1, 0, 32 * PAGE, PAGE);
	slowdev_hold(f.dev, REQ_OP_WRITE, true);
	writepages(inode, 16);
	writepages(inode, 16);
	slowdev_release(f.dev, 1);
	wb_run_completions(f.sb);
	ck_assert_uint_eq(state_of(inode, 0), EXT4_MAP_UNWRITTEN);
	ck_assert_uint_eq(state_of(inode, 16), EXT4_MAP_MAPPED);
	slowdev_release_all(f.dev);
	wb_run_completions(f.sb);
	ck_assert_uint_eq(state_of(inode, 0), EXT4_MAP_MAPPED);
	iput(inode);
	wf_close(&f);
}
END_TEST

START_TEST(failed_request_leaves_its_extent_unwritten_and_is_told_once)
{
	struct wf f;
	struct inode *inode = two_held_requests(&f);
	uint32_t a = wb_err_sample(inode), b = a;

	slowdev_fail(f.dev, 0, -EIO);
	slowdev_release_all(f.dev);
	wb_run_completions(f.sb);
	ck_assert_uint_eq(state_of(inode, 0), EXT4_MAP_UNWRITTEN);
	ck_assert_uint_eq(state_of(inode, 16), EXT4_MAP_MAPPED);
	ck_assert_int_eq(ext4_sync_file(inode, false), 0);
	ck_assert_int_eq(wb_err_check_and_advance(inode, &a), -EIO);
	ck_assert_int_eq(wb_err_check_and_advance(inode, &a), 0);
	ck_assert_int_eq(wb_err_check_and_advance(inode, &b), -EIO);
	wb_drop_clean(inode);
	wf_check_value(inode, 0, 0, 16 * PAGE);
	wf_check(inode, 1, 16 * PAGE, 16 * PAGE);
	wf_assert_nothing_reserved(&f);
	iput(inode);
	wf_close(&f);
}
END_TEST

/* A request that fails does not hold up what comes after it, nor is it forgotten when the order is reversed. */
START_TEST(failure_in_the_middle_of_a_growing_file_ends_well)
{
	struct wf f;
	struct inode *inode = two_held_requests(&f);

	slowdev_release(f.dev, 1);
	wb_run_completions(f.sb);
	slowdev_fail(f.dev, 0, -EIO);
	slowdev_release_all(f.dev);
	wb_run_completions(f.sb);
	ck_assert_uint_eq(atomic_load(&inode->i_mapping->as_nr_writeback), 0);
	ck_assert_uint_eq(state_of(inode, 16), EXT4_MAP_MAPPED);
	ck_assert_uint_eq(atomic_load(&inode->i_disksize), 32 * PAGE);
	iput(inode);
	wf_close(&f);
}
END_TEST

START_TEST(append_inside_a_block_moves_i_disksize_at_completion)
{
	struct wf f;
	struct inode *inode;

	wf_make(&f, "-t ext4 -b 4096", 32 * MIB, 1);
	f.want_slow = true;
	wf_mount(&f);
	inode = wf_file(&f, 0);
	wf_fill(inode, 1, 0, 100, 100);
	wf_sync(&f);
	ck_assert_uint_eq(atomic_load(&inode->i_disksize), 100);
	wf_fill(inode, 1, 100, 100, 100);
	slowdev_hold(f.dev, REQ_OP_WRITE, true);
	writepages(inode, 1);
	wb_run_completions(f.sb);
	ck_assert_uint_eq(atomic_load(&inode->i_disksize), 100);
	slowdev_release_all(f.dev);
	wb_run_completions(f.sb);
	ck_assert_uint_eq(atomic_load(&inode->i_disksize), 200);
	ck_assert_uint_eq(counter_read(&f.wb->wb_stats.ws_handles), 1);
	iput(inode);
	wf_close(&f);
}
END_TEST

/* ---- With threads ---- */

struct job {
	struct inode *inode;
	uint64_t pos;
	_Atomic bool done;
};

static void *write_page(void *arg)
{
	struct job *j = arg;

	wf_fill(j->inode, 2, j->pos, PAGE, PAGE);
	atomic_store(&j->done, true);
	return NULL;
}

START_TEST(page_in_flight_is_stable_and_only_its_writer_waits)
{
	struct wf f;
	struct job same, other;
	struct inode *inode;
	pthread_t t;
	struct ext4_map_blocks map = {.m_lblk = 3, .m_len = 1};

	wf_make(&f, "-t ext4 -b 4096", 32 * MIB, 1);
	f.threads = true;
	f.want_slow = true;
	wf_mount(&f);
	inode = wf_file(&f, 0);
	wf_fill(inode, 1, 0, 8 * PAGE, PAGE);
	slowdev_hold(f.dev, REQ_OP_WRITE, true);
	writepages(inode, 8);
	slowdev_wait_held(f.dev, 1);
	/* A page that is not in flight: at once. */
	other = (struct job){.inode = inode, .pos = 20 * PAGE};
	write_page(&other);
	same = (struct job){.inode = inode, .pos = 3 * PAGE};
	pthread_create(&t, NULL, write_page, &same);
	usleep(30000);
	ck_assert(!atomic_load(&same.done));
	slowdev_release_all(f.dev);
	pthread_join(t, NULL);
	ck_assert(atomic_load(&same.done));
	ck_assert_int_eq(ext4_map_blocks(NULL, inode, &map, 0), 1);
	pattern_check((uint8_t *)mem_data(f.image) + map.m_pblk * 4096, PAGE, 1, 3 * PAGE);
	wf_check(inode, 2, 3 * PAGE, PAGE);
	iput(inode);
	wf_close(&f);
}
END_TEST

static void *force_commit(void *arg)
{
	struct job *j = arg;

	ck_assert_int_eq(jbd2_journal_force_commit(j->inode->i_sb->s_journal), 0);
	atomic_store(&j->done, true);
	return NULL;
}

/* Without extents the data of new blocks is on the device before the transaction that allocated them commits. */
START_TEST(commit_waits_for_ordered_data)
{
	struct wf f;
	struct job j = {.done = false};
	pthread_t t;

	wf_make(&f, "-t ext4 -b 4096 -O ^extent,^64bit", 32 * MIB, 1);
	f.threads = true;
	f.want_slow = true;
	wf_mount(&f);
	j.inode = wf_file(&f, 0);
	wf_fill(j.inode, 1, 0, 8 * PAGE, PAGE);
	slowdev_hold(f.dev, REQ_OP_WRITE, true);
	writepages(j.inode, 8);
	ck_assert_uint_eq(atomic_load(&j.inode->i_disksize), 8 * PAGE);
	slowdev_wait_held(f.dev, 1);
	pthread_create(&t, NULL, force_commit, &j);
	usleep(50000);
	ck_assert(!atomic_load(&j.done));
	/* Only the data: nothing of the log was written yet. */
	ck_assert_uint_eq(slowdev_held(f.dev), 1);
	slowdev_release_all(f.dev);
	pthread_join(t, NULL);
	iput(j.inode);
	wf_close(&f);
}
END_TEST

/* Dirty pages of mapped blocks that nobody submitted: the commit does. */
START_TEST(commit_writes_ordered_data_that_is_still_dirty)
{
	struct wf f;
	struct inode *inode;

	wf_make(&f, "-t ext4 -b 4096 -O ^extent,^64bit", 32 * MIB, 1);
	f.opts.o_delalloc = false;
	wf_mount(&f);
	inode = wf_file(&f, 0);
	wf_fill(inode, 1, 0, 8 * PAGE, PAGE);
	ck_assert_uint_eq(atomic_load(&inode->i_mapping->as_nr_dirty), 8);
	ck_assert_int_eq(jbd2_journal_force_commit(f.sb->s_journal), 0);
	ck_assert_uint_eq(atomic_load(&inode->i_mapping->as_nr_dirty), 0);
	iput(inode);
	wf_close(&f);
}
END_TEST

static void *fsync_main(void *inode)
{
	return (void *)(intptr_t)ext4_sync_file(inode, true);
}

static void wait_for_waiters(struct address_space *as, unsigned n)
{
	unsigned waiters;

	do {
		usleep(1000);
		mutex_lock(&as->as_end_lock);
		waiters = as->as_end_waiters;
		mutex_unlock(&as->as_end_lock);
	} while (waiters < n);
}

/* Three callers of fsync and one request each for two of them: no worker is needed, and the file grows in order. */
START_TEST(who_waits_for_a_conversion_does_it)
{
	struct wf f;
	struct inode *inode;
	pthread_t t[3];
	void *err;

	wf_make(&f, "-t ext4 -b 4096", 32 * MIB, 1);
	f.threads = true;
	f.want_slow = true;
	wf_mount(&f);
	inode = wf_file(&f, 0);
	slowdev_hold(f.dev, REQ_OP_WRITE, true);
	wf_fill(inode, 1, 0, 16 * PAGE, PAGE);
	pthread_create(&t[0], NULL, fsync_main, inode);
	slowdev_wait_held(f.dev, 1);
	wait_for_waiters(inode->i_mapping, 1);
	wf_fill(inode, 1, 16 * PAGE, 16 * PAGE, PAGE);
	pthread_create(&t[1], NULL, fsync_main, inode);
	slowdev_wait_held(f.dev, 2);
	pthread_create(&t[2], NULL, fsync_main, inode);
	wait_for_waiters(inode->i_mapping, 3);
	slowdev_release(f.dev, 1);
	ck_assert_uint_eq(atomic_load(&inode->i_disksize), 0);
	slowdev_release_all(f.dev);
	for (unsigned i = 0; i < 3; i++) {
		pthread_join(t[i], &err);
		ck_assert_ptr_null(err);
	}
	ck_assert_uint_eq(atomic_load(&inode->i_disksize), 32 * PAGE);
	ck_assert_uint_eq(counter_read(&f.wb->wb_stats.ws_waiter_ends), 2);
	wf_check(inode, 1, 0, 32 * PAGE);
	iput(inode);
	wf_close(&f);
}
END_TEST

/* Two threads append and fsync, a third truncates, so that waiters and workers hand over to each other. */
static _Atomic bool stop_truncating;

static void *truncater_main(void *arg)
{
	while (!atomic_load(&stop_truncating)) {
		ck_assert_int_eq(ext4_truncate_to(arg, 3 * PAGE), 0);
		ck_assert_int_eq(filemap_fdatawrite(arg), 0);
		usleep(500);
	}
	return NULL;
}

static void *appender_main(void *arg)
{
	uint8_t buf[PAGE_SIZE] = {0};

	for (unsigned i = 0; i < 150; i++) {
		ck_assert_int_eq(wf_write_flags(arg, buf, PAGE, 0, WB_WRITE_APPEND), (ssize_t)PAGE);
		ck_assert_int_eq(ext4_sync_file(arg, i % 2 == 0), 0);
	}
	return NULL;
}

START_TEST(waiters_and_workers_hand_over_to_each_other)
{
	struct wf f;
	struct inode *inode;
	pthread_t t[3];

	wf_make(&f, "-t ext4 -b 4096", 32 * MIB, 1);
	f.threads = true;
	f.filters = "model:latency_us=50:qd=8";
	wf_mount(&f);
	inode = wf_file(&f, 0);
	pthread_create(&t[0], NULL, appender_main, inode);
	pthread_create(&t[1], NULL, appender_main, inode);
	pthread_create(&t[2], NULL, truncater_main, inode);
	pthread_join(t[0], NULL);
	pthread_join(t[1], NULL);
	atomic_store(&stop_truncating, true);
	pthread_join(t[2], NULL);
	ck_assert_uint_gt(counter_read(&f.wb->wb_stats.ws_waiter_ends), 0);
	wf_sync(&f);
	wf_assert_nothing_reserved(&f);
	iput(inode);
	wf_close(&f);
}
END_TEST

/* The submitter still moves the end of one io_end while a worker looks for those that are complete. */
START_TEST(io_end_in_the_making_is_its_submitters)
{
	struct wf f;
	struct inode *inode;
	struct io_end *making, *complete;
	const counter_t *handles;
	uint64_t before;

	wf_make(&f, "-t ext4 -b 4096", 32 * MIB, 1);
	f.threads = true;
	wf_mount(&f);
	inode = wf_file(&f, 0);
	handles = &jbd2_stats(f.sb->s_journal)->js_handles[HT_EXT_CONVERT];
	before = counter_read(handles);
	making = io_end_alloc(inode->i_mapping, NULL);
	complete = io_end_alloc(inode->i_mapping, NULL);
	making->ie_work = true;
	making->ie_start_bytes = PAGE;
	making->ie_end_bytes = 2 * PAGE;
	complete->ie_work = true;
	complete->ie_end_bytes = PAGE;
	io_end_start(making);
	io_end_start(complete);
	io_end_put(complete);
	/* No lock, nor anything else that would order what follows after the worker's look. */
	while (counter_read(handles) == before)
		sched_yield();
	making->ie_end_bytes = 3 * PAGE;
	io_end_put(making);
	wf_sync(&f);
	ck_assert_uint_eq(counter_read(handles), before + 2);
	ck_assert_uint_eq(atomic_load(&inode->i_disksize), 0);
	iput(inode);
	wf_close(&f);
}
END_TEST

int main(void)
{
	return RUN_TESTS(
		"writeback/io_end", growing_file_is_converted_in_file_order,
		inside_i_disksize_order_does_not_matter,
		failed_request_leaves_its_extent_unwritten_and_is_told_once,
		failure_in_the_middle_of_a_growing_file_ends_well,
		append_inside_a_block_moves_i_disksize_at_completion,
		page_in_flight_is_stable_and_only_its_writer_waits, commit_waits_for_ordered_data,
		commit_writes_ordered_data_that_is_still_dirty, who_waits_for_a_conversion_does_it,
		waiters_and_workers_hand_over_to_each_other,
		io_end_in_the_making_is_its_submitters);
}
