/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * mount_journal.c - finding the log: a file of the file system, another device, or none.
 *
 * The journal layer gets block runs and devices and does the rest. Without has_journal, and with
 * noload, it gets no log: transactions then only group writes.
 *
 * Invariants: (1) s_journal is set after success, whatever the kind. (2) An external device is
 * used only if its UUID is the one the superblock names.
 * Locking: mount only, one thread.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "ext4/ext4_int.h"
#include "util/log.h"

static int write_ordered_data(void *ji_owner, uint64_t start_bytes, uint64_t end_bytes)
{
	struct inode *inode = ji_owner;
	struct super_block *sb = inode->i_sb;
	int err;

	if (sb->s_upper->write_ordered_data == NULL)
		return 0;
	err = sb->s_upper->write_ordered_data(inode, start_bytes, end_bytes);
	/* Here and not only when the request ends: the commit under way must not get its record. */
	if (err != 0 && sb->s_opts.o_data_err_abort)
		jbd2_journal_abort(sb->s_journal, err);
	return err;
}

static const struct jbd2_journal_ops journal_ops = {
	.write_ordered_data = write_ordered_data,
	.aborted = ext4_journal_aborted,
};

static void fill_params(struct super_block *sb, const struct ext2_super_block *es,
			struct jbd2_params *p)
{
	const struct ext4_options *o = &sb->s_opts;

	memset(p, 0, sizeof(*p));
	p->jp_cache = sb->s_bcache;
	p->jp_fs_dev = sb->s_dev;
	p->jp_block_bytes = sb->s_blocksize;
	memcpy(p->jp_fs_uuid, es->s_uuid, sizeof(p->jp_fs_uuid));
	p->jp_ops = &journal_ops;
	p->jp_fs = sb;
	p->jp_commit_interval_ms = o->o_commit_ms;
	p->jp_min_batch_us = o->o_min_batch_us;
	p->jp_max_batch_us = o->o_max_batch_us;
	p->jp_barrier = o->o_barrier;
	p->jp_async_commit = o->o_async_commit;
	p->jp_want_csum = ext4_has_metadata_csum(sb);
	p->jp_want_64bit = ext4_has_incompat(sb, EXT4_FEATURE_INCOMPAT_64BIT);
	p->jp_read_only = sb->s_dev->bd_read_only;
	p->jp_manual_commit = o->o_manual_commit;
	p->jp_takes_fc = sb->s_upper->takes_fast_commits && !sb->s_read_only_forced;
}

static int start_journal(struct super_block *sb, const struct jbd2_params *p)
{
	journal_t *j = jbd2_journal_init(p);

	if (IS_ERR(j)) {
		log_err("%s: cannot use the journal: %s", sb->s_name, strerror(-PTR_ERR(j)));
		return PTR_ERR(j);
	}
	sb->s_journal = j;
	return 0;
}

/* ---- Internal ---- */

static int open_internal(struct super_block *sb, uint32_t ino, struct jbd2_params *p)
{
	int err = ext4_map_static_file(sb, ino, &sb->s_journal_map, &sb->s_nr_journal_map);

	if (err != 0) {
		log_err("%s: journal inode %u is damaged", sb->s_name, ino);
		return err;
	}
	err = ext4_zone_set_log(sb);
	if (err != 0)
		return err;
	p->jp_log_dev = sb->s_dev;
	p->jp_extents = sb->s_journal_map;
	p->jp_nr_extents = sb->s_nr_journal_map;
	return start_journal(sb, p);
}

/* ---- External ---- */

static struct blkdev *open_device(const struct super_block *sb, const struct ext2_super_block *es)
{
	const uint32_t dev = le32_to_cpu(es->s_journal_dev);
	char path[64];
	struct blk_open_args args = {
		.ba_path = sb->s_opts.o_journal_path,
		.ba_read_only = sb->s_dev->bd_read_only,
		.ba_direct = true,
	};

	if (sb->s_opts.o_journal_bdev != NULL)
		return sb->s_opts.o_journal_bdev;
	if (args.ba_path == NULL) {
		/* The number is in the kernel's encoding: 12 bits of major between 8 and 12 of minor. */
		snprintf(path, sizeof(path), "/dev/block/%u:%u", dev >> 8 & 0xfff,
			 (dev & 0xff) | (dev >> 12 & 0xfff00));
		args.ba_path = path;
	}
	return blk_open(&args);
}

static int read_super_of(struct blkdev *dev, struct ext2_super_block *es)
{
	const size_t bytes = EXT4_SUPER_OFFSET + EXT4_SUPER_BYTES < dev->bd_logical_block_bytes
				     ? dev->bd_logical_block_bytes
				     : EXT4_SUPER_OFFSET + EXT4_SUPER_BYTES;
	uint8_t *buf = malloc(bytes);
	int err;

	if (buf == NULL)
		return -ENOMEM;
	err = blk_read(dev, 0, buf, bytes, REQ_META);
	if (err == 0)
		memcpy(es, buf + EXT4_SUPER_OFFSET, sizeof(*es));
	free(buf);
	return err;
}

/* *blocks: length of the journal device. */
static int check_device(const struct super_block *sb, const struct ext2_super_block *es,
			uint32_t *blocks)
{
	struct blkdev *dev = sb->s_journal_dev;
	struct ext2_super_block jes;
	uint64_t count;
	int err = read_super_of(dev, &jes);

	if (err != 0)
		return err;
	if (le16_to_cpu(jes.s_magic) != EXT2_SUPER_MAGIC ||
	    (le32_to_cpu(jes.s_feature_incompat) & EXT3_FEATURE_INCOMPAT_JOURNAL_DEV) == 0) {
		log_err("%s: the external journal is no journal device", sb->s_name);
		return -EINVAL;
	}
	if (!ext4_superblock_csum_ok(&jes))
		return -EFSBADCRC;
	if (memcmp(jes.s_uuid, es->s_journal_uuid, sizeof(jes.s_uuid)) != 0) {
		log_err("%s: the external journal has another UUID than the one named", sb->s_name);
		return -EINVAL;
	}
	count = ext4_es_blocks_count(&jes);
	if (le32_to_cpu(jes.s_log_block_size) != sb->s_blocksize_bits - 10 || count == 0 ||
	    count > UINT32_MAX || count > dev->bd_size_bytes >> sb->s_blocksize_bits) {
		log_err("%s: the external journal has other block sizes or is too short",
			sb->s_name);
		return -EFSCORRUPTED;
	}
	*blocks = (uint32_t)count;
	return 0;
}

static int open_external(struct super_block *sb, const struct ext2_super_block *es,
			 struct jbd2_params *p)
{
	/* Log blocks of such a device are its own blocks. */
	struct jbd2_log_extent whole = {.le_lblk = 0, .le_pblk = 0};
	struct blkdev *dev = open_device(sb, es);
	int err;

	if (IS_ERR(dev)) {
		log_err("%s: cannot open the external journal", sb->s_name);
		return PTR_ERR(dev);
	}
	sb->s_journal_dev = dev;
	err = check_device(sb, es, &whole.le_len);
	if (err != 0)
		return err;
	p->jp_log_dev = dev;
	p->jp_extents = &whole;
	p->jp_nr_extents = 1;
	err = start_journal(sb, p);
	p->jp_extents = NULL;
	return err;
}

static bool uses_log(const struct super_block *sb)
{
	return ext4_has_compat(sb, EXT3_FEATURE_COMPAT_HAS_JOURNAL) && !sb->s_opts.o_noload;
}

int ext4_journal_open(struct super_block *sb, const struct ext2_super_block *es, bool *recover)
{
	const uint32_t ino = le32_to_cpu(es->s_journal_inum);
	const bool flagged = ext4_has_incompat(sb, EXT3_FEATURE_INCOMPAT_RECOVER);
	struct jbd2_params p;
	int err;

	*recover = false;
	if (sb->s_opts.o_data_err_abort && !uses_log(sb)) {
		log_err("%s: data_err=abort needs a journal", sb->s_name);
		return -EINVAL;
	}
	fill_params(sb, es, &p);
	if (!ext4_has_compat(sb, EXT3_FEATURE_COMPAT_HAS_JOURNAL)) {
		if (flagged)
			log_warn("%s: needs_recovery is set, but there is no journal", sb->s_name);
		return start_journal(sb, &p);
	}
	if (sb->s_opts.o_noload) {
		sb->s_recover_skipped = flagged;
		return start_journal(sb, &p);
	}
	if ((ino != 0) == (es->s_journal_dev != 0 || sb->s_opts.o_journal_bdev != NULL ||
			   sb->s_opts.o_journal_path != NULL)) {
		log_err("%s: the journal must be either an inode (%u) or a device (0x%x)",
			sb->s_name, ino, (unsigned)le32_to_cpu(es->s_journal_dev));
		return ino != 0 ? -EINVAL : -EFSCORRUPTED;
	}
	err = ino != 0 ? open_internal(sb, ino, &p) : open_external(sb, es, &p);
	if (err != 0)
		return err;
	*recover = jbd2_journal_needs_recovery(sb->s_journal);
	if (*recover && !flagged)
		log_warn("%s: the log holds transactions though needs_recovery is not set",
			 sb->s_name);
	if ((*recover || flagged) && sb->s_dev->bd_read_only) {
		log_err("%s: the journal needs recovery, and the device is read-only (norecovery "
			"mounts it as it is)",
			sb->s_name);
		return -EROFS;
	}
	return 0;
}
