/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef BLOCK_FAULT_CACHE_H
#define BLOCK_FAULT_CACHE_H
/* A drive's volatile write cache, part of the fault filter. Calls are made by one thread at a time. */

#include "block/blkdev.h"

struct fault_cache;

struct fault_cache *fault_cache_create(struct blkdev *lower, uint64_t limit_bytes, uint64_t seed);
/* Carry out a bio as a drive with this cache does. Returns its status. */
int fault_cache_do(struct fault_cache *fc, const struct bio *bio);
/* Keep, tear or lose what is cached. */
void fault_cache_power_cut(struct fault_cache *fc);
uint64_t fault_cache_bytes(const struct fault_cache *fc);
/* Write out what is cached and free. */
void fault_cache_destroy(struct fault_cache *fc);

#endif
