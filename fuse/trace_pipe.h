/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef FUSE_TRACE_PIPE_H
#define FUSE_TRACE_PIPE_H
/* .ext4d/trace: events as text, taken out of the ring as they are read. */

#include "fuse/front.h"

/* The reader's end, for one open file at a time. False: somebody else has it. */
bool trace_pipe_claim(void);
void trace_pipe_release(void);
/*
 * Answer with the oldest events. Without any: waits for some if events are on (EAGAIN if nonblock, EINTR when interrupted), else the end of
 * the file. The thread announces that it blocks.
 */
void trace_pipe_read(fuse_req_t req, size_t size, bool nonblock);

#endif
