/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * super_write.c - writing the superblock: in a transaction, home at mount and unmount, and its
 * error fields after an abort; remount, freeze and shutdown, which are about its flags.
 *
 * While the log is in use the superblock is a metadata buffer as any other and changes only with a
 * handle. Its copy on the device is written directly only when no transaction holds it: before the
 * first handle, after the log was emptied with new handles locked out, after the journal is gone.
 *
 * Invariants: (1) needs_recovery is on the device before the first transaction is, and leaves only
 * after the log on the device is empty. (2) s_state loses VALID only while mounted without a log;
 * with one, needs_recovery says the same, as in the kernel. (3) After an abort nothing but errors
 * and state is written.
 * Locking: lock_buffer(s_sbh), then s_sb_lock.
 */
#include <stdlib.h>
#include <string.h>

#include "ext4/ext4_int.h"
#include "ext4/jbd2_glue.h"
#include "util/assert.h"
#include "util/log.h"
#include "util/time.h"

void ext4_load_features(struct super_block *sb, const struct ext2_super_block *es)
{
	atomic_store(&sb->s_feature_compat, le32_to_cpu(es->s_feature_compat));
	atomic_store(&sb->s_feature_incompat, le32_to_cpu(es->s_feature_incompat));
	atomic_store(&sb->s_feature_ro_compat, le32_to_cpu(es->s_feature_ro_compat));
}

/* ---- Counters ---- */

struct counts {
	uint64_t c_free_blocks;
	uint64_t c_free_inodes;
	bool c_known;
};

static void get_counts(struct super_block *sb, struct counts *c)
{
	memset(c, 0, sizeof(*c));
	if (sb->s_counts_hook == NULL)
		return;
	sb->s_counts_hook(sb, &c->c_free_blocks, &c->c_free_inodes);
	c->c_known = true;
}

void ext4_set_counts_hook(struct super_block *sb,
			  void (*fn)(struct super_block *sb, uint64_t *free_blocks,
				     uint64_t *free_inodes))
{
	sb->s_counts_hook = fn;
}

uint64_t ext4_session_write_kbytes(struct super_block *sb)
{
	uint64_t kib = counter_read(&sb->s_dev->bd_stats.s_bytes[REQ_OP_WRITE]) >> 10;

	return kib > sb->s_kbytes_session ? kib - sb->s_kbytes_session : 0;
}

uint64_t ext4_lifetime_write_kbytes(struct super_block *sb)
{
	return sb->s_kbytes_start + ext4_session_write_kbytes(sb);
}

static void put_time(uint32_t *lo, uint8_t *hi)
{
	uint64_t now = (uint64_t)now_real().tv_sec;

	*lo = cpu_to_le32((uint32_t)now);
	*hi = (uint8_t)(now >> 32);
}

static void put_counts_locked(struct super_block *sb, struct ext2_super_block *es,
			      const struct counts *c)
{
	put_time(&es->s_wtime, &es->s_wtime_hi);
	es->s_kbytes_written = cpu_to_le64(ext4_lifetime_write_kbytes(sb));
	if (!c->c_known)
		return;
	es->s_free_blocks_count = cpu_to_le32((uint32_t)c->c_free_blocks);
	if (ext4_has_incompat(sb, EXT4_FEATURE_INCOMPAT_64BIT))
		es->s_free_blocks_hi = cpu_to_le32((uint32_t)(c->c_free_blocks >> 32));
	es->s_free_inodes_count = cpu_to_le32((uint32_t)c->c_free_inodes);
}

/* ---- In a transaction ---- */

int ext4_super_change(handle_t *handle, struct super_block *sb,
		      void (*fn)(struct super_block *sb, struct ext2_super_block *es, void *arg),
		      void *arg)
{
	int err = ext4_journal_get_write_access(handle, sb->s_sbh);

	if (err != 0)
		return err;
	lock_buffer(sb->s_sbh);
	mutex_lock(&sb->s_sb_lock);
	fn(sb, sb->s_es, arg);
	ext4_error_flush_locked(sb, sb->s_es);
	ext4_superblock_csum_set(sb->s_es);
	mutex_unlock(&sb->s_sb_lock);
	unlock_buffer(sb->s_sbh);
	return ext4_handle_dirty_metadata(handle, NULL, sb->s_sbh);
}

static void change_counts(struct super_block *sb, struct ext2_super_block *es, void *arg)
{
	put_counts_locked(sb, es, arg);
}

int ext4_commit_super(handle_t *handle, struct super_block *sb)
{
	struct counts c;

	get_counts(sb, &c);
	return ext4_super_change(handle, sb, change_counts, &c);
}

/* ---- Home ---- */

int ext4_super_write_home(struct super_block *sb)
{
	struct buffer_head *bh = sb->s_sbh;
	void *copy;
	int err;

	if (posix_memalign(&copy, sb->s_dev->bd_dma_align > 512 ? sb->s_dev->bd_dma_align : 512,
			   bh->b_size) != 0)
		return -ENOMEM;
	lock_buffer(bh);
	ext4_superblock_csum_set(sb->s_es);
	memcpy(copy, bh->b_data, bh->b_size);
	unlock_buffer(bh);
	err = bh_write_copy(bh, copy, REQ_META | REQ_SYNC | REQ_FUA);
	free(copy);
	return err != 0 ? err : blk_flush(sb->s_dev);
}

int ext4_super_write_errors(struct super_block *sb)
{
	const uint64_t at = sb->s_sb_block * sb->s_blocksize;
	struct ext2_super_block *es;
	uint8_t *copy = malloc(sb->s_blocksize);
	int err;

	if (copy == NULL)
		return -ENOMEM;
	err = blk_read(sb->s_dev, at, copy, sb->s_blocksize, REQ_META);
	if (err == 0) {
		es = (struct ext2_super_block *)(void *)(copy + sb->s_sb_offset_bytes);
		mutex_lock(&sb->s_sb_lock);
		ext4_error_flush_locked(sb, es);
		/* No buffer lock: whoever met the error may hold one. */
		ext4_error_copy_locked(sb, es);
		es->s_state |= cpu_to_le16(sb->s_mount_state & EXT2_ERROR_FS);
		put_time(&es->s_wtime, &es->s_wtime_hi);
		ext4_superblock_csum_set(es);
		mutex_unlock(&sb->s_sb_lock);
		err = bh_write_copy(sb->s_sbh, copy, REQ_META | REQ_SYNC | REQ_FUA);
	}
	free(copy);
	return err != 0 ? err : blk_flush(sb->s_dev);
}

int ext4_write_super_now(struct super_block *sb)
{
	struct counts c;

	/* With handles possible the buffer may hold what is not committed yet. */
	if (sb->s_journal_loaded || atomic_load(&sb->s_aborted))
		return ext4_super_write_errors(sb);
	get_counts(sb, &c);
	lock_buffer(sb->s_sbh);
	mutex_lock(&sb->s_sb_lock);
	put_counts_locked(sb, sb->s_es, &c);
	ext4_error_flush_locked(sb, sb->s_es);
	mutex_unlock(&sb->s_sb_lock);
	unlock_buffer(sb->s_sbh);
	return ext4_super_write_home(sb);
}

/* ---- Mounted and clean ---- */

/* Hints that other implementations miss, settled once: they are allowed to follow the host. */
static void settle_flags_locked(struct super_block *sb, struct ext2_super_block *es)
{
	const uint32_t hash_flags = EXT2_FLAGS_SIGNED_HASH | EXT2_FLAGS_UNSIGNED_HASH;

	if (ext4_has_compat(sb, EXT2_FEATURE_COMPAT_DIR_INDEX) &&
	    (le32_to_cpu(es->s_flags) & hash_flags) == 0)
		es->s_flags |= cpu_to_le32(EXT2_FLAGS_SIGNED_HASH);
	if (le32_to_cpu(es->s_rev_level) >= EXT2_DYNAMIC_REV)
		es->s_feature_ro_compat |= cpu_to_le32(EXT2_FEATURE_RO_COMPAT_LARGE_FILE);
}

static void put_mount_point(struct ext2_super_block *es, const char *path)
{
	size_t n = path != NULL ? strlen(path) : 0;

	if (n == 0)
		return;
	memset(es->s_last_mounted, 0, sizeof(es->s_last_mounted));
	memcpy(es->s_last_mounted, path,
	       n < sizeof(es->s_last_mounted) ? n : sizeof(es->s_last_mounted));
}

int ext4_super_mark_mounted(struct super_block *sb)
{
	struct ext2_super_block *es = sb->s_es;

	lock_buffer(sb->s_sbh);
	mutex_lock(&sb->s_sb_lock);
	settle_flags_locked(sb, es);
	es->s_mnt_count = cpu_to_le16((uint16_t)(le16_to_cpu(es->s_mnt_count) + 1));
	put_time(&es->s_mtime, &es->s_mtime_hi);
	put_time(&es->s_wtime, &es->s_wtime_hi);
	put_mount_point(es, sb->s_opts.o_mount_point);
	if (jbd2_has_log(sb->s_journal)) {
		es->s_feature_incompat |= cpu_to_le32(EXT3_FEATURE_INCOMPAT_RECOVER);
		if (sb->s_orphan_file != NULL)
			es->s_feature_ro_compat |=
				cpu_to_le32(EXT4_FEATURE_RO_COMPAT_ORPHAN_PRESENT);
	} else {
		es->s_state &= cpu_to_le16((uint16_t)~EXT2_VALID_FS);
	}
	ext4_load_features(sb, es);
	mutex_unlock(&sb->s_sb_lock);
	unlock_buffer(sb->s_sbh);
	return ext4_super_write_home(sb);
}

int ext4_super_mark_clean(struct super_block *sb)
{
	struct ext2_super_block *es = sb->s_es;
	const bool no_orphans = ext4_orphan_file_empty(sb);
	struct counts c;

	get_counts(sb, &c);
	lock_buffer(sb->s_sbh);
	mutex_lock(&sb->s_sb_lock);
	put_counts_locked(sb, es, &c);
	ext4_error_flush_locked(sb, es);
	es->s_state = cpu_to_le16(sb->s_mount_state);
	if (!sb->s_recover_skipped)
		es->s_feature_incompat &= cpu_to_le32(~(uint32_t)EXT3_FEATURE_INCOMPAT_RECOVER);
	if (no_orphans)
		es->s_feature_ro_compat &=
			cpu_to_le32(~(uint32_t)EXT4_FEATURE_RO_COMPAT_ORPHAN_PRESENT);
	ext4_load_features(sb, es);
	mutex_unlock(&sb->s_sb_lock);
	unlock_buffer(sb->s_sbh);
	return ext4_super_write_home(sb);
}

/* ---- Remount ---- */

/* The log is emptied and the superblock clean on the device; new handles wait until unlock_updates. */
static int quiesce(struct super_block *sb)
{
	int err;

	ext4_drain_evictions(sb);
	jbd2_journal_lock_updates(sb->s_journal);
	err = jbd2_journal_flush(sb->s_journal);
	if (err == 0)
		err = ext4_super_mark_clean(sb);
	return err;
}

int ext4_remount_ro(struct super_block *sb)
{
	int err;

	if (sb_rdonly(sb))
		return 0;
	ext4_drain_evictions(sb);
	atomic_store(&sb->s_read_only, true);
	err = quiesce(sb);
	jbd2_journal_unlock_updates(sb->s_journal);
	if (err != 0 && !atomic_load(&sb->s_aborted))
		atomic_store(&sb->s_read_only, false);
	return err;
}

int ext4_start_writing(struct super_block *sb)
{
	int err;

	if (!sb_rdonly(sb))
		return 0;
	if (sb->s_read_only_forced || sb->s_dev->bd_read_only || atomic_load(&sb->s_aborted) ||
	    atomic_load(&sb->s_shutdown))
		return -EROFS;
	if (sb->s_recover_skipped) {
		log_err("%s: the journal needs recovery: unmount and mount again", sb->s_name);
		return -EINVAL;
	}
	err = ext4_orphan_file_open(sb);
	if (err != 0)
		return err;
	if (!sb->s_journal_loaded) {
		err = jbd2_journal_load(sb->s_journal);
		if (err != 0)
			return err;
		sb->s_journal_loaded = true;
	}
	err = ext4_super_mark_mounted(sb);
	if (err != 0)
		return err;
	atomic_store(&sb->s_read_only, false);
	ext4_errors_catch_up(sb);
	return 0;
}

int ext4_remount_rw(struct super_block *sb)
{
	int err;

	if (!sb_rdonly(sb))
		return 0;
	err = ext4_start_writing(sb);
	return err != 0 ? err : ext4_orphan_cleanup(sb);
}

/* ---- Freeze and shutdown ---- */

int ext4_freeze(struct super_block *sb)
{
	int err;

	if (atomic_load(&sb->s_shutdown))
		return -EIO;
	if (atomic_load(&sb->s_frozen))
		return -EBUSY;
	if (sb_rdonly(sb))
		return 0;
	err = quiesce(sb);
	if (err != 0) {
		jbd2_journal_unlock_updates(sb->s_journal);
		return err;
	}
	atomic_store(&sb->s_frozen, true);
	return 0;
}

int ext4_thaw(struct super_block *sb)
{
	struct ext2_super_block *es = sb->s_es;
	int err = 0;

	if (!atomic_load(&sb->s_frozen))
		return sb_rdonly(sb) ? 0 : -EINVAL;
	if (!atomic_load(&sb->s_shutdown)) {
		uint16_t mnt_count = le16_to_cpu(es->s_mnt_count);

		/* The same marks as at mount, but it is no new mount. */
		lock_buffer(sb->s_sbh);
		es->s_mnt_count = cpu_to_le16((uint16_t)(mnt_count - 1));
		unlock_buffer(sb->s_sbh);
		err = ext4_super_mark_mounted(sb);
	}
	atomic_store(&sb->s_frozen, false);
	jbd2_journal_unlock_updates(sb->s_journal);
	return err;
}

enum { SHUTDOWN_DEFAULT, SHUTDOWN_LOGFLUSH, SHUTDOWN_NOLOGFLUSH };

int ext4_shutdown(struct super_block *sb, unsigned mode)
{
	int err = 0;

	if (mode > SHUTDOWN_NOLOGFLUSH)
		return -EINVAL;
	if (atomic_load(&sb->s_shutdown))
		return 0;
	log_warn("%s: shut down (mode %u): every operation fails from now on", sb->s_name, mode);
	if (sb_rdonly(sb)) {
		atomic_store(&sb->s_shutdown, true);
		return 0;
	}
	if (mode == SHUTDOWN_DEFAULT) {
		err = ext4_freeze(sb);
		if (err != 0)
			return err;
	}
	atomic_store(&sb->s_shutdown, true);
	if (mode == SHUTDOWN_LOGFLUSH)
		err = jbd2_journal_force_commit(sb->s_journal);
	jbd2_journal_abort(sb->s_journal, -ESHUTDOWN);
	if (mode == SHUTDOWN_DEFAULT)
		ext4_thaw(sb);
	return err;
}
