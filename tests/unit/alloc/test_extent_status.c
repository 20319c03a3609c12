/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * test_extent_status.c - the extent status tree against an array of blocks; merging, caching around what is known, the shrinker.
 */
#include <pthread.h>

#include "tests/unit/alloc/fake_fs.h"

#define BLOCKS 600u

struct block {
	unsigned state; /* 0: unknown */
	ext4_fsblk_t pblk;
};
static struct block model[BLOCKS];

static void setup(void)
{
	fake_init(4096, 64, EXT4_EXTENTS_FL, 1);
	memset(model, 0, sizeof(model));
}

static void model_set(ext4_lblk_t lblk, ext4_lblk_t len, ext4_fsblk_t pblk, unsigned state)
{
	for (ext4_lblk_t i = 0; i < len; i++) {
		model[lblk + i].state = state;
		model[lblk + i].pblk = state & (ES_WRITTEN | ES_UNWRITTEN) ? pblk + i : 0;
	}
}

static bool continues(ext4_lblk_t a)
{
	const struct block *x = &model[a], *y = &model[a + 1];

	if (x->state != y->state)
		return false;
	return (x->state & (ES_WRITTEN | ES_UNWRITTEN)) == 0 || x->pblk + 1 == y->pblk;
}

/* Each look-up gives the longest run that the model has there. */
static void check_all(void)
{
	ext4_lblk_t delayed = 0;

	ext4_es_check(&fake.inode);
	for (ext4_lblk_t i = 0; i < BLOCKS; i++) {
		struct extent_status es;
		bool known = ext4_es_lookup(&fake.inode, i, &es);

		ck_assert(known == (model[i].state != 0));
		delayed += model[i].state == ES_DELAYED;
		if (!known)
			continue;
		ck_assert_uint_eq(es.es_state, model[i].state);
		ck_assert_uint_le(es.es_lblk, i);
		if (model[i].pblk != 0)
			ck_assert_uint_eq(es.es_pblk + (i - es.es_lblk), model[i].pblk);
		for (ext4_lblk_t j = es.es_lblk; j + 1 < es.es_lblk + es.es_len; j++)
			ck_assert(continues(j));
		if (es.es_lblk > 0)
			ck_assert(!continues(es.es_lblk - 1));
		if (es.es_lblk + es.es_len < BLOCKS)
			ck_assert(!continues(es.es_lblk + es.es_len - 1));
	}
	ck_assert_uint_eq(fake.ia.ia_es_delayed_blocks, delayed);
	ck_assert_uint_eq(ext4_es_delayed_blocks(&fake.inode, 0, BLOCKS), delayed);
}

static void check_find_delayed(ext4_lblk_t lblk, ext4_lblk_t end)
{
	struct extent_status es;
	bool found = ext4_es_find_delayed(&fake.inode, lblk, end, &es);
	ext4_lblk_t first = lblk, n = 0;

	while (first <= end && model[first].state != ES_DELAYED)
		first++;
	ck_assert(found == (first <= end));
	ck_assert(ext4_es_has_delayed(&fake.inode, lblk, end) == found);
	if (!found)
		return;
	while (first + n <= end && model[first + n].state == ES_DELAYED)
		n++;
	ck_assert_uint_eq(es.es_lblk, first);
	ck_assert_uint_eq(es.es_len, n);
}

static void model_cache(ext4_lblk_t around, const struct extent_status *run)
{
	ext4_lblk_t lo = around, hi = around;

	if (model[around].state != 0)
		return;
	while (lo > run->es_lblk && model[lo - 1].state == 0)
		lo--;
	while (hi + 1 < run->es_lblk + run->es_len && model[hi + 1].state == 0)
		hi++;
	model_set(lo, hi - lo + 1, run->es_pblk + (lo - run->es_lblk), run->es_state);
}

static void random_op(void)
{
	static const unsigned states[] = {ES_WRITTEN, ES_UNWRITTEN, ES_DELAYED, ES_HOLE};
	ext4_lblk_t lblk = (ext4_lblk_t)prng_below(&fake.rng, BLOCKS);
	ext4_lblk_t len = 1 + (ext4_lblk_t)prng_below(&fake.rng, 30);
	unsigned state = states[prng_below(&fake.rng, 4)];
	/* Few distances, so that neighbours are often contiguous. */
	ext4_fsblk_t pblk = 1000 * (1 + prng_below(&fake.rng, 2)) + lblk;
	struct extent_status run;

	if (len > BLOCKS - lblk)
		len = BLOCKS - lblk;
	run = (struct extent_status){lblk, len, pblk, state};
	switch (prng_below(&fake.rng, 5)) {
	case 0:
		ck_assert_int_eq(ext4_es_remove(&fake.inode, lblk, len), 0);
		model_set(lblk, len, 0, 0);
		break;
	case 1:
		run.es_state = state == ES_DELAYED ? ES_HOLE : state;
		lblk += (ext4_lblk_t)prng_below(&fake.rng, len);
		ext4_es_cache(&fake.inode, lblk, &run);
		model_cache(lblk, &run);
		break;
	case 2:
		check_find_delayed(lblk, lblk + len - 1);
		break;
	default:
		ck_assert_int_eq(ext4_es_insert(&fake.inode, lblk, len, pblk, state), 0);
		model_set(lblk, len, pblk, state);
	}
}

static void drop_delayed(void)
{
	ck_assert_int_eq(ext4_es_remove(&fake.inode, 0, EXT4_MAX_BLOCKS), 0);
}

START_TEST(random_changes_match_an_array)
{
	setup();
	prng_seed(&fake.rng, prng_seed_from_env(5));
	for (int i = 0; i < 2000; i++) {
		random_op();
		if (i % 25 == 0)
			check_all();
	}
	drop_delayed();
	fake_exit();
}
END_TEST

START_TEST(neighbours_join)
{
	setup();
	ck_assert_int_eq(ext4_es_insert(&fake.inode, 0, 10, 100, ES_WRITTEN), 0);
	ck_assert_int_eq(ext4_es_insert(&fake.inode, 20, 10, 120, ES_WRITTEN), 0);
	ck_assert_uint_eq(fake.ia.ia_es_nr, 2);
	ck_assert_int_eq(ext4_es_insert(&fake.inode, 10, 10, 110, ES_WRITTEN), 0);
	ck_assert_uint_eq(fake.ia.ia_es_nr, 1);
	/* In the middle: three; and back. */
	ck_assert_int_eq(ext4_es_insert(&fake.inode, 12, 2, 112, ES_UNWRITTEN), 0);
	ck_assert_uint_eq(fake.ia.ia_es_nr, 3);
	ck_assert_int_eq(ext4_es_insert(&fake.inode, 12, 2, 112, ES_WRITTEN), 0);
	ck_assert_uint_eq(fake.ia.ia_es_nr, 1);
	/* Logically next to each other, not on the device. */
	ck_assert_int_eq(ext4_es_insert(&fake.inode, 30, 2, 200, ES_WRITTEN), 0);
	ck_assert_uint_eq(fake.ia.ia_es_nr, 2);
	fake_exit();
}
END_TEST

/* A file that grows by delayed writes has one hole and one delayed run, whatever its size. */
START_TEST(appending_keeps_two_runs)
{
	struct extent_status run = {0, EXT4_MAX_BLOCKS, 0, ES_HOLE};

	setup();
	ext4_es_cache(&fake.inode, 0, &run);
	for (ext4_lblk_t i = 0; i < 1000; i++)
		ck_assert_int_eq(ext4_es_delay_holes(&fake.inode, i * 2, 2), 0);
	ck_assert_uint_eq(fake.ia.ia_es_nr, 2);
	ck_assert_uint_eq(fake.ia.ia_es_delayed_blocks, 2000);
	drop_delayed();
	fake_exit();
}
END_TEST

START_TEST(delay_takes_only_holes)
{
	struct extent_status es;

	setup();
	ck_assert_int_eq(ext4_es_insert(&fake.inode, 0, 100, 0, ES_HOLE), 0);
	ck_assert_int_eq(ext4_es_insert(&fake.inode, 10, 5, 500, ES_WRITTEN), 0);
	ck_assert_int_eq(ext4_es_insert(&fake.inode, 20, 5, 600, ES_UNWRITTEN), 0);
	ck_assert_int_eq(ext4_es_insert_delayed(&fake.inode, 30, 5), 0);
	ck_assert_int_eq(ext4_es_delay_holes(&fake.inode, 5, 35), 0);
	ck_assert_uint_eq(fake.ia.ia_es_delayed_blocks, 25);
	ck_assert(ext4_es_lookup(&fake.inode, 12, &es));
	ck_assert_uint_eq(es.es_state, ES_WRITTEN);
	ck_assert(ext4_es_lookup(&fake.inode, 22, &es));
	ck_assert_uint_eq(es.es_state, ES_UNWRITTEN);
	/* What is not known cannot be taken. */
	ck_assert_int_eq(ext4_es_delay_holes(&fake.inode, 95, 10), -ENOMEM);
	ck_assert_uint_eq(fake.ia.ia_es_delayed_blocks, 25);
	drop_delayed();
	fake_exit();
}
END_TEST

START_TEST(shrinker_keeps_delayed_and_busy_inodes)
{
	struct extent_status es;
	char *text = NULL;
	size_t size = 0;
	FILE *out;

	setup();
	ck_assert_int_eq(ext4_es_insert(&fake.inode, 0, 10, 100, ES_WRITTEN), 0);
	ck_assert_int_eq(ext4_es_insert_delayed(&fake.inode, 10, 10), 0);
	ck_assert_int_eq(ext4_es_insert(&fake.inode, 20, 10, 0, ES_HOLE), 0);
	down_read(&fake.inode.i_data_sem);
	ck_assert_uint_eq(ext4_es_shrink(&fake.sb, 100), 0);
	up_read(&fake.inode.i_data_sem);
	ck_assert_uint_eq(ext4_es_shrink(&fake.sb, 1), 1);
	ck_assert_uint_eq(ext4_es_shrink(&fake.sb, 100), 1);
	ck_assert_uint_eq(ext4_es_shrink(&fake.sb, 100), 0);
	ck_assert(!ext4_es_lookup(&fake.inode, 5, &es));
	ck_assert(ext4_es_lookup(&fake.inode, 15, &es));
	ck_assert_uint_eq(es.es_len, 10);
	out = open_memstream(&text, &size);
	ext4_es_print_shrinker(&fake.sb, out);
	ext4_es_print(&fake.inode, out);
	fclose(out);
	ck_assert_ptr_nonnull(strstr(text, "  0 inodes on list\n"));
	ck_assert_ptr_nonnull(strstr(text, "[10 +10) delayed"));
	free(text);
	drop_delayed();
	fake_exit();
}
END_TEST

/* The order says that the shrinker has a list of what it may drop, and does not search for it among delayed runs. */
START_TEST(shrinker_drops_the_oldest_run_first)
{
	struct extent_status es;

	setup();
	ck_assert_int_eq(ext4_es_insert(&fake.inode, 40, 10, 140, ES_WRITTEN), 0);
	ck_assert_int_eq(ext4_es_insert_delayed(&fake.inode, 20, 10), 0);
	ck_assert_int_eq(ext4_es_insert(&fake.inode, 0, 10, 100, ES_UNWRITTEN), 0);
	ck_assert_int_eq(ext4_es_insert(&fake.inode, 10, 5, 0, ES_HOLE), 0);
	ck_assert_uint_eq(ext4_es_shrink(&fake.sb, 1), 1);
	ck_assert(!ext4_es_lookup(&fake.inode, 45, &es));
	ck_assert_uint_eq(ext4_es_shrink(&fake.sb, 1), 1);
	ck_assert(!ext4_es_lookup(&fake.inode, 5, &es));
	ck_assert(ext4_es_lookup(&fake.inode, 12, &es));
	ck_assert(ext4_es_lookup(&fake.inode, 25, &es));
	drop_delayed();
	fake_exit();
}
END_TEST

START_TEST(reserved_nodes_are_there)
{
	setup();
	ck_assert_int_eq(ext4_es_reserve(&fake.inode, 2), 0);
	ck_assert_uint_ge(fake.ia.ia_es_nr_spares, 4);
	ck_assert_int_eq(ext4_es_insert(&fake.inode, 0, 10, 100, ES_WRITTEN), 0);
	ck_assert_uint_ge(fake.ia.ia_es_nr_spares, 2);
	ck_assert_int_eq(ext4_es_insert(&fake.inode, 4, 2, 300, ES_WRITTEN), 0);
	ck_assert_uint_le(fake.ia.ia_es_nr_spares, 2);
	fake_exit();
}
END_TEST

/* Readers, a writer under i_data_sem and the shrinker at once: no torn answer. */
static _Atomic bool stop_readers;

static void *reader(void *arg)
{
	struct extent_status es;

	(void)arg;
	for (ext4_lblk_t i = 0; !atomic_load(&stop_readers); i = (i + 7) % 1000)
		if (ext4_es_lookup(&fake.inode, i, &es))
			ck_assert_uint_eq(es.es_pblk, 5000 + es.es_lblk);
	return NULL;
}

static void *shrink_loop(void *arg)
{
	(void)arg;
	while (!atomic_load(&stop_readers))
		ext4_es_shrink(&fake.sb, 3);
	return NULL;
}

START_TEST(lookups_and_changes_run_together)
{
	pthread_t t[3];

	setup();
	atomic_store(&stop_readers, false);
	ck_assert_int_eq(pthread_create(&t[0], NULL, reader, NULL), 0);
	ck_assert_int_eq(pthread_create(&t[1], NULL, reader, NULL), 0);
	ck_assert_int_eq(pthread_create(&t[2], NULL, shrink_loop, NULL), 0);
	for (int i = 0; i < 2000; i++) {
		ext4_lblk_t lblk = (ext4_lblk_t)prng_below(&fake.rng, 1000);

		down_write(&fake.inode.i_data_sem);
		if (i % 3 == 0)
			ck_assert_int_eq(ext4_es_remove(&fake.inode, lblk, 20), 0);
		else
			ck_assert_int_eq(
				ext4_es_insert(&fake.inode, lblk, 5, 5000 + lblk, ES_WRITTEN), 0);
		up_write(&fake.inode.i_data_sem);
	}
	atomic_store(&stop_readers, true);
	for (int i = 0; i < 3; i++)
		pthread_join(t[i], NULL);
	ext4_es_check(&fake.inode);
	fake_exit();
}
END_TEST

int main(void)
{
	return RUN_TESTS("alloc/extent_status", random_changes_match_an_array, neighbours_join,
			 appending_keeps_two_runs, delay_takes_only_holes,
			 shrinker_keeps_delayed_and_busy_inodes,
			 shrinker_drops_the_oldest_run_first, reserved_nodes_are_there,
			 lookups_and_changes_run_together);
}
