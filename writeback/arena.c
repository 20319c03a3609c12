/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * arena.c - the memory of the page cache: frames, and their adjacency.
 *
 * One range of address space is set aside at mount; it is taken into use slab by slab (2 MiB, registered with the
 * device when it appears) up to the limit, and recycled after that. A slab is one huge page, unless ordinary pages are
 * to be had in much less time: guests that report free memory to their host report it in blocks of that size, and
 * getting one back can take twenty times as long as 512 pages that the guest still has. A slab is 8 chunks of 64 frames, a chunk's free frames are the bits of one word. Chunks that
 * are wholly free and chunks that are partly free are on two lists: single frames come from the partly
 * free ones, so that small files pack; a sequential writer is given whole chunks, the next in memory if
 * it is free, so that what it dirties goes to the device as few long vectors.
 *
 * A chunk given to a writer has no free bits; what the writer has not used yet is [fr_next, fr_end) of its
 * reserve. When nothing else is left the oldest reserve is taken back.
 *
 * Invariants: (1) each frame of a live slab is in exactly one of: a free bit of its chunk, a reserve, in
 * use. (2) A chunk is on a_empty iff all its bits are free, on a_partial iff some but not all are. (3) The
 * sum of free bits of live slabs plus reserved frames plus frames of dead slabs is a_free.
 * Locking: a_lock (ARENA) protects everything; it is dropped while a slab is populated and registered.
 */
#include "writeback/arena.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "util/assert.h"
#include "util/err.h"
#include "util/lock.h"
#include "util/time.h"
#include "util/workqueue.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14 */
#endif

#define CHUNK_FRAMES 64u
#define SLAB_BYTES (2u << 20)
#define SLAB_FRAMES (SLAB_BYTES / PAGE_SIZE)
#define SLAB_CHUNKS (SLAB_FRAMES / CHUNK_FRAMES)
#define RUN_MIN 16u /* so many frames at once, or in sequence, are worth a chunk */
#define AHEAD_FRAMES (32u << 20 >> PAGE_SHIFT)
#define KIND_TRY_EVERY 64u
#define RESERVED_SHIFT 3u /* at most 1/8 of the arena is set aside for writers */

_Static_assert(CHUNK_FRAMES == 64, "a chunk's free frames are one 64-bit word");

enum chunk_list { CHUNK_NONE, CHUNK_EMPTY, CHUNK_PARTIAL };

struct chunk {
	uint64_t c_free; /* [a_lock] */
	enum chunk_list c_list;
	TAILQ_ENTRY(chunk) c_link;
};
TAILQ_HEAD(chunk_head, chunk);

enum slab_state { SLAB_DEAD, SLAB_GROWING, SLAB_LIVE };

struct slab {
	enum slab_state s_state; /* [a_lock] */
	bool s_registered;	 /* [a_lock] */
};

/* How a slab is populated. */
enum page_kind { PAGES_HUGE, PAGES_ORDINARY, PAGE_KINDS };

struct arena {
	struct mutex a_lock;
	struct blkdev *a_bd;			/* [const after init] may be NULL */
	void *a_map;				/* [const after init] */
	size_t a_map_bytes;			/* [const after init] */
	uint8_t *a_base;			/* [const after init] slab aligned */
	struct page *a_pages;			/* [const after init] */
	struct chunk *a_chunks;			/* [const after init] */
	struct slab *a_slabs;			/* [const after init] */
	uint32_t a_nr_slabs;			/* [const after init] */
	uint32_t a_live_slabs;			/* [a_lock] those growing included */
	struct chunk_head a_empty;		/* [a_lock] */
	struct chunk_head a_partial;		/* [a_lock] */
	TAILQ_HEAD(, frame_reserve) a_reserves; /* [a_lock] oldest first */
	uint32_t a_reserved;			/* [a_lock] frames in reserves */
	_Atomic uint32_t a_free;		/* [a_lock for changes] */
	uint64_t a_runs;			/* [a_lock] */
	uint64_t a_unregistered;		/* [a_lock] */
	bool a_register_refused;	    /* [a_lock] as far as the limit of locked memory went */
	uint64_t a_grown_ahead;		    /* [a_lock] */
	uint64_t a_of_kind[PAGE_KINDS];	    /* [a_lock] slabs populated, ever */
	uint64_t a_populate_ns[PAGE_KINDS]; /* [a_lock] for a slab: mean of the last ones */
	struct workqueue *a_grower; /* [const after arena_grow_ahead] NULL: grow when needed */
	struct work_item a_grow_work;
};

static uint32_t frame_of(const struct arena *a, const struct page *page)
{
	return (uint32_t)(page - a->a_pages);
}

static uint32_t chunk_nr(const struct arena *a, const struct chunk *c)
{
	return (uint32_t)(c - a->a_chunks);
}

/* ---- Chunk lists ---- */

static enum chunk_list list_for(uint64_t free_bits)
{
	if (free_bits == 0)
		return CHUNK_NONE;
	return free_bits == UINT64_MAX ? CHUNK_EMPTY : CHUNK_PARTIAL;
}

static void relist_locked(struct arena *a, struct chunk *c)
{
	enum chunk_list want = list_for(c->c_free);

	if (c->c_list == want)
		return;
	if (c->c_list == CHUNK_EMPTY)
		TAILQ_REMOVE(&a->a_empty, c, c_link);
	else if (c->c_list == CHUNK_PARTIAL)
		TAILQ_REMOVE(&a->a_partial, c, c_link);
	c->c_list = want;
	if (want == CHUNK_EMPTY)
		TAILQ_INSERT_HEAD(&a->a_empty, c, c_link);
	else if (want == CHUNK_PARTIAL)
		TAILQ_INSERT_HEAD(&a->a_partial, c, c_link);
}

static void free_frame_locked(struct arena *a, uint32_t frame)
{
	struct chunk *c = &a->a_chunks[frame / CHUNK_FRAMES];
	uint64_t bit = UINT64_C(1) << (frame % CHUNK_FRAMES);

	ASSERT((c->c_free & bit) == 0);
	c->c_free |= bit;
	relist_locked(a, c);
}

/* ---- Slabs ---- */

static void slab_init_pages(struct arena *a, uint32_t slab)
{
	uint32_t first = slab * SLAB_FRAMES;

	for (uint32_t i = first; i < first + SLAB_FRAMES; i++)
		a->a_pages[i].p_data = a->a_base + (size_t)i * PAGE_SIZE;
}

/*
 * The kind for the next slab: huge pages, which cost the processor and the device less afterwards, unless ordinary ones
 * come in less than half of the time. The first two slabs and now and then one later try both.
 */
static enum page_kind choose_kind_locked(const struct arena *a)
{
	const uint64_t *ns = a->a_populate_ns;
	uint64_t slabs = a->a_of_kind[PAGES_HUGE] + a->a_of_kind[PAGES_ORDINARY];
	enum page_kind best = ns[PAGES_ORDINARY] < ns[PAGES_HUGE] / 2 ? PAGES_ORDINARY : PAGES_HUGE;

	if (slabs < PAGE_KINDS)
		return (enum page_kind)slabs;
	if (slabs % KIND_TRY_EVERY == 0)
		return best == PAGES_HUGE ? PAGES_ORDINARY : PAGES_HUGE;
	return best;
}

/* Get the memory of a slab. The time it took. */
static uint64_t populate(uint8_t *addr, enum page_kind kind)
{
	uint64_t start = now_ns();

	/* A refusal of huge pages or of populating costs speed only. */
	(void)madvise(addr, SLAB_BYTES, kind == PAGES_HUGE ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
	(void)madvise(addr, SLAB_BYTES, MADV_POPULATE_WRITE);
	return now_ns() - start;
}

static void populated_locked(struct arena *a, enum page_kind kind, uint64_t ns)
{
	uint64_t old = a->a_populate_ns[kind];

	a->a_populate_ns[kind] = old == 0 ? ns : (old * 3 + ns) / 4;
}

/* Take a dead slab into use. The lock is dropped meanwhile. False: there is none. */
static bool grow_locked(struct arena *a)
{
	enum page_kind kind;
	uint32_t slab = 0;
	uint64_t ns;
	uint8_t *addr;
	bool registered, ask;

	if (a->a_live_slabs == a->a_nr_slabs)
		return false;
	while (a->a_slabs[slab].s_state != SLAB_DEAD)
		slab++;
	ASSERT_CMP(slab, <, a->a_nr_slabs);
	a->a_slabs[slab].s_state = SLAB_GROWING;
	a->a_live_slabs++;
	ask = a->a_bd != NULL && !a->a_register_refused;
	kind = choose_kind_locked(a);
	a->a_of_kind[kind]++;
	mutex_unlock(&a->a_lock);

	addr = a->a_base + (size_t)slab * SLAB_BYTES;
	ns = populate(addr, kind);
	/* A refusal of registration costs speed only. */
	registered = ask && blk_register_memory(a->a_bd, addr, SLAB_BYTES) == 0;
	slab_init_pages(a, slab);

	mutex_lock(&a->a_lock);
	populated_locked(a, kind, ns);
	a->a_slabs[slab].s_state = SLAB_LIVE;
	a->a_slabs[slab].s_registered = registered;
	if (!registered)
		a->a_unregistered++;
	if (ask && !registered)
		a->a_register_refused = true;
	for (uint32_t i = 0; i < SLAB_CHUNKS; i++) {
		struct chunk *c = &a->a_chunks[slab * SLAB_CHUNKS + i];

		c->c_free = UINT64_MAX;
		c->c_list = CHUNK_EMPTY;
		TAILQ_INSERT_TAIL(&a->a_empty, c, c_link);
	}
	return true;
}

static bool slab_idle_locked(const struct arena *a, uint32_t slab)
{
	if (a->a_slabs[slab].s_state != SLAB_LIVE)
		return false;
	for (uint32_t i = 0; i < SLAB_CHUNKS; i++)
		if (a->a_chunks[slab * SLAB_CHUNKS + i].c_free != UINT64_MAX)
			return false;
	return true;
}

static void shrink_slab_locked(struct arena *a, uint32_t slab)
{
	uint8_t *addr = a->a_base + (size_t)slab * SLAB_BYTES;

	for (uint32_t i = 0; i < SLAB_CHUNKS; i++) {
		struct chunk *c = &a->a_chunks[slab * SLAB_CHUNKS + i];

		c->c_free = 0;
		relist_locked(a, c);
	}
	a->a_slabs[slab].s_state = SLAB_GROWING; /* nobody touches it meanwhile */
	mutex_unlock(&a->a_lock);
	if (a->a_slabs[slab].s_registered)
		blk_unregister_memory(a->a_bd, addr, SLAB_BYTES);
	(void)madvise(addr, SLAB_BYTES, MADV_DONTNEED);
	mutex_lock(&a->a_lock);
	a->a_slabs[slab].s_state = SLAB_DEAD;
	a->a_live_slabs--;
}

/* ---- Growing ahead ---- */

/* Few frames are left in the slabs that are there: as many again as are in use should be, within bounds. */
static bool wants_ahead_locked(const struct arena *a)
{
	uint32_t nr_free = atomic_load_explicit(&a->a_free, memory_order_relaxed);
	uint32_t dead = (a->a_nr_slabs - a->a_live_slabs) * SLAB_FRAMES;
	uint32_t used = a->a_nr_slabs * SLAB_FRAMES - nr_free;
	uint32_t want = used < AHEAD_FRAMES ? used : AHEAD_FRAMES;

	return dead > 0 && used > 0 && nr_free - dead < want;
}

static void grow_work(struct work_item *w)
{
	struct arena *a = (void *)((char *)w - offsetof(struct arena, a_grow_work));

	mutex_lock(&a->a_lock);
	while (wants_ahead_locked(a) && grow_locked(a))
		a->a_grown_ahead++;
	mutex_unlock(&a->a_lock);
}

int arena_grow_ahead(struct arena *a)
{
	struct workqueue *wq = workqueue_create("ext4d-arena", 1);

	if (IS_ERR(wq))
		return PTR_ERR(wq);
	a->a_grow_work.w_fn = grow_work;
	a->a_grower = wq;
	return 0;
}

/* ---- Reserves ---- */

static void drop_reserve_locked(struct arena *a, struct frame_reserve *r)
{
	if (r->fr_next == r->fr_end)
		return;
	a->a_reserved -= r->fr_end - r->fr_next;
	for (uint32_t f = r->fr_next; f < r->fr_end; f++)
		free_frame_locked(a, f);
	r->fr_next = r->fr_end;
	TAILQ_REMOVE(&a->a_reserves, r, fr_link);
}

static unsigned take_from_reserve(struct arena *a, struct frame_reserve *r, unsigned n,
				  struct page **out)
{
	unsigned got = 0;

	while (got < n && r->fr_next < r->fr_end) {
		out[got++] = &a->a_pages[r->fr_next];
		r->fr_last = r->fr_next++;
	}
	a->a_reserved -= got;
	if (got > 0 && r->fr_next == r->fr_end)
		TAILQ_REMOVE(&a->a_reserves, r, fr_link);
	return got;
}

/* The free chunk that follows frame `after`, else any. */
static struct chunk *pick_empty(struct arena *a, uint32_t after)
{
	uint32_t next = after / CHUNK_FRAMES + 1;

	if (next < a->a_nr_slabs * SLAB_CHUNKS && a->a_chunks[next].c_list == CHUNK_EMPTY)
		return &a->a_chunks[next];
	return TAILQ_FIRST(&a->a_empty);
}

static bool refill_reserve(struct arena *a, struct frame_reserve *r)
{
	struct chunk *c;

	if (a->a_reserved + CHUNK_FRAMES > (a->a_nr_slabs * SLAB_FRAMES) >> RESERVED_SHIFT)
		return false;
	if (TAILQ_EMPTY(&a->a_empty) && !grow_locked(a))
		return false;
	/* The lock was dropped: somebody may have been faster, and r may have been refilled. */
	if (r->fr_next != r->fr_end)
		return true;
	c = pick_empty(a, r->fr_last);
	if (c == NULL)
		return false;
	c->c_free = 0;
	relist_locked(a, c);
	r->fr_next = chunk_nr(a, c) * CHUNK_FRAMES;
	r->fr_end = r->fr_next + CHUNK_FRAMES;
	a->a_reserved += CHUNK_FRAMES;
	a->a_runs++;
	TAILQ_INSERT_TAIL(&a->a_reserves, r, fr_link);
	return true;
}

/* ---- Frames ---- */

static unsigned take_from_chunk(struct arena *a, struct chunk *c, unsigned n, struct page **out)
{
	uint32_t base = chunk_nr(a, c) * CHUNK_FRAMES;
	unsigned got = 0;

	while (got < n && c->c_free != 0) {
		unsigned bit = (unsigned)__builtin_ctzll(c->c_free);

		c->c_free &= c->c_free - 1;
		out[got++] = &a->a_pages[base + bit];
	}
	relist_locked(a, c);
	return got;
}

/* A chunk for n frames without a reserve: a run from a free one, singles from a used one. */
static struct chunk *pick_chunk(struct arena *a, unsigned n)
{
	struct chunk *c = TAILQ_FIRST(&a->a_partial);

	if (c != NULL && n < RUN_MIN)
		return c;
	if (TAILQ_EMPTY(&a->a_empty))
		(void)grow_locked(a);
	if (!TAILQ_EMPTY(&a->a_empty))
		return TAILQ_FIRST(&a->a_empty);
	return TAILQ_FIRST(&a->a_partial);
}

static unsigned take_some_locked(struct arena *a, struct frame_reserve *r, unsigned n,
				 struct page **out)
{
	struct chunk *c;
	unsigned got;

	if (r != NULL) {
		got = take_from_reserve(a, r, n, out);
		if (got > 0)
			return got;
		if ((n >= RUN_MIN || r->fr_streak >= RUN_MIN) && refill_reserve(a, r))
			return take_from_reserve(a, r, n, out);
	}
	c = pick_chunk(a, n);
	if (c == NULL && !TAILQ_EMPTY(&a->a_reserves)) {
		drop_reserve_locked(a, TAILQ_FIRST(&a->a_reserves));
		c = pick_chunk(a, n);
	}
	if (c == NULL)
		return 0;
	got = take_from_chunk(a, c, n, out);
	if (r != NULL)
		r->fr_last = frame_of(a, out[got - 1]);
	return got;
}

unsigned arena_alloc(struct arena *a, struct frame_reserve *r, unsigned n, struct page **out)
{
	unsigned got = 0;
	bool ahead;

	mutex_lock(&a->a_lock);
	while (got < n) {
		unsigned more = take_some_locked(a, r, n - got, out + got);

		if (more == 0)
			break;
		got += more;
	}
	atomic_fetch_sub_explicit(&a->a_free, got, memory_order_relaxed);
	ahead = a->a_grower != NULL && wants_ahead_locked(a);
	mutex_unlock(&a->a_lock);
	if (ahead)
		(void)queue_work(a->a_grower, &a->a_grow_work);
	for (unsigned i = 0; i < got; i++)
		atomic_store_explicit(&out[i]->p_count, 1, memory_order_relaxed);
	return got;
}

void arena_free(struct arena *a, struct page *const *pages, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		struct page *page = pages[i];

		ASSERT(page->p_mapping == NULL);
		ASSERT(!page_test(page, PG_DIRTY | PG_WRITEBACK | PG_LRU));
		atomic_store_explicit(&page->p_flags, 0, memory_order_relaxed);
		page->p_uptodate = 0;
		page->p_dirty = 0;
	}
	mutex_lock(&a->a_lock);
	for (unsigned i = 0; i < n; i++)
		free_frame_locked(a, frame_of(a, pages[i]));
	atomic_fetch_add_explicit(&a->a_free, n, memory_order_relaxed);
	mutex_unlock(&a->a_lock);
}

void arena_release_reserve(struct arena *a, struct frame_reserve *r)
{
	mutex_lock(&a->a_lock);
	drop_reserve_locked(a, r);
	mutex_unlock(&a->a_lock);
}

uint64_t arena_trim(struct arena *a, uint64_t keep_bytes)
{
	uint64_t freed = 0;

	mutex_lock(&a->a_lock);
	for (uint32_t slab = a->a_nr_slabs; slab > 0; slab--) {
		if ((uint64_t)a->a_live_slabs * SLAB_BYTES <= keep_bytes)
			break;
		if (!slab_idle_locked(a, slab - 1))
			continue;
		shrink_slab_locked(a, slab - 1);
		freed += SLAB_BYTES;
	}
	mutex_unlock(&a->a_lock);
	return freed;
}

uint32_t arena_free_frames(const struct arena *a)
{
	return atomic_load_explicit(&((struct arena *)(uintptr_t)a)->a_free, memory_order_relaxed);
}

uint32_t arena_total_frames(const struct arena *a)
{
	return a->a_nr_slabs * SLAB_FRAMES;
}

void arena_get_stats(struct arena *a, struct arena_stats *out)
{
	mutex_lock(&a->a_lock);
	out->as_bytes = (uint64_t)a->a_live_slabs * SLAB_BYTES;
	out->as_limit_bytes = (uint64_t)a->a_nr_slabs * SLAB_BYTES;
	out->as_used_frames = arena_total_frames(a) - atomic_load(&a->a_free);
	out->as_reserved_frames = a->a_reserved;
	out->as_runs = a->a_runs;
	out->as_unregistered_slabs = a->a_unregistered;
	out->as_grown_ahead = a->a_grown_ahead;
	out->as_huge_slabs = a->a_of_kind[PAGES_HUGE];
	out->as_ordinary_slabs = a->a_of_kind[PAGES_ORDINARY];
	out->as_huge_populate_ns = a->a_populate_ns[PAGES_HUGE];
	out->as_ordinary_populate_ns = a->a_populate_ns[PAGES_ORDINARY];
	mutex_unlock(&a->a_lock);
}

void arena_check(struct arena *a)
{
	uint64_t nr_free = 0;
	const struct frame_reserve *r;
	uint32_t reserved = 0;

	mutex_lock(&a->a_lock);
	for (uint32_t i = 0; i < a->a_nr_slabs * SLAB_CHUNKS; i++) {
		const struct chunk *c = &a->a_chunks[i];

		if (a->a_slabs[i / SLAB_CHUNKS].s_state != SLAB_LIVE) {
			nr_free += CHUNK_FRAMES;
			ASSERT_CMP(c->c_free, ==, 0u);
			continue;
		}
		ASSERT_CMP((int)c->c_list, ==, (int)list_for(c->c_free));
		nr_free += (uint64_t)__builtin_popcountll(c->c_free);
	}
	TAILQ_FOREACH (r, &a->a_reserves, fr_link)
		reserved += r->fr_end - r->fr_next;
	ASSERT_CMP(reserved, ==, a->a_reserved);
	ASSERT_CMP(nr_free + reserved, ==, (uint64_t)atomic_load(&a->a_free));
	mutex_unlock(&a->a_lock);
}

/* ---- Life ---- */

static void *map_memory(size_t bytes)
{
	return mmap(NULL, bytes, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
}

/* Address space; a 32-bit host may be too fragmented for all of it. */
static bool map_slabs(struct arena *a, uint64_t bytes)
{
	for (uint32_t n = (uint32_t)(bytes / SLAB_BYTES); n > 0; n /= 2) {
		size_t len = (size_t)n * SLAB_BYTES + SLAB_BYTES;
		uintptr_t addr;

		a->a_map = map_memory(len);
		if (a->a_map == MAP_FAILED)
			continue;
		addr = ((uintptr_t)a->a_map + SLAB_BYTES - 1) & ~(uintptr_t)(SLAB_BYTES - 1);
		a->a_map_bytes = len;
		a->a_base = (uint8_t *)addr;
		a->a_nr_slabs = n;
		return true;
	}
	return false;
}

static void free_arena(struct arena *a)
{
	if (a->a_pages != NULL && a->a_pages != MAP_FAILED)
		munmap(a->a_pages, (size_t)a->a_nr_slabs * SLAB_FRAMES * sizeof(struct page));
	free(a->a_chunks);
	free(a->a_slabs);
	munmap(a->a_map, a->a_map_bytes);
	mutex_destroy(&a->a_lock);
	free(a);
}

struct arena *arena_create(struct blkdev *bd, uint64_t bytes)
{
	struct arena *a = calloc(1, sizeof(*a));

	if (a == NULL)
		return ERR_PTR(-ENOMEM);
	if (bytes < SLAB_BYTES)
		bytes = SLAB_BYTES;
	if (!map_slabs(a, bytes)) {
		free(a);
		return ERR_PTR(-ENOMEM);
	}
	mutex_init(&a->a_lock, LOCK_RANK_ARENA);
	a->a_bd = bd;
	TAILQ_INIT(&a->a_empty);
	TAILQ_INIT(&a->a_partial);
	TAILQ_INIT(&a->a_reserves);
	a->a_pages = map_memory((size_t)a->a_nr_slabs * SLAB_FRAMES * sizeof(struct page));
	a->a_chunks = calloc((size_t)a->a_nr_slabs * SLAB_CHUNKS, sizeof(struct chunk));
	a->a_slabs = calloc(a->a_nr_slabs, sizeof(struct slab));
	if (a->a_pages == MAP_FAILED || a->a_chunks == NULL || a->a_slabs == NULL) {
		free_arena(a);
		return ERR_PTR(-ENOMEM);
	}
	atomic_store(&a->a_free, a->a_nr_slabs * SLAB_FRAMES);
	return a;
}

void arena_destroy(struct arena *a)
{
	if (a == NULL || IS_ERR(a))
		return;
	if (a->a_grower != NULL)
		workqueue_destroy(a->a_grower);
	arena_trim(a, 0);
	ASSERT_CMP(arena_free_frames(a), ==, arena_total_frames(a));
	free_arena(a);
}
