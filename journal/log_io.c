/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * log_io.c - the blocks of one commit, written in a few large pieces.
 *
 * The commit lays its blocks out one behind the other in buffers of up to about 1 MiB, copies
 * the content straight into them, and each full buffer goes to the device as one write, cut only
 * where the log wraps, where its extents end and at the largest request of the device. A descriptor and
 * the blocks of its tags are handed out together, so that the descriptor can be completed before
 * its buffer is submitted. The first buffer is kept between commits: a commit never fails for want
 * of a large piece of memory, it only waits for its own earlier buffers.
 *
 * Invariants: (1) a buffer in flight is not touched. (2) lb_lblk + lb_used never passes what
 * the transaction set aside.
 * Locking: the writer belongs to its thread; completions count down under lw_lock.
 */
#include <stdlib.h>
#include <string.h>

#include "journal/journal_int.h"
#include "util/assert.h"
#include "util/err.h"

#define LOG_BUFFERS 4u
#define LOG_BUFFER_BLOCKS_MIN 256u

struct log_buffer {
	uint8_t *lb_data;
	unsigned lb_room;    /* blocks */
	unsigned lb_used;    /* blocks handed out since the last submission */
	unsigned lb_pending; /* [lw_lock] writes in flight */
};

struct log_writer {
	journal_t *lw_journal;
	uint32_t lw_lblk; /* log block of the current buffer's first block */
	unsigned lw_left; /* blocks that may still be handed out */
	unsigned lw_current;
	struct log_buffer lw_buffer[LOG_BUFFERS];
	struct mutex lw_lock;
	struct cond lw_cond;
	int lw_error; /* [lw_lock] first */
};

/* One write. */
struct log_piece {
	struct bio lp_bio;
	struct iovec lp_iov;
	struct log_writer *lp_writer;
	struct log_buffer *lp_buffer;
};

unsigned jbd2_log_group_max(const journal_t *j)
{
	return j->j_tags_per_block + 1;
}

static unsigned buffer_blocks(const journal_t *j)
{
	unsigned n = jbd2_log_group_max(j);

	return n > LOG_BUFFER_BLOCKS_MIN ? n : LOG_BUFFER_BLOCKS_MIN;
}

static uint8_t *alloc_buffer(const journal_t *j)
{
	void *p;

	if (posix_memalign(&p, 4096, (size_t)buffer_blocks(j) * j->j_block_bytes) != 0)
		return NULL;
	return p;
}

struct log_writer *jbd2_log_writer_new(journal_t *j, uint32_t start, unsigned blocks)
{
	struct log_writer *lw = calloc(1, sizeof(*lw));

	if (lw == NULL)
		return NULL;
	if (j->j_log_buffer == NULL)
		j->j_log_buffer = alloc_buffer(j);
	if (j->j_log_buffer == NULL) {
		free(lw);
		return NULL;
	}
	lw->lw_journal = j;
	lw->lw_lblk = start;
	lw->lw_left = blocks;
	lw->lw_buffer[0].lb_data = j->j_log_buffer;
	lw->lw_buffer[0].lb_room = buffer_blocks(j);
	mutex_init(&lw->lw_lock, LOCK_RANK_LEAF);
	cond_init(&lw->lw_cond);
	return lw;
}

/* ---- Submission ---- */

static void piece_done(struct log_writer *lw, struct log_buffer *lb, int status)
{
	mutex_lock(&lw->lw_lock);
	if (status != 0 && lw->lw_error == 0)
		lw->lw_error = status;
	ASSERT_CMP(lb->lb_pending, >, 0u);
	lb->lb_pending--;
	/* Under the lock: after the last one the waiter frees lw. */
	cond_broadcast(&lw->lw_cond);
	mutex_unlock(&lw->lw_lock);
}

static void piece_end_io(struct bio *bio)
{
	struct log_piece *lp = bio->bi_private;

	piece_done(lp->lp_writer, lp->lp_buffer, bio->bi_status);
	free(lp);
}

static void submit_piece(struct log_writer *lw, struct log_buffer *lb, const struct iovec *iov,
			 uint64_t offset_bytes)
{
	struct blkdev *bd = lw->lw_journal->j_log_dev;
	unsigned flags = REQ_META | REQ_JOURNAL | REQ_SYNC;
	struct log_piece *lp = calloc(1, sizeof(*lp));

	mutex_lock(&lw->lw_lock);
	lb->lb_pending++;
	mutex_unlock(&lw->lw_lock);
	if (lp == NULL) {
		piece_done(lw, lb, blk_write(bd, offset_bytes, iov->iov_base, iov->iov_len, flags));
		return;
	}
	lp->lp_iov = *iov;
	lp->lp_writer = lw;
	lp->lp_buffer = lb;
	lp->lp_bio.bi_op = REQ_OP_WRITE;
	lp->lp_bio.bi_flags = flags;
	lp->lp_bio.bi_offset_bytes = offset_bytes;
	lp->lp_bio.bi_len_bytes = iov->iov_len;
	lp->lp_bio.bi_iov = &lp->lp_iov;
	lp->lp_bio.bi_iovcnt = 1;
	lp->lp_bio.bi_end_io = piece_end_io;
	lp->lp_bio.bi_private = lp;
	blk_submit_one(bd, &lp->lp_bio);
}

/* Blocks from lblk that one request can write. */
static unsigned piece_blocks(const journal_t *j, uint32_t lblk, unsigned n, uint64_t *pblk)
{
	unsigned most = j->j_log_dev->bd_max_bytes / j->j_block_bytes;
	uint32_t run = 0;
	int err = jbd2_bmap(j, lblk, pblk, &run);

	/* The extents were checked to cover the log. */
	ASSERT_CMP(err, ==, 0);
	if (n > run)
		n = run;
	if (n > j->j_last - lblk)
		n = j->j_last - lblk;
	if (most > 0 && n > most)
		n = most;
	return n;
}

static void log_submit(struct log_writer *lw)
{
	journal_t *j = lw->lw_journal;
	struct log_buffer *lb = &lw->lw_buffer[lw->lw_current];
	uint8_t *data = lb->lb_data;
	unsigned left = lb->lb_used;

	while (left > 0) {
		uint64_t pblk;
		unsigned n = piece_blocks(j, lw->lw_lblk, left, &pblk);
		struct iovec iov = {data, (size_t)n * j->j_block_bytes};

		submit_piece(lw, lb, &iov, pblk * j->j_block_bytes);
		data += iov.iov_len;
		left -= n;
		lw->lw_lblk += n;
		if (lw->lw_lblk == j->j_last)
			lw->lw_lblk = j->j_first;
	}
	lb->lb_used = 0;
}

/* ---- Handing out ---- */

/* The current buffer went out: take another that is free, or wait for the first. */
static void next_buffer(struct log_writer *lw)
{
	struct log_buffer *lb = &lw->lw_buffer[(lw->lw_current + 1) % LOG_BUFFERS];

	if (lb->lb_data == NULL)
		lb->lb_data = alloc_buffer(lw->lw_journal);
	if (lb->lb_data == NULL)
		lb = &lw->lw_buffer[0];
	lb->lb_room = buffer_blocks(lw->lw_journal);
	mutex_lock(&lw->lw_lock);
	while (lb->lb_pending > 0)
		cond_wait(&lw->lw_cond, &lw->lw_lock);
	mutex_unlock(&lw->lw_lock);
	lw->lw_current = (unsigned)(lb - lw->lw_buffer);
}

uint8_t *jbd2_log_next(struct log_writer *lw, unsigned n)
{
	struct log_buffer *lb = &lw->lw_buffer[lw->lw_current];
	uint8_t *p;

	ASSERT_CMP(n, <=, lw->lw_left);
	ASSERT_CMP(n, <=, lb->lb_room);
	if (lb->lb_used + n > lb->lb_room) {
		log_submit(lw);
		next_buffer(lw);
		lb = &lw->lw_buffer[lw->lw_current];
	}
	p = lb->lb_data + (size_t)lb->lb_used * lw->lw_journal->j_block_bytes;
	lb->lb_used += n;
	lw->lw_left -= n;
	return p;
}

int jbd2_log_finish(struct log_writer *lw)
{
	struct blkdev *bd = lw->lw_journal->j_log_dev;
	int err;

	blk_start_plug(bd);
	log_submit(lw);
	blk_finish_plug_wait(bd);
	mutex_lock(&lw->lw_lock);
	for (unsigned i = 0; i < LOG_BUFFERS; i++)
		while (lw->lw_buffer[i].lb_pending > 0)
			cond_wait(&lw->lw_cond, &lw->lw_lock);
	err = lw->lw_error;
	mutex_unlock(&lw->lw_lock);
	for (unsigned i = 1; i < LOG_BUFFERS; i++)
		free(lw->lw_buffer[i].lb_data);
	mutex_destroy(&lw->lw_lock);
	cond_destroy(&lw->lw_cond);
	free(lw);
	return err;
}

int jbd2_log_write_block(journal_t *j, uint32_t lblk, const uint8_t *data, unsigned flags)
{
	uint64_t pblk;
	uint32_t run;
	int err = jbd2_bmap(j, lblk, &pblk, &run);

	if (err != 0)
		return err;
	if (!j->j_params.jp_barrier)
		flags &= ~REQ_FUA;
	return blk_write(j->j_log_dev, pblk * j->j_block_bytes, data, j->j_block_bytes, flags);
}
