/* SPDX-License-Identifier: MIT */
#include "base/limited.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/proc.h"

#define REAP_NS (200 * NS_PER_MS) /* for a child that was killed */

void *limited_alloc(size_t size)
{
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

void *limited_free(void *shared, size_t size)
{
	if (shared)
		(void)munmap(shared, size);
	return NULL;
}

void limited_enter(int fd, pid_t parent)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	(void)setsid();
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent || null < 0)
		_exit(1);
	for (int i = STDIN_FILENO; i <= STDERR_FILENO; i++)
		(void)dup2(null, i);
	proc_fds_close(fd);
}

static _Noreturn void be_child(void (*fn)(void *shared), void *shared, int fd, pid_t parent)
{
	limited_enter(fd, parent);
	fn(shared);
	_exit(0);
}

/* Its end of the pipe is closed by its end. */
static bool has_ended(int fd, uint64_t limit_ms)
{
	const uint64_t until = clock_mono_ns() + limit_ms * NS_PER_MS;
	struct pollfd end = { .fd = fd, .events = POLLIN };
	uint64_t now;

	while ((now = clock_mono_ns()) < until)
		if (poll(&end, 1, (int)((until - now) / NS_PER_MS) + 1) > 0)
			return true;
	return false;
}

int limited_call(void (*fn)(void *shared), void *shared, uint64_t limit_ms, struct err *e)
{
	const struct timespec nap = clock_timespec(5 * NS_PER_MS);
	const pid_t self = getpid();
	int ends[2], status = 0;
	pid_t pid, reaped;
	bool ended;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return err_sys(e, errno, "pipe");

	cleanup_fd int read_end = ends[0], write_end = ends[1];

	pid = fork();
	if (pid < 0)
		return err_sys(e, errno, "start a process");
	if (pid == 0)
		be_child(fn, shared, write_end, self);
	write_end = fd_close(write_end);
	ended = has_ended(read_end, limit_ms);
	if (!ended)
		(void)kill(pid, SIGKILL);
	for (uint64_t reap = clock_mono_ns() + REAP_NS;
	     (reaped = waitpid(pid, &status, WNOHANG)) == 0 && clock_mono_ns() < reap;)
		(void)nanosleep(&nap, NULL);
	if (!ended)
		return err_set(e, -ETIMEDOUT, "no answer for %.0f s", (double)limit_ms / 1e3);
	if (reaped != pid || !WIFEXITED(status) || WEXITSTATUS(status) != 0)
		return err_set(e, -ECHILD, "it was ended before it had an answer");
	return 0;
}
