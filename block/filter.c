/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * filter.c - the stack of filters between the file system and the device, from -o blk=.
 *
 * The value is NAME[:ARG]...[+NAME[:ARG]...]..., the first nearest to the file system. All of it
 * is parsed before anything is opened. Filters are then opened from the last to the first, and
 * if one fails those already opened are detached from the device and closed.
 *
 * Invariants: (1) on failure the device that was given is untouched and open.
 * Locking: none; before the device is used.
 */
#include "block/filter.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/assert.h"
#include "util/err.h"
#include "util/log.h"

#define FILTERS_MAX 8

struct filter_kind {
	const char *fk_name;
	filter_open_fn *fk_open;
	bool fk_path; /* the argument is a path: no further colons are looked at */
};

static const struct filter_kind kinds[] = {
	{"log", log_filter_open, true},
	{"fault", fault_filter_open, false},
	{"model", model_filter_open, false},
	{"raid5", raid5_filter_open, false},
};

#define KINDS (sizeof(kinds) / sizeof(kinds[0]))

struct filter_spec {
	unsigned fs_n;
	const struct filter_kind *fs_kind[FILTERS_MAX];
	struct filter_args fs_args[FILTERS_MAX];
};

/* ---- Arguments ---- */

int filter_bad_argument(const struct filter_args *args, unsigned i)
{
	bool word = args->fa_value[i] == NULL;

	log_err("blk=%s: bad argument \"%s%s%s\"", args->fa_name, args->fa_key[i], word ? "" : "=",
		word ? "" : args->fa_value[i]);
	return -EINVAL;
}

static bool suffix_shift(const char *suffix, unsigned *shift)
{
	static const char letters[] = "kmg";
	const char *at;

	*shift = 0;
	if (suffix[0] == '\0')
		return true;
	at = strchr(letters, suffix[0] | 0x20);
	if (at == NULL || suffix[1] != '\0')
		return false;
	*shift = 10 * (unsigned)(at - letters + 1);
	return true;
}

int filter_parse_number(const struct filter_args *args, unsigned i, uint64_t *value)
{
	const char *text = args->fa_value[i];
	char *end;
	unsigned shift;

	if (text == NULL || text[0] < '0' || text[0] > '9')
		return filter_bad_argument(args, i);
	errno = 0;
	*value = strtoull(text, &end, 10);
	if (errno != 0 || !suffix_shift(end, &shift) || *value > UINT64_MAX >> shift)
		return filter_bad_argument(args, i);
	*value <<= shift;
	return 0;
}

/* ---- Parsing ---- */

static const struct filter_kind *find_kind(const char *name)
{
	for (size_t i = 0; i < KINDS; i++)
		if (strcmp(kinds[i].fk_name, name) == 0)
			return &kinds[i];
	return NULL;
}

static int add_argument(struct filter_args *fa, char *text)
{
	char *equals = strchr(text, '=');

	if (fa->fa_n == FILTER_ARGS_MAX) {
		log_err("blk=%s: more than %d arguments", fa->fa_name, FILTER_ARGS_MAX);
		return -EINVAL;
	}
	fa->fa_key[fa->fa_n] = text;
	fa->fa_value[fa->fa_n] = NULL;
	if (equals != NULL) {
		*equals = '\0';
		fa->fa_value[fa->fa_n] = equals + 1;
	}
	fa->fa_n++;
	return 0;
}

static int split_arguments(struct filter_args *fa, char *rest, bool path)
{
	int err = 0;

	if (path) {
		fa->fa_key[0] = "file";
		fa->fa_value[0] = rest;
		fa->fa_n = 1;
		return 0;
	}
	while (err == 0 && rest != NULL) {
		char *text = strsep(&rest, ":");

		err = add_argument(fa, text);
	}
	return err;
}

static int parse_one(struct filter_spec *fs, const char *text, size_t len)
{
	struct filter_args *fa = &fs->fs_args[fs->fs_n];
	char *colon;

	if (len >= FILTER_TEXT_BYTES) {
		log_err("blk=: a filter's text is longer than %d bytes", FILTER_TEXT_BYTES - 1);
		return -EINVAL;
	}
	memcpy(fa->fa_text, text, len);
	fa->fa_text[len] = '\0';
	fa->fa_name = fa->fa_text;
	fa->fa_n = 0;
	colon = strchr(fa->fa_text, ':');
	if (colon != NULL)
		*colon = '\0';
	fs->fs_kind[fs->fs_n] = find_kind(fa->fa_name);
	if (fs->fs_kind[fs->fs_n] == NULL) {
		log_err("blk=: unknown filter \"%s\" (known: log, fault, model, raid5)",
			fa->fa_name);
		return -EINVAL;
	}
	if (colon == NULL)
		return 0;
	return split_arguments(fa, colon + 1, fs->fs_kind[fs->fs_n]->fk_path);
}

static int parse_spec(struct filter_spec *fs, const char *spec)
{
	while (true) {
		size_t len = strcspn(spec, "+,");
		int err;

		if (fs->fs_n == FILTERS_MAX) {
			log_err("blk=: more than %d filters", FILTERS_MAX);
			return -EINVAL;
		}
		err = parse_one(fs, spec, len);
		if (err != 0)
			return err;
		fs->fs_n++;
		if (spec[len] != '+')
			return 0;
		spec += len + 1;
	}
}

/* ---- Stacking ---- */

/* Close the filters from top down to bd, but not bd. */
static void unstack(struct blkdev *top, const struct blkdev *bd)
{
	struct blkdev *last = top;

	if (top == bd)
		return;
	while (last->bd_lower != bd)
		last = last->bd_lower;
	last->bd_lower = NULL;
	top->bd_ops->close(top);
}

struct blkdev *blk_stack_filters(struct blkdev *bd, const char *spec)
{
	struct filter_spec *fs = calloc(1, sizeof(*fs));
	struct blkdev *top = bd;
	int err;

	if (fs == NULL)
		return ERR_PTR(-ENOMEM);
	err = parse_spec(fs, spec);
	for (unsigned i = fs->fs_n; err == 0 && i > 0; i--) {
		struct blkdev *upper = fs->fs_kind[i - 1]->fk_open(top, &fs->fs_args[i - 1]);

		if (IS_ERR(upper)) {
			err = PTR_ERR(upper);
			unstack(top, bd);
			break;
		}
		top = upper;
	}
	free(fs);
	return err != 0 ? ERR_PTR(err) : top;
}

void filter_init(struct blkdev *bd, struct blkdev *lower, const struct blkdev_ops *ops,
		 const char *name, void *priv)
{
	bd->bd_ops = ops;
	bd->bd_size_bytes = lower->bd_size_bytes;
	bd->bd_logical_block_bytes = lower->bd_logical_block_bytes;
	bd->bd_dma_align = lower->bd_dma_align;
	bd->bd_max_bytes = lower->bd_max_bytes;
	bd->bd_read_only = lower->bd_read_only;
	bd->bd_discard = lower->bd_discard;
	bd->bd_dev = lower->bd_dev;
	bd->bd_name = name;
	bd->bd_lower = lower;
	bd->bd_priv = priv;
}

void filter_close_lower(struct blkdev *bd)
{
	if (bd->bd_lower != NULL)
		bd->bd_lower->bd_ops->close(bd->bd_lower);
}
