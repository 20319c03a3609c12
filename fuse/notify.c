/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * notify.c - invalidations to the kernel, from a thread of their own.
 *
 * A notification can block in the kernel until a page is unlocked, and that page may wait for an answer of
 * ours. So notifications are queued, and one thread, which never serves a request, sends them. The queue holds
 * nodeids: one that was forgotten meanwhile gets ENOENT from the kernel, which is fine.
 *
 * An answer may have to wait until the kernel was told. No thread waits for it: the notification carries the request, and
 * is followed by its answer.
 *
 * A direct write drops the kernel's pages before it is sent to us; from Linux 6.18 on once more when it returns, but not
 * when it is asynchronous. What a cached reader reads in between is old. So reads into the cache are remembered
 * (node.c), and a direct write that meets some lets them be dropped before it is answered. A second write that finds
 * nothing remembered, because the first has taken it, must wait for the same notification: i_held_answers says so, and
 * the queue keeps the order.
 *
 * Invariants: (1) no request thread sends a notification. (2) after notifier_detach() only held answers are queued, and
 * no inode is looked at. (3) each held request is answered exactly once.
 * Locking: nf_lock, a leaf.
 */
#include "fuse/notify.h"

#include <stdlib.h>

#include "util/log.h"

struct notification {
	STAILQ_ENTRY(notification) no_link;
	uint64_t no_nodeid;
	off_t no_offset;	      /* -1: attributes only */
	off_t no_len;		      /* 0: to the end */
	struct held_answer no_answer; /* given afterwards, if it has a request */
	struct request no_request;    /* what the thread that served it knew of that */
	struct inode *no_inode;	      /* its i_held_answers goes down; NULL: none */
};

struct notifier {
	struct front *nf_front;
	pthread_t nf_thread;
	pthread_mutex_t nf_lock;
	pthread_cond_t nf_cond;		      /* with nf_lock */
	STAILQ_HEAD(, notification) nf_queue; /* [nf_lock] */
	bool nf_stop;			      /* [nf_lock] */
	bool nf_detached;		      /* [nf_lock] nodes may be gone */
	struct wb_notify_ops nf_ops;	      /* [const after init] */
	counter_t nf_sent;
};

/* The writeback layer's call names only the inode: the file system's front is found here. */
static struct notifier *the_notifier;

/* An OPEN whose answer does not arrive stays on the list of open files: the connection is at its end. */
static void answer(const struct notification *no)
{
	const struct held_answer *ha = &no->no_answer;
	struct request rq = no->no_request;
	struct request *outer = current_request;

	current_request = &rq;
	if (ha->ha_open)
		fuse_reply_open(ha->ha_req, &ha->ha_open_fi);
	else if (ha->ha_bytes != 0)
		fuse_reply_write(ha->ha_req, ha->ha_bytes);
	else
		front_reply_err(ha->ha_req, ha->ha_err);
	current_request = outer;
}

/* What is left to do when the kernel was told, or cannot be. */
static void finish(struct notifier *nf, const struct notification *no)
{
	if (no->no_inode != NULL) {
		pthread_mutex_lock(&nf->nf_lock);
		if (!nf->nf_detached)
			atomic_fetch_sub(&no->no_inode->i_held_answers, 1);
		pthread_mutex_unlock(&nf->nf_lock);
	}
	if (no->no_answer.ha_req != NULL)
		answer(no);
}

static void enqueue(struct notifier *nf, const struct notification *what)
{
	struct notification *no = malloc(sizeof(*no));

	if (no == NULL) {
		log_err("out of memory: the kernel may show old data of a file");
		finish(nf, what);
		return;
	}
	*no = *what;
	pthread_mutex_lock(&nf->nf_lock);
	STAILQ_INSERT_TAIL(&nf->nf_queue, no, no_link);
	pthread_cond_signal(&nf->nf_cond);
	pthread_mutex_unlock(&nf->nf_lock);
}

static void invalidate(struct inode *inode, uint64_t offset, uint64_t len)
{
	struct notifier *nf = the_notifier;
	uint64_t nodeid = node_id_of(&nf->nf_front->f_nodes, inode);

	/* A length of 0 means "to the end" to the kernel. */
	if (nodeid != 0)
		enqueue(nf, &(struct notification){.no_nodeid = nodeid,
						   .no_offset = (off_t)offset,
						   .no_len = len > INT64_MAX ? 0 : (off_t)len});
}

void notify_attributes(struct front *f, struct inode *inode)
{
	uint64_t nodeid = node_id_of(&f->f_nodes, inode);

	if (nodeid != 0)
		enqueue(f->f_notifier,
			&(struct notification){.no_nodeid = nodeid, .no_offset = -1});
}

void notify_attributes_then(struct front *f, struct inode *inode, const struct held_answer *ha)
{
	enqueue(f->f_notifier, &(struct notification){.no_nodeid = node_id_of(&f->f_nodes, inode),
						      .no_offset = -1,
						      .no_answer = *ha,
						      .no_request = *current_request});
}

bool notify_direct_write(fuse_req_t req, struct inode *inode, uint64_t pos, size_t bytes)
{
	struct front *f = front_of(req);
	uint64_t first = pos / EXT4_FRAME_SIZE;
	uint64_t last = (pos + bytes - 1) / EXT4_FRAME_SIZE;
	uint64_t read_first, read_last;
	bool others_wait = atomic_fetch_add(&inode->i_held_answers, 1) > 0;

	if (node_take_reads(inode, pos, bytes, &read_first, &read_last)) {
		first = read_first;
		last = read_last;
	} else if (!others_wait) {
		atomic_fetch_sub(&inode->i_held_answers, 1);
		return false;
	}
	enqueue(f->f_notifier,
		&(struct notification){.no_nodeid = node_id(inode),
				       .no_offset = (off_t)(first * EXT4_FRAME_SIZE),
				       .no_len = (off_t)((last - first + 1) * EXT4_FRAME_SIZE),
				       .no_answer = {.ha_req = req, .ha_bytes = bytes},
				       .no_request = *current_request,
				       .no_inode = inode});
	return true;
}

static struct notification *next(struct notifier *nf)
{
	struct notification *no = NULL;

	pthread_mutex_lock(&nf->nf_lock);
	while (!nf->nf_stop && STAILQ_EMPTY(&nf->nf_queue))
		pthread_cond_wait(&nf->nf_cond, &nf->nf_lock);
	if (!nf->nf_stop) {
		no = STAILQ_FIRST(&nf->nf_queue);
		STAILQ_REMOVE_HEAD(&nf->nf_queue, no_link);
	}
	pthread_mutex_unlock(&nf->nf_lock);
	return no;
}

static void *notifier_main(void *arg)
{
	struct notifier *nf = arg;
	struct notification *no;

	pthread_setname_np(pthread_self(), "fuse/notify");
	while ((no = next(nf)) != NULL) {
		fuse_lowlevel_notify_inval_inode(nf->nf_front->f_session, no->no_nodeid,
						 no->no_offset, no->no_len);
		counter_inc(&nf->nf_sent);
		finish(nf, no);
		free(no);
	}
	return NULL;
}

struct notifier *notifier_create(struct front *f)
{
	struct notifier *nf = calloc(1, sizeof(*nf));

	if (nf == NULL)
		return NULL;
	nf->nf_front = f;
	nf->nf_ops.invalidate = invalidate;
	STAILQ_INIT(&nf->nf_queue);
	pthread_mutex_init(&nf->nf_lock, NULL);
	pthread_cond_init(&nf->nf_cond, NULL);
	if (pthread_create(&nf->nf_thread, NULL, notifier_main, nf) != 0) {
		free(nf);
		return NULL;
	}
	return nf;
}

void notifier_attach(struct notifier *nf)
{
	the_notifier = nf;
	wb_set_notify(nf->nf_front->f_sb, &nf->nf_ops);
}

void notifier_detach(struct notifier *nf)
{
	wb_set_notify(nf->nf_front->f_sb, NULL);
	pthread_mutex_lock(&nf->nf_lock);
	nf->nf_detached = true;
	pthread_mutex_unlock(&nf->nf_lock);
}

void notifier_destroy(struct notifier *nf)
{
	struct notification *no;

	pthread_mutex_lock(&nf->nf_lock);
	nf->nf_stop = true;
	pthread_cond_signal(&nf->nf_cond);
	pthread_mutex_unlock(&nf->nf_lock);
	pthread_join(nf->nf_thread, NULL);
	while ((no = STAILQ_FIRST(&nf->nf_queue)) != NULL) {
		STAILQ_REMOVE_HEAD(&nf->nf_queue, no_link);
		finish(nf, no);
		free(no);
	}
	pthread_mutex_destroy(&nf->nf_lock);
	pthread_cond_destroy(&nf->nf_cond);
	free(nf);
}

uint64_t notifier_sent(const struct notifier *nf)
{
	return counter_read(&nf->nf_sent);
}
