/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef TESTS_LIB_SLOWDEV_H
#define TESTS_LIB_SLOWDEV_H
/*
 * A device on top of another whose requests stay in flight until the test lets them go: for tests
 * of what must happen, or not, while I/O is on the way. Reads and flushes pass unless held too.
 */

#include "block/blkdev.h"

/* bd is closed with the new device. */
struct blkdev *slowdev_open(struct blkdev *bd);
/* Hold requests of this operation from now on, or stop holding new ones. */
void slowdev_hold(struct blkdev *slow, enum req_op op, bool on);
/* How many are held now. */
unsigned slowdev_held(struct blkdev *slow);
/* Wait until at least n are held (10 s, then ck_abort). */
void slowdev_wait_held(struct blkdev *slow, unsigned n);
/* Carry out the i-th held request (0: oldest) and complete it in this thread. */
void slowdev_release(struct blkdev *slow, unsigned i);
/* Complete the i-th held request with an error, not done. */
void slowdev_fail(struct blkdev *slow, unsigned i, int err);
/* Stop holding and let all go, oldest first. */
void slowdev_release_all(struct blkdev *slow);

#endif
