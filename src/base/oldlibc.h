/* SPDX-License-Identifier: MIT */
#ifndef TENURE_BASE_OLDLIBC_H
#define TENURE_BASE_OLDLIBC_H

/*
 * What the C library of older systems lacks, down to glibc 2.17: compute nodes often have one, and
 * the archive that runs everywhere (tools/dist) is linked against it. Each is the system call
 * itself, or what was there before; where the library has it, nothing of this is. The build forces
 * this header into every file, as base/banned.h.
 *
 * The kernel may be old as well, so callers expect ENOSYS of each (docs/design.md, section 10).
 */

#include <features.h>

#if !__GLIBC_PREREQ(2, 25)
#include <sys/types.h>

ssize_t getrandom(void *buf, size_t len, unsigned int flags);
#endif

#if !__GLIBC_PREREQ(2, 27)
#include <linux/memfd.h>

/* With <sys/mman.h> and <fcntl.h>. */
#define F_ADD_SEALS   1033
#define F_SEAL_SEAL   0x0001
#define F_SEAL_SHRINK 0x0002
#define F_SEAL_GROW   0x0004
#define F_SEAL_WRITE  0x0008

int memfd_create(const char *name, unsigned int flags);
#endif

#if !__GLIBC_PREREQ(2, 28)
#include <linux/stat.h>

/* With <fcntl.h>. */
#define AT_STATX_FORCE_SYNC 0x2000
#define AT_STATX_DONT_SYNC  0x4000

int statx(int dir_fd, const char *path, int flags, unsigned int mask, struct statx *ret);
#endif

#if !__GLIBC_PREREQ(2, 31)
#include <pthread.h>

/* That limit was a time of day before, so here it looks again and again. */
int pthread_clockjoin_np(pthread_t thread, void **ret, clockid_t clock,
			 const struct timespec *until);
#endif

#if !__GLIBC_PREREQ(2, 33)
#include <malloc.h>

/* The one figure that is used; modulo 4 GiB. Some headers declare what the library lacks. */
struct mallinfo_old {
	size_t fordblks;
};

struct mallinfo_old mallinfo_old(void);
#define mallinfo2 mallinfo_old
#endif

#endif
