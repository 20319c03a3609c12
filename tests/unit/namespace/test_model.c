/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * test_model.c - random changes of a tree, each compared with what a model in memory says, with remounts.
 *
 * The model is a table of nodes and a table of names; it knows the rules of POSIX for each operation, and so the error
 * that is to come. Names are long enough that directories of 1 KiB blocks become indexed.
 *
 * Invariants: (1) every call gives the model's result. (2) After a remount each directory lists exactly the model's
 * names with their inodes. (3) e2fsck finds nothing.
 * Locking: none.
 */
#include "tests/unit/namespace/nsenv.h"

#define MAX_NODES 4000u
#define MAX_NAMES 1500u
#define POOL 90u
#define DIRS 10u

enum kind { KIND_FREE, KIND_FILE, KIND_DIR, KIND_LINK };

struct node {
	enum kind n_kind;
	uint32_t n_ino;
	unsigned n_links; /* names that lead to it */
};
struct name {
	bool m_used;
	unsigned m_dir, m_node; /* nodes */
	unsigned m_text;	/* of the pool */
};
struct model {
	struct env m_env;
	struct prng m_rng;
	struct node m_node[MAX_NODES];
	unsigned m_nodes;
	struct name m_name[MAX_NAMES];
	unsigned m_names;
	char m_pool[POOL][256];
};

/* ---- The model ---- */

static struct name *find(struct model *m, unsigned dir, unsigned text)
{
	for (unsigned i = 0; i < MAX_NAMES; i++)
		if (m->m_name[i].m_used && m->m_name[i].m_dir == dir && m->m_name[i].m_text == text)
			return &m->m_name[i];
	return NULL;
}

static void add(struct model *m, unsigned dir, unsigned text, unsigned node)
{
	for (unsigned i = 0; i < MAX_NAMES; i++) {
		if (m->m_name[i].m_used)
			continue;
		m->m_name[i] = (struct name){true, dir, node, text};
		m->m_node[node].n_links++;
		m->m_names++;
		return;
	}
	ck_abort_msg("too many names");
}

static void drop(struct model *m, struct name *n)
{
	n->m_used = false;
	m->m_node[n->m_node].n_links--;
	if (m->m_node[n->m_node].n_links == 0)
		m->m_node[n->m_node].n_kind = KIND_FREE;
	m->m_names--;
}

static unsigned new_node(struct model *m, enum kind kind, uint32_t ino)
{
	ck_assert_uint_lt(m->m_nodes, MAX_NODES);
	m->m_node[m->m_nodes] = (struct node){kind, ino, 0};
	return m->m_nodes++;
}

static bool is_empty(struct model *m, unsigned dir)
{
	for (unsigned i = 0; i < MAX_NAMES; i++)
		if (m->m_name[i].m_used && m->m_name[i].m_dir == dir)
			return false;
	return true;
}

static bool is_below(struct model *m, unsigned node, unsigned above)
{
	while (node != above && node != 0) {
		unsigned parent = 0;

		for (unsigned i = 0; i < MAX_NAMES; i++)
			if (m->m_name[i].m_used && m->m_name[i].m_node == node)
				parent = m->m_name[i].m_dir;
		node = parent;
	}
	return node == above;
}

static bool is_dir(struct model *m, unsigned node)
{
	return m->m_node[node].n_kind == KIND_DIR;
}

/* A directory that exists, as a node. */
static unsigned any_dir(struct model *m)
{
	unsigned dirs[DIRS * 4];
	unsigned n = 0;

	for (unsigned i = 0; i < m->m_nodes && n < DIRS * 4; i++)
		if (is_dir(m, i))
			dirs[n++] = i;
	return dirs[prng_below(&m->m_rng, n)];
}

static unsigned count_dirs(struct model *m)
{
	unsigned n = 0;

	for (unsigned i = 0; i < m->m_nodes; i++)
		n += is_dir(m, i);
	return n;
}

/* ---- Operations ---- */

static struct inode *open_node(struct model *m, unsigned node)
{
	struct inode *inode = ext4_iget(m->m_env.e_sb, m->m_node[node].n_ino, EXT4_IGET_NORMAL);

	ck_assert(!IS_ERR(inode));
	return inode;
}

static void op_make(struct model *m)
{
	static const uint16_t modes[] = {S_IFREG | 0644, S_IFDIR | 0755, S_IFREG | 0600};
	unsigned dir = any_dir(m);
	unsigned text = (unsigned)prng_below(&m->m_rng, POOL);
	uint16_t mode = modes[prng_below(&m->m_rng, 3)];
	struct inode *d, *inode;
	int want, err;

	if (count_dirs(m) >= DIRS)
		mode = S_IFREG | 0644;
	d = open_node(m, dir);
	want = find(m, dir, text) != NULL ? -EEXIST : 0;
	err = env_create(d, m->m_pool[text], mode, &inode);
	ck_assert_int_eq(err, want);
	if (err == 0) {
		add(m, dir, text, new_node(m, S_ISDIR(mode) ? KIND_DIR : KIND_FILE, inode->i_ino));
		iput(inode);
	}
	iput(d);
}

static void op_symlink(struct model *m)
{
	unsigned dir = any_dir(m);
	unsigned text = (unsigned)prng_below(&m->m_rng, POOL);
	struct inode *d = open_node(m, dir);
	int want = find(m, dir, text) != NULL ? -EEXIST : 0;
	int err = env_symlink(d, m->m_pool[text], m->m_pool[text]);

	ck_assert_int_eq(err, want);
	if (err == 0) {
		struct inode *inode = env_lookup(d, m->m_pool[text]);

		add(m, dir, text, new_node(m, KIND_LINK, inode->i_ino));
		iput(inode);
	}
	iput(d);
}

static void op_link(struct model *m)
{
	unsigned dir = any_dir(m);
	unsigned text = (unsigned)prng_below(&m->m_rng, POOL);
	struct name *from = &m->m_name[prng_below(&m->m_rng, MAX_NAMES)];
	struct inode *d, *inode;
	unsigned node;
	int want, err;

	if (!from->m_used)
		return;
	node = from->m_node;
	d = open_node(m, dir);
	inode = open_node(m, node);
	want = is_dir(m, node) ? -EPERM : find(m, dir, text) != NULL ? -EEXIST : 0;
	err = ext4_link(inode, d, m->m_pool[text], strlen(m->m_pool[text]));
	ck_assert_int_eq(err, want);
	if (err == 0)
		add(m, dir, text, node);
	ck_assert_uint_eq(is_dir(m, node) ? 1 : env_nlink(inode), m->m_node[node].n_links);
	iput(inode);
	iput(d);
}

static void op_remove(struct model *m)
{
	unsigned dir = any_dir(m);
	unsigned text = (unsigned)prng_below(&m->m_rng, POOL);
	bool rmdir = prng_chance(&m->m_rng, 1, 3);
	struct name *n = find(m, dir, text);
	struct inode *d = open_node(m, dir);
	int want = 0;
	int err;

	if (n == NULL)
		want = -ENOENT;
	else if (rmdir && !is_dir(m, n->m_node))
		want = -ENOTDIR;
	else if (!rmdir && is_dir(m, n->m_node))
		want = -EISDIR;
	else if (rmdir && !is_empty(m, n->m_node))
		want = -ENOTEMPTY;
	err = rmdir ? env_rmdir(d, m->m_pool[text]) : env_unlink(d, m->m_pool[text]);
	ck_assert_int_eq(err, want);
	if (err == 0)
		drop(m, n);
	iput(d);
}

struct move {
	unsigned v_from, v_old, v_to, v_new, v_flags;
};

static int wanted(struct model *m, const struct move *v, const struct name *a, const struct name *b)
{
	bool exchange = v->v_flags == RENAME_EXCHANGE;

	if (a == NULL)
		return -ENOENT;
	if (b != NULL && v->v_flags == RENAME_NOREPLACE)
		return -EEXIST;
	if (b != NULL && a->m_node == b->m_node)
		return 0;
	if (exchange && b == NULL)
		return -ENOENT;
	if (is_dir(m, a->m_node) && is_below(m, v->v_to, a->m_node))
		return -EINVAL;
	if (b != NULL && is_dir(m, b->m_node) && is_below(m, v->v_from, b->m_node))
		return exchange ? -EINVAL : -ENOTEMPTY;
	if (b == NULL || exchange)
		return 0;
	if (is_dir(m, a->m_node) != is_dir(m, b->m_node))
		return is_dir(m, a->m_node) ? -ENOTDIR : -EISDIR;
	return is_dir(m, b->m_node) && !is_empty(m, b->m_node) ? -ENOTEMPTY : 0;
}

static void op_rename(struct model *m)
{
	static const unsigned flags[] = {0, 0, RENAME_EXCHANGE, RENAME_NOREPLACE};
	struct move v = {.v_from = any_dir(m), .v_to = any_dir(m)};
	struct name *a, *b;
	struct inode *from, *to;
	int err;

	v.v_old = (unsigned)prng_below(&m->m_rng, POOL);
	v.v_new = (unsigned)prng_below(&m->m_rng, POOL);
	v.v_flags = flags[prng_below(&m->m_rng, 4)];
	a = find(m, v.v_from, v.v_old);
	b = find(m, v.v_to, v.v_new);
	from = open_node(m, v.v_from);
	to = open_node(m, v.v_to);
	err = env_rename(from, m->m_pool[v.v_old], to, m->m_pool[v.v_new], v.v_flags);
	ck_assert_int_eq(err, wanted(m, &v, a, b));
	iput(from);
	iput(to);
	if (err != 0 || (b != NULL && a->m_node == b->m_node))
		return;
	if (v.v_flags == RENAME_EXCHANGE) {
		unsigned node = a->m_node;

		a->m_node = b->m_node;
		b->m_node = node;
		return;
	}
	if (b != NULL)
		drop(m, b);
	a->m_dir = v.v_to;
	a->m_text = v.v_new;
}

/* ---- Comparing ---- */

static void check_dir(struct model *m, unsigned dir)
{
	struct inode *d = open_node(m, dir);
	struct env_list l;
	unsigned want = 0;

	ck_assert_int_eq(env_list_all(d, 50, &l), 0);
	for (unsigned i = 0; i < MAX_NAMES; i++) {
		const struct name *n = &m->m_name[i];
		unsigned hits = 0;

		if (!n->m_used || n->m_dir != dir)
			continue;
		want++;
		for (unsigned j = 0; j < l.l_count; j++)
			if (strcmp(l.l_name[j], m->m_pool[n->m_text]) == 0) {
				ck_assert_uint_eq(l.l_ino[j], m->m_node[n->m_node].n_ino);
				hits++;
			}
		ck_assert_uint_eq(hits, 1);
	}
	/* "lost+found" is in the root and not in the model. */
	ck_assert_uint_eq(l.l_count, want + 2 + (dir == 0 ? 1 : 0));
	env_list_free(&l);
	iput(d);
}

static void check_all(struct model *m)
{
	for (unsigned i = 0; i < m->m_nodes; i++)
		if (is_dir(m, i))
			check_dir(m, i);
}

static void run(const char *mke2fs_args, unsigned steps, uint64_t seed)
{
	struct model *m = calloc(1, sizeof(*m));

	prng_seed(&m->m_rng, prng_seed_from_env(seed));
	env_open(&m->m_env, mke2fs_args, 16 * MIB);
	new_node(m, KIND_DIR, EXT4_ROOT_INO);
	for (unsigned i = 0; i < POOL; i++) {
		memset(m->m_pool[i], 'a' + (int)(i % 26), 1 + i * 2);
		snprintf(m->m_pool[i] + 1 + i * 2, 16, "%u", i);
	}
	for (unsigned i = 0; i < steps; i++) {
		static void (*const ops[])(struct model *) = {op_make,	  op_make,  op_make,
							      op_symlink, op_link,  op_remove,
							      op_rename,  op_rename};

		ops[prng_below(&m->m_rng, 8)](m);
		if (i % 400 == 399) {
			check_all(m);
			env_remount(&m->m_env);
			check_all(m);
		}
	}
	check_all(m);
	env_close(&m->m_env);
	free(m);
}

START_TEST(the_tree_is_what_the_model_says)
{
	run("-b 1024", 3000, 1);
	run("-b 4096", 2000, 2);
	run("-b 1024 -O ^dir_index", 1500, 3);
	run("-b 1024 -O ^metadata_csum,^extent,^64bit", 1500, 4);
	run("-b 2048 -I 128", 1500, 5);
	run("-b 1024 -O ^has_journal", 1500, 6);
	run("-b 1024 -O orphan_file,large_dir", 1500, 7);
	run("-b 1024 -O ^filetype,uninit_bg,^metadata_csum", 1500, 8);
}
END_TEST

int main(void)
{
	return RUN_TESTS("namespace/model", the_tree_is_what_the_model_says);
}
