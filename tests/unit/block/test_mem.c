/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * test_mem.c - the memory device, and what blkdev.c does for every device.
 * Locking: none; completions run inside submit.
 */
#include <stdlib.h>
#include <string.h>

#include "block/blkdev.h"
#include "tests/lib/pattern.h"
#include "tests/lib/suite.h"
#include "tests/lib/testlib.h"
#include "util/err.h"
#include "util/lock.h"
#include "util/trace.h"

#define MIB (1u << 20)

static int ended;
static int begun;
static uint8_t buf[64 * 1024];

static void count_end(struct bio *bio)
{
	ended++;
	*(int *)bio->bi_private = bio->bi_status;
}

static int submit(struct blkdev *bd, enum req_op op, uint64_t offset, uint64_t len)
{
	struct iovec iov = {.iov_base = buf, .iov_len = (size_t)len};
	int status = 1;
	struct bio bio = {
		.bi_op = op,
		.bi_offset_bytes = offset,
		.bi_len_bytes = len,
		.bi_iov = &iov,
		.bi_iovcnt = 1,
		.bi_end_io = count_end,
		.bi_private = &status,
	};

	ended = 0;
	blk_submit_one(bd, &bio);
	ck_assert_int_eq(ended, 1);
	return status;
}

START_TEST(what_is_written_is_read)
{
	struct blkdev *bd = mem_open(4 * MIB + 100, 512, NULL);
	static uint8_t big[3 * MIB];

	ck_assert_uint_eq(bd->bd_size_bytes, 4 * MIB);
	pattern_fill(big, sizeof(big), 1, 0);
	ck_assert_int_eq(blk_write(bd, 512, big, sizeof(big), 0), 0);
	memset(big, 0, sizeof(big));
	ck_assert_int_eq(blk_read(bd, 512, big, sizeof(big), 0), 0);
	pattern_check(big, sizeof(big), 1, 0);
	pattern_check((uint8_t *)mem_data(bd) + 512, sizeof(big), 1, 0);
	ck_assert_int_eq(bytes_mismatch(mem_data(bd), 512, 0), -1);
	ck_assert_int_eq(blk_flush(bd), 0);
	blk_close(bd);
}
END_TEST

START_TEST(scattered_memory_is_one_request)
{
	struct blkdev *bd = mem_open(MIB, 512, NULL);
	struct iovec iov[3] = {{buf, 100}, {buf + 1000, 900}, {buf + 3000, 24}};
	int status = 1;
	struct bio bio = {.bi_op = REQ_OP_WRITE,
			  .bi_offset_bytes = 1024,
			  .bi_len_bytes = 1024,
			  .bi_iov = iov,
			  .bi_iovcnt = 3,
			  .bi_end_io = count_end,
			  .bi_private = &status};
	uint8_t *data = mem_data(bd);

	pattern_fill(buf, sizeof(buf), 2, 0);
	blk_submit_one(bd, &bio);
	ck_assert_int_eq(status, 0);
	pattern_check(data + 1024, 100, 2, 0);
	pattern_check(data + 1124, 900, 2, 1000);
	pattern_check(data + 2024, 24, 2, 3000);
	memset(buf, 0, sizeof(buf));
	bio.bi_op = REQ_OP_READ;
	blk_submit_one(bd, &bio);
	pattern_check(buf + 1000, 900, 2, 1000);
	ck_assert_int_eq(bytes_mismatch(buf + 100, 900, 0), -1);
	blk_close(bd);
}
END_TEST

START_TEST(bad_ranges_are_refused)
{
	struct blkdev *bd = mem_open(MIB, 4096, NULL);

	ck_assert_int_eq(submit(bd, REQ_OP_READ, MIB - 4096, 4096), 0);
	ck_assert_int_eq(submit(bd, REQ_OP_READ, MIB, 4096), -EIO);
	ck_assert_int_eq(submit(bd, REQ_OP_WRITE, MIB - 4096, 8192), -EIO);
	ck_assert_int_eq(submit(bd, REQ_OP_WRITE, UINT64_MAX - 4095, 8192), -EIO);
	ck_assert_int_eq(submit(bd, REQ_OP_WRITE, 512, 4096), -EINVAL);
	ck_assert_int_eq(submit(bd, REQ_OP_WRITE, 0, 512), -EINVAL);
	bd->bd_read_only = true;
	ck_assert_int_eq(submit(bd, REQ_OP_WRITE, 0, 4096), -EROFS);
	ck_assert_int_eq(submit(bd, REQ_OP_DISCARD, 0, 4096), -EROFS);
	ck_assert_int_eq(submit(bd, REQ_OP_READ, 0, 4096), 0);
	ck_assert_int_eq(submit(bd, REQ_OP_FLUSH, 0, 0), 0);
	ck_assert_uint_eq(counter_read(&bd->bd_stats.s_errors), 7);
	blk_close(bd);
}
END_TEST

START_TEST(discard_and_zeroout_zero_exactly_the_range)
{
	struct blkdev *bd = mem_open(MIB, 512, NULL);
	uint8_t *data = mem_data(bd);

	for (int way = 0; way < 2; way++) {
		pattern_fill(data, MIB, 3, 0);
		if (way == 0)
			ck_assert_int_eq(blk_discard(bd, 1536, 700 * 1024), 0);
		else
			ck_assert_int_eq(blk_zeroout(bd, 1536, 700 * 1024), 0);
		pattern_check(data, 1536, 3, 0);
		ck_assert_int_eq(bytes_mismatch(data + 1536, 700 * 1024, 0), -1);
		pattern_check(data + 1536 + 700 * 1024, MIB - 1536 - 700 * 1024, 3,
			      1536 + 700 * 1024);
	}
	blk_close(bd);
}
END_TEST

START_TEST(write_modes_drop_and_fail)
{
	struct blkdev *bd = mem_open(MIB, 512, NULL);

	memset(buf, 7, 512);
	blk_set_write_mode(bd, BLK_WRITES_DROP);
	ck_assert_int_eq(blk_write(bd, 0, buf, 512, 0), 0);
	ck_assert_int_eq(blk_flush(bd), 0);
	ck_assert_int_eq(bytes_mismatch(mem_data(bd), 512, 0), -1);
	blk_set_write_mode(bd, BLK_WRITES_FAIL);
	ck_assert_int_eq(blk_write(bd, 0, buf, 512, 0), -EIO);
	ck_assert_int_eq(blk_flush(bd), -EIO);
	ck_assert_int_eq(blk_read(bd, 0, buf, 512, 0), 0);
	ck_assert_int_eq(blk_write_mode(bd), BLK_WRITES_FAIL);
	blk_set_write_mode(bd, BLK_WRITES_PASS);
	memset(buf, 7, 512);
	ck_assert_int_eq(blk_write(bd, 0, buf, 512, 0), 0);
	ck_assert_int_eq(bytes_mismatch(mem_data(bd), 512, 7), -1);
	blk_close(bd);
}
END_TEST

static void on_begin(void *arg)
{
	(void)arg;
	begun++;
}

static void on_end(void *arg)
{
	(void)arg;
}

struct emitted {
	uint64_t write_requests;
	uint64_t write_bytes;
};

static void emit(void *arg, const char *name, uint64_t value)
{
	struct emitted *e = arg;

	if (strcmp(name, "device.write.requests") == 0)
		e->write_requests = value;
	if (strcmp(name, "device.write.bytes") == 0)
		e->write_bytes = value;
}

START_TEST(statistics_and_block_hooks)
{
	static const struct block_hooks hooks = {on_begin, on_end, NULL};
	struct blkdev *bd = mem_open(4 * MIB, 512, NULL);
	struct emitted e = {0, 0};

	thread_set_block_hooks(&hooks);
	ck_assert_int_eq(blk_write(bd, 0, buf, 4096, 0), 0);
	ck_assert_int_eq(blk_write(bd, 0, buf, 1024, 0), 0);
	ck_assert_int_eq(begun, 2);
	blk_print_stats(bd, emit, &e);
	ck_assert_uint_eq(e.write_requests, 2);
	ck_assert_uint_eq(e.write_bytes, 5120);
	ck_assert_uint_eq(hist_count(&bd->bd_stats.s_latency_ns[REQ_OP_WRITE]), 2);
	ck_assert_uint_eq(counter_read(&bd->bd_stats.s_in_flight), 0);
	ck_assert_uint_eq(hist_count(&bd->bd_stats.s_depth), 2);
	ck_assert_uint_eq(counter_read(&bd->bd_stats.s_depth.h_max), 1);
	ck_assert(!blk_wants_marks(bd));
	ck_assert_int_eq(blk_mark(bd, "nobody listens"), 0);
	blk_close(bd);
}
END_TEST

/* As blktrace writes them. */
START_TEST(events_tell_each_request)
{
	static const char *const want[] = {
		"block_rq_issue: 0,0 WFSM 4096 () 16 + 8 [",
		"block_rq_complete: 0,0 WFSM () 16 + 8 [0]",
		"block_rq_issue: 0,0 FS 0 () 0 + 0 [",
		"block_rq_complete: 0,0 FS () 0 + 0 [0]",
		"block_rq_issue: 0,0 RS 512 () 8192 + 1 [",
		"block_rq_complete: 0,0 RS () 8192 + 1 [-5]",
	};
	struct blkdev *bd = mem_open(4 * MIB, 512, NULL);
	static char text[4096];
	const char *at = text;

	ck_assert_int_eq(trace_set_events("block_rq_issue,block_rq_complete"), 0);
	ck_assert_int_eq(blk_write(bd, 8192, buf, 4096, REQ_FUA | REQ_META), 0);
	ck_assert_int_eq(blk_flush(bd), 0);
	ck_assert_int_eq(blk_read(bd, 4 * MIB, buf, 512, 0), -EIO);
	ck_assert_int_eq(trace_set_events("none"), 0);
	ck_assert_int_eq(blk_write(bd, 0, buf, 4096, 0), 0);
	text[trace_read(text, sizeof(text) - 1)] = '\0';
	for (unsigned i = 0; i < sizeof(want) / sizeof(want[0]); i++) {
		at = strstr(at, want[i]);
		ck_assert_msg(at != NULL, "no \"%s\" in its place in\n%s", want[i], text);
		at++;
	}
	ck_assert_ptr_null(strstr(at, "block_rq"));
	blk_close(bd);
}
END_TEST

START_TEST(helpers_make_check_and_break_a_file_system)
{
	struct blkdev *bd =

		testlib_mkfs_debugfs("-t ext4 -b 1024 -O ^metadata_csum", 8 * MIB,
				     "mkdir /d\nmkdir /d/e");
	struct blkdev *copy;
	char *text;

	ck_assert_int_eq(testlib_fsck(bd), 0);
	text = testlib_debugfs(bd, "ls -p /d");
	ck_assert_ptr_nonnull(strstr(text, "/e/"));
	free(text);
	copy = testlib_clone(bd);
	ck_assert_int_eq(memcmp(mem_data(bd), mem_data(copy), 8 * MIB), 0);
	blk_close(copy);
	copy = testlib_mkfs_debugfs("-t ext4 -b 1024", 8 * MIB, "mkdir /d\nclri /d");
	ck_assert_int_ne(testlib_fsck(copy), 0);
	ck_assert_int_eq(testlib_fsck(bd), 0);
	ck_assert_int_eq(testlib_fsck_args(copy, "-fy") & ~1, 0);
	ck_assert_int_eq(testlib_fsck(copy), 0);
	blk_close(copy);
	blk_close(bd);
}
END_TEST

int main(void)
{
	return RUN_TESTS("block/mem", what_is_written_is_read, scattered_memory_is_one_request,
			 bad_ranges_are_refused, discard_and_zeroout_zero_exactly_the_range,
			 write_modes_drop_and_fail, statistics_and_block_hooks,
			 events_tell_each_request, helpers_make_check_and_break_a_file_system);
}
