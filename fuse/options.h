/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef FUSE_OPTIONS_H
#define FUSE_OPTIONS_H
/* Mount options: one table of all names, explained in docs/OPTIONS.md. */

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "fuse/cpus.h"
#include "ext4/ext4.h"

enum kernel_cache {
	KERNEL_CACHE_AUTO,	/* write-only opens go past the kernel's page cache */
	KERNEL_CACHE_THROUGH,	/* every open is cached, writes go through */
	KERNEL_CACHE_WRITEBACK, /* the kernel keeps dirty pages */
	KERNEL_CACHE_NONE	/* no open is cached */
};

/* A writeback tunable given at mount. */
struct mount_tunable {
	STAILQ_ENTRY(mount_tunable) mt_link;
	char *mt_name;
	char *mt_value;
};

struct mount_options {
	struct ext4_options mo_ext4;
	unsigned long mo_ms_flags; /* MS_* for mount(2) */
	bool mo_allow_other;
	bool mo_allow_other_set; /* given by the user */
	bool mo_control;	 /* .ext4d exists */
	bool mo_sandbox;
	bool mo_super_journal; /* the superblock asks for data=journal, and nobody for anything else */
	bool mo_sloppy;	       /* unknown options are ignored: mount.ext4d -s */
	enum kernel_cache mo_kernel_cache;
	unsigned mo_threads;	  /* readers at work at one time; 0: chosen */
	unsigned mo_max_threads;  /* with those that wait for something */
	bool mo_pin;		  /* readers are bound to one CPU each */
	cpu_set_t mo_server_cpus; /* where readers run; empty: anywhere */
	char *mo_blk;		  /* filters, or NULL */
	char *mo_backend;	  /* "uring", "psync" or NULL */
	char *mo_stats_path;	  /* where the final JSON goes, or NULL */
	char *mo_trace_events;	  /* events that go into the ring from the start, or NULL */
	char *mo_journal_path;
	STAILQ_HEAD(, mount_tunable) mo_tunables;
};

void mount_options_init(struct mount_options *mo);
void mount_options_free(struct mount_options *mo);
/* `to`, which is free, becomes what `from` was, and `from` is not used any more. */
void mount_options_move(struct mount_options *to, struct mount_options *from);
/*
 * Apply a comma-separated list as after -o; later ones win. 0, or -EINVAL with one line of
 * reason in why.
 */
int mount_options_parse(struct mount_options *mo, const char *list, char *why, size_t why_size);
/* Combinations that no single option shows. 0 or -EINVAL with a reason. */
int mount_options_check(const struct mount_options *mo, char *why, size_t why_size);
/* The i-th name of the table, NULL after the last: for the test that compares it with the manual. */
const char *mount_option_name(unsigned i);
/* The options in force, one a line, as /proc/fs/ext4/DEV/options. sb NULL: as asked for. */
void mount_options_print(const struct mount_options *mo, struct super_block *sb, FILE *out);

#endif
