/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * crash.c - the states that a power cut can leave.
 *
 * Entries are applied in the order of their completion, each whole, in part or not at all. Choosing
 * which sectors arrive covers all reorderings: of two completed writes of a sector the older one
 * on the medium means that the newer was lost. Writes that were in flight at the cut stand behind
 * it in the log and say that they were submitted before; only the first IN_FLIGHT_MAX entries there are looked at, what is in flight
 * for longer is lost.
 *
 * Invariants: (1) a durable sector is never replaced by an older write. (2) The same seed and log
 * give the same image.
 * Locking: none; the log is quiet up to the cut.
 */
#include "tests/lib/crash.h"

#include <string.h>

#include "util/assert.h"

#define SECTOR_BYTES 512u
#define IN_FLIGHT_MAX 256u

/* CRASH_RANDOM, percent of the writes that are not durable: kept whole, torn; the rest is lost. */
#define KEEP_PERCENT 45u
#define TEAR_PERCENT 20u
/* CRASH_TORN_END: how many at the end are. */
#define TORN_AT_END 3u

const char *crash_mode_name(enum crash_mode mode)
{
	static const char *const names[] = {"durable only", "all",	"drop one",
					    "subset",	    "torn end", "random"};

	return names[mode];
}

/* One cut that is being built. */
struct cut {
	struct blkdev *c_log, *c_image;
	size_t c_n;	  /* entries before the cut */
	size_t c_covered; /* of these, the first that a flush covers */
	size_t c_end;	  /* what is looked at */
	enum crash_mode c_mode;
	struct prng *c_prng;
	uint64_t c_volatile; /* writes that may be lost */
	uint64_t c_dropped;  /* CRASH_DROP_ONE: which of them is */
};

static void put(struct blkdev *image, const struct log_entry *le, uint64_t first, uint64_t n)
{
	uint64_t offset = (le->le_sector + first) * SECTOR_BYTES;
	uint8_t *to = (uint8_t *)mem_data(image) + offset;
	const uint8_t *data = le->le_data;

	ASSERT_CMP(offset + n * SECTOR_BYTES, <=, image->bd_size_bytes);
	if (n == 0 || (le->le_flags & LOG_DISCARD_FLAG) != 0)
		return;
	if (data != NULL)
		memcpy(to, data + first * SECTOR_BYTES, (size_t)(n * SECTOR_BYTES));
	else
		memset(to, 0, (size_t)(n * SECTOR_BYTES));
}

bool crash_is_write(const struct log_entry *le)
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

static void put_random(struct blkdev *image, const struct log_entry *le, struct prng *p)
{
	uint64_t dice = prng_below(p, 100);

	if (dice < KEEP_PERCENT)
		put(image, le, 0, le->le_nr_sectors);
	else if (dice < KEEP_PERCENT + TEAR_PERCENT)
		put_torn(image, le, p);
}

/* The k-th write that may be lost. */
static void put_volatile(struct cut *c, const struct log_entry *le, uint64_t k)
{
	uint64_t sectors = le->le_nr_sectors;

	switch (c->c_mode) {
	case CRASH_DURABLE_ONLY:
		return;
	case CRASH_KEEP_COMPLETED:
		break;
	case CRASH_DROP_ONE:
		if (k == c->c_dropped)
			return;
		break;
	case CRASH_SUBSET:
		if (prng_chance(c->c_prng, 1, 2))
			return;
		break;
	case CRASH_TORN_END:
		if (k + TORN_AT_END >= c->c_volatile)
			sectors = prng_below(c->c_prng, sectors + 1);
		else if (prng_chance(c->c_prng, 1, 8))
			return;
		break;
	default:
		put_random(c->c_image, le, c->c_prng);
		return;
	}
	put(c->c_image, le, 0, sectors);
}

/* Entries 0 .. result - 1 are covered by a flush that returned before the cut; a flush never covers what comes after it. */
static size_t covered_at(struct blkdev *log, size_t from, size_t n)
{
	uint64_t covered = from;

	for (size_t i = from; i < n; i++) {
		struct log_entry le = log_entry_get(log, i);

		if ((le.le_flags & LOG_FLUSH_FLAG) != 0 && le.le_covers > covered)
			covered = le.le_covers;
	}
	return (size_t)covered;
}

enum fate { NOT_THERE, DURABLE, MAY_BE_LOST };

static enum fate fate_of(const struct cut *c, size_t i, const struct log_entry *le)
{
	bool completed = i < c->c_n;

	if (!crash_is_write(le))
		return NOT_THERE;
	if (completed)
		return i < c->c_covered || (le->le_flags & LOG_FUA_FLAG) != 0 ? DURABLE
									      : MAY_BE_LOST;
	return c->c_mode >= CRASH_SUBSET && le->le_submitted <= c->c_n ? MAY_BE_LOST : NOT_THERE;
}

void crash_apply_from(struct blkdev *log, size_t from, size_t n, enum crash_mode mode,
		      struct prng *p, struct blkdev *image)
{
	size_t count = log_entry_count(log);
	struct cut c = {.c_log = log, .c_image = image, .c_n = n, .c_mode = mode, .c_prng = p};
	uint64_t k = 0;

	ASSERT_CMP(n, <=, count);
	c.c_covered = covered_at(log, from, n);
	c.c_end = count - n > IN_FLIGHT_MAX ? n + IN_FLIGHT_MAX : count;
	if (mode == CRASH_DROP_ONE || mode == CRASH_TORN_END) {
		for (size_t i = c.c_covered; i < c.c_end; i++) {
			struct log_entry le = log_entry_get(log, i);

			c.c_volatile += fate_of(&c, i, &le) == MAY_BE_LOST;
		}
	}
	if (mode == CRASH_DROP_ONE && c.c_volatile > 0)
		c.c_dropped = prng_below(p, c.c_volatile);
	for (size_t i = from; i < c.c_end; i++) {
		struct log_entry le = log_entry_get(log, i);
		enum fate fate = fate_of(&c, i, &le);

		if (fate == DURABLE)
			put(image, &le, 0, le.le_nr_sectors);
		else if (fate == MAY_BE_LOST)
			put_volatile(&c, &le, k++);
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

		if (crash_is_write(&le))
			put(image, &le, 0, le.le_nr_sectors);
	}
}

size_t crash_barrier(struct blkdev *log, size_t n)
{
	return covered_at(log, 0, n);
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
