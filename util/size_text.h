/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef UTIL_SIZE_TEXT_H
#define UTIL_SIZE_TEXT_H
/* Sizes as people write them. */

#include <stddef.h>
#include <stdint.h>

/*
 * A decimal number, and k, m, g or t in either case for a power of 1024: all `len` characters of text. 0, or -EINVAL (also if it does not fit) and *bytes is
 * unchanged.
 */
int size_from_text(const char *text, size_t len, uint64_t *bytes);

#endif
