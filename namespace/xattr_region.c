/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * xattr_region.c - a set of extended attributes in memory: checked, searched, rebuilt with a change.
 *
 * Entries grow from the start of the region, values from its end; four zero bytes end the entries. A change never
 * edits in place: the whole region is written anew to other memory, which is what makes room and leaves no trace of the
 * old layout. Regions are a few KiB at most.
 *
 * Invariants: (1) after xattr_region_check() each entry, name and value lies inside the region, entries before values.
 * (2) In a rebuilt region no two values overlap, and in a block the entries are sorted by index, length, name.
 * Locking: none; the caller keeps the memory stable.
 */
#include <string.h>

#include "namespace/xattr.h"
#include "util/assert.h"

#define ENTRY_BYTES ((unsigned)sizeof(struct ext2_ext_attr_entry))
#define TERMINATOR_BYTES 4u
#define NAME_HASH_SHIFT 5
#define VALUE_HASH_SHIFT 16
#define HASH_BITS 32

_Static_assert(sizeof(struct ext2_ext_attr_entry) == 16, "size of an attribute entry");

/* ---- Walking ---- */

static struct ext2_ext_attr_entry *entry_at(const struct xattr_region *r, unsigned offset)
{
	return (struct ext2_ext_attr_entry *)(void *)(r->r_base + offset);
}

static bool last_entry(const struct xattr_region *r, unsigned offset)
{
	uint32_t word;

	memcpy(&word, r->r_base + offset, sizeof(word));
	return word == 0;
}

static unsigned entry_bytes(unsigned name_len)
{
	return EXT2_EXT_ATTR_LEN(name_len);
}

static unsigned value_bytes(size_t bytes)
{
	return (unsigned)EXT2_EXT_ATTR_SIZE(bytes);
}

static const char *entry_name(const struct ext2_ext_attr_entry *e)
{
	return (const char *)e + ENTRY_BYTES;
}

/* The offset behind the last entry, where the terminator is; UINT32_MAX and *why if there is none. */
static unsigned find_end(const struct xattr_region *r, const char **why)
{
	unsigned offset = r->r_first;

	while (offset + TERMINATOR_BYTES <= r->r_bytes) {
		const struct ext2_ext_attr_entry *e = entry_at(r, offset);

		if (last_entry(r, offset))
			return offset;
		if (r->r_bytes - offset < ENTRY_BYTES ||
		    r->r_bytes - offset < entry_bytes(e->e_name_len)) {
			*why = "entry crosses the end";
			return UINT32_MAX;
		}
		if (memchr(entry_name(e), '\0', e->e_name_len) != NULL) {
			*why = "zero byte in a name";
			return UINT32_MAX;
		}
		offset += entry_bytes(e->e_name_len);
	}
	*why = "entries without an end";
	return UINT32_MAX;
}

static const char *check_value(const struct xattr_region *r, const struct ext2_ext_attr_entry *e,
			       unsigned values_start)
{
	unsigned size = le32_to_cpu(e->e_value_size);
	unsigned offset = le16_to_cpu(e->e_value_offs);

	if (e->e_value_inum != 0)
		return "value in an inode";
	if (size == 0)
		return NULL;
	if (size > r->r_bytes)
		return "value larger than its place";
	if (offset < values_start)
		return "value overlaps the entries";
	if ((offset & EXT2_EXT_ATTR_ROUND) != 0)
		return "value is not aligned";
	if (offset > r->r_bytes || value_bytes(size) > r->r_bytes - offset)
		return "value crosses the end";
	return NULL;
}

const char *xattr_region_check(const struct xattr_region *r)
{
	const char *why = NULL;
	unsigned end = find_end(r, &why);

	if (why != NULL)
		return why;
	for (unsigned offset = r->r_first; offset < end;) {
		const struct ext2_ext_attr_entry *e = entry_at(r, offset);

		why = check_value(r, e, end + TERMINATOR_BYTES);
		if (why != NULL)
			return why;
		offset += entry_bytes(e->e_name_len);
	}
	return NULL;
}

static bool same_name(const struct ext2_ext_attr_entry *e, const struct xattr_name *name)
{
	return e->e_name_index == name->n_index && e->e_name_len == name->n_len &&
	       memcmp(entry_name(e), name->n_name, name->n_len) == 0;
}

bool xattr_region_find(const struct xattr_region *r, const struct xattr_name *name,
		       struct xattr_found *found)
{
	for (unsigned offset = r->r_first; !last_entry(r, offset);) {
		const struct ext2_ext_attr_entry *e = entry_at(r, offset);

		if (same_name(e, name)) {
			found->f_bytes = le32_to_cpu(e->e_value_size);
			found->f_value = found->f_bytes == 0
						 ? NULL
						 : r->r_base + le16_to_cpu(e->e_value_offs);
			return true;
		}
		offset += entry_bytes(e->e_name_len);
	}
	return false;
}

bool xattr_region_empty(const struct xattr_region *r)
{
	return last_entry(r, r->r_first);
}

int xattr_region_for_each(const struct xattr_region *r,
			  int (*fn)(void *arg, const struct xattr_name *name), void *arg)
{
	for (unsigned offset = r->r_first; !last_entry(r, offset);) {
		const struct ext2_ext_attr_entry *e = entry_at(r, offset);
		struct xattr_name name = {.n_index = e->e_name_index,
					  .n_len = e->e_name_len,
					  .n_name = entry_name(e)};
		int ret = fn(arg, &name);

		if (ret != 0)
			return ret;
		offset += entry_bytes(e->e_name_len);
	}
	return 0;
}

/* ---- Hashes ---- */

static uint32_t rotate(uint32_t v, unsigned bits)
{
	return (v << bits) | (v >> (HASH_BITS - bits));
}

/* Of a name and its value, zero-padded to words. */
static uint32_t entry_hash(const char *name, unsigned name_len, const uint8_t *value, size_t bytes)
{
	uint32_t hash = 0;

	for (unsigned i = 0; i < name_len; i++)
		hash = rotate(hash, NAME_HASH_SHIFT) ^ (uint8_t)name[i];
	for (size_t i = 0; i < bytes; i += sizeof(uint32_t)) {
		uint32_t word = 0;

		memcpy(&word, value + i, bytes - i < sizeof(word) ? bytes - i : sizeof(word));
		hash = rotate(hash, VALUE_HASH_SHIFT) ^ le32_to_cpu(word);
	}
	return hash;
}

uint32_t xattr_region_hash(const struct xattr_region *r)
{
	uint32_t hash = 0;

	for (unsigned offset = r->r_first; !last_entry(r, offset);) {
		const struct ext2_ext_attr_entry *e = entry_at(r, offset);

		/* A block with an entry that has no hash is never shared. */
		if (e->e_hash == 0)
			return 0;
		hash = rotate(hash, VALUE_HASH_SHIFT) ^ le32_to_cpu(e->e_hash);
		offset += entry_bytes(e->e_name_len);
	}
	return hash;
}

/* ---- Rebuilding ---- */

struct builder {
	const struct xattr_region *b_to;
	unsigned b_entries; /* where the next entry goes */
	unsigned b_values;  /* start of the values so far */
};

static bool build_entry(struct builder *b, const struct xattr_name *name, const uint8_t *value,
			size_t bytes)
{
	unsigned need = entry_bytes(name->n_len);
	unsigned padded = value_bytes(bytes);
	struct ext2_ext_attr_entry *e;

	if (bytes > b->b_to->r_bytes ||
	    b->b_entries + need + TERMINATOR_BYTES + padded > b->b_values)
		return false;
	e = entry_at(b->b_to, b->b_entries);
	e->e_name_len = name->n_len;
	e->e_name_index = name->n_index;
	e->e_value_size = cpu_to_le32((uint32_t)bytes);
	memcpy((char *)e + ENTRY_BYTES, name->n_name, name->n_len);
	if (bytes > 0) {
		b->b_values -= padded;
		memcpy(b->b_to->r_base + b->b_values, value, bytes);
		e->e_value_offs = cpu_to_le16((uint16_t)b->b_values);
	}
	if (b->b_to->r_block)
		e->e_hash = cpu_to_le32(entry_hash(name->n_name, name->n_len, value, bytes));
	b->b_entries += need;
	return true;
}

static bool sorts_before(const struct xattr_name *a, const struct xattr_name *b)
{
	if (a->n_index != b->n_index)
		return a->n_index < b->n_index;
	if (a->n_len != b->n_len)
		return a->n_len < b->n_len;
	return memcmp(a->n_name, b->n_name, a->n_len) < 0;
}

bool xattr_region_rebuild(const struct xattr_region *from, const struct xattr_region *to,
			  const struct xattr_change *change)
{
	struct builder b = {.b_to = to, .b_entries = to->r_first, .b_values = to->r_bytes};
	const struct xattr_name *name = &change->c_name;
	bool done = change->c_remove;
	bool fits = true;

	ASSERT(from == NULL || from->r_base != to->r_base);
	memset(to->r_base + to->r_first, 0, to->r_bytes - to->r_first);
	for (unsigned offset = from != NULL ? from->r_first : 0;
	     fits && from != NULL && !last_entry(from, offset);) {
		const struct ext2_ext_attr_entry *e = entry_at(from, offset);
		struct xattr_name old = {.n_index = e->e_name_index,
					 .n_len = e->e_name_len,
					 .n_name = entry_name(e)};
		bool same = same_name(e, name);

		if (!done && (to->r_block ? sorts_before(name, &old) : same)) {
			fits = build_entry(&b, name, change->c_value, change->c_bytes);
			done = true;
		}
		if (fits && !same)
			fits = build_entry(&b, &old, from->r_base + le16_to_cpu(e->e_value_offs),
					   le32_to_cpu(e->e_value_size));
		offset += entry_bytes(e->e_name_len);
	}
	if (fits && !done)
		fits = build_entry(&b, name, change->c_value, change->c_bytes);
	return fits;
}
