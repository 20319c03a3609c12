/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * stats.c - what the journal can tell: where the time of transactions went, .ext4d/jbd2_info, the events of jbd2.
 *
 * A commit is divided as the kernel divides it: running, locked (handles end), flushing (ordered data), logging (all the rest up to
 * durable). Sums over all commits give the averages of /proc/fs/jbd2; the histogram and the five longest tell what averages hide.
 *
 * Invariants: (1) js_longest_ns is sorted, longest first.
 * Locking: counters are atomic; t_run belongs to the commit thread once the commit has begun.
 */
#include <inttypes.h>

#include "journal/journal_int.h"
#include "util/time.h"
#include "util/trace.h"

/* ---- Commits ---- */

struct jbd2_stats *jbd2_stats(journal_t *j)
{
	return &j->j_stats;
}

void jbd2_note_commit(journal_t *j, tid_t tid, uint64_t ns)
{
	struct jbd2_stats *js = &j->j_stats;
	unsigned at = JBD2_LONGEST;

	counter_inc(&js->js_commits);
	hist_add(&js->js_commit_ns, ns);
	mutex_lock(&j->j_list_lock);
	counter_add(&j->j_commit_us_sq, (ns / NSEC_PER_USEC) * (ns / NSEC_PER_USEC));
	while (at > 0 && ns > js->js_longest_ns[at - 1])
		at--;
	for (unsigned i = JBD2_LONGEST - 1; i > at; i--) {
		js->js_longest_ns[i] = js->js_longest_ns[i - 1];
		js->js_longest_tid[i] = js->js_longest_tid[i - 1];
	}
	if (at < JBD2_LONGEST) {
		js->js_longest_ns[at] = ns;
		js->js_longest_tid[at] = tid;
	}
	mutex_unlock(&j->j_list_lock);
}

/* ---- The phases of a transaction ---- */

static uint64_t ms_of(uint64_t ns)
{
	return ns / NSEC_PER_MSEC;
}

/* From then until now; 0 if then is not known. */
static uint64_t since(uint64_t then_ns, uint64_t now)
{
	return then_ns != 0 && now > then_ns ? now - then_ns : 0;
}

/* A phase ends and the next one begins: how long it took. */
static uint64_t next_phase(transaction_t *t)
{
	uint64_t now = stat_ns(), took = since(t->t_run.rs_phase_ns, now);

	t->t_run.rs_phase_ns = now;
	return took;
}

void jbd2_run_waited_locked(transaction_t *t, uint64_t since_ns)
{
	uint64_t waited = since(since_ns, t->t_start_ns);

	mutex_assert_held(&t->t_journal->j_state_lock);
	if (waited > t->t_run.rs_wait_ns)
		t->t_run.rs_wait_ns = waited;
}

void jbd2_run_begin_locked(journal_t *j, transaction_t *t)
{
	struct jbd2_run_stats *rs = &t->t_run;
	uint64_t now = stat_ns();

	mutex_assert_held(&j->j_state_lock);
	t->t_synchronous = t->t_requested_ns != 0;
	if (t->t_synchronous)
		counter_inc(&j->j_stats.js_requested);
	rs->rs_request_delay_ns = since(t->t_requested_ns, now);
	rs->rs_running_ns = since(t->t_start_ns, now);
	rs->rs_phase_ns = now;
	TRACE(jbd2_start_commit, .dev = j->j_fs_dev->bd_dev, .transaction = t->t_tid,
	      .sync_commit = t->t_synchronous);
	TRACE(jbd2_commit_locking, .dev = j->j_fs_dev->bd_dev, .transaction = t->t_tid,
	      .sync_commit = t->t_synchronous);
}

void jbd2_run_flushing(journal_t *j, transaction_t *t)
{
	t->t_run.rs_locked_ns = next_phase(t);
	TRACE(jbd2_commit_flushing, .dev = j->j_fs_dev->bd_dev, .transaction = t->t_tid,
	      .sync_commit = t->t_synchronous);
}

void jbd2_run_logging(journal_t *j, transaction_t *t)
{
	t->t_run.rs_flushing_ns = next_phase(t);
	TRACE(jbd2_commit_logging, .dev = j->j_fs_dev->bd_dev, .transaction = t->t_tid,
	      .sync_commit = t->t_synchronous);
}

void jbd2_run_end(journal_t *j, transaction_t *t)
{
	struct jbd2_stats *js = &j->j_stats;
	struct jbd2_run_stats *rs = &t->t_run;
	unsigned blocks = (unsigned)atomic_load(&t->t_outstanding_credits);

	rs->rs_logging_ns = next_phase(t);
	counter_add(&js->js_wait_ns, rs->rs_wait_ns);
	counter_add(&js->js_request_delay_ns, rs->rs_request_delay_ns);
	counter_add(&js->js_running_ns, rs->rs_running_ns);
	counter_add(&js->js_locked_ns, rs->rs_locked_ns);
	counter_add(&js->js_flushing_ns, rs->rs_flushing_ns);
	counter_add(&js->js_logging_ns, rs->rs_logging_ns);
	counter_add(&js->js_blocks, blocks);
	TRACE(jbd2_run_stats, .dev = j->j_fs_dev->bd_dev, .tid = t->t_tid,
	      .wait = ms_of(rs->rs_wait_ns), .request_delay = ms_of(rs->rs_request_delay_ns),
	      .running = ms_of(rs->rs_running_ns), .locked = ms_of(rs->rs_locked_ns),
	      .flushing = ms_of(rs->rs_flushing_ns), .logging = ms_of(rs->rs_logging_ns),
	      .handle_count = atomic_load(&t->t_handle_count), .blocks = blocks,
	      .blocks_logged = t->t_log_blocks);
}

void jbd2_trace_end_locked(const journal_t *j, const transaction_t *t)
{
	mutex_assert_held(&j->j_state_lock);
	TRACE(jbd2_end_commit, .dev = j->j_fs_dev->bd_dev, .transaction = t->t_tid,
	      .sync_commit = t->t_synchronous, .head = j->j_tail_sequence);
}

void jbd2_trace_handle(const handle_t *h)
{
	TRACE(jbd2_handle_stats, .dev = h->h_journal->j_fs_dev->bd_dev,
	      .tid = h->h_transaction->t_tid, .type = h->h_type,
	      .interval = ms_of(since(h->h_start_ns, now_ns())), .sync = h->h_sync,
	      .requested_blocks = h->h_requested, .dirtied_blocks = h->h_requested - h->h_credits);
}

void jbd2_trace_checkpoint(const journal_t *j, const transaction_t *t)
{
	TRACE(jbd2_checkpoint_stats, .dev = j->j_fs_dev->bd_dev, .tid = t->t_tid,
	      .chp_time = ms_of(since(t->t_cp_start_ns, now_ns())),
	      .forced_to_close = t->t_cp_forced, .written = t->t_cp_written,
	      .dropped = t->t_cp_dropped);
}

/* ---- .ext4d/jbd2_info ---- */

static uint64_t square_root(uint64_t x)
{
	uint64_t low = 0, high = UINT32_MAX;

	while (low < high) {
		uint64_t mid = (low + high + 1) / 2;

		if (mid * mid <= x)
			low = mid;
		else
			high = mid - 1;
	}
	return low;
}

static uint64_t commit_deviation_us(journal_t *j)
{
	uint64_t n = hist_count(&j->j_stats.js_commit_ns);
	uint64_t mean_us = hist_mean(&j->j_stats.js_commit_ns) / NSEC_PER_USEC;
	uint64_t mean_sq;

	if (n == 0)
		return 0;
	mean_sq = counter_read(&j->j_commit_us_sq) / n;
	return mean_sq > mean_us * mean_us ? square_root(mean_sq - mean_us * mean_us) : 0;
}

static void print_longest(journal_t *j, FILE *out)
{
	struct jbd2_stats *js = &j->j_stats;

	mutex_lock(&j->j_list_lock);
	for (unsigned i = 0; i < JBD2_LONGEST && js->js_longest_ns[i] > 0; i++)
		fprintf(out, "  longest commit %u: %" PRIu64 "us tid %" PRIu32 "\n", i + 1,
			js->js_longest_ns[i] / NSEC_PER_USEC, js->js_longest_tid[i]);
	mutex_unlock(&j->j_list_lock);
}

static uint64_t per_commit(const counter_t *sum, uint64_t commits)
{
	return commits > 0 ? counter_read(sum) / commits : 0;
}

/* The lines of /proc/fs/jbd2/DEV/info. */
static void print_as_kernel(journal_t *j, FILE *out)
{
	const struct jbd2_stats *js = &j->j_stats;
	uint64_t commits = counter_read(&js->js_commits), handles = 0;
	const struct {
		const counter_t *sum;
		const char *what;
	} times[] = {
		{&js->js_wait_ns, "waiting for transaction"},
		{&js->js_request_delay_ns, "request delay"},
		{&js->js_running_ns, "running transaction"},
		{&js->js_locked_ns, "transaction was being locked"},
		{&js->js_flushing_ns, "flushing data (in ordered mode)"},
		{&js->js_logging_ns, "logging transaction"},
	};

	for (unsigned i = 0; i < HT_MAX; i++)
		handles += counter_read(&js->js_handles[i]);
	fprintf(out, "%" PRIu64 " transactions (%" PRIu64 " requested), each up to %d blocks\n",
		commits, counter_read(&js->js_requested), j->j_max_transaction);
	fprintf(out, "average: \n");
	for (unsigned i = 0; i < sizeof(times) / sizeof(times[0]); i++)
		fprintf(out, "  %" PRIu64 "ms %s\n", ms_of(per_commit(times[i].sum, commits)),
			times[i].what);
	fprintf(out, "  %" PRIu64 "us average transaction commit time\n",
		hist_mean(&js->js_commit_ns) / NSEC_PER_USEC);
	fprintf(out, "  %" PRIu64 " handles per transaction\n",
		commits > 0 ? handles / commits : 0);
	fprintf(out, "  %" PRIu64 " blocks per transaction\n", per_commit(&js->js_blocks, commits));
	fprintf(out, "  %" PRIu64 " logged blocks per transaction\n",
		per_commit(&js->js_blocks_logged, commits));
}

void jbd2_print_info(journal_t *j, FILE *out)
{
	const struct jbd2_stats *js = &j->j_stats;

	print_as_kernel(j, out);
	fprintf(out, "commit time:\n");
	fprintf(out, "  mean %" PRIu64 "us\n  deviation %" PRIu64 "us\n",
		hist_mean(&js->js_commit_ns) / NSEC_PER_USEC, commit_deviation_us(j));
	print_longest(j, out);
	hist_print(&js->js_commit_ns, "commit_ns", out);
	fprintf(out, "parts:\n");
	hist_print(&js->js_wait_locked_ns, "start_waits_ns", out);
	hist_print(&js->js_log_ns, "log_ns", out);
	hist_print(&js->js_flush_ns, "flush_ns", out);
	hist_print(&js->js_handle_open_ns, "handle_open_ns", out);
	if (jbd2_has_log(j))
		fprintf(out, "log_blocks %" PRIu32 "\nlog_free %d\n", j->j_last - j->j_first,
			atomic_load(&j->j_free));
	fprintf(out, "revokes %" PRIu64 "\n", counter_read(&js->js_revokes));
	fprintf(out,
		"checkpoints %" PRIu64 ", blocks %" PRIu64 ", copies %" PRIu64 ", forced %" PRIu64
		", wraps %" PRIu64 ", start waits %" PRIu64 "\n",
		counter_read(&js->js_checkpoints), counter_read(&js->js_checkpoint_blocks),
		counter_read(&js->js_copies), counter_read(&js->js_forced_by_space),
		counter_read(&js->js_log_wraps), counter_read(&js->js_start_waits));
}
