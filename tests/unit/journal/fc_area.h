/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef TESTS_UNIT_JOURNAL_FC_AREA_H
#define TESTS_UNIT_JOURNAL_FC_AREA_H
/* A fast-commit area made by hand. */

#include <check.h>
#include <string.h>

#include "journal/jbd2.h"
#include "journal/jbd2_format.h"
#include "util/crc32c.h"

#define FCA_BYTES (16u * 1024u)

struct fc_area {
	uint8_t fa_data[FCA_BYTES];
	unsigned fa_block_bytes;
	unsigned fa_at;
	uint32_t fa_crc; /* of everything since the last tail */
};

static inline void fca_put_le16(uint8_t *p, unsigned v)
{
	p[0] = (uint8_t)v;
	p[1] = (uint8_t)(v >> 8);
}

static inline void fca_put_le32(uint8_t *p, uint32_t v)
{
	fca_put_le16(p, v & 0xffff);
	fca_put_le16(p + 2, v >> 16);
}

static inline void fca_init(struct fc_area *fa, unsigned block_bytes)
{
	memset(fa, 0, sizeof(*fa));
	fa->fa_block_bytes = block_bytes;
}

static inline void fca_add_raw(struct fc_area *fa, unsigned tag, const void *value, unsigned len)
{
	uint8_t *p = fa->fa_data + fa->fa_at;

	ck_assert_uint_le(fa->fa_at + 4 + len, FCA_BYTES);
	fca_put_le16(p, tag);
	fca_put_le16(p + 2, len);
	memcpy(p + 4, value, len);
	fa->fa_crc = crc32c(fa->fa_crc, p, 4 + len);
	fa->fa_at += 4 + len;
}

static inline unsigned fca_room(const struct fc_area *fa)
{
	return fa->fa_block_bytes - fa->fa_at % fa->fa_block_bytes;
}

/* A pad takes the rest of the block. */
static inline void fca_pad(struct fc_area *fa)
{
	static const uint8_t zero[4096];

	fca_add_raw(fa, JBD2_FC_TAG_PAD, zero, fca_room(fa) - 4);
}

/* A record that leaves room for a pad or a tail behind it. */
static inline void fca_add(struct fc_area *fa, unsigned tag, const void *value, unsigned len)
{
	if (fca_room(fa) < 4 + len + 12)
		fca_pad(fa);
	fca_add_raw(fa, tag, value, len);
}

static inline void fca_head(struct fc_area *fa, uint32_t features, uint32_t tid)
{
	uint8_t head[8];

	fca_put_le32(head, features);
	fca_put_le32(head + 4, tid);
	fca_add_raw(fa, JBD2_FC_TAG_HEAD, head, 8);
}

/* The tail takes the rest of the block. */
static inline void fca_tail(struct fc_area *fa, uint32_t tid)
{
	uint8_t *p = fa->fa_data + fa->fa_at;
	unsigned len = fca_room(fa) - 4;

	ck_assert_uint_ge(len, 8);
	fca_put_le16(p, JBD2_FC_TAG_TAIL);
	fca_put_le16(p + 2, len);
	fca_put_le32(p + 4, tid);
	fca_put_le32(p + 8, crc32c(fa->fa_crc, p, 8));
	fa->fa_at += 4 + len;
	fa->fa_crc = 0;
}

#endif
