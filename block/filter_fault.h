/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef BLOCK_FILTER_FAULT_H
#define BLOCK_FILTER_FAULT_H
/*
 * The filter that makes a device fail, for tests: errors, torn and dropped writes, delays, a
 * volatile write cache and power cuts. Rules may be armed and disarmed while it is in use.
 */

#include "block/blkdev.h"

enum fault_kind {
	FAULT_ERROR,	 /* complete with fr_error, not done */
	FAULT_TORN,	 /* write: only some leading sectors are done, then fr_error */
	FAULT_DROP,	 /* write, discard, flush: not done, complete with fr_error */
	FAULT_DELAY,	 /* complete fr_delay_ns later than the device does */
	FAULT_POWER_CUT, /* from this request on everything fails, see fault_power_cut() */
};

#define FAULT_OP(op) (1u << (op))
#define FAULT_ANY_OP 0x1fu
#define FAULT_FOREVER UINT64_MAX
#define FAULT_RULES_MAX 16

struct fault_rule {
	enum fault_kind fr_kind;
	unsigned fr_ops;	/* mask of FAULT_OP() */
	unsigned fr_flags;	/* only bios with all of these flags (REQ_META, REQ_JOURNAL ...) */
	uint64_t fr_nth;	/* the first matching request it acts on; 0 and 1: the next one */
	uint64_t fr_count;	/* how many matching requests from then on; 0: one */
	unsigned fr_permille;	/* chance of each of them; 0: always */
	uint64_t fr_from_bytes; /* only requests that touch [from, to) */
	uint64_t fr_to_bytes;	/* 0: the end of the device */
	int fr_error;		/* 0: -EIO for FAULT_ERROR, success for FAULT_TORN and FAULT_DROP */
	uint64_t fr_delay_ns;
};

struct fault_options {
	uint64_t fo_seed;
	bool fo_cache; /* a volatile cache: writes are durable only after a flush or with FUA */
	uint64_t fo_cache_limit_bytes; /* 0: 64 MiB */
};

struct blkdev *fault_open(struct blkdev *lower, const struct fault_options *options);
/* Returns the rule's id, or -ENOSPC. Of several that match a request the first armed acts. */
int fault_arm(struct blkdev *bd, const struct fault_rule *rule);
void fault_disarm(struct blkdev *bd, int id);
void fault_disarm_all(struct blkdev *bd);
/* How often the rule has acted; also after fault_disarm(), until the id is armed again. */
uint64_t fault_hits(struct blkdev *bd, int id);
/* Requests seen so far whose operation is in the mask. */
uint64_t fault_requests(struct blkdev *bd, unsigned ops);
/*
 * Power off: each write in the cache is kept, torn or lost by the seed; every request fails with
 * -EIO until fault_power_on(). Requests that wait in the filter fail too.
 */
void fault_power_cut(struct blkdev *bd);
void fault_power_on(struct blkdev *bd);
/* Bytes that a power cut could lose now. */
uint64_t fault_cached_bytes(struct blkdev *bd);

#endif
