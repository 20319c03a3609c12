/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * hostile.c - damaged images must give errors, never a crash, a hang or an endless loop.
 *
 * hostile IMAGE SEED ROUNDS [walk]: loads the image into memory; each round damages it (bytes, words and whole
 * structures in the metadata that the image uses), mounts it, walks everything, writes a little, unmounts.
 * With "walk" it is walked once as it is. Errors are expected and counted; the process staying alive is the test.
 */
#include <dirent.h>
#include <inttypes.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ext4/inode.h"
#include "namespace/namespace.h"
#include "util/log.h"
#include "util/splitmix.h"

#define MAX_ENTRIES 3000
#define MAX_DEPTH 12

static uint64_t rng;
static bool read_only;
static uint64_t nr_mounts, nr_errors, nr_files;

static uint64_t rnd(void)
{
	return splitmix64(&rng);
}

static void count(int64_t rc)
{
	if (rc < 0)
		nr_errors++;
}

/* ---- Walking ---- */

struct listing {
	struct ns_dirent *l_entries;
	unsigned l_nr;
};

static bool collect(void *arg, const struct ns_dirent *de)
{
	struct listing *l = arg;

	if (l->l_nr == MAX_ENTRIES)
		return false;
	l->l_entries[l->l_nr++] = *de;
	return true;
}

static void visit_xattrs(struct inode *inode)
{
	static char list[65536], value[65536];
	ssize_t n = ext4_listxattr(inode, list, sizeof(list), true);

	count(n);
	for (ssize_t i = 0; i < n; i += (ssize_t)strlen(list + i) + 1)
		count(ext4_getxattr(inode, list + i, value, sizeof(value)));
}

static void visit_data(struct inode *inode)
{
	static struct wb_read r;
	uint64_t size = i_size_read(inode), step = size / 8 + 4096;

	for (uint64_t pos = 0, n = 0; pos < size && n < 12; pos += step, n++) {
		int err = file_read(inode, pos, 70000, 0, &r);

		count(err);
		if (!err)
			wb_read_done(&r);
	}
	if (size) {
		int64_t data = ext4_seek(inode, 0, SEEK_DATA);

		count(data == -ENXIO ? 0 : data);
		count(ext4_seek(inode, 0, SEEK_HOLE));
	}
}

static void visit_writes(struct inode *inode)
{
	static uint8_t data[9000];
	struct iovec iov = {data, sizeof(data)};
	struct wb_write w = {.w_iov = &iov,
			     .w_iovcnt = 1,
			     .w_len = sizeof(data),
			     .w_pos = rnd() % (i_size_read(inode) + 5000)};

	w.w_pos %= 1 << 30;
	count(file_write(inode, &w));
	if (rnd() % 4 == 0)
		count(ext4_truncate_to(inode, rnd() % 100000));
}

static void walk(struct inode *dir, unsigned depth);

static void visit(struct inode *dir, const struct ns_dirent *de, unsigned depth)
{
	char target[4200];
	struct inode *inode;
	struct stat st;
	int err = ext4_lookup(dir, de->d_name, de->d_len, &inode);

	count(err);
	if (err)
		return;
	nr_files++;
	ext4_getattr(inode, &st);
	visit_xattrs(inode);
	if (S_ISDIR(inode->i_mode) && depth < MAX_DEPTH)
		walk(inode, depth + 1);
	else if (S_ISLNK(inode->i_mode))
		count(ext4_readlink(inode, target, sizeof(target)));
	else if (S_ISREG(inode->i_mode))
		visit_data(inode);
	if (!read_only && S_ISREG(inode->i_mode) && rnd() % 8 == 0)
		visit_writes(inode);
	iput(inode);
}

static void change_names(struct inode *dir)
{
	static const struct ns_cred cred = {.nc_privileged = true};
	struct ns_new n = {
		.nn_name = "a-new-name", .nn_len = 10, .nn_mode = S_IFREG | 0600, .nn_cred = &cred};
	struct inode *inode;
	int err = ext4_create(dir, &n, &inode);

	count(err);
	if (!err)
		iput(inode);
	count(ext4_rename(dir, "a-new-name", 10, dir, "another", 7, 0));
	count(ext4_unlink(dir, "another", 7));
}

static void walk(struct inode *dir, unsigned depth)
{
	struct listing l = {.l_nr = 0};
	struct ns_dir *d;
	int err = ext4_dir_open(dir, &d);

	count(err);
	if (err)
		return;
	l.l_entries = calloc(MAX_ENTRIES, sizeof(*l.l_entries));
	if (l.l_entries)
		count(ext4_dir_read(d, 0, collect, &l));
	ext4_dir_close(d);
	for (unsigned i = 0; l.l_entries && i < l.l_nr; i++) {
		if (strcmp(l.l_entries[i].d_name, ".") && strcmp(l.l_entries[i].d_name, ".."))
			visit(dir, &l.l_entries[i], depth);
	}
	if (!read_only)
		change_names(dir);
	if (!read_only && l.l_nr > 2 && rnd() % 2)
		count(ext4_unlink(dir, l.l_entries[l.l_nr - 1].d_name,
				  l.l_entries[l.l_nr - 1].d_len));
	free(l.l_entries);
}

static int mount_and_walk(uint8_t *image, uint64_t size)
{
	struct ext4_options opts;
	struct super_block *sb;
	struct inode *root;
	struct blkdev *dev = mem_open(size, 512, image);
	int err;

	if (IS_ERR(dev))
		return PTR_ERR(dev);
	ext4_options_init(&opts);
	opts.o_manual_commit = true;
	opts.o_errors = rnd() % 2 ? ERRORS_CONTINUE : ERRORS_RO;
	opts.o_cache_bytes = 8 << 20;
	err = ext4_mount(dev, &opts, &sb);
	if (err) {
		blk_close(dev);
		return err;
	}
	nr_mounts++;
	root = ext4_iget(sb, EXT4_ROOT_INO, 0);
	if (!IS_ERR(root)) {
		walk(root, 0);
		iput(root);
	} else {
		count(PTR_ERR(root));
	}
	count(wb_sync_fs(sb, true));
	count(ext4_umount(sb));
	return 0;
}

/* ---- Damage ---- */

/* Blocks that are not all zeros and not file data (data is filled with 0xda by the script): where the metadata is. */
static unsigned find_metadata(const uint8_t *image, uint64_t size, uint32_t *blocks, unsigned max)
{
	unsigned n = 0;

	for (uint64_t b = 0; b < size / 1024 && n < max; b++) {
		const uint8_t *p = image + b * 1024;
		bool zero = true, data = true;

		for (unsigned i = 0; i < 1024; i++) {
			zero = zero && p[i] == 0;
			data = data && p[i] == 0xda;
		}
		if (!zero && !data)
			blocks[n++] = (uint32_t)b;
	}
	return n;
}

static void damage(uint8_t *image, uint64_t size, const uint32_t *blocks, unsigned nr)
{
	static const uint32_t values[] = {0,	      1,	  2,	  0xff,
					  0xffff,     0x7fff,	  0x8000, 0xffffffff,
					  0x7fffffff, 0x80000000, 12,	  0xf30a};
	unsigned hits = 1 + (unsigned)(rnd() % 6);

	for (unsigned i = 0; i < hits; i++) {
		uint8_t *p = image + (uint64_t)blocks[rnd() % nr] * 1024;
		uint32_t value = values[rnd() % (sizeof(values) / sizeof(values[0]))];
		unsigned off = (unsigned)(rnd() % 1021);

		switch (rnd() % 4) {
		case 0:
			p[off] ^= (uint8_t)(1u << (rnd() % 8));
			break;
		case 1:
			memcpy(p + (off & ~3u), &value, 4);
			break;
		case 2:
			memcpy(p + (off & ~1u), &value, 2);
			break;
		default:
			memcpy(p, image + (uint64_t)blocks[rnd() % nr] * 1024, 1024);
			break;
		}
	}
	(void)size;
}

static uint8_t *load(const char *path, uint64_t *size)
{
	FILE *f = fopen(path, "rb");
	uint8_t *image;

	if (!f || fseeko(f, 0, SEEK_END))
		return NULL;
	*size = (uint64_t)ftello(f);
	rewind(f);
	image = malloc(*size);
	if (image && fread(image, 1, *size, f) != *size)
		image = NULL;
	fclose(f);
	return image;
}

/* What is said about damage is not looked at; a failed assertion is. */
static void quiet(enum log_level level, const char *line, void *arg)
{
	(void)level;
	(void)arg;
	if (strstr(line, "assertion") != NULL)
		fprintf(stderr, "%s\n", line);
}

int main(int argc, char **argv)
{
	static uint32_t blocks[1 << 16];
	uint64_t size, rounds;
	uint8_t *image, *copy;
	unsigned nr;

	if (argc < 4) {
		fprintf(stderr, "usage: hostile IMAGE SEED ROUNDS [walk]\n");
		return 2;
	}
	image = load(argv[1], &size);
	copy = image ? malloc(size) : NULL;
	if (!copy) {
		fprintf(stderr, "hostile: cannot load %s\n", argv[1]);
		return 2;
	}
	rng = strtoull(argv[2], NULL, 0);
	rounds = strtoull(argv[3], NULL, 0);
	if (argc > 4) {
		int err;

		read_only = true;
		err = mount_and_walk(image, size);
		free(image);
		free(copy);
		printf("walk: error %d, %" PRIu64 " errors\n", err, nr_errors);
		return err || nr_errors;
	}
	log_set_sink(quiet, NULL);
	nr = find_metadata(image, size, blocks, 1 << 16);
	for (uint64_t i = 0; i < rounds; i++) {
		uint64_t seed = rng;

		alarm(60);
		printf("seed %" PRIu64 "\n", seed);
		fflush(stdout);
		memcpy(copy, image, size);
		damage(copy, size, blocks, nr);
		count(mount_and_walk(copy, size));
	}
	printf("hostile: %" PRIu64 " rounds, %" PRIu64 " mounted, %" PRIu64 " files, %" PRIu64
	       " errors\n",
	       rounds, nr_mounts, nr_files, nr_errors);
	free(image);
	free(copy);
	return nr_mounts && nr_errors ? 0 : 1;
}
