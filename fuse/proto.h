/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef FUSE_PROTO_H
#define FUSE_PROTO_H
/* The FUSE protocol: the system's header, and what it may be too old for. */

#include <linux/fuse.h>
#include <stdint.h>

/* Operations that libfuse may not know. */
#define PROTO_SYNCFS 50u
#define PROTO_TMPFILE 51u
#define PROTO_STATX 52u
#define PROTO_COPY_FILE_RANGE_64 53u
#define PROTO_OPCODES 64u

/* INIT flags, by bit: the upper 32 are flags2. */
#define PROTO_HANDLE_KILLPRIV_V2 (UINT64_C(1) << 28)
#define PROTO_SETXATTR_EXT (UINT64_C(1) << 29)
#define PROTO_INIT_EXT (UINT64_C(1) << 30)
#define PROTO_DIRECT_IO_ALLOW_MMAP (UINT64_C(1) << 36)

/* Flags inside requests. */
#define PROTO_FATTR_KILL_SUIDGID (1u << 11)
#define PROTO_WRITE_KILL_SUIDGID (1u << 2)
#define PROTO_OPEN_KILL_SUIDGID (1u << 0)
#define PROTO_SETXATTR_ACL_KILL_SGID (1u << 0)

/* A flag of the answer to OPEN and CREATE. */
#define PROTO_FOPEN_PARALLEL_DIRECT_WRITES (1u << 6)

/* What a request may carry. */
#define PROTO_MAX_PAYLOAD (1u << 20)
/* Bytes of a WRITE before its payload. */
#define PROTO_WRITE_HEAD (sizeof(struct fuse_in_header) + sizeof(struct fuse_write_in))

_Static_assert(sizeof(struct fuse_in_header) == 40, "the kernel's size");
_Static_assert(sizeof(struct fuse_write_in) == 40, "the kernel's size");

#endif
