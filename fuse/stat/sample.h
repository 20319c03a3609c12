/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef FUSE_STAT_SAMPLE_H
#define FUSE_STAT_SAMPLE_H
/* What .ext4d/stats said at one time. */

#include <stddef.h>
#include <stdint.h>

struct sample_value {
	char sv_name[96];
	uint64_t sv_value;
};

struct sample {
	struct sample_value *sm_values;
	size_t sm_nr;
};

/* "name value" lines; others are left out. 0 or -ENOMEM. */
int sample_parse(struct sample *sm, const char *text);
/* Read the statistics of the file system mounted at dir. 0 or a negative errno: -ENOENT: no such file, -ENOTDIR, -EACCES ... */
int sample_read(struct sample *sm, const char *dir);
void sample_free(struct sample *sm);
/* 0 if there is no such value. */
uint64_t sample_get(const struct sample *sm, const char *name);
/* By how much it grew since `before`. */
uint64_t sample_delta(const struct sample *before, const struct sample *now, const char *name);

#endif
