/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * extent_convert.c - unwritten extents become written at I/O completion, written ones unwritten for zero range.
 *
 * The part of an extent that changes its kind is cut out; the pieces, joined with each other and with the neighbours in the leaf, replace what was there in one splice: at most three extents
 * become at most three. A conversion may need a block for a split and must not fail for want of it: it may use the reserved
 * pool. Data is never zeroed to avoid a split.
 *
 * Invariants: (1) blocks and their order do not change, only the kind; (2) when the leaf's change is done the extent
 * status tree is told, before i_data_sem is dropped.
 * Locking: ext4_convert_unwritten_extents takes i_data_sem; a handle that it restarts is restarted without it.
 */
#include <string.h>

#include "alloc/extents.h"
#include "ext4/inode.h"
#include "ext4/jbd2_glue.h"
#include "ext4/super.h"

/* ---- One extent ---- */

/* Append a piece, in two if it is too long for its kind. */
static int add_piece(struct ext4_ext_rec *recs, int n, struct ext4_ext_rec rec, ext4_lblk_t lblk,
		     uint64_t end)
{
	struct ext4_ext_rec piece = rec;

	if (end <= lblk)
		return n;
	piece.er_lblk = lblk;
	piece.er_len = (uint32_t)(end - lblk);
	piece.er_pblk += lblk - rec.er_lblk;
	if (piece.er_unwritten && piece.er_len > EXT_UNINIT_MAX_LEN) {
		struct ext4_ext_rec rest = piece;

		piece.er_len = (uint32_t)EXT_UNINIT_MAX_LEN;
		rest.er_lblk += piece.er_len;
		rest.er_pblk += piece.er_len;
		rest.er_len -= piece.er_len;
		recs[n++] = piece;
		recs[n++] = rest;
		return n;
	}
	recs[n++] = piece;
	return n;
}

/* The splice that gives [lblk, end) of the extent at n_pos another kind. */
static void make_splice(struct ext4_ext_node *leaf, const struct ext4_ext_rec *rec,
			ext4_lblk_t lblk, uint64_t end, struct ext4_ext_splice *sp)
{
	struct ext4_ext_rec recs[6], near, other = *rec;
	int n = 0;

	sp->s_pos = leaf->n_pos;
	sp->s_old = 1;
	other.er_unwritten = !rec->er_unwritten;
	n = add_piece(recs, n, *rec, rec->er_lblk, lblk);
	n = add_piece(recs, n, other, lblk, end);
	n = add_piece(recs, n, *rec, (ext4_lblk_t)end, ext4_rec_end(rec));
	if (leaf->n_pos > 0) {
		ext4_ext_get_rec(leaf->n_hdr, leaf->n_pos - 1, &near);
		if (ext4_ext_can_merge(&near, &recs[0])) {
			near.er_len += recs[0].er_len;
			recs[0] = near;
			sp->s_pos--;
			sp->s_old++;
		}
	}
	if (leaf->n_pos + 1 < (int)ext4_ext_entries(leaf->n_hdr)) {
		ext4_ext_get_rec(leaf->n_hdr, leaf->n_pos + 1, &near);
		if (ext4_ext_can_merge(&recs[n - 1], &near)) {
			recs[n - 1].er_len += near.er_len;
			sp->s_old++;
		}
	}
	ASSERT_CMP(n, <=, EXT4_EXT_NEW_MAX);
	sp->s_new = n;
	memcpy(sp->s_rec, recs, (unsigned)n * sizeof(recs[0]));
}

/* As ext4_ext_convert(), the path found. It is put. *pblk: where lblk lies. */
static int convert_at(handle_t *handle, struct inode *inode, struct ext4_ext_path *path,
		      ext4_lblk_t lblk, ext4_lblk_t *len, bool unwritten)
{
	struct ext4_ext_node *leaf = ext4_ext_leaf(path);
	struct ext4_ext_splice sp;
	struct ext4_ext_rec rec = {0};
	ext4_fsblk_t pblk;
	int err;

	if (leaf->n_pos >= 0)
		ext4_ext_get_rec(leaf->n_hdr, leaf->n_pos, &rec);
	if (leaf->n_pos < 0 || ext4_rec_end(&rec) <= lblk) {
		ext4_ext_put_path(path);
		return ext4_error(inode->i_sb, inode->i_ino,
				  "block %u is a hole and was thought to be mapped", lblk);
	}
	if (*len > ext4_rec_end(&rec) - lblk)
		*len = (ext4_lblk_t)(ext4_rec_end(&rec) - lblk);
	if (rec.er_unwritten == unwritten) {
		ext4_ext_put_path(path);
		return 0;
	}
	err = ext4_es_reserve(inode, 1);
	if (err < 0) {
		ext4_ext_put_path(path);
		return err;
	}
	pblk = rec.er_pblk + (lblk - rec.er_lblk);
	make_splice(leaf, &rec, lblk, (uint64_t)lblk + *len, &sp);
	err = ext4_ext_leaf_update(handle, inode, path, &sp, EXT4_MB_USE_RESERVED);
	if (err < 0)
		return err;
	err = ext4_es_insert(inode, lblk, *len, pblk, unwritten ? ES_UNWRITTEN : ES_WRITTEN);
	ASSERT_CMP(err, ==, 0);
	return ext4_ext_collapse(handle, inode, false);
}

int ext4_ext_convert(handle_t *handle, struct inode *inode, ext4_lblk_t lblk, ext4_lblk_t *len,
		     bool unwritten)
{
	struct ext4_ext_path path;
	int err = ext4_ext_find(inode, lblk, &path);

	if (err < 0)
		return err;
	return convert_at(handle, inode, &path, lblk, len, unwritten);
}

/* ---- A range ---- */

/* Convert the first extent at or after *lblk, or step over what needs nothing. i_data_sem is held for write. */
static int convert_step(handle_t *handle, struct inode *inode, ext4_lblk_t *lblk, uint64_t end)
{
	struct ext4_ext_path path;
	struct ext4_ext_node *leaf;
	struct ext4_ext_rec rec = {0};
	ext4_lblk_t len = (ext4_lblk_t)(end - *lblk);
	int err = ext4_ext_find(inode, *lblk, &path);

	if (err < 0)
		return err;
	leaf = ext4_ext_leaf(&path);
	if (leaf->n_pos >= 0)
		ext4_ext_get_rec(leaf->n_hdr, leaf->n_pos, &rec);
	if (leaf->n_pos >= 0 && ext4_rec_end(&rec) > *lblk) {
		err = convert_at(handle, inode, &path, *lblk, &len, false);
	} else {
		uint64_t next = leaf->n_end;

		if (leaf->n_pos + 1 < (int)ext4_ext_entries(leaf->n_hdr))
			next = le32_to_cpu(ext4_ext_entry(leaf->n_hdr, leaf->n_pos + 1)->ee_block);
		if (next - *lblk < len)
			len = (ext4_lblk_t)(next - *lblk);
		ext4_ext_put_path(&path);
	}
	if (err == 0)
		*lblk += len;
	return err;
}

static int convert_step_in_handle(handle_t *handle, struct inode *inode, ext4_lblk_t *lblk,
				  uint64_t end)
{
	int err, dirty_err;

	down_write(&inode->i_data_sem);
	err = convert_step(handle, inode, lblk, end);
	dirty_err = ext4_mark_inode_dirty(handle, inode);
	up_write(&inode->i_data_sem);
	return err < 0 ? err : dirty_err;
}

int ext4_convert_unwritten_extents(handle_t *handle, struct inode *inode, ext4_lblk_t lblk,
				   ext4_lblk_t len)
{
	unsigned credits = ext4_chunk_trans_blocks(inode);
	uint64_t end = (uint64_t)lblk + len;
	handle_t *own = NULL;
	int err = 0;

	if (!ext4_is_extents(inode))
		return 0;
	ASSERT_CMP(end, <=, (uint64_t)EXT4_MAX_BLOCKS);
	if (handle == NULL) {
		own = ext4_journal_start(inode, HT_EXT_CONVERT, credits);
		if (IS_ERR(own))
			return PTR_ERR(own);
		handle = own;
	}
	/* lblk grows with each step. */
	for (bool first = true; err == 0 && lblk < end; first = false) {
		if (!first) {
			err = ext4_journal_ensure_credits(handle, credits, 0);
			if (err < 0)
				break;
		}
		err = convert_step_in_handle(handle, inode, &lblk, end);
	}
	return own != NULL ? ext4_journal_stop(own, err) : err;
}
