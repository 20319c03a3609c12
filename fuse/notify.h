/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef FUSE_NOTIFY_H
#define FUSE_NOTIFY_H
/* Telling the kernel that something it keeps is not true any more. */

#include "fuse/front.h"

/* Starts the thread. NULL: no memory or no thread. */
struct notifier *notifier_create(struct front *f);
/* Also registers with the writeback layer. */
void notifier_attach(struct notifier *nf);
/* The file system is still mounted: no more calls come from it after this. */
void notifier_detach(struct notifier *nf);
/* Stops the thread; what is queued is dropped. */
void notifier_destroy(struct notifier *nf);
/* Attributes of the inode changed by more than the kernel knows. Queued: never blocks. */
void notify_attributes(struct front *f, struct inode *inode);
/* An answer that waits for a notification. */
struct held_answer {
	fuse_req_t ha_req;
	int ha_err;	 /* <= 0: the answer, unless one of the next is set */
	size_t ha_bytes; /* not 0: so much was written */
	bool ha_open;	 /* the answer to an OPEN: */
	struct fuse_file_info ha_open_fi;
};

/* As notify_attributes(), and the request being served is answered once the kernel has been told. */
void notify_attributes_then(struct front *f, struct inode *inode, const struct held_answer *ha);
/*
 * bytes of a direct write at pos have reached the file. If the kernel may have read old data of them into its cache
 * meanwhile, that is dropped, the request is answered with bytes after it, and the result is true; false: nothing has to be
 * told, and the caller answers.
 */
bool notify_direct_write(fuse_req_t req, struct inode *inode, uint64_t pos, size_t bytes);
/* Queued and sent notifications. */
uint64_t notifier_sent(const struct notifier *nf);

#endif
