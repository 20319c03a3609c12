/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * test_cpus.c - lists of CPUs: what they mean, what is none, and which CPUs can be used.
 * Locking: none.
 */
#include <errno.h>
#include <stdlib.h>

#include "fuse/cpus.h"
#include "tests/lib/suite.h"

static cpu_set_t set;

static void check_text(const char *in, const char *want)
{
	char *text = NULL;
	size_t len;
	FILE *out = open_memstream(&text, &len);

	ck_assert_int_eq(cpus_parse(in, &set), 0);
	cpus_print(&set, out);
	fclose(out);
	ck_assert_str_eq(text, want);
	free(text);
}

START_TEST(a_list_means_its_numbers)
{
	check_text("0", "0");
	check_text("3:1:2:1", "1-3");
	check_text("0-3:8", "0-3:8");
	ck_assert_int_eq(CPU_COUNT(&set), 5);
	check_text("7-7:9", "7:9");
	check_text("1020-1023", "1020-1023");
}
END_TEST

START_TEST(what_is_no_list_is_refused)
{
	static const char *const bad[] = {"",
					  ":",
					  "1:",
					  ":1",
					  "1-",
					  "-1",
					  "2-1",
					  "a",
					  "1a",
					  "1 ",
					  "+1",
					  "1--2",
					  "1::2",
					  "0-1024",
					  "1024",
					  "1-2-3",
					  "1,2",
					  "0x1",
					  "99999999999999999999"};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		ck_assert_msg(cpus_parse(bad[i], &set) == -EINVAL, "'%s'", bad[i]);
}
END_TEST

START_TEST(the_nth_goes_round)
{
	ck_assert_int_eq(cpus_parse("2:5-6", &set), 0);
	ck_assert_uint_eq(cpus_nth(&set, 0), 2);
	ck_assert_uint_eq(cpus_nth(&set, 2), 6);
	ck_assert_uint_eq(cpus_nth(&set, 3), 2);
	ck_assert_uint_eq(cpus_nth(&set, 64), 5);
}
END_TEST

/* What this thread was bound to before is what it is bound to afterwards. */
START_TEST(trying_changes_nothing)
{
	cpu_set_t before, after, one;
	unsigned cpu;

	ck_assert_int_eq(sched_getaffinity(0, sizeof(before), &before), 0);
	cpu = cpus_nth(&before, 0);
	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	ck_assert_int_eq(cpus_first_forbidden(&one), -1);
	ck_assert_int_eq(cpus_first_forbidden(&before), -1);
	CPU_SET(CPU_SETSIZE - 1, &one);
	ck_assert_int_eq(cpus_first_forbidden(&one), CPU_SETSIZE - 1);
	CPU_CLR(cpu, &one);
	ck_assert_int_eq(cpus_first_forbidden(&one), CPU_SETSIZE - 1);
	ck_assert_int_eq(sched_getaffinity(0, sizeof(after), &after), 0);
	ck_assert(CPU_EQUAL(&before, &after));
}
END_TEST

int main(void)
{
	return RUN_TESTS("fuse/cpus", a_list_means_its_numbers, what_is_no_list_is_refused,
			 the_nth_goes_round, trying_changes_nothing);
}
