/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * answer.c - attributes in the form of the protocol.
 *
 * Invariants: (1) no struct stat is given to libfuse.
 * Locking: none.
 */
#include "fuse/answer.h"

#include <string.h>
#include <sys/sysmacros.h>

static uint32_t nsec_of(double seconds)
{
	return (uint32_t)((seconds - (double)(uint64_t)seconds) * 1e9);
}

static struct fuse_attr attr_of(const struct stat *st)
{
	return (struct fuse_attr){
		.ino = st->st_ino,
		.size = (uint64_t)st->st_size,
		.blocks = (uint64_t)st->st_blocks,
		.atime = (uint64_t)st->st_atim.tv_sec,
		.mtime = (uint64_t)st->st_mtim.tv_sec,
		.ctime = (uint64_t)st->st_ctim.tv_sec,
		.atimensec = (uint32_t)st->st_atim.tv_nsec,
		.mtimensec = (uint32_t)st->st_mtim.tv_nsec,
		.ctimensec = (uint32_t)st->st_ctim.tv_nsec,
		.mode = st->st_mode,
		.nlink = (uint32_t)st->st_nlink,
		.uid = st->st_uid,
		.gid = st->st_gid,
		.rdev = (uint32_t)st->st_rdev,
		.blksize = (uint32_t)st->st_blksize,
	};
}

static struct fuse_entry_out entry_of(const struct fuse_entry_param *e)
{
	return (struct fuse_entry_out){
		.nodeid = e->ino,
		.generation = e->generation,
		.entry_valid = (uint64_t)e->entry_timeout,
		.entry_valid_nsec = nsec_of(e->entry_timeout),
		.attr_valid = (uint64_t)e->attr_timeout,
		.attr_valid_nsec = nsec_of(e->attr_timeout),
		.attr = attr_of(&e->attr),
	};
}

int answer_attr(fuse_req_t req, const struct stat *st, double timeout_s)
{
	struct fuse_attr_out out = {
		.attr_valid = (uint64_t)timeout_s,
		.attr_valid_nsec = nsec_of(timeout_s),
		.attr = attr_of(st),
	};

	return fuse_reply_buf(req, (const char *)&out, sizeof(out));
}

int answer_entry(fuse_req_t req, const struct fuse_entry_param *e)
{
	struct fuse_entry_out out = entry_of(e);

	return fuse_reply_buf(req, (const char *)&out, sizeof(out));
}

int answer_create(fuse_req_t req, const struct fuse_entry_param *e, const struct fuse_file_info *fi)
{
	struct {
		struct fuse_entry_out entry;
		struct fuse_open_out open;
	} out = {entry_of(e), {.fh = fi->fh}};

	_Static_assert(sizeof(out) == sizeof(out.entry) + sizeof(out.open), "no gap");
	if (fi->direct_io)
		out.open.open_flags |= FOPEN_DIRECT_IO;
	if (fi->keep_cache)
		out.open.open_flags |= FOPEN_KEEP_CACHE;
	return fuse_reply_buf(req, (const char *)&out, sizeof(out));
}

/* The part that both kinds of entry end with; the area is zeroed up to the next multiple of 8. */
static void fill_dirent(char *at, size_t bytes, const char *name, size_t len, const struct stat *st,
			off_t next)
{
	struct fuse_dirent head = {
		.ino = st->st_ino,
		.off = (uint64_t)next,
		.namelen = (uint32_t)len,
		.type = (st->st_mode & S_IFMT) >> 12,
	};

	memset(at, 0, bytes);
	memcpy(at, &head, FUSE_NAME_OFFSET);
	memcpy(at + FUSE_NAME_OFFSET, name, len);
}

size_t answer_dirent(char *buf, size_t left, const char *name, const struct stat *st, off_t next)
{
	size_t len = strlen(name);
	size_t need = FUSE_DIRENT_ALIGN(FUSE_NAME_OFFSET + len);

	if (need <= left)
		fill_dirent(buf, need, name, len, st, next);
	return need;
}

size_t answer_direntplus(char *buf, size_t left, const char *name, const struct fuse_entry_param *e,
			 off_t next)
{
	const size_t head = offsetof(struct fuse_direntplus, dirent);
	struct fuse_entry_out entry;
	size_t len = strlen(name);
	size_t need = FUSE_DIRENT_ALIGN(FUSE_NAME_OFFSET_DIRENTPLUS + len);

	if (need > left)
		return need;
	entry = entry_of(e);
	memcpy(buf, &entry, sizeof(entry));
	fill_dirent(buf + head, need - head, name, len, &e->attr, next);
	return need;
}

static struct proto_sx_time sx_time_of(struct timespec ts)
{
	return (struct proto_sx_time){.tv_sec = ts.tv_sec, .tv_nsec = (uint32_t)ts.tv_nsec};
}

void answer_fill_statx(const struct stat *st, struct timespec btime, double timeout_s,
		       struct proto_statx_out *out)
{
	*out = (struct proto_statx_out){
		.attr_valid = (uint64_t)timeout_s,
		.attr_valid_nsec = nsec_of(timeout_s),
		.mask = STATX_BASIC_STATS | (btime.tv_sec != 0 ? STATX_BTIME : 0),
		.blksize = (uint32_t)st->st_blksize,
		.nlink = (uint32_t)st->st_nlink,
		.uid = st->st_uid,
		.gid = st->st_gid,
		.mode = (uint16_t)st->st_mode,
		.ino = st->st_ino,
		.size = (uint64_t)st->st_size,
		.blocks = (uint64_t)st->st_blocks,
		.atime = sx_time_of(st->st_atim),
		.btime = sx_time_of(btime),
		.ctime = sx_time_of(st->st_ctim),
		.mtime = sx_time_of(st->st_mtim),
		.rdev_major = major(st->st_rdev),
		.rdev_minor = minor(st->st_rdev),
	};
}
