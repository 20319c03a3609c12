/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * filter_raid5.c - what the same requests would cost a RAID 5.
 *
 * The data goes to the device below as it is. Writes of one submission or plug that touch each
 * other are joined, as the kernel's stripe cache would do, and cut into stripes. A whole stripe costs a write on
 * every member. A part of one costs reads first: of what is replaced and of the parity
 * (read-modify-write), or of the rest of the stripe (reconstruct-write) if that is no more, then
 * writes of the parts and the parity. Parity rotates (left-symmetric), so each member's share of a
 * run of stripes is one piece of its disk. Where a model is directly below it gets these instead of
 * the requests.
 *
 * Invariants: (1) rc_partial = rc_rmw + rc_reconstruct.
 * Locking: none; counters are atomic, the cost of a request is on the stack.
 */
#include "block/filter_raid5.h"

#include <stdlib.h>
#include <string.h>

#include "block/backend.h"
#include "block/filter.h"
#include "block/filter_model.h"
#include "util/assert.h"
#include "util/err.h"
#include "util/log.h"
#include "util/workqueue.h"

#define CHUNK_BYTES_MIN 4096u
#define CHUNK_BYTES_MAX (UINT64_C(64) << 20)
#define CHUNK_BYTES_DEFAULT (UINT64_C(512) << 10)
#define DISKS_MIN 3u
#define DISKS_DEFAULT 5u
#define PLUG_MAX 256u

struct raid5 {
	struct blkdev r5_bd;
	unsigned r5_disks;	     /* [const after init] */
	uint64_t r5_chunk_bytes;     /* [const after init] */
	struct workqueue *r5_worker; /* [const after init] */
	counter_t r5_full, r5_rmw, r5_reconstruct;
	counter_t r5_aligned_start, r5_aligned_end, r5_writes;
	counter_t r5_member_reads, r5_member_writes;
};

/* The part [from, to) of one stripe that is written. */
struct stripe_part {
	uint64_t sp_number;
	uint64_t sp_from_bytes;
	uint64_t sp_to_bytes;
};

/* Requests that a thread holds back, so that neighbours are seen together. */
struct raid5_batch {
	struct work_item rb_work; /* sends it when the thread was about to block */
	struct raid5 *rb_dev;
	unsigned rb_n;
	struct bio *rb_bios[PLUG_MAX];
};

static __thread struct raid5_batch *plug; /* [owner thread] NULL: not plugged */

static struct raid5 *raid5_of(struct blkdev *bd)
{
	return bd->bd_priv;
}

static uint64_t stripe_bytes(const struct raid5 *r5)
{
	return r5->r5_chunk_bytes * (r5->r5_disks - 1);
}

static unsigned parity_disk(const struct raid5 *r5, uint64_t stripe)
{
	return r5->r5_disks - 1 - (unsigned)(stripe % r5->r5_disks);
}

static unsigned data_disk(const struct raid5 *r5, uint64_t stripe, unsigned index)
{
	return (parity_disk(r5, stripe) + 1 + index) % r5->r5_disks;
}

static void add_charge(struct model_charge *mc, uint64_t offset_bytes, uint64_t len_bytes)
{
	if (mc->mc_len_bytes == 0)
		mc->mc_offset_bytes = offset_bytes;
	mc->mc_len_bytes += len_bytes;
}

/* The part of data chunk `index` that the stripe part covers, in bytes of the chunk. */
static uint64_t chunk_part(const struct raid5 *r5, const struct stripe_part *sp, unsigned index,
			   uint64_t *from)
{
	uint64_t start = r5->r5_chunk_bytes * index;
	uint64_t end = start + r5->r5_chunk_bytes;
	uint64_t to = sp->sp_to_bytes < end ? sp->sp_to_bytes : end;

	*from = sp->sp_from_bytes > start ? sp->sp_from_bytes : start;
	if (*from >= to)
		return 0;
	to -= *from;
	*from -= start;
	return to;
}

/* ---- Stripes ---- */

static void full_stripe(struct raid5 *r5, uint64_t stripe, struct model_cost *cost)
{
	counter_inc(&r5->r5_full);
	counter_add(&r5->r5_member_writes, r5->r5_disks);
	for (unsigned d = 0; d < r5->r5_disks; d++)
		add_charge(&cost->mc_write[d], stripe * r5->r5_chunk_bytes, r5->r5_chunk_bytes);
}

/* The range of the parity chunk that a part changes, and how many chunks it touches. */
static unsigned parity_range(const struct raid5 *r5, const struct stripe_part *sp, uint64_t *from,
			     uint64_t *to)
{
	unsigned touched = 0;

	*from = r5->r5_chunk_bytes;
	*to = 0;
	for (unsigned i = 0; i < r5->r5_disks - 1; i++) {
		uint64_t at;
		uint64_t len = chunk_part(r5, sp, i, &at);

		if (len == 0)
			continue;
		touched++;
		if (at < *from)
			*from = at;
		if (at + len > *to)
			*to = at + len;
	}
	return touched;
}

static void partial_stripe(struct raid5 *r5, const struct stripe_part *sp, struct model_cost *cost)
{
	unsigned parity = parity_disk(r5, sp->sp_number);
	uint64_t base = sp->sp_number * r5->r5_chunk_bytes;
	uint64_t from, to;
	unsigned touched = parity_range(r5, sp, &from, &to);
	unsigned uncovered = 0;
	bool rmw;

	for (unsigned i = 0; i < r5->r5_disks - 1; i++) {
		uint64_t at;

		uncovered += chunk_part(r5, sp, i, &at) < to - from;
	}
	/* As md decides by default: a draw is reconstructed. */
	rmw = touched + 1 < uncovered;
	counter_inc(rmw ? &r5->r5_rmw : &r5->r5_reconstruct);
	counter_add(&r5->r5_member_reads, rmw ? touched + 1 : uncovered);
	counter_add(&r5->r5_member_writes, touched + 1);
	for (unsigned i = 0; i < r5->r5_disks - 1; i++) {
		unsigned disk = data_disk(r5, sp->sp_number, i);
		uint64_t at;
		uint64_t len = chunk_part(r5, sp, i, &at);

		if (rmw && len > 0)
			add_charge(&cost->mc_read[disk], base + at, len);
		if (!rmw && len < to - from)
			add_charge(&cost->mc_read[disk], base + from, to - from - len);
		if (len > 0)
			add_charge(&cost->mc_write[disk], base + at, len);
	}
	if (rmw)
		add_charge(&cost->mc_read[parity], base + from, to - from);
	add_charge(&cost->mc_write[parity], base + from, to - from);
}

static void write_cost(struct raid5 *r5, uint64_t offset_bytes, uint64_t len_bytes,
		       struct model_cost *cost)
{
	uint64_t stripe = stripe_bytes(r5);
	uint64_t end = offset_bytes + len_bytes;

	ASSERT(stripe > 0);
	counter_inc(&r5->r5_writes);
	if (offset_bytes % stripe == 0)
		counter_inc(&r5->r5_aligned_start);
	if (end % stripe == 0)
		counter_inc(&r5->r5_aligned_end);
	while (offset_bytes < end) {
		struct stripe_part sp = {.sp_number = offset_bytes / stripe,
					 .sp_from_bytes = offset_bytes % stripe};
		uint64_t left = end - offset_bytes;

		sp.sp_to_bytes =
			sp.sp_from_bytes + left < stripe ? sp.sp_from_bytes + left : stripe;
		if (sp.sp_from_bytes == 0 && sp.sp_to_bytes == stripe)
			full_stripe(r5, sp.sp_number, cost);
		else
			partial_stripe(r5, &sp, cost);
		offset_bytes += sp.sp_to_bytes - sp.sp_from_bytes;
	}
}

static void read_cost(const struct raid5 *r5, uint64_t offset_bytes, uint64_t len_bytes,
		      struct model_cost *cost)
{
	uint64_t end = offset_bytes + len_bytes;

	while (offset_bytes < end) {
		uint64_t stripe = offset_bytes / stripe_bytes(r5);
		uint64_t in_stripe = offset_bytes % stripe_bytes(r5);
		uint64_t at = in_stripe % r5->r5_chunk_bytes;
		uint64_t n = r5->r5_chunk_bytes - at;
		unsigned disk = data_disk(r5, stripe, (unsigned)(in_stripe / r5->r5_chunk_bytes));

		if (n > end - offset_bytes)
			n = end - offset_bytes;
		add_charge(&cost->mc_read[disk], stripe * r5->r5_chunk_bytes + at, n);
		offset_bytes += n;
	}
}

/* ---- Requests ---- */

/* How many of the bios from the first on are writes that touch each other; at least 1. */
static unsigned joined(struct bio **bios, unsigned n)
{
	unsigned run = 1;

	while (run < n && bios[run]->bi_op == REQ_OP_WRITE &&
	       bios[run - 1]->bi_op == REQ_OP_WRITE &&
	       bios[run]->bi_flags == bios[run - 1]->bi_flags &&
	       bios[run]->bi_offset_bytes ==
		       bios[run - 1]->bi_offset_bytes + bios[run - 1]->bi_len_bytes)
		run++;
	return run;
}

static void submit_run(struct raid5 *r5, struct bio **bios, unsigned n)
{
	struct blkdev *lower = r5->r5_bd.bd_lower;
	const struct bio *last = bios[n - 1];
	uint64_t offset = bios[0]->bi_offset_bytes;
	uint64_t len = last->bi_offset_bytes + last->bi_len_bytes - offset;
	struct model_cost cost;
	bool data = bios[0]->bi_op == REQ_OP_WRITE || bios[0]->bi_op == REQ_OP_READ;

	memset(&cost, 0, sizeof(cost));
	if (bios[0]->bi_op == REQ_OP_WRITE)
		write_cost(r5, offset, len, &cost);
	else if (bios[0]->bi_op == REQ_OP_READ)
		read_cost(r5, offset, len, &cost);
	if (data && model_is(lower))
		model_submit_charged(lower, bios, n, &cost);
	else
		lower->bd_ops->submit(lower, bios, n);
}

static void submit_runs(struct raid5 *r5, struct bio **bios, unsigned n)
{
	while (n > 0) {
		unsigned run = joined(bios, n);

		submit_run(r5, bios, run);
		bios += run;
		n -= run;
	}
}

static void send_batch(struct raid5_batch *rb)
{
	unsigned n = rb->rb_n;

	rb->rb_n = 0;
	submit_runs(rb->rb_dev, rb->rb_bios, n);
}

static void raid5_submit(struct blkdev *bd, struct bio **bios, unsigned n)
{
	struct raid5 *r5 = raid5_of(bd);

	if (plug == NULL || plug->rb_dev != r5) {
		submit_runs(r5, bios, n);
		return;
	}
	for (unsigned i = 0; i < n; i++) {
		if (plug->rb_n == PLUG_MAX)
			send_batch(plug);
		plug->rb_bios[plug->rb_n++] = bios[i];
	}
}

static void batch_work(struct work_item *w)
{
	struct raid5_batch *rb = (void *)((uint8_t *)w - offsetof(struct raid5_batch, rb_work));

	send_batch(rb);
	free(rb);
}

/* Without memory nothing is held back. */
static void raid5_start_plug(struct blkdev *bd)
{
	plug = malloc(sizeof(*plug));
	if (plug == NULL)
		return;
	plug->rb_work = (struct work_item){.w_fn = batch_work};
	plug->rb_dev = raid5_of(bd);
	plug->rb_n = 0;
}

static void raid5_finish_plug(struct blkdev *bd, bool wait)
{
	struct raid5_batch *rb = plug;

	(void)bd;
	(void)wait; /* the devices below are still plugged, and see to it */
	plug = NULL;
	if (rb == NULL)
		return;
	send_batch(rb);
	free(rb);
}

/* The devices below may complete requests inside submit, which must not be this thread. */
static void raid5_flush_plug(struct blkdev *bd)
{
	if (plug == NULL || plug->rb_n == 0)
		return;
	queue_work(raid5_of(bd)->r5_worker, &plug->rb_work);
	raid5_start_plug(bd);
}

static void raid5_close(struct blkdev *bd)
{
	workqueue_destroy(raid5_of(bd)->r5_worker);
	filter_close_lower(bd);
	free(raid5_of(bd));
}

void raid5_read_counts(struct blkdev *bd, struct raid5_counts *counts)
{
	struct raid5 *r5 = raid5_of(bd);

	counts->rc_full = counter_read(&r5->r5_full);
	counts->rc_rmw = counter_read(&r5->r5_rmw);
	counts->rc_reconstruct = counter_read(&r5->r5_reconstruct);
	counts->rc_partial = counts->rc_rmw + counts->rc_reconstruct;
	counts->rc_aligned_start = counter_read(&r5->r5_aligned_start);
	counts->rc_aligned_end = counter_read(&r5->r5_aligned_end);
	counts->rc_writes = counter_read(&r5->r5_writes);
	counts->rc_member_reads = counter_read(&r5->r5_member_reads);
	counts->rc_member_writes = counter_read(&r5->r5_member_writes);
}

static void raid5_stats(struct blkdev *bd,
			void (*emit)(void *arg, const char *name, uint64_t value), void *arg)
{
	struct raid5_counts rc;

	raid5_read_counts(bd, &rc);
	emit(arg, "full", rc.rc_full);
	emit(arg, "partial", rc.rc_partial);
	emit(arg, "rmw", rc.rc_rmw);
	emit(arg, "reconstruct", rc.rc_reconstruct);
	emit(arg, "writes", rc.rc_writes);
	emit(arg, "aligned_start", rc.rc_aligned_start);
	emit(arg, "aligned_end", rc.rc_aligned_end);
	emit(arg, "member_reads", rc.rc_member_reads);
	emit(arg, "member_writes", rc.rc_member_writes);
}

static const struct blkdev_ops raid5_ops = {
	.submit = raid5_submit,
	.close = raid5_close,
	.stats = raid5_stats,
	.start_plug = raid5_start_plug,
	.finish_plug = raid5_finish_plug,
	.flush_plug = raid5_flush_plug,
};

/* ---- Opening ---- */

struct blkdev *raid5_open(struct blkdev *lower, unsigned disks, uint64_t chunk_bytes)
{
	struct raid5 *r5;

	if (disks < DISKS_MIN || disks > MODEL_MEMBERS_MAX || chunk_bytes < CHUNK_BYTES_MIN ||
	    chunk_bytes > CHUNK_BYTES_MAX || (chunk_bytes & (chunk_bytes - 1)) != 0) {
		log_err("blk=raid5: disks must be 3 to 32, chunk a power of two from 4k to 64m");
		return ERR_PTR(-EINVAL);
	}
	r5 = calloc(1, sizeof(*r5));
	if (r5 == NULL)
		return ERR_PTR(-ENOMEM);
	r5->r5_worker = workqueue_create("ext4d-raid5", 1);
	if (IS_ERR(r5->r5_worker)) {
		int err = PTR_ERR(r5->r5_worker);

		free(r5);
		return ERR_PTR(err);
	}
	filter_init(&r5->r5_bd, lower, &raid5_ops, "raid5", r5);
	r5->r5_disks = disks;
	r5->r5_chunk_bytes = chunk_bytes;
	if (model_is(lower))
		model_set_members(lower, disks);
	return &r5->r5_bd;
}

struct blkdev *raid5_filter_open(struct blkdev *lower, const struct filter_args *args)
{
	uint64_t disks = DISKS_DEFAULT;
	uint64_t chunk = CHUNK_BYTES_DEFAULT;

	for (unsigned i = 0; i < args->fa_n; i++) {
		uint64_t value;
		int err = filter_parse_number(args, i, &value);

		if (err == 0 && strcmp(args->fa_key[i], "disks") == 0 && value <= MODEL_MEMBERS_MAX)
			disks = value;
		else if (err == 0 && strcmp(args->fa_key[i], "chunk") == 0)
			chunk = value;
		else if (err == 0)
			err = filter_bad_argument(args, i);
		if (err != 0)
			return ERR_PTR(err);
	}
	return raid5_open(lower, (unsigned)disks, chunk);
}
