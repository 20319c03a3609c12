/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * test_map.c - the mapper on real file systems in memory: files against arrays, remounts, e2fsck as the judge, I/O errors, a full device, and block maps that e2fsprogs made.
 */
#include "tests/unit/alloc/alloc_fixture.h"

#include <pthread.h>
#include <unistd.h>

#include "alloc/extents.h"
#include "alloc/indirect.h"
#include "block/filter_fault.h"

#define MIB (UINT64_C(1) << 20)
#define BLOCKS 1500u
#define FILES 3u

enum state { S_HOLE, S_WRITTEN, S_UNWRITTEN, S_DELAYED };
struct block {
	uint8_t state;
	ext4_fsblk_t pblk;
};
static struct block model[FILES][BLOCKS];

static struct fix fix;
static struct inode *inodes[FILES];
static struct prng rng;
static bool extents;

/* ---- Model ---- */

static enum state state_of(unsigned m_flags)
{
	if (m_flags & EXT4_MAP_MAPPED)
		return S_WRITTEN;
	if (m_flags & EXT4_MAP_UNWRITTEN)
		return S_UNWRITTEN;
	return m_flags & EXT4_MAP_DELAYED ? S_DELAYED : S_HOLE;
}

static void check_file(unsigned f)
{
	ext4_lblk_t lblk = 0;

	ext4_es_check(inodes[f]);
	if (extents)
		ck_assert_int_eq(ext4_ext_check(inodes[f]), 0);
	while (lblk < BLOCKS) {
		struct ext4_map_blocks map = {.m_lblk = lblk, .m_len = BLOCKS - lblk};

		ck_assert_int_ge(ext4_map_blocks(NULL, inodes[f], &map, 0), 0);
		for (ext4_lblk_t i = 0; i < map.m_len; i++) {
			const struct block *b = &model[f][lblk + i];

			ck_assert_uint_eq(b->state, state_of(map.m_flags));
			if (map.m_pblk != 0)
				ck_assert_uint_eq(b->pblk, map.m_pblk + i);
		}
		lblk += map.m_len;
	}
}

/* i_blocks is what the model has and the map's own blocks. No block belongs to two files. */
static void check_blocks(void)
{
	uint8_t *owner = calloc(fix.sb->s_blocks_count, 1);
	uint64_t mapped;

	for (unsigned f = 0; f < FILES; f++) {
		mapped = 0;
		check_file(f);
		for (unsigned i = 0; i < BLOCKS; i++) {
			const struct block *b = &model[f][i];

			if (b->state != S_WRITTEN && b->state != S_UNWRITTEN)
				continue;
			ck_assert_uint_eq(owner[b->pblk]++, 0);
			mapped++;
		}
		ck_assert_uint_ge(atomic_load(&inodes[f]->i_blocks) * 512 / fix.sb->s_blocksize,
				  mapped);
	}
	free(owner);
	fix_check_accounts(&fix);
}

static void get_files(void)
{
	for (unsigned f = 0; f < FILES; f++)
		inodes[f] = fix_file(&fix, f);
}

static void put_files(void)
{
	for (unsigned f = 0; f < FILES; f++)
		iput(inodes[f]);
}

/* Large enough for every block, so that none lies past the end. */
static void set_sizes(void)
{
	for (unsigned f = 0; f < FILES; f++) {
		uint64_t size = (uint64_t)BLOCKS << fix.sb->s_blocksize_bits;
		handle_t *handle = fix_start(&fix);

		i_size_write(inodes[f], size);
		atomic_store(&inodes[f]->i_disksize, size);
		ck_assert_int_eq(ext4_mark_inode_dirty(handle, inodes[f]), 0);
		fix_stop(handle);
	}
}

static void setup(const char *args, uint64_t bytes, uint64_t seed)
{
	memset(model, 0, sizeof(model));
	prng_seed(&rng, seed);
	fix_open(&fix, args, bytes, FILES);
	fix_mount(&fix);
	get_files();
	extents = ext4_is_extents(inodes[0]);
	set_sizes();
}

static void remount(void)
{
	put_files();
	fix_umount(&fix);
	ck_assert_int_eq(testlib_fsck(fix.image), 0);
	fix_mount(&fix);
	get_files();
}

static void finish(void)
{
	put_files();
	fix_close(&fix);
}

/* ---- Operations ---- */

static handle_t *start(struct inode *inode)
{
	handle_t *handle = ext4_journal_start(inode, HT_MAP_BLOCKS, ext4_chunk_trans_blocks(inode));

	ck_assert(!IS_ERR(handle));
	return handle;
}

/* Blocks that one call went on, or a negative errno. */
static int op_create(unsigned f, ext4_lblk_t lblk, ext4_lblk_t len, unsigned flags)
{
	struct ext4_map_blocks map = {.m_lblk = lblk, .m_len = len};
	handle_t *handle = start(inodes[f]);
	int ret = ext4_map_blocks(handle, inodes[f], &map, flags | EXT4_GET_BLOCKS_CREATE);

	ck_assert_int_le(ext4_journal_stop(handle, 0), 0);
	if (ret < 0)
		return ret;
	ck_assert_int_gt(ret, 0);
	for (ext4_lblk_t i = 0; i < map.m_len; i++) {
		struct block *b = &model[f][lblk + i];

		b->state = (uint8_t)state_of(map.m_flags);
		b->pblk = map.m_pblk + i;
	}
	return ret;
}

static int op_fill(unsigned f, ext4_lblk_t lblk, ext4_lblk_t len, unsigned flags)
{
	ext4_lblk_t end = lblk + len;
	int n = 0;

	if (!extents)
		flags &=
			~(unsigned)(EXT4_GET_BLOCKS_UNWRIT_EXT | EXT4_GET_BLOCKS_CONVERT_UNWRITTEN);
	for (; lblk < end && n >= 0; lblk += n > 0 ? (ext4_lblk_t)n : 0)
		n = op_create(f, lblk, end - lblk, flags);
	return n < 0 ? n : 0;
}

static int op_delay(unsigned f, ext4_lblk_t lblk, ext4_lblk_t len)
{
	int err = ext4_da_reserve_range(inodes[f], lblk, len, &fix_user);

	for (ext4_lblk_t i = lblk; err == 0 && i < lblk + len; i++)
		if (model[f][i].state == S_HOLE)
			model[f][i].state = S_DELAYED;
	return err;
}

static int op_convert(unsigned f, ext4_lblk_t lblk, ext4_lblk_t len)
{
	int err = ext4_convert_unwritten_extents(NULL, inodes[f], lblk, len);

	for (ext4_lblk_t i = lblk; err == 0 && i < lblk + len; i++)
		if (model[f][i].state == S_UNWRITTEN)
			model[f][i].state = S_WRITTEN;
	return err;
}

static int op_remove(unsigned f, ext4_lblk_t lblk, ext4_lblk_t last)
{
	handle_t *handle =
		ext4_journal_start(inodes[f], HT_TRUNCATE, ext4_truncate_trans_blocks(inodes[f]));
	int err = ext4_remove_space(handle, inodes[f], lblk, last);

	ck_assert_int_le(ext4_journal_stop(handle, 0), 0);
	for (ext4_lblk_t i = lblk; err == 0 && i < BLOCKS && i <= last; i++)
		model[f][i].state = S_HOLE;
	return err;
}

static int random_op(unsigned max_len)
{
	unsigned f = (unsigned)prng_below(&rng, FILES);
	ext4_lblk_t lblk = (ext4_lblk_t)prng_below(&rng, BLOCKS);
	ext4_lblk_t len = 1 + (ext4_lblk_t)prng_below(&rng, max_len);

	if (len > BLOCKS - lblk)
		len = BLOCKS - lblk;
	switch (prng_below(&rng, 12)) {
	case 0:
		return op_fill(f, lblk, len, 0);
	case 1:
	case 2:
		return op_fill(f, lblk, len,
			       EXT4_GET_BLOCKS_UNWRIT_EXT | EXT4_GET_BLOCKS_NO_NORMALIZE);
	case 3:
	case 4:
		return op_delay(f, lblk, len);
	case 5:
	case 6:
		return op_fill(f, lblk, len,
			       EXT4_GET_BLOCKS_UNWRIT_EXT | EXT4_GET_BLOCKS_DELALLOC_RESERVE |
				       EXT4_GET_BLOCKS_METADATA_NOFAIL);
	case 7:
	case 8:
		return op_convert(f, lblk, len);
	case 9:
		return op_fill(f, lblk, len,
			       EXT4_GET_BLOCKS_UNWRIT_EXT | EXT4_GET_BLOCKS_CONVERT_UNWRITTEN);
	case 10:
		if (prng_chance(&rng, 1, 3))
			ext4_es_shrink(fix.sb, 1000);
		return 0;
	default:
		return op_remove(f, lblk,
				 prng_chance(&rng, 1, 8) ? EXT4_MAX_BLOCKS : lblk + len - 1);
	}
}

/* Delayed blocks are of this mount only. */
static void allocate_delayed(void)
{
	for (unsigned f = 0; f < FILES; f++)
		for (ext4_lblk_t i = 0; i < BLOCKS; i++)
			if (model[f][i].state == S_DELAYED)
				ck_assert_int_eq(op_fill(f, i, 1, EXT4_GET_BLOCKS_DELALLOC_RESERVE),
						 0);
	ck_assert_uint_eq(ext4_sb_dirty_blocks(fix.sb), 0);
}

static void run(const char *args, uint64_t bytes, uint64_t seed)
{
	setup(args, bytes, seed);
	for (int round = 0; round < 2; round++) {
		for (int i = 0; i < 400; i++) {
			ck_assert_int_eq(random_op(round == 0 ? 200 : 8), 0);
			if (i % 60 == 0)
				fix_commit(&fix);
		}
		check_blocks();
		allocate_delayed();
		check_blocks();
		remount();
		check_blocks();
	}
	for (unsigned f = 0; f < FILES; f++)
		ck_assert_int_eq(op_remove(f, 0, EXT4_MAX_BLOCKS), 0);
	check_blocks();
	for (unsigned f = 0; f < FILES; f++)
		ck_assert_uint_eq(atomic_load(&inodes[f]->i_blocks), 0);
	finish();
}

START_TEST(random_operations_on_extents)
{
	uint64_t seed = prng_seed_from_env(1);

	run("-t ext4 -b 4096", 48 * MIB, seed);
	run("-t ext4 -b 1024 -J size=1 -g 2048 -O ^resize_inode", 16 * MIB, seed + 1);
	run("-t ext4 -b 4096 -O ^metadata_csum,^64bit,uninit_bg", 48 * MIB, seed + 2);
	run("-t ext4 -b 2048 -O ^metadata_csum -I 128", 32 * MIB, seed + 3);
}
END_TEST

START_TEST(random_operations_on_indirect_maps)
{
	uint64_t seed = prng_seed_from_env(10);

	run("-t ext4 -b 4096 -O ^extents,^64bit", 48 * MIB, seed);
	run("-t ext4 -b 1024 -O ^extents,^64bit,^resize_inode -J size=1 -g 2048", 16 * MIB,
	    seed + 1);
	run("-t ext3 -b 2048", 32 * MIB, seed + 2);
}
END_TEST

/* ---- A full device ---- */

static void fill_until_full(const char *args, uint64_t bytes)
{
	int err = 0;

	setup(args, bytes, 3);
	/* Single blocks far apart, so that the map needs many blocks of its own. */
	for (ext4_lblk_t i = 0; err == 0 && i < BLOCKS; i++)
		for (unsigned f = 0; f < FILES && err == 0; f++)
			err = op_fill(f, (i * 7) % BLOCKS, 1, EXT4_GET_BLOCKS_NO_NORMALIZE);
	ck_assert_int_eq(err, -ENOSPC);
	check_blocks();
	remount();
	check_blocks();
	for (unsigned f = 0; f < FILES; f++)
		ck_assert_int_eq(op_remove(f, 0, EXT4_MAX_BLOCKS), 0);
	fix_commit(&fix);
	ck_assert_int_eq(op_fill(0, 0, 100, 0), 0);
	check_blocks();
	finish();
}

START_TEST(a_full_device_leaves_whole_maps)
{
	fill_until_full("-t ext4 -b 1024 -N 16 -m 1 -O ^resize_inode,^has_journal", 2 * MIB);
	fill_until_full("-t ext4 -b 1024 -N 16 -m 1 -O ^resize_inode,^has_journal,^extents,^64bit",
			2 * MIB);
}
END_TEST

/* Splits of unwritten extents on a device without a free block: the reserved pool has them. */
START_TEST(conversions_work_on_a_full_device)
{
	int err = 0;

	setup("-t ext4 -b 1024 -N 16 -m 0 -O ^resize_inode,^has_journal", 3 * MIB, 4);
	ck_assert_int_eq(op_fill(0, 0, 1000, EXT4_GET_BLOCKS_UNWRIT_EXT), 0);
	for (ext4_lblk_t i = 0; err == 0 && i < BLOCKS; i++)
		err = op_fill(1, i, BLOCKS - i, 0);
	for (ext4_lblk_t i = 0; err == 0 && i < BLOCKS; i++)
		err = op_fill(2, i, BLOCKS - i, 0);
	ck_assert_int_eq(err, -ENOSPC);
	for (ext4_lblk_t i = 0; i < 1000; i += 3)
		ck_assert_int_eq(op_convert(0, i, 1), 0);
	check_blocks();
	ck_assert_uint_gt(ext4_ext_depth(ext4_ext_root(inodes[0])), 0);
	remount();
	check_blocks();
	finish();
}
END_TEST

/* ---- I/O errors ---- */

/* Mount with a device whose nth read of metadata fails once, work, unmount: an error or none, never a broken map. */
static bool run_with_read_error(uint64_t nth)
{
	struct fault_rule rule = {
		.fr_kind = FAULT_ERROR,
		.fr_ops = FAULT_OP(REQ_OP_READ),
		.fr_nth = nth,
	};
	struct blkdev *dev, *fault;
	struct ext4_options opts;
	const struct ext4_upper_ops upper = {
		.alloc_inode_init = ext4_alloc_inode_init,
		.alloc_inode_destroy = ext4_alloc_inode_destroy,
	};
	struct fault_options fo = {.fo_seed = 1};
	bool hit;
	int id, err = 0;

	dev = mem_open(fix.image->bd_size_bytes, 512, mem_data(fix.image));
	fault = fault_open(dev, &fo);
	ext4_options_init(&opts);
	opts.o_manual_commit = true;
	ck_assert_int_eq(ext4_fill_super(fault, &opts, &upper, &fix.sb), 0);
	ck_assert_int_eq(ext4_alloc_init(fix.sb), 0);
	get_files();
	id = fault_arm(fault, &rule);
	for (unsigned f = 0; f < FILES && err == 0; f++) {
		err = op_convert(f, 0, 300);
		if (err == 0)
			err = op_remove(f, 100, 250);
		if (err == 0)
			err = op_fill(f, 0, BLOCKS, 0);
		if (err == 0)
			err = op_remove(f, 50, EXT4_MAX_BLOCKS);
	}
	hit = fault_hits(fault, id) > 0;
	fault_disarm_all(fault);
	ck_assert(err == 0 || hit);
	put_files();
	ck_assert_uint_eq(ext4_icache_shrink_all(fix.sb), 0);
	ext4_alloc_exit(fix.sb);
	ext4_put_super(fix.sb);
	fix.sb = NULL;
	return hit;
}

START_TEST(a_read_error_at_any_point_leaves_whole_maps)
{
	struct blkdev *original;
	uint64_t nth = 1;
	bool more = true;

	setup("-t ext4 -b 1024 -O ^resize_inode", 8 * MIB, 5);
	for (unsigned f = 0; f < FILES; f++)
		for (ext4_lblk_t i = 0; i < 400; i += 2)
			ck_assert_int_eq(
				op_fill(f, i, 1,
					EXT4_GET_BLOCKS_NO_NORMALIZE | EXT4_GET_BLOCKS_UNWRIT_EXT),
				0);
	put_files();
	fix_umount(&fix);
	original = fix.image;
	for (; more; nth++) {
		fix.image = testlib_clone(original);
		more = run_with_read_error(nth);
		/* The file system may be marked for a check; what is in it must be whole. */
		ck_assert_int_le(testlib_fsck_args(fix.image, "-fy"), 1);
		ck_assert_int_eq(testlib_fsck(fix.image), 0);
		blk_close(fix.image);
		ck_assert_uint_lt(nth, 200);
	}
	ck_assert_uint_gt(nth, 5);
	blk_close(original);
}
END_TEST

/* ---- Maps that e2fsprogs made ---- */

/* A host file with data in pieces, in 1 KiB units: direct, single, double and triple indirect blocks at 1 KiB. */
static char *make_sparse_file(void)
{
	static const unsigned at[] = {0, 3, 11, 12, 200, 267, 268, 5000, 65803, 65804, 70000};
	char *path = testlib_tempfile();
	FILE *out = fopen(path, "w");
	char block[1024];

	ck_assert_ptr_nonnull(out);
	memset(block, 'x', sizeof(block));
	for (unsigned i = 0; i < sizeof(at) / sizeof(at[0]); i++) {
		ck_assert_int_eq(fseek(out, (long)at[i] * 1024, SEEK_SET), 0);
		for (unsigned n = 0; n < 3; n++)
			ck_assert_uint_eq(fwrite(block, 1, sizeof(block), out), sizeof(block));
	}
	ck_assert_int_eq(fclose(out), 0);
	return path;
}

#define MAX_SAMPLES 300

/* Blocks to ask debugfs about, and what the mapper says of them. */
struct samples {
	unsigned n;
	ext4_lblk_t lblk[MAX_SAMPLES];
	ext4_fsblk_t pblk[MAX_SAMPLES];
};

static void take_samples(struct inode *inode, struct samples *s)
{
	ext4_lblk_t blocks =
		(ext4_lblk_t)((i_size_read(inode) + fix.sb->s_blocksize - 1) / fix.sb->s_blocksize);

	s->n = 0;
	for (ext4_lblk_t lblk = 0; lblk < blocks;) {
		struct ext4_map_blocks map = {.m_lblk = lblk, .m_len = blocks - lblk};

		ck_assert_int_ge(ext4_map_blocks(NULL, inode, &map, 0), 0);
		for (ext4_lblk_t i = 0; i < map.m_len; i += 1 + map.m_len / 4) {
			ck_assert_uint_lt(s->n, MAX_SAMPLES);
			s->lblk[s->n] = lblk + i;
			s->pblk[s->n++] = map.m_pblk == 0 ? 0 : map.m_pblk + i;
		}
		lblk += map.m_len;
	}
}

/* One run of debugfs; its answers are the lines that begin with a digit. */
static void check_samples(const struct samples *s)
{
	char *image = testlib_tempfile(), *script = testlib_tempfile();
	char command[600], *text, *line, *save = NULL;
	FILE *out = fopen(script, "w");
	unsigned n = 0, mapped = 0;

	ck_assert_ptr_nonnull(out);
	for (unsigned i = 0; i < s->n; i++)
		fprintf(out, "bmap sparse %u\n", s->lblk[i]);
	fclose(out);
	ck_assert_int_eq(testlib_dump(fix.image, image), 0);
	snprintf(command, sizeof(command), "debugfs -f '%s' '%s'", script, image);
	ck_assert_int_eq(testlib_run(command, &text), 0);
	for (line = strtok_r(text, "\n", &save); line != NULL; line = strtok_r(NULL, "\n", &save)) {
		if (line[0] < '0' || line[0] > '9')
			continue;
		ck_assert_uint_lt(n, s->n);
		ck_assert_uint_eq(strtoull(line, NULL, 10), s->pblk[n]);
		mapped += s->pblk[n++] != 0;
	}
	ck_assert_uint_eq(n, s->n);
	ck_assert_uint_ge(mapped, 9);
	free(text);
	unlink(image);
	unlink(script);
	free(image);
	free(script);
}

static void compare_with_debugfs(const char *args)
{
	char *host = make_sparse_file();
	struct samples samples;
	struct inode *inode;
	char command[300];

	snprintf(command, sizeof(command), "write %s sparse", host);
	memset(&fix, 0, sizeof(fix));
	fix.stripe = -1;
	fix.image = testlib_mkfs_debugfs(args, 32 * MIB, command);
	fix_mount(&fix);
	inode = fix_file(&fix, 0);
	take_samples(inode, &samples);
	check_samples(&samples);
	iput(inode);
	fix_close(&fix);
	unlink(host);
	free(host);
}

START_TEST(blocks_are_where_debugfs_says)
{
	compare_with_debugfs("-t ext4 -b 1024");
	compare_with_debugfs("-t ext3 -b 1024");
	compare_with_debugfs("-t ext4 -b 4096 -O ^extents,^64bit");
}
END_TEST

/* ---- Small contracts ---- */

START_TEST(a_contiguous_run_costs_one_allocation)
{
	struct ext4_mb_stats *stats;
	uint64_t before;

	setup("-t ext4 -b 4096", 64 * MIB, 6);
	stats = ext4_mb_stats(fix.sb);
	ck_assert_int_eq(op_delay(0, 0, 1500), 0);
	before = counter_read(&stats->mb_reqs);
	ck_assert_int_eq(op_create(0, 0, 1500,
				   EXT4_GET_BLOCKS_UNWRIT_EXT | EXT4_GET_BLOCKS_DELALLOC_RESERVE),
			 1500);
	ck_assert_uint_eq(counter_read(&stats->mb_reqs) - before, 1);
	ck_assert_uint_eq(ext4_ext_entries(ext4_ext_root(inodes[0])), 1);
	ck_assert_uint_eq(ext4_inode_reserved_blocks(inodes[0]), 0);
	ck_assert_int_eq(op_convert(0, 0, 1500), 0);
	finish();
}
END_TEST

/* Known from the field: an allocation that is tried again must not release its reservation twice. */
START_TEST(reservation_is_released_once)
{
	setup("-t ext3 -b 1024", 16 * MIB, 7);
	ck_assert_int_eq(op_delay(0, 0, 700), 0);
	ck_assert_uint_eq(ext4_inode_reserved_blocks(inodes[0]), 700);
	/* fallocate-like: without the flag, over delayed and other blocks. */
	ck_assert_int_eq(op_fill(0, 100, 100, 0), 0);
	ck_assert_uint_eq(ext4_inode_reserved_blocks(inodes[0]), 600);
	ck_assert_int_eq(op_fill(0, 0, 700, EXT4_GET_BLOCKS_DELALLOC_RESERVE), 0);
	ck_assert_int_eq(op_fill(0, 0, 700, EXT4_GET_BLOCKS_DELALLOC_RESERVE), 0);
	ck_assert_uint_eq(ext4_inode_reserved_blocks(inodes[0]), 0);
	ck_assert_uint_eq(ext4_sb_dirty_blocks(fix.sb), 0);
	check_blocks();
	finish();
}
END_TEST

START_TEST(removal_drops_delayed_blocks)
{
	setup("-t ext4 -b 4096", 16 * MIB, 8);
	ck_assert_int_eq(op_delay(0, 0, 100), 0);
	ck_assert_int_eq(op_remove(0, 10, 19), 0);
	ck_assert_uint_eq(ext4_inode_reserved_blocks(inodes[0]), 90);
	ck_assert_int_eq(op_remove(0, 0, EXT4_MAX_BLOCKS), 0);
	ck_assert_uint_eq(ext4_inode_reserved_blocks(inodes[0]), 0);
	check_blocks();
	finish();
}
END_TEST

/* ---- Threads ---- */

static _Atomic bool stop;

/* A block, once seen, is never described by half a change: the physical block of a written extent lies where allocations go. */
static void *look_up(void *arg)
{
	struct prng p;

	prng_seed(&p, (uintptr_t)arg);
	while (!atomic_load(&stop)) {
		struct ext4_map_blocks map = {
			.m_lblk = (ext4_lblk_t)prng_below(&p, BLOCKS),
			.m_len = 100,
		};

		ck_assert_int_ge(ext4_map_blocks(NULL, inodes[0], &map, 0), 0);
		ck_assert_uint_gt(map.m_len, 0);
		if (map.m_pblk != 0)
			ck_assert(ext4_data_block_valid(fix.sb, map.m_pblk, map.m_len));
	}
	return NULL;
}

static void *shrink(void *arg)
{
	(void)arg;
	while (!atomic_load(&stop))
		ext4_es_shrink(fix.sb, 5);
	return NULL;
}

START_TEST(lookups_run_beside_changes)
{
	pthread_t t[3];

	setup("-t ext4 -b 1024", 16 * MIB, 9);
	atomic_store(&stop, false);
	ck_assert_int_eq(pthread_create(&t[0], NULL, look_up, (void *)1), 0);
	ck_assert_int_eq(pthread_create(&t[1], NULL, look_up, (void *)2), 0);
	ck_assert_int_eq(pthread_create(&t[2], NULL, shrink, NULL), 0);
	for (int i = 0; i < 150; i++) {
		ck_assert_int_eq(random_op(20), 0);
		/* Random operations are on all files; this one is on the one that is watched. */
		ck_assert_int_eq(op_fill(0, (ext4_lblk_t)prng_below(&rng, BLOCKS - 10), 3,
					 EXT4_GET_BLOCKS_UNWRIT_EXT),
				 0);
	}
	atomic_store(&stop, true);
	for (int i = 0; i < 3; i++)
		pthread_join(t[i], NULL);
	check_blocks();
	allocate_delayed();
	finish();
}
END_TEST

int main(void)
{
	return RUN_TESTS("alloc/map", random_operations_on_extents,
			 random_operations_on_indirect_maps, a_full_device_leaves_whole_maps,
			 conversions_work_on_a_full_device,
			 a_read_error_at_any_point_leaves_whole_maps, blocks_are_where_debugfs_says,
			 a_contiguous_run_costs_one_allocation, reservation_is_released_once,
			 removal_drops_delayed_blocks, lookups_run_beside_changes);
}
