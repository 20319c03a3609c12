/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * test_acl.c - POSIX ACLs: formats, equivalence with the mode, inheritance, chmod.
 *
 * Invariants: (1) what is read back after a remount is what was set.
 * Locking: none.
 */
#include "tests/unit/namespace/nsenv.h"

#include "namespace/acl.h"

#define ACCESS "system.posix_acl_access"
#define DEFAULT "system.posix_acl_default"

struct ace {
	uint16_t tag, perm;
	uint32_t id;
};

/* The xattr form of a list that ends with tag 0. */
static size_t pack(const struct ace *aces, uint8_t *out)
{
	uint32_t version = cpu_to_le32(2);
	size_t n = 4;

	memcpy(out, &version, 4);
	for (; aces->tag != 0; aces++, n += 8) {
		uint16_t w[2] = {cpu_to_le16(aces->tag), cpu_to_le16(aces->perm)};
		uint32_t id = cpu_to_le32(aces->id);

		memcpy(out + n, w, 4);
		memcpy(out + n + 4, &id, 4);
	}
	return n;
}

static int set_acl(struct inode *inode, const char *name, const struct ace *aces)
{
	uint8_t value[512];

	return ext4_setxattr(inode, name, value, pack(aces, value), 0, &env_root);
}

static void expect_acl(struct inode *inode, const char *name, const struct ace *aces)
{
	uint8_t want[512], got[512];
	size_t n = pack(aces, want);

	ck_assert_int_eq(ext4_getxattr(inode, name, got, sizeof(got)), (ssize_t)n);
	ck_assert_int_eq(memcmp(got, want, n), 0);
}

static const struct ace base[] = {{ACL_USER_OBJ, 6, UINT32_MAX},
				  {ACL_GROUP_OBJ, 4, UINT32_MAX},
				  {ACL_OTHER, 0, UINT32_MAX},
				  {0, 0, 0}};
static const struct ace extended[] = {{ACL_USER_OBJ, 7, UINT32_MAX},
				      {ACL_USER, 5, 1000},
				      {ACL_USER, 4, 1001},
				      {ACL_GROUP_OBJ, 5, UINT32_MAX},
				      {ACL_GROUP, 6, 50},
				      {ACL_MASK, 7, UINT32_MAX},
				      {ACL_OTHER, 1, UINT32_MAX},
				      {0, 0, 0}};

START_TEST(an_acl_survives_and_sets_the_mode)
{
	struct inode *file;
	struct env e;

	env_open(&e, "-b 1024", 8 * MIB);
	ck_assert_int_eq(env_create(e.e_root, "f", S_IFREG | 0600, &file), 0);
	ck_assert_int_eq(ext4_getxattr(file, ACCESS, NULL, 0), -ENODATA);
	ck_assert_int_eq(set_acl(file, ACCESS, extended), 0);
	/* The group bits of the mode are the mask. */
	ck_assert_uint_eq(file->i_mode, S_IFREG | 0771);
	expect_acl(file, ACCESS, extended);
	iput(file);
	env_remount(&e);
	file = env_lookup(e.e_root, "f");
	ck_assert_uint_eq(file->i_mode, S_IFREG | 0771);
	expect_acl(file, ACCESS, extended);
	ck_assert_int_eq(ext4_listxattr(file, NULL, 0, false), sizeof(ACCESS));
	/* One that the mode can say is not stored. */
	ck_assert_int_eq(set_acl(file, ACCESS, base), 0);
	ck_assert_uint_eq(file->i_mode, S_IFREG | 0640);
	ck_assert_int_eq(ext4_getxattr(file, ACCESS, NULL, 0), -ENODATA);
	ck_assert_int_eq(ext4_removexattr(file, ACCESS), 0);
	iput(file);
	env_close(&e);
}
END_TEST

START_TEST(bad_acls_are_refused)
{
	static const struct ace no_mask[] = {{ACL_USER_OBJ, 7, 0},
					     {ACL_USER, 5, 1000},
					     {ACL_GROUP_OBJ, 5, 0},
					     {ACL_OTHER, 1, 0},
					     {0, 0, 0}};
	static const struct ace no_other[] = {
		{ACL_USER_OBJ, 7, 0}, {ACL_GROUP_OBJ, 5, 0}, {0, 0, 0}};
	static const struct ace order[] = {
		{ACL_GROUP_OBJ, 5, 0}, {ACL_USER_OBJ, 7, 0}, {ACL_OTHER, 1, 0}, {0, 0, 0}};
	static const struct ace twice[] = {{ACL_USER_OBJ, 7, 0},
					   {ACL_USER_OBJ, 7, 0},
					   {ACL_GROUP_OBJ, 5, 0},
					   {ACL_OTHER, 1, 0},
					   {0, 0, 0}};
	static const struct ace bits[] = {
		{ACL_USER_OBJ, 8, 0}, {ACL_GROUP_OBJ, 5, 0}, {ACL_OTHER, 1, 0}, {0, 0, 0}};
	static const struct ace tag[] = {
		{ACL_USER_OBJ, 7, 0}, {3, 5, 0}, {ACL_OTHER, 1, 0}, {0, 0, 0}};
	uint8_t value[64];
	struct inode *file;
	struct env e;

	env_open(&e, "-b 1024", 8 * MIB);
	ck_assert_int_eq(env_create(e.e_root, "f", S_IFREG | 0600, &file), 0);
	ck_assert_int_eq(set_acl(file, ACCESS, no_mask), -EINVAL);
	ck_assert_int_eq(set_acl(file, ACCESS, no_other), -EINVAL);
	ck_assert_int_eq(set_acl(file, ACCESS, order), -EINVAL);
	ck_assert_int_eq(set_acl(file, ACCESS, twice), -EINVAL);
	ck_assert_int_eq(set_acl(file, ACCESS, bits), -EINVAL);
	ck_assert_int_eq(set_acl(file, ACCESS, tag), -EINVAL);
	ck_assert_int_eq(set_acl(file, DEFAULT, extended), -EACCES);
	pack(base, value);
	ck_assert_int_eq(ext4_setxattr(file, ACCESS, value, 27, 0, &env_root), -EINVAL);
	value[0] = 9;
	ck_assert_int_eq(ext4_setxattr(file, ACCESS, value, 28, 0, &env_root), -EOPNOTSUPP);
	ck_assert_uint_eq(file->i_mode, S_IFREG | 0600);
	iput(file);
	e.e_opts.o_acl = false;
	env_remount(&e);
	file = env_lookup(e.e_root, "f");
	ck_assert_int_eq(set_acl(file, ACCESS, extended), -EOPNOTSUPP);
	iput(file);
	env_close(&e);
}
END_TEST

START_TEST(children_inherit_the_default_acl)
{
	/* A file made with 0640: the mask shrinks to the group bits of the mode. */
	static const struct ace file_acl[] = {{ACL_USER_OBJ, 6, UINT32_MAX},
					      {ACL_USER, 5, 1000},
					      {ACL_USER, 4, 1001},
					      {ACL_GROUP_OBJ, 5, UINT32_MAX},
					      {ACL_GROUP, 6, 50},
					      {ACL_MASK, 4, UINT32_MAX},
					      {ACL_OTHER, 0, UINT32_MAX},
					      {0, 0, 0}};
	static const struct ace sub_acl[] = {{ACL_USER_OBJ, 7, UINT32_MAX},
					     {ACL_USER, 5, 1000},
					     {ACL_USER, 4, 1001},
					     {ACL_GROUP_OBJ, 5, UINT32_MAX},
					     {ACL_GROUP, 6, 50},
					     {ACL_MASK, 5, UINT32_MAX},
					     {ACL_OTHER, 1, UINT32_MAX},
					     {0, 0, 0}};
	struct ns_cred cred = env_root;
	struct ns_new n = {
		.nn_name = "f", .nn_len = 1, .nn_mode = S_IFREG | 0640, .nn_cred = &cred};
	struct inode *dir, *file, *sub;
	struct env e;

	env_open(&e, "-b 1024", 8 * MIB);
	dir = env_mkdir(e.e_root, "d");
	ck_assert_int_eq(set_acl(dir, DEFAULT, extended), 0);
	/* With a default ACL the umask does not count. */
	cred.nc_umask = 0777;
	ck_assert_int_eq(ext4_create(dir, &n, &file), 0);
	ck_assert_uint_eq(file->i_mode, S_IFREG | 0640);
	expect_acl(file, ACCESS, file_acl);
	sub = env_mkdir(dir, "sub");
	ck_assert_uint_eq(sub->i_mode & 0777, 0751);
	expect_acl(sub, ACCESS, sub_acl);
	expect_acl(sub, DEFAULT, extended);
	ck_assert_int_eq(env_symlink(dir, "l", "x"), 0);
	iput(file);
	iput(sub);
	iput(dir);
	env_remount(&e);
	dir = env_lookup(e.e_root, "d");
	file = env_lookup(dir, "f");
	sub = env_lookup(dir, "sub");
	expect_acl(file, ACCESS, file_acl);
	ck_assert_int_eq(ext4_getxattr(file, DEFAULT, NULL, 0), -ENODATA);
	expect_acl(sub, DEFAULT, extended);
	iput(file);
	/* Without one it does. */
	ck_assert_int_eq(ext4_removexattr(dir, DEFAULT), 0);
	cred.nc_umask = 022;
	n.nn_name = "g";
	n.nn_mode = S_IFREG | 0666;
	ck_assert_int_eq(ext4_create(dir, &n, &file), 0);
	ck_assert_uint_eq(file->i_mode, S_IFREG | 0644);
	ck_assert_int_eq(ext4_getxattr(file, ACCESS, NULL, 0), -ENODATA);
	iput(file);
	iput(sub);
	iput(dir);
	env_close(&e);
}
END_TEST

START_TEST(chmod_changes_the_mask)
{
	static const struct ace after[] = {{ACL_USER_OBJ, 6, UINT32_MAX},
					   {ACL_USER, 5, 1000},
					   {ACL_USER, 4, 1001},
					   {ACL_GROUP_OBJ, 5, UINT32_MAX},
					   {ACL_GROUP, 6, 50},
					   {ACL_MASK, 2, UINT32_MAX},
					   {ACL_OTHER, 4, UINT32_MAX},
					   {0, 0, 0}};
	struct ns_attr attr = {.na_valid = NS_SET_MODE, .na_mode = 0624};
	struct inode *file;
	struct env e;

	env_open(&e, "-b 1024 -I 128", 8 * MIB);
	ck_assert_int_eq(env_create(e.e_root, "f", S_IFREG | 0600, &file), 0);
	ck_assert_int_eq(set_acl(file, ACCESS, extended), 0);
	ck_assert_int_eq(ext4_setattr(file, &attr, &env_root), 0);
	ck_assert_uint_eq(file->i_mode, S_IFREG | 0624);
	iput(file);
	env_remount(&e);
	file = env_lookup(e.e_root, "f");
	expect_acl(file, ACCESS, after);
	iput(file);
	env_close(&e);
}
END_TEST

START_TEST(setting_an_acl_can_take_setgid_away)
{
	struct ns_cred cred = env_root;
	uint8_t value[512];
	struct inode *file;
	struct env e;

	env_open(&e, "-b 1024", 8 * MIB);
	ck_assert_int_eq(env_create(e.e_root, "f", S_IFREG | 02755, &file), 0);
	ck_assert_int_eq(set_acl(file, ACCESS, extended), 0);
	ck_assert_uint_eq(file->i_mode, S_IFREG | 02771);
	cred.nc_fsetid = false;
	ck_assert_int_eq(ext4_setxattr(file, ACCESS, value, pack(extended, value), 0, &cred), 0);
	ck_assert_uint_eq(file->i_mode, S_IFREG | 0771);
	iput(file);
	ck_assert_int_eq(env_create(e.e_root, "d", S_IFDIR | 02755, &file), 0);
	ck_assert_int_eq(ext4_setxattr(file, ACCESS, value, pack(extended, value), 0, &cred), 0);
	ck_assert_uint_eq(file->i_mode, S_IFDIR | 0771);
	iput(file);
	env_close(&e);
}
END_TEST

int main(void)
{
	return RUN_TESTS("namespace/acl", an_acl_survives_and_sets_the_mode, bad_acls_are_refused,
			 children_inherit_the_default_acl, chmod_changes_the_mask,
			 setting_an_acl_can_take_setgid_away);
}
