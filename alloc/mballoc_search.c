/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * mballoc_search.c - where the blocks of a request come from, with a bounded effort.
 *
 * Passes, the first that finds something ends the search (cr0 .. cr3 of the kernel in our terms):
 *   goal    the run at the goal, if it continues the file: the extent grows;
 *   near    metadata: the first free block after the goal in its group;
 *   stripe  a request of a stripe or more: a run that begins on a stripe boundary, among a few
 *           groups near the goal;
 *   cr0     the nearest group with a chunk that surely holds everything wanted; in the group the
 *           first run after the goal that is long enough, among a bounded number of runs, else a
 *           chunk found by its order;
 *   cr1     a group whose chunks alone are too small but may have neighbours: the runs of a few
 *           groups are looked through;
 *   cr2     less than wanted: the largest chunk that any known group has, order by order,
 *           nearest first;
 *   cr3     any free block, whatever has to be read.
 * Bitmaps that are not in memory cost a read each: only a few are read in a search before cr3, and
 * of those one half only from groups whose free count makes success likely. A group that
 * disappoints corrects its hint (mballoc_group.c), so a fragmented file system costs each group
 * once, not each request every group.
 *
 * A file system with stripes that are nowhere free must not pay for looking: after a search without
 * result the next ones are skipped, twice as many after each further failure, up to a limit.
 *
 * Invariants: (1) what is returned was free in the buddy, is marked used there and holds a pin. (2)
 * s_len <= s_want. (3) Each pass before cr3 looks at a number of groups and runs that does not
 * depend on the size of the device.
 * Locking: one group's bg_lock at a time.
 */
#include "alloc/mballoc_internal.h"

#include "util/assert.h"

#define GOAL_LEAST 16u	   /* blocks at the goal that are worth a separate piece */
#define MAX_SCAN 200u	   /* runs looked at in a group */
#define FIRST_FIT_SCAN 48u /* the same where a chunk is sure to be there */
#define CR1_GROUPS 16u	   /* groups looked through for a merged run */
#define STRIPE_GROUPS 8u   /* groups looked through for an aligned run */
#define MAX_STRIPE_SKIP 63u
#define NEAR_LOADS 4u	    /* bitmaps read because they are near */
#define EMPTY_LOADS 8u	    /* bitmaps read because the group has much room */
#define MAX_CANDIDATES 512u /* groups looked into in one pass */
#define MAX_ASKED 512u	    /* unknown groups asked for their counts in a search */

/* ---- Helpers ---- */

static uint32_t min_u32(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

static unsigned order_floor(uint32_t n)
{
	unsigned order = 31 - (unsigned)__builtin_clz(n);

	return order > EXT4_BUDDY_MAX_ORDER ? EXT4_BUDDY_MAX_ORDER : order;
}

static unsigned order_ceil(uint32_t n)
{
	return n <= 1 ? 0 : order_floor(n - 1) + 1;
}

static void take(struct mb_search *s, struct mb_group *g, uint32_t start, uint32_t len)
{
	struct ext4_mballoc *mb = ext4_mb(s->s_sb);

	ASSERT_CMP(len, >, 0u);
	ASSERT_CMP(len, <=, s->s_want);
	ext4_buddy_mark_used(g->g_buddy, start, len);
	atomic_fetch_add(&g->g_pins, 1);
	ext4_mb_group_publish(mb, g);
	s->s_group = g;
	s->s_start = start;
	s->s_len = len;
}

static ext4_group_t goal_group(const struct mb_search *s)
{
	return ext4_group_of_block(s->s_sb, s->s_goal);
}

/* Where in the group to begin: the goal's offset in the goal's group, else 0. */
static uint32_t goal_offset(const struct mb_search *s, ext4_group_t group)
{
	return group == goal_group(s) ? ext4_offset_in_group(s->s_sb, s->s_goal) : 0;
}

/*
 * May this group's bitmap be read now, if it has to be? Groups that are known, or cost no I/O, are
 * free. all: yes, unless its count says that it is no use.
 */
static bool may_look(struct mb_search *s, ext4_group_t group, unsigned order, bool all)
{
	struct mb_group *g;
	uint32_t free_blocks;

	if (ext4_mb_group_known(ext4_mb(s->s_sb), group))
		return true;
	s->s_asked++;
	g = ext4_mb_group_get(s->s_sb, group);
	if (IS_ERR(g))
		return false;
	/* The descriptor was read just now: is there still hope? */
	if (ext4_mb_next_group(ext4_mb(s->s_sb), order, group, group + 1, false) != group)
		return false;
	if (all)
		return true;
	if ((ext4_bg_flags(s->s_sb, g->g_info) & EXT2_BG_BLOCK_UNINIT) != 0)
		return true;
	if (s->s_loads < NEAR_LOADS) {
		s->s_loads++;
		return true;
	}
	free_blocks = atomic_load(&g->g_info->bg_free_blocks);
	if (free_blocks < ext4_blocks_in_group(s->s_sb, group) / 2 ||
	    s->s_empty_loads >= EMPTY_LOADS)
		return false;
	s->s_empty_loads++;
	return true;
}

static struct mb_group *lock_candidate(struct mb_search *s, ext4_group_t group)
{
	struct mb_group *g;

	s->s_nr_groups++;
	g = ext4_mb_group_lock(s->s_sb, group);
	if (IS_ERR(g)) {
		s->s_err = PTR_ERR(g);
		return NULL;
	}
	return g;
}

/* ---- Walk over the groups that may have an order ---- */

struct walk {
	struct mb_search *w_s;
	unsigned w_order;
	bool w_all; /* read whatever has to be read */
	ext4_group_t w_next;
	ext4_group_t w_start;
	bool w_wrapped;
	uint32_t w_left; /* candidates that may still be looked into */
};

static void walk_init(struct walk *w, struct mb_search *s, unsigned order, uint32_t limit)
{
	w->w_s = s;
	w->w_order = order;
	w->w_all = false;
	w->w_start = goal_group(s);
	w->w_next = w->w_start;
	w->w_wrapped = false;
	w->w_left = limit;
}

/* The next candidate from the goal's group on, once around. False at the end. */
static bool walk_next(struct walk *w, ext4_group_t *group)
{
	struct super_block *sb = w->w_s->s_sb;

	while (w->w_left > 0) {
		ext4_group_t end = w->w_wrapped ? w->w_start : w->w_s->s_end;
		bool known_only = !w->w_all && w->w_s->s_asked >= MAX_ASKED;
		ext4_group_t found =
			ext4_mb_next_group(ext4_mb(sb), w->w_order, w->w_next, end, known_only);

		if (found >= end) {
			if (w->w_wrapped)
				return false;
			w->w_wrapped = true;
			w->w_next = 0;
			continue;
		}
		w->w_next = found + 1;
		if (may_look(w->w_s, found, w->w_order, w->w_all)) {
			w->w_left--;
			*group = found;
			return true;
		}
	}
	return false;
}

/* ---- Inside a group ---- */

/*
 * The first run of at least `want` blocks from `from` on, in the given number of runs; the longest
 * seen in *best, as far as it is wanted.
 */
static bool scan_runs(struct mb_search *s, const struct mb_group *g, uint32_t from, uint32_t max,
		      struct ext4_free_run *best)
{
	struct ext4_free_run run = {from, 0};

	best->fr_len = 0;
	for (uint32_t i = 0; i < max; i++) {
		run = ext4_buddy_next_run_of(g->g_buddy, run.fr_start + run.fr_len, s->s_want);
		if (run.fr_len == 0)
			break;
		s->s_nr_extents++;
		if (run.fr_len > best->fr_len)
			*best = run;
		if (run.fr_len >= s->s_want)
			return true;
	}
	return false;
}

/* Everything wanted, near the goal's offset: a run, else a chunk of `order`. */
static bool take_whole(struct mb_search *s, struct mb_group *g, unsigned order)
{
	uint32_t from = goal_offset(s, g->g_info->bg_group);
	struct ext4_free_run run = {0};
	uint32_t start;

	if (ext4_buddy_largest_order(g->g_buddy) < (int)order)
		return false;
	if (scan_runs(s, g, from, FIRST_FIT_SCAN, &run) ||
	    (from > 0 && scan_runs(s, g, 0, FIRST_FIT_SCAN, &run))) {
		take(s, g, run.fr_start, s->s_want);
		return true;
	}
	start = ext4_buddy_find_chunk(g->g_buddy, order, from);
	counter_inc(&ext4_mb(s->s_sb)->mb_stats.mb_2order_hits);
	take(s, g, start, min_u32(s->s_want, UINT32_C(1) << order));
	return true;
}

/* The offset of the first block at or after start that lies on a stripe boundary of the device. */
static uint32_t stripe_align(const struct mb_search *s, const struct mb_group *g, uint32_t start)
{
	uint32_t stripe = s->s_sb->s_stripe;
	uint64_t rest = ext4_mb_block(s->s_sb, g, start) % stripe;

	return rest == 0 ? start : start + stripe - (uint32_t)rest;
}

/*
 * The first aligned stripe in the group, and as many of the following ones as are wanted and free.
 */
static bool take_stripes(struct mb_search *s, struct mb_group *g)
{
	struct ext4_free_run run = {goal_offset(s, g->g_info->bg_group), 0};
	uint32_t stripe = s->s_sb->s_stripe;

	for (uint32_t i = 0; i < MAX_SCAN; i++) {
		uint32_t start;
		uint32_t len;

		run = ext4_buddy_next_run(g->g_buddy, run.fr_start + run.fr_len,
					  g->g_buddy->b_blocks);
		if (run.fr_len == 0)
			return false;
		s->s_nr_extents++;
		start = stripe_align(s, g, run.fr_start);
		if (start - run.fr_start + stripe > run.fr_len)
			continue;
		len = min_u32(s->s_want, run.fr_len - (start - run.fr_start));
		if (len - len % stripe >= s->s_min)
			len -= len % stripe;
		take(s, g, start, len);
		return true;
	}
	return false;
}

/* ---- Passes ---- */

static bool pass_goal(struct mb_search *s)
{
	uint32_t offset = ext4_offset_in_group(s->s_sb, s->s_goal);
	struct mb_group *g;
	uint32_t run;

	if (!s->s_try_goal)
		return false;
	g = lock_candidate(s, goal_group(s));
	if (g == NULL)
		return false;
	run = ext4_buddy_run_at(g->g_buddy, offset, s->s_want);
	if (run >= min_u32(s->s_min, GOAL_LEAST)) {
		take(s, g, offset, run);
		counter_inc(&ext4_mb(s->s_sb)->mb_stats.mb_goal_hits);
	}
	ext4_mb_group_unlock(g);
	return s->s_len > 0;
}

/* Is this request one of those that are spared the look for a stripe? */
static bool stripe_skipped(struct ext4_mballoc *mb)
{
	uint32_t skip = atomic_load(&mb->mb_stripe_skip);

	return skip > 0 && atomic_compare_exchange_strong(&mb->mb_stripe_skip, &skip, skip - 1);
}

static void stripe_result(struct ext4_mballoc *mb, bool found)
{
	uint32_t fails = found ? 0 : atomic_load(&mb->mb_stripe_fails) + 1;
	uint32_t skip = fails >= 6 ? MAX_STRIPE_SKIP : (UINT32_C(1) << fails) - 1;

	atomic_store(&mb->mb_stripe_fails, fails);
	atomic_store(&mb->mb_stripe_skip, skip);
	if (found)
		counter_inc(&mb->mb_stats.mb_stripe_hits);
}

static bool pass_stripe(struct mb_search *s)
{
	struct ext4_mballoc *mb = ext4_mb(s->s_sb);
	uint32_t stripe = s->s_sb->s_stripe;
	ext4_group_t group;
	struct walk w;

	if (stripe <= 1 || !s->s_data || s->s_want < stripe || stripe_skipped(mb))
		return false;
	/* A run of a stripe holds a chunk of at least a quarter of it, however it lies. */
	walk_init(&w, s, order_floor(stripe) < 2 ? 0 : order_floor(stripe) - 2, STRIPE_GROUPS);
	while (s->s_len == 0 && walk_next(&w, &group)) {
		struct mb_group *g = lock_candidate(s, group);

		if (g == NULL)
			continue;
		take_stripes(s, g);
		ext4_mb_group_unlock(g);
	}
	stripe_result(mb, s->s_len > 0);
	return s->s_len > 0;
}

static bool try_whole(struct mb_search *s, ext4_group_t group, unsigned order)
{
	struct mb_group *g = lock_candidate(s, group);
	bool found;

	if (g == NULL)
		return false;
	found = take_whole(s, g, order);
	ext4_mb_group_unlock(g);
	return found;
}

/* A group with a chunk of the order: near the goal, else any that is known to have one. */
static bool pass_order(struct mb_search *s, unsigned order)
{
	ext4_group_t group;
	struct walk w;

	walk_init(&w, s, order, MAX_CANDIDATES);
	while (walk_next(&w, &group))
		if (try_whole(s, group, order))
			return true;
	return false;
}

/* Merged runs in a few groups with chunks of at least half of what is wanted. */
static bool pass_runs(struct mb_search *s)
{
	ext4_group_t group;
	struct walk w;

	walk_init(&w, s, order_floor(s->s_want), CR1_GROUPS);
	while (s->s_len == 0 && walk_next(&w, &group)) {
		struct mb_group *g = lock_candidate(s, group);
		struct ext4_free_run run = {0};

		if (g == NULL)
			continue;
		if (scan_runs(s, g, goal_offset(s, group), MAX_SCAN, &run))
			take(s, g, run.fr_start, s->s_want);
		ext4_mb_group_unlock(g);
	}
	return s->s_len > 0;
}

/* The chunk that is there, and what follows it. */
static bool try_part(struct mb_search *s, ext4_group_t group, unsigned order)
{
	struct mb_group *g = lock_candidate(s, group);
	uint32_t start;

	if (g == NULL)
		return false;
	start = ext4_buddy_find_chunk(g->g_buddy, order, goal_offset(s, group));
	if (start != UINT32_MAX)
		take(s, g, start, ext4_buddy_run_at(g->g_buddy, start, s->s_want));
	ext4_mb_group_unlock(g);
	return s->s_len > 0;
}

static bool pass_part(struct mb_search *s)
{
	ext4_group_t group;
	struct walk w;

	for (int order = (int)order_floor(s->s_want); order >= 0; order--) {
		walk_init(&w, s, (unsigned)order, MAX_CANDIDATES);
		while (walk_next(&w, &group))
			if (try_part(s, group, (unsigned)order))
				return true;
	}
	return false;
}

static bool pass_any(struct mb_search *s)
{
	ext4_group_t group;
	struct walk w;

	walk_init(&w, s, 0, UINT32_MAX);
	w.w_all = true;
	while (walk_next(&w, &group))
		if (try_part(s, group, 0))
			return true;
	return false;
}

/* One block, or a few of metadata: the first free ones after the goal in its group. */
static bool pass_near(struct mb_search *s)
{
	ext4_group_t group = goal_group(s);
	struct ext4_free_run run = {0};
	struct mb_group *g;

	if (s->s_data)
		return false;
	if (ext4_mb_next_group(ext4_mb(s->s_sb), 0, group, group + 1, false) != group)
		return false;
	g = lock_candidate(s, group);
	if (g == NULL)
		return false;
	if (scan_runs(s, g, goal_offset(s, group), MAX_SCAN, &run))
		take(s, g, run.fr_start, s->s_want);
	ext4_mb_group_unlock(g);
	return s->s_len > 0;
}

static bool run_pass(struct mb_search *s, enum mb_pass pass)
{
	s->s_pass = pass;
	switch (pass) {
	case MB_PASS_GOAL:
		return pass_goal(s);
	case MB_PASS_NEAR:
		return pass_near(s);
	case MB_PASS_STRIPE:
		return pass_stripe(s);
	case MB_PASS_ORDER:
		return order_ceil(s->s_want) <= EXT4_BUDDY_MAX_ORDER &&
		       pass_order(s, order_ceil(s->s_want));
	case MB_PASS_RUNS:
		return pass_runs(s);
	case MB_PASS_PART:
		return pass_part(s);
	default:
		return pass_any(s);
	}
}

bool ext4_mb_search(struct mb_search *s)
{
	struct ext4_mballoc *mb = ext4_mb(s->s_sb);
	bool found = false;

	ASSERT_CMP(s->s_want, >, 0u);
	ASSERT_CMP(s->s_min, <=, s->s_want);
	for (int pass = MB_PASS_GOAL; !found && pass <= MB_PASS_ANY; pass++)
		found = run_pass(s, (enum mb_pass)pass);
	counter_add(&mb->mb_stats.mb_groups_scanned, s->s_nr_groups);
	counter_add(&mb->mb_stats.mb_extents_scanned, s->s_nr_extents);
	if (found && s->s_len < s->s_want)
		counter_inc(&mb->mb_stats.mb_breaks);
	return found;
}
