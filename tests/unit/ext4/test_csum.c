/* SPDX-License-Identifier: GPL-2.0-or-later */
/* test_csum.c - checksums of each kind of block as e2fsprogs wrote them, and the directory hash. */

#include <ext2fs/ext2fs.h>
#include <ext2fs/ext2_ext_attr.h>
#include <ext2fs/ext3_extents.h>

#include "tests/lib/suite.h"
#include "tests/unit/ext4/fixture.h"

/* The first block number that debugfs prints for the command. */
static uint64_t block_of(struct test_fs *t, const char *command)
{
	char *out = testlib_debugfs(t->t_disk, command);
	uint64_t block;
	char *p = strchr(out, '\n');

	/* The first line is debugfs's version. */
	ck_assert_ptr_nonnull(p);
	block = strtoull(p, NULL, 10);
	ck_assert_msg(block != 0, "%s: %s", command, out);
	free(out);
	return block;
}

static uint8_t *bytes_of(struct test_fs *t, uint64_t block)
{
	return (uint8_t *)mem_data(t->t_disk) + block * t->t_sb->s_blocksize;
}

/* A directory of 300 files, so that it is indexed after e2fsck -D; a sparse file with a deep tree; attributes in a block. */
static void make_rich(struct test_fs *t, const char *args)
{
	char *commands = calloc(1, 65536);
	size_t n = 0;

	n += (size_t)snprintf(commands + n, 65536 - n, "mkdir d\ncd d\n");
	for (unsigned i = 0; i < 300; i++)
		n += (size_t)snprintf(commands + n, 65536 - n, "symlink name%030u target\n", i);
	n += (size_t)snprintf(commands + n, 65536 - n, "cd /\nwrite /etc/passwd f\n");
	for (unsigned i = 0; i < 40; i++)
		n += (size_t)snprintf(commands + n, 65536 - n, "fallocate f %u %u\n", 10 + 2 * i,
				      10 + 2 * i);
	fx_make(t, args, 24 * MIB, commands);
	free(commands);
	ck_assert_int_le(testlib_fsck_args(t->t_disk, "-fyD"), 1);
	t->t_opts.o_read_only = true;
	ck_assert_int_eq(fx_mount(t), 0);
}

static struct inode *by_path(struct test_fs *t, const char *path)
{
	char command[256], *out, *p;
	struct inode *inode;

	snprintf(command, sizeof(command), "stat %s", path);
	out = testlib_debugfs(t->t_disk, command);
	p = strstr(out, "Inode: ");
	ck_assert_ptr_nonnull(p);
	inode = ext4_iget(t->t_sb, (uint32_t)strtoul(p + 7, NULL, 10), EXT4_IGET_NORMAL);
	ck_assert(!IS_ERR(inode));
	free(out);
	return inode;
}

enum block_kind { OF_EXTENTS, OF_DIRBLOCK, OF_DX_ROOT };

/* As a change in a buffer and the copy that follows it do. */
static void set_csum(enum block_kind kind, struct inode *inode, uint8_t *data)
{
	struct buffer_head bh = {.b_data = data, .b_size = inode->i_sb->s_blocksize};

	mutex_init(&bh.b_lock, LOCK_RANK_BUFFER);
	lock_buffer(&bh);
	if (kind == OF_EXTENTS)
		ext4_extent_block_csum_later(inode, &bh);
	else if (kind == OF_DIRBLOCK)
		ext4_dirblock_csum_later(inode, &bh);
	else
		ext4_dx_csum_later(inode, &bh, 32);
	bh_seal(&bh);
	unlock_buffer(&bh);
	mutex_destroy(&bh.b_lock);
}

START_TEST(extent_block)
{
	struct test_fs t;
	struct inode *inode;
	struct ext3_extent_idx ix;
	uint8_t *data, *copy;

	make_rich(&t, "-t ext4 -b 1024");
	inode = by_path(&t, "/f");
	memcpy(&ix, inode->i_block + 12, sizeof(ix));
	data = bytes_of(&t, le32_to_cpu(ix.ei_leaf));
	ck_assert(ext4_extent_block_csum_ok(inode, data));
	copy = malloc(1024);
	memcpy(copy, data, 1024);
	for (unsigned at = 0; at < 12 + 12 * 84; at += 37) {
		copy[at] ^= 0x20;
		ck_assert_msg(!ext4_extent_block_csum_ok(inode, copy), "byte %u", at);
		copy[at] ^= 0x20;
	}
	/* A tail that lies outside. */
	copy[4] = 0xff;
	copy[5] = 0xff;
	ck_assert(!ext4_extent_block_csum_ok(inode, copy));
	memcpy(copy, data, 1024);
	copy[14] ^= 1;
	set_csum(OF_EXTENTS, inode, copy);
	ck_assert(ext4_extent_block_csum_ok(inode, copy));
	copy[14] ^= 1;
	set_csum(OF_EXTENTS, inode, copy);
	ck_assert_int_eq(memcmp(copy, data, 1024), 0);
	free(copy);
	iput(inode);
	fx_free(&t);
}
END_TEST

START_TEST(directory_leaf)
{
	struct test_fs t;
	struct inode *dir;
	uint8_t *data, copy[1024];

	make_rich(&t, "-t ext4 -b 1024");
	dir = by_path(&t, "/d");
	data = bytes_of(&t, block_of(&t, "bmap /d 1"));
	ck_assert(ext4_dirblock_csum_ok(dir, data));
	memcpy(copy, data, sizeof(copy));
	for (unsigned at = 0; at < sizeof(copy); at += 13) {
		copy[at] ^= 4;
		ck_assert(!ext4_dirblock_csum_ok(dir, copy));
		copy[at] ^= 4;
	}
	memset(copy + 1012, 0x55, 12);
	set_csum(OF_DIRBLOCK, dir, copy);
	ck_assert_int_eq(memcmp(copy, data, sizeof(copy)), 0);
	iput(dir);
	fx_free(&t);
}
END_TEST

START_TEST(htree_root)
{
	struct test_fs t;
	struct inode *dir;
	uint8_t *data, copy[1024];
	uint16_t limit, count;

	make_rich(&t, "-t ext4 -b 1024");
	dir = by_path(&t, "/d");
	ck_assert(dir->i_flags & EXT2_INDEX_FL);
	data = bytes_of(&t, block_of(&t, "bmap /d 0"));
	memcpy(copy, data, sizeof(copy));
	memcpy(&limit, data + 32, 2);
	memcpy(&count, data + 34, 2);
	ck_assert(ext4_dx_csum_ok(dir, data, 32, le16_to_cpu(count), le16_to_cpu(limit)));
	copy[33] ^= 1;
	ck_assert(!ext4_dx_csum_ok(dir, copy, 32, le16_to_cpu(count), le16_to_cpu(limit)));
	/* Counts that lead out of the block. */
	ck_assert(!ext4_dx_csum_ok(dir, data, 32, 65535, 65535));
	ck_assert(!ext4_dx_csum_ok(dir, data, 32, 200, 100));
	ck_assert(!ext4_dx_csum_ok(dir, data, 32, 0, 124));
	copy[33] ^= 1;
	memset(copy + 1020, 0, 4);
	set_csum(OF_DX_ROOT, dir, copy);
	ck_assert_int_eq(memcmp(copy, data, sizeof(copy)), 0);
	iput(dir);
	fx_free(&t);
}
END_TEST

START_TEST(attribute_block)
{
	struct test_fs t;
	struct inode *inode;
	uint8_t *data, copy[1024];
	char commands[600];

	snprintf(commands, sizeof(commands), "write /etc/passwd f\nea_set f user.a %0400d", 7);
	fx_make(&t, "-t ext4 -b 1024", 24 * MIB, commands);
	t.t_opts.o_read_only = true;
	ck_assert_int_eq(fx_mount(&t), 0);
	inode = by_path(&t, "/f");
	ck_assert_uint_ne(inode->i_file_acl, 0);
	data = bytes_of(&t, inode->i_file_acl);
	ck_assert(ext4_xattr_block_csum_ok(inode, inode->i_file_acl, data));
	/* Its place is part of it. */
	ck_assert(!ext4_xattr_block_csum_ok(inode, inode->i_file_acl + 1, data));
	memcpy(copy, data, sizeof(copy));
	copy[1023] ^= 1;
	ck_assert(!ext4_xattr_block_csum_ok(inode, inode->i_file_acl, copy));
	copy[1023] ^= 1;
	memset(copy + 16, 0xaa, 4);
	ext4_xattr_block_csum_set(inode, inode->i_file_acl, copy);
	ck_assert_int_eq(memcmp(copy, data, sizeof(copy)), 0);
	iput(inode);
	fx_free(&t);
}
END_TEST

START_TEST(without_the_feature_nothing_is_checked_or_set)
{
	struct test_fs t;
	struct inode *dir;
	uint8_t block[1024], copy[1024];

	fx_make(&t, "-t ext4 -b 1024 -O ^metadata_csum", 24 * MIB, NULL);
	t.t_opts.o_read_only = true;
	ck_assert_int_eq(fx_mount(&t), 0);
	dir = ext4_iget(t.t_sb, EXT4_ROOT_INO, 0);
	memset(block, 0x77, sizeof(block));
	memcpy(copy, block, sizeof(copy));
	ck_assert(ext4_dirblock_csum_ok(dir, block));
	ck_assert(ext4_extent_block_csum_ok(dir, block));
	ck_assert(ext4_dx_csum_ok(dir, block, 32, 65535, 65535));
	ck_assert(ext4_xattr_block_csum_ok(dir, 1, block));
	set_csum(OF_DIRBLOCK, dir, block);
	set_csum(OF_EXTENTS, dir, block);
	set_csum(OF_DX_ROOT, dir, block);
	ext4_xattr_block_csum_set(dir, 1, block);
	ck_assert_int_eq(memcmp(block, copy, sizeof(block)), 0);
	iput(dir);
	fx_free(&t);
}
END_TEST

/* Descriptors of all sizes and both algorithms, as mke2fs made them; and a seed that is not the UUID's. */
START_TEST(descriptors)
{
	static const char *const args[] = {
		"-t ext4 -b 1024",
		"-t ext4 -b 1024 -O ^64bit",
		"-t ext4 -b 1024 -O ^metadata_csum,uninit_bg",
		"-t ext4 -b 1024 -O ^metadata_csum,uninit_bg,^64bit",
		"-t ext4 -b 1024 -O metadata_csum_seed -E discard",
	};
	struct test_fs t;
	uint8_t desc[64];
	unsigned tries = 0;

	fx_make(&t, args[_i], 24 * MIB, NULL);
	if (_i == 4) {
		memset(fx_super(&t)->s_uuid, 0x5a, 16);
		fx_super_changed(&t);
	}
	ck_assert_int_eq(fx_mount(&t), 0);
	for (ext4_group_t g = 0; g < t.t_sb->s_groups_count; g++) {
		struct ext4_group_info *gi = ext4_get_group_info(t.t_sb, g);

		ck_assert(!IS_ERR(gi));
		memcpy(desc, gi->bg_desc_bh->b_data + gi->bg_desc_offset, t.t_sb->s_desc_size);
		ck_assert(ext4_group_desc_csum_ok(t.t_sb, g, desc));
		ck_assert(!ext4_group_desc_csum_ok(t.t_sb, g + 1, desc));
		for (unsigned at = 0; at < t.t_sb->s_desc_size; at += 3, tries++) {
			desc[at] ^= 1;
			ck_assert(!ext4_group_desc_csum_ok(t.t_sb, g, desc));
			desc[at] ^= 1;
		}
		ext4_group_desc_csum_set(t.t_sb, g, desc);
		ck_assert_int_eq(memcmp(desc, gi->bg_desc_bh->b_data + gi->bg_desc_offset,
					t.t_sb->s_desc_size),
				 0);
		bh_put(ext4_read_block_bitmap(t.t_sb, gi));
		bh_put(ext4_read_inode_bitmap(t.t_sb, gi));
	}
	ck_assert_uint_gt(tries, 30);
	ck_assert_uint_eq(counter_read(&t.t_sb->s_stats.st_csum_errors), 0);
	fx_free(&t);
}
END_TEST

/* ---- Directory hash ---- */

/* debugfs's dx_hash is the judge; names with bytes above 127 tell signed from unsigned. */
START_TEST(hashes_are_those_of_e2fsprogs)
{
	static const char *const names[] = {"a", "hello",
					    "a_rather_long_name_of_forty_bytes_______"};
	static const struct {
		const char *h_name;
		unsigned h_version;
	} kinds[] = {
		{"legacy", EXT2_HASH_LEGACY},
		{"half_md4", EXT2_HASH_HALF_MD4},
		{"tea", EXT2_HASH_TEA},
	};
	static const char seed[] = "01234567-89ab-cdef-0123-456789abcdef";
	struct super_block *sb = calloc(1, sizeof(*sb));
	static const uint8_t uuid[16] = {0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef,
					 0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef};

	for (unsigned i = 0; i < 4; i++) {
		memcpy(&sb->s_hash_seed[i], uuid + 4 * i, 4);
		sb->s_hash_seed[i] = le32_to_cpu(sb->s_hash_seed[i]);
	}
	for (unsigned k = 0; k < 3; k++) {
		for (unsigned n = 0; n < 3; n++) {
			char command[256], want[64], *out;
			uint32_t hash, minor;

			snprintf(command, sizeof(command), "debugfs -R 'dx_hash -h %s -s %s %s'",
				 kinds[k].h_name, seed, names[n]);
			ck_assert_int_eq(testlib_run(command, &out), 0);
			ck_assert_int_eq(ext4_dirhash(sb, kinds[k].h_version, names[n],
						      (unsigned)strlen(names[n]), &hash, &minor),
					 0);
			snprintf(want, sizeof(want), "is 0x%x (minor 0x%x)", hash, minor);
			ck_assert_msg(strstr(out, want) != NULL, "%s: %s, not %s", command, out,
				      want);
			free(out);
		}
	}
	free(sb);
}
END_TEST

START_TEST(signedness_is_a_matter_of_the_version)
{
	static const char name[] = {'n', (char)0xe4, (char)0xff, 'x'};
	struct super_block *sb = calloc(1, sizeof(*sb));
	uint32_t s, u, minor;

	for (unsigned v = EXT2_HASH_LEGACY; v <= EXT2_HASH_TEA; v++) {
		ck_assert_int_eq(ext4_dirhash(sb, v, name, 4, &s, &minor), 0);
		ck_assert_int_eq(
			ext4_dirhash(sb, v + EXT2_HASH_LEGACY_UNSIGNED, name, 4, &u, &minor), 0);
		ck_assert_uint_ne(s, u);
		ck_assert_int_eq(ext4_dirhash(sb, v, "plain", 5, &s, &minor), 0);
		ck_assert_int_eq(
			ext4_dirhash(sb, v + EXT2_HASH_LEGACY_UNSIGNED, "plain", 5, &u, NULL), 0);
		ck_assert_uint_eq(s, u);
	}
	/* The same on every host: worked out by hand. */
	ck_assert_int_eq(ext4_dirhash(sb, EXT2_HASH_LEGACY, name, 4, &s, NULL), 0);
	ck_assert_int_eq(ext4_dirhash(sb, EXT2_HASH_LEGACY_UNSIGNED, name, 4, &u, NULL), 0);
	ck_assert_uint_eq(s, 0x096ac700);
	ck_assert_uint_eq(u, 0x68a0b900);
	ck_assert_int_eq(ext4_dirhash(sb, 7, name, 4, &s, NULL), -EINVAL);
	free(sb);
}
END_TEST

START_TEST(signedness_comes_from_the_superblock)
{
	static const uint32_t flags[] = {EXT2_FLAGS_SIGNED_HASH, EXT2_FLAGS_UNSIGNED_HASH, 0};
	static const unsigned versions[] = {EXT2_HASH_HALF_MD4, EXT2_HASH_HALF_MD4_UNSIGNED,
					    EXT2_HASH_HALF_MD4};
	struct test_fs t;

	fx_make(&t, "-t ext4", 24 * MIB, NULL);
	fx_super(&t)->s_flags = cpu_to_le32(flags[_i]);
	fx_super_changed(&t);
	ck_assert_int_eq(fx_mount(&t), 0);
	ck_assert_uint_eq(t.t_sb->s_def_hash_version, versions[_i]);
	ck_assert_int_eq(fx_umount(&t), 0);
	/* Neither: settled as signed. */
	ck_assert_uint_eq(le32_to_cpu(fx_super(&t)->s_flags),
			  flags[_i] != 0 ? flags[_i] : EXT2_FLAGS_SIGNED_HASH);
	fx_free(&t);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("ext4/csum");
	TCase *tc = testlib_case("all");

	tcase_add_test(tc, extent_block);
	tcase_add_test(tc, directory_leaf);
	tcase_add_test(tc, htree_root);
	tcase_add_test(tc, attribute_block);
	tcase_add_test(tc, without_the_feature_nothing_is_checked_or_set);
	tcase_add_loop_test(tc, descriptors, 0, 5);
	tcase_add_test(tc, hashes_are_those_of_e2fsprogs);
	tcase_add_test(tc, signedness_is_a_matter_of_the_version);
	tcase_add_loop_test(tc, signedness_comes_from_the_superblock, 0, 3);
	suite_add_tcase(s, tc);
	return testlib_run_suite(s);
}
