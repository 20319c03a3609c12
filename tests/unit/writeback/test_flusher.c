/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "tests/unit/writeback/wb_fixture.h"

/* As if it had become dirty long ago. */
static void make_old(struct wf *f, struct inode *inode)
{
	mutex_lock(&f->wb->wb_lock);
	inode->i_mapping->as_wi.wi_dirtied_when_ns = 0;
	mutex_unlock(&f->wb->wb_lock);
}

START_TEST(periodic_round_writes_what_is_old_and_nothing_else)
{
	struct wf f;
	struct inode *a, *b;

	wf_open(&f, "-t ext4 -b 4096", 32 * MIB, 2);
	a = wf_file(&f, 0);
	b = wf_file(&f, 1);
	wf_fill(a, 1, 0, 4 * PAGE, PAGE);
	wb_run_flusher(f.sb);
	ck_assert_uint_eq(atomic_load(&a->i_mapping->as_nr_dirty), 4);
	make_old(&f, a);
	wf_fill(b, 2, 0, 4 * PAGE, PAGE);
	wb_run_flusher(f.sb);
	ck_assert_uint_eq(atomic_load(&a->i_mapping->as_nr_dirty), 0);
	ck_assert_uint_eq(atomic_load(&b->i_mapping->as_nr_dirty), 4);
	make_old(&f, b);
	wb_run_flusher(f.sb);
	ck_assert_uint_eq(atomic_load(&b->i_mapping->as_nr_dirty), 0);
	wb_run_completions(f.sb);
	ck_assert_uint_eq(f.wb->wb_nr_b_dirty + f.wb->wb_nr_b_io + f.wb->wb_nr_b_more_io, 0);
	iput(a);
	iput(b);
	wf_close(&f);
}
END_TEST

static uint32_t nr_more_io(struct wf *f)
{
	uint32_t n;

	mutex_lock(&f->wb->wb_lock);
	n = f->wb->wb_nr_b_more_io;
	mutex_unlock(&f->wb->wb_lock);
	return n;
}

START_TEST(background_round_stops_at_its_threshold)
{
	struct wf f;
	struct inode *inode;
	char pages[32];

	wf_make(&f, "-t ext4 -b 4096", 64 * MIB, 1);
	f.threads = true;
	wf_mount(&f);
	/* A periodic round would go on with what the background round has left. */
	wf_tune(&f, "dirty_writeback_centisecs", "360000");
	wf_tune(&f, "writeback_chunk", "1024");
	wf_tune(&f, "write_bump", "x1");
	snprintf(pages, sizeof(pages), "%u", 1000 * PAGE_SIZE);
	wf_tune(&f, "dirty_background_bytes", pages);
	inode = wf_file(&f, 0);
	wf_fill(inode, 1, 0, 3000 * PAGE, 64 * 1024);
	wb_start_background(f.wb);
	for (unsigned i = 0; i < 3000 && over_bground_thresh(f.wb); i++)
		usleep(10000);
	usleep(50000);
	/* Chunks of 1024, or less where one took longer than its slice of time, until below. */
	ck_assert_uint_le(atomic_load(&inode->i_mapping->as_nr_dirty), 1000);
	ck_assert_uint_gt(atomic_load(&inode->i_mapping->as_nr_dirty), 0);
	for (unsigned i = 0; i < 3000 && nr_more_io(&f) == 0; i++)
		usleep(10000);
	ck_assert_uint_eq(nr_more_io(&f), 1);
	wf_sync(&f);
	wf_check(inode, 1, 0, 3000 * PAGE);
	iput(inode);
	wf_close(&f);
}
END_TEST

START_TEST(large_file_does_not_starve_small_ones)
{
	struct wf f;
	struct inode *inode[4];
	struct writeback_control wbc = {.nr_to_write = 1100};

	wf_open(&f, "-t ext4 -b 4096", 64 * MIB, 4);
	wf_tune(&f, "writeback_chunk", "1024");
	wf_tune(&f, "write_bump", "x1");
	for (unsigned i = 0; i < 4; i++)
		inode[i] = wf_file(&f, i);
	wf_fill(inode[0], 1, 0, 2500 * PAGE, 64 * 1024);
	for (unsigned i = 1; i < 4; i++)
		wf_fill(inode[i], 1, 0, 4 * PAGE, PAGE);
	/* One turn of the large one, 1024 pages if its slice of time suffices, and then each of the others. */
	ck_assert_int_gt(writeback_inodes_wbc(f.wb, &wbc), 12);
	for (unsigned i = 1; i < 4; i++)
		ck_assert_uint_eq(atomic_load(&inode[i]->i_mapping->as_nr_dirty), 0);
	ck_assert_uint_gt(atomic_load(&inode[0]->i_mapping->as_nr_dirty), 1000);
	for (unsigned i = 0; i < 4; i++)
		iput(inode[i]);
	wf_close(&f);
}
END_TEST

START_TEST(dirty_inode_without_pages_is_written)
{
	struct wf f;
	struct inode *root, *inode;

	wf_open(&f, "-t ext4 -b 4096", 32 * MIB, 1);
	wf_tune(&f, "dirty_expire_centisecs", "0");
	root = ext4_iget(f.sb, EXT4_ROOT_INO, EXT4_IGET_SPECIAL);
	inode = wf_file(&f, 0);
	root->i_atime.tv_sec = 12345;
	ext4_inode_set_dirty(root, I_DIRTY_SYNC);
	inode->i_atime.tv_sec = 54321;
	ext4_inode_set_dirty(inode, I_DIRTY_SYNC);
	ck_assert_uint_eq(f.wb->wb_nr_b_dirty, 2);
	wb_run_flusher(f.sb);
	ck_assert_uint_eq(f.wb->wb_nr_b_dirty, 0);
	ck_assert_uint_eq(atomic_load(&root->i_state) & I_DIRTY_ALL, 0);
	iput(root);
	iput(inode);
	wf_umount(&f);
	wf_mount(&f);
	root = ext4_iget(f.sb, EXT4_ROOT_INO, EXT4_IGET_SPECIAL);
	inode = wf_file(&f, 0);
	ck_assert_int_eq(root->i_atime.tv_sec, 12345);
	ck_assert_int_eq(inode->i_atime.tv_sec, 54321);
	iput(root);
	iput(inode);
	wf_close(&f);
}
END_TEST

/* WB_SYNC_ALL over an inode that somebody keeps dirtying ends, and has written what was dirty at its start. */
static _Atomic bool stop;

static void *dirtier(void *arg)
{
	struct inode *inode = arg;
	unsigned i = 0;

	while (!atomic_load(&stop)) {
		wf_fill(inode, 2, (100 + i % 3000) * PAGE, PAGE, PAGE);
		i++;
	}
	return NULL;
}

START_TEST(sync_ends_although_a_writer_keeps_dirtying)
{
	struct wf f;
	struct inode *inode;
	pthread_t t;

	wf_make(&f, "-t ext4 -b 4096", 64 * MIB, 1);
	f.threads = true;
	f.opts.o_cache_bytes = 32 * MIB;
	wf_mount(&f);
	inode = wf_file(&f, 0);
	wf_fill(inode, 1, 0, 50 * PAGE, PAGE);
	pthread_create(&t, NULL, dirtier, inode);
	for (unsigned i = 0; i < 5; i++) {
		uint8_t buf[PAGE_SIZE];
		struct ext4_map_blocks map = {.m_lblk = 10 + i, .m_len = 1};

		pattern_fill(buf, PAGE, 5 + i, 0);
		ck_assert_int_eq(wf_write(inode, buf, PAGE, (10 + i) * PAGE), (ssize_t)PAGE);
		ck_assert_int_eq(wb_sync_fs(f.sb, true), 0);
		ck_assert_int_eq(ext4_map_blocks(NULL, inode, &map, 0), 1);
		pattern_check((uint8_t *)mem_data(f.image) + map.m_pblk * 4096, PAGE, 5 + i, 0);
	}
	atomic_store(&stop, true);
	pthread_join(t, NULL);
	iput(inode);
	wf_close(&f);
}
END_TEST

/* Pages [0, 90) that are dirty when the call begins, in a random pattern, some mapped before; *dirty tells which. */
static void random_pattern(struct inode *inode, struct prng *p, unsigned round, bool *dirty)
{
	for (unsigned i = 0; i < 90; i++) {
		dirty[i] = prng_chance(p, 1 + round % 3, 4);
		if (dirty[i])
			wf_fill(inode, round, i * PAGE, PAGE, PAGE);
	}
}

START_TEST(sync_all_writes_each_page_that_was_dirty_when_it_began)
{
	struct wf f;
	struct inode *inode;
	pthread_t t;
	struct prng p;

	prng_seed(&p, prng_seed_from_env(5));
	wf_make(&f, "-t ext4 -b 4096", 64 * MIB, 1);
	f.threads = true;
	f.opts.o_cache_bytes = 32 * MIB;
	wf_mount(&f);
	inode = wf_file(&f, 0);
	ck_assert_int_eq(ext4_truncate_to(inode, 4000 * PAGE), 0);
	atomic_store(&stop, false);
	pthread_create(&t, NULL, dirtier, inode);
	for (unsigned round = 0; round < 12; round++) {
		struct writeback_control wbc = {
			.nr_to_write = LONG_MAX, .range_end = UINT64_MAX, .sync_mode = WB_SYNC_ALL};
		bool dirty[90];

		wf_tune(&f, "premap_pass", round % 2 == 0 ? "on" : "off");
		wf_tune(&f, "writepages_budget", round % 4 < 2 ? "before_add" : "after_add");
		random_pattern(inode, &p, round, dirty);
		ck_assert_int_eq(do_writepages(inode->i_mapping, &wbc), 0);
		filemap_fdatawait_range(inode->i_mapping, 0, 90 * PAGE - 1);
		for (unsigned i = 0; i < 90; i++) {
			struct ext4_map_blocks map = {.m_lblk = i, .m_len = 1};

			if (!dirty[i])
				continue;
			ck_assert_int_eq(ext4_map_blocks(NULL, inode, &map, 0), 1);
			pattern_check((uint8_t *)mem_data(f.image) + map.m_pblk * 4096, PAGE, round,
				      i * PAGE);
		}
	}
	atomic_store(&stop, true);
	pthread_join(t, NULL);
	iput(inode);
	wf_close(&f);
}
END_TEST

START_TEST(flusher_thread_writes_without_being_asked)
{
	struct wf f;
	struct inode *inode;

	wf_make(&f, "-t ext4 -b 4096", 32 * MIB, 1);
	f.threads = true;
	wf_mount(&f);
	wf_tune(&f, "dirty_expire_centisecs", "1");
	wf_tune(&f, "dirty_writeback_centisecs", "2");
	/* The thread is asleep with the old interval. */
	wb_start_writeback(f.wb, 1, WB_REASON_SYNC);
	inode = wf_file(&f, 0);
	wf_fill(inode, 1, 0, 8 * PAGE, PAGE);
	/* It may come in between: first a part of them, then the rest. */
	for (unsigned i = 0; i < 3000 && atomic_load(&inode->i_disksize) < 8 * PAGE; i++)
		usleep(10000);
	ck_assert_uint_eq(atomic_load(&inode->i_disksize), 8 * PAGE);
	iput(inode);
	wf_close(&f);
}
END_TEST

/* What the disk says of the atime of f0, after the power went. */
static int64_t atime_after_a_cut(struct wf *f)
{
	struct blkdev *image = testlib_clone(f->image);
	struct wf g = *f;
	struct inode *inode;
	int64_t sec;

	g.image = image;
	wf_mount(&g);
	inode = wf_file(&g, 0);
	sec = inode->i_atime.tv_sec;
	iput(inode);
	wf_umount(&g);
	blk_close(image);
	return sec;
}

static void set_time_lazily(struct inode *inode, int64_t sec)
{
	inode->i_atime.tv_sec = (time_t)sec;
	ext4_inode_set_dirty(inode, I_DIRTY_TIME);
}

static void commit(struct wf *f)
{
	ck_assert_int_eq(jbd2_journal_force_commit(f->sb->s_journal), 0);
}

START_TEST(lazy_times_wait_and_then_are_written)
{
	struct inode *inode, *root;
	handle_t *handle;
	struct wf f;

	wf_open(&f, "-t ext4 -b 4096", 32 * MIB, 1);
	wf_tune(&f, "dirty_expire_centisecs", "0");
	inode = wf_file(&f, 0);
	root = ext4_iget(f.sb, EXT4_ROOT_INO, EXT4_IGET_SPECIAL);

	/* They wait, whatever the age of other things. */
	set_time_lazily(inode, 1000);
	set_time_lazily(root, 1000);
	wb_run_flusher(f.sb);
	commit(&f);
	ck_assert_uint_eq(f.wb->wb_nr_b_dirty_time, 2);
	ck_assert_int_ne(atime_after_a_cut(&f), 1000);

	/* Until their time comes. */
	wf_tune(&f, "dirtytime_expire_seconds", "0");
	wb_run_flusher(f.sb);
	ck_assert_uint_eq(f.wb->wb_nr_b_dirty_time, 0);
	ck_assert_uint_eq(atomic_load(&root->i_state) & (I_DIRTY_ALL | I_DIRTY_TIME), 0);
	commit(&f);
	ck_assert_int_eq(atime_after_a_cut(&f), 1000);
	wf_tune(&f, "dirtytime_expire_seconds", "43200");

	/* Another change of the inode takes them along; pages do not. */
	set_time_lazily(inode, 2000);
	handle = ext4_journal_start(inode, HT_INODE, EXT4_INODE_CREDITS);
	ck_assert_int_eq(ext4_mark_inode_dirty(handle, inode), 0);
	ck_assert_int_eq(ext4_journal_stop(handle, 0), 0);
	commit(&f);
	ck_assert_int_eq(atime_after_a_cut(&f), 2000);

	set_time_lazily(inode, 3000);
	ck_assert_int_eq(ext4_sync_file(inode, false), 0);
	ck_assert_int_eq(atime_after_a_cut(&f), 3000);
	set_time_lazily(inode, 4000);
	ck_assert_int_eq(wb_sync_fs(f.sb, true), 0);
	ck_assert_int_eq(atime_after_a_cut(&f), 4000);

	/* The inode leaves the cache: the flusher's next look, without any age. */
	wf_tune(&f, "dirty_expire_centisecs", "3000");
	set_time_lazily(inode, 5000);
	iput(inode);
	wb_run_flusher(f.sb);
	commit(&f);
	ck_assert_int_eq(atime_after_a_cut(&f), 5000);
	inode = wf_file(&f, 0);
	set_time_lazily(inode, 6000);
	set_time_lazily(root, 6000);
	iput(inode);
	iput(root);
	/* And at the latest the unmount. */
	wf_umount(&f);
	ck_assert_int_eq(atime_after_a_cut(&f), 6000);
	wf_mount(&f);
	wf_close(&f);
}
END_TEST

START_TEST(times_of_an_inode_that_leaves_wake_the_flusher)
{
	struct inode *inode;
	struct wf f;

	wf_make(&f, "-t ext4 -b 4096", 32 * MIB, 1);
	f.threads = true;
	wf_mount(&f);
	/* No periodic round will come. */
	wf_tune(&f, "dirty_writeback_centisecs", "360000");
	inode = wf_file(&f, 0);
	set_time_lazily(inode, 7000);
	iput(inode);
	inode = wf_file(&f, 0);
	for (unsigned i = 0;
	     i < 3000 && (atomic_load(&inode->i_state) & (I_DIRTY_ALL | I_DIRTY_TIME)) != 0; i++)
		usleep(10000);
	ck_assert_uint_eq(atomic_load(&inode->i_state) & (I_DIRTY_ALL | I_DIRTY_TIME), 0);
	iput(inode);
	commit(&f);
	ck_assert_int_eq(atime_after_a_cut(&f), 7000);
	wf_close(&f);
}
END_TEST

int main(void)
{
	return RUN_TESTS(
		"writeback/flusher", periodic_round_writes_what_is_old_and_nothing_else,
		background_round_stops_at_its_threshold, large_file_does_not_starve_small_ones,
		dirty_inode_without_pages_is_written, sync_ends_although_a_writer_keeps_dirtying,
		sync_all_writes_each_page_that_was_dirty_when_it_began,
		flusher_thread_writes_without_being_asked, lazy_times_wait_and_then_are_written,
		times_of_an_inode_that_leaves_wake_the_flusher);
}
