/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * lagdev.c - a slow device of a nasty kind: whatever does not wait for a completion is found out.
 *
 * One thread picks a random request from those taken, carries it out on the lower device and completes it. A flush is carried out when it is picked, whatever
 * is still queued: it covers what was completed before it was submitted, and no more.
 * Locking: l_lock protects the queue; completions run without it.
 */
#include <stdlib.h>
#include <time.h>

#include "block/filter.h"
#include "tests/crash/lagdev.h"
#include "tests/lib/prng.h"
#include "util/assert.h"
#include "util/err.h"
#include "util/lock.h"

#define MAX_QUEUE 4096

struct lagdev {
	struct blkdev l_bd;
	struct mutex l_lock;
	struct cond l_cond;
	struct bio *l_queue[MAX_QUEUE]; /* [l_lock] */
	unsigned l_nr;			/* [l_lock] */
	bool l_stop;			/* [l_lock] */
	struct prng l_prng;		/* [thread] */
	pthread_t l_thread;
};

struct relay {
	struct bio r_bio;
	struct bio *r_orig;
};

static void relay_done(struct bio *bio)
{
	struct relay *r = bio->bi_private;
	struct bio *orig = r->r_orig;
	int status = bio->bi_status;

	free(r);
	bio_endio(orig, status);
}

static void carry_out(struct lagdev *l, struct bio *orig)
{
	struct relay *r = calloc(1, sizeof(*r));

	ASSERT(r);
	r->r_orig = orig;
	r->r_bio.bi_op = orig->bi_op;
	r->r_bio.bi_flags = orig->bi_flags;
	r->r_bio.bi_offset_bytes = orig->bi_offset_bytes;
	r->r_bio.bi_len_bytes = orig->bi_len_bytes;
	r->r_bio.bi_iov = orig->bi_iov;
	r->r_bio.bi_iovcnt = orig->bi_iovcnt;
	r->r_bio.bi_end_io = relay_done;
	r->r_bio.bi_private = r;
	blk_submit_one(l->l_bd.bd_lower, &r->r_bio);
}

static struct bio *pick(struct lagdev *l)
{
	unsigned i = (unsigned)prng_below(&l->l_prng, l->l_nr);
	struct bio *bio = l->l_queue[i];

	l->l_queue[i] = l->l_queue[--l->l_nr];
	return bio;
}

static void *lag_thread(void *arg)
{
	struct lagdev *l = arg;

	mutex_lock(&l->l_lock);
	for (;;) {
		struct timespec pause = {0, (long)prng_below(&l->l_prng, 60000)};
		struct bio *bio;

		while (!l->l_nr && !l->l_stop)
			cond_wait(&l->l_cond, &l->l_lock);
		if (!l->l_nr)
			break;
		mutex_unlock(&l->l_lock);
		nanosleep(&pause, NULL);
		mutex_lock(&l->l_lock);
		bio = pick(l);
		mutex_unlock(&l->l_lock);
		carry_out(l, bio);
		mutex_lock(&l->l_lock);
	}
	mutex_unlock(&l->l_lock);
	return NULL;
}

static void lag_submit(struct blkdev *bd, struct bio **bios, unsigned n)
{
	struct lagdev *l = bd->bd_priv;

	mutex_lock(&l->l_lock);
	for (unsigned i = 0; i < n; i++) {
		ASSERT_CMP(l->l_nr, <, (unsigned)MAX_QUEUE);
		l->l_queue[l->l_nr++] = bios[i];
	}
	cond_signal(&l->l_cond);
	mutex_unlock(&l->l_lock);
}

static void lag_close(struct blkdev *bd)
{
	struct lagdev *l = bd->bd_priv;

	mutex_lock(&l->l_lock);
	l->l_stop = true;
	cond_signal(&l->l_cond);
	mutex_unlock(&l->l_lock);
	pthread_join(l->l_thread, NULL);
	blk_close(l->l_bd.bd_lower);
	cond_destroy(&l->l_cond);
	mutex_destroy(&l->l_lock);
	free(l);
}

static const struct blkdev_ops lag_ops = {.submit = lag_submit, .close = lag_close};

struct blkdev *lagdev_open(struct blkdev *lower, uint64_t seed)
{
	struct lagdev *l = calloc(1, sizeof(*l));

	ASSERT(l);
	filter_init(&l->l_bd, lower, &lag_ops, "lag", l);
	prng_seed(&l->l_prng, seed);
	mutex_init(&l->l_lock, LOCK_RANK_LEAF);
	cond_init(&l->l_cond);
	ASSERT(!pthread_create(&l->l_thread, NULL, lag_thread, l));
	return &l->l_bd;
}
