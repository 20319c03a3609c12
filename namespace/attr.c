/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * attr.c - attributes of an inode: read, set, and what a write takes away.
 *
 * A request that sets several things is done in the kernel's order: allowed at all, size, then the rest in one handle
 * together with the ACL that goes with a new mode. setuid and setgid go at each chown, and where the caller says so;
 * security.capability goes at chown, truncate and write in any case.
 *
 * Invariants: (1) the mode and the access ACL agree after each handle. (2) Whether an inode has a capability is asked
 * of the disk once and then known (acl.c). (3) ctime moves with each change.
 * Locking: i_rwsem for write around changes; i_lock for the fields.
 */
#include <string.h>
#include <sys/xattr.h>

#include "alloc/alloc.h"
#include "namespace/acl.h"
#include "namespace/ns.h"
#include "util/assert.h"
#include "util/time.h"
#include "writeback/writeback.h"

#define NS_SET_OWNER (NS_SET_UID | NS_SET_GID)
#define NS_SET_TIMES (NS_SET_ATIME | NS_SET_MTIME | NS_SET_CTIME)
#define NS_SET_NOW (NS_SET_ATIME_NOW | NS_SET_MTIME_NOW)

void ext4_getattr(struct inode *inode, struct stat *st)
{
	unsigned shift = inode->i_sb->s_blocksize_bits - 9;

	ext4_inode_getattr(inode, st);
	if (S_ISREG(inode->i_mode))
		st->st_blocks += (blkcnt_t)ext4_inode_reserved_blocks(inode) << shift;
}

/* ---- Privileges of the file ---- */

static const struct xattr_name capability_name = {
	.n_index = XATTR_INDEX_SECURITY, .n_len = 10, .n_name = "capability"};

/* 1, 0, or negative errno. */
static int has_capability(struct inode *inode)
{
	int known = ext4_cap_cached(inode);
	ssize_t n;

	if (known >= 0)
		return known;
	if (ext4_xattr_none(inode)) {
		ext4_acl_cache_none(inode);
		return 0;
	}
	n = ext4_xattr_get(inode, &capability_name, NULL, 0);
	if (n < 0 && n != -ENODATA)
		return (int)n;
	ext4_cap_cache(inode, n >= 0);
	return n >= 0;
}

static uint16_t without_suid(uint16_t mode)
{
	uint16_t drop = S_ISUID;

	if ((mode & S_IXGRP) != 0)
		drop |= S_ISGID;
	return (uint16_t)(mode & ~drop);
}

static int drop_capability(struct inode *inode, bool *dropped)
{
	struct xattr_change change = {.c_name = capability_name, .c_remove = true};
	int ret = has_capability(inode);

	if (ret <= 0)
		return ret;
	ret = ext4_xattr_set_locked(inode, &change, 0);
	if (ret == -ENODATA)
		return 0;
	*dropped = *dropped || ret == 0;
	return ret;
}

static int drop_suid(struct inode *inode, uint16_t mode)
{
	handle_t *handle = ext4_journal_start(inode, HT_INODE, EXT4_INODE_CREDITS);

	if (IS_ERR(handle))
		return PTR_ERR(handle);
	ns_set_mode(inode, mode);
	ns_touch(inode, NS_TOUCH_CTIME);
	return ext4_journal_stop(handle, ext4_mark_inode_dirty(handle, inode));
}

static uint16_t mode_without_privs(const struct inode *inode, unsigned kill)
{
	uint16_t mode = kill != 0 ? without_suid(inode->i_mode) : inode->i_mode;

	return (kill & EXT4_KILL_SGID) != 0 ? mode & (uint16_t)~S_ISGID : mode;
}

bool ns_file_has_privs(struct inode *inode, unsigned kill)
{
	return S_ISREG(inode->i_mode) &&
	       (mode_without_privs(inode, kill) != inode->i_mode || has_capability(inode) != 0);
}

int ns_file_remove_privs(struct inode *inode, unsigned kill, bool *dropped)
{
	uint16_t mode = mode_without_privs(inode, kill);
	int err;

	*dropped = false;
	if (!S_ISREG(inode->i_mode))
		return 0;
	err = drop_capability(inode, dropped);
	if (err != 0 || mode == inode->i_mode)
		return err;
	err = drop_suid(inode, mode);
	*dropped = *dropped || err == 0;
	return err;
}

int ext4_file_remove_privs(struct inode *inode, bool kill_suidgid)
{
	bool dropped;

	return ns_file_remove_privs(inode, kill_suidgid ? EXT4_KILL_SUIDGID : 0, &dropped);
}

/* ---- setattr ---- */

/* ext4: fs/attr.c notify_change() */
static int may_set(const struct inode *inode, const struct ns_attr *attr)
{
	unsigned valid = attr->na_valid;
	bool immutable = (inode->i_flags & EXT2_IMMUTABLE_FL) != 0;
	bool append = (inode->i_flags & EXT2_APPEND_FL) != 0;

	if ((valid & (NS_SET_MODE | NS_SET_OWNER | NS_SET_TIMES)) != 0 && (immutable || append))
		return -EPERM;
	if ((valid & (NS_SET_NOW | NS_SET_SIZE)) != 0 && immutable)
		return -EPERM;
	if ((valid & NS_SET_SIZE) == 0)
		return 0;
	if (append)
		return -EPERM;
	if (S_ISDIR(inode->i_mode))
		return -EISDIR;
	return S_ISREG(inode->i_mode) ? 0 : -EINVAL;
}

int ns_set_size_locked(struct inode *inode, uint64_t size, bool kill_suidgid)
{
	uint64_t old_size = i_size_read(inode);
	int err = ext4_file_remove_privs(inode, kill_suidgid);

	if (err == 0)
		err = ext4_truncate_to_locked(inode, size);
	if (err == 0 && size == 0 && old_size > 0 && inode->i_sb->s_opts.o_auto_da_alloc)
		atomic_fetch_or(&inode->i_state, I_DA_ALLOC_CLOSE);
	return err;
}

static uint16_t new_mode(const struct inode *inode, const struct ns_attr *attr)
{
	uint16_t mode = inode->i_mode;

	if ((attr->na_valid & NS_SET_MODE) != 0)
		return (uint16_t)((mode & S_IFMT) | (attr->na_mode & ~S_IFMT));
	if (S_ISDIR(mode))
		return mode;
	if ((attr->na_valid & (NS_SET_OWNER | NS_KILL_SUIDGID)) != 0)
		return without_suid(mode);
	return mode;
}

/* The fields in memory. */
static void apply(struct inode *inode, const struct ns_attr *attr, uint16_t mode)
{
	unsigned valid = attr->na_valid;
	struct timespec now = ext4_clamp_time(inode, now_coarse());

	mutex_lock(&inode->i_lock);
	inode->i_mode = mode;
	if ((valid & NS_SET_UID) != 0)
		inode->i_uid = attr->na_uid;
	if ((valid & NS_SET_GID) != 0)
		inode->i_gid = attr->na_gid;
	if ((valid & NS_SET_ATIME) != 0)
		inode->i_atime = ext4_clamp_time(inode, attr->na_atime);
	else if ((valid & NS_SET_ATIME_NOW) != 0)
		inode->i_atime = now;
	if ((valid & NS_SET_MTIME) != 0)
		inode->i_mtime = ext4_clamp_time(inode, attr->na_mtime);
	else if ((valid & (NS_SET_MTIME_NOW | NS_SET_SIZE)) != 0)
		inode->i_mtime = now;
	inode->i_ctime = (valid & NS_SET_CTIME) != 0 ? ext4_clamp_time(inode, attr->na_ctime) : now;
	inode->i_version++;
	mutex_unlock(&inode->i_lock);
}

static int apply_in_handle(struct inode *inode, const struct ns_attr *attr, uint16_t mode,
			   struct posix_acl *acl)
{
	unsigned credits = EXT4_INODE_CREDITS;
	handle_t *handle;
	int err = 0;

	if (acl != NULL)
		credits += ext4_xattr_credits(inode->i_sb);
	handle = ext4_journal_start_sb(inode->i_sb, HT_INODE, credits, 1);
	if (IS_ERR(handle))
		return PTR_ERR(handle);
	if (acl != NULL)
		err = ext4_set_acl(handle, inode, ACL_TYPE_ACCESS, acl);
	if (err == 0) {
		apply(inode, attr, mode);
		err = ext4_mark_inode_dirty(handle, inode);
		ns_sync_handle(handle, inode);
	}
	return ext4_journal_stop(handle, err);
}

static int setattr_locked(struct inode *inode, const struct ns_attr *attr)
{
	unsigned valid = attr->na_valid;
	struct posix_acl *acl = NULL;
	bool dropped = false;
	uint16_t mode;
	int err = may_set(inode, attr);

	if (err == 0 && (valid & NS_SET_SIZE) != 0)
		err = ns_set_size_locked(inode, attr->na_size, (valid & NS_KILL_SUIDGID) != 0);
	if (err == 0 && (valid & NS_SET_OWNER) != 0 && S_ISREG(inode->i_mode))
		err = drop_capability(inode, &dropped);
	mode = new_mode(inode, attr);
	if (err == 0 && (valid & NS_SET_MODE) != 0)
		err = ext4_acl_chmod(inode, mode, &acl);
	if (err == 0)
		err = apply_in_handle(inode, attr, mode, acl);
	if (err == -ENOSPC && acl != NULL) {
		ns_reclaim_space(inode->i_sb);
		err = apply_in_handle(inode, attr, mode, acl);
	}
	posix_acl_put(acl);
	return err;
}

int ext4_setattr(struct inode *inode, const struct ns_attr *attr, const struct ns_cred *cred)
{
	int err = ext4_check_writable(inode->i_sb);

	(void)cred; /* who may do it was decided by the kernel */
	if (err != 0)
		return err;
	down_write(&inode->i_rwsem);
	err = setattr_locked(inode, attr);
	up_write(&inode->i_rwsem);
	return err;
}
