/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * test_bread.c - metadata blocks of a file by logical number: new ones are zeroed, holes are no error, unwritten ones are.
 */
#include "tests/unit/alloc/alloc_fixture.h"

#include "tests/lib/pattern.h"

#define MIB (UINT64_C(1) << 20)

static struct fix fix;
static struct inode *inode;

static void setup(const char *args)
{
	fix_open(&fix, args, 16 * MIB, 1);
	fix_mount(&fix);
	inode = fix_file(&fix, 0);
}

static void finish(void)
{
	iput(inode);
	fix_close(&fix);
}

static void set_size(ext4_lblk_t blocks)
{
	handle_t *handle = fix_start(&fix);

	i_size_write(inode, (uint64_t)blocks << fix.sb->s_blocksize_bits);
	atomic_store(&inode->i_disksize, i_size_read(inode));
	ck_assert_int_eq(ext4_mark_inode_dirty(handle, inode), 0);
	fix_stop(handle);
}

static void write_block(ext4_lblk_t lblk, uint64_t tag)
{
	handle_t *handle = fix_start(&fix);
	struct buffer_head *bh;
	int err = -1;

	bh = ext4_bread(handle, inode, lblk, true, &err);
	ck_assert_int_eq(err, 0);
	ck_assert_ptr_nonnull(bh);
	ck_assert(bh_test(bh, BH_UPTODATE));
	ck_assert_int_eq(bytes_mismatch(bh->b_data, bh->b_size, 0), -1);
	lock_buffer(bh);
	pattern_fill(bh->b_data, bh->b_size, tag, 0);
	unlock_buffer(bh);
	ck_assert_int_eq(ext4_handle_dirty_metadata(handle, inode, bh), 0);
	bh_put(bh);
	fix_stop(handle);
}

static void expect_block(ext4_lblk_t lblk, uint64_t tag)
{
	int err = -1;
	struct buffer_head *bh = ext4_bread(NULL, inode, lblk, false, &err);

	ck_assert_int_eq(err, 0);
	ck_assert_ptr_nonnull(bh);
	pattern_check(bh->b_data, bh->b_size, tag, 0);
	bh_put(bh);
}

/* The device is full of old data: nothing of it is ever seen in a new block. */
static void fill_free_space(void)
{
	uint32_t len = 300;
	ext4_fsblk_t block;
	int err;

	block = fix_alloc(&fix, inode, &len, 0, &err);
	ck_assert_int_eq(err, 0);
	for (uint32_t i = 0; i < len; i++)
		pattern_fill((uint8_t *)mem_data(fix.image) +
				     ((block + i) << fix.sb->s_blocksize_bits),
			     fix.sb->s_blocksize, 99, 0);
	ck_assert_int_eq(fix_free(&fix, inode, block, len), 0);
	fix_commit(&fix);
}

static void create_and_read(const char *args)
{
	struct buffer_head *bh;
	int err = -1;

	setup(args);
	set_size(40);
	fill_free_space();
	for (ext4_lblk_t lblk = 0; lblk < 40; lblk += 2)
		write_block(lblk, lblk);
	bh = ext4_bread(NULL, inode, 1, false, &err);
	ck_assert_ptr_null(bh);
	ck_assert_int_eq(err, 0);
	expect_block(4, 4);
	/* With create an existing block is read as it is. */
	for (int i = 0; i < 2; i++) {
		handle_t *handle = fix_start(&fix);

		bh = ext4_bread(handle, inode, 6, true, &err);
		ck_assert_int_eq(err, 0);
		pattern_check(bh->b_data, bh->b_size, 6, 0);
		bh_put(bh);
		fix_stop(handle);
	}
	iput(inode);
	fix_umount(&fix);
	fix_mount(&fix);
	inode = fix_file(&fix, 0);
	for (ext4_lblk_t lblk = 0; lblk < 40; lblk += 2)
		expect_block(lblk, lblk);
	finish();
}

START_TEST(created_blocks_are_zeroed_and_keep_what_is_written)
{
	create_and_read("-t ext4 -b 4096");
	create_and_read("-t ext4 -b 1024");
	create_and_read("-t ext3 -b 1024");
}
END_TEST

START_TEST(unwritten_blocks_are_damage)
{
	struct ext4_map_blocks map = {.m_lblk = 0, .m_len = 1};
	handle_t *handle;
	int err = 0;

	setup("-t ext4 -b 4096 -e continue");
	set_size(1);
	handle = fix_start(&fix);
	ck_assert_int_eq(ext4_map_blocks(handle, inode, &map,
					 EXT4_GET_BLOCKS_CREATE | EXT4_GET_BLOCKS_UNWRIT_EXT),
			 1);
	fix_stop(handle);
	ck_assert_ptr_null(ext4_bread(NULL, inode, 0, false, &err));
	ck_assert_int_eq(err, -EFSCORRUPTED);
	iput(inode);
	ck_assert_uint_eq(ext4_icache_shrink_all(fix.sb), 0);
	ext4_alloc_exit(fix.sb);
	ck_assert_int_eq(ext4_put_super(fix.sb), -EFSCORRUPTED);
	blk_close(fix.image);
}
END_TEST

START_TEST(no_space_is_reported)
{
	uint32_t len = 700;
	handle_t *handle;
	int err = 0;

	setup("-t ext4 -b 4096 -m 0");
	while (err == 0)
		fix_alloc(&fix, inode, &len, 0, &err);
	ck_assert_int_eq(err, -ENOSPC);
	handle = fix_start(&fix);
	ck_assert_ptr_null(ext4_bread(handle, inode, 0, true, &err));
	ck_assert_int_eq(err, -ENOSPC);
	fix_stop(handle);
	iput(inode);
	fix_umount(&fix);
	blk_close(fix.image);
}
END_TEST

int main(void)
{
	return RUN_TESTS("alloc/bread", created_blocks_are_zeroed_and_keep_what_is_written,
			 unwritten_blocks_are_damage, no_space_is_reported);
}
