/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef EXT4_INODE_H
#define EXT4_INODE_H
#include "ext4/ext4.h"

/* How an inode was named: an inode number that comes from the disk is checked more strictly. */
#define EXT4_IGET_NORMAL 0u
#define EXT4_IGET_SPECIAL 1u /* reserved inodes are allowed (journal, orphan file, resize) */
#define EXT4_IGET_HANDLE                                                                           \
	2u /* number is a guess of the caller: -ESTALE instead of ext4_error when not in use, not named or not yet there */
#define EXT4_IGET_ORPHAN 4u /* orphan processing: i_nlink may be 0 */

/*
 * The inode in memory, read and validated (checksum, mode, size, extent header or pointers, extra isize, times, flags) if it is not there
 * yet. Takes a reference. Blocks for I/O. ERR_PTR(-EFSCORRUPTED | -EFSBADCRC | -EIO | -ENOMEM | -ESTALE).
 */
struct inode *ext4_iget(struct super_block *sb, uint32_t ino, unsigned flags);
/* In memory only, NULL if not. Takes a reference. */
struct inode *ext4_ilookup(struct super_block *sb, uint32_t ino);
/* The inode if i_nlookup > 0, else NULL; any number. Takes no reference: the caller knows that the look-ups outlast its use. */
struct inode *ext4_inode_looked_up(struct super_block *sb, uint32_t ino);
/* Every i_nlookup becomes 0, and the reference that it stood for is put. Nobody looks up or forgets meanwhile. */
void ext4_icache_forget_all(struct super_block *sb);
/*
 * A new in-memory inode for a number just allocated: zeroed, I_NEW, one reference, hashed; i_csum_seed and i_generation are the caller's to set. i_mapping and the raw inode's zeroed
 * content come with the first ext4_mark_inode_dirty(): attributes go into the inode after it. ERR_PTR(-ENOMEM), or -EFSCORRUPTED if the number is in use in memory.
 */
struct inode *ext4_inode_new(struct super_block *sb, uint32_t ino);
void ihold(struct inode *inode);
/*
 * Drop a reference. At the last one: with i_nlink 0 the upper layer's evict_inode runs (on s_wq; in the caller in simulations), else the inode stays
 * cached until it is recycled. NULL allowed. Never blocks for I/O. A number is not given to another file before eviction is complete.
 */
void iput(struct inode *inode);
/* Wait until evictions queued so far are done (unmount, ENOSPC, sync). Holds nothing. */
void ext4_drain_evictions(struct super_block *sb);
/* Free all unreferenced inodes (unmount). Returns how many were still referenced. */
unsigned ext4_icache_shrink_all(struct super_block *sb);
/* How many unreferenced inodes stay in memory; 4096 by default. */
void ext4_icache_set_limit(struct super_block *sb, uint32_t inodes);
/* Call fn on each inode in memory, with a reference held and no lock; stops when fn returns non-zero. */
int ext4_icache_for_each(struct super_block *sb, int (*fn)(struct inode *inode, void *arg),
			 void *arg);
/* The bitmap says so: 1 or 0, or the error that keeps it from being read. */
int ext4_inode_in_use(struct super_block *sb, uint32_t ino);
/*
 * What a fast commit says of the inode, the first len bytes of its raw form: everything but link count, blocks, block map, attributes and the orphan list.
 * A new one (I_NEW, nothing set but its number) also gets an empty map, or the target or device that its map holds. A directory keeps its size and index; a new one has neither.
 * 0 or -EFSCORRUPTED (reported). Mount time only: no locks.
 */
int ext4_inode_apply_record(struct inode *inode, const void *bytes, unsigned len);
/* The generation is known: sets it and i_csum_seed. */
void ext4_inode_set_generation(struct inode *inode, uint32_t generation);
/* From evict_inode, after the number was freed: out of the hash. */
void ext4_inode_unhash(struct inode *inode);

/* Write the in-memory inode to its buffer within the handle, with checksum; clears I_DIRTY_SYNC and I_DIRTY_DATASYNC. 1 credit. Records fsync tids. */
int ext4_mark_inode_dirty(handle_t *handle, struct inode *inode);
/* The inode's block is read and may be written: after it ext4_mark_inode_dirty() in this handle meets no I/O error. Its credit is the same one. */
int ext4_prepare_inode_write(handle_t *handle, struct inode *inode);
/* Only in memory: sets the I_DIRTY_* bits given and tells writeback/ through wb_mark_inode_dirty's hook. */
void ext4_inode_set_dirty(struct inode *inode, uint32_t i_dirty_bits);
/*
 * Registered by writeback/: puts the inode on a list. I_DIRTY_TIME alone: its times wait; with I_DIRTY_SYNC: the inode with waiting times leaves the cache, they are to be written now.
 */
void ext4_set_dirty_hook(struct super_block *sb, void (*hook)(struct inode *inode, uint32_t bits));
/* The buffer that holds the inode and the offset in it; read if needed. */
int ext4_get_inode_loc(struct inode *inode, struct buffer_head **bh_out, unsigned *offset_out);
/* The raw on-disk inode of s_inode_size bytes inside its buffer, for in-inode xattrs. Under lock_buffer to read or change. */
struct ext2_inode_large *ext4_raw_inode(struct super_block *sb, struct buffer_head *bh,
					unsigned offset);
/* Zero the slots of inodes [ino, end) of one group, which nobody uses, in handles of its own. */
int ext4_clear_inode_slots(struct super_block *sb, uint32_t ino, uint32_t end);
/* Recompute the checksum of a raw inode after a change of its xattr space. lock_buffer held. */
void ext4_raw_inode_csum_set(struct inode *inode, struct ext2_inode_large *raw);

/* i_blocks accounting in file-system blocks; negative allowed. Takes i_lock. The caller marks the inode dirty. */
void ext4_inode_add_blocks(struct inode *inode, int64_t fs_blocks);
/* What fits i_blocks and the format: largest size of this file in bytes. */
uint64_t ext4_max_size(const struct inode *inode);
/* Set times; clamp to what the inode's size can store (128-byte inodes end in 2038, others in 2446). */
struct timespec ext4_clamp_time(const struct inode *inode, struct timespec ts);
/* st_* of the inode. delayed blocks are added by alloc/'s caller. */
void ext4_inode_getattr(struct inode *inode, struct stat *st);
/* Inode numbers that directory entries may name. */
bool ext4_valid_dir_ino(const struct super_block *sb, uint32_t ino);

/* ---- Orphans ---- */

/*
 * Put the inode on the orphan list or in the orphan file within the handle (EXT4_ORPHAN_CREDITS); no-op if it is there, or on a file system without a log and
 * read-only. The caller holds i_rwsem or the only reference.
 */
int ext4_orphan_add(handle_t *handle, struct inode *inode);
/*
 * For a replay that comes before ext4_orphan_cleanup(): all orphans on the disk are read and marked as what they are; ot_fn gets each with a reference.
 * Whoever holds such a reference ends it with ext4_orphan_process(). 0, or the first error: a damaged list too.
 */
struct ext4_orphan_taker {
	int (*ot_fn)(void *arg, struct inode *inode); /* takes over the reference, also on error */
	void *ot_arg;
};
int ext4_orphans_know(struct super_block *sb, const struct ext4_orphan_taker *taker);
bool ext4_is_orphan(struct inode *inode);
/* Delete an orphan, or cut what lies past its end and take it off. Consumes the reference. */
int ext4_orphan_process(struct inode *inode);
/* Take it off; handle NULL: only in memory (after an abort). On an error it is still there. */
int ext4_orphan_del(handle_t *handle, struct inode *inode);
/*
 * An orphan that could not be cut or deleted: it stays one on the disk and in memory, kept by a reference of its own (an inode in eviction: instead of being
 * freed), until ext4_retry_orphans() or ext4_give_up_orphans(). Nothing is done after an abort or if it is no orphan. Holds no lock of rank LEAF.
 */
void ext4_orphan_not_done(struct inode *inode);
/* Try again what ext4_orphan_not_done() noted: at sync and unmount. Blocks, and takes i_rwsem of each; holds nothing. */
void ext4_retry_orphans(struct super_block *sb);
/* Unmount: they stay orphans on the disk, for the next mount or e2fsck. */
void ext4_give_up_orphans(struct super_block *sb);

#endif
