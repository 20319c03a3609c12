/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef TESTS_CRASH_SIM_H
#define TESTS_CRASH_SIM_H
/*
 * A workload: each call does the operation, tells the oracle, and marks the log of writes, so that
 * for each point of the log it is known which operations had begun and what had been acknowledged. Objects are named by their oracle id.
 * Where it is done is up to struct sim_ops: on a file system in memory (sim_memory.c), or on a mount, by system calls (sim_mount.c).
 * A busy workload (in memory only) runs with all threads of a mount, on a device that lags: commits, writeback, conversions and one fsync at a time
 * go on while the next operations are done. Only the operations are reproducible then, not the writes.
 * A failure that is not ENOSPC ends the process with the seed.
 */

#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

#include "tests/crash/oracle.h"
#include "tests/lib/prng.h"

#define SIM_MAX_OBJECTS 4096
#define SIM_DSYNC 1u
#define SIM_DIRECT 2u

struct sim;

/* The operations themselves. 0, a size, or a negative errno. */
struct sim_ops {
	/* Make the object, owned by user `id`, and open it. target: of a symlink. */
	int (*create)(struct sim *m, uint32_t id, uint32_t dir, const char *name,
		      enum oracle_kind kind, const char *target);
	int (*open)(struct sim *m, uint32_t id, uint32_t dir, const char *name);
	void (*close)(struct sim *m, uint32_t id);
	int (*link)(struct sim *m, uint32_t id, uint32_t dir, const char *name);
	int (*unlink)(struct sim *m, uint32_t dir, const char *name, bool is_dir);
	int (*rename)(struct sim *m, uint32_t old_dir, const char *old_name, uint32_t new_dir,
		      const char *new_name, bool exchange);
	/* data is aligned to 4096. */
	ssize_t (*write)(struct sim *m, uint32_t id, uint64_t pos, uint8_t *data, uint64_t len,
			 unsigned flags);
	/* Up to len bytes; also the size is checked: -EIO if it is not `size`. */
	ssize_t (*read)(struct sim *m, uint32_t id, uint64_t pos, uint8_t *to, uint64_t len,
			uint64_t size);
	int (*truncate)(struct sim *m, uint32_t id, uint64_t size);
	int (*fallocate)(struct sim *m, uint32_t id, int mode, uint64_t pos, uint64_t len);
	/* len 0: remove it. */
	int (*xattr)(struct sim *m, uint32_t id, const uint8_t *value, size_t len);
	int (*sync_file)(struct sim *m, uint32_t id, bool datasync);
	int (*sync)(struct sim *m);
	/* One of three things that time would do: commit, write back, let the flusher look. */
	int (*tick)(struct sim *m, unsigned kind);
	/* Start writing a file, start a commit; nothing is waited for. */
	void (*write_out)(struct sim *m, uint32_t id);
	void (*start_commit)(struct sim *m);
	/* For an fsync in a thread of its own: the object stays although it is closed. */
	void *(*hold)(struct sim *m, uint32_t id);
	int (*sync_held)(void *held);
	void (*put)(void *held);
	int (*mark)(struct sim *m, const char *text);
	/* Acknowledgement `number` is promised, of object `id` (UINT32_MAX: all). */
	int (*mark_ack)(struct sim *m, uint32_t number, uint32_t id);
};

/* An fsync in a thread of its own. */
struct sim_fsync {
	pthread_t sf_thread;
	const struct sim_ops *sf_ops;
	void *sf_held; /* NULL: none is running */
	uint32_t sf_id, sf_op;
	int sf_err;
	_Atomic bool sf_done;
};

struct sim {
	uint64_t m_seed;
	struct prng m_prng;
	struct oracle *m_oracle;
	const struct sim_ops *m_ops;
	void *m_backend; /* of m_ops */
	bool m_is_dir[SIM_MAX_OBJECTS];
	bool m_full; /* ENOSPC is expected */
	bool m_no_fallocate;
	bool m_busy;
	struct sim_fsync m_fsync; /* of a busy workload */
};

/* Each returns the object's id (create) or 0; UINT32_MAX or 1 when the disk is full. */
uint32_t sim_create(struct sim *m, uint32_t dir, const char *name, enum oracle_kind kind);
int sim_link(struct sim *m, uint32_t id, uint32_t dir, const char *name);
int sim_unlink(struct sim *m, uint32_t dir, const char *name);
int sim_rename(struct sim *m, uint32_t old_dir, const char *old_name, uint32_t new_dir,
	       const char *new_name, bool exchange);
int sim_write(struct sim *m, uint32_t id, uint64_t pos, uint64_t len, unsigned flags);
int sim_append(struct sim *m, uint32_t id, uint64_t len, unsigned flags);
int sim_truncate(struct sim *m, uint32_t id, uint64_t size);
int sim_fallocate(struct sim *m, uint32_t id, int mode, uint64_t pos, uint64_t len);
int sim_xattr(struct sim *m, uint32_t id, uint32_t value);
/* Open an object again that was closed. */
void sim_open(struct sim *m, uint32_t id, uint32_t dir, const char *name);
/* In a busy workload it only begins (if none is running), and is acknowledged by one of the next calls. */
void sim_fsync(struct sim *m, uint32_t id, bool datasync);
/* Wait for the fsync that is running. */
void sim_finish(struct sim *m);
void sim_sync(struct sim *m);
/* Let the flusher and the commit timer do a round, as time would. */
void sim_tick(struct sim *m);
void sim_write_out(struct sim *m, uint32_t id);
void sim_start_commit(struct sim *m);
/* A file goes on after its last name is gone: keep it open until the end, or close now. */
void sim_close(struct sim *m, uint32_t id);
/* Read the whole file back and compare with the oracle. */
void sim_check(struct sim *m, uint32_t id);

/* ---- Where it is done ---- */

struct ext4_options;
struct blkdev;

/* Mount `dev`, a log filter in memory. Closes nothing on failure. */
int sim_memory_begin(struct sim *m, struct blkdev *dev, const struct ext4_options *opts);
/* Close everything and unmount. */
int sim_memory_end(struct sim *m);

/*
 * On the mount point of an ext4d that writes a log, fuseblk: syncs reach it.
 */
int sim_mount_begin(struct sim *m, const char *mountpoint);
/* The log so far, its marks as those of sim_memory. NULL with the reason on stderr, also if the daemon did not mark each answer. */
struct blkdev *sim_mount_log(struct sim *m, const char *path, uint64_t size_bytes);
void sim_mount_end(struct sim *m);

/* ---- Workloads ---- */

struct workload {
	const char *w_name;
	const char *w_mkfs;			      /* mke2fs arguments */
	void (*w_options)(struct ext4_options *opts); /* may be NULL */
	void (*w_run)(struct sim *m);
	enum {
		ON_MEMORY,
		ON_LAGGING,
		BUSY
	} w_how; /* lagging: a device that completes late and out of order */
};
extern const struct workload workloads[];
extern const unsigned nr_workloads;

#endif
