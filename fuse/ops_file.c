/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * ops_file.c - requests on regular files.
 *
 * How an open is cached decides its cost. A write-only open goes past the kernel's page cache
 * (FOPEN_DIRECT_IO): its data is copied once, into our cache. The kernel drops its cached pages at each such write
 * only if it knows DIRECT_IO_ALLOW_MMAP; on older kernels those opens are cached like all others. Other
 * opens keep the kernel's pages (keep_cache), since every change comes through the kernel, except
 * when the first read must reach us because relatime would update the access time.
 *
 * Reads are answered straight from pinned frames. Writes are copied from the request, whose payload is
 * page aligned; then the throttle may hold the answer back (parking.c).
 *
 * What a cached reader and a direct writer do at the same time is put right by notify_direct_write().
 *
 * Invariants: (1) of_direct says what the kernel was told at open. (2) O_SYNC and O_DSYNC of a WRITE count only on
 * direct opens: for others the kernel sends an FSYNC.
 * Locking: none of its own.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "ext4/inode.h"
#include "fuse/answer.h"
#include "fuse/control.h"
#include "fuse/file.h"
#include "fuse/notify.h"
#include "fuse/ops.h"
#include "fuse/parking.h"
#include "util/time.h"

#define RELATIME_SECONDS (24 * 60 * 60)
/* writev(2) takes 1024; the header is one. */
#define MAX_REPLY_IOVS 1000

/* ---- Open ---- */

static bool ts_before_or_same(struct timespec a, struct timespec b)
{
	return a.tv_sec < b.tv_sec || (a.tv_sec == b.tv_sec && a.tv_nsec <= b.tv_nsec);
}

/* Would a read now change the access time? Then the kernel must not answer it from its cache. */
static bool read_updates_atime(struct inode *inode, int flags)
{
	const struct ext4_options *o = &inode->i_sb->s_opts;
	bool update;

	if ((flags & O_NOATIME) != 0 || sb_rdonly(inode->i_sb) || o->o_atime == ATIME_NOATIME ||
	    (inode->i_flags & EXT2_NOATIME_FL) != 0)
		return false;
	if (o->o_atime == ATIME_STRICT)
		return true;
	mutex_lock(&inode->i_lock);
	update = ts_before_or_same(inode->i_atime, inode->i_mtime) ||
		 ts_before_or_same(inode->i_atime, inode->i_ctime) ||
		 now_coarse().tv_sec - inode->i_atime.tv_sec >= RELATIME_SECONDS;
	mutex_unlock(&inode->i_lock);
	return update;
}

static void choose_caching(struct front *f, struct inode *inode, struct fuse_file_info *fi)
{
	bool write_only = (fi->flags & O_ACCMODE) == O_WRONLY;
	bool direct = false;

	switch (f->f_opts->mo_kernel_cache) {
	case KERNEL_CACHE_AUTO:
		direct = f->f_direct_opens && (write_only || (fi->flags & O_DIRECT) != 0);
		break;
	case KERNEL_CACHE_NONE:
		direct = true;
		break;
	case KERNEL_CACHE_THROUGH:
	case KERNEL_CACHE_WRITEBACK:
		direct = f->f_direct_opens && (fi->flags & O_DIRECT) != 0;
		break;
	}
	fi->direct_io = direct;
	/* The kernel, too, takes its lock for read then, for overwrites inside the file. */
	if (direct && (fi->flags & O_DIRECT) != 0)
		current_request->rq_flags |= RQ_PARALLEL_WRITES;
	fi->keep_cache = !direct && (write_only || !read_updates_atime(inode, fi->flags));
}

/* ext4_file_open() and what follows from it. NULL with *err set. */
static struct open_file *open_inode(struct front *f, struct inode *inode, struct fuse_file_info *fi,
				    int *err)
{
	bool kill = (current_request->rq_flags & RQ_KILL_SUIDGID) != 0;
	struct open_file *of;

	*err = ext4_file_open(inode, fi->flags, kill);
	if (*err != 0)
		return NULL;
	choose_caching(f, inode, fi);
	of = open_file_new(f, inode, fi->flags);
	if (of == NULL) {
		ext4_file_release(inode, fi->flags);
		*err = -ENOMEM;
		return NULL;
	}
	of->of_direct = fi->direct_io;
	fi->fh = (uintptr_t)of;
	return of;
}

void ops_open(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct front *f = front_of(req);
	struct inode *inode = front_inode(f, ino);
	struct open_file *of;
	uint16_t old_mode;
	int err;

	if (inode == NULL) {
		control_open(req, ino, fi);
		return;
	}
	old_mode = inode->i_mode;
	of = open_inode(f, inode, fi, &err);
	if (of == NULL)
		front_reply_err(req, err);
	else if (inode->i_mode != old_mode) /* O_TRUNC has taken suid and sgid bits */
		notify_attributes_then(
			f, inode,
			&(struct held_answer){.ha_req = req, .ha_open = true, .ha_open_fi = *fi});
	else if (fuse_reply_open(req, fi) != 0)
		open_file_release(f, of);
}

/* Make the file, or find it: the kernel's idea that it does not exist can be old on network-like re-exports. */
static int create_inode(fuse_req_t req, struct inode *dir, const struct ns_new *n, int flags,
			struct inode **out)
{
	int err;

	(void)req;
	if ((current_request->rq_flags & RQ_TMPFILE) != 0)
		return ext4_tmpfile(dir, n, out);
	err = ext4_create(dir, n, out);
	if (err == -EEXIST && (flags & O_EXCL) == 0)
		err = ext4_lookup(dir, n->nn_name, n->nn_len, out);
	return err;
}

void ops_create(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode,
		struct fuse_file_info *fi)
{
	struct front *f = front_of(req);
	struct inode *dir = front_inode(f, parent);
	struct ns_cred cred = front_cred(req);
	struct ns_new n = {.nn_name = name, .nn_len = strlen(name), .nn_cred = &cred};
	struct fuse_entry_param e;
	struct inode *inode = NULL;
	struct open_file *of = NULL;
	int err = -EPERM;

	n.nn_mode = (uint16_t)((mode & 07777) | S_IFREG);
	if (dir != NULL && !control_is_name(f, parent, name))
		err = create_inode(req, dir, &n, fi->flags, &inode);
	if (err == 0) {
		front_fill_entry(f, inode, &e);
		of = open_inode(f, inode, fi, &err);
		if (of == NULL)
			node_forget(&f->f_nodes, e.ino, 1);
	}
	if (err != 0) {
		front_reply_err(req, err);
		return;
	}
	if (answer_create(req, &e, fi) != 0) {
		open_file_release(f, of);
		node_forget(&f->f_nodes, e.ino, 1);
	}
}

void ops_release(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	(void)ino;
	open_file_release(front_of(req), open_file_of(fi));
	fuse_reply_err(req, 0);
}

/* ---- Read ---- */

/* Neighbouring pieces become one; returns how many are left. */
static int merge_iov(struct iovec *iov, int n)
{
	int last = 0;

	for (int i = 1; i < n; i++) {
		if ((char *)iov[last].iov_base + iov[last].iov_len == iov[i].iov_base)
			iov[last].iov_len += iov[i].iov_len;
		else
			iov[++last] = iov[i];
	}
	return n == 0 ? 0 : last + 1;
}

static void reply_frames(fuse_req_t req, struct wb_read *r)
{
	char *buf = request_scratch(current_request);
	size_t at = 0;
	int n = merge_iov(r->r_iov, r->r_iovcnt);

	if (n <= MAX_REPLY_IOVS) {
		fuse_reply_iov(req, r->r_iov, n);
		return;
	}
	for (int i = 0; i < n; i++) {
		memcpy(buf + at, r->r_iov[i].iov_base, r->r_iov[i].iov_len);
		at += r->r_iov[i].iov_len;
	}
	fuse_reply_buf(req, buf, at);
}

static void read_direct(fuse_req_t req, struct inode *inode, size_t size, off_t off, int flags)
{
	struct iovec iov = {request_scratch(current_request), size};
	ssize_t n = file_read_direct(inode, (uint64_t)off, &iov, 1, (unsigned)flags);

	if (n < 0)
		front_reply_err(req, (int)n);
	else
		fuse_reply_buf(req, iov.iov_base, (size_t)n);
}

void ops_read(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off, struct fuse_file_info *fi)
{
	struct open_file *of = open_file_of(fi);
	struct inode *inode = front_inode(front_of(req), ino);
	static __thread struct wb_read r;
	int err;

	if (size > PROTO_MAX_PAYLOAD)
		size = PROTO_MAX_PAYLOAD;
	if (of->of_ctl != NULL) {
		control_read(req, of->of_ctl, size, off, fi->flags);
		return;
	}
	if ((fi->flags & O_DIRECT) != 0) {
		read_direct(req, inode, size, off, fi->flags);
		return;
	}
	if (!of->of_direct && size > 0)
		node_note_read(inode, (uint64_t)off, size);
	err = file_read(inode, (uint64_t)off, size, (unsigned)of->of_flags, &r);
	if (err != 0) {
		front_reply_err(req, err);
		return;
	}
	reply_frames(req, &r);
	wb_read_done(&r);
}

/* ---- Write ---- */

static unsigned write_flags(struct front *f, const struct open_file *of,
			    const struct fuse_file_info *fi, const struct inode *inode)
{
	const struct ext4_options *o = &f->f_sb->s_opts;
	bool write_out = fi->writepage;
	unsigned flags = 0;

	if ((current_request->rq_flags & RQ_KILL_SUIDGID) != 0)
		flags |= WB_WRITE_KILL_SUIDGID;
	/* With its own dirty pages the kernel knows the size, and its write-out extends the file. */
	if (write_out && f->f_opts->mo_kernel_cache != KERNEL_CACHE_WRITEBACK)
		return flags | WB_WRITE_CACHE;
	if (write_out)
		return flags;
	if ((fi->flags & O_APPEND) != 0 && f->f_opts->mo_kernel_cache != KERNEL_CACHE_WRITEBACK)
		flags |= WB_WRITE_APPEND;
	if ((fi->flags & O_DIRECT) != 0)
		flags |= WB_WRITE_DIRECT;
	if (o->o_sync || (inode->i_flags & EXT2_SYNC_FL) != 0)
		return flags | WB_WRITE_SYNC;
	if (!of->of_direct)
		return flags;
	if ((fi->flags & O_SYNC) == O_SYNC)
		flags |= WB_WRITE_SYNC;
	else if ((fi->flags & O_DSYNC) != 0)
		flags |= WB_WRITE_DSYNC;
	return flags;
}

static void write_inode(fuse_req_t req, struct inode *inode, struct wb_write *w)
{
	struct front *f = front_of(req);
	ssize_t n = file_write(inode, w);

	if (n <= 0) {
		if (w->w_has_privs_to_drop)
			notify_attributes(f, inode);
		front_reply_err(req, n == 0 ? -EIO : (int)n);
		return;
	}
	if ((w->w_flags & (WB_WRITE_SYNC | WB_WRITE_DSYNC)) != 0)
		front_mark_durable(f, inode);
	if (w->w_has_privs_to_drop) {
		notify_attributes_then(f, inode,
				       &(struct held_answer){.ha_req = req, .ha_bytes = (size_t)n});
		return;
	}
	if ((w->w_flags & WB_WRITE_DIRECT) != 0 &&
	    notify_direct_write(req, inode, w->w_pos, (size_t)n))
		return;
	if ((w->w_flags & WB_WRITE_CACHE) == 0 && parking_throttle(req, inode, w->w_pos, (size_t)n))
		return;
	fuse_reply_write(req, (size_t)n);
}

void ops_write(fuse_req_t req, fuse_ino_t ino, const char *buf, size_t size, off_t off,
	       struct fuse_file_info *fi)
{
	struct front *f = front_of(req);
	struct inode *inode = front_inode(f, ino);
	const struct fuse_ctx *ctx = fuse_req_ctx(req);
	struct iovec iov = {(char *)(uintptr_t)buf, size};
	struct wb_write w = {
		.w_iov = &iov,
		.w_iovcnt = 1,
		.w_len = size,
		.w_pos = (uint64_t)off,
		.w_cred = {.cr_uid = ctx->uid, .cr_gid = ctx->gid, .cr_privileged = ctx->uid == 0},
	};

	if (inode == NULL) {
		control_write(req, ino, buf, size, off);
		return;
	}
	if (size == 0) {
		fuse_reply_write(req, 0);
		return;
	}
	/* The handle of a write-out by the kernel may be any open file's. */
	w.w_flags = write_flags(f, open_file_of(fi), fi, inode);
	write_inode(req, inode, &w);
}

/* ---- The rest ---- */

void ops_fsync(fuse_req_t req, fuse_ino_t ino, int datasync, struct fuse_file_info *fi)
{
	struct open_file *of = open_file_of(fi);
	struct inode *inode = front_inode(front_of(req), ino);
	uint32_t since;
	int err, seen;

	if (inode == NULL) {
		front_reply_err(req, 0);
		return;
	}
	err = ext4_sync_file(inode, datasync != 0);
	since = of->of_err;
	seen = wb_err_check_and_advance(inode, &since);
	of->of_err = since;
	if (err == 0 && seen == 0)
		front_mark_durable(front_of(req), inode);
	/* That the data is lost comes before what followed from it. */
	front_reply_err(req, seen != 0 ? seen : err);
}

void ops_fallocate(fuse_req_t req, fuse_ino_t ino, int mode, off_t offset, off_t length,
		   struct fuse_file_info *fi)
{
	struct inode *inode = front_inode(front_of(req), ino);
	const struct fuse_ctx *ctx = fuse_req_ctx(req);
	struct ext4_cred cred = {
		.cr_uid = ctx->uid, .cr_gid = ctx->gid, .cr_privileged = ctx->uid == 0};
	uint16_t old_mode;
	int err;

	(void)fi;
	if (inode == NULL) {
		front_reply_err(req, -EOPNOTSUPP);
		return;
	}
	old_mode = inode->i_mode;
	err = ext4_fallocate(inode, mode, (uint64_t)offset, (uint64_t)length, &cred);
	/* The kernel does not expect suid and sgid bits to go. */
	if (inode->i_mode != old_mode)
		notify_attributes_then(front_of(req), inode,
				       &(struct held_answer){.ha_req = req, .ha_err = err});
	else
		front_reply_err(req, err);
}

void ops_lseek(fuse_req_t req, fuse_ino_t ino, off_t off, int whence, struct fuse_file_info *fi)
{
	struct inode *inode = front_inode(front_of(req), ino);
	int64_t found = inode != NULL ? ext4_seek(inode, off, whence) : -EINVAL;

	(void)fi;
	if (found < 0)
		front_reply_err(req, (int)found);
	else
		fuse_reply_lseek(req, found);
}

/* Block numbers in units of blocksize, which is the mount's and can be larger than the file system's: 0 where that does not fit. */
void ops_bmap(fuse_req_t req, fuse_ino_t ino, size_t blocksize, uint64_t idx)
{
	struct inode *inode = front_inode(front_of(req), ino);
	uint64_t bs = front_of(req)->f_sb->s_blocksize, bytes;
	int64_t block;

	if (inode == NULL || blocksize == 0 || blocksize % bs != 0 || idx > UINT32_MAX) {
		front_reply_err(req, -EINVAL);
		return;
	}
	block = ext4_bmap(inode, idx * (blocksize / bs));
	if (block < 0) {
		front_reply_err(req, (int)block);
		return;
	}
	bytes = (uint64_t)block * bs;
	fuse_reply_bmap(req, bytes % blocksize == 0 ? bytes / blocksize : 0);
}
