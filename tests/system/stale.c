/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * stale.c - sys_stale DIR SECONDS: does a reader ever see less than what a returned write(2) has written?
 *
 * Writers keep their files open for the whole run: one appends records, one overwrites pages, both write-only, and one
 * overwrites a file by asynchronous direct I/O. Readers hold the same files open for reading, cached, by read(2) and by
 * mmap(2), and read what was just written and what was written long ago. Every word of a record or page holds its number,
 * which only grows.
 *
 * Prints what it saw; exit code 1 if anything was stale.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/aio_abi.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define RECORD 1000u /* no divisor of a page, so that records meet in pages */
#define RECORD_WORDS (RECORD / 8u)
#define PAGE 4096u
#define PAGE_WORDS (PAGE / 8u)
#define PAGES 16u
#define APPEND_MAX (64u << 20)
#define READERS 3u

static char append_path[4096], pages_path[4096], aio_path[4096];
static _Atomic uint64_t appended;	/* records whose write(2) has returned */
static _Atomic uint64_t written[PAGES]; /* the number in the page, at the least */
static _Atomic uint64_t aio_written;	/* the same, for the pages of the direct file */
static _Atomic uint64_t reads, stale;
static atomic_bool stop;

static void die(const char *what)
{
	fprintf(stderr, "sys_stale: %s: %s\n", what, strerror(errno));
	exit(2);
}

static int open_or_die(const char *path, int flags)
{
	int fd = open(path, flags, 0644);

	if (fd < 0)
		die(path);
	return fd;
}

static void report(const char *how, uint64_t where, uint64_t got, uint64_t want)
{
	if (atomic_fetch_add(&stale, 1) < 10)
		fprintf(stderr,
			"stale: %s of %" PRIu64 " gave %" PRIu64 ", written was %" PRIu64 "\n", how,
			where, got, want);
}

/* ---- Writers ---- */

static void *append(void *arg)
{
	int fd = open_or_die(append_path, O_WRONLY | O_APPEND);
	uint64_t record[RECORD_WORDS];

	(void)arg;
	for (uint64_t n = 0; !stop && (n + 1) * RECORD < APPEND_MAX; n++) {
		for (unsigned i = 0; i < RECORD_WORDS; i++)
			record[i] = n + 1;
		if (write(fd, record, RECORD) != RECORD)
			die("append");
		atomic_store(&appended, n + 1);
	}
	close(fd);
	return NULL;
}

static void *overwrite(void *arg)
{
	int fd = open_or_die(pages_path, O_WRONLY);
	static _Alignas(8) uint64_t page[PAGE_WORDS];

	(void)arg;
	for (uint64_t n = 1; !stop; n++) {
		uint64_t p = n % PAGES;

		for (unsigned i = 0; i < PAGE_WORDS; i++)
			page[i] = n;
		if (pwrite(fd, page, PAGE, (off_t)(p * PAGE)) != PAGE)
			die("overwrite");
		atomic_store(&written[p], n);
	}
	close(fd);
	return NULL;
}

/* One write of the whole file by way of the kernel's asynchronous I/O. */
static void aio_write(aio_context_t ctx, int fd, const void *buf, size_t len)
{
	struct iocb cb = {
		.aio_lio_opcode = IOCB_CMD_PWRITE,
		.aio_fildes = (uint32_t)fd,
		.aio_buf = (uintptr_t)buf,
		.aio_nbytes = len,
	};
	struct iocb *list[] = {&cb};
	struct io_event done;

	if (syscall(SYS_io_submit, ctx, 1L, list) != 1 ||
	    syscall(SYS_io_getevents, ctx, 1L, 1L, &done, NULL) != 1 || done.res != (int64_t)len)
		die("asynchronous write");
}

static void *overwrite_direct(void *arg)
{
	static _Alignas(PAGE) uint64_t pages[PAGES * PAGE_WORDS];
	int fd = open_or_die(aio_path, O_RDWR | O_DIRECT);
	aio_context_t ctx = 0;

	(void)arg;
	if (syscall(SYS_io_setup, 1L, &ctx) != 0)
		die("io_setup");
	for (uint64_t n = 1; !stop; n++) {
		for (unsigned i = 0; i < PAGES * PAGE_WORDS; i++)
			pages[i] = n;
		aio_write(ctx, fd, pages, sizeof(pages));
		atomic_store(&aio_written, n);
	}
	syscall(SYS_io_destroy, ctx);
	close(fd);
	return NULL;
}

/* ---- Readers ---- */

static void read_record(int fd, uint64_t n)
{
	uint64_t record[RECORD_WORDS] = {0};
	ssize_t got = pread(fd, record, RECORD, (off_t)(n * RECORD));

	atomic_fetch_add(&reads, 1);
	if (got < 0)
		die("read");
	if (got != RECORD) {
		report("the length of record", n, (uint64_t)got, RECORD);
		return;
	}
	for (unsigned i = 0; i < RECORD_WORDS; i++) {
		if (record[i] != n + 1) {
			report("a read of record", n, record[i], n + 1);
			return;
		}
	}
}

static void check_words(const char *how, const volatile uint64_t *words, uint64_t p, uint64_t least)
{
	atomic_fetch_add(&reads, 1);
	for (unsigned i = 0; i < PAGE_WORDS; i++) {
		uint64_t got = words[i];

		if (got < least) {
			report(how, p, got, least);
			return;
		}
	}
}

static void read_page(int fd, const volatile uint64_t *map, uint64_t p)
{
	static __thread uint64_t page[PAGE_WORDS];
	uint64_t least = atomic_load(&written[p]);

	if (pread(fd, page, PAGE, (off_t)(p * PAGE)) != PAGE)
		die("read");
	check_words("a read of page", page, p, least);
	least = atomic_load(&written[p]);
	check_words("the map of page", map + p * PAGE_WORDS, p, least);
}

static void read_direct_page(int fd, uint64_t p)
{
	static __thread uint64_t page[PAGE_WORDS];
	uint64_t least = atomic_load(&aio_written);

	if (pread(fd, page, PAGE, (off_t)(p * PAGE)) != PAGE)
		die("read");
	check_words("a read of the direct file's page", page, p, least);
}

static void *reader(void *arg)
{
	int append_fd = open_or_die(append_path, O_RDONLY);
	int pages_fd = open_or_die(pages_path, O_RDONLY);
	int aio_fd = open_or_die(aio_path, O_RDONLY);
	uint64_t seed = (uintptr_t)arg * UINT64_C(0x9E3779B97F4A7C15);
	void *map = mmap(NULL, (size_t)PAGES * PAGE, PROT_READ, MAP_SHARED, pages_fd, 0);

	if (map == MAP_FAILED)
		die("mmap");
	while (!stop) {
		uint64_t n = atomic_load(&appended);

		seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407u;
		if (n > 0) {
			read_record(append_fd, n - 1);
			read_record(append_fd, (seed >> 33) % n);
		}
		read_page(pages_fd, map, (seed >> 40) % PAGES);
		read_direct_page(aio_fd, (seed >> 44) % PAGES);
	}
	munmap(map, (size_t)PAGES * PAGE);
	close(aio_fd);
	close(pages_fd);
	close(append_fd);
	return NULL;
}

/* When all is quiet, what is there for good? */
static void last_look(void)
{
	int append_fd = open_or_die(append_path, O_RDONLY);
	int pages_fd = open_or_die(pages_path, O_RDONLY);
	int aio_fd = open_or_die(aio_path, O_RDONLY);
	uint64_t n = atomic_load(&appended);
	void *map = mmap(NULL, (size_t)PAGES * PAGE, PROT_READ, MAP_SHARED, pages_fd, 0);

	if (map == MAP_FAILED)
		die("mmap");
	for (uint64_t i = 0; i < n; i++)
		read_record(append_fd, i);
	for (uint64_t p = 0; p < PAGES; p++) {
		read_page(pages_fd, map, p);
		read_direct_page(aio_fd, p);
	}
	munmap(map, (size_t)PAGES * PAGE);
	close(aio_fd);
	close(pages_fd);
	close(append_fd);
}

static void make_pages(const char *path)
{
	int fd = open_or_die(path, O_WRONLY | O_CREAT | O_TRUNC);

	if (ftruncate(fd, (off_t)PAGES * PAGE) != 0)
		die("ftruncate");
	close(fd);
}

int main(int argc, char **argv)
{
	pthread_t threads[3 + READERS];
	unsigned n = 0;

	if (argc != 3)
		return 2;
	snprintf(append_path, sizeof(append_path), "%s/appended", argv[1]);
	snprintf(pages_path, sizeof(pages_path), "%s/pages", argv[1]);
	snprintf(aio_path, sizeof(aio_path), "%s/direct", argv[1]);
	close(open_or_die(append_path, O_WRONLY | O_CREAT | O_TRUNC));
	make_pages(pages_path);
	make_pages(aio_path);
	for (uintptr_t i = 0; i < READERS; i++)
		if (pthread_create(&threads[n++], NULL, reader, (void *)(i + 1)) != 0)
			die("thread");
	if (pthread_create(&threads[n++], NULL, append, NULL) != 0 ||
	    pthread_create(&threads[n++], NULL, overwrite, NULL) != 0 ||
	    pthread_create(&threads[n++], NULL, overwrite_direct, NULL) != 0)
		die("thread");
	sleep((unsigned)strtoul(argv[2], NULL, 10));
	stop = true;
	while (n > 0)
		pthread_join(threads[--n], NULL);
	last_look();
	printf("%" PRIu64 " records appended, %" PRIu64 " pages written, %" PRIu64
	       " direct writes, %" PRIu64 " reads, %" PRIu64 " stale\n",
	       atomic_load(&appended), atomic_load(&written[0]), atomic_load(&aio_written),
	       atomic_load(&reads), atomic_load(&stale));
	return atomic_load(&stale) != 0;
}
