/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * test_trace.c - events: switching, what is computed when, lines of text, reading in pieces.
 * Locking: none.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/suite.h"
#include "util/trace.h"
#include "util/trace_text.h"

#define DEV ((8u << 20) | 3u)

static unsigned evaluated;

static bool value(void)
{
	evaluated++;
	return true;
}

static char *on_now(void)
{
	char *text = NULL;
	size_t len;
	FILE *f = open_memstream(&text, &len);

	trace_print_events(f);
	fclose(f);
	return text;
}

static void check_on(const char *want)
{
	char *text = on_now();

	ck_assert_str_eq(text, want);
	free(text);
}

/* The part of a line behind "seconds: ". */
static const char *body(const char *line)
{
	const char *p = strstr(line, ": ");

	ck_assert_ptr_nonnull(p);
	return p + 2;
}

START_TEST(an_event_that_is_off_computes_nothing)
{
	char buf[256];

	TRACE(ext4_sync_fs, .dev = DEV, .wait = value());
	ck_assert_uint_eq(evaluated, 0);
	ck_assert_int_eq(trace_set_events("jbd2_start_commit"), 0);
	TRACE(ext4_sync_fs, .dev = DEV, .wait = value());
	ck_assert_uint_eq(evaluated, 0);
	ck_assert_uint_eq(trace_nr_events(), 0);
	ck_assert_uint_eq(trace_read(buf, sizeof(buf)), 0);
}
END_TEST

START_TEST(an_event_that_is_on_becomes_a_line)
{
	char buf[512], task[64];
	unsigned pid, cpu;
	double seconds;
	size_t n;

	pthread_setname_np(pthread_self(), "tracer");
	ck_assert_int_eq(trace_set_events("ext4_sync_fs"), 0);
	ck_assert(trace_ring_on());
	TRACE(ext4_sync_fs, .dev = DEV, .wait = value());
	ck_assert_uint_eq(evaluated, 1);
	n = trace_read(buf, sizeof(buf) - 1);
	buf[n] = '\0';
	ck_assert_str_eq(body(buf), "ext4_sync_fs: dev 8,3 wait 1\n");
	ck_assert_int_eq(sscanf(buf, " %63[^-]-%u [%u] %lf", task, &pid, &cpu, &seconds), 4);
	ck_assert_str_eq(task, "tracer");
	ck_assert_uint_gt(pid, 0);
	ck_assert(seconds > 0);
	ck_assert_uint_eq(trace_read(buf, sizeof(buf)), 0);
}
END_TEST

START_TEST(fields_of_every_kind)
{
	char buf[1024];
	size_t n;

	ck_assert_int_eq(trace_set_events("all"), 0);
	TRACE(ext4_da_reserve_space, .dev = DEV, .ino = 12, .mode = 0100644, .i_blocks = 16,
	      .reserve_blocks = 2, .reserved_data_blocks = 7);
	TRACE(ext4_writepages, .dev = DEV, .ino = 12, .nr_to_write = -3, .range_end = INT64_MAX);
	TRACE(writeback_start, .bdi = DEV, .sb_dev = DEV, .nr_pages = 5,
	      .reason = trace_string("sync"));
	TRACE(block_rq_complete, .dev = DEV, .rwbs = trace_string("WFS"), .sector = 64,
	      .nr_sector = 8, .error = -5);
	TRACE(ext4_mballoc_alloc, .ino = 9, .orig_logical = UINT64_MAX, .flags = 0x1ff, .buddy = 4);
	n = trace_read(buf, sizeof(buf) - 1);
	buf[n] = '\0';
	ck_assert_ptr_nonnull(strstr(buf, "ext4_da_reserve_space: dev 8,3 ino 12 mode 0100644 "
					  "i_blocks 16 reserve_blocks 2 reserved_data_blocks 7\n"));
	ck_assert_ptr_nonnull(strstr(buf, "nr_to_write -3 pages_skipped 0 range_start 0 "
					  "range_end 9223372036854775807 sync_mode 0 "));
	ck_assert_ptr_nonnull(strstr(buf, "writeback_start: bdi 8:3: sb_dev 8:3 nr_pages=5 "
					  "sync_mode=0 kupdate=0 range_cyclic=0 background=0 "
					  "reason=sync\n"));
	ck_assert_ptr_nonnull(strstr(buf, "block_rq_complete: 8,3 WFS () 64 + 8 [-5]\n"));
	ck_assert_ptr_nonnull(strstr(buf, "orig 0/0/0@18446744073709551615 goal "));
	ck_assert_ptr_nonnull(strstr(buf, " cr 0 flags 0x1ff tail 0 broken 4\n"));
}
END_TEST

START_TEST(a_list_chooses_and_a_bad_one_changes_nothing)
{
	check_on("none");
	ck_assert_int_eq(trace_set_events("jbd2_end_commit:ext4_sync_fs"), 0);
	check_on("ext4_sync_fs,jbd2_end_commit");
	ck_assert_int_eq(trace_set_events("ext4_sync_fs,ext4_sync"), -EINVAL);
	ck_assert_int_eq(trace_set_events("all,none"), -EINVAL);
	check_on("ext4_sync_fs,jbd2_end_commit");
	ck_assert_int_eq(trace_set_events(" block_rq_issue , block_rq_complete\n"), 0);
	check_on("block_rq_issue,block_rq_complete");
	ck_assert_int_eq(trace_set_events("all"), 0);
	check_on("all");
	ck_assert_int_eq(trace_set_events(""), 0);
	check_on("none");
	ck_assert(!trace_ring_on());
}
END_TEST

START_TEST(a_short_buffer_gets_the_line_in_pieces)
{
	char whole[256] = "", piece[7];
	size_t n, len = 0;

	ck_assert_int_eq(trace_set_events("jbd2_end_commit"), 0);
	for (unsigned i = 0; i < 2; i++)
		TRACE(jbd2_end_commit, .dev = DEV, .transaction = i + 5, .head = 2);
	while ((n = trace_read(piece, sizeof(piece))) > 0) {
		ck_assert_uint_lt(len + n, sizeof(whole));
		memcpy(whole + len, piece, n);
		len += n;
	}
	ck_assert_ptr_nonnull(
		strstr(whole, "jbd2_end_commit: dev 8,3 transaction 5 sync 0 head 2\n"));
	ck_assert_ptr_nonnull(
		strstr(whole, "jbd2_end_commit: dev 8,3 transaction 6 sync 0 head 2\n"));
}
END_TEST

START_TEST(a_lap_shows_as_lost_events)
{
	enum { NR = 10000, RING = 8192 };
	char buf[64];
	unsigned lost = 0;

	ck_assert_int_eq(trace_set_events("ext4_sync_fs"), 0);
	for (unsigned i = 0; i < NR; i++)
		TRACE(ext4_sync_fs, .dev = DEV);
	trace_read(buf, sizeof(buf));
	ck_assert_int_eq(sscanf(buf, "[LOST %u EVENTS]", &lost), 1);
	ck_assert_uint_eq(lost, NR - RING);
	ck_assert_uint_eq(trace_nr_lost(), NR - RING);
	ck_assert_uint_eq(trace_nr_events(), NR);
}
END_TEST

/* The table itself: names, conversions for each field, as the fields of the structs. */
#define CHECK_TEXT(name, text, fields)                                                             \
	ck_assert_int_eq(trace_text_fields(text), sizeof(struct trace_##name) / 8);                \
	ck_assert_str_eq(trace_event_name(TRACE_ID_##name), #name);

START_TEST(each_text_takes_the_fields_of_its_event)
{
	TRACE_EVENTS(CHECK_TEXT, CHECK_TEXT, TRACE_NONE_, TRACE_NONE_, TRACE_NONE_)
	ck_assert_int_eq(trace_text_fields("%q"), -1);
	ck_assert_int_eq(TRACE_NR, 28);
}
END_TEST

START_TEST(a_line_that_is_too_long_is_cut)
{
	const struct trace_info ti = {"name", "%u %u %u", 3};
	struct trace_record rec = {.tr_nr = 3, .tr_field = {UINT64_MAX, UINT64_MAX, UINT64_MAX}};
	char buf[80];
	size_t n = trace_format(&ti, &rec, buf, sizeof(buf));

	ck_assert_uint_eq(n, sizeof(buf) - 1);
	ck_assert_int_eq(buf[n - 1], '\n');
	ck_assert_uint_eq(strlen(buf), n);
}
END_TEST

static void *emit_many(void *arg)
{
	(void)arg;
	for (unsigned i = 0; i < 5000; i++)
		TRACE(ext4_sync_fs, .dev = DEV, .wait = 1);
	return NULL;
}

START_TEST(switching_and_reading_while_others_emit)
{
	pthread_t thread[3];
	char buf[4096];

	for (unsigned i = 0; i < 3; i++)
		ck_assert_int_eq(pthread_create(&thread[i], NULL, emit_many, NULL), 0);
	for (unsigned i = 0; i < 200; i++) {
		ck_assert_int_eq(trace_set_events(i % 2 == 0 ? "all" : "none"), 0);
		trace_read(buf, sizeof(buf));
	}
	for (unsigned i = 0; i < 3; i++)
		pthread_join(thread[i], NULL);
}
END_TEST

int main(void)
{
	return RUN_TESTS("util/trace", an_event_that_is_off_computes_nothing,
			 an_event_that_is_on_becomes_a_line, fields_of_every_kind,
			 a_list_chooses_and_a_bad_one_changes_nothing,
			 a_short_buffer_gets_the_line_in_pieces, a_lap_shows_as_lost_events,
			 each_text_takes_the_fields_of_its_event, a_line_that_is_too_long_is_cut,
			 switching_and_reading_while_others_emit);
}
