/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * zone.c - which blocks hold the file system's own metadata, and so can never be a file's.
 *
 * Superblock copies and descriptors are found by arithmetic. Bitmaps and inode tables are where
 * the descriptors say: the groups are taken in windows (a flex group, at least MIN_WINDOW groups),
 * and when a block of a window is first asked about, the descriptors of the whole window are read
 * and their places become one sorted, merged, immutable array. With flex_bg the metadata of a
 * group lies in its flex group; should some lie elsewhere, it goes to a list of strays that every
 * query looks at. The blocks of the log are known from mount on.
 *
 * Limit: a flex group of more than MAX_WINDOW groups is covered by several windows; metadata
 * outside its own window is a stray, known once its own window was loaded.
 *
 * Invariants: (1) a published zone never changes. (2) Ranges in a zone are sorted and do not
 * touch. (3) Metadata of two groups that overlaps is reported once and both groups' bitmaps are
 * never used.
 * Locking: zt_lock (a leaf) for publication and the strays; queries of a loaded window without
 * strays take no lock.
 */
#include <stdlib.h>
#include <string.h>

#include "ext4/ext4_int.h"
#include "util/assert.h"
#include "util/order.h"

#define MIN_WINDOW_BITS 4u
#define MAX_WINDOW_BITS 10u
#define RANGES_PER_GROUP 3u

struct range {
	ext4_fsblk_t r_start;
	uint32_t r_len;
	ext4_group_t r_group; /* whose metadata it is */
};

struct zone {
	uint32_t z_n;
	struct range z_range[];
};

struct ext4_zone_table {
	struct mutex zt_lock; /* LEAF */
	unsigned zt_window_bits;
	uint32_t zt_windows;
	_Atomic uint32_t zt_nr_strays; /* [zt_lock for changes] */
	struct range *zt_strays;       /* [zt_lock] sorted */
	struct range *zt_log;	       /* [const after mount] the log's blocks, sorted */
	uint32_t zt_nr_log;
	_Atomic(struct zone *) zt_zone[];
};

static int compare_ranges(const void *a, const void *b)
{
	const struct range *x = a, *y = b;

	return order_u64(x->r_start, y->r_start);
}

/* The first range that ends after block, by binary search; n if there is none. */
static uint32_t find_range(const struct range *r, uint32_t n, ext4_fsblk_t block)
{
	uint32_t low = 0, high = n;

	while (low < high) {
		uint32_t mid = low + (high - low) / 2;

		if (r[mid].r_start + r[mid].r_len <= block)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

static bool ranges_hit(const struct range *r, uint32_t n, ext4_fsblk_t block, uint64_t count)
{
	uint32_t i = find_range(r, n, block);

	return i < n && r[i].r_start < block + count;
}

/* ---- Loading a window ---- */

static bool in_window(const struct super_block *sb, const struct range *r, uint32_t window)
{
	const unsigned bits = sb->s_zones->zt_window_bits;

	return ext4_group_of_block(sb, r->r_start) >> bits == window &&
	       ext4_group_of_block(sb, r->r_start + r->r_len - 1) >> bits == window;
}

static int add_stray(struct ext4_zone_table *zt, const struct range *r)
{
	uint32_t n, at;
	struct range *bigger;
	int err = 0;

	mutex_lock(&zt->zt_lock);
	n = atomic_load(&zt->zt_nr_strays);
	bigger = realloc(zt->zt_strays, (n + 1) * sizeof(*bigger));
	if (bigger == NULL) {
		err = -ENOMEM;
	} else {
		zt->zt_strays = bigger;
		at = find_range(bigger, n, r->r_start);
		memmove(&bigger[at + 1], &bigger[at], (n - at) * sizeof(*bigger));
		bigger[at] = *r;
		atomic_store(&zt->zt_nr_strays, n + 1);
	}
	mutex_unlock(&zt->zt_lock);
	return err;
}

/* The places of one group's metadata: into the zone, or to the strays. */
static int add_group(struct super_block *sb, uint32_t window, const struct ext4_group_info *gi,
		     struct zone *z)
{
	const struct range places[RANGES_PER_GROUP] = {
		{gi->bg_block_bitmap, 1, gi->bg_group},
		{gi->bg_inode_bitmap, 1, gi->bg_group},
		{gi->bg_inode_table, sb->s_itb_per_group, gi->bg_group},
	};

	for (unsigned i = 0; i < RANGES_PER_GROUP; i++) {
		int err;

		if (in_window(sb, &places[i], window)) {
			z->z_range[z->z_n++] = places[i];
			continue;
		}
		err = add_stray(sb->s_zones, &places[i]);
		if (err != 0)
			return err;
	}
	return 0;
}

static void report_overlap(struct super_block *sb, const struct range *a, const struct range *b)
{
	const ext4_group_t groups[] = {a->r_group, b->r_group};

	for (unsigned i = 0; i < 2; i++) {
		struct ext4_group_info *gi = ext4_group_info_cached(sb, groups[i]);

		if (gi != NULL)
			ext4_group_mark_bad(gi, EXT4_GRP_BBITMAP_BAD | EXT4_GRP_IBITMAP_BAD);
	}
	ext4_error_block(sb, 0, b->r_start, "metadata of groups %u and %u overlaps", a->r_group,
			 b->r_group);
}

/* Sort, complain about overlaps, and join what touches. */
static void sort_and_merge(struct super_block *sb, struct zone *z)
{
	uint32_t out = 0;

	qsort(z->z_range, z->z_n, sizeof(z->z_range[0]), compare_ranges);
	for (uint32_t i = 1; i < z->z_n; i++) {
		struct range *last = &z->z_range[out];
		const struct range *r = &z->z_range[i];
		ext4_fsblk_t last_end = last->r_start + last->r_len;

		if (r->r_start < last_end)
			report_overlap(sb, last, r);
		if (r->r_start > last_end) {
			z->z_range[++out] = *r;
			continue;
		}
		if (r->r_start + r->r_len > last_end)
			last->r_len = (uint32_t)(r->r_start + r->r_len - last->r_start);
		/* From here on an overlap is with the newer one. */
		last->r_group = r->r_group;
	}
	if (z->z_n > 0)
		z->z_n = out + 1;
}

static struct zone *build(struct super_block *sb, uint32_t window)
{
	const unsigned bits = sb->s_zones->zt_window_bits;
	const uint64_t first = (uint64_t)window << bits;
	uint64_t end = first + (1u << bits);
	struct zone *z;

	if (end > sb->s_groups_count)
		end = sb->s_groups_count;
	z = calloc(1, sizeof(*z) + (size_t)(end - first) * RANGES_PER_GROUP * sizeof(struct range));
	if (z == NULL)
		return ERR_PTR(-ENOMEM);
	for (uint64_t g = first; g < end; g++) {
		struct ext4_group_info *gi = ext4_get_group_info(sb, (ext4_group_t)g);
		int err;

		/* A damaged group has been reported; what is known of the others still counts. */
		if (IS_ERR(gi) && (PTR_ERR(gi) == -EFSCORRUPTED || PTR_ERR(gi) == -EFSBADCRC))
			continue;
		err = IS_ERR(gi) ? PTR_ERR(gi) : add_group(sb, window, gi, z);
		if (err != 0) {
			free(z);
			return ERR_PTR(err);
		}
	}
	sort_and_merge(sb, z);
	return z;
}

static struct zone *get_zone(struct super_block *sb, ext4_group_t group)
{
	struct ext4_zone_table *zt = sb->s_zones;
	uint32_t window = group >> zt->zt_window_bits;
	struct zone *z = atomic_load_explicit(&zt->zt_zone[window], memory_order_acquire);
	struct zone *fresh;

	if (z != NULL)
		return z;
	fresh = build(sb, window);
	if (IS_ERR(fresh))
		return fresh;
	mutex_lock(&zt->zt_lock);
	z = atomic_load_explicit(&zt->zt_zone[window], memory_order_relaxed);
	if (z == NULL) {
		z = fresh;
		fresh = NULL;
		atomic_store_explicit(&zt->zt_zone[window], z, memory_order_release);
	}
	mutex_unlock(&zt->zt_lock);
	free(fresh);
	return z;
}

/* ---- Queries ---- */

static bool hits_stray(struct ext4_zone_table *zt, ext4_fsblk_t block, uint64_t count)
{
	bool hit;

	if (atomic_load_explicit(&zt->zt_nr_strays, memory_order_acquire) == 0)
		return false;
	mutex_lock(&zt->zt_lock);
	hit = ranges_hit(zt->zt_strays, atomic_load(&zt->zt_nr_strays), block, count);
	mutex_unlock(&zt->zt_lock);
	return hit;
}

/* The part of the range in one group. */
static bool group_part_valid(struct super_block *sb, ext4_group_t group, ext4_fsblk_t block,
			     uint64_t count)
{
	struct zone *z;

	if (ext4_offset_in_group(sb, block) < ext4_group_overhead(sb, group))
		return false;
	z = get_zone(sb, group);
	return !IS_ERR(z) && !ranges_hit(z->z_range, z->z_n, block, count);
}

bool ext4_data_block_valid(struct super_block *sb, ext4_fsblk_t block, uint64_t count)
{
	if (count == 0 || block <= sb->s_first_data_block || block >= sb->s_blocks_count ||
	    count > sb->s_blocks_count - block)
		return false;
	if (ranges_hit(sb->s_zones->zt_log, sb->s_zones->zt_nr_log, block, count) ||
	    hits_stray(sb->s_zones, block, count))
		return false;
	while (count > 0) {
		ext4_group_t group = ext4_group_of_block(sb, block);
		uint64_t n = sb->s_blocks_per_group - ext4_offset_in_group(sb, block);

		if (n > count)
			n = count;
		if (!group_part_valid(sb, group, block, n))
			return false;
		block += n;
		count -= n;
	}
	return true;
}

int ext4_zone_for_each(struct super_block *sb, ext4_group_t group,
		       bool (*fn)(void *arg, uint32_t first, uint32_t len), void *arg)
{
	const ext4_fsblk_t start = ext4_group_first_block(sb, group);
	const ext4_fsblk_t end = start + ext4_blocks_in_group(sb, group);
	uint32_t overhead = ext4_group_overhead(sb, group);
	struct zone *z = get_zone(sb, group);

	if (IS_ERR(z))
		return PTR_ERR(z);
	if (overhead > 0 && !fn(arg, 0, overhead))
		return -EFSCORRUPTED;
	for (uint32_t i = find_range(z->z_range, z->z_n, start);
	     i < z->z_n && z->z_range[i].r_start < end; i++) {
		ext4_fsblk_t from = z->z_range[i].r_start;
		ext4_fsblk_t to = from + z->z_range[i].r_len;

		from = from < start ? start : from;
		to = to > end ? end : to;
		if (!fn(arg, (uint32_t)(from - start), (uint32_t)(to - from)))
			return -EFSCORRUPTED;
	}
	return 0;
}

/* ---- Life ---- */

int ext4_zones_init(struct super_block *sb)
{
	struct ext4_zone_table *zt;
	unsigned bits = sb->s_log_groups_per_flex;
	uint32_t windows;

	if (bits < MIN_WINDOW_BITS)
		bits = MIN_WINDOW_BITS;
	if (bits > MAX_WINDOW_BITS)
		bits = MAX_WINDOW_BITS;
	windows = ((sb->s_groups_count - 1) >> bits) + 1;
	zt = calloc(1, sizeof(*zt) + windows * sizeof(zt->zt_zone[0]));
	if (zt == NULL)
		return -ENOMEM;
	mutex_init(&zt->zt_lock, LOCK_RANK_LEAF);
	zt->zt_window_bits = bits;
	zt->zt_windows = windows;
	sb->s_zones = zt;
	return 0;
}

int ext4_zone_set_log(struct super_block *sb)
{
	struct ext4_zone_table *zt = sb->s_zones;
	struct range *r = calloc(sb->s_nr_journal_map + 1, sizeof(*r));

	if (r == NULL)
		return -ENOMEM;
	for (unsigned i = 0; i < sb->s_nr_journal_map; i++) {
		r[i].r_start = sb->s_journal_map[i].le_pblk;
		r[i].r_len = sb->s_journal_map[i].le_len;
	}
	qsort(r, sb->s_nr_journal_map, sizeof(*r), compare_ranges);
	free(zt->zt_log);
	zt->zt_log = r;
	zt->zt_nr_log = sb->s_nr_journal_map;
	return 0;
}

void ext4_zones_free(struct super_block *sb)
{
	struct ext4_zone_table *zt = sb->s_zones;

	if (zt == NULL)
		return;
	for (uint32_t i = 0; i < zt->zt_windows; i++)
		free(atomic_load(&zt->zt_zone[i]));
	free(zt->zt_strays);
	free(zt->zt_log);
	mutex_destroy(&zt->zt_lock);
	free(zt);
	sb->s_zones = NULL;
}
