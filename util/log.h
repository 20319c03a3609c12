/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef UTIL_LOG_H
#define UTIL_LOG_H
/* Messages for the user: stderr in the foreground, syslog in the background. Thread-safe, one line each. */

#include <stdbool.h>
#include <stdio.h>

enum log_level { LOG_LEVEL_ERR, LOG_LEVEL_WARN, LOG_LEVEL_INFO, LOG_LEVEL_DEBUG };

/* Where messages go. A sink may be called from any thread; `line` has no newline. */
typedef void (*log_sink_fn)(enum log_level level, const char *line, void *arg);

/* Send messages to `sink` (NULL: stderr, prefixed "ext4d: "). Others may log meanwhile. */
void log_set_sink(log_sink_fn sink, void *arg);
/* Ready-made sink for the background: syslog(3), facility daemon. */
void log_sink_syslog(enum log_level level, const char *line, void *arg);
/* Messages above this level are dropped; default LOG_LEVEL_INFO. */
void log_set_level(enum log_level level);
bool log_enabled(enum log_level level);

__attribute__((format(printf, 2, 3))) void log_msg(enum log_level level, const char *fmt, ...);

#define log_err(...) log_msg(LOG_LEVEL_ERR, __VA_ARGS__)
#define log_warn(...) log_msg(LOG_LEVEL_WARN, __VA_ARGS__)
#define log_info(...) log_msg(LOG_LEVEL_INFO, __VA_ARGS__)
#define log_debug(...)                                                                             \
	do {                                                                                       \
		if (log_enabled(LOG_LEVEL_DEBUG))                                                  \
			log_msg(LOG_LEVEL_DEBUG, __VA_ARGS__);                                     \
	} while (0)

#endif
