/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fallocate.c - space for later, holes, and zeros. Extent files only.
 *
 * Preallocation maps what is missing as unwritten extents, one handle for each, and lets i_size follow when asked. A hole drops pages and blocks of whole blocks and zeroes the
 * edges in memory; zero range keeps the blocks and turns them unwritten. Delayed data in the range is written first where blocks are to be allocated, so that no
 * reservation is counted twice.
 *
 * Invariants: (1) i_disksize moves only over data that is on the disk (flush_growth). (2) After a block of the range was changed no page shows its old content.
 * (3) as_map_seq changes after the last change of the map. (4) Each handle leaves a consistent file.
 * Locking: i_rwsem for write -> as_invalidate_lock for write (not for plain preallocation) -> handles.
 */
#include <fcntl.h>
#include <linux/falloc.h>
#include <string.h>

#include "ext4/super.h"
#include "writeback/internal.h"

#define CHUNK_BLOCKS 32767u /* the longest unwritten extent */

struct range {
	struct inode *r_inode;
	uint64_t r_start, r_end; /* bytes, exclusive end */
	uint64_t r_new_size;	 /* 0: i_size stays */
};

/* ---- Allocation ---- */

static void grow_size(struct range *r, ext4_lblk_t next)
{
	struct inode *inode = r->r_inode;
	uint64_t end = (uint64_t)next << inode->i_sb->s_blocksize_bits;

	if (end > r->r_new_size)
		end = r->r_new_size;
	down_write(&inode->i_data_sem);
	if (end > i_size_read(inode))
		i_size_write(inode, end);
	if (end > atomic_load(&inode->i_disksize))
		atomic_store(&inode->i_disksize, end);
	up_write(&inode->i_data_sem);
}

/* One run from map->m_lblk on, allocated or converted by flags. */
static int change_run(struct range *r, struct ext4_map_blocks *map, unsigned flags)
{
	struct inode *inode = r->r_inode;
	handle_t *handle = ext4_journal_start(inode, HT_MAP_BLOCKS, ext4_chunk_trans_blocks(inode));
	int err;

	if (IS_ERR(handle))
		return PTR_ERR(handle);
	err = ext4_map_blocks(handle, inode, map, flags);
	if (err > 0 && r->r_new_size > 0)
		grow_size(r, map->m_lblk + map->m_len);
	if (err > 0)
		err = ext4_mark_inode_dirty(handle, inode);
	if (err == 0)
		ext4_update_inode_fsync_trans(handle, inode, true);
	return ext4_journal_stop(handle, err < 0 ? err : 0);
}

/* Every block of [lblk, end) goes through flags, if the look-up says that it is not yet as wanted. */
static int change_blocks(struct range *r, ext4_lblk_t lblk, ext4_lblk_t end, unsigned flags)
{
	bool convert = (flags & EXT4_GET_BLOCKS_CONVERT_UNWRITTEN) != 0;
	unsigned retries = 0;

	while (lblk < end) {
		struct ext4_map_blocks map = {.m_lblk = lblk, .m_len = end - lblk};
		int err = ext4_map_blocks(NULL, r->r_inode, &map, 0);

		if (err < 0)
			return err;
		if (err == 0 || (convert && (map.m_flags & EXT4_MAP_MAPPED) != 0)) {
			map.m_len = end - lblk < CHUNK_BLOCKS ? end - lblk : CHUNK_BLOCKS;
			err = change_run(r, &map, flags);
			if (err == -ENOSPC && ext4_should_retry_alloc(r->r_inode->i_sb, &retries))
				continue;
			if (err < 0)
				return err;
		}
		lblk += map.m_len;
	}
	return 0;
}

static ext4_lblk_t block_down(const struct range *r, uint64_t pos)
{
	return (ext4_lblk_t)(pos >> r->r_inode->i_sb->s_blocksize_bits);
}

static ext4_lblk_t block_up(const struct range *r, uint64_t pos)
{
	return (ext4_lblk_t)((pos + r->r_inode->i_sb->s_blocksize - 1) >>
			     r->r_inode->i_sb->s_blocksize_bits);
}

/* The size that was asked for, exactly, and the times. */
static int finish_range(struct range *r)
{
	struct inode *inode = r->r_inode;
	handle_t *handle = ext4_journal_start(inode, HT_INODE, EXT4_INODE_CREDITS);

	if (IS_ERR(handle))
		return PTR_ERR(handle);
	if (r->r_new_size > 0)
		grow_size(r, block_up(r, r->r_new_size));
	return ext4_journal_stop(handle, ext4_mark_inode_dirty(handle, inode));
}

/* Before i_size may move over the old last block. */
static int prepare_growth(struct range *r)
{
	int err;

	if (r->r_new_size == 0)
		return 0;
	err = zero_eof_tail(r->r_inode);
	return err < 0 ? err : flush_growth(r->r_inode);
}

static int allocate_range(struct range *r)
{
	int err = prepare_growth(r);

	if (err == 0)
		err = write_and_wait_checked(r->r_inode, r->r_start, r->r_end - 1);
	if (err == 0)
		err = change_blocks(r, block_down(r, r->r_start), block_up(r, r->r_end),
				    EXT4_GET_BLOCKS_CREATE | EXT4_GET_BLOCKS_UNWRIT_EXT |
					    EXT4_GET_BLOCKS_NO_NORMALIZE);
	return err != 0 ? err : finish_range(r);
}

/* ---- Pages ---- */

/* Whole blocks [lblk, end): pages that lie inside are dropped, others cleared in part. */
static void drop_block_pages(struct address_space *as, ext4_lblk_t lblk, ext4_lblk_t end)
{
	unsigned bpp = blocks_per_page(as);
	uint32_t first = (lblk + bpp - 1) / bpp, last = end / bpp; /* whole pages, exclusive */

	if (lblk / bpp == (end - 1) / bpp && first >= last) {
		clear_page_blocks(as, lblk / bpp, lblk % bpp, (end - 1) % bpp);
		return;
	}
	if (lblk % bpp != 0)
		clear_page_blocks(as, lblk / bpp, lblk % bpp, bpp - 1);
	if (first < last)
		truncate_pages(as, first, last - 1);
	if (end % bpp != 0)
		clear_page_blocks(as, end / bpp, 0, end % bpp - 1);
}

/* The parts of blocks at both ends of the range. */
static int zero_edges(struct range *r)
{
	uint32_t bs = r->r_inode->i_sb->s_blocksize;
	uint64_t head_end = (r->r_start + bs - 1) / bs * bs, tail_start = r->r_end / bs * bs;
	int err = 0;

	if (head_end > r->r_end)
		return zero_partial_page(r->r_inode, r->r_start, r->r_end);
	if (r->r_start < head_end)
		err = zero_partial_page(r->r_inode, r->r_start, head_end);
	if (err >= 0 && tail_start < r->r_end)
		err = zero_partial_page(r->r_inode, tail_start, r->r_end);
	return err;
}

/* ---- Holes ---- */

static int remove_blocks(struct range *r, ext4_lblk_t first, ext4_lblk_t end)
{
	struct inode *inode = r->r_inode;
	handle_t *handle =
		ext4_journal_start(inode, HT_TRUNCATE, ext4_truncate_trans_blocks(inode));
	int err, ret;

	if (IS_ERR(handle))
		return PTR_ERR(handle);
	err = ext4_remove_space(handle, inode, first, end - 1);
	ret = ext4_journal_ensure_credits(handle, EXT4_INODE_CREDITS, 0);
	if (ret >= 0)
		ret = ext4_mark_inode_dirty(handle, inode);
	if (ret == 0)
		ext4_update_inode_fsync_trans(handle, inode, true);
	return ext4_journal_stop(handle, err < 0 ? err : (ret < 0 ? ret : 0));
}

static int punch_locked(struct range *r)
{
	struct address_space *as = r->r_inode->i_mapping;
	ext4_lblk_t first = block_up(r, r->r_start), end = block_down(r, r->r_end);
	int err = zero_edges(r);

	if (err < 0 || first >= end)
		return err < 0 ? err : 0;
	drop_block_pages(as, first, end);
	err = remove_blocks(r, first, end);
	atomic_fetch_add(&as->as_map_seq, 1);
	return err;
}

static int punch_hole(struct range *r)
{
	struct inode *inode = r->r_inode;
	uint64_t size = i_size_read(inode);
	uint32_t bs = inode->i_sb->s_blocksize;
	int err;

	if (r->r_start >= size)
		return 0;
	/* The last block goes as a whole when its part inside the file does. */
	if (r->r_end >= size)
		r->r_end = (size + bs - 1) / bs * bs;
	err = flush_growth(inode);
	if (err != 0)
		return err;
	down_write(&inode->i_mapping->as_invalidate_lock);
	err = punch_locked(r);
	up_write(&inode->i_mapping->as_invalidate_lock);
	return err != 0 ? err : finish_range(r);
}

/* ---- Zeros ---- */

static int zero_locked(struct range *r)
{
	struct address_space *as = r->r_inode->i_mapping;
	ext4_lblk_t first = block_up(r, r->r_start), end = block_down(r, r->r_end);
	int err;

	if (first < end)
		drop_block_pages(as, first, end);
	err = change_blocks(r, block_down(r, r->r_start), block_up(r, r->r_end),
			    EXT4_GET_BLOCKS_CREATE | EXT4_GET_BLOCKS_UNWRIT_EXT |
				    EXT4_GET_BLOCKS_NO_NORMALIZE);
	if (err == 0 && first < end)
		err = change_blocks(r, first, end,
				    EXT4_GET_BLOCKS_CREATE | EXT4_GET_BLOCKS_UNWRIT_EXT |
					    EXT4_GET_BLOCKS_CONVERT_UNWRITTEN);
	if (err == 0)
		err = zero_edges(r);
	atomic_fetch_add(&as->as_map_seq, 1);
	return err < 0 ? err : 0;
}

static int zero_range(struct range *r)
{
	struct inode *inode = r->r_inode;
	int err = prepare_growth(r);

	if (err == 0)
		err = flush_growth(inode);
	if (err == 0)
		err = write_and_wait_checked(inode, r->r_start, r->r_end - 1);
	if (err != 0)
		return err;
	down_write(&inode->i_mapping->as_invalidate_lock);
	err = zero_locked(r);
	up_write(&inode->i_mapping->as_invalidate_lock);
	return err != 0 ? err : finish_range(r);
}

/* ---- fallocate(2) ---- */

static int check_range(struct inode *inode, int mode, uint64_t offset, uint64_t len)
{
	uint64_t max = ext4_max_size(inode);

	if (mode & ~(FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE | FALLOC_FL_ZERO_RANGE))
		return -EOPNOTSUPP;
	if ((mode & FALLOC_FL_PUNCH_HOLE) && (mode & FALLOC_FL_ZERO_RANGE))
		return -EOPNOTSUPP;
	if ((mode & FALLOC_FL_PUNCH_HOLE) && (mode & FALLOC_FL_KEEP_SIZE) == 0)
		return -EOPNOTSUPP;
	if (inode->i_mapping == NULL)
		return S_ISDIR(inode->i_mode) ? -EISDIR : -ENODEV;
	if (!ext4_is_extents(inode))
		return -EOPNOTSUPP;
	if (len == 0)
		return -EINVAL;
	if (inode->i_flags & EXT2_IMMUTABLE_FL)
		return -EPERM;
	if ((inode->i_flags & EXT2_APPEND_FL) && (mode & ~FALLOC_FL_KEEP_SIZE))
		return -EPERM;
	if (offset > max || len > max - offset)
		return -EFBIG;
	return 0;
}

/* ext4: fs/attr.c setattr_should_drop_suidgid(), as far as the groups of the caller are known. */
static unsigned privs_to_kill(const struct inode *inode, const struct ext4_cred *cred)
{
	if (cred != NULL && cred->cr_privileged)
		return 0;
	return cred != NULL && cred->cr_gid == inode->i_gid ? EXT4_KILL_SUIDGID
							    : EXT4_KILL_SUIDGID | EXT4_KILL_SGID;
}

static int fallocate_locked(struct inode *inode, int mode, struct range *r,
			    const struct ext4_cred *cred)
{
	const struct ext4_upper_ops *upper = inode->i_sb->s_upper;
	bool dropped = false;
	int err = 0;

	if ((mode & (FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE)) == 0 &&
	    r->r_end > i_size_read(inode))
		r->r_new_size = r->r_end;
	if (upper != NULL && upper->file_remove_privs != NULL)
		err = upper->file_remove_privs(inode, privs_to_kill(inode, cred), &dropped);
	if (err != 0)
		return err;
	file_update_time(inode);
	if (mode & FALLOC_FL_PUNCH_HOLE)
		return punch_hole(r);
	if (mode & FALLOC_FL_ZERO_RANGE)
		return zero_range(r);
	return allocate_range(r);
}

int ext4_fallocate(struct inode *inode, int mode, uint64_t offset, uint64_t len,
		   const struct ext4_cred *cred)
{
	struct range r = {.r_inode = inode, .r_start = offset, .r_end = offset + len};
	int err = ext4_check_writable(inode->i_sb);

	if (err == 0)
		err = check_range(inode, mode, offset, len);
	if (err != 0)
		return err;
	down_write(&inode->i_rwsem);
	err = fallocate_locked(inode, mode, &r, cred);
	up_write(&inode->i_rwsem);
	return err;
}
