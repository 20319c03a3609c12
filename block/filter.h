/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef BLOCK_FILTER_H
#define BLOCK_FILTER_H
/* What filters are made of. The interfaces of single filters are in block/filter_*.h. */

#include "block/backend.h"
#include "block/blkdev.h"

#define FILTER_ARGS_MAX 16
#define FILTER_TEXT_BYTES 512

/* One filter of a -o blk= value: NAME[:ARG]..., where ARG is KEY=VALUE or a word (value NULL). */
struct filter_args {
	const char *fa_name;
	unsigned fa_n;
	const char *fa_key[FILTER_ARGS_MAX];
	const char *fa_value[FILTER_ARGS_MAX];
	char fa_text[FILTER_TEXT_BYTES]; /* holds the strings */
};

/*
 * Open a filter from its arguments on top of `lower`. Errors are logged. The filter's close op
 * ends with filter_close_lower(). ERR_PTR on failure, and `lower` is as it was.
 */
typedef struct blkdev *filter_open_fn(struct blkdev *lower, const struct filter_args *args);

filter_open_fn log_filter_open;
filter_open_fn fault_filter_open;
filter_open_fn model_filter_open;
filter_open_fn raid5_filter_open;

/* Fill in a filter's device: geometry and abilities are those of `lower`. */
void filter_init(struct blkdev *bd, struct blkdev *lower, const struct blkdev_ops *ops,
		 const char *name, void *priv);
/* Close what is below; nothing if the filter was detached from it. */
void filter_close_lower(struct blkdev *bd);
/* Digits with an optional suffix k, m, g (powers of 1024). 0 or -EINVAL, logged with the filter's name. */
int filter_parse_number(const struct filter_args *args, unsigned i, uint64_t *value);
/* Log "blk=NAME: unknown argument ...". Returns -EINVAL. */
int filter_bad_argument(const struct filter_args *args, unsigned i);

#endif
