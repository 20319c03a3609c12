/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef TESTS_LIB_PRNG_H
#define TESTS_LIB_PRNG_H
/* Reproducible randomness: the same seed gives the same numbers on every host. */

#include <stdbool.h>
#include <stdint.h>

struct prng {
	uint64_t p_state[4];
};

void prng_seed(struct prng *p, uint64_t seed);
uint64_t prng_next(struct prng *p);
/* 0 .. bound - 1; bound > 0. */
uint64_t prng_below(struct prng *p, uint64_t bound);
/* lo .. hi, both included. */
uint64_t prng_range(struct prng *p, uint64_t lo, uint64_t hi);
/* True in `num` of `den` cases. */
bool prng_chance(struct prng *p, uint32_t num, uint32_t den);
/* The seed of this run: EXT4D_TEST_SEED if set, else `fallback`; it is printed to stderr. */
uint64_t prng_seed_from_env(uint64_t fallback);

#endif
