/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "tests/unit/writeback/wb_fixture.h"

START_TEST(clean_pages_make_room_and_dirty_ones_stay)
{
	struct wf f;
	struct inode *a, *b;

	wf_make(&f, "-t ext4 -b 4096", 64 * MIB, 2);
	f.opts.o_cache_bytes = 4 * MIB;
	wf_mount(&f);
	a = wf_file(&f, 0);
	b = wf_file(&f, 1);
	wf_fill(a, 1, 0, 3 * MIB, 64 * 1024);
	wf_sync(&f);
	wf_fill(b, 2, 0, 2 * MIB, 64 * 1024);
	ck_assert_uint_eq(atomic_load(&b->i_mapping->as_nr_dirty), 512);
	ck_assert_uint_lt(a->i_mapping->as_nrpages, 768);
	ck_assert_uint_gt(counter_read(&f.wb->wb_stats.ws_evicted), 200);
	wf_check(a, 1, 0, 3 * MIB);
	wf_check(b, 2, 0, 2 * MIB);
	iput(a);
	iput(b);
	wf_close(&f);
}
END_TEST

START_TEST(pinned_page_is_not_evicted)
{
	struct wf f;
	struct inode *inode;
	struct page *page;

	wf_open(&f, "-t ext4 -b 4096", 32 * MIB, 1);
	inode = wf_file(&f, 0);
	wf_fill(inode, 1, 0, 16 * PAGE, PAGE);
	wf_sync(&f);
	page = find_get_page(inode->i_mapping, 5);
	for (unsigned i = 0; i < 4; i++)
		(void)shrink_page_cache(f.wb, 64);
	ck_assert_uint_eq(inode->i_mapping->as_nrpages, 1);
	ck_assert_int_eq(invalidate_pages(inode->i_mapping, 0, 20), -EBUSY);
	ck_assert_ptr_eq(page_index_lookup(&inode->i_mapping->as_index, 5), page);
	page_put(f.wb, page);
	ck_assert_int_eq(invalidate_pages(inode->i_mapping, 0, 20), 0);
	ck_assert_uint_eq(inode->i_mapping->as_nrpages, 0);
	iput(inode);
	wf_close(&f);
}
END_TEST

START_TEST(page_that_was_used_again_gets_a_second_chance)
{
	struct wf f;
	struct inode *inode;

	wf_open(&f, "-t ext4 -b 4096", 32 * MIB, 1);
	inode = wf_file(&f, 0);
	wf_fill(inode, 1, 0, 64 * PAGE, PAGE);
	wf_sync(&f);
	wf_check(inode, 1, 0, 8 * PAGE);
	ck_assert_uint_eq(shrink_page_cache(f.wb, 32), 32);
	for (unsigned i = 0; i < 8; i++)
		ck_assert_ptr_nonnull(page_index_lookup(&inode->i_mapping->as_index, i));
	iput(inode);
	wf_close(&f);
}
END_TEST

START_TEST(counters_and_tags_agree)
{
	struct wf f;
	struct inode *inode;
	struct address_space *as;

	wf_open(&f, "-t ext4 -b 4096", 32 * MIB, 1);
	inode = wf_file(&f, 0);
	as = inode->i_mapping;
	wf_fill(inode, 1, 0, 10 * PAGE, PAGE);
	wf_fill(inode, 2, 0, 10 * PAGE, PAGE);
	ck_assert_uint_eq(atomic_load(&as->as_nr_dirty), 10);
	ck_assert_int_eq(atomic_load(&f.wb->wb_nr_dirty), 10);
	ck_assert(page_index_tagged(&as->as_index, PAGE_TAG_DIRTY));
	ck_assert_int_eq(filemap_fdatawrite(inode), 0);
	ck_assert_uint_eq(atomic_load(&as->as_nr_dirty), 0);
	ck_assert_uint_eq(atomic_load(&as->as_nr_writeback), 10);
	ck_assert(!page_index_tagged(&as->as_index, PAGE_TAG_DIRTY));
	ck_assert(page_index_tagged(&as->as_index, PAGE_TAG_WRITEBACK));
	/* Not evicted before its extent is converted. */
	ck_assert_uint_eq(shrink_page_cache(f.wb, 64), 0);
	wb_run_completions(f.sb);
	ck_assert_uint_eq(atomic_load(&as->as_nr_writeback), 0);
	ck_assert_int_eq(atomic_load(&f.wb->wb_nr_writeback), 0);
	ck_assert(!page_index_tagged(&as->as_index, PAGE_TAG_WRITEBACK));
	ck_assert_uint_eq(shrink_page_cache(f.wb, 64), 10);
	iput(inode);
	wf_close(&f);
}
END_TEST

static struct page *locked;
static _Atomic bool got_it;

static void *locker(void *arg)
{
	(void)arg;
	lock_page(locked);
	atomic_store(&got_it, true);
	unlock_page(locked);
	return NULL;
}

START_TEST(page_lock_is_waited_for)
{
	struct wf f;
	struct inode *inode;
	pthread_t t;

	wf_open(&f, "-t ext4 -b 4096", 32 * MIB, 1);
	inode = wf_file(&f, 0);
	wf_fill(inode, 1, 0, PAGE, PAGE);
	locked = find_get_page(inode->i_mapping, 0);
	lock_page(locked);
	ck_assert(!trylock_page(locked));
	pthread_create(&t, NULL, locker, NULL);
	usleep(20000);
	ck_assert(!atomic_load(&got_it));
	unlock_page(locked);
	pthread_join(t, NULL);
	ck_assert(atomic_load(&got_it));
	ck_assert(trylock_page(locked));
	unlock_page(locked);
	page_put(f.wb, locked);
	iput(inode);
	wf_close(&f);
}
END_TEST

/* A file's dirty frames lie together even when others are written at the same time. */
START_TEST(frames_of_a_sequential_writer_are_adjacent)
{
	struct wf f;
	struct inode *a, *b;
	unsigned breaks = 0;

	wf_make(&f, "-t ext4 -b 4096", 32 * MIB, 2);
	f.opts.o_cache_bytes = 32 * MIB;
	wf_mount(&f);
	a = wf_file(&f, 0);
	b = wf_file(&f, 1);
	for (unsigned i = 0; i < 512; i += 2) {
		wf_fill(a, 1, i * PAGE, 2 * PAGE, 2 * PAGE);
		wf_fill(b, 2, i * PAGE, 2 * PAGE, 2 * PAGE);
	}
	for (unsigned i = 1; i < 512; i++)
		if (page_index_lookup(&a->i_mapping->as_index, i)->p_data !=
		    page_index_lookup(&a->i_mapping->as_index, i - 1)->p_data + PAGE)
			breaks++;
	/* 16 pages one by one, then chunks of 64. */
	ck_assert_uint_le(breaks, 8 + 512 / 64);
	iput(a);
	iput(b);
	wf_close(&f);
}
END_TEST

int main(void)
{
	return RUN_TESTS("writeback/page_cache", clean_pages_make_room_and_dirty_ones_stay,
			 pinned_page_is_not_evicted, page_that_was_used_again_gets_a_second_chance,
			 counters_and_tags_agree, page_lock_is_waited_for,
			 frames_of_a_sequential_writer_are_adjacent);
}
