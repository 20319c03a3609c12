/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * test_extents.c - the extent tree against an array: random allocations, conversions and removals, with failures in the middle, at several block sizes.
 */
#define MODEL_I_FLAGS EXT4_EXTENTS_FL
#include "tests/unit/alloc/map_model.h"

static uint64_t check_nodes(void)
{
	ck_assert_int_eq(ext4_ext_check(&fake.inode), 0);
	for (uint32_t i = 0; i < model_blocks; i += 50)
		fake_check_nodes(i);
	return fake_count_nodes();
}

static unsigned remove_credits(void)
{
	return ext4_ext_remove_credits(&fake.inode);
}

static void random_op(uint32_t max_len)
{
	ext4_lblk_t lblk = (ext4_lblk_t)prng_below(&fake.rng, model_blocks);
	ext4_lblk_t len = 1 + (ext4_lblk_t)prng_below(&fake.rng, max_len);

	if (len > model_blocks - lblk)
		len = model_blocks - lblk;
	switch (prng_below(&fake.rng, 12)) {
	case 0:
	case 1:
		op_fill(lblk, len, 0);
		break;
	case 2:
	case 3:
		op_fill(lblk, len, EXT4_GET_BLOCKS_UNWRIT_EXT);
		break;
	case 4:
	case 5:
		op_delay(lblk, len);
		break;
	case 6:
		op_fill(lblk, len, EXT4_GET_BLOCKS_UNWRIT_EXT | EXT4_GET_BLOCKS_DELALLOC_RESERVE);
		break;
	case 7:
	case 8:
		op_convert(lblk, len);
		break;
	case 9:
		op_zero_range(lblk, len);
		break;
	case 10:
		op_fill(lblk, len, EXT4_GET_BLOCKS_CONVERT);
		break;
	default:
		op_remove(lblk, prng_chance(&fake.rng, 1, 10) ? EXT4_MAX_BLOCKS : lblk + len);
	}
}

static void random_run(uint32_t blocksize, unsigned scatter, unsigned max_run, bool failing,
		       uint64_t seed)
{
	setup(blocksize, 4096, 3000, seed);
	fake.scatter = scatter;
	fake.max_run = max_run;
	random_ops(1200, max_run < 10 ? 12 : 300, failing ? 12 : 0);
	finish();
}

/* ---- Tests ---- */

START_TEST(random_operations_match_an_array)
{
	uint64_t seed = prng_seed_from_env(1000);

	random_run(1024, 50, 3, false, seed);
	random_run(1024, 5, 1000, false, seed + 1);
	random_run(4096, 90, 2, false, seed + 2);
}
END_TEST

START_TEST(failures_leave_the_tree_whole)
{
	uint64_t seed = prng_seed_from_env(2000);

	random_run(1024, 50, 3, true, seed);
	random_run(4096, 30, 50, true, seed + 1);
}
END_TEST

START_TEST(blocks_of_64k_work)
{
	uint64_t seed = prng_seed_from_env(3000);

	random_run(65536, 70, 2, false, seed);
	random_run(65536, 70, 2, true, seed + 1);
}
END_TEST

/* In a scrambled order, and with small nodes: the tree grows to the third level, and comes back. */
START_TEST(tree_grows_to_depth_three_and_shrinks)
{
	setup(512, 32768, MAX_LBLK, 7);
	fake.scatter = 100;
	for (uint32_t i = 0; i < 10000; i++) {
		ext4_lblk_t lblk = (ext4_lblk_t)((uint64_t)i * 12343 % 10007);

		ck_assert_uint_eq(op_create(lblk, 1, i & 1 ? EXT4_GET_BLOCKS_UNWRIT_EXT : 0), 1);
	}
	ck_assert_uint_eq(ext4_ext_depth(ext4_ext_root(&fake.inode)), 3);
	check_all();
	op_convert(0, 10010);
	check_all();
	for (uint32_t i = 0; i < 40; i++) {
		ext4_lblk_t lblk = (ext4_lblk_t)prng_below(&fake.rng, 10000);

		op_remove(lblk, lblk + 700);
	}
	check_all();
	op_remove(1, EXT4_MAX_BLOCKS);
	ck_assert_uint_eq(ext4_ext_depth(ext4_ext_root(&fake.inode)), 0);
	finish();
}
END_TEST

START_TEST(sequential_writes_make_one_extent_and_full_leaves)
{
	struct extent_status run;

	setup(1024, 65536, MAX_LBLK, 8);
	fake.max_run = 100;
	for (ext4_lblk_t lblk = 0; lblk < 32768; lblk += 8)
		op_fill(lblk, 8, 0);
	ck_assert_int_eq(ext4_ext_lookup_run(&fake.inode, 5, &run), 0);
	ck_assert_uint_eq(run.es_len, 32768);
	op_fill(32768, 1, 0);
	ck_assert_int_eq(ext4_ext_lookup_run(&fake.inode, 5, &run), 0);
	ck_assert_uint_eq(run.es_len, 32768);
	check_all();
	op_remove(0, EXT4_MAX_BLOCKS);
	/* Every second block in order: no leaf but the last has room. */
	for (ext4_lblk_t lblk = 0; lblk < 84 * 10 * 2; lblk += 2)
		op_fill(lblk, 1, 0);
	ck_assert_uint_le(fake_count_nodes(), 13);
	finish();
}
END_TEST

START_TEST(conversion_of_the_longest_extents)
{
	struct ext4_map_blocks map;

	setup(1024, 65536, MAX_LBLK, 9);
	fake.max_run = 40000;
	fake.scatter = 0;
	for (ext4_lblk_t lblk = 0; lblk < 32768;)
		lblk += op_create(lblk, 32768 - lblk, 0);
	get_map(0, 32768, &map);
	ck_assert_uint_eq(map.m_len, 32768);
	/* 32768 written blocks do not fit into one unwritten extent. */
	op_zero_range(0, 32768);
	check_all();
	op_convert(100, 32000);
	check_all();
	op_convert(0, 32768);
	check_all();
	get_map(0, 32768, &map);
	ck_assert_uint_eq(map.m_len, 32768);
	finish();
}
END_TEST

/* A conversion in the middle, at the edges, and over several extents; neighbours join again. */
START_TEST(conversions_split_and_join)
{
	setup(4096, 8192, 3000, 10);
	fake.max_run = 5000;
	for (ext4_lblk_t lblk = 0; lblk < 1000;)
		lblk += op_create(lblk, 1000 - lblk, EXT4_GET_BLOCKS_UNWRIT_EXT);
	op_convert(400, 100);
	check_all();
	op_convert(0, 10);
	op_convert(990, 10);
	check_all();
	ck_assert_uint_gt(ext4_ext_depth(ext4_ext_root(&fake.inode)), 0);
	op_convert(0, 1000);
	check_all();
	ck_assert_uint_eq(ext4_ext_entries(ext4_ext_root(&fake.inode)), 1);
	finish();
}
END_TEST

START_TEST(removal_restarts_and_stays_consistent)
{
	setup(1024, 65536, MAX_LBLK, 11);
	fake.scatter = 100;
	fake.max_run = 1;
	for (ext4_lblk_t lblk = 0; lblk < 2000; lblk++)
		op_fill(lblk, 1, 0);
	op_remove(3, 1999);
	ck_assert_uint_gt(fake.restarts, 20);
	check_all();
	finish();
}
END_TEST

/* ---- Hostile trees ---- */

static struct ext3_extent_header *root_hdr(void)
{
	return ext4_ext_root(&fake.inode);
}

static void expect_corrupted(void)
{
	struct ext4_map_blocks map = {.m_lblk = 0, .m_len = 1};

	atomic_store(&fake.ia.ia_root_checked, false);
	ext4_es_shrink(&fake.sb, 1000);
	ck_assert_int_eq(ext4_map_blocks(NULL, &fake.inode, &map, 0), -EFSCORRUPTED);
	ck_assert_uint_gt(fake.errors, 0);
	fake.errors = 0;
}

START_TEST(hostile_roots_are_refused)
{
	struct ext4_ext_rec rec = {0, 10, 100, false};
	uint8_t good[60];
	const char *why;

	setup(1024, 8192, 3000, 12);
	root_hdr()->eh_entries = cpu_to_le16(2);
	ext4_ext_set_rec(ext4_ext_entry(root_hdr(), 0), &rec);
	rec.er_lblk = 10;
	rec.er_pblk = 200;
	ext4_ext_set_rec(ext4_ext_entry(root_hdr(), 1), &rec);
	memcpy(good, fake.inode.i_block, 60);
	ck_assert_int_eq(ext4_check_block_map(&fake.inode, &why), 0);

	root_hdr()->eh_magic = cpu_to_le16(0xf30b);
	expect_corrupted();
	memcpy(fake.inode.i_block, good, 60);
	root_hdr()->eh_entries = cpu_to_le16(0xfff3); /* more than eh_max */
	expect_corrupted();
	memcpy(fake.inode.i_block, good, 60);
	root_hdr()->eh_max = cpu_to_le16(5);
	expect_corrupted();
	memcpy(fake.inode.i_block, good, 60);
	root_hdr()->eh_depth = cpu_to_le16(6);
	expect_corrupted();
	memcpy(fake.inode.i_block, good, 60);
	ext4_ext_entry(root_hdr(), 1)->ee_block = cpu_to_le32(9); /* overlap */
	expect_corrupted();
	memcpy(fake.inode.i_block, good, 60);
	ext4_ext_entry(root_hdr(), 1)->ee_start = cpu_to_le32(FAKE_FIRST - 1); /* metadata */
	expect_corrupted();
	memcpy(fake.inode.i_block, good, 60);
	ext4_ext_entry(root_hdr(), 1)->ee_start_hi = cpu_to_le16(1); /* past the device */
	expect_corrupted();
	memcpy(fake.inode.i_block, good, 60);
	ext4_ext_entry(root_hdr(), 1)->ee_len = 0;
	expect_corrupted();
	memcpy(fake.inode.i_block, good, 60);
	ext4_ext_entry(root_hdr(), 1)->ee_block = cpu_to_le32(0xfffffff8u); /* past 2^32 */
	expect_corrupted();
	memcpy(fake.inode.i_block, good, 60);
	ck_assert_int_eq(ext4_check_block_map(&fake.inode, &why), 0);
	root_hdr()->eh_max = cpu_to_le16(1);
	atomic_store(&fake.ia.ia_root_checked, false);
	ck_assert_int_eq(ext4_check_block_map(&fake.inode, &why), -EFSCORRUPTED);
	ck_assert_ptr_nonnull(why);
	fake_exit();
}
END_TEST

/* An index block that leads back to itself. */
START_TEST(loops_in_the_tree_end)
{
	struct buffer_head *bh;
	struct ext3_extent_header *hdr;
	struct ext3_extent_idx *idx;

	setup(1024, 8192, 3000, 13);
	bh = bh_read(fake.sb.s_bcache, 500);
	hdr = (struct ext3_extent_header *)(void *)bh->b_data;
	hdr->eh_magic = cpu_to_le16(EXT3_EXT_MAGIC);
	hdr->eh_max = cpu_to_le16(84);
	hdr->eh_entries = cpu_to_le16(1);
	for (unsigned depth = 1; depth <= 5; depth++) {
		root_hdr()->eh_entries = cpu_to_le16(1);
		root_hdr()->eh_depth = cpu_to_le16((uint16_t)depth);
		idx = ext4_ext_idx(root_hdr(), 0);
		idx->ei_block = 0;
		idx->ei_leaf = cpu_to_le32(500);
		idx->ei_leaf_hi = 0;
		hdr->eh_depth = cpu_to_le16((uint16_t)(depth - 1));
		*ext4_ext_idx(hdr, 0) = *idx;
		ext4_extent_block_csum_later(&fake.inode, bh);
		bh_clear(bh, BH_VERIFIED);
		expect_corrupted();
	}
	bh_put(bh);
	fake_exit();
}
END_TEST

START_TEST(bad_checksums_and_nodes_are_refused)
{
	struct ext4_map_blocks map = {.m_lblk = 0, .m_len = 1};
	struct ext3_extent_header *hdr;
	struct ext4_ext_path path;
	struct buffer_head *bh;

	setup(1024, 8192, 3000, 14);
	fake.max_run = 1;
	fake.scatter = 100;
	for (ext4_lblk_t lblk = 0; lblk < 200; lblk += 2)
		op_fill(lblk, 1, 0);
	ck_assert_int_eq(ext4_ext_find(&fake.inode, 0, &path), 0);
	bh = ext4_ext_leaf(&path)->n_bh;
	bh_hold(bh);
	ext4_ext_put_path(&path);
	hdr = (struct ext3_extent_header *)(void *)bh->b_data;
	bh_clear(bh, BH_VERIFIED);
	bh->b_data[20] ^= 1;
	ext4_es_shrink(&fake.sb, 1000);
	ck_assert_int_eq(ext4_map_blocks(NULL, &fake.inode, &map, 0), -EFSBADCRC);
	bh->b_data[20] ^= 1;
	/* A valid checksum over overlapping extents. */
	ext4_ext_entry(hdr, 1)->ee_len = cpu_to_le16(3);
	ext4_extent_block_csum_later(&fake.inode, bh);
	expect_corrupted();
	ext4_ext_entry(hdr, 1)->ee_len = cpu_to_le16(1);
	/* A verified block that something else has overwritten. */
	bh_set(bh, BH_VERIFIED);
	hdr->eh_entries = cpu_to_le16(500);
	expect_corrupted();
	bh_put(bh);
	fake_exit();
}
END_TEST

/* ---- Random damage ---- */

static void damage_node(void)
{
	struct ext4_ext_path path;
	struct buffer_head *bh;

	if (prng_chance(&fake.rng, 1, 6)) {
		fake.inode.i_block[prng_below(&fake.rng, 60)] ^=
			(uint8_t)(1u << prng_below(&fake.rng, 8));
		memcpy(fake.marked, fake.inode.i_block, 60);
		atomic_store(&fake.ia.ia_root_checked, false);
		return;
	}
	if (ext4_ext_find(&fake.inode, (ext4_lblk_t)prng_below(&fake.rng, 600), &path) < 0)
		return;
	bh = path.p_node[prng_below(&fake.rng, (uint64_t)path.p_depth + 1)].n_bh;
	for (uint64_t n = prng_range(&fake.rng, 1, 6); bh != NULL && n > 0; n--) {
		bool header = prng_chance(&fake.rng, 1, 4);

		bh->b_data[prng_below(&fake.rng, header ? 12 : 300)] =
			(uint8_t)prng_next(&fake.rng);
	}
	/* With a valid checksum, either not checked yet or overwritten after the check. */
	if (bh != NULL) {
		ext4_extent_block_csum_later(&fake.inode, bh);
		if (prng_chance(&fake.rng, 1, 2))
			bh_clear(bh, BH_VERIFIED);
	}
	ext4_ext_put_path(&path);
}

/* Results do not matter; nothing may crash, hang or leave the buffers' memory. */
static void op_on_damage(void)
{
	static const unsigned flags[] = {
		0,
		EXT4_GET_BLOCKS_CREATE,
		EXT4_GET_BLOCKS_CREATE | EXT4_GET_BLOCKS_UNWRIT_EXT,
		EXT4_GET_BLOCKS_CREATE | EXT4_GET_BLOCKS_CONVERT,
		EXT4_GET_BLOCKS_CREATE | EXT4_GET_BLOCKS_UNWRIT_EXT |
			EXT4_GET_BLOCKS_CONVERT_UNWRITTEN,
	};
	ext4_lblk_t lblk = (ext4_lblk_t)prng_below(&fake.rng, 700);
	ext4_lblk_t len = 1 + (ext4_lblk_t)prng_below(&fake.rng, 30);
	struct ext4_map_blocks map = {.m_lblk = lblk, .m_len = len};
	struct extent_status es;
	handle_t *handle = fake_start(500);

	switch (prng_below(&fake.rng, 10)) {
	case 0:
		ext4_remove_space(handle, &fake.inode, lblk, lblk + len);
		break;
	case 1:
		ext4_remove_space(handle, &fake.inode, lblk, EXT4_MAX_BLOCKS);
		break;
	case 2:
		ext4_convert_unwritten_extents(handle, &fake.inode, lblk, len);
		break;
	case 3:
		ext4_next_extent(&fake.inode, lblk, EXT4_MAX_BLOCKS, &es);
		break;
	case 4:
		ext4_es_shrink(&fake.sb, 1000);
		ext4_ext_check(&fake.inode);
		break;
	default:
		ext4_map_blocks(handle, &fake.inode, &map, flags[prng_below(&fake.rng, 5)]);
	}
}

START_TEST(damage_never_crashes)
{
	uint64_t seed = prng_seed_from_env(4000);
	unsigned errors = 0;

	for (int round = 0; round < 150; round++) {
		setup(1024, 8192, 3000, seed + (uint64_t)round);
		fake.scatter = 100;
		fake.max_run = 2;
		for (ext4_lblk_t lblk = 0; lblk < 600; lblk += 1 + (lblk & 1))
			op_fill(lblk, 1, lblk & 4 ? EXT4_GET_BLOCKS_UNWRIT_EXT : 0);
		fake.hostile = true;
		for (int i = 0; i < 12; i++) {
			damage_node();
			for (int n = 0; n < 5; n++)
				op_on_damage();
		}
		errors += fake.errors;
		fake_exit();
	}
	ck_assert_uint_gt(errors, 500);
}
END_TEST

START_TEST(two_index_entries_with_one_leaf_are_noticed)
{
	struct ext4_map_blocks map = {.m_lblk = 0, .m_len = 1};
	int err = 0;

	setup(1024, 8192, 3000, 18);
	fake.max_run = 1;
	fake.scatter = 100;
	for (ext4_lblk_t lblk = 0; lblk < 400; lblk += 2)
		op_fill(lblk, 1, 0);
	ck_assert_uint_ge(ext4_ext_entries(root_hdr()), 2);
	ext4_ext_idx(root_hdr(), 1)->ei_leaf = ext4_ext_idx(root_hdr(), 0)->ei_leaf;
	atomic_store(&fake.ia.ia_root_checked, false);
	ext4_es_shrink(&fake.sb, 1000);
	for (; map.m_lblk < 400 && err >= 0; map.m_lblk += 2)
		err = ext4_map_blocks(NULL, &fake.inode, &map, 0);
	ck_assert_int_eq(err, -EFSCORRUPTED);
	fake_exit();
}
END_TEST

START_TEST(an_empty_leaf_is_taken_out)
{
	struct ext4_ext_path path;

	setup(1024, 8192, 3000, 15);
	fake.max_run = 1;
	fake.scatter = 100;
	for (ext4_lblk_t lblk = 0; lblk < 400; lblk += 2)
		op_fill(lblk, 1, 0);
	ck_assert_int_eq(ext4_ext_find(&fake.inode, 200, &path), 0);
	/* As some old writers left it; its blocks are lost to the model. */
	for (unsigned i = 0; i < ext4_ext_entries(ext4_ext_leaf(&path)->n_hdr); i++) {
		struct ext4_ext_rec rec;

		ext4_ext_get_rec(ext4_ext_leaf(&path)->n_hdr, (int)i, &rec);
		model[rec.er_lblk].state = M_HOLE;
		fake.used[rec.er_pblk] = 0;
		fake.nr_used--;
	}
	ext4_ext_leaf(&path)->n_hdr->eh_entries = 0;
	ext4_extent_block_csum_later(&fake.inode, ext4_ext_leaf(&path)->n_bh);
	fake.hash[ext4_ext_leaf(&path)->n_bh->b_blocknr] =
		crc32c(1, ext4_ext_leaf(&path)->n_bh->b_data, 1024);
	ext4_ext_put_path(&path);
	ext4_es_shrink(&fake.sb, 1000);
	check_all();
	op_fill(200, 1, 0);
	check_all();
	op_remove(200, 201);
	check_all();
	finish();
}
END_TEST

START_TEST(next_extent_finds_data)
{
	struct extent_status es;

	setup(4096, 8192, 3000, 16);
	op_fill(100, 10, EXT4_GET_BLOCKS_UNWRIT_EXT);
	op_delay(200, 5);
	ck_assert_int_eq(ext4_next_extent(&fake.inode, 0, 2999, &es), 0);
	ck_assert_uint_eq(es.es_lblk, 100);
	ck_assert_uint_eq(es.es_state, ES_UNWRITTEN);
	ck_assert_int_eq(ext4_next_extent(&fake.inode, 110, EXT4_MAX_BLOCKS, &es), 0);
	ck_assert_uint_eq(es.es_lblk, 200);
	ck_assert_uint_eq(es.es_len, 5);
	ck_assert_uint_eq(es.es_state, ES_DELAYED);
	ck_assert_int_eq(ext4_next_extent(&fake.inode, 205, EXT4_MAX_BLOCKS, &es), -ENXIO);
	ck_assert_int_eq(ext4_next_extent(&fake.inode, 0, 99, &es), -ENXIO);
	finish();
}
END_TEST

/* Blocks at the far end of what a file can have. */
START_TEST(the_last_logical_blocks_work)
{
	struct ext4_map_blocks map = {.m_lblk = 0xfffffffeu, .m_len = 100};

	setup(4096, 8192, 3000, 17);
	ck_assert_int_eq(ext4_map_blocks(fake_start(60), &fake.inode, &map, EXT4_GET_BLOCKS_CREATE),
			 1);
	fake_stop();
	map.m_lblk = 0xffffffffu;
	ck_assert_int_eq(ext4_map_blocks(NULL, &fake.inode, &map, 0), -EFBIG);
	map.m_lblk = 5;
	map.m_len = 0xffffffffu;
	ck_assert_int_eq(ext4_map_blocks(NULL, &fake.inode, &map, 0), 0);
	ck_assert_uint_eq(map.m_len, 0xfffffffeu - 5);
	ck_assert_uint_eq(fake.nr_used, 1);
	op_remove(0xfffffffeu, EXT4_MAX_BLOCKS);
	finish();
}
END_TEST

int main(void)
{
	return RUN_TESTS(
		"alloc/extents", random_operations_match_an_array, failures_leave_the_tree_whole,
		blocks_of_64k_work, tree_grows_to_depth_three_and_shrinks,
		sequential_writes_make_one_extent_and_full_leaves,
		conversion_of_the_longest_extents, conversions_split_and_join,
		removal_restarts_and_stays_consistent, hostile_roots_are_refused,
		loops_in_the_tree_end, bad_checksums_and_nodes_are_refused, damage_never_crashes,
		two_index_entries_with_one_leaf_are_noticed, an_empty_leaf_is_taken_out,
		next_extent_finds_data, the_last_logical_blocks_work);
}
