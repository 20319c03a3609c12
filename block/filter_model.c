/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * filter_model.c - a slow device on top of a fast one.
 *
 * A request goes down at once; what it would cost on the modelled device is worked out at its
 * submission, and it is completed when both that time has come and the device below is done. The
 * device has a queue of slots and one mechanism behind it: a request waits for a slot, then for the
 * mechanism, which it keeps for its seek and its transfer (or 1/IOPS if that is longer), and ends
 * after the latency, in which the mechanism serves others. A flush waits for all and stops all.
 * As in the block layer only mp_nr_requests may be on their way: whoever submits more waits, which
 * is what congestion means to writeback. A completion that submits does not wait.
 *
 * Invariants: (1) no request ends before the one whose place in the mechanism it waited for, but
 * for the latency. (2) m_slot_free_ns holds mp_queue_depth times. (3) a request counts in
 * mo_in_flight from before it goes down until just before its end is told.
 * Locking: mo_lock (no rank) for the members' times and mo_in_flight, never held over I/O or a
 * completion.
 */
#include "block/filter_model.h"

#include <stdlib.h>
#include <string.h>

#include "block/backend.h"
#include "block/delayq.h"
#include "block/filter.h"
#include "util/assert.h"
#include "util/err.h"
#include "util/lock.h"
#include "util/log.h"
#include "util/time.h"

#define USEC UINT64_C(1000)
#define MSEC UINT64_C(1000000)
#define MB UINT64_C(1000000)
#define NR_REQUESTS 128u /* as queue/nr_requests of the kernel */

struct member {
	uint64_t m_busy_until_ns; /* the mechanism */
	uint64_t m_last_end_bytes;
	uint64_t m_slot_free_ns[MODEL_DEPTH_MAX];
};

struct model {
	struct blkdev mo_bd;
	struct model_params mo_params;
	struct delayq *mo_queue;
	struct mutex mo_lock;
	unsigned mo_nmembers;	  /* [const after init] */
	struct member *mo_member; /* [mo_lock] */
	unsigned mo_in_flight;	  /* [mo_lock] */
	struct cond mo_room;	  /* fewer than mp_nr_requests are in flight */
	counter_t mo_seeks;	  /* [atomic] */
	counter_t mo_congested;	  /* [atomic] times that a submitter waited */
	counter_t mo_busy_ns;	  /* [atomic] time of the mechanisms */
};

struct model_child {
	struct delay_item ch_delay;
	struct bio ch_bio;
	struct bio *ch_parent;
	struct model *ch_model;
};

static __thread bool in_completion; /* [owner thread] may not wait for others to complete */

static const struct {
	const char *name;
	struct model_params params;
} presets[] = {
	{"sata3",
	 {.mp_read_bytes_per_s = 540 * MB,
	  .mp_write_bytes_per_s = 500 * MB,
	  .mp_read_iops = 95000,
	  .mp_write_iops = 85000,
	  .mp_latency_ns = 70 * USEC,
	  .mp_flush_ns = 600 * USEC,
	  .mp_queue_depth = 32}},
	{"sdcard",
	 {.mp_read_bytes_per_s = 80 * MB,
	  .mp_write_bytes_per_s = 25 * MB,
	  .mp_read_iops = 2500,
	  .mp_write_iops = 600,
	  .mp_latency_ns = 400 * USEC,
	  .mp_seek_ns = 300 * USEC,
	  .mp_flush_ns = 6 * MSEC,
	  .mp_queue_depth = 1}},
	{"usb2",
	 {.mp_read_bytes_per_s = 34 * MB,
	  .mp_write_bytes_per_s = 28 * MB,
	  .mp_read_iops = 2000,
	  .mp_write_iops = 1200,
	  .mp_latency_ns = 500 * USEC,
	  .mp_flush_ns = 3 * MSEC,
	  .mp_queue_depth = 1}},
	{"hdd",
	 {.mp_read_bytes_per_s = 160 * MB,
	  .mp_write_bytes_per_s = 150 * MB,
	  .mp_latency_ns = 100 * USEC,
	  .mp_seek_ns = 8 * MSEC,
	  .mp_flush_ns = 10 * MSEC,
	  .mp_queue_depth = 32}},
};

static struct model *model_of(struct blkdev *bd)
{
	return bd->bd_priv;
}

/* ---- What a request costs ---- */

static uint64_t later(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static uint64_t transfer_ns(const struct model_params *mp, bool write, uint64_t len_bytes)
{
	uint64_t rate = write ? mp->mp_write_bytes_per_s : mp->mp_read_bytes_per_s;
	uint64_t iops = write ? mp->mp_write_iops : mp->mp_read_iops;
	uint64_t ns = 0;

	if (rate > 0)
		ns = len_bytes / rate * NSEC_PER_SEC + len_bytes % rate * NSEC_PER_SEC / rate;
	return iops > 0 ? later(ns, NSEC_PER_SEC / iops) : ns;
}

static uint64_t *free_slot(const struct model_params *mp, struct member *m)
{
	uint64_t *first = &m->m_slot_free_ns[0];

	for (unsigned i = 1; i < mp->mp_queue_depth; i++)
		if (m->m_slot_free_ns[i] < *first)
			first = &m->m_slot_free_ns[i];
	return first;
}

/* A transfer that arrives at `arrival`: when it ends. */
static uint64_t charge_locked(struct model *mo, unsigned index, bool write,
			      const struct model_charge *mc, uint64_t arrival)
{
	const struct model_params *mp = &mo->mo_params;
	struct member *m = &mo->mo_member[index];
	uint64_t *slot = free_slot(mp, m);
	uint64_t start = later(later(arrival, *slot), m->m_busy_until_ns);
	uint64_t busy = transfer_ns(mp, write, mc->mc_len_bytes);

	if (mp->mp_seek_ns > 0 && mc->mc_offset_bytes != m->m_last_end_bytes) {
		busy += mp->mp_seek_ns;
		counter_inc(&mo->mo_seeks);
	}
	counter_add(&mo->mo_busy_ns, busy);
	m->m_last_end_bytes = mc->mc_offset_bytes + mc->mc_len_bytes;
	m->m_busy_until_ns = start + busy;
	*slot = start + busy + mp->mp_latency_ns;
	return *slot;
}

static uint64_t charge_flush_locked(struct model *mo, uint64_t arrival)
{
	uint64_t end = arrival;

	for (unsigned i = 0; i < mo->mo_nmembers; i++) {
		struct member *m = &mo->mo_member[i];

		m->m_busy_until_ns = later(arrival, m->m_busy_until_ns) + mo->mo_params.mp_flush_ns;
		counter_add(&mo->mo_busy_ns, mo->mo_params.mp_flush_ns);
		end = later(end, m->m_busy_until_ns);
	}
	return end;
}

static uint64_t charge_phase_locked(struct model *mo, bool write, const struct model_charge *mc,
				    uint64_t arrival)
{
	uint64_t end = arrival;

	for (unsigned i = 0; i < mo->mo_nmembers; i++)
		if (mc[i].mc_len_bytes > 0)
			end = later(end, charge_locked(mo, i, write, &mc[i], arrival));
	return end;
}

static uint64_t charge_bio_locked(struct model *mo, const struct bio *bio, uint64_t arrival)
{
	bool write = bio->bi_op == REQ_OP_WRITE;
	struct model_charge mc = {bio->bi_offset_bytes, bio->bi_len_bytes};
	uint64_t end;

	if (bio->bi_op == REQ_OP_FLUSH)
		return charge_flush_locked(mo, arrival);
	if (bio->bi_op == REQ_OP_DISCARD || bio->bi_op == REQ_OP_WRITE_ZEROES)
		return later(arrival, mo->mo_member[0].m_busy_until_ns) +
		       mo->mo_params.mp_latency_ns;
	end = charge_locked(mo, 0, write, &mc, arrival);
	return write && (bio->bi_flags & REQ_FUA) != 0 ? end + mo->mo_params.mp_flush_ns : end;
}

/* ---- Requests ---- */

/* Room for n more, which then count as in flight. True: it had to be waited for. */
static bool get_requests(struct model *mo, unsigned n)
{
	unsigned max = mo->mo_params.mp_nr_requests;
	bool waits;

	mutex_lock(&mo->mo_lock);
	waits = max > 0 && mo->mo_in_flight >= max && !in_completion;
	if (waits)
		counter_inc(&mo->mo_congested);
	while (waits && mo->mo_in_flight >= max)
		cond_wait(&mo->mo_room, &mo->mo_lock);
	mo->mo_in_flight += n;
	mutex_unlock(&mo->mo_lock);
	return waits;
}

static void put_request(struct model *mo)
{
	mutex_lock(&mo->mo_lock);
	mo->mo_in_flight--;
	cond_signal(&mo->mo_room);
	mutex_unlock(&mo->mo_lock);
}

static void end_child(struct delay_item *item)
{
	struct model_child *child =
		(void *)((uint8_t *)item - offsetof(struct model_child, ch_delay));
	struct bio *parent = child->ch_parent;
	int status = child->ch_bio.bi_status;
	bool nested = in_completion;

	put_request(child->ch_model);
	free(child);
	in_completion = true;
	bio_endio(parent, status);
	in_completion = nested;
}

static void child_end_io(struct bio *bio)
{
	struct model_child *child = bio->bi_private;

	/* Without memory for the queue the request ends early. */
	if (delayq_add(child->ch_model->mo_queue, &child->ch_delay) != 0)
		end_child(&child->ch_delay);
}

static void submit_until(struct model *mo, struct bio *parent, uint64_t deadline_ns)
{
	struct model_child *child = malloc(sizeof(*child));
	struct bio *bio;

	if (child == NULL) {
		put_request(mo);
		bio_endio(parent, -ENOMEM);
		return;
	}
	child->ch_delay.di_fn = end_child;
	child->ch_delay.di_deadline_ns = deadline_ns;
	child->ch_bio = *parent;
	child->ch_bio.bi_end_io = child_end_io;
	child->ch_bio.bi_private = child;
	child->ch_parent = parent;
	child->ch_model = mo;
	bio = &child->ch_bio;
	blk_submit_lower(mo->mo_bd.bd_lower, &bio, 1);
}

static void model_submit(struct blkdev *bd, struct bio **bios, unsigned n)
{
	struct model *mo = model_of(bd);
	uint64_t arrival = delayq_now(mo->mo_queue);

	for (unsigned i = 0; i < n; i++) {
		uint64_t deadline;

		if (get_requests(mo, 1))
			arrival = delayq_now(mo->mo_queue);
		mutex_lock(&mo->mo_lock);
		deadline = charge_bio_locked(mo, bios[i], arrival);
		mutex_unlock(&mo->mo_lock);
		submit_until(mo, bios[i], deadline);
	}
}

void model_submit_charged(struct blkdev *bd, struct bio **bios, unsigned n,
			  const struct model_cost *cost)
{
	struct model *mo = model_of(bd);
	uint64_t deadline;

	(void)get_requests(mo, n);
	deadline = delayq_now(mo->mo_queue);
	mutex_lock(&mo->mo_lock);
	deadline = charge_phase_locked(mo, false, cost->mc_read, deadline);
	deadline = charge_phase_locked(mo, true, cost->mc_write, deadline);
	if ((bios[0]->bi_flags & REQ_FUA) != 0)
		deadline += mo->mo_params.mp_flush_ns;
	mutex_unlock(&mo->mo_lock);
	for (unsigned i = 0; i < n; i++)
		submit_until(mo, bios[i], deadline);
}

static void model_close(struct blkdev *bd)
{
	struct model *mo = model_of(bd);

	delayq_destroy(mo->mo_queue);
	filter_close_lower(bd);
	cond_destroy(&mo->mo_room);
	mutex_destroy(&mo->mo_lock);
	free(mo->mo_member);
	free(mo);
}

static void model_stats(struct blkdev *bd,
			void (*emit)(void *arg, const char *name, uint64_t value), void *arg)
{
	struct model *mo = model_of(bd);

	emit(arg, "seeks", counter_read(&mo->mo_seeks));
	emit(arg, "busy_ns", counter_read(&mo->mo_busy_ns));
	emit(arg, "congested", counter_read(&mo->mo_congested));
}

static const struct blkdev_ops model_ops = {
	.submit = model_submit,
	.close = model_close,
	.stats = model_stats,
};

/* ---- Opening ---- */

const struct model_params *model_preset(const char *name)
{
	for (size_t i = 0; i < sizeof(presets) / sizeof(presets[0]); i++)
		if (strcmp(presets[i].name, name) == 0)
			return &presets[i].params;
	return NULL;
}

uint64_t model_clock_ns(struct blkdev *bd)
{
	return delayq_now(model_of(bd)->mo_queue);
}

bool model_is(const struct blkdev *bd)
{
	return bd->bd_ops == &model_ops;
}

void model_set_members(struct blkdev *bd, unsigned n)
{
	struct model *mo = model_of(bd);

	ASSERT(n > 0 && n <= MODEL_MEMBERS_MAX);
	mo->mo_nmembers = n;
}

struct blkdev *model_open(struct blkdev *lower, const struct model_params *params,
			  bool clock_virtual)
{
	struct model *mo = calloc(1, sizeof(*mo));
	int err;

	ASSERT_CMP(params->mp_queue_depth, <=, MODEL_DEPTH_MAX);
	if (mo == NULL)
		return ERR_PTR(-ENOMEM);
	filter_init(&mo->mo_bd, lower, &model_ops, "model", mo);
	mo->mo_params = *params;
	if (mo->mo_params.mp_queue_depth == 0)
		mo->mo_params.mp_queue_depth = 1;
	mo->mo_nmembers = 1;
	mo->mo_member = calloc(MODEL_MEMBERS_MAX, sizeof(mo->mo_member[0]));
	if (mo->mo_member == NULL) {
		err = -ENOMEM;
		goto out_free;
	}
	mo->mo_queue = delayq_create(clock_virtual);
	if (IS_ERR(mo->mo_queue)) {
		err = PTR_ERR(mo->mo_queue);
		goto out_members;
	}
	mutex_init(&mo->mo_lock, LOCK_RANK_NONE);
	cond_init(&mo->mo_room);
	return &mo->mo_bd;

out_members:
	free(mo->mo_member);
out_free:
	free(mo);
	return ERR_PTR(err);
}

/* ---- -o blk=model:... ---- */

static int parse_value(struct model_params *mp, const struct filter_args *args, unsigned i)
{
	const char *key = args->fa_key[i];
	uint64_t value;
	int err = filter_parse_number(args, i, &value);

	if (err != 0)
		return err;
	if (strcmp(key, "bw") == 0)
		mp->mp_read_bytes_per_s = mp->mp_write_bytes_per_s = value;
	else if (strcmp(key, "read_bw") == 0)
		mp->mp_read_bytes_per_s = value;
	else if (strcmp(key, "write_bw") == 0)
		mp->mp_write_bytes_per_s = value;
	else if (strcmp(key, "iops") == 0)
		mp->mp_read_iops = mp->mp_write_iops = value;
	else if (strcmp(key, "read_iops") == 0)
		mp->mp_read_iops = value;
	else if (strcmp(key, "write_iops") == 0)
		mp->mp_write_iops = value;
	else if (strcmp(key, "latency_us") == 0 && value <= UINT32_MAX)
		mp->mp_latency_ns = value * USEC;
	else if (strcmp(key, "seek_us") == 0 && value <= UINT32_MAX)
		mp->mp_seek_ns = value * USEC;
	else if (strcmp(key, "flush_us") == 0 && value <= UINT32_MAX)
		mp->mp_flush_ns = value * USEC;
	else if (strcmp(key, "qd") == 0 && value >= 1 && value <= MODEL_DEPTH_MAX)
		mp->mp_queue_depth = (unsigned)value;
	else if (strcmp(key, "nr_requests") == 0 && value <= UINT32_MAX)
		mp->mp_nr_requests = (unsigned)value;
	else
		return filter_bad_argument(args, i);
	return 0;
}

struct blkdev *model_filter_open(struct blkdev *lower, const struct filter_args *args)
{
	struct model_params params = {.mp_queue_depth = 1, .mp_nr_requests = NR_REQUESTS};

	for (unsigned i = 0; i < args->fa_n; i++) {
		const struct model_params *preset = model_preset(args->fa_key[i]);
		int err = 0;

		if (args->fa_value[i] == NULL && preset != NULL) {
			params = *preset;
			params.mp_nr_requests = NR_REQUESTS;
		} else if (args->fa_value[i] == NULL) {
			err = filter_bad_argument(args, i);
		} else {
			err = parse_value(&params, args, i);
		}
		if (err != 0)
			return ERR_PTR(err);
	}
	if (args->fa_n == 0) {
		log_err("blk=model: a preset (sata3, sdcard, usb2, hdd) or parameters are needed");
		return ERR_PTR(-EINVAL);
	}
	return model_open(lower, &params, false);
}
