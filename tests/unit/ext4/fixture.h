/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef TESTS_UNIT_EXT4_FIXTURE_H
#define TESTS_UNIT_EXT4_FIXTURE_H
/*
 * A file system in memory for the tests of ext4/: made by mke2fs, mounted over a view of the same
 * bytes, so that they can be looked at and checked after the unmount has closed its device. Files
 * have no blocks here (that is alloc/'s): evict_inode frees just the inode number.
 */

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "ext4/ext4_int.h"
#include "ext4/jbd2_glue.h"
#include "tests/lib/suite.h"
#include "tests/lib/testlib.h"
#include "util/log.h"

#define MIB (1024ull * 1024)

struct test_fs {
	struct blkdev *t_disk; /* what stays */
	struct super_block *t_sb;
	struct ext4_options t_opts;
	struct ext4_upper_ops t_upper;
};

static unsigned fx_evictions;	/* evict_inode calls */
static unsigned fx_truncations; /* orphan_truncate calls */
static char fx_log[8192];	/* messages since fx_log_reset() */

__attribute__((unused)) static void fx_sink(enum log_level level, const char *line, void *arg)
{
	size_t used = strlen(fx_log);

	(void)level;
	(void)arg;
	if (used + 1 < sizeof(fx_log))
		snprintf(fx_log + used, sizeof(fx_log) - used, "%s\n", line);
}

/* Collect messages from now on instead of printing them. */
__attribute__((unused)) static void fx_log_reset(void)
{
	fx_log[0] = '\0';
	log_set_sink(fx_sink, NULL);
}

__attribute__((unused)) static int fx_free_number(handle_t *handle, struct inode *inode)
{
	struct super_block *sb = inode->i_sb;
	uint32_t index = (inode->i_ino - 1) % sb->s_inodes_per_group;
	struct ext4_group_info *gi =
		ext4_get_group_info(sb, (inode->i_ino - 1) / sb->s_inodes_per_group);
	struct buffer_head *bh = ext4_read_inode_bitmap(sb, gi);
	struct ext4_group_change gc = {.gc_free_inodes = 1, .gc_itable_unused = -1};

	ck_assert(!IS_ERR(bh));
	ck_assert_int_eq(ext4_journal_get_write_access(handle, bh), 0);
	ck_assert_int_eq(ext4_journal_get_write_access(handle, gi->bg_desc_bh), 0);
	lock_buffer(bh);
	bh->b_data[index / 8] &= (uint8_t) ~(1u << (index % 8));
	gc.gc_inode_bitmap = bh->b_data;
	gc.gc_used_dirs = S_ISDIR(inode->i_mode) ? -1 : 0;
	mutex_lock(&gi->bg_lock);
	ext4_group_change(sb, gi, &gc);
	mutex_unlock(&gi->bg_lock);
	unlock_buffer(bh);
	ck_assert_int_eq(ext4_handle_dirty_metadata(handle, NULL, bh), 0);
	ck_assert_int_eq(ext4_handle_dirty_metadata(handle, NULL, gi->bg_desc_bh), 0);
	bh_put(bh);
	return 0;
}

__attribute__((unused)) static void fx_evict(struct inode *inode)
{
	handle_t *handle;

	fx_evictions++;
	handle = ext4_journal_start(inode, HT_TRUNCATE, 8);
	if (IS_ERR(handle))
		return;
	ck_assert_int_eq(ext4_orphan_del(handle, inode), 0);
	inode->i_dtime = 1234567890;
	ck_assert_int_eq(ext4_mark_inode_dirty(handle, inode), 0);
	fx_free_number(handle, inode);
	ext4_inode_unhash(inode);
	ck_assert_int_eq(ext4_journal_stop(handle, 0), 0);
}

__attribute__((unused)) static int fx_truncate(struct inode *inode)
{
	(void)inode;
	fx_truncations++;
	return 0;
}

/* debugfs commands, or NULL. */
__attribute__((unused)) static void fx_make(struct test_fs *t, const char *mkfs_args,
					    uint64_t bytes, const char *commands)
{
	memset(t, 0, sizeof(*t));
	fx_evictions = 0;
	fx_truncations = 0;
	t->t_disk = testlib_mkfs_debugfs(mkfs_args, bytes, commands);
	ext4_options_init(&t->t_opts);
	t->t_opts.o_name = "test";
	t->t_upper.evict_inode = fx_evict;
	t->t_upper.orphan_truncate = fx_truncate;
}

/* The result of ext4_fill_super(); t_sb is NULL on failure. */
__attribute__((unused)) static int fx_mount(struct test_fs *t)
{
	struct blkdev *view = mem_open(t->t_disk->bd_size_bytes, t->t_disk->bd_logical_block_bytes,
				       mem_data(t->t_disk));
	int err = ext4_fill_super(view, &t->t_opts, &t->t_upper, &t->t_sb);

	if (err != 0) {
		ck_assert_ptr_null(t->t_sb);
		blk_close(view);
	}
	return err;
}

__attribute__((unused)) static int fx_umount(struct test_fs *t)
{
	int err = ext4_put_super(t->t_sb);

	t->t_sb = NULL;
	return err;
}

__attribute__((unused)) static void fx_free(struct test_fs *t)
{
	if (t->t_sb != NULL)
		fx_umount(t);
	blk_close(t->t_disk);
}

/* The first superblock on the disk. */
__attribute__((unused)) static struct ext2_super_block *fx_super(struct test_fs *t)
{
	return (struct ext2_super_block *)(void *)((uint8_t *)mem_data(t->t_disk) + 1024);
}

/* After a field of the superblock was changed by hand. */
__attribute__((unused)) static void fx_super_changed(struct test_fs *t)
{
	ext4_superblock_csum_set(fx_super(t));
}

/* "name: value" of debugfs's output contains the text. */
__attribute__((unused)) static bool fx_debugfs_says(struct test_fs *t, const char *command,
						    const char *text)
{
	char *out = testlib_debugfs(t->t_disk, command);
	bool found = strstr(out, text) != NULL;

	if (!found)
		fprintf(stderr, "debugfs %s: no \"%s\" in:\n%s\n", command, text, out);
	free(out);
	return found;
}

#endif
