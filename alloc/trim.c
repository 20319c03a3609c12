/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * trim.c - tell the device which blocks are free (FITRIM).
 *
 * A run is taken out of the buddy while it is discarded, so that nobody writes to it meanwhile.
 *
 * Invariants: (1) only blocks that are free in the buddy are discarded: nothing preallocated,
 * nothing whose freeing has not committed.
 * Locking: bg_lock to take a run and to put it back; none during the discard.
 */
#include "alloc/mballoc_internal.h"

/* One call of FITRIM. */
struct trim {
	struct super_block *t_sb;
	uint64_t t_minlen;
	uint64_t t_trimmed;
};

/* Discard a run that was taken. */
static int trim_run(struct trim *t, struct mb_group *g, struct ext4_free_run run)
{
	unsigned bits = t->t_sb->s_blocksize_bits;
	int err = blk_discard(t->t_sb->s_dev, ext4_mb_block(t->t_sb, g, run.fr_start) << bits,
			      (uint64_t)run.fr_len << bits);

	ext4_mb_give_back(ext4_mb(t->t_sb), g, run.fr_start, run.fr_len);
	if (err == 0)
		t->t_trimmed += run.fr_len;
	return err;
}

/* The next run of at least t_minlen in [from, end), taken out of the buddy and pinned. */
static struct ext4_free_run take_run(struct trim *t, struct mb_group *g, uint32_t from,
				     uint32_t end)
{
	struct ext4_free_run run = {from, 0};

	do
		run = ext4_buddy_next_run(g->g_buddy, run.fr_start + run.fr_len, end);
	while (run.fr_len > 0 && run.fr_len < t->t_minlen);
	if (run.fr_len > 0) {
		ext4_buddy_mark_used(g->g_buddy, run.fr_start, run.fr_len);
		atomic_fetch_add(&g->g_pins, 1);
		ext4_mb_group_publish(ext4_mb(t->t_sb), g);
	}
	return run;
}

static int trim_group(struct trim *t, ext4_group_t group, uint32_t from, uint32_t end)
{
	int err = 0;

	while (err == 0 && from < end) {
		struct mb_group *g = ext4_mb_group_lock(t->t_sb, group);
		struct ext4_free_run run;

		if (IS_ERR(g))
			return PTR_ERR(g);
		run = take_run(t, g, from, end);
		ext4_mb_group_unlock(g);
		if (run.fr_len == 0)
			break;
		err = trim_run(t, g, run);
		from = run.fr_start + run.fr_len;
	}
	return err;
}

/* Groups whose count says that no run can be long enough are not read. */
static bool worth_reading(struct trim *t, ext4_group_t group)
{
	struct ext4_group_info *gi = ext4_get_group_info(t->t_sb, group);

	return !IS_ERR(gi) && atomic_load(&gi->bg_free_blocks) >= t->t_minlen;
}

int ext4_trim_fs(struct super_block *sb, uint64_t start, uint64_t len, uint64_t minlen,
		 uint64_t *trimmed)
{
	struct trim t = {.t_sb = sb, .t_minlen = minlen == 0 ? 1 : minlen};
	uint64_t end = len > UINT64_MAX - start ? UINT64_MAX : start + len;
	int err = 0;

	*trimmed = 0;
	if (!sb->s_dev->bd_discard)
		return -EOPNOTSUPP;
	if (len == 0 || start >= sb->s_blocks_count || minlen > sb->s_blocks_per_group)
		return -EINVAL;
	if (end > sb->s_blocks_count)
		end = sb->s_blocks_count;
	if (start < sb->s_first_data_block)
		start = sb->s_first_data_block;
	while (err == 0 && start < end) {
		ext4_group_t group = ext4_group_of_block(sb, start);
		uint32_t from = ext4_offset_in_group(sb, start);
		uint32_t n = ext4_blocks_in_group(sb, group) - from;

		if (end - start < n)
			n = (uint32_t)(end - start);
		if (worth_reading(&t, group))
			err = trim_group(&t, group, from, from + n);
		/* A damaged group was reported; the others are trimmed. */
		if (err == -EFSCORRUPTED || err == -EFSBADCRC)
			err = 0;
		start += n;
	}
	*trimmed = t.t_trimmed;
	return err;
}
