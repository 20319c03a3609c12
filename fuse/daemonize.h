/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef FUSE_DAEMONIZE_H
#define FUSE_DAEMONIZE_H
/* The way to the background, and what the process asks of the system. */

/* Exit codes of mount(8). */
#define EX_OK 0
#define EX_USAGE 1
#define EX_SYSERR 2
#define EX_SOFTWARE 4
#define EX_USER 8
#define EX_FAIL 32

/*
 * Fork. In the child: returns a descriptor for daemon_ready() or daemon_failed(). The parent waits for
 * that and exits with the daemon's code: 0 once the mount is usable. Negative errno: no fork was possible.
 */
int daemon_fork(void);
/* Tell the waiting parent that the mount is usable, and let go of the terminal. status_fd -1: in the foreground, nothing to do. */
void daemon_ready(int status_fd);
/* Tell the waiting parent the exit code. */
void daemon_failed(int status_fd, int code);
/* PR_SET_IO_FLUSHER, RLIMIT_MEMLOCK, RLIMIT_NOFILE, oom_score_adj: what is allowed; how the heap grows; inherited by all threads to come. */
void daemon_set_limits(void);

#endif
