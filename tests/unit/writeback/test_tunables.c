/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "tests/unit/writeback/wb_fixture.h"

static struct wb_domain wb;
static struct super_block sb = {.s_wb = &wb};

static void expect(const char *name, const char *value)
{
	char buf[64];

	ck_assert_int_eq(wb_tunable_get(&sb, name, buf, sizeof(buf)), 0);
	ck_assert_str_eq(buf, value);
}

START_TEST(defaults_are_the_new_behaviour)
{
	tunables_init(&wb);
	expect("writepages_budget", "before_add");
	expect("premap_pass", "on");
	expect("sync_passes", "async_then_wait");
	expect("sync_inode_commit", "end");
	expect("balance_order", "bdi_first");
	expect("throttle", "ioless");
	expect("write_bump", "x8");
	expect("max_writeback_mb_bump", "128");
	expect("writeback_chunk", "bandwidth");
	expect("dirty_ratio", "20");
	expect("dirty_background_ratio", "10");
	expect("dirty_expire_centisecs", "3000");
	expect("dirty_writeback_centisecs", "500");
	expect("dirtytime_expire_seconds", "43200");
}
END_TEST

START_TEST(every_value_can_be_set_and_read_back)
{
	static const char *const values[][2] = {
		{"writepages_budget", "after_add"},
		{"premap_pass", "off"},
		{"sync_passes", "wait_only"},
		{"sync_inode_commit", "each"},
		{"balance_order", "global_first"},
		{"throttle", "2009"},
		{"write_bump", "contig"},
		{"write_bump", "x16"},
		{"write_bump", "x1"},
		{"writeback_chunk", "1024"},
		{"max_writeback_mb_bump", "1"},
		{"read_ahead_kb", "0"},
		{"dirty_bytes", "12345678"},
		{"dirty_background_bytes", "4096"},
	};

	tunables_init(&wb);
	for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
		char line[64];

		/* As echo writes it. */
		snprintf(line, sizeof(line), " %s\n", values[i][1]);
		ck_assert_int_eq(wb_tunable_set(&sb, values[i][0], line), 0);
		expect(values[i][0], values[i][1]);
	}
}
END_TEST

START_TEST(bad_value_changes_nothing)
{
	static const char *const bad[][2] = {
		{"writepages_budget", ""},
		{"writepages_budget", "before"},
		{"premap_pass", "ON"},
		{"premap_pass", "on off"},
		{"write_bump", "x2"},
		{"dirty_ratio", "101"},
		{"dirty_ratio", "-1"},
		{"dirty_ratio", "5%"},
		{"max_writeback_mb_bump", "0"},
		{"dirty_bytes", "99999999999999999999999"},
		{"dirty_ratio", ""},
		{"dirty_ratio", "0x10"},
	};
	char before[TUN_NR][64], after[64];
	const char *const *names = wb_tunable_names();

	tunables_init(&wb);
	for (unsigned i = 0; names[i] != NULL; i++)
		ck_assert_int_eq(wb_tunable_get(&sb, names[i], before[i], 64), 0);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		ck_assert_int_eq(wb_tunable_set(&sb, bad[i][0], bad[i][1]), -EINVAL);
	for (unsigned i = 0; names[i] != NULL; i++) {
		ck_assert_int_eq(wb_tunable_get(&sb, names[i], after, 64), 0);
		ck_assert_str_eq(after, before[i]);
	}
	ck_assert_int_eq(wb_tunable_set(&sb, "no_such_thing", "1"), -ENOENT);
	ck_assert_int_eq(wb_tunable_get(&sb, "no_such_thing", after, 64), -ENOENT);
}
END_TEST

START_TEST(ratio_turns_bytes_off)
{
	tunables_init(&wb);
	ck_assert_int_eq(wb_tunable_set(&sb, "dirty_bytes", "8192"), 0);
	ck_assert_int_eq(wb_tunable_set(&sb, "dirty_ratio", "30"), 0);
	expect("dirty_bytes", "0");
}
END_TEST

START_TEST(sizes_have_units)
{
	tunables_init(&wb);
	ck_assert_int_eq(wb_tunable_set(&sb, "dirty_bytes", "600M"), 0);
	expect("dirty_bytes", "629145600");
	ck_assert_int_eq(wb_tunable_set(&sb, "dirty_background_bytes", " 2g\n"), 0);
	expect("dirty_background_bytes", "2147483648");
	ck_assert_int_eq(wb_tunable_set(&sb, "dirty_bytes", "600MB"), -EINVAL);
	ck_assert_int_eq(wb_tunable_set(&sb, "dirty_ratio", "1k"), -EINVAL);
	expect("dirty_bytes", "629145600");
}
END_TEST

int main(void)
{
	return RUN_TESTS("writeback/tunables", defaults_are_the_new_behaviour,
			 every_value_can_be_set_and_read_back, bad_value_changes_nothing,
			 ratio_turns_bytes_off, sizes_have_units);
}
