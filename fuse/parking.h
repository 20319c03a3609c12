/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef FUSE_PARKING_H
#define FUSE_PARKING_H
/* Writes that are done but whose answer waits for the throttle. */

#include "fuse/front.h"

struct parking *parking_create(struct front *f);
void parking_destroy(struct parking *pk);
/*
 * A write of `bytes` is in the cache: let the throttle decide. True: the answer will be sent when the writer may go on.
 * False: the caller answers now.
 */
bool parking_throttle(fuse_req_t req, struct inode *inode, uint64_t pos, size_t bytes);
/* The kernel wants an end of the request with this number: if it is parked it is answered at once. */
void parking_interrupt(struct parking *pk, uint64_t unique);
/* For a request that is not parked but waits in its thread: has its end been asked for lately? */
bool parking_was_interrupted(struct parking *pk, uint64_t unique);
/* Answer all parked requests and wait until that is done. No request is being served. */
void parking_release_all(struct parking *pk);
unsigned parking_count(struct parking *pk);
const struct hist *parking_time(const struct parking *pk);

#endif
