/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * tunables.c - the switches of the writeback engine, by name, changeable while mounted.
 *
 * A value is one word: a switch has names for its values, a number has limits. Readers take the word when they begin something and keep it to the end of that.
 * As in /proc/sys/vm, dirty_bytes and dirty_ratio exclude each other: the one set last counts.
 *
 * Invariants: (1) a bad value changes nothing.
 * Locking: atomic words.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "util/size_text.h"
#include "writeback/internal.h"

struct tunable {
	const char *t_name;
	const char *const *t_values; /* a switch: names in order, NULL ends */
	uint64_t t_default;
	uint64_t t_min, t_max; /* a number */
	bool t_size;	       /* of bytes: may have a unit */
};

static const char *const budget_values[] = {"before_add", "after_add", NULL};
static const char *const off_on_values[] = {"off", "on", NULL};
static const char *const passes_values[] = {"async_then_wait", "wait_only", NULL};
static const char *const commit_values[] = {"end", "each", NULL};
static const char *const order_values[] = {"bdi_first", "global_first", NULL};
static const char *const throttle_values[] = {"ioless", "2009", NULL};
static const char *const bump_values[] = {"x8", "contig", "x16", "x1", NULL};
static const char *const chunk_values[] = {"bandwidth", "1024", NULL};

static const struct tunable tunables[TUN_NR] = {
	[TUN_WRITEPAGES_BUDGET] = {"writepages_budget", budget_values, BUDGET_BEFORE_ADD, 0, 0},
	[TUN_PREMAP_PASS] = {"premap_pass", off_on_values, 1, 0, 0},
	[TUN_SYNC_PASSES] = {"sync_passes", passes_values, SYNC_ASYNC_THEN_WAIT, 0, 0},
	[TUN_SYNC_INODE_COMMIT] = {"sync_inode_commit", commit_values, COMMIT_END, 0, 0},
	[TUN_BALANCE_ORDER] = {"balance_order", order_values, ORDER_BDI_FIRST, 0, 0},
	[TUN_THROTTLE] = {"throttle", throttle_values, THROTTLE_IOLESS, 0, 0},
	[TUN_WRITE_BUMP] = {"write_bump", bump_values, BUMP_X8, 0, 0},
	[TUN_MAX_WRITEBACK_MB_BUMP] = {"max_writeback_mb_bump", NULL, 128, 1, 4096},
	[TUN_WRITEBACK_CHUNK] = {"writeback_chunk", chunk_values, CHUNK_BANDWIDTH, 0, 0},
	[TUN_DIRTY_RATIO] = {"dirty_ratio", NULL, 20, 0, 100},
	[TUN_DIRTY_BYTES] = {"dirty_bytes", NULL, 0, 0, UINT64_MAX, true},
	[TUN_DIRTY_BACKGROUND_RATIO] = {"dirty_background_ratio", NULL, 10, 0, 100},
	[TUN_DIRTY_BACKGROUND_BYTES] = {"dirty_background_bytes", NULL, 0, 0, UINT64_MAX, true},
	[TUN_DIRTY_EXPIRE_CENTISECS] = {"dirty_expire_centisecs", NULL, 3000, 0, UINT32_MAX},
	[TUN_DIRTY_WRITEBACK_CENTISECS] = {"dirty_writeback_centisecs", NULL, 500, 0, UINT32_MAX},
	[TUN_DIRTYTIME_EXPIRE_SECONDS] = {"dirtytime_expire_seconds", NULL, 43200, 0, UINT32_MAX},
	[TUN_READ_AHEAD_KB] = {"read_ahead_kb", NULL, 2048, 0, 65536},
	[TUN_WRITEPAGES_MARKS] = {"writepages_marks", off_on_values, 0, 0, 0},
};

void tunables_init(struct wb_domain *wb)
{
	for (unsigned i = 0; i < TUN_NR; i++)
		atomic_store(&wb->wb_tun[i], tunables[i].t_default);
}

const char *const *wb_tunable_names(void)
{
	static const char *names[TUN_NR + 1];
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

	pthread_mutex_lock(&lock);
	for (unsigned i = 0; i < TUN_NR; i++)
		names[i] = tunables[i].t_name;
	pthread_mutex_unlock(&lock);
	return names;
}

static int find(const char *name)
{
	for (int i = 0; i < TUN_NR; i++)
		if (strcmp(tunables[i].t_name, name) == 0)
			return i;
	return -ENOENT;
}

/* The length of the value without white space around it; *value is moved to its start. */
static size_t trim(const char **value)
{
	size_t len;

	*value += strspn(*value, " \t\n");
	len = strlen(*value);
	while (len > 0 && strchr(" \t\n", (*value)[len - 1]) != NULL)
		len--;
	return len;
}

static int parse_switch(const struct tunable *t, const char *value, size_t len, uint64_t *out)
{
	for (unsigned i = 0; t->t_values[i] != NULL; i++) {
		if (strlen(t->t_values[i]) == len && memcmp(t->t_values[i], value, len) == 0) {
			*out = i;
			return 0;
		}
	}
	return -EINVAL;
}

static int parse_number(const struct tunable *t, const char *value, size_t len, uint64_t *out)
{
	char *end;

	if (t->t_size)
		return size_from_text(value, len, out);
	if (len == 0 || value[0] < '0' || value[0] > '9')
		return -EINVAL;
	errno = 0;
	*out = strtoull(value, &end, 10);
	if (errno != 0 || end != value + len || *out < t->t_min || *out > t->t_max)
		return -EINVAL;
	return 0;
}

/* A ratio and its bytes: the other one is turned off. */
static void settle_pair(struct wb_domain *wb, int set)
{
	if (set == TUN_DIRTY_RATIO)
		atomic_store(&wb->wb_tun[TUN_DIRTY_BYTES], 0);
	else if (set == TUN_DIRTY_BACKGROUND_RATIO)
		atomic_store(&wb->wb_tun[TUN_DIRTY_BACKGROUND_BYTES], 0);
}

int wb_tunable_set(struct super_block *sb, const char *name, const char *value)
{
	int i = find(name);
	size_t len = trim(&value);
	uint64_t v;
	int err;

	if (i < 0)
		return i;
	err = tunables[i].t_values != NULL ? parse_switch(&tunables[i], value, len, &v)
					   : parse_number(&tunables[i], value, len, &v);
	if (err != 0)
		return err;
	atomic_store(&sb->s_wb->wb_tun[i], v);
	settle_pair(sb->s_wb, i);
	/* Before wb_init() has made the arena there are no limits. */
	if (sb->s_wb->wb_arena != NULL)
		dirty_limits_changed(sb->s_wb);
	flusher_interval_changed(sb->s_wb);
	return 0;
}

int wb_tunable_get(struct super_block *sb, const char *name, char *buf, size_t size)
{
	int i = find(name);
	uint64_t v;

	if (i < 0)
		return i;
	v = wb_tun(sb->s_wb, (enum wb_tunable)i);
	if (tunables[i].t_values != NULL)
		(void)snprintf(buf, size, "%s", tunables[i].t_values[v]);
	else
		(void)snprintf(buf, size, "%llu", (unsigned long long)v);
	return 0;
}
