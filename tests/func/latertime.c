/* SPDX-License-Identifier: MIT */

/* For LD_PRELOAD: the clock of a program that is called $LATER_WHO is a test's. When it looks at
 * CLOCK_MONOTONIC and there is a file $LATER_DIR/PID, it takes that away, and the clock stands
 * still from there on, so many seconds later than it was as the file says. */

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static bool stands;
static struct timespec at;

static void take(const char *dir, const struct timespec *now)
{
	char path[4096], text[32] = "";
	int fd;

	(void)snprintf(path, sizeof(path), "%s/%d", dir, (int)getpid());
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return;
	if (read(fd, text, sizeof(text) - 1) < 0)
		abort();
	(void)close(fd);
	if (!stands)
		at = *now;
	stands = true;
	at.tv_sec += atoi(text);
	if (unlink(path) < 0)
		abort();
}

__attribute__((visibility("default"))) int clock_gettime(clockid_t id, struct timespec *ts)
{
	const char *who = getenv("LATER_WHO"), *dir = getenv("LATER_DIR");
	int r = (int)syscall(SYS_clock_gettime, id, ts), code = errno;

	if (r < 0 || id != CLOCK_MONOTONIC || !who || !dir ||
	    strcmp(program_invocation_short_name, who) != 0)
		return r;
	take(dir, ts);
	if (stands)
		*ts = at;
	errno = code;
	return 0;
}
