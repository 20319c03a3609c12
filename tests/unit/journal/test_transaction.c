/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * test_transaction.c - handles: credits, nesting, extend, restart, reservations, lockout.
 * Locking: what is tested.
 */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/lib/suite.h"
#include "tests/unit/journal/fixture.h"

static const struct fx_shape shape_1k = {.fs_block_bytes = 1024};

/* True if fn ends the process by SIGABRT, as a failed ASSERT does. */
static bool asserts(void (*fn)(struct fixture *f), struct fixture *f)
{
	int status;
	pid_t pid = fork();

	ck_assert_int_ge(pid, 0);
	if (pid == 0) {
		freopen("/dev/null", "w", stderr);
		fn(f);
		_exit(0);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}

static void dirty_two_with_one_credit(struct fixture *f)
{
	handle_t *h = fx_start(f, 1);

	fx_write(f, h, FX_META, 1);
	fx_write(f, h, FX_META + 1, 2);
}

static void dirty_one_twice_with_one_credit(struct fixture *f)
{
	handle_t *h = fx_start(f, 1);

	fx_write(f, h, FX_META, 1);
	fx_write(f, h, FX_META, 2);
	jbd2_journal_stop(h);
}

static void dirty_without_access(struct fixture *f)
{
	handle_t *h = fx_start(f, 1);
	struct buffer_head *bh = bh_read(f->f_cache, FX_META);

	jbd2_journal_dirty_metadata(h, bh);
}

static void wait_with_a_handle(struct fixture *f)
{
	handle_t *h = fx_start(f, 1);

	jbd2_log_wait_commit(f->f_j, jbd2_handle_tid(h));
}

START_TEST(credits_and_access_are_asserted)
{
	struct fixture f;

	fx_open(&f, &shape_1k);
	ck_assert(asserts(dirty_two_with_one_credit, &f));
	ck_assert(!asserts(dirty_one_twice_with_one_credit, &f));
	ck_assert(asserts(dirty_without_access, &f));
	ck_assert(asserts(wait_with_a_handle, &f));
	ck_assert_int_eq(fx_unload(&f), 0);
	fx_close(&f);
}
END_TEST

START_TEST(a_nested_start_is_the_same_handle)
{
	struct fixture f;
	handle_t *h;

	fx_open(&f, &shape_1k);
	ck_assert_ptr_null(jbd2_current_handle());
	h = fx_start(&f, 5);
	ck_assert_ptr_eq(fx_start(&f, 100), h);
	ck_assert_ptr_eq(jbd2_current_handle(), h);
	ck_assert_uint_eq(jbd2_handle_credits(h), 5);
	ck_assert_int_eq(jbd2_journal_stop(h), 0);
	ck_assert_ptr_eq(jbd2_current_handle(), h);
	fx_write(&f, h, FX_META, 1);
	ck_assert_uint_eq(jbd2_handle_credits(h), 4);
	ck_assert_int_eq(jbd2_journal_stop(h), 0);
	ck_assert_ptr_null(jbd2_current_handle());
	ck_assert_int_eq(fx_unload(&f), 0);
	ck_assert(fx_disk_is(&f, FX_META, 1));
	fx_close(&f);
}
END_TEST

START_TEST(unused_credits_come_back)
{
	struct fixture f;
	unsigned max;

	fx_open(&f, &shape_1k);
	max = jbd2_max_credits(f.f_j);
	ck_assert_uint_gt(max, 200);
	ck_assert_uint_le(max, 256);
	for (int i = 0; i < 100; i++)
		jbd2_journal_stop(fx_start(&f, max));
	ck_assert_int_eq(PTR_ERR(jbd2_journal_start(f.f_j, HT_MISC, max + 1, 0)), -ENOSPC);
	ck_assert_uint_eq(counter_read(&jbd2_stats(f.f_j)->js_commits), 0);
	ck_assert_int_eq(atomic_load(&f.f_j->j_running_transaction->t_outstanding_credits),
			 f.f_j->j_overhead);
	ck_assert_int_eq(fx_unload(&f), 0);
	fx_close(&f);
}
END_TEST

START_TEST(a_full_transaction_is_committed_for_the_next_handle)
{
	struct fixture f;
	unsigned max;
	tid_t first;
	handle_t *h;

	fx_open(&f, &shape_1k);
	max = jbd2_max_credits(f.f_j);
	h = fx_start(&f, max);
	first = jbd2_handle_tid(h);
	for (unsigned i = 0; i < max; i++)
		fx_write(&f, h, FX_META + i, i + 1);
	ck_assert_int_eq(jbd2_journal_extend(h, 1, 0), 1);
	ck_assert_int_eq(jbd2_journal_stop(h), 0);
	h = fx_start(&f, 1);
	ck_assert_uint_eq(jbd2_handle_tid(h), first + 1);
	ck_assert(!jbd2_transaction_pending(f.f_j, first));
	ck_assert_int_eq(jbd2_journal_stop(h), 0);
	ck_assert_int_eq(jbd2_complete_transaction(f.f_j, first), 0);
	ck_assert_int_eq(fx_unload(&f), 0);
	for (unsigned i = 0; i < max; i++)
		ck_assert(fx_disk_is(&f, FX_META + i, i + 1));
	fx_close(&f);
}
END_TEST

START_TEST(extend_takes_what_is_left_and_no_more)
{
	struct fixture f;
	unsigned max;
	handle_t *h;

	fx_open(&f, &shape_1k);
	max = jbd2_max_credits(f.f_j);
	h = fx_start(&f, 10);
	ck_assert_int_eq(jbd2_journal_extend(h, max - 10, 0), 0);
	ck_assert_uint_eq(jbd2_handle_credits(h), max);
	ck_assert_int_eq(jbd2_journal_extend(h, 1, 0), 1);
	ck_assert_uint_eq(jbd2_handle_credits(h), max);
	ck_assert_int_eq(jbd2_journal_stop(h), 0);
	ck_assert_int_eq(fx_unload(&f), 0);
	fx_close(&f);
}
END_TEST

START_TEST(restart_commits_the_part_done)
{
	struct fixture f;
	tid_t first;
	handle_t *h;

	fx_open(&f, &shape_1k);
	h = fx_start(&f, 2);
	first = jbd2_handle_tid(h);
	fx_write(&f, h, FX_META, 1);
	ck_assert_int_eq(jbd2_journal_restart(h, 3, 0), 0);
	ck_assert_uint_eq(jbd2_handle_tid(h), first + 1);
	ck_assert_uint_eq(jbd2_handle_credits(h), 3);
	ck_assert(!jbd2_transaction_pending(f.f_j, first));
	fx_write(&f, h, FX_META, 2);
	ck_assert_int_eq(jbd2_journal_stop(h), 0);
	ck_assert_int_eq(fx_unload(&f), 0);
	ck_assert(fx_disk_is(&f, FX_META, 2));
	fx_close(&f);
}
END_TEST

START_TEST(a_reservation_is_counted_and_given_back)
{
	struct fixture f;
	handle_t *rsv, *h;

	fx_open(&f, &shape_1k);
	rsv = jbd2_journal_reserve(f.f_j, 40);
	ck_assert(!IS_ERR(rsv));
	ck_assert_int_eq(atomic_load(&f.f_j->j_reserved_credits), 40);
	ck_assert_int_eq(jbd2_journal_force_commit(f.f_j), 0);
	/* The next transactions count it from the start. */
	h = fx_start(&f, 1);
	ck_assert_int_eq(atomic_load(&f.f_j->j_running_transaction->t_outstanding_credits),
			 f.f_j->j_overhead + 40 + 1);
	/* With a handle open a reservation that does not fit must not wait. */
	ck_assert_int_eq(PTR_ERR(jbd2_journal_reserve(f.f_j, 100)), -EAGAIN);
	ck_assert_int_eq(jbd2_journal_stop(h), 0);
	ck_assert_int_eq(jbd2_journal_start_reserved(rsv, HT_EXT_CONVERT), 0);
	ck_assert_ptr_eq(jbd2_current_handle(), rsv);
	ck_assert_uint_eq(jbd2_handle_credits(rsv), 40);
	fx_write(&f, rsv, FX_META, 7);
	ck_assert_int_eq(jbd2_journal_stop(rsv), 0);
	ck_assert_int_eq(atomic_load(&f.f_j->j_reserved_credits), 0);
	ck_assert_int_eq(atomic_load(&f.f_j->j_running_transaction->t_outstanding_credits),
			 f.f_j->j_overhead + 1);
	rsv = jbd2_journal_reserve(f.f_j, 10);
	jbd2_journal_free_reserved(rsv);
	ck_assert_int_eq(atomic_load(&f.f_j->j_running_transaction->t_outstanding_credits),
			 f.f_j->j_overhead + 1);
	ck_assert_int_eq(fx_unload(&f), 0);
	ck_assert(fx_disk_is(&f, FX_META, 7));
	fx_close(&f);
}
END_TEST

START_TEST(revokes_share_blocks_and_are_paid_for)
{
	struct fixture f;
	handle_t *h;
	int before;

	fx_open(&f, &shape_1k);
	h = jbd2_journal_start(f.f_j, HT_MISC, 4, 10);
	before = f.f_j->j_overhead;
	for (unsigned i = 0; i < 10; i++)
		ck_assert_int_eq(jbd2_journal_revoke(h, FX_META + i, NULL), 0);
	ck_assert_int_eq(jbd2_journal_stop(h), 0);
	ck_assert_int_eq(atomic_load(&f.f_j->j_running_transaction->t_outstanding_credits),
			 before + 1);
	/* The next ones fit into the same block; without revoke credits a block credit serves. */
	h = jbd2_journal_start(f.f_j, HT_MISC, 4, 0);
	for (unsigned i = 10; i < 20; i++)
		ck_assert_int_eq(jbd2_journal_revoke(h, FX_META + i, NULL), 0);
	ck_assert_uint_eq(jbd2_handle_credits(h), 3);
	ck_assert_int_eq(jbd2_journal_stop(h), 0);
	ck_assert_int_eq(atomic_load(&f.f_j->j_running_transaction->t_outstanding_credits),
			 before + 1);
	ck_assert_int_eq(fx_unload(&f), 0);
	fx_close(&f);
}
END_TEST

START_TEST(tids_are_compared_around_the_wrap)
{
	const struct fx_shape shape = {.fs_block_bytes = 1024, .fs_sequence = UINT32_MAX - 3};
	struct fixture f;

	ck_assert(tid_geq(0, UINT32_MAX));
	ck_assert(!tid_geq(UINT32_MAX, 0));
	fx_open(&f, &shape);
	for (unsigned i = 1; i < 10; i++) {
		tid_t tid = fx_write_one(&f, FX_META, i);

		ck_assert_int_eq(jbd2_complete_transaction(f.f_j, tid), 0);
		ck_assert(!jbd2_transaction_pending(f.f_j, tid));
	}
	/* As after a crash: nothing was written home yet. */
	f.f_j->j_params.jp_fs_dev = f.f_dev;
	ck_assert(fx_disk_is(&f, FX_META, 0));
	ck_assert_int_eq(fx_unload(&f), 0);
	ck_assert(fx_disk_is(&f, FX_META, 9));
	fx_close(&f);
}
END_TEST

START_TEST(without_a_log_a_commit_writes_home)
{
	const struct fx_shape shape = {.fs_block_bytes = 1024, .fs_no_log = true};
	struct fixture f;
	handle_t *h;
	tid_t tid;

	fx_open(&f, &shape);
	h = fx_start(&f, 600);
	tid = jbd2_handle_tid(h);
	for (unsigned i = 0; i < 600; i++)
		fx_write(&f, h, FX_META + i, i + 1);
	ck_assert_int_eq(jbd2_journal_revoke(h, FX_META + 3, bh_find(f.f_cache, FX_META + 3)), 0);
	ck_assert_int_eq(jbd2_journal_stop(h), 0);
	ck_assert(fx_disk_is(&f, FX_META, 0));
	ck_assert_int_eq(jbd2_log_wait_commit(f.f_j, tid), 0);
	for (unsigned i = 0; i < 600; i++)
		ck_assert(fx_disk_is(&f, FX_META + i, i == 3 ? 0 : i + 1));
	ck_assert_int_eq(fx_unload(&f), 0);
	fx_close(&f);
}
END_TEST

int main(void)
{
	return RUN_TESTS("journal/transaction", credits_and_access_are_asserted,
			 a_nested_start_is_the_same_handle, unused_credits_come_back,
			 a_full_transaction_is_committed_for_the_next_handle,
			 extend_takes_what_is_left_and_no_more, restart_commits_the_part_done,
			 a_reservation_is_counted_and_given_back,
			 revokes_share_blocks_and_are_paid_for, tids_are_compared_around_the_wrap,
			 without_a_log_a_commit_writes_home);
}
