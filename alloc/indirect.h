/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef ALLOC_INDIRECT_H
#define ALLOC_INDIRECT_H
/* Indirect-block maps. Private to alloc/. i_data_sem is held: for write to change the map, read suffices to look. */

#include "alloc/alloc_internal.h"
#include "alloc/map_internal.h"
#include "util/assert.h"

#define EXT4_IND_NDIR 12u
#define EXT4_IND_LEVELS 4 /* slot in i_block, and up to three indirect blocks */

_Static_assert(EXT4_IND_NDIR == EXT2_NDIR_BLOCKS, "direct pointers");
_Static_assert(EXT2_N_BLOCKS == EXT4_IND_NDIR + EXT4_IND_LEVELS - 1, "pointers in i_block");

/* The way to one block. Level 0 is i_block; c_bh[i] is the indirect block at level i. */
struct ext4_ind_chain {
	int c_depth; /* levels of this block's class: 1 direct ... 4 triple */
	int c_found; /* levels whose pointer is set; c_depth: the data block exists */
	uint32_t c_offset[EXT4_IND_LEVELS];
	struct buffer_head *c_bh[EXT4_IND_LEVELS];
};

/* Slots on the way to lblk; returns the number of levels, 0 if the map cannot reach it. */
int ext4_ind_offsets(const struct super_block *sb, ext4_lblk_t lblk,
		     uint32_t offsets[EXT4_IND_LEVELS]);
/* Follow the pointers as far as they go. 0 or -EFBIG, -EIO, -EFSCORRUPTED. References until ext4_ind_put_chain. */
int ext4_ind_find(struct inode *inode, ext4_lblk_t lblk, struct ext4_ind_chain *c);
void ext4_ind_put_chain(struct ext4_ind_chain *c);
/* The array of pointers at a level, and the pointer chosen in it. */
uint32_t *ext4_ind_array(struct inode *inode, const struct ext4_ind_chain *c, int level);
ext4_fsblk_t ext4_ind_pointer(struct inode *inode, const struct ext4_ind_chain *c, int level);

/* A pointer on the way to lblk is 0: everything below it is a hole. Its first block. */
ext4_lblk_t ext4_ind_hole_start(const struct super_block *sb, const struct ext4_ind_chain *c,
				ext4_lblk_t lblk);
/* What the map says of lblk: the run from lblk on, or the hole around it. */
int ext4_ind_lookup_run(struct inode *inode, ext4_lblk_t lblk, struct extent_status *run);
/* First block that an indirect map cannot reach. */
uint64_t ext4_ind_max_blocks(const struct super_block *sb);
/* NULL, or what is wrong with the pointers in i_block. */
const char *ext4_ind_check_root(struct inode *inode);

/* ---- indirect_change.c ---- */

/* Allocate the hole at map->m_lblk, missing indirect blocks with it; m_len: in wanted, out got. m_pblk is set. 0 or negative errno with nothing changed. */
int ext4_ind_allocate(handle_t *handle, struct inode *inode, struct ext4_map_blocks *map,
		      const struct ext4_map_alloc *how);
/* As ext4_ext_remove_step(), for an indirect map. */
int ext4_ind_remove_step(handle_t *handle, struct inode *inode, ext4_lblk_t start, ext4_lblk_t *end,
			 bool *done);
unsigned ext4_ind_remove_credits(void);

#endif
