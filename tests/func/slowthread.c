/* SPDX-License-Identifier: MIT */

/* For LD_PRELOAD: whoever starts a thread goes on 500 ms after it, as it may on a busy machine. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <unistd.h>

int pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*start)(void *), void *arg)
{
	static int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);

	if (!real)
		*(void **)&real = dlsym(RTLD_NEXT, "pthread_create");

	int r = real(thread, attr, start, arg);

	usleep(500000);
	return r;
}
