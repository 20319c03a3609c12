/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef UTIL_ORDER_H
#define UTIL_ORDER_H
/* For the comparisons of trees and qsort(). */

#include <stdint.h>

/* -1, 0 or 1: a is less than, equal to or more than b. */
static inline int order_u64(uint64_t a, uint64_t b)
{
	return (a > b) - (a < b);
}

#endif
