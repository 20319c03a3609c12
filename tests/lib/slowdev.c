/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * slowdev.c - a device that holds requests until the test lets them go.
 *
 * Held requests are in an array in the order of submission. Releasing one carries it out below and
 * completes it in the calling thread, so a test decides the order of completions.
 *
 * Invariants: (1) a request is held or has been passed down, never both.
 * Locking: sd_lock (no rank), never held over I/O or a completion.
 */
#include "tests/lib/slowdev.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "block/filter.h"
#include "util/assert.h"
#include "util/lock.h"
#include "util/time.h"

#define HELD_MAX 4096u
#define WAIT_NS UINT64_C(60000000000) /* against hanging, not to measure */

struct slowdev {
	struct blkdev sd_bd;
	struct mutex sd_lock;
	struct cond sd_cond;
	bool sd_hold[5];	       /* [sd_lock] */
	unsigned sd_nheld;	       /* [sd_lock] */
	struct bio *sd_held[HELD_MAX]; /* [sd_lock] */
};

static void child_end_io(struct bio *child)
{
	struct bio *parent = child->bi_private;
	int status = child->bi_status;

	free(child);
	bio_endio(parent, status);
}

static void pass_down(struct slowdev *sd, struct bio *bio)
{
	struct bio *child = malloc(sizeof(*child));

	ASSERT(child != NULL);
	*child = *bio;
	child->bi_end_io = child_end_io;
	child->bi_private = bio;
	blk_submit_lower(sd->sd_bd.bd_lower, &child, 1);
}

static void slow_submit(struct blkdev *bd, struct bio **bios, unsigned n)
{
	struct slowdev *sd = bd->bd_priv;

	for (unsigned i = 0; i < n; i++) {
		struct bio *bio = bios[i];
		bool hold;

		mutex_lock(&sd->sd_lock);
		hold = sd->sd_hold[bio->bi_op];
		if (hold) {
			ASSERT_CMP(sd->sd_nheld, <, HELD_MAX);
			sd->sd_held[sd->sd_nheld++] = bio;
			cond_broadcast(&sd->sd_cond);
		}
		mutex_unlock(&sd->sd_lock);
		if (!hold)
			pass_down(sd, bio);
	}
}

static void slow_close(struct blkdev *bd)
{
	struct slowdev *sd = bd->bd_priv;

	bd->bd_lower->bd_ops->close(bd->bd_lower);
	cond_destroy(&sd->sd_cond);
	mutex_destroy(&sd->sd_lock);
	free(sd);
}

static const struct blkdev_ops slow_ops = {.submit = slow_submit, .close = slow_close};

static struct bio *take(struct slowdev *sd, unsigned i)
{
	struct bio *bio;

	mutex_lock(&sd->sd_lock);
	ck_assert_uint_lt(i, sd->sd_nheld);
	bio = sd->sd_held[i];
	sd->sd_nheld--;
	memmove(&sd->sd_held[i], &sd->sd_held[i + 1], (sd->sd_nheld - i) * sizeof(struct bio *));
	mutex_unlock(&sd->sd_lock);
	return bio;
}

struct blkdev *slowdev_open(struct blkdev *bd)
{
	struct slowdev *sd = calloc(1, sizeof(*sd));

	ASSERT(sd != NULL);
	filter_init(&sd->sd_bd, bd, &slow_ops, "slow", sd);
	mutex_init(&sd->sd_lock, LOCK_RANK_NONE);
	cond_init(&sd->sd_cond);
	return &sd->sd_bd;
}

void slowdev_hold(struct blkdev *slow, enum req_op op, bool on)
{
	struct slowdev *sd = slow->bd_priv;

	mutex_lock(&sd->sd_lock);
	sd->sd_hold[op] = on;
	mutex_unlock(&sd->sd_lock);
}

unsigned slowdev_held(struct blkdev *slow)
{
	struct slowdev *sd = slow->bd_priv;
	unsigned n;

	mutex_lock(&sd->sd_lock);
	n = sd->sd_nheld;
	mutex_unlock(&sd->sd_lock);
	return n;
}

void slowdev_wait_held(struct blkdev *slow, unsigned n)
{
	struct slowdev *sd = slow->bd_priv;
	uint64_t deadline = now_ns() + WAIT_NS;
	int err = 0;

	mutex_lock(&sd->sd_lock);
	while (sd->sd_nheld < n && err == 0)
		err = cond_timedwait(&sd->sd_cond, &sd->sd_lock, deadline);
	mutex_unlock(&sd->sd_lock);
	if (err != 0)
		ck_abort_msg("%u requests are held, not %u", slowdev_held(slow), n);
}

void slowdev_release(struct blkdev *slow, unsigned i)
{
	struct slowdev *sd = slow->bd_priv;

	pass_down(sd, take(sd, i));
}

void slowdev_fail(struct blkdev *slow, unsigned i, int err)
{
	bio_endio(take(slow->bd_priv, i), err);
}

void slowdev_release_all(struct blkdev *slow)
{
	for (unsigned op = 0; op < 5; op++)
		slowdev_hold(slow, (enum req_op)op, false);
	while (slowdev_held(slow) > 0)
		slowdev_release(slow, 0);
}
