/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * transport.c - requests by read(2) and replies by writev(2) on /dev/fuse.
 *
 * Each channel has a descriptor of its own, cloned from the first: the kernel then keeps the requests
 * of different threads on different lists. A request is answered on the descriptor that it was read
 * from. Where /dev/fuse cannot be opened again (no permission: the first one came from
 * fusermount3) the channels share one descriptor, which is only slower.
 *
 * Invariants: (1) the descriptors stay open until close, so a late reply never meets a reused number.
 * Locking: none; the table is constant.
 */
#include "fuse/transport.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "fuse/proto.h"
#include "util/assert.h"
#include "util/log.h"

struct dev_transport {
	struct transport dt_transport;
	int dt_fd[]; /* [const after init] */
};

static struct dev_transport *dev_of(struct transport *t)
{
	return (struct dev_transport *)t;
}

static ssize_t dev_receive(struct transport *t, unsigned channel, void *buf, size_t size)
{
	ssize_t n = read(dev_of(t)->dt_fd[channel], buf, size);

	if (n >= 0)
		return n;
	/* ENOENT: the request was interrupted before it could be read. */
	if (errno == EINTR || errno == EAGAIN || errno == ENOENT)
		return -EINTR;
	return -errno;
}

static int dev_reply(struct transport *t, unsigned channel, const struct iovec *iov, int iovcnt)
{
	ASSERT_CMP(channel, <, t->t_channels);
	for (;;) {
		if (writev(dev_of(t)->dt_fd[channel], iov, iovcnt) >= 0)
			return 0;
		if (errno != EINTR)
			return -errno;
	}
}

static void dev_close(struct transport *t)
{
	struct dev_transport *dt = dev_of(t);

	for (unsigned i = 1; i < t->t_channels; i++)
		if (dt->dt_fd[i] != dt->dt_fd[0])
			close(dt->dt_fd[i]);
	free(dt);
}

static const struct transport_ops dev_ops = {
	.to_name = "dev",
	.receive = dev_receive,
	.reply = dev_reply,
	.close = dev_close,
};

static int clone_fd(int fd)
{
	uint32_t master = (uint32_t)fd;
	int clone = open("/dev/fuse", O_RDWR | O_CLOEXEC);

	if (clone < 0)
		return fd;
	if (ioctl(clone, FUSE_DEV_IOC_CLONE, &master) == 0)
		return clone;
	log_debug("cloning the FUSE descriptor failed: errno %d", errno);
	close(clone);
	return fd;
}

struct transport *transport_dev_open(int fd, unsigned channels)
{
	struct dev_transport *dt = calloc(1, sizeof(*dt) + channels * sizeof(dt->dt_fd[0]));

	if (dt == NULL)
		return NULL;
	dt->dt_transport.t_ops = &dev_ops;
	dt->dt_transport.t_channels = channels;
	dt->dt_fd[0] = fd;
	for (unsigned i = 1; i < channels; i++)
		dt->dt_fd[i] = clone_fd(fd);
	return &dt->dt_transport;
}
