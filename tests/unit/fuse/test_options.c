/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * test_options.c - mount options: values, errors, and that the manual names exactly those that exist.
 * Locking: none.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>

#include "fuse/options.h"
#include "fuse/super_options.h"
#include "tests/lib/suite.h"
#include "writeback/writeback.h"

static struct mount_options mo;
static char why[256];

static int parse(const char *list)
{
	mount_options_free(&mo);
	mount_options_init(&mo);
	why[0] = '\0';
	return mount_options_parse(&mo, list, why, sizeof(why));
}

START_TEST(values_arrive)
{
	ck_assert_int_eq(parse("ro,noload,commit=7,stripe=16,cache=256M,errors=panic,nodelalloc,"
			       "noatime,nosuid,max_batch_time=9,kernel_cache=none,blk=fault:eio=3"),
			 0);
	ck_assert(mo.mo_ext4.o_read_only && mo.mo_ext4.o_noload && !mo.mo_ext4.o_delalloc);
	ck_assert_uint_eq(mo.mo_ext4.o_commit_ms, 7000);
	ck_assert_int_eq(mo.mo_ext4.o_stripe, 16);
	ck_assert_uint_eq(mo.mo_ext4.o_cache_bytes, UINT64_C(256) << 20);
	ck_assert_int_eq(mo.mo_ext4.o_errors, ERRORS_PANIC);
	ck_assert_int_eq(mo.mo_ext4.o_atime, ATIME_NOATIME);
	ck_assert_uint_eq(mo.mo_ext4.o_max_batch_us, 9);
	ck_assert_int_eq(mo.mo_kernel_cache, KERNEL_CACHE_NONE);
	ck_assert_str_eq(mo.mo_blk, "fault:eio=3");
	ck_assert_uint_eq(mo.mo_ms_flags, MS_RDONLY | MS_NOATIME | MS_NOSUID);
}
END_TEST

START_TEST(the_last_one_wins)
{
	ck_assert_int_eq(parse("ro,rw,noatime,relatime,nosuid,suid,nobarrier,barrier=1"), 0);
	ck_assert(!mo.mo_ext4.o_read_only && mo.mo_ext4.o_barrier);
	ck_assert_int_eq(mo.mo_ext4.o_atime, ATIME_RELATIME);
	ck_assert_uint_eq(mo.mo_ms_flags, MS_RELATIME);
	ck_assert_int_eq(parse("barrier=0,,"), 0);
	ck_assert(!mo.mo_ext4.o_barrier);
}
END_TEST

START_TEST(defaults_are_those_of_ext4)
{
	ck_assert_int_eq(parse(""), 0);
	ck_assert(mo.mo_ext4.o_delalloc && mo.mo_ext4.o_barrier && mo.mo_ext4.o_acl);
	ck_assert(mo.mo_ext4.o_auto_da_alloc && mo.mo_ext4.o_user_xattr && mo.mo_control);
	ck_assert(!mo.mo_ext4.o_read_only && !mo.mo_ext4.o_discard);
	ck_assert_uint_eq(mo.mo_ext4.o_commit_ms, 5000);
	ck_assert_int_eq(mo.mo_ext4.o_stripe, -1);
}
END_TEST

START_TEST(what_is_wrong_is_named)
{
	static const struct {
		const char *list;
		const char *why;
	} bad[] = {
		{"nodelaloc", "unknown option 'nodelaloc'"},
		{"rw,frobnicate=1", "unknown option 'frobnicate'"},
		{"commit", "option 'commit' needs a value"},
		{"dirty_bytes", "option 'dirty_bytes' needs a value"},
		{"ro=1", "option 'ro' takes no value"},
		{"commit=x", "bad value 'x' for option 'commit'"},
		{"commit=-1", "bad value '-1' for option 'commit'"},
		{"cache=1q", "bad value '1q' for option 'cache'"},
		{"cache=99999999999999999999",
		 "bad value '99999999999999999999' for option 'cache'"},
		{"cache=99999999999g", "bad value '99999999999g' for option 'cache'"},
		{"errors=maybe", "bad value 'maybe' for option 'errors'"},
		{"data=journal", "bad value 'journal' for option 'data'"},
		{"data_err=maybe", "bad value 'maybe' for option 'data_err'"},
		{"barrier=2", "bad value '2' for option 'barrier'"},
		{"threads=0", "bad value '0' for option 'threads'"},
		{"kernel_cache=", "bad value '' for option 'kernel_cache'"},
		{"server_cpus", "option 'server_cpus' needs a value"},
		{"server_cpus=3-1", "bad value '3-1' for option 'server_cpus'"},
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		ck_assert_int_eq(parse(bad[i].list), -EINVAL);
		ck_assert_str_eq(why, bad[i].why);
	}
}
END_TEST

START_TEST(others_options_are_passed_over)
{
	ck_assert_int_eq(parse("x-systemd.automount,X-mount.mkdir,noauto,_netdev"), 0);
	mount_options_init(&mo);
	mo.mo_sloppy = true;
	ck_assert_int_eq(mount_options_parse(&mo, "frobnicate,ro", why, sizeof(why)), 0);
	ck_assert(mo.mo_ext4.o_read_only);
}
END_TEST

START_TEST(tunables_are_kept_for_the_mount)
{
	struct mount_tunable *mt;

	ck_assert_int_eq(parse("throttle=2009,dirty_bytes=4096"), 0);
	mt = STAILQ_FIRST(&mo.mo_tunables);
	ck_assert_str_eq(mt->mt_name, "throttle");
	ck_assert_str_eq(mt->mt_value, "2009");
	mt = STAILQ_NEXT(mt, mt_link);
	ck_assert_str_eq(mt->mt_name, "dirty_bytes");
	ck_assert(STAILQ_NEXT(mt, mt_link) == NULL);
}
END_TEST

START_TEST(combinations_are_checked)
{
	ck_assert_int_eq(parse("noload"), 0);
	ck_assert_int_eq(mount_options_check(&mo, why, sizeof(why)), -EINVAL);
	ck_assert_str_eq(why, "noload needs ro");
	ck_assert_int_eq(parse("journal_async_commit"), 0);
	ck_assert_int_eq(mount_options_check(&mo, why, sizeof(why)), -EINVAL);
	ck_assert_int_eq(parse("journal_async_commit,data=writeback"), 0);
	ck_assert_int_eq(mount_options_check(&mo, why, sizeof(why)), 0);
}
END_TEST

START_TEST(cpus_that_cannot_be_used_are_refused)
{
	char list[64];

	snprintf(list, sizeof(list), "server_cpus=%d", CPU_SETSIZE - 1);
	ck_assert_int_eq(parse(list), 0);
	ck_assert_int_eq(mount_options_check(&mo, why, sizeof(why)), -EINVAL);
	snprintf(list, sizeof(list), "server_cpus: CPU %d is not there", CPU_SETSIZE - 1);
	ck_assert_msg(strncmp(why, list, strlen(list)) == 0, "%s", why);
	snprintf(list, sizeof(list), "server_cpus=%d,pin", sched_getcpu());
	ck_assert_int_eq(parse(list), 0);
	ck_assert_int_eq(mount_options_check(&mo, why, sizeof(why)), 0);
}
END_TEST

START_TEST(options_in_force_are_printed)
{
	char *text = NULL;
	size_t len;
	FILE *out = open_memstream(&text, &len);

	ck_assert_int_eq(parse("ro,commit=3,data_err=abort,nodelalloc,server_cpus=5:0:1"), 0);
	mount_options_print(&mo, NULL, out);
	fclose(out);
	ck_assert_ptr_nonnull(strstr(text, "ro\n"));
	ck_assert_ptr_nonnull(strstr(text, "\ncommit=3\n"));
	ck_assert_ptr_nonnull(strstr(text, "\ndata_err=abort\n"));
	ck_assert_ptr_nonnull(strstr(text, "\nnodelalloc\n"));
	ck_assert_ptr_nonnull(strstr(text, "\nerrors=superblock\n"));
	ck_assert_ptr_nonnull(strstr(text, "\nserver_cpus=0-1:5\n"));
	free(text);
}
END_TEST

/* ---- The superblock's own ---- */

static void apply_super(uint32_t bits, const char *text, const char *list)
{
	struct ext2_super_block es;

	memset(&es, 0, sizeof(es));
	es.s_magic = cpu_to_le16(EXT2_SUPER_MAGIC);
	es.s_default_mount_opts = cpu_to_le32(bits);
	memcpy(es.s_mount_opts, text, strlen(text));
	mount_options_free(&mo);
	mount_options_init(&mo);
	super_options_apply(&mo, &es);
	ck_assert_int_eq(mount_options_parse(&mo, list, why, sizeof(why)), 0);
}

START_TEST(the_bits_of_the_superblock_are_defaults)
{
	apply_super(EXT2_DEFM_BSDGROUPS | EXT4_DEFM_NOBARRIER | EXT4_DEFM_DISCARD |
			    EXT4_DEFM_NODELALLOC | EXT3_DEFM_JMODE_WBACK,
		    "", "");
	ck_assert(mo.mo_ext4.o_grpid && !mo.mo_ext4.o_barrier && mo.mo_ext4.o_discard);
	ck_assert(!mo.mo_ext4.o_delalloc && mo.mo_ext4.o_data == DATA_WRITEBACK);
	ck_assert(mo.mo_ext4.o_acl && mo.mo_ext4.o_user_xattr);
	apply_super(EXT4_DEFM_NOBARRIER | EXT4_DEFM_NODELALLOC | EXT3_DEFM_JMODE_WBACK, "",
		    "barrier,delalloc,data=ordered");
	ck_assert(mo.mo_ext4.o_barrier && mo.mo_ext4.o_delalloc);
	ck_assert_int_eq(mo.mo_ext4.o_data, DATA_ORDERED);
	ck_assert(!mo.mo_ext4.o_data_err_abort);
	apply_super(0, "data_err=abort", "");
	ck_assert(mo.mo_ext4.o_data_err_abort);
	apply_super(0, "data_err=abort", "data_err=ignore");
	ck_assert(!mo.mo_ext4.o_data_err_abort);
	apply_super(EXT3_DEFM_JMODE_ORDERED | EXT2_DEFM_ACL, "", "");
	ck_assert_int_eq(mo.mo_ext4.o_data, DATA_ORDERED);
}
END_TEST

START_TEST(the_text_of_the_superblock_comes_between_bits_and_user)
{
	apply_super(EXT4_DEFM_NODELALLOC, "delalloc,commit=9,errors=panic", "commit=3");
	ck_assert(mo.mo_ext4.o_delalloc);
	ck_assert_uint_eq(mo.mo_ext4.o_commit_ms, 3000);
	ck_assert_int_eq(mo.mo_ext4.o_errors, ERRORS_PANIC);
	/* 64 bytes without an end. */
	apply_super(0, "commit=7,commit=7,commit=7,commit=7,commit=7,commit=7,commit=777", "");
	ck_assert_uint_eq(mo.mo_ext4.o_commit_ms, 777000);
}
END_TEST

START_TEST(the_superblock_opens_no_files)
{
	apply_super(0, "stats=/x,blk=log:/y,nosandbox,commit=2,ro,bogus,commit=x", "");
	ck_assert_ptr_null(mo.mo_stats_path);
	ck_assert_ptr_null(mo.mo_blk);
	ck_assert(mo.mo_sandbox && !mo.mo_ext4.o_read_only);
	ck_assert_uint_eq(mo.mo_ext4.o_commit_ms, 2000);
	apply_super(0, "journal_path=/z,sb=8193,noload", "");
	ck_assert_ptr_null(mo.mo_journal_path);
	ck_assert(mo.mo_ext4.o_sb_block == 1 && !mo.mo_ext4.o_noload);
}
END_TEST

START_TEST(journaled_data_in_the_superblock_is_refused_unless_the_user_says_otherwise)
{
	apply_super(EXT3_DEFM_JMODE_DATA, "", "");
	ck_assert_int_eq(mount_options_check(&mo, why, sizeof(why)), -EINVAL);
	ck_assert_ptr_nonnull(strstr(why, "data=journal"));
	apply_super(EXT3_DEFM_JMODE_DATA, "", "data=ordered");
	ck_assert_int_eq(mount_options_check(&mo, why, sizeof(why)), 0);
	apply_super(EXT3_DEFM_JMODE_WBACK, "data=journal", "");
	ck_assert_int_eq(mount_options_check(&mo, why, sizeof(why)), -EINVAL);
	apply_super(EXT3_DEFM_JMODE_DATA, "data=writeback", "");
	ck_assert_int_eq(mount_options_check(&mo, why, sizeof(why)), 0);
}
END_TEST

START_TEST(moved_options_keep_their_tunables)
{
	struct mount_options to;

	ck_assert_int_eq(parse(""), 0);
	mount_options_move(&to, &mo);
	ck_assert_int_eq(mount_options_parse(&to, "dirty_bytes=600M,stats=/x", why, sizeof(why)),
			 0);
	mount_options_move(&mo, &to);
	ck_assert_str_eq(STAILQ_FIRST(&mo.mo_tunables)->mt_value, "600M");
	ck_assert_int_eq(mount_options_parse(&mo, "dirty_ratio=5", why, sizeof(why)), 0);
	ck_assert_str_eq(mo.mo_stats_path, "/x");
}
END_TEST

/* ---- The manual ---- */

static bool is_option(const char *name)
{
	for (unsigned i = 0; mount_option_name(i) != NULL; i++)
		if (strcmp(mount_option_name(i), name) == 0)
			return true;
	for (const char *const *n = wb_tunable_names(); *n != NULL; n++)
		if (strcmp(*n, name) == 0)
			return true;
	return false;
}

static char *read_manual(void)
{
	FILE *file = fopen(OPTIONS_MANUAL, "re");
	char *text = calloc(1, 1 << 17);

	ck_assert_ptr_nonnull(file);
	ck_assert_uint_gt(fread(text, 1, (1 << 17) - 1, file), 0);
	fclose(file);
	return text;
}

static void check_described(const char *text, const char *name)
{
	char quoted[128];

	snprintf(quoted, sizeof(quoted), "`%s`", name);
	ck_assert_msg(strstr(text, quoted) != NULL, "not in the manual: %s", name);
}

START_TEST(every_option_is_in_the_manual)
{
	char *text = read_manual();

	for (unsigned i = 0; mount_option_name(i) != NULL; i++)
		check_described(text, mount_option_name(i));
	for (const char *const *n = wb_tunable_names(); *n != NULL; n++)
		check_described(text, *n);
	free(text);
}
END_TEST

/* Lines of tables begin with the option's name. */
START_TEST(the_manual_names_nothing_else)
{
	char *text = read_manual();
	unsigned rows = 0;

	for (char *line = strstr(text, "\n| `"); line != NULL; line = strstr(line, "\n| `")) {
		char *name = line + 4;
		char *end = strchr(name, '`');

		*end = '\0';
		ck_assert_msg(is_option(name), "no such option: %s", name);
		rows++;
		line = end + 1;
	}
	ck_assert_uint_gt(rows, 60);
	free(text);
}
END_TEST

int main(void)
{
	return RUN_TESTS("fuse/options", values_arrive, the_last_one_wins,
			 defaults_are_those_of_ext4, what_is_wrong_is_named,
			 others_options_are_passed_over, tunables_are_kept_for_the_mount,
			 combinations_are_checked, cpus_that_cannot_be_used_are_refused,
			 options_in_force_are_printed, the_bits_of_the_superblock_are_defaults,
			 the_text_of_the_superblock_comes_between_bits_and_user,
			 the_superblock_opens_no_files,
			 journaled_data_in_the_superblock_is_refused_unless_the_user_says_otherwise,
			 moved_options_keep_their_tunables, every_option_is_in_the_manual,
			 the_manual_names_nothing_else);
}
