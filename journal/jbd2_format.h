/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef JOURNAL_JBD2_FORMAT_H
#define JOURNAL_JBD2_FORMAT_H
/*
 * The log on disk. All numbers are big-endian and are read and written with get_beN()/put_beN(),
 * which do not care about alignment: tags of checksum v2 are 10 or 14 bytes long.
 *
 * The log is a circle of blocks [s_first, last). A transaction is any number of revoke blocks and of
 * descriptor blocks, each of these followed by the blocks that its tags name, and one commit block.
 */

#include <stddef.h>
#include <stdint.h>

#define JBD2_MAGIC_NUMBER 0xc03b3998U

/* h_blocktype */
#define JBD2_DESCRIPTOR_BLOCK 1U
#define JBD2_COMMIT_BLOCK 2U
#define JBD2_SUPERBLOCK_V1 3U
#define JBD2_SUPERBLOCK_V2 4U
#define JBD2_REVOKE_BLOCK 5U

/* The first bytes of every block of the log that is not a logged block. */
struct jbd2_header_disk {
	uint32_t h_magic;
	uint32_t h_blocktype;
	uint32_t h_sequence;
};
_Static_assert(sizeof(struct jbd2_header_disk) == 12, "on-disk size");

#define JBD2_CRC32_CHKSUM 1U
#define JBD2_CRC32C_CHKSUM 4U
#define JBD2_CRC32_CHKSUM_SIZE 4U

struct jbd2_commit_disk {
	struct jbd2_header_disk h_header;
	uint8_t h_chksum_type;
	uint8_t h_chksum_size;
	uint8_t h_padding[2];
	uint32_t h_chksum[8];
	uint32_t h_commit_sec_hi;
	uint32_t h_commit_sec_lo;
	uint32_t h_commit_nsec;
};
_Static_assert(sizeof(struct jbd2_commit_disk) == 60, "on-disk size");
_Static_assert(offsetof(struct jbd2_commit_disk, h_chksum) == 16, "on-disk offset");
_Static_assert(offsetof(struct jbd2_commit_disk, h_commit_sec_hi) == 48, "on-disk offset");

/* Tags: offsets of their fields. v3 has 32-bit flags whose low half lies where the others keep theirs. */
#define JBD2_TAG_BLOCKNR 0U
#define JBD2_TAG_CSUM16 4U
#define JBD2_TAG_FLAGS16 6U
#define JBD2_TAG_BLOCKNR_HIGH 8U
#define JBD2_TAG3_FLAGS32 4U
#define JBD2_TAG3_CSUM32 12U

#define JBD2_TAG_BYTES_32 8U
#define JBD2_TAG_BYTES_64 12U
#define JBD2_TAG_BYTES_V2_EXTRA 2U
#define JBD2_TAG3_BYTES 16U
#define JBD2_UUID_BYTES 16U

#define JBD2_FLAG_ESCAPE 1U    /* the block began with the magic, which was zeroed */
#define JBD2_FLAG_SAME_UUID 2U /* no uuid follows the tag */
#define JBD2_FLAG_DELETED 4U
#define JBD2_FLAG_LAST_TAG 8U

/* Last bytes of descriptor and revoke blocks with checksum v2 and v3. */
#define JBD2_BLOCK_TAIL_BYTES 4U

struct jbd2_revoke_header_disk {
	struct jbd2_header_disk r_header;
	uint32_t r_count; /* bytes used, this header included */
};
_Static_assert(sizeof(struct jbd2_revoke_header_disk) == 16, "on-disk size");

struct jbd2_superblock_disk {
	struct jbd2_header_disk s_header;
	uint32_t s_blocksize;
	uint32_t s_maxlen;
	uint32_t s_first;
	uint32_t s_sequence; /* first transaction expected in the log */
	uint32_t s_start;    /* its block; 0: the log is empty */
	uint32_t s_errno;
	/* from here on only in version 2 */
	uint32_t s_feature_compat;
	uint32_t s_feature_incompat;
	uint32_t s_feature_ro_compat;
	uint8_t s_uuid[16];
	uint32_t s_nr_users;
	uint32_t s_dynsuper;
	uint32_t s_max_transaction;
	uint32_t s_max_trans_data;
	uint8_t s_checksum_type;
	uint8_t s_padding2[3];
	uint32_t s_num_fc_blks;
	uint32_t s_head;
	uint32_t s_padding[40];
	uint32_t s_checksum;
	uint8_t s_users[16 * 48];
};
_Static_assert(sizeof(struct jbd2_superblock_disk) == 1024, "on-disk size");
_Static_assert(offsetof(struct jbd2_superblock_disk, s_uuid) == 48, "on-disk offset");
_Static_assert(offsetof(struct jbd2_superblock_disk, s_num_fc_blks) == 84, "on-disk offset");
_Static_assert(offsetof(struct jbd2_superblock_disk, s_checksum) == 252, "on-disk offset");

#define JBD2_MAX_USERS 48U
#define JBD2_MIN_JOURNAL_BLOCKS 1024U
#define JBD2_DEFAULT_FC_BLOCKS 256U

#define JBD2_FEATURE_COMPAT_CHECKSUM 0x1U
#define JBD2_FEATURE_INCOMPAT_REVOKE 0x1U
#define JBD2_FEATURE_INCOMPAT_64BIT 0x2U
#define JBD2_FEATURE_INCOMPAT_ASYNC_COMMIT 0x4U
#define JBD2_FEATURE_INCOMPAT_CSUM_V2 0x8U
#define JBD2_FEATURE_INCOMPAT_CSUM_V3 0x10U
#define JBD2_FEATURE_INCOMPAT_FAST_COMMIT 0x20U
#define JBD2_KNOWN_INCOMPAT 0x3fU
#define JBD2_KNOWN_ROCOMPAT 0U

/* Fast commits: little-endian tag and length, then the value; a tail ends each fast commit. */
#define JBD2_FC_TL_BYTES 4U
#define JBD2_FC_HEAD_BYTES 8U /* le32 features, le32 tid */
#define JBD2_FC_TAIL_BYTES 8U /* le32 tid, le32 crc */
#define JBD2_FC_ADD_RANGE_BYTES 16U
#define JBD2_FC_DEL_RANGE_BYTES 12U
#define JBD2_FC_DENTRY_MIN_BYTES 9U /* le32 parent, le32 inode, a name */
#define JBD2_FC_INODE_MIN_BYTES (4U + 128U)

static inline uint16_t get_be16(const void *p)
{
	const uint8_t *b = p;

	return (uint16_t)((unsigned)b[0] << 8 | b[1]);
}

static inline uint32_t get_be32(const void *p)
{
	const uint8_t *b = p;

	return (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
}

static inline uint64_t get_be64(const void *p)
{
	const uint8_t *b = p;

	return (uint64_t)get_be32(b) << 32 | get_be32(b + 4);
}

static inline uint16_t get_le16(const void *p)
{
	const uint8_t *b = p;

	return (uint16_t)((unsigned)b[1] << 8 | b[0]);
}

static inline uint32_t get_le32(const void *p)
{
	const uint8_t *b = p;

	return (uint32_t)b[3] << 24 | (uint32_t)b[2] << 16 | (uint32_t)b[1] << 8 | b[0];
}

static inline void put_be16(void *p, uint16_t v)
{
	uint8_t *b = p;

	b[0] = (uint8_t)(v >> 8);
	b[1] = (uint8_t)v;
}

static inline void put_be32(void *p, uint32_t v)
{
	uint8_t *b = p;

	b[0] = (uint8_t)(v >> 24);
	b[1] = (uint8_t)(v >> 16);
	b[2] = (uint8_t)(v >> 8);
	b[3] = (uint8_t)v;
}

static inline void put_be64(void *p, uint64_t v)
{
	uint8_t *b = p;

	put_be32(b, (uint32_t)(v >> 32));
	put_be32(b + 4, (uint32_t)v);
}

#endif
