/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "tests/unit/writeback/wb_fixture.h"

#define NAMES_MAX 256

struct seen {
	char name[NAMES_MAX][64];
	uint64_t value[NAMES_MAX];
	unsigned n;
};

static void collect(void *arg, const char *name, uint64_t v)
{
	struct seen *s = arg;

	ck_assert_uint_lt(s->n, NAMES_MAX);
	snprintf(s->name[s->n], 64, "%s", name);
	s->value[s->n++] = v;
}

static uint64_t value(const struct seen *s, const char *name)
{
	for (unsigned i = 0; i < s->n; i++)
		if (strcmp(s->name[i], name) == 0)
			return s->value[i];
	ck_abort_msg("no counter %s", name);
	return 0;
}

START_TEST(counters_have_unique_names_and_count)
{
	struct wf f;
	struct inode *inode;
	struct seen *s = calloc(1, sizeof(*s));

	wf_open(&f, "-t ext4 -b 4096", 32 * MIB, 1);
	inode = wf_file(&f, 0);
	wf_fill(inode, 1, 0, 16 * PAGE, PAGE);
	wb_print_stats(f.sb, collect, s);
	ck_assert_uint_eq(value(s, "wb.nr_dirty"), 16);
	ck_assert_uint_eq(value(s, "wb.written_bytes"), 16 * PAGE);
	for (unsigned i = 0; i < s->n; i++)
		for (unsigned k = i + 1; k < s->n; k++)
			ck_assert_str_ne(s->name[i], s->name[k]);
	ck_assert_int_eq(ext4_sync_file(inode, false), 0);
	s->n = 0;
	wb_print_stats(f.sb, collect, s);
	ck_assert_uint_eq(value(s, "wb.nr_dirty"), 0);
	ck_assert_uint_eq(value(s, "wb.nr_written"), 16);
	ck_assert_uint_eq(value(s, "wb.pages_mapped"), 16);
	ck_assert_uint_eq(value(s, "wb.fsyncs"), 1);
	ck_assert_uint_eq(value(s, "wb.request_bytes_mean"), 16 * PAGE);
	iput(inode);
	wf_close(&f);
	free(s);
}
END_TEST

static char *text_of(struct super_block *sb, void (*print)(struct super_block *sb, FILE *out))
{
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	print(sb, out);
	fclose(out);
	return text;
}

START_TEST(texts_name_what_the_kernel_names)
{
	static const char *const bdi[] = {
		"BdiWriteback:",     "BdiReclaimable:", "BdiDirtyThresh:", "DirtyThresh:",
		"BackgroundThresh:", "BdiDirtied:",	"BdiWritten:",	   "BdiWriteBandwidth:",
		"b_dirty:",	     "b_io:",		"b_more_io:",	   "b_dirty_time:"};
	struct wf f;
	char *text;

	wf_open(&f, "-t ext4 -b 4096", 32 * MIB, 1);
	text = text_of(f.sb, wb_print_bdi);
	for (size_t i = 0; i < sizeof(bdi) / sizeof(bdi[0]); i++)
		ck_assert_ptr_nonnull(strstr(text, bdi[i]));
	free(text);
	text = text_of(f.sb, wb_print_writeback);
	ck_assert_ptr_nonnull(strstr(text, "pages_premap"));
	ck_assert_ptr_nonnull(strstr(text, "sync_all_pages"));
	free(text);
	text = text_of(f.sb, wb_print_throttle);
	ck_assert_ptr_nonnull(strstr(text, "global_reads"));
	ck_assert_ptr_nonnull(strstr(text, "dirty_threshold"));
	free(text);
	wf_close(&f);
}
END_TEST

/* A stripe of 16 blocks: a file of 40 begins on a boundary and leaves one part. */
START_TEST(stripes_are_counted)
{
	struct wf f;
	struct inode *inode;
	char *text;

	wf_open(&f, "-t ext4 -b 4096 -E stride=4,stripe_width=16", 64 * MIB, 1);
	inode = wf_file(&f, 0);
	wf_fill(inode, 1, 0, 40 * PAGE, PAGE);
	ck_assert_int_eq(ext4_sync_file(inode, false), 0);
	text = text_of(f.sb, wb_print_stripes);
	ck_assert_ptr_nonnull(strstr(text, "stripe_blocks            16\n"));
	ck_assert_ptr_nonnull(strstr(text, "full                     2\n"));
	ck_assert_ptr_nonnull(strstr(text, "partial                  1\n"));
	ck_assert_ptr_nonnull(strstr(text, "read_modify_write        1\n"));
	ck_assert_ptr_null(strstr(text, "aligned_start            0\n"));
	free(text);
	iput(inode);
	wf_close(&f);
}
END_TEST

int main(void)
{
	return RUN_TESTS("writeback/stats", counters_have_unique_names_and_count,
			 texts_name_what_the_kernel_names, stripes_are_counted);
}
