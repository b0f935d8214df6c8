/* SPDX-License-Identifier: MIT */

/* For LD_PRELOAD: whoever has read a file whose path ends in $STOP_AT_END to its end is stopped
 * there (SIGSTOP), as one that has no time on a busy machine, once for each file $STOP_ONCE that is
 * made. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int is_file(int fd, const char *end)
{
	char link[64], path[4096];
	ssize_t n;

	(void)snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = readlink(link, path, sizeof(path) - 1);
	if (n < (ssize_t)strlen(end))
		return 0;
	path[n] = '\0';
	return strcmp(path + n - strlen(end), end) == 0;
}

ssize_t read(int fd, void *buf, size_t n)
{
	static ssize_t (*real)(int, void *, size_t);
	const char *end = getenv("STOP_AT_END"), *once = getenv("STOP_ONCE");

	if (!real)
		*(void **)&real = dlsym(RTLD_NEXT, "read");

	ssize_t got = real(fd, buf, n);

	if (got == 0 && end && once && is_file(fd, end) && unlink(once) == 0)
		(void)raise(SIGSTOP);
	return got;
}

/* With _FORTIFY_SOURCE. */
ssize_t __read_chk(int fd, void *buf, size_t n, size_t size);
ssize_t __read_chk(int fd, void *buf, size_t n, size_t size)
{
	return read(fd, buf, n <= size ? n : size);
}
