/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * pressure.c - giving memory back to the host.
 *
 * At each periodic round of the flusher: when tasks of the host have waited for memory more than a tenth of the last ten seconds (PSI), half of the clean pages go; when
 * nothing was read or written for a minute, all of them. Slabs that are wholly free then are unregistered and given back; they come again when they are needed.
 *
 * The pressure file is opened at mount, before the process is confined.
 *
 * Invariants: (1) dirty pages, pages under writeback and pinned pages stay.
 * Locking: none; one thread.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "util/time.h"
#include "writeback/internal.h"

#define PSI_PATH "/proc/pressure/memory"
#define PSI_PERCENT 10
#define IDLE_NS (60 * NS_PER_SEC)
#define TRIM_BATCH 64u

void pressure_init(struct wb_domain *wb)
{
	wb->wb_psi_fd = open(PSI_PATH, O_RDONLY | O_CLOEXEC);
	wb->wb_busy_ns = now_ns();
}

void pressure_exit(struct wb_domain *wb)
{
	if (wb->wb_psi_fd >= 0)
		(void)close(wb->wb_psi_fd);
	wb->wb_psi_fd = -1;
}

/* Per cent of the last ten seconds in which some task waited for memory; 0 where the kernel does not say. */
static unsigned memory_pressure(const struct wb_domain *wb)
{
	char text[256];
	const char *value;
	ssize_t n;

	if (wb->wb_psi_fd < 0)
		return 0;
	n = pread(wb->wb_psi_fd, text, sizeof(text) - 1, 0);
	if (n <= 0)
		return 0;
	text[n] = '\0';
	value = strstr(text, "avg10=");
	return value != NULL ? (unsigned)strtoul(value + strlen("avg10="), NULL, 10) : 0;
}

uint64_t wb_trim_cache(struct wb_domain *wb, unsigned percent)
{
	uint32_t target;

	mutex_lock(&wb->wb_lru_lock);
	target = wb->wb_nr_lru - (uint32_t)((uint64_t)wb->wb_nr_lru * percent / 100);
	mutex_unlock(&wb->wb_lru_lock);
	for (;;) {
		uint32_t left;

		mutex_lock(&wb->wb_lru_lock);
		left = wb->wb_nr_lru;
		mutex_unlock(&wb->wb_lru_lock);
		if (left <= target || shrink_page_cache(wb, TRIM_BATCH) == 0)
			break;
	}
	return arena_trim(wb->wb_arena, 0);
}

/* True if the cache was used since the last look. */
static bool was_used(struct wb_domain *wb, uint64_t now)
{
	uint64_t uses = counter_read(&wb->wb_stats.ws_written_bytes) +
			counter_read(&wb->wb_stats.ws_read_bytes);

	if (uses != wb->wb_last_uses)
		wb->wb_busy_ns = now;
	wb->wb_last_uses = uses;
	return now - wb->wb_busy_ns < IDLE_NS;
}

void pressure_check(struct wb_domain *wb)
{
	uint64_t freed = 0;

	if (!was_used(wb, now_ns()))
		freed = wb_trim_cache(wb, 100);
	else if (memory_pressure(wb) >= PSI_PERCENT)
		freed = wb_trim_cache(wb, 50);
	counter_add(&wb->wb_stats.ws_given_back_bytes, freed);
}
