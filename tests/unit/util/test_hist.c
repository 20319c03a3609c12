/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * test_hist.c - bucket borders, percentiles, printing.
 * Locking: none.
 */
#include <stdlib.h>
#include <string.h>

#include "tests/lib/suite.h"
#include "util/hist.h"

static struct hist h;

START_TEST(values_fall_into_their_power_of_two)
{
	hist_add(&h, 0);
	hist_add(&h, 1);
	hist_add(&h, 2);
	hist_add(&h, 3);
	hist_add(&h, 4);
	hist_add(&h, UINT64_MAX);
	ck_assert_uint_eq(counter_read(&h.h_bucket[0]), 1);
	ck_assert_uint_eq(counter_read(&h.h_bucket[1]), 1);
	ck_assert_uint_eq(counter_read(&h.h_bucket[2]), 2);
	ck_assert_uint_eq(counter_read(&h.h_bucket[3]), 1);
	ck_assert_uint_eq(counter_read(&h.h_bucket[HIST_BUCKETS - 1]), 1);
	ck_assert_uint_eq(hist_count(&h), 6);
	ck_assert(counter_read(&h.h_max) == UINT64_MAX);
}
END_TEST

START_TEST(percentile_is_the_bound_of_its_bucket)
{
	ck_assert_uint_eq(hist_percentile(&h, 99), 0);
	for (int i = 0; i < 99; i++)
		hist_add(&h, 100);
	hist_add(&h, 5000);
	ck_assert_uint_eq(hist_percentile(&h, 50), 127);
	ck_assert_uint_eq(hist_percentile(&h, 99), 127);
	ck_assert_uint_eq(hist_percentile(&h, 100), 8191);
	ck_assert_uint_eq(hist_mean(&h), (99 * 100 + 5000) / 100);
	hist_reset(&h);
	ck_assert_uint_eq(hist_count(&h), 0);
	ck_assert_uint_eq(hist_mean(&h), 0);
}
END_TEST

START_TEST(printed_form)
{
	char *text = NULL;
	size_t size = 0;
	FILE *f = open_memstream(&text, &size);

	ck_assert_ptr_nonnull(f);
	hist_add(&h, 6);
	hist_add(&h, 7);
	hist_print(&h, "size", f);
	fclose(f);
	ck_assert_str_eq(text, "size count 2 mean 6 max 7\n  <= 7 2\n");
	free(text);
}
END_TEST

int main(void)
{
	return RUN_TESTS("util/hist", values_fall_into_their_power_of_two,
			 percentile_is_the_bound_of_its_bucket, printed_form);
}
