/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fault_cache.c - a drive's volatile write cache.
 *
 * A write becomes a record and is complete at once. Records go to the medium in an order chosen by
 * the seed, at a flush all of them, before that some when the cache is over its limit. Only
 * overlapping records keep their order: a drive never replaces newer data by older. Reads see the
 * medium with the records laid over it.
 *
 * Invariants: (1) a record overlaps the medium's newer data nowhere: what overlaps a FUA write is
 * written before it. (2) fc_bytes is the sum of the records' lengths.
 * Locking: the caller's.
 */
#include "block/fault_cache.h"

#include <stdlib.h>
#include <string.h>

#include "block/backend.h"
#include "util/assert.h"
#include "util/err.h"
#include "util/log.h"
#include "util/splitmix.h"

#define RECORDS_MAX 4096u
#define ALIGN_BYTES 4096u
#define CUT_KEEP_PERCENT 45u
#define CUT_TEAR_PERCENT 20u

struct record {
	enum req_op rc_op; /* WRITE, DISCARD or WRITE_ZEROES */
	uint64_t rc_offset_bytes;
	uint64_t rc_len_bytes;
	uint8_t *rc_data; /* WRITE only */
};

struct fault_cache {
	struct blkdev *fc_lower;
	uint64_t fc_limit_bytes;
	uint64_t fc_seed;
	uint64_t fc_bytes;
	unsigned fc_n;
	struct record *fc_record[RECORDS_MAX + 1]; /* oldest first */
};

static bool overlap(uint64_t a, uint64_t a_len, uint64_t b, uint64_t b_len)
{
	return a < b + b_len && b < a + a_len;
}

static void drop_record(struct fault_cache *fc, unsigned i)
{
	struct record *rc = fc->fc_record[i];

	fc->fc_bytes -= rc->rc_len_bytes;
	fc->fc_n--;
	memmove(&fc->fc_record[i], &fc->fc_record[i + 1], (fc->fc_n - i) * sizeof(struct record *));
	free(rc->rc_data);
	free(rc);
}

static int do_lower(struct fault_cache *fc, enum req_op op, unsigned flags, uint64_t offset_bytes,
		    struct iovec *iov)
{
	struct bio bio = {.bi_op = op,
			  .bi_flags = flags,
			  .bi_offset_bytes = offset_bytes,
			  .bi_len_bytes = iov != NULL ? iov->iov_len : 0,
			  .bi_iov = iov,
			  .bi_iovcnt = iov != NULL ? 1 : 0};

	return blk_sync_lower(fc->fc_lower, &bio);
}

/* Write the first len_bytes of a record to the medium. */
static int write_record(struct fault_cache *fc, const struct record *rc, uint64_t len_bytes)
{
	struct iovec iov = {.iov_base = rc->rc_data, .iov_len = (size_t)len_bytes};
	struct bio bio = {.bi_op = rc->rc_op,
			  .bi_offset_bytes = rc->rc_offset_bytes,
			  .bi_len_bytes = len_bytes};

	if (len_bytes == 0)
		return 0;
	if (rc->rc_op == REQ_OP_WRITE)
		return do_lower(fc, REQ_OP_WRITE, 0, rc->rc_offset_bytes, &iov);
	return blk_sync_lower(fc->fc_lower, &bio);
}

/* The oldest of the first n records that overlaps the range; n if none does. */
static unsigned oldest_overlap(const struct fault_cache *fc, uint64_t offset, uint64_t len,
			       unsigned n)
{
	unsigned i = 0;

	while (i < n && !overlap(fc->fc_record[i]->rc_offset_bytes, fc->fc_record[i]->rc_len_bytes,
				 offset, len))
		i++;
	return i;
}

/* Write out one record, or, of those that must be on the medium before it, the first. */
static int evict(struct fault_cache *fc, unsigned i)
{
	struct record *rc = fc->fc_record[i];
	unsigned older;
	int err;

	while ((older = oldest_overlap(fc, rc->rc_offset_bytes, rc->rc_len_bytes, i)) < i) {
		i = older;
		rc = fc->fc_record[i];
	}
	err = write_record(fc, rc, rc->rc_len_bytes);
	drop_record(fc, i);
	return err;
}

static unsigned random_record(struct fault_cache *fc)
{
	return (unsigned)(splitmix64(&fc->fc_seed) % fc->fc_n);
}

static int evict_all(struct fault_cache *fc)
{
	int first = 0;

	while (fc->fc_n > 0) {
		int err = evict(fc, random_record(fc));

		if (first == 0)
			first = err;
	}
	return first;
}

/* ---- Requests ---- */

static int cache_write(struct fault_cache *fc, const struct bio *bio)
{
	struct record *rc = calloc(1, sizeof(*rc));
	void *data = NULL;
	int err = 0;

	if (rc == NULL)
		return -ENOMEM;
	if (bio->bi_op == REQ_OP_WRITE) {
		if (posix_memalign(&data, ALIGN_BYTES, (size_t)bio->bi_len_bytes) != 0) {
			free(rc);
			return -ENOMEM;
		}
		bio_copy_out(bio, 0, data, (size_t)bio->bi_len_bytes);
	}
	rc->rc_op = bio->bi_op;
	rc->rc_offset_bytes = bio->bi_offset_bytes;
	rc->rc_len_bytes = bio->bi_len_bytes;
	rc->rc_data = data;
	fc->fc_record[fc->fc_n++] = rc;
	fc->fc_bytes += rc->rc_len_bytes;
	while (err == 0 && (fc->fc_bytes > fc->fc_limit_bytes || fc->fc_n > RECORDS_MAX))
		err = evict(fc, random_record(fc));
	return err;
}

static int write_through(struct fault_cache *fc, const struct bio *bio)
{
	struct bio child = *bio;
	int err = 0;

	while (err == 0) {
		unsigned i = oldest_overlap(fc, bio->bi_offset_bytes, bio->bi_len_bytes, fc->fc_n);

		if (i == fc->fc_n)
			return blk_sync_lower(fc->fc_lower, &child);
		err = evict(fc, i);
	}
	return err;
}

/* Lay a record over what was read. */
static void overlay(const struct record *rc, const struct bio *bio, uint8_t *flat)
{
	uint64_t from = rc->rc_offset_bytes;
	uint64_t to = rc->rc_offset_bytes + rc->rc_len_bytes;
	uint64_t end = bio->bi_offset_bytes + bio->bi_len_bytes;

	if (from < bio->bi_offset_bytes)
		from = bio->bi_offset_bytes;
	if (to > end)
		to = end;
	if (rc->rc_data != NULL)
		memcpy(flat + (from - bio->bi_offset_bytes),
		       rc->rc_data + (from - rc->rc_offset_bytes), (size_t)(to - from));
	else
		memset(flat + (from - bio->bi_offset_bytes), 0, (size_t)(to - from));
}

static int cached_read(struct fault_cache *fc, const struct bio *bio)
{
	struct iovec iov = {.iov_len = (size_t)bio->bi_len_bytes};
	int err;

	if (posix_memalign(&iov.iov_base, ALIGN_BYTES, iov.iov_len) != 0)
		return -ENOMEM;
	err = do_lower(fc, REQ_OP_READ, bio->bi_flags, bio->bi_offset_bytes, &iov);
	for (unsigned i = 0; err == 0 && i < fc->fc_n; i++) {
		const struct record *rc = fc->fc_record[i];

		if (overlap(rc->rc_offset_bytes, rc->rc_len_bytes, bio->bi_offset_bytes,
			    bio->bi_len_bytes))
			overlay(rc, bio, iov.iov_base);
	}
	if (err == 0)
		bio_copy_in(bio, 0, iov.iov_base, iov.iov_len);
	free(iov.iov_base);
	return err;
}

int fault_cache_do(struct fault_cache *fc, const struct bio *bio)
{
	int err;

	switch (bio->bi_op) {
	case REQ_OP_READ:
		return cached_read(fc, bio);
	case REQ_OP_FLUSH:
		err = evict_all(fc);
		return err != 0 ? err : do_lower(fc, REQ_OP_FLUSH, bio->bi_flags, 0, NULL);
	case REQ_OP_WRITE:
	case REQ_OP_DISCARD:
	case REQ_OP_WRITE_ZEROES:
		break;
	}
	if ((bio->bi_flags & REQ_FUA) != 0)
		return write_through(fc, bio);
	return cache_write(fc, bio);
}

/* ---- Power ---- */

void fault_cache_power_cut(struct fault_cache *fc)
{
	uint32_t unit = fc->fc_lower->bd_logical_block_bytes;

	/* Oldest first: what is kept of a newer record replaces what is kept of an older one. */
	while (fc->fc_n > 0) {
		const struct record *rc = fc->fc_record[0];
		uint64_t dice = splitmix64(&fc->fc_seed) % 100;
		uint64_t sectors = rc->rc_len_bytes / unit;

		/* The medium is all that is left: an error of its own changes nothing here. */
		if (dice < CUT_KEEP_PERCENT)
			(void)write_record(fc, rc, rc->rc_len_bytes);
		else if (dice < CUT_KEEP_PERCENT + CUT_TEAR_PERCENT)
			(void)write_record(fc, rc, splitmix64(&fc->fc_seed) % (sectors + 1) * unit);
		drop_record(fc, 0);
	}
}

uint64_t fault_cache_bytes(const struct fault_cache *fc)
{
	return fc->fc_bytes;
}

struct fault_cache *fault_cache_create(struct blkdev *lower, uint64_t limit_bytes, uint64_t seed)
{
	struct fault_cache *fc = calloc(1, sizeof(*fc));

	if (fc == NULL)
		return ERR_PTR(-ENOMEM);
	fc->fc_lower = lower;
	fc->fc_limit_bytes = limit_bytes;
	fc->fc_seed = seed;
	return fc;
}

void fault_cache_destroy(struct fault_cache *fc)
{
	if (evict_all(fc) != 0)
		log_err("blk=fault: cached writes were lost at close");
	free(fc);
}
