/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * ops_dir.c - requests on open directories.
 *
 * Entries are packed straight into the thread's scratch buffer while namespace/ hands them out. For
 * readdirplus each entry is a look-up by inode number: the kernel holds the directory's lock, so no name
 * can change its inode while the request is served.
 *
 * Invariants: (1) each entry with a node in a sent readdirplus answer is one look-up count; if the answer does not
 * reach the kernel all of them are given back. (2) "." and ".." are never counted.
 * Locking: of_lock of the open directory, around one READDIR.
 */
#include <dirent.h>
#include <errno.h>
#include <string.h>

#include "ext4/inode.h"
#include "fuse/answer.h"
#include "fuse/control.h"
#include "fuse/file.h"
#include "fuse/ops.h"

struct packer {
	struct front *pk_front;
	char *pk_buf;
	size_t pk_size;
	size_t pk_used;
	bool pk_plus;
	bool pk_root; /* .ext4d may be shadowed here */
};

void ops_opendir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct front *f = front_of(req);
	struct inode *inode = front_inode(f, ino);
	struct open_file *of;
	struct ns_dir *dir;
	int err;

	if (inode == NULL) {
		control_opendir(req, fi);
		return;
	}
	err = ext4_dir_open(inode, &dir);
	if (err != 0) {
		front_reply_err(req, err);
		return;
	}
	of = open_dir_new(f, dir);
	if (of == NULL) {
		ext4_dir_close(dir);
		front_reply_err(req, -ENOMEM);
		return;
	}
	fi->fh = (uintptr_t)of;
	if (fuse_reply_open(req, fi) != 0)
		open_file_release(f, of);
}

static bool is_dot(const struct ns_dirent *de)
{
	return de->d_name[0] == '.' && (de->d_len == 1 || (de->d_len == 2 && de->d_name[1] == '.'));
}

/* The inode of an entry as a node with one count; ino stays 0 if it cannot be had, and the kernel looks it up itself. */
static void look_up(struct packer *pk, const struct ns_dirent *de, struct fuse_entry_param *e)
{
	struct front *f = pk->pk_front;
	struct inode *inode;

	if (is_dot(de) || (pk->pk_root && strcmp(de->d_name, CONTROL_NAME) == 0))
		return;
	inode = ext4_iget(f->f_sb, de->d_ino, EXT4_IGET_NORMAL);
	if (!IS_ERR(inode))
		front_fill_entry(f, inode, e);
}

static bool pack_plus(struct packer *pk, const struct ns_dirent *de)
{
	struct fuse_entry_param e = {
		.attr = {.st_ino = de->d_ino, .st_mode = (mode_t)DTTOIF(de->d_type)}};
	size_t left = pk->pk_size - pk->pk_used;
	size_t need;

	if (answer_direntplus(NULL, 0, de->d_name, &e, 0) > left)
		return false;
	look_up(pk, de, &e);
	if (e.ino == 0)
		e.attr = (struct stat){.st_ino = de->d_ino, .st_mode = (mode_t)DTTOIF(de->d_type)};
	need = answer_direntplus(pk->pk_buf + pk->pk_used, left, de->d_name, &e,
				 (off_t)de->d_cookie);
	pk->pk_used += need;
	return true;
}

static bool pack(void *arg, const struct ns_dirent *de)
{
	struct packer *pk = arg;
	struct stat st = {.st_ino = de->d_ino, .st_mode = (mode_t)DTTOIF(de->d_type)};
	size_t left = pk->pk_size - pk->pk_used;
	size_t need;

	if (pk->pk_plus)
		return pack_plus(pk, de);
	need = answer_dirent(pk->pk_buf + pk->pk_used, left, de->d_name, &st, (off_t)de->d_cookie);
	if (need > left)
		return false;
	pk->pk_used += need;
	return true;
}

/* The answer did not arrive: the counts in it are void. */
static void give_back(const struct packer *pk)
{
	size_t at = 0;

	while (at < pk->pk_used) {
		const struct fuse_direntplus *dp = (const void *)(pk->pk_buf + at);

		if (dp->entry_out.nodeid != 0)
			node_forget(&pk->pk_front->f_nodes, dp->entry_out.nodeid, 1);
		at += FUSE_DIRENTPLUS_SIZE(dp);
	}
}

static void read_dir(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off,
		     struct fuse_file_info *fi, bool plus)
{
	struct front *f = front_of(req);
	struct open_file *of = open_file_of(fi);
	struct packer pk = {
		.pk_front = f,
		.pk_buf = request_scratch(current_request),
		.pk_size = size < PROTO_MAX_PAYLOAD ? size : PROTO_MAX_PAYLOAD,
		.pk_plus = plus,
		.pk_root = ino == NODE_ROOT_ID && f->f_control != NULL,
	};
	int err;

	if (of->of_dir == NULL) {
		control_readdir(req, ino, size, off, plus);
		return;
	}
	pthread_mutex_lock(&of->of_lock);
	err = ext4_dir_read(of->of_dir, (uint64_t)off, pack, &pk);
	pthread_mutex_unlock(&of->of_lock);
	/* What was packed before an error is given out; the error comes again with the next call. */
	if (err != 0 && pk.pk_used == 0)
		front_reply_err(req, err);
	else if (fuse_reply_buf(req, pk.pk_buf, pk.pk_used) != 0 && plus)
		give_back(&pk);
}

void ops_readdir(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off, struct fuse_file_info *fi)
{
	read_dir(req, ino, size, off, fi, false);
}

void ops_readdirplus(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off,
		     struct fuse_file_info *fi)
{
	read_dir(req, ino, size, off, fi, true);
}

void ops_releasedir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	(void)ino;
	open_file_release(front_of(req), open_file_of(fi));
	fuse_reply_err(req, 0);
}

void ops_fsyncdir(fuse_req_t req, fuse_ino_t ino, int datasync, struct fuse_file_info *fi)
{
	struct inode *inode = front_inode(front_of(req), ino);

	int err = inode != NULL ? ext4_sync_file(inode, datasync != 0) : 0;

	(void)fi;
	if (inode != NULL && err == 0)
		front_mark_durable(front_of(req), inode);
	front_reply_err(req, err);
}
