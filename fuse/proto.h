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

/* The answer to STATX. */
struct proto_sx_time {
	int64_t tv_sec;
	uint32_t tv_nsec;
	int32_t reserved;
};

struct proto_statx_out {
	uint64_t attr_valid;
	uint32_t attr_valid_nsec;
	uint32_t flags;
	uint64_t spare1[2];
	uint32_t mask; /* STATX_*: from here on as statx(2) has it, with no DAX or mount fields */
	uint32_t blksize;
	uint64_t attributes;
	uint32_t nlink, uid, gid;
	uint16_t mode;
	uint16_t spare2;
	uint64_t ino, size, blocks;
	uint64_t attributes_mask;
	struct proto_sx_time atime, btime, ctime, mtime;
	uint32_t rdev_major, rdev_minor, dev_major, dev_minor;
	uint64_t spare3[14];
};

_Static_assert(sizeof(struct proto_statx_out) == 32 + 256, "the kernel's size");
_Static_assert(sizeof(struct fuse_in_header) == 40, "the kernel's size");
_Static_assert(sizeof(struct fuse_write_in) == 40, "the kernel's size");

#endif
