/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef FUSE_FILE_H
#define FUSE_FILE_H
/* Open files and directories: what fi->fh points to. */

#include "fuse/front.h"

struct control_open;

struct open_file {
	struct inode
		*of_inode; /* [const] held by the kernel's look-up count; NULL: a control file */
	int of_flags;	   /* [const] O_* of open */
	bool of_direct;	   /* [const] FOPEN_DIRECT_IO */
	_Atomic uint32_t of_err;	/* errors up to here were reported */
	struct control_open *of_ctl;	/* [const] */
	struct ns_dir *of_dir;		/* [of_lock] directories only */
	pthread_mutex_t of_lock;	/* one READDIR of an open directory at a time */
	TAILQ_ENTRY(open_file) of_link; /* [open_files] */
};

struct open_files *open_files_create(void);
void open_files_destroy(struct open_files *ofs);
/* The kernel is gone: what is still open is released. */
void open_files_release_all(struct open_files *ofs);
unsigned open_files_count(struct open_files *ofs);
/* A regular file was opened: ext4_file_open() has succeeded. NULL: no memory. */
struct open_file *open_file_new(struct front *f, struct inode *inode, int flags);
struct open_file *open_dir_new(struct front *f, struct ns_dir *dir);
struct open_file *open_control_new(struct front *f, struct control_open *ctl, int flags);
/* The kernel's RELEASE or RELEASEDIR. */
void open_file_release(struct front *f, struct open_file *of);

static inline struct open_file *open_file_at(uint64_t fh)
{
	return (struct open_file *)(uintptr_t)fh;
}

static inline struct open_file *open_file_of(const struct fuse_file_info *fi)
{
	return open_file_at(fi->fh);
}

#endif
