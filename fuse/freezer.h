/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef FUSE_FREEZER_H
#define FUSE_FREEZER_H
/* Freeze: writers wait, everything is on the device, the log is empty. */

#include "fuse/front.h"

struct freezer *freezer_create(struct front *f);
void freezer_destroy(struct freezer *fz);
/*
 * A request is about to be served. True: go on, and call freezer_leave() after it. False: the
 * file system is frozen and the request changes it: it was copied and will be served after the thaw.
 */
bool freezer_enter(struct freezer *fz, struct request *rq, bool changes);
void freezer_leave(struct freezer *fz, bool changes);
/* Wait for the writers, write everything, empty the log. 0, -EBUSY if frozen already, or an error (then not frozen). */
int freezer_freeze(struct freezer *fz);
/* 0 or -EINVAL if not frozen. The waiting requests are taken over by freezer_next(). */
int freezer_thaw(struct freezer *fz);
/* A request that waited and may be served now: the caller serves it and calls freezer_free(). NULL: none. */
struct request *freezer_next(struct freezer *fz);
void freezer_free(struct request *rq);
bool freezer_frozen(const struct freezer *fz);

#endif
