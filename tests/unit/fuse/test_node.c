/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * test_node.c - nodeids: one node for an inode, counts, references given back, generations never repeat.
 * The inodes are never put for the last time: a reference of the test's own stays.
 * Locking: none.
 */
#include <stdlib.h>

#include "fuse/node.h"
#include "tests/lib/suite.h"

#define NR_INODES 5000u
#define OWN_REFS 1

static struct node_table table;
static struct inode *inodes;

static struct inode *with_reference(unsigned i)
{
	atomic_fetch_add(&inodes[i].i_count, 1);
	return &inodes[i];
}

static int extra_references(unsigned i)
{
	return atomic_load(&inodes[i].i_count) - OWN_REFS;
}

static void start(void)
{
	inodes = calloc(NR_INODES, sizeof(*inodes));
	ck_assert_ptr_nonnull(inodes);
	for (unsigned i = 0; i < NR_INODES; i++) {
		inodes[i].i_ino = i + 2;
		inodes[i].i_nlink = 1;
		inodes[i].i_count = OWN_REFS;
	}
	ck_assert_int_eq(node_table_init(&table, with_reference(0)), 0);
}

START_TEST(an_inode_has_one_node_and_one_reference)
{
	struct node *a, *b;

	start();
	a = node_get(&table, with_reference(1));
	b = node_get(&table, with_reference(1));
	ck_assert_ptr_eq(a, b);
	ck_assert_int_eq(extra_references(1), 1);
	ck_assert_ptr_eq(a->n_inode, &inodes[1]);
	ck_assert_uint_eq(node_id_of(&table, &inodes[1]), a->n_id);
	ck_assert_ptr_eq(node_of(&table, a->n_id), a);
	ck_assert_uint_eq(node_id_of(&table, &inodes[2]), 0);
	node_table_destroy(&table);
}
END_TEST

START_TEST(the_last_forget_puts_the_inode)
{
	uint64_t id;

	start();
	for (int i = 0; i < 5; i++)
		id = node_get(&table, with_reference(1))->n_id;
	node_forget(&table, id, 3);
	ck_assert_int_eq(extra_references(1), 1);
	ck_assert_uint_eq(node_count(&table), 2);
	node_forget(&table, id, 2);
	ck_assert_int_eq(extra_references(1), 0);
	ck_assert_uint_eq(node_id_of(&table, &inodes[1]), 0);
	ck_assert_uint_eq(node_count(&table), 1);
	node_table_destroy(&table);
}
END_TEST

START_TEST(a_forgotten_node_comes_back_as_another)
{
	struct node *n;
	uint64_t generation;

	start();
	n = node_get(&table, with_reference(1));
	generation = n->n_generation;
	node_forget(&table, n->n_id, 1);
	n = node_get(&table, with_reference(1));
	ck_assert_uint_gt(n->n_generation, generation);
	node_table_destroy(&table);
}
END_TEST

START_TEST(the_root_is_never_forgotten)
{
	start();
	node_forget(&table, NODE_ROOT_ID, 1000);
	ck_assert_ptr_eq(node_of(&table, NODE_ROOT_ID)->n_inode, &inodes[0]);
	ck_assert_uint_eq(node_id_of(&table, &inodes[0]), NODE_ROOT_ID);
	ck_assert_int_eq(extra_references(0), 1);
	node_table_destroy(&table);
	ck_assert_int_eq(extra_references(0), 0);
}
END_TEST

START_TEST(many_nodes_and_the_end)
{
	start();
	for (unsigned i = 1; i < NR_INODES; i++)
		node_get(&table, with_reference(i));
	ck_assert_uint_eq(node_count(&table), NR_INODES);
	for (unsigned i = 1; i < NR_INODES; i += 2)
		node_forget(&table, node_id_of(&table, &inodes[i]), 1);
	for (unsigned i = 1; i < NR_INODES; i++)
		ck_assert_int_eq(extra_references(i), i % 2 == 0 ? 1 : 0);
	node_table_destroy(&table);
	for (unsigned i = 0; i < NR_INODES; i++)
		ck_assert_int_eq(extra_references(i), 0);
	free(inodes);
}
END_TEST

START_TEST(cached_reads_are_taken_by_the_write_that_meets_them)
{
	uint64_t first, last;
	struct node *n;

	start();
	n = node_get(&table, with_reference(1));
	ck_assert(!node_take_reads(n, 0, UINT64_MAX, &first, &last));
	node_note_read(n, 5 * 4096, 1);
	node_note_read(n, 8 * 4096 + 4095, 2);
	ck_assert(!node_take_reads(n, 0, 5 * 4096, &first, &last));
	ck_assert(!node_take_reads(n, 10 * 4096, 1, &first, &last));
	ck_assert(node_take_reads(n, 9 * 4096 + 7, 1, &first, &last));
	ck_assert_uint_eq(first, 5);
	ck_assert_uint_eq(last, 9);
	ck_assert(!node_take_reads(n, 5 * 4096, 5 * 4096, &first, &last));
	/* The last page that can be named. */
	node_note_read(n, (UINT64_C(1) << 44) - 1, 1);
	ck_assert(node_take_reads(n, (UINT64_C(1) << 44) - 1, 1, &first, &last));
	ck_assert_uint_eq(first, UINT32_MAX);
	node_forget(&table, n->n_id, 1);
	node_table_destroy(&table);
}
END_TEST

int main(void)
{
	return RUN_TESTS("fuse/node", an_inode_has_one_node_and_one_reference,
			 the_last_forget_puts_the_inode, a_forgotten_node_comes_back_as_another,
			 the_root_is_never_forgotten, many_nodes_and_the_end,
			 cached_reads_are_taken_by_the_write_that_meets_them);
}
