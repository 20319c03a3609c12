/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fc_scan.c - which records of the fast-commit area count.
 *
 * The area is a sequence of records (tag, length, value). A fast commit begins with a head at the start
 * or simply goes on after the last one, and ends with a tail that names the transaction it follows
 * and holds a checksum of everything since the last tail. Records count when their tail is right;
 * the first thing that is not ends the scan, since a cut may have left anything there.
 *
 * Invariants: (1) fs_nr <= fs_seen <= fs_room. (2) Every record lies inside its block.
 * Locking: none.
 */
#include <stdlib.h>

#include "journal/journal_int.h"
#include "util/assert.h"
#include "util/crc32c.h"
#include "util/err.h"

#define EXT4_NAME_BYTES_MAX 255U
#define FC_DENTRY_FIXED_BYTES 8U

/* What one record means for the scan. */
enum fc_step { FC_GOES_ON, FC_ENDS, FC_REFUSED };

static bool length_is_valid(unsigned tag, unsigned len)
{
	switch (tag) {
	case JBD2_FC_TAG_ADD_RANGE:
		return len == JBD2_FC_ADD_RANGE_BYTES;
	case JBD2_FC_TAG_DEL_RANGE:
		return len == JBD2_FC_DEL_RANGE_BYTES;
	case JBD2_FC_TAG_CREAT:
	case JBD2_FC_TAG_LINK:
	case JBD2_FC_TAG_UNLINK:
		return len >= JBD2_FC_DENTRY_MIN_BYTES &&
		       len <= FC_DENTRY_FIXED_BYTES + EXT4_NAME_BYTES_MAX;
	case JBD2_FC_TAG_INODE:
		return len >= JBD2_FC_INODE_MIN_BYTES;
	case JBD2_FC_TAG_PAD:
		return true;
	case JBD2_FC_TAG_TAIL:
		return len >= JBD2_FC_TAIL_BYTES;
	case JBD2_FC_TAG_HEAD:
		return len == JBD2_FC_HEAD_BYTES;
	default:
		return false;
	}
}

static int add_record(struct fc_scan *fs, unsigned tag, const uint8_t *value, unsigned len)
{
	if (tag == JBD2_FC_TAG_HEAD || tag == JBD2_FC_TAG_PAD)
		return 0;
	if (fs->fs_seen == fs->fs_room) {
		unsigned room = fs->fs_room == 0 ? 64 : fs->fs_room * 2;
		struct jbd2_fc_record *recs = realloc(fs->fs_recs, room * sizeof(recs[0]));

		if (recs == NULL)
			return -ENOMEM;
		fs->fs_recs = recs;
		fs->fs_room = room;
	}
	fs->fs_recs[fs->fs_seen++] = (struct jbd2_fc_record){
		.fr_tag = (uint16_t)tag,
		.fr_len_bytes = (uint16_t)len,
		.fr_value = value,
	};
	return 0;
}

/* tl is the record, whole and of a valid length. */
static enum fc_step take_tail(struct fc_scan *fs, const uint8_t *tl)
{
	const uint8_t *value = tl + JBD2_FC_TL_BYTES;
	uint32_t crc = crc32c(fs->fs_crc, tl, JBD2_FC_TL_BYTES + 4);

	fs->fs_crc = 0;
	if (get_le32(value) != fs->fs_tid || get_le32(value + 4) != crc)
		return FC_ENDS;
	fs->fs_nr = fs->fs_seen;
	return FC_GOES_ON;
}

static enum fc_step take_head(const struct fc_scan *fs, const uint8_t *value)
{
	if (get_le32(value + 4) != fs->fs_tid)
		return FC_ENDS;
	return get_le32(value) != 0 ? FC_REFUSED : FC_GOES_ON;
}

static int scan_block(struct fc_scan *fs, const uint8_t *block, uint32_t block_bytes,
		      enum fc_step *step)
{
	uint32_t at = 0;

	*step = FC_GOES_ON;
	while (at + JBD2_FC_TL_BYTES <= block_bytes && *step == FC_GOES_ON) {
		const uint8_t *tl = block + at;
		unsigned tag = get_le16(tl);
		unsigned len = get_le16(tl + 2);
		int err = 0;

		if (len > block_bytes - at - JBD2_FC_TL_BYTES || !length_is_valid(tag, len)) {
			*step = FC_ENDS;
			return 0;
		}
		if (tag == JBD2_FC_TAG_TAIL) {
			*step = take_tail(fs, tl);
		} else {
			if (tag == JBD2_FC_TAG_HEAD)
				*step = take_head(fs, tl + JBD2_FC_TL_BYTES);
			fs->fs_crc = crc32c(fs->fs_crc, tl, JBD2_FC_TL_BYTES + len);
			err = add_record(fs, tag, tl + JBD2_FC_TL_BYTES, len);
		}
		if (err != 0)
			return err;
		at += JBD2_FC_TL_BYTES + len;
	}
	return 0;
}

int jbd2_fc_scan(struct fc_scan *fs, const uint8_t *area, uint32_t blocks, uint32_t block_bytes)
{
	enum fc_step step = FC_GOES_ON;
	int err = 0;

	if (blocks == 0 || get_le16(area) != JBD2_FC_TAG_HEAD)
		return 0;
	for (uint32_t i = 0; i < blocks && step == FC_GOES_ON && err == 0; i++)
		err = scan_block(fs, area + (size_t)i * block_bytes, block_bytes, &step);
	if (err == 0 && step == FC_REFUSED)
		return -EOPNOTSUPP;
	return err;
}
