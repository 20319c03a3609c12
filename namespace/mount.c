/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * mount.c - all layers of a file system come up, and go down in reverse.
 *
 *   ext4_fill_super -> ext4_alloc_init -> wb_init -> fast commits -> orphans -> root directory
 *
 * The lower layers reach what they may not include through ext4_upper_ops, which are complete before the first inode is
 * read.
 *
 * Invariants: (1) an inode in memory is gone before the layer that hung something on it. (2) The device is the
 * caller's again after a failed mount.
 * Locking: nobody else knows the file system while it is mounted or unmounted here.
 */
#include <time.h>

#include "alloc/alloc.h"
#include "ext4/inode.h"
#include "ext4/super.h"
#include "namespace/acl.h"
#include "namespace/dir.h"
#include "namespace/ns.h"
#include "util/assert.h"
#include "util/log.h"
#include "writeback/writeback.h"

#define DROP_PAUSE_NS 1000000
#define DROP_TRIES 5000u

/* Member reclaim_space. Orphans that could not be cut are not tried here: the caller may hold the i_rwsem of another file. */
static void reclaim_space(struct super_block *sb)
{
	ext4_drain_evictions(sb);
	ext4_discard_all_preallocations(sb);
	if (sb->s_journal != NULL)
		(void)jbd2_journal_force_commit(sb->s_journal);
}

static const struct ext4_upper_ops upper_ops = {
	.alloc_inode_init = ext4_alloc_inode_init,
	.alloc_inode_destroy = ext4_alloc_inode_destroy,
	.mapping_init = wb_mapping_init,
	.mapping_destroy = wb_mapping_destroy,
	.acl_destroy = ext4_acl_cache_drop,
	.evict_inode = ns_evict_inode,
	.orphan_truncate = ext4_orphan_truncate,
	.write_ordered_data = wb_write_ordered_data,
	.file_remove_privs = ns_file_remove_privs,
	.file_has_privs = ns_file_has_privs,
	.reclaim_space = reclaim_space,
	.takes_fast_commits = true,
};

/* ext4: fs/ext4/super.c __ext4_fill_super(), "get root inode failed" */
static int check_root(struct super_block *sb)
{
	struct inode *root = ext4_iget(sb, EXT4_ROOT_INO, EXT4_IGET_SPECIAL);
	int err = 0;

	if (IS_ERR(root)) {
		log_err("%s: the root directory cannot be read (%d)", sb->s_name, PTR_ERR(root));
		return PTR_ERR(root);
	}
	if (!S_ISDIR(root->i_mode) || i_size_read(root) == 0) {
		log_err("%s: the root directory is damaged, run e2fsck", sb->s_name);
		err = -EFSCORRUPTED;
	}
	iput(root);
	return err;
}

/* Nothing of an inode is left in any layer. The flusher may hold one for a moment. */
static void drop_inodes(struct super_block *sb)
{
	const struct timespec pause = {.tv_nsec = DROP_PAUSE_NS};
	unsigned held;

	ext4_drain_evictions(sb);
	ext4_retry_orphans(sb);
	ext4_give_up_orphans(sb);
	held = ext4_icache_shrink_all(sb);
	for (unsigned tries = 0; held != 0 && tries < DROP_TRIES; tries++) {
		nanosleep(&pause, NULL);
		held = ext4_icache_shrink_all(sb);
	}
	ASSERT_CMP(held, ==, 0u);
}

/* Down again after ext4_fill_super(), as far as it got; the device stays the caller's. */
static void undo_mount(struct super_block *sb, bool has_alloc, bool has_wb)
{
	if (has_wb)
		(void)wb_sync_fs(sb, true);
	drop_inodes(sb);
	if (has_wb)
		wb_exit(sb);
	if (has_alloc)
		ext4_alloc_exit(sb);
	ext4_dir_miss_exit(sb);
	(void)ext4_put_super_keep(sb);
}

/* Fast commits are part of the log: they are replayed for a read-only mount too. */
static int replay_fast_commits(struct super_block *sb)
{
	const bool read_only = sb_rdonly(sb);
	int err = read_only ? ext4_start_writing(sb) : 0;

	if (err == 0)
		err = ns_fc_replay(sb);
	if (err == 0)
		err = ext4_orphan_cleanup(sb);
	return err == 0 && read_only ? ext4_remount_ro(sb) : err;
}

/* A read-only mount of a device that can be written deals with them too, and nothing else is written. */
static int cleanup_orphans(struct super_block *sb)
{
	int err;

	if (!sb_rdonly(sb) || sb->s_dev->bd_read_only || sb->s_read_only_forced ||
	    sb->s_recover_skipped || (sb->s_mount_state & EXT2_ERROR_FS) != 0 ||
	    !ext4_has_orphans(sb))
		return ext4_orphan_cleanup(sb);
	err = ext4_remount_rw(sb);
	return err != 0 ? err : ext4_remount_ro(sb);
}

int ext4_mount(struct blkdev *dev, const struct ext4_options *opts, struct super_block **sb_out)
{
	struct super_block *sb;
	bool has_alloc;
	bool has_wb = false;
	int err;

	*sb_out = NULL;
	err = ext4_fill_super(dev, opts, &upper_ops, &sb);
	if (err != 0)
		return err;
	err = ext4_dir_miss_init(sb);
	if (err == 0)
		err = ext4_alloc_init(sb);
	has_alloc = err == 0;
	if (err == 0) {
		err = wb_init(sb);
		has_wb = err == 0;
	}
	if (err == 0)
		err = ns_fc_pending(sb) ? replay_fast_commits(sb) : cleanup_orphans(sb);
	if (err == 0)
		err = check_root(sb);
	if (err != 0) {
		undo_mount(sb, has_alloc, has_wb);
		return err;
	}
	*sb_out = sb;
	return 0;
}

int ext4_umount(struct super_block *sb)
{
	int sync_err;
	int err;

	ext4_drain_evictions(sb);
	sync_err = wb_sync_fs(sb, true);
	drop_inodes(sb);
	wb_exit(sb);
	ext4_alloc_exit(sb);
	ext4_dir_miss_exit(sb);
	err = ext4_put_super(sb);
	return err != 0 ? err : sync_err;
}
