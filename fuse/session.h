/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef FUSE_SESSION_H
#define FUSE_SESSION_H
/* Between the transport and libfuse: what libfuse does not know of the protocol is done here. */

#include "fuse/front.h"

/* Make the libfuse session with ops over the transport. 0, -ENOMEM, -EIO. */
int session_create(struct front *f, const struct fuse_lowlevel_ops *ops, int dev_fd, bool debug);
/* Serve INIT in this thread. 0, or -EPROTO, -ENODEV, ... */
int session_init(struct front *f);
/* The init operation of libfuse: what we want of what the kernel offers. */
void session_want(void *userdata, struct fuse_conn_info *conn);
/* Serve one request; pool_params.pp_serve. */
void session_serve(void *arg, struct request *rq);
/* No new request is let in; returns when only `own` are being served. */
void session_drain(struct front *f, int own);
/* Name of an operation, "op63" if unknown. */
const char *session_opcode_name(unsigned opcode, char *buf, size_t size);

#endif
