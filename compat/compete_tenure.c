/* SPDX-License-Identifier: MIT */
#include "compat/compete_tenure.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/json_get.h"
#include "base/mem.h"

#define LOOK_MS 20

static void __attribute__((noreturn))
become(const char *program, char *const *argv, int out, pid_t parent)
{
	if (setpgid(0, 0) < 0 || prctl(PR_SET_PDEATHSIG, SIGTERM) < 0 || getppid() != parent ||
	    dup2(out, STDOUT_FILENO) < 0 || dup2(out, STDERR_FILENO) < 0)
		_exit(1);
	(void)execvp(program, argv);
	(void)fprintf(stderr, "cannot run %s: %s\n", program, strerror(errno));
	(void)fflush(stderr);
	_exit(127);
}

int child_start(struct child *ch, const char *program, char *const *argv)
{
	pid_t self = getpid(), pid;
	int fds[2];

	if (pipe2(fds, O_CLOEXEC) < 0)
		return -errno;
	(void)fflush(NULL);
	pid = fork();
	if (pid == 0)
		become(program, argv, fds[1], self);

	int errnum = errno;

	(void)fd_close(fds[1]);
	if (pid < 0) {
		(void)fd_close(fds[0]);
		return -errnum;
	}
	(void)fcntl(fds[0], F_SETFL, O_NONBLOCK);
	*ch = (struct child){ .pid = pid, .fd = fds[0], .part = STRBUF_INIT };
	return 0;
}

static void tell(struct child *ch, child_line_fn fn, void *user)
{
	if (ch->part.len)
		fn(user, strbuf_str(&ch->part));
	strbuf_clear(&ch->part);
	ch->part = (struct strbuf)STRBUF_INIT;
}

bool child_hear(struct child *ch, child_line_fn fn, void *user)
{
	char buf[4096];
	ssize_t n = -1;
	bool any = false;

	while (ch->fd >= 0 && (n = read(ch->fd, buf, sizeof(buf))) > 0)
		for (ssize_t i = 0; i < n; i++) {
			any = any || buf[i] == '\n';
			if (buf[i] == '\n')
				tell(ch, fn, user);
			else if (buf[i])
				strbuf_addc(&ch->part, buf[i]);
		}
	if (ch->fd >= 0 && (n == 0 || (errno != EAGAIN && errno != EINTR)))
		ch->fd = fd_close(ch->fd);
	return any;
}

bool child_ended(struct child *ch, int *ret_code)
{
	int status = 0;
	pid_t r = ch->pid ? waitpid(ch->pid, &status, WNOHANG) : -1;

	if (!ch->pid || r == 0 || (r < 0 && errno == EINTR))
		return false;
	*ret_code = r > 0 && WIFEXITED(status) ? WEXITSTATUS(status) : 1;
	return true;
}

int child_wait(struct child *ch, child_line_fn fn, void *user)
{
	int code = 1;

	while (ch->pid && !child_ended(ch, &code)) {
		struct pollfd p = { .fd = ch->fd, .events = POLLIN };

		(void)poll(&p, 1, LOOK_MS);
		(void)child_hear(ch, fn, user);
	}
	(void)child_hear(ch, fn, user);
	tell(ch, fn, user);
	ch->fd = fd_close(ch->fd);
	ch->pid = 0;
	return code;
}

/* ---- what it has said ---- */

static bool is_there(const json_t *devices, json_int_t gpu)
{
	size_t i;
	json_t *d;

	json_array_foreach(devices, i,
			   d) if (json_integer_value(json_object_get(d, "gpu")) == gpu) return true;
	return false;
}

static void add_gpu(struct strbuf *b, long gpu)
{
	strbuf_addf(b, "%s%ld", b->len ? "," : "", gpu);
}

static int pick(const char *wanted, const json_t *devices, char **ret, char **ret_out,
		struct err *e)
{
	cleanup_strbuf struct strbuf here = STRBUF_INIT;
	cleanup_strbuf struct strbuf out = STRBUF_INIT;

	for (const char *p = wanted; *p;) {
		char *end;
		long gpu = strtol(p, &end, 10);

		add_gpu(is_there(devices, gpu) ? &here : &out, gpu);
		p = end + (*end == ',');
	}
	if (!here.len)
		return err_set(e, -ENODEV, "none of the GPUs in compete_gpus (%s) is here", wanted);
	*ret = strbuf_take(&here);
	*ret_out = out.len ? strbuf_take(&out) : NULL;
	return 0;
}

int compete_gpus_here(const char *wanted, const char *devices, char **ret, char **ret_out,
		      struct err *e)
{
	json_t *doc = json_loads(devices, 0, NULL);
	json_t *list = json_object_get(doc, "devices");
	int r = json_is_array(list) ? pick(wanted, list, ret, ret_out, e)
				    : err_set(e, -EINVAL, "the GPUs of this machine are not known");

	json_decref(doc);
	return r;
}

/* Of what has ended it only remains to write that down. */
static bool has_ended(const json_t *task)
{
	const char *state = json_get_str(task, "state");

	return state && strcmp(state, "filing") == 0;
}

static void add_task(struct strbuf *b, const json_t *task)
{
	const char *name = json_get_str(task, "name");

	strbuf_addf(b, "%s%lld%s%s (PID %lld)", b->len ? ", " : "",
		    (long long)json_integer_value(json_object_get(task, "id")), name ? " " : "",
		    name ? name : "", (long long)json_integer_value(json_object_get(task, "pid")));
}

size_t compete_left(const char *status, struct strbuf *names)
{
	const char *begin = strchr(status, '{'); /* behind notes, if there are any */
	json_t *doc = begin ? json_loads(begin, JSON_DISABLE_EOF_CHECK, NULL) : NULL;
	const json_t *task, *tasks = json_object_get(json_object_get(doc, "queue"), "tasks");
	size_t i, n = 0;

	json_array_foreach(tasks, i, task)
	{
		if (has_ended(task))
			continue;
		add_task(names, task);
		n++;
	}
	json_decref(doc);
	return n;
}
