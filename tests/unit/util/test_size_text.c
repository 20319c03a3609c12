/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * test_size_text.c - sizes as people write them.
 * Locking: none.
 */
#include <errno.h>
#include <string.h>

#include "tests/lib/suite.h"
#include "util/size_text.h"

static int parse(const char *text, uint64_t *bytes)
{
	return size_from_text(text, strlen(text), bytes);
}

START_TEST(numbers_and_powers_of_1024)
{
	static const struct {
		const char *text;
		uint64_t bytes;
	} good[] = {
		{"0", 0},
		{"4096", 4096},
		{"1k", 1024},
		{"600M", UINT64_C(600) << 20},
		{"3g", UINT64_C(3) << 30},
		{"2T", UINT64_C(2) << 40},
		{"010", 10},
		{"18446744073709551615", UINT64_MAX},
		{"16777215T", UINT64_C(16777215) << 40},
	};

	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		uint64_t bytes = 1;

		ck_assert_int_eq(parse(good[i].text, &bytes), 0);
		ck_assert_uint_eq(bytes, good[i].bytes);
	}
}
END_TEST

START_TEST(anything_else_is_refused)
{
	static const char *const bad[] = {"",	      "k",    "-1",  "+1",
					  " 1",	      "1 ",   "1kb", "1x",
					  "1.5M",     "0x10", "1km", "18446744073709551616",
					  "16777216T"};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		uint64_t bytes = 77;

		ck_assert_int_eq(parse(bad[i], &bytes), -EINVAL);
		ck_assert_uint_eq(bytes, 77);
	}
	/* Only as much as is asked for. */
	ck_assert_int_eq(size_from_text("12M\n", 3, &(uint64_t){0}), 0);
	ck_assert_int_eq(size_from_text("12M\n", 4, &(uint64_t){0}), -EINVAL);
}
END_TEST

int main(void)
{
	return RUN_TESTS("util/size_text", numbers_and_powers_of_1024, anything_else_is_refused);
}
