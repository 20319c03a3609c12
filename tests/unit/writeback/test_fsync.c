/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "tests/unit/writeback/wb_fixture.h"

/* What a power cut now would leave: the durable content, mounted again. */
static void cut_and_mount(struct wf *f)
{
	struct blkdev *after;

	fault_power_cut(f->faults);
	after = mem_open(f->image->bd_size_bytes, 512, NULL);
	memcpy(mem_data(after), mem_data(f->image), (size_t)f->image->bd_size_bytes);
	wf_umount_broken(f);
	blk_close(f->image);
	f->image = after;
	f->want_faults = false;
	wf_mount(f);
}

static void open_cached(struct wf *f, const char *mkfs)
{
	wf_make(f, mkfs, 32 * MIB, 2);
	f->want_cache = true;
	f->want_faults = true;
	wf_mount(f);
}

static void sync_by(struct wf *f, struct inode *inode, unsigned how)
{
	switch (how) {
	case 0:
		ck_assert_int_eq(ext4_sync_file(inode, false), 0);
		break;
	case 1:
		ck_assert_int_eq(ext4_sync_file(inode, true), 0);
		break;
	default:
		wf_sync(f);
		break;
	}
}

/* Data, size and blocks survive, whichever call promised it. */
static void durable_after(const char *mkfs, unsigned how)
{
	struct wf f;
	struct inode *inode;

	open_cached(&f, mkfs);
	inode = wf_file(&f, 0);
	wf_fill(inode, 1, 0, 100000, 5000);
	sync_by(&f, inode, how);
	/* Overwritten in place: no metadata but times. */
	wf_fill(inode, 2, 20000, 30000, 5000);
	sync_by(&f, inode, how);
	wf_fill(inode, 3, 100000, 50, 50);
	sync_by(&f, inode, how);
	wf_fill(inode, 4, 300000, 5000, 5000);
	iput(inode);
	cut_and_mount(&f);
	inode = wf_file(&f, 0);
	ck_assert_uint_ge(i_size_read(inode), 100050);
	wf_check(inode, 1, 0, 20000);
	wf_check(inode, 2, 20000, 30000);
	wf_check(inode, 1, 50000, 50000);
	wf_check(inode, 3, 100000, 50);
	iput(inode);
	wf_close(&f);
}

START_TEST(what_was_synced_survives_a_power_cut)
{
	for (unsigned how = 0; how < 3; how++) {
		durable_after("-t ext4 -b 4096", how);
		durable_after("-t ext4 -b 1024", how);
		durable_after("-t ext4 -b 4096 -O ^extent,^64bit", how);
	}
}
END_TEST

static void durable_write(unsigned flags)
{
	struct wf f;
	struct inode *inode;
	uint8_t buf[10000];

	open_cached(&f, "-t ext4 -b 4096");
	inode = wf_file(&f, 0);
	for (unsigned i = 0; i < 5; i++) {
		pattern_fill(buf, sizeof(buf), 1, i * sizeof(buf));
		ck_assert_int_eq(wf_write_flags(inode, buf, sizeof(buf), i * sizeof(buf), flags),
				 sizeof(buf));
	}
	iput(inode);
	cut_and_mount(&f);
	inode = wf_file(&f, 0);
	ck_assert_uint_eq(i_size_read(inode), 50000);
	wf_check(inode, 1, 0, 50000);
	iput(inode);
	wf_close(&f);
}

START_TEST(each_synchronous_write_survives_a_power_cut)
{
	durable_write(WB_WRITE_DSYNC);
	durable_write(WB_WRITE_SYNC);
	durable_write(WB_WRITE_DSYNC | WB_WRITE_DIRECT);
}
END_TEST

START_TEST(fsync_flushes_once_and_not_for_nothing)
{
	struct wf f;
	struct inode *inode;
	uint64_t flushes;

	wf_open(&f, "-t ext4 -b 4096", 32 * MIB, 1);
	inode = wf_file(&f, 0);
	wf_fill(inode, 1, 0, 8 * PAGE, PAGE);
	ck_assert_int_eq(ext4_sync_file(inode, false), 0);
	flushes = wf_requests(&f, REQ_OP_FLUSH);
	/* Nothing was written since. */
	ck_assert_int_eq(ext4_sync_file(inode, false), 0);
	ck_assert_uint_eq(wf_requests(&f, REQ_OP_FLUSH), flushes);
	/* Overwrite and fdatasync: no commit, one flush. */
	wf_fill(inode, 2, 0, 8 * PAGE, PAGE);
	ck_assert_int_eq(ext4_sync_file(inode, true), 0);
	ck_assert_uint_eq(wf_requests(&f, REQ_OP_FLUSH), flushes + 1);
	iput(inode);
	wf_close(&f);
}
END_TEST

START_TEST(fdatasync_leaves_times_alone_and_fsync_does_not)
{
	struct wf f;
	struct inode *inode;
	uint64_t commits;

	wf_open(&f, "-t ext4 -b 4096", 32 * MIB, 1);
	inode = wf_file(&f, 0);
	wf_fill(inode, 1, 0, PAGE, PAGE);
	ck_assert_int_eq(ext4_sync_file(inode, false), 0);
	commits = counter_read(&jbd2_stats(f.sb->s_journal)->js_commits);
	inode->i_mtime.tv_sec = 77;
	wf_fill(inode, 2, 0, PAGE, PAGE);
	ck_assert_int_eq(ext4_sync_file(inode, true), 0);
	ck_assert_uint_eq(counter_read(&jbd2_stats(f.sb->s_journal)->js_commits), commits);
	ck_assert_int_eq(ext4_sync_file(inode, false), 0);
	ck_assert_uint_eq(counter_read(&jbd2_stats(f.sb->s_journal)->js_commits), commits + 1);
	iput(inode);
	wf_close(&f);
}
END_TEST

START_TEST(fsync_of_a_directory_commits)
{
	struct wf f;
	struct inode *root;
	handle_t *handle;
	tid_t tid;

	wf_open(&f, "-t ext4 -b 4096", 32 * MIB, 1);
	root = ext4_iget(f.sb, EXT4_ROOT_INO, EXT4_IGET_SPECIAL);
	handle = ext4_journal_start(root, HT_DIR, 10);
	root->i_mtime.tv_sec++;
	ck_assert_int_eq(ext4_mark_inode_dirty(handle, root), 0);
	tid = jbd2_handle_tid(handle);
	ck_assert_int_eq(ext4_journal_stop(handle, 0), 0);
	ck_assert(jbd2_transaction_pending(f.sb->s_journal, tid));
	ck_assert_int_eq(ext4_sync_file(root, false), 0);
	ck_assert(!jbd2_transaction_pending(f.sb->s_journal, tid));
	iput(root);
	wf_close(&f);
}
END_TEST

START_TEST(delayed_blocks_are_allocated_when_asked)
{
	struct wf f;
	struct inode *inode;

	wf_open(&f, "-t ext4 -b 4096", 32 * MIB, 1);
	inode = wf_file(&f, 0);
	wf_fill(inode, 1, 0, 16 * PAGE, PAGE);
	ck_assert(wb_inode_dirty(inode));
	ck_assert_uint_eq(ext4_sb_dirty_blocks(f.sb), 16);
	ck_assert_int_eq(ext4_alloc_da_blocks(inode, true), 0);
	ck_assert(!wb_inode_dirty(inode));
	wf_assert_nothing_reserved(&f);
	ck_assert_uint_eq(atomic_load(&inode->i_disksize), 16 * PAGE);
	/* And by the last close after O_TRUNC, but not otherwise. */
	wf_fill(inode, 1, 16 * PAGE, 16 * PAGE, PAGE);
	ext4_release_file(inode, true);
	ck_assert_uint_eq(ext4_sb_dirty_blocks(f.sb), 16);
	atomic_fetch_or(&inode->i_state, I_DA_ALLOC_CLOSE);
	ext4_release_file(inode, true);
	wf_assert_nothing_reserved(&f);
	iput(inode);
	wf_close(&f);
}
END_TEST

/* ---- sync ---- */

static void count_sync(bool threads, const char *passes, const char *commit, uint64_t *commits,
		       uint64_t *none, uint64_t *all)
{
	struct wf f;
	struct wb_stats *st;
	struct inode *inode[8];

	wf_make(&f, "-t ext4 -b 4096", 32 * MIB, 8);
	f.threads = threads;
	wf_mount(&f);
	st = &f.wb->wb_stats;
	wf_tune(&f, "sync_passes", passes);
	wf_tune(&f, "sync_inode_commit", commit);
	for (unsigned i = 0; i < 8; i++) {
		inode[i] = wf_file(&f, i);
		/* Only the atime was changed, as in a tree that was read. */
		inode[i]->i_atime.tv_sec++;
		ext4_inode_set_dirty(inode[i], I_DIRTY_SYNC);
	}
	wf_sync(&f);
	*commits = counter_read(&st->ws_sync_inode_commits);
	*none = counter_read(&st->ws_sync_inodes[0]);
	*all = counter_read(&st->ws_sync_inodes[1]);
	for (unsigned i = 0; i < 8; i++) {
		ck_assert_uint_eq(atomic_load(&inode[i]->i_state) & I_DIRTY_SYNC, 0);
		iput(inode[i]);
	}
	wf_close(&f);
}

static void count_all_syncs(bool threads)
{
	uint64_t commits, none, all;

	count_sync(threads, "async_then_wait", "each", &commits, &none, &all);
	ck_assert_uint_eq(none, 8);
	ck_assert_uint_eq(all, 0);
	ck_assert_uint_eq(commits, 0);
	count_sync(threads, "wait_only", "each", &commits, &none, &all);
	ck_assert_uint_eq(none, 0);
	ck_assert_uint_eq(all, 8);
	ck_assert_uint_eq(commits, 8);
	count_sync(threads, "wait_only", "end", &commits, &none, &all);
	ck_assert_uint_eq(all, 8);
	ck_assert_uint_eq(commits, 0);
}

START_TEST(sync_with_two_passes_leaves_the_second_nothing_to_commit)
{
	count_all_syncs(false);
}
END_TEST

/* The flusher that sync wakes is asked for as many pages as are dirty, and there are none. */
START_TEST(woken_flusher_does_not_stand_in_for_the_missing_pass)
{
	count_all_syncs(true);
}
END_TEST

/* ---- What is dirtied during the first pass ---- */

/* Writes to `late` when told so, for somebody who waits for it. */
struct late_writer {
	struct inode *lw_late;
	_Atomic int lw_armed; /* the next data write of the first pass tells */
	_Atomic int lw_go, lw_done;
};

static void *late_writer(void *arg)
{
	struct late_writer *lw = arg;

	while (!atomic_load(&lw->lw_go))
		usleep(100);
	wf_fill(lw->lw_late, 9, 0, 3 * PAGE, PAGE);
	atomic_store(&lw->lw_done, 1);
	return NULL;
}

static int tell_late_writer(void *arg, struct blkdev *bd, const struct bio *bio)
{
	struct late_writer *lw = arg;

	(void)bd;
	if (bio->bi_op != REQ_OP_WRITE || (bio->bi_flags & (REQ_META | REQ_JOURNAL)) != 0 ||
	    atomic_exchange(&lw->lw_armed, 0) == 0)
		return 0;
	atomic_store(&lw->lw_go, 1);
	while (!atomic_load(&lw->lw_done))
		usleep(100);
	return 0;
}

START_TEST(second_pass_writes_what_was_dirtied_during_the_first)
{
	struct late_writer lw = {.lw_late = NULL};
	struct inode *inode;
	struct wf f;
	pthread_t t;

	wf_make(&f, "-t ext4 -b 4096", 32 * MIB, 2);
	f.wrap = tell_late_writer;
	f.wrap_arg = &lw;
	wf_mount(&f);
	inode = wf_file(&f, 0);
	lw.lw_late = wf_file(&f, 1);
	wf_fill(inode, 1, 0, 5 * PAGE, PAGE);
	pthread_create(&t, NULL, late_writer, &lw);
	atomic_store(&lw.lw_armed, 1);
	wf_sync(&f);
	pthread_join(t, NULL);
	ck_assert_uint_eq(counter_read(&f.wb->wb_stats.ws_sync_pages[1]), 3);
	wf_assert_nothing_reserved(&f);
	iput(lw.lw_late);
	iput(inode);
	wf_close(&f);
}
END_TEST

int main(void)
{
	return RUN_TESTS("writeback/fsync", what_was_synced_survives_a_power_cut,
			 each_synchronous_write_survives_a_power_cut,
			 fsync_flushes_once_and_not_for_nothing,
			 fdatasync_leaves_times_alone_and_fsync_does_not,
			 fsync_of_a_directory_commits, delayed_blocks_are_allocated_when_asked,
			 sync_with_two_passes_leaves_the_second_nothing_to_commit,
			 woken_flusher_does_not_stand_in_for_the_missing_pass,
			 second_pass_writes_what_was_dirtied_during_the_first);
}
