/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fc_replay.c - fast commits are replayed: names, inodes and block maps become what the records say.
 *
 * A fast commit is a list of records: what changed since the last full commit. The log has been replayed, so the file
 * system is the one of that commit. The records are applied in their order, by the functions that make such changes
 * while mounted, each in its handle; commits are held meanwhile, so all of it becomes one transaction (see
 * jbd2_fc_records()). That makes the replay atomic, and it need not bear to meet its own traces.
 *
 *	ADD_RANGE, DEL_RANGE	the block map (alloc/fc_space.c)
 *	INODE			attributes; a number that is not in use becomes a new inode without links
 *	CREAT, LINK		an entry; a directory gets its first block, too
 *	UNLINK			an entry goes
 *
 * Link counts follow the entries, not the records. What a record names and does not exist any more is passed over: the
 * writer drops some records of files that were deleted before the fast commit. Inodes can be named before their INODE
 * record, and a number can be given to another file: whoever asks for a number that is free, or whose file has no
 * links, gets what the next INODE record of that number makes of it.
 *
 * Every inode that is named, and every orphan of before, is held until the transaction is on the disk; then those
 * without links are deleted, as orphans are.
 *
 * Invariants: (1) f_inodes holds one reference for each inode in it, and no inode is evicted between hold and release
 * but one whose number is needed. (2) After an error the journal is aborted: nothing of it reaches the disk.
 * Locking: nobody else uses the file system; locks are taken where the functions called ask for them.
 */
#include <bsd/sys/tree.h>
#include <stdlib.h>
#include <string.h>

#include "alloc/fc_space.h"
#include "journal/jbd2_format.h"
#include "namespace/dir.h"
#include "namespace/ns.h"
#include "namespace/xattr.h"
#include "util/assert.h"
#include "util/log.h"
#include "util/order.h"

/* Words of a record's value, all of 32 bits. */
#define FC_INO 0u
#define FC_LBLK 4u
#define FC_LEN 8u
#define FC_EXTENT 4u /* an extent as in a leaf */
#define FC_RAW 4u
#define FC_PARENT 0u
#define FC_CHILD 4u
#define FC_NAME 8u

struct fc_inode {
	RB_ENTRY(fc_inode) n_rb;
	uint32_t n_ino;
	struct inode *n_inode;
};
RB_HEAD(fc_inodes, fc_inode);

/* Where an INODE record is. */
struct fc_place {
	uint32_t p_ino;
	unsigned p_rec;
};

struct fc_replay {
	struct super_block *f_sb;
	const struct jbd2_fc_record *f_recs;
	unsigned f_nr;
	struct fc_place *f_places; /* sorted */
	unsigned f_nr_places;
	struct fc_inodes f_inodes;
	struct ext4_fc_space f_space;
};

/* A name that comes or goes. */
struct fc_name {
	struct inode *m_dir;
	struct inode *m_inode;
	const char *m_name;
	size_t m_len;
};

static int compare_inodes(const struct fc_inode *a, const struct fc_inode *b)
{
	return order_u64(a->n_ino, b->n_ino);
}

RB_GENERATE_INTERNAL(fc_inodes, fc_inode, n_rb, compare_inodes, static __attribute__((unused)))

static uint32_t word(const struct jbd2_fc_record *rec, unsigned at)
{
	return get_le32(rec->fr_value + at);
}

static bool is_name_tag(unsigned tag)
{
	return tag == JBD2_FC_TAG_CREAT || tag == JBD2_FC_TAG_LINK || tag == JBD2_FC_TAG_UNLINK;
}

/* ---- Checks before anything is changed ---- */

static int bad_record(const struct fc_replay *f, unsigned i, const char *why)
{
	log_err("%s: fast commit record %u (tag %u): %s", f->f_sb->s_name, i, f->f_recs[i].fr_tag,
		why);
	return -EFSCORRUPTED;
}

static const char *check_name(const struct fc_replay *f, const struct jbd2_fc_record *rec)
{
	const char *name = (const char *)rec->fr_value + FC_NAME;
	const size_t len = rec->fr_len_bytes - FC_NAME;
	const uint32_t child = word(rec, FC_CHILD);

	if (ns_check_name(name, len) != 0 || ns_is_dots(name, len))
		return "bad name";
	if (!ext4_valid_dir_ino(f->f_sb, child) || child == EXT4_ROOT_INO)
		return "bad inode number";
	if (!ext4_valid_dir_ino(f->f_sb, word(rec, FC_PARENT)) || word(rec, FC_PARENT) == child)
		return "bad parent";
	return NULL;
}

/* The extent of an ADD_RANGE record. */
static void read_extent(const struct jbd2_fc_record *rec, struct ext4_fc_range *range)
{
	const uint8_t *ex = rec->fr_value + FC_EXTENT;
	unsigned len = get_le16(ex + 4);

	range->fr_lblk = get_le32(ex);
	range->fr_unwritten = len > 1u << 15;
	range->fr_blocks = range->fr_unwritten ? len - (1u << 15) : len;
	range->fr_pblk = get_le32(ex + 8) | (ext4_fsblk_t)get_le16(ex + 6) << 32;
}

static const char *check_range(const struct fc_replay *f, const struct jbd2_fc_record *rec)
{
	struct ext4_fc_range range = {.fr_lblk = word(rec, FC_LBLK),
				      .fr_blocks = word(rec, FC_LEN)};

	if (!ext4_valid_dir_ino(f->f_sb, word(rec, FC_INO)))
		return "bad inode number";
	if (rec->fr_tag == JBD2_FC_TAG_ADD_RANGE)
		read_extent(rec, &range);
	if (range.fr_blocks == 0 || range.fr_blocks > EXT4_MAX_BLOCKS - range.fr_lblk)
		return "bad range of the file";
	if (rec->fr_tag == JBD2_FC_TAG_ADD_RANGE &&
	    !ext4_data_block_valid(f->f_sb, range.fr_pblk, range.fr_blocks))
		return "blocks that no file can have";
	return NULL;
}

static int check_record(const struct fc_replay *f, unsigned i)
{
	const struct jbd2_fc_record *rec = &f->f_recs[i];
	const char *why;

	if (is_name_tag(rec->fr_tag))
		why = check_name(f, rec);
	else if (rec->fr_tag != JBD2_FC_TAG_INODE)
		why = check_range(f, rec);
	else
		why = ext4_valid_dir_ino(f->f_sb, word(rec, FC_INO)) ? NULL : "bad inode number";
	return why == NULL ? 0 : bad_record(f, i, why);
}

static int compare_places(const void *a, const void *b)
{
	const struct fc_place *x = a;
	const struct fc_place *y = b;

	if (x->p_ino != y->p_ino)
		return order_u64(x->p_ino, y->p_ino);
	return order_u64(x->p_rec, y->p_rec);
}

/* Every record is possible, and INODE records can be found. */
static int prepare(struct fc_replay *f)
{
	f->f_places = malloc(((size_t)f->f_nr + 1) * sizeof(f->f_places[0]));
	if (f->f_places == NULL)
		return -ENOMEM;
	for (unsigned i = 0; i < f->f_nr; i++) {
		int err = check_record(f, i);

		if (err != 0)
			return err;
		if (f->f_recs[i].fr_tag == JBD2_FC_TAG_INODE)
			f->f_places[f->f_nr_places++] =
				(struct fc_place){word(&f->f_recs[i], FC_INO), i};
	}
	qsort(f->f_places, f->f_nr_places, sizeof(f->f_places[0]), compare_places);
	return 0;
}

static int claim_blocks(struct fc_replay *f)
{
	int err = 0;

	for (unsigned i = 0; i < f->f_nr && err == 0; i++) {
		struct ext4_fc_range range;

		if (f->f_recs[i].fr_tag != JBD2_FC_TAG_ADD_RANGE)
			continue;
		read_extent(&f->f_recs[i], &range);
		err = ext4_fc_claim_blocks(&f->f_space, range.fr_pblk, range.fr_blocks);
	}
	return err;
}

/* ---- Inodes ---- */

/* The first INODE record of ino from record `from` on; NULL: none. */
static const struct jbd2_fc_record *next_inode_record(const struct fc_replay *f, uint32_t ino,
						      unsigned from)
{
	const struct fc_place key = {ino, from};
	unsigned low = 0;
	unsigned high = f->f_nr_places;

	while (low < high) {
		unsigned mid = (low + high) / 2;

		if (compare_places(&f->f_places[mid], &key) < 0)
			low = mid + 1;
		else
			high = mid;
	}
	if (low == f->f_nr_places || f->f_places[low].p_ino != ino)
		return NULL;
	return &f->f_recs[f->f_places[low].p_rec];
}

static struct fc_inode *find_node(struct fc_replay *f, uint32_t ino)
{
	struct fc_inode key = {.n_ino = ino};

	return RB_FIND(fc_inodes, &f->f_inodes, &key);
}

/* Takes over the reference, also on error. */
static int hold_inode(void *arg, struct inode *inode)
{
	struct fc_replay *f = arg;
	struct fc_inode *node = malloc(sizeof(*node));
	struct fc_inode *old;

	if (node == NULL) {
		iput(inode);
		return -ENOMEM;
	}
	node->n_ino = inode->i_ino;
	node->n_inode = inode;
	old = RB_INSERT(fc_inodes, &f->f_inodes, node);
	ASSERT(old == NULL);
	return 0;
}

static bool has_map(const struct inode *inode)
{
	return ext4_is_extents(inode) && S_ISREG(inode->i_mode);
}

/* A deleted file's blocks are no longer its own: they may be another's already. */
static int strip(struct fc_replay *f, struct inode *inode)
{
	const struct ext4_fc_range all = {.fr_lblk = 0, .fr_blocks = EXT4_MAX_BLOCKS};

	return has_map(inode) ? ext4_fc_unmap(&f->f_space, inode, &all) : 0;
}

/* The number is needed: what had it goes now. */
static int retire(struct fc_replay *f, struct fc_inode *node)
{
	struct super_block *sb = f->f_sb;
	const uint32_t ino = node->n_ino;
	int err = strip(f, node->n_inode);

	if (err != 0)
		return err;
	RB_REMOVE(fc_inodes, &f->f_inodes, node);
	iput(node->n_inode);
	free(node);
	ext4_drain_evictions(sb);
	err = ext4_inode_in_use(sb, ino);
	return err > 0 ? -EFSCORRUPTED : err;
}

static int write_new(struct inode *inode, const struct jbd2_fc_record *rec)
{
	handle_t *handle = ext4_journal_start(inode, HT_INODE, EXT4_NEW_INODE_CREDITS);
	int err;

	if (IS_ERR(handle))
		return PTR_ERR(handle);
	err = ext4_inode_apply_record(inode, rec->fr_value + FC_RAW, rec->fr_len_bytes - FC_RAW);
	if (err == 0)
		err = ext4_mark_inode_dirty(handle, inode);
	/* It must not be written again when it is dropped. */
	if (err != 0)
		atomic_fetch_or(&inode->i_state, I_BAD);
	return ext4_journal_stop(handle, err);
}

/* A file as the record describes it, without links. */
static int make_inode(struct fc_replay *f, const struct jbd2_fc_record *rec, struct inode **out)
{
	struct super_block *sb = f->f_sb;
	const uint32_t ino = word(rec, FC_INO);
	const uint16_t mode = get_le16(rec->fr_value + FC_RAW);
	struct inode *inode;
	int err = ext4_fc_claim_inode(sb, ino, S_ISDIR(mode));

	if (err != 0)
		return err;
	inode = ext4_inode_new(sb, ino);
	if (IS_ERR(inode))
		return PTR_ERR(inode);
	inode->i_block_group = (ino - 1) / sb->s_inodes_per_group;
	err = write_new(inode, rec);
	if (err == 0) {
		*out = inode;
		return hold_inode(f, inode);
	}
	iput(inode);
	return err;
}

/* The inode that has the number now: held already, or on the disk. */
static int present_inode(struct fc_replay *f, uint32_t ino, struct inode **out)
{
	struct fc_inode *node = find_node(f, ino);
	struct inode *inode;
	int used;

	*out = NULL;
	if (node != NULL) {
		*out = node->n_inode;
		return 0;
	}
	used = ext4_inode_in_use(f->f_sb, ino);
	if (used <= 0)
		return used;
	inode = ext4_iget(f->f_sb, ino, EXT4_IGET_ORPHAN);
	if (IS_ERR(inode))
		return PTR_ERR(inode);
	*out = inode;
	return hold_inode(f, inode);
}

static uint32_t record_generation(const struct jbd2_fc_record *rec)
{
	return get_le32(rec->fr_value + FC_RAW + offsetof(struct ext2_inode_large, i_generation));
}

/* What record i means by ino; *out NULL: nothing that exists. */
static int named_inode(struct fc_replay *f, unsigned i, uint32_t ino, struct inode **out)
{
	const struct jbd2_fc_record *next;
	int err = present_inode(f, ino, out);

	if (err != 0 || (*out != NULL && atomic_load(&(*out)->i_nlink) > 0))
		return err;
	next = next_inode_record(f, ino, i);
	if (next == NULL || (*out != NULL && (*out)->i_generation == record_generation(next)))
		return 0;
	if (*out != NULL)
		err = retire(f, find_node(f, ino));
	*out = NULL;
	return err != 0 ? err : make_inode(f, next, out);
}

static int apply_inode(struct fc_replay *f, unsigned i)
{
	const struct jbd2_fc_record *rec = &f->f_recs[i];
	struct inode *inode;
	handle_t *handle;
	int err = named_inode(f, i, word(rec, FC_INO), &inode);

	if (err != 0)
		return err;
	ASSERT(inode != NULL);
	/* Blocks of its map have checksums that depend on it. */
	if (inode->i_generation != record_generation(rec) && ext4_has_metadata_csum(f->f_sb))
		return bad_record(f, i, "another generation of a file that exists");
	handle = ext4_journal_start(inode, HT_INODE, EXT4_INODE_CREDITS);
	if (IS_ERR(handle))
		return PTR_ERR(handle);
	err = ext4_inode_apply_record(inode, rec->fr_value + FC_RAW, rec->fr_len_bytes - FC_RAW);
	if (err == 0)
		err = ext4_mark_inode_dirty(handle, inode);
	return ext4_journal_stop(handle, err);
}

/* ---- Maps ---- */

static int apply_range(struct fc_replay *f, unsigned i)
{
	const struct jbd2_fc_record *rec = &f->f_recs[i];
	struct ext4_fc_range range = {.fr_lblk = word(rec, FC_LBLK),
				      .fr_blocks = word(rec, FC_LEN)};
	struct inode *inode;
	int err = named_inode(f, i, word(rec, FC_INO), &inode);

	if (err != 0 || inode == NULL)
		return err;
	if (!S_ISREG(inode->i_mode))
		return bad_record(f, i, "a range of what is no file");
	if (rec->fr_tag == JBD2_FC_TAG_DEL_RANGE) {
		err = ext4_fc_unmap(&f->f_space, inode, &range);
	} else {
		read_extent(rec, &range);
		err = ext4_fc_map(&f->f_space, inode, &range);
	}
	if (err == -EOPNOTSUPP)
		log_err("%s: fast commit of inode %u, which is not mapped by extents",
			f->f_sb->s_name, inode->i_ino);
	return err;
}

/* ---- Names ---- */

/* The directory and the inode of record i; m_dir or m_inode NULL: not there any more. */
static int read_name(struct fc_replay *f, unsigned i, struct fc_name *m)
{
	const struct jbd2_fc_record *rec = &f->f_recs[i];
	int err;

	m->m_name = (const char *)rec->fr_value + FC_NAME;
	m->m_len = rec->fr_len_bytes - FC_NAME;
	m->m_inode = NULL;
	err = named_inode(f, i, word(rec, FC_PARENT), &m->m_dir);
	if (err == 0 && m->m_dir != NULL &&
	    (!S_ISDIR(m->m_dir->i_mode) || atomic_load(&m->m_dir->i_nlink) == 0))
		m->m_dir = NULL;
	if (err == 0)
		err = named_inode(f, i, word(rec, FC_CHILD), &m->m_inode);
	return err;
}

static int make_directory(handle_t *handle, const struct fc_name *m)
{
	int err = ext4_dir_init(handle, m->m_inode, m->m_dir->i_ino);

	if (err != 0)
		return err;
	atomic_store(&m->m_inode->i_nlink, 2);
	ns_dir_inc_nlink(m->m_dir);
	return 0;
}

static int insert_in_handle(handle_t *handle, const struct fc_name *m, struct dir_slot *slot)
{
	struct inode *inode = m->m_inode;
	struct dir_new entry = {.dn_ino = inode->i_ino,
				.dn_type = ext4_dirent_type(inode->i_sb, inode->i_mode)};
	int err = 0;

	if (S_ISDIR(inode->i_mode))
		err = make_directory(handle, m);
	else
		atomic_fetch_add(&inode->i_nlink, 1);
	if (err == 0)
		err = ext4_dir_insert(handle, m->m_dir, slot, &entry);
	if (err == 0)
		err = ext4_orphan_del(handle, inode);
	ns_touch(m->m_dir, NS_TOUCH_DIR);
	if (err == 0)
		err = ext4_mark_inode_dirty(handle, m->m_dir);
	if (err == 0)
		err = ext4_mark_inode_dirty(handle, inode);
	return err;
}

static int insert_locked(const struct fc_name *m, struct dir_slot *slot)
{
	struct super_block *sb = m->m_dir->i_sb;
	const unsigned credits =
		2 * ext4_dir_trans_blocks(sb) + 2 * EXT4_INODE_CREDITS + EXT4_ORPHAN_CREDITS;
	handle_t *handle = ext4_journal_start_sb(sb, HT_DIR, credits, 0);

	if (IS_ERR(handle))
		return PTR_ERR(handle);
	return ext4_journal_stop(handle, insert_in_handle(handle, m, slot));
}

static int add_name(struct fc_replay *f, unsigned i, const struct fc_name *m)
{
	const uint32_t nlink = atomic_load(&m->m_inode->i_nlink);
	struct dir_slot slot;
	int ret;

	down_write(&m->m_dir->i_rwsem);
	ret = ext4_dir_search(m->m_dir, m->m_name, m->m_len, true, &slot);
	if (ret == 1 && slot.ds_ino == m->m_inode->i_ino)
		ret = 0;
	else if (ret == 1)
		ret = bad_record(f, i, "the name is another file's");
	else if (ret == 0 && nlink > 0 && S_ISDIR(m->m_inode->i_mode))
		ret = bad_record(f, i, "second name of a directory");
	else if (ret == 0 && nlink >= EXT4_LINK_MAX)
		ret = bad_record(f, i, "too many links");
	else if (ret == 0)
		ret = insert_locked(m, &slot);
	ext4_dir_slot_put(&slot);
	up_write(&m->m_dir->i_rwsem);
	return ret;
}

static int apply_link(struct fc_replay *f, unsigned i)
{
	const bool creat = f->f_recs[i].fr_tag == JBD2_FC_TAG_CREAT;
	struct fc_name m;
	int err = read_name(f, i, &m);

	if (err != 0)
		return err;
	if (m.m_inode == NULL && creat)
		return bad_record(f, i, "the new file is not described");
	if (m.m_inode == NULL || m.m_dir == NULL)
		return 0;
	if (!creat && S_ISDIR(m.m_inode->i_mode))
		return bad_record(f, i, "link to a directory");
	return add_name(f, i, &m);
}

static int remove_in_handle(handle_t *handle, const struct fc_name *m, struct dir_slot *slot)
{
	struct inode *inode = m->m_inode;
	int err = ext4_dir_remove(handle, m->m_dir, slot);

	if (err != 0)
		return err;
	ns_touch(m->m_dir, NS_TOUCH_DIR);
	if (S_ISDIR(inode->i_mode)) {
		atomic_store(&inode->i_nlink, 0);
		i_size_write(inode, 0);
		ns_dir_dec_nlink(m->m_dir);
	} else {
		ns_drop_nlink(inode);
	}
	err = ext4_mark_inode_dirty(handle, m->m_dir);
	if (err == 0 && atomic_load(&inode->i_nlink) == 0)
		err = ext4_orphan_add(handle, inode);
	return err != 0 ? err : ext4_mark_inode_dirty(handle, inode);
}

/* The entry of slot is the one meant. */
static int remove_locked(struct fc_replay *f, unsigned i, const struct fc_name *m,
			 struct dir_slot *slot)
{
	struct super_block *sb = f->f_sb;
	handle_t *handle;
	int ret;

	if (m->m_inode == NULL || atomic_load(&m->m_inode->i_nlink) == 0)
		return bad_record(f, i, "the entry names no file");
	ret = S_ISDIR(m->m_inode->i_mode) ? ext4_dir_is_empty(m->m_inode) : 1;
	if (ret == 0)
		return bad_record(f, i, "the directory is not empty");
	if (ret < 0)
		return ret;
	handle = ext4_journal_start_sb(sb, HT_DIR,
				       1 + 2 * EXT4_INODE_CREDITS + EXT4_ORPHAN_CREDITS + 1, 0);
	if (IS_ERR(handle))
		return PTR_ERR(handle);
	return ext4_journal_stop(handle, remove_in_handle(handle, m, slot));
}

static int apply_unlink(struct fc_replay *f, unsigned i)
{
	struct dir_slot slot;
	struct fc_name m;
	int ret = read_name(f, i, &m);

	if (ret != 0 || m.m_dir == NULL)
		return ret;
	down_write(&m.m_dir->i_rwsem);
	ret = ext4_dir_search(m.m_dir, m.m_name, m.m_len, false, &slot);
	/* Not there: it came and went between two fast commits. */
	if (ret == 1)
		ret = slot.ds_ino == word(&f->f_recs[i], FC_CHILD) ? remove_locked(f, i, &m, &slot)
								   : 0;
	ext4_dir_slot_put(&slot);
	up_write(&m.m_dir->i_rwsem);
	return ret;
}

/* ---- All of it ---- */

static int apply_record(struct fc_replay *f, unsigned i)
{
	switch (f->f_recs[i].fr_tag) {
	case JBD2_FC_TAG_ADD_RANGE:
	case JBD2_FC_TAG_DEL_RANGE:
		return apply_range(f, i);
	case JBD2_FC_TAG_INODE:
		return apply_inode(f, i);
	case JBD2_FC_TAG_CREAT:
	case JBD2_FC_TAG_LINK:
		return apply_link(f, i);
	case JBD2_FC_TAG_UNLINK:
		return apply_unlink(f, i);
	default:
		return bad_record(f, i, "unknown tag");
	}
}

/* An inode without links: its blocks go, and a crash after this transaction must find it. */
static int settle_dead(struct fc_replay *f, struct inode *inode)
{
	handle_t *handle;
	int err;

	if (atomic_load(&inode->i_nlink) > 0)
		return 0;
	err = strip(f, inode);
	if (err != 0 || ext4_is_orphan(inode))
		return err;
	handle = ext4_journal_start(inode, HT_INODE, EXT4_ORPHAN_CREDITS + EXT4_INODE_CREDITS);
	if (IS_ERR(handle))
		return PTR_ERR(handle);
	return ext4_journal_stop(handle, ext4_orphan_add(handle, inode));
}

static int apply_all(struct fc_replay *f)
{
	struct fc_inode *node;
	int err = claim_blocks(f);

	for (unsigned i = 0; i < f->f_nr && err == 0; i++)
		err = apply_record(f, i);
	RB_FOREACH (node, fc_inodes, &f->f_inodes)
		if (err == 0)
			err = settle_dead(f, node->n_inode);
	return err != 0 ? err : ext4_fc_space_settle(&f->f_space);
}

/* The transaction is on the disk, or never will be. */
static int let_go(struct fc_replay *f, int err)
{
	struct fc_inode *node;

	while ((node = RB_MIN(fc_inodes, &f->f_inodes)) != NULL) {
		RB_REMOVE(fc_inodes, &f->f_inodes, node);
		if (err == 0 && ext4_is_orphan(node->n_inode)) {
			err = ext4_orphan_process(node->n_inode);
		} else {
			/* It stays one on the disk. */
			(void)ext4_orphan_del(NULL, node->n_inode);
			iput(node->n_inode);
		}
		free(node);
	}
	ext4_drain_evictions(f->f_sb);
	return err;
}

static int replay_held(struct fc_replay *f)
{
	const struct ext4_orphan_taker taker = {.ot_fn = hold_inode, .ot_arg = f};
	struct super_block *sb = f->f_sb;
	int err;

	jbd2_journal_hold_commits(sb->s_journal);
	err = ext4_orphans_know(sb, &taker);
	if (err == 0)
		err = apply_all(f);
	return err != 0 ? err : jbd2_journal_release_commits(sb->s_journal);
}

bool ns_fc_pending(struct super_block *sb)
{
	unsigned n;

	(void)jbd2_fc_records(sb->s_journal, &n);
	return n > 0;
}

int ns_fc_replay(struct super_block *sb)
{
	struct fc_replay f = {.f_sb = sb};
	int err;

	f.f_recs = jbd2_fc_records(sb->s_journal, &f.f_nr);
	RB_INIT(&f.f_inodes);
	ext4_fc_space_init(sb, &f.f_space);
	err = prepare(&f);
	if (err == 0)
		err = replay_held(&f);
	if (err != 0) {
		/* Not an error of the file system: what failed has said so. */
		atomic_store(&sb->s_shutdown, true);
		jbd2_journal_abort(sb->s_journal, -ESHUTDOWN);
	}
	err = let_go(&f, err);
	if (err == 0)
		log_info("%s: %u records of fast commits replayed", sb->s_name, f.f_nr);
	else
		log_err("%s: fast commits cannot be replayed: %s", sb->s_name, strerror(-err));
	ext4_fc_space_destroy(&f.f_space);
	free(f.f_places);
	return err;
}
