/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * test_filter_model.c - the modelled device takes the time it should; RAID 5 stripes are counted
 * and charged right. Most of it runs on the virtual clock.
 * Locking: completions are counted atomically.
 */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "block/filter_model.h"
#include "block/filter_raid5.h"
#include "tests/lib/pattern.h"
#include "tests/lib/suite.h"
#include "util/err.h"
#include "util/lock.h"
#include "util/time.h"

#define MIB (1u << 20)
#define KIB 1024u
#define MSEC UINT64_C(1000000)
#define USEC UINT64_C(1000)
#define SIZE (64u * MIB)

static uint8_t buf[MIB];
static _Atomic unsigned ended;

static void count_end(struct bio *bio)
{
	ck_assert_int_eq(bio->bi_status, 0);
	atomic_fetch_add(&ended, 1);
}

/* Submit n writes of len bytes each, in one call, the i-th at first + i * step. */
static void batch(struct blkdev *bd, unsigned n, uint64_t first, uint64_t step, uint64_t len)
{
	struct bio *bios = calloc(n, sizeof(*bios));
	struct bio **list = calloc(n, sizeof(struct bio *));
	struct iovec iov = {buf, (size_t)len};

	atomic_store(&ended, 0);
	for (unsigned i = 0; i < n; i++) {
		bios[i] = (struct bio){.bi_op = REQ_OP_WRITE,
				       .bi_offset_bytes = first + i * step,
				       .bi_len_bytes = len,
				       .bi_iov = &iov,
				       .bi_iovcnt = 1,
				       .bi_end_io = count_end};
		list[i] = &bios[i];
	}
	blk_submit(bd, list, n);
	while (atomic_load(&ended) < n)
		usleep(100);
	free(list);
	free(bios);
}

START_TEST(bandwidth_latency_and_data)
{
	struct model_params mp = {.mp_read_bytes_per_s = 200 * MIB,
				  .mp_write_bytes_per_s = 100 * MIB,
				  .mp_latency_ns = 2 * MSEC,
				  .mp_queue_depth = 1};
	struct blkdev *bd = model_open(mem_open(SIZE, 512, NULL), &mp, true);

	pattern_fill(buf, MIB, 1, 0);
	ck_assert_int_eq(blk_write(bd, 0, buf, MIB, 0), 0);
	ck_assert_uint_eq(model_clock_ns(bd), 12 * MSEC);
	memset(buf, 0, MIB);
	ck_assert_int_eq(blk_read(bd, 0, buf, MIB, 0), 0);
	ck_assert_uint_eq(model_clock_ns(bd), 19 * MSEC);
	pattern_check(buf, MIB, 1, 0);
	blk_close(bd);
}
END_TEST

START_TEST(queue_depth_overlaps_latency)
{
	struct model_params mp = {.mp_latency_ns = 10 * MSEC, .mp_write_iops = 100000};
	struct blkdev *bd;

	mp.mp_queue_depth = 1;
	bd = model_open(mem_open(SIZE, 512, NULL), &mp, true);
	batch(bd, 8, 0, 4096, 4096);
	ck_assert_uint_eq(model_clock_ns(bd), 8 * (10 * MSEC + 10 * USEC));
	blk_close(bd);
	mp.mp_queue_depth = 8;
	bd = model_open(mem_open(SIZE, 512, NULL), &mp, true);
	batch(bd, 8, 0, 4096, 4096);
	ck_assert_uint_eq(model_clock_ns(bd), 10 * MSEC + 8 * 10 * USEC);
	blk_close(bd);
}
END_TEST

/* The device is real time here: what is judged is the order of events. */
START_TEST(a_submitter_waits_while_too_many_requests_are_in_flight)
{
	struct model_params mp = {
		.mp_latency_ns = 20 * MSEC, .mp_queue_depth = 1, .mp_nr_requests = 2};
	struct blkdev *bd = model_open(mem_open(SIZE, 512, NULL), &mp, false);
	struct iovec iov = {buf, 4096};
	struct bio bios[6];

	atomic_store(&ended, 0);
	for (unsigned i = 0; i < 6; i++) {
		bios[i] = (struct bio){.bi_op = REQ_OP_WRITE,
				       .bi_offset_bytes = i * 4096,
				       .bi_len_bytes = 4096,
				       .bi_iov = &iov,
				       .bi_iovcnt = 1,
				       .bi_end_io = count_end};
		blk_submit_one(bd, &bios[i]);
		/* All but two before it have ended; the end of one may not be told yet. */
		ck_assert_uint_ge(atomic_load(&ended) + 2, i);
	}
	while (atomic_load(&ended) < 6)
		usleep(100);
	blk_close(bd);
}
END_TEST

START_TEST(iops_seeks_and_flushes)
{
	struct model_params mp = {.mp_write_iops = 1000,
				  .mp_seek_ns = 5 * MSEC,
				  .mp_flush_ns = 3 * MSEC,
				  .mp_queue_depth = 4};
	struct blkdev *bd = model_open(mem_open(SIZE, 512, NULL), &mp, true);

	batch(bd, 10, 0, 4096, 4096);
	ck_assert_uint_eq(model_clock_ns(bd), 10 * MSEC);
	batch(bd, 10, MIB, MIB, 4096);
	ck_assert_uint_eq(model_clock_ns(bd), 70 * MSEC);
	ck_assert_int_eq(blk_flush(bd), 0);
	ck_assert_uint_eq(model_clock_ns(bd), 73 * MSEC);
	ck_assert_int_eq(blk_write(bd, 10 * MIB + 4096, buf, 4096, REQ_FUA), 0);
	ck_assert_uint_eq(model_clock_ns(bd), 77 * MSEC);
	blk_close(bd);
}
END_TEST

START_TEST(real_clock_really_waits)
{
	struct model_params mp = {.mp_write_bytes_per_s = 50 * MIB, .mp_queue_depth = 1};
	struct blkdev *bd = model_open(mem_open(SIZE, 512, NULL), &mp, false);
	uint64_t start = now_ns();

	ck_assert_int_eq(blk_write(bd, 0, buf, MIB, 0), 0);
	ck_assert_uint_ge(now_ns() - start, 20 * MSEC);
	blk_close(bd);
}
END_TEST

START_TEST(presets_and_options)
{
	static const char *const bad[] = {
		"model",	  "model:floppy",   "model:bw=x",	"model:qd=0",
		"model:qd=1000",  "raid5:disks=2",  "raid5:chunk=5000", "raid5:chunk=1k",
		"raid5:disks=99", "raid5:stripes=3"};
	struct blkdev *mem = mem_open(SIZE, 512, NULL);
	struct blkdev *bd;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		ck_assert_int_eq(PTR_ERR(blk_stack_filters(mem, bad[i])), -EINVAL);
	ck_assert_ptr_nonnull(model_preset("sata3"));
	ck_assert_ptr_nonnull(model_preset("sdcard"));
	ck_assert_ptr_nonnull(model_preset("usb2"));
	ck_assert_ptr_nonnull(model_preset("hdd"));
	ck_assert_ptr_null(model_preset("floppy"));
	bd = blk_stack_filters(mem, "raid5:chunk=64k:disks=5+model:usb2:qd=4:latency_us=10");
	ck_assert(!IS_ERR(bd));
	ck_assert_str_eq(bd->bd_name, "raid5");
	ck_assert_str_eq(bd->bd_lower->bd_name, "model");
	ck_assert_int_eq(blk_write(bd, 0, buf, MIB, 0), 0);
	ck_assert_int_eq(blk_flush(bd), 0);
	ck_assert_int_eq(blk_read(bd, 0, buf, MIB, 0), 0);
	blk_close(bd);
}
END_TEST

/* 5 disks, 64 KiB chunks: a stripe is 256 KiB. */
static struct blkdev *open_raid(struct blkdev *lower)
{
	struct blkdev *bd = raid5_open(lower, 5, 64 * KIB);

	ck_assert(!IS_ERR(bd));
	return bd;
}

START_TEST(stripes_are_told_apart)
{
	struct blkdev *bd = open_raid(mem_open(SIZE, 512, NULL));
	struct raid5_counts rc;

	ck_assert_int_eq(blk_write(bd, 0, buf, 512 * KIB, 0), 0);
	raid5_read_counts(bd, &rc);
	ck_assert_uint_eq(rc.rc_full, 2);
	ck_assert_uint_eq(rc.rc_partial, 0);
	ck_assert_uint_eq(rc.rc_aligned_start, 1);
	ck_assert_uint_eq(rc.rc_aligned_end, 1);
	ck_assert_uint_eq(rc.rc_member_writes, 10);
	ck_assert_uint_eq(rc.rc_member_reads, 0);
	/* 4 KiB: read data and parity, write both. */
	ck_assert_int_eq(blk_write(bd, 8 * KIB, buf, 4 * KIB, 0), 0);
	raid5_read_counts(bd, &rc);
	ck_assert_uint_eq(rc.rc_rmw, 1);
	ck_assert_uint_eq(rc.rc_member_reads, 2);
	ck_assert_uint_eq(rc.rc_member_writes, 12);
	/* Three of four chunks: reading the fourth is cheaper. */
	ck_assert_int_eq(blk_write(bd, 256 * KIB, buf, 192 * KIB, 0), 0);
	raid5_read_counts(bd, &rc);
	ck_assert_uint_eq(rc.rc_reconstruct, 1);
	ck_assert_uint_eq(rc.rc_member_reads, 3);
	ck_assert_uint_eq(rc.rc_member_writes, 16);
	ck_assert_uint_eq(rc.rc_partial, 2);
	/* An unaligned run: a head, a whole stripe, a tail. */
	ck_assert_int_eq(blk_write(bd, 192 * KIB, buf, 384 * KIB, 0), 0);
	raid5_read_counts(bd, &rc);
	ck_assert_uint_eq(rc.rc_full, 3);
	ck_assert_uint_eq(rc.rc_partial, 4);
	ck_assert_uint_eq(rc.rc_writes, 4);
	ck_assert_uint_eq(rc.rc_aligned_start, 2);
	blk_close(bd);
}
END_TEST

START_TEST(a_draw_is_reconstructed)
{
	struct blkdev *bd = raid5_open(mem_open(SIZE, 512, NULL), 4, 64 * KIB);
	struct raid5_counts rc;

	ck_assert_int_eq(blk_write(bd, 0, buf, 4 * KIB, 0), 0);
	raid5_read_counts(bd, &rc);
	ck_assert_uint_eq(rc.rc_reconstruct, 1);
	ck_assert_uint_eq(rc.rc_rmw, 0);
	ck_assert_uint_eq(rc.rc_member_reads, 2);
	blk_close(bd);
}
END_TEST

START_TEST(neighbours_of_one_submission_are_joined)
{
	struct blkdev *bd = open_raid(mem_open(SIZE, 512, NULL));
	struct raid5_counts rc;

	batch(bd, 8, 0, 64 * KIB, 64 * KIB);
	raid5_read_counts(bd, &rc);
	ck_assert_uint_eq(rc.rc_full, 2);
	ck_assert_uint_eq(rc.rc_partial, 0);
	ck_assert_uint_eq(rc.rc_writes, 1);
	batch(bd, 4, MIB, 128 * KIB, 64 * KIB);
	raid5_read_counts(bd, &rc);
	ck_assert_uint_eq(rc.rc_full, 2);
	ck_assert_uint_eq(rc.rc_partial, 4);
	blk_close(bd);
}
END_TEST

START_TEST(plugged_neighbours_are_joined_and_blocking_sends_them_out)
{
	struct blkdev *bd = open_raid(mem_open(SIZE, 512, NULL));
	struct iovec iov = {buf, 64 * KIB};
	struct raid5_counts rc;
	struct bio bios[8];

	atomic_store(&ended, 0);
	blk_start_plug(bd);
	blk_start_plug(bd);
	for (unsigned i = 0; i < 8; i++) {
		bios[i] = (struct bio){.bi_op = REQ_OP_WRITE,
				       .bi_offset_bytes = i * 64 * KIB,
				       .bi_len_bytes = 64 * KIB,
				       .bi_iov = &iov,
				       .bi_iovcnt = 1,
				       .bi_end_io = count_end};
		blk_submit_one(bd, &bios[i]);
	}
	blk_finish_plug(bd);
	ck_assert_uint_eq(atomic_load(&ended), 0);
	blk_finish_plug(bd);
	ck_assert_uint_eq(atomic_load(&ended), 8);
	blk_start_plug(bd);
	for (unsigned i = 0; i < 8; i++)
		blk_submit_one(bd, &bios[i]);
	thread_block_begin();
	while (atomic_load(&ended) < 16)
		usleep(100);
	thread_block_end();
	blk_finish_plug(bd);
	raid5_read_counts(bd, &rc);
	ck_assert_uint_eq(rc.rc_full, 4);
	ck_assert_uint_eq(rc.rc_writes, 2);
	blk_close(bd);
}
END_TEST

START_TEST(members_work_at_the_same_time)
{
	struct model_params mp = {.mp_read_bytes_per_s = 65536000,
				  .mp_write_bytes_per_s = 65536000,
				  .mp_queue_depth = 1};
	struct blkdev *model = model_open(mem_open(SIZE, 512, NULL), &mp, true);
	struct blkdev *bd = open_raid(model);
	uint64_t chunk_ns = MSEC;
	uint64_t start;

	/* A whole stripe takes the time of one chunk, four stripes that of four. */
	ck_assert_int_eq(blk_write(bd, 0, buf, 256 * KIB, 0), 0);
	ck_assert_uint_eq(model_clock_ns(model), chunk_ns);
	ck_assert_int_eq(blk_write(bd, 256 * KIB, buf, MIB, 0), 0);
	ck_assert_uint_eq(model_clock_ns(model), 5 * chunk_ns);
	/* A chunk alone is read and written: twice the time. */
	start = model_clock_ns(model);
	ck_assert_int_eq(blk_write(bd, 2 * MIB, buf, 64 * KIB, 0), 0);
	ck_assert_uint_eq(model_clock_ns(model) - start, 2 * chunk_ns);
	/* Reading a stripe keeps four disks busy for one chunk each. */
	start = model_clock_ns(model);
	ck_assert_int_eq(blk_read(bd, 4 * MIB, buf, 256 * KIB, 0), 0);
	ck_assert_uint_eq(model_clock_ns(model) - start, chunk_ns);
	blk_close(bd);
}
END_TEST

int main(void)
{
	return RUN_TESTS(
		"block/filter_model", bandwidth_latency_and_data, queue_depth_overlaps_latency,
		a_submitter_waits_while_too_many_requests_are_in_flight, iops_seeks_and_flushes,
		real_clock_really_waits, presets_and_options, stripes_are_told_apart,
		a_draw_is_reconstructed, neighbours_of_one_submission_are_joined,
		plugged_neighbours_are_joined_and_blocking_sends_them_out,
		members_work_at_the_same_time);
}
