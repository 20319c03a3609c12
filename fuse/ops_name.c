/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * ops_name.c - requests that look up, make and remove names.
 *
 * The kernel checks permissions on the way (default_permissions) and serialises changes of a directory.
 * Negative look-ups are answered with an entry without node, which the kernel keeps: a name can only
 * appear through the kernel.
 *
 * Invariants: (1) each entry that reaches the kernel is one look-up count; an answer that does not reach it gives
 * the count back.
 * Locking: none of its own.
 */
#include <errno.h>
#include <string.h>

#include "ext4/inode.h"
#include "fuse/answer.h"
#include "fuse/control.h"
#include "fuse/ops.h"

void front_fill_entry(struct front *f, struct inode *inode, struct fuse_entry_param *e)
{
	memset(e, 0, sizeof(*e));
	ext4_getattr(inode, &e->attr);
	e->ino = node_id(inode);
	e->generation = node_generation(inode);
	e->attr_timeout = FRONT_TIMEOUT_S;
	e->entry_timeout = FRONT_TIMEOUT_S;
	node_get(&f->f_nodes, inode);
}

void front_reply_entry(fuse_req_t req, int err, struct inode *inode)
{
	struct front *f = front_of(req);
	struct fuse_entry_param e;

	if (err != 0) {
		front_reply_err(req, err);
		return;
	}
	front_fill_entry(f, inode, &e);
	if (answer_entry(req, &e) != 0)
		node_forget(&f->f_nodes, e.ino, 1);
}

static void reply_no_entry(fuse_req_t req)
{
	struct fuse_entry_param e = {.entry_timeout = FRONT_TIMEOUT_S};

	answer_entry(req, &e);
}

/* What .ext4d shadows cannot be changed, nor can anything in it. */
static bool is_control(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	struct front *f = front_of(req);

	return front_inode(f, parent) == NULL || control_is_name(f, parent, name);
}

/*
 * The kernel has a file handle, in which anything may stand, and has not, or has no more, the inode that it names. It
 * compares the generation itself.
 */
static void lookup_handle(fuse_req_t req, fuse_ino_t ino)
{
	struct front *f = front_of(req);
	struct inode *inode = ext4_iget(f->f_sb, node_ino(ino), EXT4_IGET_HANDLE);

	if (IS_ERR(inode))
		front_reply_err(req, PTR_ERR(inode));
	else
		front_reply_entry(req, 0, inode);
}

void ops_lookup(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	struct front *f = front_of(req);
	struct inode *dir = front_inode(f, parent);
	struct inode *inode = NULL;
	int err;

	if (name[0] == '.' && name[1] == '\0') {
		lookup_handle(req, parent);
		return;
	}
	if (dir == NULL) {
		control_lookup(req, parent, name);
		return;
	}
	if (control_is_name(f, parent, name)) {
		struct fuse_entry_param e;

		control_fill_root(f, &e);
		answer_entry(req, &e);
		return;
	}
	err = ext4_lookup(dir, name, strlen(name), &inode);
	if (err == -ENOENT)
		reply_no_entry(req);
	else
		front_reply_entry(req, err, inode);
}

void ops_forget(fuse_req_t req, fuse_ino_t ino, uint64_t nlookup)
{
	node_forget(&front_of(req)->f_nodes, ino, nlookup);
	fuse_reply_none(req);
}

void ops_forget_multi(fuse_req_t req, size_t count, struct fuse_forget_data *forgets)
{
	struct front *f = front_of(req);

	for (size_t i = 0; i < count; i++)
		node_forget(&f->f_nodes, forgets[i].ino, forgets[i].nlookup);
	fuse_reply_none(req);
}

/* ---- New names ---- */

typedef int make_fn(struct inode *dir, const struct ns_new *n, struct inode **out);

static void make(fuse_req_t req, fuse_ino_t parent, struct ns_new *n, make_fn *fn)
{
	struct ns_cred cred = front_cred(req);
	struct inode *inode = NULL;
	int err;

	if (is_control(req, parent, n->nn_name)) {
		front_reply_err(req, -EPERM);
		return;
	}
	n->nn_len = strlen(n->nn_name);
	n->nn_cred = &cred;
	err = fn(front_inode(front_of(req), parent), n, &inode);
	n->nn_cred = NULL;
	front_reply_entry(req, err, inode);
}

void ops_mknod(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode, dev_t rdev)
{
	struct ns_new n = {.nn_name = name, .nn_mode = (uint16_t)mode, .nn_rdev = (uint32_t)rdev};

	make(req, parent, &n, ext4_create);
}

void ops_mkdir(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode)
{
	struct ns_new n = {.nn_name = name, .nn_mode = (uint16_t)((mode & 07777) | S_IFDIR)};

	make(req, parent, &n, ext4_mkdir);
}

void ops_symlink(fuse_req_t req, const char *target, fuse_ino_t parent, const char *name)
{
	struct ns_new n = {.nn_name = name, .nn_mode = S_IFLNK | 0777, .nn_target = target};

	make(req, parent, &n, ext4_symlink);
}

void ops_link(fuse_req_t req, fuse_ino_t ino, fuse_ino_t parent, const char *name)
{
	struct front *f = front_of(req);
	struct inode *inode = front_inode(f, ino);
	int err;

	if (inode == NULL || is_control(req, parent, name)) {
		front_reply_err(req, -EPERM);
		return;
	}
	err = ext4_link(inode, front_inode(f, parent), name, strlen(name));
	if (err == 0)
		ihold(inode);
	front_reply_entry(req, err, inode);
}

/* ---- Names that go ---- */

void ops_unlink(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	if (is_control(req, parent, name))
		front_reply_err(req, -EPERM);
	else
		front_reply_err(
			req, ext4_unlink(front_inode(front_of(req), parent), name, strlen(name)));
}

void ops_rmdir(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	if (is_control(req, parent, name))
		front_reply_err(req, -EPERM);
	else
		front_reply_err(req,
				ext4_rmdir(front_inode(front_of(req), parent), name, strlen(name)));
}

void ops_rename(fuse_req_t req, fuse_ino_t parent, const char *name, fuse_ino_t newparent,
		const char *newname, unsigned int flags)
{
	struct front *f = front_of(req);
	int err;

	if (is_control(req, parent, name) || is_control(req, newparent, newname)) {
		front_reply_err(req, -EPERM);
		return;
	}
	err = ext4_rename(front_inode(f, parent), name, strlen(name), front_inode(f, newparent),
			  newname, strlen(newname), flags);
	front_reply_err(req, err);
}
