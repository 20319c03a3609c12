/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Threads, flusher and completions at once: each file has one writer that knows its content and readers that check it, while switches are flipped and the file system is synced. */
#include "tests/unit/writeback/wb_fixture.h"

#define WRITERS 3u
#define FILE_PAGES 96u
#define FILE_BYTES (FILE_PAGES * PAGE)

struct stress;

struct writer {
	struct stress *w_stress;
	unsigned w_nr;
	pthread_t w_thread;
	struct inode *w_inode;
	uint8_t *w_data; /* what the file holds */
	uint64_t w_size;
};

struct stress {
	struct wf f;
	struct writer w[WRITERS];
	_Atomic bool stop;
	_Atomic bool flipped; /* writers may end */
	unsigned ops;
	unsigned flips; /* of each switch; 0: now and then, as long as the writers take */
	uint64_t seed;
};

/* ---- Writers ---- */

static void must_match(struct writer *w, uint64_t pos, size_t len)
{
	uint8_t *buf = malloc(len);
	ssize_t n = wf_read(w->w_inode, buf, len, pos);
	uint64_t want = pos < w->w_size ? w->w_size - pos : 0;

	if (want > len)
		want = len;
	if (n != (ssize_t)want)
		ck_abort_msg("f%u: read of %zu at %llu gives %zd, not %llu", w->w_nr, len,
			     (unsigned long long)pos, n, (unsigned long long)want);
	for (size_t i = 0; i < want; i++)
		if (buf[i] != w->w_data[pos + i])
			ck_abort_msg("f%u: byte %llu is %02x, not %02x", w->w_nr,
				     (unsigned long long)(pos + i), buf[i], w->w_data[pos + i]);
	free(buf);
}

struct stress_ticket {
	struct wb_throttle_ticket t; /* first */
	_Atomic bool woken;
};

static void wake_writer(struct wb_throttle_ticket *t, int err)
{
	ck_assert_int_eq(err, 0);
	atomic_store(&((struct stress_ticket *)(void *)t)->woken, true);
}

/* As the front does, but that here the writer waits for its answer. */
static void balance(struct writer *w, unsigned pages)
{
	struct stress_ticket t = {.t = {.t_wake = wake_writer, .t_pages = pages}};

	t.t.t_task = 1000 + w->w_nr;
	if (balance_dirty_pages_ratelimited(w->w_inode, pages, &t.t) == 0)
		return;
	while (!atomic_load(&t.woken))
		usleep(200);
}

static void do_write(struct writer *w, struct prng *p)
{
	static const unsigned flags[] = {0, 0, 0, 0, 0, 0, WB_WRITE_DSYNC, WB_WRITE_DIRECT};
	uint64_t pos = prng_below(p, FILE_BYTES);
	size_t len = prng_range(p, 1, 12 * PAGE);
	uint8_t *buf;

	if (prng_chance(p, 1, 2))
		pos &= ~(uint64_t)(PAGE_SIZE - 1);
	if (len > FILE_BYTES - pos)
		len = (size_t)(FILE_BYTES - pos);
	buf = malloc(len);
	for (size_t i = 0; i < len; i++)
		buf[i] = (uint8_t)prng_next(p);
	ck_assert_int_eq(wf_write_flags(w->w_inode, buf, len, pos, flags[prng_below(p, 8)]),
			 (ssize_t)len);
	if (pos > w->w_size)
		memset(w->w_data + w->w_size, 0, (size_t)(pos - w->w_size));
	memcpy(w->w_data + pos, buf, len);
	if (pos + len > w->w_size)
		w->w_size = pos + len;
	free(buf);
	balance(w, (unsigned)(len / PAGE) + 1);
}

static void do_truncate(struct writer *w, struct prng *p)
{
	uint64_t size = prng_below(p, FILE_BYTES);

	ck_assert_int_eq(ext4_truncate_to(w->w_inode, size), 0);
	if (size > w->w_size)
		memset(w->w_data + w->w_size, 0, (size_t)(size - w->w_size));
	w->w_size = size;
}

static void do_punch(struct writer *w, struct prng *p)
{
	uint64_t pos = prng_below(p, FILE_BYTES - 1), end = pos + prng_range(p, 1, 8 * PAGE), stop;
	bool zero = prng_chance(p, 1, 2);

	ck_assert_int_eq(ext4_fallocate(w->w_inode,
					FALLOC_FL_KEEP_SIZE | (zero ? FALLOC_FL_ZERO_RANGE
								    : FALLOC_FL_PUNCH_HOLE),
					pos, end - pos, &wf_root),
			 0);
	stop = end < w->w_size ? end : w->w_size;
	if (pos < stop)
		memset(w->w_data + pos, 0, (size_t)(stop - pos));
}

static void *writer_main(void *arg)
{
	struct writer *w = arg;
	struct prng p;

	prng_seed(&p, w->w_stress->seed * 100 + w->w_nr);
	for (unsigned n = 0; n < w->w_stress->ops || !atomic_load(&w->w_stress->flipped); n++) {
		unsigned what = (unsigned)prng_below(&p, 20);

		if (what < 12)
			do_write(w, &p);
		else if (what < 14)
			must_match(w, prng_below(&p, FILE_BYTES), prng_range(&p, 1, 20 * PAGE));
		else if (what < 15)
			do_truncate(w, &p);
		else if (what < 17)
			do_punch(w, &p);
		else if (what < 18)
			ck_assert_int_eq(ext4_sync_file(w->w_inode, prng_chance(&p, 1, 2)), 0);
		else if (what < 19)
			wb_drop_clean(w->w_inode);
		else
			ck_assert_int_eq(filemap_fdatawrite(w->w_inode), 0);
	}
	must_match(w, 0, FILE_BYTES);
	return NULL;
}

/* ---- The others ---- */

/* Reads whatever is there: it must not fail. The bytes of a page that is being written may be old or new, and are not looked at. */
static void *reader_main(void *arg)
{
	struct stress *s = arg;
	uint8_t *buf = malloc(8 * PAGE);
	struct wb_read *r = malloc(sizeof(*r));
	struct prng p;

	prng_seed(&p, s->seed * 100 + 50);
	while (!atomic_load(&s->stop)) {
		struct writer *w = &s->w[prng_below(&p, WRITERS)];
		struct iovec iov = {buf, 8 * PAGE};

		ck_assert_int_eq(file_read(w->w_inode, prng_below(&p, FILE_BYTES), 32 * PAGE, 0, r),
				 0);
		ck_assert_uint_le(r->r_bytes, 32 * PAGE);
		wb_read_done(r);
		if (prng_chance(&p, 1, 8))
			ck_assert_int_ge(file_read_direct(w->w_inode,
							  prng_below(&p, FILE_PAGES) * PAGE, &iov,
							  1, 0),
					 0);
	}
	free(r);
	free(buf);
	return NULL;
}

static const char *const switches[][3] = {
	{"writepages_budget", "before_add", "after_add"},
	{"premap_pass", "on", "off"},
	{"sync_passes", "async_then_wait", "wait_only"},
	{"sync_inode_commit", "end", "each"},
	{"balance_order", "bdi_first", "global_first"},
	{"write_bump", "x1", "contig"},
	{"writeback_chunk", "bandwidth", "1024"},
	{"throttle", "ioless", "2009"},
	{"write_bump", "x8", "x16"},
	{"max_writeback_mb_bump", "1", "128"},
};
#define NR_SWITCHES (sizeof(switches) / sizeof(switches[0]))

static void *syncer_main(void *arg)
{
	struct stress *s = arg;
	struct prng p;

	prng_seed(&p, s->seed * 100 + 60);
	while (!atomic_load(&s->stop)) {
		size_t i = prng_below(&p, NR_SWITCHES);

		wf_tune(&s->f, switches[i][0], switches[i][prng_chance(&p, 1, 2) ? 1 : 2]);
		if (prng_chance(&p, 1, 4))
			ck_assert_int_eq(wb_sync_fs(s->f.sb, prng_chance(&p, 1, 2)), 0);
		else
			wb_start_writeback(s->f.wb, 64, WB_REASON_SYNC);
		usleep((useconds_t)prng_below(&p, 2000));
	}
	return NULL;
}

/* Each switch is flipped s->flips times, one after the other, while everybody works. */
static void *flipper_main(void *arg)
{
	struct stress *s = arg;
	struct prng p;

	prng_seed(&p, s->seed * 100 + 70);
	for (unsigned n = 0; n < s->flips; n++) {
		for (size_t i = 0; i < NR_SWITCHES; i++) {
			wf_tune(&s->f, switches[i][0], switches[i][1 + n % 2]);
			if (prng_chance(&p, 1, 4))
				usleep((useconds_t)prng_below(&p, 1000));
			if (prng_chance(&p, 1, 64))
				ck_assert_int_eq(wb_sync_fs(s->f.sb, prng_chance(&p, 1, 2)), 0);
			else if (prng_chance(&p, 1, 4))
				wb_start_background(s->f.wb);
		}
	}
	atomic_store(&s->flipped, true);
	return NULL;
}

static void check_after_remount(struct stress *s)
{
	for (unsigned i = 0; i < WRITERS; i++)
		iput(s->w[i].w_inode);
	wf_umount(&s->f);
	wf_mount(&s->f);
	for (unsigned i = 0; i < WRITERS; i++) {
		s->w[i].w_inode = wf_file(&s->f, i);
		must_match(&s->w[i], 0, FILE_BYTES);
		iput(s->w[i].w_inode);
		free(s->w[i].w_data);
	}
}

static void run_stress(const char *mkfs, const char *filters, uint64_t cache, unsigned ops,
		       unsigned flips, uint64_t seed)
{
	struct stress s = {.ops = ops, .flips = flips, .flipped = flips == 0, .seed = seed};
	pthread_t reader, syncer;

	fprintf(stderr, "stress: %s seed %llu\n", mkfs, (unsigned long long)seed);
	wf_make(&s.f, mkfs, 32 * MIB, WRITERS);
	s.f.threads = true;
	s.f.filters = filters;
	s.f.opts.o_cache_bytes = cache;
	wf_mount(&s.f);
	/* Low enough that writers meet it. */
	wf_tune(&s.f, "dirty_bytes", flips > 0 ? "120000" : "700000");
	wf_tune(&s.f, "dirty_background_bytes", flips > 0 ? "60000" : "200000");
	for (unsigned i = 0; i < WRITERS; i++) {
		struct writer *w = &s.w[i];

		w->w_stress = &s;
		w->w_nr = i;
		w->w_inode = wf_file(&s.f, i);
		w->w_data = calloc(1, FILE_BYTES);
		pthread_create(&w->w_thread, NULL, writer_main, w);
	}
	pthread_create(&reader, NULL, reader_main, &s);
	pthread_create(&syncer, NULL, flips > 0 ? flipper_main : syncer_main, &s);
	for (unsigned i = 0; i < WRITERS; i++)
		pthread_join(s.w[i].w_thread, NULL);
	atomic_store(&s.stop, true);
	pthread_join(reader, NULL);
	pthread_join(syncer, NULL);
	fprintf(stderr, "stress: %llu looks at the limits, %llu pauses, %llu calls of writepages\n",
		(unsigned long long)counter_read(&s.f.wb->wb_stats.ws_balance_full),
		(unsigned long long)counter_read(&s.f.wb->wb_stats.ws_pauses),
		(unsigned long long)counter_read(&s.f.wb->wb_stats.ws_writepages));
	if (flips > 0)
		ck_assert_uint_gt(counter_read(&s.f.wb->wb_stats.ws_pauses), 0);
	wf_sync(&s.f);
	wf_assert_nothing_reserved(&s.f);
	arena_check(s.f.wb->wb_arena);
	check_after_remount(&s);
	wf_close(&s.f);
}

static unsigned nr_ops(void)
{
	const char *s = getenv("EXT4D_TEST_OPS");

	return s != NULL ? (unsigned)strtoul(s, NULL, 10) : 250;
}

START_TEST(stress_4k_on_a_device_with_latency)
{
	run_stress("-t ext4 -b 4096", "model:sata3", 4 * MIB, nr_ops(), 0, prng_seed_from_env(1));
}
END_TEST

START_TEST(stress_1k)
{
	run_stress("-t ext4 -b 1024", NULL, 2 * MIB, nr_ops(), 0, prng_seed_from_env(2));
}
END_TEST

static unsigned nr_flips(void)
{
	const char *s = getenv("EXT4D_TEST_FLIPS"), *full = getenv("EXT4D_TEST_FULL");

	if (s != NULL)
		return (unsigned)strtoul(s, NULL, 10);
	return full != NULL && strcmp(full, "1") == 0 ? 1000 : 100;
}

START_TEST(each_switch_flips_under_load)
{
	run_stress("-t ext4 -b 4096", "model:sata3", 4 * MIB, 0, nr_flips(), prng_seed_from_env(3));
}
END_TEST

/* Pages leave in three ways at once, while the last write of each ends: none may be freed while it is still a candidate for eviction. */
struct leaver {
	struct wf *f;
	struct inode *inode;
	_Atomic bool stop;
};

static void *evictor_main(void *arg)
{
	struct leaver *l = arg;

	/* Without a pause the writer may not get a lock for a long time where cores are few. */
	while (!atomic_load(&l->stop)) {
		(void)shrink_page_cache(l->f->wb, 64);
		usleep(10);
	}
	return NULL;
}

static void *dropper_main(void *arg)
{
	struct leaver *l = arg;

	while (!atomic_load(&l->stop)) {
		wb_drop_clean(l->inode);
		usleep(10);
	}
	return NULL;
}

START_TEST(pages_leave_by_eviction_truncation_and_invalidation_at_once)
{
	struct wf f;
	struct leaver l = {.f = &f};
	pthread_t evictor, dropper;

	wf_make(&f, "-t ext4 -b 4096", 32 * MIB, 1);
	f.threads = true;
	wf_mount(&f);
	l.inode = wf_file(&f, 0);
	pthread_create(&evictor, NULL, evictor_main, &l);
	pthread_create(&dropper, NULL, dropper_main, &l);
	for (unsigned i = 0; i < nr_ops() * 2; i++) {
		wf_fill(l.inode, i, 0, 32 * PAGE, 32 * PAGE);
		ck_assert_int_eq(filemap_fdatawrite(l.inode), 0);
		wf_check(l.inode, i, 0, 8 * PAGE);
		ck_assert_int_eq(ext4_truncate_to(l.inode, 0), 0);
	}
	atomic_store(&l.stop, true);
	pthread_join(evictor, NULL);
	pthread_join(dropper, NULL);
	iput(l.inode);
	arena_check(f.wb->wb_arena);
	wf_close(&f);
}
END_TEST

int main(void)
{
	return RUN_TESTS("writeback/stress", each_switch_flips_under_load,
			 pages_leave_by_eviction_truncation_and_invalidation_at_once,
			 stress_4k_on_a_device_with_latency, stress_1k);
}
