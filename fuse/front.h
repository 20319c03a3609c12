/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef FUSE_FRONT_H
#define FUSE_FRONT_H
/* The front of one mounted file system: what the request functions share. */

#define FUSE_USE_VERSION 314
#include <fuse3/fuse_lowlevel.h>

#include "fuse/device.h"
#include "fuse/node.h"
#include "fuse/options.h"
#include "fuse/pool.h"
#include "fuse/request.h"
#include "fuse/transport.h"
#include "namespace/namespace.h"
#include "util/hist.h"
#include "util/lock.h"
#include "writeback/writeback.h"

struct control;
struct notifier;
struct parking;
struct freezer;
struct remount;

/* How long the kernel may keep names and attributes: all changes go through the kernel. */
#define FRONT_TIMEOUT_S 3600.0

struct opcode_stats {
	counter_t op_errors;
	struct hist op_latency_ns; /* from received to answered, or parked */
};

enum front_state {
	FRONT_RUNNING,
	FRONT_DRAINING, /* no new request is let in */
	FRONT_DOWN	/* the file system is unmounted */
};

struct front {
	struct mount_options *f_opts; /* [const after init] */
	struct device *f_device;      /* [const after init] */
	char *f_mountpoint;	      /* [const after init] */
	bool f_fuseblk;		      /* [const after init] sync(2) and umount(8) reach us */
	bool f_syncfs_seen;	      /* [atomic enough: set once] */
	/* [atomic] lost data that syncfs(2), and `ext4d -u` or `--sync`, have been told of */
	_Atomic uint32_t f_told_syncfs, f_told_ioctl;
	uid_t f_owner;			/* [const after init] who mounted */
	struct super_block *f_sb;	/* [const until FRONT_DOWN] */
	struct fuse_session *f_session; /* [const after init] */
	struct transport *f_transport;	/* [const after init] */
	struct pool *f_pool;		/* [const after start] */
	struct node_table f_nodes;
	struct open_files *f_files;  /* [const after init] */
	struct parking *f_parking;   /* [const after init] */
	struct notifier *f_notifier; /* [const after init] */
	struct freezer *f_freezer;   /* [const after init] */
	struct remount *
		f_remount; /* [const after init, until no request is served] NULL: remounts are not followed */
	struct control *f_control; /* [const after init] NULL with nocontrol */
	FILE *f_stats_file;	   /* [const after init] NULL: none */

	/* What the kernel offered, and what was taken: set by INIT, before the pool starts. */
	uint64_t f_offered;
	uint64_t f_taken;
	bool f_direct_opens; /* FOPEN_DIRECT_IO is coherent with cached readers and maps */
	bool f_init_done;
	uint32_t f_proto_minor;

	pthread_mutex_t f_state_lock; /* leaf */
	pthread_cond_t f_idle;	      /* with f_state_lock: f_in_flight may have reached its goal */
	_Atomic int f_state;	      /* [f_state_lock for changes] enum front_state */
	_Atomic int f_in_flight;      /* requests being served, parked ones not */
	int f_umount_error;	      /* [set by front_teardown] */

	struct opcode_stats f_ops[PROTO_OPCODES];
	uint64_t f_start_ns;
};

static inline struct front *front_of(fuse_req_t req)
{
	return fuse_req_userdata(req);
}

/* The inode of a nodeid; the kernel holds a look-up count, so no reference is needed. NULL for a control file, and for what is not known. */
struct inode *front_inode(struct front *f, fuse_ino_t ino);
struct ns_cred front_cred(fuse_req_t req);
/* May this caller do what needs privilege: root, or who mounted. */
bool front_is_admin(struct front *f, fuse_req_t req);
/*
 * With a log on the device (blk=log:): mark there that the request being served has made an inode, or everything (NULL), durable.
 * Before the answer: "durable pid N ino N", "durable pid N all".
 */
void front_mark_durable(struct front *f, const struct inode *inode);
/* Answer with err <= 0. */
void front_reply_err(fuse_req_t req, int err);

/*
 * Everything that the kernel holds is dropped, the file system is written and unmounted. Once; later calls return the
 * first result. No request is being served but the caller's (`own` requests of it are in flight).
 */
int front_teardown(struct front *f, int own);

#endif
