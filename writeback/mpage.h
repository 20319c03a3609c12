/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef WRITEBACK_MPAGE_H
#define WRITEBACK_MPAGE_H
/* One call of writepages: what collecting (mpage_collect.c), mapping (mpage_map.c) and the loop (writepages.c) share. */

#include "writeback/internal.h"

#define MPAGE_RUNS_MAX 8u

enum stop { STOP_RANGE_END, STOP_BUDGET, STOP_NEED_MAP, STOP_EXTENT, STOP_LOCKED };

/* Blocks of one state; what ext4_map_blocks() says. */
struct map_run {
	ext4_lblk_t r_lblk;
	uint32_t r_len; /* 0: nothing */
	ext4_fsblk_t r_pblk;
	unsigned r_flags; /* EXT4_MAP_* */
};

struct mpage_da_data {
	struct address_space *mp_mapping;
	struct writeback_control *mp_wbc;
	enum page_tag mp_tag;
	uint32_t mp_first, mp_last; /* pages still to look at, inclusive */
	uint32_t mp_asked;	    /* where the caller, or range_cyclic, would begin */
	uint32_t mp_next;	    /* the page that would continue the run */
	long mp_budget;		    /* effective nr_to_write left */
	long mp_written;
	bool mp_do_map;	     /* a handle is open */
	bool mp_premap;	     /* premap_pass */
	bool mp_after;	     /* writepages_budget=after_add */
	bool mp_only_mapped; /* pages that need mapping are left alone */
	bool mp_past_end;    /* mp_first went past the last index */
	enum stop mp_stop;
	struct map_run mp_known; /* the state of blocks, see mp_known_seq */
	uint32_t mp_known_seq;
	/* the run that was taken: locked pages with references */
	unsigned mp_nr;
	ext4_lblk_t mp_lblk; /* first and number of its blocks */
	uint32_t mp_len;
	unsigned mp_flags; /* EXT4_MAP_* that all have */
	bool mp_gaps;	   /* one page, whose dirty blocks are not contiguous */
	unsigned mp_nr_runs;
	struct map_run mp_runs[MPAGE_RUNS_MAX]; /* where the taken blocks lie */
	struct io_end *mp_plain;		/* pass 0: pages inside i_disksize */
	struct io_end *mp_beyond;		/* pass 0: pages past it */
	handle_t *mp_rsv;			/* for mp_beyond */
	struct io_submit mp_io;
	struct page *mp_pages[MAX_WRITEPAGES_EXTENT_PAGES];
};

static inline struct inode *mpd_host(const struct mpage_da_data *mpd)
{
	return mpd->mp_mapping->as_host;
}

static inline struct wb_stats *mpd_stats(const struct mpage_da_data *mpd)
{
	return &mpd->mp_mapping->as_wb->wb_stats;
}

/* ---- mpage_collect.c ---- */

/*
 * Take pages from mp_first on until something stops it: mp_stop. Without a handle (mp_do_map) mapped pages are submitted; with one the next run that needs
 * mapping is taken into mp_pages, locked. 0 or negative errno.
 */
int mpage_collect(struct mpage_da_data *mpd);
/* Go on at index; past mp_last: mp_past_end. */
void mpage_set_first(struct mpage_da_data *mpd, uint64_t index);
/* Submit what the pass without a handle queued, and let go of its io_ends and its reservation. */
void mpage_put_premap_ends(struct mpage_da_data *mpd);
/* The locked page's dirty blocks that lie inside i_size. */
uint8_t mpage_blocks_to_write(const struct mpage_da_data *mpd, const struct page *page);
/* What lies past i_size in the page goes to the disk as zeros. */
void mpage_zero_tail(struct mpage_da_data *mpd, struct page *page);
/* The end of the page or of the file. */
uint64_t mpage_end_bytes(const struct mpage_da_data *mpd, const struct page *page);
/* n pages were submitted. */
void mpage_count_written(struct mpage_da_data *mpd, long n);

/* ---- mpage_map.c ---- */

/* Map the run (or the front part of it that one extent holds) in the handle; *pages: how many pages are mapped completely, also on error. */
int mpage_map_taken(handle_t *handle, struct mpage_da_data *mpd, unsigned *pages);
/* Queue the first `pages` pages of the run for writing and unlock them. rsv becomes the io_end's, in any case. */
int mpage_submit_taken(struct mpage_da_data *mpd, unsigned pages, handle_t *rsv);
/* Unlock what is left of the run; it stays dirty, and the next collect begins with it. */
void mpage_release_taken(struct mpage_da_data *mpd);

#endif
