/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * htree.c - finding the leaf of a hash in an indexed directory, and going on to the next leaf.
 *
 * Block 0 of the directory is the root: "." and ".." as ordinary entries (the second covers the rest, so that the block
 * looks like a leaf to those that know no index), then 8 bytes of information, then pairs of hash and block. The first
 * pair's hash is taken by limit and count. An index node looks like one unused entry, followed by its pairs. A leaf is a
 * linear block. Bit 0 of an index hash says that the leaf goes on with the hash that ended the leaf before it.
 *
 * An index that makes no sense is -EDXBAD: searches then walk all leaves, as the kernel does; a block that fails its
 * checksum or cannot be read is an error.
 *
 * Invariants: (1) a frame's count is at least 1, at most its limit, and the limit is what the block size gives. (2) A
 * path has no block twice. (3) A search looks at no more leaves than the directory has blocks.
 * Locking: i_rwsem of the directory, read is enough.
 */
#include <string.h>

#include "namespace/dir.h"

#define DX_ENTRY_BYTES 8u
#define DX_BLOCK_MASK 0x0fffffffu
#define DX_HASH_EOF 0xfffffffeu

_Static_assert(sizeof(struct ext2_dx_entry) == DX_ENTRY_BYTES, "size of an index entry");
_Static_assert(sizeof(struct ext2_dx_root_info) == DX_ROOT_ENTRIES - DX_ROOT_INFO, "root info");
_Static_assert(sizeof(struct ext2_dx_countlimit) == 4, "count and limit");

/* ---- Geometry ---- */

unsigned ext4_dx_root_limit(const struct super_block *sb)
{
	unsigned n = (sb->s_blocksize - DX_ROOT_ENTRIES) / DX_ENTRY_BYTES;

	return ext4_has_metadata_csum(sb) ? n - 1 : n;
}

unsigned ext4_dx_node_limit(const struct super_block *sb)
{
	unsigned n = (sb->s_blocksize - DX_NODE_ENTRIES) / DX_ENTRY_BYTES;

	return ext4_has_metadata_csum(sb) ? n - 1 : n;
}

unsigned ext4_dx_max_depth(const struct super_block *sb)
{
	return ext4_has_incompat(sb, EXT4_FEATURE_INCOMPAT_LARGEDIR) ? DX_MAX_DEPTH
								     : DX_MAX_DEPTH - 1;
}

void ext4_dx_countlimit(const uint8_t *data, unsigned entries, unsigned *count, unsigned *limit)
{
	struct ext2_dx_countlimit cl;

	memcpy(&cl, data + entries, sizeof(cl));
	*count = le16_to_cpu(cl.count);
	*limit = le16_to_cpu(cl.limit);
}

uint32_t ext4_dx_hash_at(const struct dx_frame *f, unsigned i)
{
	struct ext2_dx_entry e;

	ASSERT_CMP(i, <, f->f_count);
	if (i == 0)
		return 0;
	memcpy(&e, f->f_bh->b_data + f->f_entries + (size_t)i * DX_ENTRY_BYTES, sizeof(e));
	return le32_to_cpu(e.hash);
}

ext4_lblk_t ext4_dx_block_at(const struct dx_frame *f, unsigned i)
{
	struct ext2_dx_entry e;

	ASSERT_CMP(i, <, f->f_count);
	memcpy(&e, f->f_bh->b_data + f->f_entries + (size_t)i * DX_ENTRY_BYTES, sizeof(e));
	return le32_to_cpu(e.block) & DX_BLOCK_MASK;
}

/* ---- Hashes ---- */

unsigned ext4_dx_default_version(const struct super_block *sb)
{
	unsigned version = sb->s_def_hash_version;

	return version <= EXT2_HASH_TEA_UNSIGNED ? version : EXT2_HASH_HALF_MD4;
}

int ext4_dx_hash(const struct super_block *sb, unsigned version, const char *name, size_t len,
		 uint32_t *hash, uint32_t *minor)
{
	int err = ext4_dirhash(sb, version, name, (unsigned)len, hash, minor);

	if (err != 0)
		return err;
	*hash &= ~1u;
	/* The highest value is the mark of the end: ext4: fs/ext4/hash.c ext4fs_dirhash() */
	if (*hash == DX_HASH_EOF)
		*hash = DX_HASH_EOF - 2;
	return 0;
}

/* ---- Frames ---- */

void ext4_dx_put(struct dx_path *path)
{
	for (unsigned i = 0; i < path->p_depth; i++)
		bh_put(path->p_frame[i].f_bh);
	path->p_depth = 0;
}

ext4_lblk_t ext4_dx_leaf(const struct dx_path *path)
{
	const struct dx_frame *f = &path->p_frame[path->p_depth - 1];

	ASSERT(path->p_depth > 0);
	return ext4_dx_block_at(f, f->f_at);
}

static int bad_index(struct inode *dir, ext4_lblk_t lblk, const char *why)
{
	ext4_warning(dir->i_sb, "inode #%u: index block %u: %s", dir->i_ino, lblk, why);
	return -EDXBAD;
}

/* Take the block into the path as its next frame. */
static int push_frame(struct inode *dir, struct dx_path *path, ext4_lblk_t lblk, bool root)
{
	struct super_block *sb = dir->i_sb;
	struct dx_frame *f = &path->p_frame[path->p_depth];
	unsigned expected = root ? ext4_dx_root_limit(sb) : ext4_dx_node_limit(sb);
	int err;

	ASSERT_CMP(path->p_depth, <, DX_MAX_DEPTH);
	for (unsigned i = 0; i < path->p_depth; i++)
		if (path->p_frame[i].f_lblk == lblk)
			return bad_index(dir, lblk, "points back to its own path");
	err = ext4_dir_bread(dir, lblk, DIR_BLOCK_INDEX, &f->f_bh);
	if (err != 0)
		return err;
	path->p_depth++;
	f->f_lblk = lblk;
	f->f_at = 0;
	f->f_entries = root ? DX_ROOT_ENTRIES : DX_NODE_ENTRIES;
	ext4_dx_countlimit(f->f_bh->b_data, f->f_entries, &f->f_count, &f->f_limit);
	if (f->f_limit != expected)
		return bad_index(dir, lblk, "limit does not match the block size");
	if (f->f_count == 0 || f->f_count > f->f_limit)
		return bad_index(dir, lblk, "count is not within the limit");
	if (bh_test(f->f_bh, BH_VERIFIED))
		return 0;
	if (!ext4_dx_csum_ok(dir, f->f_bh->b_data, f->f_entries, f->f_count, f->f_limit))
		return ext4_error_csum(sb, dir->i_ino, f->f_bh->b_blocknr,
				       "directory index block %u fails its checksum", lblk);
	bh_set(f->f_bh, BH_VERIFIED);
	return 0;
}

/* Read the root's information into the path; *levels: index levels below the root. */
static int read_root_info(struct inode *dir, struct dx_path *path, unsigned *levels)
{
	struct super_block *sb = dir->i_sb;
	struct ext2_dx_root_info info;

	memcpy(&info, path->p_frame[0].f_bh->b_data + DX_ROOT_INFO, sizeof(info));
	if (info.hash_version > EXT2_HASH_TEA)
		return bad_index(dir, 0, "unknown hash version");
	if ((info.unused_flags & EXT2_HASH_FLAG_INCOMPAT) != 0)
		return bad_index(dir, 0, "unknown flags");
	if (info.info_length != sizeof(info))
		return bad_index(dir, 0, "bad length of the root information");
	if (info.indirect_levels >= ext4_dx_max_depth(sb))
		return bad_index(dir, 0, "too many levels");
	path->p_version = info.hash_version;
	if ((le32_to_cpu(sb->s_es->s_flags) & EXT2_FLAGS_UNSIGNED_HASH) != 0)
		path->p_version += EXT2_HASH_LEGACY_UNSIGNED;
	*levels = info.indirect_levels;
	return 0;
}

/* The last entry whose hash is not above `hash`. */
static unsigned frame_search(const struct dx_frame *f, uint32_t hash)
{
	unsigned lo = 1;
	unsigned hi = f->f_count;

	while (lo < hi) {
		unsigned mid = lo + (hi - lo) / 2;

		if (ext4_dx_hash_at(f, mid) > hash)
			hi = mid;
		else
			lo = mid + 1;
	}
	return lo - 1;
}

static int descend(struct inode *dir, struct dx_path *path, unsigned levels)
{
	for (unsigned i = 0;; i++) {
		struct dx_frame *f = &path->p_frame[i];
		int err;

		f->f_at = frame_search(f, path->p_hash);
		if (i == levels)
			return 0;
		err = push_frame(dir, path, ext4_dx_block_at(f, f->f_at), false);
		if (err != 0)
			return err;
	}
}

static int probe(struct inode *dir, const char *name, size_t len, struct dx_path *path)
{
	unsigned levels = 0;
	int err;

	path->p_depth = 0;
	err = push_frame(dir, path, 0, true);
	if (err == 0)
		err = read_root_info(dir, path, &levels);
	if (err == 0 && name != NULL)
		err = ext4_dx_hash(dir->i_sb, path->p_version, name, len, &path->p_hash,
				   &path->p_minor);
	if (err == 0)
		err = descend(dir, path, levels);
	if (err != 0)
		ext4_dx_put(path);
	return err;
}

int ext4_dx_probe(struct inode *dir, const char *name, size_t len, struct dx_path *path)
{
	ASSERT(name != NULL);
	return probe(dir, name, len, path);
}

int ext4_dx_probe_hash(struct inode *dir, uint32_t hash, struct dx_path *path)
{
	path->p_hash = hash;
	path->p_minor = 0;
	return probe(dir, NULL, 0, path);
}

/* ---- On to the next leaf ---- */

bool ext4_dx_peek(const struct dx_path *path, uint32_t *hash)
{
	for (unsigned i = path->p_depth; i-- > 0;) {
		const struct dx_frame *f = &path->p_frame[i];

		if (f->f_at + 1 < f->f_count) {
			*hash = ext4_dx_hash_at(f, f->f_at + 1);
			return true;
		}
	}
	return false;
}

int ext4_dx_next(struct inode *dir, struct dx_path *path)
{
	unsigned depth = path->p_depth;
	struct dx_frame *f = &path->p_frame[depth - 1];

	while (f->f_at + 1 >= f->f_count) {
		ASSERT_CMP(path->p_depth, >, 1u);
		bh_put(f->f_bh);
		path->p_depth--;
		f--;
	}
	f->f_at++;
	while (path->p_depth < depth) {
		int err;

		f = &path->p_frame[path->p_depth - 1];
		err = push_frame(dir, path, ext4_dx_block_at(f, f->f_at), false);
		if (err != 0) {
			ext4_dx_put(path);
			return err;
		}
	}
	return 0;
}

/* ---- Search ---- */

/* Search the leaf of the path. */
static int search_leaf(struct inode *dir, struct dir_slot *slot)
{
	ext4_lblk_t lblk = ext4_dx_leaf(&slot->ds_path);
	struct buffer_head *bh;
	int ret = ext4_dir_bread(dir, lblk, DIR_BLOCK_LEAF, &bh);

	if (ret != 0)
		return ret;
	ret = ext4_dirent_scan(dir, bh, lblk, &slot->ds_scan);
	if (ret == 1) {
		slot->ds_bh = bh;
		slot->ds_lblk = lblk;
		return 1;
	}
	if (ret == 0 && slot->ds_scan.sc_want_room && slot->ds_scan.sc_fit != DIR_NONE &&
	    slot->ds_fit == NULL) {
		slot->ds_fit = bh;
		slot->ds_fit_lblk = lblk;
		slot->ds_fit_offset = slot->ds_scan.sc_fit;
		return 0;
	}
	bh_put(bh);
	return ret;
}

int ext4_dx_search(struct inode *dir, struct dir_slot *slot)
{
	struct dx_path *path = &slot->ds_path;
	struct dir_scan *scan = &slot->ds_scan;
	ext4_lblk_t left;
	uint32_t hash;
	bool moved = false;
	int ret;

	ret = ext4_dir_blocks(dir, &left);
	if (ret == 0)
		ret = ext4_dx_probe(dir, scan->sc_name, scan->sc_len, path);
	if (ret != 0)
		return ret;
	ret = search_leaf(dir, slot);
	while (ret == 0 && ext4_dx_peek(path, &hash) && (hash & ~1u) == path->p_hash) {
		if (left-- == 0)
			return ext4_error(dir->i_sb, dir->i_ino, "index with an endless chain");
		moved = true;
		ret = ext4_dx_next(dir, path);
		if (ret == 0)
			ret = search_leaf(dir, slot);
	}
	if (ret == 0 && moved && scan->sc_want_room) {
		/* A new entry goes to the first leaf of the chain. */
		ext4_dx_put(path);
		ret = ext4_dx_probe(dir, scan->sc_name, scan->sc_len, path);
	}
	return ret;
}
