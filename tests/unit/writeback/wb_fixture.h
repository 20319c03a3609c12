/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef TESTS_UNIT_WRITEBACK_FIXTURE_H
#define TESTS_UNIT_WRITEBACK_FIXTURE_H
/*
 * A real file system in memory, mounted by ext4/, alloc/ and writeback/ alone. Files named f0, f1, ... are made by
 * debugfs, so that e2fsck can judge them. The image outlives mounts; each mount goes over a view of it, on which
 * a test may stack filters.
 */

#include <check.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "block/filter_fault.h"
#include "block/filter_log.h"
#include "ext4/super.h"
#include "tests/lib/pattern.h"
#include "tests/lib/prng.h"
#include "tests/lib/probe.h"
#include "tests/lib/slowdev.h"
#include "tests/lib/suite.h"
#include "tests/lib/testlib.h"
#include "util/time.h"
#include "writeback/internal.h"

#define WF_FIRST_INO 12u /* of f0 */
#define MIB (UINT64_C(1) << 20)
#define PAGE ((size_t)PAGE_SIZE)

struct wf {
	struct blkdev *image; /* owns the memory */
	struct blkdev *dev;   /* what is mounted */
	struct super_block *sb;
	struct wb_domain *wb;
	bool threads;
	bool want_slow;	  /* a slowdev on top: wf->dev */
	bool want_faults; /* a fault filter below that: wf->faults */
	bool want_cache;  /* ... with a volatile cache */
	struct blkdev *faults;
	bool want_log; /* a log in memory below those: wf->log */
	struct blkdev *log;
	const char *filters; /* -o blk= */
	/* What a test puts between image and filters. */
	struct blkdev *(*stack)(struct blkdev *bd);
	/* Sees each request, on top of all (tests/lib/probe.h). */
	int (*wrap)(void *arg, struct blkdev *bd, const struct bio *bio);
	void *wrap_arg;
	struct ext4_options opts;
};

static const struct ext4_cred wf_root = {0, 0, true};

/* Inodes made by a test are freed as a whole; those made by debugfs keep their names, and their numbers. */
static bool wf_run_evict_frees_inode;

static inline void wf_evict(struct inode *inode)
{
	ck_assert_int_eq(ext4_evict_data(inode), 0);
	if (wf_run_evict_frees_inode) {
		handle_t *handle = ext4_journal_start(inode, HT_TRUNCATE, 40);

		ck_assert_int_eq(ext4_orphan_del(handle, inode), 0);
		inode->i_dtime = (uint32_t)now_real().tv_sec;
		ck_assert_int_eq(ext4_mark_inode_dirty(handle, inode), 0);
		ck_assert_int_eq(ext4_free_inode(handle, inode), 0);
		ck_assert_int_eq(ext4_journal_stop(handle, 0), 0);
	} else {
		(void)ext4_orphan_del(NULL, inode);
	}
	ext4_inode_unhash(inode);
}

static inline void wf_reclaim(struct super_block *sb)
{
	ext4_discard_all_preallocations(sb);
	(void)jbd2_journal_force_commit(sb->s_journal);
}

static const struct ext4_upper_ops wf_upper = {
	.alloc_inode_init = ext4_alloc_inode_init,
	.alloc_inode_destroy = ext4_alloc_inode_destroy,
	.mapping_init = wb_mapping_init,
	.mapping_destroy = wb_mapping_destroy,
	.evict_inode = wf_evict,
	.orphan_truncate = ext4_orphan_truncate,
	.write_ordered_data = wb_write_ordered_data,
	.reclaim_space = wf_reclaim,
};

static inline void wf_mount(struct wf *f)
{
	struct blkdev *dev = mem_open(f->image->bd_size_bytes, 512, mem_data(f->image));

	ck_assert(!IS_ERR(dev));
	if (f->stack != NULL)
		dev = f->stack(dev);
	if (f->filters != NULL)
		dev = blk_stack_filters(dev, f->filters);
	if (f->want_log) {
		dev = log_open_memory(dev);
		f->log = dev;
	}
	if (f->want_faults) {
		dev = fault_open(dev, &(const struct fault_options){.fo_seed = 1,
								    .fo_cache = f->want_cache});
		f->faults = dev;
	}
	if (f->want_slow) {
		dev = slowdev_open(dev);
		/* What is held is the test's: no commit comes because five seconds are over. */
		f->opts.o_commit_ms = 3600000;
	}
	if (f->wrap != NULL)
		dev = probe_open(dev, f->wrap, f->wrap_arg);
	ck_assert(!IS_ERR(dev));
	f->dev = dev;
	f->opts.o_manual_commit = !f->threads;
	ck_assert_int_eq(ext4_fill_super(dev, &f->opts, &wf_upper, &f->sb), 0);
	ck_assert_int_eq(ext4_alloc_init(f->sb), 0);
	ck_assert_int_eq(wb_init(f->sb), 0);
	f->wb = f->sb->s_wb;
	ck_assert_int_eq(ext4_orphan_cleanup(f->sb), 0);
}

/* No mount yet: opts may be changed. */
static inline void wf_make(struct wf *f, const char *mke2fs_args, uint64_t size_bytes,
			   unsigned files)
{
	char *commands = calloc(1, files * 32 + 1);
	size_t used = 0;

	memset(f, 0, sizeof(*f));
	ext4_options_init(&f->opts);
	f->opts.o_cache_bytes = 16 * MIB;
	for (unsigned i = 0; i < files; i++)
		used += (size_t)snprintf(commands + used, 32, "write /dev/null f%u\n", i);
	f->image = testlib_mkfs_debugfs(mke2fs_args, size_bytes, files > 0 ? commands : NULL);
	ck_assert(!IS_ERR(f->image));
	free(commands);
}

static inline void wf_open(struct wf *f, const char *mke2fs_args, uint64_t size_bytes,
			   unsigned files)
{
	wf_make(f, mke2fs_args, size_bytes, files);
	wf_mount(f);
}

static inline void wf_umount(struct wf *f)
{
	ck_assert_int_eq(wb_sync_fs(f->sb, true), 0);
	ext4_drain_evictions(f->sb);
	ck_assert_uint_eq(ext4_icache_shrink_all(f->sb), 0);
	wb_exit(f->sb);
	ext4_alloc_exit(f->sb);
	ck_assert_int_eq(ext4_put_super(f->sb), 0);
	f->sb = NULL;
}

/* The file system is broken on purpose: down without looking at results. */
static inline void wf_umount_broken(struct wf *f)
{
	(void)wb_sync_fs(f->sb, true);
	(void)ext4_icache_shrink_all(f->sb);
	wb_exit(f->sb);
	ext4_alloc_exit(f->sb);
	(void)ext4_put_super(f->sb);
	f->sb = NULL;
}

/* Unmount, e2fsck, free. */
static inline void wf_close(struct wf *f)
{
	if (f->sb != NULL)
		wf_umount(f);
	ck_assert_int_eq(testlib_fsck(f->image), 0);
	blk_close(f->image);
}

static inline struct inode *wf_file(struct wf *f, unsigned i)
{
	struct inode *inode = ext4_iget(f->sb, WF_FIRST_INO + i, EXT4_IGET_NORMAL);

	ck_assert(!IS_ERR(inode));
	return inode;
}

static inline ssize_t wf_write_flags(struct inode *inode, const void *buf, size_t len, uint64_t pos,
				     unsigned flags)
{
	struct iovec iov = {(void *)(uintptr_t)buf, len};
	struct wb_write w = {.w_iov = &iov,
			     .w_iovcnt = 1,
			     .w_len = len,
			     .w_pos = pos,
			     .w_flags = flags,
			     .w_cred = wf_root};

	return file_write(inode, &w);
}

static inline ssize_t wf_write(struct inode *inode, const void *buf, size_t len, uint64_t pos)
{
	return wf_write_flags(inode, buf, len, pos, 0);
}

/* len bytes of the pattern stream `tag` at pos, in pieces. */
static inline void wf_fill(struct inode *inode, uint64_t tag, uint64_t pos, size_t len,
			   size_t piece)
{
	uint8_t *buf = malloc(piece);

	while (len > 0) {
		size_t n = len < piece ? len : piece;

		pattern_fill(buf, n, tag, pos);
		ck_assert_int_eq(wf_write(inode, buf, n, pos), (ssize_t)n);
		pos += n;
		len -= n;
	}
	free(buf);
}

/* Read through the cache into buf; returns bytes or negative errno. */
static inline ssize_t wf_read(struct inode *inode, void *buf, size_t len, uint64_t pos)
{
	struct wb_read *r = malloc(sizeof(*r));
	size_t done = 0;
	int err = 0;

	while (done < len) {
		err = file_read(inode, pos + done, len - done, 0, r);
		if (err != 0 || r->r_bytes == 0)
			break;
		for (int i = 0; i < r->r_iovcnt; i++) {
			memcpy((uint8_t *)buf + done, r->r_iov[i].iov_base, r->r_iov[i].iov_len);
			done += r->r_iov[i].iov_len;
		}
		wb_read_done(r);
	}
	free(r);
	return err != 0 && done == 0 ? err : (ssize_t)done;
}

static inline void wf_check(struct inode *inode, uint64_t tag, uint64_t pos, size_t len)
{
	uint8_t *buf = malloc(len);

	ck_assert_int_eq(wf_read(inode, buf, len, pos), (ssize_t)len);
	pattern_check(buf, len, tag, pos);
	free(buf);
}

static inline void wf_check_value(struct inode *inode, uint8_t value, uint64_t pos, size_t len)
{
	uint8_t *buf = malloc(len);

	ck_assert_int_eq(wf_read(inode, buf, len, pos), (ssize_t)len);
	ck_assert_int_eq(bytes_mismatch(buf, len, value), -1);
	free(buf);
}

static inline void wf_tune(struct wf *f, const char *name, const char *value)
{
	ck_assert_int_eq(wb_tunable_set(f->sb, name, value), 0);
}

/* What sync(2) promises about accounts. */
static inline void wf_sync(struct wf *f)
{
	ck_assert_int_eq(wb_sync_fs(f->sb, true), 0);
	ck_assert_int_eq(atomic_load(&f->wb->wb_nr_writeback), 0);
}

static inline void wf_assert_nothing_reserved(struct wf *f)
{
	ck_assert_uint_eq(ext4_sb_dirty_blocks(f->sb), 0);
	ck_assert_int_eq(atomic_load(&f->wb->wb_nr_dirty), 0);
}

/* Physically contiguous runs of the first `blocks` blocks; holes count as breaks. */
static inline unsigned wf_extents(struct inode *inode, uint32_t blocks)
{
	ext4_fsblk_t next = 0;
	unsigned runs = 0;
	ext4_lblk_t lblk = 0;

	while (lblk < blocks) {
		struct ext4_map_blocks map = {.m_lblk = lblk, .m_len = blocks - lblk};
		int n = ext4_map_blocks(NULL, inode, &map, 0);

		ck_assert_int_ge(n, 0);
		if (n > 0 && map.m_pblk != next)
			runs++;
		next = n > 0 ? map.m_pblk + map.m_len : 0;
		lblk += map.m_len;
	}
	return runs;
}

/* Requests of `op` to blocks [lblk, lblk + len) of the file, which are mapped and contiguous, fail from now on. The rule's id. */
static inline int wf_fail_blocks(struct wf *f, struct inode *inode, enum req_op op,
				 ext4_lblk_t lblk, uint32_t len)
{
	struct ext4_map_blocks map = {.m_lblk = lblk, .m_len = len};
	struct fault_rule rule = {
		.fr_kind = FAULT_ERROR, .fr_ops = FAULT_OP(op), .fr_count = FAULT_FOREVER};
	int id;

	ck_assert_int_eq(ext4_map_blocks(NULL, inode, &map, 0), (int)len);
	rule.fr_from_bytes = map.m_pblk << f->sb->s_blocksize_bits;
	rule.fr_to_bytes = (map.m_pblk + len) << f->sb->s_blocksize_bits;
	id = fault_arm(f->faults, &rule);
	ck_assert_int_ge(id, 0);
	return id;
}

/* Every free block of the device holds somebody's old bytes. */
static inline void wf_fill_free_space(struct wf *f, struct inode *inode)
{
	uint8_t *buf = malloc(MIB);
	uint64_t pos = 0;
	ssize_t n;

	memset(buf, 'G', MIB);
	do {
		n = wf_write(inode, buf, MIB, pos);
		pos += n > 0 ? (uint64_t)n : 0;
		wb_run_flusher(f->sb);
	} while (n > 0);
	wf_sync(f);
	ck_assert_int_eq(ext4_truncate_to(inode, 0), 0);
	wf_sync(f);
	free(buf);
}

static inline uint64_t wf_requests(struct wf *f, enum req_op op)
{
	return counter_read(&f->dev->bd_stats.s_requests[op]);
}

#endif
