/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * test_data_err.c - data_err=ignore and abort: what a write of data that fails does to the file system.
 *
 * Each case is one file, with and without extents, whose data is new or overwrites what is there; one request of it fails. It is sent by fsync, by the
 * flusher or by a commit.
 *
 * Invariants: (1) ignore: told once, nothing else is different. (2) abort: whoever waited for the data finds the journal aborted; the superblock says EIO.
 * (3) No case hangs, and e2fsck repairs all.
 * Locking: one thread, and those of the mount where a case wants them.
 */
#include "ext4/ext4_int.h"
#include "tests/unit/writeback/wb_fixture.h"
#include "util/log.h"

static const char *const formats[] = {"-t ext4 -b 4096", "-t ext4 -b 4096 -O ^extent,^64bit"};

struct plan {
	const char *p_format;
	bool p_abort;
	bool p_overwrite; /* of blocks that are mapped and written */
	bool p_threads;
};

static void quiet(enum log_level level, const char *line, void *arg)
{
	(void)level;
	(void)line;
	(void)arg;
}

/* f0 has eight dirty pages; the next write that the device sees fails. */
static struct inode *dirty_file(struct wf *f, const struct plan *p)
{
	const struct fault_rule rule = {.fr_kind = FAULT_ERROR, .fr_ops = FAULT_OP(REQ_OP_WRITE)};
	struct inode *inode;

	log_set_sink(quiet, NULL);
	wf_make(f, p->p_format, 32 * MIB, 2);
	f->threads = p->p_threads;
	f->want_faults = true;
	f->opts.o_data_err_abort = p->p_abort;
	/* Nothing but the data is written. */
	f->opts.o_commit_ms = 3600000;
	wf_mount(f);
	inode = wf_file(f, 0);
	if (p->p_overwrite) {
		wf_fill(inode, 1, 0, 8 * PAGE, PAGE);
		wf_sync(f);
	}
	wf_fill(inode, 2, 0, 8 * PAGE, PAGE);
	ck_assert_int_ge(fault_arm(f->faults, &rule), 0);
	return inode;
}

static void check_aborted(struct wf *f)
{
	struct inode *other = wf_file(f, 1);
	struct ext2_super_block es;
	uint8_t byte = 1;

	ck_assert(jbd2_is_aborted(f->sb->s_journal));
	ck_assert(sb_rdonly(f->sb));
	ck_assert_int_eq(wf_write(other, &byte, 1, 0), -EROFS);
	ck_assert_int_eq(ext4_truncate_to(other, 100), -EROFS);
	ext4_error_view(f->sb, &es);
	ck_assert_uint_eq(es.s_last_error_errcode, EXT4_ERR_EIO);
	ck_assert_uint_eq(es.s_first_error_errcode, EXT4_ERR_EIO);
	iput(other);
}

static void check_goes_on(struct wf *f)
{
	struct inode *other = wf_file(f, 1);
	struct ext2_super_block es;

	ck_assert(!jbd2_is_aborted(f->sb->s_journal));
	ck_assert(!sb_rdonly(f->sb));
	wf_fill(other, 3, 0, PAGE, PAGE);
	ck_assert_int_eq(ext4_sync_file(other, false), 0);
	ext4_error_view(f->sb, &es);
	ck_assert_uint_eq(le32_to_cpu(es.s_error_count), 0);
	iput(other);
}

static void close_aborted(struct wf *f, struct inode *inode)
{
	iput(inode);
	wf_umount_broken(f);
	ck_assert_int_le(testlib_fsck_args(f->image, "-fy"), 1);
	wf_close(f);
}

static void told_once(struct inode *inode, uint32_t *since)
{
	ck_assert_int_eq(wb_err_check_and_advance(inode, since), -EIO);
	ck_assert_int_eq(wb_err_check_and_advance(inode, since), 0);
}

static void fsync_fails(const struct plan *p)
{
	struct wf f;
	struct inode *inode = dirty_file(&f, p);
	uint32_t since = wb_err_sample(inode);

	(void)ext4_sync_file(inode, false);
	told_once(inode, &since);
	if (p->p_abort) {
		check_aborted(&f);
		close_aborted(&f, inode);
		return;
	}
	check_goes_on(&f);
	ck_assert_int_eq(ext4_sync_file(inode, false), 0);
	iput(inode);
	wf_close(&f);
}

START_TEST(lost_data_is_told_once_to_each_who_syncs_the_file_system)
{
	const struct plan p = {.p_format = formats[0]};
	struct wf f;
	struct inode *inode = dirty_file(&f, &p);
	_Atomic uint32_t told = 0, other = 0;
	uint32_t since = wb_err_sample(inode);

	ck_assert_int_eq(wb_syncfs(f.sb, &told), -EIO);
	ck_assert_int_eq(wb_syncfs(f.sb, &told), 0);
	ck_assert_int_eq(wb_syncfs(f.sb, &other), -EIO);
	ck_assert_int_eq(wb_syncfs(f.sb, &other), 0);
	told_once(inode, &since);
	iput(inode);
	wf_close(&f);
}
END_TEST

static void all_formats(bool data_err_abort)
{
	for (unsigned i = 0; i < 8; i++)
		fsync_fails(&(const struct plan){.p_format = formats[i & 1],
						 .p_abort = data_err_abort,
						 .p_overwrite = (i & 2) != 0,
						 .p_threads = (i & 4) != 0});
}

START_TEST(by_default_only_fsync_tells)
{
	all_formats(false);
}
END_TEST

START_TEST(abort_is_done_when_fsync_returns)
{
	all_formats(true);
}
END_TEST

START_TEST(abort_comes_from_the_flusher_too)
{
	for (unsigned i = 0; i < 4; i++) {
		struct wf f;
		struct inode *inode =
			dirty_file(&f, &(const struct plan){.p_format = formats[i & 1],
							    .p_abort = true,
							    .p_overwrite = (i & 2) != 0});

		ck_assert_int_eq(filemap_fdatawrite(inode), 0);
		wb_run_completions(f.sb);
		check_aborted(&f);
		close_aborted(&f, inode);
	}
}
END_TEST

START_TEST(a_write_with_O_SYNC_tells_of_its_data)
{
	struct wf f;
	struct inode *inode =
		dirty_file(&f, &(const struct plan){.p_format = formats[0], .p_abort = true});
	uint8_t byte = 1;

	ck_assert_int_eq(wf_write_flags(inode, &byte, 1, 100, WB_WRITE_SYNC), -EIO);
	check_aborted(&f);
	close_aborted(&f, inode);
}
END_TEST

/* Without extents the commit that makes new blocks part of the file waits for their data: it must not get its commit block. */
START_TEST(a_commit_whose_ordered_data_fails_is_none)
{
	struct plan p = {.p_format = formats[1], .p_abort = true};
	struct wf f;
	struct inode *inode = dirty_file(&f, &p);
	struct ext2_inode_large *raw;

	/* The error comes before the commit asks. */
	ck_assert_int_eq(filemap_fdatawrite(inode), 0);
	ck_assert_int_lt(jbd2_journal_force_commit(f.sb->s_journal), 0);
	check_aborted(&f);
	iput(inode);
	wf_umount_broken(&f);
	ck_assert_int_le(testlib_fsck_args(f.image, "-fy"), 1);
	f.opts.o_data_err_abort = false;
	f.want_faults = false;
	wf_mount(&f);
	raw = malloc(f.sb->s_inode_size);
	ck_assert_int_eq(ext4_read_raw_inode(f.sb, WF_FIRST_INO, raw), 0);
	ck_assert_uint_eq(raw->i_size, 0);
	ck_assert_uint_eq(raw->i_blocks, 0);
	free(raw);
	wf_close(&f);
}
END_TEST

/* The commit itself sends it. */
START_TEST(a_commit_that_must_write_the_data_is_none)
{
	struct wf f;
	struct inode *inode;
	const struct fault_rule rule = {.fr_kind = FAULT_ERROR, .fr_ops = FAULT_OP(REQ_OP_WRITE)};

	log_set_sink(quiet, NULL);
	wf_make(&f, formats[1], 32 * MIB, 2);
	f.want_faults = true;
	f.opts.o_delalloc = false;
	f.opts.o_data_err_abort = true;
	wf_mount(&f);
	inode = wf_file(&f, 0);
	wf_fill(inode, 1, 0, 8 * PAGE, PAGE);
	ck_assert_int_ge(fault_arm(f.faults, &rule), 0);
	ck_assert_int_lt(jbd2_journal_force_commit(f.sb->s_journal), 0);
	check_aborted(&f);
	close_aborted(&f, inode);
}
END_TEST

START_TEST(without_a_journal_abort_is_refused)
{
	struct wf f;
	struct blkdev *dev;

	log_set_sink(quiet, NULL);
	wf_make(&f, "-t ext4 -b 4096 -O ^has_journal", 32 * MIB, 0);
	f.opts.o_data_err_abort = true;
	f.opts.o_manual_commit = true;
	dev = mem_open(f.image->bd_size_bytes, 512, mem_data(f.image));
	ck_assert_int_eq(ext4_fill_super(dev, &f.opts, &wf_upper, &f.sb), -EINVAL);
	blk_close(dev);
	f.sb = NULL;
	wf_close(&f);
}
END_TEST

int main(void)
{
	return RUN_TESTS(
		"writeback/data_err", lost_data_is_told_once_to_each_who_syncs_the_file_system,
		by_default_only_fsync_tells, abort_is_done_when_fsync_returns,
		abort_comes_from_the_flusher_too, a_write_with_O_SYNC_tells_of_its_data,
		a_commit_whose_ordered_data_fails_is_none,
		a_commit_that_must_write_the_data_is_none, without_a_journal_abort_is_refused);
}
