/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * test_log.c - levels, sinks, one line for each message; clocks and assertions.
 * Locking: none.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/lib/suite.h"
#include "util/assert.h"
#include "util/log.h"
#include "util/time.h"

static char last[2048];
static enum log_level last_level;
static int lines;

static void keep(enum log_level level, const char *line, void *arg)
{
	*(int *)arg += 1;
	last_level = level;
	snprintf(last, sizeof(last), "%s", line);
}

START_TEST(levels_and_sink)
{
	log_set_sink(keep, &lines);
	log_debug("not seen");
	ck_assert_int_eq(lines, 0);
	errno = ENOSPC;
	log_warn("block %d of %s", 7, "x");
	ck_assert_int_eq(errno, ENOSPC);
	ck_assert_int_eq(lines, 1);
	ck_assert_int_eq(last_level, LOG_LEVEL_WARN);
	ck_assert_str_eq(last, "block 7 of x");
	log_set_level(LOG_LEVEL_DEBUG);
	log_debug("seen");
	ck_assert_str_eq(last, "seen");
	log_set_level(LOG_LEVEL_ERR);
	log_warn("not seen");
	ck_assert_str_eq(last, "seen");
}
END_TEST

START_TEST(a_message_is_one_line)
{
	char name[3000];

	log_set_sink(keep, &lines);
	memset(name, 'n', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	log_err("bad name %s", "a\nb\033c\xc3\xa4");
	ck_assert_str_eq(last, "bad name a?b?c\xc3\xa4");
	log_err("%s", name);
	ck_assert_uint_lt(strlen(last), 1024);
}
END_TEST

START_TEST(clocks)
{
	uint64_t a = now_ns();
	struct timespec real = now_real();
	struct timespec coarse = now_coarse();

	usleep(2000);
	ck_assert_uint_ge(now_ns() - a, 2000000);
	ck_assert_int_lt(llabs((long long)real.tv_sec - (long long)coarse.tv_sec), 2);
}
END_TEST

static struct timespec fixed_clock(void)
{
	return (struct timespec){.tv_sec = 1234, .tv_nsec = 5678};
}

START_TEST(wall_clock_hook)
{
	time_set_real_hook(fixed_clock);
	ck_assert_int_eq(now_real().tv_sec, 1234);
	ck_assert_int_eq(now_coarse().tv_nsec, 5678);
	time_set_real_hook(NULL);
	ck_assert_int_ne(now_real().tv_sec, 1234);
}
END_TEST

START_TEST(assertion_prints_both_sides_and_aborts)
{
	int pipe_fd[2];
	char text[1024];
	ssize_t n;
	int status;
	pid_t pid;

	ck_assert_int_eq(pipe(pipe_fd), 0);
	pid = fork();
	if (pid == 0) {
		dup2(pipe_fd[1], 2);
		ASSERT_CMP(2 + 3, <, 4);
		_exit(0);
	}
	close(pipe_fd[1]);
	n = read(pipe_fd[0], text, sizeof(text) - 1);
	ck_assert_int_gt(n, 0);
	text[n] = '\0';
	waitpid(pid, &status, 0);
	ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
	ck_assert_ptr_nonnull(strstr(text, "2 + 3 < 4 (5, 4)"));
}
END_TEST

int main(void)
{
	return RUN_TESTS("util/log", levels_and_sink, a_message_is_one_line, clocks,
			 wall_clock_hook, assertion_prints_both_sides_and_aborts);
}
