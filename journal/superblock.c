/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * superblock.c - the journal superblock, the features, and where the log's blocks lie.
 *
 * The superblock is read and checked once, before anything else of the log is believed; every
 * field that later steers a loop or an address is bounded here. Afterwards the block is kept in
 * memory and only changed by jbd2_sb_write_claimed(), by one thread at a time.
 *
 * Invariants: (1) j_extents covers log blocks 0 .. j_maxlen without a gap, all of them on the
 * device. (2) j_first <= s_start < j_last, or s_start is 0. (3) A version 1 superblock has no features.
 * (4) s_start on disk is 0 exactly when j_flushed is set, but while j_sb_busy.
 * Locking: j_sb_busy, claimed under j_state_lock, is held over the I/O of a superblock write.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "journal/journal_int.h"
#include "util/assert.h"
#include "util/err.h"
#include "util/log.h"
#include "util/time.h"

#define SB(field) offsetof(struct jbd2_superblock_disk, field)

/* ---- Where the log lies ---- */

int jbd2_bmap(const journal_t *j, uint32_t lblk, uint64_t *pblk, uint32_t *run)
{
	unsigned low = 0, high = j->j_nr_extents;

	while (low < high) {
		unsigned mid = (low + high) / 2;
		const struct jbd2_log_extent *le = &j->j_extents[mid];

		if (lblk < le->le_lblk) {
			high = mid;
		} else if (lblk - le->le_lblk >= le->le_len) {
			low = mid + 1;
		} else {
			*pblk = le->le_pblk + (lblk - le->le_lblk);
			*run = le->le_len - (lblk - le->le_lblk);
			return 0;
		}
	}
	return -EFSCORRUPTED;
}

/* All extents on the device and one behind the other from block 0: the number of blocks, or 0. */
static uint32_t extents_length(const journal_t *j)
{
	uint64_t dev_blocks = j->j_log_dev->bd_size_bytes / j->j_block_bytes;
	uint64_t next = 0;

	for (unsigned i = 0; i < j->j_nr_extents; i++) {
		const struct jbd2_log_extent *le = &j->j_extents[i];

		if (le->le_lblk != next || le->le_len == 0)
			return 0;
		if (le->le_pblk >= dev_blocks || le->le_len > dev_blocks - le->le_pblk)
			return 0;
		next += le->le_len;
	}
	return next <= UINT32_MAX ? (uint32_t)next : 0;
}

/* ---- Reading ---- */

static int bad(int err, const char *what, uint32_t value)
{
	log_err("journal superblock: %s (%" PRIu32 ")", what, value);
	return err;
}

static int check_geometry(journal_t *j, uint32_t length)
{
	const uint8_t *sb = j->j_sb;
	uint32_t start = get_be32(sb + SB(s_start));

	if (get_be32(sb + SB(s_blocksize)) != j->j_block_bytes)
		return bad(-EFSCORRUPTED, "block size is not the file system's",
			   get_be32(sb + SB(s_blocksize)));
	j->j_maxlen = get_be32(sb + SB(s_maxlen));
	if (j->j_maxlen > length)
		return bad(-EFSCORRUPTED, "log is longer than its place on the device",
			   j->j_maxlen);
	j->j_first = get_be32(sb + SB(s_first));
	if (j->j_first <= j->j_sb_lblk || j->j_first >= j->j_maxlen)
		return bad(-EFSCORRUPTED, "first block is outside the log", j->j_first);
	j->j_last = j->j_maxlen;
	if (jbd2_has_incompat(j, JBD2_FEATURE_INCOMPAT_FAST_COMMIT)) {
		uint32_t fc = get_be32(sb + SB(s_num_fc_blks));

		if (fc == 0)
			fc = JBD2_DEFAULT_FC_BLOCKS;
		/* An area that would leave less than the smallest log counts as none, as in the kernel. */
		if (fc < j->j_maxlen && j->j_maxlen - fc >= JBD2_MIN_JOURNAL_BLOCKS)
			j->j_last = j->j_maxlen - fc;
	}
	if (j->j_last <= j->j_first || j->j_last - j->j_first + 1 < JBD2_MIN_JOURNAL_BLOCKS)
		return bad(-EFSCORRUPTED, "log is too short", j->j_last - j->j_first);
	if (start != 0 && (start < j->j_first || start >= j->j_last))
		return bad(-EFSCORRUPTED, "start is outside the log", start);
	return 0;
}

static int check_csum(journal_t *j)
{
	const uint8_t *sb = j->j_sb;
	uint32_t both = JBD2_FEATURE_INCOMPAT_CSUM_V2 | JBD2_FEATURE_INCOMPAT_CSUM_V3;

	if (!jbd2_has_csum_v2or3(j))
		return 0;
	if ((j->j_feature_incompat & both) == both)
		return bad(-EFSCORRUPTED, "checksum v2 and v3 at once", j->j_feature_incompat);
	if (jbd2_has_compat_csum(j))
		return bad(-EFSCORRUPTED, "two kinds of checksum at once", j->j_feature_compat);
	if (sb[SB(s_checksum_type)] != JBD2_CRC32C_CHKSUM)
		return bad(-EFSCORRUPTED, "unknown checksum type", sb[SB(s_checksum_type)]);
	if (get_be32(sb + SB(s_checksum)) != jbd2_sb_csum(sb))
		return bad(-EFSBADCRC, "bad checksum", get_be32(sb + SB(s_checksum)));
	return 0;
}

static int check_features(journal_t *j)
{
	const uint8_t *sb = j->j_sb;
	uint32_t ro_compat;

	if (j->j_v1)
		return 0;
	j->j_feature_compat = get_be32(sb + SB(s_feature_compat));
	j->j_feature_incompat = get_be32(sb + SB(s_feature_incompat));
	ro_compat = get_be32(sb + SB(s_feature_ro_compat));
	if ((j->j_feature_incompat & ~JBD2_KNOWN_INCOMPAT) != 0)
		return bad(-EOPNOTSUPP, "unknown incompatible features", j->j_feature_incompat);
	if (ro_compat != JBD2_KNOWN_ROCOMPAT)
		return bad(-EOPNOTSUPP, "unknown read-only features", ro_compat);
	return check_csum(j);
}

/* An external log names the file systems that use it. */
static int check_users(journal_t *j)
{
	const uint8_t *sb = j->j_sb;
	uint32_t n = get_be32(sb + SB(s_nr_users));

	if (j->j_log_dev == j->j_fs_dev)
		return 0;
	if (n != 1)
		return bad(-EINVAL, "external log must have one user", n);
	if (memcmp(sb + SB(s_users), j->j_params.jp_fs_uuid, JBD2_UUID_BYTES) != 0)
		return bad(-EINVAL, "external log belongs to another file system", n);
	return 0;
}

static int check_version(journal_t *j)
{
	uint32_t type = get_be32(j->j_sb + SB(s_header.h_blocktype));

	if (get_be32(j->j_sb) != JBD2_MAGIC_NUMBER)
		return bad(-EFSCORRUPTED, "bad magic", get_be32(j->j_sb));
	if (type != JBD2_SUPERBLOCK_V1 && type != JBD2_SUPERBLOCK_V2)
		return bad(-EFSCORRUPTED, "unknown version", type);
	j->j_v1 = type == JBD2_SUPERBLOCK_V1;
	return 0;
}

int jbd2_sb_read(journal_t *j)
{
	uint32_t length = extents_length(j);
	uint64_t pblk;
	uint32_t run;
	int err;

	if (length == 0)
		return bad(-EFSCORRUPTED, "log has holes or lies outside its device", length);
	j->j_sb_lblk = j->j_params.jp_sb_lblk;
	if (j->j_sb_lblk == 0 && j->j_log_dev != j->j_fs_dev)
		j->j_sb_lblk = j->j_block_bytes == 1024 ? 2 : 1;
	err = jbd2_bmap(j, j->j_sb_lblk, &pblk, &run);
	if (err != 0)
		return bad(err, "place of the superblock is outside the log", j->j_sb_lblk);
	err = blk_read(j->j_log_dev, pblk * j->j_block_bytes, j->j_sb, j->j_block_bytes, REQ_META);
	if (err != 0)
		return bad(err, "cannot be read", j->j_sb_lblk);
	err = check_version(j);
	if (err == 0)
		err = check_features(j);
	if (err == 0)
		err = check_geometry(j, length);
	if (err == 0)
		err = check_users(j);
	if (err != 0)
		return err;
	if (!j->j_v1)
		memcpy(j->j_uuid, j->j_sb + SB(s_uuid), sizeof(j->j_uuid));
	jbd2_set_layout(j);
	return 0;
}

/* ---- Features ---- */

/* Version 1 has no features, and revokes need one. */
static void upgrade_v1(journal_t *j)
{
	if (!j->j_v1)
		return;
	memset(j->j_sb + SB(s_feature_compat), 0,
	       sizeof(struct jbd2_superblock_disk) - SB(s_feature_compat));
	put_be32(j->j_sb + SB(s_header.h_blocktype), JBD2_SUPERBLOCK_V2);
	put_be32(j->j_sb + SB(s_nr_users), 1);
	j->j_v1 = false;
}

void jbd2_sb_choose_features(journal_t *j)
{
	uint32_t incompat = j->j_feature_incompat;

	upgrade_v1(j);
	incompat |= JBD2_FEATURE_INCOMPAT_REVOKE;
	/* No fast commits are written, so an empty log has no area for them. */
	incompat &= ~(JBD2_FEATURE_INCOMPAT_FAST_COMMIT | JBD2_FEATURE_INCOMPAT_ASYNC_COMMIT);
	if (j->j_params.jp_want_64bit)
		incompat |= JBD2_FEATURE_INCOMPAT_64BIT;
	if (j->j_params.jp_want_csum) {
		incompat &= ~JBD2_FEATURE_INCOMPAT_CSUM_V2;
		incompat |= JBD2_FEATURE_INCOMPAT_CSUM_V3;
		j->j_feature_compat &= ~JBD2_FEATURE_COMPAT_CHECKSUM;
	}
	j->j_feature_incompat = incompat;
	if (j->j_params.jp_async_commit) {
		j->j_feature_incompat |= JBD2_FEATURE_INCOMPAT_ASYNC_COMMIT;
		/* Without a flush before the commit block only a checksum tells whether the rest arrived. */
		if (!jbd2_has_csum_v2or3(j))
			j->j_feature_compat |= JBD2_FEATURE_COMPAT_CHECKSUM;
	}
	j->j_last = j->j_maxlen;
	jbd2_set_layout(j);
}

/* ---- Writing ---- */

int jbd2_flush_fs_dev(journal_t *j)
{
	uint64_t start_ns = stat_ns();
	int err;

	if (!j->j_params.jp_barrier)
		return 0;
	err = blk_flush(j->j_fs_dev);
	hist_add(&j->j_stats.js_flush_ns, stat_ns() - start_ns);
	return err;
}

int jbd2_flush_log_dev(journal_t *j)
{
	if (!j->j_params.jp_barrier)
		return 0;
	return blk_flush(j->j_log_dev);
}

void jbd2_sb_claim_locked(journal_t *j)
{
	mutex_assert_held(&j->j_state_lock);
	while (j->j_sb_busy)
		cond_wait(&j->j_wait_sb, &j->j_state_lock);
	j->j_sb_busy = true;
}

static void fill_features(journal_t *j)
{
	put_be32(j->j_sb + SB(s_feature_compat), j->j_feature_compat);
	put_be32(j->j_sb + SB(s_feature_incompat), j->j_feature_incompat);
	if (!jbd2_has_incompat(j, JBD2_FEATURE_INCOMPAT_FAST_COMMIT))
		put_be32(j->j_sb + SB(s_num_fc_blks), 0);
	if (jbd2_has_csum_v2or3(j)) {
		j->j_sb[SB(s_checksum_type)] = JBD2_CRC32C_CHKSUM;
		put_be32(j->j_sb + SB(s_checksum), jbd2_sb_csum(j->j_sb));
	}
}

static int write_sb_block(journal_t *j, bool fua)
{
	unsigned flags = REQ_META | REQ_SYNC | REQ_JOURNAL;

	ASSERT(!j->j_params.jp_read_only);
	if (fua)
		flags |= REQ_FUA;
	if (!j->j_v1)
		fill_features(j);
	return jbd2_log_write_block(j, j->j_sb_lblk, j->j_sb, flags);
}

int jbd2_sb_write_claimed(journal_t *j, tid_t sequence, uint32_t block, bool fua)
{
	ASSERT(block == 0 || (block >= j->j_first && block < j->j_last));
	put_be32(j->j_sb + SB(s_sequence), sequence);
	put_be32(j->j_sb + SB(s_start), block);
	if (!j->j_v1)
		put_be32(j->j_sb + SB(s_head), 0);
	return write_sb_block(j, fua);
}

static void sb_release_locked(journal_t *j)
{
	mutex_assert_held(&j->j_state_lock);
	ASSERT(j->j_sb_busy);
	j->j_sb_busy = false;
	cond_broadcast(&j->j_wait_sb);
}

void jbd2_sb_release(journal_t *j)
{
	mutex_lock(&j->j_state_lock);
	sb_release_locked(j);
	mutex_unlock(&j->j_state_lock);
}

int jbd2_sb_write(journal_t *j, tid_t sequence, uint32_t block, bool fua)
{
	int err;

	mutex_lock(&j->j_state_lock);
	jbd2_sb_claim_locked(j);
	mutex_unlock(&j->j_state_lock);
	err = jbd2_sb_write_claimed(j, sequence, block, fua);
	jbd2_sb_release(j);
	return err;
}

/* ---- The error in the superblock ---- */

int jbd2_sb_set_errno(journal_t *j, int error)
{
	int err;

	jbd2_state_lock_anywhere(j);
	jbd2_sb_claim_locked(j);
	mutex_unlock(&j->j_state_lock);
	put_be32(j->j_sb + SB(s_errno), (uint32_t)error);
	err = write_sb_block(j, true);
	jbd2_state_lock_anywhere(j);
	sb_release_locked(j);
	mutex_unlock(&j->j_state_lock);
	return err;
}

int jbd2_journal_errno(const journal_t *j)
{
	int32_t error;

	if (!jbd2_has_log(j))
		return 0;
	error = (int32_t)get_be32(j->j_sb + SB(s_errno));
	return error > 0 ? -error : error;
}

int jbd2_journal_clear_err(journal_t *j)
{
	if (!jbd2_has_log(j) || jbd2_journal_errno(j) == 0)
		return 0;
	return jbd2_sb_set_errno(j, 0);
}

bool jbd2_journal_needs_recovery(const journal_t *j)
{
	return jbd2_has_log(j) && get_be32(j->j_sb + SB(s_start)) != 0;
}
