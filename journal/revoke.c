/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * revoke.c - which blocks replay must leave alone.
 *
 * A freed metadata block may be reused for file data, which is not logged: replaying an older copy
 * of the block would destroy the data. The transaction that frees it therefore logs a revoke
 * record: no copy logged in it or before it is replayed. A block that the same transaction logs
 * again cancels its record.
 *
 * Invariants: (1) a transaction never both logs a block and revokes it. (2) In recovery a block's
 * record holds the newest sequence that revokes it.
 * Locking: a transaction's table under j_list_lock; recovery's belongs to its thread.
 */
#include <stdlib.h>
#include <string.h>

#include "journal/journal_int.h"
#include "util/assert.h"
#include "util/err.h"
#include "util/order.h"

static int compare_records(const struct revoke_record *a, const struct revoke_record *b)
{
	return order_u64(a->r_blocknr, b->r_blocknr);
}

RB_PROTOTYPE_INTERNAL(revoke_tree, revoke_record, r_link, compare_records,
		      static __attribute__((unused)))
RB_GENERATE_INTERNAL(revoke_tree, revoke_record, r_link, compare_records,
		     static __attribute__((unused)))

void jbd2_revoke_init(struct revoke_table *rt)
{
	RB_INIT(&rt->rt_tree);
	LIST_INIT(&rt->rt_all);
	atomic_init(&rt->rt_count, 0);
}

static struct revoke_record *find(struct revoke_table *rt, uint64_t blocknr)
{
	struct revoke_record key = {.r_blocknr = blocknr};

	return RB_FIND(revoke_tree, &rt->rt_tree, &key);
}

int jbd2_revoke_insert(struct revoke_table *rt, uint64_t blocknr, tid_t sequence)
{
	struct revoke_record *r = find(rt, blocknr);

	if (r != NULL) {
		if (tid_geq(sequence, r->r_sequence))
			r->r_sequence = sequence;
		return 0;
	}
	r = calloc(1, sizeof(*r));
	if (r == NULL)
		return -ENOMEM;
	r->r_blocknr = blocknr;
	r->r_sequence = sequence;
	LIST_INSERT_HEAD(&rt->rt_all, r, r_all);
	RB_INSERT(revoke_tree, &rt->rt_tree, r);
	atomic_fetch_add_explicit(&rt->rt_count, 1, memory_order_release);
	return 1;
}

bool jbd2_revoke_cancel(struct revoke_table *rt, uint64_t blocknr)
{
	struct revoke_record *r = find(rt, blocknr);

	if (r == NULL)
		return false;
	RB_REMOVE(revoke_tree, &rt->rt_tree, r);
	LIST_REMOVE(r, r_all);
	atomic_fetch_sub_explicit(&rt->rt_count, 1, memory_order_release);
	free(r);
	return true;
}

bool jbd2_revoke_test(struct revoke_table *rt, uint64_t blocknr, tid_t sequence)
{
	const struct revoke_record *r = find(rt, blocknr);

	return r != NULL && tid_geq(r->r_sequence, sequence);
}

void jbd2_revoke_clear(struct revoke_table *rt)
{
	struct revoke_record *r;

	RB_INIT(&rt->rt_tree);
	while ((r = LIST_FIRST(&rt->rt_all)) != NULL) {
		LIST_REMOVE(r, r_all);
		free(r);
	}
	atomic_store_explicit(&rt->rt_count, 0, memory_order_relaxed);
}

struct revoke_record *jbd2_revoke_first(struct revoke_table *rt)
{
	return RB_MIN(revoke_tree, &rt->rt_tree);
}

struct revoke_record *jbd2_revoke_next(struct revoke_record *r)
{
	return RB_NEXT(revoke_tree, NULL, r);
}

unsigned jbd2_revoke_blocks(const journal_t *j, unsigned records)
{
	return (records + j->j_revokes_per_block - 1) / j->j_revokes_per_block;
}

/* Fill one revoke block; returns the first record that found no room. */
static struct revoke_record *fill_block(journal_t *j, tid_t tid, uint8_t *block,
					struct revoke_record *r)
{
	bool wide = jbd2_has_incompat(j, JBD2_FEATURE_INCOMPAT_64BIT);
	uint32_t used = sizeof(struct jbd2_revoke_header_disk);

	memset(block, 0, j->j_block_bytes);
	jbd2_header_write(block, JBD2_REVOKE_BLOCK, tid);
	for (unsigned n = 0; r != NULL && n < j->j_revokes_per_block; n++) {
		if (wide)
			put_be64(block + used, r->r_blocknr);
		else
			put_be32(block + used, (uint32_t)r->r_blocknr);
		used += wide ? 8 : 4;
		r = jbd2_revoke_next(r);
	}
	put_be32(block + offsetof(struct jbd2_revoke_header_disk, r_count), used);
	jbd2_tail_csum_set(j, block);
	return r;
}

void jbd2_revoke_write(journal_t *j, transaction_t *t, struct log_writer *lw)
{
	struct revoke_record *r = jbd2_revoke_first(&t->t_revoke);

	while (r != NULL)
		r = fill_block(j, t->t_tid, jbd2_log_next(lw, 1), r);
	counter_add(&j->j_stats.js_revokes, atomic_load(&t->t_revoke.rt_count));
}
