/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * node.c - what the kernel knows: nodeids and look-up counts.
 *
 * The counts are in the inodes themselves, and inodes are found by number in their cache. While the kernel holds a count,
 * that owns one reference on the inode: a deleted inode is evicted, and its number given to another file, only after the
 * last FORGET. So two files never have the same nodeid at a time, whatever their generations are.
 *
 * The generation that the kernel is told stays the same as long as the inode is in memory, even if FS_IOC_SETVERSION changes
 * it: a nodeid with another generation makes the kernel give up the inode.
 *
 * Reads into the kernel's cache are remembered as one range of pages around all of them: i_cached_reads is, but for
 * NO_READS, the first one << 32 | the last one, and the first is greater than the last where there are none. What was
 * read before a FORGET may stay remembered: it costs a notification too many.
 *
 * Invariants: (1) i_nlookup > 0 owns exactly one reference: who raises it from 0 leaves his, who lowers it to 0 puts it.
 * (2) the root's is always 0; nt_root has its reference.
 * Locking: none but the inode cache's.
 */
#include "fuse/node.h"

#include "ext4/inode.h"
#include "util/assert.h"

#define NO_READS (UINT64_C(1) << 32)

void node_table_init(struct node_table *nt, struct inode *root)
{
	nt->nt_sb = root->i_sb;
	nt->nt_root = root;
	nt->nt_count = 0;
}

void node_table_destroy(struct node_table *nt)
{
	ext4_icache_forget_all(nt->nt_sb);
	iput(nt->nt_root);
	nt->nt_root = NULL;
}

void node_get(struct node_table *nt, struct inode *inode)
{
	if (inode == nt->nt_root || atomic_fetch_add(&inode->i_nlookup, 1) > 0)
		iput(inode);
	else
		atomic_fetch_add_explicit(&nt->nt_count, 1, memory_order_relaxed);
}

void node_forget(struct node_table *nt, uint64_t id, uint64_t nr)
{
	struct inode *inode = node_inode(nt, id);
	uint64_t old;

	if (inode == NULL || inode == nt->nt_root || nr == 0)
		return;
	old = atomic_fetch_sub(&inode->i_nlookup, nr);
	ASSERT_CMP(old, >=, nr);
	if (old > nr)
		return;
	atomic_fetch_sub_explicit(&nt->nt_count, 1, memory_order_relaxed);
	iput(inode);
}

struct inode *node_inode(const struct node_table *nt, uint64_t id)
{
	uint32_t ino = node_ino(id);

	if (ino == EXT4_ROOT_INO)
		return nt->nt_root;
	return ino != 0 ? ext4_inode_looked_up(nt->nt_sb, ino) : NULL;
}

uint64_t node_id_of(const struct node_table *nt, const struct inode *inode)
{
	struct inode *i = (struct inode *)(uintptr_t)inode;

	return inode == nt->nt_root || atomic_load(&i->i_nlookup) > 0 ? node_id(inode) : 0;
}

uint64_t node_count(const struct node_table *nt)
{
	return 1 + atomic_load_explicit(&nt->nt_count, memory_order_relaxed);
}

static uint32_t page_of(uint64_t pos)
{
	uint64_t page = pos / EXT4_FRAME_SIZE;

	return page < UINT32_MAX ? (uint32_t)page : UINT32_MAX;
}

void node_note_read(struct inode *inode, uint64_t pos, uint64_t len)
{
	uint32_t first = page_of(pos), last = page_of(pos + len - 1);
	uint64_t old = atomic_load(&inode->i_cached_reads), now;

	do {
		uint32_t a = (uint32_t)((old ^ NO_READS) >> 32), b = (uint32_t)old;

		if (a <= b) {
			first = a < first ? a : first;
			last = b > last ? b : last;
		}
		now = ((uint64_t)first << 32 | last) ^ NO_READS;
		if (now == old)
			return;
	} while (!atomic_compare_exchange_weak(&inode->i_cached_reads, &old, now));
}

bool node_take_reads(struct inode *inode, uint64_t pos, uint64_t len, uint64_t *first,
		     uint64_t *last)
{
	uint64_t old = atomic_load(&inode->i_cached_reads);

	do {
		*first = (old ^ NO_READS) >> 32;
		*last = (uint32_t)old;
		if (*first > *last || page_of(pos) > *last || page_of(pos + len - 1) < *first)
			return false;
	} while (!atomic_compare_exchange_weak(&inode->i_cached_reads, &old, 0));
	return true;
}
