/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * seek.c - SEEK_HOLE and SEEK_DATA, and where a block is on the device.
 *
 * Written and delayed blocks are data. An unwritten extent is a hole, but for pages that are dirty or on their way to the disk: those are data although the extent does not say so yet.
 * The end of the file counts as a hole.
 *
 * Invariants: (1) bytes that were written and not zeroed since are never reported as a hole. (2) Each step of the walk goes forward.
 * Locking: i_rwsem for read; a page that finishes meanwhile has its extent converted first.
 */
#include <unistd.h>

#include "writeback/internal.h"

/* A run of one kind: bytes [s_start, s_end). */
struct span {
	uint64_t s_start, s_end;
	bool s_data;
};

/* The first page in [first, last] whose data the extent does not show, or false. */
static bool next_pending_page(struct address_space *as, uint32_t first, uint32_t last,
			      uint32_t *index)
{
	struct page *dirty = NULL, *writing = NULL;

	mutex_lock(&as->as_lock);
	(void)page_index_gang(&as->as_index, first, last, PAGE_TAG_DIRTY, &dirty, 1);
	(void)page_index_gang(&as->as_index, first, last, PAGE_TAG_WRITEBACK, &writing, 1);
	if (dirty != NULL && (writing == NULL || dirty->p_index < writing->p_index))
		*index = dirty->p_index;
	else if (writing != NULL)
		*index = writing->p_index;
	mutex_unlock(&as->as_lock);
	return dirty != NULL || writing != NULL;
}

/* The first part of an unwritten run [pos, end) that is of one kind. */
static void unwritten_span(struct address_space *as, uint64_t pos, uint64_t end, struct span *out)
{
	uint32_t first = (uint32_t)(pos >> PAGE_SHIFT), last = (uint32_t)((end - 1) >> PAGE_SHIFT);
	uint32_t index = first;

	out->s_start = pos;
	out->s_end = end;
	out->s_data = false;
	if (!next_pending_page(as, first, last, &index))
		return;
	if (index > first) {
		out->s_end = (uint64_t)index << PAGE_SHIFT;
		return;
	}
	out->s_data = true;
	if (end > ((uint64_t)first + 1) << PAGE_SHIFT)
		out->s_end = ((uint64_t)first + 1) << PAGE_SHIFT;
}

/* What the file is like from pos on; pos < size. */
static int next_span(struct inode *inode, uint64_t pos, uint64_t size, struct span *out)
{
	unsigned bits = inode->i_sb->s_blocksize_bits;
	ext4_lblk_t lblk = (ext4_lblk_t)(pos >> bits), last = (ext4_lblk_t)((size - 1) >> bits);
	struct ext4_map_blocks map = {.m_lblk = lblk, .m_len = last - lblk + 1};
	uint64_t end;
	int ret = ext4_map_blocks(NULL, inode, &map, 0);

	if (ret < 0)
		return ret;
	end = ((uint64_t)lblk + map.m_len) << bits;
	if (end > size)
		end = size;
	if (map.m_flags & EXT4_MAP_UNWRITTEN) {
		unwritten_span(inode->i_mapping, pos, end, out);
		return 0;
	}
	out->s_start = pos;
	out->s_end = end;
	out->s_data = (map.m_flags & (EXT4_MAP_MAPPED | EXT4_MAP_DELAYED)) != 0;
	return 0;
}

static int64_t seek_locked(struct inode *inode, uint64_t pos, bool want_data)
{
	uint64_t size = i_size_read(inode);

	if (pos >= size)
		return -ENXIO;
	while (pos < size) {
		struct span span;
		int err = next_span(inode, pos, size, &span);

		if (err != 0)
			return err;
		if (span.s_data == want_data)
			return (int64_t)span.s_start;
		pos = span.s_end;
	}
	return want_data ? -ENXIO : (int64_t)size;
}

int64_t ext4_seek(struct inode *inode, int64_t offset, int whence)
{
	int64_t ret;

	if (inode->i_mapping == NULL || (whence != SEEK_HOLE && whence != SEEK_DATA))
		return -EINVAL;
	if (offset < 0)
		return -ENXIO;
	down_read(&inode->i_rwsem);
	ret = seek_locked(inode, (uint64_t)offset, whence == SEEK_DATA);
	up_read(&inode->i_rwsem);
	return ret;
}

static int64_t block_now(struct inode *inode, uint64_t lblk, bool *pending)
{
	unsigned bits = inode->i_sb->s_blocksize_bits;
	uint32_t page = (uint32_t)((lblk << bits) >> PAGE_SHIFT);
	struct ext4_map_blocks map = {.m_lblk = (ext4_lblk_t)lblk, .m_len = 1};
	int ret;

	down_read(&inode->i_rwsem);
	*pending = next_pending_page(inode->i_mapping, page, page, &page);
	ret = ext4_map_blocks(NULL, inode, &map, 0);
	up_read(&inode->i_rwsem);
	if (ret < 0)
		return ret;
	return (map.m_flags & EXT4_MAP_MAPPED) != 0 ? (int64_t)map.m_pblk : 0;
}

int64_t ext4_bmap(struct inode *inode, uint64_t lblk)
{
	bool pending;
	int64_t ret;
	int err;

	if (inode->i_mapping == NULL)
		return -EINVAL;
	if (lblk > (i_size_read(inode) >> inode->i_sb->s_blocksize_bits))
		return 0;
	ret = block_now(inode, lblk, &pending);
	if (!pending || ret < 0)
		return ret;
	err = filemap_write_and_wait_range(inode, 0, UINT64_MAX);
	return err != 0 ? err : block_now(inode, lblk, &pending);
}
