/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * case_pages.c - the index of a file's pages, and the page cache around it.
 *
 * `pages` is the radix tree alone, with numbers in place of pages, so that ten million cost little memory.
 * `cache` is the whole: buffered writes of one page each, look-ups, the scan for dirty pages, writeback.
 */
#include <stdlib.h>

#include "bench/lib/benchlib.h"
#include "bench/micro/micro.h"
#include "writeback/page_index.h"

#define DIRTY_EVERY 64u
#define GANG 64u

struct pages {
	struct page_index pi;
	uint64_t n, seed, found;
};

/* Never followed: the index only keeps it. */
static struct page *fake_page(uint64_t i)
{
	return (struct page *)(uintptr_t)((i + 1) * 64);
}

static void pages_insert(void *arg)
{
	struct pages *p = arg;

	for (uint64_t i = 0; i < p->n; i++)
		micro_must(page_index_insert(&p->pi, (uint32_t)i, fake_page(i)), "insert");
}

static void pages_lookup(void *arg)
{
	struct pages *p = arg;

	for (uint64_t i = 0; i < p->n; i++) {
		uint64_t at = bench_random_below(&p->seed, p->n);

		p->found += page_index_lookup(&p->pi, (uint32_t)at) == fake_page(at);
	}
}

static void pages_tag(void *arg)
{
	struct pages *p = arg;

	for (uint64_t i = 0; i < p->n; i += DIRTY_EVERY)
		page_index_retag(&p->pi, (uint32_t)i, TAG_BIT(PAGE_TAG_DIRTY), 0);
}

/* As writepages goes through a file: the next tagged pages after those of the last call. */
static void pages_scan(void *arg)
{
	struct pages *p = arg;
	struct page *out[GANG];
	uint32_t from = 0;
	unsigned got;

	do {
		got = page_index_gang(&p->pi, from, UINT32_MAX, PAGE_TAG_DIRTY, out, GANG);
		if (got > 0)
			from = (uint32_t)((uintptr_t)out[got - 1] / 64);
		p->found += got;
	} while (got == GANG);
}

/* One page is tagged, at the very end: the search for it must not visit the others. */
static void pages_find_last(void *arg)
{
	struct pages *p = arg;
	struct page *out[1];

	for (unsigned i = 0; i < 1000; i++)
		p->found += page_index_gang(&p->pi, 0, UINT32_MAX, PAGE_TAG_WRITEBACK, out, 1);
}

static void pages_towrite(void *arg)
{
	struct pages *p = arg;
	uint32_t from = 0;

	while (page_index_tag_towrite(&p->pi, from, UINT32_MAX, 4096, &from))
		;
}

static void pages_remove(void *arg)
{
	struct pages *p = arg;

	for (uint64_t i = 0; i < p->n; i++)
		p->found += page_index_remove(&p->pi, (uint32_t)i) != NULL;
}

static void run_pages(struct micro *m)
{
	struct pages p = {.n = m->m_n, .seed = m->m_seed};
	uint64_t tagged = (p.n + DIRTY_EVERY - 1) / DIRTY_EVERY;

	micro_section(m, "insert", p.n, pages_insert, &p);
	micro_section(m, "lookup_random", p.n, pages_lookup, &p);
	micro_section(m, "tag", tagged, pages_tag, &p);
	micro_section(m, "scan_tagged", tagged, pages_scan, &p);
	micro_section(m, "tag_towrite", tagged, pages_towrite, &p);
	page_index_retag(&p.pi, (uint32_t)p.n - 1, TAG_BIT(PAGE_TAG_WRITEBACK), 0);
	micro_section(m, "find_last_tagged", 1000, pages_find_last, &p);
	micro_section(m, "remove", p.n, pages_remove, &p);
	if (p.found != p.n + tagged + 1000 + p.n)
		bench_die(0, "pages: a search went wrong");
}

const struct micro_case micro_pages = {
	.mc_name = "pages",
	.mc_about = "n pages in the index of one file, one of 64 tagged",
	.mc_default_max = 1000000,
	.mc_max = 100000000,
	.mc_run = run_pages,
};

/* ---- The page cache ---- */

struct cache {
	struct micro_fs fs;
	struct inode *inode;
	uint64_t n, seed, found;
	char buf[PAGE_SIZE];
};

static void cache_write(void *arg)
{
	struct cache *c = arg;
	struct iovec iov = {c->buf, PAGE_SIZE};

	for (uint64_t i = 0; i < c->n; i++) {
		struct wb_write w = {.w_iov = &iov,
				     .w_iovcnt = 1,
				     .w_len = PAGE_SIZE,
				     .w_pos = i * PAGE_SIZE,
				     .w_cred = {0, 0, true}};
		ssize_t done = file_write(c->inode, &w);

		if (done != PAGE_SIZE)
			bench_die(done < 0 ? (int)-done : 0, "buffered write");
	}
}

static void cache_find(void *arg)
{
	struct cache *c = arg;

	for (uint64_t i = 0; i < c->n; i++) {
		uint32_t at = (uint32_t)bench_random_below(&c->seed, c->n);
		struct page *page = find_get_page(c->inode->i_mapping, at);

		c->found += page != NULL;
		if (page != NULL)
			page_put(c->fs.mf_sb->s_wb, page);
	}
}

static void cache_scan(void *arg)
{
	struct cache *c = arg;
	struct page *out[GANG];
	uint32_t from = 0;
	unsigned got;

	do {
		got = find_get_pages(c->inode->i_mapping, from, UINT32_MAX, PAGE_TAG_DIRTY, out,
				     GANG);
		for (unsigned i = 0; i < got; i++) {
			from = out[i]->p_index + 1;
			page_put(c->fs.mf_sb->s_wb, out[i]);
		}
		c->found += got;
	} while (got == GANG);
}

static void cache_sync(void *arg)
{
	struct cache *c = arg;

	micro_must(wb_sync_fs(c->fs.mf_sb, true), "sync");
}

static void run_cache(struct micro *m)
{
	struct cache *c = calloc(1, sizeof(*c));

	if (!c)
		bench_die(ENOMEM, "cache");
	c->n = m->m_n;
	c->seed = m->m_seed;
	micro_fs_open(&c->fs, (c->n * PAGE_SIZE * 3 / 2) + (UINT64_C(1) << 30),
		      c->n * PAGE_SIZE * 4 + (UINT64_C(64) << 20));
	micro_must(wb_tunable_set(c->fs.mf_sb, "dirty_bytes", "1000000000000"), "dirty_bytes");
	c->inode = micro_fs_file(&c->fs, 0);
	micro_section(m, "write_4k", c->n, cache_write, c);
	micro_section(m, "find_random", c->n, cache_find, c);
	micro_section(m, "scan_dirty", c->n, cache_scan, c);
	micro_section(m, "sync", c->n, cache_sync, c);
	if (c->found != 2 * c->n)
		bench_die(0, "cache: pages were lost");
}

const struct micro_case micro_cache = {
	.mc_name = "cache",
	.mc_about = "a file of n pages written by 4 KiB, looked up, scanned, written back",
	.mc_default_max = 100000,
	.mc_max = 1000000,
	.mc_run = run_cache,
};
