/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef ALLOC_ALLOC_H
#define ALLOC_ALLOC_H
/*
 * Life of the allocator, space accounting, and inode allocation. The mapper is in alloc/map.h,
 * mballoc in alloc/mballoc.h.
 */

#include "ext4/ext4.h"

/*
 * Allocate s_mb; nothing is scanned but, after an unclean unmount, the descriptors. Fills the alloc
 * members of sb->s_upper_store.
 */
int ext4_alloc_init(struct super_block *sb);
/* Give back all preallocations and free s_mb. All reservations must be 0 (ASSERT). */
void ext4_alloc_exit(struct super_block *sb);
/*
 * Members alloc_inode_init and alloc_inode_destroy, to be put into the ext4_upper_ops before
 * ext4_fill_super.
 */
int ext4_alloc_inode_init(struct inode *inode);
void ext4_alloc_inode_destroy(struct inode *inode);

/* ---- Reservations (delayed allocation) ---- */

/*
 * Reserve data blocks [lblk, lblk+len) of a buffered write: each one that is neither mapped nor
 * delayed becomes delayed in the extent status tree and is counted, its metadata with it. uid/gid
 * decide on the root reserve; privileged: CAP_SYS_RESOURCE. Blocks for I/O only if the extent tree
 * must be read. Takes i_data_sem. No handle open. 0, or -ENOSPC (after reclaim_space was tried),
 * -EIO, -EFSCORRUPTED. Nothing is reserved on error.
 */
struct ext4_cred {
	uint32_t cr_uid, cr_gid;
	bool cr_privileged;
};
int ext4_da_reserve_range(struct inode *inode, ext4_lblk_t lblk, ext4_lblk_t len,
			  const struct ext4_cred *cred);
/*
 * Who allocates in this thread without a reservation (directories, attributes, O_DIRECT, fallocate) from now on: decides on the root reserve, as the
 * caller's credentials in the kernel. NULL: nobody with a right to it, as at the start of a thread.
 */
void ext4_allocate_for(const struct super_block *sb, const struct ext4_cred *cred);
/* Blocks that only splits and conversions may use: 2 % of the file system, at most 4096. */
uint64_t ext4_reserved_pool(const struct super_block *sb);
/*
 * The delayed blocks in [lblk, lblk+len) are not wanted any more (truncate, punch): unreserved, out
 * of the status tree. Takes i_data_sem. Returns how many were released.
 */
ext4_lblk_t ext4_da_release_range(struct inode *inode, ext4_lblk_t lblk, ext4_lblk_t len);
/* Delayed blocks of the inode, and of the file system. */
uint32_t ext4_inode_reserved_blocks(const struct inode *inode);
uint64_t ext4_sb_dirty_blocks(const struct super_block *sb);
/*
 * Near full: delayed allocation should be off (as ext4_nonda_switch()). Starts writeback through
 * `*start_writeback` when over half.
 */
bool ext4_nonda_switch(struct super_block *sb, bool *start_writeback);

/*
 * An operation met -ENOSPC and has stopped its handle: true if it should be tried again, after
 * space (or inode numbers) freed by uncommitted transactions was made available by a commit.
 * *retries starts at 0. Blocks; holds nothing. As ext4_should_retry_alloc().
 */
bool ext4_should_retry_alloc(struct super_block *sb, unsigned *retries);

struct ext4_space {
	uint64_t sp_blocks; /* of the file system, overhead taken off unless minixdf */
	uint64_t sp_free;   /* free, pending frees counted in, delayed reservations counted out */
	uint64_t sp_avail;  /* the same less the root reserve */
	uint64_t sp_inodes, sp_free_inodes;
};
void ext4_space(struct super_block *sb, struct ext4_space *out);

/* ---- Freeing space early ---- */
/*
 * Member reclaim_space calls this and more: give all preallocations back. Returns blocks given
 * back.
 */
uint64_t ext4_discard_all_preallocations(struct super_block *sb);
/*
 * FITRIM: discard free ranges of at least minlen blocks within [start, start+len) blocks; *trimmed
 * in blocks.
 */
int ext4_trim_fs(struct super_block *sb, uint64_t start, uint64_t len, uint64_t minlen,
		 uint64_t *trimmed);

/* ---- Inodes ---- */

/*
 * Allocate an inode number near dir by Orlov-like rules (directories spread over flex groups, files
 * near their directory), in the handle (EXT4_NEW_INODE_CREDITS). The new inode has owner, mode
 * (setgid and grpid rules applied), generation, times, flags inherited from dir, extra isize, empty
 * extent root or indirect pointers, i_nlink 1 (2 for a directory), I_NEW, one reference, and is not
 * on disk until ext4_mark_inode_dirty. Bitmaps and table are never reused within the transaction
 * that freed them (lost crash consistency otherwise). ERR_PTR(-ENOSPC, -EIO, -EFSCORRUPTED,
 * -ENOMEM).
 */
struct inode *ext4_new_inode(handle_t *handle, struct inode *dir, uint16_t mode,
			     const struct ext4_cred *cred, const char *name);
/*
 * Free the number: bitmap, descriptor; dtime is set and the inode written by the caller before.
 * From evict_inode.
 */
int ext4_free_inode(handle_t *handle, struct inode *inode);
/* Before the first change of its handle: what ext4_free_inode() could fail to read. */
int ext4_free_inode_prepare(handle_t *handle, struct inode *inode);

#endif
