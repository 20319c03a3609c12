/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef FUSE_CONTROL_TEXT_H
#define FUSE_CONTROL_TEXT_H
/* The files of .ext4d: what they say and what writing to them does. */

#include "fuse/front.h"

struct control_file {
	const char *cf_name;
	/* Write the content to out. NULL: a directory, or write-only. */
	void (*cf_print)(struct front *f, const struct control_file *cf, FILE *out);
	/* text is one value without the newline. 0 or a negative errno, then nothing has changed. NULL: read-only. */
	int (*cf_write)(struct front *f, const struct control_file *cf, const char *text);
	bool cf_dir;
	bool cf_pipe; /* reading takes events out of the ring: trace_pipe.c */
};

/* Fixed files, in .ext4d and in .ext4d/tunables; the tunables of the writeback layer come on top. NULL name ends. */
extern const struct control_file control_files[];
extern const struct control_file control_own_tunables[];
/* How a tunable of the writeback layer is shown and changed; cf_name is its name. */
void control_tunable_print(struct front *f, const struct control_file *cf, FILE *out);
int control_tunable_write(struct front *f, const struct control_file *cf, const char *text);

#endif
