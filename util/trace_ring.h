/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef UTIL_TRACE_RING_H
#define UTIL_TRACE_RING_H
/* The ring that holds events until somebody reads them: any number of writers, one reader at a time, no lock. */

#include <stdint.h>

#define TRACE_FIELDS_MAX 24u
#define TRACE_COMM_BYTES 16u

struct trace_record {
	uint64_t tr_ns; /* CLOCK_MONOTONIC */
	uint32_t tr_tid;
	uint16_t tr_event;
	uint16_t tr_cpu;
	char tr_comm[TRACE_COMM_BYTES]; /* of the thread; ends with 0 */
	uint32_t tr_nr;			/* fields */
	uint64_t tr_field[TRACE_FIELDS_MAX];
};

struct trace_ring;

/* 1 << order records. NULL: no memory. */
struct trace_ring *trace_ring_create(unsigned order);
void trace_ring_destroy(struct trace_ring *ring);
/* Add a record over the oldest one. Any thread, under any lock; never blocks. */
void trace_ring_put(struct trace_ring *ring, const struct trace_record *rec);
/*
 * Take the oldest record. 1; 0: there is none, or its writer is not finished. *lost grows by the records that were overwritten
 * before this one. One caller at a time.
 */
int trace_ring_get(struct trace_ring *ring, struct trace_record *rec, uint64_t *lost);
/* Records put so far. */
uint64_t trace_ring_count(const struct trace_ring *ring);

#endif
