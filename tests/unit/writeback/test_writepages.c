/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "tests/unit/writeback/wb_fixture.h"

static long writepages(struct inode *inode, long nr_to_write)
{
	struct writeback_control wbc = {.nr_to_write = nr_to_write, .range_end = UINT64_MAX};

	ck_assert_int_eq(do_writepages(inode->i_mapping, &wbc), 0);
	return nr_to_write - wbc.nr_to_write;
}

static uint64_t count(const counter_t *c)
{
	return counter_read(c);
}

/* ---- Delayed allocation ---- */

START_TEST(file_written_in_small_pieces_ends_in_few_extents_and_large_requests)
{
	struct wf f;
	struct inode *inode;
	uint64_t requests;

	wf_make(&f, "-t ext4 -b 4096", 128 * MIB, 1);
	f.opts.o_cache_bytes = 96 * MIB;
	wf_mount(&f);
	inode = wf_file(&f, 0);
	wf_fill(inode, 1, 0, 64 * MIB, 8192);
	ck_assert_uint_eq(ext4_inode_reserved_blocks(inode), 64 * MIB / 4096);
	ck_assert_uint_eq(wf_extents(inode, 64 * MIB / 4096), 0);
	requests = wf_requests(&f, REQ_OP_WRITE);
	ck_assert_int_eq(ext4_sync_file(inode, true), 0);
	requests = wf_requests(&f, REQ_OP_WRITE) - requests;
	ck_assert_uint_le(wf_extents(inode, 64 * MIB / 4096), 4);
	/* 64 of data, and the commit. */
	ck_assert_uint_le(requests, 64 + 40);
	ck_assert_uint_ge(hist_mean(&f.wb->wb_stats.ws_request_bytes), 900 * 1024);
	wf_check(inode, 1, 0, 64 * MIB);
	iput(inode);
	wf_close(&f);
}
END_TEST

START_TEST(two_files_written_at_once_do_not_interleave)
{
	struct wf f;
	struct inode *a, *b;

	wf_make(&f, "-t ext4 -b 4096", 128 * MIB, 2);
	f.opts.o_cache_bytes = 64 * MIB;
	wf_mount(&f);
	a = wf_file(&f, 0);
	b = wf_file(&f, 1);
	for (uint64_t pos = 0; pos < 12 * MIB; pos += 8192) {
		wf_fill(a, 1, pos, 8192, 8192);
		wf_fill(b, 2, pos, 8192, 8192);
	}
	wf_sync(&f);
	ck_assert_uint_le(wf_extents(a, 12 * MIB / 4096), 3);
	ck_assert_uint_le(wf_extents(b, 12 * MIB / 4096), 3);
	wf_check(a, 1, 0, 12 * MIB);
	wf_check(b, 2, 0, 12 * MIB);
	iput(a);
	iput(b);
	wf_close(&f);
}
END_TEST

START_TEST(file_cut_to_nothing_before_writeback_writes_no_data)
{
	struct wf f;
	struct inode *inode;

	wf_open(&f, "-t ext4 -b 4096", 32 * MIB, 1);
	inode = wf_file(&f, 0);
	wf_fill(inode, 1, 0, 4 * MIB, 64 * 1024);
	ck_assert_int_eq(ext4_truncate_to(inode, 0), 0);
	wf_assert_nothing_reserved(&f);
	wf_sync(&f);
	ck_assert_uint_eq(count(&f.wb->wb_written), 0);
	ck_assert_uint_eq(hist_count(&f.wb->wb_stats.ws_request_bytes), 0);
	iput(inode);
	wf_close(&f);
}
END_TEST

START_TEST(unlinked_file_goes_without_a_write)
{
	struct wf f;
	struct inode *root, *inode;
	handle_t *handle;

	wf_open(&f, "-t ext4 -b 4096", 32 * MIB, 0);
	root = ext4_iget(f.sb, EXT4_ROOT_INO, EXT4_IGET_SPECIAL);
	handle = ext4_journal_start(root, HT_DIR, 40);
	inode = ext4_new_inode(handle, root, S_IFREG | 0644, &wf_root, "x");
	ck_assert(!IS_ERR(inode));
	ck_assert_int_eq(ext4_mark_inode_dirty(handle, inode), 0);
	ck_assert_int_eq(ext4_journal_stop(handle, 0), 0);
	wf_fill(inode, 1, 0, 2 * MIB, 8192);
	handle = ext4_journal_start(inode, HT_DIR, 40);
	atomic_store(&inode->i_nlink, 0);
	ck_assert_int_eq(ext4_orphan_add(handle, inode), 0);
	ck_assert_int_eq(ext4_mark_inode_dirty(handle, inode), 0);
	ck_assert_int_eq(ext4_journal_stop(handle, 0), 0);
	wf_run_evict_frees_inode = true;
	iput(inode);
	wf_run_evict_frees_inode = false;
	wf_assert_nothing_reserved(&f);
	wf_sync(&f);
	ck_assert_uint_eq(hist_count(&f.wb->wb_stats.ws_request_bytes), 0);
	iput(root);
	wf_close(&f);
}
END_TEST

static void fill_disk(const char *mkfs, size_t piece)
{
	struct wf f;
	struct inode *inode;
	uint8_t *buf = malloc(piece);
	uint64_t pos = 0;
	ssize_t n;

	wf_open(&f, mkfs, 16 * MIB, 1);
	inode = wf_file(&f, 0);
	do {
		pattern_fill(buf, piece, 3, pos);
		n = wf_write(inode, buf, piece, pos);
		if (n > 0)
			pos += (uint64_t)n;
		wb_run_flusher(f.sb);
	} while (n > 0);
	ck_assert_int_eq(n, -ENOSPC);
	ck_assert_uint_gt(pos, 9 * MIB);
	wf_sync(&f);
	wf_assert_nothing_reserved(&f);
	ck_assert_int_eq(wb_err_sample(inode), 0);
	wf_check(inode, 3, 0, pos);
	iput(inode);
	wf_umount(&f);
	wf_mount(&f);
	inode = wf_file(&f, 0);
	ck_assert_uint_eq(i_size_read(inode), pos);
	wf_check(inode, 3, 0, pos);
	/* And at once again after removing it. */
	ck_assert_int_eq(ext4_truncate_to(inode, 0), 0);
	wf_fill(inode, 4, 0, 8 * MIB, 64 * 1024);
	wf_check(inode, 4, 0, 8 * MIB);
	iput(inode);
	wf_close(&f);
	free(buf);
}

START_TEST(full_disk_is_an_error_of_write_and_all_accepted_data_is_there)
{
	fill_disk("-t ext4 -b 4096", 100 * 1000);
	fill_disk("-t ext4 -b 1024", 5000);
	fill_disk("-t ext4 -b 1024 -O ^extent,^64bit", 8192);
}
END_TEST

/* The blocks that the file may have are another's until the next commit: the first allocation of writepages finds none. */
static void allocate_twice(const char *mkfs)
{
	const uint64_t len = 2 * MIB;
	struct inode *big, *inode;
	struct wf f;
	uint64_t pos = 0;

	wf_open(&f, mkfs, 16 * MIB, 2);
	big = wf_file(&f, 0);
	inode = wf_file(&f, 1);
	while (wf_write(big, "x", 1, pos) == 1)
		pos += 1024;
	wf_sync(&f);
	ck_assert_int_eq(ext4_truncate_to(big, 0), 0);
	wf_fill(inode, 1, 0, (size_t)len, PAGE);
	ck_assert_uint_ge(ext4_inode_reserved_blocks(inode), len / 1024);
	ck_assert_int_eq(filemap_write_and_wait_range(inode, 0, UINT64_MAX), 0);
	ck_assert_uint_gt(counter_read(&f.wb->wb_stats.ws_enospc_retries), 0);
	ck_assert_uint_eq(ext4_inode_reserved_blocks(inode), 0);
	wf_assert_nothing_reserved(&f);
	wb_drop_clean(inode);
	wf_check(inode, 1, 0, (size_t)len);
	iput(inode);
	iput(big);
	wf_close(&f);
}

START_TEST(blocks_of_an_allocation_that_is_tried_again_count_once)
{
	allocate_twice("-t ext4 -b 1024 -m 0 -O ^extent,^64bit");
	allocate_twice("-t ext4 -b 1024 -m 0");
}
END_TEST

/* ---- The budget ---- */

/* A random pattern: contiguous, scattered, holes; some pages mapped before, some delayed. */
static void dirty_pattern(struct inode *inode, struct prng *p, unsigned pages)
{
	static uint8_t buf[PAGE_SIZE];
	unsigned kind = (unsigned)prng_below(p, 4);

	if (prng_chance(p, 1, 2)) {
		for (unsigned i = 0; i < pages; i++)
			if (prng_chance(p, 1, 2))
				ck_assert_int_eq(wf_write(inode, buf, PAGE, (uint64_t)i * PAGE),
						 (ssize_t)PAGE);
		ck_assert_int_eq(ext4_sync_file(inode, true), 0);
	}
	for (unsigned i = 0; i < pages; i++) {
		bool dirty = kind == 0 || (kind == 1 && i % 2 == 0) ||
			     (kind == 2 && prng_chance(p, 1, 2)) || (kind == 3 && i / 7 % 2 == 0);

		if (dirty)
			ck_assert_int_eq(wf_write(inode, buf, PAGE, (uint64_t)i * PAGE),
					 (ssize_t)PAGE);
	}
}

/* What write_bump makes of nr; 0: contig, which depends on the pages. */
static long effective(struct wf *f, struct prng *p, long nr)
{
	static const struct {
		const char *name;
		long times;
	} bumps[] = {{"x1", 1}, {"x8", 8}, {"x16", 16}, {"contig", 0}};
	unsigned i = (unsigned)prng_below(p, 4);

	wf_tune(f, "write_bump", bumps[i].name);
	return nr * bumps[i].times;
}

/* Some of the pages that are on their way are dirtied again. */
static void redirty(struct inode *inode, struct prng *p, unsigned pages)
{
	static uint8_t buf[PAGE_SIZE];

	for (unsigned i = 0; i < 8; i++)
		ck_assert_int_eq(wf_write(inode, buf, PAGE, prng_below(p, pages) * PAGE),
				 (ssize_t)PAGE);
}

static void budget_round(struct prng *p, const char *mkfs, bool premap)
{
	struct wf f;
	struct inode *inode;

	wf_open(&f, mkfs, 24 * MIB, 1);
	wf_tune(&f, "premap_pass", premap ? "on" : "off");
	inode = wf_file(&f, 0);
	for (unsigned round = 0; round < 12; round++) {
		long nr = (long)prng_range(p, 0, 60), max = effective(&f, p, nr), written;
		uint32_t dirty;

		dirty_pattern(inode, p, 120);
		dirty = atomic_load(&inode->i_mapping->as_nr_dirty);
		written = writepages(inode, nr);
		/* The mapping itself is the second witness, and nothing is left over for no reason. */
		ck_assert_uint_eq(dirty - atomic_load(&inode->i_mapping->as_nr_dirty),
				  (uint32_t)written);
		if (max > 0)
			ck_assert_int_eq(written, max < (long)dirty ? max : (long)dirty);
		else if (nr > 0)
			ck_assert_int_ge(written, nr < (long)dirty ? nr : (long)dirty);
		else
			ck_assert_int_eq(written, 0);
		redirty(inode, p, 120);
		wb_run_completions(f.sb);
		if (prng_chance(p, 1, 3))
			ck_assert_int_eq(ext4_truncate_to(inode, 0), 0);
	}
	ck_assert_int_ge(atomic_load(&f.wb->wb_stats.ws_nr_to_write_min), 0);
	ck_assert_uint_eq(count(&f.wb->wb_stats.ws_negative_exits), 0);
	iput(inode);
	wf_close(&f);
}

START_TEST(before_add_never_writes_more_than_the_budget)
{
	struct prng p;

	prng_seed(&p, prng_seed_from_env(21));
	budget_round(&p, "-t ext4 -b 4096", true);
	budget_round(&p, "-t ext4 -b 4096", false);
	budget_round(&p, "-t ext4 -b 1024", true);
	budget_round(&p, "-t ext4 -b 4096 -O ^extent,^64bit", true);
}
END_TEST

/* 100 delayed pages, a budget of 10: *requests of the call, and the pages written. */
static long trickle(const char *variant, uint64_t *requests)
{
	struct wf f;
	struct inode *inode;
	long written;

	wf_open(&f, "-t ext4 -b 4096", 24 * MIB, 1);
	wf_tune(&f, "write_bump", "x1");
	wf_tune(&f, "writepages_budget", variant);
	inode = wf_file(&f, 0);
	wf_fill(inode, 1, 0, 100 * PAGE, 8192);
	written = writepages(inode, 10);
	*requests = hist_count(&f.wb->wb_stats.ws_request_bytes);
	if (written > 10)
		ck_assert_int_lt(atomic_load(&f.wb->wb_stats.ws_nr_to_write_min), 0);
	wf_sync(&f);
	wf_check(inode, 1, 0, 100 * PAGE);
	iput(inode);
	wf_close(&f);
	return written;
}

START_TEST(after_add_lets_small_requests_trickle_out_past_the_budget)
{
	uint64_t before, after;

	ck_assert_int_eq(trickle("before_add", &before), 10);
	ck_assert_uint_eq(before, 1);
	ck_assert_int_eq(trickle("after_add", &after), 100);
	/* The first extent, and then one page at a time. */
	ck_assert_uint_eq(after, 91);
}
END_TEST

/* Pages that need no mapping leave at once: the budget has counted them when it is looked at. */
static void mapped_pages_stop_at_the_budget(const char *variant, const char *premap)
{
	struct wf f;
	struct inode *inode;

	wf_open(&f, "-t ext4 -b 4096", 24 * MIB, 1);
	wf_tune(&f, "write_bump", "x1");
	inode = wf_file(&f, 0);
	wf_fill(inode, 1, 0, 100 * PAGE, 8192);
	wf_sync(&f);
	wf_tune(&f, "writepages_budget", variant);
	wf_tune(&f, "premap_pass", premap);
	wf_fill(inode, 2, 0, 100 * PAGE, 8192);
	ck_assert_int_eq(writepages(inode, 10), 10);
	ck_assert_int_eq(writepages(inode, 1), 1);
	ck_assert_uint_eq(count(&f.wb->wb_stats.ws_negative_exits), 0);
	wf_sync(&f);
	wf_check(inode, 2, 0, 100 * PAGE);
	iput(inode);
	wf_close(&f);
}

START_TEST(overwriting_ends_at_the_budget_either_way)
{
	mapped_pages_stop_at_the_budget("before_add", "on");
	mapped_pages_stop_at_the_budget("before_add", "off");
	mapped_pages_stop_at_the_budget("after_add", "on");
	mapped_pages_stop_at_the_budget("after_add", "off");
}
END_TEST

static long bumped(struct wf *f, struct inode *inode, const char *bump, unsigned run, long nr)
{
	long written;

	wf_tune(f, "write_bump", bump);
	ck_assert_int_eq(ext4_truncate_to(inode, 0), 0);
	wf_fill(inode, 1, 0, run * PAGE, PAGE);
	wf_fill(inode, 1, (run + 1) * PAGE, 400 * PAGE, PAGE);
	written = writepages(inode, nr);
	wf_sync(f);
	return written;
}

START_TEST(bump_raises_the_budget_as_its_name_says)
{
	struct wf f;
	struct inode *inode;

	wf_open(&f, "-t ext4 -b 4096", 32 * MIB, 1);
	inode = wf_file(&f, 0);
	ck_assert_int_eq(bumped(&f, inode, "x1", 100, 10), 10);
	ck_assert_int_eq(bumped(&f, inode, "x8", 100, 10), 80);
	ck_assert_int_eq(bumped(&f, inode, "x16", 100, 10), 160);
	ck_assert_int_eq(bumped(&f, inode, "contig", 100, 10), 100);
	ck_assert_int_eq(bumped(&f, inode, "contig", 5, 10), 10);
	ck_assert_uint_eq(count(&f.wb->wb_stats.ws_bump_scans), 2);
	/* The cap: 1 MiB. */
	wf_tune(&f, "max_writeback_mb_bump", "1");
	ck_assert_int_eq(bumped(&f, inode, "x16", 100, 100), 256);
	ck_assert_int_eq(bumped(&f, inode, "contig", 300, 10), 256);
	iput(inode);
	wf_close(&f);
}
END_TEST

/* As ext4_num_dirty_pages() counts: from where the call begins, and only pages that have no place yet. */
START_TEST(contiguous_run_is_of_unallocated_pages_where_the_call_begins)
{
	struct wf f;
	struct inode *inode;

	wf_open(&f, "-t ext4 -b 4096", 32 * MIB, 1);
	wf_tune(&f, "write_bump", "contig");
	inode = wf_file(&f, 0);
	wf_fill(inode, 1, 0, 50 * PAGE, PAGE);
	wf_sync(&f);
	/* The run of dirty pages is long, and mapped but for its end. */
	wf_fill(inode, 2, 0, 90 * PAGE, PAGE);
	ck_assert_int_eq(writepages(inode, 10), 10);
	/* Page 0 is clean. */
	ck_assert_int_eq(writepages(inode, 10), 10);
	wf_sync(&f);
	ck_assert_int_eq(ext4_fallocate(inode, 0, 90 * PAGE, 40 * PAGE, &wf_root), 0);
	wf_fill(inode, 3, 90 * PAGE, 60 * PAGE, PAGE);
	/* Where the last call ended: unwritten and delayed pages count. */
	inode->i_mapping->as_writeback_index = 90;
	wf_tune(&f, "writeback_chunk", "1024");
	{
		struct writeback_control wbc = {.nr_to_write = 10, .range_cyclic = true};

		ck_assert_int_eq(do_writepages(inode->i_mapping, &wbc), 0);
		ck_assert_int_eq(wbc.nr_to_write, 10 - 60);
	}
	ck_assert_uint_eq(inode->i_mapping->as_writeback_index, 150);
	wf_fill(inode, 4, 150 * PAGE, 70 * PAGE, PAGE);
	{
		struct writeback_control wbc = {.nr_to_write = 10, .range_cyclic = true};

		ck_assert_int_eq(do_writepages(inode->i_mapping, &wbc), 0);
		ck_assert_int_eq(wbc.nr_to_write, 10 - 70);
	}
	wf_sync(&f);
	wf_check(inode, 2, 0, 90 * PAGE);
	iput(inode);
	wf_close(&f);
}
END_TEST

/* ---- The pass without a handle ---- */

static void overwrite(struct wf *f, struct inode *inode, const char *premap)
{
	wf_tune(f, "premap_pass", premap);
	wf_fill(inode, 9, 0, 64 * PAGE, 8192);
	ck_assert_int_eq(filemap_write_and_wait_range(inode, 0, UINT64_MAX), 0);
}

START_TEST(premap_pass_writes_mapped_pages_without_a_handle)
{
	struct wf f;
	struct inode *inode;
	struct wb_stats *st;
	uint64_t handles;

	wf_open(&f, "-t ext4 -b 4096", 32 * MIB, 1);
	st = &f.wb->wb_stats;
	inode = wf_file(&f, 0);
	wf_fill(inode, 1, 0, 64 * PAGE, 8192);
	wf_sync(&f);
	ck_assert_uint_eq(count(&st->ws_pages_mapped), 64);
	ck_assert_uint_eq(count(&st->ws_pages_premap), 0);
	handles = count(&st->ws_handles);
	overwrite(&f, inode, "on");
	ck_assert_uint_eq(count(&st->ws_handles), handles);
	ck_assert_uint_eq(count(&st->ws_pages_premap), 64);
	ck_assert_uint_eq(count(&st->ws_pages_in_handle), 0);
	overwrite(&f, inode, "off");
	ck_assert_uint_gt(count(&st->ws_handles), handles);
	ck_assert_uint_eq(count(&st->ws_pages_premap), 64);
	wf_check(inode, 9, 0, 64 * PAGE);
	iput(inode);
	wf_close(&f);
}
END_TEST

/* More than one request: all but the last leave while the handle is open. */
START_TEST(without_premap_pass_full_requests_leave_with_the_handle_open)
{
	struct wf f;
	struct inode *inode;

	wf_make(&f, "-t ext4 -b 4096", 64 * MIB, 1);
	wf_mount(&f);
	inode = wf_file(&f, 0);
	wf_fill(inode, 1, 0, 4 * MIB, 64 * 1024);
	wf_sync(&f);
	wf_tune(&f, "premap_pass", "off");
	wf_fill(inode, 2, 0, 4 * MIB, 64 * 1024);
	ck_assert_int_eq(filemap_write_and_wait_range(inode, 0, UINT64_MAX), 0);
	ck_assert_uint_ge(count(&f.wb->wb_stats.ws_pages_in_handle), 3 * 256);
	ck_assert_uint_lt(count(&f.wb->wb_stats.ws_pages_in_handle), 4 * 256);
	wf_check(inode, 2, 0, 4 * MIB);
	iput(inode);
	wf_close(&f);
}
END_TEST

START_TEST(mapped_and_delayed_pages_mixed_are_all_written_right)
{
	struct wf f;
	struct inode *inode;

	wf_open(&f, "-t ext4 -b 4096", 32 * MIB, 1);
	inode = wf_file(&f, 0);
	for (unsigned i = 0; i < 90; i += 3)
		wf_fill(inode, 1, i * PAGE, 2 * PAGE, PAGE);
	wf_sync(&f);
	wf_fill(inode, 2, 0, 90 * PAGE, 3 * PAGE);
	ck_assert_int_eq(filemap_write_and_wait_range(inode, 0, UINT64_MAX), 0);
	ck_assert_int_eq(atomic_load(&inode->i_mapping->as_nr_dirty), 0);
	ck_assert_uint_eq(count(&f.wb->wb_stats.ws_pages_premap), 60);
	ck_assert_uint_eq(count(&f.wb->wb_stats.ws_pages_in_handle), 0);
	wb_drop_clean(inode);
	wf_check(inode, 2, 0, 90 * PAGE);
	iput(inode);
	wf_close(&f);
}
END_TEST

/* ---- Ranges ---- */

START_TEST(range_cyclic_goes_on_where_it_stopped_and_wraps_once)
{
	struct wf f;
	struct inode *inode;
	struct writeback_control wbc;

	wf_open(&f, "-t ext4 -b 4096", 32 * MIB, 1);
	wf_tune(&f, "write_bump", "x1");
	inode = wf_file(&f, 0);
	wf_fill(inode, 1, 0, 100 * PAGE, 8192);
	wf_sync(&f);
	wf_fill(inode, 2, 0, 100 * PAGE, 8192);
	wbc = (struct writeback_control){.nr_to_write = 30, .range_cyclic = true};
	ck_assert_int_eq(do_writepages(inode->i_mapping, &wbc), 0);
	ck_assert_uint_eq(inode->i_mapping->as_writeback_index, 30);
	wf_fill(inode, 3, 0, 10 * PAGE, PAGE);
	wbc = (struct writeback_control){.nr_to_write = 70, .range_cyclic = true};
	ck_assert_int_eq(do_writepages(inode->i_mapping, &wbc), 0);
	/* 30..99 first: those dirtied again at the start are still there. */
	ck_assert_uint_eq(atomic_load(&inode->i_mapping->as_nr_dirty), 10);
	ck_assert(page_index_test(&inode->i_mapping->as_index, 0, PAGE_TAG_DIRTY));
	wf_fill(inode, 3, 90 * PAGE, 5 * PAGE, PAGE);
	inode->i_mapping->as_writeback_index = 50;
	wbc = (struct writeback_control){.nr_to_write = 100, .range_cyclic = true};
	ck_assert_int_eq(do_writepages(inode->i_mapping, &wbc), 0);
	ck_assert_uint_eq(atomic_load(&inode->i_mapping->as_nr_dirty), 0);
	iput(inode);
	wf_close(&f);
}
END_TEST

START_TEST(growing_file_is_submitted_from_i_disksize_on)
{
	struct wf f;
	struct inode *inode;

	wf_open(&f, "-t ext4 -b 4096", 32 * MIB, 1);
	inode = wf_file(&f, 0);
	wf_fill(inode, 1, 0, 50 * PAGE, 8192);
	/* Only the end is asked for; what lies before it past i_disksize goes too, and first. */
	ck_assert_int_eq(filemap_write_and_wait_range(inode, 45 * PAGE, 50 * PAGE - 1), 0);
	ck_assert_uint_eq(atomic_load(&inode->i_disksize), 50 * PAGE);
	ck_assert_uint_eq(atomic_load(&inode->i_mapping->as_nr_dirty), 0);
	iput(inode);
	wf_close(&f);
}
END_TEST

START_TEST(small_blocks_of_a_page_keep_their_neighbours)
{
	struct wf f;
	struct inode *inode;
	uint8_t buf[1024];

	wf_open(&f, "-t ext4 -b 1024", 32 * MIB, 1);
	inode = wf_file(&f, 0);
	ck_assert_int_eq(ext4_fallocate(inode, 0, 0, 4096, &wf_root), 0);
	memset(buf, 'x', sizeof(buf));
	ck_assert_int_eq(wf_write(inode, buf, 1024, 1024), 1024);
	wf_sync(&f);
	wf_assert_nothing_reserved(&f);
	iput(inode);
	wf_umount(&f);
	wf_mount(&f);
	inode = wf_file(&f, 0);
	wf_check_value(inode, 0, 0, 1024);
	wf_check_value(inode, 'x', 1024, 1024);
	wf_check_value(inode, 0, 2048, 2048);
	iput(inode);
	wf_close(&f);
}
END_TEST

static void written_beside_unwritten(const char *mkfs)
{
	struct wf f;
	struct inode *inode, *other;
	uint32_t bs;

	wf_open(&f, mkfs, 24 * MIB, 2);
	other = wf_file(&f, 1);
	wf_fill_free_space(&f, other);
	iput(other);
	bs = f.sb->s_blocksize;
	inode = wf_file(&f, 0);
	ck_assert_int_eq(ext4_fallocate(inode, 0, 0, 300 * bs, &wf_root), 0);
	for (unsigned i = 0; i < 300; i += 3)
		wf_fill(inode, 1, i * bs, bs, bs);
	wf_sync(&f);
	wb_drop_clean(inode);
	for (unsigned i = 0; i < 300; i += 3) {
		wf_check(inode, 1, i * bs, bs);
		wf_check_value(inode, 0, (i + 1) * bs, 2 * bs);
	}
	iput(inode);
	wf_close(&f);
}

START_TEST(old_bytes_of_the_device_never_show_beside_what_was_written)
{
	written_beside_unwritten("-t ext4 -b 4096");
	written_beside_unwritten("-t ext4 -b 1024");
}
END_TEST

int main(void)
{
	return RUN_TESTS("writeback/writepages",
			 file_written_in_small_pieces_ends_in_few_extents_and_large_requests,
			 two_files_written_at_once_do_not_interleave,
			 file_cut_to_nothing_before_writeback_writes_no_data,
			 unlinked_file_goes_without_a_write,
			 full_disk_is_an_error_of_write_and_all_accepted_data_is_there,
			 blocks_of_an_allocation_that_is_tried_again_count_once,
			 before_add_never_writes_more_than_the_budget,
			 after_add_lets_small_requests_trickle_out_past_the_budget,
			 overwriting_ends_at_the_budget_either_way,
			 bump_raises_the_budget_as_its_name_says,
			 contiguous_run_is_of_unallocated_pages_where_the_call_begins,
			 premap_pass_writes_mapped_pages_without_a_handle,
			 without_premap_pass_full_requests_leave_with_the_handle_open,
			 mapped_and_delayed_pages_mixed_are_all_written_right,
			 range_cyclic_goes_on_where_it_stopped_and_wraps_once,
			 growing_file_is_submitted_from_i_disksize_on,
			 small_blocks_of_a_page_keep_their_neighbours,
			 old_bytes_of_the_device_never_show_beside_what_was_written);
}
