/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * test_crc32c.c - known answers, and all ways to compute agree.
 *
 * The vectors are those of RFC 3720 B.4, which inverts before and after.
 * Locking: none.
 */
#include <string.h>

#include "tests/lib/pattern.h"
#include "tests/lib/suite.h"
#include "util/crc32c.h"
#include "util/crc32c_impl.h"

static void check_rfc3720(crc32c_fn *fn)
{
	uint8_t buf[32];

	ck_assert_uint_eq(~fn(~0u, "123456789", 9), 0xe3069283u);
	memset(buf, 0, sizeof(buf));
	ck_assert_uint_eq(~fn(~0u, buf, sizeof(buf)), 0x8a9136aau);
	memset(buf, 0xff, sizeof(buf));
	ck_assert_uint_eq(~fn(~0u, buf, sizeof(buf)), 0x62a8ab43u);
	for (unsigned i = 0; i < sizeof(buf); i++)
		buf[i] = (uint8_t)i;
	ck_assert_uint_eq(~fn(~0u, buf, sizeof(buf)), 0x46dd794eu);
	for (unsigned i = 0; i < sizeof(buf); i++)
		buf[i] = (uint8_t)(31 - i);
	ck_assert_uint_eq(~fn(~0u, buf, sizeof(buf)), 0x113fdb5cu);
}

START_TEST(known_answers)
{
	check_rfc3720(crc32c);
	check_rfc3720(crc32c_table);
	if (crc32c_instruction() != NULL)
		check_rfc3720(crc32c_instruction());
}
END_TEST

START_TEST(seed_goes_in_and_register_comes_out_without_inversion)
{
	ck_assert_uint_eq(crc32c(0x12345678, "", 0), 0x12345678u);
	ck_assert_uint_eq(crc32c(0, "\0\0\0\0", 4), 0u);
}
END_TEST

START_TEST(every_length_and_alignment_agrees_with_bytewise)
{
	uint8_t buf[96];

	pattern_fill(buf, sizeof(buf), 1, 0);
	for (size_t start = 0; start < 9; start++) {
		for (size_t len = 0; len + start <= sizeof(buf); len++) {
			uint32_t slow = 0x1badcafe;

			for (size_t i = 0; i < len; i++)
				slow = crc32c_table(slow, buf + start + i, 1);
			ck_assert_uint_eq(crc32c(0x1badcafe, buf + start, len), slow);
			ck_assert_uint_eq(crc32c_table(0x1badcafe, buf + start, len), slow);
		}
	}
}
END_TEST

START_TEST(chaining_equals_one_call)
{
	uint8_t buf[4096];

	pattern_fill(buf, sizeof(buf), 2, 0);
	ck_assert_uint_eq(crc32c(crc32c(~0u, buf, 1001), buf + 1001, sizeof(buf) - 1001),
			  crc32c(~0u, buf, sizeof(buf)));
}
END_TEST

int main(void)
{
	return RUN_TESTS("util/crc32c", known_answers,
			 seed_goes_in_and_register_comes_out_without_inversion,
			 every_length_and_alignment_agrees_with_bytewise, chaining_equals_one_call);
}
