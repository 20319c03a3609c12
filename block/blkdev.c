/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * blkdev.c - what all devices have in common: checks, statistics, synchronous calls, marks.
 *
 * blk_submit() is the only door from above. It checks the range, applies read-only, nobarrier and
 * the write mode, starts the clock and hands what is left to the device on top of the stack, which
 * passes it down with blk_submit_lower(). bio_endio() is the way back; a bio remembers the device
 * it was counted on (bi_top), and bios made by filters for the device below are not counted.
 *
 * Invariants: (1) each bio ends exactly once, through bio_endio(). (2) s_in_flight counts a bio
 * until its bi_end_io has returned, so a device with none in flight runs no callback either.
 * (3) A synchronous call returns after its bio has ended, whatever thread ended it.
 * Locking: none of its own but the wait of a synchronous call, whose lock has no rank since any
 * lock may be held around bio_endio().
 */
#include "block/blkdev.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "block/backend.h"
#include "util/assert.h"
#include "util/err.h"
#include "util/lock.h"
#include "util/log.h"
#include "util/time.h"
#include "util/trace.h"

#define REQ_OPS 5
#define SUBMIT_BATCH 64
#define ZERO_BYTES (64u * 1024)
#define CLOSE_POLL_NS 100000

static const uint8_t zero_block[ZERO_BYTES] __attribute__((aligned(4096)));

static __thread struct blkdev *plugged_dev; /* [owner thread] top of the stack that is plugged */
static __thread unsigned plug_depth;	    /* [owner thread] */

struct sync_wait {
	struct mutex sw_lock;
	struct cond sw_cond;
	bool sw_done; /* [sw_lock] */
};

const char *req_op_name(enum req_op op)
{
	static const char *const name[REQ_OPS] = {"read", "write", "flush", "discard",
						  "write_zeroes"};

	return name[op];
}

bool req_op_is_write(enum req_op op)
{
	return op == REQ_OP_WRITE || op == REQ_OP_DISCARD || op == REQ_OP_WRITE_ZEROES;
}

/* ---- Data of a bio ---- */

static void copy_iov(const struct bio *bio, uint64_t skip_bytes, uint8_t *flat, size_t len_bytes,
		     bool out)
{
	for (int i = 0; i < bio->bi_iovcnt && len_bytes > 0; i++) {
		const struct iovec *v = &bio->bi_iov[i];
		uint8_t *p;
		size_t n;

		if (skip_bytes >= v->iov_len) {
			skip_bytes -= v->iov_len;
			continue;
		}
		p = (uint8_t *)v->iov_base + skip_bytes;
		n = v->iov_len - (size_t)skip_bytes;
		if (n > len_bytes)
			n = len_bytes;
		memcpy(out ? flat : p, out ? p : flat, n);
		flat += n;
		len_bytes -= n;
		skip_bytes = 0;
	}
	ASSERT_CMP(len_bytes, ==, (size_t)0);
}

void bio_copy_out(const struct bio *bio, uint64_t skip_bytes, void *dst, size_t len_bytes)
{
	copy_iov(bio, skip_bytes, dst, len_bytes, true);
}

void bio_copy_in(const struct bio *bio, uint64_t skip_bytes, const void *src, size_t len_bytes)
{
	/* Only read from in this direction. */
	copy_iov(bio, skip_bytes, (uint8_t *)(uintptr_t)src, len_bytes, false);
}

/* ---- Submission and completion ---- */

static int check_range(const struct blkdev *bd, const struct bio *bio)
{
	uint64_t mask = bd->bd_logical_block_bytes - 1;

	if (bio->bi_op == REQ_OP_FLUSH)
		return 0;
	if (((bio->bi_offset_bytes | bio->bi_len_bytes) & mask) != 0)
		return -EINVAL;
	if (bio->bi_offset_bytes > bd->bd_size_bytes ||
	    bio->bi_len_bytes > bd->bd_size_bytes - bio->bi_offset_bytes)
		return -EIO;
	if (req_op_is_write(bio->bi_op) && bd->bd_read_only)
		return -EROFS;
	return 0;
}

/* True if the bio needs no device; *status is then its result. */
static bool ends_here(struct blkdev *bd, struct bio *bio, int *status)
{
	bool flush = bio->bi_op == REQ_OP_FLUSH;
	enum blk_write_mode mode;

	*status = check_range(bd, bio);
	if (*status != 0)
		return true;
	if (bio->bi_op == REQ_OP_READ)
		return bio->bi_len_bytes == 0;
	mode = blk_write_mode(bd);
	if (mode != BLK_WRITES_PASS) {
		*status = mode == BLK_WRITES_FAIL ? -EIO : 0;
		return true;
	}
	if (atomic_load_explicit(&bd->bd_nobarrier, memory_order_relaxed)) {
		bio->bi_flags &= ~REQ_FUA;
		if (flush)
			return true;
	}
	return flush ? bd->bd_read_only : bio->bi_len_bytes == 0;
}

/* The letters of blktrace: what, then F for FUA, S for sync, M for metadata. */
static uint64_t rwbs(const struct bio *bio)
{
#define WITH_FLAGS(op)                                                                             \
	{                                                                                          \
		op, op "F", op "S", op "FS", op "M", op "FM", op "SM", op "FSM"                    \
	}
	static const char *const text[REQ_OPS][8] = {WITH_FLAGS("R"), WITH_FLAGS("W"),
						     WITH_FLAGS("F"), WITH_FLAGS("D"),
						     WITH_FLAGS("WZ")};
#undef WITH_FLAGS
	unsigned flags = (bio->bi_flags & REQ_FUA ? 1u : 0) | (bio->bi_flags & REQ_SYNC ? 2u : 0) |
			 (bio->bi_flags & REQ_META ? 4u : 0);

	return trace_string(text[bio->bi_op][flags]);
}

static void account_start(struct blkdev *bd, struct bio *bio)
{
	struct blkdev_stats *st = &bd->bd_stats;
	uint64_t before = atomic_fetch_add_explicit(&st->s_in_flight, 1, memory_order_relaxed);

	bio->bi_top = bd;
	bio->bi_start_ns = stat_ns();
	counter_inc(&st->s_requests[bio->bi_op]);
	hist_add(&st->s_depth, before + 1);
	if (bio->bi_op != REQ_OP_FLUSH) {
		counter_add(&st->s_bytes[bio->bi_op], bio->bi_len_bytes);
		hist_add(&st->s_size[bio->bi_op], bio->bi_len_bytes);
	}
	TRACE(block_rq_issue, .dev = bd->bd_dev, .rwbs = rwbs(bio), .bytes = bio->bi_len_bytes,
	      .sector = bio->bi_offset_bytes / BLK_SECTOR_BYTES,
	      .nr_sector = bio->bi_len_bytes / BLK_SECTOR_BYTES);
}

static void account_end(struct blkdev *bd, const struct bio *bio, int status)
{
	hist_add(&bd->bd_stats.s_latency_ns[bio->bi_op], stat_ns() - bio->bi_start_ns);
	if (status != 0)
		counter_inc(&bd->bd_stats.s_errors);
	TRACE(block_rq_complete, .dev = bd->bd_dev, .rwbs = rwbs(bio),
	      .sector = bio->bi_offset_bytes / BLK_SECTOR_BYTES,
	      .nr_sector = bio->bi_len_bytes / BLK_SECTOR_BYTES, .error = status);
}

void bio_endio(struct bio *bio, int status)
{
	struct blkdev *top = bio->bi_top;

	ASSERT_CMP(status, <=, 0);
	bio->bi_status = status;
	if (top == NULL) {
		bio->bi_end_io(bio);
		return;
	}
	account_end(top, bio, status);
	bio->bi_end_io(bio);
	/* Pairs with the acquire in blk_close(): the callback is over. */
	atomic_fetch_sub_explicit(&top->bd_stats.s_in_flight, 1, memory_order_release);
}

void blk_submit(struct blkdev *bd, struct bio **bios, unsigned n)
{
	struct bio *pass[SUBMIT_BATCH];
	unsigned npass = 0;
	int status;

	for (unsigned i = 0; i < n; i++) {
		struct bio *bio = bios[i];

		account_start(bd, bio);
		if (ends_here(bd, bio, &status)) {
			bio_endio(bio, status);
			continue;
		}
		pass[npass++] = bio;
		if (npass == SUBMIT_BATCH) {
			bd->bd_ops->submit(bd, pass, npass);
			npass = 0;
		}
	}
	if (npass > 0)
		bd->bd_ops->submit(bd, pass, npass);
}

void blk_submit_one(struct blkdev *bd, struct bio *bio)
{
	blk_submit(bd, &bio, 1);
}

void blk_submit_lower(struct blkdev *lower, struct bio **bios, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		bios[i]->bi_top = NULL;
	lower->bd_ops->submit(lower, bios, n);
}

static struct blkdev *bottom_of(struct blkdev *bd)
{
	while (bd->bd_lower != NULL)
		bd = bd->bd_lower;
	return bd;
}

static void flush_plugs(void *arg)
{
	for (struct blkdev *bd = arg; bd != NULL; bd = bd->bd_lower)
		if (bd->bd_ops->flush_plug != NULL)
			bd->bd_ops->flush_plug(bd);
}

void blk_start_plug(struct blkdev *bd)
{
	if (plug_depth++ > 0)
		return;
	plugged_dev = bd;
	thread_set_flush_hook(flush_plugs, bd);
	for (; bd != NULL; bd = bd->bd_lower)
		if (bd->bd_ops->start_plug != NULL)
			bd->bd_ops->start_plug(bd);
}

static void finish_plugs(bool wait)
{
	ASSERT_CMP(plug_depth, >, 0u);
	if (--plug_depth > 0)
		return;
	thread_set_flush_hook(NULL, NULL);
	/* From the top: what a filter held back passes devices that are still plugged. */
	for (struct blkdev *bd = plugged_dev; bd != NULL; bd = bd->bd_lower)
		if (bd->bd_ops->finish_plug != NULL)
			bd->bd_ops->finish_plug(bd, wait);
}

void blk_finish_plug(struct blkdev *bd)
{
	(void)bd;
	finish_plugs(false);
}

void blk_finish_plug_wait(struct blkdev *bd)
{
	(void)bd;
	finish_plugs(true);
}

/* ---- Synchronous calls ---- */

static void sync_end_io(struct bio *bio)
{
	struct sync_wait *sw = bio->bi_private;

	mutex_lock(&sw->sw_lock);
	sw->sw_done = true;
	cond_signal(&sw->sw_cond);
	mutex_unlock(&sw->sw_lock);
}

static int submit_and_wait(struct blkdev *bd, struct bio *bio,
			   void (*submit)(struct blkdev *bd, struct bio **bios, unsigned n))
{
	struct sync_wait sw = {.sw_done = false};

	mutex_init(&sw.sw_lock, LOCK_RANK_NONE);
	cond_init(&sw.sw_cond);
	bio->bi_end_io = sync_end_io;
	bio->bi_private = &sw;
	thread_block_begin();
	submit(bd, &bio, 1);
	mutex_lock(&sw.sw_lock);
	while (!sw.sw_done)
		cond_wait(&sw.sw_cond, &sw.sw_lock);
	mutex_unlock(&sw.sw_lock);
	thread_block_end();
	cond_destroy(&sw.sw_cond);
	mutex_destroy(&sw.sw_lock);
	return bio->bi_status;
}

/* The device does it in this thread: no callback, no hop. */
static int do_in_place(struct blkdev *bd, struct bio *bio)
{
	int status;

	account_start(bd, bio);
	if (!ends_here(bd, bio, &status)) {
		thread_block_begin();
		status = bd->bd_ops->sync_io(bd, bio);
		thread_block_end();
	}
	account_end(bd, bio, status);
	atomic_fetch_sub_explicit(&bd->bd_stats.s_in_flight, 1, memory_order_release);
	return status;
}

static int sync_bio(struct blkdev *bd, struct bio *bio)
{
	if (bd->bd_ops->sync_io != NULL)
		return do_in_place(bd, bio);
	return submit_and_wait(bd, bio, blk_submit);
}

int blk_sync_lower(struct blkdev *lower, struct bio *bio)
{
	return submit_and_wait(lower, bio, blk_submit_lower);
}

static int sync_data(struct blkdev *bd, const struct bio *like, void *buf, size_t len_bytes)
{
	size_t done = 0;

	while (done < len_bytes) {
		struct iovec iov = {.iov_base = (uint8_t *)buf + done};
		struct bio bio = *like;
		int err;

		iov.iov_len =
			len_bytes - done < bd->bd_max_bytes ? len_bytes - done : bd->bd_max_bytes;
		bio.bi_offset_bytes = like->bi_offset_bytes + done;
		bio.bi_len_bytes = iov.iov_len;
		bio.bi_iov = &iov;
		bio.bi_iovcnt = 1;
		err = sync_bio(bd, &bio);
		if (err != 0)
			return err;
		done += iov.iov_len;
	}
	return 0;
}

int blk_read(struct blkdev *bd, uint64_t offset_bytes, void *buf, size_t len_bytes, unsigned flags)
{
	struct bio like = {.bi_op = REQ_OP_READ,
			   .bi_flags = flags | REQ_SYNC,
			   .bi_offset_bytes = offset_bytes};

	return sync_data(bd, &like, buf, len_bytes);
}

int blk_write(struct blkdev *bd, uint64_t offset_bytes, const void *buf, size_t len_bytes,
	      unsigned flags)
{
	struct bio like = {.bi_op = REQ_OP_WRITE,
			   .bi_flags = flags | REQ_SYNC,
			   .bi_offset_bytes = offset_bytes};

	/* An iovec has no const; a write only reads from it. */
	return sync_data(bd, &like, (void *)(uintptr_t)buf, len_bytes);
}

int blk_flush(struct blkdev *bd)
{
	struct bio bio = {.bi_op = REQ_OP_FLUSH, .bi_flags = REQ_SYNC};

	return sync_bio(bd, &bio);
}

int blk_discard(struct blkdev *bd, uint64_t offset_bytes, uint64_t len_bytes)
{
	struct bio bio = {.bi_op = REQ_OP_DISCARD,
			  .bi_flags = REQ_SYNC,
			  .bi_offset_bytes = offset_bytes,
			  .bi_len_bytes = len_bytes};

	if (!bd->bd_discard)
		return -EOPNOTSUPP;
	return sync_bio(bd, &bio);
}

static int write_zeros(struct blkdev *bd, uint64_t offset_bytes, uint64_t len_bytes)
{
	while (len_bytes > 0) {
		size_t n = len_bytes < ZERO_BYTES ? (size_t)len_bytes : ZERO_BYTES;
		int err = blk_write(bd, offset_bytes, zero_block, n, 0);

		if (err != 0)
			return err;
		offset_bytes += n;
		len_bytes -= n;
	}
	return 0;
}

int blk_zeroout(struct blkdev *bd, uint64_t offset_bytes, uint64_t len_bytes)
{
	struct bio bio = {.bi_op = REQ_OP_WRITE_ZEROES,
			  .bi_flags = REQ_SYNC,
			  .bi_offset_bytes = offset_bytes,
			  .bi_len_bytes = len_bytes};
	int err;

	if (len_bytes <= ZERO_BYTES)
		return write_zeros(bd, offset_bytes, len_bytes);
	err = sync_bio(bd, &bio);
	if (err != -EOPNOTSUPP)
		return err;
	return write_zeros(bd, offset_bytes, len_bytes);
}

/* ---- Modes and marks ---- */

void blk_set_barrier(struct blkdev *bd, bool on)
{
	atomic_store_explicit(&bd->bd_nobarrier, !on, memory_order_relaxed);
}

void blk_set_write_mode(struct blkdev *bd, enum blk_write_mode mode)
{
	atomic_store_explicit(&bd->bd_write_mode, (int)mode, memory_order_seq_cst);
}

enum blk_write_mode blk_write_mode(const struct blkdev *bd)
{
	return (enum blk_write_mode)atomic_load_explicit(&bd->bd_write_mode, memory_order_seq_cst);
}

int blk_mark(struct blkdev *bd, const char *text)
{
	int first = 0;

	for (; bd != NULL; bd = bd->bd_lower) {
		int err = bd->bd_ops->mark != NULL ? bd->bd_ops->mark(bd, text) : 0;

		if (first == 0)
			first = err;
	}
	return first;
}

bool blk_wants_marks(const struct blkdev *bd)
{
	for (; bd != NULL; bd = bd->bd_lower)
		if (bd->bd_ops->mark != NULL)
			return true;
	return false;
}

int blk_register_memory(struct blkdev *bd, void *addr, size_t len_bytes)
{
	struct blkdev *bottom = bottom_of(bd);

	if (bottom->bd_ops->register_memory == NULL)
		return 0;
	return bottom->bd_ops->register_memory(bottom, addr, len_bytes);
}

void blk_unregister_memory(struct blkdev *bd, void *addr, size_t len_bytes)
{
	struct blkdev *bottom = bottom_of(bd);

	if (bottom->bd_ops->unregister_memory != NULL)
		bottom->bd_ops->unregister_memory(bottom, addr, len_bytes);
}

/* ---- Statistics ---- */

#define STAT_NAME_BYTES 64

struct stat_prefix {
	const char *sp_name;
	void (*sp_emit)(void *arg, const char *name, uint64_t value);
	void *sp_arg;
};

static void emit_prefixed(void *arg, const char *name, uint64_t value)
{
	struct stat_prefix *sp = arg;
	char full[STAT_NAME_BYTES];

	snprintf(full, sizeof(full), "%s.%s", sp->sp_name, name);
	sp->sp_emit(sp->sp_arg, full, value);
}

static void emit_op(struct stat_prefix *sp, enum req_op op, const char *what, uint64_t value)
{
	char name[STAT_NAME_BYTES];

	snprintf(name, sizeof(name), "%s.%s", req_op_name(op), what);
	emit_prefixed(sp, name, value);
}

static void emit_counted(struct stat_prefix *sp, const struct blkdev_stats *st)
{
	for (unsigned i = 0; i < REQ_OPS; i++) {
		enum req_op op = (enum req_op)i;
		const struct hist *lat = &st->s_latency_ns[i];

		emit_op(sp, op, "requests", counter_read(&st->s_requests[i]));
		if (op != REQ_OP_FLUSH) {
			emit_op(sp, op, "bytes", counter_read(&st->s_bytes[i]));
			emit_op(sp, op, "size_mean_bytes", hist_mean(&st->s_size[i]));
		}
		emit_op(sp, op, "latency_mean_ns", hist_mean(lat));
		emit_op(sp, op, "latency_p99_ns", hist_percentile(lat, 99));
		emit_op(sp, op, "latency_max_ns", counter_read(&lat->h_max));
	}
	emit_prefixed(sp, "errors", counter_read(&st->s_errors));
	emit_prefixed(sp, "in_flight", counter_read(&st->s_in_flight));
	emit_prefixed(sp, "depth_mean", hist_mean(&st->s_depth));
	emit_prefixed(sp, "depth_max", counter_read(&st->s_depth.h_max));
}

void blk_print_stats(struct blkdev *bd, void (*emit)(void *arg, const char *name, uint64_t value),
		     void *arg)
{
	struct stat_prefix sp = {.sp_name = "device", .sp_emit = emit, .sp_arg = arg};

	emit_counted(&sp, &bd->bd_stats);
	for (; bd != NULL; bd = bd->bd_lower) {
		sp.sp_name = bd->bd_name;
		if (bd->bd_ops->stats != NULL)
			bd->bd_ops->stats(bd, emit_prefixed, &sp);
	}
}

/* ---- Opening and closing ---- */

static struct blkdev *open_backend(const struct blk_open_args *args)
{
	struct blkdev *bd;

	if (args->ba_backend != NULL && strcmp(args->ba_backend, "psync") == 0)
		return psync_open(args);
	if (args->ba_backend != NULL && strcmp(args->ba_backend, "uring") != 0) {
		log_err("unknown back end \"%s\" (known: uring, psync)", args->ba_backend);
		return ERR_PTR(-EINVAL);
	}
	bd = uring_open(args);
	if (!IS_ERR(bd) || PTR_ERR(bd) != -ENOSYS)
		return bd;
	if (args->ba_backend != NULL) {
		log_err("io_uring does not exist here or is not allowed");
		return bd;
	}
	log_info("no io_uring here: using threads (psync) for the device");
	return psync_open(args);
}

struct blkdev *blk_open(const struct blk_open_args *args)
{
	struct blkdev *bd = open_backend(args);
	struct blkdev *top;

	if (IS_ERR(bd) || args->ba_filters == NULL || args->ba_filters[0] == '\0')
		return bd;
	top = blk_stack_filters(bd, args->ba_filters);
	if (IS_ERR(top))
		blk_close(bd);
	return top;
}

void blk_close(struct blkdev *bd)
{
	struct timespec nap = {.tv_sec = 0, .tv_nsec = CLOSE_POLL_NS};

	/* Polled: whoever ends the last bio may not touch the device any more. */
	while (atomic_load_explicit(&bd->bd_stats.s_in_flight, memory_order_acquire) != 0)
		nanosleep(&nap, NULL);
	bd->bd_ops->close(bd);
}
