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
/* Queued and sent notifications. */
uint64_t notifier_sent(const struct notifier *nf);

#endif
