/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * bitmap.c - block and inode bitmaps: read or made, and checked once.
 *
 * A bitmap of an UNINIT group (only with descriptor checksums) is not on the disk: it is made in
 * memory as the kernel makes it, the group's metadata in use and nothing else. Others are read and
 * checked: checksum, padding behind the last bit, and for block bitmaps that all metadata in the
 * group is marked in use. The result is remembered in the buffer (BH_VERIFIED), so the hot path is
 * one look-up and two bit tests.
 *
 * Invariants: (1) a buffer returned is uptodate and verified. (2) A bitmap that failed is never
 * returned: the group is marked bad and stays so.
 * Locking: making and checking happen under the buffer's b_lock; bitmaps change only once they are
 * verified, so a check never sees a change half done.
 */
#include <string.h>

#include "ext4/ext4_int.h"
#include "util/assert.h"

enum bitmap_kind { BLOCK_BITMAP, INODE_BITMAP };

struct bitmap_ref {
	struct super_block *br_sb;
	struct ext4_group_info *br_gi;
	struct buffer_head *br_bh;
	enum bitmap_kind br_kind;
};

/* ---- Bits ---- */

static bool test_bit(const uint8_t *map, uint32_t bit)
{
	return (map[bit >> 3] >> (bit & 7) & 1) != 0;
}

static void set_bits(uint8_t *map, uint32_t first, uint32_t len)
{
	uint32_t end = first + len;

	for (; first < end && first % 8 != 0; first++)
		map[first >> 3] |= (uint8_t)(1u << (first & 7));
	if (end - first >= 8) {
		memset(map + (first >> 3), 0xff, (end - first) / 8);
		first += (end - first) / 8 * 8;
	}
	for (; first < end; first++)
		map[first >> 3] |= (uint8_t)(1u << (first & 7));
}

static bool all_bits_set(const uint8_t *map, uint32_t first, uint32_t len)
{
	for (uint32_t bit = first; bit < first + len;) {
		if (bit % 8 == 0 && first + len - bit >= 8) {
			if (map[bit >> 3] != 0xff)
				return false;
			bit += 8;
			continue;
		}
		if (!test_bit(map, bit))
			return false;
		bit++;
	}
	return true;
}

/* ---- Both kinds ---- */

static uint32_t used_bits(const struct bitmap_ref *br)
{
	const struct super_block *sb = br->br_sb;
	uint32_t blocks;

	if (br->br_kind == INODE_BITMAP)
		return sb->s_inodes_per_group;
	blocks = ext4_blocks_in_group(sb, br->br_gi->bg_group);
	return (blocks + sb->s_cluster_ratio - 1) / sb->s_cluster_ratio;
}

static uint32_t bad_bit(const struct bitmap_ref *br)
{
	return br->br_kind == BLOCK_BITMAP ? EXT4_GRP_BBITMAP_BAD : EXT4_GRP_IBITMAP_BAD;
}

static const char *kind_name(const struct bitmap_ref *br)
{
	return br->br_kind == BLOCK_BITMAP ? "block" : "inode";
}

static bool is_uninit(const struct bitmap_ref *br)
{
	uint16_t flag = br->br_kind == BLOCK_BITMAP ? EXT2_BG_BLOCK_UNINIT : EXT2_BG_INODE_UNINIT;

	return (ext4_bg_flags(br->br_sb, br->br_gi) & flag) != 0;
}

/* Metadata runs are in blocks, bits in clusters. */
static bool mark_run(void *arg, uint32_t first, uint32_t len)
{
	const struct bitmap_ref *br = arg;
	uint32_t ratio = br->br_sb->s_cluster_ratio;
	uint32_t from = first / ratio;

	set_bits(br->br_bh->b_data, from, (first + len - 1) / ratio + 1 - from);
	return true;
}

static bool check_run(void *arg, uint32_t first, uint32_t len)
{
	const struct bitmap_ref *br = arg;
	uint32_t ratio = br->br_sb->s_cluster_ratio;
	uint32_t from = first / ratio;

	return all_bits_set(br->br_bh->b_data, from, (first + len - 1) / ratio + 1 - from);
}

static int make_locked(const struct bitmap_ref *br)
{
	struct buffer_head *bh = br->br_bh;
	uint32_t bits = used_bits(br);
	int err = 0;

	memset(bh->b_data, 0, bh->b_size);
	if (br->br_kind == BLOCK_BITMAP)
		err = ext4_zone_for_each(br->br_sb, br->br_gi->bg_group, mark_run,
					 (void *)(uintptr_t)br);
	set_bits(bh->b_data, bits, bh->b_size * 8 - bits);
	return err;
}

static int csum_error(const struct bitmap_ref *br)
{
	return ext4_error_csum(br->br_sb, 0, br->br_bh->b_blocknr,
			       "%s bitmap of group %u has a bad checksum", kind_name(br),
			       br->br_gi->bg_group);
}

static bool csum_ok_locked(const struct bitmap_ref *br)
{
	struct ext4_group_desc gd;

	ext4_group_desc_copy(br->br_sb, br->br_gi, &gd);
	if (br->br_kind == BLOCK_BITMAP)
		return ext4_block_bitmap_csum_ok(br->br_sb, &gd, br->br_bh->b_data);
	return ext4_inode_bitmap_csum_ok(br->br_sb, &gd, br->br_bh->b_data);
}

/* NULL, or what is wrong with it. */
static const char *content_error_locked(const struct bitmap_ref *br)
{
	struct buffer_head *bh = br->br_bh;
	uint32_t bits = used_bits(br);

	if (!all_bits_set(bh->b_data, bits, bh->b_size * 8 - bits))
		return "has its padding not set";
	if (br->br_kind == BLOCK_BITMAP &&
	    ext4_zone_for_each(br->br_sb, br->br_gi->bg_group, check_run, (void *)(uintptr_t)br) !=
		    0)
		return "has metadata marked free";
	return NULL;
}

/* ---- Loading ---- */

static int init_uninit(const struct bitmap_ref *br)
{
	struct buffer_head *bh = br->br_bh;
	int err = 0;

	lock_buffer(bh);
	if (!bh_test(bh, BH_VERIFIED)) {
		err = make_locked(br);
		if (err == 0)
			bh_set(bh, BH_UPTODATE | BH_NEW | BH_VERIFIED);
	}
	unlock_buffer(bh);
	return err;
}

static int verify(const struct bitmap_ref *br)
{
	struct buffer_head *bh = br->br_bh;
	const char *why = NULL;
	bool csum_ok = true;

	lock_buffer(bh);
	if (!bh_test(bh, BH_VERIFIED)) {
		csum_ok = csum_ok_locked(br);
		if (csum_ok)
			why = content_error_locked(br);
		if (csum_ok && why == NULL)
			bh_set(bh, BH_VERIFIED);
	}
	unlock_buffer(bh);
	if (!csum_ok)
		return csum_error(br);
	if (why != NULL)
		return ext4_error_block(br->br_sb, 0, bh->b_blocknr, "%s bitmap of group %u %s",
					kind_name(br), br->br_gi->bg_group, why);
	return 0;
}

/* The window's descriptors, before any buffer is locked. */
static bool nothing(void *arg, uint32_t first, uint32_t len)
{
	(void)arg;
	(void)first;
	(void)len;
	return true;
}

static int load(struct bitmap_ref *br, ext4_fsblk_t block)
{
	struct super_block *sb = br->br_sb;
	int err;

	err = ext4_zone_for_each(sb, br->br_gi->bg_group, nothing, NULL);
	if (err != 0)
		return err;
	/* The zone may just have found the group's metadata to overlap another's. */
	if ((atomic_load(&br->br_gi->bg_state) & bad_bit(br)) != 0)
		return -EFSCORRUPTED;
	counter_inc(&sb->s_stats.st_bitmaps_loaded);
	if (is_uninit(br)) {
		if (br->br_gi->bg_group == 0)
			return ext4_error(sb, 0, "%s bitmap of group 0 is marked uninitialised",
					  kind_name(br));
		br->br_bh = bh_get(sb->s_bcache, block);
		return IS_ERR(br->br_bh) ? PTR_ERR(br->br_bh) : init_uninit(br);
	}
	br->br_bh = bh_read(sb->s_bcache, block);
	if (IS_ERR(br->br_bh))
		return ext4_io_error(sb, 0, block, PTR_ERR(br->br_bh));
	return verify(br);
}

static struct buffer_head *read_bitmap(struct bitmap_ref *br, ext4_fsblk_t block)
{
	struct buffer_head *bh;
	int err;

	if ((atomic_load(&br->br_gi->bg_state) & bad_bit(br)) != 0)
		return ERR_PTR(-EFSCORRUPTED);
	bh = bh_find(br->br_sb->s_bcache, block);
	if (bh != NULL && bh_test(bh, BH_UPTODATE) && bh_test(bh, BH_VERIFIED))
		return bh;
	bh_put(bh);
	err = load(br, block);
	if (err == 0)
		return br->br_bh;
	bh_put(br->br_bh);
	if (err == -EFSCORRUPTED || err == -EFSBADCRC)
		ext4_group_mark_bad(br->br_gi, bad_bit(br));
	return ERR_PTR(err);
}

struct buffer_head *ext4_read_block_bitmap(struct super_block *sb, struct ext4_group_info *gi)
{
	struct bitmap_ref br = {.br_sb = sb, .br_gi = gi, .br_kind = BLOCK_BITMAP};

	return read_bitmap(&br, gi->bg_block_bitmap);
}

struct buffer_head *ext4_read_inode_bitmap(struct super_block *sb, struct ext4_group_info *gi)
{
	struct bitmap_ref br = {.br_sb = sb, .br_gi = gi, .br_kind = INODE_BITMAP};

	return read_bitmap(&br, gi->bg_inode_bitmap);
}
