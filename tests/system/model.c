/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * model.c - random operations on a few files of a mounted file system, each answer compared with a copy in memory.
 *
 * model FOLDER SEED OPERATIONS [REMOUNT-COMMAND]
 * Reads, writes, direct I/O, maps, appends, truncates, holes, zeroed and preallocated ranges, seeks, fsync,
 * renames and re-creation go through several descriptors at once. With a command the file system is unmounted and mounted again a few times
 * on the way. The first difference ends the run with the seed and the last operations.
 *
 * Invariants: (1) f->f_data[f_size..] is zero; (2) every descriptor of f refers to f's present inode.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "util/splitmix.h"

#define NR_FILES 3
#define NR_FDS 6
#define MAX_SIZE (1536u * 1024)
#define MAX_IO (160u * 1024)
#define HISTORY 60

struct file {
	char f_name[512];
	uint8_t *f_data;
	uint64_t f_size;
	int f_fd[NR_FDS];
	int f_flags[NR_FDS];
};

static struct file files[NR_FILES];
static const char *folder;
static uint64_t seed, rng, op_nr, generation;
static char history[HISTORY][160];
static uint8_t *io_buf;
static bool no_fallocate;

static uint64_t rnd(void)
{
	return splitmix64(&rng);
}

static uint64_t below(uint64_t n)
{
	return n ? rnd() % n : 0;
}

__attribute__((format(printf, 1, 2))) static void note(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(history[op_nr % HISTORY], sizeof(history[0]), fmt, ap);
	va_end(ap);
}

__attribute__((noreturn, format(printf, 1, 2))) static void die(const char *fmt, ...)
{
	va_list ap;

	fprintf(stderr, "model: seed %" PRIu64 ", operation %" PRIu64 ": ", seed, op_nr);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fprintf(stderr, "\nlast operations:\n");
	for (uint64_t i = op_nr > HISTORY ? op_nr - HISTORY + 1 : 0; i <= op_nr; i++)
		fprintf(stderr, "%8" PRIu64 " %s\n", i, history[i % HISTORY]);
	exit(1);
}

static void compare(const struct file *f, uint64_t pos, const uint8_t *got, uint64_t len,
		    const char *how)
{
	if (!memcmp(f->f_data + pos, got, len))
		return;
	for (uint64_t i = 0; i < len; i++) {
		if (f->f_data[pos + i] != got[i])
			die("%s of %s: byte %" PRIu64 " is %02x, expected %02x (size %" PRIu64 ")",
			    how, f->f_name, pos + i, got[i], f->f_data[pos + i], f->f_size);
	}
}

/* ---- Descriptors ---- */

static const int open_flags[] = {O_RDWR, O_WRONLY, O_RDONLY, O_RDWR | O_DIRECT, O_WRONLY | O_APPEND,
				 O_RDWR};

static int open_slot(struct file *f, unsigned slot, int extra)
{
	int flags = open_flags[slot];

	if (slot == 5 && below(4) == 0)
		flags |= O_DSYNC;
	f->f_fd[slot] = open(f->f_name, flags | extra, 0644);
	if (f->f_fd[slot] < 0)
		die("open %s: %s", f->f_name, strerror(errno));
	f->f_flags[slot] = flags;
	return f->f_fd[slot];
}

static void close_all(struct file *f)
{
	for (unsigned i = 0; i < NR_FDS; i++) {
		if (f->f_fd[i] >= 0 && close(f->f_fd[i]))
			die("close: %s", strerror(errno));
		f->f_fd[i] = -1;
	}
}

static int get_fd(struct file *f, unsigned slot)
{
	return f->f_fd[slot] >= 0 ? f->f_fd[slot] : open_slot(f, slot, 0);
}

/* ---- Operations ---- */

static void fill(uint8_t *p, uint64_t len)
{
	uint64_t word = rnd() | 1;

	for (uint64_t i = 0; i < len; i++)
		p[i] = (uint8_t)((word >> (8 * (i & 7))) + i * 31);
}

static void pick_range(uint64_t limit, uint64_t *pos, uint64_t *len)
{
	*pos = below(limit < MAX_SIZE ? limit : MAX_SIZE);
	*len = 1 + below(below(4) ? 20000 : MAX_IO);
	if (below(3) == 0) {
		*pos &= ~(uint64_t)4095;
		*len = (*len + 4095) & ~(uint64_t)4095;
	}
	if (*pos + *len > MAX_SIZE)
		*len = MAX_SIZE - *pos;
}

static void model_write(struct file *f, uint64_t pos, const uint8_t *data, uint64_t len)
{
	memcpy(f->f_data + pos, data, len);
	if (pos + len > f->f_size)
		f->f_size = pos + len;
}

static void op_write(struct file *f)
{
	static const unsigned slots[] = {0, 0, 1, 1, 4, 5, 3};
	unsigned slot = slots[below(7)];
	int fd = get_fd(f, slot);
	uint64_t pos, len;
	ssize_t n;

	pick_range(below(3) ? f->f_size + 1 : MAX_SIZE - 1, &pos, &len);
	if (slot == 4)
		pos = f->f_size;
	if (slot == 3) {
		pos &= ~(uint64_t)4095;
		len = (len + 4095) & ~(uint64_t)4095;
	}
	if (pos + len > MAX_SIZE || !len)
		return;
	note("write %s slot %u pos %" PRIu64 " len %" PRIu64 " size %" PRIu64, f->f_name, slot, pos,
	     len, f->f_size);
	fill(io_buf, len);
	n = slot == 4 ? write(fd, io_buf, len) : pwrite(fd, io_buf, len, (off_t)pos);
	if (n != (ssize_t)len)
		die("write returned %zd (%s)", n, strerror(errno));
	model_write(f, pos, io_buf, len);
}

static void op_read(struct file *f)
{
	static const unsigned slots[] = {0, 2, 2, 3, 5};
	unsigned slot = slots[below(5)];
	int fd = get_fd(f, slot);
	uint64_t pos, len, want;
	ssize_t n;

	pick_range(f->f_size + 5000, &pos, &len);
	if (slot == 3) {
		pos &= ~(uint64_t)4095;
		len = (len + 4095) & ~(uint64_t)4095;
	}
	want = pos >= f->f_size ? 0 : (f->f_size - pos < len ? f->f_size - pos : len);
	note("read %s slot %u pos %" PRIu64 " len %" PRIu64 " size %" PRIu64, f->f_name, slot, pos,
	     len, f->f_size);
	n = pread(fd, io_buf, len, (off_t)pos);
	if (n != (ssize_t)want)
		die("read returned %zd, expected %" PRIu64 " (%s)", n, want, strerror(errno));
	compare(f, pos, io_buf, want, slot == 3 ? "direct read" : "read");
}

static void op_map(struct file *f)
{
	int fd = get_fd(f, 0);
	bool writing = below(2) == 0;
	uint64_t pos, len;
	uint8_t *map;

	if (!f->f_size)
		return;
	pos = below(f->f_size);
	len = 1 + below(40000);
	if (pos + len > f->f_size)
		len = f->f_size - pos;
	note("map %s %s pos %" PRIu64 " len %" PRIu64 " size %" PRIu64, writing ? "store" : "load",
	     f->f_name, pos, len, f->f_size);
	map = mmap(NULL, f->f_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (map == MAP_FAILED)
		die("mmap: %s", strerror(errno));
	compare(f, pos, map + pos, len, "map");
	if (writing) {
		fill(io_buf, len);
		memcpy(map + pos, io_buf, len);
		model_write(f, pos, io_buf, len);
		if (below(2) && msync(map, f->f_size, MS_SYNC))
			die("msync: %s", strerror(errno));
	}
	/* Beyond the end the last page reads as zeros. */
	for (uint64_t i = f->f_size; i & 4095; i++) {
		if (map[i])
			die("map: byte %" PRIu64 " past the end is %02x", i, map[i]);
	}
	if (munmap(map, f->f_size))
		die("munmap: %s", strerror(errno));
}

static void op_truncate(struct file *f)
{
	uint64_t size = below(3) == 0 ? below(MAX_SIZE) : below(f->f_size + f->f_size / 2 + 5000);
	int rc;

	if (size > MAX_SIZE)
		size = MAX_SIZE;
	note("truncate %s from %" PRIu64 " to %" PRIu64, f->f_name, f->f_size, size);
	rc = below(2) ? ftruncate(get_fd(f, below(2) ? 0 : 1), (off_t)size)
		      : truncate(f->f_name, (off_t)size);
	if (rc)
		die("truncate: %s", strerror(errno));
	if (size < f->f_size)
		memset(f->f_data + size, 0, f->f_size - size);
	f->f_size = size;
}

static void op_fallocate(struct file *f)
{
	static const int modes[] = {0,
				    FALLOC_FL_KEEP_SIZE,
				    FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
				    FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
				    FALLOC_FL_ZERO_RANGE,
				    FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE};
	int mode = modes[below(6)];
	uint64_t pos, len;

	if (no_fallocate)
		return;
	pick_range(f->f_size + 20000 < MAX_SIZE ? f->f_size + 20000 : MAX_SIZE - 1, &pos, &len);
	if (!len)
		return;
	note("fallocate %s mode %#x pos %" PRIu64 " len %" PRIu64 " size %" PRIu64, f->f_name, mode,
	     pos, len, f->f_size);
	if (fallocate(get_fd(f, below(2) ? 0 : 1), mode, (off_t)pos, (off_t)len)) {
		if (errno != EOPNOTSUPP)
			die("fallocate: %s", strerror(errno));
		no_fallocate = true; /* a file without extents: as kernel ext4 answers */
		return;
	}
	if (mode & (FALLOC_FL_PUNCH_HOLE | FALLOC_FL_ZERO_RANGE)) {
		if (pos < f->f_size)
			memset(f->f_data + pos, 0, pos + len > f->f_size ? f->f_size - pos : len);
	}
	if (!(mode & FALLOC_FL_KEEP_SIZE) && pos + len > f->f_size)
		f->f_size = pos + len;
}

static void op_sync(struct file *f)
{
	int fd = get_fd(f, (unsigned)below(4));

	note("sync %s", f->f_name);
	if (below(2) ? fsync(fd) : fdatasync(fd))
		die("fsync: %s", strerror(errno));
}

static void op_seek(struct file *f)
{
	int fd = get_fd(f, 2);
	off_t pos = (off_t)below(f->f_size + 1), data, hole;

	note("seek %s from %lld size %" PRIu64, f->f_name, (long long)pos, f->f_size);
	data = lseek(fd, pos, SEEK_DATA);
	if (data < 0) {
		if (errno != ENXIO)
			die("SEEK_DATA: %s", strerror(errno));
		data = (off_t)f->f_size;
	}
	for (off_t i = pos; i < data; i++) {
		if (f->f_data[i])
			die("SEEK_DATA(%lld) skipped data at %lld", (long long)pos, (long long)i);
	}
	if ((uint64_t)data >= f->f_size)
		return;
	hole = lseek(fd, data, SEEK_HOLE);
	if (hole <= data || (uint64_t)hole > f->f_size)
		die("SEEK_HOLE(%lld) is %lld", (long long)data, (long long)hole);
}

static void op_reopen(struct file *f)
{
	unsigned slot = (unsigned)below(NR_FDS);

	note("reopen %s slot %u", f->f_name, slot);
	if (f->f_fd[slot] >= 0 && close(f->f_fd[slot]))
		die("close: %s", strerror(errno));
	f->f_fd[slot] = -1;
	if (below(12) == 0) {
		if (slot == 2 || slot == 4)
			slot = 0;
		if (f->f_fd[slot] >= 0 && close(f->f_fd[slot]))
			die("close: %s", strerror(errno));
		open_slot(f, slot, O_TRUNC);
		memset(f->f_data, 0, f->f_size);
		f->f_size = 0;
	}
}

static void op_stat(struct file *f)
{
	struct stat st;

	note("stat %s", f->f_name);
	if (stat(f->f_name, &st))
		die("stat: %s", strerror(errno));
	if ((uint64_t)st.st_size != f->f_size)
		die("st_size %lld, expected %" PRIu64, (long long)st.st_size, f->f_size);
}

static void new_name(struct file *f, unsigned i)
{
	snprintf(f->f_name, sizeof(f->f_name), "%s/file%u.%" PRIu64 ".%" PRIu64, folder, i, seed,
		 generation++);
}

static void op_name(struct file *f, unsigned i)
{
	char old[sizeof(f->f_name)];

	memcpy(old, f->f_name, sizeof(old));
	new_name(f, i);
	note("%s -> %s", old, f->f_name);
	if (below(2)) {
		if (rename(old, f->f_name))
			die("rename: %s", strerror(errno));
		return;
	}
	close_all(f);
	if (unlink(old))
		die("unlink: %s", strerror(errno));
	memset(f->f_data, 0, f->f_size);
	f->f_size = 0;
	no_fallocate = false;
	open_slot(f, 0, O_CREAT | O_EXCL);
}

static void check_whole(struct file *f)
{
	uint64_t pos = 0;
	int fd = get_fd(f, 2);

	op_stat(f);
	note("check all of %s", f->f_name);
	while (pos < f->f_size) {
		ssize_t n = pread(fd, io_buf, MAX_IO, (off_t)pos);

		if (n <= 0)
			die("read at %" PRIu64 ": %zd", pos, n);
		compare(f, pos, io_buf, (uint64_t)n, "check");
		pos += (uint64_t)n;
	}
}

static void remount(const char *command)
{
	note("remount");
	for (unsigned i = 0; i < NR_FILES; i++)
		close_all(&files[i]);
	if (system(command))
		die("remount failed");
	for (unsigned i = 0; i < NR_FILES; i++)
		check_whole(&files[i]);
}

static void step(void)
{
	unsigned i = (unsigned)below(NR_FILES);
	struct file *f = &files[i];
	uint64_t dice = below(1000);

	if (dice < 330)
		op_write(f);
	else if (dice < 600)
		op_read(f);
	else if (dice < 700)
		op_map(f);
	else if (dice < 770)
		op_truncate(f);
	else if (dice < 880)
		op_fallocate(f);
	else if (dice < 900)
		op_sync(f);
	else if (dice < 930)
		op_seek(f);
	else if (dice < 965)
		op_reopen(f);
	else if (dice < 995)
		op_stat(f);
	else
		op_name(f, i);
}

static void start_files(void)
{
	for (unsigned i = 0; i < NR_FILES; i++) {
		struct file *f = &files[i];

		f->f_data = calloc(1, MAX_SIZE + 4096);
		if (!f->f_data)
			die("out of memory");
		for (unsigned k = 0; k < NR_FDS; k++)
			f->f_fd[k] = -1;
		new_name(f, i);
		open_slot(f, 0, O_CREAT | O_TRUNC);
	}
}

int main(int argc, char **argv)
{
	uint64_t ops;

	if (argc < 4) {
		fprintf(stderr, "usage: model FOLDER SEED OPERATIONS [REMOUNT-COMMAND]\n");
		return 2;
	}
	folder = argv[1];
	rng = seed = strtoull(argv[2], NULL, 0);
	ops = strtoull(argv[3], NULL, 0);
	if (posix_memalign((void **)&io_buf, 4096, MAX_IO + 8192))
		die("out of memory");
	start_files();
	for (op_nr = 1; op_nr <= ops; op_nr++) {
		step();
		if (argc > 4 && op_nr % (ops / 5 + 1) == 0)
			remount(argv[4]);
	}
	for (unsigned i = 0; i < NR_FILES; i++)
		check_whole(&files[i]);
	printf("model: seed %" PRIu64 ": %" PRIu64 " operations agree\n", seed, ops);
	return 0;
}
