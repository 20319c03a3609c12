/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * orphan_file.c - the file of slots that replaces the orphan list when the feature is there.
 *
 * Each block holds inode numbers (0: free) and a tail with magic and checksum. All blocks are read
 * at a writable mount and kept. Adding takes the first block, starting at one that depends on the
 * inode, with a free slot: threads rarely meet. When all are full the list is used.
 *
 * Invariants: (1) ob_free slots of a block are 0 and reserved for nobody. (2) i_orphan_idx of an
 * inode in the file is the slot that holds its number.
 * Locking: lock_buffer for the slots of a block.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "ext4/ext4_int.h"
#include "ext4/jbd2_glue.h"
#include "util/assert.h"
#include "util/log.h"

struct orphan_block {
	struct buffer_head *ob_bh;
	_Atomic unsigned ob_free; /* [atomic] */
};

struct ext4_orphan_file {
	uint32_t of_seed;
	unsigned of_per_block;
	unsigned of_blocks;
	struct orphan_block of_block[];
};

/* ---- Slots ---- */

static uint32_t get_slot(const struct buffer_head *bh, unsigned slot)
{
	uint32_t le_ino;

	memcpy(&le_ino, bh->b_data + slot * sizeof(le_ino), sizeof(le_ino));
	return le32_to_cpu(le_ino);
}

static void put_slot_locked(struct super_block *sb, struct buffer_head *bh, unsigned slot,
			    uint32_t ino)
{
	const uint32_t le_ino = cpu_to_le32(ino);
	struct ext4_orphan_block_tail tail = {.ob_magic = cpu_to_le32(EXT4_ORPHAN_BLOCK_MAGIC)};

	memcpy(bh->b_data + slot * sizeof(le_ino), &le_ino, sizeof(le_ino));
	if (!ext4_has_metadata_csum(sb))
		return;
	tail.ob_checksum = cpu_to_le32(
		ext4_orphan_block_csum(sb, sb->s_orphan_file->of_seed, bh->b_blocknr, bh->b_data));
	memcpy(bh->b_data + bh->b_size - sizeof(tail), &tail, sizeof(tail));
}

static bool take_free(struct orphan_block *ob)
{
	unsigned n = atomic_load(&ob->ob_free);

	while (n > 0)
		if (atomic_compare_exchange_weak(&ob->ob_free, &n, n - 1))
			return true;
	return false;
}

/* A slot of the block was reserved by take_free(). */
static int fill_slot(handle_t *handle, struct super_block *sb, struct buffer_head *bh, uint32_t ino,
		     unsigned *slot_out)
{
	const unsigned per_block = sb->s_orphan_file->of_per_block;
	unsigned slot = 0;
	int err = ext4_journal_get_write_access(handle, bh);

	if (err != 0)
		return err;
	lock_buffer(bh);
	while (slot < per_block && get_slot(bh, slot) != 0)
		slot++;
	ASSERT_CMP(slot, <, per_block);
	put_slot_locked(sb, bh, slot, ino);
	unlock_buffer(bh);
	*slot_out = slot;
	return ext4_handle_dirty_metadata(handle, NULL, bh);
}

int ext4_orphan_file_add(handle_t *handle, struct super_block *sb, uint32_t ino, uint32_t *idx)
{
	struct ext4_orphan_file *of = sb->s_orphan_file;
	unsigned start = (ino * 2654435769u >> 16) % of->of_blocks;

	for (unsigned i = 0; i < of->of_blocks; i++) {
		unsigned nr = (start + i) % of->of_blocks;
		struct orphan_block *ob = &of->of_block[nr];
		unsigned slot;
		int err;

		if (!take_free(ob))
			continue;
		err = fill_slot(handle, sb, ob->ob_bh, ino, &slot);
		if (err != 0) {
			atomic_fetch_add(&ob->ob_free, 1);
			return err;
		}
		*idx = nr * of->of_per_block + slot;
		return 0;
	}
	return -ENOSPC;
}

int ext4_orphan_file_clear(handle_t *handle, struct super_block *sb, uint32_t idx)
{
	struct ext4_orphan_file *of = sb->s_orphan_file;
	struct orphan_block *ob = &of->of_block[idx / of->of_per_block];
	int err = ext4_journal_get_write_access(handle, ob->ob_bh);

	if (err != 0)
		return err;
	lock_buffer(ob->ob_bh);
	put_slot_locked(sb, ob->ob_bh, idx % of->of_per_block, 0);
	unlock_buffer(ob->ob_bh);
	atomic_fetch_add(&ob->ob_free, 1);
	return ext4_handle_dirty_metadata(handle, NULL, ob->ob_bh);
}

int ext4_orphan_file_for_each(struct super_block *sb,
			      int (*fn)(struct super_block *sb, uint32_t ino, uint32_t idx,
					void *arg),
			      void *arg)
{
	struct ext4_orphan_file *of = sb->s_orphan_file;
	int err = 0;

	if (of == NULL)
		return 0;
	for (unsigned i = 0; i < of->of_blocks && err == 0; i++) {
		struct orphan_block *ob = &of->of_block[i];

		if (atomic_load(&ob->ob_free) == of->of_per_block)
			continue;
		for (unsigned slot = 0; slot < of->of_per_block && err == 0; slot++) {
			uint32_t ino;

			lock_buffer(ob->ob_bh);
			ino = get_slot(ob->ob_bh, slot);
			unlock_buffer(ob->ob_bh);
			if (ino != 0)
				err = fn(sb, ino, i * of->of_per_block + slot, arg);
		}
	}
	return err;
}

bool ext4_orphan_file_empty(struct super_block *sb)
{
	struct ext4_orphan_file *of = sb->s_orphan_file;

	/* A read-only mount has not opened it: the feature says whether there may be some. */
	if (of == NULL)
		return !ext4_has_compat(sb, EXT4_FEATURE_COMPAT_ORPHAN_FILE) ||
		       !ext4_has_ro_compat(sb, EXT4_FEATURE_RO_COMPAT_ORPHAN_PRESENT);
	for (unsigned i = 0; i < of->of_blocks; i++)
		if (atomic_load(&of->of_block[i].ob_free) != of->of_per_block)
			return false;
	return true;
}

/* ---- Opening ---- */

static int check_block(struct super_block *sb, const struct ext4_orphan_file *of,
		       struct orphan_block *ob)
{
	struct buffer_head *bh = ob->ob_bh;
	struct ext4_orphan_block_tail tail;
	unsigned n = 0;
	bool csum_ok;

	lock_buffer(bh);
	memcpy(&tail, bh->b_data + bh->b_size - sizeof(tail), sizeof(tail));
	csum_ok = !ext4_has_metadata_csum(sb) ||
		  le32_to_cpu(tail.ob_checksum) ==
			  ext4_orphan_block_csum(sb, of->of_seed, bh->b_blocknr, bh->b_data);
	for (unsigned i = 0; i < of->of_per_block; i++)
		if (get_slot(bh, i) == 0)
			n++;
	unlock_buffer(bh);
	atomic_store(&ob->ob_free, n);
	if (le32_to_cpu(tail.ob_magic) != EXT4_ORPHAN_BLOCK_MAGIC) {
		log_err("%s: block %" PRIu64 " of the orphan file has a bad magic", sb->s_name,
			bh->b_blocknr);
		return -EFSCORRUPTED;
	}
	if (!csum_ok) {
		log_err("%s: block %" PRIu64 " of the orphan file has a bad checksum", sb->s_name,
			bh->b_blocknr);
		return -EFSBADCRC;
	}
	return 0;
}

static int read_blocks(struct super_block *sb, struct ext4_orphan_file *of,
		       const struct jbd2_log_extent *map, unsigned nr)
{
	for (unsigned i = 0; i < nr; i++)
		bh_readahead(sb->s_bcache, map[i].le_pblk, map[i].le_len);
	for (unsigned i = 0; i < nr; i++) {
		for (uint32_t j = 0; j < map[i].le_len; j++) {
			struct orphan_block *ob = &of->of_block[of->of_blocks];
			struct buffer_head *bh = bh_read(sb->s_bcache, map[i].le_pblk + j);
			int err;

			if (IS_ERR(bh))
				return PTR_ERR(bh);
			ob->ob_bh = bh;
			of->of_blocks++;
			err = check_block(sb, of, ob);
			if (err != 0)
				return err;
		}
	}
	return 0;
}

static int make_file(struct super_block *sb, uint32_t ino, const struct jbd2_log_extent *map,
		     unsigned nr)
{
	const uint32_t blocks = map[nr - 1].le_lblk + map[nr - 1].le_len;
	struct ext2_inode_large *raw;
	struct ext4_orphan_file *of;
	int err;

	if (blocks > EXT4_ORPHAN_MAX_BLOCKS) {
		log_err("%s: the orphan file has %u blocks, more than %u", sb->s_name, blocks,
			EXT4_ORPHAN_MAX_BLOCKS);
		return -EFSCORRUPTED;
	}
	raw = malloc(sb->s_inode_size);
	of = calloc(1, sizeof(*of) + blocks * sizeof(of->of_block[0]));
	if (raw == NULL || of == NULL) {
		free(raw);
		free(of);
		return -ENOMEM;
	}
	sb->s_orphan_file = of;
	of->of_per_block = (unsigned)((sb->s_blocksize - sizeof(struct ext4_orphan_block_tail)) /
				      sizeof(uint32_t));
	err = ext4_read_raw_inode(sb, ino, raw);
	if (err == 0) {
		of->of_seed = ext4_inode_csum_seed(sb, ino, le32_to_cpu(raw->i_generation));
		err = read_blocks(sb, of, map, nr);
	}
	free(raw);
	return err;
}

int ext4_orphan_file_open(struct super_block *sb)
{
	const uint32_t ino = le32_to_cpu(sb->s_es->s_orphan_file_inum);
	struct jbd2_log_extent *map;
	unsigned nr;
	int err;

	if (sb->s_orphan_file != NULL || !ext4_has_compat(sb, EXT4_FEATURE_COMPAT_ORPHAN_FILE))
		return 0;
	err = ext4_map_static_file(sb, ino, &map, &nr);
	if (err != 0) {
		log_err("%s: the orphan file, inode %u, is damaged", sb->s_name, ino);
		return err;
	}
	err = make_file(sb, ino, map, nr);
	free(map);
	if (err != 0)
		ext4_orphan_file_close(sb);
	return err;
}

void ext4_orphan_file_close(struct super_block *sb)
{
	struct ext4_orphan_file *of = sb->s_orphan_file;

	if (of == NULL)
		return;
	for (unsigned i = 0; i < of->of_blocks; i++)
		bh_put(of->of_block[i].ob_bh);
	free(of);
	sb->s_orphan_file = NULL;
}
