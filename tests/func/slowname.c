/* SPDX-License-Identifier: MIT */

/* For LD_PRELOAD: a directory service that gives nobody's name while the file $SLOWNAME is there.
 * It writes into that file that it was asked, and makes it anew when it has answered. The first
 * thread of a process is not kept waiting. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdlib.h>
#include <unistd.h>

int getpwuid_r(uid_t uid, struct passwd *pw, char *buf, size_t size, struct passwd **ret)
{
	static int (*real)(uid_t, struct passwd *, char *, size_t, struct passwd **);
	const char *path = getenv("SLOWNAME");
	int fd, result;

	if (!real)
		*(void **)&real = dlsym(RTLD_NEXT, "getpwuid_r");
	fd = path && gettid() != getpid() ? open(path, O_WRONLY | O_APPEND | O_CLOEXEC) : -1;
	if (fd < 0 || write(fd, "asked\n", 6) != 6)
		return real(uid, pw, buf, size, ret);
	while (access(path, F_OK) == 0)
		usleep(1000);
	result = real(uid, pw, buf, size, ret);
	close(open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
	return result;
}
