/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * umlfp.c - an LD_PRELOAD shim for user-mode-linux 6.1 on CPUs with a large XSAVE area.
 *
 * That kernel keeps a guest process's floating point registers in a buffer of fixed size, but PTRACE_SETREGSET wants the whole
 * area (AVX-512, AMX): it fails and the guest dies. ptrace() is replaced: what does not fit into the caller's buffer is kept here, by
 * the buffer's address, and put back when that buffer is written to the process.
 *
 * Invariants: (1) an entry of the table is never removed. (2) A process gets back exactly the tail that was last read into the same
 * buffer, or, if there is none, one whose header says that only the legacy state is in use.
 * Locking: none; user-mode-linux has one kernel thread.
 */
#include <elf.h>
#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

#define AREA_MAX 12288u
#define SLOTS 4096u /* a power of two */
#define XSTATE_BV 512u
#define LEGACY_STATE UINT64_C(7) /* x87, SSE, AVX */

struct saved {
	const void *sv_key;
	uint8_t sv_area[AREA_MAX];
};

static struct saved table[SLOTS];
static uint8_t area[AREA_MAX] __attribute__((aligned(64)));
static size_t area_len;

static long raw_ptrace(long request, pid_t pid, void *addr, void *data)
{
	return syscall(SYS_ptrace, request, pid, addr, data);
}

static struct saved *find(const void *key, int add)
{
	size_t slot =
		(size_t)(((uint64_t)(uintptr_t)key >> 4) * UINT64_C(0x9E3779B97F4A7C15) >> 52);

	for (size_t n = 0; n < SLOTS; n++) {
		struct saved *sv = &table[(slot + n) % SLOTS];

		if (sv->sv_key == key)
			return sv;
		if (sv->sv_key == NULL) {
			if (!add)
				return NULL;
			sv->sv_key = key;
			return sv;
		}
	}
	return NULL;
}

static long get_xstate(pid_t pid, struct iovec *user)
{
	struct iovec whole = {area, sizeof(area)};
	long rc = raw_ptrace(PTRACE_GETREGSET, pid, (void *)NT_X86_XSTATE, &whole);
	struct saved *sv;

	if (rc < 0)
		return rc;
	area_len = whole.iov_len;
	if (user->iov_len > area_len)
		user->iov_len = area_len;
	memcpy(user->iov_base, area, user->iov_len);
	sv = find(user->iov_base, 1);
	if (sv != NULL)
		memcpy(sv->sv_area, area, area_len);
	return rc;
}

static long set_xstate(pid_t pid, const struct iovec *user)
{
	struct saved *sv = find(user->iov_base, 0);
	struct iovec whole = {area, sizeof(area)};
	size_t len;

	if (area_len == 0) {
		if (raw_ptrace(PTRACE_GETREGSET, pid, (void *)NT_X86_XSTATE, &whole) < 0)
			return -1;
		area_len = whole.iov_len;
	}
	len = user->iov_len < area_len ? user->iov_len : area_len;
	memset(area, 0, area_len);
	if (sv != NULL)
		memcpy(area, sv->sv_area, area_len);
	memcpy(area, user->iov_base, len);
	if (sv == NULL) {
		uint64_t bv;

		memcpy(&bv, area + XSTATE_BV, sizeof(bv));
		bv &= LEGACY_STATE;
		memcpy(area + XSTATE_BV, &bv, sizeof(bv));
	}
	whole.iov_len = area_len;
	return raw_ptrace(PTRACE_SETREGSET, pid, (void *)NT_X86_XSTATE, &whole);
}

long ptrace(enum __ptrace_request request, ...)
{
	void *addr, *data;
	va_list args;
	pid_t pid;
	long word;

	va_start(args, request);
	pid = va_arg(args, pid_t);
	addr = va_arg(args, void *);
	data = va_arg(args, void *);
	va_end(args);
	if ((uintptr_t)addr == NT_X86_XSTATE && request == PTRACE_GETREGSET)
		return get_xstate(pid, data);
	if ((uintptr_t)addr == NT_X86_XSTATE && request == PTRACE_SETREGSET)
		return set_xstate(pid, data);
	if (request != PTRACE_PEEKTEXT && request != PTRACE_PEEKDATA && request != PTRACE_PEEKUSER)
		return raw_ptrace(request, pid, addr, data);
	if (raw_ptrace(request, pid, addr, &word) < 0)
		return -1;
	errno = 0;
	return word;
}
