/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef WRITEBACK_WRITEBACK_H
#define WRITEBACK_WRITEBACK_H
/* File data as the layers to the left use it. Offsets and lengths in bytes unless said otherwise. */

#include <sys/uio.h>

#include "alloc/alloc.h"
#include "ext4/ext4.h"

/* ---- Life ---- */

/* Arena, flusher and throttle for sb; sets s_wb. Members for ext4_upper_ops are below. */
int wb_init(struct super_block *sb);
/* Everything is written or dropped (after an abort). No file is open. */
void wb_exit(struct super_block *sb);
int wb_mapping_init(struct inode *inode);
void wb_mapping_destroy(struct inode *inode);
int wb_write_ordered_data(struct inode *inode, uint64_t start_bytes, uint64_t end_bytes);

/* The kernel's copies of pages, and names: registered by fuse/. Never called from a thread with a request unanswered unless no_wait says the callee queues it. */
struct wb_notify_ops {
	void (*invalidate)(struct inode *inode, uint64_t offset, uint64_t len);
};
void wb_set_notify(struct super_block *sb, const struct wb_notify_ops *ops);

/* ---- Read ---- */

#define WB_READ_IOVS 2048
/* The result of a read: pinned frames, released by wb_read_done() after the reply was sent. */
struct wb_read {
	struct iovec
		r_iov[WB_READ_IOVS]; /* at least as many as the pages of 1 MiB + 1, in pieces */
	int r_iovcnt;
	size_t r_bytes; /* short at EOF */
	void *r_pages;	/* writeback's */
	unsigned r_nr_pages;
	void *r_page_store[264];
};
/*
 * Read up to len (at most 1 MiB) from the cache, with readahead; holes and unwritten blocks are zeros. Blocks for I/O. 0, -EIO.
 * Updates atime by the mount's rule unless O_NOATIME (flags).
 */
int file_read(struct inode *inode, uint64_t pos, size_t len, unsigned o_flags, struct wb_read *out);
void wb_read_done(struct wb_read *r);

/* ---- Write ---- */

/* Reply that can wait: filled by the caller and alive until t_wake ran. */
struct wb_throttle_ticket {
	/* Called once when the writer may go on, from any thread, no lock held; err 0 or an error that replaces the answer. */
	void (*t_wake)(struct wb_throttle_ticket *t, int err);
	TAILQ_ENTRY(wb_throttle_ticket) t_link; /* [wb_lock] */
	uint64_t t_deadline_ns;
	uint64_t t_start_ns;
	uint32_t t_pages;
	uint32_t t_task; /* pid of the writer, for its ratelimit */
	bool t_parked;	 /* [wb_lock] */
};

#define WB_WRITE_APPEND (1u << 0) /* O_APPEND */
#define WB_WRITE_SYNC (1u << 1)	  /* O_SYNC: data and all metadata durable on return */
#define WB_WRITE_DSYNC (1u << 2)  /* O_DSYNC */
#define WB_WRITE_CACHE                                                                             \
	(1u                                                                                        \
	 << 3) /* FUSE_WRITE_CACHE: write-out of mapped pages: does not extend i_size, no throttling */
#define WB_WRITE_KILL_SUIDGID (1u << 4)
#define WB_WRITE_DIRECT (1u << 5) /* O_DIRECT: see file_write_direct rules */

struct wb_write {
	const struct iovec *w_iov;
	int w_iovcnt;
	size_t w_len;
	uint64_t w_pos; /* in; with APPEND: out, where it went */
	unsigned w_flags;
	struct ext4_cred w_cred;
	bool w_has_privs_to_drop; /* out: file capability or suid bits were dropped: the caller invalidates attributes */
};
/*
 * Write into the cache: space reserved, pages dirtied, size and times changed in memory. Returns bytes (short only after an error part way), or -ENOSPC, -EFBIG, -EIO, -EROFS, -EFSCORRUPTED, -EPERM.
 * Takes i_rwsem. Never throttles: call balance_dirty_pages_ratelimited() after it, without locks. SYNC and DSYNC wait for durability.
 * O_DIRECT: aligned parts go straight to the device, others through the cache and are then written and waited.
 */
ssize_t file_write(struct inode *inode, struct wb_write *w);
/*
 * Must the writer of nr_pages wait? 0: go on (the ticket is not used). 1: parked: t_wake will be called. Follows mm/page-writeback.c; the tunables balance_order and throttle choose the variant.
 */
int balance_dirty_pages_ratelimited(struct inode *inode, unsigned nr_pages,
				    struct wb_throttle_ticket *ticket);
/* INTERRUPT, abort: wake a parked ticket now with err. False if it was woken already. */
bool wb_unpark(struct super_block *sb, struct wb_throttle_ticket *ticket, int err);
/* Direct read into iov. Returns bytes. */
ssize_t file_read_direct(struct inode *inode, uint64_t pos, const struct iovec *iov, int iovcnt,
			 unsigned o_flags);

/* ---- Size and space ---- */

/* Set the size: truncate down (orphan, pages dropped, partial block zeroed on disk, blocks freed) or up (old partial block's tail zeroed on disk first). Holds nothing; takes i_rwsem. Same size drops blocks past EOF. */
int ext4_truncate_to(struct inode *inode, uint64_t new_size);
/* The part with i_rwsem held for write. */
int ext4_truncate_to_locked(struct inode *inode, uint64_t new_size);
/* For eviction: drop all pages, free all blocks; the inode is an orphan or a fresh failure. */
int ext4_evict_data(struct inode *inode);
/* Member orphan_truncate. */
int ext4_orphan_truncate(struct inode *inode);
/* mode: FALLOC_FL_*: 0, KEEP_SIZE, PUNCH_HOLE|KEEP_SIZE, ZERO_RANGE with or without KEEP_SIZE. Others -EOPNOTSUPP; indirect-block files -EOPNOTSUPP. */
int ext4_fallocate(struct inode *inode, int mode, uint64_t offset, uint64_t len,
		   const struct ext4_cred *cred);
/* SEEK_HOLE, SEEK_DATA: a delayed or dirty unwritten block is data. Offset or -ENXIO. */
int64_t ext4_seek(struct inode *inode, int64_t offset, int whence);
/* The block of the device that holds block lblk of the file, after its data was written there; 0: none, or unwritten. Or a negative errno. */
int64_t ext4_bmap(struct inode *inode, uint64_t lblk);

/* ---- Durability ---- */

/* As fsync(2) / fdatasync(2) of any file kind: data written and converted, transaction committed, device flushed. Holds nothing. */
int ext4_sync_file(struct inode *inode, bool datasync);
/* Write (and wait with wait) the dirty pages of a range; conversions done when waited. */
int filemap_write_and_wait_range(struct inode *inode, uint64_t start, uint64_t end_inclusive);
int filemap_fdatawrite(struct inode *inode);
/* All of sync(2) for this file system: data, metadata, commit, flush. */
int wb_sync_fs(struct super_block *sb, bool wait);
/*
 * As syncfs(2): with wait, and data of any file that could not be written since *told (0 at first; one for each who asks) is told once: -EIO or -ENOSPC.
 */
int wb_syncfs(struct super_block *sb, _Atomic uint32_t *told);
/* Allocate delayed blocks now (auto_da_alloc at rename and close): starts the write; wait: also its conversions. As ext4_alloc_da_blocks(). */
int ext4_alloc_da_blocks(struct inode *inode, bool wait);
/* Delayed blocks or dirty pages exist. */
bool wb_inode_dirty(struct inode *inode);
/* Errors of asynchronous writes since `*since` (per open file; errseq rules). 0 or -EIO, -ENOSPC. */
uint32_t wb_err_sample(struct inode *inode);
int wb_err_check_and_advance(struct inode *inode, uint32_t *since);
/* The last writer closed the file: preallocation back; with I_DA_ALLOC_CLOSE start the write. */
void ext4_release_file(struct inode *inode, bool was_writable);
/* Drop clean cached pages (memory pressure, O_DIRECT, tests); dirty ones stay. */
void wb_drop_clean(struct inode *inode);

/* ---- State for .ext4d ---- */

/* Tunables by name: value as text. -ENOENT unknown, -EINVAL bad value (nothing changed). */
int wb_tunable_set(struct super_block *sb, const char *name, const char *value);
int wb_tunable_get(struct super_block *sb, const char *name, char *buf, size_t size);
/* Names, in order; NULL ends. */
const char *const *wb_tunable_names(void);
/* All counters and gauges. */
void wb_print_stats(struct super_block *sb, void (*emit)(void *arg, const char *name, uint64_t v),
		    void *arg);
/* The texts of .ext4d/bdi, writeback and throttle. */
void wb_print_bdi(struct super_block *sb, FILE *out);
void wb_print_writeback(struct super_block *sb, FILE *out);
void wb_print_throttle(struct super_block *sb, FILE *out);
/* .ext4d/stripes: data requests on a striped device; read_modify_write is what a RAID5 would have to do for the partial ones, if nothing joins them. */
void wb_print_stripes(struct super_block *sb, FILE *out);

/* ---- Simulation (o_manual_commit): no threads, everything happens in the caller ---- */

/* One background and one periodic round of the flusher. */
void wb_run_flusher(struct super_block *sb);
/* What can be done of completions: conversions, i_disksize, references. Holds nothing. */
void wb_run_completions(struct super_block *sb);

#endif
