/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * daemon.c - the order in which everything starts and ends.
 *
 * Start: limits of the process (inherited by threads); the helper (the last fork); files whose names were given;
 * capabilities away; signals blocked (inherited by threads); the file system (threads,
 * rings, arena); the kernel's mount; INIT; the system call filter; the server threads; the parent is told. Each step
 * has one that undoes it, run in reverse when a later one fails.
 *
 * End: the main thread waits for a signal. SIGUSR1 from the pool: the connection has ended, by umount.
 * SIGINT, SIGTERM, SIGHUP: everything is written and the mount is taken away; if programs still have files open on it, it is detached, and
 * they get errors from then on.
 *
 * Invariants: (1) the parent is told exactly once. (2) ext4_umount() has run before the process ends, unless it
 * was killed.
 * Locking: none; the main thread.
 */
#include "fuse/daemon.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ext4/inode.h"
#include "fuse/control.h"
#include "fuse/daemonize.h"
#include "fuse/file.h"
#include "fuse/freezer.h"
#include "fuse/front.h"
#include "fuse/helper.h"
#include "fuse/mount.h"
#include "fuse/notify.h"
#include "fuse/ops.h"
#include "fuse/parking.h"
#include "fuse/remount.h"
#include "fuse/sandbox.h"
#include "fuse/session.h"
#include "util/log.h"
#include "util/time.h"
#include "util/trace.h"

/* SYNCFS reaches fuseblk servers from this protocol version on. */
#define SYNCFS_MINOR 45u
#define UNREACHED_EXPIRE "500" /* centiseconds */
#define EXPIRE_TUNABLE "dirty_expire_centisecs"

struct life {
	const struct daemon_args *l_args;
	struct front *l_front;
	struct helper *l_helper;
	int l_fuse_fd;
	sigset_t l_signals;
};

/* ---- The file system ---- */

static __attribute__((noreturn)) void panic(struct super_block *sb)
{
	log_err("%s: errors=panic: the daemon ends", sb->s_name);
	_exit(EX_SOFTWARE);
}

static int apply_tunables(struct front *f)
{
	struct mount_tunable *mt;

	STAILQ_FOREACH (mt, &f->f_opts->mo_tunables, mt_link) {
		int err = wb_tunable_set(f->f_sb, mt->mt_name, mt->mt_value);

		if (err != 0) {
			log_err("bad value '%s' for option '%s'", mt->mt_value, mt->mt_name);
			return err;
		}
	}
	return 0;
}

static int switch_events_on(const struct front *f)
{
	const char *list = f->f_opts->mo_trace_events;
	int err = list != NULL ? trace_set_events(list) : 0;

	if (err != 0)
		log_err("bad value '%s' for option 'trace_events'", list);
	return err;
}

static int open_file_system(struct front *f)
{
	struct blk_open_args ba = {
		.ba_path = f->f_device->dv_path,
		.ba_backend = f->f_opts->mo_backend,
		.ba_filters = f->f_opts->mo_blk,
		.ba_read_only = f->f_device->dv_read_only,
		.ba_direct = true,
	};
	struct blkdev *dev = blk_open(&ba);
	int err;

	if (IS_ERR(dev))
		return PTR_ERR(dev);
	f->f_opts->mo_ext4.o_read_only |= f->f_device->dv_read_only;
	f->f_opts->mo_ext4.o_journal_path = f->f_opts->mo_journal_path;
	f->f_opts->mo_ext4.o_mount_point = f->f_mountpoint;
	err = ext4_mount(dev, &f->f_opts->mo_ext4, &f->f_sb);
	if (err != 0) {
		log_err("%s: cannot be mounted: %s", f->f_device->dv_path, strerror(-err));
		blk_close(dev);
		return err;
	}
	f->f_sb->s_panic = panic;
	err = apply_tunables(f);
	if (err != 0)
		ext4_umount(f->f_sb);
	return err;
}

static int init_nodes(struct front *f)
{
	struct inode *root = ext4_iget(f->f_sb, EXT4_ROOT_INO, EXT4_IGET_NORMAL);

	if (IS_ERR(root))
		return PTR_ERR(root);
	node_table_init(&f->f_nodes, root);
	return 0;
}

/* ---- The front ---- */

static struct front *front_new(const struct daemon_args *da)
{
	struct front *f = calloc(1, sizeof(*f));

	if (f == NULL)
		return NULL;
	f->f_opts = da->da_opts;
	f->f_device = da->da_device;
	f->f_mountpoint = da->da_mountpoint;
	f->f_owner = getuid();
	f->f_start_ns = now_ns();
	pthread_mutex_init(&f->f_state_lock, NULL);
	pthread_cond_init(&f->f_idle, NULL);
	f->f_files = open_files_create();
	f->f_parking = parking_create(f);
	f->f_freezer = freezer_create(f);
	if (f->f_opts->mo_control)
		f->f_control = control_create(f);
	if (f->f_files != NULL && f->f_parking != NULL && f->f_freezer != NULL &&
	    (f->f_control != NULL || !f->f_opts->mo_control))
		return f;
	log_err("out of memory");
	return NULL; /* the process ends */
}

static void front_free(struct front *f)
{
	if (f->f_control != NULL)
		control_destroy(f->f_control);
	freezer_destroy(f->f_freezer);
	parking_destroy(f->f_parking);
	open_files_destroy(f->f_files);
	pthread_cond_destroy(&f->f_idle);
	pthread_mutex_destroy(&f->f_state_lock);
	free(f);
}

static int open_stats_file(struct front *f)
{
	if (f->f_opts->mo_stats_path == NULL)
		return 0;
	f->f_stats_file = fopen(f->f_opts->mo_stats_path, "we");
	/* The daemon has no umask. */
	if (f->f_stats_file != NULL && fchmod(fileno(f->f_stats_file), 0644) == 0)
		return 0;
	log_err("%s: %s", f->f_opts->mo_stats_path, strerror(errno));
	return -errno;
}

/* ---- Sandbox ---- */

static int drop_capabilities(const struct front *f)
{
	const struct mount_options *mo = f->f_opts;
	bool named_files = mo->mo_blk != NULL || mo->mo_journal_path != NULL;
	int err;

	if (!mo->mo_sandbox)
		return 0;
	err = sandbox_drop_capabilities(named_files);
	if (err != 0)
		log_err("cannot drop capabilities: %s (nosandbox does without)", strerror(-err));
	return err;
}

static int filter_calls(const struct front *f)
{
	int err;

	if (!f->f_opts->mo_sandbox || !sandbox_possible())
		return 0;
	err = sandbox_filter_calls();
	if (err != 0)
		log_err("cannot filter system calls: %s (nosandbox does without)", strerror(-err));
	return err;
}

/* ---- Serving ---- */

static void connection_ended(void *arg)
{
	(void)arg;
	kill(getpid(), SIGUSR1);
}

/* Where neither sync(2) nor umount(8) can wait for us, less is kept dirty for less long. */
static void note_reach_of_sync(struct front *f)
{
	struct mount_tunable *mt;

	if ((f->f_fuseblk && f->f_proto_minor >= SYNCFS_MINOR) || sb_rdonly(f->f_sb))
		return;
	log_info("%s: sync(2) cannot reach this mount: dirty data expires after 5 s, "
		 "`ext4d --sync` and fsync(2) write it at once",
		 f->f_mountpoint);
	STAILQ_FOREACH (mt, &f->f_opts->mo_tunables, mt_link)
		if (strcmp(mt->mt_name, EXPIRE_TUNABLE) == 0)
			return;
	if (wb_tunable_set(f->f_sb, EXPIRE_TUNABLE, UNREACHED_EXPIRE) != 0)
		log_debug("no tunable %s", EXPIRE_TUNABLE);
}

static unsigned threads_at_work(const struct front *f)
{
	if (f->f_opts->mo_threads != 0)
		return f->f_opts->mo_threads;
	return 1;
}

static int start_pool(struct front *f)
{
	struct pool_params pp = {
		.pp_transport = f->f_transport,
		.pp_active = threads_at_work(f),
		.pp_max = f->f_opts->mo_max_threads,
		.pp_pin = f->f_opts->mo_pin,
		.pp_cpus = f->f_opts->mo_server_cpus,
		.pp_serve = session_serve,
		.pp_ended = connection_ended,
		.pp_arg = f,
	};
	int err = -ENOMEM;

	f->f_pool = pool_create(&pp);
	if (f->f_pool != NULL)
		err = pool_start(f->f_pool);
	if (err != 0)
		f->f_pool = NULL;
	return err;
}

static int connect_kernel(struct life *l)
{
	struct front *f = l->l_front;
	int err;

	f->f_transport = transport_dev_open(l->l_fuse_fd, f->f_opts->mo_max_threads + 1);
	if (f->f_transport == NULL)
		return -ENOMEM;
	err = session_create(f, &front_ops, l->l_fuse_fd, l->l_args->da_debug);
	if (err == 0)
		err = session_init(f);
	if (err == 0) {
		front_set_readahead(f);
		if (!sb_rdonly(f->f_sb))
			f->f_remount = remount_watch(f);
		err = filter_calls(f);
	}
	if (err == 0) {
		/* Once requests are served it may be unmounted at any time. */
		note_reach_of_sync(f);
		log_info("%s: mounted on %s%s", l->l_args->da_device->dv_path, f->f_mountpoint,
			 sb_rdonly(f->f_sb) ? ", read-only" : "");
		err = start_pool(f);
	}
	if (err != 0)
		log_err("%s: no connection to the kernel: %s", f->f_mountpoint, strerror(-err));
	return err;
}

/* ---- Start, with what undoes it ---- */

static int start_kernel_side(struct life *l)
{
	struct front *f = l->l_front;
	int err;

	l->l_fuse_fd = front_mount(f, l->l_helper);
	if (l->l_fuse_fd < 0)
		return l->l_fuse_fd;
	err = connect_kernel(l);
	if (err == 0)
		return 0;
	remount_stop(f->f_remount);
	f->f_remount = NULL;
	helper_umount(l->l_helper, f->f_mountpoint, true);
	return err;
}

static int start_file_system(struct life *l)
{
	struct front *f = l->l_front;
	int err = open_file_system(f);

	if (err != 0)
		return err;
	err = init_nodes(f);
	if (err != 0)
		goto out_umount;
	f->f_notifier = notifier_create(f);
	if (f->f_notifier == NULL) {
		err = -EAGAIN;
		goto out_nodes;
	}
	notifier_attach(f->f_notifier);
	err = start_kernel_side(l);
	if (err == 0)
		return 0;
	notifier_detach(f->f_notifier);
out_nodes:
	node_table_destroy(&f->f_nodes);
out_umount:
	ext4_umount(f->f_sb);
	return err;
}

static void block_signals(struct life *l)
{
	sigemptyset(&l->l_signals);
	sigaddset(&l->l_signals, SIGINT);
	sigaddset(&l->l_signals, SIGTERM);
	sigaddset(&l->l_signals, SIGHUP);
	sigaddset(&l->l_signals, SIGUSR1);
	pthread_sigmask(SIG_BLOCK, &l->l_signals, NULL);
	signal(SIGPIPE, SIG_IGN);
}

static int start(struct life *l)
{
	struct front *f = l->l_front;
	int err;

	daemon_set_limits();
	l->l_helper = helper_start();
	if (l->l_helper == NULL) {
		log_err("cannot fork: %s", strerror(errno));
		return -EAGAIN;
	}
	err = open_stats_file(f);
	if (err == 0)
		err = switch_events_on(f);
	if (err != 0)
		return err;
	err = drop_capabilities(f);
	if (err != 0)
		return err;
	block_signals(l);
	return start_file_system(l);
}

static int exit_code(int err)
{
	switch (err) {
	case 0:
		return EX_OK;
	case -EPERM:
	case -EACCES:
		return EX_USAGE;
	case -ENOMEM:
	case -EAGAIN:
		return EX_SYSERR;
	default:
		return EX_FAIL;
	}
}

/* ---- The end ---- */

/* A signal asked for the end. True: the connection is going to end; false: it is held open, nothing is to be waited for. */
static bool end_by_signal(struct life *l, int sig)
{
	struct front *f = l->l_front;
	int err;

	log_info("%s: signal %d: unmounting", f->f_mountpoint, sig);
	err = helper_umount(l->l_helper, f->f_mountpoint, false);
	if (err == 0)
		return true;
	log_warn("%s: %s: detached while in use", f->f_mountpoint, strerror(-err));
	helper_umount(l->l_helper, f->f_mountpoint, true);
	return false;
}

/* Returns false if server threads may still wait for requests. */
static bool wait_for_end(struct life *l)
{
	for (;;) {
		int sig = sigwaitinfo(&l->l_signals, NULL);

		if (sig == SIGUSR1)
			return true;
		if (sig > 0 && !end_by_signal(l, sig))
			return false;
	}
}

static void finish(struct life *l, bool ended)
{
	struct front *f = l->l_front;

	front_teardown(f, 0);
	if (!ended)
		return; /* threads sleep in read(2): they go with the process */
	pool_join(f->f_pool);
	f->f_pool = NULL;
	notifier_destroy(f->f_notifier);
	fuse_session_destroy(f->f_session);
	f->f_transport->t_ops->close(f->f_transport);
	helper_stop(l->l_helper);
	front_free(f);
}

int daemon_run(const struct daemon_args *da)
{
	struct life l = {.l_args = da, .l_front = front_new(da), .l_fuse_fd = -1};
	int err = l.l_front != NULL ? start(&l) : -ENOMEM;
	int umount_error;
	bool ended;

	if (err != 0) {
		daemon_failed(da->da_status_fd, exit_code(err));
		return exit_code(err);
	}
	if (da->da_status_fd >= 0)
		helper_detach(l.l_helper);
	daemon_ready(da->da_status_fd);
	ended = wait_for_end(&l);
	finish(&l, ended);
	umount_error = ended ? 0 : l.l_front->f_umount_error;
	return exit_code(umount_error);
}
