/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef FUSE_ANSWER_H
#define FUSE_ANSWER_H
/*
 * Answers that carry attributes. They take the place of libfuse's functions of nearly the same names, which take a struct stat:
 * on 32-bit systems that is another struct where libfuse was built with a time_t of 32 bits, and its times end in 2038.
 * struct fuse_entry_param is used between our own functions only, and given to none of libfuse's.
 */

#include "fuse/front.h"

/* 0, or a negative errno if the answer did not reach the kernel. */
int answer_attr(fuse_req_t req, const struct stat *st, double timeout_s);
int answer_entry(fuse_req_t req, const struct fuse_entry_param *e);
int answer_create(fuse_req_t req, const struct fuse_entry_param *e,
		  const struct fuse_file_info *fi);

/* Puts an entry at buf if it fits into left bytes. The bytes it needs; nothing was written if they are more than left. */
size_t answer_dirent(char *buf, size_t left, const char *name, const struct stat *st, off_t next);
size_t answer_direntplus(char *buf, size_t left, const char *name, const struct fuse_entry_param *e,
			 off_t next);

/* btime: seconds 0: not known. */
void answer_fill_statx(const struct stat *st, struct timespec btime, double timeout_s,
		       struct proto_statx_out *out);

#endif
