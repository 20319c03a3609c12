/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef WRITEBACK_ARENA_H
#define WRITEBACK_ARENA_H
/* The memory of the page cache: frames of 4 KiB, each with its struct page, handed out in physically contiguous runs. */

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "block/blkdev.h"

#define PAGE_SHIFT 12
#define PAGE_SIZE 4096u

struct arena;
struct address_space;

/* p_flags [atomic]; DIRTY and WRITEBACK change only under the mapping's as_lock, in step with the tags */
#define PG_LOCKED (1u << 0)
#define PG_UPTODATE (1u << 1)  /* all blocks hold the file's content */
#define PG_DIRTY (1u << 2)     /* some block is newer than the disk */
#define PG_WRITEBACK (1u << 3) /* being written; until the conversion of its extent is done */
#define PG_WAITERS (1u << 4)   /* somebody sleeps on a bit of this page */
#define PG_ERROR (1u << 5)     /* the last read failed */
#define PG_LRU (1u << 6)       /* on the list of clean pages */
#define PG_REFERENCED (1u << 7)
#define PG_READAHEAD (1u << 8) /* reaching it starts the next readahead */

/* A frame. Page structs live as long as the arena: a stale pointer is never a wild one. */
struct page {
	uint8_t *p_data;		 /* [const after init] PAGE_SIZE bytes */
	struct address_space *p_mapping; /* [page lock] NULL: not in a cache */
	_Atomic uint32_t p_flags;	 /* [atomic] */
	_Atomic int32_t p_count;	 /* [atomic] references; the cache itself has one */
	uint32_t p_index;		 /* [page lock] */
	_Atomic uint16_t p_io;		 /* [atomic] requests that this page is part of */
	uint8_t p_uptodate;		 /* [page lock] a bit for each block */
	uint8_t p_dirty;		 /* [page lock] a bit for each block */
	TAILQ_ENTRY(page) p_lru;	 /* [wb_lru_lock] */
};

/*
 * Frames set aside for one sequential writer, so that its pages stay adjacent. Zeroed by its owner, who tells where it is in the
 * file through fr_index; the arena may take the rest of the frames back at any time.
 */
struct frame_reserve {
	uint32_t fr_next, fr_end;	    /* [a_lock] frames [fr_next, fr_end) are set aside */
	uint32_t fr_last;		    /* [a_lock] the last frame handed out */
	uint32_t fr_index;		    /* [owner] page index that would continue the run */
	uint32_t fr_streak;		    /* [owner] pages handed out in sequence */
	TAILQ_ENTRY(frame_reserve) fr_link; /* [a_lock] */
};

struct arena_stats {
	uint64_t as_bytes;	 /* taken from the system */
	uint64_t as_limit_bytes; /* cache= */
	uint64_t as_used_frames;
	uint64_t as_reserved_frames;
	uint64_t as_runs;		/* whole chunks handed to sequential writers */
	uint64_t as_unregistered_slabs; /* used without registration */
	uint64_t as_grown_ahead;	/* slabs that were there before they were needed */
	/* slabs taken into use as one huge page, as ordinary pages, and how long one takes (mean of the last ones) */
	uint64_t as_huge_slabs, as_ordinary_slabs;
	uint64_t as_huge_populate_ns, as_ordinary_populate_ns;
};

/* Address space for `bytes` (rounded to whole slabs); memory is taken as it is needed. bd: where slabs are registered, NULL: nowhere. ERR_PTR(-ENOMEM). */
struct arena *arena_create(struct blkdev *bd, uint64_t bytes);
/*
 * From now on slabs are taken from the system by a thread before they are needed, as many again as are in use but at most 32 MiB: touching memory for
 * the first time can cost more than writing it to the device. 0, or -EAGAIN without a thread.
 */
int arena_grow_ahead(struct arena *a);
/* Every frame must be free. */
void arena_destroy(struct arena *a);
/*
 * Up to n frames into out, adjacent to each other (and to the last ones of r) as far as can be; r may be NULL. Returns how many: fewer than n, maybe 0, when
 * the arena is exhausted. A frame comes with p_count 1 and everything else zero; its content is undefined. Never blocks but to register a new slab.
 */
unsigned arena_alloc(struct arena *a, struct frame_reserve *r, unsigned n, struct page **out);
void arena_free(struct arena *a, struct page *const *pages, unsigned n);
/* Give back what r still holds. */
void arena_release_reserve(struct arena *a, struct frame_reserve *r);
/* Give wholly free slabs back to the system until at most keep_bytes are held. Returns bytes given back. */
uint64_t arena_trim(struct arena *a, uint64_t keep_bytes);
/* Frames that can be handed out, those not yet taken from the system included. */
uint32_t arena_free_frames(const struct arena *a);
uint32_t arena_total_frames(const struct arena *a);
void arena_get_stats(struct arena *a, struct arena_stats *out);
/* Consistency of all lists and bitmaps: O(size), for tests. */
void arena_check(struct arena *a);

static inline bool page_test(const struct page *page, uint32_t bits)
{
	return (atomic_load_explicit(&((struct page *)(uintptr_t)page)->p_flags,
				     memory_order_acquire) &
		bits) != 0;
}

static inline void page_set(struct page *page, uint32_t bits)
{
	atomic_fetch_or_explicit(&page->p_flags, bits, memory_order_acq_rel);
}

static inline void page_clear(struct page *page, uint32_t bits)
{
	atomic_fetch_and_explicit(&page->p_flags, ~bits, memory_order_acq_rel);
}

#endif
