/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * ialloc.c - inode numbers.
 *
 * Where: directories below the root (or a directory with the top-level flag) are spread, each to
 * the flex group with the fewest directories among some that have room, starting at a place that
 * its name chooses; other directories stay near their parent as long as that is not crowded. Files
 * go to their directory's flex group; when it is full to groups that the directory's number
 * chooses, then to any. ext4: fs/ext4/ialloc.c find_group_orlov(), find_group_other().
 *
 * In the group: the lowest free number. Each group remembers below which number nothing is free, so
 * a row of creations does not look at the same bits again. A number that was freed is busy until
 * the freeing transaction has committed: a crash could bring the old inode back, and the new one
 * must not be found in its place.
 *
 * Inode table: with descriptor checksums the slots past bg_itable_unused may hold anything. Numbers
 * are used in order, so that boundary moves by one slot at a time and nothing between is skipped;
 * ext4_mark_inode_dirty() starts a new inode from a zeroed slot, and does not read a block in which
 * no other is in use.
 *
 * Invariants: (1) a number is given out once: its bit is clear and it is not busy, seen and changed
 * under one hold of the locks. (2) No number below g_inode_hint is free. (3) bg_itable_unused only
 * shrinks, and never past a number in use.
 * Locking: the bitmap's content lock, then bg_lock (struct mb_edit).
 */
#include "alloc/fc_space.h"
#include "alloc/mballoc_internal.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "ext4/inode.h"
#include "ext4/jbd2_glue.h"
#include "util/assert.h"
#include "util/crc32c.h"
#include "util/splitmix.h"
#include "util/time.h"

#define MAX_FLEX_LOOKS 64u /* flex groups compared for a directory */
#define NEAR_FLEX 8u	   /* flex groups looked at around a directory's parent */
#define MAX_HASH_PROBES 16u

#ifndef EXT4_EXTENTS_FL
#define EXT4_EXTENTS_FL 0x00080000
#endif

/* What children take over from their directory. */
#define FLAGS_INHERITED                                                                            \
	(EXT2_SECRM_FL | EXT2_UNRM_FL | EXT2_COMPR_FL | EXT2_SYNC_FL | EXT2_NODUMP_FL |            \
	 EXT2_NOATIME_FL | EXT2_NOCOMPR_FL | EXT3_JOURNAL_DATA_FL | EXT2_NOTAIL_FL |               \
	 EXT2_DIRSYNC_FL | EXT4_PROJINHERIT_FL)
/* Of these, what only directories have, and all that devices, links and the like have. */
#define FLAGS_DIRS_ONLY (EXT2_DIRSYNC_FL | EXT2_TOPDIR_FL | EXT4_PROJINHERIT_FL)
#define FLAGS_OTHERS (EXT2_NODUMP_FL | EXT2_NOATIME_FL)

/* A creation on its way. */
struct creation {
	handle_t *c_handle;
	struct super_block *c_sb;
	struct inode *c_dir;
	uint16_t c_mode;
	const struct ext4_cred *c_cred;
	const char *c_name;
	/* result */
	ext4_group_t c_group;
	uint32_t c_bit;
};

/* ---- Counts ---- */

static uint32_t free_inodes(struct super_block *sb, ext4_group_t group)
{
	struct ext4_group_info *gi = ext4_get_group_info(sb, group);

	return IS_ERR(gi) ? 0 : atomic_load(&gi->bg_free_inodes);
}

static unsigned flex_bits(const struct super_block *sb)
{
	return sb->s_log_groups_per_flex < 16 ? sb->s_log_groups_per_flex : 16;
}

struct flex_counts {
	uint64_t f_free_inodes, f_free_blocks, f_dirs;
};

static uint32_t nr_flex(const struct super_block *sb)
{
	return ((sb->s_groups_count - 1) >> flex_bits(sb)) + 1;
}

static void count_flex(struct super_block *sb, uint32_t flex, struct flex_counts *f)
{
	uint64_t first = (uint64_t)flex << flex_bits(sb);
	uint64_t end = first + (UINT64_C(1) << flex_bits(sb));

	memset(f, 0, sizeof(*f));
	for (uint64_t group = first; group < end && group < sb->s_groups_count; group++) {
		struct ext4_group_info *gi = ext4_get_group_info(sb, (ext4_group_t)group);

		if (IS_ERR(gi))
			continue;
		f->f_free_inodes += atomic_load(&gi->bg_free_inodes);
		f->f_free_blocks += atomic_load(&gi->bg_free_blocks);
		f->f_dirs += atomic_load(&gi->bg_used_dirs);
	}
}

static uint64_t mean_of(_Atomic int64_t *total, uint32_t n)
{
	int64_t sum = atomic_load(total);

	return sum > 0 ? (uint64_t)sum / n : 0;
}

/* ---- Directories ---- */

static uint32_t name_hash(const char *name)
{
	return crc32c(~0u, name, strlen(name));
}

static bool is_top(const struct inode *dir)
{
	return dir->i_ino == EXT4_ROOT_INO || (dir->i_flags & EXT2_TOPDIR_FL) != 0;
}

/* The emptiest of some flex groups; UINT32_MAX if none is better than the average. */
static uint32_t spread_dir(struct super_block *sb, const char *name)
{
	struct ext4_mballoc *mb = ext4_mb(sb);
	uint32_t n = nr_flex(sb);
	uint64_t mean_inodes = mean_of(&mb->mb_free_inodes, n);
	uint64_t mean_blocks = mean_of(&mb->mb_free, n);
	uint32_t start = name_hash(name) % n;
	uint64_t best_dirs = UINT64_MAX;
	uint32_t best = UINT32_MAX;

	for (uint32_t i = 0; i < n && i < MAX_FLEX_LOOKS; i++) {
		uint32_t flex = (uint32_t)(((uint64_t)start + i) % n);
		struct flex_counts f;

		count_flex(sb, flex, &f);
		if (f.f_free_inodes == 0 || f.f_dirs >= best_dirs ||
		    f.f_free_inodes < mean_inodes || f.f_free_blocks < mean_blocks)
			continue;
		best = flex;
		best_dirs = f.f_dirs;
	}
	return best;
}

/*
 * What a directory wants of a flex group; means are over the file system, of directories over the
 * neighbourhood.
 */
static bool has_room(struct super_block *sb, const struct flex_counts *f, uint64_t mean_dirs)
{
	struct ext4_mballoc *mb = ext4_mb(sb);
	uint64_t inodes = (uint64_t)sb->s_inodes_per_group << flex_bits(sb);
	uint64_t blocks = (uint64_t)sb->s_blocks_per_group << flex_bits(sb);

	return f->f_free_inodes > 0 && f->f_free_blocks > 0 &&
	       f->f_dirs < mean_dirs + inodes / 16 + 1 &&
	       f->f_free_inodes + inodes / 4 >= mean_of(&mb->mb_free_inodes, nr_flex(sb)) &&
	       f->f_free_blocks + blocks / 4 >= mean_of(&mb->mb_free, nr_flex(sb));
}

/* The first flex group from the parent's on that is not crowded; UINT32_MAX: none. */
static uint32_t near_dir(struct super_block *sb, ext4_group_t parent)
{
	struct flex_counts f[NEAR_FLEX];
	uint32_t n = nr_flex(sb);
	uint32_t first = parent >> flex_bits(sb);
	uint32_t looks = n < NEAR_FLEX ? n : NEAR_FLEX;
	uint64_t dirs = 0;

	for (uint32_t i = 0; i < looks; i++) {
		count_flex(sb, (uint32_t)(((uint64_t)first + i) % n), &f[i]);
		dirs += f[i].f_dirs;
	}
	for (uint32_t i = 0; i < looks; i++)
		if (has_room(sb, &f[i], dirs / looks))
			return (uint32_t)(((uint64_t)first + i) % n);
	return UINT32_MAX;
}

/* ---- Groups ---- */

/* A group of the flex group with a free inode, from `from` on; s_groups_count: none. */
static ext4_group_t group_in_flex(struct super_block *sb, uint32_t flex, ext4_group_t from)
{
	uint32_t size = UINT32_C(1) << flex_bits(sb);
	ext4_group_t first = flex << flex_bits(sb);

	if (size > sb->s_groups_count - first)
		size = sb->s_groups_count - first;
	for (uint32_t i = 0; i < size; i++) {
		ext4_group_t group = first + (from - first + i) % size;

		if (free_inodes(sb, group) > 0)
			return group;
	}
	return sb->s_groups_count;
}

static ext4_group_t dir_group(const struct creation *c)
{
	struct super_block *sb = c->c_sb;
	uint32_t flex = UINT32_MAX;

	if (is_top(c->c_dir))
		flex = spread_dir(sb, c->c_name);
	if (flex == UINT32_MAX)
		flex = near_dir(sb, c->c_dir->i_block_group);
	if (flex == UINT32_MAX)
		return sb->s_groups_count;
	return group_in_flex(sb, flex, flex << flex_bits(sb));
}

/* Groups that the directory's number chooses, ever further away. */
static ext4_group_t hashed_group(struct super_block *sb, const struct inode *dir)
{
	uint64_t group = (uint64_t)dir->i_block_group + dir->i_ino;
	uint32_t step = 1;

	for (uint32_t i = 0; i < MAX_HASH_PROBES && step < sb->s_groups_count; i++) {
		group += step;
		if (free_inodes(sb, (ext4_group_t)(group % sb->s_groups_count)) > 0)
			return (ext4_group_t)(group % sb->s_groups_count);
		step *= 2;
	}
	return sb->s_groups_count;
}

static ext4_group_t first_group(const struct creation *c)
{
	struct super_block *sb = c->c_sb;
	ext4_group_t parent = c->c_dir->i_block_group;
	ext4_group_t group = sb->s_groups_count;

	if (S_ISDIR(c->c_mode))
		group = dir_group(c);
	if (group >= sb->s_groups_count)
		group = group_in_flex(sb, parent >> flex_bits(sb), parent);
	if (group >= sb->s_groups_count)
		group = hashed_group(sb, c->c_dir);
	if (group >= sb->s_groups_count)
		group = atomic_load(&ext4_mb(sb)->mb_inode_group);
	return group % sb->s_groups_count;
}

/* ---- Bits ---- */

static bool is_busy(const struct mb_group *g, uint32_t bit)
{
	return g->g_ibusy != NULL && ext4_bitmap_test(g->g_ibusy, bit);
}

/*
 * The lowest number that can be given out, s_inodes_per_group if there is none. The locks of the
 * edit are held.
 */
static uint32_t find_bit(struct super_block *sb, struct mb_group *g, const uint8_t *map)
{
	uint32_t end = sb->s_inodes_per_group;
	uint32_t bit = g->g_inode_hint;

	if (g->g_info->bg_group == 0 && bit < sb->s_first_ino - 1)
		bit = sb->s_first_ino - 1;
	for (;;) {
		bit = ext4_bitmap_next_zero(map, bit, end);
		if (bit >= end || !is_busy(g, bit))
			return bit;
		bit++;
	}
}

/* Numbers from here on were never used. */
static uint32_t first_unused(struct super_block *sb, struct ext4_group_info *gi)
{
	uint32_t unused = atomic_load(&gi->bg_itable_unused);

	if (!ext4_has_group_csum(sb))
		return sb->s_inodes_per_group;
	if ((ext4_bg_flags(sb, gi) & EXT2_BG_INODE_UNINIT) != 0)
		return 0;
	return unused < sb->s_inodes_per_group ? sb->s_inodes_per_group - unused : 0;
}

/* Take the lowest number of the group; false: there is none. The locks of the edit are held. */
static bool take_bit(struct creation *c, struct mb_group *g, struct mb_edit *e)
{
	struct ext4_group_change gc = {.gc_free_inodes = -1, .gc_itable_unused = -1};
	struct super_block *sb = c->c_sb;
	uint32_t bit = find_bit(sb, g, e->e_bitmap->b_data);
	uint32_t unused_from = first_unused(sb, e->e_info);

	if (bit >= sb->s_inodes_per_group)
		return false;
	ext4_bitmap_fill(e->e_bitmap->b_data, bit, 1, true);
	gc.gc_used_dirs = S_ISDIR(c->c_mode) ? 1 : 0;
	gc.gc_clear_flags = EXT2_BG_INODE_UNINIT;
	gc.gc_inode_bitmap = e->e_bitmap->b_data;
	if (bit >= unused_from)
		gc.gc_itable_unused = (int64_t)sb->s_inodes_per_group - bit - 1;
	ext4_group_change(sb, e->e_info, &gc);
	g->g_inode_hint = bit + 1;
	c->c_group = e->e_info->bg_group;
	c->c_bit = bit;
	return true;
}

/* 0, or -ENOSPC if the group has none. */
static int try_group(struct creation *c, ext4_group_t group)
{
	struct mb_group *g = ext4_mb_group_get(c->c_sb, group);
	struct mb_edit e;
	bool taken;
	int err;

	if (IS_ERR(g))
		return PTR_ERR(g) == -ENOMEM ? -ENOMEM : -ENOSPC;
	if (atomic_load(&g->g_info->bg_free_inodes) == 0)
		return -ENOSPC;
	err = ext4_mb_edit_begin(c->c_handle, c->c_sb, g->g_info, true, &e);
	/* A damaged group was reported; others may have room. */
	if (err == -EFSCORRUPTED || err == -EFSBADCRC)
		return -ENOSPC;
	if (err != 0)
		return err;
	ext4_mb_edit_lock(&e);
	taken = take_bit(c, g, &e);
	ext4_mb_edit_unlock(&e);
	err = ext4_mb_edit_end(c->c_handle, &e, taken);
	return taken ? err : -ENOSPC;
}

static int take_number(struct creation *c)
{
	struct super_block *sb = c->c_sb;
	struct ext4_mballoc *mb = ext4_mb(sb);
	ext4_group_t group;
	int err;

	if (atomic_load(&mb->mb_free_inodes) <= atomic_load(&mb->mb_pending_inodes))
		return -ENOSPC;
	group = first_group(c);
	err = try_group(c, group);
	if (err != -ENOSPC)
		return err;
	/* Where the last search of this kind ended: full groups before it are passed over once. */
	group = atomic_load(&mb->mb_inode_group);
	for (ext4_group_t i = 0; i < sb->s_groups_count && err == -ENOSPC; i++) {
		err = try_group(c, group);
		if (err == 0)
			atomic_store(&mb->mb_inode_group, group);
		group = group + 1 < sb->s_groups_count ? group + 1 : 0;
	}
	return err;
}

/* Clear the bit. busy: until the commit. Both kinds of counts follow. */
static int clear_number(handle_t *handle, struct super_block *sb, struct mb_group *g, uint32_t bit,
			bool dir, bool busy)
{
	struct ext4_group_change gc = {.gc_free_inodes = 1, .gc_itable_unused = -1};
	struct mb_edit e;
	bool was_set;
	int err = ext4_mb_edit_begin(handle, sb, g->g_info, true, &e);

	if (err != 0)
		return err;
	ext4_mb_edit_lock(&e);
	was_set = ext4_bitmap_test(e.e_bitmap->b_data, bit);
	if (was_set) {
		ext4_bitmap_fill(e.e_bitmap->b_data, bit, 1, false);
		gc.gc_used_dirs = dir ? -1 : 0;
		gc.gc_inode_bitmap = e.e_bitmap->b_data;
		ext4_group_change(sb, g->g_info, &gc);
		if (busy) {
			ext4_bitmap_fill(g->g_ibusy, bit, 1, true);
			g->g_nr_ibusy++;
		} else if (bit < g->g_inode_hint) {
			g->g_inode_hint = bit;
		}
	}
	ext4_mb_edit_unlock(&e);
	err = ext4_mb_edit_end(handle, &e, was_set);
	if (!was_set)
		return ext4_error(sb, 0, "inode %u of group %u is free already", bit,
				  g->g_info->bg_group);
	return err;
}

/* ---- The new inode ---- */

static uint32_t new_generation(struct super_block *sb)
{
	/* From a random start: not guessable from outside is not asked for, only different each time. */
	uint64_t state = atomic_fetch_add(&ext4_mb(sb)->mb_generation, SPLITMIX64_STEP);

	return (uint32_t)splitmix64(&state);
}

static uint32_t new_flags(const struct creation *c)
{
	uint32_t flags = c->c_dir->i_flags & FLAGS_INHERITED;

	if (!S_ISDIR(c->c_mode))
		flags &= S_ISREG(c->c_mode) ? ~(uint32_t)FLAGS_DIRS_ONLY : FLAGS_OTHERS;
	if (ext4_has_incompat(c->c_sb, EXT3_FEATURE_INCOMPAT_EXTENTS) &&
	    (S_ISREG(c->c_mode) || S_ISDIR(c->c_mode) || S_ISLNK(c->c_mode)))
		flags |= EXT4_EXTENTS_FL;
	return flags;
}

static void set_owner(const struct creation *c, struct inode *inode)
{
	inode->i_mode = c->c_mode;
	inode->i_uid = c->c_cred->cr_uid;
	inode->i_gid = c->c_cred->cr_gid;
	if ((c->c_dir->i_mode & S_ISGID) != 0) {
		inode->i_gid = c->c_dir->i_gid;
		if (S_ISDIR(c->c_mode))
			inode->i_mode |= S_ISGID;
	} else if (c->c_sb->s_opts.o_grpid) {
		inode->i_gid = c->c_dir->i_gid;
	}
}

static void fill_inode(const struct creation *c, struct inode *inode)
{
	struct super_block *sb = c->c_sb;

	set_owner(c, inode);
	ext4_inode_set_generation(inode, new_generation(sb));
	inode->i_flags = new_flags(c);
	inode->i_atime = ext4_clamp_time(inode, now_coarse());
	inode->i_mtime = inode->i_atime;
	inode->i_ctime = inode->i_atime;
	inode->i_crtime = inode->i_atime;
	inode->i_version = 1;
	inode->i_extra_isize =
		sb->s_inode_size > EXT2_GOOD_OLD_INODE_SIZE ? (uint16_t)sb->s_want_extra_isize : 0;
	inode->i_block_group = c->c_group;
	atomic_store(&inode->i_nlink, S_ISDIR(c->c_mode) ? 2u : 1u);
	if (S_ISREG(c->c_mode) || S_ISDIR(c->c_mode) || S_ISLNK(c->c_mode))
		ext4_init_block_map(inode);
}

/* Undo of take_number(): the number was in use in no transaction. */
static void untake_number(const struct creation *c)
{
	struct mb_group *g = ext4_mb_group_get(c->c_sb, c->c_group);

	/* What fails here has aborted the transaction, which undoes everything. */
	if (!IS_ERR(g))
		(void)clear_number(c->c_handle, c->c_sb, g, c->c_bit, S_ISDIR(c->c_mode), false);
}

static void count_inodes(struct super_block *sb, int n)
{
	struct ext4_mballoc *mb = ext4_mb(sb);

	atomic_fetch_sub(&mb->mb_free_inodes, n);
}

struct inode *ext4_new_inode(handle_t *handle, struct inode *dir, uint16_t mode,
			     const struct ext4_cred *cred, const char *name)
{
	struct creation c = {.c_handle = handle,
			     .c_sb = dir->i_sb,
			     .c_dir = dir,
			     .c_mode = mode,
			     .c_cred = cred,
			     .c_name = name};
	struct super_block *sb = dir->i_sb;
	struct inode *inode;
	int err = take_number(&c);

	if (err != 0)
		return ERR_PTR(err);
	inode = ext4_inode_new(sb, c.c_group * sb->s_inodes_per_group + c.c_bit + 1);
	if (IS_ERR(inode)) {
		/* In use in memory: the bit is right now, it was wrong before. */
		if (PTR_ERR(inode) == -EFSCORRUPTED)
			count_inodes(sb, 1);
		else
			untake_number(&c);
		return inode;
	}
	fill_inode(&c, inode);
	count_inodes(sb, 1);
	return inode;
}

/* ---- Fast commits ---- */

/* Take this number; false: it is in use. The locks of the edit are held. */
static bool take_this_bit(struct super_block *sb, struct mb_group *g, struct mb_edit *e,
			  uint32_t bit, bool dir)
{
	struct ext4_group_change gc = {.gc_free_inodes = -1, .gc_itable_unused = -1};
	const uint32_t unused_from = first_unused(sb, e->e_info);

	if (ext4_bitmap_test(e->e_bitmap->b_data, bit))
		return false;
	ext4_bitmap_fill(e->e_bitmap->b_data, bit, 1, true);
	gc.gc_used_dirs = dir ? 1 : 0;
	gc.gc_clear_flags = EXT2_BG_INODE_UNINIT;
	gc.gc_inode_bitmap = e->e_bitmap->b_data;
	if (bit >= unused_from)
		gc.gc_itable_unused = (int64_t)sb->s_inodes_per_group - bit - 1;
	ext4_group_change(sb, e->e_info, &gc);
	if (g->g_inode_hint == bit)
		g->g_inode_hint = bit + 1;
	return true;
}

static int claim_in_handle(handle_t *handle, struct super_block *sb, struct mb_group *g,
			   uint32_t bit, bool dir)
{
	struct mb_edit e;
	bool taken;
	int err = ext4_mb_edit_begin(handle, sb, g->g_info, true, &e);

	if (err != 0)
		return err;
	ext4_mb_edit_lock(&e);
	taken = take_this_bit(sb, g, &e, bit, dir);
	ext4_mb_edit_unlock(&e);
	err = ext4_mb_edit_end(handle, &e, taken);
	return taken ? err : -EFSCORRUPTED;
}

int ext4_fc_claim_inode(struct super_block *sb, uint32_t ino, bool dir)
{
	const uint32_t bit = (ino - 1) % sb->s_inodes_per_group;
	uint32_t unused_from;
	struct mb_group *g;
	handle_t *handle;
	int err = 0;

	ASSERT(ext4_valid_dir_ino(sb, ino));
	g = ext4_mb_group_get(sb, (ino - 1) / sb->s_inodes_per_group);
	if (IS_ERR(g))
		return PTR_ERR(g);
	unused_from = first_unused(sb, g->g_info);
	if (bit > unused_from)
		err = ext4_clear_inode_slots(sb, ino - (bit - unused_from), ino);
	if (err != 0)
		return err;
	handle = ext4_journal_start_sb(sb, HT_MISC, 2, 0);
	if (IS_ERR(handle))
		return PTR_ERR(handle);
	err = ext4_journal_stop(handle, claim_in_handle(handle, sb, g, bit, dir));
	if (err == 0)
		count_inodes(sb, 1);
	return err;
}

/* ---- Freeing ---- */

/* The group's set of busy numbers is there. */
static int make_busy_set(struct super_block *sb, struct mb_group *g)
{
	uint8_t *fresh = NULL;
	bool missing;

	mutex_lock(&g->g_info->bg_lock);
	missing = g->g_ibusy == NULL;
	mutex_unlock(&g->g_info->bg_lock);
	if (!missing)
		return 0;
	fresh = calloc(1, sb->s_inodes_per_group / 8 + 1);
	if (fresh == NULL)
		return -ENOMEM;
	mutex_lock(&g->g_info->bg_lock);
	if (g->g_ibusy == NULL) {
		g->g_ibusy = fresh;
		fresh = NULL;
	}
	mutex_unlock(&g->g_info->bg_lock);
	free(fresh);
	return 0;
}

int ext4_free_inode_prepare(handle_t *handle, struct inode *inode)
{
	struct super_block *sb = inode->i_sb;
	struct mb_group *g = ext4_mb_group_get(sb, (inode->i_ino - 1) / sb->s_inodes_per_group);
	struct mb_edit e;
	int err;

	if (IS_ERR(g))
		return PTR_ERR(g);
	err = ext4_mb_edit_begin(handle, sb, g->g_info, true, &e);
	return err != 0 ? err : ext4_mb_edit_end(handle, &e, false);
}

int ext4_free_inode(handle_t *handle, struct inode *inode)
{
	struct super_block *sb = inode->i_sb;
	struct ext4_mballoc *mb = ext4_mb(sb);
	uint32_t ino = inode->i_ino;
	struct mb_group *g;
	struct mb_tx *tx;
	int err;

	if (ino < sb->s_first_ino || ino > sb->s_inodes_count)
		return ext4_error(sb, ino, "reserved or impossible inode is freed");
	g = ext4_mb_group_get(sb, (ino - 1) / sb->s_inodes_per_group);
	if (IS_ERR(g))
		return PTR_ERR(g);
	tx = ext4_mb_tx_get(handle, mb);
	err = tx == NULL ? -ENOMEM : ext4_mb_tx_room_ino(tx);
	if (err == 0)
		err = make_busy_set(sb, g);
	if (err == 0)
		err = clear_number(handle, sb, g, (ino - 1) % sb->s_inodes_per_group,
				   S_ISDIR(inode->i_mode), true);
	if (err != 0)
		return err;
	atomic_fetch_add(&mb->mb_pending_inodes, 1);
	ext4_mb_tx_add_ino(tx, ino);
	count_inodes(sb, -1);
	return 0;
}

void ext4_mb_inode_committed(struct ext4_mballoc *mb, uint32_t ino, bool reusable)
{
	struct super_block *sb = mb->mb_sb;
	struct ext4_group_info *gi;
	struct mb_group *g;
	uint32_t bit;

	if (ino == 0)
		return;
	gi = ext4_group_info_cached(sb, (ino - 1) / sb->s_inodes_per_group);
	ASSERT(gi != NULL);
	bit = (ino - 1) % sb->s_inodes_per_group;
	mutex_lock(&gi->bg_lock);
	g = gi->bg_buddy;
	ASSERT(g != NULL);
	if (reusable) {
		ext4_bitmap_fill(g->g_ibusy, bit, 1, false);
		g->g_nr_ibusy--;
		if (bit < g->g_inode_hint)
			g->g_inode_hint = bit;
	}
	mutex_unlock(&gi->bg_lock);
	atomic_fetch_sub(&mb->mb_pending_inodes, 1);
}

void ext4_mb_inodes_init(struct ext4_mballoc *mb)
{
	uint64_t seed;

	if (getrandom(&seed, sizeof(seed), 0) != (ssize_t)sizeof(seed))
		seed = now_ns();
	atomic_store(&mb->mb_generation, seed);
}
