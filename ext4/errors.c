/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * errors.c - damage and I/O errors of metadata: told, recorded, and answered as errors= says.
 *
 * ext4_error() may be called nearly anywhere, with a handle open whose credits are spoken for. So
 * it only notes the error in memory and stops the file system if it has to; the superblock is
 * written by a worker (in simulations, where there is none, by the caller after an abort, or by
 * the next change of the superblock). With errors=continue it goes through a handle. After an
 * abort the journal writes nothing any more and the superblock in memory may hold what was never
 * committed: then the copy on the device is read, only its error fields and state are changed, and
 * it is written back.
 *
 * Invariants: (1) s_aborted is set once and stays; from then on nothing but error fields and state
 * is written. (2) s_error_count counts what no superblock holds yet.
 * Locking: s_sb_lock for the notes.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ext4/ext4_int.h"
#include "ext4/jbd2_glue.h"
#include "util/log.h"
#include "util/time.h"

#define MESSAGES_PER_WINDOW 10u
#define WINDOW_NS 5000000000ull

/* ---- Messages ---- */

/* As printk_ratelimited(): a burst, then silence until the window ends. */
static bool may_log(void)
{
	static _Atomic uint64_t window_start;
	static _Atomic unsigned in_window;
	uint64_t now = now_ns();
	uint64_t start = atomic_load(&window_start);

	if (start == 0 || now - start > WINDOW_NS) {
		if (atomic_compare_exchange_strong(&window_start, &start, now))
			atomic_store(&in_window, 0);
	}
	return atomic_fetch_add(&in_window, 1) < MESSAGES_PER_WINDOW;
}

static void log_error(const struct super_block *sb, const struct ext4_error_record *er,
		      const char *text)
{
	char where[80] = "";
	size_t n = 0;

	if (er->er_ino != 0)
		n = (size_t)snprintf(where, sizeof(where), "inode #%" PRIu32 ": ", er->er_ino);
	if (er->er_block != 0)
		snprintf(where + n, sizeof(where) - n, "block %" PRIu64 ": ", er->er_block);
	log_err("%s: error in %.*s: %s%s", sb->s_name, (int)sizeof(er->er_func), er->er_func, where,
		text);
}

void ext4_warning(struct super_block *sb, const char *fmt, ...)
{
	char text[512];
	va_list ap;

	if (!may_log())
		return;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	log_warn("%s: %s", sb->s_name, text);
}

/* ---- Notes ---- */

static uint8_t disk_error_code(int err)
{
	switch (err) {
	case -EIO:
		return EXT4_ERR_EIO;
	case -ENOMEM:
		return EXT4_ERR_ENOMEM;
	case -EFSBADCRC:
		return EXT4_ERR_EFSBADCRC;
	case -EFSCORRUPTED:
		return EXT4_ERR_EFSCORRUPTED;
	case -ENOSPC:
		return EXT4_ERR_ENOSPC;
	case -EROFS:
		return EXT4_ERR_EROFS;
	case -EFBIG:
		return EXT4_ERR_EFBIG;
	default:
		return EXT4_ERR_UNKNOWN;
	}
}

static void fill_record(struct ext4_error_record *er, const char *func, int err, uint32_t ino,
			uint64_t block)
{
	size_t n = strlen(func);

	memset(er, 0, sizeof(*er));
	er->er_time = now_real().tv_sec;
	memcpy(er->er_func, func, n < sizeof(er->er_func) ? n : sizeof(er->er_func));
	er->er_code = disk_error_code(err);
	er->er_ino = ino;
	er->er_block = block;
}

static void note(struct super_block *sb, const struct ext4_error_record *er, int err)
{
	counter_inc(&sb->s_stats.st_errors);
	mutex_lock(&sb->s_sb_lock);
	if (sb->s_error_count++ == 0)
		sb->s_err_first = *er;
	sb->s_err_last = *er;
	sb->s_mount_state |= EXT2_ERROR_FS;
	if (sb->s_first_err == 0)
		sb->s_first_err = err;
	mutex_unlock(&sb->s_sb_lock);
}

static void put_errors_locked(const struct super_block *sb, struct ext2_super_block *es)
{
	const struct ext4_error_record *first = &sb->s_err_first;
	const struct ext4_error_record *last = &sb->s_err_last;

	if (sb->s_error_count == 0)
		return;
	es->s_state |= cpu_to_le16(EXT2_ERROR_FS);
	es->s_error_count = cpu_to_le32(le32_to_cpu(es->s_error_count) + sb->s_error_count);
	if (es->s_first_error_time == 0 && es->s_first_error_time_hi == 0) {
		es->s_first_error_time = cpu_to_le32((uint32_t)(uint64_t)first->er_time);
		es->s_first_error_time_hi = (uint8_t)((uint64_t)first->er_time >> 32);
		es->s_first_error_ino = cpu_to_le32(first->er_ino);
		es->s_first_error_block = cpu_to_le64(first->er_block);
		memcpy(es->s_first_error_func, first->er_func, sizeof(es->s_first_error_func));
		es->s_first_error_line = 0;
		es->s_first_error_errcode = first->er_code;
	}
	es->s_last_error_time = cpu_to_le32((uint32_t)(uint64_t)last->er_time);
	es->s_last_error_time_hi = (uint8_t)((uint64_t)last->er_time >> 32);
	es->s_last_error_ino = cpu_to_le32(last->er_ino);
	es->s_last_error_block = cpu_to_le64(last->er_block);
	memcpy(es->s_last_error_func, last->er_func, sizeof(es->s_last_error_func));
	es->s_last_error_line = 0;
	es->s_last_error_errcode = last->er_code;
}

void ext4_error_flush_locked(struct super_block *sb, struct ext2_super_block *es)
{
	mutex_assert_held(&sb->s_sb_lock);
	put_errors_locked(sb, es);
	sb->s_error_count = 0;
}

void ext4_error_view(struct super_block *sb, struct ext2_super_block *es)
{
	mutex_lock(&sb->s_sb_lock);
	*es = *sb->s_es;
	put_errors_locked(sb, es);
	mutex_unlock(&sb->s_sb_lock);
}

void ext4_error_copy_locked(struct super_block *sb, const struct ext2_super_block *from)
{
	const size_t start = offsetof(struct ext2_super_block, s_error_count);
	const size_t end = offsetof(struct ext2_super_block, s_mount_opts);

	mutex_assert_held(&sb->s_sb_lock);
	memcpy((char *)sb->s_es + start, (const char *)from + start, end - start);
	sb->s_es->s_first_error_time_hi = from->s_first_error_time_hi;
	sb->s_es->s_last_error_time_hi = from->s_last_error_time_hi;
	sb->s_es->s_first_error_errcode = from->s_first_error_errcode;
	sb->s_es->s_last_error_errcode = from->s_last_error_errcode;
}

/* ---- Answers ---- */

static void nothing_more(struct super_block *sb, struct ext2_super_block *es, void *arg)
{
	(void)sb;
	(void)es;
	(void)arg;
}

/* errors=continue: the notes go out with any change of the superblock. */
static int write_through_handle(struct super_block *sb)
{
	handle_t *handle;
	int err;

	if (!sb->s_journal_loaded)
		return -EROFS;
	handle = ext4_journal_start_sb(sb, HT_MISC, 1, 0);
	if (IS_ERR(handle))
		return PTR_ERR(handle);
	err = ext4_super_change(handle, sb, nothing_more, NULL);
	return ext4_journal_stop(handle, err);
}

void ext4_error_work(struct work_item *w)
{
	struct super_block *sb =
		(struct super_block *)(void *)((char *)w -
					       offsetof(struct super_block, s_error_work));

	if (!atomic_load(&sb->s_aborted) && write_through_handle(sb) == 0)
		return;
	if (ext4_super_write_errors(sb) != 0)
		log_err("%s: the error cannot be recorded in the superblock", sb->s_name);
}

static void record_later(struct super_block *sb)
{
	bool queued = false;

	mutex_lock(&sb->s_sb_lock);
	if (sb->s_wq != NULL) {
		queue_work(sb->s_wq, &sb->s_error_work);
		queued = true;
	}
	mutex_unlock(&sb->s_sb_lock);
	if (!queued && atomic_load(&sb->s_aborted))
		ext4_error_work(&sb->s_error_work);
}

/* Everything stops. The first caller acts. */
static void stop_writing(struct super_block *sb, int err)
{
	if (atomic_exchange(&sb->s_aborted, true))
		return;
	atomic_store(&sb->s_read_only, true);
	if (sb->s_journal != NULL)
		jbd2_journal_abort(sb->s_journal, err);
	log_err("%s: no more changes are written: read-only from now on", sb->s_name);
	if (atomic_load(&sb->s_errors) != ERRORS_PANIC) {
		record_later(sb);
		return;
	}
	ext4_super_write_errors(sb);
	if (sb->s_panic != NULL)
		sb->s_panic(sb);
}

static void answer(struct super_block *sb, int err)
{
	if (atomic_load(&sb->s_aborted) || !sb->s_journal_loaded || sb_rdonly(sb))
		return;
	if (atomic_load(&sb->s_errors) == ERRORS_CONTINUE)
		record_later(sb);
	else
		stop_writing(sb, err);
}

void ext4_errors_catch_up(struct super_block *sb)
{
	bool any;
	int err;

	mutex_lock(&sb->s_sb_lock);
	any = sb->s_error_count > 0;
	err = sb->s_first_err;
	mutex_unlock(&sb->s_sb_lock);
	if (any)
		answer(sb, err);
}

int ext4_error_at(struct super_block *sb, const char *func, int err, uint32_t ino, uint64_t block,
		  const char *fmt, ...)
{
	struct ext4_error_record er;
	char text[512];
	va_list ap;

	if (atomic_load(&sb->s_shutdown))
		return err;
	fill_record(&er, func, err, ino, block);
	if (may_log()) {
		va_start(ap, fmt);
		vsnprintf(text, sizeof(text), fmt, ap);
		va_end(ap);
		log_error(sb, &er, text);
	}
	note(sb, &er, err);
	answer(sb, err);
	return err;
}

int ext4_std_error(struct super_block *sb, const char *func, uint32_t ino, uint64_t block, int err)
{
	struct ext4_error_record er;

	/* After an abort everything fails with these: told once is enough. */
	if (err == 0 || err == -ENOMEM || atomic_load(&sb->s_shutdown) ||
	    ((err == -EROFS || err == -EIO) && atomic_load(&sb->s_aborted)))
		return err;
	fill_record(&er, func, err, ino, block);
	if (may_log())
		log_error(sb, &er, strerror(-err));
	note(sb, &er, err);
	answer(sb, err);
	return err;
}

int ext4_read_failed(struct super_block *sb, uint32_t ino, uint64_t block, int err)
{
	if (err != -ENOMEM && !atomic_load(&sb->s_shutdown))
		ext4_warning(sb, "inode #%" PRIu32 ": block %" PRIu64 " cannot be read: %s", ino,
			     block, strerror(-err));
	return err;
}

void ext4_journal_aborted(void *fs, int error)
{
	struct super_block *sb = fs;
	struct ext4_error_record er;

	if (atomic_load(&sb->s_shutdown) || atomic_load(&sb->s_aborted))
		return;
	fill_record(&er, "jbd2", error, 0, 0);
	log_error(sb, &er, "the journal was aborted");
	note(sb, &er, error);
	stop_writing(sb, error);
}

int ext4_check_writable(struct super_block *sb)
{
	if (atomic_load_explicit(&sb->s_shutdown, memory_order_relaxed))
		return -EIO;
	/* An abort closes the journal a moment before its callback runs. */
	if (sb_rdonly(sb) || jbd2_is_aborted(sb->s_journal))
		return -EROFS;
	return 0;
}
