/* SPDX-License-Identifier: GPL-2.0-or-later */
/* test_group.c - groups, bitmaps read and made, metadata zones, changes of descriptors. */

#include <pthread.h>
#include <unistd.h>

#include "tests/lib/suite.h"
#include "tests/unit/ext4/fixture.h"
#include "util/time.h"

#define T1 "-t ext4 -b 1024"

static unsigned count_set(const uint8_t *map, unsigned bits)
{
	unsigned n = 0;

	for (unsigned i = 0; i < bits; i++)
		n += map[i / 8] >> (i % 8) & 1;
	return n;
}

static bool bit_of(const uint8_t *map, uint64_t bit)
{
	return (map[bit / 8] >> (bit % 8) & 1) != 0;
}

/* ---- Arithmetic ---- */

START_TEST(groups_with_superblock_copies)
{
	static const char *const args[] = {T1, T1 " -O sparse_super2,^resize_inode",
					   T1 " -O ^sparse_super,^resize_inode"};
	/* Of 12 groups. */
	static const char *const want[] = {"110101010100", "110000000001", "111111111111"};
	struct test_fs t;

	fx_make(&t, args[_i], 96 * MIB, NULL);
	t.t_opts.o_read_only = true;
	ck_assert_int_eq(fx_mount(&t), 0);
	ck_assert_uint_eq(t.t_sb->s_groups_count, 12);
	for (ext4_group_t g = 0; g < 12; g++)
		ck_assert_msg(ext4_group_has_super(t.t_sb, g) == (want[_i][g] == '1'), "group %u",
			      g);
	ck_assert_uint_eq(ext4_group_first_block(t.t_sb, 1), 8193);
	ck_assert_uint_eq(ext4_blocks_in_group(t.t_sb, 0), 8192);
	ck_assert_uint_eq(ext4_blocks_in_group(t.t_sb, 11), 96 * 1024 - 1 - 11 * 8192);
	ck_assert_uint_eq(ext4_group_of_block(t.t_sb, 8192), 0);
	ck_assert_uint_eq(ext4_group_of_block(t.t_sb, 8193), 1);
	ck_assert_uint_eq(ext4_offset_in_group(t.t_sb, 8194), 1);
	fx_free(&t);
}
END_TEST

/* ---- Bitmaps ---- */

/* What e2fsprogs thinks of each block and inode is what the bitmaps say, UNINIT groups too. */
START_TEST(bitmaps_agree_with_the_counts)
{
	static const char *const args[] = {
		T1,
		T1 " -O ^flex_bg",
		T1 " -O ^metadata_csum,uninit_bg",
		T1 " -O meta_bg,^resize_inode",
		T1 " -O sparse_super2,^resize_inode",
		"-t ext2 -b 1024",
		"-t ext4 -b 4096 -g 2048",
		"-t ext4 -O bigalloc -b 1024 -C 4096",
	};
	struct test_fs t;
	uint64_t free_blocks = 0, free_inodes = 0;
	unsigned uninit = 0;

	fx_make(&t, args[_i], 96 * MIB, "write /etc/services a\nmkdir d");
	t.t_opts.o_read_only = true;
	ck_assert_int_eq(fx_mount(&t), 0);
	for (ext4_group_t g = 0; g < t.t_sb->s_groups_count; g++) {
		struct ext4_group_info *gi = ext4_get_group_info(t.t_sb, g);
		uint32_t blocks = ext4_blocks_in_group(t.t_sb, g) / t.t_sb->s_cluster_ratio;
		struct buffer_head *b, *i;
		unsigned n;

		ck_assert(!IS_ERR(gi));
		ck_assert_ptr_eq(ext4_group_info_cached(t.t_sb, g), gi);
		b = ext4_read_block_bitmap(t.t_sb, gi);
		i = ext4_read_inode_bitmap(t.t_sb, gi);
		ck_assert(!IS_ERR(b) && !IS_ERR(i));
		n = blocks - count_set(b->b_data, blocks);
		ck_assert_msg(n == atomic_load(&gi->bg_free_blocks), "group %u: %u", g, n);
		free_blocks += n;
		n = t.t_sb->s_inodes_per_group - count_set(i->b_data, t.t_sb->s_inodes_per_group);
		ck_assert_uint_eq(n, atomic_load(&gi->bg_free_inodes));
		free_inodes += n;
		uninit += bh_test(b, BH_NEW) ? 1 : 0;
		ck_assert_uint_eq(count_set(b->b_data, t.t_sb->s_blocksize * 8),
				  t.t_sb->s_blocksize * 8 - atomic_load(&gi->bg_free_blocks));
		ck_assert_ptr_eq(ext4_read_block_bitmap(t.t_sb, gi), b);
		bh_put(b);
		bh_put(b);
		bh_put(i);
	}
	ck_assert_uint_eq(free_blocks, ext4_sb_free_blocks_at_mount(t.t_sb) / (_i == 7 ? 4 : 1));
	ck_assert_uint_eq(free_inodes, ext4_sb_free_inodes_at_mount(t.t_sb));
	if (_i == 0 || _i == 2)
		ck_assert_uint_gt(uninit, 0);
	fx_free(&t);
}
END_TEST

/* ---- Zones ---- */

/* Free blocks and those of a file may hold data, each block of metadata may not. */
START_TEST(metadata_cannot_be_data)
{
	static const char *const args[] = {T1, T1 " -O ^flex_bg", T1 " -O meta_bg,^resize_inode",
					   T1 " -G 4", "-t ext2 -b 1024"};
	struct test_fs t;
	struct super_block *sb;

	fx_make(&t, args[_i], 96 * MIB, NULL);
	t.t_opts.o_read_only = true;
	ck_assert_int_eq(fx_mount(&t), 0);
	sb = t.t_sb;
	for (ext4_group_t g = 0; g < sb->s_groups_count; g++) {
		struct ext4_group_info *gi = ext4_get_group_info(sb, g);
		struct buffer_head *b = ext4_read_block_bitmap(sb, gi);
		ext4_fsblk_t first = ext4_group_first_block(sb, g);

		ck_assert(!ext4_data_block_valid(sb, ext4_block_bitmap(sb, gi), 1));
		ck_assert(!ext4_data_block_valid(sb, ext4_inode_bitmap(sb, gi), 1));
		for (uint32_t i = 0; i < sb->s_itb_per_group; i++)
			ck_assert(!ext4_data_block_valid(sb, ext4_inode_table(sb, gi) + i, 1));
		for (uint32_t i = 0; i < ext4_group_overhead(sb, g); i++)
			ck_assert(!ext4_data_block_valid(sb, first + i, 1));
		for (uint32_t i = 0; i < ext4_blocks_in_group(sb, g); i++)
			if (!bit_of(b->b_data, i))
				ck_assert_msg(ext4_data_block_valid(sb, first + i, 1), "%u+%u", g,
					      i);
		bh_put(b);
	}
	for (unsigned i = 0; i < sb->s_nr_journal_map; i++)
		ck_assert(!ext4_data_block_valid(sb, sb->s_journal_map[i].le_pblk, 1));
	ck_assert(!ext4_data_block_valid(sb, 0, 1));
	ck_assert(!ext4_data_block_valid(sb, sb->s_blocks_count, 1));
	ck_assert(!ext4_data_block_valid(sb, sb->s_blocks_count - 1, 2));
	ck_assert(!ext4_data_block_valid(sb, 5000, UINT64_MAX));
	ck_assert(!ext4_data_block_valid(sb, UINT64_MAX, 2));
	ck_assert(!ext4_data_block_valid(sb, 5000, 0));
	/* A run over the start of a group with a superblock copy. */
	ck_assert(!ext4_data_block_valid(sb, ext4_group_first_block(sb, 3) - 1, 2));
	fx_free(&t);
}
END_TEST

/* ---- Changes ---- */

START_TEST(changes_reach_descriptor_checksum_and_cache)
{
	static const char *const args[] = {T1, T1 " -O ^64bit", T1 " -O ^metadata_csum,uninit_bg"};
	struct test_fs t;
	struct ext4_group_info *gi;
	struct ext4_group_change gc = {.gc_free_blocks = -5,
				       .gc_free_inodes = -2,
				       .gc_used_dirs = 1,
				       .gc_itable_unused = 17,
				       .gc_clear_flags = EXT2_BG_BLOCK_UNINIT};
	struct ext4_group_desc gd;
	struct buffer_head *bitmap;
	uint32_t blocks, inodes;
	handle_t *handle;

	fx_make(&t, args[_i], 96 * MIB, NULL);
	ck_assert_int_eq(fx_mount(&t), 0);
	gi = ext4_get_group_info(t.t_sb, 10);
	blocks = atomic_load(&gi->bg_free_blocks);
	inodes = atomic_load(&gi->bg_free_inodes);
	bitmap = ext4_read_block_bitmap(t.t_sb, gi);
	ck_assert(!IS_ERR(bitmap));
	handle = ext4_journal_start_sb(t.t_sb, HT_MISC, 4, 0);
	ck_assert_int_eq(ext4_journal_get_write_access(handle, gi->bg_desc_bh), 0);
	gc.gc_block_bitmap = bitmap->b_data;
	lock_buffer(bitmap);
	mutex_lock(&gi->bg_lock);
	ext4_group_change(t.t_sb, gi, &gc);
	mutex_unlock(&gi->bg_lock);
	unlock_buffer(bitmap);
	ck_assert_int_eq(ext4_handle_dirty_metadata(handle, NULL, gi->bg_desc_bh), 0);
	ck_assert_int_eq(ext4_journal_stop(handle, 0), 0);
	ck_assert_uint_eq(atomic_load(&gi->bg_free_blocks), blocks - 5);
	ck_assert_uint_eq(atomic_load(&gi->bg_free_inodes), inodes - 2);
	ck_assert_uint_eq(atomic_load(&gi->bg_used_dirs), 1);
	ck_assert_uint_eq(atomic_load(&gi->bg_itable_unused), 17);
	ck_assert_uint_eq(ext4_bg_flags(t.t_sb, gi) & EXT2_BG_BLOCK_UNINIT, 0);
	ck_assert(ext4_group_desc_csum_ok(t.t_sb, 10, gi->bg_desc_bh->b_data + gi->bg_desc_offset));
	ext4_group_desc_copy(t.t_sb, gi, &gd);
	ck_assert_uint_eq(le16_to_cpu(gd.bg_free_blocks_count), blocks - 5);
	ck_assert(ext4_block_bitmap_csum_ok(t.t_sb, &gd, bitmap->b_data));
	/* A count that would pass below zero (a damaged group) stays there. */
	memset(&gc, 0, sizeof(gc));
	gc.gc_free_blocks = -2000000000;
	gc.gc_itable_unused = -1;
	mutex_lock(&gi->bg_lock);
	ext4_group_change(t.t_sb, gi, &gc);
	mutex_unlock(&gi->bg_lock);
	ck_assert_uint_eq(atomic_load(&gi->bg_free_blocks), 0);
	ck_assert_uint_eq(atomic_load(&gi->bg_itable_unused), 17);
	bh_put(bitmap);
	fx_umount(&t);
	fx_free(&t);
}
END_TEST

/* ---- Many at once, and large devices ---- */

struct racer {
	pthread_t rc_thread;
	struct super_block *rc_sb;
	struct ext4_group_info *rc_seen[12];
};

static void *race(void *arg)
{
	struct racer *r = arg;

	for (ext4_group_t g = 0; g < 12; g++) {
		r->rc_seen[g] = ext4_get_group_info(r->rc_sb, g);
		bh_put(ext4_read_block_bitmap(r->rc_sb, r->rc_seen[g]));
		ext4_data_block_valid(r->rc_sb, ext4_group_first_block(r->rc_sb, g) + 700, 1);
	}
	return NULL;
}

START_TEST(threads_agree_on_the_groups)
{
	struct racer r[4];
	struct test_fs t;

	fx_make(&t, T1, 96 * MIB, NULL);
	ck_assert_int_eq(fx_mount(&t), 0);
	for (unsigned i = 0; i < 4; i++) {
		r[i].rc_sb = t.t_sb;
		pthread_create(&r[i].rc_thread, NULL, race, &r[i]);
	}
	for (unsigned i = 0; i < 4; i++)
		pthread_join(r[i].rc_thread, NULL);
	for (ext4_group_t g = 0; g < 12; g++)
		for (unsigned i = 1; i < 4; i++)
			ck_assert_ptr_eq(r[0].rc_seen[g], r[i].rc_seen[g]);
	fx_umount(&t);
	fx_free(&t);
}
END_TEST

/* 1 TiB, the image sparse: mounted by a few reads: the descriptors are one of them. */
START_TEST(mount_of_a_tebibyte_takes_a_few_reads)
{
	const uint64_t tebibyte = 1ull << 40;
	struct ext4_options opts;
	struct super_block *sb;
	struct blkdev *dev;
	struct blk_open_args args = {.ba_backend = "psync"};
	char *path = testlib_tempfile();
	char command[512];

	snprintf(command, sizeof(command),
		 "truncate -s 1T '%s' && mke2fs -F -q -t ext4 -E lazy_itable_init=1 '%s'", path,
		 path);
	if (sizeof(size_t) < 8 || testlib_run(command, NULL) != 0) {
		unlink(path);
		free(path);
		return;
	}
	args.ba_path = path;
	dev = blk_open(&args);
	ck_assert(!IS_ERR(dev));
	ck_assert_uint_eq(dev->bd_size_bytes, tebibyte);
	ext4_options_init(&opts);
	opts.o_name = "test";
	ck_assert_int_eq(ext4_fill_super(dev, &opts, NULL, &sb), 0);
	ck_assert_uint_lt(counter_read(&dev->bd_stats.s_requests[REQ_OP_READ]), 30);
	ck_assert_uint_eq(sb->s_groups_count, 8192);
	ck_assert_ptr_null(ext4_group_info_cached(sb, 5000));
	ck_assert(!IS_ERR(ext4_get_group_info(sb, 8191)));
	ck_assert_int_eq(ext4_put_super(sb), 0);
	unlink(path);
	free(path);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("ext4/group");
	TCase *tc = testlib_case("all");

	tcase_add_loop_test(tc, groups_with_superblock_copies, 0, 3);
	tcase_add_loop_test(tc, bitmaps_agree_with_the_counts, 0, 8);
	tcase_add_loop_test(tc, metadata_cannot_be_data, 0, 5);
	tcase_add_loop_test(tc, changes_reach_descriptor_checksum_and_cache, 0, 3);
	tcase_add_test(tc, threads_agree_on_the_groups);
	tcase_add_test(tc, mount_of_a_tebibyte_takes_a_few_reads);
	suite_add_tcase(s, tc);
	return testlib_run_suite(s);
}
