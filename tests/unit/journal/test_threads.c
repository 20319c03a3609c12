/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * test_threads.c - many handles at once, on a log that is as small as it may be.
 *
 * Blocks hold counters. A handle adds 1 to two of them; the sum over all blocks is therefore even
 * after every commit, whatever else is under way, and in the end each block has what was added.
 */
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "tests/lib/crash.h"
#include "tests/lib/prng.h"
#include "tests/lib/slowdev.h"
#include "tests/lib/suite.h"
#include "tests/lib/testlib.h"
#include "tests/unit/journal/fixture.h"
#include "util/time.h"

#define THREADS 8u
#define BLOCKS 64u
#define FREED_BASE 200u /* blocks that are freed and taken again, some for each thread */
#define FREED_EACH 8u

struct work {
	struct fixture w_f;
	unsigned w_rounds;
	bool w_syncs;
	_Atomic unsigned w_next; /* thread numbers */
	_Atomic uint64_t w_added[BLOCKS];
	_Atomic int w_open; /* handles open now */
	_Atomic bool w_frozen;
	_Atomic bool w_stop;
};

static void add_one(struct work *w, handle_t *h, unsigned b)
{
	struct buffer_head *bh = bh_read(w->w_f.f_cache, FX_META + b);

	ck_assert(!IS_ERR(bh));
	ck_assert_int_eq(jbd2_journal_get_write_access(h, bh), 0);
	lock_buffer(bh);
	put_be64(bh->b_data + 8, get_be64(bh->b_data + 8) + 1);
	unlock_buffer(bh);
	ck_assert_int_eq(jbd2_journal_dirty_metadata(h, bh), 0);
	bh_put(bh);
	atomic_fetch_add(&w->w_added[b], 1);
}

static void opened(struct work *w)
{
	atomic_fetch_add(&w->w_open, 1);
	ck_assert(!atomic_load(&w->w_frozen));
}

static void add_pair(struct work *w, struct prng *p, handle_t *h)
{
	unsigned a = (unsigned)prng_below(p, BLOCKS);

	opened(w);
	add_one(w, h, a);
	add_one(w, h, (a + 1 + (unsigned)prng_below(p, BLOCKS - 1)) % BLOCKS);
	atomic_fetch_sub(&w->w_open, 1);
}

static void count_cb(struct jbd2_commit_cb *cb, int error)
{
	(void)error;
	free(cb);
}

/* Take a block of this thread's own, and free it, in two handles. */
static void take_and_free(struct work *w, struct prng *p, unsigned thread)
{
	uint64_t blocknr = FX_META + FREED_BASE + thread * FREED_EACH + prng_below(p, FREED_EACH);
	struct jbd2_commit_cb *cb = calloc(1, sizeof(*cb));
	struct buffer_head *bh = bh_get(w->w_f.f_cache, blocknr);
	handle_t *h = fx_start(&w->w_f, 1);

	ck_assert_int_eq(jbd2_journal_get_create_access(h, bh), 0);
	lock_buffer(bh);
	memset(bh->b_data, (int)thread + 1, bh->b_size);
	bh_set(bh, BH_UPTODATE);
	unlock_buffer(bh);
	ck_assert_int_eq(jbd2_journal_dirty_metadata(h, bh), 0);
	ck_assert_int_eq(jbd2_journal_stop(h), 0);
	h = jbd2_journal_start(w->w_f.f_j, HT_TRUNCATE, 2, 1);
	ck_assert(!IS_ERR(h));
	cb->cb_fn = count_cb;
	ck_assert_int_eq(jbd2_journal_revoke(h, blocknr, bh), 0);
	jbd2_journal_callback_add(h, cb);
	ck_assert_int_eq(jbd2_journal_stop(h), 0);
}

static void reserve_and_use(struct work *w, struct prng *p)
{
	handle_t *rsv = jbd2_journal_reserve(w->w_f.f_j, 2);
	handle_t *h;

	ck_assert(!IS_ERR(rsv));
	/* What a writer does between: a handle of its own. */
	h = fx_start(&w->w_f, 2);
	add_pair(w, p, h);
	ck_assert_int_eq(jbd2_journal_stop(h), 0);
	if (prng_chance(p, 1, 4)) {
		jbd2_journal_free_reserved(rsv);
		return;
	}
	ck_assert_int_eq(jbd2_journal_start_reserved(rsv, HT_EXT_CONVERT), 0);
	add_pair(w, p, rsv);
	ck_assert_int_eq(jbd2_journal_stop(rsv), 0);
}

static void long_operation(struct work *w, struct prng *p)
{
	handle_t *h = fx_start(&w->w_f, 2);

	for (unsigned i = 0; i < 6; i++) {
		add_pair(w, p, h);
		if (jbd2_journal_extend(h, 2, 0) == 0)
			continue;
		ck_assert_int_eq(jbd2_journal_restart(h, 2, 0), 0);
	}
	ck_assert_int_eq(jbd2_journal_stop(h), 0);
}

static void plain_operation(struct work *w, struct prng *p)
{
	handle_t *h = fx_start(&w->w_f, (unsigned)prng_range(p, 2, 60));
	tid_t tid = jbd2_handle_tid(h);

	add_pair(w, p, h);
	if (w->w_syncs && prng_chance(p, 1, 60))
		jbd2_handle_set_sync(h);
	ck_assert_int_eq(jbd2_journal_stop(h), 0);
	if (w->w_syncs && prng_chance(p, 1, 30))
		ck_assert_int_eq(jbd2_complete_transaction(w->w_f.f_j, tid), 0);
}

static void *worker(void *arg)
{
	struct work *w = arg;
	unsigned thread = atomic_fetch_add(&w->w_next, 1);
	struct prng p;

	prng_seed(&p, 99 + thread);
	for (unsigned i = 0; i < w->w_rounds; i++) {
		switch (prng_below(&p, 12)) {
		case 0:
			take_and_free(w, &p, thread);
			break;
		case 1:
			reserve_and_use(w, &p);
			break;
		case 2:
			long_operation(w, &p);
			break;
		default:
			plain_operation(w, &p);
		}
	}
	return NULL;
}

static void load(struct work *w, const struct fx_shape *shape)
{
	memset(w, 0, sizeof(*w));
	fx_format(&w->w_f, shape);
	w->w_f.f_params.jp_manual_commit = false;
	w->w_f.f_params.jp_max_batch_us = 1000;
}

static void run_workers(struct work *w, void *(*extra)(void *))
{
	pthread_t thread[THREADS + 1];

	for (unsigned i = 0; i < THREADS; i++)
		ck_assert_int_eq(pthread_create(&thread[i], NULL, worker, w), 0);
	if (extra != NULL)
		ck_assert_int_eq(pthread_create(&thread[THREADS], NULL, extra, w), 0);
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	atomic_store(&w->w_stop, true);
	if (extra != NULL)
		pthread_join(thread[THREADS], NULL);
}

static uint64_t counter_on(struct blkdev *dev, uint32_t block_bytes, unsigned b)
{
	uint8_t buf[4096];

	fx_read_raw(dev, block_bytes, FX_META + b, buf);
	return get_be64(buf + 8);
}

static void check_all_added(struct work *w)
{
	for (unsigned b = 0; b < BLOCKS; b++)
		ck_assert_uint_eq(counter_on(w->w_f.f_dev, w->w_f.f_shape.fs_block_bytes, b),
				  atomic_load(&w->w_added[b]));
}

START_TEST(eight_threads_on_the_smallest_log)
{
	static const struct fx_shape shapes[] = {
		{.fs_block_bytes = 1024, .fs_incompat = JBD2_FEATURE_INCOMPAT_CSUM_V3},
		{.fs_block_bytes = 1024, .fs_no_log = true}};
	static struct work w;
	const char *full_size = getenv("EXT4D_TEST_FULL");
	const bool full = full_size != NULL && full_size[0] == '1';
	uint64_t logged;

	load(&w, &shapes[_i]);
	/* Ten times round the log, or more than fifty. */
	w.w_rounds = full ? 10000 : 1500;
	w.w_syncs = true;
	fx_load(&w.w_f);
	run_workers(&w, NULL);
	logged = counter_read(&jbd2_stats(w.w_f.f_j)->js_blocks_logged);
	if (!shapes[_i].fs_no_log)
		ck_assert_uint_gt(logged, (full ? 50 : 5) * UINT64_C(1024));
	ck_assert_int_eq(atomic_load(&w.w_f.f_j->j_reserved_credits), 0);
	ck_assert_int_eq(fx_unload(&w.w_f), 0);
	ck_assert_int_eq(w.w_f.f_aborts, 0);
	check_all_added(&w);
	fx_close(&w.w_f);
}
END_TEST

static void *freezer(void *arg)
{
	struct work *w = arg;

	while (!atomic_load(&w->w_stop)) {
		jbd2_journal_lock_updates(w->w_f.f_j);
		ck_assert_int_eq(atomic_load(&w->w_open), 0);
		atomic_store(&w->w_frozen, true);
		ck_assert_int_eq(jbd2_journal_flush(w->w_f.f_j), 0);
		ck_assert_uint_eq(fx_sb_field(&w->w_f, FX_SB(s_start)), 0);
		usleep(2000);
		ck_assert_int_eq(atomic_load(&w->w_open), 0);
		atomic_store(&w->w_frozen, false);
		jbd2_journal_unlock_updates(w->w_f.f_j);
		usleep(1000);
	}
	return NULL;
}

START_TEST(a_frozen_journal_has_no_handle_and_an_empty_log)
{
	static const struct fx_shape shape = {.fs_block_bytes = 1024};
	static struct work w;

	load(&w, &shape);
	w.w_rounds = 400;
	fx_load(&w.w_f);
	run_workers(&w, freezer);
	ck_assert_int_eq(fx_unload(&w.w_f), 0);
	check_all_added(&w);
	fx_close(&w.w_f);
}
END_TEST

START_TEST(each_cut_of_a_threaded_run_has_whole_handles)
{
	static const struct fx_shape shape = {.fs_block_bytes = 1024,
					      .fs_incompat = JBD2_FEATURE_INCOMPAT_CSUM_V3};
	static struct work w;
	struct blkdev *base, *image;
	struct prng p;
	size_t total, from = 0;

	prng_seed(&p, 3);
	load(&w, &shape);
	base = testlib_clone(w.w_f.f_dev);
	image = testlib_clone(base);
	fx_use(&w.w_f, log_open_memory(w.w_f.f_dev));
	w.w_rounds = 150;
	fx_load(&w.w_f);
	run_workers(&w, NULL);
	ck_assert_int_eq(fx_unload(&w.w_f), 0);
	ck_assert_uint_eq(log_unstable_writes(w.w_f.f_dev), 0);
	total = log_entry_count(w.w_f.f_dev);
	for (size_t n = 0; n <= total; n++) {
		size_t barrier = crash_barrier(w.w_f.f_dev, n);
		struct fixture g = w.w_f;
		uint64_t sum = 0;

		if (barrier > from) {
			crash_replay(w.w_f.f_dev, from, barrier, base);
			from = barrier;
		}
		memcpy(mem_data(image), mem_data(base), image->bd_size_bytes);
		crash_apply_from(w.w_f.f_dev, from, n, CRASH_RANDOM, &p, image);
		fx_use(&g, image);
		ck_assert_int_eq(fx_recover(&g), 0);
		for (unsigned b = 0; b < BLOCKS; b++)
			sum += counter_on(image, 1024, b);
		if (sum % 2 != 0)
			ck_abort_msg("cut at %zu: half a handle", n);
	}
	blk_close(image);
	blk_close(base);
	fx_close(&w.w_f);
}
END_TEST

START_TEST(a_transaction_commits_when_its_time_is_over)
{
	static const struct fx_shape shape = {.fs_block_bytes = 1024};
	struct work *w = malloc(sizeof(*w));
	uint64_t start = now_ns();
	tid_t tid;

	load(w, &shape);
	w->w_f.f_params.jp_commit_interval_ms = 60;
	fx_load(&w->w_f);
	tid = fx_write_one(&w->w_f, FX_META, 1);
	while (counter_read(&jbd2_stats(w->w_f.f_j)->js_commits) == 0)
		usleep(1000);
	ck_assert(!jbd2_transaction_pending(w->w_f.f_j, tid));
	ck_assert_uint_ge(now_ns() - start, 50000000);
	/* A transaction without content is not committed for its age. */
	ck_assert_int_eq(jbd2_journal_stop(fx_start(&w->w_f, 3)), 0);
	usleep(200000);
	ck_assert_uint_eq(counter_read(&jbd2_stats(w->w_f.f_j)->js_commits), 1);
	/* The new interval holds for the running transaction too. */
	jbd2_set_times(w->w_f.f_j, 100000, 0, 0);
	tid = fx_write_one(&w->w_f, FX_META, 2);
	usleep(100000);
	ck_assert(jbd2_transaction_pending(w->w_f.f_j, tid));
	jbd2_set_times(w->w_f.f_j, 1, 0, 0);
	while (jbd2_transaction_pending(w->w_f.f_j, tid))
		usleep(1000);
	ck_assert_int_eq(fx_unload(&w->w_f), 0);
	fx_close(&w->w_f);
	free(w);
}
END_TEST

/* Waits until s_start on the device is zero, or not; 20 s at most. The device is looked at when nothing is on its way to it. */
static bool log_becomes_empty(struct fixture *f, bool empty)
{
	for (unsigned i = 0; i < 20000; i++) {
		bool flushed, busy;

		mutex_lock(&f->f_j->j_state_lock);
		flushed = f->f_j->j_flushed;
		busy = f->f_j->j_sb_busy || f->f_j->j_checkpointing ||
		       f->f_j->j_committing_transaction != NULL;
		mutex_unlock(&f->f_j->j_state_lock);
		if (flushed == empty && !busy)
			return (fx_sb_field(f, FX_SB(s_start)) == 0) == empty;
		usleep(1000);
	}
	return false;
}

START_TEST(the_log_is_empty_after_a_sync_and_a_quiet_second)
{
	static const struct fx_shape shape = {.fs_block_bytes = 1024};
	struct work *w = malloc(sizeof(*w));
	struct fixture *f = &w->w_f;
	uint64_t start;

	load(w, &shape);
	f->f_params.jp_commit_interval_ms = 100000;
	fx_load(f);
	fx_write_one(f, FX_META, 1);
	ck_assert_int_eq(jbd2_journal_force_commit(f->f_j), 0);
	ck_assert(log_becomes_empty(f, false));
	/* Again, if the second was over before the commit. */
	do {
		start = now_ns();
		jbd2_journal_clean_when_quiet(f->f_j);
		usleep(500000);
		/* Not quiet: the second begins anew. */
		fx_write_one(f, FX_META, 2);
		ck_assert_int_eq(jbd2_journal_force_commit(f->f_j), 0);
	} while (now_ns() - start > 950000000);
	ck_assert(log_becomes_empty(f, true));
	ck_assert_uint_ge(now_ns() - start, 1500000000);
	ck_assert(fx_disk_is(f, FX_META, 2));
	/* Once only, and what comes then is logged as ever. */
	fx_write_one(f, FX_META, 3);
	ck_assert_int_eq(jbd2_journal_force_commit(f->f_j), 0);
	ck_assert(log_becomes_empty(f, false));
	ck_assert(fx_disk_is(f, FX_META, 2));
	ck_assert_int_eq(fx_unload(f), 0);
	ck_assert(fx_disk_is(f, FX_META, 3));
	fx_close(f);
	free(w);
}
END_TEST

static void *fsyncer(void *arg)
{
	struct work *w = arg;
	unsigned thread = atomic_fetch_add(&w->w_next, 1);

	for (unsigned i = 0; i < 50; i++) {
		tid_t tid = fx_write_one(&w->w_f, FX_META + thread, i + 1);

		ck_assert_int_eq(jbd2_complete_transaction(w->w_f.f_j, tid), 0);
	}
	return NULL;
}

static int slow_flush_ns;

static struct timespec slow_clock(void)
{
	/* A commit block is being filled: let the others come. */
	usleep((useconds_t)slow_flush_ns);
	return (struct timespec){.tv_sec = 1};
}

START_TEST(concurrent_fsyncs_share_commits)
{
	static const struct fx_shape shape = {.fs_block_bytes = 1024};
	static struct work w;
	pthread_t thread[THREADS];

	load(&w, &shape);
	fx_load(&w.w_f);
	slow_flush_ns = 500;
	time_set_real_hook(slow_clock);
	for (unsigned i = 0; i < THREADS; i++)
		ck_assert_int_eq(pthread_create(&thread[i], NULL, fsyncer, &w), 0);
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	time_set_real_hook(NULL);
	ck_assert_uint_lt(counter_read(&jbd2_stats(w.w_f.f_j)->js_commits), THREADS * 50 / 2);
	ck_assert_int_eq(fx_unload(&w.w_f), 0);
	fx_close(&w.w_f);
}
END_TEST

/* ---- A freed block and a checkpoint that is writing it ---- */

struct late {
	struct jbd2_commit_cb lt_cb;
	_Atomic int lt_calls;
};

static void late_cb(struct jbd2_commit_cb *cb, int error)
{
	ck_assert_int_eq(error, 0);
	atomic_fetch_add(&((struct late *)cb)->lt_calls, 1);
}

static void *checkpointer(void *arg)
{
	ck_assert_int_eq(jbd2_checkpoint_all(arg), 0);
	return NULL;
}

START_TEST(a_freed_block_is_not_given_back_while_it_is_being_written)
{
	static const struct fx_shape shape = {.fs_block_bytes = 1024};
	struct work *w = malloc(sizeof(*w));
	struct fixture *f = &w->w_f;
	struct late lt = {.lt_cb.cb_fn = late_cb};
	struct blkdev *slow;
	pthread_t thread;
	handle_t *h;
	tid_t tid;

	load(w, &shape);
	slow = slowdev_open(f->f_dev);
	fx_use(f, slow);
	fx_load(f);
	fx_write_one(f, FX_META, 1);
	ck_assert_int_eq(jbd2_journal_force_commit(f->f_j), 0);
	slowdev_hold(slow, REQ_OP_WRITE, true);
	ck_assert_int_eq(pthread_create(&thread, NULL, checkpointer, f->f_j), 0);
	slowdev_wait_held(slow, 1);
	slowdev_hold(slow, REQ_OP_WRITE, false);
	ck_assert(bh_writes_in_flight(f->f_cache, FX_META, 1));
	/* The commit itself goes on, and is durable. */
	h = jbd2_journal_start(f->f_j, HT_MISC, 1, 1);
	tid = jbd2_handle_tid(h);
	ck_assert_int_eq(jbd2_journal_revoke(h, FX_META, NULL), 0);
	jbd2_journal_callback_add(h, &lt.lt_cb);
	ck_assert_int_eq(jbd2_journal_stop(h), 0);
	/* Whoever waits may have to commit itself, to the end. */
	ck_assert_int_eq(jbd2_log_start_commit(f->f_j, tid), 1);
	while (jbd2_transaction_pending(f->f_j, tid))
		usleep(100);
	usleep(20000);
	ck_assert_int_eq(atomic_load(&lt.lt_calls), 0);
	slowdev_release_all(slow);
	ck_assert_int_eq(jbd2_journal_force_commit(f->f_j), 0);
	ck_assert_int_eq(atomic_load(&lt.lt_calls), 1);
	ck_assert(!bh_writes_in_flight(f->f_cache, FX_META, 1));
	pthread_join(thread, NULL);
	ck_assert_int_eq(fx_unload(f), 0);
	fx_close(f);
	free(w);
}
END_TEST

/* ---- A block that is changed between its collection and its copy ---- */

struct holder {
	struct buffer_head *hd_bh;
	_Atomic bool hd_held;
	_Atomic bool hd_let_go;
};

static void *hold_content(void *arg)
{
	struct holder *hd = arg;

	lock_buffer(hd->hd_bh);
	atomic_store(&hd->hd_held, true);
	while (!atomic_load(&hd->hd_let_go))
		usleep(100);
	unlock_buffer(hd->hd_bh);
	return NULL;
}

static void *background_checkpoint(void *arg)
{
	journal_t *j = arg;

	/* As if the log were nearly full. */
	atomic_fetch_sub(&j->j_free, (int)j->j_last / 2);
	jbd2_checkpoint_inline(j);
	atomic_fetch_add(&j->j_free, (int)j->j_last / 2);
	return NULL;
}

START_TEST(a_block_taken_after_its_collection_is_left_alone)
{
	static const struct fx_shape shape = {.fs_block_bytes = 1024};
	struct fixture f;
	struct holder hd = {.hd_held = false};
	struct buffer_head *second;
	pthread_t thread[2];

	fx_open(&f, &shape);
	fx_write_one(&f, FX_META, 1);
	fx_write_one(&f, FX_META + 1, 2);
	ck_assert_int_eq(jbd2_journal_force_commit(f.f_j), 0);
	hd.hd_bh = bh_find(f.f_cache, FX_META);
	second = bh_find(f.f_cache, FX_META + 1);
	ck_assert_int_eq(pthread_create(&thread[0], NULL, hold_content, &hd), 0);
	while (!atomic_load(&hd.hd_held))
		usleep(100);
	/* The checkpoint collects both and stops at the first. */
	ck_assert_int_eq(pthread_create(&thread[1], NULL, background_checkpoint, f.f_j), 0);
	while (atomic_load(&second->b_count) < 3)
		usleep(100);
	fx_write_one(&f, FX_META + 1, 3);
	atomic_store(&hd.hd_let_go, true);
	pthread_join(thread[0], NULL);
	pthread_join(thread[1], NULL);
	ck_assert(fx_disk_is(&f, FX_META, 1));
	ck_assert(fx_disk_is(&f, FX_META + 1, 0));
	bh_put(hd.hd_bh);
	bh_put(second);
	ck_assert_int_eq(fx_unload(&f), 0);
	ck_assert(fx_disk_is(&f, FX_META + 1, 3));
	fx_close(&f);
}
END_TEST

/* ---- Memory ---- */

START_TEST(what_the_journal_holds_is_bounded)
{
	static const struct fx_shape shapes[] = {
		{.fs_block_bytes = 1024, .fs_log_blocks = 60000, .fs_external = true},
		{.fs_block_bytes = 1024, .fs_log_blocks = 60000, .fs_no_log = true}};
	struct work *w = malloc(sizeof(*w));
	struct fixture *f = &w->w_f;
	uint64_t most = 0;

	load(w, &shapes[_i]);
	f->f_cache = bh_cache_create(f->f_dev, 1024, 8 << 20);
	f->f_params.jp_cache = f->f_cache;
	f->f_j = jbd2_journal_init(&f->f_params);
	ck_assert(!IS_ERR(f->f_j));
	ck_assert_int_eq(jbd2_journal_load(f->f_j), 0);
	/* 40 MiB of different blocks through a cache of 8 MiB, with a log that could take them all. */
	for (unsigned i = 0; i < 2000; i++) {
		handle_t *h = fx_start(f, 20);

		for (unsigned k = 0; k < 20; k++)
			fx_write(f, h, FX_META + (uint64_t)i * 20 + k, i + 1);
		ck_assert_int_eq(jbd2_journal_stop(h), 0);
		if (bh_cache_bytes(f->f_cache) > most)
			most = bh_cache_bytes(f->f_cache);
	}
	ck_assert_uint_le(most, 8 << 20);
	ck_assert_int_eq(fx_unload(f), 0);
	for (unsigned i = 0; i < 2000; i++)
		ck_assert(fx_disk_is(f, FX_META + (uint64_t)i * 20 + 7, i + 1));
	fx_close(f);
	free(w);
}
END_TEST

#define STORM_THREADS 4u
#define STORM_HANDLES 600u
#define STORM_BLOCKS 20000u
#define STORM_HOT 400u /* of which are changed again and again, while they are committed */
#define STORM_CACHE (8u << 20)

static _Atomic uint64_t storm_most;

static void note_most(struct fixture *f)
{
	uint64_t now = bh_cache_bytes(f->f_cache);
	uint64_t most = atomic_load(&storm_most);

	while (now > most && !atomic_compare_exchange_weak(&storm_most, &most, now))
		;
}

static void *storm(void *arg)
{
	struct work *w = arg;
	struct fixture *f = &w->w_f;
	struct prng p;

	prng_seed(&p, 500 + atomic_fetch_add(&w->w_next, 1));
	for (unsigned i = 0; i < STORM_HANDLES; i++) {
		handle_t *h = fx_start(f, 24);
		tid_t tid = jbd2_handle_tid(h);

		for (unsigned k = 0; k < 24; k++) {
			uint64_t below = k % 3 == 0 ? STORM_HOT : STORM_BLOCKS;

			fx_write(f, h, FX_META + prng_below(&p, below), i + 1);
		}
		note_most(f);
		ck_assert_int_eq(jbd2_journal_stop(h), 0);
		if (w->w_syncs && i % 16 == 15)
			(void)jbd2_log_start_commit(f->f_j, tid);
	}
	return NULL;
}

/*
 * A log of 1 GiB never has to be emptied for its own sake. Four threads, with commits all the time, so that copies are made, or with none but those that a full transaction forces.
 */
START_TEST(a_storm_stays_within_the_cache_whatever_the_log_could_take)
{
	static const struct fx_shape shape = {
		.fs_block_bytes = 1024, .fs_log_blocks = 1 << 20, .fs_external = true};
	struct work *w = malloc(sizeof(*w));
	struct fixture *f = &w->w_f;
	pthread_t thread[STORM_THREADS];

	load(w, &shape);
	f->f_cache = bh_cache_create(f->f_dev, 1024, STORM_CACHE);
	f->f_params.jp_cache = f->f_cache;
	f->f_j = jbd2_journal_init(&f->f_params);
	ck_assert(!IS_ERR(f->f_j));
	ck_assert_int_eq(jbd2_journal_load(f->f_j), 0);
	w->w_syncs = _i == 0;
	atomic_store(&storm_most, 0);
	for (unsigned i = 0; i < STORM_THREADS; i++)
		ck_assert_int_eq(pthread_create(&thread[i], NULL, storm, w), 0);
	for (unsigned i = 0; i < STORM_THREADS; i++)
		pthread_join(thread[i], NULL);
	printf("%" PRIu64 " of %u bytes, %" PRIu64 " copies, %" PRIu64 " forced\n",
	       atomic_load(&storm_most), STORM_CACHE, counter_read(&jbd2_stats(f->f_j)->js_copies),
	       counter_read(&jbd2_stats(f->f_j)->js_forced_by_space));
	ck_assert_uint_le(atomic_load(&storm_most), STORM_CACHE);
	/* It was a storm: more than the cache holds went through it. */
	ck_assert_uint_gt(counter_read(&jbd2_stats(f->f_j)->js_blocks_logged) * 1024,
			  2 * STORM_CACHE);
	if (w->w_syncs)
		ck_assert_uint_gt(counter_read(&jbd2_stats(f->f_j)->js_copies), 0);
	else
		ck_assert_uint_gt(counter_read(&jbd2_stats(f->f_j)->js_checkpoint_blocks), 0);
	ck_assert_int_eq(fx_unload(f), 0);
	ck_assert_int_eq(f->f_aborts, 0);
	fx_close(f);
	free(w);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("journal/threads");
	TCase *tc = testlib_case("threads");

	tcase_add_loop_test(tc, eight_threads_on_the_smallest_log, 0, 2);
	tcase_add_test(tc, a_frozen_journal_has_no_handle_and_an_empty_log);
	tcase_add_test(tc, each_cut_of_a_threaded_run_has_whole_handles);
	tcase_add_test(tc, the_log_is_empty_after_a_sync_and_a_quiet_second);
	tcase_add_test(tc, a_transaction_commits_when_its_time_is_over);
	tcase_add_test(tc, concurrent_fsyncs_share_commits);
	tcase_add_test(tc, a_freed_block_is_not_given_back_while_it_is_being_written);
	tcase_add_test(tc, a_block_taken_after_its_collection_is_left_alone);
	tcase_add_loop_test(tc, what_the_journal_holds_is_bounded, 0, 2);
	tcase_add_loop_test(tc, a_storm_stays_within_the_cache_whatever_the_log_could_take, 0, 2);
	suite_add_tcase(s, tc);
	return testlib_run_suite(s);
}
