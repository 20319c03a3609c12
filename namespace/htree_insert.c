/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * htree_insert.c - making room in an indexed directory: leaves split, index nodes split, the tree grown.
 *
 * Each step that needs a block gets write access to all that it will change, appends the block, and then only changes
 * memory: after the append nothing can fail but the journal itself. The steps go from the top down (grow, split the
 * nodes, split the leaf) and the tree is whole after each, so that -ENOSPC in the middle leaves a good directory with
 * some room in its index, and the name not in it.
 *
 *   full leaf:  packing gives room ---> pack, put
 *               else: room in the index on the way up? no ---> grow (root's entries to a new node) and again
 *                                                      yes --> split the nodes below it, then the leaf
 *
 * Invariants: (1) no block of the directory is outside the tree at the end of a step. (2) Entries with one hash that
 * lie in two leaves: the second's index hash has bit 0 set. (3) Index entries of a node are in the order of their hash.
 * Locking: i_rwsem of the directory for write; changes under lock_buffer().
 */
#include <string.h>

#include "namespace/dir.h"

#define MAX_LEAF_ENTRIES (EXT4_FRAME_SIZE / DIR_MIN_REC_LEN)

/* An entry of a leaf that is split. */
struct leaf_entry {
	uint32_t le_hash;
	uint16_t le_offset;
	uint16_t le_bytes;
};
struct leaf_map {
	unsigned lm_count;
	unsigned lm_bytes; /* of all entries, packed */
	struct leaf_entry lm_entry[MAX_LEAF_ENTRIES];
};

/* ---- Index blocks ---- */

static void store_entry(struct dx_frame *f, unsigned i, uint32_t hash, ext4_lblk_t block)
{
	struct ext2_dx_entry e = {.hash = cpu_to_le32(hash), .block = cpu_to_le32(block)};

	memcpy(f->f_bh->b_data + f->f_entries + i * sizeof(e), &e, sizeof(e));
}

/* The first entry's hash is limit and count. */
static void store_block0(struct dx_frame *f, ext4_lblk_t block)
{
	uint32_t le = cpu_to_le32(block);

	memcpy(f->f_bh->b_data + f->f_entries + offsetof(struct ext2_dx_entry, block), &le,
	       sizeof(le));
}

/* Write count and limit; the checksum is due. lock_buffer held. */
static void seal_frame(struct inode *dir, struct dx_frame *f)
{
	struct ext2_dx_countlimit cl = {.limit = cpu_to_le16((uint16_t)f->f_limit),
					.count = cpu_to_le16((uint16_t)f->f_count)};

	ASSERT_CMP(f->f_count, <=, f->f_limit);
	memcpy(f->f_bh->b_data + f->f_entries, &cl, sizeof(cl));
	ext4_dx_csum_later(dir, f->f_bh, f->f_entries);
}

/* A new block becomes an empty node, seen through f. lock_buffer held. */
static void init_node(const struct super_block *sb, struct dx_frame *f, struct buffer_head *bh,
		      ext4_lblk_t lblk)
{
	struct ext2_dir_entry_2 *fake = ext4_dirent_at(bh->b_data, 0);

	memset(bh->b_data, 0, sb->s_blocksize);
	fake->rec_len = cpu_to_le16((uint16_t)sb->s_blocksize);
	f->f_bh = bh;
	f->f_lblk = lblk;
	f->f_entries = DX_NODE_ENTRIES;
	f->f_limit = ext4_dx_node_limit(sb);
	f->f_count = 0;
	f->f_at = 0;
}

/* Copy n entries from `first` of one frame to the start of an empty one. Both locked or private. */
static void copy_entries(struct dx_frame *to, const struct dx_frame *from, unsigned first,
			 unsigned n)
{
	memcpy(to->f_bh->b_data + to->f_entries,
	       from->f_bh->b_data + from->f_entries + first * sizeof(struct ext2_dx_entry),
	       n * sizeof(struct ext2_dx_entry));
	to->f_count = n;
}

/* Insert (hash, block) behind the entry that the path follows. Access granted, room is there. */
static int index_insert(handle_t *handle, struct inode *dir, struct dx_frame *f, uint32_t hash,
			ext4_lblk_t block)
{
	const size_t size = sizeof(struct ext2_dx_entry);
	uint8_t *at = f->f_bh->b_data + f->f_entries + (f->f_at + 1) * size;

	ASSERT_CMP(f->f_count, <, f->f_limit);
	lock_buffer(f->f_bh);
	memmove(at + size, at, (f->f_count - f->f_at - 1) * size);
	store_entry(f, f->f_at + 1, hash, block);
	f->f_count++;
	seal_frame(dir, f);
	unlock_buffer(f->f_bh);
	return ext4_handle_dirty_metadata(handle, dir, f->f_bh);
}

/* One level more: a new node takes the root's entries, the root keeps one that leads to it. */
static int grow(handle_t *handle, struct inode *dir, struct dx_path *path)
{
	struct super_block *sb = dir->i_sb;
	struct dx_frame *root = &path->p_frame[0];
	struct dx_frame node;
	struct buffer_head *bh;
	ext4_lblk_t lblk;
	int err;

	if (path->p_depth >= ext4_dx_max_depth(sb)) {
		ext4_warning(sb, "inode #%u: directory index full, %u levels", dir->i_ino,
			     path->p_depth);
		return -ENOSPC;
	}
	err = ext4_journal_get_write_access(handle, root->f_bh);
	if (err == 0)
		err = ext4_dir_append(handle, dir, &lblk, &bh);
	if (err != 0)
		return err;
	lock_buffer(bh);
	init_node(sb, &node, bh, lblk);
	copy_entries(&node, root, 0, root->f_count);
	seal_frame(dir, &node);
	unlock_buffer(bh);
	node.f_at = root->f_at;

	lock_buffer(root->f_bh);
	root->f_count = 1;
	root->f_at = 0;
	store_block0(root, lblk);
	root->f_bh->b_data[DX_ROOT_INFO + offsetof(struct ext2_dx_root_info, indirect_levels)]++;
	seal_frame(dir, root);
	unlock_buffer(root->f_bh);

	memmove(&path->p_frame[2], &path->p_frame[1],
		(path->p_depth - 1) * sizeof(struct dx_frame));
	path->p_frame[1] = node;
	path->p_depth++;
	err = ext4_handle_dirty_metadata(handle, dir, bh);
	return err != 0 ? err : ext4_handle_dirty_metadata(handle, dir, root->f_bh);
}

/* Move the upper half of a full node to a new one; its parent has room. */
static int split_node(handle_t *handle, struct inode *dir, struct dx_path *path, unsigned level)
{
	struct dx_frame *parent = &path->p_frame[level - 1];
	struct dx_frame *f = &path->p_frame[level];
	struct dx_frame upper;
	struct buffer_head *bh;
	ext4_lblk_t lblk;
	unsigned half = f->f_count / 2;
	uint32_t hash = ext4_dx_hash_at(f, half);
	int err;

	err = ext4_journal_get_write_access(handle, parent->f_bh);
	if (err == 0)
		err = ext4_journal_get_write_access(handle, f->f_bh);
	if (err == 0)
		err = ext4_dir_append(handle, dir, &lblk, &bh);
	if (err != 0)
		return err;
	lock_buffer(bh);
	init_node(dir->i_sb, &upper, bh, lblk);
	copy_entries(&upper, f, half, f->f_count - half);
	seal_frame(dir, &upper);
	unlock_buffer(bh);
	lock_buffer(f->f_bh);
	f->f_count = half;
	seal_frame(dir, f);
	unlock_buffer(f->f_bh);

	err = ext4_handle_dirty_metadata(handle, dir, bh);
	if (err == 0)
		err = ext4_handle_dirty_metadata(handle, dir, f->f_bh);
	if (err == 0)
		err = index_insert(handle, dir, parent, hash, lblk);
	if (f->f_at < half) {
		bh_put(bh);
		return err;
	}
	upper.f_at = f->f_at - half;
	bh_put(f->f_bh);
	*f = upper;
	parent->f_at++;
	return err;
}

/* The bottom frame has room for an entry at the end, or -ENOSPC. */
static int make_index_room(handle_t *handle, struct inode *dir, struct dx_path *path)
{
	/* Each turn makes room one level lower, or adds the one level that there is room for. */
	for (unsigned turn = 0; turn <= 2 * DX_MAX_DEPTH; turn++) {
		unsigned level = path->p_depth;
		int err;

		while (level > 0 &&
		       path->p_frame[level - 1].f_count == path->p_frame[level - 1].f_limit)
			level--;
		if (level == path->p_depth)
			return 0;
		if (level == 0)
			err = grow(handle, dir, path);
		else
			err = split_node(handle, dir, path, level);
		if (err != 0)
			return err;
	}
	ASSERT(false);
	return -ENOSPC;
}

/* ---- Leaves ---- */

/* List the entries of a leaf with their hashes, from `offset` on. */
static int map_leaf(struct inode *dir, unsigned version, uint8_t *data, unsigned offset,
		    struct leaf_map *map)
{
	const struct super_block *sb = dir->i_sb;
	unsigned limit = ext4_dir_leaf_bytes(sb);

	map->lm_count = 0;
	map->lm_bytes = 0;
	while (offset < limit) {
		const struct ext2_dir_entry_2 *de = ext4_dirent_at(data, offset);
		const char *why = ext4_dirent_bad(sb, data, offset, limit);
		struct leaf_entry *le = &map->lm_entry[map->lm_count];
		uint32_t minor;
		int err;

		if (why != NULL)
			return ext4_dirent_error(dir, 0, offset, why);
		if (de->inode != 0) {
			ASSERT_CMP(map->lm_count, <, MAX_LEAF_ENTRIES);
			err = ext4_dx_hash(sb, version, de->name, de->name_len, &le->le_hash,
					   &minor);
			if (err != 0)
				return err;
			le->le_offset = (uint16_t)offset;
			le->le_bytes = (uint16_t)ext4_dir_rec_len(de->name_len);
			map->lm_bytes += le->le_bytes;
			map->lm_count++;
		}
		offset += le16_to_cpu(de->rec_len);
	}
	return 0;
}

static bool entry_after(const struct leaf_entry *a, const struct leaf_entry *b)
{
	return a->le_hash != b->le_hash ? a->le_hash > b->le_hash : a->le_offset > b->le_offset;
}

static void sort_map(struct leaf_map *map)
{
	/* Shell sort: at most a few hundred entries, no memory, no recursion. */
	for (unsigned gap = map->lm_count / 2; gap > 0; gap /= 2) {
		for (unsigned i = gap; i < map->lm_count; i++) {
			struct leaf_entry e = map->lm_entry[i];
			unsigned j = i;

			for (; j >= gap && entry_after(&map->lm_entry[j - gap], &e); j -= gap)
				map->lm_entry[j] = map->lm_entry[j - gap];
			map->lm_entry[j] = e;
		}
	}
}

/* Where to cut a sorted map: about half of the bytes above, at least one entry on both sides. */
static unsigned split_point(const struct leaf_map *map, unsigned half_bytes)
{
	unsigned bytes = 0;
	unsigned i = map->lm_count;

	while (i > 0 && bytes + map->lm_entry[i - 1].le_bytes / 2 <= half_bytes)
		bytes += map->lm_entry[--i].le_bytes;
	return i > 0 && i < map->lm_count ? i : map->lm_count / 2;
}

/*
 * Close the gaps between the entries of a leaf; the last one reaches to the limit. With no entry the block is one
 * unused entry. lock_buffer held.
 */
static void pack_leaf(const struct super_block *sb, uint8_t *data)
{
	unsigned limit = ext4_dir_leaf_bytes(sb);
	unsigned from = 0;
	unsigned to = 0;
	unsigned last = DIR_NONE;
	struct ext2_dir_entry_2 *de;

	while (from < limit) {
		unsigned step;
		unsigned bytes;

		de = ext4_dirent_at(data, from);
		step = le16_to_cpu(de->rec_len);
		bytes = ext4_dir_rec_len(de->name_len);
		if (de->inode != 0) {
			memmove(data + to, data + from, bytes);
			ext4_dirent_at(data, to)->rec_len = cpu_to_le16((uint16_t)bytes);
			last = to;
			to += bytes;
		}
		from += step;
	}
	if (last == DIR_NONE) {
		memset(data, 0, limit);
		ext4_dirent_at(data, 0)->rec_len = cpu_to_le16((uint16_t)limit);
		return;
	}
	memset(data + to, 0, limit - to);
	ext4_dirent_at(data, last)->rec_len = cpu_to_le16((uint16_t)(limit - last));
}

/* Move the entries map[first..] to an empty block, and close the old one. Both locked. */
static void move_entries(const struct super_block *sb, uint8_t *from, uint8_t *to,
			 const struct leaf_map *map, unsigned first)
{
	unsigned limit = ext4_dir_leaf_bytes(sb);
	unsigned end = 0;
	unsigned last = 0;

	memset(to, 0, sb->s_blocksize);
	for (unsigned i = first; i < map->lm_count; i++) {
		const struct leaf_entry *le = &map->lm_entry[i];

		memcpy(to + end, from + le->le_offset, le->le_bytes);
		ext4_dirent_at(to, end)->rec_len = cpu_to_le16(le->le_bytes);
		ext4_dirent_at(from, le->le_offset)->inode = 0;
		last = end;
		end += le->le_bytes;
	}
	ext4_dirent_at(to, last)->rec_len = cpu_to_le16((uint16_t)(limit - last));
	ext4_dir_init_tail(sb, to);
	pack_leaf(sb, from);
}

/* Put the entry into the room behind the last entry of a packed leaf. lock_buffer held. */
static void put_packed(struct inode *dir, uint8_t *data, const struct dir_scan *scan,
		       const struct dir_new *entry)
{
	unsigned limit = ext4_dir_leaf_bytes(dir->i_sb);
	unsigned offset = 0;

	for (;;) {
		unsigned rec_len = le16_to_cpu(ext4_dirent_at(data, offset)->rec_len);

		if (offset + rec_len >= limit)
			break;
		offset += rec_len;
	}
	ext4_dirent_put(data, offset, scan, entry->dn_ino, entry->dn_type);
}

static int pack_and_put(handle_t *handle, struct inode *dir, struct buffer_head *bh,
			const struct dir_scan *scan, const struct dir_new *entry)
{
	int err = ext4_journal_get_write_access(handle, bh);

	if (err != 0)
		return err;
	lock_buffer(bh);
	pack_leaf(dir->i_sb, bh->b_data);
	put_packed(dir, bh->b_data, scan, entry);
	ext4_dirblock_csum_later(dir, bh);
	unlock_buffer(bh);
	return ext4_handle_dirty_metadata(handle, dir, bh);
}

/* A new leaf has its content. */
static void leaf_made(struct inode *dir, struct buffer_head *bh)
{
	lock_buffer(bh);
	ext4_dirblock_csum_later(dir, bh);
	unlock_buffer(bh);
}

/* Split the leaf bh that the path leads to and put the entry into the half where it belongs. */
static int split_leaf(handle_t *handle, struct inode *dir, struct dir_slot *slot,
		      struct buffer_head *bh, struct leaf_map *map, const struct dir_new *entry)
{
	struct super_block *sb = dir->i_sb;
	struct dx_path *path = &slot->ds_path;
	struct dx_frame *f = &path->p_frame[path->p_depth - 1];
	unsigned cut;
	uint32_t hash;
	uint32_t goes_on;
	struct buffer_head *upper;
	ext4_lblk_t lblk;
	int err;

	/* An entry that does not fit behind the packed others has at least two of them before it. */
	ASSERT_CMP(map->lm_count, >=, 2u);
	sort_map(map);
	cut = split_point(map, sb->s_blocksize / 2);
	hash = map->lm_entry[cut].le_hash;
	goes_on = hash == map->lm_entry[cut - 1].le_hash ? 1 : 0;
	err = ext4_journal_get_write_access(handle, bh);
	if (err == 0)
		err = ext4_journal_get_write_access(handle, f->f_bh);
	if (err == 0)
		err = ext4_dir_append(handle, dir, &lblk, &upper);
	if (err != 0)
		return err;
	lock_buffer(bh);
	/* The new block is in no other hand, and two buffers cannot be locked at once. */
	move_entries(sb, bh->b_data, upper->b_data, map, cut);
	if (path->p_hash < hash)
		put_packed(dir, bh->b_data, &slot->ds_scan, entry);
	else
		put_packed(dir, upper->b_data, &slot->ds_scan, entry);
	ext4_dirblock_csum_later(dir, bh);
	unlock_buffer(bh);
	leaf_made(dir, upper);
	err = ext4_handle_dirty_metadata(handle, dir, upper);
	if (err == 0)
		err = ext4_handle_dirty_metadata(handle, dir, bh);
	if (err == 0)
		err = index_insert(handle, dir, f, hash + goes_on, lblk);
	bh_put(upper);
	return err;
}

int ext4_dx_insert(handle_t *handle, struct inode *dir, struct dir_slot *slot,
		   const struct dir_new *entry)
{
	struct dx_path *path = &slot->ds_path;
	unsigned need = ext4_dir_rec_len(slot->ds_scan.sc_len);
	struct leaf_map map;
	struct buffer_head *bh;
	int err;

	ASSERT(path->p_depth > 0);
	err = ext4_dir_bread(dir, ext4_dx_leaf(path), DIR_BLOCK_LEAF, &bh);
	if (err != 0)
		return err;
	err = map_leaf(dir, path->p_version, bh->b_data, 0, &map);
	if (err == 0 && map.lm_bytes + need <= ext4_dir_leaf_bytes(dir->i_sb)) {
		err = pack_and_put(handle, dir, bh, &slot->ds_scan, entry);
		bh_put(bh);
		return err;
	}
	if (err == 0)
		err = make_index_room(handle, dir, path);
	if (err == 0)
		err = split_leaf(handle, dir, slot, bh, &map, entry);
	bh_put(bh);
	return err;
}

/* ---- From linear to indexed ---- */

/* "." and ".." are where a root has them. */
static bool dots_in_place(const struct super_block *sb, uint8_t *data)
{
	const struct ext2_dir_entry_2 *dot = ext4_dirent_at(data, 0);
	const struct ext2_dir_entry_2 *dotdot = ext4_dirent_at(data, DIR_MIN_REC_LEN);
	unsigned limit = ext4_dir_leaf_bytes(sb);

	return ext4_dirent_bad(sb, data, 0, limit) == NULL &&
	       le16_to_cpu(dot->rec_len) == DIR_MIN_REC_LEN && dot->name_len == 1 &&
	       dot->name[0] == '.' && ext4_dirent_bad(sb, data, DIR_MIN_REC_LEN, limit) == NULL &&
	       dotdot->name_len == 2 && memcmp(dotdot->name, "..", 2) == 0;
}

/* Turn block 0 into a root with one entry that leads to `leaf`. lock_buffer held. */
static void init_root(struct inode *dir, struct dx_frame *f, ext4_lblk_t leaf)
{
	const struct super_block *sb = dir->i_sb;
	uint8_t *data = f->f_bh->b_data;
	struct ext2_dx_root_info info = {.info_length = sizeof(info)};
	unsigned version = ext4_dx_default_version(sb);

	info.hash_version =
		(uint8_t)(version >= EXT2_HASH_LEGACY_UNSIGNED ? version - EXT2_HASH_LEGACY_UNSIGNED
							       : version);
	ext4_dirent_at(data, DIR_MIN_REC_LEN)->rec_len =
		cpu_to_le16((uint16_t)(sb->s_blocksize - DIR_MIN_REC_LEN));
	memset(data + DX_ROOT_INFO, 0, sb->s_blocksize - DX_ROOT_INFO);
	memcpy(data + DX_ROOT_INFO, &info, sizeof(info));
	f->f_lblk = 0;
	f->f_entries = DX_ROOT_ENTRIES;
	f->f_limit = ext4_dx_root_limit(sb);
	f->f_count = 1;
	f->f_at = 0;
	store_block0(f, leaf);
	seal_frame(dir, f);
}

/* Move all entries but "." and ".." to a new block 1 and make block 0 the root. */
static int convert(handle_t *handle, struct inode *dir, struct buffer_head *bh,
		   const struct leaf_map *map, struct dx_path *path)
{
	const struct super_block *sb = dir->i_sb;
	struct buffer_head *leaf;
	ext4_lblk_t lblk;
	int err;

	err = ext4_journal_get_write_access(handle, bh);
	if (err == 0)
		err = ext4_dir_append(handle, dir, &lblk, &leaf);
	if (err != 0)
		return err;
	lock_buffer(bh);
	move_entries(sb, bh->b_data, leaf->b_data, map, 0);
	bh_hold(bh);
	path->p_frame[0].f_bh = bh;
	path->p_depth = 1;
	path->p_version = ext4_dx_default_version(sb);
	init_root(dir, &path->p_frame[0], lblk);
	unlock_buffer(bh);
	leaf_made(dir, leaf);
	dir->i_flags |= EXT2_INDEX_FL;
	err = ext4_handle_dirty_metadata(handle, dir, leaf);
	if (err == 0)
		err = ext4_handle_dirty_metadata(handle, dir, bh);
	if (err == 0)
		err = ext4_mark_inode_dirty(handle, dir);
	bh_put(leaf);
	return err;
}

int ext4_dx_make_index(handle_t *handle, struct inode *dir, struct dir_slot *slot,
		       const struct dir_new *entry)
{
	struct super_block *sb = dir->i_sb;
	struct dx_path *path = &slot->ds_path;
	struct buffer_head *bh;
	struct leaf_map map;
	unsigned first;
	int err;

	ASSERT_CMP(path->p_depth, ==, 0u);
	err = ext4_dir_bread(dir, 0, DIR_BLOCK_LEAF, &bh);
	if (err != 0)
		return err;
	if (!dots_in_place(sb, bh->b_data)) {
		err = ext4_dirent_error(dir, 0, 0, "'.' or '..' is not in its place");
		goto out;
	}
	first = DIR_MIN_REC_LEN + le16_to_cpu(ext4_dirent_at(bh->b_data, DIR_MIN_REC_LEN)->rec_len);
	err = ext4_dx_hash(sb, ext4_dx_default_version(sb), slot->ds_scan.sc_name,
			   slot->ds_scan.sc_len, &path->p_hash, &path->p_minor);
	if (err == 0)
		err = map_leaf(dir, ext4_dx_default_version(sb), bh->b_data, first, &map);
	if (err == 0 && map.lm_count == 0)
		err = ext4_dirent_error(dir, 0, first, "a full block without entries");
	if (err == 0)
		err = convert(handle, dir, bh, &map, path);
	if (err == 0)
		err = ext4_dx_insert(handle, dir, slot, entry);
out:
	bh_put(bh);
	return err;
}
