/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * prealloc.c - blocks kept aside in memory for what a file, or small files in general, will write
 * next.
 *
 * An allocation that took more than was asked leaves the rest as a preallocation (pa). A pa of an
 * inode stands for a range of logical blocks and gives the physical block that belongs to each; a
 * pa of the locality group gives its blocks from the front to any small file, so that small files
 * lie side by side. A pa holds only blocks that nobody uses: taking some from its middle leaves two
 * pas. So giving one back needs no bitmap, no handle and no I/O.
 *
 * Invariants: (1) every block of a pa is used in the buddy and free in the bitmap. (2) A pa holds
 * one pin of its group. (3) pas of an inode do not overlap, logically or physically. (4) Their
 * number is bounded: the oldest goes when there are too many.
 * Locking: mb_pa_lock for lists and ranges, for a few list operations at a time; bg_lock is never
 * taken inside it. A pa that left the lists belongs to whoever took it out.
 */
#include "alloc/mballoc_internal.h"

#include <stdlib.h>

#include "util/assert.h"

#define MAX_PAS 1024u	  /* of the file system */
#define MAX_INODE_PAS 16u /* of an inode */
#define MAX_GROUP_PAS 8u  /* of the locality group */
#define GROUP_PREALLOC 512u
#define MAX_GROUP_PREALLOC 8192u

/* ---- Lists ---- */

static struct mb_pa_list *list_of(struct ext4_mballoc *mb, const struct mb_pa *pa)
{
	return pa->pa_ia != NULL ? &pa->pa_ia->ia_pas : &mb->mb_lg;
}

static void link_pa(struct ext4_mballoc *mb, struct mb_pa *pa)
{
	mutex_assert_held(&mb->mb_pa_lock);
	TAILQ_INSERT_TAIL(list_of(mb, pa), pa, pa_link);
	TAILQ_INSERT_TAIL(&mb->mb_pa_lru, pa, pa_lru);
	mb->mb_nr_pas++;
	if (pa->pa_ia != NULL)
		atomic_fetch_add(&pa->pa_ia->ia_nr_pas, 1);
	else
		mb->mb_nr_lg++;
}

static void unlink_pa(struct ext4_mballoc *mb, struct mb_pa *pa)
{
	mutex_assert_held(&mb->mb_pa_lock);
	TAILQ_REMOVE(list_of(mb, pa), pa, pa_link);
	TAILQ_REMOVE(&mb->mb_pa_lru, pa, pa_lru);
	mb->mb_nr_pas--;
	if (pa->pa_ia != NULL)
		atomic_fetch_sub(&pa->pa_ia->ia_nr_pas, 1);
	else
		mb->mb_nr_lg--;
}

/* The blocks of a pa that is on no list go back to the buddy. */
static uint32_t drop_pa(struct ext4_mballoc *mb, struct mb_pa *pa)
{
	uint32_t len = pa->pa_len;

	ext4_mb_give_back(mb, pa->pa_group, pa->pa_start, len);
	counter_inc(&mb->mb_stats.mb_pa_discarded);
	free(pa);
	return len;
}

/* ---- Adding ---- */

/*
 * A pa that has to go because its list or the file system has too many, taken out; NULL if there
 * are not. ia NULL: locality group.
 */
static struct mb_pa *surplus_pa(struct ext4_mballoc *mb, struct ext4_inode_alloc *ia)
{
	uint32_t n = ia != NULL ? atomic_load(&ia->ia_nr_pas) : mb->mb_nr_lg;
	struct mb_pa *pa = NULL;

	if (n > (ia != NULL ? MAX_INODE_PAS : MAX_GROUP_PAS))
		pa = TAILQ_FIRST(ia != NULL ? &ia->ia_pas : &mb->mb_lg);
	else if (mb->mb_nr_pas > MAX_PAS)
		pa = TAILQ_FIRST(&mb->mb_pa_lru);
	if (pa != NULL)
		unlink_pa(mb, pa);
	return pa;
}

static void drop_surplus(struct ext4_mballoc *mb, struct mb_pa *pa)
{
	if (pa == NULL)
		return;
	counter_inc(&mb->mb_stats.mb_lost_chunks);
	drop_pa(mb, pa);
}

void ext4_mb_pa_add(struct super_block *sb, struct inode *inode, ext4_lblk_t lblk,
		    const struct mb_extent *x)
{
	struct ext4_mballoc *mb = ext4_mb(sb);
	struct mb_pa *pa = malloc(sizeof(*pa));
	struct mb_pa *surplus;

	ASSERT_CMP(x->x_len, >, 0u);
	if (pa == NULL) {
		ext4_mb_give_back(mb, x->x_group, x->x_start, x->x_len);
		return;
	}
	pa->pa_ia = inode == NULL ? NULL : inode->i_alloc;
	pa->pa_group = x->x_group;
	pa->pa_lstart = lblk;
	pa->pa_start = x->x_start;
	pa->pa_len = x->x_len;
	counter_inc(&mb->mb_stats.mb_pa_created);
	mutex_lock(&mb->mb_pa_lock);
	link_pa(mb, pa);
	surplus = surplus_pa(mb, pa->pa_ia);
	mutex_unlock(&mb->mb_pa_lock);
	drop_surplus(mb, surplus);
}

/* ---- Using ---- */

/*
 * Take [offset, offset+len) out of a pa; what is before and after stays. False without memory for
 * the second part.
 */
static bool cut_pa(struct ext4_mballoc *mb, struct mb_pa *pa, uint32_t offset, uint32_t len,
		   struct mb_extent *out)
{
	uint32_t rest = pa->pa_len - offset - len;
	struct mb_pa *right = NULL;

	if (offset > 0 && rest > 0) {
		right = malloc(sizeof(*right));
		if (right == NULL)
			return false;
		*right = *pa;
		right->pa_lstart += offset + len;
		right->pa_start += offset + len;
		right->pa_len = rest;
	}
	out->x_group = pa->pa_group;
	out->x_start = pa->pa_start + offset;
	out->x_len = len;
	/* The group stays pinned by the pa while the extent gets a pin of its own. */
	atomic_fetch_add(&pa->pa_group->g_pins, 1);
	if (offset > 0) {
		pa->pa_len = offset;
	} else {
		pa->pa_lstart += len;
		pa->pa_start += len;
		pa->pa_len = rest;
	}
	if (right != NULL) {
		atomic_fetch_add(&pa->pa_group->g_pins, 1);
		link_pa(mb, right);
	}
	return true;
}

/* A pa that was used up leaves the lists; its pin ends. */
static void retire_if_empty(struct ext4_mballoc *mb, struct mb_pa *pa)
{
	if (pa->pa_len > 0)
		return;
	unlink_pa(mb, pa);
	ext4_mb_unpin(pa->pa_group);
	free(pa);
}

static struct mb_pa *find_inode_pa(struct ext4_inode_alloc *ia, ext4_lblk_t lblk)
{
	struct mb_pa *pa;

	TAILQ_FOREACH (pa, &ia->ia_pas, pa_link)
		if (lblk >= pa->pa_lstart && lblk - pa->pa_lstart < pa->pa_len)
			return pa;
	return NULL;
}

bool ext4_mb_pa_use_inode(struct inode *inode, ext4_lblk_t lblk, uint32_t len,
			  struct mb_extent *out)
{
	struct ext4_mballoc *mb = ext4_mb(inode->i_sb);
	struct mb_pa *surplus = NULL;
	struct mb_pa *pa;
	bool used = false;

	if (atomic_load(&inode->i_alloc->ia_nr_pas) == 0)
		return false;
	mutex_lock(&mb->mb_pa_lock);
	pa = find_inode_pa(inode->i_alloc, lblk);
	if (pa != NULL) {
		uint32_t offset = lblk - pa->pa_lstart;
		uint32_t n = pa->pa_len - offset;

		used = cut_pa(mb, pa, offset, len < n ? len : n, out);
		retire_if_empty(mb, pa);
		surplus = surplus_pa(mb, inode->i_alloc);
	}
	mutex_unlock(&mb->mb_pa_lock);
	drop_surplus(mb, surplus);
	if (used)
		counter_inc(&mb->mb_stats.mb_pa_used);
	return used;
}

static uint64_t distance(ext4_fsblk_t a, ext4_fsblk_t b)
{
	return a < b ? b - a : a - b;
}

bool ext4_mb_pa_use_group(struct super_block *sb, uint32_t len, ext4_fsblk_t goal,
			  struct mb_extent *out)
{
	struct ext4_mballoc *mb = ext4_mb(sb);
	uint64_t best_distance = UINT64_MAX;
	struct mb_pa *best = NULL;
	struct mb_pa *pa;

	mutex_lock(&mb->mb_pa_lock);
	TAILQ_FOREACH (pa, &mb->mb_lg, pa_link) {
		uint64_t d = distance(ext4_mb_block(sb, pa->pa_group, pa->pa_start), goal);

		if (pa->pa_len < len || d >= best_distance)
			continue;
		best = pa;
		best_distance = d;
	}
	if (best != NULL) {
		/* From the front: never two parts, no memory needed. */
		(void)cut_pa(mb, best, 0, len, out);
		retire_if_empty(mb, best);
	}
	mutex_unlock(&mb->mb_pa_lock);
	if (best != NULL)
		counter_inc(&mb->mb_stats.mb_pa_used);
	return best != NULL;
}

bool ext4_mb_pa_next(struct inode *inode, ext4_lblk_t lblk, ext4_lblk_t end, ext4_lblk_t *next)
{
	struct ext4_mballoc *mb = ext4_mb(inode->i_sb);
	bool found = false;
	struct mb_pa *pa;

	if (atomic_load(&inode->i_alloc->ia_nr_pas) == 0)
		return false;
	mutex_lock(&mb->mb_pa_lock);
	TAILQ_FOREACH (pa, &inode->i_alloc->ia_pas, pa_link) {
		if (pa->pa_lstart < lblk || pa->pa_lstart >= end)
			continue;
		if (!found || pa->pa_lstart < *next)
			*next = pa->pa_lstart;
		found = true;
	}
	mutex_unlock(&mb->mb_pa_lock);
	return found;
}

/* ---- Giving back ---- */

/* Take the oldest pa of a list out; NULL when it is empty. */
static struct mb_pa *pop_pa(struct ext4_mballoc *mb, struct ext4_inode_alloc *ia)
{
	struct mb_pa *pa;

	mutex_lock(&mb->mb_pa_lock);
	pa = ia != NULL ? TAILQ_FIRST(&ia->ia_pas) : TAILQ_FIRST(&mb->mb_pa_lru);
	if (pa != NULL) {
		ASSERT(ia == NULL || pa->pa_ia == ia);
		unlink_pa(mb, pa);
	}
	mutex_unlock(&mb->mb_pa_lock);
	return pa;
}

void ext4_mb_pa_discard_inode(struct inode *inode)
{
	struct ext4_mballoc *mb = ext4_mb(inode->i_sb);
	struct mb_pa *pa;

	if (atomic_load(&inode->i_alloc->ia_nr_pas) == 0)
		return;
	while ((pa = pop_pa(mb, inode->i_alloc)) != NULL)
		drop_pa(mb, pa);
}

void ext4_discard_preallocations(struct inode *inode)
{
	atomic_store_explicit(&inode->i_alloc->ia_closed, true, memory_order_relaxed);
	ext4_mb_pa_discard_inode(inode);
}

uint64_t ext4_discard_all_preallocations(struct super_block *sb)
{
	struct ext4_mballoc *mb = ext4_mb(sb);
	uint64_t blocks = 0;
	struct mb_pa *pa;

	while ((pa = pop_pa(mb, NULL)) != NULL)
		blocks += drop_pa(mb, pa);
	return blocks;
}

/* ---- Life ---- */

void ext4_mb_prealloc_init(struct ext4_mballoc *mb)
{
	uint32_t stripe = mb->mb_sb->s_stripe;
	uint32_t blocks = GROUP_PREALLOC;

	mutex_init(&mb->mb_pa_lock, LOCK_RANK_PA);
	TAILQ_INIT(&mb->mb_pa_lru);
	TAILQ_INIT(&mb->mb_lg);
	if (stripe > 1 && stripe <= MAX_GROUP_PREALLOC)
		blocks = (blocks + stripe - 1) / stripe * stripe;
	/* A small device is not given away to the first small file. */
	while (blocks > 16 && blocks > mb->mb_sb->s_blocks_count / 64)
		blocks /= 2;
	mb->mb_group_prealloc = blocks;
}

void ext4_mb_pa_inode_init(struct inode *inode)
{
	TAILQ_INIT(&inode->i_alloc->ia_pas);
	atomic_store(&inode->i_alloc->ia_nr_pas, 0);
	atomic_store(&inode->i_alloc->ia_closed, false);
}
