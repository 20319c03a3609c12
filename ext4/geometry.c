/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * geometry.c - the superblock's numbers, checked before anything is computed from them.
 *
 * Two steps: ext4_check_super() looks at what is needed to read any block at all (magic, checksum,
 * block size against the device), ext4_read_geometry() at everything else. Both run again after
 * the journal was replayed, since the log may carry another superblock.
 *
 * Invariants: (1) after success no divisor is 0, every group but the last has s_blocks_per_group
 * blocks, each bitmap fits into one block, and s_groups_count * s_inodes_per_group ==
 * s_inodes_count. (2) s_blocks_count blocks exist on the device.
 * Locking: mount only, one thread.
 */
#include <inttypes.h>
#include <string.h>

#include "ext4/ext4_int.h"
#include "util/log.h"

#define MAX_LOG_BLOCK_SIZE 6u /* 64 KiB: the largest the format knows */
#define MAX_BLOCK_BYTES 4096u
#define MAX_LOG_FLEX 31u
#define I_BLOCKS_MAX_32 0xffffffffull /* 512-byte units without huge_file */
#define I_BLOCKS_MAX_48 0xffffffffffffull

uint64_t ext4_es_blocks_count(const struct ext2_super_block *es)
{
	uint64_t n = le32_to_cpu(es->s_blocks_count);

	if ((le32_to_cpu(es->s_feature_incompat) & EXT4_FEATURE_INCOMPAT_64BIT) != 0)
		n |= (uint64_t)le32_to_cpu(es->s_blocks_count_hi) << 32;
	return n;
}

static uint64_t es_r_blocks_count(const struct ext2_super_block *es)
{
	uint64_t n = le32_to_cpu(es->s_r_blocks_count);

	if ((le32_to_cpu(es->s_feature_incompat) & EXT4_FEATURE_INCOMPAT_64BIT) != 0)
		n |= (uint64_t)le32_to_cpu(es->s_r_blocks_count_hi) << 32;
	return n;
}

static uint64_t es_free_blocks_count(const struct ext2_super_block *es)
{
	uint64_t n = le32_to_cpu(es->s_free_blocks_count);

	if ((le32_to_cpu(es->s_feature_incompat) & EXT4_FEATURE_INCOMPAT_64BIT) != 0)
		n |= (uint64_t)le32_to_cpu(es->s_free_blocks_hi) << 32;
	return n;
}

static bool is_power_of_2(uint64_t n)
{
	return n != 0 && (n & (n - 1)) == 0;
}

static int bad_field(const char *name, const char *field, uint64_t value)
{
	log_err("%s: superblock damaged: %s is %" PRIu64, name, field, value);
	return -EFSCORRUPTED;
}

/* ---- Step 1 ---- */

int ext4_check_super(const struct ext2_super_block *es, const struct blkdev *dev, const char *name)
{
	uint32_t log_block = le32_to_cpu(es->s_log_block_size);
	uint32_t block_bytes;

	if (le16_to_cpu(es->s_magic) != EXT2_SUPER_MAGIC) {
		log_err("%s: no ext4 file system (magic 0x%04x)", name, le16_to_cpu(es->s_magic));
		return -EINVAL;
	}
	if (le32_to_cpu(es->s_rev_level) > EXT2_MAX_SUPP_REV)
		return bad_field(name, "s_rev_level", le32_to_cpu(es->s_rev_level));
	if ((le32_to_cpu(es->s_feature_ro_compat) & EXT4_FEATURE_RO_COMPAT_METADATA_CSUM) != 0 &&
	    es->s_checksum_type != EXT2_CRC32C_CHKSUM)
		return bad_field(name, "s_checksum_type", es->s_checksum_type);
	if (!ext4_superblock_csum_ok(es)) {
		log_err("%s: superblock damaged: checksum 0x%08x, should be 0x%08x", name,
			(unsigned)le32_to_cpu(es->s_checksum), (unsigned)ext4_superblock_csum(es));
		return -EFSBADCRC;
	}
	if (log_block > MAX_LOG_BLOCK_SIZE)
		return bad_field(name, "s_log_block_size", log_block);
	block_bytes = 1024u << log_block;
	if (block_bytes > MAX_BLOCK_BYTES) {
		log_err("%s: blocks of %u bytes are not supported, only up to %u", name,
			block_bytes, MAX_BLOCK_BYTES);
		return -EOPNOTSUPP;
	}
	if (block_bytes < dev->bd_logical_block_bytes) {
		log_err("%s: blocks of %u bytes are smaller than the device's sectors of %u bytes",
			name, block_bytes, dev->bd_logical_block_bytes);
		return -EOPNOTSUPP;
	}
	if (ext4_es_blocks_count(es) > dev->bd_size_bytes / block_bytes) {
		log_err("%s: the file system has %" PRIu64 " blocks of %u bytes, the device only "
			"%" PRIu64,
			name, ext4_es_blocks_count(es), block_bytes,
			dev->bd_size_bytes / block_bytes);
		return -EFSCORRUPTED;
	}
	return 0;
}

/* ---- Step 2 ---- */

static int read_inode_sizes(struct super_block *sb, const struct ext2_super_block *es)
{
	if (le32_to_cpu(es->s_rev_level) == EXT2_GOOD_OLD_REV) {
		sb->s_inode_size = EXT2_GOOD_OLD_INODE_SIZE;
		sb->s_first_ino = EXT2_GOOD_OLD_FIRST_INO;
	} else {
		sb->s_inode_size = le16_to_cpu(es->s_inode_size);
		sb->s_first_ino = le32_to_cpu(es->s_first_ino);
	}
	if (sb->s_inode_size < EXT4_GOOD_OLD_SIZE || !is_power_of_2(sb->s_inode_size) ||
	    sb->s_inode_size > sb->s_blocksize)
		return bad_field(sb->s_name, "s_inode_size", sb->s_inode_size);
	if (sb->s_first_ino < EXT2_GOOD_OLD_FIRST_INO)
		return bad_field(sb->s_name, "s_first_ino", sb->s_first_ino);
	sb->s_inodes_per_block = sb->s_blocksize / sb->s_inode_size;
	return 0;
}

static void read_want_isize(struct super_block *sb, const struct ext2_super_block *es)
{
	uint32_t room = sb->s_inode_size - EXT4_GOOD_OLD_SIZE;
	uint32_t want = room >= EXT4_EXTRA_FULL ? EXT4_EXTRA_FULL : 0;

	if (room > 0 && ext4_has_ro_compat(sb, EXT4_FEATURE_RO_COMPAT_EXTRA_ISIZE)) {
		uint32_t a = le16_to_cpu(es->s_want_extra_isize);
		uint32_t b = le16_to_cpu(es->s_min_extra_isize);

		a = a > b ? a : b;
		if (a <= room && a % 4 == 0 && a > want)
			want = a;
		else if (a > room || a % 4 != 0)
			log_warn("%s: s_want_extra_isize %u ignored, inodes have %u bytes",
				 sb->s_name, a, sb->s_inode_size);
	}
	sb->s_want_extra_isize = want;
}

static int read_desc_size(struct super_block *sb, const struct ext2_super_block *es)
{
	sb->s_desc_size = EXT4_MIN_DESC_BYTES;
	if (ext4_has_incompat(sb, EXT4_FEATURE_INCOMPAT_64BIT)) {
		sb->s_desc_size = le16_to_cpu(es->s_desc_size);
		if (sb->s_desc_size < EXT2_MIN_DESC_SIZE_64BIT ||
		    sb->s_desc_size > EXT2_MAX_DESC_SIZE || !is_power_of_2(sb->s_desc_size))
			return bad_field(sb->s_name, "s_desc_size", sb->s_desc_size);
	}
	sb->s_desc_per_block = sb->s_blocksize / sb->s_desc_size;
	return 0;
}

static int read_clusters(struct super_block *sb, const struct ext2_super_block *es)
{
	uint32_t log_block = le32_to_cpu(es->s_log_block_size);
	uint32_t log_cluster = le32_to_cpu(es->s_log_cluster_size);

	sb->s_cluster_ratio = 1;
	sb->s_clusters_per_group = sb->s_blocks_per_group;
	if (!ext4_has_ro_compat(sb, EXT4_FEATURE_RO_COMPAT_BIGALLOC)) {
		if (log_cluster != log_block)
			return bad_field(sb->s_name, "s_log_cluster_size", log_cluster);
		return 0;
	}
	if (log_cluster < log_block || log_cluster > EXT2_MAX_CLUSTER_LOG_SIZE - 10)
		return bad_field(sb->s_name, "s_log_cluster_size", log_cluster);
	sb->s_cluster_ratio = 1u << (log_cluster - log_block);
	sb->s_clusters_per_group = le32_to_cpu(es->s_clusters_per_group);
	if ((uint64_t)sb->s_clusters_per_group * sb->s_cluster_ratio != sb->s_blocks_per_group)
		return bad_field(sb->s_name, "s_clusters_per_group", sb->s_clusters_per_group);
	return 0;
}

static int read_group_sizes(struct super_block *sb, const struct ext2_super_block *es)
{
	const uint32_t bits = sb->s_blocksize * 8;
	uint32_t first = sb->s_blocksize == 1024 ? 1 : 0;
	int err;

	sb->s_blocks_per_group = le32_to_cpu(es->s_blocks_per_group);
	sb->s_inodes_per_group = le32_to_cpu(es->s_inodes_per_group);
	sb->s_first_data_block = le32_to_cpu(es->s_first_data_block);
	err = read_clusters(sb, es);
	if (err != 0)
		return err;
	if (sb->s_clusters_per_group == 0 || sb->s_clusters_per_group % 8 != 0 ||
	    sb->s_clusters_per_group > bits)
		return bad_field(sb->s_name, "s_blocks_per_group", sb->s_blocks_per_group);
	if (sb->s_inodes_per_group < sb->s_inodes_per_block || sb->s_inodes_per_group % 8 != 0 ||
	    sb->s_inodes_per_group > bits)
		return bad_field(sb->s_name, "s_inodes_per_group", sb->s_inodes_per_group);
	if (sb->s_cluster_ratio > 1)
		first = 0;
	if (sb->s_first_data_block != first)
		return bad_field(sb->s_name, "s_first_data_block", sb->s_first_data_block);
	sb->s_itb_per_group =
		(sb->s_inodes_per_group + sb->s_inodes_per_block - 1) / sb->s_inodes_per_block;
	return 0;
}

static int read_counts(struct super_block *sb, const struct ext2_super_block *es)
{
	uint64_t groups;

	sb->s_blocks_count = ext4_es_blocks_count(es);
	sb->s_inodes_count = le32_to_cpu(es->s_inodes_count);
	if (sb->s_blocks_count <= sb->s_first_data_block + 1ull)
		return bad_field(sb->s_name, "s_blocks_count", sb->s_blocks_count);
	groups = (sb->s_blocks_count - sb->s_first_data_block + sb->s_blocks_per_group - 1) /
		 sb->s_blocks_per_group;
	if (groups * sb->s_inodes_per_group != sb->s_inodes_count)
		return bad_field(sb->s_name, "s_inodes_count", sb->s_inodes_count);
	sb->s_groups_count = (ext4_group_t)groups;
	sb->s_r_blocks = es_r_blocks_count(es);
	if (sb->s_r_blocks > sb->s_blocks_count)
		return bad_field(sb->s_name, "s_r_blocks_count", sb->s_r_blocks);
	sb->s_free_blocks_at_mount = es_free_blocks_count(es);
	sb->s_free_inodes_at_mount = le32_to_cpu(es->s_free_inodes_count);
	if (sb->s_free_inodes_at_mount > sb->s_inodes_count)
		sb->s_free_inodes_at_mount = sb->s_inodes_count;
	if (sb->s_free_blocks_at_mount > sb->s_blocks_count)
		sb->s_free_blocks_at_mount = sb->s_blocks_count;
	return 0;
}

static int read_descriptor_places(struct super_block *sb, const struct ext2_super_block *es)
{
	uint64_t base;

	sb->s_gdb_count = (uint32_t)(((uint64_t)sb->s_groups_count + sb->s_desc_per_block - 1) /
				     sb->s_desc_per_block);
	sb->s_first_meta_bg = sb->s_gdb_count;
	sb->s_reserved_gdt = le16_to_cpu(es->s_reserved_gdt_blocks);
	sb->s_backup_bgs[0] = le32_to_cpu(es->s_backup_bgs[0]);
	sb->s_backup_bgs[1] = le32_to_cpu(es->s_backup_bgs[1]);
	if (sb->s_reserved_gdt > sb->s_blocksize / 4)
		return bad_field(sb->s_name, "s_reserved_gdt_blocks", sb->s_reserved_gdt);
	if (ext4_has_incompat(sb, EXT2_FEATURE_INCOMPAT_META_BG)) {
		sb->s_first_meta_bg = le32_to_cpu(es->s_first_meta_bg);
		if (sb->s_first_meta_bg > sb->s_gdb_count)
			return bad_field(sb->s_name, "s_first_meta_bg", sb->s_first_meta_bg);
	}
	base = 1ull + sb->s_first_meta_bg + sb->s_reserved_gdt;
	if (base > sb->s_blocks_per_group || base + sb->s_first_data_block > sb->s_blocks_count)
		return bad_field(sb->s_name, "blocks of group descriptors", base);
	sb->s_log_groups_per_flex = 0;
	if (ext4_has_incompat(sb, EXT4_FEATURE_INCOMPAT_FLEX_BG) &&
	    es->s_log_groups_per_flex <= MAX_LOG_FLEX)
		sb->s_log_groups_per_flex = es->s_log_groups_per_flex;
	return 0;
}

static int read_hash(struct super_block *sb, const struct ext2_super_block *es)
{
	if (es->s_def_hash_version > EXT2_HASH_TEA)
		return bad_field(sb->s_name, "s_def_hash_version", es->s_def_hash_version);
	for (unsigned i = 0; i < 4; i++)
		sb->s_hash_seed[i] = le32_to_cpu(es->s_hash_seed[i]);
	sb->s_def_hash_version = es->s_def_hash_version;
	if ((le32_to_cpu(es->s_flags) & EXT2_FLAGS_UNSIGNED_HASH) != 0)
		sb->s_def_hash_version =
			(uint8_t)(sb->s_def_hash_version + EXT2_HASH_LEGACY_UNSIGNED);
	return 0;
}

static uint64_t min_u64(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* ext4: fs/ext4/super.c ext4_max_size() and ext4_max_bitmap_size(). */
static void compute_max_sizes(struct super_block *sb)
{
	const unsigned bits = sb->s_blocksize_bits;
	const uint64_t ptrs = sb->s_blocksize / 4;
	const bool huge = ext4_has_ro_compat(sb, EXT4_FEATURE_RO_COMPAT_HUGE_FILE);
	const uint64_t max_off = (uint64_t)INT64_MAX >> bits;
	uint64_t fs_blocks = huge ? I_BLOCKS_MAX_48 : I_BLOCKS_MAX_32 >> (bits - 9);
	uint64_t meta = 1 + (1 + ptrs) + (1 + ptrs + ptrs * ptrs);
	uint64_t mapped = 12 + ptrs + ptrs * ptrs + ptrs * ptrs * ptrs;

	sb->s_max_bytes = min_u64(min_u64(EXT4_MAX_BLOCKS, fs_blocks), max_off) << bits;
	fs_blocks -= min_u64(meta, fs_blocks);
	sb->s_max_bitmap_bytes = min_u64(min_u64(mapped, EXT4_MAX_BLOCKS), fs_blocks) << bits;
}

static uint32_t choose_stripe(const struct super_block *sb, const struct ext2_super_block *es)
{
	int64_t want = sb->s_opts.o_stripe;

	if (want < 0) {
		want = le32_to_cpu(es->s_raid_stripe_width);
		if (want == 0)
			want = le16_to_cpu(es->s_raid_stride);
	}
	if (want <= 1)
		return 0;
	if (want > sb->s_blocks_per_group) {
		log_warn("%s: stripe of %" PRId64 " blocks ignored: a group has %u", sb->s_name,
			 want, sb->s_blocks_per_group);
		return 0;
	}
	return (uint32_t)want;
}

int ext4_read_geometry(struct super_block *sb, const struct ext2_super_block *es)
{
	int err;

	sb->s_blocksize_bits = 10 + le32_to_cpu(es->s_log_block_size);
	sb->s_blocksize = 1u << sb->s_blocksize_bits;
	err = read_inode_sizes(sb, es);
	if (err == 0)
		err = read_desc_size(sb, es);
	if (err == 0)
		err = read_group_sizes(sb, es);
	if (err == 0)
		err = read_counts(sb, es);
	if (err == 0)
		err = read_descriptor_places(sb, es);
	if (err == 0)
		err = read_hash(sb, es);
	if (err != 0)
		return err;
	read_want_isize(sb, es);
	compute_max_sizes(sb);
	sb->s_resuid = sb->s_opts.o_resuid >= 0 ? (uint32_t)sb->s_opts.o_resuid
						: le16_to_cpu(es->s_def_resuid);
	sb->s_resgid = sb->s_opts.o_resgid >= 0 ? (uint32_t)sb->s_opts.o_resgid
						: le16_to_cpu(es->s_def_resgid);
	sb->s_stripe = choose_stripe(sb, es);
	return 0;
}
