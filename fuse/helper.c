/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * helper.c - the process that keeps the privilege to mount.
 *
 * The daemon reads untrusted images, so it gives up its capabilities before it does. What needs them later
 * (mounting, and unmounting on a signal) is asked of this process, which does nothing else. It is also
 * the only one that starts programs (fusermount3): memory that is registered with io_uring does not
 * survive a fork. It ends when the daemon's end of the socket is closed, however the daemon ended.
 *
 * Invariants: (1) one call at a time, each answered. (2) the helper keeps no descriptor of the daemon.
 * Locking: h_lock, a leaf, around one call.
 */
#include "fuse/helper.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define FUSE_USE_VERSION 314
#include <fuse3/fuse.h>

#include "util/log.h"

enum helper_op { HELPER_MOUNT, HELPER_CHANNEL, HELPER_UMOUNT, HELPER_UMOUNT_LAZY, HELPER_DETACH };

struct call {
	uint32_t c_op;
	uint64_t c_flags;
	char c_source[4096];
	char c_target[4096];
	char c_type[64];
	char c_data[8192];
};

struct helper {
	int h_fd;
	pid_t h_pid;
	pthread_mutex_t h_lock;
};

/* ---- Messages, with at most one descriptor ---- */

static int send_message(int sock, const void *data, size_t len, int fd)
{
	struct iovec iov = {(void *)(uintptr_t)data, len};
	union {
		struct cmsghdr head;
		char space[CMSG_SPACE(sizeof(int))];
	} control = {0};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};

	if (fd >= 0) {
		struct cmsghdr *cm;

		msg.msg_control = control.space;
		msg.msg_controllen = sizeof(control.space);
		cm = CMSG_FIRSTHDR(&msg);
		cm->cmsg_level = SOL_SOCKET;
		cm->cmsg_type = SCM_RIGHTS;
		cm->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(cm), &fd, sizeof(int));
	}
	return sendmsg(sock, &msg, MSG_NOSIGNAL) == (ssize_t)len ? 0 : -EPIPE;
}

/* Bytes received, 0 at the end; *fd is -1 if none came along. */
static ssize_t receive_message(int sock, void *data, size_t len, int *fd)
{
	struct iovec iov = {data, len};
	union {
		struct cmsghdr head;
		char space[CMSG_SPACE(sizeof(int))];
	} control;
	struct msghdr msg = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control.space,
		.msg_controllen = sizeof(control.space),
	};
	struct cmsghdr *cm;
	ssize_t n;

	*fd = -1;
	do {
		n = recvmsg(sock, &msg, MSG_CMSG_CLOEXEC);
	} while (n < 0 && errno == EINTR);
	if (n <= 0)
		return n;
	cm = CMSG_FIRSTHDR(&msg);
	if (cm != NULL && cm->cmsg_level == SOL_SOCKET && cm->cmsg_type == SCM_RIGHTS)
		memcpy(fd, CMSG_DATA(cm), sizeof(int));
	return n;
}

/* ---- In the helper ---- */

static int do_mount(struct call *c, int fuse_fd)
{
	char data[sizeof(c->c_data) + 32];

	snprintf(data, sizeof(data), "fd=%d,%s", fuse_fd, c->c_data);
	return mount(c->c_source, c->c_target, c->c_type, c->c_flags, data) == 0 ? 0 : -errno;
}

static int run(char *const argv[])
{
	extern char **environ;
	int status;
	pid_t pid;
	int err = posix_spawnp(&pid, argv[0], NULL, NULL, argv, environ);

	if (err != 0)
		return -err;
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return -errno;
	return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -EBUSY;
}

static int do_umount(struct call *c, bool lazy)
{
	char program[] = "fusermount3";
	char quiet[] = "-q";
	char unmount[] = "-u";
	char detach[] = "-uz";
	char *const argv[] = {program, quiet, lazy ? detach : unmount, c->c_target, NULL};

	if (umount2(c->c_target, UMOUNT_NOFOLLOW | (lazy ? MNT_DETACH : 0)) == 0)
		return 0;
	return errno == EPERM ? run(argv) : -errno;
}

static int do_channel(struct call *c, int *fd)
{
	*fd = fuse_open_channel(c->c_target, c->c_data);
	return *fd >= 0 ? 0 : -EPERM;
}

static int do_detach(void)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	if (null < 0)
		return -errno;
	for (int i = 0; i <= 2; i++)
		dup2(null, i);
	close(null);
	return chdir("/") == 0 ? 0 : -errno;
}

static void serve_call(int sock, struct call *c, int got_fd)
{
	int give_fd = -1;
	int err;

	switch (c->c_op) {
	case HELPER_MOUNT:
		err = do_mount(c, got_fd);
		break;
	case HELPER_CHANNEL:
		err = do_channel(c, &give_fd);
		break;
	case HELPER_DETACH:
		err = do_detach();
		break;
	default:
		err = do_umount(c, c->c_op == HELPER_UMOUNT_LAZY);
		break;
	}
	send_message(sock, &err, sizeof(err), give_fd);
	if (give_fd >= 0)
		close(give_fd);
}

static void close_others(int keep)
{
	if (keep > 3)
		close_range(3, (unsigned)keep - 1, 0);
	close_range((unsigned)keep + 1, ~0U, 0);
}

__attribute__((noreturn)) static void helper_main(int sock)
{
	struct call *c = malloc(sizeof(*c));
	int fd;

	/* A terminal's ^C is for the daemon. */
	signal(SIGINT, SIG_IGN);
	signal(SIGTERM, SIG_IGN);
	signal(SIGHUP, SIG_IGN);
	close_others(sock);
	while (c != NULL && receive_message(sock, c, sizeof(*c), &fd) == (ssize_t)sizeof(*c)) {
		serve_call(sock, c, fd);
		if (fd >= 0)
			close(fd);
	}
	_exit(0);
}

/* ---- In the daemon ---- */

struct helper *helper_start(void)
{
	struct helper *h = calloc(1, sizeof(*h));
	int pair[2];

	if (h == NULL)
		return NULL;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) {
		free(h);
		return NULL;
	}
	h->h_pid = fork();
	if (h->h_pid == 0)
		helper_main(pair[1]);
	close(pair[1]);
	if (h->h_pid < 0) {
		close(pair[0]);
		free(h);
		return NULL;
	}
	h->h_fd = pair[0];
	pthread_mutex_init(&h->h_lock, NULL);
	return h;
}

void helper_stop(struct helper *h)
{
	close(h->h_fd);
	while (waitpid(h->h_pid, NULL, 0) < 0 && errno == EINTR)
		;
	pthread_mutex_destroy(&h->h_lock);
	free(h);
}

static int call_helper(struct helper *h, struct call *c, int give_fd, int *got_fd)
{
	int err = -EPIPE;

	pthread_mutex_lock(&h->h_lock);
	if (send_message(h->h_fd, c, sizeof(*c), give_fd) != 0 ||
	    receive_message(h->h_fd, &err, sizeof(err), got_fd) != (ssize_t)sizeof(err))
		err = -EPIPE;
	pthread_mutex_unlock(&h->h_lock);
	return err;
}

static struct call *new_call(enum helper_op op, const char *target)
{
	struct call *c = calloc(1, sizeof(*c));

	if (c == NULL)
		return NULL;
	c->c_op = op;
	snprintf(c->c_target, sizeof(c->c_target), "%s", target);
	return c;
}

int helper_mount(struct helper *h, const struct mount_args *ma)
{
	struct call *c = new_call(HELPER_MOUNT, ma->ma_target);
	int fd;
	int err;

	if (c == NULL)
		return -ENOMEM;
	c->c_flags = ma->ma_flags;
	snprintf(c->c_source, sizeof(c->c_source), "%s", ma->ma_source);
	snprintf(c->c_type, sizeof(c->c_type), "%s", ma->ma_type);
	snprintf(c->c_data, sizeof(c->c_data), "%s", ma->ma_data);
	err = call_helper(h, c, ma->ma_fuse_fd, &fd);
	free(c);
	return err;
}

int helper_open_channel(struct helper *h, const char *target, const char *options)
{
	struct call *c = new_call(HELPER_CHANNEL, target);
	int fd = -1;
	int err;

	if (c == NULL)
		return -ENOMEM;
	snprintf(c->c_data, sizeof(c->c_data), "%s", options);
	err = call_helper(h, c, -1, &fd);
	free(c);
	if (err == 0 && fd < 0)
		err = -EPIPE;
	return err != 0 ? err : fd;
}

int helper_umount(struct helper *h, const char *target, bool lazy)
{
	struct call *c = new_call(lazy ? HELPER_UMOUNT_LAZY : HELPER_UMOUNT, target);
	int fd;
	int err;

	if (c == NULL)
		return -ENOMEM;
	err = call_helper(h, c, -1, &fd);
	free(c);
	return err;
}

void helper_detach(struct helper *h)
{
	struct call *c = new_call(HELPER_DETACH, "");
	int fd;

	if (c != NULL)
		call_helper(h, c, -1, &fd);
	free(c);
}
