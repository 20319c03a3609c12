/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef TESTS_UNIT_ALLOC_MAP_MODEL_H
#define TESTS_UNIT_ALLOC_MAP_MODEL_H
/* The map of the fake inode against an array, one entry for each logical block. The including test defines MODEL_I_FLAGS first. */

#include "tests/unit/alloc/fake_fs.h"

#define MAX_LBLK 40000u

enum model_state { M_HOLE, M_WRITTEN, M_UNWRITTEN, M_DELAYED };
struct model_block {
	uint8_t state;
	ext4_fsblk_t pblk;
};
static struct model_block model[MAX_LBLK];
static uint32_t model_blocks; /* logical blocks in play */
static uint64_t delayed_made;

/* The including test's: blocks that the map itself uses, each node checked; credits of a removal step. */
static uint64_t check_nodes(void);
static unsigned remove_credits(void);
static void random_op(uint32_t max_len);

/* ---- The model ---- */

static inline void setup(uint32_t blocksize, uint64_t nblocks, uint32_t lblks, uint64_t seed)
{
	fake_init(blocksize, nblocks, MODEL_I_FLAGS, seed);
	memset(model, 0, sizeof(model));
	model_blocks = lblks;
	delayed_made = 0;
}

static inline enum model_state state_of(unsigned m_flags)
{
	if (m_flags & EXT4_MAP_MAPPED)
		return M_WRITTEN;
	if (m_flags & EXT4_MAP_UNWRITTEN)
		return M_UNWRITTEN;
	return m_flags & EXT4_MAP_DELAYED ? M_DELAYED : M_HOLE;
}

static inline void get_map(ext4_lblk_t lblk, ext4_lblk_t len, struct ext4_map_blocks *map)
{
	memset(map, 0, sizeof(*map));
	map->m_lblk = lblk;
	map->m_len = len;
	ck_assert_int_ge(ext4_map_blocks(NULL, &fake.inode, map, 0), 0);
	ck_assert_uint_gt(map->m_len, 0);
	ck_assert_uint_le(map->m_len, len);
}

static inline void check_range(ext4_lblk_t lblk, ext4_lblk_t end)
{
	while (lblk < end) {
		struct ext4_map_blocks map;

		get_map(lblk, end - lblk, &map);
		for (ext4_lblk_t i = 0; i < map.m_len; i++) {
			const struct model_block *b = &model[lblk + i];

			ck_assert_msg(b->state == state_of(map.m_flags),
				      "block %u: model %d, map %d", lblk + i, b->state,
				      state_of(map.m_flags));
			if (b->state == M_WRITTEN || b->state == M_UNWRITTEN)
				ck_assert_uint_eq(b->pblk, map.m_pblk + i);
		}
		lblk += map.m_len;
	}
}

/* The model takes what the map says of [lblk, end) where an operation failed: each block is as before, or as it was to become. */
static inline void adopt_range(ext4_lblk_t lblk, ext4_lblk_t end, enum model_state from,
			       enum model_state to)
{
	while (lblk < end) {
		struct ext4_map_blocks map;

		get_map(lblk, end - lblk, &map);
		for (ext4_lblk_t i = 0; i < map.m_len; i++) {
			struct model_block *b = &model[lblk + i];
			enum model_state now = state_of(map.m_flags);

			if (now == b->state)
				continue;
			ck_assert(now == to);
			ck_assert(from == M_HOLE || b->state == from);
			b->state = (uint8_t)now;
		}
		lblk += map.m_len;
	}
}

/* Everything: map against model, nodes, blocks in use. */
static inline void check_all(void)
{
	uint64_t mapped = 0, delayed = 0;

	ext4_es_check(&fake.inode);
	if (prng_chance(&fake.rng, 1, 2))
		ext4_es_shrink(&fake.sb, 1000000);
	check_range(0, model_blocks);
	for (uint32_t i = 0; i < model_blocks; i++) {
		mapped += model[i].state == M_WRITTEN || model[i].state == M_UNWRITTEN;
		delayed += model[i].state == M_DELAYED;
	}
	ck_assert_uint_eq(fake.nr_used, mapped + check_nodes());
	ck_assert_uint_eq(ext4_es_delayed_blocks(&fake.inode, 0, EXT4_MAX_BLOCKS), delayed);
	ck_assert_uint_eq(delayed_made - fake.released, delayed);
	ck_assert_uint_eq(fake.errors, 0);
}

/* ---- Operations on both ---- */

static inline void op_delay(ext4_lblk_t lblk, ext4_lblk_t len)
{
	ext4_lblk_t count, want = 0;

	for (ext4_lblk_t i = lblk; i < lblk + len; i++)
		want += model[i].state == M_HOLE;
	down_write(&fake.inode.i_data_sem);
	ck_assert_int_eq(ext4_es_count_unclaimed(&fake.inode, lblk, len, &count), 0);
	ck_assert_uint_eq(count, want);
	ck_assert_int_eq(ext4_es_delay_holes(&fake.inode, lblk, len), 0);
	up_write(&fake.inode.i_data_sem);
	delayed_made += want;
	for (ext4_lblk_t i = lblk; i < lblk + len; i++)
		if (model[i].state == M_HOLE)
			model[i].state = M_DELAYED;
}

/* One call of ext4_map_blocks with CREATE. Returns how many blocks it went on, 0 after an injected failure. */
static inline ext4_lblk_t op_create(ext4_lblk_t lblk, ext4_lblk_t len, unsigned flags)
{
	struct ext4_map_blocks map = {.m_lblk = lblk, .m_len = len};
	enum model_state before = model[lblk].state;
	unsigned failures = fake.failures;
	int ret;

	ret = ext4_map_blocks(fake_start(FAKE_CREDITS), &fake.inode, &map,
			      flags | EXT4_GET_BLOCKS_CREATE);
	fake_stop();
	if (ret < 0) {
		ck_assert_uint_ne(fake.failures, failures);
		return 0;
	}
	ck_assert_int_eq(ret, (int)map.m_len);
	ck_assert_uint_le(map.m_len, len);
	for (ext4_lblk_t i = 0; i < map.m_len; i++) {
		struct model_block *b = &model[lblk + i];

		ck_assert((map.m_flags & EXT4_MAP_NEW) != 0
				  ? b->state == M_HOLE || b->state == M_DELAYED
				  : b->state == before);
		if (flags & EXT4_GET_BLOCKS_DELALLOC_RESERVE && before == M_DELAYED)
			ck_assert(b->state == M_DELAYED);
		if ((map.m_flags & EXT4_MAP_NEW) == 0)
			ck_assert_uint_eq(b->pblk, map.m_pblk + i);
		b->state = (uint8_t)state_of(map.m_flags);
		b->pblk = map.m_pblk + i;
	}
	return map.m_len;
}

static inline void op_fill(ext4_lblk_t lblk, ext4_lblk_t len, unsigned flags)
{
	ext4_lblk_t end = lblk + len, n = 1;

	for (; lblk < end && n > 0; lblk += n)
		n = op_create(lblk, end - lblk, flags);
}

static inline void op_convert(ext4_lblk_t lblk, ext4_lblk_t len)
{
	int err = ext4_convert_unwritten_extents(NULL, &fake.inode, lblk, len);

	if (err < 0) {
		adopt_range(lblk, lblk + len, M_UNWRITTEN, M_WRITTEN);
		return;
	}
	for (ext4_lblk_t i = lblk; i < lblk + len; i++)
		if (model[i].state == M_UNWRITTEN)
			model[i].state = M_WRITTEN;
}

static inline void op_zero_range(ext4_lblk_t lblk, ext4_lblk_t len)
{
	ext4_lblk_t end = lblk + len, n = 1;

	for (; lblk < end && n > 0; lblk += n)
		n = op_create(lblk, end - lblk,
			      EXT4_GET_BLOCKS_CONVERT_UNWRITTEN | EXT4_GET_BLOCKS_UNWRIT_EXT |
				      EXT4_GET_BLOCKS_METADATA_NOFAIL);
}

static inline void op_remove(ext4_lblk_t lblk, ext4_lblk_t end)
{
	int err = ext4_remove_space(fake_start(remove_credits()), &fake.inode, lblk, end - 1);

	fake_stop();
	if (end > MAX_LBLK)
		end = MAX_LBLK;
	for (ext4_lblk_t i = lblk; i < end; i++)
		if (model[i].state == M_DELAYED)
			model[i].state = M_HOLE;
	if (err < 0) {
		adopt_range(lblk, end, M_HOLE, M_HOLE);
		return;
	}
	for (ext4_lblk_t i = lblk; i < end; i++)
		model[i].state = M_HOLE;
}

/* n random operations. fail_before > 0: every fourth fails, if it reaches that failure. */
static inline void random_ops(unsigned n, uint32_t max_len, unsigned fail_before)
{
	for (unsigned i = 0; i < n; i++) {
		if (fail_before > 0 && prng_chance(&fake.rng, 1, 4))
			fake.fail_in = (int)prng_below(&fake.rng, fail_before);
		random_op(max_len);
		fake.fail_in = -1;
		if (i % 100 == 0)
			check_all();
	}
	if (fail_before > 0)
		ck_assert_uint_gt(fake.failures, 20);
}

static inline void finish(void)
{
	fake.fail_in = -1;
	check_all();
	op_remove(0, EXT4_MAX_BLOCKS);
	check_all();
	ck_assert_uint_eq(fake.nr_used, 0);
	fake_exit();
}

#endif
