/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * front.c - what all request functions use, and the end of the mount.
 *
 * The end is the same however it comes (DESTROY of a fuseblk mount, the end of the connection of a
 * plain one, a signal): nothing is let in any more, parked writes are answered, everything that the kernel held
 * open or looked up is given back, and the file system is written and unmounted.
 *
 * Invariants: (1) front_teardown() works once. (2) f_sb is not used after it.
 * Locking: f_state_lock, a leaf.
 */
#include "fuse/front.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "ext4/inode.h"
#include "fuse/control.h"
#include "fuse/file.h"
#include "fuse/freezer.h"
#include "fuse/notify.h"
#include "fuse/parking.h"
#include "fuse/remount.h"
#include "fuse/session.h"
#include "util/log.h"

struct inode *front_inode(struct front *f, fuse_ino_t ino)
{
	const struct request *rq = current_request;

	return rq != NULL && rq->rq_nodeid == ino ? rq->rq_inode : node_inode(&f->f_nodes, ino);
}

struct ns_cred front_cred(fuse_req_t req)
{
	const struct fuse_ctx *ctx = fuse_req_ctx(req);

	return (struct ns_cred){
		.nc_uid = ctx->uid,
		.nc_gid = ctx->gid,
		.nc_umask = ctx->umask,
		.nc_privileged = ctx->uid == 0,
		.nc_fsetid = ctx->uid == 0,
	};
}

bool front_is_admin(struct front *f, fuse_req_t req)
{
	uid_t uid = fuse_req_ctx(req)->uid;

	return uid == 0 || uid == f->f_owner;
}

void front_mark_durable(struct front *f, const struct inode *inode)
{
	struct blkdev *bd = f->f_sb->s_dev;
	uint32_t pid = current_request->rq_pid;
	char text[64];
	int err;

	if (!blk_wants_marks(bd))
		return;
	if (inode != NULL)
		(void)snprintf(text, sizeof(text), "durable pid %" PRIu32 " ino %" PRIu32, pid,
			       inode->i_ino);
	else
		(void)snprintf(text, sizeof(text), "durable pid %" PRIu32 " all", pid);
	err = blk_mark(bd, text);
	if (err != 0)
		log_err("mark in the log of the device: %s", strerror(-err));
}

void front_reply_err(fuse_req_t req, int err)
{
	fuse_reply_err(req, -err);
}

static void write_final_stats(struct front *f)
{
	if (f->f_stats_file == NULL)
		return;
	control_print_json(f, f->f_stats_file);
	if (fclose(f->f_stats_file) != 0)
		log_err("%s: %s", f->f_opts->mo_stats_path, strerror(errno));
	f->f_stats_file = NULL;
}

int front_teardown(struct front *f, int own)
{
	if (f->f_state == FRONT_DOWN)
		return f->f_umount_error;
	session_drain(f, own);
	remount_stop(f->f_remount);
	f->f_remount = NULL;
	if (freezer_frozen(f->f_freezer))
		freezer_thaw(f->f_freezer);
	parking_release_all(f->f_parking);
	notifier_detach(f->f_notifier);
	open_files_release_all(f->f_files);
	wb_sync_fs(f->f_sb, true);
	write_final_stats(f);
	node_table_destroy(&f->f_nodes);
	f->f_umount_error = ext4_umount(f->f_sb);
	if (f->f_umount_error != 0)
		log_err("unmounting: %s", strerror(-f->f_umount_error));
	pthread_mutex_lock(&f->f_state_lock);
	f->f_state = FRONT_DOWN;
	pthread_mutex_unlock(&f->f_state_lock);
	return f->f_umount_error;
}
