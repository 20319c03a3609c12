/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef BENCH_MICRO_MICRO_H
#define BENCH_MICRO_MICRO_H
/* Costs of the core parts as functions of size, without FUSE: what the cases and the program share. */

#include <stdint.h>

#include "ext4/ext4.h"
#include "writeback/internal.h"

/* What is measured in this process: one case at one size. */
struct micro {
	uint64_t m_n;	       /* the size */
	const char *m_section; /* the section to be measured; NULL: all of them */
	uint64_t m_seed;
};

/* A part of a case whose cost is taken: fn(arg) does `ops` operations. */
void micro_section(struct micro *m, const char *name, uint64_t ops, void (*fn)(void *arg),
		   void *arg);

struct micro_case {
	const char *mc_name;
	const char *mc_about;	 /* what n is, and what the sections do */
	uint64_t mc_default_max; /* sizes beyond cost more memory or time than a look is worth */
	uint64_t mc_max;	 /* no larger size is possible */
	void (*mc_run)(struct micro *m);
};

extern const struct micro_case micro_pages, micro_cache, micro_es, micro_es_clean, micro_extents,
	micro_mballoc, micro_commit, micro_names;

/* A file system in memory with the files f0, f1, mounted as in the daemon, but without threads. Dies when it cannot. */
struct micro_fs {
	struct super_block *mf_sb;
	uint32_t mf_ops; /* since the last commit */
};
void micro_fs_open(struct micro_fs *f, uint64_t size_bytes, uint64_t cache_bytes);
struct inode *micro_fs_file(struct micro_fs *f, unsigned number);
/* An operation comes: now and then the transaction is committed before, as time would do. */
void micro_fs_op(struct micro_fs *f);
/* The same, and an open handle with room for it. */
handle_t *micro_fs_start(struct micro_fs *f);
void micro_fs_stop(handle_t *handle);

/* Ends the program unless err is 0 or more. */
void micro_must(int err, const char *what);

#endif
