/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef JOURNAL_REPLAY_MAP_H
#define JOURNAL_REPLAY_MAP_H
/* The newest content of each block that replay has met and not yet written home. */

#include "journal/journal_int.h"

struct replay_block;
RB_HEAD(replay_tree, replay_block);

struct replay_map {
	struct replay_tree rm_tree;
	SLIST_HEAD(, replay_block) rm_all; /* what is to be freed at the end */
	unsigned rm_count;
	struct blkdev *rm_dev;
	uint32_t rm_block_bytes;
};

void replay_map_init(struct replay_map *map, struct blkdev *bd, uint32_t block_bytes);
/* Keep a copy of data for blocknr; `escaped`: it began with the magic. May write the map when it is full. */
int replay_map_put(struct replay_map *map, uint64_t blocknr, const uint8_t *data, bool escaped);
/* Write everything and wait; the map is empty afterwards, unless that failed. No flush. */
int replay_map_write(struct replay_map *map);
void replay_map_clear(struct replay_map *map);

#endif
