/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * size_text.c - sizes as people write them: one reading of them for options and tunables.
 *
 * Invariants: (1) what does not fit into 64 bits is refused.
 * Locking: none.
 */
#include "util/size_text.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

static bool add_digit(uint64_t *value, char digit)
{
	uint64_t d = (uint64_t)(digit - '0');

	if (*value > (UINT64_MAX - d) / 10)
		return false;
	*value = *value * 10 + d;
	return true;
}

int size_from_text(const char *text, size_t len, uint64_t *bytes)
{
	static const char units[] = "kmgt";
	uint64_t value = 0;
	unsigned shift = 0;
	size_t i = 0;

	for (; i < len && text[i] >= '0' && text[i] <= '9'; i++)
		if (!add_digit(&value, text[i]))
			return -EINVAL;
	if (i == 0 || len - i > 1)
		return -EINVAL;
	if (i < len) {
		const char *unit = text[i] != '\0' ? strchr(units, text[i] | 0x20) : NULL;

		if (unit == NULL || *unit == '\0')
			return -EINVAL;
		shift = 10 * (unsigned)(unit - units + 1);
	}
	if (value > UINT64_MAX >> shift)
		return -EINVAL;
	*bytes = value << shift;
	return 0;
}
