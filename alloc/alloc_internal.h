/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef ALLOC_ALLOC_INTERNAL_H
#define ALLOC_ALLOC_INTERNAL_H
/*
 * What the files of alloc/ share: the allocator's part of an inode, and the calls between mapper and accounting.
 *
 * i_blocks is kept by mballoc: ext4_mb_new_blocks and ext4_new_meta_block add, ext4_free_blocks (without NO_QUOT) and
 * ext4_free_unused_blocks subtract; the mapper only marks the inode dirty.
 */

#include "alloc/alloc.h"
#include "alloc/extent_status.h"
#include "alloc/map.h"
#include "alloc/mballoc.h"

struct mb_pa;
TAILQ_HEAD(mb_pa_list, mb_pa);

struct ext4_inode_alloc {
	struct inode *ia_inode; /* [const after init] */

	/* extent_status.c */
	struct mutex i_es_lock;		  /* ES */
	struct es_tree ia_es_tree;	  /* [i_es_lock] */
	struct es_node *ia_es_cache;	  /* [i_es_lock] the node of the last look-up */
	struct es_clean_list ia_es_clean; /* [i_es_lock] runs that may be dropped, oldest first */
	struct es_node *ia_es_spares;	  /* [i_es_lock] */
	uint32_t ia_es_nr_spares;	  /* [i_es_lock] */
	uint32_t ia_es_ops;		  /* [i_es_lock] changes that spares are set aside for */
	uint32_t ia_es_nr;		  /* [i_es_lock] nodes */
	uint32_t ia_es_nr_delayed;	  /* [i_es_lock] nodes that are delayed */
	uint32_t ia_es_delayed_blocks;	  /* [i_es_lock] blocks in them */
	uint32_t ia_es_mutations;	  /* [i_es_lock] when to check */
	TAILQ_ENTRY(ext4_inode_alloc) ia_link; /* [shrinker lock] */
	bool ia_linked;			       /* [shrinker lock] */

	/* extent_tree.c: the root in i_block was checked since the inode was read */
	_Atomic bool ia_root_checked; /* [atomic] */
	uint32_t ia_ext_mutations;    /* [i_data_sem] when to check */

	/* reserve.c */
	uint32_t ia_reserved;	   /* [i_es_lock] i_reserved_data_blocks */
	uint32_t ia_reserved_meta; /* [i_es_lock] metadata blocks that may be needed for them */
	uint32_t ia_da_runs;	/* [i_es_lock] runs they were reserved in, 0 when there are none */
	ext4_lblk_t ia_da_next; /* [i_es_lock] block after the last one reserved */

	/* prealloc.c */
	struct mb_pa_list ia_pas;   /* [mb_pa_lock] */
	_Atomic uint32_t ia_nr_pas; /* [mb_pa_lock for changes] */
	_Atomic bool ia_closed; /* [atomic] no writer left: nothing is preallocated past the end */
};

/*
 * nblocks delayed blocks of the inode were just allocated and are not delayed in the status tree any more: their reservation (and a share of the metadata's) ends.
 * i_data_sem held for write, i_es_lock not.
 */
void ext4_da_update_reserve_space(struct inode *inode, uint32_t nblocks);

/* ext4_map_blocks() without allocation for a caller that holds i_data_sem (read or write). */
int ext4_map_lookup_locked(struct inode *inode, struct ext4_map_blocks *map);

#endif
