/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "tests/unit/writeback/wb_fixture.h"

static struct wb_domain wb;
static struct address_space as = {.as_wb = &wb};
static struct inode inode = {.i_mapping = &as};

START_TEST(error_is_told_once_to_each_opener)
{
	uint32_t a = wb_err_sample(&inode), b = wb_err_sample(&inode);

	ck_assert_int_eq(wb_err_check_and_advance(&inode, &a), 0);
	mapping_set_error(&as, -EIO);
	ck_assert_int_eq(wb_err_check_and_advance(&inode, &a), -EIO);
	ck_assert_int_eq(wb_err_check_and_advance(&inode, &a), 0);
	ck_assert_int_eq(wb_err_check_and_advance(&inode, &b), -EIO);
	ck_assert_int_eq(wb_err_check_and_advance(&inode, &b), 0);
}
END_TEST

START_TEST(opener_hears_of_an_error_that_nobody_has_seen)
{
	uint32_t a, b;

	atomic_store(&as.as_wb_err, 0);
	mapping_set_error(&as, -ENOSPC);
	a = wb_err_sample(&inode);
	ck_assert_int_eq(wb_err_check_and_advance(&inode, &a), -ENOSPC);
	/* Seen: whoever opens now does not. */
	b = wb_err_sample(&inode);
	ck_assert_int_eq(wb_err_check_and_advance(&inode, &b), 0);
}
END_TEST

START_TEST(second_error_is_told_again)
{
	uint32_t a;

	atomic_store(&as.as_wb_err, 0);
	a = wb_err_sample(&inode);
	mapping_set_error(&as, -EIO);
	ck_assert_int_eq(wb_err_check_and_advance(&inode, &a), -EIO);
	mapping_set_error(&as, -EIO);
	ck_assert_int_eq(wb_err_check_and_advance(&inode, &a), -EIO);
	ck_assert_int_eq(wb_err_check_and_advance(&inode, &a), 0);
}
END_TEST

START_TEST(other_errors_become_eio)
{
	uint32_t a;

	atomic_store(&as.as_wb_err, 0);
	a = wb_err_sample(&inode);
	mapping_set_error(&as, -EROFS);
	ck_assert_int_eq(wb_err_check_and_advance(&inode, &a), -EIO);
}
END_TEST

int main(void)
{
	return RUN_TESTS("writeback/errseq", error_is_told_once_to_each_opener,
			 opener_hears_of_an_error_that_nobody_has_seen, second_error_is_told_again,
			 other_errors_become_eio);
}
