/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * super.c - mounting and unmounting.
 *
 * Mounting reads the superblock, the descriptor of group 0, the root inode, the journal's map and
 * the orphan file: nothing that grows with the device. When the log was replayed, everything read
 * before is read and checked again, since the log may have carried it.
 *
 *   attach() -> ext4_journal_open() -> [recover() -> detach() -> attach()] -> check_root()
 *            -> go_writable(), which opens the orphan file
 *
 * Invariants: (1) nothing is written before the features and every field of the superblock were
 * checked. (2) A replay preserves the error fields that the superblock had before it. (3) On
 * failure the device is the caller's again, and nothing of it is held.
 * Locking: one thread; the file system is not visible to others yet, or not any more.
 */
#include "ext4/super.h"

#include <stdlib.h>
#include <string.h>

#include "ext4/ext4_int.h"
#include "util/assert.h"
#include "util/log.h"

#define DEFAULT_BCACHE_BYTES (32ull << 20)
#define WORKER_THREADS 2u

void ext4_options_init(struct ext4_options *o)
{
	memset(o, 0, sizeof(*o));
	o->o_delalloc = true;
	o->o_auto_da_alloc = true;
	o->o_barrier = true;
	o->o_acl = true;
	o->o_user_xattr = true;
	o->o_commit_ms = 5000;
	o->o_max_batch_us = 15000;
	o->o_stripe = -1;
	o->o_resuid = -1;
	o->o_resgid = -1;
	o->o_sb_block = 1;
}

/* ---- The superblock ---- */

/* The superblock's block size is not known yet: whole sectors around it. */
static int read_super(struct super_block *sb, struct ext2_super_block *es)
{
	const uint64_t sector = sb->s_dev->bd_logical_block_bytes;
	const uint64_t at = sb->s_opts.o_sb_block * EXT4_SUPER_BYTES;
	const uint64_t from = at / sector * sector;
	const uint64_t len = (at + EXT4_SUPER_BYTES - from + sector - 1) / sector * sector;
	uint8_t *buf;
	int err;

	if (sb->s_opts.o_sb_block > sb->s_dev->bd_size_bytes / EXT4_SUPER_BYTES ||
	    from + len > sb->s_dev->bd_size_bytes) {
		log_err("%s: the device ends before its superblock", sb->s_name);
		return -EINVAL;
	}
	buf = malloc(len);
	if (buf == NULL)
		return -ENOMEM;
	err = blk_read(sb->s_dev, from, buf, len, REQ_META);
	if (err == 0)
		memcpy(es, buf + (at - from), sizeof(*es));
	else
		log_err("%s: cannot read the superblock: %s", sb->s_name, strerror(-err));
	free(buf);
	return err;
}

static int apply_features(struct super_block *sb, const struct ext2_super_block *es)
{
	struct ext4_feature_verdict v;

	ext4_check_features(es, &v);
	if (v.v_error != 0) {
		log_err("%s: features that are not supported: %s", sb->s_name, v.v_text);
		return v.v_error;
	}
	if (v.v_read_only) {
		log_warn("%s: mounted read-only because of: %s", sb->s_name, v.v_text);
		sb->s_read_only_forced = true;
	}
	if (le32_to_cpu(es->s_creator_os) == EXT2_OS_HURD) {
		log_warn("%s: mounted read-only: made by the Hurd", sb->s_name);
		sb->s_read_only_forced = true;
	}
	ext4_load_features(sb, es);
	return 0;
}

static void choose_errors(struct super_block *sb, const struct ext2_super_block *es)
{
	enum ext4_errors errors = sb->s_opts.o_errors;

	if (errors == ERRORS_FROM_SB) {
		switch (le16_to_cpu(es->s_errors)) {
		case EXT2_ERRORS_PANIC:
			errors = ERRORS_PANIC;
			break;
		case EXT2_ERRORS_RO:
			errors = ERRORS_RO;
			break;
		default:
			errors = ERRORS_CONTINUE;
			break;
		}
	}
	atomic_store(&sb->s_errors, errors);
}

static int open_cache(struct super_block *sb)
{
	uint64_t limit = sb->s_opts.o_bcache_bytes;
	struct bh_cache *cache;

	if (sb->s_bcache != NULL)
		return 0;
	cache = bh_cache_create(sb->s_dev, sb->s_blocksize,
				limit > 0 ? limit : DEFAULT_BCACHE_BYTES);
	if (IS_ERR(cache))
		return PTR_ERR(cache);
	sb->s_bcache = cache;
	return 0;
}

/* Forget what attach() found. */
static void detach(struct super_block *sb)
{
	ext4_zones_free(sb);
	ext4_groups_free(sb);
	bh_put(sb->s_sbh);
	sb->s_sbh = NULL;
	sb->s_es = NULL;
}

static int hold_super(struct super_block *sb)
{
	const uint64_t at = sb->s_opts.o_sb_block * EXT4_SUPER_BYTES;

	sb->s_sb_block = at / sb->s_blocksize;
	sb->s_sb_offset_bytes = (uint32_t)(at % sb->s_blocksize);
	sb->s_sbh = bh_read(sb->s_bcache, sb->s_sb_block);
	if (IS_ERR(sb->s_sbh)) {
		int err = PTR_ERR(sb->s_sbh);

		sb->s_sbh = NULL;
		return err;
	}
	sb->s_es = (struct ext2_super_block *)(void *)(sb->s_sbh->b_data + sb->s_sb_offset_bytes);
	return 0;
}

/* The superblock, checked, and empty tables for what it describes. *es: a copy. */
static int attach(struct super_block *sb, struct ext2_super_block *es)
{
	uint32_t old_blocksize = sb->s_blocksize;
	int err = read_super(sb, es);

	if (err == 0)
		err = ext4_check_super(es, sb->s_dev, sb->s_name);
	if (err == 0)
		err = apply_features(sb, es);
	if (err == 0)
		err = ext4_read_geometry(sb, es);
	if (err != 0)
		return err;
	if (old_blocksize != 0 && old_blocksize != sb->s_blocksize) {
		log_err("%s: the log changed the block size", sb->s_name);
		return -EFSCORRUPTED;
	}
	ext4_csum_init_seed(sb, es);
	choose_errors(sb, es);
	sb->s_mount_state = le16_to_cpu(es->s_state);
	sb->s_kbytes_start = le64_to_cpu(es->s_kbytes_written);
	sb->s_mount_wtime = join64(le32_to_cpu(es->s_wtime), es->s_wtime_hi);
	err = open_cache(sb);
	if (err == 0)
		err = ext4_groups_init(sb);
	if (err == 0)
		err = ext4_zones_init(sb);
	if (err == 0)
		err = hold_super(sb);
	return err;
}

/* ---- The journal at mount ---- */

/* What the kernel keeps as well: the log's superblock may be older than the last error. */
static void keep_errors(struct super_block *sb, const struct ext2_super_block *before)
{
	lock_buffer(sb->s_sbh);
	memcpy((uint8_t *)sb->s_es + EXT4_S_ERR_START, (const uint8_t *)before + EXT4_S_ERR_START,
	       EXT4_S_ERR_LEN);
	unlock_buffer(sb->s_sbh);
}

static int recover(struct super_block *sb, struct ext2_super_block *es)
{
	struct ext2_super_block before = *es;
	int err;

	log_info("%s: recovering the journal", sb->s_name);
	detach(sb);
	err = jbd2_journal_recover(sb->s_journal);
	if (err != 0) {
		log_err("%s: journal recovery failed: %s", sb->s_name, strerror(-err));
		return err;
	}
	err = attach(sb, es);
	if (err != 0)
		return err;
	keep_errors(sb, &before);
	return sb->s_nr_journal_map > 0 ? ext4_zone_set_log(sb) : 0;
}

/* An abort that only the journal could record. */
static void take_journal_errno(struct super_block *sb)
{
	int error = jbd2_journal_errno(sb->s_journal);

	if (error == 0)
		return;
	log_warn("%s: the journal was aborted in an earlier mount (%d): e2fsck is recommended",
		 sb->s_name, error);
	sb->s_mount_state |= EXT2_ERROR_FS;
	lock_buffer(sb->s_sbh);
	sb->s_es->s_state |= cpu_to_le16(EXT2_ERROR_FS);
	unlock_buffer(sb->s_sbh);
}

static int open_journal(struct super_block *sb, struct ext2_super_block *es)
{
	const bool flagged = ext4_has_incompat(sb, EXT3_FEATURE_INCOMPAT_RECOVER);
	bool must_recover;
	unsigned fc;
	int err = ext4_journal_open(sb, es, &must_recover);

	if (err == 0 && must_recover)
		err = recover(sb, es);
	if (err != 0)
		return err;
	sb->s_clean_at_mount = !must_recover && !flagged &&
			       (sb->s_mount_state & EXT2_VALID_FS) != 0 &&
			       (sb->s_mount_state & EXT2_ERROR_FS) == 0;
	if (sb->s_dev->bd_read_only || !jbd2_has_log(sb->s_journal))
		return 0;
	take_journal_errno(sb);
	(void)jbd2_fc_records(sb->s_journal, &fc);
	/* The log is empty: say so, if this mount is not going to use it. */
	if ((must_recover || flagged || jbd2_journal_errno(sb->s_journal) != 0) && fc == 0 &&
	    (sb->s_opts.o_read_only || sb->s_read_only_forced)) {
		lock_buffer(sb->s_sbh);
		sb->s_es->s_feature_incompat &=
			cpu_to_le32(~(uint32_t)EXT3_FEATURE_INCOMPAT_RECOVER);
		ext4_load_features(sb, sb->s_es);
		unlock_buffer(sb->s_sbh);
		err = ext4_super_write_home(sb);
	}
	if (err == 0 && jbd2_journal_errno(sb->s_journal) != 0)
		err = jbd2_journal_clear_err(sb->s_journal);
	return err;
}

/* ---- Mount ---- */

static int check_root(struct super_block *sb)
{
	struct ext2_inode_large *raw = malloc(sb->s_inode_size);
	int err;

	if (raw == NULL)
		return -ENOMEM;
	err = ext4_read_raw_inode(sb, EXT4_ROOT_INO, raw);
	if (err == 0 && (!S_ISDIR(le16_to_cpu(raw->i_mode)) || raw->i_links_count == 0))
		err = -EFSCORRUPTED;
	if (err != 0)
		log_err("%s: cannot use the root inode: %s", sb->s_name, strerror(-err));
	free(raw);
	return err;
}

static int check_options(const struct super_block *sb)
{
	const struct ext4_options *o = &sb->s_opts;

	if (o->o_async_commit && o->o_data == DATA_ORDERED) {
		log_err("%s: journal_async_commit does not go with data=ordered", sb->s_name);
		return -EINVAL;
	}
	return 0;
}

/* Another superblock than the first serves to read: writing it would leave the first one behind. */
static void apply_sb_option(struct super_block *sb)
{
	if (sb->s_opts.o_sb_block == 1)
		return;
	log_warn("%s: mounted read-only and without recovery from the superblock at %llu KiB",
		 sb->s_name, (unsigned long long)sb->s_opts.o_sb_block);
	sb->s_read_only_forced = true;
	sb->s_opts.o_noload = true;
}

static int go_writable(struct super_block *sb)
{
	int err;

	if (sb->s_opts.o_read_only || sb->s_read_only_forced || sb->s_dev->bd_read_only)
		return 0;
	if (sb->s_recover_skipped) {
		log_err("%s: the journal needs recovery: norecovery mounts read-only only",
			sb->s_name);
		return -EINVAL;
	}
	if ((sb->s_mount_state & EXT2_VALID_FS) == 0)
		log_warn("%s: was not cleanly unmounted: e2fsck is recommended", sb->s_name);
	if ((sb->s_mount_state & EXT2_ERROR_FS) != 0)
		log_warn("%s: has errors: e2fsck is recommended", sb->s_name);
	err = ext4_orphan_file_open(sb);
	if (err == 0)
		err = jbd2_journal_load(sb->s_journal);
	if (err != 0)
		return err;
	/* needs_recovery is on the disk before anybody can open a handle. */
	err = ext4_super_mark_mounted(sb);
	if (err != 0)
		return err;
	sb->s_journal_loaded = true;
	atomic_store(&sb->s_read_only, false);
	ext4_errors_catch_up(sb);
	return 0;
}

static struct super_block *alloc_super(struct blkdev *dev, const struct ext4_options *opts,
				       const struct ext4_upper_ops *upper)
{
	struct super_block *sb = calloc(1, sizeof(*sb));

	if (sb == NULL)
		return NULL;
	sb->s_dev = dev;
	sb->s_opts = *opts;
	if (upper != NULL)
		sb->s_upper_store = *upper;
	sb->s_upper = &sb->s_upper_store;
	atomic_store(&sb->s_read_only, true);
	mutex_init(&sb->s_sb_lock, LOCK_RANK_LEAF);
	rwsem_init(&sb->s_mount_sem, LOCK_RANK_MOUNT);
	mutex_init(&sb->s_rename_lock, LOCK_RANK_RENAME);
	mutex_init(&sb->s_orphan_lock, LOCK_RANK_ICACHE);
	TAILQ_INIT(&sb->s_orphans);
	sb->s_error_work.w_fn = ext4_error_work;
	sb->s_kbytes_session = counter_read(&dev->bd_stats.s_bytes[REQ_OP_WRITE]) >> 10;
	snprintf(sb->s_name, sizeof(sb->s_name), "%s",
		 opts->o_name != NULL ? opts->o_name : dev->bd_name);
	return sb;
}

/* Everything but the devices. */
static void free_super(struct super_block *sb)
{
	ext4_icache_exit(sb);
	ext4_orphan_file_close(sb);
	detach(sb);
	if (sb->s_bcache != NULL)
		bh_cache_destroy(sb->s_bcache);
	free(sb->s_journal_map);
	mutex_destroy(&sb->s_orphan_lock);
	mutex_destroy(&sb->s_rename_lock);
	rwsem_destroy(&sb->s_mount_sem);
	mutex_destroy(&sb->s_sb_lock);
	free(sb);
}

static void stop_workers(struct super_block *sb)
{
	struct workqueue *wq = sb->s_wq;

	/* The journal may still abort, and the error be noted, at any time. */
	mutex_lock(&sb->s_sb_lock);
	sb->s_wq = NULL;
	mutex_unlock(&sb->s_sb_lock);
	if (wq != NULL)
		workqueue_destroy(wq);
}

static int start_workers(struct super_block *sb)
{
	struct workqueue *wq;

	if (sb->s_opts.o_manual_commit)
		return 0;
	wq = workqueue_create("ext4d-evict", WORKER_THREADS);
	if (IS_ERR(wq))
		return PTR_ERR(wq);
	sb->s_wq = wq;
	return 0;
}

static void undo_mount(struct super_block *sb)
{
	stop_workers(sb);
	if (sb->s_journal != NULL)
		jbd2_journal_destroy(sb->s_journal);
	if (sb->s_journal_dev != NULL && sb->s_journal_dev != sb->s_opts.o_journal_bdev)
		blk_close(sb->s_journal_dev);
	free_super(sb);
}

int ext4_fill_super(struct blkdev *dev, const struct ext4_options *opts,
		    const struct ext4_upper_ops *upper, struct super_block **sb_out)
{
	struct super_block *sb = alloc_super(dev, opts, upper);
	struct ext2_super_block es;
	int err;

	*sb_out = NULL;
	if (sb == NULL)
		return -ENOMEM;
	if (!opts->o_barrier)
		blk_set_barrier(dev, false);
	err = check_options(sb);
	apply_sb_option(sb);
	if (err == 0)
		err = attach(sb, &es);
	if (err == 0)
		err = ext4_icache_init(sb);
	if (err == 0)
		err = open_journal(sb, &es);
	if (err == 0)
		err = check_root(sb);
	if (err == 0)
		err = start_workers(sb);
	if (err == 0)
		err = go_writable(sb);
	if (err != 0) {
		undo_mount(sb);
		return err;
	}
	*sb_out = sb;
	return 0;
}

/* ---- Unmount ---- */

/* The last transaction, and the marks of a clean file system. */
static int finish(struct super_block *sb)
{
	const bool stopped = atomic_load(&sb->s_aborted) || atomic_load(&sb->s_shutdown);
	const bool writable = sb->s_journal_loaded && !sb_rdonly(sb);
	int err = jbd2_journal_destroy(sb->s_journal);

	sb->s_journal = NULL;
	sb->s_journal_loaded = false;
	if (writable && !stopped && err == 0)
		return ext4_super_mark_clean(sb);
	if (atomic_load(&sb->s_aborted) && !atomic_load(&sb->s_shutdown))
		ext4_super_write_errors(sb);
	return err;
}

static int put_super(struct super_block *sb, bool close)
{
	struct blkdev *dev = sb->s_dev;
	struct blkdev *journal_dev = sb->s_journal_dev;
	const bool given = journal_dev == sb->s_opts.o_journal_bdev;
	unsigned busy;
	int first_err, err;

	if (atomic_load(&sb->s_frozen))
		ext4_thaw(sb);
	busy = ext4_icache_shrink_all(sb);
	ASSERT_CMP(busy, ==, 0u);
	stop_workers(sb);
	err = finish(sb);
	first_err = sb->s_first_err != 0 ? sb->s_first_err : err;
	free_super(sb);
	err = blk_flush(dev);
	if (close)
		blk_close(dev);
	if (journal_dev != NULL && (close || !given))
		blk_close(journal_dev);
	return first_err != 0 ? first_err : err;
}

int ext4_put_super(struct super_block *sb)
{
	return put_super(sb, true);
}

int ext4_put_super_keep(struct super_block *sb)
{
	return put_super(sb, false);
}
