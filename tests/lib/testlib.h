/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef TESTS_LIB_TESTLIB_H
#define TESTS_LIB_TESTLIB_H
/*
 * File systems in memory for tests. Temporary files are made in $TMPDIR (else /tmp) and are gone
 * when the call returns. Anything that a test cannot go on without ends it with ck_abort_msg().
 */

#include <stdint.h>

#include "block/blkdev.h"

/* A mem device that holds what `mke2fs -F -q ARGS file` makes of size_bytes; logical blocks of 512 bytes. */
struct blkdev *testlib_mkfs(const char *mke2fs_args, uint64_t size_bytes);
/*
 * The same, and then `debugfs -w -f -` runs the commands (separated by newlines) on it; files they
 * name are those of the host. NULL: none.
 */
struct blkdev *testlib_mkfs_debugfs(const char *mke2fs_args, uint64_t size_bytes,
				    const char *debugfs_commands);
/* `e2fsck -fn` on a dump of the device: its exit code; its output goes to stderr if that is not 0. */
int testlib_fsck(struct blkdev *bd);
/* e2fsck with other arguments, for example "-fy"; the device takes over what it changed. */
int testlib_fsck_args(struct blkdev *bd, const char *args);
/* The output of debugfs -R COMMAND on a dump of the device. The caller frees it. */
char *testlib_debugfs(struct blkdev *bd, const char *command);
/* Write the device to a file (zero blocks as holes), and read it back. 0 or a negative errno. */
int testlib_dump(struct blkdev *bd, const char *path);
int testlib_load(struct blkdev *bd, const char *path);
/* A new mem device with the same content. */
struct blkdev *testlib_clone(struct blkdev *bd);
/* The path of a new empty temporary file. The caller unlinks and frees it. */
char *testlib_tempfile(void);
/* For a process that forks tests: their temporary files are its own from now on, and the second call removes what they left. */
void testlib_own_tempfiles(void);
void testlib_remove_tempfiles(void);
/*
 * Run a shell command; *output (may be NULL: not wanted) is what it printed, both streams; the caller frees it.
 * Returns the exit code, 127 if it could not be run or was killed.
 */
int testlib_run(const char *command, char **output);

#endif
