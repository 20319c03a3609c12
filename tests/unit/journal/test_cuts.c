/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * test_cuts.c - after a power cut at any point replay gives exactly what some transaction left.
 *
 * A seeded run of transactions changes metadata blocks, frees some of them with a revoke, uses
 * them for data that is written past the journal, and takes them back. After each commit the
 * state of every block is kept as a snapshot. The device is then rebuilt for cuts at every
 * recorded request, replayed, and compared with the snapshot of the last acknowledged commit or of
 * the one that was under way.
 */
#include <inttypes.h>
#include <stdio.h>

#include "tests/lib/crash.h"
#include "tests/lib/prng.h"
#include "tests/lib/suite.h"
#include "tests/lib/testlib.h"
#include "tests/unit/journal/fixture.h"

#define BLOCKS 160u
#define COMMITS_MAX 128u
#define ANY UINT64_MAX /* a freed block: nothing is promised */
#define MAGIC_TAG 5000000u

/* What a block is at a moment. */
enum use { USE_META, USE_FREED, USE_FREE, USE_DATA };

struct run {
	struct fixture r_f;
	struct blkdev *r_base;	/* the device before the first write */
	struct blkdev *r_image; /* the device after the cut that is looked at */
	struct prng r_prng;
	enum use r_use[BLOCKS];
	uint64_t r_tag[BLOCKS];
	uint64_t r_next_tag;
	uint64_t r_snapshot[COMMITS_MAX + 1][BLOCKS];
	unsigned r_commits;
};

/* Some blocks begin with the log's magic, so that they have to be escaped. */
static void fill(uint8_t *data, uint32_t block_bytes, uint64_t tag)
{
	pattern_fill(data, block_bytes, tag, 0);
	if (tag % 7 == 0)
		put_be32(data, JBD2_MAGIC_NUMBER);
}

static bool block_is(const uint8_t *data, uint32_t block_bytes, uint64_t tag)
{
	uint8_t want[4096];

	if (tag == ANY)
		return true;
	if (tag == 0)
		return bytes_mismatch(data, block_bytes, 0) == -1;
	fill(want, block_bytes, tag);
	return memcmp(data, want, block_bytes) == 0;
}

/* ---- The run ---- */

static void change(struct run *r, handle_t *h, unsigned b)
{
	struct fixture *f = &r->r_f;
	bool create = r->r_use[b] != USE_META;
	struct buffer_head *bh =
		create ? bh_get(f->f_cache, FX_META + b) : bh_read(f->f_cache, FX_META + b);

	ck_assert(!IS_ERR(bh));
	if (create)
		ck_assert_int_eq(jbd2_journal_get_create_access(h, bh), 0);
	else
		ck_assert_int_eq(jbd2_journal_get_write_access(h, bh), 0);
	lock_buffer(bh);
	fill(bh->b_data, bh->b_size, ++r->r_next_tag);
	bh_set(bh, BH_UPTODATE);
	unlock_buffer(bh);
	ck_assert_int_eq(jbd2_journal_dirty_metadata(h, bh), 0);
	bh_put(bh);
	r->r_use[b] = USE_META;
	r->r_tag[b] = r->r_next_tag;
}

static void give_up(struct run *r, handle_t *h, unsigned b)
{
	struct fixture *f = &r->r_f;

	ck_assert_int_eq(jbd2_journal_revoke(h, FX_META + b, bh_find(f->f_cache, FX_META + b)), 0);
	r->r_use[b] = USE_FREED;
	r->r_tag[b] = ANY;
}

static void write_data(struct run *r, unsigned b)
{
	struct fixture *f = &r->r_f;
	uint32_t bs = f->f_shape.fs_block_bytes;
	uint8_t data[4096];

	ck_assert(!bh_writes_in_flight(f->f_cache, FX_META + b, 1));
	bh_forget_range(f->f_cache, FX_META + b, 1);
	fill(data, bs, ++r->r_next_tag);
	ck_assert_int_eq(blk_write(f->f_dev, (uint64_t)(FX_META + b) * bs, data, bs, 0), 0);
	ck_assert_int_eq(blk_flush(f->f_dev), 0);
	r->r_use[b] = USE_DATA;
	r->r_tag[b] = r->r_next_tag;
}

static void one_handle(struct run *r)
{
	handle_t *h = jbd2_journal_start(r->r_f.f_j, HT_MISC, 24, 12);
	unsigned n = 1 + (unsigned)prng_below(&r->r_prng, 20);

	ck_assert(!IS_ERR(h));
	for (unsigned i = 0; i < n; i++) {
		unsigned b = (unsigned)prng_below(&r->r_prng, BLOCKS);

		if (r->r_use[b] == USE_FREED)
			continue;
		if (r->r_use[b] == USE_META && r->r_tag[b] != 0 && i < 12 &&
		    prng_chance(&r->r_prng, 1, 5))
			give_up(r, h, b);
		else
			change(r, h, b);
	}
	ck_assert_int_eq(jbd2_journal_stop(h), 0);
}

/* The blocks that the last transaction freed may be used from now on. */
static void reuse_freed(struct run *r)
{
	for (unsigned b = 0; b < BLOCKS; b++) {
		if (r->r_use[b] != USE_FREED)
			continue;
		r->r_use[b] = USE_FREE;
		if (prng_chance(&r->r_prng, 2, 3))
			write_data(r, b);
	}
}

static void one_commit(struct run *r)
{
	unsigned handles = 1 + (unsigned)prng_below(&r->r_prng, 4);
	char text[32];

	for (unsigned i = 0; i < handles; i++)
		one_handle(r);
	memcpy(r->r_snapshot[++r->r_commits], r->r_tag, sizeof(r->r_tag));
	ck_assert_int_eq(jbd2_journal_force_commit(r->r_f.f_j), 0);
	snprintf(text, sizeof(text), "%u", r->r_commits);
	ck_assert_int_eq(blk_mark(r->r_f.f_dev, text), 0);
	reuse_freed(r);
	if (prng_chance(&r->r_prng, 1, 12))
		ck_assert_int_eq(jbd2_journal_flush(r->r_f.f_j), 0);
}

static void run_all(struct run *r, const struct fx_shape *shape, bool async, unsigned commits)
{
	uint64_t seed = prng_seed_from_env(0x6a626432);

	memset(r, 0, sizeof(*r));
	prng_seed(&r->r_prng, seed);
	fx_format(&r->r_f, shape);
	r->r_base = testlib_clone(r->r_f.f_dev);
	r->r_image = testlib_clone(r->r_f.f_dev);
	fx_use(&r->r_f, log_open_memory(r->r_f.f_dev));
	r->r_f.f_params.jp_async_commit = async;
	fx_load(&r->r_f);
	/* Begin near the end of the log, so that it wraps. */
	r->r_f.f_j->j_head = r->r_f.f_j->j_last - 150;
	r->r_f.f_j->j_tail = r->r_f.f_j->j_head;
	while (r->r_commits < commits)
		one_commit(r);
	ck_assert_int_eq(fx_unload(&r->r_f), 0);
}

/* ---- The cuts ---- */

static bool matches(struct run *r, struct blkdev *image, unsigned k)
{
	uint32_t bs = r->r_f.f_shape.fs_block_bytes;
	const uint8_t *data = mem_data(image);

	for (unsigned b = 0; b < BLOCKS; b++)
		if (!block_is(data + (size_t)(FX_META + b) * bs, bs, r->r_snapshot[k][b]))
			return false;
	return true;
}

static void recover_image(struct run *r, struct blkdev *image)
{
	struct fixture g = r->r_f;

	fx_use(&g, image);
	ck_assert_int_eq(fx_recover(&g), 0);
}

/* Cut the recovery itself somewhere, and recover again. */
static void recover_twice(struct run *r, struct blkdev *image)
{
	struct blkdev *log = log_open_memory(testlib_clone(image));

	recover_image(r, log);
	crash_apply(log, prng_below(&r->r_prng, log_entry_count(log) + 1), CRASH_RANDOM, &r->r_prng,
		    image);
	blk_close(log);
	recover_image(r, image);
}

static void check_cut(struct run *r, struct blkdev *base, size_t from, size_t n,
		      enum crash_mode mode)
{
	struct blkdev *image = r->r_image;
	const char *mark = crash_last_mark(r->r_f.f_dev, n);
	unsigned acked = mark == NULL ? 0 : (unsigned)strtoul(mark, NULL, 10);

	memcpy(mem_data(image), mem_data(base), image->bd_size_bytes);
	crash_apply_from(r->r_f.f_dev, from, n, mode, &r->r_prng, image);
	if (prng_chance(&r->r_prng, 1, 8))
		recover_twice(r, image);
	else
		recover_image(r, image);
	if (!matches(r, image, acked) && !(acked < r->r_commits && matches(r, image, acked + 1)))
		ck_abort_msg("cut at %zu, mode %d: neither commit %u nor %u", n, mode, acked,
			     acked + 1);
}

static void check_all_cuts(struct run *r)
{
	struct blkdev *log = r->r_f.f_dev;
	size_t total = log_entry_count(log);
	size_t from = 0;

	for (size_t n = 0; n <= total; n++) {
		size_t barrier = crash_barrier(log, n);

		if (barrier > from) {
			crash_replay(log, from, barrier, r->r_base);
			from = barrier;
		}
		check_cut(r, r->r_base, from, n, CRASH_DURABLE_ONLY);
		check_cut(r, r->r_base, from, n, CRASH_KEEP_COMPLETED);
		check_cut(r, r->r_base, from, n, CRASH_RANDOM);
		check_cut(r, r->r_base, from, n, CRASH_RANDOM);
	}
}

static void cuts_of(const struct fx_shape *shape, bool async, unsigned commits)
{
	struct run *r = malloc(sizeof(*r));

	run_all(r, shape, async, commits);
	check_all_cuts(r);
	blk_close(r->r_f.f_dev);
	blk_close(r->r_base);
	blk_close(r->r_image);
	free(r);
}

START_TEST(every_cut_gives_a_committed_state)
{
	cuts_of(&fx_shapes[_i], false, fx_shapes[_i].fs_block_bytes == 1024 ? 10 : 5);
}
END_TEST

START_TEST(every_cut_with_async_commit_gives_a_committed_state)
{
	const int shapes[] = {0, 3};

	cuts_of(&fx_shapes[shapes[_i]], true, 10);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("journal/cuts");
	TCase *tc = testlib_case("cuts");

	tcase_add_loop_test(tc, every_cut_gives_a_committed_state, 0, FX_SHAPES);
	tcase_add_loop_test(tc, every_cut_with_async_commit_gives_a_committed_state, 0, 2);
	suite_add_tcase(s, tc);
	return testlib_run_suite(s);
}
