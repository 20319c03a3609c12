/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef TESTS_CRASH_LAGDEV_H
#define TESTS_CRASH_LAGDEV_H
#include "block/blkdev.h"

/*
 * A device that completes late and out of order: requests are taken at once, carried out by a thread after a short seeded delay, and never in a
 * fixed order. Closing it closes `lower`.
 */
struct blkdev *lagdev_open(struct blkdev *lower, uint64_t seed);

#endif
