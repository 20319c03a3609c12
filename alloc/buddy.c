/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * buddy.c - the free space of a block group, by size.
 *
 * The base bitmap has a bit for each free block; runs are found in it a word at a time. Besides it
 * there is a bitmap for each order: a chunk of 2^o blocks that begins at a multiple of 2^o and is
 * free, but not part of a larger such chunk, has its bit there. An allocation of a power of two
 * takes a chunk; the order of the largest chunk tells callers whether looking into the group is
 * worth while. Marking a range costs at most a few chunks for each order.
 *
 * Invariants: (1) each free block lies in exactly one chunk. (2) No two chunks that are each
 * other's buddies have the same order. (3) b_free is the number of bits in b_base, b_fragments the
 * number of runs in it, b_counters[o] the number of bits in b_map[o]. (4) No bit stands for a block
 * at or past b_blocks. (5) A bit of b_any is set iff its word of b_base is not 0: a search for
 * free blocks passes over 64 words without any at once.
 * Locking: none; the group's lock is the owner's business.
 */
#include "alloc/buddy.h"

#include <endian.h>
#include <stdlib.h>
#include <string.h>

#include "util/assert.h"

#define WORD_BITS 64u
#define CHECK_ALWAYS 64u
#define CHECK_EVERY 256u

/* ---- Words ---- */

static bool test_word_bit(const uint64_t *map, uint32_t bit)
{
	return (map[bit / WORD_BITS] >> (bit % WORD_BITS) & 1) != 0;
}

static void set_word_bit(uint64_t *map, uint32_t bit)
{
	map[bit / WORD_BITS] |= UINT64_C(1) << (bit % WORD_BITS);
}

static void clear_word_bit(uint64_t *map, uint32_t bit)
{
	map[bit / WORD_BITS] &= ~(UINT64_C(1) << (bit % WORD_BITS));
}

/* The bits of one word that lie in [start, end), word being the one that holds start. */
static uint64_t word_mask(uint32_t start, uint32_t end)
{
	uint32_t low = start % WORD_BITS;
	uint32_t n = end - start;
	uint64_t mask = ~UINT64_C(0) << low;

	if (n < WORD_BITS - low)
		mask &= (UINT64_C(1) << (low + n)) - 1;
	return mask;
}

static uint32_t next_word(uint32_t pos)
{
	return (pos / WORD_BITS + 1) * WORD_BITS;
}

static void fill_words(uint64_t *map, uint32_t start, uint32_t end, bool set)
{
	for (uint32_t pos = start; pos < end; pos = next_word(pos)) {
		uint64_t mask = word_mask(pos, end);

		if (set)
			map[pos / WORD_BITS] |= mask;
		else
			map[pos / WORD_BITS] &= ~mask;
	}
}

static uint32_t min_u32(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

/* The first bit in [from, end) that is `set`, or end. */
static uint32_t find_word_bit(const uint64_t *map, uint32_t from, uint32_t end, bool set)
{
	for (uint32_t pos = from; pos < end; pos = next_word(pos)) {
		uint64_t word = set ? map[pos / WORD_BITS] : ~map[pos / WORD_BITS];

		word &= ~UINT64_C(0) << (pos % WORD_BITS);
		if (word != 0) {
			uint32_t bit = pos / WORD_BITS * WORD_BITS;

			return min_u32(end, bit + (uint32_t)__builtin_ctzll(word));
		}
	}
	return end;
}

static uint32_t words_of(uint32_t bits)
{
	return (bits + WORD_BITS - 1) / WORD_BITS;
}

/* The words of [start, end) in b_base have changed. */
static void update_any(struct ext4_buddy *b, uint32_t start, uint32_t end)
{
	for (uint32_t w = start / WORD_BITS; w <= (end - 1) / WORD_BITS; w++) {
		if (b->b_base[w] != 0)
			set_word_bit(b->b_any, w);
		else
			clear_word_bit(b->b_any, w);
	}
}

/* The first free block at or after from (< b_blocks), or b_blocks. */
static uint32_t next_free(const struct ext4_buddy *b, uint32_t from)
{
	uint32_t words = words_of(b->b_blocks);
	uint32_t w = from / WORD_BITS;
	uint64_t word = b->b_base[w] & ~UINT64_C(0) << (from % WORD_BITS);

	if (word == 0) {
		w = find_word_bit(b->b_any, w + 1, words, true);
		if (w == words)
			return b->b_blocks;
		word = b->b_base[w];
	}
	return w * WORD_BITS + (uint32_t)__builtin_ctzll(word);
}

/* ---- Chunks ---- */

static void add_chunk(struct ext4_buddy *b, unsigned order, uint32_t index)
{
	set_word_bit(b->b_map[order], index);
	b->b_counters[order]++;
}

static void remove_chunk(struct ext4_buddy *b, unsigned order, uint32_t index)
{
	clear_word_bit(b->b_map[order], index);
	ASSERT_CMP(b->b_counters[order], >, 0u);
	b->b_counters[order]--;
}

/* Add a free chunk and merge it with its buddy as long as that is free. */
static void merge_chunk(struct ext4_buddy *b, unsigned order, uint32_t index)
{
	while (order < EXT4_BUDDY_MAX_ORDER && test_word_bit(b->b_map[order], index ^ 1)) {
		remove_chunk(b, order, index ^ 1);
		index >>= 1;
		order++;
	}
	add_chunk(b, order, index);
}

/* The largest order of a chunk that begins at start and ends within len blocks. */
static unsigned order_at(uint32_t start, uint32_t len)
{
	unsigned by_len = 31 - (unsigned)__builtin_clz(len);
	unsigned by_start = start == 0 ? EXT4_BUDDY_MAX_ORDER : (unsigned)__builtin_ctz(start);

	return by_start < by_len ? by_start : by_len;
}

static void add_chunks(struct ext4_buddy *b, uint32_t start, uint32_t end)
{
	while (start < end) {
		unsigned order = order_at(start, end - start);

		merge_chunk(b, order, start >> order);
		start += UINT32_C(1) << order;
	}
}

/* The order of the chunk that holds the free block pos. */
static unsigned chunk_order(const struct ext4_buddy *b, uint32_t pos)
{
	unsigned order = 0;

	while (order < EXT4_BUDDY_MAX_ORDER && !test_word_bit(b->b_map[order], pos >> order))
		order++;
	ASSERT(test_word_bit(b->b_map[order], pos >> order));
	return order;
}

/* Take the chunks that overlap [start, end) out; what they have outside of it stays free. */
static void cut_chunks(struct ext4_buddy *b, uint32_t start, uint32_t end)
{
	uint32_t pos = start;

	while (pos < end) {
		unsigned order = chunk_order(b, pos);
		uint32_t chunk_start = pos >> order << order;
		uint32_t chunk_end = chunk_start + (UINT32_C(1) << order);

		remove_chunk(b, order, pos >> order);
		if (chunk_start < start)
			add_chunks(b, chunk_start, start);
		if (chunk_end > end)
			add_chunks(b, end, chunk_end);
		pos = chunk_end;
	}
}

/* ---- Life ---- */

struct ext4_buddy *ext4_buddy_new(uint32_t blocks)
{
	uint32_t words = words_of(blocks);
	struct ext4_buddy *b;
	uint64_t *next;

	ASSERT_CMP(blocks, >, 0u);
	ASSERT_CMP(blocks, <=, UINT32_C(1) << EXT4_BUDDY_MAX_ORDER);
	/* One word more for each order, so that the buddy of the last chunk has a bit too. */
	for (unsigned o = 0; o < EXT4_BUDDY_ORDERS; o++)
		words += words_of(blocks >> o) + 1;
	b = calloc(1, sizeof(*b) + words * sizeof(uint64_t));
	if (b == NULL)
		return NULL;
	b->b_blocks = blocks;
	next = b->b_words;
	b->b_base = next;
	next += words_of(blocks);
	for (unsigned o = 0; o < EXT4_BUDDY_ORDERS; o++) {
		b->b_map[o] = next;
		next += words_of(blocks >> o) + 1;
	}
	return b;
}

void ext4_buddy_free(struct ext4_buddy *b)
{
	free(b);
}

void ext4_buddy_load(struct ext4_buddy *b, const uint8_t *bitmap)
{
	uint32_t words = words_of(b->b_blocks);
	struct ext4_free_run run = {0, 0};

	ASSERT_CMP(b->b_free, ==, 0u);
	for (uint32_t i = 0; i < words; i++) {
		size_t left = b->b_blocks / 8 + (b->b_blocks % 8 != 0) - (size_t)i * 8;
		uint64_t le = ~UINT64_C(0);

		memcpy(&le, bitmap + (size_t)i * 8, left < 8 ? left : 8);
		b->b_base[i] = ~le64toh(le);
	}
	if (b->b_blocks % WORD_BITS != 0)
		b->b_base[words - 1] &= (UINT64_C(1) << (b->b_blocks % WORD_BITS)) - 1;
	update_any(b, 0, b->b_blocks);
	for (;;) {
		run = ext4_buddy_next_run(b, run.fr_start + run.fr_len, b->b_blocks);
		if (run.fr_len == 0)
			break;
		add_chunks(b, run.fr_start, run.fr_start + run.fr_len);
		b->b_free += run.fr_len;
		b->b_fragments++;
	}
	DEBUG_ASSERT((ext4_buddy_check(b), true));
}

/* ---- Changes ---- */

static bool neighbour_free(const struct ext4_buddy *b, uint32_t start, uint32_t end, bool right)
{
	if (right)
		return end < b->b_blocks && test_word_bit(b->b_base, end);
	return start > 0 && test_word_bit(b->b_base, start - 1);
}

static void check_sometimes(struct ext4_buddy *b)
{
	b->b_mutations++;
	if (b->b_blocks <= CHECK_ALWAYS || b->b_mutations % CHECK_EVERY == 0)
		DEBUG_ASSERT((ext4_buddy_check(b), true));
}

void ext4_buddy_mark_used(struct ext4_buddy *b, uint32_t start, uint32_t len)
{
	uint32_t end = start + len;
	unsigned neighbours;

	ASSERT_CMP(len, >, 0u);
	ASSERT(ext4_buddy_all_free(b, start, len));
	neighbours = neighbour_free(b, start, end, false) + neighbour_free(b, start, end, true);
	cut_chunks(b, start, end);
	fill_words(b->b_base, start, end, false);
	update_any(b, start, end);
	b->b_free -= len;
	b->b_fragments = b->b_fragments + neighbours - 1;
	check_sometimes(b);
}

void ext4_buddy_mark_free(struct ext4_buddy *b, uint32_t start, uint32_t len)
{
	uint32_t end = start + len;
	unsigned neighbours;

	ASSERT_CMP(len, >, 0u);
	ASSERT(ext4_buddy_all_used(b, start, len));
	neighbours = neighbour_free(b, start, end, false) + neighbour_free(b, start, end, true);
	add_chunks(b, start, end);
	fill_words(b->b_base, start, end, true);
	update_any(b, start, end);
	b->b_free += len;
	b->b_fragments = b->b_fragments + 1 - neighbours;
	check_sometimes(b);
}

/* ---- Questions ---- */

bool ext4_buddy_all_free(const struct ext4_buddy *b, uint32_t start, uint32_t len)
{
	if (start >= b->b_blocks || len > b->b_blocks - start)
		return false;
	return find_word_bit(b->b_base, start, start + len, false) == start + len;
}

bool ext4_buddy_all_used(const struct ext4_buddy *b, uint32_t start, uint32_t len)
{
	if (start >= b->b_blocks || len > b->b_blocks - start)
		return false;
	return find_word_bit(b->b_base, start, start + len, true) == start + len;
}

uint32_t ext4_buddy_run_at(const struct ext4_buddy *b, uint32_t start, uint32_t max)
{
	if (start >= b->b_blocks)
		return 0;
	max = min_u32(max, b->b_blocks - start);
	return find_word_bit(b->b_base, start, start + max, false) - start;
}

struct ext4_free_run ext4_buddy_next_run(const struct ext4_buddy *b, uint32_t from, uint32_t end)
{
	struct ext4_free_run run = {0, 0};

	end = min_u32(end, b->b_blocks);
	if (from >= end)
		return run;
	run.fr_start = min_u32(next_free(b, from), end);
	if (run.fr_start < end)
		run.fr_len = find_word_bit(b->b_base, run.fr_start, end, false) - run.fr_start;
	return run;
}

struct ext4_free_run ext4_buddy_next_run_of(const struct ext4_buddy *b, uint32_t from, uint32_t max)
{
	struct ext4_free_run run = {0, 0};

	if (from >= b->b_blocks)
		return run;
	run.fr_start = next_free(b, from);
	run.fr_len = ext4_buddy_run_at(b, run.fr_start, max);
	return run;
}

int ext4_buddy_largest_order(const struct ext4_buddy *b)
{
	int order = EXT4_BUDDY_MAX_ORDER;

	while (order >= 0 && b->b_counters[order] == 0)
		order--;
	return order;
}

/* The first chunk of exactly this order at or after goal, UINT32_MAX if there is none. */
static uint32_t chunk_from(const struct ext4_buddy *b, unsigned order, uint32_t goal)
{
	uint32_t bits = b->b_blocks >> order;
	uint32_t from = (goal + (UINT32_C(1) << order) - 1) >> order;
	uint32_t found;

	if (b->b_counters[order] == 0 || from >= bits)
		return UINT32_MAX;
	found = find_word_bit(b->b_map[order], from, bits, true);
	return found == bits ? UINT32_MAX : found << order;
}

uint32_t ext4_buddy_find_chunk(const struct ext4_buddy *b, unsigned order, uint32_t goal)
{
	uint32_t best = UINT32_MAX;

	for (unsigned o = order; o < EXT4_BUDDY_ORDERS; o++)
		best = min_u32(best, chunk_from(b, o, goal));
	if (best == UINT32_MAX && goal != 0)
		return ext4_buddy_find_chunk(b, order, 0);
	return best;
}

/* ---- Checks ---- */

static uint32_t check_order(const struct ext4_buddy *b, unsigned order)
{
	uint32_t bits = b->b_blocks >> order;
	uint32_t n = 0;

	for (uint32_t i = find_word_bit(b->b_map[order], 0, bits, true); i < bits;
	     i = find_word_bit(b->b_map[order], i + 1, bits, true)) {
		ASSERT(ext4_buddy_all_free(b, i << order, UINT32_C(1) << order));
		ASSERT(order == EXT4_BUDDY_MAX_ORDER || !test_word_bit(b->b_map[order], i ^ 1));
		n++;
	}
	ASSERT_CMP(n, ==, b->b_counters[order]);
	return n << order;
}

void ext4_buddy_check(const struct ext4_buddy *b)
{
	struct ext4_free_run run = {0, 0};
	uint32_t in_chunks = 0;
	uint32_t in_runs = 0;
	uint32_t runs = 0;

	for (unsigned o = 0; o < EXT4_BUDDY_ORDERS; o++)
		in_chunks += check_order(b, o);
	for (;;) {
		run = ext4_buddy_next_run(b, run.fr_start + run.fr_len, b->b_blocks);
		if (run.fr_len == 0)
			break;
		in_runs += run.fr_len;
		runs++;
	}
	for (uint32_t w = 0; w < words_of(b->b_blocks); w++)
		ASSERT_CMP(test_word_bit(b->b_any, w), ==, b->b_base[w] != 0);
	ASSERT_CMP(in_chunks, ==, b->b_free);
	ASSERT_CMP(in_runs, ==, b->b_free);
	ASSERT_CMP(runs, ==, b->b_fragments);
}

/* ---- Bitmaps as on disk ---- */

/* The bits of one byte that lie in [bit, end). */
static uint8_t byte_mask(uint32_t bit, uint32_t end)
{
	unsigned mask = 0xffu << (bit & 7);

	if (end - bit < 8 - (bit & 7))
		mask &= (1u << ((bit & 7) + (end - bit))) - 1;
	return (uint8_t)mask;
}

bool ext4_bitmap_all(const uint8_t *map, uint32_t start, uint32_t len, bool set)
{
	uint32_t end = start + len;

	for (uint32_t bit = start; bit < end; bit = (bit | 7) + 1) {
		uint8_t mask = byte_mask(bit, end);

		if ((map[bit >> 3] & mask) != (set ? mask : 0))
			return false;
	}
	return true;
}

void ext4_bitmap_fill(uint8_t *map, uint32_t start, uint32_t len, bool set)
{
	uint32_t end = start + len;

	for (uint32_t bit = start; bit < end; bit = (bit | 7) + 1) {
		uint8_t mask = byte_mask(bit, end);

		if (set)
			map[bit >> 3] |= mask;
		else
			map[bit >> 3] &= (uint8_t)~mask;
	}
}

uint32_t ext4_bitmap_next_zero(const uint8_t *map, uint32_t from, uint32_t end)
{
	uint32_t bit = from;

	while (bit < end) {
		unsigned clear = ~(unsigned)map[bit >> 3] & 0xffu & (0xffu << (bit & 7));

		if (clear != 0)
			return min_u32(end, (bit & ~UINT32_C(7)) + (uint32_t)__builtin_ctz(clear));
		bit = (bit | 7) + 1;
	}
	return end;
}
