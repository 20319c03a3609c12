/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * sim.c - the operations of a workload, each told to the file system, the oracle and the log of writes.
 *
 * Invariants: (1) the mark "op N" stands in the log before anything that operation N writes; (2) the mark "ack M" stands after
 * everything that acknowledgement M promises.
 */
#include <inttypes.h>
#include <linux/falloc.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/crash/sim.h"
#include "tests/lib/pattern.h"
#include "util/assert.h"
#include "util/err.h"

__attribute__((noreturn)) static void die(struct sim *m, const char *what, int err)
{
	fprintf(stderr, "seed %" PRIu64 ", operation %u: %s: %s\n", m->m_seed,
		oracle_now(m->m_oracle), what, strerror(-err));
	exit(1);
}

static void ack(struct sim *m, uint32_t number, uint32_t id)
{
	if (m->m_ops->mark_ack(m, number, id))
		die(m, "mark", -EIO);
}

/* ---- fsync of a busy workload ---- */

static void *fsync_thread(void *arg)
{
	struct sim_fsync *sf = arg;

	sf->sf_err = sf->sf_ops->sync_held(sf->sf_held);
	atomic_store(&sf->sf_done, true);
	return NULL;
}

static void begin_fsync(struct sim *m, uint32_t id)
{
	struct sim_fsync *sf = &m->m_fsync;

	if (sf->sf_held)
		return;
	sf->sf_ops = m->m_ops;
	sf->sf_held = m->m_ops->hold(m, id);
	sf->sf_id = id;
	sf->sf_op = oracle_now(m->m_oracle);
	atomic_store(&sf->sf_done, false);
	ASSERT(!pthread_create(&sf->sf_thread, NULL, fsync_thread, sf));
}

void sim_finish(struct sim *m)
{
	struct sim_fsync *sf = &m->m_fsync;

	if (!sf->sf_held)
		return;
	pthread_join(sf->sf_thread, NULL);
	m->m_ops->put(sf->sf_held);
	sf->sf_held = NULL;
	if (sf->sf_err)
		die(m, "fsync", sf->sf_err);
	ack(m, oracle_ack_object_at(m->m_oracle, sf->sf_id, sf->sf_op), sf->sf_id);
}

/* The operation just told to the oracle begins. */
static void begin(struct sim *m, uint32_t op)
{
	struct timespec pause = {0, 0};
	char text[32];

	if (m->m_busy) {
		if (m->m_fsync.sf_held && atomic_load(&m->m_fsync.sf_done))
			sim_finish(m);
		pause.tv_nsec = (long)prng_below(&m->m_prng, 200000);
		nanosleep(&pause, NULL);
	}
	snprintf(text, sizeof(text), "op %u", op);
	if (m->m_ops->mark(m, text))
		die(m, "mark", -EIO);
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

uint32_t sim_create(struct sim *m, uint32_t dir, const char *name, enum oracle_kind kind)
{
	uint32_t id = oracle_next_id(m->m_oracle);
	char target[32];
	int err;

	snprintf(target, sizeof(target), "target-%u", id);
	begin(m, oracle_create(m->m_oracle, dir, name, kind));
	m->m_is_dir[id] = kind == OK_DIR;
	err = m->m_ops->create(m, id, dir, name, kind, target);
	return finish(m, "create", err) ? UINT32_MAX : id;
}

void sim_open(struct sim *m, uint32_t id, uint32_t dir, const char *name)
{
	int err = m->m_ops->open(m, id, dir, name);

	if (err)
		die(m, "open", err);
}

int sim_link(struct sim *m, uint32_t id, uint32_t dir, const char *name)
{
	begin(m, oracle_link(m->m_oracle, id, dir, name));
	return finish(m, "link", m->m_ops->link(m, id, dir, name));
}

int sim_unlink(struct sim *m, uint32_t dir, const char *name)
{
	uint32_t id = oracle_lookup(m->m_oracle, dir, name);

	begin(m, oracle_unlink(m->m_oracle, dir, name));
	return finish(m, "unlink", m->m_ops->unlink(m, dir, name, m->m_is_dir[id]));
}

int sim_rename(struct sim *m, uint32_t old_dir, const char *old_name, uint32_t new_dir,
	       const char *new_name, bool exchange)
{
	begin(m, oracle_rename(m->m_oracle, old_dir, old_name, new_dir, new_name, exchange));
	return finish(m, "rename",
		      m->m_ops->rename(m, old_dir, old_name, new_dir, new_name, exchange));
}

int sim_write(struct sim *m, uint32_t id, uint64_t pos, uint64_t len, unsigned flags)
{
	static uint8_t data[ORACLE_MAX_FILE] __attribute__((aligned(4096)));
	ssize_t n;

	pattern_fill(data, len, ((uint64_t)id << 32) | oracle_now(m->m_oracle), pos);
	begin(m, oracle_write(m->m_oracle, id, pos, data, len));
	n = m->m_ops->write(m, id, pos, data, len, flags);
	if (n < 0)
		return finish(m, "write", (int)n);
	if ((uint64_t)n != len) {
		if (!m->m_full)
			die(m, "short write", -EIO);
		oracle_shorten_last(m->m_oracle, (uint64_t)n);
	}
	if (flags & SIM_DSYNC)
		ack(m, oracle_ack_range(m->m_oracle, id, pos, (uint64_t)n), id);
	return 0;
}

int sim_append(struct sim *m, uint32_t id, uint64_t len, unsigned flags)
{
	uint64_t size;

	oracle_content(m->m_oracle, id, &size);
	return sim_write(m, id, size, len, flags);
}

int sim_truncate(struct sim *m, uint32_t id, uint64_t size)
{
	begin(m, oracle_truncate(m->m_oracle, id, size));
	return finish(m, "truncate", m->m_ops->truncate(m, id, size));
}

int sim_fallocate(struct sim *m, uint32_t id, int mode, uint64_t pos, uint64_t len)
{
	uint64_t size, zero = len, new_size = 0;

	oracle_content(m->m_oracle, id, &size);
	if (m->m_no_fallocate)
		return 0;
	if (!(mode & (FALLOC_FL_PUNCH_HOLE | FALLOC_FL_ZERO_RANGE)) || pos >= size)
		zero = 0;
	else if (pos + len > size)
		zero = size - pos;
	if (!(mode & FALLOC_FL_KEEP_SIZE))
		new_size = pos + len;
	begin(m, oracle_zero(m->m_oracle, id, zero ? pos : 0, zero, new_size));
	return finish(m, "fallocate", m->m_ops->fallocate(m, id, mode, pos, len));
}

int sim_xattr(struct sim *m, uint32_t id, uint32_t value)
{
	uint8_t text[200];

	memset(text, (int)(value & 0xff), sizeof(text));
	memcpy(text, &value, sizeof(value));
	begin(m, oracle_xattr(m->m_oracle, id, value));
	return finish(m, "xattr", m->m_ops->xattr(m, id, text, value ? 4 + value % 190 : 0));
}

void sim_fsync(struct sim *m, uint32_t id, bool datasync)
{
	int err;

	if (m->m_busy) {
		begin_fsync(m, id);
		return;
	}
	err = m->m_ops->sync_file(m, id, datasync);
	if (err)
		die(m, "fsync", err);
	ack(m, datasync ? oracle_ack_data(m->m_oracle, id) : oracle_ack_object(m->m_oracle, id),
	    id);
}

void sim_sync(struct sim *m)
{
	int err = m->m_ops->sync(m);

	if (err)
		die(m, "sync", err);
	ack(m, oracle_ack_all(m->m_oracle), UINT32_MAX);
}

void sim_tick(struct sim *m)
{
	int err = m->m_ops->tick(m, (unsigned)prng_below(&m->m_prng, 3));

	if (err)
		die(m, "tick", err);
}

void sim_write_out(struct sim *m, uint32_t id)
{
	m->m_ops->write_out(m, id);
}

void sim_start_commit(struct sim *m)
{
	m->m_ops->start_commit(m);
}

void sim_close(struct sim *m, uint32_t id)
{
	m->m_ops->close(m, id);
}

void sim_check(struct sim *m, uint32_t id)
{
	static uint8_t got[1 << 16];
	uint64_t size, pos = 0;
	const uint8_t *want = oracle_content(m->m_oracle, id, &size);

	do {
		ssize_t n = m->m_ops->read(m, id, pos, got, sizeof(got), size);

		if (n < 0 || (n == 0 && pos < size))
			die(m, "read", n < 0 ? (int)n : -EIO);
		if (memcmp(got, want + pos, (size_t)n))
			die(m, "content while mounted", -EIO);
		pos += (uint64_t)n;
	} while (pos < size);
}
