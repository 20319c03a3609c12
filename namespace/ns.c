/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * ns.c - what the operations on names share: checks of names, times, link counts, locks of children.
 *
 * Invariants: (1) a link count never goes below 0, that of a directory never to 1 from above but as "too many to
 * count". (2) Children are locked after their directories; of two a directory before a file, else by address.
 * Locking: see each function.
 */
#include "namespace/ns.h"

#include <string.h>

#include "util/assert.h"
#include "util/time.h"

#define RELATIME_SECONDS (24 * 60 * 60)

/* ---- Names ---- */

int ns_check_name(const char *name, size_t len)
{
	if (len == 0)
		return -ENOENT;
	if (len > NS_NAME_MAX)
		return -ENAMETOOLONG;
	if (memchr(name, '/', len) != NULL || memchr(name, '\0', len) != NULL)
		return -EINVAL;
	return 0;
}

bool ns_is_dots(const char *name, size_t len)
{
	return (len == 1 && name[0] == '.') || (len == 2 && name[0] == '.' && name[1] == '.');
}

struct ext4_cred ns_ext4_cred(const struct ns_cred *cred)
{
	struct ext4_cred c = {.cr_uid = cred->nc_uid,
			      .cr_gid = cred->nc_gid,
			      .cr_privileged = cred->nc_privileged};

	return c;
}

/* ---- Times and mode ---- */

void ns_touch(struct inode *inode, unsigned which)
{
	struct timespec now = ext4_clamp_time(inode, now_coarse());

	mutex_lock(&inode->i_lock);
	if ((which & NS_TOUCH_ATIME) != 0)
		inode->i_atime = now;
	if ((which & NS_TOUCH_MTIME) != 0)
		inode->i_mtime = now;
	if ((which & NS_TOUCH_CTIME) != 0)
		inode->i_ctime = now;
	inode->i_version++;
	mutex_unlock(&inode->i_lock);
}

void ns_set_mode(struct inode *inode, uint16_t mode)
{
	mutex_lock(&inode->i_lock);
	inode->i_mode = (uint16_t)((inode->i_mode & S_IFMT) | (mode & ~S_IFMT));
	mutex_unlock(&inode->i_lock);
}

static bool not_before(const struct timespec *a, const struct timespec *b)
{
	return a->tv_sec != b->tv_sec ? a->tv_sec > b->tv_sec : a->tv_nsec >= b->tv_nsec;
}

/* ext4: fs/inode.c relatime_need_update() */
static bool atime_is_old(const struct inode *inode, const struct timespec *now)
{
	const struct timespec *atime = &inode->i_atime;

	if (inode->i_sb->s_opts.o_atime == ATIME_STRICT)
		return atime->tv_sec != now->tv_sec || atime->tv_nsec != now->tv_nsec;
	return not_before(&inode->i_mtime, atime) || not_before(&inode->i_ctime, atime) ||
	       now->tv_sec - atime->tv_sec >= RELATIME_SECONDS;
}

void ns_accessed(struct inode *inode)
{
	const struct ext4_options *o = &inode->i_sb->s_opts;
	struct timespec now;
	bool set;

	if (sb_rdonly(inode->i_sb) || o->o_atime == ATIME_NOATIME ||
	    (inode->i_flags & EXT2_NOATIME_FL) != 0 || (o->o_nodiratime && S_ISDIR(inode->i_mode)))
		return;
	now = ext4_clamp_time(inode, now_coarse());
	mutex_lock(&inode->i_lock);
	set = atime_is_old(inode, &now);
	if (set)
		inode->i_atime = now;
	mutex_unlock(&inode->i_lock);
	if (set)
		ext4_inode_set_dirty(inode, o->o_lazytime ? I_DIRTY_TIME : I_DIRTY_SYNC);
}

/* ---- Space and durability ---- */

void ns_sync_handle(handle_t *handle, const struct inode *inode)
{
	const struct ext4_options *o = &inode->i_sb->s_opts;
	uint32_t flags = EXT2_SYNC_FL;

	if (S_ISDIR(inode->i_mode))
		flags |= EXT2_DIRSYNC_FL;
	if (o->o_sync || (S_ISDIR(inode->i_mode) && o->o_dirsync) || (inode->i_flags & flags) != 0)
		jbd2_handle_set_sync(handle);
}

void ns_reclaim_space(struct super_block *sb)
{
	ASSERT(jbd2_current_handle() == NULL);
	if (sb->s_upper != NULL && sb->s_upper->reclaim_space != NULL)
		sb->s_upper->reclaim_space(sb);
}

/* ---- Link counts ---- */

void ns_drop_nlink(struct inode *inode)
{
	uint32_t n = atomic_load(&inode->i_nlink);

	if (n == 0)
		ext4_warning(inode->i_sb, "inode #%u: a link goes but the count is 0",
			     inode->i_ino);
	else
		atomic_store(&inode->i_nlink, n - 1);
}

bool ns_dir_link_full(const struct inode *dir)
{
	if (atomic_load(&((struct inode *)(uintptr_t)dir)->i_nlink) < EXT4_LINK_MAX)
		return false;
	return !ext4_has_ro_compat(dir->i_sb, EXT4_FEATURE_RO_COMPAT_DIR_NLINK) ||
	       (dir->i_flags & EXT2_INDEX_FL) == 0;
}

void ns_dir_inc_nlink(struct inode *dir)
{
	uint32_t n = atomic_load(&dir->i_nlink) + 1;

	/* 1: more than can be counted; it stays so. */
	if ((dir->i_flags & EXT2_INDEX_FL) != 0 && (n > EXT4_LINK_MAX || n == 2))
		n = 1;
	atomic_store(&dir->i_nlink, n);
}

void ns_dir_dec_nlink(struct inode *dir)
{
	uint32_t n = atomic_load(&dir->i_nlink);

	if (n > 2)
		atomic_store(&dir->i_nlink, n - 1);
}

/* ---- Permission that the kernel cannot know ---- */

int ns_may_create(const struct inode *dir)
{
	if (atomic_load(&((struct inode *)(uintptr_t)dir)->i_nlink) == 0)
		return -ENOENT;
	return (dir->i_flags & EXT2_IMMUTABLE_FL) != 0 ? -EPERM : 0;
}

int ns_may_delete(const struct inode *dir, const struct inode *victim)
{
	const uint32_t fixed = EXT2_IMMUTABLE_FL | EXT2_APPEND_FL;

	return ((dir->i_flags | victim->i_flags) & fixed) != 0 ? -EPERM : 0;
}

/* ---- Locks ---- */

void ns_lock_child(struct inode *inode)
{
	if (inode != NULL)
		down_write_nested(&inode->i_rwsem);
}

/* A file may have another name inside a directory that is locked with it: directories come first. */
static bool locks_before(const struct inode *a, const struct inode *b)
{
	if (a == NULL || b == NULL || S_ISDIR(a->i_mode) == S_ISDIR(b->i_mode))
		return (uintptr_t)a < (uintptr_t)b;
	return S_ISDIR(a->i_mode);
}

void ns_lock_children(struct inode *a, struct inode *b)
{
	struct inode *first = locks_before(a, b) ? a : b;
	struct inode *second = first == a ? b : a;

	ns_lock_child(first);
	if (second != first)
		ns_lock_child(second);
}

void ns_unlock_children(struct inode *a, struct inode *b)
{
	if (a != NULL)
		up_write(&a->i_rwsem);
	if (b != NULL && b != a)
		up_write(&b->i_rwsem);
}
