/* SPDX-License-Identifier: MIT */
#ifndef TENURE_BASE_MEM_H
#define TENURE_BASE_MEM_H

/*
 * Allocation and ownership.
 *
 * x*() never return NULL: a process that is out of memory ends at once with a message. That is the
 * safe side for every process of ours: a dead guard or holder frees its devices (docs/design.md,
 * invariant 2), a dead agent is replaced, and nothing half-built goes on.
 *
 * Ownership is shown by the cleanup attributes: a constructor builds into a variable that is marked
 * with one of them and hands it over with take_ptr()/take_fd() when all has succeeded.
 */

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

void *xmalloc(size_t size) __attribute__((malloc, returns_nonnull));
void *xcalloc(size_t n, size_t size) __attribute__((malloc, returns_nonnull));
void *xrealloc(void *p, size_t n, size_t size) __attribute__((returns_nonnull));
/*
 * Room for one more behind the n elements of p. It doubles at every power of two, so that a hundred
 * thousand are not copied often; so all of an array must have been added one by one, from n == 0
 * on.
 */
void *xgrow(void *p, size_t n, size_t size) __attribute__((returns_nonnull));
/* For qsort() and bsearch(): of two uint64_t, or of structs that begin with one. */
int compare_u64(const void *a, const void *b);
char *xstrdup(const char *s) __attribute__((malloc, returns_nonnull));
char *xasprintf(const char *fmt, ...) __attribute__((format(printf, 1, 2), returns_nonnull));

/* Close unless negative; errno is kept. Returns -1 so that `fd = fd_close(fd)` reads well. */
int fd_close(int fd);

static inline void cleanup_free_(void *p)
{
	free(*(void **)p);
}

static inline void cleanup_fd_(int *fd)
{
	(void)fd_close(*fd);
}

/*
 * What was freed, and malloc() keeps for later, goes back to the kernel if it is some MiB. For a
 * process that stays for weeks, behind work that may have needed very much for a moment; takes
 * milliseconds where what is free is in very many pieces. Any thread may call it.
 */
void mem_give_back(void);

#define cleanup_free __attribute__((cleanup(cleanup_free_)))
#define cleanup_fd   __attribute__((cleanup(cleanup_fd_)))

#define take_ptr(p)                                                                                \
	({                                                                                         \
		__typeof__(p) take_tmp_ = (p);                                                     \
		(p) = NULL;                                                                        \
		take_tmp_;                                                                         \
	})

#define take_fd(fd)                                                                                \
	({                                                                                         \
		int take_tmp_ = (fd);                                                              \
		(fd) = -1;                                                                         \
		take_tmp_;                                                                         \
	})

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

#endif
