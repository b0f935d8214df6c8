/* SPDX-License-Identifier: MIT */

/* For LD_PRELOAD: a kernel before 6.3, which does not know MFD_EXEC. */

#define _GNU_SOURCE
#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

int memfd_create(const char *name, unsigned int flags)
{
	if (flags & ~0x7U) {
		errno = EINVAL;
		return -1;
	}
	return (int)syscall(SYS_memfd_create, name, flags);
}
