/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * sim_mount.c - a workload on a mount, by system calls.
 *
 * Owners are the object ids: objects are made under that file system uid. Of each file two descriptors are open, one for reading and writing (through
 * the kernel's page cache) and one for writing only (past it), used in turn.
 *
 * "op N" goes into the daemon's log through .ext4d/mark. What acknowledges is the daemon's own mark, written before its answer: after each acknowledged
 * call the answer that is expected is noted here, and sim_mount_log() turns the marks "durable ..." into "ack N", one for each. A sync of
 * somebody else has another pid.
 *
 * Invariants: (1) the k-th expected answer belongs to acknowledgement k. Locking: one thread.
 */
#include <fcntl.h>
#include <linux/falloc.h>
#include <linux/fs.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

#include "tests/crash/sim.h"
#include "tests/lib/crash.h"
#include "util/assert.h"
#include "util/err.h"

struct expected {
	uint32_t e_op; /* the last operation begun when it was acknowledged */
	uint32_t e_ino;
	bool e_all;
};

struct mounted {
	int m_mark;		   /* .ext4d/mark */
	int m_fd[SIM_MAX_OBJECTS]; /* -1: not open */
	int m_out[SIM_MAX_OBJECTS];
	uint32_t m_ino[SIM_MAX_OBJECTS];
	bool m_synced;
	struct expected *m_expected;
	uint32_t m_nr, m_room;
	/* While a log is read: */
	uint32_t m_op, m_next;
};

static struct mounted *mounted_of(struct sim *m)
{
	return m->m_backend;
}

static int fd_of(struct sim *m, uint32_t id)
{
	return mounted_of(m)->m_fd[id];
}

static int result(int rc)
{
	return rc < 0 ? -errno : 0;
}

static bool odd(struct sim *m)
{
	return oracle_now(m->m_oracle) & 1;
}

/* Another descriptor of an open file, also when it has no name any more. */
static int open_again(struct sim *m, uint32_t id, int flags)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd_of(m, id));
	return open(path, flags | O_CLOEXEC);
}

static int do_open(struct sim *m, uint32_t id, uint32_t dir, const char *name)
{
	struct mounted *mt = mounted_of(m);
	struct stat st;

	mt->m_fd[id] = openat(fd_of(m, dir), name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (mt->m_fd[id] < 0 || fstat(mt->m_fd[id], &st) < 0)
		return -errno;
	mt->m_ino[id] = (uint32_t)st.st_ino;
	if (S_ISLNK(st.st_mode))
		return 0;
	close(mt->m_fd[id]);
	mt->m_fd[id] = openat(fd_of(m, dir), name,
			      (S_ISDIR(st.st_mode) ? O_RDONLY : O_RDWR) | O_NOFOLLOW | O_CLOEXEC);
	if (mt->m_fd[id] >= 0 && S_ISREG(st.st_mode))
		mt->m_out[id] = open_again(m, id, O_WRONLY);
	return mt->m_fd[id] < 0 || (S_ISREG(st.st_mode) && mt->m_out[id] < 0) ? -errno : 0;
}

static int do_create(struct sim *m, uint32_t id, uint32_t dir, const char *name,
		     enum oracle_kind kind, const char *target)
{
	int rc, err;

	setfsuid(id);
	if (kind == OK_DIR) {
		rc = mkdirat(fd_of(m, dir), name, 0777);
	} else if (kind == OK_SYMLINK) {
		rc = symlinkat(target, fd_of(m, dir), name);
	} else {
		rc = openat(fd_of(m, dir), name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
		if (rc >= 0)
			close(rc);
	}
	err = result(rc);
	setfsuid(0);
	return err ? err : do_open(m, id, dir, name);
}

static void do_close(struct sim *m, uint32_t id)
{
	struct mounted *mt = mounted_of(m);

	if (mt->m_fd[id] >= 0)
		close(mt->m_fd[id]);
	if (mt->m_out[id] >= 0)
		close(mt->m_out[id]);
	mt->m_fd[id] = mt->m_out[id] = -1;
}

static int do_link(struct sim *m, uint32_t id, uint32_t dir, const char *name)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd_of(m, id));
	return result(linkat(AT_FDCWD, path, fd_of(m, dir), name, AT_SYMLINK_FOLLOW));
}

static int do_unlink(struct sim *m, uint32_t dir, const char *name, bool is_dir)
{
	return result(unlinkat(fd_of(m, dir), name, is_dir ? AT_REMOVEDIR : 0));
}

static int do_rename(struct sim *m, uint32_t old_dir, const char *old_name, uint32_t new_dir,
		     const char *new_name, bool exchange)
{
	return result(renameat2(fd_of(m, old_dir), old_name, fd_of(m, new_dir), new_name,
				exchange ? RENAME_EXCHANGE : 0));
}

/* O_DSYNC of a descriptor, RWF_DSYNC past the kernel's cache, RWF_DSYNC through it. */
static ssize_t write_dsync(struct sim *m, uint32_t id, struct iovec *iov, uint64_t pos)
{
	uint32_t how = oracle_now(m->m_oracle) % 3;
	ssize_t n;
	int fd;

	if (how > 0)
		return pwritev2(how == 1 ? mounted_of(m)->m_out[id] : fd_of(m, id), iov, 1,
				(off_t)pos, RWF_DSYNC);
	fd = open_again(m, id, O_WRONLY | O_DSYNC);
	if (fd < 0)
		return -1;
	n = pwritev(fd, iov, 1, (off_t)pos);
	close(fd);
	return n;
}

static ssize_t do_write(struct sim *m, uint32_t id, uint64_t pos, uint8_t *data, uint64_t len,
			unsigned flags)
{
	struct iovec iov = {data, len};
	ssize_t n;

	if (flags & SIM_DIRECT) {
		int fd = open_again(m, id, O_WRONLY | O_DIRECT | (flags & SIM_DSYNC ? O_DSYNC : 0));

		n = fd < 0 ? -1 : pwritev(fd, &iov, 1, (off_t)pos);
		if (fd >= 0)
			close(fd);
	} else if (flags & SIM_DSYNC) {
		n = write_dsync(m, id, &iov, pos);
	} else {
		n = pwritev(odd(m) ? mounted_of(m)->m_out[id] : fd_of(m, id), &iov, 1, (off_t)pos);
	}
	return n < 0 ? -errno : n;
}

static ssize_t do_read(struct sim *m, uint32_t id, uint64_t pos, uint8_t *to, uint64_t len,
		       uint64_t size)
{
	struct stat st;
	ssize_t n;

	if (fstat(fd_of(m, id), &st) < 0)
		return -errno;
	if ((uint64_t)st.st_size != size)
		return -EIO;
	n = pread(fd_of(m, id), to, len, (off_t)pos);
	return n < 0 ? -errno : n;
}

static int do_truncate(struct sim *m, uint32_t id, uint64_t size)
{
	return result(ftruncate(fd_of(m, id), (off_t)size));
}

static int do_fallocate(struct sim *m, uint32_t id, int mode, uint64_t pos, uint64_t len)
{
	return result(fallocate(fd_of(m, id), mode, (off_t)pos, (off_t)len));
}

static int do_xattr(struct sim *m, uint32_t id, const uint8_t *value, size_t len)
{
	return result(len ? fsetxattr(fd_of(m, id), "user.x", value, len, 0)
			  : fremovexattr(fd_of(m, id), "user.x"));
}

static int do_sync_file(struct sim *m, uint32_t id, bool datasync)
{
	return result(datasync ? fdatasync(fd_of(m, id)) : fsync(fd_of(m, id)));
}

/* sync(2) once: it writes all file systems of the machine. Then syncfs(2), which is the same request. */
static int do_sync(struct sim *m)
{
	struct mounted *mt = mounted_of(m);

	if (!mt->m_synced) {
		mt->m_synced = true;
		sync();
		return 0;
	}
	return result(syncfs(fd_of(m, ORACLE_ROOT)));
}

static int do_tick(struct sim *m, unsigned kind)
{
	struct timespec pause = {0, 12000000};

	if (kind == 0)
		return result(fsync(fd_of(m, ORACLE_ROOT)));
	if (kind == 1)
		return result(syncfs(fd_of(m, ORACLE_ROOT)));
	nanosleep(&pause, NULL);
	return 0;
}

static void do_write_out(struct sim *m, uint32_t id)
{
	(void)m;
	(void)id;
}

static void do_start_commit(struct sim *m)
{
	(void)m;
}

static int do_mark(struct sim *m, const char *text)
{
	return result((int)pwrite(mounted_of(m)->m_mark, text, strlen(text), 0));
}

static int do_mark_ack(struct sim *m, uint32_t number, uint32_t id)
{
	struct mounted *mt = mounted_of(m);
	struct expected *e;

	ASSERT_CMP(number, ==, mt->m_nr + 1);
	if (mt->m_nr == mt->m_room) {
		mt->m_room = mt->m_room ? 2 * mt->m_room : 64;
		mt->m_expected = realloc(mt->m_expected, mt->m_room * sizeof(*mt->m_expected));
		ASSERT(mt->m_expected);
	}
	e = &mt->m_expected[mt->m_nr++];
	e->e_op = oracle_now(m->m_oracle);
	e->e_all = id == UINT32_MAX;
	e->e_ino = e->e_all ? 0 : mt->m_ino[id];
	return 0;
}

static const struct sim_ops mount_ops = {
	.create = do_create,
	.open = do_open,
	.close = do_close,
	.link = do_link,
	.unlink = do_unlink,
	.rename = do_rename,
	.write = do_write,
	.read = do_read,
	.truncate = do_truncate,
	.fallocate = do_fallocate,
	.xattr = do_xattr,
	.sync_file = do_sync_file,
	.sync = do_sync,
	.tick = do_tick,
	.write_out = do_write_out,
	.start_commit = do_start_commit,
	.mark = do_mark,
	.mark_ack = do_mark_ack,
};

int sim_mount_begin(struct sim *m, const char *mountpoint)
{
	struct rlimit files = {SIM_MAX_OBJECTS * 2 + 64, SIM_MAX_OBJECTS * 2 + 64};
	struct mounted *mt = calloc(1, sizeof(*mt));
	struct stat st;

	ASSERT(mt);
	m->m_backend = mt;
	m->m_ops = &mount_ops;
	for (unsigned i = 0; i < SIM_MAX_OBJECTS; i++)
		mt->m_fd[i] = mt->m_out[i] = -1;
	(void)setrlimit(RLIMIT_NOFILE, &files);
	umask(0);
	m->m_is_dir[ORACLE_ROOT] = true;
	mt->m_fd[ORACLE_ROOT] = open(mountpoint, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (mt->m_fd[ORACLE_ROOT] < 0 || fstat(mt->m_fd[ORACLE_ROOT], &st) < 0)
		return -errno;
	mt->m_ino[ORACLE_ROOT] = (uint32_t)st.st_ino;
	mt->m_mark = openat(mt->m_fd[ORACLE_ROOT], ".ext4d/mark", O_WRONLY | O_CLOEXEC);
	return mt->m_mark < 0 ? -errno : result(fchmod(mt->m_fd[ORACLE_ROOT], 0777));
}

/* A mark of the daemon: is it the answer that comes next? */
static bool is_expected(const struct mounted *mt, const char *text)
{
	const struct expected *e = &mt->m_expected[mt->m_next];
	unsigned pid, ino = 0;
	char what[8];
	int n = sscanf(text, "durable pid %u %7s %u", &pid, what, &ino);

	if (mt->m_next == mt->m_nr || n < 2 || pid != (unsigned)getpid() || e->e_op != mt->m_op)
		return false;
	return e->e_all ? !strcmp(what, "all") : n == 3 && ino == e->e_ino;
}

static const char *translate(void *arg, const char *text)
{
	static char ack[32];
	struct mounted *mt = arg;
	unsigned op;

	if (sscanf(text, "op %u", &op) == 1)
		mt->m_op = op;
	if (!is_expected(mt, text))
		return text;
	snprintf(ack, sizeof(ack), "ack %u", ++mt->m_next);
	return ack;
}

struct blkdev *sim_mount_log(struct sim *m, const char *path, uint64_t size_bytes)
{
	struct mounted *mt = mounted_of(m);
	struct blkdev *log;

	mt->m_op = mt->m_next = 0;
	log = crash_load_log(path, size_bytes, translate, mt);
	if (IS_ERR(log)) {
		fprintf(stderr, "%s: %s\n", path, strerror(-PTR_ERR(log)));
		return NULL;
	}
	if (mt->m_next == mt->m_nr)
		return log;
	fprintf(stderr,
		"answer %u of %u, after operation %u, was given without a mark in the log\n",
		mt->m_next + 1, mt->m_nr, mt->m_expected[mt->m_next].e_op);
	blk_close(log);
	return NULL;
}

void sim_mount_end(struct sim *m)
{
	struct mounted *mt = mounted_of(m);

	for (unsigned i = 0; i < SIM_MAX_OBJECTS; i++)
		do_close(m, i);
	close(mt->m_mark);
	free(mt->m_expected);
	free(mt);
}
