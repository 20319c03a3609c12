/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef JOURNAL_JBD2_H
#define JOURNAL_JBD2_H
/*
 * Transactions over the buffer cache. The same interface serves three modes: a jbd2 log on disk,
 * no log (a commit writes the dirty metadata home, flushes and runs the callbacks), and read-only.
 * The behaviour follows fs/jbd2 of the kernel; where it differs the function says so.
 * This layer knows no inode: ordered data is reached through struct jbd2_journal_ops.
 */

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/queue.h>

#include "block/buffer.h"
#include "util/hist.h"
#include "util/lock.h"

typedef struct jbd2_handle handle_t;
typedef struct jbd2_journal journal_t;
typedef struct jbd2_transaction transaction_t;
typedef uint32_t tid_t;

/*
 * What a handle is for: statistics only. Values follow the EXT4_HT_* of the kernel's trace points.
 */
enum jbd2_handle_type {
	HT_MISC,
	HT_INODE,
	HT_WRITE_PAGE,
	HT_MAP_BLOCKS,
	HT_DIR,
	HT_TRUNCATE,
	HT_QUOTA,
	HT_RESIZE,
	HT_MIGRATE,
	HT_XATTR,
	HT_EXT_CONVERT,
	HT_MAX
};

/*
 * Called after the transaction is durable (error 0) or the journal is aborted (error < 0): once, from the commit thread, no lock held.
 * No write of a block that the transaction freed is in flight, nor will be. May not start a handle nor wait for a commit.
 */
struct jbd2_commit_cb {
	void (*cb_fn)(struct jbd2_commit_cb *cb, int error);
	STAILQ_ENTRY(jbd2_commit_cb) cb_link; /* [j_list_lock] */
};

/* Data that must be on the device before the commit record (indirect-block files; data=ordered). Embedded in the inode. */
struct jbd2_inode {
	void *ji_owner;			    /* [const after init] given back to journal_ops */
	transaction_t *ji_transaction;	    /* [j_list_lock] */
	transaction_t *ji_next_transaction; /* [j_list_lock] */
	uint64_t ji_dirty_start_bytes;	    /* [j_list_lock] */
	uint64_t ji_dirty_end_bytes;	    /* [j_list_lock] exclusive */
	bool ji_committing;		    /* [j_list_lock] commit is using it */
	TAILQ_ENTRY(jbd2_inode) ji_link;    /* [j_list_lock] */
};

/* Tags of the fast-commit area. */
enum jbd2_fc_tag {
	JBD2_FC_TAG_ADD_RANGE = 1,
	JBD2_FC_TAG_DEL_RANGE = 2,
	JBD2_FC_TAG_CREAT = 3,
	JBD2_FC_TAG_LINK = 4,
	JBD2_FC_TAG_UNLINK = 5,
	JBD2_FC_TAG_INODE = 6,
	JBD2_FC_TAG_PAD = 7,
	JBD2_FC_TAG_TAIL = 8,
	JBD2_FC_TAG_HEAD = 9
};

/* A record whose fast commit is complete (tail seen, checksum right). HEAD, PAD and TAIL are not passed on. */
struct jbd2_fc_record {
	uint16_t fr_tag;	 /* enum jbd2_fc_tag */
	uint16_t fr_len_bytes;	 /* already checked against the tag's smallest size */
	const uint8_t *fr_value; /* little-endian as on disk, not aligned */
};

struct jbd2_journal_ops {
	/*
	 * Write the dirty mapped data of the range and wait for it; called by commit with no lock and no handle; may not open one. An error is
	 * logged and the commit goes on, as with data_err=ignore; for data_err=abort the owner calls jbd2_journal_abort() in here.
	 */
	int (*write_ordered_data)(void *ji_owner, uint64_t start_bytes, uint64_t end_bytes);
	/* The journal was aborted for `error`: obey errors= and record it. Called once, from any thread, no lock held. */
	void (*aborted)(void *fs, int error);
	/* A recovery pass wrote block home; lets the owner drop what it cached. May be NULL. */
	void (*replayed)(void *fs, uint64_t blocknr);
};

/* One run of the log's blocks on its device. */
struct jbd2_log_extent {
	uint32_t le_lblk; /* first block of the log */
	uint32_t le_len;  /* blocks */
	uint64_t le_pblk; /* block on the log device */
};

struct jbd2_params {
	struct bh_cache *jp_cache; /* metadata buffers of the file system */
	struct blkdev *jp_fs_dev;  /* the file system's device */
	struct blkdev
		*jp_log_dev; /* the device of the log: the same, or an external one; NULL: no log */
	uint32_t jp_block_bytes;
	const struct jbd2_log_extent *jp_extents; /* where the log lies; copied */
	unsigned jp_nr_extents;
	/*
	 * Log block of the journal superblock: 0 for a journal inode. An external log numbers its blocks from the start of its device
	 * (log block = device block), and 0 there means the usual place, behind the device's own ext4 superblock.
	 */
	uint32_t jp_sb_lblk;
	uint8_t jp_fs_uuid[16]; /* checked against an external log's user list */
	const struct jbd2_journal_ops *jp_ops;
	void *jp_fs;			/* argument of the ops */
	unsigned jp_commit_interval_ms; /* commit=, default 5000 */
	unsigned jp_min_batch_us;	/* min_batch_time */
	unsigned jp_max_batch_us;	/* max_batch_time */
	bool jp_barrier;
	bool jp_async_commit;
	bool jp_want_csum; /* the file system has metadata_csum: use csum v3 when the log is empty */
	bool jp_want_64bit;
	bool jp_read_only; /* load and check, never write */
	/* The owner applies fast commits after jbd2_journal_load(). Without: -EOPNOTSUPP for a log that holds some, nothing written. */
	bool jp_takes_fc;
	bool jp_manual_commit; /* tests: no commit thread; commits happen in the caller of jbd2_log_wait_commit() and friends */
};

/* ---- Life of a journal ---- */

/*
 * Read and check the journal superblock; nothing is written. With jp_log_dev NULL a journal without
 * log is made. ERR_PTR(-EFSCORRUPTED | -EFSBADCRC | -EOPNOTSUPP | -EIO | -EINVAL), the reason logged.
 */
journal_t *jbd2_journal_init(const struct jbd2_params *params);
/* True if the log holds transactions to replay (s_start != 0). */
bool jbd2_journal_needs_recovery(const journal_t *j);
/*
 * Replay (scan, revoke, replay passes), write everything home, flush, mark the log empty: unless there are fast commits, which stay
 * valid on the disk until the owner has applied them (below).
 * Idempotent when cut. Stops at the last good transaction as e2fsck does; -EFSBADCRC or -EFSCORRUPTED when e2fsck would refuse.
 * The caller re-reads its superblock afterwards. Buffers cached before are dropped.
 */
int jbd2_journal_recover(journal_t *j);
/* Start the commit thread; handles may be opened from now on. The log must be empty (recovered). */
int jbd2_journal_load(journal_t *j);

/*
 * The fast commits that recovery found, in the order in which they were made; *n is 0 if there are none. Valid until the journal is
 * destroyed or jbd2_journal_release_commits() succeeds.
 *
 * The owner loads the journal, holds commits, changes what the records say by ordinary handles, and releases. All of it is one
 * transaction, the very one that the fast commits were made in the place of: before its commit block is on the disk they are found
 * again by the next recovery, with nothing of this one home; after it they are void.
 */
const struct jbd2_fc_record *jbd2_fc_records(const journal_t *j, unsigned *n);
/*
 * Until the release nothing is committed, whoever asks: waits for a commit end at once with 0, and handles join one transaction that may fill
 * the whole log (-ENOSPC beyond). Only while nobody else uses the file system, the log is empty, and no handle was opened yet.
 */
void jbd2_journal_hold_commits(journal_t *j);
/* Commit what was held, and wait. 0 or the journal's error. */
int jbd2_journal_release_commits(journal_t *j);
/* Commit and checkpoint everything, mark the log empty, stop the threads, free. Returns the first error the journal met. */
int jbd2_journal_destroy(journal_t *j);
bool jbd2_has_log(const journal_t *j);
/* Change commit= and the batch times while mounted. 0 keeps a value. */
void jbd2_set_times(journal_t *j, unsigned commit_ms, unsigned min_batch_us, unsigned max_batch_us);

/* ---- Handles ---- */

/*
 * Open a handle with room for `credits` blocks and `revokes` revoke records in the running transaction. A thread that has one open gets the
 * same one, nested (h_ref). Waits for log space or for a transaction that is locked down. The caller holds no page lock, i_data_sem or buffer lock.
 * ERR_PTR(-EROFS) after an abort or read-only, -ENOSPC if credits can never fit, -ENOMEM.
 */
handle_t *jbd2_journal_start(journal_t *j, enum jbd2_handle_type type, unsigned credits,
			     unsigned revokes);
/*
 * Set aside credits for a handle that is started later by jbd2_journal_start_reserved(), which then never waits for log space and may join a
 * transaction that is being locked down. With a handle open in this thread, and in manual mode, -EAGAIN
 * replaces waiting. At most half of a transaction can be reserved, by all: a thread that holds a reservation which nobody will use before
 * it goes on must not ask for another. -ENOSPC if credits can never fit.
 */
handle_t *jbd2_journal_reserve(journal_t *j, unsigned credits);
/* Turn the reservation into an open handle of this thread. On error the reservation is released. */
int jbd2_journal_start_reserved(handle_t *rsv, enum jbd2_handle_type type);
/* Give an unused reservation back. */
void jbd2_journal_free_reserved(handle_t *rsv);
/* Ask for `credits` more blocks. 0; 1 if the transaction has no room (restart, then); negative errno. */
int jbd2_journal_extend(handle_t *h, unsigned credits, unsigned revokes);
/*
 * Finish the part done so far and continue in a new transaction with `credits`. The file system must be consistent at this point; only
 * the outermost handle. The caller holds nothing after handle in the lock order. The commit of the old transaction is asked for; the same one
 * may be joined again if it is not locked down yet, as in the kernel. After an error the handle can only be stopped.
 */
int jbd2_journal_restart(handle_t *h, unsigned credits, unsigned revokes);
/* Close (or un-nest). With h_sync set waits for the commit. Returns the handle's error (-EROFS after abort). */
int jbd2_journal_stop(handle_t *h);
/* The handle open in this thread, or NULL. */
handle_t *jbd2_current_handle(void);
unsigned jbd2_handle_credits(const handle_t *h);
/* The transaction that h belongs to. */
tid_t jbd2_handle_tid(const handle_t *h);
void jbd2_handle_set_sync(handle_t *h);
bool jbd2_handle_aborted(const handle_t *h);
journal_t *jbd2_handle_journal(const handle_t *h);

/* ---- Buffers ---- */

/*
 * Before b_data is changed: the buffer is uptodate, joins the handle's transaction, and the content that an
 * older transaction still needs has been copied. May block for memory, never for a commit. Not under lock_buffer().
 */
int jbd2_journal_get_write_access(handle_t *h, struct buffer_head *bh);
/* The same for a block that was just allocated: old content does not matter, it need not be uptodate; its pending revoke is cancelled. */
int jbd2_journal_get_create_access(handle_t *h, struct buffer_head *bh);
/* The change is complete. Costs one credit at the first time in this transaction. ASSERTs credits and earlier write access. */
int jbd2_journal_dirty_metadata(handle_t *h, struct buffer_head *bh);
/*
 * The metadata block is freed: it leaves this transaction and will leave every checkpoint list when this one commits; a revoke record is
 * written so that replay cannot resurrect it. bh may be NULL (not cached). Consumes the caller's reference of bh.
 */
int jbd2_journal_revoke(handle_t *h, uint64_t blocknr, struct buffer_head *bh);
/* The block is freed and was never committed since it was allocated (or needs no revoke): just take it out. Consumes bh. */
int jbd2_journal_forget(handle_t *h, struct buffer_head *bh);
/* True if any transaction, running, committing or on a checkpoint list, still holds the buffer. */
bool jbd2_buffer_in_journal(struct buffer_head *bh);

/* ---- Ordered data and callbacks ---- */

void jbd2_inode_init(struct jbd2_inode *ji, void *owner);
/* The range must be written before h's transaction commits. */
int jbd2_journal_inode_ranged_write(handle_t *h, struct jbd2_inode *ji, uint64_t start_bytes,
				    uint64_t len_bytes);
/* Some transaction that is not committed yet waits for data of the inode. */
bool jbd2_journal_inode_ordered(journal_t *j, struct jbd2_inode *ji);
/*
 * The data is about to be thrown away, and the running transaction knows the inode only without a name: waits until a commit that is under way
 * has written what it promised of it; leaves all lists. No handle open.
 */
void jbd2_journal_settle_jbd_inode(journal_t *j, struct jbd2_inode *ji);
/* The inode goes away: leaves all lists, waits while a commit uses it. No handle open. */
void jbd2_journal_release_jbd_inode(journal_t *j, struct jbd2_inode *ji);
/* cb runs when h's transaction has committed. */
void jbd2_journal_callback_add(handle_t *h, struct jbd2_commit_cb *cb);

/* ---- Commit ---- */

/* tid a is at or after b (wraps). */
static inline bool tid_geq(tid_t a, tid_t b)
{
	return (int32_t)(a - b) >= 0;
}
/* The newest transaction: running if there is one with updates, else committing, else the last committed. */
tid_t jbd2_newest_tid(journal_t *j);
/* True if tid is running or committing, that is, not yet durable. */
bool jbd2_transaction_pending(journal_t *j, tid_t tid);
/* Start the commit of tid without waiting. 1 if one was started or is under way, 0 if it is done. */
int jbd2_log_start_commit(journal_t *j, tid_t tid);
/* Wait until tid is durable. 0 or the journal's error. No handle open. */
int jbd2_log_wait_commit(journal_t *j, tid_t tid);
/* Start if needed, and wait. */
int jbd2_complete_transaction(journal_t *j, tid_t tid);
/*
 * Commit the running transaction if it has anything, and wait for all commits and their callbacks: what they freed is free. The other
 * waits end as soon as the transaction is durable, a moment before its callbacks run. The journal's error if a commit was lost.
 */
int jbd2_journal_force_commit(journal_t *j);
/* True if the commit of tid will flush the data device after now, so that fsync need not. As jbd2_trans_will_send_data_barrier(). */
bool jbd2_trans_will_send_data_barrier(journal_t *j, tid_t tid);
/*
 * Commit, checkpoint all, empty log on disk (s_start 0). -EAGAIN if others went on writing all the while: lock updates out for certainty.
 */
int jbd2_journal_flush(journal_t *j);
/*
 * After a sync: when JBD2_QUIET_MS have gone by without a commit, and nothing waits for one, the log is emptied in the background, so that a device
 * that is taken away then needs no replay. Nothing is waited for.
 */
#define JBD2_QUIET_MS 1000u
void jbd2_journal_clean_when_quiet(journal_t *j);
/* Wait for all handles to end and let none start, until unlocked (freeze). No handle open. */
void jbd2_journal_lock_updates(journal_t *j);
void jbd2_journal_unlock_updates(journal_t *j);
/*
 * No more writes to log or home; each later operation gives -EROFS. error is recorded in the journal superblock (not -ESHUTDOWN). May be
 * called under any lock that is not the journal's; blocks for that one write.
 */
void jbd2_journal_abort(journal_t *j, int error);
bool jbd2_is_aborted(const journal_t *j);
/* s_errno of the journal superblock (0: none), and clearing it after the file system recorded it. */
int jbd2_journal_errno(const journal_t *j);
int jbd2_journal_clear_err(journal_t *j);
/* Largest number of credits one handle can ask for. */
unsigned jbd2_max_credits(const journal_t *j);

/* ---- Statistics ---- */

#define JBD2_LONGEST 5
struct jbd2_stats {
	counter_t js_commits;
	counter_t js_handles[HT_MAX];
	counter_t js_blocks_logged;
	counter_t js_revokes;
	counter_t js_checkpoints;
	counter_t js_checkpoint_blocks;
	counter_t js_copies; /* frozen copies made */
	counter_t js_forced_by_space;
	counter_t js_log_wraps;
	counter_t js_start_waits;
	struct hist js_commit_ns;      /* the whole commit, from lock-down to durable */
	struct hist js_handle_open_ns; /* how long a handle was open */
	struct hist js_wait_locked_ns;
	struct hist js_flush_ns;
	struct hist js_log_ns;
	/* sums over all commits, as in the kernel's transaction_stats_s */
	counter_t js_requested; /* commits that somebody asked for */
	counter_t js_wait_ns, js_request_delay_ns, js_running_ns;
	counter_t js_locked_ns, js_flushing_ns, js_logging_ns;
	counter_t js_blocks; /* changed buffers and log blocks promised to handles */
	uint64_t js_longest_ns[JBD2_LONGEST]; /* [j_list_lock] */
	tid_t js_longest_tid[JBD2_LONGEST];   /* [j_list_lock] */
};
struct jbd2_stats *jbd2_stats(journal_t *j);
/* As /proc/fs/jbd2/DEV/info, with mean, deviation and the five longest commits. */
void jbd2_print_info(journal_t *j, FILE *out);

#endif
