/* SPDX-License-Identifier: MIT */

/* The other process that some facts need: this program again. */
#include "facts.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static bool child_line(struct child *c, int timeout_ms)
{
	double until = now_ms() + timeout_ms;
	size_t len = 0;

	while (len + 1 < sizeof(c->line)) {
		struct pollfd p = { .fd = c->out, .events = POLLIN };
		int left = (int)(until - now_ms());

		if (left <= 0 || poll(&p, 1, left) <= 0 || read(c->out, c->line + len, 1) != 1)
			break;
		if (c->line[len] == '\n') {
			c->line[len] = '\0';
			return true;
		}
		len++;
	}
	c->line[len] = '\0';
	return false;
}

/* env: "NAME=value" for the child, or NULL. False: it did not say anything. */
bool child_start(struct child *c, const char *what, const char *env)
{
	int in[2], out[2];

	if (pipe2(in, O_CLOEXEC) < 0 || pipe2(out, O_CLOEXEC) < 0)
		return false;
	c->pid = fork();
	if (c->pid == 0) {
		(void)dup2(in[0], 0);
		(void)dup2(out[1], 1);
		if (env) {
			char name[64];

			(void)snprintf(name, sizeof(name), "%.*s", (int)strcspn(env, "="), env);
			(void)setenv(name, strchr(env, '=') + 1, 1);
		}
		(void)execl("/proc/self/exe", "/proc/self/exe", "--child", what, (char *)NULL);
		_exit(127);
	}
	(void)close(in[0]);
	(void)close(out[1]);
	c->in = in[1];
	c->out = out[0];
	return c->pid > 0 && child_line(c, 20000);
}

void child_end(struct child *c, int sig)
{
	if (sig)
		(void)kill(c->pid, sig);
	(void)close(c->in);
	(void)waitpid(c->pid, NULL, 0);
	(void)close(c->out);
}

CUresult make_context(void)
{
	CUcontext ctx;
	CUresult r = cuda.cuDevicePrimaryCtxRetain(&ctx, ordinal);

	return r == CUDA_SUCCESS ? cuda.cuCtxSetCurrent(ctx) : r;
}

/* What the child does: "hold" 512 MiB, "list" what it sees. */
int child_main(const char *what)
{
	char text[64], byte;
	CUdeviceptr p;
	int n = 0;
	CUresult r;

	if (load_cuda() < 0)
		return 1;
	r = cuda.cuInit(0);
	if (strcmp(what, "list") == 0) {
		if (r == CUDA_SUCCESS)
			(void)cuda.cuDeviceGetCount(&n);
		(void)printf("%d", n);
		for (int d = 0; d < n; d++) {
			uuid_text(d, text, sizeof(text));
			(void)printf(" %s", text);
		}
	} else {
		if (r == CUDA_SUCCESS)
			r = make_context();
		if (r == CUDA_SUCCESS)
			r = cuda.cuMemAlloc_v2(&p, 512 * MIB);
		(void)printf("%d", (int)r);
	}
	(void)putchar('\n');
	(void)fflush(stdout);
	while (read(0, &byte, 1) > 0)
		;
	return 0;
}
