/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the switches do to a device, seen by the device: marks of writepages are timed with the virtual clock of a model
 * whose queue is full, stripes are counted by the RAID 5 filter, and what waits in a queue by the one who holds it.
 */
#include "block/filter_model.h"
#include "block/filter_raid5.h"
#include "tests/unit/writeback/wb_fixture.h"

#define MB_PER_S UINT64_C(1000000)
#define REQUEST_NS (MIB * NS_PER_SEC / (20 * MB_PER_S)) /* 1 MiB at 20 MB/s */

/* ---- A probe for marks ---- */

static struct clock_probe {
	struct blkdev_ops p_ops; /* the model's, and our mark */
	struct blkdev *p_model;
	journal_t *p_journal;
	bool p_on;
	bool p_commits;	 /* a commit is asked for when the first handle begins */
	tid_t p_tid;	 /* it */
	unsigned p_done; /* handles that ended when it was over already */
	uint64_t p_start_ns, p_max_ns;
	unsigned p_handles;
} probe;

static void handle_starts(void)
{
	probe.p_start_ns = model_clock_ns(probe.p_model);
	if (probe.p_handles++ > 0 || !probe.p_commits)
		return;
	probe.p_tid = jbd2_newest_tid(probe.p_journal);
	(void)jbd2_log_start_commit(probe.p_journal, probe.p_tid);
}

static void handle_stops(void)
{
	uint64_t ns = model_clock_ns(probe.p_model) - probe.p_start_ns;

	if (ns > probe.p_max_ns)
		probe.p_max_ns = ns;
	if (probe.p_handles == 1 && probe.p_commits)
		probe.p_done += !jbd2_transaction_pending(probe.p_journal, probe.p_tid);
}

static int probe_mark(struct blkdev *bd, const char *text)
{
	(void)bd;
	if (!probe.p_on)
		return 0;
	if (strncmp(text, "writepages handle-start", 23) == 0)
		handle_starts();
	else if (strncmp(text, "writepages handle-stop", 22) == 0)
		handle_stops();
	return 0;
}

/* 20 MB/s, and no second request before the first is done. */
static struct blkdev *stack_full_device(struct blkdev *bd)
{
	static const struct model_params params = {
		.mp_write_bytes_per_s = 20 * MB_PER_S,
		.mp_queue_depth = 1,
		.mp_nr_requests = 1,
	};

	memset(&probe, 0, sizeof(probe));
	probe.p_model = model_open(bd, &params, true);
	ck_assert(!IS_ERR(probe.p_model));
	probe.p_ops = *probe.p_model->bd_ops;
	probe.p_ops.mark = probe_mark;
	probe.p_model->bd_ops = &probe.p_ops;
	return probe.p_model;
}

/* ---- 001 ---- */

/* 4 MiB that are mapped, and then 1 MiB that is not; the longest time that a handle was open. */
static uint64_t longest_handle(const char *premap)
{
	struct wf f;
	struct inode *inode;
	struct writeback_control wbc = {.nr_to_write = LONG_MAX, .range_end = UINT64_MAX};

	wf_make(&f, "-t ext4 -b 4096", 32 * MIB, 1);
	f.threads = true;
	f.stack = stack_full_device;
	wf_mount(&f);
	wf_tune(&f, "writepages_marks", "on");
	wf_tune(&f, "premap_pass", premap);
	inode = wf_file(&f, 0);
	wf_fill(inode, 1, 0, 4 * MIB, 64 * 1024);
	wf_sync(&f);
	wf_fill(inode, 2, 0, 5 * MIB, 64 * 1024);
	probe.p_journal = f.sb->s_journal;
	probe.p_commits = true;
	probe.p_on = true;
	ck_assert_int_eq(do_writepages(inode->i_mapping, &wbc), 0);
	probe.p_on = false;
	ck_assert_uint_ge(probe.p_handles, 1);
	/* Whatever the commit that began with the handle waited for, it could not end before it. */
	ck_assert_uint_eq(probe.p_done, 0);
	ck_assert_int_eq(jbd2_log_wait_commit(f.sb->s_journal, probe.p_tid), 0);
	wf_sync(&f);
	wf_check(inode, 2, 0, 5 * MIB);
	iput(inode);
	wf_close(&f);
	return probe.p_max_ns;
}

START_TEST(commit_waits_for_the_requests_of_mapped_pages_only_without_the_pass)
{
	/* What was in flight when the handle began may end meanwhile; the rest is mapping. */
	ck_assert_uint_le(longest_handle("on"), REQUEST_NS + REQUEST_NS / 4);
	/* Three full requests leave with the handle open: the third when the second is done. */
	ck_assert_uint_ge(longest_handle("off"), 2 * REQUEST_NS);
}
END_TEST

/* ---- A full device and commits ---- */

static unsigned nr_rounds(unsigned otherwise)
{
	const char *s = getenv("EXT4D_TEST_ROUNDS"), *full = getenv("EXT4D_TEST_FULL");

	if (s != NULL)
		return (unsigned)strtoul(s, NULL, 10);
	return full != NULL && strcmp(full, "1") == 0 ? 1000 : otherwise;
}

struct committer {
	struct super_block *sb;
	_Atomic bool stop;
};

static void *committer_main(void *arg)
{
	struct committer *c = arg;

	while (!atomic_load(&c->stop))
		ck_assert_int_eq(jbd2_journal_force_commit(c->sb->s_journal), 0);
	return NULL;
}

static struct blkdev *stack_two_requests(struct blkdev *bd)
{
	static const struct model_params params = {
		.mp_write_bytes_per_s = 20 * MB_PER_S,
		.mp_flush_ns = NS_PER_MS,
		.mp_queue_depth = 1,
		.mp_nr_requests = 2,
	};

	return model_open(bd, &params, true);
}

/* Each second page was mapped before, so that each is a request of its own; behind them are pages to allocate. */
static void full_device_round(struct inode *inode, unsigned round)
{
	for (unsigned i = 0; i < 24; i += 2)
		wf_fill(inode, round, i * PAGE, PAGE, PAGE);
	wf_fill(inode, round, 24 * PAGE, 8 * PAGE, 8 * PAGE);
	ck_assert_int_eq(filemap_write_and_wait_range(inode, 0, UINT64_MAX), 0);
	wf_check(inode, round, 24 * PAGE, 8 * PAGE);
	ck_assert_int_eq(ext4_truncate_to(inode, 24 * PAGE), 0);
}

START_TEST(handle_open_over_a_full_device_never_deadlocks_with_commits)
{
	struct wf f;
	struct inode *inode;
	struct committer c = {.stop = false};
	unsigned rounds = nr_rounds(100);
	pthread_t t;

	wf_make(&f, "-t ext4 -b 4096", 32 * MIB, 1);
	f.threads = true;
	f.stack = stack_two_requests;
	wf_mount(&f);
	wf_tune(&f, "premap_pass", "off");
	inode = wf_file(&f, 0);
	wf_fill(inode, 0, 0, 24 * PAGE, PAGE);
	wf_sync(&f);
	c.sb = f.sb;
	pthread_create(&t, NULL, committer_main, &c);
	for (unsigned i = 0; i < rounds; i++)
		full_device_round(inode, i);
	atomic_store(&c.stop, true);
	pthread_join(t, NULL);
	/* It was the old way all the time. */
	ck_assert_uint_ge(counter_read(&f.wb->wb_stats.ws_pages_in_handle), rounds * 10);
	ck_assert_uint_eq(counter_read(&f.wb->wb_stats.ws_pages_premap), 0);
	iput(inode);
	wf_close(&f);
}
END_TEST

/* ---- 004 ---- */

static struct blkdev *raid;

/* Five disks of 64 KiB: a stripe of 256 KiB. */
static struct blkdev *stack_raid(struct blkdev *bd)
{
	raid = raid5_open(bd, 5, 64 * 1024);
	ck_assert(!IS_ERR(raid));
	return raid;
}

START_TEST(streaming_write_leaves_no_partial_stripe_but_the_last)
{
	struct wf f;
	struct inode *inode;
	struct raid5_counts before, after;

	wf_make(&f, "-t ext4 -b 4096 -E stride=16,stripe_width=64", 128 * MIB, 1);
	f.opts.o_cache_bytes = 64 * MIB;
	f.stack = stack_raid;
	wf_mount(&f);
	inode = wf_file(&f, 0);
	wf_fill(inode, 1, 0, 24 * MIB + 100 * 1024, 8192);
	raid5_read_counts(raid, &before);
	/* Data only: what the journal writes is small and comes later. */
	ck_assert_int_eq(filemap_fdatawrite(inode), 0);
	raid5_read_counts(raid, &after);
	ck_assert_uint_eq(after.rc_full - before.rc_full, 24 * MIB / (256 * 1024));
	ck_assert_uint_le(after.rc_partial - before.rc_partial, 1);
	iput(inode);
	wf_close(&f);
}
END_TEST

/* ---- Reads and background writes ---- */

START_TEST(background_writes_keep_the_queue_short)
{
	struct wf f;
	struct inode *inode;

	wf_make(&f, "-t ext4 -b 4096", 64 * MIB, 1);
	f.threads = true;
	f.want_slow = true;
	f.opts.o_cache_bytes = 48 * MIB;
	wf_mount(&f);
	wf_tune(&f, "dirty_background_bytes", "1000000");
	inode = wf_file(&f, 0);
	slowdev_hold(f.dev, REQ_OP_WRITE, true);
	wf_fill(inode, 1, 0, 16 * MIB, 64 * 1024);
	wb_start_background(f.wb);
	slowdev_wait_held(f.dev, 2);
	usleep(100000);
	/* A read that comes now waits for two writes at most. */
	ck_assert_uint_eq(slowdev_held(f.dev), 2);
	slowdev_release(f.dev, 0);
	slowdev_wait_held(f.dev, 2);
	usleep(100000);
	ck_assert_uint_eq(slowdev_held(f.dev), 2);
	ck_assert_uint_gt(counter_read(&f.wb->wb_stats.ws_window_waits), 0);
	slowdev_release_all(f.dev);
	wf_sync(&f);
	wf_check(inode, 1, 0, 16 * MIB);
	iput(inode);
	wf_close(&f);
}
END_TEST

int main(void)
{
	return RUN_TESTS("writeback/switches",
			 commit_waits_for_the_requests_of_mapped_pages_only_without_the_pass,
			 handle_open_over_a_full_device_never_deadlocks_with_commits,
			 streaming_write_leaves_no_partial_stripe_but_the_last,
			 background_writes_keep_the_queue_short);
}
