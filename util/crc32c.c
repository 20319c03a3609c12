/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * crc32c.c - the checksum of ext4 and jbd2.
 *
 * Three ways to the same value: slicing by eight over tables that are built at the first call, the
 * crc32 instruction of SSE4.2, and that of ARMv8. The first call looks at the CPU and puts the
 * chosen function into a pointer; later calls go through it.
 *
 * Invariants: (1) all three give the same result for any seed, length and alignment. (2) Data is
 * read byte-wise or through memcpy, so alignment never matters.
 * Locking: none; pthread_once builds the tables before the pointer is published.
 */
#include "util/crc32c.h"

#include <endian.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#ifdef __aarch64__
#include <sys/auxv.h>
#endif

#include "util/crc32c_impl.h"

#define CRC32C_POLY_REVERSED 0x82f63b78u
#define SLICES 8

static crc32c_fn choose_first;
static _Atomic(crc32c_fn *) chosen = choose_first; /* [atomic] */
static uint32_t table[SLICES][256];		   /* [const after init] */
static pthread_once_t table_once = PTHREAD_ONCE_INIT;

static void table_build(void)
{
	for (uint32_t i = 0; i < 256; i++) {
		uint32_t crc = i;

		for (int bit = 0; bit < 8; bit++)
			crc = (crc >> 1) ^ ((crc & 1) != 0 ? CRC32C_POLY_REVERSED : 0);
		table[0][i] = crc;
	}
	for (uint32_t i = 0; i < 256; i++)
		for (int s = 1; s < SLICES; s++)
			table[s][i] = (table[s - 1][i] >> 8) ^ table[0][table[s - 1][i] & 0xff];
}

static uint64_t load_le64(const uint8_t *p)
{
	uint64_t v;

	memcpy(&v, p, sizeof(v));
	return le64toh(v);
}

uint32_t crc32c_table(uint32_t crc, const void *data, size_t len_bytes)
{
	const uint8_t *p = data;

	pthread_once(&table_once, table_build);
	for (; len_bytes >= 8; len_bytes -= 8, p += 8) {
		uint64_t v = load_le64(p) ^ crc;

		crc = table[7][v & 0xff] ^ table[6][(v >> 8) & 0xff] ^ table[5][(v >> 16) & 0xff] ^
		      table[4][(v >> 24) & 0xff] ^ table[3][(v >> 32) & 0xff] ^
		      table[2][(v >> 40) & 0xff] ^ table[1][(v >> 48) & 0xff] ^ table[0][v >> 56];
	}
	for (; len_bytes > 0; len_bytes--, p++)
		crc = (crc >> 8) ^ table[0][(crc ^ *p) & 0xff];
	return crc;
}

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) static uint32_t crc32c_sse42(uint32_t crc, const void *data,
							       size_t len_bytes)
{
	const uint8_t *p = data;
	uint64_t wide = crc;

	for (; len_bytes >= 8; len_bytes -= 8, p += 8)
		wide = __builtin_ia32_crc32di(wide, load_le64(p));
	crc = (uint32_t)wide;
	for (; len_bytes > 0; len_bytes--, p++)
		crc = __builtin_ia32_crc32qi(crc, *p);
	return crc;
}

crc32c_fn *crc32c_instruction(void)
{
	__builtin_cpu_init();
	return __builtin_cpu_supports("sse4.2") ? crc32c_sse42 : NULL;
}
#elif defined(__aarch64__)
#define CRC_HWCAP_CRC32 (1ul << 7)

static uint32_t crc32c_armv8(uint32_t crc, const void *data, size_t len_bytes)
{
	const uint8_t *p = data;

	for (; len_bytes >= 8; len_bytes -= 8, p += 8) {
		uint64_t v = load_le64(p);

		__asm__(".arch_extension crc\n\tcrc32cx %w0, %w0, %x1" : "+r"(crc) : "r"(v));
	}
	for (; len_bytes > 0; len_bytes--, p++) {
		uint32_t v = *p;

		__asm__(".arch_extension crc\n\tcrc32cb %w0, %w0, %w1" : "+r"(crc) : "r"(v));
	}
	return crc;
}

crc32c_fn *crc32c_instruction(void)
{
	return (getauxval(AT_HWCAP) & CRC_HWCAP_CRC32) != 0 ? crc32c_armv8 : NULL;
}
#else
crc32c_fn *crc32c_instruction(void)
{
	return NULL;
}
#endif

static uint32_t choose_first(uint32_t crc, const void *data, size_t len_bytes)
{
	crc32c_fn *fn = crc32c_instruction();

	if (fn == NULL)
		fn = crc32c_table;
	atomic_store_explicit(&chosen, fn, memory_order_release);
	return fn(crc, data, len_bytes);
}

uint32_t crc32c(uint32_t seed, const void *data, size_t len_bytes)
{
	crc32c_fn *fn = atomic_load_explicit(&chosen, memory_order_acquire);

	return fn(seed, data, len_bytes);
}
