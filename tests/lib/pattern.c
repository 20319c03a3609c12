/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * pattern.c - test data that shows where a misplaced byte came from.
 *
 * Eight positions share one mixed word, of which each takes a byte, so a shift by any number of
 * bytes or blocks and a swap of streams are seen.
 *
 * Invariants: (1) no byte is zero, so a hole never passes for data.
 * Locking: none.
 */
#include "tests/lib/pattern.h"

#include <check.h>
#include <inttypes.h>

static uint64_t pattern_word(uint64_t tag, uint64_t word)
{
	uint64_t z = (tag + 1) * UINT64_C(0xd6e8feb86659fd93) + word * UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ (z >> 32)) * UINT64_C(0xd6e8feb86659fd93);
	return z ^ (z >> 32);
}

static uint8_t byte_of_word(uint64_t word, uint64_t pos)
{
	uint8_t byte = (uint8_t)(word >> (8 * (pos % 8)));

	return byte != 0 ? byte : 0x5a;
}

uint8_t pattern_byte(uint64_t tag, uint64_t pos)
{
	return byte_of_word(pattern_word(tag, pos / 8), pos);
}

void pattern_fill(void *buf, size_t len_bytes, uint64_t tag, uint64_t pos)
{
	uint8_t *p = buf;
	uint64_t word = pattern_word(tag, pos / 8);

	for (size_t i = 0; i < len_bytes; i++, pos++) {
		if (pos % 8 == 0)
			word = pattern_word(tag, pos / 8);
		p[i] = byte_of_word(word, pos);
	}
}

int64_t pattern_mismatch(const void *buf, size_t len_bytes, uint64_t tag, uint64_t pos)
{
	const uint8_t *p = buf;
	uint64_t word = pattern_word(tag, pos / 8);

	for (size_t i = 0; i < len_bytes; i++, pos++) {
		if (pos % 8 == 0)
			word = pattern_word(tag, pos / 8);
		if (p[i] != byte_of_word(word, pos))
			return (int64_t)i;
	}
	return -1;
}

int64_t bytes_mismatch(const void *buf, size_t len_bytes, uint8_t value)
{
	const uint8_t *p = buf;

	for (size_t i = 0; i < len_bytes; i++)
		if (p[i] != value)
			return (int64_t)i;
	return -1;
}

void pattern_check(const void *buf, size_t len_bytes, uint64_t tag, uint64_t pos)
{
	int64_t at = pattern_mismatch(buf, len_bytes, tag, pos);

	if (at >= 0)
		ck_abort_msg("stream %" PRIu64 " differs at %" PRIu64 ": 0x%02x instead of 0x%02x",
			     tag, pos + (uint64_t)at, ((const uint8_t *)buf)[at],
			     pattern_byte(tag, pos + (uint64_t)at));
}
