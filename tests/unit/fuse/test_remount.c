/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * test_remount.c - what the table of mounts says of one.
 * Locking: none.
 */
#include <stdlib.h>
#include <string.h>

#include "fuse/remount.h"
#include "tests/lib/suite.h"

static const char table[] =
	"22 1 254:0 / / rw,relatime - ext4 /dev/vda rw,discard\n"
	"30 22 0:40 / /mnt rw,relatime shared:5 - fuseblk.ext4d /dev/loop0 rw,user_id=0\n"
	"31 22 0:41 / /mnt2 rw,relatime - fuseblk.ext4d /dev/loop1 ro,user_id=0\n"
	"32 22 0:42 / /a\\040b\\134c ro,relatime master:1 propagate_from:2 - fuse.ext4d a ro\n"
	"33 30 0:43 / /top rw - tmpfs tmpfs rw\n"
	"34 33 0:44 / /top ro - fuseblk.ext4d /dev/loop2 ro,x=1\n"
	"35 22 0:45 / /bind ro,relatime - fuseblk.ext4d /dev/loop0 rw,user_id=0\n"
	"36 22 0:46 / /roses rw - fuse.ext4d a roses\n";

static int ask(const char *mountpoint)
{
	char *text = strdup(table);
	bool read_only = false;
	bool found = remount_parse(text, mountpoint, &read_only);

	free(text);
	return found ? (int)read_only : -1;
}

START_TEST(the_super_block_counts_not_the_mount)
{
	ck_assert_int_eq(ask("/mnt"), 0);
	ck_assert_int_eq(ask("/mnt2"), 1);
	ck_assert_int_eq(ask("/bind"), 0);
	ck_assert_int_eq(ask("/roses"), 0);
}
END_TEST

START_TEST(names_are_whole_and_unescaped_and_the_last_one_counts)
{
	ck_assert_int_eq(ask("/a b\\c"), 1);
	ck_assert_int_eq(ask("/top"), 1);
	ck_assert_int_eq(ask("/mn"), -1);
	ck_assert_int_eq(ask("/nothing"), -1);
}
END_TEST

START_TEST(broken_tables_are_survived)
{
	static const char *const bad[] = {
		"",
		"\n\n",
		" - ",
		"1 2 3 - a b ro",
		"1 2 3 4 /mnt",
		"1 2 3 4 /mnt o - x",
		"1 2 3 4 /mnt\\ o -  ",
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		char *text = strdup(bad[i]);
		bool read_only;

		ck_assert(!remount_parse(text, "/mnt", &read_only));
		free(text);
	}
}
END_TEST

int main(void)
{
	return RUN_TESTS("fuse/remount", the_super_block_counts_not_the_mount,
			 names_are_whole_and_unescaped_and_the_last_one_counts,
			 broken_tables_are_survived);
}
