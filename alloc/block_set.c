/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * block_set.c - sets of blocks for accounts that must come out even.
 *
 * A tree of ranges by their first block. Neighbours are joined, so that a set that is filled in pieces stays small.
 *
 * Invariants: (1) ranges do not overlap nor touch, none is empty.
 * Locking: none; the owner's.
 */
#include "alloc/block_set.h"

#include <stdlib.h>

#include "util/assert.h"
#include "util/order.h"

static int block_range_compare(const struct block_range *a, const struct block_range *b)
{
	return order_u64(a->br_start, b->br_start);
}

RB_GENERATE_INTERNAL(block_set, block_range, br_rb, block_range_compare,
		     static __attribute__((unused)))

static ext4_fsblk_t range_end(const struct block_range *r)
{
	return r->br_start + r->br_len;
}

void block_set_init(struct block_set *set)
{
	RB_INIT(set);
}

struct block_range *block_set_first(struct block_set *set)
{
	return RB_MIN(block_set, set);
}

void block_set_drop(struct block_set *set, struct block_range *r)
{
	RB_REMOVE(block_set, set, r);
	free(r);
}

void block_set_clear(struct block_set *set)
{
	struct block_range *r;

	while ((r = block_set_first(set)) != NULL)
		block_set_drop(set, r);
}

/* The first range that ends behind `start`; NULL: none. */
static struct block_range *first_behind(struct block_set *set, ext4_fsblk_t start)
{
	struct block_range key = {.br_start = start};
	struct block_range *r = RB_NFIND(block_set, set, &key);
	struct block_range *prev = r != NULL ? RB_PREV(block_set, set, r) : RB_MAX(block_set, set);

	return prev != NULL && range_end(prev) > start ? prev : r;
}

static int insert(struct block_set *set, ext4_fsblk_t start, uint64_t len)
{
	struct block_range *r = malloc(sizeof(*r));
	struct block_range *old;

	if (r == NULL)
		return -ENOMEM;
	r->br_start = start;
	r->br_len = len;
	old = RB_INSERT(block_set, set, r);
	ASSERT(old == NULL);
	return 0;
}

int block_set_add(struct block_set *set, ext4_fsblk_t start, uint64_t len)
{
	struct block_range *next = first_behind(set, start);
	struct block_range *prev;

	ASSERT_CMP(len, >, 0u);
	if (next != NULL && next->br_start < start + len)
		return -EEXIST;
	prev = next != NULL ? RB_PREV(block_set, set, next) : RB_MAX(block_set, set);
	if (prev == NULL || range_end(prev) != start) {
		if (next == NULL || next->br_start != start + len)
			return insert(set, start, len);
		/* Its place in the order stays. */
		next->br_start = start;
		next->br_len += len;
		return 0;
	}
	prev->br_len += len;
	if (next != NULL && next->br_start == range_end(prev)) {
		prev->br_len += next->br_len;
		block_set_drop(set, next);
	}
	return 0;
}

/* [start, end) of r leaves the set. */
static int cut(struct block_set *set, struct block_range *r, ext4_fsblk_t start, ext4_fsblk_t end)
{
	const ext4_fsblk_t old_end = range_end(r);
	int err = 0;

	if (r->br_start < start && end < old_end)
		err = insert(set, end, old_end - end);
	if (err != 0)
		return err;
	if (r->br_start < start) {
		r->br_len = start - r->br_start;
	} else if (end < old_end) {
		r->br_start = end;
		r->br_len = old_end - end;
	} else {
		block_set_drop(set, r);
	}
	return 0;
}

int block_set_settle(struct block_set *from, struct block_set *to, ext4_fsblk_t start, uint64_t len)
{
	const ext4_fsblk_t end = start + len;
	int err = 0;

	while (start < end && err == 0) {
		struct block_range *r = first_behind(from, start);
		ext4_fsblk_t stop = end;

		if (r == NULL || r->br_start > start) {
			if (r != NULL && r->br_start < end)
				stop = r->br_start;
			err = block_set_add(to, start, stop - start);
		} else {
			if (range_end(r) < end)
				stop = range_end(r);
			err = cut(from, r, start, stop);
		}
		start = stop;
	}
	return err;
}
