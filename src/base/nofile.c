/* SPDX-License-Identifier: MIT */
#include "base/nofile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdalign.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/str.h"

uint64_t nofile_raise(void)
{
	struct rlimit l;
	rlim_t was;

	if (getrlimit(RLIMIT_NOFILE, &l) < 0)
		return 0;
	was = l.rlim_cur;
	if (was >= NOFILE_MAX)
		return was;
	l.rlim_cur = l.rlim_max < NOFILE_MAX ? l.rlim_max : NOFILE_MAX;
	(void)setrlimit(RLIMIT_NOFILE, &l);
	return was;
}

uint64_t nofile_soft(void)
{
	struct rlimit l;

	return getrlimit(RLIMIT_NOFILE, &l) == 0 ? l.rlim_cur : 0;
}

/* As getdents64(2) gives it. */
struct entry {
	uint64_t inode;
	int64_t next;
	uint16_t size;
	uint8_t type;
	char name[];
};

static void close_entry(const struct entry *e, unsigned int from, unsigned int to, int but)
{
	uint64_t fd;

	if (str_to_u64(e->name, &fd) == 0 && fd >= from && fd <= to && fd != (uint64_t)but)
		(void)close((int)fd);
}

/*
 * Those that are open, of this thread, which may have a table of its own. By the bare call: after
 * fork() there may be no memory to get, as opendir() would.
 */
static int close_listed(unsigned int from, unsigned int to)
{
	alignas(struct entry) char buf[1024];
	int dir = open("/proc/thread-self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	long n;

	if (dir < 0)
		return -errno;
	while ((n = syscall(SYS_getdents64, dir, buf, sizeof(buf))) > 0)
		for (long at = 0; at < n;) {
			const struct entry *e = (const void *)(buf + at);

			close_entry(e, from, to, dir);
			at += e->size;
		}
	if (n < 0)
		n = -errno;
	(void)close(dir);
	return (int)n;
}

void nofile_close(unsigned int from, unsigned int to)
{
	/* Kernels before 5.9 do not have that, and some sandboxes forbid it. */
	if (syscall(SYS_close_range, from, to, 0U) == 0)
		return;

	if (close_listed(from, to) == 0)
		return;

	/* That can be a thousand million, as in some containers. */
	uint64_t end = nofile_soft();

	for (unsigned int fd = from; fd <= to && fd < end; fd++)
		(void)close((int)fd);
}

void nofile_set_of(pid_t pid, uint64_t soft)
{
	struct rlimit l;

	if (!soft || prlimit(pid, RLIMIT_NOFILE, NULL, &l) < 0 || soft > l.rlim_max)
		return;
	l.rlim_cur = soft;
	(void)prlimit(pid, RLIMIT_NOFILE, &l, NULL);
}
