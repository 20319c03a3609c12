/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fs.c - a file system in memory for the micro benchmarks.
 *
 * Made by mke2fs and mounted by ext4/, alloc/ and writeback/ in manual mode: commits and writeback run in the
 * caller, so that instruction counts are the same in every run. It is never unmounted: the process ends.
 *
 * Invariants: (1) no thread but the caller's exists.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "bench/lib/benchlib.h"
#include "bench/micro/micro.h"
#include "ext4/inode.h"
#include "ext4/jbd2_glue.h"
#include "ext4/super.h"
#include "namespace/dir.h"
#include "tests/lib/testlib.h"

#define FIRST_INO 12u
#define MIN_BYTES (UINT64_C(4) << 30) /* has room for the log */
#define CREDITS 64u
#define OPS_OF_A_COMMIT 4096u

void micro_must(int err, const char *what)
{
	if (err < 0)
		bench_die(-err, "%s", what);
}

static const struct ext4_upper_ops upper = {
	.alloc_inode_init = ext4_alloc_inode_init,
	.alloc_inode_destroy = ext4_alloc_inode_destroy,
	.mapping_init = wb_mapping_init,
	.mapping_destroy = wb_mapping_destroy,
	.write_ordered_data = wb_write_ordered_data,
};

static void run(const char *before, const char *path)
{
	char command[PATH_MAX + 256];
	char *output;

	snprintf(command, sizeof(command), "%s '%s'", before, path);
	if (testlib_run(command, &output))
		bench_die(0, "%s\n%s", command, output);
	free(output);
}

/* A new file system of that size as private memory: holes of the image cost nothing, and it is gone with the process. */
static void *make_image(uint64_t size_bytes)
{
	char *path = testlib_tempfile();
	void *data;
	int fd;

	if (truncate(path, (off_t)size_bytes))
		bench_die(errno, "%s", path);
	run("mke2fs -F -q -t ext4 -b 4096 -J size=512 -E lazy_itable_init=1,lazy_journal_init=1",
	    path);
	run("printf 'write /dev/null f0\nwrite /dev/null f1\n' | debugfs -w -f -", path);
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		bench_die(errno, "%s", path);
	data = mmap(NULL, size_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE, fd, 0);
	if (data == MAP_FAILED)
		bench_die(errno, "mmap of the image");
	close(fd);
	unlink(path);
	free(path);
	return data;
}

void micro_fs_open(struct micro_fs *f, uint64_t size_bytes, uint64_t cache_bytes)
{
	struct ext4_options opts;
	struct blkdev *dev;

	size_bytes = (size_bytes + 4095) / 4096 * 4096;
	if (size_bytes < MIN_BYTES)
		size_bytes = MIN_BYTES;
	f->mf_ops = 0;
	dev = mem_open(size_bytes, 512, make_image(size_bytes));
	if (IS_ERR(dev))
		bench_die(-PTR_ERR(dev), "mem device");
	ext4_options_init(&opts);
	opts.o_manual_commit = true;
	opts.o_cache_bytes = cache_bytes;
	opts.o_bcache_bytes = UINT64_C(1) << 30;
	micro_must(ext4_fill_super(dev, &opts, &upper, &f->mf_sb), "mount");
	micro_must(ext4_alloc_init(f->mf_sb), "mount: allocator");
	micro_must(wb_init(f->mf_sb), "mount: page cache");
	micro_must(ext4_dir_miss_init(f->mf_sb), "mount: names");
}

struct inode *micro_fs_file(struct micro_fs *f, unsigned number)
{
	struct inode *inode = ext4_iget(f->mf_sb, FIRST_INO + number, EXT4_IGET_NORMAL);

	if (IS_ERR(inode))
		bench_die(-PTR_ERR(inode), "file f%u", number);
	return inode;
}

void micro_fs_op(struct micro_fs *f)
{
	if (++f->mf_ops % OPS_OF_A_COMMIT == 0)
		micro_must(jbd2_journal_force_commit(f->mf_sb->s_journal), "commit");
}

handle_t *micro_fs_start(struct micro_fs *f)
{
	handle_t *handle;

	micro_fs_op(f);
	handle = ext4_journal_start_sb(f->mf_sb, HT_MISC, CREDITS, 8);
	if (IS_ERR(handle))
		bench_die(-PTR_ERR(handle), "handle");
	return handle;
}

void micro_fs_stop(handle_t *handle)
{
	micro_must(ext4_journal_stop(handle, 0), "end of a handle");
}
