/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * test_htree.c - directories that grow: linear, indexed, by every hash, to every depth.
 *
 * Entries are hard links of a few files, so that a test makes many names quickly.
 *
 * Invariants: (1) each directory is checked by e2fsck, which knows order, hashes and checksums of an index.
 * Locking: none.
 */
#include "tests/unit/namespace/nsenv.h"

#define MAX_LINKS 60000u

/* Files to link to; a new one when the old has enough links. */
struct linker {
	struct inode *k_dir;
	struct inode *k_file;
	unsigned k_links, k_files;
};

static int add_name(struct linker *k, const char *name)
{
	char file[32];
	int err;

	if (k->k_file == NULL || k->k_links == MAX_LINKS) {
		iput(k->k_file);
		snprintf(file, sizeof(file), "base%u", k->k_files++);
		ck_assert_int_eq(env_create(k->k_dir, file, S_IFREG | 0644, &k->k_file), 0);
		k->k_links = 0;
	}
	err = ext4_link(k->k_file, k->k_dir, name, strlen(name));
	if (err == 0)
		k->k_links++;
	return err;
}

/* A name of `len` bytes that has the number i in it, and bytes of all kinds. */
static void make_name(char *name, unsigned len, unsigned i)
{
	for (unsigned j = 0; j < len; j++) {
		name[j] = (char)(1 + (i * 7 + j * 13) % 255);
		if (name[j] == '/')
			name[j] = 'x';
	}
	name[0] = 'n';
	snprintf(name + 1, 9, "%08u", i);
	name[9] = '-';
	name[len] = '\0';
}

/* Levels of the index below its root, -1 without an index. */
static int levels_of(struct inode *dir)
{
	struct buffer_head *bh;
	int levels;

	if (!ext4_dir_indexed(dir))
		return -1;
	ck_assert_int_eq(ext4_dir_bread(dir, 0, DIR_BLOCK_INDEX, &bh), 0);
	levels = bh->b_data[DX_ROOT_INFO + 6];
	bh_put(bh);
	return levels;
}

static void fill(struct inode *dir, unsigned n, unsigned len)
{
	struct linker k = {.k_dir = dir};
	char name[256];

	for (unsigned i = 0; i < n; i++) {
		make_name(name, len, i);
		ck_assert_int_eq(add_name(&k, name), 0);
		if (i % 1000 == 999)
			jbd2_journal_force_commit(dir->i_sb->s_journal);
	}
	iput(k.k_file);
}

static void check_all(struct inode *dir, unsigned n, unsigned len, unsigned step)
{
	char name[256];

	for (unsigned i = 0; i < n; i += step) {
		make_name(name, len, i);
		ck_assert_int_eq(env_find(dir, name), 0);
		name[9] = '+';
		ck_assert_int_eq(env_find(dir, name), -ENOENT);
	}
}

/* Create, look up, remount, look up, remove every second, look up, fsck. */
static void exercise(const char *mke2fs_args, const char *commands, unsigned n, unsigned len,
		     bool indexed)
{
	struct inode *dir;
	char name[256];
	struct env e;

	env_make(&e, mke2fs_args, 16 * MIB, commands);
	env_mount(&e);
	dir = env_mkdir(e.e_root, "d");
	fill(dir, n, len);
	check_all(dir, n, len, 7);
	ck_assert_int_eq((dir->i_flags & EXT2_INDEX_FL) != 0, indexed);
	iput(dir);
	env_remount(&e);
	env_umount(&e);
	env_fsck(&e);
	env_mount(&e);
	dir = env_lookup(e.e_root, "d");
	check_all(dir, n, len, 3);
	for (unsigned i = 0; i < n; i += 2) {
		make_name(name, len, i);
		ck_assert_int_eq(env_unlink(dir, name), 0);
	}
	for (unsigned i = 0; i < n; i++) {
		make_name(name, len, i);
		ck_assert_int_eq(env_find(dir, name), i % 2 == 0 ? -ENOENT : 0);
	}
	iput(dir);
	env_close(&e);
}

START_TEST(indexed_directories_of_both_block_sizes)
{
	exercise("-b 1024 -O metadata_csum", NULL, 3000, 40, true);
	exercise("-b 4096 -O metadata_csum", NULL, 3000, 40, true);
	exercise("-b 1024 -O ^metadata_csum", NULL, 3000, 40, true);
	exercise("-b 4096 -O ^metadata_csum,uninit_bg", NULL, 3000, 40, true);
}
END_TEST

START_TEST(linear_directories_without_dir_index)
{
	exercise("-b 1024 -O ^dir_index,metadata_csum", NULL, 600, 60, false);
	exercise("-b 4096 -O ^dir_index,^metadata_csum", NULL, 600, 60, false);
}
END_TEST

START_TEST(directories_of_indirect_block_files)
{
	exercise("-b 1024 -O ^extent,^64bit", NULL, 3000, 40, true);
}
END_TEST

START_TEST(every_hash_signed_and_unsigned)
{
	static const char *const hashes[] = {"legacy", "half_md4", "tea"};
	char commands[128];

	for (unsigned i = 0; i < 3; i++) {
		for (unsigned flags = 0; flags <= 2; flags++) {
			snprintf(commands, sizeof(commands),
				 "ssv def_hash_version %s\nssv flags %u", hashes[i], flags);
			exercise("-b 1024", commands, 800, 40, true);
		}
	}
}
END_TEST

START_TEST(twenty_thousand_names_of_200_characters)
{
	struct inode *dir;
	struct env e;

	env_open(&e, "-b 4096 -N 1024", 64 * MIB);
	dir = env_mkdir(e.e_root, "d");
	fill(dir, 20000, 200);
	check_all(dir, 20000, 200, 11);
	ck_assert(ext4_dir_indexed(dir));
	ck_assert_int_eq(levels_of(dir), 1);
	iput(dir);
	env_close(&e);
}
END_TEST

/* Fill until the index is full or has the levels wanted; the number of names. */
static unsigned fill_to_levels(struct inode *dir, int levels, int *err)
{
	struct linker k = {.k_dir = dir};
	char name[256];
	unsigned n = 0;

	do {
		make_name(name, 250, n);
		*err = add_name(&k, name);
		if (*err == 0)
			n++;
		if (n % 512 == 0)
			jbd2_journal_force_commit(dir->i_sb->s_journal);
	} while (*err == 0 && (n % 64 != 0 || levels_of(dir) < levels));
	iput(k.k_file);
	return n;
}

START_TEST(with_large_dir_the_index_grows_to_three_levels)
{
	struct inode *dir;
	unsigned n;
	int err;
	struct env e;

	env_open(&e, "-b 1024 -N 1024 -O large_dir", 64 * MIB);
	dir = env_mkdir(e.e_root, "d");
	n = fill_to_levels(dir, 2, &err);
	ck_assert_int_eq(err, 0);
	ck_assert_int_eq(levels_of(dir), 2);
	check_all(dir, n, 250, 17);
	iput(dir);
	env_close(&e);
}
END_TEST

START_TEST(without_large_dir_a_full_index_is_ENOSPC)
{
	struct inode *dir;
	char name[256];
	unsigned n;
	int err;
	struct env e;

	env_open(&e, "-b 1024 -N 1024", 64 * MIB);
	dir = env_mkdir(e.e_root, "d");
	n = fill_to_levels(dir, 2, &err);
	ck_assert_int_eq(err, -ENOSPC);
	ck_assert_int_eq(levels_of(dir), 1);
	check_all(dir, n, 250, 17);
	make_name(name, 250, n);
	ck_assert_int_eq(env_find(dir, name), -ENOENT);
	iput(dir);
	env_close(&e);
}
END_TEST

/* ---- Names with one hash ---- */

#define COLLIDING 9u
#define FACTOR 7152373u

static uint32_t legacy_step(uint32_t *h0, uint32_t *h1, unsigned char c)
{
	uint32_t hash = *h1 + (*h0 ^ (c * FACTOR));

	if (hash & 0x80000000u)
		hash -= 0x7fffffffu;
	*h1 = *h0;
	*h0 = hash;
	return hash;
}

static void legacy_hash(const char *name, unsigned len, uint32_t *h0, uint32_t *h1)
{
	for (unsigned i = 0; i < len; i++)
		legacy_step(h0, h1, (unsigned char)name[i]);
}

/* The last two characters that lead from a state to the target, if there are any. */
static bool solve_tail(char *tail, uint32_t h0, uint32_t h1, uint32_t target)
{
	for (unsigned c = '0'; c < 0x7f; c++) {
		uint32_t a0 = h0, a1 = h1;
		uint32_t want;

		legacy_step(&a0, &a1, (unsigned char)c);
		want = (target - a1) ^ a0;
		if (want % FACTOR != 0 || want / FACTOR < '0' || want / FACTOR > 0x7e)
			continue;
		tail[0] = (char)c;
		tail[1] = (char)(want / FACTOR);
		if (legacy_step(&a0, &a1, (unsigned char)tail[1]) == target)
			return true;
	}
	return false;
}

/* Names of 250 characters with the hash of the first: a long beginning that stays, 8 that vary, 2 that are computed. */
static void make_colliding(char names[][256])
{
	uint32_t p0 = 0x12a3fe2d, p1 = 0x37abe8f9;
	uint32_t target, h1;
	uint64_t n = 0;

	for (unsigned i = 0; i < COLLIDING; i++) {
		memset(names[i], 'a', 250);
		names[i][250] = '\0';
	}
	legacy_hash(names[0], 240, &p0, &p1);
	target = p0;
	h1 = p1;
	legacy_hash(names[0] + 240, 10, &target, &h1);
	for (unsigned i = 1; i < COLLIDING; n++) {
		uint32_t h0 = p0;

		h1 = p1;
		for (unsigned j = 0; j < 8; j++)
			names[i][240 + j] = (char)('0' + (n >> (3 * j)) % 8);
		legacy_hash(names[i] + 240, 8, &h0, &h1);
		if (solve_tail(names[i] + 248, h0, h1, target))
			i++;
	}
}

START_TEST(equal_hashes_reach_over_several_leaves)
{
	char(*names)[256] = calloc(COLLIDING, 256);
	struct linker k;
	struct inode *dir;
	struct env_list l;
	struct env e;

	make_colliding(names);
	env_make(&e, "-b 1024", 8 * MIB, "ssv def_hash_version legacy");
	env_mount(&e);
	dir = env_mkdir(e.e_root, "d");
	fill(dir, 60, 250);
	memset(&k, 0, sizeof(k));
	k.k_dir = dir;
	k.k_files = 100;
	for (unsigned i = 0; i < COLLIDING; i++) {
		ck_assert_int_eq(add_name(&k, names[i]), 0);
		ck_assert_int_eq(add_name(&k, names[i]), -EEXIST);
	}
	for (unsigned i = 0; i < COLLIDING; i++)
		ck_assert_int_eq(env_find(dir, names[i]), 0);
	check_all(dir, 60, 250, 1);
	for (unsigned piece = 1; piece < 4; piece++) {
		ck_assert_int_eq(env_list_all(dir, piece, &l), 0);
		ck_assert_uint_eq(l.l_count, 2 + 60 + 1 + 1 + COLLIDING);
		env_list_free(&l);
	}
	iput(k.k_file);
	iput(dir);
	env_umount(&e);
	env_fsck(&e);
	env_mount(&e);
	dir = env_lookup(e.e_root, "d");
	for (unsigned i = 0; i < COLLIDING; i += 2)
		ck_assert_int_eq(env_unlink(dir, names[i]), 0);
	for (unsigned i = 0; i < COLLIDING; i++)
		ck_assert_int_eq(env_find(dir, names[i]), i % 2 == 0 ? -ENOENT : 0);
	iput(dir);
	free(names);
	env_close(&e);
}
END_TEST

START_TEST(sixty_five_thousand_subdirectories)
{
	struct inode *dir;
	char name[16];
	int err = 0;
	unsigned n;
	struct env e;

	/* Count up to the limit without making what is far below it. */
	env_open(&e, "-b 4096 -N 2048", 64 * MIB);
	dir = env_mkdir(e.e_root, "d");
	for (n = 0; n < 400; n++) {
		snprintf(name, sizeof(name), "s%u", n);
		ck_assert_int_eq(env_make_name(dir, name, S_IFDIR | 0755), 0);
	}
	ck_assert(ext4_dir_indexed(dir));
	atomic_store(&dir->i_nlink, 64998);
	ck_assert_int_eq(env_make_name(dir, "a", S_IFDIR | 0755), 0);
	ck_assert_uint_eq(env_nlink(dir), 64999);
	ck_assert_int_eq(env_make_name(dir, "b", S_IFDIR | 0755), 0);
	ck_assert_uint_eq(env_nlink(dir), 65000);
	ck_assert_int_eq(env_make_name(dir, "c", S_IFDIR | 0755), 0);
	ck_assert_uint_eq(env_nlink(dir), 1);
	ck_assert_int_eq(env_make_name(dir, "e", S_IFDIR | 0755), 0);
	ck_assert_uint_eq(env_nlink(dir), 1);
	ck_assert_int_eq(env_rmdir(dir, "a"), 0);
	ck_assert_uint_eq(env_nlink(dir), 1);
	iput(dir);
	env_remount(&e);
	dir = env_lookup(e.e_root, "d");
	ck_assert_uint_eq(env_nlink(dir), 1);
	ck_assert_int_eq(env_rmdir(e.e_root, "d"), -ENOTEMPTY);
	for (n = 0; n < 400; n++) {
		snprintf(name, sizeof(name), "s%u", n);
		ck_assert_int_eq(env_rmdir(dir, name), 0);
	}
	ck_assert_int_eq(env_rmdir(dir, "b"), 0);
	ck_assert_int_eq(env_rmdir(dir, "c"), 0);
	ck_assert_int_eq(env_rmdir(dir, "e"), 0);
	ck_assert_int_eq(env_rmdir(e.e_root, "d"), 0);
	iput(dir);
	env_close(&e);

	/* Without dir_nlink that is the end. */
	env_open(&e, "-b 4096 -O ^dir_nlink", 16 * MIB);
	dir = env_mkdir(e.e_root, "d");
	atomic_store(&dir->i_nlink, 64999);
	ck_assert_int_eq(env_make_name(dir, "a", S_IFDIR | 0755), 0);
	err = env_make_name(dir, "b", S_IFDIR | 0755);
	ck_assert_int_eq(err, -EMLINK);
	ck_assert_int_eq(env_touch(dir, "file"), 0);
	atomic_store(&dir->i_nlink, 3);
	ck_assert_int_eq(env_touch(dir, "another"), 0);
	iput(dir);
	env_close(&e);
}
END_TEST

START_TEST(a_file_has_65000_links_at_most)
{
	struct inode *file;
	struct env e;

	env_open(&e, "-b 1024", 8 * MIB);
	ck_assert_int_eq(env_create(e.e_root, "f", S_IFREG | 0644, &file), 0);
	atomic_store(&file->i_nlink, 64999);
	ck_assert_int_eq(ext4_link(file, e.e_root, "g", 1), 0);
	ck_assert_int_eq(ext4_link(file, e.e_root, "h", 1), -EMLINK);
	atomic_store(&file->i_nlink, 2);
	ck_assert_int_eq(env_unlink(e.e_root, "g"), 0);
	iput(file);
	env_close(&e);
}
END_TEST

int main(void)
{
	return RUN_TESTS("namespace/htree", indexed_directories_of_both_block_sizes,
			 linear_directories_without_dir_index, directories_of_indirect_block_files,
			 every_hash_signed_and_unsigned, twenty_thousand_names_of_200_characters,
			 with_large_dir_the_index_grows_to_three_levels,
			 without_large_dir_a_full_index_is_ENOSPC,
			 equal_hashes_reach_over_several_leaves, sixty_five_thousand_subdirectories,
			 a_file_has_65000_links_at_most);
}
