/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef UTIL_TRACE_H
#define UTIL_TRACE_H
/*
 * Events: TRACE(name, .field = value, ...) at the place where something happens. Off it costs one load and a predicted branch, and
 * the values are not computed. On, the event goes into a ring that .ext4d/trace reads, to whoever has attached to the USDT
 * probe ext4d:name, or to both.
 *
 * TRACE() takes no lock and never blocks: it may stand anywhere. The values are read where it stands, under the locks held there.
 */

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "util/trace_events.h"

/* One for each event, in the section of USDT semaphores. */
union trace_switch {
	_Atomic uint32_t ts_any; /* [atomic] not 0: on */
	struct {
		uint16_t ts_probes; /* [atomic] attached tracers; changed by the kernel */
		uint16_t ts_ring;   /* [atomic] goes into the ring */
	};
};

/* A field of each kind; all have 8 bytes, so that an event is an array of them. */
#define TRACE_U_(field) uint64_t field;
#define TRACE_D_(field) int64_t field;
#define TRACE_S_(field) uint64_t field;
#define TRACE_EVENT_(name, text, fields)                                                           \
	struct trace_##name {                                                                      \
		fields                                                                             \
	};                                                                                         \
	extern union trace_switch ext4d_##name##_semaphore;
TRACE_EVENTS(TRACE_EVENT_, TRACE_EVENT_, TRACE_U_, TRACE_D_, TRACE_S_)
#undef TRACE_EVENT_

#define TRACE_NONE_(field)
#define TRACE_EVENT_(name, text, fields) TRACE_ID_##name,
enum trace_event {
	TRACE_EVENTS(TRACE_EVENT_, TRACE_EVENT_, TRACE_NONE_, TRACE_NONE_, TRACE_NONE_) TRACE_NR
};
#undef TRACE_EVENT_

/* The value of an S field. */
static inline uint64_t trace_string(const char *static_string)
{
	return (uintptr_t)static_string;
}

static inline bool trace_is_on(const union trace_switch *ts)
{
	return __builtin_expect(atomic_load_explicit(&ts->ts_any, memory_order_relaxed) != 0, 0);
}

/* fields: the event's struct. */
void trace_emit(enum trace_event event, const void *fields);

#ifdef EXT4D_NO_STATS
#define TRACE_ON(name) false
#else
/* Is anybody interested: for values that take more than an expression. */
#define TRACE_ON(name) trace_is_on(&ext4d_##name##_semaphore)
#endif

#define TRACE(name, ...)                                                                           \
	do {                                                                                       \
		if (TRACE_ON(name))                                                                \
			trace_emit(TRACE_ID_##name, &(const struct trace_##name){__VA_ARGS__});    \
	} while (0)

/* ---- Control ---- */

/*
 * Which events go into the ring: "all", "none" or "", or names separated by commas, colons or spaces. 0; -EINVAL for an unknown name, then
 * nothing has changed; -ENOMEM.
 */
int trace_set_events(const char *list);
/* The same as text, without a newline. */
void trace_print_events(FILE *out);
/* Does anything go into the ring? */
bool trace_ring_on(void);
const char *trace_event_name(enum trace_event event);

/*
 * Take the oldest events as lines of text, as much as fits; a line that does not fit is continued by the next call. Returns the bytes, 0: there is
 * nothing. Concurrent readers share the events between them. What was overwritten before it was read shows as a line "[LOST n EVENTS]".
 */
size_t trace_read(char *buf, size_t size);
/* Events put into the ring, and those that were overwritten or dropped unread. */
uint64_t trace_nr_events(void);
uint64_t trace_nr_lost(void);

#endif
