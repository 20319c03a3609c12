/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * test_ialloc.c - inode numbers: given out once, not before their freeing is safe, in good places,
 * with clean slots.
 *
 * Invariants: (1) every inode made here is freed in the end, so that e2fsck finds no orphan.
 * Locking: the threaded test gives each thread inodes of its own.
 */
#include "tests/unit/alloc/alloc_fixture.h"

#include <malloc.h>
#include <pthread.h>
#include <time.h>

#define MIB (UINT64_C(1) << 20)

static struct inode *create(struct fix *f, struct inode *dir, uint16_t mode, const char *name)
{
	handle_t *handle = fix_start(f);
	struct inode *inode = ext4_new_inode(handle, dir, mode, &fix_user, name);

	if (!IS_ERR(inode))
		ck_assert_int_eq(ext4_mark_inode_dirty(handle, inode), 0);
	fix_stop(handle);
	return inode;
}

/* As eviction does it, for an inode without blocks. */
static void destroy(struct fix *f, struct inode *inode)
{
	handle_t *handle = fix_start(f);

	atomic_store(&inode->i_nlink, 0);
	inode->i_dtime = (uint32_t)time(NULL);
	ck_assert_int_eq(ext4_mark_inode_dirty(handle, inode), 0);
	ck_assert_int_eq(ext4_free_inode(handle, inode), 0);
	/* Before the commit lets somebody else have the number. */
	ext4_inode_unhash(inode);
	fix_stop(handle);
	iput(inode);
}

static void check_inode_counts(struct fix *f)
{
	int64_t sum = 0;

	for (ext4_group_t group = 0; group < f->sb->s_groups_count; group++)
		sum += atomic_load(&ext4_get_group_info(f->sb, group)->bg_free_inodes);
	ck_assert_int_eq(atomic_load(&ext4_mb(f->sb)->mb_free_inodes), sum);
}

START_TEST(a_new_inode_has_what_the_contract_says)
{
	struct inode *root, *file, *dir, *fifo;
	struct fix f;

	fix_open(&f, "-t ext4 -b 4096", 64 * MIB, 0);
	fix_mount(&f);
	root = ext4_iget(f.sb, EXT4_ROOT_INO, EXT4_IGET_NORMAL);
	root->i_flags |= EXT2_NOATIME_FL | EXT2_DIRSYNC_FL | EXT2_IMMUTABLE_FL;
	file = create(&f, root, S_IFREG | 0640, "file");
	ck_assert(!IS_ERR(file));
	ck_assert_uint_ge(file->i_ino, f.sb->s_first_ino);
	ck_assert_uint_eq(file->i_mode, S_IFREG | 0640);
	ck_assert_uint_eq(file->i_uid, 1000);
	ck_assert_uint_eq(atomic_load(&file->i_nlink), 1);
	ck_assert_uint_eq(file->i_flags, EXT2_NOATIME_FL | EXT4_EXTENTS_FL);
	ck_assert_uint_eq(file->i_extra_isize, f.sb->s_want_extra_isize);
	ck_assert_uint_eq(i_size_read(file), 0);
	ck_assert_uint_eq(atomic_load(&file->i_blocks), 0);
	root->i_mode |= S_ISGID;
	root->i_gid = 77;
	dir = create(&f, root, S_IFDIR | 0755, "dir");
	ck_assert_uint_eq(dir->i_mode, S_IFDIR | S_ISGID | 0755);
	ck_assert_uint_eq(dir->i_gid, 77);
	ck_assert_uint_eq(atomic_load(&dir->i_nlink), 2);
	ck_assert((dir->i_flags & EXT2_DIRSYNC_FL) != 0);
	ck_assert((dir->i_flags & EXT2_IMMUTABLE_FL) == 0);
	fifo = create(&f, root, S_IFIFO | 0600, "fifo");
	ck_assert_uint_eq(fifo->i_flags, EXT2_NOATIME_FL);
	ck_assert_uint_eq(fifo->i_gid, 77);
	ck_assert_uint_ne(fifo->i_generation, dir->i_generation);
	check_inode_counts(&f);
	destroy(&f, file);
	destroy(&f, dir);
	destroy(&f, fifo);
	check_inode_counts(&f);
	root->i_mode &= (uint16_t)~S_ISGID;
	root->i_gid = 0;
	root->i_flags &= ~(uint32_t)(EXT2_NOATIME_FL | EXT2_DIRSYNC_FL | EXT2_IMMUTABLE_FL);
	iput(root);
	fix_close(&f);
}
END_TEST

static void create_many(const char *args, unsigned n)
{
	struct inode **inodes = calloc(n, sizeof(struct inode *));
	struct inode *root;
	struct prng p;
	struct fix f;

	prng_seed(&p, prng_seed_from_env(3));
	fix_open(&f, args, 64 * MIB, 0);
	fix_mount(&f);
	root = ext4_iget(f.sb, EXT4_ROOT_INO, EXT4_IGET_NORMAL);
	for (unsigned i = 0; i < n; i++) {
		inodes[i] = create(&f, root, S_IFREG | 0600, "x");
		ck_assert(!IS_ERR(inodes[i]));
		/* In order in each group, so that table blocks fill one after the other. */
		if (i > 0 && inodes[i]->i_block_group == inodes[i - 1]->i_block_group)
			ck_assert_uint_eq(inodes[i]->i_ino, inodes[i - 1]->i_ino + 1);
	}
	for (unsigned i = 0; i < n; i++) {
		unsigned j = i + (unsigned)prng_below(&p, n - i);
		struct inode *inode = inodes[j];

		inodes[j] = inodes[i];
		destroy(&f, inode);
	}
	check_inode_counts(&f);
	fix_commit(&f);
	ck_assert_int_eq(atomic_load(&ext4_mb(f.sb)->mb_pending_inodes), 0);
	iput(root);
	fix_close(&f);
	free(inodes);
}

START_TEST(many_inodes_are_made_in_order_and_freed_at_random)
{
	create_many("-t ext4 -b 4096 -N 8192", 5000);
	create_many("-t ext4 -b 1024 -I 128 -O ^metadata_csum,^uninit_bg -N 4096", 3000);
	create_many("-t ext4 -b 1024 -g 1024 -O ^flex_bg,^resize_inode -N 4096", 3000);
}
END_TEST

START_TEST(a_number_is_not_reused_before_its_freeing_has_committed)
{
	struct inode *root, *a, *b;
	uint32_t ino;
	struct fix f;

	fix_open(&f, "-t ext4 -b 4096", 64 * MIB, 0);
	fix_mount(&f);
	root = ext4_iget(f.sb, EXT4_ROOT_INO, EXT4_IGET_NORMAL);
	a = create(&f, root, S_IFREG | 0600, "a");
	ino = a->i_ino;
	fix_commit(&f);
	destroy(&f, a);
	ck_assert_int_eq(atomic_load(&ext4_mb(f.sb)->mb_pending_inodes), 1);
	b = create(&f, root, S_IFREG | 0600, "b");
	ck_assert_uint_ne(b->i_ino, ino);
	fix_commit(&f);
	a = create(&f, root, S_IFREG | 0600, "a");
	ck_assert_uint_eq(a->i_ino, ino);
	fix_commit(&f);
	/* The lower number is reusable, the higher one is not yet. */
	destroy(&f, a);
	fix_commit(&f);
	ino = b->i_ino;
	destroy(&f, b);
	a = create(&f, root, S_IFREG | 0600, "a");
	ck_assert_uint_lt(a->i_ino, ino);
	b = create(&f, root, S_IFREG | 0600, "b");
	ck_assert_uint_gt(b->i_ino, ino);
	destroy(&f, a);
	destroy(&f, b);
	iput(root);
	fix_close(&f);
}
END_TEST

START_TEST(all_inodes_can_be_used_and_then_there_are_none)
{
	struct inode *inodes[512];
	struct inode *root;
	struct inode *inode;
	unsigned retries = 0;
	unsigned n = 0;
	struct fix f;

	fix_open(&f, "-t ext4 -b 1024 -g 1024 -N 256 -O ^resize_inode", 16 * MIB, 0);
	fix_mount(&f);
	root = ext4_iget(f.sb, EXT4_ROOT_INO, EXT4_IGET_NORMAL);
	while (!IS_ERR(inode = create(&f, root, S_IFREG | 0600, "x")))
		inodes[n++] = inode;
	ck_assert_int_eq(PTR_ERR(inode), -ENOSPC);
	ck_assert_int_eq(atomic_load(&ext4_mb(f.sb)->mb_free_inodes), 0);
	ck_assert_uint_eq(n, f.sb->s_inodes_count - 11);
	fix_commit(&f);
	destroy(&f, inodes[--n]);
	inode = create(&f, root, S_IFREG | 0600, "x");
	ck_assert_int_eq(PTR_ERR(inode), -ENOSPC);
	ck_assert(ext4_should_retry_alloc(f.sb, &retries));
	retries = 1;
	(void)ext4_should_retry_alloc(f.sb, &retries);
	inode = create(&f, root, S_IFREG | 0600, "x");
	ck_assert(!IS_ERR(inode));
	destroy(&f, inode);
	while (n > 0)
		destroy(&f, inodes[--n]);
	iput(root);
	fix_close(&f);
}
END_TEST

/* Fill the part of the inode tables that was never used with rubbish. */
static void soil_tables(struct fix *f)
{
	uint8_t *data = mem_data(f->image);

	for (ext4_group_t group = 0; group < f->sb->s_groups_count; group++) {
		struct ext4_group_info *gi = ext4_get_group_info(f->sb, group);
		uint64_t table = ext4_inode_table(f->sb, gi) * f->sb->s_blocksize;
		uint64_t used = f->sb->s_inodes_per_group - atomic_load(&gi->bg_itable_unused);

		memset(data + table + used * f->sb->s_inode_size, 0xdb,
		       (f->sb->s_inodes_per_group - used) * f->sb->s_inode_size);
	}
}

START_TEST(slots_never_used_before_show_nothing_of_what_was_there)
{
	struct inode *inodes[200];
	struct inode *root;
	struct fix f;
	unsigned bad = 0;

	fix_open(&f, "-t ext4 -b 4096 -N 4096", 64 * MIB, 0);
	fix_mount(&f);
	soil_tables(&f);
	root = ext4_iget(f.sb, EXT4_ROOT_INO, EXT4_IGET_NORMAL);
	for (unsigned i = 0; i < 200; i++)
		inodes[i] = create(&f, root, (i % 7 == 0 ? S_IFDIR : S_IFREG) | 0600,
				   i % 2 == 0 ? "p" : "q");
	for (unsigned i = 0; i < 200; i++) {
		struct buffer_head *bh;
		unsigned offset;

		ck_assert_int_eq(ext4_get_inode_loc(inodes[i], &bh, &offset), 0);
		for (unsigned j = 160; j < f.sb->s_inode_size; j++)
			bad += bh->b_data[offset + j] != 0;
		/* The blocks were not read: what follows the last inode is zero too. */
		if (i == 199)
			for (unsigned j = offset + f.sb->s_inode_size; j < bh->b_size; j++)
				bad += bh->b_data[j] != 0;
		bh_put(bh);
	}
	ck_assert_uint_eq(bad, 0);
	for (unsigned i = 0; i < 200; i++)
		destroy(&f, inodes[i]);
	iput(root);
	fix_close(&f);
}
END_TEST

START_TEST(a_reused_slot_shows_nothing_of_the_dead_inode)
{
	struct inode *root, *inode;
	struct buffer_head *bh;
	unsigned offset;
	unsigned bad = 0;
	uint32_t ino;
	struct fix f;

	fix_open(&f, "-t ext4 -b 4096", 64 * MIB, 0);
	fix_mount(&f);
	root = ext4_iget(f.sb, EXT4_ROOT_INO, EXT4_IGET_NORMAL);
	inode = create(&f, root, S_IFREG | 0600, "x");
	ino = inode->i_ino;
	ck_assert_int_eq(ext4_get_inode_loc(inode, &bh, &offset), 0);
	lock_buffer(bh);
	memset(bh->b_data + offset + 200, 0x77, 40);
	unlock_buffer(bh);
	bh_put(bh);
	destroy(&f, inode);
	fix_commit(&f);
	inode = create(&f, root, S_IFREG | 0600, "y");
	ck_assert_uint_eq(inode->i_ino, ino);
	ck_assert_int_eq(ext4_get_inode_loc(inode, &bh, &offset), 0);
	for (unsigned j = 160; j < f.sb->s_inode_size; j++)
		bad += bh->b_data[offset + j] != 0;
	ck_assert_uint_eq(bad, 0);
	bh_put(bh);
	destroy(&f, inode);
	iput(root);
	fix_close(&f);
}
END_TEST

START_TEST(top_directories_are_spread_and_files_stay_with_their_directory)
{
	struct inode *dirs[32];
	struct inode *root;
	uint32_t groups = 0;
	struct fix f;

	fix_open(&f, "-t ext4 -b 1024 -g 1024 -G 2 -N 4096 -O ^resize_inode", 64 * MIB, 0);
	fix_mount(&f);
	root = ext4_iget(f.sb, EXT4_ROOT_INO, EXT4_IGET_NORMAL);
	for (unsigned i = 0; i < 32; i++) {
		char name[16];
		struct inode *file;

		snprintf(name, sizeof(name), "dir%u", i);
		dirs[i] = create(&f, root, S_IFDIR | 0755, name);
		groups |= UINT32_C(1) << (dirs[i]->i_block_group >> 1);
		file = create(&f, dirs[i], S_IFREG | 0600, "file");
		ck_assert_uint_eq(file->i_block_group >> 1, dirs[i]->i_block_group >> 1);
		destroy(&f, file);
		file = create(&f, dirs[i], S_IFDIR | 0700, "sub");
		ck_assert_uint_eq(file->i_block_group >> 1, dirs[i]->i_block_group >> 1);
		destroy(&f, file);
	}
	/* 32 flex groups, 32 directories. */
	ck_assert_int_ge(__builtin_popcount(groups), 24);
	for (unsigned i = 0; i < 32; i++)
		destroy(&f, dirs[i]);
	iput(root);
	fix_close(&f);
}
END_TEST

START_TEST(freeing_a_free_or_reserved_inode_is_refused)
{
	struct inode *root, *inode;
	handle_t *handle;
	struct fix f;

	fix_open(&f, "-t ext4 -b 4096 -e continue", 64 * MIB, 0);
	fix_mount(&f);
	root = ext4_iget(f.sb, EXT4_ROOT_INO, EXT4_IGET_NORMAL);
	handle = fix_start(&f);
	ck_assert_int_eq(ext4_free_inode(handle, root), -EFSCORRUPTED);
	fix_stop(handle);
	inode = create(&f, root, S_IFREG | 0600, "x");
	ihold(inode);
	destroy(&f, inode);
	handle = fix_start(&f);
	ck_assert_int_eq(ext4_free_inode(handle, inode), -EFSCORRUPTED);
	(void)ext4_journal_stop(handle, 0);
	iput(inode);
	iput(root);
	fix_close_broken(&f);
}
END_TEST

#define THREADS 4
#define THREAD_INODES 300

struct worker {
	struct fix *f;
	struct inode *dir;
	_Atomic uint8_t *live; /* by number */
	unsigned twice;
};

static void *worker_main(void *arg)
{
	struct inode *inodes[THREAD_INODES];
	struct worker *w = arg;

	for (unsigned i = 0; i < THREAD_INODES; i++) {
		inodes[i] = create(w->f, w->dir, S_IFREG | 0600, "x");
		ck_assert(!IS_ERR(inodes[i]));
		w->twice += atomic_exchange(&w->live[inodes[i]->i_ino], 1);
	}
	for (unsigned i = 0; i < THREAD_INODES; i++) {
		atomic_store(&w->live[inodes[i]->i_ino], 0);
		destroy(w->f, inodes[i]);
	}
	return NULL;
}

START_TEST(threads_never_get_the_same_number)
{
	struct worker workers[THREADS];
	pthread_t threads[THREADS];
	struct inode *root;
	_Atomic uint8_t *live;
	struct fix f;

	fix_open(&f, "-t ext4 -b 4096 -N 8192", 64 * MIB, 0);
	f.threads = true;
	fix_mount(&f);
	live = calloc(f.sb->s_inodes_count + 1, sizeof(*live));
	root = ext4_iget(f.sb, EXT4_ROOT_INO, EXT4_IGET_NORMAL);
	for (unsigned i = 0; i < THREADS; i++) {
		workers[i] = (struct worker){.f = &f, .dir = root, .live = live};
		ck_assert_int_eq(pthread_create(&threads[i], NULL, worker_main, &workers[i]), 0);
	}
	for (unsigned i = 0; i < THREADS; i++) {
		pthread_join(threads[i], NULL);
		ck_assert_uint_eq(workers[i].twice, 0);
	}
	check_inode_counts(&f);
	iput(root);
	fix_close(&f);
	free((void *)live);
}
END_TEST

int main(void)
{
	/* Memory from malloc() is not zero by luck. */
	mallopt(M_PERTURB, 0x5a);
	return RUN_TESTS("alloc/ialloc", a_new_inode_has_what_the_contract_says,
			 many_inodes_are_made_in_order_and_freed_at_random,
			 a_number_is_not_reused_before_its_freeing_has_committed,
			 all_inodes_can_be_used_and_then_there_are_none,
			 slots_never_used_before_show_nothing_of_what_was_there,
			 a_reused_slot_shows_nothing_of_the_dead_inode,
			 top_directories_are_spread_and_files_stay_with_their_directory,
			 freeing_a_free_or_reserved_inode_is_refused,
			 threads_never_get_the_same_number);
}
