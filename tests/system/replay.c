/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * replay.c - sys_replay DIRTY REPLAYED: replay the log of the image DIRTY in memory, by the journal layer alone, and compare all blocks
 * outside the log with the image REPLAYED, but for the fields of the superblock that are no business of the log.
 *
 * It is a test of libcheck, whose assertions the helpers use.
 */
#include <stdio.h>

#include "tests/lib/suite.h"
#include "tests/lib/testlib.h"
#include "tests/unit/journal/ext4_image.h"

static char **paths;

static struct blkdev *load(const char *path)
{
	FILE *f = fopen(path, "rb");
	struct blkdev *dev;

	ck_assert_msg(f != NULL && fseeko(f, 0, SEEK_END) == 0, "%s cannot be opened", path);
	dev = mem_open((uint64_t)ftello(f), 512, NULL);
	fclose(f);
	ck_assert(!IS_ERR(dev));
	ck_assert_int_eq(testlib_load(dev, path), 0);
	return dev;
}

START_TEST(the_same_blocks)
{
	struct ext4_image ours, theirs;

	ei_open(&ours, load(paths[1]));
	ei_open(&theirs, load(paths[2]));
	ck_assert_int_eq(ei_recover(&ours), 0);
	ck_assert_uint_eq(ei_compare(&ours, &theirs), UINT64_MAX);
	blk_close(ours.ei_dev);
	blk_close(theirs.ei_dev);
}
END_TEST

int main(int argc, char **argv)
{
	Suite *s = suite_create("replay");
	TCase *tc = testlib_case("replay");

	if (argc != 3) {
		fprintf(stderr, "usage: %s DIRTY REPLAYED\n", argv[0]);
		return 2;
	}
	paths = argv;
	tcase_add_test(tc, the_same_blocks);
	suite_add_tcase(s, tc);
	return testlib_run_suite(s);
}
