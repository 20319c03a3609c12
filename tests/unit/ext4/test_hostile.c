/* SPDX-License-Identifier: GPL-2.0-or-later */
/* test_hostile.c - superblocks, descriptors, bitmaps and inodes made to hurt: an error, never a crash. */

#include "tests/lib/suite.h"
#include "tests/lib/prng.h"
#include "tests/unit/ext4/fixture.h"

/* ---- Superblock ---- */

struct bad_super {
	const char *bs_args;
	const char *bs_name;
	size_t bs_offset, bs_size; /* of the field */
	uint32_t bs_value;
	int bs_error;
};

#define FIELD(f)                                                                                   \
#f, offsetof(struct ext2_super_block, f), sizeof(((struct ext2_super_block *)NULL)->f)
#define T4 "-t ext4 -b 4096"
#define T1 "-t ext4 -b 1024"

static const struct bad_super bad_supers[] = {
	{T4, FIELD(s_magic), 0xef54, -EINVAL},
	{T4, FIELD(s_log_block_size), 255, -EFSCORRUPTED},
	{T4, FIELD(s_log_block_size), 0xffffffff, -EFSCORRUPTED},
	{T4, FIELD(s_log_block_size), 6, -EOPNOTSUPP},
	{T4, FIELD(s_log_block_size), 0, -EFSCORRUPTED},
	{T4, FIELD(s_log_cluster_size), 9, -EFSCORRUPTED},
	{T4, FIELD(s_inodes_per_group), 0, -EFSCORRUPTED},
	{T4, FIELD(s_inodes_per_group), 1, -EFSCORRUPTED},
	{T4, FIELD(s_inodes_per_group), 0x80000008, -EFSCORRUPTED},
	{T4, FIELD(s_inodes_per_group), 40000, -EFSCORRUPTED},
	{T4, FIELD(s_blocks_per_group), 0, -EFSCORRUPTED},
	{T4, FIELD(s_blocks_per_group), 7, -EFSCORRUPTED},
	{T4, FIELD(s_blocks_per_group), 0xfffffff8, -EFSCORRUPTED},
	{T4, FIELD(s_desc_size), 0, -EFSCORRUPTED},
	{T4, FIELD(s_desc_size), 63, -EFSCORRUPTED},
	{T4, FIELD(s_desc_size), 65, -EFSCORRUPTED},
	{T4, FIELD(s_desc_size), 0x8000, -EFSCORRUPTED},
	{T4, FIELD(s_inode_size), 0, -EFSCORRUPTED},
	{T4, FIELD(s_inode_size), 1, -EFSCORRUPTED},
	{T4, FIELD(s_inode_size), 257, -EFSCORRUPTED},
	{T4, FIELD(s_inode_size), 64, -EFSCORRUPTED},
	{T4, FIELD(s_inode_size), 0x4000, -EFSCORRUPTED},
	{T4, FIELD(s_first_ino), 0, -EFSCORRUPTED},
	{T4, FIELD(s_first_ino), 2, -EFSCORRUPTED},
	{T4, FIELD(s_first_data_block), 1, -EFSCORRUPTED},
	{T4, FIELD(s_first_data_block), 0xffffffff, -EFSCORRUPTED},
	{T1, FIELD(s_first_data_block), 0, -EFSCORRUPTED},
	{T4, FIELD(s_blocks_count), 0, -EFSCORRUPTED},
	{T4, FIELD(s_blocks_count), 1, -EFSCORRUPTED},
	{T4, FIELD(s_blocks_count), 6145, -EFSCORRUPTED},
	{T4, FIELD(s_blocks_count_hi), 1, -EFSCORRUPTED},
	{T4, FIELD(s_inodes_count), 0, -EFSCORRUPTED},
	{T4, FIELD(s_inodes_count), 0xffffffff, -EFSCORRUPTED},
	{T4, FIELD(s_r_blocks_count), 0x7fffffff, -EFSCORRUPTED},
	{T4, FIELD(s_reserved_gdt_blocks), 0xffff, -EFSCORRUPTED},
	{T4, FIELD(s_rev_level), 2, -EFSCORRUPTED},
	{T4, FIELD(s_def_hash_version), 200, -EFSCORRUPTED},
	{T4, FIELD(s_checksum_type), 2, -EFSCORRUPTED},
	{T4, FIELD(s_journal_inum), 0, -EFSCORRUPTED},
	{T4, FIELD(s_journal_inum), 2, -EFSCORRUPTED},
	{T4, FIELD(s_journal_inum), 0xffffffff, -EFSCORRUPTED},
	{T4, FIELD(s_journal_dev), 0x801, -EINVAL},
	{T1 " -O meta_bg,^resize_inode", FIELD(s_first_meta_bg), 0xffffffff, -EFSCORRUPTED},
	{T4 " -O orphan_file", FIELD(s_orphan_file_inum), 2, -EFSCORRUPTED},
	{T4 " -O orphan_file", FIELD(s_orphan_file_inum), 0, -EFSCORRUPTED},
	/* Not believed, and no reason to refuse. */
	{T4, FIELD(s_log_groups_per_flex), 200, 0},
	{T4, FIELD(s_want_extra_isize), 0xffff, 0},
	{T4, FIELD(s_raid_stripe_width), 0xffffffff, 0},
	{T4, FIELD(s_free_blocks_count), 0xffffffff, 0},
	{T4, FIELD(s_errors), 77, 0},
};

START_TEST(bad_superblock_field)
{
	const struct bad_super *bs = &bad_supers[_i];
	const uint32_t le_value = cpu_to_le32(bs->bs_value);
	const char *command = bs->bs_name;
	struct test_fs t;
	struct blkdev *before;
	int err;

	fx_make(&t, bs->bs_args, 24 * MIB, NULL);
	memcpy((uint8_t *)fx_super(&t) + bs->bs_offset, &le_value, bs->bs_size);
	fx_super_changed(&t);
	before = testlib_clone(t.t_disk);
	fx_log_reset();
	err = fx_mount(&t);
	ck_assert_msg(err == bs->bs_error, "%s: %d\n%s", command, err, fx_log);
	if (err == 0) {
		ck_assert_int_eq(fx_umount(&t), 0);
	} else {
		ck_assert_msg(strchr(fx_log, '\n') != NULL, "%s: nothing said", command);
		ck_assert_msg(memcmp(mem_data(before), mem_data(t.t_disk), 24 * MIB) == 0,
			      "%s: the disk was written", command);
	}
	blk_close(before);
	fx_free(&t);
}
END_TEST

START_TEST(superblock_checksum_is_verified)
{
	struct test_fs t;

	fx_make(&t, T4, 24 * MIB, NULL);
	fx_super(&t)->s_volume_name[3] ^= 1;
	fx_log_reset();
	ck_assert_int_eq(fx_mount(&t), -EFSBADCRC);
	fx_free(&t);
}
END_TEST

START_TEST(truncated_image_is_refused)
{
	static const uint64_t sizes[] = {512, 1024, 1536, 2048, 4096, 64 * 1024, 24 * MIB - 4096};
	struct test_fs t;

	fx_make(&t, T4, 24 * MIB, NULL);
	fx_log_reset();
	for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		struct blkdev *view = mem_open(sizes[i], 512, mem_data(t.t_disk));
		struct super_block *sb;
		int err;

		ck_assert(!IS_ERR(view));
		err = ext4_fill_super(view, &t.t_opts, NULL, &sb);
		ck_assert_msg(err == -EINVAL || err == -EFSCORRUPTED, "%d at %u", err, i);
		blk_close(view);
	}
	fx_free(&t);
}
END_TEST

START_TEST(tail_behind_the_last_block_is_ignored)
{
	struct test_fs t;
	struct blkdev *view, *disk;
	const uint64_t odd = 24 * MIB + 1536;
	uint8_t *bytes = calloc(1, odd);

	fx_make(&t, T4, 24 * MIB, NULL);
	memcpy(bytes, mem_data(t.t_disk), 24 * MIB);
	view = mem_open(odd, 512, bytes);
	ck_assert_int_eq(ext4_fill_super(view, &t.t_opts, NULL, &t.t_sb), 0);
	ck_assert_int_eq(fx_umount(&t), 0);
	disk = mem_open(24 * MIB, 512, bytes);
	ck_assert_int_eq(testlib_fsck(disk), 0);
	blk_close(disk);
	free(bytes);
	fx_free(&t);
}
END_TEST

/* Random bytes over the superblock, its checksum made right. */
START_TEST(random_superblocks)
{
	struct test_fs t;
	struct ext2_super_block good;
	struct prng rng;

	prng_seed(&rng, 4711 + (uint64_t)_i);
	fx_make(&t, _i % 2 == 0 ? T4 " -O orphan_file" : T1 " -O ^metadata_csum", 24 * MIB, NULL);
	good = *fx_super(&t);
	fx_log_reset();
	t.t_opts.o_read_only = true;
	for (unsigned round = 0; round < 400; round++) {
		unsigned n = 1 + (unsigned)(prng_next(&rng) % 4);

		*fx_super(&t) = good;
		for (unsigned i = 0; i < n; i++)
			((uint8_t *)fx_super(&t))[prng_next(&rng) % 1020] ^=
				(uint8_t)(1u << prng_next(&rng) % 8);
		fx_super_changed(&t);
		fx_log[0] = '\0';
		if (fx_mount(&t) == 0) {
			struct inode *root = ext4_iget(t.t_sb, EXT4_ROOT_INO, 0);

			iput(IS_ERR(root) ? NULL : root);
			fx_umount(&t);
		}
	}
	fx_free(&t);
}
END_TEST

/* ---- Descriptors ---- */

#define SET_BG(group, what) "set_bg " #group " " what "\nset_bg " #group " checksum calc"

static const char *const bad_groups[] = {
	SET_BG(0, "block_bitmap 0xffffff"),  SET_BG(0, "block_bitmap 0"),
	SET_BG(0, "block_bitmap 1"),	     SET_BG(0, "inode_bitmap 24576"),
	SET_BG(0, "inode_table 24575"),	     SET_BG(0, "inode_table 2"),
	SET_BG(0, "block_bitmap_hi 1"),	     SET_BG(0, "inode_table_hi 0xffffffff"),
	SET_BG(0, "inode_table 0xffffffff"),
};

START_TEST(bad_descriptor_of_the_root_group)
{
	struct test_fs t;

	fx_make(&t, T1, 24 * MIB, bad_groups[_i]);
	fx_log_reset();
	ck_assert_msg(fx_mount(&t) == -EFSCORRUPTED, "%s\n%s", bad_groups[_i], fx_log);
	fx_free(&t);
}
END_TEST

START_TEST(bitmaps_that_overlap_are_noticed)
{
	struct test_fs t;
	char command[128], *out, *p;
	unsigned table;

	fx_make(&t, T1, 24 * MIB, NULL);
	out = testlib_debugfs(t.t_disk, "stats");
	p = strstr(out, "inode table at ");
	ck_assert_ptr_nonnull(p);
	table = (unsigned)strtoul(p + strlen("inode table at "), NULL, 10);
	free(out);
	fx_free(&t);
	snprintf(command, sizeof(command), SET_BG(0, "block_bitmap %u"), table + 1);
	fx_make(&t, T1, 24 * MIB, command);
	fx_log_reset();
	ck_assert_int_eq(fx_mount(&t), -EFSCORRUPTED);
	ck_assert_ptr_nonnull(strstr(fx_log, "overlap"));
	fx_free(&t);
}
END_TEST

/* Another group's damage does not keep the file system from being mounted, and is found when it matters. */
START_TEST(bad_descriptor_of_another_group)
{
	static const char *const commands[] = {
		SET_BG(2, "block_bitmap 0xfffff0"),
		SET_BG(2, "inode_table 0"),
		SET_BG(2, "inode_bitmap 0x7fffffff"),
	};
	struct test_fs t;

	fx_make(&t, T1, 24 * MIB, commands[_i]);
	fx_log_reset();
	t.t_opts.o_errors = ERRORS_RO;
	ck_assert_msg(fx_mount(&t) == 0, "%s", fx_log);
	ck_assert_int_eq(PTR_ERR(ext4_get_group_info(t.t_sb, 2)), -EFSCORRUPTED);
	ck_assert_ptr_null(ext4_group_info_cached(t.t_sb, 2));
	ck_assert(sb_rdonly(t.t_sb));
	/* Told once. */
	fx_log[0] = '\0';
	ck_assert_int_eq(PTR_ERR(ext4_get_group_info(t.t_sb, 2)), -EFSCORRUPTED);
	ck_assert_str_eq(fx_log, "");
	ck_assert_int_eq(fx_umount(&t), -EFSCORRUPTED);
	ck_assert(le16_to_cpu(fx_super(&t)->s_state) & EXT2_ERROR_FS);
	fx_free(&t);
}
END_TEST

START_TEST(two_groups_with_one_table_are_not_allocated_from)
{
	struct test_fs t;
	char command[128];
	struct ext4_group_info *a, *b;
	uint64_t table;

	fx_make(&t, T1 " -O ^metadata_csum", 24 * MIB, NULL);
	t.t_opts.o_read_only = true;
	ck_assert_int_eq(fx_mount(&t), 0);
	table = ext4_inode_table(t.t_sb, ext4_get_group_info(t.t_sb, 1));
	fx_free(&t);
	snprintf(command, sizeof(command), SET_BG(2, "inode_table %u"), (unsigned)table + 1);
	fx_make(&t, T1 " -O ^metadata_csum", 24 * MIB, command);
	t.t_opts.o_errors = ERRORS_CONTINUE;
	fx_log_reset();
	ck_assert_int_eq(fx_mount(&t), 0);
	a = ext4_get_group_info(t.t_sb, 1);
	b = ext4_get_group_info(t.t_sb, 2);
	ck_assert(!IS_ERR(a) && !IS_ERR(b));
	ck_assert(IS_ERR(ext4_read_block_bitmap(t.t_sb, a)));
	ck_assert(IS_ERR(ext4_read_inode_bitmap(t.t_sb, b)));
	ck_assert_ptr_nonnull(strstr(fx_log, "overlap"));
	ck_assert_uint_eq(atomic_load(&b->bg_free_blocks), 0);
	fx_umount(&t);
	fx_free(&t);
}
END_TEST

START_TEST(impossible_counts_disable_allocation_only)
{
	struct test_fs t;
	struct ext4_group_info *gi;
	struct inode *root;

	fx_make(&t, T1, 24 * MIB, SET_BG(0, "free_blocks_count 0xffff"));
	t.t_opts.o_errors = ERRORS_CONTINUE;
	fx_log_reset();
	ck_assert_int_eq(fx_mount(&t), 0);
	gi = ext4_get_group_info(t.t_sb, 0);
	ck_assert(!IS_ERR(gi));
	ck_assert_uint_eq(atomic_load(&gi->bg_free_blocks), 0);
	ck_assert_int_eq(PTR_ERR(ext4_read_block_bitmap(t.t_sb, gi)), -EFSCORRUPTED);
	root = ext4_iget(t.t_sb, EXT4_ROOT_INO, EXT4_IGET_NORMAL);
	ck_assert(!IS_ERR(root));
	iput(root);
	fx_umount(&t);
	fx_free(&t);
}
END_TEST

START_TEST(descriptor_checksum_is_verified)
{
	static const char *const args[] = {T1, T1 " -O ^metadata_csum,uninit_bg"};
	struct test_fs t;

	fx_make(&t, args[_i], 24 * MIB, NULL);
	/* Used directories of group 0, in the block behind the superblock. */
	((uint8_t *)mem_data(t.t_disk))[2048 + 16] ^= 1;
	fx_log_reset();
	ck_assert_int_eq(fx_mount(&t), -EFSBADCRC);
	fx_free(&t);
}
END_TEST

/* ---- Bitmaps ---- */

static uint8_t *block_on_disk(struct test_fs *t, uint64_t block, uint32_t size)
{
	return (uint8_t *)mem_data(t->t_disk) + block * size;
}

START_TEST(damaged_block_bitmap)
{
	/* Kind of damage: a metadata bit free, padding clear, any bit with a checksum. */
	static const char *const args[] = {T1 " -O ^metadata_csum", T1 " -O ^metadata_csum", T1};
	static const int errors[] = {-EFSCORRUPTED, -EFSCORRUPTED, -EFSBADCRC};
	struct test_fs t;
	struct ext4_group_info *gi;
	ext4_group_t group;
	uint8_t *bits;

	fx_make(&t, args[_i], 24 * MIB, NULL);
	t.t_opts.o_errors = ERRORS_CONTINUE;
	ck_assert_int_eq(fx_mount(&t), 0);
	group = _i == 1 ? t.t_sb->s_groups_count - 1 : 0;
	gi = ext4_get_group_info(t.t_sb, group);
	bits = block_on_disk(&t, ext4_block_bitmap(t.t_sb, gi), 1024);
	if (_i == 0)
		bits[0] &= 0xfe;
	else if (_i == 1)
		bits[1023] &= 0x7f;
	else
		bits[500] ^= 0x10;
	fx_log_reset();
	ck_assert_int_eq(PTR_ERR(ext4_read_block_bitmap(t.t_sb, gi)), errors[_i]);
	ck_assert_uint_eq(atomic_load(&gi->bg_free_blocks), 0);
	ck_assert_int_eq(PTR_ERR(ext4_read_block_bitmap(t.t_sb, gi)), -EFSCORRUPTED);
	/* The inode bitmap of the same group is another matter. */
	bh_put(ext4_read_inode_bitmap(t.t_sb, gi));
	fx_umount(&t);
	fx_free(&t);
}
END_TEST

START_TEST(root_group_cannot_be_uninitialised)
{
	struct test_fs t;
	struct ext4_group_info *gi;

	fx_make(&t, T1, 24 * MIB, "set_bg 0 flags 7\nset_bg 0 checksum calc");
	t.t_opts.o_errors = ERRORS_CONTINUE;
	fx_log_reset();
	ck_assert_int_eq(fx_mount(&t), 0);
	gi = ext4_get_group_info(t.t_sb, 0);
	ck_assert_int_eq(PTR_ERR(ext4_read_block_bitmap(t.t_sb, gi)), -EFSCORRUPTED);
	ck_assert_int_eq(PTR_ERR(ext4_read_inode_bitmap(t.t_sb, gi)), -EFSCORRUPTED);
	fx_umount(&t);
	fx_free(&t);
}
END_TEST

/* ---- Inodes ---- */

struct bad_inode {
	const char *bi_field;
	const char *bi_value;
};

/* Of a regular file with data, with right checksums. */
static const struct bad_inode bad_inodes[] = {
	{"mode", "0"},
	{"mode", "0150644"},
	{"mode", "0xffff"},
	{"block[0]", "0x00fff30a"},
	{"block[0]", "0x0001f30b"},
	{"block[1]", "0x00060004"},
	{"block[1]", "0x00000005"},
	{"block[1]", "0xffff0004"},
	{"size_hi", "0x80000000"},
	{"size_hi", "0x7fffffff"},
	{"flags", "0x10080000"},
	{"flags", "0x10000000"},
	{"flags", "0x00280000"},
	{"flags", "0x00080800"},
	{"flags", "0x40080000"},
	{"file_acl", "0xffffff00"},
	{"file_acl", "1"},
	{"extra_isize", "3"},
	{"extra_isize", "0xfff0"},
	{"links_count", "0"},
};

START_TEST(bad_inode_field)
{
	const struct bad_inode *bi = &bad_inodes[_i];
	char commands[256];
	struct test_fs t;
	struct inode *inode;

	snprintf(commands, sizeof(commands), "write /etc/passwd f\nsif f %s %s", bi->bi_field,
		 bi->bi_value);
	fx_make(&t, T4, 24 * MIB, commands);
	t.t_opts.o_errors = ERRORS_CONTINUE;
	fx_log_reset();
	ck_assert_int_eq(fx_mount(&t), 0);
	inode = ext4_iget(t.t_sb, 12, EXT4_IGET_NORMAL);
	ck_assert_msg(IS_ERR(inode), "%s", commands);
	ck_assert_msg(PTR_ERR(inode) == -EFSCORRUPTED, "%s: %d", commands, PTR_ERR(inode));
	ck_assert_ptr_nonnull(strstr(fx_log, "inode #12"));
	ck_assert_int_eq(PTR_ERR(ext4_iget(t.t_sb, 12, EXT4_IGET_HANDLE)), -ESTALE);
	/* The first error is what unmount tells. */
	ck_assert_int_eq(fx_umount(&t), -EFSCORRUPTED);
	ck_assert(le16_to_cpu(fx_super(&t)->s_state) & EXT2_ERROR_FS);
	ck_assert_uint_eq(le32_to_cpu(fx_super(&t)->s_last_error_ino), 12);
	fx_free(&t);
}
END_TEST

START_TEST(inode_checksum_is_verified)
{
	struct test_fs t;
	ext4_fsblk_t block;
	unsigned offset;

	fx_make(&t, T4, 24 * MIB, "write /etc/passwd f");
	t.t_opts.o_read_only = true;
	ck_assert_int_eq(fx_mount(&t), 0);
	ck_assert_int_eq(ext4_inode_table_pos(t.t_sb, 12, &block, &offset), 0);
	fx_umount(&t);
	block_on_disk(&t, block, 4096)[offset + 8] ^= 0x40;
	fx_log_reset();
	ck_assert_int_eq(fx_mount(&t), 0);
	ck_assert_int_eq(PTR_ERR(ext4_iget(t.t_sb, 12, EXT4_IGET_NORMAL)), -EFSBADCRC);
	fx_umount(&t);
	fx_free(&t);
}
END_TEST

/* A directory may name none of these. */
START_TEST(reserved_inode_numbers_are_refused)
{
	static const uint32_t numbers[] = {0, 1, 3, 5, 7, 8, 10, 0x7fffffff, 0xffffffff};
	struct test_fs t;
	uint32_t orphan_ino;

	fx_make(&t, T4 " -O orphan_file", 24 * MIB, NULL);
	t.t_opts.o_errors = ERRORS_CONTINUE;
	orphan_ino = le32_to_cpu(fx_super(&t)->s_orphan_file_inum);
	fx_log_reset();
	ck_assert_int_eq(fx_mount(&t), 0);
	for (unsigned i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		ck_assert(!ext4_valid_dir_ino(t.t_sb, numbers[i]));
		ck_assert_int_eq(PTR_ERR(ext4_iget(t.t_sb, numbers[i], EXT4_IGET_NORMAL)),
				 -EFSCORRUPTED);
		ck_assert_int_eq(PTR_ERR(ext4_iget(t.t_sb, numbers[i], EXT4_IGET_HANDLE)), -ESTALE);
	}
	ck_assert_int_eq(PTR_ERR(ext4_iget(t.t_sb, orphan_ino, EXT4_IGET_HANDLE)), -ESTALE);
	ck_assert(!ext4_valid_dir_ino(t.t_sb, orphan_ino));
	ck_assert(!ext4_valid_dir_ino(t.t_sb, t.t_sb->s_inodes_count + 1));
	ck_assert(ext4_valid_dir_ino(t.t_sb, 2));
	ck_assert(ext4_valid_dir_ino(t.t_sb, 11));
	/* Never used: behind bg_itable_unused. */
	ck_assert_int_eq(PTR_ERR(ext4_iget(t.t_sb, 1000, EXT4_IGET_NORMAL)), -EFSCORRUPTED);
	ck_assert_int_eq(PTR_ERR(ext4_iget(t.t_sb, 1000, EXT4_IGET_HANDLE)), -ESTALE);
	fx_umount(&t);
	fx_free(&t);
}
END_TEST

START_TEST(damaged_root_inode)
{
	static const char *const commands[] = {"sif <2> mode 0100644", "sif <2> links_count 0"};
	struct test_fs t;

	fx_make(&t, T4, 24 * MIB, commands[_i]);
	fx_log_reset();
	ck_assert_int_eq(fx_mount(&t), -EFSCORRUPTED);
	fx_free(&t);
}
END_TEST

/* Random bits in the used parts of the inode table, descriptors and bitmaps; everything read. */
START_TEST(random_metadata)
{
	struct test_fs t;
	struct prng rng;
	struct blkdev *good;
	unsigned inodes = 0;

	prng_seed(&rng, 99 + (uint64_t)_i);
	fx_make(&t, _i % 2 == 0 ? T1 " -O ^metadata_csum" : "-t ext2 -b 1024", 24 * MIB,
		"write /etc/passwd a\nwrite /etc/services b\nsymlink s /etc/passwd\n"
		"symlink l /0123456789012345678901234567890123456789012345678901234567890123456789\n"
		"mkdir d\nmknod c c 5 1");
	good = testlib_clone(t.t_disk);
	t.t_opts.o_errors = ERRORS_CONTINUE;
	t.t_opts.o_read_only = true;
	fx_log_reset();
	for (unsigned round = 0; round < 150; round++) {
		uint8_t *bytes = mem_data(t.t_disk);

		memcpy(bytes, mem_data(good), 2 * MIB);
		for (unsigned i = 0; i < 40; i++)
			bytes[2048 + prng_next(&rng) % (MIB / 2)] ^= (uint8_t)prng_next(&rng);
		fx_log[0] = '\0';
		if (fx_mount(&t) != 0)
			continue;
		for (uint32_t ino = 1; ino < 40; ino++) {
			struct inode *inode = ext4_iget(t.t_sb, ino, EXT4_IGET_NORMAL);

			if (IS_ERR(inode))
				continue;
			inodes++;
			iput(inode);
		}
		for (ext4_group_t g = 0; g < t.t_sb->s_groups_count; g++) {
			struct ext4_group_info *gi = ext4_get_group_info(t.t_sb, g);

			if (IS_ERR(gi))
				continue;
			bh_put(ext4_read_block_bitmap(t.t_sb, gi));
			bh_put(ext4_read_inode_bitmap(t.t_sb, gi));
		}
		fx_umount(&t);
	}
	ck_assert_uint_gt(inodes, 100);
	blk_close(good);
	fx_free(&t);
}
END_TEST

#define COUNT(a) ((int)(sizeof(a) / sizeof((a)[0])))

int main(void)
{
	Suite *s = suite_create("ext4/hostile");
	TCase *tc = testlib_case("all");

	tcase_add_loop_test(tc, bad_superblock_field, 0, COUNT(bad_supers));
	tcase_add_test(tc, superblock_checksum_is_verified);
	tcase_add_test(tc, truncated_image_is_refused);
	tcase_add_test(tc, tail_behind_the_last_block_is_ignored);
	tcase_add_loop_test(tc, random_superblocks, 0, 2);
	tcase_add_loop_test(tc, bad_descriptor_of_the_root_group, 0, COUNT(bad_groups));
	tcase_add_test(tc, bitmaps_that_overlap_are_noticed);
	tcase_add_loop_test(tc, bad_descriptor_of_another_group, 0, 3);
	tcase_add_test(tc, two_groups_with_one_table_are_not_allocated_from);
	tcase_add_test(tc, impossible_counts_disable_allocation_only);
	tcase_add_loop_test(tc, descriptor_checksum_is_verified, 0, 2);
	tcase_add_loop_test(tc, damaged_block_bitmap, 0, 3);
	tcase_add_test(tc, root_group_cannot_be_uninitialised);
	tcase_add_loop_test(tc, bad_inode_field, 0, COUNT(bad_inodes));
	tcase_add_test(tc, inode_checksum_is_verified);
	tcase_add_test(tc, reserved_inode_numbers_are_refused);
	tcase_add_loop_test(tc, damaged_root_inode, 0, 2);
	tcase_add_loop_test(tc, random_metadata, 0, 2);
	suite_add_tcase(s, tc);
	return testlib_run_suite(s);
}
