/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * uring.c - the default back end: io_uring with a registered file and registered memory.
 *
 * Any thread submits: under the queue's lock a request takes a slot and a submission entry, and
 * what one call (or one plug) brings goes to the kernel in one system call. One thread reaps; it
 * gives the slots back before it runs callbacks. What io_uring does badly or not at all (memory
 * that is not aligned, discards, zeroes, the rest of a short transfer, -EAGAIN) is carried out by
 * plain system calls on a small work queue. A synchronous call makes its system call in the
 * calling thread and meets neither the ring nor another thread; so does the only request of a plug
 * whose thread waits for it.
 *
 * A submitter that finds no free slot waits for one. Callbacks cannot wait, since the thread that
 * would free the slot may be theirs: what they submit goes to a backlog that is started as slots
 * come free. The same holds for plugged requests that go out because their thread is about to
 * block: it may hold locks that callbacks need.
 *
 * Invariants: (1) requests in the ring never exceed the slots, and the completion queue holds
 * twice as many, so it never overflows. (2) The backlog is empty or no slot is free. (3) Memory of
 * a slab is named by its index only while the slab is in the table.
 * Locking: ur_lock (no rank), held over io_uring_submit() but never over a callback. The
 * completion side of the ring belongs to the reaper.
 */
#include <limits.h>
#include <liburing.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "block/backend.h"
#include "block/blkdev.h"
#include "util/assert.h"
#include "util/err.h"
#include "util/lock.h"
#include "util/log.h"
#include "util/workqueue.h"

#define DEPTH_DEFAULT 128u
#define DEPTH_MAX 4096u
#define SLABS_MAX 1024u
#define PLUG_MAX 64u
#define REAP_BATCH 32u
#define WORKERS 2u
#define RETRY_NS 50000

struct uring_dev;

/* A request that holds a slot. */
struct ureq {
	struct work_item rq_work; /* when a worker does it */
	struct uring_dev *rq_dev; /* [const after init] */
	struct bio *rq_bio;
	uint64_t rq_done_bytes;
	_Atomic bool
		rq_in_ring;  /* carries the order of memory through the kernel, see prep_locked() */
	struct iovec rq_iov; /* the one piece it is in */
	struct ureq *rq_next; /* [ur_lock] free list */
};

struct uring_slab {
	uintptr_t sl_start;
	size_t sl_len;
	unsigned sl_index; /* in the kernel's table */
};

struct uring_dev {
	struct blkdev ur_bd;
	struct devfile ur_file;
	struct io_uring ur_ring;
	struct workqueue *ur_workers;
	pthread_t ur_reaper;
	unsigned ur_depth;     /* [const after init] */
	struct ureq *ur_slots; /* [const after init] ur_depth of them */
	bool ur_sparse;	       /* [const after init] the kernel has a table for slabs */

	struct mutex ur_lock;
	struct cond ur_slot_free;
	struct ureq *ur_free;		      /* [ur_lock] */
	unsigned ur_waiters;		      /* [ur_lock] */
	struct bio *ur_first;		      /* [ur_lock] backlog, chained by bi_driver */
	struct bio *ur_last;		      /* [ur_lock] */
	unsigned ur_nslabs;		      /* [ur_lock] */
	struct uring_slab ur_slab[SLABS_MAX]; /* [ur_lock] by address */
	bool ur_index_used[SLABS_MAX];	      /* [ur_lock] */

	counter_t ur_enters;   /* [atomic] system calls to submit */
	counter_t ur_fixed;    /* [atomic] requests from registered memory */
	counter_t ur_by_work;  /* [atomic] requests given to the work queue */
	counter_t ur_in_place; /* [atomic] plugged requests that their thread carried out */
	counter_t ur_full;     /* [atomic] times that a submitter waited for a slot */
};

/* Requests that this thread holds back. */
struct plug {
	struct uring_dev *pl_dev; /* NULL: not plugged */
	unsigned pl_n;
	struct bio *pl_bios[PLUG_MAX];
};

static __thread struct plug plug; /* [owner thread] */
static __thread bool in_callback; /* [owner thread] reaper or worker: may not wait for a slot */

static struct uring_dev *uring_of(struct blkdev *bd)
{
	return bd->bd_priv;
}

/* ---- Slabs ---- */

/* The number of slabs that start at or before addr. */
static unsigned slabs_upto_locked(const struct uring_dev *ur, uintptr_t addr)
{
	unsigned lo = 0;
	unsigned hi = ur->ur_nslabs;

	while (lo < hi) {
		unsigned mid = (lo + hi) / 2;

		if (ur->ur_slab[mid].sl_start <= addr)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

static const struct uring_slab *find_slab_locked(const struct uring_dev *ur,
						 const struct iovec *iov)
{
	uintptr_t addr = (uintptr_t)iov->iov_base;
	unsigned n = slabs_upto_locked(ur, addr);
	const struct uring_slab *sl;

	if (n == 0)
		return NULL;
	sl = &ur->ur_slab[n - 1];
	if (addr - sl->sl_start >= sl->sl_len)
		return NULL;
	return iov->iov_len <= sl->sl_len - (addr - sl->sl_start) ? sl : NULL;
}

static int update_table(struct uring_dev *ur, unsigned index, void *addr, size_t len_bytes)
{
	struct iovec iov = {.iov_base = addr, .iov_len = len_bytes};
	__u64 tag = 0;
	int rc = io_uring_register_buffers_update_tag(&ur->ur_ring, index, &iov, &tag, 1);

	return rc < 0 ? rc : 0;
}

static int add_slab_locked(struct uring_dev *ur, void *addr, size_t len_bytes)
{
	unsigned at = slabs_upto_locked(ur, (uintptr_t)addr);
	unsigned index = 0;
	int err;

	if (ur->ur_nslabs == SLABS_MAX)
		return -ENOSPC;
	while (ur->ur_index_used[index])
		index++;
	err = update_table(ur, index, addr, len_bytes);
	if (err != 0)
		return err;
	memmove(&ur->ur_slab[at + 1], &ur->ur_slab[at],
		(ur->ur_nslabs - at) * sizeof(ur->ur_slab[0]));
	ur->ur_slab[at].sl_start = (uintptr_t)addr;
	ur->ur_slab[at].sl_len = len_bytes;
	ur->ur_slab[at].sl_index = index;
	ur->ur_index_used[index] = true;
	ur->ur_nslabs++;
	return 0;
}

static int uring_register(struct blkdev *bd, void *addr, size_t len_bytes)
{
	struct uring_dev *ur = uring_of(bd);
	int err;

	if (!ur->ur_sparse)
		return -EOPNOTSUPP;
	mutex_lock(&ur->ur_lock);
	err = add_slab_locked(ur, addr, len_bytes);
	mutex_unlock(&ur->ur_lock);
	return err;
}

static void uring_unregister(struct blkdev *bd, void *addr, size_t len_bytes)
{
	struct uring_dev *ur = uring_of(bd);
	unsigned n;

	mutex_lock(&ur->ur_lock);
	n = slabs_upto_locked(ur, (uintptr_t)addr);
	if (n > 0 && ur->ur_slab[n - 1].sl_start == (uintptr_t)addr) {
		struct uring_slab sl = ur->ur_slab[n - 1];

		ASSERT_CMP(sl.sl_len, ==, len_bytes);
		memmove(&ur->ur_slab[n - 1], &ur->ur_slab[n],
			(ur->ur_nslabs - n) * sizeof(ur->ur_slab[0]));
		ur->ur_nslabs--;
		/* An index whose old memory could not be taken out is not used again. */
		if (update_table(ur, sl.sl_index, NULL, 0) == 0)
			ur->ur_index_used[sl.sl_index] = false;
	}
	mutex_unlock(&ur->ur_lock);
}

/* ---- Starting requests ---- */

/* True if the bio's memory is one piece, which is then in *one. */
static bool one_piece(const struct bio *bio, struct iovec *one)
{
	*one = bio->bi_iov[0];
	for (int i = 1; i < bio->bi_iovcnt; i++) {
		if ((uint8_t *)one->iov_base + one->iov_len != bio->bi_iov[i].iov_base)
			return false;
		one->iov_len += bio->bi_iov[i].iov_len;
	}
	return true;
}

static void push_sqes_locked(struct uring_dev *ur)
{
	struct timespec nap = {.tv_sec = 0, .tv_nsec = RETRY_NS};

	while (io_uring_sq_ready(&ur->ur_ring) > 0) {
		int rc = io_uring_submit(&ur->ur_ring);

		counter_inc(&ur->ur_enters);
		if (rc >= 0 || rc == -EINTR)
			continue;
		/* The kernel is short of memory for requests, or the reaper is behind. */
		ASSERT(rc == -EAGAIN || rc == -EBUSY || rc == -ENOMEM);
		nanosleep(&nap, NULL);
	}
}

static struct io_uring_sqe *get_sqe_locked(struct uring_dev *ur)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&ur->ur_ring);

	if (sqe == NULL) {
		push_sqes_locked(ur);
		sqe = io_uring_get_sqe(&ur->ur_ring);
	}
	ASSERT(sqe != NULL);
	return sqe;
}

static void prep_piece_locked(struct uring_dev *ur, struct io_uring_sqe *sqe, struct ureq *rq)
{
	const struct bio *bio = rq->rq_bio;
	const struct uring_slab *sl = find_slab_locked(ur, &rq->rq_iov);
	void *base = rq->rq_iov.iov_base;
	unsigned len = (unsigned)rq->rq_iov.iov_len;
	bool read = bio->bi_op == REQ_OP_READ;

	if (sl != NULL)
		counter_inc(&ur->ur_fixed);
	if (sl != NULL && read)
		io_uring_prep_read_fixed(sqe, 0, base, len, bio->bi_offset_bytes,
					 (int)sl->sl_index);
	else if (sl != NULL)
		io_uring_prep_write_fixed(sqe, 0, base, len, bio->bi_offset_bytes,
					  (int)sl->sl_index);
	else if (read)
		io_uring_prep_read(sqe, 0, base, len, bio->bi_offset_bytes);
	else
		io_uring_prep_write(sqe, 0, base, len, bio->bi_offset_bytes);
}

static void prep_locked(struct uring_dev *ur, struct ureq *rq)
{
	const struct bio *bio = rq->rq_bio;
	struct io_uring_sqe *sqe = get_sqe_locked(ur);

	if (bio->bi_op == REQ_OP_FLUSH)
		io_uring_prep_fsync(sqe, 0, IORING_FSYNC_DATASYNC);
	else if (one_piece(bio, &rq->rq_iov))
		prep_piece_locked(ur, sqe, rq);
	else if (bio->bi_op == REQ_OP_READ)
		io_uring_prep_readv(sqe, 0, bio->bi_iov, (unsigned)bio->bi_iovcnt,
				    bio->bi_offset_bytes);
	else
		io_uring_prep_writev(sqe, 0, bio->bi_iov, (unsigned)bio->bi_iovcnt,
				     bio->bi_offset_bytes);
	if (bio->bi_op == REQ_OP_WRITE && (bio->bi_flags & REQ_FUA) != 0)
		sqe->rw_flags = RWF_DSYNC;
	sqe->flags |= IOSQE_FIXED_FILE;
	io_uring_sqe_set_data(sqe, rq);
	/* Pairs with the load in reap(): the C memory model knows nothing of the ring. */
	atomic_store_explicit(&rq->rq_in_ring, true, memory_order_release);
}

static bool needs_worker(const struct uring_dev *ur, const struct bio *bio)
{
	if (bio->bi_op == REQ_OP_FLUSH)
		return false;
	if (bio->bi_op == REQ_OP_DISCARD || bio->bi_op == REQ_OP_WRITE_ZEROES)
		return true;
	return bio->bi_iovcnt > IOV_MAX || bio->bi_len_bytes > INT32_MAX ||
	       !devfile_aligned(&ur->ur_file, bio);
}

/* Start a bio in a free slot; the entry is not pushed to the kernel yet. */
static void start_locked(struct uring_dev *ur, struct bio *bio)
{
	struct ureq *rq = ur->ur_free;

	mutex_assert_held(&ur->ur_lock);
	ur->ur_free = rq->rq_next;
	rq->rq_bio = bio;
	rq->rq_done_bytes = 0;
	if (needs_worker(ur, bio)) {
		counter_inc(&ur->ur_by_work);
		queue_work(ur->ur_workers, &rq->rq_work);
	} else {
		prep_locked(ur, rq);
	}
}

static void add_backlog_locked(struct uring_dev *ur, struct bio *bio)
{
	bio->bi_driver = NULL;
	if (ur->ur_last != NULL)
		ur->ur_last->bi_driver = bio;
	else
		ur->ur_first = bio;
	ur->ur_last = bio;
}

static void start_backlog_locked(struct uring_dev *ur)
{
	while (ur->ur_first != NULL && ur->ur_free != NULL) {
		struct bio *bio = ur->ur_first;

		ur->ur_first = bio->bi_driver;
		if (ur->ur_first == NULL)
			ur->ur_last = NULL;
		start_locked(ur, bio);
	}
}

static void wait_for_slot_locked(struct uring_dev *ur)
{
	counter_inc(&ur->ur_full);
	push_sqes_locked(ur);
	ur->ur_waiters++;
	while (ur->ur_free == NULL)
		cond_wait(&ur->ur_slot_free, &ur->ur_lock);
	ur->ur_waiters--;
}

static void submit_now(struct uring_dev *ur, struct bio **bios, unsigned n, bool may_wait)
{
	mutex_lock(&ur->ur_lock);
	for (unsigned i = 0; i < n; i++) {
		if (ur->ur_free == NULL && may_wait)
			wait_for_slot_locked(ur);
		if (ur->ur_free == NULL)
			add_backlog_locked(ur, bios[i]);
		else
			start_locked(ur, bios[i]);
	}
	push_sqes_locked(ur);
	mutex_unlock(&ur->ur_lock);
}

/* ---- Completion ---- */

static void release_slots(struct uring_dev *ur, struct ureq **rqs, unsigned n)
{
	mutex_lock(&ur->ur_lock);
	for (unsigned i = 0; i < n; i++) {
		rqs[i]->rq_next = ur->ur_free;
		ur->ur_free = rqs[i];
	}
	start_backlog_locked(ur);
	push_sqes_locked(ur);
	if (ur->ur_waiters > 0 && ur->ur_free != NULL)
		cond_broadcast(&ur->ur_slot_free);
	mutex_unlock(&ur->ur_lock);
}

static void worker_fn(struct work_item *w)
{
	struct ureq *rq = (void *)((uint8_t *)w - offsetof(struct ureq, rq_work));
	struct uring_dev *ur = rq->rq_dev;
	struct bio *bio = rq->rq_bio;
	int status = devfile_continue(&ur->ur_file, bio, rq->rq_done_bytes);

	release_slots(ur, &rq, 1);
	in_callback = true;
	bio_endio(bio, status);
	in_callback = false;
}

/* True if the request is over with *status; otherwise a worker goes on with it. */
static bool finished(struct uring_dev *ur, struct ureq *rq, int res, int *status)
{
	const struct bio *bio = rq->rq_bio;
	bool data = bio->bi_op == REQ_OP_READ || bio->bi_op == REQ_OP_WRITE;
	/* The kernel cancels what a thread has queued when that thread ends. */
	bool again = res == -EAGAIN || res == -EINTR || res == -ECANCELED;

	if (!again && (res < 0 || !data || (uint64_t)res == bio->bi_len_bytes)) {
		*status = res < 0 ? res : 0;
		return true;
	}
	rq->rq_done_bytes = res > 0 ? (uint64_t)res : 0;
	counter_inc(&ur->ur_by_work);
	queue_work(ur->ur_workers, &rq->rq_work);
	return false;
}

/* Handle up to REAP_BATCH completions; false when it is time to stop. */
static bool reap(struct uring_dev *ur)
{
	struct io_uring_cqe *cqes[REAP_BATCH];
	struct ureq *over[REAP_BATCH];
	struct bio *bios[REAP_BATCH];
	int status[REAP_BATCH];
	unsigned n = io_uring_peek_batch_cqe(&ur->ur_ring, cqes, REAP_BATCH);
	unsigned nover = 0;
	bool go_on = true;

	for (unsigned i = 0; i < n; i++) {
		struct ureq *rq = io_uring_cqe_get_data(cqes[i]);

		if (rq == NULL) {
			go_on = false;
			continue;
		}
		ASSERT(atomic_load_explicit(&rq->rq_in_ring, memory_order_acquire));
		if (finished(ur, rq, cqes[i]->res, &status[nover])) {
			over[nover] = rq;
			bios[nover++] = rq->rq_bio;
		}
	}
	io_uring_cq_advance(&ur->ur_ring, n);
	if (nover > 0)
		release_slots(ur, over, nover);
	for (unsigned i = 0; i < nover; i++)
		bio_endio(bios[i], status[i]);
	return go_on;
}

static void *reaper_thread(void *arg)
{
	struct uring_dev *ur = arg;
	struct io_uring_cqe *cqe;
	bool go_on = true;

	pthread_setname_np(pthread_self(), "ext4d-uring");
	in_callback = true;
	while (go_on) {
		int rc = io_uring_wait_cqe(&ur->ur_ring, &cqe);

		ASSERT(rc == 0 || rc == -EINTR || rc == -EAGAIN);
		go_on = reap(ur);
	}
	return NULL;
}

/* ---- Plugs ---- */

static void flush_plug(bool may_wait)
{
	unsigned n = plug.pl_n;

	/* Emptied first: waiting for a slot comes back here through the flush hook. */
	plug.pl_n = 0;
	if (n > 0)
		submit_now(plug.pl_dev, plug.pl_bios, n, may_wait);
}

static void uring_flush_plug(struct blkdev *bd)
{
	ASSERT(plug.pl_dev == uring_of(bd));
	flush_plug(false);
}

static void uring_start_plug(struct blkdev *bd)
{
	plug.pl_dev = uring_of(bd);
}

/* The plugged request, carried out in this thread. */
static void do_plugged(struct uring_dev *ur)
{
	plug.pl_n = 0;
	plug.pl_dev = NULL;
	counter_inc(&ur->ur_in_place);
	devfile_do_and_end(&ur->ur_file, plug.pl_bios[0]);
}

static void uring_finish_plug(struct blkdev *bd, bool wait)
{
	ASSERT(plug.pl_dev == uring_of(bd));
	if (wait && plug.pl_n == 1 && !in_callback) {
		do_plugged(uring_of(bd));
		return;
	}
	flush_plug(!in_callback);
	plug.pl_dev = NULL;
}

/* ---- The device ---- */

static void uring_submit(struct blkdev *bd, struct bio **bios, unsigned n)
{
	struct uring_dev *ur = uring_of(bd);

	if (plug.pl_dev != ur) {
		submit_now(ur, bios, n, !in_callback);
		return;
	}
	for (unsigned i = 0; i < n; i++) {
		if (plug.pl_n == PLUG_MAX)
			flush_plug(!in_callback);
		plug.pl_bios[plug.pl_n++] = bios[i];
	}
}

static int uring_sync_io(struct blkdev *bd, struct bio *bio)
{
	return devfile_do(&uring_of(bd)->ur_file, bio);
}

static void stop_reaper(struct uring_dev *ur)
{
	struct io_uring_sqe *sqe;

	mutex_lock(&ur->ur_lock);
	sqe = get_sqe_locked(ur);
	io_uring_prep_nop(sqe);
	io_uring_sqe_set_data(sqe, NULL);
	push_sqes_locked(ur);
	mutex_unlock(&ur->ur_lock);
	pthread_join(ur->ur_reaper, NULL);
}

static void uring_close(struct blkdev *bd)
{
	struct uring_dev *ur = uring_of(bd);

	workqueue_destroy(ur->ur_workers);
	stop_reaper(ur);
	io_uring_queue_exit(&ur->ur_ring);
	devfile_close(&ur->ur_file);
	cond_destroy(&ur->ur_slot_free);
	mutex_destroy(&ur->ur_lock);
	free(ur->ur_slots);
	free(ur);
}

static void uring_stats(struct blkdev *bd,
			void (*emit)(void *arg, const char *name, uint64_t value), void *arg)
{
	struct uring_dev *ur = uring_of(bd);

	emit(arg, "depth", ur->ur_depth);
	emit(arg, "direct", ur->ur_file.df_direct);
	emit(arg, "enters", counter_read(&ur->ur_enters));
	emit(arg, "from_registered_memory", counter_read(&ur->ur_fixed));
	emit(arg, "by_worker", counter_read(&ur->ur_by_work));
	emit(arg, "in_place", counter_read(&ur->ur_in_place));
	emit(arg, "queue_full", counter_read(&ur->ur_full));
	emit(arg, "bounces", counter_read(&ur->ur_file.df_bounces));
}

static const struct blkdev_ops uring_ops = {
	.submit = uring_submit,
	.close = uring_close,
	.stats = uring_stats,
	.sync_io = uring_sync_io,
	.start_plug = uring_start_plug,
	.finish_plug = uring_finish_plug,
	.flush_plug = uring_flush_plug,
	.register_memory = uring_register,
	.unregister_memory = uring_unregister,
};

/* ---- Opening ---- */

static int ring_init(struct uring_dev *ur)
{
	struct io_uring_params params = {.flags = IORING_SETUP_CLAMP};
	int rc = io_uring_queue_init_params(ur->ur_depth, &ur->ur_ring, &params);

	if (rc == -ENOSYS || rc == -EPERM || rc == -EACCES)
		return -ENOSYS;
	if (rc < 0) {
		log_err("io_uring: no ring: %s", strerror(-rc));
		return rc;
	}
	rc = io_uring_register_files(&ur->ur_ring, &ur->ur_file.df_fd, 1);
	if (rc < 0) {
		log_err("io_uring: the file cannot be registered: %s", strerror(-rc));
		io_uring_queue_exit(&ur->ur_ring);
		return rc;
	}
	ur->ur_sparse = io_uring_register_buffers_sparse(&ur->ur_ring, SLABS_MAX) == 0;
	return 0;
}

static int slots_init(struct uring_dev *ur)
{
	ur->ur_slots = calloc(ur->ur_depth, sizeof(ur->ur_slots[0]));
	if (ur->ur_slots == NULL)
		return -ENOMEM;
	for (unsigned i = 0; i < ur->ur_depth; i++) {
		ur->ur_slots[i].rq_dev = ur;
		ur->ur_slots[i].rq_work.w_fn = worker_fn;
		ur->ur_slots[i].rq_next = ur->ur_free;
		ur->ur_free = &ur->ur_slots[i];
	}
	return 0;
}

static int threads_init(struct uring_dev *ur)
{
	int err;

	ur->ur_workers = workqueue_create("ext4d-blkwork", WORKERS);
	if (IS_ERR(ur->ur_workers))
		return PTR_ERR(ur->ur_workers);
	err = pthread_create(&ur->ur_reaper, NULL, reaper_thread, ur);
	if (err != 0)
		workqueue_destroy(ur->ur_workers);
	return -err;
}

static void describe(struct uring_dev *ur)
{
	ur->ur_bd.bd_ops = &uring_ops;
	ur->ur_bd.bd_name = "uring";
	ur->ur_bd.bd_priv = ur;
	devfile_describe(&ur->ur_file, &ur->ur_bd);
}

struct blkdev *uring_open(const struct blk_open_args *args)
{
	struct uring_dev *ur = calloc(1, sizeof(*ur));
	int err;

	if (ur == NULL)
		return ERR_PTR(-ENOMEM);
	ur->ur_depth = args->ba_queue_depth != 0 ? args->ba_queue_depth : DEPTH_DEFAULT;
	if (ur->ur_depth > DEPTH_MAX)
		ur->ur_depth = DEPTH_MAX;
	err = devfile_open(&ur->ur_file, args);
	if (err != 0)
		goto out_free;
	err = ring_init(ur);
	if (err != 0)
		goto out_close_file;
	mutex_init(&ur->ur_lock, LOCK_RANK_NONE);
	cond_init(&ur->ur_slot_free);
	err = slots_init(ur);
	if (err != 0)
		goto out_exit_ring;
	err = threads_init(ur);
	if (err != 0)
		goto out_free_slots;
	describe(ur);
	return &ur->ur_bd;

out_free_slots:
	free(ur->ur_slots);
out_exit_ring:
	io_uring_queue_exit(&ur->ur_ring);
	cond_destroy(&ur->ur_slot_free);
	mutex_destroy(&ur->ur_lock);
out_close_file:
	devfile_close(&ur->ur_file);
out_free:
	free(ur);
	return ERR_PTR(err);
}
