/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef ALLOC_MBALLOC_INTERNAL_H
#define ALLOC_MBALLOC_INTERNAL_H
/*
 * What the files of mballoc, the accounting and the inode allocator share.
 *
 * A group's blocks have three pictures: the on-disk bitmap (changed in a handle), the buddy (what
 * may be given out: clear in the bitmap, in no preallocation, not freed by a transaction that has
 * not committed), and the counters (everything clear in the bitmap is free, pending or preallocated
 * or not).
 */

#include <bsd/sys/tree.h>

#include "alloc/alloc_internal.h"
#include "alloc/buddy.h"
#include "ext4/group.h"
#include "ext4/super.h"

/* ---- Groups ---- */

struct mb_tx;

/* Blocks freed in a transaction that has not committed. */
struct mb_free_rec {
	RB_ENTRY(mb_free_rec) fr_rb;	  /* [bg_lock] of the group */
	TAILQ_ENTRY(mb_free_rec) fr_link; /* [mb_tx_lock] of its transaction */
	struct mb_group *fr_group;	  /* [const after init] */
	struct mb_tx *fr_tx;		  /* [const after init] */
	uint32_t fr_start, fr_len;	  /* [bg_lock] */
	bool fr_metadata;		  /* [const after init] buffers of them may be cached */
};
RB_HEAD(mb_free_tree, mb_free_rec);

/*
 * A group as the allocator keeps it; hangs on ext4_group_info, made at first use, never freed
 * before unmount.
 */
struct mb_group {
	struct ext4_group_info *g_info; /* [const after init] */
	struct ext4_buddy *g_buddy;	/* [bg_lock] NULL: not in memory */
	struct mb_free_tree g_pending;	/* [bg_lock] */
	_Atomic uint32_t g_pins;	/* from 0 only under bg_lock: the buddy stays */
	int g_order;			/* [bg_lock] as published: see mb_lacks */
	bool g_bad;			/* [bg_lock] never allocated from */
	TAILQ_ENTRY(mb_group) g_lru;	/* [mb_lru_lock] */
	bool g_on_lru;			/* [mb_lru_lock] */

	/* ialloc.c */
	uint8_t *g_ibusy;      /* [bg_lock] numbers freed, not committed; NULL: none */
	uint32_t g_nr_ibusy;   /* [bg_lock] */
	uint32_t g_inode_hint; /* [bg_lock] no number below is free */
};

/* What a running or committing transaction freed. */
struct mb_tx {
	struct jbd2_commit_cb tx_cb;
	struct ext4_mballoc *tx_mb;	   /* [const after init] */
	tid_t tx_tid;			   /* [const after init] */
	TAILQ_HEAD(, mb_free_rec) tx_recs; /* [mb_tx_lock] */
	uint32_t *tx_inos;		   /* [mb_tx_lock] */
	uint32_t tx_nr_inos, tx_room_inos; /* [mb_tx_lock] */
	LIST_ENTRY(mb_tx) tx_link;	   /* [mb_tx_lock] */
};

/*
 * Preallocated blocks: used in the buddy, free in the bitmap. Every one of them is unused; what is
 * used leaves the pa.
 */
struct mb_pa {
	TAILQ_ENTRY(mb_pa) pa_link;	/* [mb_pa_lock] of its inode or of the locality group */
	TAILQ_ENTRY(mb_pa) pa_lru;	/* [mb_pa_lock] */
	struct ext4_inode_alloc *pa_ia; /* [const after init] NULL: locality group */
	struct mb_group *pa_group;	/* [const after init] pinned */
	ext4_lblk_t pa_lstart;		/* [mb_pa_lock] */
	uint32_t pa_start, pa_len;	/* [mb_pa_lock] */
};

/* ---- The allocator of a file system ---- */

struct ext4_mballoc {
	struct super_block *mb_sb; /* [const after init] */

	/* accounting: see reserve.c */
	_Atomic int64_t mb_unclaimed; /* [atomic] free blocks that nobody has claimed or reserved */
	_Atomic int64_t mb_free;      /* [atomic] sum over the descriptors */
	_Atomic int64_t mb_pending;   /* [atomic] part of mb_free: freed, not committed */
	_Atomic int64_t mb_dirty;     /* [atomic] delayed data blocks */
	_Atomic int64_t mb_dirty_meta;	   /* [atomic] metadata reserved for them */
	_Atomic int64_t mb_free_inodes;	   /* [atomic] */
	_Atomic int64_t mb_pending_inodes; /* [atomic] part of it */
	uint64_t mb_pool;	      /* [const after init] blocks for splits and conversions */
	_Atomic uint64_t mb_overhead; /* [atomic] blocks of metadata, 0: not computed */

	/* groups: see mballoc_group.c */
	/* [atomic] bit set: the group has no chunk of that order or more */
	_Atomic uint32_t *mb_lacks[EXT4_BUDDY_ORDERS];
	_Atomic uint32_t *mb_known;    /* [atomic] bit set: mb_lacks is exact, not hoped */
	struct mutex mb_lru_lock;      /* LEAF */
	TAILQ_HEAD(, mb_group) mb_lru; /* [mb_lru_lock] buddies in memory, oldest first */
	uint32_t mb_nr_buddies;	       /* [mb_lru_lock] */
	uint32_t mb_max_buddies;       /* [const after init] */

	/* preallocation: see prealloc.c */
	struct mutex mb_pa_lock;       /* PA */
	TAILQ_HEAD(, mb_pa) mb_pa_lru; /* [mb_pa_lock] all, oldest first */
	struct mb_pa_list mb_lg;       /* [mb_pa_lock] of the locality group */
	uint32_t mb_nr_pas, mb_nr_lg;  /* [mb_pa_lock] */
	uint32_t mb_group_prealloc;    /* [const after init] blocks of a locality group's pa */

	/* frees: see free_blocks.c */
	struct mutex mb_tx_lock;   /* LEAF */
	LIST_HEAD(, mb_tx) mb_txs; /* [mb_tx_lock] */
	struct cond mb_tx_gone;	   /* one of them left */
	_Atomic bool mb_discard;   /* [atomic] -o discard, and the device can */

	/* search: see mballoc_search.c */
	_Atomic uint64_t mb_stream_goal;  /* [atomic] block after the last stream allocation */
	_Atomic uint32_t mb_stripe_skip;  /* [atomic] requests that do not look for a stripe */
	_Atomic uint32_t mb_stripe_fails; /* [atomic] searches in a row that found none */

	/* see ialloc.c */
	_Atomic uint32_t mb_inode_group; /* [atomic] where the last search of all groups ended */
	_Atomic uint64_t mb_generation;	 /* [atomic] state of the generation numbers */

	struct ext4_mb_stats mb_stats;
};

/* ---- mballoc_group.c ---- */

int ext4_mb_groups_init(struct ext4_mballoc *mb);
/* Nothing is pinned or pending any more. */
void ext4_mb_groups_exit(struct ext4_mballoc *mb);
/* The group without its buddy. ERR_PTR when its descriptor is damaged. */
struct mb_group *ext4_mb_group_get(struct super_block *sb, ext4_group_t group);
/*
 * The group with bg_lock held and the buddy in memory. Blocks for I/O. ERR_PTR: the group is not
 * usable (it is left out from then on).
 */
struct mb_group *ext4_mb_group_lock(struct super_block *sb, ext4_group_t group);
static inline void ext4_mb_group_unlock(struct mb_group *g)
{
	mutex_unlock(&g->g_info->bg_lock);
}
/* The hints of the group after its buddy changed. bg_lock held. */
void ext4_mb_group_publish(struct ext4_mballoc *mb, struct mb_group *g);
/*
 * len blocks of a group whose buddy is not in memory became free: hints may be too low. bg_lock
 * held.
 */
void ext4_mb_group_hope(struct ext4_mballoc *mb, struct mb_group *g, uint32_t len);
/*
 * The first group in [from, end) that may have a chunk of `order` (known_only: surely had one a
 * moment ago); end: none.
 */
ext4_group_t ext4_mb_next_group(struct ext4_mballoc *mb, unsigned order, ext4_group_t from,
				ext4_group_t end, bool known_only);
bool ext4_mb_group_known(struct ext4_mballoc *mb, ext4_group_t group);
/*
 * Blocks marked used in the buddy, in no bitmap, are free again; drops the pin that came with them.
 */
void ext4_mb_give_back(struct ext4_mballoc *mb, struct mb_group *g, uint32_t start, uint32_t len);
/* Drop a pin: the blocks are in the bitmap now. */
void ext4_mb_unpin(struct mb_group *g);

/*
 * The bitmap and the descriptor of a group, write access taken; then the bitmap's content lock and
 * bg_lock (ext4_group_change() takes the descriptor's, innermost). The bitmap (block or inode) is
 * referenced between begin and end.
 */
struct mb_edit {
	struct ext4_group_info *e_info;
	struct buffer_head *e_bitmap;
};
int ext4_mb_edit_begin(handle_t *handle, struct super_block *sb, struct ext4_group_info *gi,
		       bool inodes, struct mb_edit *e);
void ext4_mb_edit_lock(struct mb_edit *e);
void ext4_mb_edit_unlock(struct mb_edit *e);
/* dirty: both were changed. Returns 0 or the error of making them dirty. */
int ext4_mb_edit_end(handle_t *handle, struct mb_edit *e, bool dirty);

/* ---- mballoc_search.c ---- */

/* The passes of a search, in their order; the event's cr. */
enum mb_pass {
	MB_PASS_GOAL,
	MB_PASS_NEAR,
	MB_PASS_STRIPE,
	MB_PASS_ORDER,
	MB_PASS_RUNS,
	MB_PASS_PART,
	MB_PASS_ANY
};

struct mb_search {
	struct super_block *s_sb;
	ext4_fsblk_t s_goal; /* never 0 */
	uint32_t s_want;     /* blocks wished for */
	uint32_t s_min;	     /* blocks of the request itself, <= s_want */
	bool s_try_goal;     /* a run at the goal continues the file */
	bool s_data;
	ext4_group_t s_end; /* groups that may be used: those below */
	/* result: marked used in the buddy, the group pinned */
	struct mb_group *s_group;
	uint32_t s_start, s_len;
	/* effort */
	uint32_t s_nr_groups, s_nr_extents, s_loads, s_empty_loads, s_asked;
	enum mb_pass s_pass; /* the last one */
	int s_err;
};
/* True if something was found: at least one block. */
bool ext4_mb_search(struct mb_search *s);

/* ---- prealloc.c ---- */

void ext4_mb_prealloc_init(struct ext4_mballoc *mb);
/* What a request got: blocks marked used in the buddy, the group pinned once. */
struct mb_extent {
	struct mb_group *x_group;
	uint32_t x_start, x_len;
};
/* From the inode's preallocation that covers lblk. */
bool ext4_mb_pa_use_inode(struct inode *inode, ext4_lblk_t lblk, uint32_t len,
			  struct mb_extent *out);
/* From the locality group's preallocation nearest to goal that has len blocks. */
bool ext4_mb_pa_use_group(struct super_block *sb, uint32_t len, ext4_fsblk_t goal,
			  struct mb_extent *out);
/*
 * Keep blocks for later; takes over their pin. inode NULL: locality group. Without memory they are
 * given back.
 */
void ext4_mb_pa_add(struct super_block *sb, struct inode *inode, ext4_lblk_t lblk,
		    const struct mb_extent *x);
/* True if the inode has a preallocation that begins in [lblk, end): its start in *next. */
bool ext4_mb_pa_next(struct inode *inode, ext4_lblk_t lblk, ext4_lblk_t end, ext4_lblk_t *next);
void ext4_mb_pa_inode_init(struct inode *inode);
void ext4_mb_pa_discard_inode(struct inode *inode);

/* ---- free_blocks.c ---- */

void ext4_mb_free_init(struct ext4_mballoc *mb);
/* Commits what is pending and waits for its callbacks. */
void ext4_mb_free_exit(struct ext4_mballoc *mb);
/* What the handle's transaction frees; made at first use. NULL without memory. */
struct mb_tx *ext4_mb_tx_get(handle_t *handle, struct ext4_mballoc *mb);
/* A new buddy: blocks freed and not committed are not free in it. bg_lock held. */
void ext4_mb_hide_pending(struct mb_group *g, struct ext4_buddy *b);
/* An inode number is free and busy until the commit. Room was made by ext4_mb_tx_room_ino(). */
int ext4_mb_tx_room_ino(struct mb_tx *tx);
void ext4_mb_tx_add_ino(struct mb_tx *tx, uint32_t ino);

/* ---- ialloc.c ---- */

void ext4_mb_inodes_init(struct ext4_mballoc *mb);
/* The transaction that freed the number has committed (ino 0: nothing). */
void ext4_mb_inode_committed(struct ext4_mballoc *mb, uint32_t ino, bool reusable);

/* ---- reserve.c ---- */

enum mb_claim_class { MB_CLAIM_USER, MB_CLAIM_ROOT, MB_CLAIM_POOL };
/* Of what this thread allocates without a reservation: ext4_allocate_for(). */
enum mb_claim_class ext4_mb_thread_class(void);
/* Claim n blocks if that leaves what the class must leave. Never blocks. */
bool ext4_mb_claim(struct ext4_mballoc *mb, uint64_t n, enum mb_claim_class class);
void ext4_mb_unclaim(struct ext4_mballoc *mb, uint64_t n);
/*
 * Take one block of the metadata reserved for the inode's delayed blocks; false: there is none. And
 * put it back.
 */
bool ext4_mb_take_reserved_meta(struct inode *inode);
void ext4_mb_untake_reserved_meta(struct inode *inode);

/* ---- mballoc.c ---- */

/* Set the bits of an extent, which keeps its pin on failure: give it back then. */
int ext4_mb_mark_used(handle_t *handle, struct super_block *sb, const struct mb_extent *x);

static inline struct ext4_mballoc *ext4_mb(struct super_block *sb)
{
	return sb->s_mb;
}
static inline ext4_fsblk_t ext4_mb_block(struct super_block *sb, const struct mb_group *g,
					 uint32_t offset)
{
	return ext4_group_first_block(sb, g->g_info->bg_group) + offset;
}

#endif
