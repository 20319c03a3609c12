/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * filter_log.c - a record of all that reaches the device, for crash tests and replay.
 *
 * File format (dm-log-writes): a super block of one sector (magic, version, number of entries,
 * sector size), then entries of one sector each (sector, sectors, flags, length of data), all
 * little-endian; the data of a write follows its entry, the text of a mark sits inside the entry.
 * Sectors are 512 bytes whatever the device has. Zeroes are written as a hole of the log.
 *
 * A write is recorded at its completion, before the caller hears of it. In a file a flush is
 * recorded at its submission: what completes while it is on the way then stands after it, which
 * is what a flush promises; should it fail, its entry is turned into an empty one. In memory the
 * flush is recorded at its completion with the number of entries that it covers, so that a crash
 * between the two can be simulated as well.
 *
 * The checksum of each write's memory at its submission is compared with that at its completion:
 * a write whose memory changed on the way is counted and logged.
 *
 * Invariants: (1) the header never counts an entry that is not written. (2) After blk_mark() or a
 * flush has returned the header counts its entry. (3) Once writing the log has failed nothing
 * more is recorded and each later mark reports the error.
 * Locking: lf_lock (no rank: taken inside completions), held over writes to the log file.
 */
#include "block/filter_log.h"

#include <endian.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <unistd.h>

#include "block/filter.h"
#include "util/assert.h"
#include "util/crc32c.h"
#include "util/err.h"
#include "util/lock.h"
#include "util/log.h"

#define LOG_MAGIC UINT64_C(0x6a736677736872)
#define LOG_VERSION 1
#define CHUNK_BYTES (1u << 20)
#define ENTRIES_MIN 256

struct log_super_disk {
	uint64_t magic;
	uint64_t version;
	uint64_t nr_entries;
	uint32_t sectorsize;
} __attribute__((packed));

struct log_entry_disk {
	uint64_t sector;
	uint64_t nr_sectors;
	uint64_t flags;
	uint64_t data_len;
};

_Static_assert(sizeof(struct log_super_disk) == 28, "on-disk size");
_Static_assert(sizeof(struct log_entry_disk) == 32, "on-disk size");
_Static_assert(LOG_MARK_MAX + 1 + sizeof(struct log_entry_disk) == BLK_SECTOR_BYTES,
	       "a mark fits into its entry");

/* Memory of the in-memory log, never moved. */
struct log_chunk {
	SLIST_ENTRY(log_chunk) lc_link;
	size_t lc_used;
	size_t lc_size;
	uint8_t lc_bytes[];
};

struct log_filter {
	struct blkdev lf_bd;
	struct mutex lf_lock;
	int lf_fd;			   /* [const after init] -1: in memory */
	int lf_error;			   /* [lf_lock] first error of the log itself */
	uint64_t lf_pos_bytes;		   /* [lf_lock] end of the log file */
	uint64_t lf_entries;		   /* [lf_lock] */
	struct log_entry *lf_memory;	   /* [lf_lock] in memory: lf_entries of lf_room */
	uint64_t lf_room;		   /* [lf_lock] */
	SLIST_HEAD(, log_chunk) lf_chunks; /* [lf_lock] */
	counter_t lf_unstable;		   /* [atomic] */
	counter_t lf_bytes;		   /* [atomic] data recorded */
};

struct log_child {
	struct bio lc_bio;
	struct bio *lc_parent;
	struct log_filter *lc_filter;
	uint64_t lc_entries;   /* lf_entries at submission */
	uint64_t lc_pos_bytes; /* flush to a file: where its entry is */
	uint32_t lc_crc;
};

static struct log_filter *log_of(struct blkdev *bd)
{
	return bd->bd_priv;
}

/* ---- The file ---- */

static int write_at(const struct log_filter *lf, const void *data, size_t len, uint64_t pos)
{
	const uint8_t *p = data;

	while (len > 0) {
		ssize_t n = pwrite(lf->lf_fd, p, len, (off_t)pos);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : -EIO;
		p += n;
		len -= (size_t)n;
		pos += (uint64_t)n;
	}
	return 0;
}

static int write_super(const struct log_filter *lf)
{
	uint8_t sector[BLK_SECTOR_BYTES] = {0};
	struct log_super_disk super = {
		.magic = htole64(LOG_MAGIC),
		.version = htole64(LOG_VERSION),
		.nr_entries = htole64(lf->lf_entries),
		.sectorsize = htole32(BLK_SECTOR_BYTES),
	};

	memcpy(sector, &super, sizeof(super));
	return write_at(lf, sector, sizeof(sector), 0);
}

static int write_entry(const struct log_filter *lf, const struct log_entry *le, uint64_t pos)
{
	uint8_t sector[BLK_SECTOR_BYTES] = {0};
	size_t mark_len = (le->le_flags & LOG_MARK_FLAG) != 0 ? strlen(le->le_data) : 0;
	struct log_entry_disk entry = {
		.sector = htole64(le->le_sector),
		.nr_sectors = htole64(le->le_nr_sectors),
		.flags = htole64(le->le_flags),
		.data_len = htole64(mark_len),
	};

	memcpy(sector, &entry, sizeof(entry));
	if (mark_len > 0)
		memcpy(sector + sizeof(entry), le->le_data, mark_len);
	return write_at(lf, sector, sizeof(sector), pos);
}

/* The data of a write, or a hole for zeroes, from pos on. */
static int write_data(const struct log_filter *lf, const struct log_entry *le,
		      const struct bio *bio, uint64_t pos)
{
	if (bio->bi_op == REQ_OP_WRITE_ZEROES) {
		off_t end = (off_t)(pos + le->le_nr_sectors * BLK_SECTOR_BYTES);

		return ftruncate(lf->lf_fd, end) != 0 ? -errno : 0;
	}
	for (int i = 0; i < bio->bi_iovcnt; i++) {
		int err = write_at(lf, bio->bi_iov[i].iov_base, bio->bi_iov[i].iov_len, pos);

		if (err != 0)
			return err;
		pos += bio->bi_iov[i].iov_len;
	}
	return 0;
}

static bool has_data(const struct bio *bio)
{
	return bio != NULL && (bio->bi_op == REQ_OP_WRITE || bio->bi_op == REQ_OP_WRITE_ZEROES);
}

static int append_to_file(struct log_filter *lf, const struct log_entry *le, const struct bio *bio)
{
	uint64_t pos = lf->lf_pos_bytes;
	int err = write_entry(lf, le, pos);

	pos += BLK_SECTOR_BYTES;
	if (err == 0 && has_data(bio)) {
		err = write_data(lf, le, bio, pos);
		pos += le->le_nr_sectors * BLK_SECTOR_BYTES;
	}
	if (err != 0)
		return err;
	lf->lf_pos_bytes = pos;
	lf->lf_entries++;
	if ((le->le_flags & (LOG_FLUSH_FLAG | LOG_MARK_FLAG)) != 0)
		err = write_super(lf);
	return err;
}

/* ---- Memory ---- */

static void *chunk_alloc(struct log_filter *lf, size_t len)
{
	struct log_chunk *lc = SLIST_FIRST(&lf->lf_chunks);

	len = (len + 7) & ~(size_t)7;
	if (lc == NULL || lc->lc_size - lc->lc_used < len) {
		size_t size = len > CHUNK_BYTES ? len : CHUNK_BYTES;

		lc = malloc(sizeof(*lc) + size);
		if (lc == NULL)
			return NULL;
		lc->lc_used = 0;
		lc->lc_size = size;
		SLIST_INSERT_HEAD(&lf->lf_chunks, lc, lc_link);
	}
	lc->lc_used += len;
	return lc->lc_bytes + lc->lc_used - len;
}

static int copy_data(struct log_filter *lf, struct log_entry *le, const struct bio *bio)
{
	const void *text = le->le_data;
	size_t len = bio != NULL ? (size_t)bio->bi_len_bytes : 0;
	void *copy;

	if ((le->le_flags & LOG_MARK_FLAG) != 0)
		len = strlen(text) + 1;
	else if (bio == NULL || bio->bi_op != REQ_OP_WRITE)
		return 0;
	copy = chunk_alloc(lf, len);
	if (copy == NULL)
		return -ENOMEM;
	if (bio != NULL)
		bio_copy_out(bio, 0, copy, len);
	else
		memcpy(copy, text, len);
	le->le_data = copy;
	return 0;
}

static int append_to_memory(struct log_filter *lf, struct log_entry *le, const struct bio *bio)
{
	int err = copy_data(lf, le, bio);

	if (err != 0)
		return err;
	if (lf->lf_entries == lf->lf_room) {
		uint64_t room = lf->lf_room == 0 ? ENTRIES_MIN : lf->lf_room * 2;
		struct log_entry *grown = realloc(lf->lf_memory, (size_t)room * sizeof(*grown));

		if (grown == NULL)
			return -ENOMEM;
		lf->lf_memory = grown;
		lf->lf_room = room;
	}
	lf->lf_memory[lf->lf_entries++] = *le;
	return 0;
}

/* ---- Recording ---- */

static void append_locked(struct log_filter *lf, struct log_entry *le, const struct bio *bio)
{
	mutex_assert_held(&lf->lf_lock);
	if (lf->lf_error != 0)
		return;
	if (lf->lf_fd >= 0)
		lf->lf_error = append_to_file(lf, le, bio);
	else
		lf->lf_error = append_to_memory(lf, le, bio);
	if (lf->lf_error != 0)
		log_err("blk=log: the log is incomplete from here on: %s", strerror(-lf->lf_error));
	else if (has_data(bio))
		counter_add(&lf->lf_bytes, bio->bi_len_bytes);
}

static unsigned flags_of(const struct bio *bio)
{
	unsigned flags = 0;

	if (bio->bi_op == REQ_OP_FLUSH)
		flags |= LOG_FLUSH_FLAG;
	if (bio->bi_op == REQ_OP_DISCARD)
		flags |= LOG_DISCARD_FLAG;
	if ((bio->bi_flags & REQ_FUA) != 0)
		flags |= LOG_FUA_FLAG;
	if ((bio->bi_flags & REQ_META) != 0)
		flags |= LOG_METADATA_FLAG;
	return flags;
}

static void record_locked(struct log_child *child)
{
	const struct bio *bio = child->lc_parent;
	struct log_entry le = {
		.le_sector = bio->bi_offset_bytes / BLK_SECTOR_BYTES,
		.le_nr_sectors = bio->bi_len_bytes / BLK_SECTOR_BYTES,
		.le_flags = flags_of(bio),
		.le_covers = bio->bi_op == REQ_OP_FLUSH ? child->lc_entries : 0,
		.le_submitted = child->lc_entries,
	};

	append_locked(child->lc_filter, &le, bio);
}

/* The flush failed after its entry was written: make it an entry that says nothing. */
static void cancel_flush_locked(struct log_child *child)
{
	struct log_filter *lf = child->lc_filter;
	struct log_entry nothing = {.le_sector = 0};

	if (lf->lf_error == 0)
		lf->lf_error = write_entry(lf, &nothing, child->lc_pos_bytes);
}

static uint32_t checksum(const struct bio *bio)
{
	uint32_t crc = ~0u;

	if (bio->bi_op == REQ_OP_WRITE)
		for (int i = 0; i < bio->bi_iovcnt; i++)
			crc = crc32c(crc, bio->bi_iov[i].iov_base, bio->bi_iov[i].iov_len);
	return crc;
}

static void check_stable(struct log_child *child)
{
	const struct bio *bio = child->lc_parent;

	if (checksum(bio) == child->lc_crc)
		return;
	counter_inc(&child->lc_filter->lf_unstable);
	log_err("blk=log: memory of the write at byte %llu changed while it was in flight",
		(unsigned long long)bio->bi_offset_bytes);
}

static void child_end_io(struct bio *bio)
{
	struct log_child *child = bio->bi_private;
	struct log_filter *lf = child->lc_filter;
	struct bio *parent = child->lc_parent;
	int status = bio->bi_status;
	bool early = parent->bi_op == REQ_OP_FLUSH && lf->lf_fd >= 0;

	check_stable(child);
	mutex_lock(&lf->lf_lock);
	if (status == 0 && !early)
		record_locked(child);
	if (status != 0 && early)
		cancel_flush_locked(child);
	mutex_unlock(&lf->lf_lock);
	free(child);
	bio_endio(parent, status);
}

static void submit_logged(struct log_filter *lf, struct bio *parent)
{
	struct log_child *child = malloc(sizeof(*child));
	struct bio *bio;

	if (child == NULL) {
		bio_endio(parent, -ENOMEM);
		return;
	}
	child->lc_bio = *parent;
	child->lc_bio.bi_end_io = child_end_io;
	child->lc_bio.bi_private = child;
	child->lc_parent = parent;
	child->lc_filter = lf;
	child->lc_crc = checksum(parent);
	mutex_lock(&lf->lf_lock);
	child->lc_entries = lf->lf_entries;
	child->lc_pos_bytes = lf->lf_pos_bytes;
	if (parent->bi_op == REQ_OP_FLUSH && lf->lf_fd >= 0)
		record_locked(child);
	mutex_unlock(&lf->lf_lock);
	bio = &child->lc_bio;
	blk_submit_lower(lf->lf_bd.bd_lower, &bio, 1);
}

static void log_submit(struct blkdev *bd, struct bio **bios, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		/* Reads are not recorded and need no child: the layer below ends them. */
		if (bios[i]->bi_op == REQ_OP_READ)
			bd->bd_lower->bd_ops->submit(bd->bd_lower, &bios[i], 1);
		else
			submit_logged(log_of(bd), bios[i]);
	}
}

static int log_mark(struct blkdev *bd, const char *text)
{
	struct log_filter *lf = log_of(bd);
	struct log_entry le = {.le_flags = LOG_MARK_FLAG, .le_data = text};
	int err;

	if (strlen(text) > LOG_MARK_MAX)
		return -ENAMETOOLONG;
	mutex_lock(&lf->lf_lock);
	le.le_submitted = lf->lf_entries;
	append_locked(lf, &le, NULL);
	err = lf->lf_error;
	mutex_unlock(&lf->lf_lock);
	return err;
}

static void free_chunks(struct log_filter *lf)
{
	struct log_chunk *lc;

	while ((lc = SLIST_FIRST(&lf->lf_chunks)) != NULL) {
		SLIST_REMOVE_HEAD(&lf->lf_chunks, lc_link);
		free(lc);
	}
}

static void log_close(struct blkdev *bd)
{
	struct log_filter *lf = log_of(bd);

	if (lf->lf_fd >= 0) {
		if (lf->lf_error == 0 && write_super(lf) != 0)
			log_err("blk=log: the header could not be written: %s", strerror(errno));
		close(lf->lf_fd);
	}
	filter_close_lower(bd);
	free_chunks(lf);
	free(lf->lf_memory);
	mutex_destroy(&lf->lf_lock);
	free(lf);
}

static void log_stats(struct blkdev *bd, void (*emit)(void *arg, const char *name, uint64_t value),
		      void *arg)
{
	struct log_filter *lf = log_of(bd);

	mutex_lock(&lf->lf_lock);
	emit(arg, "entries", lf->lf_entries);
	mutex_unlock(&lf->lf_lock);
	emit(arg, "bytes", counter_read(&lf->lf_bytes));
	emit(arg, "unstable_writes", counter_read(&lf->lf_unstable));
}

static const struct blkdev_ops log_ops = {
	.submit = log_submit,
	.mark = log_mark,
	.close = log_close,
	.stats = log_stats,
};

/* ---- Opening and reading ---- */

static struct blkdev *log_create(struct blkdev *lower, int fd)
{
	struct log_filter *lf = calloc(1, sizeof(*lf));

	if (lf == NULL)
		return ERR_PTR(-ENOMEM);
	filter_init(&lf->lf_bd, lower, &log_ops, "log", lf);
	mutex_init(&lf->lf_lock, LOCK_RANK_NONE);
	SLIST_INIT(&lf->lf_chunks);
	lf->lf_fd = fd;
	lf->lf_pos_bytes = BLK_SECTOR_BYTES;
	return &lf->lf_bd;
}

struct blkdev *log_open_file(struct blkdev *lower, const char *path)
{
	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	struct blkdev *bd;
	int err;

	if (fd < 0) {
		err = -errno;
		log_err("blk=log: %s: %s", path, strerror(-err));
		return ERR_PTR(err);
	}
	bd = log_create(lower, fd);
	if (IS_ERR(bd)) {
		close(fd);
		return bd;
	}
	err = write_super(log_of(bd));
	if (err != 0) {
		log_err("blk=log: %s: %s", path, strerror(-err));
		bd->bd_lower = NULL;
		log_close(bd);
		return ERR_PTR(err);
	}
	return bd;
}

struct blkdev *log_open_memory(struct blkdev *lower)
{
	return log_create(lower, -1);
}

struct blkdev *log_filter_open(struct blkdev *lower, const struct filter_args *args)
{
	if (args->fa_n != 1 || args->fa_value[0][0] == '\0') {
		log_err("blk=log: a file is needed, as in log:/tmp/w.log");
		return ERR_PTR(-EINVAL);
	}
	return log_open_file(lower, args->fa_value[0]);
}

size_t log_entry_count(struct blkdev *bd)
{
	struct log_filter *lf = log_of(bd);
	uint64_t n;

	mutex_lock(&lf->lf_lock);
	n = lf->lf_entries;
	mutex_unlock(&lf->lf_lock);
	return (size_t)n;
}

struct log_entry log_entry_get(struct blkdev *bd, size_t i)
{
	struct log_filter *lf = log_of(bd);
	struct log_entry le;

	ASSERT(lf->lf_fd < 0);
	mutex_lock(&lf->lf_lock);
	ASSERT_CMP((uint64_t)i, <, lf->lf_entries);
	le = lf->lf_memory[i];
	mutex_unlock(&lf->lf_lock);
	return le;
}

void log_reset(struct blkdev *bd)
{
	struct log_filter *lf = log_of(bd);

	ASSERT(lf->lf_fd < 0);
	mutex_lock(&lf->lf_lock);
	lf->lf_entries = 0;
	free_chunks(lf);
	mutex_unlock(&lf->lf_lock);
}

uint64_t log_unstable_writes(struct blkdev *bd)
{
	return counter_read(&log_of(bd)->lf_unstable);
}
