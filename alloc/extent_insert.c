/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * extent_insert.c - allocate a hole of an extent-mapped file and insert the extent, joined with its neighbours.
 *
 * The hole is bounded by the next extent of the leaf and by the longest extent of its kind. The goal continues the extent before, or leads up to the one after, at the
 * distance that the logical blocks have. One call of mballoc gets one run; one splice of the leaf inserts it, where it
 * replaces the neighbours that it joins. If the insertion fails the blocks go back.
 *
 * Invariants: (1) an extent is at most 32768 blocks long, an unwritten one at most 32767; (2) neighbours in a leaf that the splice touched are joined.
 * Locking: i_data_sem for write.
 */
#include <string.h>

#include "alloc/extents.h"
#include "ext4/group.h"
#include "ext4/super.h"

static uint32_t max_len(bool unwritten)
{
	return (uint32_t)(unwritten ? EXT_UNINIT_MAX_LEN : EXT_INIT_MAX_LEN);
}

bool ext4_ext_can_merge(const struct ext4_ext_rec *a, const struct ext4_ext_rec *b)
{
	return a->er_unwritten == b->er_unwritten && ext4_rec_end(a) == b->er_lblk &&
	       a->er_pblk + a->er_len == b->er_pblk &&
	       a->er_len + b->er_len <= max_len(a->er_unwritten);
}

int ext4_ext_coalesce(struct ext4_ext_rec *rec, int n)
{
	int out = 0;

	for (int i = 1; i < n; i++) {
		if (ext4_ext_can_merge(&rec[out], &rec[i]))
			rec[out].er_len += rec[i].er_len;
		else
			rec[++out] = rec[i];
	}
	return n > 0 ? out + 1 : 0;
}

int ext4_ext_insert_rec(handle_t *handle, struct inode *inode, struct ext4_ext_path *path,
			const struct ext4_ext_rec *rec, unsigned meta_flags)
{
	struct ext4_ext_node *leaf = ext4_ext_leaf(path);
	struct ext4_ext_splice sp = {.s_pos = leaf->n_pos + 1, .s_new = 1, .s_rec = {*rec}};
	struct ext4_ext_rec near;

	if (leaf->n_pos >= 0) {
		ext4_ext_get_rec(leaf->n_hdr, leaf->n_pos, &near);
		if (ext4_ext_can_merge(&near, &sp.s_rec[0])) {
			near.er_len += sp.s_rec[0].er_len;
			sp.s_rec[0] = near;
			sp.s_pos--;
			sp.s_old++;
		}
	}
	if (leaf->n_pos + 1 < (int)ext4_ext_entries(leaf->n_hdr)) {
		ext4_ext_get_rec(leaf->n_hdr, leaf->n_pos + 1, &near);
		if (ext4_ext_can_merge(&sp.s_rec[0], &near)) {
			sp.s_rec[0].er_len += near.er_len;
			sp.s_old++;
		}
	}
	return ext4_ext_leaf_update(handle, inode, path, &sp, meta_flags);
}

/* Neighbours and goal, as mballoc wants to know them: the last block before and the first one after. Returns the first block after the hole. */
static uint64_t fill_request(struct ext4_ext_path *path, struct ext4_allocation_request *ar)
{
	struct ext4_ext_node *leaf = ext4_ext_leaf(path);
	uint64_t end = leaf->n_end;
	struct ext4_ext_rec rec;

	if (leaf->n_pos + 1 < (int)ext4_ext_entries(leaf->n_hdr)) {
		ext4_ext_get_rec(leaf->n_hdr, leaf->n_pos + 1, &rec);
		end = rec.er_lblk;
		ar->ar_lright = rec.er_lblk;
		ar->ar_pright = rec.er_pblk;
		if (rec.er_pblk > rec.er_lblk - ar->ar_logical)
			ar->ar_goal = rec.er_pblk - (rec.er_lblk - ar->ar_logical);
	}
	if (leaf->n_pos >= 0) {
		ext4_ext_get_rec(leaf->n_hdr, leaf->n_pos, &rec);
		ar->ar_lleft = rec.er_lblk + (rec.er_len - 1);
		ar->ar_pleft = rec.er_pblk + (rec.er_len - 1);
		ar->ar_goal = ar->ar_pleft + (ar->ar_logical - ar->ar_lleft);
	}
	if (ar->ar_goal >= ar->ar_inode->i_sb->s_blocks_count)
		ar->ar_goal = 0;
	if (ar->ar_goal == 0 && leaf->n_bh != NULL)
		ar->ar_goal = leaf->n_bh->b_blocknr;
	return end;
}

static bool path_is_hole(struct ext4_ext_path *path, ext4_lblk_t lblk)
{
	struct ext4_ext_node *leaf = ext4_ext_leaf(path);
	struct ext4_ext_rec rec;

	if (leaf->n_pos < 0)
		return true;
	ext4_ext_get_rec(leaf->n_hdr, leaf->n_pos, &rec);
	return ext4_rec_end(&rec) <= lblk;
}

int ext4_ext_allocate(handle_t *handle, struct inode *inode, struct ext4_map_blocks *map,
		      const struct ext4_map_alloc *how)
{
	struct ext4_allocation_request ar = {
		.ar_inode = inode,
		.ar_logical = map->m_lblk,
		.ar_flags = how->ma_data_flags,
	};
	struct ext4_ext_rec rec = {.er_lblk = map->m_lblk, .er_unwritten = how->ma_unwritten};
	struct ext4_ext_path path;
	uint64_t len;
	int err = ext4_ext_find(inode, map->m_lblk, &path);

	if (err < 0)
		return err;
	if (!path_is_hole(&path, map->m_lblk)) {
		ext4_ext_put_path(&path);
		return ext4_error(inode->i_sb, inode->i_ino,
				  "block %u is mapped and was thought to be a hole", map->m_lblk);
	}
	len = fill_request(&path, &ar) - map->m_lblk;
	if (len > map->m_len)
		len = map->m_len;
	if (len > max_len(how->ma_unwritten))
		len = max_len(how->ma_unwritten);
	ar.ar_len = (uint32_t)len;
	rec.er_pblk = ext4_mb_new_blocks(handle, &ar, &err);
	if (rec.er_pblk == 0) {
		ext4_ext_put_path(&path);
		return err;
	}
	ASSERT_CMP(ar.ar_len, >, 0u);
	ASSERT_CMP(ar.ar_len, <=, len);
	rec.er_len = ar.ar_len;
	err = ext4_ext_insert_rec(handle, inode, &path, &rec, how->ma_meta_flags);
	if (err < 0) {
		ext4_free_unused_blocks(handle, inode, rec.er_pblk, rec.er_len);
		return err;
	}
	map->m_pblk = rec.er_pblk;
	map->m_len = rec.er_len;
	return 0;
}
