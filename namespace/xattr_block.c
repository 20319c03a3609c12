/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * xattr_block.c - the block that holds what does not fit into the inode.
 *
 * Other implementations let inodes with equal attributes share a block, so one that is read may have a reference count
 * above 1. It is then never changed: the inode gets a copy of its own and the count goes down. Blocks made here have
 * one owner.
 *
 * Invariants: (1) i_file_acl is 0 or a block with this inode counted in h_refcount. (2) A block with no entry is freed.
 * (3) i_blocks counts the block once for each inode that uses it. (4) What may fail (write access, allocation) comes
 * before what changes memory.
 * Locking: i_xattr_sem of the inode; h_refcount under lock_buffer(), since other inodes may share the block.
 */
#include <string.h>

#include "alloc/mballoc.h"
#include "ext4/group.h"
#include "ext4/inode.h"
#include "ext4/jbd2_glue.h"
#include "ext4/super.h"
#include "namespace/xattr.h"
#include "util/assert.h"

#define HEADER_BYTES ((unsigned)sizeof(struct ext2_ext_attr_header))

_Static_assert(sizeof(struct ext2_ext_attr_header) == 32, "size of an attribute block's header");

static struct ext2_ext_attr_header *header(uint8_t *data)
{
	return (struct ext2_ext_attr_header *)(void *)data;
}

static struct xattr_region block_region(const struct super_block *sb, uint8_t *data)
{
	struct xattr_region r = {.r_base = data,
				 .r_first = HEADER_BYTES,
				 .r_bytes = sb->s_blocksize,
				 .r_block = true};

	return r;
}

static const char *check_block(const struct super_block *sb, uint8_t *data)
{
	const struct ext2_ext_attr_header *h = header(data);
	struct xattr_region r = block_region(sb, data);

	if (le32_to_cpu(h->h_magic) != EXT2_EXT_ATTR_MAGIC)
		return "bad magic";
	if (le32_to_cpu(h->h_blocks) != 1)
		return "not one block";
	return xattr_region_check(&r);
}

int ext4_xattr_block_read(struct inode *inode, struct buffer_head **out, struct xattr_region *r)
{
	struct super_block *sb = inode->i_sb;
	uint64_t blocknr = inode->i_file_acl;
	struct buffer_head *bh;
	const char *why;

	*out = NULL;
	memset(r, 0, sizeof(*r));
	if (blocknr == 0)
		return 0;
	if (!ext4_data_block_valid(sb, blocknr, 1))
		return ext4_error_block(sb, inode->i_ino, blocknr, "bad attribute block number");
	bh = bh_read(sb->s_bcache, blocknr);
	if (IS_ERR(bh))
		return ext4_read_failed(sb, inode->i_ino, blocknr, PTR_ERR(bh));
	if (!bh_test(bh, BH_VERIFIED) && !ext4_xattr_block_csum_ok(inode, blocknr, bh->b_data)) {
		bh_put(bh);
		return ext4_error_csum(sb, inode->i_ino, blocknr,
				       "attribute block fails its checksum");
	}
	why = check_block(sb, bh->b_data);
	if (why != NULL) {
		bh_put(bh);
		return ext4_error_block(sb, inode->i_ino, blocknr, "attribute block: %s", why);
	}
	bh_set(bh, BH_VERIFIED);
	*out = bh;
	*r = block_region(sb, bh->b_data);
	return 0;
}

/* ---- Changes ---- */

/* Fill the buffer from a region built elsewhere. lock_buffer held. */
static void fill_block(struct inode *inode, struct buffer_head *bh, const struct xattr_region *r)
{
	struct ext2_ext_attr_header *h;

	ASSERT(bh != NULL);
	h = header(bh->b_data);
	memcpy(bh->b_data, r->r_base, bh->b_size);
	memset(h, 0, sizeof(*h));
	h->h_magic = cpu_to_le32(EXT2_EXT_ATTR_MAGIC);
	h->h_refcount = cpu_to_le32(1);
	h->h_blocks = cpu_to_le32(1);
	h->h_hash = cpu_to_le32(xattr_region_hash(r));
	ext4_xattr_block_csum_set(inode, bh->b_blocknr, bh->b_data);
}

/*
 * The inode does not use the block any more: one reference less, or free it. Write access to bh (a reference of the
 * caller's, consumed) is granted.
 */
static int release_block(handle_t *handle, struct inode *inode, struct buffer_head *bh)
{
	struct ext2_ext_attr_header *h = header(bh->b_data);
	uint64_t blocknr = bh->b_blocknr;
	bool shared;
	int err;

	lock_buffer(bh);
	shared = le32_to_cpu(h->h_refcount) > 1;
	if (shared) {
		h->h_refcount = cpu_to_le32(le32_to_cpu(h->h_refcount) - 1);
		ext4_xattr_block_csum_set(inode, blocknr, bh->b_data);
	}
	unlock_buffer(bh);
	if (shared) {
		err = ext4_handle_dirty_metadata(handle, inode, bh);
		bh_put(bh);
		ext4_inode_add_blocks(inode, -1);
		return err;
	}
	bh_put(bh);
	return ext4_free_blocks(handle, inode, blocknr, 1,
				EXT4_FREE_BLOCKS_METADATA | EXT4_FREE_BLOCKS_FORGET);
}

/* A block of its own for the inode, filled from r. */
static int new_block(handle_t *handle, struct inode *inode, const struct xattr_region *r,
		     uint64_t *blocknr)
{
	struct super_block *sb = inode->i_sb;
	struct buffer_head *bh;
	int err = 0;

	*blocknr = ext4_new_meta_block(handle, inode, ext4_inode_goal(inode), 0, &err);
	if (*blocknr == 0)
		return err;
	bh = bh_get(sb->s_bcache, *blocknr);
	if (IS_ERR(bh)) {
		err = PTR_ERR(bh);
		bh = NULL;
	} else {
		err = ext4_journal_get_create_access(handle, bh);
	}
	if (err != 0) {
		bh_put(bh);
		ext4_free_unused_blocks(handle, inode, *blocknr, 1);
		return err;
	}
	lock_buffer(bh);
	fill_block(inode, bh, r);
	bh_set(bh, BH_UPTODATE | BH_VERIFIED);
	unlock_buffer(bh);
	err = ext4_handle_dirty_metadata(handle, inode, bh);
	bh_put(bh);
	return err;
}

/* Change the block in place if it is the inode's alone. 1 done, 0 it is shared. */
static int set_in_place(handle_t *handle, struct inode *inode, struct buffer_head *bh,
			const struct xattr_region *r)
{
	bool own;
	int err;

	lock_buffer(bh);
	own = le32_to_cpu(header(bh->b_data)->h_refcount) <= 1;
	if (own)
		fill_block(inode, bh, r);
	unlock_buffer(bh);
	if (!own)
		return 0;
	err = ext4_handle_dirty_metadata(handle, inode, bh);
	return err != 0 ? err : 1;
}

/* release_block() will not fail to read anything. */
static int prepare_release(handle_t *handle, struct inode *inode, struct buffer_head *bh)
{
	return bh != NULL ? ext4_free_blocks_prepare(handle, inode, bh->b_blocknr, 1) : 0;
}

/* i_file_acl becomes the new block (0: none) and the old one is released. Consumes bh. */
static int switch_block(handle_t *handle, struct inode *inode, struct buffer_head *bh,
			uint64_t blocknr)
{
	inode->i_file_acl = blocknr;
	return bh != NULL ? release_block(handle, inode, bh) : 0;
}

int ext4_xattr_block_set(handle_t *handle, struct inode *inode, struct buffer_head *bh,
			 const struct xattr_region *r, const struct xattr_change *change)
{
	struct super_block *sb = inode->i_sb;
	uint32_t scratch[EXT4_FRAME_SIZE / sizeof(uint32_t)];
	struct xattr_region to = block_region(sb, (uint8_t *)scratch);
	uint64_t blocknr = 0;
	int err = 0;

	ASSERT_CMP(sb->s_blocksize, <=, EXT4_FRAME_SIZE);
	if (!xattr_region_rebuild(bh != NULL ? r : NULL, &to, change)) {
		bh_put(bh);
		return -ENOSPC;
	}
	if (bh != NULL)
		err = ext4_journal_get_write_access(handle, bh);
	if (err == 0 && !xattr_region_empty(&to)) {
		err = bh != NULL ? set_in_place(handle, inode, bh, &to) : 0;
		if (err == 1) {
			bh_put(bh);
			return 0;
		}
		if (err == 0)
			err = prepare_release(handle, inode, bh);
		if (err == 0)
			err = new_block(handle, inode, &to, &blocknr);
	} else if (err == 0) {
		err = prepare_release(handle, inode, bh);
	}
	if (err != 0) {
		bh_put(bh);
		return err;
	}
	return switch_block(handle, inode, bh, blocknr);
}

int ext4_xattr_block_drop(handle_t *handle, struct inode *inode)
{
	struct buffer_head *bh;
	struct xattr_region r;
	int err = ext4_xattr_block_read(inode, &bh, &r);

	if (err != 0 || bh == NULL)
		return err;
	err = ext4_journal_get_write_access(handle, bh);
	if (err == 0)
		err = prepare_release(handle, inode, bh);
	if (err != 0) {
		bh_put(bh);
		return err;
	}
	return switch_block(handle, inode, bh, 0);
}
