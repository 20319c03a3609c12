/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * test_dir_miss.c - what a lookup did not find is made without another search, and only while that is still true.
 *
 * Invariants: (1) each test ends with a clean e2fsck.
 * Locking: none; i_rwsem where the functions of one directory want it.
 */
#include "tests/unit/namespace/nsenv.h"

static void put_name(char *name, size_t bytes, unsigned i)
{
	snprintf(name, bytes, "name%05u", i);
}

/* Is `name` known to be missing? */
static bool recalled(struct inode *dir, const char *name)
{
	struct dir_slot slot = {.ds_scan = {.sc_name = name, .sc_len = strlen(name)}};
	bool known;

	down_write(&dir->i_rwsem);
	known = ext4_dir_recall_miss(dir, &slot);
	ext4_dir_slot_put(&slot);
	up_write(&dir->i_rwsem);
	return known;
}

/* An indexed directory all of whose leaves are one unused entry. */
static struct inode *emptied_directory(struct env *e)
{
	struct inode *dir = env_mkdir(e->e_root, "d");
	char name[16];

	for (unsigned i = 0; i < 200; i++) {
		put_name(name, sizeof(name), i);
		ck_assert_int_eq(env_touch(dir, name), 0);
	}
	ck_assert(ext4_dir_indexed(dir));
	for (unsigned i = 0; i < 200; i++) {
		put_name(name, sizeof(name), i);
		ck_assert_int_eq(env_unlink(dir, name), 0);
	}
	return dir;
}

START_TEST(a_missed_name_is_known_until_the_directory_changes)
{
	struct inode *dir;
	struct env e;

	env_open(&e, "-b 1024", 8 * MIB);
	dir = env_mkdir(e.e_root, "d");
	ck_assert(!recalled(dir, "x"));
	ck_assert_int_eq(env_find(dir, "x"), -ENOENT);
	ck_assert(recalled(dir, "x"));
	ck_assert(!recalled(dir, "y"));
	ck_assert(!recalled(e.e_root, "x"));
	ck_assert_int_eq(env_touch(dir, "y"), 0);
	ck_assert(!recalled(dir, "x"));
	ck_assert_int_eq(env_find(dir, "x"), -ENOENT);
	ck_assert_int_eq(env_unlink(dir, "y"), 0);
	ck_assert(!recalled(dir, "x"));
	iput(dir);
	env_close(&e);
}
END_TEST

START_TEST(a_name_made_after_a_lookup_is_not_made_twice)
{
	struct inode *dir;
	struct env e;

	env_open(&e, "-b 1024", 8 * MIB);
	dir = emptied_directory(&e);
	ck_assert_int_eq(env_find(dir, "x"), -ENOENT);
	ck_assert_int_eq(env_touch(dir, "x"), 0);
	ck_assert_int_eq(env_touch(dir, "x"), -EEXIST);
	ck_assert_int_eq(env_unlink(dir, "x"), 0);
	ck_assert_int_eq(env_find(dir, "x"), -ENOENT);
	iput(dir);
	env_close(&e);
}
END_TEST

START_TEST(another_directory_with_the_same_number_is_another)
{
	struct inode *dir;
	struct env e;
	uint32_t ino;

	env_open(&e, "-b 1024", 8 * MIB);
	dir = env_mkdir(e.e_root, "d");
	ino = dir->i_ino;
	ck_assert_int_eq(env_find(dir, "x"), -ENOENT);
	iput(dir);
	ck_assert_int_eq(env_rmdir(e.e_root, "d"), 0);
	ext4_drain_evictions(e.e_sb);
	ck_assert_int_eq(jbd2_journal_force_commit(e.e_sb->s_journal), 0); /* the number is free */
	dir = env_mkdir(e.e_root, "e");
	ck_assert_uint_eq(dir->i_ino, ino);
	ck_assert(!recalled(dir, "x"));
	iput(dir);
	env_close(&e);
}
END_TEST

/* The device may give other bytes when the block is read again. */
START_TEST(a_place_that_makes_no_sense_any_more_is_not_used)
{
	struct ext2_dir_entry_2 *de;
	struct buffer_head *bh;
	struct inode *dir;
	struct env e;

	env_open(&e, "-b 1024", 8 * MIB);
	dir = env_mkdir(e.e_root, "d");
	ck_assert_int_eq(env_find(dir, "x"), -ENOENT);
	ck_assert_int_eq(ext4_dir_bread(dir, 0, DIR_BLOCK_LEAF, &bh), 0);
	de = ext4_dirent_at(bh->b_data, DIR_MIN_REC_LEN); /* ".." reaches to the end */
	ck_assert(recalled(dir, "x"));
	de->rec_len = cpu_to_le16((uint16_t)(le16_to_cpu(de->rec_len) + 512));
	ck_assert(!recalled(dir, "x"));
	de->rec_len = cpu_to_le16(DIR_MIN_REC_LEN);
	ck_assert(!recalled(dir, "x"));
	de->rec_len = cpu_to_le16((uint16_t)(ext4_dir_leaf_bytes(e.e_sb) - DIR_MIN_REC_LEN));
	ck_assert(recalled(dir, "x"));
	bh_put(bh);
	iput(dir);
	env_close(&e);
}
END_TEST

/* Lookups and changes in any order, over few names: each answer is what a list of the names says. */
static void change_and_look_up(struct inode *dir)
{
	enum { NAMES = 64 };
	bool there[NAMES] = {false};
	struct prng rng;
	char name[16];

	prng_seed(&rng, 20);
	for (unsigned n = 0; n < 6000; n++) {
		unsigned i = (unsigned)prng_below(&rng, NAMES);

		put_name(name, sizeof(name), i);
		switch (prng_below(&rng, 4)) {
		case 0:
			ck_assert_int_eq(env_touch(dir, name), there[i] ? -EEXIST : 0);
			there[i] = true;
			break;
		case 1:
			ck_assert_int_eq(env_unlink(dir, name), there[i] ? 0 : -ENOENT);
			there[i] = false;
			break;
		default:
			ck_assert_int_eq(env_find(dir, name), there[i] ? 0 : -ENOENT);
		}
	}
}

START_TEST(answers_do_not_depend_on_earlier_lookups)
{
	struct inode *dir;
	struct env e;

	env_open(&e, "-b 1024", 8 * MIB);
	dir = emptied_directory(&e);
	change_and_look_up(dir);
	iput(dir);
	env_close(&e);
	env_open(&e, "-b 4096 -O ^dir_index", 8 * MIB);
	change_and_look_up(e.e_root);
	env_close(&e);
}
END_TEST

int main(void)
{
	return RUN_TESTS("namespace/dir_miss", a_missed_name_is_known_until_the_directory_changes,
			 a_name_made_after_a_lookup_is_not_made_twice,
			 another_directory_with_the_same_number_is_another,
			 a_place_that_makes_no_sense_any_more_is_not_used,
			 answers_do_not_depend_on_earlier_lookups);
}
