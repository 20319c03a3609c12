/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef BLOCK_FILTER_MODEL_H
#define BLOCK_FILTER_MODEL_H
/* The filter that makes any device as slow as another one. */

#include "block/blkdev.h"

#define MODEL_MEMBERS_MAX 32u
#define MODEL_DEPTH_MAX 256u

/* 0 means no limit, or no cost. */
struct model_params {
	uint64_t mp_read_bytes_per_s;
	uint64_t mp_write_bytes_per_s;
	uint64_t mp_read_iops;
	uint64_t mp_write_iops;
	uint64_t mp_latency_ns;	 /* of each request; requests in the queue overlap theirs */
	uint64_t mp_seek_ns;	 /* when a request does not begin where the last one ended */
	uint64_t mp_flush_ns;	 /* of a flush, and of a FUA write on top of its own */
	unsigned mp_queue_depth; /* requests that the device works on at once; 0: 1 */
	unsigned mp_nr_requests; /* requests that may be on their way; who submits more waits */
};

/* What one request costs one member of an array. */
struct model_charge {
	uint64_t mc_offset_bytes; /* on the member */
	uint64_t mc_len_bytes;	  /* 0: nothing */
};

/* Per member; the reads come first, the writes begin when all reads have ended. */
struct model_cost {
	struct model_charge mc_read[MODEL_MEMBERS_MAX];
	struct model_charge mc_write[MODEL_MEMBERS_MAX];
};

/* The parameters of sata3, sdcard, usb2 or hdd; NULL for another name. */
const struct model_params *model_preset(const char *name);
/*
 * clock_virtual: nothing waits; time is what the requests would have taken, see model_clock_ns().
 * Requests of one blk_submit() arrive at the same time.
 */
struct blkdev *model_open(struct blkdev *lower, const struct model_params *params,
			  bool clock_virtual);
/* The model's clock: the completion of the last completed request, when it is virtual. */
uint64_t model_clock_ns(struct blkdev *bd);

/* ---- For arrays on top of a model ---- */

bool model_is(const struct blkdev *bd);
/* From now on there are n independent members. Before the first request. */
void model_set_members(struct blkdev *bd, unsigned n);
/* Submit bios that together cost what *cost says instead of what they are. */
void model_submit_charged(struct blkdev *bd, struct bio **bios, unsigned n,
			  const struct model_cost *cost);

#endif
