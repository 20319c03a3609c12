/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef TESTS_UNIT_NAMESPACE_NSENV_H
#define TESTS_UNIT_NAMESPACE_NSENV_H
/* A file system in memory, mounted with all layers; it survives unmounting, so that it can be checked and mounted again. */

#include <check.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/xattr.h>

#include "ext4/inode.h"
#include "ext4/super.h"
#include "namespace/dir.h"
#include "namespace/namespace.h"
#include "tests/lib/prng.h"
#include "tests/lib/suite.h"
#include "tests/lib/testlib.h"
#include "util/log.h"
#include "util/time.h"
#include "writeback/writeback.h"

#define MIB (UINT64_C(1) << 20)

struct env {
	uint8_t *e_image; /* the bytes of the device */
	uint64_t e_bytes;
	struct ext4_options e_opts;
	struct super_block *e_sb;
	struct inode *e_root;
};

static const struct ns_cred env_root = {.nc_privileged = true, .nc_fsetid = true};

static inline void env_mount(struct env *e)
{
	struct blkdev *dev = mem_open(e->e_bytes, 512, e->e_image);

	ck_assert(!IS_ERR(dev));
	ck_assert_int_eq(ext4_mount(dev, &e->e_opts, &e->e_sb), 0);
	e->e_root = ext4_iget(e->e_sb, EXT4_ROOT_INO, EXT4_IGET_NORMAL);
	ck_assert(!IS_ERR(e->e_root));
}

static inline void env_umount(struct env *e)
{
	iput(e->e_root);
	ck_assert_int_eq(ext4_umount(e->e_sb), 0);
	e->e_sb = NULL;
}

/* Make the file system but do not mount it: mke2fs -t ext4 and these; debugfs commands may be NULL. */
static inline void env_make(struct env *e, const char *mke2fs_args, uint64_t bytes,
			    const char *commands)
{
	char args[256];
	struct blkdev *dev;

	snprintf(args, sizeof(args), "-t ext4 %s", mke2fs_args);
	dev = testlib_mkfs_debugfs(args, bytes, commands);

	memset(e, 0, sizeof(*e));
	e->e_bytes = bytes;
	e->e_image = aligned_alloc(4096, bytes);
	ck_assert_ptr_nonnull(e->e_image);
	memcpy(e->e_image, mem_data(dev), bytes);
	blk_close(dev);
	ext4_options_init(&e->e_opts);
	e->e_opts.o_manual_commit = true;
	e->e_opts.o_cache_bytes = 8 * MIB;
}

static inline void env_open(struct env *e, const char *mke2fs_args, uint64_t bytes)
{
	env_make(e, mke2fs_args, bytes, NULL);
	env_mount(e);
}

static inline void env_fsck(struct env *e)
{
	struct blkdev *dev = mem_open(e->e_bytes, 512, e->e_image);

	ck_assert(!IS_ERR(dev));
	ck_assert_int_eq(testlib_fsck(dev), 0);
	blk_close(dev);
}

static inline void env_remount(struct env *e)
{
	env_umount(e);
	env_mount(e);
}

/* Unmount, check, forget. */
static inline void env_close(struct env *e)
{
	env_umount(e);
	env_fsck(e);
	free(e->e_image);
}

/* ---- Short forms ---- */

static inline int env_create(struct inode *dir, const char *name, uint16_t mode, struct inode **out)
{
	struct ns_new n = {
		.nn_name = name, .nn_len = strlen(name), .nn_mode = mode, .nn_cred = &env_root};

	return S_ISDIR(mode) ? ext4_mkdir(dir, &n, out) : ext4_create(dir, &n, out);
}

/* Make it and let go of it. */
static inline int env_make_name(struct inode *dir, const char *name, uint16_t mode)
{
	struct inode *inode;
	int err = env_create(dir, name, mode, &inode);

	if (err == 0)
		iput(inode);
	return err;
}

static inline int env_touch(struct inode *dir, const char *name)
{
	return env_make_name(dir, name, S_IFREG | 0644);
}

static inline struct inode *env_mkdir(struct inode *dir, const char *name)
{
	struct inode *inode;

	ck_assert_int_eq(env_create(dir, name, S_IFDIR | 0755, &inode), 0);
	return inode;
}

static inline int env_symlink(struct inode *dir, const char *name, const char *target)
{
	struct ns_new n = {
		.nn_name = name, .nn_len = strlen(name), .nn_target = target, .nn_cred = &env_root};
	struct inode *inode;
	int err = ext4_symlink(dir, &n, &inode);

	if (err == 0)
		iput(inode);
	return err;
}

static inline struct inode *env_lookup(struct inode *dir, const char *name)
{
	struct inode *inode;

	ck_assert_int_eq(ext4_lookup(dir, name, strlen(name), &inode), 0);
	return inode;
}

/* 0 or the error of a lookup. */
static inline int env_find(struct inode *dir, const char *name)
{
	struct inode *inode;
	int err = ext4_lookup(dir, name, strlen(name), &inode);

	if (err == 0)
		iput(inode);
	return err;
}

static inline int env_unlink(struct inode *dir, const char *name)
{
	return ext4_unlink(dir, name, strlen(name));
}

static inline int env_rmdir(struct inode *dir, const char *name)
{
	return ext4_rmdir(dir, name, strlen(name));
}

static inline int env_rename(struct inode *from, const char *old, struct inode *to, const char *new,
			     unsigned flags)
{
	return ext4_rename(from, old, strlen(old), to, new, strlen(new), flags);
}

static inline uint32_t env_nlink(struct inode *inode)
{
	return atomic_load(&inode->i_nlink);
}

/* ---- Listing ---- */

struct env_list {
	char (*l_name)[256];
	uint32_t *l_ino;
	uint8_t *l_type;
	uint64_t *l_cookie;
	unsigned l_count, l_room;
	unsigned l_limit; /* stop after so many */
};

static inline bool env_list_emit(void *arg, const struct ns_dirent *de)
{
	struct env_list *l = arg;

	if (l->l_count == l->l_limit)
		return false;
	if (l->l_count == l->l_room) {
		l->l_room = l->l_room != 0 ? l->l_room * 2 : 64;
		l->l_name = realloc(l->l_name, l->l_room * sizeof(*l->l_name));
		l->l_ino = realloc(l->l_ino, l->l_room * sizeof(*l->l_ino));
		l->l_type = realloc(l->l_type, l->l_room * sizeof(*l->l_type));
		l->l_cookie = realloc(l->l_cookie, l->l_room * sizeof(*l->l_cookie));
	}
	ck_assert_uint_eq(strlen(de->d_name), de->d_len);
	memcpy(l->l_name[l->l_count], de->d_name, (size_t)de->d_len + 1);
	l->l_ino[l->l_count] = de->d_ino;
	l->l_type[l->l_count] = de->d_type;
	l->l_cookie[l->l_count] = de->d_cookie;
	l->l_count++;
	return true;
}

static inline void env_list_free(struct env_list *l)
{
	free(l->l_name);
	free(l->l_ino);
	free(l->l_type);
	free(l->l_cookie);
	memset(l, 0, sizeof(*l));
}

/* The whole directory, in pieces of `piece` entries. */
static inline int env_list_all(struct inode *dir, unsigned piece, struct env_list *l)
{
	struct ns_dir *d;
	uint64_t cookie = 0;
	unsigned before;
	int err = 0;

	memset(l, 0, sizeof(*l));
	ck_assert_int_eq(ext4_dir_open(dir, &d), 0);
	do {
		before = l->l_count;
		l->l_limit = before + piece;
		err = ext4_dir_read(d, cookie, env_list_emit, l);
		if (l->l_count > before)
			cookie = l->l_cookie[l->l_count - 1];
	} while (err == 0 && l->l_count > before);
	ext4_dir_close(d);
	return err;
}

#endif
