/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef TESTS_UNIT_ALLOC_FAKE_FS_H
#define TESTS_UNIT_ALLOC_FAKE_FS_H
/*
 * One inode without a file system: what the mapper calls in the allocator, ext4/ and journal/ is replaced here by small checking versions, so that its trees can
 * be tested with any block size, with any placement of blocks, and with a failure at any call. Included by one
 * test program at a time: it defines the replaced functions.
 *
 * What the fakes check: a buffer is declared dirty only after write access in the same transaction; credits are never exceeded; no block is freed that is not in use; at a restart
 * i_data_sem is free and the inode has been marked dirty; at the end of an operation every node is as it was when it was last declared dirty.
 */

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "alloc/alloc_internal.h"
#include "alloc/extents.h"
#include "alloc/indirect.h"
#include "ext4/group.h"
#include "ext4/inode.h"
#include "ext4/jbd2_glue.h"
#include "ext4/super.h"
#include "tests/lib/prng.h"
#include "tests/lib/suite.h"
#include "util/crc32c.h"

#define FAKE_FIRST 16u	       /* blocks below are metadata */
#define FAKE_GROUP_BLOCKS 512u /* blocks of a group */
#define FAKE_CREDITS 60u

struct jbd2_handle {
	unsigned h_credits;
};

static struct fake {
	struct super_block sb;
	struct inode inode;
	struct ext4_inode_alloc ia;
	struct jbd2_handle handle;
	struct blkdev *dev;
	uint64_t nblocks;
	uint8_t *used;
	uint32_t *access;      /* the transaction that has write access */
	uint32_t *dirty;       /* the transaction that the block was declared dirty in */
	uint32_t tx;	       /* this transaction */
	uint32_t *group_dirty; /* by transaction */
	uint32_t *hash;	       /* of the block when it was last declared dirty */
	uint8_t marked[60];
	uint32_t inode_dirty; /* by transaction */
	uint64_t nr_used;     /* blocks in use */
	uint64_t released;    /* delayed blocks whose reservation ended */
	unsigned max_run;     /* longest run the allocator gives */
	unsigned scatter;     /* per cent of allocations away from the goal */
	int fail_in;	      /* calls until one fails; -1: none does */
	unsigned failures;
	unsigned restarts;
	unsigned errors; /* ext4_error */
	bool hostile;	 /* the trees are damaged on purpose: frees and accesses may be wrong */
	struct prng rng;
} fake;

static inline void fake_init(uint32_t blocksize, uint64_t nblocks, uint32_t i_flags, uint64_t seed)
{
	memset(&fake, 0, sizeof(fake));
	prng_seed(&fake.rng, seed);
	fake.nblocks = nblocks;
	fake.dev = mem_open(nblocks * blocksize, 512, NULL);
	fake.sb.s_bcache = bh_cache_create(fake.dev, blocksize, 64u << 20);
	ck_assert(!IS_ERR(fake.sb.s_bcache));
	fake.sb.s_blocksize = blocksize;
	fake.sb.s_blocksize_bits = (unsigned)__builtin_ctz(blocksize);
	fake.sb.s_blocks_count = nblocks;
	fake.sb.s_blocks_per_group = FAKE_GROUP_BLOCKS;
	fake.used = calloc(nblocks, 1);
	fake.access = calloc(nblocks, sizeof(*fake.access));
	fake.dirty = calloc(nblocks, sizeof(*fake.dirty));
	fake.group_dirty = calloc(nblocks / FAKE_GROUP_BLOCKS + 1, sizeof(*fake.group_dirty));
	fake.hash = calloc(nblocks, sizeof(*fake.hash));
	fake.max_run = 1000;
	fake.fail_in = -1;
	fake.inode.i_sb = &fake.sb;
	fake.inode.i_ino = 12;
	fake.inode.i_mode = S_IFREG | 0600;
	fake.inode.i_flags = i_flags;
	rwsem_init(&fake.inode.i_data_sem, LOCK_RANK_I_DATA_SEM);
	mutex_init(&fake.inode.i_lock, LOCK_RANK_LEAF);
	fake.inode.i_alloc = &fake.ia;
	ext4_es_init(&fake.inode);
	ext4_init_block_map(&fake.inode);
	memcpy(fake.marked, fake.inode.i_block, 60);
}

static inline void fake_exit(void)
{
	ext4_es_destroy(&fake.inode);
	bh_cache_destroy(fake.sb.s_bcache);
	blk_close(fake.dev);
	free(fake.used);
	free(fake.access);
	free(fake.dirty);
	free(fake.group_dirty);
	free(fake.hash);
}

static inline bool fake_fails(void)
{
	if (fake.fail_in < 0 || fake.fail_in-- > 0)
		return false;
	fake.failures++;
	return true;
}

/* ---- Journal ---- */

/* `paid` is the transaction that paid for the block last. */
static inline void fake_pay(uint32_t *paid, unsigned credits)
{
	if (*paid == fake.tx || fake.hostile)
		return;
	*paid = fake.tx;
	ck_assert_uint_ge(fake.handle.h_credits, credits);
	fake.handle.h_credits -= credits;
}

static inline void fake_new_transaction(unsigned credits)
{
	fake.tx++;
	fake.handle.h_credits = credits;
}

static inline handle_t *fake_start(unsigned credits)
{
	fake_new_transaction(credits);
	return &fake.handle;
}

static inline void fake_stop(void)
{
	ck_assert(memcmp(fake.marked, fake.inode.i_block, 60) == 0);
	fake.handle.h_credits = 0;
}

unsigned jbd2_handle_credits(const handle_t *h)
{
	return h->h_credits;
}

int jbd2_journal_extend(handle_t *h, unsigned credits, unsigned revokes)
{
	(void)revokes;
	if (prng_chance(&fake.rng, 1, 4))
		return 1;
	h->h_credits += credits;
	return 0;
}

int ext4_journal_ensure_credits(handle_t *handle, unsigned credits, unsigned revokes)
{
	(void)revokes;
	ck_assert(down_write_trylock(&fake.inode.i_data_sem));
	up_write(&fake.inode.i_data_sem);
	if (handle->h_credits >= credits && prng_chance(&fake.rng, 1, 2))
		return 0;
	fake_stop();
	fake_new_transaction(credits + (unsigned)prng_below(&fake.rng, 20));
	fake.restarts++;
	return 1;
}

handle_t *ext4_journal_start_sb(struct super_block *sb, enum jbd2_handle_type type,
				unsigned credits, unsigned revokes)
{
	(void)sb;
	(void)type;
	(void)revokes;
	return fake_start(credits);
}

int ext4_journal_stop(handle_t *handle, int err)
{
	ck_assert_ptr_eq(handle, &fake.handle);
	fake_stop();
	return err;
}

int ext4_journal_get_write_access(handle_t *handle, struct buffer_head *bh)
{
	ck_assert_ptr_eq(handle, &fake.handle);
	ck_assert(bh_test(bh, BH_UPTODATE));
	ck_assert(fake.used[bh->b_blocknr] || fake.hostile);
	if (fake_fails())
		return -EIO;
	fake.access[bh->b_blocknr] = fake.tx;
	return 0;
}

int ext4_journal_get_create_access(handle_t *handle, struct buffer_head *bh)
{
	ck_assert_ptr_eq(handle, &fake.handle);
	ck_assert(fake.used[bh->b_blocknr] || fake.hostile);
	if (fake_fails())
		return -EIO;
	fake.access[bh->b_blocknr] = fake.tx;
	return 0;
}

int ext4_handle_dirty_metadata(handle_t *handle, struct inode *inode, struct buffer_head *bh)
{
	ck_assert_ptr_eq(handle, &fake.handle);
	ck_assert_ptr_eq(inode, &fake.inode);
	ck_assert_uint_eq(fake.access[bh->b_blocknr], fake.tx);
	fake_pay(&fake.dirty[bh->b_blocknr], 1);
	fake.hash[bh->b_blocknr] = crc32c(1, bh->b_data, bh->b_size);
	return 0;
}

int ext4_forget(handle_t *handle, bool metadata, struct inode *inode, struct buffer_head *bh,
		ext4_fsblk_t blocknr)
{
	(void)metadata;
	(void)inode;
	ck_assert_ptr_eq(handle, &fake.handle);
	fake.access[blocknr] = 0;
	bh_put(bh);
	return 0;
}

int ext4_prepare_inode_write(handle_t *handle, struct inode *inode)
{
	ck_assert_ptr_eq(handle, &fake.handle);
	ck_assert_ptr_eq(inode, &fake.inode);
	return 0;
}

int ext4_mark_inode_dirty(handle_t *handle, struct inode *inode)
{
	ck_assert_ptr_eq(handle, &fake.handle);
	ck_assert_ptr_eq(inode, &fake.inode);
	fake_pay(&fake.inode_dirty, 1);
	memcpy(fake.marked, inode->i_block, 60);
	return 0;
}

unsigned ext4_chunk_trans_blocks(struct inode *inode)
{
	(void)inode;
	return FAKE_CREDITS;
}

unsigned ext4_truncate_trans_blocks(struct inode *inode)
{
	(void)inode;
	return 8;
}

/* ---- File system ---- */

int ext4_error_at(struct super_block *sb, const char *func, int err, uint32_t ino, uint64_t block,
		  const char *fmt, ...)
{
	(void)sb;
	(void)func;
	(void)ino;
	(void)block;
	(void)fmt;
	fake.errors++;
	return err;
}

int ext4_read_failed(struct super_block *sb, uint32_t ino, uint64_t block, int err)
{
	(void)sb;
	(void)ino;
	(void)block;
	return err;
}

bool ext4_data_block_valid(struct super_block *sb, ext4_fsblk_t block, uint64_t count)
{
	return block >= FAKE_FIRST && block < sb->s_blocks_count &&
	       count <= sb->s_blocks_count - block;
}

/* Any block size leaves room for four bytes after the last entry. */
static inline uint32_t fake_csum(const uint8_t *data)
{
	return crc32c(0x1234, data, fake.sb.s_blocksize - 4);
}

bool ext4_extent_block_csum_ok(struct inode *inode, const uint8_t *data)
{
	uint32_t csum;

	(void)inode;
	memcpy(&csum, data + fake.sb.s_blocksize - 4, 4);
	return csum == fake_csum(data);
}

/* At once: the fake file system copies nothing. */
void ext4_extent_block_csum_later(struct inode *inode, struct buffer_head *bh)
{
	uint32_t csum = fake_csum(bh->b_data);

	(void)inode;
	memcpy(bh->b_data + fake.sb.s_blocksize - 4, &csum, 4);
}

/* ---- Allocator ---- */

static inline void fake_group(ext4_fsblk_t block)
{
	fake_pay(&fake.group_dirty[block / FAKE_GROUP_BLOCKS], 2);
}

static inline ext4_fsblk_t fake_take(ext4_fsblk_t goal, uint32_t *len, int *err)
{
	ext4_fsblk_t block = goal;
	uint32_t n = 0, max = 1 + (uint32_t)prng_below(&fake.rng, fake.max_run);

	*err = -ENOSPC;
	if (fake_fails())
		return 0;
	if (goal < FAKE_FIRST || goal >= fake.nblocks)
		block = FAKE_FIRST;
	if (prng_below(&fake.rng, 100) < fake.scatter)
		block = prng_range(&fake.rng, FAKE_FIRST, fake.nblocks - 1);
	for (uint64_t tries = 0; fake.used[block]; tries++) {
		if (tries == fake.nblocks)
			return 0;
		if (++block == fake.nblocks)
			block = FAKE_FIRST;
	}
	if (max > FAKE_GROUP_BLOCKS - block % FAKE_GROUP_BLOCKS)
		max = (uint32_t)(FAKE_GROUP_BLOCKS - block % FAKE_GROUP_BLOCKS);
	while (n < *len && n < max && block + n < fake.nblocks && !fake.used[block + n])
		fake.used[block + n++] = 1;
	fake_group(block);
	fake.nr_used += n;
	*len = n;
	*err = 0;
	return block;
}

static inline void fake_give(ext4_fsblk_t block, uint64_t count)
{
	for (uint64_t i = 0; i < count; i++) {
		ck_assert_uint_lt(block + i, fake.nblocks);
		ck_assert_msg(fake.used[block + i], "block %llu is free already",
			      (unsigned long long)(block + i));
		fake.used[block + i] = 0;
		fake_group(block + i);
	}
	fake.nr_used -= count;
}

ext4_fsblk_t ext4_mb_new_blocks(handle_t *handle, struct ext4_allocation_request *ar, int *err)
{
	ck_assert_ptr_eq(handle, &fake.handle);
	return fake_take(ar->ar_goal, &ar->ar_len, err);
}

ext4_fsblk_t ext4_new_meta_block(handle_t *handle, struct inode *inode, ext4_fsblk_t goal,
				 unsigned ar_flags, int *err)
{
	uint32_t len = 1;

	(void)inode;
	(void)ar_flags;
	ck_assert_ptr_eq(handle, &fake.handle);
	return fake_take(goal, &len, err);
}

int ext4_free_blocks_prepare(handle_t *handle, struct inode *inode, ext4_fsblk_t block,
			     uint64_t count)
{
	(void)inode;
	ck_assert_ptr_eq(handle, &fake.handle);
	for (uint64_t i = 0; fake.hostile && i < count; i++)
		if (block + i >= fake.nblocks || !fake.used[block + i])
			return -EFSCORRUPTED;
	return 0;
}

int ext4_free_blocks(handle_t *handle, struct inode *inode, ext4_fsblk_t block, uint64_t count,
		     unsigned flags)
{
	(void)inode;
	(void)flags;
	ck_assert_ptr_eq(handle, &fake.handle);
	for (uint64_t i = 0; fake.hostile && i < count; i++)
		if (block + i >= fake.nblocks || !fake.used[block + i])
			return -EFSCORRUPTED;
	fake_give(block, count);
	return 0;
}

int ext4_free_unused_blocks(handle_t *handle, struct inode *inode, ext4_fsblk_t block,
			    uint64_t count)
{
	return ext4_free_blocks(handle, inode, block, count, 0);
}

void ext4_discard_preallocations(struct inode *inode)
{
	(void)inode;
}

ext4_fsblk_t ext4_inode_goal(struct inode *inode)
{
	(void)inode;
	return FAKE_FIRST;
}

void ext4_da_update_reserve_space(struct inode *inode, uint32_t nblocks)
{
	(void)inode;
	fake.released += nblocks;
}

ext4_lblk_t ext4_da_release_range(struct inode *inode, ext4_lblk_t lblk, ext4_lblk_t len)
{
	struct extent_status es;
	ext4_lblk_t n = 0;

	while (ext4_es_find_delayed(inode, lblk, lblk + (len - 1), &es)) {
		ck_assert_int_eq(ext4_es_remove(inode, es.es_lblk, es.es_len), 0);
		n += es.es_len;
	}
	fake.released += n;
	return n;
}

/* ---- Checks ---- */

/* Each node of the way to lblk is as it was when it was last declared dirty, and its checksum is right. */
static inline void fake_check_nodes(ext4_lblk_t lblk)
{
	struct ext4_ext_path path;

	ck_assert_int_eq(ext4_ext_find(&fake.inode, lblk, &path), 0);
	for (int i = 1; i <= path.p_depth; i++) {
		struct buffer_head *bh = path.p_node[i].n_bh;

		ck_assert_uint_eq(fake.hash[bh->b_blocknr], crc32c(1, bh->b_data, bh->b_size));
		ck_assert(ext4_extent_block_csum_ok(&fake.inode, bh->b_data));
		ck_assert(fake.used[bh->b_blocknr]);
	}
	ext4_ext_put_path(&path);
}

/* Blocks that the extent tree itself uses. */
static inline uint64_t fake_count_nodes(void)
{
	ext4_fsblk_t last[EXT4_EXT_MAX_DEPTH + 1] = {0};
	uint64_t lblk = 0, n = 0;

	while (lblk < EXT4_MAX_BLOCKS) {
		struct ext4_ext_path path;

		ck_assert_int_eq(ext4_ext_find(&fake.inode, (ext4_lblk_t)lblk, &path), 0);
		for (int i = 1; i <= path.p_depth; i++) {
			n += path.p_node[i].n_bh->b_blocknr != last[i];
			last[i] = path.p_node[i].n_bh->b_blocknr;
		}
		lblk = ext4_ext_leaf(&path)->n_end;
		ext4_ext_put_path(&path);
	}
	return n;
}

#endif
