/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * test_fc_replay.c - fast commits made by hand are replayed: each kind of record, in odd orders, damaged, and cut.
 *
 * The base image holds a directory "d" (inode 14) and files "a" (13) and "d/b" (15), and an orphan file or a file "pad" as
 * 12; a fast-commit area is written behind its log, which is empty.
 *
 * Invariants: (1) each replay that succeeds ends with a clean e2fsck.
 * Locking: none.
 */
#include "tests/lib/suite.h"
#include "tests/unit/namespace/nsenv.h"

#include "alloc/alloc.h"
#include "alloc/map.h"
#include "block/filter_log.h"
#include "tests/lib/crash.h"
#include "tests/unit/journal/ext4_image.h"
#include "tests/unit/journal/fc_area.h"

#define FC_BLOCKS 64u
#define INO_A 13u
#define INO_D 14u
#define INO_B 15u
#define INO_FREE 20u
#define FREE_BLOCK 7000u /* nothing is near it */
#define RAW_BYTES 160u

/* An image with a log that is empty, and a fast-commit area to be filled. */
struct fc_env {
	struct env e;
	struct ext4_image ei;
	struct blkdev *dev; /* over e.e_image */
	struct fc_area area;
	uint32_t tid;
};

/* ---- Making ---- */

static void set_up(struct fc_env *fe, const char *args)
{
	struct inode *d;

	env_open(&fe->e, args, 12 * MIB);
	if (strstr(args, "orphan_file") == NULL)
		ck_assert_int_eq(env_touch(fe->e.e_root, "pad"), 0);
	ck_assert_int_eq(env_touch(fe->e.e_root, "a"), 0);
	d = env_mkdir(fe->e.e_root, "d");
	ck_assert_uint_eq(d->i_ino, INO_D);
	ck_assert_int_eq(env_touch(d, "b"), 0);
	iput(d);
	env_umount(&fe->e);
	fe->dev = mem_open(fe->e.e_bytes, 512, fe->e.e_image);
	ei_open(&fe->ei, fe->dev);
	fe->tid = get_be32(ei_log_block(&fe->ei, 0) +
			   offsetof(struct jbd2_superblock_disk, s_sequence));
	fca_init(&fe->area, fe->ei.ei_block_bytes);
	fca_head(&fe->area, 0, fe->tid);
}

static void put_journal_sb(struct fc_env *fe)
{
	uint8_t *sb = ei_log_block(&fe->ei, 0);
	const uint32_t incompat =
		get_be32(sb + offsetof(struct jbd2_superblock_disk, s_feature_incompat));

	put_be32(sb + offsetof(struct jbd2_superblock_disk, s_feature_incompat),
		 incompat | JBD2_FEATURE_INCOMPAT_FAST_COMMIT);
	put_be32(sb + offsetof(struct jbd2_superblock_disk, s_num_fc_blks), FC_BLOCKS);
	put_be32(sb + offsetof(struct jbd2_superblock_disk, s_start), 1);
	put_be32(sb + offsetof(struct jbd2_superblock_disk, s_sequence), fe->tid);
	if ((incompat & (JBD2_FEATURE_INCOMPAT_CSUM_V2 | JBD2_FEATURE_INCOMPAT_CSUM_V3)) != 0)
		put_be32(sb + offsetof(struct jbd2_superblock_disk, s_checksum), jbd2_sb_csum(sb));
}

/* The records so far are one fast commit. */
static void finish(struct fc_env *fe)
{
	const uint32_t maxlen = get_be32(ei_log_block(&fe->ei, 0) +
					 offsetof(struct jbd2_superblock_disk, s_maxlen));
	const uint32_t first = maxlen - FC_BLOCKS + 1;

	fca_tail(&fe->area, fe->tid);
	put_journal_sb(fe);
	ei_set_needs_recovery(&fe->ei);
	for (unsigned i = 0; i * fe->ei.ei_block_bytes < fe->area.fa_at; i++)
		memcpy(ei_log_block(&fe->ei, first + i),
		       fe->area.fa_data + (size_t)i * fe->ei.ei_block_bytes, fe->ei.ei_block_bytes);
}

static void tear_down(struct fc_env *fe)
{
	blk_close(fe->dev);
	free(fe->e.e_image);
}

/* Mounted, with the records replayed. */
static void replay(struct fc_env *fe)
{
	finish(fe);
	env_mount(&fe->e);
}

static void close_clean(struct fc_env *fe)
{
	env_umount(&fe->e);
	env_fsck(&fe->e);
	tear_down(fe);
}

/* ---- Records ---- */

static void add_range(struct fc_env *fe, uint32_t ino, uint32_t lblk, uint64_t pblk, unsigned len)
{
	uint8_t v[16];

	fca_put_le32(v, ino);
	fca_put_le32(v + 4, lblk);
	fca_put_le16(v + 8, len);
	fca_put_le16(v + 10, (unsigned)(pblk >> 32));
	fca_put_le32(v + 12, (uint32_t)pblk);
	fca_add(&fe->area, JBD2_FC_TAG_ADD_RANGE, v, sizeof(v));
}

static void del_range(struct fc_env *fe, uint32_t ino, uint32_t lblk, uint32_t len)
{
	uint8_t v[12];

	fca_put_le32(v, ino);
	fca_put_le32(v + 4, lblk);
	fca_put_le32(v + 8, len);
	fca_add(&fe->area, JBD2_FC_TAG_DEL_RANGE, v, sizeof(v));
}

static void add_name(struct fc_env *fe, unsigned tag, uint32_t parent, uint32_t ino,
		     const char *name)
{
	uint8_t v[8 + 255];
	const size_t len = strlen(name);

	fca_put_le32(v, parent);
	fca_put_le32(v + 4, ino);
	memcpy(v + 8, name, len);
	fca_add(&fe->area, tag, v, 8 + (unsigned)len);
}

/* A raw inode as a record has it. */
static struct ext2_inode_large raw_inode(uint16_t mode, uint64_t size, uint32_t generation)
{
	struct ext2_inode_large raw;

	memset(&raw, 0, sizeof(raw));
	raw.i_mode = cpu_to_le16(mode);
	raw.i_size = cpu_to_le32((uint32_t)size);
	raw.i_size_high = cpu_to_le32((uint32_t)(size >> 32));
	raw.i_links_count = cpu_to_le16(1);
	raw.i_uid = cpu_to_le16(7);
	raw.i_mtime = cpu_to_le32(1000000);
	raw.i_ctime = raw.i_mtime;
	raw.i_atime = raw.i_mtime;
	raw.i_extra_isize = cpu_to_le16(32);
	raw.i_generation = cpu_to_le32(generation);
	if (S_ISREG(mode) || S_ISDIR(mode))
		raw.i_flags = cpu_to_le32(EXT4_EXTENTS_FL);
	return raw;
}

static void add_raw(struct fc_env *fe, uint32_t ino, const struct ext2_inode_large *raw)
{
	uint8_t v[4 + RAW_BYTES];

	fca_put_le32(v, ino);
	memcpy(v + 4, raw, RAW_BYTES);
	fca_add(&fe->area, JBD2_FC_TAG_INODE, v, sizeof(v));
}

static void add_inode(struct fc_env *fe, uint32_t ino, uint16_t mode, uint64_t size,
		      uint32_t generation)
{
	const struct ext2_inode_large raw = raw_inode(mode, size, generation);

	add_raw(fe, ino, &raw);
}

/* The inode's generation as it is on the disk: what a record of it carries. */
static uint32_t generation_of(struct fc_env *fe, uint32_t ino)
{
	struct inode *inode;
	uint32_t generation;

	env_mount(&fe->e);
	inode = ext4_iget(fe->e.e_sb, ino, EXT4_IGET_NORMAL);
	ck_assert(!IS_ERR(inode));
	generation = inode->i_generation;
	iput(inode);
	env_umount(&fe->e);
	/* That was another life of the log. */
	fe->tid = get_be32(ei_log_block(&fe->ei, 0) +
			   offsetof(struct jbd2_superblock_disk, s_sequence));
	fca_init(&fe->area, fe->ei.ei_block_bytes);
	fca_head(&fe->area, 0, fe->tid);
	return generation;
}

/* ---- Looking ---- */

static void expect_map(struct inode *inode, uint32_t lblk, uint32_t len, uint64_t pblk,
		       unsigned flags)
{
	for (uint32_t i = 0; i < len; i++) {
		struct ext4_map_blocks map = {.m_lblk = lblk + i, .m_len = 1};

		ck_assert_int_ge(ext4_map_blocks(NULL, inode, &map, 0), 0);
		ck_assert_uint_eq(map.m_flags & (EXT4_MAP_MAPPED | EXT4_MAP_UNWRITTEN), flags);
		if (flags != 0)
			ck_assert_uint_eq(map.m_pblk, pblk + i);
	}
}

static struct inode *expect_file(struct inode *dir, const char *name, uint32_t ino, uint32_t nlink)
{
	struct inode *inode = env_lookup(dir, name);

	ck_assert_uint_eq(inode->i_ino, ino);
	ck_assert_uint_eq(env_nlink(inode), nlink);
	return inode;
}

static uint64_t sectors(struct inode *inode)
{
	return atomic_load(&inode->i_blocks);
}

static const char *const formats[] = {"-b 1024 -J size=2 -O fast_commit",
				      "-b 4096 -J size=5 -O fast_commit",
				      "-b 1024 -J size=2 -O fast_commit,orphan_file",
				      "-b 1024 -J size=2 -O fast_commit,^metadata_csum,^64bit"};
#define FORMATS ((int)(sizeof(formats) / sizeof(formats[0])))

/* A block that is free in any of them. */
static uint64_t some_block(const struct fc_env *fe)
{
	return fe->ei.ei_block_bytes == 4096 ? 2600 : FREE_BLOCK;
}

/* ---- Each kind ---- */

START_TEST(a_new_file_comes_with_name_attributes_and_blocks)
{
	struct inode *inode;
	struct fc_env fe;
	struct stat st;
	uint64_t blk;

	set_up(&fe, formats[_i]);
	blk = some_block(&fe);
	add_inode(&fe, INO_FREE, S_IFREG | 0640, 5 * 4096, 99);
	add_range(&fe, INO_FREE, 0, blk, 3);
	add_range(&fe, INO_FREE, 8, blk + 10, (1u << 15) + 2);
	add_name(&fe, JBD2_FC_TAG_CREAT, INO_D, INO_FREE, "new");
	add_inode(&fe, INO_FREE, S_IFREG | 0600, 5 * 4096, 99);
	replay(&fe);
	inode = env_lookup(fe.e.e_root, "d");
	ck_assert_int_eq(env_find(inode, "new"), 0);
	iput(inode);
	inode = ext4_iget(fe.e.e_sb, INO_FREE, EXT4_IGET_NORMAL);
	ck_assert(!IS_ERR(inode));
	ext4_getattr(inode, &st);
	ck_assert_uint_eq(st.st_mode, S_IFREG | 0600);
	ck_assert_uint_eq(st.st_uid, 7);
	ck_assert_int_eq(st.st_size, 5 * 4096);
	ck_assert_int_eq(st.st_mtim.tv_sec, 1000000);
	ck_assert_uint_eq(st.st_nlink, 1);
	ck_assert_uint_eq(inode->i_generation, 99);
	ck_assert_uint_eq(sectors(inode), 5 * (fe.ei.ei_block_bytes / 512));
	expect_map(inode, 0, 3, blk, EXT4_MAP_MAPPED);
	expect_map(inode, 3, 5, 0, 0);
	expect_map(inode, 8, 2, blk + 10, EXT4_MAP_UNWRITTEN);
	iput(inode);
	/* The next one gets another number and other blocks. */
	ck_assert_int_eq(env_touch(fe.e.e_root, "next"), 0);
	close_clean(&fe);
}
END_TEST

START_TEST(ranges_move_change_their_kind_and_go)
{
	struct inode *inode;
	uint32_t gen, gen_b;
	struct fc_env fe;
	uint64_t blk;

	set_up(&fe, formats[_i]);
	gen_b = generation_of(&fe, INO_B);
	gen = generation_of(&fe, INO_A);
	blk = some_block(&fe);
	add_range(&fe, INO_A, 0, blk, (1u << 15) + 20);
	add_range(&fe, INO_A, 5, blk + 5, 4);	/* written now */
	add_range(&fe, INO_A, 12, blk + 30, 3); /* elsewhere now */
	del_range(&fe, INO_A, 2, 2);
	del_range(&fe, INO_A, 17, EXT4_MAX_BLOCKS - 17);
	/* What was given up is taken again, by another. */
	add_range(&fe, INO_B, 0, blk + 17, 2);
	add_inode(&fe, INO_A, S_IFREG | 0644, 17 * fe.ei.ei_block_bytes, gen);
	add_inode(&fe, INO_B, S_IFREG | 0644, 2 * fe.ei.ei_block_bytes, gen_b);
	replay(&fe);
	inode = expect_file(fe.e.e_root, "a", INO_A, 1);
	expect_map(inode, 0, 2, blk, EXT4_MAP_UNWRITTEN);
	expect_map(inode, 2, 2, 0, 0);
	expect_map(inode, 4, 1, blk + 4, EXT4_MAP_UNWRITTEN);
	expect_map(inode, 5, 4, blk + 5, EXT4_MAP_MAPPED);
	expect_map(inode, 9, 3, blk + 9, EXT4_MAP_UNWRITTEN);
	expect_map(inode, 12, 3, blk + 30, EXT4_MAP_MAPPED);
	expect_map(inode, 15, 2, blk + 15, EXT4_MAP_UNWRITTEN);
	expect_map(inode, 17, 10, 0, 0);
	/* Six extents: one block is a leaf of the tree. */
	ck_assert_uint_eq(sectors(inode), 16 * (fe.ei.ei_block_bytes / 512));
	iput(inode);
	close_clean(&fe);
}
END_TEST

START_TEST(a_tree_of_many_extents_grows_and_shrinks)
{
	struct inode *inode;
	struct fc_env fe;
	uint32_t gen;
	uint64_t blk;

	set_up(&fe, formats[_i]);
	gen = generation_of(&fe, INO_A);
	blk = some_block(&fe) - 400;
	for (unsigned i = 0; i < 120; i++)
		add_range(&fe, INO_A, 1000 - i * 2, blk + i * 3, 1);
	for (unsigned i = 0; i < 120; i += 3)
		del_range(&fe, INO_A, 1000 - i * 2, 1);
	add_inode(&fe, INO_A, S_IFREG | 0644, 1001 * fe.ei.ei_block_bytes, gen);
	replay(&fe);
	inode = expect_file(fe.e.e_root, "a", INO_A, 1);
	for (unsigned i = 0; i < 120; i++)
		expect_map(inode, 1000 - i * 2, 1, blk + i * 3, i % 3 == 0 ? 0 : EXT4_MAP_MAPPED);
	iput(inode);
	close_clean(&fe);
}
END_TEST

START_TEST(names_come_and_go_and_links_are_counted)
{
	struct inode *d, *inode;
	struct fc_env fe;

	set_up(&fe, formats[_i]);
	add_name(&fe, JBD2_FC_TAG_LINK, INO_D, INO_A, "a2");
	add_name(&fe, JBD2_FC_TAG_LINK, INO_D, INO_A, "a2"); /* again: there already */
	add_name(&fe, JBD2_FC_TAG_LINK, 2, INO_A, "a3");
	add_name(&fe, JBD2_FC_TAG_UNLINK, 2, INO_A, "a");
	/* A rename over a file. */
	add_name(&fe, JBD2_FC_TAG_UNLINK, INO_D, INO_B, "b");
	add_name(&fe, JBD2_FC_TAG_LINK, INO_D, INO_A, "b");
	add_name(&fe, JBD2_FC_TAG_UNLINK, INO_D, INO_A, "a2");
	/* What is not there. */
	add_name(&fe, JBD2_FC_TAG_UNLINK, INO_D, INO_B, "nothing");
	add_name(&fe, JBD2_FC_TAG_UNLINK, INO_D, 77, "b");
	add_name(&fe, JBD2_FC_TAG_UNLINK, 66, INO_A, "a3");
	add_name(&fe, JBD2_FC_TAG_LINK, 66, INO_A, "a4");
	add_name(&fe, JBD2_FC_TAG_LINK, 2, 67, "a5");
	del_range(&fe, 68, 0, 7);
	replay(&fe);
	ck_assert_int_eq(env_find(fe.e.e_root, "a"), -ENOENT);
	d = expect_file(fe.e.e_root, "d", INO_D, 2);
	iput(expect_file(fe.e.e_root, "a3", INO_A, 2));
	iput(expect_file(d, "b", INO_A, 2));
	ck_assert_int_eq(env_find(d, "a2"), -ENOENT);
	iput(d);
	inode = ext4_iget(fe.e.e_sb, INO_B, EXT4_IGET_HANDLE);
	ck_assert(IS_ERR(inode));
	close_clean(&fe);
}
END_TEST

START_TEST(directories_and_special_files_are_made_and_removed)
{
	struct ext2_inode_large raw;
	struct inode *dir, *inode;
	char target[4097];
	struct fc_env fe;

	set_up(&fe, formats[_i]);
	add_inode(&fe, 20, S_IFDIR | 0755, 4096, 5);
	add_name(&fe, JBD2_FC_TAG_CREAT, INO_D, 20, "sub");
	add_inode(&fe, 21, S_IFREG | 0600, 0, 6);
	add_name(&fe, JBD2_FC_TAG_CREAT, 20, 21, "f");
	add_inode(&fe, 22, S_IFDIR | 0755, 4096, 5);
	add_name(&fe, JBD2_FC_TAG_CREAT, 2, 22, "gone");
	add_name(&fe, JBD2_FC_TAG_UNLINK, 2, 22, "gone");
	raw = raw_inode(S_IFLNK | 0777, 6, 8);
	memcpy(raw.i_block, "target", 6);
	add_raw(&fe, 23, &raw);
	add_name(&fe, JBD2_FC_TAG_CREAT, 2, 23, "link");
	raw = raw_inode(S_IFCHR | 0600, 0, 8);
	raw.i_block[0] = cpu_to_le32(0x0405);
	add_raw(&fe, 24, &raw);
	add_name(&fe, JBD2_FC_TAG_CREAT, 2, 24, "dev");
	replay(&fe);
	iput(expect_file(fe.e.e_root, "d", INO_D, 3));
	ck_assert_uint_eq(env_nlink(fe.e.e_root), 4);
	inode = env_lookup(fe.e.e_root, "d");
	dir = expect_file(inode, "sub", 20, 2);
	iput(inode);
	iput(expect_file(dir, "f", 21, 1));
	inode = env_lookup(dir, "..");
	ck_assert_uint_eq(inode->i_ino, INO_D);
	iput(inode);
	iput(dir);
	ck_assert_int_eq(env_find(fe.e.e_root, "gone"), -ENOENT);
	inode = expect_file(fe.e.e_root, "link", 23, 1);
	ck_assert_int_eq(ext4_readlink(inode, target, sizeof(target)), 6);
	iput(inode);
	inode = expect_file(fe.e.e_root, "dev", 24, 1);
	ck_assert_uint_eq(inode->i_rdev, 0x0405);
	iput(inode);
	close_clean(&fe);
}
END_TEST

START_TEST(a_number_is_given_to_another_file)
{
	struct inode *inode;
	struct fc_env fe;
	uint64_t blk;

	set_up(&fe, formats[_i]);
	blk = some_block(&fe);
	add_range(&fe, INO_A, 0, blk, 4);
	add_name(&fe, JBD2_FC_TAG_UNLINK, 2, INO_A, "a");
	add_inode(&fe, INO_A, S_IFDIR | 0755, 4096, 1234);
	add_name(&fe, JBD2_FC_TAG_CREAT, 2, INO_A, "other");
	/* Without a name so far: its record comes last. */
	add_name(&fe, JBD2_FC_TAG_LINK, INO_A, INO_FREE, "late");
	add_range(&fe, INO_FREE, 0, blk, 2);
	add_inode(&fe, INO_FREE, S_IFREG | 0600, 2 * fe.ei.ei_block_bytes, 4321);
	/* Never gets one. */
	add_range(&fe, INO_FREE + 1, 0, blk + 2, 2);
	add_inode(&fe, INO_FREE + 1, S_IFREG | 0600, 2 * fe.ei.ei_block_bytes, 4322);
	replay(&fe);
	ck_assert_int_eq(env_find(fe.e.e_root, "a"), -ENOENT);
	inode = expect_file(fe.e.e_root, "other", INO_A, 2);
	ck_assert(S_ISDIR(inode->i_mode));
	iput(expect_file(inode, "late", INO_FREE, 1));
	iput(inode);
	inode = ext4_iget(fe.e.e_sb, INO_FREE, EXT4_IGET_NORMAL);
	expect_map(inode, 0, 2, blk, EXT4_MAP_MAPPED);
	iput(inode);
	inode = ext4_iget(fe.e.e_sb, INO_FREE + 1, EXT4_IGET_HANDLE);
	ck_assert(IS_ERR(inode));
	close_clean(&fe);
}
END_TEST

START_TEST(an_indexed_directory_takes_many_names)
{
	char name[64];
	struct inode *d;
	struct fc_env fe;

	set_up(&fe, formats[_i]);
	for (unsigned i = 0; i < 100; i++) {
		snprintf(name, sizeof(name), "a-name-that-is-long-enough-to-fill-blocks-%u", i);
		add_name(&fe, JBD2_FC_TAG_LINK, INO_D, INO_A, name);
	}
	replay(&fe);
	d = env_lookup(fe.e.e_root, "d");
	for (unsigned i = 0; i < 100; i++) {
		snprintf(name, sizeof(name), "a-name-that-is-long-enough-to-fill-blocks-%u", i);
		ck_assert_int_eq(env_find(d, name), 0);
	}
	iput(d);
	iput(expect_file(fe.e.e_root, "a", INO_A, 101));
	close_clean(&fe);
}
END_TEST

START_TEST(a_read_only_mount_replays_too)
{
	struct fc_env fe;

	set_up(&fe, formats[0]);
	add_name(&fe, JBD2_FC_TAG_LINK, INO_D, INO_A, "a2");
	finish(&fe);
	fe.e.e_opts.o_read_only = true;
	env_mount(&fe.e);
	ck_assert(sb_rdonly(fe.e.e_sb));
	iput(expect_file(fe.e.e_root, "a", INO_A, 2));
	close_clean(&fe);
}
END_TEST

/* ---- Orphans of before ---- */

/* The file is deleted and open when the power goes: an orphan on the disk. */
static void orphan_of(struct fc_env *fe, const char *name)
{
	struct inode *inode;
	uint8_t *copy = malloc(fe->e.e_bytes);

	env_mount(&fe->e);
	inode = env_lookup(fe->e.e_root, name);
	ck_assert_int_eq(env_unlink(fe->e.e_root, name), 0);
	ck_assert_int_eq(jbd2_journal_flush(fe->e.e_sb->s_journal), 0);
	memcpy(copy, fe->e.e_image, fe->e.e_bytes);
	iput(inode);
	env_umount(&fe->e);
	memcpy(fe->e.e_image, copy, fe->e.e_bytes);
	free(copy);
	fe->tid = get_be32(ei_log_block(&fe->ei, 0) +
			   offsetof(struct jbd2_superblock_disk, s_sequence));
	fca_init(&fe->area, fe->ei.ei_block_bytes);
	fca_head(&fe->area, 0, fe->tid);
}

START_TEST(orphans_of_before_are_reused_named_or_deleted)
{
	struct fc_env fe;

	set_up(&fe, formats[_i]);
	env_mount(&fe.e);
	ck_assert_int_eq(env_touch(fe.e.e_root, "o1"), 0); /* 16 */
	env_umount(&fe.e);
	orphan_of(&fe, "a");
	/* The orphan's number becomes another file. */
	add_inode(&fe, INO_A, S_IFREG | 0600, 0, 777);
	add_name(&fe, JBD2_FC_TAG_CREAT, 2, INO_A, "again");
	add_name(&fe, JBD2_FC_TAG_UNLINK, 2, 16, "o1");
	replay(&fe);
	iput(expect_file(fe.e.e_root, "again", INO_A, 1));
	ck_assert_int_eq(env_find(fe.e.e_root, "o1"), -ENOENT);
	env_umount(&fe.e);
	env_fsck(&fe.e);

	/* It gets a name. */
	orphan_of(&fe, "again");
	add_name(&fe, JBD2_FC_TAG_LINK, 2, INO_A, "named");
	replay(&fe);
	iput(expect_file(fe.e.e_root, "named", INO_A, 1));
	env_umount(&fe.e);
	env_fsck(&fe.e);

	/* It stays what it is. */
	orphan_of(&fe, "named");
	add_name(&fe, JBD2_FC_TAG_LINK, 2, INO_B, "b2");
	replay(&fe);
	ck_assert_int_eq(env_find(fe.e.e_root, "named"), -ENOENT);
	close_clean(&fe);
}
END_TEST

/* ---- Hostile values ---- */

static void h_add_outside(struct fc_env *fe)
{
	add_range(fe, INO_A, 0, UINT64_C(1) << 40, 4);
}

static void h_add_metadata(struct fc_env *fe)
{
	add_range(fe, INO_A, 0, 3, 4);
}

static void h_add_log(struct fc_env *fe)
{
	add_range(fe, INO_A, 0, fe->ei.ei_extents[0].le_pblk + 5, 1);
}

static void h_add_empty(struct fc_env *fe)
{
	add_range(fe, INO_A, 0, some_block(fe), 0);
}

static void h_add_past_the_end(struct fc_env *fe)
{
	add_range(fe, INO_A, EXT4_MAX_BLOCKS - 1, some_block(fe), 2);
}

static void h_del_past_the_end(struct fc_env *fe)
{
	del_range(fe, INO_A, 2, EXT4_MAX_BLOCKS);
}

static void h_two_owners(struct fc_env *fe)
{
	add_range(fe, INO_A, 0, some_block(fe), 4);
	add_range(fe, INO_B, 0, some_block(fe) + 3, 4);
}

static void h_owner_thrice(struct fc_env *fe)
{
	add_range(fe, INO_A, 0, some_block(fe), 1);
	add_range(fe, INO_A, 1, some_block(fe), 1);
	add_range(fe, INO_A, 2, some_block(fe), 1);
}

static void h_range_of_directory(struct fc_env *fe)
{
	add_range(fe, INO_D, 5, some_block(fe), 1);
}

static void h_special_number(struct fc_env *fe)
{
	del_range(fe, 8, 0, 1);
}

static void h_number_too_high(struct fc_env *fe)
{
	add_name(fe, JBD2_FC_TAG_LINK, 2, 0x7fffffff, "x");
}

static void h_number_0(struct fc_env *fe)
{
	add_inode(fe, 0, S_IFREG, 0, 1);
}

static void h_name_with_slash(struct fc_env *fe)
{
	add_name(fe, JBD2_FC_TAG_LINK, 2, INO_A, "a/b");
}

static void h_name_dotdot(struct fc_env *fe)
{
	add_name(fe, JBD2_FC_TAG_UNLINK, INO_D, INO_A, "..");
}

static void h_own_parent(struct fc_env *fe)
{
	add_name(fe, JBD2_FC_TAG_LINK, INO_D, INO_D, "x");
}

static void h_root_unlinked(struct fc_env *fe)
{
	add_name(fe, JBD2_FC_TAG_UNLINK, INO_D, 2, "x");
}

static void h_link_to_directory(struct fc_env *fe)
{
	add_inode(fe, 20, S_IFDIR | 0755, 4096, 5);
	add_name(fe, JBD2_FC_TAG_LINK, 2, INO_D, "x");
}

static void h_second_name_of_directory(struct fc_env *fe)
{
	add_name(fe, JBD2_FC_TAG_CREAT, 2, INO_D, "x");
}

static void h_name_in_use(struct fc_env *fe)
{
	add_name(fe, JBD2_FC_TAG_LINK, INO_D, INO_A, "b");
}

static void h_full_directory_removed(struct fc_env *fe)
{
	add_name(fe, JBD2_FC_TAG_UNLINK, 2, INO_D, "d");
}

static void h_creat_without_inode(struct fc_env *fe)
{
	add_name(fe, JBD2_FC_TAG_CREAT, 2, 40, "x");
}

static void h_type_changes(struct fc_env *fe)
{
	add_inode(fe, INO_A, S_IFDIR | 0755, 4096, 0);
}

static void h_impossible_type(struct fc_env *fe)
{
	add_inode(fe, 20, 0xf000, 4096, 0);
}

static void h_size(struct fc_env *fe)
{
	add_inode(fe, 20, S_IFREG, UINT64_C(1) << 60, 0);
}

static void h_extra_isize(struct fc_env *fe)
{
	struct ext2_inode_large raw = raw_inode(S_IFREG | 0600, 0, 1);

	raw.i_extra_isize = cpu_to_le16(200);
	add_raw(fe, 20, &raw);
}

static void h_new_with_attributes(struct fc_env *fe)
{
	struct ext2_inode_large raw = raw_inode(S_IFREG | 0600, 0, 1);

	raw.i_file_acl = cpu_to_le32((uint32_t)some_block(fe));
	add_raw(fe, 20, &raw);
}

static void h_inline_data(struct fc_env *fe)
{
	struct ext2_inode_large raw = raw_inode(S_IFREG | 0600, 0, 1);

	raw.i_flags |= cpu_to_le32(EXT4_INLINE_DATA_FL);
	add_raw(fe, 20, &raw);
}

static void h_without_extents(struct fc_env *fe)
{
	struct ext2_inode_large raw = raw_inode(S_IFREG | 0600, 0, 1);

	raw.i_flags = 0;
	add_raw(fe, 20, &raw);
	add_range(fe, 20, 0, some_block(fe), 1);
}

static void h_too_long_inode(struct fc_env *fe)
{
	uint8_t v[4 + 300] = {INO_A};

	fca_add(&fe->area, JBD2_FC_TAG_INODE, v, sizeof(v));
}

static const struct {
	void (*h_fn)(struct fc_env *fe);
	int h_err;
} hostile[] = {
	{h_add_outside, -EFSCORRUPTED},
	{h_add_metadata, -EFSCORRUPTED},
	{h_add_log, -EFSCORRUPTED},
	{h_add_empty, -EFSCORRUPTED},
	{h_add_past_the_end, -EFSCORRUPTED},
	{h_del_past_the_end, -EFSCORRUPTED},
	{h_two_owners, -EFSCORRUPTED},
	{h_owner_thrice, -EFSCORRUPTED},
	{h_range_of_directory, -EFSCORRUPTED},
	{h_special_number, -EFSCORRUPTED},
	{h_number_too_high, -EFSCORRUPTED},
	{h_number_0, -EFSCORRUPTED},
	{h_name_with_slash, -EFSCORRUPTED},
	{h_name_dotdot, -EFSCORRUPTED},
	{h_own_parent, -EFSCORRUPTED},
	{h_root_unlinked, -EFSCORRUPTED},
	{h_link_to_directory, -EFSCORRUPTED},
	{h_second_name_of_directory, -EFSCORRUPTED},
	{h_name_in_use, -EFSCORRUPTED},
	{h_full_directory_removed, -EFSCORRUPTED},
	{h_creat_without_inode, -EFSCORRUPTED},
	{h_type_changes, -EFSCORRUPTED},
	{h_impossible_type, -EFSCORRUPTED},
	{h_size, -EFSCORRUPTED},
	{h_extra_isize, -EFSCORRUPTED},
	{h_new_with_attributes, -EFSCORRUPTED},
	{h_inline_data, -EFSCORRUPTED},
	{h_without_extents, -EOPNOTSUPP},
	{h_too_long_inode, -EFSCORRUPTED},
};
#define HOSTILE ((int)(sizeof(hostile) / sizeof(hostile[0])))

/* What differs outside the log is in the superblock: errors and mount state. */
static void expect_unchanged(struct fc_env *fe, const uint8_t *before)
{
	const uint32_t bs = fe->ei.ei_block_bytes;

	for (uint64_t blk = 1; blk < fe->e.e_bytes / bs; blk++)
		if (blk * bs != 1024 && !ei_in_log(&fe->ei, blk))
			ck_assert_msg(memcmp(before + blk * bs, fe->e.e_image + blk * bs, bs) == 0,
				      "block %u changed", (unsigned)blk);
}

static int try_mount(struct fc_env *fe)
{
	struct blkdev *dev = mem_open(fe->e.e_bytes, 512, fe->e.e_image);
	int err = ext4_mount(dev, &fe->e.e_opts, &fe->e.e_sb);

	if (err != 0)
		blk_close(dev);
	return err;
}

START_TEST(hostile_records_are_refused_and_nothing_changes)
{
	struct fc_env fe;
	uint8_t *before;

	set_up(&fe, formats[0]);
	/* Something that could be done comes first. */
	add_name(&fe, JBD2_FC_TAG_LINK, INO_D, INO_A, "good");
	hostile[_i].h_fn(&fe);
	finish(&fe);
	before = malloc(fe.e.e_bytes);
	memcpy(before, fe.e.e_image, fe.e.e_bytes);
	ck_assert_int_eq(try_mount(&fe), hostile[_i].h_err);
	expect_unchanged(&fe, before);
	/* And so it stays. */
	ck_assert_int_eq(try_mount(&fe), hostile[_i].h_err);
	expect_unchanged(&fe, before);
	free(before);
	tear_down(&fe);
}
END_TEST

/* One record of any kind, with values near those that make sense. */
static void add_random(struct fc_env *fe, struct prng *p)
{
	static const uint32_t inos[] = {2, 11, INO_A, INO_D, INO_B, 16, 17, 18, 20, 0, 8, 5000};
	static const char *const names[] = {"a", "b", "d", "x", "y", "sub"};
	static const uint16_t modes[] = {S_IFREG | 0644, S_IFDIR | 0755, S_IFLNK | 0777, S_IFIFO,
					 0};
	const unsigned sane = prng_chance(p, 9, 10) ? 9 : 12;
	const uint32_t ino = inos[prng_below(p, sane)];
	struct ext2_inode_large raw;

	switch (prng_below(p, 4)) {
	case 0:
		add_range(fe, ino, (uint32_t)prng_below(p, 20), some_block(fe) + prng_below(p, 30),
			  1 + (unsigned)prng_below(p, 8));
		break;
	case 1:
		del_range(fe, ino, (uint32_t)prng_below(p, 20), 1 + (uint32_t)prng_below(p, 8));
		break;
	case 2:
		raw = raw_inode(modes[prng_below(p, sane == 9 ? 2 : 5)], prng_below(p, 20000),
				(uint32_t)prng_below(p, 3));
		if (prng_chance(p, 1, 8))
			((uint8_t *)&raw)[prng_below(p, RAW_BYTES)] = (uint8_t)prng_next(p);
		add_raw(fe, ino, &raw);
		break;
	default:
		add_name(fe, JBD2_FC_TAG_CREAT + (unsigned)prng_below(p, 3),
			 inos[prng_below(p, sane)], ino, names[prng_below(p, 6)]);
		break;
	}
}

START_TEST(random_records_are_replayed_or_refused)
{
	const uint64_t seed = prng_seed_from_env(20260);
	unsigned good = 0;
	uint8_t *clean;
	struct fc_env fe;
	struct prng p;

	prng_seed(&p, seed);
	set_up(&fe, "-b 1024 -J size=2 -O fast_commit,^metadata_csum");
	clean = malloc(fe.e.e_bytes);
	memcpy(clean, fe.e.e_image, fe.e.e_bytes);
	for (unsigned round = 0; round < 300; round++) {
		const unsigned n = 1 + (unsigned)prng_below(&p, 6);

		memcpy(fe.e.e_image, clean, fe.e.e_bytes);
		fca_init(&fe.area, fe.ei.ei_block_bytes);
		fca_head(&fe.area, 0, fe.tid);
		for (unsigned i = 0; i < n; i++)
			add_random(&fe, &p);
		finish(&fe);
		if (try_mount(&fe) != 0) {
			memcpy(fe.e.e_image, clean, fe.e.e_bytes);
			continue;
		}
		ck_assert_int_eq(ext4_umount(fe.e.e_sb), 0);
		good++;
	}
	printf("seed %llu: %u of 300 replayed\n", (unsigned long long)seed, good);
	ck_assert_uint_gt(good, 50);
	ck_assert_uint_lt(good, 250);
	free(clean);
	tear_down(&fe);
}
END_TEST

/* ---- Cuts ---- */

static void add_everything(struct fc_env *fe)
{
	const uint32_t gen = generation_of(fe, INO_A);
	const uint32_t bs = fe->ei.ei_block_bytes;
	const uint64_t blk = some_block(fe);

	add_inode(fe, INO_FREE, S_IFREG | 0640, 3 * bs, 99);
	add_range(fe, INO_FREE, 0, blk, 3);
	add_name(fe, JBD2_FC_TAG_CREAT, INO_D, INO_FREE, "new");
	add_name(fe, JBD2_FC_TAG_UNLINK, INO_D, INO_B, "b");
	add_name(fe, JBD2_FC_TAG_LINK, 2, INO_A, "a2");
	add_inode(fe, 21, S_IFDIR | 0755, 1024, 5);
	add_name(fe, JBD2_FC_TAG_CREAT, 2, 21, "sub");
	for (unsigned i = 0; i < 10; i++)
		add_range(fe, INO_A, 20 - 2 * i, blk + 10 + 3 * i, 1);
	add_inode(fe, INO_A, S_IFREG | 0644, 21 * bs, gen);
}

static void expect_everything(struct fc_env *fe)
{
	struct inode *d = expect_file(fe->e.e_root, "d", INO_D, 2);
	struct inode *a = expect_file(fe->e.e_root, "a2", INO_A, 2);

	iput(expect_file(d, "new", INO_FREE, 1));
	ck_assert_int_eq(env_find(d, "b"), -ENOENT);
	iput(expect_file(fe->e.e_root, "sub", 21, 2));
	for (uint32_t i = 0; i < 10; i++)
		expect_map(a, 20 - 2 * i, 1, some_block(fe) + 10 + 3 * i, EXT4_MAP_MAPPED);
	iput(a);
	iput(d);
}

START_TEST(a_replay_that_is_cut_is_done_again)
{
	struct blkdev *log, *base, *image;
	struct super_block *sb;
	struct fc_env fe;
	struct prng p;
	uint8_t *own;

	prng_seed(&p, 3 + (uint64_t)_i);
	set_up(&fe, formats[_i]);
	add_everything(&fe);
	finish(&fe);
	base = testlib_clone(fe.dev);
	log = log_open_memory(testlib_clone(fe.dev));
	ck_assert_int_eq(ext4_mount(log, &fe.e.e_opts, &sb), 0);
	image = testlib_clone(base);
	own = fe.e.e_image;
	for (size_t n = 0; n <= log_entry_count(log); n++) {
		memcpy(mem_data(image), mem_data(base), base->bd_size_bytes);
		crash_apply(log, n, n % 3 == 0 ? CRASH_DURABLE_ONLY : CRASH_RANDOM, &p, image);
		fe.e.e_image = mem_data(image);
		env_mount(&fe.e);
		expect_everything(&fe);
		env_umount(&fe.e);
		if (n % 8 == 7)
			env_fsck(&fe.e);
	}
	fe.e.e_image = own;
	ck_assert_int_eq(ext4_umount(sb), 0);
	blk_close(image);
	blk_close(base);
	tear_down(&fe);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("namespace/fc_replay");
	TCase *tc = testlib_case("fc_replay");

	tcase_add_loop_test(tc, a_new_file_comes_with_name_attributes_and_blocks, 0, FORMATS);
	tcase_add_loop_test(tc, ranges_move_change_their_kind_and_go, 0, FORMATS);
	tcase_add_loop_test(tc, a_tree_of_many_extents_grows_and_shrinks, 0, 2);
	tcase_add_loop_test(tc, names_come_and_go_and_links_are_counted, 0, FORMATS);
	tcase_add_loop_test(tc, directories_and_special_files_are_made_and_removed, 0, FORMATS);
	tcase_add_loop_test(tc, a_number_is_given_to_another_file, 0, FORMATS);
	tcase_add_loop_test(tc, an_indexed_directory_takes_many_names, 0, 2);
	tcase_add_test(tc, a_read_only_mount_replays_too);
	tcase_add_loop_test(tc, orphans_of_before_are_reused_named_or_deleted, 0, FORMATS);
	tcase_add_loop_test(tc, hostile_records_are_refused_and_nothing_changes, 0, HOSTILE);
	tcase_add_test(tc, random_records_are_replayed_or_refused);
	tcase_add_loop_test(tc, a_replay_that_is_cut_is_done_again, 0, FORMATS);
	suite_add_tcase(s, tc);
	return testlib_run_suite(s);
}
