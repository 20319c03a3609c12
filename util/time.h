/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef UTIL_TIME_H
#define UTIL_TIME_H
/* Clocks. Tests may replace them to run on virtual time. */

#include <stdint.h>
#include <time.h>

/* CLOCK_MONOTONIC in nanoseconds. */
uint64_t now_ns(void);
/* Wall clock for inode times. */
struct timespec now_real(void);
/* The cheap wall clock (tick resolution), as current_time() in the kernel. */
struct timespec now_coarse(void);

/* Tests: a fixed or stepped wall clock; NULL restores the real one. */
void time_set_real_hook(struct timespec (*hook)(void));

#endif
