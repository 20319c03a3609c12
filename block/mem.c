/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * mem.c - a device in memory, for tests: the medium is an array, requests end inside submit.
 *
 * Memory of its own is mapped without reservation, so that a device of terabytes costs what is
 * written to it; a discard gives whole pages back.
 *
 * Invariants: (1) bi_end_io runs before submit returns, in the order of submission.
 * Locking: md_lock (no rank) over the copy of one request. Overlapping requests at once are legal,
 * as on a disk: a buffered read may meet a direct overwrite, and throws its pages away after it.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "block/backend.h"
#include "block/blkdev.h"
#include "util/assert.h"
#include "util/err.h"
#include "util/lock.h"

#define MEM_PAGE_BYTES 65536u /* no host has larger pages */

struct mem_dev {
	struct blkdev md_bd;
	struct rwsem md_lock;
	uint8_t *md_data; /* [md_lock] what it points to */
	bool md_own;	  /* mapped here */
};

static struct mem_dev *mem_of(struct blkdev *bd)
{
	return bd->bd_priv;
}

static void zero_range(struct mem_dev *md, uint64_t offset_bytes, uint64_t len_bytes)
{
	uint64_t end = offset_bytes + len_bytes;
	uint64_t first = (offset_bytes + MEM_PAGE_BYTES - 1) / MEM_PAGE_BYTES * MEM_PAGE_BYTES;
	uint64_t last = end / MEM_PAGE_BYTES * MEM_PAGE_BYTES;

	if (!md->md_own || first >= last ||
	    madvise(md->md_data + first, (size_t)(last - first), MADV_DONTNEED) != 0) {
		memset(md->md_data + offset_bytes, 0, (size_t)len_bytes);
		return;
	}
	memset(md->md_data + offset_bytes, 0, (size_t)(first - offset_bytes));
	memset(md->md_data + last, 0, (size_t)(end - last));
}

static int mem_sync_io(struct blkdev *bd, struct bio *bio)
{
	struct mem_dev *md = mem_of(bd);
	uint8_t *at = md->md_data + bio->bi_offset_bytes;
	size_t len = (size_t)bio->bi_len_bytes;

	if (bio->bi_op == REQ_OP_READ) {
		down_read(&md->md_lock);
		bio_copy_in(bio, 0, at, len);
		up_read(&md->md_lock);
		return 0;
	}
	down_write(&md->md_lock);
	switch (bio->bi_op) {
	case REQ_OP_WRITE:
		bio_copy_out(bio, 0, at, len);
		break;
	case REQ_OP_DISCARD:
	case REQ_OP_WRITE_ZEROES:
		zero_range(md, bio->bi_offset_bytes, bio->bi_len_bytes);
		break;
	case REQ_OP_READ:
	case REQ_OP_FLUSH:
		break;
	}
	up_write(&md->md_lock);
	return 0;
}

static void mem_submit(struct blkdev *bd, struct bio **bios, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		bio_endio(bios[i], mem_sync_io(bd, bios[i]));
}

static void mem_close(struct blkdev *bd)
{
	struct mem_dev *md = mem_of(bd);

	if (md->md_own)
		munmap(md->md_data, (size_t)bd->bd_size_bytes);
	rwsem_destroy(&md->md_lock);
	free(md);
}

static const struct blkdev_ops mem_ops = {
	.submit = mem_submit,
	.close = mem_close,
	.sync_io = mem_sync_io,
};

struct blkdev *mem_open(uint64_t size_bytes, uint32_t logical_block_bytes, void *data)
{
	struct mem_dev *md;

	ASSERT(logical_block_bytes == 512 || logical_block_bytes == 4096);
	size_bytes -= size_bytes % logical_block_bytes;
	if (size_bytes == 0 || size_bytes > SIZE_MAX / 2)
		return ERR_PTR(-EINVAL);
	md = calloc(1, sizeof(*md));
	if (md == NULL)
		return ERR_PTR(-ENOMEM);
	md->md_data = data;
	if (data == NULL) {
		md->md_own = true;
		md->md_data = mmap(NULL, (size_t)size_bytes, PROT_READ | PROT_WRITE,
				   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		if (md->md_data == MAP_FAILED) {
			free(md);
			return ERR_PTR(-ENOMEM);
		}
	}
	rwsem_init(&md->md_lock, LOCK_RANK_NONE);
	md->md_bd.bd_ops = &mem_ops;
	md->md_bd.bd_size_bytes = size_bytes;
	md->md_bd.bd_logical_block_bytes = logical_block_bytes;
	md->md_bd.bd_dma_align = 1;
	md->md_bd.bd_max_bytes = BLK_MAX_BYTES;
	md->md_bd.bd_discard = true;
	md->md_bd.bd_name = "mem";
	md->md_bd.bd_priv = md;
	return &md->md_bd;
}

void *mem_data(struct blkdev *bd)
{
	while (bd->bd_lower != NULL)
		bd = bd->bd_lower;
	ASSERT(bd->bd_ops == &mem_ops);
	return mem_of(bd)->md_data;
}
