/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * test_xattr.c - extended attributes against a model: in the inode, in a block, from one to the other.
 *
 * Invariants: (1) after each change of the model test every name is read and listed and compared. (2) e2fsck checks
 * hashes, order and checksums at the end.
 * Locking: none.
 */
#include "tests/unit/namespace/nsenv.h"

#include "alloc/alloc.h"

#define NAMES 12u

struct attr {
	char a_name[80];
	uint8_t a_value[4096];
	size_t a_bytes;
	bool a_there;
};

static void compare(struct inode *inode, const struct attr *model)
{
	static uint8_t value[4096];
	char list[NAMES * 80];
	size_t want = 0;
	ssize_t n;

	for (unsigned i = 0; i < NAMES; i++) {
		const struct attr *a = &model[i];

		n = ext4_getxattr(inode, a->a_name, value, sizeof(value));
		if (!a->a_there) {
			ck_assert_int_eq(n, -ENODATA);
			continue;
		}
		ck_assert_int_eq(n, (ssize_t)a->a_bytes);
		ck_assert_int_eq(memcmp(value, a->a_value, a->a_bytes), 0);
		ck_assert_int_eq(ext4_getxattr(inode, a->a_name, NULL, 0), n);
		want += strlen(a->a_name) + 1;
	}
	ck_assert_int_eq(ext4_listxattr(inode, NULL, 0, true), (ssize_t)want);
	n = ext4_listxattr(inode, list, sizeof(list), true);
	ck_assert_int_eq(n, (ssize_t)want);
	for (ssize_t at = 0; at < n; at += (ssize_t)strlen(list + at) + 1) {
		unsigned hits = 0;

		for (unsigned i = 0; i < NAMES; i++)
			hits += model[i].a_there && strcmp(model[i].a_name, list + at) == 0;
		ck_assert_uint_eq(hits, 1);
	}
}

static void step(struct inode *inode, struct attr *model, struct prng *rng, size_t max_value)
{
	struct attr *a = &model[prng_below(rng, NAMES)];
	static uint8_t value[4096];
	size_t bytes = prng_chance(rng, 1, 4) ? prng_below(rng, max_value) : prng_below(rng, 40);
	int flags = prng_chance(rng, 1, 5)   ? XATTR_CREATE
		    : prng_chance(rng, 1, 5) ? XATTR_REPLACE
					     : 0;
	int err;

	if (prng_chance(rng, 1, 3)) {
		err = ext4_removexattr(inode, a->a_name);
		ck_assert_int_eq(err, a->a_there ? 0 : -ENODATA);
		a->a_there = false;
		return;
	}
	for (size_t i = 0; i < bytes; i++)
		value[i] = (uint8_t)prng_next(rng);
	err = ext4_setxattr(inode, a->a_name, value, bytes, flags, &env_root);
	if (flags == XATTR_CREATE && a->a_there) {
		ck_assert_int_eq(err, -EEXIST);
	} else if (flags == XATTR_REPLACE && !a->a_there) {
		ck_assert_int_eq(err, -ENODATA);
	} else if (err != -ENOSPC) {
		ck_assert_int_eq(err, 0);
		memcpy(a->a_value, value, bytes);
		a->a_bytes = bytes;
		a->a_there = true;
	}
}

static void run_model(const char *mke2fs_args, size_t max_value, unsigned steps)
{
	static const char *const prefixes[] = {"user.", "trusted.", "security."};
	struct attr *model = calloc(NAMES, sizeof(*model));
	struct inode *file;
	struct prng rng;
	struct env e;

	prng_seed(&rng, prng_seed_from_env(steps + max_value));
	env_open(&e, mke2fs_args, 8 * MIB);
	ck_assert_int_eq(env_create(e.e_root, "f", S_IFREG | 0644, &file), 0);
	for (unsigned i = 0; i < NAMES; i++)
		snprintf(model[i].a_name, sizeof(model[i].a_name), "%s%.*s%u", prefixes[i % 3],
			 (int)(i * 3), "abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz", i);
	for (unsigned i = 0; i < steps; i++) {
		step(file, model, &rng, max_value);
		compare(file, model);
		if (i % 64 == 63) {
			iput(file);
			env_remount(&e);
			file = env_lookup(e.e_root, "f");
			compare(file, model);
		}
	}
	iput(file);
	env_umount(&e);
	env_fsck(&e);
	env_mount(&e);
	ck_assert_int_eq(env_unlink(e.e_root, "f"), 0);
	free(model);
	env_close(&e);
}

START_TEST(attributes_behave_as_the_model_says)
{
	run_model("-b 1024 -I 256", 300, 400);
	run_model("-b 4096 -I 256", 1500, 300);
	run_model("-b 1024 -I 128", 300, 300);
	run_model("-b 1024 -I 1024", 700, 300);
	run_model("-b 4096 -I 512 -O ^metadata_csum", 2000, 200);
	run_model("-b 1024 -O ^has_journal", 300, 200);
}
END_TEST

START_TEST(names_and_flags_are_judged_as_in_the_kernel)
{
	struct inode *file, *fifo;
	char name[300];
	char value[8];
	struct env e;

	env_open(&e, "-b 1024", 8 * MIB);
	ck_assert_int_eq(env_create(e.e_root, "f", S_IFREG | 0644, &file), 0);
	ck_assert_int_eq(env_create(e.e_root, "p", S_IFIFO | 0644, &fifo), 0);
	ck_assert_int_eq(ext4_setxattr(file, "user.a", "1", 1, XATTR_REPLACE, &env_root), -ENODATA);
	ck_assert_int_eq(ext4_setxattr(file, "user.a", "1", 1, XATTR_CREATE, &env_root), 0);
	ck_assert_int_eq(ext4_setxattr(file, "user.a", "1", 1, XATTR_CREATE, &env_root), -EEXIST);
	ck_assert_int_eq(ext4_setxattr(file, "user.a", "22", 2, XATTR_REPLACE, &env_root), 0);
	ck_assert_int_eq(ext4_getxattr(file, "user.a", value, 1), -ERANGE);
	ck_assert_int_eq(ext4_getxattr(file, "user.a", value, 2), 2);
	ck_assert_int_eq(ext4_removexattr(file, "user.b"), -ENODATA);
	ck_assert_int_eq(ext4_setxattr(file, "bogus.a", "1", 1, 0, &env_root), -EOPNOTSUPP);
	ck_assert_int_eq(ext4_getxattr(file, "system.other", value, 8), -EOPNOTSUPP);
	ck_assert_int_eq(ext4_setxattr(file, "user.", "1", 1, 0, &env_root), -EINVAL);
	ck_assert_int_eq(ext4_setxattr(fifo, "user.a", "1", 1, 0, &env_root), -EOPNOTSUPP);
	ck_assert_int_eq(ext4_setxattr(fifo, "trusted.a", "1", 1, 0, &env_root), 0);
	memset(name, 'n', sizeof(name));
	memcpy(name, "user.", 5);
	name[5 + 256] = '\0';
	ck_assert_int_eq(ext4_setxattr(file, name, "1", 1, 0, &env_root), -ERANGE);
	name[5 + 255] = '\0';
	ck_assert_int_eq(ext4_setxattr(file, name, "1", 1, 0, &env_root), 0);
	/* trusted.* is for the privileged only. */
	ck_assert_int_eq(ext4_setxattr(file, "trusted.t", "1", 1, 0, &env_root), 0);
	ck_assert_int_eq(ext4_listxattr(file, NULL, 0, true) - ext4_listxattr(file, NULL, 0, false),
			 10);
	iput(file);
	iput(fifo);
	env_close(&e);
}
END_TEST

START_TEST(what_does_not_fit_leaves_everything_as_it_was)
{
	static uint8_t value[65537];
	struct inode *file;
	struct ext4_space sp;
	uint64_t before;
	struct env e;

	env_open(&e, "-b 1024 -I 128", 8 * MIB);
	ck_assert_int_eq(env_create(e.e_root, "f", S_IFREG | 0644, &file), 0);
	jbd2_journal_force_commit(e.e_sb->s_journal);
	ext4_space(e.e_sb, &sp);
	before = sp.sp_free;
	ck_assert_int_eq(ext4_setxattr(file, "user.a", value, 65537, 0, &env_root), -E2BIG);
	ck_assert_int_eq(ext4_setxattr(file, "user.a", value, 5000, 0, &env_root), -ENOSPC);
	ck_assert_int_eq(ext4_setxattr(file, "user.a", value, 960, 0, &env_root), 0);
	ck_assert_int_eq(ext4_setxattr(file, "user.b", value, 100, 0, &env_root), -ENOSPC);
	ck_assert_int_eq(ext4_getxattr(file, "user.a", NULL, 0), 960);
	ck_assert_int_eq(ext4_getxattr(file, "user.b", NULL, 0), -ENODATA);
	ck_assert_uint_eq(atomic_load(&file->i_blocks), 2);
	/* The block goes with its last attribute. */
	ck_assert_int_eq(ext4_removexattr(file, "user.a"), 0);
	ck_assert_uint_eq(atomic_load(&file->i_blocks), 0);
	jbd2_journal_force_commit(e.e_sb->s_journal);
	ext4_space(e.e_sb, &sp);
	ck_assert_uint_eq(sp.sp_free, before);
	iput(file);
	env_close(&e);
}
END_TEST

/* Give both files the block of the first, as an implementation that shares would. */
static void share_block(struct env *e, struct inode *a, struct inode *b)
{
	handle_t *handle = ext4_journal_start(a, HT_XATTR, 10);
	struct buffer_head *bh = bh_read(e->e_sb->s_bcache, a->i_file_acl);
	uint32_t two = cpu_to_le32(2);

	ck_assert(!IS_ERR(handle));
	ck_assert_int_eq(ext4_journal_get_write_access(handle, bh), 0);
	lock_buffer(bh);
	memcpy(bh->b_data + 4, &two, sizeof(two));
	ext4_xattr_block_csum_set(a, a->i_file_acl, bh->b_data);
	unlock_buffer(bh);
	ck_assert_int_eq(ext4_handle_dirty_metadata(handle, a, bh), 0);
	bh_put(bh);
	b->i_file_acl = a->i_file_acl;
	ext4_inode_add_blocks(b, 1);
	ck_assert_int_eq(ext4_journal_stop(handle, ext4_mark_inode_dirty(handle, b)), 0);
}

START_TEST(a_shared_block_is_copied_before_it_changes)
{
	static uint8_t value[200], back[200];
	struct inode *a, *b;
	struct env e;

	env_open(&e, "-b 1024 -I 128", 8 * MIB);
	ck_assert_int_eq(env_create(e.e_root, "a", S_IFREG | 0644, &a), 0);
	ck_assert_int_eq(env_create(e.e_root, "b", S_IFREG | 0644, &b), 0);
	memset(value, 7, sizeof(value));
	ck_assert_int_eq(ext4_setxattr(a, "user.s", value, 200, 0, &env_root), 0);
	share_block(&e, a, b);
	iput(a);
	iput(b);
	env_umount(&e);
	env_fsck(&e);
	env_mount(&e);
	a = env_lookup(e.e_root, "a");
	b = env_lookup(e.e_root, "b");
	value[0] = 8;
	ck_assert_int_eq(ext4_setxattr(b, "user.s", value, 200, 0, &env_root), 0);
	ck_assert_uint_ne(a->i_file_acl, b->i_file_acl);
	ck_assert_int_eq(ext4_getxattr(a, "user.s", back, 200), 200);
	ck_assert_uint_eq(back[0], 7);
	ck_assert_int_eq(ext4_getxattr(b, "user.s", back, 200), 200);
	ck_assert_uint_eq(back[0], 8);
	/* And a shared one is not freed with the first of two files. */
	share_block(&e, a, b);
	iput(a);
	iput(b);
	ck_assert_int_eq(env_unlink(e.e_root, "a"), 0);
	ext4_drain_evictions(e.e_sb);
	b = env_lookup(e.e_root, "b");
	ck_assert_int_eq(ext4_getxattr(b, "user.s", back, 200), 200);
	ck_assert_uint_eq(back[0], 7);
	iput(b);
	env_umount(&e);
	free(e.e_image);
}
END_TEST

START_TEST(capabilities_go_with_a_write)
{
	struct inode *file;
	struct env e;

	env_open(&e, "-b 1024", 8 * MIB);
	ck_assert_int_eq(env_create(e.e_root, "f", S_IFREG | 06775, &file), 0);
	down_write(&file->i_rwsem);
	ck_assert_int_eq(ext4_file_remove_privs(file, false), 0);
	up_write(&file->i_rwsem);
	ck_assert_uint_eq(file->i_mode, S_IFREG | 06775);
	ck_assert_int_eq(ext4_setxattr(file, "security.capability", "cap", 3, 0, &env_root), 0);
	ck_assert_int_eq(ext4_setxattr(file, "user.stays", "x", 1, 0, &env_root), 0);
	down_write(&file->i_rwsem);
	ck_assert_int_eq(ext4_file_remove_privs(file, false), 0);
	up_write(&file->i_rwsem);
	ck_assert_int_eq(ext4_getxattr(file, "security.capability", NULL, 0), -ENODATA);
	ck_assert_int_eq(ext4_getxattr(file, "user.stays", NULL, 0), 1);
	ck_assert_uint_eq(file->i_mode, S_IFREG | 06775);
	iput(file);
	env_remount(&e);
	file = env_lookup(e.e_root, "f");
	ck_assert_int_eq(ext4_setxattr(file, "security.capability", "cap", 3, 0, &env_root), 0);
	down_write(&file->i_rwsem);
	ck_assert_int_eq(ext4_file_remove_privs(file, true), 0);
	up_write(&file->i_rwsem);
	ck_assert_int_eq(ext4_getxattr(file, "security.capability", NULL, 0), -ENODATA);
	ck_assert_uint_eq(file->i_mode, S_IFREG | 0775);
	iput(file);
	env_close(&e);
}
END_TEST

int main(void)
{
	return RUN_TESTS("namespace/xattr", attributes_behave_as_the_model_says,
			 names_and_flags_are_judged_as_in_the_kernel,
			 what_does_not_fit_leaves_everything_as_it_was,
			 a_shared_block_is_copied_before_it_changes, capabilities_go_with_a_write);
}
