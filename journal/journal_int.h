/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef JOURNAL_JOURNAL_INT_H
#define JOURNAL_JOURNAL_INT_H
/*
 * The inside of the journal, shared by the files of this folder only.
 *
 * Life of a transaction, with the function on each arrow:
 *
 *	new_transaction()        lock_down()             switch_running()          write_log()
 *   -> T_RUNNING ----------> T_LOCKED -----------> T_FLUSH -------------> T_COMMIT --.
 *	   handles join         only reserved          ordered data            log       |
 *	                        handles join                                   written   |
 *	                                                                                 v
 *	freed by checkpoint <-- T_FINISHED <--------- T_CALLBACK <---------- T_COMMIT_FLUSH
 *	                  finish()           callbacks run      durable
 *
 *	state		j_running	j_committing	handles may be open
 *	T_RUNNING	yes		no		yes
 *	T_LOCKED	yes		no		yes, none starts
 *	T_FLUSH..	no		yes		no
 *	T_FINISHED	no		no		no
 *
 * Where a buffer's journal_head is, by its transaction pointers:
 *
 *	b_transaction	b_next		b_cp	meaning
 *	NULL		NULL		T	committed, not yet written home
 *	running		NULL		-	changed (METADATA), only asked for (RESERVED) or freed (FORGET)
 *	committing	NULL		-	the same, final
 *	committing	running		-	the running transaction took it over before the commit ended;
 *						b_frozen_data is what the commit logs, unless b_logged
 */

#include <bsd/sys/tree.h>
#include <stdatomic.h>
#include <sys/queue.h>

#include "block/blkdev.h"
#include "block/buffer.h"
#include "journal/jbd2.h"
#include "journal/jbd2_format.h"
#include "util/lock.h"
#include "util/time.h"

/* ---- Buffers ---- */

enum jh_list { JH_NONE, JH_RESERVED, JH_METADATA, JH_FORGET, JH_LISTS };

struct journal_head {
	struct buffer_head *b_bh;	   /* [const after init] holds a reference */
	journal_t *b_journal;		   /* [const after init] */
	transaction_t *b_transaction;	   /* [b_state_lock and j_list_lock to change] */
	transaction_t *b_next_transaction; /* [the same] */
	transaction_t *b_cp_transaction;   /* [the same] */
	uint8_t *b_frozen_data;		   /* [b_state_lock] what the committing transaction logs */
	enum jh_list b_jlist;		   /* [as b_transaction] its list in b_transaction */
	enum jh_list b_next_jlist; /* [b_state_lock] its list when b_next_transaction takes over */
	bool b_modified;	   /* [b_state_lock] counted in the newest transaction's credits */
	bool b_logged;		   /* [b_state_lock] b_transaction has taken its copy */
	bool b_cp_writing;	   /* [j_list_lock] a checkpoint holds a copy that it writes home */
	TAILQ_ENTRY(journal_head) b_tnext;  /* [j_list_lock] */
	TAILQ_ENTRY(journal_head) b_cpnext; /* [j_list_lock] */
};

TAILQ_HEAD(jh_queue, journal_head);

/* ---- Revokes ---- */

struct revoke_record {
	RB_ENTRY(revoke_record) r_link;
	LIST_ENTRY(revoke_record) r_all;
	uint64_t r_blocknr;
	tid_t r_sequence; /* recovery only */
};

RB_HEAD(revoke_tree, revoke_record);

struct revoke_table {
	struct revoke_tree rt_tree;	   /* [j_list_lock; recovery: owner thread] */
	LIST_HEAD(, revoke_record) rt_all; /* [as rt_tree] what is to be freed at the end */
	_Atomic unsigned rt_count;	   /* [atomic], changed under j_list_lock */
};

/* ---- Transactions ---- */

enum t_state { T_RUNNING, T_LOCKED, T_FLUSH, T_COMMIT, T_COMMIT_FLUSH, T_CALLBACK, T_FINISHED };

STAILQ_HEAD(commit_cb_queue, jbd2_commit_cb);
TAILQ_HEAD(jbd2_inode_queue, jbd2_inode);

/* Where the time of a transaction went, as the kernel's struct transaction_run_stats_s. */
struct jbd2_run_stats {
	uint64_t rs_wait_ns;	      /* longest wait of a handle for its beginning */
	uint64_t rs_request_delay_ns; /* from the request for its commit to the commit's start */
	uint64_t rs_running_ns;
	uint64_t rs_locked_ns;
	uint64_t rs_flushing_ns; /* ordered data */
	uint64_t rs_logging_ns;	 /* from there to the end, flushes included */
	uint64_t rs_phase_ns;	 /* when the current phase began */
};

struct jbd2_transaction {
	journal_t *t_journal;  /* [const after init] */
	tid_t t_tid;	       /* [const after init] */
	enum t_state t_state;  /* [j_state_lock] */
	uint64_t t_start_ns;   /* [const after init] */
	uint64_t t_expires_ns; /* [j_state_lock] */
	_Atomic int
		t_outstanding_credits; /* [atomic] log blocks promised to its handles, and its overhead */
	_Atomic int t_outstanding_revokes; /* [atomic] */
	_Atomic unsigned t_handle_count;   /* [atomic] */
	uint32_t t_log_start;		   /* [commit thread, then const] */
	unsigned t_log_blocks;		   /* [commit thread, then const] */
	unsigned t_nr_buffers;		   /* [j_list_lock] on t_lists[JH_METADATA] */
	struct jh_queue t_lists[JH_LISTS]; /* [j_list_lock] */
	struct jh_queue t_checkpoint_list; /* [j_list_lock] */
	struct revoke_table t_revoke;
	struct jbd2_inode_queue t_inode_list; /* [j_list_lock] */
	struct commit_cb_queue t_callbacks;   /* [j_list_lock] */
	bool t_synchronous;		      /* [j_state_lock] somebody waits for it */
	uint64_t t_requested_ns;	      /* [j_state_lock] when its commit was asked for */
	struct jbd2_run_stats t_run;	      /* [j_state_lock, then commit thread] */
	uint64_t t_cp_start_ns;		      /* [j_list_lock] its first checkpoint; 0: none */
	unsigned t_cp_written;		      /* [j_list_lock] buffers written home */
	unsigned t_cp_dropped;		      /* [j_list_lock] buffers superseded or freed */
	unsigned t_cp_forced;		      /* [j_list_lock] commits that its checkpoint forced */
	TAILQ_ENTRY(jbd2_transaction) t_cpnext; /* [j_list_lock] */
};

TAILQ_HEAD(transaction_queue, jbd2_transaction);

struct jbd2_handle {
	journal_t *h_journal;	      /* [const after init] */
	transaction_t *h_transaction; /* [owner thread] NULL in a reservation */
	unsigned h_ref;		      /* [owner thread] */
	int h_credits;		      /* [owner thread] blocks that it may still dirty */
	int h_extra_credits;	      /* [owner thread] blocks set aside for its revoke records */
	int h_revoke_credits;	      /* [owner thread] records that it may still write */
	int h_revoke_used;	      /* [owner thread] */
	enum jbd2_handle_type h_type; /* [owner thread] */
	bool h_reserved;	      /* [owner thread] not started yet */
	bool h_sync;		      /* [owner thread] */
	uint64_t h_start_ns;	      /* [owner thread] */
	int h_requested;	      /* [owner thread] credits it asked for */
};

/* ---- Fast commits ---- */

struct fc_scan {
	struct jbd2_fc_record *fs_recs;
	unsigned fs_nr;	  /* records whose tail was right */
	unsigned fs_seen; /* records seen so far */
	unsigned fs_room;
	uint32_t fs_crc;
	tid_t fs_tid; /* the transaction that the fast commits follow */
};

/* ---- The journal ---- */

/* j_gate: number of open handles of the running transaction, and this bit while no new one may join it without j_state_lock. */
#define GATE_CLOSED (UINT32_C(1) << 31)

struct jbd2_journal {
	/* what start and stop touch */
	_Atomic uint32_t j_gate; /* [atomic] */
	_Atomic int j_error;	 /* [atomic] 0, or why the journal was aborted */
	transaction_t
		*j_running_transaction; /* [j_state_lock to change; readable with a handle open] */
	_Atomic int j_free; /* [atomic] log blocks that are free, changed under j_state_lock */
	_Atomic int j_reserved_credits; /* [atomic] of reservations not started */
	_Atomic int
		j_waiters_reserved; /* [atomic] threads that wait for j_reserved_credits to fall */
	_Atomic int64_t
		j_held_blocks; /* [atomic] buffers and copies that the journal keeps in memory */

	/* [const after init] */
	struct jbd2_params j_params;
	struct bh_cache *j_cache;
	struct blkdev *j_fs_dev;
	struct blkdev *j_log_dev;
	const struct jbd2_journal_ops *j_ops;
	uint32_t j_block_bytes;
	struct jbd2_log_extent *j_extents;
	unsigned j_nr_extents;
	uint32_t j_sb_lblk;
	uint32_t j_maxlen;
	uint32_t j_first; /* first block of the circle */
	uint8_t j_uuid[16];
	uint64_t j_fs_blocks;
	int64_t j_held_limit; /* j_held_blocks above which starts wait for checkpoints */

	/* [const after jbd2_journal_load] */
	uint32_t j_last; /* first block behind the circle */
	uint32_t j_feature_compat;
	uint32_t j_feature_incompat;
	uint32_t j_csum_seed;
	unsigned j_tag_bytes;
	unsigned j_tail_bytes;
	unsigned j_tags_per_block;
	unsigned j_revokes_per_block;
	int j_max_transaction; /* log blocks of the largest transaction */
	int j_overhead;	       /* of which for descriptors and the commit block */
	bool j_v1;
	bool j_loaded;
	struct fc_scan j_fc; /* [owner thread] fast commits to be applied */
	uint8_t *j_fc_area;  /* [owner thread] what they point into */

	struct mutex j_state_lock;
	transaction_t *j_committing_transaction; /* [j_state_lock] */
	uint32_t j_head;			 /* [j_state_lock] next free block of the log */
	uint32_t j_tail;			 /* [j_state_lock] oldest block that replay needs */
	tid_t j_tail_sequence;			 /* [j_state_lock] its transaction */
	tid_t j_transaction_sequence; /* [j_state_lock] tid of the next new transaction */
	tid_t j_commit_sequence;      /* [j_state_lock] newest durable transaction */
	tid_t j_done_sequence; /* [j_state_lock] newest whose commit has ended, callbacks and all */
	tid_t j_commit_request; /* [j_state_lock] newest that somebody wants committed */
	bool j_flushed; /* [j_state_lock] the superblock on disk says that the log is empty */
	unsigned j_barrier_count;   /* [j_state_lock] callers of lock_updates that hold it */
	unsigned j_barrier_waiters; /* [j_state_lock] callers of lock_updates, waiting or holding */
	bool j_checkpointing;	    /* [j_state_lock] somebody runs a checkpoint */
	bool j_sb_busy;		    /* [j_state_lock] the superblock is being written */
	bool j_stop;		    /* [j_state_lock] threads end */
	bool j_hold;		    /* [j_state_lock] no commit: see jbd2_journal_hold_commits() */
	uint64_t
		j_thread_wakes_ns; /* [j_state_lock] when the commit thread looks again by itself */
	bool j_checkpoint_wanted;  /* [j_state_lock] */
	uint64_t j_clean_ns;	   /* [j_state_lock] when to empty the log; 0: not asked for */
	tid_t j_clean_tid;	   /* [j_state_lock] the newest commit when that time was set */
	uint64_t j_average_commit_ns;  /* [j_state_lock] */
	unsigned j_commit_interval_ms; /* [j_state_lock] */
	unsigned j_min_batch_us;       /* [j_state_lock] */
	unsigned j_max_batch_us;       /* [j_state_lock] */
	tid_t j_failed_commit; /* [owner thread] recovery: a commit whose checksum was wrong */

	struct cond j_wait_updates; /* the last handle of a locked transaction has ended */
	struct cond
		j_wait_transaction; /* the running transaction was switched, a barrier fell, space came back */
	struct cond j_wait_commit; /* for the commit thread */
	struct cond j_wait_done;   /* a commit has ended */
	/*
	 * Who waits for transaction n to be durable is at n % 2: all of them are woken when it is, and one of them when the commit before it has ended, to
	 * commit it.
	 */
	struct cond j_wait_durable[2];
	struct cond j_wait_reserved;   /* a reservation was started or given back */
	struct cond j_wait_checkpoint; /* for the checkpoint thread; a checkpoint ended */
	struct cond j_wait_sb; /* j_sb_busy fell: at each commit, so nobody else waits here */

	struct mutex j_list_lock;
	struct transaction_queue j_checkpoint_transactions; /* [j_list_lock] oldest first */
	struct cond j_wait_list; /* [j_list_lock] ji_committing or b_cp_writing fell */

	uint8_t *j_sb;	    /* [j_sb_busy] the superblock's block */
	void *j_log_buffer; /* [commit thread] kept between commits */
	pthread_t j_commit_thread;
	pthread_t j_checkpoint_thread;
	bool j_threads;
	struct jbd2_stats j_stats;
	counter_t j_commit_us_sq; /* [atomic] sum of squares, in us */
};

/* ---- csum.c ---- */

/* A decoded descriptor tag. */
struct jbd2_tag {
	uint64_t tg_blocknr;
	uint32_t tg_flags;
	uint32_t tg_csum;
};

static inline bool jbd2_has_incompat(const journal_t *j, uint32_t feature)
{
	return (j->j_feature_incompat & feature) != 0;
}

static inline bool jbd2_has_csum_v2or3(const journal_t *j)
{
	return jbd2_has_incompat(j, JBD2_FEATURE_INCOMPAT_CSUM_V2 | JBD2_FEATURE_INCOMPAT_CSUM_V3);
}

/* The checksum of the whole transaction in the commit block (compat flag). */
static inline bool jbd2_has_compat_csum(const journal_t *j)
{
	return (j->j_feature_compat & JBD2_FEATURE_COMPAT_CHECKSUM) != 0;
}

uint32_t jbd2_crc32_be(uint32_t crc, const void *data, size_t len_bytes);
/* Set what follows from the features: tag sizes, tags and revokes of a block. */
void jbd2_set_layout(journal_t *j);
void jbd2_tag_write(const journal_t *j, uint8_t *p, const struct jbd2_tag *tag);
void jbd2_tag_read(const journal_t *j, const uint8_t *p, struct jbd2_tag *tag);
/* The tag's checksum of a block as it stands in the log; 0 without v2 or v3. */
uint32_t jbd2_data_csum(const journal_t *j, tid_t tid, const uint8_t *data);
bool jbd2_data_csum_ok(const journal_t *j, tid_t tid, const uint8_t *data, uint32_t csum);
/* The tail of descriptor and revoke blocks. */
void jbd2_tail_csum_set(const journal_t *j, uint8_t *block);
bool jbd2_tail_csum_ok(const journal_t *j, const uint8_t *block);
void jbd2_commit_csum_set(const journal_t *j, uint8_t *block);
bool jbd2_commit_csum_ok(const journal_t *j, const uint8_t *block);
uint32_t jbd2_sb_csum(const uint8_t *sb);
void jbd2_header_write(uint8_t *block, uint32_t blocktype, tid_t tid);

/* ---- journal.c ---- */

/*
 * Take j_state_lock for an abort, which may come under locks that rank after it. Nobody takes any of those while holding j_state_lock,
 * and nobody holds it for long.
 */
void jbd2_state_lock_anywhere(journal_t *j);

/* ---- superblock.c ---- */

/* Where block lblk of the log lies; *run is the number of blocks that follow each other from there. -EFSCORRUPTED outside. */
int jbd2_bmap(const journal_t *j, uint32_t lblk, uint64_t *pblk, uint32_t *run);
int jbd2_sb_read(journal_t *j);
/* Set the features wanted for an empty log. */
void jbd2_sb_choose_features(journal_t *j);
/*
 * Write the superblock with this tail (block 0: empty log), durable on return if `fua`. Waits for another
 * writer. The caller has made sure that the tail is still right when it is on disk.
 */
int jbd2_sb_write(journal_t *j, tid_t sequence, uint32_t block, bool fua);
/* For jbd2_sb_write() in pieces: the caller decides under j_state_lock after claiming. */
void jbd2_sb_claim_locked(journal_t *j);
int jbd2_sb_write_claimed(journal_t *j, tid_t sequence, uint32_t block, bool fua);
void jbd2_sb_release(journal_t *j);
/* Record the error in the superblock; the tail stays. */
int jbd2_sb_set_errno(journal_t *j, int error);
int jbd2_flush_fs_dev(journal_t *j);
int jbd2_flush_log_dev(journal_t *j);

/* ---- buffers (access.c) ---- */

struct mutex *jbd2_bstate(const struct buffer_head *bh);
struct journal_head *jbd2_jh_locked(const struct buffer_head *bh);
void jbd2_file_locked(struct journal_head *jh, transaction_t *t, enum jh_list list);
void jbd2_unfile_locked(struct journal_head *jh);
/* Takes the buffer off its checkpoint list; true if that list is empty now. */
bool jbd2_uncheckpoint_locked(struct journal_head *jh);
/* Free the journal_head if no transaction holds it; the caller calls bh_put() after unlocking if true. */
bool jbd2_detach_locked(struct journal_head *jh);
uint8_t *jbd2_copy_alloc(journal_t *j);
void jbd2_copy_free(journal_t *j, uint8_t *copy);

/* ---- transaction.c ---- */

void jbd2_gate_update_locked(journal_t *j);
transaction_t *jbd2_transaction_new(journal_t *j);
void jbd2_transaction_free(transaction_t *t);
int jbd2_space_left(const journal_t *j);
unsigned jbd2_gate_count(const journal_t *j);
bool jbd2_over_held_limit(const journal_t *j);

/* ---- commit.c ---- */

/* Commit the running transaction; j_state_lock is held at the call and at the return. */
void jbd2_commit_transaction_locked(journal_t *j);
void *jbd2_commit_thread(void *arg);
/* A transaction was begun: the commit thread has to know when it is due. */
void jbd2_tell_commit_thread_locked(journal_t *j);
int jbd2_start_commit_locked(journal_t *j, tid_t tid);
/* Commit tid, running or committing, and wait until the commit has ended, callbacks and all. Drops the lock meanwhile. */
void jbd2_commit_and_wait_locked(journal_t *j, tid_t tid);

/* ---- log_io.c: blocks of one commit, written in large pieces ---- */

struct log_writer;
/* Room for `blocks` blocks from log block `start`. NULL without memory. */
struct log_writer *jbd2_log_writer_new(journal_t *j, uint32_t start, unsigned blocks);
/* The next n blocks of the log as one piece of memory, zeroed by the caller where it matters; n <= jbd2_log_group_max(). */
uint8_t *jbd2_log_next(struct log_writer *lw, unsigned n);
unsigned jbd2_log_group_max(const journal_t *j);
/* Submit what was handed out and wait for all; first error. Frees lw. */
int jbd2_log_finish(struct log_writer *lw);
/* One block, synchronously. */
int jbd2_log_write_block(journal_t *j, uint32_t lblk, const uint8_t *data, unsigned flags);

/* ---- checkpoint.c ---- */

/* Write home until at least `want` log blocks are free or nothing is left. j_state_lock held at call and return; may drop it. */
void jbd2_make_space_locked(journal_t *j, int want);
/* Write everything committed home and move the tail. */
int jbd2_checkpoint_all(journal_t *j);
/* The oldest transaction that replay would need, and its block. */
void jbd2_log_tail_locked(journal_t *j, tid_t *tid, uint32_t *block);
void *jbd2_checkpoint_thread(void *arg);
/* A checkpoint should begin in the background. */
bool jbd2_wants_checkpoint(const journal_t *j);
void jbd2_kick_checkpoint_locked(journal_t *j);
/* Manual mode: what the checkpoint thread would do now. */
void jbd2_checkpoint_inline(journal_t *j);
/* After an abort: drop every checkpoint list. */
void jbd2_checkpoint_drop(journal_t *j);
/* Say on disk that the log is empty, if it is: 0; -EAGAIN if it is not. */
int jbd2_mark_empty(journal_t *j);
/* Nothing is in t that anybody could wait for. j_state_lock held. */
bool jbd2_is_idle(journal_t *j, transaction_t *t);
/* Write n copies home (no lock held): ascending distinct blocks. */
int jbd2_write_home(journal_t *j, struct buffer_head **bhs, const uint8_t *const *data, unsigned n);

/* ---- revoke.c ---- */

void jbd2_revoke_init(struct revoke_table *rt);
/* 1 if it is new, 0 if it was there (recovery: keeps the newer sequence), -ENOMEM. */
int jbd2_revoke_insert(struct revoke_table *rt, uint64_t blocknr, tid_t sequence);
bool jbd2_revoke_cancel(struct revoke_table *rt, uint64_t blocknr);
/* Recovery: true if a block logged by `sequence` must not be written. */
bool jbd2_revoke_test(struct revoke_table *rt, uint64_t blocknr, tid_t sequence);
void jbd2_revoke_clear(struct revoke_table *rt);
unsigned jbd2_revoke_blocks(const journal_t *j, unsigned records);
/* Write the revoke blocks of t through lw. */
void jbd2_revoke_write(journal_t *j, transaction_t *t, struct log_writer *lw);
struct revoke_record *jbd2_revoke_first(struct revoke_table *rt);
struct revoke_record *jbd2_revoke_next(struct revoke_record *r);

/* ---- fc_scan.c ---- */

/* Scan the area's bytes, which stay alive as long as the records. 0, or a negative errno for a format that is not known. */
int jbd2_fc_scan(struct fc_scan *fs, const uint8_t *area, uint32_t blocks, uint32_t block_bytes);

/* ---- stats.c ---- */

void jbd2_note_commit(journal_t *j, tid_t tid, uint64_t ns);
/* The phases of a commit, each called when it begins; of run_begin and run_locked j_state_lock is held. */
void jbd2_run_begin_locked(journal_t *j, transaction_t *t);
void jbd2_run_flushing(journal_t *j, transaction_t *t);
void jbd2_run_logging(journal_t *j, transaction_t *t);
/* Also on failure; t still has its counts. */
void jbd2_run_end(journal_t *j, transaction_t *t);
void jbd2_trace_end_locked(const journal_t *j, const transaction_t *t);
/* A handle that has waited since then joins t. */
void jbd2_run_waited_locked(transaction_t *t, uint64_t since_ns);
/* The outermost stop of a handle whose transaction is open. */
void jbd2_trace_handle(const handle_t *h);
/* The last buffer of t has left its checkpoint list. */
void jbd2_trace_checkpoint(const journal_t *j, const transaction_t *t);

#endif
