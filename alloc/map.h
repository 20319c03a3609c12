/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef ALLOC_MAP_H
#define ALLOC_MAP_H
/* From logical to physical blocks: extents and indirect blocks behind one function. Follows ext4_map_blocks() and fs/ext4/extents.c. */

#include "alloc/mballoc.h"
#include "ext4/ext4.h"

/* m_flags on return */
#define EXT4_MAP_MAPPED (1u << 0)    /* written: m_pblk is valid */
#define EXT4_MAP_UNWRITTEN (1u << 1) /* allocated, reads as zeros: m_pblk is valid */
#define EXT4_MAP_DELAYED (1u << 2)   /* reserved only */
#define EXT4_MAP_NEW (1u << 3)	     /* allocated by this call */

struct ext4_map_blocks {
	ext4_fsblk_t m_pblk;
	ext4_lblk_t m_lblk;
	uint32_t m_len; /* in: wanted; out: blocks of one state, >= 1 also for holes */
	unsigned m_flags;
};

#define EXT4_GET_BLOCKS_CREATE (1u << 0)     /* allocate what is missing */
#define EXT4_GET_BLOCKS_UNWRIT_EXT (1u << 1) /* ... as unwritten */
#define EXT4_GET_BLOCKS_DELALLOC_RESERVE                                                           \
	(1u << 2) /* the blocks are reserved: turn reservation into allocation */
#define EXT4_GET_BLOCKS_CONVERT (1u << 3)	  /* unwritten blocks of the range become written */
#define EXT4_GET_BLOCKS_METADATA_NOFAIL (1u << 4) /* may use the reserved pool */
#define EXT4_GET_BLOCKS_NO_NORMALIZE (1u << 5)	  /* fallocate: exactly what is asked */
#define EXT4_GET_BLOCKS_CONVERT_UNWRITTEN                                                          \
	(1u << 6) /* written blocks become unwritten (zero range) */

/*
 * Look up, and with CREATE allocate, m_len blocks from m_lblk; the result describes the first run. 0 returned: hole (m_len its length, bounded by the request) or delayed (EXT4_MAP_DELAYED);
 * > 0: number of blocks mapped. Without CREATE or CONVERT handle may be NULL. Takes i_data_sem (read for look-ups, write to change); answers from the extent status tree without reading when it can.
 * With DELALLOC_RESERVE the run's reservation is consumed. i_disksize and i_size are not touched; i_blocks is. Does not mark pages.
 * CREATE leaves unwritten blocks unwritten unless CONVERT is given too. Files without extents have no unwritten blocks: UNWRIT_EXT and CONVERT_UNWRITTEN give -EOPNOTSUPP.
 * The inode is marked dirty when the map may have changed. After an error nothing is mapped that was not before, and the reservation stands.
 * Errors: -ENOSPC (see ext4_mb_new_blocks), -EIO, -EFSCORRUPTED, -EFBIG, -ENOMEM.
 */
int ext4_map_blocks(handle_t *handle, struct inode *inode, struct ext4_map_blocks *map,
		    unsigned flags);
/*
 * I/O of [lblk, lblk+len) is complete: unwritten extents in it become written; parts already written stay. Starts its own handles when `handle` is NULL. Never -ENOSPC (reserved pool).
 */
int ext4_convert_unwritten_extents(handle_t *handle, struct inode *inode, ext4_lblk_t lblk,
				   ext4_lblk_t len);
/*
 * Unmap [start, end] (inclusive), free the blocks, delayed ones too. The handle is extended or restarted as needed; between restarts the tree is consistent and the inode written. i_data_sem is taken inside; the caller
 * holds i_rwsem for write and invalidate_lock, has dropped the pages and, for a truncate, put the inode on the orphan list.
 */
int ext4_remove_space(handle_t *handle, struct inode *inode, ext4_lblk_t start, ext4_lblk_t end);
/* An empty extent root (or empty indirect pointers) in i_block. */
void ext4_init_block_map(struct inode *inode);
/* Check the root in i_block of an inode just read. 0 or -EFSCORRUPTED with *why a static text. */
int ext4_check_block_map(struct inode *inode, const char **why);

/*
 * Read (and with create allocate) the metadata block lblk of a directory or slow symlink. Returns a referenced uptodate buffer; NULL with *err 0 for a hole; NULL with *err < 0 on error. A created block
 * has create access and is zeroed. The handle may be NULL without create.
 */
struct buffer_head *ext4_bread(handle_t *handle, struct inode *inode, ext4_lblk_t lblk, bool create,
			       int *err);

/* ---- Extent status ---- */

#define ES_WRITTEN 1u
#define ES_UNWRITTEN 2u
#define ES_DELAYED 4u
#define ES_HOLE 8u
struct extent_status {
	ext4_lblk_t es_lblk;
	ext4_lblk_t es_len;
	ext4_fsblk_t es_pblk;
	unsigned es_state;
};
/* The status of lblk if known: es describes the whole known run around it. Takes i_es_lock. */
bool ext4_es_lookup(struct inode *inode, ext4_lblk_t lblk, struct extent_status *es);
/* The first delayed run at or after lblk, up to end inclusive. */
bool ext4_es_find_delayed(struct inode *inode, ext4_lblk_t lblk, ext4_lblk_t end,
			  struct extent_status *es);
/* True if any block in [lblk, end] is delayed. */
bool ext4_es_has_delayed(struct inode *inode, ext4_lblk_t lblk, ext4_lblk_t end);
/* Drop what is not delayed (shrinker): up to n entries; returns how many. */
unsigned ext4_es_shrink(struct super_block *sb, unsigned n);
void ext4_es_print_shrinker(struct super_block *sb, FILE *out);
/* Next run that is not a hole at or after lblk (SEEK_DATA) with its state; 0 found, -ENXIO none up to end. Delayed and unwritten runs included with their state. */
int ext4_next_extent(struct inode *inode, ext4_lblk_t lblk, ext4_lblk_t end,
		     struct extent_status *es);

#endif
