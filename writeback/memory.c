/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * memory.c - how much memory the page cache may have.
 *
 * cache= or, without it, a quarter of the smaller of RAM and the limit of the process's cgroup (v2 or v1, any level up to the root); at most 1 GiB where addresses have 32 bits.
 *
 * Invariants: none. Locking: none.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "writeback/internal.h"

#define CACHE_FRACTION 4u
/*
 * What is read through the kernel is cached there; here lie the data on its way to the device and what is read ahead. More of
 * it only means more memory that is touched for the first time: a stream is then as slow as that.
 */
#define MAX_DEFAULT_BYTES (UINT64_C(256) << 20)
#define MAX_32BIT_BYTES (UINT64_C(1) << 30)
#define PATH_BYTES 512
#define CGROUP_LEVELS 32

static uint64_t ram_bytes(void)
{
	long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);

	return pages > 0 && size > 0 ? (uint64_t)pages * (uint64_t)size : UINT64_C(1) << 30;
}

/* A number in a file; UINT64_MAX if there is none ("max"). */
static uint64_t read_limit(const char *path)
{
	FILE *f = fopen(path, "re");
	uint64_t v;
	int n;

	if (f == NULL)
		return UINT64_MAX;
	n = fscanf(f, "%" SCNu64, &v);
	(void)fclose(f);
	return n == 1 ? v : UINT64_MAX;
}

/* The least limit on the way from the group to the root. */
static uint64_t group_limit(const char *mount, char *group, const char *file)
{
	uint64_t limit = UINT64_MAX;

	for (unsigned i = 0; i < CGROUP_LEVELS; i++) {
		char path[PATH_BYTES * 2];
		uint64_t v;
		char *slash;

		(void)snprintf(path, sizeof(path), "%s%s/%s", mount, group, file);
		v = read_limit(path);
		limit = v < limit ? v : limit;
		slash = strrchr(group, '/');
		if (slash == NULL)
			break;
		*slash = '\0';
	}
	return limit;
}

static uint64_t cgroup_limit(void)
{
	FILE *f = fopen("/proc/self/cgroup", "re");
	char line[PATH_BYTES];
	uint64_t limit = UINT64_MAX, v;

	if (f == NULL)
		return limit;
	while (fgets(line, sizeof(line), f) != NULL) {
		char *group = strchr(line, '/');

		if (group == NULL)
			continue;
		group[strcspn(group, "\n")] = '\0';
		v = UINT64_MAX;
		if (strncmp(line, "0::", 3) == 0)
			v = group_limit("/sys/fs/cgroup", group, "memory.max");
		else if (strstr(line, ":memory:") != NULL)
			v = group_limit("/sys/fs/cgroup/memory", group, "memory.limit_in_bytes");
		limit = v < limit ? v : limit;
	}
	(void)fclose(f);
	return limit;
}

uint64_t wb_usable_ram(void)
{
	uint64_t ram = ram_bytes(), limit = cgroup_limit();

	return limit < ram ? limit : ram;
}

uint64_t wb_cache_bytes(const struct ext4_options *opts, uint64_t ram)
{
	uint64_t bytes = ram / CACHE_FRACTION;

	if (bytes > MAX_DEFAULT_BYTES)
		bytes = MAX_DEFAULT_BYTES;
	if (opts->o_cache_bytes != 0)
		bytes = opts->o_cache_bytes;

	if (sizeof(void *) == 4 && bytes > MAX_32BIT_BYTES)
		bytes = MAX_32BIT_BYTES;
	return bytes;
}
