/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The device's own log as the witness of what writepages does, beside the counters. */
#include "tests/unit/writeback/wb_fixture.h"

struct seen {
	unsigned s_calls;
	unsigned s_handles;
	unsigned s_in_handle; /* data requests while a handle was open */
	unsigned s_in_call;   /* data requests between enter and exit */
	uint64_t s_bytes_in_call;
	unsigned s_single_pages;
};

static bool is_mark(const struct log_entry *e, const char *what)
{
	return (e->le_flags & LOG_MARK_FLAG) != 0 && strncmp(e->le_data, what, strlen(what)) == 0;
}

static bool is_data(const struct log_entry *e)
{
	return (e->le_flags &
		(LOG_MARK_FLAG | LOG_FLUSH_FLAG | LOG_METADATA_FLAG | LOG_DISCARD_FLAG)) == 0 &&
	       e->le_nr_sectors > 0;
}

static struct seen read_log(struct wf *f)
{
	struct seen s = {0};
	bool in_call = false, in_handle = false;

	for (size_t i = 0; i < log_entry_count(f->log); i++) {
		struct log_entry e = log_entry_get(f->log, i);

		if (is_mark(&e, "writepages enter")) {
			in_call = true;
			s.s_calls++;
		} else if (is_mark(&e, "writepages exit")) {
			in_call = false;
		} else if (is_mark(&e, "writepages handle-start")) {
			in_handle = true;
			s.s_handles++;
		} else if (is_mark(&e, "writepages handle-stop")) {
			in_handle = false;
		}
		if (!is_data(&e))
			continue;
		s.s_in_handle += in_handle;
		if (!in_call)
			continue;
		s.s_in_call++;
		s.s_bytes_in_call += e.le_nr_sectors * 512;
		s.s_single_pages += e.le_nr_sectors == 8;
	}
	return s;
}

static void open_logged(struct wf *f, struct inode **inode)
{
	wf_make(f, "-t ext4 -b 4096", 64 * MIB, 1);
	f->want_log = true;
	wf_mount(f);
	wf_tune(f, "writepages_marks", "on");
	*inode = wf_file(f, 0);
}

static struct seen call(struct wf *f, struct inode *inode, long nr)
{
	struct writeback_control wbc = {.nr_to_write = nr, .range_end = UINT64_MAX};

	log_reset(f->log);
	ck_assert_int_eq(do_writepages(inode->i_mapping, &wbc), 0);
	return read_log(f);
}

/* Mapped pages and delayed ones, alternating in runs of 600. */
static struct seen mixed(const char *premap)
{
	struct wf f;
	struct inode *inode;
	struct seen s;

	open_logged(&f, &inode);
	wf_tune(&f, "premap_pass", premap);
	ck_assert_int_eq(ext4_truncate_to(inode, 2400 * PAGE), 0);
	wf_fill(inode, 1, 0, 600 * PAGE, 64 * 1024);
	wf_fill(inode, 1, 1200 * PAGE, 600 * PAGE, 64 * 1024);
	wf_sync(&f);
	wf_fill(inode, 2, 0, 2400 * PAGE, 64 * 1024);
	s = call(&f, inode, LONG_MAX);
	ck_assert_uint_eq(s.s_calls, 1);
	ck_assert_uint_eq(s.s_bytes_in_call, 2400 * PAGE);
	wf_sync(&f);
	wf_check(inode, 2, 0, 2400 * PAGE);
	iput(inode);
	wf_close(&f);
	return s;
}

START_TEST(no_request_leaves_while_a_handle_is_open_unless_told_so)
{
	struct seen on = mixed("on"), off = mixed("off");

	ck_assert_uint_eq(on.s_in_handle, 0);
	ck_assert_uint_gt(on.s_handles, 0);
	ck_assert_uint_ge(off.s_in_handle, 4);
}
END_TEST

START_TEST(overwriting_opens_no_handle_at_all)
{
	struct wf f;
	struct inode *inode;
	struct seen s;

	open_logged(&f, &inode);
	wf_fill(inode, 1, 0, 300 * PAGE, 64 * 1024);
	wf_sync(&f);
	wf_fill(inode, 2, 0, 300 * PAGE, 64 * 1024);
	s = call(&f, inode, LONG_MAX);
	ck_assert_uint_eq(s.s_handles, 0);
	ck_assert_uint_eq(s.s_bytes_in_call, 300 * PAGE);
	iput(inode);
	wf_close(&f);
}
END_TEST

static struct seen budget(const char *variant)
{
	struct wf f;
	struct inode *inode;
	struct seen s;

	open_logged(&f, &inode);
	wf_tune(&f, "writepages_budget", variant);
	wf_tune(&f, "write_bump", "x1");
	wf_fill(inode, 1, 0, 500 * PAGE, 8192);
	s = call(&f, inode, 100);
	iput(inode);
	wf_close(&f);
	return s;
}

START_TEST(device_sees_the_trickle_of_the_old_budget)
{
	struct seen before = budget("before_add"), after = budget("after_add");

	ck_assert_uint_eq(before.s_bytes_in_call, 100 * PAGE);
	ck_assert_uint_eq(before.s_in_call, 1);
	ck_assert_uint_eq(before.s_single_pages, 0);
	ck_assert_uint_eq(after.s_bytes_in_call, 500 * PAGE);
	ck_assert_uint_eq(after.s_single_pages, 400);
}
END_TEST

static unsigned calls_for(const char *bump)
{
	struct wf f;
	struct inode *inode;
	struct seen s;

	open_logged(&f, &inode);
	wf_tune(&f, "write_bump", bump);
	wf_tune(&f, "writeback_chunk", "1024");
	wf_fill(inode, 1, 0, 3000 * PAGE, 64 * 1024);
	log_reset(f.log);
	wf_tune(&f, "dirty_expire_centisecs", "0");
	wb_run_flusher(f.sb);
	s = read_log(&f);
	ck_assert_uint_eq(s.s_bytes_in_call, 3000 * PAGE);
	iput(inode);
	wf_close(&f);
	return s.s_calls;
}

START_TEST(bump_makes_fewer_calls_of_the_same_chunk)
{
	ck_assert_uint_eq(calls_for("x1"), 3);
	ck_assert_uint_eq(calls_for("x8"), 1);
	ck_assert_uint_eq(calls_for("x16"), 1);
	ck_assert_uint_eq(calls_for("contig"), 1);
}
END_TEST

/* What is on its way to the device does not change. */
START_TEST(requests_are_stable)
{
	struct wf f;
	struct inode *inode;

	open_logged(&f, &inode);
	for (unsigned i = 0; i < 20; i++) {
		wf_fill(inode, i, i * 3000, 20000, 777);
		ck_assert_int_eq(filemap_fdatawrite(inode), 0);
	}
	wf_sync(&f);
	ck_assert_uint_eq(log_unstable_writes(f.log), 0);
	iput(inode);
	wf_close(&f);
}
END_TEST

/* A streaming write on an aligned stripe leaves no partial stripe but the last. */
static void stream_makes_full_stripes(const char *mkfs, unsigned stripe)
{
	struct wf f;
	struct inode *inode;
	struct wb_stats *st;

	wf_make(&f, mkfs, 128 * MIB, 1);
	f.opts.o_cache_bytes = 64 * MIB;
	wf_mount(&f);
	ck_assert_uint_eq(f.sb->s_stripe, stripe);
	st = &f.wb->wb_stats;
	inode = wf_file(&f, 0);
	wf_fill(inode, 1, 0, 24 * MIB, 64 * 1024);
	wf_sync(&f);
	ck_assert_uint_ge(counter_read(&st->ws_stripe_full), 24 * MIB / (stripe * 4096) - 2);
	ck_assert_uint_le(counter_read(&st->ws_stripe_partial), 2);
	iput(inode);
	wf_close(&f);
}

START_TEST(stream_on_a_striped_device_makes_full_stripes)
{
	stream_makes_full_stripes("-t ext4 -b 4096 -E stride=16,stripe_width=64", 64);
}
END_TEST

/* 8 disks, 16 KiB: the largest extent in the making is no multiple of it. */
START_TEST(stripes_of_no_power_of_two_are_full_too)
{
	stream_makes_full_stripes("-t ext4 -b 4096 -E stride=4,stripe_width=28", 28);
}
END_TEST

int main(void)
{
	return RUN_TESTS("writeback/marks", no_request_leaves_while_a_handle_is_open_unless_told_so,
			 overwriting_opens_no_handle_at_all,
			 device_sees_the_trickle_of_the_old_budget,
			 bump_makes_fewer_calls_of_the_same_chunk, requests_are_stable,
			 stream_on_a_striped_device_makes_full_stripes,
			 stripes_of_no_power_of_two_are_full_too);
}
