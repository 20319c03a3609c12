/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * test_lock.c - the order of locks is enforced in debug builds; waits are announced.
 *
 * A violation aborts, so each is made in a child process; without EXT4D_DEBUG the same steps must
 * do nothing.
 * Locking: what is tested.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/lib/suite.h"
#include "util/lock.h"
#include "util/time.h"

#ifdef EXT4D_DEBUG
#define CHECKED true
#else
#define CHECKED false
#endif

static struct mutex outer, inner, peer;
static struct rwsem sem;
static struct cond cond;
static _Atomic int begun, ended, stage;

static void setup(void)
{
	mutex_init(&outer, LOCK_RANK_I_DATA_SEM);
	mutex_init(&inner, LOCK_RANK_LEAF);
	mutex_init(&peer, LOCK_RANK_LEAF);
	rwsem_init(&sem, LOCK_RANK_I_RWSEM);
	cond_init(&cond);
}

/* True if fn aborts. */
static bool aborts(void (*fn)(void))
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		int null_fd = open("/dev/null", O_WRONLY | O_CLOEXEC);

		dup2(null_fd, 2);
		fn();
		_exit(0);
	}
	waitpid(pid, &status, 0);
	return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}

static void right_order(void)
{
	down_read(&sem);
	lock_rank_enter(LOCK_RANK_HANDLE);
	lock_rank_enter(LOCK_RANK_PAGE);
	lock_rank_enter(LOCK_RANK_PAGE);
	mutex_lock(&outer);
	mutex_lock(&inner);
	mutex_lock_nested(&peer);
	mutex_assert_held(&outer);
	mutex_unlock(&outer);
	mutex_unlock(&peer);
	mutex_unlock(&inner);
	lock_rank_leave(LOCK_RANK_PAGE);
	lock_rank_leave(LOCK_RANK_PAGE);
	lock_rank_leave(LOCK_RANK_HANDLE);
	up_read(&sem);
	lock_assert_none_from(LOCK_RANK_MOUNT);
}

static void wrong_order(void)
{
	mutex_lock(&inner);
	mutex_lock(&outer);
}

static void same_rank(void)
{
	mutex_lock(&inner);
	mutex_lock(&peer);
}

static void read_under_mutex(void)
{
	mutex_lock(&outer);
	down_read(&sem);
}

static void handle_under_page(void)
{
	lock_rank_enter(LOCK_RANK_PAGE);
	lock_rank_enter(LOCK_RANK_HANDLE);
}

static void rank_is_left_twice(void)
{
	lock_rank_enter(LOCK_RANK_PAGE);
	lock_rank_leave(LOCK_RANK_PAGE);
	lock_rank_leave(LOCK_RANK_PAGE);
}

static void not_held(void)
{
	mutex_assert_held(&outer);
}

static void wait_with_later_lock(void)
{
	mutex_lock(&inner);
	lock_assert_none_from(LOCK_RANK_PAGE);
}

static void try_in_any_order(void)
{
	mutex_lock(&inner);
	if (!mutex_trylock(&outer) || !down_write_trylock(&sem))
		raise(SIGABRT);
	up_write(&sem);
	mutex_unlock(&outer);
	mutex_unlock(&inner);
}

START_TEST(order_is_enforced)
{
	setup();
	ck_assert(!aborts(right_order));
	ck_assert(!aborts(try_in_any_order));
	ck_assert(aborts(wrong_order) == CHECKED);
	ck_assert(aborts(same_rank) == CHECKED);
	ck_assert(aborts(read_under_mutex) == CHECKED);
	ck_assert(aborts(handle_under_page) == CHECKED);
	ck_assert(aborts(rank_is_left_twice) == CHECKED);
	ck_assert(aborts(not_held) == CHECKED);
	ck_assert(aborts(wait_with_later_lock) == CHECKED);
}
END_TEST

static void on_begin(void *arg)
{
	ck_assert_ptr_eq(arg, &sem);
	atomic_fetch_add(&begun, 1);
}

static void on_end(void *arg)
{
	ck_assert_ptr_eq(arg, &sem);
	atomic_fetch_add(&ended, 1);
}

static const struct block_hooks hooks = {on_begin, on_end, &sem};

static void wait_until(_Atomic int *what, int value)
{
	while (atomic_load(what) < value)
		usleep(500);
}

static void *contender(void *arg)
{
	(void)arg;
	thread_set_block_hooks(&hooks);
	down_write(&sem);
	up_write(&sem);
	thread_block_begin();
	thread_block_begin();
	thread_block_end();
	thread_block_end();
	return NULL;
}

START_TEST(contended_rwsem_is_announced_and_nesting_counts_once)
{
	pthread_t thread;

	setup();
	down_read(&sem);
	pthread_create(&thread, NULL, contender, NULL);
	wait_until(&begun, 1);
	ck_assert_int_eq(atomic_load(&ended), 0);
	up_read(&sem);
	pthread_join(thread, NULL);
	ck_assert_int_eq(atomic_load(&begun), 2);
	ck_assert_int_eq(atomic_load(&ended), 2);
}
END_TEST

static void *writer(void *arg)
{
	(void)arg;
	thread_set_block_hooks(&hooks);
	down_write(&sem);
	atomic_store(&stage, 1);
	up_write(&sem);
	return NULL;
}

START_TEST(a_waiting_writer_goes_before_new_readers)
{
	pthread_t thread;

	setup();
	down_read(&sem);
	pthread_create(&thread, NULL, writer, NULL);
	wait_until(&begun, 1);
	/* It announces its wait before it waits. */
	while (down_read_trylock(&sem)) {
		up_read(&sem);
		usleep(500);
	}
	up_read(&sem);
	down_read(&sem);
	ck_assert_int_eq(atomic_load(&stage), 1);
	up_read(&sem);
	pthread_join(thread, NULL);
}
END_TEST

static void *signaller(void *arg)
{
	(void)arg;
	mutex_lock(&inner);
	atomic_store(&stage, 1);
	cond_signal(&cond);
	mutex_unlock(&inner);
	return NULL;
}

START_TEST(condition_wakes_and_times_out)
{
	pthread_t thread;
	uint64_t start = now_ns();

	setup();
	mutex_lock(&inner);
	ck_assert_int_eq(cond_timedwait(&cond, &inner, start + 5000000), -ETIMEDOUT);
	ck_assert_uint_ge(now_ns() - start, 5000000);
	pthread_create(&thread, NULL, signaller, NULL);
	while (atomic_load(&stage) == 0)
		cond_wait(&cond, &inner);
	mutex_unlock(&inner);
	pthread_join(thread, NULL);
}
END_TEST

int main(void)
{
	return RUN_TESTS("util/lock", order_is_enforced,
			 contended_rwsem_is_announced_and_nesting_counts_once,
			 a_waiting_writer_goes_before_new_readers, condition_wakes_and_times_out);
}
