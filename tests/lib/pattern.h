/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef TESTS_LIB_PATTERN_H
#define TESTS_LIB_PATTERN_H
/* Bytes that say where they belong: byte at position `pos` of stream `tag`. Never zero. */

#include <stddef.h>
#include <stdint.h>

uint8_t pattern_byte(uint64_t tag, uint64_t pos);
/* Fill len_bytes of buf with the bytes of stream `tag` from `pos` on. */
void pattern_fill(void *buf, size_t len_bytes, uint64_t tag, uint64_t pos);
/* The offset in buf of the first byte that differs, or -1. */
int64_t pattern_mismatch(const void *buf, size_t len_bytes, uint64_t tag, uint64_t pos);
/* The offset of the first byte that is not `value`, or -1. */
int64_t bytes_mismatch(const void *buf, size_t len_bytes, uint8_t value);
/* ck_abort with the place and both bytes unless all is as pattern_fill() made it. */
void pattern_check(const void *buf, size_t len_bytes, uint64_t tag, uint64_t pos);

#endif
