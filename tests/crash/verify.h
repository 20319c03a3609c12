/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef TESTS_CRASH_VERIFY_H
#define TESTS_CRASH_VERIFY_H
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "tests/crash/oracle.h"

/* A recovered file system as read through the mount. */
struct tree {
	struct found *t_found;
	unsigned t_nr, t_room;
	uint64_t t_hash; /* of everything found */
};

/*
 * Mount the image (recovery happens), read the whole tree, unmount. The image is changed as a mount changes it. 0, or a negative errno with the reason on `out`.
 */
int verify_mount(uint8_t *image, uint64_t size, struct tree *t, FILE *out);
void tree_free(struct tree *t);
/* `e2fsck ARGS` on the image: the exit code; its output goes to `out` if that is over max_rc. With write_back the image takes over the changes. */
int verify_fsck(uint8_t *image, uint64_t size, const char *args, int max_rc, bool write_back,
		FILE *out);

#endif
