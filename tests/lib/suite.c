/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * suite.c - one suite, one exit code: what every unit test program is.
 *
 * Invariants: (1) the exit code is 0 only if each test ran and passed. (2) No temporary file is left, also of tests that
 * aborted or crashed.
 * Locking: none.
 */
#include "tests/lib/suite.h"

#include <stdlib.h>

#include "tests/lib/testlib.h"

#define TEST_TIMEOUT_S 600 /* against hanging, not to measure: the machine may be busy */

/* EXT4D_TEST_TIMEOUT_S: shorter, where a planted fault is expected to make a test hang. */
static double timeout_s(void)
{
	const char *text = getenv("EXT4D_TEST_TIMEOUT_S");

	return text != NULL ? strtod(text, NULL) : TEST_TIMEOUT_S;
}

TCase *testlib_case(const char *name)
{
	TCase *tc = tcase_create(name);

	tcase_set_timeout(tc, timeout_s());
	return tc;
}

int testlib_run_suite(Suite *s)
{
	SRunner *runner = srunner_create(s);
	int failed;

	testlib_own_tempfiles();
	srunner_run_all(runner, CK_ENV);
	testlib_remove_tempfiles();
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

int testlib_run_tests(const char *suite, const TTest *const *tests, size_t n)
{
	Suite *s = suite_create(suite);

	/* A case for each test, so that CK_RUN_CASE=NAME runs one. */
	for (size_t i = 0; i < n; i++) {
		TCase *tc = testlib_case(tests[i]->name);

		tcase_add_test(tc, tests[i]);
		suite_add_tcase(s, tc);
	}
	return testlib_run_suite(s);
}
