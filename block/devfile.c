/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * devfile.c - a block device or an image file: its geometry, and I/O to it in the calling thread.
 *
 * Opened with O_DIRECT where that works; the alignment comes from BLKSSZGET or STATX_DIOALIGN, and
 * where the kernel has neither for a file, from trying. Memory that is not aligned goes through a
 * copy that is counted. FUA is RWF_DSYNC, a flush is fdatasync, which on a block device flushes
 * the drive's cache.
 *
 * Invariants: (1) devfile_do() carries out the whole request or fails: short transfers are
 * continued, the end of the file is -EIO. (2) With O_DIRECT nothing but aligned memory and
 * lengths reaches the system call.
 * Locking: none; nothing here changes after devfile_open() but an atomic counter.
 */
#include <fcntl.h>
#include <linux/falloc.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "block/backend.h"
#include "util/assert.h"
#include "util/err.h"
#include "util/lock.h"
#include "util/log.h"

#define IOV_BATCH 64
#define BOUNCE_ALIGN 4096u

/* ---- Geometry ---- */

static int block_device_size(struct devfile *df)
{
	uint64_t size;
	int sector;

	if (ioctl(df->df_fd, BLKGETSIZE64, &size) != 0 || ioctl(df->df_fd, BLKSSZGET, &sector) != 0)
		return -errno;
	df->df_size_bytes = size;
	df->df_logical_bytes = (uint32_t)sector;
	df->df_dma_align = (uint32_t)sector;
	return 0;
}

/* True if direct I/O in units of 512 bytes works on this file. */
static bool try_small_direct(const struct devfile *df)
{
	void *buf;
	ssize_t n;

	if (posix_memalign(&buf, BOUNCE_ALIGN, BLK_SECTOR_BYTES) != 0)
		return false;
	n = pread(df->df_fd, buf, BLK_SECTOR_BYTES, BLK_SECTOR_BYTES);
	free(buf);
	return n == (ssize_t)BLK_SECTOR_BYTES;
}

/* What statx knows about direct I/O to this file; zeroes if nothing. */
static void statx_alignment(const struct devfile *df, uint32_t *offset_align, uint32_t *mem_align)
{
	struct statx stx;

	*offset_align = 0;
	*mem_align = 0;
	if (statx(df->df_fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &stx) != 0)
		return;
	if ((stx.stx_mask & STATX_DIOALIGN) == 0)
		return;
	*offset_align = stx.stx_dio_offset_align;
	*mem_align = stx.stx_dio_mem_align;
}

static void file_alignment(struct devfile *df)
{
	uint32_t offset_align;
	uint32_t mem_align;

	df->df_logical_bytes = BLK_SECTOR_BYTES;
	df->df_dma_align = 1;
	if (!df->df_direct)
		return;
	statx_alignment(df, &offset_align, &mem_align);
	if (offset_align == 0) {
		offset_align = try_small_direct(df) ? BLK_SECTOR_BYTES : 4096;
		mem_align = offset_align;
	}
	if (offset_align > BLK_SECTOR_BYTES)
		df->df_logical_bytes = offset_align;
	df->df_dma_align = mem_align;
}

/* The number in a sysfs attribute of a device's queue, 0 if there is none. */
static unsigned long long queue_attribute(dev_t dev, const char *queue, const char *name)
{
	char path[128];
	char text[32];
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/sys/dev/block/%u:%u/%s/%s", major(dev), minor(dev), queue,
		 name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	n = read(fd, text, sizeof(text) - 1);
	close(fd);
	text[n > 0 ? n : 0] = '\0';
	return strtoull(text, NULL, 10);
}

static bool can_discard(dev_t dev)
{
	/* A partition's queue is that of its parent. */
	return queue_attribute(dev, "queue", "discard_max_bytes") > 0 ||
	       queue_attribute(dev, "../queue", "discard_max_bytes") > 0;
}

static uint32_t dev_number(dev_t dev)
{
	return major(dev) << BLK_MINOR_BITS | (minor(dev) & ((1u << BLK_MINOR_BITS) - 1));
}

static int find_geometry(struct devfile *df)
{
	struct stat st;
	int err;

	if (fstat(df->df_fd, &st) != 0)
		return -errno;
	df->df_block_device = S_ISBLK(st.st_mode);
	df->df_dev = dev_number(df->df_block_device ? st.st_rdev : st.st_dev);
	if (df->df_block_device) {
		err = block_device_size(df);
		if (err != 0)
			return err;
		df->df_discard = !df->df_read_only && can_discard(st.st_rdev);
	} else if (S_ISREG(st.st_mode)) {
		df->df_size_bytes = (uint64_t)st.st_size;
		df->df_discard = !df->df_read_only;
		file_alignment(df);
	} else {
		return -ENOTBLK;
	}
	if (df->df_logical_bytes != 512 && df->df_logical_bytes != 4096) {
		log_err("sectors of %u bytes are not supported (512 and 4096 are)",
			df->df_logical_bytes);
		return -EINVAL;
	}
	df->df_size_bytes -= df->df_size_bytes % df->df_logical_bytes;
	return 0;
}

int devfile_open(struct devfile *df, const struct blk_open_args *args)
{
	int flags = (args->ba_read_only ? O_RDONLY : O_RDWR) | O_CLOEXEC;
	int err;

	memset(df, 0, sizeof(*df));
	df->df_read_only = args->ba_read_only;
	df->df_direct = args->ba_direct;
	df->df_fd = open(args->ba_path, flags | (df->df_direct ? O_DIRECT : 0));
	if (df->df_fd < 0 && errno == EINVAL && df->df_direct) {
		df->df_direct = false;
		df->df_fd = open(args->ba_path, flags);
	}
	if (df->df_fd < 0) {
		err = -errno;
		log_err("%s: %s", args->ba_path, strerror(-err));
		return err;
	}
	err = find_geometry(df);
	if (err != 0) {
		log_err("%s: %s", args->ba_path, strerror(-err));
		close(df->df_fd);
		return err;
	}
	if (!df->df_direct)
		log_info("%s: no direct I/O: buffered, made durable by fdatasync", args->ba_path);
	return 0;
}

void devfile_close(struct devfile *df)
{
	close(df->df_fd);
}

void devfile_describe(const struct devfile *df, struct blkdev *bd)
{
	bd->bd_size_bytes = df->df_size_bytes;
	bd->bd_logical_block_bytes = df->df_logical_bytes;
	bd->bd_dma_align = df->df_dma_align;
	bd->bd_max_bytes = BLK_MAX_BYTES;
	bd->bd_read_only = df->df_read_only;
	bd->bd_discard = df->df_discard;
	bd->bd_dev = df->df_dev;
}

/* ---- I/O ---- */

bool devfile_aligned(const struct devfile *df, const struct bio *bio)
{
	uintptr_t bits = 0;
	size_t lengths = 0;

	if (!df->df_direct)
		return true;
	for (int i = 0; i < bio->bi_iovcnt; i++) {
		bits |= (uintptr_t)bio->bi_iov[i].iov_base;
		lengths |= bio->bi_iov[i].iov_len;
	}
	return (bits & (df->df_dma_align - 1)) == 0 && (lengths & (df->df_logical_bytes - 1)) == 0;
}

/* The part of the bio's memory from done bytes on, at most IOV_BATCH pieces. */
static int remaining_iov(const struct bio *bio, uint64_t done, struct iovec *iov)
{
	int n = 0;

	for (int i = 0; i < bio->bi_iovcnt && n < IOV_BATCH; i++) {
		const struct iovec *v = &bio->bi_iov[i];

		if (done >= v->iov_len) {
			done -= v->iov_len;
			continue;
		}
		iov[n].iov_base = (uint8_t *)v->iov_base + done;
		iov[n].iov_len = v->iov_len - (size_t)done;
		done = 0;
		n++;
	}
	return n;
}

static ssize_t write_durable(const struct devfile *df, const struct iovec *iov, int n, off_t pos)
{
	ssize_t got = pwritev2(df->df_fd, iov, n, pos, RWF_DSYNC);

	if (got >= 0 || (errno != EOPNOTSUPP && errno != ENOSYS))
		return got;
	got = pwritev(df->df_fd, iov, n, pos);
	if (got > 0 && fdatasync(df->df_fd) != 0)
		return -1;
	return got;
}

static int transfer_aligned(const struct devfile *df, const struct bio *bio, uint64_t done)
{
	struct iovec iov[IOV_BATCH];

	while (done < bio->bi_len_bytes) {
		int n = remaining_iov(bio, done, iov);
		off_t pos = (off_t)(bio->bi_offset_bytes + done);
		ssize_t got;

		if (bio->bi_op == REQ_OP_READ)
			got = preadv(df->df_fd, iov, n, pos);
		else if ((bio->bi_flags & REQ_FUA) != 0)
			got = write_durable(df, iov, n, pos);
		else
			got = pwritev(df->df_fd, iov, n, pos);
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return -errno;
		if (got == 0)
			return -EIO;
		done += (uint64_t)got;
	}
	return 0;
}

static int transfer_bounced(struct devfile *df, const struct bio *bio)
{
	struct iovec iov = {.iov_len = (size_t)bio->bi_len_bytes};
	struct bio bounced = *bio;
	int err;

	if (posix_memalign(&iov.iov_base, BOUNCE_ALIGN, iov.iov_len) != 0)
		return -ENOMEM;
	counter_inc(&df->df_bounces);
	bounced.bi_iov = &iov;
	bounced.bi_iovcnt = 1;
	if (bio->bi_op == REQ_OP_WRITE)
		bio_copy_out(bio, 0, iov.iov_base, iov.iov_len);
	err = transfer_aligned(df, &bounced, 0);
	if (err == 0 && bio->bi_op == REQ_OP_READ)
		bio_copy_in(bio, 0, iov.iov_base, iov.iov_len);
	free(iov.iov_base);
	return err;
}

/* By ioctl on a block device, by fallocate in a file. */
static int on_range(const struct devfile *df, const struct bio *bio, unsigned long request,
		    int mode)
{
	uint64_t range[2] = {bio->bi_offset_bytes, bio->bi_len_bytes};
	int rc;

	if (df->df_block_device)
		rc = ioctl(df->df_fd, request, range);
	else
		rc = fallocate(df->df_fd, mode | FALLOC_FL_KEEP_SIZE, (off_t)range[0],
			       (off_t)range[1]);
	return rc != 0 ? -errno : 0;
}

static int deallocate(const struct devfile *df, const struct bio *bio)
{
	return on_range(df, bio, BLKDISCARD, FALLOC_FL_PUNCH_HOLE);
}

/* -EOPNOTSUPP where the range has to be written. */
static int write_zeroes(const struct devfile *df, const struct bio *bio)
{
	int err = on_range(df, bio, BLKZEROOUT, FALLOC_FL_ZERO_RANGE);

	if (err != 0)
		return err == -ENOTTY ? -EOPNOTSUPP : err;
	if ((bio->bi_flags & REQ_FUA) != 0 && fdatasync(df->df_fd) != 0)
		return -errno;
	return 0;
}

int devfile_do(struct devfile *df, const struct bio *bio)
{
	switch (bio->bi_op) {
	case REQ_OP_READ:
	case REQ_OP_WRITE:
		if (devfile_aligned(df, bio))
			return transfer_aligned(df, bio, 0);
		return transfer_bounced(df, bio);
	case REQ_OP_FLUSH:
		return fdatasync(df->df_fd) != 0 ? -errno : 0;
	case REQ_OP_DISCARD:
		return deallocate(df, bio);
	case REQ_OP_WRITE_ZEROES:
		return write_zeroes(df, bio);
	}
	return -EINVAL;
}

void devfile_do_and_end(struct devfile *df, struct bio *bio)
{
	int status;

	thread_block_begin();
	status = devfile_do(df, bio);
	thread_block_end();
	bio_endio(bio, status);
}

int devfile_continue(struct devfile *df, const struct bio *bio, uint64_t done_bytes)
{
	if (bio->bi_op != REQ_OP_READ && bio->bi_op != REQ_OP_WRITE)
		return devfile_do(df, bio);
	ASSERT_CMP(done_bytes, <=, bio->bi_len_bytes);
	/* A short direct transfer may end inside a sector: do that sector again. */
	done_bytes -= done_bytes % df->df_logical_bytes;
	if (!devfile_aligned(df, bio))
		return transfer_bounced(df, bio);
	return transfer_aligned(df, bio, done_bytes);
}
