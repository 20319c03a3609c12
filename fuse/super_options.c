/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * super_options.c - mount options that the file system itself carries.
 *
 * The superblock has bits for the options of old (tune2fs -o) and a text (tune2fs -E mount_opts=). Both come before what the user says, in this order. The
 * text is from the disk: only options of ext4 that name no file and change nothing but how this file system is used are taken from it. ext4: fs/ext4/super.c
 * ext4_set_def_opts(), parse_apply_sb_mount_options().
 *
 * Invariants: (1) nothing on the disk can make the daemon open a file or give up its protection. (2) A superblock that cannot be read changes nothing.
 * Locking: none, one thread.
 */
#include "fuse/super_options.h"

#include <ext2fs/ext2_fs.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "util/log.h"

#define SUPER_OFFSET 1024

/* Those that the text may name. */
static const char *const allowed[] = {
	"errors",
	"data",
	"data_err",
	"delalloc",
	"nodelalloc",
	"auto_da_alloc",
	"noauto_da_alloc",
	"barrier",
	"nobarrier",
	"discard",
	"nodiscard",
	"acl",
	"noacl",
	"user_xattr",
	"nouser_xattr",
	"grpid",
	"bsdgroups",
	"nogrpid",
	"sysvgroups",
	"minixdf",
	"bsddf",
	"commit",
	"min_batch_time",
	"max_batch_time",
	"stripe",
	"resuid",
	"resgid",
	"lazytime",
	"nolazytime",
	"block_validity",
	"noblock_validity",
	"dioread_lock",
	"dioread_nolock",
	"journal_checksum",
	"nojournal_checksum",
	"i_version",
	"init_itable",
	"noinit_itable",
	"inode_readahead_blks",
	"max_dir_size_kb",
	"debug",
	"journal_ioprio",
	"mb_optimize_scan",
};

static bool may_be_there(const char *item)
{
	size_t len = strcspn(item, "=");

	for (size_t i = 0; i < sizeof(allowed) / sizeof(allowed[0]); i++)
		if (strlen(allowed[i]) == len && memcmp(allowed[i], item, len) == 0)
			return true;
	return false;
}

static void apply_item(struct mount_options *mo, const char *item)
{
	char why[256] = "it has no place there";

	if (strcmp(item, "data=journal") == 0) {
		mo->mo_super_journal = true;
		return;
	}
	if (may_be_there(item) && mount_options_parse(mo, item, why, sizeof(why)) == 0)
		return;
	log_warn("option '%s' in the superblock is ignored: %s", item, why);
}

static void apply_text(struct mount_options *mo, const struct ext2_super_block *es)
{
	char text[sizeof(es->s_mount_opts) + 1];
	char *rest = text;
	char *item;

	memcpy(text, es->s_mount_opts, sizeof(es->s_mount_opts));
	text[sizeof(es->s_mount_opts)] = '\0';
	while ((item = strsep(&rest, ",")) != NULL)
		if (*item != '\0')
			apply_item(mo, item);
}

/* user_xattr and acl are on in any case, uid16 means nothing. */
static void apply_bits(struct mount_options *mo, uint32_t bits)
{
	struct ext4_options *o = &mo->mo_ext4;

	if ((bits & EXT2_DEFM_BSDGROUPS) != 0)
		o->o_grpid = true;
	if ((bits & EXT4_DEFM_NOBARRIER) != 0)
		o->o_barrier = false;
	if ((bits & EXT4_DEFM_DISCARD) != 0)
		o->o_discard = true;
	if ((bits & EXT4_DEFM_NODELALLOC) != 0)
		o->o_delalloc = false;
	switch (bits & EXT3_DEFM_JMODE) {
	case EXT3_DEFM_JMODE_DATA:
		mo->mo_super_journal = true;
		break;
	case EXT3_DEFM_JMODE_WBACK:
		o->o_data = DATA_WRITEBACK;
		break;
	default:
		break;
	}
}

void super_options_apply(struct mount_options *mo, const struct ext2_super_block *es)
{
	if (le16_to_cpu(es->s_magic) != EXT2_SUPER_MAGIC)
		return;
	apply_bits(mo, le32_to_cpu(es->s_default_mount_opts));
	apply_text(mo, es);
}

void super_options_read(struct mount_options *mo, const char *path)
{
	struct ext2_super_block es;
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return;
	if (pread(fd, &es, sizeof(es), SUPER_OFFSET) == (ssize_t)sizeof(es))
		super_options_apply(mo, &es);
	close(fd);
}
