/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * features.c - which on-disk features are accepted, and how.
 *
 * One table, the same as in docs/FORMAT.md (a test walks the document against
 * ext4_check_features()). A feature of the compat set never stops a mount: old code may write
 * the file system by definition, unknown bits included. An unknown ro_compat bit makes the mount
 * read-only, an unknown incompat bit is refused; both are named by their mask.
 *
 * Invariants: (1) v_text names every feature that decided the verdict, as far as it fits. (2) A
 * refusal wins over read-only.
 * Locking: none; works on the caller's copy.
 */
#include <stdio.h>
#include <string.h>

#include "ext4/ext4_int.h"

enum feature_set { SET_COMPAT, SET_INCOMPAT, SET_RO_COMPAT };
enum feature_policy { POLICY_READ_WRITE, POLICY_READ_ONLY, POLICY_REFUSED };

struct feature {
	enum feature_set f_set;
	uint32_t f_mask;
	enum feature_policy f_policy;
	const char *f_name;
};

/* Names are those of mke2fs -O and dumpe2fs. */
static const struct feature features[] = {
	{SET_COMPAT, EXT2_FEATURE_COMPAT_DIR_PREALLOC, POLICY_READ_WRITE, "dir_prealloc"},
	{SET_COMPAT, EXT2_FEATURE_COMPAT_IMAGIC_INODES, POLICY_READ_WRITE, "imagic_inodes"},
	{SET_COMPAT, EXT3_FEATURE_COMPAT_HAS_JOURNAL, POLICY_READ_WRITE, "has_journal"},
	{SET_COMPAT, EXT2_FEATURE_COMPAT_EXT_ATTR, POLICY_READ_WRITE, "ext_attr"},
	{SET_COMPAT, EXT2_FEATURE_COMPAT_RESIZE_INODE, POLICY_READ_WRITE, "resize_inode"},
	{SET_COMPAT, EXT2_FEATURE_COMPAT_DIR_INDEX, POLICY_READ_WRITE, "dir_index"},
	{SET_COMPAT, EXT4_FEATURE_COMPAT_SPARSE_SUPER2, POLICY_READ_WRITE, "sparse_super2"},
	{SET_COMPAT, EXT4_FEATURE_COMPAT_FAST_COMMIT, POLICY_READ_WRITE, "fast_commit"},
	{SET_COMPAT, EXT4_FEATURE_COMPAT_STABLE_INODES, POLICY_READ_WRITE, "stable_inodes"},
	{SET_COMPAT, EXT4_FEATURE_COMPAT_ORPHAN_FILE, POLICY_READ_WRITE, "orphan_file"},
	{SET_INCOMPAT, EXT2_FEATURE_INCOMPAT_COMPRESSION, POLICY_REFUSED, "compression"},
	{SET_INCOMPAT, EXT2_FEATURE_INCOMPAT_FILETYPE, POLICY_READ_WRITE, "filetype"},
	{SET_INCOMPAT, EXT3_FEATURE_INCOMPAT_RECOVER, POLICY_READ_WRITE, "needs_recovery"},
	{SET_INCOMPAT, EXT3_FEATURE_INCOMPAT_JOURNAL_DEV, POLICY_REFUSED, "journal_dev"},
	{SET_INCOMPAT, EXT2_FEATURE_INCOMPAT_META_BG, POLICY_READ_WRITE, "meta_bg"},
	{SET_INCOMPAT, EXT3_FEATURE_INCOMPAT_EXTENTS, POLICY_READ_WRITE, "extent"},
	{SET_INCOMPAT, EXT4_FEATURE_INCOMPAT_64BIT, POLICY_READ_WRITE, "64bit"},
	{SET_INCOMPAT, EXT4_FEATURE_INCOMPAT_MMP, POLICY_REFUSED, "mmp"},
	{SET_INCOMPAT, EXT4_FEATURE_INCOMPAT_FLEX_BG, POLICY_READ_WRITE, "flex_bg"},
	{SET_INCOMPAT, EXT4_FEATURE_INCOMPAT_EA_INODE, POLICY_REFUSED, "ea_inode"},
	{SET_INCOMPAT, EXT4_FEATURE_INCOMPAT_DIRDATA, POLICY_REFUSED, "dirdata"},
	{SET_INCOMPAT, EXT4_FEATURE_INCOMPAT_CSUM_SEED, POLICY_READ_WRITE, "metadata_csum_seed"},
	{SET_INCOMPAT, EXT4_FEATURE_INCOMPAT_LARGEDIR, POLICY_READ_WRITE, "large_dir"},
	{SET_INCOMPAT, EXT4_FEATURE_INCOMPAT_INLINE_DATA, POLICY_REFUSED, "inline_data"},
	{SET_INCOMPAT, EXT4_FEATURE_INCOMPAT_ENCRYPT, POLICY_REFUSED, "encrypt"},
	{SET_INCOMPAT, EXT4_FEATURE_INCOMPAT_CASEFOLD, POLICY_REFUSED, "casefold"},
	{SET_RO_COMPAT, EXT2_FEATURE_RO_COMPAT_SPARSE_SUPER, POLICY_READ_WRITE, "sparse_super"},
	{SET_RO_COMPAT, EXT2_FEATURE_RO_COMPAT_LARGE_FILE, POLICY_READ_WRITE, "large_file"},
	{SET_RO_COMPAT, EXT4_FEATURE_RO_COMPAT_HUGE_FILE, POLICY_READ_WRITE, "huge_file"},
	{SET_RO_COMPAT, EXT4_FEATURE_RO_COMPAT_GDT_CSUM, POLICY_READ_WRITE, "uninit_bg"},
	{SET_RO_COMPAT, EXT4_FEATURE_RO_COMPAT_DIR_NLINK, POLICY_READ_WRITE, "dir_nlink"},
	{SET_RO_COMPAT, EXT4_FEATURE_RO_COMPAT_EXTRA_ISIZE, POLICY_READ_WRITE, "extra_isize"},
	{SET_RO_COMPAT, EXT4_FEATURE_RO_COMPAT_HAS_SNAPSHOT, POLICY_READ_ONLY, "snapshot"},
	{SET_RO_COMPAT, EXT4_FEATURE_RO_COMPAT_QUOTA, POLICY_READ_ONLY, "quota"},
	{SET_RO_COMPAT, EXT4_FEATURE_RO_COMPAT_BIGALLOC, POLICY_READ_ONLY, "bigalloc"},
	{SET_RO_COMPAT, EXT4_FEATURE_RO_COMPAT_METADATA_CSUM, POLICY_READ_WRITE, "metadata_csum"},
	{SET_RO_COMPAT, EXT4_FEATURE_RO_COMPAT_REPLICA, POLICY_READ_ONLY, "replica"},
	{SET_RO_COMPAT, EXT4_FEATURE_RO_COMPAT_READONLY, POLICY_READ_ONLY, "read-only"},
	{SET_RO_COMPAT, EXT4_FEATURE_RO_COMPAT_PROJECT, POLICY_READ_ONLY, "project"},
	{SET_RO_COMPAT, EXT4_FEATURE_RO_COMPAT_SHARED_BLOCKS, POLICY_READ_ONLY, "shared_blocks"},
	{SET_RO_COMPAT, EXT4_FEATURE_RO_COMPAT_VERITY, POLICY_READ_ONLY, "verity"},
	{SET_RO_COMPAT, EXT4_FEATURE_RO_COMPAT_ORPHAN_PRESENT, POLICY_READ_WRITE, "orphan_present"},
};

#define NR_FEATURES (sizeof(features) / sizeof(features[0]))

static void add_name(char *text, size_t size, const char *name)
{
	size_t used = strlen(text);

	if (used < size)
		snprintf(text + used, size - used, "%s%s", used > 0 ? ", " : "", name);
}

/* The names of all set features of one policy. Returns how many. */
static unsigned collect(const uint32_t *words, enum feature_policy policy, char *text, size_t size)
{
	unsigned n = 0;

	for (unsigned i = 0; i < NR_FEATURES; i++) {
		const struct feature *f = &features[i];

		if (f->f_policy != policy || (words[f->f_set] & f->f_mask) == 0)
			continue;
		add_name(text, size, f->f_name);
		n++;
	}
	return n;
}

static uint32_t unknown_bits(const uint32_t *words, enum feature_set set)
{
	uint32_t bits = words[set];

	for (unsigned i = 0; i < NR_FEATURES; i++)
		if (features[i].f_set == set)
			bits &= ~features[i].f_mask;
	return bits;
}

static unsigned collect_unknown(const uint32_t *words, enum feature_set set, char *text,
				size_t size)
{
	uint32_t bits = unknown_bits(words, set);
	char name[48];

	if (bits == 0)
		return 0;
	snprintf(name, sizeof(name), "unknown %s 0x%x",
		 set == SET_INCOMPAT ? "incompat" : "ro_compat", (unsigned)bits);
	add_name(text, size, name);
	return 1;
}

void ext4_check_features(const struct ext2_super_block *es, struct ext4_feature_verdict *v)
{
	const uint32_t words[] = {
		[SET_COMPAT] = le32_to_cpu(es->s_feature_compat),
		[SET_INCOMPAT] = le32_to_cpu(es->s_feature_incompat),
		[SET_RO_COMPAT] = le32_to_cpu(es->s_feature_ro_compat),
	};
	unsigned n;

	memset(v, 0, sizeof(*v));
	n = collect(words, POLICY_REFUSED, v->v_text, sizeof(v->v_text));
	n += collect_unknown(words, SET_INCOMPAT, v->v_text, sizeof(v->v_text));
	if (n > 0) {
		v->v_error = -EOPNOTSUPP;
		return;
	}
	n = collect(words, POLICY_READ_ONLY, v->v_text, sizeof(v->v_text));
	n += collect_unknown(words, SET_RO_COMPAT, v->v_text, sizeof(v->v_text));
	v->v_read_only = n > 0;
}

bool ext4_raw_needs_recovery(const void *raw)
{
	struct ext2_super_block es;

	memcpy(&es, raw, sizeof(es));
	return le16_to_cpu(es.s_magic) == EXT2_SUPER_MAGIC &&
	       (le32_to_cpu(es.s_feature_incompat) & EXT3_FEATURE_INCOMPAT_RECOVER) != 0;
}
