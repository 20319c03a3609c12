/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * truncate.c - the size of a file, and the end of its data.
 *
 * Down:  handle A: orphan, i_size, i_disksize
 *        the tail of the new last block: zero in memory; if it is on the disk, written and waited for
 *        pages past the end dropped, after their I/O
 *        handle B (restarted as needed): blocks freed; off the orphan list
 * A crash between A and B is finished at the next mount, which does the same from the tail on. So the tail is zero on the disk before anything can make the file longer again.
 * If B fails the inode stays an orphan, and the cut is tried again at the next sync and at the unmount (ext4_orphan_not_done()).
 * As with ordered data in the kernel, the zeros may reach the disk before A commits.
 *
 * Up:    the tail of the old last block, and everything between i_disksize and i_size, is on the disk; then one handle moves i_size and i_disksize.
 *
 * Invariants: (1) no block is freed while a page of it is in the cache or its I/O is in flight. (2) as_map_seq changes after blocks were taken away and before
 * i_rwsem is released. (3) i_disksize is never moved past data that is not on the disk.
 * Locking: i_rwsem for write -> as_invalidate_lock for write -> handles.
 */
#include "ext4/super.h"
#include "writeback/internal.h"

/* ---- Helpers ---- */

int write_and_wait_checked(struct inode *inode, uint64_t start, uint64_t end_inclusive)
{
	uint32_t before = atomic_load(&inode->i_mapping->as_wb_err);
	int err = filemap_write_and_wait_range(inode, start, end_inclusive);

	if (err == 0 && atomic_load(&inode->i_mapping->as_wb_err) != before)
		err = -EIO;
	return err;
}

int flush_growth(struct inode *inode)
{
	uint64_t size = i_size_read(inode), disk = atomic_load(&inode->i_disksize);

	if (size == 0)
		return 0;
	return write_and_wait_checked(inode, disk < size ? disk : size - 1, size - 1);
}

static void set_sizes(struct inode *inode, uint64_t size)
{
	down_write(&inode->i_data_sem);
	i_size_write(inode, size);
	atomic_store(&inode->i_disksize, size);
	up_write(&inode->i_data_sem);
}

static ext4_lblk_t first_block_past(const struct inode *inode, uint64_t size)
{
	unsigned bits = inode->i_sb->s_blocksize_bits;

	return (ext4_lblk_t)((size + (UINT64_C(1) << bits) - 1) >> bits);
}

/* ---- Down ---- */

/* Handle A. */
static int shrink_size(struct inode *inode, uint64_t new_size)
{
	handle_t *handle =
		ext4_journal_start(inode, HT_INODE, EXT4_ORPHAN_CREDITS + EXT4_INODE_CREDITS);
	int err;

	if (IS_ERR(handle))
		return PTR_ERR(handle);
	err = ext4_orphan_add(handle, inode);
	if (err == 0) {
		set_sizes(inode, new_size);
		err = ext4_mark_inode_dirty(handle, inode);
	}
	return ext4_journal_stop(handle, err);
}

/* Blocks could not be freed because their map cannot be read: recorded, as ext4_setattr() and ext4_evict_inode() do. No handle is open. */
static int not_freed(struct inode *inode, int err)
{
	return err == -EIO ? ext4_io_error(inode->i_sb, inode->i_ino, 0, err) : err;
}

/* Handle B: free what lies past the end. */
static int free_blocks(struct inode *inode, ext4_lblk_t first)
{
	handle_t *handle =
		ext4_journal_start(inode, HT_TRUNCATE, ext4_truncate_trans_blocks(inode));
	int err, ret;

	if (IS_ERR(handle)) {
		ext4_orphan_not_done(inode);
		return PTR_ERR(handle);
	}
	err = ext4_remove_space(handle, inode, first, EXT4_MAX_BLOCKS - 1);
	if (inode->i_mapping != NULL)
		atomic_fetch_add(&inode->i_mapping->as_map_seq, 1);
	ret = ext4_journal_ensure_credits(handle, EXT4_ORPHAN_CREDITS + EXT4_INODE_CREDITS, 0);
	if (ret >= 0 && err >= 0 && atomic_load(&inode->i_nlink) > 0)
		ret = ext4_orphan_del(handle, inode);
	if (ret >= 0)
		ret = ext4_mark_inode_dirty(handle, inode);
	err = ext4_journal_stop(handle, err < 0 ? err : (ret < 0 ? ret : 0));
	if (err != 0)
		ext4_orphan_not_done(inode);
	return not_freed(inode, err);
}

/* i_size is settled and the inode an orphan: the tail, the pages, the blocks. */
static int cut_past_end(struct inode *inode)
{
	struct address_space *as = inode->i_mapping;
	uint64_t size = i_size_read(inode);
	uint64_t page_end = (size + PAGE_SIZE - 1) & ~(uint64_t)(PAGE_SIZE - 1);
	ext4_lblk_t first = first_block_past(inode, size);
	int dirtied = zero_partial_page(inode, size, (uint64_t)first << as->as_blkbits);
	int err = dirtied < 0 ? dirtied : 0, ret;

	if (first % blocks_per_page(as) != 0)
		clear_page_blocks(as, first / blocks_per_page(as), first % blocks_per_page(as),
				  blocks_per_page(as) - 1);
	if (page_end >> PAGE_SHIFT <= PAGE_INDEX_MAX)
		truncate_pages(as, (uint32_t)(page_end >> PAGE_SHIFT), PAGE_INDEX_MAX);
	if (dirtied == 1)
		err = write_and_wait_checked(inode, size - 1, size);
	ret = free_blocks(inode, first);
	return err != 0 ? err : ret;
}

/* Nothing was ever allocated, reserved or cached. */
static bool has_no_data(struct inode *inode)
{
	return i_size_read(inode) == 0 && atomic_load(&inode->i_blocks) == 0 &&
	       ext4_inode_reserved_blocks(inode) == 0 && inode->i_mapping->as_nrpages == 0;
}

/*
 * In a file without extents a transaction that is committing, or about to, may promise blocks that are cut off only in the next one: their data
 * goes out first, or after a crash in between they show what others had in them. as_writepages_lock keeps such promises from being made meanwhile.
 */
static int shrink_ordered(struct inode *inode, uint64_t new_size)
{
	struct address_space *as = inode->i_mapping;
	int err = 0;

	if (ext4_is_extents(inode))
		return shrink_size(inode, new_size);
	down_write_nested(&as->as_writepages_lock);
	if (jbd2_journal_inode_ordered(inode->i_sb->s_journal, &inode->i_jinode))
		err = wb_write_ordered_data(inode, new_size, i_size_read(inode));
	if (err == 0)
		err = shrink_size(inode, new_size);
	up_write(&as->as_writepages_lock);
	return err;
}

static int truncate_down(struct inode *inode, uint64_t new_size)
{
	struct address_space *as = inode->i_mapping;
	int err = 0;

	if (has_no_data(inode))
		return 0;
	/* Data between i_disksize and the new end: nothing would move i_disksize over a hole there. */
	if (atomic_load(&inode->i_disksize) < new_size)
		err = write_and_wait_checked(inode, atomic_load(&inode->i_disksize), new_size - 1);
	if (err != 0)
		return err;
	arena_release_reserve(as->as_wb->wb_arena, &as->as_reserve);
	down_write(&as->as_invalidate_lock);
	err = shrink_ordered(inode, new_size);
	if (err == 0)
		err = cut_past_end(inode);
	up_write(&as->as_invalidate_lock);
	return err;
}

/* ---- Up ---- */

static int truncate_up(struct inode *inode, uint64_t new_size)
{
	handle_t *handle;
	int err = zero_eof_tail(inode);

	if (err >= 0)
		err = flush_growth(inode);
	if (err < 0)
		return err;
	handle = ext4_journal_start(inode, HT_INODE, EXT4_INODE_CREDITS);
	if (IS_ERR(handle))
		return PTR_ERR(handle);
	set_sizes(inode, new_size);
	ext4_inode_set_dirty(inode, I_DIRTY_DATASYNC);
	return ext4_journal_stop(handle, ext4_mark_inode_dirty(handle, inode));
}

int ext4_truncate_to_locked(struct inode *inode, uint64_t new_size)
{
	if (inode->i_mapping == NULL)
		return -EINVAL;
	if (new_size > ext4_max_size(inode))
		return -EFBIG;
	file_update_time(inode);
	if (new_size > i_size_read(inode))
		return truncate_up(inode, new_size);
	return truncate_down(inode, new_size);
}

int ext4_truncate_to(struct inode *inode, uint64_t new_size)
{
	int err = ext4_check_writable(inode->i_sb);

	if (err != 0)
		return err;
	down_write(&inode->i_rwsem);
	err = ext4_truncate_to_locked(inode, new_size);
	up_write(&inode->i_rwsem);
	return err;
}

/* ---- Orphans and eviction ---- */

int ext4_orphan_truncate(struct inode *inode)
{
	int err;

	if (inode->i_mapping == NULL)
		return 0;
	down_write(&inode->i_rwsem);
	down_write(&inode->i_mapping->as_invalidate_lock);
	err = cut_past_end(inode);
	up_write(&inode->i_mapping->as_invalidate_lock);
	up_write(&inode->i_rwsem);
	return err;
}

/* Everything goes, at whatever size. The inode stays on the orphan list for the caller. */
static int free_all_blocks(struct inode *inode)
{
	handle_t *handle =
		ext4_journal_start(inode, HT_TRUNCATE, ext4_truncate_trans_blocks(inode));
	int err, ret;

	if (IS_ERR(handle))
		return PTR_ERR(handle);
	if (S_ISREG(inode->i_mode))
		set_sizes(inode, 0);
	err = ext4_mark_inode_dirty(handle, inode);
	if (err == 0)
		err = ext4_remove_space(handle, inode, 0, EXT4_MAX_BLOCKS - 1);
	ret = ext4_journal_ensure_credits(handle, EXT4_INODE_CREDITS, 0);
	if (ret >= 0)
		ret = ext4_mark_inode_dirty(handle, inode);
	err = ext4_journal_stop(handle, err < 0 ? err : (ret < 0 ? ret : 0));
	return not_freed(inode, err);
}

int ext4_evict_data(struct inode *inode)
{
	struct address_space *as = inode->i_mapping;

	wb_inode_detach(inode);
	if (as != NULL) {
		arena_release_reserve(as->as_wb->wb_arena, &as->as_reserve);
		jbd2_journal_settle_jbd_inode(inode->i_sb->s_journal, &inode->i_jinode);
		truncate_pages(as, 0, PAGE_INDEX_MAX);
		(void)ext4_da_release_range(inode, 0, EXT4_MAX_BLOCKS - 1);
		atomic_fetch_and(&inode->i_state, ~I_DIRTY_PAGES);
	}
	if (atomic_load(&inode->i_blocks) == 0 && as != NULL)
		return 0;
	return free_all_blocks(inode);
}
