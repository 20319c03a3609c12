/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "tests/unit/writeback/wb_fixture.h"

START_TEST(cache_is_a_quarter_of_memory_unless_given)
{
	struct ext4_options opts;
	uint64_t gib = UINT64_C(1) << 30;

	ext4_options_init(&opts);
	ck_assert_uint_eq(wb_cache_bytes(&opts, gib / 2), gib / 8);
	ck_assert_uint_eq(wb_cache_bytes(&opts, 16 * gib), 256 * MIB);
	opts.o_cache_bytes = 123 * MIB;
	ck_assert_uint_eq(wb_cache_bytes(&opts, 2 * gib), 123 * MIB);
}
END_TEST

START_TEST(memory_limit_is_at_most_the_host)
{
	uint64_t ram = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);

	ck_assert_uint_le(wb_usable_ram(), ram);
	ck_assert_uint_gt(wb_usable_ram(), MIB);
}
END_TEST

int main(void)
{
	return RUN_TESTS("writeback/memory", cache_is_a_quarter_of_memory_unless_given,
			 memory_limit_is_at_most_the_host);
}
