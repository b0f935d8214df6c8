/* SPDX-License-Identifier: MIT */
#include "task/logplace.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "task/logfile.h"

#define SEEN	     LOGPLACE_SEEN
#define PART	     LOGPLACE_PART
#define MOVE_LOOK_US 2000 /* while a log is moved: await_move() */
#define MOVE_LOOKS   1000
#define MOVE_QUIET   100

static void remember(struct logplace *p, const char *data, size_t n)
{
	size_t of_new = n < SEEN ? n : SEEN;
	size_t of_old = p->n_seen < SEEN - of_new ? p->n_seen : SEEN - of_new;

	(void)memmove(p->seen, p->seen + p->n_seen - of_old, of_old);
	(void)memcpy(p->seen + of_old, data + n - of_new, of_new);
	p->n_seen = of_old + of_new;
}

/* Whether the n bytes that were read, from n_seen before our place, go on with what we know. */
static bool has_moved(int fd, const struct logplace *p, const char *buf, size_t n)
{
	struct stat st;

	if (p->n_seen)
		return n < p->n_seen || memcmp(buf, p->seen, p->n_seen) != 0;
	return n == 0 && fstat(fd, &st) == 0 && st.st_size < p->at;
}

/* How many of the n bytes at our place are no hole that was cut into the log; 0: we are behind the
 * hole now, or the log has been cut again. A filesystem that cannot tell has none. */
static size_t skip_hole(int fd, struct logplace *p, const char *bytes, size_t n)
{
	struct stat st;
	off_t data, hole;

	if (!memchr(bytes, '\0', n))
		return n;
	data = lseek(fd, p->at, SEEK_DATA);
	if (data < 0 && errno == ENXIO && (fstat(fd, &st) < 0 || st.st_size < p->at + (off_t)n))
		return 0;
	if (data > p->at || (data < 0 && errno == ENXIO)) {
		p->at = data > p->at ? data : p->at + (off_t)n;
		p->n_seen = 0;
		return 0;
	}
	hole = lseek(fd, p->at, SEEK_HOLE);
	return hole > p->at && hole < p->at + (off_t)n ? (size_t)(hole - p->at) : n;
}

static bool is_same_time(const struct timespec *a, const struct timespec *b)
{
	return a->tv_sec == b->tv_sec && a->tv_nsec == b->tv_nsec;
}

/*
 * Where nothing can be cut out of a file its end is copied to the front, which may take a while:
 * what lies behind our place then is half old. It is over when the file is shorter, or when nobody
 * writes to it any more. What is a hole now was not copied.
 */
static void await_move(int fd, const struct logplace *p)
{
	struct stat st, before = { .st_size = -1 };
	unsigned int quiet = 0;
	off_t hole = lseek(fd, p->at - (off_t)p->n_seen, SEEK_HOLE);

	if (p->n_seen && hole >= 0 && hole < p->at)
		return;
	for (unsigned int i = 0; i < MOVE_LOOKS && quiet < MOVE_QUIET; i++) {
		if (fstat(fd, &st) < 0 || st.st_size < p->size || logfile_collapses(fd))
			return;
		quiet = st.st_size == before.st_size && is_same_time(&st.st_mtim, &before.st_mtim)
				? quiet + 1
				: 0;
		before = st;
		(void)usleep(MOVE_LOOK_US);
	}
}

/* All that is known before our place, and what follows it: how many bytes, or -errno. 0: it was cut
 * meanwhile, and our place is another one; or it is empty. */
static ssize_t read_part(int fd, struct logplace *p, char *buf, char *again)
{
	off_t from = p->at - (off_t)p->n_seen;
	struct stat st;
	ssize_t got = pread(fd, buf, SEEN + PART, from), same;

	if (got < 0)
		return -errno;
	if (has_moved(fd, p, buf, (size_t)got)) {
		await_move(fd, p);
		p->at = (off_t)logfile_find(fd, (uint64_t)p->at, p->seen, &p->n_seen);
		return 0;
	}
	same = pread(fd, again, (size_t)got, from);
	if (same != got || memcmp(buf, again, (size_t)got) != 0)
		return 0;
	if (fstat(fd, &st) == 0)
		p->size = st.st_size;
	return got;
}

void logplace_begin(int fd, struct logplace *p, off_t at)
{
	size_t n = at < SEEN ? (size_t)at : SEEN;

	*p = (struct logplace){ .at = at };
	if (pread(fd, p->seen, n, at - (off_t)n) == (ssize_t)n)
		p->n_seen = n;
}

ssize_t logplace_read(int fd, struct logplace *p, char *buf)
{
	cleanup_free char *part = xmalloc(SEEN + PART), *again = xmalloc(SEEN + PART);

	for (;;) {
		const struct logplace was = *p;
		ssize_t got = read_part(fd, p, part, again);
		size_t n;

		if (got < 0)
			return got;
		if (got == 0 && !was.n_seen && was.at == p->at)
			return 0; /* it is empty */
		if (got == 0)
			continue;
		n = (size_t)got - p->n_seen;
		if (!n)
			return 0;
		n = n < PART ? n : PART;
		n = skip_hole(fd, p, part + was.n_seen, n);
		if (!n)
			continue;
		(void)memcpy(buf, part + was.n_seen, n);
		remember(p, buf, n);
		p->at += (off_t)n;
		return (ssize_t)n;
	}
}
