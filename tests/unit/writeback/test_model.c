/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Random operations on files against arrays of bytes: every way to change data, remounts between, e2fsck at the end. */
#include <unistd.h>

#include "tests/unit/writeback/wb_fixture.h"

#define FILES 3u
#define FILE_MAX (768u * 1024)
#define IO_MAX (160u * 1024)

struct model {
	uint8_t *m_data;
	uint64_t m_size;
};

struct run {
	struct wf f;
	struct prng p;
	struct model m[FILES];
	struct inode *inode[FILES];
	uint8_t *buf;
	bool extents;
	bool trace;
};

static uint64_t pick_pos(struct run *r, uint64_t max)
{
	uint64_t pos = prng_below(&r->p, max);

	if (prng_chance(&r->p, 1, 3))
		pos &= ~(uint64_t)(PAGE_SIZE - 1);
	else if (prng_chance(&r->p, 1, 3))
		pos &= ~(uint64_t)1023;
	return pos;
}

static size_t pick_len(struct run *r, uint64_t pos)
{
	size_t len = prng_chance(&r->p, 1, 2) ? prng_range(&r->p, 1, 9000)
					      : prng_range(&r->p, 1, IO_MAX);

	if (prng_chance(&r->p, 1, 3))
		len = (len + PAGE_SIZE - 1) & ~(size_t)(PAGE_SIZE - 1);
	if (len > IO_MAX)
		len = IO_MAX;
	return len < FILE_MAX - pos ? len : (size_t)(FILE_MAX - pos);
}

static void model_write(struct model *m, uint64_t pos, const uint8_t *buf, size_t len)
{
	if (pos > m->m_size)
		memset(m->m_data + m->m_size, 0, (size_t)(pos - m->m_size));
	memcpy(m->m_data + pos, buf, len);
	if (pos + len > m->m_size)
		m->m_size = pos + len;
}

static void op_write(struct run *r, unsigned i, unsigned flags)
{
	struct model *m = &r->m[i];
	uint64_t pos = prng_chance(&r->p, 1, 4) ? m->m_size : pick_pos(r, FILE_MAX);
	size_t len;

	if (pos >= FILE_MAX)
		return;
	len = pick_len(r, pos);
	for (size_t k = 0; k < len; k++)
		r->buf[k] = (uint8_t)prng_next(&r->p);
	if (r->trace)
		fprintf(stderr, "write f%u pos %llu len %zu flags %x\n", i, (unsigned long long)pos,
			len, flags);
	ck_assert_int_eq(wf_write_flags(r->inode[i], r->buf, len, pos, flags), (ssize_t)len);
	model_write(m, pos, r->buf, len);
	ck_assert_uint_eq(i_size_read(r->inode[i]), m->m_size);
}

static void compare(struct run *r, unsigned i, uint64_t pos, size_t len, const uint8_t *got)
{
	for (size_t k = 0; k < len; k++)
		if (got[k] != r->m[i].m_data[pos + k])
			ck_abort_msg("f%u: byte %llu is %02x, should be %02x (read of %zu at %llu)",
				     i, (unsigned long long)(pos + k), got[k],
				     r->m[i].m_data[pos + k], len, (unsigned long long)pos);
}

static void op_read(struct run *r, unsigned i, bool direct)
{
	uint64_t pos = pick_pos(r, FILE_MAX), size = r->m[i].m_size;
	size_t len = pick_len(r, pos), want = pos < size ? (size_t)(size - pos) : 0;
	struct iovec iov = {r->buf, len};
	ssize_t n;

	if (want > len)
		want = len;
	n = direct ? file_read_direct(r->inode[i], pos, &iov, 1, 0)
		   : wf_read(r->inode[i], r->buf, len, pos);
	if (r->trace)
		fprintf(stderr, "read f%u pos %llu len %zu direct %d\n", i, (unsigned long long)pos,
			len, direct);
	ck_assert_int_eq(n, (ssize_t)want);
	compare(r, i, pos, want, r->buf);
}

static void check_all(struct run *r, unsigned i)
{
	uint8_t *all = malloc(FILE_MAX);

	ck_assert_uint_eq(i_size_read(r->inode[i]), r->m[i].m_size);
	ck_assert_int_eq(wf_read(r->inode[i], all, FILE_MAX, 0), (ssize_t)r->m[i].m_size);
	compare(r, i, 0, (size_t)r->m[i].m_size, all);
	free(all);
}

static void op_truncate(struct run *r, unsigned i)
{
	struct model *m = &r->m[i];
	uint64_t size = prng_chance(&r->p, 1, 8) ? 0 : pick_pos(r, FILE_MAX);

	if (r->trace)
		fprintf(stderr, "truncate f%u %llu\n", i, (unsigned long long)size);
	ck_assert_int_eq(ext4_truncate_to(r->inode[i], size), 0);
	if (size > m->m_size)
		memset(m->m_data + m->m_size, 0, (size_t)(size - m->m_size));
	m->m_size = size;
}

static void op_fallocate(struct run *r, unsigned i)
{
	static const int modes[] = {0,
				    FALLOC_FL_KEEP_SIZE,
				    FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
				    FALLOC_FL_ZERO_RANGE,
				    FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE,
				    FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE};
	int mode = modes[prng_below(&r->p, 6)];
	struct model *m = &r->m[i];
	uint64_t pos = pick_pos(r, FILE_MAX - 1), end;
	size_t len = pick_len(r, pos);

	if (r->trace)
		fprintf(stderr, "fallocate f%u mode %x pos %llu len %zu\n", i, mode,
			(unsigned long long)pos, len);
	if (!r->extents) {
		ck_assert_int_eq(ext4_fallocate(r->inode[i], mode, pos, len, &wf_root),
				 -EOPNOTSUPP);
		return;
	}
	ck_assert_int_eq(ext4_fallocate(r->inode[i], mode, pos, len, &wf_root), 0);
	end = pos + len;
	if (mode & (FALLOC_FL_PUNCH_HOLE | FALLOC_FL_ZERO_RANGE)) {
		uint64_t stop = end < m->m_size ? end : m->m_size;

		if (pos < stop)
			memset(m->m_data + pos, 0, (size_t)(stop - pos));
	}
	if ((mode & FALLOC_FL_KEEP_SIZE) == 0 && end > m->m_size) {
		memset(m->m_data + m->m_size, 0, (size_t)(end - m->m_size));
		m->m_size = end;
	}
	ck_assert_uint_eq(i_size_read(r->inode[i]), m->m_size);
}

/* Bytes that SEEK_HOLE and SEEK_DATA call a hole are zeros. */
static void op_seek(struct run *r, unsigned i)
{
	struct model *m = &r->m[i];
	int64_t pos = 0;

	while ((uint64_t)pos < m->m_size) {
		int64_t hole = ext4_seek(r->inode[i], pos, SEEK_HOLE), data;

		ck_assert_int_ge(hole, pos);
		data = ext4_seek(r->inode[i], hole, SEEK_DATA);
		if (data == -ENXIO)
			data = (int64_t)m->m_size;
		ck_assert_int_ge(data, hole);
		ck_assert_int_eq(bytes_mismatch(m->m_data + hole, (size_t)(data - hole), 0), -1);
		if (hole == pos && data == pos)
			ck_abort_msg("seek stands still");
		pos = data;
	}
}

static void remount(struct run *r)
{
	if (r->trace)
		fprintf(stderr, "remount\n");
	for (unsigned i = 0; i < FILES; i++)
		iput(r->inode[i]);
	wf_umount(&r->f);
	wf_mount(&r->f);
	for (unsigned i = 0; i < FILES; i++) {
		r->inode[i] = wf_file(&r->f, i);
		check_all(r, i);
	}
}

static void op_housekeeping(struct run *r, unsigned i)
{
	unsigned what = (unsigned)prng_below(&r->p, 10);

	if (r->trace)
		fprintf(stderr, "housekeeping %u f%u\n", what, i);
	switch (what) {
	case 0:
		ck_assert_int_eq(ext4_sync_file(r->inode[i], prng_chance(&r->p, 1, 2)), 0);
		break;
	case 1:
		wf_sync(&r->f);
		wf_assert_nothing_reserved(&r->f);
		break;
	case 2:
	case 3:
		wb_drop_clean(r->inode[i]);
		break;
	case 4:
		wb_run_flusher(r->f.sb);
		break;
	case 5:
		wb_run_completions(r->f.sb);
		break;
	case 6:
		ck_assert_int_eq(ext4_alloc_da_blocks(r->inode[i], prng_chance(&r->p, 1, 2)), 0);
		break;
	case 7:
		ck_assert_int_eq(filemap_fdatawrite(r->inode[i]), 0);
		break;
	case 8:
		ext4_release_file(r->inode[i], true);
		break;
	default:
		ck_assert_int_eq(jbd2_journal_force_commit(r->f.sb->s_journal), 0);
		break;
	}
}

static void one_op(struct run *r)
{
	unsigned i = (unsigned)prng_below(&r->p, FILES), what = (unsigned)prng_below(&r->p, 100);

	if (what < 35)
		op_write(r, i, 0);
	else if (what < 38)
		op_write(r, i, WB_WRITE_DSYNC);
	else if (what < 45)
		op_write(r, i, WB_WRITE_DIRECT);
	else if (what < 60)
		op_read(r, i, false);
	else if (what < 65)
		op_read(r, i, true);
	else if (what < 72)
		op_truncate(r, i);
	else if (what < 82)
		op_fallocate(r, i);
	else if (what < 84)
		op_seek(r, i);
	else
		op_housekeeping(r, i);
}

static void run_model(const char *mkfs, bool extents, bool delalloc, unsigned ops, uint64_t seed)
{
	struct run r = {.extents = extents, .trace = getenv("EXT4D_TEST_TRACE") != NULL};

	fprintf(stderr, "model: %s delalloc %d seed %llu\n", mkfs, delalloc,
		(unsigned long long)seed);
	prng_seed(&r.p, seed);
	wf_make(&r.f, mkfs, 24 * MIB, FILES + 1);
	r.f.opts.o_delalloc = delalloc;
	r.f.opts.o_cache_bytes = 4 * MIB;
	wf_mount(&r.f);
	/* Nobody must ever see what lay in the blocks before. */
	r.inode[0] = wf_file(&r.f, FILES);
	wf_fill_free_space(&r.f, r.inode[0]);
	iput(r.inode[0]);
	r.buf = malloc(IO_MAX);
	for (unsigned i = 0; i < FILES; i++) {
		r.inode[i] = wf_file(&r.f, i);
		r.m[i].m_data = calloc(1, FILE_MAX);
	}
	for (unsigned n = 0; n < ops; n++) {
		one_op(&r);
		if (n % 400 == 399)
			remount(&r);
	}
	remount(&r);
	for (unsigned i = 0; i < FILES; i++) {
		iput(r.inode[i]);
		free(r.m[i].m_data);
	}
	free(r.buf);
	wf_close(&r.f);
}

static unsigned nr_ops(void)
{
	const char *s = getenv("EXT4D_TEST_OPS");

	return s != NULL ? (unsigned)strtoul(s, NULL, 10) : 1200;
}

START_TEST(model_4k_extents)
{
	run_model("-t ext4 -b 4096", true, true, nr_ops(), prng_seed_from_env(1));
}
END_TEST

START_TEST(model_1k_extents)
{
	run_model("-t ext4 -b 1024", true, true, nr_ops(), prng_seed_from_env(2));
}
END_TEST

START_TEST(model_2k_nodelalloc)
{
	run_model("-t ext4 -b 2048", true, false, nr_ops(), prng_seed_from_env(3));
}
END_TEST

START_TEST(model_4k_indirect)
{
	run_model("-t ext4 -b 4096 -O ^extent,^64bit", false, true, nr_ops(),
		  prng_seed_from_env(4));
}
END_TEST

START_TEST(model_1k_indirect_nodelalloc)
{
	run_model("-t ext4 -b 1024 -O ^extent,^64bit", false, false, nr_ops(),
		  prng_seed_from_env(5));
}
END_TEST

START_TEST(model_1k_indirect)
{
	run_model("-t ext4 -b 1024 -O ^extent,^64bit", false, true, nr_ops(),
		  prng_seed_from_env(6));
}
END_TEST

int main(void)
{
	return RUN_TESTS("writeback/model", model_4k_extents, model_1k_extents, model_2k_nodelalloc,
			 model_4k_indirect, model_1k_indirect_nodelalloc, model_1k_indirect);
}
