/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * ops_ioctl.c - the ioctls that make sense through FUSE.
 *
 * chattr and lsattr arrive as FS_IOC_GETFLAGS and SETFLAGS with the 4 bytes that they really are, and as
 * FS_IOC_FSGETXATTR and FSSETXATTR. EXT4_IOC_SHUTDOWN arrives without its mode and is taken as the hardest
 * one. EXT4D_IOC_SYNC is ours: the whole file system is written, for mounts that sync(2) does not reach.
 *
 * Invariants: (1) what needs a privilege in the kernel needs root or the mounting user here.
 * Locking: none of its own.
 */
#include <errno.h>
#include <linux/fs.h>
#include <string.h>
#include <sys/ioctl.h>

#include "ext4/super.h"
#include "fuse/ioctl.h"
#include "fuse/notify.h"
#include "fuse/ops.h"

#define EXT4_GET_VERSION _IOR('f', 3, int)
#define EXT4_SET_VERSION _IOW('f', 4, int)
#define EXT4_SHUTDOWN _IOR('X', 125, uint32_t)
#define SHUTDOWN_NO_LOG_FLUSH 2

struct ioctl_call {
	fuse_req_t ic_req;
	struct front *ic_front;
	struct inode *ic_inode;
	const void *ic_in;
	size_t ic_in_bytes;
	size_t ic_out_bytes;
};

static const struct {
	uint32_t flag;
	uint32_t xflag;
} xflags[] = {
	{EXT2_SYNC_FL, FS_XFLAG_SYNC},	     {EXT2_IMMUTABLE_FL, FS_XFLAG_IMMUTABLE},
	{EXT2_APPEND_FL, FS_XFLAG_APPEND},   {EXT2_NODUMP_FL, FS_XFLAG_NODUMP},
	{EXT2_NOATIME_FL, FS_XFLAG_NOATIME}, {EXT4_PROJINHERIT_FL, FS_XFLAG_PROJINHERIT},
};

static void reply_value(const struct ioctl_call *ic, uint32_t value)
{
	size_t n = ic->ic_out_bytes < sizeof(value) ? ic->ic_out_bytes : sizeof(value);

	fuse_reply_ioctl(ic->ic_req, 0, &value, n);
}

/* 0 and *out, or -EINVAL if the caller gave too little. */
static int input_u32(const struct ioctl_call *ic, uint32_t *out)
{
	if (ic->ic_in_bytes < sizeof(*out))
		return -EINVAL;
	memcpy(out, ic->ic_in, sizeof(*out));
	return 0;
}

static void reply(const struct ioctl_call *ic, int err)
{
	if (err != 0)
		front_reply_err(ic->ic_req, err);
	else
		fuse_reply_ioctl(ic->ic_req, 0, NULL, 0);
}

/* The kernel does not know that these change the ctime. */
static void reply_changed(const struct ioctl_call *ic, int err)
{
	if (err == 0)
		notify_attributes(ic->ic_front, ic->ic_inode);
	reply(ic, err);
}

static int set_flags(const struct ioctl_call *ic)
{
	struct ns_cred cred = front_cred(ic->ic_req);
	uint32_t flags;
	int err = input_u32(ic, &flags);

	return err != 0 ? err : ext4_set_flags(ic->ic_inode, flags, &cred);
}

static void get_fsxattr(const struct ioctl_call *ic)
{
	uint32_t flags = ext4_get_flags(ic->ic_inode);
	struct fsxattr fsx = {.fsx_projid = ic->ic_inode->i_projid};

	for (size_t i = 0; i < sizeof(xflags) / sizeof(xflags[0]); i++)
		if ((flags & xflags[i].flag) != 0)
			fsx.fsx_xflags |= xflags[i].xflag;
	fuse_reply_ioctl(ic->ic_req, 0, &fsx,
			 ic->ic_out_bytes < sizeof(fsx) ? ic->ic_out_bytes : sizeof(fsx));
}

static int set_fsxattr(const struct ioctl_call *ic)
{
	struct ns_cred cred = front_cred(ic->ic_req);
	uint32_t flags = ext4_get_flags(ic->ic_inode);
	struct fsxattr fsx;

	if (ic->ic_in_bytes < sizeof(fsx))
		return -EINVAL;
	memcpy(&fsx, ic->ic_in, sizeof(fsx));
	if (fsx.fsx_projid != ic->ic_inode->i_projid || fsx.fsx_extsize != 0)
		return -EOPNOTSUPP;
	for (size_t i = 0; i < sizeof(xflags) / sizeof(xflags[0]); i++) {
		flags &= ~xflags[i].flag;
		if ((fsx.fsx_xflags & xflags[i].xflag) != 0)
			flags |= xflags[i].flag;
		fsx.fsx_xflags &= ~xflags[i].xflag;
	}
	/* FS_XFLAG_HASATTR only tells. */
	if ((fsx.fsx_xflags & ~(uint32_t)FS_XFLAG_HASATTR) != 0)
		return -EOPNOTSUPP;
	return ext4_set_flags(ic->ic_inode, flags, &cred);
}

static int set_version(const struct ioctl_call *ic)
{
	uint32_t generation;
	int err = input_u32(ic, &generation);

	return err != 0 ? err : ext4_set_generation(ic->ic_inode, generation);
}

static void trim(const struct ioctl_call *ic)
{
	struct super_block *sb = ic->ic_front->f_sb;
	struct fstrim_range range;
	uint64_t trimmed;
	uint64_t minlen;
	int err;

	if (ic->ic_in_bytes < sizeof(range) || ic->ic_out_bytes < sizeof(range)) {
		front_reply_err(ic->ic_req, -EINVAL);
		return;
	}
	memcpy(&range, ic->ic_in, sizeof(range));
	minlen = range.minlen / sb->s_blocksize + (range.minlen % sb->s_blocksize != 0);
	err = ext4_trim_fs(sb, range.start >> sb->s_blocksize_bits,
			   range.len >> sb->s_blocksize_bits, minlen, &trimmed);
	if (err != 0) {
		front_reply_err(ic->ic_req, err);
		return;
	}
	range.len = trimmed << sb->s_blocksize_bits;
	fuse_reply_ioctl(ic->ic_req, 0, &range, sizeof(range));
}

/* Calls that act on the whole file system, for root and who mounted. */
static void admin_call(const struct ioctl_call *ic, unsigned cmd)
{
	struct super_block *sb = ic->ic_front->f_sb;

	if (!front_is_admin(ic->ic_front, ic->ic_req))
		front_reply_err(ic->ic_req, -EPERM);
	else if (cmd == FITRIM)
		trim(ic);
	else if (cmd == EXT4_SHUTDOWN)
		reply(ic, ext4_shutdown(sb, SHUTDOWN_NO_LOG_FLUSH));
	else
		reply(ic, wb_syncfs(sb, &ic->ic_front->f_told_ioctl));
}

/*
 * These calls are defined with a long, and move an int: callers with either size of a long mean the
 * same. On a 32-bit host the two forms are one.
 */
static unsigned int_form(unsigned cmd)
{
	if (_IOC_SIZE(cmd) != sizeof(int64_t))
		return cmd;
	return _IOC(_IOC_DIR(cmd), _IOC_TYPE(cmd), _IOC_NR(cmd), sizeof(int32_t));
}

static void file_call(const struct ioctl_call *ic, unsigned cmd)
{
	switch (int_form(cmd)) {
	case FS_IOC32_GETFLAGS:
		reply_value(ic, ext4_get_flags(ic->ic_inode));
		break;
	case FS_IOC32_SETFLAGS:
		reply_changed(ic, set_flags(ic));
		break;
	case FS_IOC_FSGETXATTR:
		get_fsxattr(ic);
		break;
	case FS_IOC_FSSETXATTR:
		reply_changed(ic, set_fsxattr(ic));
		break;
	case FS_IOC32_GETVERSION:
	case EXT4_GET_VERSION:
		reply_value(ic, ic->ic_inode->i_generation);
		break;
	case FS_IOC32_SETVERSION:
	case EXT4_SET_VERSION:
		reply_changed(ic, set_version(ic));
		break;
	default:
		front_reply_err(ic->ic_req, -ENOTTY);
		break;
	}
}

void ops_ioctl(fuse_req_t req, fuse_ino_t ino, unsigned int cmd, void *arg,
	       struct fuse_file_info *fi, unsigned flags, const void *in_buf, size_t in_bufsz,
	       size_t out_bufsz)
{
	struct ioctl_call ic = {
		.ic_req = req,
		.ic_front = front_of(req),
		.ic_inode = front_inode(front_of(req), ino),
		.ic_in = in_buf,
		.ic_in_bytes = in_bufsz,
		.ic_out_bytes = out_bufsz,
	};

	(void)arg;
	(void)fi;
	(void)flags;
	if (ic.ic_inode == NULL)
		front_reply_err(req, -ENOTTY);
	else if (cmd == FITRIM || cmd == EXT4_SHUTDOWN || cmd == EXT4D_IOC_SYNC)
		admin_call(&ic, cmd);
	else
		file_call(&ic, cmd);
}
