/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * alloc.c - the allocator's life, and what statfs says.
 *
 * Mounting reads nothing: the counters are the superblock's. Only after an unclean unmount, when
 * the superblock may be behind, they are summed over the descriptors, as the kernel does at each
 * mount. The overhead that statfs takes off is the superblock's too, or is computed when first
 * asked for.
 *
 * Invariants: (1) between init and exit sb->s_mb is there and the superblock's counters follow it
 * through the counts hook. (2) At exit nothing is reserved, preallocated or pending.
 * Locking: none of its own; init and exit run alone.
 */
#include <stdlib.h>

#include "alloc/mballoc_internal.h"
#include "ext4/jbd2_glue.h"
#include "util/assert.h"
#include "util/log.h"

#define POOL_PART 50u /* 2 % */
#define POOL_MAX 4096u

/* ---- Counters ---- */

struct counts {
	uint64_t n_free, n_inodes;
};

/* A damaged group counts as full. */
static void sum_descriptors(struct super_block *sb, struct counts *n)
{
	for (ext4_group_t group = 0; group < sb->s_groups_count; group++) {
		struct ext4_group_info *gi = ext4_get_group_info(sb, group);

		if (IS_ERR(gi))
			continue;
		n->n_free += atomic_load(&gi->bg_free_blocks);
		n->n_inodes += atomic_load(&gi->bg_free_inodes);
	}
}

uint64_t ext4_reserved_pool(const struct super_block *sb)
{
	uint64_t pool = sb->s_blocks_count / sb->s_cluster_ratio / POOL_PART;

	return pool < POOL_MAX ? pool : POOL_MAX;
}

static void init_counters(struct ext4_mballoc *mb)
{
	struct super_block *sb = mb->mb_sb;
	struct counts n = {0, 0};

	if (sb->s_clean_at_mount) {
		n.n_free = ext4_sb_free_blocks_at_mount(sb);
		n.n_inodes = ext4_sb_free_inodes_at_mount(sb);
	} else {
		sum_descriptors(sb, &n);
	}
	atomic_store(&mb->mb_free, (int64_t)n.n_free);
	atomic_store(&mb->mb_unclaimed, (int64_t)n.n_free);
	atomic_store(&mb->mb_free_inodes, (int64_t)n.n_inodes);
	mb->mb_pool = ext4_reserved_pool(sb);
}

static uint64_t not_negative(int64_t n)
{
	return n > 0 ? (uint64_t)n : 0;
}

static void give_counts(struct super_block *sb, uint64_t *free_blocks, uint64_t *free_inodes)
{
	struct ext4_mballoc *mb = ext4_mb(sb);

	*free_blocks = not_negative(atomic_load(&mb->mb_free));
	*free_inodes = not_negative(atomic_load(&mb->mb_free_inodes));
}

/* ---- statfs ---- */

/* ext4: fs/ext4/super.c ext4_calculate_overhead() */
static uint64_t compute_overhead(const struct super_block *sb)
{
	uint64_t blocks = sb->s_first_data_block;

	for (ext4_group_t group = 0; group < sb->s_groups_count; group++)
		blocks += ext4_group_overhead(sb, group) + 2 + sb->s_itb_per_group;
	for (unsigned i = 0; sb->s_journal_dev == NULL && i < sb->s_nr_journal_map; i++)
		blocks += sb->s_journal_map[i].le_len;
	return blocks;
}

static uint64_t overhead(struct super_block *sb)
{
	struct ext4_mballoc *mb = ext4_mb(sb);
	uint64_t blocks = atomic_load(&mb->mb_overhead);

	if (blocks != 0)
		return blocks;
	mutex_lock(&sb->s_sb_lock);
	blocks = (uint64_t)le32_to_cpu(sb->s_es->s_overhead_clusters) * sb->s_cluster_ratio;
	mutex_unlock(&sb->s_sb_lock);
	if (blocks == 0 || blocks > sb->s_blocks_count)
		blocks = compute_overhead(sb);
	if (blocks > sb->s_blocks_count)
		blocks = sb->s_blocks_count;
	atomic_store(&mb->mb_overhead, blocks);
	return blocks;
}

void ext4_space(struct super_block *sb, struct ext4_space *out)
{
	struct ext4_mballoc *mb = ext4_mb(sb);
	uint64_t kept = sb->s_r_blocks + mb->mb_pool;

	out->sp_blocks = sb->s_blocks_count;
	if (!sb->s_opts.o_minixdf)
		out->sp_blocks -= overhead(sb);
	out->sp_free = not_negative(atomic_load(&mb->mb_free) - atomic_load(&mb->mb_dirty) -
				    atomic_load(&mb->mb_dirty_meta));
	out->sp_avail = out->sp_free > kept ? out->sp_free - kept : 0;
	out->sp_inodes = sb->s_inodes_count;
	out->sp_free_inodes = not_negative(atomic_load(&mb->mb_free_inodes));
}

/* ---- Inodes ---- */

int ext4_alloc_inode_init(struct inode *inode)
{
	struct ext4_inode_alloc *ia = calloc(1, sizeof(*ia));

	if (ia == NULL)
		return -ENOMEM;
	ia->ia_inode = inode;
	inode->i_alloc = ia;
	ext4_es_init(inode);
	ext4_mb_pa_inode_init(inode);
	return 0;
}

void ext4_alloc_inode_destroy(struct inode *inode)
{
	struct ext4_inode_alloc *ia = inode->i_alloc;

	if (ia == NULL)
		return;
	/* An inode that was read before ext4_alloc_init() has none. */
	if (inode->i_sb->s_mb != NULL)
		ext4_mb_pa_discard_inode(inode);
	ASSERT_CMP(ia->ia_reserved, ==, 0u);
	ASSERT_CMP(ia->ia_reserved_meta, ==, 0u);
	ext4_es_destroy(inode);
	inode->i_alloc = NULL;
	free(ia);
}

/* ---- Life ---- */

int ext4_alloc_init(struct super_block *sb)
{
	struct ext4_mballoc *mb = calloc(1, sizeof(*mb));
	int err;

	if (mb == NULL)
		return -ENOMEM;
	mb->mb_sb = sb;
	err = ext4_mb_groups_init(mb);
	if (err != 0) {
		ext4_mb_groups_exit(mb);
		free(mb);
		return err;
	}
	ext4_mb_prealloc_init(mb);
	ext4_mb_free_init(mb);
	ext4_mb_inodes_init(mb);
	sb->s_mb = mb;
	init_counters(mb);
	ext4_set_counts_hook(sb, give_counts);
	return 0;
}

/*
 * The last counters go into the superblock; a read-only or aborted file system keeps what it has.
 */
static void write_counters(struct super_block *sb)
{
	handle_t *handle = ext4_journal_start_sb(sb, HT_MISC, 1, 0);
	int err;

	if (IS_ERR(handle))
		return;
	err = ext4_commit_super(handle, sb);
	(void)ext4_journal_stop(handle, err);
}

void ext4_alloc_exit(struct super_block *sb)
{
	struct ext4_mballoc *mb = ext4_mb(sb);

	if (mb == NULL)
		return;
	ext4_discard_all_preallocations(sb);
	if (!sb_rdonly(sb))
		write_counters(sb);
	ext4_mb_free_exit(mb);
	ASSERT_CMP(atomic_load(&mb->mb_dirty), ==, 0);
	ASSERT_CMP(atomic_load(&mb->mb_dirty_meta), ==, 0);
	ASSERT_CMP(atomic_load(&mb->mb_pending), ==, 0);
	ext4_set_counts_hook(sb, NULL);
	ext4_mb_groups_exit(mb);
	mutex_destroy(&mb->mb_pa_lock);
	sb->s_mb = NULL;
	free(mb);
}
