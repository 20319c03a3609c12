/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * extent_reader.c - the blocks of the journal and of the orphan file, read at mount.
 *
 * These files are never mapped by alloc/: they lie still, and the journal is needed before
 * anything above exists. The whole map is collected once into an array of runs.
 *
 * Invariants: (1) the runs ascend, touch one another (no hole), and cover exactly i_size. (2)
 * Every block of them, and of the map itself, may hold data as far as the descriptors say. (3) No
 * more index blocks are read than the file could need, so a loop in the tree ends.
 * Locking: mount only, one thread.
 */
#include <ext2fs/ext2fs.h>
#include <ext2fs/ext3_extents.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "ext4/ext4_int.h"
#include "util/log.h"

#define MAX_STATIC_BLOCKS                                                                          \
	(1u << 26) /* the largest log jbd2 can address in 32-bit numbers is never near */
#define FIRST_RUNS 16u

struct reader {
	struct super_block *r_sb;
	uint32_t r_ino;
	uint32_t r_seed;
	uint32_t r_blocks;     /* wanted: i_size in blocks */
	uint32_t r_next;       /* logical block expected next */
	uint32_t r_map_blocks; /* blocks of the map that may still be read */
	struct jbd2_log_extent *r_map;
	unsigned r_n, r_room;
};

static int damaged(const struct reader *r, const char *why)
{
	log_err("%s: inode %u: %s", r->r_sb->s_name, r->r_ino, why);
	return -EFSCORRUPTED;
}

/* Append a run; blocks past the wanted end are left out. */
static int add_run(struct reader *r, uint64_t lblk, uint64_t pblk, uint32_t len)
{
	struct jbd2_log_extent *last = r->r_n > 0 ? &r->r_map[r->r_n - 1] : NULL;

	if (lblk >= r->r_blocks)
		return 0;
	if (lblk != r->r_next)
		return damaged(r, "hole or overlap in its block map");
	if (!ext4_data_block_valid(r->r_sb, pblk, len))
		return damaged(r, "blocks at a bad place");
	if (len > r->r_blocks - lblk)
		len = r->r_blocks - (uint32_t)lblk;
	r->r_next += len;
	if (last != NULL && last->le_pblk + last->le_len == pblk) {
		last->le_len += len;
		return 0;
	}
	if (r->r_n == r->r_room) {
		unsigned room = r->r_room == 0 ? FIRST_RUNS : r->r_room * 2;
		struct jbd2_log_extent *map = realloc(r->r_map, room * sizeof(*map));

		if (map == NULL)
			return -ENOMEM;
		r->r_map = map;
		r->r_room = room;
	}
	r->r_map[r->r_n++] =
		(struct jbd2_log_extent){.le_lblk = (uint32_t)lblk, .le_len = len, .le_pblk = pblk};
	return 0;
}

/* A block of the map itself, as a copy for the caller to free. */
static int read_map_block(struct reader *r, uint64_t pblk, uint8_t **out)
{
	struct super_block *sb = r->r_sb;
	struct buffer_head *bh;

	*out = NULL;
	if (r->r_map_blocks == 0)
		return damaged(r, "block map larger than the file needs");
	r->r_map_blocks--;
	if (!ext4_data_block_valid(sb, pblk, 1))
		return damaged(r, "block map at a bad place");
	bh = bh_read(sb->s_bcache, pblk);
	if (IS_ERR(bh))
		return PTR_ERR(bh);
	*out = malloc(sb->s_blocksize);
	if (*out != NULL) {
		lock_buffer(bh);
		memcpy(*out, bh->b_data, sb->s_blocksize);
		unlock_buffer(bh);
	}
	bh_put(bh);
	return *out != NULL ? 0 : -ENOMEM;
}

/* ---- Extents ---- */

static int check_header(struct reader *r, const struct ext3_extent_header *eh, unsigned depth,
			unsigned room)
{
	unsigned max = le16_to_cpu(eh->eh_max);

	if (le16_to_cpu(eh->eh_magic) != EXT3_EXT_MAGIC || le16_to_cpu(eh->eh_depth) != depth ||
	    max == 0 || max > room || le16_to_cpu(eh->eh_entries) > max)
		return damaged(r, "bad extent header");
	return 0;
}

static int add_leaf(struct reader *r, const uint8_t *node, unsigned entries)
{
	for (unsigned i = 0; i < entries; i++) {
		struct ext3_extent ex;
		uint32_t len;
		int err;

		memcpy(&ex, node + EXT4_EXTENT_SIZE * (1 + (size_t)i), sizeof(ex));
		len = le16_to_cpu(ex.ee_len);
		if (len == 0 || len > EXT_INIT_MAX_LEN)
			return damaged(r, "empty or unwritten extent");
		err = add_run(r, le32_to_cpu(ex.ee_block),
			      join64(le32_to_cpu(ex.ee_start), le16_to_cpu(ex.ee_start_hi)), len);
		if (err != 0)
			return err;
	}
	return 0;
}

static int walk_extents(struct reader *r, const uint8_t *node, unsigned depth, unsigned room);

static int walk_child(struct reader *r, const uint8_t *node, unsigned i, unsigned depth)
{
	const unsigned room = r->r_sb->s_blocksize / EXT4_EXTENT_SIZE - 1;
	struct ext3_extent_idx ix;
	uint8_t *child;
	int err;

	memcpy(&ix, node + EXT4_EXTENT_SIZE * (1 + (size_t)i), sizeof(ix));
	err = read_map_block(r, join64(le32_to_cpu(ix.ei_leaf), le16_to_cpu(ix.ei_leaf_hi)),
			     &child);
	if (err != 0)
		return err;
	if (!ext4_extent_csum_ok_seed(r->r_sb, r->r_seed, child))
		err = -EFSBADCRC;
	else
		err = walk_extents(r, child, depth - 1, room);
	free(child);
	return err;
}

/* Recursion goes down at most EXT4_MAX_EXTENT_DEPTH levels. */
static int walk_extents(struct reader *r, const uint8_t *node, unsigned depth, unsigned room)
{
	struct ext3_extent_header eh;
	unsigned entries;
	int err;

	memcpy(&eh, node, sizeof(eh));
	err = check_header(r, &eh, depth, room);
	if (err != 0)
		return err;
	entries = le16_to_cpu(eh.eh_entries);
	if (depth == 0)
		return add_leaf(r, node, entries);
	for (unsigned i = 0; i < entries && err == 0; i++)
		err = walk_child(r, node, i, depth);
	return err;
}

static int read_extent_file(struct reader *r, const struct ext2_inode_large *raw)
{
	struct ext3_extent_header eh;

	memcpy(&eh, raw->i_block, sizeof(eh));
	if (le16_to_cpu(eh.eh_depth) > EXT4_MAX_EXTENT_DEPTH)
		return damaged(r, "extent tree too deep");
	return walk_extents(r, (const uint8_t *)raw->i_block, le16_to_cpu(eh.eh_depth),
			    EXT4_N_BLOCKS_BYTES / EXT4_EXTENT_SIZE - 1);
}

/* ---- Indirect blocks ---- */

/* The file from r_next on, through a pointer of the given level (0: the block itself). */
static int walk_pointer(struct reader *r, uint32_t pblk, unsigned level)
{
	const unsigned per_block = r->r_sb->s_blocksize / 4;
	uint8_t *block;
	int err;

	if (r->r_next >= r->r_blocks)
		return 0;
	if (level == 0)
		return add_run(r, r->r_next, pblk, 1);
	err = read_map_block(r, pblk, &block);
	for (unsigned i = 0; i < per_block && err == 0; i++) {
		uint32_t le_pblk;

		memcpy(&le_pblk, block + i * sizeof(le_pblk), sizeof(le_pblk));
		err = walk_pointer(r, le32_to_cpu(le_pblk), level - 1);
	}
	free(block);
	return err;
}

static int read_indirect_file(struct reader *r, const struct ext2_inode_large *raw)
{
	int err = 0;

	for (unsigned i = 0; i < EXT2_N_BLOCKS && err == 0; i++) {
		unsigned level = i < EXT2_NDIR_BLOCKS ? 0 : i - EXT2_NDIR_BLOCKS + 1;

		err = walk_pointer(r, le32_to_cpu(raw->i_block[i]), level);
	}
	return err;
}

/* ---- Whole files ---- */

static int check_file(struct reader *r, const struct ext2_inode_large *raw)
{
	struct super_block *sb = r->r_sb;
	uint64_t size = ext4_raw_size(sb, raw);

	if (!S_ISREG(le16_to_cpu(raw->i_mode)) || raw->i_links_count == 0)
		return damaged(r, "not a regular file in use");
	if ((le32_to_cpu(raw->i_flags) & EXT4_INLINE_DATA_FL) != 0)
		return damaged(r, "inline data");
	if (size == 0 || size % sb->s_blocksize != 0 ||
	    size >> sb->s_blocksize_bits > MAX_STATIC_BLOCKS)
		return damaged(r, "impossible size");
	r->r_blocks = (uint32_t)(size >> sb->s_blocksize_bits);
	/* Enough for a tree of single-block extents, or for indirect blocks. */
	r->r_map_blocks = r->r_blocks / (sb->s_blocksize / EXT4_EXTENT_SIZE / 4) + 16;
	return 0;
}

static int read_map(struct reader *r, const struct ext2_inode_large *raw)
{
	int err = check_file(r, raw);

	if (err != 0)
		return err;
	r->r_seed = ext4_inode_csum_seed(r->r_sb, r->r_ino, le32_to_cpu(raw->i_generation));
	if ((le32_to_cpu(raw->i_flags) & EXT4_EXTENTS_FL) != 0)
		err = read_extent_file(r, raw);
	else
		err = read_indirect_file(r, raw);
	if (err == 0 && r->r_next != r->r_blocks)
		err = damaged(r, "blocks missing at the end");
	return err;
}

int ext4_map_static_file(struct super_block *sb, uint32_t ino, struct jbd2_log_extent **map_out,
			 unsigned *nr_out)
{
	struct reader r = {.r_sb = sb, .r_ino = ino};
	struct ext2_inode_large *raw = malloc(sb->s_inode_size);
	int err;

	*map_out = NULL;
	*nr_out = 0;
	if (raw == NULL)
		return -ENOMEM;
	memset(raw, 0, sb->s_inode_size);
	if (ino == 0 || ino > sb->s_inodes_count)
		err = damaged(&r, "no such inode");
	else
		err = ext4_read_raw_inode(sb, ino, raw);
	if (err == 0)
		err = read_map(&r, raw);
	free(raw);
	if (err != 0) {
		free(r.r_map);
		return err;
	}
	*map_out = r.r_map;
	*nr_out = r.r_n;
	return 0;
}
