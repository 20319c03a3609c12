/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef NAMESPACE_NS_H
#define NAMESPACE_NS_H
/* Small things that the operations of this layer share (ns.c). */

#include "ext4/inode.h"
#include "ext4/jbd2_glue.h"
#include "ext4/super.h"
#include "namespace/namespace.h"

/* i_state: made by O_TMPFILE, may still get a name. A bit above those of ext4/ext4.h. */
#define I_LINKABLE (1u << 16)
/* Most hard links of a file; directories go on with a count of 1 where dir_nlink allows it. */
#define EXT4_LINK_MAX 65000u

#define NS_NAME_MAX 255u
/* 0, -ENOENT (empty), -ENAMETOOLONG, -EINVAL ('/' or a zero byte in it). */
int ns_check_name(const char *name, size_t len);
/* "." or "..". */
bool ns_is_dots(const char *name, size_t len);
struct ext4_cred ns_ext4_cred(const struct ns_cred *cred);

#define NS_TOUCH_ATIME (1u << 0)
#define NS_TOUCH_MTIME (1u << 1)
#define NS_TOUCH_CTIME (1u << 2)
#define NS_TOUCH_DIR (NS_TOUCH_MTIME | NS_TOUCH_CTIME)
/* Set times to now and count i_version, in memory. Takes i_lock. */
void ns_touch(struct inode *inode, unsigned which);
/* Permission bits; the type stays. Takes i_lock. */
void ns_set_mode(struct inode *inode, uint16_t mode);
/* The atime of a directory or symlink that was read, by the rule of the mount. */
void ns_accessed(struct inode *inode);

/* The handle's stop waits for the commit if the mount or the inode (chattr +S, +D) says so. */
void ns_sync_handle(handle_t *handle, const struct inode *inode);
/* -ENOSPC: whatever can become free becomes free. No handle is open; the directory may be locked. */
void ns_reclaim_space(struct super_block *sb);
/* Unless it is 0 already. */
void ns_drop_nlink(struct inode *inode);
/* A directory in which subdirectories come and go. ext4: fs/ext4/namei.c ext4_inc_count() */
bool ns_dir_link_full(const struct inode *dir);
void ns_dir_inc_nlink(struct inode *dir);
void ns_dir_dec_nlink(struct inode *dir);

/* May names be added to dir, or this victim be taken from it? 0, -ENOENT (dir is deleted), -EPERM. */
int ns_may_create(const struct inode *dir);
int ns_may_delete(const struct inode *dir, const struct inode *victim);

/* The lock of an inode below the directories that are locked already; NULL is allowed. Of two a directory first, else by address. */
void ns_lock_child(struct inode *inode);
void ns_lock_children(struct inode *a, struct inode *b);
void ns_unlock_children(struct inode *a, struct inode *b);

/* The symlink's target is in i_block. */
bool ns_fast_symlink(const struct inode *inode);
/* Write the target into a new inode. 0 or negative errno. */
int ns_symlink_init(handle_t *handle, struct inode *inode, const char *target, size_t len);
/* Credits that ns_symlink_init() needs beyond a new inode. */
unsigned ns_symlink_credits(struct super_block *sb, size_t len);
/* Are there fast commits to replay? */
bool ns_fc_pending(struct super_block *sb);
/*
 * Replay them: all in one transaction, so that a cut leaves either everything to be done again or nothing. The mount is writable, all layers are up, nobody uses it
 * yet, orphans are not processed (those of before, and those that the replay makes, are afterwards). On error nothing has changed and the file system is shut down.
 */
int ns_fc_replay(struct super_block *sb);
/* Member evict_inode. */
void ns_evict_inode(struct inode *inode);
/* Truncate with what goes with it; i_rwsem held for write. */
int ns_set_size_locked(struct inode *inode, uint64_t size, bool kill_suidgid);
/* Member file_remove_privs. */
int ns_file_remove_privs(struct inode *inode, unsigned kill, bool *dropped);
/* Member file_has_privs. */
bool ns_file_has_privs(struct inode *inode, unsigned kill);

#endif
