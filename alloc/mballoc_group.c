/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * mballoc_group.c - which groups have how much room, and their buddies in memory.
 *
 * A group's buddy is built from its bitmap when somebody first looks into it, and kept; when more
 * than a fixed number are in memory the one that was built longest ago goes, unless it is pinned.
 * What stays for ever are hints: for each order a bitmap of the groups that have no chunk so large.
 * A group nobody looked into is hoped to have everything its descriptor's count allows; the bitmaps
 * start as zeros, so that mounting touches nothing. A search finds the nearest hopeful group a word
 * at a time, corrects the hint where it was disappointed, and so meets each full group once.
 *
 * Invariants: (1) a buddy in memory says free for exactly the blocks that are clear in the bitmap,
 * in no preallocation, not claimed by an allocation on its way to the bitmap, and not freed by an
 * uncommitted transaction. (2) Blocks that only the buddy knows to be used (preallocated or on
 * their way) hold a pin: their buddy is never dropped. (3) mb_lacks[o] of a known group is exact as
 * of the last publish; of an unknown group it is set only if its free count is below 2^o. (4) A
 * damaged group lacks every order.
 * Locking: bg_lock for everything of a group; content locks of buffers are taken before it.
 * mb_lru_lock is a leaf.
 */
#include "alloc/mballoc_internal.h"

#include <stdlib.h>
#include <string.h>

#include "ext4/jbd2_glue.h"
#include "util/assert.h"

#define MAX_BUDDIES 768u
#define LOAD_RETRIES 64u
#define WORD_BITS 32u

/* ---- Hints ---- */

static bool map_test(_Atomic uint32_t *map, ext4_group_t group)
{
	uint32_t word = atomic_load_explicit(&map[group / WORD_BITS], memory_order_relaxed);

	return (word >> (group % WORD_BITS) & 1) != 0;
}

static void map_change(_Atomic uint32_t *map, ext4_group_t group, bool set)
{
	uint32_t bit = UINT32_C(1) << (group % WORD_BITS);

	if (map_test(map, group) == set)
		return;
	if (set)
		atomic_fetch_or_explicit(&map[group / WORD_BITS], bit, memory_order_relaxed);
	else
		atomic_fetch_and_explicit(&map[group / WORD_BITS], ~bit, memory_order_relaxed);
}

/* The largest order that n blocks can have, -1 for 0. */
static int order_of_count(uint32_t n)
{
	int order = n == 0 ? -1 : 31 - __builtin_clz(n);

	return order > EXT4_BUDDY_MAX_ORDER ? EXT4_BUDDY_MAX_ORDER : order;
}

static void set_order(struct ext4_mballoc *mb, struct mb_group *g, int order)
{
	ext4_group_t group = g->g_info->bg_group;

	for (int o = g->g_order + 1; o <= order; o++)
		map_change(mb->mb_lacks[o], group, false);
	for (int o = order + 1; o <= g->g_order; o++)
		map_change(mb->mb_lacks[o], group, true);
	g->g_order = order;
}

void ext4_mb_group_publish(struct ext4_mballoc *mb, struct mb_group *g)
{
	mutex_assert_held(&g->g_info->bg_lock);
	set_order(mb, g, g->g_bad ? -1 : ext4_buddy_largest_order(g->g_buddy));
	map_change(mb->mb_known, g->g_info->bg_group, true);
}

void ext4_mb_group_hope(struct ext4_mballoc *mb, struct mb_group *g, uint32_t len)
{
	uint32_t free_blocks = atomic_load(&g->g_info->bg_free_blocks);

	mutex_assert_held(&g->g_info->bg_lock);
	if (g->g_bad)
		return;
	set_order(mb, g, order_of_count(free_blocks < len ? len : free_blocks));
	map_change(mb->mb_known, g->g_info->bg_group, false);
}

bool ext4_mb_group_known(struct ext4_mballoc *mb, ext4_group_t group)
{
	return map_test(mb->mb_known, group);
}

ext4_group_t ext4_mb_next_group(struct ext4_mballoc *mb, unsigned order, ext4_group_t from,
				ext4_group_t end, bool known_only)
{
	ext4_group_t group = from;

	while (group < end) {
		uint32_t i = group / WORD_BITS;
		uint32_t word =
			~atomic_load_explicit(&mb->mb_lacks[order][i], memory_order_relaxed);

		if (known_only)
			word &= atomic_load_explicit(&mb->mb_known[i], memory_order_relaxed);
		word &= ~UINT32_C(0) << (group % WORD_BITS);
		if (word != 0) {
			group = i * WORD_BITS + (uint32_t)__builtin_ctz(word);
			return group < end ? group : end;
		}
		group = (i + 1) * WORD_BITS;
	}
	return end;
}

/* A group that cannot be read: nothing is hoped of it any more. */
static void rule_out(struct ext4_mballoc *mb, ext4_group_t group)
{
	for (unsigned o = 0; o < EXT4_BUDDY_ORDERS; o++)
		map_change(mb->mb_lacks[o], group, true);
	map_change(mb->mb_known, group, true);
}

/* The bitmap is damaged: its free blocks leave the accounts. */
static void retire(struct ext4_mballoc *mb, struct mb_group *g, uint32_t free_blocks)
{
	mutex_lock(&g->g_info->bg_lock);
	if (!g->g_bad) {
		g->g_bad = true;
		atomic_fetch_sub(&mb->mb_free, (int64_t)free_blocks);
		atomic_fetch_sub(&mb->mb_unclaimed, (int64_t)free_blocks);
		set_order(mb, g, -1);
	}
	mutex_unlock(&g->g_info->bg_lock);
	rule_out(mb, g->g_info->bg_group);
}

/* ---- Groups ---- */

static struct mb_group *new_group(struct ext4_mballoc *mb, struct ext4_group_info *gi)
{
	struct mb_group *g = calloc(1, sizeof(*g));

	if (g == NULL)
		return NULL;
	g->g_info = gi;
	RB_INIT(&g->g_pending);
	g->g_order = EXT4_BUDDY_MAX_ORDER;
	set_order(mb, g, order_of_count(atomic_load(&gi->bg_free_blocks)));
	gi->bg_buddy = g;
	return g;
}

struct mb_group *ext4_mb_group_get(struct super_block *sb, ext4_group_t group)
{
	struct ext4_group_info *gi = ext4_get_group_info(sb, group);
	struct mb_group *g;

	if (IS_ERR(gi)) {
		if (PTR_ERR(gi) != -ENOMEM)
			rule_out(ext4_mb(sb), group);
		return ERR_PTR(PTR_ERR(gi));
	}
	mutex_lock(&gi->bg_lock);
	g = gi->bg_buddy;
	if (g == NULL)
		g = new_group(ext4_mb(sb), gi);
	mutex_unlock(&gi->bg_lock);
	return g == NULL ? ERR_PTR(-ENOMEM) : g;
}

/* ---- Buddies in memory ---- */

static void lru_add(struct ext4_mballoc *mb, struct mb_group *g)
{
	mutex_lock(&mb->mb_lru_lock);
	if (!g->g_on_lru) {
		TAILQ_INSERT_TAIL(&mb->mb_lru, g, g_lru);
		g->g_on_lru = true;
		mb->mb_nr_buddies++;
	}
	mutex_unlock(&mb->mb_lru_lock);
}

/* The oldest buddy, off the list; NULL while there are not too many. */
static struct mb_group *lru_pop(struct ext4_mballoc *mb, uint32_t max)
{
	struct mb_group *g = NULL;

	mutex_lock(&mb->mb_lru_lock);
	if (mb->mb_nr_buddies > max) {
		g = TAILQ_FIRST(&mb->mb_lru);
		TAILQ_REMOVE(&mb->mb_lru, g, g_lru);
		g->g_on_lru = false;
		mb->mb_nr_buddies--;
	}
	mutex_unlock(&mb->mb_lru_lock);
	return g;
}

/*
 * Bring the number of buddies down; a few pinned ones are passed over, the next load tries again.
 */
static void trim_buddies(struct ext4_mballoc *mb)
{
	for (unsigned i = 0; i < 4; i++) {
		struct mb_group *g = lru_pop(mb, mb->mb_max_buddies);
		struct ext4_buddy *old = NULL;

		if (g == NULL)
			return;
		mutex_lock(&g->g_info->bg_lock);
		if (atomic_load(&g->g_pins) == 0) {
			old = g->g_buddy;
			g->g_buddy = NULL;
			atomic_fetch_and(&g->g_info->bg_state, ~EXT4_GRP_BUDDY_READY);
		}
		mutex_unlock(&g->g_info->bg_lock);
		if (old != NULL)
			ext4_buddy_free(old);
		else
			lru_add(mb, g);
	}
}

/* Put the new buddy in place, unless somebody was faster. */
static void install_buddy(struct ext4_mballoc *mb, struct mb_group *g, struct buffer_head *bh,
			  struct ext4_buddy *fresh)
{
	bool installed = false;

	lock_buffer(bh);
	mutex_lock(&g->g_info->bg_lock);
	if (g->g_buddy == NULL) {
		ext4_buddy_load(fresh, bh->b_data);
		ext4_mb_hide_pending(g, fresh);
		g->g_buddy = fresh;
		atomic_fetch_or(&g->g_info->bg_state, EXT4_GRP_BUDDY_READY);
		ext4_mb_group_publish(mb, g);
		installed = true;
	}
	mutex_unlock(&g->g_info->bg_lock);
	unlock_buffer(bh);
	if (!installed) {
		ext4_buddy_free(fresh);
		return;
	}
	counter_inc(&mb->mb_stats.mb_buddies_built);
	lru_add(mb, g);
	trim_buddies(mb);
}

static int load_buddy(struct super_block *sb, struct mb_group *g)
{
	struct ext4_mballoc *mb = ext4_mb(sb);
	uint32_t free_blocks = atomic_load(&g->g_info->bg_free_blocks);
	struct buffer_head *bh = ext4_read_block_bitmap(sb, g->g_info);
	struct ext4_buddy *fresh;

	if (IS_ERR(bh)) {
		if (PTR_ERR(bh) != -ENOMEM)
			retire(mb, g, free_blocks);
		return PTR_ERR(bh);
	}
	fresh = ext4_buddy_new(ext4_blocks_in_group(sb, g->g_info->bg_group));
	if (fresh != NULL)
		install_buddy(mb, g, bh, fresh);
	bh_put(bh);
	return fresh == NULL ? -ENOMEM : 0;
}

struct mb_group *ext4_mb_group_lock(struct super_block *sb, ext4_group_t group)
{
	struct mb_group *g = ext4_mb_group_get(sb, group);
	int err = 0;

	if (IS_ERR(g))
		return g;
	/*
	 * Between load and lock the buddy may be dropped again; that it happens this often means a
	 * bound that is far too low.
	 */
	for (unsigned i = 0; i < LOAD_RETRIES && err == 0; i++) {
		mutex_lock(&g->g_info->bg_lock);
		if (g->g_bad)
			err = -EFSCORRUPTED;
		else if (g->g_buddy != NULL)
			return g;
		mutex_unlock(&g->g_info->bg_lock);
		if (err == 0)
			err = load_buddy(sb, g);
	}
	return ERR_PTR(err == 0 ? -EAGAIN : err);
}

void ext4_mb_unpin(struct mb_group *g)
{
	uint32_t before = atomic_fetch_sub(&g->g_pins, 1);

	ASSERT_CMP(before, >, 0u);
}

void ext4_mb_give_back(struct ext4_mballoc *mb, struct mb_group *g, uint32_t start, uint32_t len)
{
	mutex_lock(&g->g_info->bg_lock);
	ext4_buddy_mark_free(g->g_buddy, start, len);
	ext4_mb_group_publish(mb, g);
	ext4_mb_unpin(g);
	mutex_unlock(&g->g_info->bg_lock);
}

/* ---- Changes of bitmap and descriptor ---- */

int ext4_mb_edit_begin(handle_t *handle, struct super_block *sb, struct ext4_group_info *gi,
		       bool inodes, struct mb_edit *e)
{
	int err;

	e->e_info = gi;
	e->e_bitmap = inodes ? ext4_read_inode_bitmap(sb, gi) : ext4_read_block_bitmap(sb, gi);
	if (IS_ERR(e->e_bitmap))
		return PTR_ERR(e->e_bitmap);
	err = ext4_journal_get_write_access(handle, e->e_bitmap);
	if (err == 0)
		err = ext4_journal_get_write_access(handle, gi->bg_desc_bh);
	if (err != 0)
		bh_put(e->e_bitmap);
	return err;
}

void ext4_mb_edit_lock(struct mb_edit *e)
{
	lock_buffer(e->e_bitmap);
	mutex_lock(&e->e_info->bg_lock);
}

void ext4_mb_edit_unlock(struct mb_edit *e)
{
	mutex_unlock(&e->e_info->bg_lock);
	unlock_buffer(e->e_bitmap);
}

int ext4_mb_edit_end(handle_t *handle, struct mb_edit *e, bool dirty)
{
	int err = 0;
	int err2 = 0;

	if (dirty) {
		err = ext4_handle_dirty_metadata(handle, NULL, e->e_bitmap);
		err2 = ext4_handle_dirty_metadata(handle, NULL, e->e_info->bg_desc_bh);
	}
	bh_put(e->e_bitmap);
	return err != 0 ? err : err2;
}

/* ---- Life ---- */

int ext4_mb_groups_init(struct ext4_mballoc *mb)
{
	size_t words = ((size_t)mb->mb_sb->s_groups_count + WORD_BITS - 1) / WORD_BITS;

	mutex_init(&mb->mb_lru_lock, LOCK_RANK_LEAF);
	TAILQ_INIT(&mb->mb_lru);
	mb->mb_max_buddies = MAX_BUDDIES;
	mb->mb_known = calloc(words, sizeof(*mb->mb_known));
	if (mb->mb_known == NULL)
		return -ENOMEM;
	for (unsigned o = 0; o < EXT4_BUDDY_ORDERS; o++) {
		mb->mb_lacks[o] = calloc(words, sizeof(*mb->mb_lacks[o]));
		if (mb->mb_lacks[o] == NULL)
			return -ENOMEM;
	}
	return 0;
}

static void free_group(struct super_block *sb, ext4_group_t group)
{
	struct ext4_group_info *gi = ext4_group_info_cached(sb, group);
	struct mb_group *g = gi == NULL ? NULL : gi->bg_buddy;

	if (g == NULL)
		return;
	ASSERT_CMP(atomic_load(&g->g_pins), ==, 0u);
	ASSERT(RB_EMPTY(&g->g_pending));
	gi->bg_buddy = NULL;
	if (g->g_buddy != NULL)
		ext4_buddy_free(g->g_buddy);
	free(g->g_ibusy);
	free(g);
}

void ext4_mb_groups_exit(struct ext4_mballoc *mb)
{
	for (ext4_group_t group = 0; group < mb->mb_sb->s_groups_count; group++)
		free_group(mb->mb_sb, group);
	for (unsigned o = 0; o < EXT4_BUDDY_ORDERS; o++)
		free((void *)mb->mb_lacks[o]);
	free((void *)mb->mb_known);
	mutex_destroy(&mb->mb_lru_lock);
}
