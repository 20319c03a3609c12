/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * map.c - from logical to physical blocks: one function over the extent status tree, the extent tree and the indirect map.
 *
 * A question is answered from the extent status tree when it can be, without i_data_sem. Otherwise the map on disk is asked under i_data_sem and the whole run
 * that it tells of, extent or hole, is remembered. A hole is cut short where delayed blocks begin: only the status tree knows those.
 * A change looks first as a question would, and takes i_data_sem for write only when something must be changed. Then it allocates one run
 * with one call of mballoc and one insertion, or converts one extent, and the status tree is told last, together
 * with the accounting of the reservation that the run had.
 *
 * Invariants: (1) what the status tree says of a block that is not delayed is what the map on disk says; (2) a block that becomes allocated leaves
 * the delayed state and its reservation under one hold of i_data_sem; (3) nodes for the status tree are set aside before a block is allocated.
 * Locking: takes i_data_sem; see alloc/map.h.
 */
#include "alloc/map.h"

#include <string.h>

#include "alloc/alloc_internal.h"
#include "alloc/extents.h"
#include "alloc/indirect.h"
#include "alloc/map_internal.h"
#include "ext4/group.h"
#include "ext4/inode.h"
#include "ext4/jbd2_glue.h"
#include "ext4/super.h"
#include "util/assert.h"

#define MAP_MUST_CHANGE                                                                            \
	(EXT4_GET_BLOCKS_CREATE | EXT4_GET_BLOCKS_CONVERT | EXT4_GET_BLOCKS_CONVERT_UNWRITTEN)

/* ---- Look-up ---- */

static bool has_block_map(const struct inode *inode)
{
	return S_ISREG(inode->i_mode) || S_ISDIR(inode->i_mode) || S_ISLNK(inode->i_mode);
}

/* Describe the part of run that the request asked for. */
static int fill_map(struct ext4_map_blocks *map, const struct extent_status *run)
{
	ext4_lblk_t off = map->m_lblk - run->es_lblk;

	ASSERT_CMP(off, <, run->es_len);
	if (map->m_len > run->es_len - off)
		map->m_len = run->es_len - off;
	map->m_pblk = 0;
	map->m_flags = 0;
	if (run->es_state == ES_DELAYED)
		map->m_flags = EXT4_MAP_DELAYED;
	if ((run->es_state & (ES_WRITTEN | ES_UNWRITTEN)) == 0)
		return 0;
	map->m_pblk = run->es_pblk + off;
	map->m_flags = run->es_state == ES_WRITTEN ? EXT4_MAP_MAPPED : EXT4_MAP_UNWRITTEN;
	if (map->m_len > INT32_MAX)
		map->m_len = INT32_MAX;
	return (int)map->m_len;
}

/* Ask the map on disk and remember the answer. */
static int lookup_on_disk(struct inode *inode, struct ext4_map_blocks *map)
{
	struct extent_status run, known;
	int err = ext4_is_extents(inode) ? ext4_ext_lookup_run(inode, map->m_lblk, &run)
					 : ext4_ind_lookup_run(inode, map->m_lblk, &run);

	if (err < 0)
		return err;
	ext4_es_cache(inode, map->m_lblk, &run);
	/* What was kept ends before the next delayed block. */
	if (ext4_es_lookup(inode, map->m_lblk, &known))
		return fill_map(map, &known);
	err = fill_map(map, &run);
	if (err == 0 &&
	    ext4_es_find_delayed(inode, map->m_lblk, map->m_lblk + (map->m_len - 1), &known))
		map->m_len = known.es_lblk - map->m_lblk;
	return err;
}

int ext4_map_lookup_locked(struct inode *inode, struct ext4_map_blocks *map)
{
	struct extent_status run;

	if (ext4_es_lookup(inode, map->m_lblk, &run))
		return fill_map(map, &run);
	return lookup_on_disk(inode, map);
}

static int lookup(struct inode *inode, struct ext4_map_blocks *map)
{
	struct extent_status run;
	int ret;

	if (ext4_es_lookup(inode, map->m_lblk, &run))
		return fill_map(map, &run);
	down_read(&inode->i_data_sem);
	ret = ext4_map_lookup_locked(inode, map);
	up_read(&inode->i_data_sem);
	return ret;
}

/* ---- One call for all ---- */

/* True if what the look-up found is what the flags want. */
static bool satisfied(const struct ext4_map_blocks *map, unsigned flags)
{
	if (map->m_flags & EXT4_MAP_MAPPED)
		return (flags & EXT4_GET_BLOCKS_CONVERT_UNWRITTEN) == 0;
	if (map->m_flags & EXT4_MAP_UNWRITTEN)
		return (flags & EXT4_GET_BLOCKS_CONVERT) == 0;
	return (flags & EXT4_GET_BLOCKS_CREATE) == 0;
}

int ext4_map_blocks(handle_t *handle, struct inode *inode, struct ext4_map_blocks *map,
		    unsigned flags)
{
	uint32_t wanted;
	int ret;

	ASSERT_CMP(map->m_len, >, 0u);
	ASSERT(handle != NULL || (flags & MAP_MUST_CHANGE) == 0);
	map->m_flags = 0;
	map->m_pblk = 0;
	if (map->m_lblk >= EXT4_MAX_BLOCKS)
		return -EFBIG;
	if (!has_block_map(inode))
		return -EFSCORRUPTED;
	if (map->m_len > EXT4_MAX_BLOCKS - map->m_lblk)
		map->m_len = EXT4_MAX_BLOCKS - map->m_lblk;
	wanted = map->m_len;
	ret = lookup(inode, map);
	if (ret < 0 || (flags & MAP_MUST_CHANGE) == 0 || satisfied(map, flags))
		return ret;
	map->m_len = wanted;
	down_write(&inode->i_data_sem);
	ret = ext4_map_change_locked(handle, inode, map, flags);
	up_write(&inode->i_data_sem);
	return ret;
}

int ext4_next_extent(struct inode *inode, ext4_lblk_t lblk, ext4_lblk_t end,
		     struct extent_status *es)
{
	uint64_t pos = lblk;

	if (end >= EXT4_MAX_BLOCKS)
		end = EXT4_MAX_BLOCKS - 1;
	while (pos <= end) {
		struct ext4_map_blocks map = {
			.m_lblk = (ext4_lblk_t)pos,
			.m_len = end - (ext4_lblk_t)pos + 1,
		};
		int ret = ext4_map_blocks(NULL, inode, &map, 0);

		if (ret < 0)
			return ret;
		if (ret > 0 || (map.m_flags & EXT4_MAP_DELAYED) != 0) {
			es->es_lblk = map.m_lblk;
			es->es_len = map.m_len;
			es->es_pblk = map.m_pblk;
			es->es_state = map.m_flags & EXT4_MAP_DELAYED	  ? ES_DELAYED
				       : map.m_flags & EXT4_MAP_UNWRITTEN ? ES_UNWRITTEN
									  : ES_WRITTEN;
			return 0;
		}
		ASSERT_CMP(map.m_len, >, 0u);
		pos += map.m_len;
	}
	return -ENXIO;
}

/* ---- The root in i_block ---- */

void ext4_init_block_map(struct inode *inode)
{
	struct ext3_extent_header *hdr = ext4_ext_root(inode);

	mutex_lock(&inode->i_lock);
	memset(inode->i_block, 0, sizeof(inode->i_block));
	if (ext4_is_extents(inode)) {
		hdr->eh_magic = cpu_to_le16(EXT3_EXT_MAGIC);
		hdr->eh_max = cpu_to_le16(EXT4_EXT_ROOT_MAX);
	}
	mutex_unlock(&inode->i_lock);
}

int ext4_check_block_map(struct inode *inode, const char **why)
{
	*why = NULL;
	if (!has_block_map(inode))
		return 0;
	*why = ext4_is_extents(inode) ? ext4_ext_check_root(inode) : ext4_ind_check_root(inode);
	return *why != NULL ? -EFSCORRUPTED : 0;
}
