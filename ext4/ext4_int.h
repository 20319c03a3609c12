/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef EXT4_EXT4_INT_H
#define EXT4_EXT4_INT_H
/* What the files of ext4/ share among themselves. */

#include "ext4/ext4.h"
#include "ext4/group.h"
#include "ext4/inode.h"
#include "ext4/super.h"

#define EXT4_SUPER_BYTES 1024u
#define EXT4_SUPER_OFFSET 1024u /* of the first superblock on the device */
#define EXT4_GOOD_OLD_SIZE 128u /* inode without the extra part */
#define EXT4_EXTRA_FULL ((uint16_t)(sizeof(struct ext2_inode_large) - EXT4_GOOD_OLD_SIZE))
#define EXT4_N_BLOCKS_BYTES 60u
#define EXT4_MAX_EXTENT_DEPTH 5u
#define EXT4_EXTENT_SIZE 12u
#define EXT4_MIN_DESC_BYTES 32u
#define EXT4_MAX_DESC_BYTES 64u /* what is known of a descriptor; longer ones keep their rest */
#define EXT4_ORPHAN_MAX_BLOCKS 512u

/* s_*_error_errcode */
#define EXT4_ERR_UNKNOWN 1
#define EXT4_ERR_EIO 2
#define EXT4_ERR_ENOMEM 3
#define EXT4_ERR_EFSBADCRC 4
#define EXT4_ERR_EFSCORRUPTED 5
#define EXT4_ERR_ENOSPC 6
#define EXT4_ERR_EROFS 8
#define EXT4_ERR_EFBIG 9

_Static_assert(sizeof(struct ext2_super_block) == EXT4_SUPER_BYTES, "superblock size");
_Static_assert(sizeof(struct ext2_inode) == EXT4_GOOD_OLD_SIZE, "inode size");
_Static_assert(sizeof(struct ext2_inode_large) == 160, "large inode size");
_Static_assert(sizeof(struct ext4_group_desc) == EXT4_MAX_DESC_BYTES, "descriptor size");

/* A 48- or 64-bit number that the disk keeps in two fields. */
static inline uint64_t join64(uint32_t lo, uint32_t hi)
{
	return (uint64_t)hi << 32 | lo;
}

/* ---- csum.c ---- */

void ext4_csum_init_seed(struct super_block *sb, const struct ext2_super_block *es);
uint32_t ext4_superblock_csum(const struct ext2_super_block *es);
/* True without metadata_csum. */
bool ext4_superblock_csum_ok(const struct ext2_super_block *es);
void ext4_superblock_csum_set(struct ext2_super_block *es);
/* desc: s_desc_size bytes as on disk. */
uint16_t ext4_group_desc_csum(const struct super_block *sb, ext4_group_t group,
			      const uint8_t *desc);
bool ext4_group_desc_csum_ok(const struct super_block *sb, ext4_group_t group, const uint8_t *desc);
void ext4_group_desc_csum_set(const struct super_block *sb, ext4_group_t group, uint8_t *desc);
/* Bitmap checksums live in the descriptor. */
bool ext4_block_bitmap_csum_ok(const struct super_block *sb, const struct ext4_group_desc *gd,
			       const uint8_t *bitmap);
bool ext4_inode_bitmap_csum_ok(const struct super_block *sb, const struct ext4_group_desc *gd,
			       const uint8_t *bitmap);
void ext4_block_bitmap_csum_set(const struct super_block *sb, struct ext4_group_desc *gd,
				const uint8_t *bitmap);
void ext4_inode_bitmap_csum_set(const struct super_block *sb, struct ext4_group_desc *gd,
				const uint8_t *bitmap);
uint32_t ext4_inode_csum_seed(const struct super_block *sb, uint32_t ino, uint32_t generation);
bool ext4_raw_inode_csum_ok(const struct super_block *sb, uint32_t seed,
			    const struct ext2_inode_large *raw);
void ext4_raw_inode_csum_put(const struct super_block *sb, uint32_t seed,
			     struct ext2_inode_large *raw);
/* Extent block of an inode known only by its seed (journal and orphan file at mount). */
bool ext4_extent_csum_ok_seed(const struct super_block *sb, uint32_t seed, const uint8_t *data);
uint32_t ext4_orphan_block_csum(const struct super_block *sb, uint32_t seed, uint64_t blocknr,
				const uint8_t *data);

/* ---- geometry.c ---- */

/* Magic, revision, sizes: what must hold before anything else of es is believed. Logs the reason. */
int ext4_check_super(const struct ext2_super_block *es, const struct blkdev *dev, const char *name);
/* Fill the geometry of sb from es. Logs the reason. 0, -EFSCORRUPTED, -EOPNOTSUPP. */
int ext4_read_geometry(struct super_block *sb, const struct ext2_super_block *es);
uint64_t ext4_es_blocks_count(const struct ext2_super_block *es);

/* ---- group.c ---- */

int ext4_groups_init(struct super_block *sb);
/* Forget all groups (their buffers are released). Nobody uses them. */
void ext4_groups_free(struct super_block *sb);
/* Block number of descriptor block nr. */
ext4_fsblk_t ext4_descriptor_loc(const struct super_block *sb, uint32_t nr);
/* True if block is a superblock copy, a descriptor block or kept for the descriptors' growth. */
bool ext4_block_is_base_meta(const struct super_block *sb, ext4_fsblk_t block);
/* A copy of the descriptor, EXT4_MAX_DESC_BYTES, fields past s_desc_size zero. */
void ext4_group_desc_copy(struct super_block *sb, struct ext4_group_info *gi,
			  struct ext4_group_desc *gd);
/* Mark the group's bitmap unusable. */
void ext4_group_mark_bad(struct ext4_group_info *gi, uint32_t bg_state_bits);

struct ext4_group_layout {
	ext4_fsblk_t gl_block_bitmap;
	ext4_fsblk_t gl_inode_bitmap;
	ext4_fsblk_t gl_inode_table;
	uint32_t gl_free_blocks;
	uint32_t gl_free_inodes;
	uint32_t gl_used_dirs;
	uint32_t gl_itable_unused;
	uint16_t gl_flags;
};
void ext4_group_layout(const struct super_block *sb, const struct ext4_group_desc *gd,
		       struct ext4_group_layout *gl);

/* ---- zone.c ---- */

int ext4_zones_init(struct super_block *sb);
void ext4_zones_free(struct super_block *sb);
/* s_journal_map is known: no file may have these blocks. */
int ext4_zone_set_log(struct super_block *sb);
/*
 * Call fn for each run of metadata blocks in the group (offsets in the group) until it says false, which gives -EFSCORRUPTED. Reads descriptors.
 */
int ext4_zone_for_each(struct super_block *sb, ext4_group_t group,
		       bool (*fn)(void *arg, uint32_t first, uint32_t len), void *arg);

/* ---- inode_raw.c ---- */

/* Where inode ino lies. -EFSCORRUPTED if the group is damaged. */
int ext4_inode_table_pos(struct super_block *sb, uint32_t ino, ext4_fsblk_t *block,
			 unsigned *offset);
/* A copy of the raw inode (s_inode_size bytes into buf), checksum verified. For mount time, before inodes can be cached. */
int ext4_read_raw_inode(struct super_block *sb, uint32_t ino, struct ext2_inode_large *buf);
/* Fill a new inode from its raw form and check everything. 0, -EFSCORRUPTED, -EFSBADCRC, -ESTALE. */
int ext4_inode_decode(struct inode *inode, const struct ext2_inode_large *raw, unsigned flags);
uint64_t ext4_raw_size(const struct super_block *sb, const struct ext2_inode_large *raw);
bool ext4_is_special_ino(const struct super_block *sb, uint32_t ino);

/* ---- extent_reader.c ---- */

/* The blocks of a file that lies still while mounted (journal, orphan file): ascending, no holes. Frees nothing on error. */
int ext4_map_static_file(struct super_block *sb, uint32_t ino, struct jbd2_log_extent **map_out,
			 unsigned *nr_out);

/* ---- mount_journal.c ---- */

/* Find the log and make s_journal. *recover: it must be replayed. */
int ext4_journal_open(struct super_block *sb, const struct ext2_super_block *es, bool *recover);

/* ---- super.c, super_write.c ---- */

/* The feature words of es into sb. */
void ext4_load_features(struct super_block *sb, const struct ext2_super_block *es);
/* Change s_es through a handle: fn runs under the buffer's lock and s_sb_lock; the checksum follows. 1 credit. */
int ext4_super_change(handle_t *handle, struct super_block *sb,
		      void (*fn)(struct super_block *sb, struct ext2_super_block *es, void *arg),
		      void *arg);
/* Write the superblock buffer home and flush. No transaction holds it. */
int ext4_super_write_home(struct super_block *sb);
/* Patch the superblock on the device with errors and state only: after an abort. */
int ext4_super_write_errors(struct super_block *sb);
/* Mark mounted / clean. Nothing is in the log. */
int ext4_super_mark_mounted(struct super_block *sb);
int ext4_super_mark_clean(struct super_block *sb);
/* The deferred part of ext4_error_at(). */
void ext4_error_work(struct work_item *w);
/* Answer the errors met before the file system was writable. */
void ext4_errors_catch_up(struct super_block *sb);
/* Journal's abort callback. */
void ext4_journal_aborted(void *fs, int error);
/* Error fields of the stash into es. s_sb_lock held. */
void ext4_error_flush_locked(struct super_block *sb, struct ext2_super_block *es);
/* The error fields of what was written to the device are those in memory, too. s_sb_lock held. */
void ext4_error_copy_locked(struct super_block *sb, const struct ext2_super_block *from);

/* ---- icache.c ---- */

int ext4_icache_init(struct super_block *sb);
void ext4_icache_exit(struct super_block *sb);
/* Set i_mapping of a regular file, once i_mode is known. */
int ext4_inode_init_mapping(struct inode *inode);

/* ---- orphan_file.c ---- */

int ext4_orphan_file_open(struct super_block *sb);
void ext4_orphan_file_close(struct super_block *sb);
bool ext4_orphan_file_empty(struct super_block *sb);
/* 0 and the slot's number in *idx, -ENOSPC (full: use the list), or an error. */
int ext4_orphan_file_add(handle_t *handle, struct super_block *sb, uint32_t ino, uint32_t *idx);
/* Call fn on each entry until it returns non-zero. */
int ext4_orphan_file_for_each(struct super_block *sb,
			      int (*fn)(struct super_block *sb, uint32_t ino, uint32_t idx,
					void *arg),
			      void *arg);
/* Empty a slot. */
int ext4_orphan_file_clear(handle_t *handle, struct super_block *sb, uint32_t idx);

#endif
