/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * dir_linear.c - whole directories: search by index or block by block, add, remove and replace entries, "." and "..".
 *
 * A search that does not find the name remembers where it could be added, so that creating a file costs one walk, and
 * none where a lookup made it (dir_miss.c). A directory of one block, or of a file system without dir_index, is a plain
 * chain of leaves; where the index turns out to be unusable the leaves are walked as well. A linear directory of one
 * block becomes indexed when it is full.
 *
 * Invariants: (1) a search looks at no more blocks than the directory has. (2) A slot's buffers are referenced. (3) The
 * entries of an index block are never taken for names.
 * Locking: i_rwsem of the directory; i_dir_start_lookup is a hint, under i_lock.
 */
#include <string.h>

#include "namespace/dir.h"

/* ---- Search ---- */

void ext4_dir_slot_put(struct dir_slot *slot)
{
	bh_put(slot->ds_bh);
	bh_put(slot->ds_fit);
	ext4_dx_put(&slot->ds_path);
	slot->ds_bh = NULL;
	slot->ds_fit = NULL;
}

/*
 * A block of the walk cannot be read. This is the one place where the kernel takes that for an error of the file system: what is not found may be there.
 * ext4: fs/ext4/namei.c __ext4_find_entry(). A map that cannot be read is not.
 */
static int unreadable(struct inode *dir, ext4_lblk_t lblk, int err)
{
	struct ext4_map_blocks map = {.m_lblk = lblk, .m_len = 1};

	if (err != -EIO || ext4_map_blocks(NULL, dir, &map, 0) <= 0)
		return err;
	return ext4_io_error(dir->i_sb, dir->i_ino, map.m_pblk, err);
}

/* Search one block. 1 found, 0 not, negative errno. */
static int search_block(struct inode *dir, ext4_lblk_t lblk, struct dir_slot *slot)
{
	struct dir_scan *scan = &slot->ds_scan;
	struct buffer_head *bh;
	int ret = ext4_dir_bread(dir, lblk, DIR_BLOCK_ANY, &bh);

	if (ret != 0)
		return unreadable(dir, lblk, ret);
	if (!ext4_dir_is_index_block(dir, lblk, bh->b_data))
		ret = ext4_dirent_scan(dir, bh, lblk, scan);
	if (ret == 1) {
		slot->ds_bh = bh;
		slot->ds_lblk = lblk;
		return 1;
	}
	if (ret == 0 && scan->sc_want_room && slot->ds_fit == NULL && scan->sc_fit != DIR_NONE &&
	    !ext4_dir_is_index_block(dir, lblk, bh->b_data)) {
		slot->ds_fit = bh;
		slot->ds_fit_lblk = lblk;
		slot->ds_fit_offset = scan->sc_fit;
		return 0;
	}
	bh_put(bh);
	return ret;
}

static ext4_lblk_t start_hint(struct inode *dir, ext4_lblk_t blocks)
{
	ext4_lblk_t start;

	if (blocks <= 1)
		return 0;
	mutex_lock(&dir->i_lock);
	start = dir->i_dir_start_lookup;
	mutex_unlock(&dir->i_lock);
	return start < blocks ? start : 0;
}

static void set_hint(struct inode *dir, ext4_lblk_t lblk)
{
	mutex_lock(&dir->i_lock);
	dir->i_dir_start_lookup = lblk;
	mutex_unlock(&dir->i_lock);
}

static int search_linear(struct inode *dir, struct dir_slot *slot)
{
	ext4_lblk_t blocks;
	ext4_lblk_t start;
	int ret = ext4_dir_blocks(dir, &blocks);

	if (ret != 0)
		return ret;
	start = start_hint(dir, blocks);
	for (ext4_lblk_t i = 0; i < blocks; i++) {
		ext4_lblk_t lblk = start + i < blocks ? start + i : start + i - blocks;

		if (i % DIR_READAHEAD_BLOCKS == 0)
			ext4_dir_readahead(dir, lblk, blocks);
		ret = search_block(dir, lblk, slot);
		if (ret == 1 && lblk != start)
			set_hint(dir, lblk);
		if (ret != 0)
			return ret;
	}
	return 0;
}

int ext4_dir_search(struct inode *dir, const char *name, size_t len, bool want_room,
		    struct dir_slot *slot)
{
	struct dir_scan scan = {.sc_name = name, .sc_len = len, .sc_want_room = want_room};
	const struct ext2_dir_entry_2 *de;
	int ret = -EDXBAD;

	ASSERT_CMP(len, >, 0u);
	memset(slot, 0, sizeof(*slot));
	slot->ds_scan = scan;
	if (want_room && ext4_dir_recall_miss(dir, slot))
		return 0;
	if (ext4_dir_indexed(dir)) {
		ret = ext4_dx_search(dir, slot);
		slot->ds_bad_index = ret == -EDXBAD;
		if (slot->ds_bad_index)
			ext4_dir_slot_put(slot);
	}
	if (ret == -EDXBAD)
		ret = search_linear(dir, slot);
	if (ret != 1)
		return ret;
	ASSERT(slot->ds_bh != NULL);
	de = ext4_dirent_at(slot->ds_bh->b_data, slot->ds_scan.sc_offset);
	slot->ds_ino = le32_to_cpu(de->inode);
	if (!ext4_valid_dir_ino(dir->i_sb, slot->ds_ino))
		return ext4_error(dir->i_sb, dir->i_ino, "entry '%.*s' names inode %u", (int)len,
				  name, slot->ds_ino);
	return 1;
}

/* ---- Add ---- */

static int put_in_fit(handle_t *handle, struct inode *dir, struct dir_slot *slot,
		      const struct dir_new *entry)
{
	struct buffer_head *bh = slot->ds_fit;
	int err = ext4_journal_get_write_access(handle, bh);

	if (err != 0)
		return err;
	lock_buffer(bh);
	ext4_dirent_put(bh->b_data, slot->ds_fit_offset, &slot->ds_scan, entry->dn_ino,
			entry->dn_type);
	ext4_dirblock_csum_later(dir, bh);
	unlock_buffer(bh);
	return ext4_handle_dirty_metadata(handle, dir, bh);
}

/* A new last block with this entry alone. */
static int put_in_new_block(handle_t *handle, struct inode *dir, struct dir_slot *slot,
			    const struct dir_new *entry)
{
	struct super_block *sb = dir->i_sb;
	struct buffer_head *bh;
	ext4_lblk_t lblk;
	int err = ext4_dir_append(handle, dir, &lblk, &bh);

	if (err != 0)
		return err;
	lock_buffer(bh);
	ext4_dirent_at(bh->b_data, 0)->rec_len = cpu_to_le16((uint16_t)ext4_dir_leaf_bytes(sb));
	ext4_dir_init_tail(sb, bh->b_data);
	ext4_dirent_put(bh->b_data, 0, &slot->ds_scan, entry->dn_ino, entry->dn_type);
	ext4_dirblock_csum_later(dir, bh);
	unlock_buffer(bh);
	err = ext4_handle_dirty_metadata(handle, dir, bh);
	bh_put(bh);
	return err;
}

/* The index is damaged: go on without it, where no checksum vouches for it. ext4: fs/ext4/namei.c ext4_add_entry() */
static int drop_index(handle_t *handle, struct inode *dir)
{
	if (ext4_has_metadata_csum(dir->i_sb))
		return ext4_error(dir->i_sb, dir->i_ino, "directory has a corrupted index");
	dir->i_flags &= ~(uint32_t)EXT2_INDEX_FL;
	return ext4_mark_inode_dirty(handle, dir);
}

int ext4_dir_insert(handle_t *handle, struct inode *dir, struct dir_slot *slot,
		    const struct dir_new *entry)
{
	ext4_lblk_t blocks;
	int err = 0;

	ASSERT(slot->ds_scan.sc_want_room);
	ASSERT(slot->ds_bh == NULL);
	if (slot->ds_bad_index)
		err = drop_index(handle, dir);
	if (err == 0)
		err = ext4_dir_blocks(dir, &blocks);
	if (err != 0)
		return err;
	if (slot->ds_fit != NULL)
		return put_in_fit(handle, dir, slot, entry);
	if (slot->ds_path.p_depth > 0)
		return ext4_dx_insert(handle, dir, slot, entry);
	if (blocks == 1 && !slot->ds_bad_index &&
	    ext4_has_compat(dir->i_sb, EXT2_FEATURE_COMPAT_DIR_INDEX))
		return ext4_dx_make_index(handle, dir, slot, entry);
	return put_in_new_block(handle, dir, slot, entry);
}

/* ---- Remove and replace ---- */

int ext4_dir_prepare(handle_t *handle, struct dir_slot *slot)
{
	ASSERT(slot->ds_bh != NULL);
	return ext4_journal_get_write_access(handle, slot->ds_bh);
}

int ext4_dir_remove(handle_t *handle, struct inode *dir, struct dir_slot *slot)
{
	struct buffer_head *bh = slot->ds_bh;
	struct ext2_dir_entry_2 *de;
	unsigned rec_len;
	int err = ext4_dir_prepare(handle, slot);

	if (err != 0)
		return err;
	lock_buffer(bh);
	de = ext4_dirent_at(bh->b_data, slot->ds_scan.sc_offset);
	rec_len = le16_to_cpu(de->rec_len);
	if (slot->ds_scan.sc_prev != DIR_NONE) {
		struct ext2_dir_entry_2 *prev = ext4_dirent_at(bh->b_data, slot->ds_scan.sc_prev);

		prev->rec_len = cpu_to_le16((uint16_t)(le16_to_cpu(prev->rec_len) + rec_len));
		memset(de, 0, rec_len);
	} else {
		memset(de, 0, rec_len);
		de->rec_len = cpu_to_le16((uint16_t)rec_len);
	}
	ext4_dirblock_csum_later(dir, bh);
	unlock_buffer(bh);
	return ext4_handle_dirty_metadata(handle, dir, bh);
}

int ext4_dir_replace(handle_t *handle, struct inode *dir, struct dir_slot *slot,
		     const struct dir_new *entry)
{
	struct buffer_head *bh = slot->ds_bh;
	struct ext2_dir_entry_2 *de;
	int err = ext4_dir_prepare(handle, slot);

	if (err != 0)
		return err;
	lock_buffer(bh);
	de = ext4_dirent_at(bh->b_data, slot->ds_scan.sc_offset);
	de->inode = cpu_to_le32(entry->dn_ino);
	de->file_type = entry->dn_type;
	ext4_dirblock_csum_later(dir, bh);
	unlock_buffer(bh);
	return ext4_handle_dirty_metadata(handle, dir, bh);
}

/* ---- "." and ".." ---- */

int ext4_dir_init(handle_t *handle, struct inode *dir, uint32_t parent_ino)
{
	struct super_block *sb = dir->i_sb;
	struct dir_scan dot = {.sc_name = ".", .sc_len = 1};
	struct dir_scan dotdot = {.sc_name = "..", .sc_len = 2};
	uint8_t type = ext4_dirent_type(sb, S_IFDIR);
	struct buffer_head *bh;
	ext4_lblk_t lblk;
	int err;

	ASSERT_CMP(i_size_read(dir), ==, 0u);
	err = ext4_dir_append(handle, dir, &lblk, &bh);
	if (err != 0)
		return err;
	lock_buffer(bh);
	ext4_dirent_at(bh->b_data, 0)->rec_len = cpu_to_le16((uint16_t)ext4_dir_leaf_bytes(sb));
	ext4_dirent_put(bh->b_data, 0, &dot, dir->i_ino, type);
	ext4_dirent_put(bh->b_data, 0, &dotdot, parent_ino, type);
	ext4_dir_init_tail(sb, bh->b_data);
	ext4_dirblock_csum_later(dir, bh);
	unlock_buffer(bh);
	err = ext4_handle_dirty_metadata(handle, dir, bh);
	bh_put(bh);
	return err;
}

/*
 * Read block 0 and check its first two entries; *rest: where the others start. In an indexed directory ".." reaches to
 * the end of the block, over the tail's place.
 */
static int read_dots(struct inode *dir, struct buffer_head **out, unsigned *dotdot, unsigned *rest)
{
	const struct super_block *sb = dir->i_sb;
	const struct ext2_dir_entry_2 *de;
	const char *why;
	int err;

	*dotdot = 0;
	*rest = 0;
	err = ext4_dir_bread(dir, 0, DIR_BLOCK_ANY, out);
	if (err != 0)
		return err;
	ASSERT(*out != NULL);
	de = ext4_dirent_at((*out)->b_data, 0);
	why = ext4_dirent_bad(sb, (*out)->b_data, 0, sb->s_blocksize);
	if (why == NULL &&
	    (de->name_len != 1 || de->name[0] != '.' || le32_to_cpu(de->inode) != dir->i_ino))
		why = "no '.'";
	if (why == NULL)
		*dotdot = le16_to_cpu(de->rec_len);
	if (why == NULL)
		why = ext4_dirent_bad(sb, (*out)->b_data, *dotdot, sb->s_blocksize);
	if (why == NULL) {
		de = ext4_dirent_at((*out)->b_data, *dotdot);
		if (de->name_len != 2 || memcmp(de->name, "..", 2) != 0 || de->inode == 0)
			why = "no '..'";
		*rest = *dotdot + le16_to_cpu(de->rec_len);
	}
	if (why == NULL)
		return 0;
	ext4_dirent_error(dir, 0, *dotdot, why);
	bh_put(*out);
	*out = NULL;
	return -EFSCORRUPTED;
}

int ext4_dir_parent(struct inode *dir, uint32_t *ino)
{
	struct buffer_head *bh;
	unsigned dotdot;
	unsigned rest;
	int err = read_dots(dir, &bh, &dotdot, &rest);

	if (err != 0)
		return err;
	*ino = le32_to_cpu(ext4_dirent_at(bh->b_data, dotdot)->inode);
	bh_put(bh);
	if (!ext4_valid_dir_ino(dir->i_sb, *ino))
		return ext4_error(dir->i_sb, dir->i_ino, "'..' names inode %u", *ino);
	return 0;
}

int ext4_dir_parent_prepare(handle_t *handle, struct inode *dir, struct buffer_head **bh)
{
	struct dx_path path = {.p_depth = 0};
	unsigned dotdot;
	unsigned rest;
	int err = 0;

	*bh = NULL;
	/* The checksum of a root is set by its own count and limit: they must be good. */
	if (ext4_dir_indexed(dir)) {
		err = ext4_dx_probe_hash(dir, 0, &path);
		ext4_dx_put(&path);
	}
	if (err == -EDXBAD)
		err = ext4_error(dir->i_sb, dir->i_ino, "directory has a corrupted index");
	if (err == 0)
		err = read_dots(dir, bh, &dotdot, &rest);
	if (err == 0)
		err = ext4_journal_get_write_access(handle, *bh);
	if (err != 0) {
		bh_put(*bh);
		*bh = NULL;
	}
	return err;
}

int ext4_dir_parent_set(handle_t *handle, struct inode *dir, struct buffer_head *bh,
			uint32_t parent_ino)
{
	uint8_t *data = bh->b_data;
	unsigned dotdot;

	lock_buffer(bh);
	dotdot = le16_to_cpu(ext4_dirent_at(data, 0)->rec_len);
	ext4_dirent_at(data, dotdot)->inode = cpu_to_le32(parent_ino);
	if (ext4_dir_indexed(dir))
		ext4_dx_csum_later(dir, bh, DX_ROOT_ENTRIES);
	else
		ext4_dirblock_csum_later(dir, bh);
	unlock_buffer(bh);
	return ext4_handle_dirty_metadata(handle, dir, bh);
}

/* 1 if no entry is in use from `offset` on, 0 if one is, negative errno. */
static int block_is_empty(struct inode *dir, struct buffer_head *bh, ext4_lblk_t lblk,
			  unsigned offset)
{
	unsigned limit = ext4_dir_leaf_bytes(dir->i_sb);

	if (ext4_dir_is_index_block(dir, lblk, bh->b_data))
		return 1;
	while (offset < limit) {
		const char *why = ext4_dirent_bad(dir->i_sb, bh->b_data, offset, limit);

		if (why != NULL)
			return ext4_dirent_error(dir, lblk, offset, why);
		if (ext4_dirent_at(bh->b_data, offset)->inode != 0)
			return 0;
		offset += le16_to_cpu(ext4_dirent_at(bh->b_data, offset)->rec_len);
	}
	return 1;
}

int ext4_dir_is_empty(struct inode *dir)
{
	struct buffer_head *bh;
	ext4_lblk_t blocks;
	unsigned dotdot;
	unsigned offset;
	int ret;

	ret = ext4_dir_blocks(dir, &blocks);
	if (ret != 0)
		return ret;
	ret = read_dots(dir, &bh, &dotdot, &offset);
	if (ret != 0)
		return ret;
	ret = block_is_empty(dir, bh, 0, offset);
	bh_put(bh);
	for (ext4_lblk_t lblk = 1; ret == 1 && lblk < blocks; lblk++) {
		ret = ext4_dir_bread(dir, lblk, DIR_BLOCK_ANY, &bh);
		if (ret != 0)
			return ret;
		ret = block_is_empty(dir, bh, lblk, 0);
		bh_put(bh);
	}
	return ret;
}
