/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * handles.c - file handles: name_to_handle_at(2) and open_by_handle_at(2).
 *
 * sys_handles save PATH HANDLE              the handle of what has this name (of a symbolic link: its own) goes into a file
 * sys_handles made-up HANDLE NUMBER GENERATION|same OUT   the same handle with other numbers in it
 * sys_handles open DIR HANDLE [PATH]        opens it below the mount of DIR; with PATH it must be the same file with the same content
 * sys_handles storm DIR SECONDS             opens any number by handle while files are made and removed
 *
 * Exit code 0: done; 3: ESTALE; 1: anything else, with the reason.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define HANDLE_BYTES 64u
#define EXIT_STALE 3
#define STORM_FILES 64u
#define STORM_NUMBERS 256u

/* As the kernel makes them for FUSE: the upper and the lower half of the nodeid, the generation. */
#define FUSE_HANDLE_TYPE 0x81

struct handle {
	struct file_handle h_head;
	unsigned char h_bytes[HANDLE_BYTES]; /* f_handle */
};

static int die(const char *what)
{
	int err = errno;

	if (err == ESTALE)
		return EXIT_STALE;
	fprintf(stderr, "sys_handles: %s: %s\n", what, strerror(err));
	return 1;
}

static int fail(const char *what)
{
	fprintf(stderr, "sys_handles: %s\n", what);
	return 1;
}

/* ---- Handles in files ---- */

static int load(const char *path, struct handle *h)
{
	FILE *in = fopen(path, "r");
	size_t n = in != NULL ? fread(h, sizeof(*h), 1, in) : 0;

	if (in != NULL)
		fclose(in);
	return n == 1 ? 0 : fail("no handle in the file");
}

static int store(const char *path, const struct handle *h)
{
	FILE *out = fopen(path, "w");

	if (out == NULL || fwrite(h, sizeof(*h), 1, out) != 1 || fclose(out) != 0)
		return die(path);
	return 0;
}

static int handle_of(const char *path, struct handle *h)
{
	int mount_id;

	memset(h, 0, sizeof(*h));
	h->h_head.handle_bytes = HANDLE_BYTES;
	return name_to_handle_at(AT_FDCWD, path, &h->h_head, &mount_id, 0);
}

static int save(const char *path, const char *to)
{
	struct handle h;

	return handle_of(path, &h) != 0 ? die(path) : store(to, &h);
}

static void set_numbers(struct handle *h, uint64_t number, uint32_t generation)
{
	uint32_t words[3] = {(uint32_t)(number >> 32), (uint32_t)number, generation};

	memcpy(h->h_head.f_handle, words, sizeof(words));
}

static uint32_t generation_of(const struct handle *h)
{
	uint32_t generation;

	memcpy(&generation, h->h_head.f_handle + 8, sizeof(generation));
	return generation;
}

static int made_up(const char *from, const char *number, const char *generation, const char *to)
{
	struct handle h;
	uint32_t word;

	if (load(from, &h) != 0)
		return 1;
	if (h.h_head.handle_type != FUSE_HANDLE_TYPE)
		return fail("a handle of another type");
	word = strcmp(generation, "same") == 0 ? generation_of(&h)
					       : (uint32_t)strtoul(generation, NULL, 0);
	set_numbers(&h, strtoull(number, NULL, 0), word);
	return store(to, &h);
}

/* ---- Opening ---- */

/* 0: the same bytes. */
static int compare_content(int fd, const char *path)
{
	char a[4096], b[4096];
	ssize_t n;
	int other = open(path, O_RDONLY), rc = 0;

	if (other < 0)
		return die(path);
	do {
		n = read(other, b, sizeof(b));
		if (read(fd, a, sizeof(a)) != n || (n > 0 && memcmp(a, b, (size_t)n) != 0))
			rc = fail("another content");
	} while (n > 0 && rc == 0);
	close(other);
	return rc;
}

static int compare_links(int fd, const char *path)
{
	char a[4096], b[4096];
	ssize_t n = readlinkat(fd, "", a, sizeof(a));

	if (n <= 0 || readlink(path, b, sizeof(b)) != n || memcmp(a, b, (size_t)n) != 0)
		return fail("another target");
	return 0;
}

static int compare(int fd, const char *path)
{
	struct stat a, b;

	if (fstat(fd, &a) != 0 || lstat(path, &b) != 0)
		return die(path);
	if (a.st_dev != b.st_dev || a.st_ino != b.st_ino || a.st_mode != b.st_mode ||
	    a.st_size != b.st_size || a.st_nlink != b.st_nlink)
		return fail("another file");
	if (S_ISREG(a.st_mode))
		return compare_content(fd, path);
	return S_ISLNK(a.st_mode) ? compare_links(fd, path) : 0;
}

/* A directory found by its handle has its place in the tree. */
static int compare_place(int fd, const char *path)
{
	char link[64], name[4096];
	ssize_t n;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = readlink(link, name, sizeof(name) - 1);
	if (n < 0)
		return die(link);
	name[n] = '\0';
	return strcmp(name, path) == 0 ? 0 : fail("a directory in another place");
}

static int open_handle(const char *dir, const char *from, const char *path)
{
	int mount_fd = open(dir, O_RDONLY | O_DIRECTORY), fd, rc = 0;
	struct handle h;
	struct stat st;

	if (mount_fd < 0)
		return die(dir);
	if (load(from, &h) != 0)
		return 1;
	/* A link can only be held by its path, a pipe only be opened without waiting. */
	fd = open_by_handle_at(mount_fd, &h.h_head, O_RDONLY | O_NONBLOCK);
	if (fd < 0 && errno == ELOOP)
		fd = open_by_handle_at(mount_fd, &h.h_head, O_PATH | O_NOFOLLOW);
	if (fd < 0)
		return die("open_by_handle_at");
	if (path != NULL)
		rc = compare(fd, path);
	if (path != NULL && rc == 0 && fstat(fd, &st) == 0 && S_ISDIR(st.st_mode))
		rc = compare_place(fd, path);
	close(fd);
	close(mount_fd);
	return rc;
}

/* ---- Storm ---- */

static const char *storm_dir;
static atomic_bool storm_end;
static atomic_uint storm_opened, storm_wrong, storm_made;

/* Each file holds its own number. */
static void *make_files(void *arg)
{
	unsigned first = *(unsigned *)arg;
	char path[4096];

	for (unsigned i = 0; !atomic_load(&storm_end); i++) {
		struct stat st;
		int fd;

		snprintf(path, sizeof(path), "%s/%u", storm_dir, first + i % STORM_FILES);
		unlink(path);
		fd = open(path, O_RDWR | O_CREAT | O_EXCL, 0644);
		if (fd < 0)
			continue;
		if (fstat(fd, &st) == 0 &&
		    write(fd, &st.st_ino, sizeof(st.st_ino)) == sizeof(st.st_ino))
			atomic_fetch_add(&storm_made, 1);
		close(fd);
	}
	return NULL;
}

static void open_one(int mount_fd, struct handle *h)
{
	struct stat st;
	ino_t number = 0;
	int fd = open_by_handle_at(mount_fd, &h->h_head, O_RDONLY | O_NONBLOCK);

	if (fd < 0) {
		if (errno != ESTALE && errno != ENOENT && atomic_fetch_add(&storm_wrong, 1) < 5)
			fprintf(stderr, "sys_handles: open_by_handle_at: %s\n", strerror(errno));
		return;
	}
	atomic_fetch_add(&storm_opened, 1);
	if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) &&
	    read(fd, &number, sizeof(number)) == sizeof(number) && number != st.st_ino &&
	    atomic_fetch_add(&storm_wrong, 1) < 5)
		fprintf(stderr, "sys_handles: number %lu in file %lu\n", (unsigned long)number,
			(unsigned long)st.st_ino);
	close(fd);
}

/* Any number of a file with any generation; and names, whose handle is soon old. */
static void *open_files(void *arg)
{
	unsigned seed = *(unsigned *)arg;
	int mount_fd = open(storm_dir, O_RDONLY | O_DIRECTORY);
	char path[4096];

	while (!atomic_load(&storm_end)) {
		unsigned pick = (unsigned)rand_r(&seed);
		struct handle h;

		snprintf(path, sizeof(path), "%s/%u", storm_dir, pick % (2 * STORM_FILES));
		if (handle_of(path, &h) != 0)
			continue;
		open_one(mount_fd, &h);
		set_numbers(&h, pick / 256 % STORM_NUMBERS, generation_of(&h));
		open_one(mount_fd, &h);
	}
	close(mount_fd);
	return NULL;
}

static int storm(const char *dir, const char *seconds)
{
	struct timespec length = {.tv_sec = (time_t)strtol(seconds, NULL, 10)};
	unsigned args[4] = {0, STORM_FILES, 1, 2};
	pthread_t threads[4];

	storm_dir = dir;
	for (unsigned i = 0; i < 4; i++)
		if (pthread_create(&threads[i], NULL, i < 2 ? make_files : open_files, &args[i]) !=
		    0)
			return fail("no thread");
	nanosleep(&length, NULL);
	atomic_store(&storm_end, true);
	for (unsigned i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	printf("%u files made, %u opened by handle, %u wrong\n", atomic_load(&storm_made),
	       atomic_load(&storm_opened), atomic_load(&storm_wrong));
	return atomic_load(&storm_wrong) != 0 || atomic_load(&storm_opened) == 0;
}

int main(int argc, char **argv)
{
	if (argc == 4 && strcmp(argv[1], "save") == 0)
		return save(argv[2], argv[3]);
	if (argc == 6 && strcmp(argv[1], "made-up") == 0)
		return made_up(argv[2], argv[3], argv[4], argv[5]);
	if ((argc == 4 || argc == 5) && strcmp(argv[1], "open") == 0)
		return open_handle(argv[2], argv[3], argv[4]);
	if (argc == 4 && strcmp(argv[1], "storm") == 0)
		return storm(argv[2], argv[3]);
	return fail("save, made-up, open or storm");
}
