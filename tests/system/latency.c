/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * latency DIR FILE SECONDS: how long other people's calls take while somebody else is throttled. Prints the number of rounds and the 99th percentiles, in microseconds, of a
 * lookup that reaches the server (a name that was never asked for) and of a read of FILE through the server's cache (opened anew, the kernel's copy dropped).
 */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define ROUNDS_MAX 100000u

static uint64_t now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000u + (uint64_t)t.tv_nsec / 1000u;
}

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static uint64_t percentile(uint64_t *us, unsigned n, unsigned percent)
{
	qsort(us, n, sizeof(us[0]), compare);
	return us[(size_t)(n - 1) * percent / 100];
}

static void must(int ok, const char *what)
{
	if (ok)
		return;
	perror(what);
	exit(1);
}

static uint64_t time_lookup(const char *dir, unsigned n)
{
	char path[4096];
	struct stat st;
	uint64_t t0;

	snprintf(path, sizeof(path), "%s/no-such-name-%d-%u", dir, (int)getpid(), n);
	t0 = now_us();
	must(stat(path, &st) != 0 && errno == ENOENT, path);
	return now_us() - t0;
}

static uint64_t time_read(const char *file, unsigned n)
{
	static char buf[4096];
	off_t pos = (off_t)(n % 64) * (off_t)sizeof(buf);
	int fd = open(file, O_RDONLY);
	uint64_t t0;

	must(fd >= 0, file);
	must(posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED) == 0, file);
	t0 = now_us();
	must(pread(fd, buf, sizeof(buf), pos) == (ssize_t)sizeof(buf), file);
	t0 = now_us() - t0;
	close(fd);
	return t0;
}

int main(int argc, char **argv)
{
	static uint64_t lookup[ROUNDS_MAX], reading[ROUNDS_MAX];
	uint64_t end;
	unsigned n = 0;

	if (argc != 4)
		return 2;
	end = now_us() + strtoul(argv[3], NULL, 10) * 1000000u;
	while (now_us() < end && n < ROUNDS_MAX) {
		lookup[n] = time_lookup(argv[1], n);
		reading[n] = time_read(argv[2], n);
		n++;
		usleep(2000);
	}
	printf("rounds %u lookup_p99_us %llu read_p99_us %llu\n", n,
	       (unsigned long long)percentile(lookup, n, 99),
	       (unsigned long long)percentile(reading, n, 99));
	return 0;
}
