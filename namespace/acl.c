/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * acl.c - POSIX ACLs: their three formats, what a new file inherits, what chmod does to them, and a cache.
 *
 * On the disk an ACL is an attribute whose entries have an id only where it means something; in system.posix_acl_* each
 * entry has one; in memory it is an array that is never changed once others can see it. The cache also knows whether
 * an inode has security.capability, so that a write need not look. An inode without any attribute shares one constant
 * cache object: the usual file costs no memory.
 *
 * Invariants: (1) an ACL in memory passed acl_valid(). (2) The cache of an inode says what is on the disk or nothing;
 * it changes under i_rwsem for write, or is filled by readers under i_lock. (3) An access ACL that is equivalent to the
 * mode is not stored.
 * Locking: i_rwsem for write around changes; i_lock for the cache pointer and its fields.
 */
#include "namespace/acl.h"

#include <stdlib.h>
#include <string.h>

#include "ext4/super.h"
#include "namespace/ns.h"
#include "util/assert.h"

#define DISK_VERSION 1u
#define XATTR_VERSION 2u
#define HEADER_BYTES 4u
#define DISK_SHORT_BYTES 4u
#define DISK_LONG_BYTES 8u
#define XATTR_ENTRY_BYTES 8u
#define NO_ID UINT32_MAX
#define PERM_MASK 7u

/* ---- ACLs in memory ---- */

static struct posix_acl *acl_alloc(unsigned count)
{
	struct posix_acl *acl =
		malloc(sizeof(*acl) + (size_t)count * sizeof(struct posix_acl_entry));

	if (acl == NULL)
		return NULL;
	atomic_init(&acl->a_refs, 1);
	acl->a_count = count;
	return acl;
}

static struct posix_acl *acl_get(struct posix_acl *acl)
{
	if (acl != NULL)
		atomic_fetch_add(&acl->a_refs, 1);
	return acl;
}

void posix_acl_put(struct posix_acl *acl)
{
	if (acl != NULL && atomic_fetch_sub(&acl->a_refs, 1) == 1)
		free(acl);
}

static struct posix_acl *acl_clone(const struct posix_acl *acl)
{
	struct posix_acl *copy = acl_alloc(acl->a_count);

	if (copy != NULL)
		memcpy(copy->a_entries, acl->a_entries,
		       acl->a_count * sizeof(struct posix_acl_entry));
	return copy;
}

static bool has_id(uint16_t tag)
{
	return tag == ACL_USER || tag == ACL_GROUP;
}

/* The tags in their order: owner, users, group, groups, mask (if there are users or groups), other. */
static bool acl_valid(const struct posix_acl *acl)
{
	uint16_t last = 0;
	bool needs_mask = false;
	unsigned seen = 0;

	for (unsigned i = 0; i < acl->a_count; i++) {
		const struct posix_acl_entry *e = &acl->a_entries[i];
		bool once = !has_id(e->e_tag);

		if ((e->e_perm & ~PERM_MASK) != 0)
			return false;
		if (e->e_tag != ACL_USER_OBJ && e->e_tag != ACL_USER && e->e_tag != ACL_GROUP_OBJ &&
		    e->e_tag != ACL_GROUP && e->e_tag != ACL_MASK && e->e_tag != ACL_OTHER)
			return false;
		/* The values of the tags grow in this order. */
		if (e->e_tag < last || (once && e->e_tag == last))
			return false;
		if (!once)
			needs_mask = true;
		last = e->e_tag;
		seen |= e->e_tag;
	}
	if ((seen & (ACL_USER_OBJ | ACL_GROUP_OBJ | ACL_OTHER)) !=
	    (ACL_USER_OBJ | ACL_GROUP_OBJ | ACL_OTHER))
		return false;
	return !needs_mask || (seen & ACL_MASK) != 0;
}

static struct posix_acl_entry *find_tag(struct posix_acl *acl, uint16_t tag)
{
	for (unsigned i = 0; i < acl->a_count; i++)
		if (acl->a_entries[i].e_tag == tag)
			return &acl->a_entries[i];
	return NULL;
}

int ext4_acl_equiv_mode(const struct posix_acl *acl, uint16_t *mode)
{
	unsigned bits = 0;
	int not_equiv = 0;

	for (unsigned i = 0; i < acl->a_count; i++) {
		const struct posix_acl_entry *e = &acl->a_entries[i];

		switch (e->e_tag) {
		case ACL_USER_OBJ:
			bits |= (unsigned)e->e_perm << 6;
			break;
		case ACL_GROUP_OBJ:
			bits |= (unsigned)e->e_perm << 3;
			break;
		case ACL_OTHER:
			bits |= e->e_perm;
			break;
		case ACL_MASK:
			bits = (bits & ~(PERM_MASK << 3)) | ((unsigned)e->e_perm << 3);
			not_equiv = 1;
			break;
		default:
			not_equiv = 1;
			break;
		}
	}
	*mode = (uint16_t)((*mode & ~0777u) | bits);
	return not_equiv;
}

/* What may be done by the creator's mode and the ACL: both shrink to what both allow. 1: the mode does not say it all. */
static int create_masq(struct posix_acl *acl, uint16_t *mode_p)
{
	unsigned mode = *mode_p;
	struct posix_acl_entry *group = find_tag(acl, ACL_MASK);
	struct posix_acl_entry *owner = find_tag(acl, ACL_USER_OBJ);
	struct posix_acl_entry *other = find_tag(acl, ACL_OTHER);
	bool not_equiv = acl->a_count > 3;

	if (group == NULL)
		group = find_tag(acl, ACL_GROUP_OBJ);
	owner->e_perm &= (uint16_t)((mode >> 6) & PERM_MASK);
	group->e_perm &= (uint16_t)((mode >> 3) & PERM_MASK);
	other->e_perm &= (uint16_t)(mode & PERM_MASK);
	*mode_p = (uint16_t)((mode & ~0777u) | ((unsigned)owner->e_perm << 6) |
			     ((unsigned)group->e_perm << 3) | other->e_perm);
	return not_equiv;
}

/* ---- Formats ---- */

static void get_words(const uint8_t *p, struct posix_acl_entry *e)
{
	uint16_t w[2];

	memcpy(w, p, sizeof(w));
	e->e_tag = le16_to_cpu(w[0]);
	e->e_perm = le16_to_cpu(w[1]);
	e->e_id = NO_ID;
}

static void put_words(uint8_t *p, const struct posix_acl_entry *e)
{
	uint16_t w[2] = {cpu_to_le16(e->e_tag), cpu_to_le16(e->e_perm)};

	memcpy(p, w, sizeof(w));
}

static uint32_t get_u32(const uint8_t *p)
{
	uint32_t v;

	memcpy(&v, p, sizeof(v));
	return le32_to_cpu(v);
}

static void put_u32(uint8_t *p, uint32_t v)
{
	v = cpu_to_le32(v);
	memcpy(p, &v, sizeof(v));
}

/* NULL with *err -EFSCORRUPTED or -ENOMEM. */
static struct posix_acl *from_disk(const uint8_t *p, size_t bytes, int *err)
{
	struct posix_acl *acl;
	size_t pos = HEADER_BYTES;
	unsigned n = 0;

	*err = -EFSCORRUPTED;
	if (bytes < HEADER_BYTES || get_u32(p) != DISK_VERSION)
		return NULL;
	acl = acl_alloc((unsigned)((bytes - HEADER_BYTES) / DISK_SHORT_BYTES));
	if (acl == NULL) {
		*err = -ENOMEM;
		return NULL;
	}
	while (bytes - pos >= DISK_SHORT_BYTES) {
		struct posix_acl_entry *e = &acl->a_entries[n++];

		get_words(p + pos, e);
		if (has_id(e->e_tag) && bytes - pos >= DISK_LONG_BYTES) {
			e->e_id = get_u32(p + pos + DISK_SHORT_BYTES);
			pos += DISK_LONG_BYTES - DISK_SHORT_BYTES;
		} else if (has_id(e->e_tag)) {
			break;
		}
		pos += DISK_SHORT_BYTES;
	}
	acl->a_count = n;
	if (pos != bytes || !acl_valid(acl)) {
		free(acl);
		return NULL;
	}
	*err = 0;
	return acl;
}

static size_t disk_bytes(const struct posix_acl *acl)
{
	size_t bytes = HEADER_BYTES;

	for (unsigned i = 0; i < acl->a_count; i++)
		bytes += has_id(acl->a_entries[i].e_tag) ? DISK_LONG_BYTES : DISK_SHORT_BYTES;
	return bytes;
}

static void to_disk(const struct posix_acl *acl, uint8_t *p)
{
	put_u32(p, DISK_VERSION);
	p += HEADER_BYTES;
	for (unsigned i = 0; i < acl->a_count; i++) {
		const struct posix_acl_entry *e = &acl->a_entries[i];

		put_words(p, e);
		p += DISK_SHORT_BYTES;
		if (has_id(e->e_tag)) {
			put_u32(p, e->e_id);
			p += DISK_LONG_BYTES - DISK_SHORT_BYTES;
		}
	}
}

ssize_t ext4_acl_to_xattr(const struct posix_acl *acl, void *value, size_t size)
{
	size_t bytes = HEADER_BYTES + (size_t)acl->a_count * XATTR_ENTRY_BYTES;
	uint8_t *p = value;

	if (size == 0)
		return (ssize_t)bytes;
	if (size < bytes)
		return -ERANGE;
	put_u32(p, XATTR_VERSION);
	p += HEADER_BYTES;
	for (unsigned i = 0; i < acl->a_count; i++) {
		put_words(p, &acl->a_entries[i]);
		put_u32(p + 4, acl->a_entries[i].e_id);
		p += XATTR_ENTRY_BYTES;
	}
	return (ssize_t)bytes;
}

int ext4_acl_from_xattr(const void *value, size_t size, struct posix_acl **out)
{
	const uint8_t *p = value;
	struct posix_acl *acl;
	unsigned count;

	*out = NULL;
	if (size < HEADER_BYTES || (size - HEADER_BYTES) % XATTR_ENTRY_BYTES != 0)
		return -EINVAL;
	if (get_u32(p) != XATTR_VERSION)
		return -EOPNOTSUPP;
	count = (unsigned)((size - HEADER_BYTES) / XATTR_ENTRY_BYTES);
	if (count == 0)
		return 0;
	acl = acl_alloc(count);
	if (acl == NULL)
		return -ENOMEM;
	p += HEADER_BYTES;
	for (unsigned i = 0; i < count; i++, p += XATTR_ENTRY_BYTES) {
		get_words(p, &acl->a_entries[i]);
		if (has_id(acl->a_entries[i].e_tag))
			acl->a_entries[i].e_id = get_u32(p + 4);
	}
	if (!acl_valid(acl)) {
		free(acl);
		return -EINVAL;
	}
	*out = acl;
	return 0;
}

/* ---- The cache ---- */

#define KNOW_ACL(type) (1u << (type))
#define KNOW_CAP (1u << 2)
#define KNOW_ALL (KNOW_ACL(ACL_TYPE_ACCESS) | KNOW_ACL(ACL_TYPE_DEFAULT) | KNOW_CAP)

struct acl_cache {
	unsigned c_known;
	bool c_has_cap;
	struct posix_acl *c_acl[2];
};
/* Never changed: of all inodes that have nothing. */
static struct acl_cache nothing = {.c_known = KNOW_ALL};

static void cache_free(struct acl_cache *c)
{
	if (c == NULL || c == &nothing)
		return;
	posix_acl_put(c->c_acl[0]);
	posix_acl_put(c->c_acl[1]);
	free(c);
}

void ext4_acl_cache_drop(struct inode *inode)
{
	struct acl_cache *c;

	mutex_lock(&inode->i_lock);
	c = inode->i_acl_cache;
	inode->i_acl_cache = NULL;
	mutex_unlock(&inode->i_lock);
	cache_free(c);
}

void ext4_acl_cache_none(struct inode *inode)
{
	struct acl_cache *c;

	mutex_lock(&inode->i_lock);
	c = inode->i_acl_cache;
	inode->i_acl_cache = &nothing;
	mutex_unlock(&inode->i_lock);
	cache_free(c);
}

/* The inode's own object, made if needed; NULL without memory. i_lock held. */
static struct acl_cache *own_cache(struct inode *inode)
{
	struct acl_cache *c = inode->i_acl_cache;

	if (c != NULL && c != &nothing)
		return c;
	c = calloc(1, sizeof(*c));
	if (c == NULL) {
		inode->i_acl_cache = NULL;
		return NULL;
	}
	if (inode->i_acl_cache == &nothing)
		c->c_known = KNOW_ALL;
	inode->i_acl_cache = c;
	return c;
}

/* Remember an ACL (NULL: there is none). */
static void cache_acl(struct inode *inode, enum acl_type type, struct posix_acl *acl)
{
	struct posix_acl *old = NULL;
	struct acl_cache *c;

	mutex_lock(&inode->i_lock);
	if (acl != NULL || inode->i_acl_cache != &nothing) {
		c = own_cache(inode);
		if (c != NULL) {
			old = c->c_acl[type];
			c->c_acl[type] = acl_get(acl);
			c->c_known |= KNOW_ACL(type);
		}
	}
	mutex_unlock(&inode->i_lock);
	posix_acl_put(old);
}

int ext4_cap_cached(struct inode *inode)
{
	const struct acl_cache *c;
	int ret;

	mutex_lock(&inode->i_lock);
	c = inode->i_acl_cache;
	ret = c == NULL || (c->c_known & KNOW_CAP) == 0 ? -1 : c->c_has_cap;
	mutex_unlock(&inode->i_lock);
	return ret;
}

void ext4_cap_cache(struct inode *inode, bool has)
{
	struct acl_cache *c;

	mutex_lock(&inode->i_lock);
	if (has || inode->i_acl_cache != &nothing) {
		c = own_cache(inode);
		if (c != NULL) {
			c->c_has_cap = has;
			c->c_known |= KNOW_CAP;
		}
	}
	mutex_unlock(&inode->i_lock);
}

void ext4_cap_cache_forget(struct inode *inode)
{
	struct acl_cache *c;

	mutex_lock(&inode->i_lock);
	if (inode->i_acl_cache != NULL) {
		c = own_cache(inode);
		if (c != NULL)
			c->c_known &= ~KNOW_CAP;
	}
	mutex_unlock(&inode->i_lock);
}

/* ---- Read ---- */

static struct xattr_name acl_name(enum acl_type type)
{
	struct xattr_name name = {.n_index = type == ACL_TYPE_ACCESS ? XATTR_INDEX_ACL_ACCESS
								     : XATTR_INDEX_ACL_DEFAULT,
				  .n_name = ""};

	return name;
}

static int read_acl(struct inode *inode, enum acl_type type, struct posix_acl **out)
{
	struct xattr_name name = acl_name(type);
	uint8_t value[EXT4_FRAME_SIZE];
	ssize_t n;
	int err;

	if (ext4_xattr_none(inode)) {
		ext4_acl_cache_none(inode);
		return 0;
	}
	n = ext4_xattr_get(inode, &name, value, sizeof(value));
	if (n < 0 && n != -ENODATA)
		return (int)n;
	if (n >= 0) {
		*out = from_disk(value, (size_t)n, &err);
		if (*out == NULL && err == -EFSCORRUPTED)
			return ext4_error(inode->i_sb, inode->i_ino, "damaged ACL");
		if (*out == NULL)
			return err;
	}
	cache_acl(inode, type, *out);
	return 0;
}

int ext4_get_acl(struct inode *inode, enum acl_type type, struct posix_acl **out)
{
	const struct acl_cache *c;
	bool known;

	*out = NULL;
	if (!inode->i_sb->s_opts.o_acl || S_ISLNK(inode->i_mode))
		return 0;
	mutex_lock(&inode->i_lock);
	c = inode->i_acl_cache;
	known = c != NULL && (c->c_known & KNOW_ACL(type)) != 0;
	if (known)
		*out = acl_get(c->c_acl[type]);
	mutex_unlock(&inode->i_lock);
	return known ? 0 : read_acl(inode, type, out);
}

/* ---- Change ---- */

int ext4_set_acl(handle_t *handle, struct inode *inode, enum acl_type type, struct posix_acl *acl)
{
	struct xattr_change change = {.c_name = acl_name(type), .c_remove = acl == NULL};
	uint8_t value[EXT4_FRAME_SIZE];
	int err;

	if (acl != NULL) {
		change.c_bytes = disk_bytes(acl);
		if (change.c_bytes > sizeof(value))
			return -ENOSPC;
		to_disk(acl, value);
		change.c_value = value;
	}
	err = ext4_xattr_set_handle(handle, inode, &change, 0);
	if (err == -ENODATA && acl == NULL)
		err = 0;
	if (err == 0)
		cache_acl(inode, type, acl);
	return err;
}

int ext4_acl_chmod(struct inode *inode, uint16_t mode, struct posix_acl **out)
{
	struct posix_acl *old;
	struct posix_acl_entry *group;
	int err = ext4_get_acl(inode, ACL_TYPE_ACCESS, &old);

	*out = NULL;
	if (err != 0 || old == NULL)
		return err;
	*out = acl_clone(old);
	posix_acl_put(old);
	if (*out == NULL)
		return -ENOMEM;
	group = find_tag(*out, ACL_MASK);
	if (group == NULL)
		group = find_tag(*out, ACL_GROUP_OBJ);
	find_tag(*out, ACL_USER_OBJ)->e_perm = (uint16_t)((mode >> 6) & PERM_MASK);
	group->e_perm = (uint16_t)((mode >> 3) & PERM_MASK);
	find_tag(*out, ACL_OTHER)->e_perm = (uint16_t)(mode & PERM_MASK);
	return 0;
}

/* ---- Inheritance ---- */

int ext4_acl_inherit(struct inode *dir, uint16_t mode, uint16_t umask, struct acl_inherit *out)
{
	struct posix_acl *def;
	struct posix_acl *access;
	int err;

	memset(out, 0, sizeof(*out));
	out->ai_mode = mode;
	if (S_ISLNK(mode))
		return 0;
	err = ext4_get_acl(dir, ACL_TYPE_DEFAULT, &def);
	if (err != 0)
		return err;
	if (def == NULL) {
		out->ai_mode = (uint16_t)(mode & ~umask);
		return 0;
	}
	access = acl_clone(def);
	if (access == NULL) {
		posix_acl_put(def);
		return -ENOMEM;
	}
	if (create_masq(access, &out->ai_mode) != 0) {
		out->ai_access = access;
	} else {
		posix_acl_put(access);
	}
	if (S_ISDIR(mode))
		out->ai_default = def;
	else
		posix_acl_put(def);
	return 0;
}

void ext4_acl_inherit_put(struct acl_inherit *ai)
{
	posix_acl_put(ai->ai_access);
	posix_acl_put(ai->ai_default);
	ai->ai_access = NULL;
	ai->ai_default = NULL;
}

unsigned ext4_acl_inherit_count(const struct acl_inherit *ai)
{
	return (ai->ai_access != NULL ? 1u : 0) + (ai->ai_default != NULL ? 1u : 0);
}

int ext4_acl_init(handle_t *handle, struct inode *inode, const struct acl_inherit *ai)
{
	int err = 0;

	ext4_acl_cache_none(inode);
	if (ai->ai_access != NULL)
		err = ext4_set_acl(handle, inode, ACL_TYPE_ACCESS, ai->ai_access);
	if (err == 0 && ai->ai_default != NULL)
		err = ext4_set_acl(handle, inode, ACL_TYPE_DEFAULT, ai->ai_default);
	return err;
}
