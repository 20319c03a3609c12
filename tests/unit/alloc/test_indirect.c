/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * test_indirect.c - the indirect map against an array: random allocations and removals over all levels, with failures in the middle.
 */
#define MODEL_I_FLAGS 0
#include "tests/unit/alloc/map_model.h"

/* Indirect blocks below the pointer; each is in use, as declared dirty, and not empty. */
static uint64_t count_below(uint32_t pointer, int levels)
{
	ext4_fsblk_t pblk = le32_to_cpu(pointer);
	struct buffer_head *bh;
	uint64_t n = 1;
	bool any = false;

	if (pblk == 0 || levels == 0)
		return 0;
	ck_assert(fake.used[pblk]);
	bh = bh_read(fake.sb.s_bcache, pblk);
	ck_assert(!IS_ERR(bh));
	ck_assert_uint_eq(fake.hash[pblk], crc32c(1, bh->b_data, bh->b_size));
	for (uint32_t i = 0; i < bh->b_size / 4; i++) {
		uint32_t next = ((const uint32_t *)(const void *)bh->b_data)[i];

		any = any || next != 0;
		n += count_below(next, levels - 1);
	}
	ck_assert(any);
	bh_put(bh);
	return n;
}

static uint64_t check_nodes(void)
{
	const uint32_t *root = (const uint32_t *)(const void *)fake.inode.i_block;

	return count_below(root[12], 1) + count_below(root[13], 2) + count_below(root[14], 3);
}

static unsigned remove_credits(void)
{
	return ext4_ind_remove_credits();
}

static void random_op(uint32_t max_len)
{
	ext4_lblk_t lblk = (ext4_lblk_t)prng_below(&fake.rng, model_blocks);
	ext4_lblk_t len = 1 + (ext4_lblk_t)prng_below(&fake.rng, max_len);

	if (prng_chance(&fake.rng, 1, 3))
		lblk = (ext4_lblk_t)prng_below(&fake.rng, 300); /* direct and single */
	if (len > model_blocks - lblk)
		len = model_blocks - lblk;
	switch (prng_below(&fake.rng, 6)) {
	case 0:
	case 1:
		op_fill(lblk, len, 0);
		break;
	case 2:
		op_delay(lblk, len);
		break;
	case 3:
		op_fill(lblk, len, EXT4_GET_BLOCKS_DELALLOC_RESERVE);
		break;
	default:
		op_remove(lblk, prng_chance(&fake.rng, 1, 10) ? EXT4_MAX_BLOCKS : lblk + len);
	}
}

static void random_run(uint32_t blocksize, unsigned scatter, bool failing, uint64_t seed)
{
	setup(blocksize, 8192, 3000, seed);
	fake.scatter = scatter;
	random_ops(1000, 200, failing ? 8 : 0);
	finish();
}

START_TEST(random_operations_match_an_array)
{
	uint64_t seed = prng_seed_from_env(1);

	random_run(1024, 10, false, seed);
	random_run(1024, 80, false, seed + 1);
	random_run(4096, 20, false, seed + 2);
}
END_TEST

START_TEST(failures_leave_the_map_whole)
{
	uint64_t seed = prng_seed_from_env(2);

	random_run(1024, 10, true, seed);
	random_run(4096, 80, true, seed + 1);
}
END_TEST

START_TEST(offsets_name_the_slots)
{
	const uint32_t p = 256; /* pointers in 1 KiB */
	uint32_t o[EXT4_IND_LEVELS];
	uint64_t max;

	setup(1024, 8192, 3000, 3);
	ck_assert_int_eq(ext4_ind_offsets(&fake.sb, 11, o), 1);
	ck_assert_uint_eq(o[0], 11);
	ck_assert_int_eq(ext4_ind_offsets(&fake.sb, 12, o), 2);
	ck_assert_uint_eq(o[0], 12);
	ck_assert_uint_eq(o[1], 0);
	ck_assert_int_eq(ext4_ind_offsets(&fake.sb, 12 + p - 1, o), 2);
	ck_assert_uint_eq(o[1], p - 1);
	ck_assert_int_eq(ext4_ind_offsets(&fake.sb, 12 + p, o), 3);
	ck_assert_uint_eq(o[0], 13);
	ck_assert_uint_eq(o[1], 0);
	ck_assert_int_eq(ext4_ind_offsets(&fake.sb, 12 + p + p * p + 3 * p * p + 5 * p + 7, o), 4);
	ck_assert_uint_eq(o[0], 14);
	ck_assert_uint_eq(o[1], 3);
	ck_assert_uint_eq(o[2], 5);
	ck_assert_uint_eq(o[3], 7);
	max = ext4_ind_max_blocks(&fake.sb);
	ck_assert_uint_eq(max, 12 + p + p * p + p * p * p);
	ck_assert_int_eq(ext4_ind_offsets(&fake.sb, (ext4_lblk_t)max - 1, o), 4);
	ck_assert_int_eq(ext4_ind_offsets(&fake.sb, (ext4_lblk_t)max, o), 0);
	finish();
	fake_init(65536, 64, 0, 3);
	ck_assert_uint_eq(ext4_ind_max_blocks(&fake.sb), EXT4_MAX_BLOCKS);
	fake_exit();
}
END_TEST

static int create_at(ext4_lblk_t lblk)
{
	struct ext4_map_blocks map = {.m_lblk = lblk, .m_len = 5};
	int ret = ext4_map_blocks(fake_start(FAKE_CREDITS), &fake.inode, &map,
				  EXT4_GET_BLOCKS_CREATE);

	fake_stop();
	return ret;
}

/* One block in the triple indirect range costs four blocks; removal takes all of them. */
START_TEST(triple_indirect_blocks_come_and_go)
{
	struct ext4_map_blocks map = {.m_lblk = 5000000, .m_len = 5};
	ext4_lblk_t last;

	setup(1024, 8192, 3000, 4);
	ck_assert_int_eq(create_at(5000000), 5);
	ck_assert_uint_eq(fake.nr_used, 8);
	ck_assert_uint_eq(check_nodes(), 3);
	ext4_es_shrink(&fake.sb, 100);
	ck_assert_int_eq(ext4_map_blocks(NULL, &fake.inode, &map, 0), 5);
	/* Holes below missing indirect blocks are seen whole. */
	map.m_lblk = 100000;
	map.m_len = 10000000;
	ck_assert_int_eq(ext4_map_blocks(NULL, &fake.inode, &map, 0), 0);
	ck_assert_uint_ge(map.m_len, 30000);
	last = (ext4_lblk_t)ext4_ind_max_blocks(&fake.sb) - 1;
	ck_assert_int_eq(create_at(last), 1);
	ck_assert_int_eq(create_at(last + 1), -EFBIG);
	map.m_lblk = last + 1;
	ck_assert_int_eq(ext4_map_blocks(NULL, &fake.inode, &map, 0), 0);
	op_remove(5000000, 5000003);
	ck_assert_uint_eq(check_nodes(), 5);
	op_remove(0, EXT4_MAX_BLOCKS);
	ck_assert_uint_eq(fake.nr_used, 0);
	finish();
}
END_TEST

START_TEST(unwritten_is_refused)
{
	struct ext4_map_blocks map = {.m_lblk = 1, .m_len = 1};

	setup(1024, 8192, 3000, 5);
	ck_assert_int_eq(ext4_map_blocks(fake_start(60), &fake.inode, &map,
					 EXT4_GET_BLOCKS_CREATE | EXT4_GET_BLOCKS_UNWRIT_EXT),
			 -EOPNOTSUPP);
	fake_stop();
	ck_assert_int_eq(ext4_convert_unwritten_extents(NULL, &fake.inode, 0, 10), 0);
	finish();
}
END_TEST

START_TEST(hostile_pointers_are_refused)
{
	struct ext4_map_blocks map = {.m_lblk = 3, .m_len = 1};
	uint32_t *root = (uint32_t *)(void *)fake.inode.i_block;
	struct buffer_head *bh;
	const char *why;

	setup(1024, 8192, 3000, 6);
	root[3] = cpu_to_le32(FAKE_FIRST - 1);
	ck_assert_int_eq(ext4_map_blocks(NULL, &fake.inode, &map, 0), -EFSCORRUPTED);
	ck_assert_int_eq(ext4_check_block_map(&fake.inode, &why), -EFSCORRUPTED);
	root[3] = cpu_to_le32(8192);
	ck_assert_int_eq(ext4_map_blocks(NULL, &fake.inode, &map, 0), -EFSCORRUPTED);
	root[3] = 0;
	ck_assert_int_eq(ext4_check_block_map(&fake.inode, &why), 0);
	/* A map that leads into itself has as many levels as any other. */
	bh = bh_read(fake.sb.s_bcache, 600);
	for (int i = 0; i < 256; i++)
		((uint32_t *)(void *)bh->b_data)[i] = cpu_to_le32(600);
	root[14] = cpu_to_le32(600);
	map.m_lblk = 5000000;
	ck_assert_int_eq(ext4_map_blocks(NULL, &fake.inode, &map, 0), 1);
	ck_assert_uint_eq(map.m_pblk, 600);
	/* The run goes past the end of the device. */
	((uint32_t *)(void *)bh->b_data)[0] = cpu_to_le32(8192);
	root[14] = 0;
	root[12] = cpu_to_le32(600);
	ext4_es_shrink(&fake.sb, 100);
	map.m_lblk = 12;
	ck_assert_int_eq(ext4_map_blocks(NULL, &fake.inode, &map, 0), -EFSCORRUPTED);
	bh_put(bh);
	fake_exit();
}
END_TEST

int main(void)
{
	return RUN_TESTS("alloc/indirect", random_operations_match_an_array,
			 failures_leave_the_map_whole, offsets_name_the_slots,
			 triple_indirect_blocks_come_and_go, unwritten_is_refused,
			 hostile_pointers_are_refused);
}
