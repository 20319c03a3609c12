/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef BLOCK_BLKDEV_H
#define BLOCK_BLKDEV_H
/*
 * The device as everything above sees it: asynchronous requests in bytes, completion by callback.
 * Back ends (uring, psync, mem) and filters (log, fault, model, raid5) have the same face.
 *
 * Rules of this layer:
 *  - nothing is ordered: two requests in flight may be done in any order, whatever their overlap;
 *  - a flush covers exactly the writes whose completion was seen before it was submitted;
 *  - the memory of a write must not change until its completion;
 *  - REQ_FUA: at completion the write itself is durable (nothing is said of others).
 */

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "util/hist.h"

enum req_op { REQ_OP_READ, REQ_OP_WRITE, REQ_OP_FLUSH, REQ_OP_DISCARD, REQ_OP_WRITE_ZEROES };

/* bio flags */
#define REQ_FUA (1u << 0)
#define REQ_META (1u << 1)    /* metadata or journal: for statistics and the fault filter */
#define REQ_SYNC (1u << 2)    /* somebody waits for it */
#define REQ_JOURNAL (1u << 3) /* a block of the log */
#define REQ_MARK (1u << 4)    /* see blk_mark() */

#define BLK_MINOR_BITS 20

struct blkdev;

/*
 * One request. The caller fills bi_* up to bi_private, submits, and may not touch the bio until
 * bi_end_io runs. bi_status is then 0 or a negative errno. bi_end_io may run in any thread and
 * even inside blk_submit(): the submitter holds no lock that bi_end_io takes. It must not block,
 * start a handle or wait for another bio; it may submit others, and may free the bio.
 * Reads and writes: offset and length are multiples of the device's logical block size; the memory is aligned to
 * bd_dma_align where the device is O_DIRECT (every back end copes with unaligned memory by a
 * bounce buffer, which is counted). Flush: no data, offset and length 0.
 */
struct bio {
	enum req_op bi_op;
	unsigned bi_flags;
	uint64_t bi_offset_bytes;
	uint64_t bi_len_bytes;	    /* sum of the iovec; DISCARD and WRITE_ZEROES have no iovec */
	const struct iovec *bi_iov; /* stays alive until completion */
	int bi_iovcnt;
	int bi_status;
	void (*bi_end_io)(struct bio *bio);
	void *bi_private;
	/* owned by the layer below while in flight */
	struct blkdev *bi_top; /* the device whose statistics count it; NULL below a filter */
	uint64_t bi_start_ns;
	void *bi_driver;
	void *bi_driver2;
};

struct blkdev_ops {
	/* Submit n bios; every one of them is completed exactly once, errors included. May block for a queue slot. */
	void (*submit)(struct blkdev *bd, struct bio **bios, unsigned n);
	/* A mark for logs (see blk_mark); NULL: passed down, or dropped by back ends. */
	int (*mark)(struct blkdev *bd, const char *text);
	/* All requests are complete. Frees bd; filters close what is below them. */
	void (*close)(struct blkdev *bd);
	/* One line for each statistic of this back end or filter; may be NULL. */
	void (*stats)(struct blkdev *bd, void (*emit)(void *arg, const char *name, uint64_t value),
		      void *arg);
	/* Carry out one bio in the calling thread and return its status, without bi_end_io; NULL: by submit. */
	int (*sync_io)(struct blkdev *bd, struct bio *bio);
	/*
	 * Hints around a batch of submissions of this thread; NULL: none. Between them the device may
	 * hold requests back. flush_plug sends them out, without waiting and without completing any
	 * in this thread: it is called where the thread is about to block and may hold locks.
	 * finish_plug with `wait`: see blk_finish_plug_wait().
	 */
	void (*start_plug)(struct blkdev *bd);
	void (*finish_plug)(struct blkdev *bd, bool wait);
	void (*flush_plug)(struct blkdev *bd);
	/* See blk_register_memory(); NULL: nothing to do. */
	int (*register_memory)(struct blkdev *bd, void *addr, size_t len_bytes);
	void (*unregister_memory)(struct blkdev *bd, void *addr, size_t len_bytes);
};

struct blkdev_stats {
	counter_t s_requests[5]; /* by req_op */
	counter_t s_bytes[5];
	struct hist s_size[5];	     /* bytes of a request */
	struct hist s_latency_ns[5]; /* submit to completion */
	struct hist s_depth;	     /* requests in flight when one is submitted, itself counted */
	counter_t s_errors;
	_Atomic uint64_t s_in_flight; /* [atomic] blk_close() waits for 0 */
};

struct blkdev {
	const struct blkdev_ops *bd_ops;
	uint64_t bd_size_bytes;		 /* usable size, rounded down to the logical block */
	uint32_t bd_logical_block_bytes; /* smallest request unit: 512 or 4096 */
	uint32_t bd_dma_align;		 /* memory alignment for direct I/O without a bounce */
	uint32_t bd_max_bytes;		 /* larger requests are split by the submitter */
	uint32_t bd_dev; /* major << BLK_MINOR_BITS | minor, for events; 0: memory */
	bool bd_read_only;
	bool bd_discard;	      /* DISCARD does something */
	const char *bd_name;	      /* "uring", "psync", "mem", or the filter's name */
	struct blkdev *bd_lower;      /* filters: the device below */
	struct blkdev_stats bd_stats; /* kept by blk_submit() on the top device */
	_Atomic int bd_write_mode;    /* [atomic] enum blk_write_mode, of the top device */
	_Atomic bool bd_nobarrier;    /* [atomic] of the top device */
	void *bd_priv;
};

/* ---- Using a device ---- */

/* Submit bios; see struct bio. Requests past the end complete with -EIO, writes to a read-only device with -EROFS. */
void blk_submit(struct blkdev *bd, struct bio **bios, unsigned n);
void blk_submit_one(struct blkdev *bd, struct bio *bio);
/*
 * Batch the submissions of this thread between the calls (as the kernel's blk_plug). Calls nest. A
 * thread that blocks (thread_block_begin(), cond_wait()) sends out what it has plugged.
 */
void blk_start_plug(struct blkdev *bd);
void blk_finish_plug(struct blkdev *bd);
/*
 * The same for a caller that waits for its requests next and holds no lock that bi_end_io takes. May block: a request that
 * is the only one still held back is carried out in this thread where the device can do so, since
 * each hand-over to another thread and back costs two wake-ups.
 */
void blk_finish_plug_wait(struct blkdev *bd);
/* Synchronous helpers; they announce that the thread blocks. 0 or negative errno. */
int blk_read(struct blkdev *bd, uint64_t offset_bytes, void *buf, size_t len_bytes, unsigned flags);
int blk_write(struct blkdev *bd, uint64_t offset_bytes, const void *buf, size_t len_bytes,
	      unsigned flags);
/* Make all completed writes durable. 0 at once with nobarrier (blk_set_barrier(bd, false)). */
int blk_flush(struct blkdev *bd);
int blk_discard(struct blkdev *bd, uint64_t offset_bytes, uint64_t len_bytes);
/* Zero a range by the cheapest way the device has. */
int blk_zeroout(struct blkdev *bd, uint64_t offset_bytes, uint64_t len_bytes);
/* `nobarrier`: flushes succeed at once and REQ_FUA is ignored. */
void blk_set_barrier(struct blkdev *bd, bool on);
/*
 * Write a named mark into every log filter of the stack: it stands after each request completed
 * before the call. Tests mark what was acknowledged. Returns 0 or a negative errno.
 */
int blk_mark(struct blkdev *bd, const char *text);
/* True if any filter in the stack records marks (lets callers skip building the text). */
bool blk_wants_marks(const struct blkdev *bd);
/* All statistics of the stack, top first, names prefixed by the device's. */
void blk_print_stats(struct blkdev *bd, void (*emit)(void *arg, const char *name, uint64_t value),
		     void *arg);
/*
 * tunable device_writes: what happens to writes and flushes from now on, for crash suites. DROP
 * completes them with success and does nothing; FAIL completes them with -EIO.
 */
enum blk_write_mode { BLK_WRITES_PASS, BLK_WRITES_DROP, BLK_WRITES_FAIL };
void blk_set_write_mode(struct blkdev *bd, enum blk_write_mode mode);
enum blk_write_mode blk_write_mode(const struct blkdev *bd);
/* Complete what is in flight and close the whole stack. */
void blk_close(struct blkdev *bd);
/* For back ends and filters: finish a bio, keeping the statistics. */
void bio_endio(struct bio *bio, int status);
/* For filters: pass bios to the device below. They are not counted there. */
void blk_submit_lower(struct blkdev *lower, struct bio **bios, unsigned n);
/* "read", "write", "flush", "discard", "write_zeroes". */
const char *req_op_name(enum req_op op);

/* ---- Memory registration (uring); no-ops elsewhere ---- */
/* Register a slab so that I/O from it needs no page pinning. 0, or a negative errno that only costs speed. */
int blk_register_memory(struct blkdev *bd, void *addr, size_t len_bytes);
void blk_unregister_memory(struct blkdev *bd, void *addr, size_t len_bytes);

/* ---- Opening ---- */

struct blk_open_args {
	const char *ba_path;
	const char *
		ba_backend; /* "uring", "psync" or NULL: uring, and psync where io_uring does not exist */
	const char *ba_filters; /* the value of -o blk=, or NULL */
	bool ba_read_only;
	bool ba_direct; /* try O_DIRECT; without it writes are made durable by fdatasync at flush */
	unsigned ba_queue_depth; /* 0: default */
};
/* Open the back end and stack the filters. ERR_PTR on failure, with the reason logged. */
struct blkdev *blk_open(const struct blk_open_args *args);
/* A device in memory. `data` NULL: zeroed memory of its own (freed at close). */
struct blkdev *mem_open(uint64_t size_bytes, uint32_t logical_block_bytes, void *data);
/* The bytes of a mem device, for tests. */
void *mem_data(struct blkdev *bd);
/* Stack the filters of a -o blk= value on bd, the first nearest to the file system. On error bd is left as it was. */
struct blkdev *blk_stack_filters(struct blkdev *bd, const char *spec);

#endif
