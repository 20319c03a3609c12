/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * extent_update.c - changes of the extent tree's nodes: replace entries of a leaf, split, grow, drop, collapse.
 *
 * Every change of the tree is a splice of one leaf. If the result fits, the leaf is rewritten in place, and the keys above it when its first block changes. If not, the way up is
 * prepared first, from the top: a full root is pushed down into a new block (the tree grows), a full index node is split, until the leaf's
 * parent has a free entry; each of these steps leaves a complete tree. Then the leaf is split and spliced in one go.
 * A leaf that is appended to is left full and the new one starts empty, so that a file written in order has full leaves.
 * Every step first gets all it can fail to get (blocks, write access, memory) and then changes the nodes, so a failure finds the tree whole.
 *
 * Invariants: (1) the key of an index entry is the first key of its child; (2) only the root may be empty; (3) a node is changed under its buffer lock
 * (the root under i_lock), its checksum is due from then on, and it is declared dirty after that.
 * Locking: i_data_sem for write. At most one buffer lock is held.
 */
#include <stdlib.h>
#include <string.h>

#include "alloc/extents.h"
#include "ext4/group.h"
#include "ext4/inode.h"
#include "ext4/jbd2_glue.h"
#include "ext4/super.h"

/* Growing and splitting at each level, with room to spare: more steps mean a bug. */
#define MAKE_ROOM_STEPS (2 * (EXT4_EXT_MAX_DEPTH + 1))
/* Debug builds check what they changed; small nodes always, large ones at every 256th change. */
#ifdef EXT4D_DEBUG
#define CHECK_NODES true
#else
#define CHECK_NODES false
#endif
#define CHECK_ALWAYS 64u
#define CHECK_EVERY 256u
#define COLLAPSE_CREDITS 3u /* bitmap and descriptor of the freed node, inode */

_Static_assert(EXT4_EXT_COLLAPSE_CREDITS >= (COLLAPSE_CREDITS + 1) * EXT4_EXT_MAX_DEPTH,
	       "each level, and a block of revoke records");

/* ---- One node ---- */

static int node_access(handle_t *handle, struct ext4_ext_node *node)
{
	return node->n_bh != NULL ? ext4_journal_get_write_access(handle, node->n_bh) : 0;
}

/* Levels top..bottom of the path. */
static int path_access(handle_t *handle, struct ext4_ext_path *path, int top, int bottom)
{
	int err = 0;

	for (int i = top; i <= bottom && err == 0; i++)
		err = node_access(handle, &path->p_node[i]);
	return err;
}

static void node_lock(struct inode *inode, struct ext4_ext_node *node)
{
	if (node->n_bh != NULL)
		lock_buffer(node->n_bh);
	else
		mutex_lock(&inode->i_lock);
}

static void node_unlock(struct inode *inode, struct ext4_ext_node *node)
{
	if (node->n_bh == NULL) {
		mutex_unlock(&inode->i_lock);
		return;
	}
	ext4_extent_block_csum_later(inode, node->n_bh);
	unlock_buffer(node->n_bh);
}

/* Not asserted: a block that something else claims too can be bad. */
static bool node_is_good(struct inode *inode, struct ext4_ext_node *node)
{
	struct ext4_inode_alloc *ia = inode->i_alloc;
	size_t size = node->n_bh != NULL ? node->n_bh->b_size : sizeof(inode->i_block);

	if (ext4_ext_entries(node->n_hdr) > CHECK_ALWAYS &&
	    ++ia->ia_ext_mutations % CHECK_EVERY != 0)
		return true;
	return ext4_ext_check_node(inode, node->n_hdr, size, ext4_ext_depth(node->n_hdr), 0,
				   node->n_end) == NULL;
}

/* The root is written by the caller's ext4_mark_inode_dirty. */
static int path_dirty(handle_t *handle, struct inode *inode, struct ext4_ext_path *path, int top,
		      int bottom)
{
	int err = 0;

	for (int i = top; i <= bottom; i++) {
		struct ext4_ext_node *node = &path->p_node[i];
		int one = 0;

		if (node->n_bh != NULL)
			one = ext4_handle_dirty_metadata(handle, inode, node->n_bh);
		if (one == 0 && CHECK_NODES && !node_is_good(inode, node))
			one = ext4_error(inode->i_sb, inode->i_ino,
					 "bad extent node after a change");
		if (err == 0)
			err = one;
	}
	return err;
}

/* A block for a new node, with create access; nothing in it is set. ERR_PTR on failure. */
static struct buffer_head *new_node(handle_t *handle, struct inode *inode,
				    struct ext4_ext_path *path, unsigned mb_flags)
{
	struct buffer_head *near = ext4_ext_leaf(path)->n_bh, *bh;
	ext4_fsblk_t goal = near != NULL ? near->b_blocknr : ext4_inode_goal(inode);
	ext4_fsblk_t pblk;
	int err = 0;

	pblk = ext4_new_meta_block(handle, inode, goal, mb_flags, &err);
	if (pblk == 0)
		return ERR_PTR(err);
	bh = bh_get(inode->i_sb->s_bcache, pblk);
	if (IS_ERR(bh)) {
		ext4_free_unused_blocks(handle, inode, pblk, 1);
		return bh;
	}
	err = ext4_journal_get_create_access(handle, bh);
	if (err < 0) {
		bh_put(bh);
		ext4_free_unused_blocks(handle, inode, pblk, 1);
		return ERR_PTR(err);
	}
	return bh;
}

/* new_node() undone before the node was used. */
static void drop_new_node(handle_t *handle, struct inode *inode, struct buffer_head *bh)
{
	ext4_fsblk_t pblk = bh->b_blocknr;

	ext4_forget(handle, false, inode, bh, pblk);
	ext4_free_unused_blocks(handle, inode, pblk, 1);
}

static void fill_node(struct inode *inode, struct buffer_head *bh, unsigned depth,
		      const struct ext3_extent *entries, unsigned n)
{
	struct ext3_extent_header *hdr = (struct ext3_extent_header *)(void *)bh->b_data;

	lock_buffer(bh);
	memset(bh->b_data, 0, bh->b_size);
	hdr->eh_magic = cpu_to_le16(EXT3_EXT_MAGIC);
	hdr->eh_entries = cpu_to_le16((uint16_t)n);
	hdr->eh_max = cpu_to_le16((uint16_t)ext4_ext_space_block(inode->i_sb));
	hdr->eh_depth = cpu_to_le16((uint16_t)depth);
	memcpy(hdr + 1, entries, n * sizeof(*entries));
	ext4_extent_block_csum_later(inode, bh);
	bh_set(bh, BH_UPTODATE | BH_VERIFIED);
	unlock_buffer(bh);
}

static void set_idx(struct ext3_extent_idx *idx, ext4_lblk_t lblk, ext4_fsblk_t pblk)
{
	idx->ei_block = cpu_to_le32(lblk);
	idx->ei_leaf = cpu_to_le32((uint32_t)pblk);
	idx->ei_leaf_hi = cpu_to_le16((uint16_t)(pblk >> 32));
	idx->ei_unused = 0;
}

/* ---- Keys ---- */

static ext4_lblk_t first_key(struct ext3_extent_header *hdr)
{
	return le32_to_cpu(ext4_ext_entry(hdr, 0)->ee_block);
}

static ext4_lblk_t chosen_key(const struct ext4_ext_node *node)
{
	return le32_to_cpu(ext4_ext_idx(node->n_hdr, node->n_pos)->ei_block);
}

/* The node at `level` will begin at `key`: the topmost level that must change for it; `level` itself if none. */
static int keys_top(struct ext4_ext_path *path, int level, ext4_lblk_t key)
{
	while (level > 0 && chosen_key(&path->p_node[level - 1]) != key) {
		level--;
		if (path->p_node[level].n_pos > 0)
			break;
	}
	return level;
}

static void set_keys(struct inode *inode, struct ext4_ext_path *path, int top, int level,
		     ext4_lblk_t key)
{
	for (int i = level - 1; i >= top; i--) {
		struct ext4_ext_node *node = &path->p_node[i];

		node_lock(inode, node);
		ext4_ext_idx(node->n_hdr, node->n_pos)->ei_block = cpu_to_le32(key);
		node_unlock(inode, node);
	}
}

/* ---- Growing and splitting ---- */

/* Push the root's content down into a new block. The path is not true afterwards. */
static int grow(handle_t *handle, struct inode *inode, struct ext4_ext_path *path,
		unsigned mb_flags)
{
	struct ext4_ext_node *root = &path->p_node[0];
	struct buffer_head *bh;
	ext4_lblk_t key;
	int err;

	if (path->p_depth >= EXT4_EXT_MAX_DEPTH)
		return -EFBIG;
	bh = new_node(handle, inode, path, mb_flags);
	if (IS_ERR(bh))
		return PTR_ERR(bh);
	key = first_key(root->n_hdr);
	fill_node(inode, bh, (unsigned)path->p_depth, ext4_ext_entry(root->n_hdr, 0),
		  ext4_ext_entries(root->n_hdr));
	node_lock(inode, root);
	memset(root->n_hdr + 1, 0, EXT4_EXT_ROOT_MAX * sizeof(struct ext3_extent));
	set_idx(ext4_ext_idx(root->n_hdr, 0), key, bh->b_blocknr);
	root->n_hdr->eh_entries = cpu_to_le16(1);
	root->n_hdr->eh_max = cpu_to_le16(EXT4_EXT_ROOT_MAX);
	root->n_hdr->eh_depth = cpu_to_le16((uint16_t)(path->p_depth + 1));
	node_unlock(inode, root);
	err = ext4_handle_dirty_metadata(handle, inode, bh);
	bh_put(bh);
	return err;
}

/* What a node is split into: all of its entries to be, and how many of them stay. */
struct ext_split {
	struct ext3_extent *sl_all;
	unsigned sl_total;
	unsigned sl_keep;
};

static void insert_idx(struct inode *inode, struct ext4_ext_node *parent, ext4_lblk_t key,
		       ext4_fsblk_t pblk)
{
	unsigned n = ext4_ext_entries(parent->n_hdr);
	int at = parent->n_pos + 1;

	ASSERT_CMP(n, <, ext4_ext_max(parent->n_hdr));
	node_lock(inode, parent);
	memmove(ext4_ext_idx(parent->n_hdr, at + 1), ext4_ext_idx(parent->n_hdr, at),
		((int)n - at) * sizeof(struct ext3_extent_idx));
	set_idx(ext4_ext_idx(parent->n_hdr, at), key, pblk);
	parent->n_hdr->eh_entries = cpu_to_le16((uint16_t)(n + 1));
	node_unlock(inode, parent);
}

/* Split the node at `level`, whose parent has room. The path is not true afterwards. */
static int split_node(handle_t *handle, struct inode *inode, struct ext4_ext_path *path, int level,
		      const struct ext_split *sl, unsigned mb_flags)
{
	struct ext4_ext_node *node = &path->p_node[level];
	ext4_lblk_t left_key = le32_to_cpu(sl->sl_all[0].ee_block);
	ext4_lblk_t right_key = le32_to_cpu(sl->sl_all[sl->sl_keep].ee_block);
	int top = keys_top(path, level, left_key);
	struct buffer_head *right;
	int err;

	ASSERT_CMP(level, >, 0);
	ASSERT_CMP(sl->sl_keep, >, 0u);
	ASSERT_CMP(sl->sl_keep, <, sl->sl_total);
	right = new_node(handle, inode, path, mb_flags);
	if (IS_ERR(right))
		return PTR_ERR(right);
	if (top == level)
		top = level - 1;
	err = path_access(handle, path, top, level);
	if (err < 0) {
		drop_new_node(handle, inode, right);
		return err;
	}
	fill_node(inode, right, ext4_ext_depth(node->n_hdr), sl->sl_all + sl->sl_keep,
		  sl->sl_total - sl->sl_keep);
	node_lock(inode, node);
	memcpy(node->n_hdr + 1, sl->sl_all, sl->sl_keep * sizeof(*sl->sl_all));
	node->n_hdr->eh_entries = cpu_to_le16((uint16_t)sl->sl_keep);
	node_unlock(inode, node);
	set_keys(inode, path, top, level, left_key);
	insert_idx(inode, node - 1, right_key, right->b_blocknr);
	node->n_end = right_key;
	err = ext4_handle_dirty_metadata(handle, inode, right);
	if (err == 0)
		err = path_dirty(handle, inode, path, top, level);
	bh_put(right);
	return err;
}

/* Split the full index node at `level`, whose parent has room. */
static int split_index(handle_t *handle, struct inode *inode, struct ext4_ext_path *path, int level,
		       unsigned mb_flags)
{
	struct ext4_ext_node *node = &path->p_node[level];
	unsigned n = ext4_ext_entries(node->n_hdr);
	struct ext_split sl = {.sl_total = n};
	int err;

	sl.sl_all = malloc(n * sizeof(*sl.sl_all));
	if (sl.sl_all == NULL)
		return -ENOMEM;
	memcpy(sl.sl_all, node->n_hdr + 1, n * sizeof(*sl.sl_all));
	sl.sl_keep = node->n_pos == (int)n - 1 ? n - 1 : n / 2;
	err = split_node(handle, inode, path, level, &sl, mb_flags);
	free(sl.sl_all);
	return err;
}

static bool node_full(const struct ext4_ext_node *node)
{
	return ext4_ext_entries(node->n_hdr) >= ext4_ext_max(node->n_hdr);
}

/* One step towards room in the leaf's parent. 1: there is room; 0: a step was made and the path must be found again; < 0 error. */
static int make_room_step(handle_t *handle, struct inode *inode, struct ext4_ext_path *path,
			  unsigned mb_flags)
{
	int level = path->p_depth - 1;

	while (level >= 0 && node_full(&path->p_node[level]))
		level--;
	if (level < 0)
		return grow(handle, inode, path, mb_flags);
	if (level == path->p_depth - 1)
		return 1;
	return split_index(handle, inode, path, level + 1, mb_flags);
}

/* ---- Leaves ---- */

static unsigned spliced_entries(struct ext4_ext_node *leaf, const struct ext4_ext_splice *sp)
{
	return ext4_ext_entries(leaf->n_hdr) - (unsigned)sp->s_old + (unsigned)sp->s_new;
}

/* The splice fits and leaves something: change the leaf in place. */
static int replace_in_leaf(handle_t *handle, struct inode *inode, struct ext4_ext_path *path,
			   const struct ext4_ext_splice *sp)
{
	struct ext4_ext_node *leaf = ext4_ext_leaf(path);
	unsigned n = ext4_ext_entries(leaf->n_hdr), total = spliced_entries(leaf, sp);
	int level = path->p_depth, top = level, err;
	ext4_lblk_t key = 0;

	if (sp->s_pos == 0 && total > 0) {
		key = sp->s_new > 0 ? sp->s_rec[0].er_lblk
				    : le32_to_cpu(ext4_ext_entry(leaf->n_hdr, sp->s_old)->ee_block);
		top = keys_top(path, level, key);
	}
	err = path_access(handle, path, top, level);
	if (err < 0)
		return err;
	node_lock(inode, leaf);
	memmove(ext4_ext_entry(leaf->n_hdr, sp->s_pos + sp->s_new),
		ext4_ext_entry(leaf->n_hdr, sp->s_pos + sp->s_old),
		(n - (unsigned)(sp->s_pos + sp->s_old)) * sizeof(struct ext3_extent));
	for (int i = 0; i < sp->s_new; i++)
		ext4_ext_set_rec(ext4_ext_entry(leaf->n_hdr, sp->s_pos + i), &sp->s_rec[i]);
	leaf->n_hdr->eh_entries = cpu_to_le16((uint16_t)total);
	node_unlock(inode, leaf);
	set_keys(inode, path, top, level, key);
	return path_dirty(handle, inode, path, top, level);
}

/* How many entries stay in the old leaf. */
static unsigned split_point(struct ext4_ext_node *leaf, const struct ext4_ext_splice *sp,
			    unsigned total)
{
	unsigned n = ext4_ext_entries(leaf->n_hdr);

	if (sp->s_pos + sp->s_old == (int)n)
		return ext4_ext_max(leaf->n_hdr);
	if (sp->s_pos == 0 && sp->s_old == 0)
		return (unsigned)sp->s_new;
	return total / 2;
}

/* The splice does not fit; the parent has room. */
static int split_leaf(handle_t *handle, struct inode *inode, struct ext4_ext_path *path,
		      const struct ext4_ext_splice *sp, unsigned mb_flags)
{
	struct ext4_ext_node *leaf = ext4_ext_leaf(path);
	unsigned n = ext4_ext_entries(leaf->n_hdr);
	struct ext_split sl = {.sl_total = spliced_entries(leaf, sp)};
	int tail = sp->s_pos + sp->s_old, err;

	sl.sl_all = malloc(sl.sl_total * sizeof(*sl.sl_all));
	if (sl.sl_all == NULL)
		return -ENOMEM;
	memcpy(sl.sl_all, ext4_ext_entry(leaf->n_hdr, 0), (unsigned)sp->s_pos * sizeof(*sl.sl_all));
	for (int i = 0; i < sp->s_new; i++)
		ext4_ext_set_rec(&sl.sl_all[sp->s_pos + i], &sp->s_rec[i]);
	memcpy(&sl.sl_all[sp->s_pos + sp->s_new], ext4_ext_entry(leaf->n_hdr, tail),
	       (n - (unsigned)tail) * sizeof(*sl.sl_all));
	sl.sl_keep = split_point(leaf, sp, sl.sl_total);
	ASSERT_CMP(sl.sl_total - sl.sl_keep, <=, ext4_ext_space_block(inode->i_sb));
	err = split_node(handle, inode, path, path->p_depth, &sl, mb_flags);
	free(sl.sl_all);
	return err;
}

/* ---- Dropping ---- */

struct freed_nodes {
	int fn_n;
	ext4_fsblk_t fn_pblk[EXT4_EXT_MAX_DEPTH];
};

/* The nodes at levels from..to leave the tree: no cached check of them counts any more. */
static void note_freed(struct ext4_ext_path *path, int from, int to, struct freed_nodes *fn)
{
	fn->fn_n = 0;
	for (int i = from; i <= to; i++) {
		bh_clear(path->p_node[i].n_bh, BH_VERIFIED);
		fn->fn_pblk[fn->fn_n++] = path->p_node[i].n_bh->b_blocknr;
	}
}

/* The nodes at levels from..to are going to be freed. */
static int prepare_to_free(handle_t *handle, struct inode *inode, struct ext4_ext_path *path,
			   int from, int to)
{
	int err = 0;

	for (int i = from; i <= to && err == 0; i++)
		err = ext4_free_blocks_prepare(handle, inode, path->p_node[i].n_bh->b_blocknr, 1);
	return err;
}

static int free_nodes(handle_t *handle, struct inode *inode, const struct freed_nodes *fn)
{
	int err = 0;

	for (int i = 0; i < fn->fn_n && err == 0; i++)
		err = ext4_free_blocks(handle, inode, fn->fn_pblk[i], 1, EXT4_FREE_BLOCKS_METADATA);
	return err;
}

static void make_root_empty(struct inode *inode)
{
	struct ext3_extent_header *hdr = ext4_ext_root(inode);

	mutex_lock(&inode->i_lock);
	memset(hdr + 1, 0, EXT4_EXT_ROOT_MAX * sizeof(struct ext3_extent));
	hdr->eh_entries = 0;
	hdr->eh_depth = 0;
	hdr->eh_max = cpu_to_le16(EXT4_EXT_ROOT_MAX);
	mutex_unlock(&inode->i_lock);
}

/* Take the chosen entry out of the index node at `level`, which keeps others. */
static int remove_idx(handle_t *handle, struct inode *inode, struct ext4_ext_path *path, int level)
{
	struct ext4_ext_node *node = &path->p_node[level];
	unsigned n = ext4_ext_entries(node->n_hdr);
	int top = level, err;
	ext4_lblk_t key = 0;

	if (node->n_pos == 0) {
		key = le32_to_cpu(ext4_ext_idx(node->n_hdr, 1)->ei_block);
		top = keys_top(path, level, key);
	}
	err = path_access(handle, path, top, level);
	if (err < 0)
		return err;
	node_lock(inode, node);
	memmove(ext4_ext_idx(node->n_hdr, node->n_pos), ext4_ext_idx(node->n_hdr, node->n_pos + 1),
		(n - 1 - (unsigned)node->n_pos) * sizeof(struct ext3_extent_idx));
	node->n_hdr->eh_entries = cpu_to_le16((uint16_t)(n - 1));
	node_unlock(inode, node);
	set_keys(inode, path, top, level, key);
	return path_dirty(handle, inode, path, top, level);
}

/* Nothing is left in the leaf: it goes, and every index node that holds only the way to it. */
static int drop_leaf(handle_t *handle, struct inode *inode, struct ext4_ext_path *path)
{
	struct freed_nodes fn;
	int level = path->p_depth - 1, err = 0;

	ASSERT_CMP(path->p_depth, >, 0);
	while (level > 0 && ext4_ext_entries(path->p_node[level].n_hdr) == 1)
		level--;
	err = prepare_to_free(handle, inode, path, level + 1, path->p_depth);
	if (err < 0)
		return err;
	if (level == 0 && ext4_ext_entries(path->p_node[0].n_hdr) == 1)
		make_root_empty(inode);
	else
		err = remove_idx(handle, inode, path, level);
	if (err < 0)
		return err;
	note_freed(path, level + 1, path->p_depth, &fn);
	ext4_ext_put_path(path);
	return free_nodes(handle, inode, &fn);
}

/* ---- The two entrances ---- */

/* The leaf has the same entries as before; only the way to it has changed. */
static int find_again(struct inode *inode, ext4_lblk_t anchor, unsigned n,
		      struct ext4_ext_path *path)
{
	struct ext3_extent_header *hdr;
	int err = ext4_ext_find(inode, anchor, path);

	if (err < 0)
		return err;
	hdr = ext4_ext_leaf(path)->n_hdr;
	if (ext4_ext_entries(hdr) != n || first_key(hdr) != anchor)
		return ext4_error(inode->i_sb, inode->i_ino, "no way to the leaf of block %u",
				  anchor);
	return 0;
}

int ext4_ext_leaf_update(handle_t *handle, struct inode *inode, struct ext4_ext_path *path,
			 const struct ext4_ext_splice *sp, unsigned mb_flags)
{
	int err = 0;

	ASSERT_CMP(sp->s_new, <=, EXT4_EXT_NEW_MAX);
	ASSERT_CMP(sp->s_pos + sp->s_old, <=, (int)ext4_ext_entries(ext4_ext_leaf(path)->n_hdr));
	for (int step = 0; err == 0; step++) {
		struct ext4_ext_node *leaf = ext4_ext_leaf(path);
		unsigned n = ext4_ext_entries(leaf->n_hdr), total = spliced_entries(leaf, sp);
		ext4_lblk_t anchor;

		if (total == 0 && path->p_depth > 0) {
			err = drop_leaf(handle, inode, path);
			break;
		}
		if (total <= ext4_ext_max(leaf->n_hdr)) {
			err = replace_in_leaf(handle, inode, path, sp);
			break;
		}
		ASSERT_CMP(step, <, MAKE_ROOM_STEPS);
		anchor = first_key(leaf->n_hdr);
		err = make_room_step(handle, inode, path, mb_flags);
		if (err == 1) {
			err = split_leaf(handle, inode, path, sp, mb_flags);
			break;
		}
		ext4_ext_put_path(path);
		if (err == 0)
			err = find_again(inode, anchor, n, path);
	}
	ext4_ext_put_path(path);
	return err;
}

bool ext4_ext_worth_collapsing(struct inode *inode)
{
	struct ext3_extent_header *hdr = ext4_ext_root(inode);

	return ext4_ext_depth(hdr) > 0 && ext4_ext_entries(hdr) == 1;
}

int ext4_ext_collapse(handle_t *handle, struct inode *inode, bool have_credits)
{
	int err = 0;

	while (err == 0 && ext4_ext_worth_collapsing(inode)) {
		struct ext3_extent_header *root = ext4_ext_root(inode);
		struct ext4_ext_path path;
		struct ext3_extent_header *child;
		struct freed_nodes fn;

		err = ext4_ext_find(inode, first_key(root), &path);
		if (err < 0)
			break;
		child = path.p_node[1].n_hdr;
		if (ext4_ext_entries(child) > EXT4_EXT_ROOT_MAX ||
		    (jbd2_journal_extend(handle, COLLAPSE_CREDITS, 1) != 0 && !have_credits)) {
			ext4_ext_put_path(&path);
			break;
		}
		err = prepare_to_free(handle, inode, &path, 1, 1);
		if (err < 0) {
			ext4_ext_put_path(&path);
			break;
		}
		mutex_lock(&inode->i_lock);
		memset(root + 1, 0, EXT4_EXT_ROOT_MAX * sizeof(struct ext3_extent));
		memcpy(root + 1, child + 1, ext4_ext_entries(child) * sizeof(struct ext3_extent));
		root->eh_entries = child->eh_entries;
		root->eh_max = cpu_to_le16(EXT4_EXT_ROOT_MAX);
		root->eh_depth = child->eh_depth;
		mutex_unlock(&inode->i_lock);
		note_freed(&path, 1, 1, &fn);
		ext4_ext_put_path(&path);
		err = free_nodes(handle, inode, &fn);
	}
	return err;
}
