/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * options.c - what can be said after -o.
 *
 * One table holds every option: its name, whether it takes a value, and a function that puts the
 * value into struct mount_options. Names that the table does not know are tried as tunables of the
 * writeback engine, whose values are checked by that layer when the file system is mounted. What
 * is left is an error: a misspelled option must not be ignored silently. Options that the
 * kernel's ext4 accepts and that mean nothing here are in the table and named as such in the
 * manual, so that a line of /etc/fstab need not be changed.
 *
 * Invariants: (1) a list is applied from left to right, the last one wins. (2) after an error the
 * struct may be partly changed and is only good for mount_options_free().
 * Locking: none, one thread.
 */
#include "fuse/options.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>

#include "util/log.h"
#include "util/size_text.h"
#include "writeback/writeback.h"

#define MAX_THREADS 256u
#define DEFAULT_MAX_THREADS 64u

enum value_kind { VALUE_NO, VALUE_YES, VALUE_MAYBE };

struct option_desc {
	const char *od_name;
	enum value_kind od_value;
	/* value is NULL where none was given. 0 or -EINVAL. */
	int (*od_set)(struct mount_options *mo, const struct option_desc *od, const char *value);
	size_t od_offset; /* of the field in struct mount_options */
	long od_arg;
};

/* ---- Values ---- */

static int parse_u64(const char *text, uint64_t *out)
{
	char *end;

	if (text == NULL || *text < '0' || *text > '9')
		return -EINVAL;
	errno = 0;
	*out = strtoull(text, &end, 0);
	if (errno != 0 || *end != '\0')
		return -EINVAL;
	return 0;
}

static void *field(struct mount_options *mo, const struct option_desc *od)
{
	return (char *)mo + od->od_offset;
}

static int set_ignored(struct mount_options *mo, const struct option_desc *od, const char *value)
{
	(void)mo;
	(void)value;
	log_debug("option %s has no effect", od->od_name);
	return 0;
}

static int set_bool(struct mount_options *mo, const struct option_desc *od, const char *value)
{
	(void)value;
	*(bool *)field(mo, od) = od->od_arg != 0;
	return 0;
}

/* name=0 or name=1; alone it is 1. */
static int set_bool_value(struct mount_options *mo, const struct option_desc *od, const char *value)
{
	uint64_t v = 1;

	if (value != NULL && (parse_u64(value, &v) != 0 || v > 1))
		return -EINVAL;
	*(bool *)field(mo, od) = v != 0;
	return 0;
}

static int set_unsigned(struct mount_options *mo, const struct option_desc *od, const char *value)
{
	uint64_t v;

	if (parse_u64(value, &v) != 0 || v > (uint64_t)od->od_arg)
		return -EINVAL;
	*(unsigned *)field(mo, od) = (unsigned)v;
	return 0;
}

static int set_i64(struct mount_options *mo, const struct option_desc *od, const char *value)
{
	uint64_t v;

	if (parse_u64(value, &v) != 0 || v > (uint64_t)od->od_arg)
		return -EINVAL;
	*(int64_t *)field(mo, od) = (int64_t)v;
	return 0;
}

static int set_bytes(struct mount_options *mo, const struct option_desc *od, const char *value)
{
	return size_from_text(value, strlen(value), field(mo, od));
}

static int set_string(struct mount_options *mo, const struct option_desc *od, const char *value)
{
	char **s = field(mo, od);

	if (*value == '\0')
		return -EINVAL;
	free(*s);
	*s = strdup(value);
	return *s != NULL ? 0 : -ENOMEM;
}

static int set_ms_flag(struct mount_options *mo, const struct option_desc *od, const char *value)
{
	(void)value;
	mo->mo_ms_flags |= (unsigned long)od->od_arg;
	return 0;
}

static int clear_ms_flag(struct mount_options *mo, const struct option_desc *od, const char *value)
{
	(void)value;
	mo->mo_ms_flags &= ~(unsigned long)od->od_arg;
	return 0;
}

/* ---- Options that are more than one field ---- */

static int set_read_only(struct mount_options *mo, const struct option_desc *od, const char *value)
{
	(void)value;
	mo->mo_ext4.o_read_only = od->od_arg != 0;
	if (od->od_arg != 0)
		mo->mo_ms_flags |= MS_RDONLY;
	else
		mo->mo_ms_flags &= ~(unsigned long)MS_RDONLY;
	return 0;
}

static int set_defaults(struct mount_options *mo, const struct option_desc *od, const char *value)
{
	(void)value;
	mo->mo_ms_flags &= ~(unsigned long)(MS_NOSUID | MS_NODEV | MS_NOEXEC | MS_SYNCHRONOUS);
	mo->mo_ext4.o_sync = false;
	return set_read_only(mo, od, NULL);
}

/* What "user", "users", "owner" and "group" of fstab imply unless taken back later. */
static int set_user(struct mount_options *mo, const struct option_desc *od, const char *value)
{
	(void)value;
	mo->mo_ms_flags |= (unsigned long)od->od_arg;
	return 0;
}

static int set_sync(struct mount_options *mo, const struct option_desc *od, const char *value)
{
	(void)value;
	mo->mo_ext4.o_sync = od->od_arg != 0;
	if (od->od_arg != 0)
		mo->mo_ms_flags |= MS_SYNCHRONOUS;
	else
		mo->mo_ms_flags &= ~(unsigned long)MS_SYNCHRONOUS;
	return 0;
}

static int set_dirsync(struct mount_options *mo, const struct option_desc *od, const char *value)
{
	(void)od;
	(void)value;
	mo->mo_ext4.o_dirsync = true;
	mo->mo_ms_flags |= MS_DIRSYNC;
	return 0;
}

static int set_atime(struct mount_options *mo, const struct option_desc *od, const char *value)
{
	static const unsigned long ms[] = {
		[ATIME_RELATIME] = MS_RELATIME,
		[ATIME_NOATIME] = MS_NOATIME,
		[ATIME_STRICT] = MS_STRICTATIME,
	};

	(void)value;
	mo->mo_ext4.o_atime = (enum ext4_atime_mode)od->od_arg;
	mo->mo_ms_flags &= ~(unsigned long)(MS_RELATIME | MS_NOATIME | MS_STRICTATIME);
	mo->mo_ms_flags |= ms[od->od_arg];
	return 0;
}

static int set_nodiratime(struct mount_options *mo, const struct option_desc *od, const char *value)
{
	(void)value;
	mo->mo_ext4.o_nodiratime = od->od_arg != 0;
	if (od->od_arg != 0)
		mo->mo_ms_flags |= MS_NODIRATIME;
	else
		mo->mo_ms_flags &= ~(unsigned long)MS_NODIRATIME;
	return 0;
}

static int set_errors(struct mount_options *mo, const struct option_desc *od, const char *value)
{
	(void)od;
	if (strcmp(value, "continue") == 0)
		mo->mo_ext4.o_errors = ERRORS_CONTINUE;
	else if (strcmp(value, "remount-ro") == 0)
		mo->mo_ext4.o_errors = ERRORS_RO;
	else if (strcmp(value, "panic") == 0)
		mo->mo_ext4.o_errors = ERRORS_PANIC;
	else
		return -EINVAL;
	return 0;
}

static int set_data(struct mount_options *mo, const struct option_desc *od, const char *value)
{
	(void)od;
	mo->mo_super_journal = false;
	if (strcmp(value, "ordered") == 0)
		mo->mo_ext4.o_data = DATA_ORDERED;
	else if (strcmp(value, "writeback") == 0)
		mo->mo_ext4.o_data = DATA_WRITEBACK;
	else
		return -EINVAL;
	return 0;
}

static int set_data_err(struct mount_options *mo, const struct option_desc *od, const char *value)
{
	(void)od;
	if (strcmp(value, "abort") != 0 && strcmp(value, "ignore") != 0)
		return -EINVAL;
	mo->mo_ext4.o_data_err_abort = strcmp(value, "abort") == 0;
	return 0;
}

static int set_commit(struct mount_options *mo, const struct option_desc *od, const char *value)
{
	uint64_t seconds;

	(void)od;
	if (parse_u64(value, &seconds) != 0 || seconds > UINT_MAX / 1000)
		return -EINVAL;
	/* As in the kernel, 0 is the default. */
	mo->mo_ext4.o_commit_ms = seconds == 0 ? 5000 : (unsigned)seconds * 1000;
	return 0;
}

static int set_kernel_cache(struct mount_options *mo, const struct option_desc *od,
			    const char *value)
{
	static const char *const names[] = {"auto", "through", "writeback", "none"};

	(void)od;
	for (int i = 0; i < 4; i++) {
		if (strcmp(value, names[i]) == 0) {
			mo->mo_kernel_cache = (enum kernel_cache)i;
			return 0;
		}
	}
	return -EINVAL;
}

static int set_allow_other(struct mount_options *mo, const struct option_desc *od,
			   const char *value)
{
	(void)value;
	mo->mo_allow_other = od->od_arg != 0;
	mo->mo_allow_other_set = true;
	return 0;
}

static int set_backend(struct mount_options *mo, const struct option_desc *od, const char *value)
{
	if (strcmp(value, "uring") != 0 && strcmp(value, "psync") != 0)
		return -EINVAL;
	return set_string(mo, od, value);
}

static int set_threads(struct mount_options *mo, const struct option_desc *od, const char *value)
{
	uint64_t v;

	if (parse_u64(value, &v) != 0 || v == 0 || v > MAX_THREADS)
		return -EINVAL;
	*(unsigned *)field(mo, od) = (unsigned)v;
	return 0;
}

static int set_cpus(struct mount_options *mo, const struct option_desc *od, const char *value)
{
	return cpus_parse(value, field(mo, od));
}

/* ---- The table ---- */

#define AT(f) offsetof(struct mount_options, f)
#define ON(f) VALUE_NO, set_bool, AT(f), 1
#define OFF(f) VALUE_NO, set_bool, AT(f), 0
#define SWITCH(f) VALUE_MAYBE, set_bool_value, AT(f), 0
#define UINT(f, max) VALUE_YES, set_unsigned, AT(f), max
#define INT64(f, max) VALUE_YES, set_i64, AT(f), max
#define BYTES(f) VALUE_YES, set_bytes, AT(f), 0
#define STRING(f) VALUE_YES, set_string, AT(f), 0
#define IGNORED VALUE_NO, set_ignored, 0, 0
#define IGNORED_VALUE VALUE_YES, set_ignored, 0, 0
#define MS_ON(flag) VALUE_NO, set_ms_flag, 0, flag
#define MS_OFF(flag) VALUE_NO, clear_ms_flag, 0, flag
#define CALL(fn, arg) VALUE_NO, fn, 0, arg
#define CALL_VALUE(fn) VALUE_YES, fn, 0, 0

/* clang-format off */
static const struct option_desc option_table[] = {
	/* generic */
	{"ro", CALL(set_read_only, 1)},
	{"rw", CALL(set_read_only, 0)},
	{"defaults", CALL(set_defaults, 0)},
	{"suid", MS_OFF(MS_NOSUID)},
	{"nosuid", MS_ON(MS_NOSUID)},
	{"dev", MS_OFF(MS_NODEV)},
	{"nodev", MS_ON(MS_NODEV)},
	{"exec", MS_OFF(MS_NOEXEC)},
	{"noexec", MS_ON(MS_NOEXEC)},
	{"sync", CALL(set_sync, 1)},
	{"async", CALL(set_sync, 0)},
	{"dirsync", CALL(set_dirsync, 1)},
	{"atime", CALL(set_atime, ATIME_RELATIME)},
	{"noatime", CALL(set_atime, ATIME_NOATIME)},
	{"relatime", CALL(set_atime, ATIME_RELATIME)},
	{"norelatime", CALL(set_atime, ATIME_RELATIME)},
	{"strictatime", CALL(set_atime, ATIME_STRICT)},
	{"nostrictatime", CALL(set_atime, ATIME_RELATIME)},
	{"diratime", CALL(set_nodiratime, 0)},
	{"nodiratime", CALL(set_nodiratime, 1)},
	{"lazytime", ON(mo_ext4.o_lazytime)},
	{"nolazytime", OFF(mo_ext4.o_lazytime)},
	{"silent", IGNORED},
	{"loud", IGNORED},
	{"auto", IGNORED},
	{"noauto", IGNORED},
	{"nofail", IGNORED},
	{"_netdev", IGNORED},
	{"loop", IGNORED},
	{"user", CALL(set_user, MS_NOSUID | MS_NODEV | MS_NOEXEC)},
	{"nouser", IGNORED},
	{"users", CALL(set_user, MS_NOSUID | MS_NODEV | MS_NOEXEC)},
	{"owner", CALL(set_user, MS_NOSUID | MS_NODEV)},
	{"group", CALL(set_user, MS_NOSUID | MS_NODEV)},
	{"comment", IGNORED_VALUE},
	/* FUSE */
	{"allow_other", CALL(set_allow_other, 1)},
	{"noallow_other", CALL(set_allow_other, 0)},
	{"default_permissions", IGNORED},
	/* ext4 */
	{"noload", ON(mo_ext4.o_noload)},
	{"norecovery", ON(mo_ext4.o_noload)},
	{"errors", CALL_VALUE(set_errors)},
	{"data", CALL_VALUE(set_data)},
	{"data_err", CALL_VALUE(set_data_err)},
	{"delalloc", ON(mo_ext4.o_delalloc)},
	{"nodelalloc", OFF(mo_ext4.o_delalloc)},
	{"auto_da_alloc", SWITCH(mo_ext4.o_auto_da_alloc)},
	{"noauto_da_alloc", OFF(mo_ext4.o_auto_da_alloc)},
	{"barrier", SWITCH(mo_ext4.o_barrier)},
	{"nobarrier", OFF(mo_ext4.o_barrier)},
	{"journal_async_commit", ON(mo_ext4.o_async_commit)},
	{"journal_path", STRING(mo_journal_path)},
	{"discard", ON(mo_ext4.o_discard)},
	{"nodiscard", OFF(mo_ext4.o_discard)},
	{"acl", ON(mo_ext4.o_acl)},
	{"noacl", OFF(mo_ext4.o_acl)},
	{"user_xattr", ON(mo_ext4.o_user_xattr)},
	{"nouser_xattr", OFF(mo_ext4.o_user_xattr)},
	{"grpid", ON(mo_ext4.o_grpid)},
	{"bsdgroups", ON(mo_ext4.o_grpid)},
	{"nogrpid", OFF(mo_ext4.o_grpid)},
	{"sysvgroups", OFF(mo_ext4.o_grpid)},
	{"minixdf", ON(mo_ext4.o_minixdf)},
	{"bsddf", OFF(mo_ext4.o_minixdf)},
	{"commit", CALL_VALUE(set_commit)},
	{"min_batch_time", UINT(mo_ext4.o_min_batch_us, INT_MAX)},
	{"max_batch_time", UINT(mo_ext4.o_max_batch_us, INT_MAX)},
	{"stripe", INT64(mo_ext4.o_stripe, INT_MAX)},
	{"resuid", INT64(mo_ext4.o_resuid, INT_MAX)},
	{"resgid", INT64(mo_ext4.o_resgid, INT_MAX)},
	{"sb", VALUE_YES, set_bytes, AT(mo_ext4.o_sb_block), 0},
	/* ext4, without meaning here */
	{"debug", IGNORED},
	{"check", IGNORED_VALUE},
	{"nocheck", IGNORED},
	{"journal_checksum", IGNORED},
	{"nojournal_checksum", IGNORED},
	{"journal_ioprio", IGNORED_VALUE},
	{"block_validity", IGNORED},
	{"noblock_validity", IGNORED},
	{"dioread_lock", IGNORED},
	{"dioread_nolock", IGNORED},
	{"i_version", IGNORED},
	{"init_itable", VALUE_MAYBE, set_ignored, 0, 0},
	{"noinit_itable", IGNORED},
	{"inode_readahead_blks", IGNORED_VALUE},
	{"max_dir_size_kb", IGNORED_VALUE},
	{"mblk_io_submit", IGNORED},
	{"nomblk_io_submit", IGNORED},
	{"mb_optimize_scan", IGNORED_VALUE},
	{"prefetch_block_bitmaps", IGNORED},
	{"no_prefetch_block_bitmaps", IGNORED},
	{"nombcache", IGNORED},
	{"oldalloc", IGNORED},
	{"orlov", IGNORED},
	{"noquota", IGNORED},
	{"bh", IGNORED},
	{"nobh", IGNORED},
	/* own */
	{"blk", STRING(mo_blk)},
	{"backend", VALUE_YES, set_backend, AT(mo_backend), 0},
	{"cache", BYTES(mo_ext4.o_cache_bytes)},
	{"bcache", BYTES(mo_ext4.o_bcache_bytes)},
	{"kernel_cache", CALL_VALUE(set_kernel_cache)},
	{"threads", VALUE_YES, set_threads, AT(mo_threads), 0},
	{"max_threads", VALUE_YES, set_threads, AT(mo_max_threads), 0},
	{"pin", ON(mo_pin)},
	{"nopin", OFF(mo_pin)},
	{"server_cpus", VALUE_YES, set_cpus, AT(mo_server_cpus), 0},
	{"nocontrol", OFF(mo_control)},
	{"nosandbox", OFF(mo_sandbox)},
	{"stats", STRING(mo_stats_path)},
	{"trace_events", STRING(mo_trace_events)},
};
/* clang-format on */

#define NR_OPTIONS (sizeof(option_table) / sizeof(option_table[0]))

static const struct option_desc *find_option(const char *name)
{
	for (size_t i = 0; i < NR_OPTIONS; i++)
		if (strcmp(option_table[i].od_name, name) == 0)
			return &option_table[i];
	return NULL;
}

const char *mount_option_name(unsigned i)
{
	return i < NR_OPTIONS ? option_table[i].od_name : NULL;
}

/* ---- Parsing ---- */

__attribute__((format(printf, 3, 4))) static int refuse(char *why, size_t size, const char *fmt,
							...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(why, size, fmt, ap);
	va_end(ap);
	return -EINVAL;
}

static bool is_tunable(const char *name)
{
	for (const char *const *n = wb_tunable_names(); *n != NULL; n++)
		if (strcmp(*n, name) == 0)
			return true;
	return false;
}

static int add_tunable(struct mount_options *mo, const char *name, const char *value)
{
	struct mount_tunable *mt = calloc(1, sizeof(*mt));

	if (mt == NULL)
		return -ENOMEM;
	mt->mt_name = strdup(name);
	mt->mt_value = strdup(value);
	if (mt->mt_name == NULL || mt->mt_value == NULL) {
		free(mt->mt_name);
		free(mt->mt_value);
		free(mt);
		return -ENOMEM;
	}
	STAILQ_INSERT_TAIL(&mo->mo_tunables, mt, mt_link);
	return 0;
}

static int apply_option(struct mount_options *mo, const char *name, const char *value, char *why,
			size_t size)
{
	const struct option_desc *od = find_option(name);

	if (strncmp(name, "x-", 2) == 0 || strncmp(name, "X-", 2) == 0)
		return 0; /* for other programs, as mount(8) has it */
	if (od == NULL) {
		if (!is_tunable(name) && mo->mo_sloppy)
			return 0;
		if (!is_tunable(name))
			return refuse(why, size, "unknown option '%s'", name);
		if (value == NULL)
			return refuse(why, size, "option '%s' needs a value", name);
		return add_tunable(mo, name, value);
	}
	if (od->od_value == VALUE_YES && value == NULL)
		return refuse(why, size, "option '%s' needs a value", name);
	if (od->od_value == VALUE_NO && value != NULL)
		return refuse(why, size, "option '%s' takes no value", name);
	if (od->od_set(mo, od, value) == 0)
		return 0;
	return refuse(why, size, "bad value '%s' for option '%s'", value != NULL ? value : "",
		      name);
}

int mount_options_parse(struct mount_options *mo, const char *list, char *why, size_t why_size)
{
	char *copy = strdup(list);
	char *rest = copy;
	char *item;
	int err = 0;

	if (copy == NULL)
		return -ENOMEM;
	while (err == 0 && (item = strsep(&rest, ",")) != NULL) {
		char *value = strchr(item, '=');

		if (*item == '\0')
			continue;
		if (value != NULL)
			*value++ = '\0';
		err = apply_option(mo, item, value, why, why_size);
	}
	free(copy);
	return err;
}

static int check_server_cpus(const cpu_set_t *set, char *why, size_t why_size)
{
	int cpu = CPU_COUNT(set) > 0 ? cpus_first_forbidden(set) : -1;

	if (cpu == -EAGAIN)
		return refuse(why, why_size, "server_cpus: no thread to try it with");
	if (cpu >= 0)
		return refuse(why, why_size,
			      "server_cpus: CPU %d is not there, or this process may not use it",
			      cpu);
	return 0;
}

int mount_options_check(const struct mount_options *mo, char *why, size_t why_size)
{
	if (mo->mo_super_journal)
		return refuse(why, why_size,
			      "the superblock asks for data=journal, which is not supported: give "
			      "data=ordered, or take it off with tune2fs");
	if (mo->mo_ext4.o_async_commit && mo->mo_ext4.o_data == DATA_ORDERED)
		return refuse(why, why_size, "journal_async_commit needs data=writeback");
	if (mo->mo_ext4.o_noload && !mo->mo_ext4.o_read_only)
		return refuse(why, why_size, "noload needs ro");
	if (mo->mo_threads > mo->mo_max_threads)
		return refuse(why, why_size, "threads is larger than max_threads");
	return check_server_cpus(&mo->mo_server_cpus, why, why_size);
}

void mount_options_init(struct mount_options *mo)
{
	memset(mo, 0, sizeof(*mo));
	ext4_options_init(&mo->mo_ext4);
	mo->mo_ms_flags = MS_RELATIME;
	mo->mo_control = true;
	mo->mo_sandbox = true;
	mo->mo_max_threads = DEFAULT_MAX_THREADS;
	STAILQ_INIT(&mo->mo_tunables);
}

void mount_options_free(struct mount_options *mo)
{
	struct mount_tunable *mt;

	while ((mt = STAILQ_FIRST(&mo->mo_tunables)) != NULL) {
		STAILQ_REMOVE_HEAD(&mo->mo_tunables, mt_link);
		free(mt->mt_name);
		free(mt->mt_value);
		free(mt);
	}
	free(mo->mo_blk);
	free(mo->mo_backend);
	free(mo->mo_stats_path);
	free(mo->mo_trace_events);
	free(mo->mo_journal_path);
}

void mount_options_move(struct mount_options *to, struct mount_options *from)
{
	*to = *from;
	/* The list's end may point into the struct. */
	STAILQ_INIT(&to->mo_tunables);
	STAILQ_CONCAT(&to->mo_tunables, &from->mo_tunables);
}

/* ---- Printing ---- */

static const char *either(bool which, const char *yes, const char *no)
{
	return which ? yes : no;
}

static void print_ext4_switches(const struct ext4_options *o, FILE *out)
{
	fprintf(out, "%s\n", either(o->o_minixdf, "minixdf", "bsddf"));
	fprintf(out, "%s\n", either(o->o_grpid, "grpid", "nogrpid"));
	fprintf(out, "%s\n", either(o->o_user_xattr, "user_xattr", "nouser_xattr"));
	fprintf(out, "%s\n", either(o->o_acl, "acl", "noacl"));
	fprintf(out, "%s\n", either(o->o_barrier, "barrier", "nobarrier"));
	fprintf(out, "%s\n", either(o->o_delalloc, "delalloc", "nodelalloc"));
	fprintf(out, "%s\n", either(o->o_auto_da_alloc, "auto_da_alloc", "noauto_da_alloc"));
	fprintf(out, "%s\n", either(o->o_discard, "discard", "nodiscard"));
	fprintf(out, "data=%s\n", either(o->o_data == DATA_ORDERED, "ordered", "writeback"));
	fprintf(out, "data_err=%s\n", either(o->o_data_err_abort, "abort", "ignore"));
	if (o->o_noload)
		fputs("norecovery\n", out);
	if (o->o_async_commit)
		fputs("journal_async_commit\n", out);
	if (o->o_sync)
		fputs("sync\n", out);
	if (o->o_dirsync)
		fputs("dirsync\n", out);
	if (o->o_lazytime)
		fputs("lazytime\n", out);
	if (o->o_nodiratime)
		fputs("nodiratime\n", out);
}

static void print_ext4(const struct ext4_options *o, struct super_block *sb, FILE *out)
{
	static const char *const errors[] = {"superblock", "continue", "remount-ro", "panic"};
	static const char *const atime[] = {"relatime", "noatime", "strictatime"};

	print_ext4_switches(o, out);
	fprintf(out, "%s\n", atime[o->o_atime]);
	fprintf(out, "errors=%s\n", errors[sb != NULL ? sb->s_errors : o->o_errors]);
	fprintf(out, "commit=%u\n", o->o_commit_ms / 1000);
	fprintf(out, "min_batch_time=%u\n", o->o_min_batch_us);
	fprintf(out, "max_batch_time=%u\n", o->o_max_batch_us);
	if (sb != NULL) {
		fprintf(out, "stripe=%u\n", sb->s_stripe);
		fprintf(out, "resuid=%u\n", sb->s_resuid);
		fprintf(out, "resgid=%u\n", sb->s_resgid);
	}
}

static void print_own(const struct mount_options *mo, FILE *out)
{
	static const char *const cache[] = {"auto", "through", "writeback", "none"};

	fprintf(out, "kernel_cache=%s\n", cache[mo->mo_kernel_cache]);
	fprintf(out, "cache=%" PRIu64 "\n", mo->mo_ext4.o_cache_bytes);
	fprintf(out, "bcache=%" PRIu64 "\n", mo->mo_ext4.o_bcache_bytes);
	fprintf(out, "threads=%u\n", mo->mo_threads);
	fprintf(out, "max_threads=%u\n", mo->mo_max_threads);
	if (mo->mo_pin)
		fputs("pin\n", out);
	if (CPU_COUNT(&mo->mo_server_cpus) > 0) {
		fputs("server_cpus=", out);
		cpus_print(&mo->mo_server_cpus, out);
		fputc('\n', out);
	}
	if (!mo->mo_sandbox)
		fputs("nosandbox\n", out);
	if (mo->mo_blk != NULL)
		fprintf(out, "blk=%s\n", mo->mo_blk);
	if (mo->mo_stats_path != NULL)
		fprintf(out, "stats=%s\n", mo->mo_stats_path);
	if (mo->mo_trace_events != NULL)
		fprintf(out, "trace_events=%s\n", mo->mo_trace_events);
}

void mount_options_print(const struct mount_options *mo, struct super_block *sb, FILE *out)
{
	bool ro = sb != NULL ? sb_rdonly(sb) : mo->mo_ext4.o_read_only;

	fprintf(out, "%s\n", either(ro, "ro", "rw"));
	print_ext4(sb != NULL ? &sb->s_opts : &mo->mo_ext4, sb, out);
	print_own(mo, out);
}
