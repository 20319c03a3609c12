/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef UTIL_ERR_H
#define UTIL_ERR_H
/* Errors are negative errno values carried up; pointers carry them with ERR_PTR. */

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>

#define MAX_ERRNO 4095

/* As in the kernel: damaged structure, and bad checksum. */
#define EFSCORRUPTED EUCLEAN
#define EFSBADCRC EBADMSG

static inline void *ERR_PTR(long error)
{
	return (void *)(intptr_t)error;
}

static inline int PTR_ERR(const void *ptr)
{
	return (int)(intptr_t)ptr;
}

static inline bool IS_ERR(const void *ptr)
{
	return (uintptr_t)ptr >= (uintptr_t)-MAX_ERRNO;
}

#endif
