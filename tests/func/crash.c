/* SPDX-License-Identifier: MIT */

/*
 * Loaded into the program by LD_PRELOAD: ends or delays one of its processes at the n-th call that
 * somebody else could see the effect of, so that a test can go through all of them.
 *
 *	CRASH=ROLE:ACTION:N:FILE
 *	ROLE	agent, guard, shims (the process that starts them), shim, or a client's command
 *	ACTION	kill: before the call; or a number of milliseconds to sleep before it
 *	FILE	of 8 bytes, which counts the calls of that role in all processes
 *
 * AHEAD=N: its clock on the wall is N seconds ahead of everybody else's.
 */

/* The calls themselves, under both of their names. */
#undef _FORTIFY_SOURCE
#undef _FILE_OFFSET_BITS

#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static const char *wanted;
static char action[16];
static unsigned long long at;
static _Atomic unsigned long long *count;
static char role[16];
static pid_t pid_then;
static long ahead_s;

static void find_role(void)
{
	char line[512] = "";
	FILE *f = fopen("/proc/self/cmdline", "re");
	size_t n = f ? fread(line, 1, sizeof(line) - 1, f) : 0;

	if (f)
		(void)fclose(f);

	const char *base = strrchr(line, '/') ? strrchr(line, '/') + 1 : line;
	size_t first = strlen(line) + 1;

	if (strncmp(base, "tenure-shims", 12) == 0)
		(void)strcpy(role, "shims");
	else if (strcmp(base, "tenure") == 0 && first < n && strlen(line + first) < sizeof(role))
		(void)strcpy(role, line + first); /* its command */
}

static void __attribute__((constructor)) set_up(void)
{
	static char spec[4096];
	const char *text = getenv("CRASH"), *seconds = getenv("AHEAD");
	char *part[4] = { spec };

	ahead_s = seconds ? strtol(seconds, NULL, 10) : 0;
	if (!text || strlen(text) >= sizeof(spec))
		return;
	(void)strcpy(spec, text);
	for (int i = 1; i < 4; i++) {
		part[i] = strchr(part[i - 1], ':');
		if (!part[i])
			return;
		*part[i]++ = '\0';
	}

	int fd = open(part[3], O_RDWR | O_CLOEXEC);
	void *map = fd < 0 ? MAP_FAILED
			   : mmap(NULL, sizeof(*count), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (fd >= 0)
		(void)close(fd);
	if (map == MAP_FAILED)
		return;
	wanted = part[0];
	(void)snprintf(action, sizeof(action), "%s", part[1]);
	at = strtoull(part[2], NULL, 10);
	find_role();
	pid_then = getpid();
	count = map;
}

static void step(void)
{
	/* A shim is what the process that starts them has forked. */
	const char *mine = getpid() == pid_then ? role : strcmp(role, "shims") == 0 ? "shim" : "";

	if (!count || strcmp(mine, wanted) != 0 || atomic_fetch_add(count, 1) + 1 != at)
		return;
	if (strcmp(action, "kill") == 0) {
		(void)kill(getpid(), SIGKILL);
		(void)pause();
	}
	(void)usleep((useconds_t)strtoul(action, NULL, 10) * 1000);
}

static bool seen_by_others(int fd)
{
	struct stat st;

	return fd > 2 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
#define OUR	   __attribute__((visibility("default")))

OUR int clock_gettime(clockid_t clock, struct timespec *ts)
{
	int r = (int)syscall(SYS_clock_gettime, clock, ts);

	if (r == 0 && clock == CLOCK_REALTIME)
		ts->tv_sec += ahead_s;
	return r;
}

OUR ssize_t send(int fd, const void *buf, size_t n, int flags)
{
	step();
	return REAL(send)(fd, buf, n, flags);
}

OUR ssize_t sendmsg(int fd, const struct msghdr *m, int flags)
{
	step();
	return REAL(sendmsg)(fd, m, flags);
}

OUR ssize_t write(int fd, const void *buf, size_t n)
{
	if (seen_by_others(fd))
		step();
	return syscall(SYS_write, fd, buf, n);
}

OUR int bind(int fd, const struct sockaddr *a, socklen_t len)
{
	step();
	return REAL(bind)(fd, a, len);
}

OUR pid_t fork(void)
{
	step();
	return REAL(fork)();
}

OUR int rename(const char *from, const char *to)
{
	step();
	return REAL(rename)(from, to);
}

OUR int renameat(int from_fd, const char *from, int to_fd, const char *to)
{
	step();
	return REAL(renameat)(from_fd, from, to_fd, to);
}

OUR int unlink(const char *path)
{
	step();
	return REAL(unlink)(path);
}

OUR int unlinkat(int fd, const char *path, int flags)
{
	step();
	return REAL(unlinkat)(fd, path, flags);
}

OUR int openat(int fd, const char *path, int flags, ...)
{
	__builtin_va_list ap;
	mode_t mode = 0;

	if (flags & (O_CREAT | O_TMPFILE)) {
		__builtin_va_start(ap, flags);
		mode = (mode_t) __builtin_va_arg(ap, int);
		__builtin_va_end(ap);
		if (flags & O_CREAT)
			step();
	}
	return (int)syscall(SYS_openat, fd, path, flags, mode);
}

OUR int openat64(int fd, const char *path, int flags, ...) __attribute__((alias("openat")));
