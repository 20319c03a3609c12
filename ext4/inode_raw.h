/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef EXT4_INODE_RAW_H
#define EXT4_INODE_RAW_H
/* Raw inodes, for inode.c and the tests. */

#include "ext4/ext4.h"

#define EXT4_XATTR_MAGIC 0xea020000u

/*
 * Put the inode into its raw form, checksum included. lock_buffer of the block is held. *data_changed: size or block map differ from before: fdatasync must wait for it. -EFBIG if i_blocks cannot be
 * stored (no huge_file feature).
 */
int ext4_inode_encode(struct inode *inode, struct ext2_inode_large *raw, bool *data_changed);
/* Attributes follow the extra part: it cannot grow in place. */
bool ext4_raw_has_xattrs(const struct inode *inode, const struct ext2_inode_large *raw);

#endif
