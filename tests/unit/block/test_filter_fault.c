/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * test_filter_fault.c - faults happen when, where and as often as they were ordered.
 * Locking: none but that of what is tested.
 */
#include <string.h>

#include "block/filter_fault.h"
#include "tests/lib/pattern.h"
#include "tests/lib/suite.h"
#include "util/err.h"
#include "util/time.h"

#define MIB (1u << 20)
#define BS 4096u

static struct blkdev *mem, *dev;
static uint8_t buf[16 * BS];

static void setup(uint64_t seed, bool cache, uint64_t limit)
{
	struct fault_options options = {
		.fo_seed = seed, .fo_cache = cache, .fo_cache_limit_bytes = limit};

	mem = mem_open(MIB, 512, NULL);
	dev = fault_open(mem, &options);
	ck_assert(!IS_ERR(dev));
}

static uint8_t *medium(uint64_t block)
{
	return (uint8_t *)mem_data(mem) + block * BS;
}

static int write_block(uint64_t block, uint8_t value, unsigned flags)
{
	memset(buf, value, BS);
	return blk_write(dev, block * BS, buf, BS, flags);
}

static uint8_t read_block(uint64_t block)
{
	ck_assert_int_eq(blk_read(dev, block * BS, buf, BS, 0), 0);
	ck_assert_int_eq(bytes_mismatch(buf, BS, buf[0]), -1);
	return buf[0];
}

START_TEST(error_at_the_nth_request_once)
{
	struct fault_rule rule = {
		.fr_kind = FAULT_ERROR, .fr_ops = FAULT_OP(REQ_OP_WRITE), .fr_nth = 3};
	int id;

	setup(1, false, 0);
	id = fault_arm(dev, &rule);
	for (unsigned i = 1; i <= 6; i++) {
		ck_assert_int_eq(write_block(i, (uint8_t)i, 0), i == 3 ? -EIO : 0);
		ck_assert_int_eq(blk_read(dev, 0, buf, BS, 0), 0);
		ck_assert_uint_eq(*medium(i), i == 3 ? 0 : i);
	}
	ck_assert_uint_eq(fault_hits(dev, id), 1);
	ck_assert_uint_eq(fault_requests(dev, FAULT_OP(REQ_OP_WRITE)), 6);
	ck_assert_uint_eq(fault_requests(dev, FAULT_ANY_OP), 12);
	blk_close(dev);
}
END_TEST

START_TEST(error_for_ever_until_disarmed)
{
	struct fault_rule rule = {.fr_kind = FAULT_ERROR,
				  .fr_ops = FAULT_OP(REQ_OP_FLUSH) | FAULT_OP(REQ_OP_READ),
				  .fr_count = FAULT_FOREVER,
				  .fr_error = -ENOSPC};
	int id;

	setup(1, false, 0);
	id = fault_arm(dev, &rule);
	for (unsigned i = 0; i < 5; i++) {
		ck_assert_int_eq(blk_flush(dev), -ENOSPC);
		ck_assert_int_eq(blk_read(dev, 0, buf, BS, 0), -ENOSPC);
		ck_assert_int_eq(write_block(0, 1, 0), 0);
	}
	fault_disarm(dev, id);
	ck_assert_int_eq(blk_flush(dev), 0);
	ck_assert_uint_eq(fault_hits(dev, id), 10);
	blk_close(dev);
}
END_TEST

START_TEST(rules_select_by_range_and_flags)
{
	struct fault_rule range = {.fr_kind = FAULT_ERROR,
				   .fr_ops = FAULT_ANY_OP,
				   .fr_count = FAULT_FOREVER,
				   .fr_from_bytes = 10 * BS,
				   .fr_to_bytes = 12 * BS};
	struct fault_rule meta = {.fr_kind = FAULT_ERROR,
				  .fr_ops = FAULT_OP(REQ_OP_WRITE),
				  .fr_flags = REQ_META,
				  .fr_count = FAULT_FOREVER,
				  .fr_error = -ENOSPC};

	setup(1, false, 0);
	ck_assert_int_ge(fault_arm(dev, &range), 0);
	ck_assert_int_ge(fault_arm(dev, &meta), 0);
	ck_assert_int_eq(write_block(9, 1, 0), 0);
	ck_assert_int_eq(write_block(10, 1, 0), -EIO);
	ck_assert_int_eq(write_block(11, 1, REQ_META), -EIO);
	ck_assert_int_eq(write_block(12, 1, 0), 0);
	ck_assert_int_eq(blk_write(dev, 8 * BS, buf, 3 * BS, 0), -EIO);
	ck_assert_int_eq(blk_flush(dev), 0);
	ck_assert_int_eq(write_block(20, 1, REQ_META | REQ_FUA), -ENOSPC);
	fault_disarm_all(dev);
	ck_assert_int_eq(write_block(20, 1, REQ_META), 0);
	ck_assert_int_eq(write_block(10, 1, 0), 0);
	blk_close(dev);
}
END_TEST

START_TEST(chance_follows_the_seed)
{
	struct fault_rule rule = {.fr_kind = FAULT_ERROR,
				  .fr_ops = FAULT_ANY_OP,
				  .fr_count = FAULT_FOREVER,
				  .fr_permille = 200};
	uint64_t history[2] = {0, 0};
	unsigned failed = 0;

	for (unsigned run = 0; run < 2; run++) {
		setup(77, false, 0);
		fault_arm(dev, &rule);
		for (unsigned i = 0; i < 500; i++) {
			int err = write_block(1, 1, 0);

			failed += err != 0;
			history[run] = history[run] * 31 + (err != 0);
		}
		blk_close(dev);
	}
	ck_assert_uint_eq(history[0], history[1]);
	ck_assert_uint_gt(failed, 100);
	ck_assert_uint_lt(failed, 320);
}
END_TEST

START_TEST(torn_and_dropped_writes_lie)
{
	struct fault_rule torn = {
		.fr_kind = FAULT_TORN, .fr_ops = FAULT_OP(REQ_OP_WRITE), .fr_count = FAULT_FOREVER};
	struct fault_rule drop = {.fr_kind = FAULT_DROP, .fr_ops = FAULT_OP(REQ_OP_WRITE)};
	unsigned partly = 0;

	setup(5, false, 0);
	ck_assert_int_ge(fault_arm(dev, &torn), 0);
	for (unsigned i = 0; i < 30; i++) {
		int64_t end;

		ck_assert_int_eq(write_block(i, 9, 0), 0);
		end = bytes_mismatch(medium(i), BS, 9);
		ck_assert_int_ge(end, 0);
		ck_assert_int_eq(end % 512, 0);
		ck_assert_int_eq(bytes_mismatch(medium(i) + end, (size_t)(BS - end), 0), -1);
		partly += end > 0;
	}
	ck_assert_uint_gt(partly, 15);
	fault_disarm_all(dev);
	ck_assert_int_ge(fault_arm(dev, &drop), 0);
	ck_assert_int_eq(write_block(50, 9, 0), 0);
	ck_assert_uint_eq(*medium(50), 0);
	ck_assert_int_eq(write_block(50, 9, 0), 0);
	ck_assert_uint_eq(*medium(50), 9);
	blk_close(dev);
}
END_TEST

static void count_end(struct bio *bio)
{
	atomic_store((_Atomic int *)bio->bi_private, bio->bi_status == 0 ? 1 : -1);
}

START_TEST(delayed_requests_complete_later_and_out_of_order)
{
	struct fault_rule rule = {
		.fr_kind = FAULT_DELAY, .fr_ops = FAULT_OP(REQ_OP_WRITE), .fr_delay_ns = 30000000};
	_Atomic int done = 0;
	struct iovec iov = {buf, BS};
	struct bio bio = {.bi_op = REQ_OP_WRITE,
			  .bi_len_bytes = BS,
			  .bi_iov = &iov,
			  .bi_iovcnt = 1,
			  .bi_end_io = count_end,
			  .bi_private = &done};
	uint64_t start = now_ns();

	setup(5, false, 0);
	ck_assert_int_ge(fault_arm(dev, &rule), 0);
	blk_submit_one(dev, &bio);
	ck_assert_int_eq(write_block(1, 1, 0), 0);
	ck_assert_int_eq(atomic_load(&done), 0);
	blk_close(dev);
	ck_assert_int_eq(atomic_load(&done), 1);
	ck_assert_uint_ge(now_ns() - start, 30000000);
}
END_TEST

START_TEST(cache_shows_writes_and_holds_them_back)
{
	setup(5, true, 0);
	ck_assert_int_eq(write_block(1, 1, 0), 0);
	ck_assert_int_eq(write_block(1, 2, 0), 0);
	ck_assert_uint_eq(read_block(1), 2);
	ck_assert_uint_eq(*medium(1), 0);
	ck_assert_uint_eq(fault_cached_bytes(dev), 2 * BS);
	/* The second sector of the block is newer than both writes. */
	memset(buf, 3, 512);
	ck_assert_int_eq(blk_write(dev, BS + 512, buf, 512, 0), 0);
	ck_assert_int_eq(blk_read(dev, 0, buf, 3 * BS, 0), 0);
	ck_assert_int_eq(bytes_mismatch(buf, BS, 0), -1);
	ck_assert_int_eq(bytes_mismatch(buf + BS, 512, 2), -1);
	ck_assert_int_eq(bytes_mismatch(buf + BS + 512, 512, 3), -1);
	ck_assert_int_eq(bytes_mismatch(buf + BS + 1024, BS - 1024, 2), -1);
	ck_assert_int_eq(blk_flush(dev), 0);
	ck_assert_uint_eq(fault_cached_bytes(dev), 0);
	ck_assert_int_eq(bytes_mismatch(medium(1) + 512, 512, 3), -1);
	ck_assert_int_eq(bytes_mismatch(medium(1) + 1024, BS - 1024, 2), -1);
	ck_assert_int_eq(write_block(5, 5, REQ_FUA), 0);
	ck_assert_uint_eq(*medium(5), 5);
	ck_assert_int_eq(write_block(6, 6, 0), 0);
	ck_assert_int_eq(write_block(6, 7, REQ_FUA), 0);
	ck_assert_int_eq(blk_flush(dev), 0);
	ck_assert_uint_eq(*medium(6), 7);
	ck_assert_int_eq(blk_discard(dev, 6 * BS, BS), 0);
	ck_assert_uint_eq(read_block(6), 0);
	ck_assert_uint_eq(*medium(6), 7);
	blk_close(dev);
}
END_TEST

START_TEST(cache_keeps_to_its_limit)
{
	setup(9, true, 8 * BS);
	for (unsigned i = 0; i < 200; i++) {
		ck_assert_int_eq(write_block(i, (uint8_t)(i + 1), 0), 0);
		ck_assert_uint_le(fault_cached_bytes(dev), 8 * BS);
	}
	for (unsigned i = 0; i < 200; i++)
		ck_assert_uint_eq(read_block(i), i + 1);
	blk_close(dev);
}
END_TEST

/* After a cut: a bit for each value seen in a sector of blocks 0 .. 15. */
static void cut_once(uint64_t seed, unsigned *kept, unsigned *lost, unsigned *torn)
{
	setup(seed, true, 0);
	ck_assert_int_eq(write_block(20, 1, 0), 0);
	ck_assert_int_eq(blk_flush(dev), 0);
	for (unsigned i = 0; i < 16; i++)
		ck_assert_int_eq(write_block(i, (uint8_t)(i + 1), 0), 0);
	ck_assert_int_eq(write_block(21, 2, REQ_FUA), 0);
	fault_power_cut(dev);
	ck_assert_int_eq(blk_read(dev, 0, buf, BS, 0), -EIO);
	ck_assert_int_eq(blk_flush(dev), -EIO);
	fault_power_on(dev);
	ck_assert_uint_eq(read_block(20), 1);
	ck_assert_uint_eq(read_block(21), 2);
	for (unsigned i = 0; i < 16; i++) {
		bool whole = bytes_mismatch(medium(i), BS, (uint8_t)(i + 1)) < 0;
		bool none = bytes_mismatch(medium(i), BS, 0) < 0;

		*kept += whole;
		*lost += none;
		*torn += !whole && !none;
	}
	blk_close(dev);
}

START_TEST(power_cut_keeps_loses_and_tears)
{
	unsigned kept = 0, lost = 0, torn = 0;

	for (uint64_t seed = 0; seed < 20; seed++)
		cut_once(seed, &kept, &lost, &torn);
	ck_assert_uint_gt(kept, 80);
	ck_assert_uint_gt(lost, 60);
	ck_assert_uint_gt(torn, 20);
}
END_TEST

START_TEST(power_cut_by_rule)
{
	struct fault_rule rule = {
		.fr_kind = FAULT_POWER_CUT, .fr_ops = FAULT_OP(REQ_OP_WRITE), .fr_nth = 3};

	setup(3, true, 0);
	ck_assert_int_ge(fault_arm(dev, &rule), 0);
	ck_assert_int_eq(write_block(1, 1, REQ_FUA), 0);
	ck_assert_int_eq(write_block(2, 2, 0), 0);
	ck_assert_int_eq(write_block(3, 3, 0), -EIO);
	ck_assert_int_eq(write_block(4, 4, 0), -EIO);
	ck_assert_int_eq(blk_read(dev, 0, buf, BS, 0), -EIO);
	fault_power_on(dev);
	ck_assert_uint_eq(read_block(1), 1);
	ck_assert_uint_eq(read_block(3), 0);
	ck_assert_uint_eq(fault_cached_bytes(dev), 0);
	blk_close(dev);
}
END_TEST

START_TEST(options_by_text)
{
	static const char *const bad[] = {"fault",
					  "fault:explode",
					  "fault:nth=3",
					  "fault:error:nth=x",
					  "fault:error:op=hum",
					  "fault:error:errno=0",
					  "fault:error:nth=1q",
					  "fault:error:size=3"};
	struct blkdev *lower = mem_open(MIB, 512, NULL);

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		ck_assert_int_eq(PTR_ERR(blk_stack_filters(lower, bad[i])), -EINVAL);
	dev = blk_stack_filters(lower, "fault:error:op=write:nth=2:errno=28:seed=1+"
				       "fault:drop:op=write:from=64k:to=1m:forever:seed=2");
	ck_assert(!IS_ERR(dev));
	mem = lower;
	ck_assert_int_eq(write_block(1, 1, 0), 0);
	ck_assert_int_eq(write_block(2, 2, 0), -ENOSPC);
	ck_assert_int_eq(write_block(3, 3, 0), 0);
	ck_assert_int_eq(write_block(17, 3, 0), 0);
	ck_assert_uint_eq(*medium(3), 3);
	ck_assert_uint_eq(*medium(17), 0);
	blk_close(dev);
}
END_TEST

int main(void)
{
	return RUN_TESTS("block/filter_fault", error_at_the_nth_request_once,
			 error_for_ever_until_disarmed, rules_select_by_range_and_flags,
			 chance_follows_the_seed, torn_and_dropped_writes_lie,
			 delayed_requests_complete_later_and_out_of_order,
			 cache_shows_writes_and_holds_them_back, cache_keeps_to_its_limit,
			 power_cut_keeps_loses_and_tears, power_cut_by_rule, options_by_text);
}
