/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef FUSE_NODE_H
#define FUSE_NODE_H
/*
 * What a nodeid means: an inode number; 1 is the root, and numbers over 32 bits are those of .ext4d. With the generation
 * it is the handle of a file that name_to_handle_at(2) gives out and NFS keeps, and means the same file in every mount.
 */

#include <stdbool.h>
#include <stdint.h>

#include "ext4/ext4.h"
#include "util/hist.h"

#define NODE_ROOT_ID 1u
#define NODE_CONTROL_FIRST (UINT64_C(1) << 32)

struct node_table {
	struct super_block *nt_sb; /* [const after init] */
	struct inode *nt_root;	   /* [const after init] */
	_Atomic uint64_t nt_count; /* inodes that are looked up, the root not counted */
};

/* Takes over the caller's reference on root. */
void node_table_init(struct node_table *nt, struct inode *root);
/* The connection is gone: every count is forgotten, every inode put. */
void node_table_destroy(struct node_table *nt);
/* One look-up more of inode. Takes over the caller's reference. */
void node_get(struct node_table *nt, struct inode *inode);
/* nr look-ups fewer; at 0 the inode is put. Numbers that mean no file are ignored. */
void node_forget(struct node_table *nt, uint64_t id, uint64_t nr);
/* The inode, if the kernel has look-ups of it, else NULL. No reference is taken: the kernel forgets none that it asks about. */
struct inode *node_inode(const struct node_table *nt, uint64_t id);
/* The nodeid under which the kernel knows inode, 0: it does not. */
uint64_t node_id_of(const struct node_table *nt, const struct inode *inode);
/* How many inodes the kernel knows. */
uint64_t node_count(const struct node_table *nt);
/* The kernel reads this range (len > 0) into its page cache: before the data is looked at. */
void node_note_read(struct inode *inode, uint64_t pos, uint64_t len);
/*
 * Data of this range (len > 0) has changed. True: some of it may have been read since the last such call; *first and
 * *last are the pages around everything that was, and are forgotten.
 */
bool node_take_reads(struct inode *inode, uint64_t pos, uint64_t len, uint64_t *first,
		     uint64_t *last);

/* The number of the inode that has this nodeid; 0: none can. */
static inline uint32_t node_ino(uint64_t id)
{
	if (id == NODE_ROOT_ID)
		return EXT4_ROOT_INO;
	return id > EXT4_ROOT_INO && id <= UINT32_MAX ? (uint32_t)id : 0;
}

static inline uint64_t node_id(const struct inode *inode)
{
	return inode->i_ino == EXT4_ROOT_INO ? NODE_ROOT_ID : inode->i_ino;
}

/* The kernel knows the root without having looked it up, and with this generation: another one makes it drop the mount's root. */
static inline uint64_t node_generation(const struct inode *inode)
{
	return inode->i_ino == EXT4_ROOT_INO ? 0 : inode->i_handle_generation;
}

static inline bool node_is_control(uint64_t id)
{
	return id >= NODE_CONTROL_FIRST;
}

#endif
