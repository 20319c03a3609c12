/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * test_rename.c - names that move, replace, and change places.
 *
 * Invariants: (1) each test ends with a clean e2fsck, which counts links and knows every "..".
 * Locking: none, but for the test with threads.
 */
#include "tests/unit/namespace/nsenv.h"

#include <pthread.h>

/*
 * The order of two directories is that of the tree, which renames change; ThreadSanitizer takes two orders at two times
 * for a deadlock. The ranks of util/lock.h are checked all the same.
 */
const char *__tsan_default_options(void);
const char *__tsan_default_options(void)
{
	return "detect_deadlocks=0";
}

static uint32_t ino_of(struct inode *dir, const char *name)
{
	struct inode *inode = env_lookup(dir, name);
	uint32_t ino = inode->i_ino;

	iput(inode);
	return ino;
}

START_TEST(a_file_moves_within_and_between_directories)
{
	struct inode *a, *b;
	uint32_t ino;
	struct env e;

	env_open(&e, "-b 1024", 8 * MIB);
	a = env_mkdir(e.e_root, "a");
	b = env_mkdir(a, "b");
	ck_assert_int_eq(env_touch(a, "f"), 0);
	ino = ino_of(a, "f");
	ck_assert_int_eq(env_rename(a, "f", a, "g", 0), 0);
	ck_assert_int_eq(env_find(a, "f"), -ENOENT);
	ck_assert_uint_eq(ino_of(a, "g"), ino);
	ck_assert_int_eq(env_rename(a, "g", b, "h", 0), 0);
	ck_assert_int_eq(env_find(a, "g"), -ENOENT);
	ck_assert_uint_eq(ino_of(b, "h"), ino);
	ck_assert_int_eq(env_rename(b, "h", e.e_root, "top", 0), 0);
	ck_assert_uint_eq(ino_of(e.e_root, "top"), ino);
	ck_assert_int_eq(env_rename(b, "h", e.e_root, "x", 0), -ENOENT);
	iput(a);
	iput(b);
	env_close(&e);
}
END_TEST

START_TEST(replacing_frees_the_old_inode)
{
	struct inode *a, *old;
	struct env e;

	env_open(&e, "-b 1024", 8 * MIB);
	a = env_mkdir(e.e_root, "a");
	ck_assert_int_eq(env_touch(a, "f"), 0);
	ck_assert_int_eq(env_create(e.e_root, "g", S_IFREG | 0644, &old), 0);
	ck_assert_int_eq(env_rename(a, "f", e.e_root, "g", RENAME_NOREPLACE), -EEXIST);
	ck_assert_int_eq(env_rename(a, "f", e.e_root, "g", 0), 0);
	ck_assert_uint_eq(env_nlink(old), 0);
	ck_assert(old->i_on_orphan);
	iput(old);
	/* The same inode under two names: nothing happens. */
	old = env_lookup(e.e_root, "g");
	ck_assert_int_eq(ext4_link(old, a, "l", 1), 0);
	ck_assert_int_eq(env_rename(a, "l", e.e_root, "g", 0), 0);
	ck_assert_int_eq(env_find(a, "l"), 0);
	ck_assert_uint_eq(env_nlink(old), 2);
	iput(old);
	iput(a);
	env_close(&e);
}
END_TEST

static void check_whiteout(struct inode *dir, const char *name)
{
	struct inode *inode = env_lookup(dir, name);

	ck_assert_uint_eq(inode->i_mode, S_IFCHR);
	ck_assert_uint_eq(inode->i_rdev, 0);
	ck_assert_uint_eq(env_nlink(inode), 1);
	iput(inode);
}

START_TEST(a_whiteout_stays_behind)
{
	struct inode *a, *dir;
	uint32_t ino;
	struct env e;

	env_open(&e, "-b 1024", 8 * MIB);
	a = env_mkdir(e.e_root, "a");
	ck_assert_int_eq(env_touch(a, "f"), 0);
	ck_assert_int_eq(env_touch(e.e_root, "victim"), 0);
	ino = ino_of(a, "f");
	ck_assert_int_eq(env_rename(a, "f", a, "g", RENAME_WHITEOUT), 0);
	check_whiteout(a, "f");
	ck_assert_uint_eq(ino_of(a, "g"), ino);
	ck_assert_int_eq(env_rename(a, "g", e.e_root, "victim", RENAME_WHITEOUT | RENAME_NOREPLACE),
			 -EEXIST);
	ck_assert_int_eq(env_rename(a, "g", e.e_root, "victim", RENAME_WHITEOUT), 0);
	check_whiteout(a, "g");
	ck_assert_uint_eq(ino_of(e.e_root, "victim"), ino);
	dir = env_mkdir(a, "d");
	ck_assert_int_eq(env_rename(a, "d", e.e_root, "d", RENAME_WHITEOUT), 0);
	check_whiteout(a, "d");
	ck_assert_uint_eq(env_nlink(a), 2);
	iput(dir);
	/* Whiteouts are files like others. */
	ck_assert_int_eq(ext4_unlink(a, "f", 1), 0);
	ck_assert_int_eq(env_rename(a, "g", a, "d", 0), 0);
	iput(a);
	env_close(&e);
}
END_TEST

START_TEST(a_directory_takes_its_dotdot_along)
{
	struct inode *a, *b, *c, *up;
	struct env e;

	env_open(&e, "-b 1024", 8 * MIB);
	a = env_mkdir(e.e_root, "a");
	b = env_mkdir(e.e_root, "b");
	c = env_mkdir(a, "c");
	ck_assert_uint_eq(env_nlink(a), 3);
	ck_assert_int_eq(env_rename(a, "c", b, "moved", 0), 0);
	ck_assert_uint_eq(env_nlink(a), 2);
	ck_assert_uint_eq(env_nlink(b), 3);
	up = env_lookup(c, "..");
	ck_assert_ptr_eq(up, b);
	iput(up);
	iput(c);
	iput(b);
	iput(a);
	env_close(&e);
}
END_TEST

/* The ".." of an indexed directory is in its root, whose checksum is another. */
START_TEST(an_indexed_directory_moves_too)
{
	struct inode *a, *big, *up;
	char name[64];
	struct env e;

	env_open(&e, "-b 1024", 8 * MIB);
	a = env_mkdir(e.e_root, "a");
	big = env_mkdir(e.e_root, "big");
	for (unsigned i = 0; i < 200; i++) {
		snprintf(name, sizeof(name), "some-longer-name-%u", i);
		ck_assert_int_eq(env_touch(big, name), 0);
	}
	ck_assert(ext4_dir_indexed(big));
	ck_assert_int_eq(env_rename(e.e_root, "big", a, "big", 0), 0);
	iput(big);
	iput(a);
	env_remount(&e);
	a = env_lookup(e.e_root, "a");
	big = env_lookup(a, "big");
	up = env_lookup(big, "..");
	ck_assert_ptr_eq(up, a);
	ck_assert_int_eq(env_find(big, "some-longer-name-77"), 0);
	iput(up);
	iput(big);
	iput(a);
	env_close(&e);
}
END_TEST

START_TEST(directories_replace_only_empty_directories)
{
	struct inode *a, *b, *victim;
	struct env e;

	env_open(&e, "-b 1024", 8 * MIB);
	a = env_mkdir(e.e_root, "a");
	b = env_mkdir(e.e_root, "b");
	victim = env_mkdir(b, "v");
	ck_assert_int_eq(env_touch(victim, "f"), 0);
	ck_assert_int_eq(env_touch(e.e_root, "file"), 0);
	ck_assert_int_eq(env_rename(e.e_root, "a", b, "v", 0), -ENOTEMPTY);
	ck_assert_int_eq(env_rename(e.e_root, "file", b, "v", 0), -EISDIR);
	ck_assert_int_eq(env_rename(e.e_root, "a", e.e_root, "file", 0), -ENOTDIR);
	ck_assert_int_eq(env_unlink(victim, "f"), 0);
	ck_assert_int_eq(env_rename(e.e_root, "a", b, "v", 0), 0);
	ck_assert_uint_eq(env_nlink(victim), 0);
	ck_assert_uint_eq(env_nlink(b), 3);
	ck_assert_int_eq(env_find(victim, "x"), -ENOENT);
	iput(victim);
	/* Within one directory: one subdirectory less. */
	victim = env_mkdir(b, "w");
	ck_assert_uint_eq(env_nlink(b), 4);
	ck_assert_int_eq(env_rename(b, "v", b, "w", 0), 0);
	ck_assert_uint_eq(env_nlink(b), 3);
	iput(victim);
	iput(a);
	iput(b);
	env_close(&e);
}
END_TEST

START_TEST(no_directory_moves_below_itself)
{
	struct inode *a, *b, *c;
	struct env e;

	env_open(&e, "-b 1024", 8 * MIB);
	a = env_mkdir(e.e_root, "a");
	b = env_mkdir(a, "b");
	c = env_mkdir(b, "c");
	ck_assert_int_eq(env_rename(e.e_root, "a", a, "x", 0), -EINVAL);
	ck_assert_int_eq(env_rename(e.e_root, "a", c, "x", 0), -EINVAL);
	ck_assert_int_eq(env_rename(c, "none", e.e_root, "a", 0), -ENOENT);
	ck_assert_int_eq(env_touch(c, "f"), 0);
	ck_assert_int_eq(env_rename(c, "f", e.e_root, "a", 0), -ENOTEMPTY);
	ck_assert_int_eq(env_rename(b, "c", e.e_root, "a", RENAME_EXCHANGE), -EINVAL);
	ck_assert_int_eq(env_rename(e.e_root, "a", b, "c", RENAME_EXCHANGE), -EINVAL);
	iput(c);
	iput(b);
	iput(a);
	env_close(&e);
}
END_TEST

START_TEST(two_names_change_places)
{
	struct inode *a, *b, *dir, *up;
	uint32_t file, other;
	struct env e;

	env_open(&e, "-b 1024", 8 * MIB);
	a = env_mkdir(e.e_root, "a");
	b = env_mkdir(e.e_root, "b");
	dir = env_mkdir(a, "dir");
	ck_assert_int_eq(env_touch(b, "file"), 0);
	ck_assert_int_eq(env_touch(b, "other"), 0);
	file = ino_of(b, "file");
	other = ino_of(b, "other");
	ck_assert_int_eq(env_rename(b, "file", b, "other", RENAME_EXCHANGE), 0);
	ck_assert_uint_eq(ino_of(b, "file"), other);
	ck_assert_uint_eq(ino_of(b, "other"), file);
	/* A directory against a file: links and ".." follow. */
	ck_assert_int_eq(env_rename(a, "dir", b, "other", RENAME_EXCHANGE), 0);
	ck_assert_uint_eq(ino_of(a, "dir"), file);
	ck_assert_uint_eq(ino_of(b, "other"), dir->i_ino);
	ck_assert_uint_eq(env_nlink(a), 2);
	ck_assert_uint_eq(env_nlink(b), 3);
	up = env_lookup(dir, "..");
	ck_assert_ptr_eq(up, b);
	iput(up);
	ck_assert_int_eq(env_rename(a, "dir", b, "none", RENAME_EXCHANGE), -ENOENT);
	ck_assert_int_eq(env_rename(a, "dir", b, "x", RENAME_EXCHANGE | RENAME_NOREPLACE), -EINVAL);
	ck_assert_int_eq(env_rename(a, "dir", b, "x", RENAME_EXCHANGE | RENAME_WHITEOUT), -EINVAL);
	ck_assert_int_eq(env_rename(a, "dir", b, "x", 1u << 20), -EINVAL);
	iput(dir);
	iput(a);
	iput(b);
	env_close(&e);
}
END_TEST

/* In a full leaf the new name splits it, and the old entry is somewhere else then. */
START_TEST(a_rename_that_splits_its_own_leaf)
{
	struct inode *dir;
	char old[64], new[256];
	struct env e;

	env_open(&e, "-b 1024", 16 * MIB);
	dir = env_mkdir(e.e_root, "d");
	for (unsigned i = 0; i < 600; i++) {
		snprintf(old, sizeof(old), "f%u", i);
		ck_assert_int_eq(env_touch(dir, old), 0);
	}
	for (unsigned i = 0; i < 600; i++) {
		snprintf(old, sizeof(old), "f%u", i);
		memset(new, 'n', 240);
		snprintf(new + 240, sizeof(new) - 240, "%u", i);
		ck_assert_int_eq(env_rename(dir, old, dir, new, 0), 0);
		ck_assert_int_eq(env_find(dir, old), -ENOENT);
		ck_assert_int_eq(env_find(dir, new), 0);
	}
	iput(dir);
	env_close(&e);
}
END_TEST

/* ---- Threads: renames in all directions against each other and against rmdir and mkdir ---- */

struct mover {
	struct env *m_env;
	struct inode *m_dirs[4];
	unsigned m_seed;
};

/* Files with a second name elsewhere, perhaps below what is just renamed. */
static void link_or_unlink(struct inode *from, const char *a, struct inode *to, const char *b)
{
	struct inode *inode;

	if (ext4_lookup(from, a, strlen(a), &inode) != 0)
		return;
	if (S_ISDIR(inode->i_mode) || ext4_link(inode, to, b, strlen(b)) != 0)
		(void)env_unlink(from, a);
	iput(inode);
}

static void *move_about(void *arg)
{
	struct mover *m = arg;
	struct prng rng;
	char a[16], b[16];

	prng_seed(&rng, m->m_seed);
	for (unsigned i = 0; i < 300; i++) {
		struct inode *from = m->m_dirs[prng_below(&rng, 4)];
		struct inode *to = m->m_dirs[prng_below(&rng, 4)];
		unsigned flags = prng_chance(&rng, 1, 4) ? RENAME_EXCHANGE : 0;

		snprintf(a, sizeof(a), "x%u", (unsigned)prng_below(&rng, 4));
		snprintf(b, sizeof(b), "x%u", (unsigned)prng_below(&rng, 4));
		switch (prng_below(&rng, 6)) {
		case 0:
			(void)env_make_name(from, a, S_IFDIR | 0755);
			break;
		case 1:
			(void)env_touch(from, a);
			break;
		case 2:
			(void)env_rmdir(from, a);
			break;
		case 3:
			link_or_unlink(from, a, to, b);
			break;
		default:
			(void)env_rename(from, a, to, b, flags);
			break;
		}
	}
	return NULL;
}

START_TEST(renames_in_all_directions_end_and_stay_whole)
{
	struct mover m[3];
	pthread_t t[3];
	struct inode *dirs[4];
	struct env e;

	env_make(&e, "-b 1024", 16 * MIB, NULL);
	e.e_opts.o_manual_commit = false;
	env_mount(&e);
	dirs[0] = env_mkdir(e.e_root, "p");
	dirs[1] = env_mkdir(dirs[0], "x0");
	dirs[2] = env_mkdir(dirs[1], "x1");
	dirs[3] = env_mkdir(e.e_root, "x2");
	for (unsigned i = 0; i < 3; i++) {
		m[i].m_env = &e;
		memcpy(m[i].m_dirs, dirs, sizeof(dirs));
		m[i].m_seed = 77 + i;
		ck_assert_int_eq(pthread_create(&t[i], NULL, move_about, &m[i]), 0);
	}
	for (unsigned i = 0; i < 3; i++)
		pthread_join(t[i], NULL);
	for (unsigned i = 0; i < 4; i++)
		iput(dirs[i]);
	env_close(&e);
}
END_TEST

int main(void)
{
	return RUN_TESTS("namespace/rename", a_file_moves_within_and_between_directories,
			 replacing_frees_the_old_inode, a_whiteout_stays_behind,
			 a_directory_takes_its_dotdot_along, an_indexed_directory_moves_too,
			 directories_replace_only_empty_directories,
			 no_directory_moves_below_itself, two_names_change_places,
			 a_rename_that_splits_its_own_leaf,
			 renames_in_all_directions_end_and_stay_whole);
}
