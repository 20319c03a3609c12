/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * dir_miss.c - names that a lookup did not find: what creates one next need not search for it again.
 *
 * open(O_CREAT) of a new name comes as LOOKUP and then CREATE, mkdir and link likewise, and rename for its target. The
 * lookup has walked the leaf and seen where the name would fit; that is kept, in a few places shared by all directories,
 * together with the version of the directory. Any change of any block of the directory gives it another version, one
 * that no directory had before.
 *
 * Invariants: (1) what is recalled is true: the version is that of the search, so the directory is the same, byte for
 * byte. (2) The block may have been read again since: its entry is checked again before it is used.
 * Locking: i_rwsem of the directory; dm_lock, a leaf, for a place.
 */
#include <stdlib.h>
#include <string.h>

#include "namespace/dir.h"
#include "namespace/ns.h"

#define PLACES 64u

struct dir_miss {
	struct mutex dm_lock;
	/* [dm_lock] */
	uint64_t dm_version; /* of the directory; 0: no name is kept */
	ext4_lblk_t dm_lblk; /* where the name fits */
	unsigned dm_offset;
	size_t dm_len;
	char dm_name[NS_NAME_MAX];
};

struct ext4_dir_misses {
	struct dir_miss dm_place[PLACES];
};

int ext4_dir_miss_init(struct super_block *sb)
{
	struct ext4_dir_misses *misses = calloc(1, sizeof(*misses));

	if (misses == NULL)
		return -ENOMEM;
	for (unsigned i = 0; i < PLACES; i++)
		mutex_init(&misses->dm_place[i].dm_lock, LOCK_RANK_LEAF);
	sb->s_dir_misses = misses;
	return 0;
}

void ext4_dir_miss_exit(struct super_block *sb)
{
	struct ext4_dir_misses *misses = sb->s_dir_misses;

	if (misses == NULL)
		return;
	for (unsigned i = 0; i < PLACES; i++)
		mutex_destroy(&misses->dm_place[i].dm_lock);
	free(misses);
	sb->s_dir_misses = NULL;
}

static struct dir_miss *place_of(const struct inode *dir)
{
	return &dir->i_sb->s_dir_misses->dm_place[dir->i_ino % PLACES];
}

void ext4_dir_note_miss(struct inode *dir, const struct dir_slot *slot)
{
	struct dir_miss *m = place_of(dir);

	if (slot->ds_fit == NULL || slot->ds_bad_index)
		return;
	mutex_lock(&m->dm_lock);
	m->dm_version = dir->i_dir_version;
	m->dm_lblk = slot->ds_fit_lblk;
	m->dm_offset = slot->ds_fit_offset;
	m->dm_len = slot->ds_scan.sc_len;
	memcpy(m->dm_name, slot->ds_scan.sc_name, m->dm_len);
	mutex_unlock(&m->dm_lock);
}

static bool entry_has_room(const struct inode *dir, uint8_t *data, unsigned offset, size_t len)
{
	const struct super_block *sb = dir->i_sb;

	return ext4_dirent_bad(sb, data, offset, ext4_dir_leaf_bytes(sb)) == NULL &&
	       ext4_dirent_room(ext4_dirent_at(data, offset)) >= ext4_dir_rec_len(len);
}

bool ext4_dir_recall_miss(struct inode *dir, struct dir_slot *slot)
{
	const struct dir_scan *scan = &slot->ds_scan;
	struct dir_miss *m = place_of(dir);
	struct buffer_head *bh;
	bool same;

	mutex_lock(&m->dm_lock);
	same = m->dm_version == dir->i_dir_version && m->dm_len == scan->sc_len &&
	       memcmp(m->dm_name, scan->sc_name, scan->sc_len) == 0;
	slot->ds_fit_lblk = m->dm_lblk;
	slot->ds_fit_offset = m->dm_offset;
	mutex_unlock(&m->dm_lock);
	if (!same || ext4_dir_bread(dir, slot->ds_fit_lblk, DIR_BLOCK_LEAF, &bh) != 0)
		return false;
	if (!entry_has_room(dir, bh->b_data, slot->ds_fit_offset, scan->sc_len)) {
		bh_put(bh);
		return false;
	}
	slot->ds_fit = bh;
	return true;
}
