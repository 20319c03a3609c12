/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef FUSE_TRANSPORT_H
#define FUSE_TRANSPORT_H
/*
 * Where requests come from and replies go to. A transport has channels; a thread receives from its own
 * channel only, and the reply to a request goes to the channel that it came from, from any thread.
 */

#include <stddef.h>
#include <sys/types.h>
#include <sys/uio.h>

struct transport;

struct transport_ops {
	const char *to_name;
	/* Wait for a request and put it at buf. Its length; -ENODEV when the connection has ended; -EINTR: try again. */
	ssize_t (*receive)(struct transport *t, unsigned channel, void *buf, size_t size);
	/* Send one reply or notification. 0 or a negative errno (-ENOENT: nobody waits for it any more). */
	int (*reply)(struct transport *t, unsigned channel, const struct iovec *iov, int iovcnt);
	/* Closes what it opened; the descriptor it was made from stays open. */
	void (*close)(struct transport *t);
};

struct transport {
	const struct transport_ops *t_ops; /* [const after init] */
	unsigned t_channels;		   /* [const after init] */
};

/* Requests by read(2) from /dev/fuse: channel 0 is fd itself, the others are clones where they can be had. NULL: out of memory. */
struct transport *transport_dev_open(int fd, unsigned channels);

#endif
