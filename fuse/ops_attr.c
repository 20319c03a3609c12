/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * ops_attr.c - requests about attributes, extended ones, and the whole file system.
 *
 * Attributes are given to the kernel for long: whatever changes them is either a request, after which
 * the kernel asks again or takes the answer, or is announced by notify_attributes().
 *
 * Invariants: none of its own.
 * Locking: none of its own.
 */
#include <errno.h>
#include <string.h>
#include <sys/statvfs.h>

#include "fuse/answer.h"
#include "fuse/control.h"
#include "fuse/notify.h"
#include "fuse/ops.h"

void ops_getattr(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct front *f = front_of(req);
	struct inode *inode = front_inode(f, ino);
	struct stat st;

	(void)fi;
	if (inode == NULL) {
		control_getattr(req, ino);
		return;
	}
	memset(&st, 0, sizeof(st));
	ext4_getattr(inode, &st);
	answer_attr(req, &st, FRONT_TIMEOUT_S);
}

static struct timespec time_of(uint64_t sec, uint32_t nsec)
{
	return (struct timespec){.tv_sec = (time_t)sec, .tv_nsec = (long)nsec};
}

/* The request in terms of namespace/; not taken from libfuse's struct stat (fuse/answer.h). */
static void convert_attr(const struct fuse_setattr_in *in, int to_set, struct ns_attr *na)
{
	static const struct {
		int from;
		unsigned to;
	} bits[] = {
		{FUSE_SET_ATTR_MODE, NS_SET_MODE},
		{FUSE_SET_ATTR_UID, NS_SET_UID},
		{FUSE_SET_ATTR_GID, NS_SET_GID},
		{FUSE_SET_ATTR_SIZE, NS_SET_SIZE},
		{FUSE_SET_ATTR_ATIME, NS_SET_ATIME},
		{FUSE_SET_ATTR_MTIME, NS_SET_MTIME},
		{FUSE_SET_ATTR_CTIME, NS_SET_CTIME},
		{FUSE_SET_ATTR_ATIME_NOW, NS_SET_ATIME_NOW},
		{FUSE_SET_ATTR_MTIME_NOW, NS_SET_MTIME_NOW},
	};

	memset(na, 0, sizeof(*na));
	for (size_t i = 0; i < sizeof(bits) / sizeof(bits[0]); i++)
		if ((to_set & bits[i].from) != 0)
			na->na_valid |= bits[i].to;
	/* Both come for "now", which needs no more rights than writing. */
	if ((na->na_valid & NS_SET_ATIME_NOW) != 0)
		na->na_valid &= ~NS_SET_ATIME;
	if ((na->na_valid & NS_SET_MTIME_NOW) != 0)
		na->na_valid &= ~NS_SET_MTIME;
	if ((current_request->rq_flags & RQ_KILL_SUIDGID) != 0)
		na->na_valid |= NS_KILL_SUIDGID;
	na->na_mode = (uint16_t)in->mode;
	na->na_uid = in->uid;
	na->na_gid = in->gid;
	na->na_size = in->size;
	na->na_atime = time_of(in->atime, in->atimensec);
	na->na_mtime = time_of(in->mtime, in->mtimensec);
	na->na_ctime = time_of(in->ctime, in->ctimensec);
}

void ops_setattr(fuse_req_t req, fuse_ino_t ino, struct stat *attr, int to_set,
		 struct fuse_file_info *fi)
{
	struct front *f = front_of(req);
	struct inode *inode = front_inode(f, ino);
	struct ns_cred cred = front_cred(req);
	struct ns_attr na;
	struct stat st;
	int err;

	(void)attr;
	(void)fi;
	if (inode == NULL) {
		control_setattr(req, ino);
		return;
	}
	convert_attr(request_arg(current_request), to_set, &na);
	err = ext4_setattr(inode, &na, &cred);
	if (err != 0) {
		front_reply_err(req, err);
		return;
	}
	memset(&st, 0, sizeof(st));
	ext4_getattr(inode, &st);
	answer_attr(req, &st, FRONT_TIMEOUT_S);
}

void ops_readlink(fuse_req_t req, fuse_ino_t ino)
{
	struct inode *inode = front_inode(front_of(req), ino);
	char target[4097];
	int len = inode != NULL ? ext4_readlink(inode, target, sizeof(target)) : -EINVAL;

	if (len < 0)
		front_reply_err(req, len);
	else
		fuse_reply_readlink(req, target);
}

void ops_statfs(fuse_req_t req, fuse_ino_t ino)
{
	struct super_block *sb = front_of(req)->f_sb;
	struct statvfs sv = {0};
	struct ext4_space sp;

	(void)ino;
	ext4_space(sb, &sp);
	sv.f_bsize = sb->s_blocksize;
	sv.f_frsize = sb->s_blocksize;
	sv.f_blocks = sp.sp_blocks;
	sv.f_bfree = sp.sp_free;
	sv.f_bavail = sp.sp_avail;
	sv.f_files = sp.sp_inodes;
	sv.f_ffree = sp.sp_free_inodes;
	sv.f_favail = sp.sp_free_inodes;
	sv.f_namemax = 255;
	fuse_reply_statfs(req, &sv);
}

/* ---- Extended attributes ---- */

void ops_setxattr(fuse_req_t req, fuse_ino_t ino, const char *name, const char *value, size_t size,
		  int flags)
{
	struct front *f = front_of(req);
	struct inode *inode = front_inode(f, ino);
	struct ns_cred cred = front_cred(req);
	int err;

	if (inode == NULL) {
		front_reply_err(req, -EOPNOTSUPP);
		return;
	}
	if ((f->f_taken & PROTO_SETXATTR_EXT) != 0)
		cred.nc_fsetid = (current_request->rq_flags & RQ_ACL_KILL_SGID) == 0;
	err = ext4_setxattr(inode, name, value, size, flags, &cred);
	/* An ACL changes the mode, which the kernel does not expect. */
	if (err == 0 && strncmp(name, "system.", 7) == 0)
		notify_attributes(f, inode);
	front_reply_err(req, err);
}

void ops_getxattr(fuse_req_t req, fuse_ino_t ino, const char *name, size_t size)
{
	struct inode *inode = front_inode(front_of(req), ino);
	char *buf = request_scratch(current_request);
	ssize_t len;

	if (size > PROTO_MAX_PAYLOAD)
		size = PROTO_MAX_PAYLOAD;
	len = inode != NULL ? ext4_getxattr(inode, name, size != 0 ? buf : NULL, size) : -ENODATA;
	if (len < 0)
		front_reply_err(req, (int)len);
	else if (size == 0)
		fuse_reply_xattr(req, (size_t)len);
	else
		fuse_reply_buf(req, buf, (size_t)len);
}

void ops_listxattr(fuse_req_t req, fuse_ino_t ino, size_t size)
{
	struct inode *inode = front_inode(front_of(req), ino);
	char *buf = request_scratch(current_request);
	bool privileged = fuse_req_ctx(req)->uid == 0;
	ssize_t len;

	if (size > PROTO_MAX_PAYLOAD)
		size = PROTO_MAX_PAYLOAD;
	len = inode != NULL ? ext4_listxattr(inode, size != 0 ? buf : NULL, size, privileged) : 0;
	if (len < 0)
		front_reply_err(req, (int)len);
	else if (size == 0)
		fuse_reply_xattr(req, (size_t)len);
	else
		fuse_reply_buf(req, buf, (size_t)len);
}

void ops_removexattr(fuse_req_t req, fuse_ino_t ino, const char *name)
{
	struct front *f = front_of(req);
	struct inode *inode = front_inode(f, ino);
	int err = inode != NULL ? ext4_removexattr(inode, name) : -ENODATA;

	if (err == 0 && strncmp(name, "system.", 7) == 0)
		notify_attributes(f, inode);
	front_reply_err(req, err);
}
