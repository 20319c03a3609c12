/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * symlink.c - where symlinks lead: a short target in the inode, a longer one in a block.
 *
 * Invariants: (1) a target is 1 .. block size - 1 bytes without a zero byte; i_size is its length. (2) Up to 59 bytes it
 * is in i_block, and the inode has no block map; else in block 0, ended by a zero byte.
 * Locking: a symlink's target never changes once it has a name; i_rwsem for read keeps eviction away.
 */
#include <string.h>

#include "alloc/map.h"
#include "namespace/ns.h"
#include "util/assert.h"

#define FAST_BYTES sizeof(((struct inode *)0)->i_block)

bool ns_fast_symlink(const struct inode *inode)
{
	uint64_t size = i_size_read(inode);

	return S_ISLNK(inode->i_mode) && size > 0 && size < FAST_BYTES;
}

unsigned ns_symlink_credits(struct super_block *sb, size_t len)
{
	/* The block itself, its bitmap, descriptor, and the inode with the superblock. */
	return len < FAST_BYTES || sb == NULL ? 0 : 5;
}

static int init_slow(handle_t *handle, struct inode *inode, const char *target, size_t len)
{
	struct buffer_head *bh;
	int err = 0;

	bh = ext4_bread(handle, inode, 0, true, &err);
	if (bh == NULL)
		return err != 0 ? err : -EIO;
	lock_buffer(bh);
	memcpy(bh->b_data, target, len);
	bh->b_data[len] = '\0';
	unlock_buffer(bh);
	err = ext4_handle_dirty_metadata(handle, inode, bh);
	bh_put(bh);
	return err;
}

int ns_symlink_init(handle_t *handle, struct inode *inode, const char *target, size_t len)
{
	int err = 0;

	ASSERT(S_ISLNK(inode->i_mode));
	if (len < FAST_BYTES) {
		inode->i_flags &= ~(uint32_t)EXT4_EXTENTS_FL;
		memset(inode->i_block, 0, sizeof(inode->i_block));
		memcpy(inode->i_block, target, len);
	} else {
		err = init_slow(handle, inode, target, len);
	}
	if (err != 0)
		return err;
	i_size_write(inode, len);
	atomic_store(&inode->i_disksize, (uint64_t)len);
	return 0;
}

/* Copy out what has been checked to be `len` bytes and a zero byte. */
static int take_target(struct inode *inode, const char *from, uint64_t len, char *buf)
{
	if (len == 0 || strnlen(from, (size_t)len + 1) != len)
		return ext4_error(inode->i_sb, inode->i_ino, "bad length of a symlink's target");
	memcpy(buf, from, (size_t)len + 1);
	return (int)len;
}

static int read_slow(struct inode *inode, uint64_t len, char *buf)
{
	struct buffer_head *bh;
	int ret = 0;

	bh = ext4_bread(NULL, inode, 0, false, &ret);
	if (bh == NULL)
		return ret != 0 ? ret
				: ext4_error(inode->i_sb, inode->i_ino, "symlink without target");
	ret = take_target(inode, (const char *)bh->b_data, len, buf);
	bh_put(bh);
	return ret;
}

int ext4_readlink(struct inode *inode, char *buf, size_t size)
{
	uint64_t len = i_size_read(inode);
	int ret;

	if (!S_ISLNK(inode->i_mode))
		return -EINVAL;
	if (len >= inode->i_sb->s_blocksize)
		return ext4_error(inode->i_sb, inode->i_ino, "symlink of %llu bytes",
				  (unsigned long long)len);
	if (len >= size)
		return -ENAMETOOLONG;
	if (ns_fast_symlink(inode))
		ret = take_target(inode, (const char *)inode->i_block, len, buf);
	else
		ret = read_slow(inode, len, buf);
	if (ret >= 0)
		ns_accessed(inode);
	return ret;
}
