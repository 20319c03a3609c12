/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * many.c - creates, checks or removes many small files in one directory.
 *
 * many create|stat|unlink|check FOLDER COUNT [BYTES]: names f0000000 and so on; a file's content is its number, repeated.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static uint32_t content[16384];

static int fail(const char *what, const char *name)
{
	fprintf(stderr, "many: %s %s: %s\n", what, name, strerror(errno));
	return 1;
}

static void fill(uint32_t number)
{
	for (size_t i = 0; i < sizeof(content) / sizeof(content[0]); i++)
		content[i] = number;
}

static int create(const char *name, uint32_t number, size_t bytes)
{
	int fd = open(name, O_CREAT | O_WRONLY, 0644);

	if (fd < 0)
		return fail("create", name);
	if (bytes) {
		fill(number);
		if (write(fd, content, bytes) != (ssize_t)bytes)
			return fail("write", name);
	}
	return close(fd) ? fail("close", name) : 0;
}

static int check(const char *name, uint32_t number, size_t bytes)
{
	static uint32_t got[16385];
	int fd = open(name, O_RDONLY);

	if (fd < 0)
		return fail("open", name);
	fill(number);
	if (read(fd, got, bytes + 4) != (ssize_t)bytes || memcmp(got, content, bytes)) {
		fprintf(stderr, "many: %s has other content\n", name);
		return 1;
	}
	return close(fd) ? fail("close", name) : 0;
}

static int one(const char *what, const char *name, uint32_t number, size_t bytes)
{
	struct stat st;

	if (!strcmp(what, "create"))
		return create(name, number, bytes);
	if (!strcmp(what, "check"))
		return check(name, number, bytes);
	if (!strcmp(what, "stat"))
		return stat(name, &st) ? fail("stat", name) : 0;
	return unlink(name) ? fail("unlink", name) : 0;
}

int main(int argc, char **argv)
{
	uint32_t count;
	size_t bytes;
	char name[64];

	if (argc < 4) {
		fprintf(stderr, "usage: many create|stat|unlink|check FOLDER COUNT [BYTES]\n");
		return 2;
	}
	count = (uint32_t)strtoul(argv[3], NULL, 0);
	bytes = argc > 4 ? strtoul(argv[4], NULL, 0) : 0;
	if (bytes > sizeof(content) || chdir(argv[2]))
		return fail("chdir", argv[2]);
	for (uint32_t i = 0; i < count; i++) {
		snprintf(name, sizeof(name), "f%07u", i);
		if (one(argv[1], name, i, bytes))
			return 1;
	}
	return 0;
}
