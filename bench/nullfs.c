/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * nullfs.c - a FUSE server that does as little as a file system can: the limit that FUSE itself sets.
 *
 * nullfs MOUNTPOINT: one flat directory; names and sizes are kept, written data is dropped, reads give zeros.
 * One thread, as that is fastest for one client. It exists to be measured beside ext4d, not to be used.
 */
#define FUSE_USE_VERSION 312
#include <errno.h>
#include <fuse3/fuse_lowlevel.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BUCKETS (1u << 18)
#define TIMEOUT 3600.0

struct node {
	char *n_name;
	mode_t n_mode;
	uint64_t n_size;
	uint64_t n_lookups;
	int n_linked;
	struct node *n_next; /* same bucket */
};

static struct node *buckets[BUCKETS];
static struct node root = {.n_mode = S_IFDIR | 0755, .n_linked = 1};
static char zeros[1 << 20];

static struct node *node_of(fuse_ino_t ino)
{
	return ino == FUSE_ROOT_ID ? &root : (struct node *)(uintptr_t)ino;
}

static struct node **bucket_of(const char *name)
{
	uint32_t h = 2166136261u;

	while (*name)
		h = (h ^ (uint8_t)*name++) * 16777619u;
	return &buckets[h % BUCKETS];
}

static struct node *find(const char *name)
{
	struct node *n = *bucket_of(name);

	while (n && strcmp(n->n_name, name) != 0)
		n = n->n_next;
	return n;
}

static struct node *make(const char *name, mode_t mode)
{
	struct node *n = calloc(1, sizeof(*n)), **b = bucket_of(name);

	if (!n)
		return NULL;
	n->n_name = strdup(name);
	n->n_mode = mode;
	n->n_linked = 1;
	n->n_next = *b;
	*b = n;
	return n;
}

static void maybe_free(struct node *n)
{
	if (n == &root || n->n_linked || n->n_lookups)
		return;
	free(n->n_name);
	free(n);
}

static void fill_stat(const struct node *n, struct stat *st)
{
	memset(st, 0, sizeof(*st));
	st->st_ino = n == &root ? 1 : (ino_t)(uintptr_t)n;
	st->st_mode = n->n_mode;
	st->st_nlink = n == &root ? 2 : 1;
	st->st_size = (off_t)n->n_size;
	st->st_blksize = 4096;
}

static void fill_entry(struct node *n, struct fuse_entry_param *e)
{
	memset(e, 0, sizeof(*e));
	e->attr_timeout = e->entry_timeout = TIMEOUT;
	if (!n)
		return;
	n->n_lookups++;
	e->ino = n == &root ? FUSE_ROOT_ID : (fuse_ino_t)(uintptr_t)n;
	fill_stat(n, &e->attr);
}

static void op_lookup(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	struct fuse_entry_param e;

	(void)parent;
	fill_entry(find(name), &e);
	fuse_reply_entry(req, &e);
}

static void op_forget(fuse_req_t req, fuse_ino_t ino, uint64_t count)
{
	struct node *n = node_of(ino);

	n->n_lookups -= count;
	maybe_free(n);
	fuse_reply_none(req);
}

static void op_getattr(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct stat st;

	(void)fi;
	fill_stat(node_of(ino), &st);
	fuse_reply_attr(req, &st, TIMEOUT);
}

static void op_setattr(fuse_req_t req, fuse_ino_t ino, struct stat *attr, int valid,
		       struct fuse_file_info *fi)
{
	struct stat st;

	(void)fi;
	if (valid & FUSE_SET_ATTR_SIZE)
		node_of(ino)->n_size = (uint64_t)attr->st_size;
	fill_stat(node_of(ino), &st);
	fuse_reply_attr(req, &st, TIMEOUT);
}

static void set_cache(struct fuse_file_info *fi)
{
	fi->direct_io = (fi->flags & O_ACCMODE) == O_WRONLY;
	fi->keep_cache = 1;
}

static void op_open(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	(void)ino;
	set_cache(fi);
	fuse_reply_open(req, fi);
}

static void op_create(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode,
		      struct fuse_file_info *fi)
{
	struct fuse_entry_param e;
	struct node *n = find(name);

	(void)parent;
	if (!n)
		n = make(name, S_IFREG | (mode & 07777));
	if (!n) {
		fuse_reply_err(req, ENOMEM);
		return;
	}
	fill_entry(n, &e);
	set_cache(fi);
	fuse_reply_create(req, &e, fi);
}

static void op_unlink(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	struct node **p = bucket_of(name), *n;

	(void)parent;
	while (*p && strcmp((*p)->n_name, name) != 0)
		p = &(*p)->n_next;
	n = *p;
	if (!n) {
		fuse_reply_err(req, ENOENT);
		return;
	}
	*p = n->n_next;
	n->n_linked = 0;
	maybe_free(n);
	fuse_reply_err(req, 0);
}

static void op_read(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off,
		    struct fuse_file_info *fi)
{
	uint64_t left = node_of(ino)->n_size;

	(void)fi;
	left = (uint64_t)off >= left ? 0 : left - (uint64_t)off;
	if (size > left)
		size = left;
	fuse_reply_buf(req, zeros, size > sizeof(zeros) ? sizeof(zeros) : size);
}

static void op_write(fuse_req_t req, fuse_ino_t ino, const char *buf, size_t size, off_t off,
		     struct fuse_file_info *fi)
{
	struct node *n = node_of(ino);

	(void)buf;
	(void)fi;
	if ((uint64_t)off + size > n->n_size)
		n->n_size = (uint64_t)off + size;
	fuse_reply_write(req, size);
}

static void op_release(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	(void)ino;
	(void)fi;
	fuse_reply_err(req, 0);
}

static void op_fsync(fuse_req_t req, fuse_ino_t ino, int datasync, struct fuse_file_info *fi)
{
	(void)ino;
	(void)datasync;
	(void)fi;
	fuse_reply_err(req, 0);
}

static const struct fuse_lowlevel_ops ops = {
	.lookup = op_lookup,
	.forget = op_forget,
	.getattr = op_getattr,
	.setattr = op_setattr,
	.open = op_open,
	.create = op_create,
	.unlink = op_unlink,
	.read = op_read,
	.write = op_write,
	.release = op_release,
	.fsync = op_fsync,
};

int main(int argc, char **argv)
{
	static char name[] = "nullfs", opt[] = "-ofsname=nullfs,default_permissions,allow_other";
	char *args_v[] = {name, opt, NULL};
	struct fuse_args args = FUSE_ARGS_INIT(2, args_v);
	struct fuse_session *se;
	int rc;

	if (argc != 2) {
		fprintf(stderr, "usage: nullfs MOUNTPOINT\n");
		return 2;
	}
	se = fuse_session_new(&args, &ops, sizeof(ops), NULL);
	if (!se || fuse_set_signal_handlers(se) || fuse_session_mount(se, argv[1]))
		return 1;
	rc = fuse_session_loop(se);
	fuse_session_unmount(se);
	fuse_remove_signal_handlers(se);
	fuse_session_destroy(se);
	return rc ? 1 : 0;
}
