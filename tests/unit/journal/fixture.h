/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef TESTS_UNIT_JOURNAL_FIXTURE_H
#define TESTS_UNIT_JOURNAL_FIXTURE_H
/*
 * A device in memory with a log on it, and what the tests of the journal do all the time.
 * Blocks FX_META .. + FX_META_N are the metadata; the log lies in two pieces behind them.
 */

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "block/blkdev.h"
#include "block/buffer.h"
#include "block/filter_log.h"
#include "journal/journal_int.h"
#include "tests/lib/pattern.h"
#include "util/err.h"

#define FX_META 8u
#define FX_META_N 640u
#define FX_LOG 656u
#define FX_GAP 64u /* between the two pieces of the log */
#define FX_SB(field) offsetof(struct jbd2_superblock_disk, field)

/* What the log looks like. */
struct fx_shape {
	uint32_t fs_block_bytes;
	uint32_t fs_log_blocks;
	uint32_t fs_compat;
	uint32_t fs_incompat;
	uint32_t fs_sequence;
	bool fs_external;
	bool fs_no_log;
};

struct fixture {
	struct fx_shape f_shape;
	struct blkdev *f_dev;	  /* the file system's device */
	struct blkdev *f_log_dev; /* the log's; may be the same */
	struct bh_cache *f_cache;
	journal_t *f_j;
	struct jbd2_log_extent f_extents[2];
	struct jbd2_params f_params;
	int f_aborts;
	int f_abort_error;
	struct jbd2_journal_ops f_ops;
};

static inline void fx_aborted(void *fs, int error)
{
	struct fixture *f = fs;

	f->f_aborts++;
	f->f_abort_error = error;
}

static inline uint32_t fx_log_blocks(const struct fx_shape *s)
{
	return s->fs_log_blocks != 0 ? s->fs_log_blocks : 1024;
}

static inline uint64_t fx_dev_bytes(const struct fx_shape *s)
{
	return (uint64_t)(FX_LOG + fx_log_blocks(s) + FX_GAP + 64) * s->fs_block_bytes;
}

/* The journal superblock's bytes, checksum included. */
static inline void fx_format_sb(const struct fx_shape *s, uint8_t *sb)
{
	memset(sb, 0, s->fs_block_bytes);
	jbd2_header_write(sb, JBD2_SUPERBLOCK_V2, 0);
	put_be32(sb + FX_SB(s_blocksize), s->fs_block_bytes);
	put_be32(sb + FX_SB(s_maxlen), fx_log_blocks(s));
	put_be32(sb + FX_SB(s_first), s->fs_external ? 3 : 1);
	put_be32(sb + FX_SB(s_sequence), s->fs_sequence != 0 ? s->fs_sequence : 1);
	put_be32(sb + FX_SB(s_feature_compat), s->fs_compat);
	put_be32(sb + FX_SB(s_feature_incompat), s->fs_incompat);
	put_be32(sb + FX_SB(s_nr_users), 1);
	memset(sb + FX_SB(s_uuid), 0x5a, 16);
	memset(sb + FX_SB(s_users), 0x77, 16);
	if ((s->fs_incompat & (JBD2_FEATURE_INCOMPAT_CSUM_V2 | JBD2_FEATURE_INCOMPAT_CSUM_V3)) !=
	    0) {
		sb[FX_SB(s_checksum_type)] = JBD2_CRC32C_CHKSUM;
		put_be32(sb + FX_SB(s_checksum), jbd2_sb_csum(sb));
	}
}

/* Block of the device that holds log block lblk. */
static inline uint64_t fx_pblk(const struct fixture *f, uint32_t lblk)
{
	const struct jbd2_log_extent *le = f->f_extents;

	if (lblk < le[0].le_len)
		return le[0].le_pblk + lblk;
	return le[1].le_pblk + (lblk - le[0].le_len);
}

static inline void fx_params(struct fixture *f)
{
	const struct fx_shape *s = &f->f_shape;
	uint32_t n = fx_log_blocks(s);

	f->f_extents[0] = (struct jbd2_log_extent){0, n / 3, FX_LOG};
	f->f_extents[1] = (struct jbd2_log_extent){n / 3, n - n / 3, FX_LOG + n / 3 + FX_GAP};
	if (s->fs_external)
		f->f_extents[0] = (struct jbd2_log_extent){0, n, 0};
	f->f_ops.aborted = fx_aborted;
	f->f_params = (struct jbd2_params){
		.jp_fs_dev = f->f_dev,
		.jp_log_dev = s->fs_no_log ? NULL : f->f_log_dev,
		.jp_block_bytes = s->fs_block_bytes,
		.jp_extents = f->f_extents,
		.jp_nr_extents = s->fs_external ? 1 : 2,
		.jp_ops = &f->f_ops,
		.jp_fs = f,
		.jp_barrier = true,
		.jp_manual_commit = true,
	};
	memset(f->f_params.jp_fs_uuid, 0x77, sizeof(f->f_params.jp_fs_uuid));
}

/* Devices and a formatted log; f_dev and f_log_dev may be wrapped before fx_load(). */
static inline void fx_format(struct fixture *f, const struct fx_shape *shape)
{
	uint8_t *sb;
	uint32_t at;

	memset(f, 0, sizeof(*f));
	f->f_shape = *shape;
	f->f_dev = mem_open(fx_dev_bytes(shape), 512, NULL);
	f->f_log_dev = f->f_dev;
	if (shape->fs_external)
		f->f_log_dev =
			mem_open((uint64_t)fx_log_blocks(shape) * shape->fs_block_bytes, 512, NULL);
	fx_params(f);
	if (shape->fs_no_log)
		return;
	sb = malloc(shape->fs_block_bytes);
	fx_format_sb(shape, sb);
	at = shape->fs_external ? (shape->fs_block_bytes == 1024 ? 2 : 1) : 0;
	ck_assert_int_eq(blk_write(f->f_log_dev, fx_pblk(f, at) * shape->fs_block_bytes, sb,
				   shape->fs_block_bytes, 0),
			 0);
	free(sb);
}

/* A cache and the journal, not yet loaded. */
static inline int fx_init(struct fixture *f)
{
	f->f_cache = bh_cache_create(f->f_dev, f->f_shape.fs_block_bytes, 64 << 20);
	f->f_params.jp_cache = f->f_cache;
	f->f_params.jp_fs_dev = f->f_dev;
	f->f_params.jp_log_dev = f->f_shape.fs_no_log ? NULL : f->f_log_dev;
	f->f_j = jbd2_journal_init(&f->f_params);
	if (!IS_ERR(f->f_j))
		return 0;
	bh_cache_destroy(f->f_cache);
	f->f_cache = NULL;
	return PTR_ERR(f->f_j);
}

static inline void fx_load(struct fixture *f)
{
	ck_assert_int_eq(fx_init(f), 0);
	ck_assert_int_eq(jbd2_journal_load(f->f_j), 0);
}

static inline void fx_open(struct fixture *f, const struct fx_shape *shape)
{
	fx_format(f, shape);
	fx_load(f);
}

/* The journal and the cache go, the devices stay. */
static inline int fx_unload(struct fixture *f)
{
	int err = jbd2_journal_destroy(f->f_j);

	bh_cache_destroy(f->f_cache);
	f->f_j = NULL;
	f->f_cache = NULL;
	return err;
}

static inline void fx_close(struct fixture *f)
{
	if (f->f_log_dev != f->f_dev)
		blk_close(f->f_log_dev);
	blk_close(f->f_dev);
}

static inline handle_t *fx_start(struct fixture *f, unsigned credits)
{
	handle_t *h = jbd2_journal_start(f->f_j, HT_MISC, credits, 0);

	ck_assert(!IS_ERR(h));
	return h;
}

/* Block blocknr becomes pattern `tag`. */
static inline void fx_write(struct fixture *f, handle_t *h, uint64_t blocknr, uint64_t tag)
{
	struct buffer_head *bh = bh_read(f->f_cache, blocknr);

	ck_assert(!IS_ERR(bh));
	ck_assert_int_eq(jbd2_journal_get_write_access(h, bh), 0);
	lock_buffer(bh);
	pattern_fill(bh->b_data, bh->b_size, tag, 0);
	unlock_buffer(bh);
	ck_assert_int_eq(jbd2_journal_dirty_metadata(h, bh), 0);
	bh_put(bh);
}

/* One handle that writes one block. */
static inline tid_t fx_write_one(struct fixture *f, uint64_t blocknr, uint64_t tag)
{
	handle_t *h = fx_start(f, 1);
	tid_t tid = jbd2_handle_tid(h);

	fx_write(f, h, blocknr, tag);
	ck_assert_int_eq(jbd2_journal_stop(h), 0);
	return tid;
}

static inline void fx_read_raw(struct blkdev *bd, uint32_t block_bytes, uint64_t blocknr, void *buf)
{
	ck_assert_int_eq(blk_read(bd, blocknr * block_bytes, buf, block_bytes, 0), 0);
}

/* The block on the device is pattern `tag`, or zero for tag 0. */
static inline bool fx_disk_is(struct fixture *f, uint64_t blocknr, uint64_t tag)
{
	uint32_t bs = f->f_shape.fs_block_bytes;
	uint8_t *buf = malloc(bs);
	bool same;

	fx_read_raw(f->f_dev, bs, blocknr, buf);
	if (tag == 0)
		same = bytes_mismatch(buf, bs, 0) == -1;
	else
		same = pattern_mismatch(buf, bs, tag, 0) == -1;
	free(buf);
	return same;
}

static inline uint32_t fx_sb_field(struct fixture *f, size_t offset)
{
	uint32_t bs = f->f_shape.fs_block_bytes;
	uint8_t *buf = malloc(bs);
	uint32_t value;

	fx_read_raw(f->f_log_dev, bs, fx_pblk(f, f->f_shape.fs_external ? 1 : 0), buf);
	value = get_be32(buf + offset);
	free(buf);
	return value;
}

/* Another device, with its log in it, instead of the one before. */
static inline void fx_use(struct fixture *f, struct blkdev *dev)
{
	f->f_dev = dev;
	f->f_log_dev = dev;
}

/* Read the log as after a crash: a new journal, replayed and taken down again. */
static inline int fx_recover(struct fixture *f)
{
	int err = fx_init(f);

	if (err != 0)
		return err;
	err = jbd2_journal_recover(f->f_j);
	ck_assert_int_eq(jbd2_journal_destroy(f->f_j), 0);
	bh_cache_destroy(f->f_cache);
	f->f_j = NULL;
	f->f_cache = NULL;
	return err;
}

/* The five kinds of log, with the names that tests print. */
static const struct fx_shape fx_shapes[] = {
	{.fs_block_bytes = 1024},
	{.fs_block_bytes = 1024, .fs_incompat = JBD2_FEATURE_INCOMPAT_CSUM_V2},
	{.fs_block_bytes = 1024,
	 .fs_incompat = JBD2_FEATURE_INCOMPAT_CSUM_V2 | JBD2_FEATURE_INCOMPAT_64BIT},
	{.fs_block_bytes = 1024, .fs_incompat = JBD2_FEATURE_INCOMPAT_CSUM_V3},
	{.fs_block_bytes = 4096,
	 .fs_incompat = JBD2_FEATURE_INCOMPAT_CSUM_V3 | JBD2_FEATURE_INCOMPAT_64BIT},
	{.fs_block_bytes = 1024, .fs_compat = JBD2_FEATURE_COMPAT_CHECKSUM},
	{.fs_block_bytes = 4096, .fs_incompat = JBD2_FEATURE_INCOMPAT_64BIT},
};
#define FX_SHAPES ((int)(sizeof(fx_shapes) / sizeof(fx_shapes[0])))

#endif
