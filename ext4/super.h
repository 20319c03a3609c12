/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef EXT4_SUPER_H
#define EXT4_SUPER_H
#include "ext4/ext4.h"

/*
 * Open the file system on dev: superblock, feature policy, geometry, journal (replayed when needed, unless noload), the
 * group descriptors' positions; marked not clean. Nothing is scanned: the time does not depend on the size of the device.
 * `dev` stays the caller's on failure and becomes the file system's on success. upper is copied. The result has no orphan processed yet.
 * Errors, each with one line in the log: -EINVAL (not ext4, or an option), -EFSCORRUPTED, -EFSBADCRC, -EOPNOTSUPP (a feature, named),
 * -EROFS (needs recovery on a read-only device), -EIO.
 */
int ext4_fill_super(struct blkdev *dev, const struct ext4_options *opts,
		    const struct ext4_upper_ops *upper, struct super_block **sb_out);
/* Do these 1024 bytes, a superblock as it is on a device, say that a log waits for its replay? No, if they are none. */
bool ext4_raw_needs_recovery(const void *raw);
/* After the layers above are ready: process the orphans (list and file). 0 or negative errno. */
int ext4_orphan_cleanup(struct super_block *sb);
/* Are there orphans of an earlier mount? Between ext4_fill_super and ext4_orphan_cleanup. */
bool ext4_has_orphans(struct super_block *sb);
/*
 * The layers above are down and no inode is held: commit, empty the log, mark clean, write the superblock, flush, close the device, free.
 * Returns the first error met in the life of the mount that a user must hear of, or 0.
 */
int ext4_put_super(struct super_block *sb);
/* The same for a mount that fails later: the devices that the caller gave to ext4_fill_super() are its own again. */
int ext4_put_super_keep(struct super_block *sb);
/* Bring the counters of the superblock (free blocks and inodes, kbytes written, write time) up to date through a handle. */
int ext4_commit_super(handle_t *handle, struct super_block *sb);
/* Write the superblock at once, outside any transaction (errors, mount state). */
int ext4_write_super_now(struct super_block *sb);
/* Remount: read-only (log emptied, marked clean) or read-write. */
int ext4_remount_ro(struct super_block *sb);
int ext4_remount_rw(struct super_block *sb);
/* The first part of it: orphans are not processed yet. */
int ext4_start_writing(struct super_block *sb);
/* Freeze: no handle is open and the log on disk is empty and clean until ext4_thaw(). The data was written by the caller. */
int ext4_freeze(struct super_block *sb);
int ext4_thaw(struct super_block *sb);
/* s_kbytes_written as it would be written now, and the part since mount. */
uint64_t ext4_lifetime_write_kbytes(struct super_block *sb);
uint64_t ext4_session_write_kbytes(struct super_block *sb);

/* ---- Errors ---- */

/*
 * Bad data on the disk, found at ino/block (0: none): logged (rate-limited), recorded in the superblock, errors= obeyed, the journal aborted unless
 * errors=continue. Always returns err, so that `return ext4_error(...)` works. No lock later than BUFFER in the order may be held.
 */
__attribute__((format(printf, 6, 7))) int ext4_error_at(struct super_block *sb, const char *func,
							int err, uint32_t ino, uint64_t block,
							const char *fmt, ...);
#define ext4_error(sb, ino, ...) ext4_error_at(sb, __func__, -EFSCORRUPTED, ino, 0, __VA_ARGS__)
#define ext4_error_block(sb, ino, blk, ...)                                                        \
	ext4_error_at(sb, __func__, -EFSCORRUPTED, ino, blk, __VA_ARGS__)
/* The block fails its checksum: counted, and -EFSBADCRC. */
#define ext4_error_csum(sb, ino, blk, ...)                                                         \
	(counter_inc(&(sb)->s_stats.st_csum_errors),                                               \
	 ext4_error_at(sb, __func__, -EFSBADCRC, ino, blk, __VA_ARGS__))
/* The same for an I/O error on metadata; returns err. Out of memory is none, nor is what fails because of an abort. */
int ext4_std_error(struct super_block *sb, const char *func, uint32_t ino, uint64_t block, int err);
#define ext4_io_error(sb, ino, blk, err) ext4_std_error(sb, __func__, ino, blk, err)
/*
 * A block that only one file needs cannot be read: told, rate-limited, and that is all, as in the kernel. Returns err. Who gives up a change for it
 * that must be made, or a search, records it with ext4_io_error().
 */
int ext4_read_failed(struct super_block *sb, uint32_t ino, uint64_t block, int err);
/* The superblock in memory with all errors of now, those that it has not been told yet included. */
void ext4_error_view(struct super_block *sb, struct ext2_super_block *es);
__attribute__((format(printf, 2, 3))) void ext4_warning(struct super_block *sb, const char *fmt,
							...);
/* -EIO after shutdown, -EROFS when read-only, else 0: the first line of each operation that changes something. */
int ext4_check_writable(struct super_block *sb);
/* EXT4_IOC_SHUTDOWN: 0 default (freeze first), 1 log flush, 2 no log flush. */
int ext4_shutdown(struct super_block *sb, unsigned mode);

/* ---- Features ---- */

struct ext4_feature_verdict {
	bool v_read_only; /* mount read-only: v_text names the features */
	int v_error;	  /* 0, or -EOPNOTSUPP: v_text names what is refused */
	char v_text[256];
};
/* The policy of docs/FORMAT.md applied to a superblock. */
void ext4_check_features(const struct ext2_super_block *es, struct ext4_feature_verdict *v);

#endif
