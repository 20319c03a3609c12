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

#endif
