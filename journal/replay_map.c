/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * replay_map.c - blocks on their way home during recovery.
 *
 * Replay goes through the log in order, and a block may be in it many times. The newest content of
 * each block is kept in a tree; when the tree is full, and at the end, everything in it is
 * written in block order, neighbours as one request, all requests at once.
 *
 * Invariants: (1) at most MAP_BLOCKS_MAX blocks are kept. (2) Writing the map and going on has the
 * same result as writing each block when it is met.
 * Locking: belongs to the thread that recovers; completions count down under mw_lock.
 */
#include "journal/replay_map.h"

#include <stdlib.h>
#include <string.h>

#include "util/assert.h"
#include "util/err.h"
#include "util/order.h"

#define MAP_BLOCKS_MAX 4096u
#define RUN_BLOCKS_MAX 256u

struct replay_block {
	RB_ENTRY(replay_block) rb_link;
	SLIST_ENTRY(replay_block) rb_all;
	uint64_t rb_blocknr;
	uint8_t *rb_data;
};

/* The requests of one write-out. */
struct map_write {
	struct mutex mw_lock;
	struct cond mw_cond;
	unsigned mw_pending; /* [mw_lock] */
	int mw_error;	     /* [mw_lock] first */
	struct iovec *mw_iov;
	struct bio *mw_bios;
	struct bio **mw_list;
	unsigned mw_niov;
	unsigned mw_nbios;
};

static int compare_blocks(const struct replay_block *a, const struct replay_block *b)
{
	return order_u64(a->rb_blocknr, b->rb_blocknr);
}

RB_PROTOTYPE_INTERNAL(replay_tree, replay_block, rb_link, compare_blocks,
		      static __attribute__((unused)))
RB_GENERATE_INTERNAL(replay_tree, replay_block, rb_link, compare_blocks,
		     static __attribute__((unused)))

void replay_map_init(struct replay_map *map, struct blkdev *bd, uint32_t block_bytes)
{
	*map = (struct replay_map){.rm_dev = bd, .rm_block_bytes = block_bytes};
	RB_INIT(&map->rm_tree);
	SLIST_INIT(&map->rm_all);
}

void replay_map_clear(struct replay_map *map)
{
	struct replay_block *rb;

	RB_INIT(&map->rm_tree);
	while ((rb = SLIST_FIRST(&map->rm_all)) != NULL) {
		SLIST_REMOVE_HEAD(&map->rm_all, rb_all);
		free(rb->rb_data);
		free(rb);
	}
	map->rm_count = 0;
}

static struct replay_block *add_block(struct replay_map *map, uint64_t blocknr)
{
	struct replay_block *rb = calloc(1, sizeof(*rb));
	void *data;

	if (rb == NULL)
		return NULL;
	if (posix_memalign(&data, 4096, map->rm_block_bytes) != 0) {
		free(rb);
		return NULL;
	}
	rb->rb_blocknr = blocknr;
	rb->rb_data = data;
	SLIST_INSERT_HEAD(&map->rm_all, rb, rb_all);
	RB_INSERT(replay_tree, &map->rm_tree, rb);
	map->rm_count++;
	return rb;
}

int replay_map_put(struct replay_map *map, uint64_t blocknr, const uint8_t *data, bool escaped)
{
	struct replay_block key = {.rb_blocknr = blocknr};
	struct replay_block *rb = RB_FIND(replay_tree, &map->rm_tree, &key);
	int err = 0;

	if (rb == NULL && map->rm_count >= MAP_BLOCKS_MAX)
		err = replay_map_write(map);
	if (rb == NULL && err == 0) {
		rb = add_block(map, blocknr);
		if (rb == NULL)
			err = -ENOMEM;
	}
	if (err != 0)
		return err;
	memcpy(rb->rb_data, data, map->rm_block_bytes);
	if (escaped)
		put_be32(rb->rb_data, JBD2_MAGIC_NUMBER);
	return 0;
}

/* ---- Writing ---- */

static void map_end_io(struct bio *bio)
{
	struct map_write *mw = bio->bi_private;

	mutex_lock(&mw->mw_lock);
	if (bio->bi_status != 0 && mw->mw_error == 0)
		mw->mw_error = bio->bi_status;
	mw->mw_pending--;
	cond_broadcast(&mw->mw_cond);
	mutex_unlock(&mw->mw_lock);
}

/* One request for the run of neighbours that begins at rb; returns the block behind it. */
static struct replay_block *add_run(struct replay_map *map, struct map_write *mw,
				    struct replay_block *rb)
{
	unsigned most = map->rm_dev->bd_max_bytes / map->rm_block_bytes;
	struct bio *bio = &mw->mw_bios[mw->mw_nbios];
	uint64_t first = rb->rb_blocknr;
	unsigned n = 0;

	if (most == 0 || most > RUN_BLOCKS_MAX)
		most = RUN_BLOCKS_MAX;
	bio->bi_op = REQ_OP_WRITE;
	bio->bi_flags = REQ_META | REQ_SYNC;
	bio->bi_offset_bytes = first * map->rm_block_bytes;
	bio->bi_iov = &mw->mw_iov[mw->mw_niov];
	bio->bi_end_io = map_end_io;
	bio->bi_private = mw;
	while (rb != NULL && n < most && rb->rb_blocknr == first + n) {
		mw->mw_iov[mw->mw_niov].iov_base = rb->rb_data;
		mw->mw_iov[mw->mw_niov++].iov_len = map->rm_block_bytes;
		n++;
		rb = RB_NEXT(replay_tree, &map->rm_tree, rb);
	}
	bio->bi_iovcnt = (int)n;
	bio->bi_len_bytes = (uint64_t)n * map->rm_block_bytes;
	mw->mw_list[mw->mw_nbios++] = bio;
	return rb;
}

static int submit_and_wait(struct replay_map *map, struct map_write *mw)
{
	mutex_init(&mw->mw_lock, LOCK_RANK_LEAF);
	cond_init(&mw->mw_cond);
	mw->mw_pending = mw->mw_nbios;
	blk_submit(map->rm_dev, mw->mw_list, mw->mw_nbios);
	mutex_lock(&mw->mw_lock);
	while (mw->mw_pending > 0)
		cond_wait(&mw->mw_cond, &mw->mw_lock);
	mutex_unlock(&mw->mw_lock);
	mutex_destroy(&mw->mw_lock);
	cond_destroy(&mw->mw_cond);
	return mw->mw_error;
}

int replay_map_write(struct replay_map *map)
{
	struct map_write mw = {.mw_error = 0};
	struct replay_block *rb = RB_MIN(replay_tree, &map->rm_tree);
	int err = -ENOMEM;

	if (rb == NULL)
		return 0;
	mw.mw_iov = calloc(map->rm_count, sizeof(mw.mw_iov[0]));
	mw.mw_bios = calloc(map->rm_count, sizeof(mw.mw_bios[0]));
	mw.mw_list = calloc(map->rm_count, sizeof(struct bio *));
	if (mw.mw_iov != NULL && mw.mw_bios != NULL && mw.mw_list != NULL) {
		while (rb != NULL)
			rb = add_run(map, &mw, rb);
		err = submit_and_wait(map, &mw);
	}
	free(mw.mw_iov);
	free(mw.mw_bios);
	free(mw.mw_list);
	if (err == 0)
		replay_map_clear(map);
	return err;
}
