/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * test_readdir.c - a directory is read completely and without repetition, whatever happens to it meanwhile.
 *
 * Invariants: (1) "stable" names are there from the first to the last call of a reading and must come exactly once;
 * others may come at most once.
 * Locking: none.
 */
#include "tests/unit/namespace/nsenv.h"

/* How often each name of a series "NAME<number>" came. */
struct tally {
	unsigned *t_seen;
	unsigned t_n;
	const char *t_prefix;
};

static void count_names(struct tally *t, const struct env_list *l)
{
	size_t n = strlen(t->t_prefix);

	for (unsigned i = 0; i < l->l_count; i++) {
		unsigned number;

		if (strncmp(l->l_name[i], t->t_prefix, n) != 0)
			continue;
		number = (unsigned)strtoul(l->l_name[i] + n, NULL, 10);
		ck_assert_uint_lt(number, t->t_n);
		t->t_seen[number]++;
	}
}

static void make_series(struct inode *dir, const char *prefix, unsigned from, unsigned to)
{
	char name[64];

	for (unsigned i = from; i < to; i++) {
		snprintf(name, sizeof(name), "%s%u", prefix, i);
		ck_assert_int_eq(env_touch(dir, name), 0);
	}
}

START_TEST(dots_come_first_and_types_are_right)
{
	struct inode *dir, *sub;
	struct env_list l;
	struct env e;

	env_open(&e, "-b 1024", 8 * MIB);
	dir = env_mkdir(e.e_root, "d");
	sub = env_mkdir(dir, "sub");
	ck_assert_int_eq(env_touch(dir, "file"), 0);
	ck_assert_int_eq(env_symlink(dir, "link", "x"), 0);
	ck_assert_int_eq(env_list_all(dir, 100, &l), 0);
	ck_assert_uint_eq(l.l_count, 5);
	ck_assert_str_eq(l.l_name[0], ".");
	ck_assert_str_eq(l.l_name[1], "..");
	ck_assert_uint_eq(l.l_ino[0], dir->i_ino);
	ck_assert_uint_eq(l.l_ino[1], EXT4_ROOT_INO);
	for (unsigned i = 0; i < 5; i++) {
		uint8_t want = strcmp(l.l_name[i], "file") == 0	  ? S_IFREG >> 12
			       : strcmp(l.l_name[i], "link") == 0 ? S_IFLNK >> 12
								  : S_IFDIR >> 12;

		ck_assert_uint_eq(l.l_type[i], want);
	}
	env_list_free(&l);
	iput(sub);
	iput(dir);
	env_close(&e);
}
END_TEST

/* Each size of pieces gives the same names; the cookie of each entry leads to what follows it. */
static void read_in_pieces(const char *mke2fs_args, unsigned n)
{
	static const unsigned pieces[] = {1, 2, 7, 100, 100000};
	struct tally t = {.t_n = n, .t_prefix = "name"};
	struct inode *dir;
	struct env_list l;
	struct env e;

	env_open(&e, mke2fs_args, 16 * MIB);
	dir = env_mkdir(e.e_root, "d");
	make_series(dir, "name", 0, n);
	for (unsigned p = 0; p < sizeof(pieces) / sizeof(pieces[0]); p++) {
		t.t_seen = calloc(n, sizeof(*t.t_seen));
		ck_assert_int_eq(env_list_all(dir, pieces[p], &l), 0);
		ck_assert_uint_eq(l.l_count, n + 2);
		count_names(&t, &l);
		for (unsigned i = 0; i < n; i++)
			ck_assert_uint_eq(t.t_seen[i], 1);
		for (unsigned i = 1; i < l.l_count; i++)
			ck_assert_uint_gt(l.l_cookie[i], l.l_cookie[i - 1]);
		env_list_free(&l);
		free(t.t_seen);
	}
	iput(dir);
	env_close(&e);
}

START_TEST(pieces_of_any_size_give_the_same)
{
	read_in_pieces("-b 1024", 500);
	read_in_pieces("-b 4096", 100);
	read_in_pieces("-b 1024", 10);
	read_in_pieces("-b 1024 -O ^dir_index", 300);
	read_in_pieces("-b 4096 -O ^dir_index,^metadata_csum", 50);
}
END_TEST

/* Read one entry at a time, from a new descriptor each, and change the directory in between. */
static void read_while_changing(const char *mke2fs_args, unsigned stable, unsigned churn)
{
	struct tally st = {.t_n = stable, .t_prefix = "stable"};
	struct tally ch = {.t_n = churn, .t_prefix = "churn"};
	struct inode *dir;
	struct env_list l;
	struct prng rng;
	uint64_t cookie = 0;
	unsigned before;
	struct env e;

	prng_seed(&rng, stable * 1000 + churn);
	env_open(&e, mke2fs_args, 16 * MIB);
	dir = env_mkdir(e.e_root, "d");
	make_series(dir, "stable", 0, stable);
	st.t_seen = calloc(stable, sizeof(unsigned));
	ch.t_seen = calloc(churn, sizeof(unsigned));
	memset(&l, 0, sizeof(l));
	for (unsigned i = 0;; i++) {
		struct ns_dir *d;
		char name[64];

		before = l.l_count;
		l.l_limit = before + 1 + (unsigned)prng_below(&rng, 5);
		ck_assert_int_eq(ext4_dir_open(dir, &d), 0);
		ck_assert_int_eq(ext4_dir_read(d, cookie, env_list_emit, &l), 0);
		ext4_dir_close(d);
		if (l.l_count == before)
			break;
		cookie = l.l_cookie[l.l_count - 1];
		snprintf(name, sizeof(name), "churn%u", i);
		if (i < churn)
			ck_assert_int_eq(env_touch(dir, name), 0);
		if (i >= 4 && i < churn && prng_chance(&rng, 1, 2)) {
			snprintf(name, sizeof(name), "churn%u", i - 4);
			(void)env_unlink(dir, name);
		}
	}
	count_names(&st, &l);
	count_names(&ch, &l);
	for (unsigned i = 0; i < stable; i++)
		ck_assert_msg(st.t_seen[i] == 1, "stable%u came %u times", i, st.t_seen[i]);
	for (unsigned i = 0; i < churn; i++)
		ck_assert_msg(ch.t_seen[i] <= 1, "churn%u came %u times", i, ch.t_seen[i]);
	env_list_free(&l);
	free(st.t_seen);
	free(ch.t_seen);
	iput(dir);
	env_close(&e);
}

START_TEST(stable_entries_come_once_while_others_come_and_go)
{
	read_while_changing("-b 1024", 300, 400);
	read_while_changing("-b 4096", 900, 1000);
	read_while_changing("-b 1024 -O ^dir_index", 200, 200);
	/* One block that becomes an index on the way. */
	read_while_changing("-b 1024", 20, 400);
	read_while_changing("-b 4096", 60, 800);
}
END_TEST

START_TEST(a_directory_that_becomes_indexed_is_read_on)
{
	struct tally st = {.t_n = 20, .t_prefix = "stable"};
	struct inode *dir;
	struct env_list l;
	struct ns_dir *d;
	struct env e;

	for (unsigned first = 0; first < 20; first++) {
		env_open(&e, "-b 1024", 8 * MIB);
		dir = env_mkdir(e.e_root, "d");
		make_series(dir, "stable", 0, 20);
		memset(&l, 0, sizeof(l));
		st.t_seen = calloc(20, sizeof(unsigned));
		ck_assert_int_eq(ext4_dir_open(dir, &d), 0);
		l.l_limit = first + 1;
		ck_assert_int_eq(ext4_dir_read(d, 0, env_list_emit, &l), 0);
		ck_assert(!ext4_dir_indexed(dir));
		make_series(dir, "more", 0, 200);
		ck_assert(ext4_dir_indexed(dir));
		l.l_limit = UINT32_MAX;
		ck_assert_int_eq(ext4_dir_read(d, l.l_cookie[first], env_list_emit, &l), 0);
		count_names(&st, &l);
		for (unsigned i = 0; i < 20; i++)
			ck_assert_uint_eq(st.t_seen[i], 1);
		ext4_dir_close(d);
		env_list_free(&l);
		free(st.t_seen);
		iput(dir);
		env_umount(&e);
		free(e.e_image);
	}
}
END_TEST

START_TEST(removing_while_reading_misses_nothing)
{
	struct inode *dir;
	struct env_list l;
	struct ns_dir *d;
	uint64_t cookie = 0;
	unsigned gone = 0;
	struct env e;

	/* rm -r: read some, remove them, read on. */
	env_open(&e, "-b 1024", 8 * MIB);
	dir = env_mkdir(e.e_root, "d");
	make_series(dir, "f", 0, 400);
	ck_assert_int_eq(ext4_dir_open(dir, &d), 0);
	for (;;) {
		memset(&l, 0, sizeof(l));
		l.l_limit = 13;
		ck_assert_int_eq(ext4_dir_read(d, cookie, env_list_emit, &l), 0);
		if (l.l_count == 0)
			break;
		cookie = l.l_cookie[l.l_count - 1];
		for (unsigned i = 0; i < l.l_count; i++)
			if (l.l_name[i][0] == 'f') {
				ck_assert_int_eq(env_unlink(dir, l.l_name[i]), 0);
				gone++;
			}
		env_list_free(&l);
	}
	ck_assert_uint_eq(gone, 400);
	ext4_dir_close(d);
	ck_assert_int_eq(env_rmdir(e.e_root, "d"), 0);
	iput(dir);
	env_close(&e);
}
END_TEST

/* readdirplus: the receiver looks up what it is given. */
struct looker {
	struct inode *k_dir;
	unsigned k_found;
};

static bool look_up(void *arg, const struct ns_dirent *de)
{
	struct looker *k = arg;
	struct inode *inode;

	ck_assert_int_eq(ext4_lookup(k->k_dir, de->d_name, de->d_len, &inode), 0);
	ck_assert_uint_eq(inode->i_ino, de->d_ino);
	iput(inode);
	k->k_found++;
	return true;
}

START_TEST(the_receiver_may_look_names_up)
{
	struct looker k = {0};
	struct ns_dir *d;
	struct env e;

	env_open(&e, "-b 1024", 8 * MIB);
	k.k_dir = env_mkdir(e.e_root, "d");
	make_series(k.k_dir, "f", 0, 100);
	ck_assert_int_eq(ext4_dir_open(k.k_dir, &d), 0);
	ck_assert_int_eq(ext4_dir_read(d, 0, look_up, &k), 0);
	ck_assert_uint_eq(k.k_found, 102);
	ext4_dir_close(d);
	iput(k.k_dir);
	env_close(&e);
}
END_TEST

START_TEST(a_deleted_directory_cannot_be_read)
{
	struct inode *dir;
	struct env_list l;
	struct env e;

	env_open(&e, "-b 1024", 8 * MIB);
	dir = env_mkdir(e.e_root, "d");
	ck_assert_int_eq(env_rmdir(e.e_root, "d"), 0);
	ck_assert_int_eq(env_list_all(dir, 10, &l), -ENOENT);
	env_list_free(&l);
	iput(dir);
	env_close(&e);
}
END_TEST

static struct timespec fake_now;
static struct timespec fake_clock(void)
{
	return fake_now;
}

START_TEST(atime_of_directories_follows_the_mount)
{
	struct inode *dir;
	struct env_list l;
	struct stat st;
	struct env e;

	fake_now.tv_sec = 1000000;
	time_set_real_hook(fake_clock);
	env_open(&e, "-b 1024", 8 * MIB);
	dir = env_mkdir(e.e_root, "d");
	/* relatime: once behind mtime, then only after a day. */
	fake_now.tv_sec += 10;
	ck_assert_int_eq(env_list_all(dir, 10, &l), 0);
	env_list_free(&l);
	ext4_getattr(dir, &st);
	ck_assert_int_eq(st.st_atim.tv_sec, 1000010);
	fake_now.tv_sec += 10;
	ck_assert_int_eq(env_list_all(dir, 10, &l), 0);
	env_list_free(&l);
	ext4_getattr(dir, &st);
	ck_assert_int_eq(st.st_atim.tv_sec, 1000010);
	fake_now.tv_sec += 24 * 3600;
	ck_assert_int_eq(env_list_all(dir, 10, &l), 0);
	env_list_free(&l);
	ext4_getattr(dir, &st);
	ck_assert_int_eq(st.st_atim.tv_sec, 1000020 + 24 * 3600);
	iput(dir);
	/* It reaches the disk. */
	e.e_opts.o_nodiratime = true;
	env_remount(&e);
	dir = env_lookup(e.e_root, "d");
	ext4_getattr(dir, &st);
	ck_assert_int_eq(st.st_atim.tv_sec, 1000020 + 24 * 3600);
	fake_now.tv_sec += 48 * 3600;
	ck_assert_int_eq(env_list_all(dir, 10, &l), 0);
	env_list_free(&l);
	ext4_getattr(dir, &st);
	ck_assert_int_eq(st.st_atim.tv_sec, 1000020 + 24 * 3600);
	iput(dir);
	time_set_real_hook(NULL);
	env_close(&e);
}
END_TEST

int main(void)
{
	return RUN_TESTS(
		"namespace/readdir", dots_come_first_and_types_are_right,
		pieces_of_any_size_give_the_same, stable_entries_come_once_while_others_come_and_go,
		a_directory_that_becomes_indexed_is_read_on, removing_while_reading_misses_nothing,
		the_receiver_may_look_names_up, a_deleted_directory_cannot_be_read,
		atime_of_directories_follows_the_mount);
}
