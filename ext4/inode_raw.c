/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * inode_raw.c - inodes between their form on disk and in memory, and what is believed of them.
 *
 * Reading: ext4_inode_decode() converts each field once and refuses what no later code could
 * stand: impossible types, sizes, pointers, flags of features that are not there. The block map is
 * checked as far as it lies in the inode; alloc/ checks each block of it when it is read.
 * Writing: ext4_inode_encode() puts the inode into its place in the table block. Fields that other
 * threads may be changing at that moment are copied without their locks: whoever changes them has
 * a handle open and marks the inode dirty after it, in the same transaction, so no torn value is
 * ever committed.
 *
 * Times: 32 signed bits of seconds, and in larger inodes two more epoch bits (added, not or-ed:
 * 1901 to 2446) and 30 bits of nanoseconds.
 *
 * Invariants: (1) encode writes nothing beyond the fixed part and i_extra_isize: xattr space is
 * namespace/'s. (2) An inode that decode accepted can be encoded.
 * Locking: encode runs under lock_buffer of the table block.
 */
#include <ext2fs/ext2fs.h>
#include <ext2fs/ext3_extents.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>

#include "ext4/ext4_int.h"
#include "ext4/inode.h"
#include "ext4/inode_raw.h"
#include "util/assert.h"

#define SEC_MIN INT32_MIN
#define SEC_MAX_32 INT32_MAX
#define SEC_MAX_34 ((int64_t)INT32_MAX + ((int64_t)EXT4_EPOCH_MASK << 32))

#define FITS(extra_isize, field)                                                                   \
	(EXT4_GOOD_OLD_SIZE + (unsigned)(extra_isize) >=                                           \
	 offsetof(struct ext2_inode_large, field) +                                                \
		 sizeof(((struct ext2_inode_large *)NULL)->field))

/* ---- Places ---- */

int ext4_inode_table_pos(struct super_block *sb, uint32_t ino, ext4_fsblk_t *block,
			 unsigned *offset)
{
	uint32_t index;
	struct ext4_group_info *gi;

	*block = 0;
	*offset = 0;
	if (ino == 0 || ino > sb->s_inodes_count)
		return -EFSCORRUPTED;
	index = (ino - 1) % sb->s_inodes_per_group;
	gi = ext4_get_group_info(sb, (ino - 1) / sb->s_inodes_per_group);
	if (IS_ERR(gi))
		return PTR_ERR(gi);
	*block = gi->bg_inode_table + index / sb->s_inodes_per_block;
	*offset = index % sb->s_inodes_per_block * sb->s_inode_size;
	return 0;
}

int ext4_read_raw_inode(struct super_block *sb, uint32_t ino, struct ext2_inode_large *buf)
{
	struct buffer_head *bh;
	ext4_fsblk_t block;
	unsigned offset;
	int err;

	err = ext4_inode_table_pos(sb, ino, &block, &offset);
	if (err != 0)
		return err;
	bh = bh_read(sb->s_bcache, block);
	if (IS_ERR(bh))
		return PTR_ERR(bh);
	lock_buffer(bh);
	memcpy(buf, bh->b_data + offset, sb->s_inode_size);
	unlock_buffer(bh);
	bh_put(bh);
	if (!ext4_raw_inode_csum_ok(
		    sb, ext4_inode_csum_seed(sb, ino, le32_to_cpu(buf->i_generation)), buf))
		return -EFSBADCRC;
	return 0;
}

bool ext4_is_special_ino(const struct super_block *sb, uint32_t ino)
{
	const struct ext2_super_block *es = sb->s_es;

	if (ino < sb->s_first_ino)
		return ino != EXT4_ROOT_INO;
	/* These words of the superblock never change while it is mounted. */
	return (ext4_has_compat(sb, EXT3_FEATURE_COMPAT_HAS_JOURNAL) &&
		ino == le32_to_cpu(es->s_journal_inum)) ||
	       (ext4_has_compat(sb, EXT4_FEATURE_COMPAT_ORPHAN_FILE) &&
		ino == le32_to_cpu(es->s_orphan_file_inum)) ||
	       (ext4_has_ro_compat(sb, EXT4_FEATURE_RO_COMPAT_QUOTA) &&
		(ino == le32_to_cpu(es->s_usr_quota_inum) ||
		 ino == le32_to_cpu(es->s_grp_quota_inum) ||
		 ino == le32_to_cpu(es->s_prj_quota_inum)));
}

bool ext4_valid_dir_ino(const struct super_block *sb, uint32_t ino)
{
	return ino <= sb->s_inodes_count && (ino == EXT4_ROOT_INO || ino >= sb->s_first_ino) &&
	       !ext4_is_special_ino(sb, ino);
}

/* ---- Times ---- */

static struct timespec decode_time(uint32_t le_sec, uint32_t le_extra, bool has_extra)
{
	struct timespec ts = {.tv_sec = (int32_t)le32_to_cpu(le_sec)};
	uint32_t extra = le32_to_cpu(le_extra);
	uint32_t nsec = extra >> EXT4_EPOCH_BITS;

	if (!has_extra)
		return ts;
	ts.tv_sec += (time_t)((uint64_t)(extra & EXT4_EPOCH_MASK) << 32);
	ts.tv_nsec = nsec < NSEC_PER_SEC ? (long)nsec : 0;
	return ts;
}

static int64_t clamp_sec(int64_t sec, int64_t max)
{
	if (sec < SEC_MIN)
		return SEC_MIN;
	return sec > max ? max : sec;
}

static uint32_t encode_sec(const struct timespec *ts, bool has_extra)
{
	int64_t sec = clamp_sec(ts->tv_sec, has_extra ? SEC_MAX_34 : SEC_MAX_32);

	return cpu_to_le32((uint32_t)(uint64_t)sec);
}

static uint32_t encode_extra(const struct timespec *ts)
{
	int64_t sec = clamp_sec(ts->tv_sec, SEC_MAX_34);
	int64_t epoch = (sec - (int32_t)(uint32_t)(uint64_t)sec) / ((int64_t)1 << 32);

	return cpu_to_le32(((uint32_t)epoch & EXT4_EPOCH_MASK) | (uint32_t)ts->tv_nsec
									 << EXT4_EPOCH_BITS);
}

struct timespec ext4_clamp_time(const struct inode *inode, struct timespec ts)
{
	const bool extra = inode->i_sb->s_inode_size > EXT4_GOOD_OLD_SIZE;
	int64_t max = extra ? SEC_MAX_34 : SEC_MAX_32;
	int64_t sec = clamp_sec(ts.tv_sec, max);

	/* As timestamp_truncate(): the ends of the range have no fraction. */
	if (!extra || sec == max || sec == SEC_MIN)
		ts.tv_nsec = 0;
	ts.tv_sec = (time_t)sec;
	return ts;
}

/* ---- Device numbers ---- */

/* The kernel's old encoding has 8 bits each, in i_block[0]; the new one, in i_block[1], is that of makedev(3)'s low 32 bits. */
static uint32_t decode_rdev(const uint8_t *i_block)
{
	uint32_t words[2];
	uint32_t old;

	memcpy(words, i_block, sizeof(words));
	old = le32_to_cpu(words[0]);
	if (old != 0)
		return (uint32_t)makedev((old >> 8) & 0xff, old & 0xff);
	return le32_to_cpu(words[1]);
}

static void encode_rdev(uint32_t rdev, uint32_t *i_block)
{
	memset(i_block, 0, EXT4_N_BLOCKS_BYTES);
	if (major(rdev) < 256 && minor(rdev) < 256)
		i_block[0] = cpu_to_le32(major(rdev) << 8 | minor(rdev));
	else
		i_block[1] = cpu_to_le32(rdev);
}

/* ---- Checks ---- */

static bool valid_type(uint16_t mode)
{
	switch (mode & S_IFMT) {
	case S_IFREG:
	case S_IFDIR:
	case S_IFLNK:
	case S_IFCHR:
	case S_IFBLK:
	case S_IFIFO:
	case S_IFSOCK:
		return true;
	default:
		return false;
	}
}

static bool is_fast_symlink(const struct inode *inode)
{
	return S_ISLNK(inode->i_mode) && i_size_read(inode) < EXT4_N_BLOCKS_BYTES &&
	       !ext4_is_extents(inode);
}

static const char *check_extent_root(const struct inode *inode)
{
	struct ext3_extent_header eh;

	memcpy(&eh, inode->i_block, sizeof(eh));
	if (le16_to_cpu(eh.eh_magic) != EXT3_EXT_MAGIC)
		return "bad extent magic";
	if (le16_to_cpu(eh.eh_max) > EXT4_N_BLOCKS_BYTES / EXT4_EXTENT_SIZE - 1 ||
	    le16_to_cpu(eh.eh_max) == 0)
		return "bad eh_max of the extent root";
	if (le16_to_cpu(eh.eh_entries) > le16_to_cpu(eh.eh_max))
		return "more extents than fit into the root";
	if (le16_to_cpu(eh.eh_depth) > EXT4_MAX_EXTENT_DEPTH)
		return "extent tree too deep";
	if (le16_to_cpu(eh.eh_depth) > 0 && eh.eh_entries == 0)
		return "empty index in the extent root";
	return NULL;
}

static const char *check_pointers(const struct inode *inode)
{
	const struct super_block *sb = inode->i_sb;

	for (unsigned i = 0; i < EXT2_N_BLOCKS; i++) {
		uint32_t le_block, block;

		memcpy(&le_block, inode->i_block + i * sizeof(le_block), sizeof(le_block));
		block = le32_to_cpu(le_block);
		if (block != 0 && (block <= sb->s_first_data_block || block >= sb->s_blocks_count))
			return "block pointer outside the device";
	}
	return NULL;
}

static const char *check_symlink(const struct inode *inode)
{
	uint64_t size = i_size_read(inode);

	if (size == 0 || size > inode->i_sb->s_blocksize)
		return "bad length of a symbolic link";
	if (is_fast_symlink(inode) && memchr(inode->i_block, 0, (size_t)size) != NULL)
		return "symbolic link shorter than its size";
	return NULL;
}

static const char *check_map(const struct inode *inode)
{
	if (!S_ISREG(inode->i_mode) && !S_ISDIR(inode->i_mode) && !S_ISLNK(inode->i_mode))
		return ext4_is_extents(inode) ? "special file with extents" : NULL;
	if (is_fast_symlink(inode))
		return NULL;
	return ext4_is_extents(inode) ? check_extent_root(inode) : check_pointers(inode);
}

static const char *check_flags(const struct inode *inode)
{
	const uint32_t flags = inode->i_flags;

	if ((flags & EXT4_INLINE_DATA_FL) != 0)
		return "inline data without the feature";
	if ((flags & EXT4_EA_INODE_FL) != 0)
		return "value of an extended attribute named as a file";
	if ((flags & EXT4_ENCRYPT_FL) != 0)
		return "encrypted without the feature";
	if ((flags & EXT4_CASEFOLD_FL) != 0)
		return "casefolded without the feature";
	if ((flags & EXT2_INDEX_FL) != 0 && S_ISDIR(inode->i_mode) &&
	    ext4_has_metadata_csum(inode->i_sb) &&
	    !ext4_has_compat(inode->i_sb, EXT2_FEATURE_COMPAT_DIR_INDEX))
		return "indexed directory without the feature";
	return NULL;
}

static const char *check_inode(const struct inode *inode)
{
	struct super_block *sb = inode->i_sb;
	const char *why;

	if (!valid_type(inode->i_mode))
		return "impossible file type";
	why = check_flags(inode);
	if (why != NULL)
		return why;
	if (i_size_read(inode) > sb->s_max_bytes)
		return "impossible size";
	if (S_ISDIR(inode->i_mode) && i_size_read(inode) % sb->s_blocksize != 0)
		return "size of a directory is no multiple of the block size";
	if (inode->i_file_acl != 0 && !ext4_data_block_valid(sb, inode->i_file_acl, 1))
		return "attribute block at a bad place";
	if (S_ISLNK(inode->i_mode))
		why = check_symlink(inode);
	return why != NULL ? why : check_map(inode);
}

/* ---- Decoding ---- */

uint64_t ext4_raw_size(const struct super_block *sb, const struct ext2_inode_large *raw)
{
	uint64_t size = le32_to_cpu(raw->i_size);

	if (S_ISREG(le16_to_cpu(raw->i_mode)) ||
	    ext4_has_incompat(sb, EXT4_FEATURE_INCOMPAT_LARGEDIR))
		size |= (uint64_t)le32_to_cpu(raw->i_size_high) << 32;
	return size;
}

static uint64_t decode_blocks(const struct super_block *sb, const struct ext2_inode_large *raw)
{
	uint64_t blocks = le32_to_cpu(raw->i_blocks);

	if (!ext4_has_ro_compat(sb, EXT4_FEATURE_RO_COMPAT_HUGE_FILE))
		return blocks;
	blocks |= (uint64_t)le16_to_cpu(raw->osd2.linux2.l_i_blocks_hi) << 32;
	if ((le32_to_cpu(raw->i_flags) & EXT4_HUGE_FILE_FL) != 0)
		blocks <<= sb->s_blocksize_bits - 9;
	return blocks;
}

/* extra: i_extra_isize as on disk, checked; 0 for small inodes. */
static void decode_extra(struct inode *inode, const struct ext2_inode_large *raw, unsigned extra)
{
	inode->i_ctime =
		decode_time(raw->i_ctime, FITS(extra, i_ctime_extra) ? raw->i_ctime_extra : 0,
			    FITS(extra, i_ctime_extra));
	inode->i_mtime =
		decode_time(raw->i_mtime, FITS(extra, i_mtime_extra) ? raw->i_mtime_extra : 0,
			    FITS(extra, i_mtime_extra));
	inode->i_atime =
		decode_time(raw->i_atime, FITS(extra, i_atime_extra) ? raw->i_atime_extra : 0,
			    FITS(extra, i_atime_extra));
	if (FITS(extra, i_crtime))
		inode->i_crtime = decode_time(raw->i_crtime,
					      FITS(extra, i_crtime_extra) ? raw->i_crtime_extra : 0,
					      FITS(extra, i_crtime_extra));
	inode->i_version = le32_to_cpu(raw->osd1.linux1.l_i_version);
	if (FITS(extra, i_version_hi))
		inode->i_version |= (uint64_t)le32_to_cpu(raw->i_version_hi) << 32;
	if (FITS(extra, i_projid))
		inode->i_projid = le32_to_cpu(raw->i_projid);
}

static void decode_fixed(struct inode *inode, const struct ext2_inode_large *raw)
{
	struct super_block *sb = inode->i_sb;

	inode->i_mode = le16_to_cpu(raw->i_mode);
	inode->i_uid = le16_to_cpu(raw->i_uid) | (uint32_t)le16_to_cpu(raw->i_uid_high) << 16;
	inode->i_gid = le16_to_cpu(raw->i_gid) | (uint32_t)le16_to_cpu(raw->i_gid_high) << 16;
	atomic_store(&inode->i_nlink, le16_to_cpu(raw->i_links_count));
	inode->i_flags = le32_to_cpu(raw->i_flags);
	i_size_write(inode, ext4_raw_size(sb, raw));
	atomic_store(&inode->i_disksize, i_size_read(inode));
	atomic_store(&inode->i_blocks, decode_blocks(sb, raw));
	inode->i_dtime = le32_to_cpu(raw->i_dtime);
	inode->i_file_acl = le32_to_cpu(raw->i_file_acl);
	if (ext4_has_incompat(sb, EXT4_FEATURE_INCOMPAT_64BIT))
		inode->i_file_acl |= (uint64_t)le16_to_cpu(raw->osd2.linux2.l_i_file_acl_high)
				     << 32;
	memcpy(inode->i_block, raw->i_block, sizeof(inode->i_block));
	if (S_ISCHR(inode->i_mode) || S_ISBLK(inode->i_mode))
		inode->i_rdev = decode_rdev(inode->i_block);
}

static int decode_error(struct inode *inode, unsigned flags, const char *why)
{
	if ((flags & EXT4_IGET_HANDLE) != 0)
		return -ESTALE;
	return ext4_error(inode->i_sb, inode->i_ino, "%s", why);
}

static int csum_error(struct inode *inode, unsigned flags)
{
	if ((flags & EXT4_IGET_HANDLE) != 0)
		return -ESTALE;
	return ext4_error_csum(inode->i_sb, inode->i_ino, 0, "bad inode checksum");
}

/* 0 if in use; else the answer. */
static int check_in_use(struct inode *inode, const struct ext2_inode_large *raw, unsigned flags)
{
	if (raw->i_links_count != 0)
		return 0;
	if (raw->i_mode != 0 && (flags & EXT4_IGET_ORPHAN) != 0)
		return 0;
	return decode_error(inode, flags, "deleted inode named");
}

int ext4_inode_decode(struct inode *inode, const struct ext2_inode_large *raw, unsigned flags)
{
	struct super_block *sb = inode->i_sb;
	const char *why;
	unsigned extra = 0;
	int err = check_in_use(inode, raw, flags);

	if (err != 0)
		return err;
	if (sb->s_inode_size > EXT4_GOOD_OLD_SIZE) {
		extra = le16_to_cpu(raw->i_extra_isize);
		if (extra % 4 != 0 || extra > sb->s_inode_size - EXT4_GOOD_OLD_SIZE)
			return decode_error(inode, flags, "bad extra isize");
	}
	ext4_inode_set_generation(inode, le32_to_cpu(raw->i_generation));
	if (!ext4_raw_inode_csum_ok(sb, inode->i_csum_seed, raw))
		return csum_error(inode, flags);
	decode_fixed(inode, raw);
	decode_extra(inode, raw, extra);
	/* Never used so far: the fields known here can be. Encode zeroes what was not there. */
	inode->i_extra_isize = (uint16_t)extra;
	if (sb->s_inode_size > EXT4_GOOD_OLD_SIZE && extra == 0)
		inode->i_extra_isize = (uint16_t)sb->s_want_extra_isize;
	why = check_inode(inode);
	return why == NULL ? 0 : decode_error(inode, flags, why);
}

/* ---- Fast commits ---- */

/* What a record does not change. */
struct kept {
	uint16_t k_mode;
	uint16_t k_extra_isize;
	uint32_t k_nlink, k_flags, k_dtime;
	uint64_t k_blocks, k_file_acl, k_size;
	uint8_t k_block[EXT4_N_BLOCKS_BYTES];
};

#define FLAGS_KEPT (EXT4_EXTENTS_FL | EXT2_INDEX_FL)

static void keep(const struct inode *inode, struct kept *k)
{
	k->k_mode = inode->i_mode;
	k->k_extra_isize = inode->i_extra_isize;
	k->k_nlink = atomic_load(&((struct inode *)(uintptr_t)inode)->i_nlink);
	k->k_flags = inode->i_flags;
	k->k_dtime = inode->i_dtime;
	k->k_blocks = atomic_load(&((struct inode *)(uintptr_t)inode)->i_blocks);
	k->k_file_acl = inode->i_file_acl;
	k->k_size = i_size_read(inode);
	memcpy(k->k_block, inode->i_block, sizeof(k->k_block));
}

static void set_size(struct inode *inode, uint64_t size)
{
	i_size_write(inode, size);
	atomic_store(&inode->i_disksize, size);
}

/* An inode that existed. */
static const char *restore(struct inode *inode, const struct kept *k)
{
	if (((inode->i_mode ^ k->k_mode) & S_IFMT) != 0)
		return "fast commit changes the type";
	atomic_store(&inode->i_nlink, k->k_nlink);
	atomic_store(&inode->i_blocks, k->k_blocks);
	inode->i_flags = (inode->i_flags & ~(uint32_t)FLAGS_KEPT) | (k->k_flags & FLAGS_KEPT);
	inode->i_dtime = k->k_dtime;
	inode->i_file_acl = k->k_file_acl;
	inode->i_extra_isize = k->k_extra_isize;
	memcpy(inode->i_block, k->k_block, sizeof(k->k_block));
	if (S_ISDIR(inode->i_mode))
		set_size(inode, k->k_size);
	return NULL;
}

/* An inode that did not exist. The map comes by other records; only what is no map comes with this one. */
static const char *begin_new(struct inode *inode)
{
	const struct ext3_extent_header eh = {
		.eh_magic = cpu_to_le16(EXT3_EXT_MAGIC),
		.eh_max = cpu_to_le16(EXT4_N_BLOCKS_BYTES / EXT4_EXTENT_SIZE - 1),
	};

	if (inode->i_file_acl != 0)
		return "fast commit of a new inode with attributes";
	atomic_store(&inode->i_nlink, 0);
	atomic_store(&inode->i_blocks, 0);
	inode->i_dtime = 0;
	if (S_ISDIR(inode->i_mode)) {
		inode->i_flags &= ~(uint32_t)EXT2_INDEX_FL;
		set_size(inode, 0);
	}
	if (is_fast_symlink(inode) || S_ISCHR(inode->i_mode) || S_ISBLK(inode->i_mode))
		return NULL;
	memset(inode->i_block, 0, sizeof(inode->i_block));
	if (ext4_is_extents(inode))
		memcpy(inode->i_block, &eh, sizeof(eh));
	return NULL;
}

/* i_extra_isize of a record; -1 if impossible. */
static int record_extra(const struct super_block *sb, const struct ext2_inode_large *raw,
			unsigned len)
{
	unsigned extra;

	if (sb->s_inode_size <= EXT4_GOOD_OLD_SIZE || len < EXT4_GOOD_OLD_SIZE + 4)
		return 0;
	extra = le16_to_cpu(raw->i_extra_isize);
	return extra % 4 == 0 && EXT4_GOOD_OLD_SIZE + extra <= len ? (int)extra : -1;
}

static const char *apply(struct inode *inode, const struct ext2_inode_large *raw, unsigned len)
{
	const bool fresh = (atomic_load(&inode->i_state) & I_NEW) != 0;
	const int extra = record_extra(inode->i_sb, raw, len);
	struct kept k;
	const char *why;

	if (extra < 0)
		return "fast commit with a bad extra isize";
	keep(inode, &k);
	ext4_inode_set_generation(inode, le32_to_cpu(raw->i_generation));
	decode_fixed(inode, raw);
	decode_extra(inode, raw, (unsigned)extra);
	if (fresh)
		inode->i_extra_isize =
			(uint16_t)(extra > 0 ? (uint32_t)extra : inode->i_sb->s_want_extra_isize);
	why = fresh ? begin_new(inode) : restore(inode, &k);
	return why != NULL ? why : check_inode(inode);
}

int ext4_inode_apply_record(struct inode *inode, const void *bytes, unsigned len)
{
	struct super_block *sb = inode->i_sb;
	struct ext2_inode_large *raw;
	const char *why;

	if (len < EXT4_GOOD_OLD_SIZE || len > sb->s_inode_size)
		return ext4_error(sb, inode->i_ino, "fast commit with %u bytes of inode", len);
	raw = calloc(1, sizeof(*raw) > sb->s_inode_size ? sizeof(*raw) : sb->s_inode_size);
	if (raw == NULL)
		return -ENOMEM;
	memcpy(raw, bytes, len);
	why = apply(inode, raw, len);
	free(raw);
	return why == NULL ? 0 : ext4_error(sb, inode->i_ino, "%s", why);
}

/* ---- Encoding ---- */

/* What may change while it is copied, see the top of the file. */
struct racy {
	uint16_t rc_mode;
	uint32_t rc_uid, rc_gid, rc_flags, rc_dtime, rc_projid, rc_rdev;
	uint64_t rc_file_acl;
	uint32_t rc_block[EXT2_N_BLOCKS];
};

_Static_assert(sizeof(((struct racy *)NULL)->rc_block) == EXT4_N_BLOCKS_BYTES, "i_block size");

__attribute__((no_sanitize("thread"), noinline)) static void copy_racy(const struct inode *inode,
								       struct racy *rc)
{
	rc->rc_mode = inode->i_mode;
	rc->rc_uid = inode->i_uid;
	rc->rc_gid = inode->i_gid;
	rc->rc_flags = inode->i_flags;
	rc->rc_dtime = inode->i_dtime;
	rc->rc_projid = inode->i_projid;
	rc->rc_rdev = inode->i_rdev;
	rc->rc_file_acl = inode->i_file_acl;
	/* In words: one large memcpy() would be a call that the sanitizer looks into. */
	for (unsigned i = 0; i < EXT2_N_BLOCKS; i++)
		memcpy(&rc->rc_block[i], inode->i_block + i * sizeof(rc->rc_block[0]),
		       sizeof(rc->rc_block[0]));
}

/* i_blocks in the units that fit. False if none does. */
static bool encode_blocks(const struct super_block *sb, struct ext2_inode_large *raw,
			  uint64_t blocks, uint32_t *flags)
{
	*flags &= ~(uint32_t)EXT4_HUGE_FILE_FL;
	if (blocks > UINT32_MAX) {
		if (!ext4_has_ro_compat(sb, EXT4_FEATURE_RO_COMPAT_HUGE_FILE))
			return false;
		if (blocks >> 48 != 0) {
			*flags |= EXT4_HUGE_FILE_FL;
			blocks >>= sb->s_blocksize_bits - 9;
		}
	}
	raw->i_blocks = cpu_to_le32((uint32_t)blocks);
	raw->osd2.linux2.l_i_blocks_hi = cpu_to_le16((uint16_t)(blocks >> 32));
	return blocks >> 48 == 0;
}

static void encode_times(const struct inode *inode, struct ext2_inode_large *raw, unsigned extra)
{
	raw->i_ctime = encode_sec(&inode->i_ctime, FITS(extra, i_ctime_extra));
	raw->i_mtime = encode_sec(&inode->i_mtime, FITS(extra, i_mtime_extra));
	raw->i_atime = encode_sec(&inode->i_atime, FITS(extra, i_atime_extra));
	if (FITS(extra, i_ctime_extra))
		raw->i_ctime_extra = encode_extra(&inode->i_ctime);
	if (FITS(extra, i_mtime_extra))
		raw->i_mtime_extra = encode_extra(&inode->i_mtime);
	if (FITS(extra, i_atime_extra))
		raw->i_atime_extra = encode_extra(&inode->i_atime);
	if (FITS(extra, i_crtime))
		raw->i_crtime = encode_sec(&inode->i_crtime, FITS(extra, i_crtime_extra));
	if (FITS(extra, i_crtime_extra))
		raw->i_crtime_extra = encode_extra(&inode->i_crtime);
	raw->osd1.linux1.l_i_version = cpu_to_le32((uint32_t)inode->i_version);
	if (FITS(extra, i_version_hi))
		raw->i_version_hi = cpu_to_le32((uint32_t)(inode->i_version >> 32));
}

static void encode_fixed(const struct inode *inode, struct ext2_inode_large *raw,
			 const struct racy *rc)
{
	const uint64_t size = atomic_load(&inode->i_disksize);

	raw->i_mode = cpu_to_le16(rc->rc_mode);
	raw->i_uid = cpu_to_le16((uint16_t)rc->rc_uid);
	raw->i_uid_high = cpu_to_le16((uint16_t)(rc->rc_uid >> 16));
	raw->i_gid = cpu_to_le16((uint16_t)rc->rc_gid);
	raw->i_gid_high = cpu_to_le16((uint16_t)(rc->rc_gid >> 16));
	raw->i_links_count = cpu_to_le16((uint16_t)atomic_load(&inode->i_nlink));
	raw->i_size = cpu_to_le32((uint32_t)size);
	raw->i_size_high = cpu_to_le32((uint32_t)(size >> 32));
	raw->i_dtime = cpu_to_le32(rc->rc_dtime);
	raw->i_generation = cpu_to_le32(inode->i_generation);
	raw->i_file_acl = cpu_to_le32((uint32_t)rc->rc_file_acl);
	raw->osd2.linux2.l_i_file_acl_high = cpu_to_le16((uint16_t)(rc->rc_file_acl >> 32));
	if (S_ISCHR(rc->rc_mode) || S_ISBLK(rc->rc_mode))
		encode_rdev(rc->rc_rdev, raw->i_block);
	else
		memcpy(raw->i_block, rc->rc_block, sizeof(rc->rc_block));
}

/* Bytes between the i_extra_isize on disk and the one in memory have never held anything of ours. */
static void grow_extra(const struct inode *inode, struct ext2_inode_large *raw)
{
	const unsigned had = le16_to_cpu(raw->i_extra_isize);
	const unsigned have = inode->i_extra_isize;

	ASSERT_CMP(have, <=, inode->i_sb->s_inode_size - EXT4_GOOD_OLD_SIZE);
	if (have > had)
		memset((uint8_t *)raw + EXT4_GOOD_OLD_SIZE + had, 0, have - had);
	raw->i_extra_isize = cpu_to_le16((uint16_t)have);
}

int ext4_inode_encode(struct inode *inode, struct ext2_inode_large *raw, bool *data_changed)
{
	const struct super_block *sb = inode->i_sb;
	const bool large = sb->s_inode_size > EXT4_GOOD_OLD_SIZE;
	uint32_t old_size[2] = {raw->i_size, raw->i_size_high};
	uint32_t old_block[EXT2_N_BLOCKS];
	struct racy rc;
	bool fits;

	memcpy(old_block, raw->i_block, sizeof(old_block));
	copy_racy(inode, &rc);
	if (large)
		grow_extra(inode, raw);
	encode_fixed(inode, raw, &rc);
	mutex_lock(&inode->i_lock);
	fits = encode_blocks(sb, raw, atomic_load(&inode->i_blocks), &rc.rc_flags);
	encode_times(inode, raw, large ? inode->i_extra_isize : 0);
	mutex_unlock(&inode->i_lock);
	raw->i_flags = cpu_to_le32(rc.rc_flags);
	if (large && FITS(inode->i_extra_isize, i_projid))
		raw->i_projid = cpu_to_le32(rc.rc_projid);
	ext4_raw_inode_csum_set(inode, raw);
	*data_changed = old_size[0] != raw->i_size || old_size[1] != raw->i_size_high ||
			memcmp(old_block, raw->i_block, sizeof(old_block)) != 0;
	return fits ? 0 : -EFBIG;
}

bool ext4_raw_has_xattrs(const struct inode *inode, const struct ext2_inode_large *raw)
{
	const unsigned at = EXT4_GOOD_OLD_SIZE + le16_to_cpu(raw->i_extra_isize);
	uint32_t magic;

	if (at + sizeof(magic) > inode->i_sb->s_inode_size)
		return false;
	memcpy(&magic, (const uint8_t *)raw + at, sizeof(magic));
	return le32_to_cpu(magic) == EXT4_XATTR_MAGIC;
}
