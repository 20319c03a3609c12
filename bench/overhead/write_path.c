/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * write_path.c - writes of 8 KiB through the whole daemon, without a kernel below or a device behind: what one costs can be counted.
 *
 * Requests are made as the kernel makes them and given to the session; answers are looked at and dropped. The file system lies in
 * memory and runs without threads: commits, writeback and completions happen in this one. What is to be counted is in measured_writes(), with the
 * fsync that brings everything to the device.
 *
 *     write_path [WRITES]
 *
 * Invariants: (1) each request is answered before the next one is made. Locking: none.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "ext4/inode.h"
#include "fuse/file.h"
#include "fuse/freezer.h"
#include "fuse/front.h"
#include "fuse/ops.h"
#include "fuse/parking.h"
#include "fuse/session.h"
#include "tests/lib/testlib.h"
#include "util/assert.h"
#include "util/err.h"

#define WRITES 4096u
#define WRITE_BYTES 8192u
#define IMAGE_BYTES (UINT64_C(256) << 20)
#define CACHE_BYTES (UINT64_C(96) << 20)

void measured_writes(uint64_t fh, unsigned n);

static struct front front;
static struct mount_options options;
static struct request request;
static uint64_t file_node;
static uint64_t unique;

/* ---- The transport ---- */

static union {
	struct fuse_out_header head;
	char bytes[4096];
} answer;

static int take_answer(struct transport *t, unsigned channel, const struct iovec *iov, int iovcnt)
{
	size_t at = 0;

	(void)t;
	(void)channel;
	for (int i = 0; i < iovcnt; i++) {
		ASSERT_CMP(at + iov[i].iov_len, <=, sizeof(answer));
		memcpy(answer.bytes + at, iov[i].iov_base, iov[i].iov_len);
		at += iov[i].iov_len;
	}
	return 0;
}

/* INIT, as a recent kernel sends it. */
static ssize_t give_init(struct transport *t, unsigned channel, void *buf, size_t size)
{
	struct fuse_in_header *head = buf;
	struct fuse_init_in *in = (struct fuse_init_in *)(head + 1);

	(void)t;
	(void)channel;
	ASSERT_CMP(size, >=, sizeof(*head) + sizeof(*in));
	memset(buf, 0, sizeof(*head) + sizeof(*in));
	head->opcode = FUSE_INIT;
	head->len = sizeof(*head) + sizeof(*in);
	in->major = 7;
	in->minor = 31;
	in->flags = FUSE_BIG_WRITES | FUSE_MAX_PAGES;
	return (ssize_t)head->len;
}

static const struct transport_ops transport_ops = {
	.to_name = "none",
	.receive = give_init,
	.reply = take_answer,
};
static struct transport transport = {.t_ops = &transport_ops, .t_channels = 1};

/* ---- Requests ---- */

/* The request's head; its argument of `bytes` follows, cleared. */
static void *begin(uint32_t opcode, uint64_t node, size_t bytes)
{
	struct fuse_in_header *head = request_head(&request);

	memset(head, 0, sizeof(*head) + bytes);
	head->len = (uint32_t)(sizeof(*head) + bytes);
	head->opcode = opcode;
	head->unique = ++unique;
	head->nodeid = node;
	head->pid = (uint32_t)getpid();
	return head + 1;
}

static void *serve(void)
{
	request.rq_bytes = request_head(&request)->len;
	request.rq_start_ns = stat_ns();
	session_serve(&front, &request);
	ASSERT_CMP(answer.head.unique, ==, unique);
	ASSERT_CMP(answer.head.error, ==, 0);
	return &answer.head + 1;
}

static uint64_t create_file(void)
{
	static const char name[] = "file";
	struct fuse_create_in *in = begin(FUSE_CREATE, FUSE_ROOT_ID, sizeof(*in) + sizeof(name));
	const struct fuse_entry_out *entry;

	in->flags = O_WRONLY | O_CREAT;
	in->mode = 0644;
	memcpy(in + 1, name, sizeof(name));
	entry = serve();
	file_node = entry->nodeid;
	return ((const struct fuse_open_out *)(entry + 1))->fh;
}

__attribute__((noinline)) void measured_writes(uint64_t fh, unsigned n)
{
	struct fuse_fsync_in *sync;

	for (unsigned i = 0; i < n; i++) {
		struct fuse_write_in *in = begin(FUSE_WRITE, file_node, sizeof(*in));

		in->fh = fh;
		in->offset = (uint64_t)i * WRITE_BYTES;
		in->size = WRITE_BYTES;
		request_head(&request)->len += WRITE_BYTES;
		serve();
	}
	sync = begin(FUSE_FSYNC, file_node, sizeof(*sync));
	sync->fh = fh;
	serve();
}

/* ---- The daemon without its threads ---- */

/* A new file system; the image is gone with the process. */
static struct blkdev *make_device(void)
{
	char *path = testlib_tempfile(), *output = NULL;
	char command[512];
	struct blkdev *dev = ERR_PTR(-EIO);
	void *data = MAP_FAILED;
	int fd;

	snprintf(command, sizeof(command),
		 "truncate -s %llu '%s' && mke2fs -F -q -t ext4 -b 4096 '%s'",
		 (unsigned long long)IMAGE_BYTES, path, path);
	if (testlib_run(command, &output) != 0)
		fprintf(stderr, "%s\n%s", command, output);
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd >= 0)
		data = mmap(NULL, IMAGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
	if (data != MAP_FAILED)
		dev = mem_open(IMAGE_BYTES, 512, data);
	close(fd);
	unlink(path);
	free(path);
	free(output);
	return dev;
}

static int mount_image(void)
{
	struct blkdev *dev = make_device();
	int err;

	if (IS_ERR(dev))
		return PTR_ERR(dev);
	mount_options_init(&options);
	options.mo_ext4.o_manual_commit = true;
	options.mo_ext4.o_cache_bytes = CACHE_BYTES;
	err = ext4_mount(dev, &options.mo_ext4, &front.f_sb);
	if (err != 0)
		return err;
	node_table_init(&front.f_nodes, ext4_iget(front.f_sb, EXT4_ROOT_INO, EXT4_IGET_NORMAL));
	return 0;
}

static int start(void)
{
	void *buf;
	int err = mount_image();

	if (err != 0 || posix_memalign(&buf, 4096, REQUEST_BUF_BYTES) != 0)
		return err != 0 ? err : -ENOMEM;
	request.rq_buf = buf;
	memset(buf, 0x5a, REQUEST_BUF_BYTES);
	front.f_opts = &options;
	front.f_transport = &transport;
	pthread_mutex_init(&front.f_state_lock, NULL);
	pthread_cond_init(&front.f_idle, NULL);
	front.f_files = open_files_create();
	front.f_parking = parking_create(&front);
	front.f_freezer = freezer_create(&front);
	if (front.f_files == NULL || front.f_parking == NULL || front.f_freezer == NULL)
		return -ENOMEM;
	err = session_create(&front, &front_ops, STDIN_FILENO, false);
	return err != 0 ? err : session_init(&front);
}

int main(int argc, char **argv)
{
	unsigned n = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : WRITES;
	struct fuse_release_in *release;
	uint64_t fh;
	int err = start();

	if (err != 0) {
		fprintf(stderr, "write_path: %s\n", strerror(-err));
		return EXIT_FAILURE;
	}
	fh = create_file();
	measured_writes(fh, n);
	release = begin(FUSE_RELEASE, file_node, sizeof(*release));
	release->fh = fh;
	serve();
	node_table_destroy(&front.f_nodes);
	err = ext4_umount(front.f_sb);
	printf("%u writes of %u bytes%s\n", n, WRITE_BYTES, err == 0 ? "" : ", unmount failed");
	return err == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
