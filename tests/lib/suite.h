/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef TESTS_LIB_SUITE_H
#define TESTS_LIB_SUITE_H
/* The main() of a unit test: `return RUN_TESTS("block/mem", test_a, test_b);` */

#include <check.h>
#include <stddef.h>

/* An empty case with a limit against hanging that a busy machine does not reach. */
TCase *testlib_case(const char *name);
/* Run a suite and free it. Returns the exit code for main(). */
int testlib_run_suite(Suite *s);
/* The same for n tests, each a case of its own. */
int testlib_run_tests(const char *suite, const TTest *const *tests, size_t n);

#define RUN_TESTS(suite, ...)                                                                      \
	testlib_run_tests(suite, (const TTest *const[]){__VA_ARGS__},                              \
			  sizeof((const TTest *const[]){__VA_ARGS__}) / sizeof(const TTest *))

#endif
