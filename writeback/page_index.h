/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef WRITEBACK_PAGE_INDEX_H
#define WRITEBACK_PAGE_INDEX_H
/*
 * Pages of a file by index, with tags. The caller holds the mapping's as_lock for everything here. Every search costs O(log n).
 */

#include <stdbool.h>
#include <stdint.h>

struct page;

enum page_tag { PAGE_TAG_DIRTY, PAGE_TAG_TOWRITE, PAGE_TAG_WRITEBACK, PAGE_TAGS };
#define PAGE_TAG_ANY PAGE_TAGS /* searches: every page */
#define TAG_BIT(tag) (1u << (tag))

/* Zeroed: empty. */
struct page_index {
	void *pi_root;	       /* a node, or with pi_height 0 the page of index 0 */
	unsigned pi_height;    /* levels of nodes */
	unsigned pi_root_tags; /* TAG_BITs of the page with pi_height 0 */
};

/* 0, -ENOMEM, or -EEXIST. The page has no tags. */
int page_index_insert(struct page_index *pi, uint32_t index, struct page *page);
struct page *page_index_lookup(const struct page_index *pi, uint32_t index);
/* The page, or NULL. Its tags go with it; nodes without pages are freed. */
struct page *page_index_remove(struct page_index *pi, uint32_t index);
/* Set and clear TAG_BITs of a page that is there. */
void page_index_retag(struct page_index *pi, uint32_t index, unsigned set, unsigned clear);
bool page_index_test(const struct page_index *pi, uint32_t index, enum page_tag tag);
/* True if any page has the tag. */
bool page_index_tagged(const struct page_index *pi, enum page_tag tag);
/* Up to n pages with the tag in [start, last], ascending. */
unsigned page_index_gang(const struct page_index *pi, uint32_t start, uint32_t last,
			 enum page_tag tag, struct page **out, unsigned n);
/*
 * Give TOWRITE to the DIRTY pages in [start, last], at most `max` of them. Returns true with *next to go on from, or false when the range is done.
 */
bool page_index_tag_towrite(struct page_index *pi, uint32_t start, uint32_t last, unsigned max,
			    uint32_t *next);
/* Length of the run of DIRTY pages that starts at `start`, at most max. */
uint32_t page_index_dirty_run(const struct page_index *pi, uint32_t start, uint32_t max);
/* Number of nodes, and a check of all summaries: O(n), for tests. */
unsigned page_index_check(const struct page_index *pi);

#endif
