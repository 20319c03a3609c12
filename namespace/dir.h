/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef NAMESPACE_DIR_H
#define NAMESPACE_DIR_H
/*
 * Directories inside this layer: entries of a block (dirent.c), search and change of whole directories (dir_linear.c),
 * the hash tree (htree.c, htree_insert.c). Callers hold i_rwsem of the directory: for read to search, for write to change.
 */

#include "alloc/map.h"
#include "ext4/ext4.h"
#include "ext4/group.h"
#include "ext4/inode.h"
#include "ext4/jbd2_glue.h"
#include "ext4/super.h"
#include "util/assert.h"

#define DIR_NONE UINT32_MAX
#define DIR_HEADER_BYTES 8u /* of an entry before its name */
#define DIR_MIN_REC_LEN 12u
#define DIR_TAIL_BYTES 12u

/* What an entry with a name of this length needs. */
static inline unsigned ext4_dir_rec_len(size_t name_len)
{
	return ((unsigned)name_len + DIR_HEADER_BYTES + 3u) & ~3u;
}
/* The room for another entry behind the name of one that was checked; an unused one is all room. */
static inline unsigned ext4_dirent_room(const struct ext2_dir_entry_2 *de)
{
	unsigned used = de->inode == 0 ? 0 : ext4_dir_rec_len(de->name_len);

	return le16_to_cpu(de->rec_len) - used;
}

/* ---- Entries of one block (dirent.c) ---- */

/* Where the entries of a leaf block end: before the checksum tail, if there is one. */
unsigned ext4_dir_leaf_bytes(const struct super_block *sb);
static inline struct ext2_dir_entry_2 *ext4_dirent_at(uint8_t *data, unsigned offset)
{
	return (struct ext2_dir_entry_2 *)(void *)(data + offset);
}
/* NULL, or what is wrong with the entry at offset of a block whose entries end at `limit`; after NULL it can be used and rec_len leads on. */
const char *ext4_dirent_bad(const struct super_block *sb, uint8_t *data, unsigned offset,
			    unsigned limit);
/* Report it: -EFSCORRUPTED. */
int ext4_dirent_error(struct inode *dir, ext4_lblk_t lblk, unsigned offset, const char *why);
uint8_t ext4_dirent_type(const struct super_block *sb, uint16_t mode);
/* DT_* of an entry. */
uint8_t ext4_dirent_dt(const struct super_block *sb, uint8_t file_type);

/* A search of one block, or of a directory. */
struct dir_scan {
	const char *sc_name;
	size_t sc_len;
	bool sc_want_room;  /* also find room for an entry of this name */
	unsigned sc_offset; /* out: the entry */
	unsigned sc_prev;   /* out: the entry before it in the block, or DIR_NONE */
	unsigned sc_fit;    /* out: an entry with room behind it, or DIR_NONE */
};
/* Search a leaf block. 1 found, 0 not, -EFSCORRUPTED. */
int ext4_dirent_scan(struct inode *dir, struct buffer_head *bh, ext4_lblk_t lblk,
		     struct dir_scan *scan);
/* Put a new entry into the room at `offset` (sc_fit). lock_buffer held, access granted. */
void ext4_dirent_put(uint8_t *data, unsigned offset, const struct dir_scan *scan, uint32_t ino,
		     uint8_t type);
/* Close a leaf block: the tail's fixed fields. */
void ext4_dir_init_tail(const struct super_block *sb, uint8_t *data);
enum dir_block_kind {
	DIR_BLOCK_LEAF,	 /* its checksum is verified */
	DIR_BLOCK_INDEX, /* the caller verifies it */
	DIR_BLOCK_ANY	 /* verified if it turns out to be a leaf */
};
/* Read block lblk. Holes are damage. 0 or negative errno. */
int ext4_dir_bread(struct inode *dir, ext4_lblk_t lblk, enum dir_block_kind kind,
		   struct buffer_head **out);
#define DIR_READAHEAD_BLOCKS 16u
/* All blocks are going to be read: start with those behind lblk, if it is not cached. */
void ext4_dir_readahead(struct inode *dir, ext4_lblk_t lblk, ext4_lblk_t blocks);
/* In an indexed directory: the block holds no entries but a part of the index. */
bool ext4_dir_is_index_block(const struct inode *dir, ext4_lblk_t lblk, uint8_t *data);
/* Number of blocks; -EFSCORRUPTED if it cannot be. */
int ext4_dir_blocks(struct inode *dir, ext4_lblk_t *blocks);
/* Add an empty block at the end, zeroed, with create access. The directory's inode is marked dirty. Bounded by what the format can hold. */
int ext4_dir_append(handle_t *handle, struct inode *dir, ext4_lblk_t *lblk,
		    struct buffer_head **out);

/* ---- The hash tree ---- */

#define DX_MAX_DEPTH 3u	       /* index blocks on a path: 2, with large_dir 3 */
#define EDXBAD ENOTRECOVERABLE /* inside this layer: the index cannot be used, search without it */

struct dx_frame {
	struct buffer_head *f_bh;
	ext4_lblk_t f_lblk;
	unsigned f_entries; /* offset of the first index entry in the block */
	unsigned f_count, f_limit;
	unsigned f_at; /* the entry that was followed */
};
struct dx_path {
	unsigned p_depth; /* frames in use; 0: none */
	unsigned p_version;
	uint32_t p_hash, p_minor;
	struct dx_frame p_frame[DX_MAX_DEPTH];
};

/* Where a name is, and where it could go. Filled by ext4_dir_search(), given back by ext4_dir_slot_put(). */
struct dir_slot {
	struct dir_scan ds_scan;
	struct buffer_head *ds_bh; /* of the entry, if found */
	ext4_lblk_t ds_lblk;
	uint32_t ds_ino;	    /* validated */
	struct buffer_head *ds_fit; /* block with room; NULL: none */
	ext4_lblk_t ds_fit_lblk;
	unsigned ds_fit_offset;
	struct dx_path ds_path; /* of the leaf where the name belongs */
	bool ds_bad_index;
};

static inline bool ext4_dir_indexed(const struct inode *dir)
{
	return ext4_has_compat(dir->i_sb, EXT2_FEATURE_COMPAT_DIR_INDEX) &&
	       (dir->i_flags & EXT2_INDEX_FL) != 0;
}
/* The hash that new indexes use, signedness resolved. */
unsigned ext4_dx_default_version(const struct super_block *sb);
/* The hash of a name as directories use it (never the end mark). */
int ext4_dx_hash(const struct super_block *sb, unsigned version, const char *name, size_t len,
		 uint32_t *hash, uint32_t *minor);
/*
 * Follow the index down to the leaf where a name (or hash) belongs, checking each block on the way. 0, -EDXBAD, or another errno. The path is put in any case.
 */
int ext4_dx_probe(struct inode *dir, const char *name, size_t len, struct dx_path *path);
int ext4_dx_probe_hash(struct inode *dir, uint32_t hash, struct dx_path *path);
void ext4_dx_put(struct dx_path *path);
/* The leaf block that the path leads to. */
ext4_lblk_t ext4_dx_leaf(const struct dx_path *path);
/* Is there a leaf after this one? Then *hash is its first (bit 0: goes on with the same hash). */
bool ext4_dx_peek(const struct dx_path *path, uint32_t *hash);
/* Go to the next leaf (there is one). 0 or negative errno: the path is put. */
int ext4_dx_next(struct inode *dir, struct dx_path *path);
/* Search by the index. 1 found, 0 not found, -EDXBAD, or another errno. */
int ext4_dx_search(struct inode *dir, struct dir_slot *slot);
/* Frame accessors (host order). */
uint32_t ext4_dx_hash_at(const struct dx_frame *f, unsigned i);
ext4_lblk_t ext4_dx_block_at(const struct dx_frame *f, unsigned i);
unsigned ext4_dx_root_limit(const struct super_block *sb);
unsigned ext4_dx_node_limit(const struct super_block *sb);
#define DX_ROOT_INFO 24u    /* offset of the root's info */
#define DX_ROOT_ENTRIES 32u /* offset of the root's entries */
#define DX_NODE_ENTRIES 8u
/* count and limit, host order, of the block whose entries start at `entries`. */
void ext4_dx_countlimit(const uint8_t *data, unsigned entries, unsigned *count, unsigned *limit);
unsigned ext4_dx_max_depth(const struct super_block *sb);

/* An entry to add. */
struct dir_new {
	uint32_t dn_ino;
	uint8_t dn_type;
};
/* Add by the index; the leaf of slot->ds_path is full. */
int ext4_dx_insert(handle_t *handle, struct inode *dir, struct dir_slot *slot,
		   const struct dir_new *entry);
/* The only block of a linear directory is full: make it the root of an index and add the entry. */
int ext4_dx_make_index(handle_t *handle, struct inode *dir, struct dir_slot *slot,
		       const struct dir_new *entry);

/* ---- Whole directories (dir_linear.c) ---- */

/*
 * Search `name`; want_room: also find where it could be added. 1 found (ds_bh, ds_ino valid), 0 not found, negative errno. The slot is valid
 * while i_rwsem is held and nothing was changed; put it in any case.
 */
int ext4_dir_search(struct inode *dir, const char *name, size_t len, bool want_room,
		    struct dir_slot *slot);
void ext4_dir_slot_put(struct dir_slot *slot);
/* Add the entry that a search with want_room did not find. -ENOSPC: nothing was added. Times and the inode of dir are the caller's, but a grown size is marked dirty. */
int ext4_dir_insert(handle_t *handle, struct inode *dir, struct dir_slot *slot,
		    const struct dir_new *entry);
/* Get write access to the block of the found entry: what may fail before a change. */
int ext4_dir_prepare(handle_t *handle, struct dir_slot *slot);
/* Remove the found entry. */
int ext4_dir_remove(handle_t *handle, struct inode *dir, struct dir_slot *slot);
/* The found entry names another inode from now on. */
int ext4_dir_replace(handle_t *handle, struct inode *dir, struct dir_slot *slot,
		     const struct dir_new *entry);
/* First block of a new directory, "." and "..". i_size is set. */
int ext4_dir_init(handle_t *handle, struct inode *dir, uint32_t parent_ino);
/* 1 empty, 0 not, negative errno. */
int ext4_dir_is_empty(struct inode *dir);
/* The inode number in "..", validated. */
int ext4_dir_parent(struct inode *dir, uint32_t *ino);
/* ".." of a directory that moves: prepare (all that may fail), then set. */
int ext4_dir_parent_prepare(handle_t *handle, struct inode *dir, struct buffer_head **bh);
int ext4_dir_parent_set(handle_t *handle, struct inode *dir, struct buffer_head *bh,
			uint32_t parent_ino);

/* ---- What a lookup did not find (dir_miss.c) ---- */

int ext4_dir_miss_init(struct super_block *sb);
/* Also of a file system that came up half. */
void ext4_dir_miss_exit(struct super_block *sb);
/* A search with want_room did not find the name: keep where it fits. The slot is not put yet. */
void ext4_dir_note_miss(struct inode *dir, const struct dir_slot *slot);
/* Is slot's name known to be missing, and is there room in one block? Then ds_fit is set, as a search would have set it. */
bool ext4_dir_recall_miss(struct inode *dir, struct dir_slot *slot);

#endif
