/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef EXT4_GROUP_H
#define EXT4_GROUP_H
/* Block groups: descriptors and bitmaps, read and validated when first used. */

#include "ext4/ext4.h"

/* A group in memory; made at first use, never freed before unmount. */
struct ext4_group_info {
	ext4_group_t bg_group;		/* [const after init] */
	struct mutex bg_lock;		/* GROUP: bitmap and descriptor changes, buddy */
	_Atomic uint32_t bg_state;	/* [atomic] EXT4_GRP_* */
	ext4_fsblk_t bg_block_bitmap;	/* [const after init] */
	ext4_fsblk_t bg_inode_bitmap;	/* [const after init] */
	ext4_fsblk_t bg_inode_table;	/* [const after init] */
	_Atomic uint16_t bg_flags;	/* [bg_lock for changes] EXT2_BG_*, as in the descriptor */
	struct buffer_head *bg_desc_bh; /* [const after init] */
	uint32_t bg_desc_offset;	/* [const after init] in bg_desc_bh */
	void *bg_buddy;			/* [bg_lock] alloc/'s */
	_Atomic uint32_t
		bg_free_blocks; /* [bg_lock for changes] cached from the descriptor, 0 if bad */
	_Atomic uint32_t bg_free_inodes;
	_Atomic uint32_t bg_used_dirs;
	_Atomic uint32_t bg_itable_unused;
};
#define EXT4_GRP_BBITMAP_BAD (1u << 0) /* damaged: never allocated from */
#define EXT4_GRP_IBITMAP_BAD (1u << 1)
#define EXT4_GRP_BUDDY_READY (1u << 2)

/* The group, its descriptor read, checksum and block numbers validated. Blocks for I/O at first use. ERR_PTR on damage (ext4_error was called). */
struct ext4_group_info *ext4_get_group_info(struct super_block *sb, ext4_group_t group);
/* In memory only: NULL if not loaded. */
struct ext4_group_info *ext4_group_info_cached(struct super_block *sb, ext4_group_t group);

/* Fields of the descriptor (64-bit aware). bg_lock for consistent pairs. */
ext4_fsblk_t ext4_block_bitmap(struct super_block *sb, struct ext4_group_info *gi);
ext4_fsblk_t ext4_inode_bitmap(struct super_block *sb, struct ext4_group_info *gi);
ext4_fsblk_t ext4_inode_table(struct super_block *sb, struct ext4_group_info *gi);
uint16_t ext4_bg_flags(struct super_block *sb, struct ext4_group_info *gi);

/*
 * Change the descriptor: get_write_access on bg_desc_bh first (outside bg_lock), then under bg_lock set what changed; checksums of
 * descriptor and bitmap are set here. lock_buffer(bg_desc_bh) is taken inside, as the innermost lock (a bitmap's buffer lock may be held, taken before bg_lock).
 * Then, bg_lock dropped, ext4_handle_dirty_metadata(bg_desc_bh).
 */
struct ext4_group_change {
	int32_t gc_free_blocks; /* deltas */
	int32_t gc_free_inodes;
	int32_t gc_used_dirs;
	int64_t gc_itable_unused;	/* absolute new value, -1: unchanged */
	uint16_t gc_clear_flags;	/* EXT2_BG_BLOCK_UNINIT, EXT2_BG_INODE_UNINIT */
	const uint8_t *gc_block_bitmap; /* new content for the checksum, or NULL */
	const uint8_t *gc_inode_bitmap;
};
void ext4_group_change(struct super_block *sb, struct ext4_group_info *gi,
		       const struct ext4_group_change *gc);

/*
 * The bitmap's buffer, read (or initialised in memory when the group is UNINIT) and validated: checksum, the group's own metadata in use, padding set. Reference for the caller.
 * ERR_PTR(-EFSCORRUPTED | -EFSBADCRC): the group is marked bad, ext4_error was called. Blocks for I/O.
 */
struct buffer_head *ext4_read_block_bitmap(struct super_block *sb, struct ext4_group_info *gi);
struct buffer_head *ext4_read_inode_bitmap(struct super_block *sb, struct ext4_group_info *gi);

/* Arithmetic */
static inline ext4_fsblk_t ext4_group_first_block(const struct super_block *sb, ext4_group_t group)
{
	return (ext4_fsblk_t)group * sb->s_blocks_per_group + sb->s_first_data_block;
}
/* Blocks of the group: the last one may be short. */
uint32_t ext4_blocks_in_group(const struct super_block *sb, ext4_group_t group);
static inline ext4_group_t ext4_group_of_block(const struct super_block *sb, ext4_fsblk_t block)
{
	return (ext4_group_t)((block - sb->s_first_data_block) / sb->s_blocks_per_group);
}
static inline uint32_t ext4_offset_in_group(const struct super_block *sb, ext4_fsblk_t block)
{
	return (uint32_t)((block - sb->s_first_data_block) % sb->s_blocks_per_group);
}
/*
 * Blocks [block, block+count) lie inside the device and hold no superblock, descriptor, bitmap, inode table or journal: data may live there.
 * May read descriptors the first time an area is asked about: nothing that ranks after I_DATA_SEM is held.
 */
bool ext4_data_block_valid(struct super_block *sb, ext4_fsblk_t block, uint64_t count);
bool ext4_group_has_super(const struct super_block *sb, ext4_group_t group);
/* Superblock copy, descriptors and reserved GDT blocks at the start of the group, in blocks. */
uint32_t ext4_group_overhead(const struct super_block *sb, ext4_group_t group);
/* Sums over the superblock's counters, kept up to date by alloc/ (percpu-like atomics). */
uint64_t ext4_sb_free_blocks_at_mount(const struct super_block *sb);
uint64_t ext4_sb_free_inodes_at_mount(const struct super_block *sb);

/* ---- Checksums of metadata blocks (no-ops without metadata_csum) ---- */

/*
 * X_later(): the block was changed in a transaction and lock_buffer is held. The checksum is set before the
 * content is copied into the log or written home (bh_seal), once for all changes until then.
 */
/* Extent block of an inode: the tail. */
bool ext4_extent_block_csum_ok(struct inode *inode, const uint8_t *data);
void ext4_extent_block_csum_later(struct inode *inode, struct buffer_head *bh);
/* Directory leaf: the fake dirent tail. */
bool ext4_dirblock_csum_ok(struct inode *dir, const uint8_t *data);
void ext4_dirblock_csum_later(struct inode *dir, struct buffer_head *bh);
/* htree root or node: count_offset is where the countlimit is in the block. */
bool ext4_dx_csum_ok(struct inode *dir, const uint8_t *data, unsigned count_offset, unsigned count,
		     unsigned limit);
/* With the count and limit that are in the block. */
void ext4_dx_csum_later(struct inode *dir, struct buffer_head *bh, unsigned count_offset);
bool ext4_xattr_block_csum_ok(struct inode *inode, ext4_fsblk_t blocknr, const uint8_t *data);
void ext4_xattr_block_csum_set(struct inode *inode, ext4_fsblk_t blocknr, uint8_t *data);
/* Directory hash by libext2fs; version is EXT2_HASH_* with signedness resolved. 0 or -EINVAL. */
int ext4_dirhash(const struct super_block *sb, unsigned version, const char *name, unsigned len,
		 uint32_t *hash, uint32_t *minor_hash);

#endif
