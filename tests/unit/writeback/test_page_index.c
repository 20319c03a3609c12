/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "tests/unit/writeback/wb_fixture.h"

#define SPAN 3000u

/* The model: which pages there are, with which tags. Indexes are spread over the whole range. */
struct model {
	struct page_index pi;
	bool there[SPAN];
	unsigned tags[SPAN];
	struct page page[SPAN];
};

static uint32_t index_of(unsigned i)
{
	if (i < 1000)
		return i;
	if (i < 2000)
		return 70000 + (i - 1000) * 3;
	return UINT32_MAX - (SPAN - 1 - i) * 1000003u % 1000000000u * (i == SPAN - 1 ? 0 : 1);
}

static int cmp_u32(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return x < y ? -1 : x > y;
}

/* Ascending indexes, so that slot order is index order. */
static uint32_t idx[SPAN];

static void make_indexes(void)
{
	for (unsigned i = 0; i < SPAN; i++)
		idx[i] = index_of(i);
	qsort(idx, SPAN, sizeof(idx[0]), cmp_u32);
	for (unsigned i = 1; i < SPAN; i++)
		if (idx[i] <= idx[i - 1])
			idx[i] = idx[i - 1] + 1;
}

static void check_gang(struct model *m, struct prng *p)
{
	unsigned from = (unsigned)prng_below(p, SPAN), to = (unsigned)prng_range(p, from, SPAN - 1);
	unsigned tag = (unsigned)prng_below(p, PAGE_TAGS + 1), n = (unsigned)prng_range(p, 1, 40);
	struct page *out[40];
	unsigned got = page_index_gang(&m->pi, idx[from], idx[to], (enum page_tag)tag, out, n);
	unsigned k = 0;

	for (unsigned i = from; i <= to && k < n; i++)
		if (m->there[i] && (tag == PAGE_TAG_ANY || (m->tags[i] & TAG_BIT(tag)))) {
			ck_assert_uint_lt(k, got);
			ck_assert_ptr_eq(out[k], &m->page[i]);
			k++;
		}
	ck_assert_uint_eq(k, got);
}

static void change_one(struct model *m, struct prng *p, unsigned i)
{
	if (!m->there[i]) {
		ck_assert_ptr_null(page_index_remove(&m->pi, idx[i]));
		ck_assert_int_eq(page_index_insert(&m->pi, idx[i], &m->page[i]), 0);
		m->there[i] = true;
		m->tags[i] = 0;
	} else if (prng_chance(p, 1, 3)) {
		ck_assert_ptr_eq(page_index_remove(&m->pi, idx[i]), &m->page[i]);
		m->there[i] = false;
		m->tags[i] = 0;
	} else {
		unsigned set = (unsigned)prng_below(p, 8),
			 clear = (unsigned)prng_below(p, 8) & ~set;

		ck_assert_int_eq(page_index_insert(&m->pi, idx[i], &m->page[0]), -EEXIST);
		page_index_retag(&m->pi, idx[i], set, clear);
		m->tags[i] = (m->tags[i] & ~clear) | set;
	}
}

START_TEST(page_index_model)
{
	struct model *m = calloc(1, sizeof(*m));
	struct prng p;

	make_indexes();
	prng_seed(&p, prng_seed_from_env(3));
	for (unsigned op = 0; op < 60000; op++) {
		unsigned i = (unsigned)prng_below(&p, SPAN), any = 0;

		/* Sometimes nearly empty, sometimes nearly full. */
		if (op / 10000 % 2 == 1 && m->there[i] && prng_chance(&p, 1, 2)) {
			page_index_remove(&m->pi, idx[i]);
			m->there[i] = false;
			m->tags[i] = 0;
		} else {
			change_one(m, &p, i);
		}
		ck_assert_ptr_eq(page_index_lookup(&m->pi, idx[i]),
				 m->there[i] ? &m->page[i] : NULL);
		for (unsigned t = 0; t < PAGE_TAGS; t++)
			ck_assert_int_eq(page_index_test(&m->pi, idx[i], (enum page_tag)t),
					 (m->tags[i] & TAG_BIT(t)) != 0);
		if (op % 50 == 0)
			check_gang(m, &p);
		if (op % 1000 != 0)
			continue;
		(void)page_index_check(&m->pi);
		for (unsigned k = 0; k < SPAN; k++)
			any |= m->tags[k];
		for (unsigned t = 0; t < PAGE_TAGS; t++)
			ck_assert_int_eq(page_index_tagged(&m->pi, (enum page_tag)t),
					 (any & TAG_BIT(t)) != 0);
	}
	for (unsigned i = 0; i < SPAN; i++)
		if (m->there[i])
			ck_assert_ptr_eq(page_index_remove(&m->pi, idx[i]), &m->page[i]);
	ck_assert_ptr_null(m->pi.pi_root);
	ck_assert_uint_eq(m->pi.pi_height, 0);
	free(m);
}
END_TEST

START_TEST(page_index_small_file_needs_no_node)
{
	struct page_index pi = {0};
	struct page page, *out;

	ck_assert_int_eq(page_index_insert(&pi, 0, &page), 0);
	ck_assert_uint_eq(page_index_check(&pi), 0);
	ck_assert_ptr_eq(pi.pi_root, &page);
	page_index_retag(&pi, 0, TAG_BIT(PAGE_TAG_DIRTY), 0);
	ck_assert_uint_eq(page_index_gang(&pi, 0, 10, PAGE_TAG_DIRTY, &out, 1), 1);
	ck_assert_uint_eq(page_index_gang(&pi, 1, 10, PAGE_TAG_DIRTY, &out, 1), 0);
	/* Growing keeps the tag. */
	ck_assert_int_eq(page_index_insert(&pi, 100000, &page), 0);
	ck_assert(page_index_test(&pi, 0, PAGE_TAG_DIRTY));
	ck_assert(!page_index_test(&pi, 100000, PAGE_TAG_DIRTY));
	page_index_remove(&pi, 0);
	ck_assert(!page_index_tagged(&pi, PAGE_TAG_DIRTY));
	page_index_remove(&pi, 100000);
}
END_TEST

/* Pages 0..n-1 with the dirty ones given by a bitmap. */
static void fill_dirty(struct page_index *pi, struct page *pages, const bool *dirty, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		ck_assert_int_eq(page_index_insert(pi, i, &pages[i]), 0);
		if (dirty[i])
			page_index_retag(pi, i, TAG_BIT(PAGE_TAG_DIRTY), 0);
	}
}

START_TEST(page_index_towrite_takes_the_dirty_ones_of_the_range_in_steps)
{
	struct page_index pi = {0};
	struct page pages[500];
	bool dirty[500];
	struct prng p;
	uint32_t next = 37;

	prng_seed(&p, 11);
	for (unsigned i = 0; i < 500; i++)
		dirty[i] = prng_chance(&p, 1, 2);
	fill_dirty(&pi, pages, dirty, 500);
	while (page_index_tag_towrite(&pi, next, 411, 10, &next))
		ck_assert_uint_le(next, 411);
	for (unsigned i = 0; i < 500; i++)
		ck_assert_int_eq(page_index_test(&pi, i, PAGE_TAG_TOWRITE),
				 dirty[i] && i >= 37 && i <= 411);
	(void)page_index_check(&pi);
	for (unsigned i = 0; i < 500; i++)
		page_index_remove(&pi, i);
}
END_TEST

START_TEST(page_index_dirty_run_ends_at_the_first_clean_page)
{
	struct page_index pi = {0};
	struct page pages[400];
	bool dirty[400];

	for (unsigned i = 0; i < 400; i++)
		dirty[i] = (i >= 60 && i < 333) || i == 350;
	fill_dirty(&pi, pages, dirty, 400);
	ck_assert_uint_eq(page_index_dirty_run(&pi, 60, 1000), 273);
	ck_assert_uint_eq(page_index_dirty_run(&pi, 63, 1000), 270);
	ck_assert_uint_eq(page_index_dirty_run(&pi, 64, 1000), 269);
	ck_assert_uint_eq(page_index_dirty_run(&pi, 60, 100), 100);
	ck_assert_uint_eq(page_index_dirty_run(&pi, 59, 1000), 0);
	ck_assert_uint_eq(page_index_dirty_run(&pi, 350, 1000), 1);
	ck_assert_uint_eq(page_index_dirty_run(&pi, 5000, 1000), 0);
	for (unsigned i = 0; i < 400; i++)
		page_index_remove(&pi, i);
}
END_TEST

int main(void)
{
	return RUN_TESTS("writeback/page_index", page_index_model,
			 page_index_small_file_needs_no_node,
			 page_index_towrite_takes_the_dirty_ones_of_the_range_in_steps,
			 page_index_dirty_run_ends_at_the_first_clean_page);
}
