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
/* The node of .ext4d itself. */
struct node *control_root(struct control *c);
/* Is `name` in the root directory the control directory? */
bool control_is_name(struct front *f, fuse_ino_t parent, const char *name);

/* The operations on control nodes; all answer the request. */
void control_lookup(fuse_req_t req, struct node *dir, const char *name);
void control_getattr(fuse_req_t req, struct node *node);
void control_stat(struct front *f, const struct node *node, struct stat *st);
void control_setattr(fuse_req_t req, struct node *node);
void control_opendir(fuse_req_t req, struct fuse_file_info *fi);
void control_readdir(fuse_req_t req, struct node *dir, size_t size, off_t off, bool plus);
void control_open(fuse_req_t req, struct node *node, struct fuse_file_info *fi);
/* flags: O_* of the open file now. */
void control_read(fuse_req_t req, struct control_open *co, size_t size, off_t off, int flags);
void control_write(fuse_req_t req, struct node *node, const char *data, size_t size, off_t off);
void control_close(struct control_open *co);
/* An entry reply for .ext4d. */
void control_fill_root(struct front *f, struct fuse_entry_param *e);

/* All statistics as JSON. */
void control_print_json(struct front *f, FILE *out);

#endif
