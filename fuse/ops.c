/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * ops.c - the table of requests.
 *
 * What is not here is answered with ENOSYS by libfuse, which the kernel remembers: flush (close
 * costs nothing), access (the kernel checks permissions), locks (the kernel's own are used), poll,
 * copy_file_range (the kernel copies).
 *
 * Invariants: none.
 * Locking: none.
 */
#include "fuse/ops.h"

#include "fuse/session.h"

/* The kernel's last request. The answer, which libfuse sends, tells umount(8) that all is on the device. */
static void ops_destroy(void *userdata)
{
	struct front *f = userdata;

	front_teardown(f, f->f_in_flight > 0 ? 1 : 0);
}

const struct fuse_lowlevel_ops front_ops = {
	.init = session_want,
	.destroy = ops_destroy,
	.lookup = ops_lookup,
	.forget = ops_forget,
	.forget_multi = ops_forget_multi,
	.getattr = ops_getattr,
	.setattr = ops_setattr,
	.readlink = ops_readlink,
	.mknod = ops_mknod,
	.mkdir = ops_mkdir,
	.unlink = ops_unlink,
	.rmdir = ops_rmdir,
	.symlink = ops_symlink,
	.rename = ops_rename,
	.link = ops_link,
	.open = ops_open,
	.create = ops_create,
	.read = ops_read,
	.write = ops_write,
	.release = ops_release,
	.fsync = ops_fsync,
	.opendir = ops_opendir,
	.readdir = ops_readdir,
	.readdirplus = ops_readdirplus,
	.releasedir = ops_releasedir,
	.fsyncdir = ops_fsyncdir,
	.statfs = ops_statfs,
	.setxattr = ops_setxattr,
	.getxattr = ops_getxattr,
	.listxattr = ops_listxattr,
	.removexattr = ops_removexattr,
	.ioctl = ops_ioctl,
	.fallocate = ops_fallocate,
	.lseek = ops_lseek,
	.bmap = ops_bmap,
};
