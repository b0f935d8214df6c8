/* SPDX-License-Identifier: MIT */
#include "cli/doctor/newcomer.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"
#include "gpu/cuda.h"

#define STAY_US	     500000 /* long enough to be found in a list */
#define LIFE_LIMIT_S 30	    /* where nobody ends it and the driver hangs */

static int allocate(const char *uuid, uint64_t bytes, struct newcomer_report *rep, struct err *e)
{
	struct cuda c = { 0 };
	CUcontext ctx;
	CUdeviceptr at;
	CUdevice dev;
	uint64_t start;
	int r = setenv("CUDA_VISIBLE_DEVICES", uuid, 1) < 0 ? -errno : cuda_load(&c, e);

	if (r < 0)
		return r;
	start = clock_mono_ns();
	r = cuda_result(&c, c.init(0), e, "cuInit");
	if (r == 0)
		r = cuda_result(&c, c.device_get(&dev, 0), e, "cuDeviceGet");
	if (r == 0)
		r = cuda_result(&c, c.ctx_create(&ctx, 0, dev), e, "cuCtxCreate");
	if (r < 0)
		return r;
	rep->start_ns = clock_mono_ns() - start;
	rep->alloc_wall_ns = clock_wall_ns();
	return cuda_result(&c, c.mem_alloc(&at, bytes), e, "its first allocation");
}

static _Noreturn void be_newcomer(const char *uuid, uint64_t bytes, int fd)
{
	struct newcomer_report rep = { 0 };
	struct err e = ERR_INIT;

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	(void)alarm(LIFE_LIMIT_S);
	rep.code = allocate(uuid, bytes, &rep, &e);
	(void)str_copy(rep.text, sizeof(rep.text), rep.code < 0 ? e.text : "");
	if (write(fd, &rep, sizeof(rep)) == (ssize_t)sizeof(rep)) /* whole: less than PIPE_BUF */
		(void)usleep(STAY_US);
	_exit(0);
}

int newcomer_start(const char *uuid, uint64_t bytes, struct newcomer *ret, struct err *e)
{
	int ends[2];

	if (pipe2(ends, O_CLOEXEC) < 0)
		return err_sys(e, errno, "pipe");

	cleanup_fd int read_end = ends[0], write_end = ends[1];
	pid_t pid = fork();

	if (pid < 0)
		return err_sys(e, errno, "start a newcomer");
	if (pid == 0)
		be_newcomer(uuid, bytes, write_end);
	*ret = (struct newcomer){ .pid = pid, .fd = take_fd(read_end) };
	return 0;
}

int newcomer_end(struct newcomer *n, int limit_ms, struct newcomer_report *ret)
{
	struct pollfd p = { .fd = n->fd, .events = POLLIN };
	int r = poll(&p, 1, limit_ms) <= 0			 ? -ETIMEDOUT
		: read(n->fd, ret, sizeof(*ret)) == sizeof(*ret) ? 0
								 : -EPIPE;

	if (r < 0)
		(void)kill(n->pid, SIGKILL);
	n->fd = fd_close(n->fd);
	while (waitpid(n->pid, NULL, 0) < 0 && errno == EINTR)
		;
	n->pid = 0;
	return r;
}
