/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * trace_ring.c - a ring of records that many threads write and one reads, without locks.
 *
 * A writer takes a position from a counter and owns the slot at that position modulo the size. A sequence
 * number in the slot says what it holds: 2p + 1 while position p is being written, 2p + 2 when it is complete. The next owner,
 * one lap later, takes the slot over only if it is complete; if its last writer is still at work a whole lap later
 * (it was preempted), the new record is dropped. So a slot has one writer at a time, and a record is never torn.
 *
 * The reader copies a record and looks whether the number is still the same. A position whose record was dropped stays
 * incomplete: the reader passes over it when it has found it so several times.
 *
 * Invariants: (1) the number of a slot only grows. (2) Words of a slot are written between its odd and its even
 * number only. (3) tg_next <= tg_head.
 * Locking: none; words are atomic, tg_next belongs to the reader.
 */
#include "util/trace_ring.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "util/assert.h"

#define HEAD_WORDS 5u
#define SLOT_WORDS (HEAD_WORDS + TRACE_FIELDS_MAX)
/* Looks at an incomplete position before it is passed over. */
#define PATIENCE 4u

struct slot {
	_Atomic uint64_t sl_seq;
	_Atomic uint64_t sl_word[SLOT_WORDS];
};

struct trace_ring {
	_Atomic uint64_t tg_head; /* [atomic] the next position to write */
	uint64_t tg_mask;	  /* [const after init] */
	uint64_t tg_next;	  /* [reader] the next position to read */
	unsigned tg_looks;	  /* [reader] how often that was found incomplete */
	struct slot tg_slot[];
};

struct trace_ring *trace_ring_create(unsigned order)
{
	size_t n = (size_t)1 << order;
	struct trace_ring *ring = calloc(1, sizeof(*ring) + n * sizeof(ring->tg_slot[0]));

	if (ring != NULL)
		ring->tg_mask = n - 1;
	return ring;
}

void trace_ring_destroy(struct trace_ring *ring)
{
	free(ring);
}

uint64_t trace_ring_count(const struct trace_ring *ring)
{
	return atomic_load_explicit(&ring->tg_head, memory_order_relaxed);
}

/* ---- Writing ---- */

static void pack(const struct trace_record *rec, uint64_t *word)
{
	word[0] = rec->tr_ns;
	word[1] = (uint64_t)rec->tr_tid << 32 | (uint64_t)rec->tr_event << 16 | rec->tr_cpu;
	memcpy(&word[2], rec->tr_comm, TRACE_COMM_BYTES);
	word[4] = rec->tr_nr;
	memcpy(&word[HEAD_WORDS], rec->tr_field, rec->tr_nr * sizeof(uint64_t));
}

static void unpack(const uint64_t *word, struct trace_record *rec)
{
	rec->tr_ns = word[0];
	rec->tr_tid = (uint32_t)(word[1] >> 32);
	rec->tr_event = (uint16_t)(word[1] >> 16);
	rec->tr_cpu = (uint16_t)word[1];
	memcpy(rec->tr_comm, &word[2], TRACE_COMM_BYTES);
	rec->tr_nr = (uint32_t)word[4];
	memcpy(rec->tr_field, &word[HEAD_WORDS], sizeof(rec->tr_field));
}

void trace_ring_put(struct trace_ring *ring, const struct trace_record *rec)
{
	uint64_t pos = atomic_fetch_add_explicit(&ring->tg_head, 1, memory_order_relaxed);
	struct slot *slot = &ring->tg_slot[pos & ring->tg_mask];
	uint64_t seq = atomic_load_explicit(&slot->sl_seq, memory_order_relaxed);
	uint64_t word[SLOT_WORDS];

	ASSERT_CMP(rec->tr_nr, <=, TRACE_FIELDS_MAX);
	/* Its last writer is a lap behind, or this thread was, and a later one has the slot. */
	if ((seq & 1) != 0 || seq > 2 * pos ||
	    !atomic_compare_exchange_strong_explicit(&slot->sl_seq, &seq, 2 * pos + 1,
						     memory_order_acquire, memory_order_relaxed))
		return;
	pack(rec, word);
	/* Pairs with the acquire loads in copy(): who sees a new word sees the odd number too. */
	for (unsigned i = 0; i < HEAD_WORDS + rec->tr_nr; i++)
		atomic_store_explicit(&slot->sl_word[i], word[i], memory_order_release);
	/* Pairs with the first load in copy(). */
	atomic_store_explicit(&slot->sl_seq, 2 * pos + 2, memory_order_release);
}

/* ---- Reading ---- */

enum found { FOUND, INCOMPLETE, OVERWRITTEN };

static enum found copy(struct trace_ring *ring, uint64_t pos, struct trace_record *rec)
{
	struct slot *slot = &ring->tg_slot[pos & ring->tg_mask];
	uint64_t want = 2 * pos + 2;
	uint64_t seq = atomic_load_explicit(&slot->sl_seq, memory_order_acquire);
	uint64_t word[SLOT_WORDS];

	if (seq != want)
		return seq < want ? INCOMPLETE : OVERWRITTEN;
	for (unsigned i = 0; i < SLOT_WORDS; i++)
		word[i] = atomic_load_explicit(&slot->sl_word[i], memory_order_acquire);
	if (atomic_load_explicit(&slot->sl_seq, memory_order_relaxed) != want)
		return OVERWRITTEN;
	unpack(word, rec);
	return FOUND;
}

int trace_ring_get(struct trace_ring *ring, struct trace_record *rec, uint64_t *lost)
{
	uint64_t size = ring->tg_mask + 1;

	for (;;) {
		uint64_t head = trace_ring_count(ring);
		enum found found;

		if (head - ring->tg_next > size) {
			*lost += head - size - ring->tg_next;
			ring->tg_next = head - size;
			ring->tg_looks = 0;
		}
		if (ring->tg_next == head)
			return 0;
		found = copy(ring, ring->tg_next, rec);
		if (found == INCOMPLETE && ++ring->tg_looks < PATIENCE)
			return 0;
		ring->tg_looks = 0;
		ring->tg_next++;
		if (found == FOUND)
			return 1;
		(*lost)++;
	}
}
