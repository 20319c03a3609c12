/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * sandbox.c - a hostile image that takes over the daemon finds little to do.
 *
 * Capabilities go before the first thread is started, so all threads are without them: mounting is
 * the helper's work. The system call filter comes last, when every file is open, for all threads at once
 * (TSYNC). A call that is not listed fails with EPERM, so that a library that tries
 * something new meets an error, not the end. Files can still be opened for reading (/proc and /sys tell about memory
 * pressure), nothing can be made executable, nothing executed.
 *
 * Invariants: (1) after sandbox_filter_calls() no thread can execute a program, open a file for writing,
 * map executable memory, trace or signal another process.
 * Locking: none.
 */
#include "fuse/sandbox.h"

#include <cap-ng.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <seccomp.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "util/log.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
static const bool sanitized = true;
#else
static const bool sanitized = false;
#endif

/* Without conditions on their arguments. */
static const int allowed[] = {
	/* data */
	SCMP_SYS(read),
	SCMP_SYS(readv),
	SCMP_SYS(pread64),
	SCMP_SYS(preadv),
	SCMP_SYS(preadv2),
	SCMP_SYS(write),
	SCMP_SYS(writev),
	SCMP_SYS(pwrite64),
	SCMP_SYS(pwritev),
	SCMP_SYS(pwritev2),
	SCMP_SYS(fsync),
	SCMP_SYS(fdatasync),
	SCMP_SYS(sync_file_range),
	SCMP_SYS(fallocate),
	SCMP_SYS(ftruncate),
	SCMP_SYS(lseek),
	SCMP_SYS(_llseek),
	SCMP_SYS(io_uring_enter),
	SCMP_SYS(io_uring_register),
	SCMP_SYS(close),
	SCMP_SYS(dup),
	SCMP_SYS(dup2),
	SCMP_SYS(dup3),
	SCMP_SYS(chdir),
	SCMP_SYS(fcntl),
	SCMP_SYS(fcntl64),
	SCMP_SYS(fstat),
	SCMP_SYS(fstat64),
	SCMP_SYS(stat),
	SCMP_SYS(newfstatat),
	SCMP_SYS(fstatat64),
	SCMP_SYS(statx),
	SCMP_SYS(fstatfs),
	SCMP_SYS(fstatfs64),
	SCMP_SYS(readlink),
	SCMP_SYS(readlinkat),
	SCMP_SYS(getdents64),
	/* waiting */
	SCMP_SYS(poll),
	SCMP_SYS(ppoll),
	SCMP_SYS(ppoll_time64),
	SCMP_SYS(epoll_create1),
	SCMP_SYS(epoll_ctl),
	SCMP_SYS(epoll_wait),
	SCMP_SYS(epoll_pwait),
	SCMP_SYS(eventfd2),
	SCMP_SYS(timerfd_create),
	SCMP_SYS(timerfd_settime),
	SCMP_SYS(futex),
	SCMP_SYS(futex_time64),
	SCMP_SYS(nanosleep),
	SCMP_SYS(clock_nanosleep),
	SCMP_SYS(clock_nanosleep_time64),
	SCMP_SYS(clock_gettime),
	SCMP_SYS(clock_gettime64),
	SCMP_SYS(clock_getres),
	SCMP_SYS(gettimeofday),
	SCMP_SYS(time),
	SCMP_SYS(sched_yield),
	/* memory */
	SCMP_SYS(munmap),
	SCMP_SYS(mremap),
	SCMP_SYS(madvise),
	SCMP_SYS(brk),
	SCMP_SYS(mlock),
	SCMP_SYS(munlock),
	SCMP_SYS(membarrier),
	/* threads and signals of our own */
	SCMP_SYS(clone),
	SCMP_SYS(clone3),
	SCMP_SYS(exit),
	SCMP_SYS(exit_group),
	SCMP_SYS(set_robust_list),
	SCMP_SYS(rseq),
	SCMP_SYS(set_tid_address),
	SCMP_SYS(gettid),
	SCMP_SYS(getpid),
	SCMP_SYS(getppid),
	SCMP_SYS(sched_setaffinity),
	SCMP_SYS(sched_getaffinity),
	SCMP_SYS(rt_sigaction),
	SCMP_SYS(rt_sigprocmask),
	SCMP_SYS(rt_sigreturn),
	SCMP_SYS(sigreturn),
	SCMP_SYS(rt_sigtimedwait),
	SCMP_SYS(rt_sigtimedwait_time64),
	SCMP_SYS(sigaltstack),
	SCMP_SYS(restart_syscall),
	SCMP_SYS(wait4),
	SCMP_SYS(waitid),
	/* the rest of libc */
	SCMP_SYS(getuid),
	SCMP_SYS(geteuid),
	SCMP_SYS(getgid),
	SCMP_SYS(getegid),
	SCMP_SYS(getuid32),
	SCMP_SYS(geteuid32),
	SCMP_SYS(getgid32),
	SCMP_SYS(getegid32),
	SCMP_SYS(getrandom),
	SCMP_SYS(sysinfo),
	SCMP_SYS(uname),
	SCMP_SYS(getrusage),
	SCMP_SYS(getcpu),
	/* the helper and syslog */
	SCMP_SYS(sendto),
	SCMP_SYS(sendmsg),
	SCMP_SYS(recvmsg),
	SCMP_SYS(connect),
};

/* Block devices and the log. */
static const unsigned long allowed_ioctls[] = {
	BLKDISCARD, BLKZEROOUT, BLKFLSBUF, BLKSSZGET, BLKGETSIZE64, BLKROGET, 0x5401 /* TCGETS */,
};

int sandbox_drop_capabilities(bool keep_files)
{
	if (geteuid() != 0)
		return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 ? 0 : -errno;
	capng_clear(CAPNG_SELECT_BOTH);
	if (keep_files)
		capng_update(CAPNG_ADD, (capng_type_t)(CAPNG_EFFECTIVE | CAPNG_PERMITTED),
			     CAP_DAC_OVERRIDE);
	if (capng_apply(CAPNG_SELECT_CAPS) != 0)
		return -EPERM;
	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 ? 0 : -errno;
}

/* Calls that this architecture does not have are skipped. */
static int allow(scmp_filter_ctx ctx, int call)
{
	int err = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, call, 0);

	return err == -EDOM || err == -EOPNOTSUPP ? 0 : err;
}

static int allow_if(scmp_filter_ctx ctx, int call, struct scmp_arg_cmp cmp)
{
	int err = seccomp_rule_add_array(ctx, SCMP_ACT_ALLOW, call, 1, &cmp);

	return err == -EDOM || err == -EOPNOTSUPP ? 0 : err;
}

static int add_conditional(scmp_filter_ctx ctx)
{
	const struct {
		int call;
		struct scmp_arg_cmp cmp;
	} rules[] = {
		{SCMP_SYS(mmap), SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0)},
		{SCMP_SYS(mmap2), SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0)},
		{SCMP_SYS(mprotect), SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0)},
		{SCMP_SYS(open), SCMP_A1(SCMP_CMP_MASKED_EQ, O_ACCMODE | O_CREAT, O_RDONLY)},
		{SCMP_SYS(openat), SCMP_A2(SCMP_CMP_MASKED_EQ, O_ACCMODE | O_CREAT, O_RDONLY)},
		{SCMP_SYS(socket), SCMP_A0(SCMP_CMP_EQ, AF_UNIX)},
		{SCMP_SYS(kill), SCMP_A0(SCMP_CMP_EQ, (scmp_datum_t)getpid())},
		{SCMP_SYS(tgkill), SCMP_A0(SCMP_CMP_EQ, (scmp_datum_t)getpid())},
		{SCMP_SYS(prlimit64), SCMP_A2(SCMP_CMP_EQ, 0)},
		{SCMP_SYS(prctl), SCMP_A0(SCMP_CMP_EQ, PR_SET_NAME)},
		{SCMP_SYS(prctl), SCMP_A0(SCMP_CMP_EQ, PR_GET_NAME)},
		{SCMP_SYS(prctl), SCMP_A0(SCMP_CMP_EQ, 57 /* PR_SET_IO_FLUSHER */)},
	};
	int err = 0;

	for (size_t i = 0; err == 0 && i < sizeof(rules) / sizeof(rules[0]); i++)
		err = allow_if(ctx, rules[i].call, rules[i].cmp);
	for (size_t i = 0; err == 0 && i < sizeof(allowed_ioctls) / sizeof(allowed_ioctls[0]); i++)
		err = allow_if(ctx, SCMP_SYS(ioctl), SCMP_A1(SCMP_CMP_EQ, allowed_ioctls[i]));
	return err;
}

static int load_filter(scmp_filter_ctx ctx)
{
	int err = seccomp_attr_set(ctx, SCMP_FLTATR_CTL_TSYNC, 1);

	for (size_t i = 0; err == 0 && i < sizeof(allowed) / sizeof(allowed[0]); i++)
		err = allow(ctx, allowed[i]);
	if (err == 0)
		err = add_conditional(ctx);
	return err == 0 ? seccomp_load(ctx) : err;
}

int sandbox_filter_calls(void)
{
	scmp_filter_ctx ctx = seccomp_init(SCMP_ACT_ERRNO(EPERM));
	int err;

	if (ctx == NULL)
		return -ENOMEM;
	err = load_filter(ctx);
	seccomp_release(ctx);
	return err;
}

bool sandbox_possible(void)
{
	return !sanitized;
}
