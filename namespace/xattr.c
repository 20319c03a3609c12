/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * xattr.c - extended attributes of an inode: in the rest of its table entry, else in a block.
 *
 * An attribute is looked for in the inode first. A new value goes into the inode if there is room, else into the block;
 * the other place forgets the name in the same handle. Names get their prefix here; POSIX ACLs are in another format on
 * the disk than in system.posix_acl_* and go through acl.c.
 *
 * Invariants: (1) a name is in one place only. (2) Of a change that touches both places the part that may fail comes
 * first. (3) The inode's attribute space is trusted only after xattr_region_check(), at each use.
 * Locking: i_rwsem for write around changes (ACLs change the mode); i_xattr_sem for the places themselves, after the
 * handle. The inode's own space in its table block changes only under i_xattr_sem.
 */
#include <limits.h>
#include <string.h>
#include <sys/xattr.h>

#include "alloc/alloc.h"
#include "ext4/inode.h"
#include "ext4/jbd2_glue.h"
#include "ext4/super.h"
#include "namespace/acl.h"
#include "namespace/ns.h"
#include "namespace/xattr.h"
#include "util/assert.h"

#define IBODY_MAGIC_BYTES 4u

/* ---- The space in the inode ---- */

/*
 * The attribute space of the inode: r_bytes 0 if the inode has none. *bh is the caller's. `exists`: the magic is there
 * and the region was checked; else the space holds nothing.
 */
static int ibody_open(struct inode *inode, struct buffer_head **bh, struct xattr_region *r,
		      bool *exists)
{
	struct super_block *sb = inode->i_sb;
	unsigned header = EXT2_GOOD_OLD_INODE_SIZE + inode->i_extra_isize;
	unsigned offset;
	uint32_t magic;
	uint8_t *raw;
	const char *why;
	int err;

	*bh = NULL;
	*exists = false;
	memset(r, 0, sizeof(*r));
	if (sb->s_inode_size == EXT2_GOOD_OLD_INODE_SIZE || inode->i_extra_isize == 0)
		return 0;
	if ((header & 3u) != 0 || header + IBODY_MAGIC_BYTES > sb->s_inode_size)
		return ext4_error(sb, inode->i_ino, "bad extra isize %u", inode->i_extra_isize);
	/* No room even for one short entry. */
	if (header + IBODY_MAGIC_BYTES + sizeof(struct ext2_ext_attr_entry) + sizeof(uint32_t) >
	    sb->s_inode_size)
		return 0;
	err = ext4_get_inode_loc(inode, bh, &offset);
	if (err != 0)
		return err;
	raw = (uint8_t *)ext4_raw_inode(sb, *bh, offset);
	memcpy(&magic, raw + header, sizeof(magic));
	r->r_base = raw + header + IBODY_MAGIC_BYTES;
	r->r_bytes = sb->s_inode_size - header - IBODY_MAGIC_BYTES;
	if (le32_to_cpu(magic) != EXT2_EXT_ATTR_MAGIC)
		return 0;
	why = xattr_region_check(r);
	if (why != NULL) {
		bh_put(*bh);
		*bh = NULL;
		return ext4_error(sb, inode->i_ino, "attributes in the inode: %s", why);
	}
	*exists = true;
	return 0;
}

/* Put a rebuilt region into the inode. Write access granted. */
static int ibody_store(handle_t *handle, struct inode *inode, struct buffer_head *bh,
		       const struct xattr_region *at, const struct xattr_region *from)
{
	uint32_t magic = xattr_region_empty(from) ? 0 : cpu_to_le32(EXT2_EXT_ATTR_MAGIC);
	uint8_t *raw =
		at->r_base - IBODY_MAGIC_BYTES - EXT2_GOOD_OLD_INODE_SIZE - inode->i_extra_isize;

	lock_buffer(bh);
	memcpy(at->r_base - IBODY_MAGIC_BYTES, &magic, sizeof(magic));
	memcpy(at->r_base, from->r_base, at->r_bytes);
	ext4_raw_inode_csum_set(inode, (struct ext2_inode_large *)(void *)raw);
	unlock_buffer(bh);
	return ext4_handle_dirty_metadata(handle, inode, bh);
}

/* ---- Read ---- */

static ssize_t copy_value(const struct xattr_found *found, void *value, size_t size)
{
	if (size == 0)
		return (ssize_t)found->f_bytes;
	if (size < found->f_bytes)
		return -ERANGE;
	if (found->f_bytes > 0)
		memcpy(value, found->f_value, found->f_bytes);
	return (ssize_t)found->f_bytes;
}

static ssize_t get_locked(struct inode *inode, const struct xattr_name *name, void *value,
			  size_t size)
{
	struct xattr_region r;
	struct xattr_found found;
	struct buffer_head *bh;
	bool exists;
	ssize_t ret = ibody_open(inode, &bh, &r, &exists);

	if (ret != 0)
		return ret;
	if (exists && xattr_region_find(&r, name, &found)) {
		ret = copy_value(&found, value, size);
		bh_put(bh);
		return ret;
	}
	bh_put(bh);
	ret = ext4_xattr_block_read(inode, &bh, &r);
	if (ret != 0)
		return ret;
	ret = -ENODATA;
	if (bh != NULL && xattr_region_find(&r, name, &found))
		ret = copy_value(&found, value, size);
	bh_put(bh);
	return ret;
}

ssize_t ext4_xattr_get(struct inode *inode, const struct xattr_name *name, void *value, size_t size)
{
	ssize_t ret;

	down_read(&inode->i_xattr_sem);
	ret = get_locked(inode, name, value, size);
	up_read(&inode->i_xattr_sem);
	return ret;
}

bool ext4_xattr_none(struct inode *inode)
{
	struct buffer_head *bh;
	struct xattr_region r;
	bool exists = true;
	bool none;

	down_read(&inode->i_xattr_sem);
	none = inode->i_file_acl == 0 && ibody_open(inode, &bh, &r, &exists) == 0;
	if (none)
		bh_put(bh);
	up_read(&inode->i_xattr_sem);
	return none && !exists;
}

/* ---- Change ---- */

/* Both places of an inode, opened. */
struct places {
	struct xattr_region p_ibody, p_block;
	struct buffer_head *p_ibody_bh, *p_block_bh;
	bool p_has_ibody;	     /* there are attributes in the inode */
	bool p_in_ibody, p_in_block; /* where the name is */
	struct xattr_found p_found;
};

static int open_places(struct inode *inode, const struct xattr_name *name, struct places *p)
{
	int err;

	memset(p, 0, sizeof(*p));
	err = ibody_open(inode, &p->p_ibody_bh, &p->p_ibody, &p->p_has_ibody);
	if (err != 0)
		return err;
	err = ext4_xattr_block_read(inode, &p->p_block_bh, &p->p_block);
	if (err != 0) {
		bh_put(p->p_ibody_bh);
		return err;
	}
	p->p_in_ibody = p->p_has_ibody && xattr_region_find(&p->p_ibody, name, &p->p_found);
	p->p_in_block = !p->p_in_ibody && p->p_block_bh != NULL &&
			xattr_region_find(&p->p_block, name, &p->p_found);
	return 0;
}

/* What the flags and the present state say: 0 go on, 1 nothing to do, negative errno. */
static int check_change(const struct places *p, const struct xattr_change *change, int flags)
{
	bool there = p->p_in_ibody || p->p_in_block;

	if (!there && (change->c_remove || (flags & XATTR_REPLACE) != 0))
		return -ENODATA;
	if (there && (flags & XATTR_CREATE) != 0)
		return -EEXIST;
	if (there && !change->c_remove && change->c_bytes == p->p_found.f_bytes &&
	    (change->c_bytes == 0 ||
	     memcmp(change->c_value, p->p_found.f_value, change->c_bytes) == 0))
		return 1;
	return 0;
}

/* Consumes the references of p. */
static int change_places(handle_t *handle, struct inode *inode, struct places *p,
			 const struct xattr_change *change)
{
	struct xattr_change removal = {.c_name = change->c_name, .c_remove = true};
	uint32_t scratch[EXT4_FRAME_SIZE / sizeof(uint32_t)];
	struct xattr_region to = p->p_ibody;
	bool to_ibody = false;
	bool touch_ibody;
	int err = 0;

	ASSERT_CMP(p->p_ibody.r_bytes, <=, sizeof(scratch));
	to.r_base = (uint8_t *)scratch;
	if (p->p_ibody_bh != NULL)
		to_ibody = !(change->c_remove && !p->p_in_ibody) &&
			   xattr_region_rebuild(p->p_has_ibody ? &p->p_ibody : NULL, &to, change);
	touch_ibody = to_ibody;
	if (!to_ibody && p->p_in_ibody)
		touch_ibody = xattr_region_rebuild(&p->p_ibody, &to, &removal);
	if (touch_ibody)
		err = ext4_journal_get_write_access(handle, p->p_ibody_bh);
	if (err == 0 && (p->p_in_block || !to_ibody)) {
		err = ext4_xattr_block_set(handle, inode, p->p_block_bh, &p->p_block,
					   to_ibody ? &removal : change);
		p->p_block_bh = NULL;
	}
	if (err == 0 && touch_ibody)
		err = ibody_store(handle, inode, p->p_ibody_bh, &p->p_ibody, &to);
	bh_put(p->p_block_bh);
	bh_put(p->p_ibody_bh);
	return err;
}

/* The feature says that attributes may be there; old file systems get it with the first. */
static int set_feature(handle_t *handle, struct super_block *sb)
{
	int err;

	if (ext4_has_compat(sb, EXT2_FEATURE_COMPAT_EXT_ATTR))
		return 0;
	err = ext4_journal_get_write_access(handle, sb->s_sbh);
	if (err != 0)
		return err;
	mutex_lock(&sb->s_sb_lock);
	sb->s_es->s_feature_compat |= cpu_to_le32(EXT2_FEATURE_COMPAT_EXT_ATTR);
	mutex_unlock(&sb->s_sb_lock);
	return ext4_commit_super(handle, sb);
}

int ext4_xattr_set_handle(handle_t *handle, struct inode *inode, const struct xattr_change *change,
			  int flags)
{
	struct places p;
	int ret;

	ret = change->c_remove ? 0 : set_feature(handle, inode->i_sb);
	if (ret != 0)
		return ret;
	down_write(&inode->i_xattr_sem);
	ret = open_places(inode, &change->c_name, &p);
	if (ret == 0) {
		ret = check_change(&p, change, flags);
		if (ret == 0) {
			ret = change_places(handle, inode, &p, change);
		} else {
			bh_put(p.p_block_bh);
			bh_put(p.p_ibody_bh);
		}
	}
	up_write(&inode->i_xattr_sem);
	return ret > 0 ? 0 : ret;
}

unsigned ext4_xattr_credits(struct super_block *sb)
{
	/* The superblock for the feature flag. */
	return ext4_xattr_trans_blocks(sb) + EXT4_INODE_CREDITS + 1;
}

/* ---- Names ---- */

struct prefix {
	const char *x_text;
	uint8_t x_index;
	bool x_whole; /* the text is the whole name */
};

static const struct prefix prefixes[] = {
	{"user.", XATTR_INDEX_USER, false},
	{"trusted.", XATTR_INDEX_TRUSTED, false},
	{"security.", XATTR_INDEX_SECURITY, false},
	{"system.posix_acl_access", XATTR_INDEX_ACL_ACCESS, true},
	{"system.posix_acl_default", XATTR_INDEX_ACL_DEFAULT, true},
};
#define NR_PREFIXES (sizeof(prefixes) / sizeof(prefixes[0]))

static bool allowed_here(const struct inode *inode, uint8_t index)
{
	const struct ext4_options *o = &inode->i_sb->s_opts;

	switch (index) {
	case XATTR_INDEX_USER:
		return o->o_user_xattr && (S_ISREG(inode->i_mode) || S_ISDIR(inode->i_mode));
	case XATTR_INDEX_ACL_ACCESS:
	case XATTR_INDEX_ACL_DEFAULT:
		return o->o_acl && !S_ISLNK(inode->i_mode);
	default:
		return true;
	}
}

static int parse_name(const struct inode *inode, const char *full, struct xattr_name *name)
{
	for (size_t i = 0; i < NR_PREFIXES; i++) {
		const struct prefix *x = &prefixes[i];
		size_t n = strlen(x->x_text);
		size_t rest;

		if (strncmp(full, x->x_text, n) != 0 || (x->x_whole && full[n] != '\0'))
			continue;
		rest = strlen(full + n);
		if (!x->x_whole && rest == 0)
			return -EINVAL;
		if (rest > UINT8_MAX)
			return -ERANGE;
		name->n_index = x->x_index;
		name->n_len = (uint8_t)rest;
		name->n_name = full + n;
		return allowed_here(inode, x->x_index) ? 0 : -EOPNOTSUPP;
	}
	return -EOPNOTSUPP;
}

static bool is_acl(uint8_t index)
{
	return index == XATTR_INDEX_ACL_ACCESS || index == XATTR_INDEX_ACL_DEFAULT;
}

static enum acl_type acl_type_of(uint8_t index)
{
	return index == XATTR_INDEX_ACL_ACCESS ? ACL_TYPE_ACCESS : ACL_TYPE_DEFAULT;
}

/* ---- Exported ---- */

static ssize_t get_acl_value(struct inode *inode, enum acl_type type, void *value, size_t size)
{
	struct posix_acl *acl;
	ssize_t ret = ext4_get_acl(inode, type, &acl);

	if (ret != 0)
		return ret;
	if (acl == NULL)
		return -ENODATA;
	ret = ext4_acl_to_xattr(acl, value, size);
	posix_acl_put(acl);
	return ret;
}

ssize_t ext4_getxattr(struct inode *inode, const char *full, void *value, size_t size)
{
	struct xattr_name name;
	int err = parse_name(inode, full, &name);

	if (err != 0)
		return err;
	if (is_acl(name.n_index))
		return get_acl_value(inode, acl_type_of(name.n_index), value, size);
	return ext4_xattr_get(inode, &name, value, size);
}

/* After the change of an attribute: ctime, caches, the inode itself. */
static int finish_set(handle_t *handle, struct inode *inode, const struct xattr_change *change)
{
	if (change->c_name.n_index == XATTR_INDEX_SECURITY)
		ext4_cap_cache_forget(inode);
	ns_touch(inode, NS_TOUCH_CTIME);
	return ext4_mark_inode_dirty(handle, inode);
}

static int set_once(struct inode *inode, const struct xattr_change *change, int flags)
{
	handle_t *handle =
		ext4_journal_start_sb(inode->i_sb, HT_XATTR, ext4_xattr_credits(inode->i_sb), 1);
	int err;

	if (IS_ERR(handle))
		return PTR_ERR(handle);
	err = ext4_xattr_set_handle(handle, inode, change, flags);
	if (err == 0)
		err = finish_set(handle, inode, change);
	if (err == 0)
		ns_sync_handle(handle, inode);
	return ext4_journal_stop(handle, err);
}

/* False: no freed space can help, the value is larger than any place. */
static bool may_fit(const struct super_block *sb, const struct xattr_change *change)
{
	return EXT2_EXT_ATTR_SIZE(change->c_bytes) +
		       EXT2_EXT_ATTR_LEN((size_t)change->c_name.n_len) + sizeof(uint32_t) +
		       sizeof(struct ext2_ext_attr_header) <=
	       sb->s_blocksize;
}

int ext4_xattr_set_locked(struct inode *inode, const struct xattr_change *change, int flags)
{
	int err = set_once(inode, change, flags);

	if (err == -ENOSPC && may_fit(inode->i_sb, change)) {
		ns_reclaim_space(inode->i_sb);
		err = set_once(inode, change, flags);
	}
	return err;
}

/* The mode that goes with a new access ACL; the ACL itself is dropped when the mode says it all. */
static int acl_mode(const struct ns_cred *cred, struct posix_acl **acl, uint16_t *mode)
{
	int ret;

	if (*acl == NULL)
		return 0;
	ret = ext4_acl_equiv_mode(*acl, mode);
	if (ret < 0)
		return ret;
	if (cred != NULL && !cred->nc_fsetid)
		*mode &= (uint16_t)~S_ISGID;
	if (ret == 0) {
		posix_acl_put(*acl);
		*acl = NULL;
	}
	return 0;
}

static int set_acl_once(struct inode *inode, enum acl_type type, struct posix_acl *acl,
			uint16_t mode)
{
	handle_t *handle =
		ext4_journal_start_sb(inode->i_sb, HT_XATTR, ext4_xattr_credits(inode->i_sb), 1);
	int err;

	if (IS_ERR(handle))
		return PTR_ERR(handle);
	err = ext4_set_acl(handle, inode, type, acl);
	if (err == 0) {
		ns_set_mode(inode, mode);
		ns_touch(inode, NS_TOUCH_CTIME);
		err = ext4_mark_inode_dirty(handle, inode);
	}
	if (err == 0)
		ns_sync_handle(handle, inode);
	return ext4_journal_stop(handle, err);
}

static int set_acl_value(struct inode *inode, enum acl_type type, const struct xattr_change *change,
			 const struct ns_cred *cred)
{
	struct posix_acl *acl = NULL;
	uint16_t mode = inode->i_mode;
	int err = 0;

	if (!change->c_remove)
		err = ext4_acl_from_xattr(change->c_value, change->c_bytes, &acl);
	if (err == 0 && type == ACL_TYPE_DEFAULT && !S_ISDIR(inode->i_mode))
		err = acl != NULL ? -EACCES : 0;
	if (err == 0 && type == ACL_TYPE_ACCESS)
		err = acl_mode(cred, &acl, &mode);
	if (err == 0)
		err = set_acl_once(inode, type, acl, mode);
	if (err == -ENOSPC) {
		ns_reclaim_space(inode->i_sb);
		err = set_acl_once(inode, type, acl, mode);
	}
	posix_acl_put(acl);
	return err;
}

static int set_xattr(struct inode *inode, const char *full, struct xattr_change *change, int flags,
		     const struct ns_cred *cred)
{
	int err = parse_name(inode, full, &change->c_name);

	if (err == 0)
		err = ext4_check_writable(inode->i_sb);
	if (err != 0)
		return err;
	down_write(&inode->i_rwsem);
	if ((inode->i_flags & (EXT2_IMMUTABLE_FL | EXT2_APPEND_FL)) != 0)
		err = -EPERM;
	else if (is_acl(change->c_name.n_index))
		err = set_acl_value(inode, acl_type_of(change->c_name.n_index), change, cred);
	else
		err = ext4_xattr_set_locked(inode, change, flags);
	up_write(&inode->i_rwsem);
	return err;
}

int ext4_setxattr(struct inode *inode, const char *name, const void *value, size_t size, int flags,
		  const struct ns_cred *cred)
{
	struct xattr_change change = {.c_value = value, .c_bytes = size};

	if (size > XATTR_SIZE_MAX)
		return -E2BIG;
	return set_xattr(inode, name, &change, flags, cred);
}

int ext4_removexattr(struct inode *inode, const char *name)
{
	struct xattr_change change = {.c_remove = true};

	return set_xattr(inode, name, &change, XATTR_REPLACE, NULL);
}

/* ---- List ---- */

struct lister {
	struct inode *l_inode;
	char *l_list;
	size_t l_size;
	size_t l_used;
	bool l_privileged;
};

static int list_name(void *arg, const struct xattr_name *name)
{
	struct lister *l = arg;
	const struct prefix *x = NULL;
	size_t n;

	for (size_t i = 0; i < NR_PREFIXES; i++)
		if (prefixes[i].x_index == name->n_index)
			x = &prefixes[i];
	if (x == NULL || !allowed_here(l->l_inode, name->n_index) ||
	    (name->n_index == XATTR_INDEX_TRUSTED && !l->l_privileged))
		return 0;
	n = strlen(x->x_text);
	if (l->l_size > 0) {
		if (l->l_size - l->l_used < n + name->n_len + 1)
			return -ERANGE;
		memcpy(l->l_list + l->l_used, x->x_text, n);
		memcpy(l->l_list + l->l_used + n, name->n_name, name->n_len);
		l->l_list[l->l_used + n + name->n_len] = '\0';
	}
	l->l_used += n + name->n_len + 1;
	return 0;
}

static int list_locked(struct inode *inode, struct lister *l)
{
	struct xattr_region r;
	struct buffer_head *bh;
	bool exists;
	int err = ibody_open(inode, &bh, &r, &exists);

	if (err == 0 && exists)
		err = xattr_region_for_each(&r, list_name, l);
	if (err != 0) {
		bh_put(bh);
		return err;
	}
	bh_put(bh);
	err = ext4_xattr_block_read(inode, &bh, &r);
	if (err == 0 && bh != NULL)
		err = xattr_region_for_each(&r, list_name, l);
	bh_put(bh);
	return err;
}

ssize_t ext4_listxattr(struct inode *inode, char *list, size_t size, bool privileged)
{
	struct lister l = {
		.l_inode = inode, .l_list = list, .l_size = size, .l_privileged = privileged};
	int err;

	down_read(&inode->i_xattr_sem);
	err = list_locked(inode, &l);
	up_read(&inode->i_xattr_sem);
	return err != 0 ? err : (ssize_t)l.l_used;
}
