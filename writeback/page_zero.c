/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * page_zero.c - zeros in a part of a page: behind the end of a file, and at the edges of holes.
 *
 * What is zeroed is right in memory at once. Where the block lies on the disk with other content it becomes dirty; what is a hole or unwritten reads as zeros anyway. Nothing is made
 * for blocks that have neither a page nor content.
 *
 * Invariants: (1) after zero_eof_tail() nothing but zeros lies past i_size in a cached page, and nothing else will reach the disk in its block.
 * Locking: i_rwsem for write, held by the caller; one page lock.
 */
#include <string.h>

#include "writeback/internal.h"

/* The state of one block, EXT4_MAP_*, or negative errno. */
static int block_state(struct inode *inode, ext4_lblk_t lblk)
{
	struct ext4_map_blocks map = {.m_lblk = lblk, .m_len = 1};
	int ret = ext4_map_blocks(NULL, inode, &map, 0);

	return ret < 0 ? ret : (int)map.m_flags;
}

static bool is_zero(const uint8_t *data, size_t len)
{
	return len == 0 || (data[0] == 0 && memcmp(data, data + 1, len - 1) == 0);
}

/* Zero [off, end) of block `block` in the locked page. 1: it became dirty. */
static int zero_in_block(struct page *page, unsigned block, unsigned off, unsigned end)
{
	struct address_space *as = page->p_mapping;
	uint8_t bit = (uint8_t)(1u << block);
	int state = block_state(as->as_host, page_first_block(as, page->p_index) + block);
	int err;

	if (state < 0)
		return state;
	if ((page->p_uptodate & bit) == 0) {
		if ((state & EXT4_MAP_MAPPED) == 0)
			return 0;
		err = read_page_blocks(page, bit);
		if (err != 0)
			return err;
	}
	if (is_zero(page->p_data + off, end - off))
		return 0;
	memset(page->p_data + off, 0, end - off);
	if ((state & EXT4_MAP_MAPPED) == 0 || (page->p_dirty & bit) != 0)
		return 0;
	set_page_dirty(page, bit);
	return 1;
}

/* Zero bytes [off, end) of the page. */
static int zero_in_page(struct page *page, unsigned off, unsigned end)
{
	struct address_space *as = page->p_mapping;
	unsigned size = 1u << as->as_blkbits;
	int dirtied = 0;

	while (off < end) {
		unsigned block = off >> as->as_blkbits;
		unsigned stop = (block + 1) * size < end ? (block + 1) * size : end;
		int ret = zero_in_block(page, block, off, stop);

		if (ret < 0)
			return ret;
		dirtied |= ret;
		off = stop;
	}
	return dirtied;
}

/* 1: some block of bytes [from, to) has content on the disk. */
static int on_disk(struct inode *inode, uint64_t from, uint64_t to)
{
	unsigned bits = inode->i_mapping->as_blkbits;

	for (ext4_lblk_t lblk = (ext4_lblk_t)(from >> bits);
	     lblk <= (ext4_lblk_t)((to - 1) >> bits); lblk++) {
		int state = block_state(inode, lblk);

		if (state < 0)
			return state;
		if (state & EXT4_MAP_MAPPED)
			return 1;
	}
	return 0;
}

/* The page of the range, with a reference, or NULL if there is nothing to zero. */
static int page_to_zero(struct inode *inode, uint64_t from, uint64_t to, struct page **out)
{
	struct address_space *as = inode->i_mapping;
	uint32_t index = (uint32_t)(from >> PAGE_SHIFT);
	int ret;

	*out = find_get_page(as, index);
	if (*out != NULL)
		return 0;
	ret = on_disk(inode, from, to);
	if (ret <= 0)
		return ret;
	return grab_pages(as, index, 1, false, out);
}

int zero_partial_page(struct inode *inode, uint64_t from, uint64_t to)
{
	struct address_space *as = inode->i_mapping;
	struct page *page;
	int ret;

	if (from >= to)
		return 0;
	ASSERT_CMP(from >> PAGE_SHIFT, ==, (to - 1) >> PAGE_SHIFT);
	ret = page_to_zero(inode, from, to, &page);
	if (ret != 0 || page == NULL)
		return ret;
	wait_on_page_writeback(as, page);
	lock_page(page);
	ASSERT(page->p_mapping == as);
	wait_on_page_writeback(as, page);
	ret = zero_in_page(page, (unsigned)(from & (PAGE_SIZE - 1)),
			   (unsigned)((to - 1) & (PAGE_SIZE - 1)) + 1);
	if (!page_test(page, PG_DIRTY))
		page_lru_add(as->as_wb, &page, 1);
	unlock_page(page);
	page_put(as->as_wb, page);
	return ret;
}

void clear_page_blocks(struct address_space *as, uint32_t index, unsigned first, unsigned last)
{
	struct page *page = find_get_page(as, index);
	uint8_t mask = (uint8_t)((2u << last) - (1u << first));

	if (page == NULL)
		return;
	wait_on_page_writeback(as, page);
	lock_page(page);
	wait_on_page_writeback(as, page);
	memset(page->p_data + ((size_t)first << as->as_blkbits), 0,
	       (size_t)(last - first + 1) << as->as_blkbits);
	page->p_uptodate |= mask;
	page->p_dirty &= (uint8_t)~mask;
	if (page->p_dirty == 0)
		clear_page_dirty(page);
	if (!page_test(page, PG_DIRTY))
		page_lru_add(as->as_wb, &page, 1);
	unlock_page(page);
	page_put(as->as_wb, page);
}

int zero_eof_tail(struct inode *inode)
{
	struct address_space *as = inode->i_mapping;
	uint64_t size = i_size_read(inode);
	uint64_t block_end = ((size - 1) | ((UINT64_C(1) << as->as_blkbits) - 1)) + 1;
	uint64_t page_end = ((size - 1) | (PAGE_SIZE - 1)) + 1;
	struct page *page;
	int ret;

	if (size == 0)
		return 0;
	ret = zero_partial_page(inode, size, block_end);
	if (ret < 0 || block_end == page_end)
		return ret;
	/* Blocks past the end count only where a page shows them. */
	page = find_get_page(as, (uint32_t)(size >> PAGE_SHIFT));
	if (page == NULL)
		return ret;
	page_put(as->as_wb, page);
	if (zero_partial_page(inode, block_end, page_end) < 0)
		return -EIO;
	return ret;
}
