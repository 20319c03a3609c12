/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * test_node.c - nodeids: the same for a file in every mount, counts, references given back, numbers that mean nothing.
 * Locking: none.
 */
#include <pthread.h>

#include "fuse/node.h"
#include "tests/lib/prng.h"
#include "tests/unit/ext4/fixture.h"

#define FILES 200u
#define FIRST_INO 12u

static struct node_table table;
static struct test_fs fs;

static struct inode *get(uint32_t ino)
{
	struct inode *inode = ext4_iget(fs.t_sb, ino, EXT4_IGET_NORMAL);

	ck_assert(!IS_ERR(inode));
	return inode;
}

static void mount_again(void)
{
	ck_assert_int_eq(fx_mount(&fs), 0);
	node_table_init(&table, get(EXT4_ROOT_INO));
}

static void start(void)
{
	static char commands[FILES * 32];
	size_t n = 0;

	for (unsigned i = 0; i < FILES; i++)
		n += (size_t)snprintf(commands + n, sizeof(commands) - n, "mknod n%u p\n", i);
	snprintf(commands + n, sizeof(commands) - n, "sif n0 generation 77");
	fx_make(&fs, "-t ext4 -O ^metadata_csum", 24 * MIB, commands);
	mount_again();
}

/* With no reference left the icache says so. */
static void unmount(void)
{
	node_table_destroy(&table);
	ck_assert_int_eq(fx_umount(&fs), 0);
}

static int references(uint32_t ino)
{
	struct inode *inode = ext4_ilookup(fs.t_sb, ino);
	int nr = inode != NULL ? atomic_load(&inode->i_count) - 1 : 0;

	iput(inode);
	return nr;
}

START_TEST(all_look_ups_have_one_reference)
{
	struct inode *inode;

	start();
	inode = get(12);
	node_get(&table, inode);
	node_get(&table, get(12));
	ck_assert_int_eq(references(12), 1);
	ck_assert_uint_eq(node_id(inode), 12);
	ck_assert_uint_eq(node_id_of(&table, inode), 12);
	ck_assert_ptr_eq(node_inode(&table, 12), inode);
	ck_assert_uint_eq(node_count(&table), 2);
	/* In memory, but not known to the kernel. */
	inode = get(13);
	ck_assert_uint_eq(node_id_of(&table, inode), 0);
	ck_assert_ptr_null(node_inode(&table, 13));
	iput(inode);
	unmount();
	fx_free(&fs);
}
END_TEST

START_TEST(the_last_forget_puts_the_inode)
{
	start();
	for (int i = 0; i < 5; i++)
		node_get(&table, get(12));
	node_forget(&table, 12, 3);
	ck_assert_int_eq(references(12), 1);
	ck_assert_uint_eq(node_count(&table), 2);
	node_forget(&table, 12, 0);
	node_forget(&table, 12, 2);
	ck_assert_int_eq(references(12), 0);
	ck_assert_ptr_null(node_inode(&table, 12));
	ck_assert_uint_eq(node_count(&table), 1);
	unmount();
	fx_free(&fs);
}
END_TEST

START_TEST(a_handle_is_the_same_in_the_next_mount)
{
	struct inode *inode;

	start();
	for (unsigned i = 0; i < 2; i++) {
		inode = get(12);
		node_get(&table, inode);
		ck_assert_uint_eq(node_id(inode), 12);
		ck_assert_uint_eq(node_generation(inode), 77);
		/* What the kernel was told stays true as long as it knows the inode. */
		inode->i_generation = 78;
		ck_assert_uint_eq(node_generation(inode), 77);
		unmount();
		mount_again();
	}
	unmount();
	fx_free(&fs);
}
END_TEST

/* The kernel gives up a root whose generation changes. */
START_TEST(the_root_is_never_forgotten_and_has_no_generation)
{
	struct inode *root;

	start();
	root = get(EXT4_ROOT_INO);
	root->i_handle_generation = 5;
	ck_assert_uint_eq(node_id(root), NODE_ROOT_ID);
	ck_assert_uint_eq(node_generation(root), 0);
	node_get(&table, root);
	node_forget(&table, NODE_ROOT_ID, 1000);
	ck_assert_ptr_eq(node_inode(&table, NODE_ROOT_ID), root);
	ck_assert_uint_eq(node_id_of(&table, root), NODE_ROOT_ID);
	ck_assert_int_eq(references(EXT4_ROOT_INO), 1);
	ck_assert_uint_eq(node_count(&table), 1);
	unmount();
	fx_free(&fs);
}
END_TEST

START_TEST(numbers_that_mean_no_file)
{
	static const uint64_t ids[] = {0,
				       2,
				       7,
				       8,
				       FIRST_INO + FILES + 1,
				       UINT32_MAX,
				       NODE_CONTROL_FIRST,
				       NODE_CONTROL_FIRST + FIRST_INO,
				       (UINT64_C(7) << 32) + FIRST_INO,
				       UINT64_C(1) << 63,
				       UINT64_MAX};

	start();
	node_get(&table, get(FIRST_INO));
	for (unsigned i = 0; i < sizeof(ids) / sizeof(ids[0]); i++) {
		ck_assert_ptr_null(node_inode(&table, ids[i]));
		node_forget(&table, ids[i], 1);
		ck_assert(node_is_control(ids[i]) == (ids[i] > UINT32_MAX));
		ck_assert(node_ino(ids[i]) == 0 || !node_is_control(ids[i]));
	}
	ck_assert_uint_eq(node_ino(2), 0);
	ck_assert_uint_eq(node_ino(NODE_ROOT_ID), EXT4_ROOT_INO);
	ck_assert_uint_eq(node_ino(UINT32_MAX), UINT32_MAX);
	ck_assert_uint_eq(node_count(&table), 2);
	unmount();
	fx_free(&fs);
}
END_TEST

START_TEST(many_nodes_and_the_end)
{
	start();
	for (uint32_t i = 0; i < FILES; i++)
		for (uint32_t k = 0; k <= i % 3; k++)
			node_get(&table, get(FIRST_INO + i));
	ck_assert_uint_eq(node_count(&table), 1 + FILES);
	for (uint32_t i = 0; i < FILES; i += 2)
		node_forget(&table, FIRST_INO + i, 1 + i % 3);
	for (uint32_t i = 0; i < FILES; i++)
		ck_assert_int_eq(references(FIRST_INO + i), i % 2 == 0 ? 0 : 1);
	ck_assert_uint_eq(node_count(&table), 1 + FILES / 2);
	node_table_destroy(&table);
	for (uint32_t i = 0; i < FILES; i++)
		ck_assert_int_eq(references(FIRST_INO + i), 0);
	ck_assert_int_eq(fx_umount(&fs), 0);
	fx_free(&fs);
}
END_TEST

/* Looks up and forgets, now and then the last count; what is looked up can be found. */
static void *look_up_and_forget(void *arg)
{
	struct prng rng;

	prng_seed(&rng, (uint64_t)(uintptr_t)arg);
	for (unsigned i = 0; i < 4000; i++) {
		uint32_t ino = FIRST_INO + (uint32_t)prng_below(&rng, 8);
		struct inode *inode = get(ino);

		node_get(&table, inode);
		ck_assert_ptr_eq(node_inode(&table, ino), inode);
		ck_assert_uint_eq(node_id_of(&table, inode), ino);
		node_forget(&table, ino, 1);
	}
	return NULL;
}

START_TEST(threads_look_up_and_forget_the_same_files)
{
	pthread_t threads[4];

	start();
	for (uintptr_t i = 0; i < 4; i++)
		ck_assert_int_eq(
			pthread_create(&threads[i], NULL, look_up_and_forget, (void *)(i + 1)), 0);
	for (unsigned i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	ck_assert_uint_eq(node_count(&table), 1);
	for (uint32_t i = 0; i < 8; i++)
		ck_assert_int_eq(references(FIRST_INO + i), 0);
	unmount();
	fx_free(&fs);
}
END_TEST

START_TEST(cached_reads_are_taken_by_the_write_that_meets_them)
{
	uint64_t first, last;
	struct inode *n;

	start();
	n = get(12);
	ck_assert(!node_take_reads(n, 0, UINT64_MAX, &first, &last));
	node_note_read(n, 5 * 4096, 1);
	node_note_read(n, 8 * 4096 + 4095, 2);
	ck_assert(!node_take_reads(n, 0, 5 * 4096, &first, &last));
	ck_assert(!node_take_reads(n, 10 * 4096, 1, &first, &last));
	ck_assert(node_take_reads(n, 9 * 4096 + 7, 1, &first, &last));
	ck_assert_uint_eq(first, 5);
	ck_assert_uint_eq(last, 9);
	ck_assert(!node_take_reads(n, 5 * 4096, 5 * 4096, &first, &last));
	/* The first page, and the last one that can be named. */
	node_note_read(n, 0, 1);
	ck_assert(node_take_reads(n, 0, 1, &first, &last));
	ck_assert_uint_eq(first, 0);
	ck_assert_uint_eq(last, 0);
	node_note_read(n, (UINT64_C(1) << 44) - 1, 1);
	ck_assert(node_take_reads(n, (UINT64_C(1) << 44) - 1, 1, &first, &last));
	ck_assert_uint_eq(first, UINT32_MAX);
	iput(n);
	unmount();
	fx_free(&fs);
}
END_TEST

int main(void)
{
	return RUN_TESTS("fuse/node", all_look_ups_have_one_reference,
			 the_last_forget_puts_the_inode, a_handle_is_the_same_in_the_next_mount,
			 the_root_is_never_forgotten_and_has_no_generation,
			 numbers_that_mean_no_file, many_nodes_and_the_end,
			 threads_look_up_and_forget_the_same_files,
			 cached_reads_are_taken_by_the_write_that_meets_them);
}
