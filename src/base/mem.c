/* SPDX-License-Identifier: MIT */
#include "base/mem.h"

#include <errno.h>
#include <malloc.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define KEPT_BYTES (4UL << 20)

static _Noreturn void out_of_memory(void)
{
	static const char text[] = "tenure: out of memory\n";
	ssize_t n = write(STDERR_FILENO, text, sizeof(text) - 1);

	(void)n;
	abort();
}

void *xmalloc(size_t size)
{
	void *p = malloc(size ? size : 1);

	if (!p)
		out_of_memory();
	return p;
}

void *xcalloc(size_t n, size_t size)
{
	void *p = calloc(n ? n : 1, size ? size : 1);

	if (!p)
		out_of_memory();
	return p;
}

void *xrealloc(void *p, size_t n, size_t size)
{
	size_t bytes;
	void *q = NULL;

	if (!__builtin_mul_overflow(n ? n : 1, size ? size : 1, &bytes))
		q = realloc(p, bytes);
	if (!q)
		out_of_memory();
	return q;
}

void *xgrow(void *p, size_t n, size_t size)
{
	return n & (n - 1) ? p : xrealloc(p, n ? 2 * n : 1, size);
}

int compare_u64(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

char *xstrdup(const char *s)
{
	char *p = strdup(s);

	if (!p)
		out_of_memory();
	return p;
}

char *xasprintf(const char *fmt, ...)
{
	char *p = NULL;
	va_list ap;

	va_start(ap, fmt);
	if (vasprintf(&p, fmt, ap) < 0)
		out_of_memory();
	va_end(ap);
	return p;
}

int fd_close(int fd)
{
	if (fd >= 0) {
		int saved = errno;

		(void)close(fd);
		errno = saved;
	}
	return -1;
}

/*
 * malloc() takes from the kernel directly what is large, but what that is grows with what was freed
 * (to 32 MiB), and of blocks that are small it gives back the last ones alone: one that is in use
 * keeps all before it.
 */
void mem_give_back(void)
{
	if (mallinfo2().fordblks > KEPT_BYTES)
		(void)malloc_trim(0);
}
