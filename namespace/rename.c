/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * rename.c - a name moves, replaces another, or two change places; a whiteout may stay behind.
 *
 * With auto_da_alloc a file that is about to replace another has its delayed data written, and the write's conversions
 * done, before any lock is taken and long before the handle starts: after a crash the name leads to old or new content.
 *
 * Between two directories s_rename_lock keeps every ".." still. The ancestors of both directories are walked first,
 * with one directory locked at a time: they tell which of the two is to be locked first, and whether a directory would
 * become its own descendant. The tree above a directory can only change under s_rename_lock, so what was walked is
 * still true when the locks are held.
 *
 * Invariants: (1) everything that may fail for other reasons than the journal itself comes before the first change,
 * but adding the new name, which is itself the first change. (2) A moved directory's ".." changes in the same handle.
 * (3) No directory is below itself.
 * Locking: s_rename_lock if the directories differ, i_rwsem of the directories (ancestor first, else by address), then
 * of the two inodes (a directory before a file, else by address), then the handle.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "namespace/dir.h"
#include "namespace/ns.h"
#include "util/assert.h"
#include "writeback/writeback.h"

#define CHAIN_ON_STACK 64u

struct side {
	struct inode *s_dir;
	const char *s_name;
	size_t s_len;
	struct dir_slot s_slot;
	struct inode *s_inode;	      /* what the name leads to, or NULL */
	struct buffer_head *s_dotdot; /* its block with "..", if that has to change */
};
struct renaming {
	struct side r_old, r_new;
	unsigned r_flags;
	struct inode *r_whiteout; /* takes the old name, or NULL */
	bool r_old_above_new;	  /* the old inode is new_dir or above it */
	bool r_new_above_old;
};

/* ---- Ancestors ---- */

/* The directories from one up to the root. */
struct chain {
	uint32_t *c_ino;
	unsigned c_len, c_room;
	uint32_t c_store[CHAIN_ON_STACK];
};

static int chain_push(struct chain *c, uint32_t ino)
{
	if (c->c_len == c->c_room) {
		uint32_t *more = malloc(2u * c->c_room * sizeof(*more));

		if (more == NULL)
			return -ENOMEM;
		memcpy(more, c->c_ino, c->c_len * sizeof(*more));
		if (c->c_ino != c->c_store)
			free(c->c_ino);
		c->c_ino = more;
		c->c_room *= 2;
	}
	c->c_ino[c->c_len++] = ino;
	return 0;
}

static void chain_free(struct chain *c)
{
	if (c->c_ino != c->c_store)
		free(c->c_ino);
}

static bool chain_has(const struct chain *c, uint32_t ino)
{
	for (unsigned i = 0; i < c->c_len; i++)
		if (c->c_ino[i] == ino)
			return true;
	return false;
}

static int read_parent(struct inode *dir, uint32_t *ino)
{
	int err;

	down_read(&dir->i_rwsem);
	if (!S_ISDIR(dir->i_mode))
		err = ext4_error(dir->i_sb, dir->i_ino, "'..' names no directory");
	else if (atomic_load(&dir->i_nlink) == 0)
		err = -ENOENT;
	else
		err = ext4_dir_parent(dir, ino);
	up_read(&dir->i_rwsem);
	return err;
}

/* Walk up. s_rename_lock held. A loop of ".." is found by a marker that moves at growing distances (Brent). */
static int chain_walk(struct inode *dir, struct chain *c)
{
	struct super_block *sb = dir->i_sb;
	unsigned next_mark = CHAIN_ON_STACK;
	uint32_t mark = dir->i_ino;
	uint32_t ino = dir->i_ino;
	int err;

	c->c_ino = c->c_store;
	c->c_room = CHAIN_ON_STACK;
	c->c_len = 0;
	ihold(dir);
	for (;;) {
		err = chain_push(c, ino);
		if (err == 0 && ino == EXT4_ROOT_INO)
			break;
		if (err == 0)
			err = read_parent(dir, &ino);
		iput(dir);
		dir = NULL;
		if (err == 0 && ino == mark)
			err = ext4_error(sb, ino, "directories form a loop");
		if (err != 0)
			break;
		if (c->c_len >= next_mark) {
			mark = ino;
			next_mark *= 2;
		}
		dir = ext4_iget(sb, ino, EXT4_IGET_NORMAL);
		if (IS_ERR(dir)) {
			err = PTR_ERR(dir);
			dir = NULL;
			break;
		}
	}
	iput(dir);
	return err;
}

/* ---- Locks ---- */

static void lock_dirs(struct renaming *r, bool old_first)
{
	struct inode *first = old_first ? r->r_old.s_dir : r->r_new.s_dir;
	struct inode *second = old_first ? r->r_new.s_dir : r->r_old.s_dir;

	down_write(&first->i_rwsem);
	if (second != first)
		down_write_nested(&second->i_rwsem);
}

static void unlock_dirs(struct renaming *r)
{
	up_write(&r->r_new.s_dir->i_rwsem);
	if (r->r_old.s_dir != r->r_new.s_dir)
		up_write(&r->r_old.s_dir->i_rwsem);
}

/* ---- Checks, all locks of directories held ---- */

static int find_side(struct side *s, bool want_room)
{
	int ret = ext4_dir_search(s->s_dir, s->s_name, s->s_len, want_room, &s->s_slot);
	struct inode *inode;

	if (ret != 1)
		return ret;
	inode = ext4_iget(s->s_dir->i_sb, s->s_slot.ds_ino, EXT4_IGET_NORMAL);
	if (IS_ERR(inode))
		return PTR_ERR(inode) == -ESTALE
			       ? ext4_error(s->s_dir->i_sb, s->s_dir->i_ino,
					    "entry names deleted inode %u", s->s_slot.ds_ino)
			       : PTR_ERR(inode);
	s->s_inode = inode;
	return 0;
}

static bool is_dir(const struct inode *inode)
{
	return inode != NULL && S_ISDIR(inode->i_mode);
}

/* Types, flags and relations; what the children's locks do not matter for. */
static int check_pair(const struct renaming *r)
{
	const struct inode *old = r->r_old.s_inode;
	const struct inode *new = r->r_new.s_inode;
	bool exchange = (r->r_flags & RENAME_EXCHANGE) != 0;
	int err = ns_may_create(r->r_new.s_dir);

	if (err == 0)
		err = ns_may_delete(r->r_old.s_dir, old);
	if (err == 0 && new != NULL)
		err = ns_may_delete(r->r_new.s_dir, new);
	if (err != 0)
		return err;
	if (exchange && new == NULL)
		return -ENOENT;
	if (new != NULL && (r->r_flags & RENAME_NOREPLACE) != 0)
		return -EEXIST;
	if (is_dir(old) && r->r_old_above_new)
		return -EINVAL;
	if (is_dir(new) && r->r_new_above_old)
		return exchange ? -EINVAL : -ENOTEMPTY;
	if (old == r->r_new.s_dir || new == r->r_old.s_dir || old == r->r_old.s_dir ||
	    new == r->r_new.s_dir)
		return ext4_error(old->i_sb, old->i_ino, "a directory is its own entry");
	if (new == NULL || exchange)
		return 0;
	if (is_dir(old) && !is_dir(new))
		return -ENOTDIR;
	return !is_dir(old) && is_dir(new) ? -EISDIR : 0;
}

/* Would a directory get more subdirectories than it can have? */
static int check_links(const struct renaming *r)
{
	bool same = r->r_old.s_dir == r->r_new.s_dir;
	bool old_is_dir = is_dir(r->r_old.s_inode);
	bool new_is_dir = is_dir(r->r_new.s_inode);

	if (same)
		return 0;
	if (old_is_dir && !new_is_dir && ns_dir_link_full(r->r_new.s_dir))
		return -EMLINK;
	if ((r->r_flags & RENAME_EXCHANGE) != 0 && new_is_dir && !old_is_dir &&
	    ns_dir_link_full(r->r_old.s_dir))
		return -EMLINK;
	return 0;
}

/* ---- The change ---- */

static struct dir_new entry_of(const struct inode *inode)
{
	struct dir_new entry = {.dn_ino = inode->i_ino,
				.dn_type = ext4_dirent_type(inode->i_sb, inode->i_mode)};

	return entry;
}

static int prepare_side(handle_t *handle, struct side *s, bool parent_changes)
{
	int err = s->s_slot.ds_bh != NULL ? ext4_dir_prepare(handle, &s->s_slot) : 0;

	if (err == 0 && parent_changes && is_dir(s->s_inode))
		err = ext4_dir_parent_prepare(handle, s->s_inode, &s->s_dotdot);
	return err;
}

/* All inodes that the rename writes can be written: once names change nothing must be left half done. */
static int prepare_inodes(handle_t *handle, struct renaming *r)
{
	struct inode *inodes[] = {r->r_old.s_inode, r->r_old.s_dir, r->r_new.s_dir,
				  r->r_new.s_inode};
	int err = 0;

	for (size_t i = 0; i < sizeof(inodes) / sizeof(inodes[0]) && err == 0; i++)
		if (inodes[i] != NULL)
			err = ext4_prepare_inode_write(handle, inodes[i]);
	return err;
}

static int set_parent(handle_t *handle, struct side *s, const struct inode *parent)
{
	if (s->s_dotdot == NULL)
		return 0;
	return ext4_dir_parent_set(handle, s->s_inode, s->s_dotdot, parent->i_ino);
}

/* ext4: fs/ext4/namei.c ext4_whiteout_for_rename(). It is root's: nobody else has a use for one. */
static int make_whiteout(handle_t *handle, struct renaming *r)
{
	const struct ext4_cred root = {.cr_privileged = true};
	struct inode *inode = ext4_new_inode(handle, r->r_old.s_dir, S_IFCHR, &root, "");

	if (IS_ERR(inode))
		return PTR_ERR(inode);
	r->r_whiteout = inode;
	inode->i_flags &= ~(uint32_t)EXT4_EXTENTS_FL;
	memset(inode->i_block, 0, sizeof(inode->i_block));
	inode->i_rdev = 0;
	return ext4_mark_inode_dirty(handle, inode);
}

/* A whiteout that got no name is deleted when it is put. The first error is the one to report. */
static void drop_whiteout(handle_t *handle, struct inode *inode)
{
	if (inode == NULL)
		return;
	atomic_store(&inode->i_nlink, 0);
	(void)ext4_mark_inode_dirty(handle, inode);
	(void)ext4_orphan_add(handle, inode);
}

/* The old name goes, or leads to a whiteout; its slot is looked for again if the directory has changed since. */
static int remove_old(handle_t *handle, struct renaming *r, bool moved)
{
	struct side *o = &r->r_old;
	int ret;

	if (moved) {
		ext4_dir_slot_put(&o->s_slot);
		ret = ext4_dir_search(o->s_dir, o->s_name, o->s_len, false, &o->s_slot);
		if (ret != 1)
			return ret < 0 ? ret
				       : ext4_error(o->s_dir->i_sb, o->s_dir->i_ino,
						    "an entry is lost in a rename");
	}
	if (r->r_whiteout != NULL) {
		struct dir_new entry = entry_of(r->r_whiteout);

		return ext4_dir_replace(handle, o->s_dir, &o->s_slot, &entry);
	}
	return ext4_dir_remove(handle, o->s_dir, &o->s_slot);
}

/* The inode that lost its name to the other. */
static int drop_victim(handle_t *handle, struct inode *victim)
{
	int err = 0;

	if (victim == NULL)
		return 0;
	ns_touch(victim, NS_TOUCH_CTIME);
	if (S_ISDIR(victim->i_mode)) {
		atomic_store(&victim->i_nlink, 0);
		i_size_write(victim, 0);
	} else {
		ns_drop_nlink(victim);
	}
	if (atomic_load(&victim->i_nlink) == 0)
		err = ext4_orphan_add(handle, victim);
	return err != 0 ? err : ext4_mark_inode_dirty(handle, victim);
}

static int mark_dirs(handle_t *handle, struct renaming *r)
{
	int err;

	ns_touch(r->r_old.s_dir, NS_TOUCH_DIR);
	err = ext4_mark_inode_dirty(handle, r->r_old.s_dir);
	if (err != 0 || r->r_old.s_dir == r->r_new.s_dir)
		return err;
	ns_touch(r->r_new.s_dir, NS_TOUCH_DIR);
	return ext4_mark_inode_dirty(handle, r->r_new.s_dir);
}

static int move_in_handle(handle_t *handle, struct renaming *r)
{
	struct inode *old = r->r_old.s_inode;
	struct inode *victim = r->r_new.s_inode;
	struct dir_new entry = entry_of(old);
	bool same_dir = r->r_old.s_dir == r->r_new.s_dir;
	int err = prepare_inodes(handle, r);

	if (err == 0 && (r->r_flags & RENAME_WHITEOUT) != 0)
		err = make_whiteout(handle, r);
	if (err == 0)
		err = prepare_side(handle, &r->r_old, !same_dir);
	if (err == 0)
		err = prepare_side(handle, &r->r_new, false);
	if (err == 0 && victim != NULL)
		err = ext4_dir_replace(handle, r->r_new.s_dir, &r->r_new.s_slot, &entry);
	else if (err == 0)
		err = ext4_dir_insert(handle, r->r_new.s_dir, &r->r_new.s_slot, &entry);
	if (err == 0)
		err = remove_old(handle, r, same_dir && victim == NULL);
	if (err == 0)
		err = set_parent(handle, &r->r_old, r->r_new.s_dir);
	if (err != 0) {
		drop_whiteout(handle, r->r_whiteout);
		return err;
	}
	if (is_dir(old) && (!same_dir || victim != NULL))
		ns_dir_dec_nlink(r->r_old.s_dir);
	if (is_dir(old) && !same_dir && victim == NULL)
		ns_dir_inc_nlink(r->r_new.s_dir);
	ns_touch(old, NS_TOUCH_CTIME);
	err = ext4_mark_inode_dirty(handle, old);
	if (err == 0)
		err = mark_dirs(handle, r);
	if (err == 0)
		err = drop_victim(handle, victim);
	return err;
}

static int exchange_in_handle(handle_t *handle, struct renaming *r)
{
	struct inode *old = r->r_old.s_inode;
	struct inode *new = r->r_new.s_inode;
	struct dir_new old_entry = entry_of(old);
	struct dir_new new_entry = entry_of(new);
	bool same_dir = r->r_old.s_dir == r->r_new.s_dir;
	int err;

	err = prepare_inodes(handle, r);
	if (err == 0)
		err = prepare_side(handle, &r->r_old, !same_dir);
	if (err == 0)
		err = prepare_side(handle, &r->r_new, !same_dir);
	if (err == 0)
		err = ext4_dir_replace(handle, r->r_new.s_dir, &r->r_new.s_slot, &old_entry);
	if (err == 0)
		err = ext4_dir_replace(handle, r->r_old.s_dir, &r->r_old.s_slot, &new_entry);
	if (err == 0)
		err = set_parent(handle, &r->r_old, r->r_new.s_dir);
	if (err == 0)
		err = set_parent(handle, &r->r_new, r->r_old.s_dir);
	if (err != 0)
		return err;
	if (!same_dir && is_dir(old) != is_dir(new)) {
		ns_dir_dec_nlink(is_dir(old) ? r->r_old.s_dir : r->r_new.s_dir);
		ns_dir_inc_nlink(is_dir(old) ? r->r_new.s_dir : r->r_old.s_dir);
	}
	ns_touch(old, NS_TOUCH_CTIME);
	ns_touch(new, NS_TOUCH_CTIME);
	err = ext4_mark_inode_dirty(handle, old);
	if (err == 0)
		err = ext4_mark_inode_dirty(handle, new);
	return err != 0 ? err : mark_dirs(handle, r);
}

static int change(struct renaming *r)
{
	struct super_block *sb = r->r_old.s_dir->i_sb;
	bool exchange = (r->r_flags & RENAME_EXCHANGE) != 0;
	unsigned credits;
	handle_t *handle;
	int err = 0;

	if (!exchange && is_dir(r->r_new.s_inode)) {
		err = ext4_dir_is_empty(r->r_new.s_inode);
		err = err < 0 ? err : err == 0 ? -ENOTEMPTY : 0;
	}
	if (err == 0)
		err = check_links(r);
	if (err != 0)
		return err;
	/* The new name, the old entry, two blocks with "..", four inodes, the orphan list. */
	credits = ext4_dir_trans_blocks(sb) + 3 + 4 * EXT4_INODE_CREDITS + EXT4_ORPHAN_CREDITS;
	if ((r->r_flags & RENAME_WHITEOUT) != 0)
		credits += EXT4_NEW_INODE_CREDITS + EXT4_INODE_CREDITS + EXT4_ORPHAN_CREDITS;
	handle = ext4_journal_start_sb(sb, HT_DIR, credits, 0);
	if (IS_ERR(handle))
		return PTR_ERR(handle);
	err = exchange ? exchange_in_handle(handle, r) : move_in_handle(handle, r);
	ns_sync_handle(handle, r->r_old.s_dir);
	ns_sync_handle(handle, r->r_new.s_dir);
	return ext4_journal_stop(handle, err);
}

/* The directories are locked. */
static int rename_locked(struct renaming *r, const struct chain *old_chain,
			 const struct chain *new_chain)
{
	int err;

	if (atomic_load(&r->r_old.s_dir->i_nlink) == 0 ||
	    atomic_load(&r->r_new.s_dir->i_nlink) == 0)
		return -ENOENT;
	err = find_side(&r->r_old, false);
	if (err == 0 && r->r_old.s_inode == NULL)
		err = -ENOENT;
	if (err == 0)
		err = find_side(&r->r_new, (r->r_flags & RENAME_EXCHANGE) == 0);
	if (err != 0)
		return err;
	if (r->r_old.s_inode == r->r_new.s_inode)
		return (r->r_flags & RENAME_NOREPLACE) != 0 ? -EEXIST : 0;
	if (new_chain != NULL) {
		r->r_old_above_new = chain_has(new_chain, r->r_old.s_inode->i_ino);
		r->r_new_above_old =
			r->r_new.s_inode != NULL && chain_has(old_chain, r->r_new.s_inode->i_ino);
	}
	err = check_pair(r);
	if (err != 0)
		return err;
	ns_lock_children(r->r_old.s_inode, r->r_new.s_inode);
	err = change(r);
	ns_unlock_children(r->r_old.s_inode, r->r_new.s_inode);
	return err;
}

static void side_put(struct side *s)
{
	ext4_dir_slot_put(&s->s_slot);
	bh_put(s->s_dotdot);
	iput(s->s_inode);
}

/* It is held while ancestors are read from the disk. */
static void lock_renames(struct super_block *sb)
{
	if (mutex_trylock(&sb->s_rename_lock))
		return;
	thread_block_begin();
	mutex_lock(&sb->s_rename_lock);
	thread_block_end();
}

static int rename_across(struct renaming *r)
{
	struct super_block *sb = r->r_old.s_dir->i_sb;
	struct chain old_chain;
	struct chain new_chain;
	bool old_first;
	int err;

	lock_renames(sb);
	err = chain_walk(r->r_old.s_dir, &old_chain);
	if (err != 0) {
		chain_free(&old_chain);
		mutex_unlock(&sb->s_rename_lock);
		return err;
	}
	err = chain_walk(r->r_new.s_dir, &new_chain);
	if (err == 0) {
		if (chain_has(&new_chain, r->r_old.s_dir->i_ino))
			old_first = true;
		else if (chain_has(&old_chain, r->r_new.s_dir->i_ino))
			old_first = false;
		else
			old_first = (uintptr_t)r->r_old.s_dir < (uintptr_t)r->r_new.s_dir;
		lock_dirs(r, old_first);
		err = rename_locked(r, &old_chain, &new_chain);
		unlock_dirs(r);
	}
	chain_free(&new_chain);
	chain_free(&old_chain);
	mutex_unlock(&sb->s_rename_lock);
	return err;
}

static int rename_once(const struct renaming *args)
{
	struct renaming r = *args;
	int err;

	if (r.r_old.s_dir == r.r_new.s_dir) {
		down_write(&r.r_old.s_dir->i_rwsem);
		err = rename_locked(&r, NULL, NULL);
		up_write(&r.r_old.s_dir->i_rwsem);
	} else {
		err = rename_across(&r);
	}
	side_put(&r.r_old);
	side_put(&r.r_new);
	iput(r.r_whiteout);
	return err;
}

/* ---- Before the locks ---- */

/* If a file will replace another, its delayed data goes to the disk first. */
static int write_before_replace(const struct renaming *r)
{
	struct inode *old;
	struct inode *new;
	int err;

	if (!r->r_old.s_dir->i_sb->s_opts.o_auto_da_alloc ||
	    (r->r_flags & (RENAME_NOREPLACE | RENAME_EXCHANGE)) != 0)
		return 0;
	if (ext4_lookup(r->r_old.s_dir, r->r_old.s_name, r->r_old.s_len, &old) != 0)
		return 0;
	err = 0;
	if (S_ISREG(old->i_mode) && wb_inode_dirty(old) &&
	    ext4_lookup(r->r_new.s_dir, r->r_new.s_name, r->r_new.s_len, &new) == 0) {
		if (new != old && S_ISREG(new->i_mode))
			err = ext4_alloc_da_blocks(old, true);
		iput(new);
	}
	iput(old);
	return err;
}

int ext4_rename(struct inode *old_dir, const char *old_name, size_t old_len, struct inode *new_dir,
		const char *new_name, size_t new_len, unsigned flags)
{
	struct renaming r = {
		.r_old = {.s_dir = old_dir, .s_name = old_name, .s_len = old_len},
		.r_new = {.s_dir = new_dir, .s_name = new_name, .s_len = new_len},
		.r_flags = flags,
	};
	int err = ns_check_name(old_name, old_len);

	if (err == 0)
		err = ns_check_name(new_name, new_len);
	if (err != 0)
		return err;
	if ((flags & ~(unsigned)(RENAME_NOREPLACE | RENAME_EXCHANGE | RENAME_WHITEOUT)) != 0 ||
	    ((flags & RENAME_EXCHANGE) != 0 && flags != RENAME_EXCHANGE))
		return -EINVAL;
	if (ns_is_dots(old_name, old_len))
		return -EBUSY;
	if (ns_is_dots(new_name, new_len))
		return (flags & RENAME_NOREPLACE) != 0 ? -EEXIST : -EBUSY;
	if (!S_ISDIR(old_dir->i_mode) || !S_ISDIR(new_dir->i_mode))
		return -ENOTDIR;
	err = ext4_check_writable(old_dir->i_sb);
	if (err == 0)
		err = write_before_replace(&r);
	if (err != 0)
		return err;
	err = rename_once(&r);
	if (err == -ENOSPC) {
		ns_reclaim_space(old_dir->i_sb);
		err = rename_once(&r);
	}
	return err;
}
