/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef FUSE_CONTROL_H
#define FUSE_CONTROL_H
/* The .ext4d directory: state as text, tunables, switches. */

#include "fuse/front.h"

#define CONTROL_NAME ".ext4d"
#define CONTROL_TIMEOUT_S 1.0

struct control_open;

/* NULL: no memory. */
struct control *control_create(struct front *f);
void control_destroy(struct control *c);
/* Is this nodeid in the tree? */
bool control_has(const struct control *c, fuse_ino_t ino);
/* Is `name` in the root directory the control directory? */
bool control_is_name(struct front *f, fuse_ino_t parent, const char *name);

/* The operations on the nodeids of the tree; all answer the request. */
/* -ESTALE for nodeids that are not in the tree. */
void control_lookup(fuse_req_t req, fuse_ino_t dir, const char *name);
void control_getattr(fuse_req_t req, fuse_ino_t ino);
void control_stat(struct front *f, fuse_ino_t ino, struct stat *st);
void control_setattr(fuse_req_t req, fuse_ino_t ino);
void control_opendir(fuse_req_t req, struct fuse_file_info *fi);
void control_readdir(fuse_req_t req, fuse_ino_t dir, size_t size, off_t off, bool plus);
void control_open(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi);
/* flags: O_* of the open file now. */
void control_read(fuse_req_t req, struct control_open *co, size_t size, off_t off, int flags);
void control_write(fuse_req_t req, fuse_ino_t ino, const char *data, size_t size, off_t off);
void control_close(struct control_open *co);
/* An entry reply for .ext4d. */
void control_fill_root(struct front *f, struct fuse_entry_param *e);

/* All statistics as JSON. */
void control_print_json(struct front *f, FILE *out);

#endif
