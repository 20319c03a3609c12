/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * free_blocks.c - blocks become free on disk at once and for use after the commit.
 *
 * Freeing clears the bits of the bitmap within the handle. The blocks stay used in the buddy until
 * the transaction has committed, since after a crash before that the file still has them. Each
 * transaction keeps a list of the ranges (and inode numbers) it freed; neighbouring ranges of a
 * group are merged. The commit callback waits until no write of the blocks is in flight, discards
 * them if asked to, and gives them to the buddy. ext4: fs/ext4/mballoc.c ext4_free_blocks(),
 * ext4_process_freed_data().
 *
 * Invariants: (1) a range is pending from the clearing of its bits to the commit, and its blocks
 * are used in the buddy during that time. (2) mb_pending is the sum of the pending ranges and part
 * of mb_free. (3) Only a handle of transaction T adds to T's list, so the list is complete when T's
 * callback runs. (4) After an abort nothing pending is ever given out again.
 * Locking: g_pending under bg_lock; the lists under mb_tx_lock, a leaf.
 */
#include "alloc/mballoc_internal.h"

#include <stdlib.h>

#include "ext4/inode.h"
#include "ext4/jbd2_glue.h"
#include "util/assert.h"
#include "util/log.h"
#include "util/order.h"
#include "util/trace.h"

static int compare_recs(const struct mb_free_rec *a, const struct mb_free_rec *b)
{
	return order_u64(a->fr_start, b->fr_start);
}

RB_GENERATE_INTERNAL(mb_free_tree, mb_free_rec, fr_rb, compare_recs, static __attribute__((unused)))

/* ---- Transactions ---- */

static struct mb_tx *find_tx(struct ext4_mballoc *mb, tid_t tid)
{
	struct mb_tx *tx;

	mutex_assert_held(&mb->mb_tx_lock);
	LIST_FOREACH (tx, &mb->mb_txs, tx_link)
		if (tx->tx_tid == tid)
			return tx;
	return NULL;
}

static void free_rec(struct mb_free_rec *rec)
{
	free(rec);
}

/* Give a committed range out; after an abort it stays used. */
static void release_rec(struct ext4_mballoc *mb, struct mb_free_rec *rec, bool committed)
{
	struct mb_group *g = rec->fr_group;

	mutex_lock(&g->g_info->bg_lock);
	RB_REMOVE(mb_free_tree, &g->g_pending, rec);
	if (committed && g->g_buddy != NULL) {
		ext4_buddy_mark_free(g->g_buddy, rec->fr_start, rec->fr_len);
		ext4_mb_group_publish(mb, g);
	} else if (committed) {
		ext4_mb_group_hope(mb, g, rec->fr_len);
	} else {
		/* A buddy built again would show the blocks as free. */
		g->g_bad = true;
	}
	mutex_unlock(&g->g_info->bg_lock);
	atomic_fetch_sub(&mb->mb_pending, (int64_t)rec->fr_len);
}

static void discard_rec(struct ext4_mballoc *mb, const struct mb_free_rec *rec)
{
	struct super_block *sb = mb->mb_sb;
	unsigned bits = sb->s_blocksize_bits;
	int err;

	if (!atomic_load(&mb->mb_discard))
		return;
	err = blk_discard(sb->s_dev, ext4_mb_block(sb, rec->fr_group, rec->fr_start) << bits,
			  (uint64_t)rec->fr_len << bits);
	if (err == 0)
		return;
	log_warn("%s: discard failed (%d): it is turned off", sb->s_name, err);
	atomic_store(&mb->mb_discard, false);
}

/*
 * Before the blocks get a new use nothing may still be on its way to them, nor be cached of them.
 */
static void settle_rec(struct ext4_mballoc *mb, const struct mb_free_rec *rec)
{
	struct super_block *sb = mb->mb_sb;
	ext4_fsblk_t block = ext4_mb_block(sb, rec->fr_group, rec->fr_start);

	if (bh_writes_in_flight(sb->s_bcache, block, rec->fr_len))
		bh_wait_writes(sb->s_bcache, block, rec->fr_len);
	if (rec->fr_metadata)
		bh_forget_range(sb->s_bcache, block, rec->fr_len);
	discard_rec(mb, rec);
}

/* The transaction has committed, or never will. */
static void tx_committed(struct jbd2_commit_cb *cb, int error)
{
	struct mb_tx *tx = (struct mb_tx *)(void *)((char *)cb - offsetof(struct mb_tx, tx_cb));
	struct ext4_mballoc *mb = tx->tx_mb;
	struct mb_free_rec *rec;

	while ((rec = TAILQ_FIRST(&tx->tx_recs)) != NULL) {
		TAILQ_REMOVE(&tx->tx_recs, rec, fr_link);
		if (error == 0)
			settle_rec(mb, rec);
		release_rec(mb, rec, error == 0);
		free_rec(rec);
	}
	for (uint32_t i = 0; i < tx->tx_nr_inos; i++)
		ext4_mb_inode_committed(mb, tx->tx_inos[i], error == 0);
	mutex_lock(&mb->mb_tx_lock);
	LIST_REMOVE(tx, tx_link);
	cond_broadcast(&mb->mb_tx_gone);
	mutex_unlock(&mb->mb_tx_lock);
	free(tx->tx_inos);
	free(tx);
}

struct mb_tx *ext4_mb_tx_get(handle_t *handle, struct ext4_mballoc *mb)
{
	tid_t tid = jbd2_handle_tid(handle);
	struct mb_tx *fresh;
	struct mb_tx *tx;

	mutex_lock(&mb->mb_tx_lock);
	tx = find_tx(mb, tid);
	mutex_unlock(&mb->mb_tx_lock);
	if (tx != NULL)
		return tx;
	fresh = calloc(1, sizeof(*fresh));
	if (fresh == NULL)
		return NULL;
	fresh->tx_cb.cb_fn = tx_committed;
	fresh->tx_mb = mb;
	fresh->tx_tid = tid;
	TAILQ_INIT(&fresh->tx_recs);
	mutex_lock(&mb->mb_tx_lock);
	tx = find_tx(mb, tid);
	if (tx == NULL)
		LIST_INSERT_HEAD(&mb->mb_txs, fresh, tx_link);
	mutex_unlock(&mb->mb_tx_lock);
	if (tx != NULL) {
		free(fresh);
		return tx;
	}
	/*
	 * Others may add to the list before this: our handle keeps the transaction from committing.
	 */
	jbd2_journal_callback_add(handle, &fresh->tx_cb);
	return fresh;
}

int ext4_mb_tx_room_ino(struct mb_tx *tx)
{
	struct ext4_mballoc *mb = tx->tx_mb;
	int err = 0;

	mutex_lock(&mb->mb_tx_lock);
	if (tx->tx_nr_inos >= tx->tx_room_inos) {
		uint32_t room = tx->tx_room_inos == 0 ? 64 : tx->tx_room_inos * 2;
		uint32_t *inos = realloc(tx->tx_inos, room * sizeof(*inos));

		if (inos != NULL) {
			tx->tx_inos = inos;
			tx->tx_room_inos = room;
		} else {
			err = -ENOMEM;
		}
	}
	/* The place is taken now, so that two threads do not count on the same one. */
	if (err == 0)
		tx->tx_inos[tx->tx_nr_inos++] = 0;
	mutex_unlock(&mb->mb_tx_lock);
	return err;
}

void ext4_mb_tx_add_ino(struct mb_tx *tx, uint32_t ino)
{
	struct ext4_mballoc *mb = tx->tx_mb;
	uint32_t i;

	mutex_lock(&mb->mb_tx_lock);
	i = tx->tx_nr_inos;
	while (i > 0 && tx->tx_inos[i - 1] != 0)
		i--;
	ASSERT_CMP(i, >, 0u);
	tx->tx_inos[i - 1] = ino;
	mutex_unlock(&mb->mb_tx_lock);
}

/* ---- Pending ranges of a group ---- */

static bool joins(const struct mb_free_rec *left, const struct mb_free_rec *right)
{
	return left != NULL && right != NULL && left->fr_tx == right->fr_tx &&
	       left->fr_metadata == right->fr_metadata &&
	       left->fr_start + left->fr_len == right->fr_start;
}

/*
 * Put the range in, merged with its neighbours. Returns the record that is not needed any more, or
 * NULL.
 */
static struct mb_free_rec *insert_rec(struct mb_group *g, struct mb_free_rec *rec,
				      struct mb_free_rec **second)
{
	struct ext4_mballoc *mb = rec->fr_tx->tx_mb;
	struct mb_free_rec *left;
	struct mb_free_rec *right;

	*second = NULL;
	left = RB_INSERT(mb_free_tree, &g->g_pending, rec);
	ASSERT(left == NULL);
	left = RB_PREV(mb_free_tree, &g->g_pending, rec);
	right = RB_NEXT(mb_free_tree, &g->g_pending, rec);
	if (joins(rec, right)) {
		RB_REMOVE(mb_free_tree, &g->g_pending, right);
		rec->fr_len += right->fr_len;
		mutex_lock(&mb->mb_tx_lock);
		TAILQ_REMOVE(&rec->fr_tx->tx_recs, right, fr_link);
		mutex_unlock(&mb->mb_tx_lock);
		*second = right;
	}
	if (joins(left, rec)) {
		RB_REMOVE(mb_free_tree, &g->g_pending, rec);
		left->fr_len += rec->fr_len;
		return rec;
	}
	mutex_lock(&mb->mb_tx_lock);
	TAILQ_INSERT_TAIL(&rec->fr_tx->tx_recs, rec, fr_link);
	mutex_unlock(&mb->mb_tx_lock);
	return NULL;
}

void ext4_mb_hide_pending(struct mb_group *g, struct ext4_buddy *b)
{
	struct mb_free_rec *rec;

	RB_FOREACH (rec, mb_free_tree, &g->g_pending)
		ext4_buddy_mark_used(b, rec->fr_start, rec->fr_len);
}

/* ---- Freeing ---- */

/* A part of a free that lies in one group. */
struct part {
	struct super_block *p_sb;
	struct mb_group *p_group;
	uint32_t p_start, p_len;
	bool p_at_once; /* allocatable without waiting for the commit */
	bool p_metadata;
};

/*
 * Clear the bits; all of them must be set, and used in the buddy. The locks of the edit are held.
 */
static bool clear_bits(const struct part *p, struct mb_edit *e)
{
	struct ext4_group_change gc = {.gc_itable_unused = -1};
	struct ext4_buddy *b = p->p_group->g_buddy;
	uint8_t *map = e->e_bitmap->b_data;

	if (!ext4_bitmap_all(map, p->p_start, p->p_len, true))
		return false;
	if (b != NULL && !ext4_buddy_all_used(b, p->p_start, p->p_len))
		return false;
	ext4_bitmap_fill(map, p->p_start, p->p_len, false);
	gc.gc_free_blocks = (int32_t)p->p_len;
	gc.gc_block_bitmap = map;
	ext4_group_change(p->p_sb, e->e_info, &gc);
	return true;
}

/* The buddy's side of it. bg_lock held. */
static void hide_or_show(const struct part *p, struct mb_free_rec *rec,
			 struct mb_free_rec *unused[2])
{
	struct ext4_mballoc *mb = ext4_mb(p->p_sb);
	struct mb_group *g = p->p_group;

	unused[0] = NULL;
	unused[1] = NULL;
	if (!p->p_at_once) {
		unused[0] = insert_rec(g, rec, &unused[1]);
		atomic_fetch_add(&mb->mb_pending, (int64_t)p->p_len);
	} else if (g->g_buddy != NULL) {
		ext4_buddy_mark_free(g->g_buddy, p->p_start, p->p_len);
		ext4_mb_group_publish(mb, g);
	} else {
		ext4_mb_group_hope(mb, g, p->p_len);
	}
}

static int new_rec(handle_t *handle, const struct part *p, struct mb_free_rec **out)
{
	struct mb_free_rec *rec;

	*out = NULL;
	if (p->p_at_once)
		return 0;
	rec = calloc(1, sizeof(*rec));
	if (rec == NULL)
		return -ENOMEM;
	rec->fr_tx = ext4_mb_tx_get(handle, ext4_mb(p->p_sb));
	rec->fr_group = p->p_group;
	rec->fr_start = p->p_start;
	rec->fr_len = p->p_len;
	rec->fr_metadata = p->p_metadata;
	if (rec->fr_tx == NULL) {
		free_rec(rec);
		return -ENOMEM;
	}
	*out = rec;
	return 0;
}

static int free_part(handle_t *handle, const struct part *p)
{
	struct ext4_mballoc *mb = ext4_mb(p->p_sb);
	struct mb_free_rec *unused[2] = {NULL, NULL};
	struct mb_free_rec *rec;
	struct mb_edit e;
	bool done;
	int err;

	err = new_rec(handle, p, &rec);
	if (err != 0)
		return err;
	err = ext4_mb_edit_begin(handle, p->p_sb, p->p_group->g_info, false, &e);
	if (err != 0) {
		free_rec(rec);
		return err;
	}
	ext4_mb_edit_lock(&e);
	done = clear_bits(p, &e);
	if (done)
		hide_or_show(p, rec, unused);
	ext4_mb_edit_unlock(&e);
	err = ext4_mb_edit_end(handle, &e, done);
	free_rec(done ? unused[0] : rec);
	free_rec(unused[1]);
	if (!done)
		return ext4_error_block(p->p_sb, 0, ext4_mb_block(p->p_sb, p->p_group, p->p_start),
					"%u blocks to free are free already", p->p_len);
	atomic_fetch_add(&mb->mb_free, (int64_t)p->p_len);
	atomic_fetch_add(&mb->mb_unclaimed, (int64_t)p->p_len);
	counter_add(&mb->mb_stats.mb_freed_blocks, p->p_len);
	return err;
}

static int not_data_blocks(struct inode *inode, ext4_fsblk_t block, uint64_t count)
{
	return ext4_error_block(inode->i_sb, inode->i_ino, block,
				"%llu blocks to free are not data blocks",
				(unsigned long long)count);
}

static int free_range(handle_t *handle, struct inode *inode, ext4_fsblk_t block, uint64_t count,
		      bool metadata, bool at_once)
{
	struct super_block *sb = inode->i_sb;
	int err = 0;

	if (count == 0 || !ext4_data_block_valid(sb, block, count))
		return not_data_blocks(inode, block, count);
	while (count > 0 && err == 0) {
		struct part p = {.p_sb = sb, .p_at_once = at_once, .p_metadata = metadata};
		ext4_group_t group = ext4_group_of_block(sb, block);
		uint32_t left;

		p.p_start = ext4_offset_in_group(sb, block);
		left = ext4_blocks_in_group(sb, group) - p.p_start;
		p.p_len = count < left ? (uint32_t)count : left;
		p.p_group = ext4_mb_group_get(sb, group);
		err = IS_ERR(p.p_group) ? PTR_ERR(p.p_group) : free_part(handle, &p);
		block += p.p_len;
		count -= p.p_len;
	}
	return err;
}

int ext4_free_blocks_prepare(handle_t *handle, struct inode *inode, ext4_fsblk_t block,
			     uint64_t count)
{
	struct super_block *sb = inode->i_sb;
	ext4_group_t last;
	int err = 0;

	if (count == 0 || !ext4_data_block_valid(sb, block, count))
		return not_data_blocks(inode, block, count);
	last = ext4_group_of_block(sb, block + count - 1);
	for (ext4_group_t group = ext4_group_of_block(sb, block); group <= last; group++) {
		struct mb_group *g = ext4_mb_group_get(sb, group);
		struct mb_edit e;

		if (IS_ERR(g))
			return PTR_ERR(g);
		err = ext4_mb_edit_begin(handle, sb, g->g_info, false, &e);
		if (err == 0)
			err = ext4_mb_edit_end(handle, &e, false);
		if (err != 0)
			break;
	}
	return err;
}

/* Blocks that may be cached leave the journal's care. */
static int forget_blocks(handle_t *handle, struct inode *inode, ext4_fsblk_t block, uint64_t count,
			 bool metadata)
{
	struct super_block *sb = inode->i_sb;
	int err = 0;

	for (uint64_t i = 0; i < count && err == 0; i++) {
		struct buffer_head *bh = bh_find(sb->s_bcache, block + i);

		if (bh != NULL || metadata)
			err = ext4_forget(handle, metadata, inode, bh, block + i);
	}
	return err;
}

int ext4_free_blocks(handle_t *handle, struct inode *inode, ext4_fsblk_t block, uint64_t count,
		     unsigned flags)
{
	bool metadata = (flags & EXT4_FREE_BLOCKS_METADATA) != 0;
	int err = 0;

	TRACE(ext4_free_blocks, .dev = inode->i_sb->s_dev->bd_dev, .ino = inode->i_ino,
	      .mode = inode->i_mode, .block = block, .count = count, .flags = flags);
	if (metadata || (flags & EXT4_FREE_BLOCKS_FORGET) != 0)
		err = forget_blocks(handle, inode, block, count, metadata);
	if (err == 0)
		err = free_range(handle, inode, block, count, metadata, false);
	if (err == 0 && (flags & EXT4_FREE_BLOCKS_NO_QUOT) == 0)
		ext4_inode_add_blocks(inode, -(int64_t)count);
	return err;
}

int ext4_free_unused_blocks(handle_t *handle, struct inode *inode, ext4_fsblk_t block,
			    uint64_t count)
{
	int err = free_range(handle, inode, block, count, false, true);

	if (err == 0)
		ext4_inode_add_blocks(inode, -(int64_t)count);
	return err;
}

/* ---- Life ---- */

void ext4_mb_free_init(struct ext4_mballoc *mb)
{
	mutex_init(&mb->mb_tx_lock, LOCK_RANK_LEAF);
	cond_init(&mb->mb_tx_gone);
	LIST_INIT(&mb->mb_txs);
	atomic_store(&mb->mb_discard, mb->mb_sb->s_opts.o_discard && mb->mb_sb->s_dev->bd_discard);
}

void ext4_mb_free_exit(struct ext4_mballoc *mb)
{
	bool pending;

	mutex_lock(&mb->mb_tx_lock);
	pending = !LIST_EMPTY(&mb->mb_txs);
	mutex_unlock(&mb->mb_tx_lock);
	/* Its error is reported by ext4_put_super(); the callbacks run all the same. */
	if (pending)
		(void)jbd2_journal_force_commit(mb->mb_sb->s_journal);
	mutex_lock(&mb->mb_tx_lock);
	while (!LIST_EMPTY(&mb->mb_txs))
		cond_wait(&mb->mb_tx_gone, &mb->mb_tx_lock);
	mutex_unlock(&mb->mb_tx_lock);
	cond_destroy(&mb->mb_tx_gone);
	mutex_destroy(&mb->mb_tx_lock);
}
