/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * creates.c - how many files a second: open(O_CREAT|O_WRONLY) and close, in one directory.
 *
 * creates FOLDER COUNT: prints files per second.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	struct timespec a, b;
	long count;
	char name[32];

	if (argc < 3 || chdir(argv[1])) {
		fprintf(stderr, "usage: creates FOLDER COUNT\n");
		return 2;
	}
	count = strtol(argv[2], NULL, 0);
	clock_gettime(CLOCK_MONOTONIC, &a);
	for (long i = 0; i < count; i++) {
		snprintf(name, sizeof(name), "f%07ld", i);
		int fd = open(name, O_CREAT | O_WRONLY, 0644);

		if (fd < 0 || close(fd)) {
			fprintf(stderr, "creates: %s: %s\n", name, strerror(errno));
			return 1;
		}
	}
	clock_gettime(CLOCK_MONOTONIC, &b);
	double s = (double)(b.tv_sec - a.tv_sec) + (double)(b.tv_nsec - a.tv_nsec) / 1e9;

	printf("%.0f\n", (double)count / s);
	return 0;
}
