/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef UTIL_TRACE_TEXT_H
#define UTIL_TRACE_TEXT_H
/* Events as lines of text, in the form of the kernel's trace_pipe. */

#include <stddef.h>

#include "util/trace_ring.h"

/* Longer lines are cut. */
#define TRACE_LINE_MAX 640u

/* What the table of events says of one. */
struct trace_info {
	const char *ti_name;
	const char *ti_text; /* see util/trace_events.h */
	uint32_t ti_nr;	     /* fields */
};

/* "task-pid [cpu] seconds: event: fields" and a newline. Returns the length, less than size (at least 2). */
size_t trace_format(const struct trace_info *ti, const struct trace_record *rec, char *buf,
		    size_t size);
/* How many fields the text consumes; -1: it has a conversion that does not exist. */
int trace_text_fields(const char *text);

#endif
