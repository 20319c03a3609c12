/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * orphan.c - inodes that a crash would leave without a name or half truncated.
 *
 * An inode is put on the list (or into the orphan file, where the file system has one) in the
 * transaction that unlinks it or starts to cut it, and taken off in the one that finishes. On disk
 * the list is s_last_orphan and then each i_dtime, the number of the next; in memory s_orphans has
 * the same order, so the neighbour to be rewritten is known. At mount whatever is there is deleted
 * (i_nlink 0) or truncated to its size.
 *
 * Invariants: (1) the list in memory is the head part of the list on disk. (2) Without a log
 * nothing is recorded (as in the kernel), but at mount. (3) Cleanup handles each entry once: a
 * list that does not get shorter ends it.
 * Locking: s_orphan_lock for lists and i_on_orphan; buffers and the journal are used with it held.
 */
#include <inttypes.h>

#include "ext4/ext4_int.h"
#include "ext4/jbd2_glue.h"
#include "util/assert.h"
#include "util/log.h"

/* ---- The head of the list on disk ---- */

static int put_head(handle_t *handle, struct super_block *sb, uint32_t ino)
{
	int err = ext4_journal_get_write_access(handle, sb->s_sbh);

	if (err != 0)
		return err;
	lock_buffer(sb->s_sbh);
	mutex_lock(&sb->s_sb_lock);
	sb->s_es->s_last_orphan = cpu_to_le32(ino);
	ext4_superblock_csum_set(sb->s_es);
	mutex_unlock(&sb->s_sb_lock);
	unlock_buffer(sb->s_sbh);
	return ext4_handle_dirty_metadata(handle, NULL, sb->s_sbh);
}

static uint32_t get_head(struct super_block *sb)
{
	uint32_t ino;

	mutex_lock(&sb->s_sb_lock);
	ino = le32_to_cpu(sb->s_es->s_last_orphan);
	mutex_unlock(&sb->s_sb_lock);
	return ino;
}

/* ---- In memory ---- */

/* Where an entry is. */
enum orphan_place { LIST_HEAD_ENTRY, LIST_END_ENTRY, FILE_ENTRY };

/* idx: the slot of a FILE_ENTRY. */
static void link_in_memory_locked(struct inode *inode, enum orphan_place place, uint32_t idx)
{
	struct super_block *sb = inode->i_sb;

	mutex_assert_held(&sb->s_orphan_lock);
	if (place == LIST_HEAD_ENTRY)
		TAILQ_INSERT_HEAD(&sb->s_orphans, inode, i_orphan);
	else if (place == LIST_END_ENTRY)
		TAILQ_INSERT_TAIL(&sb->s_orphans, inode, i_orphan);
	inode->i_on_orphan = true;
	inode->i_orphan_idx = place == FILE_ENTRY ? idx : UINT32_MAX;
}

static void unlink_in_memory_locked(struct inode *inode)
{
	mutex_assert_held(&inode->i_sb->s_orphan_lock);
	if (inode->i_orphan_idx == UINT32_MAX)
		TAILQ_REMOVE(&inode->i_sb->s_orphans, inode, i_orphan);
	inode->i_on_orphan = false;
	inode->i_orphan_idx = UINT32_MAX;
}

/* ---- In the list ---- */

static int list_add(handle_t *handle, struct inode *inode)
{
	struct super_block *sb = inode->i_sb;
	uint32_t next;
	int err;

	mutex_lock(&sb->s_orphan_lock);
	next = get_head(sb);
	inode->i_dtime = next;
	/* First what can fail: the head must not lead to an inode that leads nowhere. */
	err = ext4_mark_inode_dirty(handle, inode);
	if (err == 0)
		err = put_head(handle, sb, inode->i_ino);
	if (err == 0)
		link_in_memory_locked(inode, LIST_HEAD_ENTRY, 0);
	else
		inode->i_dtime = 0;
	mutex_unlock(&sb->s_orphan_lock);
	return err;
}

/* What pointed to the inode now points behind it. */
static int bypass_locked(handle_t *handle, struct inode *inode)
{
	struct inode *prev = TAILQ_PREV(inode, ext4_orphan_list, i_orphan);
	int err;

	mutex_assert_held(&inode->i_sb->s_orphan_lock);
	if (prev == NULL)
		return put_head(handle, inode->i_sb, inode->i_dtime);
	prev->i_dtime = inode->i_dtime;
	err = ext4_mark_inode_dirty(handle, prev);
	if (err != 0)
		prev->i_dtime = inode->i_ino;
	return err;
}

static int list_del(handle_t *handle, struct inode *inode)
{
	struct super_block *sb = inode->i_sb;
	int err = 0;

	/* Nothing is half done if the inode can be written. */
	if (handle != NULL)
		err = ext4_prepare_inode_write(handle, inode);
	if (err != 0)
		return err;
	mutex_lock(&sb->s_orphan_lock);
	if (handle != NULL)
		err = bypass_locked(handle, inode);
	if (err == 0) {
		unlink_in_memory_locked(inode);
		inode->i_dtime = 0;
	}
	mutex_unlock(&sb->s_orphan_lock);
	if (handle == NULL || err != 0)
		return err;
	return ext4_mark_inode_dirty(handle, inode);
}

/* ---- In the file ---- */

static int file_add(handle_t *handle, struct inode *inode)
{
	struct super_block *sb = inode->i_sb;
	uint32_t idx;
	int err = ext4_orphan_file_add(handle, sb, inode->i_ino, &idx);

	if (err != 0)
		return err;
	mutex_lock(&sb->s_orphan_lock);
	link_in_memory_locked(inode, FILE_ENTRY, idx);
	mutex_unlock(&sb->s_orphan_lock);
	return 0;
}

static int file_del(handle_t *handle, struct inode *inode)
{
	struct super_block *sb = inode->i_sb;
	int err = 0;

	/* After an abort the slot stays on the disk for the next mount. */
	if (handle != NULL)
		err = ext4_orphan_file_clear(handle, sb, inode->i_orphan_idx);
	if (err != 0)
		return err;
	mutex_lock(&sb->s_orphan_lock);
	unlink_in_memory_locked(inode);
	mutex_unlock(&sb->s_orphan_lock);
	return 0;
}

/* ---- In either ---- */

static bool is_on(struct inode *inode)
{
	bool on;

	mutex_lock(&inode->i_sb->s_orphan_lock);
	on = inode->i_on_orphan;
	mutex_unlock(&inode->i_sb->s_orphan_lock);
	return on;
}

int ext4_orphan_add(handle_t *handle, struct inode *inode)
{
	struct super_block *sb = inode->i_sb;
	int err = -ENOSPC;

	if (!jbd2_has_log(sb->s_journal) && !atomic_load(&sb->s_orphan_cleanup))
		return 0;
	if ((atomic_load(&inode->i_state) & I_BAD) != 0 || is_on(inode))
		return 0;
	if (sb->s_orphan_file != NULL)
		err = file_add(handle, inode);
	return err == -ENOSPC ? list_add(handle, inode) : err;
}

int ext4_orphan_del(handle_t *handle, struct inode *inode)
{
	if (!is_on(inode))
		return 0;
	if (inode->i_orphan_idx != UINT32_MAX)
		return file_del(handle, inode);
	return list_del(handle, inode);
}

/* ---- Cleanup at mount ---- */

int ext4_inode_in_use(struct super_block *sb, uint32_t ino)
{
	const uint32_t index = (ino - 1) % sb->s_inodes_per_group;
	struct ext4_group_info *gi = ext4_get_group_info(sb, (ino - 1) / sb->s_inodes_per_group);
	struct buffer_head *bh = IS_ERR(gi) ? ERR_PTR(PTR_ERR(gi)) : ext4_read_inode_bitmap(sb, gi);
	int used;

	if (IS_ERR(bh))
		return PTR_ERR(bh);
	lock_buffer(bh);
	used = (bh->b_data[index / 8] >> (index % 8) & 1) != 0;
	unlock_buffer(bh);
	bh_put(bh);
	return used;
}

static bool can_truncate(const struct inode *inode)
{
	return S_ISREG(inode->i_mode) || S_ISDIR(inode->i_mode) || S_ISLNK(inode->i_mode);
}

/* The inode that an entry names, with a reference. */
static struct inode *named_inode(struct super_block *sb, uint32_t ino)
{
	struct inode *inode;
	int used = ext4_valid_dir_ino(sb, ino) ? ext4_inode_in_use(sb, ino) : 0;

	/* Not known for now is no reason to forget the list. */
	if (used < 0)
		return ERR_PTR(used);
	if (used == 0)
		return ERR_PTR(ext4_error(sb, ino, "bad inode number among the orphans"));
	inode = ext4_iget(sb, ino, EXT4_IGET_ORPHAN);
	if (IS_ERR(inode))
		return inode;
	if (atomic_load(&inode->i_nlink) == 0 || can_truncate(inode))
		return inode;
	ext4_error(sb, ino, "orphan that can neither be deleted nor truncated");
	iput(inode);
	return ERR_PTR(-EFSCORRUPTED);
}

/* An entry that leads nowhere: it is dropped, and what it stood for is e2fsck's work. */
static bool is_bad_entry(const struct inode *inode)
{
	return IS_ERR(inode) && (PTR_ERR(inode) == -EFSCORRUPTED || PTR_ERR(inode) == -EFSBADCRC);
}

/* False: it is known already. */
static bool make_known(struct inode *inode, enum orphan_place place, uint32_t idx)
{
	bool fresh;

	mutex_lock(&inode->i_sb->s_orphan_lock);
	fresh = !inode->i_on_orphan;
	if (fresh)
		link_in_memory_locked(inode, place, idx);
	mutex_unlock(&inode->i_sb->s_orphan_lock);
	return fresh;
}

/* The inode of an entry, known from now on, with a reference. One that is known already is an error: a list would have no end. */
static struct inode *take_entry(struct super_block *sb, uint32_t ino, enum orphan_place place,
				uint32_t idx)
{
	struct inode *inode = named_inode(sb, ino);

	if (IS_ERR(inode) || make_known(inode, place, idx))
		return inode;
	iput(inode);
	return ERR_PTR(ext4_error(sb, ino,
				  place == FILE_ENTRY ? "twice in the orphan file"
						      : "loop in the orphan list"));
}

static int take_off(struct inode *inode)
{
	handle_t *handle;

	if (!is_on(inode))
		return 0;
	handle = ext4_journal_start(inode, HT_TRUNCATE, EXT4_ORPHAN_CREDITS);
	if (IS_ERR(handle))
		return PTR_ERR(handle);
	return ext4_journal_stop(handle, ext4_orphan_del(handle, inode));
}

int ext4_orphan_process(struct inode *inode)
{
	struct super_block *sb = inode->i_sb;
	int err = 0;

	if (atomic_load(&inode->i_nlink) == 0) {
		iput(inode);
		ext4_drain_evictions(sb);
		return atomic_load(&sb->s_aborted) ? -EROFS : 0;
	}
	if (sb->s_upper->orphan_truncate != NULL)
		err = sb->s_upper->orphan_truncate(inode);
	if (err == 0)
		err = take_off(inode);
	/* Not finished: it stays on the disk for the next mount. */
	if (err != 0)
		ext4_orphan_del(NULL, inode);
	iput(inode);
	return err;
}

static int clear_list(struct super_block *sb)
{
	handle_t *handle = ext4_journal_start_sb(sb, HT_MISC, 1, 0);

	if (IS_ERR(handle))
		return PTR_ERR(handle);
	return ext4_journal_stop(handle, put_head(handle, sb, 0));
}

/* The rest of the list is lost if the link to it is bad: e2fsck's work. */
static void check_next(struct inode *inode)
{
	if (inode->i_dtime == 0 ||
	    (inode->i_dtime != inode->i_ino && ext4_valid_dir_ino(inode->i_sb, inode->i_dtime)))
		return;
	ext4_error(inode->i_sb, inode->i_ino, "bad link in the orphan list");
	inode->i_dtime = 0;
}

static int process_head(struct super_block *sb, uint32_t ino)
{
	struct inode *inode = take_entry(sb, ino, LIST_HEAD_ENTRY, 0);

	if (is_bad_entry(inode))
		return clear_list(sb);
	if (IS_ERR(inode))
		return PTR_ERR(inode);
	check_next(inode);
	return ext4_orphan_process(inode);
}

static int cleanup_list(struct super_block *sb, uint32_t *done)
{
	uint32_t ino;

	while ((ino = get_head(sb)) != 0 && *done < sb->s_inodes_count) {
		int err = process_head(sb, ino);

		if (err != 0)
			return err;
		if (get_head(sb) == ino) {
			log_err("%s: orphan %" PRIu32 " cannot be dealt with", sb->s_name, ino);
			return -EIO;
		}
		(*done)++;
	}
	return 0;
}

static int clear_slot(struct super_block *sb, uint32_t idx)
{
	handle_t *handle = ext4_journal_start_sb(sb, HT_MISC, 1, 0);

	if (IS_ERR(handle))
		return PTR_ERR(handle);
	return ext4_journal_stop(handle, ext4_orphan_file_clear(handle, sb, idx));
}

static int process_slot(struct super_block *sb, uint32_t ino, uint32_t idx, void *unused)
{
	struct inode *inode = take_entry(sb, ino, FILE_ENTRY, idx);

	(void)unused;
	if (is_bad_entry(inode))
		return clear_slot(sb, idx);
	return IS_ERR(inode) ? PTR_ERR(inode) : ext4_orphan_process(inode);
}

/* ---- Orphans known before they are processed ---- */

/* What cannot be used is left for the cleanup to complain about. */
static int know_list(struct super_block *sb, const struct ext4_orphan_taker *taker)
{
	uint32_t ino = get_head(sb);
	int err = 0;

	for (uint32_t n = 0; ino != 0 && n < sb->s_inodes_count && err == 0; n++) {
		struct inode *inode = take_entry(sb, ino, LIST_END_ENTRY, 0);

		if (IS_ERR(inode))
			return PTR_ERR(inode);
		check_next(inode);
		ino = inode->i_dtime;
		err = taker->ot_fn(taker->ot_arg, inode);
	}
	return err;
}

static int know_slot(struct super_block *sb, uint32_t ino, uint32_t idx, void *arg)
{
	const struct ext4_orphan_taker *taker = arg;
	struct inode *inode = take_entry(sb, ino, FILE_ENTRY, idx);

	if (IS_ERR(inode))
		return PTR_ERR(inode);
	return taker->ot_fn(taker->ot_arg, inode);
}

int ext4_orphans_know(struct super_block *sb, const struct ext4_orphan_taker *taker)
{
	int err = know_list(sb, taker);

	return err != 0 ? err : ext4_orphan_file_for_each(sb, know_slot, (void *)(uintptr_t)taker);
}

bool ext4_is_orphan(struct inode *inode)
{
	return is_on(inode);
}

bool ext4_has_orphans(struct super_block *sb)
{
	return get_head(sb) != 0 || !ext4_orphan_file_empty(sb);
}

int ext4_orphan_cleanup(struct super_block *sb)
{
	uint32_t done = 0;
	int err;

	if (!ext4_has_orphans(sb))
		return 0;
	if (sb_rdonly(sb)) {
		log_info("%s: orphans are left for a writable mount", sb->s_name);
		return 0;
	}
	if ((sb->s_mount_state & EXT2_ERROR_FS) != 0) {
		log_warn("%s: has errors: its orphans are left for e2fsck", sb->s_name);
		return 0;
	}
	atomic_store(&sb->s_orphan_cleanup, true);
	err = cleanup_list(sb, &done);
	if (err == 0)
		err = ext4_orphan_file_for_each(sb, process_slot, NULL);
	atomic_store(&sb->s_orphan_cleanup, false);
	/* Damage was reported and, with errors=continue, lived with; the mount stands, read-only perhaps. */
	if (atomic_load(&sb->s_aborted))
		return 0;
	if (err == 0)
		log_info("%s: orphans of the last mount dealt with", sb->s_name);
	return err;
}
