/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * oracle.c - the history of a workload, and what a crash may leave of it.
 *
 * Every operation is a record; the state after operation j is found by replaying records 1..j into a `struct world`. A
 * verdict replays up to the newest acknowledged operation, then tries each later world for the names, and collects for each file the
 * byte values and sizes it had since its own acknowledgement.
 *
 * Invariants: (1) record i has number i, from 1; (2) a mark remembers the last operation it covers; (3) ids are never reused.
 */
#include <stdlib.h>
#include <string.h>

#include "tests/crash/oracle.h"
#include "util/assert.h"

enum op_type {
	OP_CREATE,
	OP_LINK,
	OP_UNLINK,
	OP_RENAME,
	OP_EXCHANGE,
	OP_WRITE,
	OP_TRUNCATE,
	OP_ZERO,
	OP_XATTR
};

#define MAX_NAME 64
#define MAX_OBJECTS 4096
#define MAX_NAMES 4096

struct record {
	enum op_type r_type;
	enum oracle_kind r_kind;
	uint32_t r_id, r_dir, r_dir2, r_value;
	char r_name[MAX_NAME], r_name2[MAX_NAME];
	uint64_t r_pos, r_len, r_size;
	uint8_t *r_data;
};

enum mark_type { MARK_OBJECT, MARK_DATA, MARK_RANGE, MARK_ALL };
struct mark {
	enum mark_type m_type;
	uint32_t m_id;
	uint32_t m_op;	       /* operations up to this one are covered */
	uint64_t m_pos, m_end; /* MARK_RANGE */
};

struct name {
	uint32_t n_dir, n_id;
	char n_name[MAX_NAME];
};

struct object {
	enum oracle_kind o_kind;
	uint32_t o_nlink;
	uint32_t o_xattr;
	uint32_t
		o_last_name_op; /* last operation on its names, attributes or, for a folder, entries */
};

struct world {
	struct name w_names[MAX_NAMES];
	unsigned w_nr_names;
	struct object w_objects[MAX_OBJECTS];
};

struct oracle {
	uint32_t o_block_bytes;
	struct record *o_records;
	uint32_t o_nr, o_room;
	struct mark *o_marks;
	uint32_t o_nr_marks, o_marks_room;
	uint32_t o_next_id;
	struct world o_now;
	struct world o_try;		 /* scratch of the verdict */
	uint8_t *o_content[MAX_OBJECTS]; /* now; made when first written */
	uint64_t o_size[MAX_OBJECTS];
	uint64_t o_max_size[MAX_OBJECTS]; /* ever */
	uint32_t o_promised[MAX_OBJECTS]; /* scratch of the verdict, see renames_over() */
};

struct oracle *oracle_new(uint32_t block_bytes)
{
	struct oracle *o = calloc(1, sizeof(*o));

	ASSERT(o);
	o->o_block_bytes = block_bytes;
	o->o_next_id = 1;
	o->o_now.w_objects[ORACLE_ROOT].o_kind = OK_DIR;
	o->o_now.w_objects[ORACLE_ROOT].o_nlink = 2;
	return o;
}

void oracle_free(struct oracle *o)
{
	for (uint32_t i = 0; i < o->o_nr; i++)
		free(o->o_records[i].r_data);
	for (unsigned i = 0; i < MAX_OBJECTS; i++)
		free(o->o_content[i]);
	free(o->o_records);
	free(o->o_marks);
	free(o);
}

/* ---- Worlds ---- */

static struct name *find_name(struct world *w, uint32_t dir, const char *name)
{
	for (unsigned i = 0; i < w->w_nr_names; i++) {
		if (w->w_names[i].n_dir == dir && !strcmp(w->w_names[i].n_name, name))
			return &w->w_names[i];
	}
	return NULL;
}

static void add_name(struct world *w, uint32_t dir, const char *name, uint32_t id)
{
	struct name *n = &w->w_names[w->w_nr_names++];

	ASSERT_CMP(w->w_nr_names, <=, (unsigned)MAX_NAMES);
	n->n_dir = dir;
	n->n_id = id;
	snprintf(n->n_name, sizeof(n->n_name), "%s", name);
}

static void drop_name(struct world *w, struct name *n)
{
	struct object *o = &w->w_objects[n->n_id];

	if (o->o_kind == OK_DIR) {
		o->o_nlink = 0;
		w->w_objects[n->n_dir].o_nlink--;
	} else {
		o->o_nlink--;
	}
	*n = w->w_names[--w->w_nr_names];
}

static void move_parent(struct world *w, uint32_t id, uint32_t from, uint32_t to)
{
	if (w->w_objects[id].o_kind != OK_DIR)
		return;
	w->w_objects[from].o_nlink--;
	w->w_objects[to].o_nlink++;
}

static void apply_rename(struct world *w, const struct record *r, uint32_t op)
{
	struct name *from = find_name(w, r->r_dir, r->r_name), *to;
	uint32_t id;

	ASSERT(from);
	id = from->n_id;
	to = find_name(w, r->r_dir2, r->r_name2);
	if (to && to->n_id == id)
		return;
	if (to) {
		w->w_objects[to->n_id].o_last_name_op = op;
		drop_name(w, to);
	}
	from = find_name(w, r->r_dir, r->r_name);
	ASSERT(from);
	move_parent(w, id, r->r_dir, r->r_dir2);
	from->n_dir = r->r_dir2;
	snprintf(from->n_name, sizeof(from->n_name), "%s", r->r_name2);
	w->w_objects[id].o_last_name_op = op;
}

static void apply_exchange(struct world *w, const struct record *r, uint32_t op)
{
	struct name *a = find_name(w, r->r_dir, r->r_name);
	struct name *b = find_name(w, r->r_dir2, r->r_name2);
	uint32_t id;

	ASSERT(a);
	ASSERT(b);
	id = a->n_id;
	move_parent(w, a->n_id, r->r_dir, r->r_dir2);
	move_parent(w, b->n_id, r->r_dir2, r->r_dir);
	a->n_id = b->n_id;
	b->n_id = id;
	w->w_objects[a->n_id].o_last_name_op = op;
	w->w_objects[b->n_id].o_last_name_op = op;
}

/* Names and attributes only. */
static void apply_names(struct world *w, const struct record *r, uint32_t op)
{
	struct object *obj = &w->w_objects[r->r_id];
	struct name *n;

	switch (r->r_type) {
	case OP_CREATE:
		add_name(w, r->r_dir, r->r_name, r->r_id);
		obj->o_kind = r->r_kind;
		obj->o_nlink = r->r_kind == OK_DIR ? 2 : 1;
		if (r->r_kind == OK_DIR)
			w->w_objects[r->r_dir].o_nlink++;
		break;
	case OP_LINK:
		add_name(w, r->r_dir, r->r_name, r->r_id);
		obj->o_nlink++;
		break;
	case OP_UNLINK:
		n = find_name(w, r->r_dir, r->r_name);
		ASSERT(n);
		obj = &w->w_objects[n->n_id];
		drop_name(w, n);
		break;
	case OP_RENAME:
		apply_rename(w, r, op);
		w->w_objects[r->r_dir2].o_last_name_op = op;
		w->w_objects[r->r_dir].o_last_name_op = op;
		return;
	case OP_EXCHANGE:
		apply_exchange(w, r, op);
		w->w_objects[r->r_dir2].o_last_name_op = op;
		w->w_objects[r->r_dir].o_last_name_op = op;
		return;
	case OP_XATTR:
		obj->o_xattr = r->r_value;
		break;
	default:
		return;
	}
	obj->o_last_name_op = op;
	if (r->r_type != OP_XATTR)
		w->w_objects[r->r_dir].o_last_name_op = op;
}

/* Content: into `data` (ORACLE_MAX_FILE bytes) and *size. Returns the changed range. */
static void apply_content(const struct record *r, uint8_t *data, uint64_t *size, uint64_t *from,
			  uint64_t *to)
{
	*from = r->r_pos;
	*to = r->r_pos + r->r_len;
	switch (r->r_type) {
	case OP_WRITE:
		memcpy(data + r->r_pos, r->r_data, r->r_len);
		if (*to > *size)
			*size = *to;
		break;
	case OP_ZERO:
		memset(data + r->r_pos, 0, r->r_len);
		if (r->r_size > *size)
			*size = r->r_size;
		break;
	case OP_TRUNCATE:
		*from = r->r_size < *size ? r->r_size : *size;
		*to = r->r_size > *size ? r->r_size : *size;
		memset(data + *from, 0, *to - *from);
		*size = r->r_size;
		break;
	default:
		*from = *to = 0;
	}
}

/* ---- Reports ---- */

static struct record *new_record(struct oracle *o, enum op_type type)
{
	struct record *r;

	if (o->o_nr == o->o_room) {
		o->o_room = o->o_room ? 2 * o->o_room : 256;
		o->o_records = realloc(o->o_records, o->o_room * sizeof(*o->o_records));
		ASSERT(o->o_records);
	}
	r = &o->o_records[o->o_nr++];
	memset(r, 0, sizeof(*r));
	r->r_type = type;
	return r;
}

static uint32_t commit_record(struct oracle *o, struct record *r)
{
	uint64_t from, to;

	apply_names(&o->o_now, r, o->o_nr);
	if (r->r_type == OP_WRITE || r->r_type == OP_TRUNCATE || r->r_type == OP_ZERO) {
		if (!o->o_content[r->r_id])
			o->o_content[r->r_id] = calloc(1, ORACLE_MAX_FILE);
		ASSERT(o->o_content[r->r_id]);
		apply_content(r, o->o_content[r->r_id], &o->o_size[r->r_id], &from, &to);
		if (o->o_size[r->r_id] > o->o_max_size[r->r_id])
			o->o_max_size[r->r_id] = o->o_size[r->r_id];
	}
	return o->o_nr;
}

static void set_name(char *to, const char *name)
{
	ASSERT_CMP(strlen(name), <, (size_t)MAX_NAME);
	snprintf(to, MAX_NAME, "%s", name);
}

uint32_t oracle_next_id(const struct oracle *o)
{
	return o->o_next_id;
}

uint32_t oracle_create(struct oracle *o, uint32_t dir, const char *name, enum oracle_kind kind)
{
	struct record *r = new_record(o, OP_CREATE);

	r->r_id = o->o_next_id++;
	ASSERT_CMP(r->r_id, <, (uint32_t)MAX_OBJECTS);
	r->r_dir = dir;
	r->r_kind = kind;
	set_name(r->r_name, name);
	return commit_record(o, r);
}

uint32_t oracle_link(struct oracle *o, uint32_t id, uint32_t dir, const char *name)
{
	struct record *r = new_record(o, OP_LINK);

	r->r_id = id;
	r->r_dir = dir;
	set_name(r->r_name, name);
	return commit_record(o, r);
}

uint32_t oracle_unlink(struct oracle *o, uint32_t dir, const char *name)
{
	struct record *r = new_record(o, OP_UNLINK);

	r->r_dir = dir;
	set_name(r->r_name, name);
	return commit_record(o, r);
}

uint32_t oracle_rename(struct oracle *o, uint32_t old_dir, const char *old_name, uint32_t new_dir,
		       const char *new_name, bool exchange)
{
	struct record *r = new_record(o, exchange ? OP_EXCHANGE : OP_RENAME);

	r->r_dir = old_dir;
	r->r_dir2 = new_dir;
	set_name(r->r_name, old_name);
	set_name(r->r_name2, new_name);
	return commit_record(o, r);
}

uint32_t oracle_write(struct oracle *o, uint32_t id, uint64_t pos, const uint8_t *data,
		      uint64_t len)
{
	struct record *r = new_record(o, OP_WRITE);

	ASSERT_CMP(pos + len, <=, (uint64_t)ORACLE_MAX_FILE);
	r->r_id = id;
	r->r_pos = pos;
	r->r_len = len;
	r->r_data = malloc(len ? len : 1);
	ASSERT(r->r_data);
	memcpy(r->r_data, data, len);
	return commit_record(o, r);
}

uint32_t oracle_truncate(struct oracle *o, uint32_t id, uint64_t size)
{
	struct record *r = new_record(o, OP_TRUNCATE);

	ASSERT_CMP(size, <=, (uint64_t)ORACLE_MAX_FILE);
	r->r_id = id;
	r->r_size = size;
	return commit_record(o, r);
}

uint32_t oracle_zero(struct oracle *o, uint32_t id, uint64_t pos, uint64_t len, uint64_t size)
{
	struct record *r = new_record(o, OP_ZERO);

	r->r_id = id;
	r->r_pos = pos;
	r->r_len = len;
	r->r_size = size;
	return commit_record(o, r);
}

uint32_t oracle_xattr(struct oracle *o, uint32_t id, uint32_t value)
{
	struct record *r = new_record(o, OP_XATTR);

	r->r_id = id;
	r->r_value = value;
	return commit_record(o, r);
}

/* Make the present state anew from the records. */
static void rebuild(struct oracle *o, uint32_t id)
{
	uint64_t from, to;

	memset(&o->o_now, 0, sizeof(o->o_now));
	o->o_now.w_objects[ORACLE_ROOT].o_kind = OK_DIR;
	o->o_now.w_objects[ORACLE_ROOT].o_nlink = 2;
	o->o_size[id] = 0;
	if (o->o_content[id])
		memset(o->o_content[id], 0, ORACLE_MAX_FILE);
	for (uint32_t i = 0; i < o->o_nr; i++) {
		apply_names(&o->o_now, &o->o_records[i], i + 1);
		if (o->o_content[id] && o->o_records[i].r_id == id)
			apply_content(&o->o_records[i], o->o_content[id], &o->o_size[id], &from,
				      &to);
	}
}

void oracle_drop_last(struct oracle *o)
{
	struct record *r = &o->o_records[--o->o_nr];

	free(r->r_data);
	r->r_data = NULL;
	if (r->r_type == OP_CREATE)
		o->o_next_id--;
	rebuild(o, r->r_id);
}

void oracle_shorten_last(struct oracle *o, uint64_t len)
{
	struct record *r = &o->o_records[o->o_nr - 1];

	if (!len) {
		oracle_drop_last(o);
		return;
	}
	r->r_len = len;
	rebuild(o, r->r_id);
}

static uint32_t new_mark(struct oracle *o, enum mark_type type, uint32_t id)
{
	struct mark *m;

	if (o->o_nr_marks == o->o_marks_room) {
		o->o_marks_room = o->o_marks_room ? 2 * o->o_marks_room : 64;
		o->o_marks = realloc(o->o_marks, o->o_marks_room * sizeof(*o->o_marks));
		ASSERT(o->o_marks);
	}
	m = &o->o_marks[o->o_nr_marks++];
	m->m_type = type;
	m->m_id = id;
	m->m_op = o->o_nr;
	m->m_pos = m->m_end = 0;
	return o->o_nr_marks;
}

uint32_t oracle_ack_object(struct oracle *o, uint32_t id)
{
	return new_mark(o, MARK_OBJECT, id);
}

uint32_t oracle_ack_object_at(struct oracle *o, uint32_t id, uint32_t op)
{
	uint32_t number = new_mark(o, MARK_OBJECT, id);

	if (number > 1)
		ASSERT_CMP(o->o_marks[number - 2].m_op, <=, op);
	o->o_marks[number - 1].m_op = op;
	return number;
}

uint32_t oracle_ack_data(struct oracle *o, uint32_t id)
{
	return new_mark(o, MARK_DATA, id);
}

uint32_t oracle_ack_range(struct oracle *o, uint32_t id, uint64_t pos, uint64_t len)
{
	uint32_t number = new_mark(o, MARK_RANGE, id);

	o->o_marks[number - 1].m_pos = pos;
	o->o_marks[number - 1].m_end = pos + len;
	return number;
}

uint32_t oracle_ack_all(struct oracle *o)
{
	return new_mark(o, MARK_ALL, 0);
}

uint32_t oracle_now(const struct oracle *o)
{
	return o->o_nr;
}

const uint8_t *oracle_content(struct oracle *o, uint32_t id, uint64_t *size)
{
	*size = o->o_size[id];
	return o->o_content[id];
}

uint32_t oracle_lookup(const struct oracle *o, uint32_t dir, const char *name)
{
	const struct name *n = find_name((struct world *)(uintptr_t)&o->o_now, dir, name);

	return n ? n->n_id : UINT32_MAX;
}

/* ---- The verdict ---- */

static void world_start(struct world *w)
{
	memset(w, 0, sizeof(*w));
	w->w_objects[ORACLE_ROOT].o_kind = OK_DIR;
	w->w_objects[ORACLE_ROOT].o_nlink = 2;
}

/* NULL if the found tree is this world, else what differs. */
static const char *same_world(struct world *w, const struct found *found, unsigned nr)
{
	if (nr != w->w_nr_names)
		return "other number of names";
	for (unsigned i = 0; i < nr; i++) {
		struct name *n = find_name(w, found[i].f_dir, found[i].f_name);
		struct object *o;

		if (!n || n->n_id != found[i].f_id)
			return "a name stands for another object";
		o = &w->w_objects[n->n_id];
		if (o->o_kind != found[i].f_kind || o->o_nlink != found[i].f_nlink)
			return "kind or link count";
		if (o->o_xattr != found[i].f_xattr)
			return "extended attribute";
		if (o->o_kind == OK_SYMLINK && !found[i].f_target_ok)
			return "symlink target";
	}
	return NULL;
}

/* The newest operation whose effect on names is acknowledged by marks 1..last_mark. */
static uint32_t acked_names(struct oracle *o, uint32_t last_mark)
{
	struct world *w = &o->o_try;
	uint32_t acked = 0, op = 0;

	world_start(w);
	for (uint32_t m = 0; m < last_mark; m++) {
		const struct mark *mark = &o->o_marks[m];
		uint32_t covered = 0;

		for (; op < mark->m_op; op++)
			apply_names(w, &o->o_records[op], op + 1);
		if (mark->m_type == MARK_ALL)
			covered = mark->m_op;
		else if (mark->m_type == MARK_OBJECT)
			covered = w->w_objects[mark->m_id].o_last_name_op;
		if (covered > acked)
			acked = covered;
	}
	return acked;
}

/* The newest operation on the content of id that is acknowledged by a mark. */
static uint32_t acked_content(const struct oracle *o, uint32_t id, uint32_t last_mark)
{
	uint32_t acked = 0;

	for (uint32_t m = 0; m < last_mark; m++) {
		const struct mark *mark = &o->o_marks[m];

		if (mark->m_type != MARK_ALL && (mark->m_type == MARK_RANGE || mark->m_id != id))
			continue;
		if (mark->m_op > acked)
			acked = mark->m_op;
	}
	return acked;
}

/* What each operation made of byte p (and of the size), for the report of a failure. */
static void explain(const struct oracle *o, uint32_t id, uint64_t p, uint32_t last_op, FILE *out)
{
	static const char *const names[] = {"create", "link",	  "unlink", "rename", "exchange",
					    "write",  "truncate", "zero",   "xattr"};
	uint8_t *data = calloc(1, ORACLE_MAX_FILE);
	uint64_t size = 0, from, to;

	ASSERT(data);
	for (uint32_t i = 0; i < last_op; i++) {
		const struct record *r = &o->o_records[i];

		if (r->r_id != id)
			continue;
		apply_content(r, data, &size, &from, &to);
		fprintf(out, "  %u: %s [%llu, %llu) size %llu%s byte %02x\n", i + 1,
			names[r->r_type], (unsigned long long)from, (unsigned long long)to,
			(unsigned long long)size, p >= from && p < to ? " *" : "", data[p]);
	}
	free(data);
}

/* What a file may be found to be: built up operation by operation. */
struct allowed {
	const struct found *a_found;
	uint8_t *a_data; /* content after the operations so far */
	uint64_t a_size;
	uint8_t *a_ok; /* for each byte: what was found is allowed */
	bool a_size_ok;
};

static void allow(struct allowed *a, uint64_t from, uint64_t to)
{
	const struct found *f = a->a_found;

	for (uint64_t p = from; p < to && p < f->f_size; p++)
		a->a_ok[p] |= f->f_data[p] == a->a_data[p];
}

static void allow_operation(struct allowed *a, const struct record *r, uint32_t block_bytes)
{
	uint64_t found = a->a_found->f_size, before = a->a_size, from, to;

	apply_content(r, a->a_data, &a->a_size, &from, &to);
	/* A file that grows may be found at any length on the way; one that shrinks only before or after. */
	a->a_size_ok |= found == a->a_size || (found > before && found < a->a_size);
	if (a->a_size < before) {
		/* The zeroed tail of the new last block (the bytes beyond the size are 0 in a_data). */
		to = (a->a_size + block_bytes - 1) / block_bytes * block_bytes;
		allow(a, a->a_size, to < before ? to : before);
		return;
	}
	allow(a, from, to);
	/* Between the old end and a write beyond it there are zeros. */
	allow(a, before, a->a_size);
}

/* The range is durable as it is now. */
static void demand_range(struct allowed *a, const struct mark *mark)
{
	const struct found *f = a->a_found;
	uint64_t end = mark->m_end < a->a_size ? mark->m_end : a->a_size;

	if (f->f_size < end)
		a->a_size_ok = false;
	for (uint64_t p = mark->m_pos; p < end && p < f->f_size; p++)
		a->a_ok[p] = f->f_data[p] == a->a_data[p];
}

static void collect_allowed(struct oracle *o, struct allowed *a, uint32_t acked, uint32_t last_op,
			    uint32_t last_mark)
{
	const struct found *f = a->a_found;
	uint64_t from, to;
	uint32_t m = 0;

	for (uint32_t i = 0; i < acked; i++) {
		if (o->o_records[i].r_id == f->f_id)
			apply_content(&o->o_records[i], a->a_data, &a->a_size, &from, &to);
	}
	a->a_size_ok = f->f_size == a->a_size;
	allow(a, 0, a->a_size);
	for (uint32_t i = acked; i < last_op; i++) {
		if (o->o_records[i].r_id == f->f_id)
			allow_operation(a, &o->o_records[i], o->o_block_bytes);
		for (; m < last_mark && o->o_marks[m].m_op <= i + 1; m++) {
			const struct mark *mark = &o->o_marks[m];

			if (mark->m_type == MARK_RANGE && mark->m_id == f->f_id &&
			    mark->m_op == i + 1)
				demand_range(a, mark);
		}
	}
}

static bool content_allowed(struct oracle *o, const struct found *f, uint32_t acked,
			    uint32_t last_op, uint32_t last_mark, FILE *out)
{
	uint64_t room = f->f_size > o->o_max_size[f->f_id] ? f->f_size : o->o_max_size[f->f_id];
	struct allowed a = {
		.a_found = f,
		.a_data = calloc(1, room + 1),
		.a_ok = calloc(1, room + 1),
	};
	bool result = true;

	ASSERT(a.a_data && a.a_ok);
	collect_allowed(o, &a, acked, last_op, last_mark);
	if (!a.a_size_ok) {
		fprintf(out, "object %u has size %llu, now %llu, acknowledged operation %u\n",
			f->f_id, (unsigned long long)f->f_size, (unsigned long long)a.a_size,
			acked);
		explain(o, f->f_id, 0, last_op, out);
		result = false;
	}
	for (uint64_t p = 0; result && p < f->f_size; p++) {
		if (a.a_ok[p])
			continue;
		fprintf(out,
			"object %u byte %llu is %02x (now %02x; size %llu), acknowledged operation %u\n",
			f->f_id, (unsigned long long)p, f->f_data[p], a.a_data[p],
			(unsigned long long)f->f_size, acked);
		explain(o, f->f_id, p, last_op, out);
		result = false;
	}
	free(a.a_data);
	free(a.a_ok);
	return result;
}

/*
 * A rename over an existing file that is in the recovered tree promises the content that its source had then: o_promised[id] is the newest such operation for id.
 */
static void renames_over(struct oracle *o, uint32_t names_op)
{
	struct world *w = &o->o_try;

	world_start(w);
	memset(o->o_promised, 0, sizeof(o->o_promised));
	for (uint32_t i = 0; i < names_op; i++) {
		const struct record *r = &o->o_records[i];

		if (r->r_type == OP_RENAME) {
			struct name *from = find_name(w, r->r_dir, r->r_name);
			struct name *to = find_name(w, r->r_dir2, r->r_name2);

			if (from && to && from->n_id != to->n_id)
				o->o_promised[from->n_id] = i + 1;
		}
		apply_names(w, r, i + 1);
	}
}

bool oracle_allows(struct oracle *o, uint32_t last_op, uint32_t last_mark,
		   const struct found *found, unsigned nr_found, FILE *out)
{
	uint32_t acked = acked_names(o, last_mark), names_op = UINT32_MAX;
	struct world *w = &o->o_try;
	const char *why = "nothing acknowledged fits", *last_why = NULL;

	world_start(w);
	for (uint32_t i = 0; i <= last_op; i++) {
		if (i)
			apply_names(w, &o->o_records[i - 1], i);
		if (i < acked)
			continue;
		last_why = same_world(w, found, nr_found);
		if (!last_why) {
			names_op = i;
			break;
		}
		why = last_why;
	}
	if (names_op == UINT32_MAX) {
		fprintf(out, "the tree of %u names is none of those after operations %u..%u: %s\n",
			nr_found, acked, last_op, why);
		return false;
	}
	renames_over(o, names_op);
	for (unsigned i = 0; i < nr_found; i++) {
		uint32_t data_acked = acked_content(o, found[i].f_id, last_mark);
		uint32_t renamed = o->o_promised[found[i].f_id];

		if (renamed > data_acked)
			data_acked = renamed;
		if (found[i].f_kind == OK_FILE &&
		    !content_allowed(o, &found[i], data_acked, last_op, last_mark, out))
			return false;
	}
	return true;
}
