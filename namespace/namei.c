/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * namei.c - one name: looked up, created, linked, removed.
 *
 * Each change is one handle: look first (without a handle), then start it, do what may fail, then the rest. A creation
 * that fails after the inode was allocated leaves it without links on the orphan list in the same handle, so that
 * neither a crash nor an error leaks it; its last reference evicts it. -ENOSPC is tried again once, after everything
 * that waits for a commit or an eviction has become free.
 *
 * Invariants: (1) an inode's link count and its entries change in one handle. (2) A directory with i_nlink 0 gets no
 * new entry. (3) No reference is dropped while a handle or a lock is held: the last one may evict.
 * Locking: the directory's i_rwsem (read to look up, write to change), then the child's, then the handle.
 */
#include <string.h>

#include "alloc/alloc.h"
#include "namespace/acl.h"
#include "namespace/dir.h"
#include "namespace/ns.h"
#include "util/assert.h"

/* ---- Lookup ---- */

/* The inode that an entry of dir names. */
static struct inode *entry_inode(struct inode *dir, uint32_t ino)
{
	struct inode *inode = ext4_iget(dir->i_sb, ino, EXT4_IGET_NORMAL);

	if (IS_ERR(inode) && PTR_ERR(inode) == -ESTALE)
		return ERR_PTR(
			ext4_error(dir->i_sb, dir->i_ino, "entry names deleted inode %u", ino));
	return inode;
}

static int lookup_locked(struct inode *dir, const char *name, size_t len, struct inode **out)
{
	bool dotdot = len == 2 && ns_is_dots(name, len);
	struct dir_slot slot;
	struct inode *inode;
	uint32_t ino;
	int ret;

	if (dotdot) {
		ret = ext4_dir_parent(dir, &ino);
	} else {
		/* Who asks for a name that is not there mostly wants to make it. */
		ret = ext4_dir_search(dir, name, len, true, &slot);
		ino = slot.ds_ino;
		if (ret == 0)
			ext4_dir_note_miss(dir, &slot);
		ext4_dir_slot_put(&slot);
		ret = ret == 0 ? -ENOENT : ret < 0 ? ret : 0;
	}
	if (ret != 0)
		return ret;
	if (ino == dir->i_ino && (!dotdot || ino != EXT4_ROOT_INO))
		return ext4_error(dir->i_sb, dir->i_ino, "'%.*s' is its own parent", (int)len,
				  name);
	inode = entry_inode(dir, ino);
	if (IS_ERR(inode))
		return PTR_ERR(inode);
	if (dotdot && !S_ISDIR(inode->i_mode)) {
		iput(inode);
		return ext4_error(dir->i_sb, dir->i_ino, "'..' names no directory");
	}
	*out = inode;
	return 0;
}

int ext4_lookup(struct inode *dir, const char *name, size_t len, struct inode **out)
{
	int err = ns_check_name(name, len);

	*out = NULL;
	if (err != 0)
		return err;
	if (!S_ISDIR(dir->i_mode))
		return -ENOTDIR;
	if (len == 1 && name[0] == '.') {
		ihold(dir);
		*out = dir;
		return 0;
	}
	down_read(&dir->i_rwsem);
	err = atomic_load(&dir->i_nlink) == 0 ? -ENOENT : lookup_locked(dir, name, len, out);
	up_read(&dir->i_rwsem);
	return err;
}

/* ---- Create ---- */

/* One attempt to create. */
struct creation {
	struct inode *c_dir;
	const struct ns_new *c_new;
	bool c_tmpfile;
	struct acl_inherit c_acl;
	struct dir_slot c_slot;
	struct inode *c_inode;
};

static unsigned creation_credits(const struct creation *c)
{
	struct super_block *sb = c->c_dir->i_sb;
	unsigned credits = EXT4_NEW_INODE_CREDITS + EXT4_INODE_CREDITS + EXT4_ORPHAN_CREDITS;

	if (!c->c_tmpfile)
		credits += ext4_dir_trans_blocks(sb);
	if (S_ISDIR(c->c_new->nn_mode))
		credits += ext4_dir_trans_blocks(sb);
	if (S_ISLNK(c->c_new->nn_mode))
		credits += ns_symlink_credits(sb, strlen(c->c_new->nn_target));
	return credits + ext4_acl_inherit_count(&c->c_acl) * ext4_xattr_credits(sb);
}

/* What is particular to the type, before the inode is written. */
static int init_by_type(handle_t *handle, const struct creation *c)
{
	struct inode *inode = c->c_inode;
	const struct ns_new *n = c->c_new;

	switch (inode->i_mode & S_IFMT) {
	case S_IFDIR:
		return ext4_dir_init(handle, inode, c->c_dir->i_ino);
	case S_IFLNK:
		return ns_symlink_init(handle, inode, n->nn_target, strlen(n->nn_target));
	case S_IFCHR:
	case S_IFBLK:
		inode->i_flags &= ~(uint32_t)EXT4_EXTENTS_FL;
		memset(inode->i_block, 0, sizeof(inode->i_block));
		inode->i_rdev = n->nn_rdev;
		return 0;
	case S_IFIFO:
	case S_IFSOCK:
		inode->i_flags &= ~(uint32_t)EXT4_EXTENTS_FL;
		memset(inode->i_block, 0, sizeof(inode->i_block));
		return 0;
	default:
		return 0;
	}
}

/* Give the new inode its name; the directory changes. */
static int add_name(handle_t *handle, struct creation *c)
{
	struct inode *dir = c->c_dir;
	struct dir_new entry = {.dn_ino = c->c_inode->i_ino,
				.dn_type = ext4_dirent_type(dir->i_sb, c->c_inode->i_mode)};
	int err = ext4_prepare_inode_write(handle, dir);

	if (err == 0)
		err = ext4_dir_insert(handle, dir, &c->c_slot, &entry);
	if (err != 0)
		return err;
	if (S_ISDIR(c->c_inode->i_mode))
		ns_dir_inc_nlink(dir);
	ns_touch(dir, NS_TOUCH_DIR);
	return ext4_mark_inode_dirty(handle, dir);
}

/* No name, but reachable by those who hold it. */
static int make_orphan(handle_t *handle, struct inode *inode)
{
	int err;

	atomic_store(&inode->i_nlink, 0);
	err = ext4_mark_inode_dirty(handle, inode);
	return err != 0 ? err : ext4_orphan_add(handle, inode);
}

static int fill_new_inode(handle_t *handle, struct creation *c)
{
	int err = init_by_type(handle, c);

	if (err == 0)
		err = ext4_mark_inode_dirty(handle, c->c_inode);
	if (err == 0)
		err = ext4_acl_init(handle, c->c_inode, &c->c_acl);
	/* A block for an ACL is in i_file_acl and i_blocks. */
	if (err == 0 && ext4_acl_inherit_count(&c->c_acl) > 0)
		err = ext4_mark_inode_dirty(handle, c->c_inode);
	return err;
}

/* The name as the allocator wants it: it spreads top level directories by it. */
static struct inode *new_inode(handle_t *handle, const struct creation *c)
{
	struct ext4_cred cred = ns_ext4_cred(c->c_new->nn_cred);
	char name[NS_NAME_MAX + 1] = "";

	if (S_ISDIR(c->c_acl.ai_mode)) {
		memcpy(name, c->c_new->nn_name, c->c_new->nn_len);
		name[c->c_new->nn_len] = '\0';
	}
	return ext4_new_inode(handle, c->c_dir, c->c_acl.ai_mode, &cred, name);
}

static int create_in_handle(handle_t *handle, struct creation *c)
{
	struct inode *inode = new_inode(handle, c);
	int err;

	if (IS_ERR(inode))
		return PTR_ERR(inode);
	c->c_inode = inode;
	err = fill_new_inode(handle, c);
	if (err == 0 && c->c_tmpfile) {
		atomic_fetch_or(&inode->i_state, I_LINKABLE);
		err = make_orphan(handle, inode);
	} else if (err == 0) {
		err = add_name(handle, c);
	}
	if (err != 0) {
		/* The first error is the one to report. */
		(void)make_orphan(handle, inode);
		return err;
	}
	ns_sync_handle(handle, c->c_dir);
	return 0;
}

/* Under the directory's lock: is the name free, and which mode and ACLs does the inode get? */
static int prepare_creation(struct creation *c)
{
	struct inode *dir = c->c_dir;
	const struct ns_new *n = c->c_new;
	uint16_t mode = n->nn_mode;
	int ret = ns_may_create(dir);

	if (ret != 0)
		return ret;
	/* ext4: fs/inode.c mode_strip_sgid() */
	if ((dir->i_mode & S_ISGID) != 0 && !S_ISDIR(mode) && !n->nn_cred->nc_fsetid &&
	    (mode & (S_ISGID | S_IXGRP)) == (S_ISGID | S_IXGRP))
		mode &= (uint16_t)~S_ISGID;
	if (!c->c_tmpfile) {
		ret = ext4_dir_search(dir, n->nn_name, n->nn_len, true, &c->c_slot);
		if (ret != 0)
			return ret < 0 ? ret : -EEXIST;
	}
	if (S_ISDIR(mode) && ns_dir_link_full(dir))
		return -EMLINK;
	return ext4_acl_inherit(dir, mode, n->nn_cred->nc_umask & 0777, &c->c_acl);
}

static int create_once(struct inode *dir, const struct ns_new *n, bool tmpfile, struct inode **out)
{
	struct creation c = {.c_dir = dir, .c_new = n, .c_tmpfile = tmpfile};
	handle_t *handle;
	int err;

	down_write(&dir->i_rwsem);
	err = prepare_creation(&c);
	if (err == 0) {
		handle = ext4_journal_start_sb(dir->i_sb, HT_DIR, creation_credits(&c), 0);
		err = IS_ERR(handle) ? PTR_ERR(handle)
				     : ext4_journal_stop(handle, create_in_handle(handle, &c));
	}
	ext4_dir_slot_put(&c.c_slot);
	up_write(&dir->i_rwsem);
	ext4_acl_inherit_put(&c.c_acl);
	if (err != 0)
		iput(c.c_inode);
	else
		*out = c.c_inode;
	return err;
}

static int create(struct inode *dir, const struct ns_new *n, bool tmpfile, struct inode **out)
{
	int err = ext4_check_writable(dir->i_sb);

	*out = NULL;
	if (err != 0)
		return err;
	if (!S_ISDIR(dir->i_mode))
		return -ENOTDIR;
	if (!tmpfile)
		err = ns_check_name(n->nn_name, n->nn_len);
	if (err == 0 && !tmpfile && ns_is_dots(n->nn_name, n->nn_len))
		err = -EEXIST;
	if (err != 0)
		return err;
	err = create_once(dir, n, tmpfile, out);
	if (err == -ENOSPC) {
		ns_reclaim_space(dir->i_sb);
		err = create_once(dir, n, tmpfile, out);
	}
	return err;
}

int ext4_create(struct inode *dir, const struct ns_new *n, struct inode **out)
{
	switch (n->nn_mode & S_IFMT) {
	case S_IFREG:
	case S_IFCHR:
	case S_IFBLK:
	case S_IFIFO:
	case S_IFSOCK:
		return create(dir, n, false, out);
	default:
		*out = NULL;
		return -EINVAL;
	}
}

int ext4_mkdir(struct inode *dir, const struct ns_new *n, struct inode **out)
{
	struct ns_new d = *n;

	d.nn_mode = (uint16_t)(S_IFDIR | (n->nn_mode & ~S_IFMT));
	return create(dir, &d, false, out);
}

int ext4_symlink(struct inode *dir, const struct ns_new *n, struct inode **out)
{
	struct ns_new l = *n;
	size_t len = strlen(n->nn_target);

	*out = NULL;
	if (len == 0)
		return -ENOENT;
	if (len >= dir->i_sb->s_blocksize)
		return -ENAMETOOLONG;
	l.nn_mode = S_IFLNK | 0777;
	return create(dir, &l, false, out);
}

int ext4_tmpfile(struct inode *dir, const struct ns_new *n, struct inode **out)
{
	struct ns_new t = *n;

	t.nn_mode = (uint16_t)(S_IFREG | (n->nn_mode & ~S_IFMT));
	return create(dir, &t, true, out);
}

/* ---- Link ---- */

static int link_in_handle(handle_t *handle, struct inode *inode, struct inode *dir,
			  struct dir_slot *slot)
{
	struct dir_new entry = {.dn_ino = inode->i_ino,
				.dn_type = ext4_dirent_type(dir->i_sb, inode->i_mode)};
	int err = ext4_prepare_inode_write(handle, dir);

	if (err == 0)
		err = ext4_prepare_inode_write(handle, inode);
	if (err == 0)
		err = ext4_dir_insert(handle, dir, slot, &entry);
	if (err != 0)
		return err;
	ns_touch(dir, NS_TOUCH_DIR);
	ns_touch(inode, NS_TOUCH_CTIME);
	if (atomic_fetch_add(&inode->i_nlink, 1) == 0) {
		atomic_fetch_and(&inode->i_state, ~I_LINKABLE);
		err = ext4_orphan_del(handle, inode);
	}
	if (err == 0)
		err = ext4_mark_inode_dirty(handle, dir);
	if (err == 0)
		err = ext4_mark_inode_dirty(handle, inode);
	ns_sync_handle(handle, dir);
	return err;
}

static int may_link(const struct inode *inode, struct inode *dir)
{
	uint32_t nlink = atomic_load(&((struct inode *)(uintptr_t)inode)->i_nlink);
	uint32_t state = atomic_load(&((struct inode *)(uintptr_t)inode)->i_state);
	int err = ns_may_create(dir);

	if (err != 0)
		return err;
	if (S_ISDIR(inode->i_mode) || (inode->i_flags & (EXT2_IMMUTABLE_FL | EXT2_APPEND_FL)) != 0)
		return -EPERM;
	if (nlink == 0 && (state & I_LINKABLE) == 0)
		return -ENOENT;
	return nlink >= EXT4_LINK_MAX ? -EMLINK : 0;
}

static int link_locked(struct inode *inode, struct inode *dir, const char *name, size_t len)
{
	struct super_block *sb = dir->i_sb;
	struct dir_slot slot;
	handle_t *handle;
	int err = may_link(inode, dir);

	if (err != 0)
		return err;
	err = ext4_dir_search(dir, name, len, true, &slot);
	if (err > 0)
		err = -EEXIST;
	if (err == 0) {
		handle = ext4_journal_start_sb(
			sb, HT_DIR,
			ext4_dir_trans_blocks(sb) + EXT4_INODE_CREDITS + EXT4_ORPHAN_CREDITS, 0);
		err = IS_ERR(handle) ? PTR_ERR(handle)
				     : ext4_journal_stop(handle,
							 link_in_handle(handle, inode, dir, &slot));
	}
	ext4_dir_slot_put(&slot);
	return err;
}

static int link_once(struct inode *inode, struct inode *dir, const char *name, size_t len)
{
	int err;

	down_write(&dir->i_rwsem);
	ns_lock_child(inode);
	err = link_locked(inode, dir, name, len);
	up_write(&inode->i_rwsem);
	up_write(&dir->i_rwsem);
	return err;
}

int ext4_link(struct inode *inode, struct inode *dir, const char *name, size_t len)
{
	int err = ns_check_name(name, len);

	if (err == 0 && ns_is_dots(name, len))
		err = -EEXIST;
	if (err == 0)
		err = ext4_check_writable(dir->i_sb);
	if (err == 0 && !S_ISDIR(dir->i_mode))
		err = -ENOTDIR;
	if (err == 0 && inode == dir)
		err = -EPERM;
	if (err != 0)
		return err;
	err = link_once(inode, dir, name, len);
	if (err == -ENOSPC) {
		ns_reclaim_space(dir->i_sb);
		err = link_once(inode, dir, name, len);
	}
	return err;
}

/* ---- Unlink, rmdir ---- */

static int unlink_in_handle(handle_t *handle, struct inode *dir, struct dir_slot *slot,
			    struct inode *inode)
{
	int err = ext4_prepare_inode_write(handle, dir);

	if (err == 0)
		err = ext4_prepare_inode_write(handle, inode);
	if (err == 0)
		err = ext4_dir_remove(handle, dir, slot);
	if (err != 0)
		return err;
	ns_touch(dir, NS_TOUCH_DIR);
	ns_touch(inode, NS_TOUCH_CTIME);
	if (S_ISDIR(inode->i_mode)) {
		if (atomic_load(&inode->i_nlink) > 2)
			ext4_warning(dir->i_sb, "inode #%u: empty directory with %u links",
				     inode->i_ino, atomic_load(&inode->i_nlink));
		atomic_store(&inode->i_nlink, 0);
		i_size_write(inode, 0);
		ns_dir_dec_nlink(dir);
	} else {
		ns_drop_nlink(inode);
	}
	err = ext4_mark_inode_dirty(handle, dir);
	if (err == 0 && atomic_load(&inode->i_nlink) == 0)
		err = ext4_orphan_add(handle, inode);
	if (err == 0)
		err = ext4_mark_inode_dirty(handle, inode);
	ns_sync_handle(handle, dir);
	return err;
}

/* Is this inode what the call takes? Both locked. */
static int check_victim(struct inode *dir, struct inode *inode, bool want_dir)
{
	int err = ns_may_delete(dir, inode);

	if (err != 0)
		return err;
	if (want_dir && !S_ISDIR(inode->i_mode))
		return -ENOTDIR;
	if (!want_dir)
		return S_ISDIR(inode->i_mode) ? -EISDIR : 0;
	if (inode->i_ino == EXT4_ROOT_INO)
		return -EBUSY;
	err = ext4_dir_is_empty(inode);
	return err < 0 ? err : err == 0 ? -ENOTEMPTY : 0;
}

static int remove_found(struct inode *dir, struct dir_slot *slot, struct inode *inode,
			bool want_dir)
{
	struct super_block *sb = dir->i_sb;
	handle_t *handle;
	int err;

	ns_lock_child(inode);
	err = check_victim(dir, inode, want_dir);
	if (err == 0) {
		/* The entry's block, both inodes, the orphan list. */
		handle = ext4_journal_start_sb(
			sb, HT_DIR, 1 + 2 * EXT4_INODE_CREDITS + EXT4_ORPHAN_CREDITS + 1, 0);
		err = IS_ERR(handle) ? PTR_ERR(handle)
				     : ext4_journal_stop(
					       handle, unlink_in_handle(handle, dir, slot, inode));
	}
	up_write(&inode->i_rwsem);
	return err;
}

static int remove_name(struct inode *dir, const char *name, size_t len, bool want_dir)
{
	struct inode *inode = NULL;
	struct dir_slot slot;
	int ret = ns_check_name(name, len);

	if (ret == 0)
		ret = ext4_check_writable(dir->i_sb);
	if (ret == 0 && !S_ISDIR(dir->i_mode))
		ret = -ENOTDIR;
	if (ret != 0)
		return ret;
	down_write(&dir->i_rwsem);
	ret = ext4_dir_search(dir, name, len, false, &slot);
	if (ret == 0)
		ret = -ENOENT;
	if (ret == 1) {
		inode = entry_inode(dir, slot.ds_ino);
		ret = IS_ERR(inode) ? PTR_ERR(inode) : 0;
	}
	if (ret == 0 && inode == dir)
		ret = ext4_error(dir->i_sb, dir->i_ino, "an entry names its own directory");
	else if (ret == 0)
		ret = remove_found(dir, &slot, inode, want_dir);
	ext4_dir_slot_put(&slot);
	up_write(&dir->i_rwsem);
	if (!IS_ERR(inode))
		iput(inode);
	return ret;
}

int ext4_unlink(struct inode *dir, const char *name, size_t len)
{
	if (ns_is_dots(name, len))
		return -EISDIR;
	return remove_name(dir, name, len, false);
}

int ext4_rmdir(struct inode *dir, const char *name, size_t len)
{
	if (ns_is_dots(name, len))
		return len == 1 ? -EINVAL : -ENOTEMPTY;
	return remove_name(dir, name, len, true);
}
