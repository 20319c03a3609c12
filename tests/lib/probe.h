/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef TESTS_LIB_PROBE_H
#define TESTS_LIB_PROBE_H
/* A device that shows each request to the test before it is carried out, and may fail it. */

#include <stdlib.h>

#include "block/blkdev.h"
#include "util/assert.h"

struct probe {
	struct blkdev pd_bd;
	/* 0: carry out; negative: complete with that. */
	int (*pd_hook)(void *arg, struct blkdev *bd, const struct bio *bio);
	void *pd_arg;
};

static inline void probe_child_end_io(struct bio *child)
{
	struct bio *parent = child->bi_private;
	int status = child->bi_status;

	free(child);
	bio_endio(parent, status);
}

static inline void probe_submit(struct blkdev *bd, struct bio **bios, unsigned n)
{
	struct probe *pd = bd->bd_priv;

	for (unsigned i = 0; i < n; i++) {
		int err = pd->pd_hook(pd->pd_arg, bd, bios[i]);
		struct bio *child;

		if (err != 0) {
			bio_endio(bios[i], err);
			continue;
		}
		child = malloc(sizeof(*child));
		ASSERT(child != NULL);
		*child = *bios[i];
		child->bi_end_io = probe_child_end_io;
		child->bi_private = bios[i];
		blk_submit_lower(bd->bd_lower, &child, 1);
	}
}

static inline void probe_close(struct blkdev *bd)
{
	bd->bd_lower->bd_ops->close(bd->bd_lower);
	free(bd->bd_priv);
}

static const struct blkdev_ops probe_ops = {.submit = probe_submit, .close = probe_close};

static inline struct blkdev *
probe_open(struct blkdev *bd, int (*hook)(void *, struct blkdev *, const struct bio *), void *arg)
{
	struct probe *pd = calloc(1, sizeof(*pd));

	ASSERT(pd != NULL);
	pd->pd_bd = (struct blkdev){
		.bd_ops = &probe_ops,
		.bd_size_bytes = bd->bd_size_bytes,
		.bd_logical_block_bytes = bd->bd_logical_block_bytes,
		.bd_dma_align = bd->bd_dma_align,
		.bd_max_bytes = bd->bd_max_bytes,
		.bd_name = "probe",
		.bd_lower = bd,
		.bd_priv = pd,
	};
	pd->pd_hook = hook;
	pd->pd_arg = arg;
	return &pd->pd_bd;
}

#endif
