/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef NAMESPACE_XATTR_H
#define NAMESPACE_XATTR_H
/*
 * Extended attributes inside this layer: by name index and name without prefix. A region is the place where a set of them lies: the rest of the inode, or a block.
 */

#include <ext2fs/ext2_fs.h>
#include <ext2fs/ext2_ext_attr.h>
#include <sys/types.h>

#include "ext4/ext4.h"

enum xattr_index {
	XATTR_INDEX_USER = 1,
	XATTR_INDEX_ACL_ACCESS = 2,
	XATTR_INDEX_ACL_DEFAULT = 3,
	XATTR_INDEX_TRUSTED = 4,
	XATTR_INDEX_SECURITY = 6,
	XATTR_INDEX_SYSTEM = 7,
};

struct xattr_name {
	uint8_t n_index;
	uint8_t n_len;
	const char *n_name;
};
/* A new value for a name; c_remove: the name goes. */
struct xattr_change {
	struct xattr_name c_name;
	const void *c_value;
	size_t c_bytes;
	bool c_remove;
};

/* ---- Regions (xattr_region.c): pure memory, no inode ---- */

struct xattr_region {
	uint8_t *r_base;  /* value offsets count from here; 4-byte aligned */
	unsigned r_first; /* offset of the first entry */
	unsigned r_bytes; /* end of the region */
	bool r_block;	  /* entries sorted, hashes kept */
};
struct xattr_found {
	uint8_t *f_value; /* NULL: empty value */
	size_t f_bytes;
};
/* NULL, or what is wrong. After NULL the other functions may be used. */
const char *xattr_region_check(const struct xattr_region *r);
bool xattr_region_find(const struct xattr_region *r, const struct xattr_name *name,
		       struct xattr_found *found);
bool xattr_region_empty(const struct xattr_region *r);
/* Write to `to` (same geometry, other memory) what `from` holds, changed. False: it does not fit. */
bool xattr_region_rebuild(const struct xattr_region *from, const struct xattr_region *to,
			  const struct xattr_change *change);
/* Call fn for each name until it returns non-zero; its result. */
int xattr_region_for_each(const struct xattr_region *r,
			  int (*fn)(void *arg, const struct xattr_name *name), void *arg);
/* h_hash of a block with these entries. */
uint32_t xattr_region_hash(const struct xattr_region *r);

/* ---- The block (xattr_block.c). i_xattr_sem held: for write where something is changed ---- */

/* The inode's block, checked, as a region; r_base NULL: none. The buffer is the caller's. 0 or negative errno. */
int ext4_xattr_block_read(struct inode *inode, struct buffer_head **bh, struct xattr_region *r);
/* Apply the change to the block (made, copied if shared, or freed as needed). bh and r are of ext4_xattr_block_read(); bh is put. -ENOSPC: it does not fit, or no block is free. */
int ext4_xattr_block_set(handle_t *handle, struct inode *inode, struct buffer_head *bh,
			 const struct xattr_region *r, const struct xattr_change *change);
/* Let go of the inode's block at eviction. */
int ext4_xattr_block_drop(handle_t *handle, struct inode *inode);

/* ---- An inode's attributes (xattr.c) ---- */

ssize_t ext4_xattr_get(struct inode *inode, const struct xattr_name *name, void *value,
		       size_t size);
/* True if the inode certainly has no attribute at all; cheap. */
bool ext4_xattr_none(struct inode *inode);
/* Within a handle with ext4_xattr_trans_blocks() credits. ctime and the ACL cache are the caller's. flags XATTR_CREATE, XATTR_REPLACE. Removing what is not there: -ENODATA. */
int ext4_xattr_set_handle(handle_t *handle, struct inode *inode, const struct xattr_change *change,
			  int flags);
/* In a handle of its own, with ctime, and a second try when there is no space. i_rwsem held for write. */
int ext4_xattr_set_locked(struct inode *inode, const struct xattr_change *change, int flags);
/* Credits for one ext4_xattr_set_handle() and the inode. */
unsigned ext4_xattr_credits(struct super_block *sb);

#endif
