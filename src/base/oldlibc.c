/* SPDX-License-Identifier: MIT */
#include "base/oldlibc.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#if !__GLIBC_PREREQ(2, 25)
ssize_t getrandom(void *buf, size_t len, unsigned int flags)
{
	return syscall(SYS_getrandom, buf, len, flags);
}
#endif

#if !__GLIBC_PREREQ(2, 27)
int memfd_create(const char *name, unsigned int flags)
{
	return (int)syscall(SYS_memfd_create, name, flags);
}
#endif

#if !__GLIBC_PREREQ(2, 28)
int statx(int dir_fd, const char *path, int flags, unsigned int mask, struct statx *ret)
{
	return (int)syscall(SYS_statx, dir_fd, path, flags, mask, ret);
}

/*
 * What Debian's static libraries call where they say fcntl(): with offsets of 64 bits, as it always
 * has been on these machines. Each of its third arguments is an int, a long or a pointer, which are
 * passed alike.
 */
int fcntl64(int fd, int command, ...) __attribute__((visibility("hidden")));
int fcntl64(int fd, int command, ...)
{
	va_list list;
	void *arg;

	va_start(list, command);
	arg = va_arg(list, void *);
	va_end(list);
	return fcntl(fd, command, arg);
}

/*
 * The C library has this variable under three names. A linker that is shown a list of its symbols
 * (zig's) instead of the library does not know that they are one: the program had an environ of its
 * own then, which nobody ever sets. So all three are here, and the library takes them for its own,
 * as it does with each variable that a program has a copy of.
 */
#define PUBLIC __attribute__((visibility("default")))

extern char **__environ PUBLIC;
char **__environ;
extern char **environ __attribute__((alias("__environ"))) PUBLIC;
extern char **_environ __attribute__((alias("__environ"))) PUBLIC;
#endif

#if !__GLIBC_PREREQ(2, 28)
/*
 * What static libraries of newer systems (glibc 2.38) call where they say strtol() and so on: the
 * same, and 0b101 is a number, too, which none of them needs.
 */
long __isoc23_strtol(const char *text, char **end, int base);
long __isoc23_strtol(const char *text, char **end, int base)
{
	return strtol(text, end, base);
}

long long __isoc23_strtoll(const char *text, char **end, int base);
long long __isoc23_strtoll(const char *text, char **end, int base)
{
	return strtoll(text, end, base);
}

int __isoc23_vsscanf(const char *text, const char *format, va_list list);
int __isoc23_vsscanf(const char *text, const char *format, va_list list)
{
	return vsscanf(text, format, list);
}

int __isoc23_sscanf(const char *text, const char *format, ...);
int __isoc23_sscanf(const char *text, const char *format, ...)
{
	va_list list;

	va_start(list, format);

	int r = vsscanf(text, format, list);

	va_end(list);
	return r;
}
#endif

#if !__GLIBC_PREREQ(2, 31)
#define LOOK_NS 5000000L

int pthread_clockjoin_np(pthread_t thread, void **ret, clockid_t clock,
			 const struct timespec *until)
{
	static const struct timespec step = { .tv_nsec = LOOK_NS };
	struct timespec now;
	int r;

	while ((r = pthread_tryjoin_np(thread, ret)) == EBUSY) {
		(void)clock_gettime(clock, &now);
		if (now.tv_sec > until->tv_sec ||
		    (now.tv_sec == until->tv_sec && now.tv_nsec >= until->tv_nsec))
			return ETIMEDOUT;
		(void)nanosleep(&step, NULL);
	}
	return r;
}
#endif

#if !__GLIBC_PREREQ(2, 33)
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
struct mallinfo_old mallinfo_old(void)
{
	return (struct mallinfo_old){ .fordblks = (unsigned int)mallinfo().fordblks };
}
#endif

#if defined(__aarch64__) && defined(__clang__) && !__GLIBC_PREREQ(2, 28)
/*
 * gcc's __sync_val_compare_and_swap() as a function, which Debian's libuv calls. It is in gcc's
 * library and not yet in clang's.
 */
uint32_t __aarch64_cas4_sync(uint32_t expected, uint32_t desired, uint32_t *at);
uint32_t __aarch64_cas4_sync(uint32_t expected, uint32_t desired, uint32_t *at)
{
	(void)__atomic_compare_exchange_n(at, &expected, desired, false, __ATOMIC_SEQ_CST,
					  __ATOMIC_SEQ_CST);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	return expected;
}
#endif
