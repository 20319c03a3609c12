/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * trace_pipe.c - the reader of the ring of events.
 *
 * As with the kernel's trace_pipe an event is read once, and a reader waits when there is none. Unlike there the file ends when all
 * events are off and all have been read: a script can switch them on, do something, switch them off, and read the file to its end.
 *
 * Events come from threads that hold locks, so they wake nobody: the reader looks again from time to time. It blocks a thread of the
 * pool, which another one replaces; one file at a time may be open for reading, so there is at most one.
 *
 * Invariants: (1) a reader that waits ends within WAIT_NS of an interrupt or of the end of the mount.
 * Locking: none of its own.
 */
#include "fuse/trace_pipe.h"

#include <errno.h>
#include <time.h>

#include "fuse/parking.h"
#include "util/time.h"
#include "util/trace.h"

#define WAIT_NS 20000000
/* A record may still be in its writer's hands when events are switched off: so many looks without result are the end. */
#define LAST_LOOKS 6u

static atomic_flag claimed = ATOMIC_FLAG_INIT;

bool trace_pipe_claim(void)
{
	return !atomic_flag_test_and_set(&claimed);
}

void trace_pipe_release(void)
{
	atomic_flag_clear(&claimed);
}

static void wait_a_little(void)
{
	const struct timespec pause = {0, WAIT_NS};

	thread_block_begin();
	nanosleep(&pause, NULL);
	thread_block_end();
}

/* Bytes, 0 at the end, or a negative errno. */
static int wait_for_events(struct front *f, char *buf, size_t size, bool nonblock)
{
	unsigned looks = 0;

	for (;;) {
		size_t n = trace_read(buf, size);

		if (n > 0)
			return (int)n;
		looks = trace_ring_on() ? 0 : looks + 1;
		if (looks == LAST_LOOKS || f->f_state != FRONT_RUNNING)
			return 0;
		if (nonblock && looks == 0)
			return -EAGAIN;
		if (parking_was_interrupted(f->f_parking, current_request->rq_unique))
			return -EINTR;
		wait_a_little();
	}
}

void trace_pipe_read(fuse_req_t req, size_t size, bool nonblock)
{
	struct request *rq = current_request;
	char *buf = request_scratch(rq);
	int n = wait_for_events(front_of(req), buf, size, nonblock);

	/* The time that it waited says nothing of reads. */
	rq->rq_start_ns = stat_ns();
	if (n < 0)
		front_reply_err(req, n);
	else
		fuse_reply_buf(req, buf, (size_t)n);
}
