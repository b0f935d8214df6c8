/* SPDX-License-Identifier: MIT */

/* For LD_PRELOAD: a file whose path ends in $REPLACED is replaced by another of the same content,
 * as another node may do it, after it was opened and before it is looked at ($REPLACED_AT is
 * "fstat") or read ("read"); so often as $REPLACED_TIMES says. */

#define _GNU_SOURCE
#define _FILE_OFFSET_BITS 64
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int times = -1;

static void replace(const char *path)
{
	char text[4096], other[4096];
	int from = open(path, O_RDONLY | O_CLOEXEC), to;
	ssize_t n = pread(from, text, sizeof(text), 0);

	(void)snprintf(other, sizeof(other), "%s.new", path);
	to = open(other, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (from < 0 || to < 0 || n < 0 || write(to, text, (size_t)n) != n || close(from) < 0 ||
	    close(to) < 0 || rename(other, path) < 0)
		abort();
}

/* Whether it was done. */
static bool meet(const char *at, int fd)
{
	const char *when = getenv("REPLACED_AT"), *end = getenv("REPLACED"), *n;
	char link[64], path[4096];
	ssize_t len;

	if (!when || !end || strcmp(at, when) != 0)
		return false;
	n = getenv("REPLACED_TIMES");
	if (times < 0)
		times = n ? atoi(n) : 0;
	(void)snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	len = readlink(link, path, sizeof(path) - 1);
	if (!times || len < (ssize_t)strlen(end) ||
	    strncmp(path + len - strlen(end), end, strlen(end)) != 0)
		return false;
	path[len] = '\0';
	times--;
	replace(path);
	return true;
}

int fstat64(int fd, struct stat64 *st)
{
	static int (*real)(int, struct stat64 *);

	if (!real)
		*(void **)&real = dlsym(RTLD_NEXT, "fstat64");
	(void)meet("fstat", fd);
	return real(fd, st);
}

ssize_t read(int fd, void *buf, size_t n)
{
	static ssize_t (*real)(int, void *, size_t);

	if (!real)
		*(void **)&real = dlsym(RTLD_NEXT, "read");
	if (!meet("read", fd))
		return real(fd, buf, n);
	errno = ESTALE; /* as of NFS: FUSE reads what was open */
	return -1;
}

/* With _FORTIFY_SOURCE. */
ssize_t __read_chk(int fd, void *buf, size_t n, size_t size);
ssize_t __read_chk(int fd, void *buf, size_t n, size_t size)
{
	return read(fd, buf, n <= size ? n : size);
}
