/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * unmount.c - sync and unmount from outside the daemon.
 *
 * syncfs(2) comes first in both: the kernel then writes back what it still has in mapped pages. On
 * fuseblk mounts it also reaches the daemon; elsewhere, and to learn of errors, an ioctl of ours does.
 *
 * umount(2) of a plain fuse mount returns while the daemon still writes. The daemon holds a lock (flock) on
 * what the mount shows as its source until it ends: to get that lock is to know that it has ended.
 *
 * Invariants: none.
 * Locking: none, one thread.
 */
#include "fuse/unmount.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "fuse/daemonize.h"
#include "fuse/ioctl.h"
#include "util/log.h"

#define PATH_BYTES 4096
#define WAIT_STEP_MS 10
#define WAIT_NOTE_STEPS 500 /* a line every 5 s */

/* Undo the octal escapes of /proc/self/mountinfo, in place. */
static void unescape(char *s)
{
	char *to = s;

	while (*s != '\0') {
		if (s[0] == '\\' && s[1] >= '0' && s[1] <= '3' && s[2] >= '0' && s[2] <= '7' &&
		    s[3] >= '0' && s[3] <= '7') {
			*to++ = (char)((s[1] - '0') << 6 | (s[2] - '0') << 3 | (s[3] - '0'));
			s += 4;
		} else {
			*to++ = *s++;
		}
	}
	*to = '\0';
}

static bool is_ours(const char *type)
{
	return strcmp(type, "fuseblk.ext4d") == 0 || strcmp(type, "fuse.ext4d") == 0;
}

/* One line of mountinfo: is it an ext4d mount at path? Its source is copied. */
static bool match_line(char *line, const char *path, char *source, size_t size)
{
	char *rest = strstr(line, " - ");
	char *field = line;
	char *type, *from;

	if (rest == NULL)
		return false;
	*rest = '\0';
	rest += 3;
	for (int i = 0; field != NULL && i < 4; i++)
		strsep(&field, " ");
	if (field == NULL)
		return false;
	field[strcspn(field, " ")] = '\0';
	unescape(field);
	type = strsep(&rest, " ");
	from = strsep(&rest, " ");
	if (from == NULL || strcmp(field, path) != 0)
		return false;
	unescape(from);
	snprintf(source, size, "%s", is_ours(type) ? from : "");
	return true;
}

/* The source of the topmost mount at path, if it is ours. */
static int find_mount(const char *path, char *source, size_t size)
{
	FILE *file = fopen("/proc/self/mountinfo", "re");
	char *line = NULL;
	size_t len = 0;

	source[0] = '\0';
	if (file == NULL)
		return -errno;
	while (getline(&line, &len, file) > 0)
		match_line(line, path, source, size);
	free(line);
	fclose(file);
	return source[0] != '\0' ? 0 : -EINVAL;
}

/* The mount point may not answer any more: its name is resolved through its parent only. */
static int resolve_mountpoint(const char *name, char *path, size_t size)
{
	char *full = realpath(name, NULL);

	if (full == NULL)
		return -errno;
	snprintf(path, size, "%s", full);
	free(full);
	return 0;
}

static int sync_all(const char *path)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int err = 0;

	if (fd < 0)
		return -errno;
	if (syncfs(fd) != 0)
		err = -errno;
	if (ioctl(fd, EXT4D_IOC_SYNC) != 0 && err == 0)
		err = -errno;
	close(fd);
	return err;
}

static int run_fusermount(char *path)
{
	char program[] = "fusermount3";
	char unmount[] = "-u";
	char *const argv[] = {program, unmount, path, NULL};
	int status;
	pid_t pid = fork();

	if (pid < 0)
		return -errno;
	if (pid == 0) {
		execvp(program, argv);
		_exit(127);
	}
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return -errno;
	return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -EBUSY;
}

static int detach(char *path)
{
	if (umount2(path, UMOUNT_NOFOLLOW) == 0)
		return 0;
	if (errno == EPERM)
		return run_fusermount(path);
	return -errno;
}

/* The daemon keeps its lock on the source until it has written everything and ends. */
static void wait_for_daemon(const char *source)
{
	int fd = open(source, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

	if (fd < 0) {
		log_warn("%s: %s: not waiting for the daemon", source, strerror(errno));
		return;
	}
	for (unsigned i = 1; flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK; i++) {
		struct timespec ts = {.tv_nsec = WAIT_STEP_MS * 1000000L};

		nanosleep(&ts, NULL);
		if (i % WAIT_NOTE_STEPS == 0)
			log_info("%s: the daemon is still writing", source);
	}
	close(fd);
}

static int find(const char *mountpoint, char *path, char *source)
{
	int err = resolve_mountpoint(mountpoint, path, PATH_BYTES);

	if (err != 0) {
		log_err("%s: %s", mountpoint, strerror(-err));
		return err;
	}
	err = find_mount(path, source, PATH_BYTES);
	if (err != 0)
		log_err("%s: not mounted by ext4d", mountpoint);
	return err;
}

int unmount_and_wait(const char *mountpoint)
{
	char path[PATH_BYTES];
	char source[PATH_BYTES];
	int sync_err, err;

	if (find(mountpoint, path, source) != 0)
		return EX_FAIL;
	sync_err = sync_all(path);
	/* EPERM, EACCES: not who mounted. EROFS: nothing to write. The unmount itself writes too. */
	if (sync_err == -EPERM || sync_err == -EACCES || sync_err == -EROFS)
		sync_err = 0;
	if (sync_err != 0)
		log_err("%s: not everything could be written: %s", path, strerror(-sync_err));
	err = detach(path);
	if (err != 0) {
		log_err("%s: cannot unmount: %s", path, strerror(-err));
		return EX_FAIL;
	}
	wait_for_daemon(source);
	return sync_err != 0 ? EX_SYSERR : EX_OK;
}

int sync_mount(const char *mountpoint)
{
	char path[PATH_BYTES];
	char source[PATH_BYTES];
	int err;

	if (find(mountpoint, path, source) != 0)
		return EX_FAIL;
	err = sync_all(path);
	if (err == 0)
		return EX_OK;
	log_err("%s: %s", path, strerror(-err));
	return EX_FAIL;
}
