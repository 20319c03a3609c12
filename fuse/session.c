/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * session.c - requests on their way to libfuse, answers on their way back.
 *
 * libfuse 3.14 speaks protocol 7.31; the kernel speaks more. The difference is made up for here:
 *
 *  - INIT: flags that libfuse cannot set are added to its answer, if the kernel offered them.
 *  - SYNCFS and STATX are answered here: libfuse would say ENOSYS, and the kernel would never ask again.
 *  - INTERRUPT ends parked writes; libfuse does not see it.
 *  - TMPFILE becomes a CREATE that ops_create() knows by RQ_TMPFILE.
 *  - SETXATTR with the longer head (flag SETXATTR_EXT) becomes one with the short head.
 *  - Flags of WRITE, SETATTR, OPEN and CREATE that libfuse hides are kept in the struct request.
 *
 * Answers leave through the writev hook of libfuse's custom I/O, to the channel of the current request.
 *
 * DESTROY is the end: it waits until nothing else is being served, and the file system is unmounted before it is
 * answered, so that umount(8) of a fuseblk mount returns when everything is on the device.
 *
 * Invariants: (1) a request that passes enter() is counted in f_in_flight until leave(). (2) nothing enters
 * unless f_state is RUNNING. (3) current_request is the request being served, in each thread.
 * Locking: f_state_lock, a leaf.
 */
#include "fuse/session.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "ext4/inode.h"
#include "fuse/answer.h"
#include "fuse/control.h"
#include "fuse/file.h"
#include "fuse/freezer.h"
#include "fuse/parking.h"
#include "fuse/remount.h"
#include "util/log.h"
#include "util/time.h"

#define BACKGROUND_REQUESTS 64

__thread struct request *current_request;

/* ---- Answers ---- */

static size_t iov_bytes(const struct iovec *iov, int count)
{
	size_t total = 0;

	for (int i = 0; i < count; i++)
		total += iov[i].iov_len;
	return total;
}

/* The answer to INIT: add what libfuse cannot say. */
static void extend_init(struct front *f, const struct iovec *iov, int count)
{
	uint64_t want = PROTO_HANDLE_KILLPRIV_V2 | PROTO_SETXATTR_EXT | PROTO_DIRECT_IO_ALLOW_MMAP;
	struct fuse_init_out *out;
	uint64_t flags;

	if (count < 2 || iov[1].iov_len < sizeof(*out))
		return;
	out = iov[1].iov_base;
	flags = out->flags;
	if ((f->f_offered & PROTO_INIT_EXT) == 0)
		want &= UINT32_MAX;
	flags |= want & f->f_offered;
	if (flags >> 32 != 0)
		flags |= PROTO_INIT_EXT;
	out->flags = (uint32_t)flags;
	out->flags2 = (uint32_t)(flags >> 32);
	f->f_taken = flags;
}

/* libfuse does not know the flag. The answer to CREATE has the entry before it. */
static void allow_parallel_writes(const struct iovec *iov, int count)
{
	struct fuse_open_out *out;

	if (count != 2 || iov[1].iov_len < sizeof(*out))
		return;
	out = (struct fuse_open_out *)(void *)((char *)iov[1].iov_base + iov[1].iov_len -
					       sizeof(*out));
	out->open_flags |= PROTO_FOPEN_PARALLEL_DIRECT_WRITES;
}

static int send_answer(struct front *f, const struct iovec *iov, int count)
{
	unsigned channel = 0;

	if (current_request != NULL) {
		const struct fuse_out_header *head = iov[0].iov_base;

		channel = current_request->rq_channel;
		if ((current_request->rq_flags & RQ_INIT) != 0)
			extend_init(f, iov, count);
		if ((current_request->rq_flags & RQ_PARALLEL_WRITES) != 0 && head->error == 0)
			allow_parallel_writes(iov, count);
		if (head->error != 0 && current_request->rq_opcode < PROTO_OPCODES)
			counter_inc(&f->f_ops[current_request->rq_opcode].op_errors);
	}
	return f->f_transport->t_ops->reply(f->f_transport, channel, iov, count);
}

static ssize_t hook_writev(int fd, struct iovec *iov, int count, void *userdata)
{
	int err = send_answer(userdata, iov, count);

	(void)fd;
	if (err == 0)
		return (ssize_t)iov_bytes(iov, count);
	errno = -err;
	return -1;
}

/* libfuse never reads by itself here: the threads of the pool do. */
static ssize_t hook_read(int fd, void *buf, size_t len, void *userdata)
{
	(void)fd;
	(void)buf;
	(void)len;
	(void)userdata;
	errno = ENOSYS;
	return -1;
}

static void raw_reply(struct front *f, uint64_t unique, int err)
{
	struct fuse_out_header out = {.len = sizeof(out), .error = err, .unique = unique};
	struct iovec iov = {&out, sizeof(out)};

	send_answer(f, &iov, 1);
}

/* ---- Who is in ---- */

static bool enter(struct front *f)
{
	atomic_fetch_add(&f->f_in_flight, 1);
	return atomic_load(&f->f_state) == FRONT_RUNNING;
}

static void leave(struct front *f)
{
	atomic_fetch_sub(&f->f_in_flight, 1);
	if (atomic_load(&f->f_state) == FRONT_RUNNING)
		return;
	pthread_mutex_lock(&f->f_state_lock);
	pthread_cond_broadcast(&f->f_idle);
	pthread_mutex_unlock(&f->f_state_lock);
}

void session_drain(struct front *f, int own)
{
	pthread_mutex_lock(&f->f_state_lock);
	if (f->f_state == FRONT_RUNNING)
		f->f_state = FRONT_DRAINING;
	while (atomic_load(&f->f_in_flight) > own)
		pthread_cond_wait(&f->f_idle, &f->f_state_lock);
	pthread_mutex_unlock(&f->f_state_lock);
}

static bool has_no_answer(uint32_t opcode)
{
	return opcode == FUSE_FORGET || opcode == FUSE_BATCH_FORGET || opcode == FUSE_INTERRUPT;
}

/* ---- What is not libfuse's ---- */

static void serve_syncfs(struct front *f, struct request *rq)
{
	int err = wb_syncfs(f->f_sb, &f->f_told_syncfs);

	f->f_syncfs_seen = true;
	if (err == 0)
		front_mark_durable(f, NULL);
	raw_reply(f, rq->rq_unique, err);
}

/* The kernel asks so only for the time of birth, which GETATTR does not have. */
static void serve_statx(struct front *f, const struct request *rq)
{
	struct inode *inode = rq->rq_inode;
	struct fuse_out_header head = {.unique = rq->rq_unique};
	struct timespec btime = {0};
	struct proto_statx_out out;
	struct stat st = {0};
	struct iovec iov[] = {{&head, sizeof(head)}, {&out, sizeof(out)}};

	if (inode == NULL) {
		control_stat(f, rq->rq_nodeid, &st);
		answer_fill_statx(&st, btime, CONTROL_TIMEOUT_S, &out);
	} else {
		ext4_getattr(inode, &st);
		/* Small inodes have no place for it. */
		if (f->f_sb->s_inode_size > EXT2_GOOD_OLD_INODE_SIZE) {
			mutex_lock(&inode->i_lock);
			btime = inode->i_crtime;
			mutex_unlock(&inode->i_lock);
		}
		answer_fill_statx(&st, btime, FRONT_TIMEOUT_S, &out);
	}
	head.len = sizeof(head) + sizeof(out);
	send_answer(f, iov, 2);
}

static void serve_interrupt(struct front *f, struct request *rq)
{
	const struct fuse_interrupt_in *in = request_arg(rq);

	if (rq->rq_bytes >= sizeof(struct fuse_in_header) + sizeof(*in))
		parking_interrupt(f->f_parking, in->unique);
}

/* The long head of SETXATTR has 8 bytes more than libfuse expects: move the rest of the request up over them. */
static void shorten_setxattr(struct request *rq)
{
	const struct fuse_setxattr_in *in = request_arg(rq);
	const size_t head = sizeof(struct fuse_in_header) + FUSE_COMPAT_SETXATTR_IN_SIZE;
	const size_t extra = sizeof(*in) - FUSE_COMPAT_SETXATTR_IN_SIZE;
	char *start = rq->rq_buf + REQUEST_OFFSET;

	if (rq->rq_bytes < head + extra)
		return;
	if ((in->setxattr_flags & PROTO_SETXATTR_ACL_KILL_SGID) != 0)
		rq->rq_flags |= RQ_ACL_KILL_SGID;
	memmove(start + head, start + head + extra, rq->rq_bytes - head - extra);
	rq->rq_bytes -= extra;
	request_head(rq)->len -= (uint32_t)extra;
}

/* Flags that libfuse drops, and requests that it must see differently. */
static void prepare(struct front *f, struct request *rq)
{
	void *arg = request_arg(rq);
	bool kill = false;

	switch (rq->rq_opcode) {
	case FUSE_WRITE:
		kill = ((struct fuse_write_in *)arg)->write_flags & PROTO_WRITE_KILL_SUIDGID;
		break;
	case FUSE_SETATTR:
		kill = ((struct fuse_setattr_in *)arg)->valid & PROTO_FATTR_KILL_SUIDGID;
		break;
	case FUSE_OPEN:
		kill = ((struct fuse_open_in *)arg)->open_flags & PROTO_OPEN_KILL_SUIDGID;
		break;
	case PROTO_TMPFILE:
		rq->rq_flags |= RQ_TMPFILE;
		request_head(rq)->opcode = FUSE_CREATE;
		break;
	case FUSE_CREATE:
		kill = ((struct fuse_create_in *)arg)->open_flags & PROTO_OPEN_KILL_SUIDGID;
		break;
	case FUSE_SETXATTR:
		if ((f->f_taken & PROTO_SETXATTR_EXT) != 0)
			shorten_setxattr(rq);
		break;
	default:
		break;
	}
	if (kill)
		rq->rq_flags |= RQ_KILL_SUIDGID;
}

/* Would this request change the file system: it waits while that is frozen. */
static bool changes_fs(const struct request *rq)
{
	switch (rq->rq_opcode) {
	case FUSE_OPEN:
		if ((((struct fuse_open_in *)request_arg(rq))->flags & O_TRUNC) == 0)
			return false;
		break;
	case FUSE_SETATTR:
	case FUSE_SYMLINK:
	case FUSE_MKNOD:
	case FUSE_MKDIR:
	case FUSE_UNLINK:
	case FUSE_RMDIR:
	case FUSE_RENAME:
	case FUSE_RENAME2:
	case FUSE_LINK:
	case FUSE_WRITE:
	case FUSE_SETXATTR:
	case FUSE_REMOVEXATTR:
	case FUSE_CREATE:
	case PROTO_TMPFILE:
	case FUSE_FALLOCATE:
		break;
	default:
		return false;
	}
	return !node_is_control(rq->rq_nodeid);
}

/* ---- One request ---- */

static void to_libfuse(struct front *f, struct request *rq)
{
	struct fuse_buf buf = {
		.size = rq->rq_bytes,
		.mem = rq->rq_buf + REQUEST_OFFSET,
	};

	const struct fuse_in_header *head = request_head(rq);
	const struct ext4_cred cred = {
		.cr_uid = head->uid,
		.cr_gid = head->gid,
		.cr_privileged = head->uid == 0,
	};

	prepare(f, rq);
	ext4_allocate_for(f->f_sb, &cred);
	fuse_session_process_buf(f->f_session, &buf);
	ext4_allocate_for(f->f_sb, NULL);
}

/*
 * What the request is about, in rq_inode. False: nothing that the kernel can know. Only a LOOKUP may name what it does not
 * know: of a file handle.
 */
static bool find_node(struct front *f, struct request *rq)
{
	rq->rq_inode = NULL;
	switch (rq->rq_opcode) {
	case FUSE_READ:
		rq->rq_inode = open_file_at(((struct fuse_read_in *)request_arg(rq))->fh)->of_inode;
		return true;
	case FUSE_WRITE:
		rq->rq_inode =
			open_file_at(((struct fuse_write_in *)request_arg(rq))->fh)->of_inode;
		return true;
	case FUSE_FORGET:
	case FUSE_BATCH_FORGET:
	case FUSE_INTERRUPT:
	case FUSE_DESTROY:
	case FUSE_STATFS:
	case PROTO_SYNCFS:
	case FUSE_RELEASE:
	case FUSE_RELEASEDIR:
		return true;
	default:
		break;
	}
	rq->rq_inode = node_inode(&f->f_nodes, rq->rq_nodeid);
	return rq->rq_inode != NULL || rq->rq_opcode == FUSE_LOOKUP ||
	       control_has(f->f_control, rq->rq_nodeid);
}

static void dispatch(struct front *f, struct request *rq)
{
	bool changes;

	if (!find_node(f, rq)) {
		raw_reply(f, rq->rq_unique, -ESTALE);
		return;
	}
	switch (rq->rq_opcode) {
	case PROTO_SYNCFS:
		serve_syncfs(f, rq);
		return;
	case PROTO_STATX:
		serve_statx(f, rq);
		return;
	case FUSE_INTERRUPT:
		serve_interrupt(f, rq);
		return;
	default:
		break;
	}
	changes = changes_fs(rq);
	if (changes && remount_is_read_only(f->f_remount))
		remount_look(f->f_remount);
	if (!freezer_enter(f->f_freezer, rq, changes))
		return;
	to_libfuse(f, rq);
	freezer_leave(f->f_freezer, changes);
}

static void serve_one(struct front *f, struct request *rq)
{
	const struct fuse_in_header *head = request_head(rq);

	current_request = rq;
	rq->rq_unique = head->unique;
	rq->rq_opcode = head->opcode;
	rq->rq_pid = head->pid;
	rq->rq_nodeid = head->nodeid;
	rq->rq_flags = 0;
	if (enter(f))
		dispatch(f, rq);
	else if (!has_no_answer(rq->rq_opcode))
		raw_reply(f, rq->rq_unique, rq->rq_opcode == FUSE_DESTROY ? 0 : -ENODEV);
	if (rq->rq_opcode < PROTO_OPCODES)
		hist_add(&f->f_ops[rq->rq_opcode].op_latency_ns, stat_ns() - rq->rq_start_ns);
	leave(f);
	current_request = NULL;
}

void session_serve(void *arg, struct request *rq)
{
	struct front *f = arg;
	struct request *waited;

	if (rq->rq_bytes < sizeof(struct fuse_in_header))
		return;
	serve_one(f, rq);
	while (f->f_state == FRONT_RUNNING && (waited = freezer_next(f->f_freezer)) != NULL) {
		serve_one(f, waited);
		freezer_free(waited);
	}
}

/* ---- INIT ---- */

void session_want(void *userdata, struct fuse_conn_info *conn)
{
	struct front *f = userdata;
	unsigned want = FUSE_CAP_ASYNC_READ | FUSE_CAP_ATOMIC_O_TRUNC | FUSE_CAP_IOCTL_DIR |
			FUSE_CAP_READDIRPLUS | FUSE_CAP_READDIRPLUS_AUTO | FUSE_CAP_ASYNC_DIO |
			FUSE_CAP_PARALLEL_DIROPS | FUSE_CAP_CACHE_SYMLINKS |
			FUSE_CAP_EXPLICIT_INVAL_DATA | FUSE_CAP_EXPORT_SUPPORT;

	if (f->f_opts->mo_ext4.o_acl)
		want |= FUSE_CAP_POSIX_ACL | FUSE_CAP_DONT_MASK;
	if (f->f_opts->mo_kernel_cache == KERNEL_CACHE_WRITEBACK)
		want |= FUSE_CAP_WRITEBACK_CACHE;
	conn->want = conn->capable & want;
	conn->max_write = PROTO_MAX_PAYLOAD;
	conn->max_readahead = PROTO_MAX_PAYLOAD;
	conn->max_background = BACKGROUND_REQUESTS;
	conn->congestion_threshold = BACKGROUND_REQUESTS * 3 / 4;
	conn->time_gran = 1;
	f->f_proto_minor = conn->proto_minor;
	f->f_init_done = true;
}

static void note_offer(struct front *f, const struct request *rq)
{
	const struct fuse_init_in *in = request_arg(rq);
	size_t len = rq->rq_bytes - sizeof(struct fuse_in_header);

	if (len < offsetof(struct fuse_init_in, flags2))
		return;
	f->f_offered = in->flags;
	if ((in->flags & PROTO_INIT_EXT) != 0 && len >= offsetof(struct fuse_init_in, flags2) + 4)
		f->f_offered |= (uint64_t)in->flags2 << 32;
}

static int serve_init(struct front *f, struct request *rq)
{
	struct transport *t = f->f_transport;
	ssize_t n;

	do {
		n = t->t_ops->receive(t, 0, rq->rq_buf + REQUEST_OFFSET,
				      REQUEST_BUF_BYTES - REQUEST_OFFSET);
	} while (n == -EINTR);
	if (n < (ssize_t)sizeof(struct fuse_in_header))
		return n < 0 ? (int)n : -EPROTO;
	rq->rq_bytes = (size_t)n;
	if (request_head(rq)->opcode != FUSE_INIT)
		return -EPROTO;
	rq->rq_flags = RQ_INIT;
	rq->rq_opcode = FUSE_INIT;
	note_offer(f, rq);
	current_request = rq;
	to_libfuse(f, rq);
	current_request = NULL;
	return f->f_init_done ? 0 : -EPROTO;
}

int session_init(struct front *f)
{
	struct request rq = {.rq_channel = 0};
	void *buf;
	int err;

	if (posix_memalign(&buf, 4096, REQUEST_BUF_BYTES) != 0)
		return -ENOMEM;
	rq.rq_buf = buf;
	err = serve_init(f, &rq);
	free(buf);
	f->f_direct_opens = (f->f_taken & PROTO_DIRECT_IO_ALLOW_MMAP) != 0;
	log_debug("kernel protocol 7.%u, flags offered %#" PRIx64 ", taken %#" PRIx64,
		  f->f_proto_minor, f->f_offered, f->f_taken);
	return err;
}

int session_create(struct front *f, const struct fuse_lowlevel_ops *ops, int dev_fd, bool debug)
{
	static const struct fuse_custom_io io = {.writev = hook_writev, .read = hook_read};
	char name[] = "ext4d";
	char dash_d[] = "-d";
	char *argv[] = {name, dash_d, NULL};
	struct fuse_args args = FUSE_ARGS_INIT(debug ? 2 : 1, argv);

	f->f_session = fuse_session_new(&args, ops, sizeof(*ops), f);
	fuse_opt_free_args(&args);
	if (f->f_session == NULL)
		return -ENOMEM;
	if (fuse_session_custom_io(f->f_session, &io, dev_fd) != 0) {
		fuse_session_destroy(f->f_session);
		return -EIO;
	}
	return 0;
}

const char *session_opcode_name(unsigned opcode, char *buf, size_t size)
{
	static const char *const names[PROTO_OPCODES] = {
		[1] = "lookup",
		[2] = "forget",
		[3] = "getattr",
		[4] = "setattr",
		[5] = "readlink",
		[6] = "symlink",
		[8] = "mknod",
		[9] = "mkdir",
		[10] = "unlink",
		[11] = "rmdir",
		[12] = "rename",
		[13] = "link",
		[14] = "open",
		[15] = "read",
		[16] = "write",
		[17] = "statfs",
		[18] = "release",
		[20] = "fsync",
		[21] = "setxattr",
		[22] = "getxattr",
		[23] = "listxattr",
		[24] = "removexattr",
		[25] = "flush",
		[26] = "init",
		[27] = "opendir",
		[28] = "readdir",
		[29] = "releasedir",
		[30] = "fsyncdir",
		[31] = "getlk",
		[32] = "setlk",
		[33] = "setlkw",
		[34] = "access",
		[35] = "create",
		[36] = "interrupt",
		[37] = "bmap",
		[38] = "destroy",
		[39] = "ioctl",
		[40] = "poll",
		[41] = "notify_reply",
		[42] = "batch_forget",
		[43] = "fallocate",
		[44] = "readdirplus",
		[45] = "rename2",
		[46] = "lseek",
		[47] = "copy_file_range",
		[50] = "syncfs",
		[51] = "tmpfile",
		[52] = "statx",
		[53] = "copy_file_range_64",
	};

	if (opcode < PROTO_OPCODES && names[opcode] != NULL)
		return names[opcode];
	snprintf(buf, size, "op%u", opcode);
	return buf;
}
