/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * page_cache.c - the pages of files in memory: their locks, references, dirt, and how clean ones go.
 *
 *  state of a page       flags                    tags            who may take it away
 *  new, being filled     LOCKED                   -               nobody
 *  clean                 UPTODATE, LRU            -               eviction, truncate, invalidate
 *  dirty                 UPTODATE, DIRTY          DIRTY           truncate
 *  chosen for writing    as dirty                 DIRTY TOWRITE   truncate
 *  under writeback       UPTODATE, WRITEBACK      WRITEBACK       nobody: all wait
 *
 *  clean -> dirty: set_page_dirty (writers).  dirty -> writeback: set_pages_writeback (page_io.c).  writeback -> clean: end_pages_writeback.
 *
 * A page is never dirty and under writeback at once: whoever wants to change it waits first, so what goes to the device is stable.
 * Pages become candidates for eviction when they become clean; a page that was dirtied since is only noticed, and left out, when its turn comes.
 *
 * Invariants: (1) PG_DIRTY and PG_WRITEBACK agree with the tags, as_nr_dirty, as_nr_writeback and the domain's counters whenever as_lock is free.
 * (2) A page in an index has a reference of the index; eviction takes pages that have no other, under as_lock, where every look-up takes its reference.
 * (3) p_mapping and p_index of a locked page do not change. (4) A page on the LRU is in an index.
 * Locking: page lock (a bit, waiters sleep on hashed queues) -> as_lock -> wb_lru_lock. Completions take the last two only.
 */
#include <stdlib.h>
#include <string.h>

#include "util/time.h"
#include "writeback/internal.h"

#define WAIT_QUEUES 64u
#define EVICT_BATCH 64u
#define TRUNCATE_BATCH 64u
#define FRAME_WAIT_NS (50 * NS_PER_MS)
#define RECLAIM_PAGES 1024
#define MANUAL_POLL_NS 100000

struct wait_queue {
	struct mutex wq_lock; /* LEAF */
	struct cond wq_cond;
};

static struct wait_queue wait_queue[WAIT_QUEUES];
static pthread_once_t wait_queue_once = PTHREAD_ONCE_INIT;

static void wait_queues_init(void)
{
	for (unsigned i = 0; i < WAIT_QUEUES; i++) {
		mutex_init(&wait_queue[i].wq_lock, LOCK_RANK_LEAF);
		cond_init(&wait_queue[i].wq_cond);
	}
}

static struct wait_queue *queue_of(const struct page *page)
{
	return &wait_queue[((uintptr_t)page / sizeof(struct page)) % WAIT_QUEUES];
}

/* ---- Bits and their waiters ---- */

static uint32_t page_flags(struct page *page)
{
	return atomic_load_explicit(&page->p_flags, memory_order_acquire);
}

static bool try_lock_bit(struct page *page)
{
	return (atomic_fetch_or_explicit(&page->p_flags, PG_LOCKED, memory_order_acq_rel) &
		PG_LOCKED) == 0;
}

static void wake_page(struct page *page)
{
	struct wait_queue *wq = queue_of(page);

	mutex_lock(&wq->wq_lock);
	page_clear(page, PG_WAITERS);
	cond_broadcast(&wq->wq_cond);
	mutex_unlock(&wq->wq_lock);
}

/* Clear bits and wake whoever waits for one. */
static void clear_and_wake(struct page *page, uint32_t bits)
{
	uint32_t old = atomic_fetch_and_explicit(&page->p_flags, ~bits, memory_order_acq_rel);

	ASSERT((old & bits) == bits);
	if (old & PG_WAITERS)
		wake_page(page);
}

/* Sleep until `bit` is clear; the waiters' bit is set before each look, so that no wake-up is missed. */
static void sleep_on_bit(struct page *page, uint32_t bit, bool take)
{
	struct wait_queue *wq = queue_of(page);

	mutex_lock(&wq->wq_lock);
	for (;;) {
		page_set(page, PG_WAITERS);
		if (take ? try_lock_bit(page) : (page_flags(page) & bit) == 0)
			break;
		cond_wait(&wq->wq_cond, &wq->wq_lock);
	}
	mutex_unlock(&wq->wq_lock);
}

void lock_page(struct page *page)
{
	if (!try_lock_bit(page))
		sleep_on_bit(page, PG_LOCKED, true);
	lock_rank_enter(LOCK_RANK_PAGE);
}

bool trylock_page(struct page *page)
{
	if (!try_lock_bit(page))
		return false;
	lock_rank_enter(LOCK_RANK_PAGE);
	return true;
}

void unlock_page(struct page *page)
{
	lock_rank_leave(LOCK_RANK_PAGE);
	clear_and_wake(page, PG_LOCKED);
}

void unlock_page_io(struct page *page)
{
	clear_and_wake(page, PG_LOCKED);
}

void wait_on_page_locked(struct page *page)
{
	if (page_test(page, PG_LOCKED))
		sleep_on_bit(page, PG_LOCKED, false);
}

void nap_manual(void)
{
	struct timespec nap = {.tv_nsec = MANUAL_POLL_NS};

	nanosleep(&nap, NULL);
}

/* Nobody else runs completions, and the device may take its time. */
static void wait_manual(struct wb_domain *wb, struct page *page)
{
	run_completions_nested(wb);
	while (page_test(page, PG_WRITEBACK)) {
		nap_manual();
		run_completions_nested(wb);
	}
}

void wait_on_page_writeback(struct address_space *as, struct page *page)
{
	if (!page_test(page, PG_WRITEBACK))
		return;
	counter_inc(&as->as_wb->wb_stats.ws_page_wb_waits);
	if (as->as_wb->wb_manual)
		wait_manual(as->as_wb, page);
	else
		wait_on_page_data(page);
}

void wait_on_page_data(struct page *page)
{
	if (page_test(page, PG_WRITEBACK))
		sleep_on_bit(page, PG_WRITEBACK, false);
}

/* ---- References ---- */

void page_get(struct page *page)
{
	int32_t old = atomic_fetch_add_explicit(&page->p_count, 1, memory_order_relaxed);

	ASSERT_CMP(old, >, 0);
}

void page_put(struct wb_domain *wb, struct page *page)
{
	int32_t old = atomic_fetch_sub_explicit(&page->p_count, 1, memory_order_acq_rel);

	ASSERT_CMP(old, >, 0);
	if (old > 1)
		return;
	arena_free(wb->wb_arena, &page, 1);
	wake_frame_waiters(wb);
}

/* ---- Clean pages ---- */

void page_lru_add(struct wb_domain *wb, struct page *const *pages, unsigned n)
{
	mutex_lock(&wb->wb_lru_lock);
	for (unsigned i = 0; i < n; i++) {
		struct page *page = pages[i];

		if (page_flags(page) & PG_LRU)
			continue;
		page_set(page, PG_LRU);
		TAILQ_INSERT_TAIL(&wb->wb_lru, page, p_lru);
		wb->wb_nr_lru++;
	}
	mutex_unlock(&wb->wb_lru_lock);
	if (atomic_load_explicit(&wb->wb_frame_waiters, memory_order_relaxed) > 0)
		wake_frame_waiters(wb);
}

static void lru_remove_locked(struct wb_domain *wb, struct page *page)
{
	TAILQ_REMOVE(&wb->wb_lru, page, p_lru);
	page_clear(page, PG_LRU);
	wb->wb_nr_lru--;
}

/* as_lock and the page's lock held: one of them is held by whoever adds a page, so it stays off. */
static void lru_remove(struct wb_domain *wb, struct page *page)
{
	mutex_lock(&wb->wb_lru_lock);
	if (page_test(page, PG_LRU))
		lru_remove_locked(wb, page);
	mutex_unlock(&wb->wb_lru_lock);
}

/* Lock up to n pages from the cold end that look as if they could go. */
static unsigned isolate_clean(struct wb_domain *wb, unsigned n, struct page **out)
{
	unsigned got = 0;
	uint32_t scan;

	mutex_lock(&wb->wb_lru_lock);
	scan = wb->wb_nr_lru;
	while (got < n && scan-- > 0) {
		struct page *page = TAILQ_FIRST(&wb->wb_lru);
		uint32_t flags = page_flags(page);

		if (flags & (PG_DIRTY | PG_WRITEBACK)) {
			lru_remove_locked(wb, page);
			continue; /* comes back when it is clean */
		}
		if ((flags & PG_REFERENCED) == 0 &&
		    atomic_load_explicit(&page->p_count, memory_order_relaxed) == 1 &&
		    try_lock_bit(page)) {
			lru_remove_locked(wb, page);
			out[got++] = page;
			continue;
		}
		page_clear(page, PG_REFERENCED);
		TAILQ_REMOVE(&wb->wb_lru, page, p_lru);
		TAILQ_INSERT_TAIL(&wb->wb_lru, page, p_lru);
	}
	mutex_unlock(&wb->wb_lru_lock);
	return got;
}

/* Nobody can find the page without as_lock: a count that is only ours and the index's stays so. */
static bool detach_clean_locked(struct address_space *as, struct page *page, int32_t count)
{
	if (page_flags(page) & (PG_DIRTY | PG_WRITEBACK))
		return false;
	if (atomic_load_explicit(&page->p_count, memory_order_acquire) != count)
		return false;
	/* Its writeback may have ended, and put it back, since it was looked at. */
	lru_remove(as->as_wb, page);
	page_index_remove(&as->as_index, page->p_index);
	as->as_nrpages--;
	page->p_mapping = NULL;
	return true;
}

unsigned shrink_page_cache(struct wb_domain *wb, unsigned n)
{
	struct page *pages[EVICT_BATCH];
	unsigned got = isolate_clean(wb, n < EVICT_BATCH ? n : EVICT_BATCH, pages);
	unsigned nr_free = 0, nr_kept = 0;
	struct page *kept[EVICT_BATCH];

	for (unsigned i = 0; i < got;) {
		struct address_space *as = pages[i]->p_mapping;

		ASSERT(as != NULL);
		mutex_lock(&as->as_lock);
		for (; i < got && pages[i]->p_mapping == as; i++) {
			if (detach_clean_locked(as, pages[i], 1))
				pages[nr_free++] = pages[i];
			else
				kept[nr_kept++] = pages[i];
		}
		mutex_unlock(&as->as_lock);
	}
	if (nr_kept > 0)
		page_lru_add(wb, kept, nr_kept);
	for (unsigned i = 0; i < nr_kept; i++)
		unlock_page_io(kept[i]);
	for (unsigned i = 0; i < nr_free; i++) {
		unlock_page_io(pages[i]);
		atomic_store_explicit(&pages[i]->p_count, 0, memory_order_relaxed);
	}
	if (nr_free > 0)
		arena_free(wb->wb_arena, pages, nr_free);
	counter_add(&wb->wb_stats.ws_evicted, nr_free);
	return nr_free;
}

/* ---- Frames ---- */

void wake_frame_waiters(struct wb_domain *wb)
{
	if (atomic_load_explicit(&wb->wb_frame_waiters, memory_order_seq_cst) == 0)
		return;
	mutex_lock(&wb->wb_frame_lock);
	cond_broadcast(&wb->wb_frame_cond);
	mutex_unlock(&wb->wb_frame_lock);
}

/* Everything is dirty or in use: have something written. False: nothing can be done (simulation). */
static bool wait_for_frames(struct wb_domain *wb)
{
	counter_inc(&wb->wb_stats.ws_frame_waits);
	if (wb->wb_manual) {
		struct wb_work work = {.wk_nr_pages = RECLAIM_PAGES, .wk_reason = WB_REASON_VMSCAN};

		wb_do_work(wb, &work);
		run_completions_nested(wb);
		return shrink_page_cache(wb, EVICT_BATCH) > 0;
	}
	wb_start_writeback(wb, RECLAIM_PAGES, WB_REASON_VMSCAN);
	atomic_fetch_add(&wb->wb_frame_waiters, 1);
	mutex_lock(&wb->wb_frame_lock);
	if (arena_free_frames(wb->wb_arena) == 0)
		(void)cond_timedwait(&wb->wb_frame_cond, &wb->wb_frame_lock,
				     now_ns() + FRAME_WAIT_NS);
	mutex_unlock(&wb->wb_frame_lock);
	atomic_fetch_sub(&wb->wb_frame_waiters, 1);
	return true;
}

unsigned alloc_frames(struct wb_domain *wb, struct frame_reserve *r, unsigned n, struct page **out)
{
	lock_assert_none_from(LOCK_RANK_HANDLE);
	for (;;) {
		unsigned got = arena_alloc(wb->wb_arena, r, n, out);

		if (got > 0)
			return got;
		if (shrink_page_cache(wb, EVICT_BATCH) > 0)
			continue;
		if (!wait_for_frames(wb))
			return 0;
	}
}

/* ---- Look-up ---- */

struct page *find_get_page(struct address_space *as, uint32_t index)
{
	struct page *page;

	mutex_lock(&as->as_lock);
	page = page_index_lookup(&as->as_index, index);
	if (page != NULL)
		page_get(page);
	mutex_unlock(&as->as_lock);
	return page;
}

unsigned find_get_pages(struct address_space *as, uint32_t start, uint32_t last, enum page_tag tag,
			struct page **out, unsigned n)
{
	unsigned got;

	mutex_lock(&as->as_lock);
	got = page_index_gang(&as->as_index, start, last, tag, out, n);
	for (unsigned i = 0; i < got; i++)
		page_get(out[i]);
	mutex_unlock(&as->as_lock);
	return got;
}

static int insert_locked(struct address_space *as, struct page *page, uint32_t index)
{
	int err = page_index_insert(&as->as_index, index, page);

	if (err != 0)
		return err;
	page->p_mapping = as;
	page->p_index = index;
	as->as_nrpages++;
	return 0;
}

int add_to_page_cache_locked(struct address_space *as, struct page *page, uint32_t index)
{
	int err;

	page_set(page, PG_LOCKED);
	mutex_lock(&as->as_lock);
	err = insert_locked(as, page, index);
	mutex_unlock(&as->as_lock);
	if (err != 0)
		page_clear(page, PG_LOCKED);
	return err;
}

/* Fill in the pages that are there; returns how many are missing. */
static unsigned lookup_range(struct address_space *as, uint32_t start, unsigned n,
			     struct page **out)
{
	unsigned missing = 0;

	mutex_lock(&as->as_lock);
	for (unsigned i = 0; i < n; i++) {
		out[i] = page_index_lookup(&as->as_index, start + i);
		if (out[i] != NULL)
			page_get(out[i]);
		else
			missing++;
	}
	mutex_unlock(&as->as_lock);
	return missing;
}

/* The length of the run of missing pages at out[0]. */
static unsigned missing_run(struct page **out, unsigned n)
{
	unsigned run = 0;

	while (run < n && out[run] == NULL)
		run++;
	return run;
}

/* Put frames at start + i where nobody was faster. Frames that are not needed are freed. */
static int insert_frames(struct address_space *as, uint32_t start, unsigned n, struct page **frames,
			 struct page **out)
{
	struct page *spare[WB_BIO_PAGES];
	unsigned nr_spare = 0;
	int err = 0;

	mutex_lock(&as->as_lock);
	for (unsigned i = 0; i < n; i++) {
		int ret = err != 0 ? err : insert_locked(as, frames[i], start + i);

		out[i] = frames[i];
		if (ret != 0)
			spare[nr_spare++] = frames[i];
		if (ret == -EEXIST)
			out[i] = page_index_lookup(&as->as_index, start + i);
		else if (ret != 0)
			out[i] = NULL;
		if (out[i] != NULL)
			page_get(out[i]);
		if (ret != -EEXIST)
			err = ret;
	}
	mutex_unlock(&as->as_lock);
	for (unsigned i = 0; i < nr_spare; i++)
		page_put(as->as_wb, spare[i]);
	return err;
}

static void put_pages(struct wb_domain *wb, struct page **pages, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		if (pages[i] != NULL)
			page_put(wb, pages[i]);
}

static struct frame_reserve *reserve_for(struct address_space *as, uint32_t index, bool writer)
{
	struct frame_reserve *r = &as->as_reserve;

	if (!writer)
		return NULL;
	if (r->fr_index != index)
		r->fr_streak = 0;
	return r;
}

int grab_pages(struct address_space *as, uint32_t start, unsigned n, bool writer, struct page **out)
{
	struct wb_domain *wb = as->as_wb;
	unsigned missing = lookup_range(as, start, n, out);
	struct frame_reserve *r = reserve_for(as, start, writer);

	ASSERT_CMP(n, <=, WB_BIO_PAGES);
	for (unsigned i = 0; i < n && missing > 0;) {
		struct page *frames[WB_BIO_PAGES];
		unsigned run = missing_run(out + i, n - i);
		int err;

		if (run == 0) {
			i++;
			continue;
		}
		run = alloc_frames(wb, r, run, frames);
		err = run == 0 ? -ENOMEM : insert_frames(as, start + i, run, frames, out + i);
		if (err != 0) {
			put_pages(wb, out, n);
			return err;
		}
		missing -= run;
		i += run;
	}
	if (r != NULL) {
		r->fr_streak += n;
		r->fr_index = start + n;
	}
	return 0;
}

/* ---- Dirt ---- */

/* The page has become dirty; true if it was clean. */
static bool dirty_locked(struct address_space *as, struct page *page)
{
	if (page_flags(page) & PG_DIRTY)
		return false;
	ASSERT(!page_test(page, PG_WRITEBACK));
	page_set(page, PG_DIRTY);
	page_index_retag(&as->as_index, page->p_index, TAG_BIT(PAGE_TAG_DIRTY), 0);
	return true;
}

void set_pages_dirty(struct address_space *as, struct page *const *pages, unsigned n)
{
	unsigned newly = 0;

	mutex_lock(&as->as_lock);
	for (unsigned i = 0; i < n; i++)
		if (dirty_locked(as, pages[i]))
			newly++;
	atomic_fetch_add_explicit(&as->as_nr_dirty, newly, memory_order_seq_cst);
	mutex_unlock(&as->as_lock);
	if (newly == 0)
		return;
	account_page_dirtied(as->as_wb, newly);
	wb_mark_mapping_dirty(as);
}

void set_page_dirty(struct page *page, uint8_t mask)
{
	page->p_dirty |= mask;
	set_pages_dirty(page->p_mapping, &page, 1);
}

static void count_clean(struct address_space *as, unsigned n)
{
	atomic_fetch_sub_explicit(&as->as_nr_dirty, n, memory_order_relaxed);
	atomic_fetch_sub_explicit(&as->as_wb->wb_nr_dirty, n, memory_order_relaxed);
}

void clear_page_dirty(struct page *page)
{
	struct address_space *as = page->p_mapping;

	mutex_lock(&as->as_lock);
	if (page_flags(page) & PG_DIRTY) {
		page_clear(page, PG_DIRTY);
		page_index_retag(&as->as_index, page->p_index, 0,
				 TAG_BIT(PAGE_TAG_DIRTY) | TAG_BIT(PAGE_TAG_TOWRITE));
		count_clean(as, 1);
	}
	mutex_unlock(&as->as_lock);
	page->p_dirty = 0;
}

void set_pages_writeback(struct address_space *as, struct page *const *pages, unsigned n)
{
	struct wb_domain *wb = as->as_wb;

	mutex_lock(&as->as_lock);
	for (unsigned i = 0; i < n; i++) {
		struct page *page = pages[i];

		ASSERT(page_test(page, PG_DIRTY));
		page_set(page, PG_WRITEBACK);
		page_clear(page, PG_DIRTY);
		page_index_retag(&as->as_index, page->p_index, TAG_BIT(PAGE_TAG_WRITEBACK),
				 TAG_BIT(PAGE_TAG_DIRTY) | TAG_BIT(PAGE_TAG_TOWRITE));
	}
	/* Writeback up before dirty down: their sum is never too small. */
	atomic_fetch_add_explicit(&as->as_nr_writeback, n, memory_order_relaxed);
	atomic_fetch_add_explicit(&wb->wb_nr_writeback, n, memory_order_relaxed);
	count_clean(as, n);
	mutex_unlock(&as->as_lock);
}

void end_pages_writeback(struct address_space *as, struct page *const *pages, unsigned n)
{
	struct wb_domain *wb = as->as_wb;

	mutex_lock(&as->as_lock);
	for (unsigned i = 0; i < n; i++)
		page_index_retag(&as->as_index, pages[i]->p_index, 0, TAG_BIT(PAGE_TAG_WRITEBACK));
	atomic_fetch_sub_explicit(&as->as_nr_writeback, n, memory_order_relaxed);
	for (unsigned i = 0; i < n; i++)
		page_get(pages[i]); /* the flag is all that keeps them */
	for (unsigned i = 0; i < n; i++)
		clear_and_wake(pages[i], PG_WRITEBACK);
	/* Under as_lock: who waited to take such a page away finds it on the list. */
	page_lru_add(wb, pages, n);
	mutex_unlock(&as->as_lock);
	atomic_fetch_sub_explicit(&wb->wb_nr_writeback, n, memory_order_relaxed);
	atomic_fetch_add_explicit(&wb->wb_written, n, memory_order_relaxed);
	put_pages(wb, (struct page **)(uintptr_t)pages, n);
	throttle_progress(wb);
}

/* ---- Taking pages away ---- */

void delete_from_page_cache(struct page *page)
{
	struct address_space *as = page->p_mapping;
	struct wb_domain *wb = as->as_wb;

	ASSERT(page_test(page, PG_LOCKED));
	ASSERT(!page_test(page, PG_WRITEBACK));
	mutex_lock(&as->as_lock);
	lru_remove(wb, page);
	if (page_flags(page) & PG_DIRTY) {
		page_clear(page, PG_DIRTY);
		count_clean(as, 1);
	}
	page_index_remove(&as->as_index, page->p_index);
	as->as_nrpages--;
	page->p_mapping = NULL;
	mutex_unlock(&as->as_lock);
	page_clear(page, PG_UPTODATE);
	page->p_dirty = 0;
	page_put(wb, page);
}

static void truncate_one(struct address_space *as, struct page *page)
{
	wait_on_page_writeback(as, page);
	lock_page(page);
	if (page->p_mapping == as) {
		wait_on_page_writeback(as, page);
		delete_from_page_cache(page);
	}
	unlock_page(page);
}

void truncate_pages(struct address_space *as, uint32_t start, uint32_t last)
{
	struct page *pages[TRUNCATE_BATCH];
	uint64_t index = start;

	while (index <= last) {
		unsigned n = find_get_pages(as, (uint32_t)index, last, PAGE_TAG_ANY, pages,
					    TRUNCATE_BATCH);

		if (n == 0)
			break;
		index = (uint64_t)pages[n - 1]->p_index + 1;
		for (unsigned i = 0; i < n; i++) {
			truncate_one(as, pages[i]);
			page_put(as->as_wb, pages[i]);
		}
	}
	throttle_progress(as->as_wb);
}

static bool invalidate_one(struct address_space *as, struct page *page)
{
	bool gone = false;

	if (!trylock_page(page))
		return false;
	if (page->p_mapping == as) {
		mutex_lock(&as->as_lock);
		gone = detach_clean_locked(as, page, 2);
		mutex_unlock(&as->as_lock);
	} else {
		unlock_page(page);
		return true;
	}
	unlock_page(page);
	if (gone)
		page_put(as->as_wb, page);
	return gone;
}

int invalidate_pages(struct address_space *as, uint32_t start, uint32_t last)
{
	struct page *pages[TRUNCATE_BATCH];
	uint64_t index = start;
	int ret = 0;

	while (index <= last) {
		unsigned n = find_get_pages(as, (uint32_t)index, last, PAGE_TAG_ANY, pages,
					    TRUNCATE_BATCH);

		if (n == 0)
			break;
		index = (uint64_t)pages[n - 1]->p_index + 1;
		for (unsigned i = 0; i < n; i++) {
			if (!invalidate_one(as, pages[i]))
				ret = -EBUSY;
			page_put(as->as_wb, pages[i]);
		}
	}
	return ret;
}

void wb_drop_clean(struct inode *inode)
{
	if (inode->i_mapping != NULL)
		(void)invalidate_pages(inode->i_mapping, 0, PAGE_INDEX_MAX);
}

/* ---- Life of a mapping ---- */

int mapping_alloc(struct inode *inode, struct wb_domain *wb)
{
	struct address_space *as = calloc(1, sizeof(*as));

	if (as == NULL)
		return -ENOMEM;
	(void)pthread_once(&wait_queue_once, wait_queues_init);
	as->as_host = inode;
	as->as_wb = wb;
	as->as_blkbits = inode->i_sb->s_blocksize_bits < PAGE_SHIFT ? inode->i_sb->s_blocksize_bits
								    : PAGE_SHIFT;
	as->as_full_mask = (uint8_t)((1u << blocks_per_page(as)) - 1);
	mutex_init(&as->as_lock, LOCK_RANK_MAPPING);
	mutex_init(&as->as_end_lock, LOCK_RANK_LEAF);
	cond_init(&as->as_end_cond);
	rwsem_init(&as->as_invalidate_lock, LOCK_RANK_INVALIDATE);
	rwsem_init(&as->as_writepages_lock, LOCK_RANK_INVALIDATE);
	TAILQ_INIT(&as->as_ends);
	as->as_work.w_fn = conversion_work;
	wb_inode_init(&as->as_wi, inode);
	inode->i_mapping = as;
	return 0;
}

void wb_mapping_destroy(struct inode *inode)
{
	struct address_space *as = inode->i_mapping;

	wb_inode_detach(inode);
	if (as == NULL)
		return;
	truncate_pages(as, 0, PAGE_INDEX_MAX);
	/* After an abort what was delayed is lost with its pages. */
	if (ext4_inode_reserved_blocks(inode) > 0)
		(void)ext4_da_release_range(inode, 0, EXT4_MAX_BLOCKS - 1);
	ASSERT_CMP(as->as_nrpages, ==, 0u);
	ASSERT(!as->as_io_ref);
	arena_release_reserve(as->as_wb->wb_arena, &as->as_reserve);
	rwsem_destroy(&as->as_writepages_lock);
	rwsem_destroy(&as->as_invalidate_lock);
	cond_destroy(&as->as_end_cond);
	mutex_destroy(&as->as_end_lock);
	mutex_destroy(&as->as_lock);
	inode->i_mapping = NULL;
	free(as);
}
