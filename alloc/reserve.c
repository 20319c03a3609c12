/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * reserve.c - who may count on how many free blocks.
 *
 * One number, mb_unclaimed, says how many free blocks nobody has claimed. An allocation claims
 * before it searches; a delayed write reserves, for its data and for the index blocks they may
 * need, and so never meets a full disk in writeback. Each class of callers leaves something: users
 * the root reserve and the pool, root the pool, splits and conversions nothing. Whose
 * allocation without a reservation it is, is a matter of the thread (ext4_allocate_for()). A claim is one
 * compare-and-swap. Blocks freed in a transaction that has not committed count as free here: who
 * finds none of them allocatable yet commits and tries again.
 *
 *   reserve        unclaimed -n            dirty +n
 *   release        unclaimed +n            dirty -n
 *   allocate       unclaimed -n  free -n   a delayed block, and then
 *                  unclaimed +n            dirty -n   in ext4_da_update_reserve_space()
 *   allocate       claim: unclaimed -n, then free -n; what was not used: unclaimed +
 *   free           unclaimed +n  free +n
 *
 * Metadata: a bound on the blocks that the inode's delayed blocks can need, were each an extent of
 * its own. It grows with the reservation, shrinks with it, and ends when the inode has no delayed
 * block. An index block allocated meanwhile is taken out of it. ext4: fs/ext4/inode.c
 * ext4_da_reserve_space(), ext4_da_update_reserve_space(); the bound follows
 * ext4_ext_calc_metadata_amount().
 *
 * Invariants: (1) with nothing on its way: unclaimed = free - dirty - dirty_meta. (2) mb_dirty and
 * mb_dirty_meta are the sums over the inodes. (3) ia_reserved is the number of delayed blocks in
 * the status tree whenever i_data_sem is free. (4) ia_reserved 0 implies ia_reserved_meta 0.
 * Locking: i_data_sem for write for a change of an inode's delayed blocks; i_es_lock for its
 * counts. Claims take no lock.
 */
#include "alloc/mballoc_internal.h"

#include <ext2fs/ext3_extents.h>
#include <string.h>
#include <time.h>

#include "util/assert.h"
#include "util/trace.h"

#define ROOT_EXTENTS 4u	  /* that fit into i_block */
#define EXTENT_BYTES 12u  /* an entry, and the header, of an extent block */
#define DIRECT_BLOCKS 12u /* without indirect blocks */
#define IND_LEVELS 3u
#define RESERVE_TRIES 3
#define NOMEM_WAIT_NS 1000000

/* ---- Claims ---- */

static int64_t floor_of(const struct ext4_mballoc *mb, enum mb_claim_class class)
{
	if (class == MB_CLAIM_POOL)
		return 0;
	if (class == MB_CLAIM_ROOT)
		return (int64_t)mb->mb_pool;
	return (int64_t)(mb->mb_pool + mb->mb_sb->s_r_blocks);
}

bool ext4_mb_claim(struct ext4_mballoc *mb, uint64_t n, enum mb_claim_class class)
{
	int64_t least = floor_of(mb, class) + (int64_t)n;
	int64_t now = atomic_load_explicit(&mb->mb_unclaimed, memory_order_relaxed);

	while (now >= least)
		if (atomic_compare_exchange_weak(&mb->mb_unclaimed, &now, now - (int64_t)n))
			return true;
	return false;
}

void ext4_mb_unclaim(struct ext4_mballoc *mb, uint64_t n)
{
	if (n > 0)
		atomic_fetch_add(&mb->mb_unclaimed, (int64_t)n);
}

/* ---- Metadata of delayed blocks ---- */

static uint32_t div_up(uint32_t a, uint32_t b)
{
	return a / b + (a % b != 0);
}

static uint16_t root_field(const struct inode *inode, size_t offset)
{
	uint16_t le;

	memcpy(&le, inode->i_block + offset, sizeof(le));
	return le16_to_cpu(le);
}

/* Extent blocks for `blocks` more extents, in `runs` places of the tree. */
static uint32_t extent_meta(const struct inode *inode, uint32_t blocks, uint32_t runs)
{
	uint32_t per_block = (inode->i_sb->s_blocksize - EXTENT_BYTES) / EXTENT_BYTES;
	uint32_t entries = root_field(inode, offsetof(struct ext3_extent_header, eh_entries));
	uint32_t depth = root_field(inode, offsetof(struct ext3_extent_header, eh_depth));
	uint32_t level;
	uint32_t total;

	if (depth == 0 && (uint64_t)entries + blocks <= ROOT_EXTENTS)
		return 0;
	/*
	 * In one place leaves are filled; in many they may be left half full, and each place may
	 * split one that is there.
	 */
	level = runs > 1 ? div_up(blocks, per_block / 2) : div_up(blocks, per_block);
	if (depth > 0)
		level += runs;
	total = level + depth;
	while (level > ROOT_EXTENTS) {
		level = div_up(level, per_block);
		total += level;
	}
	return total;
}

static uint32_t indirect_meta(const struct inode *inode, uint32_t blocks, uint32_t runs)
{
	uint32_t per_block = inode->i_sb->s_blocksize / 4;

	/* runs counts only what lies past the direct blocks. */
	return runs == 0 ? 0 : div_up(blocks, per_block) + runs * IND_LEVELS;
}

/* i_data_sem is held. */
static uint32_t meta_bound(const struct inode *inode, uint32_t blocks, uint32_t runs)
{
	uint32_t meta;

	if (blocks == 0)
		return 0;
	if (runs > blocks)
		runs = blocks;
	meta = ext4_is_extents(inode) ? extent_meta(inode, blocks, runs)
				      : indirect_meta(inode, blocks, runs);
	return meta > blocks * IND_LEVELS ? blocks * IND_LEVELS : meta;
}

bool ext4_mb_take_reserved_meta(struct inode *inode)
{
	struct ext4_inode_alloc *ia = inode->i_alloc;
	bool taken;

	mutex_lock(&ia->i_es_lock);
	taken = ia->ia_reserved_meta > 0;
	if (taken) {
		ia->ia_reserved_meta--;
		atomic_fetch_sub(&ext4_mb(inode->i_sb)->mb_dirty_meta, 1);
	}
	mutex_unlock(&ia->i_es_lock);
	return taken;
}

void ext4_mb_untake_reserved_meta(struct inode *inode)
{
	struct ext4_inode_alloc *ia = inode->i_alloc;
	bool kept;

	mutex_lock(&ia->i_es_lock);
	kept = ia->ia_reserved > 0;
	if (kept) {
		ia->ia_reserved_meta++;
		atomic_fetch_add(&ext4_mb(inode->i_sb)->mb_dirty_meta, 1);
	}
	mutex_unlock(&ia->i_es_lock);
	if (!kept)
		ext4_mb_unclaim(ext4_mb(inode->i_sb), 1);
}

/* ---- Reserving ---- */

/* A range to reserve, and what it costs. */
struct want {
	struct inode *w_inode;
	ext4_lblk_t w_lblk, w_len;
	enum mb_claim_class w_class;
	uint32_t w_blocks; /* of the range that are neither mapped nor delayed */
	uint32_t w_runs;   /* of the inode, with them */
	uint32_t w_meta;   /* more metadata */
};

static enum mb_claim_class class_of(const struct super_block *sb, const struct ext4_cred *cred)
{
	if (cred->cr_privileged || cred->cr_uid == sb->s_resuid ||
	    (sb->s_resgid != 0 && cred->cr_gid == sb->s_resgid))
		return MB_CLAIM_ROOT;
	return MB_CLAIM_USER;
}

static __thread bool thread_may_use_root_reserve; /* [owner thread] */

void ext4_allocate_for(const struct super_block *sb, const struct ext4_cred *cred)
{
	thread_may_use_root_reserve = cred != NULL && class_of(sb, cred) == MB_CLAIM_ROOT;
}

enum mb_claim_class ext4_mb_thread_class(void)
{
	return thread_may_use_root_reserve ? MB_CLAIM_ROOT : MB_CLAIM_USER;
}

/* i_data_sem and i_es_lock held. */
static void cost_locked(struct want *w)
{
	struct ext4_inode_alloc *ia = w->w_inode->i_alloc;
	uint32_t holes = w->w_len - w->w_blocks + 1;
	uint32_t runs = w->w_blocks < holes ? w->w_blocks : holes;
	uint32_t bound;

	if (ia->ia_da_runs > 0 && ia->ia_da_next == w->w_lblk)
		runs--;
	if (!ext4_is_extents(w->w_inode) && w->w_lblk + w->w_len <= DIRECT_BLOCKS)
		runs = 0;
	w->w_runs = ia->ia_da_runs + runs;
	bound = meta_bound(w->w_inode, ia->ia_reserved + w->w_blocks, w->w_runs);
	w->w_meta = bound > ia->ia_reserved_meta ? bound - ia->ia_reserved_meta : 0;
}

/* The blocks are claimed and delayed: count them for the inode. */
static void book_locked(const struct want *w)
{
	struct ext4_mballoc *mb = ext4_mb(w->w_inode->i_sb);
	struct ext4_inode_alloc *ia = w->w_inode->i_alloc;

	ia->ia_reserved += w->w_blocks;
	ia->ia_reserved_meta += w->w_meta;
	ia->ia_da_runs = w->w_runs;
	ia->ia_da_next = w->w_lblk + w->w_len;
	atomic_fetch_add(&mb->mb_dirty, (int64_t)w->w_blocks);
	atomic_fetch_add(&mb->mb_dirty_meta, (int64_t)w->w_meta);
}

/* i_data_sem held for write. -ENOSPC: nothing is changed. */
static int reserve_locked(struct want *w)
{
	struct ext4_mballoc *mb = ext4_mb(w->w_inode->i_sb);
	struct ext4_inode_alloc *ia = w->w_inode->i_alloc;
	int err = ext4_es_count_unclaimed(w->w_inode, w->w_lblk, w->w_len, &w->w_blocks);

	if (err != 0 || w->w_blocks == 0)
		return err;
	mutex_lock(&ia->i_es_lock);
	cost_locked(w);
	mutex_unlock(&ia->i_es_lock);
	if (!ext4_mb_claim(mb, (uint64_t)w->w_blocks + w->w_meta, w->w_class))
		return -ENOSPC;
	err = ext4_es_delay_holes(w->w_inode, w->w_lblk, w->w_len);
	if (err != 0) {
		ext4_mb_unclaim(mb, (uint64_t)w->w_blocks + w->w_meta);
		return err;
	}
	mutex_lock(&ia->i_es_lock);
	book_locked(w);
	TRACE(ext4_da_reserve_space, .dev = w->w_inode->i_sb->s_dev->bd_dev,
	      .ino = w->w_inode->i_ino, .mode = w->w_inode->i_mode,
	      .i_blocks = atomic_load(&w->w_inode->i_blocks), .reserve_blocks = w->w_blocks,
	      .reserved_data_blocks = ia->ia_reserved);
	mutex_unlock(&ia->i_es_lock);
	return 0;
}

/* Everything that can be done about a full disk without giving up. */
static void make_room(struct super_block *sb, int attempt)
{
	struct ext4_mballoc *mb = ext4_mb(sb);

	ext4_discard_all_preallocations(sb);
	if (attempt == 0 && sb->s_upper != NULL && sb->s_upper->reclaim_space != NULL)
		sb->s_upper->reclaim_space(sb);
	else if (atomic_load(&mb->mb_pending) > 0 || atomic_load(&mb->mb_dirty_meta) > 0)
		(void)jbd2_journal_force_commit(sb->s_journal);
}

/* True if the tree shows each block of the range as mapped or delayed. */
static bool all_claimed(struct inode *inode, ext4_lblk_t lblk, ext4_lblk_t len)
{
	struct extent_status es;
	ext4_lblk_t done;

	while (len > 0) {
		if (!ext4_es_lookup(inode, lblk, &es) || es.es_state == ES_HOLE)
			return false;
		done = es.es_lblk + es.es_len - lblk;
		if (done >= len)
			return true;
		lblk += done;
		len -= done;
	}
	return true;
}

int ext4_da_reserve_range(struct inode *inode, ext4_lblk_t lblk, ext4_lblk_t len,
			  const struct ext4_cred *cred)
{
	struct want w = {.w_inode = inode, .w_lblk = lblk, .w_len = len};
	int err = -ENOSPC;

	if (len == 0 || len > EXT4_MAX_BLOCKS - lblk)
		return len == 0 ? 0 : -EFBIG;
	atomic_store_explicit(&inode->i_alloc->ia_closed, false, memory_order_relaxed);
	if (all_claimed(inode, lblk, len))
		return 0;
	w.w_class = class_of(inode->i_sb, cred);
	for (int attempt = 0; attempt < RESERVE_TRIES && err == -ENOSPC; attempt++) {
		if (attempt > 0)
			make_room(inode->i_sb, attempt - 1);
		down_write(&inode->i_data_sem);
		err = reserve_locked(&w);
		up_write(&inode->i_data_sem);
	}
	return err;
}

/* ---- Ending reservations ---- */

/*
 * n delayed blocks of the inode are not delayed any more. i_data_sem held for write. Returns the
 * blocks that are unclaimed again.
 */
static uint64_t end_reservation(struct inode *inode, uint32_t n)
{
	struct ext4_mballoc *mb = ext4_mb(inode->i_sb);
	struct ext4_inode_alloc *ia = inode->i_alloc;
	uint32_t meta = 0;
	uint32_t bound;

	mutex_lock(&ia->i_es_lock);
	ASSERT_CMP(n, <=, ia->ia_reserved);
	ia->ia_reserved -= n;
	bound = meta_bound(inode, ia->ia_reserved, ia->ia_da_runs);
	if (ia->ia_reserved_meta > bound) {
		meta = ia->ia_reserved_meta - bound;
		ia->ia_reserved_meta = bound;
	}
	if (ia->ia_reserved == 0)
		ia->ia_da_runs = 0;
	mutex_unlock(&ia->i_es_lock);
	atomic_fetch_sub(&mb->mb_dirty, (int64_t)n);
	atomic_fetch_sub(&mb->mb_dirty_meta, (int64_t)meta);
	return (uint64_t)n + meta;
}

void ext4_da_update_reserve_space(struct inode *inode, uint32_t nblocks)
{
	struct ext4_inode_alloc *ia = inode->i_alloc;

	if (nblocks == 0)
		return;
	ext4_mb_unclaim(ext4_mb(inode->i_sb), end_reservation(inode, nblocks));
	/* The last writer has gone and nothing is left to allocate. */
	if (atomic_load_explicit(&ia->ia_closed, memory_order_relaxed) &&
	    ext4_inode_reserved_blocks(inode) == 0)
		ext4_mb_pa_discard_inode(inode);
}

/* Room in the status tree for one change. It cannot be refused: the reservation must end. */
static void es_reserve_nofail(struct inode *inode)
{
	const struct timespec pause = {0, NOMEM_WAIT_NS};

	while (ext4_es_reserve(inode, 1) != 0)
		nanosleep(&pause, NULL);
}

ext4_lblk_t ext4_da_release_range(struct inode *inode, ext4_lblk_t lblk, ext4_lblk_t len)
{
	ext4_lblk_t end = len == 0 ? lblk : lblk + len - 1;
	ext4_lblk_t released = 0;
	struct extent_status es;

	if (len == 0)
		return 0;
	if (end < lblk)
		end = EXT4_MAX_BLOCKS - 1;
	down_write(&inode->i_data_sem);
	while (ext4_es_find_delayed(inode, lblk, end, &es)) {
		ext4_lblk_t from = es.es_lblk < lblk ? lblk : es.es_lblk;
		ext4_lblk_t to = es.es_lblk + (es.es_len - 1);
		int err;

		if (to > end)
			to = end;
		es_reserve_nofail(inode);
		err = ext4_es_remove(inode, from, to - from + 1);
		ASSERT_CMP(err, ==, 0);
		released += to - from + 1;
		if (to == end)
			break;
		lblk = to + 1;
	}
	if (released > 0) {
		TRACE(ext4_da_release_space, .dev = inode->i_sb->s_dev->bd_dev, .ino = inode->i_ino,
		      .mode = inode->i_mode, .i_blocks = atomic_load(&inode->i_blocks),
		      .freed_blocks = released,
		      .reserved_data_blocks = ext4_inode_reserved_blocks(inode));
		ext4_mb_unclaim(ext4_mb(inode->i_sb), end_reservation(inode, released));
	}
	up_write(&inode->i_data_sem);
	return released;
}

/* ---- Questions ---- */

uint32_t ext4_inode_reserved_blocks(const struct inode *inode)
{
	struct ext4_inode_alloc *ia = inode->i_alloc;
	uint32_t n;

	mutex_lock(&ia->i_es_lock);
	n = ia->ia_reserved;
	mutex_unlock(&ia->i_es_lock);
	return n;
}

uint64_t ext4_sb_dirty_blocks(const struct super_block *sb)
{
	int64_t n = atomic_load(&sb->s_mb->mb_dirty);

	return n > 0 ? (uint64_t)n : 0;
}

/* ext4: fs/ext4/inode.c ext4_nonda_switch() */
bool ext4_nonda_switch(struct super_block *sb, bool *start_writeback)
{
	struct ext4_mballoc *mb = ext4_mb(sb);
	int64_t free_blocks = atomic_load(&mb->mb_free);
	int64_t dirty = atomic_load(&mb->mb_dirty) + atomic_load(&mb->mb_dirty_meta);
	int64_t watermark = (int64_t)(sb->s_blocks_count / 200);

	watermark = watermark > 1024 ? 1024 : watermark;
	*start_writeback = dirty > 0 && free_blocks < 2 * dirty;
	return 2 * free_blocks < 3 * dirty || free_blocks < dirty + watermark;
}

bool ext4_should_retry_alloc(struct super_block *sb, unsigned *retries)
{
	struct ext4_mballoc *mb = ext4_mb(sb);

	if ((*retries)++ >= RESERVE_TRIES)
		return false;
	if (*retries == 1 && sb->s_upper != NULL && sb->s_upper->reclaim_space != NULL)
		sb->s_upper->reclaim_space(sb);
	else if (atomic_load(&mb->mb_pending) == 0 && atomic_load(&mb->mb_pending_inodes) == 0)
		return *retries == 1;
	return jbd2_journal_force_commit(sb->s_journal) == 0;
}
