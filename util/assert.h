/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef UTIL_ASSERT_H
#define UTIL_ASSERT_H
/*
 * Programmer errors stop the process, in release builds too: a wrong value must not reach the
 * disk. Bad disk data and I/O errors are never asserted on.
 */

#include <stdbool.h>

__attribute__((noreturn, format(printf, 4, 5))) void
assert_failed(const char *file, int line, const char *func, const char *fmt, ...);

#define ASSERT(c)                                                                                  \
	do {                                                                                       \
		if (__builtin_expect(!(c), 0))                                                     \
			assert_failed(__FILE__, __LINE__, __func__, "%s", #c);                     \
	} while (0)

/* Prints both sides; they are evaluated once and compared as long long. */
#define ASSERT_CMP(a, op, b)                                                                       \
	do {                                                                                       \
		__typeof__(a) assert_a_ = (a);                                                     \
		__typeof__(b) assert_b_ = (b);                                                     \
		if (__builtin_expect(!(assert_a_ op assert_b_), 0))                                \
			assert_failed(__FILE__, __LINE__, __func__, "%s %s %s (%lld, %lld)", #a,   \
				      #op, #b, (long long)assert_a_, (long long)assert_b_);        \
	} while (0)

/* For O(n) checks: only with EXT4D_DEBUG. The expression is always compiled. */
#ifdef EXT4D_DEBUG
#define DEBUG_ASSERT(c) ASSERT(c)
#else
#define DEBUG_ASSERT(c)                                                                            \
	do {                                                                                       \
		if (0)                                                                             \
			ASSERT(c);                                                                 \
	} while (0)
#endif

#endif
