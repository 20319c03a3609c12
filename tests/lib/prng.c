/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * prng.c - the generator xoshiro256**, seeded by splitmix64.
 *
 * Invariants: (1) the state is never all zero.
 * Locking: none; a generator belongs to one thread.
 */
#include "tests/lib/prng.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "util/assert.h"
#include "util/splitmix.h"

static uint64_t rotate_left(uint64_t v, unsigned n)
{
	return (v << n) | (v >> (64 - n));
}

void prng_seed(struct prng *p, uint64_t seed)
{
	for (unsigned i = 0; i < 4; i++)
		p->p_state[i] = splitmix64(&seed);
}

uint64_t prng_next(struct prng *p)
{
	uint64_t *s = p->p_state;
	uint64_t result = rotate_left(s[1] * 5, 7) * 9;
	uint64_t t = s[1] << 17;

	s[2] ^= s[0];
	s[3] ^= s[1];
	s[1] ^= s[2];
	s[0] ^= s[3];
	s[2] ^= t;
	s[3] = rotate_left(s[3], 45);
	return result;
}

uint64_t prng_below(struct prng *p, uint64_t bound)
{
	ASSERT(bound > 0);
	return prng_next(p) % bound;
}

uint64_t prng_range(struct prng *p, uint64_t lo, uint64_t hi)
{
	ASSERT_CMP(lo, <=, hi);
	return lo + prng_below(p, hi - lo + 1);
}

bool prng_chance(struct prng *p, uint32_t num, uint32_t den)
{
	return prng_below(p, den) < num;
}

uint64_t prng_seed_from_env(uint64_t fallback)
{
	const char *text = getenv("EXT4D_TEST_SEED");
	uint64_t seed = text != NULL ? strtoull(text, NULL, 0) : fallback;

	fprintf(stderr, "seed %" PRIu64 " (EXT4D_TEST_SEED=%" PRIu64 " repeats it)\n", seed, seed);
	return seed;
}
