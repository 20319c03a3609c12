/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef BLOCK_BACKEND_H
#define BLOCK_BACKEND_H
/* What back ends and filters share among themselves. Other layers use block/blkdev.h. */

#include "block/blkdev.h"

#define BLK_SECTOR_BYTES 512u
#define BLK_MAX_BYTES (1u << 20) /* default of bd_max_bytes */

/* True for the operations that change the medium (flush is not one). */
bool req_op_is_write(enum req_op op);
/* Copy between a bio's iovec, from skip_bytes on, and flat memory. */
void bio_copy_out(const struct bio *bio, uint64_t skip_bytes, void *dst, size_t len_bytes);
void bio_copy_in(const struct bio *bio, uint64_t skip_bytes, const void *src, size_t len_bytes);

/*
 * Send a bio to the device below a filter and wait; its bi_end_io and bi_private are overwritten.
 * Not from a completion.
 */
int blk_sync_lower(struct blkdev *lower, struct bio *bio);

/* ---- Files and block devices ---- */

struct devfile {
	int df_fd;
	bool df_direct;	      /* O_DIRECT */
	uint32_t df_dev;      /* number of the block device, or of the device that has the file */
	bool df_block_device; /* else a regular file */
	bool df_read_only;
	bool df_discard;
	uint64_t df_size_bytes;	   /* rounded down to df_logical_bytes */
	uint32_t df_logical_bytes; /* 512 or 4096 */
	uint32_t df_dma_align;
	counter_t df_bounces; /* [atomic] requests copied because of their alignment */
};

/* Open ba_path and find out its geometry. 0 or a negative errno, logged. */
int devfile_open(struct devfile *df, const struct blk_open_args *args);
void devfile_close(struct devfile *df);
/* Fill in size, alignment and abilities of a back end. */
void devfile_describe(const struct devfile *df, struct blkdev *bd);
/* True if the bio's memory may go to the device as it is. */
bool devfile_aligned(const struct devfile *df, const struct bio *bio);
/* Carry out a bio in this thread: data, flush, discard, zeroes. Returns its status. */
int devfile_do(struct devfile *df, const struct bio *bio);
/* The same, the thread waits for it, and the bio is completed in here. */
void devfile_do_and_end(struct devfile *df, struct bio *bio);
/* As devfile_do() for a bio of which done_bytes have been transferred. */
int devfile_continue(struct devfile *df, const struct bio *bio, uint64_t done_bytes);

/* ERR_PTR on failure, logged. */
struct blkdev *psync_open(const struct blk_open_args *args);
/* As psync_open(), but ERR_PTR(-ENOSYS), not logged, where the system has or allows no io_uring. */
struct blkdev *uring_open(const struct blk_open_args *args);

#endif
