/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * test_filter_log.c - the record of writes: its format, its order, and what a power cut leaves.
 * Locking: none; completions run in the thread that releases them.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "block/filter_log.h"
#include "tests/lib/crash.h"
#include "tests/lib/pattern.h"
#include "tests/lib/slowdev.h"
#include "tests/lib/suite.h"
#include "tests/lib/testlib.h"
#include "util/err.h"

#define MIB (1u << 20)
#define BS 4096u
#define SECTOR 512u

static struct blkdev *slow, *dev;
static char *path;
static unsigned ended;

struct write {
	struct bio w_bio;
	struct iovec w_iov;
	uint8_t w_data[BS];
};

static void count_end(struct bio *bio)
{
	(void)bio;
	ended++;
}

static void start_write(struct write *w, uint64_t block, uint8_t value, unsigned flags)
{
	memset(w->w_data, value, BS);
	w->w_iov = (struct iovec){w->w_data, BS};
	w->w_bio = (struct bio){.bi_op = REQ_OP_WRITE,
				.bi_flags = flags,
				.bi_offset_bytes = block * BS,
				.bi_len_bytes = BS,
				.bi_iov = &w->w_iov,
				.bi_iovcnt = 1,
				.bi_end_io = count_end};
	blk_submit_one(dev, &w->w_bio);
}

static void start_flush(struct bio *flush)
{
	*flush = (struct bio){.bi_op = REQ_OP_FLUSH, .bi_end_io = count_end};
	blk_submit_one(dev, flush);
}

static void setup_file(void)
{
	path = testlib_tempfile();
	slow = slowdev_open(mem_open(MIB, 512, NULL));
	dev = log_open_file(slow, path);
	ck_assert(!IS_ERR(dev));
}

static void setup_memory(void)
{
	slow = slowdev_open(mem_open(MIB, 512, NULL));
	dev = log_open_memory(slow);
	ck_assert(!IS_ERR(dev));
}

static void teardown(void)
{
	blk_close(dev);
	if (path != NULL) {
		unlink(path);
		free(path);
	}
}

/* ---- A reader of the file of its own ---- */

static uint64_t le(const uint8_t *p, unsigned bytes)
{
	uint64_t v = 0;

	for (unsigned i = bytes; i > 0; i--)
		v = v << 8 | p[i - 1];
	return v;
}

struct read_entry {
	uint64_t sector, nr, flags, len, data_pos;
	char text[SECTOR];
};

/* Entries that the header counts; *end is where the next one would be. */
static unsigned read_log(struct read_entry *entries, unsigned max, uint64_t *end)
{
	uint8_t buf[SECTOR];
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	uint64_t pos = SECTOR;
	uint64_t n;

	ck_assert_int_eq(pread(fd, buf, SECTOR, 0), SECTOR);
	ck_assert_uint_eq(le(buf, 8), 0x6a736677736872);
	ck_assert_uint_eq(le(buf + 8, 8), 1);
	ck_assert_uint_eq(le(buf + 24, 4), SECTOR);
	n = le(buf + 16, 8);
	ck_assert_uint_le(n, max);
	for (unsigned i = 0; i < n; i++) {
		struct read_entry *e = &entries[i];

		ck_assert_int_eq(pread(fd, buf, SECTOR, (off_t)pos), SECTOR);
		e->sector = le(buf, 8);
		e->nr = le(buf + 8, 8);
		e->flags = le(buf + 16, 8);
		e->len = le(buf + 24, 8);
		memset(e->text, 0, sizeof(e->text));
		if (e->len > 0)
			memcpy(e->text, buf + 32, (size_t)e->len);
		pos += SECTOR;
		e->data_pos = pos;
		if ((e->flags & (LOG_DISCARD_FLAG | LOG_MARK_FLAG)) == 0)
			pos += e->nr * SECTOR;
	}
	close(fd);
	*end = pos;
	return (unsigned)n;
}

START_TEST(file_has_the_format_of_dm_log_writes)
{
	struct read_entry e[16];
	uint8_t buf[2 * BS];
	uint64_t end;
	int fd;

	setup_file();
	pattern_fill(buf, sizeof(buf), 1, 0);
	ck_assert_int_eq(blk_write(dev, 3 * BS, buf, 2 * BS, REQ_META), 0);
	ck_assert_int_eq(blk_discard(dev, 8 * BS, 4 * BS), 0);
	ck_assert_int_eq(blk_zeroout(dev, 16 * BS, 32 * BS), 0);
	ck_assert_int_eq(blk_write(dev, 512, buf, 512, REQ_FUA), 0);
	ck_assert_int_eq(blk_flush(dev), 0);
	ck_assert(blk_wants_marks(dev));
	ck_assert_int_eq(blk_mark(dev, "hello"), 0);
	ck_assert_uint_eq(read_log(e, 16, &end), 6);
	ck_assert_uint_eq(e[0].sector, 3 * 8);
	ck_assert_uint_eq(e[0].nr, 2 * 8);
	ck_assert_uint_eq(e[0].flags, LOG_METADATA_FLAG);
	ck_assert_uint_eq(e[1].sector, 8 * 8);
	ck_assert_uint_eq(e[1].nr, 4 * 8);
	ck_assert_uint_eq(e[1].flags, LOG_DISCARD_FLAG);
	ck_assert_uint_eq(e[2].nr, 32 * 8);
	ck_assert_uint_eq(e[2].flags, 0);
	ck_assert_uint_eq(e[3].sector, 1);
	ck_assert_uint_eq(e[3].flags, LOG_FUA_FLAG);
	ck_assert_uint_eq(e[4].flags, LOG_FLUSH_FLAG);
	ck_assert_uint_eq(e[4].nr, 0);
	ck_assert_uint_eq(e[5].flags, LOG_MARK_FLAG);
	ck_assert_uint_eq(e[5].len, 5);
	ck_assert_str_eq(e[5].text, "hello");
	fd = open(path, O_RDONLY | O_CLOEXEC);
	ck_assert_int_eq(pread(fd, buf, 2 * BS, (off_t)e[0].data_pos), 2 * BS);
	pattern_check(buf, 2 * BS, 1, 0);
	ck_assert_int_eq(pread(fd, buf, 2 * BS, (off_t)e[2].data_pos), 2 * BS);
	ck_assert_int_eq(bytes_mismatch(buf, 2 * BS, 0), -1);
	close(fd);
	teardown();
}
END_TEST

START_TEST(header_is_brought_up_to_date_at_flush_and_mark_and_close)
{
	static struct write w;
	struct read_entry e[16];
	uint64_t end;

	setup_file();
	start_write(&w, 1, 1, 0);
	ck_assert_uint_eq(read_log(e, 16, &end), 0);
	ck_assert_int_eq(blk_mark(dev, "a"), 0);
	ck_assert_uint_eq(read_log(e, 16, &end), 2);
	start_write(&w, 1, 1, 0);
	ck_assert_int_eq(blk_flush(dev), 0);
	ck_assert_uint_eq(read_log(e, 16, &end), 4);
	start_write(&w, 1, 1, 0);
	blk_close(dev);
	ck_assert_uint_eq(read_log(e, 16, &end), 5);
	unlink(path);
	free(path);
}
END_TEST

START_TEST(file_order_shows_what_a_flush_covers)
{
	static struct write before, during, late;
	struct bio flush;
	struct read_entry e[16];
	uint64_t end;

	setup_file();
	slowdev_hold(slow, REQ_OP_WRITE, true);
	slowdev_hold(slow, REQ_OP_FLUSH, true);
	start_write(&before, 10, 1, 0);
	start_write(&during, 11, 2, 0);
	start_write(&late, 12, 3, 0);
	slowdev_release(slow, 0); /* before is complete */
	start_flush(&flush);	  /* held: during, late, flush */
	slowdev_release(slow, 0); /* during completes while the flush is on its way */
	slowdev_release(slow, 1); /* the flush */
	slowdev_release(slow, 0); /* late */
	ck_assert_uint_eq(ended, 4);
	ck_assert_int_eq(blk_mark(dev, "end"), 0);
	ck_assert_uint_eq(read_log(e, 16, &end), 5);
	ck_assert_uint_eq(e[0].sector, 10 * 8);
	ck_assert_uint_eq(e[1].flags, LOG_FLUSH_FLAG);
	ck_assert_uint_eq(e[2].sector, 11 * 8);
	ck_assert_uint_eq(e[3].sector, 12 * 8);
	teardown();
}
END_TEST

START_TEST(failed_requests_promise_nothing)
{
	static struct write w;
	struct bio flush;
	struct read_entry e[16];
	uint64_t end;

	setup_file();
	slowdev_hold(slow, REQ_OP_WRITE, true);
	slowdev_hold(slow, REQ_OP_FLUSH, true);
	start_write(&w, 10, 1, 0);
	slowdev_fail(slow, 0, -EIO);
	start_flush(&flush);
	slowdev_fail(slow, 0, -EIO);
	ck_assert_int_eq(flush.bi_status, -EIO);
	ck_assert_int_eq(blk_mark(dev, "end"), 0);
	ck_assert_uint_eq(read_log(e, 16, &end), 2);
	ck_assert_uint_eq(e[0].flags, 0);
	ck_assert_uint_eq(e[0].nr, 0);
	ck_assert_uint_eq(e[1].flags, LOG_MARK_FLAG);
	teardown();
}
END_TEST

/* The block's first byte after a cut at n where the drive forgets all it may. */
static uint8_t after_cut(size_t n, uint64_t block)
{
	struct blkdev *image = mem_open(MIB, 512, NULL);
	uint8_t value;

	crash_apply(dev, n, CRASH_DURABLE_ONLY, NULL, image);
	value = ((uint8_t *)mem_data(image))[block * BS];
	blk_close(image);
	return value;
}

START_TEST(a_write_nobody_waited_for_before_the_flush_is_lost)
{
	static struct write waited, not_waited;
	struct bio flush;
	size_t n;

	setup_memory();
	slowdev_hold(slow, REQ_OP_WRITE, true);
	start_write(&waited, 1, 11, 0);
	start_write(&not_waited, 2, 22, 0);
	slowdev_release(slow, 0);
	start_flush(&flush);
	slowdev_release(slow, 0);
	ck_assert_int_eq(blk_mark(dev, "acknowledged"), 0);
	n = crash_find_mark(dev, "acknowledged");
	ck_assert_uint_eq(n, 4);
	ck_assert_uint_eq(after_cut(n, 1), 11);
	ck_assert_uint_eq(after_cut(n, 2), 0);
	ck_assert_int_eq(blk_flush(dev), 0);
	ck_assert_uint_eq(after_cut(n + 1, 2), 22);
	teardown();
}
END_TEST

START_TEST(a_flush_in_flight_covers_nothing_yet)
{
	static struct write first, second;
	struct bio flush;

	setup_memory();
	start_write(&first, 1, 11, 0);
	slowdev_hold(slow, REQ_OP_FLUSH, true);
	start_flush(&flush);
	start_write(&second, 2, 22, REQ_FUA);
	/* The second is durable, the first is not: nobody waited for the flush. */
	ck_assert_uint_eq(after_cut(2, 1), 0);
	ck_assert_uint_eq(after_cut(2, 2), 22);
	slowdev_release_all(slow);
	ck_assert_uint_eq(after_cut(3, 1), 11);
	teardown();
}
END_TEST

START_TEST(a_write_that_ends_during_the_flush_is_not_covered)
{
	static struct write first, during;
	struct bio flush;

	setup_memory();
	start_write(&first, 1, 11, 0);
	slowdev_hold(slow, REQ_OP_FLUSH, true);
	start_flush(&flush);
	start_write(&during, 2, 22, 0);
	slowdev_release_all(slow);
	ck_assert_uint_eq(log_entry_count(dev), 3);
	ck_assert_uint_eq(crash_barrier(dev, 3), 1);
	ck_assert_uint_eq(after_cut(3, 1), 11);
	ck_assert_uint_eq(after_cut(3, 2), 0);
	teardown();
}
END_TEST

START_TEST(an_older_write_never_replaces_a_durable_one)
{
	static struct write w;
	struct prng p;

	setup_memory();
	start_write(&w, 1, 11, 0);
	start_write(&w, 1, 22, REQ_FUA);
	for (uint64_t seed = 0; seed < 50; seed++) {
		struct blkdev *image = mem_open(MIB, 512, NULL);

		prng_seed(&p, seed);
		crash_apply(dev, 2, CRASH_RANDOM, &p, image);
		ck_assert_int_eq(bytes_mismatch((uint8_t *)mem_data(image) + BS, BS, 22), -1);
		blk_close(image);
	}
	teardown();
}
END_TEST

START_TEST(random_cuts_keep_lose_and_tear)
{
	static struct write w, in_flight;
	unsigned whole = 0, lost = 0, torn = 0, early = 0;
	struct prng p;

	setup_memory();
	start_write(&w, 1, 11, 0);
	slowdev_hold(slow, REQ_OP_WRITE, true);
	start_write(&in_flight, 2, 22, 0);
	slowdev_release_all(slow);
	for (uint64_t seed = 0; seed < 200; seed++) {
		struct blkdev *image = mem_open(MIB, 512, NULL);
		uint8_t *data = (uint8_t *)mem_data(image) + BS;

		prng_seed(&p, seed);
		crash_apply(dev, 1, CRASH_RANDOM, &p, image);
		if (bytes_mismatch(data, BS, 11) < 0)
			whole++;
		else if (bytes_mismatch(data, BS, 0) < 0)
			lost++;
		else
			torn++;
		early += bytes_mismatch(data + BS, BS, 22) < 0;
		blk_close(image);
	}
	ck_assert_uint_gt(whole, 50);
	ck_assert_uint_gt(lost, 30);
	ck_assert_uint_gt(torn, 10);
	ck_assert_uint_gt(early, 50);
	teardown();
}
END_TEST

START_TEST(base_image_moved_forward_gives_the_same_cut)
{
	static struct write w;

	setup_memory();
	for (unsigned i = 0; i < 40; i++) {
		start_write(&w, i % 7, (uint8_t)(i + 1), i % 5 == 0 ? REQ_FUA : 0);
		if (i % 6 == 5)
			ck_assert_int_eq(blk_flush(dev), 0);
	}
	for (size_t n = 0; n <= log_entry_count(dev); n++) {
		struct blkdev *a = mem_open(MIB, 512, NULL);
		struct blkdev *b = mem_open(MIB, 512, NULL);
		size_t from = crash_barrier(dev, n);
		struct prng p;

		crash_apply(dev, n, CRASH_DURABLE_ONLY, NULL, a);
		crash_replay(dev, 0, from, b);
		prng_seed(&p, n);
		crash_apply_from(dev, from, n, CRASH_DURABLE_ONLY, &p, b);
		ck_assert_int_eq(memcmp(mem_data(a), mem_data(b), 8 * BS), 0);
		blk_close(a);
		blk_close(b);
	}
	log_reset(dev);
	ck_assert_uint_eq(log_entry_count(dev), 0);
	teardown();
}
END_TEST

START_TEST(memory_that_changes_in_flight_is_noticed)
{
	static struct write w;

	setup_memory();
	slowdev_hold(slow, REQ_OP_WRITE, true);
	start_write(&w, 1, 1, 0);
	slowdev_release(slow, 0);
	ck_assert_uint_eq(log_unstable_writes(dev), 0);
	start_write(&w, 1, 1, 0);
	w.w_data[100] = 2;
	slowdev_release(slow, 0);
	ck_assert_uint_eq(log_unstable_writes(dev), 1);
	teardown();
}
END_TEST

START_TEST(marks_are_bounded_and_reads_pass)
{
	char text[LOG_MARK_MAX + 2];
	uint8_t buf[BS];

	setup_memory();
	memset(text, 'x', sizeof(text));
	text[LOG_MARK_MAX + 1] = '\0';
	ck_assert_int_eq(blk_mark(dev, text), -ENAMETOOLONG);
	text[LOG_MARK_MAX] = '\0';
	ck_assert_int_eq(blk_mark(dev, text), 0);
	ck_assert_str_eq(crash_last_mark(dev, 1), text);
	ck_assert_ptr_null(crash_last_mark(dev, 0));
	ck_assert_int_eq(blk_read(dev, 0, buf, BS, 0), 0);
	ck_assert_uint_eq(log_entry_count(dev), 1);
	ck_assert_uint_eq(counter_read(&dev->bd_stats.s_in_flight), 0);
	teardown();
}
END_TEST

START_TEST(stacking_by_name)
{
	struct blkdev *mem = mem_open(MIB, 512, NULL);
	char spec[256];
	struct blkdev *top;

	ck_assert_int_eq(PTR_ERR(blk_stack_filters(mem, "")), -EINVAL);
	ck_assert_int_eq(PTR_ERR(blk_stack_filters(mem, "nosuch")), -EINVAL);
	ck_assert_int_eq(PTR_ERR(blk_stack_filters(mem, "log:")), -EINVAL);
	ck_assert_int_eq(PTR_ERR(blk_stack_filters(mem, "log")), -EINVAL);
	ck_assert_int_eq(PTR_ERR(blk_stack_filters(mem, "log:/nonexistent/dir/log")), -ENOENT);
	path = testlib_tempfile();
	snprintf(spec, sizeof(spec), "log:%s+nosuch", path);
	ck_assert_int_eq(PTR_ERR(blk_stack_filters(mem, spec)), -EINVAL);
	snprintf(spec, sizeof(spec), "log:/nonexistent/dir/log+log:%s", path);
	ck_assert_int_eq(PTR_ERR(blk_stack_filters(mem, spec)), -ENOENT);
	snprintf(spec, sizeof(spec), "log:%s,ro", path);
	top = blk_stack_filters(mem, spec);
	ck_assert(!IS_ERR(top));
	ck_assert_ptr_eq(top->bd_lower, mem);
	ck_assert_ptr_eq(mem_data(top), mem_data(mem));
	blk_close(top);
	unlink(path);
	free(path);
}
END_TEST

int main(void)
{
	return RUN_TESTS("block/filter_log", file_has_the_format_of_dm_log_writes,
			 header_is_brought_up_to_date_at_flush_and_mark_and_close,
			 file_order_shows_what_a_flush_covers, failed_requests_promise_nothing,
			 a_write_nobody_waited_for_before_the_flush_is_lost,
			 a_flush_in_flight_covers_nothing_yet,
			 a_write_that_ends_during_the_flush_is_not_covered,
			 an_older_write_never_replaces_a_durable_one,
			 random_cuts_keep_lose_and_tear,
			 base_image_moved_forward_gives_the_same_cut,
			 memory_that_changes_in_flight_is_noticed, marks_are_bounded_and_reads_pass,
			 stacking_by_name);
}
