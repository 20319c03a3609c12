/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * test_device.c - the back ends that do real I/O, uring and psync, on an image file.
 *
 * Each test runs once for each back end; uring is skipped where the system has none, which is
 * said on stderr.
 * Locking: completions count under one mutex.
 */
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "block/blkdev.h"
#include "tests/lib/pattern.h"
#include "tests/lib/prng.h"
#include "tests/lib/suite.h"
#include "tests/lib/testlib.h"
#include "util/err.h"
#include "util/lock.h"
#include "util/log.h"

#define MIB (1u << 20)
#define SIZE (32u * MIB)
#define BS 4096u

static const char *const backends[] = {"uring", "psync"};
static char *image;
static struct mutex done_lock;
static struct cond done_cond;
static unsigned done_count; /* [done_lock] */
static int done_status;	    /* [done_lock] the first error */

static struct blkdev *open_backend(const char *name, unsigned depth)
{
	struct blk_open_args args = {
		.ba_backend = name, .ba_direct = true, .ba_queue_depth = depth};
	struct blkdev *bd;

	image = testlib_tempfile();
	ck_assert_int_eq(truncate(image, SIZE), 0);
	args.ba_path = image;
	mutex_init(&done_lock, LOCK_RANK_NONE);
	cond_init(&done_cond);
	done_count = 0;
	done_status = 0;
	bd = blk_open(&args);
	if (IS_ERR(bd) && PTR_ERR(bd) == -ENOSYS) {
		fprintf(stderr, "skipped: no io_uring on this system\n");
		unlink(image);
		free(image);
		return NULL;
	}
	ck_assert_msg(!IS_ERR(bd), "%s: error %d", name, PTR_ERR(bd));
	ck_assert_uint_eq(bd->bd_size_bytes, SIZE);
	return bd;
}

static void close_backend(struct blkdev *bd)
{
	blk_close(bd);
	unlink(image);
	free(image);
}

/* What the image file holds, not what the device says. */
static void check_image(uint64_t offset, size_t len, uint64_t tag, uint64_t pos)
{
	uint8_t *buf = malloc(len);
	int fd = open(image, O_RDONLY | O_CLOEXEC);

	ck_assert_int_eq(pread(fd, buf, len, (off_t)offset), (ssize_t)len);
	pattern_check(buf, len, tag, pos);
	close(fd);
	free(buf);
}

static void note_done(int status)
{
	mutex_lock(&done_lock);
	done_count++;
	if (done_status == 0)
		done_status = status;
	cond_signal(&done_cond);
	mutex_unlock(&done_lock);
}

static void count_end(struct bio *bio)
{
	note_done(bio->bi_status);
}

static void wait_done(unsigned n)
{
	mutex_lock(&done_lock);
	while (done_count < n)
		cond_wait(&done_cond, &done_lock);
	ck_assert_int_eq(done_status, 0);
	mutex_unlock(&done_lock);
}

START_TEST(sync_calls_at_any_memory_alignment)
{
	struct blkdev *bd = open_backend(backends[_i], 0);
	uint8_t *raw;

	if (bd == NULL)
		return;
	raw = aligned_alloc(4096, 4 * MIB);
	for (unsigned shift = 0; shift < 3; shift++) {
		uint8_t *buf = raw + shift * 257;

		pattern_fill(buf, 3 * MIB, shift, 0);
		ck_assert_int_eq(blk_write(bd, 8 * BS, buf, 3 * MIB, shift == 2 ? REQ_FUA : 0), 0);
		ck_assert_int_eq(blk_flush(bd), 0);
		memset(buf, 0, 3 * MIB);
		ck_assert_int_eq(blk_read(bd, 8 * BS, buf, 3 * MIB, 0), 0);
		pattern_check(buf, 3 * MIB, shift, 0);
		check_image(8 * BS, 3 * MIB, shift, 0);
	}
	ck_assert_int_eq(blk_read(bd, SIZE - BS, raw, BS, 0), 0);
	ck_assert_int_eq(blk_read(bd, SIZE, raw, BS, 0), -EIO);
	free(raw);
	close_backend(bd);
}
END_TEST

#define ASYNC 200u

struct async_io {
	struct bio io_bio;
	struct iovec io_iov[4];
};

/* One request for the n-th 32 KiB of the device, from memory cut in a way that depends on n. */
static void make_io(struct async_io *io, enum req_op op, uint8_t *base, unsigned n)
{
	uint8_t *mem = base + (size_t)n * 8 * BS;

	memset(io, 0, sizeof(*io));
	io->io_bio.bi_op = op;
	io->io_bio.bi_flags = n % 7 == 0 && op == REQ_OP_WRITE ? REQ_FUA : 0;
	io->io_bio.bi_offset_bytes = (uint64_t)n * 8 * BS;
	io->io_bio.bi_len_bytes = 8 * BS;
	io->io_bio.bi_iov = io->io_iov;
	io->io_bio.bi_end_io = count_end;
	switch (n % 4) {
	case 0: /* one piece */
		io->io_iov[0] = (struct iovec){mem, 8 * BS};
		io->io_bio.bi_iovcnt = 1;
		break;
	case 1: /* pieces that touch */
		io->io_iov[0] = (struct iovec){mem, BS};
		io->io_iov[1] = (struct iovec){mem + BS, 7 * BS};
		io->io_bio.bi_iovcnt = 2;
		break;
	case 2: /* pieces out of order */
		io->io_iov[0] = (struct iovec){mem + 4 * BS, 4 * BS};
		io->io_iov[1] = (struct iovec){mem, 4 * BS};
		io->io_bio.bi_iovcnt = 2;
		break;
	default: /* unaligned pieces */
		io->io_iov[0] = (struct iovec){mem, 100};
		io->io_iov[1] = (struct iovec){mem + 100, 8 * BS - 100};
		io->io_bio.bi_iovcnt = 2;
		break;
	}
}

static void run_all(struct blkdev *bd, enum req_op op, uint8_t *base, bool plugged)
{
	static struct async_io ios[ASYNC];
	static struct bio *bios[ASYNC];

	done_count = 0;
	for (unsigned i = 0; i < ASYNC; i++) {
		make_io(&ios[i], op, base, i);
		bios[i] = &ios[i].io_bio;
	}
	if (plugged) {
		blk_start_plug(bd);
		for (unsigned i = 0; i < ASYNC; i++)
			blk_submit_one(bd, bios[i]);
		blk_finish_plug(bd);
	} else {
		blk_submit(bd, bios, ASYNC);
	}
	wait_done(ASYNC);
}

static uint64_t from_registered;

static void find_fixed(void *arg, const char *name, uint64_t value)
{
	(void)arg;
	if (strcmp(name, "uring.from_registered_memory") == 0)
		from_registered = value;
}

static void async_round(struct blkdev *bd, bool registered, bool plugged)
{
	size_t len = (size_t)ASYNC * 8 * BS;
	uint8_t *out = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint8_t *in = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int err = -1;

	if (registered) {
		err = blk_register_memory(bd, out, len / 2);
		ck_assert_int_eq(blk_register_memory(bd, out + len / 2, len / 2), err);
		ck_assert_int_eq(blk_register_memory(bd, in, len), err);
	}
	pattern_fill(out, len, registered, 0);
	run_all(bd, REQ_OP_WRITE, out, plugged);
	run_all(bd, REQ_OP_READ, in, plugged);
	ck_assert_int_eq(memcmp(in, out, len), 0);
	check_image(0, 2 * BS, registered, 0);
	check_image(17 * 8 * BS, 8 * BS, registered, 17 * 8 * BS);
	if (registered && err == 0) {
		blk_print_stats(bd, find_fixed, NULL);
		if (strcmp(bd->bd_name, "uring") == 0)
			ck_assert_uint_ge(from_registered, ASYNC);
		blk_unregister_memory(bd, in, len);
		blk_unregister_memory(bd, out, len / 2);
		blk_unregister_memory(bd, out + len / 2, len / 2);
		run_all(bd, REQ_OP_READ, in, false);
		ck_assert_int_eq(memcmp(in, out, len), 0);
	}
	munmap(out, len);
	munmap(in, len);
}

START_TEST(many_requests_at_once)
{
	struct blkdev *bd = open_backend(backends[_i], 0);

	if (bd == NULL)
		return;
	async_round(bd, false, false);
	async_round(bd, false, true);
	async_round(bd, true, true);
	close_backend(bd);
}
END_TEST

START_TEST(a_full_queue_drains)
{
	struct blkdev *bd = open_backend(backends[_i], 2);

	if (bd == NULL)
		return;
	async_round(bd, false, false);
	async_round(bd, false, true);
	close_backend(bd);
}
END_TEST

struct chain {
	struct bio ch_bio;
	struct iovec ch_iov;
	struct blkdev *ch_bd;
	unsigned ch_left;
	uint8_t *ch_buf;
};

static void chain_next(struct bio *bio)
{
	struct chain *ch = bio->bi_private;

	if (bio->bi_status != 0 || ch->ch_left == 0) {
		note_done(bio->bi_status);
		return;
	}
	ch->ch_left--;
	bio->bi_offset_bytes += 2 * BS;
	/* Some go to the worker: its callbacks submit too. */
	ch->ch_iov.iov_base = ch->ch_buf + (ch->ch_left % 3 == 0 ? 8 : 0);
	blk_submit_one(ch->ch_bd, bio);
}

START_TEST(callbacks_submit_when_the_queue_is_full)
{
	enum { CHAINS = 16, LINKS = 40 };
	static struct chain chains[CHAINS];
	struct blkdev *bd = open_backend(backends[_i], 4);

	if (bd == NULL)
		return;
	for (unsigned i = 0; i < CHAINS; i++) {
		struct chain *ch = &chains[i];

		ch->ch_buf = aligned_alloc(BS, 2 * BS);
		ch->ch_bd = bd;
		ch->ch_left = LINKS;
		ch->ch_iov = (struct iovec){ch->ch_buf, BS};
		memset(ch->ch_buf, (int)i + 1, 2 * BS);
		ch->ch_bio = (struct bio){.bi_op = REQ_OP_WRITE,
					  .bi_offset_bytes = (uint64_t)i * 2 * BS * (LINKS + 1),
					  .bi_len_bytes = BS,
					  .bi_iov = &ch->ch_iov,
					  .bi_iovcnt = 1,
					  .bi_end_io = chain_next,
					  .bi_private = ch};
		blk_submit_one(bd, &ch->ch_bio);
	}
	wait_done(CHAINS);
	for (unsigned i = 0; i < CHAINS * (LINKS + 1); i++) {
		uint8_t buf[BS];

		ck_assert_int_eq(blk_read(bd, (uint64_t)i * 2 * BS, buf, BS, 0), 0);
		ck_assert_int_eq(bytes_mismatch(buf, BS, (uint8_t)(i / (LINKS + 1) + 1)), -1);
	}
	for (unsigned i = 0; i < CHAINS; i++)
		free(chains[i].ch_buf);
	close_backend(bd);
}
END_TEST

START_TEST(discard_zeroes_and_flush)
{
	struct blkdev *bd = open_backend(backends[_i], 0);
	struct bio flush = {.bi_op = REQ_OP_FLUSH, .bi_end_io = count_end};
	struct bio discard = {.bi_op = REQ_OP_DISCARD,
			      .bi_offset_bytes = 64 * BS,
			      .bi_len_bytes = 16 * BS,
			      .bi_end_io = count_end};
	uint8_t *buf;

	if (bd == NULL)
		return;
	buf = aligned_alloc(BS, MIB);
	pattern_fill(buf, MIB, 5, 0);
	ck_assert_int_eq(blk_write(bd, 0, buf, MIB, 0), 0);
	ck_assert_int_eq(blk_zeroout(bd, BS, 32 * BS), 0);
	ck_assert_int_eq(blk_discard(bd, 40 * BS, BS), 0);
	blk_submit_one(bd, &discard);
	blk_submit_one(bd, &flush);
	wait_done(2);
	ck_assert_int_eq(blk_read(bd, 0, buf, MIB, 0), 0);
	pattern_check(buf, BS, 5, 0);
	ck_assert_int_eq(bytes_mismatch(buf + BS, 32 * BS, 0), -1);
	pattern_check(buf + 33 * BS, 7 * BS, 5, 33 * BS);
	ck_assert_int_eq(bytes_mismatch(buf + 40 * BS, BS, 0), -1);
	pattern_check(buf + 41 * BS, 23 * BS, 5, 41 * BS);
	ck_assert_int_eq(bytes_mismatch(buf + 64 * BS, 16 * BS, 0), -1);
	pattern_check(buf + 80 * BS, MIB - 80 * BS, 5, 80 * BS);
	free(buf);
	close_backend(bd);
}
END_TEST

START_TEST(a_short_read_is_an_error)
{
	struct blkdev *bd = open_backend(backends[_i], 0);
	uint8_t *buf;
	struct iovec iov;
	struct bio bio = {.bi_op = REQ_OP_READ,
			  .bi_offset_bytes = MIB,
			  .bi_len_bytes = 8 * BS,
			  .bi_iov = &iov,
			  .bi_iovcnt = 1,
			  .bi_end_io = count_end};

	if (bd == NULL)
		return;
	buf = aligned_alloc(BS, 8 * BS);
	iov = (struct iovec){buf, 8 * BS};
	ck_assert_int_eq(truncate(image, MIB + 3 * BS), 0);
	blk_submit_one(bd, &bio);
	mutex_lock(&done_lock);
	while (done_count < 1)
		cond_wait(&done_cond, &done_lock);
	ck_assert_int_eq(done_status, -EIO);
	mutex_unlock(&done_lock);
	ck_assert_int_eq(blk_read(bd, MIB, buf, 8 * BS, 0), -EIO);
	ck_assert_int_eq(blk_read(bd, MIB, buf, 3 * BS, 0), 0);
	free(buf);
	close_backend(bd);
}
END_TEST

static void *short_lived(void *arg)
{
	struct bio **bios = arg;

	/* It ends while its requests are in flight. */
	blk_submit(bios[0]->bi_private, bios, 8);
	return NULL;
}

START_TEST(requests_outlive_their_thread)
{
	static struct async_io ios[64];
	static struct bio *bios[64];
	struct blkdev *bd = open_backend(backends[_i], 0);
	pthread_t threads[8];
	uint8_t *base;

	if (bd == NULL)
		return;
	base = aligned_alloc(BS, 64 * 8 * BS);
	pattern_fill(base, 64 * 8 * BS, 6, 0);
	for (unsigned i = 0; i < 64; i++) {
		make_io(&ios[i], REQ_OP_WRITE, base, i);
		ios[i].io_bio.bi_private = bd;
		if (i % 8 == 7)
			ios[i].io_bio = (struct bio){
				.bi_op = REQ_OP_FLUSH, .bi_end_io = count_end, .bi_private = bd};
		bios[i] = &ios[i].io_bio;
	}
	for (unsigned t = 0; t < 8; t++)
		pthread_create(&threads[t], NULL, short_lived, &bios[t * 8]);
	for (unsigned t = 0; t < 8; t++)
		pthread_join(threads[t], NULL);
	wait_done(64);
	for (unsigned i = 0; i < 64; i++)
		if (i % 8 != 7 && i % 4 != 2)
			check_image((uint64_t)i * 8 * BS, 8 * BS, 6, (uint64_t)i * 8 * BS);
	free(base);
	close_backend(bd);
}
END_TEST

START_TEST(blocking_sends_plugged_requests_out)
{
	static struct async_io io;
	struct blkdev *bd = open_backend(backends[_i], 0);
	uint8_t *base;

	if (bd == NULL)
		return;
	base = aligned_alloc(BS, 8 * BS);
	make_io(&io, REQ_OP_WRITE, base, 0);
	blk_start_plug(bd);
	blk_submit_one(bd, &io.io_bio);
	/* Would wait for ever if the plug held it back. */
	wait_done(1);
	blk_finish_plug(bd);
	free(base);
	close_backend(bd);
}
END_TEST

static pthread_t waiter;
static _Atomic unsigned ended_by_waiter;

static void note_thread(struct bio *bio)
{
	if (pthread_equal(waiter, pthread_self()))
		atomic_fetch_add(&ended_by_waiter, 1);
	count_end(bio);
}

START_TEST(a_thread_that_waits_for_one_plugged_request_carries_it_out)
{
	static struct async_io ios[2];
	struct blkdev *bd = open_backend(backends[_i], 0);
	uint8_t *base;

	if (bd == NULL)
		return;
	waiter = pthread_self();
	base = aligned_alloc(BS, 16 * BS);
	pattern_fill(base, 16 * BS, 3, 0);
	for (unsigned n = 1; n <= 2; n++) {
		done_count = 0;
		blk_start_plug(bd);
		for (unsigned i = 0; i < n; i++) {
			make_io(&ios[i], REQ_OP_WRITE, base, i);
			ios[i].io_bio.bi_end_io = note_thread;
			blk_submit_one(bd, &ios[i].io_bio);
		}
		blk_finish_plug_wait(bd);
		wait_done(n);
		if (n == 1)
			ck_assert_uint_eq(atomic_load(&ended_by_waiter), 1);
	}
	check_image(0, 16 * BS, 3, 0);
	free(base);
	close_backend(bd);
}
END_TEST

/*
 * From now on this process has no io_uring, as under many container run-times. Where no filter can
 * be had (qemu-user) there must be none anyway.
 */
static void forbid_io_uring(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_io_uring_setup, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog prog = {.len = 4, .filter = code};

	ck_assert_int_eq(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
	if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog) == 0)
		return;
	ck_assert_int_eq(syscall(__NR_io_uring_setup, 0, NULL), -1);
	ck_assert_int_eq(errno, ENOSYS);
}

static unsigned messages;

static void count_message(enum log_level level, const char *line, void *arg)
{
	(void)level;
	(void)arg;
	messages += strstr(line, "io_uring") != NULL;
}

START_TEST(without_io_uring_the_default_is_psync)
{
	struct blk_open_args args = {.ba_direct = true};
	struct blkdev *bd;
	uint8_t buf[512];

	forbid_io_uring();
	log_set_sink(count_message, NULL);
	args.ba_path = image = testlib_tempfile();
	ck_assert_int_eq(truncate(image, MIB), 0);
	args.ba_backend = "uring";
	ck_assert_int_eq(PTR_ERR(blk_open(&args)), -ENOSYS);
	ck_assert_uint_eq(messages, 1);
	args.ba_backend = NULL;
	bd = blk_open(&args);
	ck_assert(!IS_ERR(bd));
	ck_assert_uint_eq(messages, 2);
	ck_assert_str_eq(bd->bd_name, "psync");
	ck_assert_int_eq(blk_read(bd, 0, buf, 512, 0), 0);
	close_backend(bd);
}
END_TEST

START_TEST(failures_to_open)
{
	struct blk_open_args args = {.ba_path = "/nonexistent/image", .ba_backend = "psync"};

	ck_assert_int_eq(PTR_ERR(blk_open(&args)), -ENOENT);
	args.ba_backend = "floppy";
	ck_assert_int_eq(PTR_ERR(blk_open(&args)), -EINVAL);
	args.ba_backend = NULL;
	args.ba_path = "/dev/null";
	args.ba_read_only = true;
	ck_assert_int_eq(PTR_ERR(blk_open(&args)), -ENOTBLK);
}
END_TEST

START_TEST(read_only_and_buffered)
{
	struct blk_open_args args = {.ba_backend = "psync", .ba_read_only = true};
	struct blkdev *bd;
	uint8_t buf[512] = {1};

	args.ba_path = image = testlib_tempfile();
	ck_assert_int_eq(truncate(image, 100000), 0);
	bd = blk_open(&args);
	ck_assert(!IS_ERR(bd));
	ck_assert_uint_eq(bd->bd_size_bytes, 100000 / 512 * 512);
	ck_assert_int_eq(blk_write(bd, 0, buf, 512, 0), -EROFS);
	ck_assert_int_eq(blk_read(bd, 512, buf, 512, 0), 0);
	ck_assert_uint_eq(buf[0], 0);
	blk_close(bd);
	args.ba_read_only = false;
	bd = blk_open(&args);
	pattern_fill(buf, 512, 1, 0);
	ck_assert_int_eq(blk_write(bd, 512, buf, 512, REQ_FUA), 0);
	ck_assert_int_eq(blk_flush(bd), 0);
	check_image(512, 512, 1, 0);
	close_backend(bd);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("block/device");
	TCase *tc = testlib_case("block/device");

	tcase_add_loop_test(tc, sync_calls_at_any_memory_alignment, 0, 2);
	tcase_add_loop_test(tc, many_requests_at_once, 0, 2);
	tcase_add_loop_test(tc, a_full_queue_drains, 0, 2);
	tcase_add_loop_test(tc, callbacks_submit_when_the_queue_is_full, 0, 2);
	tcase_add_loop_test(tc, discard_zeroes_and_flush, 0, 2);
	tcase_add_loop_test(tc, a_short_read_is_an_error, 0, 2);
	tcase_add_loop_test(tc, requests_outlive_their_thread, 0, 2);
	tcase_add_loop_test(tc, blocking_sends_plugged_requests_out, 0, 2);
	tcase_add_loop_test(tc, a_thread_that_waits_for_one_plugged_request_carries_it_out, 0, 2);
	tcase_add_test(tc, without_io_uring_the_default_is_psync);
	tcase_add_test(tc, failures_to_open);
	tcase_add_test(tc, read_only_and_buffered);
	suite_add_tcase(s, tc);
	return testlib_run_suite(s);
}
