/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * test_replay.c - logs made by debugfs, replayed here and by e2fsck, give equal disks.
 *
 * The transactions are seeded: blocks written, some that begin with the log's magic, blocks revoked,
 * transactions without commit block. Then the same with bytes of the log changed.
 */
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "tests/lib/pattern.h"
#include "tests/lib/prng.h"
#include "tests/lib/suite.h"
#include "tests/lib/testlib.h"
#include "tests/unit/journal/ext4_image.h"
#include "util/err.h"

#define DATA_BLOCKS 8u
#define COMMANDS_BYTES 8192u

/* An image and how debugfs opens its log. */
static const struct {
	const char *mkfs;
	const char *open;
	uint64_t size_bytes;
	uint64_t low, high; /* blocks that the log may write */
} kinds[] = {
	{"-t ext4 -b 1024 -O ^metadata_csum,^64bit -J size=1", "jo", 12 << 20, 9000, 12200},
	{"-t ext4 -b 1024 -O ^metadata_csum,64bit -J size=1", "jo", 12 << 20, 9000, 12200},
	{"-t ext4 -b 1024 -O metadata_csum,64bit -J size=1", "jo -c", 12 << 20, 9000, 12200},
	{"-t ext4 -b 1024 -O metadata_csum,^64bit -J size=1", "jo -c -v 2", 12 << 20, 9000, 12200},
	{"-t ext4 -b 1024 -O metadata_csum,64bit -J size=1", "jo -c -v 2", 12 << 20, 9000, 12200},
	{"-t ext4 -b 4096 -O metadata_csum,64bit -J size=4", "jo -c -v 3", 24 << 20, 3000, 6000},
	{"-t ext4 -b 4096 -O ^metadata_csum,64bit -J size=4", "jo -c -v 3", 24 << 20, 3000, 6000},
	{"-b 1024 -t ext3 -J size=1", "jo", 12 << 20, 9000, 12200},
	{"-t ext4 -b 4096 -O metadata_csum,fast_commit -J size=4,fast_commit_size=256", "jo -c",
	 24 << 20, 3000, 6000},
};
#define KINDS ((int)(sizeof(kinds) / sizeof(kinds[0])))
#define SEEDS 2

/* Files with the content that debugfs logs. */
static char *data_files[2];

static void make_data_files(void)
{
	for (unsigned i = 0; i < 2; i++) {
		uint8_t *data = malloc(DATA_BLOCKS * 4096);
		int fd;

		data_files[i] = testlib_tempfile();
		pattern_fill(data, DATA_BLOCKS * 4096, i + 1, 0);
		/* The second looks like blocks of the log itself, at either block size. */
		for (unsigned at = 0; i == 1 && at < DATA_BLOCKS * 4096; at += 1024)
			put_be32(data + at, JBD2_MAGIC_NUMBER);
		fd = open(data_files[i], O_WRONLY);
		ck_assert_int_ge(fd, 0);
		ck_assert_int_eq(write(fd, data, DATA_BLOCKS * 4096), DATA_BLOCKS * 4096);
		close(fd);
		free(data);
	}
}

static void drop_data_files(void)
{
	for (unsigned i = 0; i < 2; i++) {
		unlink(data_files[i]);
		free(data_files[i]);
	}
}

static uint64_t pick(struct prng *p, int kind)
{
	/* Few, so that blocks are written and revoked again and again. */
	return kinds[kind].low + prng_below(p, 12) * 7;
}

/* One jw: writes or revokes; without a commit block if `torn`. */
static size_t add_transaction(char *out, size_t room, struct prng *p, int kind, bool torn)
{
	/* One or the other: debugfs leaves the commit block out when it is given both. */
	bool write = prng_chance(p, 2, 3);
	unsigned writes = write ? (unsigned)prng_range(p, 1, 5) : 0;
	unsigned revokes = write ? 0 : (unsigned)prng_range(p, 1, 3);
	size_t n = (size_t)snprintf(out, room, "jw%s", torn ? " -c" : "");

	for (unsigned i = 0; i < writes; i++)
		n += (size_t)snprintf(out + n, room - n, "%s%llu", i == 0 ? " -b " : ",",
				      (unsigned long long)pick(p, kind) + i);
	for (unsigned i = 0; i < revokes; i++)
		n += (size_t)snprintf(out + n, room - n, "%s%llu", i == 0 ? " -r " : ",",
				      (unsigned long long)pick(p, kind));
	if (writes > 0)
		n += (size_t)snprintf(out + n, room - n, " %s", data_files[prng_below(p, 2)]);
	n += (size_t)snprintf(out + n, room - n, "\n");
	return n;
}

static struct blkdev *make_image(int kind, struct prng *p)
{
	char commands[COMMANDS_BYTES];
	unsigned transactions = 3 + (unsigned)prng_below(p, 8);
	bool torn = prng_chance(p, 1, 3);
	size_t n;

	n = (size_t)snprintf(commands, sizeof(commands), "%s\n", kinds[kind].open);
	for (unsigned i = 0; i < transactions; i++)
		n += add_transaction(commands + n, sizeof(commands) - n, p, kind,
				     torn && i == transactions - 1);
	snprintf(commands + n, sizeof(commands) - n, "jc\n");
	return testlib_mkfs_debugfs(kinds[kind].mkfs, kinds[kind].size_bytes, commands);
}

/* Both replay; *err is what ours said. The first block that differs, or UINT64_MAX. */
static uint64_t replay_both(struct blkdev *dev, int *err, int *fsck)
{
	struct blkdev *theirs = testlib_clone(dev);
	struct ext4_image a, b;
	uint64_t differs;

	ei_open(&a, dev);
	ei_open(&b, theirs);
	*err = ei_recover(&a);
	*fsck = testlib_fsck_args(theirs, "-fy -E journal_only");
	differs = ei_compare(&a, &b);
	blk_close(theirs);
	return differs;
}

START_TEST(debugfs_logs_replay_as_with_e2fsck)
{
	int kind = _i / SEEDS;
	struct prng p;
	struct blkdev *dev;
	uint64_t differs;
	int err, fsck;

	prng_seed(&p, prng_seed_from_env(77 + (uint64_t)_i));
	make_data_files();
	dev = make_image(kind, &p);
	differs = replay_both(dev, &err, &fsck);
	ck_assert_int_eq(err, 0);
	if (differs != UINT64_MAX)
		ck_abort_msg("kind %d: block %llu differs", kind, (unsigned long long)differs);
	/* Twice is once. */
	differs = replay_both(dev, &err, &fsck);
	ck_assert_int_eq(err, 0);
	ck_assert_uint_eq(differs, UINT64_MAX);
	ck_assert_int_eq(testlib_fsck_args(dev, "-fy -E journal_only"), 0);
	blk_close(dev);
	drop_data_files();
}
END_TEST

/* A log of two commands: a write of block 9000 and a revoke of it, in this order or the other. */
static struct blkdev *make_pair(int kind, bool revoke_first)
{
	char commands[COMMANDS_BYTES];
	const char *revoke = "jw -r 9000\n";

	make_data_files();
	snprintf(commands, sizeof(commands), "jo -c\n%sjw -b 9000 %s\n%sjc\n",
		 revoke_first ? revoke : "", data_files[0], revoke_first ? "" : revoke);
	return testlib_mkfs_debugfs(kinds[kind].mkfs, kinds[kind].size_bytes, commands);
}

static bool block_is_written(struct blkdev *dev, uint64_t blocknr)
{
	struct ext4_image ei;

	ei_open(&ei, dev);
	return pattern_mismatch(ei_block(&ei, blocknr), ei.ei_block_bytes, 1, 0) == -1;
}

START_TEST(a_revoke_after_the_write_wins)
{
	struct blkdev *dev = make_pair(2, false);
	int err, fsck;

	ck_assert_uint_eq(replay_both(dev, &err, &fsck), UINT64_MAX);
	ck_assert_int_eq(err, 0);
	ck_assert(!block_is_written(dev, 9000));
	blk_close(dev);
	drop_data_files();
}
END_TEST

START_TEST(a_write_after_the_revoke_wins)
{
	struct blkdev *dev = make_pair(2, true);
	int err, fsck;

	ck_assert_uint_eq(replay_both(dev, &err, &fsck), UINT64_MAX);
	ck_assert_int_eq(err, 0);
	ck_assert(block_is_written(dev, 9000));
	blk_close(dev);
	drop_data_files();
}
END_TEST

/* Change a byte somewhere in the first blocks of the log, never in its superblock. */
static void damage(struct blkdev *dev, struct prng *p)
{
	struct ext4_image ei;
	uint8_t *block;
	size_t at;

	ei_open(&ei, dev);
	block = ei_log_block(&ei, 1 + (uint32_t)prng_below(p, 24));
	/* Headers and tags are at the start, checksums also at the end. */
	at = prng_chance(p, 2, 3) ? prng_below(p, 64) : ei.ei_block_bytes - 1 - prng_below(p, 16);
	block[at] ^= (uint8_t)(1u << prng_below(p, 8));
}

START_TEST(damaged_logs_replay_as_with_e2fsck_or_are_refused)
{
	int kind = _i / SEEDS;
	struct prng p;
	struct blkdev *dev;
	uint64_t differs;
	int err, fsck;

	prng_seed(&p, prng_seed_from_env(1000 + (uint64_t)_i));
	make_data_files();
	dev = make_image(kind, &p);
	damage(dev, &p);
	differs = replay_both(dev, &err, &fsck);
	/* -EFSCORRUPTED: refused before anything was written, where e2fsck may write what it can. */
	if (differs != UINT64_MAX && err != -EFSCORRUPTED)
		ck_abort_msg("kind %d: block %llu differs, error %d, e2fsck %d", kind,
			     (unsigned long long)differs, err, fsck);
	if (err != 0 && err != -EFSCORRUPTED && err != -EFSBADCRC)
		ck_abort_msg("kind %d: error %d", kind, err);
	blk_close(dev);
	drop_data_files();
}
END_TEST

/* ---- Our own logs ---- */

static void log_block(journal_t *j, handle_t *h, uint64_t blocknr, uint64_t tag)
{
	struct buffer_head *bh = bh_get(j->j_cache, blocknr);

	ck_assert(!IS_ERR(bh));
	ck_assert_int_eq(jbd2_journal_get_create_access(h, bh), 0);
	lock_buffer(bh);
	pattern_fill(bh->b_data, bh->b_size, tag, 0);
	if (tag % 5 == 0)
		put_be32(bh->b_data, JBD2_MAGIC_NUMBER);
	bh_set(bh, BH_UPTODATE);
	unlock_buffer(bh);
	ck_assert_int_eq(jbd2_journal_dirty_metadata(h, bh), 0);
	bh_put(bh);
}

/* Transactions of up to 150 blocks, so that some have several descriptors; revokes between them. */
static void log_transactions(journal_t *j, struct prng *p, int kind)
{
	uint64_t tag = 0;

	for (unsigned i = 0; i < 6; i++) {
		unsigned n = 1 + (unsigned)prng_below(p, 100);
		handle_t *h = jbd2_journal_start(j, HT_MISC, 150, 20);

		ck_assert(!IS_ERR(h));
		for (unsigned k = 0; k < n; k++)
			log_block(j, h, kinds[kind].low + prng_below(p, 300), ++tag);
		for (unsigned k = 0; k < 10; k++)
			ck_assert_int_eq(
				jbd2_journal_revoke(h, kinds[kind].low + prng_below(p, 300), NULL),
				0);
		ck_assert_int_eq(jbd2_journal_stop(h), 0);
		ck_assert_int_eq(jbd2_journal_force_commit(j), 0);
	}
}

START_TEST(our_logs_replay_with_e2fsck_as_here)
{
	struct blkdev *dev, *dirty;
	struct ext4_image ei;
	struct jbd2_params params;
	struct bh_cache *cache;
	struct prng p;
	journal_t *j;
	int err, fsck;

	prng_seed(&p, prng_seed_from_env(300 + (uint64_t)_i));
	dev = testlib_mkfs(kinds[_i].mkfs, kinds[_i].size_bytes);
	ei_open(&ei, dev);
	ei_set_needs_recovery(&ei);
	cache = bh_cache_create(dev, ei.ei_block_bytes, 16 << 20);
	params = ei_params(&ei, cache);
	j = jbd2_journal_init(&params);
	ck_assert(!IS_ERR(j));
	ck_assert_int_eq(jbd2_journal_load(j), 0);
	/* Near the end of the log: it wraps. */
	j->j_head = j->j_last - 120;
	j->j_tail = j->j_head;
	log_transactions(j, &p, _i);
	ck_assert_uint_eq(counter_read(&jbd2_stats(j)->js_log_wraps), 1);
	dirty = testlib_clone(dev);
	ck_assert_int_eq(jbd2_journal_destroy(j), 0);
	bh_cache_destroy(cache);
	ck_assert_uint_eq(replay_both(dirty, &err, &fsck), UINT64_MAX);
	ck_assert_int_eq(err, 0);
	/* And it is what the checkpoint made of it. */
	ei_open(&ei, dev);
	for (uint64_t b = kinds[_i].low; b < kinds[_i].low + 300; b++) {
		struct ext4_image other;

		ei_open(&other, dirty);
		if (memcmp(ei_block(&ei, b), ei_block(&other, b), ei.ei_block_bytes) != 0)
			ck_abort_msg("block %llu: replay and checkpoint differ",
				     (unsigned long long)b);
	}
	blk_close(dirty);
	blk_close(dev);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("journal/replay");
	TCase *tc = testlib_case("replay");

	tcase_add_loop_test(tc, debugfs_logs_replay_as_with_e2fsck, 0, KINDS * SEEDS);
	tcase_add_loop_test(tc, our_logs_replay_with_e2fsck_as_here, 0, KINDS);
	tcase_add_test(tc, a_revoke_after_the_write_wins);
	tcase_add_test(tc, a_write_after_the_revoke_wins);
	tcase_add_loop_test(tc, damaged_logs_replay_as_with_e2fsck_or_are_refused, 0,
			    KINDS * SEEDS);
	suite_add_tcase(s, tc);
	return testlib_run_suite(s);
}
