/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * test_faults.c - power cuts, I/O errors, orphans that somebody else left, and threads.
 *
 * Invariants: (1) after any cut and recovery e2fsck finds nothing. (2) After an I/O error everything ends with an
 * error or success, and what was committed before is still there.
 * Locking: the test with threads only.
 */
#include "tests/unit/namespace/nsenv.h"

#include <pthread.h>

#include "alloc/alloc.h"
#include "block/filter_fault.h"

static void quiet(enum log_level level, const char *line, void *arg)
{
	(void)level;
	(void)line;
	(void)arg;
}

/* ---- Cuts ---- */

/* Mount a copy of what is on the device now, as after a power cut; everything open is an orphan there. */
static void check_cut(const struct env *e, uint64_t free_inodes)
{
	struct env cut = {.e_bytes = e->e_bytes, .e_opts = e->e_opts};
	struct ext4_space sp;

	cut.e_image = aligned_alloc(4096, e->e_bytes);
	memcpy(cut.e_image, e->e_image, e->e_bytes);
	env_mount(&cut);
	ext4_drain_evictions(cut.e_sb);
	jbd2_journal_force_commit(cut.e_sb->s_journal);
	ext4_space(cut.e_sb, &sp);
	if (free_inodes != 0)
		ck_assert_uint_eq(sp.sp_free_inodes, free_inodes);
	env_close(&cut);
}

static void one_change(struct env *e, struct inode *dir, unsigned i)
{
	char name[230];
	char other[32];

	memset(name, 'c', 200);
	snprintf(name + 200, 30, "%u", i);
	switch (i % 7) {
	case 0:
	case 1:
		ck_assert_int_eq(env_touch(dir, name), 0);
		break;
	case 2:
		ck_assert_int_eq(env_make_name(dir, name, S_IFDIR | 0755), 0);
		break;
	case 3:
		ck_assert_int_eq(env_symlink(dir, name, name), 0);
		break;
	case 4:
		snprintf(other, sizeof(other), "moved%u", i);
		snprintf(name + 200, 30, "%u", i - 4);
		ck_assert_int_eq(env_rename(dir, name, e->e_root, other, 0), 0);
		break;
	case 5:
		snprintf(name + 200, 30, "%u", i - 4);
		ck_assert_int_eq(env_unlink(dir, name), 0);
		break;
	default:
		snprintf(name + 200, 30, "%u", i - 4);
		ck_assert_int_eq(env_rmdir(dir, name), 0);
		break;
	}
}

START_TEST(a_cut_at_any_time_is_recovered)
{
	struct inode *dir;
	struct env e;

	log_set_sink(quiet, NULL);
	env_open(&e, "-b 1024", 8 * MIB);
	dir = env_mkdir(e.e_root, "d");
	for (unsigned i = 0; i < 350; i++) {
		one_change(&e, dir, i);
		if (i % 16 == 0)
			jbd2_journal_force_commit(e.e_sb->s_journal);
		if (i % 23 == 0)
			check_cut(&e, 0);
	}
	iput(dir);
	env_close(&e);
}
END_TEST

static void open_and_forget(const char *mke2fs_args)
{
	struct ns_new n = {.nn_mode = 0600, .nn_cred = &env_root};
	struct inode *held[20];
	struct ext4_space sp;
	char name[16];
	struct env e;

	log_set_sink(quiet, NULL);
	env_open(&e, mke2fs_args, 8 * MIB);
	ext4_space(e.e_sb, &sp);
	for (unsigned i = 0; i < 20; i++) {
		snprintf(name, sizeof(name), "f%u", i);
		if (i % 3 == 0) {
			ck_assert_int_eq(ext4_tmpfile(e.e_root, &n, &held[i]), 0);
			continue;
		}
		ck_assert_int_eq(env_create(e.e_root, name,
					    i % 3 == 1 ? S_IFREG | 0644 : S_IFDIR | 0755, &held[i]),
				 0);
		ck_assert_int_eq(
			i % 3 == 1 ? env_unlink(e.e_root, name) : env_rmdir(e.e_root, name), 0);
	}
	jbd2_journal_force_commit(e.e_sb->s_journal);
	check_cut(&e, sp.sp_free_inodes);
	e.e_opts.o_read_only = true; /* of the copy's mount */
	check_cut(&e, sp.sp_free_inodes);
	for (unsigned i = 0; i < 20; i++)
		iput(held[i]);
	env_close(&e);
}

START_TEST(files_open_at_a_cut_are_freed_at_mount)
{
	open_and_forget("-b 1024");
	open_and_forget("-b 1024 -O orphan_file");
}
END_TEST

/* A writer that meets a full device holds its own file: another one's, whose cut failed, is not waited for. */
START_TEST(space_is_looked_for_with_a_file_locked)
{
	struct env e = {0};
	struct inode *writer, *orphan;
	handle_t *handle;

	env_open(&e, "-b 1024", 8 << 20);
	ck_assert_int_eq(env_create(e.e_root, "writer", S_IFREG | 0644, &writer), 0);
	ck_assert_int_eq(env_create(e.e_root, "orphan", S_IFREG | 0644, &orphan), 0);
	handle = ext4_journal_start(orphan, HT_TRUNCATE, EXT4_ORPHAN_CREDITS);
	ck_assert_int_eq(ext4_orphan_add(handle, orphan), 0);
	ck_assert_int_eq(ext4_journal_stop(handle, 0), 0);
	ext4_orphan_not_done(orphan);
	down_write(&writer->i_rwsem);
	e.e_sb->s_upper->reclaim_space(e.e_sb);
	up_write(&writer->i_rwsem);
	ck_assert(ext4_is_orphan(orphan));
	ck_assert_int_eq(wb_sync_fs(e.e_sb, true), 0);
	ck_assert(!ext4_is_orphan(orphan));
	iput(writer);
	iput(orphan);
	env_close(&e);
}
END_TEST

START_TEST(orphans_that_others_left_are_freed)
{
	struct inode *inode;
	struct env e;

	/* An unlinked open file, as debugfs makes it; its name is gone, its inode and block are not. */
	env_make(&e, "-b 1024 -O ^metadata_csum,^orphan_file", 8 * MIB,
		 "write /proc/self/status f\nunlink f\nset_inode_field <12> links_count 0\n"
		 "set_inode_field <12> dtime 0\nset_super_value last_orphan 12");
	env_mount(&e);
	ck_assert_int_eq(env_find(e.e_root, "f"), -ENOENT);
	inode = ext4_iget(e.e_sb, 12, EXT4_IGET_HANDLE);
	ck_assert(IS_ERR(inode));
	ck_assert_int_eq(PTR_ERR(inode), -ESTALE);
	ck_assert_uint_eq(e.e_sb->s_es->s_last_orphan, 0);
	env_close(&e);
}
END_TEST

/* ---- Errors ---- */

static void workload(struct super_block *sb)
{
	struct inode *root = ext4_iget(sb, EXT4_ROOT_INO, EXT4_IGET_NORMAL);
	struct inode *dir = NULL, *inode;
	char name[230];

	if (IS_ERR(root))
		return;
	(void)env_create(root, "new", S_IFDIR | 0755, &dir);
	for (unsigned i = 0; dir != NULL && i < 12; i++) {
		memset(name, 'w', 200);
		snprintf(name + 200, 30, "%u", i);
		if (env_create(dir, name, S_IFREG | 0644, &inode) == 0) {
			(void)ext4_setxattr(inode, "user.x", name, 200, 0, &env_root);
			(void)ext4_link(inode, root, name, strlen(name));
			iput(inode);
		}
		if (i % 4 == 3) {
			(void)jbd2_journal_force_commit(sb->s_journal);
			(void)env_unlink(dir, name);
			(void)env_rename(root, name, dir, "moved", 0);
		}
	}
	iput(dir);
	iput(root);
}

/* Returns false when the fault was never reached. */
static bool run_with_fault(const struct env *e, uint64_t nth, uint64_t count)
{
	struct env f = {.e_bytes = e->e_bytes, .e_opts = e->e_opts};
	struct fault_rule rule = {
		.fr_kind = FAULT_ERROR, .fr_ops = FAULT_ANY_OP, .fr_nth = nth, .fr_count = count};
	struct fault_options options = {.fo_seed = nth};
	struct super_block *sb;
	struct blkdev *dev;
	bool hit;
	int id, rc;

	f.e_image = aligned_alloc(4096, e->e_bytes);
	memcpy(f.e_image, e->e_image, e->e_bytes);
	dev = fault_open(mem_open(f.e_bytes, 512, f.e_image), &options);
	ck_assert(!IS_ERR(dev));
	id = fault_arm(dev, &rule);
	if (ext4_mount(dev, &f.e_opts, &sb) == 0) {
		workload(sb);
		hit = fault_hits(dev, id) > 0;
		(void)ext4_umount(sb);
	} else {
		hit = fault_hits(dev, id) > 0;
		ck_assert(hit);
		blk_close(dev);
	}
	/* Repairable, and what was there before still is. */
	if (nth % 4 == 0) {
		dev = mem_open(f.e_bytes, 512, f.e_image);
		rc = testlib_fsck_args(dev, "-fy >/dev/null");
		ck_assert_int_le(rc, 1);
		blk_close(dev);
		env_mount(&f);
		ck_assert_int_eq(env_find(f.e_root, "before"), 0);
		env_close(&f);
	} else {
		free(f.e_image);
	}
	return hit;
}

START_TEST(an_io_error_anywhere_ends_well)
{
	struct env e;
	uint64_t n = 1;

	log_set_sink(quiet, NULL);
	env_open(&e, "-b 1024 -I 128", 4 * MIB);
	ck_assert_int_eq(env_touch(e.e_root, "before"), 0);
	env_umount(&e);
	while (run_with_fault(&e, n, 1))
		n++;
	ck_assert_uint_gt(n, 20);
	/* And for ever from then on. */
	for (n = 1; run_with_fault(&e, n, FAULT_FOREVER);)
		n++;
	ck_assert_uint_gt(n, 20);
	free(e.e_image);
}
END_TEST

/* ---- Threads ---- */

struct worker {
	struct inode *w_dir;
	unsigned w_id;
};

static void *work(void *arg)
{
	struct worker *w = arg;
	struct env_list l;
	char name[64], list[300];
	struct inode *inode;

	for (unsigned i = 0; i < 150; i++) {
		snprintf(name, sizeof(name), "thread-%u-file-with-a-name-%u", w->w_id, i);
		if (env_create(w->w_dir, name, S_IFREG | 0644, &inode) == 0) {
			(void)ext4_setxattr(inode, "user.t", name, strlen(name), 0, &env_root);
			(void)ext4_listxattr(inode, list, sizeof(list), false);
			iput(inode);
		}
		(void)env_find(w->w_dir, name);
		if (i % 3 == 0)
			(void)env_unlink(w->w_dir, name);
		if (i % 50 == 49) {
			(void)env_list_all(w->w_dir, 20, &l);
			env_list_free(&l);
		}
	}
	return NULL;
}

START_TEST(threads_share_a_directory)
{
	struct worker w[4];
	pthread_t t[4];
	struct inode *dir;
	struct env_list l;
	struct env e;

	env_make(&e, "-b 1024", 16 * MIB, NULL);
	e.e_opts.o_manual_commit = false;
	env_mount(&e);
	dir = env_mkdir(e.e_root, "d");
	for (unsigned i = 0; i < 4; i++) {
		w[i].w_dir = dir;
		w[i].w_id = i;
		ck_assert_int_eq(pthread_create(&t[i], NULL, work, &w[i]), 0);
	}
	for (unsigned i = 0; i < 4; i++)
		pthread_join(t[i], NULL);
	ck_assert_int_eq(env_list_all(dir, 30, &l), 0);
	ck_assert_uint_eq(l.l_count, 2 + 4 * 100);
	env_list_free(&l);
	iput(dir);
	env_close(&e);
}
END_TEST

int main(void)
{
	return RUN_TESTS("namespace/faults", a_cut_at_any_time_is_recovered,
			 files_open_at_a_cut_are_freed_at_mount,
			 space_is_looked_for_with_a_file_locked, orphans_that_others_left_are_freed,
			 an_io_error_anywhere_ends_well, threads_share_a_directory);
}
