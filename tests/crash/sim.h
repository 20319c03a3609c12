/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef TESTS_CRASH_SIM_H
#define TESTS_CRASH_SIM_H
/*
 * A workload on a file system in memory: each call does the operation, tells the oracle, and marks the log of writes, so that
 * for each point of the log it is known which operations had begun and what had been acknowledged. Objects are named by their oracle id.
 * A busy workload runs with all threads of a mount, on a device that lags: commits, writeback, conversions and one fsync at a time
 * go on while the next operations are done. Only the operations are reproducible then, not the writes.
 * A failure that is not ENOSPC ends the process with the seed.
 */

#include <pthread.h>
#include <stdatomic.h>

#include "namespace/namespace.h"
#include "tests/crash/oracle.h"
#include "tests/lib/prng.h"

#define SIM_MAX_OBJECTS 4096

/* An fsync in a thread of its own. */
struct sim_fsync {
	pthread_t sf_thread;
	struct inode *sf_inode; /* NULL: none is running */
	uint32_t sf_id, sf_op;
	int sf_err;
	_Atomic bool sf_done;
};

struct sim {
	uint64_t m_seed;
	struct prng m_prng;
	struct blkdev *m_dev; /* the log filter */
	struct super_block *m_sb;
	struct oracle *m_oracle;
	struct inode *m_inodes[SIM_MAX_OBJECTS];
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
#define SIM_DSYNC 1u
#define SIM_DIRECT 2u
int sim_write(struct sim *m, uint32_t id, uint64_t pos, uint64_t len, unsigned flags);
int sim_append(struct sim *m, uint32_t id, uint64_t len, unsigned flags);
int sim_truncate(struct sim *m, uint32_t id, uint64_t size);
int sim_fallocate(struct sim *m, uint32_t id, int mode, uint64_t pos, uint64_t len);
int sim_xattr(struct sim *m, uint32_t id, uint32_t value);
/* In a busy workload it only begins (if none is running), and is acknowledged by one of the next calls. */
void sim_fsync(struct sim *m, uint32_t id, bool datasync);
/* Wait for the fsync that is running. */
void sim_finish(struct sim *m);
void sim_sync(struct sim *m);
/* Let the flusher and the commit timer do a round, as time would. */
void sim_tick(struct sim *m);
/* A file goes on after its last name is gone: keep it open until the end, or close now. */
void sim_close(struct sim *m, uint32_t id);
/* Read the whole file back and compare with the oracle. */
void sim_check(struct sim *m, uint32_t id);

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
