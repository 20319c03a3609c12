/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * file.c - open files and directories.
 *
 * Each is on a list, so that what the kernel did not release before the connection ended is released
 * then. An open file keeps the position up to which asynchronous write errors were reported to it.
 *
 * Invariants: (1) what is listed is open and not yet released. (2) an open file's inode lives at least as long:
 * the kernel forgets it only after the release.
 * Locking: ofs_lock, a leaf.
 */
#include "fuse/file.h"

#include <stdlib.h>

#include "fuse/control.h"

struct open_files {
	pthread_mutex_t ofs_lock;
	TAILQ_HEAD(open_file_list, open_file) ofs_list; /* [ofs_lock] */
	unsigned ofs_nr;				/* [ofs_lock] */
};

static struct open_file *open_new(struct front *f, int flags)
{
	struct open_file *of = calloc(1, sizeof(*of));

	if (of == NULL)
		return NULL;
	of->of_flags = flags;
	pthread_mutex_init(&of->of_lock, NULL);
	pthread_mutex_lock(&f->f_files->ofs_lock);
	TAILQ_INSERT_TAIL(&f->f_files->ofs_list, of, of_link);
	f->f_files->ofs_nr++;
	pthread_mutex_unlock(&f->f_files->ofs_lock);
	return of;
}

struct open_file *open_file_new(struct front *f, struct inode *inode, int flags)
{
	struct open_file *of = open_new(f, flags);

	if (of == NULL)
		return NULL;
	of->of_inode = inode;
	of->of_err = wb_err_sample(inode);
	return of;
}

struct open_file *open_dir_new(struct front *f, struct ns_dir *dir)
{
	struct open_file *of = open_new(f, O_RDONLY);

	if (of != NULL)
		of->of_dir = dir;
	return of;
}

struct open_file *open_control_new(struct front *f, struct control_open *ctl, int flags)
{
	struct open_file *of = open_new(f, flags);

	if (of != NULL)
		of->of_ctl = ctl;
	return of;
}

static void close_and_free(struct open_file *of)
{
	if (of->of_dir != NULL)
		ext4_dir_close(of->of_dir);
	if (of->of_ctl != NULL)
		control_close(of->of_ctl);
	if (of->of_inode != NULL)
		ext4_file_release(of->of_inode, of->of_flags);
	pthread_mutex_destroy(&of->of_lock);
	free(of);
}

void open_file_release(struct front *f, struct open_file *of)
{
	pthread_mutex_lock(&f->f_files->ofs_lock);
	TAILQ_REMOVE(&f->f_files->ofs_list, of, of_link);
	f->f_files->ofs_nr--;
	pthread_mutex_unlock(&f->f_files->ofs_lock);
	close_and_free(of);
}

unsigned open_files_count(struct open_files *ofs)
{
	unsigned nr;

	pthread_mutex_lock(&ofs->ofs_lock);
	nr = ofs->ofs_nr;
	pthread_mutex_unlock(&ofs->ofs_lock);
	return nr;
}

struct open_files *open_files_create(void)
{
	struct open_files *ofs = calloc(1, sizeof(*ofs));

	if (ofs == NULL)
		return NULL;
	TAILQ_INIT(&ofs->ofs_list);
	pthread_mutex_init(&ofs->ofs_lock, NULL);
	return ofs;
}

void open_files_release_all(struct open_files *ofs)
{
	struct open_file *of;

	while ((of = TAILQ_FIRST(&ofs->ofs_list)) != NULL) {
		TAILQ_REMOVE(&ofs->ofs_list, of, of_link);
		ofs->ofs_nr--;
		close_and_free(of);
	}
}

void open_files_destroy(struct open_files *ofs)
{
	pthread_mutex_destroy(&ofs->ofs_lock);
	free(ofs);
}
