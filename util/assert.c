/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * assert.c - the end of the road for programmer errors.
 *
 * The message goes out through the log, so that a daemon in the background leaves it in syslog,
 * and the process aborts: a core dump shows the state that the assertion saw.
 *
 * Invariants: (1) assert_failed() does not return. (2) An assertion that fails inside the log sink
 * still aborts: the second entry of a thread skips the log.
 * Locking: none.
 */
#include "util/assert.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "util/log.h"

#define ASSERT_TEXT_BYTES 512

static __thread bool asserting;

void assert_failed(const char *file, int line, const char *func, const char *fmt, ...)
{
	char text[ASSERT_TEXT_BYTES];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (!asserting) {
		asserting = true;
		log_err("%s:%d: %s: assertion failed: %s", file, line, func, text);
	}
	abort();
}
