/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * test_read_errors.c - metadata blocks that the device cannot read: which of them are errors of the file system, and what is answered.
 *
 * As in the kernel: a directory that is searched block by block is one, so is a map without which blocks cannot be freed. A map that is only looked
 * at, attributes, an indexed directory and a listing fail with EIO and nothing else, whatever errors= says.
 *
 * Invariants: (1) the caller sees EIO. (2) What is recorded has the inode, the block if there is one, and EIO as its code. (3) When the device can read
 * again, so can the file system.
 * Locking: one thread.
 */
#include "tests/unit/namespace/nsenv.h"

#include "alloc/alloc.h"
#include "alloc/map.h"
#include "block/filter_fault.h"
#include "ext4/ext4_int.h"
#include "namespace/xattr.h"

#define PIECES 300u

static void quiet(enum log_level level, const char *line, void *arg)
{
	(void)level;
	(void)line;
	(void)arg;
}

/* ---- A file system whose device can fail ---- */

struct failing {
	struct env f_env;
	struct blkdev *f_dev;
	int f_rule;
};

static void mount_failing(struct failing *f, enum ext4_errors errors)
{
	struct env *e = &f->f_env;

	e->e_opts.o_errors = errors;
	f->f_dev = fault_open(mem_open(e->e_bytes, 512, e->e_image), &(struct fault_options){0});
	ck_assert(!IS_ERR(f->f_dev));
	ck_assert_int_eq(ext4_mount(f->f_dev, &e->e_opts, &e->e_sb), 0);
	e->e_root = ext4_iget(e->e_sb, EXT4_ROOT_INO, EXT4_IGET_NORMAL);
	ck_assert(!IS_ERR(e->e_root));
}

/* From now on the block cannot be read. */
static void fail_block(struct failing *f, ext4_fsblk_t block)
{
	struct fault_rule rule = {.fr_kind = FAULT_ERROR,
				  .fr_ops = FAULT_OP(REQ_OP_READ),
				  .fr_from_bytes = block * 1024,
				  .fr_to_bytes = (block + 1) * 1024,
				  .fr_count = FAULT_FOREVER};

	ck_assert_uint_ne(block, 0);
	f->f_rule = fault_arm(f->f_dev, &rule);
	ck_assert_int_ge(f->f_rule, 0);
}

static void heal(struct failing *f)
{
	ck_assert_uint_gt(fault_hits(f->f_dev, f->f_rule), 0);
	fault_disarm_all(f->f_dev);
}

static void check_record(const struct failing *f, uint32_t ino, ext4_fsblk_t block)
{
	struct ext2_super_block es;

	ext4_error_view(f->f_env.e_sb, &es);
	ck_assert_uint_ge(le32_to_cpu(es.s_error_count), 1);
	ck_assert_uint_eq(es.s_last_error_errcode, EXT4_ERR_EIO);
	ck_assert_uint_eq(le32_to_cpu(es.s_last_error_ino), ino);
	ck_assert_uint_eq(le64_to_cpu(es.s_last_error_block), block);
}

static void check_no_record(const struct failing *f)
{
	struct ext2_super_block es;

	ext4_error_view(f->f_env.e_sb, &es);
	ck_assert_uint_eq(le32_to_cpu(es.s_error_count), 0);
	ck_assert(!sb_rdonly(f->f_env.e_sb));
}

/* With errors it is not e2fsck's "clean", without it is. */
static void close_failing(struct failing *f, int umount_err)
{
	struct env *e = &f->f_env;
	struct blkdev *dev;

	iput(e->e_root);
	ck_assert_int_eq(ext4_umount(e->e_sb), umount_err);
	dev = mem_open(e->e_bytes, 512, e->e_image);
	if (umount_err != 0)
		ck_assert_int_le(testlib_fsck_args(dev, "-fy"), 1);
	ck_assert_int_eq(testlib_fsck(dev), 0);
	blk_close(dev);
	free(e->e_image);
}

/* ---- Directories ---- */

static void make_wide_dir(struct env *e)
{
	struct inode *dir = env_mkdir(e->e_root, "d");
	char name[200];

	memset(name, 'n', sizeof(name));
	for (unsigned i = 0; i < 12; i++) {
		snprintf(name + 180, 20, "%u", i);
		ck_assert_int_eq(env_touch(dir, name), 0);
	}
	iput(dir);
}

static ext4_fsblk_t block_of(struct inode *inode, ext4_lblk_t lblk)
{
	struct ext4_map_blocks map = {.m_lblk = lblk, .m_len = 1};

	ck_assert_int_eq(ext4_map_blocks(NULL, inode, &map, 0), 1);
	return map.m_pblk;
}

static void open_dir(struct failing *f, const char *mkfs, enum ext4_errors errors,
		     struct inode **dir)
{
	struct env *e = &f->f_env;

	log_set_sink(quiet, NULL);
	env_open(e, mkfs, 8 * MIB);
	make_wide_dir(e);
	env_umount(e);
	mount_failing(f, errors);
	*dir = env_lookup(e->e_root, "d");
}

static void search_a_walk(enum ext4_errors errors)
{
	struct failing f;
	struct inode *dir;
	ext4_fsblk_t block;

	open_dir(&f, "-b 1024 -O ^dir_index", errors, &dir);
	block = block_of(dir, 1);
	fail_block(&f, block);
	ck_assert_int_eq(env_find(dir, "nothing"), -EIO);
	check_record(&f, dir->i_ino, block);
	ck_assert_int_eq(sb_rdonly(f.f_env.e_sb), errors == ERRORS_RO);
	heal(&f);
	ck_assert_int_eq(env_find(dir, "nothing"), -ENOENT);
	ck_assert_int_eq(env_touch(dir, "more"), errors == ERRORS_RO ? -EROFS : 0);
	iput(dir);
	close_failing(&f, -EIO);
}

START_TEST(a_block_missing_from_a_search_is_recorded)
{
	search_a_walk(ERRORS_CONTINUE);
	search_a_walk(ERRORS_RO);
}
END_TEST

START_TEST(read_ahead_and_a_listing_only_fail)
{
	struct failing f;
	struct inode *dir;
	struct env_list l;

	open_dir(&f, "-b 1024 -O ^dir_index", ERRORS_RO, &dir);
	fail_block(&f, block_of(dir, 1));
	ext4_dir_readahead(dir, 0, 3);
	check_no_record(&f);
	ck_assert_int_eq(env_list_all(dir, 4, &l), -EIO);
	env_list_free(&l);
	check_no_record(&f);
	heal(&f);
	ck_assert_int_eq(env_list_all(dir, 4, &l), 0);
	ck_assert_uint_eq(l.l_count, 14);
	env_list_free(&l);
	iput(dir);
	close_failing(&f, 0);
}
END_TEST

START_TEST(a_leaf_of_an_index_only_fails)
{
	struct failing f;
	struct inode *dir;
	unsigned failed = 0;
	char name[200];

	open_dir(&f, "-b 1024 -O dir_index", ERRORS_RO, &dir);
	ck_assert(ext4_dir_indexed(dir));
	fail_block(&f, block_of(dir, 1));
	memset(name, 'n', sizeof(name));
	for (unsigned i = 0; i < 12; i++) {
		snprintf(name + 180, 20, "%u", i);
		failed += env_find(dir, name) == -EIO;
	}
	ck_assert_uint_gt(failed, 0);
	check_no_record(&f);
	heal(&f);
	iput(dir);
	close_failing(&f, 0);
}
END_TEST

/* ---- Maps and attributes ---- */

static void put_pieces(struct inode *inode)
{
	char c[1024] = "x";
	struct iovec iov = {.iov_base = c, .iov_len = sizeof(c)};

	for (unsigned i = 0; i < PIECES; i++) {
		struct wb_write w = {
			.w_iov = &iov, .w_iovcnt = 1, .w_len = sizeof(c), .w_pos = i * 2048u};

		w.w_cred.cr_privileged = true;
		ck_assert_int_eq(file_write(inode, &w), sizeof(c));
	}
}

/* One of the blocks that hold the map of the file: not data, not there without it. */
static ext4_fsblk_t map_block(const struct inode *inode)
{
	uint32_t words[15];

	memcpy(words, inode->i_block, sizeof(words));
	/* An index entry behind the header: its leaf. Or the first indirect block. */
	return le32_to_cpu(ext4_is_extents(inode) ? words[4] : words[EXT2_IND_BLOCK]);
}

static void open_file(struct failing *f, const char *mkfs, enum ext4_errors errors,
		      struct inode **inode)
{
	struct env *e = &f->f_env;
	char value[400];

	log_set_sink(quiet, NULL);
	env_open(e, mkfs, 8 * MIB);
	ck_assert_int_eq(env_create(e->e_root, "file", S_IFREG | 0644, inode), 0);
	put_pieces(*inode);
	memset(value, 'v', sizeof(value));
	ck_assert_int_eq(ext4_setxattr(*inode, "user.v", value, sizeof(value), 0, &env_root), 0);
	iput(*inode);
	env_umount(e);
	mount_failing(f, errors);
	*inode = env_lookup(e->e_root, "file");
}

static int read_byte(struct inode *inode, uint64_t pos)
{
	static struct wb_read r;
	int err = file_read(inode, pos, 1, 0, &r);

	if (err == 0)
		wb_read_done(&r);
	return err;
}

static const char *const maps[] = {"-b 1024 -I 128", "-b 1024 -I 128 -O ^extent,^64bit"};

static void look_at_map(const char *mkfs)
{
	const uint64_t pos = 20 * 2048; /* in the first leaf, past the direct blocks */
	struct failing f;
	struct inode *inode;

	open_file(&f, mkfs, ERRORS_RO, &inode);
	fail_block(&f, map_block(inode));
	ck_assert_int_eq(read_byte(inode, pos), -EIO);
	check_no_record(&f);
	heal(&f);
	ck_assert_int_eq(read_byte(inode, pos), 0);
	iput(inode);
	close_failing(&f, 0);
}

START_TEST(a_map_that_is_looked_at_only_fails)
{
	for (unsigned i = 0; i < 2; i++)
		look_at_map(maps[i]);
}
END_TEST

static void read_attributes(const char *mkfs)
{
	struct failing f;
	struct inode *inode;
	char value[400];

	open_file(&f, mkfs, ERRORS_RO, &inode);
	fail_block(&f, inode->i_file_acl);
	ck_assert_int_eq(ext4_getxattr(inode, "user.v", value, sizeof(value)), -EIO);
	check_no_record(&f);
	heal(&f);
	ck_assert_int_eq(ext4_getxattr(inode, "user.v", value, sizeof(value)), sizeof(value));
	iput(inode);
	close_failing(&f, 0);
}

START_TEST(attributes_that_cannot_be_read_only_fail)
{
	for (unsigned i = 0; i < 2; i++)
		read_attributes(maps[i]);
}
END_TEST

/* With and without extents, and with each answer. */
static void with_all_maps(void (*check)(const char *mkfs, enum ext4_errors errors))
{
	for (unsigned i = 0; i < 2; i++) {
		check(maps[i], ERRORS_CONTINUE);
		check(maps[i], ERRORS_RO);
	}
}

static void cut_short(const char *mkfs, enum ext4_errors errors)
{
	struct failing f;
	struct inode *inode;

	open_file(&f, mkfs, errors, &inode);
	fail_block(&f, map_block(inode));
	ck_assert_int_eq(ext4_truncate_to(inode, 5000), -EIO);
	check_record(&f, inode->i_ino, 0);
	ck_assert_int_eq(sb_rdonly(f.f_env.e_sb), errors == ERRORS_RO);
	heal(&f);
	iput(inode);
	close_failing(&f, -EIO);
}

START_TEST(blocks_that_a_truncate_cannot_free_are_recorded)
{
	with_all_maps(cut_short);
}
END_TEST

static void remove_it(const char *mkfs, enum ext4_errors errors)
{
	struct failing f;
	struct inode *inode;
	uint32_t ino;

	open_file(&f, mkfs, errors, &inode);
	ino = inode->i_ino;
	fail_block(&f, map_block(inode));
	ck_assert_int_eq(env_unlink(f.f_env.e_root, "file"), 0);
	iput(inode);
	ext4_drain_evictions(f.f_env.e_sb);
	check_record(&f, ino, 0);
	ck_assert_int_eq(sb_rdonly(f.f_env.e_sb), errors == ERRORS_RO);
	heal(&f);
	close_failing(&f, -EIO);
}

START_TEST(blocks_of_a_removed_file_that_cannot_be_freed_are_recorded)
{
	with_all_maps(remove_it);
}
END_TEST

int main(void)
{
	return RUN_TESTS("namespace/read_errors", a_block_missing_from_a_search_is_recorded,
			 read_ahead_and_a_listing_only_fail, a_leaf_of_an_index_only_fails,
			 a_map_that_is_looked_at_only_fails,
			 attributes_that_cannot_be_read_only_fail,
			 blocks_that_a_truncate_cannot_free_are_recorded,
			 blocks_of_a_removed_file_that_cannot_be_freed_are_recorded);
}
