/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * control_text.c - what the files of .ext4d say.
 *
 * Names, fields and units follow /sys/fs/ext4, /proc/fs/ext4 and /proc/fs/jbd2 where those have them. Each
 * file is made anew at every open from counters that are always kept.
 *
 * Invariants: (1) reading changes nothing. (2) a value that is refused changes nothing.
 * Locking: none of its own; s_sb_lock for the superblock's error fields.
 */
#include "fuse/control_text.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "alloc/map.h"
#include "alloc/mballoc.h"
#include "ext4/super.h"
#include "fuse/control.h"
#include "fuse/file.h"
#include "fuse/freezer.h"
#include "fuse/notify.h"
#include "fuse/parking.h"
#include "fuse/session.h"
#include "util/time.h"
#include "util/trace.h"

typedef void emit_fn(void *arg, const char *name, uint64_t value);

/* ---- Statistics ---- */

__attribute__((format(printf, 4, 5))) static void emit_named(emit_fn *emit, void *arg,
							     uint64_t value, const char *fmt, ...)
{
	char name[128];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(name, sizeof(name), fmt, ap);
	va_end(ap);
	emit(arg, name, value);
}

static void emit_front(struct front *f, emit_fn *emit, void *arg)
{
	struct pool_stats ps = {0};

	if (f->f_pool != NULL)
		pool_get_stats(f->f_pool, &ps);
	emit(arg, "uptime_ms", (now_ns() - f->f_start_ns) / 1000000);
	emit(arg, "fuse_in_flight", (uint64_t)f->f_in_flight);
	emit(arg, "fuse_parked", parking_count(f->f_parking));
	emit(arg, "fuse_threads", ps.ps_threads);
	emit(arg, "fuse_threads_active", ps.ps_active);
	emit(arg, "fuse_threads_standby", ps.ps_standby);
	emit(arg, "fuse_handovers", ps.ps_handovers);
	emit(arg, "fuse_nodes", node_count(&f->f_nodes));
	emit(arg, "fuse_open", open_files_count(f->f_files));
	emit(arg, "fuse_notifications", notifier_sent(f->f_notifier));
	hist_emit(parking_time(f->f_parking), "fuse_parked_ns", emit, arg);
	emit(arg, "trace_events", trace_nr_events());
	emit(arg, "trace_lost", trace_nr_lost());
}

static void emit_opcodes(struct front *f, emit_fn *emit, void *arg)
{
	for (unsigned i = 0; i < PROTO_OPCODES; i++) {
		char other[16];
		const char *name = session_opcode_name(i, other, sizeof(other));
		struct opcode_stats *op = &f->f_ops[i];

		if (hist_count(&op->op_latency_ns) == 0)
			continue;
		emit_named(emit, arg, hist_count(&op->op_latency_ns), "fuse_%s_count", name);
		emit_named(emit, arg, hist_mean(&op->op_latency_ns), "fuse_%s_mean_ns", name);
		emit_named(emit, arg, hist_percentile(&op->op_latency_ns, 99), "fuse_%s_p99_ns",
			   name);
		emit_named(emit, arg, counter_read(&op->op_latency_ns.h_max), "fuse_%s_max_ns",
			   name);
		emit_named(emit, arg, counter_read(&op->op_errors), "fuse_%s_errors", name);
	}
}

static void emit_ext4(struct super_block *sb, emit_fn *emit, void *arg)
{
	emit(arg, "block_bytes", sb->s_blocksize);
	emit(arg, "ext4_errors", counter_read(&sb->s_stats.st_errors));
	emit(arg, "ext4_inodes_read", counter_read(&sb->s_stats.st_inodes_read));
	emit(arg, "ext4_inodes_written", counter_read(&sb->s_stats.st_inodes_written));
	emit(arg, "ext4_bitmaps_loaded", counter_read(&sb->s_stats.st_bitmaps_loaded));
	emit(arg, "ext4_csum_errors", counter_read(&sb->s_stats.st_csum_errors));
	emit(arg, "delayed_allocation_blocks", ext4_sb_dirty_blocks(sb));
	emit(arg, "session_write_kbytes", ext4_session_write_kbytes(sb));
	emit(arg, "lifetime_write_kbytes", ext4_lifetime_write_kbytes(sb));
}

static void emit_mballoc(struct super_block *sb, emit_fn *emit, void *arg)
{
	struct ext4_mb_stats *mb = ext4_mb_stats(sb);

	if (mb == NULL)
		return;
	emit(arg, "mb_reqs", counter_read(&mb->mb_reqs));
	emit(arg, "mb_success", counter_read(&mb->mb_success));
	emit(arg, "mb_goal_hits", counter_read(&mb->mb_goal_hits));
	emit(arg, "mb_2order_hits", counter_read(&mb->mb_2order_hits));
	emit(arg, "mb_stripe_hits", counter_read(&mb->mb_stripe_hits));
	emit(arg, "mb_groups_scanned", counter_read(&mb->mb_groups_scanned));
	emit(arg, "mb_extents_scanned", counter_read(&mb->mb_extents_scanned));
	emit(arg, "mb_pa_used", counter_read(&mb->mb_pa_used));
	emit(arg, "mb_pa_created", counter_read(&mb->mb_pa_created));
	emit(arg, "mb_pa_discarded", counter_read(&mb->mb_pa_discarded));
	emit(arg, "mb_buddies_built", counter_read(&mb->mb_buddies_built));
	emit(arg, "mb_allocated_blocks", counter_read(&mb->mb_allocated_blocks));
	emit(arg, "mb_freed_blocks", counter_read(&mb->mb_freed_blocks));
	hist_emit(&mb->mb_latency_ns, "mb_latency_ns", emit, arg);
	hist_emit(&mb->mb_len_blocks, "mb_len_blocks", emit, arg);
}

static void emit_journal(struct super_block *sb, emit_fn *emit, void *arg)
{
	struct jbd2_stats *js = sb->s_journal != NULL ? jbd2_stats(sb->s_journal) : NULL;

	if (js == NULL)
		return;
	emit(arg, "jbd2_commits", counter_read(&js->js_commits));
	emit(arg, "jbd2_blocks_logged", counter_read(&js->js_blocks_logged));
	emit(arg, "jbd2_revokes", counter_read(&js->js_revokes));
	emit(arg, "jbd2_checkpoints", counter_read(&js->js_checkpoints));
	emit(arg, "jbd2_checkpoint_blocks", counter_read(&js->js_checkpoint_blocks));
	emit(arg, "jbd2_copies", counter_read(&js->js_copies));
	emit(arg, "jbd2_forced_by_space", counter_read(&js->js_forced_by_space));
	emit(arg, "jbd2_log_wraps", counter_read(&js->js_log_wraps));
	emit(arg, "jbd2_start_waits", counter_read(&js->js_start_waits));
	emit(arg, "jbd2_requested", counter_read(&js->js_requested));
	emit(arg, "jbd2_wait_ns", counter_read(&js->js_wait_ns));
	emit(arg, "jbd2_request_delay_ns", counter_read(&js->js_request_delay_ns));
	emit(arg, "jbd2_running_ns", counter_read(&js->js_running_ns));
	emit(arg, "jbd2_locked_ns", counter_read(&js->js_locked_ns));
	emit(arg, "jbd2_flushing_ns", counter_read(&js->js_flushing_ns));
	emit(arg, "jbd2_logging_ns", counter_read(&js->js_logging_ns));
	hist_emit(&js->js_commit_ns, "jbd2_commit_ns", emit, arg);
	hist_emit_buckets(&js->js_commit_ns, "jbd2_commit_ns", emit, arg);
	hist_emit(&js->js_handle_open_ns, "jbd2_handle_open_ns", emit, arg);
}

static void emit_all(struct front *f, emit_fn *emit, void *arg)
{
	emit_front(f, emit, arg);
	emit_opcodes(f, emit, arg);
	emit_ext4(f->f_sb, emit, arg);
	emit_mballoc(f->f_sb, emit, arg);
	emit_journal(f->f_sb, emit, arg);
	wb_print_stats(f->f_sb, emit, arg);
	blk_print_stats(f->f_sb->s_dev, emit, arg);
}

static void emit_line(void *arg, const char *name, uint64_t value)
{
	fprintf(arg, "%s %" PRIu64 "\n", name, value);
}

struct json {
	FILE *js_out;
	bool js_more;
};

static void emit_json(void *arg, const char *name, uint64_t value)
{
	struct json *js = arg;

	fprintf(js->js_out, "%s\n  \"%s\": %" PRIu64, js->js_more ? "," : "", name, value);
	js->js_more = true;
}

void control_print_json(struct front *f, FILE *out)
{
	struct json js = {.js_out = out};

	fputc('{', out);
	emit_all(f, emit_json, &js);
	fputs("\n}\n", out);
}

static void print_stats(struct front *f, const struct control_file *cf, FILE *out)
{
	(void)cf;
	emit_all(f, emit_line, out);
}

static void print_stats_json(struct front *f, const struct control_file *cf, FILE *out)
{
	(void)cf;
	control_print_json(f, out);
}

/* ---- Files with one source ---- */

static void print_options(struct front *f, const struct control_file *cf, FILE *out)
{
	const char *const *names = wb_tunable_names();

	mount_options_print(f->f_opts, f->f_sb, out);
	for (; *names != NULL; names++) {
		struct control_file one = {.cf_name = *names};

		fprintf(out, "%s=", *names);
		control_tunable_print(f, &one, out);
	}
	(void)cf;
}

static void print_mb_groups(struct front *f, const struct control_file *cf, FILE *out)
{
	(void)cf;
	ext4_mb_print_groups(f->f_sb, out);
}

static void print_mb_stats(struct front *f, const struct control_file *cf, FILE *out)
{
	(void)cf;
	ext4_mb_print_stats(f->f_sb, out);
}

static void print_es_shrinker(struct front *f, const struct control_file *cf, FILE *out)
{
	(void)cf;
	ext4_es_print_shrinker(f->f_sb, out);
}

static void print_jbd2_info(struct front *f, const struct control_file *cf, FILE *out)
{
	(void)cf;
	if (f->f_sb->s_journal != NULL)
		jbd2_print_info(f->f_sb->s_journal, out);
}

static void print_bdi(struct front *f, const struct control_file *cf, FILE *out)
{
	(void)cf;
	wb_print_bdi(f->f_sb, out);
}

static void print_writeback(struct front *f, const struct control_file *cf, FILE *out)
{
	(void)cf;
	wb_print_writeback(f->f_sb, out);
}

static void print_throttle(struct front *f, const struct control_file *cf, FILE *out)
{
	(void)cf;
	wb_print_throttle(f->f_sb, out);
}

static void print_stripes(struct front *f, const struct control_file *cf, FILE *out)
{
	(void)cf;
	wb_print_stripes(f->f_sb, out);
}

static void print_device(struct front *f, const struct control_file *cf, FILE *out)
{
	struct blkdev *bd = f->f_sb->s_dev;

	(void)cf;
	fprintf(out, "device %s\nsize_bytes %" PRIu64 "\nlogical_block_bytes %" PRIu32 "\n",
		f->f_device->dv_path, bd->bd_size_bytes, bd->bd_logical_block_bytes);
	fprintf(out, "in_flight %" PRIu64 "\n", counter_read(&bd->bd_stats.s_in_flight));
	hist_print(&bd->bd_stats.s_depth, "queue_depth", out);
	for (int op = REQ_OP_READ; op <= REQ_OP_WRITE_ZEROES; op++) {
		char name[64];

		fprintf(out, "%s requests %" PRIu64 " bytes %" PRIu64 "\n",
			req_op_name((enum req_op)op), counter_read(&bd->bd_stats.s_requests[op]),
			counter_read(&bd->bd_stats.s_bytes[op]));
		snprintf(name, sizeof(name), "%s_size_bytes", req_op_name((enum req_op)op));
		hist_print(&bd->bd_stats.s_size[op], name, out);
		snprintf(name, sizeof(name), "%s_latency_ns", req_op_name((enum req_op)op));
		hist_print(&bd->bd_stats.s_latency_ns[op], name, out);
	}
	blk_print_stats(bd, emit_line, out);
}

static void print_fuse(struct front *f, const struct control_file *cf, FILE *out)
{
	(void)cf;
	fprintf(out, "transport %s\n", f->f_transport->t_ops->to_name);
	fprintf(out, "mount %s\n", f->f_fuseblk ? "fuseblk" : "fuse");
	fprintf(out, "protocol 7.%" PRIu32 "\n", f->f_proto_minor);
	fprintf(out, "flags_offered %#" PRIx64 "\nflags_taken %#" PRIx64 "\n", f->f_offered,
		f->f_taken);
	fprintf(out, "syncfs_seen %d\n", f->f_syncfs_seen);
	emit_front(f, emit_line, out);
	for (unsigned i = 0; i < PROTO_OPCODES; i++) {
		char other[16];
		char name[64];

		if (hist_count(&f->f_ops[i].op_latency_ns) == 0)
			continue;
		snprintf(name, sizeof(name), "%s_ns", session_opcode_name(i, other, sizeof(other)));
		hist_print(&f->f_ops[i].op_latency_ns, name, out);
	}
}

/* ---- One number ---- */

static void print_delayed(struct front *f, const struct control_file *cf, FILE *out)
{
	(void)cf;
	fprintf(out, "%" PRIu64 "\n", ext4_sb_dirty_blocks(f->f_sb));
}

static void print_session_kbytes(struct front *f, const struct control_file *cf, FILE *out)
{
	(void)cf;
	fprintf(out, "%" PRIu64 "\n", ext4_session_write_kbytes(f->f_sb));
}

static void print_lifetime_kbytes(struct front *f, const struct control_file *cf, FILE *out)
{
	(void)cf;
	fprintf(out, "%" PRIu64 "\n", ext4_lifetime_write_kbytes(f->f_sb));
}

/* The pool for splits and conversions: 2 %, at most 4096 clusters, as the kernel's default. */
static void print_reserved_clusters(struct front *f, const struct control_file *cf, FILE *out)
{
	(void)cf;
	fprintf(out, "%" PRIu64 "\n", ext4_reserved_pool(f->f_sb));
}

/* errors_count, first_error_* and last_error_*: a copy of the superblock is asked by the file's name. */
static void print_error_field(struct front *f, const struct control_file *cf, FILE *out)
{
	struct super_block *sb = f->f_sb;
	struct ext2_super_block es;
	const char *name = cf->cf_name;
	bool first = strncmp(name, "first", 5) == 0;

	ext4_error_view(sb, &es);
	if (strcmp(name, "errors_count") == 0)
		fprintf(out, "%" PRIu32 "\n", le32_to_cpu(es.s_error_count));
	else if (strstr(name, "_time") != NULL)
		fprintf(out, "%" PRIu32 "\n",
			le32_to_cpu(first ? es.s_first_error_time : es.s_last_error_time));
	else if (strstr(name, "_ino") != NULL)
		fprintf(out, "%" PRIu32 "\n",
			le32_to_cpu(first ? es.s_first_error_ino : es.s_last_error_ino));
	else if (strstr(name, "_line") != NULL)
		fprintf(out, "%" PRIu32 "\n",
			le32_to_cpu(first ? es.s_first_error_line : es.s_last_error_line));
	else if (strstr(name, "_errcode") != NULL)
		fprintf(out, "%u\n", first ? es.s_first_error_errcode : es.s_last_error_errcode);
	else if (strstr(name, "_block") != NULL)
		fprintf(out, "%" PRIu64 "\n",
			le64_to_cpu(first ? es.s_first_error_block : es.s_last_error_block));
	else
		fprintf(out, "%.32s\n",
			(const char *)(first ? es.s_first_error_func : es.s_last_error_func));
}

/* ---- Switches ---- */

static int parse_small(const char *text, unsigned max, unsigned *out)
{
	char *end;
	unsigned long v;

	if (*text < '0' || *text > '9')
		return -EINVAL;
	v = strtoul(text, &end, 10);
	if (*end != '\0' || v > max)
		return -EINVAL;
	*out = (unsigned)v;
	return 0;
}

static int write_shutdown(struct front *f, const struct control_file *cf, const char *text)
{
	unsigned mode;
	int err = parse_small(text, 2, &mode);

	(void)cf;
	return err != 0 ? err : ext4_shutdown(f->f_sb, mode);
}

static void print_freeze(struct front *f, const struct control_file *cf, FILE *out)
{
	(void)cf;
	fprintf(out, "%d\n", freezer_frozen(f->f_freezer));
}

static int write_freeze(struct front *f, const struct control_file *cf, const char *text)
{
	unsigned on;
	int err = parse_small(text, 1, &on);

	(void)cf;
	if (err != 0)
		return err;
	return on != 0 ? freezer_freeze(f->f_freezer) : freezer_thaw(f->f_freezer);
}

/* A text of the reader's own in the log of the device. */
static int write_mark(struct front *f, const struct control_file *cf, const char *text)
{
	(void)cf;
	return blk_wants_marks(f->f_sb->s_dev) ? blk_mark(f->f_sb->s_dev, text) : -EOPNOTSUPP;
}

static const char *const write_modes[] = {
	[BLK_WRITES_PASS] = "pass",
	[BLK_WRITES_DROP] = "drop",
	[BLK_WRITES_FAIL] = "fail",
};

static void print_device_writes(struct front *f, const struct control_file *cf, FILE *out)
{
	(void)cf;
	fprintf(out, "%s\n", write_modes[blk_write_mode(f->f_sb->s_dev)]);
}

static int write_device_writes(struct front *f, const struct control_file *cf, const char *text)
{
	(void)cf;
	for (int i = BLK_WRITES_PASS; i <= BLK_WRITES_FAIL; i++) {
		if (strcmp(text, write_modes[i]) == 0) {
			blk_set_write_mode(f->f_sb->s_dev, (enum blk_write_mode)i);
			return 0;
		}
	}
	return -EINVAL;
}

static void print_threads(struct front *f, const struct control_file *cf, FILE *out)
{
	(void)cf;
	fprintf(out, "%u\n", pool_active(f->f_pool));
}

static int write_threads(struct front *f, const struct control_file *cf, const char *text)
{
	unsigned n;
	int err = parse_small(text, f->f_opts->mo_max_threads, &n);

	(void)cf;
	if (err != 0 || n == 0)
		return -EINVAL;
	pool_set_active(f->f_pool, n);
	return 0;
}

static void print_trace_events(struct front *f, const struct control_file *cf, FILE *out)
{
	(void)f;
	(void)cf;
	trace_print_events(out);
	fputc('\n', out);
}

static int write_trace_events(struct front *f, const struct control_file *cf, const char *text)
{
	(void)f;
	(void)cf;
	return trace_set_events(text);
}

/* ---- Tunables of the writeback layer ---- */

void control_tunable_print(struct front *f, const struct control_file *cf, FILE *out)
{
	char value[256];

	if (wb_tunable_get(f->f_sb, cf->cf_name, value, sizeof(value)) == 0)
		fprintf(out, "%s\n", value);
}

int control_tunable_write(struct front *f, const struct control_file *cf, const char *text)
{
	return wb_tunable_set(f->f_sb, cf->cf_name, text);
}

/* ---- The tables ---- */

const struct control_file control_files[] = {
	{.cf_name = "options", .cf_print = print_options},
	{.cf_name = "stats", .cf_print = print_stats},
	{.cf_name = "stats.json", .cf_print = print_stats_json},
	{.cf_name = "delayed_allocation_blocks", .cf_print = print_delayed},
	{.cf_name = "session_write_kbytes", .cf_print = print_session_kbytes},
	{.cf_name = "lifetime_write_kbytes", .cf_print = print_lifetime_kbytes},
	{.cf_name = "reserved_clusters", .cf_print = print_reserved_clusters},
	{.cf_name = "errors_count", .cf_print = print_error_field},
	{.cf_name = "first_error_time", .cf_print = print_error_field},
	{.cf_name = "first_error_ino", .cf_print = print_error_field},
	{.cf_name = "first_error_block", .cf_print = print_error_field},
	{.cf_name = "first_error_func", .cf_print = print_error_field},
	{.cf_name = "first_error_line", .cf_print = print_error_field},
	{.cf_name = "first_error_errcode", .cf_print = print_error_field},
	{.cf_name = "last_error_time", .cf_print = print_error_field},
	{.cf_name = "last_error_ino", .cf_print = print_error_field},
	{.cf_name = "last_error_block", .cf_print = print_error_field},
	{.cf_name = "last_error_func", .cf_print = print_error_field},
	{.cf_name = "last_error_line", .cf_print = print_error_field},
	{.cf_name = "last_error_errcode", .cf_print = print_error_field},
	{.cf_name = "mb_groups", .cf_print = print_mb_groups},
	{.cf_name = "mb_stats", .cf_print = print_mb_stats},
	{.cf_name = "es_shrinker_info", .cf_print = print_es_shrinker},
	{.cf_name = "jbd2_info", .cf_print = print_jbd2_info},
	{.cf_name = "bdi", .cf_print = print_bdi},
	{.cf_name = "writeback", .cf_print = print_writeback},
	{.cf_name = "throttle", .cf_print = print_throttle},
	{.cf_name = "stripes", .cf_print = print_stripes},
	{.cf_name = "device", .cf_print = print_device},
	{.cf_name = "fuse", .cf_print = print_fuse},
	{.cf_name = "trace", .cf_pipe = true},
	{.cf_name = "shutdown", .cf_write = write_shutdown},
	{.cf_name = "mark", .cf_write = write_mark},
	{.cf_name = "freeze", .cf_print = print_freeze, .cf_write = write_freeze},
	{.cf_name = NULL},
};

const struct control_file control_own_tunables[] = {
	{.cf_name = "device_writes",
	 .cf_print = print_device_writes,
	 .cf_write = write_device_writes},
	{.cf_name = "threads", .cf_print = print_threads, .cf_write = write_threads},
	{.cf_name = "trace_events", .cf_print = print_trace_events, .cf_write = write_trace_events},
	{.cf_name = NULL},
};
