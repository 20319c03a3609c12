/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * csum.c - tags and checksums of the log's own blocks.
 *
 * Checksum v2 and v3 are crc32c seeded with the log's uuid: of each logged block (with the
 * transaction's number) in its tag, of descriptor and revoke blocks in their tail, of the commit
 * block in itself. v2 keeps the low 16 bits in the tag, v3 all 32. The older compat checksum is one
 * crc32 (most significant bit first) of all descriptors and logged blocks, kept in the commit block.
 *
 * Invariants: (1) a checksum is of the block as it stands in the log, that is, escaped. (2) Without
 * v2 and v3 the functions for them write nothing and find everything right.
 * Locking: none; the features do not change while the log is in use.
 */
#include <string.h>

#include "journal/journal_int.h"
#include "util/assert.h"
#include "util/crc32c.h"

#define CRC32_BE_POLY 0x04c11db7U

static uint32_t crc32_table[256]; /* [const after start] */

__attribute__((constructor)) static void init_crc32_table(void)
{
	for (uint32_t i = 0; i < 256; i++) {
		uint32_t crc = i << 24;

		for (unsigned bit = 0; bit < 8; bit++)
			crc = crc << 1 ^ ((crc >> 31) != 0 ? CRC32_BE_POLY : 0);
		crc32_table[i] = crc;
	}
}

uint32_t jbd2_crc32_be(uint32_t crc, const void *data, size_t len_bytes)
{
	const uint8_t *p = data;

	for (size_t i = 0; i < len_bytes; i++)
		crc = crc << 8 ^ crc32_table[crc >> 24 ^ p[i]];
	return crc;
}

static unsigned tag_bytes(const journal_t *j)
{
	unsigned n = JBD2_TAG_BYTES_32;

	if (jbd2_has_incompat(j, JBD2_FEATURE_INCOMPAT_CSUM_V3))
		return JBD2_TAG3_BYTES;
	if (jbd2_has_incompat(j, JBD2_FEATURE_INCOMPAT_64BIT))
		n = JBD2_TAG_BYTES_64;
	if (jbd2_has_incompat(j, JBD2_FEATURE_INCOMPAT_CSUM_V2))
		n += JBD2_TAG_BYTES_V2_EXTRA;
	return n;
}

void jbd2_set_layout(journal_t *j)
{
	unsigned room;

	j->j_tag_bytes = tag_bytes(j);
	j->j_tail_bytes = jbd2_has_csum_v2or3(j) ? JBD2_BLOCK_TAIL_BYTES : 0;
	room = j->j_block_bytes - j->j_tail_bytes;
	/* Only the first tag is followed by the uuid. */
	j->j_tags_per_block = (unsigned)(room - sizeof(struct jbd2_header_disk) - JBD2_UUID_BYTES) /
			      j->j_tag_bytes;
	j->j_revokes_per_block = (unsigned)(room - sizeof(struct jbd2_revoke_header_disk)) /
				 (jbd2_has_incompat(j, JBD2_FEATURE_INCOMPAT_64BIT) ? 8 : 4);
	j->j_csum_seed = crc32c(~UINT32_C(0), j->j_uuid, sizeof(j->j_uuid));
}

void jbd2_tag_write(const journal_t *j, uint8_t *p, const struct jbd2_tag *tag)
{
	uint32_t high = (uint32_t)(tag->tg_blocknr >> 32);

	memset(p, 0, j->j_tag_bytes);
	put_be32(p + JBD2_TAG_BLOCKNR, (uint32_t)tag->tg_blocknr);
	if (jbd2_has_incompat(j, JBD2_FEATURE_INCOMPAT_CSUM_V3)) {
		put_be32(p + JBD2_TAG3_FLAGS32, tag->tg_flags);
		put_be32(p + JBD2_TAG3_CSUM32, tag->tg_csum);
	} else {
		put_be16(p + JBD2_TAG_CSUM16, (uint16_t)tag->tg_csum);
		put_be16(p + JBD2_TAG_FLAGS16, (uint16_t)tag->tg_flags);
	}
	if (jbd2_has_incompat(j, JBD2_FEATURE_INCOMPAT_64BIT))
		put_be32(p + JBD2_TAG_BLOCKNR_HIGH, high);
	else
		ASSERT_CMP(high, ==, 0u);
}

void jbd2_tag_read(const journal_t *j, const uint8_t *p, struct jbd2_tag *tag)
{
	tag->tg_blocknr = get_be32(p + JBD2_TAG_BLOCKNR);
	tag->tg_flags = get_be16(p + JBD2_TAG_FLAGS16);
	if (jbd2_has_incompat(j, JBD2_FEATURE_INCOMPAT_CSUM_V3))
		tag->tg_csum = get_be32(p + JBD2_TAG3_CSUM32);
	else
		tag->tg_csum = get_be16(p + JBD2_TAG_CSUM16);
	if (jbd2_has_incompat(j, JBD2_FEATURE_INCOMPAT_64BIT))
		tag->tg_blocknr |= (uint64_t)get_be32(p + JBD2_TAG_BLOCKNR_HIGH) << 32;
}

uint32_t jbd2_data_csum(const journal_t *j, tid_t tid, const uint8_t *data)
{
	uint8_t sequence[4];
	uint32_t csum;

	if (!jbd2_has_csum_v2or3(j))
		return 0;
	put_be32(sequence, tid);
	csum = crc32c(j->j_csum_seed, sequence, sizeof(sequence));
	return crc32c(csum, data, j->j_block_bytes);
}

bool jbd2_data_csum_ok(const journal_t *j, tid_t tid, const uint8_t *data, uint32_t csum)
{
	uint32_t found = jbd2_data_csum(j, tid, data);

	if (!jbd2_has_csum_v2or3(j))
		return true;
	if (jbd2_has_incompat(j, JBD2_FEATURE_INCOMPAT_CSUM_V3))
		return found == csum;
	return (found & 0xffff) == csum;
}

/* The crc32c of n bytes in which the four at `at` count as zero. */
static uint32_t csum_without(uint32_t seed, const uint8_t *p, size_t at, size_t n)
{
	static const uint8_t zero[4];
	uint32_t csum = crc32c(seed, p, at);

	csum = crc32c(csum, zero, sizeof(zero));
	return crc32c(csum, p + at + sizeof(zero), n - at - sizeof(zero));
}

void jbd2_tail_csum_set(const journal_t *j, uint8_t *block)
{
	size_t at = j->j_block_bytes - JBD2_BLOCK_TAIL_BYTES;

	if (jbd2_has_csum_v2or3(j))
		put_be32(block + at, csum_without(j->j_csum_seed, block, at, j->j_block_bytes));
}

bool jbd2_tail_csum_ok(const journal_t *j, const uint8_t *block)
{
	size_t at = j->j_block_bytes - JBD2_BLOCK_TAIL_BYTES;

	if (!jbd2_has_csum_v2or3(j))
		return true;
	return get_be32(block + at) == csum_without(j->j_csum_seed, block, at, j->j_block_bytes);
}

void jbd2_commit_csum_set(const journal_t *j, uint8_t *block)
{
	size_t at = offsetof(struct jbd2_commit_disk, h_chksum);

	if (jbd2_has_csum_v2or3(j))
		put_be32(block + at, csum_without(j->j_csum_seed, block, at, j->j_block_bytes));
}

bool jbd2_commit_csum_ok(const journal_t *j, const uint8_t *block)
{
	size_t at = offsetof(struct jbd2_commit_disk, h_chksum);

	if (!jbd2_has_csum_v2or3(j))
		return true;
	return get_be32(block + at) == csum_without(j->j_csum_seed, block, at, j->j_block_bytes);
}

uint32_t jbd2_sb_csum(const uint8_t *sb)
{
	return csum_without(~UINT32_C(0), sb, offsetof(struct jbd2_superblock_disk, s_checksum),
			    sizeof(struct jbd2_superblock_disk));
}

void jbd2_header_write(uint8_t *block, uint32_t blocktype, tid_t tid)
{
	put_be32(block + offsetof(struct jbd2_header_disk, h_magic), JBD2_MAGIC_NUMBER);
	put_be32(block + offsetof(struct jbd2_header_disk, h_blocktype), blocktype);
	put_be32(block + offsetof(struct jbd2_header_disk, h_sequence), tid);
}
