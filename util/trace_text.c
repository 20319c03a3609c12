/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * trace_text.c - one event as one line.
 *
 * The text of an event is followed from left to right; each conversion takes the next field.
 *
 * Invariants: (1) a line ends with a newline and never leaves the buffer. (2) A field that the record does not have is 0.
 * Locking: none.
 */
#include "util/time.h"
#include "util/trace_text.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define MINOR_BITS 20u
#define MINOR_MASK ((1u << MINOR_BITS) - 1)

struct text {
	char *tx_buf;
	size_t tx_size; /* room, the ending newline and 0 left out */
	size_t tx_len;
};

__attribute__((format(printf, 2, 3))) static void add(struct text *t, const char *fmt, ...)
{
	size_t room = t->tx_size - t->tx_len;
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(t->tx_buf + t->tx_len, room + 1, fmt, ap);
	va_end(ap);
	if (n > 0)
		t->tx_len += (size_t)n < room ? (size_t)n : room;
}

static void add_char(struct text *t, char c)
{
	if (t->tx_len < t->tx_size)
		t->tx_buf[t->tx_len++] = c;
}

static void add_device(struct text *t, uint64_t dev, char between)
{
	add(t, "%u%c%u", (unsigned)(dev >> MINOR_BITS), between, (unsigned)(dev & MINOR_MASK));
}

static void add_string(struct text *t, uint64_t field)
{
	const char *s = (const char *)(uintptr_t)field;

	add(t, "%s", s != NULL ? s : "");
}

static void add_field(struct text *t, char conversion, uint64_t field)
{
	switch (conversion) {
	case 'u':
		add(t, "%" PRIu64, field);
		break;
	case 'd':
		add(t, "%" PRId64, (int64_t)field);
		break;
	case 'o':
		add(t, "%" PRIo64, field);
		break;
	case 'x':
		add(t, "%" PRIx64, field);
		break;
	case 's':
		add_string(t, field);
		break;
	default:
		add_device(t, field, conversion == 'b' ? ':' : ',');
		break;
	}
}

static void add_fields(struct text *t, const char *text, const struct trace_record *rec)
{
	unsigned next = 0;

	for (const char *p = text; *p != '\0'; p++) {
		if (*p != '%' || p[1] == '\0') {
			add_char(t, *p);
			continue;
		}
		p++;
		if (*p == 'C') {
			add(t, "%s", rec->tr_comm);
			continue;
		}
		add_field(t, *p, next < rec->tr_nr ? rec->tr_field[next] : 0);
		next++;
	}
}

size_t trace_format(const struct trace_info *ti, const struct trace_record *rec, char *buf,
		    size_t size)
{
	struct text t = {.tx_buf = buf, .tx_size = size - 2};

	add(&t, "%16s-%-7u [%03u] %5" PRIu64 ".%06" PRIu64 ": %s: ", rec->tr_comm, rec->tr_tid,
	    rec->tr_cpu, rec->tr_ns / NSEC_PER_SEC, rec->tr_ns % NSEC_PER_SEC / 1000, ti->ti_name);
	add_fields(&t, ti->ti_text, rec);
	buf[t.tx_len++] = '\n';
	buf[t.tx_len] = '\0';
	return t.tx_len;
}

int trace_text_fields(const char *text)
{
	int n = 0;

	for (const char *p = text; *p != '\0'; p++) {
		if (*p != '%')
			continue;
		p++;
		if (*p == '\0' || strchr("udoxsvbC", *p) == NULL)
			return -1;
		n += *p != 'C';
	}
	return n;
}
