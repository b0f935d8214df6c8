/* SPDX-License-Identifier: MIT */

/* For LD_PRELOAD: who would lock a file, or remove one, is kept before it while the file $SLOWLOCK
 * is there, and writes into that file that it has come so far. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/file.h>
#include <unistd.h>

static void keep(void)
{
	const char *path = getenv("SLOWLOCK");
	int slow = path ? open(path, O_WRONLY | O_APPEND | O_CLOEXEC) : -1;

	if (slow < 0 || write(slow, "kept\n", 5) != 5 || close(slow) < 0)
		return;
	while (access(path, F_OK) == 0)
		usleep(1000);
}

int flock(int fd, int operation)
{
	static int (*real)(int, int);

	if (!real)
		*(void **)&real = dlsym(RTLD_NEXT, "flock");
	keep();
	return real(fd, operation);
}

int unlink(const char *file)
{
	static int (*real)(const char *);

	if (!real)
		*(void **)&real = dlsym(RTLD_NEXT, "unlink");
	keep();
	return real(file);
}
