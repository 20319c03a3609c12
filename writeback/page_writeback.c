/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * page_writeback.c - how much dirty memory is allowed, and who pays for exceeding it. Follows mm/page-writeback.c.
 *
 * The threshold is dirty_ratio per cent of RAM (or dirty_bytes), at most 80 % of the cache; background writeback starts at dirty_background_ratio, at most 40 %.
 * A writer counts what it dirties and looks at the limits only after its ratelimit of pages. What it then reads, and in which order, is balance_order:
 *
 *                bdi_first                                      global_first
 *   first        2 global reads (dirty, unstable)               3 global reads (dirty, unstable, writeback)
 *   bdi <= its threshold: dirty_exceeded is cleared, done       done
 *   over         a third read (writeback)                       -
 *   background   reuses the first                               2 more reads
 *   afterwards   -                                              dirty_exceeded is cleared if strictly below
 *
 * What follows from being over is throttle:
 *   ioless  the writer's answer is parked for the time that its pages cost at its share of the measured bandwidth, which falls to nothing at the limit; only background
 *           writeback writes
 *   2009    the writer writes a chunk itself, and if that did not help its answer is parked for 100 ms, then again; while dirty_exceeded is set the ratelimit is 8 pages
 *
 * A parked answer is a ticket; a timer thread wakes it at its deadline, after looking again, and when enough was written. No thread of the front waits.
 *
 * Invariants: (1) dirty pages and pages under writeback exceed the limit by at most one request for each writer: past the limit each request looks, and nobody is let go. (2) Each parked ticket is woken
 * exactly once. (3) A ticket that was taken off the list is not touched but by its t_wake.
 * Locking: wb_throttle_lock for tickets and bandwidth; counters are atomic; t_wake is called without locks.
 */
#include <stdlib.h>
#include <string.h>

#include "util/time.h"
#include "util/trace.h"
#include "writeback/internal.h"

#define CACHE_DIRTY_PERCENT 80u
#define CACHE_BACKGROUND_PERCENT 40u
#define RATELIMIT_PAGES 256u	    /* one request of the front */
#define RATELIMIT_EXCEEDED_PAGES 8u /* 2009, while dirty_exceeded */
#define WRITE_CHUNK_2009 (RATELIMIT_PAGES + RATELIMIT_PAGES / 2)
#define CONGESTION_WAIT_NS (100 * NS_PER_MS)
#define MAX_PAUSE_NS (200 * NS_PER_MS)
#define MIN_PAUSE_NS (10 * NS_PER_MS)
#define BANDWIDTH_INTERVAL_NS (200 * NS_PER_MS)
#define BANDWIDTH_PERIOD_NS (3 * NS_PER_SEC)
#define INIT_BW_PAGES (100u << (20 - PAGE_SHIFT)) /* 100 MB/s */
#define POS_SHIFT 10
#define IDLE_NS (3600 * NS_PER_SEC)

/* ---- Limits ---- */

static uint64_t limit_pages(struct wb_domain *wb, enum wb_tunable ratio, enum wb_tunable bytes,
			    unsigned cache_percent)
{
	uint64_t cap = (uint64_t)arena_total_frames(wb->wb_arena) * cache_percent / 100;
	uint64_t pages = wb_tun(wb, bytes) >> PAGE_SHIFT;

	if (wb_tun(wb, bytes) == 0)
		pages = (wb->wb_ram_bytes >> PAGE_SHIFT) * wb_tun(wb, ratio) / 100;
	if (pages > cap)
		pages = cap;
	return pages > 0 ? pages : 1;
}

void get_dirty_limits(struct wb_domain *wb, struct dirty_limits *dl)
{
	dl->dl_background = limit_pages(wb, TUN_DIRTY_BACKGROUND_RATIO, TUN_DIRTY_BACKGROUND_BYTES,
					CACHE_BACKGROUND_PERCENT);
	dl->dl_dirty = limit_pages(wb, TUN_DIRTY_RATIO, TUN_DIRTY_BYTES, CACHE_DIRTY_PERCENT);
	if (dl->dl_background >= dl->dl_dirty)
		dl->dl_background = dl->dl_dirty / 2;
	/* There is one device: its share is everything. */
	dl->dl_bdi = dl->dl_dirty;
}

void dirty_limits_changed(struct wb_domain *wb)
{
	struct dirty_limits dl;

	get_dirty_limits(wb, &dl);
	atomic_store_explicit(&wb->wb_dirty_limit, dl.dl_dirty, memory_order_relaxed);
}

static uint64_t positive(int64_t n)
{
	return n > 0 ? (uint64_t)n : 0;
}

static uint64_t nr_dirty(struct wb_domain *wb)
{
	return positive(atomic_load_explicit(&wb->wb_nr_dirty, memory_order_relaxed));
}

static uint64_t nr_writeback(struct wb_domain *wb)
{
	return positive(atomic_load_explicit(&wb->wb_nr_writeback, memory_order_relaxed));
}

bool over_bground_thresh(struct wb_domain *wb)
{
	struct dirty_limits dl;

	get_dirty_limits(wb, &dl);
	return nr_dirty(wb) > dl.dl_background;
}

void account_page_dirtied(struct wb_domain *wb, unsigned n)
{
	atomic_fetch_add_explicit(&wb->wb_nr_dirty, n, memory_order_relaxed);
	atomic_fetch_add_explicit(&wb->wb_dirtied, n, memory_order_relaxed);
}

/* ---- Bandwidth ---- */

/* dirty_ratelimit follows what each writer may do so that all together dirty as fast as the device writes. */
static void update_ratelimit(struct wb_bandwidth *bw, uint64_t dirtied, uint64_t elapsed)
{
	uint64_t dirty_rate = dirtied * NS_PER_SEC / elapsed, balanced;

	if (dirty_rate == 0)
		return;
	balanced = bw->bw_ratelimit * bw->bw_write / dirty_rate;
	if (balanced > bw->bw_write)
		balanced = bw->bw_write;
	bw->bw_balanced = balanced;
	/* A quarter of the way: one bad measurement does not stop everybody. */
	bw->bw_ratelimit = (3 * bw->bw_ratelimit + balanced) / 4;
	if (bw->bw_ratelimit == 0)
		bw->bw_ratelimit = 1;
}

static void update_locked(struct wb_domain *wb, uint64_t now)
{
	struct wb_bandwidth *bw = &wb->wb_bw;
	uint64_t written = atomic_load_explicit(&wb->wb_written, memory_order_relaxed);
	uint64_t dirtied = atomic_load_explicit(&wb->wb_dirtied, memory_order_relaxed);
	uint64_t elapsed = now - bw->bw_time_ns, rate;

	/* The clock was read before the lock was taken: somebody else may be ahead. */
	if (now < bw->bw_time_ns || elapsed < BANDWIDTH_INTERVAL_NS)
		return;
	/* After a pause the old stamps say nothing of the device. */
	if (elapsed < NS_PER_SEC && written > bw->bw_written_stamp) {
		rate = (written - bw->bw_written_stamp) * NS_PER_SEC / elapsed;
		bw->bw_write = (rate * elapsed + bw->bw_write * (BANDWIDTH_PERIOD_NS - elapsed)) /
			       BANDWIDTH_PERIOD_NS;
		if (bw->bw_avg > bw->bw_write)
			bw->bw_avg -= (bw->bw_avg - bw->bw_write) / 8;
		else
			bw->bw_avg += (bw->bw_write - bw->bw_avg) / 8;
		if (bw->bw_write == 0)
			bw->bw_write = 1;
		update_ratelimit(bw, dirtied - bw->bw_dirtied_stamp, elapsed);
	}
	bw->bw_time_ns = now;
	bw->bw_written_stamp = written;
	bw->bw_dirtied_stamp = dirtied;
}

void wb_update_bandwidth(struct wb_domain *wb, uint64_t now)
{
	mutex_lock(&wb->wb_throttle_lock);
	update_locked(wb, now);
	mutex_unlock(&wb->wb_throttle_lock);
}

uint64_t wb_avg_bandwidth(struct wb_domain *wb)
{
	uint64_t avg;

	mutex_lock(&wb->wb_throttle_lock);
	avg = wb->wb_bw.bw_avg;
	mutex_unlock(&wb->wb_throttle_lock);
	return avg;
}

/* ---- What a writer reads ---- */

struct balance {
	struct wb_domain *ba_wb;
	struct dirty_limits ba_dl;
	bool ba_bdi_first;
	uint64_t ba_reclaimable, ba_writeback; /* global */
	uint64_t ba_bdi;		       /* dirty and under writeback, of the device */
	uint64_t ba_bdi_reclaimable;
	uint64_t ba_ratelimit, ba_task_ratelimit; /* pages/s; ioless, over the limit */
	unsigned ba_reads;
};

enum global_item { NR_FILE_DIRTY, NR_UNSTABLE, NR_WRITEBACK };

/* Each call is one read of a counter that all processors share. */
static uint64_t global_page_state(struct balance *ba, enum global_item item)
{
	ba->ba_reads++;
	switch (item) {
	case NR_FILE_DIRTY:
		return nr_dirty(ba->ba_wb);
	case NR_WRITEBACK:
		return nr_writeback(ba->ba_wb);
	default:
		return 0; /* nothing is ever written and not yet stable here */
	}
}

static void read_bdi(struct balance *ba)
{
	ba->ba_bdi_reclaimable = nr_dirty(ba->ba_wb);
	ba->ba_bdi = ba->ba_bdi_reclaimable + nr_writeback(ba->ba_wb);
}

static void read_reclaimable(struct balance *ba)
{
	ba->ba_reclaimable =
		global_page_state(ba, NR_FILE_DIRTY) + global_page_state(ba, NR_UNSTABLE);
}

static void set_dirty_exceeded(struct wb_domain *wb, bool on)
{
	if (atomic_load_explicit(&wb->wb_dirty_exceeded, memory_order_relaxed) == on)
		return;
	atomic_store_explicit(&wb->wb_dirty_exceeded, on, memory_order_relaxed);
	counter_inc(on ? &wb->wb_stats.ws_dirty_exceeded_set
		       : &wb->wb_stats.ws_dirty_exceeded_cleared);
}

/* The first look. False: the device is at or below `limit`, nothing to wait for. */
static bool over_limit(struct balance *ba, uint64_t limit)
{
	if (ba->ba_bdi_first) {
		read_bdi(ba);
		read_reclaimable(ba);
	} else {
		read_reclaimable(ba);
		ba->ba_writeback = global_page_state(ba, NR_WRITEBACK);
		read_bdi(ba);
	}
	if (ba->ba_bdi_first && ba->ba_bdi <= ba->ba_dl.dl_bdi)
		set_dirty_exceeded(ba->ba_wb, false);
	if (ba->ba_bdi <= limit)
		return false;
	if (ba->ba_bdi_first)
		ba->ba_writeback = global_page_state(ba, NR_WRITEBACK);
	return true;
}

/* What follows the loop once the writer may go: who clears dirty_exceeded, and whether background writeback is due. */
static void after_loop(struct balance *ba)
{
	struct wb_domain *wb = ba->ba_wb;

	if (!ba->ba_bdi_first && ba->ba_bdi < ba->ba_dl.dl_bdi)
		set_dirty_exceeded(wb, false);
	if (!ba->ba_bdi_first)
		read_reclaimable(ba);
	if (ba->ba_reclaimable > ba->ba_dl.dl_background)
		wb_start_background(wb);
}

/* The end of one look. */
static void end_balance(struct balance *ba, bool may_go)
{
	struct wb_domain *wb = ba->ba_wb;

	if (may_go)
		after_loop(ba);
	counter_add(&wb->wb_stats.ws_global_reads, ba->ba_reads);
	counter_max(&wb->wb_stats.ws_global_reads_max, ba->ba_reads);
}

static void begin_balance(struct balance *ba, struct wb_domain *wb)
{
	memset(ba, 0, sizeof(*ba));
	ba->ba_wb = wb;
	ba->ba_bdi_first = wb_tun(wb, TUN_BALANCE_ORDER) == ORDER_BDI_FIRST;
	get_dirty_limits(wb, &ba->ba_dl);
	counter_inc(&wb->wb_stats.ws_balance_full);
	TRACE(global_dirty_state, .nr_dirty = nr_dirty(wb), .nr_writeback = nr_writeback(wb),
	      .background_thresh = ba->ba_dl.dl_background, .dirty_thresh = ba->ba_dl.dl_dirty,
	      .dirty_limit = ba->ba_dl.dl_dirty, .nr_dirtied = atomic_load(&wb->wb_dirtied),
	      .nr_written = atomic_load(&wb->wb_written));
}

/* ---- ioless ---- */

static uint64_t freerun(const struct dirty_limits *dl)
{
	return (dl->dl_background + dl->dl_dirty) / 2;
}

/* 1 + ((setpoint - dirty) / (limit - setpoint))^3 in units of 1 << POS_SHIFT; 0 at the limit. */
static uint64_t pos_ratio(const struct balance *ba, uint64_t dirty)
{
	int64_t limit = (int64_t)ba->ba_dl.dl_dirty;
	int64_t setpoint = ((int64_t)freerun(&ba->ba_dl) + limit) / 2, x, pos;

	if ((int64_t)dirty >= limit)
		return 0;
	x = (setpoint - (int64_t)dirty) * (1 << POS_SHIFT) / (limit - setpoint + 1);
	pos = x * x / (1 << POS_SHIFT) * x / (1 << POS_SHIFT) + (1 << POS_SHIFT);
	if (pos < 0)
		return 0;
	return pos > 2 << POS_SHIFT ? 2 << POS_SHIFT : (uint64_t)pos;
}

/* How long a writer of `pages` waits; 0: not at all. *again: look again at the end. */
static uint64_t pause_ns(struct balance *ba, uint32_t pages, bool *again)
{
	struct wb_domain *wb = ba->ba_wb;
	uint64_t dirty = ba->ba_reclaimable + ba->ba_writeback, rate, ns;

	*again = false;
	if (dirty > ba->ba_dl.dl_dirty)
		set_dirty_exceeded(wb, true);
	mutex_lock(&wb->wb_throttle_lock);
	update_locked(wb, now_ns());
	ba->ba_ratelimit = wb->wb_bw.bw_ratelimit;
	rate = ba->ba_ratelimit * pos_ratio(ba, dirty) >> POS_SHIFT;
	mutex_unlock(&wb->wb_throttle_lock);
	ba->ba_task_ratelimit = rate;
	if (rate == 0) {
		*again = true;
		return MAX_PAUSE_NS;
	}
	ns = pages * NS_PER_SEC / rate;
	return ns < MAX_PAUSE_NS ? ns : MAX_PAUSE_NS;
}

/* The writer of `pages` is over the limit and is told to wait so long. */
static void trace_pause(const struct balance *ba, uint32_t pages, uint64_t ns)
{
	uint64_t setpoint = (freerun(&ba->ba_dl) + ba->ba_dl.dl_dirty) / 2;

	TRACE(balance_dirty_pages, .bdi = ba->ba_wb->wb_sb->s_dev->bd_dev,
	      .limit = ba->ba_dl.dl_dirty, .setpoint = setpoint,
	      .dirty = ba->ba_reclaimable + ba->ba_writeback, .bdi_setpoint = setpoint,
	      .bdi_dirty = ba->ba_bdi, .dirty_ratelimit = ba->ba_ratelimit * (PAGE_SIZE / 1024),
	      .task_ratelimit = ba->ba_task_ratelimit * (PAGE_SIZE / 1024), .dirtied = pages,
	      .dirtied_pause = pages, .pause = (int64_t)(ns / NS_PER_MS), .period = ns / NS_PER_MS);
}

static unsigned log2_floor(uint64_t n)
{
	return n > 0 ? 63u - (unsigned)__builtin_clzll(n) : 0;
}

/* Pages until the next look: fewer the nearer the limit is. */
static uint32_t dirty_poll_interval(uint64_t dirty, uint64_t thresh)
{
	uint32_t n = thresh > dirty ? 1u << (log2_floor(thresh - dirty) / 2) : 1;

	return n < RATELIMIT_PAGES ? n : RATELIMIT_PAGES;
}

/* 0: go on; else the time to wait. td: the writer's first look, NULL: a later one, after which it goes unless *again. */
static uint64_t balance_ioless(struct wb_domain *wb, struct task_dirty *td, uint32_t pages,
			       bool *again)
{
	struct balance ba;
	uint64_t ns = 0;

	*again = false;
	begin_balance(&ba, wb);
	if (over_limit(&ba, freerun(&ba.ba_dl))) {
		wb_start_background(wb);
		ns = pause_ns(&ba, pages, again);
		trace_pause(&ba, pages, ns);
		/* Too short to be worth it: next time after twice as many pages. */
		if (ns < MIN_PAUSE_NS && td != NULL) {
			uint32_t next = pages * 2 < RATELIMIT_PAGES ? pages * 2 : RATELIMIT_PAGES;

			atomic_store_explicit(&td->td_pause_pages, next, memory_order_relaxed);
			ns = 0;
		}
	} else if (td != NULL) {
		atomic_store_explicit(&td->td_pause_pages,
				      dirty_poll_interval(ba.ba_bdi, ba.ba_dl.dl_dirty),
				      memory_order_relaxed);
	}
	end_balance(&ba, td != NULL ? ns == 0 : !*again);
	return ns;
}

/* ---- 2009 ---- */

/*
 * One turn of the loop of 2.6.31. True: the writer may go on. A writer that had a whole chunk written had "done its duty" then and went on although the device was still
 * over its threshold; here the limit is kept by all.
 */
static bool balance_2009(struct wb_domain *wb)
{
	struct balance ba;
	bool done = true;

	begin_balance(&ba, wb);
	if (over_limit(&ba, ba.ba_dl.dl_bdi) &&
	    ba.ba_reclaimable + ba.ba_writeback >= freerun(&ba.ba_dl)) {
		set_dirty_exceeded(wb, true);
		if (ba.ba_bdi_reclaimable > ba.ba_dl.dl_bdi) {
			struct writeback_control wbc = {.nr_to_write = WRITE_CHUNK_2009};

			(void)writeback_inodes_wbc(wb, &wbc);
			get_dirty_limits(wb, &ba.ba_dl);
		}
		read_bdi(&ba);
		done = ba.ba_bdi <= ba.ba_dl.dl_bdi;
		trace_pause(&ba, RATELIMIT_PAGES, done ? 0 : CONGESTION_WAIT_NS);
	}
	end_balance(&ba, done);
	return done;
}

/* ---- Parking ---- */

static void park(struct wb_domain *wb, struct wb_throttle_ticket *t, uint64_t ns)
{
	uint64_t now = now_ns();

	counter_inc(&wb->wb_stats.ws_pauses);
	mutex_lock(&wb->wb_throttle_lock);
	t->t_start_ns = now;
	t->t_deadline_ns = now + ns;
	t->t_parked = true;
	TAILQ_INSERT_TAIL(&wb->wb_tickets, t, t_link);
	atomic_fetch_add(&wb->wb_nr_parked, 1);
	wb->wb_kick_timer = true;
	cond_signal(&wb->wb_throttle_cond);
	mutex_unlock(&wb->wb_throttle_lock);
}

static void unlist_locked(struct wb_domain *wb, struct wb_throttle_ticket *t)
{
	uint64_t ns = now_ns() - t->t_start_ns;

	TAILQ_REMOVE(&wb->wb_tickets, t, t_link);
	t->t_parked = false;
	atomic_fetch_sub(&wb->wb_nr_parked, 1);
	counter_add(&wb->wb_stats.ws_pause_ns, ns);
	counter_max(&wb->wb_stats.ws_pause_max_ns, ns);
}

bool wb_unpark(struct super_block *sb, struct wb_throttle_ticket *ticket, int err)
{
	struct wb_domain *wb = sb->s_wb;
	bool parked;

	mutex_lock(&wb->wb_throttle_lock);
	parked = ticket->t_parked;
	if (parked)
		unlist_locked(wb, ticket);
	mutex_unlock(&wb->wb_throttle_lock);
	if (!parked)
		return false;
	counter_inc(&wb->wb_stats.ws_unparked);
	ticket->t_wake(ticket, err);
	return true;
}

void throttle_progress(struct wb_domain *wb)
{
	struct dirty_limits dl;

	if (atomic_load_explicit(&wb->wb_nr_parked, memory_order_relaxed) == 0)
		return;
	get_dirty_limits(wb, &dl);
	if (nr_dirty(wb) + nr_writeback(wb) > freerun(&dl))
		return;
	mutex_lock(&wb->wb_throttle_lock);
	wb->wb_kick_timer = true;
	cond_signal(&wb->wb_throttle_cond);
	mutex_unlock(&wb->wb_throttle_lock);
}

/* ---- The writer ---- */

static struct task_dirty *task_of(struct wb_domain *wb, uint32_t task)
{
	struct task_dirty *td = &wb->wb_task[task * 2654435761u >> 24];

	if (atomic_load_explicit(&td->td_task, memory_order_relaxed) != task) {
		atomic_store_explicit(&td->td_task, task, memory_order_relaxed);
		atomic_store_explicit(&td->td_dirtied, 0, memory_order_relaxed);
		atomic_store_explicit(&td->td_pause_pages, 0, memory_order_relaxed);
	}
	return td;
}

static uint32_t ratelimit(struct wb_domain *wb, struct task_dirty *td)
{
	bool exceeded = atomic_load_explicit(&wb->wb_dirty_exceeded, memory_order_relaxed);
	uint32_t pages = atomic_load_explicit(&td->td_pause_pages, memory_order_relaxed);

	if (wb_tun(wb, TUN_THROTTLE) == THROTTLE_2009 || pages == 0)
		pages = RATELIMIT_PAGES;
	return exceeded && pages > RATELIMIT_EXCEEDED_PAGES ? RATELIMIT_EXCEEDED_PAGES : pages;
}

/* The ratelimits of many writers must not add up beyond the limit. */
static bool past_limit(struct wb_domain *wb)
{
	return nr_dirty(wb) + nr_writeback(wb) >
	       atomic_load_explicit(&wb->wb_dirty_limit, memory_order_relaxed);
}

/* Nobody else writes in a simulation: the writer does, until it is below the limit. */
static void balance_manual(struct wb_domain *wb)
{
	struct dirty_limits dl;
	bool progress = true;

	get_dirty_limits(wb, &dl);
	while (progress && nr_dirty(wb) + nr_writeback(wb) > dl.dl_dirty) {
		struct writeback_control wbc = {.nr_to_write = WRITE_CHUNK_2009};

		progress = writeback_inodes_wbc(wb, &wbc) > 0;
		wb_run_completions(wb->wb_sb);
	}
}

int balance_dirty_pages_ratelimited(struct inode *inode, unsigned nr_pages,
				    struct wb_throttle_ticket *ticket)
{
	struct wb_domain *wb = inode->i_sb->s_wb;
	struct task_dirty *td = task_of(wb, ticket->t_task);
	uint32_t dirtied =
		atomic_fetch_add_explicit(&td->td_dirtied, nr_pages, memory_order_relaxed) +
		nr_pages;
	uint64_t ns;
	bool again;

	counter_inc(&wb->wb_stats.ws_balance_calls);
	if (dirtied < ratelimit(wb, td) && !past_limit(wb))
		return 0;
	atomic_store_explicit(&td->td_dirtied, 0, memory_order_relaxed);
	lock_assert_none_from(LOCK_RANK_I_RWSEM);
	if (wb->wb_manual) {
		balance_manual(wb);
		return 0;
	}
	if (wb_tun(wb, TUN_THROTTLE) == THROTTLE_2009) {
		if (balance_2009(wb))
			return 0;
		ns = CONGESTION_WAIT_NS;
	} else {
		ticket->t_pages = dirtied;
		ns = balance_ioless(wb, td, dirtied, &again);
		if (ns == 0)
			return 0;
	}
	park(wb, ticket, ns);
	return 1;
}

/* ---- The timer ---- */

/* May a ticket whose time has come, or that is below the threshold, go? Otherwise its next deadline. Called without locks. */
static bool may_go(struct wb_domain *wb, uint32_t pages, uint64_t *next_ns)
{
	bool again = false;
	uint64_t ns;

	if (wb_tun(wb, TUN_THROTTLE) == THROTTLE_2009) {
		*next_ns = CONGESTION_WAIT_NS;
		return balance_2009(wb);
	}
	ns = balance_ioless(wb, NULL, pages, &again);
	*next_ns = ns;
	return !again;
}

/* The first ticket that is due, or, below the threshold, any. */
static struct wb_throttle_ticket *due_ticket_locked(struct wb_domain *wb, uint64_t now,
						    uint64_t *deadline)
{
	struct wb_throttle_ticket *t;
	struct dirty_limits dl;
	bool free_run;

	get_dirty_limits(wb, &dl);
	free_run = nr_dirty(wb) + nr_writeback(wb) <= freerun(&dl);
	*deadline = now + IDLE_NS;
	TAILQ_FOREACH (t, &wb->wb_tickets, t_link) {
		if (free_run || t->t_deadline_ns <= now)
			return t;
		if (t->t_deadline_ns < *deadline)
			*deadline = t->t_deadline_ns;
	}
	return NULL;
}

static bool still_parked_locked(struct wb_domain *wb, const struct wb_throttle_ticket *want)
{
	const struct wb_throttle_ticket *t;

	TAILQ_FOREACH (t, &wb->wb_tickets, t_link)
		if (t == want)
			return true;
	return false;
}

/* Let one due ticket go, or give it a new deadline. wb_throttle_lock held, dropped meanwhile. */
static void serve_ticket_locked(struct wb_domain *wb, struct wb_throttle_ticket *t)
{
	uint32_t pages = t->t_pages;
	uint64_t next = 0;
	bool go;

	mutex_unlock(&wb->wb_throttle_lock);
	go = may_go(wb, pages, &next);
	mutex_lock(&wb->wb_throttle_lock);
	/* Somebody may have answered it meanwhile; the memory need not be a ticket any more. */
	if (!still_parked_locked(wb, t))
		return;
	if (!go) {
		t->t_deadline_ns = now_ns() + next;
		return;
	}
	unlist_locked(wb, t);
	mutex_unlock(&wb->wb_throttle_lock);
	t->t_wake(t, 0);
	mutex_lock(&wb->wb_throttle_lock);
}

static void *timer_main(void *arg)
{
	struct wb_domain *wb = arg;

	pthread_setname_np(pthread_self(), "ext4d-throttle");
	mutex_lock(&wb->wb_throttle_lock);
	while (!wb->wb_timer_stop) {
		uint64_t deadline;
		struct wb_throttle_ticket *t;

		wb->wb_kick_timer = false;
		t = due_ticket_locked(wb, now_ns(), &deadline);
		if (t != NULL)
			serve_ticket_locked(wb, t);
		else if (!wb->wb_kick_timer)
			(void)cond_timedwait(&wb->wb_throttle_cond, &wb->wb_throttle_lock,
					     deadline);
	}
	mutex_unlock(&wb->wb_throttle_lock);
	return NULL;
}

void throttle_init(struct wb_domain *wb)
{
	mutex_init(&wb->wb_throttle_lock, LOCK_RANK_WB);
	cond_init(&wb->wb_throttle_cond);
	TAILQ_INIT(&wb->wb_tickets);
	wb->wb_bw.bw_time_ns = now_ns();
	wb->wb_bw.bw_write = INIT_BW_PAGES;
	wb->wb_bw.bw_avg = INIT_BW_PAGES;
	wb->wb_bw.bw_ratelimit = INIT_BW_PAGES;
	wb->wb_bw.bw_balanced = INIT_BW_PAGES;
}

int throttle_start(struct wb_domain *wb)
{
	return -pthread_create(&wb->wb_timer, NULL, timer_main, wb);
}

/* Everybody is let go; the timer ends. */
void throttle_stop(struct wb_domain *wb)
{
	struct wb_throttle_ticket *t;

	mutex_lock(&wb->wb_throttle_lock);
	wb->wb_timer_stop = true;
	cond_signal(&wb->wb_throttle_cond);
	while ((t = TAILQ_FIRST(&wb->wb_tickets)) != NULL) {
		unlist_locked(wb, t);
		mutex_unlock(&wb->wb_throttle_lock);
		t->t_wake(t, 0);
		mutex_lock(&wb->wb_throttle_lock);
	}
	mutex_unlock(&wb->wb_throttle_lock);
	pthread_join(wb->wb_timer, NULL);
}
