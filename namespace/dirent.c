/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * dirent.c - the entries of one directory block: checked, searched, added, removed.
 *
 * A leaf block is a chain of entries, each with the distance to the next. With metadata_csum the last 12 bytes are a
 * tail that looks like an unused entry and holds the checksum; the chain ends before it. A block that comes from the
 * disk is trusted in nothing: the checksum is looked at once for each read (BH_VERIFIED), the chain at each walk, since
 * a hostile file system can give one block two uses.
 *
 * Invariants: (1) no walk leaves the block: each step is at least 12 bytes, a multiple of 4, and ends within the limit.
 * (2) An entry is followed to its inode only if ext4_valid_dir_ino() holds. (3) Each change makes the block's checksum due,
 * under the same lock_buffer().
 * Locking: i_rwsem of the directory; lock_buffer() around changes, since a commit may copy the block meanwhile.
 */
#include "namespace/dir.h"

#include <string.h>

#define FT_CSUM_TAIL 0xDEu
#define DIR_MAX_BYTES_COMPAT INT32_MAX /* without large_dir */

unsigned ext4_dir_leaf_bytes(const struct super_block *sb)
{
	return sb->s_blocksize - (ext4_has_metadata_csum(sb) ? DIR_TAIL_BYTES : 0);
}

/* ---- Types ---- */

uint8_t ext4_dirent_type(const struct super_block *sb, uint16_t mode)
{
	static const uint8_t types[16] = {
		[S_IFREG >> 12] = EXT2_FT_REG_FILE, [S_IFDIR >> 12] = EXT2_FT_DIR,
		[S_IFCHR >> 12] = EXT2_FT_CHRDEV,   [S_IFBLK >> 12] = EXT2_FT_BLKDEV,
		[S_IFIFO >> 12] = EXT2_FT_FIFO,	    [S_IFSOCK >> 12] = EXT2_FT_SOCK,
		[S_IFLNK >> 12] = EXT2_FT_SYMLINK,
	};

	if (!ext4_has_incompat(sb, EXT2_FEATURE_INCOMPAT_FILETYPE))
		return EXT2_FT_UNKNOWN;
	return types[mode >> 12];
}

uint8_t ext4_dirent_dt(const struct super_block *sb, uint8_t file_type)
{
	/* DT_* are the type bits of the mode. */
	static const uint8_t types[EXT2_FT_MAX] = {
		[EXT2_FT_REG_FILE] = S_IFREG >> 12, [EXT2_FT_DIR] = S_IFDIR >> 12,
		[EXT2_FT_CHRDEV] = S_IFCHR >> 12,   [EXT2_FT_BLKDEV] = S_IFBLK >> 12,
		[EXT2_FT_FIFO] = S_IFIFO >> 12,	    [EXT2_FT_SOCK] = S_IFSOCK >> 12,
		[EXT2_FT_SYMLINK] = S_IFLNK >> 12,
	};

	if (!ext4_has_incompat(sb, EXT2_FEATURE_INCOMPAT_FILETYPE) || file_type >= EXT2_FT_MAX)
		return 0;
	return types[file_type];
}

/* ---- Checks ---- */

const char *ext4_dirent_bad(const struct super_block *sb, uint8_t *data, unsigned offset,
			    unsigned limit)
{
	const struct ext2_dir_entry_2 *de;
	unsigned rec_len;

	if (limit - offset < DIR_MIN_REC_LEN)
		return "entry too close to the end of the block";
	de = ext4_dirent_at(data, offset);
	rec_len = le16_to_cpu(de->rec_len);
	if (rec_len < DIR_MIN_REC_LEN)
		return "rec_len is smaller than minimal";
	if ((rec_len & 3) != 0)
		return "rec_len % 4 != 0";
	if (rec_len > limit - offset)
		return "entry crosses the end of the block";
	if (ext4_dir_rec_len(de->name_len) > rec_len)
		return "rec_len is too small for name_len";
	if (de->inode == 0)
		return NULL;
	if (de->name_len == 0)
		return "empty name";
	if (le32_to_cpu(de->inode) > sb->s_inodes_count)
		return "inode out of bounds";
	return NULL;
}

int ext4_dirent_error(struct inode *dir, ext4_lblk_t lblk, unsigned offset, const char *why)
{
	return ext4_error(dir->i_sb, dir->i_ino, "bad entry in directory: %s, block %u offset %u",
			  why, lblk, offset);
}

int ext4_dir_blocks(struct inode *dir, ext4_lblk_t *blocks)
{
	uint64_t n = i_size_read(dir) >> dir->i_sb->s_blocksize_bits;

	/* Directories have no holes, so none can have more blocks than the device. */
	if (n > dir->i_sb->s_blocks_count || n >= EXT4_MAX_BLOCKS)
		return ext4_error(dir->i_sb, dir->i_ino, "directory of %llu blocks",
				  (unsigned long long)n);
	*blocks = (ext4_lblk_t)n;
	return 0;
}

bool ext4_dir_is_index_block(const struct inode *dir, ext4_lblk_t lblk, uint8_t *data)
{
	const struct ext2_dir_entry_2 *de = ext4_dirent_at(data, 0);

	if (!ext4_dir_indexed(dir))
		return false;
	return lblk == 0 || (de->inode == 0 && le16_to_cpu(de->rec_len) == dir->i_sb->s_blocksize);
}

/* ---- Blocks ---- */

static int leaf_csum_check(struct inode *dir, ext4_lblk_t lblk, struct buffer_head *bh)
{
	struct super_block *sb = dir->i_sb;

	if (bh_test(bh, BH_VERIFIED))
		return 0;
	if (!ext4_dirblock_csum_ok(dir, bh->b_data))
		return ext4_error_csum(sb, dir->i_ino, bh->b_blocknr,
				       "directory block %u fails its checksum", lblk);
	bh_set(bh, BH_VERIFIED);
	return 0;
}

int ext4_dir_bread(struct inode *dir, ext4_lblk_t lblk, enum dir_block_kind kind,
		   struct buffer_head **out)
{
	int err = 0;

	*out = ext4_bread(NULL, dir, lblk, false, &err);
	if (*out == NULL && err == 0)
		return ext4_error(dir->i_sb, dir->i_ino, "hole at block %u of a directory", lblk);
	if (*out == NULL)
		return err;
	if (kind == DIR_BLOCK_ANY && !ext4_dir_is_index_block(dir, lblk, (*out)->b_data))
		kind = DIR_BLOCK_LEAF;
	if (kind == DIR_BLOCK_LEAF)
		err = leaf_csum_check(dir, lblk, *out);
	if (err != 0) {
		bh_put(*out);
		*out = NULL;
	}
	return err;
}

void ext4_dir_readahead(struct inode *dir, ext4_lblk_t lblk, ext4_lblk_t blocks)
{
	struct bh_cache *cache = dir->i_sb->s_bcache;
	struct ext4_map_blocks map = {.m_lblk = lblk, .m_len = DIR_READAHEAD_BLOCKS};
	struct buffer_head *bh;
	bool cached;

	if (map.m_len > blocks - lblk)
		map.m_len = blocks - lblk;
	if (map.m_len < 2 || ext4_map_blocks(NULL, dir, &map, 0) < 2)
		return;
	bh = bh_find(cache, map.m_pblk);
	cached = bh != NULL && bh_test(bh, BH_UPTODATE);
	bh_put(bh);
	if (!cached)
		bh_readahead(cache, map.m_pblk, map.m_len);
}

static bool append_room(struct inode *dir, ext4_lblk_t lblk)
{
	struct super_block *sb = dir->i_sb;
	uint64_t end = ((uint64_t)lblk + 1) << sb->s_blocksize_bits;

	if (!ext4_has_incompat(sb, EXT4_FEATURE_INCOMPAT_LARGEDIR) && end > DIR_MAX_BYTES_COMPAT)
		return false;
	return end <= ext4_max_size(dir);
}

int ext4_dir_append(handle_t *handle, struct inode *dir, ext4_lblk_t *lblk,
		    struct buffer_head **out)
{
	struct super_block *sb = dir->i_sb;
	struct ext4_map_blocks map = {.m_len = 1};
	int err;

	*out = NULL;
	err = ext4_dir_blocks(dir, lblk);
	if (err != 0)
		return err;
	if (!append_room(dir, *lblk))
		return -ENOSPC;
	map.m_lblk = *lblk;
	err = ext4_map_blocks(NULL, dir, &map, 0);
	if (err < 0)
		return err;
	if (err > 0)
		return ext4_error(sb, dir->i_ino, "block %u beyond the directory's end is mapped",
				  *lblk);
	*out = ext4_bread(handle, dir, *lblk, true, &err);
	if (*out == NULL)
		return err != 0 ? err : -EIO;
	bh_set(*out, BH_VERIFIED);
	i_size_write(dir, ((uint64_t)*lblk + 1) << sb->s_blocksize_bits);
	atomic_store(&dir->i_disksize, i_size_read(dir));
	err = ext4_mark_inode_dirty(handle, dir);
	if (err != 0) {
		bh_put(*out);
		*out = NULL;
	}
	return err;
}

void ext4_dir_init_tail(const struct super_block *sb, uint8_t *data)
{
	struct ext2_dir_entry_2 *tail;

	if (!ext4_has_metadata_csum(sb))
		return;
	tail = ext4_dirent_at(data, sb->s_blocksize - DIR_TAIL_BYTES);
	memset(tail, 0, DIR_TAIL_BYTES);
	tail->rec_len = cpu_to_le16(DIR_TAIL_BYTES);
	tail->file_type = FT_CSUM_TAIL;
}

/* ---- Search and change ---- */

int ext4_dirent_scan(struct inode *dir, struct buffer_head *bh, ext4_lblk_t lblk,
		     struct dir_scan *scan)
{
	const struct super_block *sb = dir->i_sb;
	unsigned limit = ext4_dir_leaf_bytes(sb);
	unsigned need = ext4_dir_rec_len(scan->sc_len);
	unsigned prev = DIR_NONE;
	unsigned offset = 0;
	/* Names in one directory are alike at their start. */
	size_t end = scan->sc_len - 1;

	scan->sc_fit = DIR_NONE;
	while (offset < limit) {
		const struct ext2_dir_entry_2 *de = ext4_dirent_at(bh->b_data, offset);
		const char *why = ext4_dirent_bad(sb, bh->b_data, offset, limit);

		if (why != NULL)
			return ext4_dirent_error(dir, lblk, offset, why);
		if (de->inode != 0 && de->name_len == scan->sc_len &&
		    de->name[end] == scan->sc_name[end] &&
		    memcmp(de->name, scan->sc_name, scan->sc_len) == 0) {
			scan->sc_offset = offset;
			scan->sc_prev = prev;
			return 1;
		}
		if (scan->sc_fit == DIR_NONE && ext4_dirent_room(de) >= need)
			scan->sc_fit = offset;
		prev = offset;
		offset += le16_to_cpu(de->rec_len);
	}
	return 0;
}

void ext4_dirent_put(uint8_t *data, unsigned offset, const struct dir_scan *scan, uint32_t ino,
		     uint8_t type)
{
	struct ext2_dir_entry_2 *de = ext4_dirent_at(data, offset);
	unsigned room = le16_to_cpu(de->rec_len);

	if (de->inode != 0) {
		unsigned used = ext4_dir_rec_len(de->name_len);

		de->rec_len = cpu_to_le16((uint16_t)used);
		de = ext4_dirent_at(data, offset + used);
		room -= used;
		de->rec_len = cpu_to_le16((uint16_t)room);
	}
	ASSERT_CMP(room, >=, ext4_dir_rec_len(scan->sc_len));
	de->inode = cpu_to_le32(ino);
	de->name_len = (uint8_t)scan->sc_len;
	de->file_type = type;
	memcpy(de->name, scan->sc_name, scan->sc_len);
}
