/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * test_io_errors.c - EIO at every request of a fixed workload, through all layers.
 *
 * The file system is made once, with files whose removal touches several groups, extent blocks and attribute blocks. For each N it is mounted
 * over a device that fails the Nth request, once or from then on; a workload writes, syncs, removes, cuts and renames; then it is unmounted, the log is
 * replayed by e2fsck, and what e2fsck says besides that is read.
 *
 * Invariants: (1) an error that a system call would see is clear: EIO, EROFS or, for a mount, EIO and the like; nothing hangs. (2) What was synced
 * before the workload, and what an fsync in it said was safe, is there afterwards byte for byte. (3) e2fsck finds nothing to repair but the orphan
 * list, whose entries a file system with errors leaves for it.
 * Locking: one thread.
 */
#include "tests/unit/namespace/nsenv.h"

#include <linux/falloc.h>
#include <unistd.h>

#include "block/filter_fault.h"
#include "tests/lib/pattern.h"

#define IMAGE_BYTES (6 * MIB)
#define MKFS "-b 1024 -g 1024 -I 128 -J size=1 -N 128 -O ^resize_inode,^flex_bg"
#define KEEP_BYTES 40000u
#define NEW_BYTES 30000u

enum { TAG_KEEP = 1, TAG_CUT, TAG_GONE, TAG_NEW, TAG_AGAIN, TAG_OVER };

static void quiet(enum log_level level, const char *line, void *arg)
{
	(void)level;
	(void)line;
	(void)arg;
}

/* ---- Data ---- */

static int put(struct inode *inode, uint64_t tag, uint64_t pos, size_t len)
{
	uint8_t *buf = malloc(len);
	struct iovec iov = {.iov_base = buf, .iov_len = len};
	struct wb_write w = {.w_iov = &iov, .w_iovcnt = 1, .w_len = len, .w_pos = pos};
	ssize_t n;

	w.w_cred.cr_privileged = true;
	pattern_fill(buf, len, tag, pos);
	n = file_write(inode, &w);
	free(buf);
	if (n < 0)
		return (int)n;
	return n == (ssize_t)len ? 0 : -EIO;
}

/* Every other block, so that each is an extent. */
static int put_pieces(struct inode *inode, uint64_t tag, unsigned pieces)
{
	int err = 0;

	for (unsigned i = 0; i < pieces && err == 0; i++)
		err = put(inode, tag, i * 2048u, 1024);
	return err;
}

static int read_at(struct inode *inode, uint64_t pos, void *buf, size_t len)
{
	static struct wb_read r;
	size_t done = 0;
	int err = 0;

	while (done < len && err == 0) {
		err = file_read(inode, pos + done, len - done, 0, &r);
		for (int i = 0; err == 0 && i < r.r_iovcnt; i++) {
			memcpy((uint8_t *)buf + done, r.r_iov[i].iov_base, r.r_iov[i].iov_len);
			done += r.r_iov[i].iov_len;
		}
		if (err == 0 && r.r_bytes == 0)
			err = -ENODATA;
		if (err != -ENODATA && err != 0)
			break;
		wb_read_done(&r);
	}
	return err;
}

static void must_hold(const struct env *e, const char *name, uint64_t tag, size_t len)
{
	struct inode *inode = env_lookup(e->e_root, name);
	uint8_t *buf = malloc(len);

	ck_assert_uint_ge(i_size_read(inode), len);
	ck_assert_int_eq(read_at(inode, 0, buf, len), 0);
	pattern_check(buf, len, tag, 0);
	free(buf);
	iput(inode);
}

/* ---- What is there before ---- */

static struct inode *make_file(struct env *e, const char *name)
{
	struct inode *inode;

	ck_assert_int_eq(env_create(e->e_root, name, S_IFREG | 0644, &inode), 0);
	return inode;
}

static void add_xattrs(struct inode *inode)
{
	char value[400];

	memset(value, 'x', sizeof(value));
	ck_assert_int_eq(ext4_setxattr(inode, "user.big", value, sizeof(value), 0, &env_root), 0);
}

static void prepare(struct env *e, const char *features)
{
	char args[256];
	struct inode *inode;

	snprintf(args, sizeof(args), "%s,%s", MKFS, features);
	env_make(e, args, IMAGE_BYTES, NULL);
	/* Little is kept, so that more is read. */
	e->e_opts.o_bcache_bytes = 32 << 10;
	env_mount(e);
	inode = make_file(e, "keep");
	ck_assert_int_eq(put(inode, TAG_KEEP, 0, KEEP_BYTES), 0);
	iput(inode);
	inode = make_file(e, "cut");
	ck_assert_int_eq(put_pieces(inode, TAG_CUT, 200), 0);
	iput(inode);
	inode = make_file(e, "gone");
	ck_assert_int_eq(put_pieces(inode, TAG_GONE, 300), 0);
	ck_assert_int_eq(put(inode, TAG_GONE, MIB, 1500 * 1024), 0);
	add_xattrs(inode);
	iput(inode);
	inode = make_file(e, "over");
	ck_assert_int_eq(put(inode, TAG_KEEP, 0, KEEP_BYTES), 0);
	iput(inode);
	inode = env_mkdir(e->e_root, "dir");
	for (unsigned i = 0; i < 40; i++) {
		char name[64];

		snprintf(name, sizeof(name), "a-name-that-takes-some-room-in-the-directory-%u", i);
		ck_assert_int_eq(env_touch(inode, name), 0);
	}
	iput(inode);
	env_umount(e);
}

/* ---- The workload ---- */

/* What came back as safe. */
struct promises {
	bool p_new, p_over, p_unlinked, p_all;
	unsigned p_errors;
	int p_fsync_err;
};

static int note(struct promises *p, int err)
{
	if (err == 0)
		return 0;
	ck_assert_msg(err == -EIO || err == -EROFS || err == -ENOENT || err == -ENOSPC, "error %d",
		      err);
	p->p_errors++;
	return err;
}

static void write_new(struct env *e, struct promises *p)
{
	struct inode *inode;
	uint32_t seen;
	int err;

	if (note(p, env_create(e->e_root, "new", S_IFREG | 0644, &inode)) != 0)
		return;
	seen = wb_err_sample(inode);
	err = note(p, put(inode, TAG_NEW, 0, NEW_BYTES));
	if (err == 0)
		err = note(p, ext4_sync_file(inode, false));
	if (err == 0)
		err = note(p, wb_err_check_and_advance(inode, &seen));
	p->p_new = err == 0;
	iput(inode);
}

static void overwrite(struct env *e, struct promises *p)
{
	struct inode *inode;
	uint32_t seen;
	int err;

	if (note(p, ext4_lookup(e->e_root, "over", 4, &inode)) != 0)
		return;
	seen = wb_err_sample(inode);
	err = note(p, put(inode, TAG_OVER, 0, KEEP_BYTES));
	if (err == 0)
		err = note(p, ext4_sync_file(inode, true));
	if (err == 0)
		err = note(p, wb_err_check_and_advance(inode, &seen));
	p->p_over = err == 0;
	iput(inode);
}

static void cut(struct env *e, struct promises *p)
{
	struct inode *inode;

	if (note(p, ext4_lookup(e->e_root, "cut", 3, &inode)) != 0)
		return;
	if (ext4_is_extents(inode))
		note(p, ext4_fallocate(inode, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 3000,
				       60000, &(const struct ext4_cred){.cr_privileged = true}));
	note(p, ext4_truncate_to(inode, 100000));
	if (ext4_is_extents(inode))
		note(p, ext4_fallocate(inode, 0, 90000, 300000,
				       &(const struct ext4_cred){.cr_privileged = true}));
	iput(inode);
}

static void change_names(struct env *e, struct promises *p)
{
	char name[64];
	struct inode *dir;

	p->p_unlinked = note(p, env_unlink(e->e_root, "gone")) == 0;
	if (note(p, ext4_lookup(e->e_root, "dir", 3, &dir)) != 0)
		return;
	for (unsigned i = 0; i < 10; i++) {
		snprintf(name, sizeof(name), "a-name-that-takes-some-room-in-the-directory-%u", i);
		note(p, env_unlink(dir, name));
	}
	note(p, env_make_name(dir, "sub", S_IFDIR | 0755));
	note(p, env_rename(e->e_root, "cut", dir, "moved", 0));
	iput(dir);
}

static void workload(struct env *e, struct promises *p)
{
	e->e_root = ext4_iget(e->e_sb, EXT4_ROOT_INO, EXT4_IGET_NORMAL);
	if (IS_ERR(e->e_root)) {
		note(p, PTR_ERR(e->e_root));
		return;
	}
	write_new(e, p);
	cut(e, p);
	note(p, jbd2_journal_force_commit(e->e_sb->s_journal));
	change_names(e, p);
	ext4_drain_evictions(e->e_sb);
	note(p, jbd2_journal_force_commit(e->e_sb->s_journal));
	overwrite(e, p);
	p->p_all = note(p, wb_sync_fs(e->e_sb, true)) == 0;
	iput(e->e_root);
}

/* ---- One fault ---- */

struct plan {
	uint64_t pl_nth, pl_count;
	enum ext4_errors pl_errors;
	bool pl_orphans; /* there were some before */
};

/* Lines of e2fsck that do not speak of damage. */
static bool harmless(const char *line)
{
	static const char *const words[] = {"Filesystem state:",
					    "dumpe2fs ",
					    "e2fsck ",
					    "recovering journal",
					    "Pass ",
					    "Clearing orphaned inode",
					    "Truncating orphaned inode",
					    "contains a file system with errors",
					    "FILE SYSTEM WAS MODIFIED",
					    "blocks",
					    "/tmp/",
					    "Free blocks count wrong (",
					    "Free inodes count wrong (",
					    "Fix? yes",
					    "could be narrower",
					    "orphan_present is set but orphan file is clean",
					    "Clear? yes"};

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (strstr(line, words[i]) != NULL)
			return true;
	return line[0] == '\0';
}

static void judge(const struct plan *pl, char *output, int rc)
{
	char *save = NULL;

	ck_assert_msg(rc <= 1, "N %llu: e2fsck %d: %s", (unsigned long long)pl->pl_nth, rc, output);
	/* It does not trust the list then, and deletes them as damage. */
	if (pl->pl_orphans && strstr(output, "with errors") != NULL)
		return;
	for (char *line = strtok_r(output, "\n", &save); line != NULL;
	     line = strtok_r(NULL, "\n", &save))
		ck_assert_msg(harmless(line), "N %llu count %llu errors %d: %s",
			      (unsigned long long)pl->pl_nth, (unsigned long long)pl->pl_count,
			      (int)pl->pl_errors, line);
}

static void fsck(struct env *f, const struct plan *pl)
{
	struct blkdev *dev = mem_open(f->e_bytes, 512, f->e_image);
	char *path = testlib_tempfile(), *output;
	char command[4096];
	int rc;

	ck_assert_int_eq(testlib_dump(dev, path), 0);
	snprintf(command, sizeof(command),
		 "e2fsck -E journal_only -y '%s' && dumpe2fs -h '%s' | grep state: && "
		 "e2fsck -fy '%s'",
		 path, path, path);
	rc = testlib_run(command, &output);
	ck_assert_int_eq(testlib_load(dev, path), 0);
	unlink(path);
	free(path);
	blk_close(dev);
	judge(pl, output, rc);
	free(output);
}

static void check_promises(struct env *f, const struct promises *p)
{
	const char *full_size = getenv("EXT4D_TEST_FULL");
	bool full = full_size != NULL && full_size[0] == '1';

	env_mount(f);
	must_hold(f, "keep", TAG_KEEP, KEEP_BYTES);
	if (p->p_new)
		must_hold(f, "new", TAG_NEW, NEW_BYTES);
	if (p->p_over)
		must_hold(f, "over", TAG_OVER, KEEP_BYTES);
	if (p->p_unlinked && p->p_all)
		ck_assert_int_eq(env_find(f->e_root, "gone"), -ENOENT);
	env_umount(f);
	if (full)
		env_fsck(f);
	free(f->e_image);
}

/* False when the fault was never reached. */
static bool run(const struct env *e, const struct plan *pl)
{
	struct env f = {.e_bytes = e->e_bytes, .e_opts = e->e_opts};
	struct fault_rule rule = {.fr_kind = FAULT_ERROR,
				  .fr_ops = FAULT_ANY_OP,
				  .fr_nth = pl->pl_nth,
				  .fr_count = pl->pl_count};
	struct promises p = {0};
	struct blkdev *dev;
	bool hit;
	int id, err;

	f.e_image = aligned_alloc(4096, e->e_bytes);
	memcpy(f.e_image, e->e_image, e->e_bytes);
	f.e_opts.o_errors = pl->pl_errors;
	dev = fault_open(mem_open(f.e_bytes, 512, f.e_image), &(struct fault_options){0});
	id = fault_arm(dev, &rule);
	err = ext4_mount(dev, &f.e_opts, &f.e_sb);
	if (err == 0) {
		workload(&f, &p);
		hit = fault_hits(dev, id) > 0;
		err = ext4_umount(f.e_sb);
	} else {
		hit = fault_hits(dev, id) > 0;
		ck_assert_int_eq(err, -EIO);
		blk_close(dev);
	}
	fsck(&f, pl);
	f.e_opts.o_errors = ERRORS_FROM_SB;
	check_promises(&f, &p);
	return hit;
}

/* As a power cut leaves it: a log to replay, files without a name, one of which is long. */
static void leave_orphans(struct env *e)
{
	uint8_t *image = aligned_alloc(4096, e->e_bytes);
	struct inode *held[3];

	env_mount(e);
	held[0] = make_file(e, "open");
	ck_assert_int_eq(put_pieces(held[0], TAG_GONE, 100), 0);
	add_xattrs(held[0]);
	held[1] = env_lookup(e->e_root, "gone");
	held[2] = make_file(e, "empty");
	ck_assert_int_eq(wb_sync_fs(e->e_sb, true), 0);
	ck_assert_int_eq(env_unlink(e->e_root, "open"), 0);
	ck_assert_int_eq(env_unlink(e->e_root, "gone"), 0);
	ck_assert_int_eq(env_unlink(e->e_root, "empty"), 0);
	ck_assert_int_eq(jbd2_journal_force_commit(e->e_sb->s_journal), 0);
	memcpy(image, e->e_image, e->e_bytes);
	for (unsigned i = 0; i < 3; i++)
		iput(held[i]);
	env_umount(e);
	free(e->e_image);
	e->e_image = image;
}

static void sweep_image(struct env *e, struct plan pl)
{
	for (pl.pl_nth = 1; run(e, &pl);)
		pl.pl_nth++;
	ck_assert_uint_gt(pl.pl_nth, 40);
	free(e->e_image);
}

static void sweep(const char *features, uint64_t count, enum ext4_errors errors)
{
	struct env e;

	log_set_sink(quiet, NULL);
	prepare(&e, features);
	sweep_image(&e, (struct plan){.pl_count = count, .pl_errors = errors});
}

START_TEST(one_error_anywhere_loses_nothing)
{
	sweep("64bit", 1, ERRORS_CONTINUE);
}
END_TEST

START_TEST(one_error_loses_nothing_without_extents)
{
	sweep("^extent,^64bit", 1, ERRORS_CONTINUE);
}
END_TEST

START_TEST(one_error_anywhere_makes_it_read_only)
{
	sweep("orphan_file", 1, ERRORS_RO);
}
END_TEST

START_TEST(a_device_that_fails_from_some_request_on_loses_nothing)
{
	sweep("64bit", FAULT_FOREVER, ERRORS_RO);
}
END_TEST

START_TEST(one_error_in_recovery_or_after_it_loses_no_orphan)
{
	struct env e;

	log_set_sink(quiet, NULL);
	prepare(&e, "64bit");
	leave_orphans(&e);
	sweep_image(&e,
		    (struct plan){.pl_count = 1, .pl_errors = ERRORS_CONTINUE, .pl_orphans = true});
}
END_TEST

int main(void)
{
	return RUN_TESTS("namespace/io_errors", one_error_anywhere_loses_nothing,
			 one_error_loses_nothing_without_extents,
			 one_error_in_recovery_or_after_it_loses_no_orphan,
			 one_error_anywhere_makes_it_read_only,
			 a_device_that_fails_from_some_request_on_loses_nothing);
}
