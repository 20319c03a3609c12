/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * extent_tree.c - reading the extent tree: validate nodes, walk from the root to a leaf, look blocks up.
 *
 * A look-up walks down from i_block, at each level to the last entry at or before the block. Nodes are validated when they are read: checksum, header, order of
 * the entries, bounds given by the parent, and every block number against the metadata of the file system. A
 * node that passed carries BH_VERIFIED and is checked only for what keeps memory accesses inside it, in case that another structure
 * has claimed the same block. The depth falls by one at each level, so that a tree which leads back into itself is found at once.
 *
 * Invariants: (1) in a path, the depth of the node at level i is p_depth - i; (2) n_pos of an index node is a valid entry; (3) entries of a node lie between the key of its parent entry and
 * that of the next one, so paths to different blocks never overlap.
 * Locking: i_data_sem (read). Writers change nodes under i_data_sem for write, so no buffer lock is needed to read them.
 */
#include "alloc/extents.h"

#include <inttypes.h>
#include <stddef.h>
#include <string.h>

#include "ext4/group.h"
#include "ext4/super.h"

_Static_assert(offsetof(struct inode, i_block) % 4 == 0, "the root is read as 32-bit words");

/* A node may hold this many entries less than would fit, as e2fsck accepts it. */
#define EH_MAX_SLACK 2u

unsigned ext4_ext_space_block(const struct super_block *sb)
{
	return (unsigned)((sb->s_blocksize - sizeof(struct ext3_extent_header)) /
			  sizeof(struct ext3_extent));
}

/* ---- Entries ---- */

void ext4_ext_get_rec(struct ext3_extent_header *hdr, int i, struct ext4_ext_rec *rec)
{
	const struct ext3_extent *ex = ext4_ext_entry(hdr, i);
	uint32_t len = le16_to_cpu(ex->ee_len);

	rec->er_lblk = le32_to_cpu(ex->ee_block);
	rec->er_unwritten = len > EXT_INIT_MAX_LEN;
	rec->er_len = rec->er_unwritten ? len - (uint32_t)EXT_INIT_MAX_LEN : len;
	rec->er_pblk = (ext4_fsblk_t)le16_to_cpu(ex->ee_start_hi) << 32 | le32_to_cpu(ex->ee_start);
}

void ext4_ext_set_rec(struct ext3_extent *ex, const struct ext4_ext_rec *rec)
{
	uint32_t len = rec->er_len;

	ASSERT_CMP(len, >, 0u);
	ASSERT_CMP(len, <=, rec->er_unwritten ? EXT_UNINIT_MAX_LEN : EXT_INIT_MAX_LEN);
	if (rec->er_unwritten)
		len += (uint32_t)EXT_INIT_MAX_LEN;
	ex->ee_block = cpu_to_le32(rec->er_lblk);
	ex->ee_len = cpu_to_le16((uint16_t)len);
	ex->ee_start = cpu_to_le32((uint32_t)rec->er_pblk);
	ex->ee_start_hi = cpu_to_le16((uint16_t)(rec->er_pblk >> 32));
}

/* ---- Validation ---- */

/* What keeps every access inside the node, and the walk finite. Cheap: done at each use. */
static const char *check_header(const struct ext3_extent_header *hdr, size_t size_bytes,
				unsigned depth)
{
	size_t capacity = (size_bytes - sizeof(*hdr)) / sizeof(struct ext3_extent);

	if (le16_to_cpu(hdr->eh_magic) != EXT3_EXT_MAGIC)
		return "invalid magic";
	if (ext4_ext_depth(hdr) != depth)
		return "unexpected eh_depth";
	if (ext4_ext_max(hdr) > capacity)
		return "too large eh_max";
	if (ext4_ext_max(hdr) + EH_MAX_SLACK < capacity)
		return "too small eh_max";
	if (ext4_ext_entries(hdr) > ext4_ext_max(hdr))
		return "invalid eh_entries";
	if (ext4_ext_entries(hdr) == 0 && depth > 0)
		return "eh_entries is 0 but eh_depth is > 0";
	return NULL;
}

/* The entries at both ends lie in [lo, end): with their order checked once, all do. Tells a node that two parents claim. */
static const char *check_bounds(struct ext3_extent_header *hdr, uint64_t lo, uint64_t end)
{
	struct ext4_ext_rec first, last;
	int n = (int)ext4_ext_entries(hdr);

	if (n == 0)
		return NULL;
	ext4_ext_get_rec(hdr, 0, &first);
	ext4_ext_get_rec(hdr, n - 1, &last);
	if (first.er_lblk < lo || last.er_lblk >= end)
		return "node outside its parent's range";
	if (ext4_ext_depth(hdr) == 0 && ext4_rec_end(&last) > end)
		return "extent beyond its parent's range";
	return NULL;
}

static const char *check_leaf_entries(struct inode *inode, struct ext3_extent_header *hdr,
				      uint64_t lo, uint64_t end)
{
	struct ext4_ext_rec rec;

	for (unsigned i = 0; i < ext4_ext_entries(hdr); i++) {
		ext4_ext_get_rec(hdr, (int)i, &rec);
		if (rec.er_len == 0)
			return "extent of length 0";
		if (rec.er_lblk < lo)
			return "overlapping or unordered extents";
		if (ext4_rec_end(&rec) > end)
			return "extent beyond its parent's range";
		if (!ext4_data_block_valid(inode->i_sb, rec.er_pblk, rec.er_len))
			return "extent outside the device or over metadata";
		lo = ext4_rec_end(&rec);
	}
	return NULL;
}

static const char *check_index_entries(struct inode *inode, struct ext3_extent_header *hdr,
				       uint64_t lo, uint64_t end)
{
	for (unsigned i = 0; i < ext4_ext_entries(hdr); i++) {
		const struct ext3_extent_idx *idx = ext4_ext_idx(hdr, (int)i);
		uint64_t lblk = le32_to_cpu(idx->ei_block);

		if (lblk < lo)
			return "unordered index entries";
		if (lblk >= end)
			return "index entry beyond its parent's range";
		if (!ext4_data_block_valid(inode->i_sb, ext4_idx_pblk(idx), 1))
			return "index entry outside the device or over metadata";
		lo = lblk + 1;
	}
	return NULL;
}

const char *ext4_ext_check_node(struct inode *inode, struct ext3_extent_header *hdr,
				size_t size_bytes, unsigned depth, uint64_t lo, uint64_t end)
{
	const char *why = check_header(hdr, size_bytes, depth);

	if (why != NULL)
		return why;
	return depth == 0 ? check_leaf_entries(inode, hdr, lo, end)
			  : check_index_entries(inode, hdr, lo, end);
}

/* The whole check is done once for an inode. */
const char *ext4_ext_check_root(struct inode *inode)
{
	struct ext3_extent_header *hdr = ext4_ext_root(inode);
	struct ext4_inode_alloc *ia = inode->i_alloc;
	unsigned depth = ext4_ext_depth(hdr);
	const char *why;

	if (depth > EXT4_EXT_MAX_DEPTH)
		return "eh_depth is too large";
	if (atomic_load_explicit(&ia->ia_root_checked, memory_order_acquire))
		return check_header(hdr, sizeof(inode->i_block), depth);
	why = ext4_ext_check_node(inode, hdr, sizeof(inode->i_block), depth, 0, EXT4_MAX_BLOCKS);
	if (why == NULL)
		atomic_store_explicit(&ia->ia_root_checked, true, memory_order_release);
	return why;
}

/* The header was checked. */
static const char *check_block(struct inode *inode, struct buffer_head *bh, unsigned depth,
			       uint64_t lo, uint64_t end)
{
	struct ext3_extent_header *hdr = (struct ext3_extent_header *)(void *)bh->b_data;
	const char *why;

	if (bh_test(bh, BH_VERIFIED))
		return check_bounds(hdr, lo, end);
	why = ext4_ext_check_node(inode, hdr, bh->b_size, depth, lo, end);
	if (why == NULL)
		bh_set(bh, BH_VERIFIED);
	return why;
}

/* Read and validate the node at pblk. ERR_PTR on failure. */
static struct buffer_head *read_node(struct inode *inode, ext4_fsblk_t pblk, unsigned depth,
				     uint64_t lo, uint64_t end)
{
	struct super_block *sb = inode->i_sb;
	struct buffer_head *bh = bh_read(sb->s_bcache, pblk);
	const char *why;

	if (IS_ERR(bh))
		return ERR_PTR(ext4_read_failed(sb, inode->i_ino, pblk, PTR_ERR(bh)));
	/* The header says where the checksum is. */
	why = check_header((struct ext3_extent_header *)(void *)bh->b_data, bh->b_size, depth);
	if (why == NULL && !bh_test(bh, BH_VERIFIED) &&
	    !ext4_extent_block_csum_ok(inode, bh->b_data)) {
		bh_put(bh);
		return ERR_PTR(
			ext4_error_csum(sb, inode->i_ino, pblk, "extent block: bad checksum"));
	}
	if (why == NULL)
		why = check_block(inode, bh, depth, lo, end);
	if (why != NULL) {
		bh_put(bh);
		ext4_error_block(sb, inode->i_ino, pblk, "bad extent block: %s", why);
		return ERR_PTR(-EFSCORRUPTED);
	}
	return bh;
}

/* ---- Walking ---- */

/* The last entry at or before lblk, -1 if there is none. Extents and index entries begin with the same field. */
static int node_search(struct ext3_extent_header *hdr, ext4_lblk_t lblk)
{
	int lo = 0, hi = (int)ext4_ext_entries(hdr);

	while (lo < hi) {
		int mid = lo + (hi - lo) / 2;

		if (le32_to_cpu(ext4_ext_entry(hdr, mid)->ee_block) <= lblk)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo - 1;
}

void ext4_ext_put_path(struct ext4_ext_path *path)
{
	for (int i = 0; i <= path->p_depth; i++) {
		bh_put(path->p_node[i].n_bh);
		path->p_node[i].n_bh = NULL;
	}
	path->p_depth = -1;
}

/* Fill the node below from the entry chosen in `node`. */
static int descend(struct inode *inode, struct ext4_ext_node *node, struct ext4_ext_node *child,
		   ext4_lblk_t lblk)
{
	const struct ext3_extent_idx *idx;
	unsigned depth = ext4_ext_depth(node->n_hdr);
	struct buffer_head *bh;
	ext4_lblk_t key;

	ASSERT_CMP(depth, >, 0u);
	if (node->n_pos < 0)
		node->n_pos = 0;
	idx = ext4_ext_idx(node->n_hdr, node->n_pos);
	child->n_end = node->n_end;
	if (node->n_pos + 1 < (int)ext4_ext_entries(node->n_hdr))
		child->n_end = le32_to_cpu(ext4_ext_idx(node->n_hdr, node->n_pos + 1)->ei_block);
	key = le32_to_cpu(idx->ei_block);
	if (child->n_end <= key || child->n_end > node->n_end ||
	    !ext4_data_block_valid(inode->i_sb, ext4_idx_pblk(idx), 1))
		return ext4_error(inode->i_sb, inode->i_ino, "bad index entry near block %u", lblk);
	bh = read_node(inode, ext4_idx_pblk(idx), depth - 1, key, child->n_end);
	if (IS_ERR(bh)) {
		int err = PTR_ERR(bh);

		ASSERT_CMP(err, <, 0);
		return err;
	}
	ASSERT(bh != NULL);
	child->n_bh = bh;
	child->n_hdr = (struct ext3_extent_header *)(void *)bh->b_data;
	child->n_pos = node_search(child->n_hdr, lblk);
	return 0;
}

/*
 * The entry found and the one after it, each time: whatever has written to a block since it was verified, what is used of it is sane.
 */
static const char *check_found(struct inode *inode, struct ext4_ext_node *leaf)
{
	int n = (int)ext4_ext_entries(leaf->n_hdr), pos = leaf->n_pos;
	struct ext4_ext_rec rec, next;
	uint64_t end = leaf->n_end;

	if (pos + 1 < n) {
		ext4_ext_get_rec(leaf->n_hdr, pos + 1, &next);
		if (next.er_len == 0 || ext4_rec_end(&next) > end)
			return "bad extent";
		end = next.er_lblk;
	}
	if (pos < 0)
		return NULL;
	ext4_ext_get_rec(leaf->n_hdr, pos, &rec);
	if (rec.er_len == 0 || ext4_rec_end(&rec) > end)
		return "overlapping or unordered extents";
	if (!ext4_data_block_valid(inode->i_sb, rec.er_pblk, rec.er_len))
		return "extent outside the device or over metadata";
	return NULL;
}

int ext4_ext_find(struct inode *inode, ext4_lblk_t lblk, struct ext4_ext_path *path)
{
	struct ext4_ext_node *root = &path->p_node[0];
	const char *why = ext4_ext_check_root(inode);
	int depth, err;

	path->p_depth = -1;
	if (why != NULL)
		return ext4_error(inode->i_sb, inode->i_ino, "bad extent root: %s", why);
	root->n_bh = NULL;
	root->n_hdr = ext4_ext_root(inode);
	root->n_end = EXT4_MAX_BLOCKS;
	root->n_pos = node_search(root->n_hdr, lblk);
	path->p_depth = 0;
	depth = (int)ext4_ext_depth(root->n_hdr);
	for (int i = 0; i < depth; i++) {
		err = descend(inode, &path->p_node[i], &path->p_node[i + 1], lblk);
		if (err < 0) {
			ext4_ext_put_path(path);
			return err;
		}
		path->p_depth = i + 1;
	}
	why = check_found(inode, ext4_ext_leaf(path));
	if (why != NULL) {
		ext4_ext_put_path(path);
		return ext4_error(inode->i_sb, inode->i_ino, "bad extent near block %u: %s", lblk,
				  why);
	}
	return 0;
}

/* ---- Look-up ---- */

int ext4_ext_lookup_run(struct inode *inode, ext4_lblk_t lblk, struct extent_status *run)
{
	struct ext4_ext_path path;
	struct ext4_ext_node *leaf;
	struct ext4_ext_rec rec = {0};
	uint64_t start = 0, end;
	int err = ext4_ext_find(inode, lblk, &path);

	if (err < 0)
		return err;
	leaf = ext4_ext_leaf(&path);
	if (leaf->n_pos >= 0) {
		ext4_ext_get_rec(leaf->n_hdr, leaf->n_pos, &rec);
		start = ext4_rec_end(&rec);
	} else if (path.p_depth > 0) {
		start = lblk;
	}
	if (leaf->n_pos >= 0 && start > lblk) {
		run->es_lblk = rec.er_lblk;
		run->es_len = rec.er_len;
		run->es_pblk = rec.er_pblk;
		run->es_state = rec.er_unwritten ? ES_UNWRITTEN : ES_WRITTEN;
		ext4_ext_put_path(&path);
		return 0;
	}
	end = leaf->n_end;
	if (leaf->n_pos + 1 < (int)ext4_ext_entries(leaf->n_hdr))
		end = le32_to_cpu(ext4_ext_entry(leaf->n_hdr, leaf->n_pos + 1)->ee_block);
	ext4_ext_put_path(&path);
	ASSERT_CMP(start, <=, (uint64_t)lblk);
	ASSERT_CMP(end, >, (uint64_t)lblk);
	run->es_lblk = (ext4_lblk_t)start;
	run->es_len = (ext4_lblk_t)(end - start);
	run->es_pblk = 0;
	run->es_state = ES_HOLE;
	return 0;
}

/* ---- Debugging ---- */

/* Walk leaf by leaf; fn sees each leaf's path. The tree's order bounds the walk. */
static int for_each_leaf(struct inode *inode, void (*fn)(struct ext4_ext_path *path, void *arg),
			 void *arg)
{
	uint64_t lblk = 0;

	while (lblk < EXT4_MAX_BLOCKS) {
		struct ext4_ext_path path;
		int err = ext4_ext_find(inode, (ext4_lblk_t)lblk, &path);

		if (err < 0)
			return err;
		fn(&path, arg);
		ASSERT_CMP(ext4_ext_leaf(&path)->n_end, >, lblk);
		lblk = ext4_ext_leaf(&path)->n_end;
		ext4_ext_put_path(&path);
	}
	return 0;
}

/* A checksum that is still to be set cannot be wrong. */
static bool csum_is_good(struct inode *inode, struct buffer_head *bh)
{
	bool good;

	lock_buffer(bh);
	good = bh->b_seal != NULL || ext4_extent_block_csum_ok(inode, bh->b_data);
	unlock_buffer(bh);
	return good;
}

struct check_state {
	struct inode *cs_inode;
	const char *cs_why;
};

static void check_path(struct ext4_ext_path *path, void *arg)
{
	struct check_state *cs = arg;
	struct ext4_ext_node *parent = NULL;

	for (int i = 0; i <= path->p_depth; i++) {
		struct ext4_ext_node *node = &path->p_node[i];
		size_t size = node->n_bh ? node->n_bh->b_size : sizeof(cs->cs_inode->i_block);
		uint64_t lo = 0;
		const char *why;

		if (parent != NULL)
			lo = le32_to_cpu(ext4_ext_idx(parent->n_hdr, parent->n_pos)->ei_block);
		why = ext4_ext_check_node(cs->cs_inode, node->n_hdr, size,
					  (unsigned)(path->p_depth - i), lo, node->n_end);
		if (why == NULL && node->n_bh != NULL && !csum_is_good(cs->cs_inode, node->n_bh))
			why = "bad checksum";
		if (why != NULL)
			cs->cs_why = why;
		parent = node;
	}
}

int ext4_ext_check(struct inode *inode)
{
	struct check_state cs = {inode, NULL};
	int err = for_each_leaf(inode, check_path, &cs);

	if (err == 0 && cs.cs_why != NULL)
		err = ext4_error(inode->i_sb, inode->i_ino, "bad extent tree: %s", cs.cs_why);
	return err;
}

static void print_leaf(struct ext4_ext_path *path, void *arg)
{
	struct ext4_ext_node *leaf = ext4_ext_leaf(path);
	struct ext4_ext_rec rec;
	FILE *out = arg;

	for (unsigned i = 0; i < ext4_ext_entries(leaf->n_hdr); i++) {
		ext4_ext_get_rec(leaf->n_hdr, (int)i, &rec);
		fprintf(out, "  [%" PRIu32 " +%" PRIu32 ") %" PRIu64 "%s\n", rec.er_lblk,
			rec.er_len, rec.er_pblk, rec.er_unwritten ? " unwritten" : "");
	}
}

int ext4_ext_print(struct inode *inode, FILE *out)
{
	fprintf(out, "extents of inode %" PRIu32 ", depth %u\n", inode->i_ino,
		ext4_ext_depth(ext4_ext_root(inode)));
	return for_each_leaf(inode, print_leaf, out);
}
