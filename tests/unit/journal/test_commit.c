/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * test_commit.c - what a commit and a checkpoint write, in which order, and what they leave alone.
 */
#include <stdarg.h>
#include <stdio.h>

#include "tests/lib/prng.h"
#include "tests/lib/suite.h"
#include "tests/lib/testlib.h"
#include "tests/unit/journal/fixture.h"
#include "tests/lib/probe.h"
#include "util/trace.h"

#define EVENTS_MAX 4096u

static const struct fx_shape shape_1k = {.fs_block_bytes = 1024};

/* Requests in order, one letter each. */
struct events {
	struct fixture *ev_f;
	struct blkdev *ev_log_dev;
	char ev_text[EVENTS_MAX];
	unsigned ev_n;
};

static void add_event(struct events *ev, char c)
{
	ck_assert_uint_lt(ev->ev_n, EVENTS_MAX - 1);
	ev->ev_text[ev->ev_n++] = c;
	ev->ev_text[ev->ev_n] = 0;
}

static bool is_sb(const struct events *ev, const struct bio *bio)
{
	uint32_t lblk = ev->ev_f->f_shape.fs_external ? 1 : 0;

	return bio->bi_offset_bytes == fx_pblk(ev->ev_f, lblk) * ev->ev_f->f_shape.fs_block_bytes;
}

/*
 * S superblock, s the same with FUA, L other blocks of the log, C the same with FUA (commit block), H home,
 * F flush of the log's device, f flush of another device.
 */
static int note(void *arg, struct blkdev *bd, const struct bio *bio)
{
	struct events *ev = arg;
	bool fua = (bio->bi_flags & REQ_FUA) != 0;
	bool log = bd == ev->ev_log_dev;

	if (bio->bi_op == REQ_OP_FLUSH)
		add_event(ev, log ? 'F' : 'f');
	else if (bio->bi_op != REQ_OP_WRITE)
		return 0;
	else if ((bio->bi_flags & REQ_JOURNAL) == 0)
		add_event(ev, 'H');
	else if (is_sb(ev, bio))
		add_event(ev, fua ? 's' : 'S');
	else
		add_event(ev, fua ? 'C' : 'L');
	return 0;
}

static void watch(struct fixture *f, struct events *ev, const struct fx_shape *shape)
{
	memset(ev, 0, sizeof(*ev));
	fx_format(f, shape);
	ev->ev_f = f;
	if (f->f_log_dev == f->f_dev) {
		fx_use(f, probe_open(f->f_dev, note, ev));
	} else {
		f->f_dev = probe_open(f->f_dev, note, ev);
		f->f_log_dev = probe_open(f->f_log_dev, note, ev);
	}
	ev->ev_log_dev = f->f_log_dev;
	fx_load(f);
}

static void expect(struct events *ev, const char *want)
{
	ck_assert_str_eq(ev->ev_text, want);
	ev->ev_n = 0;
	ev->ev_text[0] = 0;
}

START_TEST(a_small_commit_is_one_write_a_flush_and_the_commit_block)
{
	struct fixture f;
	struct events ev;

	watch(&f, &ev, &shape_1k);
	for (unsigned i = 0; i < 5; i++)
		fx_write_one(&f, FX_META + i, 1);
	expect(&ev, "");
	ck_assert_int_eq(jbd2_journal_force_commit(f.f_j), 0);
	expect(&ev, "sLFC");
	fx_write_one(&f, FX_META, 2);
	ck_assert_int_eq(jbd2_journal_force_commit(f.f_j), 0);
	expect(&ev, "LFC");
	/* Nothing to do. */
	ck_assert_int_eq(jbd2_journal_force_commit(f.f_j), 0);
	expect(&ev, "");
	ck_assert_int_eq(jbd2_journal_flush(f.f_j), 0);
	/* Home, flush, tail; flush, empty. */
	expect(&ev, "HFsFs");
	ck_assert_int_eq(jbd2_journal_flush(f.f_j), 0);
	expect(&ev, "F");
	ck_assert_int_eq(fx_unload(&f), 0);
	fx_close(&f);
}
END_TEST

START_TEST(an_external_log_has_both_devices_flushed)
{
	const struct fx_shape shape = {
		.fs_block_bytes = 4096, .fs_external = true, .fs_log_blocks = 2048};
	struct fixture f;
	struct events ev;

	watch(&f, &ev, &shape);
	fx_write_one(&f, FX_META, 1);
	ck_assert_int_eq(jbd2_journal_force_commit(f.f_j), 0);
	expect(&ev, "sLfFC");
	ck_assert_int_eq(jbd2_journal_flush(f.f_j), 0);
	expect(&ev, "Hfsfs");
	ck_assert_uint_eq(fx_sb_field(&f, FX_SB(s_start)), 0);
	ck_assert_int_eq(fx_unload(&f), 0);
	ck_assert(fx_disk_is(&f, FX_META, 1));
	/* The user list names the file system. */
	f.f_params.jp_fs_uuid[3] ^= 1;
	ck_assert_int_eq(fx_init(&f), -EINVAL);
	fx_close(&f);
}
END_TEST

START_TEST(nobarrier_flushes_nothing)
{
	struct fixture f;
	struct events ev;

	watch(&f, &ev, &shape_1k);
	f.f_j->j_params.jp_barrier = false;
	fx_write_one(&f, FX_META, 1);
	ck_assert_int_eq(jbd2_journal_force_commit(f.f_j), 0);
	expect(&ev, "SLL");
	ck_assert(!jbd2_trans_will_send_data_barrier(f.f_j, jbd2_newest_tid(f.f_j)));
	ck_assert_int_eq(fx_unload(&f), 0);
	expect(&ev, "HSS");
	fx_close(&f);
}
END_TEST

START_TEST(async_commit_is_one_write_and_a_flush)
{
	struct fixture f;
	struct events ev;

	memset(&ev, 0, sizeof(ev));
	fx_format(&f, &shape_1k);
	ev.ev_f = &f;
	fx_use(&f, probe_open(f.f_dev, note, &ev));
	ev.ev_log_dev = f.f_dev;
	f.f_params.jp_async_commit = true;
	fx_load(&f);
	fx_write_one(&f, FX_META, 1);
	ck_assert_int_eq(jbd2_journal_force_commit(f.f_j), 0);
	expect(&ev, "sLF");
	ck_assert_int_eq(fx_unload(&f), 0);
	ck_assert_uint_eq(fx_sb_field(&f, FX_SB(s_feature_compat)), JBD2_FEATURE_COMPAT_CHECKSUM);
	fx_close(&f);
}
END_TEST

/* ---- Lazy copies ---- */

struct meddler {
	struct jbd2_inode m_ji;
	struct fixture *m_f;
	unsigned m_calls;
	uint64_t m_start, m_end;
	char m_before; /* the last event when the data was asked for */
	struct events *m_ev;
};

/* Runs in the middle of a commit, where a new transaction may be under way already. */
static int meddle(void *owner, uint64_t start_bytes, uint64_t end_bytes)
{
	struct meddler *m = owner;
	handle_t *h = fx_start(m->m_f, 2);

	m->m_calls++;
	m->m_start = start_bytes;
	m->m_end = end_bytes;
	/* A changed block gets a copy; one that is only looked at as well. */
	fx_write(m->m_f, h, FX_META, 100 + m->m_calls);
	ck_assert_int_eq(jbd2_journal_stop(h), 0);
	return 0;
}

START_TEST(a_block_changed_during_the_commit_is_logged_as_it_was)
{
	struct fixture f;
	struct meddler m = {.m_f = &f};
	struct blkdev *crashed;
	handle_t *h;

	fx_format(&f, &shape_1k);
	f.f_ops.write_ordered_data = meddle;
	fx_load(&f);
	jbd2_inode_init(&m.m_ji, &m);
	h = fx_start(&f, 2);
	fx_write(&f, h, FX_META, 1);
	fx_write(&f, h, FX_META + 1, 2);
	ck_assert_int_eq(jbd2_journal_inode_ranged_write(h, &m.m_ji, 4096, 100), 0);
	ck_assert_int_eq(jbd2_journal_inode_ranged_write(h, &m.m_ji, 0, 10), 0);
	ck_assert_int_eq(jbd2_journal_stop(h), 0);
	ck_assert_int_eq(jbd2_complete_transaction(f.f_j, jbd2_newest_tid(f.f_j)), 0);
	ck_assert_uint_eq(m.m_calls, 1);
	ck_assert_uint_eq(m.m_start, 0);
	ck_assert_uint_eq(m.m_end, 4196);
	/* One block had to be copied, the other not. */
	ck_assert_uint_eq(counter_read(&jbd2_stats(f.f_j)->js_copies), 1);
	crashed = testlib_clone(f.f_dev);
	ck_assert_int_eq(fx_unload(&f), 0);
	ck_assert(fx_disk_is(&f, FX_META, 101));
	fx_close(&f);

	fx_use(&f, crashed);
	ck_assert_int_eq(fx_recover(&f), 0);
	ck_assert(fx_disk_is(&f, FX_META, 1));
	ck_assert(fx_disk_is(&f, FX_META + 1, 2));
	fx_close(&f);
}
END_TEST

static int note_order(void *owner, uint64_t start_bytes, uint64_t end_bytes)
{
	struct meddler *m = owner;

	(void)start_bytes;
	(void)end_bytes;
	add_event(m->m_ev, 'D');
	return 0;
}

START_TEST(ordered_data_comes_before_the_commit_block)
{
	struct fixture f;
	struct events ev;
	struct meddler m = {.m_ev = &ev};
	handle_t *h;

	watch(&f, &ev, &shape_1k);
	f.f_ops.write_ordered_data = note_order;
	jbd2_inode_init(&m.m_ji, &m);
	h = fx_start(&f, 1);
	fx_write(&f, h, FX_META, 1);
	ck_assert_int_eq(jbd2_journal_inode_ranged_write(h, &m.m_ji, 0, 10), 0);
	ck_assert_int_eq(jbd2_journal_stop(h), 0);
	ck_assert_int_eq(jbd2_journal_force_commit(f.f_j), 0);
	expect(&ev, "DsLFC");
	/* An inode that goes away leaves the list. */
	h = fx_start(&f, 1);
	fx_write(&f, h, FX_META, 2);
	ck_assert_int_eq(jbd2_journal_inode_ranged_write(h, &m.m_ji, 0, 10), 0);
	ck_assert_int_eq(jbd2_journal_stop(h), 0);
	jbd2_journal_release_jbd_inode(f.f_j, &m.m_ji);
	ck_assert_int_eq(jbd2_journal_force_commit(f.f_j), 0);
	expect(&ev, "LFC");
	ck_assert_int_eq(fx_unload(&f), 0);
	fx_close(&f);
}
END_TEST

/* ---- Checkpoint ---- */

START_TEST(a_checkpoint_never_writes_what_is_not_committed)
{
	struct fixture f;
	struct buffer_head *bh;
	handle_t *h;

	fx_open(&f, &shape_1k);
	fx_write_one(&f, FX_META, 1);
	fx_write_one(&f, FX_META + 1, 2);
	ck_assert_int_eq(jbd2_journal_force_commit(f.f_j), 0);
	/* A running transaction changes one of the two. */
	fx_write_one(&f, FX_META, 3);
	/* What the background thread would do with a log that is nearly full. */
	atomic_fetch_sub(&f.f_j->j_free, (int)f.f_j->j_last / 2);
	jbd2_checkpoint_inline(f.f_j);
	ck_assert(fx_disk_is(&f, FX_META, 0));
	ck_assert(fx_disk_is(&f, FX_META + 1, 2));
	atomic_fetch_add(&f.f_j->j_free, (int)f.f_j->j_last / 2);
	bh = bh_find(f.f_cache, FX_META);
	ck_assert(jbd2_buffer_in_journal(bh));
	bh_put(bh);
	bh = bh_find(f.f_cache, FX_META + 1);
	ck_assert(!jbd2_buffer_in_journal(bh));
	bh_put(bh);
	/* A forced one commits the change first. */
	ck_assert_int_eq(jbd2_checkpoint_all(f.f_j), 0);
	ck_assert_int_eq(jbd2_checkpoint_all(f.f_j), 0);
	ck_assert(fx_disk_is(&f, FX_META, 3));
	/* Not while a handle is open that has changed it again. */
	h = fx_start(&f, 1);
	fx_write(&f, h, FX_META, 4);
	atomic_fetch_sub(&f.f_j->j_free, (int)f.f_j->j_last / 2);
	jbd2_checkpoint_inline(f.f_j);
	atomic_fetch_add(&f.f_j->j_free, (int)f.f_j->j_last / 2);
	ck_assert(fx_disk_is(&f, FX_META, 3));
	ck_assert_int_eq(jbd2_journal_stop(h), 0);
	ck_assert_int_eq(fx_unload(&f), 0);
	fx_close(&f);
}
END_TEST

struct freed {
	struct jbd2_commit_cb fr_cb;
	unsigned fr_calls;
	int fr_error;
	struct fixture *fr_f;
	bool fr_in_journal;
	uint64_t fr_blocknr;
};

static void freed_cb(struct jbd2_commit_cb *cb, int error)
{
	struct freed *fr = (void *)cb;
	struct buffer_head *bh = bh_find(fr->fr_f->f_cache, fr->fr_blocknr);

	fr->fr_calls++;
	fr->fr_error = error;
	fr->fr_in_journal = bh != NULL && jbd2_buffer_in_journal(bh);
	bh_put(bh);
}

START_TEST(a_freed_block_leaves_the_checkpoint_list_with_the_commit_and_not_before)
{
	struct fixture f;
	struct freed fr = {.fr_cb.cb_fn = freed_cb, .fr_f = &f, .fr_blocknr = FX_META};
	struct buffer_head *bh;
	uint8_t data[1024];
	handle_t *h;

	fx_open(&f, &shape_1k);
	fx_write_one(&f, FX_META, 1);
	ck_assert_int_eq(jbd2_journal_force_commit(f.f_j), 0);
	h = jbd2_journal_start(f.f_j, HT_MISC, 1, 1);
	bh = bh_find(f.f_cache, FX_META);
	bh_hold(bh);
	ck_assert_int_eq(jbd2_journal_revoke(h, FX_META, bh), 0);
	jbd2_journal_callback_add(h, &fr.fr_cb);
	ck_assert_int_eq(jbd2_journal_stop(h), 0);
	/* The log tail may still need the old content. */
	ck_assert(jbd2_buffer_in_journal(bh));
	ck_assert_uint_eq(fr.fr_calls, 0);
	ck_assert_int_eq(jbd2_journal_force_commit(f.f_j), 0);
	ck_assert_uint_eq(fr.fr_calls, 1);
	ck_assert_int_eq(fr.fr_error, 0);
	ck_assert(!fr.fr_in_journal);
	bh_put(bh);
	/* The block is file data now; a checkpoint leaves it alone, and so does replay. */
	bh_forget_range(f.f_cache, FX_META, 1);
	pattern_fill(data, sizeof(data), 9, 0);
	ck_assert_int_eq(blk_write(f.f_dev, FX_META * 1024, data, sizeof(data), 0), 0);
	fx_write_one(&f, FX_META + 1, 2);
	ck_assert_int_eq(jbd2_journal_force_commit(f.f_j), 0);
	ck_assert_int_eq(jbd2_checkpoint_all(f.f_j), 0);
	ck_assert(fx_disk_is(&f, FX_META, 9));
	ck_assert(fx_disk_is(&f, FX_META + 1, 2));
	ck_assert_int_eq(fx_unload(&f), 0);
	fx_close(&f);
}
END_TEST

START_TEST(a_block_taken_again_in_the_same_transaction_cancels_its_revoke)
{
	struct fixture f;
	struct blkdev *dirty;
	struct buffer_head *bh;
	handle_t *h;

	fx_open(&f, &shape_1k);
	fx_write_one(&f, FX_META, 1);
	ck_assert_int_eq(jbd2_journal_force_commit(f.f_j), 0);
	h = jbd2_journal_start(f.f_j, HT_MISC, 2, 1);
	bh = bh_find(f.f_cache, FX_META);
	bh_hold(bh);
	ck_assert_int_eq(jbd2_journal_revoke(h, FX_META, bh), 0);
	ck_assert_int_eq(jbd2_journal_get_create_access(h, bh), 0);
	lock_buffer(bh);
	pattern_fill(bh->b_data, bh->b_size, 2, 0);
	unlock_buffer(bh);
	ck_assert_int_eq(jbd2_journal_dirty_metadata(h, bh), 0);
	bh_put(bh);
	ck_assert_int_eq(jbd2_journal_stop(h), 0);
	ck_assert_int_eq(jbd2_journal_force_commit(f.f_j), 0);
	dirty = testlib_clone(f.f_dev);
	ck_assert_int_eq(fx_unload(&f), 0);
	ck_assert(fx_disk_is(&f, FX_META, 2));
	fx_close(&f);
	fx_use(&f, dirty);
	ck_assert_int_eq(fx_recover(&f), 0);
	ck_assert(fx_disk_is(&f, FX_META, 2));
	fx_close(&f);
}
END_TEST

START_TEST(a_forgotten_block_of_this_transaction_is_not_logged)
{
	struct fixture f;
	handle_t *h;

	fx_open(&f, &shape_1k);
	h = fx_start(&f, 2);
	fx_write(&f, h, FX_META, 1);
	fx_write(&f, h, FX_META + 1, 2);
	ck_assert_uint_eq(jbd2_handle_credits(h), 0);
	ck_assert_int_eq(jbd2_journal_forget(h, bh_find(f.f_cache, FX_META)), 0);
	ck_assert_uint_eq(jbd2_handle_credits(h), 1);
	ck_assert_int_eq(jbd2_journal_stop(h), 0);
	ck_assert_int_eq(fx_unload(&f), 0);
	ck_assert_uint_eq(f.f_aborts, 0);
	ck_assert(fx_disk_is(&f, FX_META, 0));
	ck_assert(fx_disk_is(&f, FX_META + 1, 2));
	fx_close(&f);
}
END_TEST

START_TEST(the_log_wraps_many_times)
{
	const struct fx_shape *shape = &fx_shapes[_i];
	struct fixture f;
	uint64_t tags[200] = {0};
	uint64_t tag = 0;
	struct prng p;

	prng_seed(&p, 5);
	fx_format(&f, shape);
	fx_load(&f);
	while (counter_read(&jbd2_stats(f.f_j)->js_log_wraps) < 20) {
		handle_t *h = fx_start(&f, 60);

		for (unsigned i = 0; i < 60; i++) {
			unsigned b = (unsigned)prng_below(&p, 200);

			fx_write(&f, h, FX_META + b, ++tag);
			tags[b] = tag;
		}
		ck_assert_int_eq(jbd2_journal_stop(h), 0);
		if (prng_chance(&p, 1, 4))
			ck_assert_int_eq(jbd2_journal_force_commit(f.f_j), 0);
	}
	ck_assert_int_eq(fx_unload(&f), 0);
	for (unsigned b = 0; b < 200; b++)
		ck_assert(fx_disk_is(&f, FX_META + b, tags[b]));
	ck_assert_uint_eq(fx_sb_field(&f, FX_SB(s_start)), 0);
	fx_close(&f);
}
END_TEST

START_TEST(version_1_is_replayed_and_upgraded)
{
	struct fixture f;
	struct blkdev *dirty;
	uint8_t *sb;

	fx_format(&f, &shape_1k);
	sb = (uint8_t *)mem_data(f.f_dev) + fx_pblk(&f, 0) * 1024;
	put_be32(sb + 4, JBD2_SUPERBLOCK_V1);
	/* What version 2 would take for unknown features is not looked at. */
	memset(sb + FX_SB(s_feature_compat), 0xff, 100);
	fx_load(&f);
	fx_write_one(&f, FX_META, 1);
	ck_assert_int_eq(jbd2_journal_force_commit(f.f_j), 0);
	dirty = testlib_clone(f.f_dev);
	ck_assert_int_eq(fx_unload(&f), 0);
	fx_close(&f);
	fx_use(&f, dirty);
	ck_assert_uint_eq(fx_sb_field(&f, 4), JBD2_SUPERBLOCK_V2);
	ck_assert_uint_eq(fx_sb_field(&f, FX_SB(s_feature_incompat)), JBD2_FEATURE_INCOMPAT_REVOKE);
	ck_assert_int_eq(fx_recover(&f), 0);
	ck_assert(fx_disk_is(&f, FX_META, 1));
	fx_close(&f);
}
END_TEST

START_TEST(statistics_are_printed)
{
	struct fixture f;
	char *text = NULL;
	size_t n = 0;
	FILE *out;

	fx_open(&f, &shape_1k);
	for (unsigned i = 0; i < 7; i++) {
		fx_write_one(&f, FX_META, i + 1);
		ck_assert_int_eq(jbd2_journal_force_commit(f.f_j), 0);
	}
	out = open_memstream(&text, &n);
	jbd2_print_info(f.f_j, out);
	fclose(out);
	ck_assert_ptr_nonnull(
		strstr(text, "7 transactions (0 requested), each up to 255 blocks\n"));
	ck_assert_ptr_nonnull(strstr(text, "us average transaction commit time\n"));
	ck_assert_ptr_nonnull(strstr(text, "  1 handles per transaction\n"));
	ck_assert_ptr_nonnull(strstr(text, "  1 logged blocks per transaction\n"));
	ck_assert_ptr_nonnull(strstr(text, "  deviation "));
	ck_assert_ptr_nonnull(strstr(text, "commit_ns count 7 "));
	ck_assert_ptr_nonnull(strstr(text, "longest commit 5:"));
	ck_assert_ptr_null(strstr(text, "longest commit 6:"));
	free(text);
	ck_assert_int_eq(fx_unload(&f), 0);
	fx_close(&f);
}
END_TEST

/* The text is in what follows *at, which moves behind it. */
__attribute__((format(printf, 2, 3))) static void expect_event(const char **at, const char *fmt,
							       ...)
{
	char text[160];
	const char *found;
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	found = strstr(*at, text);
	ck_assert_msg(found != NULL, "no \"%s\" in\n%s", text, *at);
	*at = found + strlen(text);
}

/* One transaction from its beginning to the checkpoint, as its events tell it. */
START_TEST(events_follow_a_transaction)
{
	static char text[8192];
	struct fixture f;
	const char *at = text;
	handle_t *h;
	tid_t tid;

	fx_open(&f, &shape_1k);
	ck_assert_int_eq(trace_set_events("all"), 0);
	h = fx_start(&f, 4);
	tid = jbd2_handle_tid(h);
	fx_write(&f, h, FX_META, 1);
	ck_assert_int_eq(jbd2_journal_stop(h), 0);
	ck_assert_int_eq(jbd2_journal_flush(f.f_j), 0);
	text[trace_read(text, sizeof(text) - 1)] = '\0';
	expect_event(&at, "jbd2_handle_stats: dev 0,0 tid %u type 0 line_no 0 interval ", tid);
	expect_event(&at, " sync 0 requested_blocks 4 dirtied_blocks 1\n");
	expect_event(&at, "jbd2_start_commit: dev 0,0 transaction %u sync 0\n", tid);
	expect_event(&at, "jbd2_commit_locking: dev 0,0 transaction %u sync 0\n", tid);
	expect_event(&at, "jbd2_commit_flushing: dev 0,0 transaction %u sync 0\n", tid);
	expect_event(&at, "jbd2_commit_logging: dev 0,0 transaction %u sync 0\n", tid);
	expect_event(&at, "jbd2_run_stats: dev 0,0 tid %u wait 0 request_delay 0 running ", tid);
	expect_event(&at, " handle_count 1 blocks ");
	expect_event(&at, " blocks_logged 3\n");
	expect_event(&at, "jbd2_end_commit: dev 0,0 transaction %u sync 0 head %u\n", tid, tid);
	expect_event(&at, "jbd2_checkpoint_stats: dev 0,0 tid %u chp_time ", tid);
	expect_event(&at, " forced_to_close 0 written 1 dropped 0\n");
	ck_assert_int_eq(trace_set_events("none"), 0);
	ck_assert_int_eq(fx_unload(&f), 0);
	fx_close(&f);
}
END_TEST

/* ---- Errors ---- */

/* Fail the n-th request that is of the wanted kind. */
struct failing {
	struct fixture *fl_f;
	char fl_kind; /* as in note() */
	unsigned fl_skip;
	struct events fl_ev;
	unsigned fl_later; /* requests of that kind, or home writes, after the failure */
	bool fl_failed;
};

static int fail_one(void *arg, struct blkdev *bd, const struct bio *bio)
{
	struct failing *fl = arg;
	unsigned n = fl->fl_ev.ev_n;
	char c;

	note(&fl->fl_ev, bd, bio);
	if (fl->fl_ev.ev_n == n)
		return 0;
	c = fl->fl_ev.ev_text[n];
	if (fl->fl_failed && c != 's')
		fl->fl_later++;
	if (c != fl->fl_kind || fl->fl_failed || fl->fl_skip-- > 0)
		return 0;
	fl->fl_failed = true;
	return -EIO;
}

START_TEST(an_io_error_aborts_and_nothing_more_is_written)
{
	/* 's' is the superblock that opens the log, 't' the one that moves its tail. */
	static const char kinds[] = "sLFCHt";
	struct fixture f;
	struct failing fl = {.fl_f = &f,
			     .fl_kind = kinds[_i] == 't' ? 's' : kinds[_i],
			     .fl_skip = kinds[_i] == 't'};
	bool after = kinds[_i] == 'H' || kinds[_i] == 't';
	struct freed fr = {.fr_cb.cb_fn = freed_cb, .fr_f = &f, .fr_blocknr = FX_META};
	handle_t *h;
	tid_t tid;
	int err;

	fx_format(&f, &shape_1k);
	fl.fl_ev.ev_f = &f;
	fx_use(&f, probe_open(f.f_dev, fail_one, &fl));
	fl.fl_ev.ev_log_dev = f.f_dev;
	fx_load(&f);
	h = fx_start(&f, 3);
	tid = jbd2_handle_tid(h);
	for (unsigned i = 0; i < 3; i++)
		fx_write(&f, h, FX_META + 10 * i, i + 1);
	jbd2_journal_callback_add(h, &fr.fr_cb);
	ck_assert_int_eq(jbd2_journal_stop(h), 0);
	err = jbd2_log_wait_commit(f.f_j, tid);
	if (!after) {
		ck_assert_int_eq(err, -EIO);
		ck_assert_int_eq(fr.fr_error, -EIO);
	} else {
		ck_assert_int_eq(err, 0);
		ck_assert_int_eq(fr.fr_error, 0);
		ck_assert_int_eq(jbd2_journal_flush(f.f_j), -EIO);
		/* It was durable before. */
		ck_assert_int_eq(jbd2_log_wait_commit(f.f_j, tid), 0);
	}
	ck_assert_uint_eq(fr.fr_calls, 1);
	ck_assert_uint_eq(f.f_aborts, 1);
	ck_assert_int_eq(f.f_abort_error, -EIO);
	ck_assert(jbd2_is_aborted(f.f_j));
	ck_assert_int_eq(PTR_ERR(jbd2_journal_start(f.f_j, HT_MISC, 1, 0)), -EROFS);
	ck_assert_int_eq(PTR_ERR(jbd2_journal_reserve(f.f_j, 1)), -EROFS);
	ck_assert_int_eq(jbd2_journal_force_commit(f.f_j), err);
	ck_assert_int_eq((int32_t)fx_sb_field(&f, FX_SB(s_errno)), -EIO);
	ck_assert_int_eq(fx_unload(&f), -EIO);
	/* The writes of one batch are under way together: only those of the failed commit may follow. */
	ck_assert_uint_le(fl.fl_later, fl.fl_kind == 'H' ? 2 : 0);
	/* The next mount sees the error, and what was durable is replayed. */
	err = fx_recover(&f);
	ck_assert_int_eq(err, 0);
	if (after)
		ck_assert(fx_disk_is(&f, FX_META + 20, 3));
	ck_assert_int_eq(fx_init(&f), 0);
	ck_assert_int_eq(jbd2_journal_errno(f.f_j), -EIO);
	ck_assert_int_eq(jbd2_journal_clear_err(f.f_j), 0);
	ck_assert_int_eq(jbd2_journal_errno(f.f_j), 0);
	ck_assert_int_eq(fx_unload(&f), 0);
	ck_assert_uint_eq(fx_sb_field(&f, FX_SB(s_errno)), 0);
	fx_close(&f);
}
END_TEST

START_TEST(an_abort_with_an_open_handle_drops_its_changes)
{
	struct fixture f;
	struct freed fr = {.fr_cb.cb_fn = freed_cb, .fr_f = &f, .fr_blocknr = FX_META};
	struct buffer_head *bh;
	handle_t *h;

	fx_open(&f, &shape_1k);
	fx_write_one(&f, FX_META, 1);
	ck_assert_int_eq(jbd2_journal_force_commit(f.f_j), 0);
	h = fx_start(&f, 3);
	fx_write(&f, h, FX_META, 2);
	jbd2_journal_callback_add(h, &fr.fr_cb);
	jbd2_journal_abort(f.f_j, -ESHUTDOWN);
	bh = bh_read(f.f_cache, FX_META + 1);
	ck_assert_int_eq(jbd2_journal_get_write_access(h, bh), -EROFS);
	ck_assert_int_eq(jbd2_journal_extend(h, 1, 0), -EROFS);
	ck_assert_int_eq(jbd2_journal_restart(h, 1, 0), -EROFS);
	ck_assert_int_eq(jbd2_journal_forget(h, bh), -EROFS);
	ck_assert_int_eq(jbd2_journal_stop(h), -EROFS);
	ck_assert_int_eq(fx_unload(&f), -ESHUTDOWN);
	ck_assert_uint_eq(fr.fr_calls, 1);
	ck_assert_int_lt(fr.fr_error, 0);
	/* A shutdown is not recorded as an error, and the log still has what was committed. */
	ck_assert_uint_eq(fx_sb_field(&f, FX_SB(s_errno)), 0);
	ck_assert(fx_disk_is(&f, FX_META, 0));
	ck_assert_int_eq(fx_recover(&f), 0);
	ck_assert(fx_disk_is(&f, FX_META, 1));
	fx_close(&f);
}
END_TEST

START_TEST(an_abort_may_come_under_any_lock)
{
	struct fixture f;
	struct mutex group;

	fx_open(&f, &shape_1k);
	mutex_init(&group, LOCK_RANK_GROUP);
	fx_write_one(&f, FX_META, 1);
	mutex_lock(&group);
	jbd2_journal_abort(f.f_j, -EFSCORRUPTED);
	mutex_unlock(&group);
	ck_assert_int_eq((int32_t)fx_sb_field(&f, FX_SB(s_errno)), -EFSCORRUPTED);
	ck_assert_uint_eq(f.f_aborts, 1);
	ck_assert_int_eq(fx_unload(&f), -EFSCORRUPTED);
	mutex_destroy(&group);
	fx_close(&f);
}
END_TEST

START_TEST(updates_can_be_locked_out)
{
	struct fixture f;

	fx_open(&f, &shape_1k);
	fx_write_one(&f, FX_META, 1);
	jbd2_journal_lock_updates(f.f_j);
	ck_assert_int_eq(jbd2_journal_flush(f.f_j), 0);
	ck_assert(fx_disk_is(&f, FX_META, 1));
	ck_assert_uint_eq(fx_sb_field(&f, FX_SB(s_start)), 0);
	jbd2_journal_unlock_updates(f.f_j);
	fx_write_one(&f, FX_META, 2);
	ck_assert_int_eq(fx_unload(&f), 0);
	ck_assert(fx_disk_is(&f, FX_META, 2));
	fx_close(&f);
}
END_TEST

START_TEST(a_read_only_journal_writes_nothing)
{
	struct fixture f;
	struct blkdev *dirty;

	fx_open(&f, &shape_1k);
	fx_write_one(&f, FX_META, 1);
	ck_assert_int_eq(jbd2_journal_force_commit(f.f_j), 0);
	dirty = testlib_clone(f.f_dev);
	ck_assert_int_eq(fx_unload(&f), 0);
	fx_close(&f);
	fx_use(&f, dirty);
	ck_assert_int_eq(fx_init(&f), 0);
	ck_assert(jbd2_journal_needs_recovery(f.f_j));
	ck_assert_int_eq(jbd2_journal_load(f.f_j), -EINVAL);
	ck_assert_int_eq(fx_unload(&f), 0);
	dirty->bd_read_only = true;
	f.f_params.jp_read_only = true;
	ck_assert_int_eq(fx_init(&f), 0);
	ck_assert_int_eq(jbd2_journal_recover(f.f_j), -EROFS);
	ck_assert_int_eq(jbd2_journal_load(f.f_j), 0);
	ck_assert_int_eq(PTR_ERR(jbd2_journal_start(f.f_j, HT_MISC, 1, 0)), -EROFS);
	ck_assert_int_eq(fx_unload(&f), 0);
	ck_assert_uint_ne(fx_sb_field(&f, FX_SB(s_start)), 0);
	fx_close(&f);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("journal/commit");
	TCase *tc = testlib_case("commit"), *loops = testlib_case("loops");

	tcase_add_test(tc, a_small_commit_is_one_write_a_flush_and_the_commit_block);
	tcase_add_test(tc, an_external_log_has_both_devices_flushed);
	tcase_add_test(tc, nobarrier_flushes_nothing);
	tcase_add_test(tc, async_commit_is_one_write_and_a_flush);
	tcase_add_test(tc, a_block_changed_during_the_commit_is_logged_as_it_was);
	tcase_add_test(tc, ordered_data_comes_before_the_commit_block);
	tcase_add_test(tc, a_checkpoint_never_writes_what_is_not_committed);
	tcase_add_test(tc, a_freed_block_leaves_the_checkpoint_list_with_the_commit_and_not_before);
	tcase_add_test(tc, a_block_taken_again_in_the_same_transaction_cancels_its_revoke);
	tcase_add_test(tc, a_forgotten_block_of_this_transaction_is_not_logged);
	tcase_add_loop_test(loops, the_log_wraps_many_times, 0, FX_SHAPES);
	tcase_add_test(tc, version_1_is_replayed_and_upgraded);
	tcase_add_test(tc, statistics_are_printed);
	tcase_add_test(tc, events_follow_a_transaction);
	tcase_add_loop_test(loops, an_io_error_aborts_and_nothing_more_is_written, 0, 6);
	tcase_add_test(tc, an_abort_with_an_open_handle_drops_its_changes);
	tcase_add_test(tc, an_abort_may_come_under_any_lock);
	tcase_add_test(tc, updates_can_be_locked_out);
	tcase_add_test(tc, a_read_only_journal_writes_nothing);
	suite_add_tcase(s, tc);
	suite_add_tcase(s, loops);
	return testlib_run_suite(s);
}
