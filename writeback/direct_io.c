/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * direct_io.c - O_DIRECT: between the request's memory and the device.
 *
 * A write is cut into a part of whole blocks, which goes directly, and what is left at both ends, which goes through the cache and is written and waited for. The pages of the direct part are
 * written and dropped first, and readers are kept out until the end, so nobody sees old data in the cache. Blocks that are missing are allocated unwritten;
 * when the requests are complete each run is converted and i_size and i_disksize moved over it in one handle, in file order. Files without extents
 * go directly only where all blocks are there.
 *
 * A write of whole blocks that are written and inside the file changes nothing but data, and runs side by side with others of its kind (direct_overwrite()), as in
 * the kernel.
 *
 * A read writes dirty pages of the range first and then reads the device; holes and unwritten extents are zeros. Its unaligned ends come from the cache.
 *
 * Invariants: (1) no page of a directly written range is in the cache while its requests are in flight, or at least, in an overwrite, when they are over. (2) A failed request converts nothing. (3) The memory of a request is the caller's and
 * is only used until the call returns.
 * Locking: i_rwsem (write for writes, read for reads and overwrites) -> as_invalidate_lock for write during direct writes.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "writeback/internal.h"

#define DIO_IOVS 1024
#define DIO_RUNS 64u /* runs in flight before they are finished */

/* Requests of one call, and the wait for them. */
struct dio {
	struct inode *d_inode;
	enum req_op d_op;
	struct mutex d_lock; /* LEAF */
	struct cond d_cond;
	unsigned d_pending; /* [d_lock] */
	int d_error;	    /* [d_lock] */
};

struct dio_bio {
	struct bio db_bio;
	struct dio *db_dio;
	struct iovec db_iov[];
};

struct dio_run {
	ext4_lblk_t dr_lblk;
	uint32_t dr_len;
	bool dr_unwritten;
};

/* ---- Requests ---- */

/* The device is plugged until dio_wait(). */
static void dio_init(struct dio *d, struct inode *inode, enum req_op op)
{
	memset(d, 0, sizeof(*d));
	d->d_inode = inode;
	d->d_op = op;
	mutex_init(&d->d_lock, LOCK_RANK_LEAF);
	cond_init(&d->d_cond);
	blk_start_plug(inode->i_sb->s_dev);
}

static void dio_destroy(struct dio *d)
{
	cond_destroy(&d->d_cond);
	mutex_destroy(&d->d_lock);
}

static void dio_end_io(struct bio *bio)
{
	struct dio_bio *db = bio->bi_private;
	struct dio *d = db->db_dio;

	if (bio->bi_op == REQ_OP_WRITE)
		mapping_note_written(d->d_inode->i_mapping);
	mutex_lock(&d->d_lock);
	if (bio->bi_status != 0 && d->d_error == 0)
		d->d_error = bio->bi_status;
	if (--d->d_pending == 0)
		cond_signal(&d->d_cond);
	mutex_unlock(&d->d_lock);
	free(db);
}

static int dio_wait(struct dio *d)
{
	int err;

	blk_finish_plug_wait(d->d_inode->i_sb->s_dev);
	mutex_lock(&d->d_lock);
	while (d->d_pending > 0)
		cond_wait(&d->d_cond, &d->d_lock);
	err = d->d_error;
	mutex_unlock(&d->d_lock);
	return err;
}

/* The next len bytes of it (at most as many as DIO_IOVS pieces hold) as an iovec; returns the bytes. */
static size_t fill_iov(struct iov_iter *it, size_t len, struct iovec *iov, int *cnt)
{
	size_t done = 0;

	*cnt = 0;
	while (done < len && *cnt < DIO_IOVS) {
		size_t left = it->ii_iov->iov_len - it->ii_off;
		size_t n = left < len - done ? left : len - done;

		iov[*cnt].iov_base = (uint8_t *)it->ii_iov->iov_base + it->ii_off;
		iov[(*cnt)++].iov_len = n;
		done += n;
		iov_advance(it, n);
	}
	return done;
}

static int submit_one(struct dio *d, struct iov_iter *it, uint64_t dev_offset, size_t *len)
{
	struct blkdev *bd = d->d_inode->i_sb->s_dev;
	struct dio_bio *db = malloc(sizeof(*db) + DIO_IOVS * sizeof(struct iovec));
	size_t unit = bd->bd_logical_block_bytes, extra;
	struct iov_iter start = *it;

	if (db == NULL)
		return -ENOMEM;
	memset(&db->db_bio, 0, sizeof(db->db_bio));
	if (*len > bd->bd_max_bytes)
		*len = bd->bd_max_bytes;
	*len = fill_iov(it, *len, db->db_iov, &db->db_bio.bi_iovcnt);
	extra = *len % unit;
	if (extra != 0 && *len > unit) {
		/* Cut short by the number of pieces: end at a sector. */
		*it = start;
		*len = fill_iov(it, *len - extra, db->db_iov, &db->db_bio.bi_iovcnt);
	}
	db->db_dio = d;
	db->db_bio.bi_op = d->d_op;
	db->db_bio.bi_flags = REQ_SYNC;
	db->db_bio.bi_offset_bytes = dev_offset;
	db->db_bio.bi_len_bytes = *len;
	db->db_bio.bi_iov = db->db_iov;
	db->db_bio.bi_end_io = dio_end_io;
	db->db_bio.bi_private = db;
	mutex_lock(&d->d_lock);
	d->d_pending++;
	mutex_unlock(&d->d_lock);
	blk_submit_one(bd, &db->db_bio);
	return 0;
}

static int submit_run(struct dio *d, struct iov_iter *it, uint64_t dev_offset, size_t len)
{
	while (len > 0) {
		size_t n = len;
		int err = submit_one(d, it, dev_offset, &n);

		if (err != 0)
			return err;
		dev_offset += n;
		len -= n;
	}
	return 0;
}

/* ---- Write ---- */

/* Where blocks [lblk, lblk + len) lie, allocated if missing; map describes the first run. */
static int map_for_write(struct inode *inode, struct ext4_map_blocks *map)
{
	uint32_t want = map->m_len;
	unsigned retries = 0;
	handle_t *handle;
	int ret = ext4_map_blocks(NULL, inode, map, 0);

	while (ret == 0) {
		handle = ext4_journal_start(inode, HT_MAP_BLOCKS, ext4_chunk_trans_blocks(inode));
		if (IS_ERR(handle))
			return PTR_ERR(handle);
		map->m_len = want;
		ret = ext4_map_blocks(handle, inode, map,
				      EXT4_GET_BLOCKS_CREATE | EXT4_GET_BLOCKS_UNWRIT_EXT);
		ret = ext4_journal_stop(handle, ret < 0 ? ret : 0);
		if (ret != -ENOSPC)
			return ret;
		ret = ext4_should_retry_alloc(inode->i_sb, &retries) ? 0 : -ENOSPC;
	}
	return ret < 0 ? ret : 0;
}

/* The run is on the disk: written, and inside the file. */
static int finish_run(struct inode *inode, const struct dio_run *run)
{
	uint64_t end = ((uint64_t)run->dr_lblk + run->dr_len) << inode->i_sb->s_blocksize_bits;
	handle_t *handle;
	int err = 0;

	if (!run->dr_unwritten && end <= atomic_load(&inode->i_disksize))
		return 0;
	handle = ext4_journal_start(inode, HT_EXT_CONVERT, conversion_credits(inode, 1));
	if (IS_ERR(handle))
		return PTR_ERR(handle);
	if (run->dr_unwritten)
		err = ext4_convert_unwritten_extents(handle, inode, run->dr_lblk, run->dr_len);
	if (err == 0) {
		if (end > i_size_read(inode))
			i_size_write(inode, end);
		(void)ext4_update_disksize(inode, end);
		err = ext4_mark_inode_dirty(handle, inode);
		ext4_update_inode_fsync_trans(handle, inode, true);
	}
	return ext4_journal_stop(handle, err);
}

/* Up to DIO_RUNS runs of [lblk, end): mapped, written, waited for, finished. *done: blocks that are. */
static int write_runs(struct inode *inode, struct iov_iter *it, ext4_lblk_t lblk, ext4_lblk_t end,
		      uint32_t *done)
{
	unsigned bits = inode->i_sb->s_blocksize_bits;
	struct dio_run runs[DIO_RUNS];
	unsigned n = 0;
	struct dio d;
	int err = 0, ret;

	*done = 0;
	dio_init(&d, inode, REQ_OP_WRITE);
	while (lblk < end && n < DIO_RUNS && err == 0) {
		struct ext4_map_blocks map = {.m_lblk = lblk, .m_len = end - lblk};

		err = map_for_write(inode, &map);
		if (err != 0)
			break;
		if (map.m_flags & EXT4_MAP_NEW)
			bh_wait_writes(inode->i_sb->s_bcache, map.m_pblk, map.m_len);
		runs[n].dr_lblk = lblk;
		runs[n].dr_len = map.m_len;
		runs[n++].dr_unwritten = (map.m_flags & EXT4_MAP_UNWRITTEN) != 0;
		lblk += map.m_len;
		err = submit_run(&d, it, map.m_pblk << bits, (size_t)map.m_len << bits);
	}
	ret = dio_wait(&d);
	dio_destroy(&d);
	/* A failed submission or request: it is not known which run it was in. */
	if (ret != 0 || (err != 0 && err == -ENOMEM))
		return ret != 0 ? ret : err;
	for (unsigned i = 0; i < n; i++) {
		ret = finish_run(inode, &runs[i]);
		if (ret != 0)
			return ret;
		*done += runs[i].dr_len;
	}
	return *done > 0 ? 0 : err;
}

/* Without extents there is no unwritten state: only what is mapped and inside the file. */
static bool may_go_direct(struct inode *inode, ext4_lblk_t lblk, ext4_lblk_t end)
{
	unsigned bits = inode->i_sb->s_blocksize_bits;

	if (ext4_is_extents(inode))
		return true;
	if ((uint64_t)end << bits > i_size_read(inode))
		return false;
	while (lblk < end) {
		struct ext4_map_blocks map = {.m_lblk = lblk, .m_len = end - lblk};

		if (ext4_map_blocks(NULL, inode, &map, 0) <= 0)
			return false;
		lblk += map.m_len;
	}
	return true;
}

/* Whole blocks of [pos, pos + len). Bytes or negative errno. */
static ssize_t write_blocks(struct inode *inode, struct iov_iter *it, uint64_t pos, size_t len)
{
	struct address_space *as = inode->i_mapping;
	unsigned bits = inode->i_sb->s_blocksize_bits;
	ext4_lblk_t lblk = (ext4_lblk_t)(pos >> bits), end = (ext4_lblk_t)((pos + len) >> bits);
	size_t done = 0;
	int err = 0;

	down_write(&as->as_invalidate_lock);
	truncate_pages(as, (uint32_t)(pos >> PAGE_SHIFT),
		       (uint32_t)((pos + len - 1) >> PAGE_SHIFT));
	while (lblk < end && err == 0) {
		uint32_t n;

		err = write_runs(inode, it, lblk, end, &n);
		lblk += n;
		done += (size_t)n << bits;
	}
	up_write(&as->as_invalidate_lock);
	return done > 0 ? (ssize_t)done : err;
}

/* Data of the pages that will be dropped, and of what lies between i_disksize and the write. */
static int flush_before_write(struct inode *inode, uint64_t pos, size_t len)
{
	uint64_t page_mask = PAGE_SIZE - 1;
	int err = 0;

	if (pos > i_size_read(inode))
		err = zero_eof_tail(inode);
	if (err >= 0 && pos + len > atomic_load(&inode->i_disksize))
		err = flush_growth(inode);
	if (err < 0)
		return err;
	return write_and_wait_checked(inode, pos & ~page_mask, (pos + len - 1) | page_mask);
}

/* Through the cache, written and waited for. */
static ssize_t write_cached(struct inode *inode, struct iov_iter *it, size_t len, uint64_t pos,
			    const struct ext4_cred *cred)
{
	ssize_t n = buffered_write_locked(inode, it, len, pos, cred);
	int err;

	if (n <= 0)
		return n;
	err = write_and_wait_checked(inode, pos, pos + (size_t)n - 1);
	return err != 0 ? err : n;
}

ssize_t direct_write_locked(struct inode *inode, struct wb_write *w, size_t len)
{
	struct iov_iter it = {.ii_iov = w->w_iov, .ii_cnt = w->w_iovcnt};
	uint64_t bs = inode->i_sb->s_blocksize, pos = w->w_pos, end = pos + len;
	uint64_t parts[4] = {pos, (pos + bs - 1) / bs * bs, end / bs * bs, end};
	struct wb_stats *st = &inode->i_sb->s_wb->wb_stats;
	size_t done = 0;
	ssize_t n = 0;

	if (parts[1] >= parts[2])
		return write_cached(inode, &it, len, pos, &w->w_cred);
	n = flush_before_write(inode, pos, len);
	if (n < 0)
		return n;
	for (unsigned i = 0; i < 3; i++) {
		size_t part = (size_t)(parts[i + 1] - parts[i]);
		bool direct = i == 1 && may_go_direct(inode, (ext4_lblk_t)(parts[1] / bs),
						      (ext4_lblk_t)(parts[2] / bs));

		if (part == 0)
			continue;
		n = direct ? write_blocks(inode, &it, parts[i], part)
			   : write_cached(inode, &it, part, parts[i], &w->w_cred);
		if (n > 0)
			done += (size_t)n;
		if (n != (ssize_t)part)
			break;
	}
	counter_inc(&st->ws_dio_writes);
	counter_add(&st->ws_dio_bytes, done);
	return done > 0 ? (ssize_t)done : n;
}

/* ---- Overwrite ---- */

static bool all_written(struct inode *inode, ext4_lblk_t lblk, ext4_lblk_t end)
{
	while (lblk < end) {
		struct ext4_map_blocks map = {.m_lblk = lblk, .m_len = end - lblk};

		if (ext4_map_blocks(NULL, inode, &map, 0) <= 0 ||
		    (map.m_flags & EXT4_MAP_MAPPED) == 0)
			return false;
		lblk += map.m_len;
	}
	return true;
}

/* i_rwsem is held for read: blocks, size and mode stay what they are. */
static bool only_overwrites(struct inode *inode, const struct wb_write *w)
{
	const struct ext4_upper_ops *upper = inode->i_sb->s_upper;
	unsigned bits = inode->i_sb->s_blocksize_bits;
	unsigned kill = (w->w_flags & WB_WRITE_KILL_SUIDGID) != 0 ? EXT4_KILL_SUIDGID : 0;
	uint64_t disksize = atomic_load(&inode->i_disksize);

	if (w->w_len == 0 || (w->w_flags & (WB_WRITE_APPEND | WB_WRITE_CACHE)) != 0 ||
	    (inode->i_flags & EXT2_IMMUTABLE_FL) != 0)
		return false;
	if (((w->w_pos | w->w_len) & ((UINT64_C(1) << bits) - 1)) != 0)
		return false;
	if (disksize > i_size_read(inode))
		disksize = i_size_read(inode);
	if (w->w_pos >= disksize || w->w_len > disksize - w->w_pos)
		return false;
	if (upper->file_has_privs != NULL && upper->file_has_privs(inode, kill))
		return false;
	return all_written(inode, (ext4_lblk_t)(w->w_pos >> bits),
			   (ext4_lblk_t)((w->w_pos + w->w_len) >> bits));
}

/* Pages of the range that readers have brought in; none is dirty. */
static void drop_range(struct address_space *as, uint64_t pos, size_t len)
{
	if (as->as_nrpages == 0)
		return;
	down_write(&as->as_invalidate_lock);
	truncate_pages(as, (uint32_t)(pos >> PAGE_SHIFT),
		       (uint32_t)((pos + len - 1) >> PAGE_SHIFT));
	up_write(&as->as_invalidate_lock);
}

static int overwrite_blocks(struct inode *inode, struct wb_write *w)
{
	struct iov_iter it = {.ii_iov = w->w_iov, .ii_cnt = w->w_iovcnt};
	unsigned bits = inode->i_sb->s_blocksize_bits;
	ext4_lblk_t lblk = (ext4_lblk_t)(w->w_pos >> bits);
	ext4_lblk_t end = (ext4_lblk_t)((w->w_pos + w->w_len) >> bits);
	struct dio d;
	int err = 0, ret;

	dio_init(&d, inode, REQ_OP_WRITE);
	while (lblk < end && err == 0) {
		struct ext4_map_blocks map = {.m_lblk = lblk, .m_len = end - lblk};

		err = ext4_map_blocks(NULL, inode, &map, 0);
		if (err <= 0)
			break;
		lblk += map.m_len;
		err = submit_run(&d, &it, map.m_pblk << bits, (size_t)map.m_len << bits);
	}
	ret = dio_wait(&d);
	dio_destroy(&d);
	return err != 0 ? err : ret;
}

/* Readers may fill pages from the device while it is written: they are dropped once more at the end. */
bool direct_overwrite(struct inode *inode, struct wb_write *w, ssize_t *ret)
{
	struct address_space *as = inode->i_mapping;
	struct wb_stats *st = &as->as_wb->wb_stats;
	uint64_t page_mask = PAGE_SIZE - 1;
	int err;

	down_read(&inode->i_rwsem);
	if (!only_overwrites(inode, w)) {
		up_read(&inode->i_rwsem);
		return false;
	}
	file_update_time(inode);
	err = write_and_wait_checked(inode, w->w_pos & ~page_mask,
				     (w->w_pos + w->w_len - 1) | page_mask);
	if (err == 0) {
		drop_range(as, w->w_pos, w->w_len);
		err = overwrite_blocks(inode, w);
		drop_range(as, w->w_pos, w->w_len);
	}
	up_read(&inode->i_rwsem);
	*ret = err != 0 ? err : (ssize_t)w->w_len;
	counter_inc(&st->ws_dio_writes);
	counter_inc(&st->ws_dio_shared);
	if (err == 0)
		counter_add(&st->ws_dio_bytes, w->w_len);
	return true;
}

void notify_invalidate(struct inode *inode, uint64_t pos, uint64_t len)
{
	const struct wb_notify_ops *ops = atomic_load(&inode->i_sb->s_wb->wb_notify);

	if (ops != NULL && ops->invalidate != NULL)
		ops->invalidate(inode, pos, len);
}

/* ---- Read ---- */

static void zero_iter(struct iov_iter *it, size_t len)
{
	static const uint8_t zeros[PAGE_SIZE];

	while (len > 0) {
		size_t n = len < PAGE_SIZE ? len : PAGE_SIZE;

		iov_copy_to(it, zeros, n);
		len -= n;
	}
}

/* Sectors of [pos, pos + len). */
static int read_sectors(struct inode *inode, struct iov_iter *it, uint64_t pos, size_t len)
{
	unsigned bits = inode->i_sb->s_blocksize_bits;
	struct dio d;
	int err = 0, ret;

	dio_init(&d, inode, REQ_OP_READ);
	while (len > 0 && err == 0) {
		uint64_t in_block = pos & ((UINT64_C(1) << bits) - 1);
		struct ext4_map_blocks map = {.m_lblk = (ext4_lblk_t)(pos >> bits)};
		size_t n;

		map.m_len = (uint32_t)(((pos + len - 1) >> bits) - map.m_lblk) + 1;
		err = ext4_map_blocks(NULL, inode, &map, 0);
		if (err < 0)
			break;
		err = 0;
		n = (size_t)(((uint64_t)map.m_len << bits) - in_block);
		n = n < len ? n : len;
		if (map.m_flags & EXT4_MAP_MAPPED)
			err = submit_run(&d, it, (map.m_pblk << bits) + in_block, n);
		else
			zero_iter(it, n);
		pos += n;
		len -= n;
	}
	ret = dio_wait(&d);
	dio_destroy(&d);
	return err != 0 ? err : ret;
}

/* From the cache; len does not cross the end of the file. */
static int read_cached(struct inode *inode, struct iov_iter *it, uint64_t pos, size_t len)
{
	struct wb_read *r = malloc(sizeof(*r));
	int err = 0;

	if (r == NULL)
		return -ENOMEM;
	while (len > 0 && err == 0) {
		err = file_read(inode, pos, len, O_NOATIME, r);
		if (err != 0)
			break;
		if (r->r_bytes == 0)
			err = -EIO;
		for (int i = 0; i < r->r_iovcnt; i++)
			iov_copy_to(it, r->r_iov[i].iov_base, r->r_iov[i].iov_len);
		pos += r->r_bytes;
		len -= r->r_bytes;
		wb_read_done(r);
	}
	free(r);
	return err;
}

static ssize_t read_direct_locked(struct inode *inode, struct iov_iter *it, uint64_t pos,
				  size_t len)
{
	uint64_t unit = inode->i_sb->s_dev->bd_logical_block_bytes, size = i_size_read(inode);
	uint64_t end, head, tail;
	int err;

	if (pos >= size || len == 0)
		return 0;
	end = len < size - pos ? pos + len : size;
	err = write_and_wait_checked(inode, pos, end - 1);
	if (err != 0)
		return err;
	head = (pos + unit - 1) / unit * unit;
	tail = end / unit * unit;
	if (head >= tail) {
		err = read_cached(inode, it, pos, (size_t)(end - pos));
		return err != 0 ? err : (ssize_t)(end - pos);
	}
	if (head > pos)
		err = read_cached(inode, it, pos, (size_t)(head - pos));
	if (err == 0)
		err = read_sectors(inode, it, head, (size_t)(tail - head));
	if (err == 0 && tail < end)
		err = read_cached(inode, it, tail, (size_t)(end - tail));
	return err != 0 ? err : (ssize_t)(end - pos);
}

ssize_t file_read_direct(struct inode *inode, uint64_t pos, const struct iovec *iov, int iovcnt,
			 unsigned o_flags)
{
	struct iov_iter it = {.ii_iov = iov, .ii_cnt = iovcnt};
	size_t len = 0;
	ssize_t ret;

	if (inode->i_mapping == NULL)
		return -EINVAL;
	if (atomic_load(&inode->i_sb->s_shutdown))
		return -EIO;
	for (int i = 0; i < iovcnt; i++)
		len += iov[i].iov_len;
	down_read(&inode->i_rwsem);
	ret = read_direct_locked(inode, &it, pos, len);
	up_read(&inode->i_rwsem);
	if (ret >= 0) {
		counter_inc(&inode->i_sb->s_wb->wb_stats.ws_dio_reads);
		touch_atime(inode, o_flags);
	}
	return ret;
}
