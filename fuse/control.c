/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * control.c - the directory .ext4d in the root: found by name, never listed.
 *
 * A small fixed tree: .ext4d with its files, and .ext4d/tunables. Its nodes live as long as the mount and have
 * inode numbers above those of ext4, which are their nodeids. A file's content is made when it is opened for reading, so that one
 * reader sees one picture; files are opened past the kernel's cache. A write is one value, at offset 0.
 *
 * A real file of this name in the root of the file system cannot be reached while it is mounted with the tree.
 *
 * Invariants: (1) nothing in the tree can be made, removed or renamed. (2) node 0 is .ext4d, node 1 is tunables.
 * Locking: none; the tree is constant.
 */
#include "fuse/answer.h"
#include "fuse/control.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "fuse/control_text.h"
#include "fuse/file.h"
#include "fuse/trace_pipe.h"
#include "util/assert.h"

#define VALUE_BYTES 1024u /* all events by name */
#define NR_DIRS 2u

struct control {
	struct front *c_front;
	unsigned c_nr;		      /* nodes */
	unsigned c_tunables;	      /* the first node inside tunables/ */
	struct control_file *c_files; /* one for each node */
};

struct control_open {
	char *co_text;
	size_t co_len;
	bool co_pipe; /* this one has the reader's end of the ring */
};

bool control_has(const struct control *c, fuse_ino_t ino)
{
	return c != NULL && ino >= NODE_CONTROL_FIRST && ino - NODE_CONTROL_FIRST < c->c_nr;
}

static const struct control_file *file_of(const struct control *c, fuse_ino_t ino)
{
	ASSERT(control_has(c, ino));
	return &c->c_files[ino - NODE_CONTROL_FIRST];
}

static void fill_stat(const struct control *c, fuse_ino_t ino, struct stat *st)
{
	const struct control_file *cf = file_of(c, ino);

	memset(st, 0, sizeof(*st));
	st->st_ino = ino;
	st->st_nlink = cf->cf_dir ? 2 : 1;
	if (cf->cf_dir)
		st->st_mode = S_IFDIR | 0555;
	else
		st->st_mode =
			(mode_t)(S_IFREG | (cf->cf_print != NULL ? 0444 : 0) |
				 (cf->cf_pipe ? 0400 : 0) | (cf->cf_write != NULL ? 0200 : 0));
	st->st_uid = c->c_front->f_owner;
	st->st_blksize = 4096;
	clock_gettime(CLOCK_REALTIME, &st->st_mtim);
	st->st_atim = st->st_ctim = st->st_mtim;
}

static void fill_entry(const struct control *c, fuse_ino_t ino, struct fuse_entry_param *e)
{
	memset(e, 0, sizeof(*e));
	e->ino = ino;
	e->generation = 1;
	e->attr_timeout = CONTROL_TIMEOUT_S;
	e->entry_timeout = FRONT_TIMEOUT_S;
	fill_stat(c, ino, &e->attr);
}

void control_stat(struct front *f, fuse_ino_t ino, struct stat *st)
{
	fill_stat(f->f_control, ino, st);
}

void control_fill_root(struct front *f, struct fuse_entry_param *e)
{
	fill_entry(f->f_control, NODE_CONTROL_FIRST, e);
}

bool control_is_name(struct front *f, fuse_ino_t parent, const char *name)
{
	return f->f_control != NULL && parent == NODE_ROOT_ID && strcmp(name, CONTROL_NAME) == 0;
}

/* The nodes inside a directory: [*first, *end). */
static void children(const struct control *c, fuse_ino_t dir, unsigned *first, unsigned *end)
{
	if (dir == NODE_CONTROL_FIRST) {
		*first = 1;
		*end = c->c_tunables;
	} else {
		*first = c->c_tunables;
		*end = c->c_nr;
	}
}

/* ---- Requests ---- */

void control_lookup(fuse_req_t req, fuse_ino_t dir, const char *name)
{
	struct front *f = front_of(req);
	struct control *c = f->f_control;
	struct fuse_entry_param e = {.entry_timeout = FRONT_TIMEOUT_S};
	unsigned first, end;

	if (!control_has(c, dir)) {
		front_reply_err(req, -ESTALE);
		return;
	}
	children(c, dir, &first, &end);
	for (unsigned i = first; i < end; i++)
		if (strcmp(c->c_files[i].cf_name, name) == 0)
			fill_entry(c, NODE_CONTROL_FIRST + i, &e);
	answer_entry(req, &e);
}

void control_getattr(fuse_req_t req, fuse_ino_t ino)
{
	struct stat st;

	fill_stat(front_of(req)->f_control, ino, &st);
	answer_attr(req, &st, CONTROL_TIMEOUT_S);
}

/* `echo value > file` truncates first; nothing else can be set, and nothing is. */
void control_setattr(fuse_req_t req, fuse_ino_t ino)
{
	control_getattr(req, ino);
}

static void reply_open(fuse_req_t req, struct fuse_file_info *fi, struct control_open *co)
{
	struct front *f = front_of(req);
	struct open_file *of = open_control_new(f, co, fi->flags);

	if (of == NULL) {
		control_close(co);
		front_reply_err(req, -ENOMEM);
		return;
	}
	fi->fh = (uintptr_t)of;
	fi->direct_io = 1;
	fi->nonseekable = co->co_pipe;
	if (fuse_reply_open(req, fi) != 0)
		open_file_release(f, of);
}

void control_opendir(fuse_req_t req, struct fuse_file_info *fi)
{
	struct control_open *co = calloc(1, sizeof(*co));

	if (co == NULL)
		front_reply_err(req, -ENOMEM);
	else
		reply_open(req, fi, co);
}

void control_open(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	const struct control_file *cf = file_of(front_of(req)->f_control, ino);
	struct control_open *co = calloc(1, sizeof(*co));
	FILE *out = NULL;

	if (co != NULL)
		out = open_memstream(&co->co_text, &co->co_len);
	if (out == NULL) {
		free(co);
		front_reply_err(req, -ENOMEM);
		return;
	}
	if (cf->cf_print != NULL && (fi->flags & O_ACCMODE) != O_WRONLY)
		cf->cf_print(front_of(req), cf, out);
	if (fclose(out) != 0) {
		control_close(co);
		front_reply_err(req, -ENOMEM);
		return;
	}
	if (cf->cf_pipe) {
		co->co_pipe = trace_pipe_claim();
		if (!co->co_pipe) {
			control_close(co);
			front_reply_err(req, -EBUSY);
			return;
		}
	}
	reply_open(req, fi, co);
}

void control_close(struct control_open *co)
{
	if (co->co_pipe)
		trace_pipe_release();
	free(co->co_text);
	free(co);
}

void control_read(fuse_req_t req, struct control_open *co, size_t size, off_t off, int flags)
{
	size_t at = off < 0 || (uint64_t)off > co->co_len ? co->co_len : (size_t)off;
	size_t n = co->co_len - at < size ? co->co_len - at : size;

	if (co->co_pipe) {
		trace_pipe_read(req, size, (flags & O_NONBLOCK) != 0);
		return;
	}
	fuse_reply_buf(req, co->co_text + at, n);
}

void control_write(fuse_req_t req, fuse_ino_t ino, const char *data, size_t size, off_t off)
{
	const struct control_file *cf = file_of(front_of(req)->f_control, ino);
	char text[VALUE_BYTES];
	size_t len = size;
	int err;

	while (len > 0 && (data[len - 1] == '\n' || data[len - 1] == ' '))
		len--;
	if (cf->cf_write == NULL) {
		front_reply_err(req, -EPERM);
		return;
	}
	if (off != 0 || len == 0 || len >= sizeof(text)) {
		front_reply_err(req, -EINVAL);
		return;
	}
	memcpy(text, data, len);
	text[len] = '\0';
	err = cf->cf_write(front_of(req), cf, text);
	if (err != 0)
		front_reply_err(req, err);
	else
		fuse_reply_write(req, size);
}

/* One entry as the kernel wants it; no node is given, so it looks the name up when it needs it. */
struct entry_buf {
	char *eb_at;
	size_t eb_left;
	bool eb_plus;
};

/* False: no room. */
static bool add_entry(struct entry_buf *eb, const char *name, const struct stat *st, off_t next)
{
	struct fuse_entry_param e = {.attr = *st};
	size_t need;

	if (eb->eb_plus)
		need = answer_direntplus(eb->eb_at, eb->eb_left, name, &e, next);
	else
		need = answer_dirent(eb->eb_at, eb->eb_left, name, st, next);
	if (need > eb->eb_left)
		return false;
	eb->eb_at += need;
	eb->eb_left -= need;
	return true;
}

void control_readdir(fuse_req_t req, fuse_ino_t dir, size_t size, off_t off, bool plus)
{
	struct control *c = front_of(req)->f_control;
	char *buf = request_scratch(current_request);
	struct entry_buf eb = {
		.eb_at = buf,
		.eb_left = size < PROTO_MAX_PAYLOAD ? size : PROTO_MAX_PAYLOAD,
		.eb_plus = plus,
	};
	unsigned first, end;

	children(c, dir, &first, &end);
	/* Offsets 0 and 1 are "." and "..". */
	for (uint64_t i = (uint64_t)off; i < (uint64_t)(end - first) + 2; i++) {
		const char *name = i == 0 ? "." : "..";
		struct stat st = {.st_ino = NODE_CONTROL_FIRST, .st_mode = S_IFDIR};

		if (i >= 2) {
			fill_stat(c, NODE_CONTROL_FIRST + first + i - 2, &st);
			name = c->c_files[first + i - 2].cf_name;
		}
		if (!add_entry(&eb, name, &st, (off_t)i + 1))
			break;
	}
	fuse_reply_buf(req, buf, (size_t)(eb.eb_at - buf));
}

/* ---- The tree ---- */

static unsigned count(const struct control_file *files)
{
	unsigned n = 0;

	while (files[n].cf_name != NULL)
		n++;
	return n;
}

static void add(struct control *c, struct control_file cf)
{
	c->c_files[c->c_nr++] = cf;
}

static void build(struct control *c)
{
	const char *const *names = wb_tunable_names();

	add(c, (struct control_file){.cf_name = CONTROL_NAME, .cf_dir = true});
	add(c, (struct control_file){.cf_name = "tunables", .cf_dir = true});
	for (const struct control_file *cf = control_files; cf->cf_name != NULL; cf++)
		add(c, *cf);
	c->c_tunables = c->c_nr;
	for (const struct control_file *cf = control_own_tunables; cf->cf_name != NULL; cf++)
		add(c, *cf);
	for (; *names != NULL; names++)
		add(c, (struct control_file){
			       .cf_name = *names,
			       .cf_print = control_tunable_print,
			       .cf_write = control_tunable_write,
		       });
}

struct control *control_create(struct front *f)
{
	struct control *c = calloc(1, sizeof(*c));
	size_t nr = NR_DIRS + count(control_files) + count(control_own_tunables);

	if (c == NULL)
		return NULL;
	for (const char *const *n = wb_tunable_names(); *n != NULL; n++)
		nr++;
	c->c_front = f;
	c->c_files = calloc(nr, sizeof(*c->c_files));
	if (c->c_files == NULL) {
		control_destroy(c);
		return NULL;
	}
	build(c);
	return c;
}

void control_destroy(struct control *c)
{
	free(c->c_files);
	free(c);
}
