/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * sim.c - the operations of a simulated workload, each told to the file system, the oracle and the log of writes.
 *
 * Invariants: (1) the mark "op N" stands in the log before anything that operation N writes; (2) the mark "ack M" stands after
 * everything that acknowledgement M promises.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <linux/falloc.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "ext4/inode.h"
#include "tests/crash/sim.h"
#include "tests/lib/pattern.h"
#include "util/assert.h"

__attribute__((noreturn)) static void die(struct sim *m, const char *what, int err)
{
	fprintf(stderr, "seed %" PRIu64 ", operation %u: %s: %s\n", m->m_seed,
		oracle_now(m->m_oracle), what, strerror(-err));
	exit(1);
}

static void mark(struct sim *m, const char *kind, uint32_t number)
{
	char text[32];

	snprintf(text, sizeof(text), "%s %u", kind, number);
	if (blk_mark(m->m_dev, text))
		die(m, "mark", -EIO);
}

/* ---- fsync of a busy workload ---- */

static void *fsync_thread(void *arg)
{
	struct sim_fsync *sf = arg;

	sf->sf_err = ext4_sync_file(sf->sf_inode, false);
	atomic_store(&sf->sf_done, true);
	return NULL;
}

static void begin_fsync(struct sim *m, uint32_t id)
{
	struct sim_fsync *sf = &m->m_fsync;

	if (sf->sf_inode)
		return;
	sf->sf_inode = m->m_inodes[id];
	ihold(sf->sf_inode);
	sf->sf_id = id;
	sf->sf_op = oracle_now(m->m_oracle);
	atomic_store(&sf->sf_done, false);
	ASSERT(!pthread_create(&sf->sf_thread, NULL, fsync_thread, sf));
}

void sim_finish(struct sim *m)
{
	struct sim_fsync *sf = &m->m_fsync;

	if (!sf->sf_inode)
		return;
	pthread_join(sf->sf_thread, NULL);
	iput(sf->sf_inode);
	sf->sf_inode = NULL;
	if (sf->sf_err)
		die(m, "fsync", sf->sf_err);
	mark(m, "ack", oracle_ack_object_at(m->m_oracle, sf->sf_id, sf->sf_op));
}

/* The operation just told to the oracle begins. */
static void begin(struct sim *m, uint32_t op)
{
	struct timespec pause = {0, 0};

	if (m->m_busy) {
		if (m->m_fsync.sf_inode && atomic_load(&m->m_fsync.sf_done))
			sim_finish(m);
		pause.tv_nsec = (long)prng_below(&m->m_prng, 200000);
		nanosleep(&pause, NULL);
	}
	mark(m, "op", op);
}

/* 0: done; 1: refused for lack of space, and the oracle has forgotten it. */
static int finish(struct sim *m, const char *what, int err)
{
	if (!err)
		return 0;
	if (err != -ENOSPC || !m->m_full)
		die(m, what, err);
	oracle_drop_last(m->m_oracle);
	return 1;
}

static struct ns_cred cred_of(uint32_t id)
{
	struct ns_cred cred = {.nc_uid = id, .nc_gid = 1, .nc_privileged = true};

	return cred;
}

uint32_t sim_create(struct sim *m, uint32_t dir, const char *name, enum oracle_kind kind)
{
	uint32_t id = oracle_next_id(m->m_oracle);
	struct ns_cred cred = cred_of(id);
	char target[32];
	struct ns_new n = {
		.nn_name = name, .nn_len = strlen(name), .nn_cred = &cred, .nn_target = target};
	int err;

	snprintf(target, sizeof(target), "target-%u", id);
	begin(m, oracle_create(m->m_oracle, dir, name, kind));
	if (kind == OK_DIR) {
		n.nn_mode = S_IFDIR | 0755;
		err = ext4_mkdir(m->m_inodes[dir], &n, &m->m_inodes[id]);
	} else if (kind == OK_SYMLINK) {
		n.nn_mode = S_IFLNK | 0777;
		err = ext4_symlink(m->m_inodes[dir], &n, &m->m_inodes[id]);
	} else {
		n.nn_mode = S_IFREG | 0644;
		err = ext4_create(m->m_inodes[dir], &n, &m->m_inodes[id]);
	}
	return finish(m, "create", err) ? UINT32_MAX : id;
}

int sim_link(struct sim *m, uint32_t id, uint32_t dir, const char *name)
{
	begin(m, oracle_link(m->m_oracle, id, dir, name));
	return finish(m, "link", ext4_link(m->m_inodes[id], m->m_inodes[dir], name, strlen(name)));
}

int sim_unlink(struct sim *m, uint32_t dir, const char *name)
{
	uint32_t id = oracle_lookup(m->m_oracle, dir, name);
	bool is_dir = S_ISDIR(m->m_inodes[id]->i_mode);

	begin(m, oracle_unlink(m->m_oracle, dir, name));
	return finish(m, "unlink",
		      is_dir ? ext4_rmdir(m->m_inodes[dir], name, strlen(name))
			     : ext4_unlink(m->m_inodes[dir], name, strlen(name)));
}

int sim_rename(struct sim *m, uint32_t old_dir, const char *old_name, uint32_t new_dir,
	       const char *new_name, bool exchange)
{
	begin(m, oracle_rename(m->m_oracle, old_dir, old_name, new_dir, new_name, exchange));
	return finish(m, "rename",
		      ext4_rename(m->m_inodes[old_dir], old_name, strlen(old_name),
				  m->m_inodes[new_dir], new_name, strlen(new_name),
				  exchange ? RENAME_EXCHANGE : 0));
}

int sim_write(struct sim *m, uint32_t id, uint64_t pos, uint64_t len, unsigned flags)
{
	static uint8_t data[ORACLE_MAX_FILE] __attribute__((aligned(4096)));
	struct iovec iov = {data, len};
	struct wb_write w = {.w_iov = &iov, .w_iovcnt = 1, .w_len = len, .w_pos = pos};
	ssize_t n;

	pattern_fill(data, len, ((uint64_t)id << 32) | oracle_now(m->m_oracle), pos);
	w.w_cred.cr_privileged = true;
	if (flags & SIM_DSYNC)
		w.w_flags |= WB_WRITE_DSYNC;
	if (flags & SIM_DIRECT)
		w.w_flags |= WB_WRITE_DIRECT;
	begin(m, oracle_write(m->m_oracle, id, pos, data, len));
	n = file_write(m->m_inodes[id], &w);
	if (n < 0)
		return finish(m, "write", (int)n);
	if ((uint64_t)n != len) {
		if (!m->m_full)
			die(m, "short write", -EIO);
		oracle_shorten_last(m->m_oracle, (uint64_t)n);
	}
	if (flags & SIM_DSYNC)
		mark(m, "ack", oracle_ack_range(m->m_oracle, id, pos, (uint64_t)n));
	return 0;
}

int sim_append(struct sim *m, uint32_t id, uint64_t len, unsigned flags)
{
	return sim_write(m, id, i_size_read(m->m_inodes[id]), len, flags);
}

int sim_truncate(struct sim *m, uint32_t id, uint64_t size)
{
	begin(m, oracle_truncate(m->m_oracle, id, size));
	return finish(m, "truncate", ext4_truncate_to(m->m_inodes[id], size));
}

int sim_fallocate(struct sim *m, uint32_t id, int mode, uint64_t pos, uint64_t len)
{
	static const struct ext4_cred cred = {.cr_privileged = true};
	uint64_t size = i_size_read(m->m_inodes[id]), zero = len, new_size = 0;

	if (m->m_no_fallocate)
		return 0;
	if (!(mode & (FALLOC_FL_PUNCH_HOLE | FALLOC_FL_ZERO_RANGE)) || pos >= size)
		zero = 0;
	else if (pos + len > size)
		zero = size - pos;
	if (!(mode & FALLOC_FL_KEEP_SIZE))
		new_size = pos + len;
	begin(m, oracle_zero(m->m_oracle, id, zero ? pos : 0, zero, new_size));
	return finish(m, "fallocate", ext4_fallocate(m->m_inodes[id], mode, pos, len, &cred));
}

int sim_xattr(struct sim *m, uint32_t id, uint32_t value)
{
	struct ns_cred cred = cred_of(id);
	uint8_t text[200];

	memset(text, (int)(value & 0xff), sizeof(text));
	memcpy(text, &value, sizeof(value));
	begin(m, oracle_xattr(m->m_oracle, id, value));
	return finish(
		m, "xattr",
		value ? ext4_setxattr(m->m_inodes[id], "user.x", text, 4 + value % 190, 0, &cred)
		      : ext4_removexattr(m->m_inodes[id], "user.x"));
}

void sim_fsync(struct sim *m, uint32_t id, bool datasync)
{
	int err;

	if (m->m_busy) {
		begin_fsync(m, id);
		return;
	}
	err = ext4_sync_file(m->m_inodes[id], datasync);
	if (err)
		die(m, "fsync", err);
	mark(m, "ack",
	     datasync ? oracle_ack_data(m->m_oracle, id) : oracle_ack_object(m->m_oracle, id));
}

void sim_sync(struct sim *m)
{
	int err = wb_sync_fs(m->m_sb, true);

	if (err)
		die(m, "sync", err);
	mark(m, "ack", oracle_ack_all(m->m_oracle));
}

void sim_tick(struct sim *m)
{
	int err = 0;

	switch (prng_below(&m->m_prng, 3)) {
	case 0:
		if (m->m_busy)
			(void)jbd2_log_start_commit(m->m_sb->s_journal,
						    jbd2_newest_tid(m->m_sb->s_journal));
		else
			err = jbd2_journal_force_commit(m->m_sb->s_journal);
		break;
	case 1:
		err = wb_sync_fs(m->m_sb, false);
		break;
	default:
		wb_run_flusher(m->m_sb);
		break;
	}
	if (err)
		die(m, "tick", err);
}

void sim_close(struct sim *m, uint32_t id)
{
	iput(m->m_inodes[id]);
	m->m_inodes[id] = NULL;
}

void sim_check(struct sim *m, uint32_t id)
{
	static struct wb_read r;
	uint64_t size, pos = 0;
	const uint8_t *want = oracle_content(m->m_oracle, id, &size);

	if (i_size_read(m->m_inodes[id]) != size)
		die(m, "size while mounted", -EIO);
	while (pos < size) {
		int err = file_read(m->m_inodes[id], pos, 1 << 16, 0, &r);

		if (err)
			die(m, "read", err);
		for (int i = 0; i < r.r_iovcnt; i++) {
			if (memcmp(r.r_iov[i].iov_base, want + pos, r.r_iov[i].iov_len))
				die(m, "content while mounted", -EIO);
			pos += r.r_iov[i].iov_len;
		}
		wb_read_done(&r);
	}
}
