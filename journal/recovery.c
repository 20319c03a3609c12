/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * recovery.c - replay of the log after a crash.
 *
 * The log is walked from s_start, block by block, as long as the blocks carry the number of the
 * transaction that is expected. Four passes:
 *  scan	finds the end: the first transaction without a good commit block;
 *  revoke	collects the revoke records of everything before the end;
 *  check	refuses a log that would write outside the device or into the log itself, before
 *		anything is written;
 *  replay	writes home what is not revoked.
 * Then everything is flushed and the superblock says that the log is empty: cut anywhere before, the
 * whole is simply done again. If the fast-commit area has records the log is left open behind its
 * last transaction instead, with the number that the records carry: they are the owner's to apply, as
 * that transaction.
 *
 * A checksum that is wrong means different things: in a commit block, the transaction and all
 * behind it are dropped, and the error recorded; in a descriptor or revoke block of a transaction that has its
 * commit block, the log is refused, unless the commit is older than its predecessor, a leftover of
 * an earlier life of the log; of a single logged block, the block is left out, the rest is
 * replayed and the error returned, as e2fsck does.
 *
 * Invariants: (1) no pass walks more blocks than the log has. (2) Nothing is written before all
 * passes but the last have found the log acceptable. (3) s_start stays until all is home and flushed.
 * Locking: the journal is not loaded yet; everything belongs to the calling thread.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "journal/replay_map.h"
#include "util/assert.h"
#include "util/err.h"
#include "util/log.h"

#define SB(field) offsetof(struct jbd2_superblock_disk, field)
#define READ_BLOCKS 64u
/* 64 MiB of 4 KiB blocks; the usual area has 256. */
#define FC_BLOCKS_MAX 16384u

enum pass { PASS_SCAN, PASS_REVOKE, PASS_CHECK, PASS_REPLAY };

/* What a block of the log does to the walk. */
enum step { STEP_ON, STEP_END };

struct recovery {
	journal_t *r_journal;
	enum pass r_pass;
	tid_t r_end; /* first transaction that is not replayed, once r_end_known */
	bool r_end_known;
	uint32_t r_lblk;   /* next block of the walk */
	tid_t r_tid;	   /* transaction expected there */
	uint32_t r_walked; /* blocks of this pass so far */
	int r_result;	   /* an error that does not stop the replay */

	uint64_t r_commit_sec; /* scan: time of the last good commit */
	bool r_suspect;	       /* scan: a block of this transaction has a bad checksum */
	uint32_t r_crc32;      /* scan: compat checksum of this transaction so far */
	tid_t r_failed;	       /* transaction whose commit block was bad */
	bool r_has_failed;

	struct revoke_table r_revokes;
	struct replay_map r_map;
	uint64_t r_replayed;
	uint64_t r_revoke_hits;

	uint8_t *r_block;    /* the block of the log under the walk */
	uint8_t *r_chunk;    /* read ahead: READ_BLOCKS blocks */
	uint32_t r_chunk_at; /* its first log block */
	uint32_t r_chunk_n;
};

/* A descriptor's tags, one after the other. */
struct tag_walk {
	const journal_t *tw_journal;
	const uint8_t *tw_block;
	unsigned tw_at;
	bool tw_last;
};

/* ---- Reading the log ---- */

static int fill_chunk(struct recovery *r, uint32_t lblk, uint32_t n)
{
	journal_t *j = r->r_journal;
	uint64_t pblk;
	uint32_t run;
	int err;

	r->r_chunk_n = 0;
	err = jbd2_bmap(j, lblk, &pblk, &run);
	if (err != 0)
		return err;
	if (n > run)
		n = run;
	err = blk_read(j->j_log_dev, pblk * j->j_block_bytes, r->r_chunk,
		       (size_t)n * j->j_block_bytes, REQ_META | REQ_JOURNAL);
	if (err == 0) {
		r->r_chunk_at = lblk;
		r->r_chunk_n = n;
	}
	return err;
}

/* The content of a log block, valid until the next call. */
static int read_block(struct recovery *r, uint32_t lblk, const uint8_t **data)
{
	journal_t *j = r->r_journal;
	uint32_t n = j->j_maxlen - lblk;
	int err = 0;

	if (n > READ_BLOCKS)
		n = READ_BLOCKS;
	if (lblk < r->r_chunk_at || lblk - r->r_chunk_at >= r->r_chunk_n) {
		err = fill_chunk(r, lblk, n);
		/* One bad block must not take its neighbours along. */
		if (err != 0 && n > 1)
			err = fill_chunk(r, lblk, 1);
	}
	*data = r->r_chunk + (size_t)(lblk - r->r_chunk_at) * j->j_block_bytes;
	return err;
}

static uint32_t log_blocks(const journal_t *j)
{
	return j->j_last - j->j_first;
}

/* Step over n blocks; n is less than the log is long. */
static void advance(struct recovery *r, uint32_t n)
{
	journal_t *j = r->r_journal;

	r->r_walked += n;
	if (n >= j->j_last - r->r_lblk)
		r->r_lblk = j->j_first + (n - (j->j_last - r->r_lblk));
	else
		r->r_lblk += n;
}

static int read_next(struct recovery *r, const uint8_t **data)
{
	int err = read_block(r, r->r_lblk, data);

	advance(r, 1);
	return err;
}

/* ---- Tags ---- */

static void tags_begin(struct tag_walk *tw, const journal_t *j, const uint8_t *block)
{
	*tw = (struct tag_walk){.tw_journal = j, .tw_block = block};
	tw->tw_at = sizeof(struct jbd2_header_disk);
}

static bool tags_next(struct tag_walk *tw, struct jbd2_tag *tag)
{
	const journal_t *j = tw->tw_journal;

	if (tw->tw_last || tw->tw_at + j->j_tag_bytes > j->j_block_bytes - j->j_tail_bytes)
		return false;
	jbd2_tag_read(j, tw->tw_block + tw->tw_at, tag);
	tw->tw_at += j->j_tag_bytes;
	if ((tag->tg_flags & JBD2_FLAG_SAME_UUID) == 0)
		tw->tw_at += JBD2_UUID_BYTES;
	tw->tw_last = (tag->tg_flags & JBD2_FLAG_LAST_TAG) != 0;
	return true;
}

static uint32_t count_tags(const journal_t *j, const uint8_t *block)
{
	struct tag_walk tw;
	struct jbd2_tag tag;
	uint32_t n = 0;

	tags_begin(&tw, j, block);
	while (tags_next(&tw, &tag))
		n++;
	return n;
}

/* ---- Scan ---- */

/* Compat checksum over the descriptor in r_block and the blocks it describes. */
static int sum_group(struct recovery *r)
{
	journal_t *j = r->r_journal;
	uint32_t n = count_tags(j, r->r_block);

	r->r_crc32 = jbd2_crc32_be(r->r_crc32, r->r_block, j->j_block_bytes);
	for (uint32_t i = 0; i < n && r->r_walked <= log_blocks(j); i++) {
		const uint8_t *data;
		int err = read_next(r, &data);

		if (err != 0)
			return err;
		r->r_crc32 = jbd2_crc32_be(r->r_crc32, data, j->j_block_bytes);
	}
	return 0;
}

static bool is_async(const journal_t *j)
{
	return jbd2_has_incompat(j, JBD2_FEATURE_INCOMPAT_ASYNC_COMMIT);
}

/*
 * With async commit the commit block proves nothing about the blocks before it: look at every one.
 * The kernel and e2fsck do not, and refuse a log whose last transaction was cut that way.
 */
static enum step verify_group(struct recovery *r)
{
	struct tag_walk tw;
	struct jbd2_tag tag;

	tags_begin(&tw, r->r_journal, r->r_block);
	while (!r->r_suspect && tags_next(&tw, &tag)) {
		const uint8_t *data;

		if (r->r_walked >= log_blocks(r->r_journal) || read_next(r, &data) != 0)
			return STEP_END;
		if (!jbd2_data_csum_ok(r->r_journal, r->r_tid, data, tag.tg_csum))
			r->r_suspect = true;
	}
	/* Whether the commit block is there makes no difference any more. */
	return r->r_suspect ? STEP_END : STEP_ON;
}

static enum step scan_descriptor(struct recovery *r)
{
	journal_t *j = r->r_journal;

	if (!jbd2_tail_csum_ok(j, r->r_block))
		r->r_suspect = true;
	if (is_async(j) && jbd2_has_csum_v2or3(j))
		return verify_group(r);
	if (!jbd2_has_compat_csum(j) || r->r_end_known) {
		advance(r, count_tags(j, r->r_block));
		return STEP_ON;
	}
	/* A block that cannot be read: the transaction is not whole. */
	return sum_group(r) == 0 ? STEP_ON : STEP_END;
}

static bool commit_sum_ok(struct recovery *r)
{
	const uint8_t *block = r->r_block;
	uint32_t found = get_be32(block + offsetof(struct jbd2_commit_disk, h_chksum));
	unsigned type = block[offsetof(struct jbd2_commit_disk, h_chksum_type)];
	unsigned size = block[offsetof(struct jbd2_commit_disk, h_chksum_size)];

	if (!jbd2_has_compat_csum(r->r_journal))
		return jbd2_commit_csum_ok(r->r_journal, block);
	if (type == 0 && size == 0 && found == 0)
		return true;
	return type == JBD2_CRC32_CHKSUM && size == JBD2_CRC32_CHKSUM_SIZE && found == r->r_crc32;
}

static void end_at(struct recovery *r, tid_t tid)
{
	if (!r->r_end_known)
		r->r_end = tid;
	r->r_end_known = true;
}

static int scan_bad_commit(struct recovery *r, enum step *step)
{
	end_at(r, r->r_tid);
	/* With async commit the commit block may be on disk before the rest: not an error by itself. */
	if (!is_async(r->r_journal)) {
		r->r_failed = r->r_tid;
		r->r_has_failed = true;
		*step = STEP_END;
		return 0;
	}
	r->r_tid++;
	return 0;
}

static int scan_commit(struct recovery *r, enum step *step)
{
	uint64_t sec = get_be64(r->r_block + offsetof(struct jbd2_commit_disk, h_commit_sec_hi));

	if (r->r_suspect) {
		if (sec >= r->r_commit_sec && !is_async(r->r_journal)) {
			log_err("journal: bad checksum in transaction %" PRIu32, r->r_tid);
			return -EFSBADCRC;
		}
		/* Older than what came before: a leftover that only looks like the next one. Async: cut. */
		*step = STEP_END;
		return 0;
	}
	if (jbd2_has_compat_csum(r->r_journal) && r->r_end_known) {
		/* A later transaction is whole: the one before was damaged, not cut. */
		r->r_failed = r->r_end;
		r->r_has_failed = true;
		*step = STEP_END;
		return 0;
	}
	if (!commit_sum_ok(r)) {
		if (sec < r->r_commit_sec) {
			*step = STEP_END;
			return 0;
		}
		return scan_bad_commit(r, step);
	}
	r->r_crc32 = ~UINT32_C(0);
	r->r_commit_sec = sec;
	r->r_tid++;
	return 0;
}

/* ---- Revoke ---- */

static int take_revokes(struct recovery *r)
{
	journal_t *j = r->r_journal;
	bool wide = jbd2_has_incompat(j, JBD2_FEATURE_INCOMPAT_64BIT);
	uint32_t record = wide ? 8 : 4;
	uint32_t at = sizeof(struct jbd2_revoke_header_disk);
	uint32_t count = get_be32(r->r_block + offsetof(struct jbd2_revoke_header_disk, r_count));

	if (!jbd2_tail_csum_ok(j, r->r_block))
		return -EFSBADCRC;
	if (count > j->j_block_bytes - j->j_tail_bytes) {
		log_err("journal: revoke block of transaction %" PRIu32 " is overfull", r->r_tid);
		return -EFSCORRUPTED;
	}
	while (at + record <= count) {
		uint64_t blocknr = wide ? get_be64(r->r_block + at) : get_be32(r->r_block + at);
		int added = jbd2_revoke_insert(&r->r_revokes, blocknr, r->r_tid);

		if (added < 0)
			return added;
		at += record;
	}
	return 0;
}

/* ---- Check and replay ---- */

static bool lies_in_log(const journal_t *j, uint64_t blocknr)
{
	if (j->j_log_dev != j->j_fs_dev)
		return false;
	for (unsigned i = 0; i < j->j_nr_extents; i++) {
		const struct jbd2_log_extent *le = &j->j_extents[i];

		if (blocknr >= le->le_pblk && blocknr - le->le_pblk < le->le_len)
			return true;
	}
	return false;
}

static int check_group(struct recovery *r)
{
	journal_t *j = r->r_journal;
	struct tag_walk tw;
	struct jbd2_tag tag;

	if (!jbd2_tail_csum_ok(j, r->r_block))
		return -EFSBADCRC;
	tags_begin(&tw, j, r->r_block);
	while (tags_next(&tw, &tag)) {
		advance(r, 1);
		if (jbd2_revoke_test(&r->r_revokes, tag.tg_blocknr, r->r_tid))
			continue;
		if (tag.tg_blocknr >= j->j_fs_blocks || lies_in_log(j, tag.tg_blocknr)) {
			log_err("journal: transaction %" PRIu32 " has block %" PRIu64
				", which is not the file system's",
				r->r_tid, tag.tg_blocknr);
			return -EFSCORRUPTED;
		}
	}
	return 0;
}

static int replay_block(struct recovery *r, const struct jbd2_tag *tag)
{
	journal_t *j = r->r_journal;
	uint32_t lblk = r->r_lblk;
	const uint8_t *data;
	int err;

	if (jbd2_revoke_test(&r->r_revokes, tag->tg_blocknr, r->r_tid)) {
		advance(r, 1);
		r->r_revoke_hits++;
		return 0;
	}
	err = read_next(r, &data);
	if (err != 0) {
		log_err("journal: error %d reading log block %" PRIu32, -err, lblk);
		r->r_result = err;
		return 0;
	}
	if (!jbd2_data_csum_ok(j, r->r_tid, data, tag->tg_csum)) {
		log_err("journal: bad checksum of block %" PRIu64 " in log block %" PRIu32,
			tag->tg_blocknr, lblk);
		r->r_result = -EFSBADCRC;
		return 0;
	}
	r->r_replayed++;
	if (j->j_ops != NULL && j->j_ops->replayed != NULL)
		j->j_ops->replayed(j->j_params.jp_fs, tag->tg_blocknr);
	bh_forget_range(j->j_cache, tag->tg_blocknr, 1);
	return replay_map_put(&r->r_map, tag->tg_blocknr, data,
			      (tag->tg_flags & JBD2_FLAG_ESCAPE) != 0);
}

static int replay_group(struct recovery *r)
{
	struct tag_walk tw;
	struct jbd2_tag tag;
	int err = 0;

	tags_begin(&tw, r->r_journal, r->r_block);
	while (err == 0 && tags_next(&tw, &tag))
		err = replay_block(r, &tag);
	return err;
}

/* ---- The walk ---- */

static int walk_descriptor(struct recovery *r, enum step *step)
{
	switch (r->r_pass) {
	case PASS_SCAN:
		*step = scan_descriptor(r);
		return 0;
	case PASS_REVOKE:
		advance(r, count_tags(r->r_journal, r->r_block));
		return 0;
	case PASS_CHECK:
		return check_group(r);
	default:
		return replay_group(r);
	}
}

static int walk_block(struct recovery *r, enum step *step)
{
	uint32_t type = get_be32(r->r_block + offsetof(struct jbd2_header_disk, h_blocktype));

	switch (type) {
	case JBD2_DESCRIPTOR_BLOCK:
		return walk_descriptor(r, step);
	case JBD2_COMMIT_BLOCK:
		if (r->r_pass == PASS_SCAN)
			return scan_commit(r, step);
		r->r_tid++;
		return 0;
	case JBD2_REVOKE_BLOCK:
		if (r->r_pass == PASS_SCAN && !jbd2_tail_csum_ok(r->r_journal, r->r_block))
			r->r_suspect = true;
		return r->r_pass == PASS_REVOKE ? take_revokes(r) : 0;
	default:
		*step = STEP_END;
		return 0;
	}
}

/* True if the walk goes on with the block it has just read into r_block. */
static bool is_expected(const struct recovery *r)
{
	const uint8_t *block = r->r_block;

	return get_be32(block + offsetof(struct jbd2_header_disk, h_magic)) == JBD2_MAGIC_NUMBER &&
	       get_be32(block + offsetof(struct jbd2_header_disk, h_sequence)) == r->r_tid;
}

static int walk(struct recovery *r, enum pass pass)
{
	journal_t *j = r->r_journal;
	enum step step = STEP_ON;
	int err = 0;

	r->r_pass = pass;
	r->r_lblk = get_be32(j->j_sb + SB(s_start));
	r->r_tid = get_be32(j->j_sb + SB(s_sequence));
	r->r_walked = 0;
	while (step == STEP_ON && err == 0) {
		const uint8_t *data;

		if (pass != PASS_SCAN && tid_geq(r->r_tid, r->r_end))
			break;
		if (r->r_walked >= log_blocks(j)) {
			log_warn("journal: the log bites its tail in transaction %" PRIu32,
				 r->r_tid);
			break;
		}
		err = read_next(r, &data);
		if (err != 0)
			break;
		memcpy(r->r_block, data, j->j_block_bytes);
		if (!is_expected(r))
			break;
		err = walk_block(r, &step);
	}
	if (err != 0)
		return err;
	if (pass == PASS_SCAN)
		end_at(r, r->r_tid);
	else if (r->r_tid != r->r_end)
		return -EIO;
	return 0;
}

/* ---- Fast commits ---- */

static int read_fc_area(struct recovery *r, uint8_t **area, uint32_t *blocks)
{
	journal_t *j = r->r_journal;
	/* As in the kernel, the block between the circle and the area is not used. */
	uint32_t first = j->j_last + 1;
	int err = 0;

	*area = NULL;
	*blocks = 0;
	if (!jbd2_has_incompat(j, JBD2_FEATURE_INCOMPAT_FAST_COMMIT) || first >= j->j_maxlen)
		return 0;
	if (j->j_maxlen - first > FC_BLOCKS_MAX) {
		log_err("journal: fast commit area of %" PRIu32 " blocks", j->j_maxlen - first);
		return -EFSCORRUPTED;
	}
	*area = malloc((size_t)(j->j_maxlen - first) * j->j_block_bytes);
	if (*area == NULL)
		return -ENOMEM;
	for (uint32_t i = first; i < j->j_maxlen && err == 0; i++) {
		const uint8_t *data;

		err = read_block(r, i, &data);
		if (err == 0)
			memcpy(*area + (size_t)(*blocks)++ * j->j_block_bytes, data,
			       j->j_block_bytes);
	}
	return err;
}

static int scan_fc(struct recovery *r)
{
	journal_t *j = r->r_journal;
	uint32_t blocks;
	int err = read_fc_area(r, &j->j_fc_area, &blocks);

	if (err != 0)
		return err;
	j->j_fc.fs_tid = r->r_end;
	err = jbd2_fc_scan(&j->j_fc, j->j_fc_area, blocks, j->j_block_bytes);
	if (err == 0 && j->j_fc.fs_nr > 0 && !j->j_params.jp_takes_fc)
		err = -EOPNOTSUPP;
	if (err == -EOPNOTSUPP)
		log_err("journal: fast commits that cannot be replayed here");
	return err;
}

/* ---- Recovery ---- */

static int scan_all(struct recovery *r)
{
	int err = walk(r, PASS_SCAN);

	if (err == 0)
		err = walk(r, PASS_REVOKE);
	if (err == 0)
		err = walk(r, PASS_CHECK);
	return err;
}

/* Everything that can be replayed is, even if the result is an error. */
static int replay_all(struct recovery *r)
{
	int err = walk(r, PASS_REPLAY);
	int err2 = replay_map_write(&r->r_map);

	if (err == 0)
		err = err2;
	err2 = jbd2_flush_fs_dev(r->r_journal);
	if (err == 0)
		err = err2;
	return err != 0 ? err : r->r_result;
}

static int finish_recovery(struct recovery *r)
{
	journal_t *j = r->r_journal;

	if (r->r_has_failed) {
		log_warn("journal: transaction %" PRIu32 " is damaged; it and what follows is lost",
			 r->r_failed);
		put_be32(j->j_sb + SB(s_errno), (uint32_t)-EINVAL);
	}
	log_info("journal: %" PRIu64 " blocks replayed up to transaction %" PRIu32, r->r_replayed,
		 r->r_end - 1);
	/* The walk of the replay pass ended behind the last transaction. */
	if (j->j_fc.fs_nr > 0)
		return jbd2_sb_write(j, r->r_end, r->r_lblk, true);
	/* One more, so that nothing that is in the log now can be taken for what comes. */
	return jbd2_sb_write(j, r->r_end + 1, 0, true);
}

static int recover(struct recovery *r)
{
	int err = scan_all(r);

	if (err == 0)
		err = scan_fc(r);
	if (err == 0)
		err = replay_all(r);
	if (err == 0)
		err = finish_recovery(r);
	if (err != 0)
		r->r_journal->j_fc.fs_nr = 0;
	return err;
}

int jbd2_journal_recover(journal_t *j)
{
	struct recovery r = {.r_journal = j, .r_crc32 = ~UINT32_C(0)};
	int err = -ENOMEM;

	ASSERT(!j->j_loaded);
	if (!jbd2_journal_needs_recovery(j))
		return 0;
	if (j->j_params.jp_read_only)
		return -EROFS;
	jbd2_revoke_init(&r.r_revokes);
	replay_map_init(&r.r_map, j->j_fs_dev, j->j_block_bytes);
	r.r_block = malloc(j->j_block_bytes);
	r.r_chunk = malloc((size_t)READ_BLOCKS * j->j_block_bytes);
	if (r.r_block != NULL && r.r_chunk != NULL)
		err = recover(&r);
	replay_map_clear(&r.r_map);
	jbd2_revoke_clear(&r.r_revokes);
	free(r.r_block);
	free(r.r_chunk);
	return err;
}
