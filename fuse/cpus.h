/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef FUSE_CPUS_H
#define FUSE_CPUS_H
/* Sets of CPUs as text. */

#include <sched.h>
#include <stdio.h>

/* "0-3:8" is CPUs 0 to 3 and 8. 0, or -EINVAL: not such a list, empty, or a number of CPU_SETSIZE or more. */
int cpus_parse(const char *text, cpu_set_t *out);
/* The same form, each run of numbers as a range; nothing for an empty set. */
void cpus_print(const cpu_set_t *set, FILE *out);
/* The n-th CPU of the set, counted from 0 and round again; the set is not empty. */
unsigned cpus_nth(const cpu_set_t *set, unsigned n);
/*
 * The first CPU of the set that a thread of this process cannot be bound to: there is none of that number, or the
 * cgroup forbids it. -1: all can be used. The caller's own affinity stays what it is. -EAGAIN: it could not be tried.
 */
int cpus_first_forbidden(const cpu_set_t *set);

#endif
