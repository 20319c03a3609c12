/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * map_change.c - the changing half of ext4_map_blocks(): allocate a hole or a delayed run, convert an
 * extent; and removal.
 *
 * With i_data_sem held for write the look-up is repeated, because another thread may have done the work, and then one thing is done to the first run. A delayed run that
 * the caller says is reserved is allocated against its reservation and no further than it goes; otherwise the hole is allocated as the disk has it, over
 * delayed blocks too, whose reservation ends then.
 *
 * Invariants: (1) blocks that become allocated leave the delayed state and their reservation together; (2) a failed allocation changes neither
 * the status tree nor the reservation, so that it can be tried again; (3) the inode is marked dirty whenever the map may have changed.
 * Locking: i_data_sem for write.
 */
#include <string.h>

#include "alloc/alloc_internal.h"
#include "alloc/extents.h"
#include "alloc/free_runs.h"
#include "alloc/indirect.h"
#include "ext4/inode.h"
#include "ext4/jbd2_glue.h"
#include "ext4/super.h"

static void choose_how(struct inode *inode, unsigned flags, bool reserved,
		       struct ext4_map_alloc *how)
{
	memset(how, 0, sizeof(*how));
	how->ma_unwritten = (flags & EXT4_GET_BLOCKS_UNWRIT_EXT) != 0;
	if (S_ISREG(inode->i_mode))
		how->ma_data_flags |= EXT4_MB_HINT_DATA;
	if (flags & EXT4_GET_BLOCKS_NO_NORMALIZE)
		how->ma_data_flags |= EXT4_MB_HINT_NORMALIZE_OFF | EXT4_MB_HINT_NOPREALLOC;
	if (reserved) {
		how->ma_data_flags |= EXT4_MB_DELALLOC_RESERVED;
		/* The reservation has a share for the map, but it is an estimate. */
		how->ma_meta_flags |= EXT4_MB_DELALLOC_RESERVED | EXT4_MB_USE_RESERVED;
	}
	if (flags & EXT4_GET_BLOCKS_METADATA_NOFAIL)
		how->ma_meta_flags |= EXT4_MB_USE_RESERVED;
}

/* New data must not meet an old metadata buffer of the same block. */
static void forget_aliases(struct inode *inode, const struct ext4_map_blocks *map)
{
	if (S_ISREG(inode->i_mode))
		bh_forget_range(inode->i_sb->s_bcache, map->m_pblk, map->m_len);
}

/* The hole or delayed run at map->m_lblk; what the look-up said is in map. */
static int allocate(handle_t *handle, struct inode *inode, struct ext4_map_blocks *map,
		    uint32_t wanted, unsigned flags)
{
	bool reserved = (map->m_flags & EXT4_MAP_DELAYED) != 0 &&
			(flags & EXT4_GET_BLOCKS_DELALLOC_RESERVE) != 0;
	struct ext4_map_alloc how;
	ext4_lblk_t delayed;
	int err, dirty_err;

	if (!reserved)
		map->m_len = wanted;
	choose_how(inode, flags, reserved, &how);
	err = ext4_es_reserve(inode, 1);
	if (err < 0)
		return err;
	err = ext4_is_extents(inode) ? ext4_ext_allocate(handle, inode, map, &how)
				     : ext4_ind_allocate(handle, inode, map, &how);
	if (err == 0) {
		delayed = ext4_es_delayed_blocks(inode, map->m_lblk, map->m_len);
		err = ext4_es_insert(inode, map->m_lblk, map->m_len, map->m_pblk,
				     how.ma_unwritten ? ES_UNWRITTEN : ES_WRITTEN);
		ASSERT_CMP(err, ==, 0);
		if (delayed > 0)
			ext4_da_update_reserve_space(inode, delayed);
		forget_aliases(inode, map);
	}
	dirty_err = ext4_mark_inode_dirty(handle, inode);
	if (err == 0)
		err = dirty_err;
	if (err < 0)
		return err;
	map->m_flags = EXT4_MAP_NEW | (how.ma_unwritten ? EXT4_MAP_UNWRITTEN : EXT4_MAP_MAPPED);
	return (int)map->m_len;
}

static int convert(handle_t *handle, struct inode *inode, struct ext4_map_blocks *map,
		   bool unwritten)
{
	int err = ext4_ext_convert(handle, inode, map->m_lblk, &map->m_len, unwritten);
	int dirty_err = ext4_mark_inode_dirty(handle, inode);

	if (err == 0)
		err = dirty_err;
	if (err < 0)
		return err;
	map->m_flags = unwritten ? EXT4_MAP_UNWRITTEN : EXT4_MAP_MAPPED;
	return (int)map->m_len;
}

int ext4_map_change_locked(handle_t *handle, struct inode *inode, struct ext4_map_blocks *map,
			   unsigned flags)
{
	uint32_t wanted = map->m_len;
	int ret = ext4_map_lookup_locked(inode, map);

	if (ret < 0)
		return ret;
	if (!ext4_is_extents(inode) &&
	    (flags & (EXT4_GET_BLOCKS_UNWRIT_EXT | EXT4_GET_BLOCKS_CONVERT_UNWRITTEN)) != 0)
		return -EOPNOTSUPP;
	if ((map->m_flags & EXT4_MAP_UNWRITTEN) != 0 && (flags & EXT4_GET_BLOCKS_CONVERT) != 0)
		return convert(handle, inode, map, false);
	if ((map->m_flags & EXT4_MAP_MAPPED) != 0 &&
	    (flags & EXT4_GET_BLOCKS_CONVERT_UNWRITTEN) != 0)
		return convert(handle, inode, map, true);
	if (ret > 0 || (flags & EXT4_GET_BLOCKS_CREATE) == 0)
		return ret;
	return allocate(handle, inode, map, wanted, flags);
}

/* ---- Removal ---- */

/* A fast symlink has its target where the map would be. */
static bool maps_blocks(const struct inode *inode)
{
	if (S_ISLNK(inode->i_mode))
		return ext4_is_extents(inode) || i_size_read(inode) >= sizeof(inode->i_block);
	return S_ISREG(inode->i_mode) || S_ISDIR(inode->i_mode);
}

static int remove_step(handle_t *handle, struct inode *inode, ext4_lblk_t start, ext4_lblk_t *end,
		       bool *done)
{
	int err;

	down_write(&inode->i_data_sem);
	err = ext4_is_extents(inode) ? ext4_ext_remove_step(handle, inode, start, end, done)
				     : ext4_ind_remove_step(handle, inode, start, end, done);
	up_write(&inode->i_data_sem);
	return err;
}

/* What is left may fit into the inode. */
static int collapse(handle_t *handle, struct inode *inode, unsigned revokes)
{
	int err, dirty_err;
	bool worth;

	down_read(&inode->i_data_sem);
	worth = ext4_is_extents(inode) && ext4_ext_worth_collapsing(inode);
	up_read(&inode->i_data_sem);
	if (!worth)
		return 0;
	err = ext4_journal_ensure_credits(handle, EXT4_EXT_COLLAPSE_CREDITS + 1, revokes);
	if (err < 0)
		return err;
	down_write(&inode->i_data_sem);
	err = ext4_ext_collapse(handle, inode, true);
	dirty_err = ext4_mark_inode_dirty(handle, inode);
	up_write(&inode->i_data_sem);
	return err < 0 ? err : dirty_err;
}

/* Credits of a step. */
static unsigned step_credits(struct inode *inode)
{
	unsigned needed, usual = ext4_truncate_trans_blocks(inode);

	down_read(&inode->i_data_sem);
	needed =
		ext4_is_extents(inode) ? ext4_ext_remove_credits(inode) : ext4_ind_remove_credits();
	up_read(&inode->i_data_sem);
	return usual > needed ? usual : needed;
}

int ext4_remove_space(handle_t *handle, struct inode *inode, ext4_lblk_t start, ext4_lblk_t end)
{
	unsigned credits = step_credits(inode);
	unsigned revokes = ext4_free_runs_revokes(inode, EXT4_EXT_MAX_DEPTH + 1);
	bool done = false;
	int err = 0;

	if (!maps_blocks(inode))
		return 0;
	if (end >= EXT4_MAX_BLOCKS - 1) {
		end = EXT4_MAX_BLOCKS - 1;
		ext4_discard_preallocations(inode);
	}
	if (start > end)
		return 0;
	if (ext4_es_has_delayed(inode, start, end))
		ext4_da_release_range(inode, start, end - start + 1);
	err = ext4_journal_ensure_credits(handle, credits, revokes);
	/* Its block is at hand from here on: what a step changes can be written. */
	if (err >= 0)
		err = ext4_prepare_inode_write(handle, inode);
	/* Each step lowers end, or takes a node out of the tree. */
	while (err >= 0 && !done) {
		err = ext4_journal_ensure_credits(handle, credits, revokes);
		if (err >= 0)
			err = remove_step(handle, inode, start, &end, &done);
	}
	return err < 0 ? err : collapse(handle, inode, revokes);
}
