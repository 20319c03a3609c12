/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * node.c - what the kernel knows: nodeids and look-up counts.
 *
 * While the kernel holds a count on a node, the node holds one reference on its inode, so
 * that a deleted inode is not evicted and its number not reused before the last FORGET. A FORGET
 * names the node's address, not an inode number: a late one can never touch the inode that has the
 * number now. Nodes are found again by inode through a hash table in shards; tables grow
 * shard by shard, so no request waits for a big rehash.
 *
 * Reads into the kernel's cache are remembered as one range of pages around all of them: n_cached_reads is the first
 * one << 32 | the last one, and the first is greater than the last where there are none.
 *
 * Invariants: (1) a node is in the table exactly while n_nlookup > 0; the root always is. (2) at most one
 * node exists for an inode. (3) no generation is given out twice.
 * Locking: ns_lock of the shard, a leaf; an inode is put after it is dropped.
 */
#include "fuse/node.h"

#include <errno.h>
#include <stdlib.h>

#include "ext4/inode.h"
#include "util/assert.h"
#include "util/log.h"

#define FIRST_BUCKETS 64u
#define NO_READS (UINT64_C(1) << 32)

static uint32_t hash_ino(uint32_t ino)
{
	return ino * UINT32_C(0x9e3779b1);
}

static struct node_shard *shard_of(struct node_table *nt, uint32_t ino)
{
	return &nt->nt_shard[hash_ino(ino) >> 26];
}

static struct node **bucket_of(const struct node_shard *ns, uint32_t ino)
{
	return &ns->ns_bucket[(hash_ino(ino) >> 4) & ns->ns_mask];
}

static struct node *find_locked(struct node_shard *ns, const struct inode *inode)
{
	struct node *n = *bucket_of(ns, inode->i_ino);

	while (n != NULL && n->n_inode != inode)
		n = n->n_next;
	return n;
}

/* Twice the buckets; without memory the chains just get longer. */
static void grow_locked(struct node_shard *ns)
{
	uint32_t old_nr = ns->ns_mask + 1;
	struct node **old = ns->ns_bucket;
	struct node **bucket = calloc((size_t)old_nr * 2, sizeof(struct node *));

	if (bucket == NULL)
		return;
	ns->ns_bucket = bucket;
	ns->ns_mask = old_nr * 2 - 1;
	for (uint32_t i = 0; i < old_nr; i++) {
		while (old[i] != NULL) {
			struct node *n = old[i];
			struct node **to = bucket_of(ns, n->n_inode->i_ino);

			old[i] = n->n_next;
			n->n_next = *to;
			*to = n;
		}
	}
	free(old);
}

static void insert_locked(struct node_shard *ns, struct node *n)
{
	struct node **to;

	if (ns->ns_nr > ns->ns_mask)
		grow_locked(ns);
	to = bucket_of(ns, n->n_inode->i_ino);
	n->n_next = *to;
	*to = n;
	ns->ns_nr++;
}

static void remove_locked(struct node_shard *ns, struct node *n)
{
	struct node **at = bucket_of(ns, n->n_inode->i_ino);

	while (*at != n)
		at = &(*at)->n_next;
	*at = n->n_next;
	ns->ns_nr--;
}

static struct node *node_new(struct node_table *nt, struct inode *inode)
{
	struct node *n = calloc(1, sizeof(*n));

	if (n == NULL)
		return NULL;
	n->n_id = (uintptr_t)n;
	n->n_inode = inode;
	n->n_cached_reads = NO_READS;
	n->n_generation = atomic_fetch_add(&nt->nt_generation, 1);
	n->n_nlookup = 1;
	return n;
}

struct node *node_get(struct node_table *nt, struct inode *inode)
{
	struct node_shard *ns = shard_of(nt, inode->i_ino);
	struct node *n;
	bool found;

	pthread_mutex_lock(&ns->ns_lock);
	n = find_locked(ns, inode);
	found = n != NULL;
	if (found) {
		n->n_nlookup++;
	} else {
		n = node_new(nt, inode);
		if (n != NULL)
			insert_locked(ns, n);
	}
	pthread_mutex_unlock(&ns->ns_lock);
	if (found || n == NULL)
		iput(inode);
	return n;
}

void node_forget(struct node_table *nt, uint64_t id, uint64_t nr)
{
	struct node *n = node_of(nt, id);
	struct node_shard *ns;
	bool last;

	if (n == nt->nt_root || n->n_ctl != NULL)
		return;
	ns = shard_of(nt, n->n_inode->i_ino);
	pthread_mutex_lock(&ns->ns_lock);
	ASSERT_CMP(n->n_nlookup, >=, nr);
	n->n_nlookup -= nr;
	last = n->n_nlookup == 0;
	if (last)
		remove_locked(ns, n);
	pthread_mutex_unlock(&ns->ns_lock);
	if (!last)
		return;
	iput(n->n_inode);
	free(n);
}

uint64_t node_id_of(struct node_table *nt, struct inode *inode)
{
	struct node_shard *ns = shard_of(nt, inode->i_ino);
	struct node *n;
	uint64_t id;

	pthread_mutex_lock(&ns->ns_lock);
	n = find_locked(ns, inode);
	id = n != NULL ? n->n_id : 0;
	pthread_mutex_unlock(&ns->ns_lock);
	return id;
}

uint64_t node_count(struct node_table *nt)
{
	uint64_t nr = 0;

	for (unsigned i = 0; i < NODE_SHARDS; i++) {
		struct node_shard *ns = &nt->nt_shard[i];

		pthread_mutex_lock(&ns->ns_lock);
		nr += ns->ns_nr;
		pthread_mutex_unlock(&ns->ns_lock);
	}
	return nr;
}

static uint32_t page_of(uint64_t pos)
{
	uint64_t page = pos / EXT4_FRAME_SIZE;

	return page < UINT32_MAX ? (uint32_t)page : UINT32_MAX;
}

void node_note_read(struct node *n, uint64_t pos, uint64_t len)
{
	uint32_t first = page_of(pos), last = page_of(pos + len - 1);
	uint64_t old = atomic_load(&n->n_cached_reads), now;

	do {
		uint32_t a = (uint32_t)(old >> 32), b = (uint32_t)old;

		if (a <= b) {
			first = a < first ? a : first;
			last = b > last ? b : last;
		}
		now = (uint64_t)first << 32 | last;
		if (now == old)
			return;
	} while (!atomic_compare_exchange_weak(&n->n_cached_reads, &old, now));
}

bool node_take_reads(struct node *n, uint64_t pos, uint64_t len, uint64_t *first, uint64_t *last)
{
	uint64_t old = atomic_load(&n->n_cached_reads);

	do {
		*first = old >> 32;
		*last = (uint32_t)old;
		if (*first > *last || page_of(pos) > *last || page_of(pos + len - 1) < *first)
			return false;
	} while (!atomic_compare_exchange_weak(&n->n_cached_reads, &old, NO_READS));
	return true;
}

int node_table_init(struct node_table *nt, struct inode *root)
{
	bool complete = true;

	nt->nt_generation = 1;
	nt->nt_root = NULL;
	for (unsigned i = 0; i < NODE_SHARDS; i++) {
		struct node_shard *ns = &nt->nt_shard[i];

		pthread_mutex_init(&ns->ns_lock, NULL);
		ns->ns_mask = FIRST_BUCKETS - 1;
		ns->ns_nr = 0;
		ns->ns_bucket = calloc(FIRST_BUCKETS, sizeof(struct node *));
		complete = complete && ns->ns_bucket != NULL;
	}
	if (complete)
		nt->nt_root = node_get(nt, root);
	else
		iput(root);
	if (nt->nt_root == NULL) {
		for (unsigned i = 0; i < NODE_SHARDS; i++)
			free(nt->nt_shard[i].ns_bucket);
		return -ENOMEM;
	}
	nt->nt_root->n_id = NODE_ROOT_ID;
	return 0;
}

static void shard_destroy(struct node_shard *ns)
{
	for (uint32_t i = 0; i <= ns->ns_mask; i++) {
		while (ns->ns_bucket[i] != NULL) {
			struct node *n = ns->ns_bucket[i];

			ns->ns_bucket[i] = n->n_next;
			iput(n->n_inode);
			free(n);
		}
	}
	free(ns->ns_bucket);
	pthread_mutex_destroy(&ns->ns_lock);
}

void node_table_destroy(struct node_table *nt)
{
	nt->nt_root = NULL;
	for (unsigned i = 0; i < NODE_SHARDS; i++)
		shard_destroy(&nt->nt_shard[i]);
}
