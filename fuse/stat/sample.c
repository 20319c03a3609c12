/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * sample.c - .ext4d/stats, read and looked up by name.
 *
 * The file is opened anew for each sample, so that watching a mount does not keep it from being unmounted.
 *
 * Invariants: none. Locking: none.
 */
#include "fuse/stat/sample.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define STATS_FILE ".ext4d/stats"
#define FIRST_ROOM 512u

static int add(struct sample *sm, size_t *room, const struct sample_value *sv)
{
	if (sm->sm_nr == *room) {
		size_t more = *room == 0 ? FIRST_ROOM : *room * 2;
		struct sample_value *p = realloc(sm->sm_values, more * sizeof(*p));

		if (p == NULL)
			return -ENOMEM;
		sm->sm_values = p;
		*room = more;
	}
	sm->sm_values[sm->sm_nr++] = *sv;
	return 0;
}

int sample_parse(struct sample *sm, const char *text)
{
	size_t room = 0;
	int err = 0;

	memset(sm, 0, sizeof(*sm));
	while (err == 0 && *text != '\0') {
		struct sample_value sv;

		if (sscanf(text, "%95s %" SCNu64, sv.sv_name, &sv.sv_value) == 2)
			err = add(sm, &room, &sv);
		text += strcspn(text, "\n");
		text += *text == '\n';
	}
	if (err != 0)
		sample_free(sm);
	return err;
}

/* The whole file, ended with 0; NULL with errno set. */
static char *read_all(int fd)
{
	size_t room = 0, len = 0;
	char *text = NULL;
	ssize_t n = -1;

	do {
		if (room - len < 4096) {
			char *p = realloc(text, room + 32768);

			if (p == NULL)
				break;
			text = p;
			room += 32768;
		}
		n = read(fd, text + len, room - len - 1);
		if (n > 0)
			len += (size_t)n;
	} while (n > 0);
	if (text == NULL || n != 0) {
		free(text);
		return NULL;
	}
	text[len] = '\0';
	return text;
}

int sample_read(struct sample *sm, const char *dir)
{
	char path[4096];
	char *text;
	int fd, err;

	if ((size_t)snprintf(path, sizeof(path), "%s/" STATS_FILE, dir) >= sizeof(path))
		return -ENAMETOOLONG;
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	errno = ENOMEM;
	text = read_all(fd);
	err = text != NULL ? sample_parse(sm, text) : -errno;
	free(text);
	close(fd);
	return err;
}

void sample_free(struct sample *sm)
{
	free(sm->sm_values);
	sm->sm_values = NULL;
	sm->sm_nr = 0;
}

uint64_t sample_get(const struct sample *sm, const char *name)
{
	for (size_t i = 0; i < sm->sm_nr; i++)
		if (strcmp(sm->sm_values[i].sv_name, name) == 0)
			return sm->sm_values[i].sv_value;
	return 0;
}

uint64_t sample_delta(const struct sample *before, const struct sample *now, const char *name)
{
	uint64_t a = sample_get(before, name), b = sample_get(now, name);

	return b > a ? b - a : 0;
}
