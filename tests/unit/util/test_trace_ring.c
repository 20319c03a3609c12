/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * test_trace_ring.c - the ring of events: order, laps, many writers with a reader beside them.
 * Locking: none.
 */
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/suite.h"
#include "util/trace_ring.h"

#define ORDER 4u
#define SIZE (1u << ORDER)
#define WRITERS 4u
#define EACH 20000u

static struct trace_record make(uint32_t tid, uint64_t n)
{
	struct trace_record rec = {
		.tr_ns = n, .tr_tid = tid, .tr_event = (uint16_t)(n % 7), .tr_cpu = 3, .tr_nr = 24};

	memcpy(rec.tr_comm, "writer", sizeof("writer"));
	for (unsigned i = 0; i < rec.tr_nr; i++)
		rec.tr_field[i] = (uint64_t)tid << 32 ^ n;
	return rec;
}

static void check_whole(const struct trace_record *rec)
{
	struct trace_record want = make(rec->tr_tid, rec->tr_ns);

	ck_assert_uint_eq(rec->tr_event, want.tr_event);
	ck_assert_uint_eq(rec->tr_cpu, 3);
	ck_assert_uint_eq(rec->tr_nr, 24);
	ck_assert_str_eq(rec->tr_comm, "writer");
	ck_assert_mem_eq(rec->tr_field, want.tr_field, sizeof(want.tr_field));
}

START_TEST(records_come_back_in_order)
{
	struct trace_ring *ring = trace_ring_create(ORDER);
	struct trace_record rec;
	uint64_t lost = 0;

	ck_assert_int_eq(trace_ring_get(ring, &rec, &lost), 0);
	for (uint64_t n = 0; n < 100; n++) {
		rec = make(7, n);
		trace_ring_put(ring, &rec);
		memset(&rec, 0, sizeof(rec));
		ck_assert_int_eq(trace_ring_get(ring, &rec, &lost), 1);
		ck_assert_uint_eq(rec.tr_ns, n);
		ck_assert_uint_eq(rec.tr_tid, 7);
		check_whole(&rec);
		ck_assert_int_eq(trace_ring_get(ring, &rec, &lost), 0);
	}
	ck_assert_uint_eq(lost, 0);
	ck_assert_uint_eq(trace_ring_count(ring), 100);
	trace_ring_destroy(ring);
}
END_TEST

START_TEST(a_full_ring_loses_the_oldest_and_says_how_many)
{
	struct trace_ring *ring = trace_ring_create(ORDER);
	struct trace_record rec;
	uint64_t lost = 0;

	for (uint64_t n = 0; n < 3 * SIZE + 5; n++) {
		rec = make(1, n);
		trace_ring_put(ring, &rec);
	}
	for (uint64_t n = 2 * SIZE + 5; n < 3 * SIZE + 5; n++) {
		ck_assert_int_eq(trace_ring_get(ring, &rec, &lost), 1);
		ck_assert_uint_eq(rec.tr_ns, n);
		ck_assert_uint_eq(lost, 2 * SIZE + 5);
	}
	ck_assert_int_eq(trace_ring_get(ring, &rec, &lost), 0);
	trace_ring_destroy(ring);
}
END_TEST

struct writer {
	struct trace_ring *w_ring;
	uint32_t w_tid;
	_Atomic unsigned *w_running;
};

static void *write_many(void *arg)
{
	struct writer *w = arg;

	for (uint64_t n = 1; n <= EACH; n++) {
		struct trace_record rec = make(w->w_tid, n);

		trace_ring_put(w->w_ring, &rec);
	}
	(*w->w_running)--;
	return NULL;
}

/* Each record is whole, those of one writer come in order, and every one is either read or counted as lost. */
START_TEST(writers_beside_a_reader)
{
	struct trace_ring *ring = trace_ring_create(ORDER + 3);
	_Atomic unsigned running = WRITERS;
	struct writer w[WRITERS];
	pthread_t thread[WRITERS];
	uint64_t last[WRITERS] = {0}, lost = 0, got = 0;
	struct trace_record rec;
	unsigned quiet = 0;

	for (uint32_t i = 0; i < WRITERS; i++) {
		w[i] = (struct writer){ring, i, &running};
		ck_assert_int_eq(pthread_create(&thread[i], NULL, write_many, &w[i]), 0);
	}
	/* Positions that were given up are passed over after a few looks. */
	while (quiet < 16) {
		bool ended = running == 0;

		if (trace_ring_get(ring, &rec, &lost) == 0) {
			quiet = ended ? quiet + 1 : 0;
			continue;
		}
		quiet = 0;
		got++;
		ck_assert_uint_lt(rec.tr_tid, WRITERS);
		ck_assert_uint_gt(rec.tr_ns, last[rec.tr_tid]);
		last[rec.tr_tid] = rec.tr_ns;
		check_whole(&rec);
	}
	for (unsigned i = 0; i < WRITERS; i++)
		pthread_join(thread[i], NULL);
	ck_assert_uint_eq(got + lost, (uint64_t)WRITERS * EACH);
	ck_assert_uint_eq(trace_ring_count(ring), (uint64_t)WRITERS * EACH);
	ck_assert_uint_gt(got, 0);
	trace_ring_destroy(ring);
}
END_TEST

int main(void)
{
	return RUN_TESTS("util/trace_ring", records_come_back_in_order,
			 a_full_ring_loses_the_oldest_and_says_how_many, writers_beside_a_reader);
}
