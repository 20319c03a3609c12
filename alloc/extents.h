/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef ALLOC_EXTENTS_H
#define ALLOC_EXTENTS_H
/*
 * The extent tree as the mapper's files see it. Private to alloc/.
 * All calls hold i_data_sem: for write when they change the map, read suffices to look.
 */

#include "alloc/alloc_internal.h"
#include "alloc/map_internal.h"
#include <ext2fs/ext3_extents.h> /* needs the types of ext2_fs.h, which ext4.h brings */

#include "util/assert.h"

#define EXT4_EXT_MAX_DEPTH 5
#define EXT4_EXT_ROOT_MAX 4u /* entries in i_block */
#define EXT4_EXT_NEW_MAX 4   /* extents that one change of a leaf puts in */

_Static_assert(sizeof(struct ext3_extent) == 12, "extent entry");
_Static_assert(sizeof(struct ext3_extent_idx) == 12, "index entry");
_Static_assert(sizeof(struct ext3_extent_header) == 12, "extent header");
_Static_assert(EXT_UNINIT_MAX_LEN == 32767, "longest unwritten extent");

/* An extent in host form. */
struct ext4_ext_rec {
	ext4_lblk_t er_lblk;
	uint32_t er_len;
	ext4_fsblk_t er_pblk;
	bool er_unwritten;
};

/* One node on the way from the root to a leaf. */
struct ext4_ext_node {
	struct buffer_head *n_bh; /* NULL: the root in i_block */
	struct ext3_extent_header *n_hdr;
	int n_pos;	/* the last entry at or before the block looked for; leaves: -1 if none */
	uint64_t n_end; /* logical blocks of this node end here */
};

/* p_node[0] is the root, p_node[p_depth] the leaf. Holds references until ext4_ext_put_path. */
struct ext4_ext_path {
	int p_depth;
	struct ext4_ext_node p_node[EXT4_EXT_MAX_DEPTH + 1];
};

static inline struct ext4_ext_node *ext4_ext_leaf(struct ext4_ext_path *path)
{
	ASSERT_CMP(path->p_depth, >=, 0);
	return &path->p_node[path->p_depth];
}
static inline unsigned ext4_ext_entries(const struct ext3_extent_header *hdr)
{
	return le16_to_cpu(hdr->eh_entries);
}
static inline unsigned ext4_ext_max(const struct ext3_extent_header *hdr)
{
	return le16_to_cpu(hdr->eh_max);
}
static inline unsigned ext4_ext_depth(const struct ext3_extent_header *hdr)
{
	return le16_to_cpu(hdr->eh_depth);
}
static inline struct ext3_extent *ext4_ext_entry(struct ext3_extent_header *hdr, int i)
{
	return (struct ext3_extent *)(hdr + 1) + i;
}
static inline struct ext3_extent_idx *ext4_ext_idx(struct ext3_extent_header *hdr, int i)
{
	return (struct ext3_extent_idx *)(hdr + 1) + i;
}
static inline ext4_fsblk_t ext4_idx_pblk(const struct ext3_extent_idx *idx)
{
	return (ext4_fsblk_t)le16_to_cpu(idx->ei_leaf_hi) << 32 | le32_to_cpu(idx->ei_leaf);
}
static inline struct ext3_extent_header *ext4_ext_root(struct inode *inode)
{
	return (struct ext3_extent_header *)(void *)inode->i_block;
}
static inline uint64_t ext4_rec_end(const struct ext4_ext_rec *r)
{
	return (uint64_t)r->er_lblk + r->er_len;
}

/* ---- extent_tree.c ---- */

/* Entries that fit into a block. */
unsigned ext4_ext_space_block(const struct super_block *sb);
/* Entry i of a leaf. */
void ext4_ext_get_rec(struct ext3_extent_header *hdr, int i, struct ext4_ext_rec *rec);
void ext4_ext_set_rec(struct ext3_extent *ex, const struct ext4_ext_rec *rec);
/*
 * The way to lblk, each block read and validated. 0 or -EIO, -EFSCORRUPTED, -EFSBADCRC, -ENOMEM (path is empty then).
 */
int ext4_ext_find(struct inode *inode, ext4_lblk_t lblk, struct ext4_ext_path *path);
void ext4_ext_put_path(struct ext4_ext_path *path);
/* What the tree says of lblk: the whole extent, or the whole hole up to the next extent of the leaf. */
int ext4_ext_lookup_run(struct inode *inode, ext4_lblk_t lblk, struct extent_status *run);
/* Structure of one node of `size_bytes` at `depth`: NULL, or what is wrong. Its entries lie in [lo, end). */
const char *ext4_ext_check_node(struct inode *inode, struct ext3_extent_header *hdr,
				size_t size_bytes, unsigned depth, uint64_t lo, uint64_t end);
/* NULL, or what is wrong with the root in i_block. */
const char *ext4_ext_check_root(struct inode *inode);
/* Debugging: the whole tree is walked; -EFSCORRUPTED (through ext4_error) or -EIO. */
int ext4_ext_check(struct inode *inode);
int ext4_ext_print(struct inode *inode, FILE *out);

/* ---- extent_update.c: one node or one leaf changed, atomically within the handle ---- */

/* Entries [s_pos, s_pos + s_old) of a leaf give way to s_new others. */
struct ext4_ext_splice {
	int s_pos;
	int s_old;
	int s_new;
	struct ext4_ext_rec s_rec[EXT4_EXT_NEW_MAX];
};

/*
 * Apply a splice to the leaf at the end of path; the leaf is split and the tree grows as needed (mb_flags: EXT4_MB_* for the new nodes). A leaf that would
 * become empty is taken out of the tree and freed. The path is put in any case: its positions are no longer true. On error the tree has its former content (it may have
 * more room). The caller marks the inode dirty, also on error.
 */
int ext4_ext_leaf_update(handle_t *handle, struct inode *inode, struct ext4_ext_path *path,
			 const struct ext4_ext_splice *sp, unsigned mb_flags);
/*
 * While the root has a single child that fits into it: take its content and free it. The handle is extended for it; where that is not possible it does nothing, unless have_credits says that
 * the handle's credits are for this (EXT4_EXT_COLLAPSE_CREDITS). The caller marks the inode dirty.
 */
#define EXT4_EXT_COLLAPSE_CREDITS (4u * EXT4_EXT_MAX_DEPTH)
int ext4_ext_collapse(handle_t *handle, struct inode *inode, bool have_credits);
/* True if ext4_ext_collapse() could have something to do. */
bool ext4_ext_worth_collapsing(struct inode *inode);

/* ---- extent_insert.c ---- */

/* True if b continues a and both fit into one extent. */
bool ext4_ext_can_merge(const struct ext4_ext_rec *a, const struct ext4_ext_rec *b);
/* Join what can be joined in an array of extents in file order; returns how many are left. */
int ext4_ext_coalesce(struct ext4_ext_rec *rec, int n);
/* Put rec into the hole that the path leads to, joined with its neighbours. The path is put. */
int ext4_ext_insert_rec(handle_t *handle, struct inode *inode, struct ext4_ext_path *path,
			const struct ext4_ext_rec *rec, unsigned meta_flags);
/* Allocate the hole at map->m_lblk and insert it; m_len: in wanted, out got. m_pblk is set. 0 or negative errno. */
int ext4_ext_allocate(handle_t *handle, struct inode *inode, struct ext4_map_blocks *map,
		      const struct ext4_map_alloc *how);

/* ---- extent_convert.c ---- */

/* The part [lblk, lblk + *len) of one extent becomes unwritten or written; *len is cut to the extent. No-op if it is that already. 0 or negative errno. */
int ext4_ext_convert(handle_t *handle, struct inode *inode, ext4_lblk_t lblk, ext4_lblk_t *len,
		     bool unwritten);

/* ---- extent_remove.c ---- */

/*
 * Free a part of [start, *end] from its upper end down, as much as the handle's credits allow; *end is the last block still to be done, *done tells that nothing is left. The tree is consistent and the inode
 * marked dirty on return. i_data_sem held for write.
 */
int ext4_ext_remove_step(handle_t *handle, struct inode *inode, ext4_lblk_t start, ext4_lblk_t *end,
			 bool *done);
/* Credits that a step needs at least. */
unsigned ext4_ext_remove_credits(struct inode *inode);

#endif
