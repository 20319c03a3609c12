/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * parking.c - answers that wait.
 *
 * A writer over the dirty limit must wait, but no thread waits for it: its data is in the cache already,
 * and only the answer is held back until the throttle calls t_wake, from whatever thread. An
 * INTERRUPT (a signal to the writer), the end of the mount and an error answer at once.
 *
 * A ticket has two owners: the thread that parks it and the one that wakes it. The throttle may wake
 * it before balance_dirty_pages_ratelimited() has even returned. So the waker frees it if it is
 * listed, and the parker does if it finds it woken when it comes to list it. An interrupter pins the
 * ticket meanwhile.
 *
 * An INTERRUPT can be read by another thread before the request is parked: the last numbers that matched
 * nothing are remembered and compared when a request is parked.
 *
 * Invariants: (1) each parked request is answered exactly once. (2) pk_nr counts listed tickets that are not
 * yet answered.
 * Locking: pk_lock, a leaf; it is not held over t_wake, wb_unpark() or an answer.
 */
#include "fuse/parking.h"

#include <stdlib.h>

#include "util/assert.h"
#include "util/time.h"

#define REMEMBERED 64u

struct parked_write {
	struct wb_throttle_ticket pw_ticket;
	struct front *pw_front;		   /* [const] */
	fuse_req_t pw_req;		   /* [const] */
	uint64_t pw_unique;		   /* [const] */
	uint64_t pw_start_ns;		   /* [const] */
	unsigned pw_channel;		   /* [const] */
	size_t pw_bytes;		   /* [const] */
	bool pw_listed;			   /* [pk_lock] */
	bool pw_done;			   /* [pk_lock] answered */
	unsigned pw_pins;		   /* [pk_lock] */
	TAILQ_ENTRY(parked_write) pw_link; /* [pk_lock] */
};

struct parking {
	struct front *pk_front;
	pthread_mutex_t pk_lock;
	pthread_cond_t pk_answered; /* with pk_lock */
	TAILQ_HEAD(parked_list, parked_write) pk_list;
	unsigned pk_nr;
	uint64_t pk_interrupted[REMEMBERED]; /* ring */
	unsigned pk_next;
	struct hist pk_time_ns;
};

static void answer(struct parked_write *pw, int err)
{
	struct request *outer = current_request;
	struct request rq = {.rq_unique = pw->pw_unique, .rq_channel = pw->pw_channel};

	current_request = &rq;
	if (err != 0)
		front_reply_err(pw->pw_req, err);
	else
		fuse_reply_write(pw->pw_req, pw->pw_bytes);
	current_request = outer;
}

/* Off the list, if it is on it; true: nobody else will free it. */
static bool finish(struct parking *pk, struct parked_write *pw)
{
	bool mine;

	pthread_mutex_lock(&pk->pk_lock);
	pw->pw_done = true;
	if (pw->pw_listed) {
		TAILQ_REMOVE(&pk->pk_list, pw, pw_link);
		pk->pk_nr--;
		pthread_cond_broadcast(&pk->pk_answered);
	}
	mine = pw->pw_listed && pw->pw_pins == 0;
	pthread_mutex_unlock(&pk->pk_lock);
	return mine;
}

static void wake(struct wb_throttle_ticket *t, int err)
{
	struct parked_write *pw = (struct parked_write *)t;
	struct parking *pk = pw->pw_front->f_parking;

	hist_add(&pk->pk_time_ns, stat_ns() - pw->pw_start_ns);
	answer(pw, err);
	if (finish(pk, pw))
		free(pw);
}

static void unpin(struct parking *pk, struct parked_write *pw)
{
	bool mine;

	pthread_mutex_lock(&pk->pk_lock);
	mine = --pw->pw_pins == 0 && pw->pw_done;
	pthread_mutex_unlock(&pk->pk_lock);
	if (mine)
		free(pw);
}

static bool was_interrupted_locked(const struct parking *pk, uint64_t unique)
{
	for (unsigned i = 0; i < REMEMBERED; i++)
		if (pk->pk_interrupted[i] == unique)
			return true;
	return false;
}

bool parking_was_interrupted(struct parking *pk, uint64_t unique)
{
	bool was;

	pthread_mutex_lock(&pk->pk_lock);
	was = was_interrupted_locked(pk, unique);
	pthread_mutex_unlock(&pk->pk_lock);
	return was;
}

/* The throttle has taken pw. */
static void list(struct parking *pk, struct parked_write *pw)
{
	bool done, interrupted = false;

	pthread_mutex_lock(&pk->pk_lock);
	done = pw->pw_done;
	if (!done) {
		TAILQ_INSERT_TAIL(&pk->pk_list, pw, pw_link);
		pw->pw_listed = true;
		pk->pk_nr++;
		interrupted = was_interrupted_locked(pk, pw->pw_unique);
		if (interrupted)
			pw->pw_pins++;
	}
	pthread_mutex_unlock(&pk->pk_lock);
	if (done)
		free(pw);
	if (!interrupted)
		return;
	wb_unpark(pk->pk_front->f_sb, &pw->pw_ticket, 0);
	unpin(pk, pw);
}

bool parking_throttle(fuse_req_t req, struct inode *inode, uint64_t pos, size_t bytes)
{
	struct front *f = front_of(req);
	uint64_t first = pos / EXT4_FRAME_SIZE;
	uint64_t last = (pos + bytes - 1) / EXT4_FRAME_SIZE;
	struct parked_write *pw = calloc(1, sizeof(*pw));

	if (pw == NULL)
		return false;
	pw->pw_ticket.t_wake = wake;
	pw->pw_ticket.t_pages = (uint32_t)(last - first + 1);
	pw->pw_ticket.t_task = current_request->rq_pid;
	pw->pw_front = f;
	pw->pw_req = req;
	pw->pw_unique = current_request->rq_unique;
	pw->pw_channel = current_request->rq_channel;
	pw->pw_start_ns = current_request->rq_start_ns;
	pw->pw_bytes = bytes;
	if (balance_dirty_pages_ratelimited(inode, pw->pw_ticket.t_pages, &pw->pw_ticket) == 0) {
		free(pw);
		return false;
	}
	list(f->f_parking, pw);
	return true;
}

void parking_interrupt(struct parking *pk, uint64_t unique)
{
	struct parked_write *pw;

	pthread_mutex_lock(&pk->pk_lock);
	TAILQ_FOREACH (pw, &pk->pk_list, pw_link)
		if (pw->pw_unique == unique)
			break;
	if (pw != NULL) {
		pw->pw_pins++;
	} else {
		pk->pk_interrupted[pk->pk_next] = unique;
		pk->pk_next = (pk->pk_next + 1) % REMEMBERED;
	}
	pthread_mutex_unlock(&pk->pk_lock);
	if (pw == NULL)
		return;
	wb_unpark(pk->pk_front->f_sb, &pw->pw_ticket, 0);
	unpin(pk, pw);
}

void parking_release_all(struct parking *pk)
{
	pthread_mutex_lock(&pk->pk_lock);
	while (pk->pk_nr > 0) {
		struct parked_write *pw = TAILQ_FIRST(&pk->pk_list);
		bool woken;

		pw->pw_pins++;
		pthread_mutex_unlock(&pk->pk_lock);
		woken = wb_unpark(pk->pk_front->f_sb, &pw->pw_ticket, 0);
		unpin(pk, pw);
		pthread_mutex_lock(&pk->pk_lock);
		/* Somebody else is waking it: its answer is on the way. */
		if (!woken && pk->pk_nr > 0)
			pthread_cond_wait(&pk->pk_answered, &pk->pk_lock);
	}
	pthread_mutex_unlock(&pk->pk_lock);
}

unsigned parking_count(struct parking *pk)
{
	unsigned nr;

	pthread_mutex_lock(&pk->pk_lock);
	nr = pk->pk_nr;
	pthread_mutex_unlock(&pk->pk_lock);
	return nr;
}

const struct hist *parking_time(const struct parking *pk)
{
	return &pk->pk_time_ns;
}

struct parking *parking_create(struct front *f)
{
	struct parking *pk = calloc(1, sizeof(*pk));

	if (pk == NULL)
		return NULL;
	pk->pk_front = f;
	TAILQ_INIT(&pk->pk_list);
	pthread_mutex_init(&pk->pk_lock, NULL);
	pthread_cond_init(&pk->pk_answered, NULL);
	return pk;
}

void parking_destroy(struct parking *pk)
{
	ASSERT_CMP(pk->pk_nr, ==, 0u);
	pthread_mutex_destroy(&pk->pk_lock);
	pthread_cond_destroy(&pk->pk_answered);
	free(pk);
}
