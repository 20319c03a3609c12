/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * cpus.c - sets of CPUs as text, and whether they may be used.
 *
 * What may be used is asked by doing it: neither the affinity of this process (which it could widen) nor the
 * number of CPUs says what a cgroup allows. A thread that lives for this alone binds itself and looks what came of it,
 * since an affinity that was set and put back is not what it was: it would not follow a cgroup that is widened later.
 *
 * Invariants: none.
 * Locking: none; a trial is its thread's until the join.
 */
#include "fuse/cpus.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

#include "util/assert.h"

struct trial {
	const cpu_set_t *t_wanted;
	cpu_set_t t_got; /* empty: none of them */
};

/* A number at *text, which is moved behind it. -1: none, or too large. */
static int take_number(const char **text)
{
	char *end;
	unsigned long v;

	if (**text < '0' || **text > '9')
		return -1;
	v = strtoul(*text, &end, 10);
	*text = end;
	return v < CPU_SETSIZE ? (int)v : -1;
}

int cpus_parse(const char *text, cpu_set_t *out)
{
	CPU_ZERO(out);
	for (;;) {
		int first = take_number(&text);
		int last = first;

		if (*text == '-') {
			text++;
			last = take_number(&text);
		}
		if (first < 0 || last < first)
			return -EINVAL;
		for (int cpu = first; cpu <= last; cpu++)
			CPU_SET((unsigned)cpu, out);
		if (*text == '\0')
			return 0;
		if (*text++ != ':')
			return -EINVAL;
	}
}

void cpus_print(const cpu_set_t *set, FILE *out)
{
	const char *before = "";

	for (unsigned cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		unsigned last = cpu;

		if (!CPU_ISSET(cpu, set))
			continue;
		while (last + 1 < CPU_SETSIZE && CPU_ISSET(last + 1, set))
			last++;
		fprintf(out, "%s%u", before, cpu);
		if (last > cpu)
			fprintf(out, "-%u", last);
		before = ":";
		cpu = last;
	}
}

unsigned cpus_nth(const cpu_set_t *set, unsigned n)
{
	unsigned cpu = 0;

	ASSERT(CPU_COUNT(set) > 0);
	n %= (unsigned)CPU_COUNT(set);
	for (;; cpu++)
		if (CPU_ISSET(cpu, set) && n-- == 0)
			return cpu;
}

static void *try_to_bind(void *arg)
{
	struct trial *t = arg;

	if (sched_setaffinity(0, sizeof(*t->t_wanted), t->t_wanted) != 0 ||
	    sched_getaffinity(0, sizeof(t->t_got), &t->t_got) != 0)
		CPU_ZERO(&t->t_got);
	return NULL;
}

int cpus_first_forbidden(const cpu_set_t *set)
{
	struct trial t = {.t_wanted = set};
	pthread_t thread;

	if (pthread_create(&thread, NULL, try_to_bind, &t) != 0)
		return -EAGAIN;
	pthread_join(thread, NULL);
	for (unsigned cpu = 0; cpu < CPU_SETSIZE; cpu++)
		if (CPU_ISSET(cpu, set) && !CPU_ISSET(cpu, &t.t_got))
			return (int)cpu;
	return -1;
}
