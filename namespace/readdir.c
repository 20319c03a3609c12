/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * readdir.c - the entries of a directory, in an order that changes do not disturb.
 *
 * Where the directory is, or can become, indexed (dir_index and one block, or the index flag) the order is that of the
 * hash, so that splitting leaves and building the index move nothing; an entry's cookie is made of its hash. Else the
 * order is that of the blocks and the cookie is the byte position behind the entry; since entries merge, a position is
 * first moved forward to the next entry that starts at or behind it.
 *
 *   cookie   0                    "."
 *            1                    ".."
 *            2 ..                 linear: byte position (block 0 starts with the entry behind "..")
 *            HASHED | key + 1     behind the entry with this key; key: 31 bits of hash, 31 bits of minor hash
 *
 * Entries are gathered a leaf at a time (with the leaves that go on with the same hash) under the directory's lock,
 * sorted, and given out without it, so that the receiver may look names up. The batch is used again while the directory
 * does not change. The legacy hash has no minor part; a checksum of the name takes its place. Keys that are equal all
 * the same are told apart by counting up, which is the same at each reading as long as these entries stay.
 *
 * Invariants: (1) an entry that is there from start to end of a reading is returned exactly once. (2) Each batch starts
 * behind the one before: damaged indexes cannot make a loop. (3) One call looks at no more leaves without an entry than
 * the directory has blocks.
 * Locking: nd_lock (one reader of a descriptor at a time), then i_rwsem for read while a batch is filled.
 */
#include <stdlib.h>
#include <string.h>

#include "namespace/dir.h"
#include "namespace/ns.h"
#include "util/assert.h"
#include "util/crc32c.h"

#define COOKIE_HASHED (UINT64_C(1) << 62)
#define COOKIE_END (COOKIE_HASHED | (COOKIE_HASHED - 1))
#define COOKIE_DOTDOT 1u
#define COOKIE_FIRST 2u
#define MINOR_BITS 31

/* One entry of a batch; its name is in nd_names. */
struct item {
	uint64_t it_pos;  /* the cookie that leads to it */
	uint64_t it_next; /* the cookie behind it */
	uint32_t it_ino;
	uint32_t it_name; /* offset */
	uint8_t it_len;
	uint8_t it_type;
};

struct ns_dir {
	struct inode *nd_inode;		       /* [const after init] a reference */
	struct mutex nd_lock;		       /* serialises readers of this descriptor */
	struct item *nd_items;		       /* [nd_lock] */
	unsigned nd_count, nd_room;	       /* [nd_lock] */
	char *nd_names;			       /* [nd_lock] */
	unsigned nd_names_used, nd_names_room; /* [nd_lock] */
	uint64_t nd_start,
		nd_end;	     /* [nd_lock] the batch holds all entries with start <= it_pos < end */
	uint64_t nd_version; /* [nd_lock] i_version when it was filled */
	bool nd_linear;	     /* [nd_lock] the index is damaged: read the blocks in order */
};

int ext4_dir_open(struct inode *dir, struct ns_dir **out)
{
	struct ns_dir *d;

	*out = NULL;
	if (!S_ISDIR(dir->i_mode))
		return -ENOTDIR;
	d = calloc(1, sizeof(*d));
	if (d == NULL)
		return -ENOMEM;
	ihold(dir);
	d->nd_inode = dir;
	mutex_init(&d->nd_lock, LOCK_RANK_NONE);
	*out = d;
	return 0;
}

void ext4_dir_close(struct ns_dir *d)
{
	if (d == NULL)
		return;
	iput(d->nd_inode);
	mutex_destroy(&d->nd_lock);
	free(d->nd_items);
	free(d->nd_names);
	free(d);
}

/* ---- The batch ---- */

static void batch_clear(struct ns_dir *d, uint64_t start)
{
	d->nd_count = 0;
	d->nd_names_used = 0;
	d->nd_start = start;
	d->nd_end = start;
}

/* Room for `need` elements; NULL: no memory, p is as it was. */
static void *grow_room(void *p, unsigned *room, unsigned need, size_t size)
{
	unsigned want = *room != 0 ? *room : 64;
	void *q;

	if (need <= *room)
		return p;
	while (want < need)
		want *= 2;
	q = realloc(p, want * size);
	if (q != NULL)
		*room = want;
	return q;
}

static int batch_add(struct ns_dir *d, const struct ext2_dir_entry_2 *de, uint64_t pos)
{
	struct item *items;
	struct item *it;
	char *names;

	items = grow_room(d->nd_items, &d->nd_room, d->nd_count + 1, sizeof(*it));
	if (items == NULL)
		return -ENOMEM;
	d->nd_items = items;
	names = grow_room(d->nd_names, &d->nd_names_room, d->nd_names_used + de->name_len, 1);
	if (names == NULL)
		return -ENOMEM;
	d->nd_names = names;
	it = &d->nd_items[d->nd_count++];
	it->it_pos = pos;
	it->it_next = pos + 1;
	it->it_ino = le32_to_cpu(de->inode);
	it->it_name = d->nd_names_used;
	it->it_len = de->name_len;
	it->it_type = ext4_dirent_dt(d->nd_inode->i_sb, de->file_type);
	memcpy(d->nd_names + d->nd_names_used, de->name, de->name_len);
	d->nd_names_used += de->name_len;
	return 0;
}

/* ---- One block ---- */

/* What the kernel on the other side of FUSE would refuse, and what only block 0 may have. */
static const char *bad_name(const struct ext2_dir_entry_2 *de)
{
	if (ns_is_dots(de->name, de->name_len))
		return "'.' or '..' is not in its place";
	if (memchr(de->name, '/', de->name_len) != NULL ||
	    memchr(de->name, '\0', de->name_len) != NULL)
		return "impossible byte in a name";
	return NULL;
}

static int hashed_pos(struct inode *dir, unsigned version, const struct ext2_dir_entry_2 *de,
		      uint64_t *pos)
{
	uint32_t hash;
	uint32_t minor;
	int err = ext4_dx_hash(dir->i_sb, version, de->name, de->name_len, &hash, &minor);

	if (version == EXT2_HASH_LEGACY || version == EXT2_HASH_LEGACY_UNSIGNED)
		minor = crc32c(UINT32_MAX, de->name, de->name_len);
	*pos = COOKIE_HASHED | ((uint64_t)(hash >> 1) << MINOR_BITS) | (minor >> 1);
	return err;
}

/* How the entries of a block are taken into the batch. */
struct gather {
	bool g_hashed;
	unsigned g_version;
	uint64_t g_from; /* linear: entries at lower byte positions are left out */
};

/* Take the entries of a leaf block from `offset` on. */
static int gather_block(struct ns_dir *d, ext4_lblk_t lblk, unsigned offset, const struct gather *g)
{
	struct inode *dir = d->nd_inode;
	const struct super_block *sb = dir->i_sb;
	uint64_t base = (uint64_t)lblk << sb->s_blocksize_bits;
	unsigned limit = ext4_dir_leaf_bytes(sb);
	struct buffer_head *bh;
	ext4_lblk_t blocks;
	int err = ext4_dir_blocks(dir, &blocks);

	if (err == 0 && lblk < blocks)
		ext4_dir_readahead(dir, lblk, blocks);
	if (err == 0)
		err = ext4_dir_bread(dir, lblk, g->g_hashed ? DIR_BLOCK_LEAF : DIR_BLOCK_ANY, &bh);
	if (err != 0)
		return err;
	if (!g->g_hashed && ext4_dir_is_index_block(dir, lblk, bh->b_data))
		offset = limit;
	while (err == 0 && offset < limit) {
		const struct ext2_dir_entry_2 *de = ext4_dirent_at(bh->b_data, offset);
		const char *why = ext4_dirent_bad(sb, bh->b_data, offset, limit);
		unsigned rec_len = le16_to_cpu(de->rec_len);
		uint64_t pos = base + offset;

		if (why == NULL && de->inode != 0)
			why = bad_name(de);
		if (why != NULL) {
			err = ext4_dirent_error(dir, lblk, offset, why);
			break;
		}
		offset += rec_len;
		if (de->inode == 0 || (!g->g_hashed && pos < g->g_from))
			continue;
		if (g->g_hashed)
			err = hashed_pos(dir, g->g_version, de, &pos);
		if (err == 0)
			err = batch_add(d, de, pos);
		if (err == 0 && !g->g_hashed)
			d->nd_items[d->nd_count - 1].it_next = base + offset;
	}
	bh_put(bh);
	return err;
}

/* Where the entries behind ".." start in block 0 of a directory without index. */
static int after_dots(struct inode *dir, unsigned *offset)
{
	struct buffer_head *bh;
	unsigned limit = ext4_dir_leaf_bytes(dir->i_sb);
	const char *why;
	int err = ext4_dir_bread(dir, 0, DIR_BLOCK_LEAF, &bh);

	if (err != 0)
		return err;
	*offset = 0;
	for (unsigned i = 1; err == 0 && i <= 2; i++) {
		const struct ext2_dir_entry_2 *de = ext4_dirent_at(bh->b_data, *offset);

		why = ext4_dirent_bad(dir->i_sb, bh->b_data, *offset, limit);
		if (why == NULL && (de->name_len != i || memcmp(de->name, "..", i) != 0))
			why = "no '.' and '..'";
		if (why != NULL)
			err = ext4_dirent_error(dir, 0, *offset, why);
		else
			*offset += le16_to_cpu(de->rec_len);
	}
	bh_put(bh);
	return err;
}

/* ---- Filling: linear ---- */

static int fill_linear(struct ns_dir *d, uint64_t cookie)
{
	struct inode *dir = d->nd_inode;
	unsigned bits = dir->i_sb->s_blocksize_bits;
	struct gather g = {.g_from = cookie};
	ext4_lblk_t blocks;
	ext4_lblk_t lblk;
	unsigned offset;
	int err = ext4_dir_blocks(dir, &blocks);

	batch_clear(d, cookie);
	while (err == 0 && d->nd_count == 0) {
		if (cookie >> bits >= blocks) {
			d->nd_end = COOKIE_END;
			return 0;
		}
		lblk = (ext4_lblk_t)(cookie >> bits);
		offset = 0;
		if (lblk == 0 && !ext4_dir_indexed(dir))
			err = after_dots(dir, &offset);
		if (err == 0)
			err = gather_block(d, lblk, offset, &g);
		cookie = ((uint64_t)lblk + 1) << bits;
	}
	d->nd_end = cookie;
	return err;
}

/* ---- Filling: by hash ---- */

static int compare_items(const void *a, const void *b)
{
	const struct item *x = a;
	const struct item *y = b;

	return x->it_pos < y->it_pos ? -1 : x->it_pos > y->it_pos;
}

/* Sort, tell equal keys apart, drop what is before the start. */
static void arrange(struct ns_dir *d)
{
	unsigned first = 0;

	if (d->nd_count > 1)
		qsort(d->nd_items, d->nd_count, sizeof(d->nd_items[0]), compare_items);
	for (unsigned i = 1; i < d->nd_count; i++)
		if (d->nd_items[i].it_pos <= d->nd_items[i - 1].it_pos)
			d->nd_items[i].it_pos = d->nd_items[i - 1].it_pos + 1;
	for (unsigned i = 0; i < d->nd_count; i++)
		d->nd_items[i].it_next = d->nd_items[i].it_pos + 1;
	while (first < d->nd_count && d->nd_items[first].it_pos < d->nd_start)
		first++;
	if (first == 0)
		return;
	d->nd_count -= first;
	memmove(d->nd_items, d->nd_items + first, d->nd_count * sizeof(d->nd_items[0]));
}

/* The first cookie of a hash. */
static uint64_t hash_cookie(uint32_t hash)
{
	return COOKIE_HASHED | ((uint64_t)(hash >> 1) << MINOR_BITS);
}

/* The leaf of the path, and those that go on with its last hash. */
static int gather_leaves(struct ns_dir *d, struct dx_path *path, ext4_lblk_t *budget)
{
	struct inode *dir = d->nd_inode;
	struct gather g = {.g_hashed = true, .g_version = path->p_version};
	uint32_t hash;

	for (;;) {
		int err = gather_block(d, ext4_dx_leaf(path), 0, &g);

		if (err != 0)
			return err;
		if (!ext4_dx_peek(path, &hash)) {
			d->nd_end = COOKIE_END;
			return 0;
		}
		if ((hash & 1) == 0)
			break;
		if ((*budget)-- == 0)
			return ext4_error(dir->i_sb, dir->i_ino, "index with an endless chain");
		err = ext4_dx_next(dir, path);
		if (err != 0)
			return err;
	}
	d->nd_end = hash_cookie(hash);
	return 0;
}

/* One leaf (or chain) from the cookie on. */
static int fill_leaf(struct ns_dir *d, uint64_t cookie, ext4_lblk_t *budget)
{
	struct inode *dir = d->nd_inode;
	struct dx_path path;
	uint32_t hash = (uint32_t)((cookie & ~COOKIE_HASHED) >> MINOR_BITS) << 1;
	int err;

	batch_clear(d, cookie);
	err = ext4_dx_probe_hash(dir, hash, &path);
	if (err != 0)
		return err;
	err = gather_leaves(d, &path, budget);
	ext4_dx_put(&path);
	if (err != 0)
		return err;
	arrange(d);
	if (d->nd_end <= cookie)
		return ext4_error(dir->i_sb, dir->i_ino, "index hashes are out of order");
	return 0;
}

/* A directory of one block that may become indexed: its order is that of the index to come. */
static int fill_single(struct ns_dir *d, uint64_t cookie)
{
	struct inode *dir = d->nd_inode;
	struct gather g = {.g_hashed = true, .g_version = ext4_dx_default_version(dir->i_sb)};
	unsigned offset;
	int err;

	batch_clear(d, cookie);
	d->nd_end = COOKIE_END;
	err = after_dots(dir, &offset);
	if (err == 0)
		err = gather_block(d, 0, offset, &g);
	if (err == 0)
		arrange(d);
	return err;
}

static int fill_hashed(struct ns_dir *d, uint64_t cookie)
{
	struct inode *dir = d->nd_inode;
	ext4_lblk_t budget;
	int err = ext4_dir_blocks(dir, &budget);

	if (err != 0)
		return err;
	if (!ext4_dir_indexed(dir))
		return fill_single(d, cookie);
	for (;;) {
		err = fill_leaf(d, cookie, &budget);
		if (err != 0 || d->nd_count > 0 || d->nd_end == COOKIE_END)
			return err;
		if (budget-- == 0)
			return ext4_error(dir->i_sb, dir->i_ino, "index with endless leaves");
		cookie = d->nd_end;
	}
}

/* ---- Reading ---- */

static bool reads_hashed(const struct ns_dir *d)
{
	const struct inode *dir = d->nd_inode;

	if (d->nd_linear || !ext4_has_compat(dir->i_sb, EXT2_FEATURE_COMPAT_DIR_INDEX))
		return false;
	return (dir->i_flags & EXT2_INDEX_FL) != 0 ||
	       i_size_read(dir) >> dir->i_sb->s_blocksize_bits == 1;
}

static uint64_t version_of(struct inode *dir)
{
	uint64_t v;

	mutex_lock(&dir->i_lock);
	v = dir->i_version;
	mutex_unlock(&dir->i_lock);
	return v;
}

static int fill_by_order(struct ns_dir *d, uint64_t cookie)
{
	uint64_t start = cookie;
	int err;

	if (reads_hashed(d)) {
		if (cookie < COOKIE_HASHED)
			start = COOKIE_HASHED;
		err = fill_hashed(d, start);
		d->nd_start = err == 0 ? cookie : d->nd_start;
		if (err != -EDXBAD)
			return err;
		/* What was read by hash cannot be found by position. */
		if (cookie > COOKIE_FIRST)
			return ext4_error(d->nd_inode->i_sb, d->nd_inode->i_ino,
					  "directory has a corrupted index");
		d->nd_linear = true;
	}
	if (cookie >= COOKIE_HASHED) {
		batch_clear(d, cookie);
		d->nd_end = COOKIE_END;
		return 0;
	}
	return fill_linear(d, cookie == COOKIE_FIRST ? 0 : cookie);
}

/* Make the batch hold what comes at `cookie`. */
static int fill(struct ns_dir *d, uint64_t cookie)
{
	struct inode *dir = d->nd_inode;
	int err;

	if (d->nd_start <= cookie && cookie < d->nd_end && version_of(dir) == d->nd_version)
		return 0;
	down_read(&dir->i_rwsem);
	if (atomic_load(&dir->i_nlink) == 0) {
		err = -ENOENT;
	} else {
		d->nd_version = version_of(dir);
		err = fill_by_order(d, cookie);
	}
	up_read(&dir->i_rwsem);
	if (err != 0)
		batch_clear(d, 0);
	return err;
}

/* "." and "..": 1 go on, 0 the receiver is full, negative errno. */
static int emit_dot(struct ns_dir *d, uint64_t cookie,
		    bool (*emit)(void *arg, const struct ns_dirent *de), void *arg)
{
	struct inode *dir = d->nd_inode;
	struct ns_dirent de = {.d_cookie = cookie + 1, .d_type = S_IFDIR >> 12};
	int err = 0;

	if (cookie == COOKIE_DOTDOT) {
		down_read(&dir->i_rwsem);
		err = atomic_load(&dir->i_nlink) == 0 ? -ENOENT : ext4_dir_parent(dir, &de.d_ino);
		up_read(&dir->i_rwsem);
	} else {
		de.d_ino = dir->i_ino;
	}
	if (err != 0)
		return err;
	de.d_len = (uint8_t)(cookie == COOKIE_DOTDOT ? 2 : 1);
	memcpy(de.d_name, "..", de.d_len);
	return emit(arg, &de) ? 1 : 0;
}

/* Give out the batch from the cookie on. True: all of it. */
static bool emit_batch(struct ns_dir *d, uint64_t cookie,
		       bool (*emit)(void *arg, const struct ns_dirent *de), void *arg)
{
	struct ns_dirent de;

	for (unsigned i = 0; i < d->nd_count; i++) {
		const struct item *it = &d->nd_items[i];

		if (it->it_pos < cookie)
			continue;
		de.d_cookie = it->it_next;
		de.d_ino = it->it_ino;
		de.d_type = it->it_type;
		de.d_len = it->it_len;
		memcpy(de.d_name, d->nd_names + it->it_name, it->it_len);
		de.d_name[it->it_len] = '\0';
		if (!emit(arg, &de))
			return false;
	}
	return true;
}

static int read_locked(struct ns_dir *d, uint64_t cookie,
		       bool (*emit)(void *arg, const struct ns_dirent *de), void *arg)
{
	int ret;

	for (; cookie < COOKIE_FIRST; cookie++) {
		ret = emit_dot(d, cookie, emit, arg);
		if (ret <= 0)
			return ret;
	}
	while (cookie < COOKIE_END) {
		ret = fill(d, cookie);
		if (ret != 0)
			return ret;
		if (!emit_batch(d, cookie, emit, arg))
			return 0;
		ASSERT_CMP(d->nd_end, >, cookie);
		cookie = d->nd_end;
	}
	return 0;
}

int ext4_dir_read(struct ns_dir *d, uint64_t cookie,
		  bool (*emit)(void *arg, const struct ns_dirent *de), void *arg)
{
	int ret;

	if (cookie > INT64_MAX)
		return -EINVAL;
	mutex_lock(&d->nd_lock);
	ret = read_locked(d, cookie, emit, arg);
	mutex_unlock(&d->nd_lock);
	if (ret == 0)
		ns_accessed(d->nd_inode);
	return ret;
}
