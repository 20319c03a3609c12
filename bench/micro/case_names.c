/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * case_names.c - one directory with n files: created, looked up, and looked for in vain.
 */
#include <stdio.h>
#include <sys/stat.h>

#include "bench/lib/benchlib.h"
#include "bench/micro/micro.h"
#include "namespace/namespace.h"

struct names {
	struct micro_fs fs;
	struct inode *dir;
	uint64_t n, found;
};

static size_t name_of(char *buf, size_t size, const char *prefix, uint64_t i)
{
	return (size_t)snprintf(buf, size, "%s%07u", prefix, (unsigned)i);
}

/* What an open(O_CREAT) of a new name comes to: the kernel looks it up first. */
static void create(void *arg)
{
	static const struct ns_cred cred = {.nc_privileged = true};
	struct names *x = arg;
	char name[32];

	for (uint64_t i = 0; i < x->n; i++) {
		struct ns_new n = {.nn_name = name, .nn_mode = S_IFREG | 0644, .nn_cred = &cred};
		struct inode *inode;

		n.nn_len = name_of(name, sizeof(name), "f", i);
		micro_fs_op(&x->fs);
		micro_must(ext4_create(x->dir, &n, &inode), "create");
		iput(inode);
	}
}

static void look_up(struct names *x, const char *prefix)
{
	char name[32];

	for (uint64_t i = 0; i < x->n; i++) {
		size_t len = name_of(name, sizeof(name), prefix, i);
		struct inode *inode;

		if (ext4_lookup(x->dir, name, len, &inode) != 0)
			continue;
		x->found++;
		iput(inode);
	}
}

static void lookup_present(void *arg)
{
	look_up(arg, "f");
}

static void lookup_missing(void *arg)
{
	look_up(arg, "g");
}

static void run(struct micro *m)
{
	struct names x = {.n = m->m_n};

	micro_fs_open(&x.fs, 0, 1 << 20);
	x.dir = ext4_iget(x.fs.mf_sb, EXT4_ROOT_INO, EXT4_IGET_NORMAL);
	if (IS_ERR(x.dir))
		bench_die(-PTR_ERR(x.dir), "root");
	micro_section(m, "create", x.n, create, &x);
	micro_section(m, "lookup_present", x.n, lookup_present, &x);
	if (x.found != x.n)
		bench_die(0, "names were lost");
	micro_section(m, "lookup_missing", x.n, lookup_missing, &x);
	if (x.found != x.n)
		bench_die(0, "a name was found that is not there");
}

const struct micro_case micro_names = {
	.mc_name = "names",
	.mc_about = "one directory with n files: created, looked up, looked for in vain",
	.mc_default_max = 100000,
	.mc_max = 200000,
	.mc_run = run,
};
