/* SPDX-License-Identifier: MIT */
#include "base/nofile.h"

#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

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

void nofile_close(unsigned int from, unsigned int to)
{
	/* Kernels before 5.9 do not have that, and some sandboxes forbid it. */
	if (syscall(SYS_close_range, from, to, 0U) == 0)
		return;

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
