/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef ALLOC_BUDDY_H
#define ALLOC_BUDDY_H
/*
 * The free space of one block group in memory: a bitmap of free blocks, and for each order a bitmap
 * of the maximal aligned free chunks of 2^order blocks. Block numbers are offsets in the group.
 * Nothing here locks: the owner holds the group's lock.
 */

#include <stdbool.h>
#include <stdint.h>

/* 2^15 blocks: the largest group of a file system with 4 KiB blocks. */
#define EXT4_BUDDY_MAX_ORDER 15
#define EXT4_BUDDY_ORDERS (EXT4_BUDDY_MAX_ORDER + 1)

struct ext4_buddy {
	uint32_t b_blocks;
	uint32_t b_free;
	uint32_t b_fragments; /* free runs */
	uint32_t b_mutations; /* when to check */
	uint32_t b_counters[EXT4_BUDDY_ORDERS];
	/* bit i of order o: [i << o, (i + 1) << o) is a maximal free chunk */
	uint64_t *b_map[EXT4_BUDDY_ORDERS];
	uint64_t *b_base; /* bit set: the block is free */
	/* bit set: that word of b_base is not 0 */
	uint64_t b_any[(1u << EXT4_BUDDY_MAX_ORDER) / 64 / 64];
	uint64_t b_words[]; /* what the pointers point to */
};

/* A free run. */
struct ext4_free_run {
	uint32_t fr_start;
	uint32_t fr_len; /* 0: none */
};

/* A buddy with nothing free. blocks is 1 .. 2^15. NULL without memory. */
struct ext4_buddy *ext4_buddy_new(uint32_t blocks);
void ext4_buddy_free(struct ext4_buddy *b);
/* What is clear in the on-disk bitmap becomes free; b is as ext4_buddy_new() made it. */
void ext4_buddy_load(struct ext4_buddy *b, const uint8_t *bitmap);

/* Every block of the range must be free (ASSERT) and is used afterwards. */
void ext4_buddy_mark_used(struct ext4_buddy *b, uint32_t start, uint32_t len);
/* Every block of the range must be used (ASSERT) and is free afterwards. */
void ext4_buddy_mark_free(struct ext4_buddy *b, uint32_t start, uint32_t len);

/* True if all blocks of the range are free, or all are used. */
bool ext4_buddy_all_free(const struct ext4_buddy *b, uint32_t start, uint32_t len);
bool ext4_buddy_all_used(const struct ext4_buddy *b, uint32_t start, uint32_t len);
/* Length of the free run that begins at start, at most max. */
uint32_t ext4_buddy_run_at(const struct ext4_buddy *b, uint32_t start, uint32_t max);
/*
 * The first free run that begins in [from, end); a run over `from` begins at from. It is cut at
 * end.
 */
struct ext4_free_run ext4_buddy_next_run(const struct ext4_buddy *b, uint32_t from, uint32_t end);
/* The same up to the end of the group, the run cut at `max` blocks: what is behind them is not looked at. */
struct ext4_free_run ext4_buddy_next_run_of(const struct ext4_buddy *b, uint32_t from,
					    uint32_t max);
/* The order of the largest free chunk, -1 if nothing is free. */
int ext4_buddy_largest_order(const struct ext4_buddy *b);
/*
 * The start of a free chunk of `order` or more, the first one at or after goal, else the first of
 * all; UINT32_MAX: none.
 */
uint32_t ext4_buddy_find_chunk(const struct ext4_buddy *b, unsigned order, uint32_t goal);

/* Debugging: bitmaps, counters and sums agree. ASSERTs. */
void ext4_buddy_check(const struct ext4_buddy *b);

/* ---- Bitmaps as on disk: bit i is bit i % 8 of byte i / 8 ---- */

static inline bool ext4_bitmap_test(const uint8_t *map, uint32_t bit)
{
	return (map[bit >> 3] >> (bit & 7) & 1) != 0;
}
/* True if each bit of [start, start+len) is `set`. */
bool ext4_bitmap_all(const uint8_t *map, uint32_t start, uint32_t len, bool set);
void ext4_bitmap_fill(uint8_t *map, uint32_t start, uint32_t len, bool set);
/* The first clear bit in [from, end), or end. */
uint32_t ext4_bitmap_next_zero(const uint8_t *map, uint32_t from, uint32_t end);

#endif
