/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * test_alloc.c - the allocator as a whole: FITRIM, statfs, the counters at mount, damaged bitmaps,
 * and the texts it prints.
 *
 * Invariants: (1) numbers are compared with those of e2fsprogs.
 * Locking: none.
 */
#include "tests/unit/alloc/alloc_fixture.h"

#include "util/crc32c.h"

#define MIB (UINT64_C(1) << 20)

/* ---- FITRIM ---- */

START_TEST(trim_discards_free_blocks_only)
{
	uint64_t trimmed = 0;
	struct inode *inode;
	uint8_t *data;
	struct fix f;
	uint32_t len = 50;
	ext4_fsblk_t block;
	int err;

	fix_open(&f, "-t ext4 -b 4096", 32 * MIB, 1);
	fix_mount(&f);
	ck_assert(f.sb->s_dev->bd_discard);
	inode = fix_file(&f, 0);
	block = fix_alloc(&f, inode, &len, 0, &err);
	ck_assert_int_eq(err, 0);
	data = mem_data(f.image);
	memset(data + block * 4096, 0xa5, (size_t)(len + 3) * 4096);
	ck_assert_int_eq(ext4_trim_fs(f.sb, 0, UINT64_MAX, 0, &trimmed), 0);
	ck_assert_int_eq((int64_t)trimmed, atomic_load(&ext4_mb(f.sb)->mb_free));
	ck_assert_uint_eq(data[block * 4096], 0xa5);
	ck_assert_uint_eq(data[(block + len) * 4096 - 1], 0xa5);
	ck_assert_uint_eq(data[(block + len) * 4096], 0);
	ck_assert_int_eq(ext4_trim_fs(f.sb, block, len, 0, &trimmed), 0);
	ck_assert_uint_eq(trimmed, 0);
	ck_assert_int_eq(ext4_trim_fs(f.sb, f.sb->s_blocks_count, 1, 0, &trimmed), -EINVAL);
	ck_assert_int_eq(ext4_trim_fs(f.sb, 0, UINT64_MAX, 100000, &trimmed), -EINVAL);
	ck_assert_int_eq(fix_free(&f, inode, block, len), 0);
	/* Not committed: not discarded. */
	ck_assert_int_eq(ext4_trim_fs(f.sb, block, len, 0, &trimmed), 0);
	ck_assert_uint_eq(trimmed, 0);
	fix_commit(&f);
	ck_assert_int_eq(ext4_trim_fs(f.sb, block, len, 0, &trimmed), 0);
	ck_assert_uint_eq(trimmed, len);
	iput(inode);
	fix_close(&f);
}
END_TEST

START_TEST(trim_respects_the_smallest_run)
{
	uint64_t all = 0, long_ones = 0;
	struct fix f;

	fix_open(&f, "-t ext4 -b 1024 -g 1024 -O ^resize_inode", 16 * MIB, 0);
	fix_mount(&f);
	ck_assert_int_eq(ext4_trim_fs(f.sb, 0, UINT64_MAX, 1, &all), 0);
	ck_assert_int_eq(ext4_trim_fs(f.sb, 0, UINT64_MAX, 1000, &long_ones), 0);
	ck_assert_uint_gt(long_ones, 0);
	ck_assert_uint_lt(long_ones, all);
	fix_close(&f);
}
END_TEST

/* ---- statfs and the counters at mount ---- */

static uint64_t debugfs_stat(struct fix *f, const char *label)
{
	char *text = testlib_debugfs(f->image, "show_super_stats -h");
	char *line = strstr(text, label);
	uint64_t value;

	ck_assert_ptr_nonnull(line);
	value = strtoull(strchr(line, ':') + 1, NULL, 10);
	free(text);
	return value;
}

static void check_space(const char *args)
{
	struct ext4_space sp;
	uint64_t blocks, free_blocks, reserved, overhead;
	struct fix f;

	fix_open(&f, args, 64 * MIB, 0);
	blocks = debugfs_stat(&f, "Block count");
	free_blocks = debugfs_stat(&f, "Free blocks");
	reserved = debugfs_stat(&f, "Reserved block count");
	overhead = debugfs_stat(&f, "Overhead clusters");
	fix_mount(&f);
	ext4_space(f.sb, &sp);
	ck_assert_uint_eq(sp.sp_free, free_blocks);
	ck_assert_uint_eq(sp.sp_blocks, blocks - overhead);
	ck_assert_uint_eq(sp.sp_avail, free_blocks - reserved - ext4_mb(f.sb)->mb_pool);
	ck_assert_uint_eq(sp.sp_inodes, debugfs_stat(&f, "Inode count"));
	ck_assert_uint_eq(sp.sp_free_inodes, debugfs_stat(&f, "Free inodes"));
	/* Computed it is the same. */
	f.sb->s_es->s_overhead_clusters = 0;
	atomic_store(&ext4_mb(f.sb)->mb_overhead, 0);
	ext4_space(f.sb, &sp);
	ck_assert_uint_eq(sp.sp_blocks, blocks - overhead);
	f.sb->s_es->s_overhead_clusters = cpu_to_le32((uint32_t)overhead);
	fix_close(&f);
}

START_TEST(statfs_agrees_with_e2fsprogs)
{
	check_space("-t ext4 -b 4096");
	check_space("-t ext4 -b 1024");
	check_space("-t ext4 -b 1024 -O ^flex_bg,^sparse_super,^resize_inode");
}
END_TEST

START_TEST(after_an_unclean_unmount_the_descriptors_are_summed)
{
	int64_t blocks, inodes;
	struct fix f;

	fix_open(&f, "-t ext4 -b 1024", 32 * MIB, 0);
	fix_mount(&f);
	blocks = atomic_load(&ext4_mb(f.sb)->mb_free);
	inodes = atomic_load(&ext4_mb(f.sb)->mb_free_inodes);
	fix_umount(&f);
	free(testlib_debugfs(f.image, "stats"));
	{
		/* Wrong counters, and not cleanly unmounted. */
		struct ext2_super_block *es = (void *)((uint8_t *)mem_data(f.image) + 1024);

		es->s_state &= cpu_to_le16((uint16_t)~EXT2_VALID_FS);
		es->s_free_blocks_count = cpu_to_le32(7);
		es->s_free_inodes_count = cpu_to_le32(9);
		es->s_checksum =
			cpu_to_le32(crc32c(~0u, es, offsetof(struct ext2_super_block, s_checksum)));
	}
	fix_mount(&f);
	ck_assert_int_eq(atomic_load(&ext4_mb(f.sb)->mb_free), blocks);
	ck_assert_int_eq(atomic_load(&ext4_mb(f.sb)->mb_free_inodes), inodes);
	fix_umount(&f);
	/* It was not clean before, and only e2fsck says that it is. */
	ck_assert_int_le(testlib_fsck_args(f.image, "-fp"), 1);
	ck_assert_int_eq(testlib_fsck(f.image), 0);
	blk_close(f.image);
}
END_TEST

/* ---- Damage ---- */

START_TEST(a_damaged_bitmap_costs_its_group_and_nothing_else)
{
	uint64_t free_blocks = 0;
	ext4_fsblk_t bitmap;
	struct inode *inode;
	uint32_t in_group;
	struct fix f;
	int err = 0;

	fix_open(&f, "-t ext4 -b 1024 -g 2048 -e continue -O ^resize_inode", 32 * MIB, 1);
	fix_mount(&f);
	bitmap = ext4_block_bitmap(f.sb, ext4_get_group_info(f.sb, 9));
	in_group = atomic_load(&ext4_get_group_info(f.sb, 9)->bg_free_blocks);
	ck_assert_uint_gt(in_group, 1000);
	/* A group that is not UNINIT, so that its bitmap is read. */
	inode = fix_file(&f, 0);
	{
		struct ext4_allocation_request ar = {.ar_inode = inode,
						     .ar_len = 1,
						     .ar_goal = ext4_group_first_block(f.sb, 9) +
								1500};
		handle_t *handle = fix_start(&f);
		ext4_fsblk_t block = ext4_mb_new_blocks(handle, &ar, &err);

		ck_assert_int_eq(err, 0);
		ck_assert_uint_eq(ext4_group_of_block(f.sb, block), 9);
		ck_assert_int_eq(ext4_free_unused_blocks(handle, inode, block, 1), 0);
		fix_stop(handle);
	}
	iput(inode);
	fix_umount(&f);
	((uint8_t *)mem_data(f.image))[bitmap * 1024 + 100] ^= 0x10;
	fix_mount(&f);
	inode = fix_file(&f, 0);
	while (err == 0) {
		uint32_t len = 500;
		ext4_fsblk_t block = fix_alloc(&f, inode, &len, EXT4_MB_USE_RESERVED, &err);

		if (err != 0)
			break;
		ck_assert_uint_ne(ext4_group_of_block(f.sb, block), 9);
		free_blocks += len;
	}
	ck_assert_int_eq(err, -ENOSPC);
	ck_assert_uint_gt(free_blocks, 10000);
	ck_assert_int_eq(atomic_load(&ext4_mb(f.sb)->mb_free), 0);
	ck_assert_int_eq(atomic_load(&ext4_mb(f.sb)->mb_unclaimed), 0);
	iput(inode);
	ext4_icache_shrink_all(f.sb);
	ext4_alloc_exit(f.sb);
	(void)ext4_put_super(f.sb);
	blk_close(f.image);
}
END_TEST

/* ---- Texts ---- */

static char *printed(struct super_block *sb, void (*print)(struct super_block *sb, FILE *out))
{
	char *text = NULL;
	size_t size = 0;
	FILE *out = open_memstream(&text, &size);

	ck_assert_ptr_nonnull(out);
	print(sb, out);
	ck_assert_int_eq(fclose(out), 0);
	return text;
}

START_TEST(the_texts_show_the_counters_and_the_groups_in_memory)
{
	struct inode *inode;
	uint32_t len = 8;
	char line[64];
	char *text;
	struct fix f;
	int err;

	fix_open(&f, "-t ext4 -b 4096", 256 * MIB, 1);
	fix_mount(&f);
	inode = fix_file(&f, 0);
	fix_alloc(&f, inode, &len, 0, &err);
	ck_assert_int_eq(err, 0);
	text = printed(f.sb, ext4_mb_print_stats);
	ck_assert_ptr_nonnull(strstr(text, "\treqs: 1\n"));
	ck_assert_ptr_nonnull(strstr(text, "\tallocated_blocks: 8\n"));
	snprintf(line, sizeof(line), "\treserved_pool: %u\n",
		 (unsigned)(f.sb->s_blocks_count / 50));
	ck_assert_ptr_nonnull(strstr(text, line));
	ck_assert_ptr_nonnull(strstr(text, "latency_ns"));
	free(text);
	text = printed(f.sb, ext4_mb_print_groups);
	/* A file's blocks go to the second group of its flex group; nobody looked into the first. */
	ck_assert_ptr_nonnull(strstr(text, "#1    :"));
	ck_assert_ptr_null(strstr(text, "#0    :"));
	free(text);
	iput(inode);
	fix_umount(&f);
	blk_close(f.image);
}
END_TEST

int main(void)
{
	return RUN_TESTS("alloc/alloc", trim_discards_free_blocks_only,
			 trim_respects_the_smallest_run, statfs_agrees_with_e2fsprogs,
			 after_an_unclean_unmount_the_descriptors_are_summed,
			 a_damaged_bitmap_costs_its_group_and_nothing_else,
			 the_texts_show_the_counters_and_the_groups_in_memory);
}
