/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * mballoc_stats.c - the allocator's state as text, in the form of /proc/fs/ext4/DEV/mb_groups and
 * mb_stats.
 *
 * Invariants: (1) printing reads no disk: only groups whose buddy is in memory are shown.
 * Locking: one bg_lock at a time, to copy the numbers.
 */
#include <inttypes.h>

#include "alloc/mballoc_internal.h"

struct group_numbers {
	uint32_t n_free, n_fragments, n_first;
	uint32_t n_counters[EXT4_BUDDY_ORDERS];
};

/* False: the buddy is not in memory. */
static bool copy_numbers(struct ext4_group_info *gi, struct group_numbers *n)
{
	struct mb_group *g;
	bool there;

	mutex_lock(&gi->bg_lock);
	g = gi->bg_buddy;
	there = g != NULL && g->g_buddy != NULL;
	if (there) {
		struct ext4_buddy *b = g->g_buddy;

		n->n_free = b->b_free;
		n->n_fragments = b->b_fragments;
		n->n_first = ext4_buddy_next_run(b, 0, b->b_blocks).fr_start;
		for (unsigned o = 0; o < EXT4_BUDDY_ORDERS; o++)
			n->n_counters[o] = b->b_counters[o];
	}
	mutex_unlock(&gi->bg_lock);
	return there;
}

void ext4_mb_print_groups(struct super_block *sb, FILE *out)
{
	fprintf(out, "#group: free  frags first [");
	for (unsigned o = 0; o < EXT4_BUDDY_ORDERS; o++)
		fprintf(out, " 2^%-5u", o);
	fprintf(out, " ]\n");
	for (ext4_group_t group = 0; group < sb->s_groups_count; group++) {
		struct ext4_group_info *gi = ext4_group_info_cached(sb, group);
		struct group_numbers n;

		if (gi == NULL || !copy_numbers(gi, &n))
			continue;
		fprintf(out, "#%-5u: %-5u %-5u %-5u [", group, n.n_free, n.n_fragments, n.n_first);
		for (unsigned o = 0; o < EXT4_BUDDY_ORDERS; o++)
			fprintf(out, " %-7u", n.n_counters[o]);
		fprintf(out, " ]\n");
	}
}

void ext4_mb_print_stats(struct super_block *sb, FILE *out)
{
	struct ext4_mballoc *mb = ext4_mb(sb);
	const struct ext4_mb_stats *st = &mb->mb_stats;
	const struct {
		const char *name;
		const counter_t *value;
	} lines[] = {
		{"reqs", &st->mb_reqs},
		{"success", &st->mb_success},
		{"groups_scanned", &st->mb_groups_scanned},
		{"extents_scanned", &st->mb_extents_scanned},
		{"goal_hits", &st->mb_goal_hits},
		{"2^n_hits", &st->mb_2order_hits},
		{"stripe_hits", &st->mb_stripe_hits},
		{"breaks", &st->mb_breaks},
		{"lost", &st->mb_lost_chunks},
		{"buddies_generated", &st->mb_buddies_built},
		{"preallocated", &st->mb_pa_created},
		{"preallocated_used", &st->mb_pa_used},
		{"discarded", &st->mb_pa_discarded},
		{"allocated_blocks", &st->mb_allocated_blocks},
		{"freed_blocks", &st->mb_freed_blocks},
	};

	fprintf(out, "mballoc:\n");
	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
		fprintf(out, "\t%s: %" PRIu64 "\n", lines[i].name, counter_read(lines[i].value));
	fprintf(out, "\tfree: %" PRId64 "\n", atomic_load(&mb->mb_free));
	fprintf(out, "\tpending: %" PRId64 "\n", atomic_load(&mb->mb_pending));
	fprintf(out, "\treserved: %" PRId64 "\n", atomic_load(&mb->mb_dirty));
	fprintf(out, "\treserved_metadata: %" PRId64 "\n", atomic_load(&mb->mb_dirty_meta));
	fprintf(out, "\treserved_pool: %" PRIu64 "\n", mb->mb_pool);
	hist_print(&st->mb_latency_ns, "latency_ns", out);
	hist_print(&st->mb_len_blocks, "len_blocks", out);
}
