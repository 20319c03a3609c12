/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * main.c - the command line.
 *
 * ext4d [-f] [-d] [-r] [-o OPTIONS] DEVICE|IMAGE MOUNTPOINT mounts; -u and --sync act on a mount. Called as
 * mount.ext4d the flags are those that mount(8) gives to its helpers. Exit codes are mount(8)'s, and each failure
 * has said why in one line.
 *
 * Invariants: none.
 * Locking: none, one thread.
 */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fuse/daemon.h"
#include "fuse/daemonize.h"
#include "fuse/super_options.h"
#include "fuse/unmount.h"
#include "util/log.h"

#ifndef EXT4D_VERSION
#error "EXT4D_VERSION is set by the build"
#endif

struct command {
	bool c_foreground;
	bool c_debug;
	bool c_fake; /* everything but the mount */
	bool c_verbose;
	bool c_read_only;
	const char *c_unmount;
	const char *c_sync;
	const char *c_device;
	char *c_list; /* all that came with -o */
	const char *c_mountpoint;
	struct mount_options c_opts;
};

static const char usage_text[] =
	"usage: ext4d [-f] [-d] [-r] [-o OPTION[,OPTION...]] DEVICE|IMAGE MOUNTPOINT\n"
	"       ext4d -u MOUNTPOINT\n"
	"       ext4d --sync MOUNTPOINT\n"
	"\n"
	"  -f            stay in the foreground\n"
	"  -d            show debug messages and every request (implies -f)\n"
	"  -r            read-only, as -o ro\n"
	"  -o OPTIONS    mount options, see docs/OPTIONS.md\n"
	"  -u            unmount and wait until everything is on the device\n"
	"  --sync        write everything to the device\n"
	"  -h            this text\n"
	"  -V            version\n"
	"\n"
	"DEVICE may be UUID=... or LABEL=... Exit codes are those of mount(8).\n";

static int usage_error(const char *why)
{
	fprintf(stderr, "ext4d: %s\n%s", why, usage_text);
	return EX_USAGE;
}

static bool called_as_mount_helper(const char *argv0)
{
	const char *base = strrchr(argv0, '/');

	base = base != NULL ? base + 1 : argv0;
	return strncmp(base, "mount.", 6) == 0;
}

/* mount(8) says nothing when all is well, and scripts compare what it prints. */
static void quiet_sink(enum log_level level, const char *line, void *arg)
{
	if (level <= LOG_LEVEL_WARN)
		fprintf(stderr, "ext4d: %s\n", line);
	log_sink_syslog(level, line, arg);
}

/* -o: 0 or an exit code. It is parsed at once, for its errors, and again after the superblock's own options. */
static int add_options(struct command *c, const char *list)
{
	char *all = NULL;
	char why[256];

	if (mount_options_parse(&c->c_opts, list, why, sizeof(why)) != 0) {
		fprintf(stderr, "ext4d: %s\n", why);
		return EX_USAGE;
	}
	if (asprintf(&all, "%s,%s", c->c_list != NULL ? c->c_list : "", list) < 0)
		return EX_SYSERR;
	free(c->c_list);
	c->c_list = all;
	return EX_OK;
}

/* The options of the superblock, and over them the user's. */
static void put_super_options_below(struct command *c, const char *device)
{
	struct mount_options below;
	char why[256];

	mount_options_init(&below);
	below.mo_sloppy = c->c_opts.mo_sloppy;
	super_options_read(&below, device);
	/* It has been parsed before: only memory can be short. */
	if (c->c_list != NULL && mount_options_parse(&below, c->c_list, why, sizeof(why)) != 0) {
		mount_options_free(&below);
		return;
	}
	mount_options_free(&c->c_opts);
	mount_options_move(&c->c_opts, &below);
}

/* What mount(8) passes: -s sloppy, -f fake, -n no mtab, -v verbose, -w, -r, -N namespace, -t type. */
static int parse_helper_args(struct command *c, int argc, char **argv)
{
	int opt;

	while ((opt = getopt(argc, argv, "sfnvrwhVo:t:N:")) != -1) {
		int code = EX_OK;

		switch (opt) {
		case 's':
			c->c_opts.mo_sloppy = true;
			break;
		case 'f':
			c->c_fake = true;
			break;
		case 'v':
			c->c_verbose = true;
			break;
		case 'r':
			c->c_read_only = true;
			break;
		case 'o':
			code = add_options(c, optarg);
			break;
		case 'n':
		case 'w':
		case 't':
		case 'N':
			break;
		case 'h':
			fputs(usage_text, stdout);
			exit(EX_OK);
		case 'V':
			printf("ext4d %s\n", EXT4D_VERSION);
			exit(EX_OK);
		default:
			return EX_USAGE;
		}
		if (code != EX_OK)
			return code;
	}
	return EX_OK;
}

static int parse_args(struct command *c, int argc, char **argv)
{
	static const struct option longs[] = {
		{"sync", required_argument, NULL, 'S'},
		{"help", no_argument, NULL, 'h'},
		{"version", no_argument, NULL, 'V'},
		{NULL, 0, NULL, 0},
	};
	int opt;

	while ((opt = getopt_long(argc, argv, "fdrho:u:V", longs, NULL)) != -1) {
		int code = EX_OK;

		switch (opt) {
		case 'f':
			c->c_foreground = true;
			break;
		case 'd':
			c->c_debug = c->c_foreground = true;
			break;
		case 'r':
			c->c_read_only = true;
			break;
		case 'o':
			code = add_options(c, optarg);
			break;
		case 'u':
			c->c_unmount = optarg;
			break;
		case 'S':
			c->c_sync = optarg;
			break;
		case 'h':
			fputs(usage_text, stdout);
			exit(EX_OK);
		case 'V':
			printf("ext4d %s\n", EXT4D_VERSION);
			exit(EX_OK);
		default:
			return usage_error("bad usage");
		}
		if (code != EX_OK)
			return code;
	}
	return EX_OK;
}

static int take_operands(struct command *c, int argc, char **argv)
{
	if (c->c_unmount != NULL || c->c_sync != NULL)
		return optind == argc ? EX_OK : usage_error("too many arguments");
	if (argc - optind != 2)
		return usage_error("DEVICE and MOUNTPOINT are needed");
	c->c_device = argv[optind];
	c->c_mountpoint = argv[optind + 1];
	return EX_OK;
}

/* ---- Mounting ---- */

/* The mount point as an absolute path without links; NULL with the reason logged. */
static char *check_mountpoint(const char *name)
{
	char *path = realpath(name, NULL);
	struct stat st;

	if (path == NULL) {
		log_err("%s: mount point: %s", name, strerror(errno));
		return NULL;
	}
	if (stat(path, &st) != 0 || !S_ISDIR(st.st_mode)) {
		log_err("%s: mount point is not a directory", name);
		free(path);
		return NULL;
	}
	return path;
}

static int run_daemon(struct command *c, struct device *dv, char *mountpoint)
{
	struct daemon_args da = {
		.da_opts = &c->c_opts,
		.da_device = dv,
		.da_mountpoint = mountpoint,
		.da_debug = c->c_debug,
		.da_status_fd = -1,
	};

	if (!c->c_foreground) {
		da.da_status_fd = daemon_fork();
		if (da.da_status_fd < 0) {
			log_err("cannot fork: %s", strerror(-da.da_status_fd));
			return EX_SYSERR;
		}
	}
	return daemon_run(&da);
}

static enum device_access wanted_access(const struct ext4_options *o)
{
	if (!o->o_read_only)
		return DEVICE_READ_WRITE;
	return o->o_noload || o->o_sb_block != 1 ? DEVICE_READ_ONLY : DEVICE_READ_ONLY_BUT_REPLAY;
}

/* noload goes with a device that cannot be written: options are checked when that is known. */
static int open_and_run(struct command *c, char *mountpoint)
{
	char why[256];
	struct device dv;
	int err = device_open(&dv, c->c_device, wanted_access(&c->c_opts.mo_ext4), geteuid() == 0);
	int code;

	if (err != 0)
		return err == -EACCES || err == -EPERM ? EX_USAGE : EX_FAIL;
	put_super_options_below(c, dv.dv_path);
	if (dv.dv_read_only)
		c->c_opts.mo_ext4.o_read_only = true;
	if (mount_options_check(&c->c_opts, why, sizeof(why)) != 0) {
		fprintf(stderr, "ext4d: %s\n", why);
		code = EX_USAGE;
	} else {
		code = c->c_fake ? EX_OK : run_daemon(c, &dv, mountpoint);
	}
	device_close(&dv);
	return code;
}

static int do_mount(struct command *c)
{
	char *mountpoint;
	int code;

	if (c->c_read_only)
		add_options(c, "ro");
	mountpoint = check_mountpoint(c->c_mountpoint);
	if (mountpoint == NULL)
		return EX_FAIL;
	code = open_and_run(c, mountpoint);
	free(mountpoint);
	return code;
}

int main(int argc, char **argv)
{
	struct command c = {.c_foreground = false};
	int code;

	mount_options_init(&c.c_opts);
	if (called_as_mount_helper(argv[0])) {
		code = parse_helper_args(&c, argc, argv);
		if (!c.c_verbose)
			log_set_sink(quiet_sink, NULL);
	} else {
		code = parse_args(&c, argc, argv);
	}
	if (code == EX_OK)
		code = take_operands(&c, argc, argv);
	if (code == EX_OK) {
		if (c.c_debug)
			log_set_level(LOG_LEVEL_DEBUG);
		if (c.c_unmount != NULL)
			code = unmount_and_wait(c.c_unmount);
		else if (c.c_sync != NULL)
			code = sync_mount(c.c_sync);
		else
			code = do_mount(&c);
	}
	mount_options_free(&c.c_opts);
	free(c.c_list);
	return code;
}
