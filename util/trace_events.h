/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef UTIL_TRACE_EVENTS_H
#define UTIL_TRACE_EVENTS_H
/*
 * The events, each defined once: the struct of its fields, its line of text, its switch and its USDT probe are made
 * from this table. Names and fields are those of the kernel's trace points of the same name; what has no
 * counterpart here (line_no, the parent of a file that is synced) is 0. Times of jbd2 are in ms, pauses too.
 *
 * EVENT(name, text, fields): U, D and S fields are unsigned, signed, and pointers to static strings. The text has one conversion
 * for each field, in order: %u %d %o %x, %s, %v and %b a device as "major,minor" and "major:minor"; %C, without a field, is the name of the thread.
 * LONG has more fields than a probe can have arguments.
 */

/* clang-format off */
#define TRACE_EVENTS(EVENT, LONG, U, D, S)                                                         \
	EVENT(ext4_writepages,                                                                     \
	      "dev %v ino %u nr_to_write %d pages_skipped %d range_start %d range_end %d "         \
	      "sync_mode %d for_kupdate %d range_cyclic %d writeback_index %u",                    \
	      U(dev) U(ino) D(nr_to_write) D(pages_skipped) D(range_start) D(range_end)            \
	      D(sync_mode) D(for_kupdate) D(range_cyclic) U(writeback_index))                      \
	EVENT(ext4_writepages_result,                                                              \
	      "dev %v ino %u ret %d pages_written %d pages_skipped %d sync_mode %d "               \
	      "writeback_index %u",                                                                \
	      U(dev) U(ino) D(ret) D(pages_written) D(pages_skipped) D(sync_mode)                  \
	      U(writeback_index))                                                                  \
	EVENT(ext4_da_write_pages, "dev %v ino %u first_page %u nr_to_write %d sync_mode %d",      \
	      U(dev) U(ino) U(first_page) D(nr_to_write) D(sync_mode))                             \
	EVENT(ext4_da_write_pages_extent, "dev %v ino %u lblk %u len %u flags %s",                 \
	      U(dev) U(ino) U(lblk) U(len) S(flags))                                               \
	EVENT(ext4_da_reserve_space,                                                               \
	      "dev %v ino %u mode 0%o i_blocks %u reserve_blocks %u reserved_data_blocks %u",      \
	      U(dev) U(ino) U(mode) U(i_blocks) U(reserve_blocks) U(reserved_data_blocks))         \
	EVENT(ext4_da_release_space,                                                               \
	      "dev %v ino %u mode 0%o i_blocks %u freed_blocks %u reserved_data_blocks %u",        \
	      U(dev) U(ino) U(mode) U(i_blocks) U(freed_blocks) U(reserved_data_blocks))           \
	EVENT(ext4_alloc_da_blocks, "dev %v ino %u reserved_data_blocks %u",                       \
	      U(dev) U(ino) U(reserved_data_blocks))                                               \
	EVENT(ext4_sync_file_enter, "dev %v ino %u parent %u datasync %d",                         \
	      U(dev) U(ino) U(parent) D(datasync))                                                 \
	EVENT(ext4_sync_file_exit, "dev %v ino %u ret %d", U(dev) U(ino) D(ret))                   \
	EVENT(ext4_sync_fs, "dev %v wait %d", U(dev) D(wait))                                      \
	LONG(ext4_mballoc_alloc,                                                                   \
	     "dev %v inode %u orig %u/%u/%u@%u goal %u/%u/%u@%u result %u/%u/%u@%u "               \
	     "blks %u grps %u cr %u flags 0x%x tail %u broken %u",                                 \
	     U(dev) U(ino) U(orig_group) U(orig_start) U(orig_len) U(orig_logical)                 \
	     U(goal_group) U(goal_start) U(goal_len) U(goal_logical)                               \
	     U(result_group) U(result_start) U(result_len) U(result_logical)                       \
	     U(found) U(groups) U(cr) U(flags) U(tail) U(buddy))                                   \
	EVENT(ext4_mballoc_prealloc, "dev %v inode %u orig %u/%u/%u@%u result %u/%u/%u@%u",        \
	      U(dev) U(ino) U(orig_group) U(orig_start) U(orig_len) U(orig_logical)                \
	      U(result_group) U(result_start) U(result_len) U(result_logical))                     \
	EVENT(ext4_free_blocks, "dev %v ino %u mode 0%o block %u count %u flags %u",               \
	      U(dev) U(ino) U(mode) U(block) U(count) U(flags))                                    \
	EVENT(jbd2_start_commit, "dev %v transaction %u sync %d",                                  \
	      U(dev) U(transaction) D(sync_commit))                                                \
	EVENT(jbd2_commit_locking, "dev %v transaction %u sync %d",                                \
	      U(dev) U(transaction) D(sync_commit))                                                \
	EVENT(jbd2_commit_flushing, "dev %v transaction %u sync %d",                               \
	      U(dev) U(transaction) D(sync_commit))                                                \
	EVENT(jbd2_commit_logging, "dev %v transaction %u sync %d",                                \
	      U(dev) U(transaction) D(sync_commit))                                                \
	EVENT(jbd2_end_commit, "dev %v transaction %u sync %d head %u",                            \
	      U(dev) U(transaction) D(sync_commit) U(head))                                        \
	EVENT(jbd2_run_stats,                                                                      \
	      "dev %v tid %u wait %u request_delay %u running %u locked %u flushing %u "           \
	      "logging %u handle_count %u blocks %u blocks_logged %u",                             \
	      U(dev) U(tid) U(wait) U(request_delay) U(running) U(locked) U(flushing)              \
	      U(logging) U(handle_count) U(blocks) U(blocks_logged))                               \
	EVENT(jbd2_checkpoint_stats,                                                               \
	      "dev %v tid %u chp_time %u forced_to_close %u written %u dropped %u",                \
	      U(dev) U(tid) U(chp_time) U(forced_to_close) U(written) U(dropped))                  \
	EVENT(jbd2_handle_stats,                                                                   \
	      "dev %v tid %u type %u line_no %u interval %u sync %d requested_blocks %d "          \
	      "dirtied_blocks %d",                                                                 \
	      U(dev) U(tid) U(type) U(line_no) U(interval) D(sync) D(requested_blocks)             \
	      D(dirtied_blocks))                                                                   \
	EVENT(writeback_start,                                                                     \
	      "bdi %b: sb_dev %b nr_pages=%d sync_mode=%d kupdate=%d range_cyclic=%d "             \
	      "background=%d reason=%s",                                                           \
	      U(bdi) U(sb_dev) D(nr_pages) D(sync_mode) D(for_kupdate) D(range_cyclic)             \
	      D(for_background) S(reason))                                                         \
	EVENT(writeback_written,                                                                   \
	      "bdi %b: sb_dev %b nr_pages=%d sync_mode=%d kupdate=%d range_cyclic=%d "             \
	      "background=%d reason=%s",                                                           \
	      U(bdi) U(sb_dev) D(nr_pages) D(sync_mode) D(for_kupdate) D(range_cyclic)             \
	      D(for_background) S(reason))                                                         \
	EVENT(writeback_single_inode,                                                              \
	      "bdi %b: ino=%u state=%s dirtied_when=%u age=%u index=%u to_write=%d wrote=%u",      \
	      U(bdi) U(ino) S(state) U(dirtied_when) U(age) U(writeback_index) D(nr_to_write)      \
	      U(wrote))                                                                            \
	LONG(balance_dirty_pages,                                                                  \
	     "bdi %b: limit=%u setpoint=%u dirty=%u bdi_setpoint=%u bdi_dirty=%u "                 \
	     "dirty_ratelimit=%u task_ratelimit=%u dirtied=%u dirtied_pause=%u paused=%u "         \
	     "pause=%d period=%u think=%d",                                                        \
	     U(bdi) U(limit) U(setpoint) U(dirty) U(bdi_setpoint) U(bdi_dirty)                     \
	     U(dirty_ratelimit) U(task_ratelimit) U(dirtied) U(dirtied_pause) U(paused)            \
	     D(pause) U(period) D(think))                                                          \
	EVENT(global_dirty_state,                                                                  \
	      "dirty=%u writeback=%u bg_thresh=%u thresh=%u limit=%u dirtied=%u written=%u",       \
	      U(nr_dirty) U(nr_writeback) U(background_thresh) U(dirty_thresh) U(dirty_limit)      \
	      U(nr_dirtied) U(nr_written))                                                         \
	EVENT(block_rq_issue, "%v %s %u () %u + %u [%C]",                                          \
	      U(dev) S(rwbs) U(bytes) U(sector) U(nr_sector))                                      \
	EVENT(block_rq_complete, "%v %s () %u + %u [%d]",                                          \
	      U(dev) S(rwbs) U(sector) U(nr_sector) D(error))
/* clang-format on */

#endif
