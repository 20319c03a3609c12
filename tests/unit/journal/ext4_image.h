/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef TESTS_UNIT_JOURNAL_EXT4_IMAGE_H
#define TESTS_UNIT_JOURNAL_EXT4_IMAGE_H
/*
 * Just enough of ext4 to find the journal inode's blocks in an image that mke2fs made, and to compare
 * two images after their logs were replayed.
 */

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "block/blkdev.h"
#include "block/buffer.h"
#include "journal/journal_int.h"
#include "util/crc32c.h"
#include "util/err.h"

#define EI_SB_BYTES 1024u
#define EI_EXTENTS_MAX 64u

struct ext4_image {
	struct blkdev *ei_dev; /* a mem device */
	uint32_t ei_block_bytes;
	uint8_t ei_uuid[16];
	bool ei_csum;
	bool ei_64bit;
	struct jbd2_log_extent ei_extents[EI_EXTENTS_MAX];
	unsigned ei_nr_extents;
};

static inline const uint8_t *ei_block(const struct ext4_image *ei, uint64_t blocknr)
{
	return (const uint8_t *)mem_data(ei->ei_dev) + blocknr * ei->ei_block_bytes;
}

static inline void ei_add_block(struct ext4_image *ei, uint32_t lblk, uint64_t pblk)
{
	struct jbd2_log_extent *le = &ei->ei_extents[ei->ei_nr_extents];

	if (pblk == 0)
		return;
	if (ei->ei_nr_extents > 0 && le[-1].le_lblk + le[-1].le_len == lblk &&
	    le[-1].le_pblk + le[-1].le_len == pblk) {
		le[-1].le_len++;
		return;
	}
	ck_assert_uint_lt(ei->ei_nr_extents, EI_EXTENTS_MAX);
	*le = (struct jbd2_log_extent){lblk, 1, pblk};
	ei->ei_nr_extents++;
}

static inline void ei_read_extents(struct ext4_image *ei, const uint8_t *i_block)
{
	ck_assert_uint_eq(get_le16(i_block), 0xf30a);
	/* mke2fs makes journals of few extents: no tree is needed. */
	ck_assert_uint_eq(get_le16(i_block + 6), 0);
	for (unsigned i = 0; i < get_le16(i_block + 2); i++) {
		const uint8_t *ex = i_block + 12 + (size_t)12 * i;
		uint64_t pblk = get_le32(ex + 8) | (uint64_t)get_le16(ex + 6) << 32;

		for (uint32_t k = 0; k < get_le16(ex + 4); k++)
			ei_add_block(ei, get_le32(ex) + k, pblk + k);
	}
}

static inline uint32_t ei_read_indirect(struct ext4_image *ei, uint64_t blocknr, unsigned depth,
					uint32_t lblk)
{
	uint32_t per_block = ei->ei_block_bytes / 4;

	if (blocknr == 0)
		return lblk;
	if (depth == 0) {
		ei_add_block(ei, lblk, blocknr);
		return lblk + 1;
	}
	for (uint32_t i = 0; i < per_block; i++)
		lblk = ei_read_indirect(ei, get_le32(ei_block(ei, blocknr) + (size_t)4 * i),
					depth - 1, lblk);
	return lblk;
}

static inline void ei_read_map(struct ext4_image *ei, const uint8_t *i_block)
{
	uint32_t lblk = 0;

	for (unsigned i = 0; i < 12; i++)
		lblk = ei_read_indirect(ei, get_le32(i_block + (size_t)4 * i), 0, lblk);
	for (unsigned depth = 1; depth <= 2; depth++)
		lblk = ei_read_indirect(ei, get_le32(i_block + (size_t)4 * (11 + depth)), depth,
					lblk);
}

/* Find the log of the image on dev. */
static inline void ei_open(struct ext4_image *ei, struct blkdev *dev)
{
	const uint8_t *sb = (const uint8_t *)mem_data(dev) + EI_SB_BYTES;
	const uint8_t *inode;
	uint64_t table;

	memset(ei, 0, sizeof(*ei));
	ei->ei_dev = dev;
	ei->ei_block_bytes = 1024u << get_le32(sb + 0x18);
	ei->ei_64bit = (get_le32(sb + 0x60) & 0x80) != 0;
	ei->ei_csum = (get_le32(sb + 0x64) & 0x400) != 0;
	memcpy(ei->ei_uuid, sb + 0x68, sizeof(ei->ei_uuid));
	ck_assert_uint_eq(get_le32(sb + 0xe0), 8);
	table = get_le32(ei_block(ei, get_le32(sb + 0x14) + 1) + 8);
	inode = ei_block(ei, table) + (size_t)7 * get_le16(sb + 0x58);
	if ((get_le32(inode + 0x20) & 0x80000) != 0)
		ei_read_extents(ei, inode + 0x28);
	else
		ei_read_map(ei, inode + 0x28);
	ck_assert_uint_gt(ei->ei_nr_extents, 0);
}

static inline bool ei_in_log(const struct ext4_image *ei, uint64_t blocknr)
{
	for (unsigned i = 0; i < ei->ei_nr_extents; i++)
		if (blocknr >= ei->ei_extents[i].le_pblk &&
		    blocknr < ei->ei_extents[i].le_pblk + ei->ei_extents[i].le_len)
			return true;
	return false;
}

/* The block of the image that holds log block lblk. */
static inline uint8_t *ei_log_block(struct ext4_image *ei, uint32_t lblk)
{
	for (unsigned i = 0; i < ei->ei_nr_extents; i++) {
		const struct jbd2_log_extent *le = &ei->ei_extents[i];

		if (lblk >= le->le_lblk && lblk - le->le_lblk < le->le_len)
			return (uint8_t *)mem_data(ei->ei_dev) +
			       (le->le_pblk + (lblk - le->le_lblk)) * ei->ei_block_bytes;
	}
	ck_abort_msg("log block %u", lblk);
	return NULL;
}

static inline struct jbd2_params ei_params(struct ext4_image *ei, struct bh_cache *cache)
{
	return (struct jbd2_params){
		.jp_cache = cache,
		.jp_fs_dev = ei->ei_dev,
		.jp_log_dev = ei->ei_dev,
		.jp_block_bytes = ei->ei_block_bytes,
		.jp_extents = ei->ei_extents,
		.jp_nr_extents = ei->ei_nr_extents,
		.jp_barrier = true,
		.jp_manual_commit = true,
		.jp_want_csum = ei->ei_csum,
		.jp_want_64bit = ei->ei_64bit,
	};
}

/* The superblock says that the log has to be replayed. */
static inline void ei_set_needs_recovery(struct ext4_image *ei)
{
	uint8_t *sb = (uint8_t *)mem_data(ei->ei_dev) + EI_SB_BYTES;
	uint32_t csum;

	sb[0x60] |= 4;
	if (!ei->ei_csum)
		return;
	csum = crc32c(~UINT32_C(0), sb, 0x3fc);
	for (unsigned i = 0; i < 4; i++)
		sb[0x3fc + i] = (uint8_t)(csum >> 8 * i);
}

/* Replay with our own recovery. */
static inline int ei_recover(struct ext4_image *ei)
{
	struct bh_cache *cache = bh_cache_create(ei->ei_dev, ei->ei_block_bytes, 16 << 20);
	struct jbd2_params params = ei_params(ei, cache);
	journal_t *j = jbd2_journal_init(&params);
	int err = IS_ERR(j) ? PTR_ERR(j) : jbd2_journal_recover(j);

	if (!IS_ERR(j))
		jbd2_journal_destroy(j);
	bh_cache_destroy(cache);
	return err;
}

/* Fields of the superblock that are no business of the log. */
static inline void ei_mask_sb(uint8_t *sb)
{
	static const struct {
		unsigned at, len;
	} fields[] = {
		{0x2c, 4},  /* s_mtime */
		{0x30, 4},  /* s_wtime */
		{0x34, 2},  /* s_mnt_count */
		{0x3a, 2},  /* s_state */
		{0x40, 4},  /* s_lastcheck */
		{0x88, 64}, /* s_last_mounted */
		{0x178, 8}, /* s_kbytes_written */
		{0x274, 4}, /* high bytes of the times */
		{0x3fc, 4}, /* s_checksum */
	};

	for (unsigned i = 0; i < sizeof(fields) / sizeof(fields[0]); i++)
		memset(sb + fields[i].at, 0, fields[i].len);
	/* needs_recovery goes with the mount, not with the replay. */
	sb[0x60] &= (uint8_t)~4u;
}

/* The first block outside the log that differs, or UINT64_MAX. */
static inline uint64_t ei_compare(const struct ext4_image *a, const struct ext4_image *b)
{
	uint64_t blocks = a->ei_dev->bd_size_bytes / a->ei_block_bytes;
	uint8_t x[EI_SB_BYTES], y[EI_SB_BYTES];
	uint64_t sb_block = EI_SB_BYTES / a->ei_block_bytes;
	size_t in_block = EI_SB_BYTES % a->ei_block_bytes;

	memcpy(x, ei_block(a, sb_block) + in_block, sizeof(x));
	memcpy(y, ei_block(b, sb_block) + in_block, sizeof(y));
	ei_mask_sb(x);
	ei_mask_sb(y);
	if (memcmp(x, y, sizeof(x)) != 0)
		return sb_block;
	for (uint64_t blk = 0; blk < blocks; blk++) {
		if (blk == sb_block || ei_in_log(a, blk))
			continue;
		if (memcmp(ei_block(a, blk), ei_block(b, blk), a->ei_block_bytes) != 0)
			return blk;
	}
	return UINT64_MAX;
}

#endif
