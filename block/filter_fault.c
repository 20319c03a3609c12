/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * filter_fault.c - a device that fails on purpose.
 *
 * Every request is counted and shown to the armed rules; the first rule that matches acts. What no
 * rule touches goes straight down. With the volatile cache all requests go through one thread, in
 * order, which does them on the cache (fault_cache.c); without it the filter adds no thread but
 * that of the delays.
 *
 * Invariants: (1) a request is acted on by at most one rule. (2) Once the power is off no request
 * reaches the device, but for the cache's remains at the cut itself. (3) The same seed, rules and
 * order of requests give the same faults.
 * Locking: ff_lock (no rank) for rules and the queue; ff_cache_lock (no rank) for the cache, held
 * over its I/O; neither over a completion.
 */
#include "block/filter_fault.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "block/backend.h"
#include "block/delayq.h"
#include "block/fault_cache.h"
#include "block/filter.h"
#include "util/assert.h"
#include "util/err.h"
#include "util/lock.h"
#include "util/log.h"
#include "util/splitmix.h"
#include "util/time.h"

#define CACHE_LIMIT_BYTES (UINT64_C(64) << 20)
#define REQ_OPS 5

struct armed_rule {
	struct fault_rule ar_rule;
	bool ar_armed;
	uint64_t ar_seen; /* matching requests */
	uint64_t ar_hits;
};

struct fault_filter {
	struct blkdev ff_bd;
	struct mutex ff_lock;
	struct armed_rule ff_rule[FAULT_RULES_MAX]; /* [ff_lock] */
	uint64_t ff_requests[REQ_OPS];		    /* [ff_lock] */
	uint64_t ff_seed;			    /* [ff_lock] */
	_Atomic bool ff_off;			    /* [atomic] power */
	struct delayq *ff_delays;		    /* [const after init] */

	struct mutex ff_cache_lock;
	struct fault_cache *ff_cache; /* [ff_cache_lock]; NULL: none */
	struct cond ff_more;
	struct bio *ff_first; /* [ff_lock] for the cache's thread, chained by bi_driver */
	struct bio *ff_last;  /* [ff_lock] */
	bool ff_stop;	      /* [ff_lock] */
	pthread_t ff_thread;
};

/* A request that the filter holds on to: delayed, or torn. */
struct fault_child {
	struct delay_item fk_delay;
	struct bio fk_bio;
	struct bio *fk_parent;
	struct fault_filter *fk_filter;
	uint64_t fk_delay_ns;
	int fk_status; /* torn: what is reported */
	struct iovec fk_iov;
};

static struct fault_filter *fault_of(struct blkdev *bd)
{
	return bd->bd_priv;
}

/* ---- Rules ---- */

static bool in_range(const struct fault_rule *r, const struct bio *bio)
{
	if (bio->bi_op == REQ_OP_FLUSH)
		return r->fr_from_bytes == 0;
	if (r->fr_to_bytes != 0 && bio->bi_offset_bytes >= r->fr_to_bytes)
		return false;
	return bio->bi_offset_bytes + bio->bi_len_bytes > r->fr_from_bytes;
}

static bool matches(const struct fault_rule *r, const struct bio *bio)
{
	return (r->fr_ops & FAULT_OP(bio->bi_op)) != 0 &&
	       (bio->bi_flags & r->fr_flags) == r->fr_flags && in_range(r, bio);
}

/* Count a matching request; true if it is the rule's turn. */
static bool acts_locked(struct fault_filter *ff, struct armed_rule *ar)
{
	uint64_t nth = ar->ar_rule.fr_nth > 0 ? ar->ar_rule.fr_nth : 1;
	uint64_t count = ar->ar_rule.fr_count > 0 ? ar->ar_rule.fr_count : 1;

	ar->ar_seen++;
	if (ar->ar_seen < nth || ar->ar_seen - nth >= count)
		return false;
	if (ar->ar_rule.fr_permille != 0 &&
	    splitmix64(&ff->ff_seed) % 1000 >= ar->ar_rule.fr_permille)
		return false;
	ar->ar_hits++;
	return true;
}

/* True with *rule filled in if a rule acts on this request. *dice is for the rule. */
static bool choose_rule(struct fault_filter *ff, const struct bio *bio, struct fault_rule *rule,
			uint64_t *dice)
{
	bool found = false;

	mutex_lock(&ff->ff_lock);
	ff->ff_requests[bio->bi_op]++;
	for (unsigned i = 0; i < FAULT_RULES_MAX && !found; i++) {
		struct armed_rule *ar = &ff->ff_rule[i];

		if (!ar->ar_armed || !matches(&ar->ar_rule, bio))
			continue;
		found = acts_locked(ff, ar);
		if (found) {
			*rule = ar->ar_rule;
			*dice = splitmix64(&ff->ff_seed);
		}
	}
	mutex_unlock(&ff->ff_lock);
	return found;
}

/* ---- Passing on ---- */

static void queue_for_cache(struct fault_filter *ff, struct bio *bio)
{
	bio->bi_driver = NULL;
	mutex_lock(&ff->ff_lock);
	if (ff->ff_last != NULL)
		ff->ff_last->bi_driver = bio;
	else
		ff->ff_first = bio;
	ff->ff_last = bio;
	cond_signal(&ff->ff_more);
	mutex_unlock(&ff->ff_lock);
}

static void pass_on(struct fault_filter *ff, struct bio *bio)
{
	struct blkdev *lower = ff->ff_bd.bd_lower;

	if (ff->ff_cache != NULL)
		queue_for_cache(ff, bio);
	else
		lower->bd_ops->submit(lower, &bio, 1);
}

static struct bio *next_for_cache(struct fault_filter *ff)
{
	struct bio *bio;

	mutex_lock(&ff->ff_lock);
	while (ff->ff_first == NULL && !ff->ff_stop)
		cond_wait(&ff->ff_more, &ff->ff_lock);
	bio = ff->ff_first;
	if (bio != NULL) {
		ff->ff_first = bio->bi_driver;
		if (ff->ff_first == NULL)
			ff->ff_last = NULL;
	}
	mutex_unlock(&ff->ff_lock);
	return bio;
}

static void *cache_thread(void *arg)
{
	struct fault_filter *ff = arg;
	struct bio *bio;

	pthread_setname_np(pthread_self(), "ext4d-fault");
	while ((bio = next_for_cache(ff)) != NULL) {
		int status = -EIO;

		mutex_lock(&ff->ff_cache_lock);
		if (!atomic_load(&ff->ff_off))
			status = fault_cache_do(ff->ff_cache, bio);
		mutex_unlock(&ff->ff_cache_lock);
		bio_endio(bio, status);
	}
	return NULL;
}

/* ---- Acting ---- */

static void free_child(struct fault_child *child)
{
	free(child->fk_iov.iov_base);
	free(child);
}

static void end_delayed(struct delay_item *item)
{
	struct fault_child *child =
		(void *)((uint8_t *)item - offsetof(struct fault_child, fk_delay));
	struct bio *parent = child->fk_parent;
	int status = child->fk_bio.bi_status;

	free_child(child);
	bio_endio(parent, status);
}

static void delayed_end_io(struct bio *bio)
{
	struct fault_child *child = bio->bi_private;
	struct delayq *q = child->fk_filter->ff_delays;

	child->fk_delay.di_fn = end_delayed;
	child->fk_delay.di_deadline_ns = delayq_now(q) + child->fk_delay_ns;
	/* Without memory for the queue the request is not delayed. */
	if (delayq_add(q, &child->fk_delay) != 0)
		end_delayed(&child->fk_delay);
}

static void torn_end_io(struct bio *bio)
{
	struct fault_child *child = bio->bi_private;
	struct bio *parent = child->fk_parent;
	int status = bio->bi_status != 0 ? bio->bi_status : child->fk_status;

	free_child(child);
	bio_endio(parent, status);
}

static struct fault_child *make_child(struct fault_filter *ff, struct bio *parent,
				      void (*end_io)(struct bio *bio))
{
	struct fault_child *child = calloc(1, sizeof(*child));

	if (child == NULL)
		return NULL;
	child->fk_bio = *parent;
	child->fk_bio.bi_top = NULL;
	child->fk_bio.bi_end_io = end_io;
	child->fk_bio.bi_private = child;
	child->fk_parent = parent;
	child->fk_filter = ff;
	return child;
}

static void delay(struct fault_filter *ff, struct bio *bio, const struct fault_rule *rule)
{
	struct fault_child *child = make_child(ff, bio, delayed_end_io);

	if (child == NULL) {
		bio_endio(bio, -ENOMEM);
		return;
	}
	child->fk_delay_ns = rule->fr_delay_ns;
	pass_on(ff, &child->fk_bio);
}

static void tear(struct fault_filter *ff, struct bio *bio, const struct fault_rule *rule,
		 uint64_t dice)
{
	uint64_t sectors = bio->bi_len_bytes / ff->ff_bd.bd_logical_block_bytes;
	uint64_t keep_bytes = dice % sectors * ff->ff_bd.bd_logical_block_bytes;
	struct fault_child *child;

	if (keep_bytes == 0 || bio->bi_op != REQ_OP_WRITE) {
		bio_endio(bio, rule->fr_error);
		return;
	}
	child = make_child(ff, bio, torn_end_io);
	if (child == NULL || posix_memalign(&child->fk_iov.iov_base, 4096, (size_t)keep_bytes)) {
		free(child);
		bio_endio(bio, -ENOMEM);
		return;
	}
	child->fk_iov.iov_len = (size_t)keep_bytes;
	bio_copy_out(bio, 0, child->fk_iov.iov_base, child->fk_iov.iov_len);
	child->fk_bio.bi_iov = &child->fk_iov;
	child->fk_bio.bi_iovcnt = 1;
	child->fk_bio.bi_len_bytes = keep_bytes;
	child->fk_status = rule->fr_error;
	pass_on(ff, &child->fk_bio);
}

static void act(struct fault_filter *ff, struct bio *bio, const struct fault_rule *rule,
		uint64_t dice)
{
	switch (rule->fr_kind) {
	case FAULT_ERROR:
		bio_endio(bio, rule->fr_error != 0 ? rule->fr_error : -EIO);
		break;
	case FAULT_TORN:
		if (req_op_is_write(bio->bi_op))
			tear(ff, bio, rule, dice);
		else
			pass_on(ff, bio);
		break;
	case FAULT_DROP:
		if (bio->bi_op != REQ_OP_READ)
			bio_endio(bio, rule->fr_error);
		else
			pass_on(ff, bio);
		break;
	case FAULT_DELAY:
		delay(ff, bio, rule);
		break;
	case FAULT_POWER_CUT:
		atomic_store(&ff->ff_off, true);
		bio_endio(bio, -EIO);
		break;
	}
}

static void fault_submit(struct blkdev *bd, struct bio **bios, unsigned n)
{
	struct fault_filter *ff = fault_of(bd);

	for (unsigned i = 0; i < n; i++) {
		struct fault_rule rule;
		uint64_t dice;

		if (atomic_load(&ff->ff_off))
			bio_endio(bios[i], -EIO);
		else if (choose_rule(ff, bios[i], &rule, &dice))
			act(ff, bios[i], &rule, dice);
		else
			pass_on(ff, bios[i]);
	}
}

/* ---- Control ---- */

int fault_arm(struct blkdev *bd, const struct fault_rule *rule)
{
	struct fault_filter *ff = fault_of(bd);
	int id = -ENOSPC;

	ASSERT((rule->fr_ops & ~FAULT_ANY_OP) == 0 && rule->fr_ops != 0);
	ASSERT_CMP(rule->fr_error, <=, 0);
	mutex_lock(&ff->ff_lock);
	for (int i = 0; i < FAULT_RULES_MAX && id < 0; i++) {
		if (ff->ff_rule[i].ar_armed)
			continue;
		ff->ff_rule[i] = (struct armed_rule){.ar_rule = *rule, .ar_armed = true};
		id = i;
	}
	mutex_unlock(&ff->ff_lock);
	return id;
}

void fault_disarm(struct blkdev *bd, int id)
{
	struct fault_filter *ff = fault_of(bd);

	ASSERT(id >= 0 && id < FAULT_RULES_MAX);
	mutex_lock(&ff->ff_lock);
	ff->ff_rule[id].ar_armed = false;
	mutex_unlock(&ff->ff_lock);
}

void fault_disarm_all(struct blkdev *bd)
{
	for (int i = 0; i < FAULT_RULES_MAX; i++)
		fault_disarm(bd, i);
}

uint64_t fault_hits(struct blkdev *bd, int id)
{
	struct fault_filter *ff = fault_of(bd);
	uint64_t hits;

	ASSERT(id >= 0 && id < FAULT_RULES_MAX);
	mutex_lock(&ff->ff_lock);
	hits = ff->ff_rule[id].ar_hits;
	mutex_unlock(&ff->ff_lock);
	return hits;
}

uint64_t fault_requests(struct blkdev *bd, unsigned ops)
{
	struct fault_filter *ff = fault_of(bd);
	uint64_t sum = 0;

	mutex_lock(&ff->ff_lock);
	for (unsigned op = 0; op < REQ_OPS; op++)
		if ((ops & FAULT_OP(op)) != 0)
			sum += ff->ff_requests[op];
	mutex_unlock(&ff->ff_lock);
	return sum;
}

void fault_power_cut(struct blkdev *bd)
{
	struct fault_filter *ff = fault_of(bd);

	atomic_store(&ff->ff_off, true);
	if (ff->ff_cache == NULL)
		return;
	mutex_lock(&ff->ff_cache_lock);
	fault_cache_power_cut(ff->ff_cache);
	mutex_unlock(&ff->ff_cache_lock);
}

void fault_power_on(struct blkdev *bd)
{
	/* A cut that a rule made has not touched the cache yet. */
	if (atomic_load(&fault_of(bd)->ff_off))
		fault_power_cut(bd);
	atomic_store(&fault_of(bd)->ff_off, false);
}

uint64_t fault_cached_bytes(struct blkdev *bd)
{
	struct fault_filter *ff = fault_of(bd);
	uint64_t bytes;

	if (ff->ff_cache == NULL)
		return 0;
	mutex_lock(&ff->ff_cache_lock);
	bytes = fault_cache_bytes(ff->ff_cache);
	mutex_unlock(&ff->ff_cache_lock);
	return bytes;
}

/* ---- The device ---- */

static void stop_cache(struct fault_filter *ff)
{
	mutex_lock(&ff->ff_lock);
	ff->ff_stop = true;
	cond_signal(&ff->ff_more);
	mutex_unlock(&ff->ff_lock);
	pthread_join(ff->ff_thread, NULL);
	if (atomic_load(&ff->ff_off))
		fault_cache_power_cut(ff->ff_cache);
	fault_cache_destroy(ff->ff_cache);
}

static void free_filter(struct fault_filter *ff)
{
	cond_destroy(&ff->ff_more);
	mutex_destroy(&ff->ff_cache_lock);
	mutex_destroy(&ff->ff_lock);
	free(ff);
}

static void fault_close(struct blkdev *bd)
{
	struct fault_filter *ff = fault_of(bd);

	if (ff->ff_cache != NULL)
		stop_cache(ff);
	delayq_destroy(ff->ff_delays);
	filter_close_lower(bd);
	free_filter(ff);
}

static void fault_stats(struct blkdev *bd,
			void (*emit)(void *arg, const char *name, uint64_t value), void *arg)
{
	struct fault_filter *ff = fault_of(bd);
	uint64_t hits = 0;

	mutex_lock(&ff->ff_lock);
	for (unsigned i = 0; i < FAULT_RULES_MAX; i++)
		hits += ff->ff_rule[i].ar_hits;
	mutex_unlock(&ff->ff_lock);
	emit(arg, "hits", hits);
	emit(arg, "cached_bytes", fault_cached_bytes(bd));
}

static const struct blkdev_ops fault_ops = {
	.submit = fault_submit,
	.close = fault_close,
	.stats = fault_stats,
};

static int start_cache(struct fault_filter *ff, const struct fault_options *options)
{
	uint64_t limit = options->fo_cache_limit_bytes;
	int err;

	ff->ff_cache = fault_cache_create(ff->ff_bd.bd_lower, limit > 0 ? limit : CACHE_LIMIT_BYTES,
					  options->fo_seed);
	if (IS_ERR(ff->ff_cache))
		return PTR_ERR(ff->ff_cache);
	err = pthread_create(&ff->ff_thread, NULL, cache_thread, ff);
	if (err != 0)
		fault_cache_destroy(ff->ff_cache);
	return -err;
}

struct blkdev *fault_open(struct blkdev *lower, const struct fault_options *options)
{
	struct fault_filter *ff = calloc(1, sizeof(*ff));
	int err = 0;

	if (ff == NULL)
		return ERR_PTR(-ENOMEM);
	filter_init(&ff->ff_bd, lower, &fault_ops, "fault", ff);
	mutex_init(&ff->ff_lock, LOCK_RANK_NONE);
	mutex_init(&ff->ff_cache_lock, LOCK_RANK_NONE);
	cond_init(&ff->ff_more);
	ff->ff_seed = options->fo_seed;
	ff->ff_delays = delayq_create(false);
	if (IS_ERR(ff->ff_delays)) {
		err = PTR_ERR(ff->ff_delays);
		goto out_free;
	}
	if (options->fo_cache)
		err = start_cache(ff, options);
	if (err != 0)
		goto out_delays;
	return &ff->ff_bd;

out_delays:
	delayq_destroy(ff->ff_delays);
out_free:
	free_filter(ff);
	return ERR_PTR(err);
}

/* ---- -o blk=fault:... ---- */

struct fault_parse {
	struct fault_options fp_options;
	struct fault_rule fp_rule;
	bool fp_has_rule;
};

static bool parse_word(struct fault_parse *fp, const char *word)
{
	static const struct {
		const char *name;
		enum fault_kind kind;
	} kinds[] = {{"error", FAULT_ERROR},
		     {"torn", FAULT_TORN},
		     {"drop", FAULT_DROP},
		     {"delay", FAULT_DELAY},
		     {"cut", FAULT_POWER_CUT}};

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		if (strcmp(word, kinds[i].name) != 0)
			continue;
		fp->fp_rule.fr_kind = kinds[i].kind;
		fp->fp_has_rule = true;
		return true;
	}
	if (strcmp(word, "cache") == 0)
		fp->fp_options.fo_cache = true;
	else if (strcmp(word, "once") == 0)
		fp->fp_rule.fr_count = 1;
	else if (strcmp(word, "forever") == 0)
		fp->fp_rule.fr_count = FAULT_FOREVER;
	else if (strcmp(word, "meta") == 0)
		fp->fp_rule.fr_flags |= REQ_META;
	else if (strcmp(word, "journal") == 0)
		fp->fp_rule.fr_flags |= REQ_JOURNAL;
	else
		return false;
	return true;
}

static int parse_op(struct fault_parse *fp, const struct filter_args *args, unsigned i)
{
	const char *value = args->fa_value[i];

	if (strcmp(value, "any") == 0) {
		fp->fp_rule.fr_ops = FAULT_ANY_OP;
		return 0;
	}
	for (unsigned op = 0; op < REQ_OPS; op++) {
		if (strcmp(value, req_op_name((enum req_op)op)) != 0)
			continue;
		fp->fp_rule.fr_ops = FAULT_OP(op);
		return 0;
	}
	return filter_bad_argument(args, i);
}

static int parse_value(struct fault_parse *fp, const struct filter_args *args, unsigned i)
{
	const char *key = args->fa_key[i];
	uint64_t value;
	int err;

	if (strcmp(key, "op") == 0)
		return parse_op(fp, args, i);
	err = filter_parse_number(args, i, &value);
	if (err != 0)
		return err;
	if (strcmp(key, "nth") == 0)
		fp->fp_rule.fr_nth = value;
	else if (strcmp(key, "count") == 0)
		fp->fp_rule.fr_count = value;
	else if (strcmp(key, "from") == 0)
		fp->fp_rule.fr_from_bytes = value;
	else if (strcmp(key, "to") == 0)
		fp->fp_rule.fr_to_bytes = value;
	else if (strcmp(key, "permille") == 0 && value <= 1000)
		fp->fp_rule.fr_permille = (unsigned)value;
	else if (strcmp(key, "errno") == 0 && value > 0 && value <= MAX_ERRNO)
		fp->fp_rule.fr_error = -(int)value;
	else if (strcmp(key, "us") == 0 && value <= UINT32_MAX)
		fp->fp_rule.fr_delay_ns = value * 1000;
	else if (strcmp(key, "seed") == 0)
		fp->fp_options.fo_seed = value;
	else if (strcmp(key, "limit") == 0)
		fp->fp_options.fo_cache_limit_bytes = value;
	else
		return filter_bad_argument(args, i);
	return 0;
}

static int parse_args(struct fault_parse *fp, const struct filter_args *args)
{
	for (unsigned i = 0; i < args->fa_n; i++) {
		int err = 0;

		if (args->fa_value[i] != NULL)
			err = parse_value(fp, args, i);
		else if (!parse_word(fp, args->fa_key[i]))
			err = filter_bad_argument(args, i);
		if (err != 0)
			return err;
	}
	if (fp->fp_has_rule || fp->fp_options.fo_cache)
		return 0;
	log_err("blk=fault: one of error, torn, drop, delay, cut or cache is needed");
	return -EINVAL;
}

struct blkdev *fault_filter_open(struct blkdev *lower, const struct filter_args *args)
{
	struct fault_parse fp = {
		.fp_options.fo_seed = (now_ns() ^ (uint64_t)getpid()) & UINT32_MAX,
		.fp_rule.fr_ops = FAULT_ANY_OP,
	};
	int err = parse_args(&fp, args);
	struct blkdev *bd;

	if (err != 0)
		return ERR_PTR(err);
	log_info("blk=fault: seed=%" PRIu64, fp.fp_options.fo_seed);
	bd = fault_open(lower, &fp.fp_options);
	if (!IS_ERR(bd) && fp.fp_has_rule)
		(void)fault_arm(bd, &fp.fp_rule);
	return bd;
}
