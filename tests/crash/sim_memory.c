/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * sim_memory.c - a workload on a file system in memory, without FUSE: m_inodes[] are its open files.
 *
 * Locking: as the file system's.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "ext4/inode.h"
#include "namespace/namespace.h"
#include "tests/crash/sim.h"
#include "util/assert.h"

struct memory {
	struct blkdev *m_dev; /* the log filter */
	struct super_block *m_sb;
	struct inode *m_inodes[SIM_MAX_OBJECTS];
};

static struct memory *memory_of(struct sim *m)
{
	return m->m_backend;
}

static struct inode *inode_of(struct sim *m, uint32_t id)
{
	return memory_of(m)->m_inodes[id];
}

static struct ns_cred cred_of(uint32_t id)
{
	struct ns_cred cred = {.nc_uid = id, .nc_gid = 1, .nc_privileged = true};

	return cred;
}

static int do_create(struct sim *m, uint32_t id, uint32_t dir, const char *name,
		     enum oracle_kind kind, const char *target)
{
	struct ns_cred cred = cred_of(id);
	struct ns_new n = {
		.nn_name = name, .nn_len = strlen(name), .nn_cred = &cred, .nn_target = target};
	struct inode **to = &memory_of(m)->m_inodes[id];

	if (kind == OK_DIR) {
		n.nn_mode = S_IFDIR | 0755;
		return ext4_mkdir(inode_of(m, dir), &n, to);
	}
	if (kind == OK_SYMLINK) {
		n.nn_mode = S_IFLNK | 0777;
		return ext4_symlink(inode_of(m, dir), &n, to);
	}
	n.nn_mode = S_IFREG | 0644;
	return ext4_create(inode_of(m, dir), &n, to);
}

static int do_open(struct sim *m, uint32_t id, uint32_t dir, const char *name)
{
	return ext4_lookup(inode_of(m, dir), name, strlen(name), &memory_of(m)->m_inodes[id]);
}

static void do_close(struct sim *m, uint32_t id)
{
	iput(inode_of(m, id));
	memory_of(m)->m_inodes[id] = NULL;
}

static int do_link(struct sim *m, uint32_t id, uint32_t dir, const char *name)
{
	return ext4_link(inode_of(m, id), inode_of(m, dir), name, strlen(name));
}

static int do_unlink(struct sim *m, uint32_t dir, const char *name, bool is_dir)
{
	if (is_dir)
		return ext4_rmdir(inode_of(m, dir), name, strlen(name));
	return ext4_unlink(inode_of(m, dir), name, strlen(name));
}

static int do_rename(struct sim *m, uint32_t old_dir, const char *old_name, uint32_t new_dir,
		     const char *new_name, bool exchange)
{
	return ext4_rename(inode_of(m, old_dir), old_name, strlen(old_name), inode_of(m, new_dir),
			   new_name, strlen(new_name), exchange ? RENAME_EXCHANGE : 0);
}

static ssize_t do_write(struct sim *m, uint32_t id, uint64_t pos, uint8_t *data, uint64_t len,
			unsigned flags)
{
	struct iovec iov = {data, len};
	struct wb_write w = {.w_iov = &iov, .w_iovcnt = 1, .w_len = len, .w_pos = pos};

	w.w_cred.cr_privileged = true;
	if (flags & SIM_DSYNC)
		w.w_flags |= WB_WRITE_DSYNC;
	if (flags & SIM_DIRECT)
		w.w_flags |= WB_WRITE_DIRECT;
	return file_write(inode_of(m, id), &w);
}

static ssize_t do_read(struct sim *m, uint32_t id, uint64_t pos, uint8_t *to, uint64_t len,
		       uint64_t size)
{
	static struct wb_read r;
	size_t n = 0;
	int err;

	if (i_size_read(inode_of(m, id)) != size)
		return -EIO;
	err = file_read(inode_of(m, id), pos, len, 0, &r);
	if (err)
		return err;
	for (int i = 0; i < r.r_iovcnt; i++) {
		memcpy(to + n, r.r_iov[i].iov_base, r.r_iov[i].iov_len);
		n += r.r_iov[i].iov_len;
	}
	wb_read_done(&r);
	return (ssize_t)n;
}

static int do_truncate(struct sim *m, uint32_t id, uint64_t size)
{
	return ext4_truncate_to(inode_of(m, id), size);
}

static int do_fallocate(struct sim *m, uint32_t id, int mode, uint64_t pos, uint64_t len)
{
	static const struct ext4_cred cred = {.cr_privileged = true};

	return ext4_fallocate(inode_of(m, id), mode, pos, len, &cred);
}

static int do_xattr(struct sim *m, uint32_t id, const uint8_t *value, size_t len)
{
	struct ns_cred cred = cred_of(id);

	return len ? ext4_setxattr(inode_of(m, id), "user.x", value, len, 0, &cred)
		   : ext4_removexattr(inode_of(m, id), "user.x");
}

static int do_sync_file(struct sim *m, uint32_t id, bool datasync)
{
	return ext4_sync_file(inode_of(m, id), datasync);
}

static int do_sync(struct sim *m)
{
	return wb_sync_fs(memory_of(m)->m_sb, true);
}

static void do_start_commit(struct sim *m)
{
	journal_t *j = memory_of(m)->m_sb->s_journal;

	(void)jbd2_log_start_commit(j, jbd2_newest_tid(j));
}

static int do_tick(struct sim *m, unsigned kind)
{
	struct super_block *sb = memory_of(m)->m_sb;

	if (kind == 0 && !m->m_busy)
		return jbd2_journal_force_commit(sb->s_journal);
	if (kind == 0)
		do_start_commit(m);
	else if (kind == 1)
		return wb_sync_fs(sb, false);
	else
		wb_run_flusher(sb);
	return 0;
}

static void do_write_out(struct sim *m, uint32_t id)
{
	(void)filemap_fdatawrite(inode_of(m, id));
}

static void *do_hold(struct sim *m, uint32_t id)
{
	ihold(inode_of(m, id));
	return inode_of(m, id);
}

static int do_sync_held(void *held)
{
	return ext4_sync_file(held, false);
}

static void do_put(void *held)
{
	iput(held);
}

static int do_mark(struct sim *m, const char *text)
{
	return blk_mark(memory_of(m)->m_dev, text);
}

static int do_mark_ack(struct sim *m, uint32_t number, uint32_t id)
{
	char text[32];

	(void)id;
	snprintf(text, sizeof(text), "ack %u", number);
	return do_mark(m, text);
}

static const struct sim_ops memory_ops = {
	.create = do_create,
	.open = do_open,
	.close = do_close,
	.link = do_link,
	.unlink = do_unlink,
	.rename = do_rename,
	.write = do_write,
	.read = do_read,
	.truncate = do_truncate,
	.fallocate = do_fallocate,
	.xattr = do_xattr,
	.sync_file = do_sync_file,
	.sync = do_sync,
	.tick = do_tick,
	.write_out = do_write_out,
	.start_commit = do_start_commit,
	.hold = do_hold,
	.sync_held = do_sync_held,
	.put = do_put,
	.mark = do_mark,
	.mark_ack = do_mark_ack,
};

int sim_memory_begin(struct sim *m, struct blkdev *dev, const struct ext4_options *opts)
{
	struct memory *mem = calloc(1, sizeof(*mem));
	int err;

	ASSERT(mem);
	mem->m_dev = dev;
	m->m_ops = &memory_ops;
	m->m_backend = mem;
	err = ext4_mount(dev, opts, &mem->m_sb);
	if (err)
		return err;
	mem->m_inodes[ORACLE_ROOT] = ext4_iget(mem->m_sb, EXT4_ROOT_INO, 0);
	m->m_is_dir[ORACLE_ROOT] = true;
	return IS_ERR(mem->m_inodes[ORACLE_ROOT]) ? PTR_ERR(mem->m_inodes[ORACLE_ROOT]) : 0;
}

int sim_memory_end(struct sim *m)
{
	struct memory *mem = memory_of(m);
	int err;

	for (unsigned i = 0; i < SIM_MAX_OBJECTS; i++) {
		if (mem->m_inodes[i])
			iput(mem->m_inodes[i]);
	}
	err = ext4_umount(mem->m_sb);
	free(mem);
	return err;
}
