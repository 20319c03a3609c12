/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * test_open.c - opening, truncating, replacing: what must be on the disk, and what may stay delayed.
 *
 * Invariants: (1) delayed blocks are counted by the allocator, not guessed.
 * Locking: none.
 */
#include "tests/unit/namespace/nsenv.h"

#include "tests/lib/pattern.h"

#define BLOCKS 16u

/* Write BLOCKS blocks of 4 KiB, which stay delayed. */
static struct inode *write_file(struct env *e, const char *name, uint64_t tag)
{
	static uint8_t data[BLOCKS * 4096];
	struct iovec iov = {.iov_base = data, .iov_len = sizeof(data)};
	struct wb_write w = {.w_iov = &iov, .w_iovcnt = 1, .w_len = sizeof(data)};
	struct inode *file;

	w.w_cred.cr_privileged = true;
	ck_assert_int_eq(env_create(e->e_root, name, S_IFREG | 0644, &file), 0);
	pattern_fill(data, sizeof(data), tag, 0);
	ck_assert_int_eq(file_write(file, &w), (ssize_t)sizeof(data));
	ck_assert_uint_eq(ext4_inode_reserved_blocks(file), BLOCKS);
	return file;
}

static void make_old(struct env *e, const char *name)
{
	iput(write_file(e, name, 7));
	ck_assert_int_eq(wb_sync_fs(e->e_sb, true), 0);
}

START_TEST(a_rename_over_a_file_writes_the_source_first)
{
	struct inode *file;
	struct env e;

	env_open(&e, "-b 4096", 16 * MIB);
	make_old(&e, "foo");
	file = write_file(&e, "foo.new", 8);
	ck_assert_int_eq(env_rename(e.e_root, "foo.new", e.e_root, "foo", 0), 0);
	ck_assert_uint_eq(ext4_inode_reserved_blocks(file), 0);
	ck_assert_uint_eq(atomic_load(&file->i_disksize), BLOCKS * 4096);
	iput(file);
	/* To a name that is free: it can wait. */
	file = write_file(&e, "bar.new", 9);
	ck_assert_int_eq(env_rename(e.e_root, "bar.new", e.e_root, "bar", 0), 0);
	ck_assert_uint_eq(ext4_inode_reserved_blocks(file), BLOCKS);
	iput(file);
	env_close(&e);

	env_make(&e, "-b 4096", 16 * MIB, NULL);
	e.e_opts.o_auto_da_alloc = false;
	env_mount(&e);
	make_old(&e, "foo");
	file = write_file(&e, "foo.new", 8);
	ck_assert_int_eq(env_rename(e.e_root, "foo.new", e.e_root, "foo", 0), 0);
	ck_assert_uint_eq(ext4_inode_reserved_blocks(file), BLOCKS);
	iput(file);
	env_close(&e);
}
END_TEST

START_TEST(content_survives_a_cut_after_a_rename)
{
	static struct wb_read r;
	struct env e, cut;
	struct inode *file;
	uint64_t pos = 0;

	env_open(&e, "-b 4096", 16 * MIB);
	make_old(&e, "foo");
	iput(write_file(&e, "foo.new", 8));
	ck_assert_int_eq(env_rename(e.e_root, "foo.new", e.e_root, "foo", 0), 0);
	jbd2_journal_force_commit(e.e_sb->s_journal);
	memset(&cut, 0, sizeof(cut));
	cut.e_bytes = e.e_bytes;
	cut.e_opts = e.e_opts;
	cut.e_image = aligned_alloc(4096, e.e_bytes);
	memcpy(cut.e_image, e.e_image, e.e_bytes);
	env_close(&e);
	env_mount(&cut);
	file = env_lookup(cut.e_root, "foo");
	ck_assert_uint_eq(i_size_read(file), BLOCKS * 4096);
	ck_assert_int_eq(file_read(file, 0, BLOCKS * 4096, 0, &r), 0);
	ck_assert_uint_eq(r.r_bytes, BLOCKS * 4096);
	for (int i = 0; i < r.r_iovcnt; i++) {
		pattern_check(r.r_iov[i].iov_base, r.r_iov[i].iov_len, 8, pos);
		pos += r.r_iov[i].iov_len;
	}
	wb_read_done(&r);
	iput(file);
	env_close(&cut);
}
END_TEST

START_TEST(o_trunc_empties_and_remembers)
{
	struct inode *file;
	struct env e;

	env_open(&e, "-b 4096", 16 * MIB);
	make_old(&e, "foo");
	file = env_lookup(e.e_root, "foo");
	ck_assert_int_eq(ext4_file_open(file, O_WRONLY | O_TRUNC, false), 0);
	ck_assert_uint_eq(i_size_read(file), 0);
	ck_assert((atomic_load(&file->i_state) & I_DA_ALLOC_CLOSE) != 0);
	ck_assert_uint_eq(atomic_load(&file->i_blocks), 0);
	ext4_file_release(file, O_WRONLY);
	iput(file);
	/* An empty file that is truncated has nothing to lose. */
	ck_assert_int_eq(env_create(e.e_root, "empty", S_IFREG | 0644, &file), 0);
	ck_assert_int_eq(ext4_file_open(file, O_RDWR | O_TRUNC, false), 0);
	ck_assert((atomic_load(&file->i_state) & I_DA_ALLOC_CLOSE) == 0);
	ck_assert_int_eq(ext4_file_open(e.e_root, O_WRONLY, false), -EISDIR);
	iput(file);
	env_close(&e);
}
END_TEST

/* Emptied, written again and closed: the delayed blocks that are left. */
static uint64_t delayed_after_close(bool auto_da_alloc)
{
	static uint8_t data[BLOCKS * 4096];
	struct iovec iov = {.iov_base = data, .iov_len = sizeof(data)};
	struct wb_write w = {.w_iov = &iov, .w_iovcnt = 1, .w_len = sizeof(data)};
	struct inode *file;
	struct env e;
	uint64_t left;

	env_make(&e, "-b 4096", 16 * MIB, NULL);
	e.e_opts.o_auto_da_alloc = auto_da_alloc;
	env_mount(&e);
	make_old(&e, "foo");
	file = env_lookup(e.e_root, "foo");
	ck_assert_int_eq(ext4_file_open(file, O_WRONLY | O_TRUNC, false), 0);
	w.w_cred.cr_privileged = true;
	ck_assert_int_eq(file_write(file, &w), (ssize_t)sizeof(data));
	ck_assert_uint_eq(ext4_inode_reserved_blocks(file), BLOCKS);
	ext4_file_release(file, O_WRONLY);
	wb_run_completions(e.e_sb);
	left = ext4_inode_reserved_blocks(file);
	iput(file);
	env_close(&e);
	return left;
}

START_TEST(a_file_that_was_emptied_is_written_at_close)
{
	ck_assert_uint_eq(delayed_after_close(true), 0);
	ck_assert_uint_eq(delayed_after_close(false), BLOCKS);
}
END_TEST

START_TEST(a_delayed_file_that_is_deleted_writes_nothing)
{
	struct inode *file;
	struct stat st;
	uint64_t written;
	struct env e;

	env_open(&e, "-b 4096", 16 * MIB);
	ck_assert_int_eq(wb_sync_fs(e.e_sb, true), 0);
	written = counter_read(&e.e_sb->s_dev->bd_stats.s_bytes[REQ_OP_WRITE]);
	file = write_file(&e, "gone", 3);
	ext4_getattr(file, &st);
	ck_assert_int_eq(st.st_blocks, BLOCKS * 8);
	ck_assert_int_eq(env_unlink(e.e_root, "gone"), 0);
	iput(file);
	ext4_drain_evictions(e.e_sb);
	ck_assert_uint_eq(ext4_sb_dirty_blocks(e.e_sb), 0);
	ck_assert_int_eq(wb_sync_fs(e.e_sb, true), 0);
	/* The log takes some blocks; data would be 64 KiB more. */
	ck_assert_uint_lt(counter_read(&e.e_sb->s_dev->bd_stats.s_bytes[REQ_OP_WRITE]) - written,
			  BLOCKS * 4096);
	env_close(&e);
}
END_TEST

int main(void)
{
	return RUN_TESTS("namespace/open", a_rename_over_a_file_writes_the_source_first,
			 content_survives_a_cut_after_a_rename, o_trunc_empties_and_remembers,
			 a_file_that_was_emptied_is_written_at_close,
			 a_delayed_file_that_is_deleted_writes_nothing);
}
