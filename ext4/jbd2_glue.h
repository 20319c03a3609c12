/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef EXT4_JBD2_GLUE_H
#define EXT4_JBD2_GLUE_H
/* Handles as the file system uses them, with the credits that each kind of change needs. */

#include "ext4/ext4.h"

/* Start a handle on sb (checks shutdown, read-only, abort). See jbd2_journal_start(). revokes: metadata blocks that may be freed. */
handle_t *ext4_journal_start_sb(struct super_block *sb, enum jbd2_handle_type type,
				unsigned credits, unsigned revokes);
static inline handle_t *ext4_journal_start(struct inode *inode, enum jbd2_handle_type type,
					   unsigned credits)
{
	return ext4_journal_start_sb(inode->i_sb, type, credits, 0);
}
/* err: the result so far (may be 0). Returns err, or the error of the stop. */
int ext4_journal_stop(handle_t *handle, int err);
int ext4_journal_get_write_access(handle_t *handle, struct buffer_head *bh);
int ext4_journal_get_create_access(handle_t *handle, struct buffer_head *bh);
/* inode may be NULL; for a directory or file it also records the tids for fsync. */
int ext4_handle_dirty_metadata(handle_t *handle, struct inode *inode, struct buffer_head *bh);
/* A metadata (or data, with metadata false) block of inode is freed: revoke or forget as needed. Consumes bh (may be NULL). */
int ext4_forget(handle_t *handle, bool metadata, struct inode *inode, struct buffer_head *bh,
		ext4_fsblk_t blocknr);
/* At least `credits` left: extend, or restart the handle. 0: went on; 1: restarted (everything must be consistent before the call, locks after HANDLE dropped); <0 error. */
int ext4_journal_ensure_credits(handle_t *handle, unsigned credits, unsigned revokes);

/* Credits (blocks) */
/* One inode changed: inode table block, and with orphan or size the superblock. */
#define EXT4_INODE_CREDITS 1
#define EXT4_ORPHAN_CREDITS 3 /* superblock or orphan block, inode, neighbour in the list */
/* One extent or block insertion into a tree of full depth: split at each level + root growth, bitmaps and descriptors for each new block. */
unsigned ext4_index_trans_blocks(struct inode *inode, unsigned extents);
/* Mapping one chunk for writepages: index blocks + data bitmap + gdt + inode + superblock. */
unsigned ext4_chunk_trans_blocks(struct inode *inode);
unsigned ext4_writepage_trans_blocks(struct inode *inode);
/* Adding a name: directory blocks incl. htree split to full depth, inode of the directory. */
unsigned ext4_dir_trans_blocks(struct super_block *sb);
/* Creating an inode: bitmap, gdt, table block, superblock. */
#define EXT4_NEW_INODE_CREDITS 6
unsigned ext4_xattr_trans_blocks(struct super_block *sb);
/* A part of a truncate between restarts. */
unsigned ext4_truncate_trans_blocks(struct inode *inode);

/* The inode's tids: record that fsync (and fdatasync if datasync) must wait for the handle's transaction. */
void ext4_update_inode_fsync_trans(handle_t *handle, struct inode *inode, bool datasync);

#endif
