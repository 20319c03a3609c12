/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * verify_kernel.c - what the kernel's ext4 finds on a disk after a cut.
 *
 * The image goes into a file, mount(8) puts it on a loop device, and the tree is read by system calls into the same `struct tree` as
 * verify_mount() makes: equal trees have equal hashes.
 * Locking: none. Run it in a mount namespace of its own.
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "tests/crash/verify.h"
#include "tests/lib/testlib.h"
#include "util/assert.h"
#include "util/err.h"

#define MAX_DEPTH 40

static int read_content(int fd, struct found *f)
{
	uint8_t *data;
	ssize_t n;

	if (f->f_size > ORACLE_MAX_FILE)
		return -EFBIG;
	data = malloc(f->f_size + 1);
	ASSERT(data);
	f->f_data = data;
	n = pread(fd, data, f->f_size, 0);
	if (n < 0)
		return -errno;
	return (uint64_t)n == f->f_size ? 0 : -EIO;
}

static int describe_open(int fd, struct found *f)
{
	uint8_t value[300];
	ssize_t n = fgetxattr(fd, "user.x", value, sizeof(value));
	int err = verify_xattr(value, n < 0 ? -errno : n, f);

	return err || f->f_kind == OK_DIR ? err : read_content(fd, f);
}

static int describe(int dir, const char *name, struct found *f)
{
	char target[64] = "", want[32];
	struct stat st;
	int fd, err;

	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	f->f_id = st.st_uid;
	f->f_nlink = (uint32_t)st.st_nlink;
	f->f_size = (uint64_t)st.st_size;
	f->f_kind = S_ISDIR(st.st_mode) ? OK_DIR : S_ISLNK(st.st_mode) ? OK_SYMLINK : OK_FILE;
	if (f->f_kind == OK_SYMLINK) {
		snprintf(want, sizeof(want), "target-%u", f->f_id);
		f->f_target_ok = readlinkat(dir, name, target, sizeof(target) - 1) > 0 &&
				 !strcmp(target, want);
		return f->f_target_ok ? 0 : -EIO;
	}
	fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	err = describe_open(fd, f);
	close(fd);
	return err;
}

static int walk(int dir, uint32_t dir_id, unsigned depth, struct tree *t, FILE *out);

static int visit(int dir, uint32_t dir_id, const char *name, unsigned depth, struct tree *t,
		 FILE *out)
{
	struct found *f = tree_add(t);
	bool is_dir;
	int err;

	f->f_dir = dir_id;
	f->f_name = strdup(name);
	err = describe(dir, name, f);
	if (err) {
		fprintf(out, "the kernel's %s: %s\n", name, strerror(-err));
		return err;
	}
	tree_hash(t, f);
	is_dir = f->f_kind == OK_DIR;
	if (!is_dir)
		return 0;
	return walk(openat(dir, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC), f->f_id, depth + 1, t,
		    out);
}

/* Closes `dir`. */
static int walk(int dir, uint32_t dir_id, unsigned depth, struct tree *t, FILE *out)
{
	DIR *d = dir < 0 ? NULL : fdopendir(dir);
	struct dirent *de;
	int err = 0;

	ASSERT_CMP(depth, <, (unsigned)MAX_DEPTH);
	if (!d)
		return -errno;
	while (!err && (errno = 0, de = readdir(d))) {
		if (!strcmp(de->d_name, ".") || !strcmp(de->d_name, "..") ||
		    !strcmp(de->d_name, "lost+found"))
			continue;
		err = visit(dir, dir_id, de->d_name, depth, t, out);
	}
	if (!err && errno)
		err = -errno;
	closedir(d);
	return err;
}

static int run(const char *command, FILE *out)
{
	char *text;
	int rc = testlib_run(command, &text);

	if (rc)
		fprintf(out, "%s: %s\n", command, text);
	free(text);
	return rc ? -EIO : 0;
}

int verify_kernel(uint8_t *image, uint64_t size, const char *dir, struct tree *t, FILE *out)
{
	char path[64], command[256];
	int err, err2;

	memset(t, 0, sizeof(*t));
	verify_path(path, sizeof(path));
	if (!verify_transfer(path, image, size, true)) {
		fprintf(out, "cannot write %s\n", path);
		unlink(path);
		return -EIO;
	}
	snprintf(command, sizeof(command), "exec mount -t ext4 -o loop,noatime %s %s", path, dir);
	err = run(command, out);
	if (!err) {
		err = walk(open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC), ORACLE_ROOT, 0, t, out);
		snprintf(command, sizeof(command), "exec umount %s", dir);
		err2 = run(command, out);
		err = err ? err : err2;
	}
	if (!verify_transfer(path, image, size, false))
		err = err ? err : -EIO;
	unlink(path);
	return err;
}
