/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * crash_load.c - a log that was recorded into a file, as one in memory.
 *
 * The entries are made again on a log filter in memory, in their order. What was in flight at a flush stands behind it in the file, so nothing
 * is in flight in the result.
 *
 * Invariants: (1) entry i of the file is entry i of the result, but for marks that are dropped.
 * Locking: none. The file may grow meanwhile: only what its header counts is read.
 */
#include <endian.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/lib/crash.h"
#include "util/err.h"

#define SECTOR_BYTES 512u
#define LOG_MAGIC UINT64_C(0x6a736677736872)

struct file {
	const uint8_t *f_data;
	uint64_t f_size;
	uint64_t f_pos;
	const char *(*f_translate)(void *arg, const char *text);
	void *f_arg;
};

static uint64_t number_at(const struct file *f, uint64_t pos)
{
	uint64_t le;

	memcpy(&le, f->f_data + pos, sizeof(le));
	return le64toh(le);
}

static int load_mark(const struct file *f, const char *at, uint64_t len, struct blkdev *log)
{
	char text[LOG_MARK_MAX + 1];
	const char *use = text;

	if (len > LOG_MARK_MAX)
		return -EINVAL;
	memcpy(text, at, len);
	text[len] = '\0';
	if (f->f_translate != NULL)
		use = f->f_translate(f->f_arg, text);
	return use != NULL ? blk_mark(log, use) : 0;
}

static int load_entry(struct file *f, struct blkdev *log)
{
	uint64_t sector, nr, flags, len, data = f->f_pos + SECTOR_BYTES;

	if (f->f_size - f->f_pos < SECTOR_BYTES)
		return -EINVAL;
	sector = number_at(f, f->f_pos);
	nr = number_at(f, f->f_pos + 8);
	flags = number_at(f, f->f_pos + 16);
	len = number_at(f, f->f_pos + 24);
	f->f_pos = data;
	if ((flags & LOG_MARK_FLAG) != 0)
		return load_mark(f, (const char *)f->f_data + data - SECTOR_BYTES + 32, len, log);
	if ((flags & LOG_DISCARD_FLAG) != 0)
		return blk_discard(log, sector * SECTOR_BYTES, nr * SECTOR_BYTES);
	if (nr == 0)
		return (flags & LOG_FLUSH_FLAG) != 0 ? blk_flush(log) : 0;
	if ((f->f_size - data) / SECTOR_BYTES < nr)
		return -EINVAL;
	f->f_pos = data + nr * SECTOR_BYTES;
	return blk_write(log, sector * SECTOR_BYTES, f->f_data + data, nr * SECTOR_BYTES,
			 (flags & LOG_FUA_FLAG) != 0 ? REQ_FUA : 0);
}

static int load_all(struct file *f, struct blkdev *log)
{
	uint64_t n;
	int err = 0;

	if (f->f_size < SECTOR_BYTES || number_at(f, 0) != LOG_MAGIC)
		return -EINVAL;
	n = number_at(f, 16);
	f->f_pos = SECTOR_BYTES;
	while (n-- > 0 && err == 0)
		err = load_entry(f, log);
	return err;
}

struct blkdev *crash_load_log(const char *path, uint64_t size_bytes,
			      const char *(*translate)(void *arg, const char *text), void *arg)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC), err = -EINVAL;
	struct file f = {.f_translate = translate, .f_arg = arg};
	struct blkdev *log;
	struct stat st;
	void *map;

	if (fd < 0)
		return ERR_PTR(-errno);
	if (fstat(fd, &st) != 0 || st.st_size == 0) {
		close(fd);
		return ERR_PTR(-EINVAL);
	}
	map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
	close(fd);
	if (map == MAP_FAILED)
		return ERR_PTR(-errno);
	f.f_data = map;
	f.f_size = (uint64_t)st.st_size;
	log = log_open_memory(mem_open(size_bytes, SECTOR_BYTES, NULL));
	if (!IS_ERR(log)) {
		err = load_all(&f, log);
		if (err != 0)
			blk_close(log);
	}
	munmap(map, (size_t)st.st_size);
	return IS_ERR(log) || err == 0 ? log : ERR_PTR(err);
}
