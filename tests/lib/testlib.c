/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * testlib.c - file systems in memory, made and checked by e2fsprogs.
 *
 * e2fsprogs works on files, so a device is dumped to a sparse temporary file for it and loaded
 * back where it may have written.
 *
 * Invariants: (1) no temporary file outlives the call that made it; what a test that ended in the middle left
 * goes when its suite ends.
 * Locking: none; the device is quiet meanwhile.
 */
#include "tests/lib/testlib.h"

#include <check.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "util/err.h"

#define CHUNK_BYTES (1u << 20)
#define COMMAND_BYTES 4096
#define SECTOR_BYTES 512u
#define TEMPFILE_PREFIX "ext4d-test-"

#define MUST(c)                                                                                    \
	do {                                                                                       \
		if (!(c))                                                                          \
			ck_abort_msg("%s: %s", #c, strerror(errno));                               \
	} while (0)

/* ---- Commands ---- */

static char *read_all(FILE *f)
{
	size_t room = 4096;
	size_t used = 0;
	size_t n;
	char *text = malloc(room);

	MUST(text != NULL);
	while ((n = fread(text + used, 1, room - used - 1, f)) > 0) {
		used += n;
		if (room - used < 2) {
			room *= 2;
			text = realloc(text, room);
			MUST(text != NULL);
		}
	}
	text[used] = '\0';
	return text;
}

int testlib_run(const char *command, char **output)
{
	char full[COMMAND_BYTES];
	char *text;
	FILE *f;
	int status;

	/* no ck_assert on the way: a program that is no check suite runs commands, too */
	if (snprintf(full, sizeof(full), "PATH=$PATH:/usr/sbin:/sbin; ( %s ) 2>&1", command) >=
	    (int)sizeof(full))
		ck_abort_msg("a command of over %d bytes", COMMAND_BYTES);
	f = popen(full, "r");
	MUST(f != NULL);
	text = read_all(f);
	status = pclose(f);
	if (output != NULL)
		*output = text;
	else
		free(text);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 127;
}

/* Run it; if it fails the test ends with what it printed. */
static void run_or_abort(const char *command)
{
	char *output;
	int rc = testlib_run(command, &output);

	if (rc != 0)
		ck_abort_msg("%s: exit code %d: %s", command, rc, output);
	free(output);
}

/* The process whose forked tests share a prefix of their names; 0: none. */
static pid_t tempfile_owner;

static const char *tempfile_dir(void)
{
	const char *dir = getenv("TMPDIR");

	return dir != NULL ? dir : "/tmp";
}

void testlib_own_tempfiles(void)
{
	tempfile_owner = getpid();
}

void testlib_remove_tempfiles(void)
{
	char prefix[64];
	DIR *d = opendir(tempfile_dir());
	const struct dirent *de;

	snprintf(prefix, sizeof(prefix), TEMPFILE_PREFIX "%d-", (int)tempfile_owner);
	while (d != NULL && (de = readdir(d)) != NULL)
		if (strncmp(de->d_name, prefix, strlen(prefix)) == 0)
			(void)unlinkat(dirfd(d), de->d_name, 0);
	if (d != NULL)
		closedir(d);
}

char *testlib_tempfile(void)
{
	static _Atomic unsigned number;
	pid_t owner = tempfile_owner != 0 ? tempfile_owner : getpid();
	char *path = malloc(PATH_MAX);
	int fd;

	MUST(path != NULL);
	do {
		snprintf(path, PATH_MAX, "%s/" TEMPFILE_PREFIX "%d-%d-%u", tempfile_dir(),
			 (int)owner, (int)getpid(), atomic_fetch_add(&number, 1));
		fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	} while (fd < 0 && errno == EEXIST);
	MUST(fd >= 0);
	close(fd);
	return path;
}

static void drop_tempfile(char *path)
{
	unlink(path);
	free(path);
}

/* ---- Devices and files ---- */

static bool all_zero(const uint8_t *p, size_t n)
{
	return n == 0 || (p[0] == 0 && memcmp(p, p + 1, n - 1) == 0);
}

static int dump_chunk(struct blkdev *bd, int fd, uint64_t pos, uint8_t *buf, size_t len)
{
	int err = blk_read(bd, pos, buf, len, 0);

	if (err != 0 || all_zero(buf, len))
		return err;
	if (pwrite(fd, buf, len, (off_t)pos) != (ssize_t)len)
		return -EIO;
	return 0;
}

int testlib_dump(struct blkdev *bd, const char *path)
{
	uint8_t *buf = aligned_alloc(4096, CHUNK_BYTES);
	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	int err = 0;

	MUST(buf != NULL);
	if (fd < 0 || ftruncate(fd, (off_t)bd->bd_size_bytes) != 0)
		err = -errno;
	for (uint64_t pos = 0; err == 0 && pos < bd->bd_size_bytes; pos += CHUNK_BYTES) {
		uint64_t left = bd->bd_size_bytes - pos;

		err = dump_chunk(bd, fd, pos, buf, left < CHUNK_BYTES ? (size_t)left : CHUNK_BYTES);
	}
	if (fd >= 0)
		close(fd);
	free(buf);
	return err;
}

static int load_chunk(struct blkdev *bd, int fd, uint64_t pos, uint8_t *buf, size_t len)
{
	ssize_t n = pread(fd, buf, len, (off_t)pos);

	if (n != (ssize_t)len)
		return n < 0 ? -errno : -EIO;
	if (all_zero(buf, len))
		return blk_zeroout(bd, pos, len);
	return blk_write(bd, pos, buf, len, 0);
}

int testlib_load(struct blkdev *bd, const char *path)
{
	uint8_t *buf = aligned_alloc(4096, CHUNK_BYTES);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	int err = fd < 0 ? -errno : 0;

	MUST(buf != NULL);
	for (uint64_t pos = 0; err == 0 && pos < bd->bd_size_bytes; pos += CHUNK_BYTES) {
		uint64_t left = bd->bd_size_bytes - pos;

		err = load_chunk(bd, fd, pos, buf, left < CHUNK_BYTES ? (size_t)left : CHUNK_BYTES);
	}
	if (fd >= 0)
		close(fd);
	free(buf);
	return err;
}

struct blkdev *testlib_clone(struct blkdev *bd)
{
	struct blkdev *copy = mem_open(bd->bd_size_bytes, bd->bd_logical_block_bytes, NULL);
	uint8_t *buf = malloc(CHUNK_BYTES);

	ck_assert(!IS_ERR(copy));
	MUST(buf != NULL);
	for (uint64_t pos = 0; pos < bd->bd_size_bytes; pos += CHUNK_BYTES) {
		uint64_t left = bd->bd_size_bytes - pos;
		size_t n = left < CHUNK_BYTES ? (size_t)left : CHUNK_BYTES;

		ck_assert_int_eq(blk_read(bd, pos, buf, n, 0), 0);
		if (!all_zero(buf, n))
			ck_assert_int_eq(blk_write(copy, pos, buf, n, 0), 0);
	}
	free(buf);
	return copy;
}

/* ---- e2fsprogs ---- */

struct blkdev *testlib_mkfs_debugfs(const char *mke2fs_args, uint64_t size_bytes,
				    const char *debugfs_commands)
{
	char command[COMMAND_BYTES];
	char *path = testlib_tempfile();
	struct blkdev *bd;

	MUST(truncate(path, (off_t)size_bytes) == 0);
	snprintf(command, sizeof(command), "mke2fs -F -q %s '%s'", mke2fs_args, path);
	run_or_abort(command);
	if (debugfs_commands != NULL) {
		char *script = testlib_tempfile();
		FILE *f = fopen(script, "w");

		MUST(f != NULL);
		fprintf(f, "%s\n", debugfs_commands);
		fclose(f);
		snprintf(command, sizeof(command), "debugfs -w -f '%s' '%s'", script, path);
		run_or_abort(command);
		drop_tempfile(script);
	}
	bd = mem_open(size_bytes, SECTOR_BYTES, NULL);
	ck_assert(!IS_ERR(bd));
	ck_assert_int_eq(testlib_load(bd, path), 0);
	drop_tempfile(path);
	return bd;
}

struct blkdev *testlib_mkfs(const char *mke2fs_args, uint64_t size_bytes)
{
	return testlib_mkfs_debugfs(mke2fs_args, size_bytes, NULL);
}

static int fsck_dump(struct blkdev *bd, const char *args, bool load_back)
{
	char command[COMMAND_BYTES];
	char *path = testlib_tempfile();
	char *output;
	int rc;

	ck_assert_int_eq(testlib_dump(bd, path), 0);
	snprintf(command, sizeof(command), "e2fsck %s '%s'", args, path);
	rc = testlib_run(command, &output);
	if (rc != 0)
		fprintf(stderr, "e2fsck %s: exit code %d\n%s", args, rc, output);
	if (load_back)
		ck_assert_int_eq(testlib_load(bd, path), 0);
	free(output);
	drop_tempfile(path);
	return rc;
}

int testlib_fsck(struct blkdev *bd)
{
	return fsck_dump(bd, "-fn", false);
}

int testlib_fsck_args(struct blkdev *bd, const char *args)
{
	return fsck_dump(bd, args, true);
}

char *testlib_debugfs(struct blkdev *bd, const char *command)
{
	char full[COMMAND_BYTES];
	char *path = testlib_tempfile();
	char *output;

	ck_assert_int_eq(testlib_dump(bd, path), 0);
	snprintf(full, sizeof(full), "debugfs -R '%s' '%s'", command, path);
	testlib_run(full, &output);
	drop_tempfile(path);
	return output;
}
