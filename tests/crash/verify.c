/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * verify.c - what is on a disk after a cut: read through our own mount, and judged by e2fsck.
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ext4/inode.h"
#include "namespace/namespace.h"
#include "tests/crash/verify.h"
#include "util/assert.h"
#include "util/crc32c.h"

#define MAX_ENTRIES 2000
#define MAX_DEPTH 40

struct listing {
	struct ns_dirent l_entries[MAX_ENTRIES];
	unsigned l_nr;
};

static bool collect(void *arg, const struct ns_dirent *de)
{
	struct listing *l = arg;

	if (!strcmp(de->d_name, ".") || !strcmp(de->d_name, "..") ||
	    !strcmp(de->d_name, "lost+found"))
		return true;
	if (l->l_nr == MAX_ENTRIES)
		return false;
	l->l_entries[l->l_nr++] = *de;
	return true;
}

static int read_content(struct inode *inode, struct found *f)
{
	static struct wb_read r;
	uint64_t pos = 0;
	uint8_t *data;

	if (f->f_size > ORACLE_MAX_FILE)
		return -EFBIG;
	data = malloc(f->f_size + 1);
	ASSERT(data);
	f->f_data = data;
	while (pos < f->f_size) {
		int err = file_read(inode, pos, 1 << 16, 0, &r);

		if (err)
			return err;
		if (!r.r_bytes)
			return -EIO;
		for (int i = 0; i < r.r_iovcnt; i++) {
			memcpy(data + pos, r.r_iov[i].iov_base, r.r_iov[i].iov_len);
			pos += r.r_iov[i].iov_len;
		}
		wb_read_done(&r);
	}
	return 0;
}

int verify_xattr(const uint8_t *value, ssize_t n, struct found *f)
{
	if (n == -ENODATA)
		return 0;
	if (n < 4)
		return n < 0 ? (int)n : -EIO;
	memcpy(&f->f_xattr, value, 4);
	if ((uint32_t)n != 4 + f->f_xattr % 190)
		return -EIO;
	for (ssize_t i = 4; i < n; i++) {
		if (value[i] != (f->f_xattr & 0xff))
			return -EIO;
	}
	return 0;
}

static int read_xattr(struct inode *inode, struct found *f)
{
	uint8_t value[300];
	ssize_t n = ext4_getxattr(inode, "user.x", value, sizeof(value));

	return verify_xattr(value, n, f);
}

static int describe(struct inode *inode, struct found *f)
{
	char target[4200], want[32];
	struct stat st;
	int err;

	ext4_getattr(inode, &st);
	f->f_id = st.st_uid;
	f->f_nlink = (uint32_t)st.st_nlink;
	f->f_size = (uint64_t)st.st_size;
	f->f_kind = S_ISDIR(st.st_mode) ? OK_DIR : S_ISLNK(st.st_mode) ? OK_SYMLINK : OK_FILE;
	err = f->f_kind == OK_SYMLINK ? 0 : read_xattr(inode, f);
	if (err)
		return err;
	if (f->f_kind == OK_FILE)
		return read_content(inode, f);
	if (f->f_kind == OK_SYMLINK) {
		err = ext4_readlink(inode, target, sizeof(target));
		if (err < 0)
			return err;
		snprintf(want, sizeof(want), "target-%u", f->f_id);
		f->f_target_ok = !strcmp(want, target);
	}
	return 0;
}

void tree_hash(struct tree *t, const struct found *f)
{
	uint32_t words[5] = {f->f_id, f->f_dir, f->f_nlink, (uint32_t)f->f_size,
			     (uint32_t)f->f_kind};
	uint32_t h = crc32c(0x1234, words, sizeof(words));

	h = crc32c(h, f->f_name, strlen(f->f_name));
	if (f->f_kind == OK_FILE)
		h = crc32c(h, f->f_data, f->f_size);
	/* a sum: the order of a directory does not matter */
	t->t_hash_no_xattr += (uint64_t)h * 0x9e3779b97f4a7c15u;
	h = crc32c(h, &f->f_xattr, sizeof(f->f_xattr));
	t->t_hash += (uint64_t)h * 0x9e3779b97f4a7c15u;
}

struct found *tree_add(struct tree *t)
{
	if (t->t_nr == t->t_room) {
		t->t_room = t->t_room ? 2 * t->t_room : 64;
		t->t_found = realloc(t->t_found, t->t_room * sizeof(*t->t_found));
		ASSERT(t->t_found);
	}
	memset(&t->t_found[t->t_nr], 0, sizeof(t->t_found[0]));
	return &t->t_found[t->t_nr++];
}

static int walk(struct inode *dir, uint32_t dir_id, unsigned depth, struct tree *t, FILE *out);

static int visit(struct inode *dir, uint32_t dir_id, const struct ns_dirent *de, unsigned depth,
		 struct tree *t, FILE *out)
{
	struct inode *inode;
	struct found *f;
	uint32_t id;
	bool is_dir;
	int err = ext4_lookup(dir, de->d_name, de->d_len, &inode);

	if (err) {
		fprintf(out, "lookup of %s: %s\n", de->d_name, strerror(-err));
		return err;
	}
	f = tree_add(t);
	f->f_dir = dir_id;
	f->f_name = strdup(de->d_name);
	err = describe(inode, f);
	if (err)
		fprintf(out, "reading %s: %s\n", de->d_name, strerror(-err));
	else
		tree_hash(t, f);
	id = f->f_id;
	is_dir = f->f_kind == OK_DIR;
	if (!err && is_dir)
		err = walk(inode, id, depth + 1, t, out);
	iput(inode);
	return err;
}

static int walk(struct inode *dir, uint32_t dir_id, unsigned depth, struct tree *t, FILE *out)
{
	struct listing *l = calloc(1, sizeof(*l));
	struct ns_dir *d;
	int err;

	ASSERT(l);
	ASSERT_CMP(depth, <, (unsigned)MAX_DEPTH);
	err = ext4_dir_open(dir, &d);
	if (!err) {
		err = ext4_dir_read(d, 0, collect, l);
		ext4_dir_close(d);
	}
	if (err)
		fprintf(out, "reading a folder: %s\n", strerror(-err));
	for (unsigned i = 0; !err && i < l->l_nr; i++)
		err = visit(dir, dir_id, &l->l_entries[i], depth, t, out);
	free(l);
	return err;
}

int verify_mount(uint8_t *image, uint64_t size, struct tree *t, FILE *out)
{
	struct ext4_options opts;
	struct super_block *sb;
	struct inode *root;
	struct blkdev *dev = mem_open(size, 512, image);
	int err, err2;

	memset(t, 0, sizeof(*t));
	ASSERT(!IS_ERR(dev));
	ext4_options_init(&opts);
	opts.o_manual_commit = true;
	opts.o_cache_bytes = 8 << 20;
	opts.o_atime = ATIME_NOATIME;
	err = ext4_mount(dev, &opts, &sb);
	if (err) {
		blk_close(dev);
		fprintf(out, "mount after the cut: %s\n", strerror(-err));
		return err;
	}
	root = ext4_iget(sb, EXT4_ROOT_INO, 0);
	if (IS_ERR(root)) {
		err = PTR_ERR(root);
	} else {
		err = walk(root, ORACLE_ROOT, 0, t, out);
		iput(root);
	}
	err2 = ext4_umount(sb);
	if (err2 && !err)
		fprintf(out, "unmount after the cut: %s\n", strerror(-err2));
	return err ? err : err2;
}

void tree_free(struct tree *t)
{
	for (unsigned i = 0; i < t->t_nr; i++) {
		free((void *)(uintptr_t)t->t_found[i].f_data);
		free((void *)(uintptr_t)t->t_found[i].f_name);
	}
	free(t->t_found);
	memset(t, 0, sizeof(*t));
}

void verify_path(char *path, size_t room)
{
	snprintf(path, room, "%s/ext4d-cut.%d", access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm",
		 (int)getpid());
}

bool verify_transfer(const char *path, uint8_t *image, uint64_t size, bool out)
{
	int fd = open(path, out ? O_WRONLY | O_CREAT | O_TRUNC : O_RDONLY, 0600);
	uint64_t done = 0;

	while (fd >= 0 && done < size) {
		ssize_t n = out ? write(fd, image + done, size - done)
				: read(fd, image + done, size - done);

		if (n <= 0)
			break;
		done += (uint64_t)n;
	}
	if (fd >= 0)
		close(fd);
	return done == size;
}

int verify_command(uint8_t *image, uint64_t size, const char *args, int max_rc, bool write_back,
		   FILE *out)
{
	char path[64], command[256], line[512];
	FILE *pipe;
	int rc;

	verify_path(path, sizeof(path));
	if (!verify_transfer(path, image, size, true)) {
		fprintf(out, "cannot write %s\n", path);
		unlink(path);
		return 8;
	}
	snprintf(command, sizeof(command), "exec %s %s 2>&1", args, path);
	pipe = popen(command, "r");
	ASSERT(pipe);
	char text[8192] = "";
	size_t used = 0;

	while (fgets(line, sizeof(line), pipe)) {
		if (used + strlen(line) < sizeof(text))
			used += (size_t)snprintf(text + used, sizeof(text) - used, "%s", line);
	}
	rc = pclose(pipe);
	rc = WIFEXITED(rc) ? WEXITSTATUS(rc) : 8;
	if (rc > max_rc)
		fprintf(out, "%s: %d\n%s", args, rc, text);
	if (write_back && !verify_transfer(path, image, size, false))
		rc = 8;
	unlink(path);
	return rc;
}
