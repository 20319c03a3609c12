/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * mballoc.c - an allocation from the request to the bits in the bitmap.
 *
 * A request first claims its blocks in the accounts (reserve.c), unless a reservation covers it.
 * Then it is planned: small files share the locality group's preallocation; a file that grows gets
 * a window of a size that follows the file's, aligned to it, what it does not use now stays
 * preallocated; a file without writers, metadata and fallocate get what they ask for. Blocks come
 * from a preallocation or from a search (mballoc_search.c), which marks them used in the buddy;
 * then they are marked used on disk, in the handle. ext4: fs/ext4/mballoc.c ext4_mb_new_blocks(),
 * ext4_mb_normalize_request(), ext4_mb_group_or_file().
 *
 * Invariants: (1) a block is set in the bitmap only if it was clear there and the buddy gave it to
 * this request. (2) Claim minus result goes back on every path. (3) A result is 1 .. ar_len blocks,
 * outside of the file system's own metadata.
 * Locking: bitmap and descriptor buffers, then bg_lock, through struct mb_edit.
 */
#include "alloc/mballoc_internal.h"

#include <string.h>

#include "ext4/inode.h"
#include "ext4/jbd2_glue.h"
#include "util/assert.h"
#include "util/time.h"
#include "util/trace.h"

#define STREAM_BLOCKS 16u /* files up to this size share the locality group */
#define KIB 1024u
#define MIB (1024u * 1024u)

/* A request on its way. */
struct request {
	handle_t *r_handle;
	struct super_block *r_sb;
	struct inode *r_inode;
	const struct ext4_allocation_request *r_ar;
	uint32_t r_len;
	/* plan */
	bool r_small;	       /* from the locality group */
	bool r_stream;	       /* large and growing */
	ext4_lblk_t r_window;  /* first block of the window */
	uint32_t r_window_len; /* >= the request's part of it */
	ext4_fsblk_t r_goal;
	bool r_try_goal;
	/* how it was found, for events */
	bool r_from_pa;
	uint32_t r_found_len, r_want; /* blocks that the search gave, and that it was asked for */
	uint32_t r_nr_groups, r_nr_extents;
	enum mb_pass r_pass;
};

/* ---- Plan ---- */

static uint32_t file_blocks(const struct request *r)
{
	uint64_t size = i_size_read(r->r_inode) + r->r_sb->s_blocksize - 1;
	uint64_t blocks = size >> r->r_sb->s_blocksize_bits;
	uint64_t end = (uint64_t)r->r_ar->ar_logical + r->r_len;

	if (blocks < end)
		blocks = end;
	return blocks > EXT4_MAX_BLOCKS ? EXT4_MAX_BLOCKS : (uint32_t)blocks;
}

/*
 * The window for a file of `blocks`: its size, 0 for just the request; aligned to itself, or the
 * whole file from 0 if *whole.
 */
static uint32_t window_size(const struct request *r, uint32_t blocks, bool *whole)
{
	unsigned bits = r->r_sb->s_blocksize_bits;
	uint64_t bytes = (uint64_t)blocks << bits;
	uint32_t window = 16 * KIB;

	*whole = bytes <= 1 * MIB;
	if (*whole)
		while (window < bytes)
			window *= 2;
	else if (bytes <= 4 * MIB)
		window = 2 * MIB;
	else if (bytes <= 8 * MIB)
		window = 4 * MIB;
	else if ((uint64_t)r->r_len << bits <= 8 * MIB)
		window = 8 * MIB;
	else
		return 0;
	return window >> bits;
}

/* Keep the window off what is mapped or preallocated already. */
static void trim_window(struct request *r, uint64_t end)
{
	const struct ext4_allocation_request *ar = r->r_ar;
	ext4_lblk_t lblk = ar->ar_logical;
	uint64_t request_end = (uint64_t)lblk + r->r_len;
	ext4_lblk_t next;

	if (ar->ar_pleft != 0 && ar->ar_lleft < lblk && r->r_window <= ar->ar_lleft)
		r->r_window = ar->ar_lleft + 1;
	if (atomic_load(&r->r_inode->i_alloc->ia_nr_pas) > 0)
		r->r_window = lblk;
	if (end < request_end)
		end = request_end;
	if (end > EXT4_MAX_BLOCKS)
		end = EXT4_MAX_BLOCKS;
	if (ar->ar_pright != 0 && ar->ar_lright >= request_end && end > ar->ar_lright)
		end = ar->ar_lright;
	if (ext4_mb_pa_next(r->r_inode, lblk + 1, (ext4_lblk_t)end, &next))
		end = next;
	r->r_window_len = (uint32_t)(end - r->r_window);
}

/* ext4: ext4_mb_normalize_request() */
static void normalize(struct request *r, uint32_t blocks)
{
	int64_t room = atomic_load(&ext4_mb(r->r_sb)->mb_unclaimed) / 16;
	ext4_lblk_t lblk = r->r_ar->ar_logical;
	bool whole;
	uint32_t size = window_size(r, blocks, &whole);

	if (size == 0)
		return;
	r->r_window = whole ? 0 : lblk - lblk % size;
	trim_window(r, (uint64_t)r->r_window + size);
	/* Little is free: take no more than is needed. */
	if (r->r_window_len > r->r_sb->s_blocks_per_group ||
	    (int64_t)(r->r_window_len - r->r_len) > room) {
		r->r_window = lblk;
		r->r_window_len = r->r_len;
	}
}

static ext4_fsblk_t clamp_goal(const struct super_block *sb, ext4_fsblk_t goal)
{
	if (goal < sb->s_first_data_block || goal >= sb->s_blocks_count)
		return sb->s_first_data_block;
	return goal;
}

/* The neighbours in the file say where the next block would be best, if that is on the device. */
static void neighbour_goal(struct request *r)
{
	const struct ext4_allocation_request *ar = r->r_ar;
	uint64_t end = (uint64_t)r->r_window + r->r_window_len;

	if (ar->ar_pleft != 0 && ar->ar_lleft < r->r_window &&
	    r->r_window - ar->ar_lleft <= r->r_sb->s_blocks_per_group)
		r->r_goal = ar->ar_pleft + (r->r_window - ar->ar_lleft);
	else if (ar->ar_pright != 0 && ar->ar_lright == end && ar->ar_pright > r->r_window_len)
		r->r_goal = ar->ar_pright - r->r_window_len;
	r->r_try_goal = r->r_goal >= r->r_sb->s_first_data_block &&
			r->r_goal < r->r_sb->s_blocks_count && r->r_goal != 0;
}

static void choose_goal(struct request *r)
{
	ext4_fsblk_t stream = atomic_load(&ext4_mb(r->r_sb)->mb_stream_goal);
	ext4_fsblk_t home = ext4_inode_goal(r->r_inode);

	neighbour_goal(r);
	if (r->r_try_goal)
		return;
	r->r_goal = r->r_ar->ar_goal;
	/* The caller knows a better place for just this block than the inode's. */
	if (r->r_goal != 0 && r->r_goal != home) {
		r->r_try_goal = r->r_goal < r->r_sb->s_blocks_count;
		r->r_window_len -= r->r_ar->ar_logical - r->r_window;
		r->r_window = r->r_ar->ar_logical;
	} else if (r->r_stream && stream != 0) {
		r->r_goal = stream;
	} else {
		r->r_goal = home;
	}
	r->r_goal = clamp_goal(r->r_sb, r->r_goal);
}

static void plan(struct request *r)
{
	unsigned flags = r->r_ar->ar_flags;
	bool closed = atomic_load_explicit(&r->r_inode->i_alloc->ia_closed, memory_order_relaxed);
	ext4_lblk_t lblk = r->r_ar->ar_logical;
	uint32_t blocks = file_blocks(r);
	ext4_lblk_t next;

	/* A preallocation further on keeps its place. */
	if ((flags & EXT4_MB_HINT_DATA) != 0 &&
	    ext4_mb_pa_next(r->r_inode, lblk + 1, lblk + r->r_len, &next))
		r->r_len = next - lblk;
	r->r_window = lblk;
	r->r_window_len = r->r_len;
	if ((flags & EXT4_MB_HINT_DATA) != 0 &&
	    (flags & (EXT4_MB_HINT_NOPREALLOC | EXT4_MB_HINT_NORMALIZE_OFF)) == 0) {
		/* Only delayed blocks are allocated after the last writer has gone. */
		closed = closed && (flags & EXT4_MB_DELALLOC_RESERVED) != 0;
		r->r_small = blocks <= STREAM_BLOCKS;
		r->r_stream = !r->r_small && !closed;
		if (r->r_stream)
			normalize(r, blocks);
	}
	if ((flags & EXT4_MB_STREAM_ALLOC) != 0 && !r->r_small)
		r->r_stream = true;
	choose_goal(r);
}

/* ---- Blocks ---- */

/* Split what a search found: the request's part to *x, the rest becomes preallocation. */
static void keep_rest(struct request *r, const struct mb_search *s, struct mb_extent *x)
{
	uint32_t lead = r->r_small ? 0 : r->r_ar->ar_logical - r->r_window;
	struct inode *owner = r->r_small ? NULL : r->r_inode;
	struct mb_extent rest = {s->s_group, s->s_start, 0};
	uint32_t end = s->s_start + s->s_len;

	if (s->s_len < lead + r->r_len)
		lead = 0;
	x->x_group = s->s_group;
	x->x_start = s->s_start + lead;
	x->x_len = s->s_len - lead < r->r_len ? s->s_len - lead : r->r_len;
	if (lead > 0) {
		rest.x_len = lead;
		atomic_fetch_add(&s->s_group->g_pins, 1);
		ext4_mb_pa_add(r->r_sb, owner, r->r_window, &rest);
	}
	if (x->x_start + x->x_len < end) {
		rest.x_start = x->x_start + x->x_len;
		rest.x_len = end - rest.x_start;
		atomic_fetch_add(&s->s_group->g_pins, 1);
		ext4_mb_pa_add(r->r_sb, owner, r->r_ar->ar_logical + x->x_len, &rest);
	}
}

/* Indirect blocks have 32-bit block numbers. */
static ext4_group_t end_group(struct request *r)
{
	struct super_block *sb = r->r_sb;
	uint64_t limit = UINT64_C(1) << 32;

	if (ext4_is_extents(r->r_inode) || sb->s_blocks_count <= limit)
		return sb->s_groups_count;
	return ext4_group_of_block(sb, limit);
}

static int search(struct request *r, uint32_t want, struct mb_extent *x)
{
	struct mb_search s;

	memset(&s, 0, sizeof(s));
	s.s_sb = r->r_sb;
	s.s_goal = r->r_goal;
	s.s_want = want;
	s.s_min = r->r_len;
	s.s_try_goal = r->r_try_goal;
	s.s_data = (r->r_ar->ar_flags & EXT4_MB_HINT_DATA) != 0;
	s.s_end = end_group(r);
	if (ext4_group_of_block(r->r_sb, s.s_goal) >= s.s_end) {
		s.s_goal = r->r_sb->s_first_data_block;
		s.s_try_goal = false;
	}
	if (!ext4_mb_search(&s))
		return s.s_err == -ENOMEM ? -ENOMEM : -ENOSPC;
	r->r_found_len = s.s_len;
	r->r_want = want;
	r->r_nr_groups = s.s_nr_groups;
	r->r_nr_extents = s.s_nr_extents;
	r->r_pass = s.s_pass;
	keep_rest(r, &s, x);
	return 0;
}

static bool use_prealloc(struct request *r, struct mb_extent *x)
{
	if ((r->r_ar->ar_flags & EXT4_MB_HINT_DATA) == 0)
		return false;
	if (ext4_mb_pa_use_inode(r->r_inode, r->r_ar->ar_logical, r->r_len, x))
		return true;
	return r->r_small && ext4_mb_pa_use_group(r->r_sb, r->r_len, r->r_goal, x);
}

static int find_blocks(struct request *r, struct mb_extent *x)
{
	struct ext4_mballoc *mb = ext4_mb(r->r_sb);
	uint32_t want;
	int err;

	plan(r);
	r->r_from_pa = use_prealloc(r, x);
	if (r->r_from_pa)
		return 0;
	want = r->r_small ? mb->mb_group_prealloc : r->r_window_len;
	if (want < r->r_len)
		want = r->r_len;
	err = search(r, want, x);
	if (err == -ENOSPC && ext4_discard_all_preallocations(r->r_sb) > 0) {
		r->r_window = r->r_ar->ar_logical;
		r->r_window_len = r->r_len;
		err = search(r, r->r_len, x);
	}
	if (err == 0 && r->r_stream)
		atomic_store(&mb->mb_stream_goal,
			     ext4_mb_block(r->r_sb, x->x_group, x->x_start) + x->x_len);
	return err;
}

/* ---- On disk ---- */

/* Set the bits; all of them must be clear. Both content locks and bg_lock are held. */
static bool set_bits(struct super_block *sb, struct mb_edit *e, const struct mb_extent *x)
{
	uint8_t *map = e->e_bitmap->b_data;
	struct ext4_group_change gc = {.gc_itable_unused = -1};

	if (!ext4_bitmap_all(map, x->x_start, x->x_len, false))
		return false;
	ext4_bitmap_fill(map, x->x_start, x->x_len, true);
	gc.gc_free_blocks = -(int32_t)x->x_len;
	gc.gc_clear_flags = EXT2_BG_BLOCK_UNINIT;
	gc.gc_block_bitmap = map;
	ext4_group_change(sb, e->e_info, &gc);
	return true;
}

int ext4_mb_mark_used(handle_t *handle, struct super_block *sb, const struct mb_extent *x)
{
	ext4_fsblk_t block = ext4_mb_block(sb, x->x_group, x->x_start);
	struct mb_edit e;
	bool done;
	int err;

	if (!ext4_data_block_valid(sb, block, x->x_len))
		return ext4_error_block(sb, 0, block,
					"bitmap of group %u has metadata free: %u blocks",
					x->x_group->g_info->bg_group, x->x_len);
	err = ext4_mb_edit_begin(handle, sb, x->x_group->g_info, false, &e);
	if (err != 0)
		return err;
	ext4_mb_edit_lock(&e);
	done = set_bits(sb, &e, x);
	ext4_mb_edit_unlock(&e);
	err = ext4_mb_edit_end(handle, &e, done);
	if (!done)
		return ext4_error_block(sb, 0, block, "%u blocks to allocate are in use", x->x_len);
	return err;
}

/* Mark the extent used; on failure it is given back, unless the disk says that somebody has it. */
static int commit_extent(struct request *r, const struct mb_extent *x)
{
	int err = ext4_mb_mark_used(r->r_handle, r->r_sb, x);

	if (err != 0 && err != -EFSCORRUPTED)
		ext4_mb_give_back(ext4_mb(r->r_sb), x->x_group, x->x_start, x->x_len);
	else
		ext4_mb_unpin(x->x_group);
	return err;
}

/* ---- Requests ---- */

static enum mb_claim_class claim_class(unsigned flags)
{
	if ((flags & EXT4_MB_USE_RESERVED) != 0)
		return MB_CLAIM_POOL;
	return (flags & EXT4_MB_USE_ROOT_BLOCKS) != 0 ? MB_CLAIM_ROOT : ext4_mb_thread_class();
}

/* As many of the blocks as can be claimed: all, a half, a quarter, ... 0: not one. */
static uint32_t claim_blocks(struct ext4_mballoc *mb, uint32_t len, unsigned flags)
{
	while (len > 0 && !ext4_mb_claim(mb, len, claim_class(flags)))
		len /= 2;
	return len;
}

/* What was asked for is the request, what was looked for the window around it. */
static void trace_alloc(const struct request *r, const struct mb_extent *x)
{
	struct super_block *sb = r->r_sb;
	ext4_fsblk_t orig = clamp_goal(sb, r->r_ar->ar_goal);

	TRACE(ext4_mballoc_alloc, .dev = sb->s_dev->bd_dev, .ino = r->r_inode->i_ino,
	      .orig_group = ext4_group_of_block(sb, orig),
	      .orig_start = ext4_offset_in_group(sb, orig), .orig_len = r->r_ar->ar_len,
	      .orig_logical = r->r_ar->ar_logical, .goal_group = ext4_group_of_block(sb, r->r_goal),
	      .goal_start = ext4_offset_in_group(sb, r->r_goal), .goal_len = r->r_want,
	      .goal_logical = r->r_window, .result_group = x->x_group->g_info->bg_group,
	      .result_start = x->x_start, .result_len = x->x_len,
	      .result_logical = r->r_ar->ar_logical, .found = r->r_nr_extents,
	      .groups = r->r_nr_groups, .cr = r->r_pass, .flags = r->r_ar->ar_flags,
	      .tail = r->r_found_len - x->x_len, .buddy = r->r_found_len < r->r_want);
}

static void trace_prealloc(const struct request *r, const struct mb_extent *x)
{
	struct super_block *sb = r->r_sb;
	ext4_fsblk_t orig = clamp_goal(sb, r->r_ar->ar_goal);

	TRACE(ext4_mballoc_prealloc, .dev = sb->s_dev->bd_dev, .ino = r->r_inode->i_ino,
	      .orig_group = ext4_group_of_block(sb, orig),
	      .orig_start = ext4_offset_in_group(sb, orig), .orig_len = r->r_ar->ar_len,
	      .orig_logical = r->r_ar->ar_logical, .result_group = x->x_group->g_info->bg_group,
	      .result_start = x->x_start, .result_len = x->x_len,
	      .result_logical = r->r_ar->ar_logical);
}

/*
 * r_len blocks are claimed (or reserved). Returns the first block, and x_len; what is not used of
 * the claim stays with the caller.
 */
static ext4_fsblk_t allocate(struct request *r, struct mb_extent *x, int *err)
{
	struct ext4_mballoc *mb = ext4_mb(r->r_sb);
	uint64_t start = stat_ns();

	counter_inc(&mb->mb_stats.mb_reqs);
	*err = find_blocks(r, x);
	if (*err == 0)
		*err = commit_extent(r, x);
	hist_add(&mb->mb_stats.mb_latency_ns, stat_ns() - start);
	if (*err != 0)
		return 0;
	if (r->r_from_pa)
		trace_prealloc(r, x);
	else
		trace_alloc(r, x);
	atomic_fetch_sub(&mb->mb_free, (int64_t)x->x_len);
	ext4_inode_add_blocks(r->r_inode, (int64_t)x->x_len);
	counter_inc(&mb->mb_stats.mb_success);
	counter_add(&mb->mb_stats.mb_allocated_blocks, x->x_len);
	hist_add(&mb->mb_stats.mb_len_blocks, x->x_len);
	return ext4_mb_block(r->r_sb, x->x_group, x->x_start);
}

static void request_init(struct request *r, handle_t *handle,
			 const struct ext4_allocation_request *ar)
{
	memset(r, 0, sizeof(*r));
	r->r_handle = handle;
	r->r_inode = ar->ar_inode;
	r->r_sb = ar->ar_inode->i_sb;
	r->r_ar = ar;
	r->r_len = ar->ar_len;
	if (r->r_len > r->r_sb->s_blocks_per_group)
		r->r_len = r->r_sb->s_blocks_per_group;
}

ext4_fsblk_t ext4_mb_new_blocks(handle_t *handle, struct ext4_allocation_request *ar, int *err)
{
	struct ext4_mballoc *mb = ext4_mb(ar->ar_inode->i_sb);
	bool reserved = (ar->ar_flags & EXT4_MB_DELALLOC_RESERVED) != 0;
	struct mb_extent x = {NULL, 0, 0};
	ext4_fsblk_t block;
	struct request r;
	uint32_t claimed;

	ASSERT_CMP(ar->ar_len, >, 0u);
	request_init(&r, handle, ar);
	if (!reserved)
		r.r_len = claim_blocks(mb, r.r_len, ar->ar_flags);
	if (r.r_len == 0) {
		*err = -ENOSPC;
		return 0;
	}
	claimed = reserved ? 0 : r.r_len;
	block = allocate(&r, &x, err);
	if (*err != 0)
		x.x_len = 0;
	if (reserved)
		/*
		 * The reservation still counts these blocks, until ext4_da_update_reserve_space().
		 */
		atomic_fetch_sub(&mb->mb_unclaimed, (int64_t)x.x_len);
	else
		ext4_mb_unclaim(mb, claimed - x.x_len);
	ar->ar_len = x.x_len;
	return block;
}

ext4_fsblk_t ext4_new_meta_block(handle_t *handle, struct inode *inode, ext4_fsblk_t goal,
				 unsigned ar_flags, int *err)
{
	struct ext4_allocation_request ar = {.ar_inode = inode, .ar_len = 1, .ar_goal = goal};
	struct ext4_mballoc *mb = ext4_mb(inode->i_sb);
	bool reserved =
		(ar_flags & EXT4_MB_DELALLOC_RESERVED) != 0 && ext4_mb_take_reserved_meta(inode);
	struct mb_extent x = {NULL, 0, 0};
	ext4_fsblk_t block;
	struct request r;

	ar.ar_flags = ar_flags & ~(EXT4_MB_HINT_DATA | EXT4_MB_STREAM_ALLOC);
	if (!reserved && claim_blocks(mb, 1, ar_flags) == 0) {
		*err = -ENOSPC;
		return 0;
	}
	request_init(&r, handle, &ar);
	block = allocate(&r, &x, err);
	if (*err == 0)
		return block;
	if (reserved)
		ext4_mb_untake_reserved_meta(inode);
	else
		ext4_mb_unclaim(mb, 1);
	return 0;
}

/*
 * ext4: fs/ext4/balloc.c ext4_inode_to_goal_block(): with flex_bg the first group of a flex group
 * is left to directories and metadata. There is no spreading by process: delayed allocation and
 * preallocation keep writers apart.
 */
ext4_fsblk_t ext4_inode_goal(struct inode *inode)
{
	struct super_block *sb = inode->i_sb;
	unsigned log_flex = sb->s_log_groups_per_flex;
	ext4_group_t group = inode->i_block_group;

	if (log_flex >= 2 && log_flex < 32) {
		group = group >> log_flex << log_flex;
		if (S_ISREG(inode->i_mode) && group + 1 < sb->s_groups_count)
			group++;
	}
	return clamp_goal(sb, ext4_group_first_block(sb, group));
}

struct ext4_mb_stats *ext4_mb_stats(struct super_block *sb)
{
	return &ext4_mb(sb)->mb_stats;
}
