/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * errseq.c - errors of asynchronous writes, told once to each open file.
 *
 * A word holds the last error, whether somebody has seen it, and a count. Recording an error counts only if the last one was seen, so a storm of errors does not wrap
 * the count; sampling at open marks it seen. A reader whose sample differs has not been told yet. As lib/errseq.c of the kernel.
 *
 * Invariants: (1) 0 means that there never was an error. (2) The count changes only when an error is recorded after the last one was seen.
 * Locking: one atomic word.
 */
#include "writeback/internal.h"

#define ERRSEQ_ERRNO 0xfffu
#define ERRSEQ_SEEN (1u << 12)
#define ERRSEQ_CTR_INC (1u << 13)

_Static_assert(MAX_ERRNO <= ERRSEQ_ERRNO, "an errno fits below the seen bit");

void mapping_set_error(struct address_space *as, int err)
{
	uint32_t old = atomic_load(&as->as_wb_err);
	uint32_t new;

	/* Users of write and fsync expect these two. */
	if (err != -ENOSPC && err != -EDQUOT)
		err = -EIO;
	do {
		new = (old & ~(ERRSEQ_ERRNO | ERRSEQ_SEEN)) | (uint32_t)-err;
		if (old & ERRSEQ_SEEN)
			new += ERRSEQ_CTR_INC;
		if (new == old)
			return;
	} while (!atomic_compare_exchange_weak(&as->as_wb_err, &old, new));
}

uint32_t wb_err_sample(struct inode *inode)
{
	uint32_t old;

	if (inode->i_mapping == NULL)
		return 0;
	old = atomic_load(&inode->i_mapping->as_wb_err);
	/* An error that nobody has seen is told to whoever opens now. */
	return old & ERRSEQ_SEEN ? old : 0;
}

int wb_err_check_and_advance(struct inode *inode, uint32_t *since)
{
	uint32_t old, new;

	if (inode->i_mapping == NULL)
		return 0;
	old = atomic_load(&inode->i_mapping->as_wb_err);
	if (old == *since)
		return 0;
	new = old | ERRSEQ_SEEN;
	/* Somebody else may mark it seen, or record a new error, which the next call tells. */
	(void)atomic_compare_exchange_strong(&inode->i_mapping->as_wb_err, &old, new);
	*since = new;
	return -(int)(new &ERRSEQ_ERRNO);
}
