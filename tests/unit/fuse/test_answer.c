/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * test_answer.c - directory entries in the form of the protocol.
 */
#include "fuse/answer.h"

#include <string.h>

#include "tests/lib/suite.h"

static const struct timespec far = {.tv_sec = (time_t)INT64_C(5000000000), .tv_nsec = 7};

START_TEST(an_entry_that_does_not_fit_is_not_written)
{
	struct stat st = {.st_ino = 9, .st_mode = S_IFDIR};
	char buf[64];

	memset(buf, 0x5a, sizeof(buf));
	/* 24 bytes, a name of 9, and 7 up to the next multiple of 8. */
	ck_assert_uint_eq(answer_dirent(buf, 39, "name-of-9", &st, 77), 40);
	for (size_t i = 0; i < sizeof(buf); i++)
		ck_assert_int_eq(buf[i], 0x5a);
	ck_assert_uint_eq(answer_dirent(buf, 40, "name-of-9", &st, 77), 40);
	ck_assert_int_eq(buf[40], 0x5a);
}
END_TEST

START_TEST(an_entry_reads_back)
{
	struct stat st = {.st_ino = UINT64_C(1) << 31, .st_mode = S_IFLNK | 0777};
	struct fuse_dirent head;
	char buf[64];

	memset(buf, 0x5a, sizeof(buf));
	answer_dirent(buf, sizeof(buf), "abc", &st, INT64_C(1) << 62);
	memcpy(&head, buf, FUSE_NAME_OFFSET);
	ck_assert_uint_eq(head.ino, UINT64_C(1) << 31);
	ck_assert_uint_eq(head.off, UINT64_C(1) << 62);
	ck_assert_uint_eq(head.namelen, 3);
	ck_assert_uint_eq(head.type, 10); /* DT_LNK */
	ck_assert_int_eq(memcmp(buf + FUSE_NAME_OFFSET, "abc\0\0\0\0\0", 8), 0);
	ck_assert_int_eq(buf[32], 0x5a);
}
END_TEST

START_TEST(an_entry_with_attributes_keeps_them_all)
{
	struct fuse_entry_param e = {
		.ino = 12,
		.generation = 3,
		.entry_timeout = 2.5,
		.attr_timeout = 1,
		.attr = {.st_ino = 11,
			 .st_mode = S_IFREG | 0640,
			 .st_size = INT64_C(1) << 40,
			 .st_blocks = 8,
			 .st_nlink = 2,
			 .st_uid = 1000,
			 .st_gid = 4294967290u,
			 .st_rdev = 0,
			 .st_blksize = 4096},
	};
	_Alignas(8) char buf[256];
	const struct fuse_direntplus *dp = (const void *)buf;
	const struct fuse_attr *a = &dp->entry_out.attr;

	e.attr.st_mtim = far;
	e.attr.st_atim = (struct timespec){.tv_sec = -5, .tv_nsec = 1};
	ck_assert_uint_eq(answer_direntplus(buf, sizeof(buf), "abc", &e, 4), 160);
	ck_assert_uint_eq(dp->entry_out.nodeid, 12);
	ck_assert_uint_eq(dp->entry_out.generation, 3);
	ck_assert_uint_eq(dp->entry_out.entry_valid, 2);
	ck_assert_uint_eq(dp->entry_out.entry_valid_nsec, 500000000);
	ck_assert_uint_eq(dp->entry_out.attr_valid, 1);
	ck_assert_uint_eq(a->mtime, UINT64_C(5000000000));
	ck_assert_uint_eq(a->mtimensec, 7);
	ck_assert_int_eq((int64_t)a->atime, -5);
	ck_assert_uint_eq(a->size, UINT64_C(1) << 40);
	ck_assert_uint_eq(a->mode, S_IFREG | 0640);
	ck_assert_uint_eq(a->gid, 4294967290u);
	ck_assert_uint_eq(dp->dirent.ino, 11);
	ck_assert_uint_eq(dp->dirent.off, 4);
	ck_assert_uint_eq(dp->dirent.type, 8); /* DT_REG */
	ck_assert_int_eq(memcmp(dp->dirent.name, "abc", 4), 0);
}
END_TEST

int main(void)
{
	return RUN_TESTS("fuse/answer", an_entry_that_does_not_fit_is_not_written,
			 an_entry_reads_back, an_entry_with_attributes_keeps_them_all);
}
