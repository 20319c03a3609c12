/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * errseq.c - errors of asynchronous writes, told once to each open file, and once to each who asks for the file system.
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

static void errseq_set(_Atomic uint32_t *word, int err)
{
	uint32_t old = atomic_load(word);
	uint32_t new;

	do {
		new = (old & ~(ERRSEQ_ERRNO | ERRSEQ_SEEN)) | (uint32_t)-err;
		if (old & ERRSEQ_SEEN)
			new += ERRSEQ_CTR_INC;
		if (new == old)
			return;
	} while (!atomic_compare_exchange_weak(word, &old, new));
}

static int errseq_check_and_advance(_Atomic uint32_t *word, uint32_t *since)
{
	uint32_t old = atomic_load(word);
	uint32_t new;

	if (old == *since)
		return 0;
	new = old | ERRSEQ_SEEN;
	/* Somebody else may mark it seen, or record a new error, which the next call tells. */
	(void)atomic_compare_exchange_strong(word, &old, new);
	*since = new;
	return -(int)(new &ERRSEQ_ERRNO);
}

void mapping_set_error(struct address_space *as, int err)
{
	/* Users of write and fsync expect these two. */
	if (err != -ENOSPC && err != -EDQUOT)
		err = -EIO;
	errseq_set(&as->as_wb_err, err);
	errseq_set(&as->as_wb->wb_data_err, err);
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
	if (inode->i_mapping == NULL)
		return 0;
	return errseq_check_and_advance(&inode->i_mapping->as_wb_err, since);
}

int wb_syncfs(struct super_block *sb, _Atomic uint32_t *told)
{
	uint32_t since = atomic_load(told);
	int err = wb_sync_fs(sb, true);
	int lost = sb->s_wb == NULL ? 0 : errseq_check_and_advance(&sb->s_wb->wb_data_err, &since);

	atomic_store(told, since);
	return err != 0 ? err : lost;
}
