/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Limits, what a writer reads of them, and parked answers. */
#include "tests/unit/writeback/wb_fixture.h"

static void set_pages(struct wf *f, const char *name, unsigned pages)
{
	char text[32];

	snprintf(text, sizeof(text), "%llu", (unsigned long long)pages * PAGE_SIZE);
	wf_tune(f, name, text);
}

START_TEST(limits_follow_ratio_bytes_and_cache)
{
	struct wf f;
	struct dirty_limits dl;
	uint64_t frames;

	wf_make(&f, "-t ext4 -b 4096", 32 * MIB, 1);
	f.opts.o_cache_bytes = 64 * MIB;
	wf_mount(&f);
	frames = arena_total_frames(f.wb->wb_arena);
	f.wb->wb_ram_bytes = 200 * MIB;
	get_dirty_limits(f.wb, &dl);
	ck_assert_uint_eq(dl.dl_dirty, 200 * MIB / 4096 * 20 / 100);
	ck_assert_uint_eq(dl.dl_background, 200 * MIB / 4096 * 10 / 100);
	/* Large memory: the cache is the limit. */
	f.wb->wb_ram_bytes = UINT64_C(1) << 40;
	get_dirty_limits(f.wb, &dl);
	ck_assert_uint_eq(dl.dl_dirty, frames * 80 / 100);
	ck_assert_uint_eq(dl.dl_background, frames * 40 / 100);
	set_pages(&f, "dirty_bytes", 1000);
	get_dirty_limits(f.wb, &dl);
	ck_assert_uint_eq(dl.dl_dirty, 1000);
	/* A background threshold above the limit makes no sense: half of it. */
	ck_assert_uint_eq(dl.dl_background, 500);
	wf_close(&f);
}
END_TEST

/* ---- What a call reads ---- */

static void balance(struct inode *inode, unsigned pages)
{
	struct wb_throttle_ticket t = {.t_task = 7, .t_pages = pages};

	ck_assert_int_eq(balance_dirty_pages_ratelimited(inode, pages, &t), 0);
}

static uint64_t reads_of_one_call(struct wf *f, struct inode *inode, const char *order,
				  const char *throttle)
{
	uint64_t before;

	wf_tune(f, "balance_order", order);
	wf_tune(f, "throttle", throttle);
	before = counter_read(&f->wb->wb_stats.ws_global_reads);
	balance(inode, 256);
	return counter_read(&f->wb->wb_stats.ws_global_reads) - before;
}

START_TEST(below_the_threshold_two_reads_or_five)
{
	struct wf f;
	struct inode *inode;

	wf_make(&f, "-t ext4 -b 4096", 32 * MIB, 1);
	f.threads = true;
	wf_mount(&f);
	inode = wf_file(&f, 0);
	wf_fill(inode, 1, 0, 100 * PAGE, 64 * 1024);
	ck_assert_uint_eq(reads_of_one_call(&f, inode, "bdi_first", "2009"), 2);
	ck_assert_uint_eq(reads_of_one_call(&f, inode, "global_first", "2009"), 5);
	ck_assert_uint_eq(reads_of_one_call(&f, inode, "bdi_first", "ioless"), 2);
	ck_assert_uint_eq(reads_of_one_call(&f, inode, "global_first", "ioless"), 5);
	iput(inode);
	wf_close(&f);
}
END_TEST

START_TEST(small_writes_look_only_now_and_then)
{
	struct wf f;
	struct inode *inode;

	wf_make(&f, "-t ext4 -b 4096", 32 * MIB, 1);
	f.threads = true;
	wf_mount(&f);
	inode = wf_file(&f, 0);
	for (unsigned i = 0; i < 255; i++)
		balance(inode, 1);
	ck_assert_uint_eq(counter_read(&f.wb->wb_stats.ws_balance_full), 0);
	balance(inode, 1);
	ck_assert_uint_eq(counter_read(&f.wb->wb_stats.ws_balance_full), 1);
	iput(inode);
	wf_close(&f);
}
END_TEST

/* ---- Parked answers ---- */

struct parked {
	struct wb_throttle_ticket p_ticket; /* first */
	_Atomic int p_wakes;
	_Atomic int p_err;
};

static void woken(struct wb_throttle_ticket *t, int err)
{
	struct parked *p = (struct parked *)(void *)t;

	atomic_store(&p->p_err, err);
	atomic_fetch_add(&p->p_wakes, 1);
}

#define LIMIT_PAGES 1000

static void open_slow(struct wf *f, struct inode **inode)
{
	wf_make(f, "-t ext4 -b 4096", 64 * MIB, 1);
	f->threads = true;
	f->want_slow = true;
	wf_mount(f);
	set_pages(f, "dirty_bytes", LIMIT_PAGES);
	set_pages(f, "dirty_background_bytes", 500);
	*inode = wf_file(f, 0);
}

/* Pages dirty or under writeback. The two gauges are not read at one moment, and a page on its way from one to the other is in both. */
static int64_t outstanding(struct wb_domain *wb)
{
	uint64_t dirtied = atomic_load(&wb->wb_dirtied);

	return (int64_t)(dirtied - atomic_load(&wb->wb_written));
}

/* Write and balance until the answer is parked; the writer never gets past the limit by more than its request. */
static void write_until_parked(struct wf *f, struct inode *inode, struct parked *p, uint64_t *pos)
{
	int parked = 0;

	for (unsigned i = 0; i < 400 && !parked; i++) {
		wf_fill(inode, 1, *pos, 64 * 1024, 64 * 1024);
		*pos += 64 * 1024;
		ck_assert_int_le(outstanding(f->wb), LIMIT_PAGES + 256 + 16);
		memset(p, 0, sizeof(*p));
		p->p_ticket.t_wake = woken;
		p->p_ticket.t_task = 99;
		parked = balance_dirty_pages_ratelimited(inode, 16, &p->p_ticket);
	}
	ck_assert_int_eq(parked, 1);
}

/* Pauses that end by themselves come first; at the limit, of which the device gives nothing back, it does not end. */
static void park_for_good(struct wf *f, struct inode *inode, struct parked *p, uint64_t *pos)
{
	write_until_parked(f, inode, p, pos);
	while (outstanding(f->wb) < LIMIT_PAGES) {
		while (atomic_load(&p->p_wakes) == 0)
			usleep(1000);
		write_until_parked(f, inode, p, pos);
	}
	usleep(400000);
	ck_assert_int_eq(atomic_load(&p->p_wakes), 0);
}

/* A writer that is parked at the limit of a device that takes nothing. */
static void open_parked(struct wf *f, struct inode **inode, struct parked *p)
{
	uint64_t pos = 0;

	open_slow(f, inode);
	slowdev_hold(f->dev, REQ_OP_WRITE, true);
	park_for_good(f, *inode, p, &pos);
}

static void writer_at_the_limit(const char *throttle, const char *order)
{
	struct wf f;
	struct inode *inode;
	struct parked p;
	uint64_t pos = 0;

	open_slow(&f, &inode);
	wf_tune(&f, "throttle", throttle);
	wf_tune(&f, "balance_order", order);
	slowdev_hold(f.dev, REQ_OP_WRITE, true);
	park_for_good(&f, inode, &p, &pos);
	ck_assert_uint_lt(pos, 1300 * PAGE);
	ck_assert_uint_eq(atomic_load(&f.wb->wb_nr_parked), 1);
	slowdev_release_all(f.dev);
	for (unsigned i = 0; i < 3000 && atomic_load(&p.p_wakes) == 0; i++)
		usleep(10000);
	ck_assert_int_eq(atomic_load(&p.p_wakes), 1);
	ck_assert_int_eq(atomic_load(&p.p_err), 0);
	ck_assert_uint_eq(atomic_load(&f.wb->wb_nr_parked), 0);
	ck_assert_uint_gt(counter_read(&f.wb->wb_stats.ws_pauses), 0);
	wf_sync(&f);
	wf_check(inode, 1, 0, (size_t)pos);
	iput(inode);
	wf_close(&f);
}

START_TEST(writer_waits_at_the_limit_and_goes_on_when_enough_is_written)
{
	writer_at_the_limit("ioless", "bdi_first");
	writer_at_the_limit("ioless", "global_first");
}
END_TEST

/* In the old way the writer's own thread submits, so the device must take the requests. */
START_TEST(old_throttle_makes_the_writer_write)
{
	struct wf f;
	struct inode *inode;
	struct parked p;
	uint64_t pos = 0;

	open_slow(&f, &inode);
	wf_tune(&f, "throttle", "2009");
	slowdev_hold(f.dev, REQ_OP_WRITE, true);
	write_until_parked(&f, inode, &p, &pos);
	ck_assert(atomic_load(&f.wb->wb_dirty_exceeded));
	ck_assert_uint_gt(counter_read(&f.wb->wb_stats.ws_writepages), 0);
	usleep(250000);
	ck_assert_int_eq(atomic_load(&p.p_wakes), 0);
	slowdev_release_all(f.dev);
	for (unsigned i = 0; i < 3000 && atomic_load(&p.p_wakes) == 0; i++)
		usleep(10000);
	ck_assert_int_eq(atomic_load(&p.p_wakes), 1);
	wf_sync(&f);
	/* The flag goes with the next call below the threshold. */
	balance(inode, 256);
	ck_assert(!atomic_load(&f.wb->wb_dirty_exceeded));
	wf_check(inode, 1, 0, (size_t)pos);
	iput(inode);
	wf_close(&f);
}
END_TEST

/* The device fails for good: what was dirty is given up, and the writer is not left waiting. */
START_TEST(error_of_the_device_lets_a_parked_writer_go)
{
	struct wf f;
	struct inode *inode;
	struct parked p;

	open_parked(&f, &inode, &p);
	for (unsigned i = 0; i < 6000 && atomic_load(&p.p_wakes) == 0; i++) {
		while (slowdev_held(f.dev) > 0)
			slowdev_fail(f.dev, 0, -EIO);
		usleep(5000);
	}
	ck_assert_int_eq(atomic_load(&p.p_wakes), 1);
	ck_assert_uint_eq(atomic_load(&f.wb->wb_nr_parked), 0);
	slowdev_release_all(f.dev);
	iput(inode);
	wf_umount_broken(&f);
	blk_close(f.image);
}
END_TEST

/* ---- The limit ---- */

#define CROWD 6u
#define CROWD_REQUEST 32u /* pages */

struct crowd {
	struct wf f;
	_Atomic int64_t most;
};

struct crowd_writer {
	struct crowd *c;
	unsigned nr;
	pthread_t thread;
	struct inode *inode;
};

static void note_dirty(struct crowd *c)
{
	int64_t dirty = outstanding(c->f.wb);
	int64_t most = atomic_load(&c->most);

	while (dirty > most && !atomic_compare_exchange_weak(&c->most, &most, dirty))
		;
}

/* Requests of 1 to CROWD_REQUEST pages, so that the writers' ratelimits are at different places. */
static void *crowd_main(void *arg)
{
	struct crowd_writer *w = arg;
	struct prng p;
	uint64_t pos = 0;

	prng_seed(&p, w->nr);
	for (unsigned i = 0; i < 60; i++) {
		unsigned pages = i % 2 == 0 ? CROWD_REQUEST : (unsigned)prng_range(&p, 1, 4);
		struct parked t = {.p_ticket = {.t_wake = woken, .t_pages = pages}};

		t.p_ticket.t_task = 500 + w->nr;
		wf_fill(w->inode, w->nr, pos, pages * PAGE, pages * PAGE);
		pos += pages * PAGE;
		note_dirty(w->c);
		if (balance_dirty_pages_ratelimited(w->inode, pages, &t.p_ticket) != 0)
			while (atomic_load(&t.p_wakes) == 0)
				usleep(300);
	}
	return NULL;
}

/* The most that was dirty or under writeback at once, in pages. */
static int64_t crowd_at_the_limit(const char *throttle)
{
	struct crowd c = {.most = 0};
	struct crowd_writer w[CROWD];

	wf_make(&c.f, "-t ext4 -b 4096", 64 * MIB, CROWD);
	c.f.threads = true;
	c.f.filters = "model:write_bw=80m:qd=4";
	wf_mount(&c.f);
	wf_tune(&c.f, "throttle", throttle);
	set_pages(&c.f, "dirty_bytes", 1000);
	set_pages(&c.f, "dirty_background_bytes", 400);
	for (unsigned i = 0; i < CROWD; i++) {
		w[i] = (struct crowd_writer){.c = &c, .nr = i, .inode = wf_file(&c.f, i)};
		pthread_create(&w[i].thread, NULL, crowd_main, &w[i]);
	}
	for (unsigned i = 0; i < CROWD; i++) {
		pthread_join(w[i].thread, NULL);
		iput(w[i].inode);
	}
	ck_assert_uint_gt(counter_read(&c.f.wb->wb_stats.ws_pauses), 0);
	wf_close(&c.f);
	return atomic_load(&c.most);
}

START_TEST(dirty_memory_exceeds_the_limit_by_one_request_for_each_writer_at_most)
{
	ck_assert_int_le(crowd_at_the_limit("ioless"), 1000 + CROWD * CROWD_REQUEST);
	ck_assert_int_le(crowd_at_the_limit("2009"), 1000 + CROWD * CROWD_REQUEST);
}
END_TEST

/* dirty_exceeded, old and new: at the threshold itself only the new order clears it. */
static bool still_exceeded_at(const char *order, unsigned pages)
{
	struct wf f;
	struct inode *inode;
	bool exceeded;

	wf_make(&f, "-t ext4 -b 4096", 32 * MIB, 1);
	f.threads = true;
	wf_mount(&f);
	set_pages(&f, "dirty_bytes", 100);
	set_pages(&f, "dirty_background_bytes", 99);
	wf_tune(&f, "throttle", "2009");
	wf_tune(&f, "balance_order", order);
	inode = wf_file(&f, 0);
	wf_fill(inode, 1, 0, pages * PAGE, pages * PAGE);
	atomic_store(&f.wb->wb_dirty_exceeded, true);
	balance(inode, 256);
	exceeded = atomic_load(&f.wb->wb_dirty_exceeded);
	ck_assert_uint_eq(counter_read(&f.wb->wb_stats.ws_dirty_exceeded_cleared), !exceeded);
	iput(inode);
	wf_close(&f);
	return exceeded;
}

START_TEST(dirty_exceeded_is_cleared_at_the_threshold_or_strictly_below_it)
{
	ck_assert(!still_exceeded_at("bdi_first", 100));
	ck_assert(still_exceeded_at("global_first", 100));
	ck_assert(!still_exceeded_at("bdi_first", 99));
	ck_assert(!still_exceeded_at("global_first", 99));
}
END_TEST

START_TEST(interrupt_answers_a_parked_writer_at_once_and_only_once)
{
	struct wf f;
	struct inode *inode;
	struct parked p;

	open_parked(&f, &inode, &p);
	ck_assert(wb_unpark(f.sb, &p.p_ticket, -EINTR));
	ck_assert_int_eq(atomic_load(&p.p_wakes), 1);
	ck_assert_int_eq(atomic_load(&p.p_err), -EINTR);
	ck_assert(!wb_unpark(f.sb, &p.p_ticket, -EINTR));
	slowdev_release_all(f.dev);
	usleep(300000);
	ck_assert_int_eq(atomic_load(&p.p_wakes), 1);
	iput(inode);
	wf_close(&f);
}
END_TEST

START_TEST(unmount_lets_parked_writers_go)
{
	struct wf f;
	struct inode *inode;
	struct parked p;

	open_parked(&f, &inode, &p);
	throttle_stop(f.wb);
	ck_assert_int_eq(atomic_load(&p.p_wakes), 1);
	ck_assert_int_eq(throttle_start(f.wb), 0);
	slowdev_release_all(f.dev);
	iput(inode);
	wf_close(&f);
}
END_TEST

/* Without threads the writer itself brings the dirty memory down. */
START_TEST(simulation_writes_in_the_caller)
{
	struct wf f;
	struct inode *inode;

	wf_open(&f, "-t ext4 -b 4096", 64 * MIB, 1);
	set_pages(&f, "dirty_bytes", 1000);
	inode = wf_file(&f, 0);
	for (unsigned i = 0; i < 40; i++) {
		wf_fill(inode, 1, i * 64 * PAGE, 64 * PAGE, 64 * PAGE);
		balance(inode, 64);
		ck_assert_int_le(atomic_load(&f.wb->wb_nr_dirty), 1000 + 256);
	}
	wf_sync(&f);
	wf_check(inode, 1, 0, 40 * 64 * PAGE);
	iput(inode);
	wf_close(&f);
}
END_TEST

/* More dirty data than the cache has frames: writes go on, for writeback frees them. */
START_TEST(cache_smaller_than_the_data_is_enough)
{
	struct wf f;
	struct inode *inode;

	wf_make(&f, "-t ext4 -b 4096", 64 * MIB, 1);
	f.opts.o_cache_bytes = 2 * MIB;
	f.threads = true;
	wf_mount(&f);
	inode = wf_file(&f, 0);
	wf_fill(inode, 1, 0, 16 * MIB, 128 * 1024);
	wf_check(inode, 1, 0, 16 * MIB);
	iput(inode);
	wf_close(&f);
}
END_TEST

int main(void)
{
	return RUN_TESTS("writeback/page_writeback", limits_follow_ratio_bytes_and_cache,
			 below_the_threshold_two_reads_or_five, small_writes_look_only_now_and_then,
			 writer_waits_at_the_limit_and_goes_on_when_enough_is_written,
			 old_throttle_makes_the_writer_write,
			 error_of_the_device_lets_a_parked_writer_go,
			 dirty_memory_exceeds_the_limit_by_one_request_for_each_writer_at_most,
			 dirty_exceeded_is_cleared_at_the_threshold_or_strictly_below_it,
			 interrupt_answers_a_parked_writer_at_once_and_only_once,
			 unmount_lets_parked_writers_go, simulation_writes_in_the_caller,
			 cache_smaller_than_the_data_is_enough);
}
