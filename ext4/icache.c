/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * icache.c - inodes in memory: found by number, kept while used and a while longer, evicted.
 *
 * The hash is cut into shards, each with its lock, its table (doubled as it fills) and its list of
 * unused inodes, oldest first. An inode whose last reference goes stays there until the whole
 * cache holds more than ic_limit unused ones; a worker then recycles the oldest clean ones. With
 * i_nlink 0 the last reference starts the eviction instead, on a worker too, because it starts
 * handles and may block.
 *
 *            ext4_iget(), not there          read done
 *   (none) ------------------------> LOADING -----------> in use <--- ext4_inode_new()
 *      ^         read failed            |                  |  ^
 *      +--------------------------------+      last iput() |  | ext4_iget()
 *      |                                                   v  |
 *      |<-- shrink() -------------------------------- unused (i_nlink > 0)
 *      |                                                   | i_nlink 0
 *      +<-- evict() --------------------------------- EVICTING
 *
 * Invariants: (1) i_count goes from 0 to 1 and from 1 to 0 only under the shard's lock. (2) An
 * inode is on the list of unused ones exactly when i_count is 0, it is hashed and it is not
 * EVICTING. (3) Nobody gets a reference to an inode that is LOADING or FREEING: ext4_iget() waits
 * and looks again. (4) A dirty inode is not recycled.
 * Locking: is_lock ranks ICACHE; nothing is called with it held.
 */
#include <stdlib.h>
#include <string.h>

#include "ext4/ext4_int.h"
#include "util/assert.h"

#define SHARD_BITS 6u
#define SHARDS (1u << SHARD_BITS)
#define FIRST_BUCKETS 64u
#define DEFAULT_LIMIT 4096u
#define SHRINK_BATCH 32u

TAILQ_HEAD(inode_list, inode);
STAILQ_HEAD(evict_list, inode);

struct icache_shard {
	struct mutex is_lock;
	struct cond is_changed;	     /* LOADING or FREEING ended */
	struct inode **is_hash;	     /* [is_lock] */
	uint32_t is_buckets;	     /* [is_lock] a power of two */
	uint32_t is_count;	     /* [is_lock] hashed inodes */
	struct inode_list is_unused; /* [is_lock] oldest first */
};

struct ext4_icache {
	struct super_block *ic_sb;
	_Atomic uint32_t ic_unused; /* [atomic] */
	_Atomic uint32_t ic_limit;  /* [atomic] unused inodes kept */
	struct work_item ic_shrink_work;
	struct mutex ic_put_off_lock; /* LEAF */
	struct evict_list ic_put_off; /* [ic_put_off_lock] evictions waiting for a handle to end */
	struct evict_list
		ic_not_done; /* [ic_put_off_lock] orphans to be tried again, each with a reference */
	struct icache_shard ic_shard[SHARDS];
};

static __thread bool in_worker; /* [owner thread] this thread runs an eviction */

/* ---- Hash ---- */

static uint32_t hash_ino(uint32_t ino)
{
	return ino * 2654435769u;
}

static struct icache_shard *shard_of(const struct super_block *sb, uint32_t ino)
{
	return &sb->s_icache->ic_shard[hash_ino(ino) >> (32 - SHARD_BITS)];
}

static struct inode **bucket_locked(struct icache_shard *s, uint32_t ino)
{
	return &s->is_hash[(hash_ino(ino) >> 4) & (s->is_buckets - 1)];
}

static struct inode *find_locked(struct icache_shard *s, uint32_t ino)
{
	struct inode *inode = *bucket_locked(s, ino);

	while (inode != NULL && inode->i_ino != ino)
		inode = inode->i_hash_next;
	return inode;
}

static void link_locked(struct icache_shard *s, struct inode *inode)
{
	struct inode **bucket = bucket_locked(s, inode->i_ino);

	inode->i_hash_next = *bucket;
	*bucket = inode;
}

/* Twice the buckets. Without memory the chains just get longer. */
static void grow_locked(struct icache_shard *s)
{
	struct inode **old = s->is_hash;
	uint32_t n = s->is_buckets;
	struct inode **hash = calloc((size_t)n * 2, sizeof(struct inode *));

	if (hash == NULL)
		return;
	s->is_hash = hash;
	s->is_buckets = n * 2;
	for (uint32_t i = 0; i < n; i++) {
		struct inode *inode = old[i];

		while (inode != NULL) {
			struct inode *next = inode->i_hash_next;

			link_locked(s, inode);
			inode = next;
		}
	}
	free(old);
}

static void insert_locked(struct icache_shard *s, struct inode *inode)
{
	if (s->is_count >= s->is_buckets * 2)
		grow_locked(s);
	link_locked(s, inode);
	inode->i_hashed = true;
	s->is_count++;
}

static void unhash_locked(struct icache_shard *s, struct inode *inode)
{
	struct inode **p;

	if (!inode->i_hashed)
		return;
	p = bucket_locked(s, inode->i_ino);
	while (*p != inode)
		p = &(*p)->i_hash_next;
	*p = inode->i_hash_next;
	inode->i_hashed = false;
	s->is_count--;
	cond_broadcast(&s->is_changed);
}

/* ---- Unused inodes ---- */

static void lru_add_locked(struct icache_shard *s, struct inode *inode)
{
	TAILQ_INSERT_TAIL(&s->is_unused, inode, i_lru);
	inode->i_on_lru = true;
	atomic_fetch_add(&inode->i_sb->s_icache->ic_unused, 1);
}

static void lru_del_locked(struct icache_shard *s, struct inode *inode)
{
	if (!inode->i_on_lru)
		return;
	TAILQ_REMOVE(&s->is_unused, inode, i_lru);
	inode->i_on_lru = false;
	atomic_fetch_sub(&inode->i_sb->s_icache->ic_unused, 1);
}

static void grab_locked(struct icache_shard *s, struct inode *inode)
{
	if (atomic_fetch_add(&inode->i_count, 1) == 0)
		lru_del_locked(s, inode);
}

static bool is_busy(const struct inode *inode)
{
	return (atomic_load(&inode->i_state) & (I_LOADING | I_FREEING)) != 0;
}

/* ---- Making and freeing ---- */

static void evict_work(struct work_item *w);

static struct inode *alloc_inode(struct super_block *sb, uint32_t ino)
{
	struct inode *inode = calloc(1, sizeof(*inode));
	int err;

	if (inode == NULL)
		return ERR_PTR(-ENOMEM);
	inode->i_sb = sb;
	inode->i_ino = ino;
	inode->i_block_group = (ino - 1) / sb->s_inodes_per_group;
	inode->i_orphan_idx = UINT32_MAX;
	ext4_dir_changed(inode);
	inode->i_work.w_fn = evict_work;
	rwsem_init(&inode->i_rwsem, LOCK_RANK_I_RWSEM);
	rwsem_init(&inode->i_data_sem, LOCK_RANK_I_DATA_SEM);
	rwsem_init(&inode->i_xattr_sem, LOCK_RANK_XATTR);
	mutex_init(&inode->i_lock, LOCK_RANK_LEAF);
	jbd2_inode_init(&inode->i_jinode, inode);
	if (sb->s_upper->alloc_inode_init == NULL)
		return inode;
	err = sb->s_upper->alloc_inode_init(inode);
	if (err == 0)
		return inode;
	mutex_destroy(&inode->i_lock);
	rwsem_destroy(&inode->i_xattr_sem);
	rwsem_destroy(&inode->i_data_sem);
	rwsem_destroy(&inode->i_rwsem);
	free(inode);
	return ERR_PTR(err);
}

/* Unhashed and unreferenced. May wait for a commit that uses the inode's ordered data. */
static void destroy_inode(struct inode *inode)
{
	struct super_block *sb = inode->i_sb;
	const struct ext4_upper_ops *upper = sb->s_upper;

	ASSERT_CMP(atomic_load(&inode->i_count), ==, 0);
	ASSERT(!inode->i_hashed);
	if (inode->i_on_orphan)
		ext4_orphan_del(NULL, inode);
	if (sb->s_journal_loaded)
		jbd2_journal_release_jbd_inode(sb->s_journal, &inode->i_jinode);
	if (upper->acl_destroy != NULL)
		upper->acl_destroy(inode);
	if (upper->mapping_destroy != NULL && inode->i_mapping != NULL)
		upper->mapping_destroy(inode);
	if (upper->alloc_inode_destroy != NULL)
		upper->alloc_inode_destroy(inode);
	mutex_destroy(&inode->i_lock);
	rwsem_destroy(&inode->i_xattr_sem);
	rwsem_destroy(&inode->i_data_sem);
	rwsem_destroy(&inode->i_rwsem);
	free(inode);
}

int ext4_inode_init_mapping(struct inode *inode)
{
	const struct ext4_upper_ops *upper = inode->i_sb->s_upper;

	if (!S_ISREG(inode->i_mode) || upper->mapping_init == NULL || inode->i_mapping != NULL)
		return 0;
	return upper->mapping_init(inode);
}

void ext4_inode_set_generation(struct inode *inode, uint32_t generation)
{
	inode->i_generation = generation;
	inode->i_handle_generation = generation;
	inode->i_csum_seed = ext4_inode_csum_seed(inode->i_sb, inode->i_ino, generation);
}

/* ---- Eviction ---- */

static void keep_not_done(struct inode *inode)
{
	struct ext4_icache *ic = inode->i_sb->s_icache;

	mutex_lock(&ic->ic_put_off_lock);
	STAILQ_INSERT_TAIL(&ic->ic_not_done, inode, i_evict);
	mutex_unlock(&ic->ic_put_off_lock);
}

static void evict(struct inode *inode)
{
	struct super_block *sb = inode->i_sb;
	struct icache_shard *s = shard_of(sb, inode->i_ino);

	/* What the hook calls may take and drop references of its own. */
	atomic_store(&inode->i_count, 1);
	if (sb->s_upper->evict_inode != NULL && (atomic_load(&inode->i_state) & I_BAD) == 0)
		sb->s_upper->evict_inode(inode);
	ASSERT_CMP(atomic_load(&inode->i_count), ==, 1);
	if ((atomic_load(&inode->i_state) & I_NOT_DONE) != 0) {
		keep_not_done(inode);
		return;
	}
	atomic_store(&inode->i_count, 0);
	mutex_lock(&s->is_lock);
	unhash_locked(s, inode);
	mutex_unlock(&s->is_lock);
	destroy_inode(inode);
}

static void evict_work(struct work_item *w)
{
	struct inode *inode = (struct inode *)(void *)((char *)w - offsetof(struct inode, i_work));

	in_worker = true;
	evict(inode);
	in_worker = false;
}

/* Simulations: what could not be evicted while a handle was open. */
static void run_put_off(struct ext4_icache *ic)
{
	struct inode *inode;

	if (jbd2_current_handle() != NULL || in_worker)
		return;
	for (;;) {
		mutex_lock(&ic->ic_put_off_lock);
		inode = STAILQ_FIRST(&ic->ic_put_off);
		if (inode != NULL)
			STAILQ_REMOVE_HEAD(&ic->ic_put_off, i_evict);
		mutex_unlock(&ic->ic_put_off_lock);
		if (inode == NULL)
			return;
		evict_work(&inode->i_work);
	}
}

static void start_eviction(struct inode *inode)
{
	struct super_block *sb = inode->i_sb;
	struct ext4_icache *ic = sb->s_icache;

	if (sb->s_wq != NULL) {
		queue_work(sb->s_wq, &inode->i_work);
		return;
	}
	mutex_lock(&ic->ic_put_off_lock);
	STAILQ_INSERT_TAIL(&ic->ic_put_off, inode, i_evict);
	mutex_unlock(&ic->ic_put_off_lock);
	run_put_off(ic);
}

void ext4_drain_evictions(struct super_block *sb)
{
	if (sb->s_wq == NULL)
		run_put_off(sb->s_icache);
	else if (!in_worker)
		workqueue_drain(sb->s_wq);
}

void ext4_inode_unhash(struct inode *inode)
{
	struct icache_shard *s = shard_of(inode->i_sb, inode->i_ino);

	mutex_lock(&s->is_lock);
	unhash_locked(s, inode);
	mutex_unlock(&s->is_lock);
}

/* ---- Orphans whose end failed ---- */

void ext4_orphan_not_done(struct inode *inode)
{
	struct super_block *sb = inode->i_sb;
	uint32_t state = atomic_load(&inode->i_state);

	if (atomic_load(&sb->s_aborted) || sb_rdonly(sb) || (state & (I_BAD | I_NOT_DONE)) != 0)
		return;
	/* With no name it is the eviction that ends it, and evict() that keeps it if it fails. */
	if (atomic_load(&inode->i_nlink) == 0 && (state & I_EVICTING) == 0)
		return;
	if ((atomic_fetch_or(&inode->i_state, I_NOT_DONE) & I_NOT_DONE) != 0 ||
	    (state & I_EVICTING) != 0)
		return;
	ihold(inode);
	keep_not_done(inode);
}

static struct inode *take_not_done(struct evict_list *list)
{
	struct inode *inode = STAILQ_FIRST(list);

	if (inode != NULL) {
		STAILQ_REMOVE_HEAD(list, i_evict);
		atomic_fetch_and(&inode->i_state, ~I_NOT_DONE);
	}
	return inode;
}

static void detach_not_done(struct super_block *sb, struct evict_list *list)
{
	struct ext4_icache *ic = sb->s_icache;

	STAILQ_INIT(list);
	mutex_lock(&ic->ic_put_off_lock);
	STAILQ_CONCAT(list, &ic->ic_not_done);
	mutex_unlock(&ic->ic_put_off_lock);
}

void ext4_retry_orphans(struct super_block *sb)
{
	struct evict_list list;
	struct inode *inode;

	detach_not_done(sb, &list);
	if (STAILQ_EMPTY(&list))
		return;
	while ((inode = take_not_done(&list)) != NULL) {
		if ((atomic_load(&inode->i_state) & I_EVICTING) != 0) {
			start_eviction(inode);
			continue;
		}
		if (atomic_load(&inode->i_nlink) > 0 && sb->s_upper->orphan_truncate != NULL)
			(void)sb->s_upper->orphan_truncate(inode);
		iput(inode);
	}
	ext4_drain_evictions(sb);
}

void ext4_give_up_orphans(struct super_block *sb)
{
	struct evict_list list;
	struct inode *inode;

	detach_not_done(sb, &list);
	while ((inode = take_not_done(&list)) != NULL) {
		if ((atomic_load(&inode->i_state) & I_EVICTING) == 0) {
			iput(inode);
			continue;
		}
		atomic_store(&inode->i_count, 0);
		destroy_inode(inode);
	}
}

/* ---- Recycling ---- */

static bool can_recycle(const struct inode *inode)
{
	return (atomic_load(&inode->i_state) & (I_DIRTY_ALL | I_DIRTY_TIME | I_SYNC)) == 0;
}

/* Up to SHRINK_BATCH unused inodes of the shard, oldest first; dirty ones go to the end. */
static unsigned take_unused(struct icache_shard *s, bool dirty_too, struct inode **out)
{
	unsigned n = 0;

	mutex_lock(&s->is_lock);
	for (unsigned tries = 0; tries < SHRINK_BATCH; tries++) {
		struct inode *inode = TAILQ_FIRST(&s->is_unused);

		if (inode == NULL)
			break;
		lru_del_locked(s, inode);
		if (!dirty_too && !can_recycle(inode)) {
			lru_add_locked(s, inode);
			continue;
		}
		atomic_fetch_or(&inode->i_state, I_FREEING);
		unhash_locked(s, inode);
		out[n++] = inode;
	}
	mutex_unlock(&s->is_lock);
	return n;
}

static unsigned shrink_shard(struct icache_shard *s, bool dirty_too)
{
	struct inode *batch[SHRINK_BATCH];
	unsigned n = take_unused(s, dirty_too, batch);

	for (unsigned i = 0; i < n; i++)
		destroy_inode(batch[i]);
	return n;
}

/* Down to seven eighths of the limit, so that not every iput() starts a round. */
static void shrink(struct ext4_icache *ic)
{
	const uint32_t limit = atomic_load(&ic->ic_limit);
	const uint32_t target = limit - limit / 8;
	unsigned idle = 0;

	for (unsigned i = 0; idle < SHARDS && atomic_load(&ic->ic_unused) > target; i++)
		idle = shrink_shard(&ic->ic_shard[i % SHARDS], false) > 0 ? 0 : idle + 1;
}

static void shrink_work(struct work_item *w)
{
	struct ext4_icache *ic =
		(struct ext4_icache *)(void *)((char *)w -
					       offsetof(struct ext4_icache, ic_shrink_work));

	in_worker = true;
	shrink(ic);
	in_worker = false;
}

static void start_shrink(struct super_block *sb)
{
	struct ext4_icache *ic = sb->s_icache;

	if (atomic_load_explicit(&ic->ic_unused, memory_order_relaxed) <=
	    atomic_load_explicit(&ic->ic_limit, memory_order_relaxed))
		return;
	if (sb->s_wq != NULL)
		queue_work(sb->s_wq, &ic->ic_shrink_work);
	else if (jbd2_current_handle() == NULL && !in_worker)
		shrink(ic);
}

unsigned ext4_icache_shrink_all(struct super_block *sb)
{
	struct ext4_icache *ic = sb->s_icache;
	unsigned left = 0;

	ext4_drain_evictions(sb);
	for (unsigned i = 0; i < SHARDS; i++) {
		struct icache_shard *s = &ic->ic_shard[i];

		while (shrink_shard(s, true) > 0)
			;
		mutex_lock(&s->is_lock);
		left += s->is_count;
		mutex_unlock(&s->is_lock);
	}
	return left;
}

void ext4_icache_set_limit(struct super_block *sb, uint32_t inodes)
{
	atomic_store(&sb->s_icache->ic_limit, inodes);
	start_shrink(sb);
}

/* ---- References ---- */

void ihold(struct inode *inode)
{
	int old = atomic_fetch_add(&inode->i_count, 1);

	ASSERT_CMP(old, >, 0);
}

static bool put_unless_last(struct inode *inode)
{
	int count = atomic_load(&inode->i_count);

	while (count > 1)
		if (atomic_compare_exchange_weak(&inode->i_count, &count, count - 1))
			return true;
	return false;
}

enum last_put { PUT_DONE, PUT_EVICT, PUT_UNUSED, PUT_TIMES };

static enum last_put put_last_locked(struct icache_shard *s, struct inode *inode)
{
	int old = atomic_fetch_sub(&inode->i_count, 1);

	ASSERT_CMP(old, >, 0);
	if (old > 1)
		return PUT_DONE;
	if (atomic_load(&inode->i_nlink) == 0 || (atomic_load(&inode->i_state) & I_BAD) != 0) {
		atomic_fetch_or(&inode->i_state, I_FREEING | I_EVICTING);
		return PUT_EVICT;
	}
	if ((atomic_load(&inode->i_state) & I_DIRTY_TIME) != 0 &&
	    inode->i_sb->s_dirty_hook != NULL) {
		atomic_fetch_add(&inode->i_count, 1);
		return PUT_TIMES;
	}
	lru_add_locked(s, inode);
	return PUT_UNUSED;
}

void iput(struct inode *inode)
{
	struct icache_shard *s;
	struct super_block *sb;
	enum last_put what;

	if (inode == NULL || put_unless_last(inode))
		return;
	sb = inode->i_sb;
	s = shard_of(sb, inode->i_ino);
	do {
		mutex_lock(&s->is_lock);
		what = put_last_locked(s, inode);
		mutex_unlock(&s->is_lock);
		if (what == PUT_TIMES) {
			/* Lazy times are lazy only as long as the inode is in use. */
			atomic_fetch_or(&inode->i_state, I_DIRTY_SYNC);
			atomic_fetch_and(&inode->i_state, ~I_DIRTY_TIME);
			sb->s_dirty_hook(inode, I_DIRTY_SYNC | I_DIRTY_TIME);
		}
	} while (what == PUT_TIMES);
	if (what == PUT_EVICT)
		start_eviction(inode);
	else if (what == PUT_UNUSED)
		start_shrink(sb);
}

/* ---- Look-ups ---- */

struct inode *ext4_ilookup(struct super_block *sb, uint32_t ino)
{
	struct icache_shard *s = shard_of(sb, ino);
	struct inode *inode;

	mutex_lock(&s->is_lock);
	inode = find_locked(s, ino);
	if (inode != NULL && is_busy(inode))
		inode = NULL;
	if (inode != NULL)
		grab_locked(s, inode);
	mutex_unlock(&s->is_lock);
	return inode;
}

struct inode *ext4_inode_looked_up(struct super_block *sb, uint32_t ino)
{
	struct icache_shard *s = shard_of(sb, ino);
	struct inode *inode;

	mutex_lock(&s->is_lock);
	inode = find_locked(s, ino);
	if (inode != NULL && atomic_load(&inode->i_nlookup) == 0)
		inode = NULL;
	mutex_unlock(&s->is_lock);
	return inode;
}

/* The next one that is looked up, and no more so; *bucket starts at 0 and stays where it was found. NULL: no more. */
static struct inode *forget_next(struct icache_shard *s, uint32_t *bucket)
{
	struct inode *inode = NULL;

	mutex_lock(&s->is_lock);
	while (inode == NULL && *bucket < s->is_buckets) {
		inode = s->is_hash[*bucket];
		while (inode != NULL && atomic_exchange(&inode->i_nlookup, 0) == 0)
			inode = inode->i_hash_next;
		if (inode == NULL)
			(*bucket)++;
	}
	mutex_unlock(&s->is_lock);
	return inode;
}

void ext4_icache_forget_all(struct super_block *sb)
{
	for (unsigned i = 0; i < SHARDS; i++) {
		struct inode *inode;
		uint32_t bucket = 0;

		/* A table that grows meanwhile moves inodes only to later buckets. */
		while ((inode = forget_next(&sb->s_icache->ic_shard[i], &bucket)) != NULL)
			iput(inode);
	}
}

/* In the part of the table that was never used, or in a table never written: the disk holds anything. */
static bool never_used(struct super_block *sb, uint32_t ino)
{
	const uint32_t index = (ino - 1) % sb->s_inodes_per_group;
	struct ext4_group_info *gi = ext4_get_group_info(sb, (ino - 1) / sb->s_inodes_per_group);

	if (IS_ERR(gi) || !ext4_has_group_csum(sb))
		return false;
	return (ext4_bg_flags(sb, gi) & EXT2_BG_INODE_UNINIT) != 0 ||
	       index >= sb->s_inodes_per_group - atomic_load(&gi->bg_itable_unused);
}

/* Can the slot in the table be believed to hold an inode. */
static int check_slot(struct super_block *sb, uint32_t ino, unsigned flags)
{
	int used;

	if (never_used(sb, ino)) {
		if ((flags & EXT4_IGET_HANDLE) != 0)
			return -ESTALE;
		return ext4_error(sb, ino, "inode number that was never used");
	}
	if ((flags & EXT4_IGET_HANDLE) == 0)
		return 0;
	/* No entry stands for it. */
	used = ext4_inode_in_use(sb, ino);
	return used < 0 ? used : used == 0 ? -ESTALE : 0;
}

static int read_inode(struct inode *inode, unsigned flags)
{
	struct super_block *sb = inode->i_sb;
	struct ext2_inode_large *raw;
	struct buffer_head *bh;
	unsigned offset;
	int err = check_slot(sb, inode->i_ino, flags);

	if (err != 0)
		return err;
	raw = malloc(sb->s_inode_size);
	if (raw == NULL)
		return -ENOMEM;
	err = ext4_get_inode_loc(inode, &bh, &offset);
	if (err == 0) {
		lock_buffer(bh);
		memcpy(raw, ext4_raw_inode(sb, bh, offset), sb->s_inode_size);
		unlock_buffer(bh);
		bh_put(bh);
		err = ext4_inode_decode(inode, raw, flags);
	}
	free(raw);
	if (err == 0)
		err = ext4_inode_init_mapping(inode);
	counter_inc(&sb->s_stats.st_inodes_read);
	return err;
}

/* The inode is hashed and LOADING, the reference is ours. */
static struct inode *load_inode(struct icache_shard *s, struct inode *inode, unsigned flags)
{
	int err = read_inode(inode, flags);

	mutex_lock(&s->is_lock);
	atomic_fetch_and(&inode->i_state, ~I_LOADING);
	if (err != 0) {
		unhash_locked(s, inode);
		atomic_store(&inode->i_count, 0);
	}
	cond_broadcast(&s->is_changed);
	mutex_unlock(&s->is_lock);
	if (err == 0)
		return inode;
	destroy_inode(inode);
	return ERR_PTR(err);
}

static int check_number(struct super_block *sb, uint32_t ino, unsigned flags)
{
	if ((flags & EXT4_IGET_SPECIAL) != 0 ? ino > 0 && ino <= sb->s_inodes_count
					     : ext4_valid_dir_ino(sb, ino))
		return 0;
	if ((flags & EXT4_IGET_HANDLE) != 0)
		return -ESTALE;
	return ext4_error(sb, ino, "inode number that no file can have");
}

/* The cached inode with a reference, or NULL; fresh (if not NULL) was hashed then, LOADING. */
static struct inode *find_or_insert(struct icache_shard *s, uint32_t ino, struct inode *fresh)
{
	struct inode *inode;

	mutex_lock(&s->is_lock);
	while ((inode = find_locked(s, ino)) != NULL && is_busy(inode))
		cond_wait(&s->is_changed, &s->is_lock);
	if (inode != NULL) {
		grab_locked(s, inode);
	} else if (fresh != NULL) {
		atomic_store(&fresh->i_count, 1);
		atomic_store(&fresh->i_state, I_LOADING);
		insert_locked(s, fresh);
	}
	mutex_unlock(&s->is_lock);
	return inode;
}

/* What is in memory is not for a guess as long as it is being made, or once it has no name. */
static struct inode *found(struct inode *inode, unsigned flags)
{
	if ((flags & EXT4_IGET_HANDLE) == 0)
		return inode;
	/* Pairs with encode_into(): what was set before I_NEW went is seen. */
	if ((atomic_load(&inode->i_state) & (I_NEW | I_BAD)) == 0 &&
	    atomic_load(&inode->i_nlink) > 0)
		return inode;
	iput(inode);
	return ERR_PTR(-ESTALE);
}

struct inode *ext4_iget(struct super_block *sb, uint32_t ino, unsigned flags)
{
	struct icache_shard *s = shard_of(sb, ino);
	struct inode *inode, *fresh;
	int err = check_number(sb, ino, flags);

	if (err != 0)
		return ERR_PTR(err);
	inode = find_or_insert(s, ino, NULL);
	if (inode != NULL)
		return found(inode, flags);
	fresh = alloc_inode(sb, ino);
	if (IS_ERR(fresh))
		return fresh;
	inode = find_or_insert(s, ino, fresh);
	if (inode == NULL)
		return load_inode(s, fresh, flags);
	destroy_inode(fresh);
	return found(inode, flags);
}

struct inode *ext4_inode_new(struct super_block *sb, uint32_t ino)
{
	struct icache_shard *s = shard_of(sb, ino);
	struct inode *inode = alloc_inode(sb, ino);
	struct inode *old;

	if (IS_ERR(inode))
		return inode;
	mutex_lock(&s->is_lock);
	/* Somebody guesses at the number; the read will fail. */
	while ((old = find_locked(s, ino)) != NULL && (atomic_load(&old->i_state) & I_LOADING) != 0)
		cond_wait(&s->is_changed, &s->is_lock);
	/* The number is free, so its old inode has passed ext4_free_inode() and is on its way out. */
	if (old != NULL && (atomic_load(&old->i_state) & I_FREEING) != 0) {
		unhash_locked(s, old);
		old = NULL;
	}
	if (old == NULL) {
		atomic_store(&inode->i_count, 1);
		atomic_store(&inode->i_state, I_NEW);
		insert_locked(s, inode);
	}
	mutex_unlock(&s->is_lock);
	if (old == NULL)
		return inode;
	destroy_inode(inode);
	return ERR_PTR(ext4_error(sb, ino, "number marked free of an inode in use"));
}

/* References to all inodes of a shard; NULL without memory. */
static struct inode **hold_shard(struct icache_shard *s, uint32_t *n_out)
{
	struct inode **all;
	uint32_t n = 0;

	mutex_lock(&s->is_lock);
	all = calloc((size_t)s->is_count + 1, sizeof(struct inode *));
	for (uint32_t i = 0; all != NULL && i < s->is_buckets; i++)
		for (struct inode *inode = s->is_hash[i]; inode != NULL; inode = inode->i_hash_next)
			if (!is_busy(inode)) {
				grab_locked(s, inode);
				all[n++] = inode;
			}
	mutex_unlock(&s->is_lock);
	*n_out = n;
	return all;
}

int ext4_icache_for_each(struct super_block *sb, int (*fn)(struct inode *inode, void *arg),
			 void *arg)
{
	int err = 0;

	for (unsigned i = 0; i < SHARDS && err == 0; i++) {
		uint32_t n;
		struct inode **all = hold_shard(&sb->s_icache->ic_shard[i], &n);

		if (all == NULL)
			return -ENOMEM;
		for (uint32_t j = 0; j < n; j++) {
			if (err == 0)
				err = fn(all[j], arg);
			iput(all[j]);
		}
		free(all);
	}
	return err;
}

/* ---- Life ---- */

int ext4_icache_init(struct super_block *sb)
{
	struct ext4_icache *ic = calloc(1, sizeof(*ic));

	if (ic == NULL)
		return -ENOMEM;
	ic->ic_sb = sb;
	atomic_init(&ic->ic_limit, DEFAULT_LIMIT);
	ic->ic_shrink_work.w_fn = shrink_work;
	mutex_init(&ic->ic_put_off_lock, LOCK_RANK_LEAF);
	STAILQ_INIT(&ic->ic_put_off);
	STAILQ_INIT(&ic->ic_not_done);
	sb->s_icache = ic;
	for (unsigned i = 0; i < SHARDS; i++) {
		struct icache_shard *s = &ic->ic_shard[i];

		mutex_init(&s->is_lock, LOCK_RANK_ICACHE);
		cond_init(&s->is_changed);
		TAILQ_INIT(&s->is_unused);
		s->is_buckets = FIRST_BUCKETS;
		s->is_hash = calloc(FIRST_BUCKETS, sizeof(struct inode *));
		if (s->is_hash == NULL) {
			ext4_icache_exit(sb);
			return -ENOMEM;
		}
	}
	return 0;
}

void ext4_icache_exit(struct super_block *sb)
{
	struct ext4_icache *ic = sb->s_icache;

	if (ic == NULL)
		return;
	for (unsigned i = 0; i < SHARDS; i++) {
		struct icache_shard *s = &ic->ic_shard[i];

		/* Shards after the one that found no memory were never set up. */
		if (s->is_buckets == 0)
			break;
		ASSERT_CMP(s->is_count, ==, 0u);
		free(s->is_hash);
		cond_destroy(&s->is_changed);
		mutex_destroy(&s->is_lock);
	}
	mutex_destroy(&ic->ic_put_off_lock);
	free(ic);
	sb->s_icache = NULL;
}
