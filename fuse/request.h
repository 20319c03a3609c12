/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef FUSE_REQUEST_H
#define FUSE_REQUEST_H
/* The request that a thread is serving, with what libfuse does not show of it. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fuse/proto.h"

/*
 * A request buffer: the request starts at REQUEST_OFFSET, so that the payload of a WRITE is page aligned. Other
 * requests end before REQUEST_SCRATCH; the area from there on is free for building their replies.
 */
#define REQUEST_PAYLOAD 4096u
#define REQUEST_OFFSET (REQUEST_PAYLOAD - PROTO_WRITE_HEAD)
#define REQUEST_SCRATCH (REQUEST_PAYLOAD + 8192u)
#define REQUEST_BUF_BYTES (REQUEST_SCRATCH + PROTO_MAX_PAYLOAD)

#define RQ_INIT (1u << 0)
#define RQ_KILL_SUIDGID (1u << 1) /* WRITE, SETATTR, OPEN, CREATE ask for it */
#define RQ_TMPFILE (1u << 2)	  /* a CREATE that was a TMPFILE */
#define RQ_ACL_KILL_SGID (1u << 3)
#define RQ_PARALLEL_WRITES                                                                         \
	(1u << 4) /* the answer to OPEN or CREATE allows direct writes side by side */

struct inode;

struct request {
	uint64_t rq_unique;
	unsigned rq_channel;
	unsigned rq_flags;
	uint32_t rq_opcode;
	uint32_t rq_pid;
	uint64_t rq_nodeid; /* what it is about */
	struct inode
		*rq_inode; /* the same; NULL: nothing, or a control file, or (LOOKUP) unknown */
	uint64_t rq_start_ns;
	char *rq_buf; /* the whole buffer: the request is at rq_buf + REQUEST_OFFSET */
	size_t rq_bytes;
};

/* The request of this thread; NULL in threads that serve none. */
extern __thread struct request *current_request;

static inline struct fuse_in_header *request_head(const struct request *rq)
{
	return (struct fuse_in_header *)(void *)(rq->rq_buf + REQUEST_OFFSET);
}

static inline void *request_arg(const struct request *rq)
{
	return request_head(rq) + 1;
}

/* PROTO_MAX_PAYLOAD bytes, page aligned, for building a reply to anything but WRITE, SETXATTR and BATCH_FORGET. */
static inline char *request_scratch(const struct request *rq)
{
	return rq->rq_buf + REQUEST_SCRATCH;
}

#endif
