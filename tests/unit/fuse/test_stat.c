/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * test_stat.c - ext4dstat: rates and means of an interval, and its two forms.
 * Locking: none.
 */
#include <stdlib.h>
#include <string.h>

#include "fuse/stat/interval.h"
#include "tests/lib/suite.h"

static const char first[] = "uptime_ms 1000\nblock_bytes 1024\nwb.nr_dirty 10\n"
			    "wb.written_bytes 5000\ndevice.write.bytes 1000\n"
			    "device.write.requests 1\njbd2_commits 1\njbd2_commit_ns_count 1\n"
			    "jbd2_commit_ns_sum 9000000\njbd2_commit_ns_max 9000000\n"
			    "jbd2_commit_ns_le_16777215 1\nwb.stripe_full 7\n";
static const char second[] = "uptime_ms 3000\nblock_bytes 1024\nwb.nr_dirty 256\n"
			     "wb.nr_writeback 512\ndelayed_allocation_blocks 2048\n"
			     "wb.cache_used_pages 1024\nfuse_parked 3\nnot a line\n"
			     "wb.written_bytes 4005000\ndevice.write.bytes 2001000\n"
			     "device.write.requests 11\ndevice.read.requests 10\n"
			     "device.read.bytes 48000\nwb.fsyncs 5\njbd2_commits 5\n"
			     "jbd2_commit_ns_count 5\njbd2_commit_ns_sum 17000000\n"
			     "jbd2_commit_ns_max 9000000\njbd2_commit_ns_le_16777215 1\n"
			     "jbd2_commit_ns_le_2097151 3\njbd2_commit_ns_le_4194303 1\n"
			     "wb.stripe_full 16\nwb.stripe_partial 3\n";

static struct sample a, b;
static struct interval iv;

static void parse(void)
{
	ck_assert_int_eq(sample_parse(&a, first), 0);
	ck_assert_int_eq(sample_parse(&b, second), 0);
}

static void check_near(double have, double want)
{
	ck_assert_msg(have > want - 0.001 && have < want + 0.001, "%f instead of %f", have, want);
}

START_TEST(rates_are_over_the_time_between)
{
	parse();
	interval_make(&iv, &a, &b);
	check_near(iv.iv_seconds, 2);
	ck_assert_uint_eq(iv.iv_dirty_bytes, 1 << 20);
	ck_assert_uint_eq(iv.iv_writeback_bytes, 2 << 20);
	ck_assert_uint_eq(iv.iv_reserved_bytes, 2 << 20);
	ck_assert_uint_eq(iv.iv_cache_bytes, 4 << 20);
	ck_assert_uint_eq(iv.iv_parked, 3);
	check_near(iv.iv_in_rate, 2e6);
	check_near(iv.iv_device_rate, 1e6);
	check_near(iv.iv_requests, 10);
	check_near(iv.iv_request_bytes, 102400);
	check_near(iv.iv_fsyncs, 2.5);
	check_near(iv.iv_commits, 2);
	check_near(iv.iv_commit_mean_ms, 2);
	/* The one of 9 ms was before. */
	check_near(iv.iv_commit_max_ms, 4.194303);
	ck_assert(iv.iv_striped);
	check_near(iv.iv_full_percent, 75);
}
END_TEST

START_TEST(the_first_interval_is_since_the_mount)
{
	parse();
	interval_make(&iv, NULL, &a);
	check_near(iv.iv_seconds, 1);
	check_near(iv.iv_in_rate, 5000);
	check_near(iv.iv_commit_max_ms, 9);
	/* Mounted anew: what was before does not count. */
	interval_make(&iv, &b, &a);
	check_near(iv.iv_seconds, 1);
	check_near(iv.iv_in_rate, 5000);
	/* No time has passed. */
	interval_make(&iv, &a, &a);
	check_near(iv.iv_in_rate, 0);
	ck_assert(!iv.iv_striped);
}
END_TEST

static char *text_of(bool json)
{
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	if (json)
		interval_print_json(&iv, 12.5, out);
	else
		interval_print(&iv, out);
	fclose(out);
	return text;
}

START_TEST(a_line_and_a_line_of_json)
{
	char *text, *header = NULL;
	size_t size;
	FILE *out = open_memstream(&header, &size);

	parse();
	interval_make(&iv, &a, &b);
	text = text_of(false);
	ck_assert_str_eq(text, "     1.0       2.0      2.0      4      2.0      1.0      10  100.0"
			       "    2.5    2.0    2.0     4.2       3   75\n");
	interval_print_header(out);
	fclose(out);
	/* Both lines of the header are as long as what stands below. */
	ck_assert_uint_eq(strcspn(header, "\n"), strlen(text) - 1);
	ck_assert_uint_eq(size, 2 * strlen(text));
	free(header);
	free(text);
	text = text_of(true);
	ck_assert_str_eq(text, "{\"time\": 12.500, \"seconds\": 2.000, \"dirty_bytes\": 1048576, "
			       "\"writeback_bytes\": 2097152, \"reserved_bytes\": 2097152, "
			       "\"cache_used_bytes\": 4194304, \"in_bytes_per_s\": 2000000, "
			       "\"device_bytes_per_s\": 1000000, \"requests_per_s\": 10.0, "
			       "\"request_mean_bytes\": 102400, \"fsyncs_per_s\": 2.5, "
			       "\"commits_per_s\": 2.00, \"commit_mean_ms\": 2.000, "
			       "\"commit_max_ms\": 4.194, \"parked\": 3, "
			       "\"full_stripe_percent\": 75.0}\n");
	free(text);
}
END_TEST

int main(void)
{
	return RUN_TESTS("fuse/stat", rates_are_over_the_time_between,
			 the_first_interval_is_since_the_mount, a_line_and_a_line_of_json);
}
