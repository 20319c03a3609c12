/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef WRITEBACK_INTERNAL_H
#define WRITEBACK_INTERNAL_H
/* What the files of writeback/ share: the mapping of a file, the domain of a mount, and the calls between mechanisms. */

#include <limits.h>

#include "alloc/map.h"
#include "ext4/inode.h"
#include "ext4/jbd2_glue.h"
#include "util/assert.h"
#include "util/hist.h"
#include "writeback/arena.h"
#include "writeback/page_index.h"
#include "writeback/writeback.h"

#define PAGE_INDEX_MAX UINT32_MAX
#define WB_PENDING_MAX LONG_MAX
#define MAX_WRITEPAGES_EXTENT_PAGES 2048u /* one extent in the making: 8 MiB */
#define WB_BIO_PAGES 256u		  /* pages of one request at most */
#define IO_END_RANGES 4u		  /* extents to convert in one io_end */
#define NS_PER_MS UINT64_C(1000000)
#define NS_PER_SEC UINT64_C(1000000000)

/* ---- Tunables ---- */

enum { BUDGET_BEFORE_ADD, BUDGET_AFTER_ADD };
enum { SYNC_ASYNC_THEN_WAIT, SYNC_WAIT_ONLY };
enum { COMMIT_END, COMMIT_EACH };
enum { ORDER_BDI_FIRST, ORDER_GLOBAL_FIRST };
enum { THROTTLE_IOLESS, THROTTLE_2009 };
enum { BUMP_X8, BUMP_CONTIG, BUMP_X16, BUMP_X1 };
enum { CHUNK_BANDWIDTH, CHUNK_1024 };

enum wb_tunable {
	TUN_WRITEPAGES_BUDGET,
	TUN_PREMAP_PASS, /* bool: on 1 */
	TUN_SYNC_PASSES,
	TUN_SYNC_INODE_COMMIT,
	TUN_BALANCE_ORDER,
	TUN_THROTTLE,
	TUN_WRITE_BUMP,
	TUN_MAX_WRITEBACK_MB_BUMP,
	TUN_WRITEBACK_CHUNK,
	TUN_DIRTY_RATIO,
	TUN_DIRTY_BYTES, /* 0: the ratio counts */
	TUN_DIRTY_BACKGROUND_RATIO,
	TUN_DIRTY_BACKGROUND_BYTES,
	TUN_DIRTY_EXPIRE_CENTISECS,
	TUN_DIRTY_WRITEBACK_CENTISECS,
	TUN_DIRTYTIME_EXPIRE_SECONDS,
	TUN_READ_AHEAD_KB,
	TUN_WRITEPAGES_MARKS,
	TUN_NR
};

/* ---- Lists of dirty inodes ---- */

enum wb_list { WB_LIST_NONE, WB_B_DIRTY, WB_B_IO, WB_B_MORE_IO };

/* An inode on a dirty list: inside the mapping of a regular file, on its own for other inodes. It holds no reference: the number is looked up. */
struct wb_inode {
	uint32_t wi_ino;		     /* [const after init] */
	bool wi_embedded;		     /* [const after init] */
	TAILQ_ENTRY(wb_inode) wi_link;	     /* [wb_lock] */
	enum wb_list wi_list;		     /* [wb_lock] */
	uint64_t wi_dirtied_when_ns;	     /* [wb_lock] */
	TAILQ_ENTRY(wb_inode) wi_times_link; /* [wb_lock] */
	uint64_t wi_times_since_ns;	     /* [wb_lock] first lazy change of its times */
	bool wi_on_times;		     /* [wb_lock] on wb_b_dirty_time */
	bool wi_write_times;		     /* [wb_lock] they are due: on b_io for it */
	struct wb_inode *wi_hash_next;	     /* [wb_lock] inodes without a mapping */
};
TAILQ_HEAD(wb_inode_head, wb_inode);

/* ---- The mapping of a file ---- */

struct io_end;
TAILQ_HEAD(io_end_head, io_end);

struct address_space {
	struct inode *as_host;		  /* [const after init] */
	struct wb_domain *as_wb;	  /* [const after init] */
	unsigned as_blkbits;		  /* [const after init] */
	uint8_t as_full_mask;		  /* [const after init] a bit for each block of a page */
	struct mutex as_lock;		  /* MAPPING: the index, its tags, PG_DIRTY, PG_WRITEBACK */
	struct page_index as_index;	  /* [as_lock] */
	_Atomic uint32_t as_nrpages;	  /* [as_lock for changes] */
	_Atomic uint32_t as_nr_dirty;	  /* [as_lock for changes] */
	_Atomic uint32_t as_nr_writeback; /* [as_lock for changes] */

	struct rwsem as_invalidate_lock; /* INVALIDATE: pages are not made while blocks go */
	struct rwsem
		as_writepages_lock; /* INVALIDATE, after as_invalidate_lock: one writepages at a time */
	_Atomic uint32_t
		as_writeback_index;  /* [as_writepages_lock to change] where range_cyclic goes on */
	_Atomic uint32_t as_map_seq; /* [atomic] changes whenever blocks are taken away */
	_Atomic uint32_t as_wb_err;  /* [atomic] errseq */
	struct wb_inode as_wi;

	/* I/O that is not finished, conversions included */
	struct mutex as_end_lock;   /* LEAF */
	struct cond as_end_cond;    /* an io_end is finished */
	struct io_end_head as_ends; /* [as_end_lock] in order of submission */
	uint64_t as_end_seq;	    /* [as_end_lock] number of the last io_end */
	uint32_t as_end_waiters;    /* [as_end_lock] they convert what completes */
	bool as_converting;	    /* [as_end_lock] somebody is at it */
	bool as_convert_again;	    /* [as_end_lock] */
	bool as_io_ref;		    /* [as_end_lock] the inode is held for its I/O */
	bool as_work_pending;	    /* [as_end_lock] as_work is queued and not yet entered */
	uint32_t as_nr_ends;	    /* [as_end_lock] */
	bool as_data_lost;	    /* [as_end_lock] data_err=abort: a request failed; stays */
	struct work_item as_work;   /* conversions */
	STAILQ_ENTRY(address_space) as_manual_link; /* [wb_manual_lock] simulations: work to do */
	bool as_manual_queued;			    /* [wb_manual_lock] */
	_Atomic uint64_t as_written_seq; /* [atomic] wb_write_seq of the last data written */

	struct frame_reserve as_reserve; /* [i_rwsem for write] */

	/* readahead: hints, races only cost speed */
	_Atomic uint32_t as_ra_next;  /* page that a sequential reader wants next */
	_Atomic uint32_t as_ra_end;   /* first page not read ahead */
	_Atomic uint32_t as_ra_pages; /* window */
};

/* ---- writeback_control ---- */

enum writeback_sync_modes { WB_SYNC_NONE, WB_SYNC_ALL };

struct writeback_control {
	long nr_to_write; /* pages left; the effective budget of a call may be larger (write_bump) */
	long pages_skipped;
	uint64_t range_start, range_end; /* bytes, inclusive */
	enum writeback_sync_modes sync_mode;
	bool for_kupdate;
	bool for_background;
	bool for_reclaim;
	bool for_sync; /* sync(2): one commit at the end covers all */
	bool range_cyclic;
	bool tagged_writepages;
};

enum wb_reason {
	WB_REASON_BACKGROUND,
	WB_REASON_VMSCAN,
	WB_REASON_SYNC,
	WB_REASON_PERIODIC,
	WB_REASON_THROTTLE,
	WB_REASON_FREE_SPACE,
};

struct wb_work {
	long wk_nr_pages;
	enum writeback_sync_modes wk_sync_mode;
	bool wk_for_kupdate, wk_for_background, wk_for_sync, wk_tagged;
	enum wb_reason wk_reason;
	bool wk_heap;		       /* the flusher frees it */
	bool wk_done;		       /* [wb_lock] */
	uint64_t wk_start_ns;	       /* inodes dirtied later are not its business */
	STAILQ_ENTRY(wb_work) wk_link; /* [wb_lock] */
};

/* ---- Statistics ---- */

struct wb_stats {
	/* writepages */
	counter_t ws_writepages;      /* calls */
	counter_t ws_pages_premap;    /* submitted without a handle */
	counter_t ws_pages_mapped;    /* submitted after mapping */
	counter_t ws_pages_in_handle; /* submitted while a handle was open (premap_pass=off) */
	counter_t ws_budget_exits;
	counter_t ws_handles;
	counter_t ws_handle_open_ns;
	counter_t ws_enospc_retries;
	counter_t ws_lock_retries;
	counter_t ws_pages_skipped;
	counter_t ws_bump_scans;
	_Atomic int64_t ws_nr_to_write_min; /* least nr_to_write at exit */
	struct hist ws_nr_to_write_exit;    /* values below 0 as 0 */
	counter_t ws_negative_exits;	    /* exits with nr_to_write below 0 */
	struct hist ws_pages_per_call;
	struct hist ws_extent_blocks; /* mapped by one call of ext4_map_blocks */
	struct hist ws_request_bytes;
	struct hist ws_handle_ns;
	/* completions */
	counter_t ws_conversions;
	counter_t ws_disksize_updates;
	counter_t ws_conversion_waits; /* done, but an earlier one is not */
	counter_t ws_waiter_ends;      /* finished by who waited for them, not by a worker */
	counter_t ws_io_errors;
	/* sync */
	counter_t ws_sync_calls;
	counter_t ws_sync_inodes[2]; /* by pass: WB_SYNC_NONE, WB_SYNC_ALL */
	counter_t ws_sync_pages[2];
	counter_t ws_sync_ns[2];
	counter_t
		ws_sync_waits[2]; /* inodes that had pages under writeback at the end of the pass */
	counter_t ws_sync_inode_commits;
	counter_t ws_fsyncs;
	counter_t ws_fsync_flushes;
	struct hist ws_fsync_ns;
	/* flusher */
	counter_t ws_flusher_runs[6]; /* by wb_reason */
	counter_t ws_flusher_inodes;
	counter_t ws_requeued;
	counter_t ws_window_waits; /* background writes that waited for the window */
	/* throttle */
	counter_t ws_balance_calls; /* balance_dirty_pages_ratelimited */
	counter_t ws_balance_full;  /* those that looked at the counters */
	counter_t ws_global_reads;
	counter_t ws_global_reads_max; /* in one call */
	counter_t ws_pauses;
	counter_t ws_pause_ns;
	counter_t ws_pause_max_ns;
	counter_t ws_dirty_exceeded_set, ws_dirty_exceeded_cleared;
	counter_t ws_unparked;
	counter_t ws_background_kicks;
	/* cache */
	counter_t ws_read_pages, ws_read_hits, ws_readahead_pages;
	counter_t ws_evicted, ws_frame_waits;
	counter_t ws_given_back_bytes; /* to the host */
	counter_t ws_written_bytes;    /* by file_write */
	counter_t ws_read_bytes;
	counter_t ws_rmw_reads; /* blocks read to be changed in part */
	counter_t ws_page_wb_waits;
	counter_t ws_dio_reads, ws_dio_writes, ws_dio_shared, ws_dio_bytes;
	/* stripes */
	counter_t ws_stripe_full, ws_stripe_start, ws_stripe_end, ws_stripe_partial, ws_stripe_rmw;
};

/* ---- The domain ---- */

#define TASK_SLOTS 256u
/* How many pages a writer may dirty before it looks at the limits. */
struct task_dirty {
	_Atomic uint32_t td_task;
	_Atomic uint32_t td_dirtied;
	_Atomic uint32_t td_pause_pages; /* 0: not yet set */
};

TAILQ_HEAD(ticket_head, wb_throttle_ticket);

/* Bandwidth and rates, as struct bdi_writeback keeps them; pages and pages/s. */
struct wb_bandwidth {
	uint64_t bw_time_ns;
	uint64_t bw_written_stamp, bw_dirtied_stamp;
	uint64_t bw_write;     /* write_bandwidth */
	uint64_t bw_avg;       /* avg_write_bandwidth */
	uint64_t bw_ratelimit; /* dirty_ratelimit */
	uint64_t bw_balanced;  /* balanced_dirty_ratelimit */
};

STAILQ_HEAD(manual_list, address_space);

struct wb_domain {
	struct super_block *wb_sb; /* [const after init] */
	struct arena *wb_arena;	   /* [const after init] */
	_Atomic uint64_t wb_tun[TUN_NR];
	const struct wb_notify_ops *_Atomic wb_notify;
	uint64_t wb_ram_bytes; /* [const after init] */
	struct wb_stats wb_stats;

	/* counters of pages */
	_Atomic int64_t wb_nr_dirty;
	_Atomic int64_t wb_nr_writeback;
	_Atomic uint64_t wb_dirtied; /* ever */
	_Atomic uint64_t wb_written; /* ever */

	/* clean pages */
	struct mutex wb_lru_lock;   /* LEAF */
	TAILQ_HEAD(, page) wb_lru;  /* [wb_lru_lock] oldest first */
	uint32_t wb_nr_lru;	    /* [wb_lru_lock] */
	struct mutex wb_frame_lock; /* LEAF */
	struct cond wb_frame_cond;  /* frames may be free */
	_Atomic uint32_t wb_frame_waiters;

	/* flusher */
	struct mutex wb_lock;	  /* WB */
	struct cond wb_cond;	  /* the flusher has something to do */
	struct cond wb_done_cond; /* a work or an inode is done */
	struct wb_inode_head wb_b_dirty, wb_b_io, wb_b_more_io; /* [wb_lock] */
	uint32_t wb_nr_b_dirty, wb_nr_b_io, wb_nr_b_more_io;	/* [wb_lock] */
	struct wb_inode_head wb_b_dirty_time;			/* [wb_lock] */
	uint32_t wb_nr_b_dirty_time;				/* [wb_lock] */
	STAILQ_HEAD(, wb_work) wb_works;			/* [wb_lock] */
	struct wb_inode **wb_hash;   /* [wb_lock] wb_inodes of other kinds of inodes */
	uint64_t wb_last_kupdate_ns; /* [wb_lock] */
	pthread_t wb_flusher, wb_timer;

	/* conversions */
	struct workqueue *wb_wq;	   /* [const after init] NULL in simulations */
	struct mutex wb_manual_lock;	   /* LEAF */
	struct manual_list wb_manual_work; /* [wb_manual_lock] */
	struct manual_list
		wb_manual_later; /* [wb_manual_lock] only a reference to drop, by the outermost */

	/* background writes in flight */
	struct mutex wb_window_lock; /* LEAF */
	struct cond wb_window_cond;
	uint64_t wb_window_bytes; /* [wb_window_lock] */

	/* durability */
	_Atomic uint64_t wb_write_seq;	 /* data requests completed */
	_Atomic uint32_t wb_data_err;	 /* [atomic] errseq of all files */
	_Atomic uint64_t wb_flushed_seq; /* all up to here are on stable storage */

	/* pressure [flusher] */
	uint64_t wb_busy_ns;   /* last time that the cache was seen in use */
	uint64_t wb_last_uses; /* bytes read and written then */
	int wb_psi_fd;

	/* throttle */
	struct mutex wb_throttle_lock; /* WB: tickets, bandwidth */
	struct cond wb_throttle_cond;  /* the timer thread */
	struct ticket_head wb_tickets; /* [wb_throttle_lock] */
	_Atomic uint32_t wb_nr_parked; /* [wb_throttle_lock for changes] */
	struct wb_bandwidth wb_bw;     /* [wb_throttle_lock] */
	struct task_dirty wb_task[TASK_SLOTS];

	/* flags of the parts above */
	bool wb_manual;			 /* [const after init] simulation: no threads */
	bool wb_background;		 /* [wb_lock] background writeback was asked for */
	bool wb_stop;			 /* [wb_lock] */
	bool wb_times_due;		 /* [wb_lock] inodes with lazy times left the cache */
	bool wb_running;		 /* [wb_lock] the flusher is writing */
	bool wb_threads;		 /* [const after init] */
	bool wb_kick_timer;		 /* [wb_throttle_lock] */
	bool wb_timer_stop;		 /* [wb_throttle_lock] */
	_Atomic bool wb_dirty_exceeded;	 /* bdi->dirty_exceeded */
	_Atomic uint64_t wb_dirty_limit; /* pages: dl_dirty */
};

static inline uint64_t wb_tun(const struct wb_domain *wb, enum wb_tunable t)
{
	return atomic_load_explicit(&((struct wb_domain *)(uintptr_t)wb)->wb_tun[t],
				    memory_order_relaxed);
}

/* The device's number, for events. */
static inline uint32_t wb_dev(const struct address_space *as)
{
	return as->as_host->i_sb->s_dev->bd_dev;
}

static inline unsigned blocks_per_page(const struct address_space *as)
{
	return 1u << (PAGE_SHIFT - as->as_blkbits);
}

static inline ext4_lblk_t page_first_block(const struct address_space *as, uint32_t index)
{
	return index << (PAGE_SHIFT - as->as_blkbits);
}

/* ---- page_cache.c ---- */

int mapping_alloc(struct inode *inode, struct wb_domain *wb);
/* The lock bit. lock_page() may sleep; never with a handle open. */
void lock_page(struct page *page);
bool trylock_page(struct page *page);
void unlock_page(struct page *page);
/* A page locked for a read is unlocked by the completion: the lock leaves this thread. */
void page_lock_handoff(void);
/* The same as unlock_page for a page that this thread did not lock. */
void unlock_page_io(struct page *page);
void wait_on_page_locked(struct page *page);
/* Conversions of the page's extent are done afterwards. No handle; in simulations no page lock either if it is under writeback. */
void wait_on_page_writeback(struct address_space *as, struct page *page);
/* The same, and never runs completions: for a commit, on pages that nothing follows. */
void wait_on_page_data(struct page *page);
/* Simulations: between two looks at a device that takes its time. */
void nap_manual(void);

void page_get(struct page *page);
/* The last one frees the frame. */
void page_put(struct wb_domain *wb, struct page *page);
/* The page of index with a reference, or NULL. */
struct page *find_get_page(struct address_space *as, uint32_t index);
/* Up to n pages with the tag in [start, last], each with a reference. */
unsigned find_get_pages(struct address_space *as, uint32_t start, uint32_t last, enum page_tag tag,
			struct page **out, unsigned n);
/*
 * Pages start .. start + n, found or made, each with a reference, none locked by this; those made have no block uptodate. seq: a writer, frames from the reserve.
 * Blocks for frames: no handle, no page lock. 0 or -ENOMEM.
 */
int grab_pages(struct address_space *as, uint32_t start, unsigned n, bool writer,
	       struct page **out);
/* Frames for a caller that puts them into the index itself. Blocks until at least one is there. Returns how many. */
unsigned alloc_frames(struct wb_domain *wb, struct frame_reserve *r, unsigned n, struct page **out);
/* Put a frame into the index at `index`, locked (by nobody's thread: see unlock_page_io). 0, -EEXIST, -ENOMEM. */
int add_to_page_cache_locked(struct address_space *as, struct page *page, uint32_t index);
/* Out of the index; page locked, not under writeback. A dirty page loses its dirt. Drops the cache's reference. */
void delete_from_page_cache(struct page *page);
/*
 * The blocks in `mask` of the locked page are newer than the disk. set_page_dirty_batch: n pages with full masks already in p_dirty.
 */
void set_page_dirty(struct page *page, uint8_t mask);
void set_pages_dirty(struct address_space *as, struct page *const *pages, unsigned n);
/* Dirty -> writeback, page locked. p_dirty is cleared by the caller after it read it. */
void set_pages_writeback(struct address_space *as, struct page *const *pages, unsigned n);
void end_pages_writeback(struct address_space *as, struct page *const *pages, unsigned n);
/* A locked page that turned out to have nothing to write. */
void clear_page_dirty(struct page *page);
/* The locked page is clean now: may be evicted. */
void page_lru_add(struct wb_domain *wb, struct page *const *pages, unsigned n);
/* Evict up to n clean pages; returns how many frames became free. */
unsigned shrink_page_cache(struct wb_domain *wb, unsigned n);
/* Drop pages of [start, last]: dirty data is discarded, writeback waited for. No handle. */
void truncate_pages(struct address_space *as, uint32_t start, uint32_t last);
/* Drop clean pages of [start, last]; those dirty, under writeback, locked or referenced stay. Returns -EBUSY if some stayed. */
int invalidate_pages(struct address_space *as, uint32_t start, uint32_t last);
void wake_frame_waiters(struct wb_domain *wb);

/* ---- buffered_read.c ---- */

/* A read happened: atime by the mount's rule, in memory. */
void touch_atime(struct inode *inode, unsigned o_flags);

/* ---- readahead.c ---- */

/*
 * Make pages [start, start + n) that are missing and have content on the disk, and start reading them; holes are left out. as_invalidate_lock held for read, or i_rwsem.
 * Does not wait for the reads.
 */
int read_pages_start(struct address_space *as, uint32_t start, unsigned n);
/* Readahead policy for a read of pages [start, start + n). */
void page_readahead(struct address_space *as, uint32_t start, unsigned n);
/* Make the blocks in `mask` of a locked page uptodate (reading, or zeros for holes), waiting. 0, -EIO, -EFSCORRUPTED. */
int read_page_blocks(struct page *page, uint8_t mask);

/* ---- buffered_write.c ---- */

/* A position in an iovec. */
struct iov_iter {
	const struct iovec *ii_iov;
	int ii_cnt;
	size_t ii_off; /* in the first one */
};
void iov_copy_from(struct iov_iter *it, void *dst, size_t len);
void iov_copy_to(struct iov_iter *it, const void *src, size_t len);
void iov_advance(struct iov_iter *it, size_t len);

/* mtime and ctime are now, in memory. */
void file_update_time(struct inode *inode);
/* Write through the cache; i_rwsem held for write. Bytes (fewer only after an error), or negative errno if there are none. */
ssize_t buffered_write_locked(struct inode *inode, struct iov_iter *it, size_t len, uint64_t pos,
			      const struct ext4_cred *cred);
/* Data, metadata and flush as w_flags ask for, after i_rwsem was released. */
int finish_sync_write(struct inode *inode, uint64_t pos, size_t len, unsigned w_flags);

/* ---- page_zero.c ---- */

/*
 * Zero what lies past i_size in its page, in memory; if its block is on the disk and was not zero there, it becomes dirty.
 * i_rwsem held for write, no handle. 1: it became dirty, 0, or -EIO ...
 */
int zero_eof_tail(struct inode *inode);
/* Zero bytes [from, to), which lie in one page, in memory; blocks that are on the disk become dirty. i_rwsem for write, no handle. 1: something became dirty, 0, or negative errno. */
int zero_partial_page(struct inode *inode, uint64_t from, uint64_t to);
/* Whole blocks [first, last] of one page will be taken away or become unwritten: they are zeros in memory, and clean. Waits for writeback; no handle. */
void clear_page_blocks(struct address_space *as, uint32_t index, unsigned first, unsigned last);

/* ---- writepages.c ---- */

/* As ext4_writepages(). A reference of the inode is held. Neither handle nor page lock. 0 or the first error. */
int do_writepages(struct address_space *as, struct writeback_control *wbc);
/* For a commit: submit the pages of bytes [start, end) whose blocks are all mapped and written; opens no handle. */
/* Write the dirty blocks of a locked page that are mapped, at once and in this thread; the page stays as dirty as it was. */
int write_mapped_blocks(struct address_space *as, const struct page *page);
int write_mapped_range(struct address_space *as, uint64_t start_bytes, uint64_t end_bytes);

/* ---- filemap.c ---- */

/* Write a range without waiting. */
int filemap_fdatawrite_range(struct address_space *as, uint64_t start, uint64_t end,
			     enum writeback_sync_modes mode);
/* Wait for all I/O and conversions of the range that were submitted before. */
void filemap_fdatawait_range(struct address_space *as, uint64_t start, uint64_t end);

/* ---- page_io.c: requests ---- */

/* One write request. Its arrays follow it in memory. */
struct wb_bio {
	struct bio w_bio;
	struct io_end *w_end;
	struct wb_bio *w_next; /* ie_bios */
	unsigned w_nr_pages;
	bool w_in_window;
	struct page **w_pages;
	struct iovec w_iov[];
};

struct io_submit {
	struct address_space *is_mapping;
	struct io_end *is_end;
	bool is_sync;		  /* somebody waits */
	uint64_t is_window_bytes; /* 0: no limit of what is in flight */
	bool is_in_handle;	  /* a handle is open: for statistics */
	unsigned is_nr_pages, is_nr_iov;
	uint64_t is_offset, is_len; /* bytes on the device */
	uint64_t is_limit;	    /* where the request must end at the latest */
	struct page *is_pages[WB_BIO_PAGES];
	struct iovec is_iov[WB_BIO_PAGES * 4];
};

void io_submit_init(struct io_submit *io, struct address_space *as, bool sync);
/* Background writes: submission waits while more than the window is in flight. */
void io_submit_set_window(struct io_submit *io);
/* The following pages belong to ie: what is queued for another one goes out first. */
void io_submit_set_end(struct io_submit *io, struct io_end *ie);
/*
 * Write the blocks in `mask` of the page, which is under writeback; pblk_of tells where block i lies. Full requests are handed to the device.
 */
typedef ext4_fsblk_t (*pblk_of_fn)(void *arg, ext4_lblk_t lblk);
void io_add_page(struct io_submit *io, struct page *page, uint8_t mask, pblk_of_fn pblk_of,
		 void *arg);
/* Hand what was queued to the device. */
void io_submit_flush(struct io_submit *io);
/* The request's pages are done with it; frees it. Any thread. */
void finish_wb_bio(struct address_space *as, struct wb_bio *w);

/* ---- io_end.c: what follows a request ---- */

/*
 * A group of requests of one inode with what is to be done when all are complete.
 */
struct io_end {
	struct address_space *ie_mapping;
	TAILQ_ENTRY(io_end) ie_link; /* [as_end_lock] */
	_Atomic int ie_count;	     /* requests in flight, and the submitter */
	_Atomic int ie_error;	     /* the first one */
	/* [submitter until started; as_end_lock] a worker has something to do: conversion, i_disksize, an abort */
	bool ie_work;
	bool ie_late;		 /* [as_end_lock] ... because of an error only */
	bool ie_defer;		 /* pages stay under writeback until the worker is done */
	bool ie_done;		 /* [as_end_lock] all requests are complete */
	handle_t *ie_rsv;	 /* reserved handle or NULL */
	uint64_t ie_seq;	 /* [as_end_lock] */
	uint64_t ie_start_bytes; /* of the file: the order */
	uint64_t ie_end_bytes;	 /* [submitter until ie_done] exclusive: i_disksize may move here */
	unsigned ie_nr_ranges;	 /* [submitter until ie_done] */
	struct {
		ext4_lblk_t lblk;
		ext4_lblk_t len;
	} ie_range[IO_END_RANGES];	/* unwritten extents to convert */
	struct wb_bio *_Atomic ie_bios; /* complete, waiting for the worker */
};

/* NULL: no memory. Takes over rsv, also then. */
struct io_end *io_end_alloc(struct address_space *as, handle_t *rsv);
/* From now on it has its place in the order. ie_work, ie_defer and ie_start_bytes are set and stay, but for io_end_fail(); the others may be set until io_end_put(). */
void io_end_start(struct io_end *ie);
/*
 * One of its requests failed: told by fsync, nothing is converted; with data_err=abort the journal is aborted before anybody who waits for the io_end
 * goes on. Called with the request's reference of it, before its pages end writeback. Any thread.
 */
void io_end_fail(struct io_end *ie, int err);
void io_end_get(struct io_end *ie);
/* A request is complete, or the submitter is finished with it. Any thread. */
void io_end_put(struct io_end *ie);
/* Never started: freed with its reservation. NULL allowed. */
void io_end_discard(struct io_end *ie);
void io_end_add_range(struct io_end *ie, ext4_lblk_t lblk, ext4_lblk_t len);
/* Wait until io_ends numbered up to seq are finished, converting them in this thread when it is their turn. A reference of the inode is held; no handle, nothing after it. */
void wait_io_ends(struct address_space *as, uint64_t seq);
/*
 * The caller is about to call wait_io_ends(): until unexpect_io_ends() what completes is left to it, and no worker is woken. In between it waits for
 * nothing but its own requests. A reference of the inode is held. Not in simulations.
 */
void expect_io_ends(struct address_space *as);
void unexpect_io_ends(struct address_space *as);
/* The number of the last one started. */
uint64_t last_io_end(struct address_space *as);
/* Raise i_disksize to min(end_bytes, i_size) in the handle; true if it moved. */
bool ext4_update_disksize(struct inode *inode, uint64_t end_bytes);
/* Credits that a conversion of n ranges needs. */
unsigned conversion_credits(struct inode *inode, unsigned ranges);
void conversion_work(struct work_item *w);
/* Simulations, from inside a wait: conversions only. */
void run_completions_nested(struct wb_domain *wb);

/* A request of data is complete: a flush is due. */
void mapping_note_written(struct address_space *as);

/* ---- errseq.c ---- */

void mapping_set_error(struct address_space *as, int err);

/* ---- flusher.c ---- */

void wb_dirty_hook(struct inode *inode, uint32_t bits);
/* First dirty page. */
void wb_mark_mapping_dirty(struct address_space *as);
int flusher_start(struct wb_domain *wb);
void flusher_stop(struct wb_domain *wb);
/* It may be asleep with the old interval. */
void flusher_interval_changed(struct wb_domain *wb);
/* Background writeback now. */
void wb_start_background(struct wb_domain *wb);
void wb_start_writeback(struct wb_domain *wb, long nr_pages, enum wb_reason reason);
/* Run a work and wait for it: by the flusher, or here in simulations. */
void wb_do_work(struct wb_domain *wb, struct wb_work *work);
/* Write one inode: pages by wbc, then the inode. A reference is held. */
int writeback_single_inode(struct inode *inode, struct writeback_control *wbc);
/* Write the in-memory inode through a handle. */
int write_inode(struct inode *inode);
/* writeback_inodes of 2009: chunk pages from the lists in this thread. Returns pages written. */
long writeback_inodes_wbc(struct wb_domain *wb, struct writeback_control *wbc);
/* Off all lists, and nobody is writing it. */
void wb_inode_detach(struct inode *inode);
void wb_inode_init(struct wb_inode *wi, struct inode *inode);

/* ---- stats.c ---- */

/* "background", "sync" and so on, as in the kernel's trace points. */
const char *wb_reason_name(enum wb_reason reason);

/* ---- page_writeback.c ---- */

struct dirty_limits {
	uint64_t dl_background, dl_dirty, dl_bdi; /* pages */
};
void get_dirty_limits(struct wb_domain *wb, struct dirty_limits *dl);
/* A tunable that they depend on has changed. */
void dirty_limits_changed(struct wb_domain *wb);
bool over_bground_thresh(struct wb_domain *wb);
void account_page_dirtied(struct wb_domain *wb, unsigned n);
void throttle_init(struct wb_domain *wb);
int throttle_start(struct wb_domain *wb);
void throttle_stop(struct wb_domain *wb);
/* Writeback progressed: parked writers may be let go. Any thread, no lock after WB held. */
void throttle_progress(struct wb_domain *wb);
void wb_update_bandwidth(struct wb_domain *wb, uint64_t now);
uint64_t wb_avg_bandwidth(struct wb_domain *wb);

/* ---- fsync.c ---- */

/* As fsync of a part of the file. */
int sync_file_range_wait(struct inode *inode, uint64_t start, uint64_t end, bool datasync);

/* ---- truncate.c ---- */

/* As filemap_write_and_wait_range(), and -EIO also if an asynchronous write failed meanwhile. */
int write_and_wait_checked(struct inode *inode, uint64_t start, uint64_t end_inclusive);
/*
 * What makes the file grow past i_disksize, and its last block, is on the disk: i_disksize may be moved by somebody else, or pages be dropped. i_rwsem held for write, no handle.
 */
int flush_growth(struct inode *inode);

/* ---- direct_io.c ---- */

/*
 * An O_DIRECT write that only replaces data: whole blocks that are written, inside the file, nothing to drop. False: it is something else, nothing was
 * done. True: done as far as *ret says, side by side with other such writes. Takes i_rwsem for read.
 */
bool direct_overwrite(struct inode *inode, struct wb_write *w, ssize_t *ret);
/* i_rwsem held for write; what must go through the cache is written and waited for. Bytes or negative errno. */
ssize_t direct_write_locked(struct inode *inode, struct wb_write *w, size_t len);
void notify_invalidate(struct inode *inode, uint64_t pos, uint64_t len);

/* ---- pressure.c ---- */

void pressure_init(struct wb_domain *wb);
void pressure_exit(struct wb_domain *wb);
/* Give memory back if the host is short of it or the cache idle. */
void pressure_check(struct wb_domain *wb);
/* Evict this share of the clean pages, and give wholly free slabs back. Bytes given back. */
uint64_t wb_trim_cache(struct wb_domain *wb, unsigned percent);

/* ---- memory.c ---- */

/* RAM, or less if the cgroup allows less. */
uint64_t wb_usable_ram(void);
uint64_t wb_cache_bytes(const struct ext4_options *opts, uint64_t ram);

/* ---- tunables.c ---- */

void tunables_init(struct wb_domain *wb);

#endif
