/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * test_buddy.c - the buddy against a plain array of booleans.
 *
 * Invariants: (1) after each step the buddy and the array say the same of every block.
 * Locking: none.
 */
#include "alloc/buddy.h"

#include <signal.h>
#include <string.h>

#include "tests/lib/prng.h"
#include "tests/lib/suite.h"

#define MODEL_MAX 32768u

static bool model[MODEL_MAX]; /* true: free */
static uint8_t disk[MODEL_MAX / 8];

static uint32_t model_free(uint32_t blocks)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < blocks; i++)
		n += model[i];
	return n;
}

static struct ext4_buddy *load_model(uint32_t blocks)
{
	struct ext4_buddy *b = ext4_buddy_new(blocks);

	ck_assert_ptr_nonnull(b);
	memset(disk, 0xff, sizeof(disk));
	for (uint32_t i = 0; i < blocks; i++)
		if (model[i])
			ext4_bitmap_fill(disk, i, 1, false);
	ext4_buddy_load(b, disk);
	return b;
}

static void compare(const struct ext4_buddy *b)
{
	struct ext4_free_run run = {0, 0};
	struct ext4_free_run cut;
	uint32_t wrong = 0;
	uint32_t pos = 0;

	ext4_buddy_check(b);
	ck_assert_uint_eq(b->b_free, model_free(b->b_blocks));
	for (;;) {
		run = ext4_buddy_next_run(b, run.fr_start + run.fr_len, b->b_blocks);
		if (run.fr_len == 0)
			break;
		cut = ext4_buddy_next_run_of(b, pos, 5);
		ck_assert_uint_eq(cut.fr_start, run.fr_start);
		ck_assert_uint_eq(cut.fr_len, run.fr_len < 5 ? run.fr_len : 5);
		for (; pos < run.fr_start; pos++)
			wrong += model[pos];
		for (; pos < run.fr_start + run.fr_len; pos++)
			wrong += !model[pos];
	}
	for (; pos < b->b_blocks; pos++)
		wrong += model[pos];
	ck_assert_uint_eq(wrong, 0);
}

static void set_model(uint32_t start, uint32_t len, bool is_free)
{
	for (uint32_t i = 0; i < len; i++)
		model[start + i] = is_free;
}

/* One random change of a run that is uniform. */
static void random_step(struct ext4_buddy *b, struct prng *p)
{
	uint32_t start = (uint32_t)prng_below(p, b->b_blocks);
	uint32_t len = (uint32_t)prng_range(p, 1, prng_chance(p, 1, 8) ? b->b_blocks : 20);
	uint32_t n = 0;

	while (start + n < b->b_blocks && n < len && model[start + n] == model[start])
		n++;
	if (model[start])
		ext4_buddy_mark_used(b, start, n);
	else
		ext4_buddy_mark_free(b, start, n);
	set_model(start, n, !model[start]);
}

START_TEST(random_changes_agree_with_a_plain_array)
{
	static const uint32_t sizes[] = {1, 2, 63, 64, 65, 1000, 8192, 32767, 32768};
	struct prng p;

	prng_seed(&p, prng_seed_from_env(11));
	for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
		struct ext4_buddy *b;

		for (uint32_t i = 0; i < sizes[s]; i++)
			model[i] = prng_chance(&p, 1, 3);
		b = load_model(sizes[s]);
		compare(b);
		for (unsigned i = 0; i < 3000; i++) {
			random_step(b, &p);
			if (sizes[s] <= 65 || i % 300 == 0)
				compare(b);
		}
		compare(b);
		ext4_buddy_free(b);
	}
}
END_TEST

START_TEST(freeing_everything_gives_the_largest_chunks)
{
	struct ext4_buddy *b;

	set_model(0, MODEL_MAX, false);
	b = load_model(MODEL_MAX);
	ck_assert_int_eq(ext4_buddy_largest_order(b), -1);
	ck_assert_uint_eq(ext4_buddy_find_chunk(b, 0, 0), UINT32_MAX);
	for (uint32_t i = 0; i < MODEL_MAX; i += 2)
		ext4_buddy_mark_free(b, i, 1);
	ck_assert_uint_eq(b->b_fragments, MODEL_MAX / 2);
	ck_assert_int_eq(ext4_buddy_largest_order(b), 0);
	for (uint32_t i = 1; i < MODEL_MAX; i += 2)
		ext4_buddy_mark_free(b, i, 1);
	ck_assert_uint_eq(b->b_fragments, 1);
	ck_assert_int_eq(ext4_buddy_largest_order(b), 15);
	ck_assert_uint_eq(b->b_counters[15], 1);
	ext4_buddy_check(b);
	ext4_buddy_free(b);
}
END_TEST

/* Long used stretches, whole words of them and parts, lie between the free runs. */
START_TEST(search_passes_over_what_is_used)
{
	struct ext4_buddy *b;

	memset(model, true, sizeof(model));
	b = load_model(MODEL_MAX);
	ext4_buddy_mark_used(b, 0, 20000);
	ck_assert_uint_eq(ext4_buddy_next_run(b, 0, MODEL_MAX).fr_start, 20000);
	ck_assert_uint_eq(ext4_buddy_next_run(b, 0, 15000).fr_len, 0);
	ck_assert_uint_eq(ext4_buddy_next_run(b, 0, 20010).fr_len, 10);
	ext4_buddy_mark_free(b, 4100, 10);
	ck_assert_uint_eq(ext4_buddy_next_run_of(b, 63, 4).fr_start, 4100);
	ck_assert_uint_eq(ext4_buddy_next_run_of(b, 63, 4).fr_len, 4);
	ck_assert_uint_eq(ext4_buddy_next_run_of(b, 4104, 400).fr_start, 4104);
	ck_assert_uint_eq(ext4_buddy_next_run_of(b, 4104, 400).fr_len, 6);
	ck_assert_uint_eq(ext4_buddy_next_run_of(b, 4110, 400).fr_start, 20000);
	ck_assert_uint_eq(ext4_buddy_next_run_of(b, 4110, 400).fr_len, 400);
	ext4_buddy_mark_used(b, 4100, 10);
	ext4_buddy_mark_used(b, 20000, MODEL_MAX - 20000);
	ck_assert_uint_eq(ext4_buddy_next_run(b, 0, MODEL_MAX).fr_len, 0);
	ck_assert_uint_eq(ext4_buddy_next_run_of(b, MODEL_MAX - 1, 5).fr_len, 0);
	ext4_buddy_check(b);
	ext4_buddy_free(b);
}
END_TEST

START_TEST(find_chunk_prefers_the_first_at_or_after_the_goal)
{
	struct ext4_buddy *b;

	set_model(0, MODEL_MAX, false);
	set_model(64, 64, true);
	set_model(1024, 32, true);
	set_model(4096 + 3, 20, true);
	b = load_model(MODEL_MAX);
	ck_assert_uint_eq(ext4_buddy_find_chunk(b, 5, 0), 64);
	ck_assert_uint_eq(ext4_buddy_find_chunk(b, 5, 65), 1024);
	ck_assert_uint_eq(ext4_buddy_find_chunk(b, 5, 1025), 64);
	ck_assert_uint_eq(ext4_buddy_find_chunk(b, 6, 2000), 64);
	ck_assert_uint_eq(ext4_buddy_find_chunk(b, 7, 0), UINT32_MAX);
	ck_assert_uint_eq(ext4_buddy_run_at(b, 4096 + 3, 100), 20);
	ck_assert_uint_eq(ext4_buddy_run_at(b, 4096 + 3, 7), 7);
	ck_assert_uint_eq(ext4_buddy_run_at(b, 4096 + 2, 7), 0);
	ext4_buddy_free(b);
}
END_TEST

START_TEST(bitmap_helpers_agree_with_single_bits)
{
	uint8_t map[64];
	struct prng p;

	prng_seed(&p, 5);
	for (unsigned round = 0; round < 2000; round++) {
		uint32_t start = (uint32_t)prng_below(&p, 512);
		uint32_t len = (uint32_t)prng_range(&p, 1, 512 - start);
		bool set = prng_chance(&p, 1, 2);
		uint32_t wrong = 0;

		memset(map, set ? 0 : 0xff, sizeof(map));
		ext4_bitmap_fill(map, start, len, set);
		for (uint32_t i = 0; i < 512; i++)
			wrong += ext4_bitmap_test(map, i) !=
				 ((i >= start && i < start + len) == set);
		ck_assert_uint_eq(wrong, 0);
		ck_assert(ext4_bitmap_all(map, start, len, set));
		if (start > 0)
			ck_assert(!ext4_bitmap_all(map, start - 1, len + 1, set));
		if (start + len < 512)
			ck_assert(!ext4_bitmap_all(map, start, len + 1, set));
		if (set)
			ck_assert_uint_eq(ext4_bitmap_next_zero(map, start, 512), start + len);
		else
			ck_assert_uint_eq(ext4_bitmap_next_zero(map, 0, 512), start);
	}
}
END_TEST

START_TEST(marking_a_used_block_used_is_an_assertion)
{
	struct ext4_buddy *b;

	set_model(0, 64, true);
	b = load_model(64);
	ext4_buddy_mark_used(b, 3, 4);
	ext4_buddy_mark_used(b, 6, 2);
}
END_TEST

START_TEST(marking_a_free_block_free_is_an_assertion)
{
	struct ext4_buddy *b;

	set_model(0, 64, true);
	b = load_model(64);
	ext4_buddy_mark_free(b, 3, 4);
}
END_TEST

/* The tests that must die run in a suite of their own. */
static int run_aborting(void)
{
	Suite *s = suite_create("alloc/buddy asserts");
	TCase *tc = testlib_case("asserts");

	tcase_add_test_raise_signal(tc, marking_a_used_block_used_is_an_assertion, SIGABRT);
	tcase_add_test_raise_signal(tc, marking_a_free_block_free_is_an_assertion, SIGABRT);
	suite_add_tcase(s, tc);
	return testlib_run_suite(s);
}

int main(void)
{
	int rc = RUN_TESTS("alloc/buddy", random_changes_agree_with_a_plain_array,
			   freeing_everything_gives_the_largest_chunks,
			   search_passes_over_what_is_used,
			   find_chunk_prefers_the_first_at_or_after_the_goal,
			   bitmap_helpers_agree_with_single_bits);

	return run_aborting() != 0 ? 1 : rc;
}
