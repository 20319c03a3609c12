/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef UTIL_CRC32C_H
#define UTIL_CRC32C_H
#include <stddef.h>
#include <stdint.h>

/*
 * Castagnoli CRC, little-endian bit order, no inversion before or after: the seed goes in as it
 * is and the register comes out as it is, which is what ext4 and jbd2 checksums chain.
 * Uses the CPU's instruction where there is one.
 */
uint32_t crc32c(uint32_t seed, const void *data, size_t len_bytes);

#endif
