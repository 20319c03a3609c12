/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * group.c - block groups: where their descriptors are, what they say, and changing them.
 *
 * Nothing is read at mount. A group's descriptor is read and checked when somebody first asks for
 * it; what never changes (block numbers) and what is asked often (counts, flags) is kept in an
 * ext4_group_info. They hang in a two-level table of atomic pointers, so that look-ups take no
 * lock; a group found to be damaged leaves an ERR_PTR there and is not looked at (nor complained
 * about) again.
 *
 * Invariants: (1) a published ext4_group_info is never freed before unmount and its block
 * numbers are inside the device, inside the group without flex_bg, clear of all superblock copies
 * and descriptors and of each other. (2) The cached counts and flags equal the descriptor in the
 * buffer whenever bg_lock is free. (3) bg_desc_bh is referenced for the life of the group.
 * Locking: gt_lock (a leaf) serialises publication. Descriptor bytes are read and written under
 * bg_desc_bh's b_lock, always as the innermost lock.
 */
#include "ext4/group.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "ext4/ext4_int.h"
#include "util/assert.h"

#define GROUPS_PER_PAGE 512u

struct ext4_group_page {
	_Atomic(struct ext4_group_info *) gp_info[GROUPS_PER_PAGE]; /* [gt_lock for changes] */
};

struct ext4_group_table {
	struct mutex gt_lock;			     /* LEAF: publication */
	uint32_t gt_pages;			     /* [const after init] */
	_Atomic(struct ext4_group_page *) gt_page[]; /* [gt_lock for changes] */
};

/* ---- Arithmetic ---- */

static bool is_power_of(ext4_group_t n, unsigned base)
{
	while (n > 1 && n % base == 0)
		n /= base;
	return n == 1;
}

bool ext4_group_has_super(const struct super_block *sb, ext4_group_t group)
{
	if (group == 0)
		return true;
	if (ext4_has_compat(sb, EXT4_FEATURE_COMPAT_SPARSE_SUPER2))
		return group == sb->s_backup_bgs[0] || group == sb->s_backup_bgs[1];
	if (group == 1 || !ext4_has_ro_compat(sb, EXT2_FEATURE_RO_COMPAT_SPARSE_SUPER))
		return true;
	return is_power_of(group, 3) || is_power_of(group, 5) || is_power_of(group, 7);
}

/* With meta_bg the descriptors of a metagroup are in its first, second and last group. */
static bool holds_meta_descriptor(const struct super_block *sb, ext4_group_t group)
{
	uint32_t in_metagroup = group % sb->s_desc_per_block;

	return in_metagroup <= 1 || in_metagroup == sb->s_desc_per_block - 1;
}

uint32_t ext4_group_overhead(const struct super_block *sb, ext4_group_t group)
{
	const bool super = ext4_group_has_super(sb, group);

	if (group / sb->s_desc_per_block < sb->s_first_meta_bg)
		return super ? 1 + sb->s_first_meta_bg + sb->s_reserved_gdt : 0;
	return (super ? 1 : 0) + (holds_meta_descriptor(sb, group) ? 1 : 0);
}

uint32_t ext4_blocks_in_group(const struct super_block *sb, ext4_group_t group)
{
	if (group == sb->s_groups_count - 1)
		return (uint32_t)(sb->s_blocks_count - ext4_group_first_block(sb, group));
	return sb->s_blocks_per_group;
}

ext4_fsblk_t ext4_descriptor_loc(const struct super_block *sb, uint32_t nr)
{
	ext4_group_t group;

	if (nr < sb->s_first_meta_bg)
		return sb->s_sb_block + 1 + nr;
	group = nr * sb->s_desc_per_block;
	return ext4_group_first_block(sb, group) + (ext4_group_has_super(sb, group) ? 1 : 0) +
	       (sb->s_blocksize == 1024 && nr == 0 && sb->s_first_data_block == 0 ? 1 : 0);
}

bool ext4_block_is_base_meta(const struct super_block *sb, ext4_fsblk_t block)
{
	if (block < sb->s_first_data_block)
		return true;
	return ext4_offset_in_group(sb, block) <
	       ext4_group_overhead(sb, ext4_group_of_block(sb, block));
}

uint64_t ext4_sb_free_blocks_at_mount(const struct super_block *sb)
{
	return sb->s_free_blocks_at_mount;
}

uint64_t ext4_sb_free_inodes_at_mount(const struct super_block *sb)
{
	return sb->s_free_inodes_at_mount;
}

/* ---- Checks of a descriptor ---- */

void ext4_group_layout(const struct super_block *sb, const struct ext4_group_desc *gd,
		       struct ext4_group_layout *gl)
{
	gl->gl_block_bitmap =
		join64(le32_to_cpu(gd->bg_block_bitmap), le32_to_cpu(gd->bg_block_bitmap_hi));
	gl->gl_inode_bitmap =
		join64(le32_to_cpu(gd->bg_inode_bitmap), le32_to_cpu(gd->bg_inode_bitmap_hi));
	gl->gl_inode_table =
		join64(le32_to_cpu(gd->bg_inode_table), le32_to_cpu(gd->bg_inode_table_hi));
	gl->gl_free_blocks = le16_to_cpu(gd->bg_free_blocks_count) |
			     (uint32_t)le16_to_cpu(gd->bg_free_blocks_count_hi) << 16;
	gl->gl_free_inodes = le16_to_cpu(gd->bg_free_inodes_count) |
			     (uint32_t)le16_to_cpu(gd->bg_free_inodes_count_hi) << 16;
	gl->gl_used_dirs = le16_to_cpu(gd->bg_used_dirs_count) |
			   (uint32_t)le16_to_cpu(gd->bg_used_dirs_count_hi) << 16;
	gl->gl_itable_unused = le16_to_cpu(gd->bg_itable_unused) |
			       (uint32_t)le16_to_cpu(gd->bg_itable_unused_hi) << 16;
	gl->gl_flags = le16_to_cpu(gd->bg_flags);
	if (!ext4_has_group_csum(sb)) {
		gl->gl_flags &= (uint16_t) ~(EXT2_BG_INODE_UNINIT | EXT2_BG_BLOCK_UNINIT);
		gl->gl_itable_unused = 0;
	}
}

/* len blocks from start: on the device, in the group if groups own their metadata, not in superblock copies or descriptors. */
static bool place_ok(const struct super_block *sb, ext4_group_t group, ext4_fsblk_t start,
		     uint32_t len)
{
	ext4_fsblk_t low = sb->s_first_data_block;
	ext4_fsblk_t high = sb->s_blocks_count;

	if (!ext4_has_incompat(sb, EXT4_FEATURE_INCOMPAT_FLEX_BG)) {
		low = ext4_group_first_block(sb, group);
		high = low + ext4_blocks_in_group(sb, group);
	}
	if (start < low || start >= high || len > high - start)
		return false;
	if (ext4_block_is_base_meta(sb, start))
		return false;
	/* Superblock copies lie at the start of groups: look where the range enters one. */
	for (ext4_group_t g = ext4_group_of_block(sb, start) + 1; g < sb->s_groups_count; g++) {
		ext4_fsblk_t first = ext4_group_first_block(sb, g);

		if (first >= start + len)
			break;
		if (ext4_group_overhead(sb, g) > 0)
			return false;
	}
	return true;
}

static bool apart(ext4_fsblk_t a, uint32_t a_len, ext4_fsblk_t b, uint32_t b_len)
{
	return a + a_len <= b || b + b_len <= a;
}

static const char *check_layout(const struct super_block *sb, ext4_group_t group,
				const struct ext4_group_layout *gl)
{
	if (ext4_group_overhead(sb, group) > ext4_blocks_in_group(sb, group))
		return "is too short for its superblock copy";
	if (!place_ok(sb, group, gl->gl_block_bitmap, 1))
		return "has its block bitmap at a bad place";
	if (!place_ok(sb, group, gl->gl_inode_bitmap, 1))
		return "has its inode bitmap at a bad place";
	if (!place_ok(sb, group, gl->gl_inode_table, sb->s_itb_per_group))
		return "has its inode table at a bad place";
	if (!apart(gl->gl_block_bitmap, 1, gl->gl_inode_bitmap, 1) ||
	    !apart(gl->gl_block_bitmap, 1, gl->gl_inode_table, sb->s_itb_per_group) ||
	    !apart(gl->gl_inode_bitmap, 1, gl->gl_inode_table, sb->s_itb_per_group))
		return "has bitmaps and inode table that overlap";
	return NULL;
}

/* Counts that cannot be right make the bitmaps unusable, not the inodes. */
static uint32_t check_counts(const struct super_block *sb, ext4_group_t group,
			     const struct ext4_group_layout *gl)
{
	uint32_t bad = 0;

	if (gl->gl_free_blocks > ext4_blocks_in_group(sb, group))
		bad |= EXT4_GRP_BBITMAP_BAD;
	if (gl->gl_free_inodes > sb->s_inodes_per_group ||
	    gl->gl_itable_unused > sb->s_inodes_per_group ||
	    gl->gl_used_dirs > sb->s_inodes_per_group)
		bad |= EXT4_GRP_IBITMAP_BAD;
	return bad;
}

/* ---- Making group infos ---- */

static void copy_desc_locked(const struct super_block *sb, const uint8_t *desc,
			     struct ext4_group_desc *gd)
{
	size_t n = sb->s_desc_size < sizeof(*gd) ? sb->s_desc_size : sizeof(*gd);

	memset(gd, 0, sizeof(*gd));
	memcpy(gd, desc, n);
}

void ext4_group_desc_copy(struct super_block *sb, struct ext4_group_info *gi,
			  struct ext4_group_desc *gd)
{
	struct buffer_head *bh = gi->bg_desc_bh;

	mutex_lock_innermost(&bh->b_lock);
	copy_desc_locked(sb, bh->b_data + gi->bg_desc_offset, gd);
	mutex_unlock(&bh->b_lock);
}

static int read_desc(struct super_block *sb, struct ext4_group_info *gi,
		     struct ext4_group_layout *gl)
{
	struct buffer_head *bh = gi->bg_desc_bh;
	struct ext4_group_desc gd;
	const char *why;
	bool csum_ok;

	mutex_lock_innermost(&bh->b_lock);
	csum_ok = ext4_group_desc_csum_ok(sb, gi->bg_group, bh->b_data + gi->bg_desc_offset);
	copy_desc_locked(sb, bh->b_data + gi->bg_desc_offset, &gd);
	mutex_unlock(&bh->b_lock);
	if (!csum_ok)
		return ext4_error_csum(sb, 0, bh->b_blocknr,
				       "descriptor of group %u has a bad checksum", gi->bg_group);
	ext4_group_layout(sb, &gd, gl);
	why = check_layout(sb, gi->bg_group, gl);
	if (why != NULL)
		return ext4_error_block(sb, 0, bh->b_blocknr, "group %u %s", gi->bg_group, why);
	return 0;
}

static void fill_info(struct super_block *sb, struct ext4_group_info *gi,
		      const struct ext4_group_layout *gl)
{
	uint32_t bad = check_counts(sb, gi->bg_group, gl);

	gi->bg_block_bitmap = gl->gl_block_bitmap;
	gi->bg_inode_bitmap = gl->gl_inode_bitmap;
	gi->bg_inode_table = gl->gl_inode_table;
	atomic_init(&gi->bg_flags, gl->gl_flags);
	atomic_init(&gi->bg_state, bad);
	atomic_init(&gi->bg_free_blocks,
		    (bad & EXT4_GRP_BBITMAP_BAD) != 0 ? 0 : gl->gl_free_blocks);
	atomic_init(&gi->bg_free_inodes,
		    (bad & EXT4_GRP_IBITMAP_BAD) != 0 ? 0 : gl->gl_free_inodes);
	atomic_init(&gi->bg_used_dirs, gl->gl_used_dirs);
	atomic_init(&gi->bg_itable_unused,
		    (bad & EXT4_GRP_IBITMAP_BAD) != 0 ? 0 : gl->gl_itable_unused);
	if (bad != 0)
		ext4_error_block(sb, 0, gi->bg_desc_bh->b_blocknr,
				 "descriptor of group %u has impossible counts", gi->bg_group);
}

static void free_info(struct ext4_group_info *gi)
{
	if (gi == NULL || IS_ERR(gi))
		return;
	bh_put(gi->bg_desc_bh);
	mutex_destroy(&gi->bg_lock);
	free(gi);
}

static struct ext4_group_info *load_info(struct super_block *sb, ext4_group_t group)
{
	uint32_t nr = group / sb->s_desc_per_block;
	struct ext4_group_info *gi = calloc(1, sizeof(*gi));
	struct ext4_group_layout gl = {0};
	int err;

	if (gi == NULL)
		return ERR_PTR(-ENOMEM);
	gi->bg_group = group;
	mutex_init(&gi->bg_lock, LOCK_RANK_GROUP);
	gi->bg_desc_offset = group % sb->s_desc_per_block * sb->s_desc_size;
	gi->bg_desc_bh = bh_read(sb->s_bcache, ext4_descriptor_loc(sb, nr));
	if (IS_ERR(gi->bg_desc_bh)) {
		err = ext4_io_error(sb, 0, ext4_descriptor_loc(sb, nr), PTR_ERR(gi->bg_desc_bh));
		gi->bg_desc_bh = NULL;
	} else {
		err = read_desc(sb, gi, &gl);
	}
	if (err != 0) {
		free_info(gi);
		return ERR_PTR(err);
	}
	fill_info(sb, gi, &gl);
	return gi;
}

/* ---- The table ---- */

static struct ext4_group_info *peek(struct super_block *sb, ext4_group_t group)
{
	struct ext4_group_page *page = atomic_load_explicit(
		&sb->s_groups->gt_page[group / GROUPS_PER_PAGE], memory_order_acquire);

	if (page == NULL)
		return NULL;
	return atomic_load_explicit(&page->gp_info[group % GROUPS_PER_PAGE], memory_order_acquire);
}

static struct ext4_group_page *get_page(struct ext4_group_table *gt, uint32_t nr)
{
	struct ext4_group_page *page = atomic_load_explicit(&gt->gt_page[nr], memory_order_acquire);
	struct ext4_group_page *fresh;

	if (page != NULL)
		return page;
	fresh = calloc(1, sizeof(*fresh));
	if (fresh == NULL)
		return NULL;
	mutex_lock(&gt->gt_lock);
	page = atomic_load_explicit(&gt->gt_page[nr], memory_order_relaxed);
	if (page == NULL) {
		page = fresh;
		fresh = NULL;
		atomic_store_explicit(&gt->gt_page[nr], page, memory_order_release);
	}
	mutex_unlock(&gt->gt_lock);
	free(fresh);
	return page;
}

/* The first to come wins: gi or what is there already. */
static struct ext4_group_info *publish(struct super_block *sb, struct ext4_group_info *gi,
				       ext4_group_t group)
{
	struct ext4_group_table *gt = sb->s_groups;
	struct ext4_group_page *page = get_page(gt, group / GROUPS_PER_PAGE);
	struct ext4_group_info *there;

	if (page == NULL) {
		free_info(gi);
		return ERR_PTR(-ENOMEM);
	}
	mutex_lock(&gt->gt_lock);
	there = atomic_load_explicit(&page->gp_info[group % GROUPS_PER_PAGE], memory_order_relaxed);
	if (there == NULL)
		atomic_store_explicit(&page->gp_info[group % GROUPS_PER_PAGE], gi,
				      memory_order_release);
	mutex_unlock(&gt->gt_lock);
	if (there == NULL)
		return gi;
	free_info(gi);
	return there;
}

struct ext4_group_info *ext4_get_group_info(struct super_block *sb, ext4_group_t group)
{
	struct ext4_group_info *gi;
	int err;

	if (group >= sb->s_groups_count)
		return ERR_PTR(ext4_error(sb, 0, "group %u of %u", group, sb->s_groups_count));
	gi = peek(sb, group);
	if (gi != NULL)
		return gi;
	gi = load_info(sb, group);
	if (IS_ERR(gi)) {
		err = PTR_ERR(gi);
		/* Damage stays; an I/O error or lack of memory may pass. */
		if (err != -EFSCORRUPTED && err != -EFSBADCRC)
			return gi;
	}
	return publish(sb, gi, group);
}

struct ext4_group_info *ext4_group_info_cached(struct super_block *sb, ext4_group_t group)
{
	struct ext4_group_info *gi = group < sb->s_groups_count ? peek(sb, group) : NULL;

	return IS_ERR(gi) ? NULL : gi;
}

int ext4_groups_init(struct super_block *sb)
{
	uint32_t pages =
		(uint32_t)(((uint64_t)sb->s_groups_count + GROUPS_PER_PAGE - 1) / GROUPS_PER_PAGE);
	struct ext4_group_table *gt = calloc(1, sizeof(*gt) + pages * sizeof(gt->gt_page[0]));

	if (gt == NULL)
		return -ENOMEM;
	mutex_init(&gt->gt_lock, LOCK_RANK_LEAF);
	gt->gt_pages = pages;
	sb->s_groups = gt;
	return 0;
}

void ext4_groups_free(struct super_block *sb)
{
	struct ext4_group_table *gt = sb->s_groups;

	if (gt == NULL)
		return;
	for (uint32_t i = 0; i < gt->gt_pages; i++) {
		struct ext4_group_page *page = atomic_load(&gt->gt_page[i]);

		if (page == NULL)
			continue;
		for (unsigned j = 0; j < GROUPS_PER_PAGE; j++)
			free_info(atomic_load(&page->gp_info[j]));
		free(page);
	}
	mutex_destroy(&gt->gt_lock);
	free(gt);
	sb->s_groups = NULL;
}

/* ---- Using a group ---- */

ext4_fsblk_t ext4_block_bitmap(struct super_block *sb, struct ext4_group_info *gi)
{
	(void)sb;
	return gi->bg_block_bitmap;
}

ext4_fsblk_t ext4_inode_bitmap(struct super_block *sb, struct ext4_group_info *gi)
{
	(void)sb;
	return gi->bg_inode_bitmap;
}

ext4_fsblk_t ext4_inode_table(struct super_block *sb, struct ext4_group_info *gi)
{
	(void)sb;
	return gi->bg_inode_table;
}

uint16_t ext4_bg_flags(struct super_block *sb, struct ext4_group_info *gi)
{
	(void)sb;
	return atomic_load_explicit(&gi->bg_flags, memory_order_acquire);
}

void ext4_group_mark_bad(struct ext4_group_info *gi, uint32_t bg_state_bits)
{
	atomic_fetch_or(&gi->bg_state, bg_state_bits);
	if ((bg_state_bits & EXT4_GRP_BBITMAP_BAD) != 0)
		atomic_store(&gi->bg_free_blocks, 0);
	if ((bg_state_bits & EXT4_GRP_IBITMAP_BAD) != 0)
		atomic_store(&gi->bg_free_inodes, 0);
}

/* Counts of a damaged group may not fit their bitmap: stay within what is possible. */
static uint32_t add_clamped(uint32_t value, int32_t delta, uint32_t max)
{
	int64_t sum = (int64_t)value + delta;

	if (sum < 0)
		return 0;
	return sum > max ? max : (uint32_t)sum;
}

static void put_desc_locked(struct super_block *sb, struct ext4_group_info *gi,
			    struct ext4_group_desc *gd, const struct ext4_group_layout *gl)
{
	uint8_t *desc = gi->bg_desc_bh->b_data + gi->bg_desc_offset;
	size_t n = sb->s_desc_size < sizeof(*gd) ? sb->s_desc_size : sizeof(*gd);

	gd->bg_free_blocks_count = cpu_to_le16((uint16_t)gl->gl_free_blocks);
	gd->bg_free_blocks_count_hi = cpu_to_le16((uint16_t)(gl->gl_free_blocks >> 16));
	gd->bg_free_inodes_count = cpu_to_le16((uint16_t)gl->gl_free_inodes);
	gd->bg_free_inodes_count_hi = cpu_to_le16((uint16_t)(gl->gl_free_inodes >> 16));
	gd->bg_used_dirs_count = cpu_to_le16((uint16_t)gl->gl_used_dirs);
	gd->bg_used_dirs_count_hi = cpu_to_le16((uint16_t)(gl->gl_used_dirs >> 16));
	if (ext4_has_group_csum(sb)) {
		gd->bg_itable_unused = cpu_to_le16((uint16_t)gl->gl_itable_unused);
		gd->bg_itable_unused_hi = cpu_to_le16((uint16_t)(gl->gl_itable_unused >> 16));
		gd->bg_flags = cpu_to_le16(gl->gl_flags);
	}
	memcpy(desc, gd, n);
	ext4_group_desc_csum_set(sb, gi->bg_group, desc);
}

void ext4_group_change(struct super_block *sb, struct ext4_group_info *gi,
		       const struct ext4_group_change *gc)
{
	struct buffer_head *bh = gi->bg_desc_bh;
	struct ext4_group_layout gl;
	struct ext4_group_desc gd;

	mutex_assert_held(&gi->bg_lock);
	mutex_lock_innermost(&bh->b_lock);
	copy_desc_locked(sb, bh->b_data + gi->bg_desc_offset, &gd);
	ext4_group_layout(sb, &gd, &gl);
	gl.gl_free_blocks = add_clamped(gl.gl_free_blocks, gc->gc_free_blocks,
					ext4_blocks_in_group(sb, gi->bg_group));
	gl.gl_free_inodes =
		add_clamped(gl.gl_free_inodes, gc->gc_free_inodes, sb->s_inodes_per_group);
	gl.gl_used_dirs = add_clamped(gl.gl_used_dirs, gc->gc_used_dirs, sb->s_inodes_per_group);
	if (gc->gc_itable_unused >= 0)
		gl.gl_itable_unused = (uint32_t)gc->gc_itable_unused;
	gl.gl_flags &= (uint16_t)~gc->gc_clear_flags;
	if (gc->gc_block_bitmap != NULL)
		ext4_block_bitmap_csum_set(sb, &gd, gc->gc_block_bitmap);
	if (gc->gc_inode_bitmap != NULL)
		ext4_inode_bitmap_csum_set(sb, &gd, gc->gc_inode_bitmap);
	put_desc_locked(sb, gi, &gd, &gl);
	mutex_unlock(&bh->b_lock);
	atomic_store(&gi->bg_free_blocks, gl.gl_free_blocks);
	atomic_store(&gi->bg_free_inodes, gl.gl_free_inodes);
	atomic_store(&gi->bg_used_dirs, gl.gl_used_dirs);
	atomic_store(&gi->bg_itable_unused, gl.gl_itable_unused);
	atomic_store_explicit(&gi->bg_flags, gl.gl_flags, memory_order_release);
}
