/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef TESTS_LIB_CRASH_H
#define TESTS_LIB_CRASH_H
/*
 * What a drive with a volatile cache may hold after a power cut, from a log in memory
 * (block/filter_log.h). A cut at n happens after entry n - 1 and before entry n.
 *
 * Durable at the cut: FUA writes among the first n entries, and everything that a flush among them
 * covers. Any sector of any other write that was submitted before the cut may have arrived or not,
 * completed or still in flight. A discard may leave the old content.
 *
 * Images are mem devices; they are changed directly, past their filters.
 */

#include "block/blkdev.h"
#include "block/filter_log.h"
#include "tests/lib/prng.h"

enum crash_mode {
	CRASH_DURABLE_ONLY,   /* the drive forgets all it may forget */
	CRASH_KEEP_COMPLETED, /* as if there were no cache: all completed writes, none in flight */
	CRASH_DROP_ONE,	      /* the same without one of them */
	CRASH_SUBSET,	      /* each of the others is kept or lost */
	CRASH_TORN_END,	      /* most are kept, the last three up to some sector */
	CRASH_RANDOM,	      /* each is kept, lost or torn anywhere */
	CRASH_MODES
};
const char *crash_mode_name(enum crash_mode mode);

/*
 * Write to `image` what is on the medium after a cut at n (0 .. log_entry_count()). image starts as
 * the medium was when the log was empty (log_open_memory(), log_reset()). p may be NULL for the first two modes.
 */
void crash_apply(struct blkdev *log, size_t n, enum crash_mode mode, struct prng *p,
		 struct blkdev *image);
/* The number of entries up to and including the mark with this text; 0 if there is none. */
size_t crash_find_mark(struct blkdev *log, const char *text);
/* The text of the last mark among the first n entries, or NULL. */
const char *crash_last_mark(struct blkdev *log, size_t n);
/* A write, zeroing or discard. */
bool crash_is_write(const struct log_entry *le);
/*
 * Write entries from .. upto - 1 to image in order: for tests that move a base image forward
 * instead of copying it for each cut. Only right up to the last entry that is durable with all
 * before it, see crash_barrier().
 */
void crash_replay(struct blkdev *log, size_t from, size_t upto, struct blkdev *image);
/* The largest b <= n such that entries 0 .. b - 1 are all durable at a cut at n. */
size_t crash_barrier(struct blkdev *log, size_t n);
/* As crash_apply(), where image already holds entries 0 .. from - 1, from <= crash_barrier(n). */
void crash_apply_from(struct blkdev *log, size_t from, size_t n, enum crash_mode mode,
		      struct prng *p, struct blkdev *image);

/*
 * A log in memory with the entries of a file that the filter has written, on a mem device of size_bytes. Each mark's text is what
 * `translate` makes of it (NULL: as it is; a NULL result drops the mark). ERR_PTR if it is not such a file.
 */
struct blkdev *crash_load_log(const char *path, uint64_t size_bytes,
			      const char *(*translate)(void *arg, const char *text), void *arg);

#endif
