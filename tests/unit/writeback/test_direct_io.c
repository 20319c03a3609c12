/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "tests/unit/writeback/wb_fixture.h"

#include <pthread.h>

static ssize_t direct_write(struct inode *inode, const void *buf, size_t len, uint64_t pos)
{
	return wf_write_flags(inode, buf, len, pos, WB_WRITE_DIRECT);
}

static ssize_t direct_read(struct inode *inode, void *buf, size_t len, uint64_t pos)
{
	struct iovec iov[2] = {{buf, len / 3}, {(uint8_t *)buf + len / 3, len - len / 3}};

	return file_read_direct(inode, pos, iov, 2, 0);
}

START_TEST(direct_write_bypasses_the_cache)
{
	struct wf f;
	struct inode *inode;
	uint8_t *buf = malloc(MIB);

	pattern_fill(buf, MIB, 1, 0);
	wf_open(&f, "-t ext4 -b 4096", 32 * MIB, 1);
	inode = wf_file(&f, 0);
	ck_assert_int_eq(direct_write(inode, buf, MIB, 0), (ssize_t)MIB);
	ck_assert_uint_eq(inode->i_mapping->as_nrpages, 0);
	ck_assert_uint_eq(i_size_read(inode), MIB);
	ck_assert_uint_eq(atomic_load(&inode->i_disksize), MIB);
	memset(buf, 0, MIB);
	ck_assert_int_eq(direct_read(inode, buf, MIB, 0), (ssize_t)MIB);
	pattern_check(buf, MIB, 1, 0);
	ck_assert_uint_eq(inode->i_mapping->as_nrpages, 0);
	iput(inode);
	wf_close(&f);
	free(buf);
}
END_TEST

START_TEST(direct_and_cached_access_see_each_other)
{
	struct wf f;
	struct inode *inode;
	uint8_t buf[8 * PAGE_SIZE];

	wf_open(&f, "-t ext4 -b 4096", 32 * MIB, 1);
	inode = wf_file(&f, 0);
	wf_fill(inode, 1, 0, 8 * PAGE, PAGE);
	/* Dirty pages reach the direct reader. */
	ck_assert_int_eq(direct_read(inode, buf, 8 * PAGE, 0), (ssize_t)(8 * PAGE));
	pattern_check(buf, 8 * PAGE, 1, 0);
	/* A direct write over dirty and clean pages is what everybody reads. */
	wf_fill(inode, 2, 2 * PAGE, PAGE, PAGE);
	pattern_fill(buf, 3 * PAGE, 3, PAGE);
	ck_assert_int_eq(direct_write(inode, buf, 3 * PAGE, PAGE), (ssize_t)(3 * PAGE));
	wf_check(inode, 1, 0, PAGE);
	wf_check(inode, 3, PAGE, 3 * PAGE);
	wf_check(inode, 1, 4 * PAGE, 4 * PAGE);
	iput(inode);
	wf_close(&f);
}
END_TEST

START_TEST(unaligned_ends_go_through_the_cache_and_to_the_disk)
{
	struct wf f;
	struct inode *inode;
	uint8_t *buf = malloc(100000);

	wf_open(&f, "-t ext4 -b 4096", 32 * MIB, 1);
	inode = wf_file(&f, 0);
	pattern_fill(buf, 100000, 1, 777);
	ck_assert_int_eq(direct_write(inode, buf, 100000, 777), 100000);
	ck_assert_int_eq(atomic_load(&f.wb->wb_nr_dirty), 0);
	wb_drop_clean(inode);
	wf_check_value(inode, 0, 0, 777);
	wf_check(inode, 1, 777, 100000);
	memset(buf, 0, 100000);
	ck_assert_int_eq(direct_read(inode, buf, 50000, 1234), 50000);
	pattern_check(buf, 50000, 1, 1234);
	/* To the end and no further. */
	ck_assert_int_eq(direct_read(inode, buf, 100000, 99000), 1777);
	pattern_check(buf, 1777, 1, 99000);
	iput(inode);
	wf_close(&f);
	free(buf);
}
END_TEST

START_TEST(holes_and_unwritten_extents_read_as_zeros)
{
	struct wf f;
	struct inode *inode;
	uint8_t buf[12 * PAGE_SIZE];

	wf_open(&f, "-t ext4 -b 4096", 32 * MIB, 1);
	inode = wf_file(&f, 0);
	ck_assert_int_eq(ext4_fallocate(inode, 0, 0, 4 * PAGE, &wf_root), 0);
	wf_fill(inode, 1, 6 * PAGE, 2 * PAGE, PAGE);
	ck_assert_int_eq(ext4_truncate_to(inode, 12 * PAGE), 0);
	memset(buf, 'x', sizeof(buf));
	ck_assert_int_eq(direct_read(inode, buf, sizeof(buf), 0), (ssize_t)sizeof(buf));
	ck_assert_int_eq(bytes_mismatch(buf, 6 * PAGE, 0), -1);
	pattern_check(buf + 6 * PAGE, 2 * PAGE, 1, 6 * PAGE);
	ck_assert_int_eq(bytes_mismatch(buf + 8 * PAGE, 4 * PAGE, 0), -1);
	iput(inode);
	wf_close(&f);
}
END_TEST

START_TEST(file_without_extents_is_written_right)
{
	struct wf f;
	struct inode *inode;
	uint8_t *buf = malloc(MIB);

	pattern_fill(buf, MIB, 1, 0);
	wf_open(&f, "-t ext4 -b 1024 -O ^extent,^64bit", 32 * MIB, 1);
	inode = wf_file(&f, 0);
	ck_assert_int_eq(direct_write(inode, buf, MIB, 0), (ssize_t)MIB);
	pattern_fill(buf, MIB, 2, 0);
	ck_assert_int_eq(direct_write(inode, buf, MIB / 2, 0), (ssize_t)(MIB / 2));
	wf_check(inode, 2, 0, MIB / 2);
	wf_check(inode, 1, MIB / 2, MIB / 2);
	iput(inode);
	wf_close(&f);
	free(buf);
}
END_TEST

/* What failed is not converted: it reads as zeros, and i_size does not cover it. */
START_TEST(failed_direct_write_leaves_zeros)
{
	struct wf f;
	struct inode *inode;
	uint8_t buf[4 * PAGE_SIZE];

	memset(buf, 'd', sizeof(buf));
	wf_make(&f, "-t ext4 -b 4096", 32 * MIB, 1);
	f.want_faults = true;
	wf_mount(&f);
	inode = wf_file(&f, 0);
	ck_assert_int_eq(ext4_fallocate(inode, FALLOC_FL_KEEP_SIZE, 0, 4 * PAGE, &wf_root), 0);
	wf_fail_blocks(&f, inode, REQ_OP_WRITE, 0, 4);
	ck_assert_int_eq(direct_write(inode, buf, 4 * PAGE, 0), -EIO);
	ck_assert_uint_eq(i_size_read(inode), 0);
	fault_disarm_all(f.faults);
	ck_assert_int_eq(ext4_truncate_to(inode, 4 * PAGE), 0);
	wf_check_value(inode, 0, 0, 4 * PAGE);
	iput(inode);
	wf_close(&f);
}
END_TEST

static uint64_t inv_pos, inv_len;

static void invalidated(struct inode *inode, uint64_t offset, uint64_t len)
{
	(void)inode;
	inv_pos = offset;
	inv_len = len;
}

START_TEST(kernel_is_told_what_changed_behind_its_back)
{
	static const struct wb_notify_ops ops = {.invalidate = invalidated};
	struct wf f;
	struct inode *inode;
	uint8_t buf[2 * PAGE_SIZE] = {1};

	wf_open(&f, "-t ext4 -b 4096", 32 * MIB, 1);
	wb_set_notify(f.sb, &ops);
	inode = wf_file(&f, 0);
	ck_assert_int_eq(direct_write(inode, buf, 2 * PAGE, PAGE), (ssize_t)(2 * PAGE));
	ck_assert_uint_eq(inv_pos, PAGE);
	ck_assert_uint_eq(inv_len, 2 * PAGE);
	wb_set_notify(f.sb, NULL);
	iput(inode);
	wf_close(&f);
}
END_TEST

/* ---- Overwrites ---- */

struct overwriter {
	struct inode *o_inode;
	uint64_t o_pos;
	uint64_t o_tag;
	pthread_t o_thread;
};

static void *overwrite_main(void *arg)
{
	struct overwriter *o = arg;
	uint8_t *buf = aligned_alloc(PAGE, 2 * PAGE);

	pattern_fill(buf, 2 * PAGE, o->o_tag, o->o_pos);
	ck_assert_int_eq(direct_write(o->o_inode, buf, 2 * PAGE, o->o_pos), (ssize_t)(2 * PAGE));
	free(buf);
	return NULL;
}

static void start_overwrite(struct overwriter *o, struct inode *inode, uint64_t pos, uint64_t tag)
{
	*o = (struct overwriter){.o_inode = inode, .o_pos = pos, .o_tag = tag};
	ck_assert_int_eq(pthread_create(&o->o_thread, NULL, overwrite_main, o), 0);
}

START_TEST(overwrites_run_side_by_side)
{
	struct overwriter o[3];
	struct wf f;
	struct inode *inode;

	wf_make(&f, "-t ext4 -b 4096", 32 * MIB, 1);
	f.threads = true;
	f.want_slow = true;
	wf_mount(&f);
	inode = wf_file(&f, 0);
	wf_fill(inode, 1, 0, 16 * PAGE, PAGE);
	wf_sync(&f);
	slowdev_hold(f.dev, REQ_OP_WRITE, true);
	for (unsigned i = 0; i < 3; i++)
		start_overwrite(&o[i], inode, i * 4 * PAGE, 2 + i);
	/* All three are on their way at one time. */
	slowdev_wait_held(f.dev, 3);
	/* A reader sees either content, and nothing stale is left behind it. */
	wf_check(inode, 1, 0, PAGE);
	slowdev_release_all(f.dev);
	for (unsigned i = 0; i < 3; i++)
		pthread_join(o[i].o_thread, NULL);
	for (unsigned i = 0; i < 3; i++) {
		wf_check(inode, 2 + i, i * 4 * PAGE, 2 * PAGE);
		wf_check(inode, 1, (i * 4 + 2) * PAGE, 2 * PAGE);
	}
	ck_assert_uint_eq(counter_read(&f.wb->wb_stats.ws_dio_shared), 3);
	iput(inode);
	wf_close(&f);
}
END_TEST

START_TEST(only_overwrites_are_shared)
{
	static const struct {
		uint64_t pos;
		size_t len;
		uint64_t shared;
	} writes[] = {
		{0, 4096, 1},				    /* written, inside */
		{0, 8 * 4096, 2},			    /* the whole file */
		{512, 4096, 2},				    /* not whole blocks */
		{8 * 4096, 4096, 2},			    /* past the end */
		{7 * 4096, 8192, 3},			    /* now inside */
		{8 * 4096, 8192, 3},			    /* over the end */
		{12 * 4096, 4096, 3}, {10 * 4096, 4096, 3}, /* the hole that this left */
		{10 * 4096, 4096, 4}, {14 * 4096, 4096, 4}, /* fallocated */
	};
	uint8_t *buf = aligned_alloc(PAGE, 8 * PAGE);
	struct wf f;
	struct inode *inode;

	wf_open(&f, "-t ext4 -b 4096", 32 * MIB, 1);
	inode = wf_file(&f, 0);
	wf_fill(inode, 1, 0, 8 * PAGE, PAGE);
	wf_sync(&f);
	for (size_t i = 0; i < sizeof(writes) / sizeof(writes[0]); i++) {
		if (writes[i].pos == 14 * PAGE)
			ck_assert_int_eq(ext4_fallocate(inode, 0, 13 * PAGE, 4 * PAGE, &wf_root),
					 0);
		pattern_fill(buf, writes[i].len, 10 + i, writes[i].pos);
		ck_assert_int_eq(direct_write(inode, buf, writes[i].len, writes[i].pos),
				 (ssize_t)writes[i].len);
		ck_assert_uint_eq(counter_read(&f.wb->wb_stats.ws_dio_shared), writes[i].shared);
		wf_check(inode, 10 + i, writes[i].pos, writes[i].len);
	}
	/* Dirty pages go first, and the write is what stays. */
	wf_fill(inode, 3, 0, 2 * PAGE, PAGE);
	pattern_fill(buf, PAGE, 4, 0);
	ck_assert_int_eq(direct_write(inode, buf, PAGE, 0), (ssize_t)PAGE);
	wf_check(inode, 4, 0, PAGE);
	wf_check(inode, 3, PAGE, PAGE);
	iput(inode);
	wf_close(&f);
	free(buf);
}
END_TEST

#define SHARERS 4u
#define SHARED_PAGES 64u
#define SHARED_ROUNDS 120u

struct sharer {
	struct inode *s_inode;
	unsigned s_nr;
	pthread_t s_thread;
	uint64_t s_tag[SHARED_PAGES];
};

/* Each owns every fourth page of a file; the last one writes through the cache, drops it and syncs. */
static void *share_main(void *arg)
{
	struct sharer *s = arg;
	uint8_t *buf = aligned_alloc(PAGE, PAGE);
	struct prng p;

	prng_seed(&p, s->s_nr + 1);
	for (unsigned i = 0; i < SHARED_ROUNDS; i++) {
		unsigned page =
			(unsigned)prng_below(&p, SHARED_PAGES / SHARERS) * SHARERS + s->s_nr;
		uint64_t pos = page * PAGE;
		bool cached = s->s_nr == SHARERS - 1;

		s->s_tag[page] = 100 + s->s_nr * SHARED_ROUNDS + i;
		pattern_fill(buf, PAGE, s->s_tag[page], pos);
		ck_assert_int_eq(
			wf_write_flags(s->s_inode, buf, PAGE, pos, cached ? 0 : WB_WRITE_DIRECT),
			(ssize_t)PAGE);
		if (cached && i % 8 == 0)
			wb_drop_clean(s->s_inode);
		if (cached && i % 16 == 0)
			ck_assert_int_eq(ext4_sync_file(s->s_inode, true), 0);
		wf_check(s->s_inode, s->s_tag[page], pos, PAGE);
		if (i % 4 == 0) {
			ck_assert_int_eq(direct_read(s->s_inode, buf, PAGE, pos), (ssize_t)PAGE);
			pattern_check(buf, PAGE, s->s_tag[page], pos);
		}
	}
	free(buf);
	return NULL;
}

START_TEST(threads_overwrite_one_file)
{
	static struct sharer s[SHARERS];
	struct wf f;
	struct inode *inode;

	wf_make(&f, "-t ext4 -b 4096", 32 * MIB, 1);
	f.threads = true;
	wf_mount(&f);
	/* A read of the device's memory while it is written is a race in this simulation alone: each reads only its own pages. */
	wf_tune(&f, "read_ahead_kb", "0");
	inode = wf_file(&f, 0);
	wf_fill(inode, 1, 0, SHARED_PAGES * PAGE, PAGE);
	wf_sync(&f);
	for (unsigned i = 0; i < SHARERS; i++) {
		s[i].s_inode = inode;
		s[i].s_nr = i;
		for (unsigned page = 0; page < SHARED_PAGES; page++)
			s[i].s_tag[page] = 1;
		ck_assert_int_eq(pthread_create(&s[i].s_thread, NULL, share_main, &s[i]), 0);
	}
	for (unsigned i = 0; i < SHARERS; i++)
		pthread_join(s[i].s_thread, NULL);
	ck_assert_uint_gt(counter_read(&f.wb->wb_stats.ws_dio_shared), 0);
	wb_drop_clean(inode);
	for (unsigned page = 0; page < SHARED_PAGES; page++)
		wf_check(inode, s[page % SHARERS].s_tag[page], page * PAGE, PAGE);
	iput(inode);
	wf_close(&f);
}
END_TEST

int main(void)
{
	return RUN_TESTS("writeback/direct_io", direct_write_bypasses_the_cache,
			 direct_and_cached_access_see_each_other,
			 unaligned_ends_go_through_the_cache_and_to_the_disk,
			 holes_and_unwritten_extents_read_as_zeros,
			 file_without_extents_is_written_right, failed_direct_write_leaves_zeros,
			 kernel_is_told_what_changed_behind_its_back, overwrites_run_side_by_side,
			 only_overwrites_are_shared, threads_overwrite_one_file);
}
