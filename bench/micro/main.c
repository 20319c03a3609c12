/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * main.c - the micro benchmarks: what one operation of a core part costs at a thousand, ten thousand, ... objects.
 *
 *   micro [CASE...] [--sizes N,N,... | --max N] [--callgrind] [--check RATIO] [--json FILE] [--list]
 *
 * Each case runs at each size in a process of its own and reports its sections. With --callgrind every section
 * is run once more under valgrind, which counts instructions: the same in every run, whatever else the machine
 * does. `growth` is the cost of an operation against that at the size before, scaled to a tenfold size: 1 is
 * constant, somewhat over 1 a search tree, 10 linear. Time also grows when the caches of the processor are
 * left behind; instructions do not. --check RATIO fails when the growth from the first size to the last is more.
 *
 * The child prints a line "section ops nanoseconds" for each section.
 *
 * Invariants: (1) nothing but the sections is counted: valgrind toggles at micro_measured(), which only the
 * wanted section goes through.
 */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/lib/benchlib.h"
#include "bench/micro/micro.h"

enum { MAX_SIZES = 16, MAX_RESULTS = 1024, MAX_CASES = 16 };

struct result {
	const struct micro_case *r_case;
	char r_section[32];
	uint64_t r_n, r_ops;
	double r_ns;	       /* of an operation */
	double r_instructions; /* of an operation; 0: not counted */
	double r_growth;       /* against the size before, for a tenfold size; 0: none */
};

struct options {
	const struct micro_case *cases[MAX_CASES];
	unsigned ncases;
	uint64_t sizes[MAX_SIZES];
	unsigned nsizes;
	uint64_t max;
	bool callgrind;
	double check;
	const char *json;
	const char *run, *section; /* the child's part */
};

static const struct micro_case *const all_cases[] = {
	&micro_pages,	&micro_cache,	&micro_es,     &micro_es_clean,
	&micro_extents, &micro_mballoc, &micro_commit, &micro_names,
};
#define NCASES (sizeof(all_cases) / sizeof(all_cases[0]))

static struct result results[MAX_RESULTS];
static unsigned nresults;

/* ---- The child ---- */

void micro_measured(void (*fn)(void *), void *arg);
static void micro_unmeasured(void (*fn)(void *), void *arg);

/* valgrind counts while this function is on the stack. The two differ, or the compiler makes them one. */
__attribute__((noinline)) void micro_measured(void (*fn)(void *), void *arg)
{
	fn(arg);
	__asm__ volatile("# measured" ::: "memory");
}

__attribute__((noinline)) static void micro_unmeasured(void (*fn)(void *), void *arg)
{
	fn(arg);
	__asm__ volatile("# not measured" ::: "memory");
}

void micro_section(struct micro *m, const char *name, uint64_t ops, void (*fn)(void *arg),
		   void *arg)
{
	uint64_t start = bench_now_ns();

	if (m->m_section && strcmp(m->m_section, name) != 0) {
		micro_unmeasured(fn, arg);
		return;
	}
	micro_measured(fn, arg);
	printf("section %s %" PRIu64 " %" PRIu64 "\n", name, ops, bench_now_ns() - start);
	fflush(stdout);
	if (m->m_section)
		_exit(0);
}

static const struct micro_case *find_case(const char *name)
{
	for (size_t i = 0; i < NCASES; i++)
		if (!strcmp(all_cases[i]->mc_name, name))
			return all_cases[i];
	bench_die(0, "no case '%s'; --list shows them", name);
}

__attribute__((noreturn)) static void run_child(const struct options *o)
{
	struct micro m = {.m_n = o->sizes[0], .m_section = o->section, .m_seed = 1};

	find_case(o->run)->mc_run(&m);
	/* The file system is still mounted: it goes with the process. */
	_exit(0);
}

/* ---- The parent ---- */

static const char *self(void)
{
	static char path[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 1);

	if (n <= 0)
		bench_die(errno, "/proc/self/exe");
	return path;
}

static struct result *add_result(const struct micro_case *c, uint64_t n)
{
	struct result *r = &results[nresults];

	if (nresults == MAX_RESULTS)
		bench_die(0, "too many results");
	memset(r, 0, sizeof(*r));
	r->r_case = c;
	r->r_n = n;
	nresults++;
	return r;
}

static void run_case(const struct micro_case *c, uint64_t n)
{
	char command[PATH_MAX + 256], line[256], section[32];
	uint64_t ops, ns;
	FILE *f;

	snprintf(command, sizeof(command), "'%s' --run %s --sizes %" PRIu64, self(), c->mc_name, n);
	f = popen(command, "r");
	if (!f)
		bench_die(errno, "%s", command);
	while (fgets(line, sizeof(line), f)) {
		struct result *r;

		if (sscanf(line, "section %31s %" SCNu64 " %" SCNu64, section, &ops, &ns) != 3)
			continue;
		r = add_result(c, n);
		memcpy(r->r_section, section, sizeof(section));
		r->r_ops = ops;
		r->r_ns = (double)ns / (double)ops;
	}
	if (pclose(f))
		bench_die(0, "%s with n = %" PRIu64 " failed", c->mc_name, n);
}

static void count_instructions(struct result *r)
{
	char command[PATH_MAX + 512], line[512];
	uint64_t collected = 0;
	FILE *f;

	snprintf(command, sizeof(command),
		 "valgrind --tool=callgrind --callgrind-out-file=/dev/null --log-fd=1 "
		 "--toggle-collect=micro_measured '%s' --run %s --section %s --sizes %" PRIu64,
		 self(), r->r_case->mc_name, r->r_section, r->r_n);
	f = popen(command, "r");
	if (!f)
		bench_die(errno, "%s", command);
	while (fgets(line, sizeof(line), f)) {
		const char *at = strstr(line, "Collected :");

		if (at)
			collected = strtoull(at + 11, NULL, 10);
	}
	if (pclose(f) || !collected)
		bench_die(0, "valgrind gave no count for %s %s (is it installed?)",
			  r->r_case->mc_name, r->r_section);
	r->r_instructions = (double)collected / (double)r->r_ops;
}

static double cost(const struct result *r)
{
	return r->r_instructions > 0 ? r->r_instructions : r->r_ns;
}

/* How a cost grows from a to b, for a tenfold size. */
static double growth(const struct result *a, const struct result *b)
{
	double decades = log10((double)b->r_n / (double)a->r_n);

	if (decades <= 0 || cost(a) <= 0)
		return 0;
	return pow(cost(b) / cost(a), 1 / decades);
}

static struct result *same_section(const struct result *r, bool first)
{
	struct result *found = NULL;

	for (struct result *p = results; p < r; p++)
		if (p->r_case == r->r_case && !strcmp(p->r_section, r->r_section) &&
		    (!first || !found))
			found = p;
	return found;
}

static void print_row(const struct result *r)
{
	printf("%-9s %-22s %10" PRIu64 " %12.1f", r->r_case->mc_name, r->r_section, r->r_n,
	       r->r_ns);
	if (r->r_instructions > 0)
		printf(" %13.1f", r->r_instructions);
	else
		printf(" %13s", "-");
	if (r->r_growth > 0)
		printf(" %7.2f", r->r_growth);
	putchar('\n');
	fflush(stdout);
}

static void run_size(const struct options *o, const struct micro_case *c, uint64_t n)
{
	unsigned first = nresults;

	run_case(c, n);
	for (struct result *r = results + first; r < results + nresults; r++) {
		const struct result *before;

		if (o->callgrind)
			count_instructions(r);
		before = same_section(r, false);
		if (before)
			r->r_growth = growth(before, r);
		print_row(r);
	}
}

static void run_parent(const struct options *o)
{
	printf("%-9s %-22s %10s %12s %13s %7s\n", "case", "section", "n", "ns/op", "instr./op",
	       "growth");
	for (unsigned i = 0; i < o->ncases; i++) {
		const struct micro_case *c = o->cases[i];
		uint64_t max = o->max ? o->max : c->mc_default_max;

		for (unsigned s = 0; s < o->nsizes; s++)
			if (o->sizes[s] <= c->mc_max)
				run_size(o, c, o->sizes[s]);
		for (uint64_t n = 1000; !o->nsizes && n <= max && n <= c->mc_max; n *= 10)
			run_size(o, c, n);
	}
}

static void write_json(const char *path)
{
	FILE *f = bench_json_open(path);

	fputs("{\"program\": \"micro\", \"results\": [", f);
	for (unsigned i = 0; i < nresults; i++) {
		const struct result *r = &results[i];

		fprintf(f,
			"%s\n {\"case\": \"%s\", \"section\": \"%s\", \"n\": %" PRIu64
			", \"ops\": %" PRIu64 ", \"ns_per_op\": %.3f",
			i ? "," : "", r->r_case->mc_name, r->r_section, r->r_n, r->r_ops, r->r_ns);
		if (r->r_instructions > 0)
			fprintf(f, ", \"instructions_per_op\": %.3f", r->r_instructions);
		if (r->r_growth > 0)
			fprintf(f, ", \"growth\": %.3f", r->r_growth);
		fputc('}', f);
	}
	fputs("]}\n", f);
	bench_json_close(f, path);
}

/* True if no section grows by more than `most` for a tenfold size, first to last. */
static bool check(double most)
{
	bool good = true;

	for (unsigned i = 0; i < nresults; i++) {
		const struct result *r = &results[i], *first = same_section(r, true);
		bool last = true;

		for (unsigned k = i + 1; k < nresults; k++)
			if (results[k].r_case == r->r_case &&
			    !strcmp(results[k].r_section, r->r_section))
				last = false;
		if (!first || !last || growth(first, r) <= most)
			continue;
		printf("GROWS: %s %s: %.2f for a tenfold size\n", r->r_case->mc_name, r->r_section,
		       growth(first, r));
		good = false;
	}
	return good;
}

/* ---- Command line ---- */

static void list_cases(void)
{
	for (size_t i = 0; i < NCASES; i++)
		printf("%-9s %s\n", all_cases[i]->mc_name, all_cases[i]->mc_about);
}

static void parse_sizes(struct options *o, const char *list)
{
	char *text = strdup(list);
	char *rest = text;

	if (!text)
		bench_die(ENOMEM, "--sizes");
	while (rest) {
		const char *one = strsep(&rest, ",");

		if (o->nsizes == MAX_SIZES)
			bench_die(0, "at most %d sizes", MAX_SIZES);
		o->sizes[o->nsizes] = bench_parse_size(one, "--sizes");
		if (o->sizes[o->nsizes++] < 2)
			bench_die(0, "--sizes: from 2 on");
	}
	free(text);
}

static const char usage[] = "micro [CASE...] [--sizes N,N,... | --max N] [--callgrind] "
			    "[--check RATIO] [--json FILE] [--list]";

static void parse(int argc, char **argv, struct options *o)
{
	const char *sizes = NULL;
	bool list = false;
	const struct bench_option options[] = {
		{"sizes", BENCH_TEXT, &sizes},
		{"max", BENCH_SIZE, &o->max},
		{"callgrind", BENCH_FLAG, &o->callgrind},
		{"check", BENCH_REAL, &o->check},
		{"json", BENCH_TEXT, &o->json},
		{"list", BENCH_FLAG, &list},
		{"run", BENCH_TEXT, &o->run},
		{"section", BENCH_TEXT, &o->section},
		{NULL, BENCH_FLAG, NULL},
	};
	int first = bench_options(argc, argv, options, usage);

	if (list) {
		list_cases();
		exit(0);
	}
	if (sizes)
		parse_sizes(o, sizes);
	for (int i = first; i < argc; i++) {
		if (o->ncases == MAX_CASES)
			bench_usage(usage);
		o->cases[o->ncases++] = find_case(argv[i]);
	}
}

int main(int argc, char **argv)
{
	static struct options o;

	parse(argc, argv, &o);
	if (o.run && o.nsizes == 1)
		run_child(&o);
	if (!o.ncases) {
		memcpy(o.cases, all_cases, sizeof(all_cases));
		o.ncases = NCASES;
	}
	run_parent(&o);
	if (o.json)
		write_json(o.json);
	return o.check > 0 && !check(o.check);
}
