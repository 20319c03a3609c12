/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef ALLOC_EXTENT_STATUS_H
#define ALLOC_EXTENT_STATUS_H
/*
 * The extent status tree as alloc/ changes it; readers of other layers use alloc/map.h.
 * Every block of a file is in at most one run: written, unwritten, delayed or hole. A block in no run is unknown: the
 * block map on disk must be asked. Delayed runs exist only here and are never dropped by the shrinker.
 * All calls take i_es_lock; those that change what the tree says hold i_data_sem for write, but for ext4_es_cache (read suffices).
 */

#include <bsd/sys/tree.h>
#include <stdio.h>
#include <sys/queue.h>

#include "alloc/map.h"

struct es_node {
	RB_ENTRY(es_node) es_rb; /* [i_es_lock] */
	struct extent_status es; /* [i_es_lock] */
	union {
		struct es_node *es_spare;      /* [i_es_lock] link while unused */
		TAILQ_ENTRY(es_node) es_clean; /* [i_es_lock] in ia_es_clean, unless delayed */
	};
};
TAILQ_HEAD(es_clean_list, es_node);
RB_HEAD(es_tree, es_node);

/* inode->i_alloc is set. es_init cannot fail; es_destroy frees everything (the inode has no delayed block left: ASSERT). */
void ext4_es_init(struct inode *inode);
void ext4_es_destroy(struct inode *inode);

/*
 * Room for n changes: after a return of 0 the next n calls of ext4_es_insert and ext4_es_remove cannot fail as long as i_data_sem is held. 0 or -ENOMEM.
 */
int ext4_es_reserve(struct inode *inode, unsigned n);
/* [lblk, lblk+len) has this state now, whatever it was. pblk counts for written and unwritten. 0 or -ENOMEM with nothing changed. */
int ext4_es_insert(struct inode *inode, ext4_lblk_t lblk, ext4_lblk_t len, ext4_fsblk_t pblk,
		   unsigned state);
/* The range was a hole or unknown and is delayed now. The counts of reserved blocks are the caller's. 0 or -ENOMEM. */
int ext4_es_insert_delayed(struct inode *inode, ext4_lblk_t lblk, ext4_lblk_t len);
/* Nothing is known of the range any more, delayed blocks included. 0 or -ENOMEM with nothing changed. */
int ext4_es_remove(struct inode *inode, ext4_lblk_t lblk, ext4_lblk_t len);
/*
 * What the disk says of a run: kept in the gap around the block `around` where nothing is known; never replaces anything.
 * Never fails (it may keep nothing). i_data_sem held.
 */
void ext4_es_cache(struct inode *inode, ext4_lblk_t around, const struct extent_status *run);
/* Delayed blocks in [lblk, lblk+len). */
ext4_lblk_t ext4_es_delayed_blocks(struct inode *inode, ext4_lblk_t lblk, ext4_lblk_t len);
/*
 * Blocks of [lblk, lblk+len) that are neither mapped nor delayed: those that a write must reserve. Reads the block map where the tree knows nothing.
 * i_data_sem held (read or write). 0 or negative errno.
 */
int ext4_es_count_unclaimed(struct inode *inode, ext4_lblk_t lblk, ext4_lblk_t len,
			    ext4_lblk_t *count);
/* Take the holes of [lblk, lblk+len) as delayed; every block of it is known (after ext4_es_count_unclaimed, i_data_sem held for write since). Mapped and delayed blocks stay. */
int ext4_es_delay_holes(struct inode *inode, ext4_lblk_t lblk, ext4_lblk_t len);

/* Debugging: order, no overlap, no mergeable neighbours, counts. ASSERTs. */
void ext4_es_check(struct inode *inode);
void ext4_es_print(struct inode *inode, FILE *out);

#endif
