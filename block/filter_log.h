/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef BLOCK_FILTER_LOG_H
#define BLOCK_FILTER_LOG_H
/*
 * The filter that records what reaches the device, in a file (format of dm-log-writes) or in memory.
 *
 * File: entries stand in an order in which each flush covers exactly the entries before it. Memory:
 * entries stand in the order in which things completed, a flush says how many of the entries
 * before it it covers, and a write says how many there were when it was submitted, so that every
 * state that a power cut can leave can be derived.
 */

#include "block/blkdev.h"

#define LOG_FLUSH_FLAG (1u << 0)
#define LOG_FUA_FLAG (1u << 1)
#define LOG_DISCARD_FLAG (1u << 2)
#define LOG_MARK_FLAG (1u << 3)
#define LOG_METADATA_FLAG (1u << 4)

#define LOG_MARK_MAX 479 /* bytes of a mark; longer ones are -ENAMETOOLONG */

struct log_entry {
	uint64_t le_sector;	/* of 512 bytes */
	uint64_t le_nr_sectors; /* 0 for flushes and marks */
	unsigned le_flags;
	const void *le_data;   /* write: the bytes, NULL for zeroes and discards; mark: its text */
	uint64_t le_covers;    /* flush: entries 0 .. le_covers - 1 are durable; 0 otherwise */
	uint64_t le_submitted; /* entries that existed when it was submitted */
};

/* Record into a file, which is made or overwritten. ERR_PTR on failure (logged). */
struct blkdev *log_open_file(struct blkdev *lower, const char *path);
/* Record into memory. */
struct blkdev *log_open_memory(struct blkdev *lower);
/* Memory: entries so far. */
size_t log_entry_count(struct blkdev *bd);
/* Memory: entry i < log_entry_count(). Data stays valid until log_reset() or close. */
struct log_entry log_entry_get(struct blkdev *bd, size_t i);
/* Memory: forget all entries; nothing may be in flight. */
void log_reset(struct blkdev *bd);
/* Writes whose memory changed between submission and completion. */
uint64_t log_unstable_writes(struct blkdev *bd);

#endif
