/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef EXT4_EXT4_H
#define EXT4_EXT4_H
/*
 * The file system and its inodes in memory, and the types that every layer above shares.
 * On-disk structs are libext2fs's, little-endian; they are converted in the reader or writer of a block.
 */

#include <endian.h>
#include <ext2fs/ext2_fs.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/stat.h>
#include <time.h>

#include "block/blkdev.h"
#include "block/buffer.h"
#include "journal/jbd2.h"
#include "util/err.h"
#include "util/lock.h"
#include "util/workqueue.h"

typedef uint64_t ext4_fsblk_t; /* physical block */
typedef uint32_t ext4_lblk_t;  /* logical block of a file */
typedef uint32_t ext4_group_t;

#define EXT4_MAX_BLOCKS 0xffffffffu /* no lblk is this high */
#define EXT4_ROOT_INO 2u
#define EXT4_FRAME_SHIFT 12
#define EXT4_FRAME_SIZE 4096u

#define le16_to_cpu le16toh
#define le32_to_cpu le32toh
#define le64_to_cpu le64toh
#define cpu_to_le16 htole16
#define cpu_to_le32 htole32
#define cpu_to_le64 htole64

struct super_block;
struct inode;
struct address_space;	 /* writeback/ */
struct ext4_inode_alloc; /* alloc/ */
struct ext4_mballoc;	 /* alloc/ */
struct wb_domain;	 /* writeback/ */

/* ---- Mount options (filled by the front; ext4_options_init() gives the defaults) ---- */

enum ext4_errors { ERRORS_FROM_SB, ERRORS_CONTINUE, ERRORS_RO, ERRORS_PANIC };
enum ext4_data_mode { DATA_ORDERED, DATA_WRITEBACK };
enum ext4_atime_mode { ATIME_RELATIME, ATIME_NOATIME, ATIME_STRICT };

struct ext4_options {
	bool o_read_only;
	bool o_noload; /* norecovery */
	enum ext4_errors o_errors;
	enum ext4_data_mode o_data;
	enum ext4_atime_mode o_atime;
	bool o_lazytime;
	bool o_nodiratime;
	bool o_delalloc;      /* default true */
	bool o_auto_da_alloc; /* default true */
	bool o_barrier;	      /* default true */
	bool o_async_commit;
	bool o_data_err_abort; /* a write of data that fails aborts the journal */
	bool o_discard;
	bool o_acl;	   /* default true */
	bool o_user_xattr; /* default true */
	bool o_sync, o_dirsync;
	bool o_grpid;
	bool o_minixdf;
	unsigned o_commit_ms;	    /* 5000 */
	unsigned o_min_batch_us;    /* 0 */
	unsigned o_max_batch_us;    /* 15000 */
	int64_t o_stripe;	    /* blocks; -1: from the superblock, 0: off */
	int64_t o_resuid, o_resgid; /* -1: from the superblock */
	uint64_t o_sb_block;	    /* sb=: number of the superblock's 1 KiB block, 1 by default */
	uint64_t o_cache_bytes;	    /* page cache; 0: default */
	uint64_t o_bcache_bytes;    /* metadata; 0: default */
	const char *o_journal_path; /* external journal device, or NULL */
	struct blkdev *
		o_journal_bdev; /* external journal already open, instead of a path; consumed on success */
	const char *o_mount_point; /* goes into s_last_mounted; NULL: left as it is */
	const char *o_name;	   /* of the device, for messages; NULL: bd_name */
	bool o_manual_commit; /* simulations: no threads anywhere; commits and writeback run in the caller */
};
void ext4_options_init(struct ext4_options *o);

/* ---- Inode ---- */

/* i_state bits [i_lock, read atomically] */
#define I_DIRTY_SYNC                                                                               \
	(1u << 0) /* the inode in memory is newer than its buffer: times and the like */
#define I_DIRTY_DATASYNC (1u << 1) /* the same, and fdatasync must write it (size, blocks) */
#define I_DIRTY_PAGES (1u << 2)	   /* its mapping has dirty pages */
#define I_NEW (1u << 3)
#define I_FREEING (1u << 4)
#define I_SYNC (1u << 5) /* under writeback by the flusher */
#define I_DA_ALLOC_CLOSE                                                                           \
	(1u << 6)	/* truncated to 0 by O_TRUNC: start writeback at release (auto_da_alloc) */
#define I_BAD (1u << 7) /* damaged: every operation gives -EFSCORRUPTED */
#define I_DIRTY_TIME (1u << 8) /* only times, lazily (lazytime, atime) */
#define I_NEWENTRY (1u << 9)
#define I_LOADING (1u << 10)   /* being read from the disk: others wait */
#define I_NO_EXPAND (1u << 11) /* i_extra_isize cannot grow: xattrs are in the way */
#define I_EVICTING (1u << 12)  /* I_FREEING and unlinked: evict_inode runs or will run */
#define I_NOT_DONE (1u << 13)  /* an orphan kept for ext4_retry_orphans() */
#define I_DIRTY_ALL (I_DIRTY_SYNC | I_DIRTY_DATASYNC | I_DIRTY_PAGES)

struct inode {
	struct super_block *i_sb; /* [const after init] */
	uint32_t i_ino;		  /* [const after init] */
	uint32_t i_generation;	  /* [const after init] */
	_Atomic int i_count;	  /* [atomic] references; see ext4/inode.h */
	_Atomic uint32_t i_state; /* [i_lock for changes of more than one bit, atomic] */

	struct rwsem i_rwsem;	 /* serialises writers and changes of the directory or size */
	struct rwsem i_data_sem; /* the block map */
	struct rwsem i_xattr_sem;
	struct mutex i_lock; /* LEAF: counts and small fields below */

	uint16_t i_mode;	     /* [i_rwsem] */
	uint32_t i_uid, i_gid;	     /* [i_rwsem] */
	_Atomic uint32_t i_nlink;    /* [i_rwsem of the parents; atomic reads] */
	uint32_t i_flags;	     /* [i_rwsem] EXT4_*_FL */
	_Atomic uint64_t i_size;     /* [i_rwsem for writers; atomic reads] bytes */
	_Atomic uint64_t i_disksize; /* [i_data_sem] the size that goes to disk */
	_Atomic uint64_t
		i_blocks; /* [i_lock] 512-byte units on disk, xattr block and metadata included */
	struct timespec i_atime, i_mtime, i_ctime, i_crtime; /* [i_lock] */
	uint64_t i_version;				     /* [i_lock] */
	uint32_t i_dtime;
	uint32_t i_rdev;	/* device number as in st_rdev, new encoding */
	uint64_t i_file_acl;	/* [i_xattr_sem] block of the xattrs, 0: none */
	uint16_t i_extra_isize; /* [i_xattr_sem] */
	uint32_t i_projid;
	uint32_t i_csum_seed;
	uint8_t i_block
		[60]; /* [i_data_sem] as on disk: extent root, indirect pointers or fast symlink */
	ext4_group_t i_block_group;  /* where it lives */
	uint32_t i_dir_start_lookup; /* [i_rwsem] */
	/* [i_rwsem] of a directory: another value with each change of a block, one that none had before */
	uint64_t i_dir_version;

	_Atomic tid_t i_sync_tid;     /* transaction that must commit for fsync */
	_Atomic tid_t i_datasync_tid; /* the same for fdatasync */
	struct jbd2_inode i_jinode;   /* ordered data (indirect-block files) */

	struct address_space
		*i_mapping; /* [const after init] writeback/'s; NULL for other than regular files */
	struct ext4_inode_alloc *i_alloc; /* [const after init] alloc/'s */
	void *i_acl_cache;		  /* [i_lock] namespace/'s */

	/* fuse/'s: what the kernel knows of it (fuse/node.h) */
	_Atomic uint64_t
		i_nlookup; /* [atomic] look-ups; while there are any they have one reference */
	_Atomic uint64_t i_cached_reads; /* [atomic] node_note_read() */
	_Atomic unsigned i_held_answers; /* [atomic] answers that wait for a notification */
	uint32_t i_handle_generation; /* [const after init] i_generation when it came into memory */

	/* inode cache */
	struct inode *i_hash_next;   /* [icache] */
	TAILQ_ENTRY(inode) i_lru;    /* [icache] */
	TAILQ_ENTRY(inode) i_orphan; /* [s_orphan_lock] */
	bool i_on_orphan;	     /* [s_orphan_lock] */
	uint32_t i_orphan_idx;	     /* [s_orphan_lock] slot in the orphan file, UINT32_MAX: list */
	struct work_item i_work;     /* eviction on a worker */
	STAILQ_ENTRY(inode) i_evict; /* [icache] evictions put off, orphans to be tried again */
	bool i_hashed;		     /* [icache] */
	bool i_on_lru;		     /* [icache] */
};

static inline uint64_t i_size_read(const struct inode *inode)
{
	return atomic_load_explicit(&inode->i_size, memory_order_acquire);
}
static inline void i_size_write(struct inode *inode, uint64_t size)
{
	atomic_store_explicit(&inode->i_size, size, memory_order_release);
}
static inline bool ext4_is_extents(const struct inode *inode)
{
	return (inode->i_flags & EXT4_EXTENTS_FL) != 0;
}

#define EXT4_KILL_SUIDGID 1u /* suid, and sgid with group execute */
#define EXT4_KILL_SGID 2u    /* sgid without it too: not by a member of the group */

/* What the layers above hang on the life of an inode and of the file system; registered before the first iget. NULL members are skipped. */
struct ext4_upper_ops {
	int (*alloc_inode_init)(struct inode *inode); /* alloc/: sets i_alloc */
	void (*alloc_inode_destroy)(struct inode *inode);
	int (*mapping_init)(struct inode *inode); /* writeback/: sets i_mapping for regular files */
	void (*mapping_destroy)(struct inode *inode); /* no page is left */
	void (*acl_destroy)(struct inode *inode);     /* namespace/ */
	/* i_nlink is 0 and nobody holds it: truncate, free blocks, xattrs and the inode. May start handles and block. */
	void (*evict_inode)(struct inode *inode);
	/* Orphan processing at mount: i_nlink > 0: cut everything beyond i_size. */
	int (*orphan_truncate)(struct inode *inode);
	/* Write and wait the dirty data of a range (journal's ordered mode). */
	int (*write_ordered_data)(struct inode *inode, uint64_t start_bytes, uint64_t end_bytes);
	/* Drop security.capability, and suid/sgid if asked (EXT4_KILL_); i_rwsem held for write, no handle open. Sets *dropped. */
	int (*file_remove_privs)(struct inode *inode, unsigned kill, bool *dropped);
	/* Would that do anything, or fail? i_rwsem held. */
	bool (*file_has_privs)(struct inode *inode, unsigned kill);
	/* ext4_fill_super() is followed by the replay of what jbd2_fc_records() says. */
	bool takes_fast_commits;
	/* -ENOSPC on a reservation or allocation: give space back (evictions, preallocations, pending frees by a commit). */
	void (*reclaim_space)(struct super_block *sb);
};

/* ---- File system ---- */

struct ext4_sb_stats {
	counter_t st_errors;
	counter_t st_inodes_read;
	counter_t st_inodes_written;
	counter_t st_bitmaps_loaded;
	counter_t st_csum_errors;
};

/* What the superblock's s_error_* fields will say; kept here until it can be written. */
struct ext4_error_record {
	int64_t er_time;
	uint32_t er_ino;
	uint64_t er_block;
	char er_func[32]; /* NUL-padded, as on disk */
	uint8_t er_code;
};

struct super_block {
	struct blkdev *s_dev;	       /* [const after init] */
	struct bh_cache *s_bcache;     /* [const after init] */
	journal_t *s_journal;	       /* [const after init] never NULL on a writable mount */
	struct blkdev *s_journal_dev;  /* external journal, or NULL */
	struct buffer_head *s_sbh;     /* the block that holds the superblock */
	struct ext2_super_block *s_es; /* [s_sb_lock] inside s_sbh, little-endian */
	struct ext4_options s_opts;    /* [const, or atomic words] */
	struct mutex s_sb_lock; /* LEAF: s_es fields; changes of them hold lock_buffer(s_sbh) too */
	/* The feature words of s_es in host order: what is checked while mounted. */
	_Atomic uint32_t s_feature_compat;    /* [atomic] */
	_Atomic uint32_t s_feature_incompat;  /* [atomic] */
	_Atomic uint32_t s_feature_ro_compat; /* [atomic] */

	/* geometry [const after init] */
	uint32_t s_blocksize;
	unsigned s_blocksize_bits;
	uint64_t s_blocks_count;
	uint32_t s_inodes_count;
	uint32_t s_first_data_block;
	uint32_t s_blocks_per_group;
	uint32_t s_clusters_per_group; /* = s_blocks_per_group: bigalloc is read-only */
	uint32_t s_inodes_per_group;
	uint32_t s_itb_per_group; /* inode table blocks of a group */
	uint32_t s_inode_size;
	uint32_t s_inodes_per_block;
	uint32_t s_first_ino;
	uint32_t s_desc_size;
	uint32_t s_desc_per_block;
	ext4_group_t s_groups_count;
	uint32_t s_gdb_count;
	uint32_t
		s_first_meta_bg; /* descriptor blocks before it lie together; gdb_count without meta_bg */
	uint32_t s_reserved_gdt;	/* blocks kept free behind each copy of the descriptors */
	uint32_t s_sb_offset_bytes;	/* of the superblock in that block */
	uint32_t s_backup_bgs[2];	/* sparse_super2 */
	unsigned s_log_groups_per_flex; /* 0: no flex_bg */
	uint32_t s_want_extra_isize;
	uint32_t s_csum_seed;
	uint32_t s_hash_seed[4];
	uint32_t s_cluster_ratio;    /* 1 but on bigalloc */
	uint64_t s_sb_block;	     /* block that holds the superblock in use */
	uint64_t s_max_bitmap_bytes; /* largest indirect-block file */
	uint64_t s_max_bytes;	     /* largest extent file */
	uint64_t s_r_blocks;	     /* [s_sb_lock] root reserve */
	uint32_t s_resuid, s_resgid;
	uint32_t s_stripe; /* blocks, 0: none */
	/*
	 * The superblock's free counters as found. They are exact only if s_clean_at_mount; else the
	 * sums over the descriptors are.
	 */
	uint64_t s_free_blocks_at_mount;
	uint32_t s_free_inodes_at_mount;

	_Atomic bool s_read_only;      /* now: -o ro, a read-only feature, or after an error */
	bool s_read_only_forced;       /* by a feature: cannot be remounted rw */
	_Atomic bool s_shutdown;       /* EXT4_FLAGS_SHUTDOWN: everything gives -EIO */
	_Atomic bool s_aborted;	       /* an error stopped all changes; stays until unmount */
	_Atomic bool s_frozen;	       /* between ext4_freeze() and ext4_thaw() */
	_Atomic bool s_orphan_cleanup; /* ext4_orphan_cleanup() runs */
	bool s_journal_loaded;	       /* [s_mount_sem] handles can be opened */
	bool s_recover_skipped;	       /* noload: the log holds what was not replayed */
	bool s_clean_at_mount;	    /* cleanly unmounted: nothing was replayed, s_state was valid */
	uint8_t s_def_hash_version; /* EXT2_HASH_*, signedness resolved (…_UNSIGNED) */
	uint16_t s_mount_state;	    /* [s_sb_lock] EXT2_VALID_FS, EXT2_ERROR_FS to leave behind */
	_Atomic enum ext4_errors s_errors;

	struct ext4_group_table *s_groups; /* [ext4/group.c] two-level, made on demand */
	struct ext4_zone_table *s_zones;   /* [ext4/zone.c] where metadata lies */
	struct rwsem s_mount_sem;	   /* MOUNT: freeze, remount */
	struct mutex s_rename_lock;	   /* RENAME: directories that move */

	/* orphans */
	struct mutex s_orphan_lock;
	TAILQ_HEAD(ext4_orphan_list, inode)
	s_orphans;				/* [s_orphan_lock] the on-disk list's order */
	struct ext4_orphan_file *s_orphan_file; /* [ext4/orphan_file.c] NULL: none */

	struct ext4_icache *s_icache; /* [ext4/inode.c] */
	const struct ext4_upper_ops *s_upper;
	struct ext4_upper_ops s_upper_store;
	struct workqueue
		*s_wq; /* evictions and other slow work; NULL in simulations: done in the caller */

	struct ext4_mballoc *s_mb;	      /* alloc/ */
	struct wb_domain *s_wb;		      /* writeback/ */
	struct ext4_dir_misses *s_dir_misses; /* namespace/ */
	_Atomic uint64_t s_dir_version;	      /* [atomic] the last one given */
	void (*s_panic)(
		struct super_block *sb); /* errors=panic: set by the front; must not return */
	/* Registered by alloc/: the free counters now. NULL: those of the superblock are kept. */
	void (*s_counts_hook)(struct super_block *sb, uint64_t *free_blocks, uint64_t *free_inodes);
	void (*s_dirty_hook)(struct inode *inode, uint32_t i_dirty_bits); /* writeback/'s */
	struct ext4_sb_stats s_stats;
	char s_name[64];	   /* for messages */
	uint64_t s_mount_wtime;	   /* of the superblock found at mount */
	uint64_t s_kbytes_start;   /* s_kbytes_written at mount */
	uint64_t s_kbytes_session; /* of s_kbytes_start's device counter, in KiB */

	/* mount state and errors */
	int s_first_err;	/* [s_sb_lock] first error of this mount, for ext4_put_super() */
	uint32_t s_error_count; /* [s_sb_lock] not yet in the superblock */
	struct ext4_error_record s_err_first, s_err_last; /* [s_sb_lock] */
	struct work_item s_error_work;
	struct jbd2_log_extent *s_journal_map; /* [const after init] blocks of the journal inode */
	unsigned s_nr_journal_map;
};

/* The content of the directory is another one from now on. */
static inline void ext4_dir_changed(struct inode *dir)
{
	dir->i_dir_version = atomic_fetch_add(&dir->i_sb->s_dir_version, 1) + 1;
}
static inline bool sb_rdonly(const struct super_block *sb)
{
	return atomic_load_explicit(&sb->s_read_only, memory_order_acquire);
}

/* Features of the mounted file system, on-disk masks: ext4_has_incompat(sb, EXT3_FEATURE_INCOMPAT_EXTENTS). */
static inline bool ext4_has_compat(const struct super_block *sb, uint32_t mask)
{
	return (atomic_load_explicit(&sb->s_feature_compat, memory_order_relaxed) & mask) != 0;
}
static inline bool ext4_has_incompat(const struct super_block *sb, uint32_t mask)
{
	return (atomic_load_explicit(&sb->s_feature_incompat, memory_order_relaxed) & mask) != 0;
}
static inline bool ext4_has_ro_compat(const struct super_block *sb, uint32_t mask)
{
	return (atomic_load_explicit(&sb->s_feature_ro_compat, memory_order_relaxed) & mask) != 0;
}
static inline bool ext4_has_metadata_csum(const struct super_block *sb)
{
	return ext4_has_ro_compat(sb, EXT4_FEATURE_RO_COMPAT_METADATA_CSUM);
}
/* Descriptors have checksums, so the UNINIT flags and bg_itable_unused mean something. */
static inline bool ext4_has_group_csum(const struct super_block *sb)
{
	return ext4_has_ro_compat(sb, EXT4_FEATURE_RO_COMPAT_METADATA_CSUM |
					      EXT4_FEATURE_RO_COMPAT_GDT_CSUM);
}

/*
 * The free counters are alloc/'s while mounted; the superblock gets them at each ext4_commit_super() and at
 * unmount through this hook. Called with no lock but those before BUFFER in the order. NULL takes it back.
 */
void ext4_set_counts_hook(struct super_block *sb,
			  void (*fn)(struct super_block *sb, uint64_t *free_blocks,
				     uint64_t *free_inodes));

#endif
