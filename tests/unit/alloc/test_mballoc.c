/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * test_mballoc.c - block allocation on real file systems: nothing is given out twice, accounts are
 * exact, placement is good, effort is bounded.
 *
 * Invariants: (1) a model keeps who has which block; each allocation must come from what the model
 * has free. (2) e2fsck is content at the end.
 * Locking: the threaded test gives each thread an inode of its own.
 */
#include "tests/unit/alloc/alloc_fixture.h"

#include <pthread.h>

#define MIB (UINT64_C(1) << 20)
#define MAX_RANGES 4096

struct range {
	ext4_fsblk_t block;
	uint32_t len;
};

/* Blocks held by the test. */
struct model {
	uint8_t *owned; /* one byte for each block of the device */
	struct range ranges[MAX_RANGES];
	unsigned n;
	uint64_t blocks;
};

static struct model model;

static void model_init(struct fix *f)
{
	memset(&model, 0, sizeof(model));
	model.owned = calloc(f->sb->s_blocks_count, 1);
	ck_assert_ptr_nonnull(model.owned);
}

static void model_add(ext4_fsblk_t block, uint32_t len)
{
	unsigned wrong = 0;

	for (uint32_t i = 0; i < len; i++)
		wrong += model.owned[block + i];
	ck_assert_uint_eq(wrong, 0);
	memset(model.owned + block, 1, len);
	ck_assert_uint_lt(model.n, MAX_RANGES);
	model.ranges[model.n++] = (struct range){block, len};
	model.blocks += len;
}

static struct range model_take(unsigned i)
{
	struct range r = model.ranges[i];

	model.ranges[i] = model.ranges[--model.n];
	memset(model.owned + r.block, 0, r.len);
	model.blocks -= r.len;
	return r;
}

static void free_all(struct fix *f, struct inode *inode)
{
	while (model.n > 0) {
		struct range r = model_take(model.n - 1);

		ck_assert_int_eq(fix_free(f, inode, r.block, r.len), 0);
	}
}

/* i_blocks goes to the disk. */
static void write_inode(struct fix *f, struct inode *inode)
{
	handle_t *handle = fix_start(f);

	ck_assert_int_eq(ext4_mark_inode_dirty(handle, inode), 0);
	fix_stop(handle);
}

static void remount(struct fix *f, struct inode **inode)
{
	write_inode(f, *inode);
	iput(*inode);
	fix_umount(f);
	fix_mount(f);
	*inode = fix_file(f, 0);
}

static void finish(struct fix *f, struct inode *inode)
{
	free_all(f, inode);
	write_inode(f, inode);
	fix_commit(f);
	ext4_discard_all_preallocations(f->sb);
	fix_check_accounts(f);
	iput(inode);
	fix_close(f);
	free(model.owned);
}

/* ---- Model ---- */

static void random_alloc(struct fix *f, struct inode *inode, struct prng *p)
{
	static const unsigned kinds[] = {0, EXT4_MB_HINT_DATA,
					 EXT4_MB_HINT_DATA | EXT4_MB_HINT_NOPREALLOC};
	uint32_t len = (uint32_t)prng_range(p, 1, prng_chance(p, 1, 5) ? 600 : 8);
	unsigned flags = kinds[prng_below(p, 3)];
	ext4_fsblk_t block;
	int err;

	if (model.n == MAX_RANGES)
		return;
	block = fix_alloc(f, inode, &len, flags, &err);
	if (err == 0)
		model_add(block, len);
	else
		ck_assert_int_eq(err, -ENOSPC);
}

static void run_model(const char *args, uint64_t bytes, unsigned steps)
{
	struct inode *inode;
	struct prng p;
	struct fix f;

	prng_seed(&p, prng_seed_from_env(21));
	fix_open(&f, args, bytes, 1);
	fix_mount(&f);
	model_init(&f);
	inode = fix_file(&f, 0);
	for (unsigned i = 0; i < steps; i++) {
		if (prng_chance(&p, 11, 20) || model.n == 0) {
			random_alloc(&f, inode, &p);
		} else {
			struct range r = model_take((unsigned)prng_below(&p, model.n));

			ck_assert_int_eq(fix_free(&f, inode, r.block, r.len), 0);
		}
		if (i % 97 == 0)
			fix_commit(&f);
		if (i % 500 == 0)
			fix_check_accounts(&f);
	}
	finish(&f, inode);
}

START_TEST(random_allocations_agree_with_a_model)
{
	run_model("-t ext4 -b 4096", 64 * MIB, 6000);
}
END_TEST

START_TEST(random_allocations_agree_with_a_model_small_groups)
{
	run_model("-t ext4 -b 1024 -g 1024 -O ^resize_inode", 12 * MIB, 6000);
}
END_TEST

START_TEST(random_allocations_agree_with_a_model_without_checksums)
{
	run_model("-t ext4 -b 2048 -O ^metadata_csum,^uninit_bg,^flex_bg,^64bit", 32 * MIB, 4000);
}
END_TEST

/* ---- Filling ---- */

/* Allocate single blocks and runs until there is none; returns how many. */
static uint64_t fill(struct fix *f, struct inode *inode, unsigned flags)
{
	uint64_t blocks = 0;
	int err = 0;

	while (err == 0) {
		uint32_t len = 700;
		ext4_fsblk_t block = fix_alloc(f, inode, &len, flags, &err);

		if (err == 0) {
			model_add(block, len);
			blocks += len;
		}
	}
	ck_assert_int_eq(err, -ENOSPC);
	return blocks;
}

START_TEST(each_class_gets_exactly_what_is_left_to_it)
{
	struct ext4_mballoc *mb;
	struct inode *inode;
	uint64_t before;
	struct fix f;

	fix_open(&f, "-t ext4 -b 4096 -m 5", 48 * MIB, 1);
	fix_mount(&f);
	model_init(&f);
	mb = ext4_mb(f.sb);
	inode = fix_file(&f, 0);
	before = (uint64_t)atomic_load(&mb->mb_free);
	ck_assert_uint_gt(f.sb->s_r_blocks, 0);
	ck_assert_uint_gt(mb->mb_pool, 0);
	ck_assert_uint_eq(fill(&f, inode, EXT4_MB_HINT_DATA),
			  before - f.sb->s_r_blocks - mb->mb_pool);
	ck_assert_uint_eq(fill(&f, inode, EXT4_MB_HINT_DATA | EXT4_MB_USE_ROOT_BLOCKS),
			  f.sb->s_r_blocks);
	ck_assert_uint_eq(fill(&f, inode, EXT4_MB_USE_RESERVED), mb->mb_pool);
	ck_assert_int_eq(atomic_load(&mb->mb_free), 0);
	finish(&f, inode);
}
END_TEST

START_TEST(freed_blocks_are_reusable_after_the_commit_and_not_before)
{
	struct inode *inode;
	struct range r;
	struct fix f;
	uint32_t len = 1;
	int err;

	fix_open(&f, "-t ext4 -b 1024", 8 * MIB, 1);
	fix_mount(&f);
	model_init(&f);
	inode = fix_file(&f, 0);
	fill(&f, inode, EXT4_MB_USE_RESERVED);
	fix_commit(&f);
	r = model_take(model.n / 2);
	ck_assert_int_eq(fix_free(&f, inode, r.block, r.len), 0);
	ck_assert_int_eq(atomic_load(&ext4_mb(f.sb)->mb_pending), r.len);
	ck_assert_int_eq(atomic_load(&ext4_mb(f.sb)->mb_free), r.len);
	fix_alloc(&f, inode, &len, EXT4_MB_USE_RESERVED, &err);
	ck_assert_int_eq(err, -ENOSPC);
	fix_check_accounts(&f);
	fix_commit(&f);
	ck_assert_int_eq(atomic_load(&ext4_mb(f.sb)->mb_pending), 0);
	ck_assert_uint_eq(fill(&f, inode, EXT4_MB_USE_RESERVED), r.len);
	ck_assert_uint_eq(model.owned[r.block], 1);
	finish(&f, inode);
}
END_TEST

START_TEST(unused_blocks_are_reusable_at_once)
{
	struct inode *inode;
	handle_t *handle;
	struct range r;
	struct fix f;

	fix_open(&f, "-t ext4 -b 1024", 8 * MIB, 1);
	fix_mount(&f);
	model_init(&f);
	inode = fix_file(&f, 0);
	fill(&f, inode, EXT4_MB_USE_RESERVED);
	r = model_take(0);
	handle = fix_start(&f);
	ck_assert_int_eq(ext4_free_unused_blocks(handle, inode, r.block, r.len), 0);
	fix_stop(handle);
	ck_assert_uint_eq(fill(&f, inode, EXT4_MB_USE_RESERVED), r.len);
	finish(&f, inode);
}
END_TEST

/* ---- Placement ---- */

START_TEST(two_files_written_in_turns_do_not_interleave_in_small_pieces)
{
	struct inode *a, *b;
	struct fix f;

	fix_open(&f, "-t ext4 -b 4096", 256 * MIB, 2);
	fix_mount(&f);
	a = fix_file(&f, 0);
	b = fix_file(&f, 1);
	for (ext4_lblk_t lblk = 0; lblk < 8192; lblk += 16) {
		ck_assert_int_eq(fix_write(&f, a, lblk, 16, 0), 0);
		ck_assert_int_eq(fix_write(&f, b, lblk, 16, 0), 0);
	}
	/* 32 MiB each: the first pieces are small, then windows of 8 MiB. */
	ck_assert_uint_le(fix_count_runs(a, 8192), 12);
	ck_assert_uint_le(fix_count_runs(b, 8192), 12);
	iput(a);
	iput(b);
	fix_close(&f);
}
END_TEST

/* Erase blocks of a card, of 4 MiB: what an unpacked archive of 32 MiB touches on a file system that has holes everywhere. */
START_TEST(many_small_files_touch_few_regions)
{
	enum { FILES = 256, BLOCKS = 32, REGION_BLOCKS = 1024 };
	bool touched[64 * 1024 / REGION_BLOCKS] = {false};
	unsigned regions = 0;
	struct inode *filler;
	struct fix f;

	fix_open(&f, "-t ext4 -b 4096", 256 * MIB, FILES + 1);
	fix_mount(&f);
	filler = fix_file(&f, FILES);
	for (ext4_lblk_t lblk = 0; lblk < 16384; lblk += 1024)
		ck_assert_int_eq(fix_write(&f, filler, lblk, 1024, 0), 0);
	for (ext4_lblk_t lblk = 0; lblk < 16384; lblk += 64) {
		handle_t *handle = fix_start(&f);

		ck_assert_int_eq(ext4_remove_space(handle, filler, lblk, lblk + 15), 0);
		fix_stop(handle);
	}
	fix_commit(&f);
	for (unsigned i = 0; i < FILES; i++) {
		struct inode *inode = fix_file(&f, i);

		ck_assert_int_eq(fix_write(&f, inode, 0, BLOCKS, 0), 0);
		for (ext4_lblk_t lblk = 0; lblk < BLOCKS; lblk++) {
			struct ext4_map_blocks map = {.m_lblk = lblk, .m_len = 1};

			ck_assert_int_eq(ext4_map_blocks(NULL, inode, &map, 0), 1);
			touched[map.m_pblk / REGION_BLOCKS] = true;
		}
		iput(inode);
	}
	for (unsigned i = 0; i < 64; i++)
		regions += touched[i];
	/* 8 would hold all of it. */
	ck_assert_uint_le(regions, 16);
	iput(filler);
	fix_close(&f);
}
END_TEST

START_TEST(a_file_written_in_order_ends_in_a_few_runs)
{
	struct inode *inode;
	struct fix f;

	fix_open(&f, "-t ext4 -b 4096", 512 * MIB, 1);
	fix_mount(&f);
	inode = fix_file(&f, 0);
	for (ext4_lblk_t lblk = 0; lblk < 65536; lblk += 64)
		ck_assert_int_eq(fix_write(&f, inode, lblk, 64, 0), 0);
	ck_assert_uint_le(fix_count_runs(inode, 65536), 6);
	iput(inode);
	fix_close(&f);
}
END_TEST

START_TEST(a_file_written_backwards_ends_in_a_few_runs)
{
	struct inode *inode;
	struct fix f;

	fix_open(&f, "-t ext4 -b 4096", 512 * MIB, 1);
	fix_mount(&f);
	inode = fix_file(&f, 0);
	i_size_write(inode, 4096 * 4096);
	for (ext4_lblk_t lblk = 4096; lblk > 0; lblk -= 16)
		ck_assert_int_eq(fix_write(&f, inode, lblk - 16, 16, 0), 0);
	ck_assert_uint_le(fix_count_runs(inode, 4096), 16);
	iput(inode);
	fix_close(&f);
}
END_TEST

/* Take everything, then free every other block (or run) so that no larger hole is left. */
static void make_fragmented(struct fix *f, struct inode *inode, uint32_t hole, uint32_t between)
{
	handle_t *handle = NULL;
	unsigned in_handle = 0;

	fill(f, inode, EXT4_MB_USE_RESERVED);
	for (unsigned i = 0; i < model.n; i++) {
		struct range r = model.ranges[i];

		for (uint32_t at = 0; at + hole + between <= r.len; at += hole + between) {
			if (handle == NULL)
				handle = fix_start(f);
			ck_assert_int_eq(ext4_free_blocks(handle, inode, r.block + at, hole, 0), 0);
			memset(model.owned + r.block + at, 0, hole);
			if (++in_handle % 64 == 0) {
				fix_stop(handle);
				handle = NULL;
			}
		}
	}
	if (handle != NULL)
		fix_stop(handle);
	fix_commit(f);
}

/* After make_fragmented() the ranges are not whole any more: free what the map of bytes has. */
static void free_by_map(struct fix *f, struct inode *inode)
{
	uint64_t end = f->sb->s_blocks_count;
	uint64_t n = 0;

	model.n = 0;
	for (uint64_t b = 0; b < end; b += n) {
		for (n = 1; b + n < end && model.owned[b + n] == model.owned[b]; n++)
			;
		if (model.owned[b] != 0)
			ck_assert_int_eq(fix_free(f, inode, b, n), 0);
	}
}

static uint64_t effort(struct fix *f)
{
	struct ext4_mb_stats *st = ext4_mb_stats(f->sb);

	return counter_read(&st->mb_groups_scanned) * 50 + counter_read(&st->mb_extents_scanned);
}

static void fragmented_effort(int64_t stripe, uint64_t *per_request, uint64_t *latency_ns)
{
	const unsigned requests = 400;
	struct ext4_mb_stats *st;
	struct inode *inode;
	struct fix f;

	fix_open(&f, "-t ext4 -b 1024 -g 2048 -O ^resize_inode", 64 * MIB, 1);
	f.stripe = stripe;
	fix_mount(&f);
	model_init(&f);
	inode = fix_file(&f, 0);
	make_fragmented(&f, inode, 2, 2);
	/* Nothing is known after a new mount: i_blocks says what the file has. */
	remount(&f, &inode);
	st = ext4_mb_stats(f.sb);
	*per_request = effort(&f);
	for (unsigned i = 0; i < requests; i++) {
		uint32_t len = 2048;
		int err;
		ext4_fsblk_t block = fix_alloc(&f, inode, &len, EXT4_MB_HINT_DATA, &err);

		ck_assert_int_eq(err, 0);
		ck_assert_uint_le(len, 2);
		memset(model.owned + block, 1, len);
	}
	*per_request = (effort(&f) - *per_request) / requests;
	*latency_ns = hist_mean(&st->mb_latency_ns);
	free_by_map(&f, inode);
	finish(&f, inode);
}

START_TEST(effort_on_a_fragmented_file_system_is_bounded_with_and_without_stripe)
{
	uint64_t plain, striped, plain_ns, striped_ns;

	fragmented_effort(0, &plain, &plain_ns);
	fragmented_effort(1280, &striped, &striped_ns);
	fprintf(stderr, "effort %llu, with stripe %llu; %llu ns, with stripe %llu ns\n",
		(unsigned long long)plain, (unsigned long long)striped,
		(unsigned long long)plain_ns, (unsigned long long)striped_ns);
	ck_assert_uint_lt(plain, 2000);
	ck_assert_uint_lt(striped, plain + 500);
}
END_TEST

START_TEST(a_request_of_a_stripe_begins_on_a_stripe_boundary)
{
	struct inode *inode;
	struct fix f;

	fix_open(&f, "-t ext4 -b 4096 -E stride=16,stripe_width=48", 128 * MIB, 4);
	fix_mount(&f);
	ck_assert_uint_eq(f.sb->s_stripe, 48);
	for (unsigned i = 0; i < 4; i++) {
		struct ext4_map_blocks map = {.m_lblk = 0, .m_len = 300};
		int n;

		inode = fix_file(&f, i);
		/* Something small in between, so that alignment is not luck. */
		ck_assert_int_eq(fix_write(&f, inode, 1000, 7, EXT4_GET_BLOCKS_NO_NORMALIZE), 0);
		ck_assert_int_eq(fix_write(&f, inode, 0, 300, 0), 0);
		n = ext4_map_blocks(NULL, inode, &map, 0);
		ck_assert_int_ge(n, 48);
		ck_assert_uint_eq(map.m_pblk % 48, 0);
		iput(inode);
	}
	ck_assert_uint_ge(counter_read(&ext4_mb_stats(f.sb)->mb_stripe_hits), 4);
	fix_close(&f);
}
END_TEST

START_TEST(hints_spare_the_full_groups)
{
	struct ext4_mb_stats *st;
	struct inode *inode;
	uint64_t groups;
	struct fix f;

	fix_open(&f, "-t ext4 -b 1024 -g 1024 -O ^resize_inode", 64 * MIB, 1);
	fix_mount(&f);
	model_init(&f);
	inode = fix_file(&f, 0);
	fill(&f, inode, EXT4_MB_USE_RESERVED);
	for (unsigned i = 0; i < 10; i++) {
		struct range r = model_take(i);

		ck_assert_int_eq(fix_free(&f, inode, r.block, r.len), 0);
	}
	fix_commit(&f);
	st = ext4_mb_stats(f.sb);
	groups = counter_read(&st->mb_groups_scanned);
	for (unsigned i = 0; i < 50; i++) {
		uint32_t len = 1;
		int err;
		ext4_fsblk_t block = fix_alloc(&f, inode, &len, EXT4_MB_USE_RESERVED, &err);

		ck_assert_int_eq(err, 0);
		model_add(block, len);
	}
	/* 64 groups, nearly all full: each allocation looks into very few. */
	ck_assert_uint_le(counter_read(&st->mb_groups_scanned) - groups, 200);
	finish(&f, inode);
}
END_TEST

START_TEST(buddies_in_memory_are_bounded_and_rebuilt_exactly)
{
	struct inode *inode;
	struct prng p;
	struct fix f;

	prng_seed(&p, 9);
	fix_open(&f, "-t ext4 -b 1024 -g 1024 -O ^resize_inode", 48 * MIB, 1);
	fix_mount(&f);
	model_init(&f);
	ext4_mb(f.sb)->mb_max_buddies = 3;
	inode = fix_file(&f, 0);
	for (unsigned i = 0; i < 3000; i++) {
		if (model.n > 0 && prng_chance(&p, 2, 5)) {
			struct range r = model_take((unsigned)prng_below(&p, model.n));

			ck_assert_int_eq(fix_free(&f, inode, r.block, r.len), 0);
		} else {
			random_alloc(&f, inode, &p);
		}
		if (i % 150 == 0)
			fix_commit(&f);
	}
	ck_assert_uint_le(ext4_mb(f.sb)->mb_nr_buddies, 4);
	ck_assert_uint_gt(counter_read(&ext4_mb_stats(f.sb)->mb_buddies_built), 48);
	finish(&f, inode);
}
END_TEST

/* ---- Threads ---- */

#define THREADS 4
#define THREAD_STEPS 400

struct worker {
	struct fix *f;
	struct inode *inode;
	unsigned seed;
	struct range ranges[64];
	unsigned n;
};

static void worker_free(struct worker *w, unsigned i)
{
	struct range r = w->ranges[i];

	w->ranges[i] = w->ranges[--w->n];
	ck_assert_int_eq(fix_free(w->f, w->inode, r.block, r.len), 0);
}

static void *worker_main(void *arg)
{
	struct worker *w = arg;
	struct prng p;

	prng_seed(&p, w->seed);
	for (unsigned i = 0; i < THREAD_STEPS; i++) {
		uint32_t len = (uint32_t)prng_range(&p, 1, 40);
		ext4_fsblk_t block;
		int err;

		if (w->n == 64 || (w->n > 0 && prng_chance(&p, 1, 3))) {
			worker_free(w, (unsigned)prng_below(&p, w->n));
			continue;
		}
		block = fix_alloc(w->f, w->inode, &len, EXT4_MB_HINT_DATA, &err);
		if (err == 0)
			w->ranges[w->n++] = (struct range){block, len};
		if (i % 50 == 0)
			fix_commit(w->f);
	}
	return NULL;
}

START_TEST(threads_never_get_the_same_block)
{
	struct worker workers[THREADS];
	pthread_t threads[THREADS];
	struct fix f;

	fix_open(&f, "-t ext4 -b 1024 -g 2048 -O ^resize_inode", 24 * MIB, THREADS);
	f.threads = true;
	fix_mount(&f);
	model_init(&f);
	for (unsigned i = 0; i < THREADS; i++) {
		workers[i] = (struct worker){.f = &f, .inode = fix_file(&f, i), .seed = i + 1};
		ck_assert_int_eq(pthread_create(&threads[i], NULL, worker_main, &workers[i]), 0);
	}
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	for (unsigned i = 0; i < THREADS; i++)
		for (unsigned j = 0; j < workers[i].n; j++)
			model_add(workers[i].ranges[j].block, workers[i].ranges[j].len);
	fix_check_accounts(&f);
	for (unsigned i = 0; i < THREADS; i++) {
		while (workers[i].n > 0)
			worker_free(&workers[i], 0);
		if (i > 0)
			iput(workers[i].inode);
	}
	model.n = 0;
	finish(&f, workers[0].inode);
}
END_TEST

static void *writer_main(void *arg)
{
	struct worker *w = arg;
	handle_t *handle;
	struct prng p;

	prng_seed(&p, w->seed);
	for (unsigned i = 0; i < 150; i++) {
		ext4_lblk_t lblk = (ext4_lblk_t)prng_below(&p, 800);
		uint32_t len = (uint32_t)prng_range(&p, 1, 30);

		switch (prng_below(&p, 4)) {
		case 0:
			ck_assert_int_eq(fix_write(w->f, w->inode, lblk, len, 0), 0);
			break;
		case 1:
			ck_assert_int_eq(ext4_da_reserve_range(w->inode, lblk, len, &fix_user), 0);
			break;
		case 2:
			ck_assert_int_eq(fix_write(w->f, w->inode, lblk, len,
						   EXT4_GET_BLOCKS_DELALLOC_RESERVE),
					 0);
			break;
		default:
			handle = fix_start(w->f);
			ck_assert_int_eq(ext4_remove_space(handle, w->inode, lblk, lblk + len - 1),
					 0);
			fix_stop(handle);
		}
		if (i % 40 == 0)
			ext4_discard_preallocations(w->inode);
	}
	ext4_da_release_range(w->inode, 0, EXT4_MAX_BLOCKS);
	return NULL;
}

START_TEST(threads_write_and_punch_files_of_their_own)
{
	struct worker workers[THREADS];
	pthread_t threads[THREADS];
	struct fix f;

	fix_open(&f, "-t ext4 -b 1024 -g 2048 -O ^resize_inode", 48 * MIB, THREADS);
	f.threads = true;
	fix_mount(&f);
	for (unsigned i = 0; i < THREADS; i++) {
		workers[i] = (struct worker){.f = &f, .inode = fix_file(&f, i), .seed = i + 77};
		/*
		 * One block at the end that stays, so that the size is right whatever is punched.
		 */
		ck_assert_int_eq(fix_write(&f, workers[i].inode, 900, 1, 0), 0);
	}
	for (unsigned i = 0; i < THREADS; i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL, writer_main, &workers[i]), 0);
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	fix_check_accounts(&f);
	ck_assert_uint_eq(ext4_sb_dirty_blocks(f.sb), 0);
	ck_assert_int_eq(atomic_load(&ext4_mb(f.sb)->mb_dirty_meta), 0);
	for (unsigned i = 0; i < THREADS; i++)
		iput(workers[i].inode);
	fix_close(&f);
}
END_TEST

int main(void)
{
	return RUN_TESTS(
		"alloc/mballoc", random_allocations_agree_with_a_model,
		random_allocations_agree_with_a_model_small_groups,
		random_allocations_agree_with_a_model_without_checksums,
		each_class_gets_exactly_what_is_left_to_it,
		freed_blocks_are_reusable_after_the_commit_and_not_before,
		unused_blocks_are_reusable_at_once,
		two_files_written_in_turns_do_not_interleave_in_small_pieces,
		many_small_files_touch_few_regions, a_file_written_in_order_ends_in_a_few_runs,
		a_file_written_backwards_ends_in_a_few_runs,
		effort_on_a_fragmented_file_system_is_bounded_with_and_without_stripe,
		a_request_of_a_stripe_begins_on_a_stripe_boundary, hints_spare_the_full_groups,
		buddies_in_memory_are_bounded_and_rebuilt_exactly, threads_never_get_the_same_block,
		threads_write_and_punch_files_of_their_own);
}
