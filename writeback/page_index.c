/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * page_index.c - the pages of one file: a radix tree with tags.
 *
 * Nodes have 64 slots, and a word for the slots in use and for each tag: a slot's bit is set in a node when any page below it has the
 * tag. A search for the next tagged page is a mask and a count of trailing zeros on each level. A file whose only page has index 0 needs no node.
 *
 * Invariants: (1) a node has at least one slot in use, or it does not exist (the root while the tree is empty). (2) A tag's bit of a slot is set
 * iff the child has the tag anywhere; tag words are subsets of the presence word. (3) pi_height is the least that holds the highest index ever
 * inserted since the tree was empty.
 * Locking: as_lock of the mapping, held by the caller.
 */
#include "writeback/page_index.h"

#include <stdlib.h>
#include <string.h>

#include "util/assert.h"
#include "util/err.h"

#define NODE_BITS 6u
#define NODE_SLOTS 64u
#define HEIGHT_MAX 6u /* 36 bits hold every 32-bit index */

struct node {
	uint64_t n_bits[PAGE_TAGS + 1]; /* the tags, then presence */
	void *n_slot[NODE_SLOTS];
};

struct path {
	unsigned p_height;
	struct node *p_node[HEIGHT_MAX]; /* [0] the leaf */
	unsigned p_off[HEIGHT_MAX];
};

static unsigned slot_at(uint64_t index, unsigned level)
{
	return (unsigned)(index >> (level * NODE_BITS)) & (NODE_SLOTS - 1);
}

static bool fits(unsigned height, uint32_t index)
{
	return height * NODE_BITS >= 32 || (uint64_t)index >> (height * NODE_BITS) == 0;
}

static unsigned node_tags(const struct node *n)
{
	unsigned tags = 0;

	for (unsigned t = 0; t < PAGE_TAGS; t++)
		if (n->n_bits[t] != 0)
			tags |= TAG_BIT(t);
	return tags;
}

/* Walk to the leaf of index; false if it does not exist. */
static bool descend(const struct page_index *pi, uint32_t index, struct path *path)
{
	struct node *n = pi->pi_root;

	path->p_height = pi->pi_height;
	if (n == NULL || !fits(pi->pi_height, index))
		return false;
	for (unsigned level = pi->pi_height; level > 0; level--) {
		unsigned off = slot_at(index, level - 1);

		if (n == NULL)
			return false;
		path->p_node[level - 1] = n;
		path->p_off[level - 1] = off;
		n = n->n_slot[off];
	}
	return n != NULL;
}

/* ---- Insertion ---- */

/* One more level on top. */
static int grow(struct page_index *pi)
{
	struct node *n;

	if (pi->pi_root == NULL) {
		pi->pi_height++;
		return 0;
	}
	n = calloc(1, sizeof(*n));
	if (n == NULL)
		return -ENOMEM;
	n->n_slot[0] = pi->pi_root;
	n->n_bits[PAGE_TAG_ANY] = 1;
	for (unsigned t = 0; t < PAGE_TAGS; t++) {
		bool tagged = page_index_tagged(pi, (enum page_tag)t);

		n->n_bits[t] = tagged ? 1 : 0;
	}
	pi->pi_root = n;
	pi->pi_root_tags = 0;
	pi->pi_height++;
	return 0;
}

/* Nodes that an insertion made before it failed. */
static void drop_empty_path(struct page_index *pi, struct path *path, unsigned level)
{
	for (; level < path->p_height; level++) {
		struct node *n = path->p_node[level];

		if (n->n_bits[PAGE_TAG_ANY] != 0)
			return;
		free(n);
		if (level + 1 == path->p_height)
			pi->pi_root = NULL;
		else
			path->p_node[level + 1]->n_slot[path->p_off[level + 1]] = NULL;
	}
}

int page_index_insert(struct page_index *pi, uint32_t index, struct page *page)
{
	struct path path = {.p_height = 0};
	void **slot = &pi->pi_root;

	while (!fits(pi->pi_height, index)) {
		int err = grow(pi);

		if (err != 0)
			return err;
	}
	path.p_height = pi->pi_height;
	for (unsigned level = pi->pi_height; level > 0; level--) {
		if (*slot == NULL)
			*slot = calloc(1, sizeof(struct node));
		if (*slot == NULL) {
			drop_empty_path(pi, &path, level);
			return -ENOMEM;
		}
		path.p_node[level - 1] = *slot;
		path.p_off[level - 1] = slot_at(index, level - 1);
		slot = &path.p_node[level - 1]->n_slot[path.p_off[level - 1]];
	}
	if (*slot != NULL)
		return -EEXIST;
	*slot = page;
	for (unsigned level = 0; level < path.p_height; level++)
		path.p_node[level]->n_bits[PAGE_TAG_ANY] |= UINT64_C(1) << path.p_off[level];
	return 0;
}

struct page *page_index_lookup(const struct page_index *pi, uint32_t index)
{
	void *n = pi->pi_root;

	if (!fits(pi->pi_height, index))
		return NULL;
	for (unsigned level = pi->pi_height; level > 0 && n != NULL; level--)
		n = ((struct node *)n)->n_slot[slot_at(index, level - 1)];
	return n;
}

/* ---- Tags ---- */

static void set_tag(struct path *path, unsigned tag)
{
	for (unsigned level = 0; level < path->p_height; level++) {
		uint64_t bit = UINT64_C(1) << path->p_off[level];

		if (path->p_node[level]->n_bits[tag] & bit)
			return;
		path->p_node[level]->n_bits[tag] |= bit;
	}
}

static void clear_tag(struct path *path, unsigned tag)
{
	for (unsigned level = 0; level < path->p_height; level++) {
		struct node *n = path->p_node[level];

		n->n_bits[tag] &= ~(UINT64_C(1) << path->p_off[level]);
		if (n->n_bits[tag] != 0)
			return;
	}
}

void page_index_retag(struct page_index *pi, uint32_t index, unsigned set, unsigned clear)
{
	struct path path = {0};

	if (pi->pi_height == 0) {
		ASSERT(pi->pi_root != NULL);
		pi->pi_root_tags = (pi->pi_root_tags & ~clear) | set;
		return;
	}
	ASSERT(descend(pi, index, &path));
	for (unsigned t = 0; t < PAGE_TAGS; t++) {
		if (clear & TAG_BIT(t))
			clear_tag(&path, t);
		if (set & TAG_BIT(t))
			set_tag(&path, t);
	}
}

bool page_index_test(const struct page_index *pi, uint32_t index, enum page_tag tag)
{
	struct path path = {0};

	if (!descend(pi, index, &path))
		return false;
	if (pi->pi_height == 0)
		return (pi->pi_root_tags & TAG_BIT(tag)) != 0;
	return (path.p_node[0]->n_bits[tag] >> path.p_off[0] & 1) != 0;
}

bool page_index_tagged(const struct page_index *pi, enum page_tag tag)
{
	if (pi->pi_root == NULL)
		return false;
	if (pi->pi_height == 0)
		return (pi->pi_root_tags & TAG_BIT(tag)) != 0;
	return ((const struct node *)pi->pi_root)->n_bits[tag] != 0;
}

/* ---- Removal ---- */

struct page *page_index_remove(struct page_index *pi, uint32_t index)
{
	struct path path = {0};
	struct page *page;

	if (!descend(pi, index, &path))
		return NULL;
	if (pi->pi_height == 0) {
		page = pi->pi_root;
		pi->pi_root = NULL;
		pi->pi_root_tags = 0;
		return page;
	}
	page = path.p_node[0]->n_slot[path.p_off[0]];
	path.p_node[0]->n_slot[path.p_off[0]] = NULL;
	for (unsigned t = 0; t <= PAGE_TAG_ANY; t++)
		clear_tag(&path, t);
	drop_empty_path(pi, &path, 0);
	if (pi->pi_root == NULL)
		pi->pi_height = 0;
	return page;
}

/* ---- Search ---- */

/*
 * The leaf that holds the first index >= *index with the tag, and *index moved there. Each turn either goes down or moves *index past a subtree; it
 * starts again from the root at most once for each level.
 */
static const struct node *next_leaf(const struct page_index *pi, uint64_t *index, unsigned tag)
{
	const struct node *n = pi->pi_root;
	unsigned level = pi->pi_height;

	while (n != NULL && *index >> (pi->pi_height * NODE_BITS) == 0) {
		unsigned off = slot_at(*index, level - 1);
		uint64_t bits = n->n_bits[tag] & (UINT64_MAX << off);
		unsigned shift = (level - 1) * NODE_BITS;

		if (bits == 0) {
			*index = ((*index >> (shift + NODE_BITS)) + 1) << (shift + NODE_BITS);
			n = pi->pi_root;
			level = pi->pi_height;
			continue;
		}
		if ((unsigned)__builtin_ctzll(bits) != off)
			*index = ((*index >> (shift + NODE_BITS)) << NODE_BITS |
				  (uint64_t)__builtin_ctzll(bits))
				 << shift;
		if (level == 1)
			return n;
		n = n->n_slot[slot_at(*index, level - 1)];
		level--;
	}
	return NULL;
}

static bool root_matches(const struct page_index *pi, unsigned tag)
{
	if (pi->pi_root == NULL)
		return false;
	return tag == PAGE_TAG_ANY || (pi->pi_root_tags & TAG_BIT(tag)) != 0;
}

unsigned page_index_gang(const struct page_index *pi, uint32_t start, uint32_t last,
			 enum page_tag tag, struct page **out, unsigned n)
{
	uint64_t index = start;
	unsigned got = 0;

	if (pi->pi_height == 0) {
		if (start > 0 || n == 0 || !root_matches(pi, tag))
			return 0;
		out[0] = pi->pi_root;
		return 1;
	}
	while (got < n && index <= last) {
		const struct node *leaf = next_leaf(pi, &index, tag);

		if (leaf == NULL)
			break;
		for (unsigned off = slot_at(index, 0); off < NODE_SLOTS; off++, index++) {
			if (index > last || got == n)
				return got;
			if (leaf->n_bits[tag] >> off & 1)
				out[got++] = leaf->n_slot[off];
		}
	}
	return got;
}

/* The bits of a leaf from the one of index to the one of last. */
static uint64_t leaf_mask(uint64_t index, uint32_t last)
{
	unsigned off = slot_at(index, 0);
	uint64_t mask = UINT64_MAX << off;
	uint64_t left = last - index;

	if (left < NODE_SLOTS - 1 - off)
		mask &= UINT64_MAX >> (NODE_SLOTS - 1 - off - left);
	return mask;
}

bool page_index_tag_towrite(struct page_index *pi, uint32_t start, uint32_t last, unsigned max,
			    uint32_t *next)
{
	uint64_t index = start;
	unsigned tagged = 0;

	if (pi->pi_height == 0) {
		if (start == 0 && root_matches(pi, PAGE_TAG_DIRTY))
			pi->pi_root_tags |= TAG_BIT(PAGE_TAG_TOWRITE);
		return false;
	}
	while (index <= last) {
		struct path path = {0};
		uint64_t bits;

		if (tagged >= max) {
			*next = (uint32_t)index;
			return true;
		}
		if (next_leaf(pi, &index, PAGE_TAG_DIRTY) == NULL || index > last)
			return false;
		ASSERT(descend(pi, (uint32_t)index, &path));
		bits = path.p_node[0]->n_bits[PAGE_TAG_DIRTY] & leaf_mask(index, last);
		set_tag(&path, PAGE_TAG_TOWRITE);
		path.p_node[0]->n_bits[PAGE_TAG_TOWRITE] |= bits;
		tagged += (unsigned)__builtin_popcountll(bits);
		index = (index | (NODE_SLOTS - 1)) + 1;
	}
	return false;
}

uint32_t page_index_dirty_run(const struct page_index *pi, uint32_t start, uint32_t max)
{
	uint64_t index = start;

	if (pi->pi_height == 0)
		return start == 0 && root_matches(pi, PAGE_TAG_DIRTY) && max > 0 ? 1 : 0;
	while (index - start < max) {
		uint64_t at = index;
		const struct node *leaf = next_leaf(pi, &at, PAGE_TAG_DIRTY);
		uint64_t clean;

		if (leaf == NULL || at != index)
			break;
		clean = ~leaf->n_bits[PAGE_TAG_DIRTY] & (UINT64_MAX << slot_at(index, 0));
		if (clean != 0) {
			index += (unsigned)__builtin_ctzll(clean) - slot_at(index, 0);
			break;
		}
		index = (index | (NODE_SLOTS - 1)) + 1;
	}
	return index - start < max ? (uint32_t)(index - start) : max;
}

/* ---- Check ---- */

static unsigned check_node(const struct node *n, unsigned level)
{
	unsigned nodes = 1;

	ASSERT(n->n_bits[PAGE_TAG_ANY] != 0);
	for (unsigned t = 0; t < PAGE_TAGS; t++)
		ASSERT_CMP(n->n_bits[t] & ~n->n_bits[PAGE_TAG_ANY], ==, 0u);
	for (unsigned off = 0; off < NODE_SLOTS; off++) {
		const struct node *child = n->n_slot[off];
		unsigned tags = 0;

		ASSERT_CMP(child != NULL, ==, (n->n_bits[PAGE_TAG_ANY] >> off & 1) != 0);
		if (child == NULL || level == 1)
			continue;
		nodes += check_node(child, level - 1);
		for (unsigned t = 0; t < PAGE_TAGS; t++)
			if (n->n_bits[t] >> off & 1)
				tags |= TAG_BIT(t);
		ASSERT_CMP(tags, ==, node_tags(child));
	}
	return nodes;
}

unsigned page_index_check(const struct page_index *pi)
{
	if (pi->pi_root == NULL || pi->pi_height == 0)
		return 0;
	ASSERT_CMP(pi->pi_height, <=, HEIGHT_MAX);
	return check_node(pi->pi_root, pi->pi_height);
}
