/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * extent_status.c - what is known of each block of a file, in memory: written, unwritten, delayed or hole.
 *
 * A red-black tree of runs for each inode, neighbours of one kind merged. The node of the last look-up is remembered,
 * so that a sequential reader or writer does not search. A change first takes the range out of the tree (a
 * run that sticks out on both sides is split) and then puts the new run in, merged with its neighbours; the nodes that
 * this can need are set aside before anything is changed, so that a lack of memory changes nothing.
 * Runs that are not delayed are a cache of the block map. When their number in the process passes a limit, or when
 * asked, a shrinker drops them inode by inode, least recently linked first, the oldest runs of each first. They are on
 * a list of their own: it costs nothing that a file has a million delayed ones. The shrinker leaves an inode alone whose
 * i_data_sem is held: what its holder has looked up stays known.
 *
 * state       comes from                        leaves by
 * hole        look-up                           write (delayed), allocation, shrinker
 * delayed     write(2)                          allocation, truncate, punch; never the shrinker
 * unwritten   allocation, look-up               conversion, removal, shrinker
 * written     conversion, allocation, look-up   removal, zero range (unwritten), shrinker
 *
 * Invariants: (1) runs do not overlap, none is empty, none ends past EXT4_MAX_BLOCKS; (2) neighbours that could be one run are one;
 * (3) ia_es_nr, ia_es_nr_delayed and ia_es_delayed_blocks are the sums over the tree; (4) an inode with a run
 * that the shrinker may drop is on its list; (5) ia_es_clean holds exactly the runs that are not delayed.
 * Locking: i_es_lock protects everything of one inode. The shrinker's lock is taken inside it to link an inode, and around try-locks of
 * i_data_sem and i_es_lock to shrink: an inode on the list is alive while it is held.
 */
#include "alloc/extent_status.h"

#include <inttypes.h>
#include <stdlib.h>

#include "alloc/alloc_internal.h"
#include "util/assert.h"

#define ES_MAX_CLEAN_NODES 131072u /* in the whole process, about 10 MiB */
#define ES_SHRINK_BATCH 512u
#define ES_SPARES_KEPT 2u   /* what an appending write asks for */
#define ES_CHECK_ALWAYS 64u /* trees up to this size are checked at each change in debug builds */
#define ES_CHECK_EVERY 256u

static int es_cmp(const struct es_node *a, const struct es_node *b)
{
	return a->es.es_lblk < b->es.es_lblk ? -1 : a->es.es_lblk > b->es.es_lblk;
}

RB_GENERATE_INTERNAL(es_tree, es_node, es_rb, es_cmp, static __attribute__((unused)))

/* Inodes that have something to shrink. */
static struct {
	struct mutex lock; /* LEAF */
	TAILQ_HEAD(es_shrink_list, ext4_inode_alloc) list;
	_Atomic uint64_t nr_clean; /* nodes that may be dropped, of all inodes */
	counter_t scans;
	counter_t shrunk;
	counter_t hits;
	counter_t misses;
} shrinker = {
	.lock = {PTHREAD_MUTEX_INITIALIZER, LOCK_RANK_LEAF},
	.list = TAILQ_HEAD_INITIALIZER(shrinker.list),
};

static uint64_t es_end(const struct extent_status *es)
{
	return (uint64_t)es->es_lblk + es->es_len;
}

static bool es_is_mapped(const struct extent_status *es)
{
	return (es->es_state & (ES_WRITTEN | ES_UNWRITTEN)) != 0;
}

static bool es_contains(const struct extent_status *es, ext4_lblk_t lblk)
{
	return lblk >= es->es_lblk && lblk - es->es_lblk < es->es_len;
}

static bool es_can_merge(const struct extent_status *a, const struct extent_status *b)
{
	if (a->es_state != b->es_state || es_end(a) != b->es_lblk)
		return false;
	return !es_is_mapped(a) || a->es_pblk + a->es_len == b->es_pblk;
}

/* ---- Nodes ---- */

/* At least n spare nodes. 0 or -ENOMEM. */
static int spares_fill(struct ext4_inode_alloc *ia, uint32_t n)
{
	while (ia->ia_es_nr_spares < n) {
		struct es_node *node = malloc(sizeof(*node));

		if (node == NULL)
			return -ENOMEM;
		node->es_spare = ia->ia_es_spares;
		ia->ia_es_spares = node;
		ia->ia_es_nr_spares++;
	}
	return 0;
}

static void spares_trim(struct ext4_inode_alloc *ia, uint32_t n)
{
	while (ia->ia_es_nr_spares > n) {
		struct es_node *node = ia->ia_es_spares;

		ia->ia_es_spares = node->es_spare;
		ia->ia_es_nr_spares--;
		free(node);
	}
}

/* The counts follow each change of a node's length or presence. */
static void account(struct ext4_inode_alloc *ia, unsigned state, int64_t blocks)
{
	if (state == ES_DELAYED)
		ia->ia_es_delayed_blocks = (uint32_t)(ia->ia_es_delayed_blocks + blocks);
}

static void link_inode(struct ext4_inode_alloc *ia)
{
	if (ia->ia_linked)
		return;
	mutex_lock(&shrinker.lock);
	TAILQ_INSERT_TAIL(&shrinker.list, ia, ia_link);
	ia->ia_linked = true;
	mutex_unlock(&shrinker.lock);
}

static void add_node(struct ext4_inode_alloc *ia, const struct extent_status *es)
{
	struct es_node *node = ia->ia_es_spares;

	ASSERT(node != NULL);
	ia->ia_es_spares = node->es_spare;
	ia->ia_es_nr_spares--;
	node->es = *es;
	ASSERT(RB_INSERT(es_tree, &ia->ia_es_tree, node) == NULL);
	ia->ia_es_nr++;
	account(ia, es->es_state, es->es_len);
	if (es->es_state == ES_DELAYED) {
		ia->ia_es_nr_delayed++;
		return;
	}
	TAILQ_INSERT_TAIL(&ia->ia_es_clean, node, es_clean);
	atomic_fetch_add_explicit(&shrinker.nr_clean, 1, memory_order_relaxed);
	link_inode(ia);
}

static void del_node(struct ext4_inode_alloc *ia, struct es_node *node)
{
	RB_REMOVE(es_tree, &ia->ia_es_tree, node);
	if (ia->ia_es_cache == node)
		ia->ia_es_cache = NULL;
	ia->ia_es_nr--;
	account(ia, node->es.es_state, -(int64_t)node->es.es_len);
	if (node->es.es_state == ES_DELAYED) {
		ia->ia_es_nr_delayed--;
	} else {
		TAILQ_REMOVE(&ia->ia_es_clean, node, es_clean);
		atomic_fetch_sub_explicit(&shrinker.nr_clean, 1, memory_order_relaxed);
	}
	node->es_spare = ia->ia_es_spares;
	ia->ia_es_spares = node;
	ia->ia_es_nr_spares++;
}

/* ---- Search and change, i_es_lock held ---- */

/* The run that contains lblk, or the first one after it. */
static struct es_node *search(struct ext4_inode_alloc *ia, ext4_lblk_t lblk)
{
	struct es_node *node = ia->ia_es_cache, *found = NULL;

	if (node != NULL && es_contains(&node->es, lblk))
		return node;
	node = RB_ROOT(&ia->ia_es_tree);
	while (node != NULL) {
		if (lblk < node->es.es_lblk) {
			found = node;
			node = RB_LEFT(node, es_rb);
		} else if (lblk - node->es.es_lblk >= node->es.es_len) {
			node = RB_RIGHT(node, es_rb);
		} else {
			found = node;
			break;
		}
	}
	return found;
}

static void trim_front(struct ext4_inode_alloc *ia, struct es_node *node, uint64_t new_start)
{
	ext4_lblk_t cut = (ext4_lblk_t)(new_start - node->es.es_lblk);

	account(ia, node->es.es_state, -(int64_t)cut);
	node->es.es_lblk += cut;
	node->es.es_len -= cut;
	if (es_is_mapped(&node->es))
		node->es.es_pblk += cut;
}

static void trim_back(struct ext4_inode_alloc *ia, struct es_node *node, uint64_t new_end)
{
	account(ia, node->es.es_state, -(int64_t)(es_end(&node->es) - new_end));
	node->es.es_len = (ext4_lblk_t)(new_end - node->es.es_lblk);
}

/* Spare nodes that a change of [lblk, end) can use: one for a run that sticks out on both sides, one for what is put in. */
static uint32_t nodes_needed(struct ext4_inode_alloc *ia, ext4_lblk_t lblk, uint64_t end)
{
	const struct es_node *node = search(ia, lblk);

	if (node != NULL && node->es.es_lblk < lblk && es_end(&node->es) > end)
		return 2;
	return 1;
}

/* Take [lblk, end) out. Returns the first run at or after end. Uses up to one spare node. */
static struct es_node *remove_locked(struct ext4_inode_alloc *ia, ext4_lblk_t lblk, uint64_t end)
{
	struct es_node *node = search(ia, lblk), *next;

	if (node != NULL && node->es.es_lblk < lblk) {
		struct extent_status right = node->es;
		uint64_t node_end = es_end(&node->es);

		trim_back(ia, node, lblk);
		next = RB_NEXT(es_tree, &ia->ia_es_tree, node);
		if (node_end > end) {
			ext4_lblk_t cut = (ext4_lblk_t)(end - right.es_lblk);

			right.es_lblk += cut;
			right.es_len -= cut;
			right.es_pblk += es_is_mapped(&right) ? cut : 0;
			add_node(ia, &right);
			return RB_NEXT(es_tree, &ia->ia_es_tree, node);
		}
		node = next;
	}
	while (node != NULL && node->es.es_lblk < end) {
		if (es_end(&node->es) > end) {
			trim_front(ia, node, end);
			break;
		}
		next = RB_NEXT(es_tree, &ia->ia_es_tree, node);
		del_node(ia, node);
		node = next;
	}
	return node;
}

/* Put a run into a gap; next is the run after the gap. Uses up to one spare node. */
static void put_in_gap(struct ext4_inode_alloc *ia, const struct extent_status *es,
		       struct es_node *next)
{
	struct es_node *prev = next != NULL ? RB_PREV(es_tree, &ia->ia_es_tree, next)
					    : RB_MAX(es_tree, &ia->ia_es_tree);
	bool merge_next = next != NULL && es_can_merge(es, &next->es);

	if (prev != NULL && es_can_merge(&prev->es, es)) {
		ext4_lblk_t more = es->es_len;

		if (merge_next) {
			more += next->es.es_len;
			del_node(ia, next);
		}
		account(ia, es->es_state, more);
		prev->es.es_len += more;
		ia->ia_es_cache = prev;
	} else if (merge_next) {
		account(ia, es->es_state, es->es_len);
		next->es.es_lblk = es->es_lblk;
		next->es.es_len += es->es_len;
		next->es.es_pblk = es->es_pblk;
		ia->ia_es_cache = next;
	} else {
		add_node(ia, es);
	}
}

static void check_locked(struct ext4_inode_alloc *ia)
{
	struct es_node *node, *prev = NULL;
	uint32_t nr = 0, nr_delayed = 0, delayed = 0, clean = 0;

	RB_FOREACH (node, es_tree, &ia->ia_es_tree) {
		const struct extent_status *es = &node->es;

		ASSERT_CMP(es->es_len, >, 0u);
		ASSERT_CMP(es_end(es), <=, (uint64_t)EXT4_MAX_BLOCKS);
		ASSERT(es->es_state == ES_WRITTEN || es->es_state == ES_UNWRITTEN ||
		       es->es_state == ES_DELAYED || es->es_state == ES_HOLE);
		if (prev != NULL) {
			ASSERT_CMP(es_end(&prev->es), <=, (uint64_t)es->es_lblk);
			ASSERT(!es_can_merge(&prev->es, es));
		}
		nr++;
		nr_delayed += es->es_state == ES_DELAYED;
		delayed += es->es_state == ES_DELAYED ? es->es_len : 0;
		prev = node;
	}
	ASSERT_CMP(nr, ==, ia->ia_es_nr);
	ASSERT_CMP(nr_delayed, ==, ia->ia_es_nr_delayed);
	TAILQ_FOREACH (node, &ia->ia_es_clean, es_clean) {
		ASSERT(node->es.es_state != ES_DELAYED);
		clean++;
	}
	ASSERT_CMP(clean + nr_delayed, ==, nr);
	ASSERT_CMP(delayed, ==, ia->ia_es_delayed_blocks);
	ASSERT(nr == nr_delayed || ia->ia_linked);
}

/* After a change: check (debug builds), and give spare nodes back that no reservation holds. */
static void changed(struct ext4_inode_alloc *ia)
{
#ifdef EXT4D_DEBUG
	bool check = true;
#else
	bool check = false;
#endif
	if (check &&
	    (ia->ia_es_nr <= ES_CHECK_ALWAYS || ++ia->ia_es_mutations % ES_CHECK_EVERY == 0))
		check_locked(ia);
	if (ia->ia_es_ops > 0)
		ia->ia_es_ops--;
	spares_trim(ia, 2 * ia->ia_es_ops + ES_SPARES_KEPT);
}

static int insert_locked(struct ext4_inode_alloc *ia, const struct extent_status *es)
{
	struct es_node *next;
	int err = spares_fill(ia, nodes_needed(ia, es->es_lblk, es_end(es)));

	if (err < 0)
		return err;
	next = remove_locked(ia, es->es_lblk, es_end(es));
	put_in_gap(ia, es, next);
	return 0;
}

/* ---- Shrinker ---- */

/* Drop up to n runs of one inode. i_es_lock and the shrinker's lock are held. */
static unsigned shrink_inode(struct ext4_inode_alloc *ia, unsigned n)
{
	unsigned done = 0;

	while (done < n && !TAILQ_EMPTY(&ia->ia_es_clean)) {
		del_node(ia, TAILQ_FIRST(&ia->ia_es_clean));
		done++;
	}
	spares_trim(ia, 2 * ia->ia_es_ops);
	TAILQ_REMOVE(&shrinker.list, ia, ia_link);
	ia->ia_linked = ia->ia_es_nr > ia->ia_es_nr_delayed;
	if (ia->ia_linked)
		TAILQ_INSERT_TAIL(&shrinker.list, ia, ia_link);
	return done;
}

/* sb NULL: of any file system. */
static unsigned shrink(struct super_block *sb, unsigned n)
{
	struct ext4_inode_alloc *ia, *next, *last;
	unsigned done = 0;

	mutex_lock(&shrinker.lock);
	counter_inc(&shrinker.scans);
	last = TAILQ_LAST(&shrinker.list, es_shrink_list);
	for (ia = TAILQ_FIRST(&shrinker.list); ia != NULL && done < n; ia = next) {
		struct inode *inode = ia->ia_inode;

		next = ia == last ? NULL : TAILQ_NEXT(ia, ia_link);
		if (sb != NULL && inode->i_sb != sb)
			continue;
		if (!down_write_trylock(&inode->i_data_sem))
			continue;
		if (mutex_trylock(&ia->i_es_lock)) {
			done += shrink_inode(ia, n - done);
			mutex_unlock(&ia->i_es_lock);
		}
		up_write(&inode->i_data_sem);
	}
	mutex_unlock(&shrinker.lock);
	counter_add(&shrinker.shrunk, done);
	return done;
}

static void shrink_if_over_limit(void)
{
	if (atomic_load_explicit(&shrinker.nr_clean, memory_order_relaxed) > ES_MAX_CLEAN_NODES)
		shrink(NULL, ES_SHRINK_BATCH);
}

unsigned ext4_es_shrink(struct super_block *sb, unsigned n)
{
	return shrink(sb, n);
}

void ext4_es_print_shrinker(struct super_block *sb, FILE *out)
{
	uint64_t scans = counter_read(&shrinker.scans);
	struct ext4_inode_alloc *ia;
	uint64_t inodes = 0;

	mutex_lock(&shrinker.lock);
	TAILQ_FOREACH (ia, &shrinker.list, ia_link)
		inodes += ia->ia_inode->i_sb == sb;
	mutex_unlock(&shrinker.lock);
	fprintf(out, "stats:\n  %" PRIu64 " reclaimable objects\n",
		atomic_load_explicit(&shrinker.nr_clean, memory_order_relaxed));
	fprintf(out, "  %" PRIu64 "/%" PRIu64 " cache hits/misses\n", counter_read(&shrinker.hits),
		counter_read(&shrinker.misses));
	fprintf(out, "  %" PRIu64 " inodes on list\n", inodes);
	fprintf(out, "average:\n  %" PRIu64 " shrunk objects\n",
		scans > 0 ? counter_read(&shrinker.shrunk) / scans : 0);
	fprintf(out, "all:\n  %" PRIu64 " scans\n  %" PRIu64 " shrunk objects\n", scans,
		counter_read(&shrinker.shrunk));
}

/* ---- Life ---- */

void ext4_es_init(struct inode *inode)
{
	struct ext4_inode_alloc *ia = inode->i_alloc;

	ia->ia_inode = inode;
	mutex_init(&ia->i_es_lock, LOCK_RANK_ES);
	RB_INIT(&ia->ia_es_tree);
	TAILQ_INIT(&ia->ia_es_clean);
	ia->ia_es_cache = NULL;
	ia->ia_es_spares = NULL;
	ia->ia_es_nr_spares = 0;
	ia->ia_es_ops = 0;
	ia->ia_es_nr = 0;
	ia->ia_es_nr_delayed = 0;
	ia->ia_es_delayed_blocks = 0;
	ia->ia_es_mutations = 0;
	ia->ia_linked = false;
	ia->ia_ext_mutations = 0;
	atomic_init(&ia->ia_root_checked, false);
}

void ext4_es_destroy(struct inode *inode)
{
	struct ext4_inode_alloc *ia = inode->i_alloc;

	ASSERT_CMP(ia->ia_es_nr_delayed, ==, 0u);
	mutex_lock(&ia->i_es_lock);
	mutex_lock(&shrinker.lock);
	if (ia->ia_linked)
		TAILQ_REMOVE(&shrinker.list, ia, ia_link);
	ia->ia_linked = false;
	mutex_unlock(&shrinker.lock);
	while (!RB_EMPTY(&ia->ia_es_tree))
		del_node(ia, RB_ROOT(&ia->ia_es_tree));
	spares_trim(ia, 0);
	mutex_unlock(&ia->i_es_lock);
	mutex_destroy(&ia->i_es_lock);
}

/* ---- Changes ---- */

int ext4_es_reserve(struct inode *inode, unsigned n)
{
	struct ext4_inode_alloc *ia = inode->i_alloc;
	int err;

	mutex_lock(&ia->i_es_lock);
	err = spares_fill(ia, 2 * n);
	if (err == 0)
		ia->ia_es_ops = n;
	mutex_unlock(&ia->i_es_lock);
	return err;
}

int ext4_es_insert(struct inode *inode, ext4_lblk_t lblk, ext4_lblk_t len, ext4_fsblk_t pblk,
		   unsigned state)
{
	struct ext4_inode_alloc *ia = inode->i_alloc;
	struct extent_status es = {lblk, len, pblk, state};
	int err;

	ASSERT_CMP(len, >, 0u);
	ASSERT_CMP(es_end(&es), <=, (uint64_t)EXT4_MAX_BLOCKS);
	if (!es_is_mapped(&es))
		es.es_pblk = 0;
	mutex_lock(&ia->i_es_lock);
	err = insert_locked(ia, &es);
	changed(ia);
	mutex_unlock(&ia->i_es_lock);
	shrink_if_over_limit();
	return err;
}

int ext4_es_insert_delayed(struct inode *inode, ext4_lblk_t lblk, ext4_lblk_t len)
{
	return ext4_es_insert(inode, lblk, len, 0, ES_DELAYED);
}

int ext4_es_remove(struct inode *inode, ext4_lblk_t lblk, ext4_lblk_t len)
{
	struct ext4_inode_alloc *ia = inode->i_alloc;
	uint64_t end = (uint64_t)lblk + len;
	int err;

	ASSERT_CMP(len, >, 0u);
	mutex_lock(&ia->i_es_lock);
	err = spares_fill(ia, nodes_needed(ia, lblk, end));
	if (err == 0)
		remove_locked(ia, lblk, end);
	changed(ia);
	mutex_unlock(&ia->i_es_lock);
	return err;
}

/* Cut es to the part around lblk of which nothing is known. False: lblk itself is known. *next: the run after it. */
static bool clip_to_unknown(struct ext4_inode_alloc *ia, ext4_lblk_t lblk, struct extent_status *es,
			    struct es_node **next)
{
	struct es_node *prev;
	uint64_t start = es->es_lblk, end = es_end(es);

	*next = search(ia, lblk);
	if (*next != NULL && es_contains(&(*next)->es, lblk))
		return false;
	prev = *next != NULL ? RB_PREV(es_tree, &ia->ia_es_tree, *next)
			     : RB_MAX(es_tree, &ia->ia_es_tree);
	if (*next != NULL && (*next)->es.es_lblk < end)
		end = (*next)->es.es_lblk;
	if (prev != NULL && es_end(&prev->es) > start)
		start = es_end(&prev->es);
	if (es_is_mapped(es))
		es->es_pblk += start - es->es_lblk;
	es->es_lblk = (ext4_lblk_t)start;
	es->es_len = (ext4_lblk_t)(end - start);
	return true;
}

void ext4_es_cache(struct inode *inode, ext4_lblk_t around, const struct extent_status *run)
{
	struct ext4_inode_alloc *ia = inode->i_alloc;
	struct extent_status es = *run;
	struct es_node *next;

	ASSERT(es_contains(run, around));
	mutex_lock(&ia->i_es_lock);
	if (spares_fill(ia, 2 * ia->ia_es_ops + 1) == 0 && clip_to_unknown(ia, around, &es, &next))
		put_in_gap(ia, &es, next);
	mutex_unlock(&ia->i_es_lock);
	shrink_if_over_limit();
}

/* ---- Questions ---- */

bool ext4_es_lookup(struct inode *inode, ext4_lblk_t lblk, struct extent_status *es)
{
	struct ext4_inode_alloc *ia = inode->i_alloc;
	struct es_node *node;
	bool found;

	mutex_lock(&ia->i_es_lock);
	node = search(ia, lblk);
	found = node != NULL && es_contains(&node->es, lblk);
	if (found) {
		*es = node->es;
		ia->ia_es_cache = node;
	}
	mutex_unlock(&ia->i_es_lock);
	counter_inc(found ? &shrinker.hits : &shrinker.misses);
	return found;
}

bool ext4_es_find_delayed(struct inode *inode, ext4_lblk_t lblk, ext4_lblk_t end,
			  struct extent_status *es)
{
	struct ext4_inode_alloc *ia = inode->i_alloc;
	struct es_node *node = NULL;

	mutex_lock(&ia->i_es_lock);
	if (ia->ia_es_nr_delayed > 0)
		node = search(ia, lblk);
	while (node != NULL && node->es.es_state != ES_DELAYED && node->es.es_lblk <= end)
		node = RB_NEXT(es_tree, &ia->ia_es_tree, node);
	if (node != NULL && node->es.es_lblk > end)
		node = NULL;
	if (node != NULL) {
		uint64_t run_end = es_end(&node->es);

		*es = node->es;
		if (es->es_lblk < lblk)
			es->es_lblk = lblk;
		if (run_end > (uint64_t)end + 1)
			run_end = (uint64_t)end + 1;
		es->es_len = (ext4_lblk_t)(run_end - es->es_lblk);
	}
	mutex_unlock(&ia->i_es_lock);
	return node != NULL;
}

bool ext4_es_has_delayed(struct inode *inode, ext4_lblk_t lblk, ext4_lblk_t end)
{
	struct extent_status es;

	return ext4_es_find_delayed(inode, lblk, end, &es);
}

ext4_lblk_t ext4_es_delayed_blocks(struct inode *inode, ext4_lblk_t lblk, ext4_lblk_t len)
{
	struct ext4_inode_alloc *ia = inode->i_alloc;
	uint64_t end = (uint64_t)lblk + len, count = 0;
	struct es_node *node = NULL;

	mutex_lock(&ia->i_es_lock);
	if (ia->ia_es_nr_delayed > 0)
		node = search(ia, lblk);
	for (; node != NULL && node->es.es_lblk < end;
	     node = RB_NEXT(es_tree, &ia->ia_es_tree, node)) {
		uint64_t a = node->es.es_lblk > lblk ? node->es.es_lblk : lblk;
		uint64_t b = es_end(&node->es) < end ? es_end(&node->es) : end;

		if (node->es.es_state == ES_DELAYED)
			count += b - a;
	}
	mutex_unlock(&ia->i_es_lock);
	return (ext4_lblk_t)count;
}

int ext4_es_count_unclaimed(struct inode *inode, ext4_lblk_t lblk, ext4_lblk_t len,
			    ext4_lblk_t *count)
{
	struct ext4_map_blocks map;
	ext4_lblk_t done = 0;

	*count = 0;
	while (done < len) {
		int ret;

		map.m_lblk = lblk + done;
		map.m_len = len - done;
		ret = ext4_map_lookup_locked(inode, &map);
		if (ret < 0)
			return ret;
		ASSERT_CMP(map.m_len, >, 0u);
		if (ret == 0 && (map.m_flags & EXT4_MAP_DELAYED) == 0)
			*count += map.m_len;
		done += map.m_len;
	}
	return 0;
}

/* Number of hole pieces in [lblk, end); -ENOMEM if something of it is unknown: it could not be kept. */
static int count_holes(struct ext4_inode_alloc *ia, ext4_lblk_t lblk, uint64_t end)
{
	struct es_node *node = search(ia, lblk);
	uint64_t pos = lblk;
	int holes = 0;

	for (; pos < end; node = RB_NEXT(es_tree, &ia->ia_es_tree, node)) {
		if (node == NULL || node->es.es_lblk > pos)
			return -ENOMEM;
		holes += node->es.es_state == ES_HOLE;
		pos = es_end(&node->es);
	}
	return holes;
}

int ext4_es_delay_holes(struct inode *inode, ext4_lblk_t lblk, ext4_lblk_t len)
{
	struct ext4_inode_alloc *ia = inode->i_alloc;
	uint64_t end = (uint64_t)lblk + len, pos = lblk;
	int err;

	mutex_lock(&ia->i_es_lock);
	err = count_holes(ia, lblk, end);
	if (err > 0)
		err = spares_fill(ia, 2 * (uint32_t)err);
	while (err == 0 && pos < end) {
		struct es_node *node = search(ia, (ext4_lblk_t)pos);
		uint64_t run_end = es_end(&node->es) < end ? es_end(&node->es) : end;
		struct extent_status es = {(ext4_lblk_t)pos, (ext4_lblk_t)(run_end - pos), 0,
					   ES_DELAYED};

		if (node->es.es_state == ES_HOLE)
			err = insert_locked(ia, &es);
		pos = run_end;
	}
	changed(ia);
	mutex_unlock(&ia->i_es_lock);
	return err;
}

/* ---- Debugging ---- */

void ext4_es_check(struct inode *inode)
{
	struct ext4_inode_alloc *ia = inode->i_alloc;

	mutex_lock(&ia->i_es_lock);
	check_locked(ia);
	mutex_unlock(&ia->i_es_lock);
}

static const char *state_name(unsigned state)
{
	switch (state) {
	case ES_WRITTEN:
		return "written";
	case ES_UNWRITTEN:
		return "unwritten";
	case ES_DELAYED:
		return "delayed";
	default:
		return "hole";
	}
}

void ext4_es_print(struct inode *inode, FILE *out)
{
	struct ext4_inode_alloc *ia = inode->i_alloc;
	struct es_node *node;

	mutex_lock(&ia->i_es_lock);
	fprintf(out, "es of inode %" PRIu32 ": %" PRIu32 " runs, %" PRIu32 " delayed blocks\n",
		inode->i_ino, ia->ia_es_nr, ia->ia_es_delayed_blocks);
	RB_FOREACH (node, es_tree, &ia->ia_es_tree)
		fprintf(out, "  [%" PRIu32 " +%" PRIu32 ") %s %" PRIu64 "\n", node->es.es_lblk,
			node->es.es_len, state_name(node->es.es_state), node->es.es_pblk);
	mutex_unlock(&ia->i_es_lock);
}
