/* SPDX-License-Identifier: MIT */
#include "agent/attempt/sweep.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/nofile.h"
#include "base/spawn.h"
#include "base/strbuf.h"
#include "base/units.h"
#include "task/sweep.h"

#define ARGS_MAX 16
#define LIMIT_MS 30000 /* it ends by itself before that, unless something of it hangs */

/* Freed when the process has ended, which is told by its output, and libuv has given that back. */
struct sweep_process {
	const struct sweep_place *place;
	pid_t pid;
	uv_pipe_t out;
	uv_timer_t limit;
	struct strbuf line;
	char buf[1024];
	void (*done)(void *user);
	void *user;
};

unsigned int sweep_of_clean(enum spec_clean clean)
{
	static const unsigned int bits[SPEC_CLEAN_MAX] = {
		[SPEC_CLEAN_GPU] = SWEEP_BIT(SWEEP_GPU),
		[SPEC_CLEAN_PYTHON] = SWEEP_BIT(SWEEP_PYTHON),
	};

	return clean < SPEC_CLEAN_MAX ? bits[clean] : 0;
}

static void on_out_closed(uv_handle_t *h)
{
	struct sweep_process *s = h->data;

	strbuf_clear(&s->line);
	free(s);
}

static void on_limit_closed(uv_handle_t *h)
{
	struct sweep_process *s = h->data;

	uv_close((uv_handle_t *)&s->out, on_out_closed);
}

static void tell_line(struct sweep_process *s)
{
	if (s->line.len)
		eventlog_say(s->place->eventlog, LOG_LEVEL_INFO, "sweep: %s", strbuf_str(&s->line));
	strbuf_clear(&s->line);
	s->line = (struct strbuf)STRBUF_INIT;
}

static void tell_done(struct sweep_process *s)
{
	void (*done)(void *user) = take_ptr(s->done);

	if (done)
		done(s->user);
}

static void end(struct sweep_process *s)
{
	(void)waitpid(s->pid, NULL, 0); /* its output ends with it */
	tell_line(s);
	tell_done(s);
	uv_close((uv_handle_t *)&s->limit, on_limit_closed);
}

/* In a driver or in /proc it may hang so that KILL does not end it either, while the task that it
 * was for, and all who wait for that, wait for it. */
static void on_limit(uv_timer_t *limit)
{
	struct sweep_process *s = limit->data;

	eventlog_say(s->place->eventlog, LOG_LEVEL_ERROR,
		     "sweep: it has not ended for %u s; it is killed, and not waited for",
		     LIMIT_MS / (unsigned int)MS_PER_S);
	(void)kill(s->pid, SIGKILL); /* not waited for yet, so the PID is its own */
	tell_done(s);
}

static void on_alloc(uv_handle_t *h, size_t size, uv_buf_t *buf)
{
	struct sweep_process *s = h->data;

	*buf = uv_buf_init(s->buf, sizeof(s->buf));
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
	struct sweep_process *s = stream->data;

	for (ssize_t i = 0; i < n; i++) {
		if (buf->base[i] == '\n')
			tell_line(s);
		else
			strbuf_addc(&s->line, buf->base[i]);
	}
	if (n >= 0)
		return;
	(void)uv_read_stop(stream);
	end(s);
}

static int spawn(struct sweep_process *s, char **args)
{
	struct spawn child = SPAWN_INIT;
	int fds[2], r;

	if (pipe2(fds, O_CLOEXEC) < 0)
		return -errno;
	child.program = s->place->self->program_fd;
	child.argv = args;
	child.env = environ;
	child.fds[STDOUT_FILENO] = child.fds[STDERR_FILENO] = fds[1];
	r = s->pid = spawn_start(&child);
	(void)fd_close(fds[1]);
	if (r > 0) {
		nofile_set_of(s->pid, s->place->self->nofile);
		r = uv_pipe_open(&s->out, fds[0]);
	}
	if (r < 0)
		(void)fd_close(fds[0]);
	return r;
}

/* An argument with its option; the text lives as long as the list. */
static void add(struct text_list *l, const char *option, const char *value)
{
	cleanup_free char *text = value ? xasprintf("%s=%s", option, value) : xstrdup(option);

	text_list_add(l, text);
}

static int start(struct sweep_process *s, unsigned int what, const char *gpus)
{
	char *args[ARGS_MAX] = { (char[]){ "tenure" }, (char[]){ "sweep" } };
	struct text_list words = { 0 };
	size_t n = 2;
	int r;

	for (unsigned int w = 0; w < SWEEP_WHAT_MAX; w++)
		if (what & SWEEP_BIT(w))
			add(&words, sweep_what_name(w), NULL);
	add(&words, "--end", NULL);
	if (what & SWEEP_BIT(SWEEP_GPU))
		add(&words, "--gpus", gpus);
	if (s->place->c->sweep_spare && *s->place->c->sweep_spare)
		add(&words, "--sweep-spare", s->place->c->sweep_spare);
	for (size_t i = 0; i < words.n; i++)
		args[n++] = words.texts[i];
	r = spawn(s, args);
	text_list_clear(&words);
	return r;
}

struct sweep_process *sweep_start(const struct sweep_place *place, unsigned int what,
				  const char *gpus, void (*done)(void *user), void *user)
{
	struct sweep_process *s;
	int r;

	if (!*gpus)
		what &= ~SWEEP_BIT(SWEEP_GPU);
	if (!what)
		return NULL;
	s = xcalloc(1, sizeof(*s));
	*s = (struct sweep_process){ .place = place, .done = done, .user = user };
	s->line = (struct strbuf)STRBUF_INIT;
	s->out.data = s->limit.data = s;
	(void)uv_pipe_init(place->loop, &s->out, 0);
	(void)uv_timer_init(place->loop, &s->limit);
	r = start(s, what, gpus);
	if (r == 0 && uv_read_start((uv_stream_t *)&s->out, on_alloc, on_read) == 0) {
		(void)uv_timer_start(&s->limit, on_limit, LIMIT_MS, 0);
		return s;
	}
	eventlog_say(place->eventlog, LOG_LEVEL_ERROR, "cannot end what is left: %s",
		     uv_strerror(r));
	uv_close((uv_handle_t *)&s->limit, on_limit_closed);
	return NULL;
}

struct sweep_process *sweep_forget(struct sweep_process *s)
{
	if (s)
		s->done = NULL;
	return NULL;
}
