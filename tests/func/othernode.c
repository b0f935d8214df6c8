/* SPDX-License-Identifier: MIT */

/*
 * For LD_PRELOAD: the process is one of another node, as far as two agents of one instance can tell
 * on this machine. OTHER_NODE=NAME,NUMBER is its host's name and the namespace of its PIDs, which
 * is what tells containers on one kernel apart. OTHER_FS=local: a FUSE mount is a local disk, where
 * claims expire as soon as they are told to. OTHER_CLOCK=SECONDS: its wall clock is so far ahead.
 */

#undef _FORTIFY_SOURCE /* its inline definitions of what is defined here */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#define OUR	   __attribute__((visibility("default")))
#define EXT4_MAGIC 0xef53
#define FUSE_MAGIC 0x65735546

OUR int gethostname(char *name, size_t size)
{
	const char *node = getenv("OTHER_NODE");

	(void)snprintf(name, size, "%.*s", node ? (int)strcspn(node, ",") : 4,
		       node ? node : "node");
	return 0;
}

OUR ssize_t readlink(const char *path, char *buf, size_t size)
{
	ssize_t (*next)(const char *, char *, size_t) =
		(ssize_t(*)(const char *, char *, size_t))dlsym(RTLD_NEXT, "readlink");
	const char *node = getenv("OTHER_NODE");
	const char *number = node ? strchr(node, ',') : NULL;
	char text[64];
	int n;

	if (!number || strcmp(path, "/proc/self/ns/pid") != 0)
		return next(path, buf, size);
	n = snprintf(text, sizeof(text), "pid:[%s]", number + 1);
	(void)memcpy(buf, text, (size_t)n < size ? (size_t)n : size);
	return (size_t)n < size ? n : (ssize_t)size;
}

OUR int clock_gettime(clockid_t id, struct timespec *ts)
{
	const char *ahead = getenv("OTHER_CLOCK");
	int r = (int)syscall(SYS_clock_gettime, id, ts);

	if (r == 0 && ahead && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE))
		ts->tv_sec += atol(ahead);
	return r;
}

OUR time_t time(time_t *ret)
{
	struct timespec ts = { .tv_sec = 0 };

	(void)clock_gettime(CLOCK_REALTIME, &ts);
	if (ret)
		*ret = ts.tv_sec;
	return ts.tv_sec;
}

/* What a compiler that fortifies more than gcc calls (tools/dist). */
OUR int __gethostname_chk(char *name, size_t size, size_t room);
OUR int __gethostname_chk(char *name, size_t size, size_t room)
{
	return gethostname(name, size < room ? size : room);
}

OUR ssize_t __readlink_chk(const char *path, char *buf, size_t size, size_t room);
OUR ssize_t __readlink_chk(const char *path, char *buf, size_t size, size_t room)
{
	return readlink(path, buf, size < room ? size : room);
}

static int local_if_asked(int r, struct statfs64 *fs)
{
	const char *wanted = getenv("OTHER_FS");

	if (r == 0 && wanted && strcmp(wanted, "local") == 0 && fs->f_type == FUSE_MAGIC)
		fs->f_type = EXT4_MAGIC;
	return r;
}

OUR int fstatfs64(int fd, struct statfs64 *fs)
{
	int (*next)(int, struct statfs64 *) =
		(int (*)(int, struct statfs64 *))dlsym(RTLD_NEXT, "fstatfs64");

	return local_if_asked(next(fd, fs), fs);
}

OUR int open64(const char *path, int flags, ...)
{
	int (*next)(const char *, int, ...) =
		(int (*)(const char *, int, ...))dlsym(RTLD_NEXT, "open64");
	const char *boot = getenv("OTHER_BOOT");
	unsigned int mode = 0;
	va_list ap;

	if (flags & (O_CREAT | O_TMPFILE)) {
		va_start(ap, flags);
		mode = va_arg(ap, unsigned int);
		va_end(ap);
	}
	if (boot && strcmp(path, "/proc/sys/kernel/random/boot_id") == 0)
		path = boot;
	return next(path, flags, mode);
}
