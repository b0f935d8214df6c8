/* SPDX-License-Identifier: MIT */

/* For LD_PRELOAD: a process that is not run for 12 ms after each look into a file, as on a busy
 * machine. */

#define _GNU_SOURCE
#define _FILE_OFFSET_BITS 64
#include <dlfcn.h>
#include <unistd.h>

ssize_t pread64(int fd, void *buf, size_t n, off64_t at)
{
	static ssize_t (*real)(int, void *, size_t, off64_t);

	if (!real)
		*(void **)&real = dlsym(RTLD_NEXT, "pread64");

	ssize_t got = real(fd, buf, n, at);

	usleep(12000);
	return got;
}
