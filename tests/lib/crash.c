/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * crash.c - the states that a power cut can leave.
 *
 * Entries are applied in the order of their completion, each whole, in part or not at all. Choosing
 * which sectors arrive covers all reorderings: of two completed writes of a sector the older one
 * on the medium means that the newer was lost. Writes that were in flight at the cut stand behind
 * it in the log and say that they were submitted before.
 *
 * Invariants: (1) a durable sector is never replaced by an older write. (2) The same seed and log
 * give the same image.
 * Locking: none; the log is quiet.
 */
#include "tests/lib/crash.h"

#include <check.h>
#include <string.h>

#include "block/filter_log.h"
#include "util/assert.h"

#define SECTOR_BYTES 512u

/* Percent of the writes that are not durable: kept whole, torn; the rest is lost. */
#define KEEP_PERCENT 45u
#define TEAR_PERCENT 20u

static void put(struct blkdev *image, const struct log_entry *le, uint64_t first, uint64_t n)
{
	uint64_t offset = (le->le_sector + first) * SECTOR_BYTES;
	const uint8_t *data = le->le_data;
	int err;

	if (n == 0)
		return;
	if (data != NULL)
		err = blk_write(image, offset, data + first * SECTOR_BYTES,
				(size_t)(n * SECTOR_BYTES), 0);
	else
		err = blk_zeroout(image, offset, n * SECTOR_BYTES);
	ck_assert_int_eq(err, 0);
}

static bool is_data(const struct log_entry *le)
{
	return le->le_nr_sectors > 0 && (le->le_flags & LOG_MARK_FLAG) == 0;
}

/* The part that made it to the medium: a prefix, a suffix or single sectors. */
static void put_torn(struct blkdev *image, const struct log_entry *le, struct prng *p)
{
	uint64_t cut = prng_below(p, le->le_nr_sectors + 1);

	switch (prng_below(p, 3)) {
	case 0:
		put(image, le, 0, cut);
		break;
	case 1:
		put(image, le, cut, le->le_nr_sectors - cut);
		break;
	default:
		for (uint64_t i = 0; i < le->le_nr_sectors; i++)
			if (prng_chance(p, 1, 2))
				put(image, le, i, 1);
		break;
	}
}

static void put_volatile(struct blkdev *image, const struct log_entry *le, bool completed,
			 enum crash_mode mode, struct prng *p)
{
	uint64_t dice;

	if (mode == CRASH_KEEP_COMPLETED && completed)
		put(image, le, 0, le->le_nr_sectors);
	if (mode != CRASH_RANDOM)
		return;
	dice = prng_below(p, 100);
	if (dice < KEEP_PERCENT)
		put(image, le, 0, le->le_nr_sectors);
	else if (dice < KEEP_PERCENT + TEAR_PERCENT)
		put_torn(image, le, p);
}

/* Entries 0 .. result - 1 are covered by a flush that returned before the cut. */
static uint64_t covered_at(struct blkdev *log, size_t n)
{
	uint64_t covered = 0;

	for (size_t i = 0; i < n; i++) {
		struct log_entry le = log_entry_get(log, i);

		if ((le.le_flags & LOG_FLUSH_FLAG) != 0 && le.le_covers > covered)
			covered = le.le_covers;
	}
	return covered;
}

void crash_apply_from(struct blkdev *log, size_t from, size_t n, enum crash_mode mode,
		      struct prng *p, struct blkdev *image)
{
	uint64_t covered = covered_at(log, n);
	size_t count = log_entry_count(log);

	ASSERT_CMP(n, <=, count);
	for (size_t i = from; i < count; i++) {
		struct log_entry le = log_entry_get(log, i);
		bool completed = i < n;

		if (!is_data(&le) || (!completed && le.le_submitted > n))
			continue;
		if (completed && (i < covered || (le.le_flags & LOG_FUA_FLAG) != 0))
			put(image, &le, 0, le.le_nr_sectors);
		else
			put_volatile(image, &le, completed, mode, p);
	}
}

void crash_apply(struct blkdev *log, size_t n, enum crash_mode mode, struct prng *p,
		 struct blkdev *image)
{
	crash_apply_from(log, 0, n, mode, p, image);
}

void crash_replay(struct blkdev *log, size_t from, size_t upto, struct blkdev *image)
{
	for (size_t i = from; i < upto; i++) {
		struct log_entry le = log_entry_get(log, i);

		if (is_data(&le))
			put(image, &le, 0, le.le_nr_sectors);
	}
}

size_t crash_barrier(struct blkdev *log, size_t n)
{
	return (size_t)covered_at(log, n);
}

size_t crash_find_mark(struct blkdev *log, const char *text)
{
	size_t count = log_entry_count(log);

	for (size_t i = 0; i < count; i++) {
		struct log_entry le = log_entry_get(log, i);

		if ((le.le_flags & LOG_MARK_FLAG) != 0 && strcmp(le.le_data, text) == 0)
			return i + 1;
	}
	return 0;
}

const char *crash_last_mark(struct blkdev *log, size_t n)
{
	for (size_t i = n; i > 0; i--) {
		struct log_entry le = log_entry_get(log, i - 1);

		if ((le.le_flags & LOG_MARK_FLAG) != 0)
			return le.le_data;
	}
	return NULL;
}
