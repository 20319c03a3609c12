/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef UTIL_CRC32C_IMPL_H
#define UTIL_CRC32C_IMPL_H
/* The ways to compute crc32c(), for the tests that compare them. Everybody else uses util/crc32c.h. */

#include <stddef.h>
#include <stdint.h>

typedef uint32_t crc32c_fn(uint32_t crc, const void *data, size_t len_bytes);

crc32c_fn crc32c_table;
/* The CPU's instruction, or NULL where it has none. */
crc32c_fn *crc32c_instruction(void);

#endif
