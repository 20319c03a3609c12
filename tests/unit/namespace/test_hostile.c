/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * test_hostile.c - directories, indexes, attributes and symlinks that somebody wrote to do harm: an error each.
 *
 * A good file system is made, a block of it is changed and its checksum made right, and it is mounted again.
 *
 * Invariants: (1) nothing hangs or crashes (sanitizers watch); damage is -EFSCORRUPTED or -EFSBADCRC, never a wrong
 * answer.
 * Locking: none.
 */
#include "tests/unit/namespace/nsenv.h"

#include "ext4/ext4_int.h"
#include "namespace/xattr.h"

/* Damage is expected: go on after it, and do not mind what unmounting says. */
static void open_hostile(struct env *e, const char *mke2fs_args)
{
	log_set_level(LOG_LEVEL_ERR);
	log_set_sink(NULL, NULL);
	env_make(e, mke2fs_args, 8 * MIB, NULL);
	e->e_opts.o_errors = ERRORS_CONTINUE;
	env_mount(e);
}

static void umount_hostile(struct env *e)
{
	iput(e->e_root);
	(void)ext4_umount(e->e_sb);
}

static void remount_hostile(struct env *e)
{
	umount_hostile(e);
	env_mount(e);
}

static void quiet(enum log_level level, const char *line, void *arg)
{
	(void)level;
	(void)line;
	(void)arg;
}

enum fix { FIX_LEAF, FIX_INDEX, FIX_NOTHING };

/* Write bytes into block lblk of a directory, and set the checksum that its kind has. */
static void poke(struct inode *dir, ext4_lblk_t lblk, unsigned offset, const void *bytes, size_t n,
		 enum fix fix)
{
	handle_t *handle = ext4_journal_start(dir, HT_DIR, 4);
	struct buffer_head *bh;
	unsigned entries = lblk == 0 ? DX_ROOT_ENTRIES : DX_NODE_ENTRIES;
	int err = 0;

	ck_assert(!IS_ERR(handle));
	bh = ext4_bread(NULL, dir, lblk, false, &err);
	ck_assert_ptr_nonnull(bh);
	ck_assert_int_eq(ext4_journal_get_write_access(handle, bh), 0);
	lock_buffer(bh);
	bh_seal(bh); /* not over the damage */
	memcpy(bh->b_data + offset, bytes, n);
	if (fix == FIX_LEAF)
		ext4_dirblock_csum_later(dir, bh);
	/* Count and limit may be what was changed: the checksum is where the real limit puts it. */
	if (fix == FIX_INDEX) {
		unsigned count, limit;

		ext4_dx_countlimit(bh->b_data, entries, &count, &limit);
		if (count <= limit && limit <= ext4_dx_node_limit(dir->i_sb))
			ext4_dx_csum_later(dir, bh, entries);
	}
	unlock_buffer(bh);
	ck_assert_int_eq(ext4_handle_dirty_metadata(handle, dir, bh), 0);
	bh_put(bh);
	ck_assert_int_eq(ext4_journal_stop(handle, 0), 0);
}

static void poke16(struct inode *dir, ext4_lblk_t lblk, unsigned offset, uint16_t v, enum fix fix)
{
	v = cpu_to_le16(v);
	poke(dir, lblk, offset, &v, sizeof(v), fix);
}

static void poke32(struct inode *dir, ext4_lblk_t lblk, unsigned offset, uint32_t v, enum fix fix)
{
	v = cpu_to_le32(v);
	poke(dir, lblk, offset, &v, sizeof(v), fix);
}

/* ---- Linear blocks ---- */

#define FIRST_ENTRY 24u /* behind "." and ".." */

/* A directory with file "aaaa" as the first entry, "bbbb" behind it. */
static struct inode *make_two(struct env *e)
{
	struct inode *dir = env_mkdir(e->e_root, "d");

	ck_assert_int_eq(env_touch(dir, "aaaa"), 0);
	ck_assert_int_eq(env_touch(dir, "bbbb"), 0);
	return dir;
}

static void expect_corrupt(struct env *e)
{
	struct inode *dir = env_lookup(e->e_root, "d");
	struct env_list l;

	ck_assert_int_eq(env_find(dir, "bbbb"), -EFSCORRUPTED);
	ck_assert_int_eq(env_find(dir, "none"), -EFSCORRUPTED);
	ck_assert_int_eq(env_touch(dir, "new"), -EFSCORRUPTED);
	ck_assert_int_eq(env_unlink(dir, "bbbb"), -EFSCORRUPTED);
	ck_assert_int_eq(env_list_all(dir, 10, &l), -EFSCORRUPTED);
	env_list_free(&l);
	ck_assert_int_eq(env_rmdir(e->e_root, "d"), -EFSCORRUPTED);
	ck_assert_int_eq(env_rename(e->e_root, "lost+found", e->e_root, "d", 0), -EFSCORRUPTED);
	iput(dir);
}

START_TEST(bad_entries_are_errors)
{
	static const uint16_t rec_lens[] = {0, 4, 8, 11, 13, 18, 1016, 1024, 4096, 65532};
	struct inode *dir;
	struct env e;

	log_set_sink(quiet, NULL);
	for (unsigned i = 0; i < sizeof(rec_lens) / sizeof(rec_lens[0]) + 3; i++) {
		open_hostile(&e, "-b 1024");
		log_set_sink(quiet, NULL);
		dir = make_two(&e);
		if (i == 0)
			poke(dir, 0, FIRST_ENTRY + 6, "\xff", 1, FIX_LEAF);
		else if (i == 1)
			poke(dir, 0, FIRST_ENTRY + 6, "\0", 1, FIX_LEAF);
		else if (i == 2)
			poke32(dir, 0, FIRST_ENTRY, 0xffffff00u, FIX_LEAF);
		else
			poke16(dir, 0, FIRST_ENTRY + 4, rec_lens[i - 3], FIX_LEAF);
		iput(dir);
		remount_hostile(&e);
		expect_corrupt(&e);
		umount_hostile(&e);
		free(e.e_image);
	}
}
END_TEST

START_TEST(entries_may_not_name_reserved_or_unused_inodes)
{
	struct inode *dir, *inode;
	uint32_t bad[] = {EXT2_JOURNAL_INO, EXT2_RESIZE_INO, 1, 5, 900};
	struct env e;

	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		open_hostile(&e, "-b 1024 -N 1024");
		log_set_sink(quiet, NULL);
		dir = make_two(&e);
		poke32(dir, 0, FIRST_ENTRY, bad[i], FIX_LEAF);
		iput(dir);
		remount_hostile(&e);
		dir = env_lookup(e.e_root, "d");
		ck_assert_int_eq(ext4_lookup(dir, "aaaa", 4, &inode), -EFSCORRUPTED);
		ck_assert_int_eq(env_unlink(dir, "aaaa"), -EFSCORRUPTED);
		ck_assert_int_eq(env_rename(dir, "aaaa", dir, "x", 0), -EFSCORRUPTED);
		ck_assert_int_eq(env_rename(dir, "bbbb", dir, "aaaa", 0), -EFSCORRUPTED);
		ck_assert_int_eq(env_find(dir, "bbbb"), 0);
		iput(dir);
		umount_hostile(&e);
		free(e.e_image);
	}
}
END_TEST

START_TEST(directories_that_name_themselves)
{
	struct inode *dir, *sub;
	struct env e;

	open_hostile(&e, "-b 1024");
	log_set_sink(quiet, NULL);
	dir = make_two(&e);
	sub = env_mkdir(dir, "sub");
	/* "aaaa" leads to the directory itself, ".." of sub to sub. */
	poke32(dir, 0, FIRST_ENTRY, dir->i_ino, FIX_LEAF);
	poke32(sub, 0, 12, sub->i_ino, FIX_LEAF);
	iput(dir);
	iput(sub);
	remount_hostile(&e);
	dir = env_lookup(e.e_root, "d");
	sub = env_lookup(dir, "sub");
	ck_assert_int_eq(env_find(dir, "aaaa"), -EFSCORRUPTED);
	ck_assert_int_eq(env_rmdir(dir, "aaaa"), -EFSCORRUPTED);
	ck_assert_int_eq(env_find(sub, ".."), -EFSCORRUPTED);
	/* Walking up from sub does not end; the rename does. */
	ck_assert_int_eq(env_rename(dir, "bbbb", sub, "x", 0), -EFSCORRUPTED);
	ck_assert_int_eq(env_rename(dir, "aaaa", dir, "x", 0), -EFSCORRUPTED);
	iput(sub);
	iput(dir);
	umount_hostile(&e);
	free(e.e_image);
}
END_TEST

START_TEST(a_loop_of_parents_is_found)
{
	struct inode *d[5];
	char name[8];
	struct env e;

	open_hostile(&e, "-b 1024");
	log_set_sink(quiet, NULL);
	d[0] = env_mkdir(e.e_root, "d");
	for (unsigned i = 1; i < 5; i++) {
		snprintf(name, sizeof(name), "s%u", i);
		d[i] = env_mkdir(d[i - 1], name);
	}
	ck_assert_int_eq(env_touch(d[4], "f"), 0);
	poke32(d[1], 0, 12, d[3]->i_ino, FIX_LEAF);
	ck_assert_int_eq(env_rename(d[4], "f", e.e_root, "f", 0), -EFSCORRUPTED);
	for (unsigned i = 0; i < 5; i++)
		iput(d[i]);
	umount_hostile(&e);
	free(e.e_image);
}
END_TEST

START_TEST(missing_dots_are_noticed)
{
	struct inode *dir;
	struct env_list l;
	struct env e;

	for (unsigned i = 0; i < 3; i++) {
		open_hostile(&e, "-b 1024");
		log_set_sink(quiet, NULL);
		dir = env_mkdir(e.e_root, "d");
		if (i == 0)
			poke(dir, 0, 8, "x", 1, FIX_LEAF);
		else if (i == 1)
			poke(dir, 0, 12 + 8, "xx", 2, FIX_LEAF);
		else
			poke32(dir, 0, 12, 8, FIX_LEAF);
		iput(dir);
		remount_hostile(&e);
		dir = env_lookup(e.e_root, "d");
		ck_assert_int_eq(env_find(dir, ".."), -EFSCORRUPTED);
		ck_assert_int_eq(env_list_all(dir, 10, &l), -EFSCORRUPTED);
		env_list_free(&l);
		if (i < 2)
			ck_assert_int_eq(env_rmdir(e.e_root, "d"), -EFSCORRUPTED);
		iput(dir);
		umount_hostile(&e);
		free(e.e_image);
	}
}
END_TEST

START_TEST(a_wrong_checksum_is_EFSBADCRC)
{
	struct ext2_super_block es;
	struct inode *dir;
	struct env_list l;
	struct env e;

	open_hostile(&e, "-b 1024");
	log_set_sink(quiet, NULL);
	dir = make_two(&e);
	poke(dir, 0, FIRST_ENTRY + 8, "A", 1, FIX_NOTHING);
	iput(dir);
	remount_hostile(&e);
	dir = env_lookup(e.e_root, "d");
	ck_assert_int_eq(env_find(dir, "bbbb"), -EFSBADCRC);
	ck_assert_int_eq(env_touch(dir, "c"), -EFSBADCRC);
	ck_assert_int_eq(env_list_all(dir, 10, &l), -EFSBADCRC);
	env_list_free(&l);
	ext4_error_view(e.e_sb, &es);
	ck_assert_uint_eq(es.s_last_error_errcode, EXT4_ERR_EFSBADCRC);
	ck_assert_uint_eq(le32_to_cpu(es.s_last_error_ino), dir->i_ino);
	iput(dir);
	umount_hostile(&e);
	free(e.e_image);
}
END_TEST

/* ---- Indexes ---- */

static struct inode *make_indexed(struct env *e, unsigned n)
{
	struct inode *dir = env_mkdir(e->e_root, "d");
	char name[64];

	for (unsigned i = 0; i < n; i++) {
		snprintf(name, sizeof(name), "a-name-of-some-length-%u", i);
		ck_assert_int_eq(env_touch(dir, name), 0);
	}
	ck_assert(ext4_dir_indexed(dir));
	return dir;
}

struct index_case {
	unsigned offset;
	uint32_t value;
	unsigned bytes;
};
/* What can be wrong with a root so that the index is not used at all. */
static const struct index_case bad_roots[] = {
	{28, 9, 1},	/* hash version */
	{29, 12, 1},	/* length of the information */
	{30, 7, 1},	/* levels */
	{31, 1, 1},	/* flags */
	{32, 55, 2},	/* limit */
	{34, 0, 2},	/* count */
	{34, 60000, 2}, /* count */
};

static void poke_case(struct inode *dir, const struct index_case *c)
{
	uint32_t v = cpu_to_le32(c->value);

	poke(dir, 0, c->offset, &v, c->bytes, FIX_INDEX);
}

START_TEST(an_unusable_index_is_searched_block_by_block)
{
	struct inode *dir;
	struct env_list l;
	bool checked;
	struct env e;

	for (unsigned i = 0; i < 2 * sizeof(bad_roots) / sizeof(bad_roots[0]); i++) {
		checked = i % 2 == 0;
		open_hostile(&e, checked ? "-b 1024" : "-b 1024 -O ^metadata_csum");
		log_set_sink(quiet, NULL);
		dir = make_indexed(&e, 60);
		poke_case(dir, &bad_roots[i / 2]);
		iput(dir);
		remount_hostile(&e);
		dir = env_lookup(e.e_root, "d");
		ck_assert_int_eq(env_find(dir, "a-name-of-some-length-33"), 0);
		ck_assert_int_eq(env_find(dir, "nobody"), -ENOENT);
		ck_assert_int_eq(env_find(dir, ".."), 0);
		ck_assert_int_eq(env_list_all(dir, 10, &l), 0);
		ck_assert_uint_eq(l.l_count, 62);
		env_list_free(&l);
		ck_assert_int_eq(env_unlink(dir, "a-name-of-some-length-33"), 0);
		/* Checksums say that somebody meant it: no change. Without, the index is given up. */
		ck_assert_int_eq(env_touch(dir, "new"), checked ? -EFSCORRUPTED : 0);
		ck_assert_int_eq(env_find(dir, "new"), checked ? -ENOENT : 0);
		ck_assert(checked == ext4_dir_indexed(dir));
		iput(dir);
		umount_hostile(&e);
		if (!checked)
			env_fsck(&e);
		free(e.e_image);
	}
}
END_TEST

START_TEST(index_entries_that_lead_astray)
{
	/* To the root itself, beyond the end, to the block of another entry. */
	static const uint32_t targets[] = {0, 5000, 0x0fffffff, 1};
	struct inode *dir;
	struct env_list l;
	char name[64];
	struct env e;

	for (unsigned i = 0; i < sizeof(targets) / sizeof(targets[0]); i++) {
		open_hostile(&e, "-b 1024");
		log_set_sink(quiet, NULL);
		dir = make_indexed(&e, 60);
		poke32(dir, 0, 36, targets[i], FIX_INDEX);
		poke32(dir, 0, 44, targets[i], FIX_INDEX);
		iput(dir);
		remount_hostile(&e);
		dir = env_lookup(e.e_root, "d");
		for (unsigned n = 0; n < 60; n++) {
			int err;

			snprintf(name, sizeof(name), "a-name-of-some-length-%u", n);
			err = env_find(dir, name);
			ck_assert(err == 0 || err == -ENOENT || err == -EFSCORRUPTED ||
				  err == -EFSBADCRC);
			snprintf(name, sizeof(name), "another-name-%u", n);
			(void)env_touch(dir, name);
		}
		(void)env_list_all(dir, 10, &l);
		ck_assert_uint_lt(l.l_count, 1000);
		env_list_free(&l);
		iput(dir);
		umount_hostile(&e);
		free(e.e_image);
	}
}
END_TEST

/* Hashes out of order, and all with the bit that says "goes on". */
START_TEST(index_hashes_in_disorder_do_not_loop)
{
	struct inode *dir;
	struct env_list l;
	struct buffer_head *bh;
	unsigned count, limit;
	struct env e;

	for (unsigned kind = 0; kind < 3; kind++) {
		open_hostile(&e, "-b 1024");
		log_set_sink(quiet, NULL);
		dir = make_indexed(&e, 200);
		ck_assert_int_eq(ext4_dir_bread(dir, 0, DIR_BLOCK_INDEX, &bh), 0);
		ext4_dx_countlimit(bh->b_data, DX_ROOT_ENTRIES, &count, &limit);
		bh_put(bh);
		for (unsigned i = 1; i < count; i++) {
			uint32_t hash = kind == 0   ? 0xf0000000u - i * 0x100000u
					: kind == 1 ? 0x70000001u
						    : 0;

			poke32(dir, 0, DX_ROOT_ENTRIES + i * 8, hash, FIX_INDEX);
		}
		iput(dir);
		remount_hostile(&e);
		dir = env_lookup(e.e_root, "d");
		(void)env_list_all(dir, 7, &l);
		ck_assert_uint_lt(l.l_count, 2000);
		env_list_free(&l);
		(void)env_find(dir, "a-name-of-some-length-5");
		(void)env_touch(dir, "new");
		iput(dir);
		umount_hostile(&e);
		free(e.e_image);
	}
}
END_TEST

/* ---- Attributes and symlinks ---- */

/* Change a byte range of the inode's own table entry, checksum made right. */
static void poke_inode(struct inode *inode, unsigned offset, const void *bytes, size_t n)
{
	handle_t *handle = ext4_journal_start(inode, HT_INODE, 2);
	struct ext2_inode_large *raw;
	struct buffer_head *bh;
	unsigned at;

	ck_assert(!IS_ERR(handle));
	ck_assert_int_eq(ext4_get_inode_loc(inode, &bh, &at), 0);
	ck_assert_int_eq(ext4_journal_get_write_access(handle, bh), 0);
	raw = ext4_raw_inode(inode->i_sb, bh, at);
	lock_buffer(bh);
	memcpy((uint8_t *)raw + offset, bytes, n);
	ext4_raw_inode_csum_set(inode, raw);
	unlock_buffer(bh);
	ck_assert_int_eq(ext4_handle_dirty_metadata(handle, NULL, bh), 0);
	bh_put(bh);
	ck_assert_int_eq(ext4_journal_stop(handle, 0), 0);
}

START_TEST(bad_attributes_in_the_inode)
{
	/* Offsets in the first entry behind the magic; the second value must not be reachable. */
	static const struct index_case cases[] = {
		{0, 255, 1},	    /* name length */
		{2, 0xfff0, 2},	    /* value offset */
		{2, 0, 2},	    /* value over the entries */
		{2, 30, 2},	    /* not aligned */
		{4, 12, 4},	    /* value inode */
		{8, 0x00ffffff, 4}, /* value size */
		{8, 0xffffffff, 4},
	};
	struct inode *file;
	unsigned entry;
	char value[300];
	uint32_t v;
	struct env e;

	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		open_hostile(&e, "-b 1024 -I 256");
		log_set_sink(quiet, NULL);
		ck_assert_int_eq(env_create(e.e_root, "f", S_IFREG | 0644, &file), 0);
		ck_assert_int_eq(ext4_setxattr(file, "user.one", "value", 5, 0, &env_root), 0);
		entry = EXT2_GOOD_OLD_INODE_SIZE + file->i_extra_isize + 4;
		v = cpu_to_le32(cases[i].value);
		poke_inode(file, entry + cases[i].offset, &v, cases[i].bytes);
		iput(file);
		remount_hostile(&e);
		if (ext4_lookup(e.e_root, "f", 1, &file) == 0) {
			ck_assert_int_eq(ext4_getxattr(file, "user.one", value, sizeof(value)),
					 -EFSCORRUPTED);
			ck_assert_int_eq(ext4_setxattr(file, "user.two", "x", 1, 0, &env_root),
					 -EFSCORRUPTED);
			ck_assert_int_eq(ext4_removexattr(file, "user.one"), -EFSCORRUPTED);
			ck_assert_int_eq(ext4_listxattr(file, value, sizeof(value), true),
					 -EFSCORRUPTED);
			iput(file);
		}
		umount_hostile(&e);
		free(e.e_image);
	}
}
END_TEST

START_TEST(bad_attribute_blocks)
{
	static const struct index_case cases[] = {
		{0, 0xEA010000, 4},	 /* magic */
		{8, 2, 4},		 /* blocks */
		{32, 255, 1},		 /* name length */
		{32 + 2, 0xfffc, 2},	 /* value offset */
		{32 + 4, 12, 4},	 /* value inode */
		{32 + 8, 0x00ffffff, 4}, /* value size */
	};
	struct inode *file;
	struct buffer_head *bh;
	handle_t *handle;
	char value[600];
	uint32_t v;
	struct env e;

	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		open_hostile(&e, "-b 1024 -I 128");
		log_set_sink(quiet, NULL);
		ck_assert_int_eq(env_create(e.e_root, "f", S_IFREG | 0644, &file), 0);
		ck_assert_int_eq(ext4_setxattr(file, "user.one", "value", 5, 0, &env_root), 0);
		handle = ext4_journal_start(file, HT_XATTR, 2);
		bh = bh_read(e.e_sb->s_bcache, file->i_file_acl);
		ck_assert_int_eq(ext4_journal_get_write_access(handle, bh), 0);
		v = cpu_to_le32(cases[i].value);
		lock_buffer(bh);
		memcpy(bh->b_data + cases[i].offset, &v, cases[i].bytes);
		ext4_xattr_block_csum_set(file, file->i_file_acl, bh->b_data);
		unlock_buffer(bh);
		ck_assert_int_eq(ext4_handle_dirty_metadata(handle, NULL, bh), 0);
		bh_put(bh);
		ck_assert_int_eq(ext4_journal_stop(handle, 0), 0);
		iput(file);
		remount_hostile(&e);
		file = env_lookup(e.e_root, "f");
		ck_assert_int_eq(ext4_getxattr(file, "user.one", value, sizeof(value)),
				 -EFSCORRUPTED);
		ck_assert_int_eq(ext4_setxattr(file, "user.two", "x", 1, 0, &env_root),
				 -EFSCORRUPTED);
		ck_assert_int_eq(ext4_listxattr(file, value, sizeof(value), true), -EFSCORRUPTED);
		iput(file);
		ck_assert_int_eq(env_unlink(e.e_root, "f"), 0);
		umount_hostile(&e);
		free(e.e_image);
	}
}
END_TEST

START_TEST(a_damaged_acl_gives_no_access)
{
	struct xattr_change change = {.c_name = {.n_index = XATTR_INDEX_ACL_ACCESS, .n_name = ""},
				      .c_value = "\1\0\0\0\1\0\7\0\2\0\7\0",
				      .c_bytes = 12};
	struct ns_attr attr = {.na_valid = NS_SET_MODE, .na_mode = 0777};
	struct inode *file;
	char value[100];
	struct env e;

	open_hostile(&e, "-b 1024");
	log_set_sink(quiet, NULL);
	ck_assert_int_eq(env_create(e.e_root, "f", S_IFREG | 0644, &file), 0);
	down_write(&file->i_rwsem);
	ck_assert_int_eq(ext4_xattr_set_locked(file, &change, 0), 0);
	up_write(&file->i_rwsem);
	iput(file);
	remount_hostile(&e);
	file = env_lookup(e.e_root, "f");
	ck_assert_int_eq(ext4_getxattr(file, "system.posix_acl_access", value, sizeof(value)),
			 -EFSCORRUPTED);
	ck_assert_int_eq(ext4_setattr(file, &attr, &env_root), -EFSCORRUPTED);
	ck_assert_int_eq(ext4_removexattr(file, "system.posix_acl_access"), 0);
	ck_assert_int_eq(ext4_setattr(file, &attr, &env_root), 0);
	iput(file);
	umount_hostile(&e);
	free(e.e_image);
}
END_TEST

START_TEST(symlinks_of_the_wrong_length)
{
	char target[200], buf[4200];
	struct inode *link;
	struct env e;

	open_hostile(&e, "-b 1024");
	log_set_sink(quiet, NULL);
	memset(target, 't', sizeof(target));
	target[199] = '\0';
	ck_assert_int_eq(env_symlink(e.e_root, "slow", target), 0);
	link = env_lookup(e.e_root, "slow");
	i_size_write(link, 150);
	ck_assert_int_eq(ext4_readlink(link, buf, sizeof(buf)), -EFSCORRUPTED);
	i_size_write(link, 250);
	ck_assert_int_eq(ext4_readlink(link, buf, sizeof(buf)), -EFSCORRUPTED);
	i_size_write(link, 1024);
	ck_assert_int_eq(ext4_readlink(link, buf, sizeof(buf)), -EFSCORRUPTED);
	i_size_write(link, 0);
	ck_assert_int_eq(ext4_readlink(link, buf, sizeof(buf)), -EFSCORRUPTED);
	i_size_write(link, 199);
	ck_assert_int_eq(ext4_readlink(link, buf, sizeof(buf)), 199);
	iput(link);
	umount_hostile(&e);
	free(e.e_image);
}
END_TEST

/* ---- At random ---- */

/* Everything that can be done with a directory; only that it ends matters. */
static void use_everything(struct env *e, struct prng *rng)
{
	struct inode *dir, *inode;
	char name[64], value[1100];
	struct env_list l;

	if (ext4_lookup(e->e_root, "d", 1, &dir) != 0)
		return;
	for (unsigned i = 0; i < 12; i++) {
		unsigned n = (unsigned)prng_below(rng, 60);

		snprintf(name, sizeof(name), "a-name-of-some-length-%u", n);
		if (ext4_lookup(dir, name, strlen(name), &inode) == 0) {
			(void)ext4_getxattr(inode, "user.big", value, sizeof(value));
			(void)ext4_setxattr(inode, "user.new", value, 40, 0, &env_root);
			(void)ext4_listxattr(inode, value, sizeof(value), true);
			(void)ext4_removexattr(inode, "user.big");
			(void)ext4_readlink(inode, value, sizeof(value));
			iput(inode);
		}
		(void)env_unlink(dir, name);
		(void)env_rename(dir, name, e->e_root, name, 0);
		snprintf(name, sizeof(name), "a-new-name-that-needs-room-%u", n);
		(void)env_touch(dir, name);
	}
	(void)env_list_all(dir, 10, &l);
	ck_assert_uint_lt(l.l_count, 20000);
	env_list_free(&l);
	(void)env_rename(e->e_root, "d", e->e_root, "lost+found", 0);
	(void)env_rmdir(e->e_root, "d");
	iput(dir);
}

static void damage(struct env *e, struct prng *rng)
{
	struct inode *dir = env_lookup(e->e_root, "d");
	ext4_lblk_t blocks;

	ck_assert_int_eq(ext4_dir_blocks(dir, &blocks), 0);
	for (unsigned i = 0; i < 1 + prng_below(rng, 4); i++) {
		ext4_lblk_t lblk = (ext4_lblk_t)prng_below(rng, blocks);
		unsigned at = (unsigned)prng_below(rng, prng_chance(rng, 1, 2) ? 80 : 1000);
		uint8_t byte = prng_chance(rng, 1, 3) ? 0xff : (uint8_t)prng_next(rng);

		poke(dir, lblk, at, &byte, 1, lblk == 0 ? FIX_INDEX : FIX_LEAF);
	}
	if (prng_chance(rng, 1, 2)) {
		struct inode *file;
		uint8_t byte = (uint8_t)prng_next(rng);

		if (ext4_lookup(dir, "a-name-of-some-length-7", 23, &file) == 0) {
			poke_inode(file, 160 + (unsigned)prng_below(rng, 96), &byte, 1);
			iput(file);
		}
	}
	iput(dir);
}

START_TEST(random_damage_with_right_checksums)
{
	struct inode *dir, *file;
	struct prng rng;
	uint8_t *good;
	struct env e;

	prng_seed(&rng, prng_seed_from_env(20240607));
	open_hostile(&e, "-b 1024 -I 256");
	log_set_sink(quiet, NULL);
	dir = make_indexed(&e, 60);
	for (unsigned i = 0; i < 60; i += 7) {
		char name[64];
		char value[300] = "v";

		snprintf(name, sizeof(name), "a-name-of-some-length-%u", i);
		file = env_lookup(dir, name);
		ck_assert_int_eq(ext4_setxattr(file, "user.small", "s", 1, 0, &env_root), 0);
		ck_assert_int_eq(ext4_setxattr(file, "user.big", value, 300, 0, &env_root), 0);
		iput(file);
	}
	iput(dir);
	umount_hostile(&e);
	good = malloc(e.e_bytes);
	memcpy(good, e.e_image, e.e_bytes);
	for (unsigned i = 0; i < 150; i++) {
		memcpy(e.e_image, good, e.e_bytes);
		env_mount(&e);
		damage(&e, &rng);
		remount_hostile(&e);
		use_everything(&e, &rng);
		umount_hostile(&e);
	}
	free(good);
	free(e.e_image);
}
END_TEST

int main(void)
{
	return RUN_TESTS(
		"namespace/hostile", bad_entries_are_errors,
		entries_may_not_name_reserved_or_unused_inodes, directories_that_name_themselves,
		a_loop_of_parents_is_found, missing_dots_are_noticed, a_wrong_checksum_is_EFSBADCRC,
		an_unusable_index_is_searched_block_by_block, index_entries_that_lead_astray,
		index_hashes_in_disorder_do_not_loop, bad_attributes_in_the_inode,
		bad_attribute_blocks, a_damaged_acl_gives_no_access, symlinks_of_the_wrong_length,
		random_damage_with_right_checksums);
}
