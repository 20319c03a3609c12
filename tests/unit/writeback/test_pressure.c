/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "tests/unit/writeback/wb_fixture.h"

static uint64_t cache_bytes(struct wf *f)
{
	struct arena_stats st;

	arena_get_stats(f->wb->wb_arena, &st);
	return st.as_bytes;
}

static struct inode *filled(struct wf *f)
{
	struct inode *inode;

	wf_open(f, "-t ext4 -b 4096", 64 * MIB, 1);
	inode = wf_file(f, 0);
	wf_fill(inode, 1, 0, 12 * MIB, 64 * 1024);
	wf_sync(f);
	ck_assert_uint_ge(cache_bytes(f), 12 * MIB);
	return inode;
}

START_TEST(idle_cache_is_given_back_and_comes_again)
{
	struct wf f;
	struct inode *inode = filled(&f);

	pressure_check(f.wb);
	ck_assert_uint_ge(cache_bytes(&f), 12 * MIB);
	f.wb->wb_busy_ns -= 61 * NS_PER_SEC;
	pressure_check(f.wb);
	ck_assert_uint_le(cache_bytes(&f), 2 * MIB);
	ck_assert_uint_ge(counter_read(&f.wb->wb_stats.ws_given_back_bytes), 10 * MIB);
	wf_check(inode, 1, 0, 12 * MIB);
	iput(inode);
	wf_close(&f);
}
END_TEST

START_TEST(dirty_pages_are_not_given_back)
{
	struct wf f;
	struct inode *inode = filled(&f);

	wf_fill(inode, 2, 0, 4 * MIB, 64 * 1024);
	(void)wb_trim_cache(f.wb, 100);
	ck_assert_uint_eq(atomic_load(&inode->i_mapping->as_nr_dirty), 1024);
	ck_assert_uint_eq(inode->i_mapping->as_nrpages, 1024);
	wf_check(inode, 2, 0, 4 * MIB);
	wf_check(inode, 1, 4 * MIB, 8 * MIB);
	iput(inode);
	wf_close(&f);
}
END_TEST

int main(void)
{
	return RUN_TESTS("writeback/pressure", idle_cache_is_given_back_and_comes_again,
			 dirty_pages_are_not_given_back);
}
