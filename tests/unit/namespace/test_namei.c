/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * test_namei.c - names come, lead somewhere, and go; inodes live as long as they are named or held.
 *
 * Invariants: (1) each test ends with a clean e2fsck.
 * Locking: none.
 */
#include "tests/unit/namespace/nsenv.h"

#include "alloc/alloc.h"

static uint64_t free_inodes(struct env *e)
{
	struct ext4_space sp;

	ck_assert_int_eq(jbd2_journal_force_commit(e->e_sb->s_journal), 0);
	ext4_space(e->e_sb, &sp);
	return sp.sp_free_inodes;
}

static uint64_t free_blocks(struct env *e)
{
	struct ext4_space sp;

	ck_assert_int_eq(jbd2_journal_force_commit(e->e_sb->s_journal), 0);
	ext4_space(e->e_sb, &sp);
	return sp.sp_free;
}

START_TEST(every_type_is_created_and_found_again)
{
	static const struct {
		const char *t_name;
		uint16_t t_mode;
		uint32_t t_rdev;
	} types[] = {{"file", S_IFREG | 0640, 0},	    {"dir", S_IFDIR | 0711, 0},
		     {"fifo", S_IFIFO | 0600, 0},	    {"sock", S_IFSOCK | 0666, 0},
		     {"chr", S_IFCHR | 0620, 0x0305},	    {"blk", S_IFBLK | 0660, 0x0801},
		     {"bigblk", S_IFBLK | 0660, 0x12345678}};
	struct inode *inode;
	struct stat st;
	struct env e;

	env_open(&e, "-b 4096", 16 * MIB);
	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		struct ns_new n = {.nn_name = types[i].t_name,
				   .nn_len = strlen(types[i].t_name),
				   .nn_mode = types[i].t_mode,
				   .nn_rdev = types[i].t_rdev,
				   .nn_cred = &env_root};

		ck_assert_int_eq(S_ISDIR(n.nn_mode) ? ext4_mkdir(e.e_root, &n, &inode)
						    : ext4_create(e.e_root, &n, &inode),
				 0);
		iput(inode);
		ck_assert_int_eq(S_ISDIR(n.nn_mode) ? ext4_mkdir(e.e_root, &n, &inode)
						    : ext4_create(e.e_root, &n, &inode),
				 -EEXIST);
	}
	env_remount(&e);
	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		inode = env_lookup(e.e_root, types[i].t_name);
		ext4_getattr(inode, &st);
		ck_assert_uint_eq(st.st_mode, types[i].t_mode);
		ck_assert_uint_eq(st.st_rdev, types[i].t_rdev);
		ck_assert_uint_eq(st.st_nlink, S_ISDIR(types[i].t_mode) ? 2 : 1);
		iput(inode);
	}
	env_close(&e);
}
END_TEST

START_TEST(names_are_checked_first)
{
	struct inode *inode;
	char name[300];
	struct env e;

	env_open(&e, "-b 1024", 8 * MIB);
	memset(name, 'x', sizeof(name));
	ck_assert_int_eq(ext4_lookup(e.e_root, name, 256, &inode), -ENAMETOOLONG);
	ck_assert_int_eq(ext4_lookup(e.e_root, name, 0, &inode), -ENOENT);
	ck_assert_int_eq(ext4_unlink(e.e_root, name, 256), -ENAMETOOLONG);
	ck_assert_int_eq(ext4_rename(e.e_root, name, 3, e.e_root, name, 256, 0), -ENAMETOOLONG);
	name[256] = '\0';
	ck_assert_int_eq(env_touch(e.e_root, name), -ENAMETOOLONG);
	name[255] = '\0';
	ck_assert_int_eq(env_touch(e.e_root, name), 0);
	ck_assert_int_eq(env_find(e.e_root, name), 0);
	ck_assert_int_eq(env_touch(e.e_root, "a/b"), -EINVAL);
	ck_assert_int_eq(env_touch(e.e_root, "."), -EEXIST);
	ck_assert_int_eq(env_touch(e.e_root, ".."), -EEXIST);
	ck_assert_int_eq(env_rmdir(e.e_root, "."), -EINVAL);
	ck_assert_int_eq(env_rmdir(e.e_root, ".."), -ENOTEMPTY);
	env_close(&e);
}
END_TEST

START_TEST(dot_and_dotdot_lead_where_they_should)
{
	struct inode *a, *b, *inode;
	struct env e;

	env_open(&e, "-b 1024", 8 * MIB);
	a = env_mkdir(e.e_root, "a");
	b = env_mkdir(a, "b");
	inode = env_lookup(b, "..");
	ck_assert_ptr_eq(inode, a);
	iput(inode);
	inode = env_lookup(b, ".");
	ck_assert_ptr_eq(inode, b);
	iput(inode);
	inode = env_lookup(e.e_root, "..");
	ck_assert_ptr_eq(inode, e.e_root);
	iput(inode);
	iput(a);
	iput(b);
	env_close(&e);
}
END_TEST

START_TEST(directory_links_are_counted)
{
	struct inode *a, *b;
	struct env e;

	env_open(&e, "-b 1024", 8 * MIB);
	a = env_mkdir(e.e_root, "a");
	ck_assert_uint_eq(env_nlink(a), 2);
	b = env_mkdir(a, "b");
	ck_assert_uint_eq(env_nlink(a), 3);
	ck_assert_int_eq(env_rmdir(e.e_root, "a"), -ENOTEMPTY);
	ck_assert_int_eq(env_unlink(a, "b"), -EISDIR);
	ck_assert_int_eq(env_touch(a, "f"), 0);
	ck_assert_int_eq(env_rmdir(a, "f"), -ENOTDIR);
	ck_assert_int_eq(env_rmdir(a, "b"), 0);
	ck_assert_uint_eq(env_nlink(a), 2);
	/* A deleted directory that somebody still has. */
	ck_assert_uint_eq(env_nlink(b), 0);
	ck_assert_int_eq(env_touch(b, "late"), -ENOENT);
	ck_assert_int_eq(env_find(b, "late"), -ENOENT);
	iput(b);
	ck_assert_int_eq(env_unlink(a, "f"), 0);
	ck_assert_int_eq(env_rmdir(e.e_root, "a"), 0);
	iput(a);
	env_close(&e);
}
END_TEST

START_TEST(hard_links_share_an_inode)
{
	struct inode *file, *dir, *found;
	struct env e;

	env_open(&e, "-b 1024", 8 * MIB);
	dir = env_mkdir(e.e_root, "d");
	ck_assert_int_eq(env_create(e.e_root, "f", S_IFREG | 0644, &file), 0);
	ck_assert_int_eq(ext4_link(file, dir, "g", 1), 0);
	ck_assert_int_eq(ext4_link(file, dir, "g", 1), -EEXIST);
	ck_assert_uint_eq(env_nlink(file), 2);
	found = env_lookup(dir, "g");
	ck_assert_ptr_eq(found, file);
	iput(found);
	ck_assert_int_eq(ext4_link(dir, e.e_root, "h", 1), -EPERM);
	ck_assert_int_eq(env_unlink(e.e_root, "f"), 0);
	ck_assert_uint_eq(env_nlink(file), 1);
	ck_assert_int_eq(env_find(e.e_root, "f"), -ENOENT);
	ck_assert_int_eq(env_find(dir, "g"), 0);
	ck_assert_int_eq(env_unlink(dir, "g"), 0);
	/* No name and no O_TMPFILE: it cannot come back. */
	ck_assert_int_eq(ext4_link(file, dir, "g", 1), -ENOENT);
	iput(file);
	iput(dir);
	env_close(&e);
}
END_TEST

START_TEST(an_unlinked_open_file_is_freed_at_the_last_put)
{
	struct inode *file;
	uint64_t before;
	struct env e;

	env_open(&e, "-b 1024", 8 * MIB);
	before = free_inodes(&e);
	ck_assert_int_eq(env_create(e.e_root, "f", S_IFREG | 0644, &file), 0);
	ck_assert_int_eq(env_unlink(e.e_root, "f"), 0);
	ck_assert_uint_eq(free_inodes(&e), before - 1);
	ck_assert(file->i_on_orphan);
	iput(file);
	ext4_drain_evictions(e.e_sb);
	ck_assert_uint_eq(free_inodes(&e), before);
	env_close(&e);
}
END_TEST

START_TEST(a_tmpfile_can_get_a_name_or_vanish)
{
	struct ns_new n = {.nn_mode = 0600, .nn_cred = &env_root};
	struct inode *a, *b;
	uint64_t before;
	struct env e;

	env_open(&e, "-b 1024", 8 * MIB);
	before = free_inodes(&e);
	ck_assert_int_eq(ext4_tmpfile(e.e_root, &n, &a), 0);
	ck_assert_int_eq(ext4_tmpfile(e.e_root, &n, &b), 0);
	ck_assert_uint_eq(env_nlink(a), 0);
	ck_assert_int_eq(ext4_link(a, e.e_root, "named", 5), 0);
	ck_assert_uint_eq(env_nlink(a), 1);
	ck_assert(!a->i_on_orphan);
	iput(a);
	iput(b);
	ext4_drain_evictions(e.e_sb);
	ck_assert_uint_eq(free_inodes(&e), before - 1);
	env_remount(&e);
	ck_assert_int_eq(env_find(e.e_root, "named"), 0);
	env_close(&e);
}
END_TEST

START_TEST(symlinks_of_all_lengths)
{
	static const unsigned lengths[] = {1, 58, 59, 60, 61, 500, 1022, 1023};
	char target[1100], back[4100], name[16];
	struct inode *inode;
	struct env e;

	env_open(&e, "-b 1024", 8 * MIB);
	for (unsigned i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		memset(target, 'a' + (int)i, lengths[i]);
		target[lengths[i]] = '\0';
		snprintf(name, sizeof(name), "l%u", lengths[i]);
		ck_assert_int_eq(env_symlink(e.e_root, name, target), 0);
	}
	memset(target, 'z', 1024);
	target[1024] = '\0';
	ck_assert_int_eq(env_symlink(e.e_root, "long", target), -ENAMETOOLONG);
	ck_assert_int_eq(env_symlink(e.e_root, "empty", ""), -ENOENT);
	env_remount(&e);
	for (unsigned i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		snprintf(name, sizeof(name), "l%u", lengths[i]);
		inode = env_lookup(e.e_root, name);
		memset(target, 'a' + (int)i, lengths[i]);
		target[lengths[i]] = '\0';
		ck_assert_int_eq(ext4_readlink(inode, back, sizeof(back)), (int)lengths[i]);
		ck_assert_str_eq(back, target);
		ck_assert_uint_eq(atomic_load(&inode->i_blocks), lengths[i] < 60 ? 0 : 2);
		iput(inode);
		ck_assert_int_eq(env_unlink(e.e_root, name), 0);
	}
	inode = env_lookup(e.e_root, "lost+found");
	ck_assert_int_eq(ext4_readlink(inode, back, sizeof(back)), -EINVAL);
	iput(inode);
	env_close(&e);
}
END_TEST

START_TEST(times_move_as_in_the_kernel)
{
	struct timespec old = {1000, 0};
	struct ns_attr attr = {.na_valid = NS_SET_MTIME | NS_SET_ATIME | NS_SET_CTIME,
			       .na_mtime = old,
			       .na_atime = old,
			       .na_ctime = old};
	struct inode *dir, *file;
	struct stat st;
	struct env e;

	env_open(&e, "-b 1024", 8 * MIB);
	dir = env_mkdir(e.e_root, "d");
	ck_assert_int_eq(env_create(dir, "f", S_IFREG | 0644, &file), 0);
	ck_assert_int_eq(ext4_setattr(dir, &attr, &env_root), 0);
	ck_assert_int_eq(ext4_setattr(file, &attr, &env_root), 0);
	ck_assert_int_eq(ext4_link(file, dir, "g", 1), 0);
	ext4_getattr(dir, &st);
	ck_assert_int_gt(st.st_mtim.tv_sec, 1000);
	ck_assert_int_gt(st.st_ctim.tv_sec, 1000);
	ck_assert_int_eq(st.st_atim.tv_sec, 1000);
	ext4_getattr(file, &st);
	ck_assert_int_eq(st.st_mtim.tv_sec, 1000);
	ck_assert_int_gt(st.st_ctim.tv_sec, 1000);
	ck_assert_int_eq(ext4_setattr(dir, &attr, &env_root), 0);
	ck_assert_int_eq(ext4_setattr(file, &attr, &env_root), 0);
	ck_assert_int_eq(env_unlink(dir, "g"), 0);
	ext4_getattr(dir, &st);
	ck_assert_int_gt(st.st_mtim.tv_sec, 1000);
	ext4_getattr(file, &st);
	ck_assert_int_gt(st.st_ctim.tv_sec, 1000);
	ck_assert_int_eq(st.st_mtim.tv_sec, 1000);
	iput(file);
	iput(dir);
	env_close(&e);
}
END_TEST

START_TEST(immutable_and_append_only_are_obeyed)
{
	struct inode *dir, *file;
	struct env e;

	env_open(&e, "-b 1024", 8 * MIB);
	dir = env_mkdir(e.e_root, "d");
	ck_assert_int_eq(env_create(dir, "f", S_IFREG | 0644, &file), 0);
	ck_assert_int_eq(ext4_set_flags(dir, ext4_get_flags(dir) | EXT2_APPEND_FL, &env_root), 0);
	ck_assert_int_eq(env_touch(dir, "g"), 0);
	ck_assert_int_eq(env_unlink(dir, "g"), -EPERM);
	ck_assert_int_eq(env_rename(dir, "g", dir, "h", 0), -EPERM);
	ck_assert_int_eq(ext4_set_flags(dir,
					(ext4_get_flags(dir) & ~(uint32_t)EXT2_APPEND_FL) |
						EXT2_IMMUTABLE_FL,
					&env_root),
			 0);
	ck_assert_int_eq(env_touch(dir, "i"), -EPERM);
	ck_assert_int_eq(env_unlink(dir, "g"), -EPERM);
	ck_assert_int_eq(
		ext4_set_flags(dir, ext4_get_flags(dir) & ~(uint32_t)EXT2_IMMUTABLE_FL, &env_root),
		0);
	ck_assert_int_eq(ext4_set_flags(file, ext4_get_flags(file) | EXT2_IMMUTABLE_FL, &env_root),
			 0);
	ck_assert_int_eq(env_unlink(dir, "f"), -EPERM);
	ck_assert_int_eq(ext4_link(file, dir, "l", 1), -EPERM);
	ck_assert_int_eq(env_rename(dir, "g", dir, "f", 0), -EPERM);
	ck_assert_int_eq(ext4_file_open(file, O_WRONLY, false), -EPERM);
	ck_assert_int_eq(ext4_file_open(file, O_RDONLY, false), 0);
	ck_assert_int_eq(ext4_set_flags(file,
					(ext4_get_flags(file) & ~(uint32_t)EXT2_IMMUTABLE_FL) |
						EXT2_APPEND_FL,
					&env_root),
			 0);
	ck_assert_int_eq(ext4_file_open(file, O_WRONLY, false), -EPERM);
	ck_assert_int_eq(ext4_file_open(file, O_WRONLY | O_APPEND, false), 0);
	ck_assert_int_eq(ext4_file_open(file, O_WRONLY | O_APPEND | O_TRUNC, false), -EPERM);
	ck_assert_int_eq(
		ext4_set_flags(file, ext4_get_flags(file) & ~(uint32_t)EXT2_APPEND_FL, &env_root),
		0);
	iput(file);
	iput(dir);
	env_close(&e);
}
END_TEST

START_TEST(a_full_file_system_undoes_what_it_cannot_finish)
{
	struct inode *dir;
	char name[256];
	uint64_t before;
	unsigned n = 0;
	int err;
	struct env e;

	/* More inodes than blocks for names. */
	env_open(&e, "-b 1024 -N 4096 -m 0 -O ^has_journal", 2 * MIB);
	dir = env_mkdir(e.e_root, "d");
	memset(name, 'n', sizeof(name));
	do {
		snprintf(name + 240, 16, "%u", n);
		err = env_touch(dir, name);
		if (err == 0)
			n++;
	} while (err == 0);
	ck_assert_int_eq(err, -ENOSPC);
	ck_assert_uint_gt(n, 1000);
	before = free_inodes(&e);
	ck_assert_int_eq(env_make_name(dir, "sub", S_IFDIR | 0755), -ENOSPC);
	ext4_drain_evictions(e.e_sb);
	ck_assert_uint_eq(free_inodes(&e), before);
	ck_assert_int_eq(env_find(dir, "sub"), -ENOENT);
	ck_assert_int_eq(env_find(dir, name), -ENOENT);
	/* What is there can be removed, and then there is room again. */
	for (unsigned i = 0; i < 100; i++) {
		snprintf(name + 240, 16, "%u", i);
		ck_assert_int_eq(env_unlink(dir, name), 0);
	}
	ck_assert_int_eq(env_touch(dir, name), 0);
	iput(dir);
	env_close(&e);
}
END_TEST

START_TEST(inodes_run_out_and_come_back)
{
	char name[32];
	unsigned n = 0;
	int err;
	struct env e;

	env_open(&e, "-b 1024 -N 64", 8 * MIB);
	do {
		snprintf(name, sizeof(name), "f%u", n);
		err = env_touch(e.e_root, name);
		if (err == 0)
			n++;
	} while (err == 0);
	ck_assert_int_eq(err, -ENOSPC);
	ck_assert_int_eq(env_unlink(e.e_root, "f0"), 0);
	/* The number is free only after an eviction and a commit: both happen. */
	ck_assert_int_eq(env_touch(e.e_root, "again"), 0);
	env_close(&e);
}
END_TEST

START_TEST(removing_everything_gives_everything_back)
{
	char name[240];
	struct inode *dir;
	uint64_t blocks, inodes;
	struct env e;

	env_open(&e, "-b 1024", 16 * MIB);
	blocks = free_blocks(&e);
	inodes = free_inodes(&e);
	dir = env_mkdir(e.e_root, "d");
	for (unsigned i = 0; i < 500; i++) {
		snprintf(name, sizeof(name), "%0200u", i);
		ck_assert_int_eq(env_touch(dir, name), 0);
	}
	for (unsigned i = 0; i < 500; i++) {
		snprintf(name, sizeof(name), "%0200u", i);
		ck_assert_int_eq(env_unlink(dir, name), 0);
	}
	ck_assert_int_eq(env_rmdir(e.e_root, "d"), 0);
	iput(dir);
	ext4_drain_evictions(e.e_sb);
	ck_assert_uint_eq(free_blocks(&e), blocks);
	ck_assert_uint_eq(free_inodes(&e), inodes);
	env_close(&e);
}
END_TEST

START_TEST(dirsync_commits_before_it_returns)
{
	struct inode *dir;
	tid_t tid;
	struct env e;

	env_open(&e, "-b 1024", 8 * MIB);
	dir = env_mkdir(e.e_root, "d");
	ck_assert_int_eq(env_touch(dir, "lazy"), 0);
	ck_assert(jbd2_transaction_pending(e.e_sb->s_journal, atomic_load(&dir->i_sync_tid)));
	ck_assert_int_eq(ext4_set_flags(dir, ext4_get_flags(dir) | EXT2_DIRSYNC_FL, &env_root), 0);
	ck_assert_int_eq(env_touch(dir, "now"), 0);
	tid = atomic_load(&dir->i_sync_tid);
	ck_assert(!jbd2_transaction_pending(e.e_sb->s_journal, tid));
	iput(dir);
	env_close(&e);
}
END_TEST

START_TEST(a_read_only_mount_changes_nothing)
{
	struct inode *inode;
	uint8_t *before;
	struct env e;

	env_open(&e, "-b 1024", 8 * MIB);
	ck_assert_int_eq(env_touch(e.e_root, "f"), 0);
	env_umount(&e);
	before = malloc(e.e_bytes);
	memcpy(before, e.e_image, e.e_bytes);
	e.e_opts.o_read_only = true;
	env_mount(&e);
	inode = env_lookup(e.e_root, "f");
	ck_assert_int_eq(env_touch(e.e_root, "g"), -EROFS);
	ck_assert_int_eq(env_unlink(e.e_root, "f"), -EROFS);
	ck_assert_int_eq(env_rename(e.e_root, "f", e.e_root, "g", 0), -EROFS);
	ck_assert_int_eq(ext4_link(inode, e.e_root, "g", 1), -EROFS);
	ck_assert_int_eq(ext4_setxattr(inode, "user.x", "y", 1, 0, &env_root), -EROFS);
	iput(inode);
	env_umount(&e);
	ck_assert_int_eq(memcmp(before, e.e_image, e.e_bytes), 0);
	free(before);
	env_fsck(&e);
	free(e.e_image);
}
END_TEST

int main(void)
{
	return RUN_TESTS("namespace/namei", every_type_is_created_and_found_again,
			 names_are_checked_first, dot_and_dotdot_lead_where_they_should,
			 directory_links_are_counted, hard_links_share_an_inode,
			 an_unlinked_open_file_is_freed_at_the_last_put,
			 a_tmpfile_can_get_a_name_or_vanish, symlinks_of_all_lengths,
			 times_move_as_in_the_kernel, immutable_and_append_only_are_obeyed,
			 a_full_file_system_undoes_what_it_cannot_finish,
			 inodes_run_out_and_come_back, removing_everything_gives_everything_back,
			 dirsync_commits_before_it_returns, a_read_only_mount_changes_nothing);
}
