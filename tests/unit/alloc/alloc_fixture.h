/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef TESTS_UNIT_ALLOC_FIXTURE_H
#define TESTS_UNIT_ALLOC_FIXTURE_H
/*
 * A real file system in memory, mounted by ext4/ and alloc/ alone: no evictions, no page cache.
 * Files named f0, f1, ... are made by debugfs, so that what the tests map is reachable and e2fsck
 * can judge it.
 */

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "alloc/mballoc_internal.h"
#include "block/filter_fault.h"
#include "ext4/inode.h"
#include "ext4/jbd2_glue.h"
#include "tests/lib/prng.h"
#include "tests/lib/suite.h"
#include "tests/lib/testlib.h"

#define FIX_FIRST_INO 12u /* of f0 */
#define FIX_CREDITS 64u

struct fix {
	struct blkdev *image; /* owns the memory */
	struct super_block *sb;
	unsigned files;
	bool threads;
	int64_t stripe;
	bool want_faults;
	struct blkdev *faults; /* the fault filter, with want_faults */
};

static const struct ext4_cred fix_user = {1000, 1000, false};
static const struct ext4_cred fix_root = {0, 0, true};

static inline void fix_mount(struct fix *f)
{
	const struct ext4_upper_ops upper = {
		.alloc_inode_init = ext4_alloc_inode_init,
		.alloc_inode_destroy = ext4_alloc_inode_destroy,
	};
	struct ext4_options opts;
	struct blkdev *dev = mem_open(f->image->bd_size_bytes, 512, mem_data(f->image));
	int err;

	ck_assert(!IS_ERR(dev));
	if (f->want_faults) {
		dev = fault_open(dev, &(const struct fault_options){.fo_seed = 1});
		ck_assert(!IS_ERR(dev));
		f->faults = dev;
	}
	ext4_options_init(&opts);
	opts.o_manual_commit = !f->threads;
	opts.o_stripe = f->stripe;
	err = ext4_fill_super(dev, &opts, &upper, &f->sb);
	ck_assert_int_eq(err, 0);
	err = ext4_alloc_init(f->sb);
	ck_assert_int_eq(err, 0);
}

static inline void fix_open(struct fix *f, const char *mke2fs_args, uint64_t size_bytes,
			    unsigned files)
{
	char *commands = calloc(1, files * 32 + 1);
	size_t used = 0;

	memset(f, 0, sizeof(*f));
	f->stripe = -1;
	f->files = files;
	for (unsigned i = 0; i < files; i++)
		used += (size_t)snprintf(commands + used, 32, "write /dev/null f%u\n", i);
	f->image = testlib_mkfs_debugfs(mke2fs_args, size_bytes, files > 0 ? commands : NULL);
	ck_assert(!IS_ERR(f->image));
	free(commands);
}

static inline void fix_umount(struct fix *f)
{
	ck_assert_uint_eq(ext4_icache_shrink_all(f->sb), 0);
	ext4_alloc_exit(f->sb);
	ck_assert_int_eq(ext4_put_super(f->sb), 0);
	f->sb = NULL;
}

/* Unmount, e2fsck, free. */
static inline void fix_close(struct fix *f)
{
	if (f->sb != NULL)
		fix_umount(f);
	ck_assert_int_eq(testlib_fsck(f->image), 0);
	blk_close(f->image);
}

/* The file system met an error: down without looking at results. Only the record of the error is left for e2fsck. */
static inline void fix_close_broken(struct fix *f)
{
	ext4_icache_shrink_all(f->sb);
	ext4_alloc_exit(f->sb);
	(void)ext4_put_super(f->sb);
	ck_assert_int_le(testlib_fsck_args(f->image, "-fy"), 1);
	blk_close(f->image);
}

static inline struct inode *fix_file(struct fix *f, unsigned i)
{
	struct inode *inode = ext4_iget(f->sb, FIX_FIRST_INO + i, EXT4_IGET_NORMAL);

	ck_assert(!IS_ERR(inode));
	return inode;
}

static inline handle_t *fix_start(struct fix *f)
{
	handle_t *handle = ext4_journal_start_sb(f->sb, HT_MISC, FIX_CREDITS, 8);

	ck_assert(!IS_ERR(handle));
	return handle;
}

static inline void fix_stop(handle_t *handle)
{
	ck_assert_int_eq(ext4_journal_stop(handle, 0), 0);
}

static inline void fix_commit(struct fix *f)
{
	ck_assert_int_eq(jbd2_journal_force_commit(f->sb->s_journal), 0);
}

/* Up to len blocks without a place in any file; 0 with *err. */
static inline ext4_fsblk_t fix_alloc(struct fix *f, struct inode *inode, uint32_t *len,
				     unsigned flags, int *err)
{
	struct ext4_allocation_request ar = {.ar_inode = inode, .ar_len = *len, .ar_flags = flags};
	handle_t *handle = fix_start(f);
	ext4_fsblk_t block = ext4_mb_new_blocks(handle, &ar, err);

	fix_stop(handle);
	*len = ar.ar_len;
	return block;
}

static inline int fix_free(struct fix *f, struct inode *inode, ext4_fsblk_t block, uint64_t len)
{
	handle_t *handle = fix_start(f);
	int err = ext4_free_blocks(handle, inode, block, len, 0);

	fix_stop(handle);
	return err;
}

/*
 * Map [lblk, lblk+len) for writing, in as many pieces as it takes; the size follows. Returns 0 or
 * the error met.
 */
static inline int fix_write(struct fix *f, struct inode *inode, ext4_lblk_t lblk, uint32_t len,
			    unsigned flags)
{
	uint64_t end = (uint64_t)(lblk + len) << f->sb->s_blocksize_bits;
	int n = 0;

	if (end > i_size_read(inode))
		i_size_write(inode, end);
	while (len > 0) {
		struct ext4_map_blocks map = {.m_lblk = lblk, .m_len = len};
		handle_t *handle = fix_start(f);

		n = ext4_map_blocks(handle, inode, &map, EXT4_GET_BLOCKS_CREATE | flags);
		if (n > 0 && end > atomic_load(&inode->i_disksize)) {
			atomic_store(&inode->i_disksize, end);
			ck_assert_int_eq(ext4_mark_inode_dirty(handle, inode), 0);
		}
		fix_stop(handle);
		if (n <= 0)
			return n;
		lblk += (uint32_t)n;
		len -= (uint32_t)n;
	}
	return 0;
}

/* Runs of physically contiguous blocks that the file's first `blocks` blocks lie in. */
static inline unsigned fix_count_runs(struct inode *inode, uint32_t blocks)
{
	ext4_fsblk_t next = 0;
	unsigned runs = 0;
	ext4_lblk_t lblk = 0;

	while (lblk < blocks) {
		struct ext4_map_blocks map = {.m_lblk = lblk, .m_len = blocks - lblk};
		int n = ext4_map_blocks(NULL, inode, &map, 0);

		ck_assert_int_gt(n, 0);
		if (map.m_pblk != next)
			runs++;
		next = map.m_pblk + (unsigned)n;
		lblk += (unsigned)n;
	}
	return runs;
}

/* The accounts add up while nothing is on its way, and the descriptors say the same. */
static inline void fix_check_accounts(struct fix *f)
{
	struct ext4_mballoc *mb = ext4_mb(f->sb);
	int64_t in_groups = 0;

	for (ext4_group_t group = 0; group < f->sb->s_groups_count; group++) {
		struct ext4_group_info *gi = ext4_get_group_info(f->sb, group);

		ck_assert(!IS_ERR(gi));
		in_groups += atomic_load(&gi->bg_free_blocks);
	}
	ck_assert_int_eq(atomic_load(&mb->mb_free), in_groups);
	ck_assert_int_eq(atomic_load(&mb->mb_unclaimed), atomic_load(&mb->mb_free) -
								 atomic_load(&mb->mb_dirty) -
								 atomic_load(&mb->mb_dirty_meta));
}

#endif
