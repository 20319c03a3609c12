/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * csum.c - the checksums of all metadata, and the directory hash.
 *
 * metadata_csum: crc32c over a seed (of the file system, or of an inode: number and generation
 * mixed in, so that a block of one file is not valid in another) and the block, with the checksum
 * field itself taken as zero. uninit_bg: only descriptors, with crc16. Without either the
 * setters do nothing and the checkers say yes.
 *
 * Invariants: (1) no function here trusts a length that the disk supplies without a bound: a tail
 * that would lie outside the block is a mismatch. (2) The hash's signedness comes from the
 * superblock (ext4/geometry.c), never from the host's char. (3) Blocks that change often, of extents and directories, get
 * their checksum when the journal copies them (b_seal), not at each change; nothing verifies a block in memory again.
 * Locking: the callers hold the buffer's lock.
 */
#include <ext2fs/ext2fs.h>
#include <ext2fs/ext2_ext_attr.h>
#include <ext2fs/ext3_extents.h>
#include <string.h>

#include "ext4/ext4_int.h"
#include "util/crc32c.h"

#define CRC_START 0xffffffffu
#define CRC16_POLY 0xa001u

/* ---- CRC-16 of uninit_bg descriptors ---- */

static uint16_t crc16(uint16_t crc, const void *data, size_t len)
{
	const uint8_t *p = data;

	for (size_t i = 0; i < len; i++) {
		crc = (uint16_t)(crc ^ p[i]);
		for (unsigned bit = 0; bit < 8; bit++)
			crc = (uint16_t)((crc >> 1) ^ ((crc & 1) != 0 ? CRC16_POLY : 0));
	}
	return crc;
}

/* ---- Superblock ---- */

void ext4_csum_init_seed(struct super_block *sb, const struct ext2_super_block *es)
{
	if ((le32_to_cpu(es->s_feature_incompat) & EXT4_FEATURE_INCOMPAT_CSUM_SEED) != 0)
		sb->s_csum_seed = le32_to_cpu(es->s_checksum_seed);
	else
		sb->s_csum_seed = crc32c(CRC_START, es->s_uuid, sizeof(es->s_uuid));
}

static bool es_has_metadata_csum(const struct ext2_super_block *es)
{
	return (le32_to_cpu(es->s_feature_ro_compat) & EXT4_FEATURE_RO_COMPAT_METADATA_CSUM) != 0;
}

uint32_t ext4_superblock_csum(const struct ext2_super_block *es)
{
	return crc32c(CRC_START, es, offsetof(struct ext2_super_block, s_checksum));
}

bool ext4_superblock_csum_ok(const struct ext2_super_block *es)
{
	return !es_has_metadata_csum(es) || le32_to_cpu(es->s_checksum) == ext4_superblock_csum(es);
}

void ext4_superblock_csum_set(struct ext2_super_block *es)
{
	if (es_has_metadata_csum(es))
		es->s_checksum = cpu_to_le32(ext4_superblock_csum(es));
}

/* ---- Group descriptors and bitmaps ---- */

uint16_t ext4_group_desc_csum(const struct super_block *sb, ext4_group_t group, const uint8_t *desc)
{
	const size_t at = offsetof(struct ext4_group_desc, bg_checksum);
	const size_t after = at + sizeof(uint16_t);
	const uint32_t le_group = cpu_to_le32(group);
	const uint16_t zero = 0;

	if (ext4_has_metadata_csum(sb)) {
		uint32_t crc = crc32c(sb->s_csum_seed, &le_group, sizeof(le_group));

		crc = crc32c(crc, desc, at);
		crc = crc32c(crc, &zero, sizeof(zero));
		crc = crc32c(crc, desc + after, sb->s_desc_size - after);
		return (uint16_t)crc;
	}
	if (ext4_has_ro_compat(sb, EXT4_FEATURE_RO_COMPAT_GDT_CSUM)) {
		uint16_t crc = crc16(0xffff, sb->s_es->s_uuid, sizeof(sb->s_es->s_uuid));

		crc = crc16(crc, &le_group, sizeof(le_group));
		crc = crc16(crc, desc, at);
		return crc16(crc, desc + after, sb->s_desc_size - after);
	}
	return 0;
}

bool ext4_group_desc_csum_ok(const struct super_block *sb, ext4_group_t group, const uint8_t *desc)
{
	uint16_t stored;

	if (!ext4_has_group_csum(sb))
		return true;
	memcpy(&stored, desc + offsetof(struct ext4_group_desc, bg_checksum), sizeof(stored));
	return le16_to_cpu(stored) == ext4_group_desc_csum(sb, group, desc);
}

void ext4_group_desc_csum_set(const struct super_block *sb, ext4_group_t group, uint8_t *desc)
{
	uint16_t csum;

	if (!ext4_has_group_csum(sb))
		return;
	csum = cpu_to_le16(ext4_group_desc_csum(sb, group, desc));
	memcpy(desc + offsetof(struct ext4_group_desc, bg_checksum), &csum, sizeof(csum));
}

static bool desc_has_hi(const struct super_block *sb, size_t end)
{
	return sb->s_desc_size >= end;
}

static bool bitmap_csum_ok(const struct super_block *sb, const uint8_t *bitmap, uint32_t bits,
			   uint32_t stored, bool has_hi)
{
	uint32_t csum;

	if (!ext4_has_metadata_csum(sb))
		return true;
	csum = crc32c(sb->s_csum_seed, bitmap, bits / 8);
	return has_hi ? stored == csum : (stored & 0xffff) == (csum & 0xffff);
}

bool ext4_block_bitmap_csum_ok(const struct super_block *sb, const struct ext4_group_desc *gd,
			       const uint8_t *bitmap)
{
	uint32_t stored = le16_to_cpu(gd->bg_block_bitmap_csum_lo) |
			  (uint32_t)le16_to_cpu(gd->bg_block_bitmap_csum_hi) << 16;

	return bitmap_csum_ok(sb, bitmap, sb->s_clusters_per_group, stored,
			      desc_has_hi(sb, EXT4_BG_BLOCK_BITMAP_CSUM_HI_LOCATION));
}

bool ext4_inode_bitmap_csum_ok(const struct super_block *sb, const struct ext4_group_desc *gd,
			       const uint8_t *bitmap)
{
	uint32_t stored = le16_to_cpu(gd->bg_inode_bitmap_csum_lo) |
			  (uint32_t)le16_to_cpu(gd->bg_inode_bitmap_csum_hi) << 16;

	return bitmap_csum_ok(sb, bitmap, sb->s_inodes_per_group, stored,
			      desc_has_hi(sb, EXT4_BG_INODE_BITMAP_CSUM_HI_END));
}

void ext4_block_bitmap_csum_set(const struct super_block *sb, struct ext4_group_desc *gd,
				const uint8_t *bitmap)
{
	uint32_t csum;

	if (!ext4_has_metadata_csum(sb))
		return;
	csum = crc32c(sb->s_csum_seed, bitmap, sb->s_clusters_per_group / 8);
	gd->bg_block_bitmap_csum_lo = cpu_to_le16((uint16_t)csum);
	if (desc_has_hi(sb, EXT4_BG_BLOCK_BITMAP_CSUM_HI_LOCATION))
		gd->bg_block_bitmap_csum_hi = cpu_to_le16((uint16_t)(csum >> 16));
}

void ext4_inode_bitmap_csum_set(const struct super_block *sb, struct ext4_group_desc *gd,
				const uint8_t *bitmap)
{
	uint32_t csum;

	if (!ext4_has_metadata_csum(sb))
		return;
	csum = crc32c(sb->s_csum_seed, bitmap, sb->s_inodes_per_group / 8);
	gd->bg_inode_bitmap_csum_lo = cpu_to_le16((uint16_t)csum);
	if (desc_has_hi(sb, EXT4_BG_INODE_BITMAP_CSUM_HI_END))
		gd->bg_inode_bitmap_csum_hi = cpu_to_le16((uint16_t)(csum >> 16));
}

/* ---- Inodes ---- */

uint32_t ext4_inode_csum_seed(const struct super_block *sb, uint32_t ino, uint32_t generation)
{
	const uint32_t le_ino = cpu_to_le32(ino);
	const uint32_t le_gen = cpu_to_le32(generation);
	uint32_t crc = crc32c(sb->s_csum_seed, &le_ino, sizeof(le_ino));

	return crc32c(crc, &le_gen, sizeof(le_gen));
}

static bool raw_has_csum_hi(const struct super_block *sb, const struct ext2_inode_large *raw)
{
	return sb->s_inode_size > EXT4_GOOD_OLD_SIZE &&
	       le16_to_cpu(raw->i_extra_isize) >= EXT4_INODE_CSUM_HI_EXTRA_END;
}

static uint32_t raw_inode_csum(const struct super_block *sb, uint32_t seed,
			       const struct ext2_inode_large *raw)
{
	const uint8_t *p = (const uint8_t *)raw;
	const size_t lo = offsetof(struct ext2_inode_large, i_checksum_lo);
	const size_t hi = offsetof(struct ext2_inode_large, i_checksum_hi);
	const uint16_t zero = 0;
	size_t from = lo + sizeof(zero);
	uint32_t crc = crc32c(seed, p, lo);

	crc = crc32c(crc, &zero, sizeof(zero));
	if (raw_has_csum_hi(sb, raw)) {
		crc = crc32c(crc, p + from, hi - from);
		crc = crc32c(crc, &zero, sizeof(zero));
		from = hi + sizeof(zero);
	}
	return crc32c(crc, p + from, sb->s_inode_size - from);
}

bool ext4_raw_inode_csum_ok(const struct super_block *sb, uint32_t seed,
			    const struct ext2_inode_large *raw)
{
	uint32_t csum, stored;

	if (!ext4_has_metadata_csum(sb))
		return true;
	csum = raw_inode_csum(sb, seed, raw);
	stored = le16_to_cpu(raw->i_checksum_lo);
	if (raw_has_csum_hi(sb, raw))
		stored |= (uint32_t)le16_to_cpu(raw->i_checksum_hi) << 16;
	else
		csum &= 0xffff;
	return stored == csum;
}

/* With the fields themselves at zero one pass does it. */
void ext4_raw_inode_csum_put(const struct super_block *sb, uint32_t seed,
			     struct ext2_inode_large *raw)
{
	const bool has_hi = raw_has_csum_hi(sb, raw);
	uint32_t csum;

	if (!ext4_has_metadata_csum(sb))
		return;
	raw->i_checksum_lo = 0;
	if (has_hi)
		raw->i_checksum_hi = 0;
	csum = crc32c(seed, raw, sb->s_inode_size);
	raw->i_checksum_lo = cpu_to_le16((uint16_t)csum);
	if (has_hi)
		raw->i_checksum_hi = cpu_to_le16((uint16_t)(csum >> 16));
}

void ext4_raw_inode_csum_set(struct inode *inode, struct ext2_inode_large *raw)
{
	ext4_raw_inode_csum_put(inode->i_sb, inode->i_csum_seed, raw);
}

/* ---- Blocks of an inode ---- */

/* Where the tail of an extent block is, or 0 if eh_max is too large to leave room for one. */
static size_t extent_tail(uint32_t block_bytes, const uint8_t *data)
{
	uint16_t max;
	size_t at;

	memcpy(&max, data + offsetof(struct ext3_extent_header, eh_max), sizeof(max));
	at = EXT4_EXTENT_SIZE + (size_t)EXT4_EXTENT_SIZE * le16_to_cpu(max);
	return at + sizeof(struct ext3_extent_tail) <= block_bytes ? at : 0;
}

bool ext4_extent_csum_ok_seed(const struct super_block *sb, uint32_t seed, const uint8_t *data)
{
	uint32_t stored;
	size_t at;

	if (!ext4_has_metadata_csum(sb))
		return true;
	at = extent_tail(sb->s_blocksize, data);
	if (at == 0)
		return false;
	memcpy(&stored, data + at, sizeof(stored));
	return le32_to_cpu(stored) == crc32c(seed, data, at);
}

bool ext4_extent_block_csum_ok(struct inode *inode, const uint8_t *data)
{
	return ext4_extent_csum_ok_seed(inode->i_sb, inode->i_csum_seed, data);
}

static void seal_extent(struct buffer_head *bh)
{
	size_t at = extent_tail(bh->b_size, bh->b_data);
	uint32_t csum;

	if (at == 0)
		return;
	csum = cpu_to_le32(crc32c(bh->b_seal_seed, bh->b_data, at));
	memcpy(bh->b_data + at, &csum, sizeof(csum));
}

void ext4_extent_block_csum_later(struct inode *inode, struct buffer_head *bh)
{
	if (ext4_has_metadata_csum(inode->i_sb))
		bh_seal_later(bh, seal_extent, inode->i_csum_seed, 0);
}

static size_t dirblock_tail(uint32_t block_bytes)
{
	return block_bytes - sizeof(struct ext2_dir_entry_tail);
}

bool ext4_dirblock_csum_ok(struct inode *dir, const uint8_t *data)
{
	const size_t at = dirblock_tail(dir->i_sb->s_blocksize);
	struct ext2_dir_entry_tail tail;

	if (!ext4_has_metadata_csum(dir->i_sb))
		return true;
	memcpy(&tail, data + at, sizeof(tail));
	return tail.det_reserved_zero1 == 0 && le16_to_cpu(tail.det_rec_len) == sizeof(tail) &&
	       le16_to_cpu(tail.det_reserved_name_len) == EXT2_DIR_NAME_LEN_CSUM &&
	       le32_to_cpu(tail.det_checksum) == crc32c(dir->i_csum_seed, data, at);
}

static void seal_dirblock(struct buffer_head *bh)
{
	const size_t at = dirblock_tail(bh->b_size);
	struct ext2_dir_entry_tail tail = {
		.det_rec_len = cpu_to_le16(sizeof(tail)),
		.det_reserved_name_len = cpu_to_le16(EXT2_DIR_NAME_LEN_CSUM),
	};

	tail.det_checksum = cpu_to_le32(crc32c(bh->b_seal_seed, bh->b_data, at));
	memcpy(bh->b_data + at, &tail, sizeof(tail));
}

void ext4_dirblock_csum_later(struct inode *dir, struct buffer_head *bh)
{
	ext4_dir_changed(dir);
	if (ext4_has_metadata_csum(dir->i_sb))
		bh_seal_later(bh, seal_dirblock, dir->i_csum_seed, 0);
}

/* The tail of an htree block, or 0 if it would not lie in the block. */
static size_t dx_tail(uint32_t block_bytes, unsigned count_offset, unsigned count, unsigned limit)
{
	uint64_t at = count_offset + (uint64_t)limit * sizeof(struct ext2_dx_entry);

	if (count > limit || at + sizeof(struct ext2_dx_tail) > block_bytes)
		return 0;
	return (size_t)at;
}

static uint32_t dx_csum(uint32_t seed, const uint8_t *data, size_t used, size_t tail)
{
	const uint32_t zero = 0;
	uint32_t crc = crc32c(seed, data, used);

	crc = crc32c(crc, data + tail, offsetof(struct ext2_dx_tail, dt_checksum));
	return crc32c(crc, &zero, sizeof(zero));
}

bool ext4_dx_csum_ok(struct inode *dir, const uint8_t *data, unsigned count_offset, unsigned count,
		     unsigned limit)
{
	struct ext2_dx_tail tail;
	size_t at;

	if (!ext4_has_metadata_csum(dir->i_sb))
		return true;
	at = dx_tail(dir->i_sb->s_blocksize, count_offset, count, limit);
	if (at == 0)
		return false;
	memcpy(&tail, data + at, sizeof(tail));
	return le32_to_cpu(tail.dt_checksum) ==
	       dx_csum(dir->i_csum_seed, data, count_offset + count * sizeof(struct ext2_dx_entry),
		       at);
}

/* The block's own count and limit, at count_offset, were checked when it was read. */
static void seal_dx(struct buffer_head *bh)
{
	const unsigned count_offset = bh->b_seal_at;
	struct ext2_dx_countlimit cl;
	uint32_t csum;
	size_t used, at;

	memcpy(&cl, bh->b_data + count_offset, sizeof(cl));
	at = dx_tail(bh->b_size, count_offset, le16_to_cpu(cl.count), le16_to_cpu(cl.limit));
	if (at == 0)
		return;
	used = count_offset + le16_to_cpu(cl.count) * sizeof(struct ext2_dx_entry);
	csum = cpu_to_le32(dx_csum(bh->b_seal_seed, bh->b_data, used, at));
	memcpy(bh->b_data + at + offsetof(struct ext2_dx_tail, dt_checksum), &csum, sizeof(csum));
}

void ext4_dx_csum_later(struct inode *dir, struct buffer_head *bh, unsigned count_offset)
{
	ext4_dir_changed(dir);
	if (ext4_has_metadata_csum(dir->i_sb))
		bh_seal_later(bh, seal_dx, dir->i_csum_seed, count_offset);
}

/* ---- Blocks shared by inodes ---- */

static uint32_t xattr_block_csum(const struct super_block *sb, ext4_fsblk_t blocknr,
				 const uint8_t *data)
{
	const size_t at = offsetof(struct ext2_ext_attr_header, h_checksum);
	const uint64_t le_block = cpu_to_le64(blocknr);
	const uint32_t zero = 0;
	uint32_t crc = crc32c(sb->s_csum_seed, &le_block, sizeof(le_block));

	crc = crc32c(crc, data, at);
	crc = crc32c(crc, &zero, sizeof(zero));
	return crc32c(crc, data + at + sizeof(zero), sb->s_blocksize - at - sizeof(zero));
}

bool ext4_xattr_block_csum_ok(struct inode *inode, ext4_fsblk_t blocknr, const uint8_t *data)
{
	uint32_t stored;

	if (!ext4_has_metadata_csum(inode->i_sb))
		return true;
	memcpy(&stored, data + offsetof(struct ext2_ext_attr_header, h_checksum), sizeof(stored));
	return le32_to_cpu(stored) == xattr_block_csum(inode->i_sb, blocknr, data);
}

void ext4_xattr_block_csum_set(struct inode *inode, ext4_fsblk_t blocknr, uint8_t *data)
{
	uint32_t csum;

	if (!ext4_has_metadata_csum(inode->i_sb))
		return;
	csum = cpu_to_le32(xattr_block_csum(inode->i_sb, blocknr, data));
	memcpy(data + offsetof(struct ext2_ext_attr_header, h_checksum), &csum, sizeof(csum));
}

uint32_t ext4_orphan_block_csum(const struct super_block *sb, uint32_t seed, uint64_t blocknr,
				const uint8_t *data)
{
	const uint64_t le_block = cpu_to_le64(blocknr);
	uint32_t crc = crc32c(seed, &le_block, sizeof(le_block));

	return crc32c(crc, data, sb->s_blocksize - sizeof(struct ext4_orphan_block_tail));
}

/* ---- Directory hash ---- */

int ext4_dirhash(const struct super_block *sb, unsigned version, const char *name, unsigned len,
		 uint32_t *hash, uint32_t *minor_hash)
{
	ext2_dirhash_t major = 0, minor = 0;
	errcode_t err;

	*hash = 0;
	if (minor_hash != NULL)
		*minor_hash = 0;
	if (version > EXT2_HASH_TEA_UNSIGNED)
		return -EINVAL;
	err = ext2fs_dirhash2((int)version, name, (int)len, NULL, 0, sb->s_hash_seed, &major,
			      &minor);
	if (err != 0)
		return -EINVAL;
	*hash = major;
	if (minor_hash != NULL)
		*minor_hash = minor;
	return 0;
}
