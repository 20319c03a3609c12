/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * log.c - messages for the user, one line each.
 *
 * A message is formatted on the stack and handed to the sink in one call, so lines of different
 * threads never mix. Longer messages are cut. Control characters (a file name in a message may
 * hold them) are shown as '?', so that one message stays one line.
 *
 * Invariants: (1) a line holds no newline. (2) errno is the same after as before.
 * Locking: none; the sink and the level are atomic.
 */
#include "util/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <syslog.h>

#define LOG_LINE_BYTES 1024

static _Atomic int log_max_level = LOG_LEVEL_INFO; /* [atomic] */
static _Atomic(log_sink_fn) log_sink;		   /* [atomic] */
static void *_Atomic log_sink_arg;		   /* [atomic] set before log_sink */

static void sink_stderr(enum log_level level, const char *line)
{
	static const char *const prefix[] = {"error: ", "warning: ", "", "debug: "};

	fprintf(stderr, "ext4d: %s%s\n", prefix[level], line);
}

static void make_one_line(char *text)
{
	for (; *text != '\0'; text++) {
		unsigned char c = (unsigned char)*text;

		if (c < 0x20 || c == 0x7f)
			*text = '?';
	}
}

void log_set_sink(log_sink_fn sink, void *arg)
{
	atomic_store(&log_sink_arg, arg);
	atomic_store(&log_sink, sink);
}

void log_sink_syslog(enum log_level level, const char *line, void *arg)
{
	static const int priority[] = {LOG_ERR, LOG_WARNING, LOG_INFO, LOG_DEBUG};

	(void)arg;
	syslog(LOG_DAEMON | priority[level], "%s", line);
}

void log_set_level(enum log_level level)
{
	atomic_store_explicit(&log_max_level, (int)level, memory_order_relaxed);
}

bool log_enabled(enum log_level level)
{
	return (int)level <= atomic_load_explicit(&log_max_level, memory_order_relaxed);
}

void log_msg(enum log_level level, const char *fmt, ...)
{
	int saved_errno = errno;
	char line[LOG_LINE_BYTES];
	log_sink_fn sink;
	va_list ap;

	if (!log_enabled(level))
		return;
	va_start(ap, fmt);
	vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	make_one_line(line);
	sink = atomic_load(&log_sink);
	if (sink != NULL)
		sink(level, line, atomic_load(&log_sink_arg));
	else
		sink_stderr(level, line);
	errno = saved_errno;
}
