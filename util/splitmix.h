/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef UTIL_SPLITMIX_H
#define UTIL_SPLITMIX_H
/* splitmix64: well spread numbers from one word of state, the same on every host. Not for secrets. */

#include <stdint.h>

/* The state moves by this with each number. */
#define SPLITMIX64_STEP UINT64_C(0x9e3779b97f4a7c15)

static inline uint64_t splitmix64(uint64_t *state)
{
	uint64_t z = *state += SPLITMIX64_STEP;

	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return z ^ (z >> 31);
}

#endif
