/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * notify.c - invalidations to the kernel, from a thread of their own.
 *
 * A notification can block in the kernel until a page is unlocked, and that page may wait for an answer of
 * ours. So notifications are queued, and one thread, which never serves a request, sends them. The queue holds
 * nodeids: one that was forgotten meanwhile gets ENOENT from the kernel, which is fine.
 *
 * Invariants: (1) no request thread sends a notification. (2) nothing is queued after notifier_detach().
 * Locking: nf_lock, a leaf.
 */
#include "fuse/notify.h"

#include <stdlib.h>

#include "util/log.h"

struct notification {
	STAILQ_ENTRY(notification) no_link;
	uint64_t no_nodeid;
	off_t no_offset; /* -1: attributes only */
	off_t no_len;
};

struct notifier {
	struct front *nf_front;
	pthread_t nf_thread;
	pthread_mutex_t nf_lock;
	pthread_cond_t nf_cond;		      /* with nf_lock */
	STAILQ_HEAD(, notification) nf_queue; /* [nf_lock] */
	bool nf_stop;			      /* [nf_lock] */
	struct wb_notify_ops nf_ops;	      /* [const after init] */
	counter_t nf_sent;
};

/* The writeback layer's call names only the inode: the file system's front is found here. */
static struct notifier *the_notifier;

static void enqueue(struct notifier *nf, uint64_t nodeid, off_t offset, off_t len)
{
	struct notification *no = malloc(sizeof(*no));

	if (no == NULL) {
		log_err("out of memory: the kernel may show old data of a file");
		return;
	}
	no->no_nodeid = nodeid;
	no->no_offset = offset;
	no->no_len = len;
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
		enqueue(nf, nodeid, (off_t)offset, len > INT64_MAX ? 0 : (off_t)len);
}

void notify_attributes(struct front *f, struct inode *inode)
{
	uint64_t nodeid = node_id_of(&f->f_nodes, inode);

	if (nodeid != 0)
		enqueue(f->f_notifier, nodeid, -1, 0);
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
