/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef FUSE_NODE_H
#define FUSE_NODE_H
/*
 * What a nodeid means. A nodeid is the address of a struct node, which lives as long as the kernel holds
 * a look-up count on it and has a reference on the inode meanwhile; 1 is the root. The pair (nodeid,
 * generation) is never used twice in the life of a mount.
 */

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "ext4/ext4.h"

struct control_file;

struct node {
	uint64_t n_id;			  /* [const] what the kernel calls it */
	uint64_t n_generation;		  /* [const] */
	struct inode *n_inode;		  /* [const] NULL for control files */
	const struct control_file *n_ctl; /* [const] */
	_Atomic uint64_t n_cached_reads;  /* node_note_read() */
	_Atomic unsigned n_held;	  /* answers that wait for a notification */
	uint64_t n_nlookup;		  /* [shard lock] */
	struct node *n_next;		  /* [shard lock] */
};

#define NODE_SHARDS 64u

struct node_shard {
	pthread_mutex_t ns_lock; /* leaf */
	struct node **ns_bucket; /* [ns_lock] */
	uint32_t ns_mask;	 /* [ns_lock] buckets - 1 */
	uint32_t ns_nr;		 /* [ns_lock] */
};

struct node_table {
	struct node_shard nt_shard[NODE_SHARDS];
	struct node *nt_root; /* [const after init] */
	_Atomic uint64_t nt_generation;
};

#define NODE_ROOT_ID 1u

/* Takes over the caller's reference on root. 0 or -ENOMEM. */
int node_table_init(struct node_table *nt, struct inode *root);
/* The connection is gone: every count is forgotten, every inode put; the table is freed. */
void node_table_destroy(struct node_table *nt);
/* One look-up more of inode. Takes over the caller's reference in every case. NULL: out of memory. */
struct node *node_get(struct node_table *nt, struct inode *inode);
/* nr look-ups fewer; at 0 the node is freed and the inode put. */
void node_forget(struct node_table *nt, uint64_t id, uint64_t nr);
/* The nodeid under which the kernel knows inode, 0: it does not. No count is taken. */
uint64_t node_id_of(struct node_table *nt, struct inode *inode);
uint64_t node_count(struct node_table *nt);
/* The kernel reads this range (len > 0) into its page cache: before the data is looked at. */
void node_note_read(struct node *n, uint64_t pos, uint64_t len);
/*
 * Data of this range (len > 0) has changed. True: some of it may have been read since the last such call; *first and
 * *last are the pages around everything that was, and are forgotten.
 */
bool node_take_reads(struct node *n, uint64_t pos, uint64_t len, uint64_t *first, uint64_t *last);

static inline struct node *node_of(struct node_table *nt, uint64_t id)
{
	return id == NODE_ROOT_ID ? nt->nt_root : (struct node *)(uintptr_t)id;
}

#endif
