/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef NAMESPACE_ACL_H
#define NAMESPACE_ACL_H
/*
 * POSIX ACLs, and what is known of an inode's attributes without reading them: its ACLs, and whether it has
 * security.capability.
 */

#include "namespace/namespace.h"
#include "namespace/xattr.h"

/* e_tag */
#define ACL_USER_OBJ 0x01
#define ACL_USER 0x02
#define ACL_GROUP_OBJ 0x04
#define ACL_GROUP 0x08
#define ACL_MASK 0x10
#define ACL_OTHER 0x20

struct posix_acl_entry {
	uint16_t e_tag;
	uint16_t e_perm;
	uint32_t e_id; /* ACL_USER, ACL_GROUP */
};
struct posix_acl {
	_Atomic int a_refs;
	unsigned a_count;
	struct posix_acl_entry a_entries[];
};
void posix_acl_put(struct posix_acl *acl);

enum acl_type { ACL_TYPE_ACCESS, ACL_TYPE_DEFAULT };

/* The ACL with a reference, *out NULL if there is none. 0 or negative errno. */
int ext4_get_acl(struct inode *inode, enum acl_type type, struct posix_acl **out);

/* What a new inode gets. */
struct acl_inherit {
	uint16_t ai_mode;
	struct posix_acl *ai_access;  /* NULL: the mode says it all */
	struct posix_acl *ai_default; /* directories */
};
/* From the directory's default ACL, or the umask. dir's i_rwsem held. */
int ext4_acl_inherit(struct inode *dir, uint16_t mode, uint16_t umask, struct acl_inherit *out);
void ext4_acl_inherit_put(struct acl_inherit *ai);
/* Number of attributes that have to be written. */
unsigned ext4_acl_inherit_count(const struct acl_inherit *ai);
/* Write them; the inode is on disk already (its attribute space is zeroed). */
int ext4_acl_init(handle_t *handle, struct inode *inode, const struct acl_inherit *ai);
/* chmod: the ACL that goes with the new mode, *out NULL if the inode has none. To be written by ext4_set_acl(). */
int ext4_acl_chmod(struct inode *inode, uint16_t mode, struct posix_acl **out);
/* Write (NULL: remove) the ACL and remember it. Mode and ctime are the caller's. i_rwsem held for write. */
int ext4_set_acl(handle_t *handle, struct inode *inode, enum acl_type type, struct posix_acl *acl);

/* The format of system.posix_acl_*. */
ssize_t ext4_acl_to_xattr(const struct posix_acl *acl, void *value, size_t size);
/* *out NULL: no entries, the ACL is to be removed. -EINVAL, -EOPNOTSUPP (version), -ENOMEM. */
int ext4_acl_from_xattr(const void *value, size_t size, struct posix_acl **out);
/* The mode's permission bits as the ACL says. 0: the mode is equivalent to the ACL; 1: it is not. */
int ext4_acl_equiv_mode(const struct posix_acl *acl, uint16_t *mode);

/* ---- What is known of an inode ---- */

/* Nothing is there: a new inode, or one without attributes. */
void ext4_acl_cache_none(struct inode *inode);
/* Forget what was known. Member acl_destroy. */
void ext4_acl_cache_drop(struct inode *inode);
/* Has security.capability? 1, 0, or -1 unknown. */
int ext4_cap_cached(struct inode *inode);
void ext4_cap_cache(struct inode *inode, bool has);
/* Attributes of security.* changed. */
void ext4_cap_cache_forget(struct inode *inode);

#endif
