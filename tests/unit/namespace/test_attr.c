/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * test_attr.c - attributes: set, kept, clamped, taken away; flags; opening.
 *
 * Invariants: (1) what is compared was read after a remount where the disk format matters.
 * Locking: none.
 */
#include "tests/unit/namespace/nsenv.h"

static int set_times(struct inode *inode, int64_t sec, long nsec)
{
	struct ns_attr attr = {.na_valid = NS_SET_ATIME | NS_SET_MTIME | NS_SET_CTIME};

	attr.na_atime.tv_sec = sec;
	attr.na_atime.tv_nsec = nsec;
	attr.na_mtime = attr.na_atime;
	attr.na_ctime = attr.na_atime;
	return ext4_setattr(inode, &attr, &env_root);
}

/* What comes back after a remount. */
static struct timespec round_trip(struct env *e, int64_t sec, long nsec)
{
	struct inode *file = env_lookup(e->e_root, "f");
	struct stat st;

	ck_assert_int_eq(set_times(file, sec, nsec), 0);
	iput(file);
	env_remount(e);
	file = env_lookup(e->e_root, "f");
	ext4_getattr(file, &st);
	iput(file);
	ck_assert_int_eq(st.st_atim.tv_sec, st.st_mtim.tv_sec);
	ck_assert_int_eq(st.st_ctim.tv_sec, st.st_mtim.tv_sec);
	return st.st_mtim;
}

START_TEST(times_are_kept_and_clamped)
{
	struct timespec t;
	struct env e;

	env_open(&e, "-b 1024 -I 256", 8 * MIB);
	ck_assert_int_eq(env_touch(e.e_root, "f"), 0);
	t = round_trip(&e, 1234567890, 987654321);
	ck_assert_int_eq(t.tv_sec, 1234567890);
	ck_assert_int_eq(t.tv_nsec, 987654321);
	ck_assert_int_eq(round_trip(&e, -1, 5).tv_sec, -1);
	ck_assert_int_eq(round_trip(&e, INT32_MIN, 5).tv_sec, INT32_MIN);
	ck_assert_int_eq(round_trip(&e, INT64_C(-3000000000), 5).tv_sec, INT32_MIN);
	ck_assert_int_eq(round_trip(&e, INT64_C(4000000000), 5).tv_sec, INT64_C(4000000000));
	ck_assert_int_eq(round_trip(&e, INT64_C(15032385535), 0).tv_sec, INT64_C(15032385535));
	ck_assert_int_eq(round_trip(&e, INT64_C(20000000000), 0).tv_sec, INT64_C(15032385535));
	env_close(&e);

	env_open(&e, "-b 1024 -I 128", 8 * MIB);
	ck_assert_int_eq(env_touch(e.e_root, "f"), 0);
	t = round_trip(&e, 1234567890, 987654321);
	ck_assert_int_eq(t.tv_sec, 1234567890);
	ck_assert_int_eq(t.tv_nsec, 0);
	ck_assert_int_eq(round_trip(&e, INT64_C(4000000000), 0).tv_sec, INT32_MAX);
	env_close(&e);
}
END_TEST

START_TEST(owners_change_and_take_suid_along)
{
	struct ns_attr attr = {.na_valid = NS_SET_UID | NS_SET_GID, .na_uid = 100000, .na_gid = 7};
	struct inode *file, *dir;
	struct stat st;
	struct env e;

	env_open(&e, "-b 1024", 8 * MIB);
	ck_assert_int_eq(env_create(e.e_root, "f", S_IFREG | 06711, &file), 0);
	dir = env_mkdir(e.e_root, "d");
	ck_assert_int_eq(ext4_setxattr(file, "security.capability", "c", 1, 0, &env_root), 0);
	ck_assert_int_eq(ext4_setattr(file, &attr, &env_root), 0);
	ext4_getattr(file, &st);
	ck_assert_uint_eq(st.st_mode, S_IFREG | 0711);
	ck_assert_uint_eq(st.st_uid, 100000);
	ck_assert_uint_eq(st.st_gid, 7);
	ck_assert_int_eq(ext4_getxattr(file, "security.capability", NULL, 0), -ENODATA);
	/* setgid without group execute is no privilege. */
	attr.na_valid = NS_SET_MODE;
	attr.na_mode = 02644;
	ck_assert_int_eq(ext4_setattr(file, &attr, &env_root), 0);
	attr.na_valid = NS_SET_GID;
	ck_assert_int_eq(ext4_setattr(file, &attr, &env_root), 0);
	ck_assert_uint_eq(file->i_mode, S_IFREG | 02644);
	/* Directories keep their bits. */
	attr.na_valid = NS_SET_MODE;
	attr.na_mode = 02775;
	ck_assert_int_eq(ext4_setattr(dir, &attr, &env_root), 0);
	attr.na_valid = NS_SET_UID;
	ck_assert_int_eq(ext4_setattr(dir, &attr, &env_root), 0);
	ck_assert_uint_eq(dir->i_mode, S_IFDIR | 02775);
	iput(file);
	iput(dir);
	env_remount(&e);
	file = env_lookup(e.e_root, "f");
	ck_assert_uint_eq(file->i_uid, 100000);
	iput(file);
	env_close(&e);
}
END_TEST

START_TEST(setgid_directories_give_their_group)
{
	struct ns_attr attr = {
		.na_valid = NS_SET_MODE | NS_SET_GID, .na_mode = 02775, .na_gid = 55};
	struct ns_cred user = {.nc_uid = 1000, .nc_gid = 1000};
	struct ns_new n = {
		.nn_name = "f", .nn_len = 1, .nn_mode = S_IFREG | 02755, .nn_cred = &user};
	struct inode *dir, *file, *sub;
	struct env e;

	env_open(&e, "-b 1024", 8 * MIB);
	dir = env_mkdir(e.e_root, "d");
	ck_assert_int_eq(ext4_setattr(dir, &attr, &env_root), 0);
	ck_assert_int_eq(ext4_create(dir, &n, &file), 0);
	ck_assert_uint_eq(file->i_gid, 55);
	ck_assert_uint_eq(file->i_uid, 1000);
	/* Not a member of the group, no CAP_FSETID: no setgid program of that group. */
	ck_assert_uint_eq(file->i_mode, S_IFREG | 0755);
	n.nn_name = "s";
	n.nn_mode = 0755;
	ck_assert_int_eq(ext4_mkdir(dir, &n, &sub), 0);
	ck_assert_uint_eq(sub->i_gid, 55);
	ck_assert_uint_eq(sub->i_mode, S_IFDIR | 02755);
	iput(sub);
	iput(file);
	iput(dir);
	env_close(&e);
}
END_TEST

START_TEST(sizes_change_only_where_there_is_one)
{
	struct ns_attr attr = {.na_valid = NS_SET_SIZE, .na_size = 12345};
	struct inode *file, *fifo;
	struct stat st;
	struct env e;

	env_open(&e, "-b 1024", 8 * MIB);
	ck_assert_int_eq(env_create(e.e_root, "f", S_IFREG | 06755, &file), 0);
	ck_assert_int_eq(env_create(e.e_root, "p", S_IFIFO | 0644, &fifo), 0);
	ck_assert_int_eq(set_times(file, 1000, 0), 0);
	ck_assert_int_eq(ext4_setattr(file, &attr, &env_root), 0);
	ext4_getattr(file, &st);
	ck_assert_int_eq(st.st_size, 12345);
	ck_assert_int_gt(st.st_mtim.tv_sec, 1000);
	ck_assert_uint_eq(st.st_mode, S_IFREG | 06755);
	attr.na_valid |= NS_KILL_SUIDGID;
	attr.na_size = 0;
	ck_assert_int_eq(ext4_setattr(file, &attr, &env_root), 0);
	ck_assert_uint_eq(file->i_mode, S_IFREG | 0755);
	ck_assert((atomic_load(&file->i_state) & I_DA_ALLOC_CLOSE) != 0);
	ck_assert_int_eq(ext4_setattr(fifo, &attr, &env_root), -EINVAL);
	ck_assert_int_eq(ext4_setattr(e.e_root, &attr, &env_root), -EISDIR);
	iput(file);
	iput(fifo);
	env_close(&e);
}
END_TEST

START_TEST(flags_are_set_by_the_rules)
{
	struct ns_cred user = {.nc_uid = 1000};
	struct inode *file, *dir;
	uint32_t flags;
	struct env e;

	env_open(&e, "-b 1024", 8 * MIB);
	ck_assert_int_eq(env_create(e.e_root, "f", S_IFREG | 0644, &file), 0);
	dir = env_mkdir(e.e_root, "d");
	flags = ext4_get_flags(file);
	ck_assert((flags & EXT4_EXTENTS_FL) != 0);
	ck_assert_int_eq(ext4_set_flags(file, flags | EXT2_NOATIME_FL | EXT2_NODUMP_FL, &user), 0);
	ck_assert_uint_eq(ext4_get_flags(file), flags | EXT2_NOATIME_FL | EXT2_NODUMP_FL);
	ck_assert_int_eq(ext4_set_flags(file, flags | EXT2_IMMUTABLE_FL, &user), -EPERM);
	ck_assert_int_eq(ext4_set_flags(file, flags & ~(uint32_t)EXT4_EXTENTS_FL, &env_root),
			 -EOPNOTSUPP);
	ck_assert_int_eq(ext4_set_flags(file, flags | EXT3_JOURNAL_DATA_FL, &env_root),
			 -EOPNOTSUPP);
	ck_assert_int_eq(ext4_set_flags(file, flags | EXT2_DIRSYNC_FL, &env_root), -EOPNOTSUPP);
	ck_assert_int_eq(ext4_set_flags(dir, ext4_get_flags(dir) | EXT2_DIRSYNC_FL, &env_root), 0);
	ck_assert_int_eq(ext4_set_flags(file, flags | EXT2_IMMUTABLE_FL, &env_root), 0);
	ck_assert_int_eq(ext4_set_flags(file, flags | EXT2_IMMUTABLE_FL | EXT2_SYNC_FL, &env_root),
			 -EPERM);
	ck_assert_int_eq(ext4_setxattr(file, "user.x", "y", 1, 0, &env_root), -EPERM);
	ck_assert_int_eq(set_times(file, 1000, 0), -EPERM);
	ck_assert_int_eq(ext4_set_flags(file, flags, &env_root), 0);
	iput(file);
	iput(dir);
	env_remount(&e);
	dir = env_lookup(e.e_root, "d");
	ck_assert((ext4_get_flags(dir) & EXT2_DIRSYNC_FL) != 0);
	iput(dir);
	env_close(&e);
}
END_TEST

START_TEST(the_generation_is_fixed_where_checksums_hang_on_it)
{
	struct inode *file;
	struct env e;

	env_open(&e, "-b 1024", 8 * MIB);
	ck_assert_int_eq(ext4_set_generation(e.e_root, 5), -ENOTTY);
	env_close(&e);
	env_open(&e, "-b 1024 -O ^metadata_csum", 8 * MIB);
	ck_assert_int_eq(env_create(e.e_root, "f", S_IFREG | 0644, &file), 0);
	ck_assert_int_eq(ext4_set_generation(file, 4711), 0);
	iput(file);
	env_remount(&e);
	file = env_lookup(e.e_root, "f");
	ck_assert_uint_eq(file->i_generation, 4711);
	iput(file);
	env_close(&e);
}
END_TEST

START_TEST(small_inodes_get_their_attributes_into_the_space_behind)
{
	struct inode *file;
	struct env e;

	/* Written without extra fields: they appear when the inode is written, unless attributes are in the way. */
	env_make(&e, "-b 1024 -I 256", 8 * MIB, "set_inode_field <11> extra_isize 0");
	env_mount(&e);
	file = env_lookup(e.e_root, "lost+found");
	ck_assert_int_eq(ext4_setxattr(file, "user.x", "y", 1, 0, &env_root), 0);
	iput(file);
	env_remount(&e);
	file = env_lookup(e.e_root, "lost+found");
	ck_assert_int_eq(ext4_getxattr(file, "user.x", NULL, 0), 1);
	iput(file);
	env_close(&e);
}
END_TEST

int main(void)
{
	return RUN_TESTS("namespace/attr", times_are_kept_and_clamped,
			 owners_change_and_take_suid_along, setgid_directories_give_their_group,
			 sizes_change_only_where_there_is_one, flags_are_set_by_the_rules,
			 the_generation_is_fixed_where_checksums_hang_on_it,
			 small_inodes_get_their_attributes_into_the_space_behind);
}
