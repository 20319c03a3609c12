/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fsync.c - durability: of a file, and of the file system.
 *
 * fsync: the file's data is written and its conversions waited for, an inode that is newer in memory goes into a handle, and the transaction that
 * holds the file's metadata is committed. The commit flushes the device; where none is due, data written since the last flush is flushed here. Each completed data request gets a number: a flush covers
 * all numbers given out before it started.
 *
 * sync: sync_passes chooses the passes. async_then_wait: the flusher is woken, all dirty inodes are written with WB_SYNC_NONE, then with WB_SYNC_ALL; a commit is started, and waited for.
 * wait_only leaves out the first pass.
 *
 * Invariants: (1) wb_flushed_seq is at most the number of a request whose data is on stable storage with all before it. (2) Nothing is held while a commit is waited for.
 * Locking: none of its own.
 */
#include "ext4/super.h"
#include "util/time.h"
#include "util/trace.h"
#include "writeback/internal.h"

/* ---- Flush ---- */

static void note_flushed(struct wb_domain *wb, uint64_t seq)
{
	uint64_t old = atomic_load(&wb->wb_flushed_seq);

	while (old < seq && !atomic_compare_exchange_weak(&wb->wb_flushed_seq, &old, seq))
		;
}

/* Requests completed up to `seq` are durable afterwards. */
static int flush_device(struct wb_domain *wb, uint64_t seq)
{
	uint64_t covers;
	int err;

	if (atomic_load(&wb->wb_flushed_seq) >= seq)
		return 0;
	covers = atomic_load(&wb->wb_write_seq);
	counter_inc(&wb->wb_stats.ws_fsync_flushes);
	err = blk_flush(wb->wb_sb->s_dev);
	if (err == 0)
		note_flushed(wb, covers);
	return err;
}

/* ---- One file ---- */

/* Commit what fsync needs, and make data durable. */
static int commit_inode(struct inode *inode, bool datasync)
{
	struct super_block *sb = inode->i_sb;
	struct wb_domain *wb = sb->s_wb;
	journal_t *j = sb->s_journal;
	tid_t tid = atomic_load(datasync ? &inode->i_datasync_tid : &inode->i_sync_tid);
	uint64_t seq =
		inode->i_mapping != NULL ? atomic_load(&inode->i_mapping->as_written_seq) : 0;
	uint64_t covers = atomic_load(&wb->wb_write_seq);
	bool flushes = false;
	int err = 0;

	if (jbd2_transaction_pending(j, tid)) {
		flushes = jbd2_trans_will_send_data_barrier(j, tid);
		err = jbd2_complete_transaction(j, tid);
		if (err == 0 && flushes)
			note_flushed(wb, covers);
	}
	if (err == 0 && jbd2_is_aborted(j))
		err = -EIO;
	return err != 0 ? err : flush_device(wb, seq);
}

int sync_file_range_wait(struct inode *inode, uint64_t start, uint64_t end, bool datasync)
{
	struct super_block *sb = inode->i_sb;
	struct wb_stats *st = &sb->s_wb->wb_stats;
	uint32_t dirty =
		datasync ? I_DIRTY_DATASYNC : I_DIRTY_SYNC | I_DIRTY_DATASYNC | I_DIRTY_TIME;
	uint64_t t0 = stat_ns();
	int err = 0, ret;

	if (atomic_load(&sb->s_shutdown))
		return -EIO;
	if (sb_rdonly(sb))
		return sb->s_journal != NULL && jbd2_is_aborted(sb->s_journal) ? -EROFS : 0;
	counter_inc(&st->ws_fsyncs);
	TRACE(ext4_sync_file_enter, .dev = sb->s_dev->bd_dev, .ino = inode->i_ino,
	      .datasync = datasync);
	if (inode->i_mapping != NULL)
		err = filemap_write_and_wait_range(inode, start, end);
	if (atomic_load(&inode->i_state) & dirty) {
		ret = write_inode(inode);
		err = err != 0 ? err : ret;
	}
	ret = commit_inode(inode, datasync);
	err = err != 0 ? err : ret;
	hist_add(&st->ws_fsync_ns, stat_ns() - t0);
	TRACE(ext4_sync_file_exit, .dev = sb->s_dev->bd_dev, .ino = inode->i_ino, .ret = err);
	return err;
}

int ext4_sync_file(struct inode *inode, bool datasync)
{
	return sync_file_range_wait(inode, 0, UINT64_MAX, datasync);
}

int finish_sync_write(struct inode *inode, uint64_t pos, size_t len, unsigned w_flags)
{
	uint32_t before = atomic_load(&inode->i_mapping->as_wb_err);
	int err = sync_file_range_wait(inode, pos, pos + len - 1, (w_flags & WB_WRITE_SYNC) == 0);

	/* Before what may have followed from it. */
	if (atomic_load(&inode->i_mapping->as_wb_err) != before)
		err = -EIO;
	return err;
}

/* ---- The file system ---- */

static void sync_pass(struct wb_domain *wb, enum writeback_sync_modes mode)
{
	struct wb_work work = {
		.wk_nr_pages = WB_PENDING_MAX,
		.wk_sync_mode = mode,
		.wk_for_sync =
			mode == WB_SYNC_ALL && wb_tun(wb, TUN_SYNC_INODE_COMMIT) == COMMIT_END,
		.wk_tagged = true,
		.wk_reason = WB_REASON_SYNC,
		.wk_start_ns = now_ns(),
	};
	uint64_t t0 = stat_ns();

	wb_do_work(wb, &work);
	counter_add(&wb->wb_stats.ws_sync_pages[mode == WB_SYNC_ALL],
		    (uint64_t)(WB_PENDING_MAX - work.wk_nr_pages));
	counter_add(&wb->wb_stats.ws_sync_ns[mode == WB_SYNC_ALL], stat_ns() - t0);
}

/*
 * The last look at an inode: what was in a writer's hands and on no list while the passes ran, what was submitted before but is not finished, and lazy times.
 */
static int finish_inode(struct inode *inode, void *arg)
{
	struct address_space *as = inode->i_mapping;
	struct wb_domain *wb = arg;

	if (as != NULL)
		(void)filemap_fdatawrite_range(as, 0, UINT64_MAX, WB_SYNC_ALL);
	if (atomic_load(&inode->i_state) & (I_DIRTY_SYNC | I_DIRTY_DATASYNC | I_DIRTY_TIME))
		(void)write_inode(inode);
	if (as == NULL)
		return 0;
	if (atomic_load(&as->as_nr_writeback) > 0)
		counter_inc(&wb->wb_stats.ws_sync_waits[WB_SYNC_ALL]);
	filemap_fdatawait_range(as, 0, UINT64_MAX);
	return 0;
}

/* The workers have dropped their references of inodes whose I/O is over. */
static void drain_completions(struct wb_domain *wb)
{
	if (wb->wb_manual)
		wb_run_completions(wb->wb_sb);
	else
		workqueue_drain(wb->wb_wq);
}

/* As many pages as are dirty: inodes without dirty pages are not its business, which is why they meet the second pass with wait_only. */
static void wakeup_flusher(struct wb_domain *wb)
{
	int64_t nr = atomic_load(&wb->wb_nr_dirty);

	wb_start_writeback(wb, nr > 0 ? (long)nr : 0, WB_REASON_SYNC);
}

int wb_sync_fs(struct super_block *sb, bool wait)
{
	struct wb_domain *wb = sb->s_wb;
	uint64_t seq;
	int err = 0;

	if (wb == NULL)
		return 0;
	if (sb_rdonly(sb)) {
		if (wait)
			drain_completions(wb);
		return atomic_load(&sb->s_aborted) ? -EROFS : 0;
	}
	counter_inc(&wb->wb_stats.ws_sync_calls);
	TRACE(ext4_sync_fs, .dev = sb->s_dev->bd_dev, .wait = wait);
	if (wait)
		ext4_retry_orphans(sb);
	wakeup_flusher(wb);
	if (!wait || wb_tun(wb, TUN_SYNC_PASSES) == SYNC_ASYNC_THEN_WAIT)
		sync_pass(wb, WB_SYNC_NONE);
	if (wait) {
		sync_pass(wb, WB_SYNC_ALL);
		(void)ext4_icache_for_each(sb, finish_inode, wb);
		drain_completions(wb);
	}
	(void)jbd2_log_start_commit(sb->s_journal, jbd2_newest_tid(sb->s_journal));
	if (!wait)
		return 0;
	seq = atomic_load(&wb->wb_write_seq);
	err = jbd2_journal_force_commit(sb->s_journal);
	if (err == 0)
		jbd2_journal_clean_when_quiet(sb->s_journal);
	return err != 0 ? err : flush_device(wb, seq);
}

/* ---- Delayed blocks ---- */

bool wb_inode_dirty(struct inode *inode)
{
	struct address_space *as = inode->i_mapping;

	return as != NULL &&
	       (atomic_load(&as->as_nr_dirty) > 0 || ext4_inode_reserved_blocks(inode) > 0);
}

int ext4_alloc_da_blocks(struct inode *inode, bool wait)
{
	struct address_space *as = inode->i_mapping;
	int err;

	if (as == NULL)
		return 0;
	TRACE(ext4_alloc_da_blocks, .dev = wb_dev(as), .ino = inode->i_ino,
	      .reserved_data_blocks = ext4_inode_reserved_blocks(inode));
	err = filemap_fdatawrite_range(as, 0, UINT64_MAX, wait ? WB_SYNC_ALL : WB_SYNC_NONE);
	if (wait)
		filemap_fdatawait_range(as, 0, UINT64_MAX);
	return err;
}

void ext4_release_file(struct inode *inode, bool was_writable)
{
	struct address_space *as = inode->i_mapping;

	if (as == NULL || !was_writable || sb_rdonly(inode->i_sb))
		return;
	if (atomic_fetch_and(&inode->i_state, ~I_DA_ALLOC_CLOSE) & I_DA_ALLOC_CLOSE)
		(void)ext4_alloc_da_blocks(inode, false);
	arena_release_reserve(as->as_wb->wb_arena, &as->as_reserve);
	if (ext4_inode_reserved_blocks(inode) == 0)
		ext4_discard_preallocations(inode);
}
