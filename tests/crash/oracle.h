/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef TESTS_CRASH_ORACLE_H
#define TESTS_CRASH_ORACLE_H
/*
 * What may be found after a cut. The workload reports each operation as it does it; the oracle keeps the
 * history and answers, for a cut between two operations, whether a recovered file system is one of the allowed ones:
 *  - the names, link counts and symlink targets are exactly those after some operation j, acknowledged <= j <= last one begun before the cut;
 *  - each byte of a file has the value it had after some operation from the last acknowledged one of that file on;
 *    the size is one the file had since then or, where it grew, lies between two such sizes;
 *  - a truncate down zeroes the tail of the last block first: that may be found with the old size, as in the kernel;
 *  - a byte beyond what the file ever covered, or of another file, is a failure.
 * A file is known by its owner id, which is unique for each created object.
 */

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define ORACLE_MAX_FILE (512u * 1024)
#define ORACLE_ROOT 0u

struct oracle;

struct oracle *oracle_new(uint32_t block_bytes);
void oracle_free(struct oracle *o);

/* ---- Reports of the workload: each is one operation and returns its number ---- */

enum oracle_kind { OK_FILE, OK_DIR, OK_SYMLINK };
/* The next free owner id. */
uint32_t oracle_next_id(const struct oracle *o);
uint32_t oracle_create(struct oracle *o, uint32_t dir, const char *name, enum oracle_kind kind);
uint32_t oracle_link(struct oracle *o, uint32_t id, uint32_t dir, const char *name);
/* Also rmdir. */
uint32_t oracle_unlink(struct oracle *o, uint32_t dir, const char *name);
/* data_first: the source's content was made durable before the names changed (auto_da_alloc over an existing file). */
uint32_t oracle_rename(struct oracle *o, uint32_t old_dir, const char *old_name, uint32_t new_dir,
		       const char *new_name, bool exchange);
uint32_t oracle_write(struct oracle *o, uint32_t id, uint64_t pos, const uint8_t *data,
		      uint64_t len);
uint32_t oracle_truncate(struct oracle *o, uint32_t id, uint64_t size);
/* The range reads as zeros; the size grows to `size` if it is larger. */
uint32_t oracle_zero(struct oracle *o, uint32_t id, uint64_t pos, uint64_t len, uint64_t size);
/* Extended attribute user.x of an object; value 0: removed. */
uint32_t oracle_xattr(struct oracle *o, uint32_t id, uint32_t value);

/* The last operation failed and is undone, as it must be. */
void oracle_drop_last(struct oracle *o);
/* The last write was short: only len bytes were taken (0: drop_last). */
void oracle_shorten_last(struct oracle *o, uint64_t len);

/* ---- Acknowledgements: what a returned call promised; each returns the number of the mark ---- */

/* fsync of a file or directory returned: all changes of it so far are durable. */
uint32_t oracle_ack_object(struct oracle *o, uint32_t id);
/* The same for an fsync that began when operation `op` was the last one. Such marks come in the order of their operations. */
uint32_t oracle_ack_object_at(struct oracle *o, uint32_t id, uint32_t op);
/* fdatasync. */
uint32_t oracle_ack_data(struct oracle *o, uint32_t id);
/* An O_DSYNC write of these bytes: they and a size that reaches them; other bytes of the file are promised nothing. */
uint32_t oracle_ack_range(struct oracle *o, uint32_t id, uint64_t pos, uint64_t len);
/* sync returned: everything. */
uint32_t oracle_ack_all(struct oracle *o);

/* Number of the last operation begun so far. */
uint32_t oracle_now(const struct oracle *o);
/* Content of a file now, and its size: the workload reads back and compares. */
const uint8_t *oracle_content(struct oracle *o, uint32_t id, uint64_t *size);
/* The object a name stands for now, or UINT32_MAX. */
uint32_t oracle_lookup(const struct oracle *o, uint32_t dir, const char *name);

/* ---- The verdict ---- */

/* One object of the recovered tree as the checker found it. */
struct found {
	uint32_t f_id;	/* owner id */
	uint32_t f_dir; /* owner id of the folder */
	const char *f_name;
	enum oracle_kind f_kind;
	uint32_t f_nlink;
	uint64_t f_size;
	const uint8_t *
		f_data; /* OK_FILE: f_size bytes; OK_SYMLINK: the target's expected text is made from the id */
	uint32_t f_xattr;
	bool f_target_ok;
};
/*
 * last_op: the last operation begun before the cut; last_mark: marks up to this one are acknowledged. Returns true if allowed; else writes the
 * reason to `out`.
 */
bool oracle_allows(struct oracle *o, uint32_t last_op, uint32_t last_mark,
		   const struct found *found, unsigned nr_found, FILE *out);

#endif
