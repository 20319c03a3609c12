/* SPDX-License-Identifier: GPL-2.0-or-later */
/* ext4d-threaded */
#include "tests/unit/writeback/wb_fixture.h"

#define FRAMES_PER_SLAB 512u

static bool adjacent(struct page *const *pages, unsigned n)
{
	for (unsigned i = 1; i < n; i++)
		if (pages[i]->p_data != pages[i - 1]->p_data + PAGE)
			return false;
	return true;
}

START_TEST(arena_hands_out_every_frame_once_and_no_more)
{
	struct arena *a = arena_create(NULL, 4 * MIB);
	struct page *pages[1024], *one;
	unsigned got;

	ck_assert_uint_eq(arena_total_frames(a), 1024);
	got = arena_alloc(a, NULL, 1024, pages);
	ck_assert_uint_eq(got, 1024);
	ck_assert_uint_eq(arena_free_frames(a), 0);
	ck_assert_uint_eq(arena_alloc(a, NULL, 1, &one), 0);
	for (unsigned i = 0; i < got; i++) {
		ck_assert_ptr_nonnull(pages[i]->p_data);
		ck_assert_uint_eq((uintptr_t)pages[i]->p_data % PAGE, 0);
		memcpy(pages[i]->p_data, &i, sizeof(i));
	}
	for (unsigned i = 0; i < got; i++)
		ck_assert_int_eq(memcmp(pages[i]->p_data, &i, sizeof(i)), 0);
	arena_free(a, pages, got);
	arena_check(a);
	ck_assert_uint_eq(arena_free_frames(a), 1024);
	arena_destroy(a);
}
END_TEST

START_TEST(arena_tries_huge_and_ordinary_pages)
{
	struct arena *a = arena_create(NULL, 64 * MIB);
	static struct page *pages[32 * FRAMES_PER_SLAB];
	struct arena_stats st;
	unsigned got = 0;

	while (got < 32 * FRAMES_PER_SLAB)
		got += arena_alloc(a, NULL, 64, pages + got);
	arena_get_stats(a, &st);
	ck_assert_uint_eq(st.as_huge_slabs + st.as_ordinary_slabs, 32);
	ck_assert_uint_ge(st.as_huge_slabs, 1);
	ck_assert_uint_ge(st.as_ordinary_slabs, 1);
	ck_assert_uint_gt(st.as_huge_populate_ns, 0);
	ck_assert_uint_gt(st.as_ordinary_populate_ns, 0);
	arena_free(a, pages, got);
	arena_destroy(a);
}
END_TEST

START_TEST(arena_gives_runs_of_adjacent_frames)
{
	struct arena *a = arena_create(NULL, 8 * MIB);
	struct page *single[10], *run[64];

	/* Small files do not spoil the next run. */
	for (unsigned i = 0; i < 10; i++)
		ck_assert_uint_eq(arena_alloc(a, NULL, 1, &single[i]), 1);
	ck_assert_uint_eq(arena_alloc(a, NULL, 64, run), 64);
	ck_assert(adjacent(run, 64));
	ck_assert(adjacent(single, 10));
	arena_free(a, single, 10);
	arena_free(a, run, 64);
	arena_destroy(a);
}
END_TEST

START_TEST(arena_lets_two_sequential_writers_each_stay_adjacent)
{
	struct arena *a = arena_create(NULL, 16 * MIB);
	struct frame_reserve r[2];
	struct page *pages[2][128];

	memset(r, 0, sizeof(r));
	for (unsigned i = 0; i < 128; i += 2) {
		for (unsigned w = 0; w < 2; w++) {
			ck_assert_uint_eq(arena_alloc(a, &r[w], 2, &pages[w][i]), 2);
			r[w].fr_streak += 2;
		}
	}
	for (unsigned w = 0; w < 2; w++) {
		ck_assert(adjacent(&pages[w][16], 64));
		arena_free(a, pages[w], 128);
		arena_release_reserve(a, &r[w]);
	}
	arena_check(a);
	ck_assert_uint_eq(arena_free_frames(a), arena_total_frames(a));
	arena_destroy(a);
}
END_TEST

START_TEST(arena_takes_reserves_back_when_nothing_else_is_left)
{
	struct arena *a = arena_create(NULL, 2 * MIB);
	struct frame_reserve r = {.fr_streak = 100};
	struct page *pages[FRAMES_PER_SLAB];
	struct arena_stats st;

	ck_assert_uint_eq(arena_alloc(a, &r, 1, &pages[0]), 1);
	arena_get_stats(a, &st);
	ck_assert_uint_eq(st.as_reserved_frames, 63);
	ck_assert_uint_eq(arena_alloc(a, NULL, FRAMES_PER_SLAB - 1, &pages[1]),
			  FRAMES_PER_SLAB - 1);
	ck_assert_uint_eq(arena_free_frames(a), 0);
	arena_get_stats(a, &st);
	ck_assert_uint_eq(st.as_reserved_frames, 0);
	arena_free(a, pages, FRAMES_PER_SLAB);
	arena_destroy(a);
}
END_TEST

START_TEST(arena_grows_as_needed_and_gives_idle_slabs_back)
{
	struct arena *a = arena_create(NULL, 64 * MIB);
	struct page *pages[3 * FRAMES_PER_SLAB];
	struct arena_stats st;

	arena_get_stats(a, &st);
	ck_assert_uint_eq(st.as_bytes, 0);
	ck_assert_uint_eq(arena_alloc(a, NULL, 3 * FRAMES_PER_SLAB, pages), 3 * FRAMES_PER_SLAB);
	arena_get_stats(a, &st);
	ck_assert_uint_eq(st.as_bytes, 6 * MIB);
	arena_free(a, pages + 1, 3 * FRAMES_PER_SLAB - 1);
	ck_assert_uint_eq(arena_trim(a, 0), 4 * MIB);
	arena_check(a);
	arena_free(a, pages, 1);
	ck_assert_uint_eq(arena_trim(a, 0), 2 * MIB);
	ck_assert_uint_eq(arena_alloc(a, NULL, 3 * FRAMES_PER_SLAB, pages), 3 * FRAMES_PER_SLAB);
	arena_free(a, pages, 3 * FRAMES_PER_SLAB);
	arena_check(a);
	arena_destroy(a);
}
END_TEST

START_TEST(arena_model)
{
	struct arena *a = arena_create(NULL, 6 * MIB);
	struct frame_reserve r[3];
	struct page *held[1536];
	unsigned n = 0;
	struct prng p;

	memset(r, 0, sizeof(r));
	prng_seed(&p, prng_seed_from_env(7));
	for (unsigned op = 0; op < 20000; op++) {
		unsigned want = (unsigned)prng_range(&p, 1, 80), k = (unsigned)prng_below(&p, 4);

		if (want > 1536 - n)
			want = 1536 - n;
		if (prng_chance(&p, 1, 2) && want > 0) {
			unsigned got = arena_alloc(a, k < 3 ? &r[k] : NULL, want, held + n);

			ck_assert_uint_eq(got, want);
			if (k < 3)
				r[k].fr_streak = prng_chance(&p, 1, 8) ? 0 : r[k].fr_streak + got;
			n += got;
		} else if (n > 0) {
			unsigned at = (unsigned)prng_below(&p, n),
				 cnt = (unsigned)prng_range(&p, 1, n - at);

			arena_free(a, held + at, cnt);
			memmove(held + at, held + at + cnt, (n - at - cnt) * sizeof(held[0]));
			n -= cnt;
		}
		ck_assert_uint_eq(arena_free_frames(a), 1536 - n);
		if (op % 100 == 0)
			arena_check(a);
	}
	arena_free(a, held, n);
	for (unsigned i = 0; i < 3; i++)
		arena_release_reserve(a, &r[i]);
	arena_check(a);
	arena_destroy(a);
}
END_TEST

START_TEST(arena_takes_memory_before_it_is_needed)
{
	struct arena *a = arena_create(NULL, 64 * MIB);
	struct arena_stats as;
	struct page *pages[3 * 512];
	unsigned got = 0;

	ck_assert_int_eq(arena_grow_ahead(a), 0);
	while (got < 3 * 512)
		got += arena_alloc(a, NULL, 512, pages + got);
	/* As much again as is used, and not more: within ten seconds, however busy the machine. */
	for (unsigned i = 0; i < 10000; i++) {
		arena_get_stats(a, &as);
		if (as.as_bytes >= 12 * MIB)
			break;
		usleep(1000);
	}
	ck_assert_uint_eq(as.as_bytes, 12 * MIB);
	ck_assert_uint_gt(as.as_grown_ahead, 0);
	arena_check(a);
	arena_free(a, pages, got);
	arena_destroy(a);
}
END_TEST

int main(void)
{
	return RUN_TESTS("writeback/arena", arena_hands_out_every_frame_once_and_no_more,
			 arena_tries_huge_and_ordinary_pages, arena_gives_runs_of_adjacent_frames,
			 arena_lets_two_sequential_writers_each_stay_adjacent,
			 arena_takes_reserves_back_when_nothing_else_is_left,
			 arena_grows_as_needed_and_gives_idle_slabs_back,
			 arena_takes_memory_before_it_is_needed, arena_model);
}
