/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef NAMESPACE_NAMESPACE_H
#define NAMESPACE_NAMESPACE_H
/*
 * Names, attributes and life of files: what the front calls. Names are bytes with a length, checked here first: empty -ENOENT or -EINVAL, over 255 -ENAMETOOLONG.
 * Returned inodes carry a reference. Permission bits of path walks are the kernel's work (default_permissions);
 * what it cannot know is checked here: immutable and append-only flags, sticky directories on the front's behalf only when asked, link limits.
 */

#include "writeback/writeback.h"

struct ns_cred {
	uint32_t nc_uid, nc_gid;
	uint32_t
		nc_umask; /* already applied by the kernel unless POSIX_ACL / DONT_MASK is in use */
	bool nc_privileged; /* CAP_SYS_RESOURCE or root: root reserve */
	bool nc_fsetid;	    /* keeps sgid */
};

/* ---- Mount ---- */

/* ext4_fill_super with all layers' hooks, alloc, writeback, and orphan processing. dev is consumed on success. */
int ext4_mount(struct blkdev *dev, const struct ext4_options *opts, struct super_block **sb_out);
/* Write everything, tear all layers down, close the device. Open inodes must have been put. Returns the first error. */
int ext4_umount(struct super_block *sb);

/* ---- Names ---- */

/* 0 and *out, or -ENOENT, -ENAMETOOLONG, -EFSCORRUPTED, -EIO. "." and ".." are answered too. */
int ext4_lookup(struct inode *dir, const char *name, size_t len, struct inode **out);
struct ns_new {
	const char *nn_name;
	size_t nn_len;
	uint16_t nn_mode; /* type and permissions; umask applied by ACL rules */
	uint32_t nn_rdev;
	const char *nn_target; /* symlink */
	const struct ns_cred *nn_cred;
};
int ext4_create(struct inode *dir, const struct ns_new *n,
		struct inode **out); /* regular, fifo, socket, device */
int ext4_mkdir(struct inode *dir, const struct ns_new *n, struct inode **out);
int ext4_symlink(struct inode *dir, const struct ns_new *n, struct inode **out);
/* O_TMPFILE: no name, on the orphan list; ext4_link() can give it one. */
int ext4_tmpfile(struct inode *dir, const struct ns_new *n, struct inode **out);
int ext4_link(struct inode *inode, struct inode *dir, const char *name, size_t len);
int ext4_unlink(struct inode *dir, const char *name, size_t len);
int ext4_rmdir(struct inode *dir, const char *name, size_t len);
/* flags: RENAME_NOREPLACE, RENAME_EXCHANGE, RENAME_WHITEOUT (the old name becomes a character device 0,0 of root), others -EINVAL. auto_da_alloc: the source's data is written and converted before the handle starts. */
int ext4_rename(struct inode *old_dir, const char *old_name, size_t old_len, struct inode *new_dir,
		const char *new_name, size_t new_len, unsigned flags);
/* The target of a symlink into buf (size >= 4097), NUL-terminated; its length or negative errno. */
int ext4_readlink(struct inode *inode, char *buf, size_t size);

/* ---- Reading directories ---- */

struct ns_dirent {
	uint64_t
		d_cookie; /* of the NEXT entry: pass it as `cookie` to go on after this one. Stable across changes of the directory. */
	uint32_t d_ino;
	uint8_t d_type; /* DT_* */
	uint8_t d_len;
	char d_name[256]; /* NUL-terminated */
};
/* State of one open directory. */
struct ns_dir;
int ext4_dir_open(struct inode *dir, struct ns_dir **out);
void ext4_dir_close(struct ns_dir *d);
/* Call emit for each entry from cookie on, "." and ".." first, until it returns false (that entry was not taken) or the end. 0 or negative errno. emit runs without any lock of the directory that a lookup needs. */
int ext4_dir_read(struct ns_dir *d, uint64_t cookie,
		  bool (*emit)(void *arg, const struct ns_dirent *de), void *arg);

/* ---- Attributes ---- */

void ext4_getattr(struct inode *inode, struct stat *st); /* st_blocks counts delayed blocks */
#define NS_SET_MODE (1u << 0)
#define NS_SET_UID (1u << 1)
#define NS_SET_GID (1u << 2)
#define NS_SET_SIZE (1u << 3)
#define NS_SET_ATIME (1u << 4)
#define NS_SET_MTIME (1u << 5)
#define NS_SET_CTIME (1u << 6)
#define NS_SET_ATIME_NOW (1u << 7)
#define NS_SET_MTIME_NOW (1u << 8)
#define NS_KILL_SUIDGID (1u << 9)
struct ns_attr {
	unsigned na_valid;
	uint16_t na_mode;
	uint32_t na_uid, na_gid;
	uint64_t na_size;
	struct timespec na_atime, na_mtime, na_ctime;
};
int ext4_setattr(struct inode *inode, const struct ns_attr *attr, const struct ns_cred *cred);
/* Drop suid, sgid (only with group execute) if kill_suidgid, and security.capability always; called at write, truncate, fallocate. Cheap when there is nothing to drop. i_rwsem held for write. */
int ext4_file_remove_privs(struct inode *inode, bool kill_suidgid);
/* FS_IOC_GETFLAGS / SETFLAGS (chattr), FS_IOC_FSGETXATTR-style values, generation. i_rwsem taken. */
uint32_t ext4_get_flags(struct inode *inode);
int ext4_set_flags(struct inode *inode, uint32_t flags, const struct ns_cred *cred);
int ext4_set_generation(struct inode *inode, uint32_t generation);

/* ---- Extended attributes ---- */

/* name with its prefix ("user.x"). Value length, or -ENODATA, -ERANGE (size too small; size 0 asks for the length), -EOPNOTSUPP (prefix, or not allowed on this file). */
ssize_t ext4_getxattr(struct inode *inode, const char *name, void *value, size_t size);
/* flags XATTR_CREATE, XATTR_REPLACE. -EEXIST, -ENODATA, -ENOSPC (does not fit), -ERANGE name too long, -E2BIG. */
int ext4_setxattr(struct inode *inode, const char *name, const void *value, size_t size, int flags,
		  const struct ns_cred *cred);
int ext4_removexattr(struct inode *inode, const char *name);
/* NUL-separated names. trusted.* only when privileged. */
ssize_t ext4_listxattr(struct inode *inode, char *list, size_t size, bool privileged);

/* ---- Open files ---- */

/* Checks at open that the kernel does not make: append-only needs O_APPEND for writing and no O_TRUNC, immutable. Does O_TRUNC (setting I_DA_ALLOC_CLOSE). kill_suidgid with O_TRUNC. */
int ext4_file_open(struct inode *inode, int o_flags, bool kill_suidgid);
void ext4_file_release(struct inode *inode, int o_flags);

#endif
