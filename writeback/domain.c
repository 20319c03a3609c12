/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * domain.c - the writeback of one mount: made, and taken down.
 *
 * The arena, the lists of dirty inodes, the counters and the threads (flusher, throttle timer, conversion workers) live in struct wb_domain. In simulations
 * (o_manual_commit) there are no threads: works and conversions run in whoever needs them.
 *
 * Invariants: (1) s_wb is set before the first mapping exists and cleared after the last one is gone.
 * Locking: mount and unmount are single-threaded.
 */
#include <stdlib.h>
#include <string.h>

#include "writeback/internal.h"

#define CONVERSION_WORKERS 2u
#define HASH_BUCKETS 256u

static void init_locks(struct wb_domain *wb)
{
	mutex_init(&wb->wb_lru_lock, LOCK_RANK_LEAF);
	mutex_init(&wb->wb_frame_lock, LOCK_RANK_LEAF);
	mutex_init(&wb->wb_lock, LOCK_RANK_WB);
	mutex_init(&wb->wb_manual_lock, LOCK_RANK_LEAF);
	mutex_init(&wb->wb_window_lock, LOCK_RANK_LEAF);
	cond_init(&wb->wb_window_cond);
	cond_init(&wb->wb_frame_cond);
	cond_init(&wb->wb_cond);
	cond_init(&wb->wb_done_cond);
	TAILQ_INIT(&wb->wb_lru);
	TAILQ_INIT(&wb->wb_b_dirty);
	TAILQ_INIT(&wb->wb_b_io);
	TAILQ_INIT(&wb->wb_b_more_io);
	TAILQ_INIT(&wb->wb_b_dirty_time);
	STAILQ_INIT(&wb->wb_works);
	STAILQ_INIT(&wb->wb_manual_work);
	STAILQ_INIT(&wb->wb_manual_later);
}

static void free_domain(struct wb_domain *wb)
{
	pressure_exit(wb);
	arena_destroy(wb->wb_arena);
	cond_destroy(&wb->wb_throttle_cond);
	cond_destroy(&wb->wb_done_cond);
	cond_destroy(&wb->wb_cond);
	cond_destroy(&wb->wb_frame_cond);
	mutex_destroy(&wb->wb_throttle_lock);
	cond_destroy(&wb->wb_window_cond);
	mutex_destroy(&wb->wb_window_lock);
	mutex_destroy(&wb->wb_manual_lock);
	mutex_destroy(&wb->wb_lock);
	mutex_destroy(&wb->wb_frame_lock);
	mutex_destroy(&wb->wb_lru_lock);
	free(wb->wb_hash);
	free(wb);
}

static int start_threads(struct wb_domain *wb)
{
	int err;

	wb->wb_wq = workqueue_create("ext4d-conv", CONVERSION_WORKERS);
	if (IS_ERR(wb->wb_wq)) {
		err = PTR_ERR(wb->wb_wq);
		wb->wb_wq = NULL;
		return err;
	}
	err = arena_grow_ahead(wb->wb_arena);
	if (err == 0)
		err = throttle_start(wb);
	if (err == 0) {
		err = flusher_start(wb);
		if (err == 0)
			return 0;
		throttle_stop(wb);
	}
	workqueue_destroy(wb->wb_wq);
	wb->wb_wq = NULL;
	return err;
}

int wb_init(struct super_block *sb)
{
	struct wb_domain *wb = calloc(1, sizeof(*wb));
	int err = 0;

	if (wb == NULL)
		return -ENOMEM;
	init_locks(wb);
	throttle_init(wb);
	tunables_init(wb);
	pressure_init(wb);
	wb->wb_sb = sb;
	wb->wb_manual = sb->s_opts.o_manual_commit;
	wb->wb_ram_bytes = wb_usable_ram();
	atomic_store(&wb->wb_stats.ws_nr_to_write_min, INT64_MAX);
	wb->wb_hash = calloc(HASH_BUCKETS, sizeof(struct wb_inode *));
	wb->wb_arena = arena_create(sb->s_dev, wb_cache_bytes(&sb->s_opts, wb->wb_ram_bytes));
	if (IS_ERR(wb->wb_arena)) {
		err = PTR_ERR(wb->wb_arena);
		wb->wb_arena = NULL;
	}
	if (err == 0 && wb->wb_hash == NULL)
		err = -ENOMEM;
	if (err == 0)
		dirty_limits_changed(wb);
	if (err == 0 && !wb->wb_manual)
		err = start_threads(wb);
	if (err != 0) {
		free_domain(wb);
		return err;
	}
	sb->s_wb = wb;
	ext4_set_dirty_hook(sb, wb_dirty_hook);
	return 0;
}

/* What is left on the lists are inodes without a mapping that were recycled. */
static void free_wb_inodes(struct wb_domain *wb)
{
	for (unsigned i = 0; i < HASH_BUCKETS; i++) {
		while (wb->wb_hash[i] != NULL) {
			struct wb_inode *wi = wb->wb_hash[i];

			wb->wb_hash[i] = wi->wi_hash_next;
			free(wi);
		}
	}
}

void wb_exit(struct super_block *sb)
{
	struct wb_domain *wb = sb->s_wb;

	if (wb == NULL)
		return;
	ext4_set_dirty_hook(sb, NULL);
	if (!wb->wb_manual) {
		throttle_stop(wb);
		flusher_stop(wb);
		workqueue_destroy(wb->wb_wq);
	}
	free_wb_inodes(wb);
	sb->s_wb = NULL;
	free_domain(wb);
}

int wb_mapping_init(struct inode *inode)
{
	ASSERT(inode->i_sb->s_wb != NULL);
	return mapping_alloc(inode, inode->i_sb->s_wb);
}

void wb_set_notify(struct super_block *sb, const struct wb_notify_ops *ops)
{
	if (sb->s_wb != NULL)
		atomic_store(&sb->s_wb->wb_notify, ops);
}
