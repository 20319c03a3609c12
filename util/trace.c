/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * trace.c - which events are on, and where they go.
 *
 * A switch has two halves that a place in the code tests with one load: the count of tracers attached to the USDT probe, which
 * the kernel changes when perf or bpftrace attach, and the ring's half. The ring is made when the first event
 * is switched on, and stays. There is one for the process, as there is one mount for a process.
 *
 * Without <sys/sdt.h> at build time there are no probes; the ring is the same.
 *
 * Invariants: (1) a switch whose ring half is on is switched on after `ring` was set. (2) Every entry of
 * events[] has as many conversions in its text as its struct has fields.
 * Locking: control_lock for switching, read_lock for the reader's side; neither is taken by trace_emit().
 */
#include "util/trace.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "util/assert.h"
#include "util/time.h"
#include "util/trace_text.h"

#ifdef EXT4D_HAVE_SDT
#define _SDT_HAS_SEMAPHORES 1
#define SDT_USE_VARIADIC 1
#include <sys/sdt.h>
#else
#define STAP_PROBEV(...)
#endif

#define RING_ORDER 13u /* 8192 events, 2 MiB */
#define SEPARATORS ",: \t\n"

/* ---- What the table becomes ---- */

#define EVENT_SWITCH(name, text, fields)                                                           \
	union trace_switch ext4d_##name##_semaphore __attribute__((section(".probes")));
TRACE_EVENTS(EVENT_SWITCH, EVENT_SWITCH, TRACE_NONE_, TRACE_NONE_, TRACE_NONE_)

/* A probe has at most 12 arguments. */
#define PROBE_FIELD(field) , e->field
#define EVENT_PROBE(name, text, fields)                                                            \
	static void probe_##name(const void *event)                                                \
	{                                                                                          \
		const struct trace_##name *e = event;                                              \
                                                                                                   \
		(void)e;                                                                           \
		STAP_PROBEV(ext4d, name fields);                                                   \
	}
#define LONG_PROBE(name, text, fields)                                                             \
	static void probe_##name(const void *event)                                                \
	{                                                                                          \
		const uint64_t *f = event;                                                         \
                                                                                                   \
		(void)f;                                                                           \
		STAP_PROBEV(ext4d, name, f[0], f[1], f[2], f[3], f[4], f[5], f[6], f[7], f[8],     \
			    f[9], f[10], f);                                                       \
	}
TRACE_EVENTS(EVENT_PROBE, LONG_PROBE, PROBE_FIELD, PROBE_FIELD, PROBE_FIELD)

struct event {
	struct trace_info ev_info;
	union trace_switch *ev_switch;
	void (*ev_probe)(const void *fields);
};

#define EVENT_ENTRY(name, text, fields)                                                            \
	{{#name, text, sizeof(struct trace_##name) / sizeof(uint64_t)},                            \
	 &ext4d_##name##_semaphore,                                                                \
	 probe_##name},
static const struct event events[TRACE_NR] = {
	TRACE_EVENTS(EVENT_ENTRY, EVENT_ENTRY, TRACE_NONE_, TRACE_NONE_, TRACE_NONE_)};

#define EVENT_FITS(name, text, fields)                                                             \
	_Static_assert(sizeof(struct trace_##name) <= TRACE_FIELDS_MAX * sizeof(uint64_t),         \
		       "the fields fit into a record");
TRACE_EVENTS(EVENT_FITS, EVENT_FITS, TRACE_NONE_, TRACE_NONE_, TRACE_NONE_)
_Static_assert(sizeof(union trace_switch) == 4, "both halves are read at once");

/* ---- An event ---- */

static _Atomic(struct trace_ring *) ring; /* [atomic] set once */

/* Who this thread is, asked once. */
struct self {
	uint32_t se_tid;
	char se_comm[TRACE_COMM_BYTES];
};
static __thread struct self self; /* [owner thread] */

static void know_self(void)
{
	if (self.se_tid != 0)
		return;
	self.se_tid = (uint32_t)syscall(SYS_gettid);
	if (pthread_getname_np(pthread_self(), self.se_comm, sizeof(self.se_comm)) != 0)
		memcpy(self.se_comm, "<...>", sizeof("<...>"));
}

static void record(enum trace_event event, const void *fields)
{
	struct trace_ring *to = atomic_load_explicit(&ring, memory_order_acquire);
	struct trace_record rec = {
		.tr_ns = now_ns(),
		.tr_event = (uint16_t)event,
		.tr_nr = events[event].ev_info.ti_nr,
	};
	int cpu = sched_getcpu();

	if (to == NULL)
		return;
	know_self();
	rec.tr_tid = self.se_tid;
	rec.tr_cpu = cpu > 0 ? (uint16_t)cpu : 0;
	memcpy(rec.tr_comm, self.se_comm, sizeof(rec.tr_comm));
	memcpy(rec.tr_field, fields, rec.tr_nr * sizeof(uint64_t));
	trace_ring_put(to, &rec);
}

static bool in_ring(const union trace_switch *ts)
{
	return __atomic_load_n(&ts->ts_ring, __ATOMIC_RELAXED) != 0;
}

void trace_emit(enum trace_event event, const void *fields)
{
	const struct event *ev = &events[event];

	if (in_ring(ev->ev_switch))
		record(event, fields);
	if (__atomic_load_n(&ev->ev_switch->ts_probes, __ATOMIC_RELAXED) != 0)
		ev->ev_probe(fields);
}

/* ---- Switching ---- */

static pthread_mutex_t control_lock = PTHREAD_MUTEX_INITIALIZER;

const char *trace_event_name(enum trace_event event)
{
	return events[event].ev_info.ti_name;
}

/* The event of that name; TRACE_NR: there is none. */
static unsigned find(const char *name, size_t len)
{
	unsigned i = 0;

	while (i < TRACE_NR && (strlen(events[i].ev_info.ti_name) != len ||
				memcmp(events[i].ev_info.ti_name, name, len) != 0))
		i++;
	return i;
}

static int parse(const char *list, bool on[TRACE_NR])
{
	const char *p = list + strspn(list, SEPARATORS);
	size_t len = strcspn(p, SEPARATORS);
	bool only = p[len + strspn(p + len, SEPARATORS)] == '\0';

	memset(on, 0, TRACE_NR * sizeof(on[0]));
	if (only && (len == 0 || (len == 4 && memcmp(p, "none", len) == 0)))
		return 0;
	if (only && len == 3 && memcmp(p, "all", len) == 0) {
		memset(on, true, TRACE_NR * sizeof(on[0]));
		return 0;
	}
	for (; len > 0; len = strcspn(p, SEPARATORS)) {
		unsigned event = find(p, len);

		if (event == TRACE_NR)
			return -EINVAL;
		on[event] = true;
		p += len;
		p += strspn(p, SEPARATORS);
	}
	return 0;
}

static int make_ring_locked(void)
{
	struct trace_ring *new;

	if (atomic_load(&ring) != NULL)
		return 0;
	new = trace_ring_create(RING_ORDER);
	if (new == NULL)
		return -ENOMEM;
	/* Pairs with the acquire in record(). */
	atomic_store_explicit(&ring, new, memory_order_release);
	return 0;
}

int trace_set_events(const char *list)
{
	bool on[TRACE_NR];
	int err = parse(list, on);

	if (err != 0)
		return err;
	pthread_mutex_lock(&control_lock);
	if (memchr(on, true, sizeof(on)) != NULL)
		err = make_ring_locked();
	for (unsigned i = 0; err == 0 && i < TRACE_NR; i++)
		__atomic_store_n(&events[i].ev_switch->ts_ring, on[i], __ATOMIC_RELAXED);
	pthread_mutex_unlock(&control_lock);
	return err;
}

static unsigned count_on(void)
{
	unsigned n = 0;

	for (unsigned i = 0; i < TRACE_NR; i++)
		n += in_ring(events[i].ev_switch);
	return n;
}

bool trace_ring_on(void)
{
	return count_on() > 0;
}

void trace_print_events(FILE *out)
{
	unsigned n = count_on();
	const char *between = "";

	if (n == 0 || n == TRACE_NR) {
		fputs(n == 0 ? "none" : "all", out);
		return;
	}
	for (unsigned i = 0; i < TRACE_NR; i++) {
		if (!in_ring(events[i].ev_switch))
			continue;
		fprintf(out, "%s%s", between, events[i].ev_info.ti_name);
		between = ",";
	}
}

/* ---- Reading ---- */

static pthread_mutex_t read_lock = PTHREAD_MUTEX_INITIALIZER;

/* The line that is being given out. */
static struct {
	char li_text[TRACE_LINE_MAX];
	size_t li_at, li_len;
	struct trace_record li_next; /* behind a line about losses */
	bool li_waiting;	     /* li_next is there */
} line;				     /* [read_lock] */

static _Atomic uint64_t nr_lost; /* [read_lock to change] */

/* The next line. False: there is none. */
static bool next_line_locked(void)
{
	struct trace_ring *from = atomic_load_explicit(&ring, memory_order_acquire);
	uint64_t lost = 0;

	line.li_at = 0;
	line.li_len = 0;
	if (!line.li_waiting && from != NULL)
		line.li_waiting = trace_ring_get(from, &line.li_next, &lost) == 1;
	if (lost > 0) {
		atomic_fetch_add_explicit(&nr_lost, lost, memory_order_relaxed);
		line.li_len = (size_t)snprintf(line.li_text, sizeof(line.li_text),
					       "[LOST %" PRIu64 " EVENTS]\n", lost);
		return true;
	}
	if (!line.li_waiting)
		return false;
	line.li_waiting = false;
	line.li_len = trace_format(&events[line.li_next.tr_event].ev_info, &line.li_next,
				   line.li_text, sizeof(line.li_text));
	return true;
}

size_t trace_read(char *buf, size_t size)
{
	size_t done = 0;

	pthread_mutex_lock(&read_lock);
	while (done < size) {
		size_t n = line.li_len - line.li_at;

		if (n == 0) {
			if (!next_line_locked())
				break;
			continue;
		}
		if (n > size - done)
			n = size - done;
		memcpy(buf + done, line.li_text + line.li_at, n);
		line.li_at += n;
		done += n;
	}
	pthread_mutex_unlock(&read_lock);
	return done;
}

uint64_t trace_nr_events(void)
{
	struct trace_ring *r = atomic_load_explicit(&ring, memory_order_acquire);

	return r != NULL ? trace_ring_count(r) : 0;
}

uint64_t trace_nr_lost(void)
{
	return atomic_load_explicit(&nr_lost, memory_order_relaxed);
}
