/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * remount.c - the file system follows mount -o remount,ro and rw.
 *
 * A remount is the kernel's affair: a FUSE server gets at most a SYNCFS before it. But the table of mounts says what a mount is, and poll(2) on it tells of
 * changes. A thread watches it. Read-only: everything is written, the log is emptied and the superblock says clean, as the kernel's ext4 does it. Writable again:
 * the marks of a mount are set. A change that the kernel sends before the thread has seen that is held until a look at the table.
 *
 *   rw --(table says ro: sync, ext4_remount_ro)--> ro --(table says rw: by the thread, or by the first change)--> rw
 *
 * Unlinked files that are still open are orphans until they are closed, which cannot be written in a clean file system: then only the log is emptied,
 * and the mount stays what it is here. So it is when the file system is frozen.
 *
 * Invariants: (1) rm_read_only is set only if the file system was writable before: what an error or a feature made read-only stays so.
 * Locking: rm_lock (no rank) is held over a look and what follows from it; nothing is held when it is taken.
 */
#include "fuse/remount.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "ext4/inode.h"
#include "ext4/super.h"
#include "fuse/freezer.h"
#include "util/log.h"

#define TABLE "/proc/self/mountinfo"
#define TABLE_MAX (4u << 20)
#define TABLE_CHUNK (16u << 10)

struct remount {
	struct front *rm_front; /* [const after init] */
	int rm_table_fd;	/* [const after init] */
	int rm_stop_fd;		/* [const after init] */
	pthread_mutex_t rm_lock;
	_Atomic bool rm_read_only; /* [rm_lock for changes] */
	pthread_t rm_thread;
};

/* ---- The table ---- */

/* Names in the table have \ooo for space, tab, newline and backslash. */
static void unescape(char *s)
{
	char *out = s;

	while (*s != '\0') {
		if (s[0] == '\\' && s[1] >= '0' && s[1] <= '3' && s[2] >= '0' && s[2] <= '7' &&
		    s[3] >= '0' && s[3] <= '7') {
			*out++ = (char)((s[1] - '0') * 64 + (s[2] - '0') * 8 + (s[3] - '0'));
			s += 4;
		} else {
			*out++ = *s++;
		}
	}
	*out = '\0';
}

/* One line: "id parent dev root MOUNTPOINT options [fields] - type source SUPER-OPTIONS". */
static bool parse_line(char *line, const char *mountpoint, bool *read_only)
{
	char *tail = strstr(line, " - ");
	char *save = NULL;
	char *field;

	if (tail == NULL)
		return false;
	*tail = '\0';
	field = strtok_r(line, " ", &save);
	for (unsigned i = 0; i < 4 && field != NULL; i++)
		field = strtok_r(NULL, " ", &save);
	if (field == NULL)
		return false;
	unescape(field);
	if (strcmp(field, mountpoint) != 0)
		return false;
	field = strrchr(tail + 3, ' ');
	if (field == NULL)
		return false;
	*read_only = strncmp(field + 1, "ro", 2) == 0 && (field[3] == ',' || field[3] == '\0');
	return true;
}

bool remount_parse(char *text, const char *mountpoint, bool *read_only)
{
	char *save = NULL;
	bool found = false;

	/* Of several mounts at one place the last one is on top. */
	for (char *line = strtok_r(text, "\n", &save); line != NULL;
	     line = strtok_r(NULL, "\n", &save))
		if (parse_line(line, mountpoint, read_only))
			found = true;
	return found;
}

/* The whole table, to be freed; NULL if it cannot be read. */
static char *read_table(int fd)
{
	char *text = NULL;
	size_t used = 0, room = 0;
	ssize_t n = 1;

	while (n > 0 && room < TABLE_MAX) {
		char *more = realloc(text, room + TABLE_CHUNK + 1);

		if (more == NULL)
			break;
		text = more;
		room += TABLE_CHUNK;
		while (used < room && (n = pread(fd, text + used, room - used, (off_t)used)) > 0)
			used += (size_t)n;
	}
	if (text == NULL || n != 0) {
		free(text);
		return NULL;
	}
	text[used] = '\0';
	return text;
}

/* ---- What follows from it ---- */

/* The log is empty; nothing else is different. */
static int empty_log(struct super_block *sb)
{
	int err;

	jbd2_journal_lock_updates(sb->s_journal);
	err = jbd2_journal_flush(sb->s_journal);
	jbd2_journal_unlock_updates(sb->s_journal);
	return err;
}

static void go_read_only(struct remount *rm)
{
	struct super_block *sb = rm->rm_front->f_sb;
	int err = wb_sync_fs(sb, true);

	ext4_drain_evictions(sb);
	if (err == 0 && ext4_has_orphans(sb)) {
		err = empty_log(sb);
		log_info("%s: remounted read-only with unlinked files open: the log is empty, "
			 "they are freed when the mount ends",
			 rm->rm_front->f_mountpoint);
	} else if (err == 0) {
		err = ext4_remount_ro(sb);
		rm->rm_read_only = err == 0;
		if (err == 0)
			log_info("%s: remounted read-only: clean on the device",
				 rm->rm_front->f_mountpoint);
	}
	if (err != 0)
		log_err("%s: remount read-only: %s", rm->rm_front->f_mountpoint, strerror(-err));
}

static void go_writable(struct remount *rm)
{
	int err = ext4_remount_rw(rm->rm_front->f_sb);

	if (err != 0) {
		log_err("%s: remount read-write: %s: it stays read-only",
			rm->rm_front->f_mountpoint, strerror(-err));
		return;
	}
	rm->rm_read_only = false;
	log_info("%s: remounted read-write", rm->rm_front->f_mountpoint);
}

static void look_locked(struct remount *rm)
{
	struct front *f = rm->rm_front;
	char *text = read_table(rm->rm_table_fd);
	bool read_only = false;
	bool found = text != NULL && remount_parse(text, f->f_mountpoint, &read_only);

	free(text);
	if (!found || f->f_state != FRONT_RUNNING || freezer_frozen(f->f_freezer))
		return;
	if (read_only && !rm->rm_read_only && !sb_rdonly(f->f_sb))
		go_read_only(rm);
	else if (!read_only && rm->rm_read_only)
		go_writable(rm);
}

void remount_look(struct remount *rm)
{
	thread_block_begin();
	pthread_mutex_lock(&rm->rm_lock);
	look_locked(rm);
	pthread_mutex_unlock(&rm->rm_lock);
	thread_block_end();
}

bool remount_is_read_only(const struct remount *rm)
{
	return rm != NULL && atomic_load_explicit(&rm->rm_read_only, memory_order_relaxed);
}

/* ---- The thread ---- */

static void *watch(void *arg)
{
	struct remount *rm = arg;
	struct pollfd fds[] = {
		{.fd = rm->rm_table_fd, .events = POLLPRI},
		{.fd = rm->rm_stop_fd, .events = POLLIN},
	};

	pthread_setname_np(pthread_self(), "fuse/remount");
	while (fds[1].revents == 0) {
		if (poll(fds, 2, -1) < 0 && errno != EINTR)
			break;
		if (fds[1].revents == 0 && fds[0].revents != 0)
			remount_look(rm);
	}
	return NULL;
}

struct remount *remount_watch(struct front *f)
{
	struct remount *rm = calloc(1, sizeof(*rm));

	if (rm == NULL)
		return NULL;
	rm->rm_front = f;
	rm->rm_table_fd = open(TABLE, O_RDONLY | O_CLOEXEC);
	rm->rm_stop_fd = eventfd(0, EFD_CLOEXEC);
	pthread_mutex_init(&rm->rm_lock, NULL);
	if (rm->rm_table_fd >= 0 && rm->rm_stop_fd >= 0 &&
	    pthread_create(&rm->rm_thread, NULL, watch, rm) == 0)
		return rm;
	log_warn("%s: %s cannot be watched: remounts are not seen", f->f_mountpoint, TABLE);
	if (rm->rm_table_fd >= 0)
		close(rm->rm_table_fd);
	if (rm->rm_stop_fd >= 0)
		close(rm->rm_stop_fd);
	pthread_mutex_destroy(&rm->rm_lock);
	free(rm);
	return NULL;
}

void remount_stop(struct remount *rm)
{
	uint64_t one = 1;

	if (rm == NULL)
		return;
	if (write(rm->rm_stop_fd, &one, sizeof(one)) != (ssize_t)sizeof(one))
		log_err("eventfd: %s", strerror(errno));
	pthread_join(rm->rm_thread, NULL);
	close(rm->rm_table_fd);
	close(rm->rm_stop_fd);
	pthread_mutex_destroy(&rm->rm_lock);
	free(rm);
}
