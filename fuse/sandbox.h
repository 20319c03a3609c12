/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef FUSE_SANDBOX_H
#define FUSE_SANDBOX_H
/* Giving up what the daemon does not need: it reads images that it does not trust. */

#include <stdbool.h>

/*
 * Before the first thread: no capability is left, nor can one be gained; keep_files keeps CAP_DAC_OVERRIDE, for
 * files that are opened later by name. 0 or a negative errno.
 */
int sandbox_drop_capabilities(bool keep_files);
/* When everything is open and mounted: system calls that the daemon does not need fail from now on, in all threads. 0 or a negative errno. */
int sandbox_filter_calls(void);
/* False in builds that cannot run under a filter (sanitizers). */
bool sandbox_possible(void);

#endif
