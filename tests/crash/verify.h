/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef TESTS_CRASH_VERIFY_H
#define TESTS_CRASH_VERIFY_H
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "tests/crash/oracle.h"

/* A recovered file system as read through the mount. */
struct tree {
	struct found *t_found;
	unsigned t_nr, t_room;
	uint64_t t_hash; /* of everything found */
	uint64_t t_hash_no_xattr;
};

/*
 * Mount the image (recovery happens), read the whole tree, unmount. The image is changed as a mount changes it. 0, or a negative errno with the reason on `out`.
 */
int verify_mount(uint8_t *image, uint64_t size, struct tree *t, FILE *out);
void tree_free(struct tree *t);
/*
 * The same through a mount of the kernel on `dir`, by a loop device; the image takes over the changes.
 */
int verify_kernel(uint8_t *image, uint64_t size, const char *dir, struct tree *t, FILE *out);
/* `ARGS FILE` with the image in the file: the exit code; its output goes to `out` if that is over max_rc. With write_back the image takes over the changes. */
int verify_command(uint8_t *image, uint64_t size, const char *args, int max_rc, bool write_back,
		   FILE *out);

/* ---- Shared by both ways to read a tree ---- */

/* A new object, all zero. */
struct found *tree_add(struct tree *t);
void tree_hash(struct tree *t, const struct found *f);
/* n bytes of user.x, or a negative errno: into f_xattr. */
int verify_xattr(const uint8_t *value, ssize_t n, struct found *f);
/* Where an image is put for other programs, one for each process; out: write it there, else read it back. */
void verify_path(char *path, size_t room);
bool verify_transfer(const char *path, uint8_t *image, uint64_t size, bool out);

#endif
