/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef ALLOC_MAP_INTERNAL_H
#define ALLOC_MAP_INTERNAL_H
/* Changes of the map, behind ext4_map_blocks(). Private to alloc/. */

#include "alloc/map.h"

/* How a hole is to be allocated. */
struct ext4_map_alloc {
	bool ma_unwritten;
	unsigned ma_data_flags; /* EXT4_MB_* for the data */
	unsigned ma_meta_flags; /* EXT4_MB_* for blocks of the map itself */
};

/* map_change.c: the look-up, and then the allocation or conversion that flags ask for. i_data_sem held for write. Result as ext4_map_blocks(). */
int ext4_map_change_locked(handle_t *handle, struct inode *inode, struct ext4_map_blocks *map,
			   unsigned flags);

#endif
