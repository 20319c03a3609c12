/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * stats.c - what the writeback engine can tell: all counters by name, and the texts of .ext4d.
 *
 * Names and units follow /sys/kernel/debug/bdi and /proc/vmstat where those have them.
 *
 * Invariants: none. Locking: counters are atomic; list lengths are read under wb_lock.
 */
#include <inttypes.h>
#include <stdio.h>

#include "writeback/internal.h"

#define PAGE_KB (PAGE_SIZE / 1024)

struct emitter {
	void (*e_emit)(void *arg, const char *name, uint64_t v);
	void *e_arg;
};

struct named_counter {
	const char *nc_name;
	size_t nc_offset; /* in struct wb_stats */
};

#define C(name)                                                                                    \
	{                                                                                          \
#name, offsetof(struct wb_stats, ws_##name)                                        \
	}
static const struct named_counter counters[] = {
	C(writepages),
	C(pages_premap),
	C(pages_mapped),
	C(pages_in_handle),
	C(budget_exits),
	C(negative_exits),
	C(handles),
	C(handle_open_ns),
	C(enospc_retries),
	C(lock_retries),
	C(pages_skipped),
	C(bump_scans),
	C(conversions),
	C(disksize_updates),
	C(conversion_waits),
	C(waiter_ends),
	C(io_errors),
	C(sync_calls),
	C(sync_inode_commits),
	C(fsyncs),
	C(fsync_flushes),
	C(flusher_inodes),
	C(requeued),
	C(window_waits),
	C(balance_calls),
	C(balance_full),
	C(global_reads),
	C(global_reads_max),
	C(pauses),
	C(pause_ns),
	C(pause_max_ns),
	C(dirty_exceeded_set),
	C(dirty_exceeded_cleared),
	C(unparked),
	C(background_kicks),
	C(read_pages),
	C(read_hits),
	C(readahead_pages),
	C(evicted),
	C(frame_waits),
	C(written_bytes),
	C(read_bytes),
	C(rmw_reads),
	C(page_wb_waits),
	C(dio_reads),
	C(dio_writes),
	C(dio_shared),
	C(dio_bytes),
	C(stripe_full),
	C(stripe_start),
	C(stripe_end),
	C(stripe_partial),
	C(stripe_rmw),
	C(given_back_bytes),
};
#undef C

static const char *const reason_names[] = {"background", "vmscan",   "sync",
					   "periodic",	 "throttle", "free_space"};

const char *wb_reason_name(enum wb_reason reason)
{
	return reason_names[reason];
}

static void emit(const struct emitter *e, const char *name, uint64_t v)
{
	char full[64];

	(void)snprintf(full, sizeof(full), "wb.%s", name);
	e->e_emit(e->e_arg, full, v);
}

static void emit_counters(const struct emitter *e, const struct wb_stats *st)
{
	for (size_t i = 0; i < sizeof(counters) / sizeof(counters[0]); i++)
		emit(e, counters[i].nc_name,
		     counter_read((const counter_t *)(const void *)((const uint8_t *)st +
								    counters[i].nc_offset)));
}

static void emit_prefixed(void *arg, const char *name, uint64_t v)
{
	emit(arg, name, v);
}

static void emit_hist(const struct emitter *e, const char *name, const struct hist *h)
{
	hist_emit(h, name, emit_prefixed, (void *)(uintptr_t)e);
}

static uint64_t clamp(int64_t v)
{
	return v > 0 ? (uint64_t)v : 0;
}

/* b_dirty, b_io, b_more_io and b_dirty_time. */
static void count_lists(struct wb_domain *wb, uint32_t lists[4])
{
	mutex_lock(&wb->wb_lock);
	lists[0] = wb->wb_nr_b_dirty;
	lists[1] = wb->wb_nr_b_io;
	lists[2] = wb->wb_nr_b_more_io;
	lists[3] = wb->wb_nr_b_dirty_time;
	mutex_unlock(&wb->wb_lock);
}

static void emit_gauges(const struct emitter *e, struct wb_domain *wb)
{
	struct arena_stats as;
	struct dirty_limits dl;
	uint32_t lists[4];

	get_dirty_limits(wb, &dl);
	arena_get_stats(wb->wb_arena, &as);
	emit(e, "nr_dirty", clamp(atomic_load(&wb->wb_nr_dirty)));
	emit(e, "nr_writeback", clamp(atomic_load(&wb->wb_nr_writeback)));
	emit(e, "nr_dirtied", atomic_load(&wb->wb_dirtied));
	emit(e, "nr_written", atomic_load(&wb->wb_written));
	emit(e, "nr_parked", atomic_load(&wb->wb_nr_parked));
	emit(e, "dirty_exceeded", atomic_load(&wb->wb_dirty_exceeded));
	emit(e, "dirty_threshold", dl.dl_dirty);
	emit(e, "dirty_background_threshold", dl.dl_background);
	emit(e, "cache_bytes", as.as_bytes);
	emit(e, "cache_limit_bytes", as.as_limit_bytes);
	emit(e, "cache_used_pages", as.as_used_frames);
	emit(e, "cache_reserved_pages", as.as_reserved_frames);
	emit(e, "cache_runs", as.as_runs);
	emit(e, "cache_unregistered_slabs", as.as_unregistered_slabs);
	emit(e, "cache_slabs_grown_ahead", as.as_grown_ahead);
	emit(e, "cache_slabs_huge", as.as_huge_slabs);
	emit(e, "cache_slabs_ordinary", as.as_ordinary_slabs);
	emit(e, "cache_slab_huge_populate_ns", as.as_huge_populate_ns);
	emit(e, "cache_slab_ordinary_populate_ns", as.as_ordinary_populate_ns);
	emit(e, "avg_write_bandwidth_pages", wb_avg_bandwidth(wb));
	count_lists(wb, lists);
	emit(e, "b_dirty", lists[0]);
	emit(e, "b_io", lists[1]);
	emit(e, "b_more_io", lists[2]);
	emit(e, "b_dirty_time", lists[3]);
}

static void emit_pairs(const struct emitter *e, const struct wb_stats *st)
{
	static const char *const pass[2] = {"none", "all"};
	char name[64];

	for (unsigned i = 0; i < 2; i++) {
		(void)snprintf(name, sizeof(name), "sync_%s_inodes", pass[i]);
		emit(e, name, counter_read(&st->ws_sync_inodes[i]));
		(void)snprintf(name, sizeof(name), "sync_%s_pages", pass[i]);
		emit(e, name, counter_read(&st->ws_sync_pages[i]));
		(void)snprintf(name, sizeof(name), "sync_%s_waits", pass[i]);
		emit(e, name, counter_read(&st->ws_sync_waits[i]));
		(void)snprintf(name, sizeof(name), "sync_%s_ns", pass[i]);
		emit(e, name, counter_read(&st->ws_sync_ns[i]));
	}
	for (unsigned i = 0; i < sizeof(reason_names) / sizeof(reason_names[0]); i++) {
		(void)snprintf(name, sizeof(name), "flusher_runs_%s", reason_names[i]);
		emit(e, name, counter_read(&st->ws_flusher_runs[i]));
	}
}

void wb_print_stats(struct super_block *sb,
		    void (*emit_fn)(void *arg, const char *name, uint64_t v), void *arg)
{
	struct wb_domain *wb = sb->s_wb;
	const struct emitter e = {.e_emit = emit_fn, .e_arg = arg};
	const struct wb_stats *st = &wb->wb_stats;

	emit_gauges(&e, wb);
	emit_counters(&e, st);
	emit_pairs(&e, st);
	emit_hist(&e, "pages_per_call", &st->ws_pages_per_call);
	emit_hist(&e, "nr_to_write_exit", &st->ws_nr_to_write_exit);
	emit_hist(&e, "request_bytes", &st->ws_request_bytes);
	emit_hist(&e, "extent_blocks", &st->ws_extent_blocks);
	emit_hist(&e, "handle_hist_ns", &st->ws_handle_ns);
	emit_hist(&e, "fsync_ns", &st->ws_fsync_ns);
}

void wb_print_bdi(struct super_block *sb, FILE *out)
{
	struct wb_domain *wb = sb->s_wb;
	struct dirty_limits dl;
	uint32_t lists[4];

	get_dirty_limits(wb, &dl);
	count_lists(wb, lists);
	(void)fprintf(out, "BdiWriteback:       %10" PRIu64 " kB\n",
		      clamp(atomic_load(&wb->wb_nr_writeback)) * PAGE_KB);
	(void)fprintf(out, "BdiReclaimable:     %10" PRIu64 " kB\n",
		      clamp(atomic_load(&wb->wb_nr_dirty)) * PAGE_KB);
	(void)fprintf(out, "BdiDirtyThresh:     %10" PRIu64 " kB\n", dl.dl_bdi * PAGE_KB);
	(void)fprintf(out, "DirtyThresh:        %10" PRIu64 " kB\n", dl.dl_dirty * PAGE_KB);
	(void)fprintf(out, "BackgroundThresh:   %10" PRIu64 " kB\n", dl.dl_background * PAGE_KB);
	(void)fprintf(out, "BdiDirtied:         %10" PRIu64 " kB\n",
		      (uint64_t)atomic_load(&wb->wb_dirtied) * PAGE_KB);
	(void)fprintf(out, "BdiWritten:         %10" PRIu64 " kB\n",
		      (uint64_t)atomic_load(&wb->wb_written) * PAGE_KB);
	(void)fprintf(out, "BdiWriteBandwidth:  %10" PRIu64 " kBps\n",
		      wb_avg_bandwidth(wb) * PAGE_KB);
	(void)fprintf(out, "b_dirty:            %10" PRIu32 "\n", lists[0]);
	(void)fprintf(out, "b_io:               %10" PRIu32 "\n", lists[1]);
	(void)fprintf(out, "b_more_io:          %10" PRIu32 "\n", lists[2]);
	(void)fprintf(out, "b_dirty_time:       %10" PRIu32 "\n", lists[3]);
}

static void print_counter(FILE *out, const char *name, const counter_t *c)
{
	(void)fprintf(out, "%-24s %" PRIu64 "\n", name, counter_read(c));
}

void wb_print_writeback(struct super_block *sb, FILE *out)
{
	const struct wb_stats *st = &sb->s_wb->wb_stats;
	int64_t min = atomic_load(&sb->s_wb->wb_stats.ws_nr_to_write_min);

	print_counter(out, "writepages_calls", &st->ws_writepages);
	if (min != INT64_MAX)
		(void)fprintf(out, "%-24s %" PRId64 "\n", "nr_to_write_min", min);
	print_counter(out, "budget_exits", &st->ws_budget_exits);
	print_counter(out, "negative_exits", &st->ws_negative_exits);
	print_counter(out, "pages_premap", &st->ws_pages_premap);
	print_counter(out, "pages_mapped", &st->ws_pages_mapped);
	print_counter(out, "pages_in_handle", &st->ws_pages_in_handle);
	print_counter(out, "handles", &st->ws_handles);
	print_counter(out, "handle_open_ns", &st->ws_handle_open_ns);
	print_counter(out, "sync_calls", &st->ws_sync_calls);
	print_counter(out, "sync_none_inodes", &st->ws_sync_inodes[0]);
	print_counter(out, "sync_none_pages", &st->ws_sync_pages[0]);
	print_counter(out, "sync_none_waits", &st->ws_sync_waits[0]);
	print_counter(out, "sync_none_ns", &st->ws_sync_ns[0]);
	print_counter(out, "sync_all_inodes", &st->ws_sync_inodes[1]);
	print_counter(out, "sync_all_pages", &st->ws_sync_pages[1]);
	print_counter(out, "sync_all_waits", &st->ws_sync_waits[1]);
	print_counter(out, "sync_all_ns", &st->ws_sync_ns[1]);
	print_counter(out, "sync_inode_commits", &st->ws_sync_inode_commits);
	hist_print(&st->ws_pages_per_call, "pages_per_call", out);
	hist_print(&st->ws_nr_to_write_exit, "nr_to_write_exit", out);
	hist_print(&st->ws_request_bytes, "request_bytes", out);
	hist_print(&st->ws_extent_blocks, "extent_blocks", out);
	hist_print(&st->ws_handle_ns, "handle_ns", out);
}

void wb_print_throttle(struct super_block *sb, FILE *out)
{
	struct wb_domain *wb = sb->s_wb;
	const struct wb_stats *st = &wb->wb_stats;
	struct dirty_limits dl;

	get_dirty_limits(wb, &dl);
	print_counter(out, "calls", &st->ws_balance_calls);
	print_counter(out, "full_calls", &st->ws_balance_full);
	print_counter(out, "global_reads", &st->ws_global_reads);
	print_counter(out, "global_reads_max", &st->ws_global_reads_max);
	print_counter(out, "pauses", &st->ws_pauses);
	print_counter(out, "pause_total_ns", &st->ws_pause_ns);
	print_counter(out, "pause_max_ns", &st->ws_pause_max_ns);
	print_counter(out, "dirty_exceeded_set", &st->ws_dirty_exceeded_set);
	print_counter(out, "dirty_exceeded_cleared", &st->ws_dirty_exceeded_cleared);
	(void)fprintf(out, "%-24s %d\n", "dirty_exceeded", atomic_load(&wb->wb_dirty_exceeded));
	(void)fprintf(out, "%-24s %" PRIu64 "\n", "dirty_pages",
		      clamp(atomic_load(&wb->wb_nr_dirty)) +
			      clamp(atomic_load(&wb->wb_nr_writeback)));
	(void)fprintf(out, "%-24s %" PRIu64 "\n", "dirty_threshold", dl.dl_dirty);
	(void)fprintf(out, "%-24s %" PRIu64 "\n", "background_threshold", dl.dl_background);
	(void)fprintf(out, "%-24s %" PRIu32 "\n", "parked", atomic_load(&wb->wb_nr_parked));
}

void wb_print_stripes(struct super_block *sb, FILE *out)
{
	const struct wb_stats *st = &sb->s_wb->wb_stats;

	(void)fprintf(out, "%-24s %" PRIu32 "\n", "stripe_blocks", sb->s_stripe);
	print_counter(out, "full", &st->ws_stripe_full);
	print_counter(out, "aligned_start", &st->ws_stripe_start);
	print_counter(out, "aligned_end", &st->ws_stripe_end);
	print_counter(out, "partial", &st->ws_stripe_partial);
	print_counter(out, "read_modify_write", &st->ws_stripe_rmw);
}
