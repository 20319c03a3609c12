/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * daemonize.c - to the background, without losing what the user must hear.
 *
 * The parent stays until the child has said how it went: its exit code is then the command's. Messages go to
 * the terminal until the mount is usable, to syslog afterwards. The fork comes before
 * any ring, thread or mount: none of them would survive it.
 *
 * Invariants: (1) exactly one code is written to the pipe, or the child died and the parent says so.
 * Locking: none, one thread.
 */
#include "fuse/daemonize.h"

#include <errno.h>
#include <fcntl.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <syslog.h>
#include <unistd.h>

#include "util/log.h"

#ifndef PR_SET_IO_FLUSHER
#define PR_SET_IO_FLUSHER 57
#endif

#define OOM_SCORE "-1000"
#define HEAP_STEP_BYTES (1 << 20)

static int null_fd = -1; /* open before the sandbox, which lets nothing be opened for writing */

__attribute__((noreturn)) static void wait_for_child(int fd, pid_t pid)
{
	unsigned char code;
	int status;
	ssize_t n;

	do {
		n = read(fd, &code, 1);
	} while (n < 0 && errno == EINTR);
	if (n == 1)
		_exit(code);
	if (waitpid(pid, &status, 0) == pid && WIFSIGNALED(status))
		log_err("the daemon was killed by signal %d", WTERMSIG(status));
	else
		log_err("the daemon ended without a word");
	_exit(EX_SOFTWARE);
}

int daemon_fork(void)
{
	int fds[2];
	pid_t pid;

	if (pipe2(fds, O_CLOEXEC) != 0)
		return -errno;
	pid = fork();
	if (pid < 0) {
		int err = -errno;

		close(fds[0]);
		close(fds[1]);
		return err;
	}
	if (pid > 0) {
		close(fds[1]);
		wait_for_child(fds[0], pid);
	}
	close(fds[0]);
	setsid();
	null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	return fds[1];
}

void daemon_failed(int status_fd, int code)
{
	unsigned char byte = (unsigned char)code;

	if (status_fd < 0)
		return;
	if (write(status_fd, &byte, 1) != 1)
		log_debug("nobody waits for the daemon");
	close(status_fd);
}

void daemon_ready(int status_fd)
{
	if (status_fd < 0)
		return;
	openlog("ext4d", LOG_PID | LOG_NDELAY, LOG_DAEMON);
	log_set_sink(log_sink_syslog, NULL);
	if (null_fd >= 0) {
		for (int i = 0; i <= 2; i++)
			dup2(null_fd, i);
		close(null_fd);
		null_fd = -1;
	}
	if (chdir("/") != 0)
		log_debug("chdir: errno %d", errno);
	daemon_failed(status_fd, EX_OK);
}

static void raise_limit(int resource)
{
	struct rlimit rl = {RLIM_INFINITY, RLIM_INFINITY};

	if (setrlimit((__rlimit_resource_t)resource, &rl) == 0)
		return;
	if (getrlimit((__rlimit_resource_t)resource, &rl) != 0)
		return;
	rl.rlim_cur = rl.rlim_max;
	setrlimit((__rlimit_resource_t)resource, &rl);
}

static void set_oom_score(void)
{
	FILE *file = fopen("/proc/self/oom_score_adj", "we");

	if (file == NULL)
		return;
	fputs(OOM_SCORE, file);
	/* Refused without the privilege. */
	if (fclose(file) != 0)
		log_debug("oom_score_adj: errno %d", errno);
}

/*
 * glibc grows the heaps of threads by single pages, each with a system call that stops all threads for a moment: a create
 * in three needed one. The first heap, for all, grows by larger steps; what threads often need they keep for themselves.
 */
static void tune_heap(void)
{
#ifdef __GLIBC__
	mallopt(M_ARENA_MAX, 1);
	mallopt(M_TOP_PAD, HEAP_STEP_BYTES);
	mallopt(M_TRIM_THRESHOLD, 4 * HEAP_STEP_BYTES);
#endif
}

void daemon_set_limits(void)
{
	umask(0);
	tune_heap();
	raise_limit(RLIMIT_MEMLOCK);
	raise_limit(RLIMIT_NOFILE);
	set_oom_score();
	if (prctl(PR_SET_IO_FLUSHER, 1, 0, 0, 0) != 0)
		log_debug("PR_SET_IO_FLUSHER: errno %d", errno);
}
