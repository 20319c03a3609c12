/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef UTIL_TIME_H
#define UTIL_TIME_H
/* Clocks. Tests may replace them to run on virtual time. */

#include <stdint.h>
#include <time.h>

#define NSEC_PER_USEC UINT64_C(1000)
#define NSEC_PER_MSEC UINT64_C(1000000)
#define NSEC_PER_SEC UINT64_C(1000000000)

/* CLOCK_MONOTONIC in nanoseconds. */
uint64_t now_ns(void);
/* Wall clock for inode times. */
struct timespec now_real(void);
/* The cheap wall clock (tick resolution), as current_time() in the kernel. */
struct timespec now_coarse(void);

/* Tests: a fixed or stepped wall clock; NULL restores the real one. */
void time_set_real_hook(struct timespec (*hook)(void));

#endif
